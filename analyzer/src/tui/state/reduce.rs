//! The reducer: changes of the state by keys and the mouse.

use super::app::{Action, App, Opened, Overlay};
use super::cursor::{Cursor, Move};
use super::prompt::{Prompt, Purpose, Typed};
use super::screen::Screen;
use super::table::{Focus, Group, Only, Sort};
use crate::model::{TimeRange, conclusions};
use crate::tui::column::{self, COLUMNS, Id};
use crate::tui::key::{Input, Key};
use crate::tui::query::Query;
use crate::tui::{export, screens};

impl App {
    /// Handles a key.
    #[must_use]
    pub fn on_key(&mut self, key: Key) -> Action {
        self.unread = false;
        self.answer = None;
        if self.prompt.is_some() && key != Key::Ctrl('c') {
            return self.type_key(key);
        }
        if let Overlay::Columns(at) = self.overlay
            && let Some(action) = self.choose_columns(at, key)
        {
            return action;
        }
        let Some(input) = self.options.keys.decode(key, self.screen, self.still()) else {
            return Action::Draw;
        };
        if self.overlay != Overlay::None {
            return self.in_overlay(input);
        }
        self.on_input(input)
    }

    pub(in crate::tui) fn on_input(&mut self, input: Input) -> Action {
        match input {
            Input::Up => self.step(Move::Up),
            Input::Down => self.step(Move::Down),
            Input::PageUp => self.step(Move::PageUp),
            Input::PageDown => self.step(Move::PageDown),
            Input::First => self.step(Move::First),
            Input::Last => self.step(Move::Last),
            Input::Left => self.cell.1 = self.cell.1.saturating_sub(1),
            Input::Right => {
                self.cell.1 += 1;
                self.keep_in_view();
            }
            Input::Open => self.open(),
            Input::Screen(number) => {
                if let Some(screen) = Screen::ALL.get(number) {
                    self.show_screen(*screen);
                }
            }
            Input::NextScreen => self.show_screen(self.screen.turn(1)),
            Input::PreviousScreen => self.show_screen(self.screen.turn(Screen::ALL.len() - 1)),
            Input::SortNext => self.sort_by_neighbour(true),
            Input::SortPrevious => self.sort_by_neighbour(false),
            Input::Reverse => {
                self.table.sort.descending = !self.table.sort.descending;
                self.arrange(false);
            }
            Input::Columns => self.overlay = Overlay::Columns(0),
            Input::Group => self.group(self.table.group.next()),
            Input::Mark => self.table.mark(),
            Input::OnlyMarked => {
                self.table.only_marked = !self.table.only_marked;
                self.arrange(false);
            }
            Input::Follow => self.follow(),
            Input::Metric => {
                self.metric = self.metric.next();
                let hottest = self.data.as_ref().and_then(|data| data.matrix.hottest(self.metric));
                self.cell = hottest.unwrap_or(self.cell);
            }
            Input::MoreUplinks => return self.change_uplinks(true),
            Input::FewerUplinks => return self.change_uplinks(false),
            Input::Filter => self.prompt = Some(Prompt::new(Purpose::Filter, &self.filter)),
            Input::GoTo => self.prompt = Some(Prompt::new(Purpose::GoTo, "")),
            Input::Pause => return self.pause(),
            Input::Earlier => self.step_in_time(false),
            Input::Later => self.step_in_time(true),
            Input::JumpBack => return self.jump(false),
            Input::JumpForward => return self.jump(true),
            Input::Faster => return self.change_speed(true),
            Input::Slower => return self.change_speed(false),
            Input::TimeRange => return self.change_time_range(),
            Input::Reset => self.reset(),
            Input::ExportCsv => return self.export(export::Form::Csv),
            Input::ExportJson => return self.export(export::Form::Json),
            Input::Capture => return self.capture(),
            Input::Read => {
                if self.finding_count() > 0 {
                    self.overlay = Overlay::Finding(0);
                }
            }
            // They are of what is opened.
            Input::Older | Input::Newer => {}
            Input::Help => self.overlay = Overlay::Help(0),
            Input::Redraw => return Action::Redraw,
            Input::Suspend => return Action::Suspend,
            Input::Back => return self.back(),
            Input::Quit => return Action::Quit,
        }
        Action::Draw
    }

