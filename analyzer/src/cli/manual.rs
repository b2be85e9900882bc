//! Manual pages and shell completions, generated from the definition of the command line.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use clap::Command;
use clap_complete::Shell;

use super::args::help;
use super::output;

/// Prints the completions for a shell.
///
/// # Errors
/// If standard output cannot be written.
pub(super) fn completions(shell: Shell) -> Result<()> {
    output::page(&completed(shell))
}

fn completed(shell: Shell) -> String {
    let all = help::definition();
    // clap can neither remove a command nor keep those that help hides out of completions.
    let mut shown = Command::new("rocescope")
        .args(all.get_arguments().cloned())
        .subcommands(all.get_subcommands().filter(|command| !command.is_hide_set()).cloned())
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .disable_help_flag(true);
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut shown, "rocescope", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Writes a manual page for the program and for each command into a folder.
///
/// # Errors
/// If a page cannot be written.
pub(super) fn pages(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    // Not with the options of short help selected: a page gives no text to an option that `-h` hides.
    clap_mangen::generate_to(help::definition(), folder)
        .with_context(|| format!("cannot write manual pages to {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        pages(folder.path()).unwrap();
        for command in help::definition().get_subcommands().filter(|command| !command.is_hide_set()) {
            let page = folder.path().join(format!("rocescope-{}.1", command.get_name()));
            let text = fs::read_to_string(page).unwrap();
            assert!(text.contains(".SH SYNOPSIS") && text.contains("rocescope"), "{}", command.get_name());
        }
        let main = fs::read_to_string(folder.path().join("rocescope.1")).unwrap();
        assert!(main.contains("rocescope\\-live(1)"), "{main}");
        let live = fs::read_to_string(folder.path().join("rocescope-live.1")).unwrap();
        for part in ["Examples:", "Filters (", "help\\-all"] {
            assert!(live.contains(part), "{part}: {live}");
        }
    }

    #[test]
    fn every_option_of_a_page_has_a_text() {
        let folder = tempfile::tempdir().unwrap();
        pages(folder.path()).unwrap();
        let mut options = 0;
        for entry in fs::read_dir(folder.path()).unwrap().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap();
            // A paragraph with a tag has the tag in its first line and the text in the next ones.
            for tagged in text.split("\n.TP\n").skip(1) {
                let mut lines = tagged.lines();
                let tag = lines.next().unwrap();
                let body = lines.next().unwrap_or_default();
                assert!(!body.is_empty() && !body.starts_with('.'), "{}: {tag}", entry.path().display());
                options += 1;
            }
        }
        assert!(options > 150, "{options} options");
    }

    #[test]
    fn completions_know_commands_and_options() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = completed(shell);
            assert!(!text.contains("manual"), "{shell} offers a command that help hides");
            for word in ["replay", "doctor", "reorder-window", "help-all"] {
                assert!(text.contains(word), "{shell}: {word}");
            }
        }
    }
}
