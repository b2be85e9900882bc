//! Reason why a sender goes back: one decision, from what is observed around the first packet behind the expected PSN.
//!
//! The rows are tried from the top, and the first that matches decides. *PSN gap* is a range of PSNs that were skipped
//! at this tap and whose packets have not passed before. A NAK *names* a run that starts at its PSN, or right behind a
//! PSN gap that contains it: the first retransmissions are lost again upstream. A NAK is *already answered by a
//! go-back-N* if the sender pauses and has gone back for it before; if only later packets of that go-back arrived, the
//! first may be late, and the pause has to be as long as the reordering window. A sender that goes back later than any
//! stack reacts is not responding to that NAK either. The retransmission was lost, or the sender ignored the NAK, and
//! the transport timer expired. If the sender restarts at one PSN for the third time, only a NAK that came since its
//! last go-back-N counts. PSNs of a gap are counted as lost where a run with a cause fills the gap (`Sequence::fill`).
//!
//! | # | observation | cause | counted as |
//! |---|---|---|---|
//! | 1 | the number is known to be in use by another connection, which has not got beyond the PSNs of the one before | [`Reuse`](Cause::Reuse) | nothing |
//! | 2 | an RNR NAK that is not already answered by a go-back-N names the PSN | [`ReceiverNotReady`](Cause::ReceiverNotReady) | RNR retransmission |
//! | 3 | a sequence-error NAK names the PSN, and there is or was a PSN gap at it or right before it | [`Upstream`](Cause::Upstream) | the gap's PSNs as lost upstream; a timeout if the NAK is already answered by a go-back-N |
//! | 4 | a sequence-error NAK names the PSN, which lies before the first that passed here | [`Unknown`](Cause::Unknown) | retransmission: its packet was lost upstream, or passed before the capture began and was lost downstream |
//! | 5 | a sequence-error NAK names the PSN, and nothing was missing there | [`Downstream`](Cause::Downstream) | loss, corruption or reordering downstream; a timeout if the NAK is already answered by a go-back-N |
//! | 6 | no NAK, and farther back than any window of unacknowledged packets | [`Reuse`](Cause::Reuse) | nothing |
//! | 7 | no NAK, back to the first PSN over a window, after a pause | [`Reuse`](Cause::Reuse) | nothing |
//! | 8 | no NAK, back to the first PSN after a pause longer than any transport timer | [`Reuse`](Cause::Reuse) | nothing |
//! | 8a | no NAK, back to the first PSN over several messages, or to one farther before it than a window, after a pause, and ACKs of all that was sent passed here | [`Reuse`](Cause::Reuse) | nothing |
//! | 9 | no NAK, and the service (UC) retransmits nothing | [`Reuse`](Cause::Reuse) | nothing |
//! | 10 | no NAK, and a PSN gap at the PSN or between it and the expected one | [`Upstream`](Cause::Upstream) | the gap's PSNs as lost upstream; a timeout if the sender paused and no NAK names a PSN shortly before |
//! | 11 | no NAK and no pause, right behind a run of one or two packets | [`Mirror`](Cause::Mirror) | duplicate |
//! | 11a | READ responses, and all requests for them pass this tap: the requester has repeated nothing, or one of its READ requests passed twice as a duplicate | [`Mirror`](Cause::Mirror) | duplicate: the network duplicated the request, and the responder answered both |
//! | 12 | no NAK, and the reverse direction is not captured | [`Downstream`](Cause::Downstream) | go-back-N, cause not observed |
//! | 13 | no NAK in the captured reverse direction for this PSN or one shortly before, after a pause | [`Timeout`](Cause::Timeout) | transport timeout |
//! | 14 | no NAK for this PSN in the captured reverse direction otherwise | [`Unknown`](Cause::Unknown) | retransmission |

use super::arrival::REUSE_PAUSE_NS;
use crate::util::definition::definitions;

