//! The reasons for which figures of a queue pair are not known.

use std::fmt::Display;

use super::rows::Row;
use crate::analysis::{DeviceQp, Facts, QpSource};
use crate::util::source_port::why_unknown;
use crate::util::system::KernelVersion;

/// Figures that mostly have the same reason, and a name for all of them.
#[derive(Debug)]
struct Group {
    label: &'static str,
    names: &'static [&'static str],
}

const OWNER: Group = Group { label: "process", names: &["process", "made by"] };
const PEER: Group = Group { label: "peer QP", names: &["peer QP"] };
const IDENTITY: Group = Group { label: "type and state", names: &["type", "state"] };
const PATH: Group =
    Group { label: "path", names: &["from", "to", "UDP source port", "flow label", "DSCP", "path MTU"] };
const SENDING: Group = Group { label: "timeout and retries", names: &["timeout", "retries", "RNR retries"] };
const CREATION: Group = Group { label: "creation", names: &["ready to send", "connecting took", "age"] };
const SENT: Group = Group { label: "packets sent", names: &["packets sent", "sends"] };
const RECEIVED: Group = Group { label: "packets received", names: &["packets received", "receives"] };
const ACKNOWLEDGED: Group = Group {
    label: "in flight, stuck, retries in use",
    names: &["in flight", "stuck", "retries used", "RNR retries used", "retried in"],
};
const ERRORS: Group = Group { label: "port's errors", names: &["port's timeouts", "port's PSN errors"] };
const QUEUES: Group = Group { label: "queues", names: &["unsent work", "posted receives"] };
/// Properties of its path that no verb has.
const CHOICES: Group =
    Group { label: "choices of path", names: &["priority", "adaptive routing", "plane", "port of the bond"] };

/// Drivers that leave settings out of the answer to a query, which is how those of a queue pair that was connected
/// before the run are learned.
const LEAVE_OUT: [&str; 3] = ["irdma", "ionic_rdma", "erdma"];

/// Dashes without a reason yet, and the reasons so far.
#[derive(Debug)]
pub(super) struct Reasons {
    pub(super) open: Vec<&'static str>,
    pub(super) given: Vec<String>,
}

impl Reasons {
    /// Gives the dashes of these groups a reason, under their own names where others of a group are known.
    fn give(&mut self, groups: &[&Group], why: impl Display) {
        let mut names = Vec::new();
        for group in groups {
            let open: Vec<&str> =
                group.names.iter().copied().filter(|name| self.open.contains(name)).collect();
            if open.len() == group.names.len() { names.push(group.label) } else { names.extend(open) }
        }
        if !names.is_empty() {
            self.given.push(format!("{}: {why}", names.join(", ")));
            self.close(groups);
        }
    }

    fn give_one(&mut self, name: &'static str, why: impl Display) {
        let was = self.open.len();
        self.open.retain(|open| *open != name);
        if self.open.len() < was {
            self.given.push(format!("{name}: {why}"));
        }
    }

    fn close(&mut self, groups: &[&Group]) {
        self.open.retain(|open| !groups.iter().any(|group| group.names.contains(open)));
    }
}

/// The reasons for these dashes, and for what has no place of its own without a value.
pub(super) fn of(
    facts: &Facts,
    row: &Row<'_>,
    kernel: Option<KernelVersion>,
    dashes: Vec<&'static str>,
) -> Reasons {
    let qp = row.qp;
    let mut reasons = Reasons { open: dashes, given: Vec::new() };
    reasons.give_one("pod", "its process is in no pod, container or job, or could not be looked up");
    reasons.give(&[&IDENTITY], "none of its sources has it");
    reasons.give(&[&OWNER], "the kernel names none: its thread has ended, or it is in another PID namespace");
    settings(&mut reasons, facts, row, kernel);
    if has(qp, QpSource::Context) {
        of_context(&mut reasons, row);
    } else {
        reasons.given.push(format!("NIC context: {}", without_context(facts, row)));
        reasons.close(&[&CHOICES, &ACKNOWLEDGED, &QUEUES, &ERRORS]);
    }
    packets(&mut reasons, row);
    let why = match (&qp.posts, &facts.post_sampling) {
        (Some(posts), _) if posts.requests_per_s.is_some() => None,
        (Some(_), _) => Some("no rate, as no time was sampled"),
        (None, None) => Some("not sampled (--sample-posts)"),
        (None, Some(_)) if has(qp, QpSource::Devx) => Some("a GPU posts, or direct verbs"),
        (None, Some(_)) => Some("nothing was posted in a window"),
    };
    reasons.given.extend(why.map(|why| format!("posted work: {why}")));
    if !has(qp, QpSource::Packets) {
        let why = "none was captured; a NIC that does RoCE in hardware shows none";
        reasons.given.push(format!("packets: {why}"));
    }
    reasons
}

