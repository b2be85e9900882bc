use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use parquet::column::writer::ColumnCloseResult;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;

use super::cell::{Cell, CellKind, Time};
use super::check::{fault, page_fault};
use super::parquet::{GROUP, Groups, decode, encode, encode_groups, join};
use super::registry::{DeviceSecond, Event, LinkSecond, Rows, TABLES};
use super::table::{Row, Table, Visit};
use crate::sample::Direction;

pub(crate) fn link(n: u64) -> LinkSecond {
    LinkSecond {
        t: Time(1_700_000_000_000_000_000 + n * 1_000_000_000),
        interval_ns: 1_000_000_000,
        host: "node1".into(),
        job: n.is_multiple_of(3).then(|| "slurm:7".into()),
        link: if n.is_multiple_of(2) { "eth0".into() } else { "eth1".into() },
        rail: n.is_multiple_of(2).then(|| "rail0".into()),
        direction: [None, Some(Direction::Ingress), Some(Direction::Egress)][(n % 3) as usize],
        speed_bps: Some(400_000_000_000),
        packets: n * 1_000,
        bytes: u64::MAX >> 1,
        ce: n,
        skipped: 3,
        flows: 2,
        lost: (!n.is_multiple_of(5)).then_some(-5),
        neighbour_system: Some("leaf \"1\"\n\u{e9}".into()),
        pause_ns: Some(n),
        skipped_json: Some("{}".into()),
        ..LinkSecond::default()
    }
}

#[test]
fn rows_come_back_as_they_were_written() {
    for count in [0, 1, 7, GROUP as u64 + 1] {
        let rows: Vec<LinkSecond> = (0..count).map(link).collect();
        let file = Bytes::from(encode(&rows).unwrap());
        assert_eq!(decode::<LinkSecond>(file).unwrap(), rows, "{count}");
    }
}

/// What is beside its like in a file comes in the order of time, and within a time in that of its links.
#[test]
fn rows_of_many_links_come_in_the_order_of_time() {
    let of = |n: u64| {
        let direction = Some(if n.is_multiple_of(2) { Direction::Ingress } else { Direction::Egress });
        LinkSecond { link: format!("eth{}", 9 - n % 10 / 2).as_str().into(), direction, ..link(n / 10) }
    };
    let rows: Vec<LinkSecond> = (0..1_000).map(of).collect();
    let read = decode::<LinkSecond>(encode(&rows).unwrap().into()).unwrap();
    let mut expected = rows.clone();
    expected.sort_by_key(|row| {
        (row.t, row.link.clone(), row.direction.map(|direction| direction == Direction::Ingress))
    });
    assert!(read == expected && read != rows);
}

/// A row of `events` without the columns that were added later.
pub(super) struct OldEvent(pub(super) Event);

impl Row for OldEvent {
    const TABLE: &'static Table = &Table {
        name: Event::TABLE.name,
        help: "",
        columns: Event::TABLE.columns.split_at(Event::TABLE.columns.len() - 2).0,
    };

    fn t(&self) -> Time {
        self.0.t
    }

    fn cells(&self, put: &mut dyn FnMut(Cell)) {
        let mut left = Self::TABLE.columns.len();
        self.0.cells(&mut |cell| {
            if left > 0 {
                left -= 1;
                put(cell);
            }
        });
    }

    fn of(_: &mut dyn Iterator<Item = Cell>) -> Option<Self> {
        None
    }
}

/// A row of `events` without one of the columns that are never null.
struct ShortEvent;

impl Row for ShortEvent {
    const TABLE: &'static Table =
        &Table { name: Event::TABLE.name, help: "", columns: Event::TABLE.columns.split_at(2).0 };

    fn t(&self) -> Time {
        Time(1)
    }

    fn cells(&self, put: &mut dyn FnMut(Cell)) {
        put(Cell::Int(1));
        put(Cell::Text("node1".into()));
    }

    fn of(_: &mut dyn Iterator<Item = Cell>) -> Option<Self> {
        None
    }
}

/// An event without anything that may be unknown.
pub(super) fn event(t: u64) -> Event {
    let mut cells = Event::TABLE.columns.iter().map(|column| match (column.nullable, column.kind) {
        (true, _) => Cell::Null,
        (false, CellKind::Text) => Cell::Text(column.name.into()),
        (false, _) => Cell::Int(7),
    });
    Event { t: Time(t), ..Event::of(&mut cells).unwrap() }
}

