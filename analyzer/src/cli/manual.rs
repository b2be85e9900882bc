//! Manual pages and shell completions, generated from the definition of the command line.

use std::io::{self, Write as _};
use std::path::Path;
use std::{fs, iter};

use anyhow::{Context as _, Result};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

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
    let mut program = help::definition().disable_help_subcommand(true);
    program.build();
    let commands = program.get_subcommands().filter(|command| !command.is_hide_set());
    for command in iter::once(&program).chain(commands) {
        let source = concat!("rocescope ", env!("CARGO_PKG_VERSION"));
        let man = Man::new(command.clone()).source(source);
        let path = folder.join(man.get_filename());
        page(&man, command)
            .and_then(|text| fs::write(&path, text))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A manual page. Examples and notes keep their lines, which those of `clap_mangen` do not.
fn page(man: &Man, command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let after = command.get_after_long_help().or(command.get_after_help());
    let after = after.map(ToString::to_string).unwrap_or_default();
    let (mut status, mut last) = (STATUS, "");
    for block in after.split("\n\n") {
        let (head, body) = block.split_once('\n').unwrap_or((block, ""));
        let (section, text) = match head {
            "Examples:" | "Start here:" => ("EXAMPLES", body),
            _ => ("NOTES", block),
        };
        if let Some(own) = head.strip_prefix("Exit status: ") {
            status = own;
            continue;
        }
        if !text.is_empty() {
            write_lines(&mut page, if section == last { "" } else { section }, text)?;
            last = section;
        }
    }
    write_lines(&mut page, "EXIT STATUS", status)?;
    let name = if command.has_subcommands() { "" } else { "rocescope(1), " };
    write_lines(&mut page, "SEE ALSO", &format!("{name}{DOCUMENTATION}"))?;
    Ok(page)
}

/// Exit status of commands that do not state theirs.
const STATUS: &str = "0 success (also when interrupted), 1 failure, 2 invalid usage.";

/// The pages of docs/, which packages do not contain.
const DOCUMENTATION: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/tree/main/docs");

/// Writes text whose lines are kept, below a title, or as a further part of the section before if that is empty.
fn write_lines(page: &mut Vec<u8>, title: &str, text: &str) -> io::Result<()> {
    if title.is_empty() {
        writeln!(page, ".PP")?;
    } else {
        writeln!(page, ".SH \"{title}\"")?;
    }
    writeln!(page, ".nf")?;
    for line in text.lines() {
        // A period or an apostrophe at the start of a line begins a request.
        let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
        writeln!(page, "{}{line}", if line.starts_with('.') { "\\&" } else { "" })?;
    }
    writeln!(page, ".fi")
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
        for part in [
            ".SH \"EXAMPLES\"\n.nf\n  sudo rocescope live  ",
            "Filters (",
            "help\\-all",
            ".SH \"EXIT STATUS\"\n.nf\n0 success",
            ".SH \"SEE ALSO\"\n.nf\nrocescope(1), https://",
            "\\(aqloss.*|qp.died\\(aq",
        ] {
            assert!(live.contains(part), "{part}: {live}");
        }
        assert!(!live.contains("EXTRA"), "{live}");
        let doctor = fs::read_to_string(folder.path().join("rocescope-doctor.1")).unwrap();
        assert_eq!(doctor.matches("3 a check is critical").count(), 1, "{doctor}");
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
