//! The comparison for people.

use super::Diff;
use super::change::{Change, FigureUnit, FindingChange, State, Verdict};
use crate::util::layout::{Align, Table, labelled, plain, width};
use crate::util::style::{Paint, Role};
use crate::util::units;
use crate::util::wrap::hanging;

/// What a comparison of two taps is of.
const SAME_TRAFFIC: &str = "A and B are of the same traffic: differences are those of the places where it was captured. If they \
                            are captures, `rocescope replay A B` reads both as taps, and locates losses between them.";

/// The comparison in lines of at most `room` columns where that is possible.
pub fn text(diff: &Diff, room: usize, paint: Paint) -> String {
    let mut lines = Vec::new();
    for (letter, side) in [("A", &diff.a), ("B", &diff.b)] {
        let length = side.duration_ns.map_or_else(|| units::UNKNOWN.into(), units::duration);
        lines.push(format!("{letter}  {}, {length}", plain(&side.name)));
    }
    if diff.same_traffic {
        lines.extend(hanging(SAME_TRAFFIC, room, 0));
    }
    lines.push(String::new());
    let mut table = figures("METRIC, WHOLE RUN");
    for change in diff.metrics.iter().filter(|change| change.a.is_some() || change.b.is_some()) {
        table.row(row(change.label.to_owned(), change, paint));
    }
    lines.extend(painted(&table, room, paint));
    if let Some(steps) = &diff.steps {
        lines.push(String::new());
        lines.extend(labelled("Mean step", 11, &steps.sentence(), room));
    }
    lines.push(String::new());
    if diff.findings.is_empty() {
        lines.push("No findings in A or B.".into());
    } else {
        lines.extend(findings(diff, room, paint));
    }
    let changed = diff.hosts.iter().flat_map(|pair| pair.metrics.iter().map(move |change| (pair, change)));
    let changed = changed.filter(|(_, change)| !matches!(change.verdict, None | Some(Verdict::Same)));
    let mut changed = changed.peekable();
    if changed.peek().is_some() {
        lines.push(String::new());
        let mut table = figures("FROM → TO");
        for (pair, change) in changed {
            let name = format!("{} → {}  {}", plain(&pair.src), plain(&pair.dst), change.label);
            table.row(row(name, change, paint));
        }
        lines.extend(painted(&table, room, paint));
    }
    if !diff.not_compared.is_empty() {
        lines.push(String::new());
    }
    for one in &diff.not_compared {
        let labels = diff.metrics.iter().filter(|change| one.metrics.contains(&change.name));
        let labels: Vec<&str> = labels.map(|change| change.label).collect();
        lines.extend(hanging(&format!("Not compared: {}. Reason: {}.", labels.join("; "), one.why), room, 2));
    }
    let (sentence, role) = verdict(diff);
    lines.push(String::new());
    lines.push(format!("Verdict  {}", paint.paint(role, &sentence)));
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// Change in B in one sentence: findings above info decide, and without a change among them the metrics.
fn verdict(diff: &Diff) -> (String, Role) {
    if diff.same_traffic {
        return ("A and B are two taps of the same traffic, not two runs".to_owned(), Role::Warning);
    }
    let above_info = |finding: &&FindingChange| {
        [&finding.a, &finding.b].into_iter().flatten().any(|severity| severity != "info")
    };
    let of_findings =
        |want| diff.findings.iter().filter(above_info).filter(|one| one.verdict == Some(want)).count() as u64;
    let of_metrics = |want| diff.metrics.iter().filter(|one| one.verdict == Some(want)).count() as u64;
    let findings = (of_findings(Verdict::Worse), of_findings(Verdict::Better));
    let metrics = (of_metrics(Verdict::Worse), of_metrics(Verdict::Better));
    let (word, role) = match if findings == (0, 0) { metrics } else { findings } {
        (0, 0) => return ("B is the same as A within the usual variation".to_owned(), Role::Good),
        (_, 0) => ("worse", Role::Critical),
        (0, _) => ("better", Role::Good),
        _ => ("worse in part, better in part", Role::Warning),
    };
    let count = |(worse, better): (u64, u64), what: &str| {
        format!("{} worse, {} better", units::plural(worse, what), units::count(better))
    };
    (
        format!(
            "B is {word}: {} (info not counted); {}",
            count(findings, "finding"),
            count(metrics, "metric")
        ),
        role,
    )
}

/// A table of figures in both.
fn figures(heading: &'static str) -> Table {
    Table::new(vec![
        (heading, Align::Left),
        ("A", Align::Right),
        ("B", Align::Right),
        ("CHANGE", Align::Right),
        ("", Align::Left),
    ])
}

/// The findings: a row each with its title behind or below it, or where a row does not fit, some lines.
fn findings(diff: &Diff, room: usize, paint: Paint) -> Vec<String> {
    let mut table = Table::new(vec![
        ("FINDING", Align::Left),
        ("MEASURE, LATEST EPISODE", Align::Left),
        ("A", Align::Left),
        ("B", Align::Left),
        ("", Align::Left),
    ]);
    for finding in &diff.findings {
        let [a, b] = sides(finding);
        let (word, role) = state(finding.state);
        table.row(vec![finding.id.clone(), measure(finding).into(), a, b, paint.paint(role, word)]);
    }
    let rows = painted(&table, room, paint);
    let widest = rows.iter().map(|row| width(row)).max().unwrap_or(0);
    let titles = diff.findings.iter().map(|finding| plain(&finding.title));
    let beside = widest + 2 + titles.clone().map(|title| width(&title)).max().unwrap_or(0) <= room;
    let below = |text: &str| {
        hanging(text, room.saturating_sub(2), 2)
            .into_iter()
            .map(|line| format!("  {line}"))
            .collect::<Vec<_>>()
    };
    let mut lines = Vec::new();
    if widest > room {
        for (finding, title) in diff.findings.iter().zip(titles) {
            let [a, b] = sides(finding);
            let (word, role) = state(finding.state);
            lines.push(format!("{}: {}", paint.paint(Role::Heading, &finding.id), paint.paint(role, word)));
            lines.extend(below(&title));
            lines.extend(below(&format!("{}: {a} → {b}", measure(finding))));
        }
        return lines;
    }
    let mut rows = rows.into_iter();
    lines.extend(rows.next());
    for (row, title) in rows.zip(titles) {
        if beside {
            let gap = " ".repeat(widest + 2 - width(&row));
            lines.push(format!("{row}{gap}{title}"));
        } else {
            lines.push(row);
            lines.extend(below(&title));
        }
    }
    lines
}

fn measure(finding: &FindingChange) -> &str {
    finding.figure.as_ref().map_or(units::UNKNOWN, |change| change.label)
}

/// The finding in A and in B.
fn sides(finding: &FindingChange) -> [String; 2] {
    let figure = finding.figure.as_ref();
    let [a, b] = [figure.and_then(|change| change.a), figure.and_then(|change| change.b)];
    [
        side(finding, finding.a.as_ref(), finding.active_a, finding.count_a, a),
        side(finding, finding.b.as_ref(), finding.active_b, finding.count_b, b),
    ]
}

/// A kind of finding in one of the reports: severity, whether all have ended, number and measure.
fn side(
    finding: &FindingChange,
    severity: Option<&String>,
    active: Option<bool>,
    count: usize,
    figure: Option<f64>,
) -> String {
    let Some(severity) = severity else { return units::UNKNOWN.into() };
    let ended = if active == Some(false) { " (ended)" } else { "" };
    let times = if count > 1 { format!(" ×{count}") } else { String::new() };
    let kind = finding.figure.as_ref().map(|change| change.kind);
    let figure = kind.zip(figure).map(|(kind, figure)| format!(" {}", value(kind, Some(figure))));
    format!("{severity}{ended}{times}{}", figure.unwrap_or_default())
}

const fn state(state: Option<State>) -> (&'static str, Role) {
    match state {
        None => ("not evaluated in both", Role::Dim),
        Some(State::New) => ("new", Role::Critical),
        Some(State::Gone) => ("gone", Role::Good),
        Some(State::Ended) => ("ended", Role::Good),
        Some(State::Worse) => ("worse", Role::Critical),
        Some(State::Better) => ("better", Role::Good),
        Some(State::Changed) => ("changed", Role::Warning),
        Some(State::Same) => ("same", Role::Dim),
    }
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
    let ratio = change.change_ratio.map_or_else(|| units::UNKNOWN.into(), changed);
    vec![
        name,
        value(change.kind, change.a),
        value(change.kind, change.b),
        ratio,
        change.verdict.map_or_else(String::new, |verdict| paint.paint(role(verdict), word(verdict))),
    ]
}

/// A change relative to the first value: `+4.2 %`, from ten times on `×98.8`, and `=` where no digit of it would show.
pub(super) fn changed(ratio: f64) -> String {
    /// Change from which on a factor is easier to read.
    const TIMES: f64 = 9.0;
    if ratio >= TIMES {
        return format!("×{}", units::si(ratio + 1.0));
    }
    let percent = format!("{:.1}", (ratio * 100.0).abs());
    // A minus sign: a hyphen stands for an unknown value.
    let sign = if ratio < 0.0 { '−' } else { '+' };
    if percent == "0.0" { "=".to_owned() } else { format!("{sign}{percent} %") }
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

fn value(kind: FigureUnit, value: Option<f64>) -> String {
    let Some(value) = value else { return units::UNKNOWN.into() };
    match kind {
        FigureUnit::BitRate => units::bit_rate(value),
        FigureUnit::Rate => units::per_second(value),
        FigureUnit::Factor => format!("{value:.2}×"),
        FigureUnit::Ratio => units::ratio(Some(value)),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a duration in a report is a u64"
        )]
        FigureUnit::Duration => units::duration(value as u64),
        #[expect(clippy::cast_possible_truncation, reason = "a growth in a report is far below 2^63 ns")]
        FigureUnit::Growth => units::growth(value.round() as i64),
        FigureUnit::Bytes => format!("{value:.0} B"),
        FigureUnit::Number => format!("{value:.1}").trim_end_matches(".0").to_owned(),
    }
}
