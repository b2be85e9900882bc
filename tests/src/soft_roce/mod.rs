//! Helpers of the tests with Soft-RoCE devices: two hosts in one, programs that talk over them, and
//! what the kernel and other tools say of it.
//!
//! These tests run in the virtual machine of `cargo xtask vm`, whose kernel has the driver.

pub mod devices;
pub mod hop;
pub mod kernel_memory;
pub mod lab;
pub mod lives;
pub mod perftest;
pub mod qps;
pub mod report;
pub mod session;
pub mod tool;
pub mod verbs;
