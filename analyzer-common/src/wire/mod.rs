//! The frame parser. Only [`parse`] knows the order of layers.

pub mod bth;
pub mod bytes;
pub mod cm;
pub mod cooked;
mod fast_path;
pub mod frame;
pub mod icrc;
pub mod infiniband;
mod ip;
pub mod layer;
pub mod opcode;
pub mod skip_reason;
mod tunnel;

pub use bytes::Bytes;
pub use fast_path::{FirstLook, first_look, not_roce, parse_plain};
pub use frame::{Entry, Frame, Meta, parse, parse_into};
pub use ip::PORT_ROCE;
pub use layer::{Layer, Trace};
pub use skip_reason::SkipReason;
