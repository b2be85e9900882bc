//! Flows by the link that sees them.

use std::sync::OnceLock;

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
        for flow in &facts.flows {
            all.entry((flow.link.as_str(), flow.direction)).or_default().push(flow);
        }
        Self(all)
    }

    /// Those on one link, in the order of the facts.
    pub(crate) fn on(&self, link: &'a Link) -> &[&'a Flow] {
        self.0.get(&(link.name.as_str(), link.direction)).map_or(&[], Vec::as_slice)
    }
}

/// Places of links, by name; found when they are first asked for. Each of thousands of findings asks for its own link.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkNames(OnceLock<Box<[u32]>>);

/// It follows from the links.
impl PartialEq for LinkNames {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Facts {
    /// The links with this name, one for each direction.
    pub(crate) fn links_named(&self, name: &str) -> impl Iterator<Item = &Link> {
        let at = |place: &u32| self.links.get(*place as usize);
        let name_of = |place: &u32| at(place).map(|link| link.name.as_str());
        let places = self.link_names.0.get_or_init(|| {
            let mut places: Vec<u32> = (0u32..).zip(&self.links).map(|(place, _)| place).collect();
            places.sort_by_key(name_of);
            places.into()
        });
        let first = places.partition_point(|place| name_of(place) < Some(name));
        let from_first = places.get(first..).unwrap_or_default().iter().filter_map(at);
        from_first.take_while(move |link| link.name == name)
    }
}
