//! The list of a sample's flows, and what becomes of its memory.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

use super::FlowSample;

use crate::util::lock::Locked;

/// Flows, in the order in which they appeared.
///
/// A list of 65,536 takes 22 MB. Fresh memory of that size costs the kernel as long to clear as it
/// takes to fill, so a list made of [`SpareList`] gives its memory back there when it is dropped.
#[derive(Debug, Default)]
pub struct Flows {
    list: Vec<FlowSample>,
    spare: Option<SpareList>,
}

/// The memory of one list that is not in use, for the next.
#[derive(Clone, Debug, Default)]
pub struct SpareList(Arc<Mutex<Vec<FlowSample>>>);

impl SpareList {
    /// An empty list, in memory that was used before when there is some: as much as `flows` flows need,
    /// and not so much more that it would be kept for nothing.
    #[must_use]
    pub fn list(&self, flows: usize) -> Flows {
        const LITTLE: usize = 1024;
        let used = std::mem::take(&mut *self.0.locked());
        let fits = (flows..=4 * flows.max(LITTLE)).contains(&used.capacity());
        Flows { list: if fits { used } else { Vec::new() }, spare: Some(self.clone()) }
    }
}

impl Flows {
    /// The list alone: its memory is no spare any more.
    pub fn into_vec(mut self) -> Vec<FlowSample> {
        std::mem::take(&mut self.list)
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        let Some(SpareList(kept)) = &self.spare else { return };
        self.list.clear();
        let mut kept = kept.locked();
        if kept.capacity() < self.list.capacity() {
            *kept = std::mem::take(&mut self.list);
        }
    }
}

impl Clone for Flows {
    fn clone(&self) -> Self {
        self.list.clone().into()
    }
}

impl Deref for Flows {
    type Target = Vec<FlowSample>;

    fn deref(&self) -> &Self::Target {
        &self.list
    }
}

impl DerefMut for Flows {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.list
    }
}

impl From<Vec<FlowSample>> for Flows {
    fn from(list: Vec<FlowSample>) -> Self {
        Self { list, spare: None }
    }
}

impl FromIterator<FlowSample> for Flows {
    fn from_iter<T: IntoIterator<Item = FlowSample>>(flows: T) -> Self {
        Vec::from_iter(flows).into()
    }
}

impl IntoIterator for Flows {
    type Item = FlowSample;
    type IntoIter = std::vec::IntoIter<FlowSample>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_vec().into_iter()
    }
}

impl<'a> IntoIterator for &'a Flows {
    type Item = &'a FlowSample;
    type IntoIter = std::slice::Iter<'a, FlowSample>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

impl<'a> IntoIterator for &'a mut Flows {
    type Item = &'a mut FlowSample;
    type IntoIter = std::slice::IterMut<'a, FlowSample>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Stats;
    use rocescope_common::account::FlowKey;

    fn filled(spare: &SpareList, flows: u32) -> Flows {
        let mut list = spare.list(flows as usize);
        list.extend((0..flows).map(|slot| FlowSample {
            slot,
            key: FlowKey::default(),
            stats: Stats::default(),
        }));
        list
    }

    #[test]
    fn a_dropped_list_is_the_memory_of_the_next() {
        let spare = SpareList::default();
        let first = filled(&spare, 5_000);
        let memory = first.as_ptr();
        let second = filled(&spare, 5_000);
        assert_ne!(second.as_ptr(), memory, "the first is still in use");
        drop(first);
        let third = filled(&spare, 5_000);
        assert_eq!((third.as_ptr(), third.len()), (memory, 5_000));
        // What a view keeps of it does not come back.
        assert_eq!(third.clone().len(), 5_000);
        assert_eq!(third.into_iter().count(), 5_000);
        drop(second);
        assert!(spare.list(5_000).is_empty());
    }

    #[test]
    fn much_memory_is_not_kept_for_few_flows() {
        let spare = SpareList::default();
        drop(filled(&spare, 50_000));
        assert_eq!(spare.list(10).capacity(), 0);
        drop(filled(&spare, 100));
        // Too little is of no use.
        assert_eq!(spare.list(50_000).capacity(), 0);
    }
}
