//! The help of a screen, from the tables of keys, states, columns and events.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use crate::findings::Problem;
use crate::tui::column::COLUMNS;
use crate::tui::column::sets::SETS;
use crate::tui::key::{Binding, Input, KEYMAP};
use crate::tui::log::CLASSES;
use crate::tui::query;
use crate::tui::screen::{Screen, Screens};
use crate::tui::screens::links::table::HELP as LINK_COLUMNS;
use crate::tui::screens::nic;
use crate::tui::theme;
use crate::tui::view::View;
use crate::tui::widgets::{Spans, WIDEST, overlay};
use crate::util::layout::plain;
use crate::util::wrap::wrap;

const NAMES: usize = 18;
/// Columns of the worst peers that the table of queue pairs does not have.
const PEERS: [(&str, &str); 5] = [
    ("QPs", "queue pairs between the two hosts"),
    ("CE %", "CE-marked share of what the source sends to the destination"),
    ("NAK rx, RNR rx", "NAKs and RNR NAKs that the source received for what it sent"),
    ("CNP", "CNPs to the source: rate reductions requested"),
    (
        "WORST QP",
        "queue pair that the worst finding lists first, else the one with most errors or traffic: at the source → at the destination",
    ),
];
/// Columns of the matrix's list that the table of queue pairs explains.
const PAIR_COLUMNS: [&str; 6] = ["LOST", "RETX", "NAK rx", "RNR rx", "CE %", "p99"];

const OVERVIEW: Screens = Screen::Overview.only();
const CHARTS: Screens = OVERVIEW.and(Screen::Problem.only());
const LINKS: Screens = OVERVIEW.and(Screen::Links.only());
const STEPS: Screens = OVERVIEW.and(Screen::Bursts.only());
const EVENTS: Screens = OVERVIEW.and(Screen::Events.only()).and(Screen::Detail.only());

/// Words that screens use, and what they mean.
const WORDS: [(Screens, &str, &str); 15] = [
    (CHARTS, "throughput", "mean of each column of the timeline, all packets once"),
    (
        CHARTS,
        "lost, retransmit",
        "packets lost upstream of a tap, and packets with a PSN that was sent before",
    ),
    (CHARTS, "NAK, RNR NAK", "refused or missing packets; receiver without a posted buffer"),
    (CHARTS, "ECN CE, CNP", "share of packets that a queue CE-marked; CNPs, which request a rate reduction"),
    (CHARTS, "p99 latency", "99 of 100 requests are answered within it"),
    (
        CHARTS,
        "figures, peak",
        "left of the chart: in the time range of the title; right: the highest column, per second or per column",
    ),
    (CHARTS, "episodes", "which problem was active when; of several at a time the worst"),
    (
        CHARTS,
        "NO WARNING",
        "nothing above the thresholds, but too little is known or too much retransmitted to call it healthy",
    ),
    (LINKS, "max/mean", "the busiest link against the mean of the links: 1.00 is even"),
    (LINKS, "Jain", "Jain's fairness index of the links: 1.00 is even, 0.50 is all on one of two"),
    (LINKS, "effective flows", "number of equal flows with the same entropy: what ECMP can balance"),
    (STEPS, "duty cycle, busy", "share of the bins in which packets were seen"),
    (STEPS, "peak/mean", "the busiest bin against the mean of all"),
    (EVENTS, "GBN", "go-back-N: packets retransmitted from the missing one on"),
    (EVENTS, "SR", "selective repeat: only what was missing is retransmitted"),
];

/// Effects of the mouse, while it is captured.
const MOUSE: [(&str, &str); 4] = [
    (
        "click",
        "select a row, open the selected one; choose a tab, sort by a title, press a key that is named",
    ),
    ("wheel", "scroll"),
    ("Shift + drag", "select text to copy it (on some terminals Option or Fn)"),
    ("--no-mouse", "leaves the mouse to the terminal, as does mouse = false in the configuration file"),
];

