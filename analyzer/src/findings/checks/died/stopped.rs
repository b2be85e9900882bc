//! Queue pairs that stop in the middle of a message while others of their host go on.

use rocescope_common::wire::bth::{MASK24, psn_distance};
use rocescope_common::wire::opcode::Op;
use std::cmp::Reverse;

use super::{DeadQp, acked, fatal_nak, in_progress};
use crate::analysis::Flow;
use crate::findings::Input;
use crate::metrics::loss::{Loss, TIMEOUT_PAUSE_NS, in_message::InMessage};
use crate::sample::{Address, Direction};
use crate::util::definition::definitions;
use crate::util::map::Map;
use crate::util::time::NS_PER_MS;

definitions! {
    LONGEST_RNR_NS: u64 = 656_000_000,
        "Silence that an RNR NAK explains, in nanoseconds",
        "The longest RNR timer is 655.36 ms (IBTA 9.7.5.2.8)";
}

/// A sender on a link.
type Sender<'a> = (&'a str, Option<Direction>, Address);

/// Flows with requests or READ responses by sender, the last to end first, so that each of many flows has to visit only
/// few others.
pub(super) struct Siblings<'a>(Map<Sender<'a>, Vec<&'a Flow>>);

impl<'a> Siblings<'a> {
    pub(super) fn of(flows: &'a [Flow]) -> Self {
        let mut by_sender: Map<Sender<'_>, Vec<&Flow>> = Map::default();
        for flow in flows.iter().filter(|flow| flow.psn.is_some() || flow.psn_responses.is_some()) {
            by_sender.entry((&flow.link, flow.direction, flow.src)).or_default().push(flow);
        }
        for flows in by_sender.values_mut() {
            flows.sort_by_key(|flow| Reverse(flow.last_ns));
        }
        Self(by_sender)
    }

    /// Minimum number of packets in the sender's other flows after this one stopped: all packets of flows
    /// that began later, and one packet of each that ended later. Stops counting at `enough`.
    pub(super) fn since(&self, flow: &Flow, silent_ns: u64, enough: u64) -> u64 {
        let since = flow.last_ns.saturating_add(silent_ns / 2);
        // Estimated from the mean rate of each, since the times of single packets are unknown.
        let later = |other: &Flow| {
            let life = other.last_ns.saturating_sub(other.first_ns).max(1);
            let after = other.last_ns.saturating_sub(flow.last_ns.max(other.first_ns));
            crate::metrics::traffic::times(other.packets, after.min(life) as f64 / life as f64)
        };
        let of_sender = self.0.get(&(flow.link.as_str(), flow.direction, flow.src));
        let others = of_sender
            .into_iter()
            .flatten()
            .take_while(|other| other.last_ns > since)
            .filter(|other| (other.dst, other.dest_qp) != (flow.dst, flow.dest_qp));
        let mut packets = 0u64;
        for other in others {
            packets = packets.saturating_add(later(other));
            if packets >= enough {
                break;
            }
        }
        packets
    }
}

/// Requests that stopped in mid-message, at the end of the data.
pub(super) fn requests<'a>(
    input: &Input<'a>,
    (loss, siblings): (&Loss, &Siblings<'_>),
    flow: &'a Flow,
    dead: &DeadQp<'a>,
    end_ns: u64,
) -> Option<DeadQp<'a>> {
    let silent_ns = end_ns.saturating_sub(flow.last_ns);
    let message = match &loss.in_messages {
        Some(all) => open_request(input, loss, flow, *all.get(&flow.slot)?)?,
        None => open_message(flow)?.to_owned(),
    };
    let waits_ns = if is_in_rnr_wait(input, loss, flow) { LONGEST_RNR_NS } else { 0 };
    if !has_stopped(input, siblings, flow, silent_ns.saturating_sub(waits_ns)) {
        return None;
    }
    let cause =
        fatal_nak(input, flow).map_or_else(|| format!("stopped in the middle of a {message}"), str::to_owned);
    Some(DeadQp { cause, message: Some(message), stopped: true, ..*dead })
}

