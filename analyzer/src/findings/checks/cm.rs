//! Connections that were rejected, or whose requests were not answered.

use rocescope_common::wire::cm;

use super::ends;
use crate::analysis::Flow;
use crate::findings::command::{Means, ethernet};
use crate::findings::title::{self, more, pair, title};
use crate::findings::{
    ByHand, Commands, End, Entry, Episode, Family, Finding, Hop, Input, Place, Problem, Raise, RequiredData,
    Severity, Unit, label,
};
use crate::metrics::setups::{Outcome, Row, SetupEnds, SetupKind};
use crate::sample::{Address, address};
use crate::util::time::NS_PER_S;
use crate::util::units::plural;

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[REJECTED],
    limits: &[Limits::META],
    evidence: &[
        label("reason", "reason", Unit::Text),
        label("reason_code", "reason code of the REJ", Unit::Id),
        label("status", "status of the SIDR_REP", Unit::Id),
        label("service", "service", Unit::Text),
        label("setups", "failed set-ups with this reason", Unit::Count).summed(),
        label("accepted", "set-ups accepted, same hosts and service", Unit::Count).summed(),
        label("requests", "requests sent for one set-up", Unit::Count),
        label("host_pairs", "host pairs", Unit::Count),
    ],
    check,
};

const REJECTED: Entry = Entry {
    id: "cm.rejected",
    rank: 168,
    needs: &[RequiredData::Pairs],
    title: "Connection rejected, or not answered",
    meaning: "A host requested a connection (REQ of the connection manager) and was refused (REJ, with a reason), or repeated the request without an answer. The queue pair is never connected: the application fails, \
              or tries again. The same for SIDR_REQ, the request for the datagram queue pair of a service, which a SIDR_REP refuses.",
    computed: "From connection management on QP 1, per pair of hosts, service ID and reason. Rejected: a REJ answers the request, or the requester rejects the reply (its REJ without an \
               ID of the peer says that it waits no longer, and rejects nothing); or a SIDR_REP has a status other than success.\n\
               \n\
               Not answered: neither REP nor REJ nor MRA (which asks for more time) nor SIDR_REP for a request sent `cm.requests` times, or waiting for `cm.wait_s`, at a tap that shows \
               other RoCE packets to the requester, with no new flow from the peer since. A warning; info where a later set-up between the same hosts for the same service was accepted.",
    advice: "Invalid service ID: no process listens on that port of the peer, or it listens on another address. Refused by the application: read its log. Stale connection: the peer still has the queue pair of an \
             earlier connection; it goes away after its timewait. <eth>No answer: routes, ARP and GIDs of the peer, and filters of UDP port 4791; CM datagrams use QP 1 and the same port as data.</eth>",
    caveat: "NCCL, MPI and perftest (without -R) exchange queue pairs over TCP: their set-ups are not visible here.",
    ..Entry::of(Problem::Silent)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "cm";
    requests: u64 = 3,
        "minimum requests for one set-up without an answer",
        "A single repetition is what a lost datagram causes; the CM of Linux sends up to 16";
    wait_s: u64 = 10,
        "time without an answer, in seconds, after which fewer requests suffice",
        "The CM timeout of Linux is 4.3 s: the second request should have been answered as well";
}

/// Failed set-ups of one kind.
struct Failed<'a> {
    between: &'a SetupEnds,
    row: &'a Row,
    from: Address,
    to: Address,
    /// Accepted set-ups between the same hosts for the same service.
    accepted: u64,
    /// Some set-ups were accepted after the failure.
    recovered: bool,
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let Some(setups) = &input.sample.metrics.setups else { return };
    let of_rows = setups.rows.iter().filter_map(|(between, row)| failed(input, between, row));
    let (silent, refused): (Vec<_>, Vec<_>) =
        of_rows.partition(|failed| failed.between.outcome == Outcome::Unanswered);
    for mut all in [refused, silent] {
        all.sort_by_key(|failed| (failed.recovered, std::cmp::Reverse(failed.row.setups)));
        if let Some((worst, others)) = all.split_first() {
            raise(input, worst, others, found);
        }
    }
}

