//! The forms of help: `-h` lists common options on a terminal of 80 columns and 24 lines; `--help` adds examples, on
//! one of 80 columns and 40 lines; `--help-all`, like `rocescope help COMMAND`, lists all options in sections.

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, Command, CommandFactory as _};

use super::Args;

/// Options in `-h` and `--help` of commands whose options exceed one screen. Positional arguments are always listed.
const COMMON: &[(&str, &[&str])] = &[
    ("live", &["interface", "attach", "output", "out", "duration", "filter"]),
    ("replay", &["from", "to", "output", "out", "filter"]),
    ("export", &["interface", "listen", "textfile", "otlp", "interval", "config"]),
    ("agent", &["interface", "record", "keep", "listen", "config"]),
    ("record", &["interface", "dir", "read", "host", "interval", "keep", "clickhouse", "duration"]),
    ("demo", &["output", "out", "duration", "screen"]),
];

/// Further options in `--help` of commands whose examples use them.
const OF_EXAMPLES: &[(&str, &[&str])] = &[("replay", &["group", "tap"])];

/// Id of the option of short help.
const HELP: &str = "help";

/// The command line: commands, their options, and those of help in place of clap's, which has two forms only.
pub(in crate::cli) fn definition() -> Command {
    let help = Arg::new(HELP).short('h').long("help").action(ArgAction::HelpShort);
    let all = Arg::new("help_all").long("help-all").action(ArgAction::HelpLong);
    Args::command()
        .disable_help_flag(true)
        .arg(
            help.global(true)
                .help("Print help (--help: with examples, --help-all: all)")
                .long_help("Print help: -h common options, --help with examples")
                .display_order(902),
        )
        .arg(all.global(true).help("Print help with all options, in sections").display_order(903))
}

/// True for an option that prints help.
pub(in crate::cli) fn is_help(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::HelpShort | ArgAction::HelpLong)
}

/// The command line, with the options of short help selected, for the words of one: `--help` among them adds examples.
pub(super) fn command_of<'a>(words: impl IntoIterator<Item = &'a OsString>) -> Command {
    // No other option takes a value that begins so.
    if words.into_iter().any(|word| word == OsStr::new("--help")) {
        OF_EXAMPLES.iter().fold(command(), |all, (name, options)| {
            let shown =
                |command: Command, option: &&str| command.mut_arg(*option, |arg| arg.hide_short_help(false));
            all.mut_subcommand(name, |command| options.iter().fold(command, shown))
        })
    } else {
        without_examples(command())
    }
}

/// The command line, with the options of short help selected.
pub fn command() -> Command {
    // Options of every command.
    let all = select(definition(), &[HELP]);
    let all = COMMON
        .iter()
        .fold(all, |all, (name, common)| all.mut_subcommand(name, |command| select(command, common)));
    let named = all.mut_subcommands(|command| {
        let name = format!("rocescope {}", command.get_name());
        command.before_long_help(head(&name))
    });
    named.before_long_help(head("rocescope"))
}

