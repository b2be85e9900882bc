//! The terminal: taken over and given back, whatever happens.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _, stdin, stdout};
use std::mem::ManuallyDrop;
use std::os::fd::AsFd as _;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, ensure};
use ratatui::Terminal;
use ratatui::backend::{Backend as _, ClearType};
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{execute, queue};
use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};

use super::compact::Compact;
use super::wait::other_terminal;
use crate::tui::export::clipboard;

/// True while the terminal is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();
/// Cause of every error of a terminal that worked before.
pub(super) const GONE: &str = "the terminal is gone";

/// Holds the terminal; gives it back when dropped.
#[derive(Debug)]
pub(in crate::tui) struct Guard {
    /// Never dropped: it would report a terminal that is gone on standard error, which is gone with it, and panic.
    terminal: ManuallyDrop<Terminal<Compact<io::Stdout>>>,
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
        let terminal = Terminal::new(Compact::new(stdout())).inspect_err(|_| restore())?;
        Ok(Self { terminal: ManuallyDrop::new(terminal), mouse })
    }

    /// Draws the cells that changed, in one step where the terminal supports it.
    ///
    /// # Errors
    /// An error if the terminal cannot be written to.
    pub(in crate::tui) fn draw(&mut self, picture: impl FnOnce(&mut ratatui::Frame<'_>)) -> Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate).context(GONE)?;
        self.terminal.draw(picture).context(GONE)?;
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate).context(GONE)
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
        self.retake()
    }

    /// Gives the terminal back and takes it over again: while the process was stopped by a signal that it cannot
    /// handle, a shell set the terminal up for itself and wrote to it. In the background this stops the process, as it
    /// does any program that sets up a terminal that is not its own, until the shell makes it go on in the foreground.
    ///
    /// # Errors
    /// An error if the terminal cannot be set up again.
    pub(in crate::tui) fn retake(&mut self) -> Result<()> {
        restore();
        take(self.mouse).context("the terminal cannot be set up again")?;
        self.redraw()
    }

    /// Clears the screen and forgets what it shows. [`Terminal::clear`] asks the terminal for its cursor first, and
    /// fails where the answer does not come in time.
    ///
    /// # Errors
    /// An error if the terminal cannot be written to.
    pub(in crate::tui) fn redraw(&mut self) -> Result<()> {
        self.terminal.backend_mut().clear_region(ClearType::All).context(GONE)?;
        // Each call empties one of the two buffers; the next picture differs from both.
        self.terminal.swap_buffers();
        self.terminal.swap_buffers();
        Ok(())
    }

    /// Makes `text` the content of the terminal's clipboard, where it has one.
    ///
    /// # Errors
    /// An error if the terminal cannot be written to.
    pub(in crate::tui) fn copy(&mut self, text: &str) -> Result<()> {
        let backend = self.terminal.backend_mut();
        backend.write_all(clipboard::sequence(text).as_bytes()).context(GONE)?;
        io::Write::flush(backend).context(GONE)
    }

    /// Columns and lines of the terminal.
    ///
    /// # Errors
    /// An error if the terminal is gone.
    pub(in crate::tui) fn size(&self) -> Result<(u16, u16)> {
        let size = self.terminal.size().context(GONE)?;
        Ok((size.width, size.height))
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
    let taken = read_without_waiting().and_then(|()| execute!(stdout(), EnterAlternateScreen));
    let taken = if mouse { taken.and_then(|()| execute!(stdout(), EnableMouseCapture)) } else { taken };
    taken.inspect_err(|_| restore())
}

/// Makes reads of a terminal in raw mode return at once where it has nothing. The terminal library reads until the
/// escape sequence of a key is complete, so that a half of one kept the view from drawing, and from ending by a signal,
/// until another key came. The end of raw mode ends this too.
fn read_without_waiting() -> io::Result<()> {
    let (other, stdin) = (other_terminal()?, stdin());
    let terminal = other.as_ref().map_or_else(|| stdin.as_fd(), File::as_fd);
    let mut settings = tcgetattr(terminal)?;
    settings.special_codes[SpecialCodeIndex::VMIN] = 0;
    settings.special_codes[SpecialCodeIndex::VTIME] = 0;
    Ok(tcsetattr(terminal, OptionalActions::Now, &settings)?)
}

/// Gives the terminal back; does nothing when it is not ours. Errors have nowhere to go: the
/// terminal may be gone.
fn restore() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), EndSynchronizedUpdate, DisableMouseCapture, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
        let _ = stdout().flush();
    }
}
