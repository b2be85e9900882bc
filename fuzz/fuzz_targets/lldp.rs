//! Any bytes as a frame of a switch: LLDP with DCBX, and MAC control.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocescope::ethernet::lldp::{self, Neighbour};
use rocescope::ethernet::mac_control::{Control, MacControlFrame, quanta_ns};
use rocescope_fuzz::{captures, seeds, speakable};

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).expect("a short value");
    let head = u16::from(kind) << 9 | length;
    [&head.to_be_bytes(), value].concat()
}

fn made() -> Vec<Vec<u8>> {
    let head = |ethertype: u16| {
        [&[1, 0x80, 0xc2, 0, 0, 0xe, 2, 0, 0, 0, 0, 7][..], &ethertype.to_be_bytes()].concat()
    };
    let names = [
        tlv(1, &[4, 2, 0, 0, 0, 0, 7]),
        tlv(2, b"\x05Ethernet1/7"),
        tlv(3, &[0, 120]),
        tlv(4, b"to node7"),
        tlv(5, b"leaf1"),
    ]
    .concat();
    let ieee = |subtype: u8, rest: &[u8]| tlv(127, &[&[0, 0x80, 0xc2, subtype], rest].concat());
    let feature = |kind: u8, rest: &[u8]| tlv(kind, &[&[0, 0, 0xc0, 0], rest].concat());
    let cee = [
        &[0, 0x1b, 0x21, 2][..],
        &feature(2, &[0x01, 0x23, 0, 0, 50, 50, 0, 0, 0, 0, 0, 0, 8]),
        &feature(3, &[8, 8]),
        &feature(4, &[0x12, 0xb7, 1, 0, 0, 8]),
    ]
    .concat();
    let settings = [
        ieee(9, &[0x80, 0x01, 0x23, 0, 0, 50, 50, 0, 0, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0]),
        ieee(0xb, &[0x88, 8]),
        ieee(0xc, &[0, 0x73, 0x12, 0xb7, 0xa5, 0, 26]),
    ]
    .concat();
    let mut all = vec![
        [head(lldp::ETHERTYPE), names.clone(), settings, tlv(0, &[])].concat(),
        [head(lldp::ETHERTYPE), names, tlv(127, &cee), tlv(0, &[])].concat(),
        [head(0x8808), vec![1, 1, 0, 0x18, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
            .concat(),
        [head(0x8808), vec![0, 1, 0xff, 0xff]].concat(),
    ];
    let recorded = captures().into_iter().filter(|path| path.ends_with("tcpdump_dcb_pfc.pcap"));
    // The frames of a capture: after its header, each with a record header.
    for bytes in recorded.filter_map(|path| std::fs::read(path).ok()) {
        let mut rest = bytes.get(24..).unwrap_or_default();
        while let Some((head, more)) = rest.split_first_chunk::<16>() {
            let length = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
            let Some((frame, after)) = more.split_at_checked(length) else { break };
            all.push(frame.to_vec());
            rest = after;
        }
    }
    all
}

fuzz_target!(init: seeds(made), |frame: &[u8]| {
    let control = Control::parse(frame);
    if let Some(found) = Neighbour::parse(frame) {
        assert_eq!(control, None, "a frame is of one kind");
        speakable(&found.label());
        assert!(!found.label().contains('\n'));
        for name in [&found.system, &found.chassis, &found.port, &found.port_description].into_iter().flatten() {
            assert!(!name.is_empty() && !name.chars().any(char::is_control), "{name:?}");
        }
        assert!(found.dialect.is_some() || (found.pfc.is_none() && found.ets.is_none() && found.apps.is_empty()));
        assert!(found.ets.is_none_or(|ets| ets.class_of.iter().all(|class| *class < 16)));
        assert!(found.apps.iter().all(|app| app.selector <= 7));
    }
    if let Some(control) = control {
        let quanta: Vec<u16> = match control.what {
            MacControlFrame::Pause(quanta) => vec![quanta],
            MacControlFrame::Pfc(by_priority) => by_priority.into_iter().flatten().collect(),
        };
        assert!(quanta.iter().all(|quanta| quanta_ns(*quanta, 100_000) <= 335_539));
        // A frame shortened by a byte is invalid, or only padding was removed.
        let cut = Control::parse(&frame[..frame.len() - 1]);
        assert!(cut.is_none() || cut == Some(control));
    }
});
