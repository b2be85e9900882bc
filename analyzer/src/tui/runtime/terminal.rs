//! The terminal: taken over and given back, whatever happens.

use std::io::{self, IsTerminal as _, Write as _, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, ensure};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{execute, queue};
use rustix::process::{Signal, kill_current_process_group};

/// True if the terminal is ours at the snapshot.
static TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// Holds the terminal; gives it back when dropped.
#[derive(Debug)]
pub(in crate::tui) struct Guard {
    /// Draws to it.
    pub(in crate::tui) terminal: Terminal<CrosstermBackend<io::Stdout>>,
    mouse: bool,
}

impl Guard {
    /// Takes the terminal over: raw mode and the alternate screen.
    ///
    /// # Errors
    /// An error if standard output is no terminal, or it cannot be set up.
    pub(in crate::tui) fn new(mouse: bool) -> Result<Self> {
        ensure!(
            stdout().is_terminal(),
            "standard output is not a terminal; use --output text, json or jsonl"
        );
        HOOK.call_once(|| {
            let next = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                restore();
                next(info);
            }));
        });
        take(mouse).context(
            "the terminal cannot be set up for the interactive view; use --output text, json or jsonl",
        )?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout())).inspect_err(|_| restore())?;
        Ok(Self { terminal, mouse })
    }

    /// Draws what changed. A terminal that can shows all of it at once.
    ///
    /// # Errors
    /// An error if the terminal cannot be written to.
    pub(in crate::tui) fn draw(&mut self, picture: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(picture)?;
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)
    }

    /// Gives the terminal back, stops the process as job control does, and takes the terminal over
    /// again when it goes on.
    ///
    /// # Errors
    /// An error if the terminal cannot be set up again.
    pub(in crate::tui) fn suspend(&mut self) -> Result<()> {
        restore();
        // To the whole process group, as the terminal would: a capture tool that feeds us through a
        // pipe must stop too, or the shell does not take the job for stopped.
        kill_current_process_group(Signal::TSTP).context("the process cannot be stopped")?;
        take(self.mouse).context("the terminal cannot be set up again")?;
        self.terminal.clear()?;
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        restore();
    }
}

fn take(mouse: bool) -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    let taken = execute!(stdout(), EnterAlternateScreen);
    let taken = if mouse { taken.and_then(|()| execute!(stdout(), EnableMouseCapture)) } else { taken };
    taken.inspect_err(|_| restore())
}

/// Gives the terminal back; does nothing when it is not ours. Errors have nowhere to go: the
/// terminal may be gone.
fn restore() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
        let _ = stdout().flush();
    }
}
