//! Options of `agent`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::export::ExportArgs;
use super::record::{RecordArgs, TablesArgs, parse_keep};
use crate::record::store::Keep;

const AGENT_EXAMPLES: &str = "\
Examples:
  sudo rocescope agent --config /etc/rocescope/agent.toml
  sudo rocescope agent -i eth2 --record /data/roce --listen 127.0.0.1:14791
  sudo rocescope agent --keep 10m --on 'loss.*|pfc.storm|qp.died' --otlp

The file's [agent] table has these options by their long names: interface = [\"eth2\"], otlp = \"\", keep = \"10m\".
SIGHUP reads it again.";

/// Options of `agent`: those of `export`, and of the recording.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = AGENT_EXAMPLES, args_override_self = true)]
#[command(mut_arg("clickhouse", |arg| arg.requires("record")))]
pub struct AgentArgs {
    /// Record to this folder, as rocescope record does
    #[arg(help_heading = "Recording")]
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// Remove the oldest files of the recording beyond this time or this total size
    #[arg(help_heading = "Recording")]
    #[arg(long, value_name = "TIME,SIZE", value_parser = parse_keep, default_value = "7d,20GiB")]
    pub retain: Keep,
    /// Options of the recording.
    #[command(flatten)]
    pub tables: TablesArgs,
    /// Options of the metrics and the source.
    #[command(flatten)]
    pub export: ExportArgs,
}

impl AgentArgs {
    /// The options of `record` that correspond to `--record`; `None` without it.
    pub fn recording(&self) -> Option<RecordArgs> {
        let export = &self.export;
        Some(RecordArgs {
            dir: self.record.clone()?,
            read: Vec::new(),
            interval: export.view().interval,
            keep: Some(self.retain),
            tables: self.tables.clone(),
            source: export.source.clone(),
            common: export.common.clone(),
        })
    }
}

/// Names of options that SIGHUP changes while the agent runs.
#[cfg(feature = "live")]
pub(in crate::cli) const RELOADED: [&str; 3] = ["on", "post", "cooldown"];

/// The `[agent]` table of a configuration file as a command line.
///
/// # Errors
/// If a value is not a string, number, boolean or list of these.
#[cfg(any(feature = "live", test))]
pub(in crate::cli) fn line(table: &toml::Table, path: &std::path::Path) -> Result<Vec<String>, String> {
    let mut line = Vec::new();
    for (name, value) in table {
        if name == "config" {
            return Err(format!("{}: agent.config: a configuration file names no other one", path.display()));
        }
        let option = format!("--{}", name.replace('_', "-"));
        let values = match value {
            toml::Value::Array(values) => values.iter().collect(),
            toml::Value::Boolean(yes) => {
                line.extend(yes.then_some(option));
                continue;
            }
            one => vec![one],
        };
        for value in values {
            let value = match value {
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                _ => {
                    return Err(format!(
                        "{}: agent.{name}: write a text, a number or a list of texts",
                        path.display()
                    ));
                }
            };
            // `--option=value` as one word, since a value may begin with a dash.
            line.push(format!("{option}={value}"));
        }
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Args, Verb};
    use std::path::Path;
    use std::time::Duration;

    fn table(text: &str) -> toml::Table {
        toml::from_str(text).unwrap()
    }

    fn agent(words: &[String]) -> AgentArgs {
        let start = ["rocescope", "agent"].map(str::to_owned);
        match Args::read(start.iter().chain(words).map(Into::into)).unwrap().verb {
            Verb::Agent(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_table_has_the_options_of_the_command_line() {
        let file = table(
            "interface = [\"eth2\", \"eth3\"]\notlp = \"\"\nkeep = \"10m\"\non = \"loss.*|qp.died\"\n\
             per_qp = 4\nrecord = \"/data\"\nno_promisc = true\nno_timing = false",
        );
        let args = agent(&line(&file, Path::new("a")).unwrap());
        assert_eq!(args.export.source.interface, ["eth2", "eth3"]);
        assert_eq!((args.export.otlp.as_deref(), args.export.per_qp), (Some(""), 4));
        let flight = args.export.flight.settings().unwrap();
        assert_eq!((flight.keep, flight.on.matches("loss.before_tap")), (Duration::from_secs(600), true));
        assert!(args.export.source.attach.no_promisc && !args.export.source.attach.no_timing);
        let recording = args.recording().unwrap();
        assert_eq!((recording.dir, recording.interval), (PathBuf::from("/data"), Duration::from_secs(1)));
        assert!(agent(&[]).recording().is_none() && agent(&[]).export.flight.settings().is_none());
    }

    #[test]
    fn what_the_command_line_says_comes_before_the_file() {
        let mut words = line(&table("keep = \"10m\"\ninterval = \"5s\""), Path::new("a")).unwrap();
        words.push("--keep=1m".to_owned());
        let args = agent(&words);
        assert_eq!(args.export.flight.keep, Some(Duration::from_secs(60)));
        assert_eq!(args.export.interval, Duration::from_secs(5));
    }

    #[test]
    fn mistakes_are_named() {
        for text in ["keep = 1.5", "listen = [[\"a\"]]", "config = \"b\""] {
            assert!(line(&table(text), Path::new("a.toml")).unwrap_err().contains("a.toml"), "{text}");
        }
        let words = line(&table("kepe = \"10m\""), Path::new("a")).unwrap();
        let start = ["rocescope", "agent"].map(str::to_owned);
        let error = Args::read(start.iter().chain(&words).map(Into::into)).unwrap_err();
        assert!(error.to_string().contains("--kepe"), "{error}");
    }
}
