//! `rocescope live` by a user who is not root.

use rocescope_tests::live::attached::Hooks;
use rocescope_tests::live::program::{Program, Start};
use rocescope_tests::live::wire::World;
use rocescope_tests::live::{frames, root_or_skip};
use rocescope_tests::needs::installed_or_skip;

/// Numbers of linux/capability.h.
const NET_ADMIN: u8 = 12;
const NET_RAW: u8 = 13;
const PERFMON: u8 = 38;
const BPF: u8 = 39;
const NEEDED: [(u8, &str); 3] = [(NET_ADMIN, "CAP_NET_ADMIN"), (PERFMON, "CAP_PERFMON"), (BPF, "CAP_BPF")];

/// The sysctl that keeps users without CAP_BPF from loading programs, except with value 0.
fn unprivileged_bpf_disabled() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled");
    read.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn can_run(test: &str) -> bool {
    root_or_skip(test) && installed_or_skip(test, "setpriv")
}

#[test]
fn three_capabilities_are_enough() {
    if !can_run("three_capabilities_are_enough") {
        return;
    }
    let sysctl = unprivileged_bpf_disabled();
    for hook in ["xdp", "tc"] {
        for (capabilities, promiscuous) in
            [(&[NET_ADMIN, PERFMON, BPF][..], false), (&[NET_ADMIN, NET_RAW, PERFMON, BPF], true)]
        {
            let (world, mut link) = World::with_link(1500).unwrap();
            let how = Start { netns: Some(&world.near), capabilities, ..Start::default() };
            let arguments = ["live", "-i", "near0", "--hook", hook, "--output", "jsonl"];
            let program = Program::watching(how, &arguments).unwrap();
            link.receive(&frames::sends(3, 5)).unwrap();
            program.reported(|report| report["totals"]["roce_packets"] == 15).unwrap();
            let ended = program.interrupt().unwrap();
            assert!(ended.status.success(), "unprivileged_bpf_disabled is {sysctl}: {ended:?}");
            assert_eq!(!ended.err.contains("no promiscuous mode"), promiscuous, "{}", ended.err);
            Hooks::until_gone(&world, &mut link).unwrap();
        }
    }
}

/// A missing capability is named, whatever the value of kernel.unprivileged_bpf_disabled.
#[test]
fn each_of_them_is_needed_and_named() {
    if !can_run("each_of_them_is_needed_and_named") {
        return;
    }
    let (world, mut link) = World::with_link(1500).unwrap();
    for (missing, name) in NEEDED {
        let others: Vec<u8> = NEEDED.iter().map(|(number, _)| *number).filter(|n| *n != missing).collect();
        let how = Start { netns: Some(&world.near), capabilities: &others, ..Start::default() };
        let ended = Program::run(how, &["live", "-i", "near0", "--output", "json"]).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        for (number, word) in NEEDED {
            assert_eq!(ended.err.contains(word), number == missing, "{word} without {name}: {}", ended.err);
        }
        assert!(ended.err.contains("sudo"), "{}", ended.err);
        Hooks::until_gone(&world, &mut link).unwrap();
    }
}
