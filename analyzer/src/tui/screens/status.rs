//! The last line: prompt, answer, notice or key hints.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Spans, cut, join, line};
use crate::model::Level;
use crate::sample::SourceKind;
use crate::tui::app::{App, End};
use crate::tui::key::Input;
use crate::tui::prompt::Purpose;
use crate::tui::screen::Screen;
use crate::tui::theme;

pub(super) fn render(buffer: &mut Buffer, area: Rect, app: &App) {
    let mut spans = Spans::default();
    if let Some(prompt) = &app.prompt {
        let (name, hint) = match prompt.purpose {
            Purpose::Filter => (" filter: ", "  Enter apply · Esc cancel"),
            Purpose::GoTo => (" go to: ", "  12:00:05, +30 (from the start), -30 (from here)"),
        };
        spans.push(name, theme::BOLD).push(prompt.text.clone(), theme::PLAIN);
        spans.push("█", theme::PLAIN);
        match &app.query.error {
            Some(error) if prompt.purpose == Purpose::Filter => {
                spans.push(format!("  {}", error.one_line()), theme::text(Level::Warning));
            }
            _ => {
                spans.push(hint, theme::DIM);
            }
        }
        line(buffer, area, 0, &spans.into_line());
        return;
    }
    // Always visible.
    let key = |input| app.options.keys.first(input);
    let way_out = format!("  {} help  {} quit ", key(Input::Help), key(Input::Quit));
    let room = usize::from(area.width).saturating_sub(way_out.chars().count());
    if let Some(answer) = &app.answer {
        spans.push(format!(" {}", cut(answer, room.saturating_sub(1), false)), theme::BOLD);
    } else if app.awaited() {
        spans.push(" updating… (showing previous values)", theme::BOLD);
    } else if let (true, Some(notice)) = (app.unread, app.notices.back()) {
        spans.push(" ! ", theme::badge(Level::Warning));
        spans.push(format!(" {}", cut(notice, room.saturating_sub(5), false)), theme::PLAIN);
    } else if let Some(End::Failed(error)) = &app.end {
        spans.push(" ✖ ", theme::badge(Level::Critical));
        spans.push(format!(" {}", cut(error, room.saturating_sub(5), false)), theme::PLAIN);
    } else {
        let chosen = super::header::selection_below(app);
        if let Some(chosen) = chosen {
            spans.push(" ", theme::PLAIN).append(chosen);
        }
        let rest = hints(app, room.saturating_sub(spans.width));
        spans.append(rest);
    }
    let gap = room.saturating_sub(spans.width);
    spans.push(" ".repeat(gap), theme::PLAIN).push(way_out, theme::BOLD);
    line(buffer, area, 0, &spans.into_line());
}

/// Keys and their meaning.
type Hint = (&'static [Input], &'static str);

fn hints(app: &App, width: usize) -> Spans {
    use Input::{
        Back, Capture, Columns, Earlier, ExportCsv, Faster, Filter, Group, Later, Metric, MoreUplinks,
        NextScreen, Open, Pause, Read, Slower, SortNext, TimeRange,
    };
    let replay = app.end.is_none() && app.speed.is_some() && app.kind() == Some(SourceKind::Replay);
    let mut hints: Vec<Hint> = vec![(&[NextScreen], "screens")];
    // Keys of the screen first; others where there is room.
    let (first, rest): (&[Hint], &[Hint]) = match app.screen {
        Screen::Overview => (&[(&[Open], "details")], &[]),
        Screen::Qps => (
            &[(&[Open], "details")],
            &[(&[SortNext], "sort"), (&[Filter], "filter"), (&[Columns], "columns"), (&[Group], "group")],
        ),
        Screen::Detail => (&[(&[Back], "back"), (&[Open], "headers")], &[(&[Capture], "pcapng")]),
        Screen::Matrix => (&[(&[Open], "queue pairs"), (&[Metric], "metric")], &[]),
        Screen::Links => (&[(&[Open], "queue pairs"), (&[MoreUplinks], "ECMP what-if")], &[]),
        Screen::Bursts => (&[], &[]),
        Screen::Events if app.log.is_empty() => (&[], &[(&[Filter], "filter")]),
        Screen::Events => (&[(&[Open], "headers")], &[(&[Filter], "filter"), (&[Capture], "pcapng")]),
        Screen::Findings if app.finding_count() == 0 => (&[], &[]),
        Screen::Findings => (&[(&[Open], "queue pairs"), (&[Read], "explain")], &[]),
    };
    hints.extend(first);
    match (&app.end, app.paused) {
        (Some(_), _) => {}
        (None, true) => hints.push((&[Pause], "resume")),
        (None, false) => hints.push((&[Pause], "pause")),
    }
    if app.still() {
        hints.push((&[Earlier, Later], "step"));
    }
    hints.extend(rest);
    hints.push((&[TimeRange], "time range"));
    if replay {
        hints.push((&[Faster, Slower], "speed"));
    }
    hints.push((&[ExportCsv], "export"));
    let parts = hints.into_iter().map(|(inputs, what)| {
        let keys: Vec<String> = inputs.iter().map(|input| app.options.keys.first(*input)).collect();
        let mut spans = Spans::default();
        spans.push(format!(" {} ", keys.join(" ")), theme::BOLD).push(what, theme::DIM);
        spans
    });
    join(parts.collect(), width, " ").0
}
