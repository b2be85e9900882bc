//! Steps of made-up jobs.

use super::*;
use crate::metrics::traffic::LinkTraffic;
use crate::metrics::traffic::flowlets::{EndedFlowlets, Flowlets};
use crate::metrics::traffic::hosts::Pairs;
use rocescope_common::abi::Counter;
use rocescope_common::account::FlowKey;
use rocescope_common::wire::Frame;

pub(super) use crate::util::time::NS_PER_MS as MS;

pub(super) fn host(number: u32) -> Host {
    (4, [0, 0, 0, number])
}

/// Traffic of one link from (src, dst, start, end in ms, tens of bytes).
fn traffic(flowlets: &[(u32, u32, u64, u64, u64)], window_end_ms: u64) -> Traffic {
    let mut pairs = Pairs::default();
    let mut all = Flowlets::default();
    for (src, dst, start, end, bytes) in flowlets {
        let frame = Frame { src: host(*src).1, dst: host(*dst).1, family: 4, ..Frame::EMPTY };
        let pair = pairs.number(&FlowKey::of(&frame, 0), 64);
        let seen = crate::metrics::traffic::hosts::BinPackets {
            packets: 1,
            bytes: 1,
            data_packets: 1,
            data_bytes: 1,
            ..Default::default()
        };
        pairs.packets(pair, seen);
        all.ended.push(Record {
            start_ns: start * MS,
            end_ns: end * MS,
            // In tens, to keep the lists readable.
            fresh_bytes: 10 * *bytes,
            pair,
            dest_qp: *src,
        });
    }
    Traffic {
        bin_ns: MS,
        links: vec![LinkTraffic {
            bursts: None,
            frame_sizes: None,
            last_ns: Some(window_end_ms * MS),
            lost: Counter::default(),
        }],
        pairs: pairs.pairs().to_vec(),
        flowlets: all,
        ..Traffic::default()
    }
}

/// Sixteen steps of a ring as host 2 of three sees it: 1 sends to 2, 2 sends to 3, in two phases. `late` adds to the
/// start of a host from step 6 on; who needs its data waits.
fn ring(late_host: u32, late_ms: u64) -> Vec<(u32, u32, u64, u64, u64)> {
    let mut list = Vec::new();
    let mut at = 1000;
    for step in 0..16 {
        let late = |host| if host == late_host && step >= 6 { late_ms } else { 0 };
        let (one, two, three) = (at + late(1), at + 2 + late(2), at + 4 + late(3));
        // First phase: everyone for itself. Second: with the first of the host before.
        let (one_2, two_2) = (one.max(three + 10) + 12, two.max(one + 10) + 12);
        list.extend([(1, 2, one, one + 9, 5000), (2, 3, two, two + 9, 5000)]);
        list.extend([(1, 2, one_2, one_2 + 9, 5000), (2, 3, two_2, two_2 + 9, 5000)]);
        at = one_2.max(two_2) + 60;
    }
    list
}

fn straggler(list: &[(u32, u32, u64, u64, u64)]) -> Option<Straggler> {
    let found = steps(&traffic(list, 10_000), &[]).expect("a rhythm");
    assert!((12..=16).contains(&found.links[0].steps.len()), "{:?}", found.links[0].steps);
    found.straggler
}

#[test]
fn nobody_is_late_in_a_healthy_ring() {
    assert_eq!(straggler(&ring(0, 0)), None);
    // Less than a tenth of a step.
    assert_eq!(straggler(&ring(1, 6)), None);
}

/// A damaged stream from an agent may claim any number of bytes.
#[test]
fn sums_of_any_bytes_stay_within_64_bits() {
    for bytes in [u64::MAX / 10, u64::MAX / 200, 1 << 50] {
        let list: Vec<_> =
            ring(0, 0).into_iter().map(|(a, b, from, to, _)| (a, b, from, to, bytes)).collect();
        let found = steps(&traffic(&list, 10_000), &[]);
        assert!(found.is_ok_and(|steps| steps.links[0].steps.len() > 10), "{bytes} bytes a flowlet");
    }
}

