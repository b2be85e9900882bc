use std::sync::Arc;

use super::*;
use crate::analysis::Options;
use crate::analysis::fixtures::{self, SECOND, START};
use crate::entity::devices::{AtGrowth, Growth, PortSample, SourceSample};
use crate::entity::lives::{DESTROYED, Lives, QpLife, timeout_ns};
use crate::findings::tests::found;
use crate::sample::{FlowSample, Sample};

fn after(events: &[(u32, &str)], counters: &[(&str, u64)]) -> Sample {
    let events = (0..).zip(events);
    let events = events.map(|(at, (lqpn, name))| fixtures::qp_event(*lqpn, name, START + at));
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
    let mut sample = after(&[(17, REASON), (17, "QP_FATAL"), (18, "QP_FATAL")], &[("retries_exceeded", 1)]);
    let lives = Arc::make_mut(&mut Arc::make_mut(&mut sample.devices).lives);
    let why = "RNR retry count exceeded (requester 0x03)";
    lives.events[0].reason = Some(why.into());
    let all = deaths(&sample);
    let [died] = &all.iter().filter(|one| one.evidence["lqpn"] == 17).collect::<Vec<_>>()[..] else {
        panic!()
    };
    assert_eq!(died.evidence.get("cause").and_then(|cause| cause.value.as_str()), Some(why));
    assert!(died.title.starts_with("QP 17 of mlx5_0 died: RNR retry count exceeded"), "{}", died.title);
    for name in ["COMM_EST", "SQ_DRAINED", "PORT_ERR", "WQ_FATAL", "modify to RTR"] {
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
fn a_death_that_only_a_query_shows_is_doubtful_if_verbs_were_missed_since_the_one_before() {
    let died = |name: &str, counters: &[(&str, u64)], unseen_verbs: u64| {
        let mut sample = after(&[(17, name)], counters);
        let lives = Arc::make_mut(&mut Arc::make_mut(&mut sample.devices).lives);
        // Others of the run concern other times.
        lives.calls.missed_returns = 3;
        lives.events[0].unseen_verbs = unseen_verbs;
        let [died] = &deaths(&sample)[..] else { panic!() };
        (
            died.severity,
            died.caveats.iter().any(|one| one.contains("The results of 3 verbs since it was last seen")),
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
    let cause =
        |one: &Finding| one.evidence.get("cause").and_then(|cause| cause.value.as_str().map(str::to_owned));
    assert_eq!(cause(&retries[0]).as_deref(), Some("retry count exceeded"));
    assert!(retries[0].caveats[0].contains("inferred"), "{:?}", retries[0].caveats);
    for (counter, expected) in [
        ("access_naks_received", "remote access error"),
        ("access_naks_sent", "remote access error (its own NAK)"),
    ] {
        assert_eq!(cause(&deaths(&after(&[(17, TO_ERROR)], &[(counter, 1)]))[0]).as_deref(), Some(expected));
    }
    let both = [("retries_exceeded", 1), ("rnr_retries_exceeded", 2)];
    let both = deaths(&after(&[(17, TO_ERROR)], &both));
    assert_eq!(cause(&both[0]).as_deref(), Some("retry count exceeded, or RNR retry count exceeded"));
}

/// Queue pairs with these lives, after these events: number, name and time in seconds.
fn lived(qps: Vec<QpLife>, events: &[(u32, &str, u64)]) -> Sample {
    let peer = |lqpn: u32, at: u64| {
        let of = qps.iter().rfind(|life| life.lqpn == lqpn && life.control.created_ns <= Some(at));
        of.and_then(|life| life.control.dst)
    };
    let event = |(lqpn, name, seconds): &(u32, &str, u64)| {
        let at = START + seconds * SECOND;
        QpEvent { dst: peer(*lqpn, at), ..fixtures::qp_event(*lqpn, name, at) }
    };
    let events = events.iter().map(event).collect();
    let mut sample =
        fixtures::with_lives(fixtures::port(), Lives { events, qps: qps.into(), ..Lives::default() });
    let end_ns = sample.devices.lives.events.last().map_or(START, |last| last.time_ns);
    sample.window = Some((START, end_ns));
    sample
}

/// A queue pair to a peer by its last byte.
fn to(lqpn: u32, peer: u8) -> QpLife {
    let mut life = fixtures::qp_life(lqpn, lqpn + 100);
    life.control.dst = Some([10, 0, 0, peer].into());
    life
}

/// Numbers that a finding lists; of one queue pair that one.
fn numbers(died: &Finding) -> Vec<u64> {
    let all = died.evidence["lqpns"].as_array().cloned();
    all.unwrap_or_else(|| vec![died.evidence["lqpn"].clone()])
        .iter()
        .filter_map(serde_json::Value::as_u64)
        .collect()
}

#[test]
fn each_reason_and_each_peer_has_a_finding() {
    let qps = (17..25).map(|lqpn| to(lqpn, if lqpn < 21 { 2 } else { 3 })).collect();
    let name = |lqpn: u32| if lqpn % 2 == 1 { "QP_FATAL" } else { "QP_ACCESS_ERR" };
    let events: Vec<_> = (17..25).map(|lqpn| (lqpn, name(lqpn), 1)).collect();
    let all = deaths(&lived(qps, &events));
    let mut listed: Vec<_> = all.iter().map(numbers).collect();
    listed.sort();
    assert_eq!(listed, [[17, 19], [18, 20], [21, 23], [22, 24]]);
    for died in &all {
        assert_eq!(died.evidence["queue_pairs"], 2);
    }
    let keys: std::collections::BTreeSet<String> = all.iter().map(Finding::key).collect();
    assert_eq!(keys.len(), 4);
}

#[test]
fn many_queue_pairs_are_listed_up_to_a_bound() {
    let qps: Vec<QpLife> = (17..57).map(|lqpn| to(lqpn, 2)).collect();
    let events: Vec<_> = (17..57).map(|lqpn| (lqpn, "QP_FATAL", 1)).collect();
    let all = deaths(&lived(qps, &events));
    let [died] = &all[..] else { panic!("{all:?}") };
    assert_eq!(died.evidence["queue_pairs"], 40);
    let listed = numbers(died);
    // The one that it names, then the latest.
    assert_eq!((listed.len(), listed[0], listed[1], listed[15]), (MOST_LISTED, 17, 56, 42));
}

#[test]
fn a_later_death_is_named_and_is_another_finding() {
    let qps = || vec![to(17, 2), to(18, 2), to(19, 3)];
    let early = deaths(&lived(qps(), &[(17, "QP_FATAL", 1)]));
    let all = deaths(&lived(qps(), &[(17, "QP_FATAL", 1), (19, "QP_FATAL", 50), (18, "QP_FATAL", 100)]));
    let [latest, other] = &all[..] else { panic!("{all:?}") };
    assert!(latest.title.starts_with("QP 18 of mlx5_0 died"), "{}", latest.title);
    let times: Vec<u64> = latest.episodes.iter().map(|one| (one.first_ns - START) / SECOND).collect();
    assert_eq!((times, latest.active, numbers(latest)), (vec![1, 100], true, vec![18]));
    assert_eq!((numbers(other), other.active), (vec![19], false));
    assert_ne!(early[0].key(), latest.key());
    // While an episode goes on, the finding stays the same.
    let more = deaths(&lived(qps(), &[(17, "QP_FATAL", 1), (18, "QP_FATAL", 5)]));
    assert_eq!((early[0].key(), numbers(&more[0])), (more[0].key(), vec![17, 18]));
}

/// The job hangs until somebody destroys the queue pair.
#[test]
fn a_death_goes_on_until_the_queue_pair_is_destroyed() {
    let died = |ended_ns: Option<u64>| {
        let mut life = to(17, 2);
        (life.control.end, life.control.ended_ns) = (Some(ERROR), ended_ns);
        let mut sample = lived(vec![life], &[(17, "QP_FATAL", 1)]);
        sample.window = Some((START, START + 100 * SECOND));
        let [died] = &deaths(&sample)[..] else { panic!() };
        (died.active, died.last_seen_ns.map(|seen_ns| (seen_ns - START) / SECOND))
    };
    assert_eq!(died(None), (true, Some(100)));
    assert_eq!(died(Some(START + 40 * SECOND)), (false, Some(40)));
}

/// The interface is in the network namespace of a pod.
#[test]
fn a_device_without_an_interface_here_is_named() {
    let mut sample = lived(vec![to(17, 2)], &[(17, "QP_FATAL", 1)]);
    Arc::make_mut(&mut sample.devices).ports[0].interface = None;
    let [died] = &deaths(&sample)[..] else { panic!() };
    assert_eq!((died.place.link.as_deref(), &died.evidence["device"]), (None, &"mlx5_0/1".into()));
    let reachable = died.steps.iter().find(|step| step.text.contains("reachable")).unwrap();
    assert_eq!(reachable.text, "Check that 10.0.0.2 is reachable from mlx5_0.");
}

/// A job that is started again may get the same number.
#[test]
fn a_number_that_is_in_use_again_dies_again() {
    let mut before = to(17, 2);
    (before.control.ended_ns, before.control.end) = (Some(START + 2 * SECOND), Some(DESTROYED));
    let mut after = to(17, 2);
    (after.rqpn, after.control.created_ns) = (Some(333), Some(START + 3 * SECOND));
    let qps = || vec![before.clone(), after.clone()];
    let all = deaths(&lived(qps(), &[(17, "QP_FATAL", 1), (17, "QP_FATAL", 5)]));
    let [died] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&died.evidence["queue_pairs"], &died.evidence["rqpn"]), (&2.into(), &117.into()));
    let all = deaths(&lived(qps(), &[(17, "QP_FATAL", 1), (17, "QP_FATAL", 50)]));
    let [died] = &all[..] else { panic!("{all:?}") };
    assert_eq!((died.episodes.len(), &died.evidence["rqpn"]), (2, &333.into()));
    assert_eq!(died.evidence["died_ns"], START + 50 * SECOND);
    // Two events of one life are one death.
    let all = deaths(&lived(qps(), &[(17, "QP_FATAL", 5), (17, TO_ERROR, 30)]));
    assert_eq!((all.len(), all[0].episodes.len()), (1, 1), "{all:?}");
}

#[test]
fn a_queue_pair_that_is_connected_again_dies_again() {
    let mut again = to(17, 2);
    again.control.connected_ns = Some(START + 3 * SECOND);
    let count = |events: &[(u32, &str, u64)]| {
        let [died] = &deaths(&lived(vec![again.clone()], events))[..] else { panic!() };
        died.evidence["queue_pairs"].as_u64().unwrap_or(1)
    };
    assert_eq!(count(&[(17, "QP_FATAL", 1), (17, "QP_FATAL", 5)]), 2);
    assert_eq!(count(&[(17, "QP_FATAL", 1), (17, "QP_FATAL", 2)]), 1);
    assert_eq!(count(&[(17, "QP_FATAL", 4), (17, "QP_FATAL", 5)]), 1);
    // A query finds a death only where the one before found the queue pair connected.
    assert_eq!(count(&[(17, TO_ERROR, 4), (17, TO_ERROR, 5)]), 2);
}

/// By the wall clock it was created after its death.
#[test]
fn a_death_after_the_clock_was_set_back_has_the_settings_of_its_queue_pair() {
    let mut sample = after(&[(17, TO_ERROR)], &[]);
    let lives = Arc::make_mut(&mut Arc::make_mut(&mut sample.devices).lives);
    lives.events[0].monotonic_ns = Some(20);
    let control = &mut Arc::make_mut(&mut lives.qps)[0].control;
    control.created_ns = Some(START + 3_600 * SECOND);
    control.monotonic.created_ns = Some(10);
    let [died] = &deaths(&sample)[..] else { panic!() };
    assert_eq!((&died.evidence["retry_cnt"], &died.evidence["rqpn"]), (&7.into(), &29.into()));
}

/// By the wall clock, the later one died first.
#[test]
fn deaths_before_and_after_the_clock_was_set_back_are_both_named() {
    let mut sample = lived(vec![to(17, 2), to(18, 2)], &[(17, "QP_FATAL", 3_600), (18, "QP_FATAL", 5)]);
    let lives = Arc::make_mut(&mut Arc::make_mut(&mut sample.devices).lives);
    for (event, seconds) in lives.events.iter_mut().zip([1, 100]) {
        event.monotonic_ns = Some(seconds * SECOND);
    }
    let all = deaths(&sample);
    let [died] = &all[..] else { panic!("{all:?}") };
    assert_eq!(numbers(died), [17, 18]);
}

/// By the wall clock, they are an hour apart.
#[test]
fn a_driver_s_reason_is_of_the_death_beside_it_however_the_clock_is_set() {
    let cause = |reason_s: u64| {
        let mut sample = lived(vec![to(17, 2)], &[(17, "QP_FATAL", 3_600), (17, REASON, 5)]);
        let lives = Arc::make_mut(&mut Arc::make_mut(&mut sample.devices).lives);
        lives.events[1].reason = Some("retry count exceeded".into());
        for (event, seconds) in lives.events.iter_mut().zip([1, reason_s]) {
            event.monotonic_ns = Some(seconds * SECOND);
        }
        deaths(&sample)[0].evidence["cause"].as_str().unwrap().to_owned()
    };
    assert_eq!(cause(2), "retry count exceeded");
    assert_eq!(cause(4), "fatal error of its work queue (QP_FATAL)", "of another death");
}

/// What a counter says of a death is known by the time at which it grew, however the wall clock is set: by it the death
/// may be at the time at which another one grew. Times of a recording are Unix times alone.
#[test]
fn only_counters_that_grew_at_that_time_say_why() {
    let growth = [("retries_exceeded", 2), ("rnr_retries_exceeded", 100)];
    let counters = growth.map(|(name, _)| (name, 1));
    let died_at = |seconds: u64, wall: Option<u64>| {
        let at = |monotonic_s: u64| AtGrowth { monotonic_ns: monotonic_s * SECOND, ..AtGrowth::default() };
        let grown = |seconds: u64| Growth {
            first_ns: START + (seconds - 1) * SECOND,
            last_ns: START + seconds * SECOND,
            count: 1,
            at_first: at(seconds - 1),
            at_last: at(seconds),
        };
        let mut sample = after(&[(17, TO_ERROR)], &counters);
        let devices = Arc::make_mut(&mut sample.devices);
        devices.ports[0].growth =
            growth.iter().map(|(name, at)| ((*name).to_owned(), vec![grown(*at)])).collect();
        let event = &mut Arc::make_mut(&mut devices.lives).events[0];
        event.time_ns = START + wall.unwrap_or(seconds) * SECOND;
        event.monotonic_ns = wall.map(|_| seconds * SECOND);
        let [died] = &deaths(&sample)[..] else { panic!() };
        let inferred = died.caveats.iter().any(|one| one.contains("that grew at that time"));
        (died.evidence["cause"].as_str().unwrap().to_owned(), inferred)
    };
    for wall in [None, Some(2), Some(50), Some(3_600)] {
        assert_eq!(died_at(2, wall), ("retry count exceeded".to_owned(), true), "{wall:?}");
        assert_eq!(died_at(101, wall), ("RNR retry count exceeded".to_owned(), true), "{wall:?}");
        assert_eq!(died_at(50, wall), ("found in the error state".to_owned(), false), "{wall:?}");
    }
}

/// Whatever the report lists: views mark each of them.
#[test]
fn every_dead_queue_pair_is_known_to_views() {
    let qps = |peer: fn(u32) -> u8| -> Vec<QpLife> { (17..57).map(|lqpn| to(lqpn, peer(lqpn))).collect() };
    let events: Vec<_> = (17..57).map(|lqpn| (lqpn, "QP_FATAL", 1)).collect();
    let known = |all: &[Finding]| {
        let mut numbers: Vec<u32> =
            all.iter().flat_map(|one| &one.subject.queue_pairs).map(|qp| qp.lqpn).collect();
        numbers.sort_unstable();
        numbers
    };
    let of_one_peer = deaths(&lived(qps(|_| 2), &events));
    assert_eq!((of_one_peer.len(), known(&of_one_peer)), (1, (17..57).collect()));
    // Of 40 peers, most are in the finding that joins the rest.
    let all = deaths(&lived(qps(|lqpn| 2 + u8::try_from(lqpn).unwrap()), &events));
    let rest = all.iter().find(|one| one.subject.joined == Some(24)).unwrap();
    assert_eq!((all.len(), known(&all)), (17, (17..57).collect()));
    let ports: Vec<&str> = rest.subject.ports.iter().map(|port| &**port).collect();
    assert_eq!((ports, rest.is_at("eth0"), rest.is_at("eth1")), (vec!["mlx5_0/1"], true, false));
    assert!(rest.subject.queue_pairs.iter().all(|qp| qp.port.as_deref() == Some("mlx5_0/1")));
}

/// A finding from a recording has the numbers that its report lists.
#[test]
fn a_recorded_death_is_about_the_queue_pairs_that_it_lists() {
    let sample =
        lived((17..20).map(|lqpn| to(lqpn, 2)).collect(), &[(17, "QP_FATAL", 1), (19, "QP_FATAL", 1)]);
    let report = crate::report::Report::build(&sample, &crate::report::Options::default());
    let died = report.findings.iter().find(|one| one.id == DIED.id).unwrap();
    let back = crate::findings::recorded::read(&serde_json::to_string(died).unwrap()).unwrap();
    let device = report.facts.devices.iter().find(|one| !one.qps.is_empty()).unwrap();
    for one in [died, &back] {
        let about = device.qps.iter().filter(|qp| one.is_about_qp(device, qp)).map(|qp| qp.lqpn);
        assert_eq!(about.collect::<Vec<_>>(), [17, 19]);
    }
    assert_eq!((back.subject.died_ns, &back.subject.ports), (died.subject.died_ns, &died.subject.ports));
    // Another device has a queue pair of this number, too.
    let mut other = device.clone();
    other.name = "mlx5_1".into();
    assert!(!died.is_about_qp(&other, &device.qps[0]));
}

/// A number that is in use again is another queue pair.
#[test]
fn a_new_queue_pair_of_a_dead_one_s_number_is_not_what_the_finding_is_about() {
    let mut life = to(17, 2);
    life.control.created_ns = Some(START);
    let sample = lived(vec![life], &[(17, "QP_FATAL", 1)]);
    let report = crate::report::Report::build(&sample, &crate::report::Options::default());
    let died = report.findings.iter().find(|one| one.id == DIED.id).unwrap();
    let device = report.facts.devices.iter().find(|one| !one.qps.is_empty()).unwrap();
    let mut next = device.qps[0].clone();
    assert!(died.is_about_qp(device, &next));
    next.control.created_ns = next.control.created_ns.map(|made| made + 1);
    assert!(!died.is_about_qp(device, &next));
}
