//! Traffic of several hosts: the devices of both ends by several addresses each.

use std::time::Duration;

use rocescope_tests::soft_roce::hop::Hop;
use rocescope_tests::soft_roce::lab::{FAR, Hosts, NEAR};
use rocescope_tests::soft_roce::report::count;
use rocescope_tests::soft_roce::verbs::{Port, Settings};

use crate::faults::{Told, findings};

/// Numbers of the ends.
const AT_NEAR: usize = 0;
const AT_FAR: usize = 1;

/// A transport timer of half a second: what waits in a queue is not repeated.
fn unhurried(to: Settings) -> Settings {
    Settings { timeout: 17, ..to }
}

/// Two hosts of a network that the other four do not use.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn roce_of_a_foreign_network_is_named() {
    const HOSTS: [(usize, &str); 4] =
        [(AT_NEAR, "10.0.0.11"), (AT_FAR, "10.0.0.12"), (AT_NEAR, "172.16.5.1"), (AT_FAR, "172.16.5.2")];
    let _hosts = Hosts::add(&HOSTS).unwrap();
    let near = [NEAR, NEAR.at("10.0.0.11"), NEAR.at("172.16.5.1")].map(|end| Port::open(end).unwrap());
    let far = [FAR, FAR.at("10.0.0.12"), FAR.at("172.16.5.2")].map(|end| Port::open(end).unwrap());
    let told = Told::about("foreign", || {
        // The four in a chain, so that they are one group; then the two others.
        for (from, to, messages) in [(0, 0, 60), (0, 1, 60), (1, 1, 60), (2, 2, 180)] {
            let (own, peer) = (near[from].queue_pair().unwrap(), far[to].queue_pair().unwrap());
            own.connect(&peer, |to| to).unwrap();
            own.write_all(&far[to], messages, 8192).unwrap();
        }
    });
    for (way, report) in told.both() {
        let foreign = told.evidence(way, "isolation.foreign_roce");
        let hosts = ["hosts", "other_hosts"].map(|name| count(&foreign[name]));
        assert_eq!((hosts, &foreign["network"]), ([2, 4], &"172.16.5.0/30".into()), "{way}: {foreign}");
        let share = foreign["share"].as_f64().unwrap();
        assert!((0.45..0.55).contains(&share), "half of the messages: {foreign}");
        let worse = findings(report).filter(|one| one["severity"] != "info").count();
        assert_eq!(worse, 1, "both directions of both links are one fact, {way}: {}", report["findings"]);
    }
}

/// Three hosts write to one at the same time, through a port that is slower than they are and marks.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn hosts_that_write_to_one_at_a_time_are_an_incast() {
    const HOSTS: [(usize, &str); 2] = [(AT_NEAR, "10.0.0.11"), (AT_NEAR, "10.0.0.21")];
    let _hosts = Hosts::add(&HOSTS).unwrap();
    let far = Port::open(FAR).unwrap();
    let near = [NEAR, NEAR.at("10.0.0.11"), NEAR.at("10.0.0.21")].map(|end| Port::open(end).unwrap());
    let told = Told::about("incast", || {
        let hop = Hop::queues(
            FAR,
            &[
                "root handle 1: tbf rate 24mbit burst 20kb limit 4mb",
                "parent 1:1 handle 10: red limit 4000000 min 20000 max 60000 avpkt 1100 burst 30 ecn bandwidth \
                 24mbit probability 1.0",
            ],
        )
        .unwrap();
        let pairs = near.each_ref().map(|port| {
            let (own, peer) = (port.queue_pair().unwrap(), far.queue_pair().unwrap());
            own.connect(&peer, unhurried).unwrap();
            (own, peer)
        });
        // Alone, each waits for its own messages: no more than one of them is in the queue.
        for (own, _) in &pairs {
            own.write_all(&far, 20, 8192).unwrap();
        }
        std::thread::sleep(Duration::from_millis(100));
        std::thread::scope(|scope| {
            for (own, _) in &pairs {
                let far = &far;
                scope.spawn(move || own.write_all(far, 40, 32768).unwrap());
            }
        });
        hop.drained().unwrap();
    });
    // A tap before the queue shows no mark: that behind it does, live as well.
    for (way, _) in told.both() {
        let incast = told.finding(way, "burst.incast").unwrap_or_else(|| panic!("{way} finds no incast"));
        println!("{way}: {incast}");
        assert_eq!(incast["responder"]["addr"], FAR.address, "{way}: {incast}");
        assert_eq!(count(&incast["evidence"]["senders"]), 3, "{way}: {incast}");
    }
}
