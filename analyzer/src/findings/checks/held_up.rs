//! Silences of all RoCE traffic on a link that no transport timer can have ended: it was held up, or, where no other
//! frame was captured either, the clock may have been set.

use std::collections::BTreeMap;

use super::ends;
use crate::analysis::{Facts, Flow};
use crate::findings::command::ethernet;
use crate::findings::title::{pair, short, title};
use crate::findings::{ByHand, Commands, Entry, Episode, Finding, Input, Place, Raise, Severity};
use crate::metrics::loss::in_message::{STALL_NS, is_but_for};
use crate::metrics::loss::signal_intervals::Signal;
use crate::util::map::Map;
use crate::util::units::{self, plural};

/// Times from one packet to the next, in order, each with what is known of the clock meanwhile.
type Silences = BTreeMap<(u64, u64), Clock>;

/// What is known of a capture's clock in a silence, the last of what several flows show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Clock {
    /// Other frames passed: it was not set.
    #[default]
    Kept,
    /// No frame passed.
    Unknown,
    /// The same packets passed another tap without the silence.
    Set,
    /// The same, but their responses took as long at both taps: it was not set.
    HeldBetween,
}

impl Clock {
    const fn is_known_kept(self) -> bool {
        matches!(self, Self::Kept | Self::HeldBetween)
    }
}

/// What another tap shows where no frame passed in the silences of a flow. A clock that is set adds as much to the
/// packets of both directions; what is held up between two taps takes longer at one, and its responses are as late at
/// both.
fn at_taps(facts: &Facts, flow: &Flow) -> Clock {
    let Some(psn) = flow.psn.get() else { return Clock::Unknown };
    let silent_ns: u64 = flow.intervals.of(Signal::StallWait).iter().map(|one| one.count).sum();
    let life_ns = |flow: &Flow| flow.last_ns.saturating_sub(flow.first_ns);
    let others = facts.to_qp(flow.src, flow.dst, flow.dest_qp).filter(|other| {
        let same = other.psn.get().is_some_and(|own| (own.first, own.expected) == (psn.first, psn.expected));
        other.link != flow.link && same && other.intervals.of(Signal::Stall).is_empty()
    });
    let is_longer = |one: &Flow, other: &Flow, by_ns: u64| {
        life_ns(one).abs_diff(life_ns(other).saturating_add(by_ns)) < STALL_NS / 2
    };
    let responses = |at: &Flow| facts.back(flow).find(|back| back.link == at.link);
    // Responses that end before the silence, or begin after it, take as long whatever the clock does.
    let spans = |one: &Flow| {
        let mut stalls = flow.intervals.of(Signal::Stall).iter();
        stalls.all(|stall| one.first_ns <= stall.first_ns && stall.last_ns <= one.last_ns)
    };
    let shown = others.filter(|other| is_longer(flow, other, silent_ns)).filter_map(|other| {
        let (here, there) = responses(flow).zip(responses(other))?;
        if is_longer(here, there, silent_ns) {
            Some(Clock::Set)
        } else if spans(here) && is_longer(here, there, 0) {
            Some(Clock::HeldBetween)
        } else {
            None
        }
    });
    shown.max().unwrap_or(Clock::Unknown)
}

/// Times in which no RoCE packet passed a link while messages stood on it, and that no timer can have ended, by link.
pub(super) struct HeldUp<'a>(Map<&'a str, Silences>);

const fn length((from_ns, to_ns): (u64, u64)) -> u64 {
    to_ns.saturating_sub(from_ns)
}

impl<'a> HeldUp<'a> {
    pub(super) fn of(facts: &'a Facts) -> Self {
        let mut links: Map<&str, Silences> = Map::default();
        for flow in &facts.flows {
            let no_frame = flow.intervals.of(Signal::NoFrame);
            for one in flow.intervals.of(Signal::HeldUp) {
                let silence = (one.first_ns, one.last_ns);
                let may_be_clock =
                    no_frame.iter().any(|all| is_but_for(silence, (all.first_ns, all.last_ns)));
                let clock = if may_be_clock { at_taps(facts, flow) } else { Clock::Kept };
                let known = links.entry(&flow.link).or_default().entry(silence).or_default();
                *known = clock.max(*known);
            }
        }
        Self(links)
    }