/// Engines read a dictionary of numbers, and it takes memory of theirs and of ours.
#[test]
fn texts_alone_have_a_dictionary() {
    struct Encoded(usize);

    impl Visit for Encoded {
        type Error = Infallible;

        fn rows<R: Row>(&mut self, _: &mut Vec<R>) -> Result<(), Infallible> {
            let mut cells = R::TABLE.columns.iter().map(|column| match (column.kind, column.name) {
                (CellKind::Text, _) if column.nullable => Cell::Null,
                (CellKind::Text, "src" | "dst") => Cell::Text("10.0.0.1".into()),
                (CellKind::Text, name) => Cell::Text(name.into()),
                (CellKind::Float, _) => Cell::Float(0.5),
                (CellKind::Time | CellKind::Int, _) => Cell::Int(7),
            });
            let file = encode(&[R::of(&mut cells).unwrap()]).unwrap();
            let reader = SerializedFileReader::new(Bytes::from(file)).unwrap();
            let group = reader.metadata().row_group(0);
            for (column, written) in R::TABLE.columns.iter().zip(group.columns()) {
                let at = format!("{}.{}", R::TABLE.name, column.name);
                let has_dictionary = written.dictionary_page_offset().is_some();
                match column.kind {
                    CellKind::Text => assert!(has_dictionary || column.nullable, "{at}"),
                    _ => assert!(!has_dictionary, "{at}"),
                }
                self.0 += 1;
            }
            Ok(())
        }
    }

    let mut encoded = Encoded(0);
    let Ok(()) = Rows::default().visit(&mut encoded);
    assert_eq!(encoded.0, TABLES.iter().map(|table| table.columns.len()).sum::<usize>());
}

/// DuckDB, by which files are merged, has times in microseconds, and compresses with Snappy by default.
#[test]
fn files_of_other_writers_have_their_own_unit_of_time() {
    use std::sync::Arc;

    use parquet::basic::Compression;
    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::schema::parser::parse_message_type;

    let columns: Vec<_> = Event::TABLE.columns.iter().filter(|column| !column.nullable).collect();
    for (unit, scale) in [("MICROS", 1_000), ("MILLIS", 1_000_000), ("NANOS", 1)] {
        let fields = columns.iter().map(|column| match column.kind {
            CellKind::Text => format!("required binary {} (STRING);", column.name),
            CellKind::Time => format!("required int64 {} (TIMESTAMP({unit},true));", column.name),
            _ => format!("required int64 {};", column.name),
        });
        let schema =
            parse_message_type(&format!("message events {{ {} }}", fields.collect::<String>())).unwrap();
        let lz4 = Arc::new(WriterProperties::builder().set_compression(Compression::LZ4_RAW).build());
        let mut file = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut file, Arc::new(schema), lz4).unwrap();
        let mut group = writer.next_row_group().unwrap();
        for column in &columns {
            let mut next = group.next_column().unwrap().unwrap();
            if column.kind == CellKind::Text {
                let text = [ByteArray::from(column.name)];
                next.typed::<ByteArrayType>().write_batch(&text, None, None).unwrap();
            } else {
                next.typed::<Int64Type>().write_batch(&[7], None, None).unwrap();
            }
            next.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
        assert_eq!(decode::<Event>(file.into()).unwrap(), [event(7 * scale)], "{unit}");
    }
}

#[test]
fn a_file_of_an_older_version_has_null_in_the_columns_that_it_lacks() {
    let names: Vec<&str> = Event::TABLE.columns.iter().map(|column| column.name).collect();
    assert_eq!(names[OldEvent::TABLE.columns.len()..], ["reason", "duration_ns"]);
    let known = event(7);
    let new = Event { reason: Some("fault".into()), duration_ns: Some(9), ..known.clone() };
    let read = |file: Vec<u8>| decode::<Event>(file.into()).unwrap();
    assert_eq!(read(encode(&[OldEvent(new.clone())]).unwrap()), [known]);
    assert_eq!(read(encode(std::slice::from_ref(&new)).unwrap()), [new]);
}

