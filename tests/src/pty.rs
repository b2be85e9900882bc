//! Runs programs in a pseudo-terminal.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

const COLUMNS: u16 = 120;
const LINES: u16 = 40;

/// A new pseudo-terminal: the test's end and the program's. Programs started later inherit neither.
///
/// # Errors
/// The kernel's error if no terminal is available.
pub fn open() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let theirs = ioctl_tiocgptpeer(&ours, flags)?;
    tcsetwinsize(&theirs, Winsize { ws_row: LINES, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 })?;
    Ok((ours, theirs))
}

/// Runs `command` to its end with a terminal as standard output, and returns its output.
///
/// # Errors
/// Fails if there is no terminal, or the program cannot be started.
pub fn output(command: &mut Command) -> Result<(ExitStatus, String)> {
    let (ours, theirs) = open().context("no terminal could be made")?;
    let mut child = command.stdin(Stdio::null()).stdout(theirs).spawn().context("cannot start a program")?;
    // The command still holds the other end of the terminal, which would keep the reader waiting.
    command.stdout(Stdio::null());
    let (mut ours, mut written) = (File::from(ours), Vec::new());
    // Reading ends with an error when the last process has closed the other end.
    let _ = ours.read_to_end(&mut written);
    Ok((child.wait()?, String::from_utf8_lossy(&written).into_owned()))
}
