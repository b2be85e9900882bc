//! The loop: keys in, updates in, pictures out. Everything else is elsewhere, and pure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use ratatui::crossterm::event::{
    self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::background::{Background, WorkResult};
use super::inbox::{Inbox, UpdatesSince};
use super::terminal::{GONE, Guard};
use super::wait::{ENDING, Waiter, WakeReason};
use crate::source::feed::{Command, Feed};
use crate::tui::analysis::Analysis;
use crate::tui::app::{Action, App, End};
use crate::tui::key::Key;
use crate::tui::mouse::Mouse;
use crate::tui::preparation::{Preparation, Prepared};
use crate::tui::{Options, draw};
use crate::util::memory;

/// Longest time that the loop waits for a key before it takes updates, and draws what they changed.
const TICK: Duration = Duration::from_millis(200);
/// Time between two samples that are taken, at least.
const APART: Duration = Duration::from_millis(100);
/// Time from one picture to the next that shows nothing new but events: as long as that between two samples, so that a
/// list of events that moves is written once a second.
const CALM: Duration = Duration::from_secs(1);
/// Enough for the terminal library to look once; its waiting spins.
const LOOK: Duration = Duration::from_micros(100);
/// Time in which the signal comes that says why a terminal is gone, on a machine that is busy.
const SIGNAL_WITHIN: Duration = Duration::from_secs(2);
/// Keys taken before the screen is drawn again, when many wait: as many as the terminal library reads at once.
const KEYS_PER_PICTURE: usize = 1024;

/// Threads and files that are left when the screen is closed and the terminal given back.
#[derive(Debug)]
#[must_use]
pub struct Closed {
    /// Conclusions from the latest sample that was analysed; `None` before the first.
    pub analysis: Option<Arc<Analysis>>,
    /// An error if the terminal cannot be set up, goes away, or the source failed.
    pub result: Result<()>,
}

/// Shows the samples of `feed` until the user quits or a signal ends the run. Then the source is ordered to stop; the
/// caller waits for it, and should keep nothing else of the feed.
pub fn run(feed: Feed, options: Options) -> Closed {
    memory::give_back_of_view();
    let mut analysis = None;
    let result = with_signals(|stopped| {
        let mut guard = Guard::new(options.mouse)?;
        show(feed, options, &mut guard, (stopped, &mut analysis))
    });
    Closed { analysis, result }
}

/// Runs `show` with a flag that ending signals set.
fn with_signals(show: impl FnOnce(&AtomicBool) -> Result<()>) -> Result<()> {
    let stopped = Arc::new(AtomicBool::new(false));
    let mut handlers = Vec::new();
    for signal in ENDING {
        let handler = signal_hook::flag::register(signal, Arc::clone(&stopped));
        handlers.push(handler.context("signals cannot be handled")?);
    }
    let result = show(&stopped);
    for handler in handlers {
        signal_hook::low_level::unregister(handler);
    }
    result
}

fn show(
    feed: Feed,
    options: Options,
    guard: &mut Guard,
    (stopped, analysis): (&AtomicBool, &mut Option<Arc<Analysis>>),
) -> Result<()> {
    let mut waiter = Waiter::new()?;
    let Feed { updates, commands } = feed;
    // First: it limits this thread.
    let background = Background::start(options.report.clone(), || waiter.waker())
        .context("no thread for the interactive view")?;
    let mut session = Session {
        inbox: Inbox::collect(updates).context("no thread for the interactive view")?,
        background,
        app: App::new(options),
        commands,
        end: None,
        ending: false,
        taken: None,
        events: false,
        failed: None,
    };
    #[cfg(feature = "test-clock")]
    crate::util::hijack::here("view");
    let result = session.run(guard, &mut waiter, stopped);
    session.send(Command::Stop);
    session.background.finish_files();
    *analysis = session.app.view.analysis.as_deref().map(Arc::clone);
    // After a signal it does not matter that the terminal is gone as well. The signal may come after the error.
    let failed = Instant::now();
    while result.is_err() && !stopped.load(Ordering::SeqCst) && failed.elapsed() < SIGNAL_WITHIN {
        std::thread::sleep(Duration::from_millis(10));
    }
    if !stopped.load(Ordering::SeqCst) {
        result?;
    }
    session.error().map_or(Ok(()), Err)
}

