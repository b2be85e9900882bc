//! Load in bins of a millisecond or less, steps of the job, stragglers, incast.

mod strip;

use std::rc::Rc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use serde_json::{Value, json};

use self::strip::{AXIS, Strip, recent, run};
use super::page::Page;
use super::timeline::chart;
use super::{empty, export_table, link_names, timeline};
use crate::analysis::traffic::{StepParts, Steps};
use crate::metrics::steps::Step;
use crate::metrics::traffic::bins::Bursts;
use crate::model::Level;
use crate::report::Report;
use crate::report::text::{BURSTS_NOT_RECORDED, trend_in_words};
use crate::sample::{Sample, SourceKind};
use crate::tui::column;
use crate::tui::cursor::{Cursor, Move};
use crate::tui::export::ExportTable;
use crate::tui::key::Input;
use crate::tui::layout::Layout;
use crate::tui::theme;
use crate::tui::view::View;
use crate::tui::widgets::panel::{Title, panel, section};
use crate::tui::widgets::{Lines, Spans, beside, counted, scrolled};
use crate::util::layout::tap_name;
use crate::util::numbers::share;
use crate::util::units;
use crate::util::wrap::{hanging, hanging_parts, wrap};

/// Lines of a strip chart at least and at most.
const TALL: usize = 3;
const TALLEST: usize = 80;
/// Columns from which on two links stand beside one another.
const BESIDE: usize = 150;
/// Receivers listed.
const RECEIVERS: usize = 5;

/// State of the screen Bursts.
#[derive(Debug, Default)]
pub struct BurstsScreen {
    /// First visible line.
    pub scroll: Cursor,
    lines: Lines,
}

impl BurstsScreen {
    fn lines_at(&self, view: &View, area: Rect) -> Rc<[Line<'static>]> {
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        self.lines.at(width | height << 16, || {
            let least = lines(view, width, TALL);
            // Charts grow into the room that is left.
            let spare = height.saturating_sub(least.len()).checked_div(charts(view, width)).unwrap_or(0);
            if spare == 0 { least } else { lines(view, width, (TALL + spare).min(TALLEST)) }
        })
    }
}

impl Page for BurstsScreen {
    fn kept_lines(&self) -> Option<&Lines> {
        Some(&self.lines)
    }

    fn step(&mut self, view: &mut View, step: Move) {
        let area = view.layout().inner();
        let lines = self.lines_at(view, area).len();
        self.scroll.scroll(step, lines, usize::from(area.height));
    }

    /// The latest bins (`bin`) and the whole run (`run`) of each link, and the steps of the job (`step`).
    fn export_table(&self, view: &View) -> ExportTable {
        let mut table = ExportTable::new(&[
            "what",
            "link",
            "direction",
            "start_ns",
            "length_ns",
            "bytes",
            "bits_per_s",
            "busy_ns",
            "silence_ns",
        ]);
        let Some(data) = &view.data else { return table };
        let traffic = data.sample.metrics.traffic.iter().flat_map(|traffic| &traffic.links);
        for (link, traffic) in data.sample.links.iter().zip(traffic) {
            let name = [json!(link.name), export_table::direction(link.direction)];
            table.rows.extend(traffic.bursts.iter().flat_map(|bursts| loads(&name, bursts)));
        }
        let report = view.analysis.as_ref().map(|analysis| &analysis.report);
        if let Some(steps) = report.and_then(|report| report.facts.steps.as_ref()) {
            table.rows.extend(steps.all.iter().map(|Step { start_ns, .. }| {
                // The latest are known in full.
                let step = steps.latest.iter().find(|step| step.start_ns == *start_ns);
                vec![
                    json!("step"),
                    json!(steps.link),
                    export_table::direction(steps.direction),
                    json!(start_ns),
                    json!(step.map(|step| step.length_ns)),
                    Value::Null,
                    Value::Null,
                    json!(step.map(|step| step.busy_ns)),
                    json!(step.map(|step| step.silence_ns)),
                ]
            }));
        }
        table
    }

