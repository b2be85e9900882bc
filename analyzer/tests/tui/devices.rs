//! What devices count by themselves, beside the links.

use super::*;
use rocescope::entity::contexts::{ContextSample, Contexts};
use rocescope::entity::devices::{Devices, PauseSample, PortSample, QpSample, SourceSample};
use rocescope::entity::owners::QpOwner;
use rocescope::host::rdma::qp_context::QpContext;
use rocescope::sample::Direction;
use rocescope::tui::cursor::Cursor;
use rocescope::tui::key::Input;

/// Ports that carried `seconds` times this, each on an interface of its own.
fn devices(ports: usize, seconds: u64, hidden: bool) -> Devices {
    let port = |i| port(&format!("mlx5_{i}"), &format!("eth{i}"), seconds, hidden);
    // The NIC's own context of the quieter queue pair of the first.
    let stuck = ContextSample {
        device: "mlx5_0".into(),
        port: 1,
        lqpn: 18,
        context: QpContext { retry_cnt: Some(7), posted_receives: Some(16), ..QpContext::default() },
        in_flight: Some(20),
        stuck_ns: Some(seconds * 1_000_000_000),
        retries_used: Some(3),
        read_ns: World::live().at(0).time_ns + seconds * 1_000_000_000,
        ..ContextSample::default()
    };
    let contexts = Contexts { qps: hidden.then_some(stuck).into_iter().collect(), ..Contexts::default() };
    Devices { ports: (0..ports).map(port).collect(), contexts: Arc::new(contexts), ..Devices::default() }
}

fn port(device: &str, interface: &str, seconds: u64, hidden: bool) -> PortSample {
    let start = World::live().at(0).time_ns;
    let values = |list: &[(&str, u64)]| {
        list.iter().map(|(name, per_s)| ((*name).to_owned(), per_s * seconds)).collect::<Vec<_>>()
    };
    let hardware = values(&[("cnps_sent", 900), ("out_of_sequence", 12), ("rnr_naks_sent", 0)]);
    let ethtool = values(&[
        ("port_discards", 40),
        ("rx_bytes", 5_000_000_000),
        ("rx_packets", 1_200_000),
        ("tx_bytes", 2_500_000_000),
        ("tx_packets", 600_000),
    ]);
    let qp = |lqpn: u32, per_s: u64| QpSample {
        owner: QpOwner {
            device: device.into(),
            lqpn,
            rqpn: Some(lqpn + 100),
            kind: Some("RC"),
            state: Some("RTS"),
            pid: None,
            comm: Some("python3".into()),
            pod: Some("trainer-0".into()),
        },
        sent: Some(per_s * seconds),
        received: None,
        ..QpSample::default()
    };
    PortSample {
        device: device.into(),
        port: 1,
        driver: Some("mlx5_ib".into()),
        interface: Some(interface.into()),
        hidden,
        window: Some((start, start + seconds * 1_000_000_000)),
        counters: vec![
            SourceSample { source: "sysfs hw_counters", values: hardware, resets: 0 },
            SourceSample { source: "ethtool", values: ethtool, resets: 0 },
        ],
        pause: vec![PauseSample {
            priority: Some(3),
            frames: Some(90 * seconds),
            paused_ns: Some(250_000_000 * seconds),
            ..PauseSample::default()
        }],
        pause_source: "ethtool",
        qps: Arc::new(vec![qp(17, 500_000), qp(18, 100_000)]),
        ..PortSample::default()
    }
}

/// A host with eight NICs.
fn eight() -> World {
    let both = |i| [Direction::Ingress, Direction::Egress].map(|way| (format!("eth{i}"), Some(way)));
    World { links: (0..8).flat_map(both).collect(), ..World::healthy() }
}

/// A host with a NIC that carries RoCE past the kernel, whose counters alone are known.
pub(super) fn offloaded(size: (u16, u16)) -> App {
    let mut nothing = World::live();
    nothing.flows.clear();
    with_devices(&nothing, 1, size, true)
}

