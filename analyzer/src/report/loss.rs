//! Loss, reordering, packets sent again, and damaged ones, as the report has them.

use serde::Serialize;

use crate::figures::icrc::Checked;
use crate::figures::loss::{Episodes as Counted, Figures, Retransmission};

/// What happened to one sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Loss {
    pub recovered: u64,
    pub lost: u64,
    pub unfilled: u64,
    pub retransmitted: u64,
    pub mirrored: u64,
    pub rereads: u64,
    pub rnr_resent: u64,
    pub timeouts: u64,
    pub stuck: u64,
    pub retransmission: Option<&'static str>,
    pub before_tap: Episodes,
    pub after_tap: Episodes,
}

/// Times at which something was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Episodes {
    pub episodes: u64,
    pub longest_ns: Option<u64>,
    pub largest: Option<u64>,
    pub first_ns: Option<u64>,
    pub last_ns: Option<u64>,
}

/// Packets by what their ICRC says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Icrc {
    pub checked: u64,
    pub bad: u64,
    pub unchecked: u64,
}

impl Loss {
    /// Of a sequence that was there; nothing may have happened to it.
    pub(super) fn of(figures: Option<Figures>) -> Self {
        let figures = figures.unwrap_or_default();
        Self {
            recovered: figures.recovered,
            lost: figures.lost,
            unfilled: figures.unfilled,
            retransmitted: figures.retransmitted,
            mirrored: figures.mirrored,
            rereads: figures.rereads,
            rnr_resent: figures.rnr_resent,
            timeouts: figures.timeouts,
            stuck: figures.stuck,
            retransmission: figures.retransmission.map(|how| match how {
                Retransmission::GoBackN => "go_back_n",
                Retransmission::SelectiveRepeat => "selective_repeat",
            }),
            before_tap: figures.before.into(),
            after_tap: figures.after.into(),
        }
    }
}

impl From<Counted> for Episodes {
    fn from(counted: Counted) -> Self {
        let known = |n| (counted.count > 0).then_some(n);
        Self {
            episodes: counted.count,
            longest_ns: known(counted.longest_ns),
            largest: known(counted.largest),
            first_ns: known(counted.first_ns),
            last_ns: known(counted.last_ns),
        }
    }
}

impl From<Checked> for Icrc {
    fn from(Checked { checked, bad, unchecked }: Checked) -> Self {
        Self { checked, bad, unchecked }
    }
}
