//! A real terminal for the program: a shell inside tmux, with a tmux server of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::program::PATIENCE;

/// The shell's prompt.
pub const PROMPT: &str = "ready>";
/// Polling interval of the screen.
const LOOK: Duration = Duration::from_millis(30);

/// A shell in a terminal. Both end when dropped.
#[derive(Debug)]
pub struct Terminal {
    /// Contains the server's socket.
    folder: tempfile::TempDir,
}

impl Terminal {
    /// Opens a terminal of this size, and waits for the shell's prompt.
    pub fn open(columns: u16, lines: u16) -> Result<Self> {
        let terminal = Self { folder: tempfile::tempdir()? };
        let (columns, lines) = (columns.to_string(), lines.to_string());
        let shell = format!("env LC_ALL=C.UTF-8 PS1='{PROMPT} ' bash --norc --noprofile -i");
        let session = ["-f", "/dev/null", "-u", "new-session", "-d", "-x", &columns, "-y", &lines, &shell];
        terminal.tmux(&session)?;
        terminal.until("the prompt", |screen| screen.contains(PROMPT))?;
        Ok(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new("tmux");
        // A surrounding tmux session must not be used.
        command.env_remove("TMUX").arg("-S").arg(self.folder.path().join("tmux")).args(arguments);
        let Output { status, stdout, stderr } = command.output().context("tmux could not be started")?;
        ensure!(status.success(), "tmux {arguments:?}: {}", String::from_utf8_lossy(&stderr));
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    }

    /// The screen, line by line.
    pub fn screen(&self) -> Result<String> {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The same with colours, as escape sequences.
    pub fn colored_screen(&self) -> Result<String> {
        self.tmux(&["capture-pane", "-e", "-p"])
    }

    /// Waits until the screen satisfies `wanted`, and returns it.
    pub fn until(&self, what: &str, mut wanted: impl FnMut(&str) -> bool) -> Result<String> {
        let late = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen()?;
            if wanted(&screen) {
                return Ok(screen);
            }
            if Instant::now() > late {
                bail!("the screen does not show {what}, but:\n{screen}");
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Presses keys, by tmux's names: `a`, `Enter`, `C-z`.
    pub fn press(&self, keys: &[&str]) -> Result<()> {
        self.tmux(&[&["send-keys"], keys].concat()).map(drop)
    }

    /// Presses a key and waits for its effect.
    pub fn press_until(&self, key: &str, what: &str, wanted: impl FnMut(&str) -> bool) -> Result<String> {
        self.press(&[key])?;
        self.until(&format!("{what} after {key}"), wanted)
    }

    /// Types text literally.
    pub fn type_text(&self, text: &str) -> Result<()> {
        self.tmux(&["send-keys", "-l", text]).map(drop)
    }

    /// Types a command and Enter.
    pub fn command(&self, text: &str) -> Result<()> {
        self.type_text(text)?;
        self.press(&["Enter"])
    }

    /// The exit status of the shell's last command, once it has ended.
    pub fn status(&self) -> Result<String> {
        // In two parts, so that the command itself does not match the expected output.
        self.command("echo the-status'='$?'.'")?;
        let find = |screen: &str| -> Option<String> {
            let (_, after) = screen.rsplit_once("the-status=")?;
            let (number, _) = after.split_once('.')?;
            Some(number.to_owned())
        };
        let screen = self.until("an exit status", |screen| find(screen).is_some())?;
        find(&screen).context("an exit status")
    }

    /// Writes the terminal's settings to a file and reads it.
    pub fn settings(&self, file: &Path) -> Result<String> {
        self.command(&format!("stty -a > {0}.new && mv {0}.new {0}", file.display()))?;
        let late = Instant::now() + PATIENCE;
        loop {
            match std::fs::read_to_string(file) {
                Ok(text) => return Ok(text),
                Err(_) if Instant::now() < late => std::thread::sleep(LOOK),
                Err(error) => return Err(error).context("stty's answer"),
            }
        }
    }

    /// Resizes the terminal.
    pub fn resize(&self, columns: u16, lines: u16) -> Result<()> {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &lines.to_string()]).map(drop)
    }

    /// The device of the terminal, to which other processes can write.
    pub fn device(&self) -> Result<PathBuf> {
        Ok(PathBuf::from(self.tmux(&["display-message", "-p", "#{pane_tty}"])?.trim()))
    }

    /// Clicks with the left button at a column and line, both from 0, as a terminal reports it (SGR).
    pub fn click(&self, column: usize, line: usize) -> Result<()> {
        let (column, line) = (column + 1, line + 1);
        self.type_text(&format!("\u{1b}[<0;{column};{line}M\u{1b}[<0;{column};{line}m"))
    }

    /// Visibility of the alternate screen and of the cursor.
    pub fn modes(&self) -> Result<(bool, bool)> {
        let text = self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"])?;
        Ok((text.starts_with('1'), text.trim().ends_with('1')))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Only the server of this terminal.
        let _ = self.tmux(&["kill-server"]);
    }
}
