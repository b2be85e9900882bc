//! Tests of which retransmissions belong to another finding.

use crate::analysis::Options;
use crate::analysis::fixtures::{SECOND, START, key, link, sample, stats};
use crate::findings::Finding;
use crate::findings::tests::found;
use crate::metrics::loss::{Episodes, FlowLoss, Loss, Metrics};
use crate::sample::Sample;

fn episodes(count: u64) -> Episodes {
    Episodes { count, longest_ns: 9, total_ns: 9, largest: 1, first_ns: START, last_ns: START + SECOND }
}

/// 1,000 packets each way, with this loss.
fn both_ways(there: &FlowLoss, back: &FlowLoss) -> Sample {
    let data = || {
        let mut data = stats(50_000, 1_000, 1_000_000);
        (data.last_ns, data.acks, data.rare.naks[0]) = (START + SECOND, 10, 20);
        data
    };
    let flows =
        vec![(key(0, "10.0.0.1", "10.0.0.2", 17), data()), (key(0, "10.0.0.2", "10.0.0.1", 18), data())];
    let mut sample = sample(vec![link("eth0", None)], flows);
    sample.window = Some((START, START + SECOND));
    let mut loss = Loss::default();
    loss.flows.extend([(0, *there), (1, *back)]);
    sample.metrics.loss = Some(loss);
    sample
}

/// The hosts of each storm.
fn storms(sample: &Sample) -> Vec<(String, String)> {
    let all = found(sample, &Options::default());
    let is_loss = |one: &Finding| one.id == "loss.before_tap" && one.is_problem();
    assert!(all.iter().any(is_loss), "{all:#?}");
    let hosts = |one: &Finding| {
        let (src, dst, _) = one.named.iter().next().unwrap();
        (src.to_string(), dst.to_string())
    };
    all.iter().filter(|one| one.id == "retry.storm").map(hosts).collect()
}

/// 300 packets of the other direction are retransmitted, which nothing upstream of this tap explains.
#[test]
fn loss_in_one_direction_does_not_explain_the_retransmissions_of_the_other() {
    let lossy = |retransmitted: u64| {
        let last_retransmission_ns = START + SECOND;
        let metrics = Metrics {
            lost: 20,
            upstream: episodes(20),
            retransmitted,
            last_retransmission_ns,
            ..Metrics::default()
        };
        FlowLoss { requests: Some(metrics), ..FlowLoss::default() }
    };
    let repeated = FlowLoss {
        requests: Some(Metrics {
            retransmitted: 300,
            downstream: episodes(20),
            last_retransmission_ns: START + SECOND,
            ..Metrics::default()
        }),
        ..FlowLoss::default()
    };
    let expected = |src: &str, dst: &str| (src.to_owned(), dst.to_owned());
    for own in [20, 300] {
        // Its own belong to the loss.
        assert_eq!(storms(&both_ways(&repeated, &lossy(own))), [expected("10.0.0.1", "10.0.0.2")]);
    }
}

/// READs are repeated because responses to them are lost.
#[test]
fn lost_responses_explain_the_reads_that_are_repeated_for_them() {
    let repeated = FlowLoss {
        requests: Some(Metrics {
            rereads: 300,
            last_retransmission_ns: START + SECOND,
            ..Metrics::default()
        }),
        ..FlowLoss::default()
    };
    let lost = |requests: bool| {
        let metrics = Some(Metrics { lost: 20, upstream: episodes(20), ..Metrics::default() });
        let (requests, responses) = if requests { (metrics, None) } else { (None, metrics) };
        FlowLoss { requests, responses, ..FlowLoss::default() }
    };
    let of = |requests: bool| {
        let mut sample = both_ways(&repeated, &lost(requests));
        let stats = &mut sample.flows[1].stats;
        stats.rare.psn_responses = stats.psn.form();
        storms(&sample).len()
    };
    assert_eq!((of(false), of(true)), (0, 1));
}

/// They arrive at the tap out of order already: the cause stands before what it costs.
#[test]
fn reordering_is_named_before_the_retransmissions_that_it_causes() {
    let late = |timeouts: u64| {
        let last_retransmission_ns = START + SECOND;
        let metrics = Metrics {
            recovered: 20,
            retransmitted: 300,
            timeouts,
            last_retransmission_ns,
            ..Metrics::default()
        };
        let late = FlowLoss { requests: Some(metrics), ..FlowLoss::default() };
        let all = found(&both_ways(&late, &FlowLoss::default()), &Options::default());
        all.into_iter().find(|one| one.id == "retry.storm").unwrap().title
    };
    assert_eq!(late(0), "Reordering: 20 packets out of order, 30.0 % retransmitted, 10.0.0.1 → 10.0.0.2");
    assert!(late(20).starts_with("Retransmission storm: 300 of 1,000 packets"), "{}", late(20));
}