/// READ responses that stopped in mid-message, at the end of the data; the requester has not repeated its READ: then
/// its own retries show how it ends.
pub(super) fn responses<'a>(
    input: &Input<'a>,
    (loss, siblings): (&Loss, &Siblings<'_>),
    flow: &'a Flow,
    end_ns: u64,
) -> Option<DeadQp<'a>> {
    let at = loss.in_messages.as_ref()?.get(&flow.slot)?;
    let psn = flow.psn_responses.as_ref().filter(|_| at.response)?;
    flow.peer_qp?;
    let silent_ns = end_ns.saturating_sub(flow.last_ns);
    if !is_long(input, silent_ns)
        || input.facts.back(flow).any(|asks| asks.last_ns > flow.last_ns.saturating_add(TIMEOUT_PAUSE_NS))
        || !has_stopped(input, siblings, flow, silent_ns)
    {
        return None;
    }
    Some(DeadQp {
        cause: "stopped in the middle of a READ response".to_owned(),
        message: Some("RDMA READ".to_owned()),
        last_psn: Some(psn.expected.wrapping_sub(1) & MASK24),
        stopped: true,
        responds: true,
        ..DeadQp::of(flow)
    })
}

/// True if a silence is long enough for a flow to have stopped.
pub(super) fn is_long(input: &Input<'_>, silent_ns: u64) -> bool {
    silent_ns >= input.limits.qp.silent_ms.saturating_mul(NS_PER_MS)
}

/// True if a flow is silent for long while others of its sender go on, and no other tap shows that it does so itself.
fn has_stopped(input: &Input<'_>, siblings: &Siblings<'_>, flow: &Flow, silent_ns: u64) -> bool {
    let limits = &input.limits.qp;
    let goes_on = |other: &Flow| other.last_ns > flow.last_ns.saturating_add(silent_ns / 2);
    is_long(input, silent_ns)
        && !input.facts.to_qp(flow.src, flow.dst, flow.dest_qp).any(goes_on)
        && siblings.since(flow, silent_ns, limits.siblings_packets) >= limits.siblings_packets
}

/// The message that a sender has begun and not completed: its latest request is not the last of its message, or it has
/// gone back, and not come to its latest request again, which is not acknowledged.
fn open_request(input: &Input<'_>, loss: &Loss, flow: &Flow, at: InMessage) -> Option<String> {
    let opcode = at.request?;
    let last_psn = flow.psn.get()?.expected.wrapping_sub(1) & MASK24;
    if Op::of(opcode).has(Op::ENDS) && acked(input, loss, flow) == Some(last_psn) {
        return None;
    }
    // What is acknowledged behind it was not captured.
    let beyond = |answer: u32| (1..MASK24 / 2).contains(&psn_distance(last_psn, answer));
    let is_beyond = |other: &Flow| loss.ack_state(other.slot).acknowledged().is_some_and(beyond);
    if input.facts.back(flow).any(is_beyond) {
        return None;
    }
    in_progress(opcode, None).filter(|_| matches!(opcode & 0x1F, 0x00..=0x0B | 0x16 | 0x17))
}

/// True if an RNR NAK made the sender wait after its last packet.
fn is_in_rnr_wait(input: &Input<'_>, loss: &Loss, flow: &Flow) -> bool {
    let around_ns = flow.last_ns.saturating_sub(TIMEOUT_PAUSE_NS);
    input.facts.back(flow).any(|other| loss.naks(other.slot).rnr.last_ns > around_ns)
}

/// The kind of message that a flow has begun and not completed; `None` if there is none, or if losses make it
/// uncertain. What live runs know.
fn open_message(flow: &Flow) -> Option<&'static str> {
    let whole = flow.psn.get().is_some_and(|psn| (psn.gaps, psn.repeats, psn.restarts) == (0, 0, 0));
    let count = |codes: &[u8]| -> u64 {
        let own = |code: u8| codes.contains(&(code & 0x1F));
        flow.opcodes.iter().filter(|opcode| own(opcode.code)).map(|opcode| opcode.packets).sum()
    };
    // FIRST, and all forms of LAST.
    let kinds: [(&str, &[u8], &[u8]); 2] =
        [("SEND", &[0x00], &[0x02, 0x03, 0x16]), ("RDMA WRITE", &[0x06], &[0x08, 0x09])];
    let open = |first: &[u8], last: &[u8]| count(first) == count(last) + 1;
    let found = kinds.iter().find(|(_, first, last)| open(first, last)).map(|(kind, ..)| *kind);
    found.filter(|_| whole)
}
