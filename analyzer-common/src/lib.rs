//! RoCE parsing and accounting: one parser and one accounting function, compiled for both the kernel
//! programs and user space.
//!
//! | module | holds |
//! |---|---|
//! | [`wire`] | the frame parser: Ethernet, VLAN, IP, UDP, tunnels, GRH, BTH and extended headers |
//! | [`account`] | per-flow counters and the rules that update them (PSN, ECN, AETH) |
//! | [`abi`] | types shared by kernel programs and user space: map values, events, map names |
//! | `random` | numbers determined by a seed, for made-up traffic and tests; not in kernel programs |
//!
//! Numbers are in host byte order, addresses in wire order. Nothing here allocates, does I/O or reads a
//! clock.
#![no_std]
#![forbid(unsafe_code)]
#![expect(
    clippy::inline_always,
    reason = "kernel programs must be inlined into one function: calls cost stack and time"
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "offsets and lengths here are bounded by 16-bit length fields; try_from would bring \
              panics or branches into the kernel programs"
)]

pub mod abi;
pub mod account;
#[cfg(not(target_arch = "bpf"))]
pub mod random;
pub mod wire;
