//! `explain`: prints the explanation of findings.

use std::fmt::Write as _;
use std::process::ExitCode;

use crate::cli::output;
use crate::findings::{Entry, definitions, entries, similar};
use crate::fleet;
use crate::util::style::{Paint, Role};
use crate::util::wrap::hanging;

/// Prints the explanation of one finding or of a family, or the list of all findings. Returns the exit status.
pub(super) fn explain(id: Option<&str>, paint: Paint) -> ExitCode {
    let text = match id.map(wanted) {
        None => list(entries(), paint),
        Some(_) if id == Some(DEFINITIONS) => definitions_page(paint),
        Some(found) if found.len() > MOST_PAGES && id.is_some_and(|id| !is_family(id)) => list(found, paint),
        Some(found) if !found.is_empty() => {
            found.iter().map(|entry| page(entry, paint)).collect::<Vec<_>>().join("\n")
        }
        Some(_) => {
            let id = id.unwrap_or_default();
            let meant = similar(id).map_or_else(String::new, |one| format!(" did you mean '{one}'?"));
            output::say(&format!(
                "no finding is named '{id}':{meant} `rocescope explain` lists all findings"
            ));
            return ExitCode::from(2);
        }
    };
    match output::page(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Columns of the pages: longer lines are hard to read, and shorter ones hardly hold a name.
const LEAST: usize = 40;
const MOST: usize = 100;

/// Names the numbers that no setting changes.
const DEFINITIONS: &str = "definitions";

/// Findings of a badge that are explained in full; of more, only the list is printed.
const MOST_PAGES: usize = 3;

/// True for the family of an id, such as `loss`.
fn is_family(word: &str) -> bool {
    entries().any(|entry| entry.parts().0 == word)
}

/// The finding with this id, or those of the family, or of the badge or STATE word of screens, in any case.
fn wanted(word: &str) -> Vec<&'static Entry> {
    let lower = word.to_lowercase();
    if let Some(entry) = entries().find(|entry| entry.id == lower) {
        return vec![entry];
    }
    // In lower case it is a family: with the badge `LOSS`, all findings that have it are meant.
    let may_be_badge = word != lower || !is_family(&lower);
    let is_badge = |entry: &Entry| {
        let kinds = [Some(entry.problem), entry.or];
        let mut words = kinds.into_iter().flatten().flat_map(|kind| [kind.word(), kind.badge()]);
        may_be_badge && words.any(|known| known.eq_ignore_ascii_case(word))
    };
    entries().filter(|entry| entry.parts().0 == lower || is_badge(entry)).collect()
}

/// Id and title of each, by id.
fn list(found: impl IntoIterator<Item = &'static Entry>, paint: Paint) -> String {
    let mut all: Vec<&Entry> = found.into_iter().collect();
    all.sort_by_key(|entry| entry.id);
    let widest = all.iter().map(|entry| entry.id.len()).max().unwrap_or(0);
    let mut text = String::new();
    for entry in all {
        let line = format!("{:<widest$}  {}", entry.id, entry.title);
        let _ = writeln!(text, "{}", paint.head(Role::Heading, &line, widest));
    }
    text
}

/// An entry in lines; a list item continues indented.
fn page(entry: &Entry, paint: Paint) -> String {
    const LABELS: [&str; 4] = ["How it is computed:", "What to do:", "Caveats:", "Thresholds ("];
    let label = |line: &str| LABELS.iter().find(|label| line.starts_with(**label)).map(|label| label.len());
    lines(&format!("{}: {}", entry.id, entry.text()), paint, |n, line| {
        if n == 0 { Some(line.len()) } else { label(line) }
    })
}

fn definitions_page(paint: Paint) -> String {
    let mut all = definitions("");
    all.push_str("\nQuestions over many hosts\n\n");
    all.extend(fleet::question::DEFINITIONS.iter().map(|one| format!("{one}\n")));
    lines(&all, paint, |_, line| Some(line.len()).filter(|length| *length > 0 && !line.starts_with("- ")))
}

/// A text in lines as wide as the terminal, and of at most 100 columns. `heading` is the length of the start of a line
/// that is one.
fn lines(text: &str, paint: Paint, heading: impl Fn(usize, &str) -> Option<usize>) -> String {
    let width = output::width().clamp(LEAST, MOST);
    let mut out = String::new();
    for (n, line) in text.lines().enumerate() {
        let indent = if line.starts_with("- ") { 2 } else { 0 };
        let heading = heading(n, line);
        for (wrapped, text) in hanging(line, width, indent).into_iter().enumerate() {
            let text = match heading {
                Some(length) if length == line.len() => paint.paint(Role::Heading, &text),
                Some(length) if wrapped == 0 => paint.head(Role::Heading, &text, length),
                _ => text,
            };
            out.push_str(&text);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Problem;

    #[test]
    fn findings_are_named_by_id_or_by_family() {
        assert_eq!(wanted("tool.lost").len(), 1);
        assert!(wanted("qos").len() > 1);
        assert!(wanted("qos.nothing").is_empty() && wanted("").is_empty());
    }

    #[test]
    fn findings_are_named_by_the_words_of_the_screen_too() {
        let ids = |word| wanted(word).iter().map(|entry| entry.id).collect::<Vec<_>>();
        assert!(ids("no cnp").contains(&"ecn.no_cnp") && ids("CNP0").contains(&"ecn.no_cnp"));
        assert!(ids("LOSS").len() > ids("loss").len(), "of the badge, and of the family alone");
        for word in Problem::ALL.iter().flat_map(|kind| [kind.word(), kind.badge()]) {
            assert!(!wanted(word).is_empty(), "{word}");
            assert!(!wanted(&word.to_lowercase()).is_empty(), "{word}");
        }
        assert_eq!(ids("Tool.Lost"), ["tool.lost"]);
    }

    #[test]
    fn no_line_is_too_long_and_no_word_is_lost() {
        for entry in entries() {
            let text = format!("{}: {}", entry.id, entry.text());
            let page = page(entry, Paint::PLAIN);
            assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&page), words(&text));
        }
    }

    #[test]
    fn definitions_are_explained_by_subject() {
        let page = definitions_page(Paint::PLAIN);
        assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
        assert!(page.contains("\n\nSteps of a job\n\n- Minimum silence of a job"), "{page}");
        assert!(page.contains("\n\nQuestions over many hosts\n\n- Minimum robust z of a bad"), "{page}");
        assert!(wanted(DEFINITIONS).is_empty(), "it is no family");
        assert!(definitions_page(Paint::COLORED).contains("\u{1b}[1mPauses\u{1b}[0m"));
    }

    #[test]
    fn headings_are_coloured_on_demand() {
        let entry = wanted("tool.lost")[0];
        assert!(!page(entry, Paint::PLAIN).contains('\u{1b}'));
        let colored = page(entry, Paint::COLORED);
        assert!(
            colored.starts_with("\u{1b}[1mtool.lost: ") && colored.contains("\u{1b}[1mWhat to do:\u{1b}[0m")
        );
        assert!(list(entries(), Paint::COLORED).contains("\u{1b}[1mtool.lost\u{1b}[0m"));
    }
}
