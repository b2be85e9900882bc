//! The frames that costs are measured with.

use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::PacketBuilder;
use rocescope_common::wire::frame::ECT0;

use crate::source::demo::craft::{Addresses, Operation, Packet, Route, Syndrome, Vlan, roce};

/// Path MTU of the frames. Programs read headers only, so that the cost does not depend on it.
const PAYLOAD: [u8; 1024] = [0xA5; 1024];
const SRC_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 1];
const DST_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 2];
const SRC: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const DST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// Headers in front of the BTH.
pub(super) const IPV4_BTH: u16 = 14 + 20 + 8;
/// Offset of the BTH behind Ethernet, IPv6 and UDP.
pub(super) const IPV6_BTH: u16 = 14 + 40 + 8;
/// With one VLAN tag.
pub(super) const VLAN_BTH: u16 = IPV4_BTH + 4;
/// Offset of the BTH of a frame inside VXLAN.
pub(super) const VXLAN_BTH: u16 = 14 + 20 + 8 + 8 + IPV4_BTH;
/// Inside ERSPAN type II.
pub(super) const ERSPAN_BTH: u16 = 14 + 20 + 8 + 8 + IPV4_BTH;

/// GRE with a sequence number, ERSPAN type II inside.
const GRE: [u8; 8] = [0x10, 0x00, 0x88, 0xBE, 0, 0, 0, 1];
/// ERSPAN version 1 (type II), session 1.
const ERSPAN: [u8; 8] = [0x10, 0x01, 0x00, 0x01, 0, 0, 0, 0];
const VXLAN: [u8; 8] = [0x08, 0, 0, 0, 0, 0, 42, 0];
const VXLAN_PORT: u16 = 4789;
const IP_PROTOCOL_GRE: u8 = 47;

fn v4() -> Route {
    Route {
        src_mac: SRC_MAC,
        dst_mac: DST_MAC,
        vlan: None,
        addresses: Addresses::V4(SRC, DST),
        src_port: 49_152,
        hop_limit: 64,
    }
}

fn v6() -> Route {
    let address = |last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last);
    Route { addresses: Addresses::V6(address(1), address(2)), ..v4() }
}

fn frame(route: &Route, dest_qp: u32, operation: Operation, payload: &[u8]) -> Vec<u8> {
    roce(&Packet { route, tos: ECT0, identification: 0, dest_qp, psn: 0, ack_req: false, operation, payload })
}

/// The middle of an RDMA WRITE over IPv4.
pub(super) fn write(dest_qp: u32) -> Vec<u8> {
    frame(&v4(), dest_qp, Operation::WriteMiddle, &PAYLOAD)
}

/// The end of an RDMA WRITE, with an acknowledgement to come. Its payload would be that of an
/// acknowledgement, if it were one.
pub(super) fn write_last(dest_qp: u32) -> Vec<u8> {
    let route = v4();
    roce(&Packet {
        route: &route,
        tos: ECT0,
        identification: 0,
        dest_qp,
        psn: 0,
        ack_req: true,
        operation: Operation::WriteLast,
        payload: &[0; 1024],
    })
}

/// The middle of an RDMA WRITE over IPv6.
pub(super) fn write_v6() -> Vec<u8> {
    frame(&v6(), 0x11, Operation::WriteMiddle, &PAYLOAD)
}

/// The same with an 802.1Q tag in the frame.
pub(super) fn write_vlan() -> Vec<u8> {
    let route = Route { vlan: Some(Vlan { id: 100, pcp: 3 }), ..v4() };
    frame(&route, 0x12, Operation::WriteMiddle, &PAYLOAD)
}

/// An acknowledgement.
pub(super) fn ack() -> Vec<u8> {
    frame(&v4(), 0x13, Operation::Acknowledge(Syndrome::Ack, 1), &[])
}

/// A negative acknowledgement: PSN sequence error.
pub(super) fn nak() -> Vec<u8> {
    frame(&v4(), 0x14, Operation::Acknowledge(Syndrome::Nak(0), 1), &[])
}

/// A congestion notification packet.
pub(super) fn cnp() -> Vec<u8> {
    frame(&v4(), 0x15, Operation::Cnp, &[])
}

/// The middle of a WRITE inside VXLAN.
pub(super) fn write_vxlan() -> Vec<u8> {
    let inside = [VXLAN.as_slice(), &write(0x16)].concat();
    built(outer().udp(49_153, VXLAN_PORT), &inside)
}

/// The middle of a WRITE as a switch mirrors it.
pub(super) fn write_erspan() -> Vec<u8> {
    let inside = [GRE.as_slice(), &ERSPAN, &write(0x17)].concat();
    let mut out = Vec::new();
    // Writing to memory fails only for packets longer than IP can say.
    let _ = outer().write(&mut out, IP_PROTOCOL_GRE.into(), &inside);
    out
}

