//! The worst pairs of hosts, remote hosts, processes, pods, links or rails.

use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::super::{link_names, timeline};
use crate::entity::owners::QpOwner;
use crate::findings::Problem;
use crate::metrics::latency::Bucket;
use crate::metrics::timeline::SignalKind;
use crate::model::over_time::Series;
use crate::model::signals::{About, NOTHING, ROWS};
use crate::model::{Counts, Level, detail};
use crate::tui::column::{self, bar, compact};
use crate::tui::cursor::Cursor;
use crate::tui::data::Data;
use crate::tui::peers::{Peer, PeerGrouping, Shared};
use crate::tui::theme;
use crate::tui::view::View;
use crate::tui::widgets::{Spans, cut, letters, line, select};
use crate::util::units::{self, Scale};

/// A figure: title, its series on the timeline, and its value.
struct Figure {
    title: &'static str,
    series: Series,
    value: fn(&Peer) -> Option<f64>,
    ratio: bool,
}

impl Figure {
    /// Kinds of findings about it.
    fn about(&self) -> About {
        ROWS.iter().find(|row| row.series == self.series).map_or(NOTHING, |row| row.about)
    }

    /// True if problems of this kind are about it.
    fn is_about(&self, kind: Option<Problem>) -> bool {
        kind.is_some_and(|kind| self.about().contains(&kind))
    }
}

const fn count(title: &'static str, signal: SignalKind, value: fn(&Peer) -> Option<f64>) -> Figure {
    Figure { title, series: Series::Signal(signal), value, ratio: false }
}

/// Figures of trouble, those that matter most first.
const FIGURES: [Figure; 6] = [
    count("LOST", SignalKind::Lost, |peer| sequence(peer, |counts| counts.lost)),
    count("RETX", SignalKind::Retransmitted, |peer| sequence(peer, |counts| counts.retransmitted)),
    count("NAK rx", SignalKind::Nak, |peer| answers(peer, Counts::naks)),
    count("RNR rx", SignalKind::Rnr, |peer| answers(peer, |counts| counts.rnr)),
    Figure { title: "CE %", series: Series::CeRatio, value: |peer| peer.counts.ce_ratio(), ratio: true },
    count("CNP", SignalKind::Cnp, |peer| Some(peer.counts.cnp as f64)),
];

/// A count of PSNs; unknown of a row without a PSN sequence, as of ACKs alone.
fn sequence(peer: &Peer, count: fn(&Counts) -> u64) -> Option<f64> {
    peer.counts.of_sequence(count).map(|n| n as f64)
}

/// A count of NAKs; unknown of a row without an observed answer.
fn answers(peer: &Peer, count: fn(&Counts) -> u64) -> Option<f64> {
    peer.counts.of_answers(count).map(|n| n as f64)
}

/// Columns of a figure.
const FIGURE: usize = 6;

/// Columns of an address without IPv6, and with it.
const ADDRESSES: [usize; 2] = [15, 39];
/// Columns of the bar of a row's share with its number, and of a process and a pod. A bar grows where there is room,
/// and what is left shows long names.
const SHARE: usize = 14;
const PERCENT: usize = 5;
const LONGEST: usize = 36;
const PROCESS: usize = 16;
/// Figures that come before queue pairs and process while a problem lasts, at least.
const FIRST: usize = 2;
const POD: usize = 24;
/// Title of the process.
const OWNER: &str = "PROCESS";
/// Title of the queue pairs at both ends.
const PAIR: &str = "WORST QP";
/// The same where each row is one queue pair, and columns of how many there are.
const OWN: &str = "QP";
const QPS: usize = 4;
/// Columns of a time.
const LATENCY: usize = 7;

