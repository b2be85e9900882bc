//! A terminal that is written to in few bytes: for a view over ssh, and of lists that move by a line.
//!
//! ratatui's own backend places the cursor before every run of changed cells and sets both colours whenever one
//! changes. This one knows what the terminal shows: short gaps are written again where that is shorter than to jump
//! over them, and attributes that nobody sees in a blank are not set.

use std::fmt::Write as _;
use std::io::{self, Write};

use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr as _;

/// The terminal behind `inner`.
#[derive(Debug)]
pub(super) struct Compact<W: Write> {
    inner: CrosstermBackend<W>,
    /// Cells shown, line by line, as far as they are known.
    shown: Vec<Vec<Option<Cell>>>,
}

impl<W: Write> Compact<W> {
    pub(super) const fn new(writer: W) -> Self {
        Self { inner: CrosstermBackend::new(writer), shown: Vec::new() }
    }

    fn remember(&mut self, (x, y): (usize, usize), cell: &Cell, width: usize) {
        if self.shown.len() <= y {
            self.shown.resize(y + 1, Vec::new());
        }
        let Some(line) = self.shown.get_mut(y) else { return };
        if line.len() < x + width {
            line.resize(x + width, None);
        }
        for (at, place) in line.iter_mut().skip(x).take(width).enumerate() {
            // The second half of a wide letter is not written alone.
            *place = (at == 0 && width == 1).then(|| cell.clone());
        }
    }

    /// The letters between two places of a line, where they are known and look like what is written now.
    fn between(&self, y: usize, columns: std::ops::Range<usize>, pen: Pen) -> Option<String> {
        let cells = self.shown.get(y)?.get(columns)?;
        cells.iter().map(|cell| cell.as_ref().filter(|cell| pen.shows(cell)).map(Cell::symbol)).collect()
    }

    /// Goes from a place, where it is known, to another.
    fn go(&self, out: &mut String, from: Option<(usize, usize)>, (x, y): (usize, usize), pen: Pen) {
        let jump = match from {
            Some((at, line)) if line == y && at < x => match x - at {
                1 => "\u{1b}[C".to_owned(),
                n => format!("\u{1b}[{n}C"),
            },
            _ if x == 0 => format!("\u{1b}[{}H", y + 1),
            _ => format!("\u{1b}[{};{}H", y + 1, x + 1),
        };
        let written = from.filter(|(at, line)| *line == y && *at < x && x - at <= jump.len());
        let written = written.and_then(|(at, _)| self.between(y, at..x, pen));
        out.push_str(&written.filter(|text| text.len() <= jump.len()).unwrap_or(jump));
    }
}

/// Attributes of what is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pen {
    front: Color,
    back: Color,
    modifier: Modifier,
}

/// Attributes that a blank has too.
const SEEN_IN_BLANK: Modifier = Modifier::REVERSED.union(Modifier::UNDERLINED).union(Modifier::CROSSED_OUT);
/// Attributes with the numbers that set and clear them.
const ATTRIBUTES: [(Modifier, u8, u8); 9] = [
    (Modifier::BOLD, 1, 22),
    (Modifier::DIM, 2, 22),
    (Modifier::ITALIC, 3, 23),
    (Modifier::UNDERLINED, 4, 24),
    (Modifier::SLOW_BLINK, 5, 25),
    (Modifier::RAPID_BLINK, 6, 25),
    (Modifier::REVERSED, 7, 27),
    (Modifier::HIDDEN, 8, 28),
    (Modifier::CROSSED_OUT, 9, 29),
];

impl Pen {
    const fn of(cell: &Cell) -> Self {
        Self { front: cell.fg, back: cell.bg, modifier: cell.modifier }
    }

    /// True if a cell written now looks as it must.
    fn shows(self, cell: &Cell) -> bool {
        let wanted = Self::of(cell);
        let blank = cell.symbol() == " " && !(self.modifier | wanted.modifier).intersects(SEEN_IN_BLANK);
        self == wanted || blank && self.back == wanted.back
    }

    /// Changes it to another, in the shorter of two ways.
    fn change(&mut self, out: &mut String, to: Self) {
        let mut changes = String::new();
        let gone = self.modifier - to.modifier;
        let mut kept = self.modifier - gone;
        for (attribute, _, clear) in ATTRIBUTES {
            if gone.contains(attribute) {
                parameter(&mut changes, clear);
                // One number clears two of them.
                for (other, _, same) in ATTRIBUTES {
                    kept -= if same == clear { other } else { Modifier::empty() };
                }
            }
        }
        to.set(&mut changes, Self { modifier: kept, ..*self });
        let mut all = String::from("0");
        to.set(&mut all, Self::default());
        let shorter = if all == "0" { "" } else { &all };
        let _ = write!(out, "\u{1b}[{}m", if shorter.len() < changes.len() { shorter } else { &changes });
        *self = to;
    }