/// The state, and updates on their way to it.
struct Session {
    app: App,
    inbox: Inbox,
    background: Background,
    commands: Sender<Command>,
    /// Result of the source that ended, until its last sample is ready.
    end: Option<Result<()>>,
    /// True if that is under way.
    ending: bool,
    /// Clock time at which the latest sample was taken.
    taken: Option<Instant>,
    /// True if there are events that are not drawn yet.
    events: bool,
    /// The source's error, for the caller.
    failed: Option<anyhow::Error>,
}

impl Session {
    fn run(&mut self, guard: &mut Guard, waiter: &mut Waiter, stopped: &AtomicBool) -> Result<()> {
        let mut looked = Instant::now();
        let mut drawn = Instant::now();
        let mut dirty = true;
        let mut keyed = false;
        while !stopped.load(Ordering::SeqCst) {
            // Changes by keys are drawn before anything new is taken; then that is, as keys may come without end.
            let answers = std::mem::take(&mut keyed);
            let updated = !answers && self.take_updates()?;
            dirty |= updated || self.events && drawn.elapsed() >= CALM;
            // A key that came meanwhile belongs to the same picture.
            if dirty && !(updated && waiter.has_key()) {
                guard.draw(|frame| draw(frame, &mut self.app))?;
                (dirty, self.events, drawn) = (false, false, Instant::now());
            }
            // Behind the picture that answers a key, unless another waits for one.
            if self.app.rows_due() && !waiter.has_key() {
                self.app.arrange_due();
                guard.draw(|frame| draw(frame, &mut self.app))?;
            }
            // Keys are answered at once; updates of the source are drawn a few times a second at most.
            let left = TICK.saturating_sub(looked.elapsed());
            match waiter.wait(left).context(GONE)? {
                WakeReason::HungUp => bail!(GONE),
                WakeReason::Keys => {}
                WakeReason::Other => {
                    looked = Instant::now();
                    dirty |= guard.size()? != self.app.view.size;
                }
            }
            if waiter.take_continued() {
                guard.retake()?;
                dirty = true;
            }
            for action in keys(&mut self.app).context(GONE)? {
                (dirty, keyed) = (true, !answers);
                if action == Action::Quit {
                    return Ok(());
                }
                let suspended = action == Action::Suspend;
                self.perform(action, guard)?;
                if suspended {
                    // The terminal is taken over already.
                    waiter.take_continued();
                }
            }
            if let Some(earlier) = self.app.unanalysed() {
                self.background.analyse_earlier(earlier, self.app.scope());
            }
        }
        Ok(())
    }

    fn perform(&mut self, action: Action, guard: &mut Guard) -> Result<()> {
        match action {
            Action::Send(_) | Action::Play { .. } => {
                for command in action.commands() {
                    self.send(command);
                }
            }
            Action::Analyse => self.analyse(true),
            Action::Write(file) => {
                self.app.view.messages.say(format!("writing {}", file.what));
                self.background.write(file);
            }
            Action::Copy(text) => guard.copy(&text)?,
            Action::Redraw => guard.redraw()?,
            Action::Suspend => guard.suspend()?,
            Action::None | Action::Draw | Action::Quit => {}
        }
        Ok(())
    }

    fn send(&self, command: Command) {
        // A source that is already gone needs no commands.
        let _ = self.commands.send(command);
    }

    fn analyse(&self, urgent: bool) {
        if let Some(sample) = &self.app.view.newest {
            self.background.analyse(Arc::clone(sample), self.app.scope(), urgent);
        }
    }

    /// Takes finished work and updates of the source; returns whether the picture changes.
    fn take_updates(&mut self) -> Result<bool> {
        let mut changed = false;
        while let Some(done) = self.background.take() {
            changed |= self.accept(done)?;
        }
        // A key asked for values; a sample that came first has them too.
        if !self.background.busy()
            && let Some(wanted) = self.app.wanted()
        {
            self.background.values(wanted);
        }
        // Updates after a sample wait for it, so that all stays in order. Those of a fast replay come by the hundred:
        // several are one picture and one analysis.
        if !self.background.busy() && self.taken.is_none_or(|taken| taken.elapsed() >= APART) {
            let news = self.inbox.take();
            if news.any() {
                // A paused view adds samples to its history alone.
                let moves = self.app.view.moves();
                let calm = news.is_of_events();
                self.events |= moves && calm;
                changed |= moves && !calm || news.end.is_some() || !news.notices.is_empty();
                self.receive(news);
            }
        }
        if !self.background.busy() && self.end.is_some() && !self.ending {
            self.ending = true;
            match self.app.view.newest.as_deref().cloned() {
                Some(newest) => self.background.sample(self.app.preparation(newest, true)),
                None => self.finish(None),
            }
        }
        Ok(changed)
    }

