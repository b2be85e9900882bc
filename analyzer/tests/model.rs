//! Figures of a time range, totals, and what the history keeps.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use rocescope::findings::Problem;
use rocescope::model::history::{BUSIEST, History};
use rocescope::model::{Basis, Conclusions, FlowVerdicts, Model, State, TimeRange, conclusions};
use rocescope::sample::{Retired, Sample};

#[path = "support/fake.rs"]
#[allow(dead_code, missing_docs, unreachable_pub, reason = "shared with other tests")]
mod fake;
use fake::World;

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs()
}

fn pair() -> (Sample, Sample) {
    let world = World::sick();
    (world.at(10), world.at(12))
}

fn history(samples: &[&Sample]) -> History {
    let mut history = History::default();
    for sample in samples {
        history.push(sample, false);
    }
    history
}

/// The model of the newest snapshot.
fn model(samples: &[&Sample], range: TimeRange) -> Model {
    let history = history(samples);
    Model::new(&history, history.len() - 1, range, samples.last().copied()).unwrap()
}

#[test]
fn the_first_sample_has_counts_since_the_start() {
    let (then, _) = pair();
    let model = model(&[&then], TimeRange::Seconds10);
    assert_eq!(model.basis, Basis::Last(10.0));
    assert_eq!(model.delta.unwrap().counts.packets, model.total.packets);
    let flows: u64 = then.flows.iter().map(|flow| flow.stats.packets).sum();
    assert_eq!(model.total.packets, flows + 30, "packets that found the table full are RoCE too");
    assert_eq!(model.links.iter().map(|link| link.total.packets).sum::<u64>(), model.total.packets);
    let skipped: u64 = World::sick().skipped.iter().map(|(_, n)| n * 10).sum();
    assert_eq!(model.frames(), model.total.packets + skipped);
}

#[test]
fn without_a_start_one_sample_has_totals_but_no_rates() {
    let (mut then, _) = pair();
    then.window = None;
    let model = model(&[&then], TimeRange::Seconds10);
    assert_eq!(model.basis, Basis::Unknown);
    assert!(model.delta.is_none() && model.rows.iter().all(|row| row.delta.is_none()));
    assert!(model.links.iter().all(|link| link.delta.is_none()) && model.total.packets > 0);
}

#[test]
fn rows_are_judged_by_the_findings_that_name_their_flows() {
    let sample = World::sick().at(10);
    let report = rocescope::report::Report::build(&sample, &rocescope::report::Options::default());
    let history = history(&[&sample]);
    let mut model = Model::new(&history, history.len() - 1, TimeRange::All, Some(&sample)).unwrap();
    assert!(model.rows.iter().all(|row| !State::of(row).known()), "before the first findings");
    model.judge(Some(&FlowVerdicts::of(&report.findings)));
    let refused = report.findings.iter().find(|finding| finding.id == "nak.remote_access_error").unwrap();
    for row in &model.rows {
        let state = State::of(row);
        let named = refused.named.iter().any(|(_, _, qp)| *qp == row.id.key.dest_qp);
        assert!(state.known());
        assert_eq!(state.has(Problem::Refused), named, "{state:?}");
        assert_eq!(state.worst.is_some(), state.rank() > 0, "{state:?}");
    }
    model.judge(None);
    assert!(model.rows.iter().all(|row| !State::of(row).known()));
}

#[test]
fn rates_are_of_the_time_between() {
    let (then, now) = pair();
    let model = model(&[&then, &now], TimeRange::Latest);
    assert_eq!(model.basis, Basis::Last(2.0));
    let row = model.rows.iter().find(|row| row.total.missing > 0).unwrap();
    let delta = row.delta.unwrap();
    assert!(near(delta.packets_per_s(), 352_000.0));
    assert!(near(delta.bits_per_s(), 352_000.0 * 4178.0 * 8.0));
    assert_eq!((delta.counts.gaps, delta.counts.missing, delta.counts.repeats), (6, 82, 76));
    let sum: f64 = model.rows.iter().filter_map(|row| row.delta).map(|d| d.packets_per_s()).sum();
    assert!(near(model.delta.unwrap().packets_per_s(), sum + 3.0));
    assert!(near(model.delta.unwrap().cnp_per_s(), 1_230.0));
    assert!(model.losing);
}

