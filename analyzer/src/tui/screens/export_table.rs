//! Parts of exported tables that several screens share.

use serde_json::{Value, json};

use super::trends::{Point, TRENDS, Trend};
use crate::analysis::direction_name;
use crate::model::Counts;
use crate::sample::Direction;
use crate::tui::export::ExportTable;

/// A counter and its name.
type Total = (&'static str, fn(&Counts) -> Option<u64>);

/// Counters up to a point in time.
const TOTALS: &[Total] = &[
    ("packets", |c| Some(c.packets)),
    ("bytes", |c| Some(c.bytes)),
    ("ce_packets", |c| Some(c.ecn_data[3])),
    ("cnp_packets", |c| Some(c.cnp)),
    ("missing", |c| c.of_sequence(|c| c.missing)),
    ("lost", |c| c.of_sequence(|c| c.lost)),
    ("retransmitted", |c| c.of_sequence(|c| c.retransmitted)),
    ("acks", |c| Some(c.acks)),
    ("rnr_naks", |c| c.of_answers(|c| c.rnr)),
    ("naks", |c| c.of_answers(Counts::naks)),
];

/// A direction as a value.
pub(super) fn direction(direction: Option<Direction>) -> Value {
    json!(direction.map(direction_name))
}

/// A table over time: `first` names the first values of each row.
pub(super) fn over_time(first: &[&str], times: &[Trend]) -> ExportTable {
    let mut table = ExportTable::new(first);
    table.names.extend(["time_ns", "seconds"].map(str::to_owned));
    table.names.extend(TOTALS.iter().map(|(name, _)| (*name).to_owned()));
    table.names.extend(TRENDS.iter().chain(times).map(|trend| trend.field.to_owned()));
    table
}

/// Adds a row for each point.
pub(super) fn add_points(table: &mut ExportTable, first: &[Value], points: &[Point], times: &[Trend]) {
    table.rows.extend(points.iter().map(|point| {
        let mut row = first.to_vec();
        row.extend([json!(point.time_ns), json!(point.seconds)]);
        row.extend(TOTALS.iter().map(|(_, total)| json!(point.total.as_ref().and_then(total))));
        row.extend(TRENDS.iter().map(|trend| json!((trend.value)(point))));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time that was counted"
        )]
        row.extend(times.iter().map(|trend| json!((trend.value)(point).map(|ns| ns as u64))));
        row
    }));
}
