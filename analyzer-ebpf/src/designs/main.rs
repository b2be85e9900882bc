//! Ways to keep flows in the kernel, to be measured against one another. Never part of rocescope:
//! `cargo xtask bench designs` builds these programs, and runs them over frames in memory.
//!
//! Each first moves the frame on (the next queue pair, the next PSN), then does what all of them have
//! in common: parse, make the flow's key, take the time, count with `observe`. They differ in
//! where the statistics lie and in how they are found and kept to one writer.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]
#![expect(unsafe_code, reason = "packet and map memory is reached through pointers that the verifier checks")]

mod packet;
mod place;

use aya_ebpf::bindings::xdp_action::{XDP_ABORTED, XDP_PASS};
use aya_ebpf::btf_maps::PerCpuArray;
use aya_ebpf::helpers::generated::bpf_jiffies64;
use aya_ebpf::macros::{btf_map, xdp};
use aya_ebpf::programs::XdpContext;
use rocescope_common::abi::testing::FloodPlan;
use rocescope_common::account::{FlowKey, FlowStats, Outcome, observe};
use rocescope_common::wire::frame::{Kernel, Tag};
use rocescope_common::wire::{Entry, Frame, Meta, parse_into};

use packet::Linear;

/// What one packet needs besides its flow, see the same in rocescope's own programs.
#[repr(C)]
pub(crate) struct Work {
    frame: Frame,
    outcome: Outcome,
    offset: u64,
    /// Packets that gave rise to an event, so that the outcome is used.
    events: u64,
    /// The last flow on this CPU, for the design that remembers it.
    last: place::Remembered,
}

#[btf_map]
static WORK: PerCpuArray<Work, 1> = PerCpuArray::new();

/// Each CPU moves on by itself.
#[btf_map]
static STEP: PerCpuArray<FloodPlan, 1> = PerCpuArray::new();

/// Moves the frame on and does nothing else: what the others' figures are less.
#[xdp]
pub fn design_step(ctx: XdpContext) -> u32 {
    if step(&ctx).is_some() { XDP_PASS } else { XDP_ABORTED }
}

/// A program for each design.
macro_rules! designs {
    ($($(#[$doc:meta])* $name:ident: $count:expr;)*) => {
        $(
            $(#[$doc])*
            #[xdp]
            pub fn $name(ctx: XdpContext) -> u32 {
                if run(&ctx, $count).is_some() { XDP_PASS } else { XDP_ABORTED }
            }
        )*
    };
}

designs! {
    /// Parses only.
    design_parse: |_, _, _| Some(());
    /// Per-CPU hash of statistics.
    design_percpu: place::per_cpu;
    /// Hash of statistics, right with one writer a flow only.
    design_shared: place::shared;
    /// The same with the kernel's spin lock.
    design_shared_lock: place::shared_lock;
    /// Hash of numbers of slots in an array that user space maps, right with one writer a flow only.
    design_slot: place::slot;
    /// The same with a turn.
    design_slot_turn: place::slot_turn;
    /// That, and the last flow of this CPU in front of the hash.
    design_last: place::last;
    /// That with 64 flows of this CPU.
    design_cache: place::cache;
    /// That with hints that all CPUs share.
    design_hints: place::hints;
}

/// What every design does, around the part in which they differ.
#[inline(always)]
fn run(ctx: &XdpContext, count: impl FnOnce(*mut Work, &FlowKey, u64) -> Option<()>) -> Option<()> {
    step(ctx)?;
    let work = WORK.get_ptr_mut(0)?;
    // SAFETY: the pointer comes from the map.
    let offset = unsafe { &raw mut (*work).offset };
    let packet = Linear::new(ctx.data(), ctx.data_end(), offset);
    let wire_len = packet.len() as u32;
    let meta = Meta { entry: Entry::ETHERNET, offset: 0, wire_len, tag: Tag::UNKNOWN };
    // SAFETY: a per-CPU value, and programs on one CPU do not interrupt one another.
    let frame = unsafe { &mut (*work).frame };
    parse_into::<Kernel>(&packet, meta, &mut (), frame).ok()?;
    // SAFETY: the words of an address in map memory; one by one, or they would be copied by the byte.
    let words = |address: &[u32; 4]| unsafe {
        let first = &raw const address[0];
        [0, 1, 2, 3].map(|at| first.add(at).read_volatile())
    };
    let key = FlowKey {
        src: words(&frame.src),
        dst: words(&frame.dst),
        dest_qp: frame.dest_qp,
        link: 0,
        family: frame.family,
        pad: 0,
    };
    // SAFETY: takes no arguments.
    count(work, &key, unsafe { bpf_jiffies64() })
}

/// Counts the frame.
///
/// # Safety
/// `stats` must point to statistics in map memory.
#[inline(always)]
pub(crate) unsafe fn account(work: *mut Work, stats: *mut FlowStats, now: u64) -> Outcome {
    // SAFETY: promised by the caller; the frame is in this CPU's own memory.
    unsafe { observe(&mut *stats, &(*work).frame, now) }
}

/// Uses what counting gave rise to.
#[inline(always)]
pub(crate) fn tell(work: *mut Work, outcome: Outcome) {
    // SAFETY: the pointer comes from a map. Through its memory, or the verifier would walk through
    // every combination of outcomes.
    unsafe {
        let scratch = &raw mut (*work).outcome;
        scratch.write_volatile(outcome);
        if scratch.read_volatile().events != 0 {
            (*work).events += 1;
        }
    }
}

/// Writes the next queue pair and PSN into the frame.
#[inline(always)]
fn step(ctx: &XdpContext) -> Option<()> {
    const BTH: usize = 14 + 20 + 8;
    // SAFETY: a per-CPU value, and programs on one CPU do not interrupt one another.
    let plan = unsafe { &mut *STEP.get_ptr_mut(0)? };
    let (turn, flows) = (plan.known, u64::from(plan.flows.max(1)));
    plan.known += 1;
    let qp = plan.first_qp + turn.checked_rem(flows)? as u32;
    let psn = if plan.hold_psn == 0 { turn.checked_div(flows)? as u32 } else { 0 };
    packet::put(ctx, BTH + 5, qp)?;
    packet::put(ctx, BTH + 9, psn)
}

/// Never reached: a program in which it could be is refused by the verifier.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Without it, helpers that need a GPL-compatible program would be refused.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
