//! Traffic that a host receives, by the number of senders at the same time.

/// Numbers of senders that are distinguished; more count as the last.
pub const DEGREES: usize = 65;

/// Bins in which a host had data from this many senders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
// What each packet changes comes first, next to what else of a target it needs: one cache line.
#[repr(C)]
pub struct Degree {
    /// Data packets in them.
    pub packets: u64,
    /// Bytes of their outer frames.
    pub bytes: u64,
    /// Data packets marked CE.
    pub ce: u64,
    /// Jumps of a PSN ahead.
    pub gaps: u64,
    /// Number of bins.
    pub bins: u64,
    /// Outer frames of the data in those of these bins that have gaps.
    pub lossy_bytes: u64,
    /// From the first to the last data packet of these.
    pub lossy_ns: u64,
}

impl Degree {
    /// Adds what is counted of packets.
    pub(super) const fn add(&mut self, more: &Self) {
        self.bins += more.bins;
        self.packets += more.packets;
        self.bytes += more.bytes;
        self.ce += more.ce;
        self.gaps += more.gaps;
        self.lossy_bytes += more.lossy_bytes;
        self.lossy_ns += more.lossy_ns;
    }
}

impl std::iter::Sum for Degree {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum.add(&one);
            sum
        })
    }
}
