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
/// Type of a 32-bit number.
const NUMBER: u8 = 5;
/// Type of a structure.
const STRUCTURE: u8 = 12;

/// Reason for refusing bytes as a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Truncated.
    Cut,
    /// Contains a construct that neither metadata nor page headers use.
    Unsound,
}

/// The header of a page, at the start of some bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PageHeader {
    /// Its length in bytes.
    pub(super) length: usize,
    /// Length of the page, decompressed.
    pub(super) decompressed: Option<i64>,
    /// Length of the page after the header.
    pub(super) compressed: Option<i64>,
    /// Number of values in a dictionary.
    pub(super) dictionary_values: Option<i64>,
    /// Encoding of the values of a data page.
    pub(super) encoding: Option<i64>,
}

/// Parses the structure at the start of the bytes, and returns its length.
///
/// # Errors
/// If the bytes do not begin with an acceptable structure.
pub(super) fn structure(bytes: &[u8]) -> Result<usize, Fault> {
    let mut walk = Walk { rest: bytes };
    walk.structure(DEPTH)?;
    Ok(bytes.len() - walk.rest.len())
}

/// Parses the page header at the start of the bytes.
///
/// # Errors
/// If the bytes do not begin with an acceptable structure, or one of its numbers is there twice or of another type, of
/// which readers take different ones.
pub(super) fn page_header(bytes: &[u8]) -> Result<PageHeader, Fault> {
    let mut walk = Walk { rest: bytes };
    let mut header = PageHeader::default();
    let mut kind_of_page = None;
    walk.fields(DEPTH, &mut |walk, id, kind, depth| {
        let PageHeader { decompressed, compressed, dictionary_values, encoding, .. } = &mut header;
        let (mut values, mut encoding) = match id {
            1 => return walk.number_once(kind, &mut kind_of_page),
            2 => return walk.number_once(kind, decompressed),
            3 => return walk.number_once(kind, compressed),
            // Of a data page, a dictionary, and a data page of version 2.
            5 => (None, Some((2, encoding))),
            7 => (Some(dictionary_values), None),
            8 => (None, Some((4, encoding))),
            _ => return walk.value(kind, depth),
        };
        if kind != STRUCTURE {
            return Err(Fault::Unsound);
        }
        walk.fields(depth, &mut |walk, id, kind, depth| match (id, &mut values, &mut encoding) {
            (1, Some(values), _) => walk.number_once(kind, values),
            (id, _, Some((at, encoding))) if id == *at => walk.number_once(kind, encoding),
            _ => walk.value(kind, depth),
        })
    })?;
    header.length = bytes.len() - walk.rest.len();
    Ok(header)
}

/// Reads the value of a field.
type FieldReader<'a> = dyn FnMut(&mut Walk<'_>, i64, u8, u8) -> Result<(), Fault> + 'a;

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

    /// Passes the fields up to the stop field to `each`, with their id, type and depth; it reads the value.
    fn fields(&mut self, depth: u8, each: &mut FieldReader<'_>) -> Result<(), Fault> {
        let depth = depth.checked_sub(1).ok_or(Fault::Unsound)?;
        let mut id = 0_i64;
        loop {
            let head = self.byte()?;
            let kind = head & 0x0F;
            match (kind, head >> 4) {
                (0, _) => return Ok(()),
                (_, 0) => id = self.signed()?,
                (_, more) => id = id.checked_add(more.into()).ok_or(Fault::Unsound)?,
            }
            each(self, id, kind, depth)?;
        }
    }

    fn structure(&mut self, depth: u8) -> Result<(), Fault> {
        self.fields(depth, &mut |walk, _, kind, depth| walk.value(kind, depth))
    }

    /// Reads a 32-bit number that must be there once.
    fn number_once(&mut self, kind: u8, to: &mut Option<i64>) -> Result<(), Fault> {
        if kind != NUMBER || to.is_some() {
            return Err(Fault::Unsound);
        }
        let number = self.signed()?;
        *to = Some(i32::try_from(number).map_err(|_| Fault::Unsound)?.into());
        Ok(())
    }

    /// Skips a value of a field.
    fn value(&mut self, kind: u8, depth: u8) -> Result<(), Fault> {
        match kind {
            // Booleans are encoded in the field header.
            1 | 2 => Ok(()),
            _ => self.element(kind, depth),
        }
    }

    /// Skips a value of a field or list.
    fn element(&mut self, kind: u8, depth: u8) -> Result<(), Fault> {
        match kind {
            3 => self.skip(1),
            4..=6 => self.number().map(drop),
            7 => self.skip(8),
            8 => {
                let length = self.number()?;
                self.skip(length)
            }
            9 | 10 => self.list(depth),
            STRUCTURE => self.structure(depth),
            // Booleans in lists, maps, and unknown types do not occur in Parquet.
            _ => Err(Fault::Unsound),
        }
    }

    fn list(&mut self, depth: u8) -> Result<(), Fault> {
        let depth = depth.checked_sub(1).ok_or(Fault::Unsound)?;
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.number()? } else { u64::from(head >> 4) };
        for _ in 0..count {
            self.element(head & 0x0F, depth)?;
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

    fn ended(fields: &[Vec<u8>]) -> Vec<u8> {
        [fields.concat(), vec![0]].concat()
    }

    #[test]
    fn a_page_header_has_a_length_and_numbers() {
        let unknown = ended(&[field(1, 8, b"\x02ab"), field(1, 1, &[])]);
        let dictionary = ended(&[field(1, 5, &[14]), field(1, 5, &[0])]);
        let head = [field(1, 5, &[4]), field(1, 5, &[0x80, 1]), field(1, 5, &[0xC8, 1])];
        let whole = ended(&[head.concat(), field(4, 12, &dictionary), field(2, 12, &unknown)]);
        let expected = PageHeader {
            length: whole.len(),
            decompressed: Some(64),
            compressed: Some(100),
            dictionary_values: Some(7),
            encoding: None,
        };
        assert_eq!(page_header(&[whole.clone(), vec![9; 5]].concat()), Ok(expected));
        assert_eq!(structure(&whole), Ok(whole.len()));
        for end in 0..whole.len() {
            assert_eq!(page_header(&whole[..end]), Err(Fault::Cut), "{end}");
        }
        let data = ended(&[field(1, 5, &[2]), field(1, 5, &[12])]);
        let second = ended(&[field(1, 5, &[2]), field(3, 5, &[14])]);
        for (id, inner, encoding) in [(5, &data, 6), (8, &second, 7)] {
            let header = page_header(&ended(&[field(id, 12, inner)])).unwrap();
            assert_eq!((header.encoding, header.dictionary_values), (Some(encoding), None));
        }
        let minus = ended(&[field(3, 5, &[1])]);
        assert_eq!(page_header(&minus).map(|header| header.compressed), Ok(Some(-1)));
    }

    /// A reader may take the other one.
    #[test]
    fn numbers_of_a_page_header_are_there_once_and_of_their_type() {
        let size = field(2, 5, &[2]);
        let again = [0x05, 4, 2].to_vec();
        assert!(page_header(&ended(std::slice::from_ref(&size))).is_ok());
        assert_eq!(page_header(&ended(&[size, again])), Err(Fault::Unsound));
        assert_eq!(page_header(&ended(&[field(2, 6, &[2])])), Err(Fault::Unsound));
        assert_eq!(page_header(&ended(&[field(2, 5, &[0xFE, 0xFF, 0xFF, 0xFF, 0x1F])])), Err(Fault::Unsound));
        assert_eq!(page_header(&ended(&[field(7, 9, &[0])])), Err(Fault::Unsound));
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
