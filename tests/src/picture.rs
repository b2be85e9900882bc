//! Renders a terminal's screen as SVG, from characters and their colours.
//!
//! Blocks, lines and frames are drawn as shapes rather than letters, so that they have no gaps with any font; letters
//! are aligned to the grid of the terminal.

use std::fmt::Write as _;

/// Size of a character cell in SVG units.
const CELL: (f64, f64) = (8.4, 18.0);
/// Font size, and distance of the baseline below the top of the cell.
const FONT: f64 = 14.0;
const BASE: f64 = 13.5;
/// Space around the screen.
const BORDER: f64 = 12.0;

const FOREGROUND: &str = "#d0d7de";
const BACKGROUND: &str = "#161b22";
/// The 16 colours of terminals.
const COLORS: [&str; 16] = [
    "#30363d", "#f85149", "#3fb950", "#e3b341", "#58a6ff", "#d2a8ff", "#56d4dd", "#d0d7de", "#6e7681",
    "#ff7b72", "#56d364", "#f2cc60", "#79c0ff", "#e2c5ff", "#7ee7ee", "#f0f6fc",
];

/// Red, green and blue.
type Rgb = [u8; 3];

/// One of the 256 colours: 16 of the terminal's own, a cube of six steps, greys.
fn indexed(number: u8) -> Rgb {
    let hex = |text: &str, at: usize| text.get(at..at + 2).and_then(|part| u8::from_str_radix(part, 16).ok());
    let step = |n: u8| if n == 0 { 0 } else { 55 + 40 * n };
    match number {
        0..16 => {
            let text = COLORS[usize::from(number)];
            [1, 3, 5].map(|at| hex(text, at).unwrap_or(0))
        }
        16..232 => [(number - 16) / 36, (number - 16) / 6 % 6, (number - 16) % 6].map(step),
        232.. => [8 + 10 * (number - 232); 3],
    }
}

/// The colour named by the parameters after 38 or 48.
fn extended<'a>(parameters: &mut impl Iterator<Item = &'a str>) -> Option<Rgb> {
    let mut next = || parameters.next()?.parse::<u8>().ok();
    match next()? {
        5 => next().map(indexed),
        2 => Some([next()?, next()?, next()?]),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "as many as a terminal has attributes")]
struct CellStyle {
    foreground: Option<Rgb>,
    background: Option<Rgb>,
    bold: bool,
    dim: bool,
    underlined: bool,
    reversed: bool,
}

impl CellStyle {
    /// Applies the parameters of one `ESC [ … m`.
    fn select(&mut self, parameters: &str) {
        let mut parameters = parameters.split(';');
        while let Some(parameter) = parameters.next() {
            match parameter.parse::<u8>().unwrap_or(0) {
                0 => *self = Self::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                4 => self.underlined = true,
                7 => self.reversed = true,
                22 => (self.bold, self.dim) = (false, false),
                24 => self.underlined = false,
                27 => self.reversed = false,
                38 => self.foreground = extended(&mut parameters),
                48 => self.background = extended(&mut parameters),
                color @ 30..=37 => self.foreground = Some(indexed(color - 30)),
                39 => self.foreground = None,
                color @ 40..=47 => self.background = Some(indexed(color - 40)),
                49 => self.background = None,
                color @ 90..=97 => self.foreground = Some(indexed(color - 90 + 8)),
                color @ 100..=107 => self.background = Some(indexed(color - 100 + 8)),
                _ => {}
            }
        }
    }

    /// Foreground colour, and background colour if it differs from the screen's.
    fn colors(self) -> (String, Option<String>) {
        let named = |color: Option<Rgb>| color.map(|[r, g, b]| format!("#{r:02x}{g:02x}{b:02x}"));
        let (front, back) = (named(self.foreground), named(self.background));
        if self.reversed {
            (back.unwrap_or_else(|| BACKGROUND.into()), Some(front.unwrap_or_else(|| FOREGROUND.into())))
        } else {
            (front.unwrap_or_else(|| FOREGROUND.into()), back)
        }
    }
}

/// Characters of a line with their styles.
fn cells(line: &str, look: &mut CellStyle) -> Vec<(char, CellStyle)> {
    let mut cells = Vec::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        if let Some(escape) = rest.strip_prefix("\u{1b}[") {
            let end = escape.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(escape.len());
            if escape.get(end..=end) == Some("m") {
                look.select(escape.get(..end).unwrap_or(""));
            }
            rest = escape.get(end + 1..).unwrap_or("");
            continue;
        }
        if !c.is_control() {
            cells.push((c, *look));
        }
        rest = rest.get(c.len_utf8()..).unwrap_or("");
    }
    cells
}

