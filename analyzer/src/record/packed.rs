//! Rows as bytes of the journal: a Parquet file takes 2 to 4 kB before its first row, these some dozens.
//!
//! The columns of a table follow one another. Numbers are differences of seven bits a byte, one where all rows have the
//! same; texts are numbers of a list, which is compressed, as most of it is the JSON of findings.

use std::io::{self, Read as _, Write as _};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::cell::{Cell, CellKind};
use super::parquet::{self, GROUP};
use super::table::{Column, Row};
use crate::util::map::Map;
use crate::util::pack::{Malformed, pack, packed, unpacked};
use crate::util::shared::Shared;

/// First byte of packed rows. In journals of older versions, rows are Parquet files, which begin with another one.
const MARK: u8 = b'R';
/// Maximum length of the texts of [`GROUP`] rows, in bytes.
const MOST_TEXTS: u64 = 256 << 20;
/// Maximum number of groups of [`GROUP`] rows in a frame: rows of an interval, and those that waited for the disk.
const MOST_GROUPS: usize = 1_024;

pack! {
    struct PackedGroup { rows, columns, texts }
    struct PackedColumn { known, numbers }
}

/// At most [`GROUP`] rows.
struct PackedGroup {
    rows: usize,
    columns: Vec<PackedColumn>,
    /// The texts of all columns, compressed.
    texts: Bytes,
}

/// Values of a column.
#[derive(Default)]
struct PackedColumn {
    /// Rows that have a value. Empty: all or none.
    known: Vec<bool>,
    /// The values, as differences; a single one is that of all rows.
    numbers: Vec<u64>,
}

/// Texts without repetition, by their place in the list.
#[derive(Default)]
struct Texts {
    list: Vec<Shared>,
    places: Map<Shared, u64>,
}

impl Texts {
    fn place(&mut self, text: Shared) -> u64 {
        let next = self.list.len() as u64;
        let place = *self.places.entry(text.clone()).or_insert(next);
        if place == next {
            self.list.push(text);
        }
        place
    }
}

/// Rows as bytes.
///
/// # Errors
/// Errors of the compressor, which no rows cause.
pub(super) fn pack_rows<R: Row>(rows: &[R]) -> io::Result<Vec<u8>> {
    let groups: Vec<PackedGroup> = rows.chunks(GROUP).map(pack_group).collect::<io::Result<_>>()?;
    Ok([&[MARK][..], &packed(&groups)].concat())
}

/// The rows of these bytes, also if they are a Parquet file. Columns that a version did not have are null.
///
/// # Errors
/// If they are none, or of another table.
pub(super) fn unpack_rows<R: Row>(bytes: Bytes) -> io::Result<Vec<R>> {
    let Some((&MARK, rest)) = bytes.split_first() else {
        return parquet::decode(bytes).map_err(io::Error::other);
    };
    let groups: Vec<PackedGroup> = unpacked(rest).map_err(io::Error::other)?;
    if groups.len() > MOST_GROUPS || groups.iter().any(|group| group.rows > GROUP) {
        return Err(io::Error::other(Malformed));
    }
    let mut rows = Vec::new();
    for group in groups {
        unpack_group(&group, &mut rows)?;
    }
    Ok(rows)
}

fn pack_group<R: Row>(rows: &[R]) -> io::Result<PackedGroup> {
    let mut columns: Vec<PackedColumn> = R::TABLE.columns.iter().map(|_| PackedColumn::default()).collect();
    let mut texts = Texts::default();
    for row in rows {
        let mut next = columns.iter_mut();
        row.cells(&mut |cell| {
            let Some(column) = next.next() else { return };
            column.known.push(cell != Cell::Null);
            column.numbers.extend(match cell {
                Cell::Null => None,
                Cell::Int(number) => Some(number.cast_unsigned()),
                Cell::Float(number) => Some(number.to_bits()),
                Cell::Text(text) => Some(texts.place(text)),
            });
        });
    }
    columns.iter_mut().for_each(PackedColumn::shorten);
    let mut compressor = ZlibEncoder::new(Vec::new(), Compression::fast());
    compressor.write_all(&packed(&texts.list))?;
    Ok(PackedGroup { rows: rows.len(), columns, texts: compressor.finish()?.into() })
}

fn unpack_group<R: Row>(group: &PackedGroup, rows: &mut Vec<R>) -> io::Result<()> {
    let mut texts = Vec::new();
    ZlibDecoder::new(&*group.texts).take(MOST_TEXTS).read_to_end(&mut texts)?;
    let texts: Vec<Shared> = unpacked(&texts).map_err(io::Error::other)?;
    let none = PackedColumn::default();
    let columns = group.columns.iter().chain(std::iter::repeat(&none));
    let of = |(column, values): (&Column, &PackedColumn)| values.cells(column.kind, group.rows, &texts);
    let columns: Option<Vec<Vec<Cell>>> = R::TABLE.columns.iter().zip(columns).map(of).collect();
    let mut columns: Vec<_> =
        columns.ok_or_else(|| io::Error::other(Malformed))?.into_iter().map(Vec::into_iter).collect();
    for _ in 0..group.rows {
        let row = R::of(&mut columns.iter_mut().map_while(Iterator::next));
        rows.push(row.ok_or_else(|| io::Error::other(Malformed))?);
    }
    Ok(())
}