    /// Gives updates to the state; samples to the background first.
    fn receive(&mut self, news: UpdatesSince) {
        let UpdatesSince { restarted, mut samples, events, too_many, notices, end } = news;
        if restarted {
            self.app.on_restart();
            (self.end, self.ending) = (None, false);
        }
        if !events.is_empty() {
            self.app.on_events(&events);
        }
        if too_many > 0 {
            self.app.on_notice(format!(
                "{too_many} events not listed (too many at a time); counters include them"
            ));
        }
        for notice in notices {
            self.app.on_notice(notice);
        }
        if end.is_some() {
            (self.end, self.ending) = (end, false);
        }
        if let Some(sample) = samples.pop() {
            self.taken = Some(Instant::now());
            let preparation = self.app.preparation(sample, false);
            self.background.sample(Preparation { earlier: samples, ..preparation });
        }
    }

    /// Gives finished work to the state; returns whether the picture changes.
    fn accept(&mut self, done: WorkResult) -> Result<bool> {
        match done {
            WorkResult::Sample(prepared) if self.ending && self.end.is_some() => self.finish(Some(*prepared)),
            WorkResult::Sample(prepared) => {
                let changed = self.app.view.moves();
                self.app.on_prepared(*prepared);
                self.analyse(self.app.is_news());
                return Ok(changed);
            }
            WorkResult::Values(data) => return Ok(self.app.on_values(data.map(|data| *data))),
            WorkResult::Analysis(analysis) => self.app.on_analysis(*analysis),
            WorkResult::Written(answer) => self.app.view.messages.say(answer),
            WorkResult::Failed => bail!("bug: background thread ended unexpectedly"),
        }
        Ok(true)
    }

    fn finish(&mut self, prepared: Option<Prepared>) {
        self.ending = false;
        let Some(result) = self.end.take() else { return };
        let end = match result {
            Ok(()) => End::Done,
            Err(error) => {
                let text = format!("{error:#}");
                self.failed = Some(error);
                End::Failed(text)
            }
        };
        self.app.on_ended(end, prepared);
        self.analyse(true);
    }

    /// The source's error, also one that came in just before the end.
    fn error(self) -> Option<anyhow::Error> {
        let Self { inbox, end, failed, .. } = self;
        failed.or_else(|| end.and_then(Result::err)).or_else(|| inbox.take().end.and_then(Result::err))
    }
}

/// Takes the keys that are there.
fn keys(app: &mut App) -> std::io::Result<Vec<Action>> {
    let mut actions = Vec::new();
    while actions.len() < KEYS_PER_PICTURE && event::poll(LOOK)? {
        match event::read()? {
            Event::Key(key) => {
                if let Some(key) = translate(key) {
                    actions.push(app.on_key(key));
                }
            }
            Event::Mouse(mouse) => {
                if let Some(mouse) = pointed(mouse) {
                    actions.push(app.on_mouse(mouse));
                }
            }
            Event::Resize(width, height) => {
                app.on_resize(width, height);
                actions.push(Action::Draw);
            }
            _ => {}
        }
        if matches!(actions.last(), Some(Action::Quit | Action::Suspend)) {
            break;
        }
    }
    Ok(actions)
}

fn pointed(mouse: MouseEvent) -> Option<Mouse> {
    match mouse.kind {
        MouseEventKind::Down(MouseButton::Left) => Some(Mouse::Click(mouse.column, mouse.row)),
        MouseEventKind::ScrollUp => Some(Mouse::WheelUp),
        MouseEventKind::ScrollDown => Some(Mouse::WheelDown),
        _ => None,
    }
}

fn translate(key: KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    Some(match key.code {
        KeyCode::Char(c) if key.modifiers.contains(KeyModifiers::CONTROL) => {
            Key::Ctrl(c.to_ascii_lowercase())
        }
        KeyCode::Char(_) if key.modifiers.contains(KeyModifiers::ALT) => return None,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Delete => Key::Delete,
        KeyCode::F(number) => Key::F(number),
        _ => return None,
    })
}