definitions! {
    pub TIMEOUT_PAUSE_NS: u64 = 1_000_000,
        "Minimum pause of a sender before a retransmission that its transport timer triggered, in nanoseconds",
        "The ACK timeout is 4.096 us * 2^n (IBTA 9.7.6.1.3), and values below n = 8 (1 ms) are not used in practice";
    pub(super) NAK_REACTION_NS: u64 = 50_000_000,
        "A sender that paused and goes back this long after a sequence-error NAK, in nanoseconds, is not responding to that NAK",
        "NICs go back within microseconds, and a software stack as soon as it runs: within 30 ms in captures of a busy machine. The timers that libraries set are longer: 67 ms is the shortest default";
    pub PSN_WINDOW: u32 = 16_384,
        "Maximum PSNs between an unacknowledged packet and the latest: a jump back beyond this means QPN reuse, and an ACK further back is not its own",
        "4,096-byte packets at 400 Gb/s for 1.3 ms";
    REUSE_FROM_FIRST: u32 = 256,
        "Maximum PSNs that a sender goes back to its very first PSN after a pause to retransmit; beyond that the queue pair number is in use again",
        "A connection that is made again begins there; few windows do";
    REUSE_LONG_PAUSE_NS: u64 = 60_000_000_000,
        "Pause after which it uses the number again however few PSNs it goes back, in nanoseconds",
        "No transport timer is longer: NCCL's is 4.3 s, 17 s where it is set high";
    REUSE_ACKED: u32 = 32,
        "The same where ACKs of all that was sent passed here",
        "A sender that misses its last ACK goes back by what that one acknowledges; several ACKs are not lost at once and nothing else with them";
    pub(super) SEVERAL_ACKS: u8 = 4,
        "Minimum ACKs of a flow for these to be several",
        "Single ones are lost at the end of what was in flight";
    REUSE_BEFORE_FIRST: u32 = 1_024,
        "Maximum PSNs before the first one seen that a sender goes back to after a pause to retransmit, where ACKs of all that was sent passed here",
        "Those of a window: what it retransmits was in flight when the capture began, and has been acknowledged since";
    MIRRORED_RUN: u64 = 2,
        "Maximum packets that pass again right before another one that does, without a NAK or a pause, for both to be duplicates of a mirror",
        "Go-back-N retransmits longer runs";
}

/// Reason why a run of packets behind the expected PSN was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Packets were lost upstream of this tap.
    Upstream,
    /// Nothing was missing here, and yet the receiver NAKed it, or the reverse direction is not captured.
    Downstream,
    /// The receiver was not ready (RNR NAK).
    ReceiverNotReady,
    /// The transport timer expired, and nothing was missing here.
    Timeout,
    /// A mirror shows every packet twice, or the network duplicates packets.
    Mirror,
    /// Another connection uses the number.
    Reuse,
    /// Nothing explains it.
    Unknown,
}

impl Cause {
    /// True if the packets were retransmitted, rather than duplicated or sent by another connection.
    pub(super) const fn is_retransmission(self) -> bool {
        !matches!(self, Self::Mirror | Self::Reuse)
    }
}

/// The kind of a NAK that asks for retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NakKind {
    /// Receiver not ready.
    Rnr,
    /// PSN sequence error.
    SequenceError,
}

/// Observations around the first packet of a run.
#[expect(clippy::struct_excessive_bools, reason = "each is an observation of its own")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    /// The number is known to be in use by another connection.
    pub(super) reused: bool,
    /// A NAK that names the first PSN. An RNR NAK already answered by a go-back-N is none.
    pub(super) nak: Option<NakKind>,
    /// That NAK is not why the sender goes back: it has gone back for it before, or pauses for longer than it takes to
    /// react.
    pub(super) nak_already_answered: bool,
    /// A sequence-error NAK that is not already answered by a go-back-N names a PSN shortly before: the sender goes
    /// back for it, and its first retransmissions are reordered.
    pub(super) nak_before: bool,
    /// The first PSN is in a PSN gap, or was until lately.
    pub(super) gap_at: bool,
    /// So is the PSN right before it: a receiver that drops what is out of order NAKs the packet behind a gap as well.
    pub(super) gap_right_before: bool,
    /// There is a PSN gap between the first PSN and the expected one.
    pub(super) gap_ahead: bool,
    /// PSNs from the first PSN of the run to the expected one.
    pub(super) back: u32,
    /// The run starts at the first PSN of the sequence.
    pub(super) from_first: bool,
    /// It starts this many PSNs before that; 0 if it does not.
    pub(super) before_first: u32,
    /// ACKs of all that had passed before it passed here, too.
    pub(super) acked: bool,
    /// Time since the packet before, nanoseconds.
    pub(super) pause_ns: u64,
    /// The service retransmits (RC, XRC; not UC).
    pub(super) reliable: bool,
    /// Packets of the run that ended right before this PSN; `None` when none did.
    pub(super) follows_run: Option<u64>,
    /// READ responses whose requester has not repeated the READ.
    pub(super) not_repeated: bool,
    /// Packets of the reverse direction are captured.
    pub(super) reverse_captured: bool,
}

