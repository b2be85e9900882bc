//! Stacked interfaces: a packet passes both, and would count twice.

use std::collections::BTreeSet;

use super::interface::{Interface, InterfaceKind};

/// Two selected interfaces, one of which carries the packets of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackedPair {
    /// The upper one.
    pub upper: String,
    /// The lower one.
    pub lower: String,
    /// Their relation, as a clause that names both.
    pub relation: String,
}

/// The first stacked pair among `chosen` (indices in `all`), in the order of selection.
pub fn find(chosen: &[usize], all: &[Interface]) -> Option<StackedPair> {
    chosen.iter().enumerate().find_map(|(i, a)| {
        chosen[i + 1..].iter().find_map(|b| between(*a, *b, all).or_else(|| between(*b, *a, all)))
    })
}

/// The pair, if `upper` is stacked on `lower`, directly or indirectly.
fn between(upper: usize, lower: usize, all: &[Interface]) -> Option<StackedPair> {
    let (top, bottom) = (all.get(upper)?, all.get(lower)?);
    // Each interface is visited once, so that the search ends even if the links form a loop.
    let mut reached = vec![false; all.len()];
    let mut next = vec![upper];
    while let Some(at) = next.pop() {
        if std::mem::replace(reached.get_mut(at)?, true) {
            continue;
        }
        if at == lower && at != upper {
            let relation = direct(top, bottom).unwrap_or_else(|| {
                format!("{} ({}) is stacked on {} indirectly", top.name, top.kind.as_str(), bottom.name)
            });
            return Some(StackedPair { upper: top.name.clone(), lower: bottom.name.clone(), relation });
        }
        let below = |i: &Interface| direct(&all[at], i).is_some();
        next.extend((0..all.len()).filter(|i| *i != at && below(&all[*i])));
    }
    None
}

/// The relation of `upper` to `lower` if it is directly stacked on it.
fn direct(upper: &Interface, lower: &Interface) -> Option<String> {
    let (top, bottom) = (&upper.name, &lower.name);
    if lower.master == Some(upper.index) {
        return Some(match upper.kind {
            InterfaceKind::Bond | InterfaceKind::Team => {
                format!("{bottom} is a member of the {} {top}", upper.kind.as_str())
            }
            InterfaceKind::Bridge => format!("{bottom} is a port of the bridge {top}"),
            InterfaceKind::Vrf => format!("{bottom} belongs to the VRF {top}"),
            _ => format!("{bottom} is enslaved to {top}"),
        });
    }
    upper.lower.contains(&lower.index).then(|| match upper.kind {
        InterfaceKind::Vlan => format!("{top} is a VLAN on {bottom}"),
        InterfaceKind::Vxlan => format!("{bottom} is the underlay of the VXLAN {top}"),
        InterfaceKind::Macvlan | InterfaceKind::Ipvlan => {
            format!("{top} is a {} on {bottom}", upper.kind.as_str())
        }
        _ => format!("{top} ({}) is stacked on {bottom}", upper.kind.as_str()),
    })
}

/// The interfaces whose ports carry the packets of the interfaces `names`: themselves, those below (the parent of a
/// VLAN or macvlan, the members of a bond), and the bonds of which any of these is a member.
pub fn related(names: &[String], all: &[Interface]) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = names.iter().cloned().collect();
    let mut next: Vec<&Interface> = all.iter().filter(|i| found.contains(&i.name)).collect();
    while let Some(at) = next.pop() {
        for below in all.iter().filter(|i| carries(at, i)) {
            if found.insert(below.name.clone()) {
                next.push(below);
            }
        }
    }
    // Other members of such a bond carry their own packets.
    let is_part = |bond: &Interface| all.iter().any(|i| found.contains(&i.name) && carries(bond, i));
    let is_bond = |i: &&Interface| matches!(i.kind, InterfaceKind::Bond | InterfaceKind::Team);
    let bonds: Vec<String> =
        all.iter().filter(is_bond).filter(|i| is_part(i)).map(|i| i.name.clone()).collect();
    found.extend(bonds);
    found
}

/// The lowest interfaces below the one called `name`: of a bond its members, of a VLAN its parent; itself if it is
/// not stacked.
pub fn bottoms(name: &str, all: &[Interface]) -> Vec<String> {
    let mut reached = BTreeSet::from([name.to_owned()]);
    let mut next = vec![name.to_owned()];
    let mut found = Vec::new();
    while let Some(at) = next.pop() {
        let top = all.iter().find(|i| i.name == at);
        let below: Vec<&Interface> =
            top.map(|top| all.iter().filter(|i| carries(top, i)).collect()).unwrap_or_default();
        if below.is_empty() {
            found.push(at);
        }
        next.extend(below.into_iter().map(|i| i.name.clone()).filter(|name| reached.insert(name.clone())));
    }
    found.sort();
    found
}

/// True if the RDMA traffic of `upper` passes `lower` directly below it. Frames that a bridge forwards, or a VXLAN
/// encapsulates, belong to others.
fn carries(upper: &Interface, lower: &Interface) -> bool {
    match upper.kind {
        InterfaceKind::Bond | InterfaceKind::Team => lower.master == Some(upper.index),
        InterfaceKind::Vlan | InterfaceKind::Macvlan | InterfaceKind::Ipvlan => {
            upper.lower.contains(&lower.index)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::read::testing::interface;

    fn host() -> Vec<Interface> {
        let member =
            |name, index| Interface { master: Some(9), ..interface(name, index, InterfaceKind::Physical) };
        let on = |name, index, kind, lower| Interface { lower: vec![lower], ..interface(name, index, kind) };
        vec![
            member("eth0", 2),
            member("eth1", 3),
            interface("bond0", 9, InterfaceKind::Bond),
            on("bond0.7", 10, InterfaceKind::Vlan, 9),
            on("mv0", 11, InterfaceKind::Macvlan, 10),
            interface("eth2", 4, InterfaceKind::Physical),
            // A loop, which no kernel creates.
            on("a", 20, InterfaceKind::Vlan, 21),
            on("b", 21, InterfaceKind::Vlan, 20),
        ]
    }

    #[test]
    fn a_port_is_found_from_above_and_from_its_members() {
        let all = host();
        let of = |name: &str| related(&[name.to_owned()], &all).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(of("mv0"), "bond0 bond0.7 eth0 eth1 mv0");
        assert_eq!(of("bond0"), "bond0 eth0 eth1");
        assert_eq!(of("eth0"), "bond0 eth0");
        assert_eq!((of("eth2"), of("elsewhere")), ("eth2".to_owned(), "elsewhere".to_owned()));
        assert_eq!(of("a"), "a b");
    }

    #[test]
    fn counters_are_at_the_bottom() {
        let all = host();
        for (top, below) in [
            ("mv0", vec!["eth0", "eth1"]),
            ("bond0", vec!["eth0", "eth1"]),
            ("eth2", vec!["eth2"]),
            ("elsewhere", vec!["elsewhere"]),
            ("a", vec![]),
        ] {
            assert_eq!(bottoms(top, &all), below, "{top}");
        }
    }
}
