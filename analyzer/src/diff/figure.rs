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
        figure!("bits_per_second", BitRate, More, (USUAL, 0.0), |r| rate(r, total(r, "roce_bytes")? * 8.0)),
        figure!("payload_bits_per_second", BitRate, More, (USUAL, 0.0), |r| {
            rate(r, present(r, |f| at(f, "/payload_bytes"))? * 8.0)
        }),
        figure!("packets_per_second", Rate, Neither, (USUAL, 0.0), |r| rate(r, total(r, "roce_packets")?)),
        figure!("ce_ratio", Ratio, Less, (USUAL, 0.001), ce_ratio),
        figure!("cnp_per_second", Rate, Less, (USUAL, 1.0), |r| rate(r, total(r, "cnp_packets")?)),
        figure!("missing_ratio", Ratio, Less, (USUAL, 1e-5), |r| share(&once(r), |f| both(f, "missing"))),
        figure!("lost_ratio", Ratio, Less, (USUAL, 1e-5), |r| share(&once(r), |f| losses(f, "lost"))),
        figure!("repeat_ratio", Ratio, Less, (USUAL, 1e-4), |r| share(&once(r), |f| both(f, "repeats"))),
        figure!("naks_per_second", Rate, Less, (USUAL, 0.1), |r| rate(r, present(r, naks)?)),
        figure!("rnr_naks_per_second", Rate, Less, (USUAL, 0.1), |r| rate(
            r,
            present(r, |f| at(f, "/ack/rnr_naks"))?
        )),
        figure!("latency_p50_ns", Duration, Less, (USUAL, 500.0), |r| latency(r, "/latency_ns/p50")),
        figure!("latency_p99_ns", Duration, Less, (TAIL, 1000.0), |r| latency(r, "/latency_ns/p99")),
        figure!("effective_flows", Number, More, (USUAL, 0.1), |r| at(r, "/entropy/effective_flows")),
        figure!("max_over_mean", Ratio, Less, (USUAL, 0.01), max_over_mean),
        figure!("step_period_ns", Duration, Less, (USUAL, 0.0), |r| at(r, "/steps/period_ns")),
        figure!("step_busy_share", Ratio, Neither, (USUAL, 0.02), |r| at(r, "/steps/busy_ratio")),
        figure!("flows", Number, Neither, (0.0, 0.0), |r| {
            r.get("flows")?.as_array()?;
            Some(once(r).len() as f64)
        }),
        figure!("lost_packets", Number, Less, (0.0, 0.0), own_losses),
    ];
    ALL
}

/// Figures of what one host sends to another, in a value of [`by_hosts`].
pub(super) const fn pair() -> &'static [Figure] {
    const ALL: &[Figure] = &[
        figure!("bits_per_second", BitRate, More, (USUAL, 0.0), |p| at(p, "/bits_per_second")),
        figure!("ce_ratio", Ratio, Less, (USUAL, 0.001), |p| at(p, "/ce_ratio")),
        figure!("missing_ratio", Ratio, Less, (USUAL, 1e-5), |p| at(p, "/missing_ratio")),
        figure!("lost_ratio", Ratio, Less, (USUAL, 1e-5), |p| at(p, "/lost_ratio")),
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

/// What rocescope, the capture or the interfaces missed: known when each part is that such a source has.
fn own_losses(report: &Value) -> Option<f64> {
    let drops = match report.pointer("/source/kind")?.as_str()? {
        "replay" => "capture_drops",
        _ => "interface_drops",
    };
    let lost = |name: &str| at(report, &format!("/totals/lost/{name}"));
    // Older reports have no `contended`.
    Some(lost("flow_table_full")? + lost(drops)? + lost("contended").unwrap_or(0.0))
}

/// One of the totals, each packet counted once.
fn total(report: &Value, name: &str) -> Option<f64> {
    let all = at(report, &format!("/totals/{name}"))?;
    let Some(again) = report.pointer("/totals/counted_again") else {
        // A report that does not say what several taps counted: as far as its flows tell.
        let of = match name {
            "roce_packets" => "/packets",
            "roce_bytes" => "/bytes",
            _ => "/cnp_packets",
        };
        let list = || list(report).filter_map(|flow| at(flow, of));
        let most = once(report).into_iter().filter_map(|flows| most(&flows, |flow| at(flow, of)));
        return Some(all - (list().sum::<f64>() - most.sum::<f64>()));
    };
    Some(all - again.get(name)?.as_f64()?)
}

/// Marks among data: of everything, or where several taps see the same packets, on the link with most of them.
fn ce_ratio(report: &Value) -> Option<f64> {
    let all = at(report, "/totals/ce_ratio")?;
    match at(report, "/totals/counted_again/taps") {
        Some(taps) if taps > 1.0 => worst(report.get("links")?.as_array()?.iter(), "ce_ratio"),
        _ => Some(all),
    }
}

/// The worst of those groups of links that share a load.
fn max_over_mean(report: &Value) -> Option<f64> {
    let groups = report.get("imbalance")?.as_array()?.iter();
    let same_path = |group: &&Value| group.get("same_path").and_then(Value::as_bool) == Some(true);
    worst(groups.filter(|group| !same_path(group)), "max_over_mean")
}

fn list(report: &Value) -> impl Iterator<Item = &Value> {
    report.get("flows").and_then(Value::as_array).into_iter().flatten()
}

/// The flows of a report by queue pair: one that several links see is one.
fn once(report: &Value) -> Vec<Vec<&Value>> {
    let mut all: BTreeMap<(&str, &str, u64), Vec<&Value>> = BTreeMap::new();
    for flow in list(report) {
        let text = |name: &str| flow.get(name).and_then(Value::as_str).unwrap_or_default();
        let key = (text("src"), text("dst"), flow.get("dest_qp").and_then(Value::as_u64).unwrap_or(0));
        all.entry(key).or_default().push(flow);
    }
    all.into_values().collect()
}

/// A figure of one queue pair where most of it was seen; `None` when no link knows it.
fn most(flows: &[&Value], of: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
    flows.iter().filter_map(|flow| of(flow)).reduce(f64::max)
}

/// A sum over queue pairs; `None` when it is known of none of them, or some are retired, of which it is not
/// kept.
fn present(report: &Value, of: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
    if at(report, "/totals/retired/flows").is_some_and(|flows| flows > 0.0) {
        return None;
    }
    once(report).iter().filter_map(|flows| most(flows, &of)).reduce(|sum, one| sum + one)
}

/// A sum over queue pairs as a share of the packets of those of which it is known.
fn share(queue_pairs: &[Vec<&Value>], of: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
    let (mut sum, mut packets) = (0.0, 0.0);
    for flows in queue_pairs {
        if let (Some(n), Some(of)) = (most(flows, &of), most(flows, |flow| at(flow, "/packets"))) {
            sum += n;
            packets += of;
        }
    }
    (packets > 0.0).then(|| sum / packets)
}

/// A figure of both sequences of a flow. Of what responses skip, what is missing for certain; reports of older versions
/// do not say that.
fn both(flow: &Value, name: &str) -> Option<f64> {
    let one = |sequence: &str| at(flow, &format!("/{sequence}/{name}"));
    let certain = || at(flow, "/responses_missing").filter(|_| name == "missing");
    match (one("psn"), certain().or_else(|| one("psn_responses"))) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
    }
}

