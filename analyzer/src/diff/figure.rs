//! The metrics that are compared: their place in a report, and which direction is better.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Change, Verdict};
use crate::metrics::latency::P99_SAMPLES;

/// Unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bits per second.
    BitRate,
    /// Events per second.
    Rate,
    /// A fraction of 1.
    Ratio,
    /// A multiple.
    Factor,
    /// Nanoseconds.
    Duration,
    /// A size in bytes.
    Bytes,
    /// A plain number.
    Number,
}

/// Direction of improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    More,
    Less,
    Neither,
}

/// A metric, and the difference from which on it has changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    pub(super) name: &'static str,
    /// Its name in the text.
    pub(super) label: &'static str,
    pub(super) kind: Kind,
    pub(super) better: Better,
    /// Differences up to this are ignored: a share of the larger value, and absolute.
    pub(super) same: (f64, f64),
}

/// A metric of a report.
pub(super) struct Figure {
    pub(super) measure: Measure,
    /// For docs/diff.md.
    pub(super) meaning: &'static str,
    read: fn(&Value) -> Option<f64>,
}

/// Runs of the same job vary by a few per cent.
const USUAL: f64 = 0.05;
/// Tails vary more.
const TAIL: f64 = 0.15;

impl Figure {
    pub(super) fn change(&self, a: &Value, b: &Value) -> Change {
        self.measure.change((self.read)(a), (self.read)(b))
    }
}

impl Measure {
    pub(super) fn change(&self, a: Option<f64>, b: Option<f64>) -> Change {
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
        Change { name: self.name, label: self.label, a, b, change_ratio, verdict, kind: self.kind }
    }
}

macro_rules! figure {
    ($name:literal, $label:literal, $kind:ident, $better:ident, $same:expr, $meaning:literal, $read:expr) => {
        Figure {
            measure: Measure {
                name: $name,
                label: $label,
                kind: Kind::$kind,
                better: Better::$better,
                same: $same,
            },
            meaning: $meaning,
            read: $read,
        }
    };
}

