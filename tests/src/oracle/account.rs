//! A second implementation of the accounting of `rocescope.report/1`, based on tshark.
//!
//! It shares only the definitions with the product. The result is a JSON value with the report's field names, so that
//! a difference is identified by its path. Fields without an exact definition (latency, findings, process) are not
//! included.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::opcode::Sequence;
use super::packet::{self, Cm, Content, Frame, Packet};
use super::psn::{Span, Tracker};
use super::tshark;

/// Link, source, destination, destination QP.
pub type FlowKey = (String, IpAddr, IpAddr, u64);

/// Everything counted so far.
#[derive(Debug, Default)]
pub struct Account {
    packets: u64,
    bytes: u64,
    /// RoCE frames that were truncated within their BTH.
    truncated: u64,
    window: Option<(u64, u64)>,
    links: BTreeSet<String>,
    flows: BTreeMap<FlowKey, Flow>,
    cm: Vec<(String, IpAddr, IpAddr, Cm)>,
}

/// Per-flow counters.
#[derive(Debug, Default)]
pub struct Flow {
    packets: u64,
    bytes: u64,
    inner_bytes: Option<u64>,
    payload_bytes: u64,
    payload_unknown: u64,
    window: Option<(u64, u64)>,
    ecn: [u64; 4],
    data_ecn: [u64; 4],
    cnp_packets: u64,
    opcodes: BTreeMap<u8, (String, u64)>,
    acks: u64,
    rnr_naks: u64,
    naks: [u64; 6],
    ack_unknown: u64,
    requests: Option<Tracker>,
    responses: Option<Tracker>,
    mtu: Option<u64>,
    src_ports: BTreeMap<u64, (u64, u64)>,
    src_qps: BTreeSet<u64>,
    first_setting: Option<Setting>,
    mixed: BTreeSet<&'static str>,
}

/// Properties of a flow from its first packet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    vlan: Option<u64>,
    inner_vlan: Option<u64>,
    pcp: Option<u64>,
    dscp: Option<u64>,
    encapsulation: Option<String>,
    roce_version: u64,
}

fn widen(window: &mut Option<(u64, u64)>, time: u64) {
    let (first, last) = window.unwrap_or((time, time));
    *window = Some((first.min(time), last.max(time)));
}

impl Account {
    /// Accounts for capture files, each a link, in the given order.
    pub fn of_files(captures: &[PathBuf]) -> Result<Self> {
        let mut account = Self::default();
        for capture in captures {
            account.add_file(capture)?;
        }
        Ok(account)
    }

    fn add_file(&mut self, capture: &Path) -> Result<()> {
        let rows = tshark::read(capture)?;
        let name = capture.file_name().context("a capture without a name")?.to_string_lossy().into_owned();
        let interfaces: BTreeSet<_> =
            rows.iter().filter_map(|row| row.number("frame.interface_id", 0)).collect();
        for row in &rows {
            let frame = packet::decode(row).with_context(|| capture.display().to_string())?;
            let interface = match row.text("frame.interface_name", 0) {
                Some(interface) if interfaces.len() > 1 => format!(":{interface}"),
                _ => String::new(),
            };
            self.add(&format!("{name}{interface}{}", frame.link_suffix), frame);
        }
        Ok(())
    }

    fn add(&mut self, link: &str, frame: Frame) {
        self.packets += 1;
        self.bytes += frame.len;
        widen(&mut self.window, frame.time_ns);
        match frame.content {
            Content::Other => {}
            Content::Truncated => self.truncated += 1,
            Content::Roce(packet) => {
                self.links.insert(link.to_owned());
                if let Some(cm) = &packet.cm {
                    self.cm.push((link.to_owned(), packet.src, packet.dst, cm.clone()));
                }
                let key = (link.to_owned(), packet.src, packet.dst, packet.dest_qp);
                self.flows.entry(key).or_default().add(&packet, frame.time_ns, frame.len);
            }
        }
    }

