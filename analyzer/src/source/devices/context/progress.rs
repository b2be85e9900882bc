//! One queue pair over successive contexts.

use super::super::psn::{Advance, DecidedReadings};
use crate::entity::contexts::ContextTimes;
use crate::entity::interval::{self, Interval};
use crate::host::rdma::qp_context::QpContext;
use crate::util::small_list::SmallList;

/// PSNs have 24 bits.
const PSN_MASK: u32 = 0xff_ffff;
/// A larger distance between the next and the acknowledged PSN means that one of them is not in use yet.
const MOST_IN_FLIGHT: u32 = 1 << 23;

/// The same moment on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Timestamps {
    /// Monotonic time, for durations.
    pub(super) monotonic_ns: u64,
    /// Unix time, for users.
    pub(super) unix_ns: u64,
}

/// Details that the public definitions of a driver leave open, learned from a device's queue pairs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rules {
    /// Votes for equal next and acknowledged PSNs of an idle queue pair, and for a distance of one.
    distances: [u32; 2],
    retries: Votes,
    rnr_retries: Votes,
}

/// Votes on whether retry counters start at their setting and count down, or start at 0 and count up.
#[derive(Clone, Copy, Debug, Default)]
struct Votes {
    down: u32,
    up: u32,
}

impl Votes {
    fn take(&mut self, set: Option<u8>, now: Option<u8>) {
        match set.zip(now) {
            Some((set, now)) if set > 0 && now == set => self.down = self.down.saturating_add(1),
            Some((set, 0)) if set > 0 => self.up = self.up.saturating_add(1),
            _ => {}
        }
    }

    /// Retries used; `None` until an idle queue pair has shown the resting value of the counter.
    fn used(self, known_down: Option<bool>, set: Option<u8>, now: Option<u8>) -> Option<u8> {
        let down = known_down.or_else(|| (self.down != self.up).then_some(self.down > self.up))?;
        if down { set?.checked_sub(now?) } else { now }
    }
}

impl Rules {
    /// Learns from a context; `before` is the progress up to the previous one. One that has not sent anything is
    /// ignored, since its acknowledged PSN and counters are not initialised before, and so is one in the error state.
    pub(super) fn learn(&mut self, context: &QpContext, before: Option<&Progress>) {
        let is_in_use = context.used == Some(true) && context.state != Some("ERR");
        let Some(distance) = distance(context).filter(|_| is_in_use) else { return };
        // Mostly idle if its PSNs stand still. Once each time: one that stalls must not outvote those that are idle.
        let stopped = before.is_some_and(|before| !before.is_still && before.has_psns_of(context));
        if let Some(votes) = self.distances.get_mut(distance as usize).filter(|_| stopped) {
            *votes = votes.saturating_add(1);
        }
        if distance <= self.idle_distance(context) {
            self.retries.take(context.retry_cnt, context.retry_now);
            self.rnr_retries.take(context.rnr_retry, context.rnr_retry_now);
        }
    }

    /// The PSN distance with nothing in flight. Until idle queue pairs show 0, 1 is assumed, so that an idle one never
    /// looks busy.
    fn idle_distance(&self, context: &QpContext) -> u32 {
        let [none, one] = self.distances;
        context.idle_distance.unwrap_or(u32::from(none <= one))
    }
}

fn distance(context: &QpContext) -> Option<u32> {
    Some(context.next_send_psn?.wrapping_sub(context.acked_psn?) & PSN_MASK)
}

#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    pub(super) context: QpContext,
    pub(super) read: Timestamps,
    pub(super) readings: u64,
    /// Advance of its PSNs in packets, at least, up to the latest context after which its port was counted; `None` if
    /// contexts have no such PSN.
    pub(super) sent: Option<u64>,
    pub(super) received: Option<u64>,
    /// Contexts before which there may have been more.
    pub(super) ambiguous: u64,
    pub(super) retrying: u64,
    pub(super) rnr_retrying: u64,
    pub(super) receives_exhausted: u64,
    /// Times of contexts that showed these three.
    pub(super) times: ContextTimes,
    /// Time of the latest context with retries or a stall. Monotonic.
    pub(super) suspected_ns: Option<u64>,
    /// Time of the first context since which packets have been in flight without an acknowledgement. Monotonic.
    waits_since_ns: Option<u64>,
    /// The acknowledged PSN has changed.
    moved: bool,
    /// The latest two contexts have the same PSNs.
    is_still: bool,
    /// Time of the latest context with other PSNs than the one before. Monotonic.
    moved_ns: Option<u64>,
    /// Time of the first context since which it has sent nothing and had nothing in flight. Monotonic.
    quiet_since_ns: Option<u64>,
}