fn failed<'a>(input: &Input<'_>, between: &'a SetupEnds, row: &'a Row) -> Option<Failed<'a>> {
    let setups = input.sample.metrics.setups.as_ref()?;
    let of_same = setups.rows.iter().filter(|(other, _)| {
        (other.family, other.from, other.to, other.kind, other.service_id)
            == (between.family, between.from, between.to, between.kind, between.service_id)
    });
    let accepted = of_same.filter(|(other, _)| other.outcome == Outcome::Accepted);
    let (accepted, last_ns) =
        accepted.fold((0, 0), |sum, (_, row)| (sum.0 + row.setups, row.last_ns.max(sum.1)));
    let failed = Failed {
        between,
        row,
        from: address(between.family, between.from),
        to: address(between.family, between.to),
        accepted,
        recovered: last_ns > row.last_ns,
    };
    match between.outcome {
        Outcome::Accepted | Outcome::Delayed => None,
        Outcome::Rejected { .. } | Outcome::Unresolved { .. } => Some(failed),
        Outcome::Unanswered => is_unanswered(input, &failed).then_some(failed),
    }
}

fn is_unanswered(input: &Input<'_>, failed: &Failed<'_>) -> bool {
    let limits = &input.limits.cm;
    let waited_ns = input.facts.window.last_ns.map_or(0, |end_ns| end_ns.saturating_sub(failed.row.first_ns));
    let long = waited_ns >= limits.wait_s.saturating_mul(NS_PER_S);
    let flows = &input.facts.flows;
    // The reply may take a path that is not captured.
    let hears = flows.iter().any(|flow| flow.dst == failed.from);
    let connected = |flow: &Flow| {
        let answers = (flow.src, flow.dst) == (failed.to, failed.from);
        // The service takes datagrams only (SIDR).
        let asks =
            failed.between.kind == SetupKind::Resolution && (flow.src, flow.dst) == (failed.from, failed.to);
        (answers || asks) && flow.dest_qp != 1 && flow.first_ns >= failed.row.first_ns
    };
    (failed.row.most_requests >= limits.requests.max(2) || long) && hears && !flows.iter().any(connected)
}

/// The title, without hosts and service, in two or three lengths, the longest first.
fn diagnoses(worst: &Failed<'_>, reason: &str) -> Vec<String> {
    let Failed { row, between, accepted, .. } = worst;
    let (setups, words) = (row.setups, RequestWords::of(between.kind));
    let all = plural(setups + accepted, words.what);
    match between.outcome {
        Outcome::Unanswered => {
            let times = plural(row.most_requests, "time");
            vec![
                format!("{} not answered: sent {times}", words.request),
                format!("No answer to a {} sent {times}", words.asks),
            ]
        }
        _ if *accepted > 0 || setups > 1 => vec![
            format!("{setups} of {all} rejected: {reason}"),
            format!("{setups} of {all}: {reason}"),
            format!("{setups}× {}: {reason}", words.refuses),
        ],
        _ => vec![
            format!("{} rejected: {reason}", words.title),
            format!("Rejected: {reason}"),
            format!("{}: {reason}", words.refuses),
        ],
    }
}

