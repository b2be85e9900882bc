//! Tests of settings that are wrong on the wire, and of settings just within the thresholds.

use rocescope_common::account::{Mixed, PsnTrack};
use rocescope_common::wire::SkipReason;

use crate::analysis::{Options, fixtures};
use crate::findings::Severity;
use crate::findings::tests::{found, severity};
use crate::metrics::marking::Marked;
use crate::sample::{Sample, Stats};

fn flows(stats: &[Stats]) -> Sample {
    let flows = (0..)
        .zip(stats)
        .map(|(qp, stats)| (fixtures::key(0, "10.0.0.1", "10.0.0.2", 100 + qp), stats.clone()));
    fixtures::sample(vec![fixtures::link("eth0", None)], flows.collect())
}

/// A flow with this number of bytes and its own source port.
fn bulk(bytes: u64) -> Stats {
    fixtures::stats(50_000, bytes / 1000, bytes)
}

#[test]
fn a_flow_that_began_with_a_trimmed_packet_has_no_class_of_its_own() {
    let first = Stats { dscp: 46, mixed: Mixed::DSCP, acks: 0, ..bulk(5_000_000) };
    let mut sample = flows(&[first, Stats { dscp: 26, ..bulk(5_000_000) }]);
    let severity_with = |sample: &mut Sample, trimmed: u64| {
        let trimmed = [(sample.flows[0].slot, trimmed)].into_iter().filter(|(_, packets)| *packets > 0);
        sample.metrics.spray =
            Some(crate::metrics::spray::BySlot { trimmed: trimmed.collect(), ..Default::default() });
        severity(sample, "qos.dscp_mixed")
    };
    assert_eq!(severity_with(&mut sample, 3), None);
    assert_eq!(severity_with(&mut sample, 0), Some(Severity::Warning));
}

#[test]
fn a_small_mtu_is_a_warning_only_beside_a_larger_one() {
    let mtu = |mtu, bytes| Stats { mtu, ..bulk(bytes) };
    assert_eq!(severity(&flows(&[mtu(1024, 5_000_000)]), "mtu.small"), Some(Severity::Info));
    assert_eq!(severity(&flows(&[mtu(2048, 5_000_000)]), "mtu.small"), None);
    let beside = flows(&[mtu(1024, 5_000_000), mtu(4096, 5_000_000)]);
    assert_eq!(severity(&beside, "mtu.small"), Some(Severity::Warning));
    let light = flows(&[mtu(1024, 900_000), mtu(4096, 5_000_000)]);
    assert_eq!(severity(&light, "mtu.small"), None, "too few bytes to matter");
    assert_eq!(severity(&flows(&[mtu(0, 5_000_000)]), "mtu.small"), None, "not known");
}

#[test]
fn a_small_mtu_is_a_warning_only_where_one_of_its_hosts_uses_a_larger_one() {
    let pairs = |pairs: &[(&str, &str, u32)]| {
        let flows = (0..).zip(pairs).map(|(qp, (src, dst, mtu))| {
            (fixtures::key(0, src, dst, 100 + qp), Stats { mtu: *mtu, ..bulk(5_000_000) })
        });
        fixtures::sample(vec![fixtures::link("eth0", None)], flows.collect())
    };
    let small = |all: &[(&str, &str, u32)]| {
        let found = found(&pairs(all), &Options::default());
        found.into_iter().find(|one| one.id == "mtu.small").map(|one| (one.severity, one.title))
    };
    let apart = small(&[("10.0.0.1", "10.0.0.2", 1024), ("10.0.0.3", "10.0.0.4", 4096)]);
    let title = "Small path MTU: 1024 bytes in 1 data flow (other hosts on the link: 4096)";
    assert_eq!(apart, Some((Severity::Info, title.to_owned())));
    assert_eq!(small(&[("10.0.0.1", "10.0.0.2", 2048), ("10.0.0.3", "10.0.0.4", 4096)]), None);
    // One receiver of both, and one host that sends one and receives the other.
    for larger in [("10.0.0.3", "10.0.0.2", 4096), ("10.0.0.3", "10.0.0.1", 4096)] {
        let one = small(&[("10.0.0.1", "10.0.0.2", 1024), larger]);
        let title = "Small path MTU: 1024 bytes in 1 data flow (its hosts use up to 4096)";
        assert_eq!(one, Some((Severity::Warning, title.to_owned())));
    }
}