/// The name of what the flows of a row share.
pub(super) fn name(shared: &Shared, data: &Data) -> String {
    match shared {
        Shared::Hosts(src, dst) => format!("{src} → {dst}"),
        Shared::QueuePair(src, dst, qp) => format!("{src} → {dst} QP {qp}"),
        Shared::Remote(Some(host)) => host.to_string(),
        Shared::Remote(None) => "on a tap: no host is remote".to_owned(),
        Shared::Process(name) => name.clone().unwrap_or_else(|| "process unknown".to_owned()),
        Shared::Pod(name) => name.clone().unwrap_or_else(|| "no pod, or unknown".to_owned()),
        Shared::Job(name) => name.clone().unwrap_or_else(|| "no job, or unknown".to_owned()),
        Shared::Rail(name) => name.clone().unwrap_or_else(|| "no rail named".to_owned()),
        Shared::Link(link) => {
            data.model.links.get(usize::from(*link)).map_or_else(String::new, column::shown_link)
        }
    }
}

/// The columns that fit.
struct Columns {
    by: PeerGrouping,
    /// Letters of an address, where there are two.
    address: usize,
    /// Columns of the name.
    name: usize,
    /// Columns of the number of queue pairs, or of those at both ends where a row is one.
    qps: usize,
    /// Figures with a value in some row.
    figures: Vec<&'static Figure>,
    /// The others, which stand behind everything that has values.
    quiet: Vec<&'static Figure>,
    /// True if the median and the 99th percentile of the latency have their columns.
    p50: bool,
    p99: bool,
    /// Columns of the bar; 0 where there is none.
    share: usize,
    packets: bool,
    link: usize,
    /// Columns of the queue pairs at both ends of the worst one.
    pair: usize,
    process: usize,
    pod: usize,
    units: Units,
}

/// One unit for all rows of each column, which its title names.
struct Units {
    rate: Scale,
    packets: Scale,
    times: Scale,
    percent: Scale,
}

impl Units {
    fn of(data: &Data) -> Self {
        let rates = |of: fn(&Counts) -> u64| {
            data.peers.iter().filter_map(move |peer| per_second(peer, of(&peer.counts) as f64))
        };
        let times = data.peers.iter().filter_map(|peer| peer.latency);
        let times = times.flat_map(|times| [Some(times.p50), times.tail()]).flatten();
        Self {
            rate: Scale::of(rates(|counts| counts.bytes * 8)),
            packets: Scale::of(rates(|counts| counts.packets)),
            times: Scale::of_ns(times.map(|time| time.ns() as f64)),
            percent: Scale::of_ratios(data.peers.iter().filter_map(|peer| peer.counts.ce_ratio())),
        }
    }
}

/// A count of a row per second of its time.
fn per_second(peer: &Peer, count: f64) -> Option<f64> {
    peer.seconds.filter(|seconds| *seconds > 0.0).map(|seconds| count / seconds)
}

/// The queue pairs at both ends of the worst flow of a row.
fn queue_pairs(peer: &Peer, data: &Data) -> String {
    let Some(row) = data.model.rows.get(peer.row) else { return units::UNKNOWN.to_owned() };
    let source = row.at.and_then(|at| detail::peer_qp(&data.sample, at));
    let source = source.map_or_else(|| units::UNKNOWN.to_owned(), |qp| qp.to_string());
    format!("{source} → {}", row.id.key.dest_qp)
}

/// Letters of the longest name, or of the longest of two addresses.
fn longest_name(data: &Data) -> usize {
    let longest = data.peers.iter().map(|peer| match &peer.shared {
        Shared::Hosts(src, dst) | Shared::QueuePair(src, dst, _) => {
            letters(&src.to_string()).max(letters(&dst.to_string()))
        }
        other => letters(&name(other, data)),
    });
    longest.max().unwrap_or(0)
}

/// Columns that are left.
struct ColumnsLeft(usize);

impl ColumnsLeft {
    fn take(&mut self, columns: usize) -> bool {
        let fits = columns <= self.0;
        if fits {
            self.0 -= columns;
        }
        fits
    }

    /// The columns of a part that is shown, more where there is room, but `most` at most.
    fn grow(&mut self, columns: usize, most: usize) -> usize {
        let more = if columns > 0 { self.0.min(most.saturating_sub(columns)) } else { 0 };
        self.0 -= more;
        columns + more
    }
}

