//! Crafted capture files for cases without a public capture, each with its expected content.

use super::craft::{self, Captured, Roce, aeth, reth};

/// A crafted capture file.
#[derive(Debug)]
pub struct Case {
    /// Name of the file, which describes its content.
    pub name: &'static str,
    /// Its bytes.
    pub file: Vec<u8>,
    /// RoCE packets in it.
    pub packets: u64,
    /// Flows in it.
    pub flows: usize,
}

/// All cases.
pub fn all() -> Vec<Case> {
    [
        every_opcode_there_is(),
        congestion_notifications(),
        every_syndrome(),
        xrc_and_the_newer_operations(),
        sequence_numbers(),
        version_1_of_the_protocol(),
        source_ports_and_entropy(),
        tunnels_and_mirrors(),
        ipv6_extension_headers(),
        fragments_and_lying_lengths(),
        frames_cut_short(),
        settings_that_change(),
        raw_ip_and_frames_out_of_time_order(),
        cooked_captures(),
        several_interfaces_in_one_file(),
        datagrams_state_their_source(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn case(name: &'static str, file: Vec<u8>, packets: u64, flows: usize) -> Case {
    Case { name, file, packets, flows }
}

/// Packets in Ethernet, a millisecond apart, as a capture file.
fn in_ethernet(packets: &[Roce]) -> Vec<u8> {
    let frames = packets.iter().map(|packet| craft::ethernet(0x0800, &packet.ipv4())).collect();
    craft::pcap(1, &craft::in_sequence(frames))
}

fn file_of(frames: Vec<Vec<u8>>) -> Vec<u8> {
    craft::pcap(1, &craft::in_sequence(frames))
}

fn every_opcode_there_is() -> Vec<Case> {
    let all: Vec<_> = (0..=255)
        .map(|opcode| Roce { opcode, psn: 100, extended: aeth(0x1F), payload: 64, ..Roce::default() })
        .collect();
    vec![case("all.pcap", in_ethernet(&all), 256, 1)]
}

fn congestion_notifications() -> Vec<Case> {
    let data = |psn, class| Roce { opcode: 0x04, psn, class, payload: 1024, ..Roce::default() };
    let cnp = Roce { opcode: 0x81, class: 0xC2, src_port: 0, extended: vec![0; 16], ..Roce::default() };
    let marked_cnp = Roce { class: 0xC3, ..cnp.clone() };
    let ack = Roce { opcode: 0x11, class: 3, extended: aeth(0), ..Roce::default() };
    let packets = [data(1, 2), data(2, 3), cnp, data(3, 1), marked_cnp, ack, data(4, 2)];
    vec![case("cnp.pcap", in_ethernet(&packets), 7, 1)]
}

fn every_syndrome() -> Vec<Case> {
    let acks: Vec<_> = (0..=255)
        .map(|syndrome| Roce { opcode: 0x11, extended: aeth(syndrome), ..Roce::default() })
        .collect();
    vec![case("syndromes.pcap", in_ethernet(&acks), 256, 1)]
}

fn xrc_and_the_newer_operations() -> Vec<Case> {
    let header = |rest: Vec<u8>| [vec![0, 0, 0, 9], rest].concat();
    let packets = [
        Roce { opcode: 0xA6, psn: 1, extended: header(reth(2048)), payload: 1024, ..Roce::default() },
        Roce { opcode: 0xA8, psn: 2, extended: header(vec![]), payload: 1024, ..Roce::default() },
        Roce { opcode: 0xAC, psn: 3, extended: header(reth(4096)), ..Roce::default() },
        Roce { opcode: 0xA4, psn: 7, extended: header(vec![]), payload: 5, ..Roce::default() },
        Roce { opcode: 0xB1, psn: 7, extended: aeth(0x61), ..Roce::default() },
        Roce { opcode: 0xB0, psn: 3, extended: aeth(0x1F), payload: 77, ..Roce::default() },
        Roce { opcode: 0x1C, psn: 8, extended: [vec![0; 4], reth(64)].concat(), ..Roce::default() },
        Roce { opcode: 0x1D, psn: 9, extended: reth(8), payload: 8, ..Roce::default() },
        Roce { opcode: 0x16, psn: 10, extended: vec![0; 4], payload: 3, ..Roce::default() },
        Roce { opcode: 0x13, psn: 11, extended: vec![0; 28], ..Roce::default() },
        Roce { opcode: 0x12, psn: 11, extended: [aeth(0x1F), vec![0; 8]].concat(), ..Roce::default() },
    ];
    vec![case("xrc.pcap", in_ethernet(&packets), 11, 1)]
}

fn sequence_numbers() -> Vec<Case> {
    let send = |psn| Roce { psn, payload: 8, ..Roce::default() };
    let read = |psn, length| Roce { opcode: 0x0C, psn, extended: reth(length), ..Roce::default() };
    let first = |psn, payload| Roce { opcode: 0x00, psn, payload, ..Roce::default() };
    let list = |psns: &[u32]| in_ethernet(&psns.iter().map(|psn| send(*psn)).collect::<Vec<_>>());
    let unknown_mtu =
        [read(10, 10_000), send(11), read(12, 10_000), send(52), read(53, 1000), send(57), send(60)];
    let known_mtu =
        [first(9, 1024), read(10, 10_000), send(20), read(21, 0), send(22), send(25), read(21, 0)];
    let after_gap = [read(10, 1000), read(10, 1000), send(20), send(13)];
    let mtu_changes = [first(0, 256), read(1, 1024), send(5), first(6, 4096), read(7, 4097), send(9)];
    let mut wide: Vec<_> = vec![read(5, 1 << 31)];
    wide.extend([6, 65_000, 200_000, 5].map(send));
    vec![
        case("wrap.pcap", list(&[0xFF_FFFE, 0xFF_FFFF, 0, 1, 0xFF_FFFF, 2]), 6, 1),
        case("gaps.pcap", list(&[5, 6, 9, 7, 8, 10, 10 + 65_536, 20, 0x80_0000, 3]), 10, 1),
        case("edges.pcap", list(&[70_000, 70_001 + 65_535, 70_000, 70_001 + 65_535 - 65_535]), 4, 1),
        case("unknown_mtu.pcap", in_ethernet(&unknown_mtu), 7, 1),
        case("known_mtu.pcap", in_ethernet(&known_mtu), 7, 1),
        case("after_gap.pcap", in_ethernet(&after_gap), 4, 1),
        case("mtu_changes.pcap", in_ethernet(&mtu_changes), 6, 1),
        case("wide.pcap", in_ethernet(&wide), 5, 1),
    ]
}

fn version_1_of_the_protocol() -> Vec<Case> {
    let packets = [
        Roce { opcode: 0x0A, psn: 5, extended: reth(5), payload: 5, ..Roce::default() },
        Roce { opcode: 0x0A, psn: 6, class: 3, extended: reth(9), payload: 9, ..Roce::default() },
        Roce { opcode: 0x11, psn: 6, extended: aeth(0), ends: (2, 1), ..Roce::default() },
    ];
    let first = |packet: &Roce| craft::ethernet(0x8915, &packet.grh());
    let second = |packet: &Roce| craft::ethernet(0x86DD, &packet.ipv6());
    // A GID may be an IPv6 address: then both versions are the same flow.
    let both = vec![second(&packets[0]), first(&packets[1]), second(&packets[1])];
    vec![
        case("v1.pcap", file_of(packets.iter().map(first).collect()), 3, 2),
        case("both.pcap", file_of(both), 3, 1),
    ]
}

fn source_ports_and_entropy() -> Vec<Case> {
    let packet = |index: u32, src_port| Roce { src_port, psn: index, payload: 100, ..Roce::default() };
    // As destinations, 69 is TFTP and 4789 VXLAN; as source ports they have no meaning.
    let mut packets = vec![packet(0, 69), packet(1, 4789), packet(2, 4791), packet(3, 0)];
    packets.extend(
        (4..).zip(50_000..50_020).flat_map(|(psn, port)| [packet(psn, port), packet(psn + 20, port)]),
    );
    vec![case("ports.pcap", in_ethernet(&packets), 44, 1)]
}

type Wrap = dyn Fn(&[u8], &[u8]) -> Vec<u8>;

fn tunnels_and_mirrors() -> Vec<Case> {
    const VXLAN: [u8; 8] = [8, 0, 0, 0, 0, 0, 42, 0];
    const ERSPAN2: [u8; 16] = [0x10, 0, 0x88, 0xBE, 0, 0, 0, 9, 0x10, 0x64, 0, 1, 0, 0, 0, 2];
    // Both the packet and its Ethernet frame are passed to be wrapped.
    let around = |name, wrap: &Wrap| {
        let frame = |psn| {
            let packet = Roce { psn, class: 2, payload: 256, ..Roce::default() }.ipv4();
            wrap(&packet, &craft::ethernet(0x0800, &packet))
        };
        case(name, file_of((0..3).map(frame).collect()), 3, 1)
    };
    vec![
        around("vxlan.pcap", &|_, frame| craft::tunnelled(4789, &VXLAN, frame)),
        around("vxlan_vlan.pcap", &|_, frame| {
            craft::tagged(0x8100, 3, 99, &craft::tunnelled(4789, &VXLAN, &craft::tagged(0x8100, 5, 7, frame)))
        }),
        around("geneve.pcap", &|_, frame| {
            craft::tunnelled(6081, &[1, 0, 0x65, 0x58, 0, 0, 42, 0, 0, 1, 2, 0], frame)
        }),
        around("gre_ip.pcap", &|packet, _| craft::carried(47, &[0, 0, 8, 0], packet)),
        around("gre_key.pcap", &|packet, _| {
            craft::carried(47, &[0x30, 0, 8, 0, 0, 0, 0, 1, 0, 0, 0, 2], packet)
        }),
        around("gre_ethernet.pcap", &|_, frame| craft::carried(47, &[0, 0, 0x65, 0x58], frame)),
        around("erspan1.pcap", &|_, frame| craft::carried(47, &[0, 0, 0x88, 0xBE], frame)),
        around("erspan2.pcap", &|_, frame| craft::carried(47, &ERSPAN2, frame)),
        around("erspan3.pcap", &|_, frame| {
            let header = [0x10, 0, 0x22, 0xEB, 0, 0, 0, 9, 0x20, 0x64, 0, 1, 0, 0, 0, 2, 0, 0, 0x80, 0];
            craft::carried(47, &header, frame)
        }),
        around("erspan2_vxlan.pcap", &|_, frame| {
            craft::carried(47, &ERSPAN2, &craft::tunnelled(4789, &VXLAN, frame))
        }),
        around("ipip.pcap", &|packet, _| craft::carried(4, &[], packet)),
        around("mpls.pcap", &|packet, _| {
            craft::ethernet(0x8847, &[&[0, 0x10, 0, 64, 0, 0x20, 1, 64], packet].concat())
        }),
        around("qinq.pcap", &|_, frame| craft::tagged(0x88A8, 4, 20, &craft::tagged(0x8100, 2, 10, frame))),
        around("ip6_in_ip4.pcap", &|_, _| {
            craft::carried(41, &[], &Roce { payload: 256, class: 0x0B, ..Roce::default() }.ipv6())
        }),
    ]
}

fn ipv6_extension_headers() -> Vec<Case> {
    let plain = Roce { payload: 64, class: 0x8B, ..Roce::default() }.ipv6();
    let with = |first: u8, header: &[u8]| {
        let mut packet = plain.clone();
        let length = plain.len() - 40 + header.len();
        packet[4..6].copy_from_slice(&(length as u16).to_be_bytes());
        packet[6] = first;
        packet.splice(40..40, header.iter().copied());
        craft::ethernet(0x86DD, &packet)
    };
    let options = |next| [next, 0, 1, 4, 0, 0, 0, 0];
    let frames = vec![
        with(0, &options(17)),
        with(60, &options(17)),
        with(0, &[options(60), options(17)].concat()),
        with(44, &[17, 0, 0, 0, 0, 0, 0, 9]),
        craft::ethernet(0x86DD, &plain),
    ];
    vec![case("extensions.pcap", file_of(frames), 5, 1)]
}

fn fragments_and_lying_lengths() -> Vec<Case> {
    let whole = Roce { opcode: 0x0A, extended: reth(64), payload: 64, ..Roce::default() }.ipv4();
    let changed = |change: fn(&mut Vec<u8>)| {
        let mut packet = whole.clone();
        change(&mut packet);
        craft::ethernet(0x0800, &packet)
    };
    let frames = vec![
        craft::ethernet(0x0800, &whole),
        // More fragments follow: the UDP length covers all of them.
        changed(|p| {
            p[6] = 0x20;
            p[25] = 200;
        }),
        // A later fragment that happens to look like the first.
        changed(|p| p[7] = 9),
        // The UDP length exceeds the IP length.
        changed(|p| p[25] = 200),
        // The UDP length leaves no room for BTH, RETH and ICRC.
        changed(|p| {
            p[24] = 0;
            p[25] = 30;
        }),
    ];
    vec![case("lengths.pcap", file_of(frames), 4, 1)]
}

fn frames_cut_short() -> Vec<Case> {
    let packets = [
        craft::ethernet(0x0800, &Roce { opcode: 0x0C, extended: reth(70_000), ..Roce::default() }.ipv4()),
        craft::ethernet(0x0800, &Roce { opcode: 0x11, extended: aeth(0x60), ..Roce::default() }.ipv4()),
        craft::ethernet(0x0800, &Roce { opcode: 0xAC, extended: vec![1; 20], ..Roce::default() }.ipv4()),
    ];
    let mut frames = Vec::new();
    for frame in &packets {
        // Offset 34 is the end of the IPv4 header, 42 that of UDP, 54 that of the BTH.
        for kept in [36, 38, 42, 45, 53, 54, 55, 57, 58, 69, 70, frame.len()] {
            let number = frames.len() as u64;
            frames.push(Captured {
                time_ns: 1_700_000_000_000_000_000 + number,
                frame: frame.clone(),
                kept: kept.min(frame.len()),
                interface: 0,
            });
        }
    }
    vec![case("cut.pcap", craft::pcap(1, &frames), 21, 1)]
}

fn settings_that_change() -> Vec<Case> {
    let packet = |psn, class| craft::ethernet(0x0800, &Roce { psn, class, ..Roce::default() }.ipv4());
    let frames = vec![
        packet(0, 0x68),
        packet(1, 0x6A),
        craft::tagged(0x8100, 3, 100, &packet(2, 0x68)),
        craft::tagged(0x8100, 4, 100, &packet(3, 0x00)),
    ];
    let tagged_first = frames.iter().rev().cloned().collect();
    let tunnelled = vec![packet(0, 0), craft::tunnelled(4789, &[8, 0, 0, 0, 0, 0, 42, 0], &packet(1, 0))];
    vec![
        case("mixed.pcap", file_of(frames), 4, 1),
        case("mixed_back.pcap", file_of(tagged_first), 4, 1),
        case("mixed_tunnel.pcap", file_of(tunnelled), 2, 1),
    ]
}

fn raw_ip_and_frames_out_of_time_order() -> Vec<Case> {
    let raw = vec![Roce::default().ipv4(), Roce { psn: 1, ..Roce::default() }.ipv6()];
    let mut frames = craft::in_sequence(vec![craft::ethernet(0x0800, &Roce::default().ipv4()); 3]);
    frames[1].time_ns -= 5_000_000;
    vec![
        case("raw.pcap", craft::pcap(101, &craft::in_sequence(raw)), 2, 2),
        case("times.pcap", craft::pcap(1, &frames), 3, 1),
        case("empty.pcap", craft::pcap(1, &[]), 0, 0),
    ]
}

fn cooked_captures() -> Vec<Case> {
    // The same packets leave one interface and arrive at another.
    let frames = (0..6).map(|number| {
        let packet = Roce { psn: number / 2, payload: 32, ..Roce::default() }.ipv4();
        craft::cooked(number % 2 == 0, 0x0800, &packet)
    });
    vec![case("cooked.pcap", craft::pcap(113, &craft::in_sequence(frames.collect())), 6, 2)]
}

fn several_interfaces_in_one_file() -> Vec<Case> {
    let frames: Vec<_> = (0..8).map(|psn| Roce { psn, payload: 32, ..Roce::default() }.ipv4()).collect();
    let mut frames =
        craft::in_sequence(frames.iter().map(|packet| craft::ethernet(0x0800, packet)).collect());
    for (number, frame) in (0..).zip(&mut frames) {
        frame.interface = number % 2;
    }
    vec![case("two.pcapng", craft::pcapng(&["eth0", "eth1"], &frames).finish(), 8, 2)]
}

fn datagrams_state_their_source() -> Vec<Case> {
    let datagram = |psn, source: u8| Roce {
        opcode: 0x64,
        psn,
        extended: vec![0x11, 0x11, 0x11, 0x11, 0, 0, 0, source],
        payload: 40,
        ..Roce::default()
    };
    let one = in_ethernet(&[datagram(1, 0x22), datagram(9, 0x22)]);
    let two = in_ethernet(&[datagram(1, 0x22), datagram(2, 0x23)]);
    vec![case("one.pcap", one, 2, 1), case("two.pcap", two, 2, 1)]
}
