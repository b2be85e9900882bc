//! What drivers do that no device of this machine does: commands to mlx5's firmware, and asynchronous events. They are
//! made at kernel addresses, and handed to the loaded programs by functions of this test; everything after that is as
//! with hardware.

use std::fs;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use aya::programs::ProbeKind;
use rocescope::host::kernel::btf::Btf;
use rocescope_tests::live::program::Program;
use rocescope_tests::soft_roce::kernel_memory::KernelMemory;
use rocescope_tests::soft_roce::lab::{self, ENDS, FAR, NEAR, gid_index};
use rocescope_tests::soft_roce::tool;
use serde_json::{Value, json};

use super::faults::{Ends, findings};
use super::probe::attach;
use super::queue_pairs::{COMMANDS, ended, events, has_commands, life, listed, live};

/// Types of the kernel and of a module.
fn types(module: &str) -> Btf {
    let of = |name: &str| fs::read(format!("/sys/kernel/btf/{name}")).unwrap();
    Btf::parse(of("vmlinux"), Some(of(module))).unwrap()
}

fn place(btf: &Btf, name: &str, field: &str) -> usize {
    let field = btf.find(name).unwrap_or_else(|| panic!("struct {name}")).field(field);
    field.unwrap_or_else(|| panic!("a field of struct {name}")).offset as usize
}

/// Called as `mlx5_cmd_do` is; returns `result`.
#[inline(never)]
extern "C" fn command(
    device: u64,
    input: u64,
    input_len: u32,
    output: u64,
    output_len: u32,
    result: i32,
) -> i32 {
    black_box((device, input, input_len, output, output_len));
    black_box(result)
}

/// A verb that gives a command to the firmware.
#[inline(never)]
fn verb(firmware: &Firmware, given: &Given) {
    black_box(1);
    firmware.execute(given);
    black_box(2);
}

/// A verb whose return the kernel does not show.
#[inline(never)]
fn unseen_verb(number: u32) -> u32 {
    black_box(number + 3)
}

/// Offsets of a page.
const NAME_AT: usize = 2_048;
const INPUT_AT: usize = 2_560;
const OUTPUT_AT: usize = 3_072;
/// A device structure behind that of the driver.
const DEVICE_AT: usize = 1_024;
/// Its name: that of a PCI function.
const PCI: &str = "0000:17:00.0";

/// Opcodes of mlx5_ifc.h.
const CREATE: u16 = 0x500;
const DESTROY: u16 = 0x501;
const RST2INIT: u16 = 0x502;
const INIT2RTR: u16 = 0x503;
const RTR2RTS: u16 = 0x504;
const QUERY: u16 = 0x50b;
const CREATE_CQ: u16 = 0x400;
/// The event of a command to RTR that the firmware refused, with its syndrome.
const REFUSED: &str = "DEVX modify to RTR (syndrome 0x2a)";
/// Bytes before the context.
const HEADER: usize = 24;
/// Bytes before the context's extension, in the answer to a query.
const EXTENSION: usize = 24 + 232 + 16;

/// A command and its answer.
#[derive(Clone, Debug)]
struct Given {
    input: Vec<u8>,
    output: Vec<u8>,
    result: i32,
}

/// A command of user 7 about a queue pair, with these bytes of its context.
fn given(opcode: u16, lqpn: u32, context: &[(usize, &[u8])]) -> Given {
    let (mut input, mut output) = (vec![0; HEADER + 232], vec![0; 16]);
    input[..2].copy_from_slice(&opcode.to_be_bytes());
    input[3] = 7;
    let number = &lqpn.to_be_bytes()[1..];
    let numbered = if opcode == CREATE { &mut output } else { &mut input };
    numbered[9..12].copy_from_slice(number);
    for (at, bytes) in context {
        input[HEADER + at..HEADER + at + bytes.len()].copy_from_slice(bytes);
    }
    Given { input, output, result: 0 }
}