fn raise(input: &Input<'_>, worst: &Failed<'_>, others: &[Failed<'_>], found: &mut Vec<Finding>) {
    let &Failed { row, from, to, .. } = worst;
    let service = service(worst.between.service_id);
    let outcome = worst.between.outcome;
    let reason = reason(outcome);
    let diagnoses = diagnoses(worst, &reason);
    let named = service.as_ref().map(|service| format!(", {service}")).unwrap_or_default();
    let hosts = pair(from, to);
    // A shorter diagnosis if hosts and service would not fit.
    let fits = diagnoses.iter().find(|text| title::fits(text, [&hosts, &named]));
    let chosen = fits.or(diagnoses.last()).cloned().unwrap_or_default();
    let parts = [hosts, named, more(others.len() as u64, "kind")];
    let datagrams: Vec<&Flow> = input
        .facts
        .flows
        .iter()
        .filter(|flow| flow.dest_qp == 1 && (flow.src, flow.dst) == (from, to))
        .collect();
    let end = |addr| End { addr, qpn: None, pid: None, comm: None, pod: None };
    let (requester, responder) = match datagrams.first() {
        Some(flow) => ends::of_data(input, [*flow]),
        None => (Some(end(from)), Some(end(to))),
    };
    let severity = if worst.recovered { Severity::Info } else { Severity::Warning };
    let place = datagrams.first().map(|flow| Place::of(input, flow).hop(Hop::Responder));
    let at = |host| match datagrams.first() {
        Some(flow) => Commands::at(input, flow, host),
        None => Commands::on(input, ""),
    };
    let (asks, refuses) = (at(worst.from), at(worst.to));
    let pairs: std::collections::BTreeSet<_> =
        others.iter().chain([worst]).map(|failed| (failed.from, failed.to)).collect();
    let mut raise = Raise::new(&REJECTED, severity, title(chosen, parts))
        .evidence("reason", reason)
        .evidence(
            "reason_code",
            if let Outcome::Rejected { reason, .. } = outcome { Some(reason) } else { None },
        )
        .evidence("status", if let Outcome::Unresolved { status } = outcome { Some(status) } else { None })
        .evidence("service", service)
        .evidence("setups", row.setups)
        .evidence("accepted", worst.accepted)
        .evidence("requests", (row.most_requests > 0).then_some(row.most_requests))
        .host_pairs(pairs.len())
        .flows(datagrams)
        .ends(requester, responder)
        .place(place.unwrap_or_default())
        .episodes(vec![Episode { first_ns: row.first_ns, last_ns: row.last_ns, peak: None }]);
    for (step, command) in steps(worst, asks, refuses) {
        raise = raise.step(step, command);
    }
    raise.into(found);
}

/// Words for a kind of request.
struct RequestWords {
    /// Requested object, in lower case.
    what: &'static str,
    /// The same at the start of a title.
    title: &'static str,
    /// The request at the start of a title.
    request: &'static str,
    /// The request message.
    asks: &'static str,
    /// The message that rejects it.
    refuses: &'static str,
}

impl RequestWords {
    const fn of(kind: SetupKind) -> Self {
        match kind {
            SetupKind::Connection => Self {
                what: "connection",
                title: "Connection",
                request: "Connection request",
                asks: "REQ",
                refuses: "REJ",
            },
            SetupKind::Resolution => Self {
                what: "service resolution",
                title: "Service resolution",
                request: "Service resolution",
                asks: "SIDR_REQ",
                refuses: "SIDR_REP",
            },
        }
    }
}

/// The reason for a rejection, in words.
fn reason(outcome: Outcome) -> String {
    match outcome {
        Outcome::Rejected { reason: INVALID_SERVICE_ID, by_requester: false }
        | Outcome::Unresolved { status: UNSUPPORTED_SERVICE } => "no listener".to_owned(),
        Outcome::Rejected { reason, by_requester } => {
            let words = cm::reason(reason).map_or_else(|| format!("reason {reason}"), str::to_owned);
            if by_requester { format!("{words}, by the requester") } else { words }
        }
        Outcome::Unresolved { status } => {
            cm::sidr_status(status).map_or_else(|| format!("status {status}"), str::to_owned)
        }
        Outcome::Unanswered | Outcome::Delayed | Outcome::Accepted => "no answer".to_owned(),
    }
}

/// The port number, if the service ID is one of the RDMA connection manager.
fn service(id: Option<u64>) -> Option<String> {
    let id = id?;
    Some(
        cm::port(id)
            .map_or_else(|| format!("service 0x{id:x}"), |(space, port)| format!("{space} port {port}")),
    )
}

const TIMED_OUT: u16 = 4;
const INVALID_SERVICE_ID: u16 = 8;
const STALE: u16 = 10;
const INVALID_GID: u16 = 12;
const REFUSED: u16 = 28;
/// Status of a SIDR_REP.
const UNSUPPORTED_SERVICE: u8 = 1;
const REFUSED_SERVICE: u8 = 2;

fn steps(worst: &Failed<'_>, asks: Commands<'_>, refuses: Commands<'_>) -> Vec<(String, Means)> {
    let &Failed { from, to, .. } = worst;
    let log =
        (format!("Read the log of the application on {to} and {from} at that time."), ByHand::Job.into());
    let listens = (
        format!(
            "On {to}, check that the service runs and listens on that address and port (rdma resource show cm_id)."
        ),
        refuses.listeners().into(),
    );
    let reached =
        (format!("Check that {to} is reachable from {from} over that interface."), asks.ping(to).into());
    let filter = (
        "Check that no filter or ACL drops UDP port 4791 in one direction.".to_owned(),
        ethernet(refuses.filters()),
    );
    let gid =
        (format!("On {to}, compare its addresses with the GIDs of its port."), refuses.rdma_ports().into());
    let reason = match worst.between.outcome {
        Outcome::Rejected { reason, .. } => reason,
        Outcome::Unresolved { status: UNSUPPORTED_SERVICE } => INVALID_SERVICE_ID,
        Outcome::Unresolved { status: REFUSED_SERVICE } => REFUSED,
        Outcome::Unresolved { .. } => return vec![log, listens],
        Outcome::Unanswered | Outcome::Delayed | Outcome::Accepted => {
            return vec![reached, gid, filter, listens];
        }
    };
    match reason {
        INVALID_SERVICE_ID => vec![listens, gid],
        REFUSED => vec![log, listens],
        TIMED_OUT => vec![reached, filter, log],
        STALE => vec![
            (
                format!("On {to}, look for queue pairs left by an earlier connection."),
                refuses.queue_pairs().into(),
            ),
            log,
        ],
        INVALID_GID => vec![gid, reached],
        _ => vec![
            log,
            (
                format!("Compare settings of both ends: path MTU, retry counts, resources of {to}."),
                refuses.rdma_ports().into(),
            ),
        ],
    }
}

#[cfg(test)]
mod tests {
    use rocescope_common::account::PsnTrack;

    use super::*;
    use crate::analysis::Options;
    use crate::analysis::fixtures::{SECOND, START, key, link, sample, stats};
    use crate::findings::tests::found;
    use crate::metrics::setups::Setups;

    const PORT: Option<u64> = Some(0x0106_1C06);

    fn between(outcome: Outcome) -> SetupEnds {
        let key = key(0, "10.0.0.1", "10.0.0.3", 1);
        SetupEnds {
            family: 4,
            from: key.src,
            to: key.dst,
            kind: SetupKind::Connection,
            service_id: PORT,
            outcome,
        }
    }

    fn row(setups: u64, most_requests: u64) -> Row {
        Row { setups, most_requests, first_ns: START, last_ns: START + SECOND / 2 }
    }

    fn rejected(reason: u16) -> Outcome {
        Outcome::Rejected { reason, by_requester: false }
    }

    /// The finding for set-ups between hosts; the reverse direction has traffic unless `deaf`.
    fn judged(rows: Vec<(SetupEnds, Row)>, deaf: bool) -> Option<Finding> {
        let mut datagrams = stats(50_000, 6, 1_800);
        (datagrams.transport, datagrams.psn) = (3, PsnTrack::default());
        let mut flows = vec![(key(0, "10.0.0.1", "10.0.0.3", 1), datagrams)];
        if !deaf {
            flows.push((key(0, "10.0.0.2", "10.0.0.1", 17), stats(50_000, 1_000, 1_000_000)));
        }
        let mut sample = sample(vec![link("h0.pcap", None)], flows);
        sample.metrics.setups = Some(Setups { rows, ..Setups::default() });
        found(&sample, &Options::default()).into_iter().find(|finding| finding.id == "cm.rejected")
    }

    #[test]
    fn a_rejection_says_who_refused_whom_and_why() {
        let found = judged(vec![(between(rejected(8)), row(6, 1))], false).unwrap();
        assert_eq!(
            found.title,
            "6 of 6 connections rejected: no listener, 10.0.0.1 → 10.0.0.3, TCP port 7174"
        );
        assert_eq!(found.severity, Severity::Warning);
        assert_eq!(found.evidence.get("service").unwrap().value, "TCP port 7174");
        let addr = |end: &Option<End>| end.as_ref().unwrap().addr.to_string();
        assert_eq!((addr(&found.requester), addr(&found.responder)), ("10.0.0.1".into(), "10.0.0.3".into()));
        assert!(found.steps[0].text.contains("listens"), "{:?}", found.steps);
        let refused = judged(vec![(between(rejected(28)), row(1, 1))], false).unwrap();
        assert_eq!(refused.title, "Rejected: refused by the application, 10.0.0.1 → 10.0.0.3, TCP port 7174");
        for code in (1..=33).chain([35, 99]) {
            let found = judged(vec![(between(rejected(code)), row(4, 1))], false).unwrap();
            assert!(found.title.ends_with(", 10.0.0.1 → 10.0.0.3, TCP port 7174"), "{}", found.title);
        }
    }

    #[test]
    fn a_later_set_up_that_succeeds_makes_it_information() {
        let accepted = |last_ns| (between(Outcome::Accepted), Row { last_ns, ..row(2, 1) });
        let after = judged(vec![accepted(START + SECOND), (between(rejected(8)), row(4, 1))], false).unwrap();
        assert_eq!(after.severity, Severity::Info);
        assert!(after.title.starts_with("4 of 6 connections rejected"), "{}", after.title);
        let before = judged(vec![accepted(START + 1), (between(rejected(8)), row(4, 1))], false).unwrap();
        assert_eq!(before.severity, Severity::Warning);
        assert_eq!(judged(vec![accepted(START)], false), None, "accepted");
    }

    #[test]
    fn requests_without_answer_need_repetition_and_a_tap_that_would_show_it() {
        let silent = |requests| vec![(between(Outcome::Unanswered), row(1, requests))];
        let found = judged(silent(5), false).unwrap();
        assert!(found.title.starts_with("No answer to a REQ sent 5 times, 10.0.0.1 →"), "{}", found.title);
        assert_eq!(judged(silent(2), false), None, "one datagram may be lost");
        assert_eq!(judged(silent(5), true), None, "nothing to the requester is visible");
        let long = Row { first_ns: START - 9 * SECOND, ..row(1, 2) };
        assert!(judged(vec![(between(Outcome::Unanswered), long)], false).is_some(), "waiting for 10 s");
    }

    #[test]
    fn services_of_datagrams_that_are_not_resolved_are_named_as_such() {
        let of = |outcome| SetupEnds {
            kind: SetupKind::Resolution,
            service_id: Some(0x0111_1C06),
            ..between(outcome)
        };
        let unresolved = |status| of(Outcome::Unresolved { status });
        let found = judged(vec![(unresolved(1), row(3, 1))], false).unwrap();
        assert!(found.title.starts_with("3 of 3 service resolutions"), "{}", found.title);
        assert!(
            found.title.contains("no listener") && found.title.ends_with("UDP port 7174"),
            "{}",
            found.title
        );
        assert_eq!(found.evidence.get("status").unwrap().value, 1);
        assert!(found.evidence.get("reason_code").is_none_or(|code| code.value.is_null()));
        assert!(found.steps[0].text.contains("listens"), "{:?}", found.steps);
        for status in 1..=6 {
            let found = judged(vec![(unresolved(status), row(1, 1))], false).unwrap();
            assert!(found.title.ends_with(", 10.0.0.1 → 10.0.0.3, UDP port 7174"), "{}", found.title);
            assert_eq!(found.severity, Severity::Warning);
        }
        let silent = judged(vec![(of(Outcome::Unanswered), row(1, 5))], false).unwrap();
        assert!(silent.title.starts_with("No answer to a SIDR_REQ sent 5 times"), "{}", silent.title);
        // An accepted connection to the same service is no evidence about datagrams.
        let accepted = Row { last_ns: START + SECOND, ..row(2, 1) };
        let both = vec![(between(Outcome::Accepted), accepted), (unresolved(2), row(1, 1))];
        assert_eq!(judged(both, false).unwrap().severity, Severity::Warning);
        assert_eq!(judged(vec![(of(Outcome::Accepted), row(4, 1))], false), None);
    }

    #[test]
    fn every_reason_has_words() {
        for code in (1..=33).chain([35]) {
            assert!(cm::reason(code).is_some(), "{code}");
        }
        assert_eq!((cm::reason(0), cm::reason(34), cm::reason(36)), (None, None, None));
        assert_eq!(reason(rejected(99)), "reason 99");
        for status in 1..=5 {
            assert!(cm::sidr_status(status).is_some(), "{status}");
        }
        assert_eq!((cm::sidr_status(0), cm::sidr_status(6)), (None, None));
        assert_eq!(reason(Outcome::Unresolved { status: 77 }), "status 77");
        assert_eq!(service(Some(0x0111_0005)).unwrap(), "UDP port 5");
        assert_eq!(service(Some(0x1234_5678_9ABC)).unwrap(), "service 0x123456789abc");
    }
}
