//! A finding as labelled lines of text, worded identically on the screen and in the report.

mod flows;

use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use self::flows::flows;
use super::{DataEnd, End, Evidence, Excess, Finding, Hop, Problem, StepDelay, entry, ids};
use crate::analysis::link_name;
use crate::sample::Address;
use crate::util::layout::{plain, tap_name};
use crate::util::numbers;
use crate::util::units::{self, plural};

/// Maximum number of flows named in a line.
pub(super) const FLOWS: usize = 3;
/// Evidence values that are lower bounds if `lower_bound` is true.
const AT_LEAST: [&str; 3] = ["loss_ratio", "worst_ratio", "lost"];
/// Packets that ratios of an episode are of: those of its time, which the run has more of.
const OF_EPISODE: [&str; 2] = ["packets", "ecn_capable_packets"];
/// Label of the steps that wait for a straggler.
const DELAYED: &str = "steps delayed by it";
/// Label of the neighbour of a straggler that is not visible.
const LATE: &str = "data comes late from";
/// Label of links with their bytes.
const BY_LINK: &str = "bytes by link";
/// Separator between items of a line.
const NEXT: &str = " · ";
/// Separator between the two ends.
const TO: &str = " → ";

/// The labels of what is known of a finding, in order.
const FIELDS: [&str; 6] = ["Where", "When", "Who", "Flows", "Impact", "Evidence"];

impl Finding {
    /// Place, time, ends, flows, impact and evidence, each with its label; unknown values have no line.
    pub fn fields(&self, end: DataEnd) -> Vec<(&'static str, String)> {
        FIELDS.iter().filter_map(|label| Some((*label, self.field(label, end)?))).collect()
    }

    /// One of these by its label; `None` if it is unknown.
    pub fn field(&self, label: &str, end: DataEnd) -> Option<String> {
        let text = match label {
            "Where" => place(self),
            "When" => self.when(end),
            "Who" => who(self),
            "Flows" => flows(self),
            "Impact" => impact(self),
            "Evidence" => evidence(self),
            _ => None,
        };
        text.map(|text| plain(&text))
    }

    /// Its requester and responder, with queue pair, process and pod where they are known.
    #[must_use]
    pub fn who(&self) -> Option<String> {
        who(self)
    }

    /// The evidence, each value with its label and unit; the measure of severity comes first.
    pub fn measurements(&self) -> Vec<(String, String)> {
        let measure = entry(self.id).and_then(|entry| entry.measure).map_or("", |measure| measure.name);
        let mut shown: Vec<&Evidence> = self.evidence.iter().filter(|one| says_more(self, one)).collect();
        shown.sort_by_key(|one| one.name != measure);
        let links = self.evidence.get("links").filter(|links| of_list(links) > 1);
        let in_words = |one: &Evidence| match links {
            Some(links) if one.name == "bytes" && of_list(one) == of_list(links) => {
                (BY_LINK.to_owned(), by_link(links, one))
            }
            _ if one.name == "heaviest" => {
                (one.label.clone(), with_shares(one, self.evidence.get("heaviest_ratios")))
            }
            _ if OF_EPISODE.contains(&one.name.as_str()) && self.is_of_episode() => {
                (format!("{} in the episode", one.label), one.text())
            }
            _ if one.name == "steps" && is_straggler(self) => (DELAYED.to_owned(), delayed(self, one)),
            _ if one.name == "waits_for" && is_not_visible(self) => (LATE.to_owned(), one.text()),
            _ if self.subject.is_lower_bound && AT_LEAST.contains(&one.name.as_str()) => {
                (one.label.clone(), format!("at least {}", one.text()))
            }
            _ => (one.label.clone(), one.text()),
        };
        let words = shown.into_iter().map(in_words);
        words.map(|(label, value)| (plain(&label), plain(&value))).collect()
    }
}