/// The driver's own query for the reason of an error; without `extended`, a query of the context alone.
fn asked_why(lqpn: u32, extended: bool) -> Given {
    let mut given = given(QUERY, lqpn, &[]);
    (given.input[3], given.input[8]) = (0, if extended { 0x80 } else { 0 });
    given.output.resize(EXTENSION + 16, 0);
    // `error_syndrome`: transport retry count exceeded.
    given.output[EXTENSION + 12..].copy_from_slice(&[0x12, 0x20, 0x81, 0x15]);
    given
}

/// The verbs' view of a connection, as a context from bit 0x40 on (mlx5_ifc.h).
fn to_rtr(lqpn: u32) -> Given {
    let peer = FAR.address.parse::<Ipv4Addr>().unwrap().to_ipv6_mapped().octets();
    let own = [u8::try_from(gid_index(NEAR).unwrap()).unwrap()];
    let fields: [(usize, &[u8]); 9] = [
        // MTU 1,024; peer's queue pair; adaptive routing; plane; own address; flow label.
        (8, &[3 << 5]),
        (21, &[0, 0xb0, 0x01]),
        (24, &[0x40]),
        (28, &[2]),
        (33, &own),
        (37, &[0x01, 0x23, 0x45]),
        (40, &peer),
        // DSCP; source port; priority.
        (57, &[26, 0xc1, 0xed, 5 << 4]),
        (61, &[1]),
    ];
    given(INIT2RTR, lqpn, &fields)
}

/// All commands that connect a queue pair.
fn connection(lqpn: u32) -> [Given; 4] {
    [
        given(CREATE, lqpn, &[(1, &[0])]),
        given(RST2INIT, lqpn, &[(0, &[2]), (61, &[1])]),
        to_rtr(lqpn),
        given(RTR2RTS, lqpn, &[(32, &[20 << 3]), (113, &[7, 6 << 5])]),
    ]
}

/// A device of mlx5, whose firmware is this test. Each command has a page of its own: the kernel moves the pages of a
/// process, when it joins them to a large one or copies them after a fork.
struct Firmware {
    /// Of a pointer to [`DEVICE_AT`], and of one to [`NAME_AT`] behind that.
    device: usize,
    name: usize,
}

impl Firmware {
    fn new() -> Self {
        let btf = types("mlx5_core");
        Self {
            device: place(&btf, "mlx5_core_dev", "device"),
            name: DEVICE_AT + place(&btf, "device", "kobj.name"),
        }
    }

    fn execute(&self, Given { input, output, result }: &Given) {
        let mut memory = KernelMemory::new().unwrap();
        let address = memory.address();
        let at = |offset: usize| address + offset as u64;
        memory.write(self.device, &at(DEVICE_AT).to_ne_bytes()).unwrap();
        memory.write(self.name, &at(NAME_AT).to_ne_bytes()).unwrap();
        memory.write(NAME_AT, PCI.as_bytes()).unwrap();
        memory.write(INPUT_AT, input).unwrap();
        memory.write(OUTPUT_AT, output).unwrap();
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
        let returned = command(at(0), at(INPUT_AT), len(input), at(OUTPUT_AT), len(output), *result);
        assert_eq!(returned, *result);
    }
}

/// The RDMA devices as they are, the near one a function of [`PCI`], until dropped.
struct OnPci(tempfile::TempDir);

impl OnPci {
    const DEVICES: &str = "/sys/class/infiniband";

    fn mount() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for end in ENDS {
            let real = fs::canonicalize(Path::new(Self::DEVICES).join(end.device)).unwrap();
            let own = folder.path().join(end.device);
            fs::create_dir(&own).unwrap();
            for entry in fs::read_dir(&real).unwrap().map(Result::unwrap) {
                symlink(entry.path(), own.join(entry.file_name())).unwrap();
            }
        }
        symlink(format!("../../../{PCI}"), folder.path().join(NEAR.device).join("device")).unwrap();
        tool::run("mount", &["-o", "bind", &folder.path().to_string_lossy(), Self::DEVICES]).unwrap();
        Self(folder)
    }
}

