//! Ethernet counters of a port: statistics and pauses of one NIC port, or of the members of a bond.

use std::collections::BTreeMap;

use super::tally::{PauseTally, Tally};
use crate::entity::devices::{PauseSample, SourceSample};
use crate::host::net::dcb::Dcb;
use crate::host::rdma::counters::{Reading, Source};
use crate::host::rdma::vocabulary::{self, PauseCount, PauseCounts};
use crate::host::read::queries::Queries;

/// Sources of pause counts, as named in reports.
const ETHTOOL: &str = "ethtool";
const DCB: &str = "DCB netlink";

/// A network interface with a physical port.
#[derive(Debug, Default)]
pub(super) struct Ethernet {
    pub(super) interface: String,
    tally: Tally,
    pauses: PauseTally,
    /// Source of the pause counts; empty before the first reading.
    pause_source: &'static str,
    /// Speed of the link in Mbit/s, if known.
    pub(super) speed_mbps: Option<u32>,
}

impl Ethernet {
    pub(super) fn new(interface: String) -> Self {
        Self { interface, ..Self::default() }
    }

    pub(super) fn read(&mut self, kernel: &dyn Queries, time_ns: u64) {
        let statistics = kernel.statistics(&self.interface).unwrap_or_default();
        // Never switches between the two sources, since their counts differ.
        let of_driver = vocabulary::pause(&statistics).filter(|_| self.pause_source != DCB);
        if let Some(pauses) = of_driver {
            self.pause_source = ETHTOOL;
            self.pauses.take(pauses, time_ns, self.speed_mbps);
        } else if self.pause_source != ETHTOOL
            && let Some(pauses) = dcb_pauses(kernel, &self.interface)
        {
            self.pause_source = DCB;
            self.pauses.take(pauses, time_ns, self.speed_mbps);
        }
        let mut reading = Reading::default();
        reading.add(
            Source::Ethtool,
            statistics.into_iter().filter(|(name, _)| vocabulary::ethernet(name).is_some()),
        );
        if !reading.is_empty() {
            self.tally.take(reading, time_ns);
        }
    }

    pub(super) fn window(&self) -> Option<(u64, u64)> {
        self.tally.window()
    }
}

/// The counters of all ports, summed: the traffic of a bond is that of its members.
pub(super) fn counters(all: &[Ethernet]) -> Vec<SourceSample> {
    let mut sources = all.iter().flat_map(|one| one.tally.sources(None));
    let Some(mut sum) = sources.next() else { return Vec::new() };
    for more in sources {
        let mut values: BTreeMap<String, u64> = sum.values.into_iter().collect();
        for (name, value) in more.values {
            let total = values.entry(name).or_default();
            *total = total.saturating_add(value);
        }
        sum.values = values.into_iter().collect();
        sum.resets = sum.resets.saturating_add(more.resets);
    }
    vec![sum]
}

/// Source of their pause counts; empty if there is none.
pub(super) fn pause_source(all: &[Ethernet]) -> &'static str {
    all.iter().map(|one| one.pause_source).find(|source| !source.is_empty()).unwrap_or_default()
}

/// The pauses of all ports by priority and direction: frames and times are summed; of shares and durations the
/// maximum counts, since a paused member stalls the flows hashed to it.
pub(super) fn pauses(all: &[Ethernet]) -> Vec<PauseSample> {
    let mut by_key: BTreeMap<(bool, Option<u8>), PauseSample> = BTreeMap::new();
    for pause in all.iter().flat_map(|one| one.pauses.pauses()) {
        by_key.entry((pause.sent, pause.priority)).and_modify(|sum| sum.join(&pause)).or_insert(pause);
    }
    by_key.into_values().collect()
}

/// Microseconds for which each priority was paused, of the member paused longest.
pub(super) fn received_us(all: &[Ethernet]) -> [Option<u64>; 8] {
    let mut longest = [None; 8];
    for one in all {
        for (longest, us) in longest.iter_mut().zip(one.pauses.received_us()) {
            *longest = us.max(*longest);
        }
    }
    longest
}

impl PauseSample {
    /// Adds the counts of another port for the same priority and direction.
    fn join(&mut self, other: &Self) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (known, None) | (None, known) => known,
        };
        let worst = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (known, None) | (None, known) => known,
        };
        self.frames = sum(self.frames, other.frames);
        self.paused_ns = sum(self.paused_ns, other.paused_ns);
        self.transitions = sum(self.transitions, other.transitions);
        self.worst_share = worst(self.worst_share, other.worst_share);
        self.most_share = worst(self.most_share, other.most_share);
        self.worst_frames_per_s = worst(self.worst_frames_per_s, other.worst_frames_per_s);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.intervals.join(&other.intervals);
    }
}

/// Pause frames by priority from DCB netlink, for drivers without such statistics.
fn dcb_pauses(kernel: &dyn Queries, interface: &str) -> Option<PauseCounts> {
    let pfc = Dcb::parse(&kernel.dcb(interface).ok()?)?.pfc?;
    let counted = |frames: u64| PauseCount { frames: Some(frames), ..PauseCount::default() };
    // A driver that does not count them reports zeros, which must not be taken for counts.
    let any = pfc.sent.iter().chain(&pfc.received).any(|frames| *frames > 0);
    any.then(|| PauseCounts { received: pfc.received.map(counted), sent: pfc.sent.map(counted) })
}
