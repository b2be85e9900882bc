//! Tests of values over time.

use super::*;

/// A hundred spans of 10 ms with 1,000 bytes and ten ECN-capable packets each; in the span at 500 ms, five
/// packets are lost and half of them are marked.
fn series(from_packets: bool) -> OverTime {
    let ms = 1_000_000;
    let span = |i: u64| {
        let mut signals = [0.0; SignalKind::ALL.len()];
        if i == 50 {
            (signals[SignalKind::Lost as usize], signals[SignalKind::Ce as usize]) = (5.0, 5.0);
        }
        CountedTime {
            from_ns: i * 10 * ms,
            to_ns: (i + 1) * 10 * ms,
            bytes: 1_000.0,
            capable: 10.0,
            signals,
            links: vec![
                LinkCounts { bytes: 400.0, capable: 2.0, ce: signals[SignalKind::Ce as usize] / 5.0 },
                LinkCounts { bytes: 600.0, capable: 8.0, ce: 0.0 },
            ],
        }
    };
    let spans: Vec<CountedTime> = (0..100).map(span).collect();
    OverTime { spans, least_ns: 10 * ms, from_packets, shows_loss: true, ..OverTime::default() }
}

#[test]
fn columns_have_the_mean_of_rates_and_the_most_of_signals() {
    let (series, ms) = (series(true), 1_000_000);
    for columns in [10usize, 20, 50, 100] {
        let column_ns = 1_000 * ms / columns as u64;
        let of = |one| series.columns(one, 0, column_ns, columns);
        assert!(of(Series::Throughput).iter().all(|rate| (rate.unwrap() - 8e5).abs() < 1.0));
        assert!(of(Series::Link(1)).iter().all(|rate| (rate.unwrap() - 4.8e5).abs() < 1.0));
        assert_eq!(of(Series::Link(7)), vec![None; columns]);
        let lost = of(Series::Signal(SignalKind::Lost));
        assert!((lost.iter().flatten().sum::<f64>() - 5.0).abs() < 1e-9, "{columns} columns");
        assert_eq!(lost[columns / 2], Some(5.0));
        let highest = of(Series::CeRatio).into_iter().flatten().fold(0.0, f64::max);
        assert!((highest - 0.5 * columns as f64 / 100.0).abs() < 1e-9, "{columns}: {highest}");
        // One of the two packets that the first link carried in that span, and none of the other's.
        let link = [0, 1, 7].map(|at| of(Series::LinkCeRatio(at)));
        let most = |at: usize| link[at].iter().copied().flatten().fold(0.0, f64::max);
        assert!((most(0) - 0.5 * columns as f64 / 100.0).abs() < 1e-9 && most(1) == 0.0, "{columns}");
        assert_eq!(link[2], vec![None; columns]);
    }
}

/// A capture of four points on a screen of forty columns: each point covers ten columns and is not split.
#[test]
fn a_point_longer_than_a_column_is_whole_in_each() {
    let (mut series, ms) = (series(true), 1_000_000);
    series.spans.drain(..48);
    series.spans.truncate(4);
    // The first and the last point are cut by the beginning and end of the capture.
    (series.spans[0].from_ns, series.spans[3].to_ns) = (485 * ms, 512 * ms);
    let columns = |one| series.columns(one, 485 * ms, 27 * ms / 40, 40);
    let lost = columns(Series::Signal(SignalKind::Lost));
    assert!(lost.iter().all(|value| matches!(value, Some(0.0 | 5.0))), "{lost:?}");
    let with = lost.iter().filter(|value| **value == Some(5.0)).count();
    assert!((14..=16).contains(&with), "10 of 27 ms: {with} columns");
    // A short point at an end is no burst.
    let rates = columns(Series::Throughput);
    assert!(rates.iter().all(|rate| (rate.unwrap() - 8e5).abs() < 1.0), "{rates:?}");
    // With a few columns each point is in one of them, and the sum equals the count.
    let lost = series.columns(Series::Signal(SignalKind::Lost), 485 * ms, 27 * ms / 3, 3);
    assert!((lost.iter().flatten().sum::<f64>() - 5.0).abs() < 1e-9, "{lost:?}");
}