fn with_devices(world: &World, ports: usize, size: (u16, u16), hidden: bool) -> App {
    let mut app = App::new(options());
    let mut analyst = Analyst::new(app.view.options.report.clone());
    app.on_resize(size.0, size.1);
    for second in 1..=3 {
        let mut sample = world.at(second);
        sample.devices = Arc::new(devices(ports, second, hidden));
        app.on_sample(Arc::new(sample));
        app.analyse_with(&mut analyst);
    }
    app
}

#[test]
fn counters_stand_beside_the_links_with_their_sources() {
    let mut hidden = offloaded(WIDE);
    snapshot("devices_hidden_overview", &hidden);
    let shown = text(&hidden);
    assert!(shown.contains("mlx5_0/1 offloads RoCE") && !shown.contains("Is the link up"), "{shown}");
    // What findings say of the counters, what to do, and the counters: all without a chart, whose keys are not offered.
    for part in ["╭ PROBLEMS", " DO NEXT", "╭ LINKS", "port discards 40/s"] {
        assert!(shown.contains(part), "{part}:\n{shown}");
    }
    let keys = shown.lines().last().unwrap();
    assert!(["cursor", "zoom", "group"].iter().all(|key| !keys.contains(key)), "{keys}");
    let mut small = offloaded(USUAL);
    let shown = text(&small);
    assert!(shown.contains(" DO NEXT") && shown.contains("─ LINKS"), "{shown}");
    press(&mut small, &[Key::Left, Key::Char('o'), Key::Char('+'), Key::Enter]);
    assert_eq!(small.view.screen, Screen::Problem);
    press(&mut hidden, &[Key::Char('2')]);
    assert!(text(&hidden).contains("captured 0 % (8)"));
    press(&mut hidden, &[Key::Char('8')]);
    let told = text(&hidden);
    assert!(
        told.contains("0 % of the packets received by mlx5_0 port 1 captured")
            && told.contains("in hardware"),
        "{told}"
    );
    press(&mut hidden, &[Key::Char('5')]);
    snapshot("devices_hidden_links", &hidden);
    let shown = text(&hidden);
    for word in
        ["40.0 Gb/s", "1.20Mpkt/s", "[ethtool]", "[hw]", "[netlink]", "paused 25.0 % of time", "captured"]
    {
        assert!(shown.replace("M pkt/s", "Mpkt/s").contains(word), "{word}:\n{shown}");
    }
    let lines: Vec<&str> = shown.lines().skip_while(|line| !line.contains("→ 118 ")).collect();
    assert!(
        lines[0].contains("[context]") && lines[2].contains("QP 17"),
        "what stands still is first:\n{shown}"
    );
    let context = "in flight 20  stuck 3.00 s  retries 3/7  RNR -  unsent -  receives 16";
    assert!(lines[1].contains(context), "{:?}", lines[1]);
    // Smaller terminals show less of it at a time, and nothing else happens.
    for size in [USUAL, SMALL, (200, 60)] {
        let mut app = with_devices(&World::sick(), 1, size, false);
        press(&mut app, &[Key::Char('5')]);
        assert!(text(&app).contains("LINK"));
    }
}

#[test]
fn every_line_about_eight_devices_is_reached_with_each_of_the_keys_that_move() {
    let world = eight();
    let mut start = with_devices(&world, 8, USUAL, false);
    press(&mut start, &[Key::Char('5'), Key::Down]);
    snapshot("devices_eight_80x24", &start);
    let mut end = with_devices(&world, 8, USUAL, false);
    press(&mut end, &[Key::Char('5'), Key::End]);
    snapshot("devices_eight_end_80x24", &end);
    let bindings = |input| KEYMAP.iter().filter(move |binding| binding.input == input);
    for (there, back) in
        [(Input::Down, Input::Up), (Input::PageDown, Input::PageUp), (Input::Last, Input::First)]
    {
        let keys: Vec<Key> = bindings(there).flat_map(|binding| binding.keys).copied().collect();
        assert!(!keys.is_empty());
        for key in keys {
            let mut app = with_devices(&world, 8, USUAL, false);
            press(&mut app, &[Key::Char('5'), Key::Down]);
            assert_eq!(text(&app), text(&start));
            let mut seen = String::new();
            for _ in 0..100 {
                seen.push_str(&text(&app));
                press(&mut app, &[key]);
            }
            assert_eq!(text(&app), text(&end), "{key} leads to the end");
            for port in (0..8).filter(|_| there != Input::Last) {
                assert!(seen.contains(&format!(" mlx5_{port}/1 ")), "{key} passes port {port}:\n{seen}");
            }
            for key in bindings(back).flat_map(|binding| binding.keys) {
                let mut app = with_devices(&world, 8, USUAL, false);
                press(&mut app, &[Key::Char('5'), Key::End]);
                for _ in 0..100 {
                    press(&mut app, &[*key]);
                }
                assert_eq!(text(&app), text(&start), "{key} leads back");
            }
        }
    }
    // Esc drops the selection, and leads back to the top.
    press(&mut end, &[Key::Esc]);
    assert_eq!((end.screens.links.cursor, end.screens.links.below), (Cursor::default(), Cursor::default()));
}

