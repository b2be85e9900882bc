//! The values of metrics: what they are in a report.

use std::collections::BTreeMap;

use rocescope_common::wire::opcode::TRANSPORT_UC;
use serde_json::{Value, json};

use crate::metrics::latency::P99_SAMPLES;
use crate::metrics::loss::is_in_vain;
use crate::util::time::seconds;

/// Sources of two reports: packets, or a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Likeness {
    /// Both from packets.
    Alike,
    /// Both are of recordings, with the same interval.
    SameInterval,
    /// One is of a recording.
    OneRecorded,
    /// Both are of recordings, with other intervals; nanoseconds, as far as known.
    Intervals(Option<u64>, Option<u64>),
}

/// Largest difference of two intervals that are the same: those of a live run vary.
const SAME_INTERVAL: f64 = 0.1;

impl Likeness {
    pub(super) fn of(a: &Value, b: &Value) -> Self {
        let interval =
            |report: &Value| report.pointer("/source/recording/interval_ns").and_then(Value::as_u64);
        match (is_recording(a), is_recording(b)) {
            (false, false) => Self::Alike,
            (true, true) => match (interval(a), interval(b)) {
                (Some(a), Some(b)) if a.abs_diff(b) as f64 <= a.max(b) as f64 * SAME_INTERVAL => {
                    Self::SameInterval
                }
                (a, b) => Self::Intervals(a, b),
            },
            _ => Self::OneRecorded,
        }
    }
}

/// True if a report is of a recording. An older report does not say so: its flows have no opcodes.
fn is_recording(report: &Value) -> bool {
    if let Some(recording) = report.pointer("/source/recording") {
        return !recording.is_null();
    }
    let flows = report.get("flows").and_then(Value::as_array).into_iter().flatten();
    let mut opcodes = flows.filter_map(|flow| flow.get("opcodes")?.as_array()).peekable();
    opcodes.peek().is_some() && opcodes.all(Vec::is_empty)
}

/// Length of the time range in nanoseconds.
pub(super) fn duration_ns(report: &Value) -> Option<u64> {
    let end = |name: &str| report.pointer(name).and_then(Value::as_u64);
    end("/window/last_ns")?.checked_sub(end("/window/first_ns")?).filter(|ns| *ns > 0)
}

pub(super) fn at(value: &Value, path: &str) -> Option<f64> {
    value.pointer(path)?.as_f64()
}

pub(super) fn rate(report: &Value, amount: f64) -> Option<f64> {
    Some(amount / seconds(duration_ns(report)?))
}

/// Packets that rocescope, the capture or the interfaces dropped; known when all parts of the source are known.
pub(super) fn own_losses(report: &Value) -> Option<f64> {
    let drops = match report.pointer("/source/kind")?.as_str()? {
        "replay" => "capture_drops",
        _ => "interface_drops",
    };
    let lost = |name: &str| at(report, &format!("/totals/lost/{name}"));
    // Older reports have no `contended`.
    Some(lost("flow_table_full")? + lost(drops)? + lost("contended").unwrap_or(0.0))
}

/// A count of a flow without copies, which the capture shows twice; reports of older versions do not tell them.
pub(super) fn without_duplicates(flow: &Value, path: &str, copied: &str) -> Option<f64> {
    Some((at(flow, path)? - at(flow, &format!("/copied/{copied}")).unwrap_or(0.0)).max(0.0))
}

/// A total with each packet counted once.
pub(super) fn total(report: &Value, name: &str) -> Option<f64> {
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
        let most = deduplicated(report).into_iter().filter_map(|flows| most(&flows, |flow| at(flow, of)));
        return Some(all - (list().sum::<f64>() - most.sum::<f64>()));
    };
    Some(all - again.get(name)?.as_f64()?)
}

/// CE ratio of all data, or where several taps see the same packets, of the link with the highest.
pub(super) fn ce_ratio(report: &Value) -> Option<f64> {
    let all = at(report, "/totals/ce_ratio")?;
    match at(report, "/totals/counted_again/taps") {
        Some(taps) if taps > 1.0 => worst(report.get("links")?.as_array()?.iter(), "ce_ratio"),
        _ => Some(all),
    }
}

