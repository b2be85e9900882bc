//! Concurrent senders on several CPUs, with flows read and retired meanwhile: no count is lost to a race.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rocescope::sample::{FlowSample, Retired};
use rocescope::source::live::tables::link_counters;
use rocescope::source::live::{LoadOptions, Programs, Tables};
use rocescope_common::account::Event;
use rocescope_tests::kernel::cpus::{pin, two_cpus};
use rocescope_tests::kernel::machine::Hook;
use rocescope_tests::kernel::test_run;
use rocescope_tests::oracle::craft::{self, Roce};

fn frame(packet: &Roce) -> Vec<u8> {
    craft::ethernet(0x0800, &packet.ipv4())
}

fn send(hook: Hook, program: BorrowedFd<'_>, frame: &[u8], repeat: u32) {
    let verdict = if hook.is_xdp() {
        test_run::xdp(program, frame, repeat)
    } else {
        test_run::tc(program, frame, u32::try_from(frame.len()).unwrap(), repeat)
    };
    assert_eq!(verdict.unwrap(), hook.passes());
}

/// Counts a sender's end, including a failure, so that no thread waits forever.
struct Ending<'a>(&'a AtomicU64);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Programs with the memory ordering of this CPU, or with that of a weaker one.
fn programs(max_flows: u32, full_order: bool) -> Programs {
    let usual = LoadOptions::new(&[1]);
    Programs::load(&LoadOptions { max_flows, full_order, ..usual }).unwrap()
}

fn link(programs: &Programs) -> u32 {
    programs.hash.index(1, false)
}

#[test]
fn one_flow_on_several_cpus() {
    const EACH: u32 = 400_000;
    let Some(cpus) = two_cpus() else { return };
    let mut programs = programs(64, false);
    // XDP and TC count in the same table, as on two interfaces of one run.
    let hooks = [Hook::Xdp, Hook::TcIngress];
    let fds = hooks.map(|hook| hook.load(&mut programs).unwrap());
    let ring = programs.take_events().unwrap();
    // A port other than the flow's first on one CPU, so that the overflow table is contended as well.
    let frames = [0xC123, 0xC124]
        .map(|src_port| frame(&Roce { src_port, payload: 1024, class: 2, ..Roce::default() }));
    let mut tables = Tables::default();
    let ended = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..2 {
            let (fd, frames, ended) = (&fds[number], &frames, &ended);
            scope.spawn(move || {
                let _ending = Ending(ended);
                pin(cpus[number]);
                for _ in 0..10 {
                    for frame in frames {
                        send(hooks[number], fd.as_fd(), frame, EACH / 20);
                    }
                }
            });
        }
        // Values read meanwhile must be consistent: a reader never sees a partially counted packet.
        while ended.load(Ordering::Relaxed) < 2 {
            for flow in tables.read(&programs).unwrap().flows {
                let stats = &flow.stats;
                assert_eq!(stats.bytes, stats.packets * frames[0].len() as u64);
                assert_eq!(stats.opcodes.iter().map(|(_, packets)| packets).sum::<u64>(), stats.packets);
                assert_eq!(stats.ecn_data, [0, 0, stats.packets, 0]);
                assert_eq!(stats.psn.repeats, stats.packets - 1);
            }
        }
    });
    let reading = tables.read(&programs).unwrap();
    assert_eq!(reading.flows.len(), 1);
    let flow = &reading.flows[0];
    assert_eq!(flow.stats.packets, 2 * u64::from(EACH));
    assert_eq!(flow.stats.bytes, 2 * u64::from(EACH) * frames[0].len() as u64);
    assert_eq!(flow.stats.seldom.other_port_packets, u64::from(EACH));
    let ports = &reading.extra[&flow.slot].ports;
    assert_eq!(ports.len(), 1);
    assert_eq!(ports[0].1.packets, u64::from(EACH));
    assert_eq!(ports[0].1.bytes, flow.stats.seldom.other_port_bytes);
    drop(ring);
}

