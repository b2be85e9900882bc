use super::super::FormatKind;
use super::*;

fn times(order: Order, options: &[Vec<u8>], ticks: &[u64]) -> Vec<u64> {
    let mut bytes = order.section();
    bytes.extend(order.interface(1, 0, options));
    for &ticks in ticks {
        bytes.extend(order.enhanced(0, ticks, 60, &[0; 60], &[]));
    }
    sound(&bytes).records.iter().map(|r| r.ts_ns).collect()
}

#[test]
fn blocks_of_every_kind_in_both_byte_orders() {
    for order in BOTH {
        let (bytes, _) = small_pcapng(order);
        let outcome = sound(&bytes);
        let expected = [(1000, 1082, vec![1; 61]), (1000, 40, vec![2; 40]), (2000, 96, vec![3; 96])];
        assert_eq!(outcome.records.len(), expected.len());
        for (got, (ts_ns, wire_len, data)) in outcome.records.into_iter().zip(expected) {
            let expected = Owned { ts_ns, interface: 0, link_type: 1, wire_len, data };
            assert_eq!(got, expected, "{order:?}");
        }
        let reader = outcome.reader;
        assert_eq!(reader.format().kind, FormatKind::PcapNg);
        assert_eq!(reader.capture_drops(), Some(3));
        assert_eq!(reader.untimed(), 1);
        let [interface] = reader.interfaces() else {
            panic!("one interface expected");
        };
        assert_eq!(interface.name.as_deref(), Some("eth0"));
        assert_eq!((interface.snaplen, interface.section), (96, 0));
    }
}

#[test]
fn resolutions_and_offsets_give_unix_nanoseconds() {
    for order in BOTH {
        let resol = |r: u8| order.option(9, &[r]);
        let offset = |s: i64| order.option(14, &order.u64(s.cast_unsigned()));
        let t = |options: &[Vec<u8>], ticks: u64| times(order, options, &[ticks])[0];
        assert_eq!(t(&[], 1_700_000_000_123_456), 1_700_000_000_123_456_000);
        assert_eq!(t(&[resol(9)], 1_700_000_000_123_456_789), 1_700_000_000_123_456_789);
        assert_eq!(t(&[resol(3)], 5), 5_000_000);
        assert_eq!(t(&[resol(0)], 5), 5_000_000_000);
        assert_eq!(t(&[resol(12)], 5_999), 5);
        assert_eq!(t(&[resol(0x80)], 3), 3_000_000_000);
        assert_eq!(t(&[resol(0x8a)], 1536), 1_500_000_000);
        assert_eq!(t(&[resol(0xa0)], 3 << 31), 1_500_000_000);
        assert_eq!(t(&[offset(10)], 1), 10_000_001_000);
        assert_eq!(t(&[offset(-10), resol(9)], 10_000_000_003), 3);
        // Options behind the end marker do not count.
        assert_eq!(t(&[order.option(0, b""), resol(9)], 1), 1000);
    }
}

#[test]
fn times_out_of_range_are_clamped() {
    let order = Order::Little;
    let resol = |r: u8| order.option(9, &[r]);
    let offset = |s: i64| order.option(14, &order.u64(s.cast_unsigned()));
    for r in 0..=255 {
        for o in [0, i64::MIN, i64::MAX] {
            let got = times(order, &[resol(r), offset(o)], &[0, u64::MAX]);
            let clamped = if o == i64::MAX { u64::MAX } else { 0 };
            assert_eq!(got[0], clamped);
            assert!(got[1] >= got[0]);
        }
    }
    assert_eq!(times(order, &[], &[u64::MAX]), [u64::MAX]);
    assert_eq!(times(order, &[resol(29)], &[u64::MAX]), [0]);
}

#[test]
fn interfaces_count_across_sections_of_either_byte_order() {
    let (a, b) = (Order::Little, Order::Big);
    let mut bytes = a.section();
    bytes.extend(a.interface(1, 0, &[a.option(2, b"eth0")]));
    bytes.extend(a.interface(276, 0, &[a.option(2, b"any"), a.option(9, &[9])]));
    bytes.extend(a.enhanced(1, 5, 60, &[0; 60], &[]));
    bytes.extend(b.section());
    bytes.extend(b.interface(113, 0, &[]));
    bytes.extend(b.enhanced(0, 5, 60, &[0; 60], &[]));
    bytes.extend(b.simple(4, &[0; 4]));
    let outcome = sound(&bytes);
    let got: Vec<_> = outcome.records.iter().map(|r| (r.interface, r.link_type, r.ts_ns)).collect();
    assert_eq!(got, [(1, 276, 5), (2, 113, 5000), (2, 113, 5000)]);
    let interfaces: Vec<_> =
        outcome.reader.interfaces().iter().map(|i| (i.name.as_deref(), i.section)).collect();
    assert_eq!(interfaces, [(Some("eth0"), 0), (Some("any"), 0), (None, 1)]);
}

#[test]
fn simple_packets_are_as_long_as_the_snap_length_leaves_them() {
    let order = Order::Little;
    let mut bytes = order.section();
    bytes.extend(order.interface(1, 50, &[]));
    bytes.extend(order.simple(1082, &[7; 50]));
    bytes.extend(order.simple(49, &[8; 49]));
    let outcome = sound(&bytes);
    assert_eq!(outcome.records[0].wire_len, 1082);
    assert_eq!(outcome.records[0].data, vec![7; 50], "padding is not data");
    assert_eq!(outcome.records[1].data, vec![8; 49]);
    assert_eq!(outcome.records[0].ts_ns, 0, "nothing before it has a time");
    assert_eq!(outcome.reader.untimed(), 2);
}

