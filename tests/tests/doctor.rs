//! `rocescope doctor` on this machine, in network namespaces of the test.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use rocescope_tests::killed::Killed;
use rocescope_tests::live::program::{Ended, Program, Start, Tenant};
use rocescope_tests::live::wire::World;
use rocescope_tests::needs_root;
use rocescope_tests::oracle::binary;
use serde_json::Value;

const NET_ADMIN: u8 = 12;
const PERFMON: u8 = 38;
const BPF: u8 = 39;

fn doctor(how: Start<'_>, arguments: &[&str]) -> Ended {
    let ended = Program::run(how, &[&["doctor"], arguments].concat()).unwrap();
    // There is no RDMA device, so that none of its checks can be critical.
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    ended
}

/// The host check with this id.
fn check(page: &Value, id: &str) -> Value {
    let mut checks = page["checks"].as_array().unwrap().iter();
    checks.find(|check| check["id"] == id && check["subject"] == "host").unwrap().clone()
}

#[test]
fn root_and_others_see_what_they_can_run() {
    needs_root!();
    let (world, _link) = World::with_link(1500).unwrap();
    // The interface is virtual and has no lines of its own.
    let others = "Without RDMA: near0 (veth)";
    let root = doctor(Start { netns: Some(&world.near), ..Start::default() }, &[]).out;
    assert!(root.contains(others) && root.contains("live -i NAME") && !root.contains("-i near0"), "{root}");
    assert!(!root.contains("sudo"), "{root}");
    let nobody = Start { netns: Some(&world.near), nobody: true, ..Start::default() };
    let said = doctor(nobody, &[]).out;
    let program = binary::path().unwrap().canonicalize().unwrap();
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("cap_net_raw+ep {}", program.display())), "{said}");
    assert!(
        said.contains(others) && said.contains(&format!("$ sudo {} live -i NAME", program.display())),
        "{said}"
    );
    assert!(said.contains("need a root shell"), "{said}");
    // Processes whose environments are not readable are named one by one.
    let verbose = doctor(nobody, &["--verbose"]).out;
    assert!(verbose.contains("cannot read the environment of"), "{verbose}");
    let page = doctor(nobody, &["--output", "json"]).report().unwrap();
    let unreadable = page["host"]["processes_unreadable"].as_array().unwrap();
    assert!(unreadable.iter().any(|process| process["pid"] == std::process::id()), "{page}");
    assert!(unreadable.iter().all(|process| process["comm"].is_string()), "{unreadable:?}");
}

#[test]
fn three_capabilities_are_said_to_be_enough() {
    needs_root!();
    let (world, _link) = World::with_link(1500).unwrap();
    let how =
        Start { netns: Some(&world.near), capabilities: &[NET_ADMIN, PERFMON, BPF], ..Start::default() };
    let page = doctor(how, &["--output", "json"]).report().unwrap();
    let capabilities = check(&page, "kernel.capabilities");
    assert_eq!(
        (&capabilities["verdict"], &capabilities["value"]),
        (&"info".into(), &"CAP_NET_RAW missing".into())
    );
    let command = page["sights"][0]["command"].as_str().unwrap();
    assert!(command.ends_with("live -i near0") && !command.starts_with("sudo"), "{command}");
    let short = Start { capabilities: &[NET_ADMIN, PERFMON], ..how };
    let page = doctor(short, &["--output", "json"]).report().unwrap();
    assert_eq!(check(&page, "kernel.capabilities")["verdict"], "warning", "{page}");
}

#[test]
fn another_namespace_is_looked_into() {
    needs_root!();
    let (world, _link) = World::with_link(1500).unwrap();
    let tenant = Tenant::of(&world.near).unwrap();
    let page =
        doctor(Start::default(), &["--netns", &tenant.id(), "--clean", "--output", "json"]).report().unwrap();
    let interfaces = page["host"]["interfaces"].as_array().unwrap();
    let names: Vec<&str> = interfaces.iter().filter_map(|interface| interface["name"].as_str()).collect();
    assert_eq!(names, ["near0"]);
    let command = page["sights"][0]["command"].as_str().unwrap();
    assert!(command.ends_with(&format!("live -i near0 --netns {}", tenant.id())), "{command}");
    let refused = Program::run(Start::default(), &["doctor", "--netns", "no-such-namespace"]).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(refused.err.contains("no-such-namespace") && refused.out.is_empty(), "{refused:?}");
}

