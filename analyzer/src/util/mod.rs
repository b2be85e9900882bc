//! Units, durations, text layout, CSV, colours, notices, work and freeing memory in the background.

pub(crate) mod background;
pub mod clickhouse;
pub mod csv;
pub mod deferred;
pub mod definition;
pub mod few;
pub mod index;
pub(crate) mod layout;
pub mod lock;
pub mod map;
pub(crate) mod memory;
pub(crate) mod nearest;
pub mod notice;
pub mod numbers;
pub mod pack;
pub mod packed_option;
pub mod rarely;
pub mod request;
pub mod seldom;
pub mod shared;
pub mod source_port;
pub mod style;
pub mod system;
pub mod time;
pub mod units;
pub mod wrap;