    /// Keys while help or a packet lies over the screen: they scroll it, or close it.
    fn in_overlay(&mut self, input: Input) -> Action {
        let step = match input {
            Input::Up => Move::Up,
            Input::Down => Move::Down,
            Input::PageUp => Move::PageUp,
            Input::PageDown => Move::PageDown,
            Input::First => Move::First,
            Input::Last => Move::Last,
            Input::Quit => return Action::Quit,
            Input::Redraw => return Action::Redraw,
            Input::Suspend => return Action::Suspend,
            Input::Capture => return self.capture(),
            Input::Older | Input::Newer if matches!(self.overlay, Overlay::Packet(_)) => {
                self.open_neighbour(input == Input::Older);
                return Action::Draw;
            }
            _ => {
                self.overlay = Overlay::None;
                return Action::Draw;
            }
        };
        let page = usize::from(self.size.1.saturating_sub(3));
        let scrolled = |top, lines: usize| {
            let mut cursor = Cursor { selected: None, offset: top };
            cursor.scroll(step, lines, page);
            cursor.offset
        };
        self.overlay = match self.overlay {
            Overlay::Help(top) => Overlay::Help(scrolled(top, screens::help::lines(self).len())),
            Overlay::Packet(opened) => {
                let top = scrolled(opened.top, screens::packet::lines(self).len());
                Overlay::Packet(Opened { top, ..opened })
            }
            Overlay::Finding(top) => Overlay::Finding(scrolled(top, screens::findings::lines(self).len())),
            other => other,
        };
        Action::Draw
    }

    fn type_key(&mut self, key: Key) -> Action {
        match key {
            Key::Ctrl('l') => return Action::Redraw,
            Key::Ctrl('z') => return Action::Suspend,
            _ => {}
        }
        let Some(prompt) = &mut self.prompt else { return Action::None };
        let typed = prompt.on_key(key);
        let (purpose, text, before) = (prompt.purpose, prompt.text.clone(), prompt.before.clone());
        if matches!(typed, Typed::Done | Typed::Dropped) {
            self.prompt = None;
        }
        match (purpose, typed) {
            (_, Typed::Nothing) | (Purpose::GoTo, Typed::Changed | Typed::Dropped) => Action::Draw,
            (Purpose::Filter, Typed::Done) if self.query.error.is_some() => {
                let error = self.query.error.take().map_or_else(String::new, |error| error.one_line());
                self.answer = Some(format!("filter unchanged: {error}"));
                self.set_filter(&before)
            }
            (Purpose::Filter, Typed::Changed | Typed::Done) => self.set_filter(&text),
            (Purpose::Filter, Typed::Dropped) => self.set_filter(&before),
            (Purpose::GoTo, Typed::Done) => self.go_to_text(&text),
        }
    }

    fn set_filter(&mut self, text: &str) -> Action {
        text.clone_into(&mut self.filter);
        self.query = Query::new(text);
        // Its places were those of another list.
        self.events = Cursor::default();
        self.arrange(false);
        Action::Draw
    }

