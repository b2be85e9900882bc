//! What the kernel programs and user space exchange. Every type here is plain data of fixed
//! layout, the same on both sides; the programs are built into the binary that loads them, so the
//! two cannot differ in age.

pub mod event;
pub mod maps;
pub mod testing;

pub use event::{EVENT_HEADERS, EventRecord};
pub use maps::{
    BenchStep, BinRecord, Counter, CpuState, ExtraKey, ExtraValue, FlowSlot, Link, LinkCounters, TIMED_FLOWS,
    TickClock, Timing,
};
