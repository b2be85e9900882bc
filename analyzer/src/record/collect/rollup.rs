//! Rows of flows summed over longer intervals, by link and destination.

use std::collections::BTreeMap;

use crate::record::cell::Time;
use crate::record::registry::{FlowRollup, FlowSecond};
use crate::sample::{Address, Direction};
use crate::util::shared::Shared;

type Key = (Shared, Option<Direction>, Address);

/// Sums of the current interval.
#[derive(Debug)]
pub(super) struct Rollup {
    length_ns: u64,
    sums: BTreeMap<Key, FlowRollup>,
}

impl Rollup {
    pub(super) fn new(length_ns: u64) -> Self {
        Self { length_ns: length_ns.max(1), sums: BTreeMap::new() }
    }

    /// Adds rows of one time. The current interval ends with the first row beyond it.
    pub(super) fn take(&mut self, flows: &[FlowSecond], rows: &mut Vec<FlowRollup>) {
        for flow in flows {
            let end = Time(flow.t.0.div_ceil(self.length_ns).saturating_mul(self.length_ns));
            if self.sums.values().next().is_some_and(|sum| sum.t != end) {
                self.finish(rows);
            }
            let key = (flow.link.clone(), flow.direction, flow.dst);
            add(self.sums.entry(key).or_insert_with(|| none(flow, end, self.length_ns)), flow);
        }
    }

    /// The sums of the current interval so far.
    pub(super) fn unfinished(&self) -> Vec<FlowRollup> {
        self.sums.values().cloned().collect()
    }

    pub(super) fn finish(&mut self, rows: &mut Vec<FlowRollup>) {
        rows.extend(std::mem::take(&mut self.sums).into_values());
    }
}

fn none(flow: &FlowSecond, end: Time, length_ns: u64) -> FlowRollup {
    FlowRollup {
        t: end,
        interval_ns: length_ns,
        host: flow.host.clone(),
        job: flow.job.clone(),
        link: flow.link.clone(),
        rail: flow.rail.clone(),
        direction: flow.direction,
        dst: flow.dst,
        flow_rows: 0,
        packets: 0,
        bytes: 0,
        payload_bytes: 0,
        ecn_capable: 0,
        ce: 0,
        cnp_packets: 0,
        rnr_naks: 0,
        nak_sequence: 0,
        nak_other: 0,
        lost: None,
        reordered: None,
        retransmitted: None,
        timeouts: None,
        rtt_count: None,
        rtt_sum_ns: None,
        rtt_max_ns: None,
    }
}

fn add(sum: &mut FlowRollup, flow: &FlowSecond) {
    sum.flow_rows += 1;
    for (sum, new) in [
        (&mut sum.packets, flow.packets),
        (&mut sum.bytes, flow.bytes),
        (&mut sum.payload_bytes, flow.payload_bytes),
        (&mut sum.ecn_capable, flow.ecn_capable),
        (&mut sum.ce, flow.ce),
        (&mut sum.cnp_packets, flow.cnp_packets),
        (&mut sum.rnr_naks, flow.rnr_naks),
        (&mut sum.nak_sequence, flow.nak_sequence),
        (&mut sum.nak_other, flow.nak_other),
    ] {
        *sum = sum.saturating_add(new);
    }
    for (sum, new) in [
        (&mut sum.lost, flow.lost),
        (&mut sum.reordered, flow.reordered),
        (&mut sum.retransmitted, flow.retransmitted),
        (&mut sum.timeouts, flow.timeouts),
    ] {
        *sum = [*sum, new].into_iter().flatten().reduce(i64::saturating_add);
    }
    for (sum, new) in [(&mut sum.rtt_count, flow.rtt_count), (&mut sum.rtt_sum_ns, flow.rtt_sum_ns)] {
        *sum = [*sum, new].into_iter().flatten().reduce(u64::saturating_add);
    }
    sum.rtt_max_ns = sum.rtt_max_ns.max(flow.rtt_max_ns);
}
