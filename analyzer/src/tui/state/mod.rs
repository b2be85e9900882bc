//! The state of the terminal UI and what changes it: pure, without I/O or a clock.
//!
//! | module | holds |
//! |---|---|
//! | [`app`] | the state, and what samples, events and notices do to it |
//! | [`shown`] | what the screens ask for, at the snapshot that is shown |
//! | `reduce`, `past`, [`mouse`], [`prompt`] | what keys, the mouse and typed lines do to it |
//! | `refresh`, [`data`], [`job`] | the values shown, and how they are recomputed |
//! | [`table`], [`groups`], `texts` | rows of the flow table: order, groups, text that filters search |
//! | [`matrix`], [`log`], [`idle`], [`trail`] | host pairs; the list of events; silent flows; readings of devices |
//! | [`analysis`] | what a background thread concludes: findings, entropy |
//! | [`screen`], [`cursor`] | the screens; a place in a list |

pub mod analysis;
pub mod app;
pub mod cursor;
pub mod data;
mod event;
mod extra;
pub mod idle;
pub mod groups;
pub mod job;
pub mod log;
pub mod matrix;
pub mod mouse;
mod past;
pub mod prompt;
mod reduce;
mod refresh;
pub mod screen;
pub mod shown;
pub mod table;
pub(super) mod texts;
pub mod trail;
