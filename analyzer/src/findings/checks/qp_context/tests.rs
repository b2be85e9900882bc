use std::sync::Arc;

use super::*;
use crate::analysis::{Options, fixtures};
use crate::entity::contexts::{Blamed, ContextSample, Contexts};
use crate::entity::devices::{Devices, PortSample, SourceSample};
use crate::entity::interval::Interval;
use crate::entity::lives::{DEVX, Lives, PathChoices, QpLife};
use crate::findings::tests::found;
use crate::host::rdma::qp_context::QpContext;
use crate::sample::{Sample, SourceKind};
use crate::source::devices::context::ask::tests::{IDLE, Nic, Virtual};
use crate::util::time::NS_PER_MS as MS;

/// `count` queue pairs of mlx5_0/1 from number 298, connected, with contexts modified by `change`.
fn sample(count: u32, change: impl Fn(u32, &mut ContextSample), more: impl Fn(&mut PortSample)) -> Sample {
    let numbers = 298..298 + count;
    let life = |lqpn: u32| fixtures::qp_life(lqpn, lqpn + 653);
    let context = |(at, lqpn): (u32, u32)| {
        let mut context = ContextSample {
            device: "mlx5_0".into(),
            port: 1,
            lqpn,
            context: QpContext { udp_port: Some(50_000), ..QpContext::default() },
            read_ns: fixtures::START + 20_000 * MS,
            readings: 40,
            sent: Some(100),
            in_flight: Some(0),
            stuck_ns: Some(0),
            retries_used: Some(0),
            rnr_retries_used: Some(0),
            ..ContextSample::default()
        };
        change(at, &mut context);
        context
    };
    let mut port = fixtures::port();
    more(&mut port);
    let lives = Lives { qps: Arc::new(numbers.clone().map(life).collect()), ..Lives::default() };
    let mut sample = fixtures::with_lives(port, lives);
    sample.kind = SourceKind::Live;
    let contexts = Contexts { qps: (0..).zip(numbers).map(context).collect(), ..Contexts::default() };
    sample.devices = Arc::new(Devices { contexts: Arc::new(contexts), ..(*sample.devices).clone() });
    sample
}

/// The findings of this family.
fn all(sample: &Sample) -> Vec<Finding> {
    let own = |one: &Finding| FAMILY.entries.iter().any(|entry| entry.id == one.id);
    found(sample, &Options::default()).into_iter().filter(own).collect()
}