    fn render(&self, buffer: &mut Buffer, at: &Layout, view: &View) {
        render(buffer, at, view, self);
    }
}

fn render(buffer: &mut Buffer, at: &Layout, view: &View, screen: &BurstsScreen) {
    let area = at.inner();
    if empty::nothing_at_all(buffer, at.body, view) {
        return;
    }
    let lines = screen.lines_at(view, area);
    if lines.is_empty() {
        let help = match view.kind() {
            Some(SourceKind::Live) => "Bins start with the first RoCE packets; `--no-timing` disables them.",
            _ => "Bins start with the first packets; the overview shows load per second.",
        };
        empty::because(buffer, area, "No load bins in this run.", help);
        let used = at.body.height.min(4);
        let below = Rect { y: at.body.y + used, height: at.body.height - used, ..at.body };
        if let Some(data) = view.data.as_ref().filter(|_| at.boxed() && below.height >= timeline::BELOW) {
            timeline::render_in(buffer, below, true, view, data);
        }
        return;
    }
    let about = "load in bins, steps of the job, incast";
    let [up, down] = [Input::Up, Input::Down].map(|input| view.options.keys.first(input));
    let hint = format!("{up} {down} scroll");
    panel(buffer, at.body, at.boxed(), Title { name: "BURSTS", about, hint: &hint });
    scrolled(buffer, area, &lines, screen.scroll.offset);
}

/// Charts of all links.
fn charts(view: &View, width: usize) -> usize {
    let traffic = view.data.as_ref().and_then(|data| data.sample.metrics.traffic.as_ref());
    let links = traffic.iter().flat_map(|traffic| &traffic.links).filter_map(|link| link.bursts.as_ref());
    let cells = part(width, links.clone().count()).saturating_sub(AXIS + 3);
    let count = |(place, bursts): (usize, &Bursts)| {
        charts_of(place < each(width), bursts, cells).into_iter().flatten().count()
    };
    let charts: Vec<usize> = links.enumerate().map(count).collect();
    charts.chunks(each(width)).filter_map(|row| row.iter().max()).sum()
}

/// The charts of a link: of the latest bins, for the `busiest` or where there is no other, and of the whole run.
fn charts_of(busiest: bool, bursts: &Bursts, cells: usize) -> [Option<Strip>; 2] {
    let whole = run(bursts, cells);
    [(busiest || whole.is_none()).then(|| recent(bursts, cells)), whole]
}

/// Links beside one another.
const fn each(width: usize) -> usize {
    if width < BESIDE { 1 } else { 2 }
}

/// Columns of a link, of which two stand beside one another where there is room.
fn part(width: usize, links: usize) -> usize {
    if width < BESIDE || links < 2 { width } else { width / 2 - 1 }
}

