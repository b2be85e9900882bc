//! Simulated fabrics: compares the simulator with tshark, rocescope's counts with the simulator's, and findings with
//! the truth.
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail like a test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use rocescope_tests::capture_file::{Order, Pcap, erf};
use rocescope_tests::needs::installed_or_skip;
use rocescope_tests::oracle::binary;
use rocescope_tests::sim::bench::{self, Options};
use rocescope_tests::sim::score::Verdict;
use rocescope_tests::sim::truth::Truth;
use rocescope_tests::sim::{Counted, LabRun, Scenario, scenarios};
use serde_json::Value;

/// Scenarios whose report is not correct yet; the table must only shrink. `cargo xtask bench truth` shows the
/// reasons.
const NOT_YET: &[&str] = &[];

fn scenario(name: &str) -> Scenario {
    scenarios::all().into_iter().find(|scenario| scenario.name == name).unwrap()
}

fn options() -> Options {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    Options { rocescope: binary::path().unwrap(), seeds: 1..=1, vary: false, only: None, keep: None, jobs }
}

#[test]
fn names_are_unique_and_goals_of_size_are_met() {
    let all = scenarios::all();
    let mut names: Vec<&str> = all.iter().map(|scenario| scenario.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.len());
    let controls = all.iter().filter(|scenario| scenario.is_control()).count();
    assert!(controls >= 40 && all.len() - controls >= 60, "{controls} controls of {}", all.len());
    let unknown: Vec<_> = NOT_YET.iter().filter(|name| !names.contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn a_seed_means_the_same_capture() {
    let bytes = |seed| {
        let folder = tempfile::tempdir().unwrap();
        let run = scenario("loss-runs").run(seed, folder.path()).unwrap();
        std::fs::read(&run.files[0]).unwrap()
    };
    assert!(bytes(7) == bytes(7));
    assert!(bytes(7) != bytes(8));
}

/// The same packets in a file that tshark reads: in ERF records (197) for link type 247, which 4.0 does not know.
fn readable(file: &Path) -> PathBuf {
    const HEAD: usize = 24;
    const LINKTYPE_INFINIBAND: u32 = 247;
    let bytes = std::fs::read(file).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    if word(0) != 0xA1B2_3C4D || word(20) != LINKTYPE_INFINIBAND {
        return file.to_owned();
    }
    let mut records = Pcap::new(Order::Little, true, 197);
    let mut at = HEAD;
    while at < bytes.len() {
        let time_ns = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4));
        let len = word(at + 8) as usize;
        at += 16;
        records.packet(time_ns, &erf(&bytes[at..at + len]));
        at += len;
    }
    let path = file.with_extension("erf.pcap");
    std::fs::write(&path, records.finish()).unwrap();
    path
}

/// The fields of each packet from tshark.
fn tshark(file: &Path, filter: Option<&str>, fields: &[&str]) -> Option<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-T", "fields", "-E", "separator=;", "-o", "ip.check_checksum:TRUE"]);
    for field in fields {
        command.args(["-e", field]);
    }
    command.args(filter.iter().flat_map(|filter| ["-Y", filter]));
    let output = command.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

/// Counts of a capture from tshark's dissection.
fn dissected(lines: &[String]) -> Counted {
    let mut counted = Counted::default();
    for line in lines {
        let mut fields = line.split(';');
        let Ok(opcode) = fields.next().unwrap_or("").parse::<u8>() else { continue };
        counted.packets += 1;
        // CNPs of InfiniBand have a different opcode.
        *counted.opcodes.entry(if opcode == 0x80 { 0x81 } else { opcode }).or_default() += 1;
        match fields.next().unwrap_or("").parse::<u8>().ok().map(|syndrome| (syndrome >> 5, syndrome & 31)) {
            Some((0, _)) => counted.acks += 1,
            Some((1, _)) => counted.rnr_naks += 1,
            Some((3, 0)) => counted.sequence_naks += 1,
            Some((3, _)) => counted.other_naks += 1,
            _ => {}
        }
        let ecn = fields.next();
        // InfiniBand's FECN: tshark shows it only with the whole header, in its fifth byte.
        let fecn = fields.next().and_then(|bth| u8::from_str_radix(bth.get(8..10)?, 16).ok());
        counted.ce +=
            u64::from(ecn == Some("3") || ecn == Some("") && fecn.is_some_and(|byte| byte >> 7 == 1));
    }
    counted
}

