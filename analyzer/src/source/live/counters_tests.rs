use std::fmt::Write as _;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use super::{LatestReadings, NextList, QP_LONG, QP_SHORTEST, Work};
use crate::analysis::{InputKind, Options};
use crate::entity::lives::{Calls, QpEvent};
use crate::host::net::netns::NetNs;
use crate::host::rdma::qp_context::tests::mlx5_dump;
use crate::host::read::queries::Host;
use crate::host::read::recorded::Recorded;
use crate::host::read::testing::{root_or_skip, send, veth_pair};
use crate::report::Report;
use crate::sample::Sample;
use crate::source::devices::lives::Change;
use crate::source::devices::watch::Watch;
use crate::source::feed::{Command, Update};
use crate::source::live::{self, Config};
use crate::util::lock::Locked;

const MLX5: &str = include_str!("../../../../tests/data/host/mlx5.txt");
const BUSY: &str = include_str!("../../../../tests/data/host/mlx5_busy.txt");
const LATER: &str = include_str!("../../../../tests/data/host/mlx5_busy_later.txt");
const RXE: &str = include_str!("../../../../tests/data/host/rxe.txt");

fn config(netns: NetNs, interfaces: &[&str], host: Box<dyn Host>) -> Config {
    Config {
        interfaces: interfaces.iter().map(|name| (*name).to_owned()).collect(),
        netns: Some(netns),
        promiscuous: false,
        max_flows: 64,
        interval: Duration::from_millis(100),
        events: false,
        precise_clock: false,
        host,
        ..Config::default()
    }
}

/// Runs until `enough` returns true, then stops. Returns the last sample and the notices.
fn run(config: Config, mut enough: impl FnMut(&Sample) -> bool) -> (Sample, Vec<String>) {
    let running = live::start(config).unwrap();
    let (mut last, mut said, mut stopping) = (None, Vec::new(), false);
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match running.feed.updates.recv_timeout(Duration::from_secs(60)).unwrap() {
            Update::Sample(sample) => {
                if !stopping && (enough(&sample) || Instant::now() > end) {
                    stopping = true;
                    running.feed.commands.send(Command::Stop).unwrap();
                }
                last = Some(*sample);
            }
            Update::Notice(notice) => said.push(notice),
            Update::Events(_) | Update::Restarted => {}
            Update::Ended(result) => {
                result.unwrap();
                break;
            }
        }
    }
    running.thread.join().unwrap();
    (last.unwrap(), said)
}

/// On a host whose NIC handles RoCE in hardware no packet is visible, but its counters are read from start to end.
#[test]
fn a_run_without_packets_goes_on_with_counters() {
    if !root_or_skip("a_run_without_packets_goes_on_with_counters") {
        return;
    }
    let pair = veth_pair(9000);
    let recorded = |text: &str| text.replace("enp59s0np0", "left0");
    let host = Recorded::unpack(&recorded(&format!("{MLX5}\n{BUSY}")));
    let netns = pair.left.try_clone().unwrap();
    let mut started = false;
    // Named by the RDMA device, as a user would.
    let config = config(netns, &["mlx5_0"], Box::new(host.kernel()));
    let (sample, said) = run(config, |sample| {
        let ports = &sample.devices.ports;
        let read = ports.first().is_some_and(|port| port.window.is_some() && !port.qps.is_empty());
        if read && !started {
            host.apply(&recorded(LATER));
            started = true;
        }
        // The last events are read at the end, whatever the interval.
        started
    });
    assert_eq!(said.iter().filter(|sentence| sentence.contains("in hardware")).count(), 1, "{said:?}");
    let report = Report::build(&sample, &Options::default().into());
    assert_eq!(report.facts.source.kind, InputKind::Counters);
    assert_eq!(report.facts.source.inputs, ["left0"]);
    assert_eq!(report.facts.totals.roce_packets, 0);
    let ethtool = report.facts.devices.iter().find(|device| device.source == "ethtool").unwrap();
    assert_eq!((ethtool.name.as_str(), ethtool.port), ("mlx5_0", Some(1)));
    assert_eq!(ethtool.counters["rx_packets"], 8_000_000, "{ethtool:?}");
    assert!(ethtool.first_ns < ethtool.last_ns);
    assert_eq!(report.facts.coverage[0].ratio, Some(0.0));
    for id in ["device.loss", "device.congestion", "pfc.on_wrong_priority"] {
        assert!(report.findings.iter().any(|finding| finding.id == id), "{id}: {:?}", report.findings);
    }
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["source"]["kind"], "counters");
}

