//! Converts kernel timestamps (CLOCK_MONOTONIC) to Unix time (CLOCK_REALTIME).

use std::mem::MaybeUninit;

use rustix::time::{ClockId, clock_gettime};

use crate::util::time::NS_PER_S;

/// Number of readings, of which the one with the smallest error is used.
const READINGS: usize = 8;

/// Accuracy of the kernel's clock according to adjtimex, as reported to it by an NTP or PTP daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discipline {
    /// A daemon keeps the clock synchronised.
    pub synchronised: bool,
    /// Remaining correction, in nanoseconds; positive if the clock is slow.
    pub offset_ns: i64,
    /// Maximum error, in nanoseconds.
    pub most_ns: u64,
}

impl Discipline {
    /// Reads the state of the wall clock; `None` if the kernel does not provide it.
    pub fn read() -> Option<Self> {
        let mut state = MaybeUninit::<libc::timex>::zeroed();
        // SAFETY: an all-zero `timex` is valid and requests no change; the call fills it in.
        let state = unsafe {
            if libc::adjtimex(state.as_mut_ptr()) < 0 {
                return None;
            }
            state.assume_init()
        };
        Some(Self::of(state.status, state.offset, state.maxerror))
    }

    /// The offset is in nanoseconds if the status says so, else in microseconds; the error is always in microseconds.
    fn of(status: i32, offset: i64, most_us: i64) -> Self {
        let unit = if status & libc::STA_NANO != 0 { 1 } else { 1_000 };
        Self {
            synchronised: status & libc::STA_UNSYNC == 0,
            offset_ns: offset.saturating_mul(unit),
            most_ns: u64::try_from(most_us).unwrap_or(0).saturating_mul(1_000),
        }
    }
}

/// The offset between the two clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallClock {
    /// Nanoseconds to add to the monotonic clock.
    offset_ns: i64,
    /// Maximum error of the offset in nanoseconds: half the interval between the bracketing readings.
    error_ns: u64,
}

impl WallClock {
    /// Reads both clocks. Offsets differ before and after the wall clock is set.
    pub fn sample() -> Self {
        let readings = std::array::from_fn::<_, READINGS, _>(|_| {
            (now(ClockId::Monotonic), wall(), now(ClockId::Monotonic))
        });
        Self::tightest(&readings)
    }

    /// A zero offset, for times that are Unix time already, such as those of programs with a test clock.
    pub const fn unix() -> Self {
        Self { offset_ns: 0, error_ns: 0 }
    }

    /// The offset from the readings (monotonic, wall, monotonic) with the closest monotonic ones.
    fn tightest(readings: &[(i64, i64, i64)]) -> Self {
        readings
            .iter()
            .map(|(before, wall, after)| {
                let width = after.saturating_sub(*before).max(0);
                Self {
                    offset_ns: wall.saturating_sub(before.saturating_add(width / 2)),
                    error_ns: width.unsigned_abs().div_ceil(2),
                }
            })
            .min_by_key(|clock| clock.error_ns)
            .unwrap_or(Self { offset_ns: 0, error_ns: u64::MAX })
    }

    /// Unix time in nanoseconds of a kernel timestamp in nanoseconds.
    pub fn unix_ns(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_add_signed(self.offset_ns)
    }

    /// The offset that [`Self::unix_ns`] adds, in nanoseconds.
    pub fn offset_ns(&self) -> i64 {
        self.offset_ns
    }

    /// The error bound of [`Self::unix_ns`], in nanoseconds.
    pub fn error_ns(&self) -> u64 {
        self.error_ns
    }
}

/// Unix time in nanoseconds.
pub fn now_ns() -> u64 {
    WallClock::sample().unix_ns(monotonic_ns())
}

/// The monotonic clock, in nanoseconds: comparable to `bpf_ktime_get_ns`.
pub fn monotonic_ns() -> u64 {
    now(ClockId::Monotonic).unsigned_abs()
}

/// The wall clock, in nanoseconds.
fn wall() -> i64 {
    now(ClockId::Realtime).saturating_add(set_by_ns())
}

#[cfg(not(feature = "test-clock"))]
const fn set_by_ns() -> i64 {
    0
}

/// In builds for tests only, the nanoseconds by which a test has set the clock of this process: the text of the file
/// that the variable names. It is opened once, as threads lose the right to open files.
#[cfg(feature = "test-clock")]
fn set_by_ns() -> i64 {
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    static STEP: std::sync::OnceLock<Option<File>> = std::sync::OnceLock::new();
    let open = || File::open(std::env::var_os("ROCESCOPE_TEST_CLOCK")?).ok();
    let Some(file) = STEP.get_or_init(open) else { return 0 };
    let mut text = [0; 24];
    let length = file.read_at(&mut text, 0).unwrap_or(0);
    let text = text.get(..length).and_then(|text| std::str::from_utf8(text).ok());
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

fn now(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    #[expect(clippy::useless_conversion, reason = "32-bit hosts have narrower fields")]
    i64::from(time.tv_sec).saturating_mul(NS_PER_S.cast_signed()).saturating_add(i64::from(time.tv_nsec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_how_well_it_knows_the_time() {
        let known = Discipline { synchronised: true, offset_ns: -250, most_ns: 1_500_000 };
        assert_eq!(Discipline::of(libc::STA_NANO, -250, 1_500), known);
        let free = Discipline { synchronised: false, offset_ns: 3_000, most_ns: 16_000_000_000 };
        assert_eq!(Discipline::of(libc::STA_UNSYNC, 3, 16_000_000), free);
        assert!(Discipline::read().is_some());
    }

    #[test]
    fn the_tightest_reading_wins() {
        let clock = WallClock::tightest(&[(100, 5_000, 300), (400, 5_250, 420), (500, 9_000, 900)]);
        assert_eq!(clock, WallClock { offset_ns: 4_840, error_ns: 10 });
        assert_eq!(clock.unix_ns(1_000), 5_840);
        assert_eq!(WallClock { offset_ns: -5, error_ns: 0 }.unix_ns(3), 0);
    }

    #[test]
    fn a_sample_agrees_with_the_system_clock() {
        let clock = WallClock::sample();
        let before = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seen = clock.unix_ns(monotonic_ns());
        let after = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let slack = u128::from(clock.error_ns()) + 1_000_000;
        assert!(u128::from(seen) + slack >= before.as_nanos());
        assert!(u128::from(seen) <= after.as_nanos() + slack);
    }
}
