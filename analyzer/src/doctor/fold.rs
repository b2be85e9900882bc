//! What is said alike of many is said once: a host has eight NICs with the same settings, and a job a
//! process for each.

use std::collections::BTreeMap;

use super::facts::HostFacts;

/// So many are named before the others are counted.
const NAMED: usize = 8;

/// Things of which the same is said, but for their own names.
#[derive(Debug)]
pub(super) struct Fold<'a, T> {
    /// The first; its words stand for all.
    pub(super) first: &'a T,
    /// What it is about and what the others are about, in their order.
    pub(super) subjects: Vec<&'a str>,
    /// Whether the words hold names of the first that are other ones with the others.
    pub(super) differs: bool,
}

impl<T> Fold<'_, T> {
    /// What they are about, in a list that ends where it becomes long.
    #[must_use]
    pub(super) fn label(&self) -> String {
        let more = self.subjects.len().saturating_sub(NAMED);
        let named = self.subjects.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        if more > 0 { format!("{named} and {more} more") } else { named }
    }
}

/// The names that belong to a subject, and what each of them is to it.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, Vec<(String, char)>>);

impl Names {
    /// Of everything on a host that something can be said of.
    #[must_use]
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
                    // Of an interface with several devices no name stands for one of them.
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

    /// The words with the subject's own names taken out.
    fn neutral(&self, subject: &str, words: &str) -> String {
        let own = self.0.get(subject).map(Vec::as_slice).unwrap_or_default();
        own.iter().fold(words.to_owned(), |words, (name, mark)| without(&words, name, *mark))
    }

    /// Folds `items` of which the same is said. The order is that of the first of each.
    pub(super) fn fold<'a, T>(
        &self,
        items: impl IntoIterator<Item = &'a T>,
        subject: impl Fn(&'a T) -> &'a str,
        words: impl Fn(&'a T) -> String,
    ) -> Vec<Fold<'a, T>> {
        let mut folds: Vec<Fold<'a, T>> = Vec::new();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for item in items {
            let (subject, words) = (subject(item), words(item));
            let neutral = self.neutral(subject, &words);
            let differs = neutral != words;
            if let Some(fold) = known.get(&neutral).and_then(|at| folds.get_mut(*at)) {
                fold.subjects.push(subject);
            } else {
                known.insert(neutral, folds.len());
                folds.push(Fold { first: item, subjects: vec![subject], differs });
            }
        }
        folds
    }
}

/// `words` with `mark` for each `name` that is a whole word.
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
    fn what_is_said_alike_is_said_once_and_what_is_not_is_not() {
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
        let folds = names.fold(&said, |(subject, _)| subject, |(_, words)| (*words).to_owned());
        let labels: Vec<_> = folds.iter().map(|fold| (fold.label(), fold.first.1, fold.differs)).collect();
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
        let folds = names.fold(&many, |name| name, |_| "x".to_owned());
        assert_eq!(folds[0].label(), "0, 1, 2, 3, 4, 5, 6, 7 and 3 more");
    }
}