impl Observation {
    /// The cause, by the table of this module.
    pub(super) fn cause(&self) -> Cause {
        let paused = self.pause_ns >= TIMEOUT_PAUSE_NS;
        match self.nak {
            _ if self.reused => Cause::Reuse,
            Some(NakKind::Rnr) => Cause::ReceiverNotReady,
            Some(NakKind::SequenceError) if self.gap_at || self.gap_right_before => Cause::Upstream,
            Some(NakKind::SequenceError) if self.before_first > 0 => Cause::Unknown,
            Some(NakKind::SequenceError) => Cause::Downstream,
            None if self.is_another_connection() => Cause::Reuse,
            None if self.gap_at || self.gap_ahead => Cause::Upstream,
            None if !paused && self.follows_run.is_some_and(|packets| packets <= MIRRORED_RUN) => {
                Cause::Mirror
            }
            None if self.not_repeated => Cause::Mirror,
            None if !self.reverse_captured => Cause::Downstream,
            None if paused && !self.nak_before => Cause::Timeout,
            None => Cause::Unknown,
        }
    }

    /// Rows 6 to 9.
    const fn is_another_connection(&self) -> bool {
        self.back >= PSN_WINDOW
            || self.from_first && self.back >= REUSE_FROM_FIRST && self.pause_ns >= REUSE_PAUSE_NS
            || self.from_first && self.pause_ns >= REUSE_LONG_PAUSE_NS
            || self.is_made_again()
            || !self.reliable
    }

    /// Row 8a.
    const fn is_made_again(&self) -> bool {
        let begins = self.from_first && self.back >= REUSE_ACKED || self.before_first >= REUSE_BEFORE_FIRST;
        self.acked && self.pause_ns >= REUSE_PAUSE_NS && begins
    }

