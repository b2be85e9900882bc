//! Types shared with the programs of test and benchmark builds.

/// Plan of the frame generator.
///
/// Every `scan_every`th frame goes to a new queue pair. The others go to `flows` queue pairs round-robin,
/// with PSNs in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FloodPlan {
    /// Frames generated so far.
    pub frames: u64,
    /// Frames to the known queue pairs.
    pub known: u64,
    /// Index of the egress interface.
    pub interface: u32,
    /// Number of known queue pairs; 0 counts as 1.
    pub flows: u32,
    /// The lowest of their numbers.
    pub first_qp: u32,
    /// One of this many frames goes to a new queue pair; 0 for none.
    pub scan_every: u32,
    /// Number of the next new queue pair.
    pub scan_qp: u32,
    /// 1 to repeat the same PSN in all packets of a queue pair: on a link that drops frames, PSNs in order
    /// would show gaps.
    pub hold_psn: u32,
}

/// Array of one [`FloodPlan`].
pub const FLOOD: &str = "FLOOD";

const _: () = assert!(size_of::<FloodPlan>() == 40);
