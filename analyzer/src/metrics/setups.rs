//! Connection set-ups: accepted, rejected, or never answered.
//!
//! From the datagrams of connection management, those that resolve a service of datagrams (SIDR) included. Bounded:
//! `MOST_OPEN` set-ups whose end is not known, `MOST_ROWS` rows of results; what finds no room is counted.

use std::collections::VecDeque;

use crate::entity::PeerKey;
use crate::util::definition::definitions;
use crate::util::map::Map;
use rocescope_common::wire::cm::{Message, Req};
use rocescope_common::wire::frame::Addr;

/// Set-ups that are followed at a time; a new one replaces the oldest.
const MOST_OPEN: usize = 16_384;
/// Results by hosts, service and outcome; queue pairs whose end was asked for.
const MOST_ROWS: usize = 4_096;

/// `Message REJected` of a REJ that refuses neither a REQ nor a REP: Linux sends one with the reason timeout, and no ID
/// of the peer, when a program ends that waits for a reply.
const NO_MESSAGE: u8 = 2;

definitions! {
    COPY_NS: u64 = 20_000_000,
        "Maximum time between two requests of one set-up that are one, seen by two taps or captured twice, in nanoseconds",
        "The shortest CM timeout in use is longer";
    REUSE_NS: u64 = 1_000_000_000,
        "Time after which a communication ID that has had its answer stands for another set-up, in nanoseconds",
        "An ID is used again after many others";
}

/// End of a set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// No answer so far.
    Unanswered,
    /// The peer has the request and asked for more time (MRA); no other answer so far.
    Delayed,
    /// The peer replied.
    Accepted,
    /// It was refused for this reason.
    Rejected {
        /// Reason code of the REJ.
        reason: u16,
        /// The requester refused the peer's reply.
        by_requester: bool,
    },
    /// The peer knows no queue pair for the service, or gives none: status of the SIDR_REP.
    Unresolved {
        /// Status of the `SIDR_REP`.
        status: u8,
    },
}

impl Outcome {
    /// True if it is still to be accepted or rejected.
    const fn is_open(self) -> bool {
        matches!(self, Self::Unanswered | Self::Delayed)
    }
}

/// Kind of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SetupKind {
    /// A connection (REQ).
    Connection,
    /// The queue pair that takes datagrams for a service (SIDR_REQ).
    Resolution,
}

/// Requester, responder and service of set-ups, and their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetupEnds {
    /// IP version of the addresses.
    pub family: u8,
    /// The host that asks.
    pub from: Addr,
    /// The host that is asked.
    pub to: Addr,
    /// Kind of the request.
    pub kind: SetupKind,
    /// Service ID; `None` where the request was not captured.
    pub service_id: Option<u64>,
    /// End of these set-ups.
    pub outcome: Outcome,
}

/// Set-ups of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Number of set-ups.
    pub setups: u64,
    /// Most requests sent for one of them.
    pub most_requests: u64,
    /// First and last message about them, Unix nanoseconds.
    pub first_ns: u64,
    /// Last message about them, Unix nanoseconds.
    pub last_ns: u64,
}

impl Row {
    fn add(&mut self, attempt: &Attempt) {
        self.first_ns = if self.setups == 0 { attempt.first_ns } else { self.first_ns.min(attempt.first_ns) };
        self.last_ns = self.last_ns.max(attempt.last_ns);
        self.setups += 1;
        self.most_requests = self.most_requests.max(attempt.requests);
    }
}

/// Connection set-ups so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setups {
    /// By hosts, service and outcome, in that order.
    pub rows: Vec<(SetupEnds, Row)>,
    /// Set-ups that found no room.
    pub untracked: u64,
    /// By the direction to a queue pair: when its sender asked last for the end of the connection (DREQ), Unix
    /// nanoseconds.
    pub ended: Map<PeerKey, u64>,
}

/// The two hosts, what one asks the other for, and the ID that it gave to that.
type Id = (u8, Addr, Addr, SetupKind, u32);

#[derive(Clone, Copy, Debug)]
struct Attempt {
    service_id: Option<u64>,
    outcome: Outcome,
    requests: u64,
    first_ns: u64,
    last_ns: u64,
}

/// Collector of connection set-ups.
#[derive(Debug, Default)]
pub struct Collector {
    open: Map<Id, Attempt>,
    order: VecDeque<Id>,
    /// Results of those that are followed no more.
    done: Map<SetupEnds, Row>,
    untracked: u64,
    ended: Map<PeerKey, u64>,
}

