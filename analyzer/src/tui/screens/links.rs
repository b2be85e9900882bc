//! Links side by side, load balance across them, and ECMP entropy of the traffic.

use std::rc::Rc;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use serde_json::json;

use super::{
    Effect, Hints, Lines, Page, Spans, click_list, cut, devices, empty, line, scrolled, sheet, trends,
};
use crate::analysis;
use crate::analysis::Imbalance;
use crate::model::{Delta, Level, LinkRow, Model, Problem};
use crate::sample::Direction;
use crate::tui::column::{bar, compact};
use crate::tui::cursor::{Cursor, Move};
use crate::tui::data::Data;
use crate::tui::export::Sheet;
use crate::tui::focus::{Focus, Only};
use crate::tui::key::Input;
use crate::tui::layout::Layout;
use crate::tui::screen::Screen;
use crate::tui::view::View;
use crate::tui::{names, theme};
use crate::util::units;
use crate::util::wrap::hanging;

/// Columns of the trend at the right of wide screens, at most.
const TREND: usize = 60;
/// Label of the balance over time.
const OVER_TIME: &str = "   max/mean over time (1 … n) ";
/// Below this width there is no room for bars and for frames that are not RoCE.
const NARROW: usize = 72;

/// Uplinks that the what-if begins with, the fewest and the most.
const UPLINKS: (u32, u32, u32) = (4, 2, 1_024);

/// The screen.
#[derive(Debug, Default)]
pub struct LinksScreen {
    /// Place in the list of links.
    pub cursor: Cursor,
    /// First line of the part below the list: devices, balance, entropy.
    pub below: Cursor,
    /// Uplinks of the what-if, where the user changed them.
    pub uplinks: Option<u32>,
    lines: Lines,
}

impl LinksScreen {
    fn change_uplinks(&mut self, view: &View, more: bool) {
        let shown = view.analysis.as_ref().and_then(|analysis| analysis.report.facts.ecmp.as_ref());
        let (first, least, most) = UPLINKS;
        self.uplinks = Some(match self.uplinks.or(shown.map(|ecmp| ecmp.uplinks)) {
            None => first,
            Some(now) if more => (now * 2).min(most),
            Some(now) => (now / 2).max(least),
        });
    }

    /// The part below the list.
    fn lines_at(&self, view: &View, data: &Data, width: usize) -> Rc<[Line<'static>]> {
        self.lines.at(width, || below(view, data, width))
    }

    /// Lines of the part below the list, all and visible ones.
    fn heights(&self, view: &View) -> (usize, usize) {
        let width = usize::from(view.size.0);
        let lines = view.data.as_ref().map_or(0, |data| self.lines_at(view, data, width).len());
        (lines, usize::from(self.below_height(view, view.layout().body.height)))
    }

    /// Visible lines of that part in a body of this height: the list of links takes the rest.
    fn below_height(&self, view: &View, body: u16) -> u16 {
        let links = view.link_count();
        let page = view.layout().links_page();
        let titles_and_gap = if body > 12 { 2 } else { 1 };
        let rest = usize::from(links > self.cursor.offset + page);
        let list = u16::try_from(links.min(page) + rest).unwrap_or(u16::MAX);
        body.saturating_sub(list.saturating_add(titles_and_gap))
    }
}

impl Page for LinksScreen {
    fn kept_lines(&self) -> Option<&Lines> {
        Some(&self.lines)
    }

    /// Moves in the list of links, and beyond its last one through the part below.
    fn step(&mut self, view: &mut View, step: Move) {
        let links = view.link_count();
        let on_last = self.cursor.selected == links.checked_sub(1);
        let scrolls = match step {
            Move::Down | Move::PageDown => on_last,
            Move::Up | Move::PageUp => self.below.offset > 0,
            Move::First | Move::Last => true,
        };
        if !scrolls || matches!(step, Move::First | Move::Last) {
            self.cursor.step(step, links, view.layout().links_page());
        }
        if scrolls {
            let (height, room) = self.heights(view);
            self.below.scroll(step, height, room);
        }
    }

    fn open(&mut self, view: &mut View) -> Effect {
        let at = self.cursor.selected.unwrap_or(0);
        let link = view.data.as_ref().and_then(|data| data.model.links.get(at));
        match (link, u16::try_from(at)) {
            (Some(link), Ok(at)) => Effect::Focus(Focus { about: link.name.clone(), on: Only::Link(at) }),
            _ => Effect::None,
        }
    }