/// Metrics of a whole run.
pub(super) const RUN: &[Figure] = &[
    figure!(
        "roce_bits_per_second",
        "RoCE rate",
        BitRate,
        More,
        (USUAL, 0.0),
        "`totals.roce_bytes` × 8 per second of the time range",
        |r| rate(r, total(r, "roce_bytes")? * 8.0)
    ),
    figure!(
        "payload_bits_per_second",
        "payload rate",
        BitRate,
        More,
        (USUAL, 0.0),
        "`flows[].payload_bytes` × 8 per second",
        |r| rate(r, present(r, |f| uncopied(f, "/payload_bytes", "payload_bytes"))? * 8.0)
    ),
    figure!(
        "roce_packets_per_second",
        "RoCE packets",
        Rate,
        Neither,
        (USUAL, 0.0),
        "`totals.roce_packets` per second",
        |r| rate(r, total(r, "roce_packets")?)
    ),
    figure!(
        "ce_ratio",
        "CE ratio",
        Ratio,
        Less,
        (USUAL, 0.001),
        "`totals.ce_ratio`; with several taps that of the link with the highest",
        ce_ratio
    ),
    figure!(
        "cnp_packets_per_second",
        "CNPs",
        Rate,
        Less,
        (USUAL, 1.0),
        "`totals.cnp_packets` per second",
        |r| rate(r, total(r, "cnp_packets")?)
    ),
    figure!(
        "missing_ratio",
        "PSN gaps, raw",
        Ratio,
        Less,
        (USUAL, 1e-5),
        "raw PSN gaps, lost or reordered (`flows[].psn.missing`, `responses_missing`), per packet",
        |r| share(&once(r), |f| both(f, "missing"))
    ),
    figure!(
        "lost_before_tap_ratio",
        "loss upstream",
        Ratio,
        Less,
        (USUAL, 1e-5),
        "packets lost upstream of the tap (`flows[].loss.lost`), of those that should have passed it",
        |r| lost_of_expected(&once(r))
    ),
    figure!(
        "lost_after_tap_ratio",
        "loss episodes downstream",
        Ratio,
        Less,
        (USUAL, 1e-5),
        "loss episodes downstream of the tap (`flows[].loss.after_tap.episodes`; an episode may be several packets, or reordering), per packet",
        |r| share(&once(r), lost_after_tap)
    ),
    figure!(
        "lost_between_taps_ratio",
        "loss between taps",
        Ratio,
        Less,
        (USUAL, 1e-5),
        "packets lost between two taps (`taps[].vanished`, without those that the second capture missed) of the packets at the first; \
             of the pair of taps with the highest ratio",
        lost_between_taps
    ),
    figure!(
        "repeats_ratio",
        "duplicate PSNs",
        Ratio,
        Less,
        (USUAL, 1e-4),
        "duplicate PSNs: retransmitted or reordered (`flows[].psn.repeats`, `psn_responses.repeats`), per packet",
        |r| share(&once(r), repeats)
    ),
    figure!(
        "naks_per_second",
        "NAKs",
        Rate,
        Less,
        (USUAL, 0.1),
        "`flows[].ack.naks`, all codes, per second",
        |r| { rate(r, present(r, naks)?) }
    ),
    figure!(
        "rnr_naks_per_second",
        "RNR NAKs",
        Rate,
        Less,
        (USUAL, 0.1),
        "`flows[].ack.rnr_naks` per second",
        |r| { rate(r, present(r, |f| uncopied(f, "/ack/rnr_naks", "rnr_naks"))?) }
    ),
    figure!(
        "latency_p50_ns",
        "latency, p50",
        Duration,
        Less,
        (USUAL, 500.0),
        "`flows[].latency_ns.p50`, mean over flows weighted by samples",
        |r| latency(r, "/latency_ns/p50", 1)
    ),
    figure!(
        "latency_p99_ns",
        "latency, p99",
        Duration,
        Less,
        (TAIL, 1000.0),
        "`flows[].latency_ns.p99`, the same over flows with at least 100 samples",
        |r| latency(r, "/latency_ns/p99", P99_SAMPLES)
    ),
    figure!(
        "effective_flows",
        "effective flows (5-tuples)",
        Number,
        More,
        (USUAL, 0.1),
        "`entropy.effective_flows`",
        |r| at(r, "/entropy/effective_flows")
    ),
    figure!(
        "max_over_mean",
        "busiest link over mean",
        Factor,
        Less,
        (USUAL, 0.01),
        "the largest `imbalance[].max_over_mean` of parallel links",
        max_over_mean
    ),
    figure!(
        "step_period_ns",
        "step time",
        Duration,
        Less,
        (USUAL, 0.0),
        "`steps.period_ns`: the median over the steps of the job",
        |r| at(r, "/steps/period_ns")
    ),
    figure!(
        "step_busy_ratio",
        "share of a step with data",
        Ratio,
        Neither,
        (USUAL, 0.02),
        "`steps.busy_ratio`",
        |r| at(r, "/steps/busy_ratio")
    ),
    figure!(
        "step_fastest_ns",
        "step time, fastest in a row",
        Duration,
        Less,
        (USUAL, 0.0),
        "`steps.trend.fastest.period_ns`: what the job has shown to sustain",
        |r| at(r, "/steps/trend/fastest/period_ns")
    ),
    figure!(
        "step_transfer_ns",
        "step: data on the wire",
        Duration,
        Less,
        (USUAL, 100_000.0),
        "`steps.parts.transfer_ns`",
        |r| at(r, "/steps/parts/transfer_ns")
    ),
    figure!(
        "step_wait_ns",
        "step: waiting within it",
        Duration,
        Less,
        (TAIL, 1_000_000.0),
        "`steps.parts.wait_ns`",
        |r| at(r, "/steps/parts/wait_ns")
    ),
    figure!(
        "step_compute_ns",
        "step: no traffic until the next",
        Duration,
        Less,
        (USUAL, 100_000.0),
        "`steps.parts.compute_ns`, mostly computing",
        |r| at(r, "/steps/parts/compute_ns")
    ),
    figure!(
        "step_jitter_ratio",
        "step time jitter",
        Ratio,
        Less,
        (TAIL, 0.01),
        "`steps.jitter_ratio`",
        |r| at(r, "/steps/jitter_ratio")
    ),
    figure!(
        "step_lost_ratio",
        "time lost in slower and long steps",
        Ratio,
        Less,
        (TAIL, 0.01),
        "`steps.trend.lost_ratio`: against the fastest steps of the same run",
        |r| at(r, "/steps/trend/lost_ratio")
    ),
    figure!("flows", "flows", Number, Neither, (0.0, 0.0), "flows, each counted once on all links", |r| {
        r.get("flows")?.as_array()?;
        Some(once(r).len() as f64)
    }),
    figure!(
        "tool_lost_packets",
        "packets not counted",
        Number,
        Less,
        (0.0, 0.0),
        "packets that rocescope did not count: `totals.lost.flow_table_full`, `contended`, and `capture_drops` (replay) or `interface_drops`",
        own_losses
    ),
];

