//! The terminal UI: a pure reducer ([`App::on_key`]), a pure picture ([`render`]) and one thin loop.
//!
//! | folder or module | holds |
//! |---|---|
//! | `state` | everything shown, and what keys, the mouse, samples and events change in it; pure |
//! | `screens` | one module per screen and per part of the frame around them; pure |
//! | `widgets` | what screens share: text spans, bars, scrolling, wrapping, boxes, short names |
//! | `runtime` | threads, terminal, files, the loop: everything that is not pure |
//! | [`mod@column`], [`query`] | the columns of the flow table, the filter |
//! | [`export`] | what is shown, as a file |
//! | [`key`] | the table of keys, which is the help too |
//! | [`layout`], [`theme`], [`settings`] | areas of the terminal, colours and symbols, what the user configures |

pub mod column;
pub mod export;
pub mod key;
pub mod layout;
pub mod query;
mod runtime;
mod screens;
pub mod settings;
mod sheet;
mod state;
pub mod theme;
mod widgets;

pub use runtime::run;
pub use screens::{draw, render};
pub use settings::Options;
pub use state::app::{Action, App, End};
pub use state::screen::Screen;
pub use state::{
    analysis, app, cursor, data, groups, idle, job, log, matrix, mouse, prompt, screen, shown, table, trail,
};
use widgets::names;
