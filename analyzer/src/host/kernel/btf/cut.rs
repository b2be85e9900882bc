//! Extracts the part of a kernel's BTF that describes a few structures, small enough to be kept as test data.

use super::tests::Writer;
use super::{Btf, BtfKind, DEPTH, Entry, Part};
use crate::util::map::Map;

/// The structures with these names and all their members, as a separate BTF file; those of a module in a second file
/// that belongs to it. Structures that are members lose their own members, unless they are named as well or are
/// anonymous. Pointers have no target.
pub(crate) fn cut(btf: &Btf, wanted: &[&str]) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut base = Cutter { btf, wanted, out: Writer::base(), known: Map::default() };
    base.take(&btf.base);
    let module = btf.module.as_ref().map(|part| {
        let mut module = Cutter { out: Writer::module(&base.out), known: base.known.clone(), ..base };
        module.take(part);
        module.out.bytes()
    });
    (base.out.bytes(), module)
}

struct Cutter<'a> {
    btf: &'a Btf,
    wanted: &'a [&'a str],
    out: Writer,
    /// New type numbers.
    known: Map<u32, u32>,
}

impl Cutter<'_> {
    fn take(&mut self, part: &Part) {
        for (id, at) in (part.first..).zip(&part.types) {
            let Some(entry) = part.entry(*at) else { continue };
            if matches!(entry.kind(), BtfKind::STRUCT | BtfKind::UNION)
                && self.wanted.contains(&self.name(entry).as_str())
            {
                self.put(id, DEPTH);
            }
        }
    }

    fn name(&self, entry: Entry<'_>) -> String {
        self.text(entry.name)
    }

    fn text(&self, at: u32) -> String {
        String::from_utf8_lossy(self.btf.name(at).unwrap_or_default()).into_owned()
    }

    /// Copies a type and returns its new number; 0 (void) for types that a structure cannot contain.
    fn put(&mut self, id: u32, depth: u8) -> u32 {
        if let Some(new) = self.known.get(&id) {
            return *new;
        }
        let Some((entry, depth)) = self.btf.entry(id).zip(depth.checked_sub(1)) else { return 0 };
        let (name, word) = (self.name(entry), |index| entry.word(index).unwrap_or(0));
        let new = match entry.kind() {
            BtfKind::POINTER => self.out.add("", BtfKind::POINTER, false, 0, &[]),
            BtfKind::INT => self.out.add(&name, BtfKind::INT, false, entry.size_or_type, &[word(0)]),
            BtfKind::ARRAY => {
                let (element, index) = (self.put(word(0), depth), self.put(word(1), depth));
                self.out.add("", BtfKind::ARRAY, false, 0, &[element, index, word(2)])
            }
            kind @ (BtfKind::STRUCT | BtfKind::UNION)
                if name.is_empty() || self.wanted.contains(&name.as_str()) =>
            {
                let members: Vec<u32> = (0..entry.count())
                    .flat_map(|index| {
                        let [at, of, bits] = [0, 1, 2].map(|more| word(index * 3 + more));
                        let at = self.text(at);
                        [self.out.text(&at), self.put(of, depth), bits]
                    })
                    .collect();
                self.out.add(&name, kind, entry.flag(), entry.size_or_type, &members)
            }
            kind @ (BtfKind::STRUCT | BtfKind::UNION | BtfKind::ENUM | BtfKind::ENUM64 | BtfKind::FLOAT) => {
                self.out.add(&name, kind, false, entry.size_or_type, &[])
            }
            kind if BtfKind::is_alias(kind) => {
                let of = self.put(entry.size_or_type, depth);
                self.out.add(&name, kind, false, of, &[])
            }
            _ => 0,
        };
        self.known.insert(id, new);
        new
    }
}
