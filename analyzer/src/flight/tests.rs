//! Tests of the recorder on synthetic samples: triggers, content of dumps, and bounds.

use rocescope_common::random::Random;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::dump::{self, Dump, WHY};
use super::pattern::Pattern;
use super::recorder::{Recorder, Requests};
use super::ring::Ring;
use super::trigger::{Cause, Triggers};
use super::{Settings, tee, writer};
use crate::analysis::fixtures::{everything, key, link, sample, stats};
use crate::findings::{Finding, Severity};
use crate::record::Rows;
use crate::record::collect::Origin;
use crate::record::parquet;
use crate::record::registry::FlowSecond;
use crate::record::store::{Keep, Rotate, Store};
use crate::report;
use crate::sample::{Direction, EventSample, Sample};
use crate::source::feed::{self, Command, Update};
use crate::source::recording;

use crate::util::time::NS_PER_S as S;

fn settings(folder: &Path) -> Settings {
    Settings {
        keep: Duration::from_secs(60),
        on: Pattern::default(),
        post: Duration::from_secs(2),
        cooldown: Duration::from_secs(30),
        most: 20,
        folder: folder.to_owned(),
        command: None,
    }
}

fn origin() -> Origin {
    Origin {
        host: "gpu7".into(),
        job: None,
        is_job_given: false,
        job_of: |_| None,
        kernel: None,
        clock: || None,
    }
}

/// A live sample with one ingress flow; `seconds` and `packets` since the start.
fn at(seconds: u64, packets: u64) -> Sample {
    let flow = (key(0, "10.0.0.2", "10.0.0.1", 7), stats(49_152, packets, 100 * packets));
    let mut sample = sample(vec![link("eth0", Some(Direction::Ingress))], vec![flow]);
    sample.kind = crate::sample::SourceKind::Live;
    sample.time_ns += seconds * S;
    sample.steady_ns = Some(seconds * S);
    sample
}

fn recorder(settings: &Settings) -> (Recorder, Requests, mpsc::Receiver<Dump>) {
    let (sender, dumps) = mpsc::sync_channel(1);
    let requests = Requests::default();
    let recorder = Recorder::new(settings, origin(), report::Options::default(), requests.clone(), sender);
    (recorder, requests, dumps)
}

/// Packets over all flow rows of a dump.
fn packets(dump: &Dump) -> u64 {
    let rows = dump.blocks.iter().flat_map(|block| block.rows().unwrap().flow_seconds);
    rows.map(|row| row.packets).sum()
}

fn event(time_ns: u64, length: usize) -> EventSample {
    EventSample {
        time_ns,
        key: key(0, "10.0.0.2", "10.0.0.1", 7),
        events: rocescope_common::account::Event::CNP,
        opcode: 0x81,
        psn: 2,
        aeth: rocescope_common::wire::frame::UNKNOWN,
        wire_len: 62,
        bth_offset: 42,
        headers: Bytes::from(vec![0; length]),
        ..EventSample::default()
    }
}

#[test]
fn a_dump_comes_after_the_time_behind_its_trigger_with_the_rows_around_it() {
    let folder = tempfile::tempdir().unwrap();
    let (mut recorder, requests, dumps) = recorder(&settings(folder.path()));
    for second in 0..5 {
        recorder.sample(&at(second, 10 * (second + 1)));
    }
    requests.signal.store(true, Ordering::Relaxed);
    recorder.sample(&at(5, 60));
    assert!(dumps.try_recv().is_err(), "the time behind the trigger is not over");
    recorder.sample(&at(6, 70));
    requests.socket_ns.store(u64::MAX, Ordering::Relaxed);
    recorder.sample(&at(7, 80));
    let dump = dumps.try_recv().unwrap();
    let causes: Vec<Cause> = dump.reasons.iter().map(|reason| reason.cause).collect();
    assert_eq!(causes, [Cause::Signal, Cause::Request]);
    assert_eq!((dump.trigger_ns, dump.last_ns), (at(5, 0).time_ns, at(7, 0).time_ns));
    assert_eq!(packets(&dump), 80, "all packets up to the dump");
    // A pending dump is made when the source ends.
    requests.key.store(true, Ordering::Relaxed);
    recorder.sample(&at(8, 90));
    assert!(dumps.try_recv().is_err());
    recorder.finish();
    let last = dumps.try_recv().unwrap();
    assert_eq!((packets(&last), last.reasons[0].cause), (90, Cause::Key));
}

