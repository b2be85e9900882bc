//! Units, and work in the background.

pub(crate) mod background;
pub mod units;
