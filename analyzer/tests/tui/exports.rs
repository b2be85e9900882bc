//! Files that `e` and `E` write: on each screen its contents.

use super::*;
use rocescope::metrics::traffic::bins::Binner;
use rocescope::metrics::traffic::{LinkTraffic, Traffic};
use rocescope::tui::export::ExportTable;
use serde_json::{Value, json};

/// The file that a key writes: its name and text.
fn written(app: &mut App, key: char) -> (String, String) {
    let Action::Write(file) = press(app, &[Key::Char(key)]) else {
        panic!("nothing written: {:?}", app.view.messages.answer)
    };
    (format!("{}.{}", file.name, file.ending), String::from_utf8(file.content.into_bytes()).unwrap())
}

/// The values of a column.
fn column(table: &ExportTable, name: &str) -> Vec<Value> {
    let at =
        table.names.iter().position(|n| n == name).unwrap_or_else(|| panic!("no {name}: {:?}", table.names));
    table.rows.iter().map(|row| row[at].clone()).collect()
}

#[test]
fn exports_hold_what_is_shown() {
    let mut app = table(&World::sick(), USUAL);
    press(&mut app, &[Key::Char('/')]);
    type_text(&mut app, "ce > 1%");
    press(&mut app, &[Key::Enter]);
    let (name, text) = written(&mut app, 'e');
    assert_eq!(name, "rocescope-qps-20260301T120003Z.csv");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 2);
    let value = |name: &str| lines[1][lines[0].iter().position(|n| *n == name).unwrap()];
    assert_eq!(
        (value("src"), value("qp"), value("ce_ratio"), value("peer_qp")),
        ("10.1.0.12", "4608", "0.082", "2304")
    );
    let json: Value = serde_json::from_str(&written(&mut app, 'E').1).unwrap();
    assert_eq!(json[0]["qp"], 4608);
    let mut empty = App::new(options());
    assert_eq!(press(&mut empty, &[Key::Char('e')]), Action::Draw);
    assert!(empty.view.messages.answer.is_some());
}

/// These signals of a capture are a dash on the timeline and null in each file, and no screen has 0 of them.
fn is_unknown(capture: &str, signals: &[(&str, &str)], fields: &[&str]) {
    for size in [USUAL, (160, 48), LARGE] {
        let mut app = overview::replayed(capture, size);
        let picture = text(&app);
        for (name, _) in signals {
            let mut rows = picture.lines().map(|line| line.trim_start_matches(['│', ' ']));
            // A signal without values gives way to others in little room.
            let row = rows.find_map(|row| row.strip_prefix(&format!("{name} ")));
            assert!(size == USUAL || row.is_some(), "{name}: {picture}");
            let now = row.and_then(|row| row.split_whitespace().next());
            assert!(now.is_none_or(|now| now == "-"), "{name}: {picture}");
        }
        for key in "12345678".chars() {
            press(&mut app, &[Key::Esc, Key::Char(key)]);
            let picture = text(&app);
            for (_, word) in signals {
                assert!(!picture.contains(&format!(" {word} 0 ")), "{picture}");
                assert!(key != '2' || picture.contains(&format!(" {word} - ")), "{word}: {picture}");
            }
            let Action::Write(file) = press(&mut app, &[Key::Char('E')]) else { continue };
            let text = String::from_utf8(file.content.into_bytes()).unwrap();
            let rows: Value = serde_json::from_str(&text).unwrap();
            for name in fields {
                let known = rows.as_array().unwrap().iter().any(|row| !row[name].is_null());
                assert!(!known, "{name} on {key}: {text}");
            }
        }
    }
}

const LOSS: [(&str, &str); 2] = [("lost", "lost"), ("retransmit", "RETX")];
const NAKS: [(&str, &str); 2] = [("NAK", "NAK"), ("RNR NAK", "RNR")];
/// Fields of files with NAKs.
const NAK_FIELDS: [&str; 7] =
    ["nak", "rnr", "naks", "sequence_naks", "rnr_naks", "naks_per_s", "rnr_naks_per_s"];

