//! The lines below the sentence of the worst problem: time, ends, cost and place.

use ratatui::buffer::Buffer;

use super::{coverage, part};
use crate::tui::app::App;
use crate::tui::key::Input;
use crate::tui::layout::Layout;
use crate::tui::screen::Screen;
use crate::tui::screens::overview;
use crate::tui::screens::overview::problems::{Ends, Impact, TimeText};
use crate::tui::theme;
use crate::tui::widgets::{Spans, cut, letters, line};

/// Time, cost and ends of the worst problem, for the overview: its timeline has the counters.
pub(super) fn impact(app: &App) -> Option<Impact> {
    (app.view.screen == Screen::Overview).then(|| overview::problems::impact(&app.view)).flatten()
}

/// Time and owner, then cost and place of the worst problem, or all in one line. `rest`: the end of the sentence above.
pub(super) fn render(buffer: &mut Buffer, at: &Layout, app: &App, rest: &str, impact: Impact) {
    let width = usize::from(at.metrics.width);
    // The key opens what is selected.
    let (key, hint) = if app.screens.overview.opens_worst(&app.view) {
        (format!("{} ", app.view.options.keys.first(Input::Open)), "why + fix ")
    } else {
        (String::new(), "")
    };
    let hinted = width.saturating_sub(key.chars().count() + hint.len() + 3);
    let Impact { time, parts, who, mut unknown } = impact;
    let mut spans = part("   ", theme::PLAIN);
    let mut last = at.metrics;
    if at.cost.is_empty() {
        begin(&mut spans, rest, &time, shortest(&who.forms), hinted);
        let who = longest(&who.forms, left(&spans, hinted));
        fill(&mut spans, who.into_iter().chain(parts).collect(), hinted);
    } else {
        let whole = who.forms.first().map_or(0, |whole| letters(whole));
        // Who says more than that nothing is known of when.
        let alone = left(&spans, width - 1) < whole + 3 + time.forms().next().map_or(0, letters);
        let time = if time.is_vague() && alone && whole > 0 { TimeText::default() } else { time };
        begin(&mut spans, rest, &time, whole, width - 1);
        let [here, below] = [left(&spans, width - 1), left(&part("   ", theme::PLAIN), hinted)];
        let (first, shown) = chosen(&who, (here, below), parts.first(), unknown);
        let others = if shown.is_some() { parts } else { fill(&mut spans, parts, width - 1) };
        fill(&mut spans, shown.cloned().into_iter().collect(), width - 1);
        if shown.is_some() {
            unknown = one_of(&mut spans, unknown, width - 1);
        }
        line(buffer, at.metrics, 0, &spans.into_line());
        (spans, last) = (part("   ", theme::PLAIN), at.cost);
        let who = first.filter(|_| shown.is_none()).cloned();
        let mut others = others.into_iter();
        fill(&mut spans, who.into_iter().chain(others.next()).collect(), hinted);
        // Of more than one cost the first says enough.
        unknown = one_of(&mut spans, unknown, hinted + KEY_GAP);
        fill(&mut spans, others.collect(), hinted);
    }
    one_of(&mut spans, unknown, hinted + KEY_GAP);
    if let Some(seen) = coverage(app, false)
        && spans.width + seen.width + 6 <= hinted
    {
        spans.push(" · ", theme::DIM).append(seen);
    }
    let gap = width.saturating_sub(spans.width + key.chars().count() + hint.len());
    spans.push(" ".repeat(gap), theme::PLAIN).push(key, theme::KEY).push(hint, theme::DIM);
    line(buffer, last, 0, &spans.into_line());
}

/// The first form of the ends that has room in one of two lines, whose columns are given, and the one for the upper
/// line, if it has room there. Whole they are worth more than the order of the two lines.
fn chosen<'a>(
    who: &'a Ends,
    (here, below): (usize, usize),
    part: Option<&String>,
    unknown: &[&str],
) -> (Option<&'a String>, Option<&'a String>) {
    let Ends { whole, forms, is_titled } = who;
    let first = forms.iter().find(|form| letters(form) <= here.max(below));
    let Some(shown) = first.filter(|form| letters(form) <= here) else { return (first, None) };
    // That a process is not known is a word about the ends as well, here or behind the part below.
    let beside = unknown.iter().map(|form| letters(form) + 3).min().unwrap_or(0);
    let has_room = beside == 0 || part.map_or(0, |part| letters(part)) + beside <= below + KEY_GAP;
    let is_whole = |form: &&String| letters(form) <= here && (has_room || letters(form) + beside <= here);
    // Both hosts where that costs nothing of it; the last form has none.
    let both = forms.first().filter(|form| *form == shown).map(|_| whole);
    let named = forms.get(..forms.len().saturating_sub(usize::from(!is_titled))).unwrap_or_default();
    let best = both.into_iter().chain(named).find(is_whole);
    (first, best.or(both.filter(|both| letters(both) <= here)).or(Some(shown)))
}

/// Columns before the key's hint that a short word may take.
const KEY_GAP: usize = 2;

/// Columns that are left for a part behind others.
fn left(spans: &Spans, most: usize) -> usize {
    most.saturating_sub(spans.width + if spans.width == 3 { 0 } else { 3 })
}

/// Columns of the shortest form.
fn shortest(forms: &[String]) -> usize {
    forms.iter().map(|form| letters(form)).min().unwrap_or(0)
}

/// The longest form that has room.
fn longest(forms: &[String], room: usize) -> Option<String> {
    forms.iter().find(|form| letters(form) <= room).cloned()
}

/// The rest of the sentence and the time, in `most` columns: how long a problem lasts comes after another part.
fn begin(spans: &mut Spans, rest: &str, time: &TimeText, other: usize, most: usize) {
    if !rest.is_empty() {
        spans.push(cut(rest, most.saturating_sub(3), false), theme::BOLD);
    }
    let free = left(spans, most);
    let other = if other > 0 { other + 3 } else { 0 };
    let time = time.best(|form| letters(form) + other <= free, |form| letters(form) <= free);
    fill(spans, time.into_iter().map(str::to_owned).collect(), most);
}

/// Adds the first of these forms that has room; returns them where none has.
fn one_of<'a>(spans: &mut Spans, forms: &'a [&'a str], most: usize) -> &'a [&'a str] {
    let Some(form) = forms.iter().find(|form| letters(form) <= left(spans, most)) else { return forms };
    fill(spans, vec![(*form).to_owned()], most);
    &[]
}

/// Adds whole parts, as half a figure says nothing; returns those without room.
fn fill(spans: &mut Spans, parts: Vec<String>, most: usize) -> Vec<String> {
    let mut others = Vec::new();
    for part in parts {
        if letters(&part) <= left(spans, most) {
            let gap = if spans.width == 3 { "" } else { " · " };
            spans.push(format!("{gap}{part}"), theme::PLAIN);
        } else {
            others.push(part);
        }
    }
    others
}