fn only(sample: &Sample) -> Finding {
    let mut all = all(sample);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn healthy_contexts_are_no_finding() {
    assert_eq!(all(&sample(16, |_, _| {}, |_| {})), []);
    // In flight and progressing; a retry seen once; a receive queue found empty twice.
    let busy = |_: u32, qp: &mut ContextSample| {
        (qp.in_flight, qp.stuck_ns, qp.retrying, qp.receives_exhausted) = (Some(64), Some(0), 1, 2);
        qp.context.posted_receives = Some(4);
    };
    assert_eq!(all(&sample(16, busy, |_| {})), []);
}

#[test]
fn a_stuck_queue_pair_is_named_with_its_path_and_owner() {
    let stuck = |ms: u64| {
        sample(
            3,
            move |at, qp| {
                if at < 2 {
                    (qp.in_flight, qp.stuck_ns) = (Some(20), Some(ms * MS - u64::from(at)));
                    (qp.retries_used, qp.retrying) = (Some(3), 9);
                }
            },
            |_| {},
        )
    };
    assert_eq!(all(&stuck(999)).iter().filter(|one| one.id == "qp.stuck").count(), 0);
    let one = only(&stuck(1_001));
    assert_eq!((one.id, one.severity), ("qp.stuck", Severity::Warning), "and retrying is not said beside it");
    assert_eq!(only(&stuck(12_000)).severity, Severity::Critical);
    let one = only(&stuck(12_000));
    assert_eq!(one.title, "QP 298 of mlx5_0 stuck for 12.0 s: 20 packets unacknowledged (+1 more QP)");
    let (requester, responder) = (one.requester.as_ref().unwrap(), one.responder.as_ref().unwrap());
    assert_eq!((requester.pid, responder.qpn), (Some(4_711), Some(951)));
    assert_eq!((one.evidence["udp_port"].clone(), one.evidence["qps"].clone()), (50_000.into(), 2.into()));
    let commands: Vec<&str> = one.steps.iter().filter_map(|step| step.command.as_deref()).collect();
    assert!(commands.contains(&"rdma resource show qp link mlx5_0/1 lqpn 298"), "{commands:?}");
    let end = fixtures::START + 20_000 * MS;
    assert_eq!(one.episodes[0].first_ns, end - 12_000 * MS);
    // Views mark the other one, too.
    let about: Vec<u32> = one.subject.queue_pairs.iter().map(|qp| qp.lqpn).collect();
    assert_eq!(about, [298, 299]);
}

#[test]
fn retries_come_with_the_timeouts_that_are_attributed() {
    let with = |readings, blamed| {
        sample(
            2,
            move |at, qp| (qp.retrying, qp.blamed) = if at == 0 { (readings, blamed) } else { (0, None) },
            |_| {},
        )
    };
    assert_eq!(all(&with(2, None)), []);
    let one = only(&with(3, None));
    assert_eq!(one.id, "qp.retrying");
    assert!(one.title.starts_with("QP 298 of mlx5_0 retries: in 3 of 40 readings"), "{}", one.title);
    for (certain, word) in [(true, "certain"), (false, "likely")] {
        let one = only(&with(3, Some(Blamed { timeouts: 7, sequence_errors: 2, certain })));
        assert!(
            one.title.starts_with(&format!("QP 298 of mlx5_0 retries: 7 timeouts ({word})")),
            "{}",
            one.title
        );
        assert_eq!(one.evidence["attribution"], word);
    }
}

#[test]
fn retries_have_episodes_of_readings() {
    let at = |second: u64| fixtures::START + second * 1_000 * MS;
    let time = |from: u64, to: u64, count: u64, before: u64, last: u64| Interval {
        first_ns: at(from),
        last_ns: at(to),
        count,
        at_first: before,
        at_last: last,
    };
    let with = |times: &[Interval]| {
        let times = times.to_vec();
        let sample = sample(
            1,
            move |_, qp| {
                qp.retrying = times.iter().map(|one| one.count).sum();
                qp.times.retrying = times.clone().into();
                qp.blamed = Some(Blamed { timeouts: 7, sequence_errors: 0, certain: true });
            },
            |_| {},
        );
        Sample { window: Some((at(0), at(20))), ..sample }
    };
    let one = only(&with(&[time(14, 19, 6, 20, 28)]));
    assert_eq!((one.first_seen_ns, one.last_seen_ns, one.active), (Some(at(14)), Some(at(19)), true));
    assert_eq!(
        (one.evidence["retrying_readings"].clone(), one.evidence["readings"].clone()),
        (6.into(), 8.into())
    );
    assert!(one.title.starts_with("QP 298 of mlx5_0 retries: 7 timeouts (certain)"), "{}", one.title);
    // It ends although its context is still read.
    let one = only(&with(&[time(1, 5, 4, 2, 6)]));
    assert_eq!((one.last_seen_ns, one.active), (Some(at(5)), false));
    let twice = only(&with(&[time(1, 3, 3, 2, 5), time(14, 19, 6, 20, 28)]));
    assert_eq!((twice.first_seen_ns, twice.since_ns(), twice.episodes.len()), (Some(at(1)), Some(at(14)), 2));
    assert!(twice.title.starts_with("QP 298 of mlx5_0 retries: in 6 of 8 readings"), "{}", twice.title);
    assert!(twice.evidence.get("timeouts").unwrap().label.ends_with(", all episodes"));
    // Too few at a time, enough together.
    let one = only(&with(&[time(1, 2, 2, 2, 4), time(18, 18, 1, 20, 21)]));
    assert_eq!(
        (one.first_seen_ns, one.episodes.len(), &one.evidence["readings"]),
        (Some(at(1)), 1, &19.into())
    );
}

#[test]
fn the_receiver_is_at_the_end_that_has_no_receives() {
    let counted = |name: &'static str, n| {
        move |port: &mut PortSample| {
            port.counters = vec![SourceSample {
                source: "sysfs hw_counters",
                values: vec![(name.to_owned(), n)],
                resets: 0,
            }];
        }
    };
    let here = |readings, n| {
        let exhausted = move |_: u32, qp: &mut ContextSample| {
            qp.receives_exhausted = readings;
            qp.context.posted_receives = Some(0);
        };
        sample(1, exhausted, counted("rnr_naks_sent", n))
    };
    let ids = |sample: &Sample| -> Vec<&'static str> { all(sample).iter().map(|one| one.id).collect() };
    assert_eq!((ids(&here(2, 9)), ids(&here(3, 0))), (vec![], vec![]), "too few, and nobody was refused");
    let one = only(&here(3, 9));
    assert_eq!(one.id, "qp.receiver_behind");
    assert_eq!(
        one.responder.as_ref().and_then(|end| end.pid),
        Some(4_711),
        "the process of this host receives"
    );
    assert!(
        one.steps.iter().any(|step| step.command.as_deref() == Some("top -H -b -n 1 -p 4711")),
        "{:?}",
        one.steps
    );
    let there = sample(1, |_, qp| qp.rnr_retrying = 3, |_| {});
    let one = only(&there);
    assert!(one.title.starts_with("QP 298 of mlx5_0 waits for its receiver (RNR)"), "{}", one.title);
    assert_eq!(one.requester.as_ref().and_then(|end| end.pid), Some(4_711));
}

