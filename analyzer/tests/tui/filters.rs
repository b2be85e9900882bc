//! The filter language at the source and on the screen.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::*;
use rocescope::filter::Filter;
use rocescope::sample::{Sample, address};
use rocescope::source::feed::Update;
use rocescope::source::replay;
use rocescope::tui::app::Overlay;
use rocescope::tui::query::{self, vocabulary};

/// The last sample of a capture of the tests.
fn replayed(capture: &str, filter: Option<&str>) -> Sample {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(capture);
    let filter = filter.map(|text| Filter::source(text, vocabulary()).unwrap());
    let feed =
        replay::start(replay::Options { files: vec![path], filter, ..replay::Options::default() }).unwrap();
    let mut last = None;
    for update in &feed.updates {
        match update {
            Update::Sample(sample) => last = Some(*sample),
            Update::Ended(result) => {
                result.unwrap();
                break;
            }
            _ => {}
        }
    }
    last.unwrap()
}

/// Source, destination and queue pair of flows.
type Flows = BTreeSet<(String, String, u32)>;

fn flows<'a>(keys: impl Iterator<Item = &'a rocescope_common::account::FlowKey>) -> Flows {
    let end = |family, words| address(family, words).to_string();
    keys.map(|key| (end(key.family, key.src), end(key.family, key.dst), key.dest_qp)).collect()
}

/// A flow has several packets: tests of single packets hold for it when one of them matches.
#[test]
fn the_same_expression_gives_the_same_flows_at_the_source_and_on_the_screen() {
    let captures: [(&str, &[&str]); 4] = [
        (
            "d1_vlan_write.h0.pcap",
            &["vlan", "not vlan", "vlan 0", "vlan > 5", "dscp 0", "link d1*", "link x"],
        ),
        (
            "h2_cm_write.h0.pcap",
            &["qp 1", "not qp 1", "qp > 1", "opcode UD_SEND_ONLY", "opcode send_only", "opcode 0x11"],
        ),
        (
            "k1_ecmp_ring.uA0.pcap.gz",
            &["host 10.0.0.0/8", "src 10", "port > 50000", "port != 1", "dst net 10 or qp 17"],
        ),
        (
            "c1_ipv6_write.h0.pcap",
            &["host ::/0", "not host ::/0", "src fd00::/8", "src fe80::/10 and qp != 1"],
        ),
    ];
    let mut some = 0;
    for (capture, expressions) in captures {
        let all = replayed(capture, None);
        let ends: Vec<_> = all.flows.iter().map(|flow| &flow.key).collect();
        let first = ends.first().map(|key| (address(key.family, key.src), key.dest_qp)).unwrap();
        let own = [
            format!("src {} and not qp {}", first.0, first.1),
            format!("not (host {} or qp {})", first.0, first.1),
            format!("qp <= {} dst {}", first.1, first.0),
        ];
        for text in expressions.iter().copied().chain(own.iter().map(String::as_str)) {
            let source = replayed(capture, Some(text));
            let source = flows(source.flows.iter().map(|flow| &flow.key));
            let mut app = App::new(Options { filter: text.to_owned(), screen: Screen::Qps, ..options() });
            app.on_sample(Arc::new(all.clone()));
            let data = app.view.data.as_ref().unwrap();
            let view = flows(app.screens.flows.order.iter().map(|at| &data.model.rows[*at].id.key));
            assert_eq!(source, view, "{capture}: {text}");
            some += usize::from(!view.is_empty() && view.len() < flows(ends.iter().copied()).len());
        }
    }
    assert!(some >= 8, "most expressions leave some flows and not others: {some}");
}

#[test]
fn the_documentation_is_made_from_the_tables() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/filters.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (begin, end) = ("<!-- begin fields -->\n", "<!-- end fields -->");
    let (before, rest) = text.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let fields = rocescope::filter::fields::markdown(vocabulary());
    let made = format!("{before}{begin}{fields}{end}{after}");
    document::check("filters.md", &made);
    // The examples of the page and of the help are expressions.
    let block = text.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let examples =
        block.lines().chain(query::help().map(|(usage, _)| usage).filter(|usage| usage.contains(' ')));
    for example in examples.filter(|line| !line.contains(['[', '<']) && !line.contains("NET")) {
        if example.chars().any(char::is_uppercase) || example.starts_with("and or") {
            continue;
        }
        assert_eq!(Filter::view(example, vocabulary()).1, None, "{example}");
    }
}

