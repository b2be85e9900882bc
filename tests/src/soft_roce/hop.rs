//! Faults of the hop between the ends, downstream of one tap and upstream of the other.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::lab::End;
use super::tool::{LIMIT, json, run};

/// A fault of the hop, removed when dropped.
#[derive(Debug)]
pub struct Hop {
    port: &'static str,
    /// Commands that remove it.
    mend: Vec<Vec<&'static str>>,
}

impl Hop {
    /// Filters what an end sends: `words` are those of `tc filter` after the protocol, which is IPv4.
    pub fn filter(from: End, words: &str) -> Result<Self> {
        let port = from.hop;
        let hop = Self { port, mend: vec![vec!["tc", "qdisc", "del", "dev", port, "clsact"]] };
        run("tc", &["qdisc", "add", "dev", port, "clsact"])?;
        let words: Vec<&str> = words.split_whitespace().collect();
        run("tc", &[&["filter", "add", "dev", port, "ingress", "protocol", "ip"][..], &words].concat())?;
        Ok(hop)
    }

    /// Queues packets to an end: `words` are those of `tc qdisc` after the interface.
    pub fn queue(to: End, words: &str) -> Result<Self> {
        let hop = Self { port: to.hop, mend: vec![vec!["tc", "qdisc", "del", "dev", to.hop, "root"]] };
        let words: Vec<&str> = words.split_whitespace().collect();
        run("tc", &[&["qdisc", "add", "dev", to.hop][..], &words].concat())?;
        Ok(hop)
    }

    /// Changes the MTU of the port towards an end: larger packets are dropped silently, as a bridge does.
    pub fn small(to: End, mtu: &'static str, before: &'static str) -> Result<Self> {
        let set = |mtu| vec!["ip", "link", "set", to.hop, "mtu", mtu];
        let hop = Self { port: to.hop, mend: vec![set(before)] };
        run("ip", &set(mtu)[1..])?;
        Ok(hop)
    }

    /// Packets that its filter dropped, as `tc -s` shows them.
    pub fn dropped(&self) -> Result<u64> {
        let shown = run("tc", &["-s", "filter", "show", "dev", self.port, "ingress"])?;
        let after = shown.split("(dropped ").nth(1).and_then(|text| text.split(',').next());
        let count = after.with_context(|| format!("`tc -s filter` shows no drops: {shown}"))?;
        Ok(count.trim().parse()?)
    }

    /// Waits until its queue is empty and stays so, since queued packets are lost with it.
    pub fn drained(&self) -> Result<()> {
        let began = Instant::now();
        let mut empty = 0;
        while empty < 5 {
            ensure!(began.elapsed() < LIMIT, "the queue of {} does not become empty", self.port);
            sleep(Duration::from_millis(20));
            let shown = json("tc", &["-s", "-j", "qdisc", "show", "dev", self.port, "root"])?;
            let waiting = shown[0]["qlen"].as_u64();
            let waiting = waiting.with_context(|| format!("`tc -s qdisc` shows no qlen: {shown}"))?;
            empty = if waiting == 0 { empty + 1 } else { 0 };
        }
        Ok(())
    }
}

impl Drop for Hop {
    fn drop(&mut self) {
        for command in &self.mend {
            // Failures concern only what has already been removed.
            let _ = Command::new(command[0]).args(&command[1..]).status();
        }
    }
}
