//! Places in a list, sorted by a key: questions about one of its elements do not walk them all.

use std::sync::OnceLock;

/// Places of the elements of a list, found when they are first asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(OnceLock<Box<[u32]>>);

/// It follows from the list.
impl PartialEq for Places {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Places {
    /// The elements with this key, in the order of the list. `sorted_by`: the key of them all, always the same, of
    /// which `key_of` is a first part.
    pub(super) fn range<'a, T, S: Ord, K: Ord>(
        &'a self,
        list: &'a [T],
        sorted_by: impl Fn(&'a T) -> S,
        key: K,
        key_of: impl Fn(&'a T) -> K,
    ) -> impl Iterator<Item = &'a T> {
        let at = |place: &u32| list.get(*place as usize);
        let places = self.0.get_or_init(|| {
            let mut places: Vec<u32> = (0u32..).zip(list).map(|(place, _)| place).collect();
            places.sort_by_key(|place| at(place).map(&sorted_by));
            places.into()
        });
        let first = places.partition_point(|place| at(place).is_some_and(|one| key_of(one) < key));
        let from_first = places.get(first..).unwrap_or_default().iter().filter_map(at);
        from_first.take_while(move |one| key_of(one) == key)
    }
}
