//! Packet counts from the PSNs of a queue pair at two times.
//!
//! The kernel reports the next PSN to send and the next expected PSN of each queue pair. Their advance is a packet
//! count, unless they may have wrapped completely meanwhile: then it is the least possible one. Which of the two it is
//! the packets of the port decide, counted from before the earlier reading until after the later one.

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
    /// Smallest number of packets of a queue pair with which its PSN would have wrapped completely, so that there would
    /// be more. `None`: it has not moved.
    pub wraps_from: Option<u64>,
}

impl Advance {
    /// Of an interval of which nothing is known.
    pub const UNKNOWN: Self = Self { packets: 0, wraps_from: Some(0) };

    /// Packets from PSN `before` to `now`: 0 for a retransmission. A PSN that is the same has not moved: after a wrap
    /// it is another one, by all probability.
    pub fn of(before: u32, now: u32) -> Self {
        let added = u64::from(psn_distance(before, now));
        // Without room for one wrap there is none for two.
        let (packets, wraps_from) = if added >= ROUND - BACK { (0, ROUND - BACK) } else { (added, ROUND) };
        Self { packets, wraps_from: (added > 0).then_some(wraps_from) }
    }
}

/// Packets that a port has sent and received; `None` if not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortPackets {
    /// RoCE packets sent.
    pub sent: Option<u64>,
    /// RoCE packets received.
    pub received: Option<u64>,
}

impl PortPackets {
    /// The most PSNs of requests that a queue pair takes while its port counts from `before` to these. A WRITE or SEND
    /// takes one for each packet on its way; a READ takes those of the responses, which come the other way. One that
    /// does both at once takes as many as pass in both directions. `None`: not counted, or reset.
    fn most_since(self, before: Self) -> Option<u64> {
        let since = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
        Some(since(self.sent, before.sent)?.saturating_add(since(self.received, before.received)?))
    }
}

/// Readings of a queue pair since the latest reading of its port's counters: what passes in the meantime is not counted
/// yet, so whether its PSN may have wrapped is open. Their packets are counted once that is decided, so that no count
/// looks exact before.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenReadings {
    readings: u64,
    /// Packets sent and received, at least.
    packets: [u64; 2],
    /// Of all of them.
    wraps_from: u64,
    /// Counted before the first of them and the one before that.
    before: PortPackets,
}

/// Readings that the counters of the port have decided about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecidedReadings {
    /// Packets sent and received, at least.
    pub packets: [u64; 2],
    /// Number of readings before which the PSN may have wrapped: there may have been more.
    pub ambiguous: u64,
}

impl OpenReadings {
    /// Adds a reading, with the advance of its PSNs, sent and received. `before` was counted before the reading that
    /// came before it.
    pub fn add(&mut self, advances: [Advance; 2], before: PortPackets) {
        let Some(wraps_from) = advances.iter().filter_map(|advance| advance.wraps_from).min() else { return };
        if self.readings == 0 {
            (self.wraps_from, self.before) = (wraps_from, before);
        }
        self.readings += 1;
        self.wraps_from = self.wraps_from.min(wraps_from);
        for (sum, advance) in self.packets.iter_mut().zip(advances) {
            *sum = sum.saturating_add(advance.packets);
        }
    }

    /// Decides about them by what the port has counted after them. `None`: in none of them a PSN has moved.
    pub fn settle(&mut self, counted: PortPackets) -> Option<DecidedReadings> {
        let open = std::mem::take(self);
        let most = counted.most_since(open.before);
        let ambiguous = if most.is_none_or(|most| most >= open.wraps_from) { open.readings } else { 0 };
        (open.readings > 0).then_some(DecidedReadings { packets: open.packets, ambiguous })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// True if a PSN that moves like this may have wrapped where the port counts that many packets.
    fn may_wrap(before: u32, now: u32, most: Option<u64>) -> bool {
        let mut open = OpenReadings::default();
        let advances = [Advance::of(before, now), Advance::default()];
        open.add(advances, PortPackets { sent: Some(7), received: Some(9) });
        let decided = open.settle(PortPackets { sent: most.map(|most| most + 7), received: Some(9) });
        decided.is_some_and(|decided| decided.ambiguous > 0)
    }

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
            (5, 9, Some((1 << 24) - 1), 4, false),
            (5, 9, Some(1 << 24), 4, true),
            (5, 4, Some((1 << 24) - 1), 0, true),
            (5, 5, Some(1 << 30), 0, false),
            (5, 5, None, 0, false),
            (5, 9, None, 4, true),
            (5, 4, None, 0, true),
        ] {
            let found = (Advance::of(before, now).packets, may_wrap(before, now, most));
            assert_eq!(found, (packets, may_be_more), "{before} → {now}, at most {most:?}");
        }
    }

    /// The requester of READs sends few packets and takes the PSNs of all that it gets.
    #[test]
    fn a_port_that_reads_and_writes_may_take_as_many_psns_as_pass_both_ways() {
        let port = |sent: Option<u64>, received: Option<u64>| PortPackets { sent, received };
        let most = |sent, received| port(sent, received).most_since(port(Some(0), Some(0)));
        assert_eq!(most(Some(50_000), Some(20_000_000)), Some(20_050_000));
        assert_eq!([most(None, Some(1)), most(Some(1), None)], [None, None]);
        let reset = port(Some(5), Some(5)).most_since(port(Some(6), Some(5)));
        assert_eq!(reset, None);
        for (sent, received, expected) in [(9_000_000, 9_000_000, 1), (50_000, 50_000, 0)] {
            let mut open = OpenReadings::default();
            open.add([Advance::of(5, 9), Advance::default()], port(Some(0), Some(0)));
            let ambiguous = open.settle(port(Some(sent), Some(received))).map(|decided| decided.ambiguous);
            assert_eq!(ambiguous, Some(expected), "{sent} and {received}");
        }
    }

    #[test]
    fn readings_stay_open_until_the_port_is_counted_and_are_settled_once() {
        let port = |sent: u64| PortPackets { sent: Some(sent), received: Some(0) };
        let decided =
            |sent, received, ambiguous| Some(DecidedReadings { packets: [sent, received], ambiguous });
        let mut open = OpenReadings::default();
        assert_eq!(open.settle(PortPackets::default()), None, "nothing is open");
        open.add([Advance::of(5, 9), Advance::of(7, 7)], port(100));
        open.add([Advance::of(9, 9), Advance::of(7, 7)], port(100));
        open.add([Advance::of(9, 12), Advance::of(7, 8)], port(200));
        let mut both = open;
        assert_eq!(open.settle(port(99 + (1 << 24))), decided(7, 1, 0));
        // Since before the first of them.
        assert_eq!(both.settle(port(100 + (1 << 24))), decided(7, 1, 2));
        assert_eq!(open.settle(port(1 << 30)), None, "once");
        open.add([Advance::UNKNOWN; 2], port(100));
        assert_eq!(open.settle(port(100)), decided(0, 0, 1));
    }
}
