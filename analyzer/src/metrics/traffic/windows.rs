//! Data that a host received over time, by the number of senders: so that what overlapped in one minute of an hour has
//! figures of its own.

use std::sync::Arc;

use super::degree::{DEGREES, Degree};
use crate::entity::interval::EPISODE_GAP_NS;
use crate::util::time::keep_most;

/// Length of a window, in nanoseconds: the silence that ends an episode of a finding.
const LENGTH_NS: u64 = EPISODE_GAP_NS;
/// Windows kept; of more, the two that together last least become one.
const MOST: usize = 8;
/// Senders at once from which windows are kept of a receiver.
const SENDERS: usize = 2;

/// Bins of data of one or several windows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Its first data packet, Unix nanoseconds.
    pub first_ns: u64,
    /// Its last data packet.
    pub last_ns: u64,
    /// By the number of senders in the bin; the last holds all above.
    pub overlaps: Vec<Degree>,
}

impl Window {
    fn count(&mut self, senders: u32, bin: &Degree, last_ns: u64) {
        count(&mut self.overlaps, senders, bin);
        self.last_ns = self.last_ns.max(last_ns);
    }

    /// Adds the counts of another window.
    fn add(&mut self, other: &Self) {
        self.overlaps.resize(self.overlaps.len().max(other.overlaps.len()), Degree::default());
        for (own, more) in self.overlaps.iter_mut().zip(&other.overlaps) {
            own.add(more);
        }
        self.last_ns = self.last_ns.max(other.last_ns);
    }

    /// Shares of data from several senders, of marks there, and of gaps there: steps of a factor of two.
    fn level(&self) -> [i64; 3] {
        let all: u64 = self.overlaps.iter().map(|degree| degree.bytes).sum();
        let many: Degree = self.overlaps.iter().skip(SENDERS + 1).copied().sum();
        let step = |part: u64, of: u64| match (u128::from(of) * 2).checked_div(u128::from(part)) {
            None => i64::MAX,
            Some(times) => i64::from(times.max(1).ilog2()),
        };
        [step(many.bytes, all), step(many.ce, many.packets), step(many.gaps, many.packets)]
    }
}

/// Adds a bin to those with as many senders.
pub(super) fn count(degrees: &mut Vec<Degree>, senders: u32, bin: &Degree) {
    let at = (senders as usize).min(DEGREES - 1);
    if at >= degrees.len() {
        degrees.resize(at + 1, Degree::default());
    }
    if let Some(degree) = degrees.get_mut(at) {
        degree.add(bin);
    }
}

/// The windows of a receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// Beginning of its first bin; 0 before that.
    pub(in crate::metrics) begun_ns: u64,
    /// The open window; empty while few senders overlap.
    pub(in crate::metrics) open: Window,
    /// Those that have ended, the oldest first; what is alike is one.
    pub ended: Vec<Arc<Window>>,
}

impl Windows {
    /// A bin with data from this number of senders has ended; `all` are the bins of the run, with this one.
    pub(super) fn bin(
        &mut self,
        all: &[Degree],
        senders: u32,
        bin: &Degree,
        (first_ns, last_ns): (u64, u64),
    ) {
        if self.begun_ns == 0 {
            self.begun_ns = first_ns;
        }
        if all.len() <= SENDERS + 1 {
            return;
        }
        let open = &mut self.open;
        if open.overlaps.is_empty() && self.ended.is_empty() {
            if first_ns.saturating_sub(self.begun_ns) < LENGTH_NS {
                *open = Window { first_ns: self.begun_ns, last_ns, overlaps: all.to_vec() };
                return;
            }
            open.first_ns = first_ns;
        } else if first_ns.saturating_sub(open.first_ns) >= LENGTH_NS {
            self.end();
            self.open.first_ns = first_ns;
        }
        self.open.count(senders, bin, last_ns);
    }

    /// Ends the open window.
    pub(super) fn end(&mut self) {
        let open = std::mem::take(&mut self.open);
        if open.overlaps.is_empty() {
            return;
        }
        match self.ended.last_mut() {
            Some(last)
                if last.level() == open.level() && open.first_ns.saturating_sub(last.last_ns) < LENGTH_NS =>
            {
                Arc::make_mut(last).add(&open);
            }
            _ => self.ended.push(Arc::new(open)),
        }
        let join = |one: &mut Arc<Window>, next: &Arc<Window>| Arc::make_mut(one).add(next);
        keep_most(&mut self.ended, MOST, |one| (one.first_ns, one.last_ns), join);
    }

    /// Sum of the windows that overlap a time.
    pub fn within(&self, first_ns: u64, last_ns: u64) -> Vec<Degree> {
        let mut sum = Window::default();
        for one in self.ended.iter().filter(|one| one.first_ns <= last_ns && one.last_ns >= first_ns) {
            sum.add(one);
        }
        sum.overlaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// A bin every 100 ms, of this number of senders in each second.
    fn windows(senders: impl Fn(u64) -> u32, seconds: u64) -> (Windows, Vec<Degree>) {
        let (mut windows, mut all) = (Windows::default(), Vec::new());
        for n in 0..seconds * 10 {
            let time_ns = S + n * S / 10;
            let senders = senders(n / 10);
            let ce = if senders > 2 { 50 } else { 0 };
            let bin = Degree { bins: 1, packets: 100, bytes: 100_000, ce, ..Degree::default() };
            count(&mut all, senders, &bin);
            windows.bin(&all, senders, &bin, (time_ns, time_ns + S / 20));
        }
        windows.end();
        (windows, all)
    }

    #[test]
    fn a_short_run_is_one_window_of_all_its_bins() {
        let (windows, all) = windows(|second| if second < 4 { 1 } else { 8 }, 9);
        assert_eq!(windows.ended.len(), 1);
        assert_eq!(windows.ended[0].overlaps, all);
    }

    #[test]
    fn what_overlaps_in_the_first_minute_is_apart_from_the_hour() {
        let (windows, all) = windows(|second| if second < 60 { 8 } else { 1 }, 3_600);
        let times: Vec<_> = windows.ended.iter().map(|one| (one.first_ns / S, one.last_ns / S)).collect();
        assert_eq!(times, [(1, 60), (61, 3_600)]);
        assert_eq!(
            windows.within(S, 60 * S),
            all[..]
                .iter()
                .enumerate()
                .map(|(at, one)| if at == 8 { *one } else { Degree::default() })
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn memory_is_bounded_and_every_bin_stays_counted() {
        let (windows, all) = windows(|second| 1 + (second / 30 % 2) as u32 * 7, 3_600);
        assert_eq!(windows.ended.len(), MOST);
        let sum = windows.within(0, u64::MAX);
        assert_eq!(
            sum.iter().map(|one| one.bins).sum::<u64>(),
            all.iter().map(|one| one.bins).sum::<u64>() - 300
        );
    }
}
