//! A watched namespace, the namespace of its peers, and links between them.

use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rocescope::host::net::netns::NetNs;
use rocescope::host::net::veth::{self, VethEnd};
use rocescope::host::netlink::{Attrs, LinkHeader, Request, RouteSocket};
use rocescope::source::demo::play::Port;

/// Frames sent before waiting for their arrival: fewer than the queues of a link hold.
const BURST: usize = 64;
// VXLAN attributes for network id, underlay and port (linux/if_link.h).
const VXLAN_ID: u16 = 1;
const VXLAN_LINK: u16 = 3;
const VXLAN_PORT: u16 = 15;
/// Timeout of a burst on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Two namespaces that contain only what a test creates.
#[derive(Debug)]
pub struct World {
    /// The watched namespace.
    pub near: NetNs,
    /// The namespace of the peers.
    pub far: NetNs,
}

/// A link between the two.
pub struct Link {
    /// Name of its end in the watched namespace.
    pub name: String,
    /// Index of that end.
    pub index: u32,
    /// Port for sending from there: egress.
    pub near: Port,
    /// Port for sending from the other end: ingress.
    pub far: Port,
    near_counters: Counters,
    far_counters: Counters,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("name", &self.name).field("index", &self.index).finish_non_exhaustive()
    }
}

/// The kernel's counters of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Dropped on receipt.
    pub receive_drops: u64,
    /// Dropped instead of being sent.
    pub send_drops: u64,
    /// Number of users of promiscuous mode.
    pub promiscuity: u32,
}

impl std::ops::Sub for Counted {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            received: self.received - earlier.received,
            sent: self.sent - earlier.sent,
            receive_drops: self.receive_drops - earlier.receive_drops,
            send_drops: self.send_drops - earlier.send_drops,
            promiscuity: self.promiscuity,
        }
    }
}

/// Reads the counters of an interface, whatever the namespace of the caller.
struct Counters {
    socket: RouteSocket,
    index: u32,
}

impl Counters {
    fn open(netns: &NetNs, index: u32) -> Result<Self> {
        Ok(Self { socket: netns.run(RouteSocket::open)??, index })
    }

    fn read(&mut self) -> Result<Counted> {
        let header = LinkHeader { index: self.index, ..LinkHeader::default() };
        let request = Request::new(libc::RTM_GETLINK, 0, &header.bytes());
        let answer = self.socket.get("read an interface's counters", request)?;
        let attrs = Attrs::after(&answer, LinkHeader::LEN);
        // struct rtnl_link_stats64
        let stats = attrs.get(libc::IFLA_STATS64).context("an interface without counters")?;
        let at = |field: usize| -> Result<u64> {
            let bytes = stats.get(field * 8..).and_then(|rest| rest.first_chunk());
            Ok(u64::from_ne_bytes(*bytes.context("truncated counters")?))
        };
        Ok(Counted {
            received: at(0)?,
            sent: at(1)?,
            receive_drops: at(6)?,
            send_drops: at(7)?,
            promiscuity: attrs.u32(libc::IFLA_PROMISCUITY).unwrap_or_default(),
        })
    }
}

/// Frames sent and dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames sent.
    pub frames: u64,
    /// Frames dropped by the link.
    pub dropped: u64,
}

impl World {
    /// Two empty namespaces.
    pub fn new() -> Result<Self> {
        Ok(Self { near: NetNs::anonymous()?, far: NetNs::anonymous()? })
    }

    /// A world with one link, `near0`.
    pub fn with_link(mtu: u32) -> Result<(Self, Link)> {
        let world = Self::new()?;
        let link = world.link("near0", mtu)?;
        Ok((world, link))
    }

    /// Adds a link; the name of its far end has the prefix `peer-`.
    pub fn link(&self, name: &str, mtu: u32) -> Result<Link> {
        let far_name = format!("peer-{name}");
        let near_end = VethEnd { netns: &self.near, name, mac: Some([2, 0, 0, 0, 0, 1]) };
        let far_end = VethEnd { netns: &self.far, name: &far_name, mac: Some([2, 0, 0, 0, 0, 2]) };
        let (near, far) = veth::create_pair(near_end, far_end, mtu, 1)?;
        Ok(Link {
            name: name.to_owned(),
            index: near,
            near: self.near.run(|| Port::open(near))??,
            far: self.far.run(|| Port::open(far))??,
            near_counters: Counters::open(&self.near, near)?,
            far_counters: Counters::open(&self.far, far)?,
        })
    }

    /// Creates an interface of a kind in the watched namespace, on top of `lower` if given.
    pub fn add(&self, kind: &str, name: &str, lower: Option<u32>) -> Result<u32> {
        let (create, exclusive) = (libc::NLM_F_CREATE as u16, libc::NLM_F_EXCL as u16);
        let mut request = Request::new(libc::RTM_NEWLINK, create | exclusive, &LinkHeader::default().bytes())
            .attr_text(libc::IFLA_IFNAME, name);
        if let Some(lower) = lower.filter(|_| kind != "vxlan") {
            request = request.attr_u32(libc::IFLA_LINK, lower);
        }
        let request = request.nest(libc::IFLA_LINKINFO, |info| {
            let info = info.attr_text(libc::IFLA_INFO_KIND, kind);
            if kind != "vxlan" {
                return info;
            }
            info.nest(libc::IFLA_INFO_DATA, |data| {
                let data = data.attr_u32(VXLAN_ID, 7).attr(VXLAN_PORT, &4789u16.to_be_bytes());
                lower.into_iter().fold(data, |data, lower| data.attr_u32(VXLAN_LINK, lower))
            })
        });
        self.near.run(|| -> Result<u32> {
            RouteSocket::open()?.request(&format!("make {kind} {name}"), request)?;
            Ok(veth::index_of(name)?)
        })?
    }

