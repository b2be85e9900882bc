//! Requests and answers that pass before it is known which flows belong together: timed backwards once it is.

use crate::util::map::Map;
use rocescope_common::account::latency::{LatencyMemory, Request, Response, on_request, on_response};

/// Requests, and answers, that a flow keeps. Ports make a pair known at the first answer, PSNs at the eighth: the
/// requests before it are as many as a queue pair has outstanding, up to some hundred.
const KEPT: usize = 1_024;
/// Those that all flows keep together: 12 MiB, in lists that grow by doubling.
const KEPT_IN_ALL: usize = 524_288;
/// Flows that keep any.
const MAX_FLOWS: usize = 16_384;

/// A request or an answer.
#[derive(Clone, Copy, Debug)]
enum Message {
    Request(Request),
    Answer(Response),
}

/// A request or an answer that passed.
#[derive(Clone, Copy, Debug)]
pub(super) struct EarlyMessage {
    message: Message,
    time_ns: u64,
}

impl EarlyMessage {
    /// Makes a request that passed.
    pub(super) const fn request(request: Request, time_ns: u64) -> Self {
        Self { message: Message::Request(request), time_ns }
    }

    /// Makes an answer that passed.
    pub(super) const fn answer(response: Response, time_ns: u64) -> Self {
        Self { message: Message::Answer(response), time_ns }
    }

    /// Adds it to the ring of the requests.
    fn pass(self, ring: &mut impl LatencyMemory) {
        match self.message {
            Message::Request(request) => on_request(ring, request, self.time_ns),
            Message::Answer(response) => on_response(ring, response, self.time_ns),
        }
    }
}

/// Early requests and answers, by slot.
#[derive(Debug, Default)]
pub(super) struct Early {
    flows: Map<u32, Vec<EarlyMessage>>,
    /// Requests and answers in all of them.
    kept: usize,
}

impl Early {
    /// Keeps a request or an answer. False where there is no room, and nothing of this flow is kept any more: an answer
    /// that is missing would leave its request to a later one.
    pub(super) fn keep(&mut self, slot: u32, passed: EarlyMessage) -> bool {
        if self.flows.len() >= MAX_FLOWS && !self.flows.contains_key(&slot) {
            return false;
        }
        let flow = self.flows.entry(slot).or_default();
        if flow.len() < KEPT && self.kept < KEPT_IN_ALL {
            flow.push(passed);
            self.kept += 1;
            return true;
        }
        self.forget(slot);
        false
    }

    fn take(&mut self, slot: u32) -> Vec<EarlyMessage> {
        let flow = self.flows.remove(&slot).unwrap_or_default();
        self.kept -= flow.len();
        flow
    }

    /// Times what two flows kept, which are now known to belong together; gives the number of requests.
    pub(super) fn replay(&mut self, requests: u32, answers: u32, ring: &mut impl LatencyMemory) -> u64 {
        let asked = self.take(requests);
        let answered = self.take(answers);
        let mut answers = answered.iter().peekable();
        for request in &asked {
            while let Some(answer) = answers.next_if(|answer| answer.time_ns < request.time_ns) {
                answer.pass(ring);
            }
            request.pass(ring);
        }
        answers.for_each(|answer| answer.pass(ring));
        asked.len() as u64
    }

    /// The flow of a slot was retired, or began anew.
    pub(super) fn forget(&mut self, slot: u32) {
        self.take(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::latency::Ring;

    fn request(psn: u32, time_ns: u64) -> EarlyMessage {
        EarlyMessage::request(Request { psn, class: 1, message: 0, duplicate_psn: false }, time_ns)
    }

    fn answer(acked: u32, time_ns: u64) -> EarlyMessage {
        EarlyMessage::answer(Response { acked, is_ack: true, ends_read: false }, time_ns)
    }

    #[test]
    fn early_requests_are_timed_backwards() {
        let (mut early, mut ring) = (Early::default(), Ring::default());
        for (slot, passed) in [
            (1, request(10, 1_000)),
            (2, answer(10, 2_001_000)),
            (1, request(11, 2_100_000)),
            (2, answer(11, 2_110_000)),
        ] {
            assert!(early.keep(slot, passed));
        }
        assert_eq!(early.replay(1, 2, &mut ring), 2);
        let all = ring.figure().all.unwrap();
        assert_eq!((all.count, all.max), (2, 2_000_000));
        assert_eq!(early.replay(1, 2, &mut ring), 0);
    }

    /// The answers of a deep queue come when all of it has passed.
    #[test]
    fn a_deep_queue_is_timed_from_its_first_request_on() {
        let (mut early, mut ring) = (Early::default(), Ring::default());
        for psn in 0..48 {
            assert!(early.keep(1, request(psn, 1_000_000 + u64::from(psn))));
        }
        for psn in 0..24 {
            let time_ns = if psn == 0 { 4_000_000 } else { 4_000_000 + u64::from(psn) };
            assert!(early.keep(2, answer(psn, time_ns)));
        }
        assert_eq!((early.replay(1, 2, &mut ring), early.kept), (48, 0));
        let all = ring.figure().all.unwrap();
        assert_eq!((all.count, all.max / 1_000), (24, 3_000));
    }

    #[test]
    fn there_is_room_for_some() {
        let mut early = Early::default();
        let most = u32::try_from(KEPT).unwrap();
        let kept = (0..most + 4).filter(|psn| early.keep(2, answer(*psn, 1_000))).count();
        assert_eq!(kept, KEPT + 3, "the flow begins anew; its slot says that too much passed");
        early.forget(2);
        let flows = u32::try_from(MAX_FLOWS).unwrap() + 9;
        let kept = (0..flows).filter(|slot| early.keep(*slot, request(0, 0))).count();
        assert_eq!((kept, early.flows.len(), early.kept), (MAX_FLOWS, MAX_FLOWS, MAX_FLOWS));
        early.forget(7);
        assert!(early.keep(flows, request(0, 0)));
        let each = u32::try_from(KEPT_IN_ALL / MAX_FLOWS).unwrap() + 1;
        let kept = (0..each * flows).filter(|at| early.keep(at % flows, request(0, 0)));
        assert!(kept.count() > 0);
        assert!(early.kept <= KEPT_IN_ALL && early.kept == early.flows.values().map(Vec::len).sum::<usize>());
    }
}
