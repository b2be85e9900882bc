use std::net::IpAddr;
use std::sync::Arc;

use super::*;
use crate::util::map::Map;

#[derive(Clone, Debug, PartialEq)]
struct Inner {
    number: u64,
    pair: (u16, bool),
}

#[derive(Clone, Debug, PartialEq)]
enum PackedEnum {
    Plain,
    Of(u8),
    Named { first: u32, second: Option<String> },
}

#[derive(Clone, Debug, PartialEq)]
struct Outer {
    inner: Vec<Inner>,
    kinds: Arc<Vec<PackedEnum>>,
    name: &'static str,
    map: Map<u32, [u64; 3]>,
    from: Option<IpAddr>,
    share: f64,
    errno: i32,
}

pack! {
    struct Inner { number, pair }
    struct Outer { inner, kinds, name, map, from, share, errno }
}
pack! {
    enum PackedEnum { 0 => Plain, 1 => Of(code), 2 => Named { first, second } }
}

fn outer() -> Outer {
    Outer {
        inner: [0, 1, 127, 128, 16_383, 16_384, u64::MAX]
            .map(|number| Inner { number, pair: (u16::MAX, number == 0) })
            .to_vec(),
        kinds: Arc::new(vec![
            PackedEnum::Plain,
            PackedEnum::Of(255),
            PackedEnum::Named { first: u32::MAX, second: Some("ä".to_owned()) },
        ]),
        name: "ethtool",
        map: [(7, [1, 2, 3]), (u32::MAX, [0, 0, u64::MAX])].into_iter().collect(),
        from: Some("fe80::1".parse().unwrap()),
        share: -0.125,
        errno: -110,
    }
}

#[test]
fn values_come_back_as_they_were() {
    let bytes = packed(&outer());
    assert_eq!(unpacked::<Outer>(&bytes), Ok(outer()));
    assert_eq!((packed(&0u64).len(), packed(&127u64).len(), packed(&u64::MAX).len()), (1, 1, 10));
}

#[test]
fn bytes_that_are_cut_off_changed_or_too_many_are_no_value_and_no_panic() {
    let bytes = packed(&outer());
    for end in 0..bytes.len() {
        assert_eq!(unpacked::<Outer>(&bytes[..end]), Err(Malformed), "{end}");
    }
    let mut more = bytes.clone();
    more.push(0);
    assert_eq!(unpacked::<Outer>(&more), Err(Malformed));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            // Another value, or none.
            if let Ok(other) = unpacked::<Outer>(&changed) {
                assert_ne!(other, outer(), "byte {at}, bit {bit}");
            }
        }
    }
    // A list of as many values as memory has bytes.
    assert_eq!(unpacked::<Vec<Inner>>(&packed(&u64::MAX)), Err(Malformed));
    // As many as there is room for, of all lists together.
    let lists = packed(&vec![vec![0u64; 3]; 2]);
    let room = 2 * size_of::<Vec<u64>>() + 6 * size_of::<u64>();
    assert_eq!(unpacked_within(&lists, room), Ok(vec![vec![0u64; 3]; 2]));
    assert_eq!(unpacked_within::<Vec<Vec<u64>>>(&lists, room - 1), Err(Malformed));
    assert_eq!(unpacked::<u16>(&packed(&65_536u64)), Err(Malformed));
    assert_eq!(unpacked::<u64>(&[0xFF; 10]), Err(Malformed));
    assert_eq!(unpacked::<String>(&[2, 0xC3, 0x28]), Err(Malformed));
    assert_eq!(unpacked::<bool>(&[2]), Err(Malformed));
}

#[test]
fn names_that_are_kept_are_bounded() {
    assert!(std::ptr::eq(kept("RTS").unwrap(), kept("RTS").unwrap()));
    assert_eq!(kept(&"x".repeat(LONGEST_NAME + 1)), Err(Malformed));
}

#[test]
fn another_field_name_or_type_is_another_layout() {
    struct A {
        one: u32,
    }
    struct B {
        one: u64,
    }
    pack! {
        struct A { one }
        struct B { one }
    }
    mod other {
        pub(super) struct A {
            pub(super) two: u32,
        }
    }
    pack! {
        struct other::A { two }
    }
    let layouts = BTreeSet::from([layout::<A>(), layout::<B>(), layout::<other::A>(), layout::<Vec<A>>()]);
    assert_eq!(layouts.len(), 4);
    assert_eq!(layout::<A>(), layout::<Arc<A>>());
}
