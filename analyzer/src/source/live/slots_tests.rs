//! The reader of a slot together with a kernel program, in every order of loads and stores that the memory model
//! allows: loom tries all of them.

use std::sync::atomic::AtomicUsize;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64 as Word, fence as barrier};
use loom::thread;

use super::*;

impl Sequence for Word {
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    fn fence() {
        barrier(Ordering::Acquire);
    }
}

/// A slot with two counters that must be consistent.
struct Slot {
    seqlock: Word,
    packets: Word,
    bytes: Word,
}

/// Bytes of a packet.
const LENGTH: u64 = 100;

/// A part of the kernel program's memory ordering that is left out, to verify that the model detects it.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    /// The exchange that locks is a full barrier.
    Barrier,
    /// The store that unlocks has release semantics.
    Release,
}

impl Slot {
    fn new() -> Arc<Self> {
        Arc::new(Self { seqlock: Word::new(0), packets: Word::new(0), bytes: Word::new(0) })
    }

    /// Counts a packet as kernel programs do; false if another has the lock.
    fn count(&self, without: Without) -> bool {
        let taken = self.seqlock.load(Ordering::Relaxed);
        let locked = || self.seqlock.compare_exchange(taken, taken + 1, Ordering::SeqCst, Ordering::SeqCst);
        if !taken.is_multiple_of(2) || locked().is_err() {
            return false;
        }
        if without != Without::Barrier {
            barrier(Ordering::SeqCst);
        }
        self.packets.store(self.packets.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + LENGTH, Ordering::Relaxed);
        let unlock = if without == Without::Release { Ordering::Relaxed } else { Ordering::Release };
        self.seqlock.store(taken + 2, unlock);
        true
    }

    fn copy(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    fn read(&self) -> Option<(u64, u64)> {
        consistent(&self.seqlock, || self.copy())
    }

    fn read_once(&self) -> Option<(u64, u64)> {
        Sequence::load(&self.seqlock, Ordering::Acquire).is_multiple_of(2).then(|| self.copy())
    }
}

/// Number of executions in which the counters returned by `read` are inconsistent.
fn torn(without: Without, read: fn(&Slot) -> Option<(u64, u64)>) -> usize {
    let torn = std::sync::Arc::new(AtomicUsize::new(0));
    let found = std::sync::Arc::clone(&torn);
    loom::model(move || {
        let slot = Slot::new();
        let program = Arc::clone(&slot);
        let program = thread::spawn(move || assert!(program.count(without)));
        let reader = Arc::clone(&slot);
        let read = thread::spawn(move || read(&reader));
        program.join().unwrap();
        if let Some((packets, bytes)) = read.join().unwrap() {
            found.fetch_add(usize::from(bytes != packets * LENGTH), Ordering::Relaxed);
        }
        assert_eq!(slot.read(), Some((1, LENGTH)));
    });
    torn.load(Ordering::Relaxed)
}

#[test]
fn counters_that_are_read_beside_a_program_go_together() {
    assert_eq!(torn(Without::Nothing, Slot::read), 0);
}

#[test]
fn every_part_of_the_seqlock_is_needed() {
    assert_ne!(torn(Without::Nothing, Slot::read_once), 0, "the second look");
    assert_ne!(torn(Without::Barrier, Slot::read), 0, "the barrier before the counters");
    assert_ne!(torn(Without::Release, Slot::read), 0, "the order of the unlocking store");
}

#[test]
fn two_programs_count_every_packet_that_is_not_contended() {
    loom::model(|| {
        let slot = Slot::new();
        let programs = [(); 2].map(|()| {
            let slot = Arc::clone(&slot);
            thread::spawn(move || u64::from(slot.count(Without::Nothing)))
        });
        let counted = programs.into_iter().map(|program| program.join().unwrap()).sum::<u64>();
        assert_eq!(slot.read(), Some((counted, counted * LENGTH)));
        assert!(counted >= 1);
    });
}
