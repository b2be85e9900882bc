//! Labels in a line of the picture: keys with what they do, such as `Enter queue pairs`, `+ - zoom` or
//! `Esc: close`.

use std::ops::Range;

/// Symbols of frames, which end a label.
const FRAME: [&str; 6] = ["─", "╭", "╮", "╰", "╯", "│"];

/// Which words are names of keys.
pub(super) struct Names<'a> {
    /// True for the name of a key that works here.
    pub(super) is_key: &'a dyn Fn(&str) -> bool,
    /// True for one with which a label within a text may begin without a colon.
    pub(super) stands_alone: &'a dyn Fn(&str) -> bool,
}

/// A word with its columns.
struct Word {
    at: Range<usize>,
    text: String,
}

impl Word {
    /// The name of the key that it may be.
    fn name(&self) -> &str {
        if self.text.chars().count() == 1 {
            return &self.text;
        }
        self.text.trim_start_matches('(').trim_end_matches([':', ')'])
    }

    /// True if the word behind it may begin another label.
    fn ends_label(&self) -> bool {
        self.text.chars().count() > 1 && self.text.ends_with([',', ';'])
    }
}

/// The name of the key whose label stands at column `x` of a line; `keys` where a line has labels alone, as the last
/// one of the screen. Elsewhere a label stands in a frame, or in a text with a colon behind its key.
pub(super) fn hit(row: &[&str], x: usize, keys: bool, names: &Names<'_>) -> Option<String> {
    let is_frame = |at: &usize| row.get(*at).is_some_and(|symbol| FRAME.contains(symbol));
    if is_frame(&x) || x >= row.len() {
        return None;
    }
    let from = (0..x).rev().find(is_frame).map_or(0, |at| at + 1);
    let to = (x..row.len()).find(is_frame).unwrap_or(row.len());
    // Between two sides of boxes stands text.
    let is_line = |at: Option<usize>| at.and_then(|at| row.get(at)).is_some_and(|symbol| is_rule(symbol));
    let keys = keys || is_line(from.checked_sub(1)) || is_line(Some(to));
    let words = words(row, from..to, x);
    let labels: Vec<Range<usize>> =
        (0..words.len()).filter_map(|at| keys_at(&words, at, keys, names)).collect();
    let ends = labels.iter().skip(1).map(|next| next.start).chain([words.len()]);
    let mut labels = labels.iter().zip(ends);
    let (own, end) = labels.find(|(own, end)| {
        let columns = words.get(own.start).zip(words.get(end.saturating_sub(1)));
        columns.is_some_and(|(first, last)| (first.at.start..=last.at.end).contains(&x))
    })?;
    chosen(words.get(own.clone())?, words.get(own.end..end)?, x)
}

fn is_rule(symbol: &str) -> bool {
    symbol != "│" && FRAME.contains(&symbol)
}

/// The words around column `x`: between two blanks, or dots, on either side.
fn words(row: &[&str], area: Range<usize>, x: usize) -> Vec<Word> {
    let is = |at: usize, symbol: &str| area.contains(&at) && row.get(at) == Some(&symbol);
    let is_end = |at: &usize| is(*at, "·") || is(*at, " ") && (is(at + 1, " ") || *at > 0 && is(at - 1, " "));
    if is_end(&x) {
        return Vec::new();
    }
    let from = (area.start..x).rev().find(is_end).map_or(area.start, |at| at + 1);
    let to = (x..area.end).find(is_end).unwrap_or(area.end);
    let mut words: Vec<Word> = Vec::new();
    for at in from..to {
        let Some(symbol) = row.get(at).filter(|symbol| **symbol != " ") else { continue };
        match words.last_mut().filter(|last| last.at.end == at) {
            Some(last) => {
                last.text.push_str(symbol);
                last.at.end = at + 1;
            }
            None => words.push(Word { at: at..at + 1, text: (*symbol).to_owned() }),
        }
    }
    words
}

