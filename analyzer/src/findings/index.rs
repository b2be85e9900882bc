//! Findings by the flows that they name: views mark rows by them, so that badges and findings never contradict one
//! another.

use std::sync::Arc;

use super::Finding;
use crate::sample::Address;
use crate::util::map::Map;

/// A direction of a queue pair, on whatever link: source, destination and destination queue pair.
pub(super) type Name = (Address, Address, u32);

/// A set of flows, regardless of link. Copies share the list: one may name a million.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowSet(Arc<Box<[Name]>>);

impl FromIterator<Name> for FlowSet {
    fn from_iter<I: IntoIterator<Item = Name>>(names: I) -> Self {
        let mut names: Vec<Name> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        Self(Arc::new(names.into()))
    }
}

impl FlowSet {
    /// True if it contains this flow.
    pub fn contains(&self, name: &Name) -> bool {
        self.0.binary_search(name).is_ok()
    }

    /// Those from one host to another.
    pub(super) fn between(&self, src: Address, dst: Address) -> &[Name] {
        let from = self.0.partition_point(|(a, b, _)| (*a, *b) < (src, dst));
        let own = self.0.get(from..).unwrap_or_default();
        own.get(..own.partition_point(|(a, b, _)| (*a, *b) == (src, dst))).unwrap_or_default()
    }

    /// All flows, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &Name> {
        self.0.iter()
    }

    /// Number of flows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Memory in use beyond the value itself, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.len() * size_of::<Name>()
    }
}

/// Findings by the hosts that they name, in the order of the checks.
#[derive(Debug, Default)]
pub(super) struct ByHosts(Map<(Address, Address), Vec<usize>>);

impl ByHosts {
    pub(super) fn of(found: &[Finding]) -> Self {
        let mut all = Self::default();
        all.add(found, 0);
        all
    }

    /// Adds those from this place on.
    pub(super) fn add(&mut self, found: &[Finding], from: usize) {
        for (at, finding) in found.iter().enumerate().skip(from) {
            let mut before = None;
            for (src, dst, _) in finding.named.iter() {
                let hosts = (*src.min(dst), *src.max(dst));
                if before.replace(hosts) == Some(hosts) {
                    continue;
                }
                let known = self.0.entry(hosts).or_default();
                if known.last() != Some(&at) {
                    known.push(at);
                }
            }
        }
    }

    /// Those that concern two hosts, in either direction.
    pub(super) fn between<'f>(
        &self,
        found: &'f [Finding],
        (src, dst): (Address, Address),
    ) -> impl Iterator<Item = &'f Finding> {
        self.0.get(&(src.min(dst), src.max(dst))).into_iter().flatten().filter_map(|at| found.get(*at))
    }
}

/// The worst finding of each flow.
#[derive(Clone, Debug, Default)]
pub struct FlowIndex {
    worst: Map<Name, (usize, u32)>,
}

impl FlowIndex {
    /// For findings in the order of [`order::sort`](super::order::sort), the first one that names a flow is its
    /// worst. Info findings do not mark flows.
    pub fn of(findings: &[Finding]) -> Self {
        let mut worst: Map<Name, (usize, u32)> = Map::default();
        for (at, finding) in findings.iter().enumerate().filter(|(_, one)| one.is_problem()) {
            for name in finding.named.iter() {
                worst.entry(*name).or_insert((at, 0)).1 += 1;
            }
        }
        Self { worst }
    }

    /// Index of the flow's worst finding, and the number of findings above info that name the flow.
    pub fn worst(&self, src: Address, dst: Address, dest_qp: u32) -> Option<(usize, u32)> {
        self.worst.get(&(src, dst, dest_qp)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Severity;

    #[test]
    fn the_first_finding_that_names_a_flow_is_its_worst() {
        let [a, b] = [1, 2].map(|host| Address::from([10, 0, 0, host]));
        let finding = |severity, names: &[Name]| Finding {
            named: names.iter().copied().collect(),
            ..Finding::new("loss.before_tap", severity, String::new())
        };
        let all = [
            finding(Severity::Critical, &[(a, b, 17)]),
            finding(Severity::Warning, &[(a, b, 18), (a, b, 17), (a, b, 18)]),
            finding(Severity::Info, &[(b, a, 19)]),
        ];
        let index = FlowIndex::of(&all);
        assert_eq!(index.worst(a, b, 17), Some((0, 2)));
        assert_eq!(index.worst(a, b, 18), Some((1, 1)));
        assert_eq!(index.worst(b, a, 19), None);
        assert_eq!(all[1].named.len(), 2);
        assert_eq!(all[1].named.between(a, b), [(a, b, 17), (a, b, 18)]);
        assert_eq!(all[2].named.between(a, b), []);
    }
}
