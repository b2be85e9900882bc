//! Queue pairs that worked and then stopped for good: seen in packets, or reported by the kernel.

mod device;
mod stopped;
#[cfg(test)]
mod tests;

use rocescope_common::wire::bth::{MASK24, psn_distance};
use rocescope_common::wire::opcode::Op;
use stopped::Siblings;

use super::ends;
use crate::analysis::{Device, DeviceQp, Flow, Psn};
use crate::findings::ids;
use crate::findings::title::{more, pair, title};
use crate::findings::{
    ByHand, Commands, Entry, Episode, Family, Finding, Impact, Input, LocalQp, Place, Problem, Raise,
    RequiredData, Severity, Unit, dedup, label,
};
use crate::metrics::loss::{Loss, Metrics, PSN_WINDOW};
use crate::sample::{PeerKey, SourceKind, address};
use crate::util::definition::definitions;
use crate::util::units;

pub(in crate::findings) use stopped::DEFINITIONS as OF_STOPPED;

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[DIED],
    limits: &[Limits::META],
    evidence: &[
        label("cause", "reason", Unit::Text),
        label("last_acked_psn", "last PSN acknowledged", Unit::Id),
        label("last_sent_psn", "last PSN sent (of a READ: at most)", Unit::Id),
        label("message", "message in progress", Unit::Text),
        label("retries", "retries of the same request", Unit::Count),
        label(
            "silent_ns",
            "silence until the end of the data, or its number is used again",
            Unit::Nanoseconds,
        ),
        label("siblings_packets", "packets of its siblings since", Unit::Count),
        label("lqpn", "QP number", Unit::Id),
        label("lqpns", "QP numbers, this and the latest others", Unit::Id),
        label("queue_pairs", "queue pairs that died in this episode", Unit::Count),
        label("died_ns", "time of its death", Unit::Time),
        label("rqpn", "QP number of its peer", Unit::Id),
        label("process", "process", Unit::Text),
        label("udp_port", "UDP source port", Unit::Id),
        label("timeout_ns", "transport timeout", Unit::Nanoseconds),
        label("retry_cnt", "retry count", Unit::Count),
        label("rnr_retry", "RNR retry count (7: for ever)", Unit::Count),
    ],
    check,
};