    /// Moves in the list of the screen.
    pub(in crate::tui) fn step(&mut self, step: Move) {
        let layout = self.layout();
        match self.screen {
            Screen::Overview => {
                let rows = self.data.as_ref().map_or(0, |data| data.busiest.len());
                self.busiest.step(step, rows, layout.table_page(Screen::Overview));
            }
            Screen::Qps => {
                if let Some(data) = &self.data {
                    self.table.step(step, &data.model, layout.table_page(self.screen));
                }
            }
            Screen::Detail => self.step_detail(step),
            Screen::Matrix => {
                let rows = self.data.as_ref().map_or(0, |data| data.matrix.size().0);
                let page = usize::from(layout.body.height.saturating_sub(3)).max(1);
                let mut cursor = Cursor { selected: Some(self.cell.0), offset: 0 };
                cursor.step(step, rows, page);
                self.cell.0 = cursor.selected.unwrap_or(0);
            }
            Screen::Links => self.step_links(step),
            Screen::Bursts => {
                let lines = screens::bursts::height(self);
                self.bursts.scroll(step, lines, usize::from(layout.body.height));
            }
            Screen::Events => self.events.step(step, self.event_count(), layout.events_page()),
            Screen::Findings => self.findings.step(step, self.finding_count(), layout.findings_page()),
        }
        self.keep_in_view();
    }

    /// Moves in the list of links, and beyond its last one through what stands below.
    fn step_links(&mut self, step: Move) {
        let layout = self.layout();
        let links = self.data.as_ref().map_or(0, |data| data.model.links.len());
        let on_last = self.links.selected == links.checked_sub(1);
        let scrolls = match step {
            Move::Down | Move::PageDown => on_last,
            Move::Up | Move::PageUp => self.below.offset > 0,
            Move::First | Move::Last => true,
        };
        if !scrolls || matches!(step, Move::First | Move::Last) {
            self.links.step(step, links, layout.links_page());
        }
        if scrolls {
            let room = usize::from(screens::links::below_height(self, layout.body.height));
            self.below.scroll(step, screens::links::below_lines(self), room);
        }
    }

    pub(in crate::tui) fn show_screen(&mut self, screen: Screen) {
        let new = self.screen != screen;
        self.screen = screen;
        self.refresh_matrix();
        if let (Screen::Matrix, true, Some(data)) = (screen, new, &self.data) {
            self.cell = data.matrix.hottest(self.metric).unwrap_or(self.cell);
        }
        self.refresh_detail();
        self.keep_in_view();
    }

    /// Enter: from the list to what is selected in it.
    pub(in crate::tui) fn open(&mut self) {
        match self.screen {
            Screen::Overview => {
                if self.busiest.selected.is_none() {
                    self.step(Move::Up);
                }
                let data = self.data.as_ref();
                let row = data
                    .zip(self.busiest.selected)
                    .and_then(|(data, at)| data.model.rows.get(*data.busiest.get(at)?));
                if let Some(id) = row.map(|row| row.id) {
                    self.table.selected = Some(id);
                    self.arrange(true);
                    self.table.selected = Some(id);
                    self.show_detail();
                }
            }
            Screen::Qps => self.open_row(),
            Screen::Matrix => {
                let pair = self.data.as_ref().and_then(|data| {
                    let matrix = &data.matrix;
                    Some((*matrix.sources.get(self.cell.0)?, *matrix.destinations.get(self.cell.1)?))
                });
                if let Some((src, dst)) = pair {
                    self.focus(format!("{src} → {dst}"), Only::Hosts(src, dst));
                }
            }
            Screen::Links => {
                let at = self.links.selected.unwrap_or(0);
                let name =
                    self.data.as_ref().and_then(|data| data.model.links.get(at)).map(|l| l.name.clone());
                if let (Some(name), Ok(link)) = (name, u16::try_from(at)) {
                    self.focus(name, Only::Link(link));
                }
            }
            Screen::Events => self.open_listed_event(),
            Screen::Findings => {
                let at = self.findings.selected.unwrap_or(0);
                let finding = self.concluded().and_then(|concluded| concluded.findings.get(at));
                let about = finding.map(|finding| (finding.id.to_owned(), finding.flows.clone()));
                match about {
                    Some((_, flows)) if flows.is_empty() => {
                        self.answer = Some("this finding names no queue pair".into());
                    }
                    Some((id, flows)) => {
                        if self.past() && flows.len() == conclusions::FLOWS {
                            self.answer =
                                Some(format!("showing the first {} flows kept for that time", flows.len()));
                        }
                        self.focus(id, Only::Flows(flows));
                    }
                    None => {}
                }
            }
            Screen::Detail => self.open_detail_event(),
            Screen::Bursts => {}
        }
    }