/// The metrics that are compared by host pair, too: a value of [`by_hosts`] has them by name.
pub(super) const OF_HOSTS: [&str; 7] = [
    "roce_bits_per_second",
    "ce_ratio",
    "missing_ratio",
    "lost_before_tap_ratio",
    "lost_after_tap_ratio",
    "repeats_ratio",
    "latency_p99_ns",
];

/// Two values of [`by_hosts`] side by side.
pub(super) fn changes_of_hosts(a: &Value, b: &Value) -> Vec<Change> {
    let measures = RUN.iter().map(|figure| figure.measure).filter(|one| OF_HOSTS.contains(&one.name));
    let of = |side: &Value, name: &str| side.get(name).and_then(Value::as_f64);
    measures.map(|one| one.change(of(a, one.name), of(b, one.name))).collect()
}

/// Length of the time range in nanoseconds.
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

/// Packets that rocescope, the capture or the interfaces dropped; known when all parts of the source are known.
fn own_losses(report: &Value) -> Option<f64> {
    let drops = match report.pointer("/source/kind")?.as_str()? {
        "replay" => "capture_drops",
        _ => "interface_drops",
    };
    let lost = |name: &str| at(report, &format!("/totals/lost/{name}"));
    // Older reports have no `contended`.
    Some(lost("flow_table_full")? + lost(drops)? + lost("contended").unwrap_or(0.0))
}

/// A count of a flow without copies, which the capture shows twice; reports of older versions do not tell them.
fn uncopied(flow: &Value, path: &str, copied: &str) -> Option<f64> {
    Some((at(flow, path)? - at(flow, &format!("/copied/{copied}")).unwrap_or(0.0)).max(0.0))
}

