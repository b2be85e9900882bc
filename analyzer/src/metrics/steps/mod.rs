//! Steps of a job: how long they are, how that changes, and whom they wait for.
//!
//! Pure functions of the flowlets that [`traffic`](super::traffic) keeps, so that flowlets from the kernel give the
//! same. Each port is judged by itself, with both of its directions: the clocks of two captures may be seconds apart,
//! and two ports may serve two jobs.

mod chain;
pub mod job;
pub mod rhythm;
pub mod segment;
#[cfg(test)]
mod simulate;
pub mod straggler;
#[cfg(test)]
mod tests;
pub mod trend;
#[cfg(test)]
mod variants;

use rocescope_common::account::psn::WINDOW;
use rocescope_common::wire::bth::psn_distance;

use crate::util::definition::definitions;
use crate::util::map::Map;
use crate::util::numbers::{median, share};

use super::traffic::Traffic;
use super::traffic::flowlets::{FlowletState, Record};
use super::traffic::hosts::Host;
use job::NoJob;
use rhythm::{Rhythm, rhythm};
use segment::{Block, Segments, atoms, segments};
use straggler::{Receivers, Straggler, StragglerCause, View};

/// Links that are looked at: those with most data.
const MAX_LINKS: usize = 64;
/// Steps whose lengths are kept one by one: the latest.
pub const MAX_LISTED: usize = 64;
/// Steps of the latest traffic, if the whole has none: twice as many as of all, because several ends are tried.
const LATEST_STEPS: usize = 16;
/// Number of times that the time considered is halved. Regular traffic of 33 steps is found in the midst of 500 times
/// as much.
const HALVINGS: u32 = 9;

definitions! {
    SHORT_NS: u64 = 1_000_000_000,
        "Minimum silence of a job that has stopped, whatever the length of its steps, in nanoseconds",
        "Hosts that compute, evaluate or write a checkpoint between short steps are silent for less";
    pub OVER: f64 = 2.0,
        "Data after the last step, in steps, from which the steps are over and something else goes on",
        "One step that does not fit and an unfinished one are less";
}

/// A step of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// First packet of data, Unix time.
    pub start_ns: u64,
    /// Last packet of data.
    pub end_ns: u64,
    /// Time with data on the link.
    pub busy_ns: u64,
    /// Longest silence between its first and its last packet.
    pub silence_ns: u64,
    /// Data that is in no step follows it, half a step or more: perhaps another step.
    pub gap_follows: bool,
}

/// The flow that is most often the last to finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastFinisher {
    /// Host that sends.
    pub src: Host,
    /// Host that receives.
    pub dst: Host,
    /// On which queue pair.
    pub dest_qp: u32,
    /// Steps in which it was the last.
    pub steps: usize,
    /// Median time by which it finished after the flow before it.
    pub behind_ns: u64,
}

/// End of the traffic of a link with steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ending {
    /// Last packet of data, Unix time.
    pub last_data_ns: u64,
    /// From there to the last frame of any kind on the link, live to the moment of the sample.
    pub silent_ns: u64,
    /// Share of a step's bytes that were sent after the last whole step; `None` of a recording, which has whole steps
    /// alone.
    pub part: Option<f64>,
    /// Flows of this link with a message that has not ended, or a request that was not answered; `None` as `part`.
    pub outstanding: Option<usize>,
}

impl Ending {
    /// True if other traffic followed the last step.
    pub fn is_over(&self) -> bool {
        self.part.is_some_and(|part| part >= OVER)
    }
}

/// The steps on one port.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSteps {
    /// Index of the port's first link.
    pub link: u16,
    /// Whole steps, in order.
    pub steps: Vec<Step>,
    /// Median time from one step to the next.
    pub period_ns: u64,
    /// Bytes of a step.
    pub volume: u64,
    /// Share of the link's data that lies in whole steps.
    pub explained: f64,
    /// Period by autocorrelation of its busiest link, in nanoseconds, near the period, and its strength.
    pub rhythm: Option<Rhythm>,
    /// Straggler of these steps.
    pub straggler: Option<Straggler>,
    /// Transfer that ends last.
    pub last: Option<LastFinisher>,
    /// End of the traffic after these steps.
    pub ending: Ending,
}

