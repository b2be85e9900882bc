//! Control frames of link partners: PAUSE and PFC, and LLDP.
//!
//! These frames stay counted as skipped. Their contents are kept by link: sender and length of each pause,
//! and the flows that stood still meanwhile.

use std::collections::BTreeMap;

use rocescope_common::wire::Frame;

use super::packet::Packet;
use crate::entity::devices::PauseSample;
use crate::entity::pauses::{PauseInterval, PauseIntervals, Stall};
use crate::ethernet::lldp::Neighbour;
use crate::ethernet::mac_control::{Control, MacControlFrame, quanta_ns};
use crate::util::definition::definitions;

definitions! {
    MOST_MBPS: u64 = 1_600_000,
        "Speed at which quanta are converted to time without --link-speed, in Mbit/s",
        "The fastest Ethernet there is (IEEE 802.3dj): a link was paused for at least that time";
    pub WINDOW_NS: u64 = 100_000_000,
        "Windows over which the share of time paused is taken, in nanoseconds",
        "Shorter than a second, in which a storm begins and ends, and longer than the longest pause of one frame at 10 Gb/s (3.4 ms)";
    STALL_NS: u64 = 1_000_000,
        "Minimum silence of a flow for a pause to be its reason, in nanoseconds",
        "Shorter ones are the flow's own";
    pub STALL_SHARE: f64 = 0.5,
        "Minimum part of a silence that is paused, for the pause to be its reason",
        "Most of the silence";
}
/// Stations of all links that are counted separately, at most; a capture of one link has two.
const MOST_STATIONS: usize = 256;
/// Neighbours of a link, at most.
const MOST_NEIGHBOURS: usize = 16;
/// The row of pauses of the whole link, behind the eight priorities.
const ALL: usize = 8;

/// A station on a link.
type Station = (u16, [u8; 6]);

/// Collects control frames of a replay.
#[derive(Debug, Default)]
pub struct Collector {
    /// Mbit/s of all links, where it is known.
    mbps: Option<u64>,
    stations: BTreeMap<Station, [Pause; 9]>,
    /// Control frames of stations that there was no room for.
    untracked: u64,
    neighbours: BTreeMap<u16, Vec<Neighbour>>,
    /// By slot: the flow's last packet, and the time that its priority had been paused by then.
    flows: Vec<LatestPause>,
    /// The first pause frame of all.
    first_ns: u64,
    latest_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct LatestPause {
    /// Time of its latest packet.
    seen_at: u64,
    paused_ns: u64,
    stalled_ns: u64,
    stall: Stall,
}

/// Pauses of one priority that one station asked for.
#[derive(Clone, Debug, Default)]
struct Pause {
    stops: u64,
    resumes: u64,
    quanta: u64,
    episodes: u64,
    /// Paused from the first to the second of these, unless something ends it earlier.
    now: Option<(u64, u64)>,
    /// Latest time of a frame: times that go back would count an interval twice.
    reached_ns: u64,
    /// Beginning of the pause that goes on, its renewals included.
    since_ns: u64,
    paused_ns: u64,
    longest_ns: u64,
    /// Number of the open window, and what it has.
    window: u64,
    in_window: InWindow,
    worst_window_ns: u64,
    intervals: PauseIntervals,
}

#[derive(Clone, Copy, Debug, Default)]
struct InWindow {
    frames: u64,
    quanta: u64,
    paused_ns: u64,
    longest_ns: u64,
}

impl Pause {
    /// Takes in a frame: stop for this number of quanta, or resume for 0.
    fn take(&mut self, time_ns: u64, quanta: u16, mbps: u64) {
        let time_ns = time_ns.max(self.reached_ns);
        self.reached_ns = time_ns;
        self.reach(time_ns);
        self.open(time_ns / WINDOW_NS);
        if quanta == 0 {
            self.resumes += 1;
            self.now = None;
            return;
        }
        self.stops += 1;
        self.quanta += u64::from(quanta);
        self.in_window.frames += 1;
        self.in_window.quanta += u64::from(quanta);
        if self.now.is_none() {
            self.episodes += 1;
            self.since_ns = time_ns;
        }
        self.now = Some((time_ns, time_ns.saturating_add(quanta_ns(quanta, mbps))));
    }

