//! Deaths of queue pairs as the kernel's control path shows them: a peer that is gone, without a packet, and a request
//! that the peer refuses, which ends both queue pairs.

use std::time::{SystemTime, UNIX_EPOCH};

use rocescope_tests::live::program::Program;
use rocescope_tests::soft_roce::lab::{ENDS, End, FAR, NEAR};
use rocescope_tests::soft_roce::lives::has_shared_rule;
use rocescope_tests::soft_roce::report::count;
use rocescope_tests::soft_roce::tool::LIMIT;
use rocescope_tests::soft_roce::verbs::{QueuePair, REMOTE_ACCESS_ERROR, RETRY_EXCEEDED};
use serde_json::Value;

use super::faults::{Ends, findings};
use super::queue_pairs::{InPod, ended, events, life, listed, live, timed};

/// The pod in which a queue pair is made that dies.
const POD: &str = "11111111-2222-3333-4444-777777777777";

/// Time after the last retry in which a queue pair is found dead, and in which a sample has that.
const FOUND_NS: u64 = 1_000_000_000;

/// Unix time in nanoseconds.
fn now_ns() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_death_is_known_without_a_packet() {
    /// Until it is in the report that was read, on a machine that is emulated.
    const REPORTED_NS: u64 = 5_000_000_000;
    let ends = Ends::open();
    // No packet is exchanged with this host.
    let program = live(&["--filter", "host 192.0.2.1", "--interval", "200ms"]);
    let pod = InPod::enter(POD);
    let (near, far) = ends.connection(|to| to);
    near.write_all(&ends.far, 3, 4096).unwrap();
    let numbers = [near.number(), far.number()];
    // Both are known before one dies.
    let connected = program
        .reported(|report| {
            let is_ready = |(end, number): (End, u32)| {
                listed(report, end, "qps").any(|qp| qp["lqpn"] == number && qp["state"] == "RTS")
            };
            [(NEAR, numbers[0]), (FAR, numbers[1])].into_iter().all(is_ready)
        })
        .unwrap();
    // Their process leaves the pod in which it made them.
    drop(pod);
    // Their 5-tuples are still known where the kernel has a rule for them: one in each direction.
    let paths = &connected["qp_paths"];
    let (known, unknown) = if has_shared_rule() {
        (2, serde_json::json!({}))
    } else {
        (0, serde_json::json!({ "before kernel 5.17, rxe has another rule for the UDP source port": 2 }))
    };
    assert_eq!((&paths["qps"], &paths["known"]), (&2.into(), &known.into()), "{paths}");
    assert_eq!((&paths["five_tuples"], &paths["unknown"]), (&known.into(), &unknown), "{paths}");
    assert_eq!(paths["ports"]["parts"].as_array().map(Vec::len), Some(2), "{paths}");
    // 4.096 µs × 2^14, four times: shorter than the time in which a link comes up.
    let settings =
        program.reported(|report| findings(report).any(|one| one["id"] == "config.qp_settings")).unwrap();
    let title =
        |one: &Value| one["title"].as_str().is_some_and(|title| title.contains("A link flap of 268 ms ends"));
    assert!(findings(&settings).any(title), "{}", settings["findings"]);
    let lists = &connected["qp_lives"];
    assert!(count(&lists["list_queries"]) >= count(&lists["lists"]) && lists["lists"] != 0, "{lists}");
    drop(far);
    near.write(&ends.far, 4096, None).unwrap();
    assert_eq!(near.completion(LIMIT).unwrap(), Some(RETRY_EXCEEDED));
    let given_up_ns = now_ns();
    let report = program.reported(|report| findings(report).any(|one| one["id"] == "qp.died")).unwrap();
    let reported_ns = now_ns() - given_up_ns;
    println!("reported after {} ms", reported_ns / 1_000_000);
    assert!(reported_ns < REPORTED_NS, "{reported_ns} ns after the last retry");
    let sampled_ns = count(&report["window"]["last_ns"]).saturating_sub(given_up_ns);
    println!("in the sample {} ms after the last retry", sampled_ns / 1_000_000);
    assert!(sampled_ns < FOUND_NS, "in a sample {sampled_ns} ns after the last retry");
    died_of_retries(&report, numbers, given_up_ns);
    let later = ends.connection(|to| to);
    dies_later(&program, &ends, later);
    ended(program);
}

/// Another connection to the same peer dies after the first one: the finding names it, alone or beside the first.
fn dies_later(program: &Program, ends: &Ends, (near, far): (QueuePair<'_>, QueuePair<'_>)) {
    let number = near.number();
    let is_ready =
        |report: &Value| listed(report, NEAR, "qps").any(|qp| qp["lqpn"] == number && qp["state"] == "RTS");
    program.reported(is_ready).unwrap();
    drop(far);
    near.write(&ends.far, 4096, None).unwrap();
    assert_eq!(near.completion(LIMIT).unwrap(), Some(RETRY_EXCEEDED));
    let names = |one: &Value| {
        let evidence = &one["evidence"];
        let is_listed = evidence["lqpns"].as_array().is_some_and(|all| all.contains(&number.into()));
        one["id"] == "qp.died" && (is_listed || evidence["lqpn"] == number)
    };
    let report = program.reported(|report| findings(report).any(names)).unwrap();
    let died = findings(&report).find(|one| names(one)).unwrap();
    assert_eq!(died["responder"]["addr"], FAR.address, "{died}");
    assert_eq!(life(&report, NEAR, number)["end"], "error");
}

