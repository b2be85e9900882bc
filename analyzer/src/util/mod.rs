//! Units, durations, and work in the background.

pub(crate) mod background;
pub mod time;
pub mod units;