fn has(qp: &DeviceQp, source: QpSource) -> bool {
    qp.sources.contains(&source)
}

/// Life, path and settings, which verbs or commands past them show, and partly the context.
fn settings(reasons: &mut Reasons, facts: &Facts, row: &Row<'_>, kernel: Option<KernelVersion>) {
    let (qp, control) = (row.qp, &row.qp.control);
    let driver = row.device.driver.as_deref();
    if let Some(kind @ ("UC" | "XRC_TGT")) = qp.kind {
        reasons.give(&[&SENDING], format_args!("{kind} waits for no acknowledgements"));
    }
    if qp.rqpn.is_none() {
        reasons.give(&[&PEER, &PATH, &SENDING], without_peer(qp));
    }
    let is_followed = has(qp, QpSource::ControlPath) || has(qp, QpSource::Devx);
    if qp.rqpn.is_some() && (control.dst.is_some() || is_followed) {
        reasons.give_one("UDP source port", why_unknown(driver.unwrap_or("the driver"), kernel));
    }
    if !is_followed {
        let why = facts.qp_lives.as_ref().and_then(|lives| lives.unavailable.as_deref());
        let why = why.unwrap_or("no verb observed since the run began");
        reasons.give(&[&PATH, &SENDING, &CREATION], why);
        return;
    }
    let absent = facts.qp_lives.as_ref().map_or(&[][..], |lives| lives.absent_fields.as_slice());
    let absent = if absent.is_empty() {
        String::new()
    } else {
        format!("; the types of this kernel lack {}", absent.join(", "))
    };
    if has(qp, QpSource::Devx) {
        reasons.give_one("connecting took", "it is measured for verbs only");
    }
    if control.created_ns.is_some() {
        reasons.give_one("age", "the recorded clock was set back since its creation");
        reasons.give(&[&PATH, &SENDING], format_args!("no verb or command that was seen set them{absent}"));
        reasons.give(&[&CREATION], "no verb or command that was seen made it ready to send");
        return;
    }
    if let Some(driver) = driver.filter(|driver| LEAVE_OUT.contains(driver)) {
        let why = format!("connected before this run, and {driver} leaves them out of queries{absent}");
        reasons.give(&[&PATH, &SENDING], why);
    } else {
        let why = format!("connected before this run, and no query has shown them{absent}");
        reasons.give(&[&PATH, &SENDING], why);
    }
    reasons.give(&[&CREATION], "it was created before this run");
}

/// Figures that a context was read for and did not have.
fn of_context(reasons: &mut Reasons, row: &Row<'_>) {
    let qp = row.qp;
    if row.device.driver.as_deref() == Some("mlx5_ib") {
        reasons.give_one("plane", "its context chooses none, as on a port with one plane");
        reasons.give_one("port of the bond", "its context chooses none, as on a port without a bond");
    }
    reasons.give(&[&CHOICES], "the contexts of this driver do not have them");
    if matches!(qp.kind, Some("UC" | "XRC_TGT")) {
        let kind = qp.kind.unwrap_or_default();
        reasons.give(&[&ERRORS], format_args!("{kind} waits for no acknowledgements"));
    }
    let why = match qp.kind {
        Some(kind) if !matches!(kind, "RC" | "XRC_INI") => {
            format!("the context of {kind} shows no acknowledgements")
        }
        _ if qp.state == Some("ERR") => "in the error state its queues are flushed".to_owned(),
        _ if qp.in_flight.is_some() => {
            "no idle queue pair of the device has shown yet from which value its retries count".to_owned()
        }
        _ => "it has sent nothing since it was connected, or its context has no acknowledged PSN".to_owned(),
    };
    reasons.give(&[&ACKNOWLEDGED], why);
    reasons.give_one("posted receives", "it has no receive queue of its own: a shared one, or none");
    reasons.give_one("unsent work", "the contexts of this driver do not have it");
    reasons.give(&[&ERRORS], "none that the port counted is attributed to it");
}

