//! Episodes of loss, as the report has them.

use serde::Serialize;

use crate::metrics::loss::Episodes as UntimedCounter;
use crate::util::packed_option::PackedOption;

/// Episodes of loss. A loss before the repair of the previous one is complete belongs to the same episode. Of a
/// recording: all null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Episodes {
    /// Episodes. Unit: episodes. Null: of a recording.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub episodes: PackedOption,
    /// Duration of the longest. Upstream: from the gap to the last repair. Downstream: from the sender's last
    /// packet before it goes back to its last retransmission; the time in which the sender does not know of the loss
    /// passes unseen. Unit: ns. Null: there was none.
    pub longest_ns: Option<u64>,
    /// Sum of their durations. Unit: ns. Null: there was none.
    pub total_ns: Option<u64>,
    /// Size of the largest. Upstream: PSNs lost. Downstream: packets retransmitted. Unit: packets. Null:
    /// there was none.
    pub largest: Option<u64>,
    /// Start of the first. Unit: Unix ns. Null: there was none.
    pub first_ns: Option<u64>,
    /// End of the last. Unit: Unix ns. Null: there was none.
    pub last_ns: Option<u64>,
}

impl Default for Episodes {
    /// No episode.
    fn default() -> Self {
        UntimedCounter::default().into()
    }
}

impl Episodes {
    /// A recording does not keep them.
    pub(super) const UNKNOWN: Self = Self {
        episodes: PackedOption::UNKNOWN,
        longest_ns: None,
        total_ns: None,
        largest: None,
        first_ns: None,
        last_ns: None,
    };
}

impl From<UntimedCounter> for Episodes {
    fn from(counted: UntimedCounter) -> Self {
        let known = |n| (counted.count > 0).then_some(n);
        Self {
            episodes: counted.count.into(),
            longest_ns: known(counted.longest_ns),
            total_ns: known(counted.total_ns),
            largest: known(counted.largest),
            first_ns: known(counted.first_ns),
            last_ns: known(counted.last_ns),
        }
    }
}
