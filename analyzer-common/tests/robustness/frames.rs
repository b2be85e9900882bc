//! Frames built by hand, byte by byte, without the parser under test.

/// A frame and the type of its first header.
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    /// True if the parser of the kernel programs decodes it too.
    pub(crate) kernel: bool,
}

fn bth(opcode: u8, dest_qp: u32, psn: u32) -> Vec<u8> {
    let mut b = vec![opcode, 0, 0xFF, 0xFF, 0];
    b.extend(&dest_qp.to_be_bytes()[1..]);
    b.push(0x80);
    b.extend(&psn.to_be_bytes()[1..]);
    b
}

/// The extended headers that the specification defines for these opcodes.
fn extended(opcode: u8) -> Vec<u8> {
    match opcode {
        // RC WRITE FIRST and WRITE ONLY, READ REQUEST: RETH.
        0x06 | 0x0A | 0x0C => [vec![0x11; 8], vec![0x22; 4], 9000u32.to_be_bytes().to_vec()].concat(),
        // RC READ RESPONSE ONLY, ACKNOWLEDGE (here a NAK): AETH.
        0x10 => vec![0x1F, 0, 0, 7],
        0x11 => vec![0x60, 0, 0, 7],
        // UD SEND ONLY: DETH.
        0x64 => [0x8001_0000u32.to_be_bytes(), 0x0000_0123u32.to_be_bytes()].concat(),
        // CNP: 16 reserved bytes.
        0x81 => vec![0; 16],
        _ => Vec::new(),
    }
}

/// From the BTH to the ICRC.
fn transport(opcode: u8, dest_qp: u32, payload: usize) -> Vec<u8> {
    let payload = if matches!(opcode, 0x11 | 0x81) { 0 } else { payload };
    [bth(opcode, dest_qp, 0x00AB_CDEF), extended(opcode), vec![0xA5; payload], vec![0xC3; 4]].concat()
}

fn udp(source: u16, dest: u16, inside: &[u8]) -> Vec<u8> {
    let len = (8 + inside.len()) as u16;
    [&source.to_be_bytes()[..], &dest.to_be_bytes(), &len.to_be_bytes(), &[0, 0], inside].concat()
}

fn ipv4(protocol: u8, tos: u8, options: usize, inside: &[u8]) -> Vec<u8> {
    let header = 20 + options;
    let len = ((header + inside.len()) as u16).to_be_bytes();
    let mut h = vec![0x40 | (header / 4) as u8, tos, len[0], len[1], 0, 1, 0x40, 0, 64, protocol, 0, 0];
    h.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    h.extend(vec![1; options]);
    h.extend(inside);
    h
}

fn ipv6(next: u8, class: u8, inside: &[u8]) -> Vec<u8> {
    let len = (inside.len() as u16).to_be_bytes();
    let mut h = vec![0x60 | class >> 4, class << 4, 0, 0, len[0], len[1], next, 64];
    h.extend([0xFD; 15]);
    h.push(1);
    h.extend([0xFD; 15]);
    h.push(2);
    h.extend(inside);
    h
}

fn ethernet(tags: &[(u16, u16)], ethertype: u16, inside: &[u8]) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    for (tpid, tci) in tags {
        f.extend(tpid.to_be_bytes());
        f.extend(tci.to_be_bytes());
    }
    f.extend(ethertype.to_be_bytes());
    f.extend(inside);
    f
}

fn plain(opcode: u8) -> Vec<u8> {
    ethernet(&[], 0x0800, &ipv4(17, 0x6A, 0, &udp(49_200, 4791, &transport(opcode, 0x11, 64))))
}

fn gre(protocol: u16, flags: u16, fields: &[u8], inside: &[u8]) -> Vec<u8> {
    let header = [flags.to_be_bytes(), protocol.to_be_bytes()].concat();
    ethernet(&[], 0x0800, &ipv4(47, 0, 0, &[&header, fields, inside].concat()))
}

fn in_udp(port: u16, header: &[u8], inside: &[u8]) -> Vec<u8> {
    ethernet(&[], 0x0800, &ipv4(17, 0, 0, &udp(50_000, port, &[header, inside].concat())))
}

const VXLAN: [u8; 8] = [0x08, 0, 0, 0, 0, 0, 1, 0];