impl LinkSteps {
    /// Times from one step to the next, in order.
    pub fn periods(&self) -> Vec<u64> {
        // A step that could not be recognised leaves a hole of two.
        let all = self.steps.windows(2).filter_map(|pair| match pair {
            [one, next] => Some(next.start_ns.saturating_sub(one.start_ns)),
            _ => None,
        });
        all.collect()
    }

    /// True if these may be the parts of the first step of a job: few, and a silence that has not lasted for long
    /// follows which is longer than all of them together.
    fn may_be_parts(&self) -> bool {
        let (Some(first), Some(last)) = (self.steps.first(), self.steps.last()) else { return true };
        let silent_ns = self.ending.silent_ns;
        self.steps.len() < LATEST_STEPS && (last.end_ns - first.start_ns..SHORT_NS).contains(&silent_ns)
    }

    /// True if these may be the parts of longer steps: the latest data is in three runs of several of these steps, the
    /// earlier two with half as much as the latest or more, and the silence before each is as long as the run.
    fn may_be_of_longer(&self, atoms: &[Block]) -> bool {
        let Some(last) = self.steps.last() else { return true };
        let atoms =
            atoms.get(..atoms.partition_point(|atom| atom.start_ns <= last.end_ns)).unwrap_or_default();
        // Data without a silence as long as a step.
        let joined = |atom: &Block, next: &Block| next.start_ns.saturating_sub(atom.end_ns) <= self.period_ns;
        let run = |atoms: &[Block]| {
            let bytes: u64 = atoms.iter().map(|atom| atom.bytes).sum();
            Some((atoms.first()?.start_ns, atoms.last()?.end_ns, bytes))
        };
        let mut runs = atoms.chunk_by(joined).rev().filter_map(run);
        let (Some(latest), Some(before), Some(first)) = (runs.next(), runs.next(), runs.next()) else {
            return false;
        };
        let apart = |(_, end_ns, bytes): (u64, u64, u64), later: (u64, u64, u64)| {
            later.0.saturating_sub(end_ns) >= later.1.saturating_sub(later.0) && bytes >= latest.2 / 2
        };
        latest.2 >= segment::MIN_STEPS as u64 * self.volume && apart(before, latest) && apart(first, before)
    }
}

/// Steps on all links.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    /// Links with steps: those whose steps go on first, and of these the one with most.
    pub links: Vec<LinkSteps>,
    /// The straggler that is best known, over all links; nobody whose own port shows that it waits for another host.
    pub straggler: Option<Straggler>,
    /// Hosts that some link names, those of which only the host before is known excepted. More than one: perhaps the
    /// stages of a pipeline.
    pub named: usize,
}

/// The port of a link; see [`steps`].
fn port_of(ports: &[u16], link: u16) -> u16 {
    ports.get(usize::from(link)).copied().unwrap_or(link)
}

/// More bytes than a flowlet has: with them, sums of what a damaged stream claims stay within 64 bits.
const MOST_BYTES: u64 = 1 << 44;

