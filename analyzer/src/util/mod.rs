//! Units, durations, text layout, colours, notices, and work in the background.

pub(crate) mod background;
pub(crate) mod layout;
pub mod notice;
pub mod style;
pub mod time;
pub mod units;
pub mod wrap;
