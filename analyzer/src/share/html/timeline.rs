//! Traffic, signals and findings on a common time axis, drawn as SVG. The script adds zoom and the values at the
//! pointer.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::markup::Markup;
use super::problems::{anchor, listed, sign};
use crate::analysis::link_name;
use crate::findings::Finding;
use crate::model::over_time::Series;
use crate::model::signals::{self, ECN, ROWS, held};
use crate::model::{Level, OverTime};
use crate::report::Report;
use crate::report::text::end_of;
use crate::share::trace::spans;
use crate::util::time::NS_PER_S;
use crate::util::units;

/// Maximum number of columns in a row.
const COLUMNS: u64 = 1_000;
/// Maximum number of findings with a lane.
const LANES: usize = 10;
/// Number of links for which each has its own row: a single one equals the sum, and more are a table.
const LINKS: std::ops::RangeInclusive<usize> = 2..=8;
/// Height of a row in units of its SVG.
const HEIGHT: f64 = 100.0;

/// The displayed time range, and its columns.
#[derive(Clone, Copy, Debug)]
struct Axis {
    from_ns: u64,
    column_ns: u64,
    columns: usize,
}

impl Axis {
    fn of(over_time: &OverTime) -> Option<Self> {
        let (from_ns, to_ns) = over_time.range()?;
        let length_ns = to_ns.checked_sub(from_ns).filter(|ns| *ns > 0)?;
        let columns = (length_ns / over_time.least_ns().max(1)).clamp(1, COLUMNS);
        Some(Self {
            from_ns,
            column_ns: length_ns.div_ceil(columns).max(1),
            columns: usize::try_from(columns).unwrap_or(1),
        })
    }

    const fn length_ns(&self) -> u64 {
        self.column_ns.saturating_mul(self.columns as u64)
    }

    fn start(&self, column: usize) -> u64 {
        self.from_ns.saturating_add(self.column_ns.saturating_mul(column as u64))
    }

    /// A time as a fraction of the axis.
    fn share(&self, time_ns: u64) -> f64 {
        (time_ns.saturating_sub(self.from_ns) as f64 / self.length_ns().max(1) as f64).min(1.0)
    }
}

/// A figure over time, as a row of the timeline.
struct Row {
    name: String,
    series: Series,
    values: Vec<Option<f64>>,
    /// The value of a full column.
    scale: f64,
    levels: Vec<Level>,
    tall: bool,
}

/// The section; empty without data over time.
pub(super) fn section(report: &Report, over_time: Option<&OverTime>) -> Markup {
    let mut page = Markup::default();
    let Some((over_time, axis)) = over_time.and_then(|known| Some((known, Axis::of(known)?))) else {
        return page;
    };
    let findings = listed(report);
    let (rows, quiet, mut unknown) = rows(over_time, axis, &findings);
    // ACKs and CNPs alone do not tell.
    let totals = &report.facts.totals;
    let is_off = totals.ce_ratio.is_none() && (totals.ecn_data.not_ect > 0 || report.facts.is_recording());
    for name in unknown.iter_mut().filter(|name| is_off && **name == ECN) {
        *name = "ECN CE (ECN is off)";
    }
    page.open("p", &[("class", "hint")]);
    page.text(&format!(
        "{} to {}, {} per column; columns in the colour of the findings that are about them.",
        units::time_utc(axis.from_ns),
        units::clock_utc(axis.from_ns.saturating_add(axis.length_ns())),
        units::duration(axis.column_ns)
    ));
    page.raw("</p>\n<div id=\"chart\">\n");
    lanes(&mut page, report, &findings, axis);
    for row in &rows {
        draw(&mut page, row, axis, over_time);
    }
    ticks(&mut page, axis);
    page.raw("</div>\n");
    for (label, names) in [("All zero", quiet), ("Not known", unknown)] {
        if !names.is_empty() {
            page.leaf("p", "hint", &format!("{label}: {}.", names.join(", ")));
        }
    }
    page.data("series", &data(&rows, axis).to_string());
    page
}

