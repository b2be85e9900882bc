//! The figures that are compared: where they are in a report, and which way is better.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Change, Verdict};

/// What a number is, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bits a second.
    BitRate,
    /// Something a second.
    Rate,
    /// A fraction of 1.
    Ratio,
    /// Nanoseconds.
    Duration,
    /// A number by itself.
    Number,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    More,
    Less,
    Neither,
}

/// One figure.
pub(super) struct Figure {
    name: &'static str,
    kind: Kind,
    better: Better,
    /// Differences up to this are none: a share of the larger, and absolute.
    same: (f64, f64),
    read: fn(&Value) -> Option<f64>,
}

/// Runs of the same job differ by a few per cent.
const USUAL: f64 = 0.05;
/// Tails differ by more.
const TAIL: f64 = 0.15;

impl Figure {
    pub(super) fn change(&self, a: &Value, b: &Value) -> Change {
        let (a, b) = ((self.read)(a), (self.read)(b));
        let verdict = a.zip(b).map(|(a, b)| {
            let (share, least) = self.same;
            let same = (b - a).abs() <= (a.abs().max(b.abs()) * share).max(least);
            match self.better {
                _ if same => Verdict::Same,
                Better::Neither => Verdict::Changed,
                Better::More if b > a => Verdict::Better,
                Better::Less if b < a => Verdict::Better,
                Better::More | Better::Less => Verdict::Worse,
            }
        });
        let change_ratio = a.zip(b).filter(|(a, _)| *a > 0.0).map(|(a, b)| b / a - 1.0);
        Change { name: self.name, a, b, change_ratio, verdict, kind: self.kind }
    }
}

macro_rules! figure {
    ($name:literal, $kind:ident, $better:ident, $same:expr, $read:expr) => {
        Figure { name: $name, kind: Kind::$kind, better: Better::$better, same: $same, read: $read }
    };
}

/// Figures of a whole run.
pub(super) const fn run() -> &'static [Figure] {
    const ALL: &[Figure] = &[
        figure!("bits_per_second", BitRate, More, (USUAL, 0.0), |r| rate(
            r,
            at(r, "/totals/roce_bytes")? * 8.0
        )),
        figure!("payload_bits_per_second", BitRate, More, (USUAL, 0.0), |r| {
            rate(r, flows(r, |f| at(f, "/payload_bytes"))? * 8.0)
        }),
        figure!("packets_per_second", Rate, Neither, (USUAL, 0.0), |r| rate(
            r,
            at(r, "/totals/roce_packets")?
        )),
        figure!("ce_ratio", Ratio, Less, (USUAL, 0.001), |r| at(r, "/totals/ce_ratio")),
        figure!("cnp_per_second", Rate, Less, (USUAL, 1.0), |r| rate(r, at(r, "/totals/cnp_packets")?)),
        figure!("missing_ratio", Ratio, Less, (USUAL, 1e-5), |r| share(r, |f| both(f, "missing"))),
        figure!("repeat_ratio", Ratio, Less, (USUAL, 1e-4), |r| share(r, |f| both(f, "repeats"))),
        figure!("naks_per_second", Rate, Less, (USUAL, 0.1), |r| rate(r, flows(r, naks)?)),
        figure!("rnr_naks_per_second", Rate, Less, (USUAL, 0.1), |r| rate(
            r,
            flows(r, |f| at(f, "/ack/rnr_naks"))?
        )),
        figure!("latency_p50_ns", Duration, Less, (USUAL, 500.0), |r| latency(r, "/latency_ns/p50")),
        figure!("latency_p99_ns", Duration, Less, (TAIL, 1000.0), |r| latency(r, "/latency_ns/p99")),
        figure!("effective_flows", Number, More, (USUAL, 0.1), |r| at(r, "/entropy/effective_flows")),
        figure!("max_over_mean", Ratio, Less, (USUAL, 0.01), |r| worst(r, "imbalance", "max_over_mean")),
        figure!("step_period_ns", Duration, Less, (USUAL, 0.0), |r| at(r, "/steps/period_ns")),
        figure!("step_busy_share", Ratio, Neither, (USUAL, 0.02), |r| at(r, "/steps/busy_share")),
        figure!("flows", Number, Neither, (0.0, 0.0), |r| Some(r.get("flows")?.as_array()?.len() as f64)),
        figure!("lost_packets", Number, Less, (0.0, 0.0), |r| {
            let known = ["flow_table_full", "capture_drops", "interface_drops"];
            Some(known.iter().filter_map(|name| at(r, &format!("/totals/lost/{name}"))).sum())
        }),
    ];
    ALL
}

/// Figures of what one host sends to another, in a value of [`by_hosts`].
pub(super) const fn pair() -> &'static [Figure] {
    const ALL: &[Figure] = &[
        figure!("bits_per_second", BitRate, More, (USUAL, 0.0), |p| at(p, "/bits_per_second")),
        figure!("ce_ratio", Ratio, Less, (USUAL, 0.001), |p| at(p, "/ce_ratio")),
        figure!("missing_ratio", Ratio, Less, (USUAL, 1e-5), |p| at(p, "/missing_ratio")),
        figure!("repeat_ratio", Ratio, Less, (USUAL, 1e-4), |p| at(p, "/repeat_ratio")),
        figure!("latency_p99_ns", Duration, Less, (TAIL, 1000.0), |p| at(p, "/latency_p99_ns")),
    ];
    ALL
}

