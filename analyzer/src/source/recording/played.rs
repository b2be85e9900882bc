//! Progress of the playback of a recording, for a line of progress of a command that waits for its end.

use std::sync::Mutex;
use std::time::Instant;

use crate::util::lock::Locked;

/// The latest playback of this process.
static LATEST: Mutex<Option<Playback>> = Mutex::new(None);

/// Beginning and progress of a playback.
#[derive(Clone, Copy, Debug)]
pub struct Playback {
    /// Time at which it began.
    pub began: Instant,
    /// Share of the recorded time that was played, up to the start of the last file, whose length is not known before
    /// it is read; `None` where that file is the only one.
    pub share: Option<f64>,
    range: (u64, u64),
}

impl Playback {
    /// The recorded time of which `share` is a share, in nanoseconds.
    pub const fn length_ns(&self) -> u64 {
        self.range.1.saturating_sub(self.range.0)
    }
}

/// The latest playback; `None` before the first.
pub fn latest() -> Option<Playback> {
    *LATEST.locked()
}

/// A playback of this recorded time begins.
pub(super) fn begin(from_ns: u64, to_ns: u64) {
    let range = (from_ns, to_ns);
    let share = (from_ns < to_ns).then_some(0.0);
    *LATEST.locked() = Some(Playback { began: Instant::now(), share, range });
}

/// Rows up to this time were played.
pub(super) fn reached(ns: u64) {
    if let Some(played) = LATEST.locked().as_mut().filter(|played| played.share.is_some()) {
        played.share = Some(share(ns, played.range));
    }
}

fn share(ns: u64, (from_ns, to_ns): (u64, u64)) -> f64 {
    let all = to_ns.saturating_sub(from_ns).max(1);
    (ns.saturating_sub(from_ns) as f64 / all as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_ends_with_the_last_file() {
        for (ns, expected) in [(5, 0.0), (10, 0.0), (20, 0.25), (50, 1.0), (90, 1.0)] {
            assert!((share(ns, (10, 50)) - expected).abs() < 1e-9, "{ns}");
        }
        assert!((share(5, (10, 10)) - 0.0).abs() < 1e-9);
    }
}
