//! Interfaces that lie on top of one another: one packet passes both, and would count twice.

use super::interface::{Interface, Kind};

/// Two chosen interfaces of which one carries the other's packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackedPair {
    /// The one on top.
    pub upper: String,
    /// The one below it.
    pub lower: String,
    /// How they are related, as a clause that names both.
    pub relation: String,
}

/// The first stacked pair among `chosen` (positions in `all`), in the order of choice.
#[must_use]
pub fn find(chosen: &[usize], all: &[Interface]) -> Option<StackedPair> {
    chosen.iter().enumerate().find_map(|(i, a)| {
        chosen[i + 1..].iter().find_map(|b| between(*a, *b, all).or_else(|| between(*b, *a, all)))
    })
}

/// The pair, if `upper` lies on `lower`, directly or through others.
fn between(upper: usize, lower: usize, all: &[Interface]) -> Option<StackedPair> {
    let (top, bottom) = (all.get(upper)?, all.get(lower)?);
    // Each interface is visited once, so the walk ends even if the kernel's links made a circle.
    let mut reached = vec![false; all.len()];
    let mut next = vec![upper];
    while let Some(at) = next.pop() {
        if std::mem::replace(reached.get_mut(at)?, true) {
            continue;
        }
        if at == lower && at != upper {
            let relation = direct(top, bottom).unwrap_or_else(|| {
                format!("{} ({}) is stacked on {} through others", top.name, top.kind.as_str(), bottom.name)
            });
            return Some(StackedPair { upper: top.name.clone(), lower: bottom.name.clone(), relation });
        }
        let below = |i: &Interface| direct(&all[at], i).is_some();
        next.extend((0..all.len()).filter(|i| *i != at && below(&all[*i])));
    }
    None
}

/// How `upper` lies directly on `lower`, if it does.
fn direct(upper: &Interface, lower: &Interface) -> Option<String> {
    let (top, bottom) = (&upper.name, &lower.name);
    if lower.master == Some(upper.index) {
        return Some(match upper.kind {
            Kind::Bond | Kind::Team => format!("{bottom} is a member of the {} {top}", upper.kind.as_str()),
            Kind::Bridge => format!("{bottom} is a port of the bridge {top}"),
            Kind::Vrf => format!("{bottom} belongs to the VRF {top}"),
            _ => format!("{bottom} is enslaved to {top}"),
        });
    }
    upper.lower.contains(&lower.index).then(|| match upper.kind {
        Kind::Vlan => format!("{top} is a VLAN on {bottom}"),
        Kind::Vxlan => format!("{bottom} is the underlay of the VXLAN {top}"),
        Kind::Macvlan | Kind::Ipvlan => format!("{top} is a {} on {bottom}", upper.kind.as_str()),
        _ => format!("{top} ({}) is stacked on {bottom}", upper.kind.as_str()),
    })
}
