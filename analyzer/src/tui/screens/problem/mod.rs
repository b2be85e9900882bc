//! One finding on a page of its own: sentence, timeline, steps, flows, evidence, causes and effects, explanation. A
//! view of the finding and the model: it judges nothing itself.
//!
//! | module | holds |
//! |---|---|
//! | `body` | the sections, each with what can be selected in it |
//! | `columns` | sections as one column, or as two beside one another |

mod body;
mod columns;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;

use self::body::Item;
use self::columns::Body;
use super::page::{Effect, Hints, Page};
use super::{empty, finding_lines};
use crate::findings::{Finding, Place};
use crate::tui::cursor::{Cursor, Move};
use crate::tui::export::ExportTable;
use crate::tui::focus::{Focus, FocusCondition};
use crate::tui::key::Input;
use crate::tui::layout::Layout;
use crate::tui::screen::Screen;
use crate::tui::theme;
use crate::tui::view::{AsOf, View};
use crate::tui::widgets::{line, scrolled, select};
use crate::util::units;

/// Findings that Esc leads back to, at most.
const TRAIL: usize = 16;

/// A finding whatever its figures become: the number counts those of one kind at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    id: &'static str,
    place: Place,
    number: usize,
}

impl Key {
    fn of(all: &[Finding], at: usize) -> Option<Self> {
        let finding = all.get(at)?;
        let same = |one: &&Finding| one.id == finding.id && one.place == finding.place;
        let number = all.iter().take(at).filter(same).count();
        Some(Self { id: finding.id, place: finding.place.clone(), number })
    }

    /// Its number in the list; the first of its kind where its place is known better by now.
    fn find(&self, all: &[Finding]) -> Option<usize> {
        let kind = || all.iter().enumerate().filter(|(_, one)| one.id == self.id);
        let same = kind().filter(|(_, one)| one.place == self.place).nth(self.number);
        same.or_else(|| kind().next()).map(|(at, _)| at)
    }
}

/// State of the page of a problem.
#[derive(Debug, Default)]
pub struct ProblemScreen {
    /// The findings opened one from the other, the one shown last.
    trail: Vec<Key>,
    /// The screen that Esc leads to.
    from: Screen,
    /// Selection, and the first line in view.
    pub cursor: Cursor,
}

impl ProblemScreen {
    /// Opens the finding of this number.
    pub(in crate::tui) fn show(&mut self, view: &View, at: usize) {
        if view.screen != Screen::Problem {
            (self.trail, self.from) = (Vec::new(), view.screen);
        }
        let key = view.concluded().and_then(|concluded| Key::of(concluded.findings, at));
        let Some(key) = key else { return };
        // Causes and effects name one another: what was opened before is gone back to.
        match self.trail.iter().position(|known| *known == key) {
            Some(known) => self.trail.truncate(known + 1),
            None => self.trail.push(key),
        }
        if self.trail.len() > TRAIL {
            self.trail.remove(0);
        }
        self.select_first(view);
    }

    /// Closes the finding shown; returns the screen to show.
    pub(in crate::tui) fn back(&mut self) -> Screen {
        self.trail.pop();
        self.cursor = Cursor { selected: Some(0), offset: 0 };
        if self.trail.is_empty() { self.from } else { Screen::Problem }
    }

    /// The screen whose list it was opened from.
    pub(in crate::tui) const fn from(&self) -> Screen {
        self.from
    }

    /// Text to copy: the command of the selected step, else the selected line.
    pub(in crate::tui) fn copied(&self, view: &View) -> Option<String> {
        let body = self.body(view)?;
        let findings = view.concluded()?.findings;
        let finding = findings.get(self.at(view)?)?;
        Some(match body.items.get(self.cursor.selected?)? {
            Item::Step(at) => {
                let step = finding.steps.get(*at)?;
                step.command.clone().unwrap_or_else(|| step.text.clone())
            }
            Item::Finding(at) => findings.get(*at)?.title.clone(),
            Item::Flow(at) => body::route(finding.flows.get(*at)?),
            Item::Link => finding.place.in_words()?,
            Item::Table => finding.flows.iter().map(body::route).collect::<Vec<_>>().join(", "),
        })
    }