/// The part of a cell that a block character fills: height from below, as a share of the cell.
fn block(c: char) -> Option<(f64, f64)> {
    let eighths = "▁▂▃▄▅▆▇█".chars().position(|block| block == c);
    match c {
        '░' => Some((1.0, 0.25)),
        '▒' => Some((1.0, 0.5)),
        '▓' => Some((1.0, 0.75)),
        _ => eighths.map(|at| ((at + 1) as f64 / 8.0, 1.0)),
    }
}

/// The strokes from the middle of a cell to its upper, right, lower and left border, and their width.
fn strokes(c: char) -> Option<([bool; 4], f64)> {
    let thin = match c {
        '─' => [false, true, false, true],
        '│' => [true, false, true, false],
        '╭' => [false, true, true, false],
        '╮' => [false, false, true, true],
        '╰' => [true, true, false, false],
        '╯' => [true, false, false, true],
        '├' => [true, true, true, false],
        '┤' => [true, false, true, true],
        '┼' => [true; 4],
        '━' => return Some(([false, true, false, true], 3.0)),
        '╸' => return Some(([false, false, false, true], 3.0)),
        _ => return None,
    };
    Some((thin, 1.0))
}

/// Draws the strokes of `count` equal characters from a position on.
#[expect(clippy::many_single_char_names, reason = "a character, its place and its size")]
fn draw_strokes(svg: &mut String, (c, count): (char, usize), (x, y): (f64, f64), front: &str, opacity: &str) {
    let Some(([up, right, down, left], width)) = strokes(c) else { return };
    let (w, h) = CELL;
    // Aligned to whole units, since edges are rendered crisply.
    let (mid_x, mid_y) = ((x + w / 2.0).floor() + 0.5, (y + h / 2.0).floor() + 0.5);
    let (end_x, end_y) = (x + count as f64 * w, y + h);
    let mut path = String::new();
    match (up, right, down, left) {
        (false, true, true, false) => {
            let _ = write!(
                path,
                "M{end_x:.1} {mid_y}H{:.1}Q{mid_x} {mid_y} {mid_x} {:.1}V{end_y:.1}",
                mid_x + 3.0,
                mid_y + 3.0
            );
        }
        (false, false, true, true) => {
            let _ = write!(
                path,
                "M{x:.1} {mid_y}H{:.1}Q{mid_x} {mid_y} {mid_x} {:.1}V{end_y:.1}",
                mid_x - 3.0,
                mid_y + 3.0
            );
        }
        (true, true, false, false) => {
            let _ = write!(
                path,
                "M{end_x:.1} {mid_y}H{:.1}Q{mid_x} {mid_y} {mid_x} {:.1}V{y:.1}",
                mid_x + 3.0,
                mid_y - 3.0
            );
        }
        (true, false, false, true) => {
            let _ = write!(
                path,
                "M{x:.1} {mid_y}H{:.1}Q{mid_x} {mid_y} {mid_x} {:.1}V{y:.1}",
                mid_x - 3.0,
                mid_y - 3.0
            );
        }
        _ => {
            if left || right {
                let (from, to) = (if left { x } else { mid_x }, if right { end_x } else { mid_x });
                let _ = write!(path, "M{from:.1} {mid_y}H{to:.1}");
            }
            if up || down {
                let (from, to) = (if up { y } else { mid_y }, if down { end_y } else { mid_y });
                let _ = write!(path, "M{mid_x} {from:.1}V{to:.1}");
            }
        }
    }
    let _ = writeln!(
        svg,
        "<path d=\"{path}\" stroke=\"{front}\" stroke-width=\"{width}\" fill=\"none\"{opacity}/>"
    );
}