/// Scenarios that together contain every kind of packet.
const KINDS: [&str; 15] = [
    "clean-mixed-verbs",
    "clean-mixed-sizes",
    "loss-read-responses-upstream",
    "loss-atomics",
    "incast-4-dcqcn",
    "rnr-slow-receiver",
    "nak-remote-access",
    "clean-datagrams",
    "cm-rejected",
    "clean-infiniband",
    "loss-infiniband",
    "ecn-slow-uplink-infiniband",
    "clean-infiniband-raw",
    "loss-infiniband-raw",
    "ecn-slow-uplink-infiniband-raw",
];

#[test]
fn tshark_reads_what_the_simulator_wrote() {
    if !installed_or_skip("tshark_reads_what_the_simulator_wrote", "tshark") {
        return;
    }
    let mut opcodes = BTreeMap::new();
    for name in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let run = scenario(name).run_with_snap(1, folder.path(), 65_535).unwrap();
        for (file, (_, truth)) in run.files.iter().zip(&run.truth.counted) {
            let file = &readable(file);
            let fields = [
                "infiniband.bth.opcode",
                "infiniband.aeth.syndrome",
                "ip.dsfield.ecn",
                "infiniband.bth",
                "_ws.malformed",
                "ip.checksum.status",
            ];
            let lines = tshark(file, None, &fields).unwrap();
            for line in &lines {
                let mut last = line.rsplit(';');
                let (checksums, malformed) = (last.next().unwrap(), last.next().unwrap());
                // 0: bad.
                let is_sound = malformed.is_empty() && checksums.split(',').all(|status| status != "0");
                assert!(is_sound, "{name}: {line}");
            }
            same(name, &dissected(&lines), truth);
            opcodes.extend(truth.opcodes.clone());
        }
    }
    assert!(opcodes.len() == 20, "too few kinds of packets: {opcodes:?}");
}

#[track_caller]
fn same(name: &str, counted: &Counted, truth: &Counted) {
    assert_eq!(counted.packets, truth.packets, "{name}: packets");
    assert_eq!(counted.opcodes, truth.opcodes, "{name}: opcodes");
    assert_eq!(counted.acks, truth.acks, "{name}: ACKs");
    assert_eq!(counted.rnr_naks, truth.rnr_naks, "{name}: RNR NAKs");
    assert_eq!(counted.sequence_naks, truth.sequence_naks, "{name}: sequence-error NAKs");
    assert_eq!(counted.other_naks, truth.other_naks, "{name}: other NAKs");
    assert_eq!(counted.ce, truth.ce, "{name}: CE");
}

/// The same counts from a report, over all flows of a link.
fn reported(report: &Value, link: &str) -> Counted {
    let mut counted = Counted::default();
    for flow in report["flows"].as_array().unwrap().iter().filter(|flow| flow["link"] == link) {
        let number = |value: &Value| value.as_u64().unwrap();
        counted.packets += number(&flow["packets"]);
        counted.ce += number(&flow["ecn"]["ce"]);
        counted.acks += number(&flow["ack"]["acks"]);
        counted.rnr_naks += number(&flow["ack"]["rnr_naks"]);
        for (kind, naks) in flow["ack"]["naks"].as_object().unwrap() {
            let sequence = kind == "psn_sequence_error";
            *(if sequence { &mut counted.sequence_naks } else { &mut counted.other_naks }) += number(naks);
        }
        for opcode in flow["opcodes"].as_array().unwrap() {
            let code = u8::try_from(number(&opcode["code"])).unwrap();
            *counted.opcodes.entry(code).or_default() += number(&opcode["packets"]);
        }
        counted.retransmissions += flow["loss"]["retransmitted"].as_u64().unwrap_or(0);
    }
    counted
}

