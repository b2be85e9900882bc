//! The word that was meant by one that is not known.

/// Number of letters that two unrelated words may have in common.
const SHORT: usize = 3;

/// The one of `known` that `word` probably means: one that begins so, or is written so but for a slip in every third
/// letter. Each is a way to write it, and what it then means. Of equally likely ones that with the same first letter,
/// then the shortest.
pub(crate) fn nearest<'a>(
    word: &str,
    known: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Option<&'a str> {
    let most = word.chars().count().max(SHORT) / SHORT;
    let slips = known.into_iter().filter_map(|(written, meant)| {
        let begins = word.chars().count() > SHORT && written.starts_with(word);
        let slips = if begins { 0 } else { strsim::damerau_levenshtein(word, written) };
        // The first letter is the last to be mistaken.
        let is_other = written.chars().next() != word.chars().next();
        (slips <= most).then_some((slips, is_other, meant))
    });
    slips.min_by_key(|(slips, is_other, meant)| (*slips, *is_other, meant.len())).map(|(.., meant)| meant)
}

/// The same as the part of an error's sentence: ` (did you mean 'rate'?)`, or nothing.
pub(crate) fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let meant = nearest(word, known.into_iter().map(|one| (one, one)));
    meant.map_or_else(String::new, |one| format!(" (did you mean '{one}'?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_understood_and_another_word_is_not() {
        let known = ["overview", "qps", "matrix"];
        assert_eq!(hint("overveiw", known), " (did you mean 'overview'?)");
        assert_eq!(hint("qsp", known), " (did you mean 'qps'?)");
        assert_eq!(hint("matr", known), " (did you mean 'matrix'?)");
        assert_eq!(hint("los", ["qos", "loss"]), " (did you mean 'loss'?)");
        for other in ["", "x", "flows", "é", "é\u{301}x"] {
            assert_eq!(hint(other, known), "", "{other}");
        }
    }
}
