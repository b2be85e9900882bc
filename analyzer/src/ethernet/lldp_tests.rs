use super::*;

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).unwrap();
    let mut out = vec![kind << 1 | u8::try_from(length >> 8).unwrap(), u8::try_from(length & 0xff).unwrap()];
    out.extend(value);
    out
}

fn frame(tlvs: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 1, 0x88, 0xcc];
    out.extend(tlvs.concat());
    out
}

fn ieee() -> Vec<u8> {
    let mut ets = vec![0x00, 0x80, 0xc2, IEEE_ETS, 0x82];
    ets.extend([0x00, 0x01, 0x00, 0x20]);
    ets.extend([40, 60, 0, 0, 0, 0, 0, 0]);
    ets.extend([2; 8]);
    frame(&[
        tlv(TLV_CHASSIS, &[4, 2, 0, 0, 0, 0, 9]),
        tlv(TLV_PORT, &[[5].as_slice(), b"Ethernet1/1"].concat()),
        tlv(3, &[0, 120]),
        tlv(TLV_SYSTEM_NAME, b"leaf1\x1b"),
        tlv(TLV_ORGANISATION, &ets),
        tlv(TLV_ORGANISATION, &[0x00, 0x80, 0xc2, IEEE_PFC, 0x88, 0b1000]),
        tlv(TLV_ORGANISATION, &[0x00, 0x80, 0xc2, IEEE_APPS, 0, 3 << 5 | 5, 0, 26, 3 << 5 | 3, 0x12, 0xb7]),
        tlv(TLV_END, &[]),
        tlv(TLV_SYSTEM_NAME, b"behind the end"),
    ])
}

fn cee(pfc_flags: u8) -> Vec<u8> {
    let control = tlv(1, &[0, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
    let groups = tlv(CEE_GROUPS, &[0, 0, CEE_ENABLED, 0, 0x00, 0x01, 0, 0, 50, 50, 0, 0, 0, 0, 0, 0, 8]);
    let pfc = tlv(CEE_PFC, &[0, 0, pfc_flags, 0, 0b1000, 8]);
    let apps = tlv(
        CEE_APPS,
        &[0, 0, CEE_ENABLED, 0, 0x89, 0x06, 0, 0x1b, 0x21, 0b1000, 0x12, 0xb7, 1, 0x1b, 0x21, 0b1000],
    );
    frame(&[tlv(
        TLV_ORGANISATION,
        &[[0x00, 0x1b, 0x21, CEE].as_slice(), &control, &groups, &pfc, &apps].concat(),
    )])
}

#[test]
fn the_standard_form_is_read() {
    let neighbour = Neighbour::parse(&ieee()).unwrap();
    assert_eq!(neighbour.system.as_deref(), Some("leaf1\u{fffd}"));
    assert_eq!(neighbour.label(), "leaf1\u{fffd} Ethernet1/1");
    assert_eq!(neighbour.chassis.as_deref(), Some("02:00:00:00:00:09"));
    assert_eq!(neighbour.dialect, Some(Dialect::Ieee));
    assert_eq!(neighbour.pfc, Some(Pfc { enabled: 0b1000, capable: 8, willing: true, error: false }));
    let ets = neighbour.ets.unwrap();
    assert_eq!((ets.class_of, ets.bandwidth[1], ets.willing), ([0, 0, 0, 1, 0, 0, 2, 0], 60, true));
    assert_eq!(
        neighbour.apps,
        [
            App { selector: 5, protocol: 26, priorities: 0b1000 },
            App { selector: 3, protocol: 4791, priorities: 0b1000 }
        ]
    );
}

#[test]
fn the_older_form_is_read() {
    let neighbour = Neighbour::parse(&cee(CEE_ENABLED | CEE_ERROR)).unwrap();
    assert_eq!(neighbour.dialect, Some(Dialect::Cee));
    assert_eq!(neighbour.pfc, Some(Pfc { enabled: 0b1000, capable: 8, willing: false, error: true }));
    assert_eq!((neighbour.ets.unwrap().class_of[3], neighbour.ets.unwrap().bandwidth[1]), (1, 50));
    assert_eq!(
        neighbour.apps.iter().map(|app| (app.selector, app.protocol)).collect::<Vec<_>>(),
        [(1, 0x8906), (4, 4791)]
    );
    // A feature that is off is lossless for nothing, whatever else it says.
    assert_eq!(Neighbour::parse(&cee(CEE_WILLING)).unwrap().pfc.unwrap().enabled, 0);
}

#[test]
fn tags_are_skipped_and_other_frames_are_none() {
    let mut tagged = ieee();
    tagged.splice(12..12, [0x81, 0x00, 0, 0]);
    assert_eq!(Neighbour::parse(&tagged), Neighbour::parse(&ieee()));
    let mut other = ieee();
    other[13] = 0;
    assert_eq!(Neighbour::parse(&other), None);
}

#[test]
fn no_cut_or_changed_frame_makes_it_panic() {
    for whole in [ieee(), cee(0xff)] {
        for end in 0..whole.len() {
            let _ = Neighbour::parse(&whole[..end]);
        }
        for at in 0..whole.len() {
            for flip in [1, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] ^= flip;
                let _ = Neighbour::parse(&changed).map(|neighbour| neighbour.label());
            }
        }
    }
    // A cut frame yields the fields before the cut.
    let whole = ieee();
    assert_eq!(Neighbour::parse(&whole[..80]).unwrap().pfc, None);
    assert_eq!(Neighbour::parse(&[0x81; 13]), None);
}

/// Marks of the writing direction are no control characters, and reorder what stands beside them all the same.
#[test]
fn a_name_neither_commands_a_terminal_nor_reorders_its_text() {
    let port = tlv(TLV_PORT, &[[5].as_slice(), "swp\u{61c}1".as_bytes()].concat());
    let chassis = tlv(TLV_CHASSIS, &[4, 2, 0, 0, 0, 0, 9]);
    let named = frame(&[chassis, port, tlv(TLV_SYSTEM_NAME, "leaf\u{202e}1\u{9b}".as_bytes())]);
    let found = Neighbour::parse(&named).unwrap();
    assert_eq!(
        (found.system.as_deref(), found.port.as_deref()),
        (Some("leaf\u{fffd}1\u{fffd}"), Some("swp\u{fffd}1"))
    );
}