    /// The number of the finding shown; `None` where it is none of the time shown.
    pub(in crate::tui) fn at(&self, view: &View) -> Option<usize> {
        let concluded = view.concluded().filter(|concluded| !matches!(concluded.as_of, AsOf::Later(_)))?;
        self.trail.last()?.find(concluded.findings)
    }

    fn body(&self, view: &View) -> Option<Body> {
        let area = view.layout().body;
        Body::new(view, self.at(view)?, area)
    }

    /// Selects the first step that has a command, else what comes first.
    fn select_first(&mut self, view: &View) {
        let body = self.body(view);
        let findings = view.concluded().map_or(&[][..], |concluded| concluded.findings);
        let steps = self.at(view).and_then(|at| findings.get(at)).map_or(&[][..], |one| &one.steps);
        let with_command = |item: &Item| match item {
            Item::Step(at) => steps.get(*at).is_some_and(|step| step.command.is_some()),
            _ => false,
        };
        let first = body.and_then(|body| body.items.iter().position(with_command));
        self.cursor = Cursor { selected: Some(first.unwrap_or(0)), offset: 0 };
    }

    /// Selects the item before or behind where it is in view; else scrolls by a line.
    fn step_line(&mut self, body: &Body, down: bool, room: usize) {
        let in_view = |line: usize| (self.cursor.offset..self.cursor.offset + room.max(1)).contains(&line);
        let lines = || body.spots.iter().enumerate().map(|(at, spot)| (at, spot.line));
        let next = match self.cursor.selected {
            Some(at) if body.spots.get(at).is_some_and(|spot| in_view(spot.line)) => {
                let next = if down { Some(at + 1) } else { at.checked_sub(1) };
                next.and_then(|at| body.spots.get(at).map(|spot| (at, spot.line)))
            }
            // A selection that scrolled out of view is no longer the place to go on from.
            _ if down => lines().find(|(_, line)| in_view(*line)),
            _ => lines().rfind(|(_, line)| in_view(*line)),
        };
        match next {
            Some((at, line)) if in_view(line) => self.cursor.selected = Some(at),
            _ => {
                let step = if down { Move::Down } else { Move::Up };
                self.cursor.scroll(step, body.lines.len(), room);
            }
        }
    }
}

/// The page of a finding below the list, where there is room for its two columns; false where there is none. The last
/// line counts what finds no room.
pub(super) fn preview(buffer: &mut Buffer, area: Rect, view: &View, at: usize) -> bool {
    if area.width < columns::TWO {
        return false;
    }
    let Some(body) = Body::new(view, at, area) else { return false };
    let height = usize::from(area.height);
    let fit = if body.lines.len() > height { height.saturating_sub(1) } else { height };
    for (y, text) in (0..area.height).zip(body.lines.iter().take(fit)) {
        line(buffer, area, y, text);
    }
    if fit < height {
        let key = view.options.keys.first(Input::Open);
        let text =
            format!(" {}: {key} opens all", units::plural((body.lines.len() - fit) as u64, "more line"));
        line(buffer, area, area.height - 1, &Line::styled(text, theme::DIM));
    }
    true
}

impl Page for ProblemScreen {
    fn step(&mut self, view: &mut View, step: Move) {
        let room = usize::from(view.layout().body.height);
        let Some(body) = self.body(view) else { return };
        // The last line in view says how much there is below.
        let seen = room.saturating_sub(usize::from(body.lines.len() > self.cursor.offset + room));
        match step {
            Move::Up | Move::Down => self.step_line(&body, step == Move::Down, seen),
            _ => self.cursor.scroll(step, body.lines.len(), room),
        }
        if step == Move::First {
            self.cursor.selected = Some(0);
        }
    }

