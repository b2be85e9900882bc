//! The loop: keys in, updates in, pictures out. Everything else is elsewhere, and pure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use ratatui::crossterm::event::{
    self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::inbox::{Inbox, News};
use super::preparer::{Done, Preparer};
use super::terminal::Guard;
use super::wait::{Waiter, Woken};
use super::worker::Worker;
use crate::sample::Sample;
use crate::source::feed::{Command, Feed};
use crate::tui::app::{Action, App, End};
use crate::tui::job::Ready;
use crate::tui::key::Key;
use crate::tui::mouse::Mouse;
use crate::tui::{Options, render};

/// Longest time that the loop waits for a key before it looks for updates, and draws what they changed.
const TICK: Duration = Duration::from_millis(200);
/// Enough for the terminal library to look once; its waiting spins.
const LOOK: Duration = Duration::from_micros(100);
/// Keys taken before the screen is drawn again, when many wait: as many as the terminal library reads at once.
const KEYS_PER_PICTURE: usize = 1024;

/// Shows what `feed` brings until the user quits or a signal ends the run. Then the source is told
/// to stop; the caller waits for it, and should keep nothing else of the feed.
///
/// # Errors
/// An error if the terminal cannot be set up or read, or the source failed.
pub fn run(feed: Feed, options: Options) -> Result<()> {
    give_memory_back();
    let stopped = Arc::new(AtomicBool::new(false));
    let mut handlers = Vec::new();
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let handler = signal_hook::flag::register(signal, Arc::clone(&stopped));
        handlers.push(handler.context("signals cannot be handled")?);
    }
    let result = Guard::new(options.mouse).and_then(|mut guard| show(feed, options, &mut guard, &stopped));
    for handler in handlers {
        signal_hook::low_level::unregister(handler);
    }
    result
}

/// With 65,536 flows several threads hand each other tens of megabytes a second. The allocator's usual choices, a pool
/// for each thread, and large lists in these pools as soon as one has been freed, keep twice the memory in use.
fn give_memory_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const POOLS: libc::c_int = 2;
        // Lists of this size and more are the system's again as soon as they are freed.
        const LARGE: libc::c_int = 4 << 20;
        // SAFETY: takes two numbers and concerns later allocations alone; without effect when it fails.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, POOLS);
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        }
    }
}

/// Updates from the source on their way to the screen.
struct Desk {
    inbox: Inbox,
    preparer: Preparer,
    worker: Worker,
    /// Result of the source that ended, until its last sample is worked out.
    end: Option<Result<()>>,
    /// True if that is under way.
    ending: bool,
    /// Its error, for the caller.
    failed: Option<anyhow::Error>,
}

impl Desk {
    /// Takes what there is; returns whether the picture changes.
    fn look(&mut self, app: &mut App) -> bool {
        let mut changed = false;
        while let Some(done) = self.preparer.take() {
            changed |= self.take(app, done);
        }
        if let Some(analysis) = self.worker.take() {
            app.on_analysis(analysis);
            changed = true;
        }
        // A key asked for them; a sample that came first has them too.
        if !self.preparer.busy()
            && let Some(wanted) = app.wanted()
            && let Some(done) = self.preparer.metrics(wanted)
        {
            changed |= self.take(app, done);
        }
        // What follows a sample waits for it, so that all stays in order.
        if !self.preparer.busy() {
            let news = self.inbox.take();
            if news.any() {
                // What only goes into the history changes nothing on the screen.
                changed |= !app.paused
                    || app.seek_ns.is_some()
                    || news.end.is_some()
                    || !news.notices.is_empty()
                    || app.data.is_none();
                changed |= self.give(app, news);
            }
        }
        if !self.preparer.busy() && self.end.is_some() && !self.ending {
            self.ending = true;
            match app.newest.clone() {
                Some(newest) => changed |= self.begin(app, newest, true),
                None => self.finish(app, None),
            }
        }
        self.preparer.free(std::mem::take(&mut app.spent));
        changed
    }

    /// Gives news to the state; samples to the thread that works them out first.
    fn give(&mut self, app: &mut App, news: News) -> bool {
        let News { again, sample, events, too_many, notices, end } = news;
        if again {
            app.on_again();
            (self.end, self.ending) = (None, false);
        }
        if !events.is_empty() {
            app.on_events(&events);
        }
        if too_many > 0 {
            app.on_notice(format!(
                "{too_many} events not listed (too many at a time); counters include them"
            ));
        }
        for notice in notices {
            app.on_notice(notice);
        }
        if end.is_some() {
            (self.end, self.ending) = (end, false);
        }
        sample.is_some_and(|sample| self.begin(app, Arc::from(sample), false))
    }