/// A TCP segment.
pub(super) fn tcp() -> Vec<u8> {
    built(outer().tcp(443, 50_000, 1, 1024), &PAYLOAD)
}

/// The same over IPv6.
pub(super) fn tcp_v6() -> Vec<u8> {
    let address = |last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last).octets();
    let step = PacketBuilder::ethernet2(SRC_MAC, DST_MAC).ipv6(address(1), address(2), 64);
    built(step.tcp(443, 50_000, 1, 1024), &PAYLOAD)
}

/// The same over IPv4 with an 802.1Q tag in the frame.
pub(super) fn tcp_vlan() -> Vec<u8> {
    let mut frame = tcp();
    // Behind the addresses: VLAN 100, priority 3.
    frame.splice(12..12, [0x81, 0x00, 0x60, 100]);
    frame
}

/// UDP that is neither RoCE nor a tunnel.
pub(super) fn udp() -> Vec<u8> {
    built(outer().udp(50_000, 443), &PAYLOAD)
}

/// An ARP request.
pub(super) fn arp() -> Vec<u8> {
    let mut out = [DST_MAC, SRC_MAC].concat();
    out.extend([0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1]);
    out.extend(SRC_MAC);
    out.extend(SRC.octets());
    out.extend([0; 6]);
    out.extend(DST.octets());
    out.resize(60, 0);
    out
}

fn outer() -> etherparse::PacketBuilderStep<etherparse::IpHeaders> {
    PacketBuilder::ethernet2(SRC_MAC, DST_MAC).ipv4([10, 1, 0, 1], [10, 1, 0, 2], 64)
}

/// A packet builder's last step.
trait Build {
    fn put(self, out: &mut Vec<u8>, payload: &[u8]);
}

impl Build for etherparse::PacketBuilderStep<etherparse::UdpHeader> {
    fn put(self, out: &mut Vec<u8>, payload: &[u8]) {
        // Writing to memory fails only for packets longer than IP can say.
        let _ = self.write(out, payload);
    }
}

impl Build for etherparse::PacketBuilderStep<etherparse::TcpHeader> {
    fn put(self, out: &mut Vec<u8>, payload: &[u8]) {
        // As above.
        let _ = self.write(out, payload);
    }
}

fn built(step: impl Build, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    step.put(&mut out, payload);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocescope_common::wire::frame::{Encap, Kernel, Tag};
    use rocescope_common::wire::{Entry, Frame, Meta, SkipReason, parse};

    fn parsed(frame: &[u8]) -> Result<Frame, SkipReason> {
        let wire_len = u32::try_from(frame.len()).unwrap();
        let meta = Meta { entry: Entry::ETHERNET, offset: 0, wire_len, tag: Tag::NONE };
        parse::<Kernel>(&frame, meta, &mut ())
    }

    #[test]
    fn each_frame_is_what_its_case_says() {
        let plain = parsed(&write(9)).unwrap();
        assert_eq!((plain.bth_offset, plain.dest_qp, plain.payload), (u32::from(IPV4_BTH), 9, 1024));
        let six = parsed(&write_v6()).unwrap();
        assert_eq!((six.bth_offset, six.family), (u32::from(IPV6_BTH), 6));
        let tagged = parsed(&write_vlan()).unwrap();
        assert_eq!((tagged.bth_offset, tagged.vlan), (u32::from(VLAN_BTH), 100));
        let vxlan = parsed(&write_vxlan()).unwrap();
        assert_eq!((vxlan.bth_offset, vxlan.encap), (u32::from(VXLAN_BTH), Encap::Vxlan as u32));
        let mirrored = parsed(&write_erspan()).unwrap();
        assert_eq!((mirrored.bth_offset, mirrored.encap), (u32::from(ERSPAN_BTH), Encap::Erspan2 as u32));
        assert_eq!(parsed(&ack()).unwrap().aeth >> 29, 0);
        assert_eq!(parsed(&nak()).unwrap().aeth >> 29, 3);
        assert_eq!(parsed(&cnp()).unwrap().opcode, 0x81);
        for frame in [tcp(), tcp_v6(), tcp_vlan()] {
            assert_eq!(parsed(&frame), Err(SkipReason::Tcp));
        }
        assert_eq!((tcp_v6()[12], tcp_vlan()[12]), (0x86, 0x81));
        assert_eq!(parsed(&udp()), Err(SkipReason::OtherUdp));
        assert_eq!(parsed(&arp()), Err(SkipReason::Arp));
    }
}