#[test]
fn only_the_last_minutes_are_held_whatever_the_clock_does() {
    let folder = tempfile::tempdir().unwrap();
    let (mut recorder, requests, dumps) = recorder(&settings(folder.path()));
    for second in 0..200 {
        recorder.sample(&at(second, 10 * (second + 1)));
    }
    let mut dumped = |second: u64, packets: u64| {
        requests.key.store(true, Ordering::Relaxed);
        recorder.sample(&at(second, packets));
        recorder.sample(&at(second + 2, packets));
        dumps.try_recv().unwrap()
    };
    let dump = dumped(200, 2_010);
    let held = packets(&dump);
    // Blocks are sealed every 30 s: at least the minute is held, and at most one block more.
    assert!((600..=920).contains(&held), "{held}");
    assert!(dump.blocks.first().unwrap().last_ns + 60 * S >= at(200, 0).time_ns);
    // The clock steps back by an hour: rows in its future are dropped, and further dumps are made.
    let mut back = at(203, 2_020);
    back.time_ns -= 3_600 * S;
    requests.key.store(true, Ordering::Relaxed);
    recorder.sample(&back);
    back.time_ns += 2 * S;
    back.steady_ns = Some(205 * S);
    recorder.sample(&back);
    let dump = dumps.try_recv().unwrap();
    assert!(dump.blocks.iter().all(|block| block.last_ns <= back.time_ns), "{:?}", dump.blocks.len());
}

/// The clock is set forward by an hour: the minutes before are beyond `keep` by the new time, which is reported and
/// counted. The rows have the interval that has passed and the size of the step, and what leaves later is not counted.
#[test]
fn a_step_of_the_clock_forwards_is_reported_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (mut recorder, requests, dumps) = recorder(&settings(folder.path()));
    let mut said = Vec::new();
    let mut dumped = |seconds: std::ops::Range<u64>, ahead: u64| {
        for second in seconds.clone() {
            if second == seconds.end - 3 {
                requests.key.store(true, Ordering::Relaxed);
            }
            let mut sample = at(second, 10 * (second + 1));
            sample.time_ns += ahead;
            recorder.events(&[event(sample.time_ns, 90)]);
            said.extend(recorder.sample(&sample));
        }
        dumps.try_recv().unwrap()
    };
    let rows = |dump: &Dump| dump.blocks.iter().map(|block| block.rows().unwrap().len() as u64).sum::<u64>();
    let before = dumped(0..50, 0);
    assert_eq!((before.lost.rows, before.lost.events), (0, 0));
    assert_eq!(before.events.len(), 50);
    let after = dumped(50..60, 3_600 * S);
    assert_eq!((after.lost.rows, after.lost.events), (rows(&before), 50), "all that was held");
    let table = |of: fn(Rows) -> Vec<(u64, i64)>| {
        after.blocks.iter().flat_map(|block| of(block.rows().unwrap())).collect::<Vec<_>>()
    };
    let flows = table(|rows| rows.flow_seconds.iter().map(|row| (row.interval_ns, 0)).collect());
    assert_eq!(flows, [(S, 0); 10]);
    let steps = table(|rows| rows.hosts.iter().map(|row| (row.interval_ns, row.clock_jump_ns)).collect());
    assert_eq!(steps.iter().map(|(_, jump)| jump).sum::<i64>(), 3_600_000_000_000, "{steps:?}");
    let later = dumped(60..300, 3_600 * S);
    assert_eq!(later.lost, after.lost, "what is older than --keep is no loss");
    assert_eq!(said.len(), 1, "{said:?}");
    let cost = format!("drops {} rows and 50 packet events", rows(&before));
    assert!(said[0].starts_with("the clock stepped forwards by 1") && said[0].contains(&cost), "{said:?}");
}

