use std::fs;
use std::os::unix::fs::MetadataExt as _;

use bytes::Bytes;

use super::*;
use crate::record::cell::Time;
use crate::record::packed;
use crate::record::parquet::{self, GROUP};
use crate::record::registry::{DeviceSecond, LinkSecond, Rows};

const HOST: &str = "node1";
use crate::util::time::NS_PER_S as SECOND;
/// 2026-03-01 13:00:00 UTC.
const START: u64 = 1_772_370_000 * SECOND;
const NEVER: Rotate = Rotate { time_ns: u64::MAX, bytes: u64::MAX };

fn rows(t: u64, count: u64) -> Rows {
    let row = |delta| DeviceSecond {
        t: Time(t),
        interval_ns: SECOND,
        host: HOST.into(),
        device: "mlx5_0".into(),
        port: Some(1),
        source: "ethtool".into(),
        counter: "tx_packets".into(),
        delta,
        ..DeviceSecond::default()
    };
    Rows { device_seconds: (0..count).map(row).collect(), ..Rows::default() }
}

fn open(dir: &Path, rotate: Rotate, keep: Keep) -> (Store, Notices) {
    Store::open(dir, HOST, rotate, keep, true).unwrap()
}

/// The files, and their rows in the order of the file names.
fn read(dir: &Path) -> (Vec<PathBuf>, Vec<DeviceSecond>) {
    let mut files = Vec::new();
    walk(&folder(dir), &mut |path, _| files.push(path));
    files.sort_unstable();
    let rows = files.iter().flat_map(|path| parquet::decode(Bytes::from(fs::read(path).unwrap())).unwrap());
    let rows = rows.collect();
    (files, rows)
}

fn journals(dir: &Path) -> usize {
    let names = fs::read_dir(layout::journals(dir)).unwrap().flatten().map(|entry| entry.path());
    names.filter(|path| layout::journal_name(path).is_some()).count()
}

#[test]
fn a_sealed_file_has_all_rows_where_readers_look_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path(), NEVER, Keep::default());
    let mut all = Vec::new();
    // More rows than a row group, in several appends.
    for n in 0..30 {
        let rows = rows(START + n * SECOND, 700);
        all.extend(rows.device_seconds.clone());
        assert_eq!(store.append(START + n * SECOND, rows).0, Losses::default());
    }
    assert!(store.open_rows() < GROUP);
    assert_eq!(read(dir.path()).0, Vec::<PathBuf>::new(), "nothing is seen before it is whole");
    assert_eq!(store.seal(), Notices::new());
    let (files, read) = read(dir.path());
    assert!(read == all);
    let name = files[0].strip_prefix(dir.path()).unwrap().to_str().unwrap().to_owned();
    assert!(
        name.starts_with(&format!("v1/device_seconds/date=2026-03-01/hour=13/host=node1/part-{START}-")),
        "{name}"
    );
    assert_eq!((files.len(), journals(dir.path())), (1, 0));
    assert_eq!(Part::at(&files[0]).unwrap().first_ns, START);
    let queued: Vec<_> = fs::read_dir(queue(dir.path())).unwrap().flatten().collect();
    assert_eq!(queued.len(), 1);
    assert_eq!(fs::read(queued[0].path()).unwrap(), fs::read(&files[0]).unwrap());
}

#[test]
fn rows_that_nothing_follows_are_sealed_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let rotate = Rotate { time_ns: 10 * SECOND, ..NEVER };
    let (mut store, _) = open(dir.path(), rotate, Keep::default());
    store.append(START, rows(START, 3));
    store.append(START + 9 * SECOND, Rows::default());
    assert!(!store.take_sealed() && read(dir.path()).0.is_empty());
    store.append(START + 10 * SECOND, Rows::default());
    assert!(store.take_sealed());
    assert_eq!((read(dir.path()).0.len(), read(dir.path()).1.len(), journals(dir.path())), (1, 3, 0));
    store.append(START + 60 * SECOND, Rows::default());
    assert!(!store.take_sealed() && journals(dir.path()) == 0);
}

