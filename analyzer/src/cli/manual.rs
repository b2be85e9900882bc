//! Manual pages and shell completions, generated from the definition of the command line.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use clap_complete::Shell;

use super::{help, output};

/// Prints the completions for a shell.
///
/// # Errors
/// If standard output cannot be written.
pub(super) fn completions(shell: Shell) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut help::command(), "rocescope", &mut text);
    output::page(&String::from_utf8_lossy(&text))
}

/// Writes a manual page for the program and for each command into a folder.
///
/// # Errors
/// If a page cannot be written.
pub(super) fn pages(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let command = help::command();
    clap_mangen::generate_to(command, folder)
        .with_context(|| format!("cannot write manual pages to {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        pages(folder.path()).unwrap();
        let shown = help::command();
        for command in shown.get_subcommands().filter(|command| !command.is_hide_set()) {
            let page = folder.path().join(format!("rocescope-{}.1", command.get_name()));
            let text = fs::read_to_string(page).unwrap();
            assert!(text.contains(".SH SYNOPSIS") && text.contains("rocescope"), "{}", command.get_name());
        }
        let main = fs::read_to_string(folder.path().join("rocescope.1")).unwrap();
        assert!(main.contains("rocescope\\-live(1)"), "{main}");
    }

    #[test]
    fn completions_know_commands_and_options() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut help::command(), "rocescope", &mut text);
            let text = String::from_utf8(text).unwrap();
            for word in ["replay", "doctor", "reorder-window"] {
                assert!(text.contains(word), "{shell}: {word}");
            }
        }
    }
}
