//! Unusual conditions for queue pairs: more of them than the ring buffer has room for in one listing, drivers that
//! give reasons, kernels without types or probes.

use std::fs;
use std::hint::black_box;
use std::path::Path;

use aya::programs::ProbeKind;
use rocescope::host::kernel::btf::Btf;
use rocescope_tests::live::program::{Program, Start};
use rocescope_tests::soft_roce::kernel_memory::KernelMemory;
use rocescope_tests::soft_roce::lab::{self, FAR, NEAR};
use rocescope_tests::soft_roce::report::{count, flow};
use rocescope_tests::soft_roce::tool::{self, LIMIT};
use rocescope_tests::soft_roce::verbs::{QueuePair, RETRY_EXCEEDED};
use serde_json::Value;

use super::faults::{Ends, findings};
use super::probe;
use super::queue_pairs::{ended, life, listed, live};

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn all_that_were_made_before_the_run_are_known() {
    /// Queue pairs per device; together more than the ring buffer has room for.
    const PAIRS: usize = 400;
    let ends = Ends::open();
    let made: Vec<(QueuePair<'_>, QueuePair<'_>)> = (0..PAIRS).map(|_| ends.connection(|to| to)).collect();
    // Each report contains all of them, which the guest is slow to write and read.
    let program = live(&["--interval", "5s"]);
    let known = |report: &Value| {
        let of = |end| listed(report, end, "qps").filter(|qp| qp["path_mtu"] == 1024).count();
        [NEAR, FAR].map(of)
    };
    let report = program.reported(|report| known(report) == [PAIRS; 2]);
    let (last, _) = ended(program);
    println!("{:?} of {PAIRS}: {}", known(&last), last["qp_lives"]);
    report.unwrap();
    assert_eq!(last["qp_lives"]["dropped"], 0, "{}", last["qp_lives"]);
    for (near, far) in &made {
        let life = life(&last, NEAR, near.number());
        assert_eq!((&life["rqpn"], &life["dst"]), (&far.number().into(), &FAR.address.into()), "{life}");
        assert_eq!(
            (&life["timeout_ns"], &life["created_ns"]),
            (&(4_096_u64 << 14).into(), &Value::Null),
            "{life}"
        );
    }
}

/// Called as bnxt_re calls its handler.
#[inline(never)]
extern "C" fn handler(rcfw: u64, event: u64, own: u64) {
    black_box((rcfw, event, own));
}

/// The guest has no bnxt_re hardware, but its driver and types. The firmware's notification and the driver's queue
/// pair are synthesised at kernel addresses; everything after that is as with hardware.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn bnxt_re_says_why_a_queue_pair_died() {
    if tool::run("modprobe", &["bnxt_re"]).is_err() {
        println!("SKIP: this kernel has no module bnxt_re");
        return;
    }
    let types = |name: &str| fs::read(format!("/sys/kernel/btf/{name}")).unwrap();
    let btf = Btf::parse(types("vmlinux"), Some(types("bnxt_re"))).unwrap();
    let place = |name: &str, field: &str| btf.find(name).unwrap().field(field).unwrap().offset as usize;
    let ends = Ends::open();
    let program = live(&["--filter", "host 192.0.2.1", "--interval", "500ms"]);
    let (near, far) = ends.connection(|to| to);
    near.write_all(&ends.far, 3, 4096).unwrap();
    let number = near.number();
    let is_ready =
        |report: &Value| listed(report, NEAR, "qps").any(|qp| qp["lqpn"] == number && qp["state"] == "RTS");
    let connected = program.reported(is_ready).unwrap();
    assert_eq!(connected["qp_lives"]["absent"], serde_json::json!([]), "the handler of bnxt_re is probed");

    let mut memory = KernelMemory::new().unwrap();
    let (qp, device) = (64, 1_024);
    // `struct creq_qp_error_notification`: the requester's reason, transport retry count exceeded, is byte 3; the
    // responder's is byte 11.
    memory.write(3, &[2]).unwrap();
    // The kind of event.
    memory.write(9, &[0xc0]).unwrap();
    let ib_qp = qp + place("bnxt_re_qp", "ib_qp");
    let at_device = memory.address() + device as u64;
    memory.write(ib_qp + place("ib_qp", "device"), &at_device.to_ne_bytes()).unwrap();
    memory.write(ib_qp + place("ib_qp", "qp_num"), &number.to_ne_bytes()).unwrap();
    memory.write(device + place("ib_device", "name"), NEAR.device.as_bytes()).unwrap();
    let _attached = probe::attach("rocescope_qp_reason", 0, ProbeKind::Entry, handler as *const ()).unwrap();
    drop(far);
    near.write(&ends.far, 4096, None).unwrap();
    assert_eq!(near.completion(LIMIT).unwrap(), Some(RETRY_EXCEEDED));
    let own = qp + place("bnxt_re_qp", "qplib_qp");
    // Another kind of event, or an event about an unknown queue pair, has no reason.
    handler(0, memory.address() + 16, memory.address() + own as u64);
    handler(0, memory.address(), 0);
    handler(0, memory.address(), memory.address() + own as u64);
    let died = |report: &Value| {
        let mut all = findings(report).filter(|one| one["id"] == "qp.died");
        all.any(|one| one["evidence"]["cause"] == "transport retry count exceeded (requester 0x02)")
    };
    let reported = program.reported(died);
    let (last, _) = ended(program);
    let events: Vec<&Value> = listed(&last, NEAR, "qp_events").collect();
    reported.unwrap_or_else(|why| panic!("{why:#}: {events:?} {}", last["findings"]));
    let reasons: Vec<_> = events.iter().filter(|event| event["event"] == "error reason").collect();
    assert_eq!(reasons.len(), 1, "{events:?}");
    assert_eq!(
        (&reasons[0]["lqpn"], &reasons[0]["dst"]),
        (&number.into(), &FAR.address.into()),
        "{events:?}"
    );
    tool::run("rmmod", &["bnxt_re"]).unwrap();
}