fn place(finding: &Finding) -> Option<String> {
    let place = &finding.place;
    let at = place.in_words().or_else(|| place.tap.clone());
    let at = at.map(|link| link_name(&link, place.direction));
    let (hop, at) = match (&place.hop, at) {
        (Some(Hop::Between { from, to, .. }), _) => {
            (Some(format!("between {} and {}", tap_name(from), tap_name(to))), None)
        }
        (Some(hop), Some(at)) => {
            let here =
                hop.side().map(|side| beyond(finding, hop, &at).unwrap_or_else(|| format!("{side} of {at}")));
            (Some(here.unwrap_or_else(|| format!("at the {hop} (seen at {at})"))), None)
        }
        (Some(hop), None) => (Some(hop.to_string()), None),
        (None, None) => (None, links_of_flows(finding)),
        (None, at) => (None, at),
    };
    // A problem of a host is not one of the port at which it was seen.
    let switch = place.switch_port.as_deref().filter(|_| !place.is_host()).map(switch_ports);
    listed([hop, at.map(|at| format!("{at}{}", peers(finding))), switch], NEXT)
}

/// The path between the tap `at` of a capture, whose name alone says not where it is, and the one host on that side:
/// `between 10.0.0.1 and h1`. `None` if there are several.
fn beyond(finding: &Finding, side: &Hop, at: &str) -> Option<String> {
    if finding.place.direction.is_some() {
        return None;
    }
    let far = |(src, dst, _): &(Address, Address, u32)| if *side == Hop::Upstream { *src } else { *dst };
    let hosts: BTreeSet<Address> = finding.named.iter().map(far).collect();
    let host = hosts.first().filter(|_| hosts.len() == 1)?;
    Some(if *side == Hop::Upstream {
        format!("between {host} and {at}")
    } else {
        format!("between {at} and {host}")
    })
}

/// Ports of switches: those of one switch name it once, `switch ports leaf1 swp11, swp12`.
fn switch_ports(ports: &str) -> String {
    let all: Vec<(&str, &str)> = ports.split(", ").filter_map(|port| port.rsplit_once(' ')).collect();
    let count = ports.split(", ").count();
    match all.split_first() {
        Some((first, rest)) if count > 1 && all.len() == count => {
            let same = rest.iter().all(|(switch, _)| switch == &first.0);
            let names = rest
                .iter()
                .map(|(switch, port)| if same { format!(", {port}") } else { format!(", {switch} {port}") });
            format!("switch ports {} {}{}", first.0, first.1, names.collect::<String>())
        }
        _ => format!("switch port {ports}"),
    }
}

/// The links that share the load of the place, of uneven load: `, parallel to rail1`.
fn peers(finding: &Finding) -> String {
    if finding.id != super::checks::balance::LINKS_IMBALANCE.id {
        return String::new();
    }
    let links = finding.subject.compared.iter().flat_map(|one| &one.links).map(String::as_str);
    let peers: Vec<&str> = links.filter(|link| !finding.is_at(link)).collect();
    let named: Vec<String> = peers.iter().take(FLOWS).map(|link| tap_name(link)).collect();
    match (named.is_empty(), peers.len() - named.len()) {
        (true, _) => String::new(),
        (_, 0) => format!(", parallel to {}", named.join(", ")),
        (_, more) => format!(", parallel to {} and {more} more", named.join(", ")),
    }
}

/// The links of the flows of a finding that spans several; `None` for a single link, or for too many.
fn links_of_flows(finding: &Finding) -> Option<String> {
    let mut links: Vec<String> = Vec::new();
    for flow in &finding.flows {
        let link = link_name(&flow.link, flow.direction);
        if !links.contains(&link) {
            links.push(link);
        }
    }
    (2..=FLOWS).contains(&links.len()).then(|| links.join(NEXT))
}

fn who(finding: &Finding) -> Option<String> {
    let ends = [
        (&finding.requester, &finding.responder, "requester"),
        (&finding.responder, &finding.requester, "responder"),
    ];
    let [requester, responder] = ends.map(|(end, other, role)| match (end, other) {
        (Some(end), _) => Some(format!("{role} {}", name_of(end))),
        (None, Some(other)) => several(finding, other, role),
        (None, None) => None,
    });
    listed([requester, responder], TO)
}

