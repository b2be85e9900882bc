//! Requests that a responder rejected with a fatal NAK.

use rocescope_common::wire::opcode::Operation;

use super::ends;
use crate::analysis::{Flow, LastNaks, Naks};
use crate::findings::dedup::deduplicated;
use crate::findings::ids;
use crate::findings::period::{Evaluated, Period, latest, run, scaled, timed};
use crate::findings::title::{more, pair, title};
use crate::findings::{
    ByHand, Commands, End, Entry, Episode, Family, Finding, Hop, Input, Place, Problem, Raise, Severity,
    Unit, label,
};
use crate::metrics::loss::signal_intervals::Signal;
use crate::sample::{Address, UntimedCounter};
use crate::util::map::Set;
use crate::util::units::plural;

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[ACCESS, OPERATIONAL, INVALID, SEQUENCE],
    limits: &[Limits::META],
    evidence: &[label("naks", "NAKs", Unit::Count).summed(), label("host_pairs", "host pairs", Unit::Count)],
    check,
};

pub(in crate::findings) const ACCESS: Entry = Entry {
    id: ids::NAK_REMOTE_ACCESS_ERROR,
    of_queue_pairs: true,
    rank: 160,
    grows: Some(UntimedCounter::AccessError),
    title: "Remote access error: a responder denies access to its memory",
    meaning: "A request named a remote key or an address that the responder does not grant. The queue pair goes into the error state: the job that uses it ends or hangs.",
    computed: "Raised from `nak.errors` NAKs with code 2 (remote access error) on; critical, since no connection survives one.",
    advice: "The application causes this, not the network: a region that was deregistered too early, a wrong remote key, an access beyond the end, a missing permission \
             (IBV_ACCESS_REMOTE_WRITE/READ), or a peer that restarted and still gets requests for its former registrations. Look at the logs of the process that owns the responder's queue pair.",
    caveat: "",
    ..Entry::of(Problem::Refused)
};
pub(in crate::findings) const OPERATIONAL: Entry = Entry {
    id: ids::NAK_REMOTE_OPERATIONAL_ERROR,
    of_queue_pairs: true,
    rank: 170,
    grows: Some(UntimedCounter::OperationalError),
    title: "Remote operational error: a responder failed to execute a request",
    meaning: "The responder could not execute a request: its device hit an error of its own, or a message was longer than the receive buffer posted for it (drivers answer that with this code or with invalid request). The queue pair goes into the error state.",
    computed: "Raised from `nak.errors` NAKs with code 3 (remote operational error) on; critical.",
    advice: "First compare the length of the message with the posted receive buffers: the responder then reports a completion with a local length error. Else look at the responder's kernel log and firmware events (`dmesg`, `devlink health`), PCIe errors (AER) and memory errors; with GPU memory also at the GPU's (Xid events) and at \
             the peer-memory driver.",
    caveat: "",
    ..Entry::of(Problem::Refused)
};
pub(in crate::findings) const INVALID: Entry = Entry {
    id: ids::NAK_INVALID_REQUEST,
    of_queue_pairs: true,
    rank: 180,
    grows: Some(UntimedCounter::InvalidRequest),
    title: "Invalid request: a responder rejects a request",
    meaning: "The responder does not understand the request, or does not permit it at all: an operation that is not enabled for the queue pair, a message longer than its receive buffer, too \
              many READs or atomics at a time. The queue pair goes into the error state.",
    computed: "Raised from `nak.errors` NAKs with code 1 (invalid request) on; critical. Codes that a responder of RC does not send point at a device that corrupts, or at a faulty responder: 4 (invalid RD request) is critical, a reserved one a warning.",
    advice: "Compare the two ends' settings: path MTU, max_dest_rd_atomic against max_rd_atomic, the queue pair's access flags, the sizes of posted receive buffers, versions of library and \
             application.",
    caveat: "",
    ..Entry::of(Problem::Refused)
};