/// Files of this kernel replaced by those of a folder, until dropped.
struct Hidden {
    at: &'static str,
    _folder: tempfile::TempDir,
}

impl Hidden {
    fn behind(at: &'static str, kept: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in kept {
            fs::copy(Path::new(at).join(name), folder.path().join(name)).unwrap();
        }
        tool::run("mount", &["-o", "bind", &folder.path().to_string_lossy(), at]).unwrap();
        Self { at, _folder: folder }
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        tool::run("umount", &[self.at]).unwrap();
    }
}

/// Kernels with fewer features lose only the affected layer, with a reason.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn kernels_without_types_or_probes_are_without_that_layer_alone() {
    let ends = Ends::open();
    tool::run("modprobe", &["mlx5_core"]).unwrap();
    for (at, kept, lives, devx) in [
        // No types of modules: in this distribution those of queue pairs are in the kernel itself.
        ("/sys/kernel/btf", &["vmlinux"][..], None, "struct mlx5_core_dev"),
        // No kprobes (CONFIG_KPROBES): neither perf events nor tracefs, which is not mounted here.
        ("/sys/devices/kprobe", &[][..], Some("no kprobe can be attached"), "no kprobe can be attached"),
    ] {
        let hidden = Hidden::behind(at, kept);
        let both = ["live", "-i", NEAR.interface, "-i", FAR.interface, "--output", "jsonl"];
        let program = Program::watching(Start::default(), &both).unwrap();
        let (near, far) = ends.connection(|to| to);
        near.write_all(&ends.far, 5, 4096).unwrap();
        let [own, peer] = [near.number(), far.number()];
        let reported = |report: &Value| {
            listed(report, NEAR, "qps").any(|qp| qp["lqpn"] == own && qp["rqpn"] == peer)
                && flow(report, NEAR, "egress", FAR, peer.into())
                    .is_ok_and(|flow| count(&flow["packets"]) >= 20)
        };
        let report = program.reported(reported);
        let end = program.interrupt().unwrap();
        assert!(end.status.success(), "{end:?}");
        drop(hidden);
        let report = report.unwrap_or_else(|why| panic!("{at} {kept:?}: {why:#} {}", end.err));
        let said = |field: &str| report["qp_lives"][field].as_str();
        println!("{at} {kept:?}: {:?}, {:?}", said("unavailable"), said("devx_unavailable"));
        assert_eq!(said("unavailable").is_some(), lives.is_some(), "{}", report["qp_lives"]);
        assert!(lives.is_none_or(|why| said("unavailable").is_some_and(|text| text.contains(why))));
        assert!(said("devx_unavailable").is_some_and(|text| text.contains(devx)), "{}", report["qp_lives"]);
        // Netlink lists the queue pair, its counters are read, and its packets are counted.
        let of_near =
            &report["devices"].as_array().unwrap().iter().find(|one| one["name"] == NEAR.device).unwrap();
        assert!(of_near["counters"].as_object().is_some_and(|all| !all.is_empty()), "{of_near}");
        let followed = life(&report, NEAR, own);
        let sources = followed["sources"].as_array().unwrap();
        assert_eq!(sources.contains(&"control_path".into()), lives.is_none(), "{followed}");
        assert_eq!(followed["pid"], std::process::id(), "{followed}");
    }
    lab::up().unwrap();
    tool::run("rmmod", &["mlx5_core"]).unwrap();
}
