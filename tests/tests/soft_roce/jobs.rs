//! What a job feels: a host that it waits for, and one slow link of two.

use std::sync::Barrier;
use std::thread::sleep;
use std::time::Duration;

use rocescope_tests::soft_roce::lab::{FAR, Hosts, NEAR};
use rocescope_tests::soft_roce::report::count;
use rocescope_tests::soft_roce::uplinks::{UPLINKS, Uplinks};
use rocescope_tests::soft_roce::verbs::{Port, QueuePair, Settings};

use crate::faults::{Ends, FaultResult, unhurried};
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
