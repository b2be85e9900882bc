//! The links screen: loads that can be compared are on one scale, and that is printed.

use super::*;

/// The blocks of the load of a link over time.
fn blocks(screen: &str, name: &str) -> String {
    let line =
        screen.lines().find(|line| line.contains(name) && line.contains(['▁', '▃', '▄', '▇'])).unwrap();
    let blocks: String = line.chars().filter(|c| ('▁'..='█').contains(c)).collect();
    blocks.chars().rev().take(1).collect()
}

/// Four links that send, one of them half as much as the others.
fn uneven(speed_mbps: Option<u64>) -> App {
    let mut world = World::live();
    for i in 0..4u16 {
        let mut spec = Spec::new("10.0.0.1", &format!("10.0.1.{i}"), 100 + u32::from(i));
        spec.link = 2 * (i / 2) + 1;
        spec.packets = if i < 2 { 100_000 } else { 50_000 };
        world.flows.push(spec);
    }
    let mut app = App::new(options());
    app.on_resize(80, 24);
    for second in 1..=3 {
        let mut sample = world.at(second);
        sample.links.iter_mut().for_each(|link| link.speed_mbps = speed_mbps);
        app.on_sample(Arc::new(sample));
    }
    press(&mut app, &[Key::Char('5')]);
    app
}

#[test]
fn links_are_compared_on_one_printed_scale() {
    let screen = text(&uneven(None));
    assert_eq!(
        (blocks(&screen, "eth0 out"), blocks(&screen, "eth1 out")),
        ("▇".into(), "▄".into()),
        "{screen}"
    );
    assert!(screen.contains("one scale: 0 to 6.68 Gb/s"), "{screen}");
    assert!(screen.contains("full bar: 6.68 Gb/s, speed unknown"), "{screen}");
    let bar = |screen: &str, name: &str| {
        let own = |line: &&str| line.trim_start_matches([' ', '▲']).starts_with(name);
        let line = screen.lines().find(own).unwrap();
        line.chars().filter(|c| *c == '━').count()
    };
    let (busy, half) = (bar(&screen, "eth0 "), bar(&screen, "eth1 "));
    assert!(busy >= 6 && busy.div_ceil(2) == half, "{busy} {half}");
}

#[test]
fn bars_are_relative_to_the_speed_where_it_is_known() {
    let screen = text(&uneven(Some(10_000)));
    assert!(screen.contains("full bar: link speed") && !screen.contains("speed unknown"), "{screen}");
    assert!(screen.contains(" UTIL %") && screen.contains(" 66.8") && screen.contains(" 10G"), "{screen}");
}

/// Names of capture files stand without their ending in all parts, and the what-if with its title.
#[test]
fn captures_have_one_name_in_all_parts_and_the_what_if_has_its_title() {
    let taps = ["k1_ecmp_ring.uA0.pcap.gz", "k1_ecmp_ring.uA1.pcap.gz"];
    for size in [(80, 24), (120, 40), (200, 60)] {
        let mut app = overview::replayed_together(&taps, size);
        press(&mut app, &[Key::Char('5')]);
        let parts = |screen: &str| screen.lines().skip(5).collect::<Vec<_>>().join("\n");
        let before = parts(&text(&app));
        assert!(before.contains("LOAD BALANCE") && !before.contains(".pcap"), "{size:?}\n{before}");
        press(&mut app, &[Key::Char('u')]);
        let scope = app.scope();
        let mut analyst = Analyst::new(app.view.options.report.clone());
        let sample = Arc::clone(app.view.newest.as_ref().unwrap());
        app.on_analysis(analyst.analyse(&sample, scope));
        let after = parts(&text(&app));
        assert!(after.contains("ECMP WHAT-IF over 2 uplinks: busiest / mean, p50 and p95 of"), "{after}");
        assert!(after.contains("as it is now") && !after.contains(".pcap"), "{size:?}\n{after}");
        assert!(size.1 < 40 || after.contains("LOAD BALANCE"), "{size:?}\n{after}");
    }
}
