//! Helpers for reading a report.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::lab::End;

/// PSNs count modulo 2^24.
const PSNS: u64 = 1 << 24;

/// A count in a report.
#[track_caller]
pub fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count"))
}

/// The flow to a queue pair, on the interface of an end.
pub fn flow<'a>(report: &'a Value, on: End, direction: &str, dst: End, qpn: u64) -> Result<&'a Value> {
    let mut flows = report["flows"].as_array().into_iter().flatten();
    let found = flows.find(|flow| {
        flow["link"] == on.interface
            && flow["direction"] == direction
            && flow["dst"] == dst.address
            && flow["dest_qp"] == qpn
    });
    found.with_context(|| {
        let list: Vec<String> = report["flows"].as_array().into_iter().flatten().map(short).collect();
        format!(
            "the report has no flow to {} QP {qpn} on {} {direction}; it has:\n{}",
            dst.address,
            on.interface,
            list.join("\n")
        )
    })
}

fn short(flow: &Value) -> String {
    let of = |name: &str| flow[name].to_string();
    ["link", "direction", "src", "dst", "dest_qp", "packets"].map(of).join(" ")
}

/// RoCE packets of a link in one direction.
pub fn on_link(report: &Value, end: End, direction: &str) -> Result<u64> {
    let mut links = report["links"].as_array().into_iter().flatten();
    let link = links.find(|link| link["name"] == end.interface && link["direction"] == direction);
    let link = link.with_context(|| format!("the report has no link {} {direction}", end.interface))?;
    link["packets"].as_u64().with_context(|| format!("{link} has no packets"))
}

/// A sum over the flows of a link in one direction.
pub fn sum(report: &Value, end: End, direction: &str, of: impl Fn(&Value) -> u64) -> u64 {
    let flows = report["flows"].as_array().into_iter().flatten();
    flows.filter(|flow| flow["link"] == end.interface && flow["direction"] == direction).map(of).sum()
}

/// Number of PSNs used in a sequence: packets without retransmissions.
#[track_caller]
pub fn used(psn: &Value) -> u64 {
    (count(&psn["expected"]) + PSNS - count(&psn["first"])) % PSNS
}

/// Packets with opcodes of these names.
pub fn with_opcodes(flow: &Value, names: &[&str]) -> u64 {
    let opcodes = flow["opcodes"].as_array().into_iter().flatten();
    let wanted = |opcode: &&Value| opcode["name"].as_str().is_some_and(|name| names.contains(&name));
    opcodes.filter(wanted).map(|opcode| count(&opcode["packets"])).sum()
}
