//! Two network namespaces connected by a veth pair: frames enter at one end, and the live source watches the other.

use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use rocescope::host::net::hook::{HookChoice, XdpModeChoice};
use rocescope::host::net::netns::NetNs;
use rocescope::host::net::veth::{VethEnd, create_pair};
use rocescope::sample::Sample;
use rocescope::source::feed::{Command, Update};
use rocescope::source::live::{self, Config, Programs, Running};

/// Name of the watched end.
pub const WATCHED: &str = "watched";
/// Name of the sending end.
pub const SENDING: &str = "sending";
/// Timeout for frames that should arrive at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pair.
#[derive(Debug)]
pub struct Wire {
    watched: NetNs,
    sending: NetNs,
    index: u32,
}

impl Wire {
    /// A new pair without other traffic.
    pub fn new(mtu: u32) -> Result<Self> {
        let (watched, sending) = (NetNs::anonymous()?, NetNs::anonymous()?);
        let end = |netns, name| VethEnd { netns, name, mac: None };
        let (_, index) = create_pair(end(&watched, WATCHED), end(&sending, SENDING), mtu, 1)?;
        Ok(Self { watched, sending, index })
    }

    /// Starts the live source on the watched end.
    ///
    /// # Errors
    /// The error of the source.
    pub fn watch(&self, hook: HookChoice, xdp_mode: XdpModeChoice) -> Result<Running> {
        live::start(Config {
            interfaces: vec![WATCHED.to_owned()],
            netns: Some(self.watched.try_clone()?),
            hook,
            xdp_mode,
            max_flows: 256,
            interval: Duration::from_millis(20),
            ..Config::default()
        })
    }

    /// Attaches the program that tags frames leaving the sending end. It stays attached as long as `programs` lives.
    pub fn tag(&self, programs: &mut Programs) -> Result<()> {
        let tagger = programs.tc("rocescope_test_tag")?;
        self.sending.run(|| tagger.attach(SENDING, aya::programs::TcAttachType::Egress))??;
        Ok(())
    }

    /// Sends frames from the sending end, unmodified.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn send(&self, frames: &[Vec<u8>]) -> Result<()> {
        self.sending.run(|| send(self.index, frames))?
    }
}

/// Waits until the source has counted `packets` packets, stops it and returns its last sample.
///
/// # Errors
/// The error of the source, or a timeout of the packets.
pub fn take(running: Running, packets: u64) -> Result<Sample> {
    let start = Instant::now();
    let mut last = None;
    let mut stopping = false;
    loop {
        let update = running.feed.updates.recv_timeout(PATIENCE).context("no update from the live source")?;
        match update {
            Update::Sample(sample) => {
                let counted: u64 = sample.flows.iter().map(|flow| flow.stats.packets).sum();
                last = Some(*sample);
                if !stopping && (counted >= packets || start.elapsed() > PATIENCE) {
                    stopping = true;
                    running.feed.commands.send(Command::Stop)?;
                }
            }
            Update::Ended(result) => {
                result?;
                break;
            }
            _ => {}
        }
    }
    drop(running.feed);
    running.thread.join().map_err(|_| anyhow!("the live source panicked"))?;
    let sample = last.context("the live source ended without a sample")?;
    let counted: u64 = sample.flows.iter().map(|flow| flow.stats.packets).sum();
    ensure!(counted == packets, "{counted} packets were counted, {packets} sent");
    Ok(sample)
}

fn send(interface: u32, frames: &[Vec<u8>]) -> Result<()> {
    use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
    // SAFETY: the call takes only numbers.
    let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error()).context("no packet socket");
    }
    // SAFETY: the descriptor is new and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: the address consists of integers, for which zero is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = interface.cast_signed();
    for frame in frames {
        // SAFETY: `frame` and `address` are valid during the call, with these sizes.
        let sent = unsafe {
            libc::sendto(
                socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error()).context("a frame was not sent");
        }
        if sent.cast_unsigned() != frame.len() {
            bail!("{sent} bytes of {} were sent", frame.len());
        }
    }
    Ok(())
}
