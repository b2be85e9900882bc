//! DSCPs of each kind of packet, link by link.
//!
//! A flow knows the DSCP of its first packet and counts by kind; packets with another DSCP are in the
//! overflow table, by DSCP and kind. The two together are exact, unless that table was full.

use rocescope_common::abi::maps::DscpKind;

use crate::entity::{Extra, Stats};
use crate::util::map::Map;

/// Packets with one DSCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// Packets other than CNP and ACKNOWLEDGE.
    pub data_packets: u64,
    /// Bytes of their outer frames.
    pub data_bytes: u64,
    /// Number of ACKNOWLEDGE packets.
    pub ack_packets: u64,
    /// Number of CNPs.
    pub cnp_packets: u64,
}

/// RoCEv2 packets of one link by DSCP.
pub type ByDscp = [Marked; 64];

/// By index of the link. Two KiB for each.
pub type ByLink = Map<u16, Box<ByDscp>>;

/// Adds the packets of one flow.
pub fn add(link: &mut ByDscp, stats: &Stats, extra: Option<&Extra>) {
    let control: u64 = stats.ecn_control.iter().sum();
    let mut own = Marked {
        data_packets: stats.ecn_data.iter().sum(),
        data_bytes: stats.data_bytes,
        ack_packets: control.saturating_sub(stats.cnp_packets),
        cnp_packets: stats.cnp_packets.min(control),
    };
    for (value, counter) in extra.into_iter().flat_map(|extra| &extra.dscps) {
        let Some(other) = link.get_mut(usize::from(value & 63)) else { continue };
        let packets = counter.packets;
        let take = |own: &mut u64, other: &mut u64, count: u64| {
            *own = own.saturating_sub(count);
            *other += count;
        };
        match value >> 6 {
            DscpKind::CNP => take(&mut own.cnp_packets, &mut other.cnp_packets, packets),
            DscpKind::ACK => take(&mut own.ack_packets, &mut other.ack_packets, packets),
            _ => {
                take(&mut own.data_packets, &mut other.data_packets, packets);
                take(&mut own.data_bytes, &mut other.data_bytes, counter.bytes);
            }
        }
    }
    // A flow that began as RoCEv1 has all its RoCEv2 packets in the overflow table.
    if let Some(first) = link.get_mut(usize::from(stats.dscp)) {
        first.data_packets += own.data_packets;
        first.data_bytes += own.data_bytes;
        first.ack_packets += own.ack_packets;
        first.cnp_packets += own.cnp_packets;
    }
}

#[cfg(test)]
mod tests {
    use rocescope_common::abi::Counter;
    use rocescope_common::account::flow::DSCP_NONE;

    use super::*;

    #[test]
    fn each_packet_counts_under_its_dscp_and_kind() {
        let stats = Stats {
            dscp: 26,
            ecn_data: [1, 0, 8, 1],
            ecn_control: [4, 0, 2, 0],
            cnp_packets: 4,
            data_bytes: 1000,
            ..Stats::default()
        };
        let value = |kind: u16, dscp: u16| kind << 6 | dscp;
        let counter = |packets, bytes| Counter { packets, bytes };
        let dscps = vec![
            (value(DscpKind::CNP, 48), counter(4, 296)),
            (value(DscpKind::DATA, 0), counter(3, 300)),
            (value(DscpKind::ACK, 0), counter(1, 62)),
        ];
        let mut link = [Marked::default(); 64];
        add(&mut link, &stats, Some(&Extra { dscps: dscps.clone(), ..Extra::default() }));
        let all = |data_packets, data_bytes, ack_packets, cnp_packets| Marked {
            data_packets,
            data_bytes,
            ack_packets,
            cnp_packets,
        };
        assert_eq!((link[26], link[0], link[48]), (all(7, 700, 1, 0), all(3, 300, 1, 0), all(0, 0, 0, 4)));
        // What began as RoCEv1 has no DSCP of its own.
        let mut link = [Marked::default(); 64];
        let stats = Stats { dscp: DSCP_NONE, ecn_data: [0, 0, 3, 0], data_bytes: 300, ..Stats::default() };
        add(&mut link, &stats, Some(&Extra { dscps: dscps[1..2].to_vec(), ..Extra::default() }));
        assert_eq!(link[0], all(3, 300, 0, 0));
    }
}