    /// True if the flow has no other silence in mid-message.
    pub(super) fn explains(&self, flow: &Flow) -> bool {
        let Some(held_up) = self.0.get(flow.link.as_str()) else { return false };
        let stalls: u64 = flow.intervals.of(Signal::Stall).iter().map(|one| one.count).sum();
        let is_one = |silence: (u64, u64)| held_up.keys().any(|all| is_but_for(silence, *all));
        let silences = flow.intervals.of(Signal::Silence).iter();
        silences.filter(|one| is_one((one.first_ns, one.last_ns))).count() as u64 >= stalls
    }

    /// Number of links with one of these silences, at about the same time.
    fn taps(&self, silences: &Silences) -> usize {
        let overlap = |one: &(u64, u64), other: &(u64, u64)| one.0 < other.1 && other.0 < one.1;
        let is_same = |all: &&Silences| silences.keys().any(|one| all.keys().any(|own| overlap(one, own)));
        self.0.values().filter(is_same).count()
    }

    /// The findings about flows that were held up with all others on their link, one for each link. `enough`: this
    /// number of silences, of this length in all, is worth one.
    pub(super) fn raise(
        &self,
        entry: &Entry,
        (input, flows): (&Input<'_>, &[&Flow]),
        enough: impl Fn(u64, u64) -> bool,
        found: &mut Vec<Finding>,
    ) {
        let mut links: BTreeMap<&str, Vec<&Flow>> = BTreeMap::new();
        for flow in flows {
            links.entry(&flow.link).or_default().push(flow);
        }
        for (link, flows) in links {
            let Some(silences) = self.0.get(link) else { continue };
            let waited_ns: u64 = silences.keys().map(|one| length(*one)).sum();
            if enough(silences.len() as u64, waited_ns)
                && let Some(raise) = of_link(entry, input, (silences, self.taps(silences)), &flows)
            {
                raise.into(found);
            }
        }
    }
}

/// The finding about the silences of a link, which this number of taps shows.
fn of_link(
    entry: &Entry,
    input: &Input<'_>,
    (silences, taps): (&Silences, usize),
    flows: &[&Flow],
) -> Option<Raise> {
    let first = flows.first()?;
    let lengths = || silences.keys().map(|one| length(*one));
    let longest = lengths().max()?;
    let (requester, responder) = ends::of_data(input, flows.iter().copied());
    let kept = silences.values().filter(|clock| clock.is_known_kept()).count();
    let was_set = silences.values().all(|clock| *clock == Clock::Set);
    let diagnosis = if was_set {
        format!("Clock set: {} without packets, which another tap shows without", units::duration(longest))
    } else if kept == 0 {
        format!("Clock set, or all traffic held up for {}", units::duration(longest))
    } else {
        let fabric = if input.facts.is_infiniband() { "InfiniBand" } else { "RoCE" };
        format!("No {fabric} packet passed for {}", units::duration(longest))
    };
    let parts = [format!(", {}", short(&first.link)), pair(first.src, first.dst)];
    let episode = |&(first_ns, last_ns): &(u64, u64)| Episode { first_ns, last_ns, peak: None };
    let here = Commands::on(input, &first.link);
    let is_unknown = !was_set && kept == 0 && (silences.len() as u64) < several(input);
    let severity = if was_set || is_unknown { Severity::Info } else { Severity::Warning };
    let mut raise = Raise::new(entry, severity, title(diagnosis, parts))
        .timeouts(Some(0))
        .evidence("stalls", silences.len())
        .evidence("shortest_ns", lengths().min())
        .evidence("longest_ns", longest)
        .evidence("queue_pairs", flows.len())
        .flows(flows.iter().copied())
        .place(Place::of(input, first))
        .ends(requester, responder)
        .episodes(silences.keys().map(episode).collect());
    if is_unknown {
        raise = raise.clock_unknown();
    }
    if was_set {
        return Some(raise.caveat("Times and rates of this capture about that moment are wrong.").step(
            "Check when the clock of the capturing host was set (chronyc, journalctl).",
            ByHand::Varies,
        ));
    }
    raise = raise.caveat(format!(
        "{} No transport timer expired: senders went on without going back to what was not acknowledged.",
        about_clock(silences, taps)
    ));
    let pauses = if kept == silences.len() {
        "Look for PFC pauses of the port at that time."
    } else {
        raise = raise.step(
            "Check whether the clock of the capturing host was set at that time (chronyc, journalctl).",
            ByHand::Varies,
        );
        "If it was not, look for PFC pauses of the port at that time."
    };
    Some(raise.step(pauses, ethernet(here.nic_counters())))
}

/// Number of silences that no clock makes which is set once, or set and set back.
fn several(input: &Input<'_>) -> u64 {
    input.limits.retry.timeouts.max(1)
}

/// What other frames and other taps say of the clock in the silences, of which this number of taps shows some.
fn about_clock(silences: &Silences, taps: usize) -> String {
    let count = |clock: Clock| silences.values().filter(|one| **one == clock).count();
    let of = |number: usize, shown: &str| match (number, silences.len()) {
        (0, _) => None,
        (number, all) if number == all => Some(format!("{shown}: the clock was not set.")),
        (number, all) => Some(format!(
            "{shown} in {number} of {}: the clock was not set then.",
            plural(all as u64, "silence")
        )),
    };
    let others = if count(Clock::Kept) == silences.len() {
        "Other frames passed meanwhile"
    } else {
        "Other frames passed"
    };
    let known = [
        of(count(Clock::Kept), others),
        of(
            count(Clock::HeldBetween),
            "Another tap shows the same packets without the silence, and their responses as late",
        ),
    ];
    let known: Vec<String> = known.into_iter().flatten().collect();
    match taps {
        _ if !known.is_empty() => known.join(" "),
        0 | 1 => "One tap cannot distinguish the two.".to_owned(),
        2 => "2 taps show the same silence; neither shows which.".to_owned(),
        taps => format!("{taps} taps show the same silence; none shows which."),
    }
}

#[cfg(test)]
mod tests {
    use crate::analysis::fixtures::{START, link};
    use crate::analysis::{Facts, Options};
    use crate::findings::checks::timeouts::tests::stalls;
    use crate::findings::tests::found;
    use crate::findings::{Finding, Input, Limits, check};
    use crate::metrics::loss::signal_intervals::{Interval, Signal};
    use crate::sample::{PeerKey, Sample};
    use crate::util::time::NS_PER_MS as MS;

