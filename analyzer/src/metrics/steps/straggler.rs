//! The straggler of a step: the host that the others wait for.
//!
//! After a silence of all hosts on a link in the middle of a step, the one that sends first was waited for: no packet
//! that passed here woke it up. If it had sent nothing in the step before, it began the step late, because it computed
//! longer. If it had, and its own receipts are visible too, it paused. If its receipts are not visible, it may itself
//! have waited for a host that this link does not show. A host of which the transfers take much longer than the others'
//! is waited for as well.
//!
//! A host that begins late because the data it waits for arrived after its peers' is no straggler: its own time, from
//! the last data in to the first data out, is what it always was. Its inbound transfer is slow then.
//!
//! Jobs also pause together, between the buckets of their gradients or the stages of a pipeline. A silence within the
//! steps is therefore held against somebody who had sent in the step only when it is not there in other steps of the
//! same run.

use std::ops::Range;

use super::segment::{Block, MIN_STEPS, Segments};
use crate::metrics::traffic::flowlets::Record;
use crate::metrics::traffic::hosts::{Host, Pair};
use crate::util::definition::definitions;
use crate::util::map::Set;
use crate::util::numbers::median;

definitions! {
    pub WAIT_SHARE: f64 = 0.1,
        "Minimum wait for a host, as a share of the median step",
        "Hosts of a healthy ring start one after the other: in the captures that this was tried on by up to 8 % of a step each";
    SLOW_FACTOR: f64 = 3.0,
        "Minimum duration of a slow transfer over that of the quickest of about the same size",
        "Paths of one fabric differ by less";
    MAX_CHANCE: f64 = 0.000_1,
        "Maximum probability that a host ends a silence so often in a row by chance",
        "Its rate is estimated from the other steps, which is too low where chance has gathered them in this stretch";
    BY_ITSELF: f64 = 0.8,
        "Minimum share of the steps in which a host begins before it has received anything, for it to begin by itself; and of those in which it sends on what it receives",
        "The first steps warm up";
    OWN_SHARE: f64 = 0.5,
        "Minimum growth of a host's own time over its late start, for the start to be its own doing; and of the steps over what a host is behind, for them to wait for it",
        "One that explains most of a delay is its reason";
}

/// Reason why a host is a straggler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StragglerCause {
    /// Only known: it, or a host that it waits for and that this link does not show.
    Upstream,
    /// It fell silent in the middle of the step without anybody keeping it.
    Pauses,
    /// Its transfers take longer than the others'.
    SlowTransfer,
    /// It begins the step after the others.
    StartsLate,
}

impl StragglerCause {
    const ALL: [Self; 4] = [Self::Upstream, Self::Pauses, Self::SlowTransfer, Self::StartsLate];

    /// Its name in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StartsLate => "starts_late",
            Self::SlowTransfer => "slow_transfer",
            Self::Pauses => "pauses",
            Self::Upstream => "upstream",
        }
    }

    /// That of a name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|why| why.name() == name)
    }
}

/// A host that others wait for, step after step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Straggler {
    /// Index of the first link of the port on which this was seen.
    pub link: u16,
    /// Reason why it is a straggler.
    pub why: StragglerCause,
    /// Host that is waited for.
    pub host: Host,
    /// Host that it sends to when it ends the wait.
    pub peer: Host,
    /// On which queue pair.
    pub dest_qp: u32,
    /// Its receipts pass this link too, so that nobody else can have kept it.
    pub certain: bool,
    /// Steps in which it was waited for.
    pub steps: usize,
    /// Steps from the first to the last of these.
    pub of_steps: usize,
    /// Start of the first of them.
    pub since_ns: u64,
    /// End of the last of them.
    pub until_ns: u64,
    /// There are enough steps besides in which it was not waited for: something changed.
    pub changed: bool,
    /// It begins late once in a step, and sends on at once what it receives from then on.
    pub passes_on: bool,
    /// Median over these steps. For a host that starts late: from the start of the last of the others to its own; for a
    /// slow transfer: how much longer it took than the quickest; else the silence of all.
    pub behind_ns: u64,
}

/// Hosts that receive data on a link.
pub type Receivers = Set<Host>;

