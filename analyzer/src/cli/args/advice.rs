//! Advice in errors of usage, where clap has none or one that does not help.

use std::ffi::OsString;
use std::path::Path;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use crate::util::nearest::nearest;

/// Completes an error about the words of a command line, or replaces it.
pub(super) fn complete(mut error: clap::Error, line: &[OsString], program: &Command) -> clap::Error {
    if let Some(error) = capture_alone(&error) {
        return error;
    }
    let given = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.clone()),
        _ => None,
    };
    match error.kind() {
        // After `help`, clap suggests nothing.
        ErrorKind::InvalidSubcommand if error.get(ContextKind::SuggestedSubcommand).is_none() => {
            let names = visible(program).map(Command::get_name);
            let meant = given(ContextKind::InvalidSubcommand)
                .and_then(|word| nearest(&word, names.map(|name| (name, name))));
            if let Some(meant) = meant {
                let meant = ContextValue::Strings(vec![meant.to_owned()]);
                error.insert(ContextKind::SuggestedSubcommand, meant);
            }
        }
        ErrorKind::UnknownArgument if error.get(ContextKind::SuggestedArg).is_none() => {
            let Some(word) = given(ContextKind::InvalidArg) else { return error };
            let long = word.strip_prefix("--");
            let is_named =
                |option: &Arg| !option.is_hide_set() && long.is_some() && option.get_long() == long;
            let owners: Vec<&str> = visible(program)
                .filter(|command| command.get_arguments().any(is_named))
                .map(Command::get_name)
                .collect();
            if let Some(owners) = joined(&owners) {
                let advice = StyledStr::from(format!("{word} is an option of {owners}"));
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice]));
            } else if !takes_values(line, program) {
                // The advice to put `--` before it.
                error.remove(ContextKind::Suggested);
            }
        }
        _ => {}
    }
    error
}

/// Replaces clap's error for a command line that begins with a capture file instead of a command.
fn capture_alone(error: &clap::Error) -> Option<clap::Error> {
    let Some(ContextValue::String(file)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let name = file.strip_suffix(".gz").unwrap_or(file);
    let is_capture = [".pcap", ".pcapng", ".cap"].iter().any(|suffix| name.ends_with(suffix));
    let what = format!("'{file}' is no command; to read a capture: rocescope replay {file}");
    (is_capture || Path::new(file).is_file())
        .then(|| super::help::command().error(ErrorKind::InvalidSubcommand, what))
}

fn visible(program: &Command) -> impl Iterator<Item = &Command> {
    program.get_subcommands().filter(|command| !command.is_hide_set())
}

/// True if the command of a line takes values that are no options. Hidden ones exist for their errors alone.
fn takes_values(line: &[OsString], program: &Command) -> bool {
    let command = line.iter().skip(1).find_map(|word| program.find_subcommand(word));
    command.is_some_and(|command| command.get_positionals().any(|value| !value.is_hide_set()))
}

/// `live, export and agent`; `None` without any.
fn joined(names: &[&str]) -> Option<String> {
    let (last, others) = names.split_last()?;
    Some(if others.is_empty() { (*last).to_owned() } else { format!("{} and {last}", others.join(", ")) })
}

#[cfg(test)]
mod tests {
    use super::super::Args;
    use super::*;

    fn error(line: &str) -> String {
        Args::read(line.split(' ').map(OsString::from)).unwrap_err().to_string()
    }

    #[test]
    fn a_slip_after_help_is_understood() {
        assert!(error("rocescope help liv").contains("similar subcommand exists: 'live'"));
        assert!(error("rocescope liv").contains("similar subcommand exists: 'live'"));
        assert!(!error("rocescope help xyz").contains("tip:"));
    }

    #[test]
    fn an_option_of_another_command_names_that_command() {
        let tap = error("rocescope live --tap x=y");
        assert!(tap.contains("tip: --tap is an option of replay") && !tap.contains("-- --tap"), "{tap}");
        let two = error("rocescope replay --textfile x");
        assert!(two.contains("--textfile is an option of export and agent"), "{two}");
        assert!(error("rocescope doctor --outpt json").contains("similar argument exists: '--output'"));
    }

    #[test]
    fn an_option_as_a_value_is_proposed_only_where_there_are_values() {
        assert!(error("rocescope replay --zzz").contains("use '-- --zzz'"));
        assert!(!error("rocescope live --zzz").contains("tip:"));
    }
}