/// A device whose interface is in another namespace or missing: its counters are read, and the report has the reason
/// why there are no packets.
#[test]
fn a_device_without_an_interface_here_goes_on_with_counters() {
    if !root_or_skip("a_device_without_an_interface_here_goes_on_with_counters") {
        return;
    }
    let pair = veth_pair(1500);
    for (text, why) in [
        (MLX5.to_owned(), "enp59s0np0, which is in another network namespace"),
        (
            MLX5.replace("/ndevs/", "/nothing/").replace("net/enp59s0np0/dev_port", "nothing"),
            "does not report the interface of mlx5_0",
        ),
    ] {
        let host = Recorded::unpack(&text);
        for names in [&["mlx5_0"][..], &[]] {
            let config = config(pair.left.try_clone().unwrap(), names, Box::new(host.kernel()));
            let (sample, said) = run(config, |sample| !sample.devices.ports.is_empty());
            let notes: Vec<_> =
                said.iter().filter(|note| note.contains("counters of mlx5_0/1 only")).collect();
            assert!(notes.len() == 1 && notes[0].contains(why), "{said:?}");
            let report = Report::build(&sample, &Options::default().into());
            assert_eq!((report.facts.source.kind, report.facts.links.len()), (InputKind::Counters, 0));
            assert!(report.facts.devices.iter().any(|device| device.source == "sysfs hw_counters"));
            assert!(report.facts.window.first_ns < report.facts.window.last_ns);
        }
        // Together with an interface that can be watched: packets, and the device's counters.
        let config = config(pair.left.try_clone().unwrap(), &["left0", "mlx5_0"], Box::new(host.kernel()));
        let (sample, said) = run(config, |sample| !sample.devices.ports.is_empty());
        assert!(said.iter().any(|note| note.starts_with("counters only, no packets")), "{said:?}");
        assert_eq!(Report::build(&sample, &Options::default().into()).facts.links.len(), 2);
    }
    // If nothing is readable, there is an error with the reason.
    let host =
        Recorded::unpack("[sys/class/infiniband/mlx5_0]\nports/1/link_layer = Ethernet\nnode_type = 1: CA");
    let error = live::start(config(pair.left.try_clone().unwrap(), &["mlx5_0"], Box::new(host.kernel())));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("does not report") && error.contains("no readable counters"), "{error}");
}

/// Devices that disappear are reported; the run ends with the last one.
#[test]
fn a_run_whose_devices_are_all_gone_ends() {
    if !root_or_skip("a_run_whose_devices_are_all_gone_ends") {
        return;
    }
    let pair = veth_pair(1500);
    let host = Recorded::unpack(MLX5);
    let running =
        live::start(config(pair.left.try_clone().unwrap(), &["mlx5_0"], Box::new(host.kernel()))).unwrap();
    let (mut said, mut seen, mut last) = (Vec::new(), false, None);
    let end = Instant::now() + Duration::from_secs(60);
    let ended = loop {
        match running.feed.updates.recv_timeout(Duration::from_secs(60)).unwrap() {
            Update::Sample(sample) => {
                if !seen && !sample.devices.ports.is_empty() {
                    host.apply("[sys/class/infiniband]\nmlx5_0 = (none)");
                    seen = true;
                }
                assert!(Instant::now() < end, "it goes on without any device: {said:?}");
                last = Some(*sample);
            }
            Update::Notice(notice) => said.push(notice),
            Update::Ended(result) => break result,
            Update::Events(_) | Update::Restarted => {}
        }
    };
    running.thread.join().unwrap();
    assert!(ended.unwrap_err().to_string().contains("all watched devices were removed"));
    assert_eq!(said.iter().filter(|note| note.contains("mlx5_0/1 was removed")).count(), 1, "{said:?}");
    let last = last.unwrap();
    assert!(last.devices.ports[0].gone && !last.devices.ports[0].counters.is_empty());
}

/// Packets of Soft-RoCE pass the interface, so that packets and counters are both available.
#[test]
fn a_device_whose_packets_pass_is_mixed() {
    if !root_or_skip("a_device_whose_packets_pass_is_mixed") {
        return;
    }
    let pair = veth_pair(1500);
    let on = RXE.lines().find_map(|line| line.strip_prefix("parent = ")).unwrap();
    let host = Recorded::unpack(&RXE.replace(on, "left0"));
    let config = config(pair.left.try_clone().unwrap(), &["left0"], Box::new(host.kernel()));
    let (sample, said) = run(config, |sample| !sample.devices.ports.is_empty());
    assert!(!said.iter().any(|sentence| sentence.contains("in hardware")), "{said:?}");
    assert_eq!(Report::build(&sample, &Options::default().into()).facts.source.kind, InputKind::Mixed);
}

/// Without RDMA devices the source is `live` only.
#[test]
fn a_host_without_devices_is_live_alone() {
    if !root_or_skip("a_host_without_devices_is_live_alone") {
        return;
    }
    let pair = veth_pair(1500);
    let host = Recorded::unpack("");
    let config = config(pair.left.try_clone().unwrap(), &["left0"], Box::new(host.kernel()));
    let (sample, _) = run(config, |_| true);
    let report = Report::build(&sample, &Options::default().into());
    assert_eq!(
        (report.facts.source.kind, report.facts.devices.len(), report.facts.coverage.len()),
        (InputKind::Live, 0, 0)
    );
    assert!(report.findings.iter().all(|finding| !finding.id.starts_with("config.")));
}