/// True if rows have owners: of a remote host or a link there may be several.
fn is_owned(data: &Data) -> bool {
    matches!(data.by, PeerGrouping::Hosts | PeerGrouping::QueuePairs) && !data.sample.owners.all().is_empty()
}

/// Columns of the processes with their numbers, as far as that many are usual, and of their names alone; none where
/// rows have no owners.
fn processes(data: &Data) -> Vec<usize> {
    if !is_owned(data) {
        return Vec::new();
    }
    let owners = || data.sample.owners.all().iter();
    let longest = |of: &dyn Fn(&QpOwner) -> Option<String>| {
        let longest = owners().filter_map(of).map(|name| letters(&name)).max().unwrap_or(0);
        longest.clamp(letters(OWNER), PROCESS)
    };
    vec![longest(&column::process), longest(&|owner| owner.comm.clone())]
}

/// The columns of what is wrong, and of whose it is.
struct ErrorColumns {
    figures: Vec<&'static Figure>,
    /// Those without a value in any row.
    quiet: Vec<&'static Figure>,
    pair_shown: bool,
    process: usize,
}

impl ErrorColumns {
    /// Figures with values come first, and of them those that the headline is about. `pair`: columns of the queue pairs
    /// of the worst flow, 0 where a row is one.
    fn new(data: &Data, headline: Option<Problem>, pair: usize, room: &mut ColumnsLeft) -> Self {
        let shows =
            |figure: &Figure| data.peers.iter().any(|peer| (figure.value)(peer).is_some_and(|n| n > 0.0));
        let (some, quiet): (Vec<&Figure>, Vec<_>) = FIGURES.iter().partition(|figure| shows(figure));
        let troubled = |peer: &Peer| peer.judged.active && peer.judged.level() > Level::Fine;
        let troubled = data.peers.iter().any(troubled);
        let first = |figure: &&Figure| !troubled || figure.is_about(headline);
        let (mut first, mut others): (Vec<&Figure>, Vec<_>) = some.iter().copied().partition(first);
        first.extend(others.drain(..FIRST.saturating_sub(first.len()).min(others.len())));
        let fitting = |room: &mut ColumnsLeft, figures: Vec<&'static Figure>| -> Vec<&'static Figure> {
            figures.into_iter().filter(|_| room.take(FIGURE + 1)).collect()
        };
        let mut figures = fitting(room, first);
        // Whose trouble it is matters more than what else was counted.
        let pair_shown = pair > 0 && troubled && room.take(pair + 1);
        let process = processes(data).into_iter().find(|columns| room.take(columns + 1)).unwrap_or(0);
        figures.extend(fitting(room, others));
        figures.sort_by_key(|figure| some.iter().position(|one| std::ptr::eq(*one, *figure)));
        Self { figures, quiet, pair_shown, process }
    }
}

