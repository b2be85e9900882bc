//! Unusual hosts: bonds, VLANs, drivers with few or odd counters, and devices that disappear.

use super::*;
use crate::analysis::{InputKind, Options, fixtures};
use crate::doctor;
use crate::entity::devices::PortSample;
use crate::host::read::recorded::Recorded;
use crate::report::Report;
use crate::sample::{Direction, Sample, SourceKind};

const MLX5: &str = include_str!("../../../../tests/data/host/mlx5.txt");
const BOND: &str = include_str!("../../../../tests/data/host/mlx5_bond.txt");
const IRDMA: &str = include_str!("../../../../tests/data/host/irdma.txt");
const BNXT_RE: &str = include_str!("../../../../tests/data/host/bnxt_re.txt");
use crate::util::time::NS_PER_S as SECOND;

struct HostRun {
    host: Recorded,
    watch: Watch,
    seconds: u64,
}

impl HostRun {
    fn of(text: &str, interfaces: &[&str], devices: &[&str]) -> Self {
        let host = Recorded::unpack(text);
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let watch = Watch::new(&host.root(), &host.kernel(), &owned(interfaces), &owned(devices));
        let mut run = Self { host, watch, seconds: 0 };
        run.read();
        if !run.watch.is_empty() {
            run.watch.learn(doctor::collect(&run.host.root(), &run.host.kernel()));
        }
        run
    }

    fn read(&mut self) {
        let time_ns = fixtures::START + self.seconds * SECOND;
        self.watch.read_counters(&self.host.root(), &self.host.kernel(), (time_ns, time_ns));
    }

    /// The next reading, ten seconds later, after a change of the host.
    fn then(&mut self, changes: &str) -> PortSample {
        self.host.apply(&format!("[]\n{changes}"));
        self.seconds += 10;
        self.read();
        self.watch.sample().ports.remove(0)
    }

    fn sample(&self, links: &[&str]) -> Sample {
        let ways = [Direction::Ingress, Direction::Egress];
        let links = links.iter().flat_map(|name| ways.map(|way| fixtures::link(name, Some(way)))).collect();
        let mut sample: Sample = fixtures::sample(links, Vec::new());
        (sample.kind, sample.inputs) = (SourceKind::Live, self.watch.inputs());
        sample.devices = std::sync::Arc::new(self.watch.sample());
        for (link, packets) in sample.links.iter_mut().zip([600, 50, 400, 50]) {
            link.retired.packets = packets;
        }
        sample
    }

    fn report(&self, links: &[&str]) -> Report {
        Report::build(&self.sample(links), &Options::default().into())
    }
}

fn bonded() -> String {
    format!("{MLX5}\n{BOND}")
}

#[test]
fn a_bond_has_the_counters_of_its_members() {
    // Selected by the bond, an interface stacked on it, a member, or the device.
    for (interfaces, devices) in
        [(&["bond0"][..], &[][..]), (&["bond0.7"], &[]), (&["enp59s0np1"], &[]), (&[], &["mlx5_0"])]
    {
        let mut run = HostRun::of(&bonded(), interfaces, devices);
        let port = run.then(
            "answers/statistics/enp59s0np0 <<\nrx_vport_rdma_unicast_packets 100600\nrx_prio3_pause 5\n\
             rx_prio3_pause_duration 2000120\nrx_discards_phy 1\n>>\n\
             answers/statistics/enp59s0np1 <<\nrx_vport_rdma_unicast_packets 7400\nrx_prio3_pause 12\n\
             rx_prio3_pause_duration 5001000\nrx_discards_phy 7\n>>",
        );
        assert_eq!(port.interface.as_deref(), Some("bond0"), "{interfaces:?}");
        assert_eq!(port.members, ["enp59s0np0", "enp59s0np1"]);
        assert_eq!(port.value("rx_packets"), Some((1_000, "ethtool")));
        assert_eq!(port.value("port_discards"), Some((5, "ethtool")));
        let pause = port.pause.iter().find(|p| !p.sent && p.priority == Some(3)).unwrap();
        assert_eq!((pause.frames, pause.paused_ns), (Some(3), Some(7 * SECOND)));
        assert_eq!(pause.worst_share, Some(0.5), "of the member that stood longest");
        assert_eq!(port.lossless, Some(1 << 3));
    }
    assert!(HostRun::of(&bonded(), &["eth9"], &[]).watch.is_empty(), "another port");
}

#[test]
fn a_member_that_starts_over_is_no_fall_of_the_sum() {
    let mut run = HostRun::of(&bonded(), &["bond0"], &[]);
    let port = run.then("answers/statistics/enp59s0np1 <<\nrx_vport_rdma_unicast_packets 30\n>>");
    assert_eq!(port.value("rx_packets"), Some((30, "ethtool")));
    assert_eq!(port.counters.iter().find(|c| c.source == "ethtool").unwrap().resets, 1);
    // A counter that was unreadable once continues from its previous value.
    assert_eq!(run.then("answers/statistics/enp59s0np1 = (none)").value("rx_packets"), Some((30, "ethtool")));
}

