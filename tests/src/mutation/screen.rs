//! Unexpected keys, mouse events and sizes for the terminal UI.

use std::fs::File;
use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::judge::{Ended, LONGEST};
use crate::pty;
use rocescope_common::random::Random;

/// Key sequences other than single characters. Ctrl-Z would stop the program, and Ctrl-C and `q` end it.
const SEQUENCES: [&str; 26] = [
    "\u{1b}[A",
    "\u{1b}[B",
    "\u{1b}[C",
    "\u{1b}[D",
    "\u{1b}[5~",
    "\u{1b}[6~",
    "\u{1b}[H",
    "\u{1b}[F",
    "\u{1b}",
    "\r",
    "\t",
    "\u{1b}[Z",
    "\u{7f}",
    "\u{c}",
    "\u{15}",
    "\u{17}",
    "\u{1b}OP",
    "\u{1b}[15~",
    "/host 10.0.0.1\r",
    "/(((\r",
    ":",
    "é漢🦀",
    "\u{1b}[<0;10;5M\u{1b}[<0;10;5m",
    "\u{1b}[<64;200;99M",
    "\u{1b}[<0;999;999M",
    "\u{1b}[200~pasted\u{1b}[201~",
];
/// Sizes of terminals, including impossible ones.
const SIZES: [(u16, u16); 9] =
    [(80, 24), (120, 40), (60, 15), (1, 1), (0, 0), (3, 100), (500, 2), (200, 60), (40, 10)];

/// True while the program reads keys: before and after that the terminal turns a Ctrl-C into a signal, which ends a
/// program that a busy machine has not started yet.
fn takes_keys(terminal: &File) -> bool {
    tcgetattr(terminal).is_ok_and(|modes| !modes.local_modes.contains(LocalModes::ISIG))
}

/// Runs a command in a terminal, sends keys and resizes, and then ends it.
pub(super) fn run(command: &mut Command, rng: &mut Random) -> Result<Ended> {
    let errors = tempfile::NamedTempFile::new()?;
    let (mut child, mut terminal, reader) =
        pty::start(command, Some(errors.reopen()?), |command| Ok(command.spawn()?))?;
    let end = Instant::now() + LONGEST;
    while !takes_keys(&terminal) && child.try_wait()?.is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    for _ in 0..60 {
        if rng.chance(150_000) {
            let (ws_col, ws_row) = SIZES[rng.index(SIZES.len())];
            tcsetwinsize(&terminal, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 })?;
        }
        let text = if rng.chance(500_000) {
            SEQUENCES[rng.index(SEQUENCES.len())].to_owned()
        } else {
            // A printable character; `q` would end the program.
            char::from(b'!' + u8::try_from(rng.below(94)).unwrap_or(0)).to_string().replace('q', "Q")
        };
        // The program may have ended by itself.
        let _ = terminal.write_all(text.as_bytes());
        std::thread::sleep(Duration::from_millis(rng.below(8)));
    }
    let end = Instant::now() + LONGEST;
    let mut status = None;
    while status.is_none() && Instant::now() < end {
        // The letters end a sequence that an earlier key may have begun, like `ESC [`, which swallows what follows.
        if takes_keys(&terminal) {
            let _ = terminal.write_all(b"uM~\x1b\x03");
        }
        std::thread::sleep(Duration::from_millis(20));
        status = child.try_wait()?;
    }
    if status.is_none() {
        child.kill()?;
        child.wait()?;
    }
    drop(terminal);
    let _ = reader.join();
    Ok(Ended { status, output: Vec::new(), errors: std::fs::read(errors.path())? })
}
