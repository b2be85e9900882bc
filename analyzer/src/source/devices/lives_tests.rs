use super::*;
use crate::entity::lives::{DESTROY, MonotonicTimes, NUMBER_REUSED, QpControl};
use crate::source::devices::listed::ListedDevice;
use crate::util::source_port::udp_source_port;
use crate::util::system::KernelVersion;

fn life(lqpn: u32) -> QpLife {
    QpLife { device: "rxe0".into(), lqpn, ..QpLife::default() }
}

/// A verb within this time.
fn is(life: QpLife, began_ns: u64, ended_ns: u64) -> Change {
    Change::Is(life, Span { began_ns, ended_ns })
}

/// A query at this time.
fn found(life: QpLife, time_ns: u64) -> Change {
    Change::Found(life, Span { began_ns: time_ns, ended_ns: time_ns })
}

fn all(follower: &mut Follower) -> Arc<Lives> {
    follower.sample(&Calls::default(), None)
}

#[test]
fn a_life_is_put_together_from_its_calls() {
    let mut follower = Follower::default();
    let made = |ns| QpControl { created_ns: Some(ns), ..QpControl::default() };
    follower.take(is(QpLife { pid: Some(1), state: Some("RESET"), control: made(10), ..life(17) }, 9, 10));
    follower.take(is(QpLife { state: Some("RTR"), rqpn: Some(29), pid: Some(2), ..life(17) }, 11, 12));
    let control = QpControl { retry_cnt: Some(7), ..QpControl::default() };
    follower.take(is(QpLife { state: Some("RTS"), control, ..life(17) }, 13, 14));
    let event =
        QpEvent { device: "rxe0".into(), lqpn: Some(17), event: "QP_FATAL".into(), ..QpEvent::default() };
    follower.take(Change::Event(event));
    let seen = all(&mut follower);
    let known = &seen.qps[0];
    assert_eq!((known.state, known.rqpn, known.control.retry_cnt), (Some("RTS"), Some(29), Some(7)));
    assert_eq!((known.pid, known.control.created_ns, known.control.ended_ns), (Some(1), Some(10), None));
    assert_eq!(seen.events[0].pid, Some(1));
    assert!(Arc::ptr_eq(&seen, &all(&mut follower)));

    // A query that confirms known values.
    follower.take(found(QpLife { state: Some("RTS"), rqpn: Some(29), ..life(17) }, 50));
    assert!(Arc::ptr_eq(&seen, &all(&mut follower)), "nothing has changed");
    follower.take(Change::Ended { device: "rxe0".into(), lqpn: 17, port: None, time_ns: 99 });
    let over = &all(&mut follower).qps[0].control;
    assert_eq!((over.ended_ns, over.end, over.is_over()), (Some(99), Some(ERROR), true), "QP_FATAL");
    // The reused number is another queue pair.
    follower.take(is(QpLife { control: made(120), ..life(17) }, 119, 120));
    let qps = all(&mut follower).qps.clone();
    assert_eq!(qps.iter().map(|qp| qp.control.ended_ns).collect::<Vec<_>>(), [Some(99), None]);
    // Once more, and its destruction was not seen.
    follower.take(is(QpLife { control: made(130), ..life(17) }, 129, 130));
    let qps = all(&mut follower).qps.clone();
    let ends: Vec<_> = qps.iter().map(|qp| (qp.control.created_ns, qp.control.end)).collect();
    assert_eq!(ends, [(Some(10), Some(ERROR)), (Some(120), Some(NUMBER_REUSED)), (Some(130), None)]);
    assert!(qps[1].control.is_over() && !qps[2].control.is_over());
    // The events of a number are those of the queue pair that has it.
    for (at, expected) in [(125, [false, true, false]), (140, [false, false, true])] {
        // Of a run, and of a recording.
        for (monotonic_ns, time_ns) in [(Some(at), 0), (None, at)] {
            let event = QpEvent { time_ns, monotonic_ns, ..QpEvent::default() };
            let lived: Vec<_> = qps.iter().map(|qp| qp.control.lived_at(&event)).collect();
            assert_eq!(lived, expected, "{event:?}");
        }
    }
}