pub(super) const DIED: Entry = Entry {
    id: ids::QP_DIED,
    of_queue_pairs: true,
    rank: 165,
    needs: &[RequiredData::Deaths],
    causes: &[
        ids::PATH_MTU_BLACK_HOLE,
        ids::NAK_REMOTE_ACCESS_ERROR,
        ids::NAK_REMOTE_OPERATIONAL_ERROR,
        ids::NAK_INVALID_REQUEST,
        ids::LOSS_BETWEEN_TAPS,
        ids::LOSS_BEFORE_TAP,
        ids::LOSS_AFTER_TAP,
    ],
    title: "Queue pair died",
    meaning: "A queue pair that had worked stopped for good: its sender retried the same request until it gave up, or stopped in the middle of a message while other queue pairs of the same hosts went on. \
              The connection is in the error state; the collective that uses it hangs until its watchdog ends the job.",
    computed: "Over reliable flows whose requests had been answered, a queue pair that shows one of these; critical in each case:\n\
               - Retries exhausted: the sender retransmits from the same PSN `qp.retries` times in a row without an answer to it (flows[].loss.stuck). Then it sends nothing for \
               `qp.silent_timeouts` times its longest timeout, or it retransmits `qp.retries_exhausted` times, or the queue pair is gone: its sender asks for the end of the connection (DREQ), \
               the kernel destroys it (live), or another connection uses its number after half a timeout at least.\n\
               - Next to the responder, the responses to a READ pass the tap. If the requester repeats the READ `qp.retries_exhausted` times all the same, the responses do not arrive, and its retries are exhausted.\n\
               - Stopped in mid-message: the latest request of the flow is not the last of its message, or its sender has gone back and not come to its latest request again, and nothing behind it is \
               acknowledged (live: the flow has one more FIRST than LAST packets and neither lost nor retransmitted one). Or the latest READ response is not the last of its message, and its \
               requester sends nothing more.\n\
               \n\
               Live, retries are not exhausted when the last packet that the peer sent is an ACK later than that PSN. A queue pair that stopped in mid-message also sends nothing for the last `qp.silent_ms` of the data at any tap (after an RNR NAK, beyond the longest RNR timer), while other flows of the \
               same sender send `qp.siblings_packets` packets of requests or responses.\n\
               \n\
               `last_acked_psn` is the latest PSN that the peer acknowledged (not live). If `last_sent_psn` is of a READ of unknown path MTU, it is the highest that its responses may take. \
               A fatal NAK of the same queue pair is named as the reason.\n\
               \n\
               Live, for queue pairs whose packets bypass the kernel too:\n\
               - An asynchronous event QP_FATAL, QP_REQ_ERR or QP_ACCESS_ERR, or a reason that the driver gives (devices[].qp_events).\n\
               - A query, list or context that finds a connected queue pair in the error state although no verb took it there. Such a death is a warning if results of verbs were missed \
               (qp_lives.missed_returns) since it was last seen connected: one of them may have taken it to the error state.\n\
               \n\
               The reason is the one that the driver gives (`error reason`), else the meaning of the event. Of a queue pair that was only found in the error state it is a fatal NAK that packets show, \
               which ends both queue pairs of the connection, else counters of its port that grew at that time, or during the run where times of growth are not known (retries_exceeded, \
               rnr_retries_exceeded, access_naks_received, access_naks_sent): likely and not certain.\n\
               \n\
               Deaths of a device with the same reason and peer are one finding. It names the first queue pair of its latest episode; `lqpns` lists up to 16 of that episode. \
               A number that is in use again, or a queue pair that is connected again, dies a second time. The finding is active while one of them is in the error state and not destroyed.",
    advice: "Read the log of the process on both ends (work completion with error: retry exceeded, remote access error, flush), `dmesg` and `rdma resource show qp` (state ERR), and what \
             happened on the path at that time: link flaps, routes, a firewall. NCCL reports it as `Got completion with error 12` (retry exceeded) or 5 (flushed).",
    caveat: "A capture that loses one path of a sprayed flow, or a filter, looks the same. A flow that resumes after the end of the data was only stalled.",
    ..Entry::of(Problem::Silent)
};

definitions! {
    CLOCKS_NS: u64 = 1_000_000,
        "Maximum difference between times of counters and of events, in nanoseconds",
        "They are converted with different readings of the clock";
    pub(super) REASON_NS: u64 = 2_000_000_000,
        "Maximum time between the event of a queue pair's error and the reason that the driver gives for it, in nanoseconds",
        "The two reach user space by different ways";
    pub(super) GREW_NS: u64 = 2_000_000_000,
        "Maximum time between the growth of a port counter and the death of a queue pair that it explains, in nanoseconds",
        "Counters are read about every second, and one that grows has the kernel's list of queue pairs read at once";
}

limits! {
    /// Thresholds of this family.
    pub struct Limits = "qp";
    retries: u64 = 2,
        "minimum retries in a row from the same PSN",
        "One retry is what a single lost packet causes; senders try up to 7 times";
    retries_exhausted: u64 = 7,
        "retries in a row after which a sender has given up",
        "retry_cnt has three bits: no more than 7 retries follow the first transmission";
    silent_timeouts: u64 = 4,
        "silence after the last retry, in units of the longest timeout before it",
        "Back-off doubles a timeout at most; a sender that still retries is back by then";
    silent_ms: u64 = 70,
        "minimum silence in the middle of a message, in milliseconds",
        "A NIC sends a message without pauses: at the lowest rate of DCQCN (1 Mbit/s) a packet of 4 KB every 33 ms; a PFC pause would stop the siblings too. The shortest transport timer that libraries set expires after 67 ms";
    siblings_packets: u64 = 100,
        "minimum packets of requests or READ responses that other flows of the sender carry meanwhile",
        "Shows that host and path work, and that the capture goes on";
}

