//! A program in a terminal of its own that nobody looks at.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use rocescope::host::netns::NetNs;

use crate::oracle::binary;

const COLUMNS: u16 = 120;
const LINES: u16 = 40;

/// rocescope behind its user interface. Is killed when dropped.
#[derive(Debug)]
pub struct Screen {
    child: Child,
    reader: Option<JoinHandle<()>>,
}

impl Screen {
    /// Starts it in a namespace.
    ///
    /// # Errors
    /// When there is no terminal to be had, or it cannot be started.
    pub fn start(netns: &NetNs, arguments: &[&str]) -> Result<Self> {
        let (ours, theirs) = terminal().context("no terminal could be made")?;
        let mut command = Command::new(binary::path()?);
        command.args(arguments).env("TERM", "xterm-256color");
        command.stdin(Stdio::from(theirs.try_clone()?));
        command.stdout(Stdio::from(theirs.try_clone()?)).stderr(Stdio::from(theirs));
        // SAFETY: between fork and exec the closure makes system calls alone. It makes the terminal the
        // one of the process, where keys come from.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = netns.run(|| command.spawn())?.context("rocescope could not be started")?;
        // The command still holds the terminal's other end, which would keep the reader waiting.
        drop(command);
        let mut ours = File::from(ours);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 1 << 14];
            // It ends with an error when the last process has let go of the other end.
            while ours.read(&mut buffer).is_ok_and(|read| read > 0) {}
        });
        Ok(Self { child, reader: Some(reader) })
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let size = libc::winsize { ws_row: LINES, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut ours, mut theirs) = (-1, -1);
    let none = std::ptr::null_mut::<libc::c_char>();
    // SAFETY: two places for descriptors, no name, the terminal's own settings, and a size that lives
    // through the call.
    let done =
        unsafe { libc::openpty(&raw mut ours, &raw mut theirs, none, std::ptr::null(), &raw const size) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call just made these descriptors.
    let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    // SAFETY: takes numbers. No other program that is started shall hold it open.
    if unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((ours, theirs))
}
