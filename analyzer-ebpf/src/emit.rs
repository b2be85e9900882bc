//! Events for user space.

use core::mem::MaybeUninit;

use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::generated::bpf_skb_load_bytes;
use aya_ebpf::programs::TcContext;
use rocescope_common::abi::{EVENT_HEADERS, EventRecord, LinkCounters};
use rocescope_common::account::latency::RetxRun;
use rocescope_common::account::{Event, FlowKey, Outcome};
use rocescope_common::wire::{Bytes, Frame};

use crate::maps::{EVENTS, WANT_EVENTS, counters_of};
use crate::packet::length;

/// The first bytes of a packet in an event record.
pub(crate) type Headers = [u8; EVENT_HEADERS];

/// Events that carry the packet's headers.
const WITH_HEADERS: u16 = Event::NAK | Event::RNR | Event::CNP | Event::GAP | Event::GSI;

/// Sends an event; counts it as dropped when the ring buffer is full.
#[inline(always)]
pub(crate) fn event(
    frame: &Frame,
    key: &FlowKey,
    outcome: Outcome,
    now: u64,
    counters: &mut LinkCounters,
    headers: impl FnOnce(&mut Headers) -> u16,
) {
    if WANT_EVENTS.load() == 0 {
        return;
    }
    let Some(mut entry) = EVENTS.reserve(0) else {
        counters.events_dropped += 1;
        return;
    };
    let record: &mut MaybeUninit<EventRecord> = &mut entry;
    let record = record.as_mut_ptr();
    // SAFETY: the entry has room for a record; every field is written before it is submitted.
    unsafe {
        fill(record, frame, key, outcome.events, outcome.missing, now);
        (*record).headers_len =
            if outcome.events & WITH_HEADERS == 0 { 0 } else { headers(&mut (*record).headers) };
    }
    entry.submit(0);
}

/// Writes every field except `headers` and `headers_len`.
///
/// # Safety
/// `record` points to memory for a record, and `key` to a key.
#[inline(always)]
unsafe fn fill(
    record: *mut EventRecord,
    frame: &Frame,
    key: *const FlowKey,
    events: u16,
    missing: u32,
    now: u64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        (*record).time_ns = now;
        (*record).key = *key;
        (*record).psn = frame.psn;
        (*record).missing = missing;
        (*record).aeth = frame.aeth;
        (*record).wire_len = frame.wire_len;
        (*record).events = events;
        (*record).bth_offset = frame.bth_offset as u16;
        (*record).opcode = frame.opcode;
        (*record).tos = frame.tos;
        (*record).src_port = frame.src_port;
        (*record).pad = [0; 6];
    }
}

/// Sends a run of duplicate-PSN packets that `frame` ended; counts it as dropped when the ring buffer is
/// full. `duplicate` is 1 if the PSN of `frame` is a duplicate too.
///
/// # Safety
/// `key` and `run` point to map memory.
#[inline(always)]
pub(crate) unsafe fn retx_run(
    frame: &Frame,
    key: *const FlowKey,
    run: *const RetxRun,
    duplicate: u32,
    now: u64,
) {
    if WANT_EVENTS.load() == 0 {
        return;
    }
    let Some(mut entry) = EVENTS.reserve(0) else {
        // SAFETY: promised by the caller.
        if let Some(counters) = counters_of(u32::from(unsafe { (*key).link })) {
            counters.events_dropped += 1;
        }
        return;
    };
    let record: &mut MaybeUninit<EventRecord> = &mut entry;
    let record = record.as_mut_ptr();
    // SAFETY: the entry has room for a record, and a run fits into its headers; every field is written
    // before the record is submitted. The rest is promised by the caller.
    unsafe {
        fill(record, frame, key, Event::RETX_RUN, duplicate, now);
        (*record).headers_len = EventRecord::RETX_RUN_LEN;
        (&raw mut (*record).headers).cast::<RetxRun>().write(*run);
    }
    entry.submit(0);
}

/// Copies the first bytes of a packet from its linear part.
#[inline(always)]
pub(crate) fn copy(packet: &impl Bytes, headers: &mut Headers) -> u16 {
    const STEP: usize = 16;
    let mut done = 0;
    for i in 0..EVENT_HEADERS / STEP {
        let Some(bytes) = packet.get::<STEP>(i * STEP) else { break };
        // SAFETY: i * STEP + STEP is at most EVENT_HEADERS.
        unsafe { headers.as_mut_ptr().add(i * STEP).cast::<[u8; STEP]>().write_unaligned(bytes) };
        done = i + 1;
    }
    let mut len = done * STEP;
    // The remainder of a packet that is shorter than the last step.
    for _ in 1..STEP {
        let Some([byte]) = packet.get::<1>(len) else { break };
        let Some(place) = headers.get_mut(len) else { break };
        *place = byte;
        len += 1;
    }
    len as u16
}

/// Copies the first bytes of a packet that may span several buffers.
#[inline(always)]
pub(crate) fn load(ctx: &TcContext, headers: &mut Headers) -> u16 {
    let Some(len) = length::<EVENT_HEADERS>(ctx.len() as usize) else { return 0 };
    // SAFETY: `headers` has room for EVENT_HEADERS bytes, and `len` is not more.
    let done = unsafe { bpf_skb_load_bytes(ctx.as_ptr(), 0, headers.as_mut_ptr().cast(), len as u32) };
    if done == 0 { len as u16 } else { 0 }
}