#[test]
fn sealing_that_failed_is_tried_at_intervals_without_rows_too() {
    let dir = tempfile::tempdir().unwrap();
    let rotate = Rotate { time_ns: 10 * SECOND, ..NEVER };
    let (mut store, _) = open(dir.path(), rotate, Keep::default());
    let silent =
        |store: &mut Store, second: u64| store.append(START + second * SECOND, Rows::default()).1.len();
    let (folder, queue) = (folder(dir.path()), queue(dir.path()));
    let block = |path: &Path| {
        let _ = fs::remove_dir_all(path);
        fs::write(path, "no folder").unwrap();
    };
    let unblock = |path: &Path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    };
    let sent = || fs::read_dir(&queue).unwrap().count();
    store.append(START, rows(START, 3));
    block(&folder);
    assert_eq!(silent(&mut store, 40), 1);
    unblock(&folder);
    assert_eq!((silent(&mut store, 41), read(dir.path()).0.len()), (0, 0), "the disk rests");
    block(&queue);
    assert_eq!((silent(&mut store, 70), read(dir.path()).0.len()), (0, 1), "in place, but not in the queue");
    unblock(&queue);
    assert_eq!((silent(&mut store, 71), sent()), (0, 0));
    assert_eq!((silent(&mut store, 100), sent()), (1, 1), "it works again");
    assert_eq!(journals(dir.path()), 0);
}

/// A kill at any byte of the journal loses the interval being written, and nothing before it.
#[test]
fn what_a_kill_left_is_sealed_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path(), NEVER, Keep::default());
    for n in 0..24 {
        store.append(START + n * SECOND, rows(START + n * SECOND, 700));
    }
    // As after a kill: nothing is sealed, and the lock is released.
    let mut names = fs::read_dir(layout::journals(dir.path())).unwrap().flatten().map(|entry| entry.path());
    let journal = names.find(|path| layout::journal_name(path).is_some()).unwrap();
    let whole = fs::read(&journal).unwrap();
    std::mem::forget(store);
    for (cut, least) in [(whole.len(), 24), (whole.len() - 1, 23), (whole.len() - 40, 23), (0, 0), (15, 0)] {
        let other = tempfile::tempdir().unwrap();
        let name = layout::journal(other.path(), HOST, "id");
        fs::create_dir_all(name.parent().unwrap()).unwrap();
        fs::write(&name, &whole[..cut]).unwrap();
        let (_, notices) = open(other.path(), NEVER, Keep::default());
        let rows = read(other.path()).1;
        let found = rows.len();
        assert!((700 * least..700 * (least + 1)).contains(&found), "{cut}: {found}");
        assert_eq!((notices.len(), journals(other.path())), (usize::from(least > 0), 0), "{notices:?}");
        for notice in notices {
            let last = units::time_utc(rows.iter().map(|row| row.t.0).max().unwrap());
            let said = format!(
                "sealed 1 file of a recording that was killed: the rows reach to {last}; at most one interval after that is lost"
            );
            assert!(notice.starts_with(&said), "{notice}");
        }
        // Sealing again after a kill between writing the files and removing the journal gives the same files.
        fs::write(&name, &whole[..cut]).unwrap();
        open(other.path(), NEVER, Keep::default());
        assert_eq!(read(other.path()).1.len(), found);
    }
    // A flipped bit ends the readable part of a journal.
    let other = tempfile::tempdir().unwrap();
    let name = layout::journal(other.path(), HOST, "id");
    fs::create_dir_all(name.parent().unwrap()).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(&name, damaged).unwrap();
    open(other.path(), NEVER, Keep::default());
    let found = read(other.path()).1.len();
    assert!(found > 0 && found < 700 * 24, "{found}");
}

