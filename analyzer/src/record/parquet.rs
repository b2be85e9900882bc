//! Rows to Parquet files and back.
//!
//! Numbers are delta-encoded, texts dictionary-encoded, both compressed with LZ4: 8,192 rows of 400 flows take as
//! little as with zstd, without a C library.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{
    Compression, ConvertedType, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical,
};
use parquet::column::reader::{ColumnReaderImpl, get_typed_column_reader};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{ChunkReader, FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};

use super::budget::{MOST_TEXTS, MemoryBudget};
use super::cell::{Cell, CellKind};
use super::check::{self, SharedFile, guarded, open};
use super::table::{Column, Row, Table};
use crate::util::shared::Shared;

/// Maximum number of rows in a row group.
pub const GROUP: usize = 8_192;
/// Number of values that are held as they are encoded, at a time: those of all columns of a group would take as much
/// memory as all else of a recording that is not mapped.
const CELLS: usize = 1 << 17;
/// Key in the file's metadata with the version of the schema.
const VERSION_KEY: &str = "rocescope.schema";
/// Columns with minimum and maximum statistics, by which engines skip row groups. For all columns, statistics would
/// be a third of a small file.
const PRUNED: [&str; 3] = ["t", "host", "job"];
/// Columns by which the rows of a group are put beside their like; of one flow they stay in the order of time.
const BESIDE: [&str; 8] = ["link", "direction", "src", "dst", "dest_qp", "device", "counter", "priority"];
/// Version of the schema, which is also a folder name in recordings.
pub const VERSION: &str = "v1";

/// The column in Parquet's schema.
fn field(column: &Column) -> Result<Type> {
    let (physical, logical) = match column.kind {
        CellKind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS))),
        CellKind::Int => (Physical::INT64, None),
        CellKind::Float => (Physical::DOUBLE, None),
        CellKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    Type::primitive_type_builder(column.name, physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build()
}

fn schema(table: &Table) -> Result<Type> {
    let fields = table.columns.iter().map(|column| field(column).map(Arc::new)).collect::<Result<_>>()?;
    Type::group_type_builder(table.name).with_fields(fields).build()
}

fn properties(table: &Table) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::LZ4_RAW)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_created_by(format!("rocescope {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![KeyValue::new(VERSION_KEY.to_owned(), VERSION.to_owned())]));
    for column in PRUNED {
        properties =
            properties.set_column_statistics_enabled(ColumnPath::from(column), EnabledStatistics::Chunk);
    }
    for column in table.columns {
        let path = ColumnPath::from(column.name);
        properties = match column.kind {
            CellKind::Time | CellKind::Int => properties
                .set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED)
                .set_column_dictionary_enabled(path, false),
            CellKind::Float => properties.set_column_dictionary_enabled(path, false),
            CellKind::Text => properties,
        };
    }
    properties.build()
}

fn writer<W: Write + Send>(table: &Table, out: W) -> Result<SerializedFileWriter<W>> {
    SerializedFileWriter::new(out, Arc::new(schema(table)?), Arc::new(properties(table)))
}

/// Encodes rows as a complete file, in row groups of [`GROUP`].
///
/// # Errors
/// Errors of the Parquet writer, which no rows cause.
pub fn encode<R: Row>(rows: &[R]) -> Result<Vec<u8>> {
    encode_groups(rows, GROUP)
}

pub(super) fn encode_groups<R: Row>(rows: &[R], group: usize) -> Result<Vec<u8>> {
    let mut writer = writer(R::TABLE, Vec::new())?;
    let columns: Vec<(usize, &Column)> = R::TABLE.columns.iter().enumerate().collect();
    for rows in rows.chunks(group) {
        let rows = in_order(rows);
        let mut group = writer.next_row_group()?;
        for columns in columns.chunks((CELLS / rows.len()).max(1)) {
            let mut gathered: Vec<_> =
                columns.iter().map(|(_, column)| ColumnValues::new(column.kind, rows.len())).collect();
            gather(&rows, columns, &mut gathered, ColumnValues::push);
            for ((_, column), gathered) in columns.iter().zip(gathered) {
                gathered.write(&mut group, column)?;
            }
        }
        group.close()?;
    }
    writer.into_inner()
}

