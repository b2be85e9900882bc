//! The two forms of help: `-h` lists common options and fits a terminal of 80 columns and 24 lines; `--help` lists
//! all options in sections, with examples.

use clap::{Command, CommandFactory as _};

use super::Args;

/// Options in `-h` of commands whose options exceed one screen. Positional arguments are always listed.
const COMMON: &[(&str, &[&str])] = &[
    ("live", &["interface", "attach", "output", "out", "duration", "filter"]),
    ("replay", &["from", "to", "output", "out", "filter"]),
    ("export", &["interface", "listen", "textfile", "otlp", "interval", "config"]),
    ("agent", &["interface", "record", "keep", "listen", "config"]),
    ("record", &["interface", "dir", "read", "interval", "keep", "clickhouse", "duration"]),
    ("demo", &["output", "out", "duration", "screen"]),
];

/// The command line, with the options of `-h` selected.
#[must_use]
pub fn command() -> Command {
    // Options of every command.
    let all = select(Args::command(), &[]);
    let all = COMMON
        .iter()
        .fold(all, |all, (name, common)| all.mut_subcommand(name, |command| select(command, common)));
    let named = all.mut_subcommands(|command| {
        let name = format!("rocescope {}", command.get_name());
        command.before_long_help(head(&name))
    });
    named.before_long_help(head("rocescope"))
}

/// The first line of `--help`, which is longer than a screen.
fn head(command: &str) -> String {
    format!("The full help. On one screen: {command} -h. Page by page: {command} --help | less")
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

    /// Columns and lines of a terminal, less the line of the prompt.
    const SCREEN: (usize, usize) = (80, 23);

    fn each(mut check: impl FnMut(&str, &mut Command)) {
        let mut all = command().term_width(SCREEN.0);
        all.build();
        check("", &mut all);
        for command in all.get_subcommands_mut().filter(|command| command.get_name() != "help") {
            let name = command.get_name().to_owned();
            check(&name, command);
        }
    }

    #[test]
    fn the_short_form_fits_a_screen() {
        let mut wrong = Vec::new();
        each(|name, command| {
            let text = command.render_help().to_string();
            let lines = text.lines().count();
            if lines > SCREEN.1 || text.lines().any(|line| line.chars().count() > SCREEN.0) {
                wrong.push(format!("rocescope {name} -h has {lines} lines:\n{text}"));
            }
        });
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn the_short_form_names_the_long_one_where_that_has_more() {
        each(|name, command| {
            let (short, long) = (command.render_help().to_string(), command.render_long_help().to_string());
            let options =
                |text: &str| text.lines().filter(|line| line.trim_start().starts_with("--")).count();
            if options(&long) > options(&short) || long.contains("Examples:") {
                assert!(short.contains("see more with '--help'"), "{name}: {short}");
            }
        });
    }

    #[test]
    fn the_long_form_begins_with_the_way_to_the_short_one() {
        each(|name, command| {
            let text = command.render_long_help().to_string();
            let first = text.lines().next().unwrap();
            let short =
                if name.is_empty() { "rocescope -h".to_owned() } else { format!("rocescope {name} -h") };
            assert!(first.contains(&short) && first.chars().count() <= SCREEN.0, "{name}: {first}");
            assert!(!command.render_help().to_string().contains("The full help"), "{name}");
        });
    }

    #[test]
    fn the_long_form_has_examples_and_every_common_option_exists() {
        each(|name, command| {
            let text = command.render_long_help().to_string();
            let is_plain = ["config", "manual"].contains(&name);
            let has = ["Examples:", "Start here:", "Episodes,"].iter().any(|head| text.contains(head));
            assert!(is_plain || has, "{name}: {text}");
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
    fn the_sections_of_the_long_form_come_once_each() {
        each(|name, command| {
            let text = command.render_long_help().to_string();
            let mut heads: Vec<&str> =
                text.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
            let all = heads.len();
            heads.sort_unstable();
            heads.dedup();
            assert_eq!(heads.len(), all, "{name}: {text}");
        });
    }
}
