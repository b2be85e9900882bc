//! Lives of queue pairs, as the kernel's control path shows them: creation, settings, failed verbs, events, end.

use std::net::IpAddr;
use std::sync::Arc;

use serde::Serialize;

use super::qp_source::QpSource;

/// Name of the event of a queue pair that is found in the error state although nobody asked for it.
pub const TO_ERROR: &str = "RTS to ERR";

/// Name of the event in which a driver says why a queue pair is in the error state.
pub const REASON: &str = "error reason";

/// Origin of a queue pair: a process, by the verbs.
pub const VERBS: &str = "verbs";

/// Origin of a queue pair: a kernel module.
pub const KERNEL: &str = "kernel";

/// Origin of a queue pair: a process, by commands to the firmware past the verbs.
pub const DEVX: &str = "devx";

/// What the names of events begin with that are commands past the verbs.
pub const PAST_VERBS: &str = "DEVX ";

/// Name of the event in which a queue pair was not destroyed.
pub const DESTROY: &str = "destroy";

/// End of a queue pair: its process, or the kernel after that process, destroyed it.
pub const DESTROYED: &str = "destroyed";

/// End of a queue pair: it is in the error state, or was when it was destroyed, and no verb had asked for that.
pub const ERROR: &str = "error";

/// End of a queue pair: its destruction was not seen, and another queue pair has its number.
pub const NUMBER_REUSED: &str = "number_reused";

/// End of a queue pair: its destruction was not seen, and the kernel's lists have it no more.
pub const GONE: &str = "gone";

/// Asynchronous events that leave a queue pair in the error state, and their meaning (IBTA volume 1, 11.6.3).
/// `WQ_FATAL` is none of them: it concerns a work queue that belongs to no queue pair.
pub const FATAL_EVENTS: [(&str, &str); 3] = [
    ("QP_FATAL", "fatal error of its work queue"),
    ("QP_REQ_ERR", "invalid request from its peer"),
    ("QP_ACCESS_ERR", "access error"),
];

/// A queue pair on the control path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QpLife {
    /// Name of the RDMA device.
    pub device: String,
    /// Queue pair number.
    pub lqpn: u32,
    /// Maker: [`VERBS`], [`KERNEL`] or [`DEVX`]; `None` for one made before the run, unless a query showed a process.
    pub origin: Option<&'static str>,
    /// Port, from 1; `None` when not chosen yet.
    pub port: Option<u32>,
    /// Transport: `RC`, `UC`, `UD` …
    pub kind: Option<&'static str>,
    /// State: `RTS`, `ERR` …
    pub state: Option<&'static str>,
    /// Source of the state, if neither a verb or command nor a query showed it: the kernel's list or the NIC's own
    /// context.
    pub state_of: Option<QpSource>,
    /// Process that made it; `None` for one made before the run that was not listed yet.
    pub pid: Option<u32>,
    /// Name of the thread that made it.
    pub comm: Option<String>,
    /// Pod, container or job of that process, as it was when it made the queue pair; `None` for a process of the host,
    /// and where it is not known.
    pub pod: Option<String>,
    /// Number of the queue pair at the other end.
    pub rqpn: Option<u32>,
    /// Its packets' path, its settings, its beginning and end.
    pub control: QpControl,
    /// Properties of its path that commands past the verbs chose.
    pub choices: PathChoices,
}

/// Properties of a path that no verb has: only commands to the firmware set them, and the NIC's own context shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathChoices {
    /// Priority (PCP).
    pub priority: Option<u8>,
    /// The NIC may send its packets on several paths (adaptive routing).
    pub adaptive_routing: Option<bool>,
    /// Plane of a multi-plane port, from 1.
    pub plane: Option<u8>,
    /// Port of the bond that it sends on, from 1.
    pub bond_port: Option<u8>,
    /// UDP source port, set since it was connected: it replaces the one that the driver computes.
    pub udp_port: Option<u16>,
}

