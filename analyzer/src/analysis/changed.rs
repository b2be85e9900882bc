//! Header fields and contents that differ between two taps in the same packets.

use std::collections::BTreeMap;

use rocescope_common::wire::frame::CE;
use serde::Serialize;

use crate::metrics::taps::{Header, HeaderPair, TapPair};

/// A header field that a hop may rewrite, or what the ICRC covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// DSCP: 0 to 63.
    Dscp,
    /// ECN codepoint: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    Ecn,
    /// 802.1p priority of the outermost VLAN tag: 0 to 7. Compared where both links show a tag.
    Priority,
    /// Payload in bytes: switches that trim packets shorten it.
    Payload,
    /// Payload and header fields that must not change, by the ICRC of whole frames: 1 right, 0 wrong. From 1 to 1: they
    /// changed, and the ICRC was computed again. From 1 to 0: they changed, or the ICRC itself did.
    Icrc,
}

/// A header field that has one value at the first link and another at the second, in the same packets. CE marks that
/// are set on the path are not changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FieldChange {
    /// Header field that differs.
    pub field: Field,
    /// Value at the first link; of the payload, of the latest such packet. Unit: bytes for payload.
    pub from: u32,
    /// Value at the second link. Unit: bytes for payload.
    pub to: u32,
    /// Packets with this change. Unit: packets.
    pub packets: u64,
    /// Compared packets that have `from` at the first link (ICRC: and are whole at both); for payload, all that were
    /// compared. Unit: packets.
    pub of: u64,
    /// Time of the first such packet, by the clock of the first link. Unit: Unix ns.
    pub first_ns: u64,
    /// Time of the last such packet. Unit: Unix ns.
    pub last_ns: u64,
}

/// The value of a field.
fn value(header: Header, field: Field) -> Option<u32> {
    match field {
        Field::Dscp => Some(u32::from(header.tos >> 2)),
        Field::Ecn => Some(u32::from(header.tos & 3)),
        Field::Priority => header.priority.map(u32::from),
        Field::Icrc => header.icrc.map(u32::from),
        Field::Payload => None,
    }
}

/// True if a field of these packets differs at the second tap, other than on a healthy path.
fn is_change(field: Field, (from, to): (u32, u32), altered: bool, ordered: bool) -> bool {
    match field {
        // A wrong ICRC at the first tap shows nothing: the sender's NIC may fill it in behind it.
        Field::Icrc => match (from, to) {
            (1, 1) => altered,
            (1, 0) => altered || ordered,
            (0, 1) => altered && !ordered,
            _ => false,
        },
        _ => from != to && !is_mark(field, from, to, ordered),
    }
}

/// True if a change is due to congestion: CE is set on packets that are ECN-capable. If the order of the taps is not
/// known, either direction counts.
fn is_mark(field: Field, from: u32, to: u32, ordered: bool) -> bool {
    let set = |from: u32, to: u32| to == u32::from(CE) && (from == 1 || from == 2);
    field == Field::Ecn && (set(from, to) || !ordered && set(to, from))
}

/// Differences between the taps of a pair, most packets first.
pub(super) fn changes(pair: &TapPair) -> Vec<FieldChange> {
    let mut changes: BTreeMap<(Field, u32, u32), FieldChange> = BTreeMap::new();
    let mut of: BTreeMap<(Field, u32), u64> = BTreeMap::new();
    for HeaderPair { headers: [first, second], altered, packets, seen_ns } in &pair.passed {
        for field in [Field::Dscp, Field::Ecn, Field::Priority, Field::Icrc] {
            let (Some(from), Some(to)) = (value(*first, field), value(*second, field)) else { continue };
            *of.entry((field, from)).or_default() += packets;
            if !is_change(field, (from, to), *altered, pair.ordered) {
                continue;
            }
            let new = FieldChange { field, from, to, packets: 0, of: 0, first_ns: u64::MAX, last_ns: 0 };
            let change = changes.entry((field, from, to)).or_insert(new);
            change.packets += packets;
            change.first_ns = change.first_ns.min(seen_ns[0].0);
            change.last_ns = change.last_ns.max(seen_ns[0].1);
        }
    }
    let mut changes: Vec<FieldChange> = changes.into_values().collect();
    for change in &mut changes {
        change.of = of.get(&(change.field, change.from)).copied().unwrap_or(0);
    }
    let resized = &pair.resized;
    if resized.packets > 0 {
        changes.push(FieldChange {
            field: Field::Payload,
            from: resized.bytes[0].into(),
            to: resized.bytes[1].into(),
            packets: resized.packets,
            of: pair.matched,
            first_ns: resized.seen_ns[0].0,
            last_ns: resized.seen_ns[0].1,
        });
    }
    changes.sort_by_key(|change| (std::cmp::Reverse(change.packets), change.field));
    changes
}

/// Packets that were marked CE between the taps.
pub(super) fn marked(pair: &TapPair) -> u64 {
    let ecn = |header: Header| value(header, Field::Ecn).unwrap_or(0);
    let marked = pair.passed.iter().filter(|passed| {
        let [from, to] = passed.headers.map(ecn);
        to == u32::from(CE) && is_mark(Field::Ecn, from, to, true)
    });
    marked.map(|passed| passed.packets).sum()
}

