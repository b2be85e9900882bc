//! Pause, and steps in time.

use super::{Action, App};
use crate::model::TimeRange;
use crate::sample::SourceKind;
use crate::source::feed::Command;
use crate::tui::key::Input;
use crate::tui::prompt::parse_time;
use crate::util::time::NS_PER_S;
use crate::util::units;

/// Replay speeds that `[` and `]` go through.
const SPEEDS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0, 1000.0, f64::INFINITY];
/// Distance of the jumps of `<` and `>`, in nanoseconds.
const JUMP_NS: u64 = 10 * NS_PER_S;
/// Steps through a short capture.
const STEPS: u64 = 20;

impl App {
    pub(in crate::tui) fn pause(&mut self) -> Action {
        let timeline = &mut self.view.timeline;
        if timeline.end.is_some() {
            // Space brings back the end after steps in time.
            if timeline.shown_ns.is_some() {
                self.unpin();
                return Action::Draw;
            }
            return self.play();
        }
        timeline.paused = !timeline.paused;
        let paused = timeline.paused;
        if timeline.seek_ns.is_some() {
            self.view.messages.say(if paused { "will pause there" } else { "will continue there" });
        } else if paused {
            self.pin();
        } else {
            self.unpin();
        }
        match self.view.kind() {
            Some(SourceKind::Live) => Action::Draw,
            Some(SourceKind::Replay) | None => Action::Send(Command::Pause(paused)),
        }
    }

    /// Plays a capture that was read to its end, from its start.
    fn play(&mut self) -> Action {
        let window = self.view.newest.as_ref().and_then(|sample| sample.window);
        let Some((first_ns, last_ns)) = window.filter(|_| self.is_file()) else { return Action::Draw };
        let begin_ns = first_ns.saturating_add((last_ns.saturating_sub(first_ns) / 100).min(NS_PER_S));
        let _ = self.rewind(begin_ns);
        self.view.timeline.paused = false;
        let speed = self.view.timeline.speed.filter(|speed| speed.is_finite()).unwrap_or(1.0);
        self.view.timeline.speed = Some(speed);
        self.view.messages.say(format!("playing from the start at {speed}x"));
        Action::Play { from_ns: begin_ns, speed }
    }

    pub(in crate::tui) fn change_speed(&mut self, faster: bool) -> Action {
        let timeline = &mut self.view.timeline;
        let Some(speed) = timeline.speed.filter(|_| timeline.end.is_none()) else {
            self.view.messages.say("only a running replay has a speed");
            return Action::Draw;
        };
        let new = if faster {
            SPEEDS.into_iter().find(|s| *s > speed)
        } else {
            SPEEDS.into_iter().rev().find(|s| *s < speed)
        };
        let Some(new) = new else { return Action::Draw };
        timeline.speed = Some(new);
        Action::Send(Command::Speed(new))
    }

    /// To the snapshot before or after the one shown; one before the newest pauses.
    pub(in crate::tui) fn step_in_time(&mut self, later: bool) -> Action {
        // The mark in the timeline is the time shown again.
        self.screens.overview.chart.cursor_ns = None;
        let timeline = &self.view.timeline;
        let Some(at) = timeline.snapshot().filter(|_| timeline.seek_ns.is_none()) else {
            return Action::Draw;
        };
        let to = self.a_step_from(at, later);
        // The snapshot of the start has no values.
        let history = &timeline.history;
        let empty = history.get(to).is_some_and(|snapshot| snapshot.start_ns == Some(snapshot.time_ns));
        if to < history.len() && to != at && !empty {
            let action = if timeline.still() { Action::Draw } else { self.pause() };
            self.show_snapshot(to);
            return action;
        }
        let text = if later { "this is the newest snapshot".to_owned() } else { self.nothing_older() };
        self.view.messages.say(text);
        Action::Draw
    }

    /// The snapshot a step from this one. Those of a replay are not evenly spaced: there it is the one nearest to a
    /// second away, in a short capture to a twentieth of its length.
    fn a_step_from(&self, at: usize, later: bool) -> usize {
        let history = &self.view.timeline.history;
        let time_ns = |at: usize| history.get(at).map(|snapshot| snapshot.time_ns);
        let next = |at: usize| if later { Some(at + 1) } else { at.checked_sub(1) };
        if self.view.kind() == Some(SourceKind::Live) {
            return next(at).unwrap_or(at);
        }
        let window = self.view.newest.as_ref().and_then(|sample| sample.window);
        let length_ns = window.map_or(0, |(first, last)| last.saturating_sub(first));
        let step_ns = (length_ns / STEPS).min(NS_PER_S);
        let (Some(from_ns), Some(mut to)) = (time_ns(at), next(at)) else { return at };
        let off = |at: usize| Some(time_ns(at)?.abs_diff(from_ns).abs_diff(step_ns));
        while let Some(further) =
            next(to).filter(|further| off(*further) < off(to) && off(*further).is_some())
        {
            to = further;
        }
        to
    }

    /// There is no older snapshot, and what helps.
    fn nothing_older(&self) -> String {
        let [to, back] = [Input::GoTo, Input::JumpBack].map(|input| self.view.options.keys.first(input));
        if self.is_file() {
            format!("no older snapshot; {to} or {back} reads the capture again")
        } else {
            "no older snapshot".to_owned()
        }
    }

    /// True if the source can be read again: a stream cannot, and has no speed either.
    fn is_file(&self) -> bool {
        self.view.kind() == Some(SourceKind::Replay) && self.view.timeline.speed.is_some()
    }

