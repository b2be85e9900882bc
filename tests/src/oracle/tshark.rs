//! Runs tshark and reads its fields, one row per frame.
//!
//! tshark gets an empty configuration in which only protocols that carry RoCE are enabled. Otherwise it would take a
//! known UDP source port for the protocol (69 would be TFTP) and guess at payloads, and the user's preferences would
//! affect the tests.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

const FIELDS: [&str; 51] = [
    "frame.time_epoch",
    "frame.len",
    "frame.protocols",
    "frame.interface_id",
    "frame.interface_name",
    "sll.pkttype",
    "sll.ifindex",
    "vlan.id",
    "vlan.priority",
    "ieee8021ad.id",
    "ieee8021ad.priority",
    "ip.src",
    "ip.dst",
    "ip.hdr_len",
    "ip.len",
    "ip.dsfield",
    "ip.flags.mf",
    "ip.frag_offset",
    "ipv6.src",
    "ipv6.dst",
    "ipv6.tclass",
    "ipv6.plen",
    "ipv6.fraghdr.more",
    "ipv6.hopopts.len_oct",
    "ipv6.routing.len_oct",
    "ipv6.dstopts.len_oct",
    "udp.srcport",
    "udp.dstport",
    "udp.length",
    "udp.checksum",
    "udp.payload",
    "gre.proto",
    "gre.flags.sequence_number",
    "infiniband.grh.paylen",
    "infiniband.grh.nxthdr",
    "infiniband.grh.sgid",
    "infiniband.grh.dgid",
    "infiniband.bth",
    "infiniband.bth.opcode",
    "infiniband.bth.padcnt",
    "infiniband.bth.destqp",
    "infiniband.bth.psn",
    "infiniband.aeth.syndrome",
    "infiniband.reth.dmalen",
    "infiniband.deth.srcqp",
    "infiniband.cm.req",
    "infiniband.cm.req.localqpn",
    "infiniband.cm.rep",
    "infiniband.cm.rep.remotecommid",
    "infiniband.cm.rep.localqpn",
    "frame.number",
];

/// Enabled beside the protocols that carry RoCE: without these tshark decodes nothing.
const NEEDED: [&str; 4] = ["frame", "ethertype", "data", "null"];

/// tshark's dissection of one frame.
#[derive(Debug)]
pub struct Row {
    values: HashMap<&'static str, Vec<String>>,
}

impl Row {
    /// The `index`-th occurrence of a field, outermost layer first.
    pub fn text(&self, field: &str, index: usize) -> Option<&str> {
        self.values.get(field)?.get(index).map(String::as_str)
    }

    /// The same as a number; tshark prints some fields in decimal and some with `0x`.
    pub fn number(&self, field: &str, index: usize) -> Option<u64> {
        let text = self.text(field, index)?;
        match text {
            "True" => Some(1),
            "False" => Some(0),
            _ => match text.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).ok(),
                None => text.parse().ok(),
            },
        }
    }

    /// The same as bytes, for fields that tshark prints as hexadecimal digits.
    pub fn bytes(&self, field: &str, index: usize) -> Vec<u8> {
        let text = self.text(field, index).unwrap_or_default();
        (0..text.len() / 2).filter_map(|i| u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()).collect()
    }

    /// The frame's layers, outermost first, by tshark's names.
    pub fn protocols(&self) -> impl Iterator<Item = &str> {
        self.text("frame.protocols", 0).unwrap_or_default().split(':')
    }

    /// Time of the frame in nanoseconds of Unix time.
    pub fn time_ns(&self) -> Result<u64> {
        let text = self.text("frame.time_epoch", 0).context("no frame time from tshark")?;
        let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
        let nanos = format!("{fraction:0<9}");
        let parse =
            || Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + nanos.get(..9)?.parse::<u64>().ok()?);
        parse().with_context(|| format!("tshark gave the time {text:?}"))
    }
}

/// True if tshark can be run here.
pub fn available() -> Result<bool> {
    if Command::new("tshark").arg("--version").output().is_ok_and(|out| out.status.success()) {
        return Ok(true);
    }
    if std::env::var("CI").is_ok_and(|value| value == "true") {
        bail!(
            "tshark is not installed, but these tests must not be skipped in CI: install the package tshark"
        );
    }
    println!("SKIP: tshark is not installed, so replay is not compared with it (install the package tshark)");
    Ok(false)
}

/// All frames of a capture file (pcap, pcapng, also gzip).
pub fn read(capture: &Path) -> Result<Vec<Row>> {
    let mut command = isolated()?;
    command.arg("-n").arg("-r").arg(capture);
    for preference in ["ip.defragment:FALSE", "ipv6.defragment:FALSE", "infiniband.rroce.port:4791"] {
        command.args(["-o", preference]);
    }
    command.args(["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", "-E", "aggregator=|"]);
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let output = command.output().context("tshark could not be started")?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("tshark failed on {}: {}", capture.display(), why.trim());
    }
    let text = String::from_utf8(output.stdout).context("tshark's output is not UTF-8")?;
    text.lines().map(parse_line).collect()
}

fn parse_line(line: &str) -> Result<Row> {
    let columns: Vec<_> = line.split('\t').collect();
    if columns.len() != FIELDS.len() {
        bail!("tshark gave {} columns instead of {}", columns.len(), FIELDS.len());
    }
    let values = FIELDS
        .into_iter()
        .zip(columns)
        .filter(|(_, column)| !column.is_empty())
        .map(|(field, column)| (field, column.split('|').map(str::to_owned).collect()))
        .collect();
    Ok(Row { values })
}

/// tshark with the configuration described at the top of this file.
fn isolated() -> Result<Command> {
    static CONFIGURATION: OnceLock<std::result::Result<tempfile::TempDir, String>> = OnceLock::new();
    let made = CONFIGURATION.get_or_init(|| configuration().map_err(|error| format!("{error:#}")));
    let folder = match made {
        Ok(folder) => folder.path(),
        Err(why) => bail!("no configuration for tshark: {why}"),
    };
    let mut command = Command::new("tshark");
    command.env("XDG_CONFIG_HOME", folder).env("HOME", folder);
    Ok(command)
}

fn configuration() -> Result<tempfile::TempDir> {
    let listing = Command::new("tshark").args(["-G", "protocols"]).output()?;
    let listing = String::from_utf8_lossy(&listing.stdout);
    let named = |name: &str| super::layers::CARRIERS.contains(&name) || NEEDED.contains(&name);
    let kept = |name: &str| named(name) || name.starts_with("ipv6.") || name.starts_with("_ws");
    let disabled: Vec<_> =
        listing.lines().filter_map(|line| line.split('\t').nth(2)).filter(|name| !kept(name)).collect();
    if disabled.len() < 500 {
        bail!("`tshark -G protocols` lists {} protocols, which cannot be all of them", disabled.len());
    }
    let folder = tempfile::tempdir()?;
    let inner = folder.path().join("wireshark");
    std::fs::create_dir(&inner)?;
    std::fs::write(inner.join("disabled_protos"), disabled.join("\n") + "\n")?;
    Ok(folder)
}
