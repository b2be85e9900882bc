//! What devices count by themselves, beside the links.

use super::*;
use rocescope::devices::{Devices, PauseSample, PortSample, QpSample, SourceSample};
use rocescope::owners::QpOwner;

/// A port that carried `seconds` times this, on the first link.
fn devices(seconds: u64, hidden: bool) -> Devices {
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
            device: "mlx5_0".into(),
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
    let port = PortSample {
        device: "mlx5_0".into(),
        port: 1,
        driver: Some("mlx5_ib".into()),
        interface: Some(World::live().links[0].0.clone()),
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
    };
    Devices { ports: vec![port], ..Devices::default() }
}

fn with_devices(world: &World, size: (u16, u16), hidden: bool) -> App {
    let mut app = App::new(options());
    let mut analyst = Analyst::new(app.options.report.clone());
    app.on_resize(size.0, size.1);
    for second in 1..=3 {
        let mut sample = world.at(second);
        sample.devices = Arc::new(devices(second, hidden));
        app.on_sample(Arc::new(sample));
        app.analyse_with(&mut analyst);
    }
    app
}

#[test]
fn counters_stand_beside_the_links_with_their_sources() {
    let mut nothing = World::live();
    nothing.flows.clear();
    let mut hidden = with_devices(&nothing, WIDE, true);
    snapshot("devices_hidden_overview", &hidden);
    assert!(text(&hidden).contains("mlx5_0/1 does RoCE in hardware"));
    press(&mut hidden, &[Key::Char('5')]);
    snapshot("devices_hidden_links", &hidden);
    let shown = text(&hidden);
    for word in
        ["40.0 Gb/s", "1.20Mpkt/s", "[ethtool]", "[hw]", "[netlink]", "paused 25.0 % of the time", "seen"]
    {
        assert!(shown.replace("M pkt/s", "Mpkt/s").contains(word), "{word}:\n{shown}");
    }
    // Smaller terminals cut it off, and nothing else happens.
    for size in [USUAL, SMALL, (200, 60)] {
        let mut app = with_devices(&World::sick(), size, false);
        press(&mut app, &[Key::Char('5')]);
        assert!(text(&app).contains("LINK"));
    }
}
