//! A run without kernel programs: only counters of devices.

use std::time::Instant;

use anyhow::{Result, anyhow};

use super::config::Config;
use super::control::{CHECK_INTERVAL, Notices, stop_requested};
use super::counters::{LatestReadings, Reader, RemovedPorts};
use super::ras::RasReader;
use crate::host::kernel::clock::{WallClock, monotonic_ns};
use crate::host::net::interface::Interface;
use crate::host::read::queries::Kernel;
use crate::sample::{Sample, SourceKind};
use crate::source::devices::watch::Watch;
use crate::source::feed::{SourceEnd, Update};

/// Devices that are read until the end.
pub(super) struct CountersOnly {
    reader: Reader,
    config: Config,
    inputs: Vec<String>,
    labels: Vec<String>,
    start_ns: u64,
    departed: RemovedPorts,
    nccl: Option<RasReader>,
}

impl CountersOnly {
    /// Reads everything once, to verify that it is readable, and continues in the background.
    ///
    /// # Errors
    /// If no counter can be read; the message includes `why`, the reason why packets are not available.
    pub(super) fn start(
        mut config: Config,
        mut watch: Watch,
        targets: &[Interface],
        why: &str,
    ) -> Result<Self> {
        let labels = watch.labels();
        let root = config.host.root()?;
        let start_ns = monotonic_ns();
        let start = (start_ns, WallClock::sample().unix_ns(start_ns));
        watch.read_counters(&root, config.host.ask(), start);
        drop(root);
        if !watch.is_readable() {
            return Err(anyhow!(
                "{} ({} has no readable counters: none below \
                 /sys/class/infiniband/DEVICE/ports/PORT/counters and hw_counters, none from ethtool)",
                why,
                labels.join(", ")
            ));
        }
        let inputs = watch.inputs();
        let interfaces: Vec<(String, u32)> =
            targets.iter().map(|target| (target.name.clone(), target.index)).collect();
        let nccl = config.nccl_ras.take().and_then(RasReader::start);
        let host = std::mem::replace(&mut config.host, Box::new(Kernel));
        let reader = Reader::start(host, watch, &interfaces, config.interval, config.sample_posts)
            .ok_or_else(|| anyhow!("cannot start the device reader thread"))?;
        Ok(Self { reader, config, inputs, labels, start_ns, departed: RemovedPorts::default(), nccl })
    }

    /// Devices and ports, as text.
    pub(super) fn labels(&self) -> String {
        self.labels.join(", ")
    }

    /// The threads that keep capabilities, and these.
    pub(super) fn kept(&self) -> Vec<(&'static str, Vec<String>)> {
        self.reader.kept().into_iter().chain(self.nccl.as_ref().map(|_| RasReader::kept())).collect()
    }

    /// The sources in use, one sentence each.
    pub(super) fn hooks(&self) -> Vec<String> {
        self.labels.iter().map(|label| format!("{label}: counters only")).collect()
    }

    /// Runs until the view ends it.
    pub(super) fn run(mut self, tap: &SourceEnd, notes: Notices) {
        for note in notes {
            let _gone = tap.tell(Update::Notice(note));
        }
        let result = self.pump(tap);
        self.reader.finish();
        let _gone = tap.tell(Update::Sample(Box::new(self.sample())));
        let _gone = tap.tell(Update::Ended(result));
    }

    fn pump(&mut self, tap: &SourceEnd) -> Result<()> {
        let start = Instant::now();
        let mut next_sample = start + self.config.interval;
        loop {
            std::thread::sleep(CHECK_INTERVAL.min(next_sample.saturating_duration_since(Instant::now())));
            let now = Instant::now();
            if stop_requested(tap) || self.config.duration.is_some_and(|most| now - start >= most) {
                return Ok(());
            }
            if now < next_sample {
                continue;
            }
            next_sample = (next_sample + self.config.interval).max(now);
            let sample = self.sample();
            for notice in self.departed.notices(&sample.devices) {
                let _gone = tap.tell(Update::Notice(notice));
            }
            let ports = &sample.devices.ports;
            if !ports.is_empty() && ports.iter().all(|port| port.gone) {
                return Err(anyhow!("all watched devices were removed"));
            }
            if self.config.samples && !tap.sample(sample) {
                return Ok(());
            }
        }
    }

    fn sample(&self) -> Sample {
        let clock = WallClock::sample();
        let steady_ns = monotonic_ns();
        let now = clock.unix_ns(steady_ns);
        let LatestReadings { owners, devices } = self.reader.known();
        Sample {
            time_ns: now,
            steady_ns: Some(steady_ns),
            kind: SourceKind::Live,
            inputs: self.inputs.clone(),
            window: Some((clock.unix_ns(self.start_ns), now)),
            owners,
            devices,
            nccl: self.nccl.as_ref().map(RasReader::known),
            ..Sample::default()
        }
    }
}