#[test]
fn a_bond_of_which_one_port_is_used_is_named() {
    let bond = |ports: &'static [u8], members: usize| {
        let members: Vec<String> = (0..members).map(|at| format!("eth{at}")).collect();
        let count = u32::try_from(ports.len()).unwrap();
        sample(
            count,
            |at, qp| qp.context.bond_port = Some(ports[at as usize]).filter(|port| *port > 0),
            move |port| port.members.clone_from(&members),
        )
    };
    let one = only(&bond(&[2, 2, 2, 2], 2));
    assert_eq!(
        (one.id, one.title.as_str()),
        ("qp.one_bond_port", "All 4 QPs of mlx5_0 use port 2 of its bond of 2")
    );
    for healthy in
        [bond(&[1, 2, 1, 2], 2), bond(&[1, 1, 1], 2), bond(&[1, 1, 1, 1], 0), bond(&[0, 0, 0, 0], 2)]
    {
        assert_eq!(all(&healthy), []);
    }
}

/// No list of the kernel has those of a GPU, so that no context is read.
#[test]
fn port_and_plane_may_be_those_of_commands() {
    let of = |choices: &dyn Fn(u32) -> PathChoices| {
        let life = |lqpn: u32| QpLife {
            origin: Some(DEVX),
            choices: choices(lqpn),
            ..fixtures::qp_life(lqpn, lqpn + 653)
        };
        let lives = Lives { qps: Arc::new((298..306).map(life).collect()), ..Lives::default() };
        let port = PortSample { members: vec!["eth0".into(), "eth1".into()], ..fixtures::port() };
        Sample { kind: SourceKind::Live, ..fixtures::with_lives(port, lives) }
    };
    let on_port = |bond_port| PathChoices { bond_port: Some(bond_port), ..PathChoices::default() };
    let on_plane = |plane| PathChoices { plane: Some(plane), ..PathChoices::default() };
    let one = only(&of(&|_| on_port(2)));
    assert_eq!(one.title, "All 8 QPs of mlx5_0 use port 2 of its bond of 2");
    let one = only(&of(&|lqpn| on_plane(if lqpn == 305 { 2 } else { 1 })));
    assert_eq!(one.title, "Plane 1 of mlx5_0 carries 1.8 × the mean of 2 planes");
    for healthy in [of(&|lqpn| on_port(if lqpn < 302 { 1 } else { 2 })), of(&|_| PathChoices::default())] {
        assert_eq!(all(&healthy), []);
    }
}

#[test]
fn a_plane_that_carries_more_than_the_others_is_named() {
    let with_mtus = |sent: &'static [(u8, u64)], mtu: fn(u8) -> Option<u32>| {
        let of = |at: u32, qp: &mut ContextSample| {
            let (plane, sent) = sent[at as usize];
            (qp.context.plane, qp.sent, qp.context.path_mtu) = (Some(plane), Some(sent), mtu(plane));
        };
        sample(u32::try_from(sent.len()).unwrap(), of, |_| {})
    };
    let planes = |sent| with_mtus(sent, |_| Some(4_096));
    let even = &[(1, 9), (2, 9), (3, 9), (4, 9), (1, 9), (2, 9), (3, 9), (4, 9)];
    assert_eq!(all(&planes(even)), []);
    let uneven = &[(1, 90), (2, 9), (3, 9), (4, 9), (1, 90), (2, 9), (3, 9), (4, 9)];
    let one = only(&planes(uneven));
    assert_eq!(
        (one.id, one.title.as_str()),
        ("qp.uneven_planes", "Plane 1 of mlx5_0 carries 3.1 × the mean of 4 planes")
    );
    assert_eq!(all(&planes(&uneven[..7])), [], "too few queue pairs");
    // As many packets, but four times as many bytes.
    let by_mtu = with_mtus(even, |plane| Some(if plane == 1 { 4_096 } else { 1_024 }));
    let one = only(&by_mtu);
    assert_eq!(one.title, "Plane 1 of mlx5_0 carries 2.3 × the mean of 4 planes");
    let shown = "plane 1: 73.7 kB, plane 2: 18.4 kB, plane 3: 18.4 kB, plane 4: 18.4 kB";
    assert_eq!(one.evidence["by_plane"], shown);
    assert_eq!(all(&with_mtus(uneven, |_| None)), [], "by queue pairs they are even");
}

