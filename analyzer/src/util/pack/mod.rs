//! Plain values as bytes and back, between two processes of the same version on one host.
//!
//! Values follow one another without names, whole numbers with seven bits a byte, so that a counter that is 0 takes
//! one. [`layout`] finds a value that two versions would read differently: it goes into every name and type that a
//! value is made of.

mod values;

use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::util::lock::Locked;

/// Longest text that is kept for ever, in bytes.
const LONGEST_NAME: usize = 256;
/// Texts that are kept for ever, at most: names of counters' sources, states and the like.
const MOST_NAMES: usize = 4096;
/// Memory that is set aside for a list before its values are there.
const MOST_AHEAD: usize = 1 << 20;

/// Bytes that are no such value: cut off, or of another layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are truncated, or of another layout")]
pub struct Malformed;

/// A value that can be packed.
pub trait Pack: Sized {
    /// Adds what it is made of.
    fn layout(layout: &mut Layout);
    /// Appends the value to the bytes.
    fn pack(&self, out: &mut Vec<u8>);
    /// Takes it from the front.
    ///
    /// # Errors
    /// The bytes are no such value.
    fn unpack(input: &mut Input<'_>) -> Result<Self, Malformed>;
}

/// The value as bytes.
pub fn packed<T: Pack>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    value.pack(&mut out);
    out
}

/// The value of these bytes, all of them.
///
/// # Errors
/// They are no such value, or more than one.
pub fn unpacked<T: Pack>(bytes: &[u8]) -> Result<T, Malformed> {
    unpacked_within(bytes, usize::MAX)
}

/// The value of these bytes, unless its lists would take more than `most` bytes of memory: an element of two bytes may
/// be a value of fifty.
///
/// # Errors
/// As of [`unpacked`], and if they would take more.
pub fn unpacked_within<T: Pack>(bytes: &[u8], most: usize) -> Result<T, Malformed> {
    let mut input = Input { rest: bytes, room: most };
    let value = T::unpack(&mut input)?;
    if input.rest.is_empty() { Ok(value) } else { Err(Malformed) }
}

/// The number of values of a packed list, before memory is set aside for them.
///
/// # Errors
/// The bytes begin with no such number.
pub fn packed_count(list: &[u8]) -> Result<usize, Malformed> {
    Input { rest: list, room: 0 }.count()
}

/// A number for the layout of a type: two programs that have the same read each other's bytes.
pub fn layout<T: Pack>() -> u64 {
    let mut layout = Layout(0xCBF2_9CE4_8422_2325);
    T::layout(&mut layout);
    layout.0
}

/// Names and types so far (FNV-1a).
#[derive(Debug)]
pub struct Layout(u64);

impl Layout {
    /// Adds a name to the layout.
    pub fn word(&mut self, word: &str) {
        for byte in word.bytes().chain([0]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }

    /// Adds the type of a field.
    pub fn field<T, F: Pack>(&mut self, name: &str, _: fn(&T) -> &F) {
        self.word(name);
        F::layout(self);
    }
}

/// Bytes that are still to be read.
#[derive(Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
    /// Memory that lists may still take, in bytes.
    room: usize,
}

impl<'a> Input<'a> {
    /// Takes the next `count` bytes.
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next bytes, of a number known beforehand.
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// A whole number.
    fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let [byte] = self.array()?;
            let bits = u64::from(byte & 0x7F);
            if bits << shift >> shift != bits {
                return Err(Malformed);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// Number of values that follow. Each takes a byte at least: a number that cannot be true costs no memory.
    fn count(&mut self) -> Result<usize, Malformed> {
        let count = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        if count <= self.rest.len() { Ok(count) } else { Err(Malformed) }
    }

    /// Number of values of a list that follow, for which there is room.
    fn count_of<T>(&mut self) -> Result<usize, Malformed> {
        let count = self.count()?;
        self.room = self.room.checked_sub(count.saturating_mul(size_of::<T>())).ok_or(Malformed)?;
        Ok(count)
    }
}

fn put_number(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7F) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7F) as u8);
}

/// A text that lives as long as the program. They are few, and bounded whatever comes.
fn kept(text: &str) -> Result<&'static str, Malformed> {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.locked();
    if let Some(known) = names.get(text) {
        return Ok(known);
    }
    if text.len() > LONGEST_NAME || names.len() >= MOST_NAMES {
        return Err(Malformed);
    }
    let text: &'static str = Box::leak(text.into());
    names.insert(text);
    Ok(text)
}

/// Makes [`Pack`] of types field by field: a field that is not named here does not compile.
macro_rules! pack {
    ($(struct $name:ty { $($field:ident),* $(,)? })*) => {$(
        impl $crate::util::pack::Pack for $name {
            fn layout(layout: &mut $crate::util::pack::Layout) {
                layout.word(stringify!($name));
                $(layout.field(stringify!($field), |value: &Self| &value.$field);)*
            }

            fn pack(&self, out: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($crate::util::pack::Pack::pack($field, out);)*
            }

            fn unpack(
                input: &mut $crate::util::pack::Input<'_>,
            ) -> Result<Self, $crate::util::pack::Malformed> {
                Ok(Self { $($field: $crate::util::pack::Pack::unpack(input)?),* })
            }
        }
    )*};
    ($(new $name:ty;)*) => {$(
        impl $crate::util::pack::Pack for $name {
            fn layout(layout: &mut $crate::util::pack::Layout) {
                layout.field(stringify!($name), |value: &Self| &value.0);
            }

            fn pack(&self, out: &mut Vec<u8>) {
                $crate::util::pack::Pack::pack(&self.0, out);
            }

            fn unpack(
                input: &mut $crate::util::pack::Input<'_>,
            ) -> Result<Self, $crate::util::pack::Malformed> {
                $crate::util::pack::Pack::unpack(input).map(Self)
            }
        }
    )*};
    ($(enum $name:ty { $($tag:literal => $variant:ident $(($($item:ident),*))? $({$($field:ident),*})?),* $(,)? })*) => {$(
        impl $crate::util::pack::Pack for $name {
            fn layout(layout: &mut $crate::util::pack::Layout) {
                layout.word(stringify!($name { $($tag $variant $(($($item),*))? $({$($field),*})?),* }));
            }

            fn pack(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $(($($item),*))? $({$($field),*})? => {
                        out.push($tag);
                        $($($crate::util::pack::Pack::pack($item, out);)*)?
                        $($($crate::util::pack::Pack::pack($field, out);)*)?
                    })*
                }
            }

            fn unpack(
                input: &mut $crate::util::pack::Input<'_>,
            ) -> Result<Self, $crate::util::pack::Malformed> {
                match <u8 as $crate::util::pack::Pack>::unpack(input)? {
                    $($tag => {
                        $($(let $item = $crate::util::pack::Pack::unpack(input)?;)*)?
                        $($(let $field = $crate::util::pack::Pack::unpack(input)?;)*)?
                        Ok(Self::$variant $(($($item),*))? $({$($field),*})?)
                    })*
                    _ => Err($crate::util::pack::Malformed),
                }
            }
        }
    )*};
}
pub(crate) use pack;

#[cfg(test)]
mod tests;
