//! Each column of one fixture: cell, number, export and sort order come from one value.

use std::fmt::Write as _;

use super::*;
use rocescope::tui::column::{COLUMNS, Context, Value, column};
use rocescope::tui::settings::parse_sort;

/// A host in trouble, sorted by a column.
fn sorted_by(name: &str) -> App {
    let mut app = App::new(Options { screen: Screen::Qps, sort: parse_sort(name).ok(), ..options() });
    for second in 1..=3 {
        app.on_sample(Arc::new(World::sick().at(second)));
    }
    app
}

/// A row that lost packets and one of answers, of which less is known.
#[test]
fn a_value_decides_cell_number_and_export() {
    let app = sorted_by("rate");
    let data = app.view.data.as_ref().unwrap();
    let cx = Context { model: &data.model, sample: &data.sample };
    let mut text = String::new();
    for (title, lossy) in [("A flow with loss", true), ("A flow of answers", false)] {
        let is_it =
            |row: &&rocescope::model::Row| (row.total.lost > 0) == lossy && (row.total.rnr > 0) != lossy;
        let row = data.model.rows.iter().find(is_it).unwrap();
        let _ = writeln!(text, "{title}\n{:<10}{:<12}{:<17}{:<25}json", "name", "title", "cell", "number");
        for column in COLUMNS {
            let value = column.value(row, cx);
            let number = value.number().map_or_else(|| "-".to_owned(), |number| number.to_string());
            let (cell, _) = column.cell(row, cx);
            assert_eq!(value == Value::Unknown, cell == "-", "{}", column.name);
            assert_eq!(value == Value::Unknown, value.json().is_null(), "{}", column.name);
            let _ = writeln!(
                text,
                "{:<10}{:<12}{cell:<17}{number:<25}{}",
                column.name,
                column.title,
                value.json()
            );
        }
    }
    compare("column_values", &text);
}

#[test]
fn every_column_sorts_by_its_value_and_unknown_values_come_last() {
    for entry in COLUMNS {
        assert_eq!(column(entry.id).name, entry.name, "each has an identifier of its own");
        let app = sorted_by(entry.name);
        assert_eq!(
            (app.screens.flows.sort.by, app.screens.flows.sort.descending),
            (entry.id, entry.kind.largest_first())
        );
        let data = app.view.data.as_ref().unwrap();
        let cx = Context { model: &data.model, sample: &data.sample };
        let values: Vec<Value<'_>> =
            app.screens.flows.order.iter().map(|at| entry.value(&data.model.rows[*at], cx)).collect();
        let known = values.iter().take_while(|value| **value != Value::Unknown).count();
        assert!(values[known..].iter().all(|value| *value == Value::Unknown), "{}", entry.name);
        for pair in values[..known].windows(2) {
            let ordered = match (pair[0].number(), pair[1].number()) {
                (Some(a), Some(b)) if entry.kind.largest_first() => a >= b,
                (Some(a), Some(b)) => a <= b,
                _ => match (&pair[0], &pair[1]) {
                    (Value::Address(a), Value::Address(b)) => a <= b,
                    (Value::Text(a), Value::Text(b)) => a <= b,
                    _ => false,
                },
            };
            assert!(ordered, "{}: {pair:?}", entry.name);
        }
    }
}

#[test]
fn exports_hold_every_column_but_the_bar_in_both_forms() {
    let app = sorted_by("rate");
    let table = app.export_table();
    let columns: Vec<_> = COLUMNS.iter().filter(|column| column.name != "share").collect();
    // What the cell of the state says in one word stands apart.
    let details = ["state_active", "states"].map(str::to_owned);
    let fields: Vec<_> = columns.iter().map(|column| column.field()).chain(details).collect();
    assert_eq!(table.names, fields);
    for name in ["bits_per_s", "packets_per_s", "ce_ratio", "ce_all_ratio", "cnp_per_s", "p50_ns", "lost"] {
        assert!(table.names.iter().any(|one| one == name), "{name}: {:?}", table.names);
    }
    let json: Vec<serde_json::Value> = serde_json::from_str(&table.json()).unwrap();
    let data = app.view.data.as_ref().unwrap();
    let cx = Context { model: &data.model, sample: &data.sample };
    for ((at, json), csv) in app.screens.flows.order.iter().zip(&json).zip(table.csv().lines().skip(1)) {
        let row = &data.model.rows[*at];
        for (column, csv) in columns.iter().zip(csv.split(',')) {
            let (name, value) = (column.field(), column.value(row, cx).json());
            assert_eq!(json[&name], value, "{name}");
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            assert_eq!(csv, if value.is_null() { "" } else { &text }, "{name}");
        }
    }
}

/// Those that are answered are fast, and the others have no time: the percentiles of all lie somewhere above.
#[test]
fn a_percentile_beside_requests_without_an_answer_is_a_lower_bound() {
    let signs = |unanswered: u64| {
        let mut world = World::healthy();
        world.flows[0].unanswered = unanswered;
        let mut app = after(&world, LARGE, 3);
        let mut of = |key: char| {
            press(&mut app, &[Key::Char(key)]);
            let screen = text(&app);
            let count = |line: &str| line.matches('>').count();
            let own = screen.lines().find(|line| line.contains("10.1.0.12") && line.contains("10.2.7.7"));
            let timeline = screen.lines().find(|line| line.contains("p99 latency")).map_or(0, count);
            let others = screen.lines().filter(|line| line.contains("10.1.1.12")).map(count).sum::<usize>();
            assert_eq!(others, 0, "{screen}");
            (count(own.unwrap()), timeline)
        };
        (of('1'), of('2').0)
    };
    assert_eq!(signs(0), ((0, 0), 0));
    assert_eq!(signs(1), ((0, 0), 0), "1 of 101: the p99 is a time that was measured");
    assert_eq!(signs(2), ((1, 0), 1), "of all requests too few");
    assert_eq!(signs(99), ((1, 2), 1), "the value and the peak");
    assert_eq!(signs(101), ((2, 2), 2), "most of them");
}