/// Everything, with charts of `tall` lines each.
fn lines(view: &View, width: usize, tall: usize) -> Vec<Line<'static>> {
    let Some(data) = &view.data else { return Vec::new() };
    let report = view.analysis.as_deref().map(|analysis| &analysis.report);
    let Some(traffic) = &data.sample.metrics.traffic else {
        // The recording has steps alone.
        let report = report.filter(|report| report.facts.is_recording());
        return report.map_or_else(Vec::new, |report| {
            let mut all = vec![section("BURSTS", "", width)];
            all.push(Line::styled(format!(" {BURSTS_NOT_RECORDED}"), theme::DIM));
            all.extend(steps(report, width));
            all
        });
    };
    let job = report.and_then(|report| report.facts.steps.as_ref()).map_or(&[][..], |steps| &steps.all);
    let mut links: Vec<(usize, &Bursts)> =
        traffic.links.iter().enumerate().filter_map(|(at, link)| Some((at, link.bursts.as_ref()?))).collect();
    links.sort_by_key(|(_, bursts)| std::cmp::Reverse(bursts.total.bytes));
    let part = part(width, links.len());
    let cells = part.saturating_sub(AXIS + 3);
    // Links are compared: all charts of a kind have one scale.
    let charts =
        links.iter().enumerate().map(|(place, (_, bursts))| charts_of(place < each(width), bursts, cells));
    let most = charts.fold([0.0; 2], |most, strips| {
        let [one, all] = strips.map(|strip| strip.map_or(0.0, |strip| strip.most()));
        [f64::max(most[0], one), f64::max(most[1], all)]
    });
    let mut blocks = links.into_iter().enumerate().map(|(place, (at, bursts))| {
        let lost = traffic.links.get(at).map_or(0, |link| link.lost.packets);
        let charts = charts_of(place < each(width), bursts, cells);
        link(&data.sample, (at, lost), (bursts, charts), (job, most), (part, tall))
    });
    let mut all = Vec::new();
    while let Some(block) = blocks.next() {
        match if part < width { blocks.next() } else { None } {
            Some(other) => all.extend(beside(block, other, part + 1)),
            None => all.extend(block),
        }
    }
    if let (Some(report), false) = (report, all.is_empty()) {
        // What is wrong with the job comes before charts that are much the same for all links.
        let mut first = steps(report, width);
        first.extend(incast(report, width));
        first.push(Line::default());
        all.splice(0..0, first);
    }
    if view.past() && !all.is_empty() {
        let until = units::clock_utc(data.sample.time_ns);
        let text = format!("Whole run until {until} UTC: bins and steps are not kept per snapshot.");
        let parts = wrap(&text, width.saturating_sub(2)).into_iter();
        all.splice(0..0, parts.map(|part| Line::styled(format!(" {part}"), theme::text(Level::Warning))));
    }
    all
}

/// Charts of the busiest link that fill `height` lines; nothing where there is no room for one.
pub(super) fn busiest(view: &View, (width, height): (usize, usize)) -> Vec<Line<'static>> {
    let Some(data) = &view.data else { return Vec::new() };
    let traffic = data.sample.metrics.traffic.as_ref();
    let all = traffic.iter().flat_map(|traffic| traffic.links.iter().enumerate());
    let all = all.filter_map(|(at, link)| Some((at, link.bursts.as_ref()?)));
    let Some((at, bursts)) = all.max_by_key(|(_, bursts)| bursts.total.bytes) else { return Vec::new() };
    let cells = width.saturating_sub(AXIS + 3);
    let strips = [Some(recent(bursts, cells)), run(bursts, cells)];
    // A title for all, and for each its text and the steps' marks.
    let count = strips.iter().flatten().count();
    let tall = height.saturating_sub(1 + 2 * count) / count.max(1);
    if tall < TALL {
        return Vec::new();
    }
    let report = view.analysis.as_deref().map(|analysis| &analysis.report);
    let job = report.and_then(|report| report.facts.steps.as_ref()).map_or(&[][..], |steps| &steps.all);
    let mut lines = vec![link_title(&name(&data.sample, at), bursts, width)];
    for strip in strips.into_iter().flatten() {
        lines.extend(strip.lines(strip.most(), job, (cells, tall)));
    }
    lines
}

/// A link and its direction.
fn name(sample: &Sample, at: usize) -> String {
    sample.links.get(at).map_or_else(String::new, |link| {
        let name = tap_name(&link.name);
        format!("{name} {}", link_names::direction(link.direction)).trim_end_matches(" -").to_owned()
    })
}