    /// Frames of any kind.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// RoCE packets.
    pub fn roce_packets(&self) -> u64 {
        self.flows.values().map(|flow| flow.packets).sum()
    }

    /// Flows by their key.
    pub fn flows(&self) -> &BTreeMap<FlowKey, Flow> {
        &self.flows
    }

    /// The expected report, without fields that have no exact definition.
    pub fn report(&self) -> Value {
        let sum = |of: fn(&Flow) -> u64| self.flows.values().map(of).sum::<u64>();
        let mut ecn = [0; 4];
        for flow in self.flows.values() {
            (0..4).for_each(|i| ecn[i] += flow.ecn[i]);
        }
        let flows: Vec<_> = self
            .flows
            .iter()
            .map(|(key, flow)| {
                let mut value = flow.report(key);
                value.insert("peer_qp".to_owned(), json!(self.peer(key, flow)));
                Value::Object(value)
            })
            .collect();
        json!({
            "schema": "rocescope.report/1",
            "window": { "first_ns": self.window.map(|w| w.0), "last_ns": self.window.map(|w| w.1) },
            "totals": {
                "packets": self.packets,
                "bytes": self.bytes,
                "roce_packets": sum(|flow| flow.packets),
                "roce_bytes": sum(|flow| flow.bytes),
                "cnp_packets": sum(|flow| flow.cnp_packets),
                "ecn": ecn_report(ecn),
                "skipped_sum": self.packets - sum(|flow| flow.packets),
                "skipped_truncated_at_least": self.truncated,
            },
            "flows": flows,
            "entropy": self.entropy(),
            "links": self.links(),
        })
    }

    fn links(&self) -> Vec<Value> {
        let of = |name: &str| {
            let (mut packets, mut bytes, mut data_ecn) = (0, 0, [0; 4]);
            for (_, flow) in self.flows.iter().filter(|((link, ..), _)| link == name) {
                packets += flow.packets;
                bytes += flow.bytes;
                (0..4).for_each(|i| data_ecn[i] += flow.data_ecn[i]);
            }
            json!({
                "name": name, "direction": null, "packets": packets, "bytes": bytes,
                "ce_ratio": ce_ratio(data_ecn),
            })
        };
        self.links.iter().map(|name| of(name)).collect()
    }

    /// Over 5-tuples weighted by bytes; one seen on several links counts with its maximum.
    fn entropy(&self) -> Value {
        let mut on_link: HashMap<(&str, IpAddr, IpAddr, u64), u64> = HashMap::new();
        for ((link, src, dst, _), flow) in &self.flows {
            for (port, (_, bytes)) in &flow.src_ports {
                *on_link.entry((link, *src, *dst, *port)).or_default() += bytes;
            }
        }
        let mut tuples: BTreeMap<(IpAddr, IpAddr, u64), u64> = BTreeMap::new();
        for ((_, src, dst, port), bytes) in on_link {
            let most = tuples.entry((src, dst, port)).or_default();
            *most = bytes.max(*most);
        }
        let total = tuples.values().sum::<u64>() as f64;
        let shares: Vec<_> = tuples.values().map(|bytes| *bytes as f64 / total).collect();
        // + 0.0 converts the -0 of a single tuple to 0.
        let bits = -shares.iter().map(|p| p * p.log2()).sum::<f64>() + 0.0;
        let ports: BTreeSet<_> = tuples.keys().map(|(_, _, port)| port).collect();
        let known = !tuples.is_empty();
        let mut value = json!({ "five_tuples": tuples.len(), "source_ports": ports.len() });
        if known {
            value["entropy_bits"] = json!(bits);
            value["normalized"] =
                if tuples.len() > 1 { json!(bits / (tuples.len() as f64).log2()) } else { Value::Null };
            value["effective_flows"] = json!(bits.exp2());
            value["top_share"] = json!(shares.iter().copied().fold(0.0, f64::max));
        }
        value
    }