fn replayed(name: &str) -> (LabRun, Value) {
    let folder = tempfile::tempdir().unwrap();
    let run = scenario(name).run(1, folder.path()).unwrap();
    let report = bench::report(&options().rocescope, &run, folder.path()).unwrap();
    (run, report)
}

/// Reason, hosts and port of rejected connections, as dissected by tshark.
#[test]
fn rejected_connections_are_those_that_tshark_reads() {
    if !installed_or_skip("rejected_connections_are_those_that_tshark_reads", "tshark") {
        return;
    }
    for name in ["cm-rejected", "cm-rejected-no-listener"] {
        let folder = tempfile::tempdir().unwrap();
        let run = scenario(name).run_with_snap(1, folder.path(), 65_535).unwrap();
        let report = bench::report(&options().rocescope, &run, folder.path()).unwrap();
        let findings = report["findings"].as_array().unwrap();
        let found = findings.iter().find(|finding| finding["id"] == "cm.rejected").unwrap();
        let (asks, refuses) = (&found["requester"]["addr"], &found["responder"]["addr"]);
        let reason = found["evidence"]["reason_code"].as_u64().unwrap();
        let said = format!("{};{};0x{reason:04x}", refuses.as_str().unwrap(), asks.as_str().unwrap());
        let fields = ["ip.src", "ip.dst", "infiniband.cm.rej.reason"];
        let read = tshark(&run.files[0], Some("infiniband.cm.rej.reason"), &fields).unwrap();
        assert_eq!(read.len() as u64, found["evidence"]["setups"].as_u64().unwrap(), "{name}");
        assert!(read.iter().all(|line| *line == said), "{name}: {said}, {read:?}");
        let filter = format!("infiniband.cm.req && ip.dst == {}", refuses.as_str().unwrap());
        let ports = tshark(&run.files[0], Some(&filter), &["infiniband.cm.req.serviceid.dport"]).unwrap();
        let port = u64::from_str_radix(ports[0].trim_start_matches("0x"), 16).unwrap();
        assert_eq!(found["evidence"]["service"], format!("TCP port {port}"), "{name}");
    }
}

#[test]
fn counts_of_the_report_are_those_of_the_simulator() {
    let further =
        ["loss-between-taps", "duplicates-both-directions", "clean-multipath-planes", "clean-vlan-pcapng"];
    for name in KINDS.into_iter().chain(further) {
        let (run, report) = replayed(name);
        for (file, truth) in &run.truth.counted {
            same(name, &reported(&report, file), truth);
        }
    }
}

/// Source ports, planes and trimmed packets of multipath transports; a single path counts as none.
#[test]
fn packets_spread_on_purpose_are_reported() {
    let ports_and_planes = |name| {
        let (run, report) = replayed(name);
        let data = |flow: &&Value| flow["path_mtu"].is_u64();
        let flows: Vec<Value> = report["flows"]
            .as_array()
            .unwrap()
            .iter()
            .filter(data)
            .map(|flow| flow["spray"].clone())
            .collect();
        (run.truth, flows)
    };
    for (name, ports, planes) in [
        ("clean-multipath-ports", Some(128), None),
        ("clean-multipath-planes", Some(64), Some(4)),
        ("clean-spray-all-uplinks", None, Some(2)),
    ] {
        let (_, flows) = ports_and_planes(name);
        assert!(!flows.is_empty(), "{name}");
        for spray in flows {
            assert_eq!(spray["src_ports"].as_u64(), ports, "{name}: {spray}");
            assert_eq!(spray["planes"].as_u64(), planes, "{name}: {spray}");
            assert_eq!(spray["trimmed"], 0, "{name}: {spray}");
        }
    }
    let (truth, flows) = ports_and_planes("clean-multipath-trimmed");
    let trimmed: u64 = flows.iter().map(|spray| spray["trimmed"].as_u64().unwrap()).sum();
    // The last packet of a message may have any length.
    assert!(
        trimmed <= truth.facts.trimmed && trimmed * 10 >= truth.facts.trimmed * 9,
        "{trimmed} of {}",
        truth.facts.trimmed
    );
    let (_, flows) = ports_and_planes("clean-adaptive-routing");
    assert!(flows.iter().all(|spray| spray["reordering_depth"].as_u64() > Some(0)), "{flows:?}");
    let (_, flows) = ports_and_planes("clean-mixed-verbs");
    assert!(flows.iter().all(Value::is_null), "{flows:?}");
}

