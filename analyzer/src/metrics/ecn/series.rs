//! Counts over time in a fixed number of bins, whose width doubles when time runs out of them.

/// Counts of one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Data packets that are ECN-capable, marked ones included.
    pub capable: u32,
    /// Data packets marked CE.
    pub ce: u32,
    /// Congestion notification packets (CNPs).
    pub cnp: u32,
}

/// Width of bins at first: 2 to this, in nanoseconds (1.05 ms).
const FIRST_SHIFT: u32 = 20;

/// Counts in `N` bins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series<const N: usize> {
    start_ns: u64,
    shift: u32,
    bins: [Bin; N],
}

impl<const N: usize> Series<N> {
    /// Nothing counted, from `start_ns` on.
    pub fn new(start_ns: u64) -> Self {
        Self { start_ns, shift: FIRST_SHIFT, bins: [Bin::default(); N] }
    }

    /// The same, in bins that are 2 to `shift` nanoseconds wide at first.
    pub fn with_width(start_ns: u64, shift: u32) -> Self {
        Self { shift: shift.min(62), ..Self::new(start_ns) }
    }

    /// The bin of a time. A time before the start belongs to the first one.
    #[inline]
    pub fn at(&mut self, time_ns: u64) -> &mut Bin {
        let since = time_ns.saturating_sub(self.start_ns);
        while since >> self.shift >= N as u64 {
            self.fold();
        }
        // Below N, after the loop.
        let at = usize::try_from(since >> self.shift).unwrap_or_default();
        &mut self.bins[at % N]
    }

    /// The bin of all times between these two, if it is one, and there is one.
    #[inline]
    pub fn bin_of_all(&mut self, (first_ns, last_ns): (u64, u64)) -> Option<&mut Bin> {
        let number = |time_ns: u64| time_ns.saturating_sub(self.start_ns) >> self.shift;
        let (at, last) = (number(first_ns), number(last_ns));
        if at == last { self.bins.get_mut(usize::try_from(at).ok()?) } else { None }
    }

    #[cold]
    fn fold(&mut self) {
        for at in 0..N {
            let of = |i: usize| self.bins.get(i).copied().unwrap_or_default();
            let (a, b) = (of(2 * at), of(2 * at + 1));
            self.bins[at] = Bin {
                capable: a.capable.saturating_add(b.capable),
                ce: a.ce.saturating_add(b.ce),
                cnp: a.cnp.saturating_add(b.cnp),
            };
        }
        self.shift += 1;
    }

    /// Start of the first bin, length of each, and all bins up to the last one in use.
    pub fn bins(&self) -> (u64, u64, &[Bin]) {
        let used = self.bins.iter().rposition(|bin| *bin != Bin::default()).map_or(0, |last| last + 1);
        (self.start_ns, 1 << self.shift, self.bins.get(..used).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_doubles_and_nothing_is_lost() {
        let mut series = Series::<8>::new(1_000);
        for i in 0..1_000u64 {
            series.at(1_000 + i * 1_000_000).capable += 1;
        }
        series.at(5).ce += 1;
        let (start, width, bins) = series.bins();
        assert_eq!((start, width), (1_000, 1 << 27));
        assert_eq!(bins.iter().map(|bin| bin.capable).sum::<u32>(), 1_000);
        assert_eq!((bins.len(), bins[0].ce), (8, 1));
        assert!(bins[..7].iter().all(|bin| bin.capable.abs_diff(134) <= 1), "{bins:?}");
    }

    #[test]
    fn any_time_has_a_bin() {
        let mut series = Series::<2>::new(0);
        series.at(u64::MAX).cnp += 1;
        series.at(0).cnp += 1;
        assert_eq!(series.bins().2.iter().map(|bin| bin.cnp).sum::<u32>(), 2);
    }
}
