//! The line of the screens' names, and what is shown of the table beside it: filter, grouping, order.

use ratatui::buffer::Buffer;
use ratatui::text::Line;

use crate::model::Level;
use crate::tui::app::App;
use crate::tui::column::compact;
use crate::tui::key::Input;
use crate::tui::layout::Layout;
use crate::tui::screen::Screen;
use crate::tui::table::Group;
use crate::tui::theme;
use crate::tui::widgets::{Spans, cut, line};

/// From this width on tabs have a space at both sides.
const SPACED: u16 = 90;
/// From this width on tabs have their names in full.
const NAMED: u16 = 72;

/// The screens' names, and where they stand: columns of the screen.
#[must_use]
pub(super) fn all(app: &App) -> Vec<(std::ops::Range<u16>, Screen)> {
    let mut x = 0;
    let tabs = Screen::TABS.into_iter().map(|screen| {
        let width = tab(app, screen).chars().count();
        let start = x;
        x += u16::try_from(width).unwrap_or(0);
        (start..x, screen)
    });
    tabs.collect()
}

/// Number and name of a screen; on narrow terminals the number alone for all screens but the one shown.
fn tab(app: &App, screen: Screen) -> String {
    let number = screen as usize + 1;
    if app.view.size.0 >= SPACED {
        format!(" {number} {} ", screen.title())
    } else if app.view.size.0 >= NAMED || screen == app.tab() {
        format!(" {number} {}", screen.title())
    } else {
        format!(" {number}")
    }
}

/// Reason why rows or events are hidden; `None` when all are shown.
fn chosen(app: &App) -> Option<String> {
    let table = matches!(app.view.screen, Screen::Qps | Screen::Detail);
    let mut why = Vec::new();
    if let (true, Some(focus)) = (table, &app.screens.flows.focus) {
        why.push(focus.about.clone());
    }
    if table && app.screens.flows.only_marked {
        why.push("marked".to_owned());
    }
    // While it is typed it may make no sense yet.
    if !app.view.filter.text.is_empty()
        && app.view.filter.query.error.is_none()
        && (table || app.view.screen == Screen::Events)
    {
        why.push(format!("\"{}\"", app.view.filter.text));
    }
    (!why.is_empty()).then(|| why.join(", "))
}

/// The filter, focus or marks in force with the number of rows they leave, in `room` columns; empty without any.
fn selection(app: &App, room: usize) -> Spans {
    /// Letters of a filter where there is room for more than that.
    const LONGEST: usize = 30;
    let mut spans = Spans::default();
    let Some(why) = chosen(app) else { return spans };
    let (shown, of) = match app.view.screen {
        Screen::Events => (app.view.event_count(), app.view.log.len()),
        _ => app.screens.flows.queue_pairs(&app.view),
    };
    let count = format!(" {} of {}", compact(shown as f64), compact(of as f64));
    let letters = room.saturating_sub(count.chars().count()).min(LONGEST);
    spans.push(cut(&why, letters, false), theme::text(Level::Warning)).push(count, theme::PLAIN);
    spans
}

/// The same, and the sort order, for the last line of terminals whose tabs leave no room for it.
pub(super) fn selection_below(app: &App) -> Option<Spans> {
    let end = all(app).last().map_or(0, |(area, _)| area.end);
    let room = usize::from(app.view.size.0.saturating_sub(end + 1));
    if room > BESIDE_TABS {
        return None;
    }
    let mut spans = selection(app, usize::from(app.view.size.0 / 3));
    let order = order(app);
    if app.view.screen == Screen::Qps && order.iter().all(|form| form.chars().count() > room) {
        let gap = if spans.width > 0 { "  " } else { "" };
        let form = order.iter().rev().nth(1).map_or("", String::as_str);
        spans.push(format!("{gap}{form}"), theme::DIM);
    }
    (spans.width > 0).then_some(spans)
}

/// Order of the rows in words, the longest form first: how they are sorted, or that they keep their places since then.
fn order(app: &App) -> Vec<String> {
    let table = &app.screens.flows;
    let sort = format!("{} {}", table.sorted_by(), if table.sort.descending { "↓" } else { "↑" });
    // Values that stand still are in the order that was asked for.
    let moves = !app.view.timeline.still() || app.view.past();
    if moves && table.keeps_places(&app.view) {
        let key = app.view.options.keys.first(Input::Follow);
        return vec![
            format!("sorted by {sort}, order held ({key})"),
            format!("by {sort}, held ({key})"),
            format!("order held ({key})"),
            format!("held ({key})"),
        ];
    }
    vec![format!("sort {sort}"), sort]
}

/// With fewer columns than this beside the tabs, the filter in force is shown in the last line.
const BESIDE_TABS: usize = 16;

/// Text right of the screens' names, as far as there is room: number of rows shown and why, grouping, sorting.
fn right_of_tabs(app: &App, room: usize) -> Spans {
    let mut all = if room > BESIDE_TABS { selection(app, room.saturating_sub(1)) } else { Spans::default() };
    if app.view.screen != Screen::Qps {
        return all;
    }
    let order = order(app);
    let mut forms: Vec<String> = order.iter().map(|form| format!("{form} ")).collect();
    forms.extend(order.last().cloned());
    let group = app.screens.flows.chosen_group();
    if group != Group::None {
        // The title of the first column says it as well.
        let by = group.title();
        forms.insert(0, format!("by {by}  {} ", order.first().map_or("", String::as_str)));
    }
    let gap = if all.width > 0 { "  " } else { "" };
    let left = room.saturating_sub(all.width + gap.len());
    if let Some(form) = forms.into_iter().find(|form| form.chars().count() <= left) {
        all.push(gap, theme::PLAIN).push(form, theme::DIM);
    }
    all
}

/// The line of the screens' names.
pub(super) fn render(buffer: &mut Buffer, at: &Layout, app: &App) {
    for (area, screen) in all(app) {
        let style = if screen == app.tab() { theme::SELECTED.patch(theme::BOLD) } else { theme::PLAIN };
        let place = ratatui::layout::Rect { x: area.start, width: area.end - area.start, ..at.tabs };
        line(buffer, place, 0, &Line::styled(tab(app, screen), style));
    }
    let end = all(app).last().map_or(0, |(area, _)| area.end);
    let free = at.tabs.width.saturating_sub(end + 1);
    let right = right_of_tabs(app, usize::from(free));
    let width = free.min(u16::try_from(right.width).unwrap_or(free));
    let area = ratatui::layout::Rect { x: at.tabs.width - width, width, ..at.tabs };
    line(buffer, area, 0, &right.into_line());
}
