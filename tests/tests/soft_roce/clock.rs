//! A wall clock that jumps. Only a virtual machine has one of its own.

use std::time::Duration;

use rocescope_tests::live::frames;
use rocescope_tests::live::program::{Program, Start};
use rocescope_tests::live::wire::{Link, World};
use rocescope_tests::recording::flow_rows;
use rocescope_tests::soft_roce::lab::NEAR;
use rocescope_tests::soft_roce::tool::LIMIT;
use rocescope_tests::soft_roce::verbs::RETRY_EXCEEDED;
use rustix::time::{ClockId, Timespec, clock_gettime, clock_settime};

use super::faults::{Ends, findings};
use super::queue_pairs::{ended, life, listed, live};

/// Packets of each burst, and the time between two bursts.
const BURST: u32 = 10;
const PAUSE: Duration = Duration::from_millis(1_500);
/// No interval of the recording lasts as long, however slow the machine; the jumps are longer.
const LONGEST_NS: u64 = 600_000_000_000;

fn step(seconds: i64) {
    let now = clock_gettime(ClockId::Realtime);
    clock_settime(ClockId::Realtime, Timespec { tv_sec: now.tv_sec + seconds, ..now }).unwrap();
}

fn bursts(link: &mut Link, from: u32) {
    for number in from..from + 2 {
        let psns = number * BURST..(number + 1) * BURST;
        let sent: Vec<Vec<u8>> = psns.map(|psn| frames::send(0x100, psn)).collect();
        link.receive(&sent).unwrap();
        std::thread::sleep(PAUSE);
    }
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_clock_that_jumps_is_reported_and_costs_no_packet() {
    let (world, mut link) = World::with_link(1_500).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let start = Start { netns: Some(&world.near), ..Start::default() };
    let record =
        Program::watching(start, &["record", "-i", "near0", "--interval", "500ms", "--dir", dir]).unwrap();
    bursts(&mut link, 0);
    // Half a minute more: the two readings differ by some microseconds.
    step(3_630);
    bursts(&mut link, 2);
    step(-7_230);
    bursts(&mut link, 4);
    step(3_600);
    let ended = record.interrupt().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    for message in ["the clock stepped forwards by 1 h 0 min", "the clock stepped back by 2 h 0 min"] {
        assert!(ended.err.contains(message), "{message}: {}", ended.err);
    }
    let rows = flow_rows(folder.path()).unwrap();
    assert_eq!(rows.iter().map(|row| row.packets).sum::<u64>(), u64::from(6 * BURST));
    let longest = rows.iter().map(|row| row.interval_ns).max().unwrap();
    assert!(longest < LONGEST_NS, "{longest} ns");
}

/// A clock that is an hour late, until dropped.
struct SetBack;

impl SetBack {
    const SECONDS: i64 = 3_600;

    fn now() -> Self {
        step(-Self::SECONDS);
        Self
    }
}

impl Drop for SetBack {
    fn drop(&mut self) {
        step(Self::SECONDS);
    }
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_death_is_found_although_the_clock_was_set_back() {
    let ends = Ends::open();
    // No packet is exchanged with this host.
    let program = live(&["--filter", "host 192.0.2.1", "--interval", "500ms"]);
    let (near, far) = ends.connection(|to| to);
    near.write_all(&ends.far, 3, 4096).unwrap();
    let (number, far_number) = (near.number(), far.number());
    program
        .reported(|report| listed(report, NEAR, "qps").any(|qp| qp["lqpn"] == number && qp["state"] == "RTS"))
        .unwrap();
    let late = SetBack::now();
    drop(far);
    near.write(&ends.far, 4096, None).unwrap();
    assert_eq!(near.completion(LIMIT).unwrap(), Some(RETRY_EXCEEDED));
    let died = program.reported(|report| {
        findings(report).any(|one| one["id"] == "qp.died" && one["evidence"]["lqpn"] == number)
    });
    drop(late);
    let (last, _) = ended(program);
    let report = died.unwrap_or_else(|why| panic!("{why:#}: {}", last["qp_lives"]));
    // It was created by the clock before.
    let died = findings(&report).find(|one| one["id"] == "qp.died").unwrap();
    assert_eq!(
        (&died["evidence"]["retry_cnt"], &died["evidence"]["rqpn"]),
        (&3.into(), &far_number.into()),
        "{died}"
    );
    assert_eq!(life(&last, NEAR, number)["end"], "error", "{}", last["qp_lives"]);
}