impl Drop for OnPci {
    fn drop(&mut self) {
        tool::run("umount", &[Self::DEVICES]).unwrap();
        assert!(self.0.path().exists());
    }
}

/// Loads mlx5_core. False, and says so, if its commands cannot be probed, which the report of
/// `modules_that_are_loaded_again_are_followed` must name.
fn loads_commands_or_skip() -> bool {
    tool::run("modprobe", &["mlx5_core"]).unwrap();
    let can = has_commands();
    if !can {
        println!("SKIP commands to mlx5's firmware: this kernel's mlx5_core has no {COMMANDS} to probe");
        tool::run("rmmod", &["mlx5_core"]).unwrap();
    }
    can
}

/// From the commands to the report: which of them are recorded, and what they say.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn queue_pairs_past_the_verbs_are_those_of_their_commands() {
    const FOLLOWED: u32 = 0xa001;
    /// None of these is a command of a process past the verbs.
    const OTHERS: [u32; 3] = [0xa002, 0xa003, 0xa004];
    const AFTER_ALL: u32 = 0xa005;
    lab::up().unwrap();
    if !loads_commands_or_skip() {
        return;
    }
    let firmware = Firmware::new();
    let program = live(&["--interval", "500ms"]);
    program.reported(|report| report["qp_lives"]["devx_unavailable"].is_null()).unwrap();
    let on_pci = OnPci::mount();
    // The devices behind the names are read every half second.
    std::thread::sleep(Duration::from_secs(3));
    let function = command as *const ();
    let _entry = attach("rocescope_qp_command", 0, ProbeKind::Entry, function).unwrap();
    let _return = attach("rocescope_qp_commanded", 1, ProbeKind::Return, function).unwrap();

    for one in &connection(FOLLOWED) {
        firmware.execute(one);
    }
    let [of_kernel, of_verb, of_unseen] = OTHERS.map(|lqpn| given(CREATE, lqpn, &[]));
    let mut no_user = of_kernel;
    no_user.input[3] = 0;
    firmware.execute(&no_user);
    firmware.execute(&given(CREATE_CQ, 1, &[]));
    {
        let _entry = attach("rocescope_qp_modify", 1, ProbeKind::Entry, verb as *const ()).unwrap();
        let _return = attach("rocescope_qp_modified", 0, ProbeKind::Return, verb as *const ()).unwrap();
        verb(&firmware, &of_verb);
    }
    let mut refused = to_rtr(FOLLOWED + 1);
    refused.result = -121;
    refused.output[7] = 0x2a;
    firmware.execute(&refused);
    is_connected(&program, FOLLOWED);
    dies_with_its_reason(&program, &firmware, FOLLOWED);
    firmware.execute(&given(DESTROY, FOLLOWED, &[]));

    // A call whose return was missed hides the commands of its thread for ten seconds, not for ever.
    {
        let _entry = attach("rocescope_qp_modify", 1, ProbeKind::Entry, unseen_verb as *const ()).unwrap();
        black_box(unseen_verb(black_box(1)));
    }
    firmware.execute(&of_unseen);
    std::thread::sleep(Duration::from_secs(11));
    firmware.execute(&given(CREATE, AFTER_ALL, &[]));
    let known = |report: &Value| listed(report, NEAR, "qps").any(|qp| qp["lqpn"] == AFTER_ALL);
    let reported = program.reported(known);
    let (last, _) = ended(program);
    reported.unwrap_or_else(|why| panic!("{why:#}: {}", last["qp_lives"]));
    drop(on_pci);
    let lives = &last["qp_lives"];
    let all: Vec<&Value> = listed(&last, NEAR, "qps").map(|qp| &qp["lqpn"]).collect();
    assert!(OTHERS.iter().all(|other| !all.contains(&&json!(other))), "{all:?}");
    let over = life(&last, NEAR, FOLLOWED);
    assert_eq!((&over["end"], over["ended_ns"].is_u64()), (&"error".into(), true), "{over}");
    // Four to connect, the refused one, the query for the reason, the end, and the last.
    assert_eq!((&lives["commands"], &lives["missed_commands"]), (&8.into(), &0.into()), "{lives}");
    assert_eq!((&lives["missed_returns"], &lives["dropped"]), (&1.into(), &0.into()), "{lives}");
    let [refused] = events(&last, NEAR, REFUSED)[..] else { panic!("{last}") };
    assert_eq!((&refused["lqpn"], &refused["errno"]), (&(FOLLOWED + 1).into(), &121.into()), "{refused}");
    assert_eq!(events(&last, NEAR, "error reason").len(), 1, "the other query has no extension");
    tool::run("rmmod", &["mlx5_core"]).unwrap();
}