/// Times of a queue pair's life by `CLOCK_MONOTONIC`: they keep their order when the wall clock is set. `None`: as
/// the Unix time, or only that is known, as from a recording. Unit: ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonotonicTimes {
    /// Creation.
    pub created_ns: Option<u64>,
    /// Ready to send.
    pub connected_ns: Option<u64>,
    /// The latest time at which it may have existed.
    pub over_ns: Option<u64>,
}

/// Path, settings, beginning and end of a queue pair on the kernel's control path, as sample and report have them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QpControl {
    /// Address that it sends from. This and the following fields up to `end` come from the kernel's control path
    /// (`qp_lives`), some of them else from the NIC's own context (`qp_context`). Null: not seen there.
    pub src: Option<IpAddr>,
    /// Address of the other end. Null: not connected, or neither of the two shows it.
    pub dst: Option<IpAddr>,
    /// UDP source port of its packets: that of the NIC's own context, else computed as the kernel does
    /// (`rdma_get_udp_sport`). Null: no peer (not connected, UD, GSI), not seen, or the driver leaves it to the
    /// firmware (bnxt_re, EFA), sends another by version (ionic), or has another rule (irdma and rxe before kernel
    /// 5.17).
    pub udp_port: Option<u16>,
    /// Flow label of its path, from which drivers that compute `udp_port` take it; 0: none, they take it from both
    /// queue pair numbers. Null: as `dst`.
    pub flow_label: Option<u32>,
    /// DSCP of its packets. Null: as `dst`.
    pub dscp: Option<u8>,
    /// Path MTU. Unit: bytes. Null: as `dst`.
    pub path_mtu: Option<u32>,
    /// Transport timeout as set, 4.096 µs · 2^n; 0 for never. irdma ignores it; its firmware decides. Unit: ns.
    /// Null: as `dst`.
    pub timeout_ns: Option<u64>,
    /// Retries after a timeout or a sequence error. Unit: retries. Null: as `dst`.
    pub retry_cnt: Option<u8>,
    /// Retries after an RNR NAK; 7 for ever. Unit: retries. Null: as `dst`.
    pub rnr_retry: Option<u8>,
    /// Creation. Unit: Unix ns. Null: before the run, or not seen there.
    pub created_ns: Option<u64>,
    /// Time at which it became ready to send (RTS), first or after a reset. Unit: Unix ns. Null: before the run, not
    /// seen there, or it only receives.
    pub connected_ns: Option<u64>,
    /// Time that the verbs to RTR and RTS took together; the first waits for the peer's address to be resolved. Unit:
    /// ns. Null: as `connected_ns`, or past the verbs.
    pub connect_took_ns: Option<u64>,
    /// Destruction. Unit: Unix ns. Null: it exists, or its end was not seen.
    pub ended_ns: Option<u64>,
    /// Bound of its life where its end was not seen: the creation of the queue pair that has its number now, or the
    /// start of the first list without it.
    #[serde(skip)]
    pub reused_ns: Option<u64>,
    /// Three of these times by a clock that is never set.
    #[serde(skip)]
    pub monotonic: MonotonicTimes,
    /// The kind of its end. `destroyed`: in a working state, by its process or because that ended. `error`: it is in
    /// the error state, or was when it was destroyed, and no verb had asked for that (`qp_events` has the reason that
    /// is known). `number_reused`: its destruction was not seen, and another queue pair has its number. `gone`: nor was
    /// that of this one, and the kernel's lists have it no more. Null: it exists and works, or its end was not seen.
    pub end: Option<&'static str>,
}

impl QpControl {
    /// True if the queue pair exists no more.
    pub fn is_over(&self) -> bool {
        self.ended_ns.is_some() || matches!(self.end, Some(NUMBER_REUSED | GONE))
    }

    /// True if this event of its number is its own, as far as its creation and its end are known: numbers are used
    /// again, and an event before or after is of another queue pair.
    pub fn lived_at(&self, event: &QpEvent) -> bool {
        let (made, end, at) = match event.monotonic_ns {
            Some(at) => (self.monotonic.created_ns, self.monotonic.over_ns, at),
            None => (self.created_ns, self.over_by(), event.time_ns),
        };
        made.is_none_or(|made| made <= at) && end.is_none_or(|end| at <= end)
    }