const SEQUENCE: Entry = Entry {
    id: "nak.psn_sequence_error",
    rank: 250,
    causes: &[ids::RNR_SLOW_RECEIVER],
    title: "Sequence-error NAKs for requests not visible at this tap",
    meaning: "Sequence-error NAKs are visible here, but the requests that they answer take another path: receivers missed packets or got them out of order. Loss and its place are not visible here.",
    computed: "Per host pair: NAKs with code 0 (PSN sequence error) from a host to which the other sends no requests at any tap. Info from loss.episodes of them on. As many as there are RNR NAKs in the same flow do not count: a receiver that was not ready also NAKs what follows. At taps that the requests pass, the findings loss.* decide. Figures are those of the latest episode ({EPISODE_GAP_NS} without the signal end one), over {LEAST_NS} at least.",
    advice: "Capture where the requests pass, or both directions of the mirror port: the loss findings then show on which side of the tap packets are lost. On hosts with several uplinks, watch all of them.",
    caveat: "A receiver sends one NAK for all packets it misses at a time: the number of lost packets is not known.",
    ..Entry::of(Problem::Loss)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "nak";
    errors: u64 = 1,
        "minimum NAKs of one kind",
        "Each of them ends a connection";
}

/// A kind of fatal NAK: entry, code, diagnosis, and its counter.
struct FatalNak {
    entry: &'static Entry,
    code: u8,
    diagnosis: &'static str,
    count: fn(&Naks) -> u64,
    last: fn(&LastNaks) -> Option<u64>,
}

const KINDS: [FatalNak; 5] = [
    FatalNak {
        entry: &ACCESS,
        code: 2,
        diagnosis: "Remote access error NAK",
        count: |naks| naks.remote_access_error,
        last: |last| last.remote_access_error,
    },
    FatalNak {
        entry: &OPERATIONAL,
        code: 3,
        diagnosis: "Remote operational error NAK",
        count: |naks| naks.remote_operational_error,
        last: |last| last.remote_operational_error,
    },
    FatalNak {
        entry: &INVALID,
        code: 1,
        diagnosis: "Invalid request NAK",
        count: |naks| naks.invalid_request,
        last: |last| last.invalid_request,
    },
    FatalNak {
        entry: &INVALID,
        code: 4,
        diagnosis: "Invalid RD request NAK",
        count: |naks| naks.invalid_rd_request,
        last: |last| last.invalid_rd_request,
    },
    FatalNak {
        entry: &INVALID,
        // All from 5 on: a requester may drop these.
        code: 5,
        diagnosis: "NAK with a reserved code",
        count: |naks| naks.reserved,
        last: |last| last.reserved,
    },
];

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    // Nearly no flow has any.
    let carriers: Vec<&Flow> = input.facts.flows.iter().filter(|flow| flow.ack.naks.total() > 0).collect();
    for kind in &KINDS {
        refused(input, &carriers, kind, found);
    }
    naks_for_unseen_requests(input, &carriers, found);
}

/// Requests that a responder rejected with a fatal NAK.
fn refused(input: &Input<'_>, carriers: &[&Flow], kind: &FatalNak, found: &mut Vec<Finding>) {
    let signal = Signal::OtherNak(kind.code);
    let all: Vec<&Flow> = deduplicated(carriers.iter().copied(), |flow| (kind.count)(&flow.naks_dedup()))
        .into_iter()
        .map(|(flow, _)| flow)
        .collect();
    let least = input.limits.nak.errors.max(1);
    let judge = |period: &Period| {
        let flows = deduplicated(all.iter().copied(), |flow| {
            period.count(flow, signal, (kind.count)(&flow.naks_dedup()))
        });
        let naks: u64 = flows.iter().map(|(_, naks)| naks).sum();
        (naks >= least).then_some(((flows, naks), Some(naks as f64)))
    };
    let periods = timed(&all, signal, |flow| (kind.count)(&flow.naks_dedup()));
    let Some(judged) = latest(&periods, run(all.iter().copied()), judge) else { return };
    let (flows, naks) = &judged.what;
    let Some((worst, _)) = flows.first() else { return };
    let (requester, responder) = ends::of_answers(input, flows.iter().map(|(flow, _)| *flow));
    let diagnosis = format!("{} from {} to {} QP {}", kind.diagnosis, worst.src, worst.dst, worst.dest_qp);
    let more = more(flows.len() as u64 - 1, "QP");
    let times = if *naks > 1 { format!(": {}", plural(*naks, "time")) } else { String::new() };
    let severity = if kind.code == 5 { Severity::Warning } else { Severity::Critical };
    let raise = Raise::new(kind.entry, severity, title(diagnosis, [times, more]))
        .evidence("naks", *naks)
        .last_seen(latest_nak(&all, kind.last))
        .flows(ends::flows_at_fault(input, flows.iter().map(|(flow, _)| *flow)))
        .place(Place::of(input, worst).hop(Hop::Responder))
        .episodes(episodes_of(&judged, &all, kind.last));
    refusal_steps(input, raise, kind, requester.as_ref(), responder.as_ref(), worst)
        .ends(requester, responder)
        .into(found);
}