/// Datagrams have no sequence in which a packet could be missing, and none is acknowledged.
#[test]
fn loss_and_naks_of_datagrams_are_unknown_on_every_screen_and_in_files() {
    let capture = "b7_ud_ops.h1.pcap";
    assert!(text(&overview::replayed(capture, USUAL)).contains("loss unknown"));
    is_unknown(capture, &LOSS, &["lost", "lost_per_s", "missing", "retransmitted", "repeats_per_s"]);
    is_unknown(capture, &NAKS, &NAK_FIELDS);
}

/// Unreliable connections have a sequence, of which nothing is acknowledged.
#[test]
fn naks_of_unreliable_connections_are_unknown_on_every_screen_and_in_files() {
    is_unknown("b6_uc.h1.pcap", &NAKS, &NAK_FIELDS);
}

/// Each screen has a file of its own, and in both forms the same.
#[test]
fn every_screen_exports_its_own_data() {
    let mut app = with_bins();
    press(&mut app, &[Key::Char('2'), Key::Down, Key::Enter]);
    let own = [
        "bits_per_s",
        "dscp",
        "latency_p50_ns",
        "latency_p99_ns",
        "skipped_packets",
        "what",
        "event",
        "severity",
    ];
    for (screen, name) in Screen::TABS.into_iter().zip(own) {
        press(&mut app, &[Key::Char(char::from(b'1' + screen as u8))]);
        let (file, csv) = written(&mut app, 'e');
        assert!(file.starts_with(&format!("rocescope-{}-2026", screen.name())), "{file}");
        let names: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
        assert!(names.contains(&name), "{screen:?}: {names:?}");
        let (_, json) = written(&mut app, 'E');
        let rows: Vec<serde_json::Map<String, Value>> = serde_json::from_str(&json).unwrap();
        assert_eq!(rows.len(), csv.lines().count() - 1, "{screen:?}");
        assert!(rows.iter().all(|row| row.len() == names.len()), "{screen:?}");
    }
}

#[test]
fn the_overview_writes_its_trends_of_everything_and_of_each_link() {
    let mut app = after(&World::sick(), USUAL, 5);
    press(&mut app, &[Key::Char('1')]);
    let table = app.export_table();
    let links = app.view.data.as_ref().unwrap().model.links.len();
    assert_eq!(table.rows.len() % (links + 1), 0);
    let snapshots = table.rows.len() / (links + 1);
    assert!(snapshots >= 4, "{snapshots}");
    let (of, rate, bytes) = (column(&table, "link"), column(&table, "bits_per_s"), column(&table, "bytes"));
    assert!(of[..snapshots].iter().all(Value::is_null) && of[snapshots] == json!("eth0"));
    let all = app.view.data.as_ref().unwrap().model.dedup;
    assert_eq!(bytes[snapshots - 1], json!(all.total.bytes));
    assert!(text(&app).contains(&rocescope::util::units::bit_rate(rate[snapshots - 1].as_f64().unwrap())));
    assert_eq!(column(&table, "time_ns")[snapshots - 1], json!(fake::START_NS + 5_000_000_000));
    // Back in time there is nothing of later.
    press(&mut app, &[Key::Char(' '), Key::Char(',')]);
    assert_eq!(app.export_table().rows.len(), table.rows.len() - links - 1);
}

#[test]
fn the_details_write_both_directions_over_time_and_null_where_nothing_is_known() {
    let mut app = after(&World::sick(), USUAL, 5);
    press(&mut app, &[Key::Char('2'), Key::Char('/')]);
    type_text(&mut app, "nak > 0");
    press(&mut app, &[Key::Enter, Key::Down, Key::Enter]);
    let (this, other) = app.screens.detail.shown.clone().unwrap();
    let other = other.expect("both directions are known");
    let table = app.export_table();
    let mut qps = column(&table, "dest_qp");
    let half = qps.len() / 2;
    assert!(half >= 4 && qps[..half].iter().all(|qp| *qp == json!(this.id.key.dest_qp)));
    assert_eq!(qps.split_off(half).last(), Some(&json!(other.id.key.dest_qp)));
    assert_eq!(column(&table, "packets")[half - 1], json!(this.stats.packets));
    assert_eq!(column(&table, "naks")[half - 1], json!(this.stats.rare.naks.iter().sum::<u64>()));
    let timed = column(&table, "latency_p50_ns");
    assert!(timed[half..].iter().chain(&timed[..half]).any(Value::is_null), "answers are not timed");
    assert!(table.csv().lines().skip(1).any(|line| line.ends_with(',')), "and empty in CSV");
}