    /// Counts the pause up to a time.
    fn reach(&mut self, time_ns: u64) {
        let Some((from, until)) = self.now else { return };
        let end = until.min(time_ns);
        let Some(length) = end.checked_sub(from) else { return };
        self.paused_ns += length;
        self.longest_ns = self.longest_ns.max(end.saturating_sub(self.since_ns));
        let mut from = from;
        while from < end {
            let window = from / WINDOW_NS;
            self.open(window);
            let part = end.min((window + 1).saturating_mul(WINDOW_NS)).saturating_sub(from).max(1);
            from += part;
            self.in_window.paused_ns += part;
            self.in_window.longest_ns = self.in_window.longest_ns.max(from.saturating_sub(self.since_ns));
            self.worst_window_ns = self.worst_window_ns.max(self.in_window.paused_ns);
        }
        self.now = (time_ns < until).then_some((end, until));
    }

    /// Opens a window, if it is not the open one.
    fn open(&mut self, window: u64) {
        if window != self.window {
            self.end_window();
            self.window = window;
        }
    }

    /// Adds what the open window has to the times of pauses.
    fn end_window(&mut self) {
        let one = std::mem::take(&mut self.in_window);
        if one.frames + one.paused_ns == 0 {
            return;
        }
        let first_ns = self.window.saturating_mul(WINDOW_NS);
        self.intervals.add(&PauseInterval {
            first_ns,
            last_ns: first_ns.saturating_add(WINDOW_NS),
            frames: Some(one.frames),
            quanta: Some(one.quanta),
            paused_ns: Some(one.paused_ns),
            share: Some(one.paused_ns as f64 / WINDOW_NS as f64),
            most_share: None,
            worst_frames_per_s: None,
            longest_ns: Some(one.longest_ns),
        });
    }

    /// The times of the pauses until `latest_ns`; `timed`: their length is known.
    fn intervals(mut self, latest_ns: u64, timed: bool) -> PauseIntervals {
        self.end_window();
        for one in &mut self.intervals.0 {
            // The last window is not over.
            one.last_ns = one.last_ns.min(latest_ns).max(one.first_ns);
            if !timed {
                (one.paused_ns, one.longest_ns) = (None, None);
            }
        }
        self.intervals
    }
}

impl Collector {
    /// Nothing seen yet; links have this speed in Mbit/s, as far as it is known.
    pub fn new(mbps: Option<u64>) -> Self {
        Self { mbps, ..Self::default() }
    }

    /// A frame that is MAC control or LLDP.
    #[cold]
    pub fn frame(&mut self, link: u16, time_ns: u64, data: &[u8]) {
        if let Some(control) = Control::parse(data) {
            self.control(link, time_ns, control);
        } else if let Some(neighbour) = Neighbour::parse(data) {
            let known = self.neighbours.entry(link).or_default();
            // Of each neighbour the latest counts.
            let is_same =
                |other: &Neighbour| (&other.chassis, &other.port) == (&neighbour.chassis, &neighbour.port);
            known.retain(|other| !is_same(other));
            if known.len() < MOST_NEIGHBOURS {
                known.push(neighbour);
            }
        }
    }

    fn control(&mut self, link: u16, time_ns: u64, control: Control) {
        let station = (link, control.source);
        if self.stations.len() >= MOST_STATIONS && !self.stations.contains_key(&station) {
            self.untracked += 1;
            return;
        }
        if self.stations.is_empty() {
            self.first_ns = time_ns;
        }
        self.latest_ns = self.latest_ns.max(time_ns);
        let mbps = self.mbps.unwrap_or(MOST_MBPS);
        let rows = self.stations.entry(station).or_default();
        let mut take = |row: usize, quanta: u16| {
            if let Some(pause) = rows.get_mut(row) {
                pause.take(time_ns, quanta, mbps);
            }
        };
        match control.what {
            MacControlFrame::Pause(quanta) => take(ALL, quanta),
            MacControlFrame::Pfc(quanta) => {
                for (priority, quanta) in quanta.into_iter().enumerate() {
                    if let Some(quanta) = quanta {
                        take(priority, quanta);
                    }
                }
            }
        }
    }

    /// Takes in one packet: how long its flow had been silent, and whether a pause was why.
    /// `frame` are its headers, `packets` those of the flow so far, `data` the captured bytes.
    #[inline]
    pub fn packet(&mut self, packet: &Packet, frame: &Frame, packets: u64, data: &[u8]) {
        if !self.stations.is_empty() {
            self.silence(packet, frame, packets, data);
        }
    }

