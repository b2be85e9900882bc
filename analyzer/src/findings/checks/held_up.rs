//! Silences of everything at a tap: its clock was set, or all of the traffic was held up, which look the same.

use super::ends;
use crate::analysis::{Facts, Flow};
use crate::findings::title::{pair, short, title};
use crate::findings::{ByHand, Commands, Entry, Episode, Input, Place, Raise, Severity};
use crate::metrics::loss::in_message::is_but_for;
use crate::metrics::loss::signal_intervals::Signal;
use crate::util::map::Map;
use crate::util::units;

/// Times in which nothing passed a link while messages stood on it, and that no timer can have ended, by link.
pub(super) struct HeldUp<'a>(Map<&'a str, Vec<(u64, u64)>>);

impl<'a> HeldUp<'a> {
    pub(super) fn of(facts: &'a Facts) -> Self {
        let mut links: Map<&str, Vec<(u64, u64)>> = Map::default();
        for flow in &facts.flows {
            for one in flow.intervals.of(Signal::HeldUp) {
                let own = links.entry(&flow.link).or_default();
                if !own.contains(&(one.first_ns, one.last_ns)) {
                    own.push((one.first_ns, one.last_ns));
                }
            }
        }
        links.values_mut().for_each(|own| own.sort_unstable());
        Self(links)
    }

    /// Those of a link, in order.
    fn on(&self, link: &str) -> &[(u64, u64)] {
        self.0.get(link).map_or(&[], Vec::as_slice)
    }

    /// True if the flow has no other silence in mid-message.
    pub(super) fn explains(&self, flow: &Flow) -> bool {
        let held_up = self.on(&flow.link);
        let stalls: u64 = flow.intervals.of(Signal::Stall).iter().map(|one| one.count).sum();
        let is_one = |silence: (u64, u64)| held_up.iter().any(|all| is_but_for(silence, *all));
        let silences = flow.intervals.of(Signal::Silence).iter();
        silences.filter(|one| is_one((one.first_ns, one.last_ns))).count() as u64 >= stalls
    }

    /// The finding about flows that were held up with everything else on their link.
    pub(super) fn raise(&self, entry: &Entry, input: &Input<'_>, flows: &[&Flow]) -> Option<Raise> {
        let first = flows.first()?;
        let silences = self.on(&first.link);
        let own: Vec<&Flow> = flows.iter().copied().filter(|flow| flow.link == first.link).collect();
        let length = |(from_ns, to_ns): &(u64, u64)| to_ns.saturating_sub(*from_ns);
        let longest = silences.iter().map(length).max()?;
        let (requester, responder) = ends::of_data(input, own.iter().copied());
        let diagnosis = format!("Clock set, or all traffic held up for {}", units::duration(longest));
        let parts = [format!(", {}", short(&first.link)), pair(first.src, first.dst)];
        let episode = |&(first_ns, last_ns): &(u64, u64)| Episode { first_ns, last_ns, peak: None };
        let here = Commands::on(input, &first.link);
        let raise = Raise::new(entry, Severity::Warning, title(diagnosis, parts))
            .timeouts(Some(0))
            .evidence("stalls", silences.len())
            .evidence("shortest_ns", silences.iter().map(length).min())
            .evidence("longest_ns", longest)
            .evidence("queue_pairs", own.len())
            .flows(own)
            .place(Place::of(input, first))
            .ends(requester, responder)
            .episodes(silences.iter().map(episode).collect())
            .caveat("One tap cannot distinguish the two. No transport timer expired: senders went on without going back to what was not acknowledged.")
            .step(
                "Check whether the clock of the capturing host was set at that time (chronyc, journalctl).",
                ByHand::Varies,
            )
            .step("If it was not, look for PFC pauses of the port at that time.", here.nic_counters());
        Some(raise)
    }
}