/// A death is published at once.
#[test]
fn deaths_are_counted_and_other_events_are_not() {
    let state = |state| QpLife { state: Some(state), ..life(17) };
    let event = |name: &str| {
        let device = "rxe0".into();
        Change::Event(QpEvent { device, lqpn: Some(17), event: name.into(), ..QpEvent::default() })
    };
    let mut follower = Follower::default();
    let changes = [
        (is(state("RTS"), 39, 40), 0),
        (found(state("ERR"), 50), 1),
        (found(state("ERR"), 60), 1),
        (event("COMM_EST"), 1),
        (event("QP_FATAL"), 2),
    ];
    for (change, expected) in changes {
        follower.take(change);
        assert_eq!(follower.deaths(), expected);
    }
}

#[test]
fn a_queue_pair_in_the_error_state_died_unless_a_verb_took_it_there() {
    let found = |state| found(QpLife { state: Some(state), ..life(17) }, 50);
    let is = |state| is(QpLife { state: Some(state), pid: Some(1), ..life(17) }, 39, 40);
    let deaths = |changes: Vec<Change>| {
        let mut follower = Follower::default();
        for change in changes {
            follower.take(change);
        }
        let events = all(&mut follower).events.clone();
        events.iter().map(|event| (event.event.clone(), event.time_ns, event.pid)).collect::<Vec<_>>()
    };
    let died = vec![(TO_ERROR.to_owned(), 50, Some(1))];
    assert_eq!(deaths(vec![is("RTS"), found("RTS"), found("ERR"), found("ERR")]), died);
    assert_eq!(deaths(vec![is("RTS"), is("ERR"), found("ERR")]), []);
    let end = |changes: Vec<Change>| {
        let mut follower = Follower::default();
        for change in changes {
            follower.take(change);
        }
        all(&mut follower).qps[0].control.end
    };
    let reset =
        || Change::Is(QpLife { state: Some("RESET"), ..life(17) }, Span { began_ns: 55, ended_ns: 56 });
    let destroyed = || Change::Ended { device: "rxe0".into(), lqpn: 17, port: None, time_ns: 60 };
    let event = |name: &str| {
        let device = "rxe0".into();
        Change::Event(QpEvent { device, lqpn: Some(17), event: name.into(), ..QpEvent::default() })
    };
    assert_eq!(end(vec![is("RTS"), found("RTS")]), None);
    assert_eq!(end(vec![is("RTS"), found("ERR")]), Some(ERROR));
    assert_eq!(end(vec![is("RTS"), found("ERR"), destroyed()]), Some(ERROR), "what came first");
    assert_eq!(end(vec![is("RTS"), is("ERR"), found("ERR"), destroyed()]), Some(DESTROYED));
    assert_eq!(end(vec![is("RTS"), event("QP_ACCESS_ERR")]), Some(ERROR));
    assert_eq!(end(vec![is("RTS"), event("COMM_EST")]), None);
    assert_eq!(end(vec![is("RTS"), found("ERR"), reset()]), None, "a verb took it out of that state");
    // It was in the error state before the run.
    assert_eq!(deaths(vec![found("ERR"), found("ERR")]), []);

    // Created before the run, and listed with its process before it died.
    let mut follower = Follower::default();
    follower.take(found("RTS"));
    follower.listed(&list(&[17], 45));
    follower.take(found("ERR"));
    let event = &all(&mut follower).events[0];
    assert_eq!((event.pid, event.comm.as_deref()), (Some(4_711), Some("train")));
    assert_eq!(all(&mut follower).qps[0].pod.as_deref(), Some("trainer-0"));
}

/// A complete list of these queue pairs, which send, begun at this time.
fn list(numbers: &[u32], began_ns: u64) -> QueuePairs {
    let owner = |lqpn: &u32| QpOwner {
        device: "rxe0".into(),
        lqpn: *lqpn,
        pid: Some(4_711),
        comm: Some("train".into()),
        pod: Some("trainer-0".into()),
        state: Some("RTS"),
        ..QpOwner::default()
    };
    let entry = |lqpn: &u32| QueuePair {
        device: "rxe0".into(),
        port: Some(1),
        lqpn: *lqpn,
        kind: Some("RC"),
        state: Some("RTS"),
        pid: Some(4_711),
        ..QueuePair::default()
    };
    QueuePairs {
        list: numbers.iter().map(|lqpn| (entry(lqpn), owner(lqpn))).collect(),
        devices: [("rxe0".to_owned(), ListedDevice::default())].into(),
        began_monotonic_ns: began_ns,
        ..QueuePairs::default()
    }
}

