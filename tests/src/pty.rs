//! Runs programs in a pseudo-terminal.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process, setsid};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

const COLUMNS: u16 = 120;
const LINES: u16 = 40;

/// A new pseudo-terminal: the test's end and the program's. Programs started later inherit neither.
fn open() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let theirs = ioctl_tiocgptpeer(&ours, flags)?;
    tcsetwinsize(&theirs, Winsize { ws_row: LINES, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 })?;
    Ok((ours, theirs))
}

/// Runs `command` to its end with a terminal as standard output, and returns its output.
pub fn output(command: &mut Command) -> Result<(ExitStatus, String)> {
    run(command, None)
}

/// The same; it gets the signal of Ctrl-C when it has written `part`.
pub fn interrupted(command: &mut Command, part: &str) -> Result<(ExitStatus, String)> {
    run(command, Some(part.as_bytes()))
}

fn run(command: &mut Command, mut until: Option<&[u8]>) -> Result<(ExitStatus, String)> {
    let (ours, theirs) = open().context("no terminal could be made")?;
    let mut child = command.stdin(Stdio::null()).stdout(theirs).spawn().context("cannot start a program")?;
    // The command still holds the other end of the terminal, which would keep the reader waiting.
    command.stdout(Stdio::null());
    let (mut ours, mut written, mut part) = (File::from(ours), Vec::new(), [0; 4_096]);
    // Reading ends with an error when the last process has closed the other end.
    while let Ok(length @ 1..) = ours.read(&mut part) {
        written.extend_from_slice(&part[..length]);
        if until.is_some_and(|until| written.windows(until.len()).any(|window| window == until)) {
            until = None;
            kill_process(Pid::from_child(&child), Signal::INT)?;
        }
    }
    Ok((child.wait()?, String::from_utf8_lossy(&written).into_owned()))
}

/// Starts `command` with a terminal that it reads keys from: standard error is another file, or the terminal as well.
/// Returns the program, the test's end of the terminal, and a thread that discards what comes out of it.
pub fn start(
    command: &mut Command,
    errors: Option<File>,
    spawn: impl FnOnce(&mut Command) -> Result<Child>,
) -> Result<(Child, File, JoinHandle<()>)> {
    let (child, ours) = controlled(command, errors, spawn)?;
    let mut screen = ours.try_clone()?;
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 1 << 14];
        // Ends with an error when the last process has closed the other end.
        while screen.read(&mut buffer).is_ok_and(|read| read > 0) {}
    });
    Ok((child, ours, reader))
}

/// The same, and the terminal goes away `after` the program has written `part` to it.
pub fn hung_up(command: &mut Command, errors: File, part: &str, after: Duration) -> Result<Child> {
    let (child, mut ours) = controlled(command, Some(errors), |command| Ok(command.spawn()?))?;
    let (mut written, mut bytes) = (Vec::new(), [0; 4_096]);
    while !written.windows(part.len()).any(|window| window == part.as_bytes()) {
        let length = ours.read(&mut bytes).context("the program has ended")?;
        written.extend_from_slice(&bytes[..length]);
    }
    std::thread::sleep(after);
    Ok(child)
}

/// Starts `command` with a controlling terminal; returns the program, and the test's end.
fn controlled(
    command: &mut Command,
    errors: Option<File>,
    spawn: impl FnOnce(&mut Command) -> Result<Child>,
) -> Result<(Child, File)> {
    let (ours, theirs) = open().context("no terminal could be made")?;
    command.env("TERM", "xterm-256color");
    command.stdin(Stdio::from(theirs.try_clone()?)).stdout(Stdio::from(theirs.try_clone()?));
    command.stderr(errors.map_or(Stdio::from(theirs), Stdio::from));
    // SAFETY: between fork and exec the closure makes only system calls. It makes the terminal the controlling
    // terminal of the process, from which keys are read.
    unsafe {
        command.pre_exec(|| {
            setsid()?;
            if libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let child = spawn(command).context("rocescope could not be started")?;
    // The command still holds the other end of the terminal, which would keep the reader waiting.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok((child, File::from(ours)))
}
