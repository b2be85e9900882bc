//! Faults of the path and of peers: each must be diagnosed correctly, live and in a replay of tcpdump's captures of
//! both ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rocescope_tests::oracle::binary;
use rocescope_tests::soft_roce::hop::Hop;
use rocescope_tests::soft_roce::lab::{self, End, FAR, NEAR, PATH_MTU};
use rocescope_tests::soft_roce::report::{count, on_link, sum};
use rocescope_tests::soft_roce::session::{Session, SessionResult};
use rocescope_tests::soft_roce::tool::{LIMIT, Tool, wait_for};
use rocescope_tests::soft_roce::verbs::{
    Port, QueuePair, REMOTE_INVALID_REQUEST, REMOTE_OPERATIONAL_ERROR, RETRY_EXCEEDED, SUCCESS, Settings,
};
use serde_json::Value;

/// Both devices, open.
pub(crate) struct Ends {
    pub(crate) near: Port,
    pub(crate) far: Port,
}

impl Ends {
    pub(crate) fn open() -> Self {
        lab::up().unwrap();
        Self { near: Port::open(NEAR).unwrap(), far: Port::open(FAR).unwrap() }
    }

    /// A connection with changed settings of [`Settings::to`].
    pub(crate) fn connection(&self, with: impl Fn(Settings) -> Settings) -> (QueuePair<'_>, QueuePair<'_>) {
        let (near, far) = (self.near.queue_pair().unwrap(), self.far.queue_pair().unwrap());
        near.connect(&far, with).unwrap();
        (near, far)
    }
}

/// Transport timeout of [`Settings::to`].
const TIMEOUT_NS: u64 = 4_096 << 14;
/// That of [`unhurried`]: half a second.
const UNHURRIED_NS: u64 = 4_096 << 17;
/// All IPv4 packets.
const ALL: &str = "u32 match u8 0 0";

/// Unlimited retries: Soft-RoCE never counts the seventh.
fn patient(to: Settings) -> Settings {
    Settings { retries: 7, ..to }
}

/// With a longer timeout: Soft-RoCE on a loaded machine answers later than after 67 ms, and really retransmits.
pub(crate) fn unhurried(to: Settings) -> Settings {
    Settings { timeout: 17, ..to }
}

/// Reports of a live run, and of a replay of both captures.
pub(crate) struct FaultResult {
    pub(crate) seen: SessionResult,
    replayed: Value,
}

impl FaultResult {
    /// The reports about everything in `traffic`.
    pub(crate) fn about(name: &'static str, traffic: impl FnOnce()) -> Self {
        Self::on(name, [NEAR.interface, FAR.interface], traffic)
    }

    /// The reports about what these interfaces carry of it.
    pub(crate) fn on(name: &'static str, interfaces: [&'static str; 2], traffic: impl FnOnce()) -> Self {
        let [one, other] = interfaces;
        let session = Session::start_on(name, interfaces, &["-i", one, "-i", other]).unwrap();
        traffic();
        let seen = session.finish(&[]).unwrap();
        let replayed = binary::replay(&seen.captures, [] as [&str; 0]).unwrap();
        let reported = Self { seen, replayed };
        for (way, report) in reported.both() {
            for finding in findings(report) {
                println!("{name}, {way}: {} {} {}", finding["severity"], finding["id"], finding["title"]);
            }
        }
        reported
    }

    /// The finding with this id; `None` for a report without it.
    pub(crate) fn finding(&self, way: &str, id: &str) -> Option<&Value> {
        let (_, report) = self.both().into_iter().find(|(one, _)| *one == way)?;
        findings(report).find(|one| one["id"] == id)
    }

    /// The evidence of the finding with this id.
    #[track_caller]
    pub(crate) fn evidence(&self, way: &str, id: &str) -> &Value {
        &self.finding(way, id).unwrap_or_else(|| panic!("{way} does not find {id}"))["evidence"]
    }

    pub(crate) fn both(&self) -> [(&'static str, &Value); 2] {
        [("live", &self.seen.report), ("replay", &self.replayed)]
    }
}