/// The steps of all traffic.
///
/// `ports` says for each link which link is the first one of the same port: those of the two directions of an
/// interface have one clock and show one job. Links beyond its end are ports of their own.
///
/// # Errors
/// Why no port has any: the reason of the one with most data.
pub fn steps(traffic: &Traffic, ports: &[u16]) -> Result<Steps, NoJob> {
    let mut by_link: Map<u16, Vec<Record>> = Map::default();
    let standing = traffic.flowlets.standing.iter().map(|standing| &standing.flowlet);
    for record in traffic.flowlets.ended.iter().chain(standing) {
        if let Some(pair) = traffic.pairs.get(record.pair as usize)
            && record.end_ns > 0
        {
            let record = Record { fresh_bytes: record.fresh_bytes.min(MOST_BYTES), ..*record };
            by_link.entry(port_of(ports, pair.link)).or_default().push(record);
        }
    }
    let mut order: Vec<(u64, u16)> =
        by_link.iter().map(|(link, records)| (records.iter().map(|r| r.fresh_bytes).sum(), *link)).collect();
    order.sort_unstable_by_key(|(bytes, link)| (std::cmp::Reverse(*bytes), *link));
    let (mut links, mut absent): (Vec<LinkSteps>, _) = (Vec::new(), None);
    for (_, link) in order.iter().take(MAX_LINKS) {
        let Some(mut flowlets) = by_link.remove(link) else { continue };
        flowlets.sort_unstable_by_key(|flowlet| {
            (flowlet.start_ns, flowlet.end_ns, flowlet.pair, flowlet.dest_qp)
        });
        match port_steps(traffic, ports, *link, &flowlets) {
            Ok(found) => links.push(found),
            Err(why) => absent = absent.or(Some(why)),
        }
    }
    // Steps that go on come before steps that are over. Of ports with as many steps, the order of the captures on the
    // command line does not choose.
    let begin_ns = |link: &LinkSteps| link.steps.first().map(|step| step.start_ns);
    links.sort_by(|a, b| {
        (a.ending.is_over().cmp(&b.ending.is_over()))
            .then_with(|| b.steps.len().cmp(&a.steps.len()))
            .then_with(|| b.explained.total_cmp(&a.explained))
            .then_with(|| (b.volume, begin_ns(a), a.link).cmp(&(a.volume, begin_ns(b), b.link)))
    });
    let all: Vec<Straggler> = links.iter().filter_map(|link| link.straggler).collect();
    let ends = chain::ends(&all, &traffic.pairs, ports);
    let straggler = chain::best(&ends);
    let mut named: Vec<Host> = (all.iter())
        .filter(|straggler| straggler.why != StragglerCause::Upstream)
        .map(|straggler| straggler.host)
        .collect();
    named.sort_unstable();
    named.dedup();
    if links.is_empty() {
        return Err(absent.unwrap_or(NoJob::NoData));
    }
    Ok(Steps { links, straggler, named: named.len() })
}

/// The period of a port by autocorrelation, in nanoseconds, near that of its steps: of the latest bins of its busiest
/// link, or else of the whole run.
fn link_rhythm(traffic: &Traffic, ports: &[u16], port: u16, period_ns: u64) -> Option<Rhythm> {
    let own = (0u16..).zip(&traffic.links).filter(|(at, _)| port_of(ports, *at) == port);
    let bursts = own.filter_map(|(_, link)| link.bursts.as_ref()).max_by_key(|bursts| bursts.total.bytes)?;
    let recent: Vec<f64> = bursts.recent.iter().map(|bytes| f64::from(*bytes)).collect();
    let long: Vec<f64> = bursts.long.iter().map(|bytes| *bytes as f64).collect();
    let near = |points: &[f64], point_ns: f64| {
        let found = rhythm(points, period_ns as f64 / point_ns)?;
        Some(Rhythm { period: found.period * point_ns, ..found })
    };
    let bin_ns = bursts.bin_ns as f64;
    let all = [near(&recent, bin_ns), near(&long, bin_ns * bursts.long_bins as f64)];
    all.into_iter().flatten().max_by(|a, b| a.strength.total_cmp(&b.strength))
}