/// Waits until a queue pair is connected and the refusal of the next one is reported, and compares.
fn is_connected(program: &Program, lqpn: u32) {
    let report = program.reported(|report| {
        listed(report, NEAR, "qps").any(|qp| qp["lqpn"] == lqpn && qp["state"] == "RTS")
            && !events(report, NEAR, REFUSED).is_empty()
    });
    let report = report.unwrap_or_else(|why| {
        let now = program.reported(|_| true).unwrap();
        panic!("{why:#}: {} {:?}", now["qp_lives"], listed(&now, NEAR, "qps").collect::<Vec<_>>())
    });
    is_as_commanded(life(&report, NEAR, lqpn));
    assert_eq!((&report["qp_paths"]["qps"], &report["qp_paths"]["known"]), (&1.into(), &1.into()));
}

/// The driver asks why a queue pair is in the error state.
fn dies_with_its_reason(program: &Program, firmware: &Firmware, lqpn: u32) {
    firmware.execute(&asked_why(lqpn, false));
    firmware.execute(&asked_why(lqpn, true));
    let report = program.reported(|report| findings(report).any(|one| one["id"] == "qp.died")).unwrap();
    let died = findings(&report).find(|one| one["id"] == "qp.died").unwrap();
    let cause = died["evidence"]["cause"].as_str().unwrap();
    assert!(cause.starts_with("transport retry count exceeded (syndrome 0x15"), "{died}");
    assert_eq!(
        (&died["requester"]["addr"], &died["requester"]["qpn"], &died["responder"]["addr"]),
        (&NEAR.address.into(), &lqpn.into(), &FAR.address.into()),
        "{died}"
    );
    assert_eq!(died["requester"]["pid"], std::process::id(), "{died}");
}