fn refusal_steps(
    input: &Input<'_>,
    raise: Raise,
    kind: &FatalNak,
    requester: Option<&End>,
    responder: Option<&End>,
    worst: &Flow,
) -> Raise {
    if kind.code > 3 {
        return raise.step(
            "Capture at the responder: if it does not send this NAK, a device on the path changes it; else update the firmware of its NIC.",
            ByHand::Job,
        );
    }
    let owner = requester.and_then(End::owner).map_or_else(String::new, |owner| format!(" ({owner})"));
    let refuses = responder.map_or_else(|| "unknown".to_owned(), ToString::to_string);
    let whose = if kind.code == 2 { "The application causes this, not the network: read " } else { "Read " };
    let there = Commands::at(input, worst, worst.dst);
    let raise = raise
        .step(
            format!(
                "Find the requester's QP {} on {}, in the error state, and its process{owner}.",
                worst.dest_qp, worst.dst
            ),
            there.queue_pairs_of(Some(worst.dest_qp)),
        )
        .step(format!("{whose}the log of the process on the responder, {refuses}."), ByHand::Job);
    let sends = requests_have_sends(input, worst);
    let lengths = if kind.code == 3 { sends != Some(false) } else { kind.code == 1 && sends == Some(true) };
    let raise = if lengths {
        raise.step(
            "Compare the length of the message with the receive buffers that the responder posts.",
            ByHand::Job,
        )
    } else {
        raise
    };
    match kind.code {
        2 => raise.step("Compare rkey, address, length and access flags of the request with the registered memory region.", ByHand::Job),
        3 => raise.step("Check the responder's kernel log for PCIe, memory and GPU (Xid) errors.", Commands::at(input, worst, worst.src).kernel_log()),
        _ => raise.step("Compare path MTU, max_rd_atomic and max_dest_rd_atomic, access flags and receive buffer sizes of both ends.", ByHand::Job),
    }
}

/// True if SENDs, for which the responder posts receives, are among the requests that these answers are for; `None`
/// where the requests are not visible.
fn requests_have_sends(input: &Input<'_>, answers: &Flow) -> Option<bool> {
    let mut requests = input.facts.requests_answered_by(answers).peekable();
    requests.peek()?;
    let mut opcodes = requests.flat_map(|flow| flow.opcodes.iter());
    Some(opcodes.any(|opcode| Operation::of(opcode.code) == Operation::Send))
}

