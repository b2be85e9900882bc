//! Packets captured twice, by mirrors or network duplication, and captures that miss packets.

mod incomplete;

use crate::analysis::{ByLink, Flow, Link};
use crate::findings::period::{Period, all_of, episodes, periods, run};
use crate::findings::title::{short, title};
use crate::findings::{
    ByHand, Commands, Entry, Episode, Family, Finding, Hop, Input, Measure, Place, Problem, Raise,
    RequiredData, Severity, Unit, label,
};
use crate::metrics::duplicates::{DUPLICATE_WITHIN_NS, LATE_DUPLICATE_NS, OnLink};
use crate::metrics::loss::signal_intervals::Signal;
use crate::util::numbers::share;
use crate::util::units::{self, plural};
pub(in crate::findings) use incomplete::INCOMPLETE;

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[DUPLICATES, INCOMPLETE],
    limits: &[Limits::META],
    evidence: &[
        label("copies", "duplicate packets", Unit::Count).summed(),
        label("copies_ratio", "share of the packets meanwhile", Unit::Ratio),
        label("delay_mean_ns", "mean delay of the duplicate", Unit::Nanoseconds),
        label("delay_max_ns", "longest delay of the duplicate", Unit::Nanoseconds),
        label("missing", "packets that passed unseen", Unit::Count).summed(),
        label("missing_ratio", "their share of all packets", Unit::Ratio),
        label("packets", "packets seen", Unit::Count).summed(),
        label("marked_between", "packets CE-marked between original and duplicate", Unit::Count).summed(),
    ],
    check,
};

const DUPLICATES: Entry = Entry {
    id: "capture.duplicates",
    rank: 15,
    needs: &[RequiredData::Loss, RequiredData::Sequences],
    measure: Some(Measure::ratio("copies_ratio")),
    title: "Packets are captured twice",
    meaning: "The capture has duplicate packets: a mirror of both directions of a port<eth> or VLAN</eth>, or files of several interfaces merged into one. Conclusions, ratios and rates count each packet once; \
              packets, bytes and opcodes of the report are those of the capture. Or the network itself duplicates packets: receivers drop and acknowledge the second one.",
    computed: "Per pair of hosts on a link. Duplicates of the capture: {NEARLY_ALL} of 10 packets, in both directions where both are captured, pass twice within {DUPLICATE_WITHIN_NS} ({LATE_DUPLICATE_NS} where senders \
               count IPv4 identifications up) with the same PSN, opcode, identification, source port and AETH (TTL and ECN may differ), with new packets and no NAK between the two.\n\
               \n\
               Duplicates by the network: single packets pass twice without a NAK or a timeout, and not as part of a go-back-N (flows[].loss.mirrored), while their responses pass once; \
               not in flows with as many packets that are or may be reordered (flows[].loss.recovered, lost_or_reordered), where originals pass after their retransmissions.\n\
               \n\
               Info from `capture.packets` of them and their share `capture.ratio` of the packets of the link from the first of them to the last (over {LEAST_NS} at least). From a mean delay \
               of `capture.taps_ns` on, two taps are more likely than a mirror, which duplicates a packet almost at once.\n\
               \n\
               Live, single packets that pass twice are counted like this, too, without distinction between mirror and network: no identification is read, and no packet is kept.",
    advice: "Mirror one direction only (`rx`, or the ingress of each port once), or give the files of several interfaces to `rocescope replay` as files of their own, which compares the taps instead. If the network \
             duplicates packets, look for a loop, flooding of unknown unicast, multicast or packet replication rules, and firmware notes of the switch.",
    caveat: "Live, packets are counted as they arrive: rates, bytes and ratios include both. Duplicates further apart than that count as retransmissions. Without identifications, duplicates that follow a whole burst are recognised after {ADVANCED} bursts.",
    ..Entry::of(Problem::Duplicates)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "capture";
    packets: u64 = 32,
        "minimum duplicated packets",
        "A few packets twice are a retransmission whose cause was not captured";
    ratio: f64 = 0.001,
        "minimum share of the packets of a link meanwhile",
        "Fewer change no figure that is shown";
    taps_ns: u64 = 1_000_000,
        "minimum mean delay of duplicates, in nanoseconds, that suggests two taps",
        "A mirror duplicates within microseconds; between two taps there is the delay of the path";
    missing: u64 = 100,
        "minimum PSNs that never passed and were never retransmitted",
        "Packets in flight when a queue pair died look the same, and are a window at most";
    missing_ratio: f64 = 0.01,
        "minimum share of packets that the capture misses",
        "Less changes no ratio that is shown; loss has figures of its own from one in ten thousand on";
    missing_warning: f64 = 0.1,
        "minimum share of packets that the capture misses, for a warning",
        "With a tenth unseen most episodes of loss have a packet that decides them among the missing";
    own_ratio: f64 = 0.1,
        "minimum share of packets that no other tap on the path shows, for a tap to raise a finding of its own",
        "Taps on one path differ by what either of them missed, which is less than a tenth";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let by_link = ByLink::of(input.facts);
    for (at, link) in input.facts.links.iter().enumerate() {
        let flows = by_link.on(link).to_vec();
        let Some(duplicates) = &input.sample.metrics.duplicates else {
            one_by_one(input, link, flows, DuplicatedBy::Either, found);
            continue;
        };
        let of_capture = duplicates.link(at);
        let duplicates = of_capture.duplicates.packets;
        let period = Period::between(of_capture.first_ns, of_capture.last_ns);
        // Retired flows are in the figures of the link alone.
        let packets = period
            .all_packets(input.facts, flows.iter().copied())
            .clamp(duplicates, link.packets.max(duplicates));
        if is_many(input, duplicates, packets) {
            by_capture(input, (link, packets), &of_capture, flows, found);
        } else {
            one_by_one(input, link, flows, DuplicatedBy::Network, found);
        }
    }
    incomplete::check(input, &by_link, found);
}