#[test]
fn joined_files_have_the_rows_of_all() {
    let rows: Vec<LinkSecond> = (0..100).map(link).collect();
    let blocks: Vec<Bytes> = rows.chunks(40).map(|rows| encode(rows).unwrap().into()).collect();
    let whole = join(LinkSecond::TABLE, blocks.clone(), Vec::new()).unwrap();
    assert_eq!(decode::<LinkSecond>(whole.into()).unwrap(), rows);
    assert!(join(DeviceSecond::TABLE, blocks, Vec::new()).is_err());
}

/// Of an older version and of this one, in row groups of their own.
#[test]
fn a_joined_file_of_an_older_version_has_null_in_the_columns_that_it_lacks() {
    let new = |t| Event { reason: Some("fault".into()), duration_ns: Some(9), ..event(t) };
    let (before, after): (Vec<Event>, Vec<Event>) =
        ((0..40).map(event).collect(), (40..50).map(new).collect());
    let old: Vec<OldEvent> = (0..40).map(new).map(OldEvent).collect();
    let blocks: [Bytes; 2] = [encode(&old).unwrap().into(), encode(&after).unwrap().into()];
    let whole = join(Event::TABLE, blocks.clone(), Vec::new()).unwrap();
    assert_eq!(decode::<Event>(whole.into()).unwrap(), [before, after].concat());
    // The other way a column would be lost; and a row without one that may not be null is none.
    assert!(join(OldEvent::TABLE, blocks, Vec::new()).is_err());
    let short: Bytes = encode(&[ShortEvent]).unwrap().into();
    assert!(join(Event::TABLE, [short], Vec::new()).is_err());
}

/// Other writers use row groups of some hundred thousand rows, which would take seconds to decode at once.
#[test]
fn a_long_row_group_is_read_in_parts() {
    let of_one = |n| LinkSecond { link: "eth0".into(), direction: None, ..link(n) };
    let rows: Vec<LinkSecond> = (0..20_000).map(of_one).collect();
    let file = Bytes::from(encode_groups(&rows, rows.len()).unwrap());
    let mut groups = Groups::new(file).unwrap();
    let mut parts: Vec<Vec<LinkSecond>> = Vec::new();
    while let Some(part) = groups.next_rows().unwrap() {
        parts.push(part);
    }
    assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [GROUP, GROUP, 20_000 - 2 * GROUP]);
    assert_eq!(parts.concat(), rows);
}

#[test]
fn a_few_bytes_do_not_hold_the_reader_up() {
    // Metadata with nested lists, the innermost of two billion booleans, which take no byte.
    let lists = [&[0xD9; 15][..], &[0xF1, 0xFF, 0xFF, 0xFF, 0xFF, 7, 0]].concat();
    let length = u32::try_from(lists.len()).unwrap().to_le_bytes();
    let file = [b"PAR1", lists.as_slice(), &length, b"PAR1"].concat();
    assert!(decode::<LinkSecond>(file.into()).unwrap_err().to_string().contains("damaged"));
    // The same in the header of the first page, as an unknown field.
    let mut file = encode(&[link(1)]).unwrap();
    file[4..4 + lists.len()].copy_from_slice(&lists);
    assert!(decode::<LinkSecond>(file.into()).unwrap_err().to_string().contains("damaged"));
}

/// A number of a Thrift structure, in the next field.
fn number(id_more: u8, number: i32) -> Vec<u8> {
    let mut left = ((number << 1) ^ (number >> 31)).cast_unsigned();
    let mut bytes = vec![id_more << 4 | 5];
    while left > 0x7F {
        bytes.push(left.to_le_bytes()[0] | 0x80);
        left >>= 7;
    }
    bytes.push(left.to_le_bytes()[0]);
    bytes
}

/// The header of a page of this type and of these lengths; its own part is the field so much later than the third.
fn page_header(
    kind: i32,
    decompressed: i32,
    compressed: i32,
    more: u8,
    values: i32,
    encoding: i32,
) -> Vec<u8> {
    let head = [number(1, kind), number(1, decompressed), number(1, compressed)].concat();
    [head, vec![more << 4 | 0xC], number(1, values), number(1, encoding), vec![0, 0]].concat()
}

