//! Two taps that see the same packets: every figure of everything counts them once, and all say the same.

use super::*;
use rocescope::model::Counts;
use rocescope::tui::column::Id;
use rocescope::tui::matrix::Metric;
use rocescope::tui::table::Group;

const SECONDS: u64 = 12;

/// Two queue pairs there and one back, before and behind a place where packets are lost and marked, both ways.
fn two_taps() -> World {
    let mut world = World::healthy();
    let mut there = world.flows[0].clone();
    there.link = 0;
    let mut other = there.clone();
    (other.dest_qp, other.peer_qp, other.packets) = (77, Some(78), 1_000);
    let mut back = Spec { src: there.dst, dst: there.src, dest_qp: 79, peer_qp: Some(80), ..there.clone() };
    back.link = 1;
    world.flows = vec![there.clone(), other.clone(), back.clone()];
    for (mut flow, lost, marked) in [(there, 70, 100), (other, 3, 0), (back, 20, 50)] {
        flow.link = 1 - flow.link;
        (flow.packets, flow.gaps, flow.missing) = (flow.packets - lost, lost, lost);
        flow.ce_permille = marked;
        flow.naks[0] = 5;
        world.flows.push(flow);
    }
    world.links = vec![("a".into(), None), ("b".into(), None)];
    world.kind = SourceKind::Replay;
    world
}

fn sum(counts: impl Iterator<Item = Counts>) -> Counts {
    counts.fold(Counts::default(), |mut sum, counts| {
        sum.add(&counts);
        sum
    })
}

/// Counts as floats are whole numbers.
fn same(found: f64, expected: f64) {
    assert!((found - expected).abs() < 0.5, "{found} is not {expected}");
}

/// The figure behind a name in a line of the screen.
fn behind<'a>(screen: &'a str, name: &str) -> &'a str {
    let at = screen.find(name).unwrap_or_else(|| panic!("no {name} in\n{screen}"));
    screen[at + name.len()..].trim_start()
}

/// The header of the table and the timeline say the same.
fn header_and_timeline_agree(app: &mut App) {
    press(app, &[Key::Char('2')]);
    let header = text(app);
    press(app, &[Key::Char('1')]);
    let screen = text(app);
    let rate = header.lines().nth(2).unwrap().trim_start();
    let rate: String = rate.chars().take_while(|c| !"·▁▂▃▄▅▆▇█".contains(*c)).collect();
    assert!(behind(&screen, "throughput").starts_with(rate.trim()), "{rate}: {screen}");
    let lost = header.split("│ lost ").nth(1).unwrap().split(" │").next().unwrap();
    assert!(behind(&screen, "│ lost").starts_with(lost), "{lost}: {screen}");
    let ratio = behind(&header, "│ CE ").split(" │").next().unwrap();
    assert!(behind(&screen, "ECN CE, all").starts_with(ratio), "{ratio}: {screen}");
    assert!(!screen.contains("added up"), "{screen}");
}

