//! RoCE on the wire and how rocescope counts it: one parser and one accounting function, compiled
//! for the kernel programs and for user space alike.
//!
//! | module | holds |
//! |---|---|
//! | [`wire`] | the frame parser: Ethernet, VLAN, IP, UDP, tunnels, GRH, BTH and what follows it |
//! | [`account`] | per-flow statistics and the rules that update them (PSN, ECN, AETH) |
//! | [`abi`] | what the kernel programs and user space exchange: map values, events, map names |
//!
//! Numbers are in host byte order everywhere but in addresses, which are kept as the wire has
//! them. Nothing here allocates, does I/O or reads a clock.
#![no_std]
#![forbid(unsafe_code)]
#![expect(
    clippy::inline_always,
    reason = "what runs in the kernel must end up in one function: calls cost stack, and are not \
              allowed while a spin lock is held"
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "offsets and lengths here are bounded by 16-bit length fields; try_from would bring \
              panics or branches into the kernel programs"
)]

pub mod abi;
pub mod account;
pub mod wire;
