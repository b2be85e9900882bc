//! Values that are nearly always the default.

use std::marker::PhantomData;

use serde::{Serialize, Serializer};

use super::constant::Constant;

/// A value that may not be known and is nearly always the default one; it takes 16 bytes then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BoxedUnlessDefault<T> {
    /// Not known.
    #[default]
    Unknown,
    /// The value is its type's default.
    Default,
    /// Any other.
    Other(Box<T>),
}

impl<T: Copy + Default> BoxedUnlessDefault<T> {
    /// The value; `None` where it is not known.
    pub fn get(&self) -> Option<T> {
        match self {
            Self::Unknown => None,
            Self::Default => Some(T::default()),
            Self::Other(value) => Some(**value),
        }
    }
}

impl<T> BoxedUnlessDefault<T> {
    /// True if the value is known.
    pub const fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown)
    }

    /// The value, unless it is the default one or not known.
    pub fn other(&self) -> Option<&T> {
        match self {
            Self::Unknown | Self::Default => None,
            Self::Other(value) => Some(value),
        }
    }
}

impl<T: Default + PartialEq> From<Option<T>> for BoxedUnlessDefault<T> {
    fn from(value: Option<T>) -> Self {
        match value {
            None => Self::Unknown,
            Some(value) if value == T::default() => Self::Default,
            Some(value) => Self::Other(Box::new(value)),
        }
    }
}

impl<T: Default + Serialize> Serialize for BoxedUnlessDefault<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unknown => serializer.serialize_none(),
            Self::Default => serializer.serialize_some(&Constant(&DefaultOf::<T>(PhantomData))),
            Self::Other(value) => serializer.serialize_some(value),
        }
    }
}

/// The default of a type, made where it is asked for.
struct DefaultOf<T>(PhantomData<T>);

impl<T: Default + Serialize> Serialize for DefaultOf<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        T::default().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::BoxedUnlessDefault;

    #[test]
    fn what_goes_in_comes_out() {
        for value in [None, Some(0), Some(7)] {
            let boxed = BoxedUnlessDefault::from(value);
            assert_eq!((boxed.get(), boxed.other().copied()), (value, value.filter(|value| *value != 0)));
            assert_eq!(boxed.is_known(), value.is_some());
            assert_eq!(serde_json::to_string(&boxed).unwrap(), serde_json::to_string(&value).unwrap());
        }
        assert_eq!(size_of::<BoxedUnlessDefault<[u64; 9]>>(), 16);
    }
}
