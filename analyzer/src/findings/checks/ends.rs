//! Place of a finding, and the ends of the affected connection.

use std::net::IpAddr;

use crate::analysis::{DeviceQp, Flow, InputKind, Link, Loss, QpEvent};
use crate::findings::place::MAX_LINKS;
use crate::findings::{End, Hop, Input, Place};
use crate::sample::Direction;

impl Place {
    /// A link with its tap, and with the switch port at its other end if LLDP reports it.
    pub(super) fn link(input: &Input<'_>, name: &str, direction: Option<Direction>) -> Self {
        // A link of a capture file is named after the file, with the interface after a colon.
        let tap = if direction.is_some() { name } else { name.split(':').next().unwrap_or_default() };
        let mut own = input.facts.links_named(name);
        let heard = |link: &Link| {
            let label = link.neighbours.first()?.label();
            (!label.is_empty()).then_some(label)
        };
        Self {
            tap: Some(tap.to_owned()),
            link: Some(name.to_owned()),
            links: Vec::new(),
            more_links: 0,
            direction,
            hop: None,
            switch_port: own.find_map(heard),
        }
    }

    /// Links that are one place, with the switch port of each.
    pub(super) fn links(input: &Input<'_>, names: &[&str], direction: Option<Direction>) -> Self {
        if let [name] = names {
            return Self::link(input, name, direction);
        }
        let mut ports: Vec<String> =
            names.iter().filter_map(|name| Self::link(input, name, direction).switch_port).collect();
        ports.dedup();
        let more_ports = ports.len().saturating_sub(MAX_LINKS);
        if more_ports > 0 {
            ports.truncate(MAX_LINKS);
            ports.push(format!("{more_ports} more"));
        }
        Self {
            links: names.iter().map(|name| (*name).to_owned()).collect(),
            more_links: names.len().saturating_sub(MAX_LINKS) as u64,
            direction,
            switch_port: (!ports.is_empty()).then(|| ports.join(", ")),
            ..Self::default()
        }
    }

    /// The link of a flow.
    pub(super) fn of(input: &Input<'_>, flow: &Flow) -> Self {
        Self::link(input, &flow.link, flow.direction)
    }

    /// The common link of the flows; none if they are on several links, since the flows name these.
    pub(super) fn of_all<'a>(input: &Input<'_>, flows: impl IntoIterator<Item = &'a Flow>) -> Self {
        let mut flows = flows.into_iter();
        let Some(first) = flows.next() else { return Self::default() };
        let is_same = |flow: &Flow| (&flow.link, flow.direction) == (&first.link, first.direction);
        if flows.all(is_same) { Self::of(input, first) } else { Self::default() }
    }

    /// All links of the flows, in order: a choice of one would differ from one analysis to the next, as their counts
    /// do. Of taps on one path the first.
    pub(super) fn of_several<'a>(input: &Input<'_>, flows: impl IntoIterator<Item = &'a Flow>) -> Self {
        let facts = input.facts;
        let number = |flow: &Flow| {
            facts.links.iter().position(|link| link.name == flow.link && link.direction == flow.direction)
        };
        let mut on: Vec<(Option<usize>, &Flow)> = Vec::new();
        for flow in flows {
            let is_known =
                on.iter().any(|(_, other)| other.link == flow.link && other.direction == flow.direction);
            if !is_known {
                on.push((number(flow), flow));
            }
        }
        on.sort_by_key(|(number, _)| *number);
        let same_path = |a: Option<usize>, b: Option<usize>| {
            let [a, b] = [a, b].map(|number| number.and_then(|number| u16::try_from(number).ok()));
            a.zip(b).is_some_and(|(a, b)| facts.related.contains(&(a.min(b), a.max(b))))
        };
        let mut kept: Vec<(Option<usize>, &Flow)> = Vec::new();
        for (number, flow) in on {
            if !kept.iter().any(|(other, _)| same_path(*other, number)) {
                kept.push((number, flow));
            }
        }
        let Some((_, first)) = kept.first() else { return Self::default() };
        let direction =
            first.direction.filter(|_| kept.iter().all(|(_, flow)| flow.direction == first.direction));
        let mut names: Vec<&str> = Vec::new();
        for (_, flow) in &kept {
            if !names.contains(&&*flow.link) {
                names.push(&flow.link);
            }
        }
        Self::links(input, &names, direction)
    }

    /// Sets the position: upstream or downstream of the tap, or between two taps.
    pub(super) fn hop(self, hop: Hop) -> Self {
        Self { hop: Some(hop), ..self }
    }
}

/// Requester and responder of request flows: the sending and the receiving end. Properties that differ between the
/// flows are `None`.
pub(super) fn of_data<'a>(
    input: &Input<'_>,
    flows: impl IntoIterator<Item = &'a Flow>,
) -> (Option<End>, Option<End>) {
    let mut flows = flows.into_iter();
    let Some(first) = flows.next() else { return (None, None) };
    let (sender, receiver) = both(input, first);
    let (mut sender, mut receiver) = (Some(sender), Some(receiver));
    for flow in flows {
        let (other_sender, other_receiver) = both(input, flow);
        sender = sender.and_then(|end| common(end, &other_sender));
        receiver = receiver.and_then(|end| common(end, &other_receiver));
    }
    (sender, receiver)
}

/// Requester and responder of flows with ACKs, NAKs or READ responses: their destination and their source.
pub(super) fn of_answers<'a>(
    input: &Input<'_>,
    flows: impl IntoIterator<Item = &'a Flow>,
) -> (Option<End>, Option<End>) {
    let (responder, requester) = of_data(input, flows);
    (requester, responder)
}