impl Progress {
    pub(super) fn new(context: QpContext, read: Timestamps, rules: &Rules) -> Self {
        let mut progress = Self {
            sent: context.next_send_psn.map(|_| 0),
            received: context.next_recv_psn.map(|_| 0),
            context,
            read,
            readings: 1,
            ..Self::default()
        };
        progress.note(rules, false);
        progress
    }

    /// Adds the next context, and returns the advance of its PSNs, sent and received, which is not counted yet.
    pub(super) fn take(&mut self, context: QpContext, read: Timestamps, rules: &Rules) -> [Advance; 2] {
        let advance = |before: Option<u32>, now: Option<u32>| Some(Advance::of(before?, now?));
        let sent = advance(self.context.next_send_psn, context.next_send_psn);
        let received = advance(self.context.next_recv_psn, context.next_recv_psn);
        self.sent = self.sent.filter(|_| sent.is_some());
        self.received = self.received.filter(|_| received.is_some());
        if context.acked_psn != self.context.acked_psn {
            self.moved = true;
            self.waits_since_ns = None;
        }
        if context.next_send_psn != self.context.next_send_psn {
            self.quiet_since_ns = None;
        }
        self.is_still = self.has_psns_of(&context);
        if !self.is_still {
            self.moved_ns = Some(read.monotonic_ns);
        }
        let took_receives = context.received_wqes != self.context.received_wqes;
        (self.context, self.read) = (context, read);
        self.readings += 1;
        self.note(rules, took_receives);
        [sent, received].map(Option::unwrap_or_default)
    }

    /// Counts the packets of contexts that are decided about.
    pub(super) fn count(&mut self, decided: DecidedReadings) {
        let [sent, received] = decided.packets;
        self.sent = self.sent.map(|sum| sum.saturating_add(sent));
        self.received = self.received.map(|sum| sum.saturating_add(received));
        self.ambiguous += decided.ambiguous;
    }

    /// Evaluates the latest context. `took_receives` is true if receives were consumed since the previous one.
    fn note(&mut self, rules: &Rules, took_receives: bool) {
        // A queue pair that was idle has only started to wait.
        let in_flight = self.in_flight(rules);
        if in_flight.is_some_and(|packets| packets > 0) {
            self.waits_since_ns.get_or_insert(self.read.monotonic_ns);
        } else {
            self.waits_since_ns = None;
        }
        let used = |retries: Option<u8>| retries.is_some_and(|used| used > 0);
        let retrying = used(self.retries_used(rules));
        let rnr_retrying = used(self.rnr_retries_used(rules));
        let exhausted = took_receives && self.context.posted_receives == Some(0);
        for (shows, count, times) in [
            (retrying, &mut self.retrying, &mut self.times.retrying),
            (rnr_retrying, &mut self.rnr_retrying, &mut self.times.rnr_retrying),
            (exhausted, &mut self.receives_exhausted, &mut self.times.exhausted),
        ] {
            if shows {
                *count += 1;
                add_reading(times, self.readings, self.read.unix_ns);
            }
        }
        if retrying || self.stuck_ns(rules).is_some_and(|ns| ns > 0) {
            self.suspected_ns = Some(self.read.monotonic_ns);
        }
        // One that has never sent was idle as well.
        if in_flight == Some(0) || self.context.used == Some(false) && !self.moved {
            self.quiet_since_ns.get_or_insert(self.read.monotonic_ns);
        } else {
            self.quiet_since_ns = None;
        }
    }

    /// Packets sent and not acknowledged.
    pub(super) fn in_flight(&self, rules: &Rules) -> Option<u32> {
        let distance = distance(self.in_use()?)?;
        let in_flight = distance.saturating_sub(rules.idle_distance(&self.context));
        (in_flight <= MOST_IN_FLIGHT).then_some(in_flight)
    }

    fn has_psns_of(&self, context: &QpContext) -> bool {
        let psns = |of: &QpContext| (of.next_send_psn, of.acked_psn);
        psns(&self.context) == psns(context)
    }

