//! Flows that were seen at several taps, as the report has them.

use std::net::IpAddr;

use serde::Serialize;

use crate::figures::taps::TapPair;
use crate::sample::{Sample, address};

/// A flow at two taps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct TapFlow {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub dest_qp: u32,
    pub links: [String; 2],
    pub from: Option<String>,
    pub to: Option<String>,
    pub packets_matched: u64,
    pub vanished: Option<u64>,
    pub only_at: [u64; 2],
    pub delay_change_ns: DelayChange,
}

/// How the one-way delay changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct DelayChange {
    pub min: i64,
    pub max: i64,
    pub drift: i64,
    pub points: Vec<DelayPoint>,
}

/// A point of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct DelayPoint {
    pub time_ns: u64,
    pub change_ns: i64,
}

/// All of them, sorted by flow and links.
pub(super) fn taps(sample: &Sample) -> Vec<TapFlow> {
    let pairs = sample.figures.taps.iter().flatten();
    let mut taps: Vec<TapFlow> = pairs.map(|pair| build(sample, pair)).collect();
    taps.sort_by(|a, b| (a.src, a.dst, a.dest_qp, &a.links).cmp(&(b.src, b.dst, b.dest_qp, &b.links)));
    taps
}

fn build(sample: &Sample, pair: &TapPair) -> TapFlow {
    let TapPair { key, links, ordered, matched, only, delay } = pair;
    let links = links
        .map(|link| sample.links.get(usize::from(link)).map_or_else(String::new, |link| link.name.clone()));
    let [from, to] = links.clone();
    let first = delay.points().next().map_or(0, |(_, least)| least);
    let points: Vec<DelayPoint> = delay
        .points()
        .map(|(time_ns, least)| DelayPoint { time_ns, change_ns: least.saturating_sub(first) })
        .collect();
    let (min, max) = delay.range();
    TapFlow {
        src: address(key.family, key.src),
        dst: address(key.family, key.dst),
        dest_qp: key.dest_qp,
        links,
        from: ordered.then_some(from),
        to: ordered.then_some(to),
        packets_matched: *matched,
        // Where nothing is missing at either, the order does not matter.
        vanished: (*ordered || *only == [0; 2]).then_some(only[0]),
        only_at: *only,
        delay_change_ns: DelayChange {
            min: min.saturating_sub(first),
            max: max.saturating_sub(first),
            drift: points.last().map_or(0, |last| last.change_ns),
            points,
        },
    }
}