    /// True if the transport timer expired: no NAK, or none since the last restart, and the sender paused. `cause` is
    /// that of this observation.
    pub(super) fn timer_expired(&self, cause: Cause) -> bool {
        let unexplained = match self.nak {
            None => matches!(cause, Cause::Upstream | Cause::Timeout) && !self.nak_before,
            Some(NakKind::SequenceError) => self.nak_already_answered && cause != Cause::Reuse,
            Some(NakKind::Rnr) => false,
        };
        self.pause_ns >= TIMEOUT_PAUSE_NS && self.reverse_captured && unexplained
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten PSNs back without anything else: row 14.
    const NOTHING: Observation = Observation {
        reused: false,
        nak: None,
        nak_already_answered: false,
        nak_before: false,
        gap_at: false,
        gap_right_before: false,
        gap_ahead: false,
        back: 10,
        from_first: false,
        before_first: 0,
        acked: false,
        pause_ns: 100_000,
        reliable: true,
        follows_run: None,
        not_repeated: false,
        reverse_captured: true,
    };
    const NAK: Option<NakKind> = Some(NakKind::SequenceError);
    const RNR: Option<NakKind> = Some(NakKind::Rnr);

    #[test]
    fn cause_row_1_a_reused_number_stays_reused_whatever_is_observed() {
        for nak in [None, NAK, RNR] {
            assert_eq!(Observation { reused: true, nak, gap_at: true, ..NOTHING }.cause(), Cause::Reuse);
        }
    }

    #[test]
    fn cause_row_2_an_rnr_nak_decides_before_any_gap() {
        let rnr = Observation { nak: RNR, gap_at: true, gap_ahead: true, ..NOTHING };
        assert_eq!(rnr.cause(), Cause::ReceiverNotReady);
    }

    #[test]
    fn cause_row_3_a_nak_at_or_right_behind_a_gap_is_loss_upstream() {
        assert_eq!(Observation { nak: NAK, gap_at: true, ..NOTHING }.cause(), Cause::Upstream);
        assert_eq!(Observation { nak: NAK, gap_right_before: true, ..NOTHING }.cause(), Cause::Upstream);
    }

    #[test]
    fn cause_row_4_a_nak_for_what_never_passed_says_not_where_it_was_lost() {
        let before = Observation { nak: NAK, before_first: 1, ..NOTHING };
        assert_eq!(before.cause(), Cause::Unknown);
        assert_eq!(Observation { gap_right_before: true, ..before }.cause(), Cause::Upstream);
        assert_eq!(Observation { nak: RNR, ..before }.cause(), Cause::ReceiverNotReady);
    }

    #[test]
    fn cause_row_5_a_nak_without_a_gap_is_downstream_however_far_back() {
        for observation in [NOTHING, Observation { gap_ahead: true, back: PSN_WINDOW, ..NOTHING }] {
            assert_eq!(Observation { nak: NAK, ..observation }.cause(), Cause::Downstream);
        }
    }

    #[test]
    fn rows_3_and_5_a_nak_already_answered_is_no_reason_for_another_go_back() {
        let again =
            Observation { nak: NAK, nak_already_answered: true, pause_ns: TIMEOUT_PAUSE_NS, ..NOTHING };
        for (observation, cause) in
            [(again, Cause::Downstream), (Observation { gap_at: true, ..again }, Cause::Upstream)]
        {
            assert_eq!(observation.cause(), cause);
            assert!(observation.timer_expired(cause));
            assert!(!Observation { nak_already_answered: false, ..observation }.timer_expired(cause));
            assert!(!Observation { pause_ns: TIMEOUT_PAUSE_NS - 1, ..observation }.timer_expired(cause));
            assert!(!Observation { reused: true, ..observation }.timer_expired(Cause::Reuse));
        }
    }

    #[test]
    fn cause_row_6_farther_back_than_any_window_is_another_connection() {
        let far = Observation { back: PSN_WINDOW, gap_ahead: true, ..NOTHING };
        assert_eq!(far.cause(), Cause::Reuse);
        assert_eq!(Observation { back: PSN_WINDOW - 1, ..far }.cause(), Cause::Upstream);
    }

    #[test]
    fn cause_row_7_back_to_the_first_psn_over_a_window_after_a_pause_is_another_connection() {
        let first =
            Observation { from_first: true, back: REUSE_FROM_FIRST, pause_ns: REUSE_PAUSE_NS, ..NOTHING };
        assert_eq!(first.cause(), Cause::Reuse);
        assert_eq!(Observation { back: REUSE_FROM_FIRST - 1, ..first }.cause(), Cause::Timeout);
        assert_eq!(Observation { pause_ns: REUSE_PAUSE_NS - 1, ..first }.cause(), Cause::Timeout);
        assert_eq!(Observation { from_first: false, ..first }.cause(), Cause::Timeout);
    }

    #[test]
    fn cause_row_8_back_to_the_first_psn_after_more_than_any_timer_is_another_connection() {
        let first = Observation { from_first: true, pause_ns: REUSE_LONG_PAUSE_NS, ..NOTHING };
        assert_eq!(first.cause(), Cause::Reuse);
        assert_eq!(Observation { pause_ns: REUSE_LONG_PAUSE_NS - 1, ..first }.cause(), Cause::Timeout);
    }

    #[test]
    fn cause_row_8a_a_connection_made_again_after_all_was_acknowledged() {
        let again = Observation { acked: true, pause_ns: REUSE_PAUSE_NS, ..NOTHING };
        let first = Observation { from_first: true, back: REUSE_ACKED, ..again };
        let before = Observation { before_first: REUSE_BEFORE_FIRST, ..again };
        for made_again in [first, before] {
            assert_eq!(made_again.cause(), Cause::Reuse);
            assert_eq!(Observation { acked: false, ..made_again }.cause(), Cause::Timeout);
            assert_eq!(Observation { pause_ns: REUSE_PAUSE_NS - 1, ..made_again }.cause(), Cause::Timeout);
        }
        assert_eq!(Observation { back: REUSE_ACKED - 1, ..first }.cause(), Cause::Timeout);
        assert_eq!(Observation { before_first: REUSE_BEFORE_FIRST - 1, ..before }.cause(), Cause::Timeout);
    }

    #[test]
    fn cause_row_9_an_unreliable_connection_never_goes_back() {
        let unreliable = Observation { reliable: false, gap_ahead: true, ..NOTHING };
        assert_eq!(unreliable.cause(), Cause::Reuse);
    }

    #[test]
    fn cause_row_10_a_gap_without_a_nak_is_loss_upstream_found_by_a_timeout_if_the_sender_paused() {
        for gap in [Observation { gap_at: true, ..NOTHING }, Observation { gap_ahead: true, ..NOTHING }] {
            assert_eq!(gap.cause(), Cause::Upstream);
            assert!(!gap.timer_expired(Cause::Upstream));
            let paused = Observation { pause_ns: TIMEOUT_PAUSE_NS, ..gap };
            assert_eq!(paused.cause(), Cause::Upstream);
            assert!(paused.timer_expired(Cause::Upstream));
            assert!(!Observation { reverse_captured: false, ..paused }.timer_expired(Cause::Upstream));
            assert!(!Observation { nak_before: true, ..paused }.timer_expired(Cause::Upstream));
        }
    }

    #[test]
    fn cause_row_11_one_duplicate_after_the_other_is_a_mirror() {
        for packets in [1, MIRRORED_RUN] {
            let twice = Observation { follows_run: Some(packets), reverse_captured: false, ..NOTHING };
            assert_eq!(twice.cause(), Cause::Mirror);
        }
        let longer = Observation { follows_run: Some(MIRRORED_RUN + 1), ..NOTHING };
        assert_eq!(longer.cause(), Cause::Unknown);
        let paused = Observation { follows_run: Some(1), pause_ns: TIMEOUT_PAUSE_NS, ..NOTHING };
        assert_eq!(paused.cause(), Cause::Timeout);
    }

    #[test]
    fn cause_row_11a_responses_without_a_repeated_read_answer_a_duplicate() {
        for (gap_at, cause) in [(false, Cause::Mirror), (true, Cause::Upstream)] {
            let twice = Observation { not_repeated: true, reverse_captured: false, gap_at, ..NOTHING };
            assert_eq!(twice.cause(), cause);
        }
    }

    #[test]
    fn cause_row_12_without_the_reverse_direction_the_cause_is_not_observed() {
        for pause_ns in [0, TIMEOUT_PAUSE_NS] {
            let one_way = Observation { reverse_captured: false, pause_ns, ..NOTHING };
            assert_eq!(one_way.cause(), Cause::Downstream);
            assert!(!one_way.timer_expired(Cause::Downstream));
        }
    }

    #[test]
    fn cause_row_13_a_pause_and_no_nak_is_a_timeout() {
        let paused = Observation { pause_ns: TIMEOUT_PAUSE_NS, ..NOTHING };
        assert_eq!(paused.cause(), Cause::Timeout);
        assert!(paused.timer_expired(Cause::Timeout));
    }

    #[test]
    fn cause_row_14_nothing_explains_it() {
        let reordered = Observation { nak_before: true, pause_ns: TIMEOUT_PAUSE_NS, ..NOTHING };
        assert_eq!(reordered.cause(), Cause::Unknown);
        assert_eq!(NOTHING.cause(), Cause::Unknown);
        assert!(!NOTHING.timer_expired(Cause::Unknown));
    }

    #[test]
    fn every_row_of_the_tables_has_a_test_with_its_number() {
        let (own, of_packets) = (include_str!("cause.rs"), include_str!("sequence.rs"));
        let tests =
            [include_str!("tests.rs"), include_str!("spurious_tests.rs"), include_str!("answer_tests.rs")];
        for (name, table, tests) in [("cause", own, own.to_owned()), ("packet", of_packets, tests.concat())] {
            let rows = table.lines().filter_map(|line| line.strip_prefix("//! | ")?.split_once(' '));
            let rows: Vec<_> = rows
                .map(|(row, _)| row)
                .filter(|row| row.starts_with(|c: char| c.is_ascii_digit()))
                .collect();
            assert!(rows.len() >= 12, "{rows:?}");
            for row in rows {
                assert!(tests.contains(&format!("fn {name}_row_{row}_")), "{name} row {row}");
            }
        }
    }
}