/// A verb took it there whose record came after that of a query which overlapped it.
#[test]
fn a_verb_that_a_query_overtakes_is_no_death() {
    let sends = || is(QpLife { state: Some("RTS"), ..life(17) }, 10, 11);
    let dead = || found(QpLife { state: Some("ERR"), ..life(17) }, 50);
    let to_error = |began_ns| is(QpLife { state: Some("ERR"), ..life(17) }, began_ns, 60);
    let after = |changes: Vec<Change>| {
        let mut follower = Follower::default();
        for change in changes {
            follower.take(change);
        }
        let seen = all(&mut follower);
        (seen.qps[0].state, seen.qps[0].control.end, seen.events.len())
    };
    assert_eq!(after(vec![sends(), dead(), to_error(49)]), (Some("ERR"), None, 0));
    assert_eq!(after(vec![sends(), dead(), to_error(51)]), (Some("ERR"), Some(ERROR), 1), "it cleans up");
    // What the device itself says stays.
    let device = "rxe0".to_owned();
    let fatal =
        QpEvent { device, lqpn: Some(17), event: "QP_FATAL".into(), time_ns: 49, ..QpEvent::default() };
    let all = vec![sends(), dead(), Change::Event(fatal), to_error(49)];
    assert_eq!(after(all), (Some("ERR"), Some(ERROR), 2));
}

#[test]
fn the_latest_call_or_list_has_the_state() {
    let mut follower = Follower::default();
    let state = |follower: &mut Follower| all(follower).qps[0].state;
    let source = |follower: &mut Follower| all(follower).qps[0].state_of;
    follower.take(is(QpLife { state: Some("INIT"), ..life(17) }, 10, 11));
    assert_eq!(source(&mut follower), None, "the verb");
    // The record of the list's query was dropped.
    follower.listed(&list(&[17], 20));
    assert_eq!((state(&mut follower), source(&mut follower)), (Some("RTS"), Some(QpSource::Netlink)));
    follower.take(is(QpLife { state: Some("SQD"), ..life(17) }, 30, 35));
    follower.listed(&list(&[17], 34));
    assert_eq!(state(&mut follower), Some("SQD"), "the verb may have returned after its query");
    // Its record comes after that of a later query.
    follower.take(found(QpLife { state: Some("RTS"), ..life(17) }, 50));
    follower.take(is(QpLife { state: Some("RTR"), ..life(17) }, 40, 45));
    assert_eq!((state(&mut follower), source(&mut follower)), (Some("RTS"), None));
    let of_context = QpLife { state: Some("ERR"), state_of: Some(QpSource::Context), ..life(17) };
    follower.shown(of_context, Span { began_ns: 60, ended_ns: 61 });
    assert_eq!(source(&mut follower), Some(QpSource::Context));
}

