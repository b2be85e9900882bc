//! The flight recorder: the last minutes of a live run in memory, written as a dump when something happens.
//!
//! | module | contents |
//! |---|---|
//! | [`pattern`], [`trigger`] | which findings make a dump, and when; pure |
//! | [`ring`] | rows of the last minutes in sealed blocks, headers of packets; bounded; pure |
//! | [`recorder`] | follows samples and decides; pure but for the channel to the writer |
//! | [`dump`] | the folder of a dump |
//! | [`writer`] | the thread that writes dumps, removes old ones and runs the command |
//! | [`tee`] | the thread between a source and its view |

pub mod dump;
pub mod pattern;
pub mod recorder;
pub mod ring;
pub mod tee;
#[cfg(test)]
mod tests;
pub mod trigger;
pub mod writer;

use std::path::PathBuf;
use std::time::Duration;

use pattern::Pattern;

/// What the user chose.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Time that is held in memory.
    pub keep: Duration,
    /// Findings that make a dump when they begin.
    pub on: Pattern,
    /// Time that a dump goes on behind its trigger.
    pub post: Duration,
    /// Time after a dump in which the same finding makes none.
    pub cooldown: Duration,
    /// Dumps that stay; the oldest leave.
    pub most: usize,
    /// Folder of the dumps.
    pub folder: PathBuf,
    /// Program that is run with the folder of each dump.
    pub command: Option<PathBuf>,
}