/// The near end's queue pair gave up at this time, for want of an answer.
fn died_of_retries(report: &Value, numbers: [u32; 2], given_up_ns: u64) {
    assert_eq!(report["flows"], serde_json::json!([]), "no packet was counted");
    let died = findings(report).find(|one| one["id"] == "qp.died").unwrap();
    let evidence = &died["evidence"];
    assert_eq!(evidence["cause"], "retry count exceeded", "{died}");
    assert_eq!(
        (&evidence["retry_cnt"], &evidence["timeout_ns"]),
        (&3.into(), &(4_096_u64 << 14).into()),
        "{died}"
    );
    let [requester, responder] = [&died["requester"], &died["responder"]];
    assert_eq!(
        (&requester["addr"], &responder["addr"]),
        (&NEAR.address.into(), &FAR.address.into()),
        "{died}"
    );
    assert_eq!((&requester["qpn"], &responder["qpn"]), (&numbers[0].into(), &numbers[1].into()), "{died}");
    assert_eq!((&requester["pid"], &requester["pod"]), (&std::process::id().into(), &POD.into()), "{died}");
    assert_eq!(life(report, NEAR, numbers[0])["end"], "error");
    let [event] = events(report, NEAR, "RTS to ERR")[..] else { panic!("{report}") };
    let after = count(&event["time_ns"]).saturating_sub(given_up_ns);
    println!("found {} ms after the last retry", after / 1_000_000);
    assert!(after < FOUND_NS, "{after} ns after the last retry");
}

/// Soft-RoCE gives no asynchronous event for it: both queue pairs are found in the error state, and the NAK on the wire
/// shows why.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_wrong_rkey_is_an_access_error_on_both_ends() {
    let ends = Ends::open();
    let program = timed(&["--interval", "500ms"]);
    let (near, far) = ends.connection(|to| to);
    near.write_all(&ends.far, 3, 256).unwrap();
    let numbers = [near.number(), far.number()];
    let of = |report: &Value, end: End, number: u32, state: &str| {
        listed(report, end, "qps").any(|qp| qp["lqpn"] == number && qp["state"] == state)
    };
    let both = |report: &Value, state: &str| {
        ENDS.into_iter().zip(numbers).all(|(end, number)| of(report, end, number, state))
    };
    program.reported(|report| both(report, "RTS")).unwrap();
    near.write(&ends.far, 256, Some(0x00ab_cdef)).unwrap();
    assert_eq!(near.completion(LIMIT).unwrap(), Some(REMOTE_ACCESS_ERROR));
    let died = |report: &Value, end: End| {
        let mut all = findings(report).filter(|one| one["id"] == "qp.died");
        all.find(|one| one["where"]["link"] == end.interface).cloned()
    };
    let report = program.reported(|report| ENDS.into_iter().all(|end| died(report, end).is_some())).unwrap();
    ended(program);
    let causes = ["remote access error NAK", "remote access error NAK (its own)"];
    for ((end, number), cause) in ENDS.into_iter().zip(numbers).zip(causes) {
        let died = died(&report, end).unwrap();
        let evidence = &died["evidence"];
        assert_eq!((&evidence["cause"], &evidence["lqpn"]), (&cause.into(), &number.into()), "{died}");
        assert!(!died["caveats"].to_string().contains("inferred"), "it is certain: {died}");
        let [requester, responder] = [&died["requester"], &died["responder"]];
        assert_eq!(
            (&requester["addr"], &requester["qpn"]),
            (&NEAR.address.into(), &numbers[0].into()),
            "{died}"
        );
        assert_eq!(
            (&responder["addr"], &responder["qpn"]),
            (&FAR.address.into(), &numbers[1].into()),
            "{died}"
        );
        let own = if end == NEAR { requester } else { responder };
        assert_eq!(own["pid"], std::process::id(), "{died}");
        let life = life(&report, end, number);
        assert_eq!((&life["state"], &life["end"]), (&"ERR".into(), &"error".into()), "{life}");
        assert!(events(&report, end, "RTS to ERR").iter().any(|event| event["lqpn"] == number));
    }
    let nak = findings(&report).find(|one| one["id"] == "nak.remote_access_error").unwrap();
    assert_eq!(
        (&nak["requester"]["addr"], &nak["responder"]["addr"]),
        (&NEAR.address.into(), &FAR.address.into()),
        "{nak}"
    );
}