/// A step of less than `keep` takes what is held out early, which is counted when it leaves.
#[test]
fn a_small_step_of_the_clock_is_counted_as_far_as_it_costs() {
    let mut ring = Ring::new(60 * S);
    let mut collector = crate::record::collect::Collector::new(origin(), None);
    let mut pushed = 0;
    for second in 0..200 {
        let mut sample = at(second, 10 * (second + 1));
        if second >= 100 {
            sample.time_ns += 40 * S;
        }
        if second == 100 {
            ring.step(40_000_000_000, sample.time_ns);
        }
        let report = crate::report::Report::build(&sample, &report::Options::default());
        let rows = collector.take(&sample, &report, (second == 100).then_some(S));
        pushed += if (30..100).contains(&second) { rows.flow_seconds.len() as u64 } else { 0 };
        ring.push(sample.time_ns, rows);
        if second == 99 {
            assert_eq!(ring.lost(), super::ring::Lost::default());
        }
    }
    let lost = ring.lost().rows;
    assert!((30..=2 * pushed).contains(&lost), "{lost}, {pushed} flow rows were held");
}

#[test]
fn a_finding_that_begins_makes_one_dump_in_its_cooldown() {
    let finding = |id, place: &str| {
        let mut finding = Finding::new(id, Severity::Critical, format!("{id} at {place}"));
        finding.place.link = Some(place.to_owned());
        finding
    };
    let [loss, other, died] =
        [finding("loss.before_tap", "a"), finding("loss.before_tap", "b"), finding("qp.died", "a")];
    let mut triggers = Triggers::new("loss.*".parse().unwrap(), 30 * S);
    let mut fired = |findings: &[&Finding], second: u64| {
        let findings: Vec<Finding> = findings.iter().map(|finding| (*finding).clone()).collect();
        triggers.take(&findings, 1_000 * S + second * S).len()
    };
    assert_eq!(fired(&[&loss], 0), 0, "it was there when the run began");
    assert_eq!(fired(&[&loss, &died], 1), 0, "no such finding is asked for");
    assert_eq!(fired(&[], 2), 0);
    assert_eq!(fired(&[&loss], 3), 1);
    assert_eq!(fired(&[&loss, &other], 4), 0, "the same id, in its cooldown");
    assert_eq!(fired(&[], 5), 0);
    assert_eq!(fired(&[&other], 33), 1);
    let mut ended = loss.clone();
    ended.active = false;
    assert_eq!(fired(&[&ended], 90), 0);
    assert_eq!(triggers.held_back(), 1);
    // The clock stepped back by an hour, which ends the cooldown.
    assert_eq!(triggers.take(std::slice::from_ref(&loss), 100 * S).len(), 1);
}

#[test]
fn memory_is_bounded_and_what_leaves_is_counted() {
    let mut ring = Ring::new(3_600 * S);
    let events: Vec<EventSample> = (0..10_000).map(|at| event(S + at, 10_000)).collect();
    ring.events(&events);
    assert!(ring.bytes() <= 16 << 20, "{}", ring.bytes());
    assert!(ring.lost().events > 8_000);
    let (_, kept) = ring.contents(0);
    assert_eq!(kept.len() as u64 + ring.lost().events, 10_000);
    assert_eq!(kept.last().unwrap().time_ns, S + 9_999, "the newest stay");
}

/// What docs/agent.md promises of ten minutes with 400 flows: two to six megabytes.
#[test]
fn ten_minutes_of_400_flows_are_some_megabytes() {
    const FLOWS: u32 = 400;
    const SECONDS: u64 = 60;
    let mut ring = Ring::new(600 * S);
    let mut collector = crate::record::collect::Collector::new(origin(), None);
    // A random generator, so that no encoding benefits from regular values.
    let mut random = Random::new(4_791);
    let mut counts = vec![(0u64, 0u64); FLOWS as usize];
    let mut rows = 0;
    for second in 1..=SECONDS {
        let flows = (0..FLOWS).zip(&mut counts).map(|(n, (packets, ce))| {
            *packets += 100_000 + random.below(1 << 20);
            *ce += random.below(1 << 10);
            let (src, dst) = (format!("10.0.{}.1", n % 8), format!("10.1.{}.{}", n % 8, n / 8));
            let mut stats = stats(49_152 + u16::try_from(n).unwrap(), *packets, *packets * 4_158);
            stats.ecn_data = [0, 0, *packets - *ce, *ce];
            (key(u16::try_from(n % 16).unwrap(), &src, &dst, 1_000 + n), stats)
        });
        let way = |n: u32| if n.is_multiple_of(2) { Direction::Ingress } else { Direction::Egress };
        let links = (0..16).map(|n| link(&format!("eth{}", n / 2), Some(way(n))));
        let mut sample = sample(links.collect(), flows.collect());
        sample.kind = crate::sample::SourceKind::Live;
        sample.time_ns += second * S;
        let report = crate::report::Report::build(&sample, &report::Options::default());
        let taken = collector.take(&sample, &report, None);
        rows += taken.flow_seconds.len();
        ring.push(sample.time_ns, taken);
    }
    let (blocks, _) = ring.contents(0);
    assert_eq!(rows as u64, u64::from(FLOWS) * SECONDS);
    let held = blocks.iter().map(|block| block.rows().unwrap().flow_seconds.len()).sum::<usize>();
    assert_eq!((held, ring.lost().rows), (rows, 0));
    let megabytes = 10.0 * ring.bytes() as f64 / 1e6;
    assert!((2.0..=6.0).contains(&megabytes), "{megabytes} MB in ten minutes");
}

