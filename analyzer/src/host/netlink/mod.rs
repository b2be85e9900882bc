//! Synchronous route netlink: builds requests, sends them, and reads the attributes of the responses.
//!
//! Attributes are read by number and unknown ones are skipped, so that additions of newer kernels never make a dump
//! unreadable.
//!
//! A socket belongs to the network namespace of the thread that opened it.

mod attrs;
mod request;
mod socket;

pub use attrs::Attrs;
pub use request::{LinkHeader, Request, TcHeader};
pub use socket::{RouteSocket, answers};
