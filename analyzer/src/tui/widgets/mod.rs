//! Parts of pictures that screens share: spans of text, bars, scrolling, boxes, short names.

pub(in crate::tui) mod names;
pub(in crate::tui) mod panel;

use std::cell::RefCell;
use std::rc::Rc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget as _};

use crate::tui::column::compact;
use crate::tui::theme;

/// Columns of a box over the screen, at most.
pub(in crate::tui) const WIDEST: u16 = 100;

/// The lines of a scrolling screen, made once for keys that need their number and for the picture.
#[derive(Debug, Default)]
pub(in crate::tui) struct Lines(RefCell<Option<(usize, Rc<[Line<'static>]>)>>);

impl Lines {
    /// The lines at this width (or whatever else of the area they depend on), which `make` makes unless they are known.
    pub(in crate::tui) fn at(
        &self,
        width: usize,
        make: impl FnOnce() -> Vec<Line<'static>>,
    ) -> Rc<[Line<'static>]> {
        let known =
            self.0.borrow().as_ref().filter(|(known, _)| *known == width).map(|(_, lines)| Rc::clone(lines));
        known.unwrap_or_else(|| {
            let lines: Rc<[Line<'static>]> = make().into();
            self.0.replace(Some((width, Rc::clone(&lines))));
            lines
        })
    }

    /// Forgets the lines, since their content changed.
    pub(in crate::tui) fn forget(&self) {
        self.0.replace(None);
    }
}

/// The area of a box over the screen, with this number of lines within.
pub(in crate::tui) fn box_area(screen: Rect, lines: usize) -> Rect {
    let width = screen.width.min(WIDEST);
    let height = screen.height.saturating_sub(1).min(u16::try_from(lines + 2).unwrap_or(u16::MAX));
    Rect { x: (screen.width - width) / 2, width, height, ..screen }
}

/// A box over the screen with those lines from `top` on that fit.
pub(in crate::tui) fn overlay(
    buffer: &mut Buffer,
    screen: Rect,
    title: &str,
    lines: &[Line<'_>],
    top: usize,
) {
    let area = box_area(screen, lines.len());
    Clear.render(area, buffer);
    let end = lines.len().saturating_sub(usize::from(area.height.saturating_sub(2)));
    let more = if top < end { " Down: more  Esc: close " } else { " Esc: close " };
    let own = |text| Span::styled(text, theme::BOLD.fg(Color::Reset));
    let block = Block::bordered().border_type(BorderType::Rounded).border_style(theme::FRAME);
    let block = block.title(own(title)).title_bottom(own(more));
    let inner = block.inner(area);
    block.render(area, buffer);
    for (y, text) in (0..).zip(lines.iter().skip(top.min(end)).take(usize::from(inner.height))) {
        line(buffer, inner, y, text);
    }
}

/// Lines from the first on, as many as the area has.
pub(in crate::tui) fn put(buffer: &mut Buffer, area: Rect, lines: Vec<Line<'_>>) {
    for (y, text) in (0..area.height).zip(lines) {
        line(buffer, area, y, &text);
    }
}

/// Lines from `top` on; the last line of the area says how many more there are.
pub(in crate::tui) fn scrolled(buffer: &mut Buffer, area: Rect, lines: &[Line<'_>], top: usize) {
    for (y, text) in (0..area.height).zip(lines.iter().skip(top)) {
        line(buffer, area, y, text);
    }
    let below = lines.len().saturating_sub(top + usize::from(area.height));
    if below > 0 {
        let text = format!(" Down: {} more ", below + 1);
        let width = u16::try_from(text.len()).unwrap_or(area.width).min(area.width);
        let y = area.bottom().saturating_sub(1);
        buffer.set_style(Rect { y, height: 1, ..area }, Style::reset());
        buffer.set_stringn(
            area.x,
            y,
            " ".repeat(usize::from(area.width)),
            usize::from(area.width),
            theme::PLAIN,
        );
        buffer.set_stringn(area.right() - width, y, text, usize::from(width), theme::BOLD);
    }
}

/// Shows a line as selected.
pub(in crate::tui) fn select(buffer: &mut Buffer, area: Rect) {
    buffer.set_style(area, theme::SELECTED);
    for place in area.positions() {
        if let Some(cell) = buffer.cell_mut(place) {
            cell.modifier.remove(Modifier::DIM);
            // A reversed bar would be full, and a sign of the frame a stub.
            if [theme::BAR.fg, theme::FRAME.fg].contains(&Some(cell.fg)) {
                cell.fg = Color::Reset;
            }
        }
    }
}

/// Shows a line as the one that a key opens while the user has selected none: it keeps its colours.
pub(in crate::tui) fn point_out(buffer: &mut Buffer, area: Rect) {
    buffer.set_stringn(area.x, area.y, "▌", usize::from(area.width.min(1)), theme::KEY);
}

/// Draws a line of text at line `y` of `area`, cut at its right border, but not within a number.
pub(in crate::tui) fn line(buffer: &mut Buffer, area: Rect, y: u16, line: &Line<'_>) {
    if y >= area.height {
        return;
    }
    buffer.set_line(area.x, area.y + y, line, area.width);
    let Some(last) = area.width.checked_sub(1).filter(|_| line.width() > usize::from(area.width)) else {
        return;
    };
    // A sign shows that the line was cut.
    let text: Vec<char> = line.spans.iter().flat_map(|span| span.content.chars()).collect();
    let keep = u16::try_from(before_number(&text, usize::from(last))).unwrap_or(last).min(last);
    for x in keep..=last {
        if let Some(cell) = buffer.cell_mut((area.x + x, area.y + y)) {
            cell.set_symbol(if x == keep { "…" } else { " " });
        }
    }
}

/// Number of letters of a text that stay if it is cut behind `keep` of them: if the last is one of a number, such as a
/// count, an address or a time, those before it, as a number with a sign behind it may be another one.
fn before_number(text: &[char], keep: usize) -> usize {
    let is_digit = |at: usize| text.get(at).is_some_and(char::is_ascii_digit);
    let is_part = |at: &usize| {
        let joins = matches!(text.get(*at), Some('.' | ',' | ':')) && is_digit(at + 1);
        is_digit(*at) || joins && *at > 0 && is_digit(at - 1)
    };
    let start = (0..keep).rev().take_while(is_part).last().unwrap_or(keep);
    // A number within a name is none.
    let named = start > 0 && text.get(start - 1).is_some_and(|c| c.is_alphanumeric() || *c == '_');
    before_address(text, if named { keep } else { start })
}

/// The same of an address of IPv6, unless it is all that there is.
fn before_address(text: &[char], keep: usize) -> usize {
    let is_part = |at: &usize| text.get(*at).is_some_and(|c| c.is_ascii_hexdigit() || *c == ':');
    let start = (0..keep).rev().take_while(is_part).last().unwrap_or(keep);
    let colons = (start..text.len()).take_while(is_part).filter(|at| text.get(*at) == Some(&':')).count();
    let others = text.iter().take(start).any(|c| c.is_alphanumeric());
    if is_part(&keep) && colons >= 2 && others { start } else { keep }
}

/// A number with what it counts, in the singular for one.
pub(in crate::tui) fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", compact(n as f64), if n == 1 { "" } else { "s" })
}

/// Spans put together, with their width.
#[derive(Clone, Debug, Default)]
pub(in crate::tui) struct Spans {
    pub(in crate::tui) spans: Vec<Span<'static>>,
    pub(in crate::tui) width: usize,
}

impl Spans {
    pub(in crate::tui) fn push(&mut self, text: impl Into<String>, style: Style) -> &mut Self {
        let span = Span::styled(text.into(), style);
        self.width += span.width();
        self.spans.push(span);
        self
    }

    pub(in crate::tui) fn append(&mut self, other: Self) {
        self.width += other.width;
        self.spans.extend(other.spans);
    }

    pub(in crate::tui) fn into_line(self) -> Line<'static> {
        Line::from(self.spans)
    }
}

/// Joins as many `parts` as fit into `width` with a bar between; returns how many were left out.
pub(in crate::tui) fn join(parts: Vec<Spans>, width: usize, between: &str) -> (Spans, usize) {
    let mut all = Spans::default();
    let count = parts.len();
    for (i, part) in parts.into_iter().enumerate() {
        let gap = if i == 0 { 0 } else { between.chars().count() };
        if i > 0 && all.width + gap + part.width > width {
            return (all, count - i);
        }
        if i > 0 {
            all.push(between, theme::DIM);
        }
        all.append(part);
    }
    (all, 0)
}

/// The end of a text of `keep` letters that is not cut behind an opening parenthesis whose content would not be read.
fn before_parenthesis(text: &[char], keep: usize) -> usize {
    let kept = text.get(..keep).unwrap_or(text);
    let open = kept.iter().rposition(|c| *c == '(').filter(|open| !kept[*open..].contains(&')'));
    // The place before it is worth more than what stands in it, unless that is most of the text.
    open.filter(|open| *open > keep / 2).map_or(keep, |open| open.saturating_sub(1))
}

/// The end of a text of `keep` letters that is not cut within a word, nor behind one that leads to the next. A name
/// longer than half of the room is cut.
fn before_word(text: &[char], keep: usize) -> usize {
    /// Words that say nothing without the one behind them.
    const LEADING: [&str; 17] = [
        "QP", "a", "an", "and", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to", "towards",
        "→", "·",
    ];
    /// Letters of a word of which a part is worth more than none.
    const LONG: usize = 20;
    let mut end = keep;
    if text.get(end).is_some_and(|next| *next != ' ') {
        let space = text[..end].iter().rposition(|letter| *letter == ' ');
        end = space.filter(|space| *space > keep / 2 && end - space <= LONG).unwrap_or(end);
    }
    loop {
        let trimmed =
            text[..end].iter().rposition(|c| !matches!(c, ' ' | ',' | ':' | ';')).map_or(0, |at| at + 1);
        let word = text[..trimmed].iter().rposition(|letter| *letter == ' ').map_or(0, |space| space + 1);
        let last: String = text[word..trimmed].iter().collect();
        if word > keep / 2 && LEADING.contains(&last.as_str()) {
            end = word;
        } else {
            // A blank says that the word is whole.
            return trimmed + usize::from(trimmed < keep && text.get(trimmed) == Some(&' '));
        }
    }
}

/// Number of characters of a text, each of which takes a column.
pub(in crate::tui) fn letters(text: &str) -> usize {
    text.chars().count()
}

/// As many whole parts of a text, between commas or dots, as there is room for; `None` where the first has none.
pub(in crate::tui) fn whole(text: &str, room: usize) -> Option<&str> {
    let ends = [", ", " · "].into_iter().flat_map(|between| text.match_indices(between)).map(|(at, _)| at);
    let parts = ends.chain([text.len()]).filter_map(|end| text.get(..end));
    parts.filter(|part| letters(part) <= room).max_by_key(|part| part.len())
}

/// The text cut to `width` columns, but not within a number or a parenthesis; the end is kept where `keep_end` says so,
/// as the ends of addresses differ more than their beginnings.
pub(in crate::tui) fn cut(text: &str, width: usize, keep_end: bool) -> String {
    let length = letters(text);
    if length <= width {
        return text.to_owned();
    }
    let mut keep = width.saturating_sub(1);
    let end = if keep_end { keep / 2 } else { 0 };
    if !keep_end {
        let letters: Vec<char> = text.chars().collect();
        keep = before_parenthesis(&letters, before_number(&letters, keep));
        keep = before_word(&letters, keep);
    }
    let mut start: String = text.chars().take(keep - end).collect();
    let is_number =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || ".,:".contains(c));
    // A number of which nothing is missing does not look as if it were cut.
    if !keep_end && keep + 2 <= width && start.rsplit(' ').next().is_some_and(is_number) {
        start.push(' ');
    }
    let rest: String = text.chars().skip(length - end).collect();
    format!("{start}…{rest}")
}

/// A line of blocks for values between 0 and `max`; nothing is a dot, and unknown values are blank. None is a full one,
/// so that lines below one another stay apart.
pub(in crate::tui) fn spark(values: &[Option<f64>], max: f64) -> String {
    const BLOCKS: [char; 7] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇'];
    let block = |value: &Option<f64>| match value {
        None => ' ',
        Some(value) if *value <= 0.0 => '·',
        Some(_) if max <= 0.0 => '▁',
        Some(value) => {
            let step = (value / max * 7.0).ceil().clamp(1.0, 7.0);
            // Between 1 and 7 after the clamp.
            BLOCKS.into_iter().zip(1u8..).find(|(_, n)| f64::from(*n) >= step).map_or('▇', |(c, _)| c)
        }
    };
    values.iter().map(block).collect()
}

/// Lines beside one another, those to the right from column `at` on.
pub(in crate::tui) fn beside(
    left: Vec<Line<'static>>,
    right: Vec<Line<'static>>,
    at: usize,
) -> Vec<Line<'static>> {
    let count = left.len().max(right.len());
    let (mut left, mut right) = (left.into_iter(), right.into_iter());
    let line = |_| {
        let (left, right) = (left.next().unwrap_or_default(), right.next().unwrap_or_default());
        let mut spans = Vec::new();
        let mut used = 0;
        for span in left.spans {
            let room = at.saturating_sub(used + 1);
            let text = cut(&span.content, room, false);
            used += text.chars().count();
            if room > 0 {
                spans.push(Span::styled(text, left.style.patch(span.style)));
            }
        }
        spans.push(Span::raw(" ".repeat(at - used.min(at))));
        // A line of its own style has none beside another.
        spans.extend(right.spans.into_iter().map(|span| {
            let style = right.style.patch(span.style);
            Span::styled(span.content, style)
        }));
        Line::from(spans)
    };
    (0..count).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(cut("10.0.0.1", 8, true), "10.0.0.1");
        assert_eq!(cut("2001:db8::1:2:3:4", 9, true), "2001…:3:4");
        assert_eq!(cut("abcdef", 3, false), "ab…");
        assert_eq!(cut("abcdef", 1, true), "…");
        assert_eq!(cut("abcdef", 0, true), "…");
    }

    #[test]
    fn no_text_is_cut_within_a_number() {
        assert_eq!(cut("lost 1234 packets", 8, false), "lost …");
        assert_eq!(cut("lost 1234 packets", 10, false), "lost …");
        assert_eq!(cut("lost 1234 packets", 11, false), "lost 1234 …");
        assert_eq!(cut("at 0.53 % of", 6, false), "at …");
        assert_eq!(cut("at 12:00:05", 9, false), "at …");
        assert_eq!(cut("on h100200", 7, false), "on h10…", "a name");
        assert_eq!(cut("of 2001:db8::1, late", 12, false), "of …");
        assert_eq!(cut("of 2001:db8::1, late", 16, false), "of 2001:db8::1…");
        assert_eq!(cut("from 10.1.4.12 QP 2308: 2 times", 25, false), "from 10.1.4.12 QP 2308 …");
        assert_eq!(cut("47 packets lost (0.70 % of 6,671)", 24, false), "47 packets lost…");
        assert_eq!(cut("lost (0.70 %) on rail0", 18, false), "lost (0.70 %) …");
        assert_eq!(cut("Loss on rail0: 47 retransmissions", 26, false), "Loss on rail0: 47 …");
        assert_eq!(
            cut("Retransmissions: 960 packets, 10.40.1.11 → 4 hosts", 47, false),
            "Retransmissions: 960 packets, 10.40.1.11 → 4 …"
        );
        assert_eq!(cut("Congestion on rail0, peers 0 %", 28, false), "Congestion on rail0, peers …");
        assert_eq!(cut("one averylongnameindeed", 14, false), "one averylong…", "a name longer than half");
        let area = Rect::new(0, 0, 8, 1);
        let mut buffer = Buffer::empty(area);
        line(&mut buffer, area, 0, &Line::raw("lost 1234 packets"));
        let shown: String = buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect();
        assert_eq!(shown, "lost …  ");
    }

    #[test]
    fn lines_beside_one_another_keep_their_styles() {
        let both = beside(
            vec![Line::styled("left", theme::BOLD)],
            vec![Line::styled("right", theme::DIM), Line::raw("below")],
            8,
        );
        let styles = |line: &Line<'_>| line.spans.iter().map(|span| span.style).collect::<Vec<_>>();
        assert_eq!(styles(&both[0]), [theme::BOLD, theme::PLAIN, theme::DIM]);
        assert_eq!(both.iter().map(Line::to_string).collect::<Vec<_>>(), ["left    right", "        below"]);
    }

    #[test]
    fn nonzero_is_higher_than_zero_and_unknown_is_blank() {
        assert_eq!(spark(&[None, Some(0.0), Some(1.0), Some(50.0), Some(100.0)], 100.0), " ·▁▄▇");
        assert_eq!(spark(&[Some(3.0)], 0.0), "▁");
    }
}
