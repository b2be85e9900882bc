//! Tests of which parallel links are worse than the others.

use std::sync::Arc;

use crate::analysis::Options;
use crate::analysis::fixtures::{key, link, sample, stats};
use crate::findings::Finding;
use crate::findings::tests::found;
use crate::metrics::latency::{Figure, Summary};
use crate::metrics::loss::{FlowLoss, Loss, Metrics};
use crate::metrics::traffic::Collector;
use crate::metrics::traffic::hosts::{BinPackets, Pairs};
use crate::sample::Sample;

/// Three host pairs with two queue pairs each on both of two links; `change` sets the counters of each (link, pair).
fn uplinks(change: impl Fn(u16, u32, &mut crate::sample::Stats, &mut Metrics, &mut u64)) -> Sample {
    let mut pairs = Pairs::default();
    let (mut flows, mut loss, mut times) = (Vec::new(), Loss::default(), Vec::new());
    for at in 0..12 {
        let (link, pair) = (u16::from(at % 2 == 1), at / 2 % 3);
        let key = key(link, &format!("10.0.0.{}", pair + 1), &format!("10.0.1.{}", pair + 1), 20 + at);
        let number = pairs.number(&key, 63);
        let mut data = stats(50_000, 1_000, 4_000_000);
        let (mut metrics, mut wait_ns) = (Metrics::default(), 40_000);
        change(link, pair, &mut data, &mut metrics, &mut wait_ns);
        pairs.packets(
            number,
            BinPackets { packets: data.packets, bytes: data.bytes, ..BinPackets::default() },
        );
        let slot = u32::try_from(flows.len()).unwrap();
        loss.flows.insert(slot, FlowLoss { requests: Some(metrics), ..FlowLoss::default() });
        let tail = 2 * wait_ns;
        let all = Summary { count: 50, p50: wait_ns, p99: tail, p999: tail.into(), max: tail };
        times.push((slot, Figure { all: Some(all), ..Figure::default() }));
        flows.push((key, data));
    }
    let mut sample = sample(vec![link("up0.pcap", None), link("up1.pcap", None)], flows);
    let mut traffic = Collector::new(1_000_000).metrics();
    traffic.pairs = pairs.pairs().to_vec();
    sample.metrics.traffic = Some(Arc::new(traffic));
    (sample.metrics.loss, sample.metrics.latency) = (Some(loss), Some(times.into_iter().collect()));
    sample
}

fn one_of(sample: &Sample) -> Option<Finding> {
    let groups = vec![vec!["up0.pcap".to_owned(), "up1.pcap".to_owned()]];
    let all = found(sample, &Options { groups, ..Options::default() });
    let compared = |finding: &&Finding| {
        finding.id == "links.congested_one_of"
            || finding.id == "ecn.congestion" && !finding.evidence["peers_ratio"].is_null()
    };
    let mut compared = all.iter().filter(compared);
    let one = compared.next().cloned();
    assert_eq!(compared.next(), None, "one trouble is one finding");
    one
}

#[test]
fn marks_on_one_of_two() {
    let marked = |ce: [u64; 2], pairs: u32| {
        one_of(&uplinks(|link, pair, data, _, _| {
            let ce = if pair < pairs { ce[usize::from(link)] } else { 0 };
            data.ecn_data = [0, 0, data.packets - ce, ce];
        }))
    };
    let finding = marked([0, 25], 3).unwrap();
    assert_eq!(finding.title, "ECN congestion on up1: 2.50 % CE-marked, 6 flows, 0 % on up0");
    assert_eq!(finding.place.link.as_deref(), Some("up1.pcap"));
    assert_eq!(finding.evidence["links"], serde_json::json!(["up0.pcap", "up1.pcap"]));
    let steps: Vec<_> = finding.steps.iter().map(|step| step.text.as_str()).collect();
    assert_eq!(steps[1], "Check speed, lanes and FEC errors at both ends of up1.");
    assert_eq!(steps.last(), Some(&"Take the link out of the ECMP group for a test."));
    // Too few marks for congestion: the comparison stands for itself.
    let few = marked([0, 10], 3).unwrap();
    assert_eq!(few.title, "Congestion on up1, one of 2 links: 1.00 % CE-marked, up0 0 %");
    assert_eq!(marked([0, 9], 3), None, "less than one in a hundred");
    assert_eq!(marked([10, 30], 3), None, "three times as many");
    assert_eq!(marked([0, 90], 1), None, "one pair of hosts has a trouble of its own");
    assert_eq!(marked([0, 0], 3), None);
}