#[test]
fn two_taps_count_each_packet_once_wherever_it_is_shown() {
    let world = two_taps();
    let mut app = after(&world, WIDE, SECONDS);
    // What nobody has looked at is not added up.
    press(&mut app, &[Key::Char('4'), Key::Char('1')]);
    let data = app.view.data.as_ref().unwrap();
    let dedup = data.model.dedup;
    let counts = dedup.delta.unwrap().counts;
    let seconds = dedup.delta.unwrap().seconds;
    assert_eq!((dedup.taps, dedup.flows), (2, 3));
    let sent: u64 = world.flows[..3].iter().map(|flow| flow.packets).sum();
    same(counts.packets as f64, sent as f64 * seconds);
    // Of both directions.
    same(counts.lost as f64, 93.0 * seconds);
    assert_eq!(dedup.total.packets, sent * SECONDS);
    assert!(data.model.delta.unwrap().counts.packets > 19 * counts.packets / 10, "the links saw them twice");
    let matrix = sum(data.matrix.iter().map(|(.., cell)| cell.counts));
    assert_eq!(matrix, counts);
    assert_eq!(data.matrix.iter().map(|(.., cell)| cell.flows).sum::<usize>(), 3);
    let lost: f64 = data.matrix.iter().filter_map(|(.., cell)| cell.value(Metric::Loss)).sum();
    same(lost, counts.lost as f64);
    let marked = counts.ce_ratio().unwrap();
    assert!((0.07..0.08).contains(&marked), "{marked}");

    header_and_timeline_agree(&mut app);

    // Groups by host pair and by process, and what is filtered; on each link it is what that saw.
    press(&mut app, &[Key::Char('2')]);
    for (group, groups) in [(Group::Hosts, 2), (Group::Link, 2), (Group::Process, 1)] {
        press(&mut app, &[Key::Char('o')]);
        assert_eq!((app.screens.flows.group, app.screens.flows.groups.len()), (group, groups));
        let range = sum(sums(&app).iter().map(|sum| sum.row.delta.unwrap().counts));
        let total = sum(sums(&app).iter().map(|sum| sum.row.total));
        let flows: usize = sums(&app).iter().map(|sum| sum.flows).sum();
        if group == Group::Link {
            let model = &app.view.data.as_ref().unwrap().model;
            assert_eq!((range.packets, flows), (model.delta.unwrap().counts.packets, 6));
        } else {
            assert_eq!((range, total, flows), (counts, dedup.total, 3), "{group:?}");
        }
        // What is wrong stays in sight where there is little room.
        for (size, columns) in [(USUAL, &[Id::Rate, Id::CeNow, Id::Lost][..]), (SMALL, &[Id::Lost])] {
            app.on_resize(size.0, size.1);
            let shown: Vec<Id> =
                app.screens.flows.visible_columns(&app.view).iter().map(|fitted| fitted.column.id).collect();
            assert!(columns.iter().all(|id| shown.contains(id)), "{shown:?}");
            assert!(size == SMALL || text(&app).contains("STATE ↓"), "{}", text(&app));
        }
        app.on_resize(WIDE.0, WIDE.1);
    }
    press(&mut app, &[Key::Char('o'), Key::Char('o'), Key::Char('/')]);
    type_text(&mut app, "link b");
    press(&mut app, &[Key::Enter]);
    let behind = sum(sums(&app).iter().map(|sum| sum.row.total));
    let on_b =
        world.flows.iter().filter(|flow| flow.link == 1).map(|flow| flow.packets * SECONDS).sum::<u64>();
    assert_eq!(behind.packets, on_b, "where one tap is shown alone it speaks for itself");
}

/// Of a snapshot that is past only the busiest flows are kept, but what is of everything is known.
#[test]
fn the_past_is_counted_once_too() {
    let world = two_taps();
    let mut app = after(&world, USUAL, 40);
    let now = app.view.data.as_ref().unwrap().model.dedup.delta.unwrap();
    press(&mut app, &[Key::Char(' ')]);
    for _ in 0..20 {
        press(&mut app, &[Key::Char(',')]);
    }
    let past = app.view.data.as_ref().unwrap();
    assert!(past.model.time_ns < past.sample.time_ns);
    assert_eq!(past.model.dedup.delta.unwrap().counts.bytes, now.counts.bytes);
    assert_eq!((past.model.dedup.taps, past.model.dedup.flows), (2, 3));
    // And from a reset on.
    press(&mut app, &[Key::Char(' '), Key::Char('r')]);
    app.on_sample(Arc::new(world.at(41)));
    let packets: u64 = world.flows[..3].iter().map(|flow| flow.packets).sum();
    assert_eq!(app.view.data.as_ref().unwrap().model.dedup.total.packets, packets);
}