/// The largest of all groups of parallel links.
pub(super) fn max_over_mean(report: &Value) -> Option<f64> {
    let groups = report.get("imbalance")?.as_array()?.iter();
    let same_path = |group: &&Value| group.get("same_path").and_then(Value::as_bool) == Some(true);
    worst(groups.filter(|group| !same_path(group)), "max_over_mean")
}

pub(super) fn list(report: &Value) -> impl Iterator<Item = &Value> + Clone {
    report.get("flows").and_then(Value::as_array).into_iter().flatten()
}

/// The flows of a report by queue pair, over all links.
pub(super) fn deduplicated(report: &Value) -> Vec<Vec<&Value>> {
    let mut all: BTreeMap<_, Vec<&Value>> = BTreeMap::new();
    for flow in list(report) {
        all.entry(queue_pair(flow)).or_default().push(flow);
    }
    all.into_values().collect()
}

/// Source, destination and destination queue pair of a flow.
pub(super) fn queue_pair(flow: &Value) -> (&str, &str, u64) {
    let text = |name: &str| flow.get(name).and_then(Value::as_str).unwrap_or_default();
    (text("src"), text("dst"), flow.get("dest_qp").and_then(Value::as_u64).unwrap_or(0))
}

/// The largest value of one queue pair over its links; `None` when it is unknown on all.
pub(super) fn most(flows: &[&Value], of: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
    flows.iter().filter_map(|flow| of(flow)).reduce(f64::max)
}

/// A sum over queue pairs; `None` when it is unknown for all of them, or for retired ones, which do not keep it.
pub(super) fn present(report: &Value, of: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
    if at(report, "/totals/retired/flows").is_some_and(|flows| flows > 0.0) {
        return None;
    }
    deduplicated(report).iter().filter_map(|flows| most(flows, &of)).reduce(|sum, one| sum + one)
}

/// A sum over queue pairs as a ratio to the packets of those where it is known.
pub(super) fn share(queue_pairs: &[Vec<&Value>], of: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
    let (mut sum, mut packets) = (0.0, 0.0);
    for flows in queue_pairs {
        if let (Some(n), Some(of)) =
            (most(flows, &of), most(flows, |flow| without_duplicates(flow, "/packets", "packets")))
        {
            sum += n;
            packets += of;
        }
    }
    (packets > 0.0).then(|| sum / packets)
}

/// A value of both sequences of a flow. Of responses, only gaps that are certain; reports of older versions have all
/// gaps.
pub(super) fn both(flow: &Value, name: &str) -> Option<f64> {
    let one = |sequence: &str| at(flow, &format!("/{sequence}/{name}"));
    let certain = || at(flow, "/responses_missing").filter(|_| name == "missing");
    match (one("psn"), certain().or_else(|| one("psn_responses"))) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
    }
}

/// Retransmissions of both sequences; all packets behind the expected PSN where they are not known.
pub(super) fn retransmitted(flow: &Value) -> Option<f64> {
    // A recording does not count repeated READ requests.
    let known = losses(flow, "/retransmitted").map(|n| n + losses(flow, "/rereads").unwrap_or(0.0));
    known.or_else(|| repeats(flow))
}

/// Packets behind the expected PSN of both sequences that are no copies of the capture.
fn repeats(flow: &Value) -> Option<f64> {
    Some((both(flow, "repeats")? - at(flow, "/copied/repeats").unwrap_or(0.0)).max(0.0))
}

/// A loss counter of both sequences; `None` when it is unknown for one that the flow has.
pub(super) fn losses(flow: &Value, path: &str) -> Option<f64> {
    let has = |name: &str| flow.get(name).is_some_and(|value| !value.is_null());
    // A recording keeps losses, and not the PSNs that they were found from.
    let one = |sequence: &str, loss: &str| {
        if has(sequence) || has(loss) { at(flow, &format!("/{loss}{path}")) } else { Some(0.0) }
    };
    if !has("loss") && !has("loss_responses") {
        both(flow, "missing")?;
    }
    Some(one("psn", "loss")? + one("psn_responses", "loss_responses")?)
}