#[test]
fn no_time_no_change_and_time_that_goes_back_starts_anew() {
    let (then, mut now) = pair();
    now.time_ns = then.time_ns;
    let mut history = history(&[&then, &now]);
    assert_eq!(history.len(), 2, "the start and one snapshot");
    now.time_ns = then.time_ns - 1;
    history.push(&now, false);
    assert_eq!(history.len(), 2);
    assert_eq!(history.get(1).unwrap().time_ns, now.time_ns);
    // The last sample of a run may have more to say at the same time.
    let mut last = now.clone();
    last.flows[0].stats.packets += 1;
    history.push(&last, true);
    assert_eq!(history.get(1).unwrap().flows[0].counts.packets, last.flows[0].stats.packets);
}

#[test]
fn a_counter_that_goes_back_leaves_its_flow_without_a_rate() {
    let (then, mut now) = pair();
    now.flows[3].stats.acks = 1;
    let model = model(&[&then, &now], TimeRange::Latest);
    assert!(model.rows[3].delta.is_none());
    assert!(model.rows[2].delta.is_some() && model.delta.is_some());
}

#[test]
fn flows_are_found_again_in_any_order_and_a_slot_in_use_again_is_another_flow() {
    let (then, mut now) = pair();
    let same = model(&[&then, &now], TimeRange::Latest);
    now.flows.reverse();
    let turned = model(&[&then, &now], TimeRange::Latest);
    for (a, b) in same.rows.iter().zip(turned.rows.iter().rev()) {
        assert_eq!((a.id, a.delta), (b.id, b.delta));
        assert_eq!(now.flows[b.at.unwrap()].slot, b.id.slot);
    }
    // Retired and back in another slot: all it has was counted since.
    now.flows[0].slot = 99;
    let model = model(&[&then, &now], TimeRange::Latest);
    let row = &model.rows[0];
    assert_eq!(row.delta.unwrap().counts, row.total);
}

#[test]
fn retired_flows_stay_in_total_rates() {
    let (then, mut now) = pair();
    let whole = model(&[&then, &now], TimeRange::Latest);
    let gone = now.flows.remove(0);
    now.links[usize::from(gone.key.link)].retired = Retired {
        flows: 1,
        packets: gone.stats.packets,
        bytes: gone.stats.bytes,
        cnp_packets: gone.stats.cnp_packets,
        ecn: gone.stats.ecn(),
        ecn_data: gone.stats.ecn_data,
    };
    let model = model(&[&then, &now], TimeRange::Latest);
    assert_eq!(model.total.packets, whole.total.packets);
    assert_eq!(model.delta.unwrap().counts.bytes, whole.delta.unwrap().counts.bytes);
    assert_eq!(model.retired_flows, 1);
}

#[test]
fn the_whole_run_has_averages_over_its_window() {
    let (then, now) = pair();
    let model = model(&[&then, &now], TimeRange::All);
    assert_eq!(model.basis, Basis::Whole(12.0));
    let delta = model.delta.unwrap().counts;
    assert_eq!((delta.packets, delta.missing), (model.total.packets, model.total.missing));
}

/// Old losses are in the totals and not in the time range.
#[test]
fn a_span_shows_what_is_now() {
    let world = World::sick();
    let mut calm = world.clone();
    calm.flows[4].missing = 0;
    calm.flows[4].gaps = 0;
    let mut history = History::default();
    for seconds in 1..=40 {
        let mut sample = world.at(seconds);
        if seconds > 20 {
            // Nothing is lost any more: the counters stand where they stood.
            sample.flows[4].stats.psn.missing = 20 * 41;
            sample.flows[4].stats.psn.gaps = 60;
        }
        history.push(&sample, false);
    }
    let at = |range| Model::new(&history, history.len() - 1, range, None).unwrap().rows[4].clone();
    let (now, minute) = (at(TimeRange::Seconds10), at(TimeRange::Minute));
    assert_eq!((now.total.missing, now.delta.unwrap().counts.missing), (820, 0));
    assert!(near(now.delta.unwrap().seconds, 10.0));
    assert_eq!(minute.delta.unwrap().counts.missing, 820, "no older than the start");
    // And back at second 20 it was bad.
    let then = Model::new(&history, 20, TimeRange::Seconds10, None).unwrap();
    assert_eq!(then.rows[4].delta.unwrap().counts.missing, 410);
}