#[test]
fn the_host_that_starts_late_is_named() {
    for late in [1, 2] {
        let found = straggler(&ring(late, 70)).unwrap();
        assert_eq!((found.host, found.why), (host(late), StragglerCause::StartsLate));
        assert_eq!((found.steps, found.of_steps, found.certain, found.changed), (10, 10, late == 2, true));
        assert!((65..=75).contains(&(found.behind_ns / MS)), "{found:?}");
    }
}

/// From step 6 on, what host 1 sends to host 2 takes so much longer in its second part, and host 2 computes for 71 ms
/// after it, or longer. Host 1 begins its second part, and the next step, once host 2 has begun: what it waits for is
/// not seen here.
fn inbound(slow_ms: u64, compute_ms: u64) -> Vec<(u32, u32, u64, u64, u64)> {
    let (mut list, mut one, mut two) = (Vec::new(), 1000, 1002);
    for step in 0..16 {
        let (slow, compute) = if step >= 6 { (slow_ms, compute_ms) } else { (0, 0) };
        let second = one.max(two - 2) + 22;
        list.extend([(1, 2, one, one + 9, 5000), (2, 3, two, two + 9, 5000)]);
        list.extend([(1, 2, second, second + 9 + slow, 5000), (2, 3, second + 2, second + 11, 5000)]);
        (one, two) = (second + 78, second + 80 + slow + compute);
    }
    list
}

#[test]
fn a_host_whose_data_comes_late_is_not_blamed() {
    let found = straggler(&inbound(40, 0)).unwrap();
    assert_eq!((found.host, found.peer, found.why), (host(1), host(2), StragglerCause::SlowTransfer));
    let found = straggler(&inbound(0, 40)).unwrap();
    assert_eq!((found.host, found.why, found.certain), (host(2), StragglerCause::StartsLate, true));
    // Its data comes a little later, and it takes a little longer itself.
    let found = straggler(&inbound(10, 24)).unwrap();
    assert_eq!((found.host, found.why), (host(2), StragglerCause::StartsLate));
    assert_eq!(straggler(&inbound(17, 8)), None, "most of it is not its own");
}

/// Hosts that begin each at its own pace drift apart: one is the last, and nobody waits for it.
#[test]
fn a_host_that_begins_last_and_makes_no_step_longer_is_no_straggler() {
    let found = |others_wait: bool| {
        let (mut list, mut at) = (Vec::new(), 1000);
        for step in 0..16 {
            let late = if step >= 6 { 30 } else { 0 };
            list.extend([(1, 2, at, at + 9, 5000), (3, 1, at + 1, at + 10, 5000)]);
            list.push((2, 3, at + 2 + late, at + 11 + late, 5000));
            at += 100 + if others_wait { late } else { 0 };
        }
        straggler(&list)
    };
    assert_eq!(found(false), None);
    let waited_for = found(true).unwrap();
    assert_eq!((waited_for.host, waited_for.why), (host(2), StragglerCause::StartsLate));
}

/// The same host is the last in most steps. In fewer, another one begins late, and these are longer.
#[test]
fn a_host_that_makes_no_step_longer_hides_no_straggler() {
    let (mut list, mut at) = (Vec::new(), 1000);
    for step in 0..32 {
        let held = if (4..18).contains(&step) { 30 } else { 0 };
        let late = if (22..30).contains(&step) { 30 } else { 0 };
        list.extend([(1, 2, at, at + 9, 5000), (3, 1, at + 1 + late, at + 10 + late, 5000)]);
        list.push((2, 3, at + 2 + held, at + 11 + held, 5000));
        at += 100 + late;
    }
    list.sort_unstable_by_key(|(_, _, start, ..)| *start);
    let found = steps(&traffic(&list, 10_000), &[]).expect("a rhythm").straggler.unwrap();
    assert_eq!((found.host, found.why, found.steps), (host(3), StragglerCause::StartsLate, 8));
}