fn is_many(input: &Input<'_>, duplicates: u64, packets: u64) -> bool {
    let limits = &input.limits.capture;
    duplicates >= limits.packets.max(1) && duplicates as f64 >= limits.ratio * packets as f64
}

fn by_capture(
    input: &Input<'_>,
    (link, packets): (&Link, u64),
    found_on: &OnLink,
    mut flows: Vec<&Flow>,
    found: &mut Vec<Finding>,
) {
    let duplicates = found_on.duplicates.packets;
    flows.retain(|flow| flow.duplicates().packets > 0);
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.duplicates().packets));
    let ratio = share(duplicates, packets);
    let diagnosis = format!(
        "Duplicate packets in the capture: {} of {}",
        units::count(duplicates),
        plural(packets, "packet")
    );
    let parts = [format!(", on {}", short(&link.name))];
    let delay_ns = found_on.delay_sum_ns / duplicates.max(1);
    let mut raise = Raise::new(&DUPLICATES, Severity::Info, title(diagnosis, parts))
        .evidence("copies", duplicates)
        .evidence("copies_ratio", ratio)
        .evidence("delay_mean_ns", delay_ns)
        .evidence("delay_max_ns", found_on.delay_max_ns)
        .evidence("marked_between", found_on.marked)
        .flows(flows)
        .episodes(vec![Episode { first_ns: found_on.first_ns, last_ns: found_on.last_ns, peak: Some(ratio) }])
        .place(Place::link(input, &link.name, link.direction));
    let separate = "If this file is of two taps merged, give the two files separately: rocescope then measures loss and delay between them.";
    let mirror = "If it is of one mirror port, mirror one direction of each port only.";
    let steps =
        if delay_ns >= input.limits.capture.taps_ns { [separate, mirror] } else { [mirror, separate] };
    for step in steps {
        raise = raise.step(step, ByHand::Varies);
    }
    // If some duplicates arrive near the end of the detection window, others arrive after it.
    let late = |window_ns: u64| (window_ns / 5 * 4..=window_ns).contains(&found_on.delay_max_ns);
    if late(DUPLICATE_WITHIN_NS) || late(LATE_DUPLICATE_NS) {
        raise = raise.caveat(format!(
            "Duplicates here follow up to {} later: those that follow after more are not recognised, and count as packets and retransmissions.",
            units::duration(found_on.delay_max_ns)
        ));
    }
    raise.into(found);
}

