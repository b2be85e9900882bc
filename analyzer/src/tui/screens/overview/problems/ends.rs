//! The ends of a problem in a line.

use std::net::Ipv6Addr;

use crate::analysis::FlowId;
use crate::findings::{End, Finding, Problem};
use crate::model::detail;
use crate::sample::{Address, address};
use crate::tui::column;
use crate::tui::view::View;
use crate::tui::widgets::cut;
use crate::util::layout::plain;

/// Columns of a pod whose name is cut, and where that has no room either.
const POD: usize = 16;
const SHORT_POD: usize = 12;

/// In place of the number of a queue pair that is not known, as of senders whose packets go one way.
const UNKNOWN_QP: &str = "QP ?";

/// One end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Side {
    host: String,
    /// The title names the host.
    is_titled: bool,
    qp: Option<String>,
    /// Source port of a sender whose queue pair is not known: packets have that of the receiver alone.
    port: Option<u16>,
    process: Option<String>,
    pod: Option<String>,
}

/// What a shorter form leaves out, each also what those before it do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Without {
    Nothing,
    /// Hosts that the title names.
    TitledHosts,
    /// UDP ports of senders.
    Ports,
    /// The middle of the pods' names.
    LongPods,
    /// More of it.
    MostOfPods,
    Pods,
    Processes,
    /// The middle of long addresses.
    LongHosts,
    /// Hosts, where the queue pairs are known.
    Hosts,
}

impl Without {
    /// All that stand below the title.
    const ALL: [Self; 8] = [
        Self::TitledHosts,
        Self::Ports,
        Self::LongPods,
        Self::MostOfPods,
        Self::Pods,
        Self::Processes,
        Self::LongHosts,
        Self::Hosts,
    ];
}

impl Side {
    fn of(end: &End, is_titled: bool) -> Self {
        Self {
            host: end.addr.to_string(),
            is_titled,
            port: None,
            qp: end.qpn.map(|qpn| qpn.to_string()),
            process: end.comm.as_deref().map(plain),
            pod: end.pod.as_deref().map(plain),
        }
    }

    /// `10.0.0.1 QP 17 (python3 in trainer-0)`.
    fn text(&self, without: Without) -> String {
        let least = if self.is_titled { Without::TitledHosts } else { Without::Hosts };
        let host = Some(&*self.host).filter(|_| without < least || self.qp.is_none());
        let host = host.map(|host| if without < Without::LongHosts { host.to_owned() } else { brief(host) });
        let port = self.port.filter(|_| without < Without::Ports).map(|port| format!("UDP port {port}"));
        let unknown = port.map(|port| format!("{UNKNOWN_QP}, {port}"));
        let unknown = unknown.or_else(|| self.port.map(|_| UNKNOWN_QP.to_owned()));
        let number = self.qp.as_ref().map(|number| format!("QP {number}")).or(unknown);
        let pod = self.pod.as_deref().filter(|_| without < Without::Pods);
        let pod = pod.map(|pod| match without {
            Without::Nothing | Without::Ports | Without::TitledHosts => pod.to_owned(),
            Without::LongPods => cut(pod, POD, true),
            _ => cut(pod, SHORT_POD, true),
        });
        let process = self.process.clone().filter(|_| without < Without::Processes);
        let owner: Vec<String> = process.into_iter().chain(pod).collect();
        let owner = (!owner.is_empty()).then(|| format!("({})", owner.join(" in ")));
        host.into_iter().chain(number).chain(owner).collect::<Vec<_>>().join(" ")
    }
}

/// An IPv6 address by its first and its last groups; others are short.
fn brief(host: &str) -> String {
    let groups: Vec<&str> = host.split(':').collect();
    match (host.parse::<Ipv6Addr>(), &*groups) {
        (Ok(_), [first, second, .., last]) if groups.len() > 4 => format!("{first}:{second}…{last}"),
        _ => host.to_owned(),
    }
}

/// The ends of a problem in words: hosts, and queue pairs at both ends, of several flows those of the most affected
/// one, with process and pod.
#[derive(Debug, Default)]
pub(in crate::tui) struct Ends {
    /// With both hosts.
    pub(in crate::tui) whole: String,
    /// Without those that the title names, the longest form first; empty where the title says as much.
    pub(in crate::tui) forms: Vec<String>,
    /// True if a form without both hosts may make room for other facts: the title has them.
    pub(in crate::tui) is_titled: bool,
}

/// The ends of a problem for below its title.
pub(super) fn below_title(finding: &Finding, view: &View) -> Ends {
    let known = of_queue_pairs(finding, view).or_else(|| Some(("", ends(finding)?)));
    known.map_or_else(Ends::default, |(most, sides)| Ends {
        whole: in_form(most, &sides, Without::Nothing),
        forms: in_words(most, &sides),
        is_titled: finding
            .flows
            .first()
            .is_some_and(|flow| [flow.src, flow.dst].into_iter().all(|host| finding.is_titled(host))),
    })
}

