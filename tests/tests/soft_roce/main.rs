//! rocescope on real RDMA devices: those of the kernel's Soft-RoCE driver.
//!
//! perftest and rping communicate between two devices; rocescope's reports are compared with their output, with the
//! counts of the driver, of queueing disciplines and of `rdma`, and (`soft_roce_tshark`) with captures. `cargo xtask
//! vm` runs these tests in a virtual machine whose kernel has the driver and no TCX.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod clock;
mod connections;
mod faults;
mod hosts;
mod jobs;
mod probe;
mod queue_pairs;
mod queue_pairs_died;
mod queue_pairs_driver;
mod queue_pairs_kernel;
mod queue_pairs_missed;
mod recorded;
mod rights;

use std::net::Ipv6Addr;
use std::str::FromStr as _;

use rocescope_tests::live::program::{Program, Start};
use rocescope_tests::soft_roce::lab::{self, ENDS, FAR, Harm, NEAR, PATH_MTU};
use rocescope_tests::soft_roce::perftest::{Transfer, Transferred};
use rocescope_tests::soft_roce::qps::{self, Qp};
use rocescope_tests::soft_roce::report::{count, flow, on_link, sum, used, with_opcodes};
use rocescope_tests::soft_roce::session::{Session, SessionResult};
use rocescope_tests::soft_roce::tool;
use rocescope_tests::soft_roce::{devices, lives};
use rustix::process::Signal;
use serde_json::Value;

/// DSCP 26, ECT(0).
const ECN_CAPABLE: u64 = 106;
/// Slowed down by [`DELAY`]: rocescope pauses up to five seconds between two listings of queue pairs on a machine as
/// slow as an emulated one. This transfer lasts for two of them, so that progress is seen.
const WRITE: Transfer = Transfer {
    program: "ib_write_bw",
    queue_pairs: 2,
    iterations: 130,
    size: 16384,
    traffic_class: ECN_CAPABLE,
    one_by_one: true,
    chain: 1,
};
/// These last for one listing.
const SEND: Transfer = Transfer { program: "ib_send_bw", iterations: 80, ..WRITE };
const READ: Transfer = Transfer { program: "ib_read_bw", iterations: 80, ..WRITE };
const DELAY: &str = "root handle 5: netem limit 20000 delay 100ms";
/// At maximum speed.
const FAST: Transfer = Transfer { iterations: 10, size: 65536, one_by_one: false, ..WRITE };
const LOSSY: Transfer = FAST;
/// A transfer that is not paced by a queue of 24 Mbit/s would never fill it.
const MARKED: Transfer = FAST;

