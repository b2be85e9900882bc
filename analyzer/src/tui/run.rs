//! The loop: keys in, updates in, pictures out. Everything else is elsewhere, and pure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use ratatui::crossterm::event::{
    self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::app::{Action, App, End};
use super::inbox::{Inbox, News};
use super::key::Key;
use super::mouse::Mouse;
use super::terminal::Guard;
use super::wait::{Waiter, Woken};
use super::worker::Worker;
use super::{Options, files, render};
use crate::feed::{Command, Feed};

/// How long the loop waits for a key before it looks for updates, and draws what they changed.
const TICK: Duration = Duration::from_millis(200);
/// Enough for the terminal library to look once; its waiting spins.
const LOOK: Duration = Duration::from_micros(100);
/// Keys taken before the screen is drawn again, when many wait: as many as the terminal library reads at once.
const KEYS_PER_PICTURE: usize = 1024;

/// Shows what `feed` brings until the user quits or a signal ends the run. Then the source is told
/// to stop; the caller waits for it, and should keep nothing else of the feed.
///
/// # Errors
/// When the terminal cannot be set up or read, or the source failed.
pub fn run(feed: Feed, options: Options) -> Result<()> {
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

fn show(feed: Feed, options: Options, guard: &mut Guard, stopped: &AtomicBool) -> Result<()> {
    let Feed { updates, commands } = feed;
    let inbox = Inbox::collect(updates).context("no thread for the interactive view")?;
    let worker = Worker::start(options.report.clone()).context("no thread for the findings")?;
    let mut waiter = Waiter::new()?;
    let mut app = App::new(options);
    let mut failed = None;
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
        let news = inbox.take();
        if news.any() {
            // What only goes into the history changes nothing on the screen.
            dirty |= !app.paused
                || app.seek_ns.is_some()
                || news.end.is_some()
                || !news.notices.is_empty()
                || app.data.is_none();
            failed = take(&mut app, &worker, news).or(failed);
        }
        if let Some(analysis) = worker.take() {
            app.on_analysis(analysis);
            dirty = true;
        }
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
                        Action::Analyse => analyse(&app, &worker, true),
                        Action::Write(file) => app.answer = Some(files::write(&file)),
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
    result?;
    // A failure that came in just before the end.
    failed.or_else(|| take(&mut app, &worker, inbox.take())).map_or(Ok(()), Err)
}

fn analyse(app: &App, worker: &Worker, at_once: bool) {
    if let Some(sample) = &app.newest {
        worker.analyse(Arc::clone(sample), app.ask(), at_once);
    }
}

/// Gives news to the state; returns the source's error.
fn take(app: &mut App, worker: &Worker, news: News) -> Option<anyhow::Error> {
    let News { again, sample, events, too_many, notices, end } = news;
    if again {
        app.on_again();
    }
    if !events.is_empty() {
        app.on_events(&events);
    }
    if let Some(sample) = sample {
        app.on_sample(Arc::from(sample));
        analyse(app, worker, app.analysis.is_none());
    }
    if too_many > 0 {
        app.on_notice(format!(
            "{too_many} events came faster than they can be listed; counters have them all"
        ));
    }
    for notice in notices {
        app.on_notice(notice);
    }
    let end = end?;
    let (end, error) = match end {
        Ok(()) => (End::Done, None),
        Err(error) => (End::Failed(format!("{error:#}")), Some(error)),
    };
    app.on_end(end);
    analyse(app, worker, true);
    error
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