    fn silence((from, to): (u64, u64)) -> Interval {
        let (first_ns, last_ns) = (START + from * MS, START + to * MS);
        Interval { first_ns, last_ns, count: 1, ..Interval::default() }
    }

    /// Two flows that are silent in mid-message from 1,000 to 1,300 ms. Of the second, no RoCE packet passes its link
    /// at times, and no frame at all at others.
    fn sample(roce: &[(u64, u64)], frames: &[(u64, u64)]) -> Sample {
        let mut sample = stalls(1_000, 1_000);
        let flows = &mut sample.metrics.loss.as_mut().unwrap().intervals.flows;
        for flow in flows.values_mut().filter(|flow| !flow.is_empty()) {
            *flow = flow.clone().with(Signal::Silence, vec![silence((1_000, 1_300))]);
        }
        let all = |times: &[(u64, u64)]| times.iter().copied().map(silence).collect();
        let flow = flows.get_mut(&7).unwrap();
        *flow = flow.clone().with(Signal::HeldUp, all(roce)).with(Signal::NoFrame, all(frames));
        sample
    }

    fn timeouts(sample: &Sample) -> Vec<Finding> {
        let found = found(sample, &Options::default());
        found.into_iter().filter(|one| one.id == "retry.timeouts").collect()
    }