    /// The context, if its figures are meaningful: the queue pair has sent, and is not in the error state, in which
    /// the queue is flushed.
    fn in_use(&self) -> Option<&QpContext> {
        let has_sent = self.moved || self.context.used == Some(true);
        Some(&self.context).filter(|context| has_sent && context.state != Some("ERR"))
    }

    /// Time without an acknowledgement while packets are in flight, in nanoseconds.
    pub(super) fn stuck_ns(&self, rules: &Rules) -> Option<u64> {
        self.in_flight(rules)?;
        Some(self.waits_since_ns.map_or(0, |since| self.read.monotonic_ns.saturating_sub(since)))
    }

    pub(super) fn retries_used(&self, rules: &Rules) -> Option<u8> {
        let of = self.in_use()?;
        rules.retries.used(of.counts_down, of.retry_cnt, of.retry_now)
    }

    pub(super) fn rnr_retries_used(&self, rules: &Rules) -> Option<u8> {
        let of = self.in_use()?;
        rules.rnr_retries.used(of.counts_down, of.rnr_retry, of.rnr_retry_now)
    }

    /// True if a context since this time has shown that it sent or was acknowledged.
    pub(super) fn has_moved_since(&self, from_ns: u64) -> bool {
        self.moved_ns.is_some_and(|at| at >= from_ns)
    }

    /// True if it cannot have waited for an acknowledgement between these times.
    pub(super) fn was_quiet(&self, from_ns: u64, to_ns: u64) -> bool {
        self.quiet_since_ns.is_some_and(|since| since <= from_ns) && self.read.monotonic_ns >= to_ns
    }
}