#[test]
fn older_snapshots_keep_the_busiest_and_the_memory_is_bounded() {
    let budget = 24 << 20;
    let mut history = History::new(budget);
    let world = World::many(3_000);
    for seconds in 1..=700 {
        history.push(&world.at(seconds), false);
        assert!(history.bytes() <= budget, "{}", history.bytes());
    }
    let newest = history.len() - 1;
    assert!(history.get(newest).unwrap().complete && history.len() > 30, "{}", history.len());
    let old = history.get(2).unwrap();
    assert_eq!((old.complete, old.flows.len(), old.total.flows), (false, BUSIEST, 3_000));
    let slowest = old.flows.iter().map(|flow| flow.counts.packets).min().unwrap();
    let left_out = history.get(newest).unwrap().flows.iter().filter(|flow| {
        let id = flow.id;
        !old.flows.iter().any(|kept| kept.id == id)
    });
    let seconds = (old.time_ns - fake::START_NS) / 1_000_000_000;
    for flow in left_out {
        assert!(flow.counts.packets / 700 * seconds <= slowest, "a busier one was left out");
    }
    // All time ranges are known of all flows now, and of those that were kept then.
    for range in TimeRange::ALL {
        let model = Model::new(&history, newest, range, None).unwrap();
        let unknown = model.rows.iter().filter(|row| row.delta.is_none()).count();
        assert!(unknown == 0 || range == TimeRange::All, "{range:?}: {unknown}");
        let past = Model::new(&history, 20, range, None).unwrap();
        assert!(past.rows.iter().filter(|row| row.delta.is_some()).count() >= 900);
    }
}

#[test]
fn snapshots_leave_after_ten_minutes() {
    let mut history = History::default();
    let world = World::healthy();
    for seconds in 1..=1_000 {
        history.push(&world.at(seconds), false);
    }
    assert_eq!(history.len(), 601);
    assert_eq!(history.get(0).unwrap().time_ns, fake::START_NS + 400_000_000_000);
    assert_eq!(history.at_time(fake::START_NS), None);
    assert_eq!(history.at_time(fake::START_NS + 400_500_000_000), Some(0));
    assert_eq!(history.at_time(u64::MAX), Some(600));
    // A jump of ten seconds is ten seconds, though samples are some milliseconds off.
    let nearest = |ms: u64| history.nearest(fake::START_NS + ms * 1_000_000);
    assert_eq!([0, 401_400, 401_600, 9_000_000].map(nearest), [Some(0), Some(1), Some(2), Some(600)]);
}

#[test]
fn after_a_reset_counters_start_from_zero_and_spans_reach_no_further_back() {
    let world = World::sick();
    let mut history = History::default();
    for seconds in 1..=20 {
        history.push(&world.at(seconds), false);
        if seconds == 15 {
            assert!(history.reset());
        }
    }
    for range in [TimeRange::All, TimeRange::Minute, TimeRange::Seconds10] {
        let model = Model::new(&history, history.len() - 1, range, None).unwrap();
        assert_eq!(model.rows[4].total.missing, 5 * 41);
        assert_eq!(model.rows[4].delta.unwrap().counts.missing, 5 * 41, "{range:?}");
        assert_eq!(model.delta.unwrap().counts.packets, model.total.packets);
    }
    // Before the reset everything is as it was.
    let before = Model::new(&history, 10, TimeRange::All, None).unwrap();
    assert_eq!(before.rows[4].total.missing, 10 * 41);
}

#[test]
fn conclusions_stay_with_their_snapshot_and_count_as_memory() {
    let world = World::sick();
    let options = rocescope::analysis::Options::default();
    let mut history = History::default();
    for seconds in 1..=5 {
        let sample = world.at(seconds);
        history.push(&sample, false);
        if seconds == 2 || seconds == 4 {
            let report = rocescope::report::Report::build(&sample, &options.clone().into());
            let before = history.bytes();
            let conclusions = Conclusions::of(&report, sample.time_ns);
            assert_eq!(conclusions.findings.len(), report.findings.len());
            assert!(conclusions.findings.iter().all(|f| f.flows.len() <= conclusions::FLOWS));
            history.set_conclusions(Arc::new(conclusions));
            assert!(history.bytes() > before + 1_000, "{} {before}", history.bytes());
        }
    }
    let at = |seconds: u64| {
        let snapshot = history.at_time(world.at(seconds).time_ns).unwrap();
        history.conclusions(snapshot).map(|conclusions| conclusions.time_ns)
    };
    assert_eq!(
        [1, 2, 3, 4, 5].map(at),
        [None, Some(2), Some(2), Some(4), Some(4)].map(|s| s.map(|s| world.at(s).time_ns))
    );
}
