//! Word wrap by the columns that a terminal shows.

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// Units that follow a number after a space.
const UNITS: [&str; 19] = [
    "%", "×", "ns", "µs", "ms", "s", "min", "h", "B", "kB", "MB", "GB", "TB", "b/s", "kb/s", "Mb/s", "Gb/s",
    "Tb/s", "MiB",
];
/// A space at which no line breaks.
const HELD: char = '\u{a0}';

/// Breaks `text` at spaces into lines of at most `width` columns; longer words stay whole, and so do a number and its
/// unit. An empty text is one empty line.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    hanging(text, width, 0)
}

/// [`wrap`] with every line but the first indented by `indent` columns. Spaces in front of the text stay.
pub fn hanging(text: &str, width: usize, indent: usize) -> Vec<String> {
    let indent = " ".repeat(indent);
    let options = Options::new(width)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit)
        .subsequent_indent(&indent);
    let held = hold(text);
    textwrap::wrap(&held, options).into_iter().map(|line| line.replace(HELD, " ")).collect()
}

/// [`hanging`] of a text of parts with dots between: no line breaks within a short part.
pub fn hanging_parts(text: &str, width: usize, indent: usize) -> Vec<String> {
    /// Letters of a part that is short.
    const SHORT: usize = 24;
    const DOT: &str = " · ";
    let hold = |part: &str| {
        if part.chars().count() > SHORT { part.to_owned() } else { part.replace(' ', &HELD.to_string()) }
    };
    hanging(&text.split(DOT).map(hold).collect::<Vec<_>>().join(DOT), width, indent)
}

/// The text with numbers held to their units.
fn hold(text: &str) -> String {
    let mut held = String::with_capacity(text.len());
    for (at, word) in text.split(' ').enumerate() {
        let unit = word.trim_end_matches([')', ',', '.', ';', ':']);
        let follows = at > 0 && held.ends_with(|last: char| last.is_ascii_digit()) && UNITS.contains(&unit);
        if at > 0 {
            held.push(if follows { HELD } else { ' ' });
        }
        held.push_str(word);
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_but_never_cut() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("longer-than-room x", 4), ["longer-than-room", "x"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(hanging("one two three", 7, 2), ["one two", "  three"]);
        assert_eq!(hanging("  one two three", 9, 4), ["  one two", "    three"]);
    }

    #[test]
    fn a_number_stays_with_its_unit() {
        assert_eq!(wrap("19 of 69 packets (27.5 %), 3.00 s", 23), ["19 of 69 packets", "(27.5 %), 3.00 s"]);
        assert_eq!(wrap("1.67 × the mean", 8), ["1.67 ×", "the mean"]);
        assert_eq!(wrap("QP 21 s is no unit", 5), ["QP", "21 s", "is no", "unit"]);
        assert_eq!(hanging("  a 5 ms", 5, 2), ["  a", "  5 ms"]);
    }

    #[test]
    fn a_short_part_between_dots_stays_whole() {
        let text = "112 steps, period 1.00 s · busy 9 % · communicating 35 %";
        assert_eq!(
            hanging_parts(text, 33, 2),
            ["112 steps, period 1.00 s ·", "  busy 9 % · communicating 35 %"]
        );
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(wrap("网卡 网卡", 8), ["网卡", "网卡"]);
        assert_eq!(wrap("网卡 网卡", 9), ["网卡 网卡"]);
    }
}