#[test]
fn what_a_switch_said_in_a_capture_is_held_against_an_interface() {
    needs_root!();
    let (world, _link) = World::with_link(1500).unwrap();
    let how = Start { netns: Some(&world.near), ..Start::default() };
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/data");
    let of = |interface: &str, file: &str| format!("{interface}={data}/{file}");
    let lldp = of("near0", "encap/tcpdump_dcb_pfc.pcap");
    let page = doctor(how, &["--lldp-capture", &lldp, "--output", "json"]).report().unwrap();
    let neighbour = &page["host"]["interfaces"][0]["neighbour"];
    assert_eq!(neighbour["dialect"], "IEEE", "{neighbour}");
    // Nothing is known of a veth's settings, so nothing can differ.
    let mut checks = page["checks"].as_array().unwrap().iter();
    let pfc = checks.find(|check| check["id"] == "switch.pfc").unwrap();
    assert_eq!((&pfc["subject"], &pfc["verdict"]), (&"near0".into(), &"unknown".into()));
    let text = doctor(how, &["--lldp-capture", &lldp]).out;
    assert!(text.contains("with PFC on priority 2, 4, 5"), "{text}");
    let silent = doctor(how, &["--lldp-capture", &of("near0", "b1_send.h1.pcap"), "--verbose"]);
    // Where a line of the page ends depends on the length of the path.
    let said =
        |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").contains("has no LLDP frame");
    assert!(said(&silent.err) && said(&silent.out), "{silent:?}");
    let stranger =
        Program::run(how, &["doctor", "--lldp-capture", &of("eth9", "encap/tcpdump_dcb_pfc.pcap")]).unwrap();
    assert_eq!(stranger.status.code(), Some(1), "{stranger:?}");
    let named = "unknown interface eth9; the interfaces of this host are ";
    assert!(stranger.err.contains(named) && stranger.out.is_empty(), "{stranger:?}");
}

#[test]
fn settings_of_a_job_are_read_where_it_has_them() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("job.conf"), "NCCL_IB_TC=106\nNCCL_IB_HCA=mlx5_7\n").unwrap();
    std::os::unix::fs::symlink("job.conf", folder.path().join("link.conf")).unwrap();
    let mut job = std::process::Command::new("sleep");
    job.arg("600").env("NCCL_CONF_FILE", "link.conf").env("NCCL_IB_HCA", "mlx5_0").current_dir(folder.path());
    let job = Killed(job.spawn().unwrap());
    // The process exists before it executes its program.
    let late = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let found = loop {
        let page = doctor(Start::default(), &["--output", "json"]).report().unwrap();
        let mut processes = page["host"]["processes"].as_array().unwrap().iter();
        match processes.find(|process| process["pid"] == job.0.id()).cloned() {
            Some(found) if found["comm"] == "sleep" => break found,
            other => assert!(std::time::Instant::now() < late, "{other:?} in {page}"),
        }
    };
    assert_eq!(found["environment"]["NCCL_IB_HCA"], "mlx5_0");
    let expected = serde_json::json!({ "NCCL_IB_TC": { "value": "106", "file": "link.conf" } });
    assert_eq!(found["configured"], expected, "{found}");
    assert_eq!((&found["same_files"], &found["same_network"]), (&true.into(), &true.into()), "{found}");
    let text = doctor(Start::default(), &[]).out;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = format!(
        "sleep {}: NCCL_CONF_FILE=link.conf NCCL_IB_HCA=mlx5_0 NCCL_IB_TC=106 (from link.conf)",
        job.0.id()
    );
    assert!(words.contains(&line), "{line} in {text}");
}