#[test]
fn devices_that_go_leave_no_empty_lines_behind() {
    let mut world = eight();
    let mut app = with_devices(&world, 8, USUAL, false);
    press(&mut app, &[Key::Char('5'), Key::End]);
    assert!(app.screens.links.below.offset > 30, "{:?}", app.screens.links.below);
    let mut sample = world.at(4);
    sample.devices = Arc::new(Devices::default());
    app.on_sample(Arc::new(sample));
    assert!(text(&app).contains(" ECMP ENTROPY "), "{}", text(&app));
    // Without links, as where devices do all in hardware, the first press scrolls.
    world.links.clear();
    world.flows.clear();
    let mut app = with_devices(&eight(), 8, USUAL, false);
    let mut sample = world.at(4);
    sample.devices = Arc::new(devices(8, 4, true));
    app.on_sample(Arc::new(sample));
    press(&mut app, &[Key::Char('5')]);
    let before = text(&app);
    assert!(before.contains(" mlx5_0/1 "), "{before}");
    press(&mut app, &[Key::Down]);
    assert_eq!((app.screens.links.below.offset, app.screens.links.cursor.selected), (1, None));
    assert_ne!(text(&app), before);
}

/// What NCCL has answered twice, 30 s apart: rank 17 of 32 lags.
fn nccl(now_ns: u64) -> rocescope::entity::nccl::Nccl {
    use rocescope::source::nccl::{json, track::Track};
    let rank = |rank: u32| {
        let launched = if rank == 17 { 6_647 } else { 6_650 };
        format!(
            r#"{{"rank":{rank},"host":"192.0.2.9","pid":17,"cuda_dev":1,"collective_counts":{{"AllReduce":{launched}}}}}"#
        )
    };
    let ranks: Vec<String> = (0..32).map(rank).collect();
    let document = format!(
        r#"{{"nccl_version":"2.29.1","communicators":[{{"hash":"0x1a","size":32,"ranks":[{}]}}]}}"#,
        ranks.join(",")
    );
    let mut track = Track::new("localhost:28028".into(), 10_000_000_000);
    for ago_ns in [30_000_000_000, 0] {
        track.answered(json::answer(document.as_bytes()).unwrap(), now_ns - ago_ns);
    }
    track.known()
}

#[test]
fn a_rank_that_lags_shows_with_and_without_packets() {
    for (packets, size) in [(true, WIDE), (true, (120, 40)), (false, (80, 24))] {
        let mut world = if packets { World::healthy() } else { World::live() };
        if !packets {
            world.flows.clear();
        }
        let mut app = App::new(options());
        let mut analyst = Analyst::new(app.view.options.report.clone());
        app.on_resize(size.0, size.1);
        let mut sample = world.at(3);
        sample.nccl = Some(Arc::new(nccl(sample.time_ns)));
        app.on_sample(Arc::new(sample));
        app.analyse_with(&mut analyst);
        let screen = text(&app);
        assert!(screen.contains("Rank 17 lags 3 collectives for 30.0 s"), "{screen}");
        assert!(screen.contains("NCCL 2.29.1: 1 communicator, 1 rank behind"), "{screen}");
    }
}
