//! The counters of a port at one time, and their increase between two times.

use std::collections::BTreeMap;

use serde::Serialize;

use super::vocabulary::{self, Meaning};
use crate::host::read::{HostRoot, UnreadReasons};

/// Origin of a counter. Figures from different sources are never added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `ports/N/counters` of the RDMA device: generic.
    Port,
    /// `ports/N/hw_counters` of the RDMA device: the driver's own.
    Hardware,
    /// RDMA netlink.
    Netlink,
    /// Driver statistics of the Ethernet interface.
    Ethtool,
}

impl Source {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Port => "sysfs counters",
            Self::Hardware => "sysfs hw_counters",
            Self::Netlink => "RDMA netlink",
            Self::Ethtool => "ethtool",
        }
    }

    /// The meaning of a counter of this source; `driver` is the RDMA device's.
    pub fn meaning(self, driver: Option<&str>, name: &str) -> Option<Meaning> {
        match self {
            Self::Port => generic(name),
            Self::Ethtool => vocabulary::ethernet(name),
            Self::Hardware | Self::Netlink => vocabulary::hardware(driver, name),
        }
    }
}

/// Counter with its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counter {
    /// Name given by the driver.
    pub name: String,
    /// Value, counted since an unknown time.
    pub value: u64,
    /// Source from which it was read.
    pub source: Source,
    /// Meaning in the common vocabulary; `None` for other counters.
    pub meaning: Option<Meaning>,
}

/// Unit of the generic data counters, in bytes.
const WORD: u64 = 4;
/// Maximum distance across the 32-bit limit for which a smaller value counts as a wrap rather than a reset: a device
/// at full speed adds far less between two readings.
const WRAP_ROOM: u64 = 1 << 31;

/// Counters of one port that were read together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading(BTreeMap<(Source, String), u64>);

impl Reading {
    /// Reads the counters of a port below `at` ("/sys/class/infiniband/mlx5_0/ports/1").
    #[must_use]
    pub fn of_port(root: &HostRoot, at: &str, unread: &mut UnreadReasons) -> Self {
        let mut reading = Self::default();
        for (folder, source) in [("counters", Source::Port), ("hw_counters", Source::Hardware)] {
            for name in unread.names(root, &format!("{at}/{folder}")) {
                // Caching time of the values, not a counter.
                if name == "lifespan" {
                    continue;
                }
                // Some drivers return "N/A (not available)".
                if let Some(value) = unread.number(root, &format!("{at}/{folder}/{name}")) {
                    // In words of four bytes, as defined by the InfiniBand specification.
                    let words = matches!(name.as_str(), "port_xmit_data" | "port_rcv_data");
                    reading.insert(source, name, if words { value.saturating_mul(WORD) } else { value });
                }
            }
        }
        reading
    }

    /// Adds counters of another source.
    pub fn add(&mut self, source: Source, counters: impl IntoIterator<Item = (String, u64)>) {
        for (name, value) in counters {
            self.insert(source, name, value);
        }
    }

    /// Leaves out a value that is none: ionic's driver gives all ones for what the firmware does not count
    /// (`ionic_v1_stat_val` of hw/ionic/ionic_hw_stats.c), and no counter comes so far.
    fn insert(&mut self, source: Source, name: String, value: u64) {
        if value != u64::MAX {
            self.0.insert((source, name), value);
        }
    }

    /// True if there is such a counter.
    pub fn has(&self, source: Source, name: &str) -> bool {
        self.0.contains_key(&(source, name.to_owned()))
    }

    /// True if nothing was read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each counter and its value.
    pub fn values(&self) -> impl Iterator<Item = (&(Source, String), u64)> {
        self.0.iter().map(|(key, value)| (key, *value))
    }

    /// Takes the values of `newer`; counters missing there keep their values.
    pub fn replace_by(&mut self, newer: Self) {
        self.0.extend(newer.0);
    }

    /// All counters with their meanings; `driver` is that of the RDMA device.
    pub fn counters(&self, driver: Option<&str>) -> Vec<Counter> {
        let of = |(source, name): &(Source, String)| source.meaning(driver, name);
        let one = |(key, value): (&(Source, String), &u64)| Counter {
            name: key.1.clone(),
            value: *value,
            source: key.0,
            meaning: of(key),
        };
        self.0.iter().map(one).collect()
    }