#[test]
fn loss_on_one_of_two() {
    let lossy =
        |lost: [u64; 2]| one_of(&uplinks(|link, _, _, metrics, _| metrics.lost = lost[usize::from(link)]));
    assert!(lossy([3, 0]).unwrap().title.starts_with("Loss on up0, one of 2 links: 0.30 %"));
    assert_eq!(lossy([3, 1]), None);
}

#[test]
fn a_slow_link_that_carries_no_more_than_its_peers() {
    let slow = |waits: [u64; 2], pairs: u32, bytes: u64| {
        one_of(&uplinks(|link, pair, data, _, wait| {
            if pair < pairs {
                *wait = waits[usize::from(link)];
            }
            if link == 1 {
                data.bytes = bytes;
            }
        }))
    };
    let finding = slow([40_000, 190_000], 3, 4_000_000).unwrap();
    assert_eq!(finding.title, "Slow link up1, one of 2: median latency 190 µs, up0 40.0 µs");
    assert_eq!(slow([40_000, 89_000], 3, 4_000_000), None, "49 µs longer");
    assert_eq!(slow([120_000, 190_000], 3, 4_000_000), None, "not twice as long");
    assert_eq!(slow([40_000, 190_000], 2, 4_000_000), None, "a third of the hosts is not slower");
    assert_eq!(slow([40_000, 190_000], 3, 6_100_000), None, "a busier link has a longer queue");
}

/// The 99th percentiles on each link, with a median of 1 µs and this number of samples, of requests with or without
/// payload.
fn tails(p99: [u64; 2], count: u64, payload: bool) -> Option<Finding> {
    let mut sample = uplinks(|_, _, _, _, _| {});
    let figure = |slot: u32| {
        let p99 = p99[usize::from(sample.flows[slot as usize].key.link)];
        let all = Summary { count, p50: 1_000.min(p99), p99, p999: p99.into(), max: p99 };
        (slot, Figure { all: Some(all), ..Figure::default() })
    };
    sample.metrics.latency = Some((0..12).map(figure).collect());
    for flow in sample.flows.iter_mut().filter(|_| !payload) {
        flow.stats.payload_bytes = 0;
    }
    one_of(&sample)
}

#[test]
fn a_link_that_is_slow_at_times() {
    let finding = tails([1_200, 401_000], 1_000, true).unwrap();
    assert_eq!(finding.title, "Link up1, one of 2, at times slow: p99 401 µs, up0 1.20 µs");
    assert_eq!(tails([1_200, 401_000], 499, true), None, "too few samples");
    assert_eq!(tails([1_200, 200_000], 1_000, true), None, "less than 200 µs longer");
    assert_eq!(tails([60_000, 401_000], 1_000, true), None, "tails of queues");
}

/// READ requests have no payload.
#[test]
fn requests_without_payload_are_timed_as_well() {
    assert!(tails([1_200, 401_000], 1_000, false).is_some());
}

/// Each link has hosts of its own, as rails have.
#[test]
fn links_without_common_hosts_are_not_compared() {
    let mut rails = uplinks(|link, _, data, _, _| {
        let ce = if link == 1 { 90 } else { 0 };
        data.ecn_data = [0, 0, data.packets - ce, ce];
    });
    assert!(one_of(&rails).is_some());
    for flow in rails.flows.iter_mut().filter(|flow| flow.key.link == 1) {
        flow.key.src[3] ^= 1 << 23;
    }
    assert_eq!(one_of(&rails), None);
}