/// The late host sends nothing here: the one that waits for it is not blamed.
#[test]
fn a_late_host_out_of_sight() {
    let found = straggler(&ring(3, 70)).unwrap();
    assert_eq!((found.host, found.why, found.certain), (host(1), StragglerCause::Upstream, false));
}

/// Three hosts send once in 100 ms; from step 6 on the third, whose receipts are not seen, does so 30 ms later, and the
/// others wait for it with their next step or do not.
#[test]
fn a_host_that_nobody_waits_for_is_no_straggler() {
    let found = |others_wait: bool| {
        let (mut list, mut at) = (Vec::new(), 1000);
        for step in 0..16 {
            let late = if step >= 6 { 30 } else { 0 };
            list.extend([(3, 1, at, at + 3, 2000), (1, 2, at, at + 9, 5000), (2, 1, at + 1, at + 10, 5000)]);
            list.push((3, 1, at + 12 + late, at + 20 + late, 5000));
            at += 100 + if others_wait { late } else { 0 };
        }
        straggler(&list)
    };
    assert_eq!(found(false), None);
    let waited_for = found(true).unwrap();
    assert_eq!((waited_for.host, waited_for.why), (host(3), StragglerCause::Upstream));
}

#[test]
fn one_slow_step_makes_no_straggler() {
    let mut list = ring(0, 0);
    let delayed = list.len() / 2;
    for flowlet in list.iter_mut().skip(delayed) {
        (flowlet.2, flowlet.3) = (flowlet.2 + 80, flowlet.3 + 80);
    }
    assert_eq!(straggler(&list), None);
}

#[test]
fn a_slow_transfer_is_named() {
    let list: Vec<_> = (0..12)
        .flat_map(|i| [(1, 2, 200 * i, 200 * i + 10, 5000), (2, 3, 200 * i, 200 * i + 80, 5000)])
        .collect();
    let found = straggler(&list).unwrap();
    assert_eq!(
        (found.why, found.host, found.peer, found.dest_qp),
        (StragglerCause::SlowTransfer, host(2), host(3), 2)
    );
    assert_eq!(found.behind_ns, 70 * MS);
}

#[test]
fn client_and_server_are_no_job() {
    let list: Vec<_> = (0..12)
        .flat_map(|i| [(1, 2, 200 * i, 200 * i + 1, 100), (2, 1, 200 * i + 60, 200 * i + 70, 5000)])
        .collect();
    assert_eq!(steps(&traffic(&list, 10_000), &[]), Err(NoJob::OneWay));
    assert_eq!(steps(&traffic(&[], 10_000), &[]), Err(NoJob::NoData));
}

#[test]
fn the_end_of_a_job_and_a_stop_within_a_step() {
    let whole = ring(0, 0);
    let ending = |list: &[_], window| steps(&traffic(list, window), &[]).unwrap().links[0].ending;
    let end = ending(&whole, 20_000);
    assert!(end.part.unwrap() < 0.01 && end.silent_ns > 15_000 * MS && end.outstanding == Some(0), "{end:?}");
    let mut cut = whole.clone();
    let last = cut.last().unwrap().3;
    cut.push((1, 2, last + 60, last + 69, 5000));
    let end = ending(&cut, 20_000);
    assert!((end.part.unwrap() - 0.25).abs() < 0.01, "{end:?}");
}