/// Renders a screen, as tmux prints it with colours (`capture-pane -e -p`), as SVG.
pub fn svg(screen: &str, title: &str) -> String {
    let mut look = CellStyle::default();
    let lines: Vec<Vec<(char, CellStyle)>> = screen.lines().map(|line| cells(line, &mut look)).collect();
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = columns as f64 * CELL.0 + 2.0 * BORDER;
    let height = lines.len() as f64 * CELL.1 + 2.0 * BORDER;
    let mut svg = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.1} {height:.1}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" shape-rendering=\"crispEdges\" font-family=\"'DejaVu Sans Mono', Menlo, \
         Consolas, monospace\" font-size=\"{FONT}\">\n<title>{}</title>\n<rect width=\"100%\" height=\"100%\" \
         rx=\"8\" fill=\"{BACKGROUND}\"/>",
        escaped(title)
    );
    for (y, line) in lines.iter().enumerate() {
        let mut x = 0;
        let is_letter = |c: char| block(c).is_none() && strokes(c).is_none();
        // A vertical line is a run for each cell.
        let together = |a: char, b: char| a == b && a != '│' || (is_letter(a) && is_letter(b));
        for run in line.chunk_by(|a, b| a.1 == b.1 && together(a.0, b.0)) {
            draw(&mut svg, run, x, y);
            x += run.len();
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Draws characters of one style, or blocks of one kind.
fn draw(svg: &mut String, run: &[(char, CellStyle)], column: usize, row: usize) {
    let Some((first, look)) = run.first().copied() else { return };
    let (x, y) = (BORDER + column as f64 * CELL.0, BORDER + row as f64 * CELL.1);
    let width = run.len() as f64 * CELL.0;
    let (front, back) = look.colors();
    let opacity = if look.dim { " opacity=\"0.6\"" } else { "" };
    if let Some(back) = back {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{back}\"/>",
            CELL.1
        );
    }
    if let Some((part, share)) = block(first) {
        let height = CELL.1 * part;
        let top = y + CELL.1 - height;
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{front}\" \
             fill-opacity=\"{share}\"/>"
        );
        return;
    }
    if strokes(first).is_some() {
        draw_strokes(svg, (first, run.len()), (x, y), &front, opacity);
        return;
    }
    let text: String = run.iter().map(|(c, _)| *c).collect();
    let shown = text.trim_end();
    if shown.trim_start().is_empty() {
        return;
    }
    let before = shown.chars().take_while(|c| *c == ' ').count();
    let letters = shown.chars().count() - before;
    let x = x + before as f64 * CELL.0;
    let weight = if look.bold { " font-weight=\"bold\"" } else { "" };
    let line = if look.underlined { " text-decoration=\"underline\"" } else { "" };
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{:.1}\" fill=\"{front}\"{weight}{line}{opacity}>{}</text>",
        y + BASE,
        letters as f64 * CELL.0,
        // Renderers collapse repeated spaces.
        escaped(shown.trim_start()).replace(' ', "\u{a0}")
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_keep_their_looks_and_places() {
        let mut look = CellStyle::default();
        let found = cells("a\u{1b}[1;31mb\u{1b}[0m c", &mut look);
        let red = CellStyle { foreground: Some(indexed(1)), bold: true, ..CellStyle::default() };
        assert_eq!(
            found,
            [
                ('a', CellStyle::default()),
                ('b', red),
                (' ', CellStyle::default()),
                ('c', CellStyle::default())
            ]
        );
        let picture = svg("\u{1b}[7mx\u{1b}[27m <&>\n  █▄", "a < b");
        assert!(
            picture.contains("&lt;&amp;&gt;") && picture.contains("<title>a &lt; b</title>"),
            "{picture}"
        );
        assert!(svg("a  b", "").contains(">a\u{a0}\u{a0}b<"), "spaces keep their width");
        // The reversed letter has the foreground colour as background, and both blocks are at the bottom of their
        // line.
        assert!(picture.contains(&format!("fill=\"{FOREGROUND}\"/>")));
        let second = BORDER + 2.0 * CELL.1;
        assert!(
            picture.contains(&format!("y=\"{:.1}\" width=\"8.4\" height=\"9.0\"", second - 9.0)),
            "{picture}"
        );
        assert!(picture.contains(&format!("y=\"{:.1}\" width=\"8.4\" height=\"18.0\"", second - 18.0)));
    }

    #[test]
    fn lines_and_corners_are_shapes_that_meet() {
        let picture = svg("╭──╮\n│x │", "");
        assert_eq!(picture.matches("<path").count(), 5, "{picture}");
        assert!(!picture.contains('─') && picture.contains(">x<"), "{picture}");
        // From the first corner to the second.
        let (from, to) = (BORDER + CELL.0, BORDER + 3.0 * CELL.0);
        assert!(
            picture.contains(&format!("d=\"M{from:.1} ")) && picture.contains(&format!("H{to:.1}\"")),
            "{picture}"
        );
    }

    #[test]
    fn an_escape_that_is_cut_or_of_another_kind_is_left_out() {
        let mut look = CellStyle::default();
        let letters: String = cells("a\u{1b}[2Jb\u{1b}[", &mut look).iter().map(|(c, _)| *c).collect();
        assert_eq!((letters.as_str(), look), ("ab", CellStyle::default()));
    }
}