/// A dead queue pair.
struct DeadQp<'a> {
    flow: &'a Flow,
    cause: String,
    /// Time of its last packet.
    last_ns: u64,
    /// Last PSN that it sent.
    last_psn: Option<u32>,
    /// Time at which another connection reused its number.
    until_ns: Option<u64>,
    acked: Option<u32>,
    message: Option<String>,
    retries: u64,
    /// It stopped in the middle of a message, which may be one of its READ responses.
    stopped: bool,
    responds: bool,
    /// Packets of its siblings since; computed only for the first queue pair that stopped in mid-message.
    siblings: Option<u64>,
}

impl<'a> DeadQp<'a> {
    /// Without a reason yet.
    const fn of(flow: &'a Flow) -> Self {
        Self {
            flow,
            cause: String::new(),
            last_ns: flow.last_ns,
            last_psn: None,
            until_ns: None,
            acked: None,
            message: None,
            retries: 0,
            stopped: false,
            responds: false,
            siblings: None,
        }
    }
}

/// True if a PSN is equal to another one or after it in the sequence.
pub(super) fn is_at_or_after(psn: u32, other: u32, of: &Psn) -> bool {
    let before = of.first.wrapping_sub(PSN_WINDOW);
    psn_distance(before, psn) >= psn_distance(before, other)
}

/// The latest PSN of the flow that the peer acknowledged.
pub(super) fn acked(input: &Input<'_>, loss: &Loss, flow: &Flow) -> Option<u32> {
    let psn = flow.psn.get()?;
    let before = psn.first.wrapping_sub(PSN_WINDOW);
    let place = |psn: u32| psn_distance(before, psn);
    let acked = |other: &Flow| loss.ack_state(other.slot).acknowledged();
    let sent = |answer: &u32| place(*answer) < place(psn.expected);
    let latest = |answers: &mut dyn Iterator<Item = &Flow>| {
        answers.filter_map(acked).filter(sent).max_by_key(|answer| place(*answer))
    };
    match flow.peer_qp {
        Some(qp) => latest(&mut input.facts.to_qp(flow.dst, flow.src, qp)),
        None => latest(&mut input.facts.between(flow.dst, flow.src)),
    }
}

/// True if it is a READ that is retried.
pub(super) fn is_read(loss: &Loss, flow: &Flow) -> bool {
    let opcode = loss.flow(flow.slot).requests.and_then(|requests| requests.stuck_opcode);
    opcode.is_some_and(|opcode| Op::of(opcode).has(Op::READ_REQUEST))
}

/// The READ that a flow repeats in vain although its responses pass this tap, by its PSN.
pub(super) fn read_in_vain(input: &Input<'_>, loss: &Loss, flow: &Flow) -> Option<u32> {
    let requests = loss.flow(flow.slot).requests.filter(Metrics::is_retried_in_vain)?;
    let (psn, acked) = (flow.psn.get()?, acked(input, loss, flow)?);
    requests.stuck_psn.filter(|stuck| is_read(loss, flow) && is_at_or_after(acked, *stuck, &psn))
}

/// The message that its sender retries, by the packet it goes back to; with its length, where that packet says it.
fn in_progress(opcode: u8, bytes: Option<u32>) -> Option<String> {
    let op = Op::of(opcode);
    let kind = match opcode & 0x1F {
        _ if !op.has(Op::REQUEST) => return None,
        0x00..=0x05 | 0x16 | 0x17 => "SEND",
        0x06..=0x0B => "RDMA WRITE",
        0x0C => "RDMA READ",
        _ => "atomic",
    };
    Some(bytes.map_or_else(|| kind.to_owned(), |bytes| format!("{kind} of {}", units::bytes(bytes.into()))))
}

