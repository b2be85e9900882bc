//! `explain`: the text about findings.

use std::fmt::Write as _;
use std::process::ExitCode;

use crate::cli::output;
use crate::findings::{Entry, entries};
use crate::report::text::layout::wrap;

/// Prints what a finding means, all of a family, or the list of findings; its result is the exit
/// status.
pub(super) fn explain(id: Option<&str>) -> ExitCode {
    let text = match id.map(wanted) {
        None => list(),
        Some(found) if !found.is_empty() => {
            found.iter().map(|entry| format!("{}: {}", entry.id, entry.text())).collect::<Vec<_>>().join("\n")
        }
        Some(_) => {
            let id = id.unwrap_or_default();
            output::say(&format!("there is no finding `{id}`; `rocescope explain` lists those there are"));
            return ExitCode::from(2);
        }
    };
    match output::page(&wrapped(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// The finding of this id, or those of this family.
fn wanted(id: &str) -> Vec<&'static Entry> {
    entries().filter(|entry| entry.id == id || entry.id.split('.').next() == Some(id)).collect()
}

fn list() -> String {
    let widest = entries().map(|entry| entry.id.len()).max().unwrap_or(0);
    let mut text = String::new();
    for entry in entries() {
        let _ = writeln!(text, "{:<widest$}  {}", entry.id, entry.title);
    }
    text
}

/// Lines of at most 100 columns, broken between words; a list item goes on indented.
fn wrapped(text: &str) -> String {
    const WIDTH: usize = 100;
    let mut out = String::new();
    for line in text.lines() {
        let indent = if line.starts_with("- ") { "  " } else { "" };
        out.push_str(&wrap(line, WIDTH - indent.len()).join(&format!("\n{indent}")));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_id_by_family_or_not_at_all() {
        assert_eq!(wanted("tool.lost").len(), 1);
        assert!(wanted("qos").len() > 1);
        assert!(wanted("qos.nothing").is_empty() && wanted("").is_empty());
    }

    #[test]
    fn no_line_is_too_long_and_no_word_is_lost() {
        for entry in entries() {
            let text = entry.text();
            let page = wrapped(&text);
            assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&page), words(&text));
        }
    }
}
