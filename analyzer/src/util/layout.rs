//! Columns, paragraphs and names on a terminal of a given width.

pub(crate) use super::wrap::wrap;

/// A name from outside as it may be shown: without characters that command a terminal or reorder the text beside them.
pub(crate) fn plain(name: &str) -> String {
    name.chars().map(|c| if commands(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// The name of a tap or link without the suffix that says that it is a capture file; an interface follows a colon.
pub(crate) fn tap_name(name: &str) -> String {
    let (file, interface) = name.find(':').map_or((name, ""), |at| name.split_at(at));
    let file = file.strip_suffix(".gz").unwrap_or(file);
    let stem = [".pcap", ".pcapng", ".cap"].iter().find_map(|suffix| file.strip_suffix(suffix));
    stem.filter(|stem| !stem.is_empty()).map_or_else(|| name.to_owned(), |stem| format!("{stem}{interface}"))
}

/// True for controls, separators of lines, and marks of writing direction.
fn commands(c: char) -> bool {
    const DIRECTIONS: [std::ops::RangeInclusive<char>; 4] =
        ['\u{61c}'..='\u{61c}', '\u{200e}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    c.is_control() || DIRECTIONS.iter().any(|range| range.contains(&c))
}

/// The columns that `text` takes; escape sequences of colours take none.
pub(crate) fn width(text: &str) -> usize {
    textwrap::core::display_width(text)
}

/// Alignment of a cell's text in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table: headings, then rows of as many cells.
#[derive(Debug)]
pub(crate) struct Table {
    headings: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headings: Vec<(&'static str, Align)>) -> Self {
        Self { headings, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Takes out the columns that have `cell` in all rows, and says which these were.
    pub(crate) fn take_out(&mut self, cell: &str) -> Vec<&'static str> {
        let all = |at: usize| self.rows.iter().all(|row| row.get(at).is_some_and(|one| one == cell));
        let out: Vec<bool> = (0..self.headings.len()).map(|at| !self.rows.is_empty() && all(at)).collect();
        let is_out = |at: usize| out.get(at).copied().unwrap_or(false);
        for row in &mut self.rows {
            let mut at = 0..;
            row.retain(|_| !at.next().is_some_and(is_out));
        }
        let mut taken = Vec::new();
        let mut at = 0..;
        self.headings.retain(|(heading, _)| {
            let goes = at.next().is_some_and(is_out);
            taken.extend(goes.then_some(*heading));
            !goes
        });
        taken
    }

    /// The width of each column.
    fn widths(&self) -> Vec<usize> {
        let cells = |i: usize| self.rows.iter().filter_map(move |row| row.get(i)).map(|cell| width(cell));
        (self.headings.iter().enumerate())
            .map(|(i, (heading, _))| cells(i).max().unwrap_or(0).max(width(heading)))
            .collect()
    }

    /// Heading and rows, with two spaces between columns, or one where two are too many.
    pub(crate) fn lines(&self, room: usize) -> Vec<String> {
        let widths = self.widths();
        let gap = " ".repeat(if self.fits_with(2, room) { 2 } else { 1 });
        let headings = self.headings.iter().map(|(heading, _)| *heading).collect::<Vec<_>>();
        let rows = self.rows.iter().map(|row| row.iter().map(String::as_str).collect());
        std::iter::once(headings)
            .chain(rows)
            .map(|row| {
                let cells = row.into_iter().zip(&widths).zip(&self.headings);
                let line: Vec<String> = cells.map(|((cell, w), (_, align))| pad(cell, *w, *align)).collect();
                line.join(&gap).trim_end().to_owned()
            })
            .collect()
    }

    /// True if the table is no wider than `room`.
    pub(crate) fn fits(&self, room: usize) -> bool {
        self.fits_with(1, room)
    }

    fn fits_with(&self, gap: usize, room: usize) -> bool {
        let widths = self.widths();
        widths.iter().sum::<usize>() + gap * widths.len().saturating_sub(1) <= room
    }
}

fn pad(text: &str, to: usize, align: Align) -> String {
    let spaces = " ".repeat(to.saturating_sub(width(text)));
    match align {
        Align::Left => format!("{text}{spaces}"),
        Align::Right => format!("{spaces}{text}"),
    }
}

/// `text` under a label: lines of at most `room` columns, the first behind `label`, the others
/// below the text.
pub(crate) fn labelled(label: &str, indent: usize, text: &str, room: usize) -> Vec<String> {
    let lines = wrap(text, room.saturating_sub(indent));
    let first = std::iter::once(pad(label, indent, Align::Left));
    let heads = first.chain(std::iter::repeat(" ".repeat(indent)));
    lines.into_iter().zip(heads).map(|(line, head)| format!("{head}{line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::style::{Paint, Role};

    #[test]
    fn text_is_laid_out_behind_its_label() {
        assert_eq!(labelled("At", 4, "one two three", 11), ["At  one two", "    three"]);
    }

    #[test]
    fn columns_align_by_what_a_terminal_shows() {
        let mut table = Table::new(vec![("NAME", Align::Left), ("N", Align::Right)]);
        table.row(vec!["网卡".into(), "1".into()]);
        table.row(vec!["eth0-a".into(), "1,000".into()]);
        assert_eq!(table.lines(80), ["NAME        N", "网卡        1", "eth0-a  1,000"]);
        assert!(table.fits(12) && !table.fits(11));
        assert_eq!(table.lines(12)[0], "NAME       N");
        table.row(vec![Paint::COLORED.paint(Role::Good, "lo"), "2".into()]);
        assert_eq!(table.lines(80)[3], "\u{1b}[32mlo\u{1b}[0m          2");
    }

    #[test]
    fn columns_of_dashes_are_taken_out() {
        let mut table = Table::new(vec![("NAME", Align::Left), ("N", Align::Right), ("P", Align::Right)]);
        assert!(table.take_out("-").is_empty(), "no rows, nothing to say");
        table.row(vec!["a".into(), "-".into(), "-".into()]);
        table.row(vec!["b".into(), "-".into(), "7".into()]);
        assert_eq!(table.take_out("-"), ["N"]);
        assert_eq!(table.lines(80), ["NAME  P", "a     -", "b     7"]);
    }

    #[test]
    fn names_cannot_command_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
    }
}
