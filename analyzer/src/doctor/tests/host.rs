//! Checks of the host itself: rights, commands, interfaces without RDMA, processes, the switch.

use super::{dcb as dcb_answer, *};
use crate::doctor::facts::KernelState;
use crate::doctor::{Privileged, collect_with};
use crate::host::net::dcb;

/// Root, an ordinary user, and root without capabilities.
const ROOT: &str = "proc/self/status <<\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n>>";
const USER: &str = "proc/self/status <<\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n>>";
const BOUND: &str = "proc/self/status <<\nUid:\t0\t0\t0\t0\nCapEff:\t0000000000003000\n>>";
const HERE: &str = "proc/self/exe -> /home/ann/a b/rocescope";

fn change(page: &Page, id: &str) -> String {
    let check = page.checks.iter().find(|check| check.id == id).unwrap();
    check.change.clone().unwrap_or_default()
}

#[test]
fn rights_are_given_to_the_file_that_runs() {
    let user = page(RXE, &format!("{USER}\n{HERE}"));
    let said = change(&user, "kernel.capabilities");
    // A path may want quotes, and sudo does not search the directories that the user does.
    for part in
        ["(sudo '/home/ann/a b/rocescope' ..)", "sudo setcap cap_bpf,", "+ep '/home/ann/a b/rocescope'"]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(!said.contains("which"), "{said}");
    // Root without capabilities is root in a container, to which neither is any help.
    let bound = change(&page(RXE, BOUND), "kernel.capabilities");
    assert!(bound.contains("--cap-add=BPF --cap-add=PERFMON") && !bound.contains("sudo"), "{bound}");
    // A file that was removed or replaced since it was started cannot be given any.
    let gone = page(RXE, &format!("{USER}\nproc/self/exe -> /opt/rocescope (deleted)"));
    assert_eq!(gone.host.kernel.program, None);
    assert!(change(&gone, "kernel.capabilities").ends_with("+ep FILE-OF-ROCESCOPE"));
}

#[test]
fn the_right_to_be_promiscuous_is_a_thing_apart() {
    // CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN.
    let three = page(RXE, "proc/self/status = CapEff:\t000000c000001000");
    let check = three.checks.iter().find(|check| check.id == "kernel.capabilities").unwrap();
    assert_eq!((check.verdict, check.value.as_deref()), (Status::Info, Some("CAP_NET_RAW missing")));
    assert!(check.why.as_ref().unwrap().contains("without promiscuous mode"), "{check:?}");
}

/// Three capabilities do as long as the kernel takes CAP_PERFMON for probes; without that, there is nothing to add to
/// what `kernel.capabilities` says.
#[test]
fn who_may_probe_follows_the_sysctl_and_the_rights() {
    const THREE: &str = "000000c000001000";
    let said = |level: &str, held: &str| {
        let level = format!("proc/sys/kernel/perf_event_paranoid = {level}");
        let page = page(RXE, &format!("{level}\nproc/self/status = CapEff:\t{held}"));
        let check = page.checks.into_iter().find(|check| check.id == "kernel.perf_paranoid").unwrap();
        (check.verdict, check.value.unwrap_or_default(), check.change.unwrap_or_default())
    };
    for (level, held, verdict) in [
        ("-1", THREE, Status::Ok),
        ("2", THREE, Status::Ok),
        ("3", THREE, Status::Info),
        ("4", THREE, Status::Info),
        ("4", "000001ffffffffff", Status::Ok),
        ("3", "0000000000003000", Status::Ok),
    ] {
        let (found, value, change) = said(level, held);
        assert_eq!(found, verdict, "{level}, {held}: {value}");
        assert!(value.starts_with(level), "{value}");
        assert_eq!(
            change.contains("sysctl kernel.perf_event_paranoid=2"),
            verdict == Status::Info,
            "{change}"
        );
    }
}

#[test]
fn what_root_may_not_read_is_not_for_root_to_read() {
    // Configuration space as those without CAP_SYS_ADMIN see it.
    let cut = "sys/devices/pci0000:3a/0000:3a:00.0/config hex 00*64";
    let remedy = |status: &str| {
        let page = page(MLX5, &format!("{status}\n{cut}"));
        let reason = page.host.unread.iter().find(|reason| reason.what.contains("ACS")).unwrap();
        reason.remedy.clone().unwrap()
    };
    assert_eq!(remedy(USER), "run as root (sudo)");
    assert!(remedy(BOUND).contains("lockdown"), "{}", remedy(BOUND));
}

