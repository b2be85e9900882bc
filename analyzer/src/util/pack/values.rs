//! Numbers, texts, lists and maps.

use std::collections::VecDeque;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use bytes::Bytes;

use super::{Input, Layout, MOST_AHEAD, Malformed, Pack, kept, put_number};
use crate::util::boxed_unless_zero::{BoxedUnlessZero, Zero};
use crate::util::map::{Map, Set};
use crate::util::shared::Shared;
use crate::util::small_list::SmallList;

/// Whole numbers without a sign.
macro_rules! numbers {
    ($($name:ty, $own:ident => $wide:expr;)*) => {$(
        impl Pack for $name {
            fn layout(layout: &mut Layout) {
                layout.word(stringify!($name));
            }

            fn pack(&self, out: &mut Vec<u8>) {
                let $own = *self;
                put_number($wide, out);
            }

            fn unpack(input: &mut Input<'_>) -> Result<Self, Malformed> {
                input.number()?.try_into().map_err(|_| Malformed)
            }
        }
    )*};
}
numbers! {
    u16, own => own.into();
    u32, own => own.into();
    u64, own => own;
    usize, own => own as u64;
}

/// Values of a fixed number of bytes.
macro_rules! fixed {
    ($($name:ty),*) => {$(
        impl Pack for $name {
            fn layout(layout: &mut Layout) {
                layout.word(stringify!($name));
            }

            fn pack(&self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }

            fn unpack(input: &mut Input<'_>) -> Result<Self, Malformed> {
                input.array().map(Self::from_le_bytes)
            }
        }
    )*};
}
fixed!(u8, i32, i64, f64);

impl Pack for bool {
    fn layout(layout: &mut Layout) {
        layout.word("bool");
    }

    fn pack(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn unpack(input: &mut Input<'_>) -> Result<Self, Malformed> {
        match u8::unpack(input)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }
}

fn text<'a>(input: &mut Input<'a>) -> Result<&'a str, Malformed> {
    let count = input.count()?;
    std::str::from_utf8(input.take(count)?).map_err(|_| Malformed)
}

