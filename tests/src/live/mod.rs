//! Helpers of the tests that run the program on real interfaces.
//!
//! Everything runs in anonymous network namespaces, which disappear with the test.

pub mod attached;
pub mod frames;
pub mod hijack;
pub mod program;
pub mod tcp;
pub mod terminal;
pub mod wire;

pub use crate::needs::root_or_skip;