    fn click(&mut self, view: &mut View, at: Position) -> Effect {
        let (layout, links) = (view.layout(), view.link_count());
        // The part below the list has no rows of it.
        let shown = u16::try_from(links.min(layout.links_page())).unwrap_or(u16::MAX);
        let list = Rect { height: shown.saturating_add(1), ..layout.body };
        click_list(&mut self.cursor, list, links, at);
        Effect::None
    }

    fn on_input(&mut self, view: &mut View, input: Input) -> Effect {
        match input {
            Input::MoreUplinks => self.change_uplinks(view, true),
            Input::FewerUplinks => self.change_uplinks(view, false),
            _ => return Effect::None,
        }
        Effect::Analyse
    }

    fn keep_in_view(&mut self, view: &View) {
        self.cursor.show(view.link_count(), view.layout().links_page());
        // To count the lines is to make them.
        if view.screen == Screen::Links {
            let (height, room) = self.heights(view);
            self.below.show(height, room);
        }
    }

    fn selection(&mut self) -> Option<&mut Cursor> {
        Some(&mut self.cursor)
    }

    fn hints(&self, _: &View) -> Hints {
        (&[(&[Input::Open], "queue pairs"), (&[Input::MoreUplinks], "ECMP what-if")], &[])
    }

    fn sheet(&self, view: &View) -> Sheet {
        let mut table = Sheet::new(&[
            "link",
            "direction",
            "flows",
            "bits_per_s",
            "packets_per_s",
            "ce_ratio",
            "packets",
            "bytes",
            "skipped_packets",
        ]);
        let links = view.data.iter().flat_map(|data| &data.model.links);
        table.rows = links
            .map(|link| {
                vec![
                    json!(link.name),
                    sheet::direction(link.direction),
                    json!(link.flows),
                    json!(link.delta.map(|d| d.bits_per_s())),
                    json!(link.delta.map(|d| d.packets_per_s())),
                    json!(link.delta.and_then(|d| d.counts.ce_ratio())),
                    json!(link.total.packets),
                    json!(link.total.bytes),
                    json!(link.skipped.packets),
                ]
            })
            .collect();
        table
    }

    fn render(&self, buffer: &mut Buffer, at: &Layout, view: &View) {
        let area = at.body;
        let Some(data) = &view.data else {
            empty::render(buffer, area, view);
            return;
        };
        list(buffer, area, view, data, self.cursor);
        let height = self.below_height(view, area.height);
        let rest = Rect { y: area.bottom() - height, height, ..area };
        scrolled(buffer, rest, &self.lines_at(view, data, usize::from(area.width)), self.below.offset);
    }
}

/// Widths of the list's columns.
struct Widths {
    /// The name of a link.
    name: usize,
    /// The trend; `None` where there is no room for it.
    trend: Option<usize>,
    /// True where there is no room for bars and for frames that are not RoCE.
    narrow: bool,
}

impl Widths {
    fn new(width: usize, model: &Model) -> Self {
        let longest = model.links.iter().map(|link| link.name.chars().count()).max().unwrap_or(0);
        let name = width.saturating_sub(63).clamp(10, 40).min(longest.max(10));
        let trend = width.saturating_sub(name + 65).min(TREND);
        Self { name, trend: Some(trend).filter(|trend| *trend > 8), narrow: width < NARROW }
    }
}

/// The titles of the list.
fn titles(view: &View, widths: &Widths) -> String {
    let name = widths.name;
    let mut titles = if widths.narrow {
        format!(
            " {:<name$} {:<3} {:>9} {:>6} {:>6} {:>6} {:>5}",
            "LINK", "DIR", "b/s", "pkt/s", "CE %", "BYTES", "QPs"
        )
    } else {
        format!(
            " {:<name$} {:<3} {:>9} {:>6} {:<10} {:>6} {:>6} {:>5} {:>8}",
            "LINK", "DIR", "b/s", "pkt/s", "% BUSIEST", "CE %", "BYTES", "QPs", "NON-ROCE"
        )
    };
    if let Some(trend) = widths.trend {
        let covered = units::duration(trends::covered(view, trend));
        let title = cut(&format!("b/s, last {covered}"), trend, false);
        titles = format!("{titles}  {title:>trend$}");
    }
    titles
}