/// The LLDP frames of the switch reach the report, and are compared with the host's settings.
#[test]
fn a_switch_is_heard_while_a_run_goes_on() {
    if !root_or_skip("a_switch_is_heard_while_a_run_goes_on") {
        return;
    }
    let pair = veth_pair(9000);
    let host = Recorded::unpack(&MLX5.replace("enp59s0np0", "left0"));
    // PFC on priority 4, while the host has it on 3.
    let mut frame = vec![0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 1, 0x88, 0xcc];
    frame.extend([0x0a, 5]);
    frame.extend(b"leaf1");
    frame.extend([0xfe, 6, 0x00, 0x80, 0xc2, 0x0b, 8, 1 << 4]);
    frame.extend([0; 40]);
    let config = config(pair.left.try_clone().unwrap(), &["left0"], Box::new(host.kernel()));
    let (right, index) = (pair.right.try_clone().unwrap(), pair.right_index);
    let (sample, _) = run(config, |sample| {
        let frame = frame.clone();
        right.run(move || send(index, &frame)).unwrap();
        !sample.devices.settings.is_empty() && !sample.devices.neighbours.is_empty()
    });
    let report = Report::build(&sample, &Options::default().into());
    assert_eq!(report.facts.links[0].neighbours[0].system.as_deref(), Some("leaf1"));
    assert!(report.findings.iter().any(|finding| finding.id == "config.switch"), "{:?}", report.findings);
}

/// A job on eight NICs makes and connects thousands of queue pairs a second, each by five verbs. What finds no room is
/// counted, and lost.
#[test]
fn records_of_a_busy_host_fit_between_two_readings() {
    use rocescope_common::abi::qp::{QP_RECORDS_BYTES, QpRecord};

    use crate::source::live::counters::LIVES_PAUSE;
    use crate::source::live::probe::MOST_RECORDS;

    const PER_SECOND: u128 = 8 * 3_000 * 5;
    let most = QP_RECORDS_BYTES / (size_of::<QpRecord>() + 8);
    assert!(most as u128 >= PER_SECOND * LIVES_PAUSE.as_millis() / 1_000, "{most}");
    assert!(MOST_RECORDS >= most, "one reading empties it");
}

/// The next sample has it, however long the reader goes on resting.
#[test]
fn a_death_is_published_while_the_reader_rests() {
    let context = [("state", 3), ("remote_qpn", 951), ("retry_count", 7), ("cur_retry_count", 7)];
    let hex = mlx5_dump(298, &context).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, " {byte:02x}");
        hex
    });
    let host = Recorded::unpack(&format!("{MLX5}\n[]\nanswers/rdma/qp_context.0.1.298 <<\n85 hex{hex}\n>>"));
    let mut watch = Watch::new(&host.root(), &host.kernel(), &["enp59s0np0".to_owned()], &[]);
    watch.query_contexts(50);
    let known = Arc::new(Mutex::new(LatestReadings::default()));
    let mut work = Work {
        host: Arc::new(host.kernel()),
        watch,
        sockets: Vec::new(),
        known: Arc::clone(&known),
        next_list: NextList::new(Instant::now()),
        addresses: None,
        probes: Some(Err("none in this test".to_owned())),
        earlier: Calls::default(),
        tried: None,
        posts: None,
        audit: None,
        published_deaths: 0,
    };
    let (owners, _) = work.queue_pairs().unzip();
    work.publish(owners);
    let event = QpEvent { device: "mlx5_0".into(), event: "QP_FATAL".into(), ..QpEvent::default() };
    work.watch.take_lives(vec![Change::Event(event)]);
    let (stop, stopped) = mpsc::channel();
    let view = std::thread::spawn(move || {
        while known.locked().devices.lives.events.is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(stop);
    });
    assert!(work.rest(&stopped), "the run ends as soon as the death is known: it rested to the end");
    view.join().unwrap();
}

/// The list costs a query of the device per queue pair: also while many of them die.
#[test]
fn lists_have_a_share_of_the_time_however_long_they_take() {
    let now = Instant::now();
    let [short, held_up, long] = [1, 300, 3_000].map(Duration::from_millis);
    for (took, pause, least) in
        [(short, QP_SHORTEST, 10 * short), (held_up, QP_LONG, 10 * held_up), (long, 50 * long, 10 * long)]
    {
        let mut next = NextList::after(now, took);
        assert_eq!(next.due - now, pause);
        next.hurry(now + took);
        assert_eq!(next.due - now, least);
        // Later, at once; and never later than without a reason.
        next = NextList::after(now, took);
        next.hurry(now + least * 2);
        assert_eq!(next.due - now, least * 2);
        next.hurry(now + pause * 2);
        assert_eq!(next.due - now, least * 2);
    }
}