/// One link: title, its charts, durations of its bursts. `at` is the link's
/// index, with the number of its packets that are in no bin; `most` are the ends of the scales of both charts.
fn link(
    sample: &Sample,
    (at, lost): (usize, u64),
    (bursts, charts): (&Bursts, [Option<Strip>; 2]),
    (job, most): (&[Step], [f64; 2]),
    (width, tall): (usize, usize),
) -> Vec<Line<'static>> {
    let mut lines = vec![link_title(&name(sample, at), bursts, width)];
    let cells = width.saturating_sub(AXIS + 3);
    for (strip, most) in charts.into_iter().zip(most) {
        lines.extend(strip.into_iter().flat_map(|strip| strip.lines(most, job, (cells, tall))));
    }
    let without_flow = sample.links.get(at).map_or(0, |link| link.without_flow().packets);
    for (packets, why) in [(lost, "ring buffer full"), (without_flow, "without a flow")] {
        if packets > 0 {
            let text = format!(" {} not in any bin: {why}", counted(packets, "packet"));
            lines.push(Line::styled(text, theme::text(Level::Warning)));
        }
    }
    let [p50, p99, max] =
        [bursts.length_p50_ns, bursts.length_p99_ns, bursts.length_max_ns].map(units::duration);
    let late = if bursts.late_packets > 0 {
        format!(" · {} too late for their bin", counted(bursts.late_packets, "packet"))
    } else {
        String::new()
    };
    let count = counted(bursts.bursts, "burst");
    let text = format!("{count} ≥ 50 % of peak · duration p50 {p50}, p99 {p99}, max {max}{late}");
    // The title names the time as well.
    let long = format!("whole run: {text}");
    let text = format!(" {}", if long.chars().count() < width { long } else { text });
    lines.push(Line::styled(text, theme::PLAIN));
    lines.push(Line::default());
    lines
}

/// Name, peak, mean and duty cycle of a link.
fn link_title(name: &str, bursts: &Bursts, width: usize) -> Line<'static> {
    let rate = |bytes: f64| units::bit_rate(bytes * 8e9 / bursts.bin_ns as f64);
    let mean = bursts.total.bytes as f64 / bursts.bins.max(1) as f64;
    let peak = format!("peak {} ({} bins)", rate(bursts.peak.bytes as f64), units::duration(bursts.bin_ns));
    let times = if mean > 0.0 { bursts.peak.bytes as f64 / mean } else { 0.0 };
    let busy = units::ratio(Some(share(bursts.active_bins, bursts.bins)));
    let metrics =
        format!("whole run: {peak} · mean {} · peak/mean {times:.1} · duty cycle {busy}", rate(mean));
    let forms = [
        metrics,
        format!("whole run: {peak} · {times:.1}× mean · duty {busy}"),
        format!("whole run: peak {} · {times:.1}× mean · duty {busy}", rate(bursts.peak.bytes as f64)),
        format!("{peak} · {times:.1}× mean"),
    ];
    let fits = |form: &&String| name.chars().count() + form.chars().count() + 6 <= width;
    section(name, forms.iter().find(fits).unwrap_or(&forms[3]), width)
}

/// The time of each step as a bar, the latest right; `None` where there are none.
fn step_times(steps: &[Step], width: usize) -> Option<Line<'static>> {
    let pairs = steps.iter().zip(steps.iter().skip(1));
    let times: Vec<u64> = pairs.map(|(one, next)| next.start_ns.saturating_sub(one.start_ns)).collect();
    let (least, most) = (times.iter().min()?, times.iter().max()?);
    let scale = format!(" {} to {}", units::duration(*least), units::duration(*most));
    let room = width.saturating_sub(STEP_TIMES.len() + scale.chars().count() + 1);
    let latest = times.iter().skip(times.len().saturating_sub(room));
    let blocks: String = latest.map(|time| chart::block(Some(*time as f64), *most as f64)).collect();
    let mut spans = Spans::default();
    spans.push(STEP_TIMES, theme::PLAIN).push(blocks, theme::BAR).push(scale, theme::DIM);
    Some(spans.into_line())
}

/// Text before the step times.
const STEP_TIMES: &str = " step times ";