/// The steps of a port: those of all its traffic, or where it has none, or none lately, those of the latest half of the
/// time, or of a half of that: traffic that became regular has steps within 34 of them, whatever was before.
fn port_steps(traffic: &Traffic, ports: &[u16], port: u16, flowlets: &[Record]) -> Result<LinkSteps, NoJob> {
    let atoms = atoms(flowlets);
    let found = |flowlets: &[Record], least: usize| {
        let found = link_steps(traffic, ports, port, flowlets, least)?;
        if found.may_be_of_longer(&atoms) { Err(NoJob::TooFew) } else { Ok(found) }
    };
    let whole = found(flowlets, job::MIN_STEPS);
    let goes_on = |found: &LinkSteps| !found.ending.is_over();
    if whole.as_ref().is_ok_and(goes_on) {
        return whole;
    }
    let (Some(first), Some(last)) = (atoms.first(), atoms.last()) else { return whole };
    let bytes = |flowlets: &[Record]| flowlets.iter().map(|flowlet| flowlet.fresh_bytes).sum::<u64>();
    let latest = (1..=HALVINGS).find_map(|halving| {
        let from_ns = last.end_ns - (last.end_ns.saturating_sub(first.start_ns) >> halving);
        let from = atoms.get(atoms.partition_point(|atom| atom.start_ns < from_ns))?.flowlets.start;
        let latter = flowlets.get(from..)?;
        let found = found(latter, LATEST_STEPS).ok()?;
        let explained = found.explained * share(bytes(latter), bytes(flowlets));
        goes_on(&found).then_some(LinkSteps { explained, ..found })
    });
    latest.map_or(whole, Ok)
}

fn link_steps(
    traffic: &Traffic,
    ports: &[u16],
    port: u16,
    flowlets: &[Record],
    least: usize,
) -> Result<LinkSteps, NoJob> {
    let pairs = &traffic.pairs;
    let own = pairs.iter().filter(|pair| port_of(ports, pair.link) == port && pair.data_bytes > 0);
    let receivers: Receivers = own.clone().map(|pair| pair.dst).collect();
    let members: Receivers = own.map(|pair| pair.src).filter(|host| receivers.contains(host)).collect();
    let atoms = atoms(flowlets);
    let segments = segments(&atoms, job::MIN_STEPS, |block| match members.len() {
        // A host that sends before it receives may be the first to begin, or the last: of one that depends on the cut.
        0 | 1 => usize::from(View::is_one_way(&members, flowlets, pairs, block)),
        _ => View::independent_starts(&receivers, flowlets, pairs, block),
    })
    .ok_or(NoJob::NoRhythm)?;
    job::is_job(&segments, flowlets, pairs, least)?;
    let mut view =
        View { port, ports, segments: &segments, flowlets, pairs, receivers: &receivers, period_ns: 0 };
    let left_out = |at: usize| -> u64 {
        let between = segments.steps.get(at).zip(segments.steps.get(at + 1));
        let blocks = between.and_then(|(step, next)| segments.blocks.get(step.end..next.start));
        blocks.into_iter().flatten().map(|block| block.bytes).sum()
    };
    let all = segments.steps.iter().enumerate().filter_map(|(at, blocks)| {
        let gap_follows = 2 * left_out(at) >= segments.volume;
        Some(Step { gap_follows, ..measure(view.step(blocks))? })
    });
    let steps: Vec<Step> = all.collect();
    let mut found = LinkSteps {
        link: port,
        steps,
        period_ns: 0,
        volume: segments.volume,
        explained: segments.explained,
        rhythm: None,
        straggler: None,
        last: None,
        ending: ending(traffic, ports, port, &segments).ok_or(NoJob::NoData)?,
    };
    if found.may_be_parts() {
        return Err(NoJob::TooFew);
    }
    found.period_ns = median(found.periods()).ok_or(NoJob::TooFew)?;
    found.rhythm = link_rhythm(traffic, ports, port, found.period_ns);
    view.period_ns = found.period_ns;
    found.straggler = view.straggler();
    found.last = last(&view);
    Ok(found)
}

/// The times of a step from its flowlets, which are sorted by start.
fn measure(flowlets: &[Record]) -> Option<Step> {
    let first = flowlets.first()?;
    let (mut end_ns, mut busy_ns, mut silence_ns) = (first.start_ns, 0, 0);
    for flowlet in flowlets {
        silence_ns = flowlet.start_ns.saturating_sub(end_ns).max(silence_ns);
        busy_ns += flowlet.end_ns.saturating_sub(flowlet.start_ns.max(end_ns));
        end_ns = end_ns.max(flowlet.end_ns);
    }
    Some(Step { start_ns: first.start_ns, end_ns, busy_ns, silence_ns, gap_follows: false })
}