#[test]
fn commands_are_for_the_namespace_that_was_looked_into() {
    let of = |name: &str| {
        let host = Recorded::unpack(&format!("{MLX5}\n[]\n{ROOT}\nanswers/pause/enp59s0np0 = off on on"));
        let facts = collect(&host.root(), &host.kernel());
        text::text(&Page::of(facts::HostFacts { netns: Some(name.to_owned()), ..facts }), false, 120)
    };
    for (name, argument, entering) in [
        ("4711", "4711", "nsenter -t 4711 -n"),
        ("blue", "blue", "ip netns exec blue bash"),
        ("/run/a b", "'/run/a b'", "nsenter --net='/run/a b'"),
    ] {
        let text = of(name);
        assert!(text.contains(&format!("network namespace {name}: 1 critical\n")), "{text}");
        assert!(text.contains(&format!("$ rocescope live -i enp59s0np0 --netns {argument}\n")), "{text}");
        assert!(text.contains(&format!("in this network namespace: {entering}\n")), "{text}");
    }
}

#[test]
fn the_program_is_called_where_sudo_finds_it() {
    let command =
        |program: &str| KernelState { program: Some(program.to_owned()), ..KernelState::default() }.command();
    for (program, expected) in [
        ("/usr/local/bin/rocescope", "rocescope"),
        ("/usr/bin/rocescope-0.1", "/usr/bin/rocescope-0.1"),
        ("/home/ann/.cargo/bin/rocescope", "/home/ann/.cargo/bin/rocescope"),
        ("/home/ann/it's/rocescope", "'/home/ann/it'\\''s/rocescope'"),
        ("/opt/$(x)/rocescope", "'/opt/$(x)/rocescope'"),
    ] {
        assert_eq!(command(program), expected);
    }
    assert_eq!(KernelState::default().command(), "rocescope");
}

#[test]
fn commands_have_sudo_where_it_is_needed_and_changes_a_line_that_says_so() {
    const LINE: &str = "Commands that change settings need a root shell (sudo -i).";
    let commands = |page: &Page| -> Vec<String> {
        page.visibility.iter().filter_map(|entry| entry.command.clone()).collect()
    };
    for (host, interface) in [(MLX5, "enp59s0np0"), (RXE, "veth0")] {
        let fault = "proc/sys/net/core/bpf_jit_enable = 0";
        let root = page(host, &format!("{ROOT}\n{fault}"));
        assert!(commands(&root).iter().all(|command| !command.contains("sudo")), "{:?}", commands(&root));
        assert!(!text::text(&root, false, 120).contains(LINE));
        let user = page(host, &format!("{USER}\n{HERE}\n{fault}"));
        let text = text::text(&user, false, 120);
        assert_eq!(text.matches(LINE).count(), 1, "{text}");
        for command in commands(&user) {
            // Counters are read by anybody.
            let is_counters = user
                .visibility
                .iter()
                .any(|s| s.source == SourceKind::Counters && s.command.as_ref() == Some(&command));
            assert_eq!(command.starts_with("sudo "), !is_counters, "{command}");
            assert!(command.contains("'/home/ann/a b/rocescope'"), "{command}");
            assert!(command.contains(interface) || command.contains("mlx5_0"), "{command}");
        }
        assert!(!commands(&user).is_empty());
    }
    // Nothing to change, nothing to say.
    assert!(!text::text(&page(MLX5, ROOT), false, 120).contains(LINE));
}

