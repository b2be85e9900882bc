//! Grouping of entries that differ only in the names of their subjects: a host has eight NICs with the
//! same settings, and a job one process for each.

use std::collections::BTreeMap;

use super::facts::HostFacts;

/// The number of subjects listed by name; further ones are counted.
const NAMED: usize = 8;

/// Entries with the same text apart from the names of their subjects.
#[derive(Debug)]
pub(super) struct Group<'a, T> {
    /// The first entry, whose text represents the group.
    pub(super) first: &'a T,
    /// The subjects of all entries, in order.
    pub(super) subjects: Vec<&'a str>,
    /// True when the text contains names that differ between the entries.
    pub(super) differs: bool,
}

impl<T> Group<'_, T> {
    /// The subjects, the list cut after [`NAMED`].
    pub(super) fn label(&self) -> String {
        let more = self.subjects.len().saturating_sub(NAMED);
        let named = self.subjects.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        if more > 0 { format!("{named} and {more} more") } else { named }
    }
}

/// The names that belong to each subject, with a mark for the role of each: device, interface, PCI address, PID.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, Vec<(String, char)>>);

impl Names {
    /// The names of every possible subject on a host.
    pub(super) fn of(host: &HostFacts) -> Self {
        let mut names: BTreeMap<String, Vec<(String, char)>> = BTreeMap::new();
        for device in &host.devices {
            let pci = device.pci.as_ref().map(|pci| (pci.address.clone(), '\u{1}'));
            for port in &device.ports {
                let interface = port.port.interface.clone();
                let mut own = vec![(device.name.clone(), '\u{2}')];
                own.extend(interface.iter().map(|name| (name.clone(), '\u{3}')));
                own.extend(pci.clone());
                for subject in [Some(format!("{}/{}", device.name, port.port.number)), interface] {
                    // An interface with several devices keeps the names of the first.
                    subject.map(|subject| names.entry(subject).or_insert_with(|| own.clone()));
                }
                names.entry(device.name.clone()).or_insert(own);
            }
        }
        for interface in &host.interfaces {
            names.entry(interface.name.clone()).or_insert_with(|| vec![(interface.name.clone(), '\u{3}')]);
        }
        for process in &host.processes {
            let pid = process.pid.to_string();
            names.insert(process.label(), vec![(pid, '\u{4}')]);
        }
        Self(names)
    }

    /// The text with the subject's own names replaced by their marks.
    fn neutral(&self, subject: &str, words: &str) -> String {
        let own = self.0.get(subject).map(Vec::as_slice).unwrap_or_default();
        own.iter().fold(words.to_owned(), |words, (name, mark)| without(&words, name, *mark))
    }

    /// Groups `items` with the same text, in the order of the first of each group.
    pub(super) fn group<'a, T>(
        &self,
        items: impl IntoIterator<Item = &'a T>,
        subject: impl Fn(&'a T) -> &'a str,
        words: impl Fn(&'a T) -> String,
    ) -> Vec<Group<'a, T>> {
        let mut groups: Vec<Group<'a, T>> = Vec::new();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for item in items {
            let (subject, words) = (subject(item), words(item));
            let neutral = self.neutral(subject, &words);
            let differs = neutral != words;
            if let Some(group) = known.get(&neutral).and_then(|at| groups.get_mut(*at)) {
                group.subjects.push(subject);
            } else {
                known.insert(neutral, groups.len());
                groups.push(Group { first: item, subjects: vec![subject], differs });
            }
        }
        groups
    }
}

/// `words` with `mark` in place of each `name` that is a whole word.
fn without(words: &str, name: &str, mark: char) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::with_capacity(words.len());
    let mut rest = words;
    while let Some((before, after)) = rest.split_once(name).filter(|_| !name.is_empty()) {
        out.push_str(before);
        let is_whole =
            !out.chars().next_back().is_some_and(is_part) && !after.chars().next().is_some_and(is_part);
        if is_whole {
            out.push(mark);
        } else {
            out.push_str(name);
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_verdicts_are_grouped_and_others_are_not() {
        let names = Names(BTreeMap::from([
            ("mlx5_1/1".to_owned(), vec![("mlx5_1".to_owned(), '\u{2}'), ("eth1".to_owned(), '\u{3}')]),
            ("mlx5_10/1".to_owned(), vec![("mlx5_10".to_owned(), '\u{2}'), ("eth10".to_owned(), '\u{3}')]),
        ]));
        let said = [
            ("mlx5_1/1", "set eth1 of mlx5_1 (mlx5_10 too)"),
            ("mlx5_10/1", "set eth10 of mlx5_10 (mlx5_10 too)"),
            ("mlx5_1/1", "off"),
            ("mlx5_10/1", "off"),
            ("host", "off"),
            ("mlx5_10/1", "set eth1 of mlx5_10"),
            ("mlx5_1/1", "set eth1 of mlx5_1"),
        ];
        let groups = names.group(&said, |(subject, _)| subject, |(_, words)| (*words).to_owned());
        let labels: Vec<_> =
            groups.iter().map(|group| (group.label(), group.first.1, group.differs)).collect();
        assert_eq!(
            labels,
            [
                ("mlx5_1/1".to_owned(), "set eth1 of mlx5_1 (mlx5_10 too)", true),
                ("mlx5_10/1".to_owned(), "set eth10 of mlx5_10 (mlx5_10 too)", true),
                ("mlx5_1/1, mlx5_10/1, host".to_owned(), "off", false),
                ("mlx5_10/1".to_owned(), "set eth1 of mlx5_10", true),
                ("mlx5_1/1".to_owned(), "set eth1 of mlx5_1", true),
            ]
        );
        let many: Vec<String> = (0..11).map(|n| n.to_string()).collect();
        let groups = names.group(&many, |name| name, |_| "x".to_owned());
        assert_eq!(groups[0].label(), "0, 1, 2, 3, 4, 5, 6, 7 and 3 more");
    }
}
