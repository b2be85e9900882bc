//! Tests of a replay through its feed, as a view sees it.

use std::io::Write as _;

use rocescope_common::account::Event;

use super::*;
use crate::sample::{EventSample, Sample};
use crate::source::feed::{Command, Update};

/// A pcap of RoCE packets: milliseconds, opcode, PSN.
fn capture(packets: &[(u32, u8, u32)]) -> tempfile::NamedTempFile {
    let mut bytes = Vec::new();
    for word in [0xA1B2_C3D4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for (ms, opcode, psn) in packets {
        for word in [1000 + ms / 1000, ms % 1000 * 1000, 62, 62] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([0; 12]);
        bytes.extend([8, 0, 0x45, 0, 0, 48, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend([0xC0, 0, 0x12, 0xB7, 0, 28, 0, 0, *opcode, 0, 0xFF, 0xFF, 0, 0, 0, 17]);
        bytes.extend(psn.to_be_bytes());
        bytes.extend([0; 8]);
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    file
}

fn options(file: &tempfile::NamedTempFile) -> Options {
    Options { files: vec![file.path().to_owned()], events: true, ..Options::default() }
}

/// All samples and events that a feed sends until it ends.
fn heard(feed: &Feed) -> (Vec<Sample>, Vec<EventSample>) {
    let (mut samples, mut events) = (Vec::new(), Vec::new());
    loop {
        match feed.updates.recv().unwrap() {
            Update::Sample(sample) => samples.push(*sample),
            Update::Events(more) => events.extend(more),
            Update::Notice(notice) => panic!("{notice}"),
            Update::Restarted => panic!("nobody went back"),
            Update::Ended(result) => {
                result.unwrap();
                return (samples, events);
            }
        }
    }
}

#[test]
fn events_come_in_order_before_the_sample_that_counts_them() {
    let file = capture(&[(0, 4, 0), (1, 4, 1), (2, 4, 5), (3, 0x81, 0), (4, 4, 6)]);
    let (samples, events) = heard(&start(options(&file)).unwrap());
    assert_eq!(samples.len(), 1);
    assert_eq!(samples[0].time_ns, 1_000_004_000_000);
    let reported: Vec<(u16, u32, usize)> =
        events.iter().map(|e| (e.events, e.missing, e.headers.len())).collect();
    assert_eq!(reported, [(Event::NEW_FLOW, 0, 0), (Event::GAP, 3, 62), (Event::CNP, 0, 62)]);
    assert_eq!((events[1].time_ns, events[1].psn, events[1].bth_offset), (1_000_002_000_000, 5, 42));
    assert_eq!(events[2].headers[42], 0x81);
}

#[test]
fn many_events_arrive_in_batches_and_none_is_lost() {
    let packets: Vec<(u32, u8, u32)> = (0..10_000).map(|i| (i, 4, i * 2)).collect();
    let file = capture(&packets);
    let (samples, events) = heard(&start(options(&file)).unwrap());
    assert_eq!(samples[0].flows[0].stats.psn.gaps, 9999);
    assert_eq!(events.iter().filter(|e| e.events & Event::GAP != 0).count(), 9999);
}

#[test]
fn pause_speed_and_stop_are_heeded_at_once() {
    let file = capture(&[(0, 4, 0), (3_600_000, 4, 1), (7_200_000, 4, 2)]);
    let slow = || Options { speed: 1.0, emit: Emit::Watch(Duration::from_secs(600)), ..options(&file) };
    let feed = start(slow()).unwrap();
    feed.commands.send(Command::Stop).unwrap();
    assert!(heard(&feed).0.last().unwrap().window.is_none_or(|(first, last)| first == last));
    // Pausing stops even the fastest replay; then it continues to the end.
    let feed = start(slow()).unwrap();
    feed.commands.send(Command::Pause(true)).unwrap();
    feed.commands.send(Command::Speed(f64::INFINITY)).unwrap();
    let quiet = Duration::from_millis(200);
    assert!(feed.updates.recv_timeout(quiet).is_err(), "nothing is sent in a pause");
    feed.commands.send(Command::Pause(false)).unwrap();
    let (samples, _) = heard(&feed);
    assert_eq!(samples.last().unwrap().flows[0].stats.packets, 3);
}

#[test]
fn a_seek_skips_the_time_until_there_and_goes_on_as_before() {
    let file = capture(&[(0, 4, 0), (3_600_000, 4, 1), (7_200_000, 4, 2)]);
    let (first, _) = heard(&start(options(&file)).unwrap()).0.last().unwrap().window.unwrap();
    let hour = first + 3_600_000_000_000;
    let feed =
        start(Options { speed: 1.0, emit: Emit::Watch(Duration::from_secs(600)), ..options(&file) }).unwrap();
    // A seek also works while paused, and the replay stays paused at the target.
    feed.commands.send(Command::Pause(true)).unwrap();
    feed.commands.send(Command::Seek(hour)).unwrap();
    let there = |update: Update| match update {
        Update::Sample(sample) => sample.time_ns >= hour - 600_000_000_000,
        _ => false,
    };
    while !there(feed.updates.recv_timeout(Duration::from_secs(20)).unwrap()) {}
    feed.commands.send(Command::Pause(false)).unwrap();
    // A target in the past has no effect; the third frame is still an hour away.
    feed.commands.send(Command::Seek(first)).unwrap();
    let quiet = Duration::from_millis(300);
    while let Ok(update) = feed.updates.recv_timeout(quiet) {
        assert!(!matches!(update, Update::Ended(_)), "the rest is not skipped");
    }
    feed.commands.send(Command::Stop).unwrap();
    let (samples, _) = heard(&feed);
    assert_eq!(samples.last().unwrap().window, Some((first, hour)));
    assert_eq!(samples.last().unwrap().flows[0].stats.packets, 2);
}

#[test]
fn a_view_that_is_gone_ends_the_replay() {
    let file = capture(&[(0, 4, 0), (3_600_000, 4, 1)]);
    let feed = start(Options { speed: 1.0, ..options(&file) }).unwrap();
    let Feed { updates, commands } = feed;
    drop(commands);
    // Dropping the commands means that the view has ended: the replay ends now, not in an hour.
    let ended = updates.iter().any(|update| matches!(update, Update::Ended(Ok(()))));
    assert!(ended);
}

/// The next sample, and whether the replay restarted before it.
fn next_sample(feed: &Feed) -> (Sample, bool) {
    let mut again = false;
    loop {
        match feed.updates.recv_timeout(Duration::from_secs(20)).unwrap() {
            Update::Sample(sample) => return (*sample, again),
            Update::Restarted => again = true,
            Update::Events(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The sample at this time or later, and whether the replay restarted before it. Samples in transit are earlier.
fn sample_at(feed: &Feed, time_ns: u64) -> (Sample, bool) {
    let mut again = false;
    loop {
        let (sample, restarted) = next_sample(feed);
        again |= restarted;
        if sample.time_ns >= time_ns {
            return (sample, again);
        }
    }
}

/// A fast replay of few flows takes no time, but trends show every part of it, at the same times in each run.
#[test]
fn a_fast_replay_of_a_short_capture_has_a_sample_for_each_part_of_it() {
    let frames: Vec<(u32, u8, u32)> = (0..500).map(|at| (2 * at, 4, at)).collect();
    let file = capture(&frames);
    let times = || {
        let watched = Options { emit: Emit::Watch(Duration::from_secs(1)), ..options(&file) };
        let (samples, _) = heard(&start(watched).unwrap());
        let first = samples.last().unwrap().window.unwrap().0;
        samples.iter().map(|sample| sample.time_ns - first).collect::<Vec<_>>()
    };
    let times = [times(), times()];
    assert_eq!(times[0], times[1]);
    let [times, _] = times;
    assert!(times.len() > 100, "{}", times.len());
    let widest = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(widest < 1_000_000_000 / 40, "{widest} ns without a sample");
}

#[test]
fn a_rewind_reads_everything_again_up_to_there() {
    use crate::util::time::NS_PER_S as S;
    let file = capture(&[(0, 4, 0), (1_000, 4, 5), (2_000, 4, 6), (3_600_000, 4, 7)]);
    let feed = start(Options { emit: Emit::Watch(Duration::from_secs(600)), ..options(&file) }).unwrap();
    let (samples, _) = heard(&feed);
    let last = samples.last().unwrap();
    let (first, _) = last.window.unwrap();
    assert_eq!(last.flows[0].stats.packets, 4);
    // After the end; the replay then stays paused.
    feed.commands.send(Command::Rewind(first + 3 * S / 2)).unwrap();
    let (sample, again) = sample_at(&feed, first + 3 * S / 2);
    assert!(again, "the view is told that time goes back");
    assert_eq!((sample.time_ns, sample.flows[0].stats.packets), (first + 3 * S / 2, 2));
    assert_eq!((sample.flows[0].stats.psn.gaps, sample.window), (1, Some((first, first + S))));
    assert!(feed.updates.recv_timeout(Duration::from_millis(200)).is_err(), "it stands still");
    // Further back while paused, and then forward.
    feed.commands.send(Command::Rewind(first + S / 2)).unwrap();
    let (sample, again) = sample_at(&feed, first + S / 2);
    assert_eq!((again, sample.flows[0].stats.packets), (true, 1));
    feed.commands.send(Command::Pause(false)).unwrap();
    let (samples, _) = heard(&feed);
    assert_eq!(samples.last().unwrap().flows[0].stats.packets, 4);
    // If a file has been deleted meanwhile, the rewind ends the replay with the reason.
    drop(file);
    feed.commands.send(Command::Rewind(first)).unwrap();
    let Ok(Update::Ended(Err(error))) = feed.updates.recv_timeout(Duration::from_secs(20)) else { panic!() };
    assert!(format!("{error:#}").contains("no such file"), "{error:#}");
}

/// A stream without packets still obeys commands.
#[test]
fn a_stop_is_heard_wherever_a_stream_stalls() {
    let section: Vec<u8> = [0x0A0D_0D0Au32, 28, 0x1A2B_3C4D, 1, u32::MAX, u32::MAX, 28]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    let unknown: Vec<u8> = [0x0BAD_u32, 12, 12].into_iter().flat_map(u32::to_le_bytes).collect();
    let empty_member = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (what, head, endless) in [
        ("no writer's byte", vec![], None),
        ("a stalled header", section[..3].to_vec(), None),
        ("a stalled file header", section[..10].to_vec(), None),
        ("a stalled gzip header", vec![0x1f, 0x8b, 8, 0], None),
        ("unknown blocks", section.clone(), Some(unknown)),
        ("empty gzip members", empty_member.to_vec(), Some(empty_member.to_vec())),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        crate::host::read::testing::fifo(&path);
        let feed = start(Options { files: vec![path.clone()], ..Options::default() }).unwrap();
        let writer = std::thread::spawn(move || {
            let mut pipe = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            pipe.write_all(&head).unwrap();
            let endless = endless.map(|bytes| bytes.repeat(1000));
            // Ends with the reader.
            while endless.as_ref().is_some_and(|bytes| pipe.write_all(bytes).is_ok()) {}
            pipe
        });
        std::thread::sleep(Duration::from_millis(150));
        feed.commands.send(Command::Stop).unwrap();
        let late = std::time::Instant::now() + Duration::from_secs(20);
        loop {
            let left = late.saturating_duration_since(std::time::Instant::now());
            match feed.updates.recv_timeout(left) {
                Ok(Update::Ended(result)) => break result.unwrap(),
                Ok(_) => {}
                Err(error) => panic!("{what}: {error}"),
            }
        }
        drop(feed);
        writer.join().unwrap();
    }
}