/// A queue pair as [`to_rtr`] and the commands before and after it connect it.
fn is_as_commanded(qp: &Value) {
    let expected = json!({
        "origin": "devx", "kind": "RC", "rqpn": 0xb001, "src": NEAR.address, "dst": FAR.address, "udp_port": 0xc1ed,
        "flow_label": 0x1_2345, "dscp": 26, "priority": 5, "path_mtu": 1_024, "timeout_ns": 4_096_u64 << 20,
        "retry_cnt": 7, "rnr_retry": 6, "adaptive_routing": true, "plane": 2, "bond_port": 2,
        "connect_took_ns": null, "pid": std::process::id(), "sources": ["devx"],
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(qp[name], *value, "{name}: {qp}");
    }
    let [made, ready] = ["created_ns", "connected_ns"].map(|name| qp[name].as_u64());
    assert!(made.is_some() && made < ready, "{qp}");
}

/// Called as `ib_uverbs_qp_event_handler` is.
#[inline(never)]
extern "C" fn event_handler(event: u64, context: u64) {
    black_box((event, context));
}

/// The kinds of events that a device reports of a queue pair (`enum ib_event_type`), and the cause of death of those
/// that leave it in the error state.
const EVENTS: [(u32, &str, Option<&str>); 8] = [
    (1, "QP_FATAL", Some("fatal error of its work queue (QP_FATAL)")),
    (2, "QP_REQ_ERR", Some("invalid request from its peer (QP_REQ_ERR)")),
    (3, "QP_ACCESS_ERR", Some("access error (QP_ACCESS_ERR)")),
    (4, "COMM_EST", None),
    (5, "SQ_DRAINED", None),
    (6, "PATH_MIG", None),
    (7, "PATH_MIG_ERR", None),
    (16, "QP_LAST_WQE_REACHED", None),
];

/// Soft-RoCE reports few of them, and none of a death.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn events_that_devices_report_lead_to_their_findings() {
    const EVENT_AT: usize = 16;
    const QP_AT: usize = 128;
    let ends = Ends::open();
    let btf = types("ib_core");
    // One finding names the deaths of a device: each has a run of its own, the first one also the harmless events.
    let deaths = EVENTS.iter().filter(|(.., cause)| cause.is_some());
    for (run, fatal) in deaths.enumerate() {
        let program = live(&["--filter", "host 192.0.2.1", "--interval", "500ms"]);
        let attached = attach("rocescope_qp_event", 0, ProbeKind::Entry, event_handler as *const ()).unwrap();
        let harmless = EVENTS.iter().filter(|(.., cause)| run == 0 && cause.is_none());
        let reported: Vec<_> =
            [fatal].into_iter().chain(harmless).map(|one| (one, ends.connection(|to| to))).collect();
        let ready = |report: &Value| {
            let is_ready = |number: u32| {
                listed(report, NEAR, "qps").any(|qp| qp["lqpn"] == number && qp["state"] == "RTS")
            };
            reported.iter().all(|(_, (near, _))| is_ready(near.number()))
        };
        program.reported(ready).unwrap();
        for ((number, ..), (near, _)) in &reported {
            let mut memory = KernelMemory::new().unwrap();
            let address = memory.address();
            let at = |offset: usize| (address + offset as u64).to_ne_bytes();
            memory.write(EVENT_AT + place(&btf, "ib_event", "element"), &at(QP_AT)).unwrap();
            memory.write(EVENT_AT + place(&btf, "ib_event", "event"), &number.to_ne_bytes()).unwrap();
            memory.write(QP_AT + place(&btf, "ib_qp", "device"), &at(DEVICE_AT)).unwrap();
            memory.write(QP_AT + place(&btf, "ib_qp", "qp_num"), &near.number().to_ne_bytes()).unwrap();
            memory.write(DEVICE_AT + place(&btf, "ib_device", "name"), NEAR.device.as_bytes()).unwrap();
            event_handler(address + EVENT_AT as u64, 0);
        }
        let all =
            |report: &Value| reported.iter().all(|((_, name, _), _)| !events(report, NEAR, name).is_empty());
        let report = program.reported(all).unwrap();
        drop(attached);
        ended(program);
        for ((_, name, cause), (near, _)) in &reported {
            let [event] = events(&report, NEAR, name)[..] else { panic!("{name}: {report}") };
            assert_eq!(
                (&event["lqpn"], &event["src"], &event["dst"]),
                (&near.number().into(), &NEAR.address.into(), &FAR.address.into()),
                "{event}"
            );
            let end = if cause.is_some() { "error".into() } else { Value::Null };
            assert_eq!(life(&report, NEAR, near.number())["end"], end, "{name}");
        }
        let died: Vec<&Value> = findings(&report).filter(|one| one["id"] == "qp.died").collect();
        let [died] = died[..] else { panic!("{died:?}") };
        let ((_, _, cause), (near, far)) = &reported[0];
        assert_eq!(died["evidence"]["cause"].as_str(), *cause, "{died}");
        assert_eq!(
            (&died["requester"]["qpn"], &died["responder"]["qpn"]),
            (&near.number().into(), &far.number().into()),
            "{died}"
        );
        assert_eq!(
            (&died["severity"], &died["requester"]["pid"]),
            (&"critical".into(), &std::process::id().into())
        );
    }
}
