//! Sections as lines: one below the other, or in two columns where there is room.

use std::ops::Range;

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::body::{Entry, Item, Section, Subject};
use crate::tui::theme;
use crate::tui::view::View;
use crate::tui::widgets::panel::{BOXED, frame_height};
use crate::tui::widgets::{Spans, cut};

/// From this width on there are two columns.
pub(super) const TWO: u16 = 130;

/// Below this height the steps come before the timeline.
const FEW_LINES: usize = 26;
/// From this height on its beginning and end stand before them.
const STRIP: usize = 18;
/// Lines from which on all signals stand below what the shorter column has.
const ALL_SIGNALS: usize = 12;

/// Place of something that can be selected.
#[derive(Clone, Debug)]
pub(super) struct ItemPlace {
    pub(super) line: usize,
    pub(super) columns: Range<u16>,
}

/// The page as lines, and what can be selected in it.
pub(super) struct Body {
    pub(super) lines: Vec<Line<'static>>,
    pub(super) items: Vec<Item>,
    /// The places of the items.
    pub(super) spots: Vec<ItemPlace>,
}

impl Body {
    /// The page of the finding of this number; `None` where there is none.
    pub(super) fn new(view: &View, at: usize, area: Rect) -> Option<Self> {
        let subject = Subject::new(view, at)?;
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        let boxed = area.width >= BOXED;
        let inner = |width: usize| width.saturating_sub(if boxed { 2 } else { 0 });
        let head: Vec<Entry> = subject.head(width).into_iter().map(Entry::text).collect();
        if area.width < TWO {
            return Some(Self::one_column(&subject, head, area));
        }
        let room = height.saturating_sub(head.len());
        let wide = [width * 11 / 20, width - width * 11 / 20];
        let [left, right] = wide;
        let column = |sections: Vec<Option<Section>>, width: usize| -> Vec<Entry> {
            let sections = sections.into_iter().flatten();
            sections.flat_map(|section| framed(section, width, boxed)).collect()
        };
        let own = inner(left);
        let usual = (room / 3).clamp(8, 24);
        let timeline = subject.timeline(own, usual);
        let one = column(vec![timeline, subject.flows(own), subject.evidence(own)], left);
        let own = inner(right);
        let two = column(vec![subject.steps(own), subject.related(own)], right);
        let mut columns = [one, two];
        for late in [Subject::explanation, Subject::blind] {
            // Sections that are read at leisure go where there is room.
            let at = usize::from(columns[1].len() < columns[0].len());
            columns[at].extend(column(vec![late(&subject, inner(wide[at]))], wide[at]));
        }
        let most = columns.iter().map(Vec::len).max().unwrap_or(0).max(room);
        // Remaining lines make the timeline higher; no part below it leaves the screen for that.
        let usual_lines = column(vec![subject.timeline(inner(left), usual)], left).len();
        let high = usual + room.saturating_sub(columns[0].len());
        let timeline = column(vec![subject.timeline(inner(left), high)], left);
        columns[0].splice(..usual_lines, timeline);
        // What the shorter column leaves shows the rest of the signals.
        let at = usize::from(columns[1].len() <= columns[0].len());
        let free = room.saturating_sub(columns[at].len() + usize::from(frame_height(boxed)));
        if free >= ALL_SIGNALS {
            columns[at].extend(column(vec![subject.all_signals(inner(wide[at]), free)], wide[at]));
        }
        for (column, width) in columns.iter_mut().zip(wide) {
            fill(column, most, width, boxed);
        }
        let [one, two] = columns;
        let mut body = Self::of(head, width);
        let (one, two) = (Self::of(one, left), Self::of(two, right));
        // Steps and links come first, as they do in one column.
        body.add(&two, u16::try_from(left).unwrap_or(0));
        body.add(&one, 0);
        body.lines.extend(one.lines.into_iter().zip(two.lines).map(|(one, two)| {
            let mut spans = padded(one, left);
            spans.append(padded(two, right));
            spans.into_line()
        }));
        Some(body)
    }