/// The same with both hosts, for where the title does not stand right above.
pub(in crate::tui) fn both_ends(finding: &Finding, view: &View) -> Vec<String> {
    of_queue_pairs(finding, view).map_or_else(Vec::new, |(most, sides)| {
        in_words(most, &sides.map(|side| Side { is_titled: false, ..side }))
    })
}

fn in_form(most: &str, [from, to]: &[Side; 2], without: Without) -> String {
    format!("{most}{} → {}", from.text(without), to.text(without))
}

fn in_words(most: &str, sides: &[Side; 2]) -> Vec<String> {
    let form = |without: Without| in_form(most, sides, without);
    let mut forms: Vec<String> = Without::ALL.into_iter().map(form).collect();
    forms.dedup();
    forms
}

/// Both ends with their queue pairs, of several flows those of the most affected one, and how it is related to them.
fn of_queue_pairs(finding: &Finding, view: &View) -> Option<(&'static str, [Side; 2])> {
    queue_pairs(finding).map(|ends| ("", ends)).or_else(|| worst_of(finding, view))
}

/// Both ends with their queue pairs.
fn queue_pairs(finding: &Finding) -> Option<[Side; 2]> {
    let mut ends = [finding.requester.as_ref()?, finding.responder.as_ref()?];
    // From the end that sends the packets in question, as titles name hosts: of READ responses the responder.
    if is_answered(finding) {
        ends.reverse();
    }
    if ends.iter().any(|end| end.qpn.is_none()) {
        return None;
    }
    let [from, to] = ends;
    Some([Side::of(from, false), Side::of(to, is_named_alone(finding, [from.addr, to.addr]))])
}

/// True if its first flow goes from the responder to the requester.
fn is_answered(finding: &Finding) -> bool {
    let [requester, responder] = [&finding.requester, &finding.responder].map(Option::as_ref);
    let hosts = requester.zip(responder).map(|(requester, responder)| (responder.addr, requester.addr));
    finding.flows.first().is_some_and(|flow| Some((flow.src, flow.dst)) == hosts)
}

/// True if the title names the second of these hosts alone: which of two that it names is which, queue pairs do not
/// say.
fn is_named_alone(finding: &Finding, [from, to]: [Address; 2]) -> bool {
    finding.is_titled(to) && !finding.is_titled(from)
}

/// Both ends, with processes and pods where these are known; `None` where the title says as much.
fn ends(finding: &Finding) -> Option<[Side; 2]> {
    let first = finding.flows.first()?;
    let same = |flow: &FlowId| (flow.src, flow.dst) == (first.src, first.dst);
    let host = |host: Address| Side { host: host.to_string(), ..Side::default() };
    let ends = match (&finding.requester, &finding.responder) {
        (Some(requester), Some(responder)) if is_answered(finding) => {
            [responder, requester].map(|end| Side::of(end, false))
        }
        (Some(requester), Some(responder)) => [requester, responder].map(|end| Side::of(end, false)),
        (None, None) if finding.flows.iter().all(same) => [first.src, first.dst].map(host),
        _ => return None,
    };
    let named = [first.src, first.dst].into_iter().any(|host| finding.is_titled(host));
    (!named).then_some(ends)
}

/// The most affected of several flows: its queue pairs at both ends, and their process and pod where they are known.
fn worst_of(finding: &Finding, view: &View) -> Option<(&'static str, [Side; 2])> {
    let FlowId { src, dst, dest_qp, .. } = finding.flows.first()?;
    let is_worst = |row: &&crate::model::Row| {
        let key = &row.id.key;
        key.dest_qp == *dest_qp
            && (address(key.family, key.src), address(key.family, key.dst)) == (*src, *dst)
    };
    let data = view.data.as_ref();
    let row = data.and_then(|data| Some((data, data.model.rows.iter().find(is_worst)?)));
    let from = row.and_then(|(data, row)| detail::peer_qp(&data.sample, row.at?));
    let side = |host: Address, qp: Option<u32>| Side {
        host: host.to_string(),
        qp: qp.map(|qp| qp.to_string()),
        ..Side::default()
    };
    let stats = row.and_then(|(data, row)| data.context().flow(row)).filter(|stats| stats.roce_version == 2);
    let stats = stats.filter(|stats| from.is_none() && stats.seldom.other_port_packets == 0);
    let port = stats.map(|stats| stats.src_port);
    let titled = is_named_alone(finding, [*src, *dst]);
    let mut sides =
        [Side { port, ..side(*src, from) }, Side { is_titled: titled, ..side(*dst, Some(*dest_qp)) }];
    if let Some(owner) = row.and_then(|(data, row)| data.context().owner(row)) {
        let [from, to] = &mut sides;
        let own = if owner.lqpn == *dest_qp { to } else { from };
        let process = owner.comm.clone().or_else(|| column::process(owner));
        (own.process, own.pod) = (process.as_deref().map(plain), owner.pod.as_deref().map(plain));
    }
    let several = finding.named.iter().nth(1).is_some();
    let most = match Problem::of(finding) {
        _ if !several => "",
        _ if finding.subject.is_alike => "e.g. ",
        Some(Problem::Imbalance) => "heaviest ",
        _ => "worst ",
    };
    Some((most, sides))
}