/// By a clock that was set back, all that follows is older than what was seen before.
#[test]
fn a_clock_that_is_set_hides_neither_death_nor_end_nor_whose_they_are() {
    const HOUR: u64 = 3_600 * NS_PER_S;
    let state = |state| QpLife { state: Some(state), ..life(17) };
    for (before, after) in [(2 * HOUR, HOUR), (HOUR, 2 * HOUR)] {
        let mut follower = Follower::default();
        let set = |follower: &mut Follower, to: u64| follower.note_clock(to.cast_signed());
        let create = |at: u64, clock: u64| {
            let control = QpControl { created_ns: Some(clock + at), ..QpControl::default() };
            is(QpLife { control, ..state("RTS") }, at - 1, at)
        };
        set(&mut follower, before);
        follower.take(create(11, before));
        follower.listed(&list(&[17], 20));
        set(&mut follower, after);
        follower.take(found(state("ERR"), 40));
        let seen = all(&mut follower);
        let (first, event) = (&seen.qps[0].control, &seen.events[0]);
        assert_eq!((first.end, first.created_ns), (Some(ERROR), Some(before + 11)), "{before} to {after}");
        assert_eq!((event.time_ns, first.lived_at(event)), (after + 40, true));
        // A verb after that did not take it there.
        set(&mut follower, before);
        follower.take(is(state("RESET"), 50, 51));
        let seen = all(&mut follower);
        assert_eq!((seen.qps[0].state, follower.deaths(), seen.events.len()), (Some("RESET"), 1, 1));
        for began_ns in [60, 70] {
            follower.listed(&list(&[], began_ns));
        }
        let control = all(&mut follower).qps[0].control.clone();
        assert_eq!((control.end, control.over_by()), (Some(GONE), Some(before + 60)));
        // Its number is used again, twice.
        set(&mut follower, after);
        follower.take(create(80, after));
        follower.take(Change::Ended { device: "rxe0".into(), lqpn: 17, port: None, time_ns: 90 });
        set(&mut follower, before);
        follower.take(create(100, before));
        follower.take(found(state("ERR"), 110));
        let seen = all(&mut follower);
        let lived = |event| seen.qps.iter().map(|qp| qp.control.lived_at(event)).collect::<Vec<_>>();
        assert_eq!(lived(&seen.events[0]), [true, false, false], "{before} to {after}");
        assert_eq!(lived(&seen.events[1]), [false, false, true], "{before} to {after}");
        let ages =
            |steady_ns| seen.qps.iter().map(|qp| qp.control.age_ns(None, steady_ns)).collect::<Vec<_>>();
        assert_eq!(ages(None), [Some(49), Some(10), None]);
        assert_eq!(ages(Some(130)), [Some(49), Some(10), Some(30)]);
        // A recording has Unix times alone.
        let control = seen.qps[2].control.clone();
        let recorded = QpControl { monotonic: MonotonicTimes::default(), ..control };
        let age_ns = |now_ns| recorded.age_ns(Some(now_ns), None);
        assert_eq!([before, before + 130].map(age_ns), [None, Some(30)], "set back since its creation");
    }
}

#[test]
fn what_lists_have_no_more_is_gone() {
    let made = |lqpn, kind, origin| {
        let control = QpControl { created_ns: Some(10), ..QpControl::default() };
        is(QpLife { kind: Some(kind), origin: Some(origin), control, ..life(lqpn) }, 9, 10)
    };
    let mut follower = Follower::default();
    for (lqpn, kind, origin) in [
        (11, "RC", VERBS),
        (12, "RC", VERBS),
        (13, "RC", DEVX),
        (14, "DRIVER", VERBS),
        (15, "RAW_PACKET", VERBS),
    ] {
        follower.take(made(lqpn, kind, origin));
    }
    let gone = |follower: &mut Follower| {
        let over = |life: &&QpLife| life.control.is_over();
        all(follower).qps.iter().filter(over).map(|life| (life.lqpn, life.control.end)).collect::<Vec<_>>()
    };
    follower.listed(&list(&[11], 5));
    follower.listed(&list(&[11], 6));
    assert_eq!(gone(&mut follower), [], "these lists began before they were made");
    follower.listed(&list(&[11], 20));
    assert_eq!(gone(&mut follower), [], "a list may skip one while others end");
    let failed = ListedDevice { unlisted: Some("I/O error".into()), ..ListedDevice::default() };
    let part = QueuePairs { devices: [("rxe0".to_owned(), failed)].into(), ..list(&[], 25) };
    follower.listed(&part);
    follower.listed(&part);
    assert_eq!(gone(&mut follower), [], "these lists are not complete");
    follower.listed(&list(&[11], 30));
    assert_eq!(gone(&mut follower), [(12, Some(GONE))], "the kernel never lists the others");
    let by = all(&mut follower).qps.iter().find_map(|life| life.control.over_by());
    assert_eq!(by, Some(20), "the first list without it");
    // Two lists had skipped it.
    follower.listed(&list(&[11, 12], 40));
    assert_eq!(gone(&mut follower), []);
    assert_eq!(all(&mut follower).qps[1].control.created_ns, Some(10));
    // The device itself is gone, with all of them.
    for began_monotonic_ns in [50, 60] {
        follower.listed(&QueuePairs { has_no_device: true, began_monotonic_ns, ..QueuePairs::default() });
    }
    assert_eq!(gone(&mut follower).len(), 5);
}

