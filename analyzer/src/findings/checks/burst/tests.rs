//! Tests of which overlaps of senders count as incast.

use rocescope_common::account::FlowKey;
use rocescope_common::account::psn::PsnTrack;
use std::sync::Arc;

use crate::analysis::Options;
use crate::analysis::fixtures::{START, key, link, sample, stats};
use crate::findings::bound::ALONE;
use crate::findings::tests::found;
use crate::findings::{Finding, Hop, Severity};
use crate::metrics::latency::{Figure, Summary};
use crate::metrics::loss::{Episodes, FlowLoss, Loss, Metrics};
use crate::metrics::traffic::Collector;
use crate::metrics::traffic::hosts::{BinPackets, Pairs};
use crate::sample::{FlowSample, Sample};

/// Packets of 4 KB from several hosts to 10.0.0.9, in runs, one host after the other.
struct Queue {
    senders: u8,
    /// Packets of a run: 100 take 0.33 ms at 10 Gb/s.
    run: u64,
    ce_every: u64,
    gap_every: u64,
    /// Missing PSNs per gap.
    missing: u64,
    /// Pause after each round of runs.
    pause_ns: u64,
}

const RUNS: Queue = Queue { senders: 4, run: 160, ce_every: 0, gap_every: 0, missing: 1, pause_ns: 0 };
const PACKET_NS: u64 = 3_300;

impl Queue {
    fn source(at: u8) -> String {
        format!("10.0.0.{}", at + 1)
    }

    fn sample(&self) -> Sample {
        self.then(0)
    }

    /// The same, and behind it data of one host alone for as many minutes.
    fn then(&self, minutes: u64) -> Sample {
        let mut pairs = Pairs::default();
        let keys: Vec<_> =
            (0..self.senders).map(|at| key(0, &Self::source(at), "10.0.0.9", 17 + u32::from(at))).collect();
        let numbers: Vec<u32> = keys.iter().map(|key| pairs.number(key, 64)).collect();
        let (mut at, mut time) = (0u64, START);
        let every = |n: u64, at: u64| u64::from(n > 0 && at.is_multiple_of(n));
        for _ in 0..40 {
            for number in &numbers {
                for _ in 0..self.run {
                    (at, time) = (at + 1, time + PACKET_NS);
                    let seen = BinPackets {
                        bin: time / 1_000_000,
                        first_ns: time,
                        last_ns: time,
                        packets: 1,
                        bytes: 4_158,
                        data_packets: 1,
                        data_bytes: 4_158,
                        ce: every(self.ce_every, at),
                        gaps: every(self.gap_every, at),
                    };
                    pairs.packets(*number, seen);
                }
            }
            time += self.pause_ns;
        }
        for packet in 0..minutes * 6_000 {
            let time = time + packet * 10_000_000;
            pairs.packets(
                numbers[0],
                BinPackets {
                    bin: time / 1_000_000,
                    first_ns: time,
                    last_ns: time,
                    packets: 1,
                    bytes: 4_158,
                    data_packets: 1,
                    data_bytes: 4_158,
                    ..BinPackets::default()
                },
            );
        }
        let packets = 40 * self.run;
        let mut flow = stats(50_000, packets, packets * 4_158);
        if let Some(gaps) = packets.checked_div(self.gap_every) {
            flow.psn.gaps = gaps;
            flow.psn.missing = self.missing * flow.psn.gaps;
        }
        let mut sample =
            sample(vec![link("h9.pcap", None)], keys.into_iter().map(|key| (key, flow.clone())).collect());
        let mut traffic = Collector::new(1_000_000).metrics();
        (traffic.pairs, traffic.targets) = (pairs.pairs().to_vec(), pairs.targets());
        sample.metrics.traffic = Some(Arc::new(traffic));
        sample
    }
}

/// The incast finding if missing packets are retransmitted later, which proves them lost.
fn lossy(sample: &Sample) -> Option<Finding> {
    let mut sample = sample.clone();
    let mut loss = Loss::default();
    for flow in &sample.flows {
        let metrics = Metrics { lost: flow.stats.psn.missing, ..Metrics::default() };
        loss.flows.insert(flow.slot, FlowLoss { requests: Some(metrics), ..FlowLoss::default() });
    }
    sample.metrics.loss = Some(loss);
    incast(&sample)
}