/// The request flows, each once, that these answer flows reject or NAK: the flows at fault. An answer flow stands for
/// itself if its pair is unknown or its requests take another path.
pub(super) fn flows_at_fault<'a>(
    input: &Input<'a>,
    answers: impl IntoIterator<Item = &'a Flow>,
) -> Vec<&'a Flow> {
    let mut all: Vec<&Flow> = Vec::new();
    for flow in answers {
        let before = all.len();
        all.extend(input.facts.requests_answered_by(flow));
        if all.len() == before {
            all.push(flow);
        }
    }
    all
}

/// Requester and responder of flows that lost packets. Responses go to the requester: a flow with both requests and
/// READ responses counts as the kind that lost more.
pub(super) fn of_lost<'a>(
    input: &Input<'_>,
    flows: impl Iterator<Item = &'a Flow> + Clone,
) -> (Option<End>, Option<End>) {
    let episodes = |loss: Option<Loss>| {
        loss.map_or(0, |loss| {
            loss.lost + loss.before_tap.episodes.or_zero() + loss.after_tap.episodes.or_zero()
        })
    };
    let is_responses =
        |flow: &&Flow| flow.psn.is_none() || episodes(flow.loss_responses.get()) > episodes(flow.loss.get());
    if flows.clone().next().as_ref().is_some_and(is_responses) {
        of_answers(input, flows.filter(is_responses))
    } else {
        of_data(input, flows.filter(|flow| !is_responses(flow)))
    }
}

/// Sender and receiver of one flow.
fn both(input: &Input<'_>, flow: &Flow) -> (End, End) {
    let end = |addr, qpn| End { addr, qpn, pid: None, comm: None, pod: None };
    let (mut sender, mut receiver) = (end(flow.src, flow.peer_qp), end(flow.dst, Some(flow.dest_qp)));
    let facts = input.facts;
    if facts.source.kind == InputKind::Replay {
        // No process is known. There may be as many flows of one queue pair as links.
        return (sender, receiver);
    }
    let back = facts.back(flow);
    let forth = facts.to_qp(flow.src, flow.dst, flow.dest_qp);
    let both = forth.map(|other| (true, other)).chain(back.map(|other| (false, other)));
    // The process is known for the end on this host: the receiver of ingress flows, the sender of egress flows.
    for (forth, other) in both.filter(|(_, other)| other.pid.is_some()) {
        let sends = (other.direction == Some(Direction::Egress)) == forth;
        let end = if sends { &mut sender } else { &mut receiver };
        if end.pid.is_none() {
            end.pid = other.pid;
            (end.comm, end.pod) =
                (other.comm.as_deref().map(Into::into), other.pod.as_deref().map(Into::into));
        }
    }
    (sender, receiver)
}

/// Both ends of a queue pair on the control path, from an event and the list of queue pairs.
pub(super) fn of_event(event: &QpEvent, qp: Option<&DeviceQp>) -> (Option<End>, Option<End>) {
    let own = event.src.map(|addr| End {
        addr: addr.into(),
        qpn: event.lqpn,
        pid: event.pid.or_else(|| qp?.pid),
        comm: event.comm.clone().or_else(|| qp?.comm.clone()),
        pod: qp.and_then(|qp| qp.pod.clone()),
    });
    (own, peer(event.dst, qp.and_then(|qp| qp.rqpn)))
}

/// Both ends of a listed queue pair.
pub(super) fn of_qp(qp: &DeviceQp) -> (Option<End>, Option<End>) {
    let own = qp.control.src.map(|addr| End {
        addr: addr.into(),
        qpn: Some(qp.lqpn),
        pid: qp.pid,
        comm: qp.comm.clone(),
        pod: qp.pod.clone(),
    });
    (own, peer(qp.control.dst, qp.rqpn))
}

/// The remote end, whose process is not known on this host.
fn peer(addr: Option<IpAddr>, qpn: Option<u32>) -> Option<End> {
    addr.map(|addr| End { addr: addr.into(), qpn, pid: None, comm: None, pod: None })
}

/// A process as text, such as `train.py (4711)`.
pub(super) fn process(comm: Option<&str>, pid: Option<u32>) -> Option<String> {
    Some(format!("{} ({})", comm?, pid?))
}

/// The properties that both share; `None` for two hosts.
pub(in crate::findings) fn common(end: End, other: &End) -> Option<End> {
    (end.addr == other.addr).then(|| End {
        addr: end.addr,
        qpn: end.qpn.filter(|qpn| other.qpn == Some(*qpn)),
        pid: end.pid.filter(|pid| other.pid == Some(*pid)),
        comm: end.comm.filter(|comm| other.comm.as_ref() == Some(comm)),
        pod: end.pod.filter(|pod| other.pod.as_ref() == Some(pod)),
    })
}

impl End {
    /// Its process, as far as it is known, such as `train.py, PID 4711`.
    pub(super) fn owner(&self) -> Option<String> {
        let pid = self.pid.map(|pid| format!("PID {pid}"));
        let known: Vec<&str> =
            [self.comm.as_deref(), pid.as_deref(), self.pod.as_deref()].into_iter().flatten().collect();
        (!known.is_empty()).then(|| known.join(", "))
    }
}

/// An end as text, such as `10.0.0.1 QP 17 (train.py, PID 4711)`.
impl std::fmt::Display for End {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.addr)?;
        if let Some(qpn) = self.qpn {
            write!(out, " QP {qpn}")?;
        }
        self.owner().map_or(Ok(()), |owner| write!(out, " ({owner})"))
    }
}
