//! The seqlock of a flow slot under contention, and the two clocks of the programs.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use aya::programs::ProgramInfo;
use rocescope::host::kernel::clock::monotonic_ns;
use rocescope::source::live::tables::link_counters;
use rocescope::source::live::{LoadOptions, Programs, Tables};
use rocescope_tests::kernel::cpus::{pin, two_cpus};
use rocescope_tests::kernel::machine::Hook;
use rocescope_tests::kernel::slots::Slots;
use rocescope_tests::kernel::{available, test_run};
use rocescope_tests::oracle::craft::{self, Roce};
use rustix::time::{ClockId, clock_getres};

const LOOPBACK: u32 = 1;
/// A spinning program blocks its CPU, so tests run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

struct Setup {
    programs: Programs,
    hook: Hook,
    fd: OwnedFd,
}

impl Setup {
    fn new(hook: Hook, options: &LoadOptions) -> Self {
        let mut programs = Programs::load(options).unwrap();
        let fd = hook.load(&mut programs).unwrap();
        Self { programs, hook, fd }
    }

    fn info(&mut self) -> ProgramInfo {
        let name = self.hook.name();
        if self.hook.is_xdp() {
            self.programs.xdp(name).unwrap().info().unwrap()
        } else {
            self.programs.tc(name).unwrap().info().unwrap()
        }
    }

    fn send(&self, dest_qp: u32) {
        let frame = craft::ethernet(0x0800, &Roce { dest_qp, payload: 64, ..Roce::default() }.ipv4());
        let verdict = if self.hook.is_xdp() {
            test_run::xdp(self.fd.as_fd(), &frame, 1)
        } else {
            test_run::tc(self.fd.as_fd(), &frame, u32::try_from(frame.len()).unwrap(), 1)
        };
        assert_eq!(verdict.unwrap(), self.hook.passes());
    }

    /// Packets counted in the only flow, and packets counted as contended.
    fn counted(&self) -> (u64, u64) {
        let flows = Tables::default().read(&self.programs).unwrap().flows;
        assert_eq!(flows.len(), 1);
        let counters = link_counters(&self.programs, self.programs.hash.index(LOOPBACK, false)).unwrap();
        assert_eq!(counters.flow_table_full.packets, 0);
        assert_eq!(counters.contended.bytes, counters.contended.packets * frame_len());
        (flows[0].stats.packets, counters.contended.packets)
    }
}

fn frame_len() -> u64 {
    craft::ethernet(0x0800, &Roce { payload: 64, ..Roce::default() }.ipv4()).len() as u64
}

fn options(full_order: bool) -> LoadOptions {
    LoadOptions { max_flows: 64, full_order, ..LoadOptions::new(&[LOOPBACK]) }
}

/// The packet is passed on and counted as contended.
#[test]
fn a_packet_that_cannot_lock_its_slot_counts_as_contended() {
    if !available() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (hook, full_order) in [(Hook::Xdp, false), (Hook::TcEgress, true)] {
        let mut setup = Setup::new(hook, &options(full_order));
        // Egress is a separate link.
        let link = setup.programs.hash.index(LOOPBACK, hook == Hook::TcEgress);
        setup.send(7);
        let slots = Slots::of(&setup.info()).unwrap();
        let held = slots.hold(0).unwrap();
        let start = Instant::now();
        setup.send(7);
        let waited = start.elapsed();
        drop(held);
        println!("{}: gave up after {waited:?}", hook.name());
        // Longer than any interrupt, but bounded.
        assert!((Duration::from_millis(50)..Duration::from_secs(10)).contains(&waited), "{waited:?}");
        // The next packet is counted again.
        setup.send(7);
        let flows = Tables::default().read(&setup.programs).unwrap().flows;
        assert_eq!(flows.iter().map(|flow| flow.stats.packets).collect::<Vec<_>>(), [2]);
        let counters = link_counters(&setup.programs, link).unwrap();
        assert_eq!((counters.contended.packets, counters.contended.bytes), (1, frame_len()));
        assert_eq!(counters.flow_table_full.packets, 0);
    }
}

/// A delayed lock holder, as by an interrupt, costs the others time but no packet.
#[test]
fn a_packet_waits_for_a_delayed_lock_holder() {
    // On a single CPU the lock holder cannot run while the program spins.
    let Some(cpus) = two_cpus() else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    pin(cpus[0]);
    for hook in [Hook::XdpFrags, Hook::TcIngress] {
        let mut setup = Setup::new(hook, &options(false));
        setup.send(7);
        let slots = Slots::of(&setup.info()).unwrap();
        for pause in [0, 1, 10] {
            let before = setup.counted().0;
            let held = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    pin(cpus[1]);
                    let _held = slots.hold(0).unwrap();
                    held.store(true, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(pause));
                });
                while !held.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                setup.send(7);
            });
            assert_eq!(setup.counted(), (before + 1, 0), "{} after {pause} ms", hook.name());
        }
        // Packets of other flows do not wait.
        let held = slots.hold(0).unwrap();
        let start = Instant::now();
        setup.send(8);
        assert!(start.elapsed() < Duration::from_millis(50), "{:?}", start.elapsed());
        drop(held);
    }
}

/// The length of the kernel's timer tick, in nanoseconds.
fn tick_ns() -> u64 {
    u64::try_from(clock_getres(ClockId::MonotonicCoarse).tv_nsec).unwrap()
}

#[test]
fn times_are_exact_or_of_the_latest_tick() {
    const FLOWS: u32 = 40;
    if !available() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for precise_clock in [false, true] {
        let wanted = LoadOptions { precise_clock, ..options(false) };
        let setup = Setup::new(Hook::Xdp, &wanted);
        // Bounds of the time at which each packet was sent.
        let sent: Vec<(u64, u64)> = (0..FLOWS)
            .map(|dest_qp| {
                let before = monotonic_ns();
                setup.send(dest_qp);
                let after = monotonic_ns();
                thread::sleep(Duration::from_micros(700));
                (before, after)
            })
            .collect();
        let flows = Tables::default().read(&setup.programs).unwrap().flows;
        assert_eq!(flows.len(), FLOWS as usize);
        // Within a tick; older if the tick is late, as in a virtual machine that was descheduled.
        let (early, late) = if precise_clock { (0, 0) } else { (25 * tick_ns(), tick_ns()) };
        for flow in &flows {
            let (before, after) = sent[flow.key.dest_qp as usize];
            let time = flow.stats.first_ns;
            assert!(
                (before - early..=after + late).contains(&time),
                "precise {precise_clock}: sent at {before}..{after}, counted at {time}"
            );
        }
        let different: std::collections::BTreeSet<u64> =
            flows.iter().map(|flow| flow.stats.first_ns).collect();
        if precise_clock {
            assert_eq!(different.len(), FLOWS as usize);
        } else {
            assert!(
                different.iter().all(|time| (time - different.first().unwrap()).is_multiple_of(tick_ns()))
            );
        }
    }
}