/// Sequence-error NAKs for requests that no tap sees.
fn naks_for_unseen_requests(input: &Input<'_>, carriers: &[&Flow], found: &mut Vec<Finding>) {
    let facts = input.facts;
    let unexplained = carriers.iter().filter(|flow| facts.nak_causes(flow).unknown > 0);
    let unexplained: Vec<&Flow> = unexplained.copied().collect();
    if unexplained.is_empty() {
        return;
    }
    let passes: Set<(Address, Address)> =
        facts.flows.iter().filter(|flow| flow.psn.is_some()).map(|flow| (flow.src, flow.dst)).collect();
    let unseen = unexplained.into_iter().filter(|flow| !passes.contains(&(flow.dst, flow.src)));
    let all = deduplicated(unseen, |flow| facts.nak_causes(flow).unknown);
    let all: Vec<&Flow> = all.into_iter().map(|(flow, _)| flow).collect();
    let counted = |flow: &Flow| flow.naks_dedup().psn_sequence_error;
    // The cause is known per flow, not per NAK: the flow's share of unexplained NAKs is applied to those in the period.
    let unknown = |flow: &Flow, period: &Period| {
        let all = facts.nak_causes(flow).unknown;
        scaled(period.count(flow, Signal::SequenceNak, counted(flow)), all, counted(flow))
    };
    let least = input.limits.loss.episodes.max(1);
    let judge = |period: &Period| {
        let flows = deduplicated(all.iter().copied(), |flow| unknown(flow, period));
        let naks: u64 = flows.iter().map(|(_, naks)| naks).sum();
        (naks >= least).then_some(((flows, naks), Some(naks as f64)))
    };
    let periods = timed(&all, Signal::SequenceNak, counted);
    let Some(judged) = latest(&periods, run(all.iter().copied()), judge) else { return };
    let (flows, naks) = &judged.what;
    let Some((most, _)) = flows.first() else { return };
    let hosts = flows.iter().map(|(flow, _)| (flow.src, flow.dst)).collect::<Set<_>>().len();
    let (requester, responder) = ends::of_answers(input, flows.iter().map(|(flow, _)| *flow));
    let diagnosis = format!("{} for requests not visible here", plural(*naks, "sequence-error NAK"));
    let parts = [pair(most.src, most.dst), more(hosts as u64 - 1, "host pair")];
    Raise::new(&SEQUENCE, Severity::Info, title(diagnosis, parts))
        .evidence("naks", *naks)
        .host_pairs(hosts)
        .last_seen(latest_nak(&all, |last| last.psn_sequence_error))
        .flows(flows.iter().map(|(flow, _)| *flow))
        .place(Place::of(input, most))
        .ends(requester, responder)
        .step(
            format!(
                "Capture where requests from {} to {} pass, or both directions of the mirror port.",
                most.dst, most.src
            ),
            ByHand::Elsewhere,
        )
        .step("Check port discards of both hosts.", Commands::at(input, most, most.dst).nic_counters())
        .episodes(episodes_of(&judged, &all, |last| last.psn_sequence_error))
        .into(found);
}

/// The evaluated episodes; none if no NAK has a known time.
pub(super) fn episodes_of<T>(
    judged: &Evaluated<T>,
    flows: &[&Flow],
    last: fn(&LastNaks) -> Option<u64>,
) -> Vec<Episode> {
    let known = judged.episodes.len() > 1
        || !judged.period.is_whole()
        || flows.iter().any(|flow| !flow.intervals.is_empty());
    if known && latest_nak(flows, last).is_some() { judged.episodes.clone() } else { Vec::new() }
}

