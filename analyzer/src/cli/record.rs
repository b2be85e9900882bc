//! `record`: writes live interfaces or captures to Parquet files.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};

use super::output::{Interrupt, Updates, say, say_unknown_names};
use super::progress::Progress;
use super::{RecordArgs, Views, confine, views};
use crate::record::collect::{Clock, Origin};
use crate::record::recorder::{Recorder, Settings};
use crate::record::spans::Spans;
use crate::report::{self, Report};
use crate::sample::Sample;
use crate::source::feed::{Feed, Update};
use crate::source::replay::{self, Emit};
use crate::util::system;
use crate::util::time::nanos;
use crate::util::units::{count, plural};

pub(super) fn record(args: RecordArgs) -> Result<()> {
    let interrupt = Interrupt::catch()?;
    if args.read.is_empty() { live(args, &interrupt) } else { captures(args, &interrupt) }
}

fn captures(args: RecordArgs, interrupt: &Interrupt) -> Result<()> {
    confine::present(&args.read)?;
    // Before folders are made for a recording that cannot be.
    confine::captures(&args.read)?;
    let settings = settings(&args)?;
    let Views { report, .. } = views(&args.view(), None)?;
    let (dir, host) = (settings.dir.clone(), settings.origin.host.clone());
    let recorder = start(settings)?;
    confine::record(&args.read, &dir);
    // What a kill has left is in files now.
    let mut there = confine::reading(|| Ok(Spans::read(&dir, &host)))?;
    let progress = Progress::of(&args.read);
    let options = replay::Options {
        files: args.read,
        duration: args.common.duration,
        filter: args.common.filter,
        idle: args.common.idle,
        max_flows: args.common.max_flows.unwrap_or(replay::MAX_FLOWS),
        emit: Emit::Every(args.interval),
        events: true,
        ..replay::Options::default()
    };
    let feed = confine::reading(|| replay::start(options))?;
    let mut fits = |sample: &Sample, report: &Report| match there.already_recorded(sample.time_ns, report) {
        Some(what) => Err(recorded_already(&dir, &host, &what)),
        None => Ok(()),
    };
    let ended = run(&feed, recorder, &report, interrupt, &mut fits);
    drop(progress);
    ended
}

/// The capture would be in the folder twice.
fn recorded_already(dir: &Path, host: &str, what: &str) -> anyhow::Error {
    anyhow!(
        "{} has rows of {what} of host {host} already, and would count these packets twice; record to another folder \
         (--dir), remove this one to record anew, or name the host of another capture (--host)",
        dir.display()
    )
}

#[cfg(feature = "live")]
fn live(args: RecordArgs, interrupt: &Interrupt) -> Result<()> {
    let netns = super::live::netns(&args.source)?;
    let view = args.view();
    let views = views(&view, None)?;
    let settings = settings(&args)?;
    // No folder for a recording that cannot be.
    super::live::check(&args.source)?;
    // Before the start, so that an unwritable folder is reported before anything has to be detached.
    let dir = settings.dir.clone();
    let recorder = start(settings)?;
    let length = args.common.duration;
    let config = super::live::source(args.source, netns, &view, &views)?;
    let running = super::live::start(crate::source::live::Config { events_to_view: true, ..config })?;
    let crate::source::live::Running { feed, thread, hooks, interfaces, kept, .. } = running;
    confine::record(&[], &dir);
    let mut report = views.report;
    report.analysis.imbalance_all_links = interfaces > 1;
    for hook in &hooks {
        say(hook);
    }
    confine::tell(&kept);
    let progress = length.and_then(|length| Progress::running("recording", length));
    let ended = run(&feed, recorder, &report, interrupt, &mut |_, _| Ok(()));
    drop((feed, progress));
    // The source's own end has been reported through the feed.
    let _ = thread.join();
    ended
}

#[cfg(not(feature = "live"))]
fn live(_: RecordArgs, _: &Interrupt) -> Result<()> {
    Err(anyhow!("{}; captures can be recorded with --read FILE", super::NO_KERNEL_SIDE))
}

/// Origin columns of the rows; of this host if `is_live`.
pub(super) fn origin(host: Option<&str>, job: Option<&str>, is_live: bool) -> Origin {
    let host = host.map(str::to_owned).or_else(system::host_name).unwrap_or_else(|| "host".to_owned());
    let of_environment = job_of_environment();
    Origin {
        host: host.as_str().into(),
        job: job.or(of_environment.as_deref()).map(Into::into),
        is_job_given: job.is_some(),
        job_of: job_of(),
        kernel: system::kernel_release().filter(|_| is_live).as_deref().map(Into::into),
        clock: if is_live { clock } else { || None },
    }
}

