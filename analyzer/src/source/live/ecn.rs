//! CE marks and CNPs of a live run.
//!
//! Each CNP is reported through the ring buffer with the time since the first CE mark on the data that it refers to,
//! which the kernel programs know for measured flows. CE marks over time are the difference of two readings of the
//! counters, so that their bins are as long as the time between readings. A sender's rate around a notification would
//! need its bytes in fractions of a millisecond, and is not collected.

use rocescope_common::abi::event::mark_age;

use crate::metrics::ecn::series::Series;
use crate::metrics::ecn::{Cnps, FLOW_BINS, LINK_BINS, MAX_FLOWS, Marks, Metrics, OverTime};
use crate::sample::FlowSample;
use crate::util::map::Map;

/// CNPs about one flow.
#[derive(Clone, Debug)]
struct NotifiedFlow {
    cnps: Cnps,
    /// CNPs about the flow while its marks are followed.
    watched: u64,
}

/// CE marks of one flow over time.
#[derive(Clone, Debug)]
struct CeSeries {
    first_ns: u64,
    series: Series<FLOW_BINS>,
}

/// Counters of a flow at the last reading.
#[derive(Clone, Copy, Debug, Default)]
struct EcnCounters {
    capable: u64,
    ce: u64,
    cnp: u64,
}

impl EcnCounters {
    fn of(flow: &FlowSample) -> Self {
        let [_, ect1, ect0, ce] = flow.stats.ecn_data;
        Self { capable: ect1 + ect0 + ce, ce, cnp: flow.stats.cnp_packets }
    }

    fn since(self, before: Self) -> Self {
        Self {
            capable: self.capable.saturating_sub(before.capable),
            ce: self.ce.saturating_sub(before.ce),
            cnp: self.cnp.saturating_sub(before.cnp),
        }
    }
}

/// Follows marks and notifications. Slots and links are the kernel's, times Unix nanoseconds.
#[derive(Debug, Default)]
pub struct Ecn {
    /// Length of a bin at first: 2 to this, in nanoseconds.
    shift: u32,
    read_ns: u64,
    counted: Vec<EcnCounters>,
    cnps: Map<u32, Box<NotifiedFlow>>,
    marked: Map<u32, Box<CeSeries>>,
    links: Map<u16, Box<Series<LINK_BINS>>>,
    untracked: u64,
}

impl Ecn {
    /// A state without marks at `now_ns`; counters will be read every `interval_ns`.
    pub fn new(now_ns: u64, interval_ns: u64) -> Self {
        let shift = interval_ns.max(1).next_power_of_two().ilog2();
        Self { shift: shift.clamp(20, 40), read_ns: now_ns, ..Self::default() }
    }

    /// Records the first mark after a pause in a flow.
    pub fn ce(&mut self, slot: u32, time_ns: u64) {
        let shift = self.shift;
        if self.marked.len() >= MAX_FLOWS && !self.marked.contains_key(&slot) {
            return;
        }
        self.marked.entry(slot).or_insert_with(|| {
            Box::new(CeSeries { first_ns: time_ns, series: Series::with_width(time_ns, shift) })
        });
    }

    /// Records a CNP in the flow of a slot; `age` is the programs' encoding of the mark's age, see [`mark_age`].
    pub fn cnp(&mut self, slot: u32, time_ns: u64, age: u32) {
        if self.cnps.len() >= MAX_FLOWS && !self.cnps.contains_key(&slot) {
            self.untracked += 1;
            return;
        }
        let new = || Box::new(NotifiedFlow { cnps: Cnps::new(time_ns), watched: 0 });
        let NotifiedFlow { cnps, watched } = &mut **self.cnps.entry(slot).or_insert_with(new);
        cnps.add(time_ns);
        *watched += u64::from(age != mark_age::UNKNOWN);
        if age == mark_age::NONE {
            cnps.without_mark();
        }
        if let Some(delay) = mark_age::decode(age) {
            cnps.after_mark(delay);
        }
    }

    /// Adds a reading of the counters.
    pub fn reading(&mut self, flows: &[FlowSample], now_ns: u64) {
        let (from_ns, shift) = (self.read_ns, self.shift);
        self.read_ns = now_ns;
        // Counts since the previous reading belong to the time since then.
        let at = now_ns.saturating_sub(1).max(from_ns);
        for flow in flows {
            let number = flow.slot as usize;
            if self.counted.len() <= number {
                self.counted.resize(number + 1, EcnCounters::default());
            }
            let Some(before) = self.counted.get_mut(number) else { continue };
            let counted = EcnCounters::of(flow);
            let news = counted.since(*before);
            *before = counted;
            if news.capable + news.cnp == 0 {
                continue;
            }
            let link = self
                .links
                .entry(flow.key.link)
                .or_insert_with(|| Box::new(Series::with_width(from_ns, shift)));
            let bin = link.at(at);
            bin.capable = bin.capable.saturating_add(short(news.capable));
            bin.ce = bin.ce.saturating_add(short(news.ce));
            bin.cnp = bin.cnp.saturating_add(short(news.cnp));
            if counted.ce > 0 && !self.marked.contains_key(&flow.slot) {
                // The event of its first mark was dropped.
                self.ce(flow.slot, from_ns);
            }
            if let Some(marked) = self.marked.get_mut(&flow.slot) {
                let bin = marked.series.at(at);
                bin.capable = bin.capable.saturating_add(short(news.capable));
                bin.ce = bin.ce.saturating_add(short(news.ce));
            } else if counted.ce > 0 {
                self.untracked += news.capable;
            }
        }
    }