/// A healthy host whose first link had 3 bins of a millisecond, the second of them empty.
fn with_bins() -> App {
    const BIN: u64 = 1_000_000;
    let mut binner = Binner::default();
    for (time, bytes) in [(0, 1_000), (2 * BIN, 3_000)] {
        binner.packet(fake::START_NS + time, BIN, bytes, 0);
    }
    let mut app = app(&World::sick(), USUAL);
    let mut sample = World::sick().at(4);
    let bursts = LinkTraffic { bursts: binner.bursts(BIN), ..LinkTraffic::default() };
    sample.metrics.traffic =
        Some(Arc::new(Traffic { bin_ns: BIN, links: vec![bursts], ..Traffic::default() }));
    app.on_sample(Arc::new(sample));
    app
}

#[test]
fn bursts_write_their_bins() {
    let mut app = with_bins();
    press(&mut app, &[Key::Char('6')]);
    let table = app.export_table();
    let bins: Vec<&Vec<Value>> = table.rows.iter().filter(|row| row[0] == json!("bin")).collect();
    assert_eq!(bins.len(), 3);
    let bytes: Vec<u64> = bins.iter().map(|row| row[5].as_u64().unwrap()).collect();
    assert_eq!(bytes, [1_000, 0, 3_000]);
    assert_eq!(bins[2][3], json!(fake::START_NS + 2_000_000));
    assert_eq!((&bins[0][1], &bins[0][6], &bins[0][7]), (&json!("eth0"), &json!(8e6), &Value::Null));
    let run: u64 =
        table.rows.iter().filter(|row| row[0] == json!("run")).map(|row| row[5].as_u64().unwrap()).sum();
    assert_eq!(run, 4_000);
}

/// What is written is what was shown when the key was pressed, though the screen has gone on when it is made into text.
#[test]
fn a_large_table_is_made_into_text_by_whoever_writes_it() {
    let world = World::many(20_000);
    let mut app = App::new(options());
    for second in 1..=2 {
        app.on_sample(Arc::new(world.at(second)));
    }
    press(&mut app, &[Key::Char('2')]);
    let Action::Write(file) = press(&mut app, &[Key::Char('e')]) else { panic!("nothing written") };
    assert_eq!(file.what, "20,000 rows");
    assert!(matches!(file.content, rocescope::tui::export::Content::Rows(..)));
    let shown = app.export_table().csv();
    app.on_sample(Arc::new(world.at(3)));
    app.settle();
    press(&mut app, &[Key::Down, Key::Enter]);
    assert_ne!(app.view.data.as_ref().unwrap().model.time_ns, world.at(2).time_ns);
    assert_eq!(String::from_utf8(file.content.into_bytes()).unwrap(), shown);
}

#[test]
fn events_are_written_as_they_stood() {
    let world = World::sick();
    let mut app = App::new(options());
    for second in 1..=3 {
        app.on_events(&events::notified(&world, second));
        app.on_sample(Arc::new(world.at(second)));
    }
    press(&mut app, &[Key::Char('7'), Key::Char(' '), Key::Char(',')]);
    let table = app.export_table();
    let row = column(&table, "event").iter().position(|event| *event == json!("CNP")).unwrap();
    assert_eq!(column(&table, "count")[row], json!(4));
    assert_eq!(column(&table, "last_ns")[row], json!(fake::START_NS + 1_500_000_000));
}