// Traffic

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn traffic_is_counted_with_xdp() {
    counted("xdp", &["--hook", "xdp", "-i", NEAR.device, "-i", FAR.device]);
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn traffic_is_counted_with_tc() {
    // Without a named interface, all with an RDMA device are watched.
    counted("tc", &["--hook", "tc"]);
}

/// All traffic within one run, and all comparisons.
fn counted(hook: &'static str, arguments: &[&str]) {
    let session = Session::start(hook, arguments).unwrap();
    let (clean, connected) = {
        let _slow = Harm::add(&[DELAY]).unwrap();
        ([WRITE, SEND, READ].map(|transfer| transfer.run().unwrap()), connections::rping())
    };
    let (lossy, lost) = {
        let harm = Harm::add(&["root handle 5: netem limit 20000 loss 2%"]).unwrap();
        (LOSSY.run().unwrap(), harm.counted("netem").unwrap())
    };
    let (marked, queue) = {
        let harm = Harm::add(&[
            "root handle 1: tbf rate 24mbit burst 20kb limit 4mb",
            "parent 1:1 handle 10: red limit 4000000 min 12000 max 36000 avpkt 1100 burst 18 ecn bandwidth 24mbit \
             probability 0.2",
        ])
        .unwrap();
        (MARKED.run().unwrap(), harm.counted("red").unwrap())
    };
    let harmed: Vec<u64> = [&lossy, &marked].iter().flat_map(|t| t.far.iter().map(|(qpn, _)| *qpn)).collect();
    let seen = session.finish(&harmed).unwrap();
    let attached = format!("{}: {}", NEAR.interface, if hook == "xdp" { "native XDP" } else { "TC ingress" });
    assert!(seen.said.contains(&attached), "{attached} is not in: {}", seen.said);

    let report = &seen.report;
    conserved(report);
    let [write, send, read] = &clean;
    for transfer in [write, send] {
        carried(report, transfer, true);
    }
    read_back(report, read);
    for transfer in [&lossy, &marked] {
        carried(report, transfer, false);
    }
    for transfer in &clean {
        owned(report, transfer);
    }
    for transfer in [write, send, read, &lossy, &marked] {
        lives::check(report, transfer).unwrap();
    }
    connections::check(&seen, &connected);
    by_the_driver(&seen);
    followed(&seen, &clean[..2]);
    losses(report, &lossy, &lost);
    marks(report, &marked, &queue);
}

/// Both sums that hold in every report.
fn conserved(report: &Value) {
    let totals = &report["totals"];
    let skipped: u64 = totals["skipped"].as_object().unwrap().values().map(count).sum();
    assert_eq!(count(&totals["packets"]), count(&totals["roce_packets"]) + skipped, "{totals}");
    let flows: u64 = report["flows"].as_array().unwrap().iter().map(|flow| count(&flow["packets"])).sum();
    let lost = count(&totals["lost"]["flow_table_full"]) + count(&totals["lost"]["contended"]);
    let elsewhere = count(&totals["retired"]["packets"]) + lost;
    assert_eq!(count(&totals["roce_packets"]), flows + elsewhere, "{totals}");
    assert_eq!(elsewhere, 0, "a flow was retired, or the table was full: {totals}");
}

/// Messages of a WRITE or SEND test match perftest's parameters at the sender, and at the receiver unless packets
/// were dropped or changed on the path.
fn carried(report: &Value, transfer: &Transferred, unharmed: bool) {
    let name = transfer.wanted.program;
    let each = transfer.iterations / transfer.wanted.queue_pairs;
    assert_eq!(
        (transfer.size, each),
        (transfer.wanted.size, transfer.wanted.iterations),
        "{name} did not run with the requested parameters"
    );
    for ((near, first_psn), (far, _)) in transfer.near.iter().zip(&transfer.far) {
        let sent = flow(report, NEAR, "egress", FAR, *far).unwrap();
        let place = format!("{name}, QP {near} to {far}: {sent}");
        assert_eq!(count(&sent["psn"]["first"]), *first_psn, "first PSN as printed: {place}");
        assert_eq!(used(&sent["psn"]), transfer.packets(), "PSNs for the messages printed: {place}");
        assert_eq!((&sent["psn"]["gaps"], &sent["psn"]["restarts"]), (&0.into(), &0.into()), "{place}");
        let repeats = count(&sent["psn"]["repeats"]);
        assert_eq!(count(&sent["packets"]), transfer.packets() + repeats, "{place}");
        assert_eq!(
            count(&sent["payload_bytes"]),
            each * transfer.size + repeats * PATH_MTU,
            "payload is not iterations × size plus retransmissions: {place}"
        );
        let first = with_opcodes(sent, &["RC_SEND_FIRST", "RC_RDMA_WRITE_FIRST"]);
        let last = with_opcodes(sent, &["RC_SEND_LAST", "RC_RDMA_WRITE_LAST"]);
        for messages in [first, last] {
            assert!((each..=each + repeats).contains(&messages), "{messages} of {each} messages: {place}");
        }
        assert_eq!(count(&sent["ecn"]["ect0"]), count(&sent["packets"]), "marked upstream: {place}");
        assert_eq!(count(&sent["dscp"]), ECN_CAPABLE >> 2, "{place}");
        if unharmed {
            let arrived = flow(report, FAR, "ingress", FAR, *far).unwrap();
            for figure in ["packets", "bytes", "payload_bytes", "psn", "opcodes", "ecn", "src_ports"] {
                assert_eq!(arrived[figure], sent[figure], "unexpected {figure}: {place}");
            }
        }
    }
}

/// The same for READ, whose messages are responses.
fn read_back(report: &Value, transfer: &Transferred) {
    let each = transfer.iterations / transfer.wanted.queue_pairs;
    for ((near, first_psn), (far, _)) in transfer.near.iter().zip(&transfer.far) {
        let requests = flow(report, NEAR, "egress", FAR, *far).unwrap();
        let answers = flow(report, NEAR, "ingress", NEAR, *near).unwrap();
        let place = format!("ib_read_bw, QP {near} to {far}: {requests}, {answers}");
        assert_eq!(count(&requests["psn"]["first"]), *first_psn, "first PSN as printed: {place}");
        let asked = with_opcodes(requests, &["RC_RDMA_READ_REQUEST"]);
        assert_eq!(asked, count(&requests["packets"]), "packets other than requests: {place}");
        assert_eq!(asked, each + count(&requests["psn"]["repeats"]), "{place}");
        assert_eq!(count(&requests["payload_bytes"]), 0, "{place}");
        let psn = &answers["psn_responses"];
        assert_eq!(count(&psn["first"]), *first_psn, "PSN of responses: {place}");
        assert_eq!(used(psn), transfer.packets(), "{place}");
        let repeats = count(&psn["repeats"]);
        assert_eq!(count(&answers["payload_bytes"]), each * transfer.size + repeats * PATH_MTU, "{place}");
        let first = with_opcodes(answers, &["RC_RDMA_READ_RESPONSE_FIRST"]);
        assert!((each..=each + repeats).contains(&first), "{first} of {each} messages: {place}");
    }
}

/// Flows name the processes of perftest, and the queue pairs that `rdma resource` showed meanwhile.
fn owned(report: &Value, transfer: &Transferred) {
    let (client, server) = transfer.pids;
    for ((near, _), (far, _)) in transfer.near.iter().zip(&transfer.far) {
        for (end, qpn, peer, pid) in [(NEAR, near, far, client), (FAR, far, near, server)] {
            let other = if end == NEAR { FAR } else { NEAR };
            let shown = transfer.resources.iter().find(|qp| {
                qp.device == end.device && u64::from(qp.lqpn) == *qpn && qp.rqpn.map(u64::from) == Some(*peer)
            });
            let shown = shown.unwrap_or_else(|| {
                panic!("`rdma resource` never showed QP {qpn} of {}: {:?}", end.device, transfer.resources)
            });
            assert_eq!(
                (shown.pid, shown.comm.as_deref()),
                (Some(pid), Some(transfer.wanted.program)),
                "{shown:?}"
            );
            // Egress: the sending end is here. Ingress: the receiving end is here, and the device knows its peer.
            named(flow(report, end, "egress", other, *peer).unwrap(), shown, *qpn);
            named(flow(report, end, "ingress", end, *qpn).unwrap(), shown, *peer);
        }
    }
}

/// A flow has the process of this queue pair, and `sender` as its source queue pair.
fn named(flow: &Value, of: &Qp, sender: u64) {
    assert_eq!(flow["peer_qp"], sender, "the queue pair that sends: {flow}");
    assert_eq!(flow["pairing"]["how"], "device", "{flow}");
    assert_eq!(flow["pid"].as_u64(), of.pid.map(u64::from), "the process that `rdma resource` names: {flow}");
    assert_eq!(flow["comm"].as_str(), of.comm.as_deref(), "{flow}");
}

// What others counted

/// The driver of each end sent and received what was counted on its interface, and sent the reported NAKs.
fn by_the_driver(seen: &SessionResult) {
    let report = &seen.report;
    for (end, counted) in ENDS.into_iter().zip(&seen.counted) {
        let place = format!("{} says {counted}", end.device);
        assert_eq!(on_link(report, end, "egress").unwrap(), count(&counted["sent_pkts"]), "sent: {place}");
        assert_eq!(
            on_link(report, end, "ingress").unwrap(),
            count(&counted["rcvd_pkts"]),
            "received: {place}"
        );
        let naks =
            |direction| sum(report, end, direction, |f| count(&f["ack"]["naks"]["psn_sequence_error"]));
        assert_eq!(naks("egress"), count(&counted["out_of_seq_request"]), "NAKs sent: {place}");
        // During a retransmission the driver counts no further one.
        assert!(
            naks("ingress") >= count(&counted["rcvd_seq_err"]),
            "NAKs received: {} {place}",
            naks("ingress")
        );
        let rnr = sum(report, end, "ingress", |flow| count(&flow["ack"]["rnr_naks"]));
        assert_eq!(rnr, count(&counted["rcvd_rnr_err"]), "RNR NAKs: {place}");
    }
    // As in the report's own data from the driver.
    devices::both(report, &seen.counted).unwrap();
}

/// The devices' data on their queue pairs during transfers.
fn followed(seen: &SessionResult, transfers: &[Transferred]) {
    let followed: Vec<devices::Followed> =
        transfers.iter().map(|transfer| devices::queue_pairs(&seen.reports, transfer).unwrap()).collect();
    println!("in {} reports: {followed:?}", seen.reports.len());
    let sum = |of: fn(&devices::Followed) -> usize| followed.iter().map(of).sum::<usize>();
    if sum(|one| one.read_again) == 0 {
        println!(
            "SKIP queue pairs that move: this machine is so slow that none was read twice: {followed:?}"
        );
        return;
    }
    assert!(sum(|one| one.moved) > 0, "no queue pair advanced: {followed:?}");
}

/// Packets that left and did not arrive are those dropped by the queue.
fn losses(report: &Value, transfer: &Transferred, netem: &Value) {
    let dropped = count(&netem["drops"]);
    assert!(dropped > 0, "netem dropped nothing, so the test proves nothing: {netem}");
    let (sent, arrived) =
        (on_link(report, NEAR, "egress").unwrap(), on_link(report, FAR, "ingress").unwrap());
    assert_eq!(sent - arrived, dropped, "{sent} left, {arrived} arrived: {netem}");
    let mut missing = 0;
    for (far, _) in &transfer.far {
        let arrived = flow(report, FAR, "ingress", FAR, *far).unwrap();
        missing += count(&arrived["psn"]["missing"]);
        let sent = flow(report, NEAR, "egress", FAR, *far).unwrap();
        assert!(count(&sent["psn"]["repeats"]) > 0, "lost packets were not retransmitted: {sent}");
    }
    // If a retransmission is lost too, there is no new gap.
    assert!((1..=dropped).contains(&missing), "{missing} missing, {dropped} dropped");
    let backward = (on_link(report, FAR, "egress").unwrap(), on_link(report, NEAR, "ingress").unwrap());
    assert_eq!(backward.0, backward.1, "loss in the reverse direction");
}

/// Packets that arrived with CE are those marked by the queue.
fn marks(report: &Value, transfer: &Transferred, red: &Value) {
    let marked = count(&red["marked"]);
    assert!(marked > 0, "RED marked nothing, so the test proves nothing: {red}");
    let ce = |direction, end| sum(report, end, direction, |flow| count(&flow["ecn"]["ce"]));
    assert_eq!(ce("ingress", FAR), marked, "{red}");
    assert_eq!((ce("egress", NEAR), ce("ingress", NEAR), ce("egress", FAR)), (0, 0, 0));
    for (far, _) in &transfer.far {
        let flow = flow(report, FAR, "ingress", FAR, *far).unwrap();
        let ratio = count(&flow["ecn"]["ce"]) as f64 / count(&flow["packets"]) as f64;
        assert!((flow["ce_ratio"].as_f64().unwrap() - ratio).abs() < 1e-9, "{flow}");
    }
}

// What doctor says

/// The value in a line of `ibv_devinfo` such as "active_mtu:  1024 (3)".
fn info<'a>(text: &'a str, name: &str) -> &'a str {
    let mut lines = text.lines().filter_map(|line| line.trim().split_once(':'));
    let found = lines.find(|(field, _)| *field == name);
    found.unwrap_or_else(|| panic!("`ibv_devinfo` does not show {name}: {text}")).1.trim()
}