fn incast(sample: &Sample) -> Option<Finding> {
    found(sample, &Options::default()).into_iter().find(|finding| finding.id == "burst.incast")
}

/// The incasts if this many hosts receive such data.
fn receivers(count: u8) -> Vec<Finding> {
    let mut all = Queue { ce_every: 20, ..RUNS }.sample();
    let (one, mut traffic) = (all.clone(), (**all.metrics.traffic.as_ref().unwrap()).clone());
    let (pairs, targets) = (traffic.pairs.clone(), traffic.targets.clone());
    for at in 1..count {
        let host = key(0, "10.0.0.1", &format!("10.0.1.{at}"), 17);
        for flow in &one.flows {
            let slot = u32::try_from(all.flows.len()).unwrap();
            let key = FlowKey { dst: host.dst, ..flow.key };
            all.flows.push(FlowSample { slot, key, stats: flow.stats.clone() });
        }
        for known in &pairs {
            let mut pair = *known;
            pair.dst.1 = host.dst;
            traffic.pairs.push(pair);
        }
        for known in &targets {
            let mut target = known.clone();
            target.host.1 = host.dst;
            traffic.targets.push(target);
        }
    }
    all.metrics.traffic = Some(Arc::new(traffic));
    found(&all, &Options::default()).into_iter().filter(|one| one.id == "burst.incast").collect()
}

#[test]
fn no_receiver_of_an_incast_is_left_out_silently() {
    assert_eq!(receivers(6).len(), 6);
    let all = receivers(40);
    assert_eq!(all.len(), ALONE + 1);
    let rest: Vec<&Finding> = all.iter().filter(|one| one.subject.joined.is_some()).collect();
    let [rest] = rest[..] else { panic!("{rest:?}") };
    assert_eq!(rest.evidence["findings"], 40 - ALONE);
    assert_eq!(rest.title, "Incast with congestion: 24 further findings");
}

#[test]
fn runs_of_a_fifo_overlap_though_no_bin_of_time_holds_three_senders() {
    let marked = Queue { ce_every: 20, ..RUNS };
    let sample = marked.sample();
    let target = &sample.metrics.traffic.as_ref().unwrap().targets[0];
    assert!(target.degrees.iter().skip(4).all(|degree| degree.bins == 0), "{:?}", target.degrees);
    assert!(target.overlaps[4].bins >= 30, "{:?}", target.overlaps);
    let finding = incast(&sample).unwrap();
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(finding.title, "Incast to 10.0.0.9: up to 4 senders, 5.00 % CE-marked (100 % of its data)");
    assert_eq!(incast(&RUNS.sample()), None, "without marks or loss");
    assert_eq!(incast(&Queue { senders: 2, ..marked }.sample()), None);
}

#[test]
fn a_silence_empties_the_queue() {
    // The hosts send at different times: a run, then a pause longer than the silence that ends a bin.
    let mut one = Queue { ce_every: 20, pause_ns: 300_000, ..RUNS };
    one.senders = 1;
    let mut sample = one.sample();
    assert_eq!(sample.metrics.traffic.as_ref().unwrap().targets[0].overlaps[1].bins, 40);
    assert_eq!(incast(&sample), None);
    one.pause_ns = 100_000;
    sample = one.sample();
    assert!(sample.metrics.traffic.as_ref().unwrap().targets[0].overlaps[1].bins < 40);
}

#[test]
fn read_responses_overflow_a_queue_as_requests_do() {
    let mut sample = Queue { gap_every: 101, missing: 4, ..RUNS }.sample();
    let mut loss = Loss::default();
    for flow in &mut sample.flows {
        let sequence: PsnTrack = std::mem::take(&mut flow.stats.psn).form();
        flow.stats.rare.psn_responses = sequence;
        flow.stats.rare.response_holes = sequence.missing;
        let missing = sequence.missing;
        let responses = Some(Metrics { lost: missing, ..Metrics::default() });
        loss.flows.insert(flow.slot, FlowLoss { responses, ..FlowLoss::default() });
    }
    sample.metrics.loss = Some(loss);
    assert!(incast(&sample).unwrap().title.contains("PSN gaps"));
}