/// The flow that finishes last most often.
fn last(view: &View<'_>) -> Option<LastFinisher> {
    let mut by_flow: Map<(u32, u32), Vec<u64>> = Map::default();
    for blocks in &view.segments.steps {
        let mut ends: Map<(u32, u32), u64> = Map::default();
        for flowlet in view.step(blocks) {
            let end = ends.entry((flowlet.pair, flowlet.dest_qp)).or_default();
            *end = flowlet.end_ns.max(*end);
        }
        let mut ends: Vec<(u64, (u32, u32))> = ends.into_iter().map(|(flow, end)| (end, flow)).collect();
        ends.sort_unstable();
        if let [.., (before, _), (end, flow)] = ends[..] {
            by_flow.entry(flow).or_default().push(end - before);
        }
    }
    let most = by_flow.into_iter().max_by_key(|(flow, behind)| (behind.len(), std::cmp::Reverse(*flow)))?;
    let ((pair, dest_qp), behind) = most;
    let pair = view.pairs.get(pair as usize)?;
    Some(LastFinisher {
        src: pair.src,
        dst: pair.dst,
        dest_qp,
        steps: behind.len(),
        behind_ns: median(behind)?,
    })
}

fn ending(traffic: &Traffic, ports: &[u16], port: u16, segments: &Segments) -> Option<Ending> {
    let last_data_ns = segments.blocks.iter().map(|block| block.end_ns).max()?;
    let after = segments.steps.last()?.end;
    let bytes: u64 = segments.blocks.get(after..)?.iter().map(|block| block.bytes).sum();
    // In a replay the end of this port's own capture counts, not that of another one.
    let own = (0u16..).zip(&traffic.links).filter(|(at, _)| port_of(ports, *at) == port);
    let seen = || own.filter_map(|(_, link)| link.last_ns).max();
    let end_ns = traffic.end_ns.or_else(seen).unwrap_or(last_data_ns);
    Some(Ending {
        last_data_ns,
        silent_ns: end_ns.saturating_sub(last_data_ns),
        part: Some(share(bytes, segments.volume)),
        outstanding: Some(outstanding(traffic, ports, port)),
    })
}

/// Flows of a port that wait for something: the end of a message, or an answer.
///
/// Which flow carries the answers is not always known. A request counts as answered when any flow between the two hosts
/// answered this PSN or one behind it since; so a request may seem answered that was not, and never the other way
/// round. If no answer between two hosts was ever seen, nothing is concluded from its absence.
fn outstanding(traffic: &Traffic, ports: &[u16], port: u16) -> usize {
    let mut answers: Map<(Host, Host), Vec<(u32, u64)>> = Map::default();
    let own = |standing: &&FlowletState| {
        traffic
            .pairs
            .get(standing.flowlet.pair as usize)
            .is_some_and(|pair| port_of(ports, pair.link) == port)
    };
    for standing in traffic.flowlets.standing.iter().filter(own) {
        if let (Some(pair), Some(answer)) =
            (traffic.pairs.get(standing.flowlet.pair as usize), standing.answer.get())
        {
            answers.entry((pair.dst, pair.src)).or_default().push(answer);
        }
    }
    let waits = |standing: &&FlowletState| {
        let Some(pair) = traffic.pairs.get(standing.flowlet.pair as usize) else { return false };
        let unanswered = standing.request.get().is_some_and(|(psn, at)| {
            answers.get(&(pair.src, pair.dst)).is_some_and(|answers| {
                !answers.iter().any(|(answer, when)| *when >= at && psn_distance(psn, *answer) < WINDOW)
            })
        });
        standing.message_open || unanswered
    };
    traffic.flowlets.standing.iter().filter(own).filter(waits).count()
}