/// Two taps on one path, the clock of the second 300 ms ahead: each loss, CE mark and NAK is shown once, at one time.
#[test]
fn what_two_taps_show_is_there_once() {
    use crate::analysis::fixtures::{START, key, link, sample, stats};
    use crate::metrics::timeline::Point;

    let ms = 1_000_000;
    let flow = |link: u16, lost: u64| {
        let mut stats = stats(7, 1_000, 100_000);
        stats.psn.missing = lost;
        stats.rare.naks[0] = 5;
        stats.ecn_data = [0, 0, 994, 6];
        (key(link, "10.0.0.1", "10.0.0.2", 1), stats)
    };
    // Of seven packets lost, four were lost between the taps.
    let links = ["h0", "h1"].map(|name| link(name, None));
    let mut sample = sample(links.into(), vec![flow(0, 3), flow(1, 7)]);
    let points = |begin: u64, lost: u32| {
        let mut points = vec![Point { bytes: 1_000, capable: 10, ..Point::default() }; 100];
        let signals = &mut points[50].signals;
        signals[SignalKind::Lost as usize] = lost;
        (signals[SignalKind::Nak as usize], signals[SignalKind::Ce as usize]) = (5, 6);
        LinkPoints::of(10 * ms, START / (10 * ms) + begin, points)
    };
    sample.metrics.timeline = Some(std::sync::Arc::new(vec![points(0, 3), points(30, 7)]));
    sample.window = Some((START, START + 1_300 * ms));
    let overlap = Overlap::of(&sample);
    assert_eq!(overlap.taps, 2);
    let mut history = History::new(1 << 20);
    history.push(&sample, false);
    let series = OverTime::new(&history, &sample, &overlap);
    for (series_of, count, at) in [
        (Series::Signal(SignalKind::Lost), 7.0, 80),
        (Series::Signal(SignalKind::Nak), 5.0, 50),
        (Series::CeRatio, 0.6, 50),
    ] {
        let shown = series.columns(series_of, START, 10 * ms, 130);
        let shown: Vec<(usize, f64)> =
            shown.iter().enumerate().filter_map(|(at, n)| Some((at, (*n)?))).collect();
        let shown: Vec<_> = shown.into_iter().filter(|(_, n)| *n > 0.0).collect();
        assert_eq!(shown.len(), 1, "{series_of:?}: {shown:?}");
        assert!(shown[0].0 == at && (shown[0].1 - count).abs() < 1e-9, "{series_of:?}: {shown:?}");
    }
}

/// A capture lasts longer than its RoCE packets: before and after them there are none, which is known.
#[test]
fn the_time_of_a_capture_without_packets_is_part_of_it() {
    let (mut series, ms) = (series(true), 1_000_000);
    let packets = 1_000 * ms;
    for span in &mut series.spans {
        (span.from_ns, span.to_ns) = (span.from_ns + 7_003 * ms, span.to_ns + 7_003 * ms);
    }
    add_silence(&mut series.spans, 10 * ms, (1_000 * ms, 60_000 * ms - 1));
    assert_eq!(series.range(), Some((1_000 * ms, 60_000 * ms)));
    assert!(series.spans.len() < 100 + 2 * POINTS + 2, "{}", series.spans.len());
    assert!(series.spans.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns));
    let rates = series.columns(Series::Throughput, 1_000 * ms, 1_000 * ms, 59);
    assert!(rates.iter().all(Option::is_some), "{rates:?}");
    let bits: f64 = rates.iter().flatten().sum();
    assert!((bits - 8e5 * packets as f64 / 1e9).abs() < 8e4, "{bits}");
    let lost = series.columns(Series::Signal(SignalKind::Lost), 1_000 * ms, 1_000 * ms, 59);
    assert_eq!(lost.iter().flatten().filter(|lost| **lost > 0.0).count(), 1, "{lost:?}");
    assert_eq!(lost[0], Some(0.0));
    let mut empty = Vec::new();
    add_silence(&mut empty, 10 * ms, (0, 1));
    assert!(empty.is_empty());
}