/// All lines of the help for the screen shown.
pub(in crate::tui) fn lines(view: &View) -> Vec<Line<'static>> {
    let screen = view.screen;
    // The box is as wide as the screen up to a limit, with a border on both sides.
    let width = usize::from(view.size.0.min(WIDEST).saturating_sub(2)).saturating_sub(NAMES + 3);
    let entry = |name: &str, text: &str| entry(name, text, width);
    let mut lines = keys(view, width);
    let mut section = |title: &'static str, entries: Vec<Line<'static>>| {
        lines.push(Line::default());
        lines.push(Line::styled(title, theme::BOLD));
        lines.extend(entries);
    };
    if matches!(screen, Screen::Qps | Screen::Events | Screen::Overview) {
        section("Filter", query::help().flat_map(|(text, help)| entry(text, help)).collect());
    }
    if screen == Screen::Overview {
        section("Worst peers", PEERS.iter().flat_map(|(title, help)| entry(title, help)).collect());
    }
    if matches!(screen, Screen::Qps | Screen::Overview) {
        let states = Problem::ALL.iter().flat_map(|kind| entry(kind.word(), kind.meaning())).collect();
        section(
            "States: the worst finding that names the flow (upper case: active, lower case: past, +: and others)",
            states,
        );
        let sets = SETS.iter().flat_map(|set| entry(set.name, set.help)).collect();
        section("Sets of columns", sets);
        let columns = COLUMNS
            .iter()
            .flat_map(|column| entry(&format!("{} {}", column.title, column.name), column.help));
        section("Columns and their names in filters; wider terminals show more", columns.collect());
    }
    let columns = columns(screen);
    if !columns.is_empty() {
        section("Columns", columns.into_iter().flat_map(|(title, help)| entry(title, help)).collect());
    }
    if screen == Screen::Events {
        section("Events", CLASSES.iter().flat_map(|class| entry(class.word, class.help)).collect());
    }
    let words: Vec<_> = WORDS.iter().filter(|(on, ..)| on.has(screen)).collect();
    if !words.is_empty() {
        section("Words", words.into_iter().flat_map(|(_, word, means)| entry(word, means)).collect());
    }
    if !view.options.notes.is_empty() {
        let notes = view.options.notes.iter().map(|note| plain(note));
        let entries = notes.flat_map(|note| {
            let (of, held) = note.split_once(": ").unwrap_or(("", &note));
            entry(of, held)
        });
        section(RIGHTS, entries.collect());
    }
    lines
}

/// The keys of the screen, and what the mouse does.
fn keys(view: &View, width: usize) -> Vec<Line<'static>> {
    let (screen, entry) = (view.screen, |name: &str, text: &str| entry(name, text, width));
    let title = format!("Keys of this screen: {}", screen.title());
    let mut lines = vec![Line::styled(title, theme::BOLD)];
    // What most people look for, then keys of this screen alone.
    let order = |b: &Binding| match b.input {
        Input::Open => 0,
        _ if b.on != Screens::ALL => 1,
        _ => 2,
    };
    for place in 0..=2 {
        let bindings = KEYMAP.iter().filter(|b| b.on.has(screen) && order(b) == place && works(view, b));
        lines.extend(bindings.flat_map(|b| entry(&view.options.keys.shown(b), b.help)));
    }
    if view.options.mouse {
        lines.push(Line::default());
        lines.push(Line::styled("Mouse", theme::BOLD));
        lines.extend(MOUSE.iter().flat_map(|(what, does)| entry(what, does)));
    }
    lines
}

/// True if a key does something here: without speed, recorder or rows some do not.
fn works(view: &View, binding: &Binding) -> bool {
    match binding.input {
        Input::Faster | Input::Slower => view.timeline.speed.is_some(),
        Input::Dump => view.options.dumps,
        Input::Copy => view.screen != Screen::Bursts,
        _ => true,
    }
}

/// Section of what threads gave up, and which capabilities they keep: the first notices of the run.
const RIGHTS: &str = "Privileges of this run";

/// The line at which that section begins; `None` where nothing is known of it.
pub(super) fn rights_at(view: &View) -> Option<usize> {
    lines(view).iter().position(|line| line.spans.iter().any(|span| span.content == RIGHTS))
}

/// Titles and meanings of the columns of a screen whose table has some of its own.
fn columns(screen: Screen) -> Vec<(&'static str, &'static str)> {
    match screen {
        Screen::Nic => nic::COLUMNS.iter().map(|column| (column.title, column.help)).collect(),
        Screen::Links => LINK_COLUMNS.to_vec(),
        Screen::Matrix => {
            let of_pairs = |title: &&'static str| COLUMNS.iter().find(|column| column.title == *title);
            PAIR_COLUMNS.iter().filter_map(of_pairs).map(|column| (column.title, column.help)).collect()
        }
        _ => Vec::new(),
    }
}

fn entry(name: &str, text: &str, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for (at, part) in wrap(text, width).into_iter().enumerate() {
        let mut spans = Spans::default();
        spans.push(format!("  {:<NAMES$} ", if at == 0 { name } else { "" }), theme::KEY);
        lines.push(spans.push(part, theme::PLAIN).clone().into_line());
    }
    lines
}

pub(super) fn render(buffer: &mut Buffer, screen: Rect, view: &View, top: usize) {
    overlay(buffer, screen, " Help ", &lines(view), top);
}