#[test]
fn verbs_missed_before_it_was_seen_connected_do_not_matter() {
    let calls = |missed_returns, may_end| Calls { missed_returns, may_end, ..Calls::default() };
    let at = |state, time_ns| found(QpLife { state: Some(state), ..life(17) }, time_ns);
    let unseen = |noted: [Calls; 2]| {
        let mut follower = Follower::default();
        follower.note_calls(&calls(3, 0));
        follower.note_calls(&calls(3, 0));
        follower.take(at("RTS", 10));
        for calls in noted {
            follower.note_calls(&calls);
        }
        follower.take(at("ERR", 20));
        all(&mut follower).events[0].unseen_verbs
    };
    assert_eq!(unseen([calls(3, 0), calls(3, 0)]), 0);
    assert_eq!(unseen([calls(3, 0), calls(4, 0)]), 1);
    assert_eq!(unseen([calls(3, 0), calls(3, 1)]), 1, "one that has not returned");
}

/// mlx5 makes the DCT in the firmware when it is connected: the kernel's structure keeps number 0.
#[test]
fn queue_pairs_without_a_number_are_counted_only() {
    let mut follower = Follower::default();
    let control = QpControl { created_ns: Some(10), ..QpControl::default() };
    let dct = QpLife { kind: Some("DRIVER"), ..life(0) };
    for time_ns in [10, 20] {
        follower.take(is(QpLife { control: control.clone(), ..dct.clone() }, time_ns, time_ns));
        follower.take(is(QpLife { state: Some("RTR"), ..dct.clone() }, time_ns + 1, time_ns + 1));
    }
    follower.take(Change::Ended { device: "rxe0".into(), lqpn: 0, port: None, time_ns: 30 });
    let seen = all(&mut follower);
    assert_eq!((seen.qps.len(), seen.unnumbered), (0, 2));
    // Of InfiniBand's subnet management.
    follower.take(is(QpLife { kind: Some("SMI"), control, ..life(0) }, 10, 10));
    assert_eq!(all(&mut follower).qps.len(), 1);
}

/// Each port has its own QP1.
#[test]
fn queue_pairs_for_management_have_a_life_for_each_port() {
    let mut follower = Follower::default();
    let qp1 = |port, state, ns| {
        let control = QpControl { created_ns: (state == "RESET").then_some(ns), ..QpControl::default() };
        let kind = Some("GSI");
        is(QpLife { kind, port: Some(port), state: Some(state), control, ..life(1) }, ns, ns)
    };
    for (at, port) in [(10, 1), (20, 2)] {
        follower.take(qp1(port, "RESET", at));
        follower.take(qp1(port, "RTS", at + 1));
    }
    follower.take(Change::Ended { device: "rxe0".into(), lqpn: 1, port: Some(2), time_ns: 50 });
    let ends: Vec<_> = all(&mut follower).qps.iter().map(|qp| (qp.port, qp.state, qp.control.end)).collect();
    assert_eq!(ends, [(Some(1), Some("RTS"), None), (Some(2), Some("RTS"), Some(DESTROYED))]);
}

/// Its end is noted when the verb begins, since afterwards nothing of it is left.
#[test]
fn a_destroy_that_failed_ends_no_life() {
    let mut follower = Follower::default();
    let dead =
        QpEvent { device: "rxe0".into(), lqpn: Some(17), event: "QP_FATAL".into(), ..QpEvent::default() };
    let busy = |lqpn| QpEvent {
        device: "rxe0".into(),
        lqpn: Some(lqpn),
        event: DESTROY.into(),
        errno: Some(16),
        time_ns: 31,
        ..QpEvent::default()
    };
    for lqpn in [17, 18] {
        follower.take(is(QpLife { state: Some("RTS"), pid: Some(1), ..life(lqpn) }, 9, 10));
    }
    follower.take(Change::Event(dead));
    for lqpn in [17, 18] {
        follower.take(Change::Ended { device: "rxe0".into(), lqpn, port: None, time_ns: 30 });
        follower.take(Change::Kept(busy(lqpn)));
    }
    let seen = all(&mut follower);
    let ends: Vec<_> = seen.qps.iter().map(|qp| (qp.state, qp.control.ended_ns, qp.control.end)).collect();
    assert_eq!(ends, [(Some("RTS"), None, Some(ERROR)), (Some("RTS"), None, None)]);
    assert_eq!((seen.events[1].errno, seen.events[1].pid), (Some(16), Some(1)));
    follower.take(Change::Ended { device: "rxe0".into(), lqpn: 18, port: None, time_ns: 40 });
    let over = all(&mut follower).qps[1].control.clone();
    assert_eq!((over.ended_ns, over.end), (Some(40), Some(DESTROYED)));
}

