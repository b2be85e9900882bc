//! Traffic of several hosts: each device is used with several addresses.

use rocescope_tests::soft_roce::lab::{FAR, Hosts, NEAR};
use rocescope_tests::soft_roce::report::count;
use rocescope_tests::soft_roce::verbs::Port;

use crate::faults::{FaultResult, findings, unhurried};

/// Indices of the ends.
pub(crate) const AT_NEAR: usize = 0;
pub(crate) const AT_FAR: usize = 1;

/// Two hosts of a network that the other four do not use.
#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn roce_of_a_foreign_network_is_named() {
    const HOSTS: [(usize, &str); 4] =
        [(AT_NEAR, "10.0.0.11"), (AT_FAR, "10.0.0.12"), (AT_NEAR, "172.16.5.1"), (AT_FAR, "172.16.5.2")];
    let _hosts = Hosts::add(&HOSTS).unwrap();
    let near = [NEAR, NEAR.at("10.0.0.11"), NEAR.at("172.16.5.1")].map(|end| Port::open(end).unwrap());
    let far = [FAR, FAR.at("10.0.0.12"), FAR.at("172.16.5.2")].map(|end| Port::open(end).unwrap());
    let reported = FaultResult::about("foreign", || {
        // The four hosts form a chain, and thus one group; then the two others.
        for (from, to, messages) in [(0, 0, 60), (0, 1, 60), (1, 1, 60), (2, 2, 180)] {
            let (own, peer) = (near[from].queue_pair().unwrap(), far[to].queue_pair().unwrap());
            own.connect(&peer, unhurried).unwrap();
            own.write_all(&far[to], messages, 8192).unwrap();
        }
    });
    for (way, report) in reported.both() {
        let foreign = reported.evidence(way, "isolation.foreign_roce");
        let hosts = ["hosts", "other_hosts"].map(|name| count(&foreign[name]));
        assert_eq!((hosts, &foreign["network"]), ([2, 4], &"172.16.5.0/30".into()), "{way}: {foreign}");
        let share = foreign["share"].as_f64().unwrap();
        // Half of the messages, and more of those in its seconds where the others took seconds of their own.
        assert!((0.45..=1.0).contains(&share), "less than half: {foreign}");
        let worse = findings(report).filter(|one| one["severity"] != "info").count();
        assert_eq!(
            worse, 1,
            "more than one finding for both directions of both links, {way}: {}",
            report["findings"]
        );
    }
}
