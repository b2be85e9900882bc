//! Queue pairs that the NIC or its driver moved to the error state, from the kernel's control path.

use super::{
    Commands, DIED, Dead, Episode, Input, Place, REASON_NS, Raise, ends, fatal_nak_in, more, pair, title,
};
use crate::analysis::{Device, DeviceQp, QpEvent};
use crate::entity::lives::{FATAL_EVENTS, REASON, TO_ERROR};
use crate::findings::command::ByHand;
use crate::findings::{Finding, Severity};
use crate::util::units::plural;

/// Port counters that indicate why queue pairs fail.
const COUNTERS: [(&str, &str); 4] = [
    ("retries_exceeded", "retry count exceeded"),
    ("rnr_retries_exceeded", "RNR retry count exceeded"),
    ("access_naks_received", "remote access error"),
    ("access_naks_sent", "remote access error (its own NAK)"),
];

struct Death<'a> {
    device: &'a Device,
    event: &'a QpEvent,
    /// The queue pair, if listed.
    qp: Option<&'a DeviceQp>,
    cause: String,
    /// The cause was inferred from counters of the whole port.
    likely: bool,
    /// It refused a request of its peer, which is the requester.
    own_nak: bool,
    /// A query alone shows it, while results of this number of verbs were not seen: one of them may have taken it to
    /// the error state.
    unseen_verbs: u64,
}

/// Raises one finding per device, without deaths already seen in packets.
pub(super) fn check(input: &Input<'_>, known: &[Dead<'_>], found: &mut Vec<Finding>) {
    for device in &input.facts.devices {
        let mut deaths: Vec<Death<'_>> = Vec::new();
        for event in &device.qp_events {
            if deaths.iter().all(|other| other.event.lqpn != event.lqpn)
                && let Some(death) = death(input, device, event)
                && !known.iter().any(|dead| is_same(dead, &death))
            {
                deaths.push(death);
            }
        }
        raise(input, &deaths, found);
    }
}

fn death<'a>(input: &Input<'a>, device: &'a Device, event: &'a QpEvent) -> Option<Death<'a>> {
    let lqpn = event.lqpn?;
    // Queue pair numbers are reused: this is the queue pair that existed at the time.
    let lived =
        |qp: &&DeviceQp| qp.lqpn == lqpn && qp.control.ended_ns.is_none_or(|ended| ended >= event.time_ns);
    let qp = device.qps.iter().find(lived);
    let death =
        |cause: String| Death { device, event, qp, cause, likely: false, own_nak: false, unseen_verbs: 0 };
    let named = FATAL_EVENTS.iter().find(|(name, _)| *name == event.event);
    // The driver's reason takes precedence.
    let of_same = |other: &&QpEvent| {
        other.event == REASON
            && other.lqpn == event.lqpn
            && other.time_ns.abs_diff(event.time_ns) <= REASON_NS
    };
    if let Some(why) = device.qp_events.iter().find(of_same).and_then(|told| told.reason.clone()) {
        return Some(death(why));
    }
    if let Some((name, meaning)) = named {
        return Some(death(format!("{meaning} ({name})")));
    }
    if event.event != TO_ERROR {
        return None;
    }
    if let Some((nak, own_nak)) = qp.and_then(|qp| nak(input, qp)) {
        let cause = if own_nak { format!("{nak} (its own)") } else { nak.to_owned() };
        return Some(Death { own_nak, ..death(cause) });
    }
    let of_port =
        || input.facts.devices.iter().filter(|one| one.name == device.name && one.port == device.port);
    let grew = |name: &str| of_port().any(|one| one.counters.get(name).is_some_and(|count| *count > 0));
    let causes: Vec<&str> =
        COUNTERS.iter().filter(|(name, _)| grew(name)).map(|(_, meaning)| *meaning).collect();
    let likely = !causes.is_empty();
    let cause = if likely { causes.join(", or ") } else { "found in the error state".to_owned() };
    let unseen_verbs = input.sample.devices.lives.calls.missed_returns;
    Some(Death { likely, unseen_verbs, ..death(cause) })
}

