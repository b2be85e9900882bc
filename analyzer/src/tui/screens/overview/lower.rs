//! Links with the load of both directions, the steps of the job, the latest events.

use ratatui::text::Line;

use super::super::links::pair::{Pair, listed, pairs};
use super::super::links::table::Columns;
use super::super::{bursts, devices, entropy, events, links};
use crate::analysis::NcclRank;
use crate::findings::Problem;
use crate::report::text::nccl_summary;
use crate::tui::data::Data;
use crate::tui::theme;
use crate::tui::view::View;
use crate::tui::widgets::cut;
use crate::util::units;
use crate::util::wrap::hanging;

/// Lines of what NCCL says.
const NCCL_LINES: usize = 2;

/// As many links as there is room for: those that findings are about and the busiest, in the order of the list of
/// links.
fn chosen<'a>(view: &View, data: &'a Data, room: usize) -> Vec<(usize, Pair<'a>)> {
    let mut pairs: Vec<(usize, Pair<'a>)> = listed(view, data).into_iter().enumerate().collect();
    if pairs.len() > room {
        pairs.sort_by(|(_, a), (_, b)| {
            let level = |pair: &Pair<'_>| view.level_of_link(pair.name);
            level(b).cmp(&level(a)).then(b.load().total_cmp(&a.load()))
        });
        pairs.truncate(room);
        pairs.sort_by_key(|(place, _)| *place);
    }
    pairs
}

/// Links that have a line each in `room` lines below the titles: one link says more than how many there are.
fn shown(count: usize, room: usize) -> usize {
    if count <= room { count } else { room.saturating_sub(1).max(room.min(1)) }
}

/// Place in the list of links of the one in this line, the titles being the first.
pub(super) fn link_at(view: &View, data: &Data, room: usize, row: usize) -> Option<usize> {
    let count = pairs(&data.model, &data.sample).len();
    let fit = shown(count, room.saturating_sub(1));
    chosen(view, data, fit).get(row.checked_sub(1)?).map(|(place, _)| *place)
}

/// Lines that the links fill.
pub(super) fn link_height(data: &Data) -> usize {
    1 + pairs(&data.model, &data.sample).len() + data.imbalance.len() + 1
}

/// The links: received to the left, sent to the right, as on their own screen.
pub(super) fn link_lines(view: &View, data: &Data, width: usize, room: usize) -> Vec<Line<'static>> {
    let left = room.saturating_sub(1);
    let all = pairs(&data.model, &data.sample);
    let count = all.len();
    let fit = shown(count, left);
    // Units and scale are those of all, so that what is left out does not change them.
    let troubles: fn(&str) -> bool = |title| ["LOST", "CE %"].contains(&title);
    let columns = Columns::new(view, data, &all, width, (troubles, usize::MAX));
    let mut lines = vec![columns.titles()];
    lines.extend(chosen(view, data, fit).iter().map(|(_, pair)| columns.row(view, data, pair)));
    if fit < count && lines.len() < room {
        lines.push(Line::styled(format!(" +{} more: screen 5", count - fit), theme::DIM));
    }
    let balance = data.imbalance.iter().map(|imbalance| links::balance_of(imbalance, view));
    let left = room.saturating_sub(lines.len());
    lines.extend(balance.chain([entropy::gauge(view, width)]).take(left));
    lines
}

/// Counters of the NICs, without the title of the section.
pub(super) fn counter_lines(view: &View, width: usize) -> Vec<Line<'static>> {
    devices::lines(view, width).into_iter().skip(1).collect()
}

/// Since when the job has no rhythm, if other traffic followed its steps; else empty.
pub(super) fn steps_end(view: &View) -> String {
    let steps = view.analysis.as_ref().and_then(|analysis| analysis.report.facts.steps.as_ref());
    let over = steps.filter(|steps| steps.are_over());
    over.map_or_else(String::new, |steps| format!("no rhythm since {}", units::second_utc(steps.last_ns)))
}