    /// The increase of each counter since `earlier`. `None` for counters that decreased (the driver was reloaded, or
    /// they were reset), except after the wrap of a 32-bit counter.
    pub fn since(&self, earlier: &Self) -> BTreeMap<(Source, String), Option<u64>> {
        let added = |(key, now): (&(Source, String), &u64)| {
            let before = earlier.0.get(key)?;
            Some((key.clone(), difference(*before, *now)))
        };
        self.0.iter().filter_map(added).collect()
    }
}

/// The increase between two values of a counter; `None` if it was reset.
///
/// Most counters of mlx5 (its Q counters) and some of irdma have 32 bits and wrap, others have 64, and no file shows
/// which. A value that decreased counts as a wrap if both values fit into 32 bits and the distance across the limit
/// is short; else as a reset.
pub fn difference(before: u64, now: u64) -> Option<u64> {
    if let Some(added) = now.checked_sub(before) {
        return Some(added);
    }
    let end = 1u64 << 32;
    let over = (before < end).then(|| end - before + now)?;
    (over < WRAP_ROOM).then_some(over)
}

/// Meanings of the generic counters that RoCE devices fill in.
fn generic(name: &str) -> Option<Meaning> {
    Some(match name {
        "port_xmit_data" => Meaning::TxBytes,
        "port_rcv_data" => Meaning::RxBytes,
        "port_xmit_packets" => Meaning::TxPackets,
        "port_rcv_packets" => Meaning::RxPackets,
        "port_xmit_discards" => Meaning::TxDiscards,
        "link_downed" => Meaning::LinkDowns,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::read::testing::tree;

    #[test]
    fn counters_of_a_port_are_read_and_named() {
        let tree = tree(&[
            ("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "1000\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_errors", "N/A (no PMA)\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", "4294967290\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/hw_counters/lifespan", "10\n"),
        ]);
        let root = HostRoot::at(tree.path());
        let mut unread = UnreadReasons::new();
        let mut before = Reading::of_port(&root, "/sys/class/infiniband/mlx5_0/ports/1", &mut unread);
        let counters = before.counters(Some("mlx5_ib"));
        assert_eq!(counters.len(), 2, "{counters:?}");
        assert_eq!((counters[0].value, counters[0].meaning), (4000, Some(Meaning::TxBytes)));
        assert_eq!(counters[1].meaning, Some(Meaning::OutOfSequence));
        let reasons = unread.into_reasons();
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        assert!(reasons[0].what.ends_with("/counters/port_rcv_errors"), "{reasons:?}");
        assert_eq!(reasons[0].why, "invalid number `N/A (no PMA)`");

        let mut now = Reading::default();
        now.add(Source::Hardware, [("out_of_sequence".to_owned(), 10)]);
        now.add(Source::Ethtool, [("out_of_sequence".to_owned(), 10), ("new".to_owned(), 3)]);
        before.add(Source::Ethtool, [("out_of_sequence".to_owned(), 11_000_000_000)]);
        let added = now.since(&before);
        assert_eq!(added.get(&(Source::Hardware, "out_of_sequence".into())), Some(&Some(16)));
        assert_eq!(added.get(&(Source::Ethtool, "out_of_sequence".into())), Some(&None));
        assert_eq!(added.len(), 2, "a counter that was not there before added nothing known");
    }

    #[test]
    fn all_ones_are_no_count() {
        let mut reading = Reading::default();
        reading.add(Source::Hardware, [("tx_rdma_retx_pkts".to_owned(), u64::MAX), ("seen".to_owned(), 5)]);
        let names: Vec<_> = reading.counters(Some("ionic_rdma")).into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["seen"]);
    }

    #[test]
    fn a_wrap_differs_from_a_reset() {
        for (before, now, added) in [
            (5, 9, Some(4)),
            (9, 9, Some(0)),
            (u64::from(u32::MAX), 0, Some(1)),
            (u64::from(u32::MAX) - 9, 10, Some(20)),
            // A reset: a wrap would need two thousand million counts.
            (1000, 0, None),
            (1 << 40, 5, None),
            (u64::MAX, 5, None),
        ] {
            assert_eq!(difference(before, now), added, "{before} → {now}");
        }
    }

    #[test]
    fn nothing_to_read_is_nothing() {
        let tree = tree(&[]);
        let mut unread = UnreadReasons::new();
        assert!(Reading::of_port(&HostRoot::at(tree.path()), "/sys/none", &mut unread).is_empty());
        let what: Vec<String> = unread.into_reasons().into_iter().map(|reason| reason.what).collect();
        assert_eq!(what, ["list /sys/none/counters", "list /sys/none/hw_counters"]);
    }
}
