//! What comes before the value of a field: line end, indentation, name. A long report has the same hundred fields
//! thousands of times, and their beginnings are kept.

use rocescope_common::random::GOLDEN;

/// Bytes of a beginning that is kept, all copied at once; longer ones are written anew.
const LONGEST: usize = 64;
/// Places by hash, a power of two. Two beginnings of one place take turns, and are written anew each time.
const PLACES: usize = 4096;

/// A field by the address of its name, which lives as long as the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    name: usize,
    len: usize,
    depth: Option<usize>,
    first: bool,
}

impl Field {
    #[inline]
    pub(super) fn new(name: &'static str, depth: Option<usize>, first: bool) -> Self {
        Self { name: name.as_ptr().addr(), len: name.len(), depth, first }
    }

    #[inline]
    fn place(&self) -> usize {
        let level = 2 * self.depth.unwrap_or(0) + usize::from(self.first);
        let hash = (self.name as u64 ^ (level as u64) << 48).wrapping_mul(GOLDEN);
        usize::try_from(hash >> (u64::BITS - PLACES.ilog2())).unwrap_or(0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Beginning {
    field: Field,
    len: usize,
    text: [u8; LONGEST],
}

/// Beginnings of fields.
#[derive(Debug)]
pub(super) struct Beginnings {
    /// Numbers in the list, by place.
    places: Vec<u16>,
    list: Vec<Beginning>,
}

impl Default for Beginnings {
    fn default() -> Self {
        Self { places: vec![u16::MAX; PLACES], list: Vec::new() }
    }
}

impl Beginnings {
    /// Adds the beginning of a field to a text; false where it is not kept.
    #[inline]
    pub(super) fn add_to(&self, text: &mut Vec<u8>, field: Field) -> bool {
        let number = self.places.get(field.place()).copied().unwrap_or(u16::MAX);
        let Some(kept) = self.list.get(usize::from(number)).filter(|kept| kept.field == field) else {
            return false;
        };
        let end = text.len() + kept.len;
        text.extend_from_slice(&kept.text);
        text.truncate(end);
        true
    }

    /// Keeps the beginning of a field.
    #[cold]
    pub(super) fn keep(&mut self, field: Field, beginning: &[u8]) {
        let mut kept = Beginning { field, len: beginning.len(), text: [0; LONGEST] };
        let Some(text) = kept.text.get_mut(..beginning.len()) else { return };
        text.copy_from_slice(beginning);
        let Some(place) = self.places.get_mut(field.place()) else { return };
        if let Some(other) = self.list.get_mut(usize::from(*place)) {
            *other = kept;
        } else if let Ok(number) = u16::try_from(self.list.len()) {
            *place = number;
            self.list.push(kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that overlap: those that begin at one address have one place.
    #[test]
    fn what_is_kept_is_of_the_same_field() {
        const NAMES: &str =
            "first_ns last_ns packets bytes payload_bytes latency_ns latency_by_class src_port_count";
        let names =
            (0..NAMES.len()).flat_map(|from| (from..NAMES.len()).filter_map(move |to| NAMES.get(from..to)));
        let fields = names.flat_map(|name| [None, Some(2)].map(|depth| (name, depth)));
        let all: Vec<_> =
            fields.flat_map(|(name, depth)| [true, false].map(|first| (name, depth, first))).collect();
        let beginning = |(name, depth, first): (&str, Option<usize>, bool)| format!("{first}{depth:?}{name}");
        let mut kept = Beginnings::default();
        for (name, depth, first) in &all {
            kept.keep(Field::new(name, *depth, *first), beginning((name, *depth, *first)).as_bytes());
        }
        let mut found = 0;
        for (name, depth, first) in &all {
            let mut text = b"before".to_vec();
            if kept.add_to(&mut text, Field::new(name, *depth, *first)) {
                let wanted = format!("before{}", beginning((name, *depth, *first)));
                assert_eq!(String::from_utf8(text).unwrap(), wanted);
                found += 1;
            } else {
                assert_eq!(text, b"before");
            }
        }
        assert!(found > 3 * NAMES.len(), "{found} of {}", all.len());
    }
}
