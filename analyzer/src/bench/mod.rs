//! `rocescope bench`: the cost per packet of the kernel programs on this host, measured without an interface.
//!
//! `BPF_PROG_TEST_RUN` runs a program on a frame in memory. Nothing is attached, sent or received.

pub mod case;
mod frames;
pub mod measure;
pub mod pair;
pub mod receive;
pub mod show;
mod timing;
