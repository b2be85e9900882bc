//! What a job feels: a host that it waits for, one slow link of two, a path that becomes slower, and one that
//! sometimes is.

use std::sync::Barrier;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocescope_tests::soft_roce::hop::Hop;
use rocescope_tests::soft_roce::lab::{FAR, Hosts, NEAR};
use rocescope_tests::soft_roce::report::count;
use rocescope_tests::soft_roce::uplinks::{UPLINKS, Uplinks};
use rocescope_tests::soft_roce::verbs::{Port, QueuePair, Settings};

use crate::faults::{Ends, FaultResult, findings, unhurried};
use crate::hosts::{AT_FAR, AT_NEAR};

/// A ring of four hosts, one of which computes longer from the middle on.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_host_that_starts_late_is_the_straggler() {
    const STEPS: usize = 16;
    const COMPUTE: Duration = Duration::from_millis(400);
    const LATE: Duration = Duration::from_millis(600);
    /// Place in the ring of the late one.
    const WHO: usize = 2;
    let late = NEAR.at("10.0.0.11");
    let _hosts = Hosts::add(&[(AT_NEAR, late.address), (AT_FAR, "10.0.0.12")]).unwrap();
    let ring = [NEAR, FAR, late, FAR.at("10.0.0.12")].map(|end| Port::open(end).unwrap());
    let reported = FaultResult::about("straggler", || {
        let pairs: Vec<(QueuePair<'_>, QueuePair<'_>)> = (0..ring.len())
            .map(|host| {
                let next = &ring[(host + 1) % ring.len()];
                let (own, peer) = (ring[host].queue_pair().unwrap(), next.queue_pair().unwrap());
                own.connect(&peer, unhurried).unwrap();
                (own, peer)
            })
            .collect();
        let all_done = Barrier::new(ring.len());
        std::thread::scope(|scope| {
            for (host, (own, _)) in pairs.iter().enumerate() {
                let (next, all_done) = (&ring[(host + 1) % ring.len()], &all_done);
                scope.spawn(move || {
                    for step in 0..STEPS {
                        let longer = if host == WHO && step >= STEPS / 2 { LATE } else { Duration::ZERO };
                        sleep(COMPUTE + longer);
                        own.write_all(next, 4, 16_384).unwrap();
                        all_done.wait();
                    }
                });
            }
        });
    });
    for (way, report) in reported.both() {
        let straggler = reported.evidence(way, "step.straggler");
        assert_eq!(straggler["waits_for"], late.address, "{way}: {straggler}, steps {}", report["steps"]);
        let behind = Duration::from_nanos(count(&straggler["behind_ns"]));
        assert!((LATE / 2..LATE * 2).contains(&behind), "{way}: {straggler}");
        let steps = usize::try_from(count(&straggler["steps"])).unwrap();
        assert!((STEPS / 3..=STEPS / 2 + 1).contains(&steps), "{way}: {straggler}");
    }
}

/// The same hosts use both links, and all that waits has taken the second.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_slow_link_of_two_is_named() {
    const DELAY: Duration = Duration::from_millis(60);
    const MESSAGES: usize = 60;
    let ends = Ends::open();
    let links = Uplinks::add().unwrap();
    links.delay("60ms").unwrap();
    let reported = FaultResult::on("uplinks", UPLINKS, || {
        let pairs: Vec<_> = (0..8).map(|_| on_one_link(&ends)).collect();
        for parity in [0, 1] {
            let own = pairs.iter().filter(|(near, _)| near.number() % 2 == parity).count();
            assert_eq!(own, pairs.len() / 2, "the links have queue pairs alike");
        }
        // As in a collective, all wait for the last: the links carry the same at any time. Live, the first messages are
        // not timed, until it is known which flow answers which.
        let all_done = Barrier::new(pairs.len());
        std::thread::scope(|scope| {
            for (near, _) in &pairs {
                scope.spawn(|| {
                    for _ in 0..MESSAGES {
                        near.write_all(&ends.far, 1, 8192).unwrap();
                        all_done.wait();
                    }
                });
            }
        });
    });
    for (way, report) in reported.both() {
        let Some(slow) = reported.finding(way, "links.congested_one_of") else {
            panic!("{way} does not find the slow link: {}", report["imbalance"])
        };
        let link = slow["where"]["link"].as_str().unwrap();
        assert!(link.contains(UPLINKS[1]), "{way}: {slow}");
        let evidence = &slow["evidence"];
        assert_eq!((&evidence["kind"], &slow["severity"]), (&"delay".into(), &"warning".into()), "{way}");
        let [here, peers] = ["link_latency_ns", "peers_latency_ns"].map(|name| count(&evidence[name]));
        assert!(Duration::from_nanos(here - peers) >= DELAY / 2, "{way}: {evidence}");
    }
}