/// A dump of the sample that contains everything.
fn dump_of_everything() -> Dump {
    let sample = everything();
    let (sender, dumps) = mpsc::sync_channel(1);
    let mut settings = settings(Path::new("/"));
    settings.post = Duration::ZERO;
    let requests = Requests::default();
    let mut recorder =
        Recorder::new(&settings, origin(), report::Options::default(), requests.clone(), sender);
    requests.signal.store(true, Ordering::Relaxed);
    recorder.events(&[event(sample.time_ns, 90)]);
    recorder.sample(&sample);
    dumps.try_recv().unwrap()
}

/// A dump is a recording that plays to the same figures and opens at its trigger.
fn plays_to(folder: &Path, trigger_ns: u64, packets: u64) {
    assert_eq!(dump::trigger_ns(folder), Some(trigger_ns));
    assert_eq!(dump::trigger_ns(folder.parent().unwrap()), None);
    // Bytes of others take no memory without a bound.
    let hostile = tempfile::tempdir().unwrap();
    let why = hostile.path().join(WHY);
    std::os::unix::fs::symlink("/dev/zero", &why).unwrap();
    assert_eq!(dump::trigger_ns(hostile.path()), None);
    std::fs::remove_file(&why).unwrap();
    let own = std::fs::read_to_string(folder.join(WHY)).unwrap();
    for (spaces, expected) in [(1, Some(trigger_ns)), (4 << 20, None)] {
        std::fs::write(&why, " ".repeat(spaces) + &own).unwrap();
        assert_eq!(dump::trigger_ns(hostile.path()), expected, "{spaces}");
    }
    let played = recording::start(recording::Options {
        path: folder.to_owned(),
        host: None,
        from: None,
        to: None,
        speed: f64::INFINITY,
        emit: crate::source::replay::Emit::AtEnd,
    });
    let played = played.unwrap();
    let mut last = None;
    loop {
        match played.updates.recv_timeout(Duration::from_secs(20)).unwrap() {
            Update::Sample(sample) => last = Some(sample),
            Update::Ended(result) => break result.unwrap(),
            _ => {}
        }
    }
    assert_eq!(last.unwrap().flows.iter().map(|flow| flow.stats.packets).sum::<u64>(), packets);
}