#[test]
fn coverage_of_a_bond_is_over_its_members() {
    let mut run = HostRun::of(&bonded(), &["bond0"], &[]);
    run.then(
        "answers/statistics/enp59s0np0 <<\nrx_vport_rdma_unicast_packets 100600\n>>\n\
         answers/statistics/enp59s0np1 <<\nrx_vport_rdma_unicast_packets 7400\n>>",
    );
    let ingress = |links: &[&str]| run.report(links).facts.coverage.first().cloned();
    let both = ingress(&["enp59s0np0", "enp59s0np1"]).unwrap();
    assert_eq!((both.seen_packets, both.counted_packets, both.ratio), (1000, Some(1000), Some(1.0)));
    assert_eq!(both.link, "enp59s0np0, enp59s0np1");
    let one = ingress(&["enp59s0np0"]).unwrap();
    assert_eq!((one.ratio, one.link.as_str()), (Some(0.6), "enp59s0np0"));
    assert_eq!(ingress(&["bond0"]).unwrap().link, "bond0");
    assert_eq!(ingress(&["eth9"]), None, "nothing of it is watched, but something is");
    let none = ingress(&[]).unwrap();
    assert_eq!((none.seen_packets, none.ratio, none.link.as_str()), (0, Some(0.0), "bond0"));
    assert!(none.why.unwrap().contains("no program is attached"));
    assert_eq!(run.report(&[]).facts.source.kind, InputKind::Counters);
}

#[test]
fn coverage_below_99_percent_says_why_in_the_report_and_its_text() {
    const VLAN: &str = include_str!("../../../../tests/data/host/mlx5_vlan.txt");
    const RXE: &str = include_str!("../../../../tests/data/host/rxe.txt");
    let counted = |name: &str, packets: u64| {
        format!("answers/statistics/{name} <<\nrx_vport_rdma_unicast_packets {packets}\n>>")
    };
    // RoCE handled by the kernel, so that its packets are visible.
    let shown = format!(
        "{MLX5}\n[]\nanswers/parameter/0000:3b:00.0.enable_roce <<\n80 {{\n84 {{\n85 {{\n87 u8 1\n}}\n}}\n}}\n>>"
    );
    let nic = "enp59s0np0";
    let vlan = format!("{shown}\n{VLAN}");
    let bond = format!("{shown}\n{BOND}");
    // Host, watched interface, counted packets (600 are seen), dropped packets, and the expected text.
    let cases = [
        (shown.as_str(), nic, 600, 0, None),
        (shown.as_str(), nic, 606, 0, None),
        (shown.as_str(), nic, 607, 0, Some("before the programs were attached")),
        (shown.as_str(), nic, 700, 40, Some("40 packets were dropped")),
        (MLX5, nic, 700, 40, Some("in hardware, and neither XDP nor TC on enp59s0np0 sees it")),
        (vlan.as_str(), "enp59s0np0.7", 700, 0, Some("only what passes enp59s0np0.7 is watched")),
        // One of two members: drops explain less of the difference.
        (
            bond.as_str(),
            nic,
            700,
            40,
            Some("of the bond's members enp59s0np1 is not watched; name all of them with -i"),
        ),
    ];
    for (host, watched, packets, dropped, expected) in cases {
        let mut run = HostRun::of(host, &[watched], &[]);
        run.then(&counted(nic, 100_000 + packets));
        let mut sample = run.sample(&[watched]);
        sample.interface_drops = Some(dropped);
        let report = Report::build(&sample, &Options::default().into());
        let ingress = &report.facts.coverage[0];
        let ratio = 600.0 / packets as f64;
        assert!((ingress.ratio.unwrap() - ratio).abs() < 1e-9, "{ingress:?}");
        assert_eq!(ingress.why.is_some(), expected.is_some(), "{packets}: {ingress:?}");
        // The header of the screen shows the lowest coverage.
        let worst = crate::analysis::worst_coverage(&report.facts.coverage).unwrap();
        assert!(worst <= ratio && (worst < crate::analysis::WHOLE) == expected.is_some(), "{worst}");
        let text = crate::report::text::text(&report, 120);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains(&format!("mlx5_0/1 ingress: {}", crate::util::units::ratio(ingress.ratio))),
            "{text}"
        );
        if let Some(expected) = expected {
            assert!(ingress.why.as_ref().unwrap().contains(expected), "{ingress:?}");
            assert!(words.contains(expected), "{expected} in {text}");
        }
    }
    // A device that does not count RoCE packets: there is no ratio.
    let without = format!("{RXE}\n[]\nsys/class/infiniband/rxe0/ports/1/hw_counters = (none)");
    let mut run = HostRun::of(&without, &["veth0"], &[]);
    run.then("");
    let report = run.report(&["veth0"]);
    assert!(
        report.facts.coverage.iter().all(|one| one.ratio.is_none() && one.why.is_none()),
        "{:?}",
        report.facts.coverage
    );
    let text = crate::report::text::text(&report, 120);
    assert!(text.contains("no device counter counts RoCE packets"), "{text}");
}

