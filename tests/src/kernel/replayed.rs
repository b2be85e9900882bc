//! Replays frames that also go through the kernel programs.

use anyhow::{Context as _, Result, bail};
use rocescope::metrics::Metrics;
use rocescope::report::{Options, Report};
use rocescope::sample::{EventSample, Sample};
use rocescope::source::feed::Update;
use rocescope::source::replay;
use serde_json::Value;

use super::frames::{self, Frame};
use crate::schema;

/// Name of the link on both sides of a comparison.
pub const LINK: &str = "frames.pcap";

/// The last sample of a replay of `frames`, and all its events.
pub fn sample(frames: &[Frame]) -> Result<(Sample, Vec<EventSample>)> {
    let (mut sample, events) = replay(frames)?;
    // The other metrics depend on the packets that a source sees; `kernel_latency.rs` compares them.
    let Metrics { marking, traffic, .. } = sample.metrics;
    sample.metrics = Metrics { marking, traffic, ..Metrics::default() };
    Ok((sample, events))
}

/// The last sample of a replay of `frames`, with its metrics.
pub fn whole(frames: &[Frame]) -> Result<Sample> {
    Ok(replay(frames)?.0)
}

fn replay(frames: &[Frame]) -> Result<(Sample, Vec<EventSample>)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join(LINK);
    std::fs::write(&path, frames::pcap(frames))?;
    let options = replay::Options { files: vec![path], events: true, ..replay::Options::default() };
    let feed = replay::start(options)?;
    let (mut last, mut events) = (None, Vec::new());
    loop {
        match feed.updates.recv().context("the replay ended unexpectedly")? {
            Update::Sample(sample) => last = Some(*sample),
            Update::Events(more) => events.extend(more),
            Update::Notice(_) | Update::Restarted => {}
            Update::Ended(Err(error)) => return Err(error),
            Update::Ended(Ok(())) => break,
        }
    }
    let Some(mut sample) = last else { bail!("the replay ended without a sample") };
    sample.inputs = vec![LINK.to_owned()];
    Ok((sample, events))
}

/// The report of a sample, as JSON.
pub fn report(sample: &Sample) -> Result<Value> {
    let report = serde_json::to_value(Report::build(sample, &Options::default()))?;
    schema::check(&report)?;
    Ok(report)
}
