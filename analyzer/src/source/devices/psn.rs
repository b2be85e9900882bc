//! Packet counts from the PSNs of a queue pair at two times.
//!
//! The kernel reports the next PSN to send and the next expected PSN of each queue pair. Their advance is a packet
//! count, unless they may have wrapped completely meanwhile: then it is the least possible one.

use rocescope_common::account::psn::WINDOW;
use rocescope_common::wire::bth::{MASK24, psn_distance};

/// Number of PSNs.
const ROUND: u64 = MASK24 as u64 + 1;
/// A PSN that is lower by at most this is a retransmission, as defined in the report.
const BACK: u64 = WINDOW as u64;

/// Packets between two readings of a PSN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advance {
    /// Number of packets, at least.
    pub packets: u64,
    /// The PSN may have wrapped completely, so that there may be more.
    pub may_be_more: bool,
}

/// Packets from PSN `before` to `now`: 0 for a retransmission. `most` is the largest possible number of packets, such
/// as [`most`] of the port; `None` if it is unknown. A PSN that is the same has not moved: after a
/// wrap it is another one, by all probability.
#[must_use]
pub fn advance(before: u32, now: u32, most: Option<u64>) -> Advance {
    let added = u64::from(psn_distance(before, now));
    let (packets, limit) = if added >= ROUND - BACK { (0, ROUND - BACK) } else { (added, ROUND) };
    // Without room for one wrap there is none for two.
    Advance { packets, may_be_more: added > 0 && most.is_none_or(|most| most >= limit) }
}

/// The most PSNs of requests that a queue pair takes while its port sends and receives these packets. A WRITE or SEND
/// takes one for each packet on its way; a READ takes those of the responses, which come the other way. One that does
/// both at once takes as many as pass in both directions.
#[must_use]
pub fn most(sent: Option<u64>, received: Option<u64>) -> Option<u64> {
    Some(sent?.saturating_add(received?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advance_differs_from_a_step_back_and_from_a_wrap() {
        let end = (1 << 24) - 1;
        for (before, now, most, packets, may_be_more) in [
            (5, 9, Some(10), 4, false),
            (9, 9, Some(10), 0, false),
            (end, 3, Some(10), 4, false),
            // Go-back-N: the sender restarts from an earlier PSN.
            (100, 90, Some(1000), 0, false),
            (3, end, Some(1000), 0, false),
            // The packet count allows a complete wrap, which looks like no packets.
            (5, 9, Some(1 << 24), 4, true),
            (5, 4, Some((1 << 24) - 1), 0, true),
            (5, 5, Some(1 << 30), 0, false),
            (5, 5, None, 0, false),
            (5, 9, None, 4, true),
            (5, 4, None, 0, true),
        ] {
            let expected = Advance { packets, may_be_more };
            assert_eq!(advance(before, now, most), expected, "{before} → {now}, at most {most:?}");
        }
    }

    /// The requester of READs sends few packets and takes the PSNs of all that it gets.
    #[test]
    fn a_port_that_reads_and_writes_may_take_as_many_psns_as_pass_both_ways() {
        assert_eq!(most(Some(50_000), Some(20_000_000)), Some(20_050_000));
        assert!(advance(5, 9, most(Some(9_000_000), Some(9_000_000))).may_be_more, "each way below 2^24");
        assert_eq!([most(None, Some(1)), most(Some(1), None)], [None, None]);
        assert!(advance(5, 9, most(Some(50_000), Some(20_000_000))).may_be_more);
    }
}
