//! Synchronous route netlink: build a request, send it, walk the attributes of the answers.
//!
//! Attributes are read by number and those of no interest are skipped, so a newer kernel's
//! additions can never make a whole dump unreadable.
//!
//! A socket belongs to the namespace in which its thread was when it was opened.

mod attrs;
mod request;
mod socket;

pub use attrs::Attrs;
pub use request::{LinkHeader, Request, TcHeader};
pub use socket::{RouteSocket, answers};