/// Rhythm and straggler of the job, and the highest load of a bin; below them the load in bins, where there is room.
pub(super) fn step_lines(view: &View, data: &Data, width: usize, height: usize) -> Vec<Line<'static>> {
    let traffic = data.sample.metrics.traffic.as_ref();
    let mut lines = Vec::new();
    if let Some(analysis) = &view.analysis {
        lines = bursts::steps(&analysis.report, width).into_iter().skip(1).collect();
        if let Some(nccl) = &analysis.report.facts.nccl {
            let differs = nccl.communicators.iter().flat_map(|one| &one.ranks).any(NcclRank::differs);
            let style = if differs { theme::text(view.active_level(Problem::Stall)) } else { theme::PLAIN };
            let text = hanging(&nccl_summary(nccl), width.saturating_sub(2), 2);
            let ranks = text.into_iter().take(NCCL_LINES).map(|text| Line::styled(format!(" {text}"), style));
            lines.splice(0..0, ranks);
        }
    }
    let all = traffic.iter().flat_map(|traffic| &traffic.links);
    if let Some(bursts) = all.filter_map(|link| link.bursts.as_ref()).max_by_key(|bursts| bursts.peak.bytes) {
        let rate = bursts.peak.bytes as f64 * 8e9 / bursts.bin_ns as f64;
        let mean = bursts.total.bytes as f64 / bursts.bins.max(1) as f64;
        let times = if mean > 0.0 { bursts.peak.bytes as f64 / mean } else { 0.0 };
        let peak = format!(
            " peak {} in {} ({times:.0}× mean)",
            units::bit_rate(rate),
            units::duration(bursts.bin_ns)
        );
        lines.insert(0, Line::raw(peak));
    }
    lines.push(Line::default());
    lines.extend(seen(data, width));
    let charts = bursts::busiest(view, (width, height.saturating_sub(lines.len() + 1)));
    if !charts.is_empty() {
        lines.push(Line::default());
        lines.extend(charts);
    }
    lines
}

/// Lines with text that have no room.
pub(super) fn hidden(lines: &[Line<'_>], height: usize) -> u64 {
    lines.iter().skip(height).filter(|line| line.width() > 0).count() as u64
}

/// The first lines, with a sign where the sentence of the last one goes on in the next.
pub(super) fn cut_off(mut lines: Vec<Line<'static>>, width: usize, height: usize) -> Vec<Line<'static>> {
    let text = |line: &Line<'_>| line.spans.iter().map(|span| &*span.content).collect::<String>();
    let next = lines.get(height).map_or_else(String::new, text);
    let goes_on = next.starts_with("   ");
    lines.truncate(height);
    if let Some(last) = lines.last_mut().filter(|_| goes_on) {
        let style = last.spans.first().map_or(last.style, |span| span.style);
        let whole = text(last);
        // Whole parts alone, where there are several. Behind a whole one a space stands for its dot.
        let is_whole = whole.ends_with(' ') || next.trim_start().starts_with('·');
        let whole = whole.trim_end();
        let parts = if is_whole {
            Some(whole)
        } else {
            whole.strip_suffix(" ·").or_else(|| Some(whole.rsplit_once(" · ")?.0))
        };
        let kept = parts.map_or_else(|| format!("{whole}…"), |parts| format!("{parts} …"));
        *last = Line::styled(cut(&kept, width.saturating_sub(1), false), last.style.patch(style));
    }
    lines
}

/// Packets captured in all, and frames that were not RoCE.
fn seen(data: &Data, width: usize) -> Vec<Line<'static>> {
    let model = &data.model;
    let total = &model.dedup.total;
    let window = model.window_ns.map_or_else(|| units::UNKNOWN.to_owned(), units::duration);
    let mut parts = vec![
        format!(
            "captured {} in {} packets, {window}",
            units::bytes(total.bytes),
            units::count(total.packets)
        ),
        units::plural(model.dedup.flows as u64, "flow"),
    ];
    if model.retired_flows > 0 {
        parts.push(format!("{} retired", units::plural(model.retired_flows, "flow")));
    }
    if total.reordered > 0 {
        parts.push(format!("{} reordered", units::plural(total.reordered, "packet")));
    }
    let mut lines = hanging(&parts.join(" · "), width.saturating_sub(2), 2);
    let skipped = model.skipped.iter().take(4);
    let skipped: Vec<String> =
        skipped.map(|(reason, packets)| format!("{} {}", units::count(*packets), reason.name())).collect();
    if !skipped.is_empty() {
        let text = format!("frames that are not RoCE: {}", skipped.join(" · "));
        lines.extend(hanging(&text, width.saturating_sub(2), 2));
    }
    let ended = |text: String| format!(" {}", text.trim_end_matches('·'));
    lines.into_iter().map(|text| Line::styled(ended(text), theme::DIM)).collect()
}

/// Lines of the latest events.
pub(super) fn event_lines(view: &View, (width, room): (usize, usize)) -> Vec<Line<'static>> {
    events::rows(view, width, room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_that_goes_on_keeps_its_whole_parts() {
        let first = |text: &'static str| {
            cut_off(vec![Line::raw(text), Line::raw("   and so on")], 40, 1).remove(0).to_string()
        };
        // Its dot gave way to a space.
        assert_eq!(first(" one · two "), " one · two …");
        assert_eq!(first(" one · two ·"), " one · two …");
        assert_eq!(first(" one · two"), " one …");
        assert_eq!(first(" one"), " one…");
    }
}
