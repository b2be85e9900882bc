//! Counts of the program that samples `post_send` of RDMA providers.

/// Hash of [`PostCounts`] by [`PostKey`].
pub const POST_QPS: &str = "POST_QPS";
/// Array of one [`PostWindow`].
pub const POST_WINDOW: &str = "POST_WINDOW";

/// Queue pairs that the program counts at most.
pub const MOST_QPS: usize = 16_384;
/// Chained work requests of one call that are read.
pub const MOST_REQUESTS: usize = 64;
/// Buffers of one work request that are read.
pub const MOST_SGES: usize = 16;
/// Opcodes of work requests (`enum ibv_wr_opcode`): 0 to 15.
pub const OPCODES: usize = 16;
/// Classes of message lengths: class k holds those up to 2^k bytes and above 2^(k-1).
pub const SIZES: usize = 40;

/// Opcodes that carry no message: LOCAL_INV, BIND_MW, DRIVER1, FLUSH.
pub const WITHOUT_MESSAGE: u32 = 1 << 7 | 1 << 8 | 1 << 11 | 1 << 14;

/// A queue pair of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct PostKey {
    /// Process, in the initial PID namespace.
    pub pid: u32,
    /// Number of the queue pair.
    pub qpn: u32,
    /// The process's descriptor of the device (`/dev/infiniband/uverbsN`).
    pub device_fd: u32,
    /// Always 0.
    pub pad: u32,
}

/// Work that was posted to a queue pair while windows were open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PostCounts {
    /// Calls of `post_send`; each posts a chain of work requests.
    pub calls: u64,
    /// Work requests that were read.
    pub requests: u64,
    /// Length of their messages. Unit: bytes.
    pub bytes: u64,
    /// Calls whose chain was longer than [`MOST_REQUESTS`]: the rest of the chain was not read.
    pub long_chains: u64,
    /// Work requests with more buffers than [`MOST_SGES`]: the rest of them was not read.
    pub long_lists: u64,
    /// Calls whose work requests could not be read to their end, as their memory was not resident.
    pub faults: u64,
    /// Length of the shortest message; `u64::MAX` without a message.
    pub shortest: u64,
    /// Length of the longest message.
    pub longest: u64,
    /// Work requests by opcode.
    pub opcodes: [u64; OPCODES],
    /// Work requests with another opcode.
    pub other_opcodes: u64,
    /// Messages by class of length.
    pub sizes: [u64; SIZES],
}

impl PostCounts {
    /// Counts before anything is posted: all zero.
    pub const NONE: Self = Self {
        calls: 0,
        requests: 0,
        bytes: 0,
        long_chains: 0,
        long_lists: 0,
        faults: 0,
        shortest: u64::MAX,
        longest: 0,
        opcodes: [0; OPCODES],
        other_opcodes: 0,
        sizes: [0; SIZES],
    };
}

/// The window in which calls are counted, and what is not of a queue pair. User space sets it, the program may close
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PostWindow {
    /// End by the kernel's monotonic clock. The program sets it to 0 at the limit.
    pub until_ns: u64,
    /// Calls after which the program closes the window.
    pub most_calls: u64,
    /// Calls in the window.
    pub calls: u64,
    /// Time at which the program closed it; 0 when it did not.
    pub stopped_ns: u64,
    /// Calls whose queue pair could not be read.
    pub faults: u64,
    /// Calls that found no room for their queue pair.
    pub full: u64,
}

/// Class of a message's length.
pub const fn size_class(length: u64) -> usize {
    if length <= 1 {
        return 0;
    }
    let class = u64::BITS as usize - (length - 1).leading_zeros() as usize;
    if class < SIZES { class } else { SIZES - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_the_lengths_up_to_its_power_of_two() {
        for (length, class) in [
            (0, 0),
            (1, 0),
            (2, 1),
            (3, 2),
            (4, 2),
            (5, 3),
            (65_536, 16),
            (65_537, 17),
            (u64::MAX, SIZES - 1),
        ] {
            assert_eq!(size_class(length), class, "{length}");
        }
    }
}