/// A fatal NAK for requests of a flow.
fn fatal_nak(input: &Input<'_>, flow: &Flow) -> Option<&'static str> {
    input.facts.back(flow).find_map(fatal_nak_in)
}

/// A fatal NAK that a flow carries.
fn fatal_nak_in(flow: &Flow) -> Option<&'static str> {
    let naks = &flow.ack.naks;
    [
        (naks.remote_access_error, "remote access error NAK"),
        (naks.remote_operational_error, "remote operational error NAK"),
        (naks.invalid_request, "invalid request NAK"),
        (naks.invalid_rd_request, "invalid RD request NAK"),
    ]
    .into_iter()
    .find_map(|(count, name)| (count > 0).then_some(name))
}

/// Decides whether and how a flow died.
fn died<'a>(
    input: &Input<'a>,
    loss: &Loss,
    siblings: &Siblings<'_>,
    flow: &'a Flow,
    end_ns: u64,
) -> Option<DeadQp<'a>> {
    let limits = &input.limits.qp;
    let silent_ns = end_ns.saturating_sub(flow.last_ns);
    let metrics = flow.loss.get()?;
    let (retries, longest) = (metrics.stuck.or_zero(), metrics.timeout_longest_ns.unwrap_or(0));
    // Most flows do neither, and looking for their answers takes long.
    if retries < limits.retries.max(1) && !stopped::is_long(input, silent_ns) {
        return None;
    }
    let acked = acked(input, loss, flow)?;
    // Next to the responder its responses pass, and do not arrive. After fewer repetitions the last may have arrived.
    let is_exhausted = retries >= limits.retries_exhausted;
    let in_vain = is_exhausted.then(|| read_in_vain(input, loss, flow)).flatten();
    let acked = Some(in_vain.map_or(acked, |stuck| stuck.wrapping_sub(1) & MASK24));
    let given_up = || {
        is_exhausted
            || longest > 0 && silent_ns >= longest.saturating_mul(limits.silent_timeouts)
            || is_ended(input, flow)
    };
    let last_psn = flow.psn.get().map(|psn| psn.expected.wrapping_sub(1) & MASK24);
    let open = last_psn.is_some() && acked != last_psn;
    let dead = DeadQp { last_psn, acked, retries, ..DeadQp::of(flow) };
    if retries >= limits.retries.max(1) && open && given_up() && !was_answered(input, loss, flow) {
        let cause = fatal_nak(input, flow).unwrap_or("retries exhausted").to_owned();
        let requests = loss.flow(flow.slot).requests.unwrap_or_default();
        let message = requests.stuck_opcode.and_then(|opcode| in_progress(opcode, requests.stuck_bytes));
        return Some(DeadQp { cause, message, ..dead });
    }
    stopped::requests(input, (loss, siblings), flow, &dead, end_ns)
}

/// True in a live run if the peer acknowledged something after the last request. The kernel programs do not store
/// which PSN; it may be the last, after which nothing is left to send. A NAK does not count.
fn was_answered(input: &Input<'_>, loss: &Loss, flow: &Flow) -> bool {
    let Some(peer) = flow.peer_qp.filter(|_| input.sample.kind == SourceKind::Live) else { return false };
    let by_nak = |other: &Flow| {
        let naks = loss.naks.get(&other.slot);
        let tallies = naks.into_iter().flat_map(|naks| naks.codes.iter().chain([&naks.rnr]));
        tallies.into_iter().any(|tally| tally.count > 0 && tally.last_ns + CLOCKS_NS >= other.last_ns)
    };
    // If the flow has requests of its own, its last packet may be one of them.
    input.facts.to_qp(flow.dst, flow.src, peer).any(|other| {
        let pure = other.link == flow.link && other.psn.is_none();
        pure && other.last_ns >= flow.last_ns && !by_nak(other)
    })
}

