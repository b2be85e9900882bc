//! How evenly links that share a load carry it.

use crate::report::{Imbalance, Options, Rail, Rails};
use crate::sample::{Direction, Sample};

/// The RoCE bytes of one link.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its direction.
    pub direction: Option<Direction>,
    /// RoCE bytes.
    pub bytes: u64,
}

/// One comparison for each group and each direction in which the group has two links or more:
/// first all links if that was asked for, then the named groups in their order.
#[must_use]
pub fn imbalances(links: &[Load<'_>], options: &Options) -> Vec<Imbalance> {
    let mut all = Vec::new();
    if options.imbalance_all_links {
        compare(links, |_| true, &mut all);
    }
    for group in &options.groups {
        compare(links, |name| group.iter().any(|member| member == name), &mut all);
    }
    all
}

fn compare(links: &[Load<'_>], member: impl Fn(&str) -> bool, all: &mut Vec<Imbalance>) {
    for direction in [Some(Direction::Ingress), Some(Direction::Egress), None] {
        let group = links.iter().filter(|link| link.direction == direction && member(link.name));
        let (names, bytes): (Vec<String>, Vec<f64>) =
            group.map(|link| (link.name.to_owned(), link.bytes as f64)).unzip();
        if names.len() < 2 || all.iter().any(|done| done.direction == direction && done.links == names) {
            continue;
        }
        all.push(Imbalance {
            links: names,
            direction,
            max_over_mean: max_over_mean(&bytes),
            jain: jain(&bytes),
        });
    }
}

/// The load of each rail, one list for each direction in which there are two rails or more.
pub(super) fn rails(links: &[Load<'_>], options: &Options) -> Vec<Rails> {
    let mut all = Vec::new();
    for direction in [Some(Direction::Ingress), Some(Direction::Egress), None] {
        let mut rails: Vec<Rail> = Vec::new();
        for (interface, name) in &options.rails {
            let at = rails.iter().position(|rail| rail.name == *name).unwrap_or_else(|| {
                rails.push(Rail { name: name.clone(), links: Vec::new(), bytes: 0 });
                rails.len() - 1
            });
            let (Some(rail), Some(link)) = (
                rails.get_mut(at),
                links.iter().find(|link| link.direction == direction && link.name == *interface),
            ) else {
                continue;
            };
            if !rail.links.iter().any(|name| name == link.name) {
                rail.links.push(link.name.to_owned());
                rail.bytes += link.bytes;
            }
        }
        rails.retain(|rail| !rail.links.is_empty());
        if rails.len() > 1 {
            let bytes: Vec<f64> = rails.iter().map(|rail| rail.bytes as f64).collect();
            all.push(Rails { direction, max_over_mean: max_over_mean(&bytes), jain: jain(&bytes), rails });
        }
    }
    all
}

fn max_over_mean(loads: &[f64]) -> Option<f64> {
    let sum: f64 = loads.iter().sum();
    (sum > 0.0).then(|| loads.iter().copied().fold(0.0, f64::max) * loads.len() as f64 / sum)
}

/// Jain's fairness index: 1 when all are equal, 1/n when one carries everything.
fn jain(loads: &[f64]) -> Option<f64> {
    let sum: f64 = loads.iter().sum();
    let squares: f64 = loads.iter().map(|load| load * load).sum();
    (squares > 0.0).then(|| sum * sum / (loads.len() as f64 * squares))
}

/// The names in `names` that no link of the sample has, so that the user can be told.
#[must_use]
pub fn unknown_names<'a>(sample: &Sample, names: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut names: Vec<String> = names.into_iter().cloned().collect();
    names.retain(|name| !sample.links.iter().any(|link| link.name == *name));
    names.sort();
    names.dedup();
    names
}
