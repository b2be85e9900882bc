//! Two RDMA devices, each on a veth pair to a bridge, in one network namespace.
//!
//! The driver of Linux 6.1 receives in the first network namespace only, so both ends are there, and rules make
//! packets between the two addresses leave by the wire instead of the loopback. Neighbours are static and IPv6 is
//! disabled, so that nothing else is on the wire. A bridge is the hop between them, on which [`super::hop`] drops or
//! changes packets between the two taps.

use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::Value;

use super::session::results;
use super::tool::{json, run, wait_for};

/// One end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Its interface.
    pub interface: &'static str,
    /// Its RDMA device.
    pub device: &'static str,
    /// Its address.
    pub address: &'static str,
    /// The bridge port to which its interface is connected.
    pub hop: &'static str,
    mac: &'static str,
}

impl End {
    /// Another host on the same wire: the same device with another of its addresses, see [`Hosts`].
    #[must_use]
    pub const fn at(self, address: &'static str) -> Self {
        Self { address, ..self }
    }
}

/// The requester: perftest's client. Loss and marking are applied on its interface.
pub const NEAR: End =
    End { interface: "h0", device: "rxe0", address: "10.0.0.1", hop: "b0", mac: "02:00:00:00:00:01" };
/// The responder.
pub const FAR: End =
    End { interface: "h1", device: "rxe1", address: "10.0.0.2", hop: "b1", mac: "02:00:00:00:00:02" };
/// Both ends.
pub const ENDS: [End; 2] = [NEAR, FAR];
/// The requester, by its address of [`Version6`].
pub const NEAR6: End = NEAR.at("fd00::1");
/// The responder, likewise.
pub const FAR6: End = FAR.at("fd00::2");
const BRIDGE: &str = "br0";
/// MTU of the interfaces.
pub const MTU: u32 = 1500;
/// The corresponding RDMA path MTU.
pub const PATH_MTU: u64 = 1024;

const MODULES: [&str; 8] =
    ["rdma_rxe", "ib_uverbs", "rdma_ucm", "veth", "bridge", "sch_netem", "sch_red", "sch_tbf"];

/// Unloads a module and its dependants; returns their names in the order of unloading.
pub fn unload(module: &str) -> Result<Vec<String>> {
    let mut gone = Vec::new();
    let loaded = fs::read_to_string("/proc/modules")?;
    let mut lines = loaded.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // Name, length, use count, and users.
    let Some(words) = lines.find(|words| words.first() == Some(&module)) else { return Ok(gone) };
    for user in words.get(3).unwrap_or(&"-").split(',').filter(|user| !user.is_empty() && *user != "-") {
        gone.extend(unload(user)?);
    }
    run("rmmod", &[module])?;
    gone.push(module.to_owned());
    Ok(gone)
}

/// Sets up everything, once.
pub fn up() -> Result<()> {
    static UP: OnceLock<std::result::Result<(), String>> = OnceLock::new();
    UP.get_or_init(|| set_up().map_err(|error| format!("{error:#}"))).clone().map_err(|why| anyhow!(why))
}

fn set_up() -> Result<()> {
    if Path::new("/sys/class/net").join(NEAR.interface).exists() {
        if results().is_ok() {
            // Set up by the previous test program in the same guest.
            return Ok(());
        }
        bail!(
            "there is an interface {} already: this is for the machine of `cargo xtask vm`",
            NEAR.interface
        );
    }
    for module in MODULES {
        run("modprobe", &[module]).context("this is for the machine of `cargo xtask vm`")?;
    }
    for (setting, value) in [
        ("ipv6/conf/all/disable_ipv6", "1"),
        ("ipv6/conf/default/disable_ipv6", "1"),
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/default/rp_filter", "0"),
        ("ipv4/conf/all/accept_local", "1"),
        ("ipv4/conf/default/accept_local", "1"),
    ] {
        fs::write(format!("/proc/sys/net/{setting}"), value).with_context(|| setting.to_owned())?;
    }
    batch(&commands())?;
    add_devices()?;
    for end in ENDS {
        // All arriving packets are processed by one CPU, in the order of sending: two CPUs could reorder packets of
        // one queue pair, even between tcpdump's hook and rocescope's.
        for interface in [end.interface, end.hop] {
            let steering = format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
            fs::write(&steering, "1").with_context(|| steering.clone())?;
        }
    }
    Ok(())
}

