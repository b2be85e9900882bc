//! Events for user space.

use core::mem::MaybeUninit;

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::bpf_skb_load_bytes;
use aya_ebpf::programs::{TcContext, XdpContext};
use rocescope_common::abi::{EVENT_HEADERS, EventRecord, LinkCounters};
use rocescope_common::account::latency::RetxRun;
use rocescope_common::account::{Event, FlowKey, Outcome};
use rocescope_common::wire::{Bytes, Frame};

use crate::maps::{EVENTS, WANT_EVENTS, counters_of};
use crate::packet::{Head, length, opaque};

/// A packet whose first bytes go into an event.
pub(crate) trait Packet: EbpfContext {
    /// Copies the first bytes, at most `MOST`, and returns their number.
    ///
    /// # Safety
    /// `headers` points to memory for `MOST` bytes.
    unsafe fn first_bytes<const MOST: usize>(&self, headers: *mut u8) -> u16;
}

/// Events that carry the packet's headers.
const WITH_HEADERS: u16 = Event::NAK | Event::RNR | Event::CNP | Event::GAP | Event::GSI;

/// Sends an event; counts it as dropped when the ring buffer is full.
///
/// A record has the smallest of three lengths: its cost is mostly that of the cache lines that it takes.
#[inline(always)]
pub(crate) fn event(
    packet: &impl Packet,
    frame: &Frame,
    key: &FlowKey,
    outcome: Outcome,
    now: u64,
    counters: &mut LinkCounters,
) {
    if WANT_EVENTS.load() == 0 {
        return;
    }
    let sent = if outcome.events & WITH_HEADERS == 0 {
        send::<{ EventRecord::BARE / 8 }, 0>(packet, frame, key, outcome, now)
    } else if frame.wire_len as usize <= EventRecord::FEW_HEADERS {
        send::<{ EventRecord::SHORT / 8 }, { EventRecord::FEW_HEADERS }>(packet, frame, key, outcome, now)
    } else {
        send::<{ EventRecord::LONG / 8 }, EVENT_HEADERS>(packet, frame, key, outcome, now)
    };
    if !sent {
        counters.events_dropped += 1;
    }
}

/// Sends a record of `WORDS` words, the last of them for `HEADERS` bytes of the packet; false when the ring buffer is
/// full.
#[inline(always)]
fn send<const WORDS: usize, const HEADERS: usize>(
    packet: &impl Packet,
    frame: &Frame,
    key: *const FlowKey,
    outcome: Outcome,
    now: u64,
) -> bool {
    let Some(mut entry) = EVENTS.reserve_untyped::<[u64; WORDS]>(0) else { return false };
    let memory: &mut MaybeUninit<[u64; WORDS]> = &mut entry;
    let record = memory.as_mut_ptr().cast::<EventRecord>();
    // SAFETY: the entry has room for a record with that many bytes of headers; every other field is written before it
    // is submitted.
    unsafe {
        fill(record, frame, key, outcome.events, outcome.missing, now);
        let headers = (&raw mut (*record).headers).cast();
        (*record).headers_len = if HEADERS == 0 { 0 } else { packet.first_bytes::<HEADERS>(headers) };
    }
    entry.submit(0);
    true
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
        // Word by word, as above: for unaligned bytes the compiler calls a function.
        (&raw mut (*record).pad).cast::<u16>().write(0);
        (&raw mut (*record).pad).cast::<u16>().add(1).write(0);
        (&raw mut (*record).pad).cast::<u16>().add(2).write(0);
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
    let Some(mut entry) = EVENTS.reserve_untyped::<[u64; EventRecord::SHORT / 8]>(0) else {
        // SAFETY: promised by the caller.
        if let Some(counters) = counters_of(u32::from(unsafe { (*key).link })) {
            counters.events_dropped += 1;
        }
        return;
    };
    let memory: &mut MaybeUninit<[u64; EventRecord::SHORT / 8]> = &mut entry;
    let record = memory.as_mut_ptr().cast::<EventRecord>();
    // SAFETY: the entry has room for a record with a run as its headers; every other field is written before it is
    // submitted. The rest is promised by the caller.
    unsafe {
        fill(record, frame, key, Event::RETX_RUN, duplicate, now);
        (*record).headers_len = EventRecord::RETX_RUN_LEN;
        (&raw mut (*record).headers).cast::<RetxRun>().write(*run);
    }
    entry.submit(0);
}

impl Packet for XdpContext {
    /// From the linear part. Word by word: `bpf_xdp_load_bytes` takes longer for the headers of a packet.
    #[inline(always)]
    unsafe fn first_bytes<const MOST: usize>(&self, headers: *mut u8) -> u16 {
        // Fresh packet pointers: if those of the parser were still live, the verifier could not merge the
        // paths through it.
        let fresh = Self::new(opaque(self.ctx as usize) as *mut _);
        let packet = Head::new(fresh.data(), fresh.data_end());
        const STEP: usize = 8;
        let mut len = 0;
        for i in 0..MOST / STEP {
            // SAFETY: i * STEP + STEP is at most MOST.
            if !unsafe { piece::<STEP>(&packet, headers, i * STEP) } {
                break;
            }
            len = (i + 1) * STEP;
        }
        if len + STEP > MOST {
            return len as u16;
        }
        // SAFETY: together the pieces are shorter than STEP bytes.
        unsafe {
            len += if piece::<4>(&packet, headers, len) { 4 } else { 0 };
            len += if piece::<2>(&packet, headers, len) { 2 } else { 0 };
            len += if piece::<1>(&packet, headers, len) { 1 } else { 0 };
        }
        len as u16
    }
}

impl Packet for TcContext {
    /// Also of a packet that spans several buffers.
    #[inline(always)]
    unsafe fn first_bytes<const MOST: usize>(&self, headers: *mut u8) -> u16 {
        let Some(len) = length::<MOST>(self.len() as usize) else { return 0 };
        // SAFETY: promised by the caller, and `len` is not more.
        let done = unsafe { bpf_skb_load_bytes(self.as_ptr(), 0, headers.cast(), len as u32) };
        if done == 0 { len as u16 } else { 0 }
    }
}

/// Copies `N` bytes at an offset; false beyond the end of the packet.
///
/// # Safety
/// `headers` points to memory for `at` and `N` bytes.
#[inline(always)]
unsafe fn piece<const N: usize>(packet: &impl Bytes, headers: *mut u8, at: usize) -> bool {
    let Some(bytes) = packet.get::<N>(at) else { return false };
    // SAFETY: promised by the caller.
    unsafe { headers.add(at).cast::<[u8; N]>().write_unaligned(bytes) };
    true
}