/// A program that was replaced by a newer one while it was down: its row groups lack the columns that were added.
#[test]
fn the_journal_of_an_older_version_is_sealed_with_null_in_new_columns() {
    use crate::record::parquet_tests::{OldEvent, event};
    use crate::record::registry::Event;
    use journal::{FrameKind, Journal};

    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(layout::journals(dir.path())).unwrap();
    let mut old = Journal::create(layout::journal(dir.path(), HOST, &layout::uuid())).unwrap();
    let rows = |range: std::ops::Range<u64>| -> Vec<OldEvent> {
        range.map(|n| OldEvent(event(START + n))).collect()
    };
    let group = GROUP as u64;
    // A block replaces the rows that are in it; then come rows that fill none.
    for (kind, range) in [
        (FrameKind::Rows, 0..group + 100),
        (FrameKind::Block, 0..group),
        (FrameKind::Rows, group..group + 100),
        (FrameKind::Rows, group + 100..group + 101),
    ] {
        old.append(&[(kind, "events", &parquet::encode(&rows(range)).unwrap())]).unwrap();
    }
    drop(old);
    let (mut store, notices) = open(dir.path(), NEVER, Keep::default());
    assert!(notices.len() == 1 && notices[0].starts_with("sealed 1 file of a recording"), "{notices:?}");
    assert_eq!(journals(dir.path()), 0);
    let mut file = None;
    walk(&folder(dir.path()), &mut |path, _| file = Some(path));
    let read: Vec<Event> = parquet::decode(fs::read(file.unwrap()).unwrap().into()).unwrap();
    let expected: Vec<Event> = (0..group + 101).map(|n| event(START + n)).collect();
    assert!(read == expected, "{} rows", read.len());
    // What is recorded from now on has the columns.
    store.append(START, Rows { events: vec![event(START)], ..Rows::default() });
    assert_eq!(store.seal(), Notices::new());
}

#[test]
fn a_journal_that_a_process_writes_is_left_alone_and_no_other_records_its_host() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path(), NEVER, Keep::default());
    let taken = || {
        let error = Store::open(dir.path(), HOST, NEVER, Keep::default(), true).unwrap_err().to_string();
        assert!(error.starts_with(&format!("another process records host {HOST} there")), "{error}");
    };
    // As two that are started in the same second: there is no journal before the first row.
    taken();
    store.append(START, rows(START, 5));
    taken();
    let (_, notices) = Store::open(dir.path(), "other", NEVER, Keep::default(), true).unwrap();
    assert_eq!((notices, journals(dir.path())), (Notices::new(), 1));
    store.seal();
    taken();
    assert_eq!(read(dir.path()).1.len(), 5);
    drop(store);
    open(dir.path(), NEVER, Keep::default());
}

#[test]
fn files_begin_anew_by_time_size_and_hour() {
    for (rotate, step, files) in [
        (NEVER, SECOND, 1),
        (Rotate { time_ns: 10 * SECOND, ..NEVER }, SECOND, 4),
        // Rows count 25 bytes until there is a block.
        (Rotate { bytes: 25 * 100, ..NEVER }, SECOND, 4),
        // 40 times 5 minutes: from 13:00 to 16:15.
        (NEVER, 300 * SECOND, 4),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = open(dir.path(), rotate, Keep::default());
        for n in 0..40 {
            store.append(START + n * step, rows(START + n * step, 10));
        }
        store.seal();
        let (found, rows) = read(dir.path());
        assert_eq!((found.len(), rows.len()), (files, 400), "{rotate:?}");
    }
}