#[test]
fn frames_without_times_bound_the_share_that_was_paused() {
    // ice counts only frames. At 100 Gbit/s a frame pauses for at most 335 µs.
    for (frames, storm) in [(5 + 100, false), (5 + 16_000, true)] {
        let mut run = HostRun::of(IRDMA, &["ens1f0"], &[]);
        let changes = format!("answers/statistics/ens1f0 <<\nrx_priority_3_xoff.nic {frames}\n>>");
        let port = run.then(&changes);
        let pause = port.pause.first().unwrap();
        assert_eq!((pause.paused_ns, pause.worst_share, pause.longest_ns), (None, None, None));
        let most = f64::from(frames - 5) * 335_539.0 / (10.0 * SECOND as f64);
        assert!((pause.most_share.unwrap() - most).abs() < 1e-6, "{pause:?}, {most}");
        let report = run.report(&["ens1f0"]);
        let found = report.findings.iter().find(|finding| finding.id == "pfc.storm");
        assert_eq!(found.is_some(), storm, "{found:?}");
        if let Some(found) = found {
            assert!(found.title.contains("600 pause frames/s"), "{}", found.title);
            assert!(found.title.contains("up to 53.7 %"), "{}", found.title);
        }
    }
    // Without the link speed a frame may pause for any time.
    let mut run = HostRun::of(&IRDMA.replace("speed = 100000", "speed = -1"), &["ens1f0"], &[]);
    let port = run.then("answers/statistics/ens1f0 <<\nrx_priority_3_xoff.nic 16005\n>>");
    assert_eq!((port.pause[0].most_share, port.pause[0].worst_frames_per_s), (None, Some(1600.0)));
    assert!(run.report(&["ens1f0"]).findings.iter().all(|finding| finding.id != "pfc.storm"));
}

#[test]
fn a_device_that_goes_keeps_what_it_counted_and_one_that_returns_goes_on() {
    let mut run = HostRun::of(MLX5, &["enp59s0np0"], &[]);
    let counted = "sys/class/infiniband/mlx5_0/ports/1/hw_counters/np_cnp_sent";
    assert!(!run.then(&format!("{counted} = 20")).gone);
    let gone = run.then(
        "sys/class/infiniband/mlx5_0 = (none)\nanswers/statistics/enp59s0np0 = (none)\nanswers/rdma/counters.0.1 = (none)",
    );
    assert!(gone.gone);
    assert_eq!(gone.value("cnps_sent"), Some((8, "sysfs hw_counters")));
    assert_eq!(gone.seconds(), Some(10.0), "until when it was there");
    // The driver is reloaded: all counters restart at 0.
    let back = run.then(&format!("{counted} = 3"));
    assert_eq!((back.gone, back.value("cnps_sent")), (false, Some((11, "sysfs hw_counters"))));
    assert_eq!(back.counters.iter().find(|c| c.source == "sysfs hw_counters").unwrap().resets, 1);
}

#[test]
fn what_only_a_driver_knows_keeps_its_name() {
    let at = "sys/class/infiniband/bnxt_re0/ports/1/hw_counters";
    let mut run =
        HostRun::of(&format!("{BNXT_RE}\n[]\n{at}/frobs_handled = 5\n{at}/odd = N/A"), &[], &["bnxt_re0"]);
    let port = run.then(&format!("{at}/frobs_handled = 18446744073709551614\n{at}/odd = -3"));
    assert_eq!(port.value("frobs_handled"), Some((u64::MAX - 6, "sysfs hw_counters")));
    assert_eq!(port.value("odd"), None, "no number, no counter");
    // A wrap from the end of 64 bits is not one of 32 bits.
    let port = run.then(&format!("{at}/frobs_handled = 1"));
    assert_eq!(port.counters.iter().find(|c| c.source == "sysfs hw_counters").unwrap().resets, 1);
}

/// In a pod that has the RDMA device but not its interface.
#[test]
fn a_device_without_its_interface_has_counters() {
    let text = MLX5.replace("enp59s0np0 2 physical 9000 up", "eth0 2 veth 1500 up");
    let mut run = HostRun::of(&text, &[], &["mlx5_0"]);
    let counted = "sys/class/infiniband/mlx5_0/ports/1/hw_counters/np_cnp_sent";
    assert!(run.watch.is_readable());
    assert_eq!(run.watch.labels(), ["mlx5_0/1"]);
    assert_eq!(run.then(&format!("{counted} = 20")).value("cnps_sent"), Some((8, "sysfs hw_counters")));
    // Nothing is readable.
    let bare = "[sys/class/infiniband/mlx5_0]\nports/1/link_layer = Ethernet\nnode_type = 1: CA";
    let run = HostRun::of(bare, &[], &["mlx5_0"]);
    assert!(!run.watch.is_empty() && !run.watch.is_readable());
}
