//! Receive drops of an interface that occur before any program sees the packet.

use super::interface::{self, InterfaceKind};
use crate::host::error::Result;
use crate::host::netlink::{Attrs, LinkHeader};

/// Receive drop counters of an interface since its creation (`struct rtnl_link_stats64`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RxDrops {
    /// Packets received and not processed. Also grows for packets of protocols without a handler, which programs did
    /// see.
    pub dropped: u64,
    /// Packets for which the device had no buffer.
    pub missed: u64,
    /// Overruns of the device's queue. Some drivers include these in `missed`.
    pub fifo: u64,
    /// Damaged frames of all kinds.
    pub errors: u64,
}

impl RxDrops {
    /// Parses an RTM_NEWLINK message (after its netlink header); `None` if it has no statistics.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let stats = Attrs::after(payload, LinkHeader::LEN).get(libc::IFLA_STATS64)?;
        let at = |field: usize| stats.get(field * 8..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
        Some(Self { errors: at(4)?, dropped: at(6)?, fifo: at(14)?, missed: at(15)? })
    }

    /// The counters of an interface of the calling thread's namespace; `None` if it has been removed or its driver
    /// has no counters.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn read(index: u32) -> Result<Option<Self>> {
        match interface::raw(index) {
            Ok(payload) => Ok(Self::parse(&payload)),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The increase since `earlier`; `None` if a counter decreased (the driver was reloaded).
    pub fn since(self, earlier: Self) -> Option<Self> {
        Some(Self {
            dropped: self.dropped.checked_sub(earlier.dropped)?,
            missed: self.missed.checked_sub(earlier.missed)?,
            fifo: self.fifo.checked_sub(earlier.fifo)?,
            errors: self.errors.checked_sub(earlier.errors)?,
        })
    }

    /// The dropped packets of a difference that no program can have seen.
    ///
    /// On a NIC these are packets without room: `dropped` also contains packets that the network stack discarded
    /// later, such as every RoCEv1 packet on a port without RDMA. Virtual interfaces count full queues as `dropped`,
    /// together with frames of protocols without a handler: `unhandled` is the number of such frames that programs
    /// did see.
    pub fn unseen(self, kind: &InterfaceKind, unhandled: u64) -> u64 {
        // The maximum, since some drivers maintain only one of the two counters and some maintain both.
        let no_room = self.missed.max(self.fifo);
        match kind {
            InterfaceKind::Physical => no_room,
            _ => no_room.saturating_add(self.dropped.saturating_sub(unhandled)),
        }
    }
}

/// Drops between two readings; `None` if either is missing or the counters were reset.
pub fn between(earlier: Option<RxDrops>, now: Option<RxDrops>) -> Option<RxDrops> {
    now?.since(earlier?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::netlink::Request;
    use crate::host::read::testing::{root_or_skip, veth_pair};

    #[test]
    fn fields_are_those_of_the_kernels_structure() {
        let stats: Vec<u8> = (0..25u64).flat_map(u64::to_ne_bytes).collect();
        let message = |stats: &[u8]| Request::new(16, 0, &[0; 16]).attr(libc::IFLA_STATS64, stats).payload();
        let drops = RxDrops::parse(&message(&stats)).unwrap();
        assert_eq!(drops, RxDrops { errors: 4, dropped: 6, fifo: 14, missed: 15 });
        assert_eq!(RxDrops::parse(&message(&stats[..120])), None);
        assert_eq!(RxDrops::parse(&[0; 16]), None);
    }

    #[test]
    fn what_is_unknown_is_not_zero() {
        let (old, new) = (RxDrops { missed: 5, ..RxDrops::default() }, RxDrops::default());
        assert_eq!(between(Some(old), Some(new)), None);
        assert_eq!(between(None, Some(new)), None);
        assert_eq!(between(Some(old), None), None);
        assert_eq!(between(Some(new), Some(old)), Some(old));
    }

    #[test]
    fn drops_of_the_stack_are_not_the_nics() {
        let drops = RxDrops { dropped: 100, missed: 3, fifo: 3, errors: 1 };
        assert_eq!(drops.unseen(&InterfaceKind::Physical, 0), 3);
        assert_eq!(drops.unseen(&InterfaceKind::Veth, 0), 103);
        assert_eq!(drops.unseen(&InterfaceKind::Veth, 60), 43);
        assert_eq!(drops.unseen(&InterfaceKind::Veth, 200), 3);
    }

    #[test]
    fn a_real_interface_has_counters_and_a_missing_one_has_none() {
        if !root_or_skip("a_real_interface_has_counters") {
            return;
        }
        let pair = veth_pair(1500);
        let read = |index| pair.left.run(|| RxDrops::read(index)).unwrap().unwrap();
        assert_eq!(read(pair.left_index), Some(RxDrops::default()));
        assert_eq!(read(9999), None);
    }
}
