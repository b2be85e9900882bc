//! Runs a program in a pseudo-terminal whose output is discarded.

use std::fs::File;
use std::process::{Child, Command};
use std::thread::JoinHandle;

use anyhow::Result;
use rocescope::host::net::netns::NetNs;

use crate::oracle::binary;
use crate::pty;

/// rocescope with its user interface, killed when dropped.
#[derive(Debug)]
pub struct Screen {
    child: Child,
    /// Its end would be the end of the program.
    _terminal: File,
    reader: Option<JoinHandle<()>>,
}

impl Screen {
    /// Starts it in a namespace.
    pub fn start(netns: &NetNs, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(binary::path()?);
        command.args(arguments);
        Self::of(command, None, |command| Ok(netns.run(|| command.spawn())??))
    }

    /// Starts `command`, with its standard error in a file.
    pub fn start_with(command: Command, error: File) -> Result<Self> {
        Self::of(command, Some(error), |command| Ok(command.spawn()?))
    }

    fn of(
        mut command: Command,
        error: Option<File>,
        spawn: impl FnOnce(&mut Command) -> Result<Child>,
    ) -> Result<Self> {
        let (child, terminal, reader) = pty::start(&mut command, error, spawn)?;
        Ok(Self { child, _terminal: terminal, reader: Some(reader) })
    }

    /// Its PID.
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