pub(super) fn settings(args: &RecordArgs) -> Result<Settings> {
    let origin = origin(args.tables.host.as_deref(), args.tables.job.as_deref(), args.read.is_empty());
    Ok(Settings {
        dir: std::path::absolute(&args.dir).context("the folder of --dir has no absolute path")?,
        origin,
        rotate: args.tables.rotate,
        keep: args.keep(),
        rails: args.common.rail.clone(),
        interval_ns: (!args.read.is_empty()).then(|| nanos(args.interval)),
        rollup_ns: args.tables.rollup.map(nanos),
        clickhouse: args.tables.clickhouse.clone(),
    })
}

#[cfg(target_os = "linux")]
fn clock() -> Option<Clock> {
    let crate::host::kernel::clock::Discipline { synchronised, offset_ns, most_ns } =
        crate::host::kernel::clock::Discipline::read()?;
    Some(Clock { synchronised, offset_ns, most_ns })
}

#[cfg(not(target_os = "linux"))]
fn clock() -> Option<Clock> {
    None
}

#[cfg(target_os = "linux")]
fn job_of() -> fn(&str) -> Option<&str> {
    crate::host::process::job
}

#[cfg(not(target_os = "linux"))]
fn job_of() -> fn(&str) -> Option<&str> {
    |_| None
}

#[cfg(target_os = "linux")]
fn job_of_environment() -> Option<String> {
    crate::host::process::job_of_environment(|name| std::env::var(name).ok())
}

#[cfg(not(target_os = "linux"))]
fn job_of_environment() -> Option<String> {
    None
}

pub(super) fn start(settings: Settings) -> Result<Recorder> {
    let dir = settings.dir.display().to_string();
    let (recorder, notices) = Recorder::start(settings)
        .with_context(|| format!("cannot record to {dir}; choose another folder with --dir"))?;
    say(&format!("recording to {dir}"));
    for notice in &notices {
        say(notice);
    }
    Ok(recorder)
}

/// Records until the source ends or a signal arrives, or a sample does not fit in.
fn run(
    feed: &Feed,
    mut recorder: Recorder,
    options: &report::Options,
    interrupt: &Interrupt,
    fits: &mut dyn FnMut(&Sample, &Report) -> Result<()>,
) -> Result<()> {
    let mut updates = Updates::of(feed, interrupt);
    let mut latest = None;
    let ended = loop {
        match updates.next() {
            Some(Update::Sample(sample)) => {
                #[cfg(feature = "test-clock")]
                crate::util::hijack::here("recorder");
                let report = Report::build(&sample, options);
                if let Err(error) = fits(&sample, &report) {
                    break Err(error);
                }
                recorder.take(&sample, &report).iter().for_each(|notice| say(notice));
                latest = Some(sample);
            }
            Some(Update::Events(events)) => recorder.events(events),
            Some(Update::Notice(notice)) => say(&notice),
            Some(Update::Ended(result)) => break result,
            Some(Update::Restarted) | None => {}
        }
    };
    if let Some(sample) = latest {
        say_unknown_names(&sample, options);
    }
    finish(recorder);
    ended
}

/// Seals a recording and reports its content.
pub(super) fn finish(recorder: Recorder) {
    let (total, notices) = recorder.finish();
    for notice in &notices {
        say(notice);
    }
    let lost = match total.losses.rows {
        0 => String::new(),
        rows => format!("; {} lost", plural(rows, "row")),
    };
    say(&format!("{} rows recorded{lost}", count(total.rows)));
}

#[cfg(all(test, feature = "live"))]
mod tests {
    use super::super::args::{Args, Verb};

    #[test]
    fn no_folder_is_made_where_no_interface_is_found() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("recording");
        let words = ["rocescope", "record", "-i", "no-such-interface", "--dir"];
        let words = words.map(std::ffi::OsString::from).into_iter().chain([dir.clone().into_os_string()]);
        let Verb::Record(args) = Args::read(words).unwrap().verb else { panic!("record") };
        let error = super::record(args).unwrap_err();
        assert!(!format!("{error:#}").is_empty());
        assert!(!dir.exists(), "{error:#}");
    }
}