/// A file of one row, of which the column `host` has these bytes.
fn with_host(chunk: &[u8]) -> Bytes {
    let file = Bytes::from(encode(&[link(1)]).unwrap());
    let reader = SerializedFileReader::new(file.clone()).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr().root_schema_ptr();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for column in reader.metadata().row_group(0).columns() {
        let (mut from, mut metadata) = (file.clone(), column.clone());
        if column.column_descr().name() == "host" {
            from = Bytes::copy_from_slice(chunk);
            let length = i64::try_from(chunk.len()).unwrap();
            let builder = metadata.into_builder().set_dictionary_page_offset(None).set_data_page_offset(0);
            metadata = builder.set_total_compressed_size(length).build().unwrap();
        }
        let close = ColumnCloseResult {
            bytes_written: metadata.compressed_size().cast_unsigned(),
            rows_written: 1,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        group.append_column(&from, close).unwrap();
    }
    group.close().unwrap();
    writer.into_inner().unwrap().into()
}

/// Before these checks, the first took 64 GB, the second 2 GB for each column.
#[test]
fn a_few_bytes_take_no_memory_that_they_ask_for() {
    let error = |file: Bytes| {
        assert!(file.len() < 10_000, "{}", file.len());
        decode::<LinkSecond>(file).unwrap_err().to_string()
    };
    let dictionary = with_host(&page_header(2, 0, 0, 4, i32::MAX, 0));
    assert!(error(dictionary.clone()).contains("the file is damaged"));
    assert!(fault(dictionary).is_some());
    let long = with_host(&[page_header(0, i32::MAX, 9, 2, 1, 0), vec![0; 9]].concat());
    assert!(
        error(long.clone()).contains("its pages would take 2.15 GB of memory, more than 268 MB"),
        "{}",
        error(long)
    );
    // An engine may read it: it is not damaged.
    assert_eq!((fault(long.clone()), page_fault(long)), (None, None));
    // The number of texts stands in the page itself.
    let lengths = [0x80, 1, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 7, 0];
    let encoded = [page_header(0, 11, 11, 2, 1, 6), lengths.to_vec()].concat();
    assert!(
        error(with_host(&encoded)).contains("encoded as DELTA_LENGTH_BYTE_ARRAY, which only engines read")
    );
}

#[test]
fn metadata_longer_than_any_are_refused() {
    let length: u32 = 40 << 20;
    let mut file = vec![0; length as usize + 4];
    file.extend(length.to_le_bytes());
    file.extend(b"PAR1");
    let error = decode::<LinkSecond>(file.into()).unwrap_err().to_string();
    assert!(error.contains("its metadata would take 41.9 MB of memory, more than 33.6 MB"), "{error}");
}

#[test]
fn what_is_no_file_of_the_table_is_an_error_and_never_a_panic() {
    let file = encode(&(0..50).map(link).collect::<Vec<_>>()).unwrap();
    assert!(decode::<LinkSecond>(Bytes::new()).is_err());
    for cut in (0..file.len()).step_by(97) {
        assert!(decode::<LinkSecond>(Bytes::copy_from_slice(&file[..cut])).is_err(), "{cut}");
        let mut damaged = file.clone();
        damaged[cut] ^= 0x55;
        let _ = decode::<LinkSecond>(damaged.into());
    }
    // A non-nullable column is missing.
    assert!(decode::<DeviceSecond>(file.into()).is_err());
}

#[test]
fn tables_and_columns_have_names_of_their_own_and_a_meaning() {
    let mut names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), TABLES.len());
    for table in TABLES {
        let mut names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        assert_eq!((names[0], names.contains(&"host")), ("t", true), "{}", table.name);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), table.columns.len(), "{}", table.name);
        for column in table.columns {
            let at = format!("{}.{}", table.name, column.name);
            assert_eq!(column.nullable, column.help.contains("Null: "), "{at}: {}", column.help);
            assert!(column.help.ends_with('.') && column.name.is_ascii(), "{at}");
        }
    }
    let mut cells = 0;
    link(1).cells(&mut |cell| cells += usize::from(cell != Cell::Null || cells < 100));
    assert_eq!(cells, LinkSecond::TABLE.columns.len());
}