    /// Call when the flow of a slot is retired.
    pub fn retired(&mut self, slot: u32) {
        self.cnps.remove(&slot);
        self.marked.remove(&slot);
        if let Some(counted) = self.counted.get_mut(slot as usize) {
            *counted = EcnCounters::default();
        }
    }

    /// The results so far. `answers` gives the slot of the data flow that the CNPs in another flow refer to; `places`
    /// the index in the sample of each kernel link. `complete`: no event was dropped.
    pub fn metrics(
        &self,
        answers: impl Fn(u32) -> Option<u32>,
        places: impl Iterator<Item = u16>,
        complete: bool,
    ) -> Metrics {
        let mut metrics = Metrics { untracked: self.untracked, ..Metrics::default() };
        for (slot, NotifiedFlow { cnps, watched }) in
            self.cnps.iter().map(|(slot, notified)| (slot, &**notified))
        {
            let counted = self.counted.get(*slot as usize).map_or(0, |counted| counted.cnp);
            let mut figure = cnps.figure();
            figure.answers = answers(*slot);
            figure.count = figure.count.max(counted);
            // A dropped CNP may have come sooner.
            figure.min_gap_ns = figure.min_gap_ns.filter(|_| complete);
            figure.without_mark = figure.without_mark.filter(|_| *watched > 0 && complete);
            metrics.cnps.insert(*slot, figure);
        }
        for (slot, marked) in &self.marked {
            let series = OverTime::of(marked.series.bins());
            metrics.marks.insert(*slot, Marks { first_ce_ns: marked.first_ns, series });
        }
        metrics.links = places
            .map(|link| Some(OverTime::of(self.links.get(&link)?.bins())).filter(OverTime::any_mark))
            .collect();
        metrics
    }
}

fn short(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Stats;
    use rocescope_common::account::FlowKey;

    use crate::util::time::NS_PER_S as S;

    fn flow(slot: u32, capable: u64, ce: u64, cnp_packets: u64) -> FlowSample {
        let mut stats = Stats { packets: capable + cnp_packets, cnp_packets, ..Stats::default() };
        stats.ecn_data = [0, 0, capable - ce, ce];
        FlowSample { slot, key: FlowKey::default(), stats }
    }

    #[test]
    fn marks_lie_in_the_time_between_readings() {
        let mut ecn = Ecn::new(10 * S, S);
        ecn.reading(&[flow(0, 100, 0, 0), flow(1, 50, 0, 0)], 11 * S);
        ecn.ce(0, 11 * S + 500_000_000);
        ecn.reading(&[flow(0, 300, 20, 0), flow(1, 90, 0, 5)], 12 * S);
        ecn.reading(&[flow(0, 300, 20, 0), flow(1, 90, 0, 5)], 13 * S);
        let metrics = ecn.metrics(|_| None, [0].into_iter(), true);
        let marks = &metrics.marks[&0];
        assert_eq!(marks.first_ce_ns, 11 * S + 500_000_000);
        assert_eq!(marks.series.bins.iter().map(|bin| (bin.capable, bin.ce)).sum_all(), (200, 20));
        let link = metrics.links[0].as_ref().unwrap();
        assert_eq!((link.start_ns, link.bin_ns), (10 * S, 1 << 30));
        assert_eq!(link.bins.iter().map(|bin| (bin.capable, bin.ce)).sum_all(), (390, 20));
        assert_eq!(link.bins.iter().map(|bin| bin.cnp).sum::<u32>(), 5);
        // The slot's next flow starts without history.
        ecn.retired(0);
        ecn.reading(&[flow(0, 7, 0, 0)], 14 * S);
        let metrics = ecn.metrics(|_| None, [0].into_iter(), true);
        assert!(metrics.marks.is_empty());
        let link = metrics.links[0].as_ref().unwrap();
        assert_eq!(link.bins.iter().map(|bin| bin.capable).sum::<u32>(), 397);
    }

    #[test]
    fn unreported_values_are_unknown() {
        let mut ecn = Ecn::new(0, S);
        for (time, age) in
            [(100, mark_age::encode(5_000)), (300, mark_age::NONE), (900, mark_age::encode(7_000))]
        {
            ecn.cnp(3, time * 1_000, age);
        }
        ecn.cnp(4, 1_000, mark_age::UNKNOWN);
        ecn.reading(&[flow(3, 0, 0, 3), flow(4, 0, 0, 1)], S);
        let metrics = ecn.metrics(|slot| (slot == 3).then_some(9), [].into_iter(), true);
        let cnps = metrics.cnps[&3];
        assert_eq!((cnps.answers, cnps.count, cnps.min_gap_ns), (Some(9), 3, Some(200_000)));
        assert_eq!((cnps.without_mark, cnps.delay.unwrap().count), (Some(1), 2));
        assert_eq!((metrics.cnps[&4].without_mark, metrics.cnps[&4].delay), (None, None));
        // If events were dropped, the count is that of the counters, and the minimum gap is unknown.
        ecn.reading(&[flow(3, 0, 0, 10)], 2 * S);
        let cnps = ecn.metrics(|_| None, [].into_iter(), false).cnps[&3];
        assert_eq!((cnps.count, cnps.min_gap_ns, cnps.without_mark), (10, None, None));
    }

    trait SumAll {
        fn sum_all(self) -> (u32, u32);
    }

    impl<I: Iterator<Item = (u32, u32)>> SumAll for I {
        fn sum_all(self) -> (u32, u32) {
            self.fold((0, 0), |(a, b), (x, y)| (a + x, b + y))
        }
    }
}
