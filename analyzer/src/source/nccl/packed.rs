//! What NCCL says of its job as bytes: see [`crate::util::pack`].

use super::{Answer, CommId, Communicator, Event, Nccl, Process, Rank, RankState};
use crate::util::pack::pack;

pack! {
    struct Nccl {
        address, unavailable, answers, failures, answered_ns, interval_ns, latest, communicators, events, events_left_out,
    }
    struct Answer {
        version, whole, communicators, listed, dead, collection_ns, timeouts, not_understood,
    }
    struct Communicator { id, size, furthest, ranks, seen_ns }
    struct CommId { hash, secondary }
    struct Rank { rank, process, gpu, state, error, launched, local, behind_since_ns, state_since_ns }
    struct Process { host, pid }
    struct Event { time_ns, event, process }
}

pack! {
    enum RankState {
        0 => Init, 1 => Running, 2 => Finalize, 3 => Abort, 4 => NoComm, 5 => Unresponsive, 6 => Dead,
    }
}
