//! Links side by side, their load over time, the balance across them, and the ECMP entropy of the traffic.

mod below;
pub(super) mod pair;
pub(in crate::tui) mod table;

use std::rc::Rc;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use serde_json::json;

pub(super) use self::below::balance_of;
use super::page::{Effect, Hints, Page, click_list};
use super::{empty, export_table, timeline};
use crate::tui::cursor::{Cursor, Move};
use crate::tui::data::Data;
use crate::tui::export::ExportTable;
use crate::tui::focus::{Focus, FocusCondition};
use crate::tui::key::Input;
use crate::tui::layout::Layout;
use crate::tui::screen::Screen;
use crate::tui::view::View;
use crate::tui::widgets::panel::{Title, frame_height, inner, panel};
use crate::tui::widgets::{Lines, line, scrolled};
use crate::util::units;

/// Lines of the part below, at least, where the load over time is shown.
const LEAST_BELOW: u16 = 4;
/// Lines of a link's load over time, at most.
const HIGHEST: u16 = 16;

/// Uplinks that the what-if begins with, the fewest and the most.
const UPLINKS: (u32, u32, u32) = (2, 2, 1_024);

/// State of the screen Links.
#[derive(Debug, Default)]
pub struct LinksScreen {
    /// Place in the list of links.
    pub cursor: Cursor,
    /// First line of the part below the list: devices, balance, entropy.
    pub below: Cursor,
    /// Uplinks of the what-if, where the user changed them.
    pub uplinks: Option<u32>,
    /// True while the result of the what-if stays in view, which is computed in the background: until one scrolls.
    at_what_if: bool,
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
        self.lines.at(width, || below::lines(view, data, width))
    }

    /// Lines of the part below the list, all and visible ones.
    fn heights(&self, view: &View) -> (usize, usize) {
        let area = self.areas(view).below;
        let width = usize::from(area.width);
        let lines = view.data.as_ref().map_or(0, |data| self.lines_at(view, data, width).len());
        (lines, usize::from(area.height))
    }

    /// Scrolls to the result of the what-if.
    fn show_what_if(&mut self, view: &View) {
        let Some(data) = &view.data else { return };
        let area = self.areas(view).below;
        let (width, room) = (usize::from(area.width), usize::from(area.height));
        self.below.offset = below::at_what_if(view, data, width, room);
    }

    fn areas(&self, view: &View) -> Areas {
        let (layout, links) = (view.layout(), count(view));
        let (body, boxed, page) = (layout.body, layout.boxed(), layout.links_page());
        let (frame, below_frame) = (frame_height(boxed), if boxed { frame_height(boxed) } else { 0 });
        let height = |n: usize| u16::try_from(n).unwrap_or(u16::MAX / 4).min(u16::MAX / 4);
        let rest = usize::from(links > self.cursor.offset + page);
        let list = (frame + 1 + height(links.min(page) + rest)).min(body.height);
        let left = body.height - list;
        let tracks = height(view.data.as_ref().map_or(0, |data| data.over_time.links.len()));
        let room = left.saturating_sub(frame + 1 + below_frame + LEAST_BELOW);
        let width = if boxed { body.width.saturating_sub(2) } else { body.width };
        let wanted =
            view.data.as_ref().map_or(0, |data| height(self.lines_at(view, data, usize::from(width)).len()));
        // The load of a single link is the throughput of the timeline below.
        let below = boxed && left.saturating_sub(below_frame + wanted) >= timeline::BELOW;
        let tracks = if tracks == 1 && below { 0 } else { tracks.min(room) };
        let spare = (room + LEAST_BELOW).saturating_sub(tracks + wanted.max(LEAST_BELOW));
        let high = spare.checked_div(tracks).map_or(0, |more| (1 + more).min(HIGHEST));
        let trend = if tracks > 0 { frame + tracks * high + 1 } else { 0 };
        let mut y = body.y;
        let mut area = |height: u16| {
            y += height;
            Rect { y: y - height, height, ..body }
        };
        let below = left - trend;
        let spare = below.saturating_sub(below_frame + wanted);
        let timeline = if boxed && spare >= timeline::BELOW { spare } else { 0 };
        let (list, trend, frame_below) = (area(list), area(trend), area(below - timeline));
        let timeline = area(timeline);
        let below = if boxed { inner(frame_below, true) } else { frame_below };
        let (tracks, high) = (usize::from(tracks), usize::from(high));
        Areas { list, trend, frame_below, below, timeline, tracks, high }
    }
}