/// Passes the values of some columns, which are in their order in the table, to `put`, each with what belongs to its
/// column.
fn gather<R: Row, C>(rows: &[&R], columns: &[(usize, &Column)], to: &mut [C], put: fn(&mut C, Cell)) {
    for row in rows {
        let mut wanted = columns.iter().zip(&mut *to).peekable();
        let mut at = 0;
        row.cells(&mut |cell| {
            if let Some((_, column)) = wanted.next_if(|((index, _), _)| *index == at) {
                put(column, cell);
            }
            at += 1;
        });
    }
}

/// The rows of a group in the order in which they are written.
fn in_order<R: Row>(rows: &[R]) -> Vec<&R> {
    const fn place(cell: &Cell) -> (i64, Option<&Shared>) {
        match cell {
            Cell::Int(number) => (*number, None),
            Cell::Text(text) => (0, Some(text)),
            Cell::Null | Cell::Float(_) => (0, None),
        }
    }
    let rows: Vec<&R> = rows.iter().collect();
    let columns = R::TABLE.columns.iter().enumerate();
    let columns: Vec<_> = columns.filter(|(_, column)| BESIDE.contains(&column.name)).collect();
    let mut by: Vec<Vec<Cell>> = columns.iter().map(|_| Vec::with_capacity(rows.len())).collect();
    gather(&rows, &columns, &mut by, Vec::push);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let key = |row: usize| by.iter().map(move |cells| cells.get(row).map(place));
    order.sort_by(|a, b| key(*a).cmp(key(*b)));
    order.into_iter().filter_map(|row| rows.get(row).copied()).collect()
}

/// The values of a column, as they are encoded.
struct ColumnValues {
    values: Values,
    /// 1 for a value, 0 for null.
    levels: Vec<i16>,
}

enum Values {
    Int(Vec<i64>),
    Float(Vec<f64>),
    Text(Vec<Shared>),
}

impl ColumnValues {
    fn new(kind: CellKind, rows: usize) -> Self {
        let values = match kind {
            CellKind::Time | CellKind::Int => Values::Int(Vec::with_capacity(rows)),
            CellKind::Float => Values::Float(Vec::with_capacity(rows)),
            CellKind::Text => Values::Text(Vec::with_capacity(rows)),
        };
        Self { values, levels: Vec::with_capacity(rows) }
    }

    fn push(&mut self, cell: Cell) {
        match (&mut self.values, cell) {
            (Values::Int(values), Cell::Int(value)) => values.push(value),
            (Values::Float(values), Cell::Float(value)) => values.push(value),
            (Values::Text(values), Cell::Text(value)) => values.push(value),
            _ => return self.levels.push(0),
        }
        self.levels.push(1);
    }

    /// The values of a column that these rows do not have.
    fn nulls(kind: CellKind, rows: usize) -> Self {
        Self { values: Self::new(kind, 0).values, levels: vec![0; rows] }
    }

    fn write<W: Write + Send>(
        self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        column: &Column,
    ) -> Result<()> {
        let levels = column.nullable.then_some(self.levels.as_slice());
        let mut writer = group.next_column()?.ok_or_else(|| missing(column.name))?;
        match self.values {
            Values::Int(values) => writer.typed::<Int64Type>().write_batch(&values, levels, None),
            Values::Float(values) => writer.typed::<DoubleType>().write_batch(&values, levels, None),
            Values::Text(values) => {
                let values: Vec<ByteArray> = values.iter().map(|text| text.as_str().into()).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, levels, None)
            }
        }?;
        writer.close()
    }
}

/// Joins complete files of one table into one. Row groups are copied without decoding; columns that files of an older
/// version lack are null.
///
/// # Errors
/// If a file belongs to another table, or writing to `out` fails.
pub fn join<W: Write + Send>(table: &Table, files: impl IntoIterator<Item = Bytes>, out: W) -> Result<W> {
    let mut writer = writer(table, out)?;
    let whole = schema(table)?;
    for file in files {
        let reader = open(file.clone())?;
        let added = added_since(table, &whole, reader.metadata().file_metadata().schema())?;
        for group in reader.metadata().row_groups() {
            let rows = check::rows(group)?;
            let mut joined = writer.next_row_group()?;
            for column in group.columns() {
                let close = ColumnCloseResult {
                    bytes_written: count(column.compressed_size()),
                    rows_written: count(group.num_rows()),
                    metadata: column.clone(),
                    bloom_filter: None,
                    column_index: None,
                    offset_index: None,
                };
                joined.append_column(&file, close)?;
            }
            for column in added {
                ColumnValues::nulls(column.kind, rows).write(&mut joined, column)?;
            }
            joined.close()?;
        }
    }
    writer.into_inner()
}