    /// Creates a layer-3 tunnel interface in the watched namespace, up and with an address; `hardware` overrides its
    /// hardware type. Data written to the file arrives on it; packets begin with the IP header.
    pub fn tun(&self, name: &str, address: std::net::IpAddr, hardware: Option<u16>) -> Result<std::fs::File> {
        const TUNSETLINK: libc::Ioctl = 0x4004_54cd;
        self.near.run(|| -> Result<std::fs::File> {
            let file = std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
            // struct ifreq: the name, then flags.
            let mut request = [0u8; 40];
            request.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
            let flags = (libc::IFF_TUN | libc::IFF_NO_PI) as u16;
            request[16..18].copy_from_slice(&flags.to_ne_bytes());
            // SAFETY: the kernel reads and writes one ifreq, which is 40 bytes.
            let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, request.as_mut_ptr()) };
            if done < 0 {
                return Err(std::io::Error::last_os_error()).context("make a tun interface");
            }
            if let Some(hardware) = hardware {
                // SAFETY: the argument is a number.
                let done =
                    unsafe { libc::ioctl(file.as_raw_fd(), TUNSETLINK, libc::c_ulong::from(hardware)) };
                if done < 0 {
                    return Err(std::io::Error::last_os_error()).context("change the hardware type");
                }
            }
            let index = veth::index_of(name)?;
            veth::set_up(index)?;
            veth::add_address(index, address, 24)?;
            Ok(file)
        })?
    }

    /// Makes `port` a member of bridge `master`.
    pub fn enslave(&self, port: u32, master: u32) -> Result<()> {
        let header = LinkHeader { index: port, ..LinkHeader::default() };
        let request = Request::new(libc::RTM_NEWLINK, 0, &header.bytes()).attr_u32(libc::IFLA_MASTER, master);
        self.near.run(|| RouteSocket::open()?.request("enslave an interface", request))??;
        Ok(())
    }

    /// Gives the near end of a link a smaller MTU than the far end, so that longer frames are dropped in transit.
    pub fn shrink(&self, link: &Link, mtu: u32) -> Result<()> {
        Ok(self.near.run(|| veth::set_mtu(link.index, mtu))??)
    }

    /// Deletes an interface of the watched namespace.
    pub fn delete(&self, index: u32) -> Result<()> {
        let header = LinkHeader { index, ..LinkHeader::default() };
        let request = Request::new(libc::RTM_DELLINK, 0, &header.bytes());
        self.near.run(|| RouteSocket::open()?.request("delete an interface", request))??;
        Ok(())
    }
}

impl Link {
    /// The counters of the near end.
    pub fn near_counted(&mut self) -> Result<Counted> {
        self.near_counters.read()
    }

    /// The counters of the far end.
    pub fn far_counted(&mut self) -> Result<Counted> {
        self.far_counters.read()
    }

    /// Sends frames towards the watched namespace in bursts, each after the previous one has arrived. Returns when
    /// all have arrived. Other traffic of the link counts as arrived, too: where there is some, the last ones may be
    /// on their way.
    pub fn receive(&mut self, frames: &[Vec<u8>]) -> Result<Sent> {
        let (near, far) = (self.near_counted()?, self.far_counted()?);
        let mut sent = Sent::default();
        for burst in frames.chunks(BURST) {
            for frame in burst {
                self.far.send(frame).with_context(|| format!("a frame of {} bytes", frame.len()))?;
            }
            sent.frames += burst.len() as u64;
            let late = Instant::now() + PATIENCE;
            loop {
                sent.dropped = (self.far_counted()? - far).send_drops;
                let arrived = (self.near_counted()? - near).received;
                if arrived + sent.dropped >= sent.frames {
                    break;
                }
                if Instant::now() > late {
                    bail!("of {} frames {arrived} arrived and {} were dropped", sent.frames, sent.dropped);
                }
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        Ok(sent)
    }

    /// Sends frames out of the watched namespace.
    pub fn transmit(&mut self, frames: &[Vec<u8>]) -> Result<Sent> {
        for frame in frames {
            self.near.send(frame).with_context(|| format!("a frame of {} bytes", frame.len()))?;
        }
        // Programs see them before the link may drop them.
        Ok(Sent { frames: frames.len() as u64, dropped: 0 })
    }

    /// Sends frames towards the watched namespace without flow control.
    pub fn flood(&mut self, frames: &[Vec<u8>], times: usize) -> Result<Sent> {
        let before = self.far_counted()?;
        for frame in std::iter::repeat_n(frames, times).flatten() {
            match self.far.send(frame) {
                Ok(()) => {}
                // The drop was also reported to the sender.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error).context("a frame of a flood"),
            }
        }
        let dropped = (self.far_counted()? - before).send_drops;
        Ok(Sent { frames: (frames.len() * times) as u64, dropped })
    }
}