/// A fatal NAK that packets show for a queue pair: received, or its own (true).
fn nak(input: &Input<'_>, qp: &DeviceQp) -> Option<(&'static str, bool)> {
    let (src, dst) = (qp.control.src?.into(), qp.control.dst?.into());
    let received = input.facts.to_qp(dst, src, qp.lqpn).find_map(fatal_nak_in).map(|nak| (nak, false));
    received.or_else(|| input.facts.to_qp(src, dst, qp.rqpn?).find_map(fatal_nak_in).map(|nak| (nak, true)))
}

/// True if packets have shown the same death.
fn is_same(dead: &Dead<'_>, death: &Death<'_>) -> bool {
    let Some(qp) = death.qp else { return false };
    let (src, dst) = (qp.control.src.map(Into::into), qp.control.dst.map(Into::into));
    (src, dst, qp.rqpn) == (Some(dead.flow.src), Some(dead.flow.dst), Some(dead.flow.dest_qp))
}

fn raise(input: &Input<'_>, deaths: &[Death<'_>], found: &mut Vec<Finding>) {
    let (Some(first), Some(last)) = (
        deaths.iter().min_by_key(|death| death.event.time_ns),
        deaths.iter().max_by_key(|death| death.event.time_ns),
    ) else {
        return;
    };
    let Death { device, event, qp, cause, likely, own_nak, unseen_verbs } = first;
    // Neither the port nor a packet shows a failure.
    let is_doubtful = *unseen_verbs > 0 && !*likely;
    let severity = if is_doubtful { Severity::Warning } else { Severity::Critical };
    let lqpn = event.lqpn.unwrap_or(0);
    let diagnosis = format!("QP {lqpn} of {} died: {cause}", device.name);
    let hosts = event.src.zip(event.dst).map_or_else(String::new, |(src, dst)| pair(src, dst));
    let others = deaths.len() as u64 - 1;
    let interface = device.interface.as_deref().unwrap_or("");
    let here = Commands::on(input, interface);
    let (own, peer) = ends::of_event(event, *qp);
    let process = own.as_ref().and_then(|end| ends::process(end.comm.as_deref(), end.pid));
    let log = match &process {
        Some(process) => format!("Read the log of {process} for a work completion with error."),
        None => "Read the log of the process for a work completion with error.".to_owned(),
    };
    let (requester, responder) = if *own_nak { (peer, own) } else { (own, peer) };
    let mut raise = Raise::new(&DIED, severity, title(diagnosis, [hosts, more(others, "QP")]))
        .evidence("cause", cause.as_str())
        .evidence("lqpn", lqpn)
        .evidence("rqpn", qp.and_then(|qp| qp.rqpn))
        .evidence("process", process)
        .evidence("udp_port", qp.and_then(|qp| qp.control.udp_port))
        .evidence("dscp", qp.and_then(|qp| qp.control.dscp))
        .evidence("timeout_ns", qp.and_then(|qp| qp.control.timeout_ns))
        .evidence("retry_cnt", qp.and_then(|qp| qp.control.retry_cnt))
        .evidence("rnr_retry", qp.and_then(|qp| qp.control.rnr_retry))
        .place(Place::link(input, interface, None))
        .ends(requester, responder)
        .episodes(vec![Episode { first_ns: event.time_ns, last_ns: last.event.time_ns, peak: None }])
        .step("List the queue pairs in the error state with their processes.", here.queue_pairs())
        .step(log, ByHand::Varies);
    if let Some(dst) = event.dst {
        raise = raise.step(format!("Check that {dst} is reachable from {interface}."), here.ping(dst.into()));
    }
    if *likely {
        raise = raise.caveat(
            "The reason is inferred from counters of the whole port: another queue pair may have made them grow.",
        );
    }
    if *unseen_verbs > 0 {
        raise = raise.caveat(format!(
            "The results of {} were not seen (qp_lives.missed_returns): one of them may have taken the queue pair to the \
             error state.",
            plural(*unseen_verbs, "verb")
        ));
    }
    raise
        .step("Look for link flaps, route changes and drops on the path at that time.", here.nic_counters())
        .into(found);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::{Options, fixtures};
    use crate::entity::devices::{PortSample, SourceSample};
    use crate::entity::lives::{Lives, timeout_ns};
    use crate::findings::tests::found;
    use crate::sample::{FlowSample, Sample};

    fn after(events: &[(u32, &str)], counters: &[(&str, u64)]) -> Sample {
        let events = (0..).zip(events);
        let events = events.map(|(at, (lqpn, name))| fixtures::qp_event(*lqpn, name, fixtures::START + at));
        let mut life = fixtures::qp_life(17, 29);
        (life.control.timeout_ns, life.control.retry_cnt) = (Some(timeout_ns(14)), Some(7));
        let lives = Lives { events: events.collect(), qps: vec![life].into(), ..Lives::default() };
        let values = counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let counters = vec![SourceSample { source: "sysfs hw_counters", values, resets: 0 }];
        fixtures::with_lives(PortSample { counters, ..fixtures::port() }, lives)
    }

    fn deaths(sample: &Sample) -> Vec<Finding> {
        found(sample, &Options::default()).into_iter().filter(|one| one.id == "qp.died").collect()
    }

    #[test]
    fn events_of_the_error_state_are_deaths_and_others_are_not() {
        for (name, expected) in [
            ("QP_FATAL", "fatal error of its work queue (QP_FATAL)"),
            ("QP_ACCESS_ERR", "access error (QP_ACCESS_ERR)"),
            (TO_ERROR, "found in the error state"),
        ] {
            let all = deaths(&after(&[(17, name), (17, "QP_FATAL"), (18, name)], &[]));
            let [one] = &all[..] else { panic!("{all:?}") };
            assert!(one.title.starts_with(&format!("QP 17 of mlx5_0 died: {expected}")), "{}", one.title);
            assert_eq!(one.evidence.get("cause").and_then(|cause| cause.value.as_str()), Some(expected));
            assert_eq!(one.requester.as_ref().and_then(|end| end.pid), Some(4_711));
            assert_eq!(one.responder.as_ref().and_then(|end| end.qpn), Some(29));
        }
        // The driver's reason comes before its event, or without one.
        let mut sample =
            after(&[(17, REASON), (17, "QP_FATAL"), (18, "QP_FATAL")], &[("retries_exceeded", 1)]);
        let lives = Arc::make_mut(&mut Arc::make_mut(&mut sample.devices).lives);
        let why = "RNR retry count exceeded (requester 0x03)";
        lives.events[0].reason = Some(why.into());
        let [died] = &deaths(&sample)[..] else { panic!() };
        assert_eq!(died.evidence.get("cause").and_then(|cause| cause.value.as_str()), Some(why));
        assert!(died.title.starts_with("QP 17 of mlx5_0 died: RNR retry count exceeded"), "{}", died.title);
        for name in ["COMM_EST", "SQ_DRAINED", "PORT_ERR", "modify to RTR"] {
            assert_eq!(deaths(&after(&[(17, name)], &[])), [], "{name}");
        }
    }

    /// The control path does not know the process of an older queue pair, but the kernel's list of queue pairs does.
    #[test]
    fn a_queue_pair_made_before_the_run_has_its_process() {
        let mut sample = after(&[(17, TO_ERROR)], &[]);
        let devices = Arc::make_mut(&mut sample.devices);
        let lives = Arc::make_mut(&mut devices.lives);
        (lives.events[0].pid, lives.events[0].comm) = (None, None);
        let life = &mut Arc::make_mut(&mut lives.qps)[0];
        (life.pid, life.comm) = (Some(4_711), Some("train".into()));
        let [died] = &deaths(&sample)[..] else { panic!() };
        assert_eq!(died.requester.as_ref().and_then(|end| end.pid), Some(4_711));
        let process = died.evidence.get("process").and_then(|process| process.value.as_str());
        assert_eq!(process, Some("train (4711)"));
    }

    /// The verb to the error state may be among those whose return the kernel did not show.
    #[test]
    fn a_death_that_only_a_query_shows_is_doubtful_while_verbs_were_missed() {
        let died = |name: &str, counters: &[(&str, u64)], missed_returns: u64| {
            let mut sample = after(&[(17, name)], counters);
            let devices = Arc::make_mut(&mut sample.devices);
            Arc::make_mut(&mut devices.lives).calls.missed_returns = missed_returns;
            let [died] = &deaths(&sample)[..] else { panic!() };
            (
                died.severity,
                died.caveats.iter().any(|one| one.contains("The results of 3 verbs were not seen")),
            )
        };
        let grew = [("retries_exceeded", 1)];
        assert_eq!(died(TO_ERROR, &[], 0), (Severity::Critical, false));
        assert_eq!(died(TO_ERROR, &[], 3), (Severity::Warning, true));
        assert_eq!(died(TO_ERROR, &grew, 3), (Severity::Critical, true));
        // The device itself says so.
        assert_eq!(died("QP_FATAL", &[], 3), (Severity::Critical, false));
    }

    /// A fatal NAK ends both queue pairs: that which sent the request, and that which refused it.
    #[test]
    fn a_fatal_nak_is_the_reason_at_both_ends() {
        let with_nak = |src: &str, dst: &str, dest_qp: u32| {
            let mut sample = after(&[(17, TO_ERROR)], &[("retries_exceeded", 1)]);
            let mut stats = fixtures::stats(49_152, 3, 186);
            stats.rare.naks[2] = 1;
            sample.flows.push(FlowSample { slot: 0, key: fixtures::key(0, src, dst, dest_qp), stats });
            let [died] = &deaths(&sample)[..] else { panic!() };
            let qpn = |end: &Option<crate::findings::End>| end.as_ref().and_then(|end| end.qpn);
            let cause = died.evidence.get("cause").and_then(|cause| cause.value.as_str().map(str::to_owned));
            assert!(died.caveats.iter().all(|one| !one.contains("inferred")), "{:?}", died.caveats);
            (cause.unwrap(), qpn(&died.requester), qpn(&died.responder))
        };
        let (own, peer) = ("10.0.0.1", "10.0.0.2");
        let received = ("remote access error NAK".to_owned(), Some(17), Some(29));
        assert_eq!(with_nak(peer, own, 17), received);
        let sent = ("remote access error NAK (its own)".to_owned(), Some(29), Some(17));
        assert_eq!(with_nak(own, peer, 29), sent);
    }

    #[test]
    fn counters_of_the_port_say_why() {
        let retries = deaths(&after(&[(17, TO_ERROR)], &[("retries_exceeded", 1)]));
        let cause = |one: &Finding| {
            one.evidence.get("cause").and_then(|cause| cause.value.as_str().map(str::to_owned))
        };
        assert_eq!(cause(&retries[0]).as_deref(), Some("retry count exceeded"));
        assert!(retries[0].caveats[0].contains("inferred"), "{:?}", retries[0].caveats);
        for (counter, expected) in [
            ("access_naks_received", "remote access error"),
            ("access_naks_sent", "remote access error (its own NAK)"),
        ] {
            assert_eq!(
                cause(&deaths(&after(&[(17, TO_ERROR)], &[(counter, 1)]))[0]).as_deref(),
                Some(expected)
            );
        }
        let both = [("retries_exceeded", 1), ("rnr_retries_exceeded", 2)];
        let both = deaths(&after(&[(17, TO_ERROR)], &both));
        assert_eq!(cause(&both[0]).as_deref(), Some("retry count exceeded, or RNR retry count exceeded"));
    }
}
