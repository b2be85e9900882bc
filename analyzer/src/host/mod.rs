//! Access to the host: interfaces, RDMA devices, settings, counters, processes; everything except eBPF.
//!
//! | module | contents |
//! |---|---|
//! | [`net`] | interfaces: which the user means, hooks, XDP programs and TC filters, promiscuous mode, drops, driver statistics, data centre bridging; network namespaces and links between them; LLDP frames |
//! | [`rdma`] | devices, ports, GIDs and settings; RDMA netlink; counters in a common vocabulary; queue pairs: kernel structures, context in the NIC, reasons for the error state, firmware commands |
//! | [`process`] | names, containers and pods of processes; NCCL settings; addresses of this host |
//! | [`kernel`] | prerequisites of attaching; layout of kernel structures; timestamps as Unix time; cost of our programs |
//! | [`read`] | files and kernel queries, with reasons for failures; recorded ones in tests |
//! | [`netlink`] | sockets and messages |
//! | [`pci`] | PCIe topology and links of NICs and GPUs |
//!
//! # Namespaces
//!
//! A thread that calls `setns` still sees the `/sys/class/net` of the namespace in which `/sys` was
//! mounted. Network interfaces are therefore queried over a netlink socket ([`netlink`]) or an ioctl, which follow
//! the calling thread; attributes that only sysfs provides are read below a [`SysRoot`](read::sysfs::SysRoot), which is
//! a private sysfs if the thread is in another namespace.
//!
//! Every reader of sysfs or procfs takes its root as an argument, and every decision is a function of plain structs,
//! so that both are tested on recorded trees.

pub mod error;
pub mod kernel;
pub mod net;
pub mod netlink;
pub mod pci;
pub mod process;
pub mod rdma;
pub mod read;

pub use error::{HostError, Result};