    /// The numbers that make it of another, which has no attribute that it has not.
    fn set(self, text: &mut String, from: Self) {
        for (attribute, set, _) in ATTRIBUTES {
            if (self.modifier - from.modifier).contains(attribute) {
                parameter(text, set);
            }
        }
        for (new, old, base) in [(self.front, from.front, 30), (self.back, from.back, 40)] {
            if new != old {
                color(text, new, base);
            }
        }
    }
}

fn parameter(text: &mut String, number: u8) {
    let gap = if text.is_empty() { "" } else { ";" };
    let _ = write!(text, "{gap}{number}");
}

/// The numbers of a colour; `base` is 30 for letters and 40 for what is behind them.
fn color(text: &mut String, color: Color, base: u8) {
    let bright = base + 60;
    let number = match color {
        Color::Reset => base + 9,
        Color::Black => base,
        Color::Red => base + 1,
        Color::Green => base + 2,
        Color::Yellow => base + 3,
        Color::Blue => base + 4,
        Color::Magenta => base + 5,
        Color::Cyan => base + 6,
        Color::Gray => base + 7,
        Color::DarkGray => bright,
        Color::LightRed => bright + 1,
        Color::LightGreen => bright + 2,
        Color::LightYellow => bright + 3,
        Color::LightBlue => bright + 4,
        Color::LightMagenta => bright + 5,
        Color::LightCyan => bright + 6,
        Color::White => bright + 7,
        Color::Indexed(_) | Color::Rgb(..) => base + 8,
    };
    parameter(text, number);
    match color {
        Color::Indexed(n) => [5, n].into_iter().for_each(|n| parameter(text, n)),
        Color::Rgb(r, g, b) => [2, r, g, b].into_iter().for_each(|n| parameter(text, n)),
        _ => {}
    }
}

impl<W: Write> Backend for Compact<W> {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut out = String::new();
        let mut pen = Pen::default();
        let mut place = None;
        for (x, y, cell) in content {
            let here = (usize::from(x), usize::from(y));
            if place != Some(here) {
                self.go(&mut out, place, here, pen);
            }
            if !pen.shows(cell) {
                pen.change(&mut out, Pen::of(cell));
            }
            out.push_str(cell.symbol());
            let width = cell.symbol().width().max(1);
            self.remember(here, cell, width);
            place = Some((here.0 + width, here.1));
        }
        if pen != Pen::default() {
            out.push_str("\u{1b}[m");
        }
        self.inner.write_all(out.as_bytes())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.inner.hide_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.inner.show_cursor()
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        self.inner.get_cursor_position()
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.inner.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, clear_type: ClearType) -> io::Result<()> {
        self.shown.clear();
        self.inner.clear_region(clear_type)
    }

    fn size(&self) -> io::Result<Size> {
        self.inner.size()
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        self.inner.window_size()
    }

    fn flush(&mut self) -> io::Result<()> {
        Backend::flush(&mut self.inner)
    }
}

impl<W: Write> Write for Compact<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Write::flush(&mut self.inner)
    }
}

#[cfg(test)]
mod tests {
    use rocescope_common::random::Random;
    use std::cell::RefCell;
    use std::rc::Rc;

    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    /// Bytes that can be read while somebody writes them.
    #[derive(Clone, Debug, Default)]
    struct Bytes(Rc<RefCell<Vec<u8>>>);

    impl Write for Bytes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const AREA: Rect = Rect { x: 0, y: 0, width: 40, height: 6 };

    /// The screen of a terminal after these bytes on top of `screen`; knows no more than is written here.
    fn shown(screen: &mut Buffer, bytes: &str) {
        let (mut x, mut y, mut style) = (0u16, 0u16, Style::reset());
        let mut rest = bytes;
        while let Some(letter) = rest.chars().next() {
            if let Some(escape) = rest.strip_prefix("\u{1b}[") {
                let end = escape.find(|c: char| c.is_ascii_alphabetic()).unwrap();
                let numbers: Vec<u16> =
                    escape[..end].split(';').map(|number| number.parse().unwrap_or(0)).collect();
                match escape.as_bytes()[end] {
                    b'H' => (y, x) = (numbers[0] - 1, numbers.get(1).map_or(0, |column| column - 1)),
                    b'C' => x += numbers[0].max(1),
                    b'm' => select(&mut style, &numbers),
                    other => panic!("{}", char::from(other)),
                }
                rest = &escape[end + 1..];
                continue;
            }
            let cell = &mut screen[(x, y)];
            cell.reset();
            cell.set_char(letter).set_style(style);
            x += 1;
            rest = &rest[letter.len_utf8()..];
        }
    }

