//! Pause, and steps in time.

use super::app::{Action, App};
use super::prompt::parse_time;
use crate::model::TimeRange;
use crate::sample::SourceKind;
use crate::source::feed::Command;
use crate::tui::key::Input;
use crate::util::units;

/// Replay speeds that `+` and `-` go through.
const SPEEDS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0, 1000.0, f64::INFINITY];
/// How far `<` and `>` go, in nanoseconds.
const JUMP_NS: u64 = 10 * SECOND;
const SECOND: u64 = 1_000_000_000;

impl App {
    pub(in crate::tui) fn pause(&mut self) -> Action {
        if self.end.is_some() {
            // Space brings back the end after steps in time.
            if self.shown_ns.is_some() {
                self.unpin();
            }
            return Action::Draw;
        }
        self.paused = !self.paused;
        if self.seek_ns.is_some() {
            self.answer = Some(if self.paused { "will pause there" } else { "will continue there" }.into());
        } else if self.paused {
            self.pin();
        } else {
            self.unpin();
        }
        match self.kind() {
            Some(SourceKind::Live) => Action::Draw,
            Some(SourceKind::Replay) | None => Action::Send(Command::Pause(self.paused)),
        }
    }

    pub(in crate::tui) fn change_speed(&mut self, faster: bool) -> Action {
        let Some(speed) = self.speed.filter(|_| self.end.is_none()) else {
            self.answer = Some("only a running replay has a speed".into());
            return Action::Draw;
        };
        let new = if faster {
            SPEEDS.into_iter().find(|s| *s > speed)
        } else {
            SPEEDS.into_iter().rev().find(|s| *s < speed)
        };
        let Some(new) = new else { return Action::Draw };
        self.speed = Some(new);
        Action::Send(Command::Speed(new))
    }

    /// To the snapshot before or after the one that is shown.
    pub(in crate::tui) fn step_in_time(&mut self, later: bool) {
        let Some(at) = self.snapshot().filter(|_| self.seek_ns.is_none()) else { return };
        let to = if later { at + 1 } else { at.saturating_sub(1) };
        // Before the first figures there is nothing to look at.
        let empty = self.history.get(to).is_some_and(|snapshot| snapshot.start_ns == Some(snapshot.time_ns));
        if to >= self.history.len() || to == at || empty {
            self.answer =
                Some(if later { "this is the newest snapshot".to_owned() } else { self.nothing_older() });
            return;
        }
        self.show_snapshot(to);
    }

    /// Why there is no snapshot before this one, and what helps.
    fn nothing_older(&self) -> String {
        let [to, back] = [Input::GoTo, Input::JumpBack].map(|input| self.options.keys.first(input));
        if self.is_file() {
            format!("no older snapshot; {to} or {back} reads the capture again")
        } else {
            "no older snapshot".to_owned()
        }
    }

    /// True if the source can be read again: a stream comes as it comes, and has no speed either.
    fn is_file(&self) -> bool {
        self.kind() == Some(SourceKind::Replay) && self.speed.is_some()
    }

    fn show_snapshot(&mut self, at: usize) {
        let Some(snapshot) = self.history.get(at) else { return };
        self.shown_ns = Some(snapshot.time_ns);
        if at + 1 == self.history.len() && self.end.is_some() {
            self.shown_ns = None;
        }
        self.recompute(true);
    }

    pub(in crate::tui) fn jump(&mut self, forward: bool) -> Action {
        // What was asked for last, though its figures may be still to come.
        let shown_ns = self.shown_ns.or_else(|| self.data.as_ref().map(|data| data.model.time_ns));
        let Some(now) = shown_ns else { return Action::Draw };
        let to = if forward { now.saturating_add(JUMP_NS) } else { now.saturating_sub(JUMP_NS) };
        self.go_to(to)
    }

    pub(in crate::tui) fn go_to_text(&mut self, text: &str) -> Action {
        let Some(data) = &self.data else { return Action::Draw };
        let now = data.model.time_ns;
        let start = now.saturating_sub(data.model.window_ns.unwrap_or(0));
        if let Some(to) = parse_time(text, now, start) {
            return self.go_to(to);
        }
        self.answer = Some(format!("invalid time '{text}': use 12:00:05, +30 or -30"));
        Action::Draw
    }

    /// To a time: in the history where it is kept, else by having the replay go there.
    fn go_to(&mut self, to_ns: u64) -> Action {
        if self.seek_ns.is_some() {
            self.answer = Some("the replay is still seeking".into());
            return Action::Draw;
        }
        let newest = self.newest.as_ref().map_or(0, |sample| sample.time_ns);
        let start = self.newest.as_ref().and_then(|sample| sample.window).map_or(0, |(first, _)| first);
        let replay = self.kind() == Some(SourceKind::Replay);
        let file = self.is_file();
        if to_ns > newest {
            if file && self.end.is_none() {
                // The events that wait are of the time that is skipped.
                let paused = std::mem::take(&mut self.paused);
                self.unpin();
                self.paused = paused;
                self.seek_ns = Some(to_ns);
                self.answer = Some(format!("seeking to {} UTC", units::clock_utc(to_ns)));
                return Action::Send(Command::Seek(to_ns));
            }
            let (over, at) = (self.end.is_some(), units::second_utc(newest));
            self.answer =
                Some(if over { format!("the data ends at {at}") } else { "no newer data yet".into() });
            if self.shown_ns.is_some()
                && let Some(last) = self.history.len().checked_sub(1)
            {
                self.show_snapshot(last);
            }
            return Action::Draw;
        }
        // The time before anything was counted is nothing to look at.
        let first = self.history.iter().position(|m| m.start_ns != Some(m.time_ns)).unwrap_or(0);
        let at = self.history.at_time(to_ns).filter(|at| *at >= first).unwrap_or(first);
        let nearest_ns = self.history.get(at).map_or(to_ns, |snapshot| snapshot.time_ns);
        let length = newest.saturating_sub(start);
        // Of the very beginning there would be nothing to see either.
        let begin = start.saturating_add((length / 10).min(SECOND));
        let target_ns = if to_ns > start { to_ns } else { begin };
        let off = nearest_ns.abs_diff(target_ns);
        // A snapshot stands for the time around it: a second, and less where all is short.
        if file && off > (length / 100).min(SECOND) {
            return self.rewind(target_ns);
        }
        let mut action = Action::Draw;
        if self.end.is_none() && !self.paused {
            action = self.pause();
        }
        if off > SECOND {
            let (asked, found) = (units::second_utc(to_ns), units::second_utc(nearest_ns));
            self.answer = Some(if replay && !file {
                format!("showing {found}: a stream cannot be read again")
            } else {
                format!("{asked} is not kept, showing {found}")
            });
        } else if to_ns < start {
            let asked = units::second_utc(to_ns);
            self.answer = Some(format!("{asked} precedes the data; showing its start"));
        } else if to_ns == start {
            self.answer = Some("start of the data".into());
        }
        self.show_snapshot(at);
        action
    }

    /// Has the replay read again up to a time that is no longer kept.
    fn rewind(&mut self, to_ns: u64) -> Action {
        if self.end.take().is_some() {
            // It would be at the end again at once.
            self.paused = true;
            self.range = TimeRange::default();
        }
        self.shown_ns = None;
        self.seek_ns = Some(to_ns);
        self.answer =
            Some(format!("seeking back to {} UTC: reading the capture again", units::clock_utc(to_ns)));
        Action::Send(Command::Rewind(to_ns))
    }
}
