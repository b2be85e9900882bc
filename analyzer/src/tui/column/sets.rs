//! Sets of columns for one question each. A key goes through them, and the configuration file knows their names.

pub use super::table::{SETS, Set};
use super::{Id, by_name};

/// The columns that a name stands for: a set's, or the one of this name; `None` where there is neither.
pub fn named(name: &str) -> Option<Vec<Id>> {
    let set = SETS.iter().find(|set| set.name == name).map(|set| set.columns.to_vec());
    set.or_else(|| Some(vec![by_name(name)?.id]))
}

/// The set that has exactly these columns.
pub fn of(columns: &[Id]) -> Option<&'static Set> {
    SETS.iter().find(|set| set.columns == columns)
}

/// The columns after `shown` in the circle of the sets; `own`, those that the user chose one by one, follow the last
/// set.
pub fn next(shown: &[Id], own: &[Id]) -> Vec<Id> {
    let at = SETS.iter().position(|set| set.columns == shown);
    let own = Some(own).filter(|own| of(own).is_none());
    match (at.map(|at| SETS.get(at + 1)), own) {
        (Some(Some(set)), _) => set.columns.to_vec(),
        (Some(None), Some(own)) => own.to_vec(),
        (Some(None), None) | (None, _) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::column::COLUMNS;

    #[test]
    fn a_name_stands_for_one_thing_and_no_set_has_a_column_twice() {
        for set in SETS {
            assert!(by_name(set.name).is_none(), "{} is a column too", set.name);
            for (at, id) in set.columns.iter().enumerate() {
                assert!(!set.columns[..at].contains(id), "{}: {id:?}", set.name);
            }
            assert_eq!(of(set.columns).map(|set| set.name), Some(set.name));
            assert_eq!(named(set.name).as_deref(), Some(set.columns));
        }
        assert_eq!(named("qp"), Some(vec![Id::Qp]));
        assert_eq!(named("rait"), None);
        // Each column but those of the choice alone is in some set.
        let unused = COLUMNS.iter().filter(|column| !SETS.iter().any(|set| set.columns.contains(&column.id)));
        assert_eq!(unused.map(|column| column.name).collect::<Vec<_>>(), Vec::<&str>::new());
    }

    #[test]
    fn the_key_goes_through_all_sets_and_back_to_what_was_chosen() {
        let circle = |own: &[Id]| {
            let mut shown = own.to_vec();
            let mut names = Vec::new();
            for _ in 0..=SETS.len() {
                shown = next(&shown, own);
                names.push(of(&shown).map_or("own", |set| set.name));
            }
            names
        };
        assert_eq!(circle(&[]), ["health", "latency", "traffic", "identity", "automatic", "health"]);
        let own = [Id::Qp, Id::Rate];
        assert_eq!(circle(&own), ["automatic", "health", "latency", "traffic", "identity", "own"]);
    }
}