#[test]
fn before_and_behind_the_data_nothing_is_known() {
    let mut series = series(true);
    let lost = series.columns(Series::Signal(SignalKind::Lost), 500_000_000, 250_000_000, 4);
    assert_eq!(lost, [Some(5.0), Some(0.0), None, None]);
    assert_eq!(series.range(), Some((0, 1_000_000_000)));
    // Nor loss where no packet has a PSN sequence, and NAKs where nothing is acknowledged.
    series.shows_loss = false;
    let of = |kind| series.value(Series::Signal(kind), 0, 500_000_000);
    assert_eq!((of(SignalKind::Lost), of(SignalKind::Retransmitted)), (None, None));
    assert_eq!((of(SignalKind::Nak), of(SignalKind::Rnr), of(SignalKind::Cnp)), (None, None, Some(0.0)));
    series.shows_naks = true;
    assert_eq!(series.value(Series::Signal(SignalKind::Nak), 0, 500_000_000), Some(0.0));
}

#[test]
fn a_span_longer_than_a_column_has_its_rate_in_each() {
    let mut series = series(false);
    series.spans.truncate(1);
    series.spans[0].to_ns = 2_000_000_000;
    series.spans[0].signals[SignalKind::Lost as usize] = 8.0;
    let lost = series.columns(Series::Signal(SignalKind::Lost), 0, 1_000_000_000, 2);
    assert_eq!(lost, [Some(4.0), Some(4.0)]);
}

#[test]
fn latency_and_pauses_are_those_between_snapshots() {
    use crate::analysis::fixtures::sample;
    use crate::metrics::latency::Histogram;
    use crate::model::Snapshot;
    use rocescope_common::account::latency::BUCKETS;

    let at = |second: u64, samples: u64, paused_ns: &[u64]| {
        let mut counts = [0; BUCKETS];
        counts[40] = samples;
        let mut snapshot = Snapshot::zero(&sample(Vec::new(), Vec::new()), second * NS_PER_S);
        snapshot.times = Some(Histogram::of(&counts));
        snapshot.paused_ns = paused_ns.to_vec();
        snapshot
    };
    let first = at(0, 50, &[0, 7]);
    let gauges: Vec<Gauge> = [
        Gauge::between(&first, &at(1, 200, &[NS_PER_S / 4, 7])),
        // Too few samples for a percentile, and another number of ports.
        Gauge::between(&at(1, 200, &[0]), &at(2, 299, &[0, 0])),
        Gauge::between(&at(2, 299, &[0]), &at(3, 299, &[2 * NS_PER_S])),
    ]
    .into_iter()
    .flatten()
    .collect();
    assert_eq!(gauges.len(), 2);
    let series = OverTime { gauges, ..OverTime::default() };
    assert!(series.knows(Series::P99) && series.knows(Series::Paused));
    assert!(!OverTime::default().knows(Series::P99));
    assert_eq!(
        series.columns(Series::Paused, 0, NS_PER_S, 4),
        [Some(0.25), None, Some(1.0), None],
        "the most paused priority, and never more than all of the time"
    );
    let slow = series.columns(Series::P99, 0, NS_PER_S, 4);
    assert!(slow[0].is_some_and(|ns| ns > 0.0) && slow[1..].iter().all(Option::is_none), "{slow:?}");
}
/// A capture has no readings of ports: its pause frames say when a priority was paused.
#[test]
fn pauses_of_a_capture_are_those_of_its_frames() {
    let span = |from_ns, to_ns| CountedTime {
        from_ns,
        to_ns,
        bytes: 0.0,
        capable: 0.0,
        signals: [0.0; SignalKind::ALL.len()],
        links: Vec::new(),
    };
    let pauses = vec![
        Paused { from_ns: NS_PER_S, to_ns: 2 * NS_PER_S, share: 0.25 },
        Paused { from_ns: NS_PER_S, to_ns: 2 * NS_PER_S + 1, share: 0.5 },
    ];
    let spans = vec![span(0, 2 * NS_PER_S), span(2 * NS_PER_S, 4 * NS_PER_S)];
    let series = OverTime { spans, pauses, ..OverTime::default() };
    assert!(series.knows(Series::Paused) && !series.knows(Series::P99));
    assert_eq!(
        series.columns(Series::Paused, 0, NS_PER_S, 5),
        [Some(0.0), Some(0.5), Some(0.5), Some(0.0), None]
    );
    let series = OverTime { pauses: Vec::new(), ..series };
    assert_eq!(series.value(Series::Paused, 0, NS_PER_S), None, "no pause frame is not a pause of 0");
}
