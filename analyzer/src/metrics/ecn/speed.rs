//! Rate of a sender before and after a congestion notification.

/// Width of a bin: 2 to this, in nanoseconds (262 µs).
const BIN_SHIFT: u32 = 18;
/// Bins that are remembered: 10.5 ms.
const BINS: usize = 40;
/// The windows that are compared, in bins, with how many of them must have packets: 1.05 ms for
/// fast senders, else 10.5 ms.
const WINDOWS: [(u64, usize); 2] = [(4, 3), (40, 10)];
/// Pairs of rates that are kept; beyond them every second one goes, and only every second, fourth
/// … is taken in.
const KEPT: usize = 128;

/// A window behind a notification, not over yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    first: u64,
    len: u64,
    before: u64,
}

/// The recent bytes of one flow, and its rates around notifications.
#[derive(Clone, Debug)]
pub(super) struct Speed {
    bins: [u32; BINS],
    now: u64,
    pending: Option<Pending>,
    len: Option<u64>,
    /// Bytes in the window before and after.
    kept: Vec<(u64, u64)>,
    stride: u32,
    skipped: u32,
}

/// Rates of the sender around CNPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reaction {
    /// Length of the windows, nanoseconds.
    pub window_ns: u64,
    /// Notifications it rests on, at most 128 of all.
    pub samples: u64,
    /// Median rate in the window before, bits per second.
    pub before_bps: u64,
    /// Median rate in the window after.
    pub after_bps: u64,
}

/// Index at which a bin is kept.
#[inline]
fn place(number: u64) -> usize {
    usize::try_from(number % BINS as u64).unwrap_or_default()
}

impl Speed {
    pub(super) fn new() -> Self {
        Self { bins: [0; BINS], now: 0, pending: None, len: None, kept: Vec::new(), stride: 1, skipped: 0 }
    }

    /// A packet of the flow.
    #[inline]
    pub(super) fn packet(&mut self, time_ns: u64, bytes: u32) {
        let number = time_ns >> BIN_SHIFT;
        if number > self.now {
            self.advance(number, true);
        } else if self.now - number >= BINS as u64 {
            return;
        }
        let bin = &mut self.bins[place(number)];
        *bin = bin.saturating_add(bytes);
    }

    fn advance(&mut self, number: u64, sends: bool) {
        if let Some(pending) = self.pending
            && number >= pending.first + pending.len
        {
            self.pending = None;
            // One who has nothing more to send is not slow.
            if sends && number < pending.first + 2 * pending.len {
                let after = (pending.first..pending.first + pending.len).map(|n| self.bytes(n)).sum();
                self.keep(pending.before, after);
            }
        }
        let gone = (number - self.now).min(BINS as u64);
        for number in number - gone + 1..=number {
            self.bins[place(number)] = 0;
        }
        self.now = number;
    }

    fn bytes(&self, number: u64) -> u64 {
        let known = number <= self.now && self.now - number < BINS as u64;
        if known { u64::from(self.bins[place(number)]) } else { 0 }
    }

    /// A rate reduction is requested of the flow's sender.
    pub(super) fn notified(&mut self, time_ns: u64) {
        let number = time_ns >> BIN_SHIFT;
        if number < self.now && self.now - number > 1 {
            return;
        }
        if number > self.now {
            self.advance(number, false);
        }
        if self.pending.is_some() {
            return;
        }
        // The bin under way is half before and half after: neither window has it.
        let window = |len: u64| number.saturating_sub(len)..number;
        let fits = |(len, least): &(u64, usize)| {
            self.len.is_none_or(|chosen| chosen == *len)
                && window(*len).filter(|n| self.bytes(*n) > 0).count() >= *least
        };
        let Some((len, _)) = WINDOWS.into_iter().find(fits) else { return };
        self.len = Some(len);
        let before = window(len).map(|n| self.bytes(n)).sum();
        self.pending = Some(Pending { first: number + 1, len, before });
    }

    fn keep(&mut self, before: u64, after: u64) {
        self.skipped += 1;
        if self.skipped < self.stride {
            return;
        }
        self.skipped = 0;
        if self.kept.len() >= KEPT {
            let mut at = 0;
            self.kept.retain(|_| {
                at += 1;
                at % 2 == 0
            });
            self.stride = self.stride.saturating_mul(2);
        }
        self.kept.push((before, after));
    }

    pub(super) fn reaction(&self) -> Option<Reaction> {
        let window_ns = self.len? << BIN_SHIFT;
        let median = |of: fn(&(u64, u64)) -> u64| {
            let mut all: Vec<u64> = self.kept.iter().map(of).collect();
            let middle = all.len() / 2;
            let bytes = *all.get_mut(..)?.select_nth_unstable(middle).1;
            u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(window_ns)).ok()
        };
        if self.kept.is_empty() {
            return None;
        }
        Some(Reaction {
            window_ns,
            samples: self.kept.len() as u64,
            before_bps: median(|pair| pair.0)?,
            after_bps: median(|pair| pair.1)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 bytes every `gap_ns` from `from` to `to`.
    fn send(speed: &mut Speed, from: u64, to: u64, gap_ns: usize) {
        (from..to).step_by(gap_ns).for_each(|at| speed.packet(at, 1_000));
    }

    #[test]
    fn a_sender_that_halves_its_rate() {
        let mut speed = Speed::new();
        for round in 1..50u64 {
            let start = round * 20_000_000;
            send(&mut speed, start, start + 5_000_000, 1_000);
            speed.notified(start + 5_000_000);
            send(&mut speed, start + 5_000_000, start + 10_000_000, 2_000);
        }
        let reaction = speed.reaction().unwrap();
        assert_eq!((reaction.window_ns, reaction.samples), (1 << 20, 49));
        assert!(reaction.before_bps.abs_diff(8_000_000_000) < 100_000_000, "{reaction:?}");
        assert!(reaction.after_bps.abs_diff(4_000_000_000) < 100_000_000, "{reaction:?}");
    }

    #[test]
    fn slow_senders_are_watched_for_longer() {
        let mut speed = Speed::new();
        send(&mut speed, 0, 50_000_000, 700_000);
        speed.notified(50_000_000);
        send(&mut speed, 50_000_000, 80_000_000, 1_400_000);
        let reaction = speed.reaction().unwrap();
        assert_eq!((reaction.window_ns, reaction.samples), (40 << 18, 1));
        assert!(reaction.after_bps < reaction.before_bps * 6 / 10, "{reaction:?}");
    }

    #[test]
    fn a_sender_that_stops_shows_no_reaction() {
        let mut speed = Speed::new();
        send(&mut speed, 0, 5_000_000, 1_000);
        speed.notified(5_000_000);
        send(&mut speed, 500_000_000, 505_000_000, 1_000);
        assert_eq!(speed.reaction(), None);
    }

    #[test]
    fn many_notifications_stay_bounded() {
        let mut speed = Speed::new();
        for i in 0..2_000_000u64 {
            speed.packet(i * 10_000, 1_000);
            if i % 20 == 0 {
                speed.notified(i * 10_000);
            }
        }
        let reaction = speed.reaction().unwrap();
        assert!((64..=128).contains(&reaction.samples), "{reaction:?}");
    }
}
