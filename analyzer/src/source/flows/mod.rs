//! Flows in user space: the replay's table, retired flows, and whom a flow belongs to.

pub mod owners;
pub mod peers;
pub mod retire;
pub mod table;
