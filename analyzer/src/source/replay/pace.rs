//! Data time against clock time.

use std::time::{Duration, Instant};

/// Frames due within this time are due now, since waiting for each would cost more than counting it.
const SLACK: Duration = Duration::from_millis(2);
/// A replay that never waits counts for this many times as long as its last sample took before it takes the next: with
/// a hundred thousand flows, samples would take most of the time.
const REST: u32 = 5;

/// Decides when frames are due; the only part of a replay that reads the clock.
#[derive(Debug)]
pub struct Pace {
    /// Data time per clock time; infinite for as fast as possible.
    speed: f64,
    paused: bool,
    /// A point in data time, and the clock time at which it was reached.
    anchor: Option<(u64, Instant)>,
    shown: Option<Instant>,
    /// Time that the last sample took.
    took: Duration,
    started: Instant,
    seek: Option<Seek>,
}

/// A time to reach as fast as possible, and speed and pause from there on.
#[derive(Clone, Copy, Debug)]
struct Seek {
    to_ns: u64,
    speed: f64,
    paused: bool,
}

impl Pace {
    /// Runs at `speed` times data time.
    #[must_use]
    pub fn new(speed: f64) -> Self {
        Self {
            speed,
            paused: false,
            anchor: None,
            shown: None,
            took: Duration::ZERO,
            started: Instant::now(),
            seek: None,
        }
    }

    /// Starts anew and as fast as possible until `to_ns`, with speed and pause of this one from there on.
    #[must_use]
    pub fn anew(&self, to_ns: u64) -> Self {
        let (speed, paused) = self.seek.map_or((self.speed, self.paused), |seek| (seek.speed, seek.paused));
        Self { seek: Some(Seek { to_ns, speed, paused }), ..Self::new(f64::INFINITY) }
    }

    /// Goes on as fast as possible until data time is `to_ns`.
    pub fn seek(&mut self, to_ns: u64, data_ns: Option<u64>) {
        self.seek = self.anew(to_ns).seek;
        self.pause(false, data_ns);
        self.set_speed(f64::INFINITY, data_ns);
    }

    /// Target of a seek under way.
    #[must_use]
    pub fn seek_ns(&self) -> Option<u64> {
        self.seek.map(|seek| seek.to_ns)
    }

    /// Ends a seek under way when data time is at `data_ns`.
    pub fn end_seek(&mut self, data_ns: Option<u64>) {
        if let Some(Seek { speed, paused, .. }) = self.seek.take() {
            self.set_speed(speed, data_ns);
            self.pause(paused, data_ns);
        }
    }

    /// Speed that a user chooses: from its target on while a seek is under way.
    pub fn choose_speed(&mut self, speed: f64, data_ns: Option<u64>) {
        match &mut self.seek {
            Some(seek) => seek.speed = speed,
            None => self.set_speed(speed, data_ns),
        }
    }

    /// The same of a pause.
    pub fn choose_pause(&mut self, paused: bool, data_ns: Option<u64>) {
        match &mut self.seek {
            Some(seek) => seek.paused = paused,
            None => self.pause(paused, data_ns),
        }
    }

    /// True if the replay is paused.
    #[must_use]
    pub fn paused(&self) -> bool {
        self.paused
    }

    /// True if the replay never waits.
    #[must_use]
    pub fn unlimited(&self) -> bool {
        self.speed.is_infinite()
    }

    /// Changes the speed when data time is at `data_ns`. Zero, negative and undefined speeds are
    /// ignored.
    pub fn set_speed(&mut self, speed: f64, data_ns: Option<u64>) {
        if speed > 0.0 {
            self.restart(data_ns);
            self.speed = speed;
        }
    }

    /// Pauses or resumes when data time is at `data_ns`.
    pub fn pause(&mut self, paused: bool, data_ns: Option<u64>) {
        if self.paused != paused {
            self.restart(data_ns);
            self.paused = paused;
        }
    }

    /// Sets the anchor: data time is at `data_ns` now.
    fn restart(&mut self, data_ns: Option<u64>) {
        self.anchor = data_ns.map(|ns| (ns, Instant::now()));
    }

    /// Clock time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Time to wait until data time is `data_ns`; `None`: it is due. The first call sets the start.
    pub fn wait(&mut self, data_ns: u64) -> Option<Duration> {
        if self.unlimited() {
            return None;
        }
        let now = Instant::now();
        let (from, at) = *self.anchor.get_or_insert((data_ns, now));
        let ahead = Duration::from_nanos(data_ns.saturating_sub(from));
        // At a very small speed the quotient overflows: wait without end.
        let ahead = Duration::try_from_secs_f64(ahead.as_secs_f64() / self.speed).unwrap_or(Duration::MAX);
        let wait = ahead.checked_sub(now.duration_since(at))?;
        (wait > SLACK).then_some(wait)
    }

    /// True on the first call, and after every `interval` of clock time; later if the replay never waits and the last
    /// sample took long, see [`refreshed`](Self::refreshed).
    pub fn refresh(&mut self, interval: Duration) -> bool {
        let now = Instant::now();
        let interval = if self.unlimited() { interval.max(self.took * (REST + 1)) } else { interval };
        let due = self.shown.is_none_or(|shown| now.duration_since(shown) >= interval);
        if due {
            self.shown = Some(now);
        }
        due
    }

    /// The sample of the last refresh has been taken.
    pub fn refreshed(&mut self) {
        self.took = self.shown.map_or(Duration::ZERO, |shown| shown.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_due_by_data_time_over_speed() {
        let mut pace = Pace::new(2.0);
        assert_eq!(pace.wait(1_000), None, "the first frame is the start");
        let wait = pace.wait(20_000_001_000).unwrap();
        assert!(wait > Duration::from_secs(9) && wait <= Duration::from_secs(10), "{wait:?}");
        pace.set_speed(20.0, Some(10_000_001_000));
        assert!(pace.wait(20_000_001_000).unwrap() <= Duration::from_millis(500));
        assert_eq!(pace.wait(10_000_000_999), None, "late frames are due");
        for nonsense in [0.0, -1.0, f64::NAN] {
            pace.set_speed(nonsense, Some(0));
        }
        assert!(pace.wait(20_000_001_000).unwrap() <= Duration::from_millis(500));
        pace.set_speed(f64::INFINITY, Some(0));
        assert_eq!(pace.wait(u64::MAX), None);
        pace.set_speed(f64::MIN_POSITIVE, Some(0));
        assert!(pace.wait(u64::MAX).is_some());
    }

    #[test]
    fn samples_that_take_long_are_rare_where_nothing_waits() {
        let mut pace = Pace::new(f64::INFINITY);
        assert!(pace.refresh(Duration::ZERO));
        pace.refreshed();
        assert!(pace.took < Duration::from_secs(60));
        pace.took = Duration::from_secs(60);
        assert!(!pace.refresh(Duration::ZERO));
        pace.set_speed(1.0, None);
        assert!(pace.refresh(Duration::ZERO), "the time of the data decides");
    }
}
