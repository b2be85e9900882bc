//! Values that are nearly always the default.

use std::marker::PhantomData;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::constant::Constant;

/// A value that may not be known and is nearly always the default one; it takes 8 bytes then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoxedUnlessDefault<T>(Option<Arc<T>>);

/// A type whose values [`BoxedUnlessDefault`] holds.
pub trait SharedDefault: Copy + Default + PartialEq + 'static {
    /// The default value, one for all.
    fn shared() -> &'static Arc<Self>;
}

/// Makes one default value for all of each type.
macro_rules! shared_default {
    ($($type:ty),*) => {$(
        impl $crate::util::boxed_unless_default::SharedDefault for $type {
            fn shared() -> &'static std::sync::Arc<Self> {
                static DEFAULT: std::sync::LazyLock<std::sync::Arc<$type>> =
                    std::sync::LazyLock::new(std::sync::Arc::default);
                &DEFAULT
            }
        }
    )*};
}
pub(crate) use shared_default;

impl<T> Default for BoxedUnlessDefault<T> {
    /// Not known.
    fn default() -> Self {
        Self(None)
    }
}

impl<T: SharedDefault> BoxedUnlessDefault<T> {
    /// The value; `None` where it is not known.
    pub fn get(&self) -> Option<T> {
        self.0.as_deref().copied()
    }

    /// True if the value is known.
    pub const fn is_known(&self) -> bool {
        self.0.is_some()
    }

    /// The value, unless it is the default one or not known.
    pub fn other(&self) -> Option<&T> {
        self.0.as_ref().filter(|value| !Arc::ptr_eq(value, T::shared())).map(AsRef::as_ref)
    }
}

impl<T: SharedDefault> From<Option<T>> for BoxedUnlessDefault<T> {
    fn from(value: Option<T>) -> Self {
        Self(value.map(|value| if value == T::default() { Arc::clone(T::shared()) } else { Arc::new(value) }))
    }
}

impl<T: SharedDefault + Serialize> Serialize for BoxedUnlessDefault<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (&self.0, self.other()) {
            (None, _) => serializer.serialize_none(),
            (Some(_), None) => serializer.serialize_some(&Constant(&DefaultOf::<T>(PhantomData))),
            (Some(_), Some(value)) => serializer.serialize_some(value),
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

    shared_default!(i32);

    #[test]
    fn what_goes_in_comes_out() {
        for value in [None, Some(0), Some(7)] {
            let boxed = BoxedUnlessDefault::from(value);
            assert_eq!((boxed.get(), boxed.other().copied()), (value, value.filter(|value| *value != 0)));
            assert_eq!(boxed.is_known(), value.is_some());
            assert_eq!(serde_json::to_string(&boxed).unwrap(), serde_json::to_string(&value).unwrap());
        }
        assert_eq!(size_of::<BoxedUnlessDefault<i32>>(), 8);
    }
}