#[test]
fn interfaces_without_rdma_share_a_line() {
    let mut interfaces =
        String::from("answers/interfaces <<\nenp59s0np0 2 physical 9000 up\neth9 3 physical 1500 up\n");
    for n in 0..9 {
        let _ = writeln!(interfaces, "cali{n} {} veth 1500 up", 10 + n);
    }
    interfaces += "dummy0 30 dummy 1500 down\nifb0 31 ifb 1500 down\neth8 32 physical 1500 down\n>>";
    let page = page(MLX5, &format!("{USER}\n{interfaces}"));
    let text = text::text(&page, false, 120);
    let line = "Without RDMA: cali0, cali1, cali2, cali3, cali4, cali5 and 3 more (veth); dummy0 (dummy, down); ifb0 (ifb, down);";
    assert!(text.contains(line), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("(ifb, down); eth8 (physical, down) NVIDIA"), "{text}");
    // A port of hardware with a link may be there for a mirror.
    assert!(text.contains("eth9, packets: yes") && text.contains("$ sudo rocescope live -i eth9"), "{text}");
    assert!(
        text.contains("The 12 interfaces without RDMA") && text.contains("$ sudo rocescope live -i NAME"),
        "{text}"
    );
    for name in ["cali0", "dummy0", "ifb0", "eth8"] {
        assert!(
            !text.contains(&format!("-i {name}")) && !text.contains(&format!("{name}, packets")),
            "{text}"
        );
        // They have no settings of RoCE to be judged, and nothing arrives where it is down.
        assert!(!page.checks.iter().any(|check| check.subject == name), "{:#?}", page.checks);
        let entry = page.visibility.iter().find(|entry| entry.subject == name).unwrap();
        assert_eq!(entry.command.is_some(), name == "cali0", "{entry:?}");
    }
    let verbose = text::text(&page, true, 120);
    assert!(verbose.contains("ifb0 (ifb), down, speed -, MTU 1500"), "{verbose}");
    assert!(!verbose.contains("Without RDMA"), "{verbose}");
    // A filter that was left behind is reported on every interface.
    let stale = super::page(MLX5, &format!("{interfaces}\nanswers/stale_filters/12 = 2"));
    let said: Vec<_> = stale.checks.iter().filter(|check| check.id == "filters.stale").collect();
    assert_eq!((said[0].subject.as_str(), said[0].verdict), ("cali2", Status::Warning), "{said:?}");
    assert!(said.len() == 2 && said[1].value.as_deref() == Some("none (13 interfaces)"), "{said:?}");
}

#[test]
fn no_speed_is_an_answer_and_shown_as_a_dash() {
    for (speed, shown, failures) in [
        ("200000", "200 Gb/s", 0),
        ("-1", "speed -", 0),
        ("4294967295", "speed -", 0),
        ("fast", "speed -", 1),
    ] {
        let page = page(MLX5, &format!("{IFACE}/speed = {speed}"));
        let failed = page.host.unread.iter().filter(|reason| reason.what.contains("speed")).count();
        assert_eq!(failed, failures, "{speed}: {:#?}", page.host.unread);
        let text = text::text(&page, true, 120);
        assert!(text.contains(&format!("enp59s0np0 (physical), mlx5_core, up, {shown}, MTU 9000")), "{text}");
    }
}

#[test]
fn processes_that_cannot_be_read_are_named() {
    // A folder is what not even root can read as a file.
    let secret = "proc/812/environ/x = 1\nproc/812/comm = train.py\nproc/812/cmdline = train.py\n\
                  proc/813/environ/x = 1\nproc/813/comm = kworker/1\nproc/813/cmdline hex 00*0";
    let hidden = page(MLX5, secret);
    let check = hidden.checks.iter().find(|check| check.id == "nccl.environment").unwrap();
    assert_eq!(check.verdict, Status::Unknown);
    assert!(check.why.as_ref().unwrap().contains("train.py (812)"), "{check:?}");
    let text = text::text(&hidden, true, 120);
    assert!(text.contains("environment of 1 process") && text.contains("train.py (812)"), "{text}");
    assert!(!text.contains("kworker"), "{text}");
    let of_root = text::text(&page(MLX5, &format!("{ROOT}\n{secret}")), true, 120);
    assert!(of_root.contains("not permitted to root") && !of_root.contains("run as root"), "{of_root}");
    let json: serde_json::Value = serde_json::from_str(&hidden.json().unwrap()).unwrap();
    assert_eq!(json["host"]["processes_unreadable"], serde_json::json!([{"pid": 812, "comm": "train.py"}]));
    // Without RoCE there is nothing that NCCL could have been configured for.
    assert_eq!(verdict(&page("", secret), "nccl.environment"), None);
}

