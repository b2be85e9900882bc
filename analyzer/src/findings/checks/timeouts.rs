//! Time lost to transport timeouts.

use std::cmp::Reverse;
use std::ptr;

use super::ends;
use super::held_up::HeldUp;
use super::loss::Side;
use super::loss::taps::Ends;
use crate::analysis::{Flow, TapFlow};
use crate::findings::command::ethernet;
use crate::findings::dedup::{Name, deduplicated, name};
use crate::findings::ids;
use crate::findings::not_evaluated::flows_not_evaluated;
use crate::findings::period::{
    Cost, Evaluated, Period, Wait, cost_base, impact, latest, periods, run, timed,
};
use crate::findings::title::{more, pair, title};
use crate::findings::{
    ByHand, Commands, Entry, Family, Finding, Input, Measure, Place, Problem, Raise, RequiredData, Severity,
    StepDelay, Unit, label,
};
use crate::metrics::loss::signal_intervals::{Interval, Signal};
use crate::sample::{Address, SourceKind};
use crate::util::map::{Map, Set};
use crate::util::numbers::share;
use crate::util::time::NS_PER_MS;
use crate::util::units::{self, plural};

/// This family. Its thresholds are those of `retry`.
pub(super) const FAMILY: Family = Family {
    entries: &[TIMEOUTS],
    limits: &[],
    evidence: &[
        label("timeouts", "transport timeouts", Unit::Count).summed(),
        label("stalls", "silences in mid-message", Unit::Count).summed(),
        label("acks_lost", "timeouts whose packets had arrived: ACKs lost or late", Unit::Count).summed(),
        label("waited_ns", "silence before timeouts, summed over QPs", Unit::Nanoseconds).summed(),
        label("waited_ratio", "share of its lifetime that the worst QP was silent", Unit::Ratio),
        label("shortest_ns", "shortest silence", Unit::Nanoseconds),
        label("longest_ns", "longest silence", Unit::Nanoseconds),
        label("felt_ns", "upper bound of what it added to job steps", Unit::Nanoseconds),
        label("felt_steps", "job steps with such silence, longer than the median", Unit::Count),
        label("clock_unknown", "the clock may have been set", Unit::Text),
        label("backoff", "back-off: longest over shortest silence of one QP", Unit::Factor),
    ],
    check,
};

