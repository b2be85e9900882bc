//! Units, durations, text layout, colours, notices, work and freeing memory in the background.

pub(crate) mod background;
pub mod deferred;
pub(crate) mod layout;
pub mod map;
pub mod notice;
pub mod seldom;
pub mod shared;
pub mod style;
pub mod time;
pub mod units;
pub mod wrap;