/// The steps of the job: their times, and what is known of them.
pub(super) fn steps(report: &Report, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![section("STEPS", "of the job", width)];
    let Some(steps) = &report.facts.steps else {
        let why = report.facts.steps_absent.unwrap_or("not collected");
        let why = hanging(&format!("none: {why}"), width.saturating_sub(2), 2).into_iter();
        lines.extend(why.map(|text| Line::styled(format!(" {text}"), theme::DIM)));
        return lines;
    };
    lines.extend(step_times(&steps.all, width));
    // Problems come before descriptions.
    let (text, level) = last_to_finish(report).unwrap_or_default();
    if level > Level::Fine {
        let parts = hanging_parts(&text, width.saturating_sub(2), 2).into_iter();
        lines.extend(parts.map(|part| Line::styled(format!(" {part}"), theme::text(level))));
    }
    let over = if steps.are_over() { ", other traffic since" } else { "" };
    let period = format!(
        "{} in {} · {} per step · busy {} · communicating {} · on {}, {} to {}{over}",
        units::duration(steps.period_ns),
        counted(steps.count, "step"),
        units::bytes(steps.step_bytes),
        units::ratio(Some(steps.busy_ratio)),
        units::ratio(Some(steps.communication_ratio)),
        tap_name(&steps.link),
        units::second_utc(steps.first_ns),
        units::second_utc(steps.last_ns),
    );
    lines.extend(labelled("period", &period, width));
    lines.extend(parts_of_step(steps, width));
    for (label, text) in trend_in_words(steps) {
        lines.extend(labelled(&label.to_lowercase(), &text, width));
    }
    let silence = format!("longest within a step {} (median)", units::duration(steps.silence_ns));
    lines.extend(labelled("silence", &silence, width));
    if level == Level::Fine && !text.is_empty() {
        lines.extend(labelled("last", &text, width));
    }
    lines
}

/// Columns of a label, of the time of a part and of its share, and of its bar at most.
const LABEL: usize = 11;
const TIME: usize = 8;
const SHARE: usize = 7;
const LONGEST_BAR: usize = 40;

/// A text behind its label, its other lines below its first.
fn labelled(label: &str, text: &str, width: usize) -> Vec<Line<'static>> {
    let parts = hanging_parts(text, width.saturating_sub(LABEL + 2), 0).into_iter();
    let labels = std::iter::once(label).chain(std::iter::repeat(""));
    let line = |(part, label): (String, &str)| {
        let mut spans = Spans::default();
        spans.push(format!(" {label:<LABEL$}"), theme::DIM);
        // A space says that the part is whole.
        spans.push(part.trim_end_matches('·').to_owned(), theme::PLAIN);
        spans.into_line()
    };
    parts.zip(labels).map(line).collect()
}

/// The parts of a step's time as bars of one scale, and what a faster network would gain at most.
fn parts_of_step(steps: &Steps, width: usize) -> Vec<Line<'static>> {
    let Some(StepParts { period_ns, transfer_ns, wait_ns, compute_ns }) = steps.parts else {
        return Vec::new();
    };
    let whole = format!("mean of the middle half {}", units::duration(period_ns));
    let mut lines = labelled("each step", &whole, width);
    let of_step = |ns| units::ratio(Some(share(ns, period_ns)));
    let room = width.saturating_sub(1 + LABEL + TIME + SHARE + 2);
    for (label, ns, note) in [
        ("transfer", transfer_ns, ""),
        ("waiting", wait_ns, "within the step"),
        ("no traffic", compute_ns, "until the next, mostly computing"),
    ] {
        let mut spans = Spans::default();
        spans.push(format!(" {label:<LABEL$}"), theme::DIM);
        spans.push(format!("{:>TIME$}{:>SHARE$}  ", units::duration(ns), of_step(ns)), theme::PLAIN);
        let bar = (room / 2).min(LONGEST_BAR);
        let cells = u16::try_from(bar).unwrap_or(u16::MAX);
        spans.push(column::bar(share(ns, period_ns), cells), theme::BAR);
        if note.chars().count() + bar + 2 <= room {
            spans.push(format!("  {note}"), theme::DIM);
        }
        lines.push(spans.into_line());
    }
    if let Some(gain_ns) = steps.faster_network_ns {
        let text = format!(
            "at most {} ({}) with a network twice as fast, less where transfers overlap with computing",
            units::duration(gain_ns),
            of_step(gain_ns)
        );
        lines.extend(labelled("gain", &text, width));
    }
    lines
}