/// The smallest and the largest number of routers between the taps, by the time to live; `None` where it rises.
pub(super) fn routers(pair: &TapPair) -> Option<[u8; 2]> {
    let mut counted = pair.passed.iter().map(|passed| {
        let [from, to] = passed.headers.map(|header| header.hops);
        from.checked_sub(to)
    });
    let first = counted.next()??;
    counted.try_fold([first, first], |[least, most], hops| Some([least.min(hops?), most.max(hops?)]))
}

#[cfg(test)]
mod tests {
    use rocescope_common::account::FlowKey;

    use super::*;
    use crate::metrics::taps::Resized;

    const fn header(tos: u8, hops: u8, priority: Option<u8>) -> Header {
        Header { tos, hops, priority, icrc: None }
    }

    fn pair(ordered: bool, passed: &[(Header, Header, u64)]) -> TapPair {
        let key = FlowKey { src: [1; 4], dst: [2; 4], dest_qp: 5, link: 0, family: 4, pad: 0 };
        let passed: Vec<HeaderPair> = passed
            .iter()
            .map(|(from, to, packets)| HeaderPair {
                headers: [*from, *to],
                altered: false,
                packets: *packets,
                seen_ns: [(5, 9), (6, 10)],
            })
            .collect();
        TapPair {
            ordered,
            matched: passed.iter().map(|passed| passed.packets).sum(),
            passed,
            ..TapPair::empty(key, [0, 1])
        }
    }

    fn seen(pair: &TapPair) -> Vec<(Field, u32, u32, u64, u64)> {
        changes(pair).iter().map(|c| (c.field, c.from, c.to, c.packets, c.of)).collect()
    }

    #[test]
    fn each_field_is_compared_by_itself() {
        let [data, plain] = [header(26 << 2 | 2, 64, Some(3)), header(2, 63, Some(0))];
        let cleared = header(26 << 2, 62, None);
        let two = pair(true, &[(data, plain, 90), (data, cleared, 10), (plain, plain, 7)]);
        let expected =
            [(Field::Dscp, 26, 0, 90, 100), (Field::Priority, 3, 0, 90, 90), (Field::Ecn, 2, 0, 10, 107)];
        assert_eq!(seen(&two), expected);
        assert_eq!((routers(&two), marked(&two)), (Some([0, 2]), 0));
        assert_eq!((changes(&two)[0].first_ns, changes(&two)[0].last_ns), (5, 9));
        assert_eq!(routers(&pair(true, &[(plain, data, 1)])), None, "it rises");
        let trimmed = TapPair {
            resized: Resized { packets: 3, bytes: [4096, 64], seen_ns: [(1, 2); 2] },
            ..pair(true, &[(data, data, 9)])
        };
        assert_eq!(seen(&trimmed), [(Field::Payload, 4096, 64, 3, 9)]);
    }

    #[test]
    fn contents_that_change_are_counted_by_what_their_icrc_says() {
        let icrc = |icrc| Header { icrc, ..header(26 << 2 | 2, 64, None) };
        let of = |ordered, from, to, altered| {
            let mut pair =
                pair(ordered, &[(icrc(Some(true)), icrc(Some(true)), 90), (icrc(from), icrc(to), 10)]);
            pair.passed[1].altered = altered;
            seen(&pair)
        };
        let [right, wrong] = [Some(true), Some(false)];
        assert_eq!(of(true, right, right, true), [(Field::Icrc, 1, 1, 10, 100)], "computed again");
        assert_eq!(of(true, right, wrong, true), [(Field::Icrc, 1, 0, 10, 100)]);
        assert_eq!(of(true, right, wrong, false), [(Field::Icrc, 1, 0, 10, 100)], "the ICRC itself");
        assert_eq!(of(false, wrong, right, true), [(Field::Icrc, 0, 1, 10, 10)]);
        for (ordered, from, to, altered) in [
            (true, right, right, false),
            (true, wrong, right, true),
            (true, wrong, wrong, true),
            (true, None, wrong, false),
            (true, right, None, false),
            (false, right, wrong, false),
        ] {
            assert_eq!(of(ordered, from, to, altered), [], "{ordered} {from:?} {to:?} {altered}");
        }
    }

    #[test]
    fn marks_are_set_and_never_removed_or_invented() {
        let ecn = |codepoint: u8| header(26 << 2 | codepoint, 64, None);
        let of = |ordered, from, to| {
            let pair = pair(ordered, &[(ecn(from), ecn(to), 5)]);
            (changes(&pair).len(), marked(&pair))
        };
        assert_eq!((of(true, 2, 3), of(true, 1, 3)), ((0, 5), (0, 5)));
        assert_eq!(
            (of(true, 3, 2), of(true, 0, 3), of(true, 2, 1), of(true, 2, 0)),
            ((1, 0), (1, 0), (1, 0), (1, 0))
        );
        assert_eq!((of(false, 3, 2), of(false, 3, 0)), ((0, 0), (1, 0)), "which tap is first is not known");
    }
}
