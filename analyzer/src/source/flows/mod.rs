//! Flows in user space: the replay's table and retired flows.

pub mod retire;
pub mod table;
