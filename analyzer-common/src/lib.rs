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

pub mod abi;
pub mod account;
pub mod wire;
