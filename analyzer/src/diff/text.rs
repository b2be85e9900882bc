//! The comparison for people.

use super::figure::Kind;
use super::{Change, Diff, Verdict};
use crate::util::layout::{Align, Table, plain};
use crate::util::style::{Paint, Role};
use crate::util::units;

/// The comparison in lines of at most `room` columns where that is possible.
#[must_use]
pub fn text(diff: &Diff, room: usize, paint: Paint) -> String {
    let mut lines = Vec::new();
    for (letter, side) in [("A", &diff.a), ("B", &diff.b)] {
        let length = side.duration_ns.map_or_else(|| units::UNKNOWN.into(), units::duration);
        lines.push(format!("{letter}  {}, {length}", plain(&side.name)));
    }
    lines.push(String::new());
    let mut table = Table::new(vec![
        ("METRIC", Align::Left),
        ("A", Align::Right),
        ("B", Align::Right),
        ("CHANGE", Align::Right),
        ("", Align::Left),
    ]);
    for change in diff.metrics.iter().filter(|change| change.a.is_some() || change.b.is_some()) {
        table.row(row(change.name.to_owned(), change, paint));
    }
    lines.extend(painted(&table, room, paint));
    lines.push(String::new());
    if diff.findings.is_empty() {
        lines.push("No findings in A or B.".into());
    } else {
        let mut table = Table::new(vec![
            ("FINDING", Align::Left),
            ("A", Align::Left),
            ("B", Align::Left),
            ("", Align::Left),
            ("", Align::Left),
        ]);
        for finding in &diff.findings {
            let side = |severity: &Option<String>, count, figure: Option<f64>| {
                let Some(severity) = severity else { return units::UNKNOWN.into() };
                let times = if count > 1 { format!(" ×{count}") } else { String::new() };
                let kind = finding.figure.as_ref().map(|change| change.kind);
                let figure = kind.zip(figure).map(|(kind, figure)| format!(" {}", value(kind, Some(figure))));
                format!("{severity}{times}{}", figure.unwrap_or_default())
            };
            let figure = finding.figure.as_ref();
            let (word, role) = match (finding.verdict, &finding.a, &finding.b) {
                (None, ..) => ("not evaluated in both", Role::Dim),
                (Some(_), None, Some(_)) => ("new", Role::Critical),
                (Some(_), Some(_), None) => ("resolved", Role::Good),
                (Some(verdict), ..) => (word(verdict), role(verdict)),
            };
            table.row(vec![
                finding.id.clone(),
                side(&finding.a, finding.count_a, figure.and_then(|change| change.a)),
                side(&finding.b, finding.count_b, figure.and_then(|change| change.b)),
                paint.paint(role, word),
                plain(&finding.title),
            ]);
        }
        lines.extend(painted(&table, room, paint));
    }
    if !diff.hosts.is_empty() {
        lines.push(String::new());
        let mut table = Table::new(vec![
            ("FROM → TO", Align::Left),
            ("A", Align::Right),
            ("B", Align::Right),
            ("CHANGE", Align::Right),
            ("", Align::Left),
        ]);
        for pair in &diff.hosts {
            for change in &pair.metrics {
                if !matches!(change.verdict, None | Some(Verdict::Same)) {
                    table.row(row(
                        format!("{} → {}  {}", plain(&pair.src), plain(&pair.dst), change.name),
                        change,
                        paint,
                    ));
                }
            }
        }
        lines.extend(painted(&table, room, paint));
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// The lines of a table, its heading in colour.
fn painted(table: &Table, room: usize, paint: Paint) -> Vec<String> {
    let mut lines = table.lines(room);
    if let Some(heading) = lines.first_mut() {
        *heading = paint.paint(Role::Heading, heading);
    }
    lines
}

fn row(name: String, change: &Change, paint: Paint) -> Vec<String> {
    // A minus sign: a hyphen stands for an unknown value.
    let percent = |ratio: f64| format!("{:+.1} %", ratio * 100.0).replace('-', "−");
    let ratio = change.change_ratio.map_or_else(|| units::UNKNOWN.into(), percent);
    vec![
        name,
        value(change.kind, change.a),
        value(change.kind, change.b),
        ratio,
        change.verdict.map_or_else(String::new, |verdict| paint.paint(role(verdict), word(verdict))),
    ]
}

const fn role(verdict: Verdict) -> Role {
    match verdict {
        Verdict::Worse => Role::Critical,
        Verdict::Better => Role::Good,
        Verdict::Changed => Role::Warning,
        Verdict::Same => Role::Dim,
    }
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "worse",
        Verdict::Better => "better",
        Verdict::Changed => "changed",
        Verdict::Same => "same",
    }
}

fn value(kind: Kind, value: Option<f64>) -> String {
    let Some(value) = value else { return units::UNKNOWN.into() };
    match kind {
        Kind::BitRate => units::bit_rate(value),
        Kind::Rate => units::per_second(value),
        Kind::Ratio if value > 1.0 => format!("{value:.2}"),
        Kind::Ratio => units::ratio(Some(value)),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a duration in a report is a u64"
        )]
        Kind::Duration => units::duration(value as u64),
        Kind::Number => format!("{value:.1}").trim_end_matches(".0").to_owned(),
    }
}