impl Columns {
    /// Those that fit into `width`; `headline`: the kind of the problem that the headline names.
    fn new(data: &Data, width: usize, headline: Option<Problem>) -> Self {
        let longest = longest_name(data);
        let [v4, v6] = ADDRESSES;
        let pairs = matches!(data.by, PeerGrouping::Hosts | PeerGrouping::QueuePairs);
        let most = if data.model.has_ipv6 || !pairs { v6 } else { v4 };
        let address = longest.clamp(if width < 70 { 9 } else { 11 }, most);
        let pair = data.peers.iter().map(|peer| letters(&queue_pairs(peer, data))).max().unwrap_or(0);
        let own = (data.by == PeerGrouping::QueuePairs).then(|| pair.max(OWN.len()));
        // Mark, name, number of queue pairs or the numbers of one, rate.
        let named = |address: usize| if pairs { 2 * address + 3 } else { address };
        let qps = own.unwrap_or(QPS);
        let fixed = |address: usize| 3 + named(address) + qps + 1 + 8;
        let address = if fixed(address) + 3 * 7 > width {
            let room = width.saturating_sub(40);
            address.min(if pairs { room / 2 } else { room }).max(9)
        } else {
            address
        };
        let mut room = ColumnsLeft(width.saturating_sub(fixed(address) + 1));
        let pair = if own.is_some() { 0 } else { pair.max(letters(PAIR)) };
        let ErrorColumns { figures, quiet, pair_shown, process } =
            ErrorColumns::new(data, headline, pair, &mut room);
        let times = || data.peers.iter().filter_map(|peer| peer.latency);
        let p99 = times().any(|times| times.tail().is_some()) && room.take(LATENCY + 1);
        let p50 = times().next().is_some() && room.take(LATENCY + 1);
        let share = room.take(SHARE + 1);
        let packets = room.take(8);
        let several = data.model.links.len() > 1 && data.by != PeerGrouping::Link;
        let link = if several && room.take(17) { 16 } else { 0 };
        let pair_shown = pair_shown || pair > 0 && room.take(pair + 1);
        let pair = if pair_shown { pair } else { 0 };
        let pods = is_owned(data) && data.sample.owners.all().iter().any(|owner| owner.pod.is_some());
        let pod = if pods && room.take(POD + 1) { POD } else { 0 };
        // Nothing with values has less room for zeros.
        let quiet = quiet.into_iter().filter(|_| room.take(FIGURE + 1)).collect();
        let owners = || data.sample.owners.all().iter();
        let longest = owners().filter_map(column::process).map(|name| letters(&name)).max().unwrap_or(0);
        let longest_pod = owners().filter_map(|owner| owner.pod.as_deref()).map(letters).max().unwrap_or(0);
        let (process, pod) = (room.grow(process, longest), room.grow(pod, longest_pod));
        let share = room.grow(if share { SHARE } else { 0 }, LONGEST);
        let (name, units) = (named(address), Units::of(data));
        let by = data.by;
        Self {
            by,
            address,
            name,
            qps,
            figures,
            quiet,
            p50,
            p99,
            share,
            packets,
            link,
            pair,
            process,
            pod,
            units,
        }
    }

