//! Rates and totals from one sample and from two.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rocescope::model::{Basis, Model};
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

#[test]
fn one_sample_has_totals_but_no_rates() {
    let (then, _) = pair();
    let model = Model::new(&then, None);
    assert_eq!(model.basis, Basis::Unknown);
    assert!(model.delta.is_none() && model.rows.iter().all(|row| row.delta.is_none()));
    assert!(model.links.iter().all(|link| link.delta.is_none()));
    let flows: u64 = then.flows.iter().map(|flow| flow.stats.packets).sum();
    assert_eq!(model.total.packets, flows + 30, "packets that found the table full are RoCE too");
    assert_eq!(model.links.iter().map(|link| link.total.packets).sum::<u64>(), model.total.packets);
    let skipped: u64 = World::sick().skipped.iter().map(|(_, n)| n * 10).sum();
    assert_eq!(model.frames(), model.total.packets + skipped);
}

#[test]
fn rates_are_of_the_time_between() {
    let (then, now) = pair();
    let model = Model::new(&now, Some(&then));
    assert_eq!(model.basis, Basis::Interval(2.0));
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
fn no_time_no_rates() {
    let (then, mut now) = pair();
    for time_ns in [then.time_ns, then.time_ns - 1] {
        now.time_ns = time_ns;
        let model = Model::new(&now, Some(&then));
        assert_eq!(model.basis, Basis::Unknown);
        assert!(model.delta.is_none() && model.rows.iter().all(|row| row.delta.is_none()));
    }
}

#[test]
fn a_counter_that_goes_back_leaves_its_flow_without_a_rate() {
    let (then, mut now) = pair();
    now.flows[3].stats.acks = 1;
    let model = Model::new(&now, Some(&then));
    assert!(model.rows[3].delta.is_none());
    assert!(model.rows[2].delta.is_some() && model.delta.is_some());
}

#[test]
fn flows_are_found_again_in_any_order_and_a_slot_in_use_again_is_another_flow() {
    let (then, mut now) = pair();
    let same = Model::new(&now, Some(&then));
    now.flows.reverse();
    let turned = Model::new(&now, Some(&then));
    for (a, b) in same.rows.iter().zip(turned.rows.iter().rev()) {
        assert_eq!((a.id, a.delta), (b.id, b.delta));
    }
    // Retired and back in another slot: all it has was counted since.
    now.flows[0].slot = 99;
    let model = Model::new(&now, Some(&then));
    let row = &model.rows[0];
    assert_eq!(row.delta.unwrap().counts, row.total);
}

#[test]
fn what_retired_flows_counted_stays_in_the_rates_of_everything() {
    let (then, mut now) = pair();
    let whole = Model::new(&now, Some(&then));
    let gone = now.flows.remove(0);
    now.links[usize::from(gone.key.link)].retired = Retired {
        flows: 1,
        packets: gone.stats.packets,
        bytes: gone.stats.bytes,
        cnp_packets: gone.stats.cnp_packets,
        ecn: gone.stats.ecn(),
        ecn_data: gone.stats.ecn_data,
    };
    let model = Model::new(&now, Some(&then));
    assert_eq!(model.total.packets, whole.total.packets);
    assert_eq!(model.delta.unwrap().counts.bytes, whole.delta.unwrap().counts.bytes);
    assert_eq!(model.retired_flows, 1);
}

#[test]
fn a_finished_run_has_averages_over_its_window() {
    let (_, now) = pair();
    let model = Model::whole(&now);
    assert_eq!(model.basis, Basis::Whole(12.0));
    assert_eq!(model.delta.unwrap().counts, model.total);
    let mut empty = World::replay().at(0);
    assert_eq!(Model::whole(&empty).basis, Basis::Unknown);
    empty.window = Some((5, 3));
    assert_eq!(Model::whole(&empty).basis, Basis::Unknown);
}
