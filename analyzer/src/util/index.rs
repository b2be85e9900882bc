//! Numbers of the items of a list, by keys that the items hold themselves: a sixth of the memory of a map, whose keys
//! would be there twice.

use std::hash::{BuildHasher as _, Hash};

use hashbrown::HashTable;

use super::map::State;

/// Finds items. `key_of` gives the key of the item with a number; it must not change while the item is in the index.
#[derive(Clone, Debug, Default)]
pub struct Index {
    numbers: HashTable<u32>,
    hasher: State,
}

impl Index {
    /// The number of the item with this key.
    pub fn get<K: Hash + Eq>(&self, key: &K, key_of: impl Fn(u32) -> Option<K>) -> Option<u32> {
        let same = |number: &u32| key_of(*number).as_ref() == Some(key);
        self.numbers.find(self.hasher.hash_one(key), same).copied()
    }

    /// Adds an item, whose key no other has.
    pub fn insert<K: Hash>(&mut self, key: &K, number: u32, key_of: impl Fn(u32) -> Option<K>) {
        let hasher = &self.hasher;
        let hash = |number: &u32| key_of(*number).map_or(0, |key| hasher.hash_one(key));
        self.numbers.insert_unique(hasher.hash_one(key), number, hash);
    }

    /// Removes the item with this key and number.
    pub fn remove<K: Hash>(&mut self, key: &K, number: u32) {
        if let Ok(entry) = self.numbers.find_entry(self.hasher.hash_one(key), |other| *other == number) {
            entry.remove();
        }
    }

    /// Puts another item, which has the same key, in the place of one.
    pub fn replace<K: Hash>(&mut self, key: &K, number: u32, by: u32) {
        if let Some(place) = self.numbers.find_mut(self.hasher.hash_one(key), |other| *other == number) {
            *place = by;
        }
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Index;

    #[test]
    fn items_are_found_until_they_are_removed() {
        let list: Vec<String> = (0..1_000).map(|n| format!("item {n}")).collect();
        let key_of = |number: u32| list.get(number as usize).cloned();
        let mut index = Index::default();
        for (number, key) in (0..).zip(&list) {
            assert_eq!(index.get(key, key_of), None);
            index.insert(key, number, key_of);
        }
        assert!((0..).zip(&list).all(|(number, key)| index.get(key, key_of) == Some(number)));
        index.remove(&list[7], 7);
        assert_eq!((index.get(&list[7], key_of), index.len(), index.is_empty()), (None, 999, false));
        // Another item with the key of this one.
        let other = |number: u32| if number == 2_000 { key_of(8) } else { key_of(number) };
        index.replace(&list[8], 8, 2_000);
        assert_eq!(index.get(&list[8], other), Some(2_000));
    }
}