/// The columns of a table that a file of an older version lacks: they are added at the end, and may be null.
fn added_since<'a>(table: &'a Table, whole: &Type, file: &Type) -> Result<&'a [Column]> {
    let (all, own) = (whole.get_fields(), file.get_fields());
    let added = table.columns.get(own.len()..).filter(|added| added.iter().all(|column| column.nullable));
    let is_of_table = file.name() == table.name && all.starts_with(own);
    added
        .filter(|_| is_of_table)
        .ok_or_else(|| ParquetError::General(format!("a block is not of table {}", table.name)))
}

/// The I/O error inside an error of the Parquet writer.
pub fn cause(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(cause) => *cause,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn missing(name: &str) -> ParquetError {
    ParquetError::General(format!("column {name} is missing"))
}

/// Decodes the rows of a file. Columns missing from the file are null; columns unknown to the table are skipped.
///
/// # Errors
/// If it is not a Parquet file, is damaged, or a column has another type.
pub fn decode<R: Row>(file: Bytes) -> Result<Vec<R>> {
    let mut rows = Vec::new();
    each(file, &mut MemoryBudget::unlimited(), &mut |row| rows.push(row))?;
    Ok(rows)
}

/// Passes the rows of a file to `take` one by one, holding [`GROUP`] in memory at a time.
///
/// # Errors
/// As [`decode`], and if the texts of all rows exceed the budget.
pub(super) fn each<R: Row>(file: Bytes, texts: &mut MemoryBudget, take: &mut dyn FnMut(R)) -> Result<()> {
    let mut groups = Groups::new(file)?;
    while let Some(rows) = groups.next_within(texts)? {
        rows.into_iter().for_each(&mut *take);
    }
    Ok(())
}

/// The row groups of a file, in order.
pub struct Groups<C: ChunkReader + 'static> {
    file: Arc<C>,
    reader: SerializedFileReader<SharedFile<C>>,
    at: usize,
    open: Option<Group>,
}

/// A row group being read.
struct Group {
    fields: Vec<Field>,
    /// Rows not read yet.
    left: usize,
}

/// A column of a row group being read.
enum Field {
    /// Missing from the file.
    Absent,
    /// A column of numbers, each in this many of the unit that rows have: other writers have times in microseconds.
    Int(ColumnReaderImpl<Int64Type>, bool, i64),
    Float(ColumnReaderImpl<DoubleType>, bool),
    /// A column of texts. Texts equal to that of the previous row share its allocation.
    Text(ColumnReaderImpl<ByteArrayType>, bool, Shared),
}

impl<C: ChunkReader + 'static> Groups<C> {
    /// Reads the metadata at the end of the file.
    ///
    /// # Errors
    /// If it is not a Parquet file or is damaged.
    pub fn new(file: C) -> Result<Self> {
        let file = Arc::new(file);
        Ok(Self { reader: open(SharedFile(Arc::clone(&file)))?, file, at: 0, open: None })
    }

    /// Name of the table.
    pub fn table(&self) -> &str {
        self.reader.metadata().file_metadata().schema().name()
    }

    /// The next rows, at most [`GROUP`] of one row group, since groups of other writers may be long. `None` after the
    /// last.
    ///
    /// # Errors
    /// As [`decode`], and if their texts are longer than any of a recorder. The rest of the row group is then skipped.
    pub fn next_rows<R: Row>(&mut self) -> Result<Option<Vec<R>>> {
        self.next_within(&mut MemoryBudget::of(MOST_TEXTS))
    }

    /// [`Self::next_rows`], with an error if their texts exceed the budget.
    pub(crate) fn next_within<R: Row>(&mut self, texts: &mut MemoryBudget) -> Result<Option<Vec<R>>> {
        let mut group = match self.open.take() {
            Some(group) => group,
            None if self.at >= self.reader.num_row_groups() => return Ok(None),
            None => {
                self.at += 1;
                guarded(|| begin::<R>(&*self.reader.get_row_group(self.at - 1)?, &*self.file))?
            }
        };
        let mut rows: Vec<R> = guarded(|| read_rows(&mut group, texts))?;
        rows.sort_by_key(Row::t);
        self.open = Some(group).filter(|group| group.left > 0);
        Ok(Some(rows))
    }
}

