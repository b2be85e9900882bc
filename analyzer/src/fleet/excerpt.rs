//! Errors of engines, in short.

use super::recording::NO_FILES;

/// The first lines of an engine's error, message and position, and its last: a program in Python says the cause there.
/// A pattern without files is there as a whole, to be recognised.
pub(super) fn first_lines(text: &[u8]) -> String {
    const MOST: usize = 400;
    let text = String::from_utf8_lossy(text);
    let mut lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if let [_, _, _, .., last] = lines[..] {
        lines.truncate(3);
        lines.extend(["…", last].into_iter().filter(|_| last.contains("Error: ")));
    }
    let joined = lines.join(" ");
    let pattern = joined.find(NO_FILES).map(|at| at + NO_FILES.len());
    let end = pattern.and_then(|at| Some(at + joined.get(at..)?.find('"')? + 1));
    let least = end.and_then(|end| joined.get(..end)).map_or(0, |text| text.chars().count());
    let text: String = joined.chars().take(least.max(MOST)).collect();
    if text.is_empty() { "it failed and gave no reason".to_owned() } else { text }
}