    fn titles(&self) -> Line<'static> {
        let by = self.by;
        let title = match by {
            PeerGrouping::Hosts | PeerGrouping::QueuePairs => {
                format!("{:<a$}   DESTINATION", "SOURCE", a = self.address)
            }
            other => other.noun().to_uppercase(),
        };
        let rate = format!("{}b/s", self.units.rate.prefix());
        let mut text = format!("   {title:<n$} ", n = self.name);
        let _ = match by {
            PeerGrouping::QueuePairs => write!(text, "{OWN:<w$}", w = self.qps),
            _ => write!(text, "{:>w$}", "QPs", w = self.qps),
        };
        let _ = write!(text, " {rate:>7}");
        if self.share > 0 {
            let _ = write!(text, " {:<w$}", "SHARE", w = self.share);
        }
        if self.packets {
            let _ = write!(text, " {:>7}", format!("{}pkt/s", self.units.packets.prefix()));
        }
        for figure in &self.figures {
            let _ = write!(text, " {:>FIGURE$}", figure.title);
        }
        for (name, _) in [("p50", self.p50), ("p99", self.p99)].into_iter().filter(|(_, shown)| *shown) {
            let _ = write!(text, " {:>LATENCY$}", format!("{name} {}", self.units.times.time_unit()));
        }
        if self.pair > 0 {
            let _ = write!(text, " {PAIR:<w$}", w = self.pair);
        }
        if self.link > 0 {
            let _ = write!(text, " {:<w$}", "LINK", w = self.link);
        }
        if self.process > 0 {
            let _ = write!(text, " {OWNER:<w$}", w = self.process);
        }
        if self.pod > 0 {
            let _ = write!(text, " {:<w$}", "POD", w = self.pod);
        }
        for figure in &self.quiet {
            let _ = write!(text, " {:>FIGURE$}", figure.title);
        }
        Line::styled(text, theme::DIM)
    }

    fn row(&self, peer: &Peer, data: &Data, all: f64) -> Line<'static> {
        let level = peer.judged.level();
        let (symbol, style) = match peer.judged.worst {
            Some(_) => theme::mark(level, peer.judged.active),
            None if peer.judged.known => theme::mark(Level::Fine, true),
            None => (" ", theme::PLAIN),
        };
        let mut spans = Spans::default();
        spans.push(format!(" {symbol} "), style);
        self.subject(&mut spans, peer, data);
        let units = &self.units;
        let rate = units.rate.show(per_second(peer, peer.counts.bytes as f64 * 8.0));
        spans.push(format!("{rate:>7}"), theme::BOLD);
        if self.share > 0 {
            let share = if all > 0.0 { peer.counts.bytes as f64 / all } else { 0.0 };
            let percent = match share * 100.0 {
                percent if percent > 0.0 && percent < 0.5 => "<1 %".to_owned(),
                percent => format!("{percent:.0} %"),
            };
            spans.push(format!(" {percent:>PERCENT$} "), theme::PLAIN);
            spans.push(line_bar(share, self.share - PERCENT - 1), theme::BAR);
        }
        if self.packets {
            let packets = units.packets.show(per_second(peer, peer.counts.packets as f64));
            spans.push(format!(" {packets:>7}"), theme::PLAIN);
        }
        let cells = |spans: &mut Spans, figures: &[&Figure]| {
            for figure in figures {
                let (text, style) = cell(figure, peer, &units.percent);
                spans.push(format!(" {text:>FIGURE$}"), style);
            }
        };
        cells(&mut spans, &self.figures);
        let p50 = peer.latency.map(|times| (times.p50, times.p50_is_least()));
        let p99 = peer.latency.and_then(|times| Some((times.tail()?, times.p99_is_least())));
        for (time, _) in [(p50, self.p50), (p99, self.p99)].into_iter().filter(|(_, shown)| *shown) {
            let least = if time.is_some_and(|(_, is_least)| is_least) { units::LEAST } else { "" };
            let text = units.times.show(time.map(|(time, _): (Bucket, bool)| time.ns() as f64));
            let text = format!("{least}{text}");
            spans.push(format!(" {text:>LATENCY$}"), theme::PLAIN);
        }
        if self.pair > 0 {
            spans.push(format!(" {:<w$}", queue_pairs(peer, data), w = self.pair), theme::PLAIN);
        }
        self.link(&mut spans, peer, data);
        self.owner(&mut spans, peer, data);
        cells(&mut spans, &self.quiet);
        spans.into_line()
    }

    /// The common property of its flows, and the number of queue pairs or those at both ends.
    fn subject(&self, spans: &mut Spans, peer: &Peer, data: &Data) {
        let address = |address: crate::sample::Address| cut(&address.to_string(), self.address, true);
        match &peer.shared {
            Shared::Hosts(src, dst) | Shared::QueuePair(src, dst, _) => {
                spans.push(format!("{:<a$} ", address(*src), a = self.address), theme::PLAIN);
                spans.push("→", theme::DIM);
                spans.push(format!(" {:<a$}", address(*dst), a = self.address), theme::PLAIN);
            }
            other => {
                let text = cut(&name(other, data), self.name, true);
                spans.push(format!("{text:<n$}", n = self.name), theme::PLAIN);
            }
        }
        let qps = match &peer.shared {
            Shared::QueuePair(..) => format!(" {:<w$} ", queue_pairs(peer, data), w = self.qps),
            _ => format!(" {:>w$} ", peer.flows, w = self.qps),
        };
        spans.push(qps, theme::PLAIN);
    }

    /// The links that it passes: one with its direction, several by their names.
    fn link(&self, spans: &mut Spans, peer: &Peer, data: &Data) {
        if self.link == 0 {
            return;
        }
        let on: Vec<_> =
            peer.links.iter().filter_map(|link| data.model.links.get(usize::from(*link))).collect();
        let files = timeline::chart::names_of_files(data);
        let text = if let Some(files) = files {
            let names = peer.links.iter().filter_map(|link| files.get(usize::from(*link)));
            let text = names.map(String::as_str).collect::<Vec<_>>().join(", ");
            if letters(&text) > self.link && on.len() > 1 {
                "several".to_owned()
            } else {
                cut(&text, self.link, true)
            }
        } else if let [link] = on[..] {
            let way = match link.direction {
                Some(crate::sample::Direction::Ingress) => " in",
                Some(crate::sample::Direction::Egress) => " out",
                None => "",
            };
            link_names::short(&data.model, link, self.link - 4) + way
        } else {
            let names: std::collections::BTreeSet<_> =
                on.iter().map(|link| link_names::short(&data.model, link, self.link)).collect();
            let text = names.into_iter().collect::<Vec<_>>().join(", ");
            if text.chars().count() > self.link { "several".to_owned() } else { text }
        };
        spans.push(format!(" {text:<w$}", w = self.link), theme::DIM);
    }

    /// Adds process and pod of the queue pairs.
    fn owner(&self, spans: &mut Spans, peer: &Peer, data: &Data) {
        let cx = data.context();
        let owner = data.model.rows.get(peer.row).and_then(|row| cx.owner(row));
        let known = |text: Option<String>| text.unwrap_or_else(|| units::UNKNOWN.to_owned());
        if self.process > 0 {
            // Where the number has no room, the name has.
            let whole = owner.and_then(column::process);
            let fits = whole.as_ref().is_none_or(|text| letters(text) <= self.process);
            let name = owner.and_then(|owner| owner.comm.clone()).filter(|_| !fits);
            let text = cut(&known(name.or(whole)), self.process, false);
            spans.push(format!(" {text:<w$}", w = self.process), theme::PLAIN);
        }
        if self.pod > 0 {
            let text = known(owner.and_then(|owner| owner.pod.clone()));
            spans.push(format!(" {:<w$}", cut(&text, self.pod, true), w = self.pod), theme::PLAIN);
        }
    }
}