/// Checks a row group and prepares reading it.
fn begin<R: Row>(group: &dyn RowGroupReader, file: &impl ChunkReader) -> Result<Group> {
    let rows = check::group_to_read(group.metadata(), file, R::TABLE)?;
    let fields = R::TABLE.columns.iter().map(|column| field_of(group, column)).collect::<Result<_>>()?;
    Ok(Group { fields, left: rows })
}

fn read_rows<R: Row>(group: &mut Group, texts: &mut MemoryBudget) -> Result<Vec<R>> {
    let rows = group.left.min(GROUP);
    group.left -= rows;
    let columns: Vec<Vec<Cell>> =
        group.fields.iter_mut().map(|field| read_column(field, rows, texts)).collect::<Result<_>>()?;
    let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
    let row = |row| {
        R::of(&mut columns.iter_mut().map_while(Iterator::next)).ok_or_else(|| {
            ParquetError::General(format!("row {row} of a row group is not a row of {}", R::TABLE.name))
        })
    };
    (0..rows).map(row).collect()
}

fn field_of(group: &dyn RowGroupReader, column: &Column) -> Result<Field> {
    let fields = group.metadata().schema_descr();
    let Some(at) = (0..fields.num_columns()).find(|at| fields.column(*at).name() == column.name) else {
        return Ok(Field::Absent);
    };
    let descriptor = fields.column(at);
    let kind = match column.kind {
        CellKind::Time | CellKind::Int => Physical::INT64,
        CellKind::Float => Physical::DOUBLE,
        CellKind::Text => Physical::BYTE_ARRAY,
    };
    if descriptor.physical_type() != kind || descriptor.max_rep_level() > 0 || descriptor.max_def_level() > 1
    {
        return Err(ParquetError::General(format!("column {} has another type", column.name)));
    }
    let optional = descriptor.max_def_level() > 0;
    let reader = group.get_column_reader(at)?;
    Ok(match column.kind {
        CellKind::Time | CellKind::Int => {
            let scale = match descriptor.converted_type() {
                ConvertedType::TIMESTAMP_MILLIS => 1_000_000,
                ConvertedType::TIMESTAMP_MICROS => 1_000,
                _ => 1,
            };
            Field::Int(get_typed_column_reader(reader), optional, scale)
        }
        CellKind::Float => Field::Float(get_typed_column_reader(reader), optional),
        CellKind::Text => Field::Text(get_typed_column_reader(reader), optional, Shared::default()),
    })
}

fn read_column(field: &mut Field, rows: usize, texts: &mut MemoryBudget) -> Result<Vec<Cell>> {
    match field {
        Field::Absent => Ok(vec![Cell::Null; rows]),
        Field::Int(reader, optional, scale) => {
            take(reader, rows, *optional, |n| Ok(Cell::Int(n.saturating_mul(*scale))))
        }
        Field::Float(reader, optional) => take(reader, rows, *optional, |n| Ok(Cell::Float(*n))),
        Field::Text(reader, optional, last) => take(reader, rows, *optional, |bytes| {
            let text = bytes.as_utf8()?;
            if *last != *text {
                // A dictionary has a text once, however often rows that do not follow one another have it.
                texts.take(text.len())?;
                *last = Shared::from(text);
            }
            Ok(Cell::Text(last.clone()))
        }),
    }
}

fn take<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    optional: bool,
    mut cell: impl FnMut(&T::T) -> Result<Cell>,
) -> Result<Vec<Cell>> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let mut done = 0;
    while done < rows {
        let (records, ..) =
            reader.read_records(rows - done, optional.then_some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::General("a column is shorter than its row group".to_owned()));
        }
        done += records;
    }
    if !optional {
        return values.iter().map(cell).collect();
    }
    let mut values = values.iter();
    let of = |level: &i16| match level {
        0 => Ok(Cell::Null),
        _ => values.next().map_or_else(|| Err(missing("value")), &mut cell),
    };
    levels.iter().map(of).collect()
}