fn tunnels() -> Vec<Sample> {
    let inner = plain(0x0A);
    let inner_ip = inner[14..].to_vec();
    let vxlan = in_udp(4789, &VXLAN, &inner);
    let erspan3 = [0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9];
    let nsh = [0x0C, 0, 0, 4, 0, 0, 1, 0, 0x0F, 0xC6, 1, 1, 0, 0, 0, 0];
    let nsh = [&nsh[..], &[7; 16]].concat();
    [
        ("vxlan", true, vxlan.clone()),
        ("vxlan in vxlan", false, in_udp(4789, &VXLAN, &vxlan)),
        ("vxlan-gpe", false, in_udp(4790, &[0x0C, 0, 0, 1, 0, 0, 1, 0], &inner_ip)),
        ("nsh", false, in_udp(4790, &nsh, &inner_ip)),
        ("geneve", false, in_udp(6081, &[2, 0, 0x65, 0x58, 0, 0, 1, 0, 8, 8, 8, 8, 8, 8, 8, 8], &inner)),
        ("mpls in udp", false, in_udp(6635, &[0, 1, 0x01, 64], &inner_ip)),
        ("mpls", false, ethernet(&[], 0x8847, &[&[0, 1, 0, 64, 0, 2, 1, 64][..], &inner_ip].concat())),
        ("pseudowire", false, ethernet(&[], 0x8847, &[&[0, 1, 1, 64, 0, 0, 0, 0][..], &inner].concat())),
        ("gre, key", true, gre(0x6558, 0x2000, &[1; 4], &inner)),
        ("gre, ip", true, gre(0x0800, 0xB000, &[1; 12], &inner_ip)),
        ("erspan 1", true, gre(0x88BE, 0, &[], &inner)),
        ("erspan 2", true, gre(0x88BE, 0x1000, &[0, 0, 0, 9, 0x10, 1, 0, 0, 0, 0, 0, 0], &inner)),
        ("erspan 3", true, gre(0x22EB, 0x1000, &[&[0, 0, 0, 9][..], &erspan3].concat(), &inner)),
        ("ip in ip", true, ethernet(&[], 0x0800, &ipv4(4, 0, 0, &inner_ip))),
        ("ip in ipv6", true, ethernet(&[], 0x86DD, &ipv6(4, 0, &inner_ip))),
    ]
    .map(|(name, kernel, bytes)| Sample { name, bytes, kernel })
    .into()
}

/// RoCE frames, all of which start with an Ethernet header.
pub(crate) fn roce() -> Vec<Sample> {
    let write = transport(0x0A, 0x11, 33);
    let over_udp = udp(49_200, 4791, &write);
    let extensions =
        [vec![43, 0, 1, 4, 0, 0, 0, 0], vec![60, 1], vec![0; 14], vec![17, 0], vec![1; 6]].concat();
    let v6_extended = ipv6(0, 0x6B, &[&extensions[..], &over_udp].concat());
    let grh = {
        let mut h = ipv6(0x1B, 0, &write);
        h[7] = 1;
        h
    };
    let mut all: Vec<Sample> = [
        ("vlan", ethernet(&[(0x8100, 0x6064)], 0x0800, &ipv4(17, 3, 0, &over_udp))),
        ("two tags", ethernet(&[(0x88A8, 0x2064), (0x8100, 7)], 0x86DD, &ipv6(17, 0x6A, &over_udp))),
        ("ipv4 options", ethernet(&[], 0x0800, &ipv4(17, 0x6A, 40, &over_udp))),
        ("ipv6", ethernet(&[], 0x86DD, &ipv6(17, 0x6A, &over_udp))),
        ("ipv6 extensions", ethernet(&[], 0x86DD, &v6_extended)),
        ("rocev1", ethernet(&[], 0x8915, &grh)),
    ]
    .map(|(name, bytes)| Sample { name, bytes, kernel: true })
    .into();
    for opcode in [0x00, 0x04, 0x06, 0x07, 0x0A, 0x0C, 0x10, 0x11, 0x64, 0x81, 0x5F, 0xFF] {
        all.push(Sample { name: "plain", bytes: plain(opcode), kernel: true });
    }
    all.extend(tunnels());
    all
}

/// A CM REQ in a datagram to QP 1.
pub(crate) fn connection_request() -> Vec<u8> {
    let mut mad = vec![0u8; 256];
    mad[..4].copy_from_slice(&[1, 7, 2, 3]);
    mad[16..18].copy_from_slice(&[0, 0x10]);
    mad[24..28].copy_from_slice(&[0xDE, 0xAD, 0xBE, 0xEF]);
    mad[56..60].copy_from_slice(&[0, 0x12, 0x34, 0]);
    let datagram = [bth(0x64, 1, 5), extended(0x64), mad, vec![0; 4]].concat();
    ethernet(&[], 0x0800, &ipv4(17, 0, 0, &udp(0xC000, 4791, &datagram)))
}