/// The rows with data; the names of the empty ones, and of the unknown ones.
fn rows(
    over_time: &OverTime,
    axis: Axis,
    findings: &[Finding],
) -> (Vec<Row>, Vec<&'static str>, Vec<&'static str>) {
    let values = |series| over_time.columns(series, axis.from_ns, axis.column_ns, axis.columns);
    let most = |values: &[Option<f64>]| values.iter().flatten().copied().fold(0.0, f64::max);
    let row = |name: String, series, values: Vec<Option<f64>>, tall| Row {
        name,
        series,
        scale: most(&values),
        levels: vec![Level::Fine; values.len()],
        values,
        tall,
    };
    let mut rows = vec![row("throughput".into(), Series::Throughput, values(Series::Throughput), true)];
    if LINKS.contains(&over_time.links.len()) {
        let of = |at: usize| {
            let (name, direction) = &over_time.links[at];
            row(link_name(name, *direction), Series::Link(at), values(Series::Link(at)), false)
        };
        let mut links: Vec<Row> = (0..over_time.links.len()).map(of).collect();
        // One scale for all links, so that an idle link does not look busy.
        let scale = links.iter().map(|row| row.scale).fold(0.0, f64::max);
        for row in &mut links {
            row.scale = scale;
        }
        rows.extend(links);
    }
    let (mut quiet, mut unknown) = (Vec::new(), Vec::new());
    for signal in &ROWS {
        let values = values(signal.series);
        if !over_time.knows(signal.series) || values.iter().all(Option::is_none) {
            unknown.push(signal.name);
        } else if most(&values) <= 0.0 {
            quiet.push(signal.name);
        } else {
            let mut row = row(signal.name.into(), signal.series, values, false);
            for (at, level) in row.levels.iter_mut().enumerate() {
                let (from, to) = (axis.start(at), axis.start(at + 1));
                *level = signals::level(findings, signal.about, |finding| held(finding, from, to));
            }
            rows.push(row);
        }
    }
    (rows, quiet, unknown)
}

/// A value as text.
fn figure(series: Series, value: f64) -> String {
    signals::figure(series, value, |value| match series {
        Series::Signal(_) => units::si(value.round()),
        _ => units::bit_rate(value),
    })
}

/// The unit of a series, for the script.
const fn unit(series: Series) -> &'static str {
    match series {
        Series::CeRatio | Series::LinkCeRatio(_) | Series::Paused => "ratio",
        Series::P99 => "ns",
        Series::Throughput | Series::Link(_) => "b/s",
        Series::Signal(_) => "",
    }
}

fn head(page: &mut Markup, name: &str, class: &str) {
    page.open("div", &[("class", class)]).leaf("div", "name", name).raw("<div class=\"plot\">");
}

fn draw(page: &mut Markup, row: &Row, axis: Axis, over_time: &OverTime) {
    head(page, &row.name, if row.tall { "row tall" } else { "row" });
    let view = format!("0 0 {} {HEIGHT}", axis.columns);
    let attributes = [
        ("class", "series"),
        ("viewBox", view.as_str()),
        ("preserveAspectRatio", "none"),
        ("role", "img"),
        ("aria-label", row.name.as_str()),
    ];
    page.open("svg", &attributes);
    for (level, class) in [(Level::Fine, "fine"), (Level::Warning, "warning"), (Level::Critical, "critical")]
    {
        let path = path(row, level);
        if !path.is_empty() {
            page.open("path", &[("class", class), ("d", &path)]).close("path");
        }
    }
    page.raw("</svg></div>");
    let per = match row.series {
        Series::Signal(_) => {
            let bucket_ns = over_time.bucket_ns(axis.column_ns);
            let unit = if bucket_ns == NS_PER_S { "s".to_owned() } else { units::duration(bucket_ns) };
            format!(" / {unit}")
        }
        _ => String::new(),
    };
    page.leaf("div", "peak", &format!("{}{per}", figure(row.series, row.scale))).raw("</div>\n");
}

