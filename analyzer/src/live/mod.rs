//! Live: the programs in the kernel as a source.
//!
//! `load` brings programs and maps into the kernel, `tables` reads the maps and retires idle
//! flows, `bpf` holds the system calls that aya lacks.

pub mod bpf;
pub mod load;
pub mod tables;

pub use load::{LoadOptions, Programs};
pub use tables::Tables;
