//! The figures of everything, each packet once: several taps may see the same ones.
//!
//! What is lost or marked between two taps shows at the second of them only, so that holes and marks are those
//! of the link that has most.

use crate::model::{Counts, Delta, Model};
use crate::report::Again;

/// Sums over all links less what a link counted that another counts too.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Once {
    /// Links that count the same packets, at most; 1 when the sums are those of the model.
    pub taps: usize,
    /// In the span.
    pub delta: Option<Delta>,
    /// Since the start, or since counters were reset.
    pub total: Counts,
}

impl Once {
    /// Of `model`, whose newest sample counts `again` what it says.
    #[must_use]
    pub fn of(model: &Model, again: &Again) -> Self {
        if again.taps < 2 {
            return Self { taps: 1, delta: model.delta, total: model.total };
        }
        let (mut span, mut total) = (Counts::default(), Counts::default());
        for row in model.rows.iter().filter(|row| row.at.is_some_and(|at| again.is_again(at))) {
            total.add(&row.total);
            if let Some(delta) = &row.delta {
                span.add(&delta.counts);
            }
        }
        let in_span: Vec<Counts> =
            model.links.iter().filter_map(|link| link.delta.map(|delta| delta.counts)).collect();
        let in_all: Vec<Counts> = model.links.iter().map(|link| link.total).collect();
        Self {
            taps: again.taps,
            delta: model
                .delta
                .map(|delta| Delta { counts: holes(delta.counts.less(&span), &in_span), ..delta }),
            total: holes(model.total.less(&total), &in_all),
        }
    }
}

/// `counts` with the holes of the link that has most, and the marks of the one with the largest share of them.
pub(super) fn holes(counts: Counts, links: &[Counts]) -> Counts {
    let most = |of: fn(&Counts) -> u64| links.iter().map(of).max().unwrap_or(0);
    let ratio = |link: &Counts| link.ce_ratio().unwrap_or(0.0);
    let marked = links.iter().filter(|link| link.ce_ratio().is_some());
    let marked = marked.max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    Counts {
        gaps: most(|c| c.gaps),
        missing: most(|c| c.missing),
        lost: most(|c| c.lost),
        late: most(|c| c.late),
        ecn_data: marked.map_or(counts.ecn_data, |link| link.ecn_data),
        ..counts
    }
}