    /// The QP at the sending end, if the packets state it: `{"is": QP or null}`, else `"unstated"`.
    fn peer(&self, (link, src, dst, dest_qp): &FlowKey, flow: &Flow) -> Value {
        let one = |stated: &BTreeSet<u64>| json!({ "is": stated.first().filter(|_| stated.len() == 1) });
        // A queue pair has one transport: if its number is also used otherwise, the datagrams' statement is doubtful.
        let datagrams_only = flow.opcodes.keys().all(|code| code >> 5 == 3 || *code == 0x81);
        if !flow.src_qps.is_empty() {
            return if datagrams_only { one(&flow.src_qps) } else { json!("unstated") };
        }
        let mut stated = BTreeSet::new();
        for (req_link, a, b, req) in &self.cm {
            let Cm::Req(id, req_qp) = req else { continue };
            let replies = self.cm.iter().filter(|(l, s, d, _)| l == req_link && s == b && d == a);
            for rep_qp in replies.filter_map(|(.., cm)| match cm {
                Cm::Rep(remote, qp) if remote == id => Some(qp),
                _ => None,
            }) {
                if link == req_link && (src, dst, dest_qp) == (a, b, rep_qp) {
                    stated.insert(*req_qp);
                }
                if link == req_link && (src, dst, dest_qp) == (b, a, req_qp) {
                    stated.insert(*rep_qp);
                }
            }
        }
        if stated.is_empty() { json!("unstated") } else { one(&stated) }
    }
}

impl Flow {
    fn add(&mut self, packet: &Packet, time: u64, len: u64) {
        let opcode = &packet.opcode;
        self.packets += 1;
        self.bytes += len;
        widen(&mut self.window, time);
        if let Some(inner) = packet.inner_bytes {
            *self.inner_bytes.get_or_insert(0) += inner;
        }
        match packet.payload {
            Some(payload) => self.payload_bytes += payload,
            None => self.payload_unknown += 1,
        }
        if let Some(codepoint) = packet.ecn {
            self.ecn[codepoint] += 1;
            self.data_ecn[codepoint] += u64::from(!opcode.control);
        }
        self.cnp_packets += u64::from(opcode.cnp);
        self.opcodes.entry(packet.code).or_insert_with(|| (opcode.name.clone(), 0)).1 += 1;
        self.src_qps.extend(packet.src_qp);
        if let Some(port) = packet.src_port {
            let counts = self.src_ports.entry(port).or_default();
            *counts = (counts.0 + 1, counts.1 + len);
        }
        if opcode.aeth.is_some() {
            self.acknowledge(packet.syndrome);
        }
        self.number(packet);
        self.compare_setting(packet);
    }

    fn acknowledge(&mut self, syndrome: Option<u64>) {
        match syndrome.map(|value| (value >> 5 & 3, value & 0x1F)) {
            Some((0, _)) => self.acks += 1,
            Some((1, _)) => self.rnr_naks += 1,
            Some((3, code)) => self.naks[usize::try_from(code.min(5)).unwrap_or(5)] += 1,
            // Type 2 is reserved: neither an ACK nor a NAK.
            Some(_) | None => self.ack_unknown += 1,
        }
    }

    fn number(&mut self, packet: &Packet) {
        let (tracker, span) = match packet.opcode.sequence {
            None => return,
            Some(Sequence::Response) => (&mut self.responses, Span::Exact(1)),
            Some(Sequence::Request) if packet.opcode.read_reth.is_some() => {
                (&mut self.requests, Span::of_read(packet.dma_length, self.mtu))
            }
            Some(Sequence::Request) => (&mut self.requests, Span::Exact(1)),
        };
        match tracker {
            Some(tracker) => tracker.observe(packet.psn, span),
            None => *tracker = Some(Tracker::start(packet.psn, span)),
        }
        if packet.opcode.full_mtu {
            self.mtu = packet.payload.filter(|payload| *payload > 0).or(self.mtu);
        }
    }