#[test]
fn processes_of_a_job_share_a_line_with_their_settings() {
    let second =
        environment(&["NCCL_IB_HCA=mlx5", "NCCL_IB_TC=106", "NCCL_DEBUG=INFO"]).replace("4711", "4712");
    let page =
        page(MLX5, &format!("{second}\nproc/4712/comm = python3\nproc/4712/ns/net -> net:[4026531840]"));
    let text = text::text(&page, false, 120);
    let line = "python3 4711 in trainer-0, python3 4712: NCCL_IB_HCA=mlx5 NCCL_IB_TC=106\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn acs_between_nic_and_gpu_differs_from_acs_above_both() {
    // A switch below a root port: its upstream port, and a downstream port for each of the two.
    let host = Recorded::unpack(MLX5);
    let of = |redirecting: &[&str]| {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let mut facts = collect(&host.root(), &host.kernel());
        facts.devices[0].acs_redirect = Some(names(redirecting));
        let shared = ["0000:3b:00.0", "0000:3a:00.0"];
        facts.devices[0].pci.as_mut().unwrap().bridges = names(&[&["0000:3c:01.0"], &shared[..]].concat());
        facts.gpus[0].pci.bridges = names(&[&["0000:3c:02.0"], &shared[..]].concat());
        let page = Page::of(facts);
        let check = page.checks.iter().find(|check| check.id == "gpudirect.acs").unwrap();
        (check.verdict, check.value.clone().unwrap(), check.change.clone().unwrap_or_default())
    };
    assert_eq!(of(&[]).0, Status::Ok);
    assert_eq!(of(&["0000:3a:00.0"]).0, Status::Ok, "the root port");
    let (verdict, value, change) = of(&["0000:3c:01.0", "0000:3a:00.0"]);
    assert_eq!((verdict, value.as_str()), (Status::Warning, "redirected at 0000:3c:01.0"));
    assert!(change.contains("setpci -s 0000:3c:01.0"), "{change}");
    // The control register is read: redirection of requests is its third bit.
    let config = "sys/devices/pci0000:3a/0000:3a:00.0/config hex 00*256 0d 00 01 00 00 00 1d 00 00*8";
    let read = page(MLX5, config);
    assert_eq!(read.host.devices[0].acs_redirect.as_deref(), Some(&["0000:3a:00.0".to_owned()][..]));
}

/// As a dump has it: root at the start of the run, and a thread without privileges later.
#[test]
fn what_needs_privileges_is_of_the_start_and_everything_else_of_now() {
    const CONFIG: &str = "sys/devices/pci0000:3a/0000:3a:00.0/config hex";
    let host = |changes: &str| Recorded::unpack(&format!("{MLX5}\n[]\n{changes}"));
    let start = host(&format!("{ROOT}\n{CONFIG} 00*256 0d 00 01 00 00 00 1d 00 00*8"));
    // Without CAP_SYS_ADMIN the kernel returns the first 64 bytes. Global pause is on beside PFC.
    let now = host(&format!("{USER}\n{CONFIG} 00*64\nanswers/pause/enp59s0np0 = off on on"));
    let earlier = Privileged::read(&start.root());
    let facts = collect_with(&now.root(), &now.kernel(), Some(&earlier));
    let is_of_acs = |facts: &HostFacts| facts.unread.iter().any(|reason| reason.what.contains("(ACS)"));
    assert_eq!(facts.kernel, collect(&start.root(), &start.kernel()).kernel);
    assert_eq!(facts.devices[0].acs_redirect.as_deref(), Some(&["0000:3a:00.0".to_owned()][..]));
    assert!(!is_of_acs(&facts), "{:?}", facts.unread);
    assert!(Page::of(facts.clone()).is_critical(), "what has changed since the start is not seen");
    let alone = collect(&now.root(), &now.kernel());
    assert!(alone.devices[0].acs_redirect.is_none() && is_of_acs(&alone), "{:?}", alone.unread);
    assert!(alone.kernel.root == Some(false) && facts.kernel.root == Some(true));
}

#[test]
fn of_nics_below_one_switch_the_nearest_is_named_and_all_that_are_as_near() {
    let host = Recorded::unpack(&super::hosts::eight());
    let of = |places: [&[&str]; 3]| {
        let mut facts = collect(&host.root(), &host.kernel());
        facts.devices.truncate(3);
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        for (device, bridges) in facts.devices.iter_mut().zip(places) {
            device.pci.as_mut().unwrap().bridges = names(bridges);
        }
        facts.gpus.truncate(1);
        facts.gpus[0].pci.bridges = names(&["inner:gpu", "inner:up", "outer:down", "outer:up", "root"]);
        let page = Page::of(facts);
        page.checks.iter().find(|check| check.id == "gpu.nic").unwrap().value.clone().unwrap()
    };
    let inner = ["inner:nic", "inner:up", "outer:down", "outer:up", "root"];
    let outer = ["outer:nic", "outer:up", "root"];
    let other = ["root2"];
    assert_eq!(of([&outer, &inner, &other]), "mlx5_1, below the same PCIe switch");
    assert_eq!(of([&inner, &outer, &inner]), "mlx5_0, mlx5_2, below the same PCIe switch");
    assert_eq!(of([&other, &other, &outer]), "mlx5_2, below the same PCIe switch");
    assert_eq!(of([&other, &other, &other]), "mlx5_0, mlx5_1, mlx5_2, in the same NUMA node");
}

