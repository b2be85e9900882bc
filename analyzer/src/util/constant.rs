//! Values that are the same wherever they are written.

use std::any::type_name;

use serde::{Serialize, Serializer};

/// Serializes as the value does, which must be the same for all of the type `T`. A serializer that
/// [looks for it](is_constant) may keep the text: no two types whose values differ may have the same path, of which the
/// name is made.
#[derive(Clone, Copy, Debug)]
pub struct Constant<'v, T>(pub &'v T);

impl<T: Serialize> Serialize for Constant<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(type_name::<Self>(), self.0)
    }
}

/// True if a newtype struct of this name is a [`Constant`]; the name is that of one type, as long as no two have the
/// same path.
pub fn is_constant(name: &str) -> bool {
    name.starts_with(module_path!())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_known_by_their_name_and_written_as_they_are() {
        let name = type_name::<Constant<'_, u8>>();
        assert!(is_constant(name) && !is_constant("Constant") && !is_constant(type_name::<u8>()));
        assert_ne!(name, type_name::<Constant<'_, u16>>());
        assert_eq!(serde_json::to_string(&Constant(&[7])).unwrap(), "[7]");
    }
}
