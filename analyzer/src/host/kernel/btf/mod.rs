//! Layout of kernel structures, from the kernel's BPF type format (Documentation/bpf/btf.rst).
//!
//! `/sys/kernel/btf/vmlinux` describes the kernel, and a file per module describes its additions: type and string
//! numbers of a module continue those of the kernel. A structure used by several modules is in whichever of the two
//! files the compiler chose, so [`Btf::find`] searches both.

use std::fmt;

/// `BTF_MAGIC`.
const MAGIC: u16 = 0xEB9F;
/// Length of `struct btf_type`.
const TYPE_LEN: usize = 12;
/// Maximum nesting of anonymous structures and typedefs.
const DEPTH: u8 = 16;
/// Maximum number of members visited for one name, since a structure that contains itself twice would never end.
const MOST_MEMBERS: u32 = 1 << 16;

/// The types of a kernel, or of a kernel and one module.
#[derive(Debug)]
pub struct Btf {
    base: Part,
    module: Option<Part>,
}

/// The bytes are not valid BTF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid BTF")
    }
}

impl std::error::Error for Malformed {}

/// A field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Offset from the start of the structure. Unit: bytes.
    pub offset: u32,
    /// Length of the field. Unit: bytes.
    pub size: u32,
}

impl Btf {
    /// Parses the kernel's BTF, and that of a module built for it.
    ///
    /// # Errors
    /// If the bytes are not BTF in native byte order.
    pub fn parse(base: Vec<u8>, module: Option<Vec<u8>>) -> Result<Self, Malformed> {
        let base = Part::parse(base, 1, 0)?;
        let next = base.first + u32::try_from(base.types.len()).map_err(|_| Malformed)?;
        let strings = u32::try_from(base.strings.1 - base.strings.0).map_err(|_| Malformed)?;
        let module = module.map(|bytes| Part::parse(bytes, next, strings)).transpose()?;
        Ok(Self { base, module })
    }

    /// The structure with this name: the module's first, then the kernel's.
    pub fn find(&self, name: &str) -> Option<Struct<'_>> {
        let module = self.module.as_ref().and_then(|module| self.find_in(module, name));
        let entry = module.or_else(|| self.find_in(&self.base, name))?;
        Some(Struct { btf: self, entry })
    }

    fn find_in<'a>(&'a self, part: &'a Part, name: &str) -> Option<Entry<'a>> {
        part.types.iter().filter_map(|at| part.entry(*at)).find(|entry| {
            matches!(entry.kind(), BtfKind::STRUCT | BtfKind::UNION)
                && self.name(entry.name) == Some(name.as_bytes())
        })
    }

    /// The type with this number.
    fn entry(&self, id: u32) -> Option<Entry<'_>> {
        let part = match &self.module {
            Some(module) if id >= module.first => module,
            _ => &self.base,
        };
        part.entry(*part.types.get(id.checked_sub(part.first)? as usize)?)
    }

    fn name(&self, at: u32) -> Option<&[u8]> {
        match &self.module {
            Some(module) if at >= module.first_string => module.string(at - module.first_string),
            _ => self.base.string(at),
        }
    }

    /// The length of a type. Unit: bytes.
    fn size(&self, id: u32, depth: u8) -> Option<u32> {
        let entry = self.entry(id)?;
        match entry.kind() {
            BtfKind::POINTER => Some(u32::try_from(size_of::<usize>()).unwrap_or(8)),
            BtfKind::ARRAY => {
                let (element, count) = (entry.word(0)?, entry.word(2)?);
                self.size(element, depth.checked_sub(1)?)?.checked_mul(count)
            }
            kind if BtfKind::is_alias(kind) => self.size(entry.size_or_type, depth.checked_sub(1)?),
            BtfKind::INT
            | BtfKind::STRUCT
            | BtfKind::UNION
            | BtfKind::ENUM
            | BtfKind::ENUM64
            | BtfKind::FLOAT => Some(entry.size_or_type),
            _ => None,
        }
    }

    /// The structure to which typedefs and qualifiers refer.
    fn resolve(&self, id: u32) -> Option<Entry<'_>> {
        let mut entry = self.entry(id)?;
        for _ in 0..DEPTH {
            if !BtfKind::is_alias(entry.kind()) {
                return Some(entry);
            }
            entry = self.entry(entry.size_or_type)?;
        }
        None
    }
}

/// A structure or union.
#[derive(Clone, Copy, Debug)]
pub struct Struct<'a> {
    btf: &'a Btf,
    entry: Entry<'a>,
}