/// The list of links.
fn list(buffer: &mut Buffer, area: Rect, view: &View, data: &Data, cursor: Cursor) {
    let widths = Widths::new(usize::from(area.width), &data.model);
    line(buffer, area, 0, &Line::styled(titles(view, &widths), theme::HEAD));
    let page = view.layout().links_page();
    let most = data.model.links.iter().map(load).fold(0.0, f64::max);
    let visible = data.model.links.iter().enumerate().skip(cursor.offset).take(page);
    let mut y = 1;
    for (place, link) in visible {
        let shown = short(&data.model, link, widths.name);
        let mut spans = row(link, &shown, widths.name, Some(most).filter(|_| !widths.narrow));
        if let Some(trend) = widths.trend {
            let points = trends::link_points(view, place, trend);
            let values: Vec<_> = points.iter().map(|p| p.per_second(|c| c.bytes)).collect();
            let peak = values.iter().flatten().copied().fold(0.0, f64::max);
            spans.push(format!("  {:>trend$}", super::spark(&values, peak)), theme::BAR);
        }
        line(buffer, area, y, &spans.into_line());
        if cursor.selected == Some(place) {
            super::select(buffer, Rect { y: area.y + y, height: 1, ..area });
        }
        y += 1;
    }
    let left_out = data.model.links.len().saturating_sub(cursor.offset + page);
    if left_out > 0 {
        line(buffer, area, y, &Line::styled(format!(" +{left_out} more"), theme::DIM));
    }
}

/// Everything below the list of links.
fn below(view: &View, data: &Data, width: usize) -> Vec<Line<'static>> {
    let mut lines = devices::lines(view, width);
    lines.extend(balance(view, data, width));
    lines.extend(entropy(view));
    lines.extend(rails(view));
    lines.extend(what_if(view));
    lines
}

/// Load of a link: bits per second, or all bytes while the rate is unknown.
pub(super) fn load(link: &LinkRow) -> f64 {
    link.delta.map_or(link.total.bytes as f64, |d| d.bits_per_s())
}

/// The name of a link in so much room.
pub(super) fn short(model: &Model, link: &LinkRow, width: usize) -> String {
    names::apart(&link.name, model.links.iter().map(|link| link.name.as_str()), width)
}

/// `most`: load of the busiest link, to which bars are relative (link speeds are unknown here); `None` where
/// there is no room for a bar.
fn row(link: &LinkRow, shown: &str, name: usize, most: Option<f64>) -> Spans {
    let dir = direction(link.direction);
    let unknown = || units::UNKNOWN.to_owned();
    let rate = link.delta.as_ref().map(Delta::bits_per_s).map_or_else(unknown, units::bit_rate);
    let packets = link.delta.as_ref().map(Delta::packets_per_s).map_or_else(unknown, compact);
    let ce = link.delta.and_then(|d| d.counts.ce_ratio());
    let mut spans = Spans::default();
    spans.push(format!(" {shown:<name$} {dir:<3} "), theme::PLAIN);
    spans.push(format!("{rate:>9} "), theme::BOLD).push(format!("{packets:>6}"), theme::PLAIN);
    if let Some(most) = most {
        let share = if most > 0.0 { load(link) / most } else { 0.0 };
        spans.push(format!(" {}", bar(share, 10)), theme::BAR);
    }
    spans.push(format!(" {:>6}", units::ratio(ce).trim_end_matches(" %")), theme::PLAIN);
    let (bytes, skipped) = (compact(link.total.bytes as f64), compact(link.skipped.packets as f64));
    spans.push(format!(" {bytes:>6} {:>5}", link.flows), theme::PLAIN);
    if most.is_some() {
        spans.push(format!(" {skipped:>8}"), theme::PLAIN);
    }
    spans
}

pub(super) fn direction(direction: Option<Direction>) -> &'static str {
    match direction {
        Some(Direction::Ingress) => "in",
        Some(Direction::Egress) => "out",
        None => units::UNKNOWN,
    }
}

fn balance(view: &View, data: &Data, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled(
        format!(" LOAD BALANCE across parallel links, {}", super::time_range(data.model.basis)),
        theme::HEAD,
    )];
    let mut shown = data.imbalance.clone();
    if shown.is_empty() {
        // It is unknown whether they share a load; their balance is shown all the same.
        shown = all_links(data);
        let why = match (data.model.links.len(), data.model.dedup.taps) {
            (0 | 1, _) => " one link: nothing to compare",
            (_, 2..) => {
                " links carry the same packets: nothing to compare; --group LINK,LINK declares parallel links"
            }
            _ if shown.is_empty() => " no two links in the same direction: nothing to compare",
            _ => " all links, none declared as parallel; --group LINK,LINK declares parallel links",
        };
        lines.extend(hanging(why, width, 1).into_iter().map(|why| Line::styled(why, theme::DIM)));
    }
    for imbalance in &shown {
        lines.push(balance_of(imbalance, view));
        let cells = width.saturating_sub(OVER_TIME.len() + 1).min(TREND);
        if let Some(trend) = imbalance_over_time(view, data, imbalance, cells) {
            lines.push(trend);
        }
    }
    lines
}

