//! The frame parser. [`parse`] is the only place that knows the order of layers.

pub mod bth;
pub mod bytes;
pub mod cm;
pub mod cooked;
pub mod frame;
pub mod icrc;
mod ip;
pub mod layer;
pub mod opcode;
mod plain;
pub mod stop;
mod tunnel;

pub use bytes::Bytes;
pub use frame::{Entry, Frame, Meta, parse, parse_into};
pub use layer::{Layer, Trace};
pub use plain::not_roce;
pub use stop::Reason;