/// More hosts at the ends, as far as packets show: additional addresses of their devices, removed when dropped.
#[derive(Debug)]
pub struct Hosts(Vec<(usize, &'static str)>);

impl Hosts {
    /// Adds addresses, each in a /24 network, to the ends with these indices in [`ENDS`].
    pub fn add(hosts: &[(usize, &'static str)]) -> Result<Self> {
        up()?;
        let added = Self(hosts.to_vec());
        batch(&added.commands(["add", "add", "replace"]))?;
        for (number, address) in hosts {
            let end = ENDS[*number].at(address);
            wait_for(&format!("{address} among the GIDs of {}", end.device), || {
                Ok(gid_index(end).is_ok().then_some(()))
            })?;
        }
        Ok(added)
    }

    /// Commands for `ip -batch`, with the words for addresses and rules, for routes, and for neighbours.
    fn commands(&self, [add, route, neighbour]: [&str; 3]) -> String {
        let mut lines = Vec::new();
        for (number, address) in &self.0 {
            let (End { interface, mac, .. }, other) = (ENDS[*number], ENDS[1 - *number]);
            let (arriving, leaving) = (101 + number, 201 + number);
            let network = address.rsplit_once('.').map_or(*address, |(network, _)| network);
            lines.push(format!("addr {add} {address}/24 dev {interface}"));
            lines.push(format!("route {route} local {address} dev {interface} table {arriving}"));
            for table in [arriving, leaving] {
                // The route of the ends' own network exists.
                if !NEAR.address.starts_with(network) {
                    lines.push(format!("route {route} {network}.0/24 dev {interface} table {table}"));
                }
            }
            lines.push(format!("rule {add} pref {} from {address} iif lo lookup {leaving}", 200 + leaving));
            lines.push(format!(
                "neigh {neighbour} {address} lladdr {mac} nud permanent dev {}",
                other.interface
            ));
        }
        lines.join("\n") + "\n"
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // Failures concern only what was removed with an address.
        let _ = batch(&self.commands(["del", "del", "del"]));
    }
}

/// IPv6 addresses of both ends, removed when dropped: without neighbour discovery, as otherwise on this wire.
#[derive(Debug)]
pub struct Version6(());

impl Version6 {
    /// Adds them.
    pub fn add() -> Result<Self> {
        up()?;
        let added = Self(());
        for end in [NEAR6, FAR6] {
            let set = |name: &str, value: &str| {
                let setting = format!("/proc/sys/net/ipv6/conf/{}/{name}", end.interface);
                fs::write(&setting, value).with_context(|| setting.clone())
            };
            // No address of the link, which would be announced.
            for (name, value) in [("addr_gen_mode", "1"), ("accept_ra", "0"), ("disable_ipv6", "0")] {
                set(name, value)?;
            }
        }
        let mut lines = vec!["rule add pref 900 lookup local".to_owned(), "rule del pref 0".to_owned()];
        for ((number, end), other) in (1..).zip([NEAR6, FAR6]).zip([FAR6, NEAR6]) {
            let End { interface, address, .. } = end;
            let (arriving, leaving) = (100 + number, 200 + number);
            lines.push(format!("addr add {address}/64 dev {interface} nodad noprefixroute"));
            lines.push(format!("route add local {address} dev {interface} table {arriving}"));
            lines.push(format!("route add fd00::/64 dev {interface} table {arriving}"));
            lines.push(format!("route add fd00::/64 dev {interface} table {leaving}"));
            lines.extend(Self::rules(number, end, "add"));
            lines.push(format!(
                "neigh replace {} lladdr {} nud permanent dev {interface}",
                other.address, other.mac
            ));
        }
        batch_of(&["-6"], &(lines.join("\n") + "\n"))?;
        for end in [NEAR6, FAR6] {
            wait_for(&format!("{} among the GIDs of {}", end.address, end.device), || {
                Ok(gid_index(end).is_ok().then_some(()))
            })?;
        }
        Ok(added)
    }

    fn rules(number: u32, End { interface, address, .. }: End, add: &str) -> [String; 3] {
        let (arriving, leaving) = (100 + number, 200 + number);
        [
            format!("rule {add} pref {arriving} iif {interface} lookup {arriving}"),
            format!("rule {add} pref {leaving} oif {interface} lookup {leaving}"),
            format!("rule {add} pref {} from {address} iif lo lookup {leaving}", 200 + leaving),
        ]
    }
}

impl Drop for Version6 {
    fn drop(&mut self) {
        let mut lines = vec!["rule add pref 0 lookup local".to_owned(), "rule del pref 900".to_owned()];
        for (number, end) in (1..).zip([NEAR6, FAR6]) {
            lines.extend(Self::rules(number, end, "del"));
            // With its addresses, routes and neighbours.
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", end.interface), "1");
        }
        let _ = batch_of(&["-6"], &(lines.join("\n") + "\n"));
    }
}

/// Runs these commands with `ip`, continuing after failures.
fn batch(commands: &str) -> Result<()> {
    batch_of(&[], commands)
}

/// The same with options.
fn batch_of(options: &[&str], commands: &str) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), commands)?;
    run("ip", &[options, &["-force", "-batch", &file.path().to_string_lossy()]].concat()).map(drop)
}

/// Adds the RDMA devices, and waits until they work.
pub fn add_devices() -> Result<()> {
    for end in ENDS {
        run("rdma", &["link", "add", end.device, "type", "rxe", "netdev", end.interface])?;
    }
    for end in ENDS {
        wait_for(&format!("port 1 of {} becoming active", end.device), || {
            let state = fs::read_to_string(format!("/sys/class/infiniband/{}/ports/1/state", end.device))?;
            Ok((state.trim() == "4: ACTIVE" && gid_index(end).is_ok()).then_some(()))
        })?;
    }
    Ok(())
}

/// Commands for `ip -batch`: a table for packets that arrive at an end and one for those that leave it, both
/// consulted before the local table, which contains both addresses.
fn commands() -> String {
    let mut lines = vec!["rule add pref 900 lookup local".to_owned(), "rule del pref 0".to_owned()];
    lines.push(format!("link add {BRIDGE} mtu {MTU} type bridge"));
    lines.push(format!("link set {BRIDGE} up"));
    for (number, end) in (1..).zip(ENDS) {
        let End { interface, address, hop, mac, .. } = end;
        lines.push(format!(
            "link add {interface} mtu {MTU} address {mac} type veth peer name {hop} mtu {MTU}"
        ));
        lines.push(format!("link set {hop} master {BRIDGE} up"));
        let (arriving, leaving) = (100 + number, 200 + number);
        lines.push(format!("link set {interface} up"));
        lines.push(format!("addr add {address}/24 dev {interface}"));
        lines.push(format!("route add local {address} dev {interface} table {arriving}"));
        lines.push(format!("route add 10.0.0.0/24 dev {interface} src {address} table {arriving}"));
        lines.push(format!("route add 10.0.0.0/24 dev {interface} src {address} table {leaving}"));
        lines.push(format!("rule add pref {arriving} iif {interface} lookup {arriving}"));
        lines.push(format!("rule add pref {leaving} oif {interface} lookup {leaving}"));
        lines.push(format!("rule add pref {} from {address} iif lo lookup {leaving}", 200 + leaving));
    }
    for (end, other) in [(NEAR, FAR), (FAR, NEAR)] {
        let (interface, address, mac) = (end.interface, other.address, other.mac);
        lines.push(format!("neigh replace {address} lladdr {mac} nud permanent dev {interface}"));
    }
    lines.join("\n") + "\n"
}

/// The index of an end's IPv4 address in its device's GID table.
pub fn gid_index(end: End) -> Result<u32> {
    let wanted = match end.address.parse()? {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let of = |index: u32| -> Option<Ipv6Addr> {
        let file = format!("/sys/class/infiniband/{}/ports/1/gids/{index}", end.device);
        fs::read_to_string(file).ok()?.trim().parse().ok()
    };
    let found = (0..64).find(|index| of(*index) == Some(wanted));
    found.with_context(|| format!("{} has no GID for {}", end.device, end.address))
}

/// The counters of an end's device, as `rdma statistic` shows them.
pub fn statistic(end: End) -> Result<Value> {
    let port = format!("{}/1", end.device);
    let shown = json("rdma", &["-j", "statistic", "show", "link", &port])?;
    shown.get(0).cloned().with_context(|| format!("`rdma statistic` does not show {port}: {shown}"))
}

/// Adds queueing disciplines to the egress of [`NEAR`], each given as the words after its interface, and removes them
/// when dropped.
#[derive(Debug)]
pub struct Harm(());

impl Harm {
    /// Adds them.
    pub fn add(disciplines: &[&str]) -> Result<Self> {
        let harm = Self(());
        for discipline in disciplines {
            let words: Vec<&str> = discipline.split_whitespace().collect();
            run("tc", &[&["qdisc", "add", "dev", NEAR.interface][..], &words].concat())?;
        }
        Ok(harm)
    }

    /// Counters of the discipline of this kind, as `tc -s` shows them.
    pub fn counted(&self, kind: &str) -> Result<Value> {
        let shown = json("tc", &["-s", "-j", "qdisc", "show", "dev", NEAR.interface])?;
        let all = shown.as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|discipline| discipline["kind"] == kind);
        found.with_context(|| format!("`tc -s` shows no {kind} on {}: {shown}", NEAR.interface))
    }
}

impl Drop for Harm {
    fn drop(&mut self) {
        // Not `run`, since failures concern only what has already been removed.
        let _ = Command::new("tc").args(["qdisc", "del", "dev", NEAR.interface, "root"]).status();
    }
}
