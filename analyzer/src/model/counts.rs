//! The counters that views show: sums over flows, and differences over time.

use crate::analysis::FaultRank;
use crate::metrics::duplicates::DuplicateCounts;
use crate::metrics::loss::{Loss, Metrics};
use crate::sample::{Retired, Stats, has_answers, has_sequence};

/// Counters of a flow, a link or everything, each packet counted once. Unit: packets, unless the name says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of packets.
    pub packets: u64,
    /// Bytes of the outer frames.
    pub bytes: u64,
    /// Packets other than CNP and ACKNOWLEDGE, by ECN bits.
    pub ecn_data: [u64; 4],
    /// Congestion notification packets (CNPs).
    pub cnp: u64,
    /// AETHs that acknowledge (neither NAK nor RNR NAK).
    pub acks: u64,
    /// Receiver-not-ready (RNR) NAKs.
    pub rnr: u64,
    /// NAKs for a PSN sequence error.
    pub sequence_naks: u64,
    /// All other NAKs, except RNR NAKs.
    pub other_naks: u64,
    /// PSN gaps in requests and responses, unless all skipped packets arrived later.
    pub gaps: u64,
    /// PSNs skipped by the gaps.
    pub missing: u64,
    /// Packets lost upstream of this link. All missing packets if it is unknown which of them were lost.
    pub lost: u64,
    /// Skipped PSNs that arrived later, out of order.
    pub reordered: u64,
    /// Packets with a PSN below the expected one.
    pub repeats: u64,
    /// Retransmissions, including repeated READ requests. All of `repeats` if it is unknown which of them are.
    pub retransmitted: u64,
    /// PSN jumps too large for loss.
    pub restarts: u64,
    /// True if packets of a PSN sequence, or losses that a recording has, are among them.
    pub sequenced: bool,
    /// True if ACKs or NAKs are among them; of a row or a pair of hosts, among the packets that answer it.
    pub answered: bool,
}

impl Counts {
    /// The counters of one flow, with its loss figures; `None` if there are none.
    pub fn of(stats: &Stats, slot: u32, losses: Option<&Loss>) -> Self {
        let known = |of: Option<Metrics>| of.map_or((0, 0), |metrics| (metrics.lost, metrics.recovered));
        let (requests_known, responses_known) = losses.map_or((false, false), |losses| losses.is_known(slot));
        let reported = losses.map(|losses| losses.flow(slot)).unwrap_or_default();
        let (lost, reordered) =
            if requests_known { known(reported.requests) } else { (stats.psn.missing, 0) };
        // For PSNs skipped before the sequence was followed, it stays unknown.
        let lost = lost + reported.unfollowed.filter(|_| requests_known).map_or(0, |before| before.missing);
        let (lost_responses, reordered_responses) =
            if responses_known { known(reported.responses) } else { (stats.rare.response_holes, 0) };
        let again = |of: Option<Metrics>| of.map_or(0, |metrics| metrics.retransmissions());
        let retransmitted = if requests_known {
            again(reported.requests) + reported.unfollowed.map_or(0, |before| before.repeats)
        } else {
            stats.psn.repeats
        };
        let responses =
            if responses_known { again(reported.responses) } else { stats.rare.responses_missing().repeats };
        Self {
            lost: lost + lost_responses,
            reordered: reordered + reordered_responses,
            retransmitted: retransmitted + responses,
            ..Self::counted(stats)
        }
    }

    /// The counters of one flow without loss figures.
    pub fn counted(stats: &Stats) -> Self {
        let (requests, responses) = (&stats.psn, stats.rare.responses_missing());
        let [sequence_naks, others @ ..] = stats.rare.naks;
        Self {
            packets: stats.packets,
            bytes: stats.bytes,
            ecn_data: stats.ecn_data,
            cnp: stats.cnp_packets,
            acks: stats.acks,
            rnr: stats.rare.rnr_naks,
            sequence_naks,
            other_naks: others.iter().sum(),
            gaps: requests.gaps + responses.gaps,
            missing: requests.missing + responses.missing,
            repeats: requests.repeats + responses.repeats,
            retransmitted: requests.repeats + responses.repeats,
            restarts: requests.restarts + responses.restarts,
            lost: requests.missing + responses.missing,
            reordered: 0,
            sequenced: has_sequence(stats),
            answered: has_answers(stats),
        }
    }

    /// The counters kept of retired flows; the others are 0.
    pub fn of_retired(retired: &Retired) -> Self {
        Self {
            packets: retired.packets,
            bytes: retired.bytes,
            ecn_data: retired.ecn_data,
            cnp: retired.cnp_packets,
            ..Self::default()
        }
    }

    /// The same without `duplicates`, packets that the capture shows twice.
    #[must_use]
    pub fn without(&self, duplicates: &DuplicateCounts) -> Self {
        let [sequence_naks, others @ ..] = duplicates.naks;
        let part = Self {
            packets: duplicates.packets,
            bytes: duplicates.bytes,
            ecn_data: duplicates.ecn_data,
            cnp: duplicates.cnp_packets,
            acks: duplicates.acks,
            rnr: duplicates.rnr_naks,
            sequence_naks,
            other_naks: others.iter().sum(),
            repeats: duplicates.requests + duplicates.responses,
            ..Self::default()
        };
        // If retransmissions are known, they do not include duplicates.
        let once = self.less(&part);
        Self { retransmitted: self.retransmitted.min(once.repeats), ..once }
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        *self = self.plus(other);
    }