/// Origin of the duplicates of single packets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DuplicatedBy {
    Network,
    /// The network or a mirror: live, identifications are not known.
    Either,
}

fn one_by_one(
    input: &Input<'_>,
    link: &Link,
    mut flows: Vec<&Flow>,
    by: DuplicatedBy,
    found: &mut Vec<Finding>,
) {
    let all = flows.clone();
    flows.retain(|flow| mirrored(flow) > reordered(flow));
    let duplicates: u64 = flows.iter().copied().map(mirrored).sum();
    let times = periods(flows.iter().copied(), &[Signal::Duplicate]);
    let period = all_of(&times, run(flows.iter().copied()));
    let packets = period.all_packets(input.facts, all).clamp(duplicates, link.packets.max(duplicates));
    if !is_many(input, duplicates, packets) {
        return;
    }
    flows.sort_by_key(|flow| std::cmp::Reverse(mirrored(flow)));
    let ratio = share(duplicates, packets);
    let from = if by == DuplicatedBy::Network { " from the network" } else { "" };
    let diagnosis =
        format!("Duplicate packets{from}: {} of {}", units::count(duplicates), plural(packets, "packet"));
    let parts = [format!(" ({})", units::ratio(Some(ratio))), format!(", upstream of {}", short(&link.name))];
    let here = Commands::on(input, &link.name);
    let mut raise = Raise::new(&DUPLICATES, Severity::Info, title(diagnosis, parts))
        .evidence("copies", duplicates)
        .evidence("copies_ratio", ratio)
        .episodes(episodes(&times))
        .flows(flows)
        .place(Place::link(input, &link.name, link.direction).hop(Hop::Upstream));
    if by == DuplicatedBy::Either {
        raise = raise
            .step("If a mirror feeds this port, mirror one direction of each port only.", ByHand::Switch);
    }
    raise
        .step("Capture closer to the sender to find the device that duplicates packets.", ByHand::Elsewhere)
        .step(
            "Look for a loop, flooding of unknown unicast and replication rules on the switches.",
            ByHand::Switch,
        )
        .step("Count duplicate requests on the receiving NIC (duplicate_request).", here.rdma_counters())
        .caveat(match by {
            DuplicatedBy::Network => "A mirror that shows a part of the traffic twice looks the same.",
            DuplicatedBy::Either => "A mirror of both directions, and a network that duplicates packets, look the same here. Packets, bytes, rates and ratios of this run count both.",
        })
        .into(found);
}

/// Packets seen twice although neither the sender nor the capture repeated them.
fn mirrored(flow: &Flow) -> u64 {
    let all = flow.losses_sum(|loss| loss.mirrored.or_zero());
    all.saturating_sub(flow.duplicates().requests + flow.duplicates().responses)
}

/// Packets out of order, or that may be: an original that comes late looks like a duplicate of its retransmission.
fn reordered(flow: &Flow) -> u64 {
    flow.losses_sum(|loss| loss.recovered + loss.lost_or_reordered.or_zero())
}

#[cfg(test)]
mod tests {
    use crate::util::map::Map;

    use crate::analysis::fixtures::{START, key, link, sample, stats};
    use crate::analysis::{Facts, Options};
    use crate::findings::{Finding, tests::found};
    use crate::metrics::duplicates::{DuplicateCounts, Duplicates, OnLink};
    use crate::metrics::loss::{FlowLoss, Loss, Metrics};
    use crate::sample::Sample;