/// A total with each packet counted once.
fn total(report: &Value, name: &str) -> Option<f64> {
    let copied = name.trim_start_matches("roce_");
    let all = at(report, &format!("/totals/{name}"))?
        - at(report, &format!("/totals/copied/{copied}")).unwrap_or(0.0);
    let Some(again) = report.pointer("/totals/counted_again") else {
        // An older report without `counted_again`: derived from its flows.
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

/// CE ratio of all data, or where several taps see the same packets, of the link with the highest.
fn ce_ratio(report: &Value) -> Option<f64> {
    let all = at(report, "/totals/ce_ratio")?;
    match at(report, "/totals/counted_again/taps") {
        Some(taps) if taps > 1.0 => worst(report.get("links")?.as_array()?.iter(), "ce_ratio"),
        _ => Some(all),
    }
}

/// The largest of all groups of parallel links.
fn max_over_mean(report: &Value) -> Option<f64> {
    let groups = report.get("imbalance")?.as_array()?.iter();
    let same_path = |group: &&Value| group.get("same_path").and_then(Value::as_bool) == Some(true);
    worst(groups.filter(|group| !same_path(group)), "max_over_mean")
}

fn list(report: &Value) -> impl Iterator<Item = &Value> {
    report.get("flows").and_then(Value::as_array).into_iter().flatten()
}

/// The flows of a report by queue pair, over all links.
fn once(report: &Value) -> Vec<Vec<&Value>> {
    let mut all: BTreeMap<(&str, &str, u64), Vec<&Value>> = BTreeMap::new();
    for flow in list(report) {
        let text = |name: &str| flow.get(name).and_then(Value::as_str).unwrap_or_default();
        let key = (text("src"), text("dst"), flow.get("dest_qp").and_then(Value::as_u64).unwrap_or(0));
        all.entry(key).or_default().push(flow);
    }
    all.into_values().collect()
}

/// The largest value of one queue pair over its links; `None` when it is unknown on all.
fn most(flows: &[&Value], of: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
    flows.iter().filter_map(|flow| of(flow)).reduce(f64::max)
}

/// A sum over queue pairs; `None` when it is unknown for all of them, or for retired ones, which do not keep it.
fn present(report: &Value, of: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
    if at(report, "/totals/retired/flows").is_some_and(|flows| flows > 0.0) {
        return None;
    }
    once(report).iter().filter_map(|flows| most(flows, &of)).reduce(|sum, one| sum + one)
}

/// A sum over queue pairs as a ratio to the packets of those where it is known.
fn share(queue_pairs: &[Vec<&Value>], of: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
    let (mut sum, mut packets) = (0.0, 0.0);
    for flows in queue_pairs {
        if let (Some(n), Some(of)) =
            (most(flows, &of), most(flows, |flow| uncopied(flow, "/packets", "packets")))
        {
            sum += n;
            packets += of;
        }
    }
    (packets > 0.0).then(|| sum / packets)
}

/// A value of both sequences of a flow. Of responses, only gaps that are certain; reports of older versions have all gaps.
fn both(flow: &Value, name: &str) -> Option<f64> {
    let one = |sequence: &str| at(flow, &format!("/{sequence}/{name}"));
    let certain = || at(flow, "/responses_missing").filter(|_| name == "missing");
    match (one("psn"), certain().or_else(|| one("psn_responses"))) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
    }
}

/// Duplicate PSNs of both sequences that are no copies of the capture.
fn repeats(flow: &Value) -> Option<f64> {
    Some((both(flow, "repeats")? - at(flow, "/copied/repeats").unwrap_or(0.0)).max(0.0))
}

/// A loss counter of both sequences; `None` when it is unknown for one that the flow has.
fn losses(flow: &Value, path: &str) -> Option<f64> {
    let one = |sequence: &str, loss: &str| match flow.get(sequence) {
        None | Some(Value::Null) => Some(0.0),
        Some(_) => at(flow, &format!("/{loss}{path}")),
    };
    both(flow, "missing")?;
    Some(one("psn", "loss")? + one("psn_responses", "loss_responses")?)
}

/// Packets lost upstream, of those that should have passed the tap, as in `loss.before_tap`.
fn lost_of_expected(queue_pairs: &[Vec<&Value>]) -> Option<f64> {
    let ratio = share(queue_pairs, |flow| losses(flow, "/lost"))?;
    Some(ratio / (1.0 + ratio))
}

fn lost_after_tap(flow: &Value) -> Option<f64> {
    losses(flow, "/after_tap/episodes")
}

/// Loss ratio between two taps as in `loss.between_taps`; the highest of all pairs.
fn lost_between_taps(report: &Value) -> Option<f64> {
    let mut pairs: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for tap in report.get("taps")?.as_array()? {
        let Some(vanished) = at(tap, "/vanished") else { continue };
        let same =
            |flow: &&Value| ["src", "dst", "dest_qp"].iter().all(|name| flow.get(name) == tap.get(name));
        let to = tap.get("to").filter(|_| vanished > 0.0);
        let reached = to.and_then(|to| list(report).filter(same).find(|flow| flow.get("link") == Some(to)));
        let missed = reached.map_or(0.0, |flow| if is_uc(flow) { 0.0 } else { unfilled(flow).min(vanished) });
        let (lost, packets) = pairs.entry(tap.get("links")?.to_string()).or_default();
        *lost += vanished - missed;
        *packets += at(tap, "/packets_matched")? + vanished - missed;
    }
    pairs.into_values().filter(|(_, packets)| *packets > 0.0).map(|(lost, all)| lost / all).reduce(f64::max)
}

/// Packets neither observed nor retransmitted: they reached the receiver.
fn unfilled(flow: &Value) -> f64 {
    ["/loss/unfilled", "/loss_responses/unfilled"].iter().filter_map(|path| at(flow, path)).sum()
}

/// Whether a flow is unreliable: UC never retransmits.
fn is_uc(flow: &Value) -> bool {
    const UC: u64 = 1;
    let opcodes = flow.get("opcodes").and_then(Value::as_array).into_iter().flatten();
    opcodes.filter_map(|opcode| opcode.get("code")?.as_u64()).all(|code| code >> 5 == UC)
}

fn naks(flow: &Value) -> Option<f64> {
    let all = flow.pointer("/ack/naks")?.as_object()?.values().filter_map(Value::as_f64);
    let all = all.reduce(|sum, n| sum + n)?;
    Some((all - at(flow, "/copied/naks").unwrap_or(0.0)).max(0.0))
}

/// Mean of a percentile over flows, weighted by their samples.
fn latency(report: &Value, path: &str, least: u64) -> Option<f64> {
    weighted(report.get("flows")?.as_array()?.iter(), path, least)
}

/// The same over these flows; a percentile needs `least` samples.
fn weighted<'a>(flows: impl Iterator<Item = &'a Value>, path: &str, least: u64) -> Option<f64> {
    mean(flows, path, |flow| at(flow, "/latency_ns/count").filter(|count| *count >= least as f64))
}

