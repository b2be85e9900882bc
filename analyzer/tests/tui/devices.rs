//! What devices count by themselves, beside the links.

use super::*;
use rocescope::sample::Direction;
use rocescope::source::devices::{Devices, PauseSample, PortSample, QpSample, SourceSample};
use rocescope::source::flows::owners::QpOwner;
use rocescope::tui::cursor::Cursor;
use rocescope::tui::key::Input;

/// Ports that carried `seconds` times this, each on an interface of its own.
fn devices(ports: usize, seconds: u64, hidden: bool) -> Devices {
    let port = |i| port(&format!("mlx5_{i}"), &format!("eth{i}"), seconds, hidden);
    Devices { ports: (0..ports).map(port).collect(), ..Devices::default() }
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
    let mut nothing = World::live();
    nothing.flows.clear();
    let mut hidden = with_devices(&nothing, 1, WIDE, true);
    snapshot("devices_hidden_overview", &hidden);
    assert!(text(&hidden).contains("mlx5_0/1 offloads RoCE"));
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
    assert!(text(&app).contains(" ECMP WHAT-IF "), "{}", text(&app));
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