/// Number of hosts at the other end, if the flows share one end.
fn several(finding: &Finding, end: &End, role: &str) -> Option<String> {
    let other = |(src, dst, _): &(Address, Address, u32)| if *src == end.addr { *dst } else { *src };
    let hosts: BTreeSet<Address> = finding.named.iter().map(other).collect();
    (hosts.len() > 1).then(|| plural(hosts.len() as u64, role))
}

/// Address, QPN, process and pod.
fn name_of(end: &End) -> String {
    let mut text = end.addr.to_string();
    if let Some(qpn) = end.qpn {
        let _ = write!(text, " QP {qpn}");
    }
    let pid = end.pid.map(|pid| format!("pid {pid}"));
    let pod = end.pod.as_ref().map(|pod| format!("pod {pod}"));
    if let Some(owner) = listed([end.comm.clone(), pid, pod], ", ") {
        let _ = write!(text, " ({owner})");
    }
    text
}

fn impact(finding: &Finding) -> Option<String> {
    let impact = &finding.impact;
    let at_least = if finding.subject.is_lower_bound { "at least " } else { "" };
    // The title has the figure of the worst pair.
    let packets = match finding.subject.host_pairs {
        Some(pairs) if pairs > 1 && finding.subject.has_worst_pair => {
            format!("the packets of {pairs} host pairs")
        }
        _ if finding.is_of_episode() || finding.id == ids::BURST_INCAST => "packets".to_owned(),
        _ => "the flows' packets".to_owned(),
    };
    let base = finding.subject.cost_base;
    let kind = Problem::of(finding);
    // Of a slow receiver and of retransmissions it is the share of these.
    let of_again = matches!(kind, Some(Problem::NotReady | Problem::Retransmission | Problem::Reordering));
    let is_doubtful = finding.subject.is_lost_or_reordered;
    let is_loss = [ids::LOSS_BEFORE_TAP, ids::LOSS_BETWEEN_TAPS].contains(&finding.id) && !is_doubtful;
    let what = match finding.id {
        _ if is_loss => " lost",
        ids::ECN_CONGESTION => " marked",
        ids::ICRC_ERRORS => " with a wrong ICRC",
        _ => "",
    };
    let ratio = impact.packets_ratio.map(|ratio| units::ratio(Some(ratio)));
    let again = impact.retransmissions.filter(|n| *n > 0);
    let (share, again) = match (ratio, again.map(|n| plural(n, "retransmission"))) {
        (Some(ratio), Some(again)) if of_again => {
            (None, Some(format!("{at_least}{ratio} of {packets} retransmitted ({again})")))
        }
        (ratio, words) => {
            let part = again.zip(base).and_then(|(n, base)| part(n, base.packets));
            let words = again.zip(words).map(|(n, words)| match part {
                // What was lost before the tap passes it once: these passed it, and go-back-N retransmitted them.
                Some(part) if finding.id == ids::LOSS_BEFORE_TAP => {
                    format!("{} packets retransmitted that had arrived ({part})", units::count(n))
                }
                Some(part) => format!("{} packets retransmitted ({part})", units::count(n)),
                None => words,
            });
            (ratio.map(|ratio| format!("{at_least}{ratio} of {packets}{what}")), words)
        }
    };
    let goodput = impact.goodput_lost_bytes.filter(|n| *n > 0).map(|n| {
        let sent = base.filter(|base| base.payload_bytes >= n);
        let of =
            sent.map_or_else(String::new, |base| format!(" of {} sent", units::bytes(base.payload_bytes)));
        format!("{} of goodput lost{of}", units::bytes(n))
    });
    let time = impact.time_lost_ns.map(|ns| {
        let words = format!("{} {}", units::duration(ns), time_lost(finding.id));
        match base.and_then(|base| Some((part(ns, base.flows_ns)?, base.flows))) {
            Some((part, flows)) => format!("{words} ({part} of the time of {})", plural(flows, "flow")),
            None => words,
        }
    });
    let refusals = finding.evidence.get("rnr_naks").filter(|_| kind == Some(Problem::NotReady));
    let refusals = refusals.and_then(|one| one.value.as_u64()).map(|n| plural(n, "RNR NAK"));
    let parts = [again, share, goodput, refusals, time, job_delay(finding), refused(finding), moved(finding)];
    listed(parts, NEXT)
}

