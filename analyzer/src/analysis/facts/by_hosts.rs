//! Flows by their hosts: questions about one flow's reverse direction do not walk all flows.

use super::{Facts, Flow};
use crate::sample::Address;

impl Facts {
    /// The flows from one host to another, on every link.
    pub(crate) fn between(&self, src: Address, dst: Address) -> impl Iterator<Item = &Flow> {
        self.by_hosts.range(&self.flows, hosts_and_qp, (src, dst), |flow| (flow.src, flow.dst))
    }

    /// Those of them that go to one queue pair, in the order of [`flows`](Self::flows). Between two hosts may be as
    /// many flows as there are.
    pub(crate) fn to_qp(&self, src: Address, dst: Address, dest_qp: u32) -> impl Iterator<Item = &Flow> {
        self.by_hosts.range(&self.flows, hosts_and_qp, (src, dst, dest_qp), hosts_and_qp)
    }

    /// The flows at any tap that go back to the queue pair that sends this one; none where that is not known.
    pub(crate) fn back<'a>(&'a self, flow: &Flow) -> impl Iterator<Item = &'a Flow> + use<'a> {
        let (src, dst) = (flow.dst, flow.src);
        flow.peer_qp.into_iter().flat_map(move |qp| self.to_qp(src, dst, qp))
    }
}

fn hosts_and_qp(flow: &Flow) -> (Address, Address, u32) {
    (flow.src, flow.dst, flow.dest_qp)
}
