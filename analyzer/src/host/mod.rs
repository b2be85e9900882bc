//! Access to the host: interfaces, RDMA devices, settings, counters, processes; everything except eBPF.
//!
//! | module | contents |
//! |---|---|
//! | [`interface`] | network interfaces, their lower interfaces and XDP programs |
//! | [`rdma`] | RDMA devices and the interface of each port |
//! | [`select`] | resolution of the user's `-i` names, and sets of interfaces that exclude one another |
//! | [`hook`] | selection of attach hooks, with notices |
//! | [`kernel`] | prerequisites of attaching |
//! | [`netns`], [`veth`] | entering and creating network namespaces, and links between them |
//! | [`promisc`] | promiscuous mode for the lifetime of a guard |
//! | [`drops`], [`ethtool`], [`watch`] | drops, driver statistics, removal of interfaces |
//! | [`filters`] | TC filters left by killed processes |
//! | [`read`], `guarded`, [`queries`] | files and kernel queries, with reasons for failures; recorded ones in tests |
//! | [`device`] | identity of an RDMA device; devlink's `enable_roce` |
//! | [`port`], [`settings`] | ports, their GIDs and RoCE settings |
//! | [`dcb`], [`nldev`] | data centre bridging, RDMA netlink |
//! | [`counters`], [`vocabulary`] | device counters in a common vocabulary, and their increase |
//! | [`pci`] | PCIe topology and links of NICs and GPUs |
//! | [`process`], [`cgroup`], [`nccl`] | names and pods of processes; NCCL settings |
//! | [`qp_context`], [`mlx5_command`] | decoders of the NIC's own context of a queue pair, and of its firmware
//! commands |
//! | [`fwctl`] | queries to a NIC's firmware |
//! | [`qp_reason`] | reasons that drivers give for the error state |
//! | [`verbs_context`] | the `post_send` that a process calls for a device |
//! | [`listen`] | LLDP frames of the switch |
//! | [`local`] | addresses of this host; processes of containers by their PIDs there |
//! | [`clock`] | kernel timestamps as Unix time |
//! | [`btf`], [`qp_layout`], [`qp_types`] | layout of kernel structures; those of queue pairs; types that a kernel
//! lacks |
//!
//! # Namespaces A thread that calls `setns` still sees the `/sys/class/net` of the namespace in which `/sys` was
//! mounted. Network interfaces are therefore queried over a netlink socket ([`netlink`]) or an ioctl, which follow
//! the calling thread; attributes that only sysfs provides are read below a [`sysfs::SysRoot`], which is a private
//! sysfs if the thread is in another namespace.
//!
//! Every reader of sysfs or procfs takes its root as an argument, and every decision is a function of plain structs,
//! so that both are tested on recorded trees.

pub mod btf;
pub mod cgroup;
pub mod clock;
pub mod counters;
pub mod dcb;
pub mod device;
pub mod drops;
pub mod error;
pub mod ethtool;
pub mod fdinfo;
pub mod filters;
pub mod fwctl;
mod guarded;
pub mod hook;
pub mod interface;
pub mod kernel;
pub mod listen;
pub mod local;
pub mod mlx5_command;
pub mod nccl;
pub mod netlink;
pub mod netns;
pub mod nldev;
mod packet;
pub mod pci;
pub mod pods;
pub mod port;
pub mod process;
pub mod promisc;
pub mod qp_context;
pub mod qp_layout;
pub mod qp_reason;
pub mod qp_types;
pub mod queries;
pub mod rdma;
pub mod read;
pub mod select;
pub mod settings;
pub mod stack;
pub mod sysfs;
pub mod verbs_context;
pub mod veth;
pub mod vocabulary;
pub mod watch;

#[cfg(test)]
pub(crate) mod recorded;
#[cfg(test)]
pub(crate) mod testing;

pub use error::{HostError, Result};