/// The flow with the most bytes is not the one whose hosts use the largest.
#[test]
fn the_largest_path_mtu_is_that_of_the_hosts_of_all_small_flows() {
    let pairs = [
        ("10.0.0.1", "10.0.0.2", 512, 9_000_000),
        ("10.0.0.3", "10.0.0.2", 1024, 900_000),
        ("10.0.0.4", "10.0.0.5", 1024, 5_000_000),
        ("10.0.0.4", "10.0.0.6", 4096, 5_000_000),
    ];
    let flows = (0..).zip(pairs).map(|(qp, (src, dst, mtu, bytes))| {
        (fixtures::key(0, src, dst, 100 + qp), Stats { mtu, ..bulk(bytes) })
    });
    let sample = fixtures::sample(vec![fixtures::link("eth0", None)], flows.collect());
    let found = found(&sample, &Options::default());
    let beside = found.iter().find(|one| one.id == "mtu.small" && one.severity == Severity::Warning).unwrap();
    let title = "Small path MTU: 512 to 1024 bytes in 2 data flows (their hosts use up to 4096)";
    assert_eq!((beside.title.as_str(), &beside.evidence["largest_path_mtu"]), (title, &4096.into()));
}

#[test]
fn a_small_mtu_is_a_warning_on_a_jumbo_port() {
    let on = |interface, mtu| {
        let mut sample = flows(&[Stats { mtu, ..bulk(5_000_000) }]);
        sample.links[0].mtu = Some(interface);
        severity(&sample, "mtu.small")
    };
    // 2,048 bytes and their headers need 2,144.
    assert_eq!(on(2143, 1024), Some(Severity::Info));
    assert_eq!(on(2144, 1024), Some(Severity::Warning));
    assert_eq!(on(9000, 1024), Some(Severity::Warning));
    assert_eq!(on(1500, 1024), Some(Severity::Info), "as large as the port allows");
    assert_eq!(on(9000, 2048), None, "not small by itself");
}

#[test]
fn classes_that_mix() {
    let dscp = |dscp, bytes| Stats { dscp, ..bulk(bytes) };
    let id = "qos.dscp_mixed";
    assert_eq!(severity(&flows(&[dscp(26, 5_000_000), dscp(0, 5_000_000)]), id), Some(Severity::Warning));
    assert_eq!(severity(&flows(&[dscp(26, 9_900_000), dscp(0, 90_000)]), id), None, "control messages");
    let changes = Stats { mixed: Mixed::DSCP, ..bulk(5_000_000) };
    assert_eq!(severity(&flows(std::slice::from_ref(&changes)), id), Some(Severity::Warning));
    let answers = Stats { acks: 50, ..changes };
    assert_eq!(severity(&flows(&[answers]), id), None, "acknowledgements may have another class");
}

#[test]
fn classes_mix_while_flows_of_two_have_packets() {
    let second = |second: u64| fixtures::START + second * fixtures::SECOND;
    let dscp = |dscp, first: u64, last: u64| Stats {
        dscp,
        first_ns: second(first),
        last_ns: second(last),
        ..bulk(5_000_000)
    };
    let of = |all: &[Stats]| {
        let sample = Sample { window: Some((second(0), second(62))), ..flows(all) };
        let mixed = found(&sample, &Options::default()).into_iter().find(|one| one.id == "qos.dscp_mixed");
        let mixed = mixed.unwrap();
        let times = [mixed.first_seen_ns, mixed.last_seen_ns]
            .map(|ns| ns.map(|ns| (ns - fixtures::START) / fixtures::SECOND));
        (times, mixed.active)
    };
    assert_eq!(of(&[dscp(26, 0, 60), dscp(0, 20, 30)]), ([Some(20), Some(30)], false));
    assert_eq!(of(&[dscp(26, 0, 60), dscp(0, 20, 55), dscp(26, 61, 62)]), ([Some(20), Some(55)], true));
    assert_eq!(of(&[dscp(26, 0, 20), dscp(0, 30, 60)]), ([Some(30), Some(30)], false), "one after the other");
    // Within a flow the time of the change is not known.
    let changes = Stats { mixed: Mixed::DSCP, ..dscp(26, 10, 55) };
    assert_eq!(of(&[changes]), ([None, Some(55)], true));
}

#[test]
fn data_without_a_class_is_info_and_no_warning() {
    let dscp = |dscp, bytes| Stats { dscp, ..bulk(bytes) };
    assert_eq!(severity(&flows(&[dscp(0, 5_000_000)]), "qos.dscp_unset"), Some(Severity::Info));
    assert_eq!(severity(&flows(&[dscp(26, 5_000_000)]), "qos.dscp_unset"), None);
    assert_eq!(severity(&flows(&[dscp(0, 50_000)]), "qos.dscp_unset"), None, "hardly any data");
}