/// A part in percent; `None` where it is more than the whole, and so not of that.
fn part(n: u64, of: u64) -> Option<String> {
    (n <= of && of > 0).then(|| units::ratio(Some(numbers::share(n, of))))
}

/// What the lost time of a finding is: of one step, host, queue pair or port after another, or of queue pairs that wait
/// at the same time.
fn time_lost(id: &str) -> &'static str {
    let one_at_a_time = ["step.", "job.", "nccl.", "peer.", "qp.died", ids::PFC_STORM];
    if one_at_a_time.iter().any(|start| id.starts_with(start)) {
        "lost"
    } else {
        "wait time, summed over QPs"
    }
}

/// Load that balancing would move from the busiest link to its peers.
fn moved(finding: &Finding) -> Option<String> {
    let Excess { bytes, busiest_ratio, .. } = finding.subject.excess?;
    let busiest = units::ratio(Some(busiest_ratio));
    let flows = finding.subject.of_flows.filter(|all| *all > 0).map_or_else(String::new, |all| {
        format!("{} of {} and ", units::count(finding.flow_count()), plural(all, "data flow"))
    });
    let bytes = units::bytes(bytes);
    Some(format!("{flows}{busiest} of the links' bytes, {bytes} beyond an even share"))
}

/// The effect of a fatal NAK on the queue pairs that it goes to. The number of their outstanding requests is not known.
fn refused(finding: &Finding) -> Option<String> {
    let queue_pairs = finding.subject.flows?;
    let whose = if queue_pairs == 1 { "its" } else { "their" };
    (Problem::of(finding)? == Problem::Refused).then(|| {
        format!("{} in the error state, {whose} outstanding requests fail", plural(queue_pairs, "QP"))
    })
}

/// Effect of the waiting time on the job, if its steps are known.
fn job_delay(finding: &Finding) -> Option<String> {
    let StepDelay { ns, steps } = finding.subject.step_delay?;
    Some(match steps {
        0 => "no job step longer".to_owned(),
        steps => format!("{} longer, by {} at most", plural(steps, "job step"), units::duration(ns)),
    })
}

/// The evidence with units, measure of severity first; flows have a line of their own.
fn evidence(finding: &Finding) -> Option<String> {
    let in_words = |(label, value): (String, String)| Some(format!("{label} {value}"));
    listed(finding.measurements().into_iter().map(in_words), NEXT)
}

fn of_list(evidence: &Evidence) -> usize {
    evidence.value.as_array().map_or(0, Vec::len)
}

/// Links with their bytes, such as `h0 5.98 MB, h1 853 kB`.
fn by_link(links: &Evidence, bytes: &Evidence) -> String {
    let all = links.value.as_array().into_iter().flatten().zip(bytes.value.as_array().into_iter().flatten());
    let one = |(link, bytes): (&Value, &Value)| {
        let bytes = bytes.as_u64().map_or_else(|| units::UNKNOWN.to_owned(), units::bytes);
        format!("{} {bytes}", tap_name(link.as_str().unwrap_or_default()))
    };
    all.map(one).collect::<Vec<_>>().join(", ")
}

fn is_straggler(finding: &Finding) -> bool {
    finding.id == super::checks::step::STRAGGLER.id
}

/// True if only the neighbour of a straggler is known, which may be it or wait for it.
fn is_not_visible(finding: &Finding) -> bool {
    is_straggler(finding) && finding.evidence.get("kind").is_some_and(|kind| kind.value == "upstream")
}