pub(super) const TIMEOUTS: Entry = Entry {
    id: ids::RETRY_TIMEOUTS,
    rank: 275,
    needs: &[RequiredData::Loss, RequiredData::Sequences],
    causes: &[
        ids::PATH_MTU_BLACK_HOLE,
        ids::LOSS_BETWEEN_TAPS,
        ids::LOSS_BEFORE_TAP,
        ids::PEER_SILENT,
        ids::QP_DIED,
        ids::PFC_STORM,
        ids::RNR_SLOW_RECEIVER,
    ],
    measure: Some(Measure::ratio("waited_ratio")),
    title: "Transport timeouts",
    meaning: "Requests, their last packets or the ACKs are lost, or a path is dead for a while, and no NAK reports it: the sender waits for its transport timer in silence and then \
              retransmits. A timer is thousands of times longer than the recovery after a NAK, so that a few timeouts cost a job more than many lost packets.",
    computed: "From flows[].loss.timeouts and the silence before each (timeout_wait_ns). A timeout is a go-back-N or a repeated READ after a pause of at least {TIMEOUT_PAUSE_NS} that no NAK ended, in \
               flows whose reverse direction is captured; of several taps, at the one nearest the sender. A NAK explains one go-back-N, and none after 50 ms of silence. A warning from \
               retry.timeouts timeouts on, or from retry.timeout_wait_ms of silence in all.\n\
               - If the retransmissions repaired packets that a loss finding names, or the peer does not answer at all, the timeouts belong to that finding (`owner`).\n\
               - Lost ACKs are named as the reason where more than the share retry.acks_lost of the retransmissions carried what had arrived already: an ACK for it passed a tap before, \
               or the first ACK after the retransmission covers more than it.\n\
               - If the path dies between the sender and the tap, no retransmission need pass the tap: silences of at least 100 ms in mid-message, which no gap and no retransmission \
               ends, count where two QPs of the same hosts show them at the same time, or where one lasts for retry.stall_ms and retry.stall_paces times the longest other silence that \
               its flow has in mid-message (`stalls`; not live).\n\
               - If no RoCE packet passed the link meanwhile, in either direction, and a sender then went on without going back to what was not acknowledged, no timer expired: all RoCE \
               traffic was held up.\n\
               - If no other frame of the interface was captured either, the clock may have been set: info, and the verdict reserved, unless that happens retry.timeouts times. It was set, info as well, if the same packets and their responses took as much less time at another tap. \
               If the packets alone did, they were held up between the taps. \
               Each such link has a finding of its own, by the same two thresholds (not live).\n\
               - One that has not ended counts until the latest data packet of its link. A pause between messages is the job's own.\n\
               \n\
               Figures are those of the latest episode ({EPISODE_GAP_NS} without a timeout end one); of several episodes, shortest and longest silence are those of all, and lost ACKs are not known. \
               If steps of a job are known (`steps`), `felt_ns` is the upper bound of the silence that the job felt: in each step longer than the median, the time in which one of \
               these queue pairs was silent (each the latest 64 silences), up to what the step is longer.",
    advice: "Find where ACKs or the last packets of messages are lost: compare the drop counters of both directions, ACKs included, which often travel in another class. <eth>Look for paths that fail over or pause \
             (link flaps, PFC storms).</eth> The ACK timeout is 4.096 us * 2^NCCL_IB_TIMEOUT, at most NCCL_IB_RETRY_CNT times; shorter timers recover earlier, but fail earlier too.",
    caveat: "Live, READ requests that are repeated after a timeout are counted as rereads alone, and their silence is not known: responses may have come meanwhile.",
    ..Entry::of(Problem::Retransmission)
};

/// The timeouts of one flow in one episode, or its silences in mid-message.
struct TimedOut<'a> {
    flow: &'a Flow,
    timeouts: u64,
    stalls: u64,
    waited_ns: u64,
}

/// True if a flow alone is silent in mid-message for much longer than it ever is at its own pace.
fn stalls_alone(input: &Input<'_>, flow: &Flow) -> bool {
    let limits = &input.limits.retry;
    let loss = input.sample.metrics.loss.as_ref();
    let at = loss.and_then(|loss| loss.in_messages.as_ref()?.get(&flow.slot));
    let Some(pace_ns) = at.map(|at| at.pace_ns).filter(|ns| *ns > 0 && !flow.is_uc()) else { return false };
    let least_ns =
        limits.stall_ms.saturating_mul(NS_PER_MS).max(pace_ns.saturating_mul(limits.stall_paces)).max(1);
    let stalls = flow.intervals.of(Signal::Stall);
    flow.intervals.of(Signal::Silence).iter().any(|silence| {
        let is_stall = |all: &Interval| all.first_ns <= silence.first_ns && silence.last_ns <= all.last_ns;
        silence.last_ns.saturating_sub(silence.first_ns) >= least_ns && stalls.iter().any(is_stall)
    })
}