/// The weighted mean over the flows that have a value.
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

/// Packets that a flow's `ce_ratio` is over: all but CNP and ACKNOWLEDGE.
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

/// The largest value in a list.
fn worst<'a>(list: impl Iterator<Item = &'a Value>, name: &str) -> Option<f64> {
    list.filter_map(|one| one.get(name)?.as_f64()).reduce(f64::max)
}

/// Metrics by host pair. A queue pair seen on several links counts once, with the link that saw most of it.
pub(super) fn by_hosts(report: &Value) -> BTreeMap<(String, String), Value> {
    let mut pairs: BTreeMap<(String, String), Vec<Vec<&Value>>> = BTreeMap::new();
    for flows in once(report) {
        let text = |name: &str| {
            let first = flows.first().and_then(|flow| flow.get(name)).and_then(Value::as_str);
            first.unwrap_or_default().to_owned()
        };
        pairs.entry((text("src"), text("dst"))).or_default().push(flows);
    }
    let metrics = |queue_pairs: &[Vec<&Value>]| {
        let bytes =
            queue_pairs.iter().filter_map(|flows| most(flows, |flow| uncopied(flow, "/bytes", "bytes")));
        let bytes = bytes.reduce(|sum, one| sum + one);
        let all = || queue_pairs.iter().flatten().copied();
        json!({
            "roce_bits_per_second": bytes.and_then(|bytes| rate(report, bytes * 8.0)),
            "ce_ratio": marked(queue_pairs),
            "missing_ratio": share(queue_pairs, |f| both(f, "missing")),
            "lost_before_tap_ratio": lost_of_expected(queue_pairs),
            "lost_after_tap_ratio": share(queue_pairs, lost_after_tap),
            "repeats_ratio": share(queue_pairs, repeats),
            "latency_p99_ns": weighted(all(), "/latency_ns/p99", P99_SAMPLES),
        })
    };
    pairs
        .into_iter()
        .map(|(key, flows)| {
            let value = metrics(&flows);
            (key, value)
        })
        .collect()
}

/// CE ratio over queue pairs, each on the link with the highest.
fn marked(queue_pairs: &[Vec<&Value>]) -> Option<f64> {
    let most_marked = queue_pairs.iter().filter_map(|flows| {
        let ratio = |flow: &Value| at(flow, "/ce_ratio").unwrap_or(-1.0);
        flows.iter().copied().max_by(|a, b| ratio(a).total_cmp(&ratio(b)))
    });
    mean(most_marked, "/ce_ratio", data_packets)
}