/// True if the sending queue pair was destroyed after its last packet or is about to be: its host has requested a
/// disconnect, or the kernel's control path shows it.
fn is_ended(input: &Input<'_>, flow: &Flow) -> bool {
    let is_later = |time_ns: u64| time_ns >= flow.last_ns;
    let direction = |key: &PeerKey| {
        let ends = (address(key.family, key.src), address(key.family, key.dst), key.dest_qp);
        ends == (flow.src, flow.dst, flow.dest_qp)
    };
    let setups = input.sample.metrics.setups.as_ref();
    let mut asked = setups.into_iter().flat_map(|setups| &setups.ended);
    let mut known = input.facts.devices.iter().flat_map(Device::every_qp);
    asked.any(|(key, time_ns)| is_later(*time_ns) && direction(key))
        || known.any(|qp| {
            let ends = (qp.control.src.map(Into::into), qp.control.dst.map(Into::into), qp.rqpn);
            qp.control.ended_ns.is_some_and(is_later)
                && ends == (Some(flow.src), Some(flow.dst), Some(flow.dest_qp))
        })
}

/// The death of the previous connection on a reused queue pair number.
fn died_before<'a>(input: &Input<'a>, loss: &Loss, flow: &'a Flow) -> Option<DeadQp<'a>> {
    let given_up = loss.flow(flow.slot).given_up?;
    (given_up.retries >= input.limits.qp.retries.max(1)).then(|| DeadQp {
        cause: "retries exhausted".to_owned(),
        last_ns: given_up.last_ns,
        last_psn: Some(given_up.last_psn),
        until_ns: Some(given_up.until_ns),
        // The requester goes back to the oldest unacknowledged PSN.
        acked: Some(given_up.psn.wrapping_sub(1) & MASK24),
        message: in_progress(given_up.opcode, given_up.bytes),
        retries: given_up.retries,
        ..DeadQp::of(flow)
    })
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let dead = by_packets(input);
    raise(input, &dead, found);
    device::check(input, &dead, found);
}

fn by_packets<'a>(input: &Input<'a>) -> Vec<DeadQp<'a>> {
    let (Some(loss), Some(end_ns)) = (&input.sample.metrics.loss, input.facts.window.last_ns) else {
        return Vec::new();
    };
    let reliable = input.facts.flows.iter().filter(|flow| !flow.is_uc());
    let siblings = Siblings::of(&input.facts.flows);
    let requests =
        |flow| died(input, loss, &siblings, flow, end_ns).or_else(|| died_before(input, loss, flow));
    let responses = |flow| stopped::responses(input, (loss, &siblings), flow, end_ns);
    let of_flow = |flow: &'a Flow| {
        let asks = flow.psn.is_some().then(|| requests(flow)).flatten();
        asks.or_else(|| responses(flow))
    };
    let mut dead: Vec<DeadQp<'_>> = reliable.filter_map(of_flow).collect();
    // Only for the first to stop, since counting for each of many would take long.
    if let Some(first) = dead.iter_mut().min_by_key(|one| one.last_ns)
        && first.stopped
    {
        let silent_ns = end_ns.saturating_sub(first.flow.last_ns);
        first.siblings = Some(siblings.since(first.flow, silent_ns, u64::MAX));
    }
    dead
}