    fn compare_setting(&mut self, packet: &Packet) {
        let now = Setting {
            vlan: packet.vlan,
            inner_vlan: packet.inner_vlan,
            pcp: packet.pcp,
            dscp: packet.dscp,
            encapsulation: packet.encapsulation.clone(),
            roce_version: packet.roce_version,
        };
        let first = self.first_setting.get_or_insert_with(|| now.clone());
        let changed = [
            ("vlan", first.vlan != now.vlan),
            ("inner_vlan", first.inner_vlan != now.inner_vlan),
            ("pcp", first.pcp != now.pcp),
            ("dscp", first.dscp != now.dscp),
            ("encapsulation", first.encapsulation != now.encapsulation),
            ("roce_version", first.roce_version != now.roce_version),
        ];
        self.mixed.extend(changed.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name));
    }

    /// Packets of the flow.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The sequence of its requests.
    pub fn requests(&self) -> Option<&Tracker> {
        self.requests.as_ref()
    }

    /// NAKs for a PSN sequence error, and RNR NAKs.
    pub fn sequence_and_rnr_naks(&self) -> (u64, u64) {
        (self.naks[0], self.rnr_naks)
    }

    fn report(&self, (link, src, dst, dest_qp): &FlowKey) -> Map<String, Value> {
        let opcodes: Vec<_> = self
            .opcodes
            .iter()
            .map(|(code, (name, packets))| json!({ "code": code, "name": name, "packets": packets }))
            .collect();
        let ports: Vec<_> = self
            .src_ports
            .iter()
            .map(|(port, (packets, bytes))| json!({ "port": port, "packets": packets, "bytes": bytes }))
            .collect();
        let setting = self.first_setting.as_ref();
        let value = json!({
            "link": link, "direction": null, "src": src.to_string(), "dst": dst.to_string(),
            "dest_qp": dest_qp, "roce_version": setting.map(|s| s.roce_version),
            "packets": self.packets, "bytes": self.bytes, "inner_bytes": self.inner_bytes,
            "payload_bytes": self.payload_bytes, "payload_unknown": self.payload_unknown,
            "first_ns": self.window.map(|w| w.0), "last_ns": self.window.map(|w| w.1),
            "ecn": ecn_report(self.ecn), "ce_ratio": ce_ratio(self.data_ecn), "cnp_packets": self.cnp_packets,
            "opcodes": opcodes,
            "ack": {
                "acks": self.acks, "rnr_naks": self.rnr_naks,
                "naks": {
                    "psn_sequence_error": self.naks[0], "invalid_request": self.naks[1],
                    "remote_access_error": self.naks[2], "remote_operational_error": self.naks[3],
                    "invalid_rd_request": self.naks[4], "reserved": self.naks[5],
                },
                "unknown": self.ack_unknown,
            },
            "psn": self.requests.as_ref().map(tracker_report),
            "psn_responses": self.responses.as_ref().map(tracker_report),
            "src_port_count": ports.len(), "src_ports": ports,
            "vlan": setting.and_then(|s| s.vlan), "inner_vlan": setting.and_then(|s| s.inner_vlan),
            "pcp": setting.and_then(|s| s.pcp), "dscp": setting.and_then(|s| s.dscp),
            "encapsulation": setting.and_then(|s| s.encapsulation.clone()), "mixed": self.mixed,
        });
        match value {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }
}

fn tracker_report(tracker: &Tracker) -> Value {
    json!({
        "first": tracker.first, "expected": tracker.expected, "repeats": tracker.repeats,
        "gaps": tracker.gaps, "missing": tracker.missing, "restarts": tracker.restarts,
    })
}

/// The codepoints 0 to 3 under their names.
fn ecn_report([not_ect, ect1, ect0, ce]: [u64; 4]) -> Value {
    json!({ "not_ect": not_ect, "ect1": ect1, "ect0": ect0, "ce": ce })
}

fn ce_ratio([_, ect1, ect0, ce]: [u64; 4]) -> Option<f64> {
    let capable = ect1 + ect0 + ce;
    (capable > 0).then(|| ce as f64 / capable as f64)
}
