//! The table of links: received to the left, sent to the right, on one scale; and the figures of both.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::super::link_names;
use super::pair::{Pair, length, listed, load, pairs};
use crate::model::signals::{self, About};
use crate::model::{Delta, Level, LinkRow};
use crate::tui::column::compact;
use crate::tui::cursor::Cursor;
use crate::tui::data::Data;
use crate::tui::theme;
use crate::tui::view::View;
use crate::tui::widgets::{Spans, line, select};
use crate::util::layout::tap_name;
use crate::util::units::{self, Scale};

/// Cells of a bar to one side, at most.
const CELLS: usize = 40;
/// Share of a link's speed below which bars of it hide how links differ.
const LITTLE: f64 = 0.05;
/// Columns of a rate.
const RATE: usize = 8;

/// Text and style of a figure.
type Cell = Box<dyn Fn(&Pair<'_>) -> (String, Style)>;

/// A figure of a link, with its unit in the title.
struct Figure {
    title: String,
    width: usize,
    cell: Cell,
    /// Columns that the next one needs as well, without which it is of no use.
    with_next: usize,
}

impl Figure {
    fn new(title: impl Into<String>, cell: impl Fn(&Pair<'_>) -> (String, Style) + 'static) -> Self {
        let title = title.into();
        Self { width: title.chars().count().max(6), title, cell: Box::new(cell), with_next: 0 }
    }
}

/// Titles of the table without prefixes of units, and their meanings, for the help.
pub(in crate::tui) const HELP: &[(&str, &str)] = &[
    ("LINK", "link, with the symbol of the worst finding about it"),
    ("SPEED", "speed of the link"),
    (
        "RX b/s, TX b/s",
        "received and sent in the time range; bars run from the middle, the frame names their scale",
    ),
    ("LOST", "packets lost, both directions"),
    ("CE %", "CE-marked share of ECN-capable data packets, of the worse direction"),
    ("QPs", "queue pairs with packets since the start"),
    (
        "FLOWS",
        "directions of queue pairs with packets since the start, where the link's direction is unknown",
    ),
    ("UTIL %", "share of the link's speed that is used, of the busier direction"),
    ("RX pkt/s, TX pkt/s", "packets per second"),
    ("TOTAL RX B, TX B", "bytes since the start"),
    ("TOTAL NON-ROCE", "frames since the start that are not RoCE"),
];

/// One direction of a link.
type LinkOfPair = for<'p> fn(&'p Pair<'_>) -> Option<&'p LinkRow>;

/// Scale of the bars.
#[derive(Clone, Copy)]
enum Full {
    /// The speed of each link.
    Speed,
    /// The load of the busiest link, in bits per second, and its speed: one is unknown, or all carry so little that
    /// bars of their speed would all look the same.
    Busiest(f64, Option<f64>),
}

impl Full {
    fn of(pairs: &[Pair<'_>]) -> Self {
        let speed = |pair: &Pair<'_>| pair.speed.filter(|speed| *speed > 0.0);
        let used = |pair: &Pair<'_>| speed(pair).map_or(0.0, |speed| pair.load() / speed);
        let known = !pairs.is_empty() && pairs.iter().all(|pair| speed(pair).is_some());
        if known && (pairs.len() == 1 || pairs.iter().any(|pair| used(pair) >= LITTLE)) {
            return Self::Speed;
        }
        let busiest = pairs.iter().max_by(|a, b| a.load().total_cmp(&b.load()));
        Self::Busiest(busiest.map_or(0.0, Pair::load), busiest.filter(|_| known).and_then(speed))
    }

    fn share(self, link: Option<&LinkRow>, speed: Option<f64>) -> f64 {
        let full = match self {
            Self::Speed => speed.unwrap_or(0.0),
            Self::Busiest(most, _) => most,
        };
        link.map_or(0.0, |link| if full > 0.0 { load(link) / full } else { 0.0 })
    }
}

/// Meaning of a full bar, in words.
pub(in crate::tui::screens) fn scale(data: &Data) -> String {
    match Full::of(&pairs(&data.model, &data.sample)) {
        Full::Speed => "full bar: link speed".to_owned(),
        Full::Busiest(most, speed) if data.model.links.iter().any(|link| link.delta.is_some()) => {
            let of = speed.map_or_else(
                || ", speed unknown".to_owned(),
                |speed| format!(" ({} of {})", units::ratio(Some(most / speed)), speed_of_link(speed)),
            );
            format!("full bar: {}{of}", units::bit_rate(most))
        }
        Full::Busiest(..) => String::new(),
    }
}

/// The columns of a table of links.
pub(in crate::tui::screens) struct Columns {
    /// Columns of a name, and cells of a bar.
    name: usize,
    cells: usize,
    speeds: bool,
    directed: bool,
    rates: Scale,
    full: Full,
    figures: Vec<Figure>,
}

/// A link speed as it is named: `100G`, `100M`.
fn speed_of_link(bits_per_s: f64) -> String {
    if bits_per_s < 1e9 { format!("{}M", bits_per_s / 1e6) } else { format!("{}G", bits_per_s / 1e9) }
}

impl Columns {
    /// Those that fit into `width` for these links; of the figures those that are `wanted`.
    pub(in crate::tui::screens) fn new(
        view: &View,
        data: &Data,
        pairs: &[Pair<'_>],
        width: usize,
        (wanted, most): (fn(&str) -> bool, usize),
    ) -> Self {
        let links = data.model.links.iter();
        let longest = links.map(|link| tap_name(&link.name).chars().count()).max().unwrap_or(0);
        let name = longest.clamp(4, (width / 4).max(10));
        let directed = pairs.iter().any(|pair| pair.both.is_none());
        let rates = Scale::of(pairs.iter().flat_map(Pair::directions).filter_map(bits));
        let speeds = pairs.iter().any(|pair| pair.speed.is_some());
        let fixed = 3 + name + if speeds { 7 } else { 0 } + 2 * (RATE + 1) + 3;
        let mut figures = Vec::new();
        let least = (width / 9).clamp(6, 24);
        let mut used = fixed + 2 * least;
        for figure in all_figures(view, pairs).into_iter().filter(|figure| wanted(&figure.title)) {
            if used + figure.width + 1 + figure.with_next > width {
                break;
            }
            used += figure.width + 1;
            figures.push(figure);
        }
        let taken: usize = figures.iter().map(|figure| figure.width + 1).sum();
        // A name is whole before bars are long.
        let bar = 2 * least - if directed { 0 } else { RATE + 1 };
        let more = longest.saturating_sub(name).min(width.saturating_sub(fixed + taken + bar));
        let (name, fixed) = (name + more, fixed + more);
        let cells = (width.saturating_sub(fixed + taken) / 2).min(most);
        Self { name, cells, speeds, directed, rates, full: Full::of(pairs), figures }
    }

    /// The titles, with the unit of the rates.
    pub(in crate::tui::screens) fn titles(&self) -> Line<'static> {
        let (name, cells, prefix) = (self.name, self.cells, self.rates.prefix());
        let mut head = format!("   {:<name$}", "LINK");
        if self.speeds {
            head.push_str("  SPEED");
        }
        let rates = if self.directed {
            let [rx, tx] = ["RX", "TX"].map(|way| format!("{way} {prefix}b/s"));
            format!(" {rx:>RATE$} {:<cells$}│{:>cells$} {tx:<RATE$}", "◀", "▶")
        } else {
            format!(" {:>RATE$} {:<bars$}", format!("{prefix}b/s"), "", bars = 2 * cells + 2 + RATE)
        };
        head.push_str(&rates);
        for figure in &self.figures {
            let _ = write!(head, " {:>1$}", figure.title, figure.width);
        }
        Line::styled(head, theme::DIM)
    }

    /// The row of a link.
    pub(in crate::tui::screens) fn row(&self, view: &View, data: &Data, pair: &Pair<'_>) -> Line<'static> {
        let name = self.name;
        let mut spans = view.sign_of_link(pair.name);
        let shown = pair
            .directions()
            .next()
            .map_or_else(String::new, |link| link_names::short(&data.model, link, name));
        spans.push(format!("{shown:<name$}"), theme::BOLD);
        if self.speeds {
            let speed = pair.speed.map_or_else(|| units::UNKNOWN.to_owned(), speed_of_link);
            spans.push(format!(" {speed:>6}"), theme::PLAIN);
        }
        spans.append(bars(pair, &self.rates, self.full, self.cells));
        for figure in &self.figures {
            let (text, style) = (figure.cell)(pair);
            spans.push(format!(" {text:>0$}", figure.width), style);
        }
        spans.into_line()
    }
}

/// Draws the list of links.
pub(super) fn render(buffer: &mut Buffer, area: Rect, view: &View, data: &Data, cursor: Cursor, page: usize) {
    let pairs = listed(view, data);
    let columns = Columns::new(view, data, &pairs, usize::from(area.width), (|_| true, CELLS));
    line(buffer, area, 0, &columns.titles());
    let visible = pairs.iter().enumerate().skip(cursor.offset).take(page);
    for (y, (place, pair)) in (1..).zip(visible) {
        line(buffer, area, y, &columns.row(view, data, pair));
        if cursor.selected == Some(place) {
            select(buffer, Rect { y: area.y + y, height: 1, ..area });
        }
    }
    let left_out = pairs.len().saturating_sub(cursor.offset + page);
    if let (true, Ok(y)) = (left_out > 0, u16::try_from(page + 1)) {
        line(buffer, area, y, &Line::styled(format!(" +{left_out} more"), theme::DIM));
    }
}

fn bits(link: &LinkRow) -> Option<f64> {
    link.delta.as_ref().map(Delta::bits_per_s)
}

/// Both rates, and a bar to each side of the middle.
fn bars(pair: &Pair<'_>, rates: &Scale, full: Full, cells: usize) -> Spans {
    let rate = |link: Option<&LinkRow>| rates.show(link.and_then(bits));
    let bar = |link, cells| "━".repeat(length(full.share(link, pair.speed), cells));
    let mut spans = Spans::default();
    if pair.both.is_some() {
        spans.push(format!(" {:>RATE$} ", rate(pair.both)), theme::BOLD);
        let room = 2 * cells + 2 + RATE;
        spans.push(format!("{:<room$}", bar(pair.both, room - 1)), theme::BAR);
        return spans;
    }
    spans.push(format!(" {:>RATE$} ", rate(pair.rx)), theme::BOLD);
    spans.push(format!("{:>cells$}", bar(pair.rx, cells)), theme::BAR);
    spans.push("│", theme::FRAME);
    spans.push(format!("{:<cells$} ", bar(pair.tx, cells)), theme::BAR);
    spans.push(format!("{:<RATE$}", rate(pair.tx)), theme::BOLD);
    spans
}

/// Levels of a counter on each link, by names.
struct Levels(BTreeMap<String, Level>);

impl Levels {
    fn of(view: &View, pairs: &[Pair<'_>], about: About) -> Self {
        let levels = pairs.iter().map(|pair| (pair.name.to_owned(), view.level_at(pair.name, about)));
        Self(levels.collect())
    }

    fn at(&self, pair: &Pair<'_>) -> Level {
        self.0.get(pair.name).copied().unwrap_or_default()
    }
}

/// All figures, those that matter most first, and those that are zero or unknown everywhere last.
#[expect(clippy::too_many_lines, reason = "one entry for each column")]
fn all_figures(view: &View, pairs: &[Pair<'_>]) -> Vec<Figure> {
    let quiet = |some: bool, level| if some { theme::text(level) } else { theme::DIM };
    let deltas = |pair: &Pair<'_>| pair.directions().filter_map(|link| link.delta).collect::<Vec<_>>();
    let directed = pairs.iter().any(|pair| pair.both.is_none());
    let (losing, marked) = (Levels::of(view, pairs, signals::LOST), Levels::of(view, pairs, signals::CE));
    let mut all = vec![
        Figure::new("LOST", move |pair| {
            let known = deltas(pair).into_iter().filter_map(|delta| delta.counts.of_sequence(|c| c.lost));
            let lost = known.reduce(|sum, lost| sum + lost);
            let text = lost.map_or_else(|| units::UNKNOWN.into(), |lost| compact(lost as f64));
            (text, quiet(lost.is_some_and(|lost| lost > 0), losing.at(pair)))
        }),
        Figure::new("CE %", move |pair| {
            let ce = deltas(pair).iter().filter_map(|delta| delta.counts.ce_ratio()).reduce(f64::max);
            (units::percent(ce), quiet(ce.is_some_and(|ce| ce > 0.0), marked.at(pair)))
        }),
        // A queue pair has a flow in each direction.
        Figure::new(if directed { "QPs" } else { "FLOWS" }, |pair| {
            let flows = pair.directions().map(|link| link.flows).max().unwrap_or(0);
            (compact(flows as f64), theme::PLAIN)
        }),
    ];
    if pairs.iter().any(|pair| pair.speed.is_some()) {
        all.push(Figure::new("UTIL %", |pair| {
            let most = pair.directions().filter_map(bits).reduce(f64::max);
            let share = most.zip(pair.speed.filter(|speed| *speed > 0.0)).map(|(most, speed)| most / speed);
            (units::percent(share), theme::PLAIN)
        }));
    }
    let packets = |link: &LinkRow| link.delta.as_ref().map(Delta::packets_per_s);
    let ways: Vec<(&str, LinkOfPair)> = if directed {
        vec![("RX ", |pair| pair.rx), ("TX ", |pair| pair.tx)]
    } else {
        vec![("", |pair| pair.both)]
    };
    let rates = Scale::of(pairs.iter().flat_map(Pair::directions).filter_map(packets));
    let bytes = Scale::of(pairs.iter().flat_map(Pair::directions).map(|link| link.total.bytes as f64));
    let ordinary = |text: String| (text, theme::PLAIN);
    for (way, of) in ways.clone() {
        all.push(Figure::new(format!("{way}{}pkt/s", rates.prefix()), move |pair| {
            ordinary(rates.show(of(pair).and_then(packets)))
        }));
    }
    for (way, of) in ways {
        all.push(Figure::new(format!("TOTAL {way}{}B", bytes.prefix()), move |pair| {
            ordinary(bytes.show(of(pair).map(|link| link.total.bytes as f64)))
        }));
    }
    let others = |pair: &Pair<'_>| pair.directions().map(|link| link.skipped.packets).sum::<u64>();
    // Both directions, or neither.
    for at in 1..all.len() {
        if let [.., rx, tx] = all.get_mut(..=at).unwrap_or_default()
            && (rx.title.starts_with("RX") || rx.title.starts_with("TOTAL RX"))
        {
            rx.with_next = tx.width + 1;
        }
    }
    let at = if pairs.iter().any(|pair| others(pair) > 0) { 3 } else { all.len() };
    all.insert(
        at,
        Figure::new("TOTAL NON-ROCE", move |pair| {
            (compact(others(pair) as f64), quiet(others(pair) > 0, Level::Fine))
        }),
    );
    with_values_first(all, pairs)
}

/// Figures that some link has come before those that are zero or unknown everywhere; both directions of one stay
/// together.
fn with_values_first(all: Vec<Figure>, pairs: &[Pair<'_>]) -> Vec<Figure> {
    let has = |figure: &Figure| {
        pairs.iter().any(|pair| (figure.cell)(pair).0.contains(|letter| ('1'..='9').contains(&letter)))
    };
    let mut some: Vec<bool> = all.iter().map(has).collect();
    for at in 1..all.len() {
        if all[at - 1].with_next > 0 {
            let either = some[at - 1] || some[at];
            (some[at - 1], some[at]) = (either, either);
        }
    }
    let mut all: Vec<(bool, Figure)> = some.into_iter().zip(all).collect();
    all.sort_by_key(|(some, _)| !some);
    all.into_iter().map(|(_, figure)| figure).collect()
}
