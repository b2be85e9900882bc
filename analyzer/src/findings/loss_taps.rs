//! Taps that see the same flow, upstream and downstream of one another.

use std::collections::HashSet;

use super::loss::Side;
use super::once::{Name, name};
use crate::analysis::{Facts, Flow};

/// Flows with another tap upstream or downstream: what is lost between the two is counted there.
pub(super) struct Ends<'a> {
    /// Links and flows with another tap upstream.
    behind: HashSet<(&'a str, Name)>,
    /// Links and flows with another tap downstream.
    ahead: HashSet<(&'a str, Name)>,
}

impl<'a> Ends<'a> {
    pub(super) fn of(facts: &'a Facts) -> Self {
        let (mut behind, mut ahead) = (HashSet::new(), HashSet::new());
        for tap in &facts.taps {
            let name = (tap.src, tap.dst, tap.dest_qp);
            if let (Some(from), Some(to)) = (&tap.from, &tap.to) {
                ahead.insert((from.as_str(), name));
                behind.insert((to.as_str(), name));
            } else if tap.only_at == [0, 0] {
                // The order is not known: both taps see the same, and one of them is enough.
                let [_, other] = &tap.links;
                ahead.insert((other.as_str(), name));
                behind.insert((other.as_str(), name));
            }
        }
        Self { behind, ahead }
    }

    /// Whether another tap covers this side of the flow.
    pub(super) fn covers(&self, side: Side, flow: &Flow) -> bool {
        let key = (flow.link.as_str(), name(flow));
        match side {
            Side::Before => self.behind.contains(&key),
            Side::After => self.ahead.contains(&key),
        }
    }
}