impl Collector {
    /// A message from one host to another.
    pub fn message(&mut self, family: u8, (src, dst): (Addr, Addr), message: &Message, now_ns: u64) {
        let asks = |kind, id| (family, src, dst, kind, id);
        let answers = |kind, id| (family, dst, src, kind, id);
        match *message {
            Message::Req(Req { local_id, service_id, .. }) => {
                self.requested(asks(SetupKind::Connection, local_id), service_id, now_ns);
            }
            Message::SidrReq { request_id, service_id } => {
                self.requested(asks(SetupKind::Resolution, request_id), service_id, now_ns);
            }
            Message::SidrRep { request_id, status, .. } => {
                let outcome = if status == 0 { Outcome::Accepted } else { Outcome::Unresolved { status } };
                self.ended(answers(SetupKind::Resolution, request_id), outcome, now_ns);
            }
            Message::Rep { remote_id, .. } => {
                self.ended(answers(SetupKind::Connection, remote_id), Outcome::Accepted, now_ns);
            }
            Message::Rej { local_id, remote_id: 0, refused: NO_MESSAGE, .. } => {
                self.given_up(asks(SetupKind::Connection, local_id), now_ns);
            }
            Message::Rej { local_id, remote_id, refused, reason } => {
                let (asked, own) =
                    (answers(SetupKind::Connection, remote_id), asks(SetupKind::Connection, local_id));
                // A REJ of the reply comes from the host that asked.
                let by_requester = refused == 1 && !self.open.contains_key(&asked);
                let id = if by_requester { own } else { asked };
                self.ended(id, Outcome::Rejected { reason, by_requester }, now_ns);
            }
            // The MRA of a reply names the communication ID of the host that was asked, which opened nothing.
            Message::Mra { remote_id, .. } => {
                self.ended(answers(SetupKind::Connection, remote_id), Outcome::Delayed, now_ns);
            }
            Message::Dreq { remote_qp, .. } => {
                let to = PeerKey { family, src, dst, dest_qp: remote_qp };
                if self.ended.len() < MOST_ROWS || self.ended.contains_key(&to) {
                    self.ended.insert(to, now_ns);
                }
            }
            Message::Rtu { .. } | Message::Drep { .. } => {}
        }
    }

    fn requested(&mut self, id: Id, service_id: u64, now_ns: u64) {
        if let Some(attempt) = self.open.get_mut(&id) {
            let since_ns = now_ns.saturating_sub(attempt.last_ns);
            if attempt.outcome.is_open() {
                attempt.requests += u64::from(since_ns >= COPY_NS);
                attempt.last_ns = attempt.last_ns.max(now_ns);
                return;
            }
            if since_ns < REUSE_NS {
                return;
            }
            let over = *attempt;
            self.close(id, &over);
        } else {
            self.order.push_back(id);
        }
        let attempt = Attempt {
            service_id: Some(service_id),
            outcome: Outcome::Unanswered,
            requests: 1,
            first_ns: now_ns,
            last_ns: now_ns,
        };
        self.open.insert(id, attempt);
        self.bound();
    }

    fn ended(&mut self, id: Id, outcome: Outcome, now_ns: u64) {
        if let Some(attempt) = self.open.get_mut(&id) {
            let refused_later = matches!(outcome, Outcome::Rejected { by_requester: true, .. })
                && attempt.outcome == Outcome::Accepted;
            if attempt.outcome.is_open() || refused_later {
                attempt.outcome = outcome;
                attempt.last_ns = attempt.last_ns.max(now_ns);
            }
            return;
        }
        // The request was not captured. Its refusal says enough, a reply does not matter.
        if matches!(outcome, Outcome::Rejected { .. } | Outcome::Unresolved { .. }) {
            let attempt =
                Attempt { service_id: None, outcome, requests: 0, first_ns: now_ns, last_ns: now_ns };
            self.open.insert(id, attempt);
            self.order.push_back(id);
            self.bound();
        }
    }

    /// The host that asked waits no longer. It has not learned an ID of the peer, so that this answers nothing: the
    /// set-up stays without an answer. One whose request was not captured has nothing to count.
    fn given_up(&mut self, id: Id, now_ns: u64) {
        if let Some(attempt) = self.open.get_mut(&id).filter(|attempt| attempt.outcome.is_open()) {
            attempt.last_ns = attempt.last_ns.max(now_ns);
        }
    }

    fn bound(&mut self) {
        if self.order.len() > MOST_OPEN
            && let Some(oldest) = self.order.pop_front()
            && let Some(attempt) = self.open.remove(&oldest)
        {
            self.close(oldest, &attempt);
        }
    }

    fn close(&mut self, id: Id, attempt: &Attempt) {
        let between = SetupEnds::of(id, attempt);
        if self.done.len() >= MOST_ROWS && !self.done.contains_key(&between) {
            self.untracked += 1;
            return;
        }
        self.done.entry(between).or_default().add(attempt);
    }