/// A ring of four hosts; from the middle on, the path between their two sides is longer in both directions.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_path_that_becomes_longer_makes_steps_slower() {
    const STEPS: u64 = 24;
    const COMPUTE: Duration = Duration::from_millis(400);
    /// Messages of a step, each of which waits for the ACK of the one before.
    const MESSAGES: u64 = 4;
    let _hosts = Hosts::add(&[(AT_NEAR, "10.0.0.11"), (AT_FAR, "10.0.0.12")]).unwrap();
    let ring = [NEAR, FAR, NEAR.at("10.0.0.11"), FAR.at("10.0.0.12")].map(|end| Port::open(end).unwrap());
    let next = |host: usize| &ring[(host + 1) % ring.len()];
    let mut changed = 0..0;
    let reported = FaultResult::about("slower", || {
        let pair = |host: usize| {
            let (own, peer) = (ring[host].queue_pair().unwrap(), next(host).queue_pair().unwrap());
            own.connect(&peer, unhurried).unwrap();
            (own, peer)
        };
        let pairs: Vec<(QueuePair<'_>, QueuePair<'_>)> = (0..ring.len()).map(pair).collect();
        let all_done = Barrier::new(ring.len());
        let exchange = |steps: u64| {
            std::thread::scope(|scope| {
                for (host, (own, _)) in pairs.iter().enumerate() {
                    let (peer, all_done) = (next(host), &all_done);
                    scope.spawn(move || {
                        for _ in 0..steps {
                            sleep(COMPUTE);
                            own.write_all(peer, MESSAGES, 16_384).unwrap();
                            all_done.wait();
                        }
                    });
                }
            });
        };
        exchange(STEPS / 2);
        let from = now_ns();
        let _longer = [NEAR, FAR].map(|end| Hop::queue(end, "root netem limit 10000 delay 40ms").unwrap());
        changed = from..now_ns();
        exchange(STEPS / 2);
    });
    // Each message takes a delay there, and its ACK one back.
    let least = Duration::from_millis(80 * MESSAGES);
    for (way, report) in reported.both() {
        let Some(slower) = reported.finding(way, "step.slower") else {
            panic!(
                "{way} does not find that steps are slower: {} {}",
                report["steps"], report["steps_absent"]
            )
        };
        let evidence = &slower["evidence"];
        assert_eq!(slower["severity"], "warning", "{way}: {slower}");
        let [fastest, slow, since] =
            ["fastest_ns", "slower_ns", "since_ns"].map(|name| count(&evidence[name]));
        assert!(Duration::from_nanos(slow - fastest) >= least / 2, "{way}: {evidence}");
        // The guest's emulated processors stall now and then, which makes a step or two before the change slow too.
        let near_middle = changed.start.saturating_sub(3 * fastest)..changed.end + 2 * slow;
        assert!(near_middle.contains(&since), "{way}, changed at {changed:?}: {evidence}");
        let steps = count(&evidence["slower_steps"]);
        assert!((STEPS / 2 - 3..=STEPS / 2 + 2).contains(&steps), "{way}: {evidence}");
        // Nobody computes longer.
        let [transfer, wait, compute] = ["transfer_grew_ns", "wait_grew_ns", "compute_grew_ns"]
            .map(|name| evidence[name].as_i64().unwrap_or_else(|| panic!("{name} is not known: {evidence}")));
        assert!(transfer + wait > compute, "{way}: {evidence}");
    }
}

/// One request at a time; three in a hundred take a detour.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn requests_that_are_sometimes_delayed_are_a_tail() {
    const DELAY: Duration = Duration::from_millis(300);
    const REQUESTS: u64 = 1_000;
    let ends = Ends::open();
    let reported = FaultResult::about("tail", || {
        // Soft-RoCE's timer continues from one request to the next: it is longer than all of this.
        let (near, _far) = ends.connection(|to| Settings { timeout: 22, ..to });
        // netem lets the share of `reorder` pass at once. Nothing is reordered where one packet is on its way.
        let _hop = Hop::queue(FAR, "root netem limit 10000 delay 300ms reorder 97%").unwrap();
        near.write_all(&ends.far, REQUESTS, 256).unwrap();
    });
    for (way, report) in reported.both() {
        let Some(tail) = reported.finding(way, "latency.tail") else {
            let latencies: Vec<_> =
                report["flows"].as_array().unwrap().iter().map(|flow| &flow["latency_ns"]).collect();
            panic!("{way} does not find the tail: {latencies:?}")
        };
        let evidence = &tail["evidence"];
        let [p50, p99] = ["p50_ns", "p99_ns"].map(|name| Duration::from_nanos(count(&evidence[name])));
        assert!(p50 < DELAY / 20 && p99 > DELAY * 9 / 10, "{way}: {evidence}");
        let samples = count(&evidence["samples"]);
        assert!((REQUESTS / 2..=REQUESTS).contains(&samples), "{way}: {evidence}");
        let [requester, responder] = [&tail["requester"]["addr"], &tail["responder"]["addr"]];
        assert_eq!((requester, responder), (&NEAR.address.into(), &FAR.address.into()), "{way}: {tail}");
        // Delay is no loss, and no timeout.
        let wrong = findings(report).filter(|one| one["severity"] != "info" && one["id"] != "latency.tail");
        assert_eq!(wrong.count(), 0, "{way}: {}", report["findings"]);
    }
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos().try_into().unwrap()
}

/// A connection whose requests and ACKs take the same of two links.
fn on_one_link(ends: &Ends) -> (QueuePair<'_>, QueuePair<'_>) {
    let near = ends.near.queue_pair().unwrap();
    // Numbers follow one another: of two, one is as odd as the other end's.
    let far: Vec<_> = (0..2).map(|_| ends.far.queue_pair().unwrap()).collect();
    let far = far.into_iter().find(|far| far.number() % 2 == near.number() % 2).unwrap();
    // Soft-RoCE's timer continues from one message to the next, and one is always on its way.
    near.connect(&far, |to| Settings { timeout: 22, ..to }).unwrap();
    (near, far)
}