/// Two hosts connected by two links: agreement of flows takes the place of agreement of host pairs.
#[test]
fn one_pair_of_hosts_with_flows_enough() {
    let between = |change: &dyn Fn(u16, u32, &mut Sample, usize)| {
        let mut sample = uplinks(|_, _, _, _, _| {});
        for at in 0..sample.flows.len() {
            let link = sample.flows[at].key.link;
            let flow = &mut sample.flows[at];
            (flow.key.src, flow.key.dst) =
                (key(0, "10.0.0.1", "10.0.1.1", 9).src, key(0, "10.0.0.1", "10.0.1.1", 9).dst);
            change(link, u32::try_from(at / 2).unwrap(), &mut sample, at);
        }
        one_of(&sample)
    };
    let marked = |flows: u32| {
        between(&|link, number, sample, at| {
            let ce = if link == 1 && number < flows { 60 } else { 0 };
            sample.flows[at].stats.ecn_data = [0, 0, 1_000 - ce, ce];
        })
    };
    let title = "ECN congestion: 6.00 % CE-marked on up1, 10.0.0.1 → 10.0.1.1, 0 % on up0";
    assert_eq!(marked(6).unwrap().title, title);
    assert_eq!(marked(4), None, "two of six flows on the link are fine");
}

/// Requests of both directions are slow on a link with more load in one direction: load is not the cause.
#[test]
fn a_delay_of_both_directions_is_no_queue_of_one() {
    let slow = |back_ns: u64, bytes: u64, spread_ns: u64| {
        let mut sample = uplinks(|link, _, data, _, wait| {
            if link == 1 {
                (data.bytes, *wait) = (bytes, 190_000);
            }
        });
        let mut pairs = Pairs::default();
        let all = sample.flows.len();
        for at in 0..all {
            let mut back = sample.flows[at].clone();
            std::mem::swap(&mut back.key.src, &mut back.key.dst);
            back.slot = u32::try_from(all + at).unwrap();
            back.stats.bytes = 4_000_000;
            sample.flows.push(back);
        }
        for flow in &*sample.flows {
            let seen = BinPackets { packets: 1_000, bytes: flow.stats.bytes, ..BinPackets::default() };
            // One more hop on the way back, which distinguishes the sides.
            let number = pairs.number(&flow.key, if flow.slot >= 12 { 62 } else { 63 });
            pairs.packets(number, seen);
        }
        let mut traffic = Collector::new(1_000_000).metrics();
        traffic.pairs = pairs.pairs().to_vec();
        sample.metrics.traffic = Some(Arc::new(traffic));
        let times = sample.flows.iter().map(|flow| {
            let on_second = [190_000, back_ns][usize::from(flow.slot >= 12)];
            let p50 = if flow.key.link == 1 { on_second } else { 40_000 };
            let p99 = p50 + spread_ns;
            let all = Summary { count: 50, p50, p99, p999: p99.into(), max: p99 };
            (flow.slot, Figure { all: Some(all), ..Figure::default() })
        });
        sample.metrics.latency = Some(times.collect());
        one_of(&sample)
    };
    assert!(slow(190_000, 4_000_000, 90_000).is_some() && slow(40_000, 4_000_000, 90_000).is_some());
    assert!(slow(190_000, 8_000_000, 90_000).is_some());
    assert_eq!(slow(40_000, 8_000_000, 90_000), None, "a queue of one direction");
    assert!(slow(40_000, 8_000_000, 20_000).is_some(), "it does not vary as a queue does");
    assert_eq!(slow(190_000, 13_000_000, 20_000), None, "the load is uneven");
}
