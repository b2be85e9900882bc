//! A queue pair as reported by the device, followed across readings.

use super::psn::{Advance, OpenReadings, PortPackets};
use crate::entity::devices::QpSample;
use crate::entity::owners::QpOwner;
use crate::entity::pauses::Stall;
use crate::host::rdma::nldev::QueuePair;

#[derive(Debug, Default)]
pub(super) struct QpWatch {
    qp: QueuePair,
    owner: QpOwner,
    /// Advance of its PSNs in packets, at least, up to the latest counters of the port.
    sent: u64,
    received: u64,
    /// Readings before which there may have been more.
    ambiguous: u64,
    /// Readings that the next counters of the port decide about.
    open: OpenReadings,
    /// Counters were read since its first reading.
    is_counted: bool,
    stalled_ns: u64,
    stall: Stall,
    /// It progressed in the latest interval, or has stalled since.
    busy: bool,
}

impl QpWatch {
    pub(super) fn new(qp: &QueuePair, owner: &QpOwner) -> Self {
        Self { qp: qp.clone(), owner: owner.clone(), ..Self::default() }
    }

    /// True if this is the same queue pair as before with this number.
    pub(super) fn is_same(&self, qp: &QueuePair) -> bool {
        // The peer is set and cleared with the connection.
        let same_peer = self.qp.rqpn.is_none() || qp.rqpn == self.qp.rqpn;
        // After the end of the thread that made it the kernel names no process.
        let same_maker = self.qp.pid == qp.pid || (qp.pid, &qp.kernel_name) == (None, &None);
        same_maker && self.qp.kind == qp.kind && same_peer
    }

    /// Adds its state at the end of a span (start and end, Unix nanoseconds), before which its port had counted
    /// `before`. True if a PSN advanced.
    pub(super) fn advance(
        &mut self,
        qp: &QueuePair,
        owner: &QpOwner,
        before: PortPackets,
        (first_ns, last_ns): (u64, u64),
        paused: bool,
    ) -> bool {
        let span_ns = last_ns.saturating_sub(first_ns);
        // A PSN counts packets once it was set: the receive PSN in the transition to RTR, the send PSN in the one
        // from RTR to RTS (IBTA volume 1, modify QP table). A change across these transitions is no packet count.
        let was_sending = matches!(self.qp.state, Some("RTS" | "SQD" | "SQE"));
        let was_up = was_sending || self.qp.state == Some("RTR");
        // After a return to RESET its PSNs are meaningless, and the latest packets are unknown.
        let is_set = !matches!(qp.state, Some("RESET" | "INIT"));
        let step = |before: Option<u32>, now: Option<u32>| match (before, now) {
            _ if !is_set => Advance::UNKNOWN,
            (Some(before), Some(now)) => Advance::of(before, now),
            // Without a connection there is no PSN.
            (None, _) => Advance::default(),
            (Some(_), None) => Advance::UNKNOWN,
        };
        let changed = was_sending && self.qp.sq_psn != qp.sq_psn || was_up && self.qp.rq_psn != qp.rq_psn;
        if was_up {
            let sent = if was_sending { step(self.qp.sq_psn, qp.sq_psn) } else { Advance::default() };
            let received = step(self.qp.rq_psn, qp.rq_psn);
            self.open.add([sent, received], before);
            let ready = qp.state == Some("RTS");
            if !changed && ready && self.busy && paused {
                self.stalled_ns = self.stalled_ns.saturating_add(span_ns);
                self.stall.add((first_ns, last_ns), span_ns);
            } else {
                self.busy = changed;
            }
        }
        let before = self.owner.clone();
        self.owner = owner.clone();
        if self.owner.pid.is_none() && before.pid.is_some() {
            (self.owner.pid, self.owner.comm, self.owner.pod) = (before.pid, before.comm, before.pod);
        }
        self.qp = QueuePair { pid: qp.pid.or(self.qp.pid), ..qp.clone() };
        changed
    }

