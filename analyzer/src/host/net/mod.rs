//! Network interfaces: attachment, settings, drops, namespaces.

pub mod dcb;
pub mod drops;
pub mod ethtool;
pub mod filters;
pub mod hook;
pub mod interface;
pub mod listen;
pub mod netns;
pub(super) mod packet;
pub mod promisc;
pub mod select;
pub mod stack;
pub mod veth;
pub mod watch;