/// Types that are packed as texts.
macro_rules! texts {
    ($($name:ty => $of:expr),*) => {$(
        impl Pack for $name {
            fn layout(layout: &mut Layout) {
                layout.word("text");
            }

            fn pack(&self, out: &mut Vec<u8>) {
                put_number(self.len() as u64, out);
                out.extend(self.as_bytes());
            }

            fn unpack(input: &mut Input<'_>) -> Result<Self, Malformed> {
                text(input).and_then($of)
            }
        }
    )*};
}
texts!(String => |text| Ok(text.to_owned()), Shared => |text| Ok(text.into()), &'static str => kept);

impl Pack for Bytes {
    fn layout(layout: &mut Layout) {
        layout.word("bytes");
    }

    fn pack(&self, out: &mut Vec<u8>) {
        put_number(self.len() as u64, out);
        out.extend(self.as_ref());
    }

    fn unpack(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let count = input.count()?;
        input.take(count).map(Self::copy_from_slice)
    }
}

impl Pack for IpAddr {
    fn layout(layout: &mut Layout) {
        layout.word("address");
    }

    fn pack(&self, out: &mut Vec<u8>) {
        match self {
            Self::V4(ip) => {
                out.push(4);
                out.extend(ip.octets());
            }
            Self::V6(ip) => {
                out.push(6);
                out.extend(ip.octets());
            }
        }
    }

    fn unpack(input: &mut Input<'_>) -> Result<Self, Malformed> {
        match u8::unpack(input)? {
            4 => Ok(Ipv4Addr::from(input.array::<4>()?).into()),
            6 => Ok(Ipv6Addr::from(input.array::<16>()?).into()),
            _ => Err(Malformed),
        }
    }
}

impl<T: Pack> Pack for Option<T> {
    fn layout(layout: &mut Layout) {
        layout.word("option");
        T::layout(layout);
    }

    fn pack(&self, out: &mut Vec<u8>) {
        self.is_some().pack(out);
        if let Some(value) = self {
            value.pack(out);
        }
    }

    fn unpack(input: &mut Input<'_>) -> Result<Self, Malformed> {
        bool::unpack(input)?.then(|| T::unpack(input)).transpose()
    }
}

/// Implements packing for pointers, whose value has another place in memory only.
macro_rules! places {
    ($($name:ident<T: $bound:ident>),*) => {$(
        impl<T: Pack + $bound> Pack for $name<T> {
            fn layout(layout: &mut Layout) {
                T::layout(layout);
            }

            fn pack(&self, out: &mut Vec<u8>) {
                T::pack(self, out);
            }

            fn unpack(input: &mut Input<'_>) -> Result<Self, Malformed> {
                T::unpack(input).map(Self::from)
            }
        }
    )*};
}
places!(Arc<T: Sized>, Box<T: Sized>, BoxedUnlessZero<T: Zero>);

/// Writes the number of values, and all of them.
fn put_list<'a, T: Pack + 'a>(values: impl ExactSizeIterator<Item = &'a T>, out: &mut Vec<u8>) {
    put_number(values.len() as u64, out);
    for value in values {
        value.pack(out);
    }
}

impl<T: Pack> Pack for Vec<T> {
    fn layout(layout: &mut Layout) {
        layout.word("list");
        T::layout(layout);
    }

    fn pack(&self, out: &mut Vec<u8>) {
        put_list(self.iter(), out);
    }

    fn unpack(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let count = input.count_of::<T>()?;
        let mut list = Self::with_capacity(count.min(MOST_AHEAD / size_of::<T>().max(1)));
        for _ in 0..count {
            list.push(T::unpack(input)?);
        }
        Ok(list)
    }
}

/// Lists that are packed as their length and their values.
macro_rules! lists {
    ($($name:ty),*) => {$(
        impl<T: Pack> Pack for $name {
            fn layout(layout: &mut Layout) {
                Vec::<T>::layout(layout);
            }

            fn pack(&self, out: &mut Vec<u8>) {
                put_list(self.iter(), out);
            }

            fn unpack(input: &mut Input<'_>) -> Result<Self, Malformed> {
                Vec::<T>::unpack(input).map(Into::into)
            }
        }
    )*};
}
lists!(VecDeque<T>, Arc<[T]>, SmallList<T>);

impl<T: Pack, const N: usize> Pack for [T; N] {
    fn layout(layout: &mut Layout) {
        layout.word(&format!("{N} of"));
        T::layout(layout);
    }

    fn pack(&self, out: &mut Vec<u8>) {
        for value in self {
            value.pack(out);
        }
    }

    fn unpack(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let list = (0..N).map(|_| T::unpack(input)).collect::<Result<Vec<T>, _>>()?;
        list.try_into().map_err(|_| Malformed)
    }
}

impl<K: Pack + Eq + Hash, V: Pack> Pack for Map<K, V> {
    fn layout(layout: &mut Layout) {
        layout.word("map");
        <(K, V)>::layout(layout);
    }

    fn pack(&self, out: &mut Vec<u8>) {
        put_number(self.len() as u64, out);
        for (key, value) in self {
            key.pack(out);
            value.pack(out);
        }
    }

    fn unpack(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let count = input.count_of::<(K, V)>()?;
        let mut map = Self::with_capacity_and_hasher(
            count.min(MOST_AHEAD / size_of::<(K, V)>().max(1)),
            super::super::map::State::default(),
        );
        for _ in 0..count {
            map.insert(K::unpack(input)?, V::unpack(input)?);
        }
        Ok(map)
    }
}

impl<T: Pack + Eq + Hash> Pack for Set<T> {
    fn layout(layout: &mut Layout) {
        layout.word("set");
        T::layout(layout);
    }

    fn pack(&self, out: &mut Vec<u8>) {
        put_list(self.iter(), out);
    }

    fn unpack(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Vec::unpack(input).map(Self::from_iter)
    }
}

impl<A: Pack, B: Pack> Pack for (A, B) {
    fn layout(layout: &mut Layout) {
        layout.word("pair");
        A::layout(layout);
        B::layout(layout);
    }

    fn pack(&self, out: &mut Vec<u8>) {
        self.0.pack(out);
        self.1.pack(out);
    }

    fn unpack(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok((A::unpack(input)?, B::unpack(input)?))
    }
}