/// A virtual NIC with eight queue pairs, whose context dumps are read, decoded and followed like those of hardware:
/// idle at first, then in the state that `of` gives after `ms`.
fn of_nic(of: impl Fn(u32, u64) -> Virtual, more: impl Fn(&mut PortSample)) -> Vec<Finding> {
    let nic = Nic::with(8);
    let mut asker = nic.asker(50, "mlx5_ib");
    nic.counts(&mut asker, 0);
    nic.run(&mut asker, 3_000, |_, _| {});
    nic.run(&mut asker, 5_000, |ms, qps| {
        for (lqpn, qp) in qps {
            *qp = of(*lqpn, ms);
        }
    });
    nic.counts(&mut asker, 10_000);
    let mut port = fixtures::port();
    more(&mut port);
    let qps = (1..=8).map(|lqpn| fixtures::qp_life(lqpn, lqpn + 1_000)).collect();
    let mut sample = fixtures::with_lives(port, Lives { qps: Arc::new(qps), ..Lives::default() });
    sample.kind = SourceKind::Live;
    sample.devices = Arc::new(Devices { contexts: asker.sample(), ..(*sample.devices).clone() });
    all(&sample)
}

#[test]
fn dumps_of_a_nic_become_findings() {
    let psn = |ms: u64| 10 + u32::try_from(ms / 10).unwrap();
    // All of them send and receive ACKs.
    let busy = move |ms| Virtual { next: psn(ms), acked: psn(ms), ..IDLE };
    let of_second = move |lqpn, ms, other: Virtual| if lqpn == 2 { other } else { busy(ms) };
    let refusing = |port: &mut PortSample| {
        let values = vec![("rnr_naks_sent".to_owned(), 9)];
        port.counters = vec![SourceSample { source: "sysfs hw_counters", values, resets: 0 }];
    };
    let bonded = |port: &mut PortSample| port.members = vec!["eth0".into(), "eth1".into()];
    let plain = |_: &mut PortSample| {};
    let stuck = move |lqpn, ms| of_second(lqpn, ms, Virtual { next: 40, acked: 20, retry_now: 4, ..IDLE });
    let retrying = move |lqpn, ms| {
        of_second(lqpn, ms, Virtual { next: psn(ms) + 9, acked: psn(ms), retry_now: 5, ..IDLE })
    };
    let behind = move |lqpn, ms| of_second(lqpn, ms, Virtual { received: psn(ms), ..busy(ms) });
    let waiting = move |lqpn, ms| {
        of_second(lqpn, ms, Virtual { next: psn(ms) + 9, acked: psn(ms), rnr_retry_now: 3, ..IDLE })
    };
    let one_port = move |_, ms| Virtual { bond_port: 2, ..busy(ms) };
    let both_ports = move |lqpn, ms| Virtual { bond_port: 1 + lqpn % 2, ..busy(ms) };
    let one_plane = move |lqpn, ms| Virtual { plane: if lqpn == 8 { 2 } else { 1 }, ..busy(ms) };
    let titles = |found: Vec<Finding>| -> Vec<(&'static str, String)> {
        found.into_iter().map(|one| (one.id, one.title)).collect()
    };
    for (found, id, begin) in [
        (of_nic(stuck, plain), "qp.stuck", "QP 2 of mlx5_0 stuck for "),
        (of_nic(retrying, plain), "qp.retrying", "QP 2 of mlx5_0 retries: in "),
        (of_nic(behind, refusing), "qp.receiver_behind", "QP 2 of mlx5_0 has no receive posted: "),
        (of_nic(waiting, plain), "qp.receiver_behind", "QP 2 of mlx5_0 waits for its receiver (RNR): "),
        (of_nic(one_port, bonded), "qp.one_bond_port", "All 8 QPs of mlx5_0 use port 2 of its bond of 2"),
        (of_nic(one_plane, plain), "qp.uneven_planes", "Plane 1 of mlx5_0 carries 1."),
    ] {
        let dated = found.iter().any(|one| one.first_seen_ns.is_some());
        assert_eq!(dated, !["qp.one_bond_port", "qp.uneven_planes"].contains(&id), "{id}");
        let found = titles(found);
        assert!(
            matches!(&found[..], [(one, title)] if *one == id && title.starts_with(begin)),
            "{id}: {found:?}"
        );
    }
    for (name, healthy) in [
        ("sending", of_nic(move |_, ms| busy(ms), plain)),
        ("receiving", of_nic(behind, plain)),
        ("both ports", of_nic(both_ports, bonded)),
    ] {
        assert_eq!(titles(healthy), [], "{name}");
    }
}