#[test]
fn the_obsolete_packet_block_is_read() {
    for order in BOTH {
        let mut bytes = order.section();
        bytes.extend(order.interface(1, 0, &[]));
        bytes.extend(order.interface(101, 0, &[]));
        for drops in [4, u16::MAX, 5] {
            let mut body = order.u16(1).to_vec();
            body.extend(order.u16(drops));
            body.extend(order.words(&[0, 6, 5, 99]));
            body.extend([1, 2, 3, 4, 5]);
            bytes.extend(order.block(2, &body));
        }
        let outcome = sound(&bytes);
        assert_eq!(outcome.records.len(), 3);
        let expected =
            Owned { ts_ns: 6000, interface: 1, link_type: 101, wire_len: 99, data: vec![1, 2, 3, 4, 5] };
        assert_eq!(outcome.records[0], expected);
        assert_eq!(outcome.reader.capture_drops(), Some(9));
    }
}

#[test]
fn drops_are_the_latest_of_each_interface_and_unknown_without_statistics() {
    let order = Order::Big;
    let drop = |code, n: u64| order.option(code, &order.u64(n));
    let mut bytes = order.section();
    for _ in 0..3 {
        bytes.extend(order.interface(1, 0, &[]));
    }
    assert_eq!(sound(&bytes).reader.capture_drops(), None);
    // Received packets alone say nothing about losses.
    bytes.extend(order.statistics(0, &[drop(4, 1000)]));
    assert_eq!(sound(&bytes).reader.capture_drops(), None);
    let lost = [order.option(4, &order.u64(9))];
    bytes.extend(order.enhanced(0, 0, 60, &[0; 60], &lost));
    assert_eq!(sound(&bytes).reader.capture_drops(), Some(9));
    bytes.extend(order.statistics(0, &[drop(5, 0)]));
    assert_eq!(sound(&bytes).reader.capture_drops(), Some(0));
    bytes.extend(order.statistics(0, &[drop(5, 10), drop(7, 99)]));
    bytes.extend(order.statistics(0, &[drop(5, 12)]));
    bytes.extend(order.statistics(1, &[drop(7, 30)]));
    bytes.extend(order.statistics(77, &[drop(5, 5000)]));
    assert_eq!(sound(&bytes).reader.capture_drops(), Some(42));
}

#[test]
fn fcs_comes_from_the_interface_or_the_packet() {
    let order = Order::Little;
    for (option, expected) in [(4, 60), (32, 60), (0, 64)] {
        let mut bytes = order.section();
        bytes.extend(order.interface(1, 0, &[order.option(13, &[option])]));
        bytes.extend(order.enhanced(0, 0, 64, &[0; 64], &[]));
        let record = sound(&bytes).records.remove(0);
        assert_eq!((record.wire_len, record.data.len()), (expected, expected as usize));
    }
    let mut bytes = order.section();
    bytes.extend(order.interface(1, 0, &[]));
    let flags = order.option(2, &order.u32(4 << 5 | 1));
    let comment = order.option(1, b"first");
    bytes.extend(order.enhanced(0, 0, 64, &[0; 61], &[comment, flags, order.option(0, b"")]));
    let record = sound(&bytes).records.remove(0);
    assert_eq!((record.wire_len, record.data.len()), (60, 60));
}

#[test]
fn damage_in_the_middle_costs_nothing_before_it() {
    let order = Order::Little;
    let (good, ends) = small_pcapng(order);
    let packet = order.enhanced(0, 9, 60, &[0; 60], &[]);
    let spoil = |at: usize, value: u32| {
        let mut block = packet.clone();
        block[at..at + 4].copy_from_slice(&order.u32(value));
        block
    };
    let cases = [
        (spoil(4, 8), "claims 8 bytes"),
        (spoil(4, 0xffff_fff0), "claims 4294967280 bytes"),
        (spoil(packet.len() - 4, 40), "at its end"),
        (spoil(8, 1), "names interface 1"),
        (spoil(20, 64), "does not fit"),
        (spoil(20, u32::MAX), "does not fit"),
        (order.block(6, &[0; 16]), "too short"),
        (order.block(3, &[]), "too short"),
        (order.simple(4000, &[0; 4]), "does not fit"),
        (order.block(1, &[0; 4]), "interface description"),
        (order.block(5, &[0; 4]), "interface statistics"),
        (order.block(0x0a0d_0d0a, &[0; 16]), "byte-order"),
    ];
    for (damage, message) in cases {
        let bytes = [good.clone(), damage, good.clone()].concat();
        let outcome = drain(open(&bytes).unwrap());
        assert_eq!(outcome.records.len(), ends.len(), "{message}");
        let error = outcome.error.unwrap();
        assert!(
            matches!(&error, CaptureError::Corrupt { offset, .. } if *offset == good.len() as u64),
            "{error:?}"
        );
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn packets_before_any_interface_are_damage() {
    let order = Order::Big;
    for packet in [order.enhanced(0, 0, 4, &[0; 4], &[]), order.simple(4, &[0; 4])] {
        let outcome = drain(open(&[order.section(), packet].concat()).unwrap());
        assert!(matches!(outcome.error, Some(CaptureError::Corrupt { .. })));
    }
}

#[test]
fn interfaces_without_end_do_not_fill_memory() {
    let order = Order::Little;
    let mut bytes = order.section();
    bytes.extend(order.interface(1, 0, &[]).repeat(65_537));
    let outcome = drain(open(&bytes).unwrap());
    assert_eq!(outcome.reader.interfaces().len(), 65_536);
    assert!(outcome.error.unwrap().to_string().contains("65536"));
}
