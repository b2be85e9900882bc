//! Two parallel links between the ends, each of which carries half of the queue pairs.

use std::process::Command;

use anyhow::Result;

use super::lab::{FAR, MTU, NEAR, up};
use super::tool::run;

/// The links' interfaces on the near side.
pub const UPLINKS: [&str; 2] = ["u0a", "u1a"];
/// Those on the far side.
const FAR_SIDE: [&str; 2] = ["u0b", "u1b"];
/// The bridges on both sides: the near one connects the ends otherwise.
const BRIDGES: [&str; 2] = ["br0", "br1"];
/// Lowest bit of the BTH's destination QP, after headers of 28 bytes.
const PARITY: usize = 28 + 7;

/// The links. When dropped they are removed, and one bridge connects the ends again.
#[derive(Debug)]
pub struct Uplinks(());

impl Uplinks {
    /// Adds them: packets to a queue pair with an even number take the first link, those to one with an odd number
    /// the second.
    pub fn add() -> Result<Self> {
        up()?;
        let links = Self(());
        ip(&format!("link add {} mtu {MTU} type bridge", BRIDGES[1]))?;
        ip(&format!("link set {} up", BRIDGES[1]))?;
        ip(&format!("link set {} master {}", FAR.hop, BRIDGES[1]))?;
        for (near, far) in UPLINKS.into_iter().zip(FAR_SIDE) {
            ip(&format!("link add {near} mtu {MTU} type veth peer name {far} mtu {MTU}"))?;
            for (side, bridge) in [near, far].into_iter().zip(BRIDGES) {
                ip(&format!("link set {side} master {bridge} up"))?;
                // What either bridge does not know would circle on the two links.
                ip(&format!("link set {side} type bridge_slave flood off mcast_flood off bcast_flood off"))?;
            }
        }
        for (hop, sides) in [(NEAR.hop, UPLINKS), (FAR.hop, FAR_SIDE)] {
            tc(&format!("qdisc add dev {hop} clsact"))?;
            for (parity, side) in sides.iter().enumerate() {
                tc(&format!(
                    "filter add dev {hop} ingress protocol ip u32 match u8 {parity} 0x01 at {PARITY} \
                     action mirred egress redirect dev {side}"
                ))?;
            }
        }
        Ok(links)
    }

    /// Delays what the second link carries to the near end. `delay` is a time as tc writes it.
    pub fn delay(&self, delay: &str) -> Result<()> {
        tc(&format!("qdisc add dev {} root netem limit 10000 delay {delay}", FAR_SIDE[1]))
    }
}

impl Drop for Uplinks {
    fn drop(&mut self) {
        let bridge = BRIDGES[1];
        for (program, words) in [
            ("tc", format!("qdisc del dev {} clsact", NEAR.hop)),
            ("tc", format!("qdisc del dev {} clsact", FAR.hop)),
            ("ip", format!("link del {}", UPLINKS[0])),
            ("ip", format!("link del {}", UPLINKS[1])),
            ("ip", format!("link set {} master {}", FAR.hop, BRIDGES[0])),
            ("ip", format!("link del {bridge}")),
        ] {
            // Failures concern only what was not added.
            let _ = Command::new(program).args(words.split_whitespace()).status();
        }
    }
}

fn ip(words: &str) -> Result<()> {
    run("ip", &words.split_whitespace().collect::<Vec<_>>()).map(drop)
}

fn tc(words: &str) -> Result<()> {
    run("tc", &words.split_whitespace().collect::<Vec<_>>()).map(drop)
}
