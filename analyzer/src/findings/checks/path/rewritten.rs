//! Header fields and contents that differ between two taps in the same packets.

use rocescope_common::wire::frame::CE;
use std::collections::{BTreeMap, BTreeSet};

use super::REWRITTEN;
use crate::analysis::{Facts, Field, FieldChange, Flow, TapFlow};
use crate::findings::checks::ends;
use crate::findings::command::ByHand;
use crate::findings::dedup::Name;
use crate::findings::ids;
use crate::findings::title::{more, pair, short, title};
use crate::findings::{Commands, Episode, Finding, Hop, Impact, Input, Place, Raise, Severity};
use crate::sample::Address;
use crate::util::numbers::share;
use crate::util::units::{self, plural};

/// Findings about the DSCP that a rewritten DSCP explains.
const ABOUT_DSCP: &[&str] = &[ids::QOS_DSCP_UNSET, ids::QOS_DSCP_MIXED];
/// Findings about a wrong ICRC that damage between the taps explains.
const ABOUT_ICRC: &[&str] = &[ids::ICRC_ERRORS];
const ABOUT_BOTH: &[&str] = &[ids::QOS_DSCP_UNSET, ids::QOS_DSCP_MIXED, ids::ICRC_ERRORS];
/// Maximum number of changes listed in the evidence.
const MAX_LISTED: usize = 8;

/// Changes between two taps, over all flows.
#[derive(Default)]
struct Section {
    /// By field, old value and new value.
    changes: BTreeMap<(Field, u32, u32), FieldChange>,
    compared: u64,
    hops: Option<[u8; 2]>,
    flows: BTreeSet<Name>,
    ordered: bool,
}

impl Section {
    fn add(&mut self, tap: &TapFlow) {
        self.compared += tap.packets_matched - tap.changed_not_compared.min(tap.packets_matched);
        self.hops = match (self.hops, tap.router_hops) {
            (Some([least, most]), Some([low, high])) => Some([least.min(low), most.max(high)]),
            (known, new) => known.or(new),
        };
        for change in &tap.changed {
            // Payload sizes vary; one example is enough.
            let key = match change.field {
                Field::Payload => (change.field, 0, 0),
                field => (field, change.from, change.to),
            };
            let sum = self.changes.entry(key).or_insert(FieldChange { packets: 0, of: 0, ..*change });
            sum.packets += change.packets;
            sum.of += change.of;
            sum.first_ns = sum.first_ns.min(change.first_ns);
            sum.last_ns = sum.last_ns.max(change.last_ns);
            self.flows.insert(tap.name());
        }
    }

    /// Changes made by a hop, most packets first.
    fn real(&self, input: &Input<'_>) -> Vec<FieldChange> {
        let limits = &input.limits.path;
        let cleared = |change: &FieldChange| {
            change.field == Field::Ecn && change.from == u32::from(CE) && change.to != 0
        };
        let enough = |change: &&FieldChange| {
            let least = if change.field == Field::Icrc { input.limits.icrc.packets } else { limits.packets };
            change.packets >= least.max(1)
                && (!cleared(change) || change.packets as f64 >= limits.cleared * change.of as f64)
        };
        let mut real: Vec<FieldChange> = self.changes.values().filter(enough).copied().collect();
        real.sort_by_key(|change| (std::cmp::Reverse(change.packets), change.field));
        real
    }
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let mut sections: BTreeMap<(&str, &str), Section> = BTreeMap::new();
    for (from, to, tap) in input.facts.sections() {
        let section = sections.entry((from, to)).or_default();
        section.ordered = true;
        section.add(tap);
    }
    for tap in input.facts.taps.iter().filter(|tap| tap.from.is_none()) {
        sections.entry((&tap.links[0], &tap.links[1])).or_default().add(tap);
    }
    for ((from, to), section) in sections {
        let real = section.real(input);
        if let Some((first, others)) = real.split_first() {
            raise(input, (from, to), &section, first, others, found);
        }
    }
}

