//! Maps and sets of values that no sender can choose freely enough to make their hashes collide for long: each has a
//! seed of its own.

/// The hash function of all of them: fast, with a random seed.
pub type State = foldhash::fast::RandomState;

/// A hash map. The order of its entries differs from run to run.
pub type Map<K, V> = hashbrown::HashMap<K, V, State>;

/// A hash set. The order of its values differs from run to run.
pub type Set<T> = hashbrown::HashSet<T, State>;