/// Index, address and version of each "GID[  1]:  ::ffff:10.0.0.1, RoCE v2".
fn gids(text: &str) -> Vec<(u64, Ipv6Addr, String)> {
    let of = |line: &str| {
        let (index, rest) = line.trim().strip_prefix("GID[")?.split_once("]:")?;
        let (gid, version) = rest.trim().split_once(", ")?;
        Some((index.trim().parse().ok()?, gid.parse().ok()?, version.to_owned()))
    };
    text.lines().filter_map(of).collect()
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn doctor_says_what_rdma_and_ibv_devinfo_say() {
    lab::up().unwrap();
    let ended = Program::run(Start::default(), &["doctor", "--output", "json"]).unwrap();
    assert!(matches!(ended.status.code(), Some(0 | 3)), "{ended:?}");
    let page = ended.report().unwrap();
    let links = tool::json("rdma", &["-j", "link", "show"]).unwrap();
    let known = tool::json("rdma", &["-j", "dev", "show"]).unwrap();
    let of = |list: &Value, device: &str| {
        let mut all = list.as_array().unwrap().iter();
        all.find(|one| one["ifname"] == device).unwrap_or_else(|| panic!("no {device} in {list}")).clone()
    };
    let devices = page["host"]["devices"].as_array().unwrap();
    assert_eq!(devices.len(), ENDS.len(), "{devices:?}");
    let all_shown = qps::shown().unwrap();
    for (end, device) in ENDS.into_iter().zip(devices) {
        let verbose = tool::run("ibv_devinfo", &["-v", "-d", end.device]).unwrap();
        let (link, dev) = (of(&links, end.device), of(&known, end.device));
        assert_eq!(device["name"], end.device);
        assert_eq!((&device["driver"], &device["software"]), (&"rxe".into(), &true.into()), "{device}");
        assert_eq!((&device["protocol"], &device["verbs"]), (&"roce".into(), &true.into()), "{device}");
        // Neither tool shows a firmware if there is none.
        assert_eq!(
            device["firmware"].as_str().unwrap_or(""),
            dev["fw"].as_str().unwrap_or(""),
            "{device} {dev}"
        );
        let shown = all_shown.iter().filter(|qp| qp.device == end.device).count();
        assert_eq!(count(&device["queue_pairs"]), shown as u64, "{all_shown:?}");

        let ports = device["ports"].as_array().unwrap();
        assert_eq!(ports.len().to_string(), info(&verbose, "phys_port_cnt"));
        port_is_as_the_tools_have_it(&ports[0], &link, &verbose, end);

        let interface =
            page["host"]["interfaces"].as_array().unwrap().iter().find(|i| i["name"] == end.interface);
        let interface = interface.unwrap();
        assert_eq!((&interface["mtu"], &interface["up"]), (&lab::MTU.into(), &true.into()), "{interface}");
        assert_eq!(interface["kind"], "veth", "{interface}");
        assert_eq!(interface["devices"], serde_json::json!([end.device]), "{interface}");
        assert_eq!(interface["stale_filters"], 0, "{interface}");
        let port = format!("{}/1", end.device);
        let mut sights = page["sights"].as_array().unwrap().iter();
        let packets = sights.find(|sight| sight["subject"] == port && sight["way"] == "packets").unwrap();
        assert_eq!(packets["works"], "yes", "its packets pass the kernel: {packets}");
    }
    // These devices answer all queries: only files are missing that neither they nor this machine have, such as
    // `counters`, which Soft-RoCE does not provide.
    for reason in page["host"]["unread"].as_array().unwrap() {
        let (what, why) = (reason["what"].as_str().unwrap(), reason["why"].as_str().unwrap());
        let absent = ["No such file", "does not exist", "no DCB netlink reply"];
        assert!(why.starts_with("no ") || absent.iter().any(|words| why.contains(words)), "{reason}");
        assert!(!what.contains("hw_counters") && !what.contains("netlink"), "{reason}");
    }
}

/// Compares a port with `link` of `rdma link` and with `ibv_devinfo -v`, and its counters with `rdma statistic`.
fn port_is_as_the_tools_have_it(port: &Value, link: &Value, verbose: &str, end: lab::End) {
    assert_eq!(port["number"], link["port"], "{link}");
    assert_eq!(port["interface"], link["netdev"], "{link}");
    assert_eq!(port["interface"], end.interface);
    assert_eq!(port["state"], link["state"], "{link}");
    assert_eq!(info(verbose, "state"), "PORT_ACTIVE (4)");
    // "LinkUp" in sysfs, "LINK_UP" over netlink.
    let plain = |value: &Value| value.as_str().unwrap().replace('_', "").to_lowercase();
    assert_eq!(plain(&port["physical_state"]), plain(&link["physical_state"]), "{port} {link}");
    assert_eq!(port["link_layer"], info(verbose, "link_layer"));
    let mtu = info(verbose, "active_mtu").split_whitespace().next().unwrap();
    assert_eq!(port["active_mtu"].to_string(), mtu, "{verbose}");
    let listed = port["gids"].as_array().unwrap().iter().map(|gid| {
        let address = gid["gid"].as_str().unwrap().parse().unwrap();
        (count(&gid["index"]), address, gid["kind"].as_str().unwrap().to_owned())
    });
    assert_eq!(listed.collect::<Vec<_>>(), gids(verbose), "{verbose}");
    let own = Ipv6Addr::from_str(&format!("::ffff:{}", end.address)).unwrap();
    assert!(gids(verbose).iter().any(|(_, gid, _)| *gid == own), "{verbose}");

    let mode = tool::run("rdma", &["statistic", "qp", "mode", "link", &format!("{}/1", end.device)]).unwrap();
    assert!(mode.contains("auto off"), "{mode}");
    assert_eq!(port["qp_binding"], "none", "{port}");

    // Idle, so that both tools read the same values.
    let statistic = lab::statistic(end).unwrap();
    let driver: Vec<&Value> =
        port["counters"].as_array().unwrap().iter().filter(|c| c["source"] == "hardware").collect();
    for counter in &driver {
        let name = counter["name"].as_str().unwrap();
        assert_eq!(counter["value"], statistic[name], "{name} of {}: {statistic}", end.device);
    }
    let named = statistic
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| !["ifname", "port", "ifindex"].contains(&name.as_str()));
    assert_eq!(driver.len(), named.count(), "{driver:?} and {statistic}");
    assert!(driver.len() >= 10, "{driver:?}");
}

