//! The host as `rocescope live` needs to know it, apart from loading eBPF.
//!
//! | module | answers |
//! |---|---|
//! | [`interface`] | which network interfaces there are, what lies under them, whose XDP program they carry |
//! | [`rdma`] | which RDMA devices there are and which interface each port uses |
//! | [`select`] | which interfaces the user's `-i` names mean, and which sets of them cannot be chosen together |
//! | [`hook`] | where on an interface to attach, and what to tell the user about it |
//! | [`kernel`] | whether this kernel and this process may attach at all |
//! | [`netns`], [`veth`] | entering and making network namespaces, and links between them |
//! | [`promisc`] | promiscuous mode for as long as a guard lives |
//! | [`drops`], [`ethtool`], [`watch`] | what an interface itself dropped, and whether it is still there |
//! | [`filters`] | TC filters that an earlier run could not remove |
//! | [`read`], [`ask`] | files and answers of the kernel that may fail, with the reason; recorded ones in tests |
//! | [`device`] | what an RDMA device is; whether RoCE is switched on |
//! | [`port`], [`settings`] | ports and their addresses; how RoCE is treated there |
//! | [`dcb`], [`nldev`] | data centre bridging, RDMA netlink |
//! | [`counters`], [`vocabulary`] | counters of devices under one set of names, and what they added |
//! | [`pci`] | where NICs and GPUs sit, and their links |
//! | [`process`], [`nccl`], [`qp`] | names and pods of processes; what NCCL was told; which process a queue pair belongs to |
//! | [`listen`] | what the switch says over LLDP |
//! | [`clock`] | kernel timestamps as Unix time |
//!
//! # Namespaces
//! A thread that calls `setns` still sees the `/sys/class/net` of the namespace in which `/sys`
//! was mounted. Everything about network interfaces is therefore asked over a netlink socket
//! ([`netlink`]) or an ioctl, which follow the calling thread; the little that only sysfs knows
//! is read below a [`sysfs::SysRoot`], which is a private sysfs when the thread is elsewhere.
//!
//! Every reader of sysfs or procfs takes its root, and every decision is a function of plain
//! structs, so that both are tested on recorded trees.

pub mod ask;
pub mod clock;
pub mod counters;
pub mod dcb;
pub mod device;
pub mod drops;
pub mod error;
pub mod ethtool;
pub mod filters;
pub mod hook;
pub mod interface;
pub mod kernel;
pub mod listen;
pub mod nccl;
pub mod netlink;
pub mod netns;
pub mod nldev;
mod packet;
pub mod pci;
pub mod port;
pub mod process;
pub mod promisc;
pub mod qp;
pub mod rdma;
pub mod read;
pub mod select;
pub mod settings;
pub mod stack;
pub mod sysfs;
pub mod veth;
pub mod vocabulary;
pub mod watch;

#[cfg(test)]
pub(crate) mod recorded;
#[cfg(test)]
pub(crate) mod testing;

pub use error::{HostError, Result};
