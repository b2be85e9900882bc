//! The link that a flood goes through.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rocescope::host::net::netns::NetNs;
use rocescope::host::read::sysfs::SysRoot;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::flood::Flood;
use super::usage;
use crate::live::program::PATIENCE;
use crate::live::wire::{Counted, Link, World};

/// MTU that fits all frames of a flood.
const MTU: u32 = 1500;
// linux/ethtool.h
const ETHTOOL_SGRO: u32 = 0x2c;

static LINKS: AtomicU32 = AtomicU32::new(0);

/// A watched namespace, its peer, and a link that accepts frames without packet buffers.
#[derive(Debug)]
pub struct FloodLink {
    /// The namespaces.
    pub world: World,
    /// The link; its near end is watched.
    pub link: Link,
    /// The index of the far end, in its own namespace.
    pub far: u32,
    /// The kernel threads that may process frames for the receiving end.
    pub threads: Vec<i32>,
}

/// CPU of the receiving end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// On the sender's CPU, a batch after each batch sent: no frame is dropped.
    SameCpu,
    /// In a kernel thread on the second CPU of [`usage::cpus`]: frames beyond its capacity are dropped.
    OwnCpu,
}

impl FloodLink {
    /// Makes it.
    pub fn new(receiver: Receiver) -> Result<Self> {
        let world = World::new()?;
        // A unique name, by which the kernel thread is found, since that of an earlier link may still exist.
        let name = format!("load{}", LINKS.fetch_add(1, Ordering::Relaxed));
        let link = world.link(&name, MTU)?;
        let far = world.far.run(|| rocescope::host::net::veth::index_of(&format!("peer-{name}")))??;
        // A veth pair accepts frames without packet buffers if its receiving end polls, which it does for an XDP
        // program or for GRO. With GRO the link behaves the same with and without a program.
        world.near.run(|| poll(&name))??;
        let cpus = usage::cpus()?;
        let threads = match receiver {
            // This thread processes frames that a batch leaves.
            Receiver::SameCpu => usage::named(&format!("ksoftirqd/{}", cpus.first().context("no CPU")?)),
            Receiver::OwnCpu => move_to(&world.near, &name, *cpus.get(1).context("there is only one CPU")?)?,
        };
        Ok(Self { world, link, far, threads })
    }
}

impl FloodLink {
    /// Growth of the near end's counters since `before`, once all frames of a flood have arrived or were dropped.
    pub fn arrived(&mut self, before: Counted, flood: &Flood) -> Result<Counted> {
        let (made, _) = flood.made()?;
        let late = Instant::now() + PATIENCE;
        loop {
            let counted = self.link.near_counted()? - before;
            if counted.received + counted.receive_drops == made {
                return Ok(counted);
            }
            ensure!(Instant::now() < late, "of {made} frames neither arrived nor dropped: {counted:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Enables generic receive offload.
fn poll(name: &str) -> Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut command = [ETHTOOL_SGRO, 1];
    // SAFETY: all-zero bytes are a valid value of this structure of integers and a union.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request.ifr_ifru.ifru_data = command.as_mut_ptr().cast();
    // SAFETY: the structure and the two words it points to are valid for the call.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) } < 0 {
        return Err(std::io::Error::last_os_error()).context("generic receive offload stays off");
    }
    Ok(())
}

/// Makes a kernel thread on this CPU receive.
fn move_to(near: &NetNs, name: &str, cpu: usize) -> Result<Vec<i32>> {
    near.run(|| -> Result<()> {
        let root = SysRoot::of_this_thread()?;
        let file = root.join(format!("class/net/{name}/threaded"));
        fs::write(file, "1").context("this kernel has no threads that receive (before 5.12)")
    })??;
    let threads = usage::named(&format!("napi/{name}-"));
    for thread in &threads {
        usage::pin(*thread, cpu)?;
    }
    Ok(threads)
}