#[test]
fn what_is_outstanding() {
    let mut all = traffic(&ring(0, 0), 20_000);
    let standing = |pair, request: Option<(u32, u64)>, answer: Option<(u32, u64)>| FlowletState {
        flowlet: Record { pair, ..Record::default() },
        message_open: false,
        messages: None,
        request: request.into(),
        answer: answer.into(),
    };
    // Pair 0 is 1 to 2; answers come from 2 to 1, a pair of its own.
    let mut back = all.pairs[0];
    (back.src, back.dst) = (host(2), host(1));
    all.pairs.push(back);
    let answers = u32::try_from(all.pairs.len() - 1).unwrap();
    all.flowlets.standing = vec![standing(0, Some((100, 50)), None)];
    assert_eq!(outstanding(&all, &[], 0), 0, "no answer was ever seen: it passes elsewhere");
    all.flowlets.standing.push(standing(answers, None, Some((99, 60))));
    assert_eq!(outstanding(&all, &[], 0), 1);
    all.flowlets.standing[1].answer = Some((100, 60)).into();
    assert_eq!(outstanding(&all, &[], 0), 0);
    all.flowlets.standing[1].answer = Some((100, 40)).into();
    assert_eq!(outstanding(&all, &[], 0), 1, "an answer from before it was sent");
    all.flowlets.standing[0].message_open = true;
    all.flowlets.standing[1].answer = Some((105, 60)).into();
    assert_eq!(outstanding(&all, &[], 0), 1);
}

/// From the start to the end of a job, the cut leaves nothing over at either end, although the late host's own link
/// shows nobody that starts by itself before it.
#[test]
fn a_job_that_waited_from_the_start_ends_between_steps() {
    let mut list = Vec::new();
    for i in 0..10 {
        let at = 1000 + 160 * i;
        list.extend([
            (2, 3, at, at + 20, 3000),
            (3, 4, at + 68, at + 100, 6000),
            (2, 3, at + 78, at + 110, 3000),
        ]);
    }
    let found = steps(&traffic(&list, 20_000), &[]).unwrap();
    assert_eq!((found.links[0].steps.len(), found.links[0].ending.part), (10, Some(0.0)));
    let straggler = found.straggler.unwrap();
    assert_eq!(
        (straggler.host, straggler.why, straggler.changed),
        (host(3), StragglerCause::StartsLate, false)
    );
}

#[test]
fn the_parts_of_the_first_step_are_no_steps() {
    // Ten parts, 44 ms apart; then all compute.
    let step = |at: u64| Step {
        start_ns: 44 * at * MS,
        end_ns: (44 * at + 20) * MS,
        busy_ns: 20 * MS,
        silence_ns: 0,
        gap_follows: false,
    };
    let may_be_parts = |silence_ms: u64| {
        let ending = Ending {
            last_data_ns: 416 * MS,
            silent_ns: silence_ms * MS,
            part: Some(0.0),
            outstanding: Some(0),
        };
        let found = LinkSteps {
            link: 0,
            steps: (0..10).map(step).collect(),
            period_ns: 44 * MS,
            volume: 80_000,
            explained: 1.0,
            rhythm: None,
            straggler: None,
            last: None,
            ending,
        };
        found.may_be_parts()
    };
    assert!(may_be_parts(600), "perhaps a step of a second is under way");
    // The next one is due, or nothing followed for long: a job that has stopped.
    assert!(!may_be_parts(10) && !may_be_parts(1_500));
}

/// Traffic without a pattern, then a job of long steps: until enough of these are known, their parts are no steps.
#[test]
fn the_parts_of_later_steps_are_no_steps() {
    let other = (0..100_u64).map(|at| {
        let start = at * 137 + (at * at * 31) % 97;
        (1, 2, start, start + 1 + (at * 7) % 11, 1 + (at * at * 13) % 9000)
    });
    // Twenty parts in 0.9 s, and a second of silence.
    let long = |steps: u64| {
        (0..20 * steps).flat_map(|at| {
            let start = 15_000 + at / 20 * 2_000 + at % 20 * 45;
            [(1, 2, start, start + 20, 5000), (2, 3, start, start + 20, 5000)]
        })
    };
    let found = |steps: u64| {
        let list: Vec<_> = other.clone().chain(long(steps)).collect();
        let until = list.last().unwrap().3 + 10;
        super::steps(&traffic(&list, until), &[]).map(|found| found.links[0].period_ns)
    };
    assert!(found(3).is_err(), "{:?}", found(3));
    assert_eq!(found(18), Ok(2_000 * MS));
}