/// Balance of all links in the time range; empty where they carry the same packets.
fn all_links(data: &Data) -> Vec<Imbalance> {
    if data.model.dedup.taps > 1 {
        return Vec::new();
    }
    let all = analysis::Options { imbalance_all_links: true, ..analysis::Options::default() };
    analysis::imbalances(&data.loads(), &all, &analysis::SamePath::default())
}

/// The ratio of the busiest link to the mean per snapshot; 1 is even.
fn imbalance_over_time(
    view: &View,
    data: &Data,
    imbalance: &Imbalance,
    cells: usize,
) -> Option<Line<'static>> {
    let member =
        |link: &LinkRow| link.direction == imbalance.direction && imbalance.links.contains(&link.name);
    let links: Vec<Vec<trends::Point>> = data
        .model
        .links
        .iter()
        .enumerate()
        .filter(|(_, link)| member(link))
        .map(|(at, _)| trends::link_points(view, at, cells))
        .collect();
    let snapshots = links.iter().map(Vec::len).min()?;
    let ratio = |at: usize| {
        let loads: Option<Vec<f64>> =
            links.iter().map(|points| points.get(at)?.per_second(|c| c.bytes)).collect();
        let loads = loads?;
        let mean = loads.iter().sum::<f64>() / loads.len() as f64;
        (mean > 0.0).then(|| loads.iter().copied().fold(0.0, f64::max) / mean)
    };
    let ratios: Vec<Option<f64>> = (0..snapshots).map(ratio).collect();
    let highest = links.len() as f64 - 1.0;
    let above: Vec<Option<f64>> = ratios.iter().map(|ratio| ratio.map(|r| r - 1.0)).collect();
    let mut spans = Spans::default();
    spans.push(OVER_TIME, theme::DIM);
    spans.push(super::spark(&above, highest), theme::BAR);
    Some(spans.into_line())
}

pub(super) fn balance_of(imbalance: &Imbalance, view: &View) -> Line<'static> {
    let number = |n: Option<f64>| n.map_or_else(|| units::UNKNOWN.to_owned(), |n| format!("{n:.2}"));
    if imbalance.same_path {
        let names = imbalance.links.join(", ");
        let text = format!(" not compared (same path): {} {names}", direction(imbalance.direction));
        return Line::styled(text, theme::DIM);
    }
    let level = if view.is_uneven(imbalance) { Level::Warning } else { Level::Fine };
    let mut spans = Spans::default();
    spans.push(format!(" {} ", theme::symbol(level)), theme::text(level));
    spans.push(format!("max/mean {}  ", number(imbalance.max_over_mean)), theme::text(level));
    spans.push(format!("Jain {}  ", number(imbalance.jain)), theme::PLAIN);
    let names = imbalance.links.join(", ");
    // Of captures that tell no directions apart the names say all.
    let of = match imbalance.direction {
        Some(_) => format!("{} {names}", direction(imbalance.direction)),
        None => names,
    };
    spans.push(of, theme::DIM);
    spans.into_line()
}

