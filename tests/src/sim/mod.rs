//! A packet-level simulator of RoCE fabrics, for captures with a known truth.
//!
//! Hosts run reliable connections (windows, ACKs, go-back-N or selective retransmission, timeouts, RNR, READ,
//! atomics, rate reduction) over switches with queues (hashing, spraying, ECN, PFC, drops). Faults are placed on
//! cables, taps write captures anywhere, and each scenario states what a report on its captures must contain. Nothing
//! here uses the analysis or its definitions: packets and files are encoded independently.
//!
//! Time is in integer nanoseconds and all randomness comes from a seed: a scenario and a seed give the same bytes on
//! every machine.

pub mod bench;
mod cc;
mod channel;
mod compared;
mod engine;
mod facts;
mod frame;
mod job;
mod lab;
mod net;
mod nic;
mod packet;
mod qp;
mod requester;
mod responder;
pub mod scenarios;
pub mod score;
mod switch;
mod tap;
pub mod truth;
mod vary;

pub use facts::Facts;
pub use lab::{LabRun, Scenario};
pub use tap::Counted;
