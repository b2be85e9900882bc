//! What tests and benchmarks exchange with the programs that only their builds have.

/// What the generator of frames writes into each copy of its template.
///
/// Every `scan_every`th frame goes to a queue pair that had none before; the others go to `flows`
/// queue pairs in turn, each in the order of its sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FloodPlan {
    /// Frames made so far.
    pub frames: u64,
    /// Of those, frames to known queue pairs.
    pub known: u64,
    /// Index of the interface that they leave through.
    pub interface: u32,
    /// How many queue pairs have turns; 0 counts as 1.
    pub flows: u32,
    /// The lowest number of these.
    pub first_qp: u32,
    /// One frame of so many goes to a new queue pair; 0 for none.
    pub scan_every: u32,
    /// The next of those.
    pub scan_qp: u32,
    /// 1 to give every packet of a queue pair the same PSN: where a link drops frames, a sequence
    /// would have gaps that are the link's.
    pub hold_psn: u32,
}

/// Array of one [`FloodPlan`].
pub const FLOOD: &str = "FLOOD";

const _: () = assert!(size_of::<FloodPlan>() == 40);