// What a kill leaves

fn has_clsact(interface: &str) -> bool {
    tool::run("tc", &["qdisc", "show", "dev", interface]).unwrap().contains("clsact")
}

/// rocescope's filters on an interface, as listed by `tc`: none without the queueing discipline.
fn filters(interface: &str) -> usize {
    if !has_clsact(interface) {
        return 0;
    }
    let of = |side: &str| tool::run("tc", &["filter", "show", "dev", interface, side]).unwrap();
    let both = of("ingress") + &of("egress");
    both.lines().filter(|line| line.contains("rocescope_tc_")).count()
}

/// Starts a run on both ends and kills it during traffic.
fn killed_amid_traffic() {
    let session = Program::watching(
        Start::default(),
        &["live", "-i", NEAR.interface, "-i", FAR.interface, "--hook", "tc", "--output", "jsonl"],
    )
    .unwrap();
    let killer = std::thread::spawn(move || {
        session.reported(|report| count(&report["totals"]["roce_packets"]) > 0).unwrap();
        session.signal(Signal::KILL).unwrap();
        session.end().unwrap()
    });
    // The kill and its leftovers do not affect the traffic.
    FAST.run().unwrap();
    assert_eq!(killer.join().unwrap().status.code(), None);
    for end in ENDS {
        assert_eq!(filters(end.interface), 2, "filters did not outlive the kill");
    }
}