#[test]
fn old_files_go_by_age_and_by_size_and_those_of_other_hosts_stay() {
    let minute = Rotate { time_ns: 60 * SECOND, bytes: u64::MAX };
    let fill = |dir: &Path, host: &str, keep| {
        let (mut store, _) = Store::open(dir, host, minute, keep, true).unwrap();
        for n in 0..20 {
            store.append(START + n * 60 * SECOND, rows(START + n * 60 * SECOND, 10));
        }
        store.seal();
        store
    };
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), "other", Keep::default());
    assert_eq!(read(dir.path()).0.len(), 20);
    fill(dir.path(), HOST, Keep { time_ns: Some(5 * 60 * SECOND), bytes: None });
    assert_eq!(read(dir.path()).0.len(), 20 + 6);
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), HOST, Keep::default());
    let one = fs::metadata(&read(dir.path()).0[0]).unwrap().len();
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), HOST, Keep { time_ns: None, bytes: Some(7 * one + one / 2) });
    let (files, _) = read(dir.path());
    assert_eq!(files.len(), 7);
    assert_eq!(Part::at(&files[6]).unwrap().first_ns, START + 19 * 60 * SECOND, "the newest stay");
    assert_eq!(fs::read_dir(queue(dir.path())).unwrap().count(), 7, "what is gone is not sent");
}

/// A file that its age removed is still in the queue while ClickHouse is away: its bytes count, and are given up aloud.
#[test]
fn the_queue_is_within_the_size_and_what_it_gives_up_is_counted() {
    let minute = Rotate { time_ns: 60 * SECOND, bytes: u64::MAX };
    let fill = |dir: &Path, host: &str, keep, minutes: std::ops::Range<u64>| {
        let (mut store, mut notices) = Store::open(dir, host, minute, keep, true).unwrap();
        for n in minutes {
            notices.extend(store.append(START + n * 60 * SECOND, rows(START + n * 60 * SECOND, 10)).1);
        }
        notices.extend(store.seal());
        notices
    };
    let queued = |dir: &Path, host: &str| {
        let mut files = Vec::new();
        walk(&queue(dir), &mut |path, _| files.extend(Part::queued(&path).filter(|part| part.host == host)));
        files.sort_unstable();
        files
    };
    let dir = tempfile::tempdir().unwrap();
    let aged = |bytes| Keep { time_ns: Some(5 * 60 * SECOND), bytes };
    assert_eq!(fill(dir.path(), "other.cluster", aged(None), 0..20), Notices::new());
    let (files, _) = read(dir.path());
    assert_eq!((files.len(), queued(dir.path(), "other.cluster").len()), (6, 20), "age gives up nothing");
    let one = fs::metadata(&files[0]).unwrap().len();
    let said = fill(dir.path(), HOST, aged(Some(10 * one + one / 2)), 0..20);
    let left = queued(dir.path(), HOST);
    assert_eq!((read(dir.path()).0.len(), left.len()), (6 + 6, 10), "files in both count once");
    assert_eq!(left[0].first_ns, START + 10 * 60 * SECOND, "the oldest went");
    assert_eq!(said.len(), 10, "{said:?}");
    let first = units::time_utc(START);
    let words = format!("removed 1 file ({}) that ClickHouse does not have", units::bytes(one));
    assert!(said[0].starts_with(&words) && said[0].contains(&first), "{said:?}");
    // Less than is there: one message for all, those that the tables still have included.
    let said = fill(dir.path(), HOST, Keep { time_ns: None, bytes: Some(5 * one + one / 2) }, 20..21);
    assert!(said.len() == 1 && said[0].starts_with("removed 6 files ("), "{said:?}");
    assert_eq!(queued(dir.path(), HOST).len(), 5);
    assert_eq!(queued(dir.path(), "other.cluster").len(), 20, "those of other hosts stay");
    let mut total = 0;
    walk(&queue(dir.path()), &mut |path, bytes| {
        total += Part::queued(&path).filter(|part| part.host == HOST).map_or(0, |_| bytes);
    });
    assert!(total <= 5 * one + one / 2, "{total}");
}

