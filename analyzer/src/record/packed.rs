//! Rows as bytes of the journal: a Parquet file takes 2 to 4 kB before its first row, these some dozens.
//!
//! The columns of a table follow one another. Numbers are differences of seven bits a byte, one where all rows have the
//! same; texts are numbers of a list, which is compressed, as most of it is the JSON of findings.

use std::io::{self, Read as _, Write as _};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::budget::{MemoryBudget, more_than};
use super::cell::{Cell, CellKind};
use super::parquet::{self, GROUP, Groups};
use super::table::{Column, Row};
use crate::util::map::Map;
use crate::util::pack::{Malformed, pack, packed, packed_count, unpacked, unpacked_within};
use crate::util::shared::Shared;

/// First byte of packed rows. In journals of older versions, rows are Parquet files, which begin with another one.
const MARK: u8 = b'R';
/// Maximum length of the texts of a group of several rows, in bytes: 2 kB for each of [`GROUP`] rows, as JSON of
/// findings takes.
const MOST_TEXTS: usize = 16 << 20;
/// Maximum memory of a frame's lists of numbers before they become rows, in bytes: a million rows of thirty columns.
const MOST_LISTS: usize = 256 << 20;

pack! {
    struct PackedGroup { rows, columns, texts }
    struct PackedColumn { known, numbers }
}

/// At most [`GROUP`] rows, with texts of at most [`MOST_TEXTS`], or a single row with texts of any length.
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
    let mut groups = Vec::new();
    rows.chunks(GROUP).try_for_each(|rows| pack_groups(rows, &mut groups))?;
    Ok([&[MARK][..], &packed(&groups)].concat())
}

/// The rows of these bytes, at most this many, also if they are a Parquet file. Columns that a version did not have are
/// null. The budget is of all rows and texts that are in memory together.
///
/// # Errors
/// If they are none, of another table, or take more memory than rows that are packed here.
pub(super) fn unpack_rows<R: Row>(
    bytes: Bytes,
    most: usize,
    budget: &mut MemoryBudget,
) -> io::Result<Vec<R>> {
    let mut rows = Vec::new();
    let Some((&MARK, rest)) = bytes.split_first() else {
        let mut groups = Groups::new(bytes).map_err(io::Error::other)?;
        while let Some(more) = groups.next_within(budget).map_err(parquet::cause)? {
            check_count::<R>(rows.len() + more.len(), most)?;
            budget.take(size_of_val(&*more))?;
            rows.extend(more);
        }
        return Ok(rows);
    };
    let most_lists = budget.left().min(MOST_LISTS);
    let groups: Vec<PackedGroup> = unpacked_within(rest, most_lists).map_err(io::Error::other)?;
    if groups.iter().any(|group| !(1..=GROUP).contains(&group.rows)) {
        return Err(io::Error::other(Malformed));
    }
    let count = groups.iter().map(|group| group.rows).sum();
    check_count::<R>(count, most)?;
    budget.take(count.saturating_mul(size_of::<R>()))?;
    for group in groups {
        unpack_group(&group, budget, &mut rows)?;
    }
    Ok(rows)
}

fn check_count<R: Row>(count: usize, most: usize) -> io::Result<()> {
    if count <= most {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "it has more rows of {} than a recorder writes between two blocks",
        R::TABLE.name
    )))
}

/// Packs rows as one group, or as several if their texts are long.
fn pack_groups<R: Row>(rows: &[R], groups: &mut Vec<PackedGroup>) -> io::Result<()> {
    if let Some(group) = pack_group(rows)? {
        groups.push(group);
        return Ok(());
    }
    let (first, second) = rows.split_at(rows.len() / 2);
    pack_groups(first, groups)?;
    pack_groups(second, groups)
}

/// `None` if the texts of several rows are too long for one group.
fn pack_group<R: Row>(rows: &[R]) -> io::Result<Option<PackedGroup>> {
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
    let texts = packed(&texts.list);
    if texts.len() > MOST_TEXTS && rows.len() > 1 {
        return Ok(None);
    }
    let mut compressor = ZlibEncoder::new(Vec::new(), Compression::fast());
    compressor.write_all(&texts)?;
    Ok(Some(PackedGroup { rows: rows.len(), columns, texts: compressor.finish()?.into() }))
}

