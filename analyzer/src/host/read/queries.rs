//! Queries that the kernel answers over sockets rather than in files, behind one trait, so that tests can use
//! recorded responses.

use super::HostRoot;
use crate::host::error::{HostError, Result};
use crate::host::net::ethtool::{self, Pause, Rings};
use crate::host::net::interface::{self, Interface};
use crate::host::net::{dcb, filters};
use crate::host::netlink::{Request, RouteSocket};
use crate::host::rdma::{device, nldev};

/// The kernel's responses about the calling thread's network namespace.
pub trait Queries {
    /// The network interfaces, without attributes that only sysfs provides.
    ///
    /// # Errors
    /// If the kernel refuses.
    fn interfaces(&self) -> Result<Vec<Interface>>;
    /// Name and value of each driver statistic of an interface.
    ///
    /// # Errors
    /// If there is no such interface or the kernel refuses.
    fn statistics(&self, interface: &str) -> Result<Vec<(String, u64)>>;
    /// The global pause setting of an interface.
    ///
    /// # Errors
    /// If the driver has none or the kernel refuses.
    fn pause(&self, interface: &str) -> Result<Pause>;
    /// The ring sizes of an interface.
    ///
    /// # Errors
    /// If the driver has none or the kernel refuses.
    fn rings(&self, interface: &str) -> Result<Rings>;
    /// The payload of the response to an IEEE DCB request about an interface.
    ///
    /// # Errors
    /// If the driver has no DCB or the kernel refuses.
    fn dcb(&self, interface: &str) -> Result<Vec<u8>>;
    /// The payloads of the responses to a request of RDMA netlink.
    ///
    /// # Errors
    /// If the kernel has no RDMA or refuses.
    fn rdma(&self, query: nldev::Query) -> Result<Vec<Vec<u8>>>;
    /// The same; `between` runs repeatedly while a long response is read, so that the caller can process what the
    /// kernel does for it.
    ///
    /// # Errors
    /// As [`Queries::rdma`].
    fn rdma_in_parts(&self, query: nldev::Query, between: &mut dyn FnMut()) -> Result<Vec<Vec<u8>>> {
        let answers = self.rdma(query);
        between();
        answers
    }
    /// The number of TC filters left on an interface by killed rocescope processes.
    ///
    /// # Errors
    /// If the kernel does not answer.
    fn stale_filters(&self, index: u32) -> Result<usize>;
    /// The payload of devlink's response about a parameter of a PCI device.
    ///
    /// # Errors
    /// If the driver has no such parameter or the kernel refuses.
    fn parameter(&self, pci: &str, name: &str) -> Result<Vec<u8>>;
}

/// The files and the kernel of a host, for repeated reading.
pub trait Host: Queries + std::fmt::Debug + Send + Sync {
    /// Its files, opened for one reading: keeping them open would keep the network namespace alive.
    ///
    /// # Errors
    /// The errors of [`HostRoot::here`].
    fn root(&self) -> Result<HostRoot>;

    /// The kernel to query.
    fn ask(&self) -> &dyn Queries;

    /// True for the running host, whose kernel can be probed; false for a recorded one.
    fn is_running(&self) -> bool {
        false
    }
}

impl Host for Kernel {
    fn root(&self) -> Result<HostRoot> {
        HostRoot::here()
    }

    fn ask(&self) -> &dyn Queries {
        self
    }

    fn is_running(&self) -> bool {
        true
    }
}

/// Queries to the running kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel;

impl Queries for Kernel {
    fn interfaces(&self) -> Result<Vec<Interface>> {
        interface::list()
    }

    fn statistics(&self, interface: &str) -> Result<Vec<(String, u64)>> {
        ethtool::statistics(interface)
    }

    fn pause(&self, interface: &str) -> Result<Pause> {
        ethtool::pause(interface)
    }

    fn rings(&self, interface: &str) -> Result<Rings> {
        ethtool::rings(interface)
    }

    fn dcb(&self, interface: &str) -> Result<Vec<u8>> {
        RouteSocket::open()?.get(&format!("read the DCB settings of {interface}"), dcb::request(interface))
    }

    fn rdma(&self, query: nldev::Query) -> Result<Vec<Vec<u8>>> {
        self.rdma_in_parts(query, &mut || {})
    }

    fn rdma_in_parts(&self, query: nldev::Query, between: &mut dyn FnMut()) -> Result<Vec<Vec<u8>>> {
        let mut socket = RouteSocket::open_rdma()?;
        let request = query.request();
        let (action, kind) = (query.action(), query.kind());
        if query.is_dump() {
            socket.dump_in_parts(&action, kind, &request, between)
        } else {
            Ok(vec![socket.get(&action, Request::clone(&request))?])
        }
    }

    fn stale_filters(&self, index: u32) -> Result<usize> {
        filters::stale(index)
    }

    fn parameter(&self, pci: &str, name: &str) -> Result<Vec<u8>> {
        let mut socket = RouteSocket::open_generic()?;
        let action = format!("read the devlink parameter {name} of {pci}");
        let answer = socket.get("look up the devlink netlink family", device::family_request("devlink"))?;
        let family = device::family(&answer).ok_or_else(|| {
            HostError::system(action.as_str(), std::io::Error::other("the kernel has no devlink"))
        })?;
        socket.get(&action, device::parameter_request(family, pci, name))
    }
}
