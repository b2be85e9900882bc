//! Checks of a Parquet file before its reader decodes it.
//!
//! The reader takes as much memory as a file asks for: of a page, the length that its header states; of a dictionary,
//! the number of values; of a row group, all of that for each column at once. A few bytes can ask for any amount, and a
//! process that takes too much is killed. Here, what is asked for is compared with what a recorder and other writers
//! need.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, FileReader as _, Length};
use parquet::file::serialized_reader::SerializedFileReader;

use super::table::Table;
use super::thrift::{self, Fault};
use crate::util::units;

/// Row groups with more rows are refused: other writers use some hundred thousand.
const MOST_ROWS: usize = 1 << 24;
/// Maximum length of the metadata, in bytes: a recorder's file of 64 MiB has 1 MB.
const MOST_METADATA: u32 = 32 << 20;
/// Maximum memory for the pages of a row group that are open at once, in bytes. A recorder's take some megabytes, other
/// writers' row groups of 100,000 rows some 50 MB.
const MOST_PAGES: u64 = 256 << 20;
/// Length of the file's trailer: metadata length and magic number.
const TAIL: usize = 8;
/// Bytes read first for a page header: most have some dozens, those with statistics of long texts more.
const HEADER: usize = 4 << 10;
/// Maximum length of a page header, in bytes.
const MOST_HEADER: usize = 1 << 20;
/// Compressions that are read. By default, DuckDB and others write another one. Of LZ4 with frames (Hadoop's), no
/// header bounds what a page takes.
const READ: [Compression; 2] = [Compression::UNCOMPRESSED, Compression::LZ4_RAW];
/// Encodings that are not read, by their number in a page header: the reader takes the number of texts from inside the
/// page. Writers use them on request only.
const NOT_READ: [(i64, &str); 2] = [(6, "DELTA_LENGTH_BYTE_ARRAY"), (7, "DELTA_BYTE_ARRAY")];
/// Least length of a value in a dictionary, in bytes: that of an empty text.
const LEAST: u64 = 4;

/// A file shared between the Parquet reader and the checks here.
pub(super) struct SharedFile<C>(pub(super) Arc<C>);

impl<C: ChunkReader> Length for SharedFile<C> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<C: ChunkReader> ChunkReader for SharedFile<C> {
    type T = C::T;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.0.get_bytes(start, length)
    }
}

/// What the reader of a column takes, or cannot read.
#[derive(Clone, Copy, Debug, Default)]
struct Pages {
    /// Memory of the dictionary and of the longest other page, in bytes.
    dictionary: u64,
    longest: u64,
    /// An encoding that is not read.
    encoding: Option<&'static str>,
}

impl Pages {
    const fn bytes(self) -> u64 {
        self.dictionary.saturating_add(self.longest)
    }
}

/// Opens a Parquet reader for a file whose metadata passes the checks.
pub(super) fn open<C: ChunkReader + 'static>(file: C) -> Result<SerializedFileReader<C>> {
    let length = file.len();
    if let Some(end) = length.checked_sub(TAIL as u64) {
        let tail = file.get_bytes(end, TAIL)?;
        // The reader refuses a file that is shorter or has another trailer.
        if let [a, b, c, d, b'P', b'A', b'R', b'1'] = tail[..]
            && let metadata = u32::from_le_bytes([a, b, c, d])
            && let Some(start) = end.checked_sub(metadata.into())
        {
            if metadata > MOST_METADATA {
                return Err(too_large("metadata", metadata.into(), MOST_METADATA.into()));
            }
            let bytes = file.get_bytes(start, metadata as usize)?;
            thrift::structure(&bytes).map_err(|_| damaged())?;
        }
    }
    guarded(|| SerializedFileReader::new(file))
}

/// Converts a panic into an error: the Parquet reader asserts properties that a damaged file can violate. The checks
/// before it leave few such cases.
pub(super) fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(damaged()))
}

pub(super) fn damaged() -> ParquetError {
    ParquetError::General("the file is damaged".to_owned())
}

fn too_large(what: &str, bytes: u64, most: u64) -> ParquetError {
    let [bytes, most] = [bytes, most].map(units::bytes);
    ParquetError::General(format!("its {what} would take {bytes} of memory, more than {most}"))
}

/// Number of rows of a row group.
pub(super) fn rows(group: &RowGroupMetaData) -> Result<usize> {
    usize::try_from(group.num_rows()).ok().filter(|rows| *rows <= MOST_ROWS).ok_or_else(damaged)
}

