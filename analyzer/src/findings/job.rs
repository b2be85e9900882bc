//! A job that has stopped.

use super::{Entry, Family, Input, Need, Raise};
use crate::analysis::ports;
use crate::findings::{Finding, Severity};
use crate::util::units::{self, plural};

/// This family.
pub(super) const FAMILY: Family =
    Family { entries: &[STALLED], limits: &[Limits::META], evidence: &[], check };

const STALLED: Entry = Entry {
    id: "job.stalled",
    rank: 370,
    causes: &[
        "peer.silent",
        "nak.remote_access_error",
        "nak.remote_operational_error",
        "nak.invalid_request",
    ],
    needs: &[Need::Traffic],
    title: "The job stopped in the middle of a step",
    meaning: "Flows that kept a rhythm fell silent and stayed silent for many times its period, with a step begun and not finished or with requests outstanding. A job that ends, or rests for a checkpoint, \
              stops between two steps.",
    computed: "From steps.ending, with steps.count of 8 or more: the silence since the last data is at least stalled_periods periods, stalled_periods times the longest of the latest steps, and stalled_ns; and either data of \
               stalled_part of a step or more (and less than a whole one) came after the last whole step, or outstanding flows are left. Critical. The silence counts to the last frame of any kind on the same link, so that a capture which \
               ends with the traffic raises nothing.",
    advice: "Find the rank that does not send: `py-spy dump` or a debugger on each rank, NCCL_DEBUG=INFO, TORCH_NCCL_TRACE_BUFFER_SIZE and the flight recorder, the watchdog's timeout. With outstanding_flows above 0 a peer or the path does not answer: is the peer's host up, \
             its link, its QP (rdma resource show qp)? `dmesg` for Xid and mlx5 errors.",
    caveat: "A step that is cut by a capture filter looks unfinished. Where answers between two hosts do not pass the point of capture, no request counts as outstanding.",
    ..Entry::EMPTY
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "job";
    stalled_periods: f64 = 5.0,
        "periods of silence, at least",
        "Checkpoints and evaluation take a few steps' time, and stop between steps besides";
    stalled_ns: u64 = 1_000_000_000,
        "silence in nanoseconds, at least",
        "A retransmission after a timeout of the transport may take half a second (local ACK timeout 4.096 µs · 2^17); nobody needs an alarm for less";
    stalled_part: f64 = 0.03,
        "share of a step sent after the last whole one that makes it unfinished; also how much may be missing of a whole one, twice",
        "The volumes of steps differ by some per cent, and small messages go on between them";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let Some(steps) = &input.facts.steps else { return };
    let (limits, ending) = (&input.limits.job, &steps.ending);
    let longest = steps.latest.iter().map(|step| step.length_ns).max().unwrap_or(0).max(steps.period_ns);
    let patience = (limits.stalled_periods * longest as f64).max(limits.stalled_ns as f64);
    let unfinished =
        (limits.stalled_part..1.0 - 2.0 * limits.stalled_part).contains(&ending.unfinished_ratio);
    if (ending.silent_ns as f64) < patience || !(unfinished || ending.outstanding_flows > 0) {
        return;
    }
    let how = if unfinished {
        format!("after {:.0} % of a step", 100.0 * ending.unfinished_ratio)
    } else {
        let flows = plural(ending.outstanding_flows, "flow");
        format!("with {flows} waiting for an answer or in the middle of a message")
    };
    let title = format!(
        "The job made a step every {} (median) and then stopped at {} UTC {how}: silent for {}",
        units::duration(steps.period_ns),
        units::second_utc(ending.last_data_ns),
        units::duration(ending.silent_ns)
    );
    let mut flows: Vec<_> = input
        .facts
        .flows
        .iter()
        .filter(|flow| ports::is_of(&flow.link, &steps.link) && flow.payload_bytes > 0)
        .collect();
    // Who fell silent first may be the one that is waited for.
    flows.sort_by_key(|flow| flow.last_ns);
    Raise::new(&STALLED, Severity::Critical, title)
        .evidence("period_ns", steps.period_ns)
        .evidence("steps", steps.count)
        .evidence("last_data_ns", ending.last_data_ns)
        .evidence("silent_ns", ending.silent_ns)
        .evidence("unfinished_ratio", ending.unfinished_ratio)
        .evidence("outstanding_flows", ending.outstanding_flows)
        .flows(flows)
        .lasting()
        .into(found);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::traffic::Ending;
    use crate::findings::tests::{found_on, with_steps};

    fn ended(silent_ns: u64, unfinished_ratio: f64, outstanding_flows: u64) -> Option<Finding> {
        let ending = Ending { last_data_ns: 1, silent_ns, unfinished_ratio, outstanding_flows };
        found_on(&with_steps(|steps| steps.ending = ending), "job.stalled")
    }

    #[test]
    fn a_stop_within_a_step_or_with_something_outstanding() {
        const LONG: u64 = 2_000_000_000;
        assert_eq!(ended(LONG, 0.4, 0).map(|f| f.severity), Some(Severity::Critical));
        assert!(ended(LONG, 0.0, 2).unwrap().title.contains("stopped at 00:00:00 UTC with 2 flows"));
        assert!(ended(LONG, 0.0, 1).unwrap().title.contains("with 1 flow waiting"));
        assert_eq!(ended(LONG, 0.0, 0), None, "it ended");
        assert_eq!(ended(LONG, 0.97, 0), None, "a step that lacks a little");
        assert_eq!(ended(900_000_000, 0.4, 3), None, "not silent for long enough");
        assert_eq!(ended(0, 0.4, 3), None, "the capture ends with the traffic");
    }
}