/// Flows that fall silent in mid-message together with another flow of the same hosts, or alone for very long, without
/// a retransmission at any tap: the lost packets did not reach this tap, and pass it for the first time after the
/// timeout. Before them those that were held up with all others on their link.
fn stalled<'a>(
    input: &Input<'a>,
    held_up: &HeldUp<'_>,
    timeouts: impl Fn(&Flow) -> u64,
) -> (Vec<&'a Flow>, Vec<&'a Flow>) {
    let flows = &input.facts.flows;
    let timed_out: Set<Name> = flows.iter().filter(|flow| timeouts(flow) > 0).map(name).collect();
    // A responder is silent where its requester times out.
    let is_asked = |flow: &Flow| {
        flow.psn_responses.is_some() && input.facts.back(flow).any(|asks| timed_out.contains(&name(asks)))
    };
    let silent = |flow: &&Flow| {
        !flow.intervals.of(Signal::Stall).is_empty() && !timed_out.contains(&name(flow)) && !is_asked(flow)
    };
    let mut hosts: Map<(Address, Address), Vec<&Flow>> = Map::default();
    for flow in flows.iter().filter(silent) {
        hosts.entry((flow.src, flow.dst)).or_default().push(flow);
    }
    let together = |flow: &Flow, other: &Flow| {
        name(flow) != name(other)
            && flow.intervals.of(Signal::Stall).iter().any(|a| {
                let other = other.intervals.of(Signal::Stall);
                other.iter().any(|b| a.first_ns < b.last_ns && b.first_ns < a.last_ns)
            })
    };
    let is_stalled = |flow: &&Flow| {
        stalls_alone(input, flow) || hosts[&(flow.src, flow.dst)].iter().any(|other| together(flow, other))
    };
    let all = flows.iter().filter(silent).filter(is_stalled);
    let stalls = |flow: &Flow| flow.intervals.of(Signal::Stall).iter().map(|interval| interval.count).sum();
    let stalled = deduplicated(all, stalls).into_iter().map(|(flow, _)| flow);
    stalled.partition(|flow| held_up.explains(flow))
}

/// True if the flow is seen at the tap nearest its sender: at later taps, loss or reordering upstream looks like a
/// pause.
pub(super) fn nearest_sender(ends: &Ends<'_>, flow: &Flow) -> bool {
    !ends.covers(Side::Upstream, flow)
}

/// Timeouts of a flow whose packets had arrived. Any tap may show it: the one at the receiver sees ACKs that are lost
/// or delayed downstream of it, which the one at the sender does not see.
fn acks_lost(input: &Input<'_>, flow: &Flow) -> u64 {
    let facts = input.facts;
    let same = facts.to_qp(flow.src, flow.dst, flow.dest_qp);
    let most = same.map(|other| other.losses_sum(|loss| loss.timeouts_acked)).max().unwrap_or(0);
    most.min(flow.losses_sum(|loss| loss.timeouts))
}

/// The same over several flows; `None` if unknown: live runs do not see single ACKs, and a tap that sees no loss has
/// no information.
fn known_acks_lost(input: &Input<'_>, flows: Vec<&Flow>) -> Option<u64> {
    let ordered = input.facts.taps.iter().filter(|tap| tap.from.is_some());
    let at_two_places: Set<Name> = ordered.map(TapFlow::name).collect();
    let is_whole = flows.iter().all(|flow| at_two_places.contains(&name(flow)));
    let lost: u64 = flows.into_iter().map(|flow| acks_lost(input, flow)).sum();
    (input.sample.kind == SourceKind::Replay && (lost > 0 || is_whole)).then_some(lost)
}