fn raise(
    input: &Input<'_>,
    (from, to): (&str, &str),
    section: &Section,
    first: &FieldChange,
    others: &[FieldChange],
    found: &mut Vec<Finding>,
) {
    let all = || std::iter::once(first).chain(others);
    let trimmed = all().find(|change| change.field == Field::Payload).map_or(0, |change| change.packets);
    // A switch that trims packets changes their DSCP, too.
    let trims = all().all(|change| change.packets <= trimmed);
    let severity = if trims { Severity::Info } else { Severity::Warning };
    let main = all().find(|change| trims == (change.field == Field::Payload)).unwrap_or(first);
    let flows = flows(input.facts, to, &section.flows);
    let diagnosis = format!(
        "{} between {} and {}: {}",
        headline(main),
        short(from),
        short(to),
        plural(main.packets, "packet")
    );
    let hosts: BTreeSet<(Address, Address)> =
        section.flows.iter().map(|(src, dst, _)| (*src, *dst)).collect();
    let Some((src, dst)) = hosts.first() else { return };
    let parts =
        [pair(src, dst), more(hosts.len() as u64 - 1, "host pair"), more(others.len() as u64, "change")];
    let listed: Vec<String> = all().take(MAX_LISTED).map(in_words).collect();
    let (requester, responder) = ends::of_data(input, flows.iter().copied());
    let place = flows.first().map(|flow| Place::of(input, flow)).unwrap_or_default();
    let hop = Hop::Between { from: from.to_owned(), to: to.to_owned(), ordered: section.ordered };
    let first_ns = all().map(|change| change.first_ns).min();
    let last_ns = all().map(|change| change.last_ns).max();
    let ratio = share(main.packets, main.of);
    let episode = |(first_ns, last_ns)| Episode { first_ns, last_ns, peak: Some(ratio) };
    let of_dscp = all().any(|change| change.field == Field::Dscp);
    let damages = all().any(is_damage);
    // Packets that are already wrong there were damaged upstream of both taps.
    let first_is_clean = section.ordered && !is_damaged_at(input.facts, from);
    let mut raise = Raise::new(&REWRITTEN, severity, title(diagnosis, parts))
        .evidence("changed", listed)
        .evidence("changed_ratio", ratio)
        .evidence("packets", main.packets)
        .evidence("compared", section.compared)
        .evidence("router_hops", section.hops.map(range))
        .host_pairs(hosts.len())
        .flows(flows.iter().copied())
        .place(place.hop(hop))
        .ends(requester, responder)
        .impact(Impact { packets_ratio: Some(ratio.min(1.0)), ..Impact::default() })
        .owns(about(of_dscp, damages && first_is_clean))
        .no_cause_of(about(!of_dscp, !damages))
        .episodes(first_ns.zip(last_ns).map(episode).into_iter().collect());
    if !section.ordered {
        raise = raise.caveat(format!("The order of the taps is not known: {to} may be nearer the sender."));
    }
    steps(input, raise, (from, to), main).into(found);
}

/// Findings to own: those about the DSCP, the ICRC, or both.
const fn about(dscp: bool, icrc: bool) -> &'static [&'static str] {
    match (dscp, icrc) {
        (true, true) => ABOUT_BOTH,
        (true, false) => ABOUT_DSCP,
        (false, true) => ABOUT_ICRC,
        (false, false) => &[],
    }
}

/// True if packets have a wrong ICRC that was right at the other tap.
fn is_damage(change: &FieldChange) -> bool {
    change.field == Field::Icrc && change.from != change.to
}

/// True if packets with a wrong ICRC pass a link.
fn is_damaged_at(facts: &Facts, link: &str) -> bool {
    let mut named = facts.links.iter().filter(|one| one.name == link);
    named.any(|link| link.icrc.is_some_and(|icrc| icrc.bad > 0))
}

/// Steps for a field.
fn steps(input: &Input<'_>, raise: Raise, (from, to): (&str, &str), main: &FieldChange) -> Raise {
    let here = Commands::on(input, to);
    let (from, to) = (short(from), short(to));
    match main.field {
        Field::Dscp | Field::Priority => {
            let class = if main.field == Field::Dscp { "DSCP" } else { "Priority" };
            let mut raise = raise
                .step(format!("Check trust mode and remarking policies of each port between {from} and {to} (trust dscp)."), ByHand::Switch)
                .step(format!("Check that {class} {} is lossless (PFC) and ECN-enabled at every hop downstream of {to}.", main.to), here.qos());
            if main.to == 0 {
                raise = raise.caveat(format!("{class} 0 is the default class of most switches: neither lossless nor ECN-enabled."));
            }
            raise
        }
        Field::Ecn => raise
            .step(format!("Find the hop between {from} and {to} that rewrites the ToS byte or decapsulates without copying ECN (RFC 6040)."), ByHand::Switch)
            .step("Check that ECN is enabled for RoCE's class at the hops downstream of that hop, and that both ends see CNPs.", here.ecn()),
        Field::Icrc if is_damage(main) => raise
            .step(format!("Check memory error, parity and FCS counters of each device between {from} and {to}, and replace the faulty one."), here.nic_counters())
            .step("Count rx_icrc_encapsulated on the receiving NIC (mlx5): it drops these packets.", here.rdma_counters()),
        Field::Icrc => raise
            .step(format!("Find the device between {from} and {to} that terminates or rewrites RoCE: gateway, accelerator, DPU or virtual switch."), ByHand::Switch)
            .step("Compare one of these packets at both taps byte by byte: the difference shows which function of the device does so.", ByHand::Reading)
            .caveat("A right ICRC makes receivers accept these packets: where no device is meant to change them, the application computes with wrong data."),
        Field::Payload => {
            raise.step(format!("Check packet trimming at the ports between {from} and {to}: it shows where queues overflow."), ByHand::Switch)
        }
    }
}