    /// All sections one below the other.
    fn one_column(subject: &Subject<'_>, mut head: Vec<Entry>, area: Rect) -> Self {
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        let boxed = area.width >= BOXED;
        let frame = if boxed { 2 } else { 0 };
        let own = width.saturating_sub(frame);
        let mut first = [subject.timeline(own, if height >= 30 { 9 } else { 6 }), subject.steps(own)];
        let lines = |part: &Option<Section>| part.as_ref().map_or(0, |one| one.entries.len() + frame.max(1));
        // The steps are seen without a key, at the same place of every problem of a small screen; the last line names
        // the sections below.
        if height < FEW_LINES || head.len() + first.iter().map(lines).sum::<usize>() >= height {
            first.reverse();
            // When it held stands above them.
            if height >= STRIP {
                head.extend(subject.strip(width));
            }
        }
        let rest = [
            subject.related(own),
            subject.flows(own),
            subject.evidence(own),
            subject.explanation(own),
            subject.blind(own),
        ];
        let sections = first.into_iter().chain(rest).flatten();
        let sections = sections.flat_map(|section| framed(section, width, boxed));
        Self::of(head.into_iter().chain(sections).collect(), width)
    }

    /// Adds what can be selected in a column behind the present lines.
    fn add(&mut self, column: &Self, by: u16) {
        let first = self.lines.len();
        self.items.extend(&column.items);
        self.spots.extend(column.spots.iter().map(|spot| ItemPlace {
            line: spot.line + first,
            columns: spot.columns.start + by..spot.columns.end + by,
        }));
    }

    fn of(entries: Vec<Entry>, width: usize) -> Self {
        let (mut items, mut spots) = (Vec::new(), Vec::new());
        let mut lines = Vec::with_capacity(entries.len());
        let width = u16::try_from(width).unwrap_or(u16::MAX);
        for (at, Entry { line, item }) in entries.into_iter().enumerate() {
            if let Some(item) = item {
                items.push(item);
                spots.push(ItemPlace { line: at, columns: 1..width.saturating_sub(1).max(1) });
            }
            lines.push(line);
        }
        Self { lines, items, spots }
    }
}

/// Adds empty lines to the last box.
fn fill(entries: &mut Vec<Entry>, height: usize, width: usize, boxed: bool) {
    let missing = height.saturating_sub(entries.len());
    let at = if boxed { entries.len().saturating_sub(1) } else { entries.len() };
    let blank = if boxed { sides(Line::default(), width) } else { Line::default() };
    entries.splice(at..at, std::iter::repeat_with(|| Entry::text(blank.clone())).take(missing));
}

fn padded(line: Line<'static>, width: usize) -> Spans {
    let mut spans = Spans::default();
    let (used, style) = (line.width(), line.style);
    for span in line.spans {
        spans.push(span.content.into_owned(), style.patch(span.style));
    }
    if used > width {
        return cut_off(spans, width);
    }
    spans.push(" ".repeat(width - used), theme::PLAIN);
    spans
}

/// The first columns of `spans`, with a sign that there is more.
fn cut_off(spans: Spans, width: usize) -> Spans {
    let mut kept = Spans::default();
    for span in spans.spans {
        let left = width.saturating_sub(kept.width);
        if span.width() <= left.saturating_sub(1) {
            kept.push(span.content.into_owned(), span.style);
        } else {
            let text: String = span.content.chars().take(left.saturating_sub(1)).collect();
            kept.push(format!("{text}…"), span.style);
            break;
        }
    }
    kept
}

fn sides(line: Line<'static>, width: usize) -> Line<'static> {
    let inner = padded(line, width.saturating_sub(2));
    let mut spans = Spans::default();
    spans.push("│", theme::FRAME);
    spans.append(inner);
    spans.push("│", theme::FRAME);
    spans.into_line()
}

/// A section with its title: in a box, or below a rule.
fn framed(section: Section, width: usize, boxed: bool) -> Vec<Entry> {
    let Section { name, about, hint, entries } = section;
    let (first, last) = if boxed { ("╭", "╮") } else { ("─", "─") };
    let mut spans = Spans::default();
    spans.push(first, theme::FRAME).push(format!(" {name} "), theme::BOLD);
    if !about.is_empty() && spans.width + about.chars().count() + 4 <= width {
        spans.push(format!("{about} "), theme::DIM);
    }
    let hint = if hint.is_empty() { String::new() } else { format!(" {hint} ") };
    let hint = cut(&hint, width.saturating_sub(spans.width + 3), false);
    let rule = width.saturating_sub(spans.width + hint.chars().count() + 2);
    spans.push("─".repeat(rule), theme::FRAME).push(hint, theme::DIM);
    spans.push(format!("─{last}"), theme::FRAME);
    let mut all = vec![Entry::text(spans.into_line())];
    if boxed {
        all.extend(entries.into_iter().map(|Entry { line, item }| Entry { line: sides(line, width), item }));
        let text = format!("╰{}╯", "─".repeat(width.saturating_sub(2)));
        all.push(Entry::text(Line::from(Span::styled(text, theme::FRAME))));
    } else {
        all.extend(entries);
    }
    all
}
