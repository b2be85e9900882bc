//! Flows by their hosts: questions about one flow's reverse direction do not walk all flows.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::{Facts, Flow};
use crate::sample::Address;

/// Places of flows by source and destination, found when they are first asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByHosts(OnceLock<HashMap<(Address, Address), Vec<usize>>>);

/// It follows from the flows.
impl PartialEq for ByHosts {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Facts {
    /// The flows from one host to another, on every link, in the order of [`flows`](Self::flows).
    pub(crate) fn between(&self, src: Address, dst: Address) -> impl Iterator<Item = &Flow> {
        let places = self.by_hosts.0.get_or_init(|| {
            let mut places: HashMap<_, Vec<usize>> = HashMap::new();
            for (at, flow) in self.flows.iter().enumerate() {
                places.entry((flow.src, flow.dst)).or_default().push(at);
            }
            places
        });
        places.get(&(src, dst)).into_iter().flatten().filter_map(|at| self.flows.get(*at))
    }
}
