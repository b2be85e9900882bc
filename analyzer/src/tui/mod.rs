//! The terminal UI: a pure reducer ([`App::on_key`]), a pure picture ([`render`]) and one thin loop.
//!
//! | folder or module | holds |
//! |---|---|
//! | `state` | the state that screens share |
//! | `screens` | a module per screen: its state, its keys, its drawing, its export |
//! | [`app`] | both together: changes by keys, mouse, samples and events; the frame around the screens |
//! | `widgets` | parts of pictures: text spans, bars, scrolling, boxes, short names |
//! | `runtime` | threads, terminal, files, the loop: everything that is not pure |
//! | [`mod@column`], [`query`], `nic_fields` | the columns of the flow table, the filter, its fields of NICs |
//! | [`export`] | exported tables and files |
//! | [`key`] | the table of keys, which is the help too |
//! | [`layout`], [`theme`], [`settings`] | areas of the terminal, colours and symbols, what the user configures |
//!
//! Imports go down these layers: `runtime`, `app`, `screens`, and below them all others.

pub mod app;
pub mod column;
pub mod export;
pub mod key;
pub mod layout;
mod nic_fields;
pub mod query;
mod runtime;
pub mod screens;
pub mod settings;
mod state;
pub mod theme;
mod widgets;

pub use app::{Action, App, End, draw, mouse, render};
pub use runtime::{Closed, run};
pub use screens::flows::table;
pub use settings::Options;
pub use state::screen::Screen;
use state::texts;
pub use state::{
    analysis, cursor, data, filter, focus, idle, log, matrix, messages, overlay, peers, preparation, prompt,
    psn_rates, readings, screen, timeline, trail, view,
};
use widgets::names;
