//! Which findings name a flow: views mark rows by it, so that a badge and the findings cannot contradict one another.

use crate::sample::Address;
use crate::util::map::Map;

use super::{Finding, Severity};

/// A direction of a queue pair, wherever it is seen: source, destination and destination queue pair.
pub(super) type Name = (Address, Address, u32);

/// Flows, without the links that see them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowSet(Box<[Name]>);

impl FromIterator<Name> for FlowSet {
    fn from_iter<I: IntoIterator<Item = Name>>(names: I) -> Self {
        let mut names: Vec<Name> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        Self(names.into())
    }
}

impl FlowSet {
    /// Whether it holds this flow.
    #[must_use]
    pub fn contains(&self, name: &Name) -> bool {
        self.0.binary_search(name).is_ok()
    }

    /// All of them, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &Name> {
        self.0.iter()
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Memory in use beside the value itself, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.0.len() * size_of::<Name>()
    }
}

/// The worst finding of each flow.
#[derive(Clone, Debug, Default)]
pub struct FlowIndex {
    worst: Map<Name, (usize, u32)>,
}

impl FlowIndex {
    /// Of findings in the order of [`order::sort`](super::order::sort): the first that names a flow is its worst. Info
    /// findings mark no flow.
    #[must_use]
    pub fn of(findings: &[Finding]) -> Self {
        let mut worst: Map<Name, (usize, u32)> = Map::default();
        for (at, finding) in findings.iter().enumerate().filter(|(_, one)| one.severity > Severity::Info) {
            for name in finding.named.iter() {
                worst.entry(*name).or_insert((at, 0)).1 += 1;
            }
        }
        Self { worst }
    }

    /// The place of the flow's worst finding in the list, and how many findings above info name the flow.
    #[must_use]
    pub fn worst(&self, src: Address, dst: Address, dest_qp: u32) -> Option<(usize, u32)> {
        self.worst.get(&(src, dst, dest_qp)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