/// The process in a query is that of its maker, whose thread may have ended; where the creation was seen it is known.
#[test]
fn the_maker_of_an_older_queue_pair_is_known_from_a_query() {
    let mut follower = Follower::default();
    let by = |pid, pod: Option<&str>, lqpn| QpLife {
        pid: Some(pid),
        comm: Some("train".into()),
        pod: pod.map(str::to_owned),
        origin: Some(VERBS),
        state: Some("RTS"),
        ..life(lqpn)
    };
    follower.take(found(by(5, Some("trainer-0"), 17), 10));
    let control = QpControl { created_ns: Some(9), ..QpControl::default() };
    follower.take(is(QpLife { control, ..by(6, None, 18) }, 9, 10));
    follower.take(found(by(6, Some("moved since"), 18), 20));
    let seen = all(&mut follower);
    let makers: Vec<_> = seen.qps.iter().map(|qp| (qp.pid, qp.pod.as_deref(), qp.origin)).collect();
    assert_eq!(makers, [(Some(5), Some("trainer-0"), Some(VERBS)), (Some(6), None, Some(VERBS))]);
}

#[test]
fn connecting_takes_the_time_of_both_verbs_and_ends_once() {
    let verb = |state, connected_ns, took_ns| {
        let control = QpControl { connected_ns, connect_took_ns: Some(took_ns), ..QpControl::default() };
        is(QpLife { state: Some(state), control, ..life(17) }, 1, 2)
    };
    let found = |state| found(QpLife { state: Some(state), ..life(17) }, 2);
    let connected = |changes: Vec<Change>| {
        let mut follower = Follower::default();
        for (at, change) in (1..).zip(changes) {
            let call = Span { began_ns: 10 * at, ended_ns: 10 * at + 1 };
            follower.take(match change {
                Change::Is(life, _) => Change::Is(life, call),
                Change::Found(life, _) => Change::Found(life, call),
                other => other,
            });
        }
        let control = &all(&mut follower).qps[0].control;
        (control.connected_ns, control.connect_took_ns)
    };
    assert_eq!(connected(vec![verb("RTR", None, 40)]), (None, Some(40)));
    let both = || vec![verb("RTR", None, 40), found("RTR"), verb("RTS", Some(100), 2), found("RTS")];
    assert_eq!(connected(both()), (Some(100), Some(42)));
    // SQD and back: it was connected before.
    let again = vec![is(QpLife { state: Some("SQD"), ..life(17) }, 3, 4), verb("RTS", Some(700), 9)];
    assert_eq!(connected([both(), again].concat()), (Some(100), Some(42)));
    let reset = vec![is(QpLife { state: Some("RESET"), ..life(17) }, 5, 6)];
    assert_eq!(connected([both(), reset.clone()].concat()), (None, None));
    let anew = vec![verb("RTR", None, 1), verb("RTS", Some(800), 1)];
    assert_eq!(connected([both(), reset, anew].concat()), (Some(800), Some(2)));
    assert_eq!(connected(vec![verb("RTS", Some(100), 2)]), (Some(100), None), "the verb to RTR was missed");
    assert_eq!(connected(vec![found("RTS")]), (None, None), "connected before the run");
}