/// The same of what became of them. Not known where it is not of either that the flow has.
fn losses(flow: &Value, name: &str) -> Option<f64> {
    let one = |sequence: &str, loss: &str| match flow.get(sequence) {
        None | Some(Value::Null) => Some(0.0),
        Some(_) => at(flow, &format!("/{loss}/{name}")),
    };
    both(flow, "missing")?;
    Some(one("psn", "loss")? + one("psn_responses", "loss_responses")?)
}

fn naks(flow: &Value) -> Option<f64> {
    flow.pointer("/ack/naks")?.as_object()?.values().filter_map(Value::as_f64).reduce(|sum, n| sum + n)
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
fn worst<'a>(list: impl Iterator<Item = &'a Value>, name: &str) -> Option<f64> {
    list.filter_map(|one| one.get(name)?.as_f64()).reduce(f64::max)
}

/// What each host sends to each other host. A queue pair seen on several links counts once, as the link that
/// saw most of it has it.
pub(super) fn by_hosts(report: &Value) -> BTreeMap<(String, String), Value> {
    let mut pairs: BTreeMap<(String, String), Vec<Vec<&Value>>> = BTreeMap::new();
    for flows in once(report) {
        let text = |name: &str| {
            let first = flows.first().and_then(|flow| flow.get(name)).and_then(Value::as_str);
            first.unwrap_or_default().to_owned()
        };
        pairs.entry((text("src"), text("dst"))).or_default().push(flows);
    }
    let figures = |queue_pairs: &[Vec<&Value>]| {
        let bytes = queue_pairs.iter().filter_map(|flows| most(flows, |flow| at(flow, "/bytes")));
        let bytes = bytes.reduce(|sum, one| sum + one);
        let all = || queue_pairs.iter().flatten().copied();
        json!({
            "bits_per_second": bytes.and_then(|bytes| rate(report, bytes * 8.0)),
            "ce_ratio": marked(queue_pairs),
            "missing_ratio": share(queue_pairs, |f| both(f, "missing")),
            "lost_ratio": share(queue_pairs, |f| losses(f, "lost")),
            "repeat_ratio": share(queue_pairs, |f| both(f, "repeats")),
            "latency_p99_ns": weighted(all(), "/latency_ns/p99"),
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

/// Marks over queue pairs, each as the link that saw most marks has it.
fn marked(queue_pairs: &[Vec<&Value>]) -> Option<f64> {
    let most_marked = queue_pairs.iter().filter_map(|flows| {
        let ratio = |flow: &Value| at(flow, "/ce_ratio").unwrap_or(-1.0);
        flows.iter().copied().max_by(|a, b| ratio(a).total_cmp(&ratio(b)))
    });
    mean(most_marked, "/ce_ratio", data_packets)
}