    #[test]
    fn a_silence_of_every_frame_may_be_a_clock_that_is_set() {
        let one = |roce, frames: &[(u64, u64)]| timeouts(&sample(&[roce], frames)).remove(0);
        let clock = |one: &Finding| one.steps.iter().any(|step| step.text.contains("clock"));
        let all = one((1_001, 1_300), &[(1_001, 1_299)]);
        assert!(all.title.starts_with("Clock set, or all traffic held up for 299 ms, eth0"), "{}", all.title);
        assert!(!all.is_problem() && clock(&all) && all.subject.is_clock_unknown, "one tap cannot tell");
        let before = one((1_100, 1_300), &[(1_100, 1_300)]);
        assert!(before.is_problem() && before.title.starts_with("2 stalls"), "{}", before.title);
        // Other frames: none is silent as long, or they end the silence.
        for frames in [vec![], vec![(1_001, 1_190)], vec![(1_110, 1_300)]] {
            let others = one((1_001, 1_300), &frames);
            assert!(others.title.starts_with("No RoCE packet passed for 299 ms, eth0"), "{}", others.title);
            assert!(others.is_problem() && !clock(&others), "{:?}", others.steps);
            assert!(!others.subject.is_clock_unknown);
            assert!(others.caveats[0].starts_with("Other frames passed meanwhile"), "{:?}", others.caveats);
        }
    }

    /// The same packets at a second tap, which shows no silence and this much less time: of the data, and of the
    /// responses.
    fn two_taps([less_ms, responses_less_ms]: [u64; 2], lost: u32) -> Sample {
        let mut sample = sample(&[(1_000, 1_300)], &[(1_000, 1_300)]);
        sample.links = vec![link("a", None), link("b", None)];
        let other = PeerKey::of(&sample.flows.last().unwrap().key);
        sample.peers.insert(other, 18);
        for (number, mut flow) in (0..).zip(sample.flows.clone()) {
            (flow.key.link, flow.slot) = (1, 100 + number);
            let is_data = flow.stats.psn.seen > 0;
            flow.stats.last_ns -= if is_data { less_ms } else { responses_less_ms } * MS;
            flow.stats.psn.expected -= if is_data { lost } else { 0 };
            sample.flows.push(flow);
        }
        sample
    }

    #[test]
    fn a_silence_that_another_tap_does_not_show_is_a_clock_that_was_set() {
        let with = |less_ms: [u64; 2], lost: u32| timeouts(&two_taps(less_ms, lost)).remove(0);
        let set = with([300, 300], 0);
        assert!(set.title.starts_with("Clock set: 300 ms without packets"), "{}", set.title);
        assert!(!set.is_problem() && set.steps.len() == 1 && !set.subject.is_clock_unknown);
        for held_up in [with([0, 0], 0), with([500, 500], 0), with([300, 300], 1), with([300, 150], 0)] {
            assert!(held_up.title.starts_with("Clock set, or all traffic held up"), "{}", held_up.title);
            assert!(!held_up.is_problem());
        }
        let between = with([300, 0], 0);
        assert!(between.title.starts_with("No RoCE packet passed for 300 ms"), "{}", between.title);
        assert!(
            between.is_problem() && between.caveats[0].starts_with("Another tap"),
            "{:?}",
            between.caveats
        );
        assert!(between.steps.iter().all(|step| !step.text.contains("clock")), "{:?}", between.steps);
    }

    /// Responses of which the last passes before the silence take as long at both taps whatever the clock does.
    #[test]
    fn responses_before_a_silence_say_nothing_of_the_clock() {
        let found = |responses_until: u64| {
            let mut sample = two_taps([300, 0], 0);
            for flow in sample.flows.iter_mut().filter(|flow| flow.stats.psn.seen == 0) {
                flow.stats.last_ns = START + responses_until * MS;
            }
            timeouts(&sample).remove(0).is_problem()
        };
        assert_eq!([1_200, 1_300].map(found), [false, true]);
    }