fn entropy(view: &View) -> Vec<Line<'static>> {
    let number = |n: Option<f64>| n.map_or_else(|| units::UNKNOWN.to_owned(), |n| format!("{n:.2}"));
    let mut lines = vec![Line::styled(" ECMP ENTROPY (5-tuple hash)", theme::HEAD)];
    let entropy = match super::overview::entropy_shown(view) {
        Ok(entropy) => entropy,
        Err(why) => {
            lines.push(Line::styled(format!(" {why}"), theme::DIM));
            return lines;
        }
    };
    let mut counts = Spans::default();
    let s = |n: u64| if n == 1 { "" } else { "s" };
    let (tuples, ports) = (entropy.five_tuples, entropy.source_ports);
    counts.push(format!(" {} 5-tuple{}", units::count(tuples), s(tuples)), theme::BOLD);
    counts.push(format!(", {} source port{}", units::count(ports), s(ports)), theme::PLAIN);
    counts.push(format!(" ≈ {} equal flows", number(entropy.effective_flows)), theme::PLAIN);
    lines.push(counts.into_line());
    let level = view.active_level(Problem::Hashing);
    let mut bits = Spans::default();
    bits.push(
        format!(
            " entropy {} bits, {} of maximum ",
            number(entropy.entropy_bits),
            units::ratio(entropy.normalized)
        ),
        theme::text(level),
    );
    bits.push(bar(entropy.normalized.unwrap_or(0.0), 10), theme::BAR);
    lines.push(bits.into_line());
    let mut top = Spans::default();
    top.push(format!(" top 5-tuple carries {} of bytes ", units::ratio(entropy.top_share)), theme::PLAIN);
    top.push(bar(entropy.top_share.unwrap_or(0.0), 10), theme::BAR);
    lines.push(top.into_line());
    if let Some(bytes) = entropy.unattributed_bytes.filter(|bytes| *bytes > 0) {
        lines.push(Line::raw(format!(" {} of unknown 5-tuples", units::bytes(bytes))));
    }
    lines
}

/// The time covered by what is computed since the start and not kept per snapshot.
fn since(view: &View) -> String {
    match view.analysis.as_ref().filter(|_| view.past()) {
        Some(analysis) => format!("from the start to {}", units::clock_utc(analysis.time_ns)),
        None => "since the start".to_owned(),
    }
}

/// Rails, where the user declared them.
fn rails(view: &View) -> Vec<Line<'static>> {
    let rails = view.analysis.iter().flat_map(|analysis| &analysis.report.facts.rails);
    let mut lines = Vec::new();
    for rails in rails {
        let number = |n: Option<f64>| n.map_or_else(|| units::UNKNOWN.to_owned(), |n| format!("{n:.2}"));
        lines.push(Line::styled(
            format!(
                " RAILS {} {}: max/mean {}, Jain {}",
                direction(rails.direction),
                since(view),
                number(rails.max_over_mean),
                number(rails.jain)
            ),
            theme::HEAD,
        ));
        let most = rails.rails.iter().map(|rail| rail.bytes).max().unwrap_or(0).max(1) as f64;
        lines.extend(rails.rails.iter().map(|rail| {
            let mut spans = Spans::default();
            spans.push(format!(" {:<12} ", cut(&rail.name, 12, false)), theme::PLAIN);
            spans.push(bar(rail.bytes as f64 / most, 10), theme::BAR);
            spans.push(format!(" {:>7}  {}", units::bytes(rail.bytes), rail.links.join(", ")), theme::PLAIN);
            spans.into_line()
        }));
    }
    lines
}

/// Simulated ECMP hashing of these flows over some uplinks.
fn what_if(view: &View) -> Vec<Line<'static>> {
    let Some(ecmp) = view.analysis.as_ref().and_then(|analysis| analysis.report.facts.ecmp.as_ref()) else {
        return vec![Line::styled(
            " ECMP WHAT-IF: press n to simulate hashing over 2, 4, 8… uplinks",
            theme::DIM,
        )];
    };
    let mut lines = vec![Line::styled(
        format!(
            " ECMP WHAT-IF over {} uplinks, {}: busiest / mean, p50 and p95 of {} hash seeds",
            ecmp.uplinks,
            since(view),
            ecmp.seeds
        ),
        theme::HEAD,
    )];
    let s = |n: u64| if n == 1 { "" } else { "s" };
    for set in &ecmp.sets {
        let mut spans = Spans::default();
        spans.push(
            format!(" {}: {} 5-tuple{}, ", set.of, units::count(set.five_tuples), s(set.five_tuples)),
            theme::BOLD,
        );
        spans.push(format!("{} carry 80 % of bytes", units::count(set.heavy)), theme::PLAIN);
        lines.push(spans.into_line());
        for case in &set.cases {
            let mut spans = Spans::default();
            let name = crate::analysis::hashing_case(&case.case).unwrap_or_else(|| case.case.clone());
            spans.push(format!("   {name:<26}"), theme::DIM);
            spans.push(
                format!("{:>5.2} {:>5.2} ", case.max_over_mean_p50, case.max_over_mean_p95),
                theme::PLAIN,
            );
            let share = (case.max_over_mean_p50 - 1.0) / (f64::from(ecmp.uplinks) - 1.0).max(1.0);
            spans.push(bar(share, 10), theme::BAR);
            lines.push(spans.into_line());
        }
    }
    lines
}
