//! Flows in user space: the replay's table, retired flows, and the owners of queue pairs.

pub mod owners;
pub mod retire;
pub mod table;