    /// Two flows of `packets`, with `duplicates` duplicates from the capture and `by_network` from the network.
    fn seen(packets: u64, duplicates: u64, by_network: u64) -> Sample {
        let flow = |packets| stats(50_000, packets, 1_000 * packets);
        let flows = vec![
            (key(0, "10.0.0.1", "10.0.0.2", 17), flow(packets)),
            (key(0, "10.0.0.2", "10.0.0.1", 18), flow(packets)),
        ];
        let mut sample = sample(vec![link("mirror.pcap", None)], flows);
        let taken = DuplicateCounts {
            packets: duplicates,
            bytes: 1_000 * duplicates,
            ecn_data: [0, 0, duplicates, 0],
            requests: duplicates,
            ..DuplicateCounts::default()
        };
        let on = OnLink {
            duplicates: taken,
            delay_sum_ns: 3_500 * duplicates,
            delay_max_ns: 9_000,
            first_ns: START,
            last_ns: START + 5,
            marked: 0,
        };
        let flows = if duplicates > 0 { Map::from_iter([(0, taken)]) } else { Map::default() };
        sample.metrics.duplicates = Some(Duplicates { flows, links: vec![on], unfollowed: 0 });
        let requests = Some(Metrics { mirrored: duplicates + by_network, ..Metrics::default() });
        let mut loss = Loss::default();
        loss.flows.insert(0, FlowLoss { requests, ..FlowLoss::default() });
        sample.metrics.loss = Some(loss);
        sample
    }

    fn found_in(sample: &Sample) -> Option<Finding> {
        found(sample, &Options::default()).into_iter().find(|finding| finding.id == "capture.duplicates")
    }

    #[test]
    fn a_capture_that_doubles_is_named_and_each_packet_counts_once() {
        let sample = seen(1_000, 490, 0);
        let found = found_in(&sample).unwrap();
        assert_eq!(found.title, "Duplicate packets in the capture: 490 of 2,000 packets, on mirror");
        assert_eq!(found.evidence.get("delay_mean_ns").unwrap().value, 3_500);
        let facts = Facts::of(&sample, &Options::default());
        assert_eq!(
            (facts.flows[0].packets, facts.flows[0].ecn.get().unwrap().ect0),
            (1_000, 1_000),
            "as captured"
        );
        assert_eq!((facts.flows[0].ecn_data().ect0, facts.flows[0].followed_packets()), (510, 510));
        // One direction is duplicated, the other is not: 510 KB and 1,000 KB.
        let share = facts.entropy.tuples.top_share.unwrap();
        assert!((share - 1_000.0 / 1_510.0).abs() < 1e-9, "{share}");
    }

    #[test]
    fn a_network_that_doubles_is_named_so() {
        let found = found_in(&seen(1_000, 0, 60)).unwrap();
        assert!(
            found.title.starts_with("Duplicate packets from the network: 60 of 2,000"),
            "{}",
            found.title
        );
    }

    /// Live, duplicates of a mirror and duplicates of the network look the same.
    #[test]
    fn duplicates_in_a_live_run_are_named_without_their_cause() {
        let live = |duplicates| {
            let mut sample = seen(1_000, 0, duplicates);
            sample.metrics.duplicates = None;
            sample
        };
        let found = found_in(&live(490)).unwrap();
        assert!(found.title.starts_with("Duplicate packets: 490 of 2,000 packets"), "{}", found.title);
        assert!(found.caveats.iter().any(|caveat| caveat.contains("count both")), "{:?}", found.caveats);
        assert_eq!(found_in(&live(31)), None);
    }

    #[test]
    fn late_originals_of_retransmissions_are_no_duplicates() {
        for (late, raised) in [(59, true), (60, false)] {
            let mut sample = seen(1_000, 0, 60);
            let requests = Metrics { mirrored: 60, recovered: late, ..Metrics::default() };
            let loss = sample.metrics.loss.as_mut().unwrap();
            loss.flows.insert(0, FlowLoss { requests: Some(requests), ..FlowLoss::default() });
            assert_eq!(found_in(&sample).is_some(), raised, "{late}");
        }
    }

    #[test]
    fn a_few_packets_twice_are_no_finding() {
        for (packets, duplicates, by_network) in
            [(1_000, 0, 0), (1_000, 31, 0), (1_000, 0, 31), (100_000, 199, 0), (100_000, 0, 199)]
        {
            assert_eq!(found_in(&seen(packets, duplicates, by_network)), None, "{packets} {duplicates}");
        }
    }
}
