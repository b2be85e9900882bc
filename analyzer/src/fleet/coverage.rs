//! Coverage of a question: pairs of ports that it could compare, losses that no tap can see, and hosts that wait
//! for somebody unknown.

use std::collections::BTreeMap;

use super::question::COMPARED;
use super::{Row, cover, number, text, whole};
use crate::findings::Limits;

/// Counts over all rows of an engine, the bad ones and the others.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    /// Pairs of ports of which the losses are known.
    pub(super) known: u64,
    /// Pairs of ports of which they are not.
    pub(super) unknown: u64,
    /// Devices of which a counter says what was lost.
    pub(super) devices: u64,
    /// Pairs of ports whose queue pairs have a context of the NIC.
    pub(super) contexts: u64,
    /// Some job has a figure.
    pub(super) has_figure: bool,
    /// Jobs that have a median, for at least one figure.
    pub(super) compared: u64,
    /// Jobs that have none.
    pub(super) alone: u64,
    /// Most pairs of ports, or devices, of a job with the same figure.
    pub(super) most: u64,
    /// A figure whose median itself is too high, so that most of a job exceeds what is healthy: metric, median and job.
    pub(super) high: Option<(String, f64, String)>,
    /// Links, rails or planes were compared with those parallel to them.
    pub(super) has_parallel: bool,
    /// The straggler, or a host upstream of it: hosts that wait, of how many, and its name.
    pub(super) upstream_of: Option<(u64, u64, String)>,
    /// No job has two hosts whose traffic could be compared: number of hosts with steps in their record.
    pub(super) steps_alone: Option<u64>,
}

impl Coverage {
    pub(super) fn of(summary: &Row, rows: &[Row], limits: &Limits) -> Self {
        let count = |row: &Row, name: &str| number(row, name).map_or(0, whole);
        // A row of each figure of a job is enough, and there may be more.
        let mut figures: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.contains_key("pairs_of_job")) {
            let (peers, pairs) = figures.entry((text(row, "job"), text(row, "metric"))).or_default();
            *peers = count(row, "peers").max(*peers);
            *pairs = count(row, "pairs_of_job").max(*pairs);
        }
        let mut seen = Self::default();
        let mut jobs: BTreeMap<&str, bool> = BTreeMap::new();
        for ((job, metric), (peers, pairs)) in figures {
            match metric {
                "loss" => seen.known += pairs,
                cover::RETRANSMITTED => seen.unknown += pairs,
                "out of sequence (device)" => seen.devices += pairs,
                cover::RETRIES => seen.contexts += pairs,
                _ => {}
            }
            seen.most = seen.most.max(peers);
            *jobs.entry(job).or_default() |= peers as f64 >= COMPARED;
        }
        seen.compared = jobs.values().filter(|compared| **compared).count() as u64;
        seen.alone = jobs.len() as u64 - seen.compared;
        seen.has_figure = rows.iter().any(|row| number(row, "figure").is_some());
        seen.has_parallel = rows.iter().any(|row| number(row, "busiest_ratio").is_some());
        let high = rows.iter().filter_map(|row| Some((times_healthy(row, limits)?, row)));
        seen.high = high.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, row)| {
            let median = number(row, "usual").unwrap_or(0.0);
            (text(row, "metric").to_owned(), median, text(row, "job").to_owned())
        });
        let waited = rows.iter().max_by_key(|row| count(row, "upstream_of"));
        seen.upstream_of = waited.map(|row| {
            (count(row, "upstream_of"), count(row, "of_hosts"), text(row, "straggler").to_owned())
        });
        seen.upstream_of.take_if(|(waiting, ..)| *waiting == 0);
        // Of `stragglers` alone; null where no flow has a direction.
        let is_alone = summary.contains_key("most_hosts") && count(summary, "most_hosts") < 2;
        seen.steps_alone = is_alone.then(|| count(summary, "step_hosts"));
        seen
    }
}

/// The median of a job's pairs over what is healthy in itself; `None` if it is not above it, or nothing says what is.
fn times_healthy(row: &Row, limits: &Limits) -> Option<f64> {
    let healthy = match text(row, "metric") {
        "CE" | "CE (device)" => limits.ecn.congestion_ratio,
        "retransmission" | "retransmission (device)" => limits.loss.ratio,
        _ => return None,
    };
    let is_median = number(row, "peers").is_some_and(|peers| peers >= COMPARED);
    number(row, "usual").map(|median| median / healthy).filter(|times| is_median && *times >= 1.0)
}
