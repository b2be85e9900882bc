//! Below the list of links: devices, balance, entropy, rails, ECMP what-if.

use ratatui::text::Line;

use super::super::{devices, entropy, link_names, timeline};
use crate::analysis;
use crate::analysis::Imbalance;
use crate::findings::Problem;
use crate::model::{Level, LinkRow};
use crate::tui::column::bar;
use crate::tui::data::Data;
use crate::tui::key::Input;
use crate::tui::theme;
use crate::tui::view::View;
use crate::tui::widgets::panel::section;
use crate::tui::widgets::{Spans, cut, spark};
use crate::util::layout::tap_name;
use crate::util::units;
use crate::util::wrap::hanging;

/// Label of the balance over time.
const OVER_TIME: &str = " busiest/mean, ";

/// Everything below the list of links. The what-if stands right behind the balance, which it is compared with.
pub(super) fn lines(view: &View, data: &Data, width: usize) -> Vec<Line<'static>> {
    let mut lines = before_what_if(view, data, width);
    lines.extend(what_if(view, width));
    lines.extend(entropy(view, width));
    lines.extend(rails(view, width));
    lines
}

fn before_what_if(view: &View, data: &Data, width: usize) -> Vec<Line<'static>> {
    let mut lines = devices::lines(view, width);
    lines.extend(balance(view, data, width));
    lines
}

/// The first line shown where `room` lines show the what-if: all of it with what stands before, else from its title on.
pub(super) fn at_what_if(view: &View, data: &Data, width: usize, room: usize) -> usize {
    let title = before_what_if(view, data, width).len();
    title.min((title + what_if(view, width).len()).saturating_sub(room))
}

fn balance(view: &View, data: &Data, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![section("LOAD BALANCE", "across parallel links", width)];
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
        if let Some(trend) = imbalance_over_time(data, imbalance, width) {
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

/// The ratio of the busiest link to the mean over the columns of the load over time, below which it stands; 1 is even.
fn imbalance_over_time(data: &Data, imbalance: &Imbalance, width: usize) -> Option<Line<'static>> {
    let (before, cells) = timeline::chart::chart_columns(data, width);
    let member =
        |link: &LinkRow| link.direction == imbalance.direction && imbalance.links.contains(&link.name);
    let members = data.model.links.iter().enumerate().filter(|(_, link)| member(link)).map(|(at, _)| at);
    let loads = members.map(|at| timeline::chart::load_of(data, at, cells)).collect::<Option<Vec<_>>>()?;
    let columns = loads.iter().map(Vec::len).min()?;
    let ratio = |column: usize| {
        let loads: Option<Vec<f64>> = loads.iter().map(|load| *load.get(column)?).collect();
        let loads = loads?;
        let mean = loads.iter().sum::<f64>() / loads.len() as f64;
        (mean > 0.0).then(|| loads.iter().copied().fold(0.0, f64::max) / mean)
    };
    let above: Vec<Option<f64>> = (0..columns).map(|column| Some(ratio(column)? - 1.0)).collect();
    let mut spans = Spans::default();
    spans.push(format!("{:<before$}", format!("{OVER_TIME}1 to {}", loads.len())), theme::DIM);
    spans.push(spark(&above, loads.len() as f64 - 1.0), theme::BAR);
    Some(spans.into_line())
}

pub(in crate::tui::screens) fn balance_of(imbalance: &Imbalance, view: &View) -> Line<'static> {
    let number = |n: Option<f64>| n.map_or_else(|| units::UNKNOWN.to_owned(), |n| format!("{n:.2}"));
    if imbalance.same_path {
        let names = names(&imbalance.links);
        let text =
            format!(" not compared (same path): {} {names}", link_names::direction(imbalance.direction));
        return Line::styled(text, theme::DIM);
    }
    let level = if view.is_uneven(imbalance) { Level::Warning } else { Level::Fine };
    let mut spans = Spans::default();
    spans.push(format!(" {} ", theme::symbol(level)), theme::text(level));
    // The symbol is that of the finding, which may be about a part of the time that the number is of.
    spans.push(format!("max/mean {}  ", number(imbalance.max_over_mean)), theme::PLAIN);
    spans.push(format!("Jain {}  ", number(imbalance.jain)), theme::PLAIN);
    let names = names(&imbalance.links);
    // Of captures that tell no directions apart the names say all.
    let of = match imbalance.direction {
        // With a colon, as "in" before a name reads as a preposition.
        Some(_) => format!("{}: {names}", link_names::direction(imbalance.direction)),
        None => names,
    };
    spans.push(of, theme::DIM);
    spans.into_line()
}