/// The reason for which no context of it was read.
fn without_context(facts: &Facts, row: &Row<'_>) -> String {
    let refused = facts.qp_context.iter().flat_map(|contexts| &contexts.refused);
    let mut own = refused.filter_map(|one| one.strip_prefix(&format!("{}: ", row.device.name)));
    let is_connected = matches!(row.qp.kind, None | Some("RC" | "UC" | "XRC_INI" | "XRC_TGT" | "DRIVER"))
        && !matches!(row.qp.state, Some("RESET" | "INIT"));
    match (own.next(), &facts.qp_context) {
        (Some(why), _) => why.to_owned(),
        (None, _) if has(row.qp, QpSource::Devx) => {
            "the kernel lists no queue pair that was made past the verbs (--fwctl asks the firmware)"
                .to_owned()
        }
        (None, _) if row.has_ended() => "it has ended".to_owned(),
        (None, None) => "contexts are not read (--qp-queries)".to_owned(),
        (None, Some(_)) if !is_connected => "only those of connected queue pairs are read".to_owned(),
        (None, Some(contexts)) => format!("not read yet: {} queries a second at most", contexts.at_most),
    }
}

/// Packets sent and received, and their rates.
fn packets(reasons: &mut Reasons, row: &Row<'_>) {
    let qp = row.qp;
    if qp.sent_packets.is_none() && qp.received_packets.is_none() {
        reasons.give(&[&SENT, &RECEIVED], without_packets(qp));
    }
    for (count, group) in [(qp.sent_packets, &SENT), (qp.received_packets, &RECEIVED)] {
        if count.is_none() {
            reasons.give(&[group], "its sources do not have this PSN");
        }
    }
    let why = if row.has_ended() { "it has ended" } else { without_packets(qp) };
    reasons.give(&[&SENT, &RECEIVED], why);
}

/// The reason for which a queue pair has no peer.
fn without_peer(qp: &DeviceQp) -> &'static str {
    let was_connected = matches!(qp.state, Some("RTR" | "RTS" | "SQD" | "SQE"));
    match qp.kind {
        Some("UD" | "GSI" | "SMI") => "each of its requests names a peer of its own",
        Some("XRC_INI" | "XRC_TGT") if was_connected => {
            "the kernel's lists name no peer of XRC, and the verb that connected it was not seen"
        }
        _ if qp.state.is_none() => "none of its sources has it",
        _ => "it is not connected",
    }
}

/// The reason for which the packets of a queue pair are not known, or no rate of them.
fn without_packets(qp: &DeviceQp) -> &'static str {
    let is_read = has(qp, QpSource::Context);
    if qp.sq_psn.is_none() && qp.rq_psn.is_none() && !is_read {
        "neither the kernel's list nor a context has its PSNs"
    } else if qp.ambiguous_readings.is_some_and(|readings| readings > 0) {
        "its PSN may have wrapped since the reading before: 2^24 packets or more passed the port, or they are not counted"
    } else if qp.sent_packets.is_some() || qp.received_packets.is_some() {
        "two readings of its PSN are needed, and there are none yet"
    } else if is_read {
        "its context has no PSN that counts packets"
    } else {
        "no PSN of the port has moved: drivers may report those of the connection's start"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dash_has_the_reason_that_holds() {
        let with = |sent, ambiguous| DeviceQp {
            sq_psn: Some(1),
            sent_packets: sent,
            ambiguous_readings: ambiguous,
            ..DeviceQp::default()
        };
        assert!(without_packets(&DeviceQp::default()).starts_with("neither"));
        assert!(without_packets(&with(Some(0), Some(0))).starts_with("two readings"));
        assert!(without_packets(&with(Some(5), Some(1))).starts_with("its PSN may have wrapped"));
        assert!(without_packets(&with(None, None)).starts_with("no PSN of the port has moved"));
        let of = |kind, state| {
            without_peer(&DeviceQp { kind: Some(kind), state: Some(state), ..DeviceQp::default() })
        };
        assert!(of("UD", "RTS").starts_with("each of its requests"));
        assert!(of("XRC_TGT", "RTR").starts_with("the kernel's lists"));
        assert_eq!([of("RC", "INIT"), of("XRC_INI", "INIT")], ["it is not connected"; 2]);
    }

    #[test]
    fn a_group_with_a_known_figure_is_named_by_its_dashes() {
        let mut reasons =
            Reasons { open: vec!["timeout", "retries", "RNR retries", "to"], given: Vec::new() };
        reasons.give(&[&PATH, &SENDING], "no verb");
        assert_eq!(reasons.given, ["to, timeout and retries: no verb"]);
        reasons.give(&[&PATH, &SENDING], "another reason");
        reasons.give_one("retries", "another reason");
        assert_eq!((reasons.given.len(), reasons.open.len()), (1, 0), "one reason is enough");
    }
}
