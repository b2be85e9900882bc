use super::*;
use crate::entity::lives::NUMBER_REUSED;
use crate::entity::lives::QpControl;
use crate::util::source_port::udp_source_port;
use crate::util::system::KernelVersion;

fn life(lqpn: u32) -> QpLife {
    QpLife { device: "rxe0".into(), lqpn, ..QpLife::default() }
}

fn all(follower: &mut Follower) -> Arc<Lives> {
    follower.sample(&Calls::default(), None)
}

#[test]
fn a_life_is_put_together_from_its_calls() {
    let mut follower = Follower::default();
    let made = |ns| QpControl { created_ns: Some(ns), ..QpControl::default() };
    follower.take(Change::Is(QpLife { pid: Some(1), state: Some("RESET"), control: made(10), ..life(17) }));
    follower.take(Change::Is(QpLife { state: Some("RTR"), rqpn: Some(29), pid: Some(2), ..life(17) }));
    follower.take(Change::Is(QpLife {
        state: Some("RTS"),
        control: QpControl { retry_cnt: Some(7), ..QpControl::default() },
        ..life(17)
    }));
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
    let found = QpLife { state: Some("RTS"), rqpn: Some(29), ..life(17) };
    follower.take(Change::Found { life: found, time_ns: 50 });
    assert!(Arc::ptr_eq(&seen, &all(&mut follower)), "nothing has changed");
    follower.take(Change::Ended { device: "rxe0".into(), lqpn: 17, time_ns: 99 });
    let over = &all(&mut follower).qps[0].control;
    assert_eq!((over.ended_ns, over.end, over.is_over()), (Some(99), Some(ERROR), true), "QP_FATAL");
    // The reused number is another queue pair.
    follower.take(Change::Is(QpLife { control: made(120), ..life(17) }));
    let qps = all(&mut follower).qps.clone();
    assert_eq!(qps.iter().map(|qp| qp.control.ended_ns).collect::<Vec<_>>(), [Some(99), None]);
    // Once more, and its destruction was not seen.
    follower.take(Change::Is(QpLife { control: made(130), ..life(17) }));
    let qps = all(&mut follower).qps.clone();
    let ends: Vec<_> = qps.iter().map(|qp| (qp.control.created_ns, qp.control.end)).collect();
    assert_eq!(ends, [(Some(10), Some(ERROR)), (Some(120), Some(NUMBER_REUSED)), (Some(130), None)]);
    assert!(qps[1].control.is_over() && !qps[2].control.is_over());
    let lived = |at: u64| qps.iter().map(|qp| qp.control.lived_at(at)).collect::<Vec<_>>();
    assert_eq!(lived(125), [false, true, false]);
    assert_eq!(
        lived(140),
        [false, false, true],
        "the events of a number are those of the queue pair that has it"
    );
}

#[test]
fn a_queue_pair_in_the_error_state_died_unless_a_verb_took_it_there() {
    let found = |state| Change::Found { life: QpLife { state: Some(state), ..life(17) }, time_ns: 50 };
    let is = |state| Change::Is(QpLife { state: Some(state), pid: Some(1), ..life(17) });
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
    let destroyed = || Change::Ended { device: "rxe0".into(), lqpn: 17, time_ns: 60 };
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
    assert_eq!(end(vec![is("RTS"), found("ERR"), is("RESET")]), None, "a verb took it out of that state");
    // It was in the error state before the run.
    assert_eq!(deaths(vec![found("ERR"), found("ERR")]), []);

    // Created before the run, and listed with its process before it died.
    let mut follower = Follower::default();
    follower.take(found("RTS"));
    follower.owned(&QpOwner {
        device: "rxe0".into(),
        lqpn: 17,
        pid: Some(4_711),
        comm: Some("train".into()),
        pod: Some("trainer-0".into()),
        ..QpOwner::default()
    });
    follower.take(found("ERR"));
    let event = &all(&mut follower).events[0];
    assert_eq!((event.pid, event.comm.as_deref()), (Some(4_711), Some("train")));
    assert_eq!(all(&mut follower).qps[0].pod.as_deref(), Some("trainer-0"));
}

#[test]
fn connecting_takes_the_time_of_both_verbs_and_ends_once() {
    let verb = |state, connected_ns, took_ns| {
        let control = QpControl { connected_ns, connect_took_ns: Some(took_ns), ..QpControl::default() };
        Change::Is(QpLife { state: Some(state), control, ..life(17) })
    };
    let found = |state| Change::Found { life: QpLife { state: Some(state), ..life(17) }, time_ns: 900 };
    let connected = |changes: Vec<Change>| {
        let mut follower = Follower::default();
        for change in changes {
            follower.take(change);
        }
        let control = &all(&mut follower).qps[0].control;
        (control.connected_ns, control.connect_took_ns)
    };
    assert_eq!(connected(vec![verb("RTR", None, 40)]), (None, Some(40)));
    let both = || vec![verb("RTR", None, 40), found("RTR"), verb("RTS", Some(100), 2), found("RTS")];
    assert_eq!(connected(both()), (Some(100), Some(42)));
    // SQD and back: it was connected before.
    let again = vec![Change::Is(QpLife { state: Some("SQD"), ..life(17) }), verb("RTS", Some(700), 9)];
    assert_eq!(connected([both(), again].concat()), (Some(100), Some(42)));
    let reset = vec![Change::Is(QpLife { state: Some("RESET"), ..life(17) })];
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
    let is = |state| Change::Is(QpLife { state: Some(state), ..life(17) });
    let found = |state, time_ns| Change::Found { life: QpLife { state: Some(state), ..life(17) }, time_ns };
    let mut follower = Follower::default();
    follower.take(Change::Is(QpLife { state: Some("RESET"), control, ..life(17) }));
    follower.take(is("INIT"));
    follower.take(found("RESET", 2 * SECOND));
    assert_eq!(all(&mut follower).qps[0].state, Some("INIT"));
    // A later state than that of the verbs seen is new information: a return of a verb may have been missed.
    follower.take(found("RTS", 2 * SECOND));
    assert_eq!(all(&mut follower).qps[0].state, Some("RTS"));
    follower.take(Change::Ended { device: "rxe0".into(), lqpn: 17, time_ns: 3 * SECOND });
    follower.take(found("RTS", 3 * SECOND + 1));
    assert_eq!(all(&mut follower).qps.len(), 1, "it is gone");
    // The number is reused, and the creation was missed.
    follower.take(found("RTS", 9 * SECOND));
    assert_eq!(all(&mut follower).qps.len(), 2);
    // Created before the run: everything known comes from queries.
    let mut follower = Follower::default();
    follower.take(found("RTS", SECOND));
    follower.take(found("RESET", 2 * SECOND));
    assert_eq!(all(&mut follower).qps[0].state, Some("RESET"));
}

#[test]
fn what_there_is_no_room_for_is_counted() {
    let mut follower = Follower::default();
    for lqpn in 0..u32::try_from(MOST_ENDED).unwrap() + 3 {
        follower.take(Change::Ended { device: "rxe0".into(), lqpn, time_ns: 5 });
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
