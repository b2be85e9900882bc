//! The terminal UI: a pure reducer ([`App::on_key`]), a pure picture ([`render`]) and one thin loop.
//!
//! | module | holds |
//! |---|---|
//! | [`app`] | the state, and what figures, events and notices do to it |
//! | `shown` | what of it the panels ask for, at the moment that is looked at |
//! | `reduce`, `past`, `mouse`, [`prompt`] | what keys, the mouse and typed lines do to it |
//! | [`key`], [`screen`] | the table of keys, which is the help too; the screens |
//! | [`table`], [`groups`], [`mod@column`], [`query`] | rows of queue pairs: order, groups, columns, the filter |
//! | [`matrix`], [`log`], [`gone`] | host by host; the list of events; flows that fell silent |
//! | [`analysis`] | what is concluded beside the screen: findings, entropy |
//! | [`data`] | the figures shown, which follow from a moment, a span and a sample |
//! | [`job`] | what a sample takes most of its time for, done beside the screen too |
//! | [`export`] | what is shown, as a file |
//! | [`layout`], [`theme`] | where things are, and how they look |
//! | `panel` | one function per part of the screen |
//! | `inbox`, `preparer`, `worker`, `terminal`, `files`, `run` | threads, terminal, files, loop: everything that is not pure |

pub mod analysis;
pub mod app;
pub mod column;
pub mod cursor;
pub mod data;
mod event;
pub mod export;
mod extra;
mod files;
pub mod gone;
pub mod groups;
mod inbox;
pub mod job;
pub mod key;
pub mod layout;
pub mod log;
pub mod matrix;
pub mod mouse;
mod names;
mod panel;
mod past;
mod preparer;
pub mod prompt;
pub mod query;
mod reduce;
mod refresh;
mod run;
pub mod screen;
pub mod settings;
mod sheet;
pub mod shown;
mod sixteen;
pub mod table;
mod terminal;
mod texts;
pub mod theme;
pub mod trail;
mod wait;
mod worker;

pub use app::{Action, App, End};
pub use panel::render;
pub use run::run;
pub use screen::Screen;
pub use settings::Options;
