//! Types shared by the kernel programs and user space. All are plain data of fixed layout. The programs are
//! embedded in the binary that loads them, so both sides have the same version.

pub mod event;
pub mod maps;
pub mod post;
pub mod qp;
pub mod testing;

pub use event::{EVENT_HEADERS, EventRecord};
pub use maps::{
    BenchStep, BinRecord, Counter, CpuState, ExtraKey, ExtraValue, FlowSlot, Link, LinkCounters, TIMED_FLOWS,
    TickClock, Timing,
};