fn unpack_group<R: Row>(group: &PackedGroup, budget: &mut MemoryBudget, rows: &mut Vec<R>) -> io::Result<()> {
    let texts = unpack_texts(group, R::TABLE.columns.len(), budget)?;
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

/// The texts of a group of a table with this many columns. Few bytes may unpack to any number of texts.
fn unpack_texts(group: &PackedGroup, columns: usize, budget: &mut MemoryBudget) -> io::Result<Vec<Shared>> {
    let most = if group.rows > 1 { MOST_TEXTS } else { usize::MAX };
    let length = (most.min(budget.left()) as u64).saturating_add(1);
    let mut texts = Vec::new();
    ZlibDecoder::new(&*group.texts).take(length).read_to_end(&mut texts)?;
    budget.take(texts.len())?;
    if texts.len() > most {
        return Err(more_than(most));
    }
    if packed_count(&texts).is_ok_and(|count| count > group.rows * columns) {
        return Err(io::Error::other("it has more texts than its rows have cells"));
    }
    unpacked(&texts).map_err(io::Error::other)
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

    fn unpack<R: Row>(bytes: Vec<u8>, most: usize) -> io::Result<Vec<R>> {
        unpack_rows(bytes.into(), most, &mut MemoryBudget::unlimited())
    }

    fn long(length: usize, n: u64) -> LinkSecond {
        let text = n.to_string().repeat(length);
        LinkSecond { neighbour_port: Some(text.as_str().into()), ..link(n) }
    }

    #[test]
    fn rows_come_back_as_they_were_packed_and_in_their_order() {
        for count in [0, 1, 2, 7, GROUP as u64 + 1] {
            let rows: Vec<LinkSecond> = (0..count).map(|n| link(n * 7 % 5)).collect();
            assert!(unpack::<LinkSecond>(pack_rows(&rows).unwrap(), rows.len()).unwrap() == rows, "{count}");
        }
        // Numbers at both ends of their range, known in one row.
        let least = LinkSecond { lost: Some(i64::MIN), packets: u64::MAX >> 1, ..link(1) };
        let rows = [LinkSecond { lost: None, ..link(0) }, least, LinkSecond { lost: None, ..link(0) }];
        assert!(unpack::<LinkSecond>(pack_rows(&rows).unwrap(), rows.len()).unwrap() == rows);
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
        assert_eq!(unpack::<Event>(pack_rows(&old).unwrap(), 3).unwrap(), expected);
        // As journals had them.
        assert_eq!(unpack::<Event>(parquet::encode(&old).unwrap(), 3).unwrap(), expected);
    }

    /// As findings of many hours would be.
    #[test]
    fn long_texts_are_in_groups_that_can_be_read() {
        // One is longer than a group of several may be.
        let lengths = [1, 1, 1, 4, 1].map(|thirds| MOST_TEXTS / 3 * thirds);
        let rows: Vec<LinkSecond> = (0..).zip(lengths).map(|(n, length)| long(length, n)).collect();
        let packed = pack_rows(&rows).unwrap();
        let groups: Vec<PackedGroup> = unpacked(&packed[1..]).unwrap();
        assert_eq!(groups.iter().map(|group| group.rows).collect::<Vec<_>>(), [2, 1, 1, 1]);
        let budget = &mut MemoryBudget::of(crate::record::budget::MOST_OPEN_BYTES);
        assert!(unpack_rows::<LinkSecond>(packed.into(), 5, budget).unwrap() == rows);
    }

    /// Each is of a length that is allowed.
    #[test]
    fn all_groups_together_have_one_budget() {
        let packed = pack_rows(&[long(10_000, 0)]).unwrap();
        // The number of groups comes before them.
        let bomb = [&[MARK, 100][..], &packed[2..].repeat(100)].concat();
        assert!(bomb.len() < 100_000, "{}", bomb.len());
        let unpack = |bytes: &[u8], most: usize| {
            let mut budget = MemoryBudget::of(most);
            let rows = unpack_rows::<LinkSecond>(bytes.to_vec().into(), 100, &mut budget);
            rows.map(|rows| (rows.len(), most - budget.left())).map_err(|error| error.to_string())
        };
        let (one, each) = unpack(&packed, 1 << 20).unwrap();
        let text = each - size_of::<LinkSecond>();
        assert!(one == 1 && (10_000..11_000).contains(&text), "{each}");
        assert_eq!(unpack(&bomb, 100 * each), Ok((100, 100 * each)));
        let said = unpack(&bomb, 800_000).unwrap_err();
        assert_eq!(said, "its rows take more memory than those of a recorder: more than 800 kB");
        assert_eq!(unpack(&bomb, 100 * each - 1).unwrap_err().split(": ").next(), said.split(": ").next());
    }

    /// A file has a text once; rows have a copy wherever it alternates with others.
    #[test]
    fn texts_of_a_journal_of_files_have_the_same_budget() {
        let of = |n: u64| LinkSecond { link: "eth0".into(), direction: None, ..long(10_000, n % 2) };
        let rows: Vec<LinkSecond> = (0..100).map(|n| LinkSecond { t: link(n).t, ..of(n) }).collect();
        let (file, packed) = (parquet::encode(&rows).unwrap(), pack_rows(&rows).unwrap());
        assert!(file.len() < 20_000, "{}", file.len());
        let unpack = |bytes: Vec<u8>, most: usize| {
            let rows = unpack_rows::<LinkSecond>(bytes.into(), 100, &mut MemoryBudget::of(most));
            rows.map_err(|error| error.to_string())
        };
        let own = size_of_val(&*rows);
        assert!(unpack(packed, own + 21_000).unwrap() == rows);
        assert!(unpack(file.clone(), own + 1_010_000).unwrap() == rows);
        assert!(unpack(file.clone(), own + 990_000).is_err());
        let said = "its rows take more memory than those of a recorder: more than 990 kB";
        let each = parquet::each::<LinkSecond>(file.into(), &mut MemoryBudget::of(990_000), &mut |_| {});
        assert_eq!(parquet::cause(each.unwrap_err()).to_string(), said);
    }

    /// Few bytes of anybody who may write to the folder take no memory without a bound.
    #[test]
    fn bytes_that_would_take_more_memory_than_rows_are_refused() {
        let of_texts = |texts: &Vec<Shared>| {
            let mut compressor = ZlibEncoder::new(Vec::new(), Compression::fast());
            compressor.write_all(&packed(texts)).unwrap();
            let texts = compressor.finish().unwrap().into();
            let group = PackedGroup { rows: 2, columns: Vec::new(), texts };
            [&[MARK][..], &packed(&vec![group])].concat()
        };
        let refused = |bytes: Vec<u8>, most: usize| {
            assert!(bytes.len() < 1 << 20, "{}", bytes.len());
            unpack::<LinkSecond>(bytes, most).unwrap_err().to_string()
        };
        let long = "x".repeat(MOST_TEXTS);
        let said = refused(of_texts(&vec![long.as_str().into()]), 2);
        assert_eq!(said, "its rows take more memory than those of a recorder: more than 16.8 MB");
        let said = refused(of_texts(&vec![Shared::default(); 1 << 16]), 2);
        assert_eq!(said, "it has more texts than its rows have cells");
        let rows = vec![link(1); 1_000];
        for bytes in [pack_rows(&rows).unwrap(), parquet::encode(&rows).unwrap()] {
            let said = refused(bytes.clone(), 999);
            assert_eq!(said, "it has more rows of link_seconds than a recorder writes between two blocks");
            assert!(unpack::<LinkSecond>(bytes, 1_000).unwrap() == rows);
        }
        // Columns of two bytes, each of which takes more in memory. Those beyond the table's are left out.
        let mut groups: Vec<PackedGroup> = unpacked(&pack_rows(&rows[..1]).unwrap()[1..]).unwrap();
        groups[0].columns.resize_with(1 << 16, PackedColumn::default);
        let bytes = [&[MARK][..], &packed(&groups)].concat();
        for (most, is_read) in [(8 << 20, true), (1 << 20, false)] {
            let mut budget = MemoryBudget::of(most);
            let read = unpack_rows::<LinkSecond>(bytes.clone().into(), 1, &mut budget);
            assert_eq!(read.is_ok(), is_read, "{most}");
        }
    }

    #[test]
    fn damaged_bytes_are_an_error_and_never_a_panic() {
        let whole = pack_rows(&(0..50).map(link).collect::<Vec<_>>()).unwrap();
        let mut random = Random::new(18);
        for at in 0..whole.len() {
            assert!(unpack::<LinkSecond>(whole[..at].to_vec(), 50).is_err(), "{at}");
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << random.below(8);
            let _ = unpack::<LinkSecond>(damaged, 50);
        }
    }
}