/// What a live run has: the latest flowlets alone. A job, then a minute of other traffic, then the job again.
#[test]
fn steps_are_found_again_after_other_traffic() {
    const PAUSE_MS: u64 = 60_000;
    let job = ring(0, 0);
    let end = job.iter().map(|(.., end, _)| *end).max().unwrap();
    let found = |list: &[(u32, u32, u64, u64, u64)], until: u64| steps(&traffic(list, until), &[]);
    let whole = found(&job, end + 10).unwrap().links[0].steps.len();
    // A storage server: parts of any size at any time, without a pattern.
    let other: Vec<_> = (0..400_u64)
        .map(|at| {
            let start = end + 500 + at * 137 + (at * at * 31) % 97;
            (1, 2, start, start + 1 + (at * 7) % 11, 1 + (at * at * 13) % 900)
        })
        .collect();
    let mut all = job.clone();
    all.extend(&other);
    let last = other.iter().map(|(.., end, _)| *end).max().unwrap();
    assert!(last < end + PAUSE_MS, "{last}");
    if let Ok(meanwhile) = found(&all, last + 10) {
        assert!(
            meanwhile.links[0].ending.is_over(),
            "other traffic goes on as steps: {:?}",
            meanwhile.links[0]
        );
    }
    let later = end + PAUSE_MS;
    let moved = |list: &[(u32, u32, u64, u64, u64)]| -> Vec<(u32, u32, u64, u64, u64)> {
        list.iter()
            .map(|(src, dst, from, to, bytes)| (*src, *dst, from + later, to + later, *bytes))
            .collect()
    };
    // The oldest flowlets have been dropped by then, as the collector does beyond its limit.
    let again = [other[other.len() / 2..].to_vec(), moved(&job)].concat();
    let found = found(&again, later + end + 10).unwrap();
    assert!(!found.links[0].ending.is_over(), "{:?}", found.links[0].ending);
    let of_job = found.links[0].steps.iter().filter(|step| step.start_ns >= later * MS).count();
    assert!(of_job + 1 >= whole, "{of_job} of {whole} steps");
}

/// The same job at two ports, of which the second began a millisecond later, and the captures in the other order.
#[test]
fn the_order_of_the_captures_does_not_choose_the_steps() {
    let of = |first: u64, second: u64| {
        let shifted = |ms: u64| {
            let list: Vec<_> =
                ring(0, 0).into_iter().map(|(a, b, s, e, n)| (a, b, s + ms, e + ms, n)).collect();
            traffic(&list, 10_000)
        };
        let (mut both, other) = (shifted(first), shifted(second));
        let known = u32::try_from(both.pairs.len()).unwrap();
        both.pairs.extend(other.pairs.into_iter().map(|mut pair| {
            pair.link = 1;
            pair
        }));
        let moved = |record: &Record| Record { pair: record.pair + known, ..*record };
        let of_other: Vec<Record> = other.flowlets.ended.iter().map(moved).collect();
        let mut ended: Vec<Record> = both.flowlets.ended.iter().copied().chain(of_other).collect();
        ended.sort_by_key(|record| record.end_ns);
        both.flowlets.ended = EndedFlowlets::default();
        for record in ended {
            both.flowlets.ended.push(record);
        }
        both.links.extend(other.links);
        let found = steps(&both, &[]).unwrap();
        assert_eq!(found.links.len(), 2);
        found.links[0].steps[0].start_ns / MS
    };
    assert_eq!((of(0, 1), of(1, 0)), (1_000, 1_000));
}