    /// Connection set-ups so far.
    pub fn metrics(&self) -> Setups {
        let mut rows = self.done.clone();
        let mut untracked = self.untracked;
        for id in &self.order {
            let Some(attempt) = self.open.get(id) else { continue };
            let between = SetupEnds::of(*id, attempt);
            if rows.len() >= MOST_ROWS && !rows.contains_key(&between) {
                untracked += 1;
                continue;
            }
            rows.entry(between).or_default().add(attempt);
        }
        let mut rows: Vec<(SetupEnds, Row)> = rows.into_iter().collect();
        rows.sort_unstable_by_key(|(between, _)| *between);
        Setups { rows, untracked, ended: self.ended.clone() }
    }
}

impl SetupEnds {
    fn of((family, from, to, kind, _): Id, attempt: &Attempt) -> Self {
        Self { family, from, to, kind, service_id: attempt.service_id, outcome: attempt.outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Addr = [0, 0, 0, 1];
    const B: Addr = [0, 0, 0, 2];
    use crate::util::time::NS_PER_MS as MS;

    fn req(local_id: u32) -> Message {
        Message::Req(Req { local_id, local_qp: 17, service_id: 0x0106_1C06, timeout: 20 })
    }

    fn rej(remote_id: u32, reason: u16) -> Message {
        Message::Rej { local_id: 0, remote_id, refused: 0, reason }
    }

    fn outcomes(collector: &Collector) -> Vec<(Outcome, u64, u64)> {
        let setups = collector.metrics();
        setups.rows.iter().map(|(between, row)| (between.outcome, row.setups, row.most_requests)).collect()
    }

    #[test]
    fn refusals_are_counted_by_reason_once_however_often_they_are_seen() {
        let mut collector = Collector::default();
        for id in 0..6 {
            let now = 1_000 * MS + u64::from(id) * MS;
            // Two taps see each message.
            for later in [0, 10_000] {
                collector.message(4, (A, B), &req(id), now + later);
                collector.message(4, (B, A), &rej(id, if id == 5 { 10 } else { 8 }), now + 500_000 + later);
            }
        }
        collector.message(4, (A, B), &req(9), 2_000 * MS);
        collector.message(4, (B, A), &Message::Rep { local_id: 3, remote_id: 9, local_qp: 5 }, 2_001 * MS);
        let rejected = |reason| Outcome::Rejected { reason, by_requester: false };
        assert_eq!(
            outcomes(&collector),
            [(Outcome::Accepted, 1, 1), (rejected(8), 5, 1), (rejected(10), 1, 1)]
        );
        let (between, row) = collector.metrics().rows[1];
        assert_eq!((between.from, between.to, between.service_id), (A, B, Some(0x0106_1C06)));
        assert_eq!((row.first_ns, row.last_ns), (1_000 * MS, 1_004 * MS + 500_000));
    }

    #[test]
    fn repeated_requests_without_answer_are_one_setup() {
        let mut collector = Collector::default();
        for i in 0..5 {
            collector.message(4, (A, B), &req(1), 1_000 * MS + i * 100 * MS);
            collector.message(4, (A, B), &req(1), 1_000 * MS + i * 100 * MS + MS);
        }
        assert_eq!(outcomes(&collector), [(Outcome::Unanswered, 1, 5)]);
        // It is answered after all.
        collector.message(4, (B, A), &Message::Rep { local_id: 3, remote_id: 1, local_qp: 5 }, 1_600 * MS);
        assert_eq!(outcomes(&collector), [(Outcome::Accepted, 1, 5)]);
    }

    #[test]
    fn who_gives_up_has_refused_nothing() {
        let mut collector = Collector::default();
        let gives_up = |local_id| Message::Rej { local_id, remote_id: 0, refused: 2, reason: 4 };
        for i in 0..3 {
            collector.message(4, (A, B), &req(1), 1_000 * MS + i * 4_000 * MS);
        }
        collector.message(4, (A, B), &gives_up(1), 10_000 * MS);
        // Of a request that was not captured.
        collector.message(4, (A, B), &gives_up(2), 10_000 * MS);
        assert_eq!(outcomes(&collector), [(Outcome::Unanswered, 1, 3)]);
        let (between, row) = collector.metrics().rows[0];
        assert_eq!((between.from, between.to, row.last_ns), (A, B, 10_000 * MS));
        // A set-up that was accepted stays so.
        collector.message(4, (A, B), &req(3), 11_000 * MS);
        collector.message(4, (B, A), &Message::Rep { local_id: 7, remote_id: 3, local_qp: 5 }, 11_001 * MS);
        collector.message(4, (A, B), &gives_up(3), 11_002 * MS);
        assert_eq!(outcomes(&collector), [(Outcome::Unanswered, 1, 3), (Outcome::Accepted, 1, 1)]);
    }

    #[test]
    fn who_asks_for_more_time_has_answered() {
        let mut collector = Collector::default();
        let more_time = Message::Mra { local_id: 7, remote_id: 1, timeout: 20 };
        for i in 0..5 {
            collector.message(4, (A, B), &req(1), 1_000 * MS + i * 100 * MS);
            collector.message(4, (B, A), &more_time, 1_001 * MS + i * 100 * MS);
        }
        // Of another host's reply: no set-up of its own.
        collector.message(4, (A, B), &Message::Mra { local_id: 1, remote_id: 7, timeout: 20 }, 1_600 * MS);
        assert_eq!(outcomes(&collector), [(Outcome::Delayed, 1, 5)]);
        collector.message(4, (B, A), &rej(1, 28), 1_700 * MS);
        assert_eq!(outcomes(&collector), [(Outcome::Rejected { reason: 28, by_requester: false }, 1, 5)]);
    }

    #[test]
    fn the_requester_may_refuse_the_reply_and_a_refusal_may_come_alone() {
        let mut collector = Collector::default();
        collector.message(4, (A, B), &req(1), MS);
        collector.message(4, (B, A), &Message::Rep { local_id: 7, remote_id: 1, local_qp: 5 }, 2 * MS);
        let refusal = Message::Rej { local_id: 1, remote_id: 7, refused: 1, reason: 28 };
        collector.message(4, (A, B), &refusal, 3 * MS);
        assert_eq!(outcomes(&collector), [(Outcome::Rejected { reason: 28, by_requester: true }, 1, 1)]);
        let mut alone = Collector::default();
        alone.message(4, (B, A), &rej(77, 8), MS);
        let (between, row) = alone.metrics().rows[0];
        assert_eq!((between.from, between.to, between.service_id, row.most_requests), (A, B, None, 0));
    }

    #[test]
    fn a_service_of_datagrams_is_resolved_refused_or_not_answered() {
        let mut collector = Collector::default();
        let asks = |request_id| Message::SidrReq { request_id, service_id: 0x0111_1C06 };
        let says = |request_id, status| Message::SidrRep { request_id, status, qp: 0 };
        // The same number stands for a connection as well.
        collector.message(4, (A, B), &req(1), MS);
        for (id, status) in [(1, 0), (2, 1), (3, 2)] {
            for now_ns in [MS, MS + 10_000] {
                collector.message(4, (A, B), &asks(id), now_ns);
                collector.message(4, (B, A), &says(id, status), now_ns + MS);
            }
        }
        for i in 0..4 {
            collector.message(4, (A, B), &asks(4), MS + i * 4_000 * MS);
        }
        // One whose request was not captured.
        collector.message(4, (B, A), &says(9, 2), MS);
        let setups = collector.metrics();
        let kinds: Vec<_> = setups.rows.iter().map(|(between, _)| between.kind).collect();
        assert_eq!(kinds, [[SetupKind::Connection; 1].as_slice(), &[SetupKind::Resolution; 5]].concat());
        let unresolved = |status| Outcome::Unresolved { status };
        assert_eq!(
            outcomes(&collector),
            [
                (Outcome::Unanswered, 1, 1),
                (unresolved(2), 1, 0),
                (Outcome::Unanswered, 1, 4),
                (Outcome::Accepted, 1, 1),
                (unresolved(1), 1, 1),
                (unresolved(2), 1, 1),
            ]
        );
    }

    #[test]
    fn setups_stay_bounded_and_none_is_lost() {
        let mut collector = Collector::default();
        for id in 0..40_000 {
            collector.message(4, (A, B), &req(id), MS);
            collector.message(4, (B, A), &rej(id, 8), MS);
        }
        assert_eq!((collector.open.len(), collector.order.len()), (MOST_OPEN, MOST_OPEN));
        assert_eq!(outcomes(&collector), [(Outcome::Rejected { reason: 8, by_requester: false }, 40_000, 1)]);
        for service in 0..20_000 {
            let req = Req { local_id: 50_000 + service, local_qp: 1, service_id: service.into(), timeout: 0 };
            collector.message(4, (A, B), &Message::Req(req), MS);
        }
        let setups = collector.metrics();
        let counted: u64 = setups.rows.iter().map(|(_, row)| row.setups).sum();
        assert_eq!((setups.rows.len(), counted + setups.untracked), (MOST_ROWS, 60_000));
    }
}