/// Areas of the screen, each with its frame.
#[derive(Clone, Copy, Debug)]
struct Areas {
    list: Rect,
    trend: Rect,
    frame_below: Rect,
    /// The lines within `frame_below`.
    below: Rect,
    timeline: Rect,
    /// Links whose load over time is shown, and the lines of each.
    tracks: usize,
    high: usize,
}

/// Links, both directions of one together.
fn count(view: &View) -> usize {
    view.data.as_ref().map_or(0, |data| pair::pairs(&data.model, &data.sample).len())
}

impl Page for LinksScreen {
    fn kept_lines(&self) -> Option<&Lines> {
        Some(&self.lines)
    }

    /// Moves in the list of links, and beyond its last one through the part below.
    fn step(&mut self, view: &mut View, step: Move) {
        let links = count(view);
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
            self.at_what_if = false;
        }
    }

    fn open(&mut self, view: &mut View) -> Effect {
        let Some(data) = &view.data else { return Effect::None };
        let pairs = pair::listed(view, data);
        pairs.get(self.cursor.selected.unwrap_or(0)).map_or(Effect::None, |pair| {
            let links = pair.at.iter().filter_map(|at| u16::try_from(*at).ok()).collect();
            Effect::Focus(Focus { about: pair.name.to_owned(), on: FocusCondition::Links(links) })
        })
    }

    fn click(&mut self, view: &mut View, at: Position) -> Effect {
        let (layout, links) = (view.layout(), count(view));
        // Below the rows of the list may stand how many more there are.
        let shown = u16::try_from(links.min(layout.links_page())).unwrap_or(u16::MAX);
        let list = Rect { height: shown.saturating_add(1), ..inner(self.areas(view).list, layout.boxed()) };
        if click_list(&mut self.cursor, list, links, at) { self.open(view) } else { Effect::None }
    }

    fn on_input(&mut self, view: &mut View, input: Input) -> Effect {
        match input {
            Input::MoreUplinks => self.change_uplinks(view, true),
            Input::FewerUplinks => self.change_uplinks(view, false),
            _ => return Effect::None,
        }
        self.show_what_if(view);
        self.at_what_if = true;
        Effect::Analyse
    }

    fn keep_in_view(&mut self, view: &View) {
        self.cursor.show(count(view), view.layout().links_page());
        // To count the lines is to make them.
        if view.screen == Screen::Links {
            if self.at_what_if {
                self.show_what_if(view);
            }
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

    fn export_table(&self, view: &View) -> ExportTable {
        let mut table = ExportTable::new(&[
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
                    export_table::direction(link.direction),
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
        let areas = self.areas(view);
        let scale = table::scale(data);
        let open = format!("{} queue pairs", view.options.keys.first(Input::Open));
        let title = Title { name: "LINKS", about: &scale, hint: &open };
        let list = panel(buffer, areas.list, at.boxed(), title);
        table::render(buffer, list, view, data, self.cursor, at.links_page());
        trend(buffer, areas, at.boxed(), view, data);
        if at.boxed() {
            let title = Title { name: "BALANCE, HASHING, COUNTERS", ..Title::default() };
            panel(buffer, areas.frame_below, true, title);
        }
        let lines = self.lines_at(view, data, usize::from(areas.below.width));
        scrolled(buffer, areas.below, &lines, self.below.offset);
        timeline::render_without_links(buffer, areas.timeline, at.boxed(), view, data);
    }
}

/// The load of each link over time, all on one scale.
fn trend(buffer: &mut Buffer, areas: Areas, boxed: bool, view: &View, data: &Data) {
    if areas.trend.is_empty() {
        return;
    }
    let area = inner(areas.trend, boxed);
    let (all, tracks) = (data.over_time.links.len(), areas.tracks);
    let shown = timeline::chart::links_over_time(view, data, usize::from(area.width), tracks, areas.high);
    let (lines, peak) = shown.unwrap_or_default();
    let scale = format!("one scale: 0 to {}", units::bit_rate(peak));
    let hint = if tracks < all { format!("{tracks} of {all} links") } else { String::new() };
    panel(buffer, areas.trend, boxed, Title { name: "LOAD OVER TIME", about: &scale, hint: &hint });
    for (y, text) in (0..area.height).zip(&lines) {
        line(buffer, area, y, text);
    }
}
