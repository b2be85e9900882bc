//! Helpers for tests with Soft-RoCE devices: two hosts in one machine, programs that communicate over them, and the
//! view of the kernel and of other tools.
//!
//! These tests run in the virtual machine of `cargo xtask vm`, whose kernel has the driver.

pub mod devices;
pub mod hop;
pub mod kernel_memory;
pub mod lab;
pub mod lives;
pub mod loaded;
pub mod perftest;
pub mod qps;
pub mod report;
pub mod session;
pub mod tool;
pub mod uplinks;
pub mod verbs;