/// Effect of the silences in these flows on a job: steps longer than the median, counted up to the silence of a queue
/// pair in them; `None` if no steps are known for the time and, in captures, for the link (clocks of different links
/// differ).
fn step_delay<'a>(
    input: &Input<'_>,
    period: &Period,
    flows: impl Iterator<Item = &'a Flow>,
) -> Option<StepDelay> {
    let steps = input.facts.steps.as_ref()?;
    let one_clock = input.sample.kind != SourceKind::Replay;
    let silences = flows
        .filter(|flow| one_clock || flow.link == steps.link)
        .flat_map(|flow| flow.intervals.of(Signal::Silence))
        .filter(|silence| silence.first_ns <= period.last_ns && silence.last_ns >= period.first_ns);
    let mut silences: Vec<(u64, u64)> = silences.map(|silence| (silence.first_ns, silence.last_ns)).collect();
    silences.sort_unstable();
    let (first, last) = steps.all.first().zip(steps.all.last())?;
    silences.iter().find(|(from, to)| *from < last.start_ns && *to > first.start_ns)?;
    let mut all = StepDelay { ns: 0, steps: 0 };
    for (step, next) in steps.all.iter().zip(steps.all.iter().skip(1)) {
        let (start, next) = (step.start_ns, next.start_ns);
        let longer = (next.saturating_sub(start)).saturating_sub(steps.period_ns);
        // Silences overlap: each moment counts once.
        let (mut silent, mut until) = (0, start);
        for (from, to) in &silences {
            let (from, to) = ((*from).max(until), (*to).min(next));
            silent += to.saturating_sub(from);
            until = until.max(to);
        }
        let step_delay = longer.min(silent);
        all.ns += step_delay;
        all.steps += u64::from(step_delay > 0);
    }
    Some(all)
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.retry;
    let timeouts = |flow: &Flow| flow.losses_sum(|loss| loss.timeouts);
    let ends = Ends::of(input.facts);
    let nearest = input.facts.flows.iter().filter(|flow| nearest_sender(&ends, flow));
    let mut all: Vec<&Flow> = deduplicated(nearest, timeouts).into_iter().map(|(flow, _)| flow).collect();
    let silences = HeldUp::of(input.facts);
    let (held_up, stalled) = stalled(input, &silences, timeouts);
    let enough = |count: u64, waited_ns: u64| {
        count >= limits.timeouts.max(1) || waited_ns >= limits.timeout_wait_ms.saturating_mul(NS_PER_MS)
    };
    silences.raise(&TIMEOUTS, (input, &held_up), enough, found);
    let periods = if stalled.is_empty() {
        timed(&all, Signal::Timeout, timeouts)
    } else {
        all.extend(&stalled);
        periods(all.iter().copied(), &[Signal::Timeout, Signal::Stall])
    };
    // By address: each flow is looked up, and there can be tens of thousands of both.
    let is_stalled: Set<*const Flow> = stalled.iter().map(|flow| ptr::from_ref(*flow)).collect();
    let judge = |period: &Period| {
        let mut flows: Vec<TimedOut<'_>> = all
            .iter()
            .map(|flow| {
                let stall = |signal| {
                    let own = total(flow.intervals.of(signal).iter().map(|interval| interval.count));
                    if is_stalled.contains(&ptr::from_ref(*flow)) {
                        period.count(flow, signal, own)
                    } else {
                        0
                    }
                };
                TimedOut {
                    flow,
                    timeouts: period.count(flow, Signal::Timeout, timeouts(flow)),
                    stalls: stall(Signal::Stall),
                    waited_ns: Wait::Timeout.of(period, flow).saturating_add(stall(Signal::StallWait)),
                }
            })
            .filter(|one| one.timeouts + one.stalls > 0)
            .collect();
        flows.sort_by_key(|one| (Reverse(one.waited_ns), one.flow.src, one.flow.dst, one.flow.dest_qp));
        let waited = total(flows.iter().map(|one| one.waited_ns));
        let count: u64 = flows.iter().map(|one| one.timeouts + one.stalls).sum();
        (count > 0 && enough(count, waited)).then_some((flows, Some(count as f64)))
    };
    if let Some(judged) = latest(&periods, run(all.iter().copied()), judge) {
        raise(input, &judged, found);
    }
}

fn in_words(timeouts: u64, stalls: u64) -> String {
    let timed_out = plural(timeouts, "transport timeout");
    match (timeouts, stalls) {
        (0, _) => plural(stalls, "stall") + " within a message",
        (_, 0) => timed_out,
        _ => format!("{timed_out} and {}", plural(stalls, "stall")),
    }
}

/// Several queue pairs that wait for longer together than the time there was.
fn of_several(queue_pairs: usize, longer: bool) -> String {
    if longer && queue_pairs > 1 { format!(" over {queue_pairs} QPs") } else { String::new() }
}