/// A clock that jumps by years must not let retention remove everything.
#[test]
fn a_jump_of_the_clock_removes_nothing() {
    let minute = Rotate { time_ns: 60 * SECOND, bytes: u64::MAX };
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path(), minute, Keep { time_ns: Some(3_600 * SECOND), bytes: None });
    for n in 0..5 {
        store.append(START + n * 60 * SECOND, rows(START + n * 60 * SECOND, 10));
    }
    let later = START + 10 * 365 * 86_400 * SECOND;
    for n in 0..5 {
        store.append(later + n * 60 * SECOND, rows(later + n * 60 * SECOND, 10));
    }
    store.append(START + 400 * SECOND, rows(START + 400 * SECOND, 10));
    store.seal();
    assert_eq!(read(dir.path()).1.len(), 110);
}

#[test]
fn names_of_hosts_become_folders() {
    for (host, folder) in
        [("node1.cluster", "node1.cluster"), ("../x/y", "_x_y"), ("", "host"), ("a b=c", "a_b_c")]
    {
        assert_eq!(folder_name(host), folder);
    }
    let (a, b) = (layout::uuid(), layout::uuid());
    assert!(a != b && a.len() == 36 && a.as_bytes()[14] == b'4', "{a} {b}");
}

#[test]
fn rows_wait_in_memory_while_no_journal_can_be_created() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path(), NEVER, Keep::default());
    let journals_of = layout::journals(dir.path());
    fs::remove_dir_all(&journals_of).unwrap();
    fs::write(&journals_of, "no folder").unwrap();
    let (lost, notices) = store.append(START, rows(START, 10));
    assert_eq!((lost.rows, notices.len()), (0, 1));
    let (lost, _) = store.append(START + 1, rows(START + 1, MOST_HELD as u64));
    assert_eq!(lost.rows, 10, "the oldest");
    fs::remove_file(&journals_of).unwrap();
    fs::create_dir(&journals_of).unwrap();
    let (lost, notices) = store.append(START + 2, rows(START + 2, 5));
    assert_eq!((lost.rows, notices.len()), (0, 1), "{notices:?}");
    assert_eq!(store.close(), (Losses::default(), Notices::new()));
    assert_eq!(read(dir.path()).1.len(), MOST_HELD + 5);
}

/// An interval of a host with very many flows has more rows than may wait.
#[test]
fn rows_that_wait_for_a_full_disk_are_bounded_however_many_an_interval_has() {
    let mut volume = Volume::on_a_full_disk();
    let (mut added, mut lost) = (0, 0);
    for (second, count) in [(0, 3 * GROUP), (1, 3 * GROUP), (2, 20 * GROUP + 7), (3, 20 * GROUP), (4, 1)] {
        let appended = volume.append(rows(START + second * SECOND, count as u64), &Rows::default());
        assert_eq!(appended.error.unwrap().kind(), io::ErrorKind::StorageFull);
        (added, lost) = (added + count as u64, lost + appended.lost);
        assert!(volume.open_rows() <= 4 * GROUP, "{second}: {}", volume.open_rows());
        assert_eq!(volume.open_rows() as u64 + lost, added, "{second}");
        assert_eq!(volume.unwritten(), volume.open_rows() as u64, "{second}");
    }
    assert!(lost > 0);
}

/// Bytes with the right checksum that no recorder wrote, as of somebody who may write to the folder.
#[test]
fn a_journal_that_would_take_any_amount_of_memory_is_named_with_its_remedy() {
    use journal::{FrameKind, Journal};

    let dir = tempfile::tempdir().unwrap();
    let path = layout::journal(dir.path(), HOST, &layout::uuid());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut hostile = Journal::create(path.clone()).unwrap();
    // Six hundred times the 8,192 rows of one group: the number of groups comes before them.
    let packed = packed::pack_rows(&rows(START, GROUP as u64).device_seconds).unwrap();
    let bomb = [&[packed[0], 0xD8, 0x04][..], &packed[2..].repeat(600)].concat();
    hostile.append(&[(FrameKind::Rows, "device_seconds", &bomb)]).unwrap();
    drop(hostile);
    let (mut store, notices) = open(dir.path(), NEVER, Keep::default());
    let said = format!(
        "cannot read the journal {}: it has more rows of device_seconds than a recorder writes between two blocks; remove it if it is of no use",
        path.display()
    );
    assert_eq!(notices, [said]);
    // It goes on without it.
    store.append(START, rows(START, 3));
    assert_eq!(store.seal(), Notices::new());
    assert_eq!((read(dir.path()).1.len(), journals(dir.path())), (3, 1));
}

