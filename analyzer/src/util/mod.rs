//! Units, word wrap, colours, and work in the background.

pub(crate) mod background;
pub mod style;
pub mod units;
pub mod wrap;
