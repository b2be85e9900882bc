//! Rows of steps.
//!
//! Early reports can see other steps than later ones: parts of steps, before the period is known. What a report no
//! longer has is withdrawn, so that the rows are the steps of the latest report, whatever the interval.

use super::{Interval, Origin};
use crate::analysis::traffic::Steps as Found;
use crate::metrics::steps::Step;
use crate::record::cell::Time;
use crate::record::registry;
use crate::report::Report;
use crate::sample::Direction;
use crate::util::time::NS_PER_MS;

/// A step with a row, and the time to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recorded {
    step: Step,
    length_ns: u64,
    /// Start in its row: live, the times of a sample are those of its own clock offset.
    start_ns: u64,
}

/// The steps with rows, and the row of the last one.
#[derive(Debug, Default)]
pub(super) struct Steps {
    link: Option<(String, Option<Direction>)>,
    /// Those that reports may still have, and one before them.
    recorded: Vec<Recorded>,
    step_bytes: u64,
    /// No step follows it yet.
    last: Option<registry::Step>,
}

/// True if steps of a volume are no longer those of another one: segments found before the period was known.
pub(crate) fn is_given_up(before: u64, now: u64) -> bool {
    before.abs_diff(now).saturating_mul(4) > now
}

impl Steps {
    pub(super) fn take(
        &mut self,
        origin: &Origin,
        at: Interval,
        is_live: bool,
        report: &Report,
        rows: &mut Vec<registry::Step>,
    ) {
        let Some(found) = &report.facts.steps else { return };
        let link = Some((found.link.clone(), found.direction));
        if self.link != link || is_given_up(self.step_bytes, found.step_bytes) {
            // Readers know by the link, or by the volume.
            self.recorded.clear();
        }
        (self.link, self.step_bytes) = (link, found.step_bytes);
        let none = row(origin, at, found);
        let tolerance_ns = if is_live { NS_PER_MS } else { 0 };
        for change in self.changes(&found.all, tolerance_ns) {
            rows.push(match change {
                Change::Is(Recorded { step, length_ns, start_ns }) => of(&none, &step, start_ns, length_ns),
                Change::Withdrawn(start_ns) => registry::Step { start: Time(start_ns), ..none.clone() },
            });
        }
        self.last = found.all.last().map(|step| of(&none, step, step.start_ns, 0));
    }

    /// The row of the last step, which is not written yet.
    pub(super) const fn last(&self) -> Option<&registry::Step> {
        self.last.as_ref()
    }

    /// Writes the last step.
    pub(super) fn finish(&mut self, rows: &mut Vec<registry::Step>) {
        rows.extend(self.last.take());
    }

    /// Changes against the recorded steps, which become those of the report.
    fn changes(&mut self, all: &[Step], tolerance_ns: u64) -> Vec<Change> {
        let near = |a: u64, b: u64| a.abs_diff(b) <= tolerance_ns;
        let pairs = all.iter().zip(all.iter().skip(1));
        let mut now: Vec<Recorded> = pairs
            .map(|(step, next)| Recorded {
                step: *step,
                length_ns: next.start_ns.saturating_sub(step.start_ns),
                start_ns: step.start_ns,
            })
            .collect();
        let Some(first_ns) = now.first().map(|one| one.start_ns) else { return Vec::new() };
        let older =
            self.recorded.partition_point(|one| one.step.start_ns.saturating_add(tolerance_ns) < first_ns);
        // Reports have the latest steps: the first one may have lost its beginning.
        if let Some(known) = self.recorded.get(older).filter(|_| older > 0)
            && let Some(from) = now.iter().position(|one| near(one.start_ns, known.step.start_ns))
        {
            now.drain(..from);
        }
        let first_ns = now.first().map_or(first_ns, |one| one.start_ns);
        let over = |one: &Recorded| one.step.start_ns.saturating_add(one.length_ns) > first_ns + tolerance_ns;
        let before = older - usize::from(older > 0 && self.recorded.get(older - 1).is_some_and(over));
        let mut known = self.recorded.drain(before..).peekable();
        let mut changes = Vec::new();
        for one in &mut now {
            while let Some(gone) =
                known.next_if(|known| known.step.start_ns + tolerance_ns < one.step.start_ns)
            {
                changes.push(Change::Withdrawn(gone.start_ns));
            }
            let same = known.next_if(|known| near(known.step.start_ns, one.step.start_ns));
            match same {
                Some(known) if known.is(one, tolerance_ns) => one.start_ns = known.start_ns,
                Some(known) => {
                    one.start_ns = known.start_ns;
                    changes.push(Change::Is(*one));
                }
                None => changes.push(Change::Is(*one)),
            }
        }
        changes.extend(known.map(|gone| Change::Withdrawn(gone.start_ns)));
        self.recorded.drain(..before.saturating_sub(1));
        self.recorded.extend(now);
        changes
    }
}

