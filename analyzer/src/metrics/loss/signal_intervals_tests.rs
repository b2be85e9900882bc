//! Tests of the intervals of signals.

use super::*;

use crate::util::time::NS_PER_S as S;

/// A thousand packets a second, and one lost in every hundred between two times, in seconds.
fn steady(seconds: u64, lossy: std::ops::Range<u64>) -> (Interval, Vec<u64>) {
    let mut recorder = Recorder::new(1);
    let mut counts = [Counts::default(); 4];
    for i in 0..seconds * 1_000 {
        let time_ns = S + i * S / 1_000;
        if recorder.is_due(time_ns) {
            recorder.mark(time_ns, counts.into_iter());
        }
        counts[3].packets += 1;
        if lossy.contains(&(i / 1_000)) && i % 100 == 0 {
            recorder.note(3, Signal::Lost, (time_ns, time_ns), 1, Some(counts[3]));
        }
    }
    let intervals = recorder.intervals();
    let [interval] = intervals.flows[&3].of(Signal::Lost) else { panic!("one interval") };
    (*interval, intervals.marks.iter().map(|mark| mark.time_ns / S).collect())
}

#[test]
fn an_interval_has_the_packets_between_its_first_and_its_last_signal() {
    let (interval, marks) = steady(90, 12..18);
    assert_eq!((interval.count, interval.at_first, interval.at_last), (60, 12_000, 17_901));
    // Those around it, and the latest.
    assert_eq!(marks, [11, 21, 81]);
    assert_eq!(steady(25, 12..18).0, interval);
}

#[test]
fn live_packets_at_a_signal_lie_between_those_of_two_readings() {
    let mut recorder = Recorder::new(1);
    let stats = |packets| Stats { packets, ..Stats::default() };
    recorder.reading([(2, &stats(100))].into_iter(), S);
    recorder.note(2, Signal::Lost, (S + S / 4, S + S / 4), 1, None);
    recorder.note(2, Signal::Lost, (S + S / 2, S + S / 2), 1, None);
    recorder.reading([(2, &stats(500))].into_iter(), 2 * S);
    recorder.reading([(2, &stats(900))].into_iter(), 3 * S);
    let intervals = recorder.intervals();
    let [interval] = intervals.flows[&2].of(Signal::Lost) else { panic!("one interval") };
    assert_eq!((interval.at_first, interval.at_last), (200, 300));
}

#[test]
fn readings_give_intervals_of_marks_and_cnps() {
    let mut recorder = Recorder::new(1);
    for (second, ce) in [(1, 0), (2, 5), (3, 9), (4, 9), (20, 10)] {
        let stats = Stats { packets: 100 * second, ecn_data: [0, 0, 50, ce], ..Stats::default() };
        recorder.reading([(2, &stats)].into_iter(), second * S);
    }
    let intervals = recorder.intervals();
    let marked: Vec<(u64, u64, u64)> = intervals.flows[&2]
        .of(Signal::CeMarked)
        .iter()
        .map(|interval| (interval.first_ns / S, interval.last_ns / S, interval.count))
        .collect();
    // The last mark was set between 4 and 20 s: it may belong to the interval before.
    assert_eq!(marked, [(1, 20, 10)]);
    assert!(intervals.flows[&2].of(Signal::Cnp).is_empty());
}

#[test]
fn live_there_are_marks_where_a_kind_of_signal_begins_and_ends() {
    let mut recorder = Recorder::new(1);
    for second in 1..=9 {
        let ecn_data = [0, 0, 50, second.clamp(2, 5) - 2];
        let [marked, other] =
            [ecn_data, [0; 4]].map(|ecn_data| Stats { packets: 100 * second, ecn_data, ..Stats::default() });
        recorder.reading([(2, &marked), (4, &other)].into_iter(), second * S);
    }
    let intervals = recorder.intervals();
    let marks = intervals.marks.iter().map(|mark| (mark.time_ns / S, mark.packets[4]));
    assert_eq!(marks.collect::<Vec<_>>(), [(2, 200), (5, 500)]);
}

#[test]
fn ten_seconds_of_silence_begin_a_new_interval() {
    let mut recorder = Recorder::new(1);
    recorder.note(0, Signal::RnrNak, (S, S), 1, None);
    recorder.note(0, Signal::RnrNak, (10 * S, 10 * S), 2, None);
    recorder.note(0, Signal::RnrNak, (20 * S, 20 * S), 3, None);
    let counts: Vec<u64> =
        recorder.intervals().flows[&0].of(Signal::RnrNak).iter().map(|interval| interval.count).collect();
    assert_eq!(counts, [3, 3]);
    recorder.take_back(0, Signal::RnrNak, 4);
    assert_eq!(recorder.intervals().flows[&0].of(Signal::RnrNak).len(), 1);
    recorder.retired(0);
    assert!(recorder.intervals().flows.is_empty());
}

#[test]
fn of_many_intervals_the_oldest_become_one() {
    let mut recorder = Recorder::new(1);
    for i in 0..20 {
        recorder.note(0, Signal::Timeout, (i * 20 * S, i * 20 * S), 1, None);
    }
    let intervals = recorder.intervals().flows[&0].of(Signal::Timeout).to_vec();
    assert_eq!(intervals.len(), crate::entity::interval::MOST);
    assert_eq!(intervals.iter().map(|interval| interval.count).sum::<u64>(), 20);
    assert_eq!(intervals[0].first_ns, 0);
}
