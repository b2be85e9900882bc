//! Frames to send: from captures, and crafted ones.

use std::path::Path;

use anyhow::Result;
use rocescope_common::wire::frame::{Full, Kernel};
use rocescope_common::wire::{Meta, SkipReason, parse};

use crate::capture_file::{ETHERNET, Order, Pcap};
use crate::craft::{self, Mac, Net, Transport};
use crate::oracle::{captures, cases};

/// An arbitrary time, for crafted frames.
const TIME_NS: u64 = 1_700_000_000_000_000_000;

/// All complete Ethernet frames from the captures and crafted cases of the tests that a link with this MTU can carry,
/// in order.
pub fn whole(mtu: u32) -> Result<Vec<Vec<u8>>> {
    let mut frames = Vec::new();
    for path in captures::own()? {
        frames.extend(whole_frames(&path)?);
    }
    let folder = tempfile::tempdir()?;
    for case in cases::all() {
        let path = folder.path().join(case.name);
        std::fs::write(&path, case.file)?;
        frames.extend(whole_frames(&path)?);
    }
    frames.extend(tagged());
    frames.extend(long());
    frames.retain(|frame| (14..=mtu as usize + 14).contains(&frame.len()));
    Ok(frames)
}

/// The untruncated frames of a plain Ethernet capture.
fn whole_frames(path: &Path) -> Result<impl Iterator<Item = Vec<u8>> + use<>> {
    let plain = captures::plain(path)?.filter(|plain| plain.link_type == u32::from(ETHERNET));
    let frames = plain.map(|plain| plain.frames).unwrap_or_default();
    Ok(frames.into_iter().filter(|(frame, length)| frame.len() as u64 == u64::from(*length)).map(|(f, _)| f))
}

/// One, two and three tags of both kinds, and a flow whose tag changes.
fn tagged() -> Vec<Vec<u8>> {
    let packet = |qp, psn| {
        let transport = Transport::new(0x04, qp, psn).payload(vec![7; 100]);
        Net::v4([10, 9, 0, 1], [10, 9, 0, 2]).tos(0x6A).roce(49_152, &transport)
    };
    let frame = |typed| craft::ethernet(Mac::SRC, Mac::DST, &typed);
    let tag = craft::vlan;
    let tci = |priority: u16, id: u16| priority << 13 | id;
    let mut frames = Vec::new();
    for psn in 0..4 {
        frames.push(frame(tag(0x8100, tci(3, 100), &packet(0x501, psn))));
        frames.push(frame(tag(0x88A8, tci(1, 200), &tag(0x8100, tci(4, 300), &packet(0x502, psn)))));
        frames.push(frame(tag(0x8100, 400, &tag(0x8100, 500, &packet(0x503, psn)))));
        frames.push(frame(tag(0x8100, 600 + psn as u16 % 2, &packet(0x504, psn))));
        // A priority without a VLAN.
        frames.push(frame(tag(0x8100, tci(5, 0), &packet(0x505, psn))));
        frames.push(frame(tag(0x88A8, 700, &packet(0x506, psn))));
    }
    frames
}

/// From a full frame of the usual MTU to one of 9000, and beyond the size of a page.
fn long() -> Vec<Vec<u8>> {
    let lengths = [1513, 1514, 1515, 2048, 3498, 3512, 3513, 4095, 4096, 4097, 6000, 8192, 9013, 9014];
    (1..=4 * lengths.len() as u32)
        .zip(lengths.into_iter().cycle())
        .map(|(psn, length)| of_length(length, psn))
        .collect()
}

/// One SEND FIRST in a frame of `length` bytes.
pub fn of_length(length: usize, psn: u32) -> Vec<u8> {
    // 14 Ethernet, 20 IPv4, 8 UDP, 12 BTH, 4 ICRC.
    const AROUND: usize = 58;
    // A length that is not a multiple of four is reached with undeclared padding.
    let transport = Transport { pad: Some(0), ..Transport::new(0x01, 0x601, psn) };
    let transport = transport.payload(vec![9; length - AROUND]);
    let packet = Net::v4([10, 9, 1, 1], [10, 9, 1, 2]).tos(2).roce(49_153, &transport);
    craft::ethernet(Mac::SRC, Mac::DST, &packet)
}

/// True if the kernel programs stop at a tunnel in which replay finds RoCE: they parse one VXLAN, GRE, ERSPAN or IP
/// in IP, replay up to four tunnels of any kind.
pub fn is_deep(frame: &[u8]) -> bool {
    let wire_len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    let meta = Meta::ethernet(wire_len);
    let unparsed = Some(SkipReason::TunnelUnparsed);
    parse::<Kernel>(&frame, meta, &mut ()).err() == unparsed
        && parse::<Full>(&frame, meta, &mut ()).err() != unparsed
}

/// SENDs of `flows` queue pairs, alternating, all in order.
pub fn sends(flows: u32, packets_each: u32) -> Vec<Vec<u8>> {
    let packets = (0..packets_each).flat_map(|psn| (0..flows).map(move |flow| (psn, flow)));
    packets.map(|(psn, flow)| send(0x100 + flow, psn)).collect()
}

/// One SEND to a queue pair.
pub fn send(dest_qp: u32, psn: u32) -> Vec<u8> {
    let transport = Transport::new(0x04, dest_qp, psn).payload(vec![1; 64]);
    craft::ethernet(Mac::SRC, Mac::DST, &Net::v4([10, 8, 0, 1], [10, 8, 0, 2]).roce(50_000, &transport))
}

/// A capture of these frames.
pub fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Pcap::new(Order::Little, true, ETHERNET);
    for (at, frame) in (0..).zip(frames) {
        file.packet(TIME_NS + at * 1_000, frame);
    }
    file.finish()
}