/// View of one link's steps.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Index of the port's first link.
    pub port: u16,
    /// Port of each link.
    pub ports: &'a [u16],
    /// Steps of the link.
    pub segments: &'a Segments,
    /// Its flowlets, by start.
    pub flowlets: &'a [Record],
    /// All pairs of hosts.
    pub pairs: &'a [Pair],
    /// Hosts that receive data on the link.
    pub receivers: &'a Receivers,
    /// Median length of a step.
    pub period_ns: u64,
}

/// Someone was waited for in one step.
#[derive(Clone, Copy, Debug)]
struct Wait {
    why: StragglerCause,
    host: Host,
    peer: Host,
    dest_qp: u32,
    behind_ns: u64,
}

/// A host that is waited for, and why.
type Waited = (StragglerCause, Host);

fn is_for(wait: Option<Wait>, of: Waited) -> bool {
    wait.is_some_and(|wait| (wait.why, wait.host) == of)
}

/// Bytes that one host sends another in a step.
#[derive(Clone, Copy, Debug, Default)]
struct Transfer {
    pair: u32,
    busy_ns: u64,
    end_ns: u64,
    bytes: u64,
    /// Queue pair of the longest flowlet, and its length.
    dest_qp: u32,
    longest_ns: u64,
}

/// Pairs of hosts that are compared in a step.
const MAX_TRANSFERS: usize = 256;

impl Transfer {
    fn add(&mut self, flowlet: &Record) {
        let length = flowlet.end_ns.saturating_sub(flowlet.start_ns);
        self.busy_ns += flowlet.end_ns.saturating_sub(flowlet.start_ns.max(self.end_ns));
        self.end_ns = self.end_ns.max(flowlet.end_ns);
        self.bytes += flowlet.fresh_bytes;
        if length >= self.longest_ns {
            (self.dest_qp, self.longest_ns) = (flowlet.dest_qp, length);
        }
    }
}