    fn show_detail(&mut self) {
        self.detail = Cursor::default();
        self.marked_event = None;
        self.from = self.screen;
        self.show_screen(Screen::Detail);
    }

    fn open_row(&mut self) {
        if self.table.selected.is_none() {
            self.step(Move::Up);
        }
        let at = self.table.cursor.selected.and_then(|at| self.table.order.get(at)).copied();
        let group = self.table.group;
        if group == Group::None {
            if self.table.selected.is_some() {
                self.show_detail();
            }
            return;
        }
        let Some((sum, data)) = at.and_then(|at| self.group_sum(at)).zip(self.data.as_ref()) else {
            return;
        };
        let (name, id) = (sum.name.to_string(), sum.row.id);
        let address = |words| crate::sample::address(id.key.family, words);
        let cx = data.context();
        let row = data.model.rows.iter().find(|row| row.id == id);
        let process = row.and_then(|row| cx.owner(row)).and_then(column::process);
        let only = match group {
            Group::None | Group::Hosts => Only::Hosts(address(id.key.src), address(id.key.dst)),
            Group::Link => Only::Link(id.key.link),
            Group::Process => Only::Process(process),
        };
        self.table.group = Group::None;
        self.focus(name, only);
    }

    /// Shows the queue pairs that something is about.
    fn focus(&mut self, about: String, on: Only) {
        self.table.focus = Some(Focus { about, on });
        self.table.selected = None;
        self.table.cursor = Cursor::default();
        self.table.group = Group::None;
        self.screen = Screen::Qps;
        self.arrange(false);
    }

    fn group(&mut self, group: Group) {
        if group == Group::Process && !self.has().owners {
            self.answer = Some("process unknown for all queue pairs".into());
        }
        self.table.group = group;
        self.table.selected = None;
        self.table.cursor = Cursor::default();
        self.arrange(false);
    }

    fn follow(&mut self) {
        self.table.follow = !self.table.follow;
        let how = if self.table.follow {
            "the view follows the selected row"
        } else {
            "rows keep their places while one is selected"
        };
        self.answer = Some(how.into());
        self.arrange(false);
    }

    /// Sorts by the next visible column, or the one before, in its natural direction.
    fn sort_by_neighbour(&mut self, next: bool) {
        let visible: Vec<Id> = self.visible_columns().iter().map(|fitted| fitted.column.id).collect();
        let count = visible.len();
        if count == 0 {
            return;
        }
        let at = visible.iter().position(|id| *id == self.table.sort.by);
        let to = match (at, next) {
            (Some(at), true) => (at + 1) % count,
            (Some(at), false) => (at + count - 1) % count,
            (None, _) => 0,
        };
        if let Some(id) = visible.get(to) {
            self.sort_by(*id);
        }
    }

    pub(in crate::tui) fn sort_by(&mut self, id: Id) {
        self.table.sort = Sort::by(id);
        self.arrange(false);
    }

    /// The columns in the order of the choice: those shown, then the others.
    #[must_use]
    pub fn column_choice(&self) -> Vec<(&'static column::Column, bool)> {
        let mut shown = self.table.columns.clone();
        if shown.is_empty() {
            shown = self.columns().iter().map(|fitted| fitted.column.id).collect();
        }
        let others =
            COLUMNS.iter().filter(|column| !shown.contains(&column.id)).map(|column| (column, false));
        shown.iter().map(|id| (column::column(*id), true)).chain(others).collect()
    }