    /// True if it was created or connected after this event, and not after the later one.
    pub fn began_between(&self, earlier: &QpEvent, later: &QpEvent) -> bool {
        let (begins, from, to) = match earlier.monotonic_ns.zip(later.monotonic_ns) {
            Some((from, to)) => ([self.monotonic.created_ns, self.monotonic.connected_ns], from, to),
            None => ([self.created_ns, self.connected_ns], earlier.time_ns, later.time_ns),
        };
        begins.into_iter().flatten().any(|began| from < began && began <= to)
    }

    /// Its creation, for the order among queue pairs with its number.
    pub fn creation_order(&self) -> Option<u64> {
        self.monotonic.created_ns.or(self.created_ns)
    }

    /// Another queue pair has its number.
    pub fn reused(&mut self, by: &Self) {
        (self.reused_ns, self.end) = (by.created_ns, Some(NUMBER_REUSED));
        self.monotonic.over_ns = by.monotonic.created_ns;
    }

    /// The latest time at which it may have existed. Unit: Unix ns. `None`: it exists, or no end is known.
    pub fn over_by(&self) -> Option<u64> {
        self.ended_ns.or(self.reused_ns)
    }

    /// Time from its creation to its end, or else to now, as Unix time and by `CLOCK_MONOTONIC`. `None`: not known, or
    /// known by the Unix times of a recording alone, in which the clock was set back.
    pub fn age_ns(&self, now_ns: Option<u64>, monotonic_ns: Option<u64>) -> Option<u64> {
        if let Some((made, end)) = self.monotonic.created_ns.zip(self.monotonic.over_ns.or(monotonic_ns)) {
            // A sample may have begun before the latest of what it contains.
            return Some(end.saturating_sub(made));
        }
        let (made, end) = self.created_ns.zip(self.over_by().or(now_ns))?;
        end.checked_sub(made)
    }
}

/// The port of a queue pair for management: each port of a device has its own of these numbers (QP0 for subnet
/// management, QP1 for general services, GSI). `None` for all others, which are known by their numbers alone.
pub fn own_port<N: Into<u64>>(lqpn: N, port: Option<N>) -> Option<N> {
    port.filter(|_| lqpn.into() <= 1)
}

/// The transport timeout of this exponent. Unit: ns.
pub fn timeout_ns(exponent: u8) -> u64 {
    match exponent {
        0 => 0,
        _ => 4_096_u64 << exponent.min(31),
    }
}

/// An event of a queue pair or port, or a verb that failed, on the kernel's control path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DeviceQpEvent"))]
pub struct QpEvent {
    /// Its number in the order in which events were found: the clock may step back. One that a later record disproves
    /// is taken out of the list, and its number is not used again.
    #[serde(skip)]
    pub number: u64,
    /// Name of the RDMA device.
    #[serde(skip)]
    pub device: String,
    /// Port of an event of a port.
    #[serde(skip)]
    pub port: Option<u32>,
    /// Time of the event, of the end of the call, or of the query. Unit: Unix ns.
    pub time_ns: u64,
    /// The same by the monotonic clock. `None`: known from a recording.
    #[serde(skip)]
    pub monotonic_ns: Option<u64>,
    /// Number of the queue pair. Null: an event of the port, or the queue pair was not made.
    pub lqpn: Option<u32>,
    /// Asynchronous event (`QP_FATAL`, `PORT_ERR` …), the verb that failed (`modify to RTR`, `destroy`), `RTS to ERR`:
    /// a query found the queue pair in the error state, and no verb had asked for it; or `error reason`: its driver
    /// says why it is in that state.
    pub event: String,
    /// Reason of an `error reason`: the error syndrome that mlx5's firmware gives (kernel 6.4 and newer), or the
    /// reasons of requester and responder of bnxt_re. Null: another event.
    pub reason: Option<String>,
    /// Error number (errno) of a verb that failed. Null: no verb.
    pub errno: Option<i32>,
    /// Duration of a verb that failed. Unit: ns. Null: no verb, or not measured.
    pub duration_ns: Option<u64>,
    /// Process that called the verb, or that owns the queue pair. Null: not known.
    pub pid: Option<u32>,
    /// Its command name. Null: not known.
    pub comm: Option<String>,
    /// Address of the queue pair. Null: not known.
    pub src: Option<IpAddr>,
    /// Address of the other end. Null: not known.
    pub dst: Option<IpAddr>,
    /// Of an `RTS to ERR`: verbs since the queue pair was last seen connected whose results are not known. One of them
    /// may have taken it there.
    #[serde(skip)]
    pub unseen_verbs: u64,
}

