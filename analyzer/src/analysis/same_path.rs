//! Interfaces that are not compared with one another, as they see the same packets.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::paths::{self, Overlap};
use super::{Options, parallel};
use crate::sample::Sample;

/// Interfaces that see the same packets, so that they are compared with nothing of each other: the two ends of
/// a cable, both sides of a router, several mirrors. And captures that plainly share a load, where no option says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SamePath {
    same: BTreeSet<(String, String)>,
    pub(super) parallel: Vec<Vec<String>>,
}

impl SamePath {
    /// The interfaces of `sample` of which this holds: the same packets when all links are compared, parallel captures
    /// when the user names no group.
    pub fn of(sample: &Sample, options: &Options) -> Self {
        if !options.imbalance_all_links {
            let parallel = if options.groups.is_empty() { parallel::groups(sample) } else { Vec::new() };
            return Self { same: BTreeSet::new(), parallel };
        }
        let name = |link: u16| sample.links.get(usize::from(link)).map(|link| link.name.clone());
        let named = paths::related(sample).into_iter().filter_map(|(a, b)| {
            let (a, b) = (name(a)?, name(b)?);
            Some(if a < b { (a, b) } else { (b, a) })
        });
        Self { same: named.filter(|(a, b)| a != b).collect(), parallel: Vec::new() }
    }

    pub(super) fn are(&self, a: &str, b: &str) -> bool {
        let (a, b) = if a < b { (a, b) } else { (b, a) };
        self.same.iter().any(|(one, other)| one == a && other == b)
    }

    /// As many of `names` as share no packets with one another: those that share with fewest come first.
    pub(super) fn parallel<'a>(&self, names: &[&'a str]) -> Vec<&'a str> {
        let shares = |name: &str| names.iter().filter(|other| self.are(name, other)).count();
        let mut order = names.to_vec();
        order.sort_by_key(|name| shares(name));
        let mut chosen: Vec<&str> = Vec::new();
        for name in order {
            if !chosen.iter().any(|other| *other == name || self.are(name, other)) {
                chosen.push(name);
            }
        }
        chosen
    }
}

/// Relation of links that see the same packets, from one sample. It takes a look at every flow, so views that make
/// several pictures of one sample ask for it once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// Flows that are counted on more than one link.
    pub overlap: Arc<Overlap>,
    /// Interfaces that are not compared with one another.
    pub same_path: SamePath,
}

impl Paths {
    /// Relation of the links of `sample`.
    pub fn of(sample: &Sample, options: &Options) -> Self {
        Self::with(Arc::new(Overlap::of(sample)), sample, options)
    }

    /// The same where it is known already what is counted `again`.
    pub fn with(overlap: Arc<Overlap>, sample: &Sample, options: &Options) -> Self {
        Self { overlap, same_path: SamePath::of(sample, options) }
    }
}