/// The flows at the second tap.
fn flows<'a>(facts: &'a Facts, link: &str, names: &BTreeSet<Name>) -> Vec<&'a Flow> {
    let mut flows: Vec<&Flow> = facts
        .flows
        .iter()
        .filter(|flow| flow.link == link && names.contains(&(flow.src, flow.dst, flow.dest_qp)))
        .collect();
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.packets));
    flows
}

/// `DSCP 26 rewritten to 0`.
fn headline(change: &FieldChange) -> String {
    let value = |value| named(change.field, value);
    match change.field {
        Field::Payload => {
            format!("Payload trimmed from {} to {} bytes", value(change.from), value(change.to))
        }
        Field::Dscp => format!("DSCP {} rewritten to {}", value(change.from), value(change.to)),
        Field::Priority => {
            format!("802.1p priority {} rewritten to {}", value(change.from), value(change.to))
        }
        Field::Ecn => format!("ECN {} rewritten to {}", value(change.from), value(change.to)),
        Field::Icrc if is_damage(change) => "Corruption".to_owned(),
        Field::Icrc => "Contents rewritten and ICRC recomputed".to_owned(),
    }
}

/// `DSCP 26 → 0: 5,760 of 5,760 packets`.
fn in_words(change: &FieldChange) -> String {
    let field = match change.field {
        Field::Dscp => "DSCP",
        Field::Ecn => "ECN",
        Field::Priority => "802.1p priority",
        Field::Payload => "payload bytes",
        Field::Icrc => "contents; ICRC",
    };
    let value = |value| named(change.field, value);
    let of = plural(change.of, "packet");
    format!("{field} {} → {}: {} of {of}", value(change.from), value(change.to), units::count(change.packets))
}

fn named(field: Field, value: u32) -> String {
    match (field, value) {
        (Field::Ecn, 0) => "Not-ECT".to_owned(),
        (Field::Ecn, 1) => "ECT(1)".to_owned(),
        (Field::Ecn, 2) => "ECT(0)".to_owned(),
        (Field::Ecn, _) => "CE".to_owned(),
        (Field::Payload, bytes) => units::count(bytes.into()),
        (Field::Icrc, 0) => "wrong".to_owned(),
        (Field::Icrc, _) => "right".to_owned(),
        (_, value) => value.to_string(),
    }
}

fn range([least, most]: [u8; 2]) -> String {
    if least == most { least.to_string() } else { format!("{least} to {most}") }
}

#[cfg(test)]
mod tests {
    use rocescope_common::account::FlowKey;

    use super::{ABOUT_BOTH, ABOUT_DSCP, ABOUT_ICRC};
    use crate::analysis::Options;
    use crate::analysis::fixtures::{SECOND, START, key, link, sample, stats};
    use crate::findings::Finding;
    use crate::findings::tests::found;
    use crate::findings::{Hop, Severity};
    use crate::metrics::taps::{Header, HeaderPair, Resized, TapPair};
    use crate::sample::Sample;

    const DATA: Header = Header { tos: 26 << 2 | 2, hops: 64, priority: None, icrc: None };

    fn two_taps(ordered: bool, passed: &[(Header, Header, u64)], trimmed: u64) -> Sample {
        let at = |link: u16| key(link, "10.0.0.1", "10.0.0.2", 17);
        let links = ["h0.pcap", "h1.pcap"].map(|name| link(name, None)).into();
        let mut sample = sample(links, (0..2).map(|link| (at(link), stats(7, 1_000, 1_000_000))).collect());
        let seen = |(from, to, packets): &(Header, Header, u64)| HeaderPair {
            headers: [*from, *to],
            altered: from.icrc.is_some(),
            packets: *packets,
            seen_ns: [(START, START + SECOND); 2],
        };
        let pair = TapPair {
            ordered,
            matched: 1_000,
            passed: passed.iter().map(seen).collect(),
            resized: Resized { packets: trimmed, bytes: [4096, 64], seen_ns: [(START, START); 2] },
            ..TapPair::empty(FlowKey { link: 0, ..at(0) }, [0, 1])
        };
        sample.metrics.taps = Some(vec![pair]);
        sample
    }

    fn rewritten(sample: &Sample) -> Option<Finding> {
        found(sample, &Options::default()).into_iter().find(|finding| finding.id == "path.rewritten")
    }