/// The step that finds the drops.
fn compare_drops(Flow { src, dst, .. }: &Flow, by_acks: bool) -> String {
    if by_acks {
        format!("Compare drop counters from {dst} to {src}: the way of the ACKs, in their traffic class.")
    } else {
        format!("Compare drop counters between {src} and {dst} in both directions, ACKs included.")
    }
}

/// Longest silence over the shortest, of the queue pair in which they differ most: timers of two may differ without a
/// back-off.
fn backoff<'a>(flows: impl Iterator<Item = &'a Flow>) -> Option<f64> {
    let losses = flows.flat_map(Flow::losses).flatten().filter(|loss| loss.timeouts > 1);
    let ratios = losses.filter_map(|loss| Some(share(loss.timeout_longest_ns?, loss.timeout_shortest_ns?)));
    ratios.max_by(f64::total_cmp)
}

/// True for a storm that reordering explains, or NAKs for packets that passed the tap. Storms are raised only without
/// loss or a slow receiver to explain them.
fn is_explained(one: &Finding) -> bool {
    one.id == ids::RETRY_STORM
        && [one.subject.reordered, one.subject.nak_episodes].iter().any(|count| *count > Some(0))
}

/// Times of a capture may be any number, and so may waits between them.
fn total(waits: impl Iterator<Item = u64>) -> u64 {
    waits.fold(0, u64::saturating_add)
}

