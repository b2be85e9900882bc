//! Runs perftest between the two ends, and reads its output.

use std::fs;

use anyhow::{Context as _, Result, bail};

use super::lab::{End, FAR, NEAR, PATH_MTU, gid_index};
use super::qps::{self, Qp};
use super::tool::{Tool, wait_for};

/// The program, and the transfer.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// `ib_write_bw` …
    pub program: &'static str,
    /// Queue pairs.
    pub queue_pairs: u64,
    /// Messages per queue pair.
    pub iterations: u64,
    /// Bytes of a message: a multiple of the path MTU.
    pub size: u64,
    /// Traffic class of its packets.
    pub traffic_class: u64,
    /// True if each message waits for the previous one.
    pub one_by_one: bool,
    /// Number of work requests per post.
    pub chain: u64,
}

/// Output of both ends of a transfer.
#[derive(Clone, Debug)]
pub struct Transferred {
    /// The transfer requested.
    pub wanted: Transfer,
    /// Bytes of a message, as the client printed them.
    pub size: u64,
    /// Messages of all queue pairs, as the client printed them.
    pub iterations: u64,
    /// Number and first PSN of each of the client's queue pairs.
    pub near: Vec<(u64, u64)>,
    /// Of each of the server's, in the same order.
    pub far: Vec<(u64, u64)>,
    /// Queue pairs of both ends meanwhile, as `rdma resource` shows them.
    pub resources: Vec<Qp>,
    /// Process ids of client and server.
    pub pids: (u32, u32),
}

impl Transferred {
    /// Packets of one queue pair's messages, none of them repeated.
    pub fn packets(&self) -> u64 {
        self.iterations / self.wanted.queue_pairs * self.size / PATH_MTU
    }
}

impl Transfer {
    /// Exponent of the transport timeout that it asks for: 4.096 µs · 2^timeout.
    pub const fn timeout(&self) -> u8 {
        if self.one_by_one { 23 } else { 18 }
    }

    /// Runs both ends to completion, and lists their queue pairs meanwhile.
    pub fn run(self) -> Result<Transferred> {
        // A new port for each transfer, since that of the last one may not be free yet.
        let port = free_port()?;
        let start = |end: End, peer: &[&str]| -> Result<Tool> {
            let words = [
                ("-d", end.device.to_owned()),
                ("-x", gid_index(end)?.to_string()),
                ("-p", port.to_string()),
                ("-q", self.queue_pairs.to_string()),
                ("-n", self.iterations.to_string()),
                ("-s", self.size.to_string()),
                ("-m", PATH_MTU.to_string()),
                // 4.096 µs · 2^n until a transport timeout: 1 s, longer than the queue of 24 Mbit/s holds packets and
                // an emulated machine takes, since the driver refuses some requests that are retransmitted too early.
                // The driver's timer expires at this interval in a long transfer even without loss: transfers that
                // must have no retransmissions get a longer one.
                ("-u", self.timeout().to_string()),
            ];
            let mut arguments = vec!["-F".to_owned(), format!("--tclass={}", self.traffic_class)];
            if self.chain > 1 {
                arguments.extend(["-l".to_owned(), self.chain.to_string()]);
            }
            if self.one_by_one {
                // One message in flight, and a completion for each.
                arguments.extend(["-t", "1", "-Q", "1"].map(str::to_owned));
            }
            arguments.extend(words.into_iter().flat_map(|(option, value)| [option.to_owned(), value]));
            let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            arguments.extend(peer);
            Tool::start(self.program, &arguments)
        };
        let mut server = start(FAR, &[])?;
        wait_for(&format!("{} listening", self.program), || {
            if !server.is_running()? {
                bail!("the server of {} ended at once: {}", self.program, server.standard_error()?);
            }
            Ok(is_listening(port).then_some(()))
        })?;
        let mut client = start(NEAR, &["127.0.0.1"])?;
        let pids = (client.id(), server.id());
        let resources = qps::while_running(&mut client, |qp| {
            qp.kind == "RC" && [Some(pids.0), Some(pids.1)].contains(&qp.pid)
        })?;
        let said = client.finish()?;
        server.finish()?;
        let (size, iterations) =
            result(&said).with_context(|| format!("{} printed no result: {said}", self.program))?;
        let of = |side: &str| said.lines().filter_map(|line| end_of(line, side)).collect::<Vec<_>>();
        let transferred = Transferred {
            wanted: self,
            size,
            iterations,
            near: of("local address:"),
            far: of("remote address:"),
            resources,
            pids,
        };
        let count = usize::try_from(self.queue_pairs)?;
        if (transferred.near.len(), transferred.far.len()) != (count, count) {
            bail!("{} did not name {count} queue pairs of each end: {said}", self.program);
        }
        Ok(transferred)
    }
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// True if a process listens on a TCP port, according to the kernel.
fn is_listening(port: u16) -> bool {
    const LISTEN: &str = "0A";
    let wanted = format!(":{port:04X}");
    let listens = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1).is_some_and(|at| at.ends_with(&wanted)) && words.get(3) == Some(&LISTEN)
    };
    let mut tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().filter_map(|table| fs::read_to_string(table).ok());
    tables.any(|table| table.lines().any(listens))
}

/// Queue pair number and PSN in " local address: LID 0000 QPN 0x0015 PSN 0x2fe12c RKey …".
fn end_of(line: &str, side: &str) -> Option<(u64, u64)> {
    let words: Vec<&str> = line.trim().strip_prefix(side)?.split_whitespace().collect();
    let after = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        u64::from_str_radix(words.get(at + 1)?.strip_prefix("0x")?, 16).ok()
    };
    Some((after("QPN")?, after("PSN")?))
}

/// The first two columns of the line below " #bytes     #iterations …".
fn result(said: &str) -> Option<(u64, u64)> {
    let mut lines = said.lines().skip_while(|line| !line.trim_start().starts_with("#bytes"));
    let mut columns = lines.nth(1)?.split_whitespace();
    Some((columns.next()?.parse().ok()?, columns.next()?.parse().ok()?))
}