/// Those that are replaced count no more.
#[test]
fn all_open_rows_of_all_tables_have_one_budget() {
    use journal::{FrameKind, Journal};

    let text = |n: u8| char::from(n).to_string().repeat(10_000);
    let row = |n: u8| {
        let of = |row| DeviceSecond { counter: text(n).as_str().into(), ..row };
        rows(START, 1).device_seconds.into_iter().map(of).collect::<Vec<_>>()
    };
    let packed: Vec<Vec<u8>> = (b'a'..=b'c').map(|n| packed::pack_rows(&row(n)).unwrap()).collect();
    let link = LinkSecond { link: text(b'l').as_str().into(), ..LinkSecond::default() };
    let of_link = packed::pack_rows(&[link]).unwrap();
    let block = parquet::encode(&row(b'd')).unwrap();
    let recovered = |kinds: &[(FrameKind, &str)], most: usize| {
        let dir = tempfile::tempdir().unwrap();
        let path = layout::journal(dir.path(), HOST, &layout::uuid());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut journal = Journal::create(path.clone()).unwrap();
        for ((kind, table), rows) in kinds.iter().zip(packed.iter().cycle()) {
            let bytes = match (kind, *table) {
                (FrameKind::Block, _) => &block,
                (_, "link_seconds") => &of_link,
                _ => rows,
            };
            journal.append(&[(*kind, table, bytes)]).unwrap();
        }
        drop(journal);
        let volume = Volume::recover_within(path, most).map_err(|error| error.to_string())?;
        Ok::<usize, String>(volume.unwrap().open_rows())
    };
    let [rows, block, unfinished] =
        [FrameKind::Rows, FrameKind::Block, FrameKind::Unfinished].map(|kind| (kind, "device_seconds"));
    let (of_link, waits) = ((FrameKind::Rows, "link_seconds"), (FrameKind::Unfinished, "link_seconds"));
    let refused =
        |most: &str| Err(format!("its rows take more memory than those of a recorder: more than {most}"));
    assert_eq!(recovered(&[rows, rows, rows], 32_000), Ok(3));
    assert_eq!(recovered(&[rows, rows, rows], 29_000), refused("29.0 kB"));
    assert_eq!(recovered(&[rows, of_link, rows], 29_000), refused("29.0 kB"), "of two tables");
    assert_eq!(recovered(&[rows, waits, rows], 29_000), refused("29.0 kB"), "finished or not");
    assert_eq!(recovered(&[rows, rows, block, of_link, rows], 29_000), Ok(2));
    assert_eq!(recovered(&[unfinished, unfinished, unfinished], 29_000), Ok(1));
    assert_eq!(recovered(&[unfinished, waits, rows, rows], 32_000), Ok(3));
    // Also of the rows of a block, which are in memory one group at a time.
    assert_eq!(recovered(&[block], 9_000), refused("9.00 kB"));
    assert_eq!(recovered(&[block], 11_000), Ok(0));
    // Rows count without their texts, too.
    let dir = tempfile::tempdir().unwrap();
    let path = layout::journal(dir.path(), HOST, &layout::uuid());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let many = self::rows(START, GROUP as u64).device_seconds;
    let bytes = packed::pack_rows(&many).unwrap();
    Journal::create(path.clone()).unwrap().append(&[(FrameKind::Rows, "device_seconds", &bytes)]).unwrap();
    let own = size_of_val(&*many);
    assert!(Volume::recover_within(path.clone(), own).is_err());
    assert!(bytes.len() * 10 < own && Volume::recover_within(path, own + 10_000).is_ok());
}

