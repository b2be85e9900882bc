//! Packet counts from the PSNs of a queue pair at two times.
//!
//! The kernel reports the next PSN to send and the next expected PSN of each queue pair. Their advance is a packet
//! count, unless they may have wrapped completely meanwhile.

use rocescope_common::account::psn::WINDOW;
use rocescope_common::wire::bth::{MASK24, psn_distance};

/// Number of PSNs.
const ROUND: u64 = MASK24 as u64 + 1;
/// A PSN that is lower by at most this is a retransmission, as defined in the report.
const BACK: u64 = WINDOW as u64;

/// Packets from PSN `before` to `now`: 0 for a retransmission. `most` is the largest possible number of packets, such
/// as the count of the whole port. `None` when the PSN may have wrapped completely, or `most` is unknown.
#[must_use]
pub fn advance(before: u32, now: u32, most: Option<u64>) -> Option<u64> {
    let added = u64::from(psn_distance(before, now));
    if added >= ROUND - BACK {
        return (most? < ROUND - BACK).then_some(0);
    }
    // Without room for one wrap there is none for two.
    (most? < ROUND).then_some(added)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advance_differs_from_a_step_back_and_from_a_wrap() {
        let end = (1 << 24) - 1;
        for (before, now, most, expected) in [
            (5, 9, Some(10), Some(4)),
            (9, 9, Some(10), Some(0)),
            (end, 3, Some(10), Some(4)),
            // Go-back-N: the sender restarts from an earlier PSN.
            (100, 90, Some(1000), Some(0)),
            (3, end, Some(1000), Some(0)),
            // The packet count allows a complete wrap, which looks like no packets.
            (5, 9, Some(1 << 24), None),
            (5, 4, Some((1 << 24) - 1), None),
            (5, 9, None, None),
            (5, 4, None, None),
        ] {
            assert_eq!(advance(before, now, most), expected, "{before} → {now}, at most {most:?}");
        }
    }
}
