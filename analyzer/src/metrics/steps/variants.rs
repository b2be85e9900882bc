//! Traffic that must be taken for a job that takes steps, and traffic that must not.

use super::simulate::{Dice, Sent, Shape, SimulatedJob, Wire};
use super::straggler::StragglerCause;
use super::tests::{MS, host};
use super::*;
use crate::metrics::traffic::times;

fn found(wire: &Wire, seen_by: u32) -> Option<Steps> {
    steps(&wire.at(seen_by), &[]).ok()
}

/// Every host's port and a switch's show no steps.
fn none(what: &str, wire: &Wire) {
    let mut hosts: Vec<u32> = wire.0.iter().flat_map(|sent| [sent.src, sent.dst, 0]).collect();
    hosts.sort_unstable();
    hosts.dedup();
    for seen_by in hosts {
        let found = found(wire, seen_by);
        let reported = found.as_ref().map(|steps| (steps.links[0].steps.len(), steps.links[0].period_ns));
        assert_eq!(reported, None, "{what}, seen by {seen_by}");
    }
}

#[test]
fn jobs_of_all_kinds_are_found() {
    let mut all = Vec::new();
    for shape in [Shape::Ring, Shape::AllToAll] {
        for hosts in [2, 3, 8, 32] {
            for (period_ms, pause) in [(10, 0.5), (100, 0.1), (100, 0.9), (1000, 0.3), (5000, 0.5)] {
                for jitter in [0.0, 0.1, 0.2] {
                    let qps = if hosts == 32 { 1 } else { 2 };
                    let steps = if hosts == 32 { 12 } else { 30 };
                    let period_ns = period_ms * MS;
                    all.push(SimulatedJob {
                        shape,
                        hosts,
                        qps,
                        steps,
                        period_ns,
                        pause,
                        jitter,
                        ..SimulatedJob::USUAL
                    });
                }
            }
        }
    }
    let mut wrong = Vec::new();
    for job in all {
        let wire = job.healthy();
        for seen_by in [1, 0] {
            let found = found(&wire, seen_by);
            let good = found.as_ref().is_some_and(|found| {
                let link = &found.links[0];
                let period = job.period_ns;
                link.period_ns.abs_diff(period) as f64 <= 0.1 * period as f64
                    && link.steps.len() as u64 + 2 >= job.steps
                    && found.straggler.is_none()
            });
            if !good {
                let reported =
                    found.map(|f| (f.links[0].period_ns / 1000, f.links[0].steps.len(), f.straggler));
                wrong.push(format!("{job:?} seen by {seen_by}: {reported:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A step of 5 ms is found when the silence is longer than what ends a flowlet, and not guessed otherwise.
#[test]
fn short_steps() {
    let job = SimulatedJob { period_ns: 5 * MS, pause: 0.6, steps: 200, ..SimulatedJob::USUAL };
    let found_short = found(&job.healthy(), 1).unwrap();
    assert_eq!((found_short.links[0].steps.len(), found_short.straggler), (200, None));
    none("half a millisecond of silence", &SimulatedJob { pause: 0.1, ..job }.healthy());
}

/// A live run sees a port on two links: together they show what one capture does.
#[test]
fn both_directions_of_a_port_are_one() {
    let job = SimulatedJob { qps: 1, ..SimulatedJob::USUAL };
    let wire = job.run(|step, host| if host == 2 && step >= 15 { 0.5 } else { 0.0 }, |_, _, _| 1.0);
    let replay = steps(&wire.at(2), &[]).unwrap();
    assert_eq!(steps(&wire.live_at(2), &[0, 0]), Ok(replay.clone()));
    assert_eq!(replay.straggler.map(|found| (found.host, found.certain)), Some((host(2), true)));
    assert_eq!(steps(&wire.live_at(2), &[0, 1]), Err(NoJob::OneWay), "one way only");
}

/// Seven steps may be chance.
#[test]
fn few_steps_are_none() {
    none("seven steps", &SimulatedJob { steps: 7, ..SimulatedJob::USUAL }.healthy());
}

#[test]
fn many_hosts() {
    for shape in [Shape::Ring, Shape::AllToAll] {
        let job = SimulatedJob { shape, hosts: 64, qps: 1, steps: 10, ..SimulatedJob::USUAL };
        let found = found(&job.healthy(), 1).unwrap();
        assert_eq!((found.links[0].steps.len(), found.straggler), (10, None));
    }
}

/// Constant streams and streams with pauses of random length: `ib_write_bw`, one way or both.
#[test]
fn streams_are_no_job() {
    for both in [false, true] {
        for seed in 1..30 {
            let mut dice = Dice::new(seed);
            for (what, rest) in [("no", 0.0), ("short", 0.2), ("even", 1.0), ("long", 5.0)] {
                let mut wire = Wire::default();
                for (src, dst) in [(1, 2), (2, 1)].into_iter().take(1 + usize::from(both)) {
                    for qp in 0..4 {
                        let mut at = 1_000 * MS;
                        for _ in 0..100 {
                            let length = 20 * MS;
                            at = wire.send((src, dst, qp), at, length, 500_000);
                            at += times(20 * MS, rest * dice.exponential());
                        }
                    }
                }
                none(&format!("{what} pauses, both ways {both}, {seed}"), &wire);
                // The program pauses, all its queue pairs with it, and its peer does the same.
                let mut wire = Wire::default();
                let mut at = 1_000 * MS;
                for _ in 0..100 {
                    let start = at;
                    for (src, dst) in [(1, 2), (2, 1)].into_iter().take(1 + usize::from(both)) {
                        for qp in 0..4 {
                            at = wire.send((src, dst, qp), start, 20 * MS, 500_000).max(at);
                        }
                    }
                    at += times(20 * MS, rest * dice.exponential());
                }
                none(&format!("{what} pauses of the program, both ways {both}, {seed}"), &wire);
            }
        }
    }
}

/// Messages of one length, of queue pairs in turn, that leave a queue at one rate: as regular as can be.
#[test]
fn messages_in_turn_are_no_job() {
    for both in [false, true] {
        let mut wire = Wire::default();
        for (src, dst) in [(1, 2), (2, 1)].into_iter().take(1 + usize::from(both)) {
            for message in 0..100u64 {
                let start = 1_000 * MS + 23_300_000 * message + u64::from(src) * 9 * MS;
                wire.send((src, dst, u32::try_from(message % 4).unwrap()), start, 5 * MS, 70_346);
            }
        }
        none("in turn", &wire);
    }
}

/// A sender that slows down at each mark until its packets are milliseconds apart, and recovers.
#[test]
fn a_sawtooth_is_no_job() {
    for (both, jitter) in [(false, 0.0), (false, 0.2), (true, 0.05), (true, 0.2)] {
        let mut dice = Dice::new(3);
        let mut wire = Wire::default();
        for (src, dst) in [(1, 2), (2, 1), (3, 2)].into_iter().take(if both { 3 } else { 1 }) {
            let mut at = 1_000 * MS + u64::from(src) * 7 * MS;
            for _ in 0..60 {
                let mut gap = 8.0 * MS as f64;
                while gap > 50_000.0 {
                    wire.send((src, dst, src), at, 1000, 4096);
                    at += times(1, gap * dice.jitter(jitter));
                    gap *= 0.8;
                }
            }
        }
        none(&format!("both ways {both}, jitter {jitter}"), &wire);
    }
}

/// Each time a queue overflows the sender waits for its timeout; the queue fills in the same time again, or after any.
#[test]
fn timeouts_are_no_job() {
    for regular in [true, false] {
        for flows in [1, 4] {
            let mut dice = Dice::new(11);
            let mut wire = Wire::default();
            for qp in 0..flows {
                let mut at = 1_000 * MS;
                for _ in 0..40 {
                    let length = if regular { 60 * MS } else { times(60 * MS, dice.exponential()) };
                    let lost = Sent {
                        src: 1,
                        dst: 2,
                        qp,
                        start_ns: at,
                        end_ns: at + MS,
                        bytes: 64_000,
                        again: true,
                    };
                    wire.0.push(lost);
                    at = wire.send((1, 2, qp), at + MS, length, length / 10);
                    at += 67 * MS;
                }
            }
            none(&format!("regular {regular}, {flows} flows"), &wire);
        }
    }
}

/// A client that asks: for little, for much, and to and fro; at once again, on a clock, or now and then. The server has
/// one client or several.
#[test]
fn requests_and_responses_are_no_job() {
    for clients in [1, 5] {
        for (asked, answered) in [(100, 100), (100, 1_000_000), (1_000_000, 100), (500_000, 500_000)] {
            for (what, clock, random) in
                [("at once", 0, 0.0), ("on a clock", 100, 0.0), ("now and then", 0, 50.0)]
            {
                let mut dice = Dice::new(5);
                let mut wire = Wire::default();
                for client in 2..2 + clients {
                    let mut at = 1_000 * MS + times(100 * MS, dice.unit());
                    for _ in 0..60 {
                        let start = at;
                        let asked_at = wire.send((client, 1, client), at, asked, asked);
                        at = wire.send((1, client, 100 + client), asked_at + 30_000, answered, answered);
                        at = at.max(start + clock * MS) + 30_000 + times(MS, random * dice.exponential());
                    }
                }
                none(&format!("{clients} clients {what}, {asked} for {answered}"), &wire);
            }
        }
    }
}

/// Each host writes its part of a checkpoint to the same storage, every few seconds.
#[test]
fn checkpoints_are_no_job() {
    for jitter in [0.0, 0.1] {
        let mut dice = Dice::new(9);
        let mut wire = Wire::default();
        for round in 0..20 {
            for src in 2..10 {
                for qp in 0..4 {
                    let start = 1_000 * MS + times(2_000 * MS, f64::from(round) + dice.jitter(jitter));
                    wire.send((src, 1, 10 * src + qp), start, 300 * MS, 50_000_000);
                }
            }
        }
        none("checkpoints", &wire);
    }
}

/// Hosts that send to one another whenever they like, as much as they like or always the same.
#[test]
fn random_exchange_is_no_job() {
    for seed in 1..9 {
        for same in [true, false] {
            for rest_ms in [5, 50, 500] {
                let mut dice = Dice::new(seed);
                let mut wire = Wire::default();
                for src in 1..5 {
                    let mut at = 1_000 * MS;
                    for _ in 0..80 {
                        let dst = 1 + (src + dice.below(3)) % 4;
                        let length = if same { 4 * MS } else { times(4 * MS, dice.exponential()) };
                        at = wire.send((src, dst, src), at, length, length);
                        at += times(rest_ms * MS, dice.exponential());
                    }
                }
                none(&format!("seed {seed}, same {same}, rest {rest_ms}"), &wire);
            }
        }
    }
}

#[test]
fn steps_that_become_longer_are_still_steps() {
    for shape in [Shape::Ring, Shape::AllToAll] {
        let job = SimulatedJob { shape, slower: 1.0, ..SimulatedJob::USUAL };
        let found = found(&job.healthy(), 1).unwrap();
        let periods = found.links[0].periods();
        assert_eq!((periods.len(), found.straggler), (29, None));
        assert!(periods[29 - 8..].iter().sum::<u64>() > periods[..8].iter().sum::<u64>() * 6 / 5);
    }
}

/// Another host is late in each step: none is the straggler.
#[test]
fn a_straggler_that_changes_is_none() {
    for shape in [Shape::Ring, Shape::AllToAll] {
        for hosts in [3, 4, 8] {
            for seed in 1..25 {
                let mut dice = Dice::new(seed);
                let who: Vec<u32> = (0..40).map(|_| 1 + dice.below(hosts)).collect();
                let job = SimulatedJob { shape, hosts, steps: 40, ..SimulatedJob::USUAL };
                let late =
                    |step: u64, host| if who[usize::try_from(step).unwrap()] == host { 0.4 } else { 0.0 };
                let wire = job.run(late, |_, _, _| 1.0);
                for seen_by in [0, 1, 2] {
                    let straggler = found(&wire, seen_by).and_then(|found| found.straggler);
                    // If only a part of the hosts is seen, a neighbour may have waited for another each time.
                    let blamed = straggler.filter(|straggler| straggler.why != StragglerCause::Upstream);
                    assert_eq!(
                        blamed, None,
                        "{shape:?} {hosts} hosts, seed {seed}, seen by {seen_by}: {who:?}"
                    );
                }
            }
        }
    }
}

/// One host is late in most steps: it is the one.
#[test]
fn a_straggler_of_most_steps_is_named() {
    for (shape, views) in [(Shape::Ring, [0, 2]), (Shape::AllToAll, [0, 2])] {
        for hosts in [3, 4, 8] {
            let job = SimulatedJob { shape, hosts, ..SimulatedJob::USUAL };
            let wire = job.run(|step, host| if host == 2 && step >= 10 { 0.4 } else { 0.0 }, |_, _, _| 1.0);
            for seen_by in views {
                let found = found(&wire, seen_by).unwrap();
                let what = format!("{shape:?} {hosts} hosts, seen by {seen_by}");
                let straggler = found.straggler.unwrap_or_else(|| panic!("{what}: {found:?}"));
                assert_eq!((straggler.host, straggler.why), (host(2), StragglerCause::StartsLate), "{what}");
                assert!((17..=20).contains(&straggler.steps), "{what}: {straggler:?}");
            }
        }
    }
}

/// A member of a ring that computes longer in every step, seen at its own port, wherever the capture begins.
#[test]
fn a_member_that_is_late_in_every_step_is_named() {
    for late in [0.5, 0.9] {
        let wire = SimulatedJob::USUAL.run(|_, host| if host == 2 { late } else { 0.0 }, |_, _, _| 1.0);
        for from in 0..8 {
            let from_ns = 1_000 * MS + times(100 * MS, (1.0 + late) * f64::from(from) / 8.0);
            let mut wire = wire.clone();
            wire.0.retain(|sent| sent.start_ns >= from_ns);
            let straggler = found(&wire, 2).and_then(|found| found.straggler);
            let reported = straggler.map(|one| (one.why, one.host, one.changed, one.passes_on));
            let expected = (StragglerCause::StartsLate, host(2), false, true);
            assert_eq!(reported, Some(expected), "{late} late, from {from} of 8: {straggler:?}");
        }
    }
}

/// A stage of a pipeline computes with what it receives: it is late by nature, with one part of a step or several.
#[test]
fn a_stage_of_a_pipeline_passes_nothing_on() {
    for parts in 1..4 {
        let mut wire = Wire::default();
        for step in 0..30u64 {
            for part in 0..parts {
                let at = 1_000 * MS + (step * 400 + part * 50) * MS;
                for stage in 1..4 {
                    let start_ns = at + u64::from(stage) * 50 * MS;
                    wire.send((stage, stage + 1, stage), start_ns, 10 * MS, 1_000_000);
                }
            }
        }
        for seen_by in [0, 2, 3] {
            let straggler = found(&wire, seen_by).and_then(|found| found.straggler);
            assert!(straggler.is_none_or(|one| !one.passes_on), "{parts} parts, at {seen_by}: {straggler:?}");
        }
    }
}

/// One connection is slow, not one host: it is named with both its ends.
#[test]
fn a_slow_link_is_named_by_its_ends() {
    for shape in [Shape::Ring, Shape::AllToAll] {
        let job = SimulatedJob { shape, ..SimulatedJob::USUAL };
        let slow = |step, src, dst| if step >= 10 && (src, dst) == (2, 3) { 4.0 } else { 1.0 };
        let straggler = found(&job.run(|_, _| 0.0, slow), 0).unwrap().straggler.unwrap();
        let reported = (straggler.why, straggler.host, straggler.peer);
        assert_eq!(reported, (StragglerCause::SlowTransfer, host(2), host(3)), "{shape:?}");
    }
}

/// A ring that waits for host 3 since step 15, seen at any of its ports: where nothing that host 3 sends is in sight,
/// only the host at the far end of the chain may be named, not one that itself waits on a port in sight.
#[test]
fn the_chain_of_waits_ends_at_the_last_host_in_sight() {
    let wire =
        SimulatedJob::USUAL.run(|step, host| if host == 3 && step >= 15 { 0.6 } else { 0.0 }, |_, _, _| 1.0);
    for set in 1u32..16 {
        let seen: Vec<u32> = (1..=4).filter(|host| set >> (host - 1) & 1 == 1).collect();
        let backwards: Vec<u32> = seen.iter().rev().copied().collect();
        let (why, late) = match &seen[..] {
            // The ring is 1 > 2 > 3 > 4 > 1.
            [1] | [1, 2] => (StragglerCause::Upstream, 4),
            [2] => (StragglerCause::Upstream, 1),
            _ => (StragglerCause::StartsLate, 3),
        };
        for seen in [seen, backwards] {
            let straggler = steps(&wire.at_all(&seen), &[]).ok().and_then(|found| found.straggler);
            let reported = straggler.map(|straggler| (straggler.why, straggler.host));
            assert_eq!(reported, Some((why, host(late))), "seen at {seen:?}");
        }
    }
}

/// Traffic, and from its end on other traffic.
fn then(mut first: Wire, second: Wire) -> Wire {
    let end_ns = first.0.iter().map(|sent| sent.end_ns).max().unwrap_or(0);
    let later = |ns: u64| ns - 1_000 * MS + end_ns + 30 * MS;
    let moved = |sent: Sent| Sent { start_ns: later(sent.start_ns), end_ns: later(sent.end_ns), ..sent };
    first.0.extend(second.0.into_iter().map(moved));
    first
}

/// Hosts that send to one another at random times, `messages` each.
fn exchange(seed: u64, messages: u32) -> Wire {
    let (mut dice, mut wire) = (Dice::new(seed), Wire::default());
    for src in 1..5 {
        let mut at = 1_000 * MS;
        for _ in 0..messages {
            let dst = 1 + (src + dice.below(3)) % 4;
            at = wire.send((src, dst, src), at, 4 * MS, 3_000_000);
            at += times(30 * MS, dice.exponential());
        }
    }
    wire
}

/// However long the traffic before was, 34 regular steps are steps; and what is shown is of now.
#[test]
fn steps_are_found_again_after_other_traffic() {
    for messages in [20, 80, 1_000] {
        for shape in [Shape::Ring, Shape::AllToAll] {
            let job = SimulatedJob { shape, steps: 34, ..SimulatedJob::USUAL };
            for before in [exchange(7, messages), then(job.healthy(), exchange(8, messages))] {
                let wire = then(before, job.healthy());
                let end_ns = wire.0.iter().map(|sent| sent.end_ns).max().unwrap();
                for seen_by in [0, 1] {
                    let what = format!("{messages} messages before, {shape:?}, seen by {seen_by}");
                    let found = found(&wire, seen_by).unwrap_or_else(|| panic!("{what}"));
                    let link = &found.links[0];
                    // Some of the messages before may pass for a step.
                    assert!((16..=40).contains(&link.steps.len()), "{what}: {}", link.steps.len());
                    assert!(link.steps.last().unwrap().end_ns + 200 * MS > end_ns, "{what}");
                    assert!(link.ending.part.unwrap() < 0.1, "{what}");
                }
            }
        }
    }
}

/// A job that ended, and other traffic since: its steps are reported, and that they are over.
#[test]
fn steps_before_other_traffic_are_over() {
    let found = found(&then(SimulatedJob { steps: 60, ..SimulatedJob::USUAL }.healthy(), exchange(7, 60)), 0)
        .unwrap();
    let link = &found.links[0];
    assert!(link.steps.len() >= 58 && link.ending.part.unwrap() >= 2.0, "{link:?}");
}