/// Checks the page headers in a range of the file.
fn pages(file: &impl ChunkReader, start: u64, end: u64) -> Result<Pages> {
    let (mut at, mut pages) = (start, Pages::default());
    while at < end {
        let left = usize::try_from(end - at).unwrap_or(usize::MAX).min(MOST_HEADER);
        let mut room = HEADER.min(left);
        let header = loop {
            match thrift::page_header(&file.get_bytes(at, room)?) {
                Ok(header) => break header,
                Err(Fault::Cut) if room < left => room = room.saturating_mul(8).min(left),
                Err(_) => return Err(damaged()),
            }
        };
        let number = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
        let compressed = number(header.compressed).ok_or_else(damaged)?;
        let decompressed = number(header.decompressed).ok_or_else(damaged)?;
        // While a page is decompressed, both are in memory.
        let bytes = compressed.saturating_add(decompressed);
        if let Some(values) = header.dictionary_values {
            let values = number(Some(values)).filter(|values| values.saturating_mul(LEAST) <= bytes);
            let values = values.ok_or_else(damaged)?.saturating_mul(size_of::<ByteArray>() as u64);
            pages.dictionary = pages.dictionary.max(bytes.saturating_add(values));
        } else {
            pages.longest = pages.longest.max(bytes);
        }
        let encoding = NOT_READ.into_iter().find(|(number, _)| header.encoding == Some(*number));
        pages.encoding = pages.encoding.or(encoding.map(|(_, name)| name));
        at = at.saturating_add(header.length as u64).saturating_add(compressed);
    }
    Ok(pages)
}

/// Checks the columns of a row group.
fn columns(group: &RowGroupMetaData, file: &impl ChunkReader) -> Result<Vec<Pages>> {
    let bytes = file.len();
    rows(group)?;
    let is_inside = |number: i64| u64::try_from(number).is_ok_and(|number| number <= bytes);
    let column = |column: &ColumnChunkMetaData| {
        let begin = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
        let end = begin.checked_add(column.compressed_size()).ok_or_else(damaged)?;
        if ![begin, column.data_page_offset(), column.compressed_size(), end].into_iter().all(is_inside) {
            return Err(damaged());
        }
        let [begin, end] = [begin, end].map(|number| u64::try_from(number).map_err(|_| damaged()));
        pages(file, begin?, end?)
    };
    group.columns().iter().map(column).collect()
}

/// Checks a row group of which the columns of a table are read, and returns the number of its rows.
pub(super) fn group_to_read(
    group: &RowGroupMetaData,
    file: &impl ChunkReader,
    table: &Table,
) -> Result<usize> {
    let pages = columns(group, file)?;
    let mut codecs = group.columns().iter().map(ColumnChunkMetaData::compression);
    if let Some(codec) = codecs.find(|codec| !READ.contains(codec)) {
        return Err(ParquetError::General(format!(
            "compressed with {codec}, which only engines read here: write it with LZ4_RAW"
        )));
    }
    let is_read = |name: &str| table.columns.iter().any(|column| column.name == name);
    let read = group.columns().iter().zip(&pages).filter(|(column, _)| is_read(column.column_descr().name()));
    let mut bytes = 0_u64;
    for (_, pages) in read {
        if let Some(encoding) = pages.encoding {
            return Err(ParquetError::General(format!(
                "encoded as {encoding}, which only engines read here: write texts plain or with dictionaries"
            )));
        }
        bytes = bytes.saturating_add(pages.bytes());
    }
    if bytes > MOST_PAGES {
        return Err(too_large("pages", bytes, MOST_PAGES));
    }
    rows(group)
}

/// Fault of a file in its metadata or the headers of its pages. Values are not read. `None` if nothing is,
/// or if the file cannot be read at all.
pub(crate) fn fault<C: ChunkReader + 'static>(file: C) -> Option<String> {
    let check = || {
        let file = Arc::new(file);
        let reader = open(SharedFile(Arc::clone(&file)))?;
        let mut all = reader.metadata().row_groups().iter();
        all.try_for_each(|group| columns(group, &*file).map(drop))
    };
    reason(check())
}

/// Fault of a file in the pages of its values, which are decompressed and not decoded. `None` as of [`fault`], and of
/// pages that would take too much memory.
pub(crate) fn page_fault<C: ChunkReader + 'static>(file: C) -> Option<String> {
    let check = || {
        let file = Arc::new(file);
        let reader = open(SharedFile(Arc::clone(&file)))?;
        for group in 0..reader.num_row_groups() {
            let group = reader.get_row_group(group)?;
            let pages = columns(group.metadata(), &*file)?;
            let of_column = group.metadata().columns().iter().zip(pages).enumerate();
            let is_read =
                |compression, pages: Pages| READ.contains(&compression) && pages.bytes() <= MOST_PAGES;
            for (column, _) in of_column.filter(|(_, (about, pages))| is_read(about.compression(), *pages)) {
                let mut pages = group.get_column_page_reader(column)?;
                while pages.get_next_page()?.is_some() {}
            }
        }
        Ok(())
    };
    reason(guarded(check))
}

/// What is wrong with a file. `None`: nothing, or it cannot be read at all.
fn reason(result: Result<()>) -> Option<String> {
    match result {
        Err(ParquetError::External(cause)) if cause.is::<io::Error>() => None,
        result => result.err().map(|error| error.to_string()),
    }
}