/// The places of the keys of the label that begins with word `at`; `None` where none does.
fn keys_at(words: &[Word], at: usize, keys: bool, names: &Names<'_>) -> Option<Range<usize>> {
    let first = words.get(at)?;
    let aside = first.text.starts_with('(') && first.text.chars().count() > 1;
    // `key 7 opens`: the number alone would be one of things.
    let begins_behind = |word: &Word| word.ends_label() || word.text == "key";
    let begins = aside || at.checked_sub(1).and_then(|before| words.get(before)).is_none_or(begins_behind);
    let last = |word: &Word| word.text.chars().count() > 1 && word.text.ends_with([':', ')']);
    let mut end = at;
    while let Some(word) = words.get(end).filter(|word| (names.is_key)(word.name())) {
        end += 1;
        if last(word) {
            break;
        }
    }
    let key = words.get(end.checked_sub(1)?).filter(|_| begins && end > at)?;
    // `(f)` names a key without more words, and a number is no key unless something says so.
    let meaning = words.get(end).map(|word| word.text.as_str());
    let is_number = key.name().chars().all(|letter| letter.is_ascii_digit());
    let whole = if is_number { meaning == Some("opens") } else { meaning.is_some() || aside && last(key) };
    let colon = key.text.chars().count() > 1 && key.text.ends_with(':');
    (whole && (keys || colon || (names.stands_alone)(first.name()))).then_some(at..end)
}

/// The key that was hit, or the one whose meaning was.
fn chosen(keys: &[Word], words: &[Word], x: usize) -> Option<String> {
    let hit = keys.iter().position(|key| key.at.contains(&x));
    // `n N earlier, later event`: each has its own.
    let parts = words.iter().rev().skip(1).filter(|word| word.ends_label());
    let each = keys.len() > 1 && parts.clone().count() + 1 == keys.len();
    let is_right = words.first().is_some_and(|word| x >= word.at.start);
    let own = (each && is_right).then(|| parts.filter(|word| word.at.end <= x).count());
    // A list is left at its top downwards.
    let is_list = keys.iter().map(Word::name).eq(["Up", "Down"]);
    keys.get(hit.or(own).unwrap_or(usize::from(is_list))).map(|key| key.name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Names, hit};

    const KEYS: [&str; 16] =
        ["Enter", "Esc", "Up", "Down", "Left", "Right", "+", "-", ",", ".", "n", "N", "m", "f", "7", "/"];

    /// The key of the label at the first letter of `at` in a line.
    fn label(line: &'static str, at: &str, keys: bool) -> Option<String> {
        let row = line.split_inclusive(|_: char| true).collect::<Vec<_>>();
        let x = line[..line.find(at).unwrap()].chars().count();
        let names = Names {
            is_key: &|word| KEYS.contains(&word),
            stands_alone: &|word| ["Esc", "/"].contains(&word),
        };
        hit(&row, x, keys, &names)
    }

    #[track_caller]
    fn is(found: Option<&str>, key: &str) {
        assert_eq!(found, Some(key));
    }

    #[test]
    fn labels_stand_in_frames_and_in_the_last_line() {
        let frame = "╭ LINKS full ─────── m metric · Enter queue pairs ─╮";
        is(label(frame, "metric", false).as_deref(), "m");
        is(label(frame, "pairs", false).as_deref(), "Enter");
        assert_eq!([label(frame, "LINKS", false), label(frame, "─", false)], [None, None]);
        let last = " Enter headers  n N earlier, later event  f follow     7 of 9  7 opens ";
        is(label(last, "headers", true).as_deref(), "Enter");
        is(label(last, "N earlier", true).as_deref(), "N");
        is(label(last, "earlier", true).as_deref(), "n");
        is(label(last, "event", true).as_deref(), "N");
        is(label(last, "opens", true).as_deref(), "7");
        assert_eq!([label(last, "of 9", true), label(last, "  f", true)], [None, None]);
        is(label("─ SIGNALS ── 10 min · + - zoom · Left Right cursor ─", "- zoom", false).as_deref(), "-");
        is(label("─ SIGNALS ── 10 min · + - zoom · Left Right cursor ─", "zoom", false).as_deref(), "+");
        is(label("╭ EVENTS newest first ──── key 7 opens ─╮", "opens", false).as_deref(), "7");
        is(label(" , . step  Up Down select ", "step", true).as_deref(), ",");
        is(label(" , . step  Up Down select ", ". step", true).as_deref(), ".");
        is(label(" , . step  Up Down select ", "select", true).as_deref(), "Down");
    }

    #[test]
    fn within_a_text_a_label_has_a_colon() {
        let text = "│ Up Down: select, Enter: headers │";
        is(label(text, "headers", false).as_deref(), "Enter");
        is(label(text, "Down", false).as_deref(), "Down");
        is(label("│ Esc clears it, / edits the filter. │", "edits", false).as_deref(), "/");
        assert_eq!(label("│ Down the path m is lost │", "Down", false), None);
        assert_eq!(label("│ 0.5 % - - 3 │ m of it │", "m of", false), None);
        is(label(" by state, order held (f) ", "(f)", true).as_deref(), "f");
        assert_eq!(label(" by state, order held (f) ", "held", true), None);
    }
}
