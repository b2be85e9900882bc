//! The flight recorder: keeps the last minutes of a live run in memory and writes them as a dump on a trigger.
//!
//! | module | contents |
//! |---|---|
//! | [`pattern`], [`trigger`] | findings and requests that trigger a dump; pure |
//! | [`ring`] | rows of the last minutes in sealed blocks, and packet headers; bounded; pure |
//! | [`recorder`] | follows samples and triggers dumps; pure but for the channel to the writer |
//! | [`dump`] | the folder of a dump |
//! | [`writer`] | the thread that writes dumps and removes old ones; the one that runs the command |
//! | [`aside`] | threads that do one task for the writer, with the rights of that task |
//! | [`tee`] | the thread between a source and its view |

pub mod aside;
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

/// Settings of the flight recorder.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Time span held in memory.
    pub keep: Duration,
    /// Findings that trigger a dump when they begin.
    pub on: Pattern,
    /// Time that a dump covers after its trigger.
    pub post: Duration,
    /// Time after a dump in which the same finding triggers no other.
    pub cooldown: Duration,
    /// Maximum number of dumps; the oldest are removed.
    pub most: usize,
    /// Folder of the dumps.
    pub folder: PathBuf,
    /// Program to run with the folder of each dump.
    pub command: Option<PathBuf>,
}
