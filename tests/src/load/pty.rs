//! Runs a program in a pseudo-terminal whose output is discarded.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use rocescope::host::net::netns::NetNs;
use rustix::process::setsid;

use crate::oracle::binary;
use crate::pty;

/// rocescope with its user interface, killed when dropped.
#[derive(Debug)]
pub struct Screen {
    child: Child,
    reader: Option<JoinHandle<()>>,
}

impl Screen {
    /// Starts it in a namespace.
    ///
    /// # Errors
    /// Fails if there is no terminal to be had, or it cannot be started.
    pub fn start(netns: &NetNs, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(binary::path()?);
        command.args(arguments);
        Self::of(command, None, |command| Ok(netns.run(|| command.spawn())??))
    }

    /// Starts `command`, with its standard error in a file.
    ///
    /// # Errors
    /// Fails if there is no terminal to be had, or it cannot be started.
    pub fn start_with(command: Command, error: File) -> Result<Self> {
        Self::of(command, Some(error), |command| Ok(command.spawn()?))
    }

    fn of(
        mut command: Command,
        error: Option<File>,
        spawn: impl FnOnce(&mut Command) -> Result<Child>,
    ) -> Result<Self> {
        let (ours, theirs) = pty::open().context("no terminal could be made")?;
        command.env("TERM", "xterm-256color");
        command.stdin(Stdio::from(theirs.try_clone()?));
        command.stdout(Stdio::from(theirs.try_clone()?));
        command.stderr(error.map_or(Stdio::from(theirs), Stdio::from));
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
        let child = spawn(&mut command).context("rocescope could not be started")?;
        // The command still holds the other end of the terminal, which would keep the reader waiting.
        drop(command);
        let mut ours = File::from(ours);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 1 << 14];
            // Ends with an error when the last process has closed the other end.
            while ours.read(&mut buffer).is_ok_and(|read| read > 0) {}
        });
        Ok(Self { child, reader: Some(reader) })
    }

    /// Its PID.
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
