//! TCP traffic through a watched link.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use rocescope::host::net::veth;

use super::wire::{Link, World};

const NEAR: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

/// A stream that arrived at the watched end.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Bytes of payload.
    pub bytes: u64,
    /// Packets received by the interface meanwhile, segmented or not.
    pub packets: u64,
    /// Time from the first byte sent to the last one received.
    pub time: Duration,
}

/// Assigns addresses to both ends of a link.
pub fn prepare(world: &World, link: &Link) -> Result<()> {
    world.near.run(|| veth::add_address(link.index, NEAR, 24))??;
    let far = format!("peer-{}", link.name);
    world.far.run(|| veth::add_address(veth::index_of(&far)?, FAR, 24))??;
    Ok(())
}

/// Sends `bytes` from the far end of a prepared link to the watched one.
pub fn stream(world: &World, link: &mut Link, bytes: u64) -> Result<Stream> {
    let listener = world.near.run(|| TcpListener::bind((NEAR, 0)))??;
    let to = SocketAddr::new(NEAR, listener.local_addr()?.port());
    let mut sender = world.far.run(|| TcpStream::connect_timeout(&to, Duration::from_secs(20)))??;
    let (mut receiver, _) = listener.accept()?;
    let before = link.near_counted()?;
    let start = Instant::now();
    std::thread::scope(|scope| -> Result<()> {
        let sent = scope.spawn(move || {
            let block = vec![0; 1 << 18];
            let mut left = bytes;
            while left > 0 {
                let some = left.min(block.len() as u64);
                sender.write_all(block.get(..usize::try_from(some)?).unwrap_or_default())?;
                left -= some;
            }
            anyhow::Ok(())
        });
        let mut block = vec![0; 1 << 18];
        while receiver.read(&mut block)? > 0 {}
        sent.join().map_err(|_| anyhow!("the sender panicked"))?.context("cannot send")
    })?;
    let time = start.elapsed();
    Ok(Stream { bytes, packets: link.near_counted()?.received - before.received, time })
}