/// A change of the recorded steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// A step is new, or has other times.
    Is(Recorded),
    /// There is no step with this start.
    Withdrawn(u64),
}

impl Recorded {
    /// True if times are the same, but for a difference.
    fn is(&self, other: &Self, most_ns: u64) -> bool {
        let times = |one: &Self| {
            let active_ns = one.step.end_ns.saturating_sub(one.step.start_ns);
            [one.length_ns, active_ns, one.step.busy_ns, one.step.silence_ns]
        };
        let near = |(a, b): (u64, u64)| a.abs_diff(b) <= most_ns;
        times(self).into_iter().zip(times(other)).all(near) && self.step.gap_follows == other.step.gap_follows
    }
}

/// The row of a step.
fn of(none: &registry::Step, step: &Step, start_ns: u64, length_ns: u64) -> registry::Step {
    registry::Step {
        start: Time(start_ns),
        length_ns,
        busy_ns: step.busy_ns,
        silence_ns: step.silence_ns,
        active_ns: Some(step.end_ns.saturating_sub(step.start_ns)),
        gap_follows: Some(step.gap_follows.into()),
        ..none.clone()
    }
}

/// The row of no step.
fn row(origin: &Origin, at: Interval, found: &Found) -> registry::Step {
    let straggler = found.straggler.as_ref();
    // What cannot become JSON is not there to be played back.
    let json = straggler.and_then(|one| serde_json::to_string(one).ok());
    registry::Step {
        t: at.t,
        host: origin.host.clone(),
        job: origin.job.clone(),
        link: found.link.as_str().into(),
        direction: found.direction,
        start: at.t,
        length_ns: 0,
        busy_ns: 0,
        silence_ns: 0,
        straggler: straggler.map(|one| one.waits_for),
        straggler_kind: straggler.map(|one| one.kind.into()),
        straggler_certain: straggler.map(|one| u64::from(one.certain)),
        behind_ns: straggler.map(|one| one.behind_ns),
        active_ns: None,
        step_bytes: Some(found.step_bytes),
        explained_ratio: Some(found.explained_ratio),
        straggler_json: json.as_deref().map(Into::into),
        gap_follows: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(starts: &[u64]) -> Vec<Step> {
        let of = |start_ns: &u64| Step {
            start_ns: *start_ns,
            end_ns: start_ns + 5,
            busy_ns: 4,
            silence_ns: 1,
            gap_follows: false,
        };
        starts.iter().map(of).collect()
    }

    fn changed(all: &mut Steps, starts: &[u64], tolerance_ns: u64) -> (Vec<u64>, Vec<u64>) {
        let (mut is, mut gone) = (Vec::new(), Vec::new());
        for change in all.changes(&steps(starts), tolerance_ns) {
            match change {
                Change::Is(one) => is.push(one.start_ns),
                Change::Withdrawn(start_ns) => gone.push(start_ns),
            }
        }
        (is, gone)
    }

    #[test]
    fn rows_follow_the_steps_of_the_report() {
        let mut all = Steps::default();
        assert_eq!(changed(&mut all, &[10, 20, 30, 40], 0), (vec![10, 20, 30], vec![]));
        assert_eq!(changed(&mut all, &[10, 20, 30, 40], 0), (vec![], vec![]));
        assert_eq!(changed(&mut all, &[10, 20, 30, 40, 50], 0), (vec![40], vec![]));
        // Two steps were parts of one.
        assert_eq!(changed(&mut all, &[10, 30, 40, 50, 60], 0), (vec![10, 50], vec![20]));
        // Old steps leave the report, and the first one it still has has lost its beginning.
        assert_eq!(changed(&mut all, &[33, 40, 50, 60, 70], 0), (vec![60], vec![]));
        assert_eq!(changed(&mut all, &[50, 60, 70, 80], 0), (vec![70], vec![]));
        // Steps begin before those that an early report had.
        assert_eq!(changed(&mut all, &[5, 55, 65, 75], 0), (vec![5, 55, 65], vec![40, 50, 60, 70]));
    }

    #[test]
    fn a_clock_that_drifts_makes_no_new_steps() {
        let mut all = Steps::default();
        changed(&mut all, &[1_000, 2_000, 3_000, 4_000], 10);
        assert_eq!(changed(&mut all, &[1_003, 2_003, 3_003, 4_003], 10), (vec![], vec![]));
        // Ten times as far, in small parts.
        for by in (3..103).step_by(10) {
            assert_eq!(
                changed(&mut all, &[1_000 + by, 2_000 + by, 3_000 + by, 4_000 + by], 10),
                (vec![], vec![])
            );
        }
        // Withdrawn under the start that its row has.
        assert_eq!(changed(&mut all, &[1_093, 3_093, 4_093, 5_093], 10), (vec![1_000, 4_093], vec![2_000]));
    }
}
