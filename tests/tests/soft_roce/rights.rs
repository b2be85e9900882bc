//! Rights beside RDMA devices: three capabilities at each level of kernel.perf_event_paranoid, and what threads keep,
//! as docs/security.md says. On veth alone there is nothing to probe.

use std::time::{Duration, Instant};

use rocescope::host::kernel::{Capabilities, Capability};
use rocescope::sandbox::threads::{self, Thread};
use rocescope_tests::live::hijack::{HIJACK, done_in, tried};
use rocescope_tests::live::program::{PATIENCE, Program, Start};
use rocescope_tests::soft_roce::lab::{FAR, NEAR};
use serde_json::Value;

use super::faults::Ends;
use super::queue_pairs::listed;

const LEVEL: &str = "/proc/sys/kernel/perf_event_paranoid";
/// The three that the service has.
const THREE: [Capability; 3] = [Capability::NetAdmin, Capability::Perfmon, Capability::Bpf];

/// A level of kernel.perf_event_paranoid, until the end of the test.
struct Level(String);

impl Level {
    fn set(level: &str) -> Self {
        let before = std::fs::read_to_string(LEVEL).unwrap();
        std::fs::write(LEVEL, level).unwrap();
        Self(before)
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        std::fs::write(LEVEL, self.0.trim()).unwrap();
    }
}

fn both<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["live", "-i", NEAR.interface, "-i", FAR.interface, "--output", "jsonl", "--interval", "500ms"], more]
        .concat()
}

/// A run of the user nobody with the three capabilities, and a connection that carries packets meanwhile; the report
/// that satisfies `wanted`.
fn with_three(wanted: impl Fn(&Value, u32) -> bool) -> (Value, u32) {
    let capabilities = THREE.map(|capability| capability as u8);
    let how = Start { capabilities: &capabilities, ..Start::default() };
    let ends = Ends::open();
    let program = Program::watching(how, &both(&[])).unwrap();
    // Probes are attached after packets are counted, and before the first list.
    program.reported(|report| report["qp_lives"].is_object()).unwrap();
    program
        .reported(|report| {
            let lives = &report["qp_lives"];
            lives["unavailable"].is_string() || lives["calls"].as_u64() > Some(0)
        })
        .unwrap();
    let (near, _far) = ends.connection(|to| to);
    near.write_all(&ends.far, 3, 4096).unwrap();
    let number = near.number();
    let report = program
        .reported(|report| report["totals"]["roce_packets"].as_u64() > Some(0) && wanted(report, number))
        .unwrap();
    let ended = program.interrupt().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    (report, number)
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn three_capabilities_follow_queue_pairs_where_the_kernel_takes_perfmon() {
    let _level = Level::set("2");
    let is_followed = |report: &Value, number: u32| {
        listed(report, NEAR, "qps").any(|qp| qp["lqpn"] == number && qp["created_ns"].is_u64())
    };
    let (report, number) = with_three(is_followed);
    assert_eq!(report["qp_lives"]["unavailable"], Value::Null, "{}", report["qp_lives"]);
    let life = listed(&report, NEAR, "qps").find(|qp| qp["lqpn"] == number).unwrap();
    assert_eq!((&life["state"], &life["dst"]), (&"RTS".into(), &FAR.address.into()), "{life}");
}

/// Debian's default.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn at_a_higher_level_packets_are_counted_and_the_sysctl_is_named() {
    let _level = Level::set("3");
    let (report, _) = with_three(|report, _| report["qp_lives"]["unavailable"].is_string());
    let why = report["qp_lives"]["unavailable"].as_str().unwrap();
    assert!(why.contains("kernel.perf_event_paranoid is 3") && why.contains("CAP_SYS_ADMIN"), "{why}");
}

/// The threads of a program, once each has what `expected` says, or after a while.
fn settled(program: &Program, expected: impl Fn(&str) -> u64) -> Vec<Thread> {
    let late = Instant::now() + PATIENCE;
    loop {
        let all: Vec<Thread> = threads::of(program.id()).into_values().collect();
        let is_settled = |thread: &Thread| {
            thread.filtered && thread.no_new_privs && thread.permitted.0 == expected(&thread.name)
        };
        let is_there = all.iter().any(|thread| thread.name == "devices");
        if is_there && all.iter().all(is_settled) || Instant::now() > late {
            return all;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn threads_keep_what_the_documentation_says() {
    let bits = |all: &[Capability]| all.iter().fold(0_u64, |bits, one| bits | 1 << (*one as u32));
    // Filters of TC are removed at the end, on a kernel before 6.6.
    let source = bits(&[Capability::NetAdmin]);
    let probing = [Capability::SysPtrace, Capability::Bpf, Capability::Perfmon];
    let export = ["export", "--listen", "127.0.0.1:0", "-i", NEAR.interface, "-i", FAR.interface];
    for (level, options, common, more) in [
        ("2", &[][..], &probing[..], &[Capability::NetAdmin][..]),
        ("2", &["--qp-queries", "0"], &probing, &[]),
        ("2", &["--no-qp-probes"], &probing[..1], &[Capability::NetAdmin]),
        ("3", &[], &probing, &[Capability::NetAdmin, Capability::SysAdmin]),
    ] {
        let _level = Level::set(level);
        let devices = bits(&[common, more].concat());
        for command in [both(&[]), export.to_vec()] {
            let arguments = [&command, options].concat();
            let program = Program::watching(Start::default(), &arguments).unwrap();
            let expected = |name: &str| match name {
                "devices" | "file" => devices,
                "live" => source,
                _ => 0,
            };
            let all = settled(&program, expected);
            let ended = program.interrupt().unwrap();
            assert!(ended.status.success(), "{ended:?}");
            for thread in &all {
                let held = [thread.permitted, thread.effective, thread.bounding];
                let wanted = Capabilities(expected(&thread.name));
                assert_eq!(held, [wanted; 3], "{} of {arguments:?} at level {level}: {all:?}", thread.name);
                assert!(thread.no_new_privs && thread.filtered && thread.user != 0, "{all:?}");
            }
            if command == export {
                // As one line, with what each is for.
                let said =
                    ended.err.lines().find(|line| line.contains("capabilities after set-up: ")).unwrap();
                let names = |line: &str| line.matches("CAP_").count();
                let count = (devices | source).count_ones() + (devices & source).count_ones();
                assert_eq!(names(said), usize::try_from(count).unwrap(), "{said}");
                let is_probing = common.len() == probing.len();
                assert_eq!(said.contains("CAP_PERFMON ("), is_probing, "{said}");
                assert!(said.contains("source: CAP_NET_ADMIN ("), "{said}");
            }
            assert!(
                ["devices", "live"].iter().all(|name| all.iter().any(|one| one.name == *name)),
                "{all:?}"
            );
        }
    }
}

/// What finds the libraries of processes may read files and memory, and nothing else.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_hijacked_sampler_of_posts_can_read_and_nothing_else() {
    let ends = Ends::open();
    let how = Start { variables: &[(HIJACK, "127.0.0.1:9")], ..Start::default() };
    let program = Program::watching(how, &both(&["--sample-posts"])).unwrap();
    let (near, _far) = ends.connection(|to| to);
    near.write_all(&ends.far, 3, 4096).unwrap();
    tried(&program, "posts");
    tried(&program, "devices");
    let ended = program.interrupt().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    done_in(&ended.err, "posts", &["open /etc/shadow", "read memory"]);
    done_in(&ended.err, "devices", &[]);
}