    fn show_snapshot(&mut self, at: usize) {
        self.screens.overview.chart.cursor_ns = None;
        let timeline = &mut self.view.timeline;
        let Some(snapshot) = timeline.history.get(at) else { return };
        let newest_of_all = at + 1 == timeline.history.len() && timeline.end.is_some();
        timeline.shown_ns = Some(snapshot.time_ns).filter(|_| !newest_of_all);
        self.recompute(true);
    }

    pub(in crate::tui) fn jump(&mut self, forward: bool) -> Action {
        // The snapshot that was asked for last, though its values may be still to come.
        let data = self.view.data.as_ref();
        let shown_ns = self.view.timeline.shown_ns.or_else(|| data.map(|data| data.model.time_ns));
        let Some(now) = shown_ns else { return Action::Draw };
        let to = if forward { now.saturating_add(JUMP_NS) } else { now.saturating_sub(JUMP_NS) };
        self.go_to(to)
    }

    pub(in crate::tui) fn go_to_text(&mut self, text: &str) -> Action {
        let Some(data) = &self.view.data else { return Action::Draw };
        let now = data.model.time_ns;
        let start = now.saturating_sub(data.model.window_ns.unwrap_or(0));
        if let Some(to) = parse_time(text, now, start) {
            return self.go_to(to);
        }
        self.view.messages.say(format!("invalid time '{text}': use 12:00:05, +30 or -30"));
        Action::Draw
    }

    /// To a time: in the history where it is kept, else by having the replay go there.
    fn go_to(&mut self, to_ns: u64) -> Action {
        self.screens.overview.chart.cursor_ns = None;
        if self.view.timeline.seek_ns.is_some() {
            self.view.messages.say("the replay is still seeking");
            return Action::Draw;
        }
        let newest = self.view.newest.as_ref().map_or(0, |sample| sample.time_ns);
        if to_ns > newest { self.go_ahead(to_ns, newest) } else { self.go_back(to_ns, newest) }
    }

    /// To a time later than the newest sample.
    fn go_ahead(&mut self, to_ns: u64, newest: u64) -> Action {
        let over = self.view.timeline.end.is_some();
        if self.is_file() && !over {
            // The events that wait are of the time that is skipped.
            let paused = std::mem::take(&mut self.view.timeline.paused);
            self.unpin();
            (self.view.timeline.paused, self.view.timeline.seek_ns) = (paused, Some(to_ns));
            self.view.messages.say(format!("seeking to {} UTC", units::clock_utc(to_ns)));
            return Action::Send(Command::Seek(to_ns));
        }
        self.view.messages.say(if over {
            format!("the data ends at {}", units::second_utc(newest))
        } else {
            "no newer data yet".into()
        });
        if self.view.timeline.shown_ns.is_some()
            && let Some(last) = self.view.timeline.history.len().checked_sub(1)
        {
            self.show_snapshot(last);
        }
        Action::Draw
    }

    /// To a time not later than the newest sample.
    fn go_back(&mut self, to_ns: u64, newest: u64) -> Action {
        let window = self.view.newest.as_ref().and_then(|sample| sample.window);
        let start = window.map_or(0, |(first, _)| first);
        let history = &self.view.timeline.history;
        // Snapshots before the first packet have no values.
        let first = history.iter().position(|m| m.start_ns != Some(m.time_ns)).unwrap_or(0);
        let at = history.nearest(to_ns).filter(|at| *at >= first).unwrap_or(first);
        let nearest_ns = history.get(at).map_or(to_ns, |snapshot| snapshot.time_ns);
        let length = newest.saturating_sub(start);
        // The very beginning has nothing to show either.
        let begin = start.saturating_add((length / 10).min(NS_PER_S));
        let target_ns = if to_ns > start { to_ns } else { begin };
        let off = nearest_ns.abs_diff(target_ns);
        // A snapshot stands for the time around it: a second, and less in a short capture.
        if self.is_file() && off > (length / 100).min(NS_PER_S) {
            return self.rewind(target_ns);
        }
        let mut action = Action::Draw;
        if !self.view.timeline.still() {
            action = self.pause();
        }
        if off > NS_PER_S {
            let (asked, found) = (units::second_utc(to_ns), units::second_utc(nearest_ns));
            let stream = self.view.kind() == Some(SourceKind::Replay) && !self.is_file();
            self.view.messages.say(if stream {
                format!("showing {found}: a stream cannot be read again")
            } else {
                format!("{asked} is not kept, showing {found}")
            });
        } else if to_ns < start {
            let asked = units::second_utc(to_ns);
            self.view.messages.say(format!("{asked} precedes the data; showing its start"));
        } else if to_ns == start {
            self.view.messages.say("start of the data");
        }
        self.show_snapshot(at);
        action
    }

    /// Has the replay read again up to a time that is no longer kept.
    fn rewind(&mut self, to_ns: u64) -> Action {
        self.screens.overview.chart.cursor_ns = None;
        let timeline = &mut self.view.timeline;
        if timeline.end.take().is_some() {
            // It would be at the end again at once.
            timeline.paused = true;
            self.view.range = TimeRange::default();
        }
        (timeline.shown_ns, timeline.seek_ns) = (None, Some(to_ns));
        let clock = units::clock_utc(to_ns);
        self.view.messages.say(format!("seeking back to {clock} UTC: reading the capture again"));
        Action::Send(Command::Rewind(to_ns))
    }
}