    /// Keys while columns are chosen; `None` for those that mean what they always do.
    fn choose_columns(&mut self, at: usize, key: Key) -> Option<Action> {
        let choice = self.column_choice();
        let (column, shown) = choice.get(at).copied()?;
        let mut columns: Vec<Id> = choice.iter().filter(|(_, shown)| *shown).map(|(c, _)| c.id).collect();
        let mut place = at;
        match key {
            Key::Up | Key::Char('k') => place = at.saturating_sub(1),
            Key::Down | Key::Char('j') => place = (at + 1).min(choice.len() - 1),
            Key::Home => place = 0,
            Key::End => place = choice.len() - 1,
            Key::Char(' ') if shown && columns.len() > 1 => columns.retain(|id| *id != column.id),
            Key::Char(' ') if !shown => {
                columns.push(column.id);
                place = columns.len() - 1;
            }
            Key::Left | Key::Char('-') if shown && at > 0 => {
                columns.swap(at, at - 1);
                place = at - 1;
            }
            Key::Right | Key::Char('+') if shown && at + 1 < columns.len() => {
                columns.swap(at, at + 1);
                place = at + 1;
            }
            Key::Backspace | Key::Delete => columns.clear(),
            Key::Enter | Key::Esc | Key::Char('c') => {
                self.overlay = Overlay::None;
                return Some(Action::Draw);
            }
            Key::Char('q') | Key::Ctrl(_) => return None,
            _ => return Some(Action::Draw),
        }
        self.table.columns = columns;
        self.overlay = Overlay::Columns(place);
        Some(Action::Draw)
    }

    fn change_uplinks(&mut self, more: bool) -> Action {
        let shown = self.analysis.as_ref().and_then(|analysis| analysis.report.facts.ecmp.as_ref());
        let now = self.uplinks.or(shown.map(|ecmp| ecmp.uplinks)).unwrap_or(2);
        let first = self.uplinks.is_none() && shown.is_none();
        let next = match (first, more) {
            (true, _) => 4,
            (false, true) => (now * 2).min(1024),
            (false, false) => (now / 2).max(2),
        };
        self.uplinks = Some(next);
        Action::Analyse
    }

    fn change_time_range(&mut self) -> Action {
        let at = TimeRange::ALL.iter().position(|range| *range == self.range).unwrap_or(0);
        self.range = TimeRange::ALL.into_iter().cycle().nth(at + 1).unwrap_or_default();
        self.recompute(false);
        Action::Analyse
    }

    fn reset(&mut self) {
        if self.end.is_some() {
            self.answer = Some("the data has ended: nothing to count after a reset".into());
        } else if self.history.reset() {
            self.answer = Some("counters reset; findings are kept".into());
            self.recompute(false);
        }
    }

    fn back(&mut self) -> Action {
        if self.screen == Screen::Detail {
            self.show_screen(self.from);
        } else if self.table.focus.take().is_some() || self.table.only_marked {
            self.table.only_marked = false;
            self.arrange(false);
        } else if !self.filter.is_empty() {
            self.answer = Some("filter cleared".into());
            return self.set_filter("");
        } else if self.table.group != Group::None {
            self.group(Group::None);
        } else if let Some(cursor) = self.selection() {
            *cursor = Cursor::default();
            self.below = Cursor::default();
            if self.screen == Screen::Qps {
                self.table.selected = None;
                self.arrange(false);
            }
        } else if !self.table.marked.is_empty() {
            self.table.marked.clear();
            self.answer = Some("marks cleared".into());
        } else {
            // A key that is pressed once too often leaves nothing behind that it took an hour to see.
            let quit = self.options.keys.first(Input::Quit);
            self.answer = Some(format!("nothing to close ({quit} quits)"));
        }
        Action::Draw
    }

    /// The cursor of this screen when something is selected.
    fn selection(&mut self) -> Option<&mut Cursor> {
        let cursor = match self.screen {
            Screen::Overview => &mut self.busiest,
            Screen::Qps => &mut self.table.cursor,
            Screen::Links => &mut self.links,
            Screen::Events => &mut self.events,
            Screen::Findings => &mut self.findings,
            Screen::Detail | Screen::Matrix | Screen::Bursts => return None,
        };
        cursor.selected.is_some().then_some(cursor)
    }
}
