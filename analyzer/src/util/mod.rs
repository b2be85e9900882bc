//! Units, durations, text layout, CSV, colours, notices, limits, work and freeing memory in the background.

pub(crate) mod background;
pub mod boxed_unless_default;
pub mod boxed_unless_zero;
pub mod clickhouse;
pub mod constant;
pub mod csv;
pub mod deferred;
pub mod definition;
#[cfg(feature = "test-clock")]
pub mod hijack;
pub mod index;
pub(crate) mod layout;
pub(crate) mod limit;
pub mod lock;
pub mod map;
pub(crate) mod memory;
mod names;
pub(crate) mod nearest;
pub mod notice;
pub mod numbers;
pub mod pack;
pub mod packed_option;
pub mod request;
pub mod shared;
pub mod small_list;
pub mod source_port;
pub mod style;
pub mod system;
pub mod time;
pub mod units;
pub mod wrap;
