//! Attributes errors that a port counts for all of its queue pairs to those whose contexts changed at that time.

use super::progress::Progress;
use crate::entity::contexts::Blamed;
use crate::util::map::Map;

/// Maximum time to wait for contexts after a counter has increased, ns.
const WAIT_NS: u64 = 3_000_000_000;

/// Counters of failed requests on a port, since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Errors {
    /// Number of transport timeouts.
    pub(super) timeouts: u64,
    /// Sequence-error NAKs that the port received.
    pub(super) sequence_errors: u64,
}

impl Errors {
    fn since(self, before: Self) -> Self {
        Self {
            timeouts: self.timeouts.saturating_sub(before.timeouts),
            sequence_errors: self.sequence_errors.saturating_sub(before.sequence_errors),
        }
    }

    fn any(self) -> bool {
        self != Self::default()
    }
}

/// Errors between two readings of the counters, with monotonic times.
#[derive(Clone, Debug)]
struct Case {
    from_ns: u64,
    to_ns: u64,
    errors: Errors,
    /// A queue pair ended meanwhile, to which the errors may belong.
    ended: bool,
    /// Of each queue pair, if its first context after the errors shows that its PSNs moved at that time.
    moved: Map<u32, bool>,
}

impl Case {
    /// The queue pairs that likely had the sequence errors: of those that retried or stalled (`suspects`), and of all
    /// that may have had a packet in flight (`active`), besides which there may be unknown ones.
    ///
    /// A NAK comes from a peer that answers and is answered within a round trip: contexts show no more than PSNs that
    /// move. One that stood still waits for a peer that does not answer.
    fn suspects_of_naks(&self, suspects: Vec<u32>, active: &[u32], unknown: bool) -> Vec<u32> {
        let moved = |all: &[u32]| -> Vec<u32> {
            all.iter().copied().filter(|lqpn| self.moved.get(lqpn) == Some(&true)).collect()
        };
        let (retried, others) = (moved(&suspects), moved(active));
        if !retried.is_empty() {
            return retried;
        }
        if others.is_empty() {
            return suspects;
        }
        // With fewer NAKs than queue pairs that may have had them, some of these certainly had none.
        let are_too_many = unknown || active.len() as u64 > self.errors.sequence_errors;
        if are_too_many { Vec::new() } else { others }
    }
}

/// The errors of one port.
#[derive(Debug, Default)]
pub(super) struct TimeoutAttribution {
    last: Option<(u64, Errors)>,
    open: Vec<Case>,
    /// A queue pair of the port has ended since the latest reading of the counters.
    ended: bool,
    /// The port has queue pairs that are not asked for, or may have some, as its device lists none: errors may be
    /// theirs.
    pub(super) others: bool,
    pub(super) of: Map<u32, Blamed>,
}

impl TimeoutAttribution {
    /// Adds the counters, read at a monotonic time. True if they increased.
    pub(super) fn counted(&mut self, errors: Errors, now_ns: u64) -> bool {
        let Some((from_ns, before)) = self.last.replace((now_ns, errors)) else { return false };
        let errors = errors.since(before);
        let ended = std::mem::take(&mut self.ended);
        if errors.any() {
            self.open.push(Case { from_ns, to_ns: now_ns, errors, ended, moved: Map::default() });
        }
        errors.any()
    }

    /// Call when a queue pair of the port has ended: its context cannot be read any more.
    pub(super) fn ended(&mut self) {
        self.ended = true;
        self.open.iter_mut().for_each(|case| case.ended = true);
    }

    /// Call when a context of a queue pair has been read. Of each case the first one decides: later ones show what
    /// moved later.
    pub(super) fn read(&mut self, lqpn: u32, progress: &Progress) {
        for case in &mut self.open {
            case.moved.entry(lqpn).or_insert_with(|| progress.has_moved_since(case.from_ns));
        }
    }

    /// True if errors are still to be attributed.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// True if a new context of a queue pair that was last read then would help.
    pub(super) fn wants(&self, read_ns: u64) -> bool {
        self.open.iter().any(|case| read_ns < case.to_ns)
    }

    /// Attributes errors as far as possible now. `qps` are all queue pairs of the port, including those without a
    /// context.
    pub(super) fn decide<'a>(
        &mut self,
        qps: &(impl Iterator<Item = (u32, Option<&'a Progress>)> + Clone),
        now_ns: u64,
    ) {
        let open = std::mem::take(&mut self.open);
        for case in open {
            let is_read = |(_, progress): (u32, Option<&Progress>)| {
                progress.is_some_and(|progress| progress.read.monotonic_ns >= case.to_ns)
            };
            if now_ns.saturating_sub(case.to_ns) < WAIT_NS && !qps.clone().all(is_read) {
                self.open.push(case);
                continue;
            }
            let active: Vec<(u32, Option<&Progress>)> = qps
                .clone()
                .filter(|(_, progress)| {
                    !progress.is_some_and(|progress| progress.was_quiet(case.from_ns, case.to_ns))
                })
                .collect();
            let unknown = case.ended || self.others;
            if let (false, [(only, Some(_))]) = (unknown, &active[..]) {
                self.add(*only, case.errors, true);
                continue;
            }
            let is_suspect = |(_, progress): &(u32, Option<&Progress>)| {
                progress.and_then(|progress| progress.suspected_ns).is_some_and(|at| at >= case.from_ns)
            };
            let suspects: Vec<u32> = qps.clone().filter(is_suspect).map(|(lqpn, _)| lqpn).collect();
            let timeouts = Errors { sequence_errors: 0, ..case.errors };
            for lqpn in &suspects {
                self.add(*lqpn, timeouts, false);
            }
            let active: Vec<u32> = active.into_iter().map(|(lqpn, _)| lqpn).collect();
            let naks = Errors { timeouts: 0, ..case.errors };
            for lqpn in case.suspects_of_naks(suspects, &active, unknown) {
                self.add(lqpn, naks, false);
            }
        }
    }

    fn add(&mut self, lqpn: u32, errors: Errors, certain: bool) {
        if !errors.any() {
            return;
        }
        let of = self.of.entry(lqpn).or_insert(Blamed { certain: true, ..Blamed::default() });
        of.timeouts += errors.timeouts;
        of.sequence_errors += errors.sequence_errors;
        of.certain &= certain;
    }
}

#[cfg(test)]
#[path = "attribution_tests.rs"]
mod tests;
