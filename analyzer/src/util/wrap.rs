//! Word wrap by the columns that a terminal shows.

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// Breaks `text` at spaces into lines of at most `width` columns; longer words stay whole. An empty text is one empty line.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    hanging(text, width, 0)
}

/// [`wrap`] with every line but the first indented by `indent` columns. Spaces in front of the text stay.
#[must_use]
pub fn hanging(text: &str, width: usize, indent: usize) -> Vec<String> {
    let indent = " ".repeat(indent);
    let options = Options::new(width)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit)
        .subsequent_indent(&indent);
    textwrap::wrap(text, options).into_iter().map(std::borrow::Cow::into_owned).collect()
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
    fn wide_characters_take_two_columns() {
        assert_eq!(wrap("网卡 网卡", 8), ["网卡", "网卡"]);
        assert_eq!(wrap("网卡 网卡", 9), ["网卡 网卡"]);
    }
}
