//! Flows by their hosts: questions about one flow's reverse direction do not walk all flows.

use std::sync::OnceLock;

use super::{Facts, Flow};
use crate::sample::Address;

/// Places of flows, by source, destination and destination queue pair; found when they are first asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByHosts(OnceLock<Box<[u32]>>);

/// It follows from the flows.
impl PartialEq for ByHosts {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Facts {
    /// The flows from one host to another, on every link.
    pub(crate) fn between(&self, src: Address, dst: Address) -> impl Iterator<Item = &Flow> {
        self.range((src, dst), |flow| (flow.src, flow.dst))
    }

    /// Those of them that go to one queue pair, in the order of [`flows`](Self::flows). Between two hosts may be as many flows as
    /// there are.
    pub(crate) fn to_qp(&self, src: Address, dst: Address, dest_qp: u32) -> impl Iterator<Item = &Flow> {
        self.range((src, dst, dest_qp), |flow| (flow.src, flow.dst, flow.dest_qp))
    }

    /// The flows with this key, which is the first part of what they are sorted by.
    fn range<K: Ord>(&self, key: K, key_of: impl Fn(&Flow) -> K) -> impl Iterator<Item = &Flow> {
        let at = |place: &u32| self.flows.get(*place as usize);
        let places = self.by_hosts.0.get_or_init(|| {
            let mut places: Vec<u32> = (0u32..).zip(&self.flows).map(|(place, _)| place).collect();
            places.sort_by_key(|place| at(place).map(|flow| (flow.src, flow.dst, flow.dest_qp)));
            places.into()
        });
        let first = places.partition_point(|place| at(place).is_some_and(|flow| key_of(flow) < key));
        let from_first = places.get(first..).unwrap_or_default().iter().filter_map(at);
        from_first.take_while(move |flow| key_of(flow) == key)
    }
}