    fn select(style: &mut Style, numbers: &[u16]) {
        let mut numbers = numbers.iter().copied();
        while let Some(number) = numbers.next() {
            let extended = |numbers: &mut dyn Iterator<Item = u16>| {
                let mut next = || u8::try_from(numbers.next().unwrap()).unwrap();
                if next() == 5 { Color::Indexed(next()) } else { Color::Rgb(next(), next(), next()) }
            };
            *style = match number {
                0 => Style::reset(),
                1 => style.add_modifier(Modifier::BOLD),
                2 => style.add_modifier(Modifier::DIM),
                7 => style.add_modifier(Modifier::REVERSED),
                22 => style.remove_modifier(Modifier::BOLD | Modifier::DIM),
                27 => style.remove_modifier(Modifier::REVERSED),
                31 => style.fg(Color::Red),
                38 => style.fg(extended(&mut numbers)),
                39 => style.fg(Color::Reset),
                48 => style.bg(extended(&mut numbers)),
                49 => style.bg(Color::Reset),
                other => panic!("{other}"),
            };
        }
    }

    /// Everything that is seen of a picture.
    fn seen(buffer: &Buffer) -> Vec<(String, Color, Color, Modifier)> {
        let cell = |cell: &Cell| {
            let blank = cell.symbol() == " ";
            let visible = if blank { cell.modifier & SEEN_IN_BLANK } else { cell.modifier };
            // A reversed blank has the colour of letters.
            let front = if blank && visible.is_empty() { Color::Reset } else { cell.fg };
            let visible = if blank && !visible.is_empty() { cell.modifier } else { visible };
            (cell.symbol().to_owned(), front, cell.bg, visible)
        };
        buffer.content.iter().map(cell).collect()
    }

    #[test]
    fn a_terminal_shows_what_was_drawn() {
        let mut numbers = Random::new(1);
        let mut random = |below: u32| numbers.below_u32(below);
        let styles = [
            Style::new(),
            Style::new().fg(Color::Red),
            Style::new().fg(Color::Rgb(1, 2, 3)).add_modifier(Modifier::BOLD),
            Style::new().add_modifier(Modifier::DIM),
            Style::new().add_modifier(Modifier::BOLD | Modifier::DIM),
            Style::new().add_modifier(Modifier::REVERSED),
            Style::new().bg(Color::Indexed(9)).fg(Color::Indexed(200)),
        ];
        let written = Bytes::default();
        let mut backend = Compact::new(written.clone());
        let (mut before, mut terminal) = (Buffer::empty(AREA), Buffer::empty(AREA));
        for _ in 0..400 {
            let mut next = before.clone();
            for _ in 0..random(30) {
                let [x, y] = [40, 6].map(|below| u16::try_from(random(below)).unwrap());
                let text = ["a", "  ", "word of letters", "▆▆▆", " "][random(5) as usize];
                next.set_stringn(x, y, text, usize::from(40 - x), styles[random(7) as usize]);
            }
            backend.draw(before.diff(&next).into_iter()).unwrap();
            let bytes = String::from_utf8(written.0.take()).unwrap();
            shown(&mut terminal, &bytes);
            assert_eq!(seen(&terminal), seen(&next), "{bytes:?}");
            before = next;
        }
    }

    #[test]
    fn a_list_that_moves_by_a_line_takes_far_fewer_bytes_than_with_the_usual_backend() {
        let list = |first: u32| {
            let mut buffer = Buffer::empty(AREA);
            for line in 0..6 {
                let n = first + u32::from(line);
                let grey = Style::new().fg(Color::Rgb(148, 148, 148));
                let amber = Style::new().fg(Color::Rgb(240, 170, 40)).add_modifier(Modifier::BOLD);
                buffer.set_string(0, line, format!("12:00:{n:02}.{:03}", n * 371 % 1_000), grey);
                buffer.set_string(13, line, if n.is_multiple_of(3) { "GAP" } else { "CE " }, amber);
                buffer.set_string(
                    17,
                    line,
                    format!("10.0.0.{} → 10.0.0.{}", n * 7 % 90, n % 9),
                    Style::new(),
                );
            }
            buffer
        };
        let written = [Bytes::default(), Bytes::default()];
        let (mut ours, mut usual) =
            (Compact::new(written[0].clone()), CrosstermBackend::new(written[1].clone()));
        let mut before = Buffer::empty(AREA);
        for first in (0..40).rev() {
            let next = list(first);
            ours.draw(before.diff(&next).into_iter()).unwrap();
            usual.draw(before.diff(&next).into_iter()).unwrap();
            before = next;
        }
        let [ours, usual] = written.map(|bytes| bytes.0.take().len());
        assert!(ours * 10 < usual * 7, "{ours} of {usual} bytes");
    }
}