/// Adds a reading of this number to the times in which readings showed something.
fn add_reading(times: &mut SmallList<Interval>, number: u64, read_ns: u64) {
    let one = Interval {
        first_ns: read_ns,
        last_ns: read_ns,
        count: 1,
        at_first: number.saturating_sub(1),
        at_last: number,
    };
    // With many queue pairs, successive readings may be far apart.
    let before = times.last().filter(|last| last.at_last == one.at_first).map(|last| last.last_ns);
    interval::add(one, times, before.unwrap_or(read_ns));
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::util::time::NS_PER_MS as MS;

    fn context(next: u32, acked: u32) -> QpContext {
        QpContext {
            next_send_psn: Some(next),
            acked_psn: Some(acked),
            retry_cnt: Some(7),
            retry_now: Some(7),
            used: Some(true),
            ..QpContext::default()
        }
    }

    #[test]
    fn psns_count_what_they_show_and_go_on() {
        let rules = Rules::default();
        let read = Timestamps::default();
        let at = |next: u32| QpContext { next_recv_psn: None, ..context(next, next) };
        let mut progress = Progress::new(at(10), read, &rules);
        assert_eq!((progress.sent, progress.received), (Some(0), None), "no such PSN in the context");
        for (next, sent) in [(30, 20), (50, 40), (50, 40), (60, 50)] {
            let [moved, received] = progress.take(at(next), read, &rules);
            progress.count(DecidedReadings { packets: [moved.packets, received.packets], ambiguous: 0 });
            assert_eq!(progress.sent, Some(sent), "{next}");
            assert_eq!((moved.wraps_from.is_some(), received), (moved.packets > 0, Advance::default()));
        }
        assert_eq!(progress.received, None);
    }

    /// Learns from a queue pair that has had this context twice.
    fn learn_idle(rules: &mut Rules, context: &QpContext) {
        let before = Progress::new(context.clone(), Timestamps::default(), rules);
        rules.learn(context, Some(&before));
    }

    /// The progress after contexts at these times in milliseconds.
    fn after(rules: &mut Rules, contexts: &[(u64, QpContext)]) -> Progress {
        let mut progress: Option<Progress> = None;
        for (ms, context) in contexts {
            let read = Timestamps { monotonic_ns: ms * MS, unix_ns: ms * MS };
            rules.learn(context, progress.as_ref());
            match &mut progress {
                None => progress = Some(Progress::new(context.clone(), read, rules)),
                Some(progress) => {
                    let packets = progress.take(context.clone(), read, rules).map(|moved| moved.packets);
                    progress.count(DecidedReadings { packets, ambiguous: 0 });
                }
            }
        }
        progress.unwrap()
    }

    #[test]
    fn packets_in_flight_are_counted_across_the_wrap_of_the_psn() {
        let mut rules = Rules::default();
        learn_idle(&mut rules, &context(5, 5));
        let of = after(&mut rules, &[(0, context(0xff_fff0, 0xff_fff0)), (10, context(0x20, 0x10))]);
        assert_eq!((of.in_flight(&rules), of.sent, of.stuck_ns(&rules)), (Some(16), Some(0x30), Some(0)));
        // One that has not sent yet, and one in the error state.
        let fresh = QpContext { used: Some(false), ..context(0x7000, 0) };
        let fresh = after(&mut rules, &[(0, fresh.clone()), (5_000, fresh)]);
        assert_eq!((fresh.in_flight(&rules), fresh.stuck_ns(&rules)), (None, None));
        assert!(fresh.was_quiet(1, 2));
        let dead = QpContext { state: Some("ERR"), retry_now: Some(0), ..context(20, 10) };
        let dead = after(&mut rules, &[(0, dead.clone()), (5_000, dead)]);
        assert_eq!((dead.in_flight(&rules), dead.stuck_ns(&rules), dead.retrying), (None, None, 0));
    }

    #[test]
    fn an_idle_queue_pair_is_not_stuck_whatever_its_acknowledged_psn_means() {
        // Drivers that report the last acknowledged PSN: never equal to the next one.
        let mut last = Rules::default();
        let idle =
            after(&mut last, &[(0, context(9, 8)), (5_000, context(12, 11)), (9_000, context(12, 11))]);
        assert_eq!((idle.in_flight(&last), idle.stuck_ns(&last)), (Some(0), Some(0)));
        // Drivers that report the next PSN to be acknowledged: a distance of 1 is a packet.
        let mut next = Rules::default();
        learn_idle(&mut next, &context(4, 4));
        learn_idle(&mut next, &context(6, 6));
        let waits =
            after(&mut next, &[(0, context(9, 9)), (5_000, context(12, 11)), (9_000, context(12, 11))]);
        assert_eq!((waits.in_flight(&next), waits.stuck_ns(&next)), (Some(1), Some(4_000 * MS)));
        // A driver with a documented distance needs no learning.
        let said = QpContext { idle_distance: Some(0), ..context(12, 11) };
        let of = after(&mut Rules::default(), &[(0, said)]);
        assert_eq!(of.in_flight(&Rules::default()), Some(1));
    }

    /// One queue pair that was reset, or was read while it changed, must not make all idle ones look stuck.
    #[test]
    fn the_distance_of_idle_queue_pairs_is_that_of_most() {
        let mut rules = Rules::default();
        let last =
            [(0, context(9, 8)), (1_000, context(9, 8)), (2_000, context(12, 11)), (3_000, context(12, 11))];
        after(&mut rules, &last);
        // While it moves, and once when it stands still.
        let odd =
            [(0, context(5, 5)), (1_000, context(7, 7)), (2_000, context(7, 7)), (9_000, context(7, 7))];
        after(&mut rules, &odd);
        let idle = after(&mut rules, &[(0, context(20, 19)), (5_000, context(20, 19))]);
        assert_eq!((idle.in_flight(&rules), idle.stuck_ns(&rules)), (Some(0), Some(0)));
        // One that stalls for long with one packet has a single vote.
        let mut next = Rules::default();
        let idle = |psn| [(0, context(psn, psn)), (1_000, context(psn, psn))];
        after(&mut next, &idle(3));
        after(&mut next, &idle(4));
        let stalls: Vec<_> = (0..50).map(|second| (second * 1_000, context(12, 11))).collect();
        let stalls = after(&mut next, &stalls);
        assert_eq!((stalls.in_flight(&next), stalls.stuck_ns(&next)), (Some(1), Some(49_000 * MS)));
    }

    #[test]
    fn one_that_was_stuck_before_the_run_is_known_by_the_work_it_began() {
        let mut rules = Rules::default();
        let still = |used| QpContext { used: Some(used), ..context(40, 10) };
        let stuck = after(&mut rules, &[(0, still(true)), (3_000, still(true))]);
        assert_eq!((stuck.in_flight(&rules), stuck.stuck_ns(&rules)), (Some(29), Some(3_000 * MS)));
        let unused = after(&mut rules, &[(0, still(false)), (3_000, still(false))]);
        assert_eq!(unused.stuck_ns(&rules), None);
    }

    #[test]
    fn new_queue_pairs_teach_nothing() {
        // All zero: neither distance nor counter has the value that it has after use.
        let new = QpContext { used: Some(false), retry_now: Some(0), ..context(0, 0) };
        let mut rules = Rules::default();
        for _ in 0..9 {
            rules.learn(&new, None);
        }
        let idle = after(&mut rules, &[(0, context(9, 8)), (5_000, context(9, 8))]);
        assert_eq!((idle.in_flight(&rules), idle.retries_used(&rules)), (Some(0), Some(0)));
    }

    #[test]
    fn one_that_was_idle_for_long_is_not_stuck_when_it_sends_again() {
        let mut rules = Rules::default();
        learn_idle(&mut rules, &context(5, 5));
        let idle = |ms| (ms, context(100, 100));
        let sends = after(&mut rules, &[idle(0), idle(30_000), idle(60_000), (61_000, context(120, 100))]);
        assert_eq!((sends.in_flight(&rules), sends.stuck_ns(&rules)), (Some(20), Some(0)));
        let busy = [(0, context(20, 10)), (1_000, context(40, 30)), (2_000, context(60, 50))];
        assert_eq!(after(&mut rules, &busy).stuck_ns(&rules), Some(0), "another packet each time");
    }

    #[test]
    fn retries_are_unknown_until_an_idle_queue_pair_shows_where_they_rest() {
        let mut rules = Rules::default();
        let busy = QpContext { retry_now: Some(5), ..context(90, 10) };
        assert_eq!(after(&mut rules, &[(0, busy.clone())]).retries_used(&rules), None);
        learn_idle(&mut rules, &context(5, 5));
        assert_eq!(after(&mut rules, &[(0, busy.clone())]).retries_used(&rules), Some(2));
        // A device that counts up.
        let mut up = Rules::default();
        learn_idle(&mut up, &QpContext { retry_now: Some(0), ..context(5, 5) });
        let of = after(&mut up, &[(0, QpContext { retry_now: Some(2), ..context(90, 10) }), (10, busy)]);
        assert_eq!((of.retries_used(&up), of.retrying), (Some(5), 2));
    }

    #[test]
    fn retries_begin_and_end() {
        let mut rules = Rules::default();
        learn_idle(&mut rules, &context(5, 5));
        let reading = |second: u64, retries: u8| {
            (second * 1_000, QpContext { retry_now: Some(7 - retries), ..context(90, 10) })
        };
        // Successive readings are one time however far apart; so are others less than 10 s apart.
        let of = after(
            &mut rules,
            &[
                reading(0, 0),
                reading(1, 2),
                reading(16, 1),
                reading(17, 0),
                reading(20, 3),
                reading(40, 0),
                reading(41, 1),
            ],
        );
        let times: Vec<_> =
            of.times.retrying.iter().map(|one| (one.first_ns / MS, one.last_ns / MS)).collect();
        assert_eq!((times, of.retrying), (vec![(1_000, 20_000), (41_000, 41_000)], 4));
        let first = of.times.retrying[0];
        assert_eq!((first.count, first.at_last - first.at_first), (3, 4), "of the readings meanwhile");
        assert!(of.times.rnr_retrying.is_empty() && of.times.exhausted.is_empty());
    }

    #[test]
    fn an_empty_receive_queue_counts_only_where_receives_are_used() {
        let mut rules = Rules::default();
        let with = |taken: u32, posted: u32| QpContext {
            received_wqes: Some(taken),
            posted_receives: Some(posted),
            ..context(5, 5)
        };
        let of = after(&mut rules, &[(0, with(1, 0)), (10, with(5, 0)), (20, with(9, 4)), (30, with(12, 0))]);
        assert_eq!(of.receives_exhausted, 2);
        // A target of WRITEs: no receive was ever posted.
        assert_eq!(after(&mut rules, &[(0, with(0, 0)), (10, with(0, 0))]).receives_exhausted, 0);
    }

    #[test]
    fn quiet_is_what_certainly_sent_nothing() {
        let mut rules = Rules::default();
        learn_idle(&mut rules, &context(5, 5));
        let of = after(&mut rules, &[(0, context(9, 9)), (100, context(9, 9))]);
        assert!(of.was_quiet(10 * MS, 90 * MS));
        assert!(!of.was_quiet(10 * MS, 110 * MS), "not read since");
        let sent = after(&mut rules, &[(0, context(9, 9)), (100, context(12, 12))]);
        assert!(!sent.was_quiet(10 * MS, 90 * MS));
    }
}