/// Steps that wait for a straggler, of those of that time and of the run: `12 of 15, 30 in the run`.
fn delayed(finding: &Finding, steps: &Evidence) -> String {
    let of = |name: &str, words: &str| {
        let count = finding.evidence.get(name).filter(|one| !one.value.is_null());
        count.map_or_else(String::new, |count| words.replace('N', &count.text()))
    };
    format!("{}{}{}", steps.text(), of("of_steps", " of N"), of("steps_seen", ", N in the run"))
}

/// Each with its share: `10.0.0.1 QP 17 → 10.0.0.2 QP 18 (12.3 %)`.
fn with_shares(names: &Evidence, ratios: Option<&Evidence>) -> String {
    let ratios = ratios.and_then(|one| one.value.as_array()).into_iter().flatten();
    let all = names.value.as_array().into_iter().flatten().zip(ratios);
    let one = |(name, ratio): (&Value, &Value)| {
        format!("{} ({})", name.as_str().unwrap_or_default(), units::ratio(ratio.as_f64()))
    };
    all.map(one).collect::<Vec<_>>().join(", ")
}

/// False for a value that is unknown, has no short text, or repeats another line.
fn says_more(finding: &Finding, evidence: &Evidence) -> bool {
    let is_short = match &evidence.value {
        Value::Null | Value::Object(_) => false,
        Value::Array(list) => !list.is_empty() && !list.iter().any(|one| one.is_object() || one.is_array()),
        _ => true,
    };
    let repeats = match evidence.name.as_str() {
        // Shown on a line of their own, beside the value that they qualify, or in the title.
        "flows" | "lower_bound" | "or_reordering" | "heaviest_ratios" | "excess_bytes" | "excess_ratio"
        | "clock_unknown" => true,
        // The title has `kind`, a caveat has `certain`; the others stand with the steps that it delays.
        "kind" | "certain" | "of_steps" | "steps_seen" => is_straggler(finding),
        // Named together with their bytes.
        "links" => of_list(evidence) == finding.evidence.get("bytes").map_or(0, of_list),
        // The title names the only pair.
        "host_pairs" | "pairs" | "worst_ratio" => finding.subject.host_pairs == Some(1),
        _ => false,
    };
    // A count of none is no evidence, unless it is what the finding is measured by.
    let is_measure =
        entry(finding.id).and_then(|entry| entry.measure).is_some_and(|one| one.name == evidence.name);
    let is_none = evidence.value.as_u64() == Some(0) && !is_measure;
    is_short && !repeats && !is_none
}

