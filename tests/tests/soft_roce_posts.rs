//! Samples of `post_send` on Soft-RoCE devices, compared with perftest: a process is found as soon as it creates a
//! queue pair, its messages match, its calls are counted up to the limit, and a kill leaves nothing behind. `cargo
//! xtask vm` runs these tests.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use rocescope_tests::live::program::{Program, Start};
use rocescope_tests::soft_roce::lab::{self, Harm, NEAR};
use rocescope_tests::soft_roce::loaded::Loaded;
use rocescope_tests::soft_roce::perftest::Transfer;
use rocescope_tests::soft_roce::tool::wait_for;
use rocescope_tests::soft_roce::verbs::Port;
use serde_json::{Value, json};

const WRITE: Transfer = Transfer {
    program: "ib_write_bw",
    queue_pairs: 2,
    iterations: 50,
    size: 8192,
    traffic_class: 0,
    one_by_one: false,
    chain: 1,
};
/// Slow enough for its process to be found.
const FIRST: Transfer = Transfer { iterations: 60, one_by_one: true, ..WRITE };
const DELAY: &str = "root handle 5: netem limit 20000 delay 100ms";

/// A run that follows queue pairs: its probes have seen the verbs of its own listing.
fn watching(options: &[&str]) -> Program {
    let program = Program::watching(Start::default(), options).unwrap();
    reported(&program, |report| report["qp_lives"]["calls"].as_u64() > Some(0));
    program
}

/// The first report that satisfies `wanted`; a failure shows what was sampled.
fn reported(program: &Program, wanted: impl Fn(&Value) -> bool) -> Value {
    program.reported(wanted).unwrap_or_else(|why| {
        let latest = program.reported(|_| true).unwrap();
        let near =
            latest["devices"].as_array().into_iter().flatten().filter(|one| one["name"] == NEAR.device);
        let qps: Vec<String> = near.filter_map(|one| one["qps"].as_array()).flatten().map(short).collect();
        panic!("{}: {}: {why:#}", latest["post_sampling"], qps.join("; "))
    })
}

fn short(qp: &Value) -> String {
    let of = |name: &str| format!("{name} {}", qp[name]);
    format!("{}, posts {}", ["lqpn", "pid", "state", "sources"].map(of).join(", "), qp["posts"])
}

/// Work posted to the latest queue pair of this number at the near end: kernel 5.15 gives numbers again.
fn posts(report: &Value, lqpn: u64) -> &Value {
    let devices = report["devices"].as_array().into_iter().flatten();
    let near = devices.filter(|device| device["name"] == NEAR.device);
    let qps = near.flat_map(|device| device["qps"].as_array().into_iter().flatten());
    let mut posts = qps.filter(|qp| qp["lqpn"] == lqpn).map(|qp| &qp["posts"]);
    posts.rfind(|posts| posts.is_object()).unwrap_or(&Value::Null)
}

/// perftest's messages equal the sampled posts, message for message, including chained ones.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn posts_are_those_of_perftest() {
    lab::up().unwrap();
    let options = ["live", "--output", "jsonl", "--sample-posts=10m/10m"];
    let program = watching(&options);
    // The provider's file is found with the first process that uses it; its posts until then are not counted.
    let slow = Harm::add(&[DELAY]).unwrap();
    FIRST.run().unwrap();
    drop(slow);
    reported(&program, |report| report["post_sampling"]["windows"] == 1);
    let send = Transfer { program: "ib_send_bw", queue_pairs: 1, iterations: 40, size: 2048, ..WRITE };
    let read = Transfer { program: "ib_read_bw", iterations: 30, size: 16384, ..WRITE };
    for (transfer, opcode) in [
        (WRITE, "RDMA_WRITE"),
        (Transfer { chain: 8, iterations: 64, size: 1024, ..WRITE }, "RDMA_WRITE"),
        (read, "RDMA_READ"),
        (send, "SEND"),
        (Transfer { chain: 4, ..send }, "SEND"),
    ] {
        let done = transfer.run().unwrap();
        let each = done.iterations / transfer.queue_pairs;
        for (lqpn, _) in &done.near {
            println!("{} in chains of {}, QP {lqpn}", transfer.program, transfer.chain);
            // Both: until the queue pair is in a report, its number may be that of an earlier one.
            let is_whole = |posts: &Value| {
                (&posts["requests"], &posts["calls"]) == (&each.into(), &(each / transfer.chain).into())
            };
            let report = reported(&program, |report| is_whole(posts(report, *lqpn)));
            let posted = posts(&report, *lqpn);
            assert_eq!(posted["bytes"], each * done.size, "{transfer:?}: {posted}");
            assert_eq!(
                posted["opcodes"],
                json!([{ "name": opcode, "requests": each }]),
                "{transfer:?}: {posted}"
            );
            assert_eq!(
                posted["sizes"],
                json!([{ "up_to": done.size, "messages": each }]),
                "{transfer:?}: {posted}"
            );
            assert_eq!(
                (&posted["shortest"], &posted["longest"]),
                (&done.size.into(), &done.size.into()),
                "{posted}"
            );
            for none in ["long_chains", "long_lists", "unreadable"] {
                assert_eq!(posted[none], 0, "{transfer:?}: {posted}");
            }
        }
    }
    let report = program.interrupt().unwrap().lines().unwrap().pop().unwrap();
    let sampling = &report["post_sampling"];
    for none in ["stopped", "unreadable", "without_room", "without_device", "qps_left_out"] {
        assert_eq!(sampling[none], 0, "{none}: {sampling}");
    }
}

/// A kill leaves no probe: the kernel removes it with the descriptor, and the function has its own code again.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_limit_ends_the_window_and_a_kill_leaves_nothing() {
    lab::up().unwrap();
    let port = Port::open(NEAR).unwrap();
    let own_code = port.code_of_post_send().unwrap();
    let is_probed = || port.code_of_post_send().unwrap() != own_code;
    let before = Loaded::now();
    let run = |limit: &str| {
        let sampled = ["live", "--output", "jsonl", "--sample-posts=10m/10m", "--sample-posts-limit", limit];
        let program = watching(&sampled);
        let slow = Harm::add(&[DELAY]).unwrap();
        FIRST.run().unwrap();
        drop(slow);
        let report = reported(&program, |report| report["post_sampling"]["calls"].as_u64() > Some(0));
        assert_eq!(report["post_sampling"]["stopped"], 0, "{}", report["post_sampling"]);
        assert!(is_probed(), "a probe changes the code of all processes with this provider");
        program
    };
    // 600 calls are allowed in ten minutes: all of the first transfer are counted.
    let program = run("1");
    Transfer { iterations: 700, size: 1024, queue_pairs: 1, ..WRITE }.run().unwrap();
    let report = reported(&program, |report| report["post_sampling"]["stopped"] == 1);
    assert_eq!(report["post_sampling"]["calls"], 600, "{}", report["post_sampling"]);
    wait_for("the end of the window's probe", || Ok((!is_probed()).then_some(()))).unwrap();
    program.interrupt().unwrap();

    // In the middle of a window.
    let program = run("1000");
    assert!(is_probed());
    program.signal(rustix::process::Signal::KILL).unwrap();
    drop(program);
    wait_for("the end of the probe", || Ok((!is_probed()).then_some(()))).unwrap();
    // Filters at TC outlive a kill on some kernels.
    Program::run(Start::default(), &["doctor", "--clean"]).unwrap();
    before.wait_until_unloaded().unwrap();
    WRITE.run().unwrap();
}