/// Calls seen and missed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Verbs that were entered.
    pub entered: u64,
    /// Verbs whose result was not seen: the kernel keeps few places for returns of calls that sleep.
    pub missed_returns: u64,
    /// Verbs that had not returned when the calls were counted.
    pub under_way: u64,
    /// Those of them that may take a queue pair to the error state: all that connect none.
    pub may_end: u64,
    /// Records lost because user space was late.
    pub dropped: u64,
    /// Runs of probes that the kernel skipped, because another probe ran on the same CPU; `None` if it does not count
    /// them (before 6.7), or if the count could not be read.
    pub skipped: Option<u64>,
    /// Probes that could not be attached, each with the reason.
    pub absent: Vec<(String, String)>,
    /// Fields of structures that the kernel's types do not have: what they say is unknown of each queue pair.
    pub absent_fields: Vec<String>,
    /// Commands about queue pairs that were given to the firmware past the verbs (DEVX).
    pub commands: u64,
    /// Those whose end was not seen.
    pub missed_commands: u64,
    /// Reason for which such commands are not followed; `None` when they are.
    pub devx_unavailable: Option<String>,
}

impl QpEvent {
    /// Its time, for the order among others.
    pub fn order(&self) -> u64 {
        self.monotonic_ns.unwrap_or(self.time_ns)
    }

    /// True if it shows that the queue pair is in the error state although no verb asked for that.
    pub fn is_death(&self) -> bool {
        let is_fatal = || FATAL_EVENTS.iter().any(|(name, _)| *name == self.event);
        [TO_ERROR, REASON].contains(&self.event.as_str()) || is_fatal()
    }
}

impl Calls {
    /// These and the ones of probes that are gone.
    #[must_use]
    pub fn and(mut self, earlier: &Self) -> Self {
        let counts = [
            (&mut self.entered, earlier.entered),
            (&mut self.missed_returns, earlier.missed_returns),
            (&mut self.dropped, earlier.dropped),
            (&mut self.commands, earlier.commands),
            (&mut self.missed_commands, earlier.missed_commands),
        ];
        for (now, before) in counts {
            *now = now.saturating_add(before);
        }
        self.skipped = self.skipped.map(|now| now.saturating_add(earlier.skipped.unwrap_or(0)));
        self
    }
}

/// Lists of all queue pairs (RDMA netlink), for which the kernel asks the device about each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// Lists that were read.
    pub lists: u64,
    /// Queue pairs in all of them together: queries of devices, beside those for contexts.
    pub queries: u64,
    /// Time that they took altogether. Unit: ns.
    pub took_ns: u64,
    /// Devices whose queue pairs are not in the latest list, each with the reason.
    pub unlisted: Vec<(String, String)>,
}

/// Everything known from the control path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lives {
    /// Queue pairs that exist, and those that ended last.
    pub qps: Arc<Vec<QpLife>>,
    /// The latest events, the oldest first.
    pub events: Vec<QpEvent>,
    /// Events that there was no room to keep.
    pub events_left_out: u64,
    /// Queue pairs that there was no room to follow or keep.
    pub qps_left_out: u64,
    /// Queue pairs that were made and have no number in the kernel (mlx5's DCT).
    pub unnumbered: u64,
    /// Reason for which nothing can be followed; `None` when probes are attached.
    pub unavailable: Option<String>,
    /// Calls seen and missed.
    pub calls: Calls,
}

impl Lives {
    /// The number of the next event after `seen`.
    pub fn next_number(&self, seen: u64) -> u64 {
        self.events.last().map_or(seen, |last| seen.max(last.number + 1))
    }
}