/// Listing queries each queue pair while its process continues.
#[test]
fn a_query_that_verbs_overtake_changes_nothing() {
    use crate::util::time::NS_PER_S as SECOND;
    let control = QpControl { created_ns: Some(SECOND), ..QpControl::default() };
    let state = |state| QpLife { state: Some(state), ..life(17) };
    let query = |began_ns, ended_ns| Change::Found(state("RESET"), Span { began_ns, ended_ns });
    let mut follower = Follower::default();
    follower.take(is(QpLife { control, ..state("RESET") }, SECOND - 1, SECOND));
    follower.take(is(state("INIT"), 2 * SECOND, 2 * SECOND + 10));
    follower.take(query(2 * SECOND + 5, 2 * SECOND + 20));
    assert_eq!(all(&mut follower).qps[0].state, Some("INIT"));
    // The result of a later verb was missed.
    follower.take(query(2 * SECOND + 11, 2 * SECOND + 20));
    assert_eq!(all(&mut follower).qps[0].state, Some("RESET"));
    follower.take(found(state("RTS"), 2 * SECOND + 30));
    assert_eq!(all(&mut follower).qps[0].state, Some("RTS"));
    follower.take(Change::Ended { device: "rxe0".into(), lqpn: 17, port: None, time_ns: 3 * SECOND });
    follower.take(found(state("RTS"), 3 * SECOND + 1));
    assert_eq!(all(&mut follower).qps.len(), 1, "it is gone");
    // The number is reused, and the creation was missed.
    follower.take(found(state("RTS"), 9 * SECOND));
    assert_eq!(all(&mut follower).qps.len(), 2);
    // Created before the run: everything known comes from queries.
    let mut follower = Follower::default();
    follower.take(found(state("RTS"), SECOND));
    follower.take(found(state("RESET"), 2 * SECOND));
    assert_eq!(all(&mut follower).qps[0].state, Some("RESET"));
}

#[test]
fn what_there_is_no_room_for_is_counted() {
    let mut follower = Follower::default();
    for lqpn in 1..=u32::try_from(MOST_ENDED).unwrap() + 3 {
        follower.take(Change::Ended { device: "rxe0".into(), lqpn, port: None, time_ns: 5 });
    }
    for _ in 0..MOST_EVENTS + 2 {
        follower.take(Change::Event(QpEvent::default()));
    }
    let seen = all(&mut follower);
    assert_eq!((seen.qps.len(), seen.qps_left_out), (MOST_ENDED, 3));
    assert_eq!((seen.events.len(), seen.events_left_out), (MOST_EVENTS, 2));
}

/// Values computed by hand from the kernel's two functions.
#[test]
fn source_ports_are_those_of_the_kernel() {
    let kernel = |major, minor| Some(KernelVersion::new(major, minor, 0));
    for (label, lqpn, rqpn, expected) in [
        (0x9_0e25, 17, 29, 0xce01),
        // 17 · 29 = 0x1ed.
        (0, 17, 29, 0xc1ed),
        (0, 0x1000, 0x1000, 0xc010),
    ] {
        let port = udp_source_port("rxe", kernel(6, 1), label, lqpn, rqpn).map(u32::from);
        assert_eq!(port, Some(expected), "{label} {lqpn} {rqpn}");
    }
    assert_eq!(udp_source_port("bnxt_re", kernel(6, 1), 1, 2, 3), None);
    let on_5_15 = |driver: &str| udp_source_port(driver, kernel(5, 15), 0, 17, 29);
    assert_eq!((on_5_15("rxe"), on_5_15("mlx5_ib")), (None, Some(0xc1ed)), "Soft-RoCE had a rule of its own");
}

/// The kernel's lists name the peer of RC and UC alone.
#[test]
fn a_listed_queue_pair_of_xrc_has_the_peer_of_its_life() {
    let mut follower = Follower::default();
    follower.take(is(QpLife { rqpn: Some(29), state: Some("RTR"), ..life(17) }, 1, 2));
    let listed = |lqpn, kind| QueuePair {
        device: "rxe0".into(),
        port: Some(1),
        lqpn,
        kind: Some(kind),
        state: Some("RTR"),
        ..QueuePair::default()
    };
    let peer = |lqpn, kind| follower.with_peer(&listed(lqpn, kind)).map(|qp| (qp.lqpn, qp.rqpn));
    assert_eq!(peer(17, "XRC_TGT"), Some((17, Some(29))));
    assert_eq!([peer(17, "RC"), peer(18, "XRC_TGT")], [None, None]);
}
