//! Flows by the link that sees them.

use super::{Facts, Flow, Link};
use crate::sample::Direction;
use crate::util::map::Map;

/// The flows of each link: there may be as many links as flows.
#[derive(Debug)]
pub(crate) struct ByLink<'a>(Map<(&'a str, Option<Direction>), Vec<&'a Flow>>);

impl<'a> ByLink<'a> {
    /// Groups all flows by link and direction.
    pub(crate) fn of(facts: &'a Facts) -> Self {
        let mut all: Map<_, Vec<&Flow>> = Map::default();
        for (link, direction, flows) in facts.link_by_link() {
            all.entry((link, direction)).or_default().extend(flows);
        }
        Self(all)
    }

    /// Those on one link, in the order of the facts.
    pub(crate) fn on(&self, link: &'a Link) -> &[&'a Flow] {
        self.0.get(&(link.name.as_str(), link.direction)).map_or(&[], Vec::as_slice)
    }
}

impl Facts {
    /// Name, direction and flows of one link after the other: in the list of flows those of a link stand together.
    pub(crate) fn link_by_link(&self) -> impl Iterator<Item = (&str, Option<Direction>, &[Flow])> {
        let parts = self.flows.chunk_by(|a, b| a.direction == b.direction && a.link == b.link);
        parts.filter_map(|flows| flows.first().map(|first| (first.link.as_str(), first.direction, flows)))
    }

    /// The links with this name, one for each direction. Each of thousands of findings asks for its own.
    pub(crate) fn links_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Link> {
        let name_of = |link: &'a Link| link.name.as_str();
        self.by_name.range(&self.links, name_of, name, name_of)
    }
}
