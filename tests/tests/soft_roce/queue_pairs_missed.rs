//! Queue pairs of which the probes miss something: verbs that wait, records without room, and no probes at all.

use std::sync::atomic::{AtomicBool, Ordering};

use rocescope::util::system::{KernelVersion, kernel_version};
use rocescope_tests::live::program::{Program, Start};
use rocescope_tests::soft_roce::lab::{FAR, NEAR};
use rocescope_tests::soft_roce::qps;
use rocescope_tests::soft_roce::report::count;
use rocescope_tests::soft_roce::verbs::{QueuePair, Settings};
use rustix::process::Signal;
use serde_json::Value;

use super::faults::Ends;
use super::queue_pairs::{churn, ended, life, listed, live};

/// An address without a host: the verb waits a second for its resolution.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_verb_that_waits_is_under_way_and_not_missed() {
    let ends = Ends::open();
    let program = live(&["--interval", "200ms"]);
    let nobody = Settings { peer: [10, 0, 0, 77].into(), ..Settings::to(FAR, 5).unwrap() };
    let is_seen = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_seen.load(Ordering::Relaxed) {
                let qp = ends.near.queue_pair().unwrap();
                qp.init().unwrap();
                let _unresolved = qp.receive(&nobody).unwrap_err();
            }
        });
        let waits = |report: &Value| {
            let lives = &report["qp_lives"];
            assert_eq!(lives["missed_returns"], 0, "{lives}");
            count(&lives["under_way"]) == 1
        };
        let seen = program.reported(waits);
        is_seen.store(true, Ordering::Relaxed);
        seen.unwrap();
    });
    let (last, _) = ended(program);
    assert_eq!((&last["qp_lives"]["missed_returns"], &last["qp_lives"]["under_way"]), (&0.into(), &0.into()));
}

/// The kernel's list names the thread that made a queue pair, and nobody when that has ended.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_queue_pair_whose_thread_has_ended_has_its_process() {
    let ends = Ends::open();
    let [near, far] = std::thread::scope(|scope| {
        let made = scope.spawn(|| {
            let (near, far) = ends.connection(|to| to);
            let numbers = [near.number(), far.number()];
            // They end with their devices.
            std::mem::forget((near, far));
            numbers
        });
        made.join().unwrap()
    });
    // A thread is joined before the kernel takes its number back.
    let are_nameless = || {
        let shown = qps::shown().unwrap();
        [(NEAR.device, near), (FAR.device, far)].into_iter().all(|(device, lqpn)| {
            let found = shown.iter().find(|qp| qp.device == device && qp.lqpn == lqpn).unwrap();
            (found.pid, found.comm.as_deref()) == (None, None)
        })
    };
    assert!((0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        are_nameless()
    }));
    let (report, _) = ended(live(&[]));
    let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
    for (end, qpn) in [(NEAR, near), (FAR, far)] {
        let life = life(&report, end, qpn);
        let maker = (&life["pid"], &life["comm"], &life["origin"]);
        assert_eq!(maker, (&std::process::id().into(), &comm.trim().into(), &"verbs".into()), "{life}");
    }
    assert_eq!(report["qp_lives"]["skipped"].is_u64(), kernel_version() >= Some(KernelVersion::new(6, 7, 0)));
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_queue_pair_whose_destruction_was_dropped_is_gone() {
    /// Three records each: more than the ring buffer holds.
    const OTHERS: usize = 1_000;
    let ends = Ends::open();
    let program = live(&["--interval", "5s"]);
    let made: Vec<_> = (0..3).map(|_| ends.near.queue_pair().unwrap()).collect();
    let stays = ends.near.queue_pair().unwrap();
    let numbers: Vec<u32> = made.iter().map(QueuePair::number).collect();
    let known = |report: &Value, qpn: u32| {
        listed(report, NEAR, "qps").any(|qp| qp["lqpn"] == qpn && qp["created_ns"].is_u64())
    };
    program.reported(|report| numbers.iter().all(|qpn| known(report, *qpn))).unwrap();
    program.signal(Signal::STOP).unwrap();
    churn(&ends.near, OTHERS);
    drop(made);
    program.signal(Signal::CONT).unwrap();
    let is_gone = |report: &Value, qpn: u32| {
        listed(report, NEAR, "qps").any(|qp| qp["lqpn"] == qpn && qp["end"] == "gone")
    };
    let report = program.reported(|report| numbers.iter().all(|qpn| is_gone(report, *qpn))).unwrap();
    assert!(count(&report["qp_lives"]["dropped"]) > 0, "{}", report["qp_lives"]);
    assert!(numbers.iter().all(|qpn| life(&report, NEAR, *qpn)["ended_ns"].is_null()));
    let (last, _) = ended(program);
    let stays = life(&last, NEAR, stays.number());
    assert_eq!((&stays["end"], &stays["state"]), (&Value::Null, &"RESET".into()), "{stays}");
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn without_probes_the_kernel_s_list_is_what_there_is() {
    let ends = Ends::open();
    let arguments = ["live", "-i", NEAR.interface, "--output", "jsonl", "--no-qp-probes"];
    let program = Program::watching(Start::default(), &arguments).unwrap();
    let (near, _far) = ends.connection(|to| to);
    let is_listed = |report: &Value| listed(report, NEAR, "qps").any(|qp| qp["lqpn"] == near.number());
    let report = program.reported(is_listed).unwrap();
    assert_eq!(report["qp_lives"]["unavailable"], "--no-qp-probes", "{}", report["qp_lives"]);
    let life = life(&report, NEAR, near.number());
    assert_eq!((&life["created_ns"], &life["state"]), (&Value::Null, &"RTS".into()), "{life}");
    let programs = aya::programs::loaded_programs().filter_map(Result::ok);
    let mut names = programs.filter_map(|program| program.name_as_str().map(str::to_owned));
    assert!(names.all(|name| !name.starts_with("rocescope_qp")), "no probe is loaded");
    let closed = program.interrupt().unwrap();
    assert!(closed.status.success(), "{closed:?}");
}