    /// The sum with `other`.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.zip(other, u64::saturating_add)
    }

    /// The growth since `earlier`; `None` when a counter decreased.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let mut back = false;
        // Loss figures are revised as more becomes known; a decrease of these does not invalidate the rates.
        let judged = |counts: &Self| Self { lost: 0, reordered: 0, retransmitted: 0, ..*counts };
        let delta = judged(self).zip(&judged(earlier), |now, then| {
            back |= now < then;
            now.wrapping_sub(then)
        });
        let (lost, reordered) =
            (self.lost.saturating_sub(earlier.lost), self.reordered.saturating_sub(earlier.reordered));
        let retransmitted = self.retransmitted.saturating_sub(earlier.retransmitted);
        (!back).then_some(Self { lost, reordered, retransmitted, ..delta })
    }

    /// The rest after subtracting `part`; 0 if negative.
    #[must_use]
    pub fn less(&self, part: &Self) -> Self {
        self.zip(part, u64::saturating_sub)
    }

    /// The same with the gaps, NAKs and marks of `other`, which counts the same packets at another tap, if those are
    /// higher: loss and marks between two taps show only at the second, and NAKs only where the answers pass.
    #[must_use]
    pub fn with_loss_of(&self, other: &Self) -> Self {
        let marked = |counts: &Self| counts.ce_ratio().unwrap_or(-1.0);
        Self {
            gaps: self.gaps.max(other.gaps),
            missing: self.missing.max(other.missing),
            lost: self.lost.max(other.lost),
            reordered: self.reordered.max(other.reordered),
            sequenced: self.sequenced || other.sequenced,
            rnr: self.rnr.max(other.rnr),
            sequence_naks: self.sequence_naks.max(other.sequence_naks),
            other_naks: self.other_naks.max(other.other_naks),
            answered: self.answered || other.answered,
            ecn_data: if marked(other) > marked(self) { other.ecn_data } else { self.ecn_data },
            ..*self
        }
    }

    /// A count of lost, reordered or retransmitted packets; `None` where it is unknown, as of ACKs, CNPs and datagrams
    /// alone. Every view takes it from here.
    pub fn of_sequence(&self, count: fn(&Self) -> u64) -> Option<u64> {
        let is_known = self.sequenced || self.gaps + self.repeats + self.lost > 0;
        is_known.then(|| count(self))
    }

    /// A count of NAKs or RNR NAKs; `None` where it is unknown, since neither an ACK nor a NAK was observed. Every view
    /// takes it from here.
    pub fn of_answers(&self, count: fn(&Self) -> u64) -> Option<u64> {
        let is_known = self.answered || self.naks() + self.rnr > 0;
        is_known.then(|| count(self))
    }

    /// All NAKs except RNR NAKs.
    pub const fn naks(&self) -> u64 {
        self.sequence_naks + self.other_naks
    }

    /// What goes wrong, to compare rows by.
    pub fn fault_rank(&self) -> FaultRank {
        FaultRank {
            lost: self.lost,
            recovery: self.retransmitted + self.naks() + self.rnr,
            congestion: self.cnp + self.ecn_data[3],
            ..FaultRank::default()
        }
    }

    /// CE-marked over ECN-capable packets; `None` without ECN-capable packets.
    pub fn ce_ratio(&self) -> Option<f64> {
        let [_, ect1, ect0, ce] = self.ecn_data;
        let capable = ect1 + ect0 + ce;
        (capable > 0).then(|| ce as f64 / capable as f64)
    }

    /// True if none of the data is ECN-capable; ACKs and CNPs alone do not tell.
    pub fn is_ecn_off(&self) -> bool {
        self.ecn_data[0] > 0 && self.ce_ratio().is_none()
    }

    fn zip(&self, other: &Self, mut f: impl FnMut(u64, u64) -> u64) -> Self {
        Self {
            packets: f(self.packets, other.packets),
            bytes: f(self.bytes, other.bytes),
            ecn_data: std::array::from_fn(|i| f(self.ecn_data[i], other.ecn_data[i])),
            cnp: f(self.cnp, other.cnp),
            acks: f(self.acks, other.acks),
            rnr: f(self.rnr, other.rnr),
            sequence_naks: f(self.sequence_naks, other.sequence_naks),
            other_naks: f(self.other_naks, other.other_naks),
            gaps: f(self.gaps, other.gaps),
            missing: f(self.missing, other.missing),
            lost: f(self.lost, other.lost),
            reordered: f(self.reordered, other.reordered),
            repeats: f(self.repeats, other.repeats),
            retransmitted: f(self.retransmitted, other.retransmitted),
            restarts: f(self.restarts, other.restarts),
            // Of a sum, and of what is left of one.
            sequenced: self.sequenced || other.sequenced,
            answered: self.answered || other.answered,
        }
    }
}

