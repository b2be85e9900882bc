//! Cause of sequence-error NAKs: RNR fallout, reordering, or loss. One answer for findings and screens.
//!
//! | # | observation | cause of the NAKs |
//! |---|---|---|
//! | 1 | the requests of this queue pair are seen, and the sender retransmitted after a NAK: from a gap here, or from packets seen here | loss |
//! | 2 | RNR NAKs in the same flow of answers: packets behind the refused one are out of sequence | RNR |
//! | 3 | the requests of one of several queue pairs between the hosts were retransmitted so, and which of them is not known | loss |
//! | 4 | the requests are seen, and PSNs came out of order | reordering |
//! | 5 | the requests are seen, and nothing else explains them | loss (downstream: nothing is missing here) |
//! | 6 | the requests are not seen, or what happened to them is not known | not known |
//!
//! Each row takes as many NAKs as it explains, in this order.

use crate::analysis::{Facts, Flow};

/// Observations of the requests that the NAKs are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Requests {
    /// Episodes of loss, upstream and downstream of the tap, for which the sender retransmitted.
    episodes: u64,
    /// PSNs that came out of order.
    reordered: u64,
    /// They are those of the queue pair that sends the NAKs; else of the one with most between the two hosts.
    own: bool,
}

/// Sequence-error NAKs by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NakCauses {
    /// Fallout of RNR NAKs: packets behind a refused one.
    pub rnr: u64,
    /// Packets that arrived out of order.
    pub reordering: u64,
    /// Packets that were lost, or arrived damaged.
    pub loss: u64,
    /// Not known: the requests are not visible at any tap, or their sequence could not be followed.
    pub unknown: u64,
}

impl NakCauses {
    /// Of a flow of answers with this number of NAKs; `requests` is `None` where nothing is known about them.
    fn of(sequence_naks: u64, rnr_naks: u64, requests: Option<Requests>) -> Self {
        let mut left = sequence_naks;
        let mut take = |most: u64| {
            let taken = left.min(most);
            left -= taken;
            taken
        };
        let episodes =
            |own| requests.filter(|requests| requests.own == own).map_or(0, |requests| requests.episodes);
        let loss = take(episodes(true));
        let rnr = take(rnr_naks);
        let loss = loss + take(episodes(false));
        let reordering = take(requests.map_or(0, |requests| requests.reordered));
        let (rest, unknown) = if requests.is_some() { (left, 0) } else { (0, left) };
        Self { rnr, reordering, loss: loss + rest, unknown }
    }
}

impl Facts {
    /// Causes of the sequence-error NAKs in a flow of answers.
    pub fn nak_causes(&self, answers: &Flow) -> NakCauses {
        let naks = answers.naks_dedup().psn_sequence_error;
        if naks == 0 {
            return NakCauses::default();
        }
        NakCauses::of(naks, answers.rnr_naks_dedup(), self.requests_of(answers))
    }

    /// Observations of the requests that a flow answers: of its own queue pair if that is known, else of all between
    /// the two hosts, at any tap: a NAK has a cause wherever it is seen. `None` where none is visible, or what happened
    /// to one is not known.
    fn requests_of(&self, answers: &Flow) -> Option<Requests> {
        match answers.peer_qp {
            Some(qp) => Requests::of(self.to_qp(answers.dst, answers.src, qp), true),
            None => Requests::of(self.between(answers.dst, answers.src), false),
        }
    }
}

impl Requests {
    /// The sum of what is known of flows of requests; `None` where there is none, or what happened to one is not known.
    fn of<'a>(flows: impl Iterator<Item = &'a Flow>, own: bool) -> Option<Self> {
        let mut all = flows.filter(|flow| flow.psn.is_some()).peekable();
        all.peek()?;
        let mut sum = Requests { own, ..Requests::default() };
        for flow in all {
            let troubled = flow.psn.get().is_some_and(|psn| psn.gaps > 0 || psn.repeats > 0);
            match &flow.loss.get() {
                Some(loss) => {
                    sum.episodes = sum
                        .episodes
                        .max(loss.before_tap.episodes.or_zero() + loss.after_tap.episodes.or_zero());
                    sum.reordered = sum.reordered.max(loss.recovered);
                }
                None if troubled => return None,
                None => {}
            }
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: NakCauses = NakCauses { rnr: 0, reordering: 0, loss: 0, unknown: 0 };

    /// Causes where the requests of this queue pair are seen.
    fn of(naks: u64, rnr: u64, episodes: u64, reordered: u64) -> NakCauses {
        NakCauses::of(naks, rnr, Some(Requests { episodes, reordered, own: true }))
    }

    /// The same where those of one of several queue pairs between the hosts are.
    fn of_some(naks: u64, rnr: u64, episodes: u64, reordered: u64) -> NakCauses {
        NakCauses::of(naks, rnr, Some(Requests { episodes, reordered, own: false }))
    }

    #[test]
    fn row_1_retransmissions_of_this_queue_pair_are_loss_before_rnr_explains_any() {
        assert_eq!(of(48, 3, 48, 9), NakCauses { loss: 48, ..NONE });
        assert_eq!(of(50, 3, 48, 0), NakCauses { loss: 48, rnr: 2, ..NONE }, "and some RNR fallout");
    }

    #[test]
    fn row_2_packets_behind_a_refused_one_are_rnr_fallout() {
        assert_eq!(of(19, 19, 0, 9), NakCauses { rnr: 19, ..NONE });
        let others = of_some(28, 118, 28, 0);
        assert_eq!(others, NakCauses { rnr: 28, ..NONE }, "loss of another queue pair");
    }

    #[test]
    fn row_3_retransmissions_of_an_unknown_queue_pair_are_loss_after_rnr() {
        assert_eq!(of_some(28, 3, 25, 9), NakCauses { rnr: 3, loss: 25, ..NONE });
    }

    #[test]
    fn row_4_psns_out_of_order_are_reordering() {
        assert_eq!(of(7, 0, 0, 9), NakCauses { reordering: 7, ..NONE });
        assert_eq!(of_some(9, 1, 3, 9), NakCauses { rnr: 1, loss: 3, reordering: 5, ..NONE });
    }

    #[test]
    fn row_5_the_rest_is_loss_downstream_where_the_requests_are_seen() {
        assert_eq!(of(5, 0, 0, 0), NakCauses { loss: 5, ..NONE });
        assert_eq!(of(5, 0, 0, 2), NakCauses { reordering: 2, loss: 3, ..NONE });
    }

    #[test]
    fn row_6_the_rest_is_not_known_where_the_requests_are_not_seen() {
        assert_eq!(NakCauses::of(5, 2, None), NakCauses { rnr: 2, unknown: 3, ..NONE });
    }
}