fn raise(input: &Input<'_>, judged: &Evaluated<Vec<TimedOut<'_>>>, found: &mut Vec<Finding>) {
    let Evaluated { period, what: timed_out, episodes } = judged;
    let Some(worst) = timed_out.first() else { return };
    let flows = || timed_out.iter().map(|one| one.flow);
    let count: u64 = timed_out.iter().map(|one| one.timeouts).sum();
    let stalls: u64 = timed_out.iter().map(|one| one.stalls).sum();
    let waited = total(timed_out.iter().map(|one| one.waited_ns));
    let losses = || flows().flat_map(Flow::losses).flatten();
    // Of one episode the figures of the run are its own; of several, those of each are not kept: the extremes are of
    // all of them, a sum says nothing of one.
    let alone = period.is_whole() || episodes.len() == 1;
    let shortest = losses().filter_map(|loss| loss.timeout_shortest_ns).min();
    let longest = losses().filter_map(|loss| loss.timeout_longest_ns).max();
    let lifetime = period.lifetime_ns(worst.flow).max(worst.waited_ns).max(1);
    let all: u64 = stalls + losses().map(|loss| loss.timeouts).sum::<u64>();
    let acks_lost = known_acks_lost(input, flows().collect()).filter(|_| alone);
    let by_acks = acks_lost.is_some_and(|lost| lost as f64 > input.limits.retry.acks_lost * all as f64);
    let lost = if by_acks { ": ACKs lost or late" } else { "" };
    let over = of_several(timed_out.len(), waited > lifetime);
    let diagnosis = format!("{} cost {}{over}{lost}", in_words(count, stalls), units::duration(waited));
    let step_delay = step_delay(input, period, flows());
    let longer = step_delay.filter(|step_delay| step_delay.steps > 0);
    let longer =
        longer.map_or_else(String::new, |step_delay| format!(", steps +{}", units::duration(step_delay.ns)));
    // One of those that it counts is not the one that waited.
    let one = |text: String| if over.is_empty() { text } else { String::new() };
    let qps = one(more(timed_out.len() as u64 - 1, "QP"));
    let parts =
        [pair(worst.flow.src, worst.flow.dst), one(format!(" QP {}", worst.flow.dest_qp)), qps, longer];
    let (requester, responder) = ends::of_data(input, flows());
    let here = Commands::near(input, worst.flow, worst.flow.src);
    let reordered = found.iter().any(is_explained);
    let cost = Cost { ratio: None, signal: Signal::RetransmittedAfterTimeout, waits: &[Wait::Timeout] };
    Raise::new(&TIMEOUTS, Severity::Warning, title(diagnosis, parts))
        .timeouts(Some(count))
        .evidence("stalls", (input.sample.kind == SourceKind::Replay).then_some(stalls))
        .evidence("acks_lost", acks_lost)
        .evidence("waited_ns", waited)
        .evidence("waited_ratio", worst.waited_ns as f64 / lifetime as f64)
        .evidence("shortest_ns", shortest)
        .evidence("longest_ns", longest)
        .step_delay(step_delay)
        .evidence("backoff", backoff(flows()).filter(|_| alone))
        .evidence("queue_pairs", timed_out.len())
        .evidence("flows_unjudged", flows_not_evaluated(input.facts))
        .flows(flows())
        .place(Place::of_all(input, flows()))
        .ends(requester, responder)
        .impact(impact(period, flows(), &cost))
        .of_cost(cost_base(input.facts, period, flows()))
        .episodes(episodes.clone())
        .of_all_episodes(&["shortest_ns", "longest_ns"])
        .owns(if reordered { &[] } else { &[ids::RETRY_STORM] })
        .step(compare_drops(worst.flow, by_acks), here.nic_counters())
        .step("Count timeouts of the NIC (local_ack_timeout_err, rnr_nak_retry_err).", here.rdma_counters())
        .step(
            "Look for link flaps, failovers and PFC storms at that time on the path.",
            ethernet(ByHand::Switch),
        )
        .step(
            "Compare the ACK timeout (NCCL_IB_TIMEOUT: 4.096 µs × 2^n) with the latency.",
            here.nccl_settings(),
        )
        .into(found);
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::analysis::fixtures::{START, key, stats};
    use crate::analysis::traffic::step_at;
    use crate::analysis::{Facts, Options};
    use crate::findings::episode_tests::{by_id, interval, run};
    use crate::findings::tests::with_steps;
    use crate::findings::{Input, Limits, check};
    use crate::metrics::loss::Metrics;
    use crate::metrics::loss::in_message::InMessage;
    use crate::metrics::loss::signal_intervals::{FlowSignalIntervals, Interval, Signal};
    use crate::sample::{FlowSample, Sample};

    use crate::util::time::NS_PER_MS as MS;

    /// Steps of 100 ms, the fourth and later ones with 500 ms, and silences of two QPs.
    #[test]
    fn a_job_feels_what_of_the_silence_its_longer_steps_have() {
        let step_delay = |link: &str, silences: &[(u64, u64)]| {
            let mut sample = timeouts(1, 1_200);
            let intervals = silences.iter().map(|(from, to)| Interval {
                first_ns: START + from * MS,
                last_ns: START + to * MS,
                count: 1,
                ..Interval::default()
            });
            let loss = sample.metrics.loss.as_mut().unwrap();
            let mut all = loss.intervals.flows.values_mut();
            let own = all.find(|one| !one.of(Signal::Timeout).is_empty()).unwrap();
            *own = own.clone().with(Signal::Silence, intervals.collect());
            let steps = with_steps(|steps| {
                steps.link = link.to_owned();
                steps.period_ns = 100 * MS;
                let starts = [1_000, 1_100, 1_200, 1_300, 1_800, 1_900, 2_000];
                steps.all = starts.map(|at| step_at(START + at * MS)).into();
            });
            let facts = Facts { steps: steps.steps, ..Facts::of(&sample, &Options::default()) };
            let limits = Limits::default();
            let found = check(&Input { sample: &sample, facts: &facts, limits: &limits });
            found.into_iter().find(|one| one.id == "retry.timeouts").unwrap()
        };
        let long = step_delay("eth0", &[(1_350, 1_650), (1_400, 1_700)]);
        assert_eq!(
            (&long.evidence["felt_ns"], &long.evidence["felt_steps"]),
            (&(350 * MS).into(), &1.into())
        );
        assert!(long.title.contains("steps +350 ms"), "{}", long.title);
        let impact = |finding: &crate::findings::Finding| {
            let fields = finding.fields(crate::findings::DataEnd::default());
            fields.into_iter().find(|(label, _)| *label == "Impact").map(|(_, text)| text).unwrap()
        };
        assert!(impact(&long).contains("1 job step longer, by 350 ms at most"), "{}", impact(&long));
        let most = step_delay("eth0", &[(1_000, 1_800)]);
        assert_eq!(most.evidence["felt_ns"], 400 * MS, "no more than the step is longer");
        let hidden = step_delay("eth0", &[(1_110, 1_190)]);
        assert_eq!((&hidden.evidence["felt_ns"], &hidden.evidence["felt_steps"]), (&0.into(), &0.into()));
        assert!(impact(&hidden).contains("no job step longer"), "{}", impact(&hidden));
        for (link, at) in [("elsewhere", 1_400), ("eth0", 2_400)] {
            let unknown = step_delay(link, &[(at, at + 300)]);
            assert!(unknown.evidence["felt_ns"].is_null(), "{link} {at}");
        }
    }

    /// Timeouts of `each_ms`, in one episode.
    fn timeouts(count: u64, each_ms: u64) -> Sample {
        let waited = count * each_ms * MS;
        let metrics = Metrics {
            timeouts: count,
            timeout_wait_ns: waited,
            timeout_range_ns: (each_ms * MS, 4 * each_ms * MS),
            retransmitted: count,
            ..Metrics::default()
        };
        let requests = FlowSignalIntervals::default()
            .with(Signal::Timeout, vec![interval(1..4, count)])
            .with(Signal::TimeoutWait, vec![interval(1..4, waited)]);
        run(9, metrics, requests, FlowSignalIntervals::default())
    }

    #[test]
    fn timeouts_of_the_first_minute_of_an_hour_are_a_share_of_their_time() {
        let metrics = Metrics {
            timeouts: 9,
            timeout_wait_ns: 9_000 * MS,
            timeout_range_ns: (MS, 2_000 * MS),
            ..Metrics::default()
        };
        let judged = |timeouts: Vec<Interval>| {
            let waits =
                timeouts.iter().map(|one| Interval { count: one.count * 1_000 * MS, ..*one }).collect();
            let requests = FlowSignalIntervals::default()
                .with(Signal::Timeout, timeouts)
                .with(Signal::TimeoutWait, waits);
            by_id(&run(3_600, metrics, requests, FlowSignalIntervals::default()), "retry.timeouts").unwrap()
        };
        let first = judged(vec![interval(20..40, 9)]);
        assert!(!first.active);
        let ratio = first.evidence["waited_ratio"].as_f64().unwrap();
        assert!((ratio - 9.0 / 40.0).abs() < 1e-9, "{ratio}: of its 20 s with 10 s before and behind");
        assert_eq!(first.evidence["longest_ns"], 2_000 * MS);
        let twice = judged(vec![interval(20..40, 5), interval(3_580..3_600, 4)]);
        assert_eq!((twice.active, &twice.evidence["timeouts"]), (true, &4.into()));
        assert_eq!(twice.evidence["longest_ns"], 2_000 * MS, "of both episodes");
        let label = |one: &crate::findings::Finding| one.evidence.get("longest_ns").unwrap().label.clone();
        assert_eq!(
            (label(&first), label(&twice)),
            ("longest silence".into(), "longest silence, all episodes".into())
        );
        assert!(twice.evidence["backoff"].is_null(), "silences of two episodes are no back-off");
    }

    /// Two QPs of the same hosts that are silent in mid-message, at second `first` and `second`, for 0.3 s each.
    pub(in crate::findings::checks) fn stalls(first: u64, second: u64) -> Sample {
        let of = |at: u64| {
            let until = |count| Interval {
                first_ns: START + at * MS,
                last_ns: START + (at + 300) * MS,
                count,
                ..Interval::default()
            };
            FlowSignalIntervals::default()
                .with(Signal::Stall, vec![until(1)])
                .with(Signal::StallWait, vec![until(300 * MS)])
        };
        let mut sample = run(9, Metrics::default(), of(first), FlowSignalIntervals::default());
        let other = key(0, "10.0.0.1", "10.0.0.2", 99);
        let more = crate::analysis::fixtures::sample(Vec::new(), vec![(other, stats(50_000, 100, 100_000))]);
        sample.flows.extend(more.flows.into_iter().map(|flow| FlowSample { slot: 7, ..flow }));
        let loss = sample.metrics.loss.as_mut().unwrap();
        loss.intervals.flows.insert(7, of(second));
        sample
    }

    #[test]
    fn queue_pairs_that_fall_silent_together_in_mid_message() {
        let found = by_id(&stalls(1_000, 1_100), "retry.timeouts").unwrap();
        assert!(found.title.starts_with("2 stalls within a message cost 600 ms"), "{}", found.title);
        assert_eq!((&found.evidence["timeouts"], &found.evidence["stalls"]), (&0.into(), &2.into()));
        assert_eq!(by_id(&stalls(1_000, 1_300), "retry.timeouts"), None, "not at the same time");
    }

    #[test]
    fn one_queue_pair_alone_is_silent_for_much_longer_than_at_its_own_pace() {
        let found = |silence_ms: u64, pace_ms: u64| {
            let silence = |count| Interval {
                first_ns: START + 1_000 * MS,
                last_ns: START + (1_000 + silence_ms) * MS,
                count,
                ..Interval::default()
            };
            let requests = FlowSignalIntervals::default()
                .with(Signal::Stall, vec![silence(1)])
                .with(Signal::StallWait, vec![silence(silence_ms * MS)])
                .with(Signal::Silence, vec![silence(1)]);
            let mut sample = run(9, Metrics::default(), requests, FlowSignalIntervals::default());
            let at = InMessage { pace_ns: pace_ms * MS, ..InMessage::default() };
            sample.metrics.loss.as_mut().unwrap().in_messages = Some([(0, at)].into_iter().collect());
            by_id(&sample, "retry.timeouts")
        };
        let alone = found(1_200, 1).unwrap();
        assert!(alone.title.starts_with("1 stall within a message cost 1.20 s"), "{}", alone.title);
        assert!(found(500, 50).is_some());
        assert_eq!(found(499, 1), None, "short");
        assert_eq!(found(500, 51), None, "it is slow");
        assert_eq!(found(1_200, 0), None, "its pace is not known");
    }

    #[test]
    fn a_few_timeouts_or_one_long_one() {
        assert_eq!(by_id(&timeouts(2, 5), "retry.timeouts"), None, "two short ones");
        assert_eq!(by_id(&timeouts(1, 99), "retry.timeouts"), None);
        let long = by_id(&timeouts(1, 1_200), "retry.timeouts").unwrap();
        assert_eq!(long.impact.time_lost_ns, Some(1_200 * MS));
        assert!(long.title.starts_with("1 transport timeout cost 1.20 s"), "{}", long.title);
        let mut of_acks = timeouts(61, 67);
        let flow = of_acks.metrics.loss.as_mut().unwrap().flows.values_mut().next().unwrap();
        flow.requests.as_mut().unwrap().timeouts_acked = 31;
        let of_acks = by_id(&of_acks, "retry.timeouts").unwrap();
        assert!(
            of_acks.title.starts_with("61 transport timeouts cost 4.09 s: ACKs lost or late"),
            "{}",
            of_acks.title
        );
        assert!(of_acks.steps[0].text.contains("the way of the ACKs"));
        let many = by_id(&timeouts(61, 67), "retry.timeouts").unwrap();
        assert!(!many.title.contains("ACK"), "{}", many.title);
        assert_eq!(
            (&many.evidence["timeouts"], &many.evidence["backoff"]),
            (&61.into(), &serde_json::json!(4.0))
        );
        assert_eq!(many.episodes.len(), 1);
        assert!(many.active && many.owner.is_none());
    }
}
