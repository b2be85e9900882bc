//! Which DSCP each kind of packet carries, link by link: flows know only that of their first packet.

use rocescope_common::wire::opcode::Op;

use super::packet::Packet;

/// Packets with one DSCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// Packets other than CNP and ACKNOWLEDGE.
    pub data_packets: u64,
    /// Bytes of their outer frames.
    pub data_bytes: u64,
    /// ACKNOWLEDGE packets.
    pub ack_packets: u64,
    /// Congestion notification packets.
    pub cnp_packets: u64,
}

/// RoCEv2 packets of one link by DSCP.
pub type ByDscp = [Marked; 64];

/// Counts by DSCP. Two KiB for each link.
#[derive(Clone, Debug, Default)]
pub struct Marking {
    links: Vec<ByDscp>,
}

impl Marking {
    /// Takes in one packet.
    #[inline]
    pub fn packet(&mut self, packet: &Packet) {
        let frame = &packet.frame;
        if frame.roce_version != 2 {
            return;
        }
        let link = usize::from(packet.link);
        if link >= self.links.len() {
            self.links.resize(link + 1, [Marked::default(); 64]);
        }
        let Some(marked) = self.links.get_mut(link).and_then(|l| l.get_mut(usize::from(frame.tos >> 2)))
        else {
            return;
        };
        let op = Op::of(frame.opcode);
        if op.has(Op::CNP) {
            marked.cnp_packets += 1;
        } else if op.has(Op::ACKNOWLEDGE) {
            marked.ack_packets += 1;
        } else {
            marked.data_packets += 1;
            marked.data_bytes += u64::from(frame.wire_len);
        }
    }

    /// The counts by link; links without RoCEv2 may be missing at the end.
    #[must_use]
    pub fn links(&self) -> &[ByDscp] {
        &self.links
    }
}
