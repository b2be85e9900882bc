//! What the kernel programs and user space exchange. Every type here is plain data of fixed
//! layout, the same on both sides.

pub mod event;
pub mod maps;

pub use event::{EVENT_HEADERS, EventRecord};
pub use maps::{Counter, ExtraKey, ExtraValue, FlowSlot, Link, LinkCounters, SpinLock};

/// Changed with every change of the types below. The programs carry it, and user space refuses
/// programs with another one.
pub const ABI_VERSION: u32 = 1;