#[test]
fn a_dump_is_a_folder_with_tables_report_page_reason_and_packets() {
    let folder = tempfile::tempdir().unwrap();
    let dump = dump_of_everything();
    let written = dump::write(&dump, folder.path(), Some("{\"checks\":[]}")).unwrap();
    let read = |name: &str| std::fs::read(written.folder.join(name)).unwrap();
    let json = |name: &str| serde_json::from_slice::<serde_json::Value>(&read(name)).unwrap();
    let why = json(WHY);
    assert_eq!(why["schema"], "rocescope.dump/1");
    assert_eq!((&why["trigger_ns"], &why["host"]), (&dump.trigger_ns.into(), &"gpu7".into()));
    assert_eq!(why["reasons"][0]["cause"], "signal");
    assert_eq!(why["lost"]["source"]["events_dropped"], 12);
    let report = json("report.json");
    assert_eq!(report["schema"], "rocescope.report/1");
    assert!(String::from_utf8(read("report.html")).unwrap().contains("Content-Security-Policy"));
    assert_eq!(json("doctor.json")["checks"], serde_json::json!([]));
    assert_eq!((written.packets, &read("packets.pcapng")[..4]), (1, &[0x0A, 0x0D, 0x0D, 0x0A][..]));
    // The tables contain what the report contains.
    let mut files = Vec::new();
    let mut open = vec![written.folder.join("v1/flow_seconds")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    let rows = files.iter().flat_map(|file| {
        let bytes = std::fs::read(file).unwrap();
        parquet::decode::<FlowSecond>(bytes.into()).unwrap()
    });
    let total: u64 = rows.map(|row| row.packets).sum();
    let expected: u64 =
        report["flows"].as_array().unwrap().iter().map(|flow| flow["packets"].as_u64().unwrap()).sum();
    assert!(total > 0 && total == expected, "{total} {expected}");
    plays_to(&written.folder, dump.trigger_ns, expected);
    // A dump of the same second gets a different name, and no partial folder is left.
    let second = dump::write(&dump, folder.path(), None).unwrap();
    assert_ne!(second.folder, written.folder);
    assert!(!second.folder.join("doctor.json").exists());
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().contains("partial")));
    // The oldest dumps are removed; other folders stay.
    std::fs::create_dir(folder.path().join("dump-0")).unwrap();
    writer::prune(folder.path(), 1, &second.folder).unwrap();
    assert!(!written.folder.exists() && second.folder.exists() && folder.path().join("dump-0").exists());
    // After the clock was set back, the latest one has the name of an older one.
    let third = dump::write(&Dump { trigger_ns: 1, ..dump }, folder.path(), None).unwrap();
    writer::prune(folder.path(), 1, &third.folder).unwrap();
    assert!(third.folder.exists() && !second.folder.exists());
}

#[test]
fn a_dump_of_the_last_time_has_the_blocks_of_that_time_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (mut recorder, requests, dumps) = recorder(&settings(folder.path()));
    let mut dumped = |wanted_ns: u64, from: u64| {
        requests.socket_ns.store(wanted_ns, Ordering::Relaxed);
        for second in from..from + 4 {
            recorder.sample(&at(second, 10 * (second + 1)));
        }
        packets(&dumps.try_recv().unwrap())
    };
    // A dump requested after the first seconds seals the rows so far.
    assert_eq!(dumped(u64::MAX, 0), 30, "the time behind the trigger, and no more");
    assert_eq!(dumped(S, 20), 230 - 30, "without the block before it");
    assert_eq!(dumped(u64::MAX, 24), 270);
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(dump::write(&dump_of_everything(), &file.join("dumps"), None).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A recorder's rows wait for space, as its message says; a dump is given up.
#[test]
fn a_dump_that_cannot_be_written_names_the_cause_alone() {
    let folder = tempfile::tempdir().unwrap();
    let never = Rotate { time_ns: u64::MAX, bytes: u64::MAX };
    let (mut store, _) = Store::open(folder.path(), "h", never, Keep::default(), false).unwrap();
    dump::failed(&store, Vec::new()).unwrap();
    let journals = folder.path().join("journal");
    std::fs::remove_dir_all(&journals).unwrap();
    std::fs::write(&journals, "").unwrap();
    let (_, notices) = store.append(1, dump_of_everything().blocks[0].rows().unwrap());
    let error = dump::failed(&store, notices).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotADirectory);
    assert!(!error.to_string().contains("memory"), "{error}");
}

#[test]
fn a_program_gets_the_folder_without_a_shell_and_its_time_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join("a b;touch c");
    std::fs::create_dir(&odd).unwrap();
    let minute = Duration::from_secs(60);
    writer::run(Path::new("rmdir"), &odd, minute).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let failed = writer::run(Path::new("rmdir"), &odd, minute).unwrap_err();
    assert!(failed.to_string().contains("failed with"), "{failed}");
    assert!(writer::run(&folder.path().join("no program"), &odd, minute).is_err());
    // `tail -f` on a file does not end.
    let program = folder.path().join("endless");
    std::fs::write(&program, "#!/bin/sh\nexec sleep 600\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let begin = Instant::now();
    let late = writer::run(&program, &odd, Duration::from_millis(300)).unwrap_err();
    assert!(begin.elapsed() < minute && late.to_string().contains("ended after"), "{late}");
}

