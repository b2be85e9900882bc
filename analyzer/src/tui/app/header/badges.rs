//! Badges of the active problems in the title.

use super::{badge_room, join, part, times};
use crate::findings::{Finding, Problem, Severity, Verdict};
use crate::model::Level;
use crate::tui::app::App;
use crate::tui::layout::Layout;
use crate::tui::theme;
use crate::tui::view::Concluded;
use crate::tui::widgets::Spans;

/// Kinds of the active problems, each once: its level, and whether it is quiet.
fn active_kinds(concluded: &Concluded<'_>) -> Vec<(Problem, Level, bool)> {
    let all = concluded.findings;
    let mut kinds: Vec<(Problem, Level, bool)> = Vec::new();
    let active = || all.iter().filter(|finding| finding.active && finding.severity > Severity::Info);
    // A problem that another one accounts for has no badge beside that one.
    let counts = |finding: &&Finding| !active().any(|one| finding.is_owned_by(one.id, one.at));
    for finding in active().filter(counts) {
        let Some(kind) = Problem::of(finding) else { continue };
        let (level, quiet) = (Level::from(finding.severity), finding.quiet_ns(concluded.end_ns).is_some());
        match kinds.iter_mut().find(|(known, ..)| *known == kind) {
            Some((_, worst, all_quiet)) => {
                *worst = level.max(*worst);
                *all_quiet &= quiet;
            }
            None => kinds.push((kind, level, quiet)),
        }
    }
    // What the sentence is about comes first; of the others none hides a worse one.
    let headline = Verdict::of(all, false).headline.and_then(Problem::of);
    kinds.sort_by_key(|(kind, level, _)| (Some(*kind) != headline, std::cmp::Reverse(*level)));
    kinds
}

/// Active kinds that fit: whole names (on narrow screens of the first alone), else words, else fewer; and how many more
/// there are, in words.
fn badge_parts(kinds: &[(Problem, Level, bool)], room: usize, wide: bool) -> (Vec<Spans>, String) {
    let form = |long: bool, count: usize| {
        let word =
            |at: usize, kind: Problem| if long && (wide || at == 0) { kind.badge() } else { kind.word() };
        // A badge is filled while its problem shows, and hollow and grey while that is quiet.
        let one = |(at, (kind, level, quiet)): (usize, &(Problem, Level, bool))| {
            let (symbol, style) = theme::mark(*level, !quiet);
            let style = if *quiet { style } else { theme::badge(*level) };
            badge(symbol, word(at, *kind), style)
        };
        let parts: Vec<Spans> = kinds.iter().take(count).enumerate().map(one).collect();
        let hidden = kinds.len().saturating_sub(count);
        (parts, if hidden > 0 { format!(" +{hidden}") } else { String::new() })
    };
    let width = |(parts, more): &(Vec<Spans>, String)| {
        parts.iter().map(|part| part.width + 1).sum::<usize>().saturating_sub(1) + more.len()
    };
    let mut forms = (1..=kinds.len()).rev().flat_map(|count| [form(true, count), form(false, count)]);
    forms.find(|form| width(form) <= room).unwrap_or_else(|| form(false, 1))
}

pub(super) fn badges(concluded: &Concluded<'_>, room: usize, wide: bool) -> Spans {
    let kinds = active_kinds(concluded);
    let (parts, more) = badge_parts(&kinds, room, wide);
    let hidden = kinds.iter().skip(parts.len()).map(|(_, level, _)| *level).max().unwrap_or_default();
    let (mut spans, _) = join(parts, usize::MAX, " ");
    spans.push(more, theme::BOLD.patch(theme::text(hidden)));
    spans
}

/// What a badge at this column of the title opens.
pub(in crate::tui::app) enum Badge {
    /// The finding of this number.
    Finding(usize),
    /// The list: it counts those without room.
    All,
}

/// The badge at this column of the title; `None` where there is none of an active problem.
pub(in crate::tui::app) fn badge_at(app: &App, at: &Layout, x: u16) -> Option<Badge> {
    let concluded = app.view.concluded()?;
    let room = usize::from(at.title.width).saturating_sub(times(at, app, false).width + 2);
    let (room, wide) = badge_room(app, room);
    let kinds = active_kinds(&concluded);
    let (parts, _) = badge_parts(&kinds, room, wide);
    let mut left = 0;
    for (part, (kind, ..)) in parts.iter().zip(&kinds) {
        if (left..left + part.width).contains(&usize::from(x)) {
            let of_kind = |one: &Finding| one.active && one.is_problem() && Problem::of(one) == Some(*kind);
            return concluded.findings.iter().position(of_kind).map(Badge::Finding);
        }
        left += part.width + 1;
    }
    (parts.len() < kinds.len()).then_some(Badge::All)
}

pub(super) fn badge(symbol: &str, word: &str, style: ratatui::style::Style) -> Spans {
    part(format!(" {symbol} {word} "), style)
}
