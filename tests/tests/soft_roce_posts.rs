//! Samples of `post_send` on Soft-RoCE devices: a running process is found, its calls are counted up to the limit, and a
//! kill leaves nothing. `cargo xtask vm` runs this test.

use rocescope_tests::live::program::{Program, Start};
use rocescope_tests::soft_roce::lab::{self, Harm};
use rocescope_tests::soft_roce::perftest::Transfer;

const WRITE: Transfer = Transfer {
    program: "ib_write_bw",
    queue_pairs: 2,
    iterations: 50,
    size: 8192,
    traffic_class: 0,
    one_by_one: false,
};
/// Slow enough for its process to be found.
const FIRST: Transfer = Transfer { iterations: 60, one_by_one: true, ..WRITE };
const DELAY: &str = "root handle 5: netem limit 20000 delay 100ms";

/// A kill leaves no probe: the kernel removes it with the descriptor, and a call is an ordinary one again.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_limit_ends_the_window_and_a_kill_leaves_nothing() {
    lab::up().unwrap();
    let options = ["live", "--output", "jsonl", "--sample-posts=10m/10m", "--sample-posts-limit", "1"];
    let program = Program::watching(Start::default(), &options).unwrap();
    let slow = Harm::add(&[DELAY]).unwrap();
    // 600 calls are allowed in ten minutes: all of these are counted.
    FIRST.run().unwrap();
    drop(slow);
    let report =
        program.reported(|report| report["post_sampling"]["calls"].as_u64().is_some_and(|n| n > 0)).unwrap();
    assert_eq!(report["post_sampling"]["stopped"], 0, "{}", report["post_sampling"]);
    Transfer { iterations: 700, size: 1024, queue_pairs: 1, ..WRITE }.run().unwrap();
    let report = program.reported(|report| report["post_sampling"]["stopped"] == 1).unwrap();
    assert_eq!(report["post_sampling"]["calls"], 600, "{}", report["post_sampling"]);
    program.signal(rustix::process::Signal::KILL).unwrap();
    drop(program);
    WRITE.run().unwrap();
}
