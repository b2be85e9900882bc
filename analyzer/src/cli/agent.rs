//! `agent`: metrics, recording and flight recorder in one process, with one set of kernel programs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, bail};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use signal_hook::consts::SIGHUP;

use super::args::agent::{RELOADED, line};
use super::config::Config;
use super::confine::parent;
use super::export::{self, AgentParts, Reload, ReloadedSettings};
use super::mistake::Place;
use super::output::say;
use super::{AgentArgs, Args, Verb, record};

pub(super) fn agent(args: AgentArgs) -> Result<()> {
    let Some(path) = args.export.common.config.clone() else { return run(args, None) };
    let file = Config::load(Some(&path))?;
    let Some(args) = with_file(&file, &path)? else { return Ok(()) };
    run(args, Some((path, file.agent)))
}

/// Parses the arguments with the options of the file before those of the command line. `None` if clap has printed an
/// error or the help.
fn with_file(file: &Config, path: &Path) -> Result<Option<AgentArgs>> {
    let words = line(&file.agent, path).map_err(|error| anyhow::anyhow!(error))?;
    let mut own = std::env::args_os();
    let start: Vec<OsString> = own.by_ref().take_while(|word| word != "agent").collect();
    let all =
        start.into_iter().chain(["agent".into()]).chain(words.into_iter().map(OsString::from)).chain(own);
    match Args::read(all) {
        Ok(Args { verb: Verb::Agent(args), .. }) => Ok(Some(*args)),
        Ok(_) => Ok(None),
        Err(error) => bail!("{}, {}", path.display(), refused(&error, &file.agent_places)),
    }
}

/// Error of the command line about an option of the file: kind, option, place, and the values that it takes. Not the
/// error's own text, which quotes the value.
fn refused(error: &clap::Error, places: &BTreeMap<String, Place>) -> String {
    let words = |kind| match error.get(kind) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(all)) => all.clone(),
        _ => Vec::new(),
    };
    let options = words(ContextKind::InvalidArg);
    let place = options.iter().find_map(|option| {
        let long = option.strip_prefix("--")?.split([' ', '=', '[']).next()?;
        places.get(&long.replace('-', "_"))
    });
    let place = place.map_or_else(String::new, |place| format!(" at {place}"));
    let (options, others) = (options.join(", "), words(ContextKind::PriorArg).join(", "));
    let problem = match error.kind() {
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let values = words(ContextKind::ValidValue);
            let values =
                if values.is_empty() { String::new() } else { format!(": use {}", values.join(", ")) };
            format!("invalid value of {options}{values}")
        }
        ErrorKind::ArgumentConflict => format!("{options} cannot be used with {others}"),
        ErrorKind::MissingRequiredArgument => format!("{options} is needed beside the others"),
        ErrorKind::TooManyValues | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            format!("wrong number of values of {options}")
        }
        _ => "its options together are not valid".to_owned(),
    };
    format!("[agent]{place}: {problem}; `rocescope agent --help` describes the options")
}

fn run(args: AgentArgs, file: Option<(PathBuf, toml::Table)>) -> Result<()> {
    let recording = args.recording().map(|recording| record::settings(&recording)).transpose()?;
    let folder = recording.as_ref().map(|settings| settings.dir.clone());
    if recording.is_some() {
        // No folder for a recording that cannot be.
        super::live::check(&args.export.source)?;
    }
    let recorder = recording.map(record::start).transpose()?;
    let config = file.as_ref().map(|(path, _)| parent(path));
    let reload = file.map(|(path, table)| reload(path, table)).transpose()?;
    // systemd sets it; a unit with several runtime directories gets a list, of which the first counts.
    let runtime = std::env::var("RUNTIME_DIRECTORY").ok();
    let runtime = runtime.and_then(|list| list.split(':').next().map(PathBuf::from));
    let runtime = runtime.filter(|folder| folder.is_absolute());
    let (host, job) = (args.tables.host, args.tables.job);
    export::serve(args.export, AgentParts { recorder, host, job, folder, config, reload, runtime })
}

/// Prepares reading the file again on SIGHUP.
fn reload(path: PathBuf, mut table: toml::Table) -> Result<Reload> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&flag)).context("cannot catch SIGHUP")?;
    let read = move || {
        let config = Config::load(Some(&path));
        let read = config.and_then(|config| Ok((with_file(&config, &path)?, config)));
        let (args, config) = match read {
            Ok((Some(args), config)) => (args, config),
            Ok((None, _)) => return None,
            Err(error) => {
                say(&format!("{error:#}; the configuration stays as it was"));
                return None;
            }
        };
        let waiting = changed(&table, &config.agent);
        let rest = match waiting.len() {
            0 => String::new(),
            _ => format!("; restart the agent to apply {}", waiting.join(", ")),
        };
        say(&format!("{} reloaded{rest}", path.display()));
        // Keep the new table, so that each option that needs a restart is reported only once.
        table = config.agent;
        Some(ReloadedSettings { limits: config.findings, flight: args.export.flight.settings() })
    };
    Ok(Reload { flag, read: Box::new(read) })
}

/// Names of changed options that take effect only after a restart of the agent.
fn changed(before: &toml::Table, now: &toml::Table) -> Vec<String> {
    let names = before.keys().chain(now.keys().filter(|name| !before.contains_key(*name)));
    let differ = names.filter(|name| before.get(*name) != now.get(*name));
    differ.filter(|name| !RELOADED.contains(&name.replace('-', "_").as_str())).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_file_are_in_no_message() {
        const SECRET: &str = "zq7Xw0";
        for (text, said) in [
            (
                format!("[agent]\n\nkeep = \"{SECRET}\""),
                "[agent] at line 3, column 1: invalid value of --keep <DURATION>",
            ),
            (
                format!("[agent]\nper_qp = \"{SECRET}\""),
                "[agent] at line 2, column 1: invalid value of --per-qp <",
            ),
            (format!("[agent]\nhook = \"{SECRET}\""), "invalid value of --hook <HOOK>: use auto, xdp, tc"),
            (
                format!("[agent]\nclickhouse = \"http://{SECRET}\""),
                "--record <DIR> is needed beside the others",
            ),
        ] {
            let config = Config::parse(&text, Path::new("a.toml")).unwrap();
            let words = line(&config.agent, Path::new("a.toml")).unwrap();
            let start = ["rocescope", "agent"].map(str::to_owned);
            let error = Args::read(start.into_iter().chain(words).map(Into::into)).unwrap_err();
            let error = refused(&error, &config.agent_places);
            assert!(error.contains(said) && !error.contains(SECRET), "{error}");
        }
    }

    #[test]
    fn what_needs_a_restart_is_named() {
        let table = |text: &str| -> toml::Table { toml::from_str(text).unwrap() };
        let before = table("keep = \"10m\"\non = \"loss.*\"\nlisten = [\"127.0.0.1:1\"]");
        let now = table("keep = \"5m\"\non = \"*\"\nlisten = [\"127.0.0.1:1\"]\nrecord = \"/x\"");
        assert_eq!(changed(&before, &now), ["keep", "record"]);
        assert!(
            changed(&before, &table("keep = \"10m\"\nlisten = [\"127.0.0.1:1\"]\npost = \"1s\"")).is_empty()
        );
    }
}
