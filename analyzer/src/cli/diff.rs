//! `diff`: compares two captures, recordings or saved reports.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::{DiffArgs, PageOutput};
use crate::cli::config::Config;
use crate::cli::progress::Progress;
use crate::cli::{confine, output};
use crate::report::Options;
use crate::report::Report;
use crate::source::feed::{Feed, Update};
use crate::source::recording;
use crate::source::replay::{self, Emit};
use crate::util::style::Paint;

pub(super) fn diff(args: &DiffArgs, paint: Paint) -> Result<()> {
    let options = Options { limits: Config::load(args.config.as_deref())?.findings, ..Options::default() };
    let both = [args.a.clone(), args.b.clone()];
    let hosts = match args.host.as_slice() {
        [] => [None, None],
        [one] => [Some(one.as_str()); 2],
        [a, b] => [Some(a.as_str()), Some(b.as_str())],
        _ => bail!("--host: at most two, of the baseline and of the other"),
    };
    if !args.host.is_empty() && !both.iter().any(|path| recording::is_recording(path)) {
        bail!("--host is for recordings of several hosts: neither A nor B is a recording");
    }
    confine::present(&both)?;
    confine::files(&both);
    let progress = Progress::of(&both);
    let (a, b) = (report(&args.a, hosts[0], &options)?, report(&args.b, hosts[1], &options)?);
    drop(progress);
    let (name_a, name_b) = (args.a.display().to_string(), args.b.display().to_string());
    let diff = crate::diff::diff((&name_a, &a), (&name_b, &b));
    match args.output {
        PageOutput::Text => output::page(&crate::diff::text(&diff, output::width(), paint)),
        PageOutput::Json => {
            let mut text =
                serde_json::to_string_pretty(&diff).context("cannot write the comparison as JSON")?;
            text.push('\n');
            output::page(&text)
        }
    }
}

/// The report in a file, or one computed from a capture or recording.
fn report(path: &Path, host: Option<&str>, options: &Options) -> Result<Value> {
    if recording::is_recording(path) {
        let (host, from, to) = (host.map(str::to_owned), None, None);
        let (path, speed, emit) = (path.to_owned(), f64::INFINITY, Emit::AtEnd);
        return last_of(
            &recording::start(recording::Options { path: path.clone(), host, from, to, speed, emit })?,
            &path,
            options,
        );
    }
    if starts_like_json(path)? { saved(path) } else { replayed(path, options) }
}

/// Distinguishes a report, which begins with a brace, from a capture, which begins with a magic number.
fn starts_like_json(path: &Path) -> Result<bool> {
    let mut head = Vec::new();
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    file.take(64).read_to_end(&mut head).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(head.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{'))
}

/// Reads a saved report. Of several in one file (`jsonl`) it takes the last, since reports are cumulative.
fn saved(path: &Path) -> Result<Value> {
    #[cfg(feature = "test-clock")]
    crate::util::hijack::here("report");
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut last = None;
    for value in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
        last = Some(value.with_context(|| format!("{}: not a JSON report", path.display()))?);
    }
    let report = last.with_context(|| format!("{}: empty", path.display()))?;
    match report.get("schema").and_then(Value::as_str) {
        Some(crate::report::SCHEMA) => Ok(report),
        Some(other) => bail!("{}: schema `{other}`, expected `{}`", path.display(), crate::report::SCHEMA),
        None => {
            bail!("{}: not a report; write one with `rocescope replay FILE --output json`", path.display())
        }
    }
}

fn replayed(path: &Path, options: &Options) -> Result<Value> {
    let feed =
        replay::start(replay::Options { files: vec![PathBuf::from(path)], ..replay::Options::default() })?;
    last_of(&feed, path, options)
}

/// The report of the last sample.
fn last_of(feed: &Feed, path: &Path, options: &Options) -> Result<Value> {
    let mut last = None;
    for update in &feed.updates {
        match update {
            Update::Sample(sample) => last = Some(sample),
            Update::Notice(notice) => output::say(&notice),
            Update::Events(_) | Update::Restarted => {}
            Update::Ended(result) => {
                result?;
                break;
            }
        }
    }
    let sample = last.with_context(|| format!("{}: no frames", path.display()))?;
    serde_json::to_value(Report::build(&sample, options)).context("cannot write the report as JSON")
}
