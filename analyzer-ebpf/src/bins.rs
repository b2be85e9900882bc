//! Traffic over time: one record per flow and bin to user space.
//!
//! Requires the exact clock: timer ticks are coarser than a bin.

use aya_ebpf::bindings::BPF_RB_NO_WAKEUP;
use rocescope_common::abi::{BinRecord, CpuState, FlowSlot};
use rocescope_common::account::Outcome;
use rocescope_common::account::bin::{Bins, LastExchange};
use rocescope_common::account::message::frame_bucket;
use rocescope_common::wire::opcode::Op;

use crate::maps::{BIN_NS, BIN_PHASE_NS, BINS, EXCHANGES, PRECISE_CLOCK, counters_of};

/// True if the programs keep bins.
#[inline(always)]
pub(crate) fn enabled() -> bool {
    PRECISE_CLOCK.load() != 0
}

/// Counts a packet in its flow's current bin.
///
/// # Safety
/// The caller holds the flow's seqlock, and `work` points to this CPU's state.
#[inline(always)]
pub(crate) unsafe fn record(
    work: *mut CpuState,
    place: *mut FlowSlot,
    slot: u32,
    outcome: Outcome,
    now: u64,
) {
    // SAFETY: promised by the caller; the pointers come from maps.
    let (work, bin) = unsafe { (&mut *work, &mut (*place).bin) };
    let op = Op::of(work.frame.opcode);
    let bins = Bins { length_ns: BIN_NS.load(), phase_ns: BIN_PHASE_NS.load() };
    let ended = bin.observe(&work.frame, op, outcome, now, bins, &mut work.ended_bin);
    work.bin_ended = u64::from(ended);
    bin.message(&mut work.messages, &work.frame, op, outcome);
    if (LastExchange::expects_response(&work.frame, op) || op.any(Op::RESPONSE | Op::ACKNOWLEDGE))
        && let Some(exchange) = EXCHANGES.get_ptr_mut(slot)
    {
        // SAFETY: the pointer comes from the map, and the flow's seqlock protects this entry too.
        unsafe { (*exchange).observe(&work.frame, op, now) };
    }
}

/// Sends the bin that this packet ended, if any, and counts the packet in the frame length histogram.
#[inline(always)]
pub(crate) fn flush(work: *mut CpuState, slot: u32, link: u16) {
    let Some(counters) = counters_of(u32::from(link)) else { return };
    // SAFETY: a per-CPU value, and programs on one CPU do not interrupt one another. Read back from memory,
    // whose contents the verifier does not track.
    let (wire_len, ended) =
        unsafe { ((*work).frame.wire_len, (&raw const (*work).bin_ended).read_volatile()) };
    if let Some(count) = counters.frame_sizes.get_mut(frame_bucket(wire_len)) {
        *count += 1;
    }
    if ended == 0 {
        return;
    }
    // SAFETY: as above.
    let bin = unsafe { &(*work).ended_bin };
    let Some(mut entry) = BINS.reserve(0) else {
        counters.bins_lost.packets += u64::from(bin.packets);
        counters.bins_lost.bytes += u64::from(bin.bytes);
        return;
    };
    entry.write(BinRecord { bin: *bin, slot, pad: 0 });
    // Without a wakeup, which would cost more than the rest of the program: user space polls the ring.
    entry.submit(u64::from(BPF_RB_NO_WAKEUP));
}