impl View<'_> {
    /// The flowlets of a step.
    pub(super) fn step(&self, blocks: &Range<usize>) -> &[Record] {
        let blocks = self.segments.blocks.get(blocks.clone()).unwrap_or_default();
        match (blocks.first(), blocks.last()) {
            (Some(first), Some(last)) => {
                self.flowlets.get(first.flowlets.start..last.flowlets.end).unwrap_or_default()
            }
            _ => &[],
        }
    }

    fn pair(&self, flowlet: &Record) -> Option<&Pair> {
        self.pairs.get(flowlet.pair as usize)
    }

    fn sender(&self, flowlets: &[Record], host: Host) -> bool {
        flowlets.iter().any(|flowlet| self.pair(flowlet).is_some_and(|pair| pair.src == host))
    }

    fn receives(&self, host: Host) -> bool {
        self.receivers.contains(&host)
    }

    /// Hosts with an address on this link.
    fn hosts(&self) -> usize {
        let own = self
            .pairs
            .iter()
            .filter(|pair| super::port_of(self.ports, pair.link) == self.port && pair.data_bytes > 0);
        let mut hosts: Vec<Host> = own.flat_map(|pair| [pair.src, pair.dst]).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts.len()
    }

    /// Number of hosts that send in a block before they receive anything there: they start by themselves. Hosts of
    /// which only one direction is visible do not count.
    pub(super) fn independent_starts(
        receivers: &Receivers,
        flowlets: &[Record],
        pairs: &[Pair],
        block: &Block,
    ) -> usize {
        let mut known: Vec<(Host, bool)> = Vec::new();
        for flowlet in flowlets.get(block.flowlets.clone()).unwrap_or_default() {
            let Some(pair) = pairs.get(flowlet.pair as usize) else { continue };
            for (host, sends) in [(pair.src, true), (pair.dst, false)] {
                if !known.iter().any(|(other, _)| *other == host) && known.len() < 64 {
                    known.push((host, sends));
                }
            }
        }
        known.iter().filter(|(host, sends)| *sends && receivers.contains(host)).count()
    }

    /// True if these hosts only receive in a block, or only send: what passes while all wait for one of two.
    pub(super) fn is_one_way(
        members: &Receivers,
        flowlets: &[Record],
        pairs: &[Pair],
        block: &Block,
    ) -> bool {
        let own = || flowlets.get(block.flowlets.clone()).into_iter().flatten();
        let all = |end: fn(&Pair) -> Host| {
            own().all(|flowlet| {
                pairs.get(flowlet.pair as usize).is_some_and(|pair| members.contains(&end(pair)))
            })
        };
        all(|pair| pair.src) || all(|pair| pair.dst)
    }

    /// The longest silence within a step, and who ended it.
    fn silence(&self, step: &[Record]) -> Option<Wait> {
        let mut end = step.first()?.end_ns;
        let mut longest: Option<(u64, usize)> = None;
        for (at, flowlet) in step.iter().enumerate() {
            let silence = flowlet.start_ns.saturating_sub(end);
            if silence as f64 >= WAIT_SHARE * self.period_ns as f64
                && longest.is_none_or(|(most, _)| silence > most)
            {
                longest = Some((silence, at));
            }
            end = end.max(flowlet.end_ns);
        }
        let (behind_ns, at) = longest?;
        let flowlet = step.get(at)?;
        // A retransmission after a timeout is a matter of loss.
        if flowlet.fresh_bytes == 0 {
            return None;
        }
        let pair = self.pair(flowlet)?;
        let before = step.get(..at)?;
        let wait = Wait {
            why: StragglerCause::Upstream,
            host: pair.src,
            peer: pair.dst,
            dest_qp: flowlet.dest_qp,
            behind_ns,
        };
        if self.sender(before, pair.src) {
            let why = if self.receives(pair.src) { StragglerCause::Pauses } else { StragglerCause::Upstream };
            return Some(Wait { why, ..wait });
        }
        // From the start of the last host that did not wait for it.
        let mut started: Vec<Host> = Vec::new();
        let mut latest = flowlet.start_ns;
        for flowlet in before {
            if let Some(pair) = self.pair(flowlet)
                && !started.contains(&pair.src)
                && started.len() < MAX_TRANSFERS
            {
                started.push(pair.src);
                latest = flowlet.start_ns;
            }
        }
        let late = flowlet.start_ns.saturating_sub(latest);
        Some(Wait { why: StragglerCause::StartsLate, behind_ns: late, ..wait })
    }

    /// The pair of hosts whose transfer takes far longer than another's of about the same size.
    fn slow(&self, step: &[Record]) -> Option<Wait> {
        let mut transfers: Vec<Transfer> = Vec::new();
        for flowlet in step {
            let at = transfers
                .iter()
                .position(|transfer| transfer.pair == flowlet.pair)
                .unwrap_or(transfers.len());
            if at == transfers.len() && at < MAX_TRANSFERS {
                transfers.push(Transfer { pair: flowlet.pair, ..Transfer::default() });
            }
            if let Some(transfer) = transfers.get_mut(at) {
                transfer.add(flowlet);
            }
        }
        let most = transfers.iter().map(|transfer| transfer.bytes).max()?;
        transfers.retain(|transfer| transfer.bytes >= most / 2);
        let slowest = *transfers.iter().max_by_key(|transfer| transfer.busy_ns)?;
        let quickest = transfers.iter().map(|transfer| transfer.busy_ns).min()?;
        let behind_ns = slowest.busy_ns - quickest;
        let far = slowest.busy_ns as f64 >= SLOW_FACTOR * quickest as f64;
        if !far || (behind_ns as f64) < WAIT_SHARE * self.period_ns as f64 {
            return None;
        }
        let dest_qp = slowest.dest_qp;
        let pair = self.pairs.get(slowest.pair as usize)?;
        Some(Wait { why: StragglerCause::SlowTransfer, host: pair.src, peer: pair.dst, dest_qp, behind_ns })
    }

    /// Start of each host's sending in a step, the first first.
    fn starts(&self, step: &[Record]) -> Vec<(u64, Host, u32, u32)> {
        let mut starts: Vec<(u64, Host, u32, u32)> = Vec::new();
        for flowlet in step.iter().filter(|flowlet| flowlet.fresh_bytes > 0) {
            let Some(pair) = self.pair(flowlet) else { continue };
            if starts.len() < MAX_TRANSFERS && !starts.iter().any(|(_, host, ..)| *host == pair.src) {
                starts.push((flowlet.start_ns, pair.src, flowlet.pair, flowlet.dest_qp));
            }
        }
        starts
    }

    /// The host that begins long after all others, whether or not these fill the time.
    fn late_start(&self, step: &[Record]) -> Option<Wait> {
        let starts = self.starts(step);
        let [.., (before, ..), (start, host, pair, dest_qp)] = starts[..] else { return None };
        let behind_ns = start.saturating_sub(before);
        if (behind_ns as f64) < WAIT_SHARE * self.period_ns as f64 || !self.receives(host) {
            return None;
        }
        let peer = self.pairs.get(pair as usize)?.dst;
        Some(Wait { why: StragglerCause::StartsLate, host, peer, dest_qp, behind_ns })
    }

    /// True if a host begins to send before anything that it receives in the step has come to an end, in nearly all
    /// steps in which it is not late: no packet that it receives sets it off.
    fn begins_by_itself(&self, host: Host, late: &[Option<Wait>]) -> bool {
        let (mut all, mut own) = (0, 0);
        for (step, wait) in self.segments.steps.iter().zip(late) {
            if wait.is_some_and(|wait| wait.host == host) {
                continue;
            }
            let step = self.step(step);
            let to_it = step.iter().filter(|flowlet| self.pair(flowlet).is_some_and(|pair| pair.dst == host));
            let received = to_it.map(|flowlet| flowlet.end_ns).min();
            let began = self.starts(step).iter().find(|(_, other, ..)| *other == host).map(|(at, ..)| *at);
            if let (Some(began), Some(received)) = (began, received) {
                all += 1;
                own += usize::from(began < received);
            }
        }
        all >= MIN_STEPS && own as f64 >= BY_ITSELF * all as f64
    }

    /// Host that is waited for in most of a stretch of steps.
    pub fn straggler(&self) -> Option<Straggler> {
        // Two hosts that wait for each other's answers are client and server.
        if self.hosts() < 3 {
            return None;
        }
        let steps = &self.segments.steps;
        let waits = |of: fn(&Self, &[Record]) -> Option<Wait>| -> Vec<Option<Wait>> {
            steps.iter().map(|step| of(self, self.step(step))).collect()
        };
        let found = [waits(Self::silence), waits(Self::slow)];
        let late = waits(Self::late_start);
        let stretches = found
            .iter()
            .filter_map(|waits| self.stretch(waits))
            .filter(|(found, range)| self.own_doing(found, range));
        // A host that is the last to begin in every step is a stage of a pipeline or a leaf of a tree.
        let late = self.stretch(&late).filter(|(found, range)| {
            found.changed && self.begins_by_itself(found.host, &late) && self.own_doing(found, range)
        });
        let stretches = stretches.chain(late).map(|(straggler, range)| Straggler {
            passes_on: self.passes_on(&straggler, &range),
            ..straggler
        });
        stretches.max_by_key(|straggler| (straggler.steps as u64).saturating_mul(straggler.behind_ns))
    }

    /// The time that a host takes by itself before a step: from the last data that it received in the step before to
    /// the first that it sends. `None` where it does not do both.
    fn own_time(&self, host: Host, before: &Range<usize>, step: &Range<usize>) -> Option<u64> {
        let of = |blocks, end: fn(&Pair) -> Host| {
            self.step(blocks)
                .iter()
                .filter(move |flowlet| self.pair(flowlet).is_some_and(|pair| end(pair) == host))
        };
        let received = of(before, |pair| pair.dst).map(|flowlet| flowlet.end_ns).max()?;
        let sent = of(step, |pair| pair.src).map(|flowlet| flowlet.start_ns).min()?;
        Some(sent.saturating_sub(received))
    }

    /// True if a host that begins late takes longer by itself: than in other steps, or where it is late in all of them,
    /// than the other hosts. An unknown cause counts as its own doing.
    fn own_doing(&self, found: &Straggler, range: &Range<usize>) -> bool {
        if found.why != StragglerCause::StartsLate {
            return true;
        }
        let steps = || self.segments.steps.windows(2).enumerate();
        let times = |host: Host, within: bool| -> Vec<u64> {
            let own = steps().filter(|(at, _)| range.contains(&(at + 1)) == within);
            own.filter_map(|(_, pair)| self.own_time(host, pair.first()?, pair.last()?)).collect()
        };
        let usual = if found.changed {
            median(times(found.host, false))
        } else {
            let mut others: Vec<Host> =
                self.receivers.iter().copied().filter(|host| *host != found.host).collect();
            others.sort_unstable();
            others.truncate(64);
            median(others.into_iter().filter_map(|host| median(times(host, true))).collect())
        };
        let (Some(now), Some(usual)) = (median(times(found.host, true)), usual) else { return true };
        now.saturating_sub(usual) as f64 >= OWN_SHARE * found.behind_ns as f64
    }

    /// True if a host that begins late receives a quarter of its data of a step or more after that, and nobody is
    /// silent for half as long again, in nearly all steps of a stretch: it is a member of a collective. A stage of a
    /// pipeline computes with all that it receives.
    fn passes_on(&self, found: &Straggler, range: &Range<usize>) -> bool {
        if found.why != StragglerCause::StartsLate {
            return false;
        }
        let in_step = |blocks: &Range<usize>| {
            let step = self.step(blocks);
            let of = |end: fn(&Pair) -> Host| {
                step.iter()
                    .filter(move |flowlet| self.pair(flowlet).is_some_and(|pair| end(pair) == found.host))
            };
            let began = of(|pair| pair.src).map(|flowlet| flowlet.start_ns).min()?;
            let (mut all, mut later) = (0, 0);
            for flowlet in of(|pair| pair.dst) {
                all += flowlet.fresh_bytes;
                later += if flowlet.end_ns > began { flowlet.fresh_bytes } else { 0 };
            }
            let (mut end_ns, mut silence_ns) = (began, 0);
            for flowlet in step {
                silence_ns = silence_ns.max(flowlet.start_ns.saturating_sub(end_ns));
                end_ns = end_ns.max(flowlet.end_ns);
            }
            Some(later > 0 && 4 * later >= all && 2 * silence_ns < found.behind_ns)
        };
        let steps = self.segments.steps.get(range.clone()).unwrap_or_default();
        let passing = steps.iter().filter(|step| in_step(step) == Some(true)).count();
        passing as f64 >= BY_ITSELF * steps.len() as f64
    }

    /// True if steps of a stretch are longer than those outside in which nobody is waited for, by enough of what a host
    /// is behind: hosts that send each at its own pace do not wait for one another, whoever is last. Unknown where
    /// there are few such steps, which counts as true.
    fn lengthens(&self, waits: &[Option<Wait>], range: &Range<usize>, behind_ns: u64) -> bool {
        let start = |step: &Range<usize>| Some(self.segments.blocks.get(step.start)?.start_ns);
        let (mut within, mut outside) = (Vec::new(), Vec::new());
        for (at, pair) in self.segments.steps.windows(2).enumerate() {
            let [Some(from), Some(to)] = [pair.first(), pair.last()].map(|step| start(step?)) else {
                continue;
            };
            if range.contains(&at) {
                within.push(to.saturating_sub(from));
            } else if waits.get(at).is_some_and(Option::is_none) {
                outside.push(to.saturating_sub(from));
            }
        }
        let enough = within.len().min(outside.len()) >= MIN_STEPS;
        let (Some(now), Some(usual)) = (median(within), median(outside)) else { return true };
        !enough || now.saturating_sub(usual) as f64 >= OWN_SHARE * behind_ns as f64
    }

    /// The host that comes up most in a stretch of steps, with that stretch and its waits there, the shortest first.
    /// Nobody waits for a host that makes no step longer, however often it is the last: the next one is taken.
    fn most_waited_for(&self, waits: &[Option<Wait>]) -> Option<(Waited, Range<usize>, Vec<Wait>)> {
        let mut who: Vec<Waited> = waits.iter().flatten().map(|wait| (wait.why, wait.host)).collect();
        who.sort_unstable();
        who.dedup();
        let densest_of = |of: Waited| {
            let (range, score) = densest(waits.iter().map(|wait| is_for(*wait, of)))?;
            Some((score, of, range))
        };
        let mut all: Vec<_> = who.into_iter().filter_map(densest_of).collect();
        all.sort_by_key(|(score, ..)| *score);
        all.into_iter().rev().find_map(|(_, of, range)| {
            let stretch = waits.get(range.clone())?.iter();
            let mut own: Vec<Wait> = stretch.filter(|wait| is_for(**wait, of)).flatten().copied().collect();
            own.sort_unstable_by_key(|wait| wait.behind_ns);
            let behind_ns = own.get(own.len() / 2)?.behind_ns;
            let lengthens = of.0 == StragglerCause::SlowTransfer || self.lengthens(waits, &range, behind_ns);
            lengthens.then_some((of, range, own))
        })
    }

    /// The stretch of steps in which one host is waited for most.
    fn stretch(&self, waits: &[Option<Wait>]) -> Option<(Straggler, Range<usize>)> {
        let (of, range, own) = self.most_waited_for(waits)?;
        let middle = own.get(own.len() / 2)?;
        // The host that ends a silence of all steps is chance.
        let silent = matches!(of.0, StragglerCause::Pauses | StragglerCause::Upstream);
        let without = |wait: &Option<Wait>| if silent { wait.is_none() } else { !is_for(*wait, of) };
        let others = waits.iter().enumerate().filter(|(at, wait)| !range.contains(at) && without(wait));
        let changed = others.count() >= MIN_STEPS;
        if silent && !changed {
            return None;
        }
        // If others are waited for as well, or the same one now and then, one comes up several times in a row by
        // chance.
        let outside = || waits.iter().enumerate().filter(|(at, _)| !range.contains(at));
        let now_and_then = outside().filter(|(_, wait)| is_for(**wait, of)).count();
        let others = waits.iter().flatten().filter(|wait| wait.host != of.1).count();
        let rate = (now_and_then + 1) as f64 / (outside().count() + 2) as f64;
        let mixed = now_and_then > 1 || 4 * others > own.len();
        if own.len() < MIN_STEPS || mixed && chance(waits.len(), range.len(), own.len(), rate) > MAX_CHANCE {
            return None;
        }
        let (why, host) = of;
        let blocks = |at: usize| {
            let step = self.segments.steps.get(at)?;
            Some((self.segments.blocks.get(step.start)?, self.segments.blocks.get(step.end.checked_sub(1)?)?))
        };
        let first = blocks(range.start).map_or(0, |(first, _)| first.start_ns);
        let last = range.end.checked_sub(1).and_then(blocks).map_or(first, |(_, last)| last.end_ns);
        let found = Straggler {
            link: self.port,
            why,
            host,
            peer: middle.peer,
            dest_qp: middle.dest_qp,
            certain: why != StragglerCause::Upstream && self.receives(host),
            steps: own.len(),
            of_steps: range.len(),
            changed,
            passes_on: false,
            since_ns: first,
            until_ns: last,
            behind_ns: middle.behind_ns,
        };
        Some((found, range))
    }
}