#[test]
fn nothing_is_added_to_files_that_are_in_place_but_not_in_the_queue() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path(), NEVER, Keep::default());
    store.append(START, rows(START, 10));
    let queue = queue(dir.path());
    fs::remove_dir(&queue).unwrap();
    assert_eq!(store.seal().len(), 1);
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    let first = read(dir.path()).0.remove(0);
    let written = inode(&first);
    store.append(START + SECOND, rows(START + SECOND, 7));
    fs::create_dir(&queue).unwrap();
    assert_eq!(store.seal().len(), 1, "it works again");
    let (files, all) = read(dir.path());
    assert_eq!((files.len(), all.len(), journals(dir.path())), (2, 17, 0));
    assert_eq!(inode(&first), written, "it is not written again");
    let sent = fs::read_dir(&queue).unwrap().flatten().map(|entry| fs::read(entry.path()).unwrap());
    let mut sent: Vec<usize> =
        sent.map(|bytes| parquet::decode::<DeviceSecond>(bytes.into()).unwrap().len()).collect();
    sent.sort_unstable();
    assert_eq!(sent, [7, 10]);
}

/// The process goes on with another journal, and is killed after it: what waited has become a row there.
#[test]
fn unfinished_rows_are_not_those_of_a_journal_whose_files_are_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path(), NEVER, Keep::default());
    store.set_unfinished(rows(START, 1));
    store.append(START, rows(START, 10));
    fs::remove_dir(queue(dir.path())).unwrap();
    assert_eq!(store.seal().len(), 1);
    store.append(START + SECOND, Rows::default());
    assert_eq!(journals(dir.path()), 2);
    store.set_unfinished(Rows::default());
    store.append(START + 2 * SECOND, rows(START + 2 * SECOND, 1));
    store.set_unfinished(rows(START + 3 * SECOND, 2));
    store.append(START + 3 * SECOND, Rows::default());
    drop(store);
    let (_, notices) = open(dir.path(), NEVER, Keep::default());
    let mut times: Vec<u64> = read(dir.path()).1.iter().map(|row| (row.t.0 - START) / SECOND).collect();
    times.sort_unstable();
    assert_eq!(times, [&[0; 10][..], &[2, 3, 3]].concat(), "{notices:?}");
    assert_eq!(notices.len(), 2, "{notices:?}");
}

/// What waited and no longer does, without a row, is not recovered.
#[test]
fn unfinished_rows_that_are_none_any_more_are_not_recovered() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path(), NEVER, Keep::default());
    store.set_unfinished(rows(START, 3));
    store.append(START, Rows::default());
    store.set_unfinished(Rows::default());
    store.append(START + SECOND, Rows::default());
    drop(store);
    let (store, notices) = open(dir.path(), NEVER, Keep::default());
    assert_eq!((read(dir.path()).1.len(), notices), (0, Notices::new()));
    drop(store);
    let (mut store, _) = open(dir.path(), NEVER, Keep::default());
    store.set_unfinished(rows(START, 3));
    store.append(START, Rows::default());
    drop(store);
    let (_, notices) = open(dir.path(), NEVER, Keep::default());
    assert!(notices[0].contains(&units::time_utc(START)), "{notices:?}");
    assert_eq!((read(dir.path()).1.len(), notices.len()), (3, 1));
}

#[test]
fn a_recording_is_for_its_owner_and_group_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("a/recording");
    let (mut store, _) = open(&dir, NEVER, Keep::default());
    store.append(START, rows(START, 1));
    assert_eq!(store.close().0, Losses::default());
    for folder in [dir.parent().unwrap(), &dir, &folder(&dir), &layout::journals(&dir), &queue(&dir)] {
        let mode = fs::metadata(folder).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode & !0o750, 0, "{mode:o} {}", folder.display());
    }
}