/// Packets lost upstream, of those that should have passed the tap, as in `loss.before_tap`.
pub(super) fn lost_of_expected(queue_pairs: &[Vec<&Value>]) -> Option<f64> {
    let ratio = share(queue_pairs, |flow| losses(flow, "/lost"))?;
    Some(ratio / (1.0 + ratio))
}

pub(super) fn lost_after_tap(flow: &Value) -> Option<f64> {
    // A recording does not keep them.
    both(flow, "missing")?;
    losses(flow, "/after_tap/episodes")
}

/// Loss ratio between two taps as in `loss.between_taps`; the highest of all pairs.
pub(super) fn lost_between_taps(report: &Value) -> Option<f64> {
    let mut pairs: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for tap in report.get("taps")?.as_array()? {
        let Some(vanished) = at(tap, "/vanished") else { continue };
        let same =
            |flow: &&Value| ["src", "dst", "dest_qp"].iter().all(|name| flow.get(name) == tap.get(name));
        let to = tap.get("to").filter(|_| vanished > 0.0);
        let on = |link: &Value| list(report).filter(same).find(|flow| flow.get("link") == Some(link));
        let reached = to.and_then(on);
        // What a sender retried in vain has not arrived.
        let stuck = tap.get("from").and_then(on).and_then(|flow| flow.pointer("/loss/stuck")?.as_u64());
        let in_vain = stuck.is_some_and(is_in_vain);
        let arrived = |flow: &Value| if in_vain || is_uc(flow) { 0.0 } else { unfilled(flow).min(vanished) };
        let missed = reached.map_or(0.0, arrived);
        let (lost, packets) = pairs.entry(tap.get("links")?.to_string()).or_default();
        *lost += vanished - missed;
        *packets += at(tap, "/packets_matched")? + vanished - missed;
    }
    pairs.into_values().filter(|(_, packets)| *packets > 0.0).map(|(lost, all)| lost / all).reduce(f64::max)
}

/// Packets neither observed nor retransmitted: they reached the receiver.
pub(super) fn unfilled(flow: &Value) -> f64 {
    ["/loss/unfilled", "/loss_responses/unfilled"].iter().filter_map(|path| at(flow, path)).sum()
}

/// True if a flow is unreliable: UC never retransmits.
pub(super) fn is_uc(flow: &Value) -> bool {
    let opcodes = flow.get("opcodes").and_then(Value::as_array).into_iter().flatten();
    opcodes.filter_map(|opcode| opcode.get("code")?.as_u64()).all(|code| code >> 5 == u64::from(TRANSPORT_UC))
}

fn all_naks(flow: &Value) -> Option<f64> {
    let all = flow.pointer("/ack/naks")?.as_object()?.values().filter_map(Value::as_f64);
    all.reduce(|sum, n| sum + n)
}

/// True if a flow carries ACKs or NAKs: otherwise it is unknown whether it would show a NAK.
fn has_answers(flow: &Value) -> bool {
    let all = [at(flow, "/ack/acks"), at(flow, "/ack/rnr_naks"), all_naks(flow)];
    all.into_iter().flatten().any(|n| n > 0.0)
}

pub(super) fn naks(flow: &Value) -> Option<f64> {
    let all = all_naks(flow).filter(|_| has_answers(flow))?;
    Some((all - at(flow, "/copied/naks").unwrap_or(0.0)).max(0.0))
}

pub(super) fn rnr_naks(flow: &Value) -> Option<f64> {
    without_duplicates(flow, "/ack/rnr_naks", "rnr_naks").filter(|_| has_answers(flow))
}

/// The 99th percentile.
pub(super) const P99: &str = "p99";

/// Mean of a percentile over flows, weighted by their samples.
pub(super) fn latency<'a>(flows: impl Iterator<Item = &'a Value>, percentile: &str) -> Option<f64> {
    let path = format!("/latency_ns/{percentile}");
    mean(flows, |flow| at(flow, &path), |flow| weight(flow, percentile))
}

/// Samples of a flow; `None` where they are too few for the percentile.
pub(super) fn weight(flow: &Value, percentile: &str) -> Option<f64> {
    let least = if percentile == P99 { P99_SAMPLES } else { 1 };
    at(flow, "/latency_ns/count").filter(|count| *count >= least as f64)
}