/// The known parts, joined; `None` if there is none.
fn listed(parts: impl IntoIterator<Item = Option<String>>, between: &str) -> Option<String> {
    let known: Vec<String> = parts.into_iter().flatten().collect();
    (!known.is_empty()).then(|| known.join(between))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::START;
    use crate::findings::{Impact, Place, Severity};
    use crate::sample::Direction;

    use crate::util::time::NS_PER_S as SECOND;

    fn finding() -> Finding {
        Finding::new("loss.before_tap", Severity::Critical, "Loss upstream of rail0".into())
    }

    #[test]
    fn only_times_of_queue_pairs_that_wait_together_are_sums() {
        let of = |id| {
            let mut one = Finding::new(id, Severity::Warning, String::new());
            one.impact.time_lost_ns = Some(SECOND);
            impact(&one).unwrap()
        };
        assert_eq!(of("step.straggler"), "1.00 s lost");
        assert_eq!(of("pfc.storm"), "1.00 s lost");
        for id in ["loss.before_tap", "retry.timeouts", "pfc.victim"] {
            assert_eq!(of(id), "1.00 s wait time, summed over QPs", "{id}");
        }
    }

    #[test]
    fn what_is_unknown_has_no_line() {
        assert!(finding().fields(DataEnd::default()).is_empty());
    }

    #[test]
    fn a_place_is_named_once() {
        let mut one = finding();
        let at = |link: &str, hop: Option<Hop>| Place {
            tap: link.split(':').next().map(str::to_owned),
            link: Some(link.to_owned()),
            hop,
            ..Place::default()
        };
        for (link, hop, text) in [
            ("h1.pcap", Some(Hop::between("h0.pcap", "h1.pcap")), "between h0 and h1"),
            ("h1.pcap.gz", Some(Hop::Downstream), "downstream of h1"),
            ("h1.pcapng:eth0", None, "h1:eth0"),
        ] {
            one.place = at(link, hop);
            assert_eq!(place(&one).as_deref(), Some(text));
        }
        one.place = Place {
            direction: Some(Direction::Ingress),
            switch_port: Some("leaf1 Eth1/3".into()),
            ..at("rail0", Some(Hop::Upstream))
        };
        assert_eq!(place(&one).as_deref(), Some("upstream of rail0 ingress · switch port leaf1 Eth1/3"));
    }

    /// The name of a file says not where its tap is.
    #[test]
    fn the_place_of_a_capture_names_the_host_beyond_its_tap() {
        let mut one = finding();
        let name = |src: u8| (Address::from([10, 0, 0, src]), Address::from([10, 0, 0, 9]), 17);
        one.named = [name(1)].into_iter().collect();
        let mut at = |direction, hop| {
            one.place = Place { link: Some("h1.pcap".into()), direction, hop: Some(hop), ..Place::default() };
            place(&one).unwrap()
        };
        assert_eq!(at(None, Hop::Upstream), "between 10.0.0.1 and h1");
        assert_eq!(at(None, Hop::Downstream), "between h1 and 10.0.0.9");
        assert_eq!(at(Some(Direction::Ingress), Hop::Upstream), "upstream of h1 ingress");
        one.named = [name(1), name(2)].into_iter().collect();
        assert_eq!(place(&one).as_deref(), Some("upstream of h1 ingress"));
        one.place.direction = None;
        assert_eq!(place(&one).as_deref(), Some("upstream of h1"));
    }

    #[test]
    fn evidence_has_units_and_no_json_and_its_measure_is_first() {
        let mut one = finding();
        for (name, value) in [
            ("lost", serde_json::json!(6671)),
            ("hosts", serde_json::json!([{ "addr": "10.0.0.1" }])),
            ("flows", serde_json::json!(3)),
            ("flows_unjudged", serde_json::json!(0)),
            ("bytes", serde_json::json!([1_000, 2_000])),
            ("loss_ratio", serde_json::json!(0.007)),
            ("qpn", Value::Null),
        ] {
            one.evidence.insert(Evidence::declared(one.id, name, value));
        }
        assert_eq!(
            evidence(&one).as_deref(),
            Some("loss ratio 0.70 % · packets lost 6,671 · bytes 1.00 kB, 2.00 kB")
        );
    }

    #[test]
    fn packets_that_a_ratio_is_of_say_when() {
        let mut one = Finding::new("ecn.congestion", Severity::Warning, String::new());
        one.evidence.insert(Evidence::declared(one.id, "ecn_capable_packets", serde_json::json!(5_011)));
        assert_eq!(evidence(&one).as_deref(), Some("ECN-capable packets 5,011"), "of the run");
        one.first_seen_ns = Some(START);
        assert_eq!(evidence(&one).as_deref(), Some("ECN-capable packets in the episode 5,011"));
    }

    #[test]
    fn the_steps_of_a_straggler_are_one_value() {
        let mut one = Finding::new("step.straggler", Severity::Warning, String::new());
        for (name, value) in [("steps", 12), ("of_steps", 15), ("steps_seen", 30)] {
            one.evidence.insert(Evidence::declared(one.id, name, serde_json::json!(value)));
        }
        one.evidence.insert(Evidence::declared(one.id, "behind_ratio", serde_json::json!(0.433)));
        one.evidence.insert(Evidence::declared(one.id, "waits_for", serde_json::json!("10.0.0.3")));
        assert_eq!(
            evidence(&one).as_deref(),
            Some(
                "delay, share of a step 43.3 % · steps delayed by it 12 of 15, 30 in the run · the others wait for 10.0.0.3"
            )
        );
        one.evidence.insert(Evidence::declared(one.id, "kind", serde_json::json!("upstream")));
        assert!(
            evidence(&one).unwrap().ends_with(" · data comes late from 10.0.0.3"),
            "{:?}",
            evidence(&one)
        );
    }

    #[test]
    fn an_impact_begins_with_what_is_retransmitted_and_names_the_base_of_each_figure() {
        let mut one = Finding::new("loss.before_tap", Severity::Warning, String::new());
        one.impact = Impact {
            packets_ratio: Some(0.0099),
            retransmissions: Some(3_911),
            goodput_lost_bytes: Some(4_000_000),
            time_lost_ns: Some(SECOND),
        };
        one.subject.is_lower_bound = true;
        one.subject.cost_base = Some(crate::findings::CostBase {
            packets: 9_078,
            payload_bytes: 9_310_000,
            flows: 4,
            flows_ns: 4 * SECOND,
        });
        assert_eq!(
            impact(&one).as_deref(),
            Some(
                "3,911 packets retransmitted that had arrived (43.1 %) · at least 0.99 % of the flows' packets lost · \
                 4.00 MB of goodput lost of 9.31 MB sent · \
                 1.00 s wait time, summed over QPs (25.0 % of the time of 4 flows)"
            )
        );
        // An impact of other findings, too, is no part of it.
        one.impact.retransmissions = Some(10_000);
        assert!(impact(&one).unwrap().starts_with("10,000 retransmissions · "), "{:?}", impact(&one));
    }

    #[test]
    fn a_slow_receiver_says_what_its_share_is_of() {
        let mut one = Finding::new("rnr.slow_receiver", Severity::Warning, String::new());
        one.impact = Impact { packets_ratio: Some(0.826), retransmissions: Some(57), ..Impact::default() };
        assert_eq!(
            impact(&one).as_deref(),
            Some("82.6 % of the flows' packets retransmitted (57 retransmissions)")
        );
    }

    #[test]
    fn a_fatal_nak_says_what_becomes_of_its_queue_pairs() {
        let mut one = Finding::new("nak.remote_access_error", Severity::Critical, String::new());
        assert_eq!(impact(&one), None, "of no known flow");
        for (flows, text) in [
            (1, "1 QP in the error state, its outstanding requests fail"),
            (3, "3 QPs in the error state, their outstanding requests fail"),
        ] {
            one.subject.flows = Some(flows);
            assert_eq!(impact(&one).as_deref(), Some(text));
        }
        // A NAK for a missing packet is repaired.
        let mut repaired = Finding::new("nak.psn_sequence_error", Severity::Info, String::new());
        repaired.subject.flows = Some(1);
        assert_eq!(impact(&repaired), None);
    }

    #[test]
    fn links_are_named_with_their_bytes() {
        let mut one = finding();
        one.evidence.insert(Evidence::declared(one.id, "links", serde_json::json!(["u0.pcap", "u1.pcap"])));
        one.evidence.insert(Evidence::declared(one.id, "bytes", serde_json::json!([5_000, 1_000])));
        assert_eq!(evidence(&one).as_deref(), Some("bytes by link u0 5.00 kB, u1 1.00 kB"));
        assert!(one.measurements().iter().all(|(label, _)| !label.is_empty()), "rows of a page have names");
    }

    #[test]
    fn both_ends_are_named_with_their_process() {
        let mut one = finding();
        let end = |addr: &str, pid: Option<u32>| End {
            addr: addr.parse().unwrap(),
            qpn: Some(17),
            pid,
            comm: pid.map(|_| "python3".to_owned()),
            pod: None,
        };
        one.requester = Some(end("10.0.0.1", Some(4711)));
        one.responder = Some(end("10.0.0.2", None));
        let expected = "requester 10.0.0.1 QP 17 (python3, pid 4711) → responder 10.0.0.2 QP 17";
        assert_eq!(who(&one).as_deref(), Some(expected));
    }
}