/// `-h`.
fn without_examples(command: Command) -> Command {
    let whole = |command: Command| {
        // Without one of its own, long help would end with these.
        let long = command.get_after_long_help().or(command.get_after_help()).cloned();
        let command = command.after_help(None::<&'static str>);
        match long {
            Some(long) => command.after_long_help(long),
            None => command,
        }
    };
    whole(command).mut_subcommands(whole)
}

/// The first line of `--help-all`, which is longer than a screen.
fn head(command: &str) -> String {
    format!("All options. On one screen: {command} --help. Page by page: {command} --help-all | less")
}

/// Limits `-h` of a command to positional arguments and these options.
fn select(command: Command, common: &[&str]) -> Command {
    command.mut_args(|arg| {
        let is_rare = !arg.is_positional() && !common.contains(&arg.get_id().as_str());
        if is_rare { arg.hide_short_help(true) } else { arg }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns and lines of a terminal, less the line of the prompt, for `-h` and for `--help`.
    const SCREENS: [(usize, usize); 2] = [(80, 23), (80, 39)];

    /// Each command, with the word of its short help.
    fn each(word: &str, mut check: impl FnMut(&str, &mut Command)) {
        let mut all = command_of(&["rocescope".into(), word.into()]).term_width(80);
        all.build();
        check("", &mut all);
        for command in all.get_subcommands_mut().filter(|command| command.get_name() != "help") {
            let name = command.get_name().to_owned();
            check(&name, command);
        }
    }

    #[test]
    fn both_short_forms_fit_a_screen() {
        let mut wrong = Vec::new();
        for (word, (columns, most)) in ["-h", "--help"].into_iter().zip(SCREENS) {
            each(word, |name, command| {
                let text = command.render_help().to_string();
                let lines = text.lines().count();
                if lines > most || text.lines().any(|line| line.chars().count() > columns) {
                    wrong.push(format!("rocescope {name} {word} has {lines} lines:\n{text}"));
                }
            });
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn examples_fit_a_line() {
        each("--help", |name, command| {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in after.lines().filter(|line| line.starts_with(' ')) {
                assert!(line.chars().count() <= SCREENS[0].0, "rocescope {name}: {line}");
            }
        });
    }

    #[test]
    fn the_short_forms_name_the_longer_ones() {
        for word in ["-h", "--help"] {
            each(word, |name, command| {
                let short = command.render_help().to_string();
                let words = short.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(words.contains("--help: with examples, --help-all: all"), "{name}: {short}");
            });
        }
    }

    #[test]
    fn the_whole_form_begins_with_the_way_to_the_one_that_fits_a_screen() {
        each("--help-all", |name, command| {
            let text = command.render_long_help().to_string();
            let first = text.lines().next().unwrap();
            let short = format!("rocescope {name} --help").replace("  ", " ");
            assert!(first.contains(&short) && first.chars().count() <= 100, "{name}: {first}");
            assert!(!command.render_help().to_string().contains("All options."), "{name}");
        });
    }

    #[test]
    fn help_has_examples_and_the_short_form_none() {
        const HEADS: [&str; 3] = ["Examples:", "Start here:", "Episodes,"];
        let has = |text: &str| HEADS.iter().any(|head| text.contains(head));
        each("--help", |name, command| {
            let is_plain = name == "manual";
            for text in [command.render_help(), command.render_long_help()].map(|text| text.to_string()) {
                assert!(is_plain || has(&text), "{name}: {text}");
            }
        });
        each("-h", |name, command| {
            assert!(!has(&command.render_help().to_string()), "{name}");
            assert!(name == "manual" || has(&command.render_long_help().to_string()), "{name}");
        });
    }

    #[test]
    fn the_whole_form_has_every_option_and_every_common_option_exists() {
        each("--help-all", |name, command| {
            let text = command.render_long_help().to_string();
            let shown = command.get_arguments().filter(|option| !option.is_hide_set());
            for long in shown.filter_map(Arg::get_long) {
                assert!(text.contains(&format!("--{long}")), "rocescope {name} --help-all lacks --{long}");
            }
            assert!(!text.contains("docs/"), "{name}: a package has no docs/");
            let common = COMMON.iter().find(|(of, _)| *of == name).map_or(&[][..], |(_, common)| common);
            for id in common {
                let found =
                    command.get_arguments().any(|arg| arg.get_id() == id && !arg.is_hide_short_help_set());
                assert!(found, "rocescope {name} has no option {id}");
            }
        });
        for (name, _) in COMMON {
            assert!(command().find_subcommand(name).is_some(), "{name}");
        }
    }

    #[test]
    fn the_sections_of_a_form_come_once_each() {
        each("--help", |name, command| {
            for text in [command.render_help(), command.render_long_help()].map(|text| text.to_string()) {
                let mut heads: Vec<&str> =
                    text.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
                let all = heads.len();
                heads.sort_unstable();
                heads.dedup();
                assert_eq!(heads.len(), all, "{name}: {text}");
            }
        });
    }
}