/// From 10.0.0.1 to 10.0.0.2; each link of a file sees packets of one sequence, from the first to the expected PSN.
fn taps(links: &[(u32, u32)], dscp: u8, qps: impl Fn(u16) -> u32) -> Sample {
    let flows = (0..).zip(links).map(|(link, (first, expected))| {
        let psn = PsnTrack { seen: 1, slack: 1, first: *first, expected: *expected, ..PsnTrack::default() };
        let stats = Stats { dscp, psn, ..bulk(5_000_000 + u64::from(*expected)) };
        (fixtures::key(link, "10.0.0.1", "10.0.0.2", qps(link)), stats)
    });
    let names = ["a", "b", "c"].map(|name| fixtures::link(name, None));
    fixtures::sample(names.into_iter().take(links.len()).collect(), flows.collect())
}

#[test]
fn taps_of_the_same_traffic_are_reported_once() {
    let unset = |sample: &Sample| -> Vec<String> {
        let all = found(sample, &Options::default()).into_iter();
        all.filter(|finding| finding.id == "qos.dscp_unset").map(|finding| finding.title).collect()
    };
    let same = unset(&taps(&[(0, 5_000), (0, 5_001), (1, 4_999)], 0, |_| 17));
    assert_eq!(same, ["DSCP 0 on b: 100 % of the data bytes (2 other taps see the same)"]);
    // Uplinks that share the load.
    let other = unset(&taps(&[(0, 5_000), (0, 5_001)], 0, |link| 17 + u32::from(link)));
    assert_eq!(other.len(), 2, "{other:?}");
    let moved = unset(&taps(&[(0, 5_000), (5_000, 9_999)], 0, |_| 17));
    assert_eq!(moved.len(), 2, "{moved:?}");
    assert_eq!(unset(&taps(&[(0, 5_000), (0, 5_001)], 26, |_| 17)), [] as [String; 0]);
}

#[test]
fn notifications_among_the_data() {
    let marked = |data: u8, cnp: u8, cnps| {
        let mut sample = flows(&[bulk(5_000_000)]);
        let mut link = [Marked::default(); 64];
        link[usize::from(data)].data_bytes = 5_000_000;
        link[usize::from(cnp)].cnp_packets = cnps;
        sample.metrics.marking = Some(vec![link]);
        severity(&sample, "qos.cnp_dscp")
    };
    assert_eq!(marked(26, 26, 40), Some(Severity::Info));
    assert_eq!(marked(26, 48, 40), None);
    assert_eq!(marked(26, 26, 9), None, "too few to tell");
    assert_eq!(severity(&flows(&[bulk(5_000_000)]), "qos.cnp_dscp"), None, "not collected");
}

#[test]
fn version_1() {
    let v1 = |bytes| Stats { roce_version: 1, ..bulk(bytes) };
    assert_eq!(
        severity(&flows(&[v1(1_000_000), bulk(9_000_000)]), "rocev1.present"),
        Some(Severity::Warning)
    );
    assert_eq!(severity(&flows(&[v1(1_000), bulk(9_000_000)]), "rocev1.present"), Some(Severity::Info));
    assert_eq!(severity(&flows(&[bulk(9_000_000)]), "rocev1.present"), None);
}

#[test]
fn other_traffic_on_a_link_for_roce() {
    let with = |reason: SkipReason, bytes, roce| {
        let mut sample = flows(&[bulk(roce)]);
        sample.links[0].skipped[reason as usize] = fixtures::counter(bytes / 1000, bytes);
        found(&sample, &Options::default()).into_iter().find(|f| f.id == "isolation.foreign_traffic")
    };
    let finding = with(SkipReason::Tcp, 40_000_000, 100_000_000).unwrap();
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(finding.evidence["tcp_bytes"], 40_000_000);
    assert!(with(SkipReason::Tcp, 4_000_000, 100_000_000).is_none(), "below one in twenty");
    assert!(with(SkipReason::Tcp, 900_000_000, 100_000_000).is_none(), "a link for everything");
    assert!(with(SkipReason::Filtered, 40_000_000, 100_000_000).is_none(), "left out by the user");
    assert!(with(SkipReason::Tcp, 9_000_000, 20_000_000).is_none(), "too little to slow anything");
}