    /// Counts the packets of readings after which the port has counted this. True if its sample has changed.
    pub(super) fn counted(&mut self, counted: PortPackets) -> bool {
        let is_first = !std::mem::replace(&mut self.is_counted, true);
        let Some(decided) = self.open.settle(counted) else { return is_first };
        let [sent, received] = decided.packets;
        self.sent = self.sent.saturating_add(sent);
        self.received = self.received.saturating_add(received);
        self.ambiguous += decided.ambiguous;
        true
    }

    /// `moving` is true if the device reports current PSNs. Those of DC are of the latest of many peers.
    pub(super) fn sample(&self, moving: bool) -> QpSample {
        let moves = moving && self.qp.kind != Some("DRIVER");
        let counts = moves && self.is_counted;
        QpSample {
            owner: self.owner.clone(),
            // Before the transitions that set them, drivers report a 0.
            sq_psn: self.qp.sq_psn.filter(|_| !matches!(self.qp.state, Some("RESET" | "INIT" | "RTR"))),
            rq_psn: self.qp.rq_psn.filter(|_| !matches!(self.qp.state, Some("RESET" | "INIT"))),
            sent: Some(self.sent).filter(|_| counts && self.qp.sq_psn.is_some()),
            received: Some(self.received).filter(|_| counts && self.qp.rq_psn.is_some()),
            ambiguous: if counts { self.ambiguous } else { 0 },
            stalled_ns: moves.then_some(self.stalled_ns),
            stall: self.stall,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(pid: Option<u32>, kernel_name: Option<&str>) -> (QueuePair, QpOwner) {
        let qp = QueuePair {
            device: "mlx5_0".into(),
            port: Some(1),
            lqpn: 17,
            rqpn: Some(29),
            kind: Some("RC"),
            state: Some("RTS"),
            rq_psn: Some(1),
            sq_psn: Some(1),
            pid,
            kernel_name: kernel_name.map(str::to_owned),
            subtype: None,
        };
        (qp, QpOwner { lqpn: 17, pid, comm: pid.map(|_| "train".to_owned()), ..QpOwner::default() })
    }

    #[test]
    fn psns_of_dc_count_no_packets() {
        let (rc, owner) = listed(Some(4_711), None);
        for (kind, expected) in [("RC", Some(9)), ("DRIVER", None)] {
            let first = QueuePair { kind: Some(kind), ..rc.clone() };
            let mut followed = QpWatch::new(&first, &owner);
            let later = QueuePair { sq_psn: Some(10), ..first };
            assert!(followed.advance(&later, &owner, PortPackets::default(), (0, 1), false));
            assert!(followed.counted(PortPackets::default()));
            assert_eq!(followed.sample(true).sent, expected, "{kind}");
        }
    }

    /// A list from before a verb may stand beside the newer state that the verb has set.
    #[test]
    fn psns_that_no_verb_has_set_are_unknown() {
        let (ready, owner) = listed(Some(4_711), None);
        for (state, sq_psn, rq_psn) in [
            (Some("RESET"), None, None),
            (Some("INIT"), None, None),
            (Some("RTR"), None, Some(1)),
            (Some("RTS"), Some(1), Some(1)),
            (Some("ERR"), Some(1), Some(1)),
            (None, Some(1), Some(1)),
        ] {
            let sample = QpWatch::new(&QueuePair { state, ..ready.clone() }, &owner).sample(true);
            assert_eq!((sample.sq_psn, sample.rq_psn), (sq_psn, rq_psn), "{state:?}");
        }
    }

    /// The kernel names the thread that made it, as long as that runs.
    #[test]
    fn a_queue_pair_whose_thread_has_ended_stays_the_same_with_its_owner() {
        let (qp, owner) = listed(Some(4_711), None);
        let mut followed = QpWatch::new(&qp, &owner);
        let (nameless, nobody) = listed(None, None);
        assert!(followed.is_same(&nameless));
        followed.advance(&nameless, &nobody, PortPackets::default(), (0, 1), false);
        assert_eq!(followed.sample(true).owner, owner);
        let others = [listed(Some(4_712), None), listed(None, Some("ib_core"))];
        assert!(others.iter().all(|(other, _)| !followed.is_same(other)) && followed.is_same(&qp));
    }
}