/// Names of links as everywhere on the screen: without the suffix of a capture file.
fn names(links: &[String]) -> String {
    links.iter().map(|link| tap_name(link)).collect::<Vec<_>>().join(", ")
}

fn entropy(view: &View, width: usize) -> Vec<Line<'static>> {
    let number = |n: Option<f64>| n.map_or_else(|| units::UNKNOWN.to_owned(), |n| format!("{n:.2}"));
    let mut lines = vec![section("ECMP ENTROPY", "of the data's 5-tuples", width)];
    let entropy = match entropy::shown(view) {
        Ok(entropy) => entropy,
        Err(why) => {
            lines.push(Line::styled(format!(" {why}"), theme::DIM));
            return lines;
        }
    };
    let mut counts = Spans::default();
    let s = |n: u64| if n == 1 { "" } else { "s" };
    let (tuples, ports) = (entropy.tuples.five_tuples, entropy.tuples.source_ports);
    counts.push(format!(" {} 5-tuple{}", units::count(tuples), s(tuples)), theme::BOLD);
    counts.push(format!(", {} source port{}", units::count(ports), s(ports)), theme::PLAIN);
    counts.push(format!(", {}", entropy::effective(&entropy)), theme::PLAIN);
    lines.push(counts.into_line());
    let level = view.active_level(Problem::Hashing);
    let mut bits = Spans::default();
    bits.push(format!(" entropy {} bits", number(entropy.tuples.entropy_bits)), theme::text(level));
    // One 5-tuple has no maximum.
    if let Some(normalized) = entropy.tuples.normalized {
        bits.push(format!(", {} of maximum ", units::ratio(Some(normalized))), theme::text(level));
        bits.push(bar(normalized, 10), theme::BAR);
    }
    lines.push(bits.into_line());
    let mut top = Spans::default();
    top.push(
        format!(" top 5-tuple carries {} of bytes ", units::ratio(entropy.tuples.top_share)),
        theme::PLAIN,
    );
    top.push(bar(entropy.tuples.top_share.unwrap_or(0.0), 10), theme::BAR);
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
fn rails(view: &View, width: usize) -> Vec<Line<'static>> {
    let rails = view.analysis.iter().flat_map(|analysis| &analysis.report.facts.rails);
    let mut lines = Vec::new();
    for rails in rails {
        let number = |n: Option<f64>| n.map_or_else(|| units::UNKNOWN.to_owned(), |n| format!("{n:.2}"));
        let about = format!(
            "{} {}: max/mean {}, Jain {}",
            link_names::direction(rails.direction),
            since(view),
            number(rails.max_over_mean),
            number(rails.jain)
        );
        lines.push(section("RAILS", &about, width));
        let most = rails.rails.iter().map(|rail| rail.bytes).max().unwrap_or(0).max(1) as f64;
        lines.extend(rails.rails.iter().map(|rail| {
            let mut spans = Spans::default();
            spans.push(format!(" {:<12} ", cut(&rail.name, 12, false)), theme::PLAIN);
            spans.push(bar(rail.bytes as f64 / most, 10), theme::BAR);
            spans.push(format!(" {:>7}  {}", units::bytes(rail.bytes), names(&rail.links)), theme::PLAIN);
            spans.into_line()
        }));
    }
    lines
}

/// Simulated ECMP hashing of these flows over some uplinks.
fn what_if(view: &View, width: usize) -> Vec<Line<'static>> {
    let Some(ecmp) = view.analysis.as_ref().and_then(|analysis| analysis.report.facts.ecmp.as_ref()) else {
        let key = view.options.keys.first(Input::MoreUplinks);
        return vec![section(
            "ECMP WHAT-IF",
            &format!("· {key} simulates hashing over 2, 4, 8… uplinks"),
            width,
        )];
    };
    let about = format!("over {} uplinks: busiest / mean, p50 and p95 of {} seeds", ecmp.uplinks, ecmp.seeds);
    let mut lines = vec![section("ECMP WHAT-IF", &about, width)];
    let s = |n: u64| if n == 1 { "" } else { "s" };
    for set in &ecmp.sets {
        let mut spans = Spans::default();
        spans.push(
            format!(" {}: {} 5-tuple{}, ", set.of, units::count(set.five_tuples), s(set.five_tuples)),
            theme::BOLD,
        );
        let heavy = format!("{} carry 80 % of bytes {}", units::count(set.heavy), since(view));
        spans.push(heavy, theme::PLAIN);
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