    fn begin(&mut self, app: &mut App, sample: Arc<Sample>, last: bool) -> bool {
        let done = self.preparer.sample(app.job(sample, last));
        done.is_some_and(|done| self.take(app, done))
    }

    /// Gives what is worked out to the state; returns whether the picture changes.
    fn take(&mut self, app: &mut App, done: Done) -> bool {
        let ready = match done {
            Done::Sample(ready) => *ready,
            Done::Metrics(data) => return app.on_figures(data.map(|data| *data)),
            Done::Written(answer) => {
                app.answer = Some(answer);
                return true;
            }
        };
        if self.ending && self.end.is_some() {
            self.finish(app, Some(ready));
            return true;
        }
        let changed = !app.paused || app.seek_ns.is_some() || app.data.is_none();
        app.on_ready(ready);
        let first = app.analysis.is_none();
        analyse(app, &self.worker, first);
        changed
    }

    fn finish(&mut self, app: &mut App, ready: Option<Ready>) {
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
        app.on_ended(end, ready);
        analyse(app, &self.worker, true);
    }

    /// The source's error, also one that came in just before the end.
    fn error(self) -> Option<anyhow::Error> {
        let Self { inbox, end, failed, .. } = self;
        failed.or_else(|| end.and_then(Result::err)).or_else(|| inbox.take().end.and_then(Result::err))
    }
}

fn show(feed: Feed, options: Options, guard: &mut Guard, stopped: &AtomicBool) -> Result<()> {
    let Feed { updates, commands } = feed;
    let mut waiter = Waiter::new()?;
    let mut desk = Desk {
        inbox: Inbox::collect(updates).context("no thread for the interactive view")?,
        preparer: Preparer::start(waiter.waker()?).context("no thread for the values")?,
        worker: Worker::start(options.report.clone(), waiter.waker()?)
            .context("no thread for the findings")?,
        end: None,
        ending: false,
        failed: None,
    };
    let mut app = App::new(options);
    let mut looked = Instant::now();
    let size = guard.terminal.size()?;
    app.on_resize(size.width, size.height);
    let mut dirty = true;
    // A source that is already gone needs no commands.
    let send = |command| {
        let _ = commands.send(command);
    };
    let result = loop {
        if stopped.load(Ordering::SeqCst) {
            break Ok(());
        }
        dirty |= desk.look(&mut app);
        if dirty {
            guard.draw(|frame| render(frame, &app))?;
            dirty = false;
        }
        // Keys are answered at once; what comes from the source is drawn a few times a second, however
        // much that is.
        let left = TICK.saturating_sub(looked.elapsed());
        let woken = waiter.wait(left).context("the terminal cannot be waited for")?;
        if woken == Woken::Else {
            looked = Instant::now();
            let size = guard.terminal.size()?;
            dirty |= (size.width, size.height) != app.size;
            app.on_resize(size.width, size.height);
        }
        let pressed = keys(&mut app);
        match pressed {
            Ok(actions) => {
                dirty |= !actions.is_empty();
                if actions.contains(&Action::Quit) {
                    break Ok(());
                }
                for action in actions {
                    match action {
                        Action::Send(command) => send(command),
                        Action::Analyse => analyse(&mut app, &desk.worker, true),
                        Action::Write(file) => {
                            app.answer = Some(format!("writing {}", file.what));
                            if let Some(done) = desk.preparer.write(file) {
                                desk.take(&mut app, done);
                            }
                        }
                        Action::Redraw => guard.terminal.clear()?,
                        Action::Suspend => {
                            guard.suspend()?;
                            let size = guard.terminal.size()?;
                            app.on_resize(size.width, size.height);
                        }
                        Action::None | Action::Draw | Action::Quit => {}
                    }
                }
            }
            // After a hang-up there is nobody to tell.
            Err(_) if stopped.load(Ordering::SeqCst) => break Ok(()),
            Err(error) => break Err(anyhow!(error).context("the terminal cannot be read")),
        }
    };
    send(Command::Stop);
    desk.preparer.finish_files();
    result?;
    desk.error().map_or(Ok(()), Err)
}

fn analyse(app: &mut App, worker: &Worker, at_once: bool) {
    if let Some(sample) = app.newest.clone()
        && let Some(before) = worker.analyse(sample, app.ask(), at_once)
    {
        app.spent.push(Box::new(before));
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
        _ => return None,
    })
}