/// The same new flows appear on two CPUs simultaneously, repeatedly.
#[test]
fn flows_that_begin_on_two_cpus_at_once_are_one_each() {
    const FLOWS: u32 = 2_000;
    const ROUNDS: u32 = 10;
    let Some(cpus) = two_cpus() else { return };
    let mut programs = programs(FLOWS + 2, true);
    let hook = Hook::TcIngress;
    let fd = hook.load(&mut programs).unwrap();
    let frames: Vec<_> =
        (0..FLOWS).map(|dest_qp| frame(&Roce { dest_qp, payload: 64, ..Roce::default() })).collect();
    let mut ring = programs.take_events().unwrap();
    let mut tables = Tables::default();
    for _ in 0..ROUNDS {
        let (turn, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let mut new_flows = 0;
        thread::scope(|scope| {
            for cpu in cpus {
                let (fd, frames, turn, done) = (&fd, &frames, &turn, &done);
                scope.spawn(move || {
                    let _ending = Ending(done);
                    pin(cpu);
                    for (number, frame) in (0..).zip(frames) {
                        // In lockstep. Bounded, since the other thread may have failed.
                        turn.fetch_add(1, Ordering::AcqRel);
                        for _ in 0..10_000 {
                            if turn.load(Ordering::Acquire) >= 2 * (number + 1) {
                                break;
                            }
                            std::hint::spin_loop();
                        }
                        send(hook, fd.as_fd(), frame, 3);
                    }
                });
            }
            while done.load(Ordering::Acquire) < 2 {
                new_flows += drained(&mut ring);
            }
        });
        new_flows += drained(&mut ring);
        let reading = tables.read(&programs).unwrap();
        assert_eq!(reading.flows.len(), FLOWS as usize);
        for flow in &reading.flows {
            assert_eq!(flow.stats.packets, 6, "queue pair {}", flow.key.dest_qp);
        }
        let counters = link_counters(&programs, link(&programs)).unwrap();
        assert_eq!(counters.flow_table_full.packets, 0, "no slot was lost in a race");
        assert_eq!(counters.contended.packets, 0);
        assert_eq!(new_flows + counters.events_dropped, u64::from(FLOWS), "each flow is new once");
        tables.reset(&mut programs, &reading.flows).unwrap();
    }
}

fn drained(ring: &mut aya::maps::RingBuf<aya::maps::MapData>) -> u64 {
    let mut new_flows = 0;
    while let Some(item) = ring.next() {
        let record = rocescope::source::live::event::read(&item).unwrap();
        new_flows += u64::from(record.events & Event::NEW_FLOW != 0);
    }
    new_flows
}

/// A frame for each flow. Their lengths differ, so that a packet in the wrong flow is detected.
fn frames_of_different_lengths(flows: u32) -> Vec<Vec<u8>> {
    let roce = |qp| Roce { dest_qp: qp, payload: 4 * qp as usize, ..Roce::default() };
    (0..flows).map(|qp| frame(&roce(qp))).collect()
}

/// Flows are retired while packets of them arrive: the worst case for a program.
#[test]
fn flows_retired_under_the_programs_feet() {
    const FLOWS: u32 = 64;
    const ROUNDS: u32 = 2_000;
    const REPEAT: u32 = 3;
    let Some(cpus) = two_cpus() else { return };
    // Fewer slots than flows: some packets find the table full.
    for (max_flows, full_order) in [(FLOWS + 2, false), (FLOWS / 2, true)] {
        let mut programs = programs(max_flows, full_order);
        let hooks = [Hook::Xdp, Hook::TcIngress];
        let fds = hooks.map(|hook| hook.load(&mut programs).unwrap());
        drop(programs.take_events());
        let frames = frames_of_different_lengths(FLOWS);
        let mut tables = Tables::default();
        let ended = AtomicU64::new(0);
        let failed = AtomicBool::new(false);
        thread::scope(|scope| {
            for number in 0..2 {
                let (fd, frames, ended) = (&fds[number], &frames, &ended);
                scope.spawn(move || {
                    let _ending = Ending(ended);
                    pin(cpus[number]);
                    for _ in 0..ROUNDS {
                        for frame in frames {
                            // One by one, since the kernel waits for all CPUs before a repeated XDP test run.
                            for _ in 0..REPEAT {
                                send(hooks[number], fd.as_fd(), frame, 1);
                            }
                        }
                    }
                });
            }
            while ended.load(Ordering::Relaxed) < 2 {
                let reading = tables.read(&programs).unwrap();
                let strangers = misplaced(&reading.flows, &frames);
                if !strangers.is_empty() {
                    println!("{strangers:?}");
                    failed.store(true, Ordering::Relaxed);
                }
                tables.retire_idle(&mut programs, &reading.flows, u64::MAX).unwrap();
            }
        });
        let sent = 2 * u64::from(ROUNDS * FLOWS * REPEAT);
        let lengths: u64 = frames.iter().map(|frame| frame.len() as u64).sum();
        let reading = tables.read(&programs).unwrap();
        let number = link(&programs);
        let counters = link_counters(&programs, number).unwrap();
        let Retired { packets, bytes, flows, .. } = tables.retired(u16::try_from(number).unwrap());
        let (full, present) = (counters.flow_table_full, sums(&reading.flows));
        let (in_flows, too_many) = (present.0, full.packets);
        println!("{sent} sent: {packets} in {flows} retired flows, {in_flows} in flows, {too_many} too many");
        assert_eq!(counters.contended.packets, 0);
        assert_eq!(packets + present.0 + full.packets, sent);
        assert_eq!(bytes + present.1 + full.bytes, 2 * u64::from(ROUNDS * REPEAT) * lengths);
        // The number depends on the machine; some hundreds on a slow one.
        assert!(flows > 100, "only {flows} flows were retired");
        assert!(!failed.load(Ordering::Relaxed), "packets were counted in other flows than their own");

        // No slot is lost: all can be used.
        tables.retire_idle(&mut programs, &reading.flows, u64::MAX).unwrap();
        for frame in frames.iter().take(max_flows as usize) {
            send(hooks[1], fds[1].as_fd(), frame, 1);
        }
        let counts: BTreeMap<_, _> =
            tables.read(&programs).unwrap().flows.iter().map(|f| (f.key.dest_qp, f.stats.packets)).collect();
        assert_eq!(counts, (0..max_flows.min(FLOWS)).map(|qp| (qp, 1)).collect());
    }
}

fn sums(flows: &[FlowSample]) -> (u64, u64) {
    flows.iter().fold((0, 0), |(p, b), flow| (p + flow.stats.packets, b + flow.stats.bytes))
}

/// Flows whose bytes are not the sum of their own packets.
fn misplaced(flows: &[FlowSample], frames: &[Vec<u8>]) -> Vec<(u32, u64, u64)> {
    flows
        .iter()
        .filter(|flow| {
            flow.stats.bytes != flow.stats.packets * frames[flow.key.dest_qp as usize].len() as u64
        })
        .map(|flow| (flow.key.dest_qp, flow.stats.packets, flow.stats.bytes))
        .collect()
}