fn raise(input: &Input<'_>, dead: &[DeadQp<'_>], found: &mut Vec<Finding>) {
    // The first queue pair to stop may be why the others did.
    let Some(first) = dead.iter().min_by_key(|one| one.last_ns) else { return };
    let until_ns = first.until_ns.or(input.facts.window.last_ns).unwrap_or(0);
    let silent_ns = until_ns.saturating_sub(first.last_ns);
    let others = dedup::count(dead.iter().map(|one| one.flow)).saturating_sub(1);
    let diagnosis = format!("QP {} died: {}", first.flow.dest_qp, first.cause);
    let parts = [pair(first.flow.src, first.flow.dst), more(others, "QP")];
    let ends = if first.responds { ends::of_answers } else { ends::of_data };
    let (requester, responder) = ends(input, [first.flow]);
    let own = Commands::near(input, first.flow, first.flow.src);
    let mut by_time: Vec<&DeadQp<'_>> = dead.iter().collect();
    by_time.sort_by_key(|one| one.last_ns);
    let flows: Vec<&Flow> = by_time.iter().map(|one| one.flow).collect();
    let own_qps = by_time.iter().filter_map(|one| own_qp(input, one.flow));
    let raise = Raise::new(&DIED, Severity::Critical, title(diagnosis, parts))
        .queue_pairs(own_qps.flat_map(|(device, qp)| LocalQp::all(device, [qp])).collect());
    with_settings(raise, own_qp(input, first.flow).map(|(_, qp)| qp))
        .evidence("cause", first.cause.as_str())
        // The kernel programs store that there were ACKs and the time of the requests, not their PSNs.
        .evidence("last_acked_psn", first.acked.filter(|_| input.sample.kind == SourceKind::Replay))
        .evidence("last_sent_psn", first.last_psn)
        .evidence("message", first.message.as_deref())
        .evidence("retries", first.retries)
        .evidence("silent_ns", silent_ns)
        .evidence("siblings_packets", first.siblings)
        .flows(flows)
        .place(Place::of(input, first.flow))
        .ends(requester, responder)
        .impact(Impact { time_lost_ns: Some(silent_ns), ..Impact::default() })
        .owns(&[ids::RETRY_TIMEOUTS])
        .step(LIST, own.queue_pairs())
        .step(
            read_log("the process", &format!(", on {} and {}", first.flow.src, first.flow.dst)),
            ByHand::Job,
        )
        .step(
            reachable(first.flow.dst, &first.flow.src.to_string()),
            Commands::at(input, first.flow, first.flow.src).ping(first.flow.dst),
        )
        .step(PATH, ByHand::Switch)
        .episodes(since(input, silent_ns))
        .last_seen(input.facts.window.last_ns)
        .into(found);
}

/// First step.
const LIST: &str = "List the queue pairs in the error state with their processes.";
/// Last step.
const PATH: &str = "Look for link flaps, route changes and drops on the path at that time.";

fn read_log(process: &str, on: &str) -> String {
    format!("Read the log of {process} for a work completion with error{on}.")
}

fn reachable(peer: impl std::fmt::Display, from: &str) -> String {
    format!("Check that {peer} is reachable from {from}.")
}

/// The sending queue pair of a flow and its device, where this host's kernel knows it.
fn own_qp<'a>(input: &Input<'a>, flow: &Flow) -> Option<(&'a Device, &'a DeviceQp)> {
    let ends = (Some(flow.src), Some(flow.dst), Some(flow.dest_qp));
    let of = |qp: &DeviceQp| (qp.control.src.map(Into::into), qp.control.dst.map(Into::into), qp.rqpn);
    let all = input.facts.devices.iter().flat_map(|device| device.every_qp().map(move |qp| (device, qp)));
    all.rev().find(|(_, qp)| of(qp) == ends)
}

/// Adds path and settings of the queue pair.
fn with_settings(raise: Raise, qp: Option<&DeviceQp>) -> Raise {
    let Some(qp) = qp else { return raise };
    raise
        .evidence("lqpn", qp.lqpn)
        .evidence("rqpn", qp.rqpn)
        .evidence("udp_port", qp.control.udp_port)
        .evidence("dscp", qp.control.dscp)
        .evidence("timeout_ns", qp.control.timeout_ns)
        .evidence("retry_cnt", qp.control.retry_cnt)
        .evidence("rnr_retry", qp.control.rnr_retry)
}

/// From its beginning to the end of the data.
fn since(input: &Input<'_>, silent_ns: u64) -> Vec<Episode> {
    let end_ns = input.facts.window.last_ns;
    let episode = |last_ns: u64| Episode { first_ns: last_ns.saturating_sub(silent_ns), last_ns, peak: None };
    end_ns.map(episode).into_iter().collect()
}