/// With the rights of the thread that writes, which may not make it, and of that which starts programs.
#[test]
fn the_folder_of_dumps_is_made_at_the_start_and_not_again() {
    let folder = tempfile::tempdir().unwrap();
    let dumps = folder.path().join("a/dumps");
    let settings = Settings { command: Some("rmdir".into()), ..settings(&dumps) };
    let (end, view) = feed::channel();
    let facts = Box::new(|| Some("{}".to_owned()));
    let (sender, thread) = writer::start(settings, facts, end.updates.clone()).unwrap();
    let said = || match view.updates.recv_timeout(Duration::from_secs(60)).unwrap() {
        Update::Notice(notice) => notice,
        other => panic!("{other:?}"),
    };
    sender.send(dump_of_everything()).unwrap();
    assert!(said().starts_with(&format!("dump written to {}", dumps.display())));
    let failed = said();
    assert!(failed.starts_with("--on-cmd rmdir: failed with"), "{failed}");
    std::fs::remove_dir_all(&dumps).unwrap();
    sender.send(dump_of_everything()).unwrap();
    let missing = said();
    assert!(missing.ends_with("/dumps does not exist; a restart of rocescope makes it"), "{missing}");
    drop(sender);
    thread.join().unwrap();
}

#[test]
fn the_view_gets_everything_and_the_last_sample_even_when_it_is_slow() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, requests, dumps) = recorder(&settings(folder.path()));
    let (source, feed) = feed::channel();
    let (end, view) = feed::channel();
    let thread = tee::start(feed, end, recorder).unwrap();
    view.commands.send(Command::Dump).unwrap();
    view.commands.send(Command::Pause(true)).unwrap();
    assert_eq!(source.commands.recv_timeout(Duration::from_secs(20)), Ok(Command::Pause(true)));
    assert!(requests.key.load(Ordering::Relaxed), "a dump is for the recorder, not for the source");
    assert!(source.tell(Update::Notice("note".to_owned())));
    for second in 0..200 {
        assert!(source.tell(Update::Sample(Box::new(at(second, second + 1)))));
    }
    assert!(source.tell(Update::Ended(Ok(()))));
    let mut last_ns = None;
    let mut samples = 0;
    let mut notes = 0;
    loop {
        match view.updates.recv_timeout(Duration::from_secs(20)).unwrap() {
            Update::Sample(sample) => (samples, last_ns) = (samples + 1, Some(sample.time_ns)),
            Update::Notice(_) => notes += 1,
            Update::Ended(result) => break result.unwrap(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((notes, last_ns), (2, Some(at(199, 0).time_ns)), "one of the source, one of the recorder");
    assert!(samples > 1);
    thread.join().unwrap();
    assert_eq!(dumps.try_recv().unwrap().reasons[0].cause, Cause::Key);
}

#[test]
fn sealed_rows_are_the_rows() {
    let mut ring = Ring::new(60 * S);
    let sample = everything();
    let mut collector = crate::record::collect::Collector::new(origin(), None);
    let report = crate::report::Report::build(&sample, &report::Options::default());
    let rows = collector.take(&sample, &report, None);
    ring.push(sample.time_ns, rows.clone());
    let (blocks, _) = ring.contents(0);
    let mut read = Rows::default();
    for block in &blocks {
        read.append(block.rows().unwrap());
    }
    assert!(!rows.is_empty());
    // In another order: rows of one time are those of one link after the other.
    let all = |rows: &Rows| {
        let mut all: Vec<String> = rows.flow_seconds.iter().map(|row| format!("{row:?}")).collect();
        all.extend(rows.link_seconds.iter().map(|row| format!("{row:?}")));
        all.extend(rows.findings.iter().map(|row| format!("{row:?}")));
        all.extend(rows.hosts.iter().map(|row| format!("{row:?}")));
        all.sort_unstable();
        all
    };
    assert_eq!(read.len(), rows.len());
    assert_eq!(all(&read), all(&rows));
}