#[test]
fn a_full_queue_loses_runs_of_several_senders_at_line_rate() {
    let drops = Queue { gap_every: 101, missing: 4, ..RUNS };
    let finding = lossy(&drops.sample()).unwrap();
    assert_eq!(incast(&drops.sample()), None, "PSNs that nobody retransmits are no loss");
    assert!(finding.title.contains("PSN gaps"), "{}", finding.title);
    assert!(finding.owns.contains(&"loss.before_tap") && finding.owns.contains(&"retry.timeouts"));
    assert_eq!(lossy(&Queue { missing: 1, ..drops }.sample()), None, "single packets: bit errors");
    assert_eq!(lossy(&Queue { gap_every: 1_501, ..drops }.sample()), None, "one in a thousand");
    // Only one of four hosts loses packets: its own link is the cause.
    let mut one = drops.sample();
    for flow in one.flows.iter_mut().skip(1) {
        (flow.stats.psn.gaps, flow.stats.psn.missing) = (0, 0);
    }
    assert_eq!(lossy(&one), None);
    // Runs of 30 packets with pauses, so that gaps occur below the peak rate.
    let mut slow = Queue { pause_ns: 190_000, run: 30, ..drops }.sample();
    let traffic = Arc::get_mut(slow.metrics.traffic.as_mut().unwrap()).unwrap();
    traffic.targets[0].peak_bytes = 1_250_000;
    assert!(lossy(&slow).is_none(), "at two thirds of the line rate");
}

/// Loss downstream of the tap, seen as NAK episodes, in flows with this wait for their ACKs.
fn upstream(episodes: u64, wait_ns: u64) -> Sample {
    let mut sample = RUNS.sample();
    let at = Episodes { count: episodes, first_ns: START, last_ns: START + 1, ..Episodes::default() };
    let metrics = Metrics { downstream: at, ..Metrics::default() };
    let mut loss = Loss::default();
    let times = Summary { count: 100, p50: wait_ns, p99: wait_ns, p999: wait_ns.into(), max: wait_ns };
    for flow in &sample.flows {
        loss.flows.insert(flow.slot, FlowLoss { requests: Some(metrics), ..FlowLoss::default() });
    }
    let figure = Figure { all: Some(times), ..Figure::default() };
    sample.metrics.latency = Some(sample.flows.iter().map(|flow| (flow.slot, figure.clone())).collect());
    sample.metrics.loss = Some(loss);
    sample
}

#[test]
fn naks_and_latency_show_a_queue_downstream() {
    let finding = incast(&upstream(10, 400_000)).unwrap();
    assert!(finding.title.contains("40 NAK episodes"), "{}", finding.title);
    assert_eq!(finding.place.hop, Some(Hop::Downstream));
    assert_eq!(incast(&upstream(10, 99_000)), None, "nobody waits: no queue");
    assert_eq!(incast(&upstream(6, 400_000)), None, "below one in a thousand");
}

#[test]
fn an_incast_of_the_first_seconds_of_an_hour_has_ended_and_is_not_diluted() {
    let marked = Queue { ce_every: 20, ..RUNS };
    let alone = incast(&marked.sample()).unwrap();
    let mut sample = marked.then(60);
    sample.window = Some((START, START + 3_600_000_000_000));
    for flow in &mut sample.flows {
        flow.stats.last_ns = START + 84_480_000;
    }
    // The first host sends on.
    let first = &mut sample.flows[0].stats;
    first.last_ns = START + 3_600_000_000_000;
    first.packets += 360_000;
    first.bytes += 360_000 * 4_158;
    let finding = incast(&sample).unwrap();
    assert!(finding.title.contains("up to 4 senders"), "{}", finding.title);
    let share = |finding: &Finding| finding.evidence["incast_bytes_ratio"].as_f64().unwrap();
    assert!(share(&alone) > 0.9 && share(&finding) > 0.9, "{} of its data in that window", share(&finding));
    assert_eq!(finding.evidence["incast_bins"], alone.evidence["incast_bins"]);
    assert!(!finding.active);
    assert_eq!(finding.first_seen_ns, Some(START + PACKET_NS));
}