fn nothing_is_left() {
    for end in ENDS {
        assert_eq!(filters(end.interface), 0, "filters are left on {}", end.interface);
        assert!(!has_clsact(end.interface), "a clsact is left on {}", end.interface);
    }
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn what_a_kill_leaves_is_cleaned_by_doctor() {
    lab::up().unwrap();
    killed_amid_traffic();
    let doctor = |arguments: &[&str]| {
        let ended = Program::run(Start::default(), &[&["doctor"], arguments].concat()).unwrap();
        assert!(matches!(ended.status.code(), Some(0 | 3)), "{ended:?}");
        ended
    };
    let page = doctor(&["--output", "json"]).report().unwrap();
    for end in ENDS {
        let all = page["host"]["interfaces"].as_array().unwrap();
        let interface = all.iter().find(|interface| interface["name"] == end.interface).unwrap();
        assert_eq!(interface["stale_filters"], 2, "{interface}");
        assert_eq!(filters(end.interface), 2, "doctor changes nothing without --clean");
    }
    doctor(&["--clean"]);
    nothing_is_left();
    // The traffic continues.
    FAST.run().unwrap();
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn what_a_kill_leaves_is_cleaned_by_the_next_run() {
    lab::up().unwrap();
    killed_amid_traffic();
    let next = Program::watching(
        Start::default(),
        &["live", "-i", NEAR.device, "-i", FAR.device, "--hook", "tc", "--output", "json"],
    )
    .unwrap();
    for end in ENDS {
        assert_eq!(filters(end.interface), 2, "filters of the next run only");
    }
    // Another run recognises them, whatever the name of the program's file.
    let beside =
        Program::watching(Start::default(), &["live", "-i", NEAR.interface, "--hook", "tc"]).unwrap();
    assert_eq!(filters(NEAR.interface), 4, "filters of both runs");
    assert!(beside.interrupt().unwrap().status.success());
    let transferred = FAST.run().unwrap();
    let ended = next.interrupt().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let report = ended.report().unwrap();
    conserved(&report);
    carried(&report, &transferred, true);
    nothing_is_left();
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn without_rights_there_are_counters_still() {
    lab::up().unwrap();
    let nobody = Start { nobody: true, ..Start::default() };
    let in_a_namespace = Start { user_namespace: true, ..Start::default() };
    for (how, words) in
        [(nobody, ["CAP_BPF", "sudo"]), (in_a_namespace, ["is in a user namespace", "on the host"])]
    {
        let program = Program::start(how, &["live", "-i", NEAR.device, "--output", "json"]).unwrap();
        program.wait_for_message(|text| text.contains("rxe0/1: counters only").then_some(())).unwrap();
        let before = lab::statistic(NEAR).unwrap();
        FAST.run().unwrap();
        // Once more after the last packet.
        std::thread::sleep(std::time::Duration::from_secs(1));
        let sent = count(&lab::statistic(NEAR).unwrap()["sent_pkts"]) - count(&before["sent_pkts"]);
        let ended = program.interrupt().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        for word in ["counters of rxe0/1 only"].iter().chain(&words) {
            assert!(ended.err.contains(word), "{word}: {}", ended.err);
        }
        let report = ended.report().unwrap();
        assert_eq!(
            (&report["source"]["kind"], &report["links"]),
            (&"counters".into(), &serde_json::json!([]))
        );
        let entry = report["devices"].as_array().unwrap().iter().find(|d| d["source"] == "sysfs hw_counters");
        assert_eq!(count(&entry.unwrap()["counters"]["tx_packets"]), sent, "{entry:?}");
        let of_egress = ["ratio", "counted_packets"].map(|field| &report["coverage"][1][field]);
        assert_eq!(of_egress, [&Value::from(0.0), &Value::from(sent)]);
    }
}