/// The straggler, or else the flow that usually finishes last.
fn last_to_finish(report: &Report) -> Option<(String, Level)> {
    let steps = report.facts.steps.as_ref()?;
    if let Some(late) = &steps.straggler {
        let finding = report.findings.iter().find(|finding| finding.id == "step.straggler");
        let level = finding.map_or(Level::Fine, |finding| finding.severity.into());
        let sure = if late.certain { "" } else { " (likely)" };
        // Without a finding it is neither wrong nor fine.
        let symbol = if level == Level::Fine { "·" } else { theme::symbol(level) };
        let text = format!(
            "{symbol} {}{sure} · {} → {} QP {}",
            late.in_words(),
            late.waits_for,
            late.dst,
            late.dest_qp
        );
        return Some((text, level));
    }
    let last = steps.last_flow.as_ref()?;
    let text = format!(
        "usually {} → {} QP {}, in {} steps (+{})",
        last.src,
        last.dst,
        last.dest_qp,
        last.steps,
        units::duration(last.behind_ns)
    );
    Some((text, Level::Fine))
}

fn incast(report: &Report, width: usize) -> Vec<Line<'static>> {
    let several = report.facts.incast.iter().flatten().filter(|incast| incast.senders > 1);
    let mut lines: Vec<Line<'static>> = several
        .take(RECEIVERS)
        .flat_map(|incast| {
            let text = format!(
                "{} on {}: {} senders, max {} concurrent (p99 {}), {} of bytes during incast",
                incast.dst,
                tap_name(&incast.link),
                units::count(incast.senders),
                units::count(incast.senders_max),
                units::count(incast.senders_p99),
                units::ratio(Some(incast.several_ratio))
            );
            hanging(&text, width.saturating_sub(2), 2).into_iter().map(|text| Line::raw(format!(" {text}")))
        })
        .collect();
    if !lines.is_empty() {
        lines.insert(0, section("INCAST", "senders to one receiver in one bin", width));
        lines.insert(0, Line::default());
    }
    lines
}

/// The load of a link: bin by bin, then over the whole run.
fn loads(link: &[Value; 2], bursts: &Bursts) -> Vec<Vec<Value>> {
    let end_ns = bursts.first_ns.saturating_add(bursts.bins.saturating_mul(bursts.bin_ns));
    let row = |what: &str, start_ns: u64, length_ns: u64, bytes: u64| {
        // Times outside of the run have no load.
        let (from, to) = (start_ns.max(bursts.first_ns), start_ns.saturating_add(length_ns).min(end_ns));
        let length = to.saturating_sub(from);
        let rate = (length > 0).then(|| bytes as f64 * 8e9 / length as f64);
        let [name, direction] = link.clone();
        vec![
            json!(what),
            name,
            direction,
            json!(from),
            json!(length),
            json!(bytes),
            json!(rate),
            Value::Null,
            Value::Null,
        ]
    };
    let first = bursts.bins.saturating_sub(bursts.recent.len() as u64);
    let recent = (first..).zip(&bursts.recent).map(|(bin, bytes)| {
        let start = bursts.first_ns.saturating_add(bin.saturating_mul(bursts.bin_ns));
        row("bin", start, bursts.bin_ns, u64::from(*bytes))
    });
    let long_ns = bursts.long_bins.saturating_mul(bursts.bin_ns);
    let long = (0u64..).zip(&bursts.long).map(|(at, bytes)| {
        let start = bursts.long_first.saturating_mul(bursts.bin_ns);
        row("run", start.saturating_add(at.saturating_mul(long_ns)), long_ns, *bytes)
    });
    recent.chain(long).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{Finding, Severity};

    /// In a few lines, the straggler is among them.
    #[test]
    fn a_straggler_stands_before_the_description_of_the_steps() {
        let mut report = crate::report::schema::full::full();
        let place = |report: &Report, words: &str| {
            let lines = steps(report, 80);
            let text = |line: &Line<'_>| line.spans.iter().map(|span| &*span.content).collect::<String>();
            lines.iter().position(|line| text(line).contains(words)).expect(words)
        };
        assert!(report.facts.steps.as_ref().is_some_and(|steps| steps.straggler.is_some()));
        assert!(place(&report, " period ") < place(&report, "Straggler "), "no finding");
        report.findings.push(Finding::new("step.straggler", Severity::Warning, "Straggler".to_owned()));
        assert!(place(&report, "Straggler ") < place(&report, " period "), "first");
    }
}
