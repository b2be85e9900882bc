//! Checks the Thrift structures in a Parquet file before the Parquet reader decodes them.
//!
//! The reader skips unknown fields, and there the elements of a list of booleans take no byte: a few bytes can stand
//! for billions of elements, and with nested lists decoding would not end. Parquet's metadata and page headers have
//! no such list, so it is refused. Any other element takes at least a byte, so that decoding time is proportional to
//! the length.
//!
//! The encoding is Thrift's compact protocol (doc/specs/thrift-compact-protocol.md of apache/thrift).

/// Maximum nesting of structures and lists; Parquet uses up to seven.
const DEPTH: u8 = 32;
/// `compressed_page_size` of a page header.
const PAGE_SIZE: i64 = 3;

/// Reason for refusing bytes as a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Truncated.
    Cut,
    /// Contains a construct that neither metadata nor page headers use.
    Unsound,
}

/// A structure at the start of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Structure {
    /// Length in bytes.
    pub(super) length: usize,
    /// The 32-bit number in field 3: in a page header, the length of the page after it.
    pub(super) page: Option<i64>,
}

/// Parses the structure at the start of the bytes.
///
/// # Errors
/// If the bytes do not begin with an acceptable structure.
pub(super) fn structure(bytes: &[u8]) -> Result<Structure, Fault> {
    let mut walk = Walk { rest: bytes };
    let page = walk.structure(DEPTH)?;
    Ok(Structure { length: bytes.len() - walk.rest.len(), page })
}

struct Walk<'a> {
    rest: &'a [u8],
}

impl Walk<'_> {
    fn byte(&mut self) -> Result<u8, Fault> {
        let (byte, rest) = self.rest.split_first().ok_or(Fault::Cut)?;
        self.rest = rest;
        Ok(*byte)
    }

    fn skip(&mut self, count: u64) -> Result<(), Fault> {
        let count = usize::try_from(count).map_err(|_| Fault::Unsound)?;
        self.rest = self.rest.get(count..).ok_or(Fault::Cut)?;
        Ok(())
    }

    /// A variable-length integer (LEB128).
    fn number(&mut self) -> Result<u64, Fault> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Fault::Unsound)
    }

    /// A zigzag-encoded signed integer.
    fn signed(&mut self) -> Result<i64, Fault> {
        let number = self.number()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// The fields up to the stop field. Returns the number in field 3.
    fn structure(&mut self, depth: u8) -> Result<Option<i64>, Fault> {
        let depth = depth.checked_sub(1).ok_or(Fault::Unsound)?;
        let (mut id, mut page) = (0_i64, None);
        loop {
            let head = self.byte()?;
            let kind = head & 0x0F;
            match (kind, head >> 4) {
                (0, _) => return Ok(page),
                (_, 0) => id = self.signed()?,
                (_, more) => id = id.checked_add(more.into()).ok_or(Fault::Unsound)?,
            }
            match kind {
                // Booleans are encoded in the field header.
                1 | 2 => {}
                5 if id == PAGE_SIZE => page = Some(self.signed()?),
                _ => self.value(kind, depth)?,
            }
        }
    }

    /// Skips a value of a field or list.
    fn value(&mut self, kind: u8, depth: u8) -> Result<(), Fault> {
        match kind {
            3 => self.skip(1),
            4..=6 => self.number().map(drop),
            7 => self.skip(8),
            8 => {
                let length = self.number()?;
                self.skip(length)
            }
            9 | 10 => self.list(depth),
            12 => self.structure(depth).map(drop),
            // Booleans in lists, maps, and unknown types do not occur in Parquet.
            _ => Err(Fault::Unsound),
        }
    }

    fn list(&mut self, depth: u8) -> Result<(), Fault> {
        let depth = depth.checked_sub(1).ok_or(Fault::Unsound)?;
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.number()? } else { u64::from(head >> 4) };
        for _ in 0..count {
            self.value(head & 0x0F, depth)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field with this id delta, and its value.
    fn field(more: u8, kind: u8, value: &[u8]) -> Vec<u8> {
        [&[more << 4 | kind], value].concat()
    }

    #[test]
    fn a_structure_has_a_length_and_a_page() {
        let inner = [field(1, 8, b"\x02ab"), field(1, 1, &[]), vec![0]].concat();
        let head =
            [field(1, 5, &[0]), field(1, 5, &[0x80, 1]), field(1, 5, &[0xC8, 1]), field(2, 12, &inner)];
        let whole = [head.concat(), vec![0]].concat();
        let expected = Structure { length: whole.len(), page: Some(100) };
        assert_eq!(structure(&[whole.clone(), vec![9; 5]].concat()), Ok(expected));
        for end in 0..whole.len() {
            assert_eq!(structure(&whole[..end]), Err(Fault::Cut), "{end}");
        }
        let minus = [field(3, 5, &[1]), vec![0]].concat();
        assert_eq!(structure(&minus).map(|found| found.page), Ok(Some(-1)));
    }

    #[test]
    fn lists_of_nothing_are_unsound_and_others_are_walked() {
        let list = |head: &[u8]| structure(&[field(1, 9, head), vec![0]].concat()).map(drop);
        assert_eq!(list(&[0x25, 1, 2]), Ok(()));
        assert_eq!(list(&[0]), Ok(()), "an empty list of no kind");
        // Two billion booleans, in nested lists.
        assert_eq!(list(&[0xD9, 0xD9, 0xF1, 0xFF, 0xFF, 0xFF, 0xFF, 7]), Err(Fault::Unsound));
        assert_eq!(structure(&[0x19; 100]), Err(Fault::Unsound), "too deep");
        assert_eq!(structure(&[0x18, 0xFF, 0xFF, 0xFF, 0xFF, 7]), Err(Fault::Cut));
    }
}
