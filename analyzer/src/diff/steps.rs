//! Change of the steps of a job, by their parts.

use serde::Serialize;
use serde_json::Value;

use super::text::changed;
use crate::metrics::traffic::times;
use crate::util::definition::definitions;
use crate::util::units;

definitions! {
    SAME_VOLUME: f64 = 0.1,
        "Maximum difference of the bytes of a step for two jobs to be the same with the same settings, as a share",
        "Other settings or another model change it by more; of other jobs, times say little";
}

/// Change of the step of a job. Times are means of the middle half of the steps, and add up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepChange {
    /// Bytes of a step in the baseline.
    pub step_bytes_a: u64,
    /// Bytes of a step in the other report.
    pub step_bytes_b: u64,
    /// Both move the same bytes per step, to 10 %: of other jobs, or with other settings, times say little.
    pub same_volume: bool,
    /// Step time in the baseline, nanoseconds.
    pub period_a_ns: u64,
    /// Step time in the other report, nanoseconds.
    pub period_b_ns: u64,
    /// Growth of the time with data on the wire, nanoseconds; negative: shorter.
    pub transfer_ns: i64,
    /// Growth of the silence within steps.
    pub wait_ns: i64,
    /// Growth of the silence until the next step, which is mostly computing.
    pub compute_ns: i64,
}

/// The change; `None` when one of the reports has no steps, or lacks their parts.
pub(super) fn change(a: &Value, b: &Value) -> Option<StepChange> {
    let of = |report: &Value, name: &str| report.pointer(&format!("/steps/{name}"))?.as_u64();
    let grew = |name: &str| {
        let (before, now) = (of(a, name)?, of(b, name)?);
        Some(i64::try_from(now).ok()?.saturating_sub_unsigned(before))
    };
    let (step_bytes_a, step_bytes_b) = (of(a, "step_bytes")?, of(b, "step_bytes")?);
    Some(StepChange {
        step_bytes_a,
        step_bytes_b,
        same_volume: step_bytes_a.abs_diff(step_bytes_b)
            <= times(step_bytes_a.max(step_bytes_b), SAME_VOLUME),
        period_a_ns: of(a, "parts/period_ns")?,
        period_b_ns: of(b, "parts/period_ns")?,
        transfer_ns: grew("parts/transfer_ns")?,
        wait_ns: grew("parts/wait_ns")?,
        compute_ns: grew("parts/compute_ns")?,
    })
}

impl StepChange {
    /// The change in one sentence.
    pub(super) fn sentence(&self) -> String {
        let (before, now) = (self.period_a_ns, self.period_b_ns);
        let share = changed(now as f64 / before.max(1) as f64 - 1.0);
        let grew = |ns| if ns == 0 { "=".to_owned() } else { units::growth(ns) };
        let other = if self.same_volume {
            String::new()
        } else {
            format!(
                "; not the same work: {} and {} per step",
                units::bytes(self.step_bytes_a),
                units::bytes(self.step_bytes_b)
            )
        };
        format!(
            "{} → {} ({share}): data on the wire {}, waiting within it {}, no traffic until the next {}{other}",
            units::duration(before),
            units::duration(now),
            grew(self.transfer_ns),
            grew(self.wait_ns),
            grew(self.compute_ns)
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(bytes: u64, [transfer, wait, compute]: [u64; 3]) -> Value {
        json!({ "steps": { "step_bytes": bytes, "parts": {
            "period_ns": transfer + wait + compute, "transfer_ns": transfer, "wait_ns": wait, "compute_ns": compute,
        } } })
    }

    #[test]
    fn the_part_that_grew_is_named() {
        let before = report(1_000_000, [20_000_000, 0, 30_000_000]);
        let after = report(1_020_000, [32_000_000, 1_000_000, 29_000_000]);
        assert_eq!(
            change(&before, &after).unwrap().sentence(),
            "50.0 ms → 62.0 ms (+24.0 %): data on the wire +12.0 ms, waiting within it +1.00 ms, no traffic until the \
             next −1.00 ms"
        );
        let other = change(&before, &report(2_000_000, [40_000_000, 0, 30_000_000])).unwrap();
        assert!(
            other.sentence().ends_with("; not the same work: 1.00 MB and 2.00 MB per step"),
            "{}",
            other.sentence()
        );
        // As in the table, what does not show is no growth.
        let same = change(&before, &report(1_000_000, [20_000_000, 0, 29_999_990])).unwrap().sentence();
        assert!(
            same.starts_with("50.0 ms → 50.0 ms (=): data on the wire =, waiting within it =, "),
            "{same}"
        );
        assert_eq!(change(&before, &json!({ "steps": null })), None);
    }
}