    #[test]
    fn a_rewritten_field_is_named_with_its_taps() {
        let to = |tos| Header { tos, hops: 62, ..DATA };
        let dscp = rewritten(&two_taps(true, &[(DATA, to(2), 1_000)], 0)).unwrap();
        assert_eq!(
            dscp.title,
            "DSCP 26 rewritten to 0 between h0 and h1: 1,000 packets, 10.0.0.1 → 10.0.0.2"
        );
        assert_eq!(
            (dscp.severity, dscp.place.hop),
            (Severity::Warning, Some(Hop::between("h0.pcap", "h1.pcap")))
        );
        assert_eq!(dscp.evidence["changed"], serde_json::json!(["DSCP 26 → 0: 1,000 of 1,000 packets"]));
        assert_eq!(dscp.evidence["router_hops"], "2");
        assert!(dscp.steps.iter().any(|step| step.text.contains("DSCP 0 is lossless")));
        let ecn = rewritten(&two_taps(true, &[(DATA, to(26 << 2), 1_000)], 0)).unwrap();
        assert!(ecn.title.starts_with("ECN ECT(0) rewritten to Not-ECT between h0 and h1"), "{}", ecn.title);
        let unordered = rewritten(&two_taps(false, &[(DATA, to(2), 1_000)], 0)).unwrap();
        assert_eq!(unordered.place.hop.unwrap().to_string(), "h0.pcap ↔ h1.pcap");
        let tagged = |priority| Header { priority: Some(priority), ..DATA };
        let priority = rewritten(&two_taps(true, &[(tagged(3), tagged(0), 10)], 0)).unwrap();
        assert!(priority.title.starts_with("802.1p priority 3 rewritten to 0"), "{}", priority.title);
        assert!(
            priority.steps.iter().all(|step| !step.text.contains(".pcap")),
            "one name: {:?}",
            priority.steps
        );
        assert_eq!((dscp.owns, priority.owns), (ABOUT_DSCP, &[][..]));
        assert_eq!((dscp.no_cause_of, priority.no_cause_of), (ABOUT_ICRC, ABOUT_BOTH));
    }

    #[test]
    fn marks_routers_and_a_few_confused_packets_are_no_rewriting() {
        let to = |tos, hops| Header { tos, hops, priority: Some(3), icrc: None };
        let marked = (DATA, to(26 << 2 | 3, 63), 400);
        let routed = (DATA, to(26 << 2 | 2, 61), 600);
        assert_eq!(rewritten(&two_taps(true, &[marked, routed], 0)), None);
        assert_eq!(rewritten(&two_taps(true, &[(DATA, to(2, 64), 9)], 0)), None, "too few");
        let ce = Header { tos: 26 << 2 | 3, ..DATA };
        let few = [(ce, ce, 400), (ce, DATA, 30)];
        assert_eq!(rewritten(&two_taps(true, &few, 0)), None, "retransmissions");
        let cleared = [(ce, ce, 20), (ce, DATA, 30)];
        assert!(
            rewritten(&two_taps(true, &cleared, 0)).unwrap().title.starts_with("ECN CE rewritten to ECT(0)")
        );
    }

    #[test]
    fn changed_contents_are_corruption_unless_the_icrc_fits() {
        let [right, wrong] = [true, false].map(|icrc| Header { icrc: Some(icrc), ..DATA });
        let corrupt = rewritten(&two_taps(true, &[(DATA, DATA, 900), (right, wrong, 3)], 0)).unwrap();
        assert_eq!(corrupt.title, "Corruption between h0 and h1: 3 packets, 10.0.0.1 → 10.0.0.2");
        assert_eq!(corrupt.severity, Severity::Warning);
        assert_eq!(
            corrupt.evidence["changed"],
            serde_json::json!(["contents; ICRC right → wrong: 3 of 3 packets"])
        );
        assert_eq!((corrupt.owns, corrupt.no_cause_of), (ABOUT_ICRC, ABOUT_DSCP));
        let computed = rewritten(&two_taps(true, &[(right, right, 3)], 0)).unwrap();
        assert!(
            computed.title.starts_with("Contents rewritten and ICRC recomputed between h0 and h1: 3 packets"),
            "{}",
            computed.title
        );
        assert_eq!((computed.owns, computed.no_cause_of), (&[][..], ABOUT_BOTH));
        assert_eq!(rewritten(&two_taps(true, &[(right, wrong, 2)], 0)), None, "too few");
        assert_eq!(
            rewritten(&two_taps(true, &[(wrong, right, 900)], 0)),
            None,
            "filled in by the sender's NIC"
        );
    }

    #[test]
    fn a_switch_that_trims_is_information() {
        let trimmed = rewritten(&two_taps(true, &[(DATA, Header { tos: 2, ..DATA }, 50)], 50)).unwrap();
        assert_eq!(trimmed.severity, Severity::Info);
        assert!(
            trimmed.title.starts_with("Payload trimmed from 4,096 to 64 bytes between h0 and h1"),
            "{}",
            trimmed.title
        );
    }
}