/// Draws the columns of one level; adjacent columns of equal height are one block.
fn path(row: &Row, level: Level) -> String {
    let mut path = String::new();
    let height = |at: usize| {
        let value = row.values.get(at).copied().flatten().filter(|value| *value > 0.0)?;
        // Values above zero are always visible.
        (row.levels.get(at) == Some(&level)).then(|| (value / row.scale * HEIGHT).clamp(2.0, HEIGHT).round())
    };
    let mut at = 0;
    while at < row.values.len() {
        let Some(tall) = height(at) else {
            at += 1;
            continue;
        };
        let mut end = at + 1;
        while height(end).is_some_and(|next| (next - tall).abs() < 0.5) {
            end += 1;
        }
        // Writing to a string cannot fail.
        let _ = write!(path, "M{at} {HEIGHT}V{}H{end}V{HEIGHT}z", HEIGHT - tall);
        at = end;
    }
    path
}

/// Draws the episodes of the findings above info, each finding in a lane.
fn lanes(page: &mut Markup, report: &Report, findings: &[Finding], axis: Axis) {
    let end = end_of(report);
    let timed = findings.iter().enumerate().filter(|(_, one)| one.is_problem());
    let timed: Vec<_> =
        timed.map(|(at, one)| (at, one, spans(one, end))).filter(|(.., spans)| !spans.is_empty()).collect();
    for (at, finding, spans) in timed.iter().take(LANES) {
        head(page, &format!("{} {}", sign(finding.severity), finding.id), "row lane");
        page.raw("<svg class=\"lanes\">");
        for (from_ns, to_ns) in spans {
            let (from, to) = (axis.share(*from_ns), axis.share(*to_ns));
            // At least wide enough to see and click.
            let (x, width) =
                (format!("{:.3}%", from * 100.0), format!("{:.3}%", (to - from).max(0.004) * 100.0));
            page.open("a", &[("href", &format!("#{}", anchor(*at)))]);
            page.open(
                "rect",
                &[
                    ("class", finding.severity.name()),
                    ("x", &x),
                    ("width", &width),
                    ("y", "4"),
                    ("height", "10"),
                    ("rx", "3"),
                    ("data-from", &format!("{from:.6}")),
                    ("data-to", &format!("{to:.6}")),
                ],
            );
            let when = format!("{}: {}", units::span_utc(*from_ns, *to_ns), finding.title);
            page.leaf("title", "", &when).raw("</rect></a>");
        }
        page.raw("</svg></div><div class=\"peak\">");
        let sum: u64 = spans.iter().map(|(from, to)| to - from).sum();
        page.text(&units::duration(sum)).raw("</div></div>\n");
    }
    if timed.len() > LANES {
        let more = units::plural((timed.len() - LANES) as u64, "more finding");
        page.leaf("p", "hint", &format!("… and {more} below"));
    }
}

/// Draws the time axis below the rows.
fn ticks(page: &mut Markup, axis: Axis) {
    const TICKS: u64 = 5;
    head(page, "UTC", "row ticks");
    page.raw("<svg id=\"ticks\">");
    let second = axis.length_ns() >= units::SHORT_NS;
    for tick in 0..TICKS {
        let time_ns = axis.from_ns.saturating_add(axis.length_ns() / TICKS * tick);
        let x = format!("{:.3}%", axis.share(time_ns) * 100.0);
        page.open("line", &[("x1", &x), ("x2", &x), ("y1", "0"), ("y2", "5")]).close("line");
        let text = if second { units::second_utc(time_ns) } else { units::clock_utc(time_ns) };
        page.open("text", &[("x", &x), ("y", "16")]).text(&text).close("text");
    }
    page.raw("</svg></div><div class=\"peak\">peak</div></div>\n");
}

/// The values for the script.
fn data(rows: &[Row], axis: Axis) -> Value {
    let row = |row: &Row| {
        let values: Vec<Value> = row.values.iter().map(|value| value.map(short).into()).collect();
        json!({ "name": row.name, "unit": unit(row.series), "values": values })
    };
    json!({
        "from_ms": axis.from_ns / 1_000_000,
        "from_rest_ns": axis.from_ns % 1_000_000,
        "column_ns": axis.column_ns,
        "columns": axis.columns,
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

/// Four digits exceed what is displayed.
fn short(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}
