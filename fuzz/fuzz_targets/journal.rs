//! Any bytes as the journal of a killed recording: as they are, and as frames with correct checksums.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use rocescope::record::parquet::{Groups, encode};
use rocescope::record::registry::{FlowSecond, LinkSecond, Rows, TABLES};
use rocescope::record::store::{Keep, Rotate, Store};
use rocescope_fuzz::{own_panics_abort, row, seeds};

const ID: &str = "0c5e8d3a-1111-4222-8333-444455556666";

fn frame(kind: u8, table: &str, payload: &[u8]) -> Vec<u8> {
    let mut sum = crc32fast::Hasher::new();
    sum.update(table.as_bytes());
    sum.update(payload);
    let mut bytes = b"RSJ1".to_vec();
    bytes.extend([kind, table.len() as u8, 0, 0]);
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(sum.finalize().to_le_bytes());
    [&bytes, table.as_bytes(), payload].concat()
}

/// Kind, table and length of a frame in the input, then its payload.
fn part(kind: u8, table: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind, table], (payload.len() as u16).to_le_bytes().as_slice(), payload].concat()
}

/// The journal of a recording that was not sealed.
fn written() -> Vec<u8> {
    let dir = std::env::temp_dir().join(format!("rocescope-fuzz-journal-seed-{}", std::process::id()));
    let (mut store, _) = open(&dir);
    store.set_unfinished(Rows { hosts: vec![row(1)], ..Rows::default() });
    let (flow_seconds, link_seconds) = (vec![row(1), row(2)], vec![row(1)]);
    store.append(1_700_000_000_000_000_000, Rows { flow_seconds, link_seconds, ..Rows::default() });
    let mut journals = Vec::new();
    files(&dir, ".journal", &mut journals);
    let bytes = fs::read(&journals[0]).expect("a journal can be read");
    drop(store);
    let _ = fs::remove_dir_all(&dir);
    bytes
}

/// The frames of a journal as parts.
fn parts(mut journal: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let [_, _, _, _, kind, name, _, _, l0, l1, l2, l3, _, _, _, _, rest @ ..] = journal {
        let (name, rest) = rest.split_at(usize::from(*name));
        let (payload, rest) = rest.split_at(u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize);
        let table = TABLES.iter().position(|table| table.name.as_bytes() == name).expect("a table");
        all.extend(part(*kind, table as u8, payload));
        journal = rest;
    }
    all
}

fn made() -> Vec<Vec<u8>> {
    let flows = encode(&[row::<FlowSecond>(1), row(2)]).expect("rows can be encoded");
    let links = encode(&[row::<LinkSecond>(1)]).expect("rows can be encoded");
    let frames = [part(0, 0, &flows), part(0, 2, &links), part(1, 0, &flows)].concat();
    let raw = [frame(0, "flow_seconds", &flows), frame(1, "link_seconds", &links), frame(0, "other", b"x")]
        .concat();
    vec![
        [&[1], frames.as_slice()].concat(),
        [&[0], raw.as_slice()].concat(),
        [&[0], &raw[..raw.len() - 3]].concat(),
        [&[1], parts(&written()).as_slice()].concat(),
    ]
}

/// The journal encoded by the input.
fn journal(input: &[u8]) -> Vec<u8> {
    let Some((choice, mut rest)) = input.split_first() else { return Vec::new() };
    if choice % 2 == 0 {
        return rest.to_vec();
    }
    let mut bytes = Vec::new();
    while let Some((&[kind, table, low, high], more)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(more.len());
        let (payload, after) = more.split_at(length);
        let table = TABLES[usize::from(table) % TABLES.len()].name;
        bytes.extend(frame(kind % 3, table, payload));
        rest = after;
    }
    bytes
}

fn open(dir: &Path) -> (Store, Vec<String>) {
    let (rotate, keep) = (Rotate { time_ns: u64::MAX, bytes: u64::MAX }, Keep { time_ns: None, bytes: None });
    Store::open(dir, "node1", rotate, keep, false).expect("the folder can be written")
}

fn files(dir: &Path, end: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, end, found);
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
}

fn init() {
    own_panics_abort();
    seeds(made);
}

fuzz_target!(init: init(), |input: &[u8]| {
    let dir = std::env::temp_dir().join(format!("rocescope-fuzz-journal-{}", std::process::id()));
    // Files of the previous input.
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(dir.join("journal")).expect("the folder can be made");
    let path = dir.join(format!("journal/node1.{ID}.journal"));
    fs::write(&path, journal(input)).expect("the journal can be written");
    let notices = open(&dir).1;
    assert!(notices.len() <= 1, "{notices:?}");
    let sealed = notices.is_empty() || notices[0].starts_with("sealed ");
    assert!(sealed || notices[0].starts_with("cannot "), "{notices:?}");
    assert_eq!(path.exists(), !sealed, "{notices:?}");
    let mut parts = Vec::new();
    files(&dir.join("v1"), ".parquet", &mut parts);
    assert_eq!(parts.is_empty(), notices.is_empty() || !sealed, "{notices:?} {parts:?}");
    for part in parts {
        let bytes: Bytes = fs::read(&part).expect("a part can be read").into();
        let groups = Groups::new(bytes).expect("a file that was sealed can be read");
        assert!(part.to_string_lossy().contains(&format!("/{}/", groups.table())));
    }
    if sealed {
        assert_eq!(open(&dir).1, Vec::<String>::new(), "a second start finds nothing to do");
    }
});