#[test]
fn names_are_unique() {
    let mut names: Vec<&str> = vocabulary()
        .of_rows()
        .flat_map(|(_, field)| std::iter::once(&field.name).chain(field.aliases))
        .copied()
        .collect();
    names.extend(rocescope::filter::fields::CORE.iter().flat_map(|field| field.names));
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "{names:?}");
}

#[test]
fn the_part_of_a_filter_that_is_wrong_is_marked_where_it_stands() {
    let mut app = table(&World::sick(), WIDE);
    press(&mut app, &[Key::Char('/')]);
    let marked = |app: &App| {
        let terminal = draw(app);
        let buffer = terminal.backend().buffer();
        let last = buffer.content.chunks(usize::from(WIDE.0)).last().unwrap().iter();
        let underlined =
            |cell: &&ratatui::buffer::Cell| cell.modifier.contains(ratatui::style::Modifier::UNDERLINED);
        last.filter(underlined).map(ratatui::buffer::Cell::symbol).collect::<String>()
    };
    type_text(&mut app, "10.0 foo > 1");
    assert_eq!(marked(&app), "foo", "{}", text(&app));
    press(&mut app, &[Key::Ctrl('u')]);
    type_text(&mut app, "rnr > 0");
    assert_eq!(marked(&app), "");
}

#[test]
fn f1_is_the_help_too() {
    let mut app = table(&World::sick(), USUAL);
    press(&mut app, &[Key::F(1)]);
    assert_eq!(app.overlay, Overlay::Help(0));
    press(&mut app, &[Key::F(1)]);
    assert_eq!(app.overlay, Overlay::None);
    assert_eq!("F12".parse(), Ok(Key::F(12)));
    assert!("F13".parse::<Key>().is_err() && "F".parse() == Ok(Key::Char('F')));
}

/// Letters of a filter appear before the rows of many flows are looked through; what acts on rows finds them filtered.
#[test]
fn many_rows_follow_the_key_that_filters_sorts_or_groups_them() {
    let world = World::many(10_000);
    let mut app = App::new(options());
    app.on_resize(USUAL.0, USUAL.1);
    for second in 1..=2 {
        app.on_sample(Arc::new(world.at(second)));
    }
    let rows = |app: &App| app.screens.flows.order.len();
    let all = rows(&app);
    let filter = format!("qp{}", app.view.data.as_ref().unwrap().model.rows[0].id.key.dest_qp);
    press(&mut app, &[Key::Char('2'), Key::Char('/')]);
    type_text(&mut app, &filter);
    assert!(text(&app).contains(&format!("filter: {filter}")), "{}", text(&app));
    assert_eq!((app.rows_due(), rows(&app)), (true, all));
    // The last letter has a filter of its own: Enter changes nothing about it, and the next key finds its rows.
    press(&mut app, &[Key::Enter]);
    assert_eq!((app.rows_due(), rows(&app)), (true, all));
    press(&mut app, &[Key::Down]);
    let few = rows(&app);
    assert!(!app.rows_due() && few < all, "{few} of {all}");
    // A sample brings them too.
    press(&mut app, &[Key::Esc]);
    assert_eq!((app.rows_due(), rows(&app)), (true, few));
    app.on_sample(Arc::new(world.at(3)));
    assert_eq!((app.rows_due(), rows(&app)), (false, all));
    // The title of a column says at once what rows are sorted by, and the line of tabs what they are grouped by.
    let before = app.screens.flows.order.clone();
    press(&mut app, &[Key::Char('s')]);
    assert!(app.rows_due() && app.screens.flows.order == before);
    press(&mut app, &[Key::Char('o')]);
    assert!(app.rows_due() && app.screens.flows.groups.is_empty());
    app.on_resize(WIDE.0, WIDE.1);
    assert!(text(&app).contains("by host pair"), "{}", text(&app));
    app.settle();
    assert!(!app.rows_due() && !app.screens.flows.groups.is_empty());
}