/// Time of the latest NAK in any of these flows; `None` if it is unknown for one of them.
pub(super) fn latest_nak(flows: &[&Flow], last: fn(&LastNaks) -> Option<u64>) -> Option<u64> {
    let each = flows.iter().map(|flow| flow.last_naks_ns.get().as_ref().and_then(last));
    each.collect::<Option<Vec<u64>>>()?.into_iter().max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Options;
    use crate::analysis::fixtures::{key, link, sample, stats};
    use crate::findings::tests::found;
    use crate::sample::PeerKey;

    #[test]
    fn several_naks_of_a_queue_pair_say_that_they_are_times() {
        let title = |naks| {
            let mut answers = stats(50_001, 100, 6_200);
            (answers.psn.seen, answers.opcodes) = (0, [(0x11, 100)].into());
            answers.rare.naks[2] = naks;
            let flows = vec![(key(0, "10.0.0.2", "10.0.0.1", 18), answers)];
            let all = found(&sample(vec![link("eth0", None)], flows), &Options::default());
            all.into_iter().find(|one| one.id == "nak.remote_access_error").unwrap().title
        };
        assert_eq!(title(1), "Remote access error NAK from 10.0.0.2 to 10.0.0.1 QP 18");
        assert_eq!(title(2), "Remote access error NAK from 10.0.0.2 to 10.0.0.1 QP 18: 2 times");
    }

    #[test]
    fn a_step_names_the_host_that_it_is_for_once() {
        for (id, code) in [(INVALID.id, 1), (OPERATIONAL.id, 3)] {
            let steps = steps(id, code, Some(0x04));
            let first = steps.lines().next().unwrap();
            assert_eq!(first, "Find the requester's QP 18 on 10.0.0.1, in the error state, and its process.");
        }
    }

    #[test]
    fn codes_that_no_responder_of_rc_sends_are_found() {
        let found = |code: usize| {
            let mut answers = stats(50_001, 100, 6_200);
            (answers.psn.seen, answers.opcodes) = (0, [(0x11, 100)].into());
            answers.rare.naks[code] = 1;
            let flows = vec![(key(0, "10.0.0.2", "10.0.0.1", 18), answers)];
            let all = found(&sample(vec![link("eth0", None)], flows), &Options::default());
            all.into_iter().find(|one| one.id == INVALID.id).map(|one| (one.severity, one.title)).unwrap()
        };
        let title = |what: &str| format!("{what} from 10.0.0.2 to 10.0.0.1 QP 18");
        assert_eq!(found(4), (Severity::Critical, title("Invalid RD request NAK")));
        assert_eq!(found(5), (Severity::Warning, title("NAK with a reserved code")));
    }

    #[test]
    fn as_many_naks_as_there_are_rnr_naks_are_no_loss() {
        let title = |rnr_naks| {
            let mut answers = stats(50_001, 100, 6_200);
            (answers.psn.seen, answers.opcodes) = (0, [(0x11, 100)].into());
            (answers.rare.naks[0], answers.rare.rnr_naks) = (8, rnr_naks);
            let flows = vec![(key(0, "10.0.0.2", "10.0.0.1", 18), answers)];
            let all = found(&sample(vec![link("eth0", None)], flows), &Options::default());
            all.into_iter().find(|one| one.id == SEQUENCE.id).map(|one| one.title)
        };
        assert!(title(3).unwrap().starts_with("5 sequence-error NAKs for requests not visible here"));
        assert_eq!(title(4), None, "below loss.episodes");
    }

    /// The steps about a fatal NAK with this code for a request with this opcode; `None`: the requests are not
    /// captured.
    fn steps(id: &str, code: usize, opcode: Option<u8>) -> String {
        let mut requests = stats(50_000, 100, 100_000);
        requests.opcodes = [(opcode.unwrap_or(0), 100)].into();
        let mut answers = stats(50_001, 100, 6_200);
        (answers.psn.seen, answers.opcodes) = (0, [(0x11, 100)].into());
        answers.rare.naks[code] = 1;
        let mut flows = vec![(key(0, "10.0.0.2", "10.0.0.1", 18), answers)];
        if opcode.is_some() {
            flows.push((key(0, "10.0.0.1", "10.0.0.2", 17), requests));
        }
        let mut sample = sample(vec![link("eth0", None)], flows);
        for flow in &sample.flows {
            sample.peers.insert(PeerKey::of(&flow.key), if flow.key.dest_qp == 17 { 18 } else { 17 });
        }
        let all = found(&sample, &Options::default());
        let found = all.iter().find(|one| one.id == id).unwrap();
        assert!(found.advice.contains("posted receive buffers"), "{}", found.advice);
        found.steps.iter().map(|step| step.text.as_str()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_posted_receive_is_compared_where_the_requests_are_sends() {
        const COMPARE: &str = "the length of the message with the receive buffers";
        const SEND: Option<u8> = Some(0x04);
        const WRITE: Option<u8> = Some(0x0A);
        for (entry, code) in [(&OPERATIONAL, 3), (&INVALID, 1)] {
            assert!(steps(entry.id, code, SEND).contains(COMPARE), "{}", entry.id);
            // A WRITE needs no receive.
            assert!(!steps(entry.id, code, WRITE).contains(COMPARE), "{}", entry.id);
        }
        assert!(steps(OPERATIONAL.id, 3, None).contains(COMPARE));
        assert!(!steps(INVALID.id, 1, None).contains(COMPARE));
    }
}