fn cell(figure: &Figure, peer: &Peer, percent: &Scale) -> (String, Style) {
    match (figure.value)(peer) {
        None => (units::UNKNOWN.to_owned(), theme::DIM),
        Some(value) if value <= 0.0 => ("0".to_owned(), theme::DIM),
        Some(value) => {
            let text = if figure.ratio { percent.show_percent(Some(value)) } else { compact(value) };
            (text, theme::text(peer.judged.level_of(figure.about())))
        }
    }
}

/// A bar without its empty part.
fn line_bar(share: f64, width: usize) -> String {
    bar(share, u16::try_from(width).unwrap_or(0)).replace('·', " ")
}

/// The table: titles, and the pairs from the first visible one on. `selected` is the place of the selected one.
pub(super) fn render(buffer: &mut Buffer, area: Rect, view: &View, data: &Data, cursor: Cursor) {
    let worst = view.verdict().and_then(|verdict| verdict.headline).filter(|worst| worst.active);
    let columns = Columns::new(data, usize::from(area.width), worst.and_then(Problem::of));
    line(buffer, area, 0, &columns.titles());
    // Of what all rows carry: links count each packet on each of them.
    let all = data.peers.iter().map(|peer| peer.counts.bytes as f64).sum::<f64>();
    let all = if data.by == PeerGrouping::Link {
        all
    } else {
        all.max(data.model.dedup.delta.map_or(0.0, |d| d.counts.bytes as f64))
    };
    for (y, (place, peer)) in (1..area.height).zip(data.peers.iter().enumerate().skip(cursor.offset)) {
        line(buffer, area, y, &columns.row(peer, data, all));
        if cursor.selected == Some(place) {
            select(buffer, Rect { y: area.y + y, height: 1, ..area });
        }
    }
}

/// Order of the rows and number of flows, in words.
pub(super) fn about(view: &View) -> String {
    let Some(data) = &view.data else { return String::new() };
    let flows = units::plural(data.model.dedup.flows as u64, "flow");
    format!("by impact · {flows}")
}
