//! Settings of a flow from the headers around RoCE, in a few bytes: nearly all flows have none.

use rocescope_common::account::Mixed;
use rocescope_common::wire::frame::Encap;
use serde::{Serialize, Serializer};

use crate::sample::Stats;

/// The tunnels around the first packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tunnels(u32);

impl Tunnels {
    pub(crate) const fn of(stats: &Stats) -> Self {
        Self(stats.encap)
    }

    /// Their names, outermost first.
    pub fn names(self) -> Vec<&'static str> {
        self.0.to_le_bytes().into_iter().filter_map(Encap::from_byte).map(Encap::name).collect()
    }

    /// Their names, outermost first, joined by `+`; `None` without a tunnel.
    pub fn name(self) -> Option<String> {
        (!self.is_none()).then(|| self.names().join("+"))
    }

    /// True if there is no tunnel.
    pub fn is_none(self) -> bool {
        !self.0.to_le_bytes().into_iter().any(|byte| Encap::from_byte(byte).is_some())
    }
}

impl Serialize for Tunnels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

/// Properties in which a later packet differs from the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MixedIn {
    bits: u8,
    /// The second VLAN is a lane of InfiniBand.
    is_lane: bool,
}

impl MixedIn {
    pub(in crate::analysis) fn of(stats: &Stats) -> Self {
        Self { bits: stats.mixed, is_lane: stats.lane().is_some() }
    }

    /// Names of the changed settings.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let mixed = Mixed::NAMES.into_iter().filter(move |(bit, _)| self.bits & bit != 0);
        mixed.map(move |(_, name)| if name == "inner_vlan" && self.is_lane { "lane" } else { name })
    }

    /// True if the setting `name` changed.
    pub fn contains(self, name: &str) -> bool {
        self.names().any(|own| own == name)
    }
}

impl Serialize for MixedIn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}
