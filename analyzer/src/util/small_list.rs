//! Lists that nearly always have one value.

use std::ops::{Deref, DerefMut};

/// A list. One value needs no memory of its own.
#[derive(Clone, Debug)]
pub enum SmallList<T> {
    /// The only value, which needs no memory of its own.
    One(T),
    /// Several values, or none.
    Many(Vec<T>),
}

impl<T> SmallList<T> {
    /// Adds a value at the end.
    pub fn push(&mut self, value: T) {
        *self = match std::mem::take(self) {
            Self::One(first) => Self::Many(vec![first, value]),
            Self::Many(list) if list.is_empty() => Self::One(value),
            Self::Many(mut list) => {
                list.push(value);
                Self::Many(list)
            }
        };
    }

    /// Takes the value at the end.
    pub fn pop(&mut self) -> Option<T> {
        match std::mem::take(self) {
            Self::One(value) => Some(value),
            Self::Many(mut list) => {
                let end = list.pop();
                *self = Self::Many(list);
                end
            }
        }
    }

    /// Takes the value at the front.
    pub fn pop_front(&mut self) -> Option<T> {
        match std::mem::take(self) {
            Self::One(value) => Some(value),
            Self::Many(mut list) => {
                let first = (!list.is_empty()).then(|| list.remove(0));
                *self = Self::Many(list);
                first
            }
        }
    }
}

impl<T> Default for SmallList<T> {
    /// A list without values.
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl<T> From<Vec<T>> for SmallList<T> {
    fn from(mut list: Vec<T>) -> Self {
        match (list.pop(), list.is_empty()) {
            (Some(only), true) => Self::One(only),
            (end, _) => {
                list.extend(end);
                Self::Many(list)
            }
        }
    }
}

impl<T> Deref for SmallList<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(list) => list,
        }
    }
}

impl<T> DerefMut for SmallList<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::One(value) => std::slice::from_mut(value),
            Self::Many(list) => list,
        }
    }
}

impl<T: PartialEq> PartialEq for SmallList<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for SmallList<T> {}

#[cfg(test)]
mod tests {
    use super::SmallList;

    #[test]
    fn it_is_a_list() {
        for from in 0..4 {
            let mut list: Vec<u8> = (0..from).collect();
            let mut small = SmallList::from(list.clone());
            for value in 7..10 {
                list.push(value);
                small.push(value);
                assert_eq!(*small, *list);
            }
            small[0] = 5;
            list[0] = 5;
            while !list.is_empty() {
                assert_eq!((small.pop_front(), small.len()), (Some(list.remove(0)), list.len()));
                assert_eq!((small.pop(), &*small), (list.pop(), &*list));
            }
            assert_eq!((small.pop(), small.pop_front(), small.len()), (None, None, 0));
            assert_eq!(small, SmallList::default());
        }
        assert_eq!(SmallList::from(vec![3]), SmallList::One(3));
    }
}