/// Length of the window.
pub(super) fn duration_ns(report: &Value) -> Option<u64> {
    let end = |name: &str| report.pointer(name).and_then(Value::as_u64);
    end("/window/last_ns")?.checked_sub(end("/window/first_ns")?).filter(|ns| *ns > 0)
}

fn at(value: &Value, path: &str) -> Option<f64> {
    value.pointer(path)?.as_f64()
}

fn rate(report: &Value, amount: f64) -> Option<f64> {
    Some(amount / (duration_ns(report)? as f64 / 1e9))
}

/// A sum over flows, those without the figure left out; `None` when there are no flows at all.
fn flows(report: &Value, of: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
    let flows = report.get("flows")?.as_array()?;
    (!flows.is_empty()).then(|| flows.iter().filter_map(of).sum())
}

/// The same over all RoCE packets.
fn share(report: &Value, of: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
    let packets = at(report, "/totals/roce_packets").filter(|packets| *packets > 0.0)?;
    Some(flows(report, of)? / packets)
}

/// A figure of both sequences of a flow.
fn both(flow: &Value, name: &str) -> Option<f64> {
    let one = |sequence: &str| at(flow, &format!("/{sequence}/{name}"));
    match (one("psn"), one("psn_responses")) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
    }
}

fn naks(flow: &Value) -> Option<f64> {
    Some(flow.pointer("/ack/naks")?.as_object()?.values().filter_map(Value::as_f64).sum())
}

/// Mean of a percentile over flows, weighted by their samples.
fn latency(report: &Value, path: &str) -> Option<f64> {
    weighted(report.get("flows")?.as_array()?.iter(), path)
}

fn weighted<'a>(flows: impl Iterator<Item = &'a Value>, path: &str) -> Option<f64> {
    mean(flows, path, |flow| at(flow, "/latency_ns/count"))
}

/// The mean of a figure over the flows that have it, by weight.
fn mean<'a>(
    flows: impl Iterator<Item = &'a Value>,
    path: &str,
    weight: impl Fn(&Value) -> Option<f64>,
) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for flow in flows {
        if let (Some(value), Some(n)) = (at(flow, path), weight(flow)) {
            sum += value * n;
            count += n;
        }
    }
    (count > 0.0).then(|| sum / count)
}

/// What a flow's `ce_ratio` speaks of: packets other than CNP and ACKNOWLEDGE.
fn data_packets(flow: &Value) -> Option<f64> {
    const LOW_FIVE_BITS: u64 = 0x1F;
    let (acknowledge, cnp) = (0x11, 0x81);
    let of = |name: &str, opcode: &Value| opcode.get(name).and_then(Value::as_u64);
    let others = flow.get("opcodes").and_then(Value::as_array).into_iter().flatten().filter_map(|opcode| {
        let code = of("code", opcode)?;
        (code == cnp || code & LOW_FIVE_BITS == acknowledge).then(|| of("packets", opcode)).flatten()
    });
    Some((at(flow, "/packets")? - others.sum::<u64>() as f64).max(0.0))
}

/// The largest of a figure in a list.
fn worst(report: &Value, list: &str, name: &str) -> Option<f64> {
    report.get(list)?.as_array()?.iter().filter_map(|one| one.get(name)?.as_f64()).reduce(f64::max)
}

/// What each host sends to each other host. A queue pair seen on several links counts once, on the link
/// that saw most of it.
pub(super) fn by_hosts(report: &Value) -> BTreeMap<(String, String), Value> {
    type Key<'a> = (&'a str, &'a str, u64);
    let mut most: BTreeMap<Key<'_>, &Value> = BTreeMap::new();
    for flow in report.get("flows").and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| flow.get(name).and_then(Value::as_str).unwrap_or_default();
        let key = (text("src"), text("dst"), flow.get("dest_qp").and_then(Value::as_u64).unwrap_or(0));
        let best = most.entry(key).or_insert(flow);
        if at(flow, "/bytes") > at(best, "/bytes") {
            *best = flow;
        }
    }
    let mut pairs: BTreeMap<(String, String), Vec<&Value>> = BTreeMap::new();
    for ((src, dst, _), flow) in most {
        pairs.entry((src.to_owned(), dst.to_owned())).or_default().push(flow);
    }
    let figures = |flows: &[&Value]| {
        let sum = |of: &dyn Fn(&Value) -> Option<f64>| flows.iter().filter_map(|flow| of(flow)).sum::<f64>();
        let packets = sum(&|f| at(f, "/packets")).max(1.0);
        json!({
            "bits_per_second": rate(report, sum(&|f| at(f, "/bytes")) * 8.0),
            "ce_ratio": mean(flows.iter().copied(), "/ce_ratio", data_packets),
            "missing_ratio": sum(&|f| both(f, "missing")) / packets,
            "repeat_ratio": sum(&|f| both(f, "repeats")) / packets,
            "latency_p99_ns": weighted(flows.iter().copied(), "/latency_ns/p99"),
        })
    };
    pairs
        .into_iter()
        .map(|(key, flows)| {
            let value = figures(&flows);
            (key, value)
        })
        .collect()
}