/// The growth of counters in a time range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delta {
    /// Counts in the interval.
    pub counts: Counts,
    /// Its length; always positive.
    pub seconds: f64,
}

impl Delta {
    /// Bits per second of outer frames.
    pub fn bits_per_s(&self) -> f64 {
        self.counts.bytes as f64 * 8.0 / self.seconds
    }

    /// Packets per second.
    pub fn packets_per_s(&self) -> f64 {
        self.counts.packets as f64 / self.seconds
    }

    /// Congestion notification packets per second.
    pub fn cnp_per_s(&self) -> f64 {
        self.counts.cnp as f64 / self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, Delta};
    use crate::metrics::loss::Loss;
    use crate::sample::Stats;
    use crate::util::map::Set;

    #[test]
    fn psns_skipped_between_response_messages_are_not_lost() {
        // READs among SENDs: 28 acknowledged PSNs, and one that was not.
        let mut stats = Stats::default();
        (stats.rare.psn_responses.gaps, stats.rare.psn_responses.missing) = (7, 28);
        for losses in [None, Some(Loss { known: Some(Set::default()), ..Loss::default() })] {
            let counts = Counts::of(&stats, 0, losses.as_ref());
            assert_eq!((counts.gaps, counts.missing, counts.lost), (0, 0, 0));
            let mut missing = stats.clone();
            missing.rare.response_holes = 1;
            let counts = Counts::of(&missing, 0, losses.as_ref());
            assert_eq!((counts.gaps, counts.missing, counts.lost), (1, 1, 1));
        }
    }

    #[test]
    fn loss_is_known_of_a_sequence_and_of_what_has_one_among_others() {
        let acks = Counts::counted(&Stats { packets: 9, acks: 9, ..Stats::default() });
        let mut stats = Stats { packets: 9, ..Stats::default() };
        stats.psn.seen = 1;
        let data = Counts::counted(&stats);
        let lost = |counts: &Counts| counts.of_sequence(|counts| counts.lost);
        assert_eq!((lost(&acks), lost(&data)), (None, Some(0)));
        assert_eq!((lost(&acks.plus(&data)), lost(&data.less(&acks))), (Some(0), Some(0)));
        assert_eq!(lost(&data.since(&data).unwrap()), Some(0), "also while it pauses");
        assert_eq!(lost(&acks.plus(&acks).since(&acks).unwrap()), None);
        assert_eq!(lost(&acks.with_loss_of(&data)), Some(0), "another tap shows it");
        assert_eq!(lost(&Counts { lost: 2, ..acks }), Some(2), "between two taps ACKs are lost, too");
    }

    #[test]
    fn naks_are_known_where_an_answer_was_observed() {
        let mut stats = Stats { packets: 9, ..Stats::default() };
        stats.psn.seen = 1;
        let data = Counts::counted(&stats);
        let acks = Counts::counted(&Stats { packets: 9, acks: 9, ..Stats::default() });
        let naks = |counts: &Counts| counts.of_answers(Counts::naks);
        assert_eq!((naks(&data), naks(&acks), naks(&Counts::default())), (None, Some(0), None));
        assert_eq!((naks(&data.plus(&acks)), naks(&acks.less(&data))), (Some(0), Some(0)));
        assert_eq!(naks(&acks.since(&acks).unwrap()), Some(0), "also while it pauses");
        let refused = Counts { other_naks: 2, ..data };
        assert_eq!((naks(&refused), refused.of_answers(|counts| counts.rnr)), (Some(2), Some(0)));
        assert_eq!(naks(&data.with_loss_of(&refused)), Some(2), "another tap shows it");
        stats.rare.ack_unknown = 4;
        assert_eq!(naks(&Counts::counted(&stats)), None, "truncated before the syndrome");
    }

    #[test]
    fn a_counter_that_goes_back_leaves_no_rate() {
        let now = Counts { packets: 10, bytes: 1000, ..Counts::default() };
        let then = Counts { packets: 4, bytes: 400, ..Counts::default() };
        let counts = now.since(&then).unwrap();
        assert_eq!((counts.packets, counts.bytes), (6, 600));
        assert_eq!(Delta { counts, seconds: 2.0 }.bits_per_s().to_bits(), 2400f64.to_bits());
        assert_eq!(then.since(&now), None);
        let less_cnp = Counts { packets: 10, cnp: 1, ..Counts::default() };
        assert_eq!(now.since(&less_cnp), None);
    }

    #[test]
    fn the_ce_ratio_is_unknown_without_ecn_capable_packets() {
        assert_eq!(Counts { ecn_data: [100, 0, 0, 0], ..Counts::default() }.ce_ratio(), None);
        let half = Counts { ecn_data: [9, 1, 2, 3], ..Counts::default() };
        assert_eq!(half.ce_ratio(), Some(0.5));
        assert!(Counts { ecn_data: [100, 0, 0, 0], ..Counts::default() }.is_ecn_off());
        assert!(!half.is_ecn_off() && !Counts { acks: 9, ..Counts::default() }.is_ecn_off());
    }
}
