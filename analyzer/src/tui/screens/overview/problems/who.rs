//! The ends of a problem in a line.

use crate::analysis::FlowId;
use crate::findings::{End, Finding};
use crate::model::detail;
use crate::sample::address;
use crate::tui::column;
use crate::tui::view::View;
use crate::util::layout::plain;
use crate::util::units;

/// Both ends, with their queue pairs, processes or pods where these are known; of hosts that the title names the queue
/// pairs alone.
pub(super) fn who(finding: &Finding) -> Option<String> {
    let owned = |end: &End, name: String| {
        let owner = end.pod.as_ref().or(end.comm.as_ref());
        owner.map_or_else(|| name.clone(), |owner| format!("{name} ({})", plain(owner)))
    };
    let titled = |end: &End| finding.title.contains(&end.addr.to_string());
    if let (Some(requester), Some(responder)) = (&finding.requester, &finding.responder)
        && let (Some(from), Some(to)) = (requester.qpn, responder.qpn)
    {
        // Which of two that the title names is which, the queue pairs do not say.
        let both = titled(requester) && titled(responder);
        let name = |end: &End, qp: u32| {
            let bare = titled(end) && !both;
            owned(end, if bare { format!("QP {qp}") } else { format!("{} QP {qp}", end.addr) })
        };
        return Some(format!("{} → {}", name(requester, from), name(responder, to)));
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

/// The most affected of several flows: its queue pairs at both ends, and their process or pod where it is known.
pub(super) fn worst_of(finding: &Finding, view: &View) -> Option<String> {
    let FlowId { src, dst, dest_qp, .. } = finding.flows.first()?;
    let data = view.data.as_ref()?;
    let is_worst = |row: &&crate::model::Row| {
        let key = &row.id.key;
        key.dest_qp == *dest_qp
            && (address(key.family, key.src), address(key.family, key.dst)) == (*src, *dst)
    };
    let row = data.model.rows.iter().find(is_worst)?;
    let from = row.at.and_then(|at| detail::peer_qp(&data.sample, at));
    let from = from.map_or_else(|| units::UNKNOWN.to_owned(), |qp| qp.to_string());
    let owner =
        data.context().owner(row).and_then(|owner| owner.pod.clone().or_else(|| column::process(owner)));
    let owner = owner.map_or_else(String::new, |owner| format!(" ({})", plain(&owner)));
    // A place in the title needs no second one.
    let other = if finding.title.contains(&src.to_string()) { dst } else { src };
    let worst = if finding.named.iter().nth(1).is_some() { "worst " } else { "" };
    Some(format!("{worst}{other} QP {from} → {dest_qp}{owner}"))
}