/// At the sender every retransmission repeats a packet seen before.
#[test]
fn retransmissions_at_the_sender_are_counted() {
    for name in
        ["loss-downstream", "loss-downstream-mtu1024", "timeouts-path-dead-300ms", "timeouts-last-packets"]
    {
        let (run, report) = replayed(name);
        let (file, truth) = &run.truth.counted[0];
        assert!(truth.retransmissions > 0);
        assert_eq!(reported(&report, file).retransmissions, truth.retransmissions, "{name}");
    }
}

/// In every scenario its fault occurs, in a control none does, and the report is correct, except for [`NOT_YET`].
#[test]
fn findings_are_the_truth() {
    let outcomes = bench::run(&scenarios::all(), &options()).unwrap();
    let (mut wrong, mut absent) = (Vec::new(), Vec::new());
    for outcome in &outcomes {
        let truth = outcome.truth.as_ref().unwrap();
        if !happened(outcome.name, outcome.kind, truth) {
            absent.push(format!("{}: {:?}", outcome.name, truth.facts));
        }
        if outcome.judgement.verdict != Verdict::Right && !NOT_YET.contains(&outcome.name) {
            wrong.push(format!("{}: {}", outcome.name, outcome.judgement.reasons.join("; ")));
        }
    }
    assert!(absent.is_empty(), "without their fault:\n{}", absent.join("\n"));
    assert!(wrong.is_empty(), "{} of {} regressed:\n{}", wrong.len(), outcomes.len(), wrong.join("\n"));
}

/// A scenario of loss loses packets, one of timeouts has some, and clean traffic has neither.
fn happened(name: &str, kind: &str, truth: &Truth) -> bool {
    let first = &truth.counted[0].1;
    assert!(first.packets >= 400, "{name}: {} packets", first.packets);
    match kind {
        "control" => assert!(truth.expected.is_empty() && truth.also.is_empty(), "{name}"),
        _ => assert!(!truth.expected.is_empty() || !truth.figures.is_empty() || !truth.never.is_empty()),
    }
    truth.happened(kind, name)
}

#[test]
fn the_truth_is_beside_the_captures() {
    let folder = tempfile::tempdir().unwrap();
    scenario("loss-ends-early").run(1, folder.path()).unwrap();
    let path: PathBuf = folder.path().join("truth.json");
    let truth: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(truth["expected"][0]["ids"][0], "loss.before_tap");
    assert_eq!(truth["expected"][0]["window_ns"][0], 1_767_225_603_000_000_000_u64);
    assert_eq!(truth["counted"][0]["file"], "h1.pcap");
}

/// The simulator computes the ICRC over LIDs with its own code.
#[test]
fn icrcs_of_infiniband_packets_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let run = scenario("clean-infiniband").run_with_snap(1, folder.path(), 65_535).unwrap();
    let report = bench::report(&options().rocescope, &run, folder.path()).unwrap();
    for flow in report["flows"].as_array().unwrap() {
        assert_eq!((&flow["icrc"]["checked"], &flow["icrc"]["bad"]), (&flow["packets"], &0.into()), "{flow}");
        assert!(flow["src"].as_str().unwrap().starts_with("lid:0x"), "{flow}");
    }
}
