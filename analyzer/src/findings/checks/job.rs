//! Stalled jobs.

use crate::analysis::ports;
use crate::findings::ids;
use crate::findings::title::title;
use crate::findings::{
    Commands, Entry, Episode, Family, Finding, Impact, Input, Place, Problem, Raise, RequiredData, Severity,
};
use crate::util::units::{self, plural};

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family =
    Family { entries: &[STALLED], limits: &[Limits::META], evidence: &[], check };

const STALLED: Entry = Entry {
    id: "job.stalled",
    rank: 370,
    causes: &[
        ids::PEER_SILENT,
        ids::QP_DIED,
        ids::NAK_REMOTE_ACCESS_ERROR,
        ids::NAK_REMOTE_OPERATIONAL_ERROR,
        ids::NAK_INVALID_REQUEST,
    ],
    needs: &[RequiredData::Traffic],
    title: "Job stalled in the middle of a step",
    meaning: "Periodic traffic fell silent and stayed silent for many times its period, with an unfinished step or outstanding requests. A job that ends, or pauses \
                for a checkpoint, stops between two steps.",
    computed: "From steps.ending, with steps.count of at least 8: the silence since the last data is at least job.stalled_periods periods, job.stalled_periods times the longest of the \
               latest steps, and job.stalled_ns; and either at least job.stalled_part of a step (and less than a whole one) followed the last whole step, or flows have outstanding \
               requests.\n\
               \n\
               Critical. The silence is measured to the last frame of any kind on the same link, so that a capture which ends with the traffic raises nothing.",
    advice: "Find the rank that does not send: `py-spy dump` or a debugger on each rank, NCCL_DEBUG=INFO, TORCH_NCCL_TRACE_BUFFER_SIZE and the flight recorder, the \
               watchdog's timeout. With outstanding_flows above 0 a peer or the path does not respond: check the peer's host, its link and its QP (rdma resource show \
               qp). Check `dmesg` for Xid and mlx5 errors.",
    caveat: "A step that is cut by a capture filter appears unfinished. If the reverse direction is not captured, no request counts as outstanding.",
    ..Entry::of(Problem::Stall)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "job";
    stalled_periods: f64 = 5.0,
        "minimum silence, in periods",
        "Checkpoints and evaluation take a few steps, and stop between steps";
    stalled_ns: u64 = 1_000_000_000,
        "minimum silence in nanoseconds",
        "A busy host or a short pause of the job ends by itself sooner. One transport timeout may be longer (NCCL's default: 4.3 s): the job stalls for that time, too";
    stalled_part: f64 = 0.03,
        "minimum share of a step after the last whole one to be unfinished; up to twice this share may be missing from a whole one",
        "Step volumes differ by some per cent, and small messages continue between steps";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let Some(steps) = &input.facts.steps else { return };
    let (limits, ending) = (&input.limits.job, &steps.ending);
    let longest = steps.latest.iter().map(|step| step.length_ns).max().unwrap_or(0).max(steps.period_ns);
    let patience = (limits.stalled_periods * longest as f64).max(limits.stalled_ns as f64);
    let stopped = limits.stalled_part..1.0 - 2.0 * limits.stalled_part;
    let unfinished = ending.unfinished_ratio.filter(|part| stopped.contains(part));
    let outstanding = ending.outstanding_flows.unwrap_or(0);
    if (ending.silent_ns as f64) < patience || !(unfinished.is_some() || outstanding > 0) {
        return;
    }
    let silent = units::duration(ending.silent_ns);
    let since = units::second_utc(ending.last_data_ns);
    let how = match unfinished {
        Some(part) => format!(", {:.0} % of a step sent", 100.0 * part),
        None => format!(", {} outstanding", plural(outstanding, "flow")),
    };
    let diagnosis = format!("Job stalled: silent for {silent} since {since} UTC");
    let mut flows: Vec<_> = input
        .facts
        .flows
        .iter()
        .filter(|flow| ports::is_of(&flow.link, &steps.link) && flow.payload_bytes > 0)
        .collect();
    // The first flow to fall silent may be the cause.
    flows.sort_by_key(|flow| flow.last_ns);
    let here = Commands::on(input, &steps.link);
    let at_first = flows.first().map(|flow| Commands::at(input, flow, flow.src));
    let first = flows.first().map(|flow| flow.src);
    let first =
        first.map_or_else(|| "each rank".to_owned(), |src| format!("{src}, the first to fall silent"));
    Raise::new(&STALLED, Severity::Critical, title(diagnosis, [how]))
        .evidence("period_ns", steps.period_ns)
        .evidence("steps", steps.count)
        .evidence("last_data_ns", ending.last_data_ns)
        .evidence("silent_ns", ending.silent_ns)
        .evidence("unfinished_ratio", ending.unfinished_ratio)
        .evidence("outstanding_flows", ending.outstanding_flows)
        .flows(flows)
        .place(Place::link(input, &steps.link, None))
        .impact(Impact { time_lost_ns: Some(ending.silent_ns), ..Impact::default() })
        .step(
            format!("Dump the stacks of the job on {first}: py-spy dump --pid PID."),
            at_first.and_then(Commands::threads),
        )
        .step("Check the state of the queue pairs.", here.queue_pairs())
        .step(
            "Check Xid and NIC driver errors, there first and then on all hosts.",
            at_first.and_then(Commands::kernel_log),
        )
        .episodes(vec![Episode {
            first_ns: ending.last_data_ns,
            last_ns: ending.last_data_ns.saturating_add(ending.silent_ns),
            peak: Some(ending.silent_ns as f64),
        }])
        .last_seen(input.facts.window.last_ns)
        .into(found);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::traffic::Ending;
    use crate::findings::tests::{found_on, with_steps};

    fn ended(silent_ns: u64, unfinished_ratio: f64, outstanding_flows: u64) -> Option<Finding> {
        let (unfinished_ratio, outstanding_flows) = (Some(unfinished_ratio), Some(outstanding_flows));
        let ending = Ending { last_data_ns: 1, silent_ns, unfinished_ratio, outstanding_flows };
        found_on(&with_steps(|steps| steps.ending = ending), "job.stalled")
    }

    #[test]
    fn a_stop_within_a_step_or_with_something_outstanding() {
        const LONG: u64 = 2_000_000_000;
        assert_eq!(ended(LONG, 0.4, 0).map(|f| f.severity), Some(Severity::Critical));
        assert!(ended(LONG, 0.0, 2).unwrap().title.ends_with("since 00:00:00 UTC, 2 flows outstanding"));
        assert!(ended(LONG, 0.0, 1).unwrap().title.ends_with(", 1 flow outstanding"));
        assert_eq!(ended(LONG, 0.0, 0), None, "it ended");
        assert_eq!(ended(LONG, 0.97, 0), None, "a step that lacks a little");
        assert_eq!(ended(900_000_000, 0.4, 3), None, "not silent for long enough");
        assert_eq!(ended(0, 0.4, 3), None, "the capture ends with the traffic");
    }
}