/// Links that share the packets of a queue pair add up to what it sent.
#[test]
fn links_that_share_a_load_are_added_up_in_the_matrix_as_in_the_header() {
    let mut world = two_taps();
    world.flows.truncate(1);
    world.flows.push(Spec { link: 1, ..world.flows[0].clone() });
    let app = {
        let mut app = App::new(options());
        for second in 1..=SECONDS {
            let mut sample = world.at(second);
            for (flow, first) in sample.flows.iter_mut().zip([0, 1]) {
                // Every other packet.
                let psn = &mut flow.stats.psn;
                (psn.first, psn.expected) = (first, first + 2_000 * u32::try_from(second).unwrap() - 1);
                (psn.gaps, psn.missing) = (flow.stats.packets, flow.stats.packets);
            }
            app.on_sample(Arc::new(sample));
        }
        press(&mut app, &[Key::Char('4')]);
        app
    };
    let data = app.view.data.as_ref().unwrap();
    let (.., cell) = data.matrix.iter().next().unwrap();
    assert_eq!((data.model.dedup.taps, data.model.dedup.flows, cell.flows), (1, 1, 1));
    assert_eq!(cell.counts.packets, data.model.dedup.delta.unwrap().counts.packets);
    assert_eq!(data.model.dedup.total.packets, 2 * world.flows[0].packets * SECONDS);
}

#[test]
fn the_matrix_names_its_metric() {
    let mut app = after(&World::sick(), USUAL, 3);
    press(&mut app, &[Key::Char('4')]);
    // From that of the headline on.
    for (name, size) in [
        ("NAKs received (excluding RNR)", SMALL),
        ("RNR NAKs received", USUAL),
        ("p99 latency", SMALL),
        ("rate in Gb/s", USUAL),
        ("CE ratio", SMALL),
        ("packets lost", USUAL),
        ("retransmissions", SMALL),
    ] {
        app.on_resize(size.0, size.1);
        let screen = text(&app);
        let title = screen.lines().nth(5).unwrap();
        assert!(title.contains(name) && !title.contains('…'), "{title}");
        press(&mut app, &[Key::Char('v')]);
    }
    let data = app.view.data.as_ref().unwrap();
    let counts = data.model.dedup.delta.unwrap().counts;
    let all = |metric| data.matrix.iter().filter_map(|(.., cell)| cell.value(metric)).sum::<f64>();
    same(all(Metric::Loss), counts.lost as f64);
    same(all(Metric::Naks), (counts.sequence_naks + counts.other_naks) as f64);

    let mut off = World::healthy();
    for flow in &mut off.flows {
        flow.capable = false;
    }
    let mut app = after(&off, USUAL, 3);
    press(&mut app, &[Key::Char('4'), Key::Char('v')]);
    let screen = text(&app);
    assert!(
        screen.contains("ECN is off: no data packet is ECN-capable") && !screen.contains("≤"),
        "{screen}"
    );
}

/// ACKs say nothing about the ECN of data.
#[test]
fn ecn_is_off_only_where_data_was_seen() {
    let header = |world: &World| text(&after(world, WIDE, 3)).lines().take(4).collect::<Vec<_>>().join("\n");
    let mut off = World::healthy();
    off.flows.iter_mut().for_each(|flow| flow.capable = false);
    assert!(header(&off).contains("ECN off"), "{}", header(&off));
    off.flows.retain(|flow| flow.acks > 0);
    assert!(!off.flows.is_empty() && !header(&off).contains("ECN off"), "{}", header(&off));
}

#[test]
fn a_small_screen_says_how_many_rows_match_a_filter_and_which_filter() {
    let mut app = table(&World::many(1_500), SMALL);
    press(&mut app, &[Key::Char('/')]);
    type_text(&mut app, "!state loss rate > 0");
    for key in [Key::Enter, Key::Down] {
        let screen = text(&app);
        let title = screen.lines().find(|line| line.contains("2 QPs")).unwrap();
        assert!(title.contains("\"!state loss ") && title.contains(" of 1.50k"), "{title}");
        press(&mut app, &[key]);
    }
    // A click still finds the screens.
    let tabs = text(&app).lines().find(|line| line.contains("2 QPs")).unwrap().to_owned();
    let at = u16::try_from(tabs.find('7').unwrap()).unwrap();
    assert_eq!(app.on_mouse(rocescope::tui::mouse::Mouse::Click(at, 3)), Action::Draw);
    assert_eq!(app.view.screen, Screen::Events);
    // What was answered to a key is no answer to a click.
    press(&mut app, &[Key::Char('2'), Key::Esc]);
    assert!(app.view.messages.answer.is_some());
    let _ = app.on_mouse(rocescope::tui::mouse::Mouse::Click(3, 6));
    assert_eq!(app.view.messages.answer, None);
}

