//! The ends of a problem in a line.

use crate::analysis::FlowId;
use crate::findings::{End, Finding, Problem};
use crate::model::detail;
use crate::sample::{Address, address};
use crate::tui::column;
use crate::tui::view::View;
use crate::util::layout::plain;
use crate::util::units;

/// The ends of a problem, in parts: hosts that the title does not name, and queue pairs at both ends, of several flows
/// those of the most affected one, with process and pod.
pub(super) fn parts(finding: &Finding, view: &View) -> Vec<String> {
    let ends = ends(finding);
    let worst = if queue_pairs(finding).is_none() { worst_of(finding, view) } else { None };
    ends.into_iter().chain(worst).collect()
}

/// Process and pod, such as ` (python3 in trainer-0)`; empty where neither is known.
fn owner(process: Option<&str>, pod: Option<&str>) -> String {
    let known: Vec<String> = [process, pod].into_iter().flatten().map(plain).collect();
    if known.is_empty() { String::new() } else { format!(" ({})", known.join(" in ")) }
}

/// True if the title names this host.
fn is_titled(finding: &Finding, host: Address) -> bool {
    let (host, is_part) = (host.to_string(), |c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':'));
    finding.title.split(|c| !is_part(c)).any(|word| word.trim_end_matches(['.', ':']) == host)
}

fn owned(end: &End, name: String) -> String {
    name + &owner(end.comm.as_deref(), end.pod.as_deref())
}

/// Both ends with their queue pairs; of hosts that the title names the queue pairs alone.
fn queue_pairs(finding: &Finding) -> Option<String> {
    let (requester, responder) = (finding.requester.as_ref()?, finding.responder.as_ref()?);
    let (from, to) = (requester.qpn?, responder.qpn?);
    let titled = |end: &End| is_titled(finding, end.addr);
    // Which of two that the title names is which, the queue pairs do not say.
    let both = titled(requester) && titled(responder);
    let name = |end: &End, qp: u32| {
        let bare = titled(end) && !both;
        owned(end, if bare { format!("QP {qp}") } else { format!("{} QP {qp}", end.addr) })
    };
    Some(format!("{} → {}", name(requester, from), name(responder, to)))
}

/// Both ends, with their queue pairs, processes and pods where these are known; `None` where the title says as much.
fn ends(finding: &Finding) -> Option<String> {
    if let Some(pairs) = queue_pairs(finding) {
        return Some(pairs);
    }
    let name = |end: &End| owned(end, end.addr.to_string());
    let first = finding.flows.first()?;
    let same = |flow: &FlowId| (flow.src, flow.dst) == (first.src, first.dst);
    let ends = match (&finding.requester, &finding.responder) {
        (Some(requester), Some(responder)) => [name(requester), name(responder)],
        (None, None) if finding.flows.iter().all(same) => [first.src.to_string(), first.dst.to_string()],
        _ => return None,
    };
    let named = ends.iter().any(|end| finding.title.contains(end.split(' ').next().unwrap_or(end)));
    (!named).then(|| ends.join(" → "))
}

/// The most affected of several flows: its queue pairs at both ends, and their process and pod where they are known.
fn worst_of(finding: &Finding, view: &View) -> Option<String> {
    let FlowId { src, dst, dest_qp, .. } = finding.flows.first()?;
    let is_worst = |row: &&crate::model::Row| {
        let key = &row.id.key;
        key.dest_qp == *dest_qp
            && (address(key.family, key.src), address(key.family, key.dst)) == (*src, *dst)
    };
    let data = view.data.as_ref();
    let row = data.and_then(|data| Some((data, data.model.rows.iter().find(is_worst)?)));
    let from = row.and_then(|(data, row)| detail::peer_qp(&data.sample, row.at?));
    let from = from.map_or_else(|| units::UNKNOWN.to_owned(), |qp| qp.to_string());
    let sender = row.and_then(|(data, row)| data.context().owner(row));
    let process = sender.and_then(|sender| sender.comm.clone().or_else(|| column::process(sender)));
    let of = owner(process.as_deref(), sender.and_then(|sender| sender.pod.as_deref()));
    // A host in the title needs no second mention.
    let from = if is_titled(finding, *src) { format!("QP {from}") } else { format!("{src} QP {from}") };
    let to = if is_titled(finding, *dst) { dest_qp.to_string() } else { format!("{dst} QP {dest_qp}") };
    let several = finding.named.iter().nth(1).is_some();
    let most = match Problem::of(finding) {
        _ if !several => "",
        Some(Problem::Imbalance) => "heaviest ",
        _ => "worst ",
    };
    Some(format!("{most}{from} → {to}{of}"))
}