pub(crate) fn findings(report: &Value) -> impl Iterator<Item = &Value> {
    report["findings"].as_array().into_iter().flatten()
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn nothing_is_wrong_with_clean_traffic() {
    let ends = Ends::open();
    let reported = FaultResult::about("clean", || {
        let (near, _far) = ends.connection(unhurried);
        near.write_all(&ends.far, 100, 8192).unwrap();
    });
    for (way, report) in reported.both() {
        let wrong: Vec<&Value> = findings(report).filter(|one| one["severity"] != "info").collect();
        assert!(wrong.is_empty(), "{way}: {wrong:?}");
    }
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn lost_acks_are_timeouts() {
    let ends = Ends::open();
    let mut dropped = 0;
    let reported = FaultResult::about("acks", || {
        let (near, _far) = ends.connection(unhurried);
        // RC ACKNOWLEDGE in the BTH, after headers of 28 bytes; every tenth.
        let hop = Hop::filter(FAR, "u32 match u8 0x11 0xff at 28 action ok random determ drop 10").unwrap();
        near.write_all(&ends.far, 80, 4096).unwrap();
        dropped = hop.dropped().unwrap();
    });
    assert!(dropped >= 8, "{dropped} ACKs were dropped");
    for (way, _) in reported.both() {
        let timeouts = reported.evidence(way, "retry.timeouts");
        assert_eq!(
            count(&timeouts["timeouts"]),
            dropped,
            "{way}, one for each ACK that was dropped: {timeouts}"
        );
        // Soft-RoCE's timer continues from one message to the next, so that a timeout costs up to that.
        let most = dropped * 2 * UNHURRIED_NS;
        assert!((dropped * 1_000_000..most).contains(&count(&timeouts["waited_ns"])), "{way}: {timeouts}");
    }
    let timeouts = reported.evidence("replay", "retry.timeouts");
    // If a retransmission crosses an ACK, a capture does not show to which packet it belongs.
    assert!(
        count(&timeouts["acks_lost"]) * 4 >= dropped * 3,
        "timeouts not attributed to lost ACKs: {timeouts}"
    );
    assert_eq!(reported.evidence("replay", "loss.between_taps")["vanished"], dropped);
    // Only the reverse path lost packets.
    let sent = on_link(&reported.seen.report, NEAR, "egress").unwrap();
    assert_eq!(on_link(&reported.seen.report, FAR, "ingress").unwrap(), sent);
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_path_dead_for_a_while_is_timeouts() {
    let ends = Ends::open();
    let (mut least, mut most) = (Duration::ZERO, Duration::ZERO);
    let reported = FaultResult::about("dead", || {
        let pairs = [ends.connection(patient), ends.connection(patient)];
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (near, _) in &pairs {
                scope.spawn(|| {
                    while !ended.load(Ordering::Relaxed) {
                        near.write_all(&ends.far, 1, 4096).unwrap();
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(200));
            let began = Instant::now();
            let hop = Hop::filter(NEAR, &format!("{ALL} action drop")).unwrap();
            let dead = Instant::now();
            std::thread::sleep(Duration::from_millis(600));
            least = dead.elapsed();
            drop(hop);
            most = began.elapsed();
            std::thread::sleep(Duration::from_millis(200));
            ended.store(true, Ordering::Relaxed);
        });
    });
    for (way, _) in reported.both() {
        assert_eq!(reported.finding(way, "qp.died"), None, "{way}: both queue pairs continued");
        let timeouts = reported.evidence(way, "retry.timeouts");
        assert_eq!(timeouts["queue_pairs"], 2, "{way}: {timeouts}");
        // Each waits as long as the path is dead, and then for its timer.
        let waited = Duration::from_nanos(count(&timeouts["waited_ns"]));
        let late = Duration::from_nanos(4 * TIMEOUT_NS);
        assert!(
            (least..2 * most + late).contains(&waited),
            "{way}: {waited:?} of {least:?} to {most:?}: {timeouts}"
        );
    }
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_peer_killed_in_a_message_is_a_death() {
    let ends = Ends::open();
    let mut numbers = (0, 0);
    let reported = FaultResult::about("killed", || {
        let (near, far) = ends.connection(|to| to);
        let (sibling, _far) = ends.connection(|to| to);
        numbers = (near.number(), far.number());
        near.write_all(&ends.far, 5, 4096).unwrap();
        for _ in 0..8 {
            near.write(&ends.far, 1 << 20, None).unwrap();
        }
        assert_eq!(near.completion(LIMIT).unwrap(), Some(SUCCESS));
        // As the kernel does for a killed process, with seven messages outstanding.
        drop(far);
        sibling.write_all(&ends.far, 20, 4096).unwrap();
        let ended = std::iter::from_fn(|| near.completion(LIMIT).unwrap()).find(|status| *status != SUCCESS);
        assert_eq!(ended, Some(RETRY_EXCEEDED));
        std::thread::sleep(Duration::from_millis(500));
        sibling.write_all(&ends.far, 20, 4096).unwrap();
    });
    for (way, _) in reported.both() {
        let died = reported
            .finding(way, "qp.died")
            .unwrap_or_else(|| panic!("{way} does not find the dead queue pair"));
        let evidence = &died["evidence"];
        assert_eq!(
            (&evidence["cause"], count(&evidence["retries"])),
            (&"retries exhausted".into(), 3),
            "{died}"
        );
        let [requester, responder] = [&died["requester"], &died["responder"]];
        assert_eq!(
            (&requester["addr"], &responder["addr"]),
            (&NEAR.address.into(), &FAR.address.into()),
            "{died}"
        );
        assert_eq!(responder["qpn"], numbers.1, "{died}");
    }
}

/// Each message is acknowledged after several retries, and the queue pairs are destroyed after the last.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_way_that_is_slower_than_the_timer_is_no_death() {
    let ends = Ends::open();
    let reported = FaultResult::about("slow", || {
        let (near, _far) = ends.connection(patient);
        let hop = Hop::queue(FAR, "root netem limit 10000 delay 300ms").unwrap();
        near.write_all(&ends.far, 4, 4096).unwrap();
        hop.drained().unwrap();
    });
    for (way, _) in reported.both() {
        let timeouts = reported.evidence(way, "retry.timeouts");
        // One for each message at least: on a slow machine a timer expires late, and fewer times within the delay.
        assert!(count(&timeouts["timeouts"]) >= 4, "{way}: {timeouts}");
        assert_eq!(reported.finding(way, "qp.died"), None, "{way}: every message was acknowledged");
    }
}

/// Both captures in one file: each packet occurs twice.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn merged_captures_show_packets_twice_and_count_them_once() {
    let ends = Ends::open();
    let reported = FaultResult::about("twice", || {
        let (near, _far) = ends.connection(unhurried);
        near.write_all(&ends.far, 100, 8192).unwrap();
    });
    let folder = tempfile::tempdir().unwrap();
    let merged = folder.path().join("merged.pcap");
    let captures: Vec<_> = reported.seen.captures.iter().map(|path| std::fs::read(path).unwrap()).collect();
    std::fs::write(&merged, merge(&captures)).unwrap();
    let report = binary::replay(&[merged], [] as [&str; 0]).unwrap();
    let wrong: Vec<&Value> = findings(&report).filter(|one| one["severity"] != "info").collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(findings(&report).any(|one| one["id"] == "capture.duplicates"), "{}", report["findings"]);
    let (packets, copies) =
        (count(&report["totals"]["roce_packets"]), count(&report["totals"]["copied"]["packets"]));
    assert!(copies * 100 >= packets * 49, "{copies} duplicates of {packets} packets");
}

/// Merges two captures of tcpdump by time.
fn merge(captures: &[Vec<u8>]) -> Vec<u8> {
    const HEADER: usize = 24;
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(word(&captures[0], 0), word(&captures[1], 0), "of one unit of time");
    let mut records = Vec::new();
    for capture in captures {
        let mut at = HEADER;
        while at < capture.len() {
            let end = at + 16 + word(capture, at + 8) as usize;
            records.push(((word(capture, at), word(capture, at + 4)), &capture[at..end]));
            at = end;
        }
    }
    records.sort_by_key(|(time, _)| *time);
    let records = records.iter().flat_map(|(_, record)| record.iter());
    captures[0][..HEADER].iter().chain(records).copied().collect()
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_hop_with_a_small_mtu_is_a_black_hole() {
    let ends = Ends::open();
    let reported = FaultResult::about("mtu", || {
        let (near, _far) = ends.connection(|to| to);
        let (small, _small) = ends.connection(|to| to);
        let _hop = Hop::small(FAR, "600", "1500").unwrap();
        near.write_all(&ends.far, 5, 256).unwrap();
        near.write(&ends.far, 16384, None).unwrap();
        small.write_all(&ends.far, 100, 256).unwrap();
        assert_eq!(near.completion(LIMIT).unwrap(), Some(RETRY_EXCEEDED));
        std::thread::sleep(Duration::from_millis(500));
        small.write_all(&ends.far, 20, 256).unwrap();
    });
    let hole = reported.evidence("replay", "path.mtu_black_hole");
    let sizes = ["largest_passed", "smallest_vanished", "largest_vanished"].map(|name| count(&hole[name]));
    assert_eq!(sizes, [256, PATH_MTU, PATH_MTU], "{hole}");
    let sent = flow_sum(&reported.seen.report, NEAR, "egress");
    assert_eq!(count(&hole["large"]), sent - flow_sum(&reported.seen.report, FAR, "ingress"), "{hole}");
    // One tap at the sender shows it as well.
    let at_sender = binary::replay(&reported.seen.captures[..1], [] as [&str; 0]).unwrap();
    assert!(findings(&at_sender).any(|one| one["id"] == "path.mtu_black_hole"), "{}", at_sender["findings"]);
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn reordering_is_no_loss() {
    let ends = Ends::open();
    let reported = FaultResult::about("reordered", || {
        let (near, _far) = ends.connection(patient);
        // Every tenth packet overtakes the queued ones.
        let hop = Hop::queue(FAR, "root netem limit 10000 delay 4ms reorder 100% gap 10").unwrap();
        near.write_all(&ends.far, 8, 32768).unwrap();
        // Retransmissions of packets that have arrived meanwhile.
        hop.drained().unwrap();
    });
    let (sent, arrived) = (
        on_link(&reported.seen.report, NEAR, "egress").unwrap(),
        on_link(&reported.seen.report, FAR, "ingress").unwrap(),
    );
    assert_eq!(sent, arrived, "packets were lost, so the test proves nothing");
    let naks = |report: &Value| {
        let flows = report["flows"].as_array().into_iter().flatten();
        flows.map(|flow| count(&flow["ack"]["naks"]["psn_sequence_error"])).sum::<u64>()
    };
    assert!(naks(&reported.seen.report) > 0, "nothing was reordered, so the test proves nothing");
    for (way, report) in reported.both() {
        // Live runs have no IPv4 identification: late packets may be reported as reordering or loss, but nothing as
        // certain loss.
        let said: Vec<&str> = findings(report).filter_map(|one| one["title"].as_str()).collect();
        let lost: Vec<_> = said
            .iter()
            .filter(|title| title.to_lowercase().contains("los") && !title.to_lowercase().contains("reorder"))
            .collect();
        assert!(lost.is_empty(), "{way}: {lost:?}");
    }
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_hop_that_rewrites_is_named() {
    let ends = Ends::open();
    let reported = FaultResult::about("rewritten", || {
        let (near, _far) = ends.connection(|to| to);
        let rewrite = format!("{ALL} action pedit ex munge ip tos set 0x00 pipe csum ip");
        let _hop = Hop::filter(NEAR, &rewrite).unwrap();
        near.write_all(&ends.far, 50, 4096).unwrap();
    });
    let rewritten = reported.evidence("replay", "path.rewritten");
    let sent = flow_sum(&reported.seen.report, NEAR, "egress");
    assert_eq!(
        (count(&rewritten["packets"]), count(&rewritten["compared"]) >= sent),
        (sent, true),
        "{rewritten}"
    );
    let changed = rewritten["changed"].to_string();
    for change in ["DSCP 26 → 0", "ECN"] {
        assert!(changed.contains(change), "{change}: {rewritten}");
    }
    let title = reported.finding("replay", "path.rewritten").unwrap()["title"].as_str().unwrap().to_owned();
    assert!(title.contains("between rewritten.h0 and rewritten.h1"), "{title}");
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_rejected_connection_has_its_reason() {
    lab::up().unwrap();
    let reported = FaultResult::about("rejected", || {
        let near = ["-c", "-a", FAR.address, "-I", NEAR.address, "-p", "7777", "-C", "1"];
        Tool::start("rping", &near).unwrap().finish().unwrap_err();
    });
    for (way, _) in reported.both() {
        let rejected = reported.evidence(way, "cm.rejected");
        // Invalid service ID (IBTA volume 1, table of reject reasons): nothing listens.
        assert_eq!(
            (&rejected["reason_code"], &rejected["setups"]),
            (&8.into(), &1.into()),
            "{way}: {rejected}"
        );
        assert!(rejected["service"].as_str().unwrap().contains("7777"), "{way}: {rejected}");
    }
}

/// The requester ends while it waits, and says so with a REJ: nobody has refused anything.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_connection_request_without_an_answer_is_reported() {
    let ends = Ends::open();
    let mut dropped = 0;
    let reported = FaultResult::about("unanswered", || {
        let (near, _far) = ends.connection(unhurried);
        // Its ACKs show that the taps see what is sent to the requester.
        near.write_all(&ends.far, 5, 256).unwrap();
        let hop = Hop::filter(NEAR, "u32 match ip dport 4791 0xffff action drop").unwrap();
        let client = ["-c", "-a", FAR.address, "-I", NEAR.address, "-p", "7778", "-C", "1"];
        let client = Tool::start("rping", &client).unwrap();
        // The timer of the CM is 6.4 s.
        wait_for("the third connection request", || Ok((hop.dropped()? >= 3).then_some(()))).unwrap();
        drop(client);
        wait_for("the REJ of the requester", || Ok((hop.dropped()? >= 4).then_some(()))).unwrap();
        dropped = hop.dropped().unwrap();
    });
    assert_eq!(dropped, 4, "three requests and a REJ");
    for (way, report) in reported.both() {
        let all: Vec<&Value> = findings(report).filter(|one| one["id"] == "cm.rejected").collect();
        let [unanswered] = all[..] else { panic!("{way}: {all:?}") };
        let evidence = &unanswered["evidence"];
        assert_eq!(
            (&evidence["reason"], &evidence["reason_code"]),
            (&"no answer".into(), &Value::Null),
            "{unanswered}"
        );
        assert_eq!(
            (&evidence["setups"], &evidence["requests"]),
            (&1.into(), &3.into()),
            "{way}: {unanswered}"
        );
        assert!(evidence["service"].as_str().unwrap().contains("7778"), "{way}: {unanswered}");
        assert_eq!(unanswered["severity"], "warning", "{way}: {unanswered}");
        let [requester, responder] = [&unanswered["requester"]["addr"], &unanswered["responder"]["addr"]];
        assert_eq!(
            (requester, responder),
            (&NEAR.address.into(), &FAR.address.into()),
            "{way}: {unanswered}"
        );
    }
}

/// Drivers answer it with one of two NAKs: Soft-RoCE of Linux 6.1 with a remote operational error.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_message_longer_than_the_posted_receive_is_named() {
    let ends = Ends::open();
    let mut status = None;
    let reported = FaultResult::about("longer", || {
        let (near, far) = ends.connection(unhurried);
        far.post_receive(256).unwrap();
        near.send_message(256).unwrap();
        for end in [&near, &far] {
            assert_eq!(end.completion(LIMIT).unwrap(), Some(SUCCESS), "{end:?}: it fits");
        }
        far.post_receive(256).unwrap();
        near.send_message(512).unwrap();
        status = near.completion(LIMIT).unwrap();
        assert_ne!(far.completion(LIMIT).unwrap(), Some(SUCCESS), "it does not fit");
    });
    let id = match status {
        Some(REMOTE_OPERATIONAL_ERROR) => "nak.remote_operational_error",
        Some(REMOTE_INVALID_REQUEST) => "nak.invalid_request",
        other => panic!("the requester's completion has the status {other:?}"),
    };
    for (way, report) in reported.both() {
        let found =
            reported.finding(way, id).unwrap_or_else(|| panic!("{way}: {id}: {}", report["findings"]));
        assert_eq!(
            (&found["severity"], &found["evidence"]["naks"]),
            (&"critical".into(), &1.into()),
            "{found}"
        );
        let [requester, responder] = [&found["requester"]["addr"], &found["responder"]["addr"]];
        assert_eq!((requester, responder), (&NEAR.address.into(), &FAR.address.into()), "{way}: {found}");
        assert!(found["advice"].as_str().unwrap().contains("posted receive buffers"), "{way}: {found}");
        let steps = found["steps"].as_array().unwrap();
        let compares = |step: &Value| {
            step["text"]
                .as_str()
                .is_some_and(|text| text.contains("length of the message with the receive buffers"))
        };
        assert!(steps.iter().any(compares), "{way}: {found}");
    }
}

/// Packets of a link in one direction, without connection management and other programs.
fn flow_sum(report: &Value, end: End, direction: &str) -> u64 {
    sum(report, end, direction, |flow| if count(&flow["dest_qp"]) > 1 { count(&flow["packets"]) } else { 0 })
}