/// The weighted mean over the flows that have a value.
pub(super) fn mean<'a>(
    flows: impl Iterator<Item = &'a Value>,
    value: impl Fn(&Value) -> Option<f64>,
    weight: impl Fn(&Value) -> Option<f64>,
) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for flow in flows {
        if let (Some(value), Some(n)) = (value(flow), weight(flow)) {
            sum += value * n;
            count += n;
        }
    }
    (count > 0.0).then(|| sum / count)
}

/// Packets that a flow's `ce_ratio` is over: all but CNP and ACKNOWLEDGE.
pub(super) fn data_packets(flow: &Value) -> Option<f64> {
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
pub(super) fn worst<'a>(list: impl Iterator<Item = &'a Value>, name: &str) -> Option<f64> {
    list.filter_map(|one| one.get(name)?.as_f64()).reduce(f64::max)
}

/// Field of a value of [`by_hosts`] with the ranges of metrics.
pub(super) const RANGES: &str = "ranges";

/// Metrics by host pair. A queue pair seen on several links counts once, with the link that saw most of its packets.
pub(super) fn by_hosts(report: &Value, likeness: Likeness) -> BTreeMap<(String, String), Value> {
    let mut pairs: BTreeMap<(String, String), Vec<Vec<&Value>>> = BTreeMap::new();
    for flows in deduplicated(report) {
        let text = |name: &str| {
            let first = flows.first().and_then(|flow| flow.get(name)).and_then(Value::as_str);
            first.unwrap_or_default().to_owned()
        };
        pairs.entry((text("src"), text("dst"))).or_default().push(flows);
    }
    let ranged = likeness != Likeness::Alike;
    let metrics = |queue_pairs: &[Vec<&Value>]| {
        let bytes = queue_pairs
            .iter()
            .filter_map(|flows| most(flows, |flow| without_duplicates(flow, "/bytes", "bytes")));
        let bytes = bytes.reduce(|sum, one| sum + one);
        let all = || queue_pairs.iter().flatten().copied();
        json!({
            "roce_bits_per_second": bytes.and_then(|bytes| rate(report, bytes * 8.0)),
            "ce_ratio": marked(queue_pairs),
            "missing_ratio": share(queue_pairs, |f| both(f, "missing")),
            "lost_before_tap_ratio": lost_of_expected(queue_pairs),
            "lost_after_tap_ratio": share(queue_pairs, lost_after_tap),
            "retransmitted_ratio": share(queue_pairs, retransmitted),
            "latency_p99_ns": latency(all(), P99),
            RANGES: ranged.then(|| json!({ "latency_p99_ns": range(&all(), "latency_p99_ns") })),
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
pub(super) fn marked(queue_pairs: &[Vec<&Value>]) -> Option<f64> {
    let most_marked = queue_pairs.iter().filter_map(|flows| {
        let ratio = |flow: &Value| at(flow, "/ce_ratio").unwrap_or(-1.0);
        flows.iter().copied().max_by(|a, b| ratio(a).total_cmp(&ratio(b)))
    });
    mean(most_marked, |flow| at(flow, "/ce_ratio"), data_packets)
}

/// The percentile that a metric is the mean of.
pub(super) fn percentile(name: &str) -> Option<&'static str> {
    match name {
        "latency_p50_ns" => Some("p50"),
        "latency_p99_ns" => Some(P99),
        _ => None,
    }
}

/// The range of a metric that is a percentile of latency, over flows; `None` of other metrics, or where it is not
/// known.
pub(super) fn range<'a>(flows: &(impl Iterator<Item = &'a Value> + Clone), name: &str) -> Option<[f64; 2]> {
    let percentile = percentile(name)?;
    let end = |which: &str| {
        let ranged = format!("/latency_range_ns/{percentile}_{which}");
        let exact = format!("/latency_ns/{percentile}");
        // A percentile without a range is that of a capture or a live run.
        let of = |flow: &Value| at(flow, &ranged).or_else(|| at(flow, &exact));
        mean(flows.clone(), of, |flow| weight(flow, percentile))
    };
    Some([end("least")?, end("most")?])
}