    #[test]
    fn taps_that_show_the_same_silence_are_counted() {
        let caveat = |at: &[(u64, u64)]| {
            let mut sample = sample(&[(1_000, 1_300)], &[(1_000, 1_300)]);
            sample.links = vec![link("rail0", None), link("rail1", None)];
            sample.flows.iter_mut().find(|flow| flow.slot == 7).unwrap().key.link = 1;
            let all = || at.iter().copied().map(silence).collect();
            let first = sample.metrics.loss.as_mut().unwrap().intervals.flows.get_mut(&0).unwrap();
            *first = first.clone().with(Signal::HeldUp, all()).with(Signal::NoFrame, all());
            let found = timeouts(&sample);
            found.iter().find(|one| one.title.contains("rail1")).unwrap().caveats[0].clone()
        };
        assert!(caveat(&[(1_000, 1_300)]).starts_with("2 taps show the same silence; neither shows which."));
        assert!(caveat(&[(1_300, 1_600)]).starts_with("One tap cannot distinguish the two."));
    }

    /// A clock is set once; a port is paused many times.
    #[test]
    fn three_silences_without_any_frame_are_a_problem() {
        let times: Vec<(u64, u64)> = (1..4).map(|at| (1_000 * at, 1_000 * at + 300)).collect();
        let one = |silences: usize| timeouts(&sample(&times[..silences], &times[..silences])).remove(0);
        assert!(!one(1).is_problem() && !one(2).is_problem());
        let three = one(3);
        assert!(three.is_problem() && three.title.starts_with("Clock set, or all"), "{}", three.title);
        assert!(three.steps[1].text.contains("PFC pauses"), "{:?}", three.steps);
    }

    #[test]
    fn a_link_with_silences_of_both_kinds_names_the_clock_as_a_cause_of_some() {
        let sample = sample(&[(1_000, 1_300), (2_000, 2_200)], &[(2_000, 2_200)]);
        let one = timeouts(&sample).remove(0);
        assert!(one.title.starts_with("No RoCE packet passed for 300 ms"), "{}", one.title);
        assert!(one.caveats[0].starts_with("Other frames passed in 1 of 2 silences"), "{:?}", one.caveats);
        assert!(one.steps[0].text.contains("clock"), "{:?}", one.steps);
    }

    #[test]
    fn each_link_has_a_finding_of_its_own() {
        let mut sample = sample(&[(1_000, 1_300)], &[]);
        sample.links = vec![link("rail0", None), link("rail1", None)];
        let second = sample.flows.iter_mut().find(|flow| flow.slot == 7).unwrap();
        second.key.link = 1;
        let first = sample.metrics.loss.as_mut().unwrap().intervals.flows.get_mut(&0).unwrap();
        *first = first.clone().with(Signal::HeldUp, vec![silence((1_000, 1_300))]);
        let found = timeouts(&sample);
        let titles: Vec<&str> = found.iter().map(|one| one.title.as_str()).collect();
        let expected = ["rail0", "rail1"].map(|link| format!("No RoCE packet passed for 300 ms, {link}"));
        for start in &expected {
            assert!(titles.iter().any(|title| title.starts_with(start)), "{titles:?}");
        }
        assert_eq!(titles.len(), 2);
        assert!(found.iter().all(|one| one.evidence["queue_pairs"] == 1), "{found:?}");
    }

    #[test]
    fn silences_below_both_thresholds_are_no_finding() {
        let sample = sample(&[(1_000, 1_300)], &[]);
        let found = |timeouts, timeout_wait_ms| {
            let mut limits = Limits::default();
            (limits.retry.timeouts, limits.retry.timeout_wait_ms) = (timeouts, timeout_wait_ms);
            let facts = Facts::of(&sample, &Options::default());
            let found = check(&Input { sample: &sample, facts: &facts, limits: &limits });
            found.iter().filter(|one| one.id == "retry.timeouts").count()
        };
        assert_eq!([found(3, 300), found(1, 10_000), found(3, 301), found(3, 10_000)], [1, 1, 0, 0]);
    }
}