impl PackedColumn {
    /// Turns values into differences, and leaves out what all rows have alike.
    fn shorten(&mut self) {
        if self.known.iter().all(|known| *known) || self.numbers.is_empty() {
            self.known.clear();
        }
        if self.numbers.windows(2).all(|pair| pair.first() == pair.last()) {
            self.numbers.truncate(1);
        }
        let mut last = 0_u64;
        for number in &mut self.numbers {
            let difference = number.wrapping_sub(last).cast_signed();
            last = std::mem::replace(number, ((difference << 1) ^ (difference >> 63)).cast_unsigned());
        }
    }

    /// The cells of all rows; `None` if they are not of this kind.
    fn cells(&self, kind: CellKind, rows: usize, texts: &[Shared]) -> Option<Vec<Cell>> {
        if self.numbers.is_empty() {
            return Some(vec![Cell::Null; rows]);
        }
        if self.numbers.len() > rows {
            return None;
        }
        let mut last = 0_u64;
        let numbers = self.numbers.iter().map(|number| {
            let difference = (number >> 1).cast_signed() ^ -(number & 1).cast_signed();
            last = last.wrapping_add(difference.cast_unsigned());
            last
        });
        let values: Option<Vec<Cell>> = numbers
            .map(|number| match kind {
                CellKind::Time | CellKind::Int => Some(Cell::Int(number.cast_signed())),
                CellKind::Float => Some(Cell::Float(f64::from_bits(number))),
                CellKind::Text => texts.get(usize::try_from(number).ok()?).cloned().map(Cell::Text),
            })
            .collect();
        let values = values?;
        let is_same = values.len() == 1;
        let mut next = values.iter();
        let cell = |row: usize| match (self.known.is_empty(), self.known.get(row)) {
            (false, None) => None,
            (false, Some(false)) => Some(Cell::Null),
            _ if is_same => values.first().cloned(),
            _ => next.next().cloned(),
        };
        (0..rows).map(cell).collect()
    }
}

#[cfg(test)]
mod tests {
    use rocescope_common::random::Random;

    use super::*;
    use crate::record::parquet_tests::{OldEvent, event, link};
    use crate::record::registry::{Event, LinkSecond};

    #[test]
    fn rows_come_back_as_they_were_packed_and_in_their_order() {
        for count in [0, 1, 2, 7, GROUP as u64 + 1] {
            let rows: Vec<LinkSecond> = (0..count).map(|n| link(n * 7 % 5)).collect();
            assert!(unpack_rows::<LinkSecond>(pack_rows(&rows).unwrap().into()).unwrap() == rows, "{count}");
        }
        // Numbers at both ends of their range, known in one row.
        let least = LinkSecond { lost: Some(i64::MIN), packets: u64::MAX >> 1, ..link(1) };
        let rows = [LinkSecond { lost: None, ..link(0) }, least, LinkSecond { lost: None, ..link(0) }];
        assert!(unpack_rows::<LinkSecond>(pack_rows(&rows).unwrap().into()).unwrap() == rows);
    }

    /// A flow's row in the journal takes little more than one in a file.
    #[test]
    fn rows_of_an_interval_take_less_than_the_frame_of_a_file() {
        let rows: Vec<LinkSecond> = (0..16).map(link).collect();
        let (packed, file) = (pack_rows(&rows).unwrap(), parquet::encode(&rows).unwrap());
        assert!(packed.len() * 3 < file.len(), "{} of {}", packed.len(), file.len());
    }

    #[test]
    fn rows_of_an_older_version_have_null_in_the_columns_that_they_lack() {
        let new = |t| Event { reason: Some("fault".into()), duration_ns: Some(9), ..event(t) };
        let expected: Vec<Event> = (0..3).map(event).collect();
        let old: Vec<OldEvent> = (0..3).map(new).map(OldEvent).collect();
        assert_eq!(unpack_rows::<Event>(pack_rows(&old).unwrap().into()).unwrap(), expected);
        // As journals had them.
        assert_eq!(unpack_rows::<Event>(parquet::encode(&old).unwrap().into()).unwrap(), expected);
    }

    #[test]
    fn damaged_bytes_are_an_error_and_never_a_panic() {
        let whole = pack_rows(&(0..50).map(link).collect::<Vec<_>>()).unwrap();
        let mut random = Random::new(18);
        for at in 0..whole.len() {
            assert!(unpack_rows::<LinkSecond>(Bytes::copy_from_slice(&whole[..at])).is_err(), "{at}");
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << random.below(8);
            let _ = unpack_rows::<LinkSecond>(damaged.into());
        }
    }
}