/// The kernel takes the order to count by queue pair for any device, and answers with the mode.
#[test]
fn soft_roce_is_not_advised_to_count_by_queue_pair() {
    let known = "answers/rdma/devices <<\n1 u32 0\n2 text rxe0\n14 u8 1\n67 text roce\n>>";
    let soft = page(RXE, &format!("{known}\nanswers/rdma/binding.0.1 = 74 u32 0"));
    let port = &soft.host.devices[0].ports[0];
    assert_eq!(port.qp_binding, Some("none"), "{:#?}", soft.host.unread);
    assert_eq!(verdict(&soft, "counters.per_qp"), Some(Status::Unknown));
    let counters = soft.visibility.iter().find(|entry| entry.source == SourceKind::Counters).unwrap();
    assert!(counters.why.ends_with("not per queue pair"), "{counters:?}");
}

#[test]
fn priorities_are_shown_by_dscp_and_by_tag() {
    // Selector, priority, protocol: DSCP 26 to 3, PCP 5 to 3, PCP 1 with DEI to 0.
    let table = "3 {\n1 hex 05 03 1a 00\n2 hex ff 03 05 00\n2 hex ff 00 09 00\n}";
    let page = page(MLX5, &dcb_answer(table));
    let map = page.checks.iter().find(|check| check.id == "qos.dscp_map").unwrap();
    assert_eq!(map.value.as_deref(), Some("DSCP 26 → 3; PCP 5 → 3; PCP 1 with DEI → 0"));
}

#[test]
fn shares_of_bandwidth_are_held_against_those_of_the_switch() {
    let host = Recorded::unpack(MLX5);
    let ours = dcb::Ets {
        class_of: [0, 0, 0, 1, 0, 0, 0, 0],
        bandwidth: [40, 60, 0, 0, 0, 0, 0, 0],
        algorithm: [2; 8],
    };
    let judged = |ours: dcb::Ets, theirs: Option<crate::ethernet::lldp::Ets>, peer: Option<dcb::Ets>| {
        let mut facts = collect(&host.root(), &host.kernel());
        let interface = &mut facts.interfaces[0];
        let dcb = interface.dcb.as_mut().unwrap();
        (dcb.ets, dcb.peer_ets) = (Some(ours), peer);
        interface.neighbour = theirs.map(|ets| crate::ethernet::lldp::Neighbour {
            ets: Some(ets),
            ..crate::ethernet::lldp::Neighbour::default()
        });
        let page = Page::of(facts);
        let check = page.checks.iter().find(|check| check.id == "switch.ets").unwrap();
        (check.verdict, check.value.clone().unwrap_or_default())
    };
    // The switch has other numbers for its classes: what counts is the share.
    let switch = |percent: u8| crate::ethernet::lldp::Ets {
        class_of: [0, 0, 0, 5, 0, 0, 0, 0],
        bandwidth: [100 - percent, 0, 0, 0, 0, percent, 0, 0],
        willing: false,
    };
    assert_eq!(judged(ours, Some(switch(60)), None), (Status::Ok, "priority 3: 60 %".into()));
    assert_eq!(
        judged(ours, Some(switch(10)), None),
        (Status::Info, "priority 3: 10 % on the switch, 60 % here".into())
    );
    let strict = dcb::Ets { algorithm: [0; 8], ..ours };
    assert_eq!(
        judged(strict, Some(switch(50)), None),
        (Status::Info, "priority 3: 50 % on the switch, strict priority here".into())
    );
    // Settings that the NIC's own engine received; one without a neighbour shows zeros.
    assert_eq!(judged(ours, None, Some(ours)).0, Status::Ok);
    let nobody = dcb::Ets { class_of: [0; 8], bandwidth: [0; 8], algorithm: [0; 8] };
    assert_eq!(judged(ours, None, Some(nobody)).0, Status::Unknown);
    // A class that is none of the eight.
    let odd = crate::ethernet::lldp::Ets { class_of: [15; 8], ..switch(60) };
    assert_eq!(judged(ours, Some(odd), None).0, Status::Unknown);
}