    fn open(&mut self, view: &mut View) -> Effect {
        let Some(body) = self.body(view) else { return Effect::None };
        let Some(item) = self.cursor.selected.and_then(|at| body.items.get(at)) else { return Effect::None };
        let finding = self.at(view).and_then(|at| view.concluded()?.findings.get(at).cloned());
        let Some(finding) = finding else { return Effect::None };
        match *item {
            Item::Step(_) => {
                let key = view.options.keys.first(Input::Copy);
                view.messages.say(format!("{key} copies this step's command; it is run in a shell"));
                Effect::None
            }
            Item::Finding(at) => Effect::Finding(at),
            Item::Table => {
                if view.past() && finding.flows.len() == crate::model::conclusions::FLOWS {
                    let kept = finding.flows.len();
                    view.messages.say(format!("showing the first {kept} flows kept for that time"));
                }
                Effect::Focus(Focus {
                    about: finding.id.to_owned(),
                    on: FocusCondition::Flows(finding.flows),
                })
            }
            Item::Link => {
                let Some(data) = &view.data else { return Effect::None };
                let about = finding.place.in_words().unwrap_or_default();
                Effect::Focus(Focus { about, on: FocusCondition::Links(body::links_of(data, &finding)) })
            }
            Item::Flow(at) => {
                let row = finding.flows.get(at).and_then(|flow| body::row_of(view, flow));
                if let Some(row) = row {
                    return Effect::Detail(row.id);
                }
                view.messages.say("this flow is not in the table of the time shown");
                Effect::None
            }
        }
    }

    fn click(&mut self, view: &mut View, at: Position) -> Effect {
        let area = view.layout().body;
        let Some(body) = self.body(view).filter(|_| area.contains(at)) else { return Effect::None };
        let line = self.cursor.offset + usize::from(at.y - area.y);
        let hit =
            body.spots.iter().position(|spot| spot.line == line && spot.columns.contains(&(at.x - area.x)));
        match hit {
            Some(hit) if self.cursor.selected.replace(hit) == Some(hit) => self.open(view),
            _ => Effect::None,
        }
    }

    fn keep_in_view(&mut self, view: &View) {
        if view.screen != Screen::Problem {
            return;
        }
        let Some(body) = self.body(view) else { return };
        let room = usize::from(view.layout().body.height);
        self.cursor.offset = self.cursor.offset.min(body.lines.len().saturating_sub(room));
        let last = body.items.len().checked_sub(1);
        self.cursor.selected = self.cursor.selected.or(Some(0)).zip(last).map(|(at, last)| at.min(last));
    }

    fn hints(&self, view: &View) -> Hints {
        const STEP: Hints = (
            &[(&[Input::Copy], "copy"), (&[Input::Back], "back"), (&[Input::Up, Input::Down], "select")],
            &[],
        );
        const LINK: Hints = (
            &[
                (&[Input::Open], "open"),
                (&[Input::Copy], "copy"),
                (&[Input::Back], "back"),
                (&[Input::Up, Input::Down], "select"),
            ],
            &[],
        );
        let item = self.body(view).and_then(|body| body.items.get(self.cursor.selected?).copied());
        match item {
            Some(Item::Step(_)) => STEP,
            Some(_) => LINK,
            None => (&[(&[Input::Back], "back")], &[]),
        }
    }

    fn export_table(&self, view: &View) -> ExportTable {
        let concluded = view.concluded();
        let finding = concluded.zip(self.at(view)).and_then(|(concluded, at)| concluded.findings.get(at));
        finding_lines::table(finding.into_iter())
    }

    fn render(&self, buffer: &mut Buffer, at: &Layout, view: &View) {
        let Some(body) = self.body(view) else {
            let back = view.options.keys.first(Input::Back);
            let help =
                format!("{back} goes back to the list. In an earlier snapshot it may not have begun yet.");
            empty::because(buffer, at.body, "This problem is not present at the time shown.", &help);
            return;
        };
        scrolled(buffer, at.body, &body.lines, self.cursor.offset);
        let Some(spot) = self.cursor.selected.and_then(|at| body.spots.get(at)) else { return };
        let y = spot.line.checked_sub(self.cursor.offset).and_then(|y| u16::try_from(y).ok());
        let below = body.lines.len() > self.cursor.offset + usize::from(at.body.height);
        let seen = at.body.height.saturating_sub(u16::from(below));
        if let Some(y) = y.filter(|y| *y < seen) {
            let width = spot.columns.end - spot.columns.start;
            select(buffer, Rect::new(at.body.x + spot.columns.start, at.body.y + y, width, 1));
        }
    }
}