/// What two taps see of a queue pair is one row with a figure of each; a key shows the single rows.
#[test]
fn taps_are_columns_of_one_row() {
    let mut app = after(&two_taps(), WIDE, 3);
    press(&mut app, &[Key::Char('2')]);
    assert_eq!(app.screens.flows.group, Group::Taps);
    let screen = text(&app);
    snapshot("taps_qps_120x40", &app);
    assert!(screen.contains(" LOST a ") && screen.contains(" LOST b"), "{screen}");
    // Below the table stands what there is of the first.
    let (above, below) = screen.split_once("╭ FIRST ROW 10.1.0.12 → 10.2.7.7 QP 4608 ").unwrap();
    assert!(below.contains("bits/s"), "{screen}");
    let rows: Vec<&str> = above.lines().filter(|line| line.contains("→") && line.starts_with('│')).collect();
    assert_eq!(rows.len(), 3, "{screen}");
    // The first loses nothing upstream of one tap, and 70 packets a second before the other.
    let first = rows.iter().find(|row| row.contains("QP 4608")).unwrap();
    let figures: Vec<&str> = first.trim_end_matches([' ', '│']).split_whitespace().rev().take(2).collect();
    assert_eq!(figures, ["210", "0"], "{first}");
    // To the details, with the same at each tap.
    press(&mut app, &[Key::Down, Key::Enter]);
    assert_eq!(app.view.screen, Screen::Detail);
    assert!(text(&app).contains("TAPS the same packets at each of them"), "{}", text(&app));
    // Single rows.
    press(&mut app, &[Key::Char('2')]);
    for group in [Group::Hosts, Group::Link, Group::Process, Group::None, Group::Taps] {
        press(&mut app, &[Key::Char('o')]);
        assert_eq!(app.screens.flows.group, group);
    }
    press(&mut app, &[Key::Char('o'), Key::Char('o'), Key::Char('o'), Key::Char('o')]);
    assert_eq!((app.screens.flows.group, app.screens.flows.order.len()), (Group::None, 6));
}

/// Retransmissions of a queue pair are the same number in the list of taps, on the page of the problem and among its
/// details: first arrivals that fill a gap are none.
#[test]
fn retransmissions_are_one_figure_on_all_screens() {
    let pair = ["e1_loss1.h0.pcap.gz", "e1_loss1.h1.pcap.gz"];
    let mut app = overview::replayed_together(&pair, (160, 48));
    press(&mut app, &[Key::Char('2'), Key::Enter]);
    let screen = text(&app);
    assert!(screen.contains("1.47k retransmitted"), "{screen}");
    let tap = screen.lines().find(|line| line.contains("e1_loss1.h1 ") && line.contains("  18.2 "));
    assert!(tap.is_some_and(|line| line.contains("1467")), "the unit stands in the title: {screen}");
}

/// A short table in 80 columns shows its first row below.
#[test]
fn a_short_table_of_a_small_terminal_shows_its_first_row() {
    let pair = ["e1_loss1.h0.pcap.gz", "e1_loss1.h1.pcap.gz"];
    let mut app = overview::replayed_together(&pair, USUAL);
    press(&mut app, &[Key::Char('2')]);
    let screen = text(&app);
    let below: Vec<&str> = screen.lines().skip_while(|line| !line.contains("─ FIRST ROW")).collect();
    assert!(below.iter().any(|line| line.contains("lost/s")), "{screen}");
    assert!(below.iter().any(|line| line.contains("05:41:58.00") && line.contains("peak")), "{screen}");
}