    fn silence(&mut self, packet: &Packet, frame: &Frame, packets: u64, data: &[u8]) {
        let Packet { link, slot, time_ns, .. } = *packet;
        self.latest_ns = self.latest_ns.max(time_ns);
        // The tag says which priority; without one, the usual map of DSCPs.
        let priority = if frame.pcp < 8 { frame.pcp } else { frame.tos >> 5 };
        let sender: [u8; 6] = data.get(6..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
        let mut paused_ns = 0;
        for (_, rows) in self.stations.range_mut((link, [0; 6])..=(link, [0xff; 6])).filter(
            // A station does not stop what it sends itself.
            |((_, station), _)| *station != sender,
        ) {
            for row in [usize::from(priority), ALL] {
                if let Some(pause) = rows.get_mut(row) {
                    pause.reach(time_ns);
                    paused_ns += pause.paused_ns;
                }
            }
        }
        let slot = slot as usize;
        if slot >= self.flows.len() {
            self.flows.resize(slot + 1, LatestPause::default());
        }
        let Some(last) = self.flows.get_mut(slot) else { return };
        if last.seen_at == 0 && packets > 1 {
            // Its last packet was before any pause, and no pause was before that.
            last.seen_at = self.first_ns;
        }
        let silent_ns = time_ns.saturating_sub(last.seen_at);
        let meanwhile_ns = paused_ns.saturating_sub(last.paused_ns);
        if last.seen_at > 0 && silent_ns >= STALL_NS && meanwhile_ns as f64 >= silent_ns as f64 * STALL_SHARE
        {
            let stalled_ns = meanwhile_ns.min(silent_ns);
            last.stalled_ns += stalled_ns;
            last.stall.add((last.seen_at, time_ns), stalled_ns);
        }
        (last.seen_at, last.paused_ns) = (time_ns, paused_ns);
    }

    /// The flow of a slot was retired; the slot will be used again.
    pub fn retired(&mut self, slot: u32) {
        if let Some(last) = self.flows.get_mut(slot as usize) {
            *last = LatestPause::default();
        }
    }

    /// Metrics of the frames so far.
    pub fn metrics(&self) -> ControlMetrics {
        let mut links: BTreeMap<u16, LinkControl> = BTreeMap::new();
        for (&(link, station), rows) in &self.stations {
            for (row, pause) in rows.iter().enumerate().filter(|(_, pause)| pause.stops + pause.resumes > 0) {
                let mut pause = pause.clone();
                pause.reach(self.latest_ns);
                let known = |n: u64| self.mbps.map(|_| n);
                let worst = pause.worst_window_ns as f64 / WINDOW_NS as f64;
                let sample = PauseSample {
                    sent: false,
                    priority: u8::try_from(row).ok().filter(|_| row != ALL),
                    frames: Some(pause.stops),
                    quanta: Some(pause.quanta),
                    paused_ns: known(pause.paused_ns),
                    transitions: known(pause.episodes),
                    worst_share: self.mbps.map(|_| worst),
                    least_share: self.mbps.is_none().then_some(worst),
                    most_share: None,
                    worst_frames_per_s: None,
                    longest_ns: known(pause.longest_ns),
                    intervals: PauseIntervals::default(),
                };
                let resumes = pause.resumes;
                let sample =
                    PauseSample { intervals: pause.intervals(self.latest_ns, self.mbps.is_some()), ..sample };
                links.entry(link).or_default().pauses.push((station, resumes, sample));
            }
        }
        for (link, neighbours) in &self.neighbours {
            links.entry(*link).or_default().neighbours.clone_from(neighbours);
        }
        let stalled = (0..).zip(&self.flows).filter(|(_, last)| last.stalled_ns > 0);
        ControlMetrics {
            links,
            stalled: self.mbps.map(|_| stalled.clone().map(|(slot, last)| (slot, last.stalled_ns)).collect()),
            stalls: stalled.map(|(slot, last)| (slot, last.stall)).collect(),
            untracked: self.untracked,
        }
    }
}

/// Control frames, by link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ControlMetrics {
    /// Links that had any.
    pub links: BTreeMap<u16, LinkControl>,
    /// By slot: time in which a flow was silent because its priority was paused; `None` where the links' speed is not
    /// known.
    pub stalled: Option<BTreeMap<u32, u64>>,
    /// By slot: the latest time of that without 10 s of rest.
    pub stalls: BTreeMap<u32, Stall>,
    /// Control frames left out: there were too many stations.
    pub untracked: u64,
}

/// Control frames of one link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkControl {
    /// Sender's MAC address, number of resumes, and the pauses.
    pub pauses: Vec<([u8; 6], u64, PauseSample)>,
    /// LLDP neighbours.
    pub neighbours: Vec<Neighbour>,
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