impl Struct<'_> {
    /// Length. Unit: bytes.
    pub fn size(&self) -> u32 {
        self.entry.size_or_type
    }

    /// The field at a path of names, such as `ah_attr.grh.dgid`. Members of anonymous structures and unions count as
    /// members of the enclosing one, as in C. `None`: missing, or a bit field.
    pub fn field(&self, path: &str) -> Option<Field> {
        let (mut entry, mut offset) = (self.entry, 0);
        let mut names = path.split('.').peekable();
        while let Some(name) = names.next() {
            let (at, id) = self.member(entry, name.as_bytes(), DEPTH, &mut { MOST_MEMBERS })?;
            offset = u32::checked_add(offset, at)?;
            if names.peek().is_none() {
                return Some(Field { offset, size: self.btf.size(id, DEPTH)? });
            }
            entry = self.btf.resolve(id)?;
        }
        None
    }

    /// Offset and type of a member; `left` is the number of members that may still be visited.
    fn member(&self, of: Entry<'_>, name: &[u8], depth: u8, left: &mut u32) -> Option<(u32, u32)> {
        let members = matches!(of.kind(), BtfKind::STRUCT | BtfKind::UNION).then(|| of.count())?;
        for index in 0..members {
            *left = left.checked_sub(1)?;
            let [known, id, bits] = [0, 1, 2].map(|word| of.word(index * 3 + word));
            let (known, id, bits) = (known?, id?, bits?);
            // With the flag, the upper byte is the length of a bit field.
            let (bits, is_field) = if of.flag() { (bits & 0xff_ffff, bits >> 24 == 0) } else { (bits, true) };
            let (offset, is_whole) = (bits / 8, bits % 8 == 0 && is_field);
            match self.btf.name(known)? {
                found if found == name => return is_whole.then_some((offset, id)),
                [] if is_whole => {
                    let inner = self.btf.resolve(id)?;
                    let found = depth.checked_sub(1).and_then(|depth| self.member(inner, name, depth, left));
                    if let Some((at, id)) = found {
                        return Some((offset.checked_add(at)?, id));
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// One file.
struct Part {
    bytes: Vec<u8>,
    /// Offset of each type.
    types: Vec<usize>,
    /// Number of the first type.
    first: u32,
    /// Bounds of the strings.
    strings: (usize, usize),
    /// Number of the first string.
    first_string: u32,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("types", &self.types.len()).finish_non_exhaustive()
    }
}

impl Part {
    fn parse(bytes: Vec<u8>, first: u32, first_string: u32) -> Result<Self, Malformed> {
        let word = |at: usize| word(&bytes, at).map(|word| word as usize).ok_or(Malformed);
        let magic = bytes.first_chunk().map(|magic| u16::from_ne_bytes(*magic));
        if magic != Some(MAGIC) {
            return Err(Malformed);
        }
        let header = word(4)?;
        let section = |at: usize| -> Result<(usize, usize), Malformed> {
            let start = header.checked_add(word(at)?).ok_or(Malformed)?;
            let end = start.checked_add(word(at + 4)?).ok_or(Malformed)?;
            (end <= bytes.len()).then_some((start, end)).ok_or(Malformed)
        };
        let (types, strings) = (section(8)?, section(16)?);
        let mut part = Self { types: Vec::new(), first, strings, first_string, bytes };
        let mut at = types.0;
        while at < types.1 {
            let entry = part.entry(at).ok_or(Malformed)?;
            let next = at + TYPE_LEN + entry.extra().ok_or(Malformed)?;
            part.types.push(at);
            at = next;
        }
        Ok(part)
    }

    fn entry(&self, at: usize) -> Option<Entry<'_>> {
        let words = [0, 4, 8].map(|more| word(&self.bytes, at + more));
        let extra = self.bytes.get(at + TYPE_LEN..)?;
        Some(Entry { name: words[0]?, info: words[1]?, size_or_type: words[2]?, extra })
    }

    fn string(&self, at: u32) -> Option<&[u8]> {
        let text = self.bytes.get(self.strings.0..self.strings.1)?.get(at as usize..)?;
        text.split(|byte| *byte == 0).next()
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

/// A type as encoded in the file.
#[derive(Clone, Copy, Debug)]
struct Entry<'a> {
    name: u32,
    info: u32,
    size_or_type: u32,
    extra: &'a [u8],
}

/// `BTF_KIND_*` of linux/btf.h.
struct BtfKind;

impl BtfKind {
    const INT: u32 = 1;
    const POINTER: u32 = 2;
    const ARRAY: u32 = 3;
    const STRUCT: u32 = 4;
    const UNION: u32 = 5;
    const ENUM: u32 = 6;
    const FUNC_PROTO: u32 = 13;
    const VAR: u32 = 14;
    const DATASEC: u32 = 15;
    const FLOAT: u32 = 16;
    const DECL_TAG: u32 = 17;
    const ENUM64: u32 = 19;

    /// Typedefs, qualifiers and type tags name another type.
    fn is_alias(kind: u32) -> bool {
        matches!(kind, 8..=11 | 18)
    }
}

impl Entry<'_> {
    fn kind(&self) -> u32 {
        self.info >> 24 & 0x1f
    }

    fn flag(&self) -> bool {
        self.info >> 31 == 1
    }

    /// Members, values or parameters.
    fn count(&self) -> usize {
        (self.info & 0xffff) as usize
    }

    fn word(&self, index: usize) -> Option<u32> {
        word(self.extra, index * 4)
    }

    /// Bytes that follow the entry; `None` for an unknown kind, whose length is unknown.
    fn extra(&self) -> Option<usize> {
        Some(match self.kind() {
            BtfKind::INT | BtfKind::VAR | BtfKind::DECL_TAG => 4,
            BtfKind::ARRAY => 12,
            BtfKind::STRUCT | BtfKind::UNION | BtfKind::DATASEC | BtfKind::ENUM64 => self.count() * 12,
            BtfKind::ENUM | BtfKind::FUNC_PROTO => self.count() * 8,
            BtfKind::POINTER | BtfKind::FLOAT | 7..=12 | 18 => 0,
            _ => return None,
        })
    }
}

#[cfg(test)]
pub(crate) mod cut;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn small(length: usize) -> u32 {
        u32::try_from(length).unwrap()
    }

    /// Encodes types as a compiler does.
    #[derive(Default)]
    pub(crate) struct Writer {
        types: Vec<u8>,
        strings: Vec<u8>,
        next: u32,
        first_string: u32,
    }

    impl Writer {
        pub(crate) fn base() -> Self {
            Self { strings: vec![0], next: 1, ..Self::default() }
        }

        pub(crate) fn module(base: &Self) -> Self {
            Self { next: base.next, first_string: small(base.strings.len()), ..Self::default() }
        }

        pub(super) fn text(&mut self, name: &str) -> u32 {
            if name.is_empty() {
                return 0;
            }
            let at = self.first_string + small(self.strings.len());
            self.strings.extend(name.bytes().chain([0]));
            at
        }

        pub(crate) fn add(&mut self, name: &str, kind: u32, flag: bool, size: u32, extra: &[u32]) -> u32 {
            let words_each = match kind {
                BtfKind::STRUCT | BtfKind::UNION => 3,
                _ => usize::MAX,
            };
            let count = small(extra.len() / words_each);
            let name = self.text(name);
            let info = u32::from(flag) << 31 | kind << 24 | count;
            for word in [name, info, size].iter().chain(extra) {
                self.types.extend(word.to_ne_bytes());
            }
            self.next += 1;
            self.next - 1
        }

        /// Members are name, type and offset in bits.
        pub(crate) fn structure(&mut self, name: &str, size: u32, members: &[(&str, u32, u32)]) -> u32 {
            let extra: Vec<u32> =
                members.iter().flat_map(|(name, id, bits)| [self.text(name), *id, *bits]).collect();
            self.add(name, BtfKind::STRUCT, false, size, &extra)
        }

        pub(crate) fn int(&mut self, size: u32) -> u32 {
            self.add("int", BtfKind::INT, false, size, &[0])
        }

        pub(crate) fn array(&mut self, of: u32, count: u32) -> u32 {
            self.add("", BtfKind::ARRAY, false, 0, &[of, of, count])
        }

        pub(crate) fn bytes(&self) -> Vec<u8> {
            let (types, strings) = (small(self.types.len()), small(self.strings.len()));
            let mut bytes = MAGIC.to_ne_bytes().to_vec();
            bytes.extend([1, 0]);
            for word in [24, 0, types, types, strings] {
                bytes.extend(u32::to_ne_bytes(word));
            }
            bytes.extend(&self.types);
            bytes.extend(&self.strings);
            bytes
        }
    }

    #[test]
    fn fields_are_found_through_anonymous_structures_typedefs_and_modules() {
        let mut base = Writer::base();
        let (byte, long) = (base.int(1), base.int(8));
        let gid = base.array(byte, 16);
        let alias = base.add("gid_t", 8, false, gid, &[]);
        let anonymous = base.structure("", 24, &[("flow", byte, 0), ("dgid", alias, 64)]);
        let route = base.structure("route", 32, &[("", anonymous, 64), ("id", byte, 0)]);
        let mut module = Writer::module(&base);
        let constant = module.add("", 10, false, route, &[]);
        module.structure("attr", 48, &[("state", long, 0), ("ah", constant, 64)]);
        let btf = Btf::parse(base.bytes(), Some(module.bytes())).unwrap();
        let attr = btf.find("attr").unwrap();
        assert_eq!(attr.size(), 48);
        assert_eq!(attr.field("state"), Some(Field { offset: 0, size: 8 }));
        assert_eq!(attr.field("ah.dgid"), Some(Field { offset: 8 + 8 + 8, size: 16 }));
        assert_eq!(attr.field("ah.flow"), Some(Field { offset: 16, size: 1 }));
        assert_eq!((attr.field("ah.none"), attr.field("state.x"), attr.field("")), (None, None, None));
        // The kernel's own structures are also found through the module.
        assert_eq!(btf.find("route").and_then(|route| route.field("id")), Some(Field { offset: 0, size: 1 }));
        assert!(btf.find("other").is_none());
    }

    #[test]
    fn bit_fields_have_no_place_in_bytes() {
        let mut base = Writer::base();
        let int = base.int(4);
        let (bits, whole) = (base.text("bits"), base.text("whole"));
        base.add("flags", BtfKind::STRUCT, true, 8, &[bits, int, 3 << 24, whole, int, 32]);
        let btf = Btf::parse(base.bytes(), None).unwrap();
        let flags = btf.find("flags").unwrap();
        assert_eq!(flags.field("bits"), None);
        assert_eq!(flags.field("whole"), Some(Field { offset: 4, size: 4 }));
    }

    #[test]
    fn damaged_bytes_are_refused_or_lead_nowhere() {
        let mut base = Writer::base();
        let byte = base.int(1);
        // A structure that contains itself, and a typedef that refers to itself.
        let own = base.next;
        base.structure("loop", 8, &[("", own, 0), ("last", byte, 0)]);
        let alias = base.next;
        base.add("", 8, false, alias, &[]);
        base.structure("circle", 8, &[("at", alias, 0)]);
        let bytes = base.bytes();
        let btf = Btf::parse(bytes.clone(), None).unwrap();
        assert_eq!(btf.find("loop").unwrap().field("none"), None);
        assert_eq!(btf.find("circle").unwrap().field("at"), None);
        for end in 0..bytes.len() {
            if let Ok(btf) = Btf::parse(bytes[..end].to_vec(), None) {
                let _any = btf.find("loop").and_then(|found| found.field("last"));
            }
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            if let Ok(btf) = Btf::parse(damaged, None) {
                let _any = btf.find("loop").and_then(|found| found.field("last"));
            }
        }
    }

    #[test]
    fn structures_that_contain_themselves_many_times_have_an_end() {
        let mut base = Writer::base();
        let byte = base.int(1);
        let own = base.next;
        let members: Vec<_> = (0..40).map(|_| ("", own, 0)).chain([("last", byte, 0)]).collect();
        base.structure("many", 8, &members);
        // Offsets of nested structures whose sum exceeds 32 bits.
        let far = base.next;
        base.structure("far", 8, &[("", far, u32::MAX - 7), ("last", byte, 0)]);
        let btf = Btf::parse(base.bytes(), None).unwrap();
        assert_eq!(btf.find("many").unwrap().field("none"), None);
        assert_eq!(btf.find("far").unwrap().field("none"), None);
        // Found if the sum still fits.
        assert!(btf.find("far").unwrap().field("last").is_some_and(|last| last.size == 1));
    }

    /// The running kernel's own structures, whose layout rules are known.
    #[test]
    fn the_running_kernel_is_read() {
        let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            println!("SKIP: this kernel has no BTF");
            return;
        };
        let btf = Btf::parse(bytes, None).unwrap();
        let list = btf.find("list_head").unwrap();
        assert_eq!(list.size(), 16);
        assert_eq!(list.field("prev"), Some(Field { offset: 8, size: 8 }));
        let task = btf.find("task_struct").unwrap();
        assert_eq!(task.field("comm").unwrap().size, 16);
        assert_eq!(task.field("pid").unwrap().size, 4);
        assert!(task.field("tgid").unwrap().offset > 0);
    }
}