/// Expected number of stretches of `length` steps, among `steps` of them, with a host in `own` of each when it comes up
/// in a share of all steps at random: the binomial term, times the places where a stretch can begin.
fn chance(steps: usize, length: usize, own: usize, share: f64) -> f64 {
    let choices: f64 = (0..own.min(length)).map(|i| (length - i) as f64 / (own - i) as f64).product();
    let one = i32::try_from(own).map_or(0.0, |own| share.powi(own));
    let rest = i32::try_from(length.saturating_sub(own)).map_or(0.0, |rest| (1.0 - share).powi(rest));
    steps as f64 * choices * one * rest
}

/// The stretch with most steps or windows that show a signal, less two for each that does not: two of three must show
/// it. With that score; `None` when none shows it.
pub fn densest(shown: impl Iterator<Item = bool>) -> Option<(Range<usize>, i64)> {
    const MISS: i64 = -2;
    let mut best: Option<(Range<usize>, i64)> = None;
    let (mut start, mut sum) = (0, 0);
    for (at, shown) in shown.enumerate() {
        if sum <= 0 {
            (start, sum) = (at, 0);
        }
        sum += if shown { 1 } else { MISS };
        if sum > 0 && best.as_ref().is_none_or(|(_, most)| sum > *most) {
            best = Some((start..at + 1, sum));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::densest;

    #[test]
    fn five_of_five_may_be_chance() {
        // Four take turns: a quarter of the steps each. 30 · 0.25^5 = 0.029.
        assert!((super::chance(30, 5, 5, 0.25) - 0.0293).abs() < 0.001);
        assert!(super::chance(30, 15, 15, 0.5) < 0.001);
        // 30 · C(7, 5) · 0.25^5 · 0.75^2 = 0.346.
        assert!((super::chance(30, 7, 5, 0.25) - 0.346).abs() < 0.001);
    }

    #[test]
    fn the_densest_stretch() {
        let of = |shown: &[u8]| densest(shown.iter().map(|one| *one == 1));
        assert_eq!(of(&[1, 0, 1, 1, 0, 1, 1, 1, 0, 0, 1]), Some((5..8, 3)));
        assert_eq!((of(&[0, 0]), of(&[])), (None, None));
    }
}
