//! Lives of queue pairs, as the kernel's control path shows them: creation, settings, failed verbs, events,
//! end. Covers queue pairs whose packets bypass the kernel.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use serde::Serialize;

use crate::host::nldev::QueuePair;
use crate::metrics::pairing::rules;
use crate::source::flows::owners::QpOwner;
use crate::util::map::Map;

/// Queue pairs that ended and are kept for the report.
const MOST_ENDED: usize = 4_096;
/// Queue pairs that are followed.
const MOST_ALIVE: usize = 65_536;
/// Events that are kept.
const MOST_EVENTS: usize = 4_096;
/// A query that takes longer is no reason to take a queue pair for one that is gone.
const LONGEST_QUERY_NS: u64 = 1_000_000_000;

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

/// A queue pair on the control path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QpLife {
    /// RDMA device.
    pub device: String,
    /// Number.
    pub lqpn: u32,
    /// What made it: [`VERBS`], [`KERNEL`] or [`DEVX`]; `None` for one made before the run.
    pub origin: Option<&'static str>,
    /// Port, from 1; `None` when not chosen yet.
    pub port: Option<u32>,
    /// Transport: `RC`, `UC`, `UD` …
    pub kind: Option<&'static str>,
    /// State: `RTS`, `ERR` …
    pub state: Option<&'static str>,
    /// Process that made it; `None` for one made before the run that was not listed yet.
    pub pid: Option<u32>,
    /// Name of the thread that made it.
    pub comm: Option<String>,
    /// Pod, container or job of that process, as it was when it made the queue pair; `None` for a process of the host, and
    /// where it is not known.
    pub pod: Option<String>,
    /// Number of the queue pair at the other end.
    pub rqpn: Option<u32>,
    /// Its packets' path, its settings, its beginning and end.
    pub control: QpControl,
}

/// Path, settings, beginning and end of a queue pair on the kernel's control path, as sample and report have them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QpControl {
    /// Address that it sends from. This and the following fields up to `ended_ns` come from the kernel's control path
    /// (`qp_lives`), some of them else from the NIC's own context (`qp_context`). Null: not seen there.
    pub src: Option<IpAddr>,
    /// Address of the other end. Null: not connected, or neither of the two shows it.
    pub dst: Option<IpAddr>,
    /// UDP source port of its packets: that of the NIC's own context, else computed as the kernel does
    /// (`rdma_get_udp_sport`). Null: not connected, not seen, or the driver leaves it to the firmware (bnxt_re, ionic, EFA).
    pub udp_port: Option<u16>,
    /// DSCP of its packets. Null: as `dst`.
    pub dscp: Option<u8>,
    /// Path MTU. Unit: bytes. Null: as `dst`.
    pub path_mtu: Option<u32>,
    /// Transport timeout, 4.096 µs · 2^n; 0 for never. Unit: ns. Null: as `dst`.
    pub timeout_ns: Option<u64>,
    /// Retries after a timeout or a sequence error. Unit: retries. Null: as `dst`.
    pub retry_cnt: Option<u8>,
    /// Retries after an RNR NAK; 7 for ever. Unit: retries. Null: as `dst`.
    pub rnr_retry: Option<u8>,
    /// Creation. Unit: Unix ns. Null: before the run, or not seen there.
    pub created_ns: Option<u64>,
    /// Destruction. Unit: Unix ns. Null: it exists, or its end was not seen.
    pub ended_ns: Option<u64>,
}

/// The transport timeout of this exponent. Unit: ns.
#[must_use]
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
    /// RDMA device.
    #[serde(skip)]
    pub device: String,
    /// Port of an event of a port.
    #[serde(skip)]
    pub port: Option<u32>,
    /// Time of the event, of the end of the call, or of the query. Unit: Unix ns.
    pub time_ns: u64,
    /// Number of the queue pair. Null: an event of the port, or the queue pair was not made.
    pub lqpn: Option<u32>,
    /// Asynchronous event (`QP_FATAL`, `PORT_ERR` …), the verb that failed (`modify to RTR`), `RTS to ERR`: a
    /// query found the queue pair in the error state, and no verb had asked for it; or `error reason`: its driver says why it
    /// is in that state.
    pub event: String,
    /// Reason of an `error reason`: the error syndrome that mlx5's firmware gives (kernel 6.4 and newer), or the reasons of
    /// requester and responder of bnxt_re. Null: another event.
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
}

/// Calls seen and missed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Verbs that were entered.
    pub entered: u64,
    /// Verbs whose result was not seen: the kernel keeps few places for returns of calls that sleep.
    pub missed_returns: u64,
    /// Records lost because user space was late.
    pub dropped: u64,
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
        self
    }
}

/// Lists of all queue pairs (RDMA netlink), for which the kernel asks the device about each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// Lists that were read.
    pub lists: u64,
    /// Queue pairs in all of them together: queries of devices, beside those for contexts.
    pub queries: u64,
    /// Time that they took altogether. Unit: ns.
    pub took_ns: u64,
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
    /// Reason for which nothing can be followed; `None` when probes are attached.
    pub unavailable: Option<String>,
    /// Calls seen and missed.
    pub calls: Calls,
}

/// A change on the control path, in terms of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The queue pair is as given: made or modified. `None` fields stay as they were.
    Is(QpLife),
    /// The same, when it was queried at this Unix time.
    Found {
        /// The queue pair.
        life: QpLife,
        /// Unix time.
        time_ns: u64,
    },
    /// It ended, at this Unix time.
    Ended {
        /// RDMA device.
        device: String,
        /// Number.
        lqpn: u32,
        /// Unix time.
        time_ns: u64,
    },
    /// Something happened.
    Event(QpEvent),
}

/// Follows queue pairs from change to change.
#[derive(Debug, Default)]
pub struct Follower {
    alive: Map<(String, u32), QpLife>,
    ended: VecDeque<QpLife>,
    events: VecDeque<QpEvent>,
    events_left_out: u64,
    qps_left_out: u64,
    changed: bool,
    sampled: Arc<Lives>,
}

impl Follower {
    /// Takes in one change.
    pub fn take(&mut self, change: Change) {
        match change {
            Change::Is(new) => {
                let key = (new.device.clone(), new.lqpn);
                if new.control.created_ns.is_some()
                    && let Some(before) = self.alive.remove(&key)
                {
                    // Its end was missed: the number is in use again.
                    self.end(before);
                }
                if self.alive.len() >= MOST_ALIVE && !self.alive.contains_key(&key) {
                    self.qps_left_out += 1;
                    self.changed = true;
                    return;
                }
                self.changed |= self.alive.entry(key).or_default().update(new);
            }
            Change::Found { mut life, time_ns } => {
                if self.has_just_ended(&life, time_ns) {
                    return;
                }
                if self.is_older(&life) {
                    life.state = None;
                }
                if self.has_died(&life) {
                    self.take(Change::Event(QpEvent {
                        time_ns,
                        device: life.device.clone(),
                        lqpn: Some(life.lqpn),
                        event: TO_ERROR.to_owned(),
                        ..QpEvent::default()
                    }));
                }
                self.take(Change::Is(life));
            }
            Change::Ended { device, lqpn, time_ns } => {
                self.changed = true;
                let known = self.alive.remove(&(device.clone(), lqpn));
                let mut life = known.unwrap_or(QpLife { device, lqpn, ..QpLife::default() });
                life.control.ended_ns = Some(time_ns);
                self.end(life);
            }
            Change::Event(mut event) => {
                self.changed = true;
                if let Some(life) = event.lqpn.and_then(|lqpn| self.alive.get(&(event.device.clone(), lqpn)))
                {
                    (event.src, event.dst) = (event.src.or(life.control.src), event.dst.or(life.control.dst));
                    event.pid = event.pid.or(life.pid);
                    event.comm = event.comm.or_else(|| life.comm.clone());
                }
                if self.events.len() >= MOST_EVENTS {
                    self.events.pop_front();
                    self.events_left_out += 1;
                }
                self.events.push_back(event);
            }
        }
    }

    /// The kernel lists this process as the one that made a queue pair: for those made before the run.
    pub fn owned(&mut self, owner: &QpOwner) {
        let key = (owner.device.clone(), owner.lqpn);
        let Some(life) = self.alive.get_mut(&key).filter(|_| owner.pid.is_some()) else { return };
        if life.pid.is_none() {
            (life.pid, life.comm, life.pod) = (owner.pid, owner.comm.clone(), owner.pod.clone());
            self.changed = true;
        }
    }

    /// Connected queue pairs that no list of the kernel has, as it would list them.
    pub fn past_verbs(&self) -> impl Iterator<Item = QueuePair> {
        let own = self.alive.values().filter(|life| life.origin == Some(DEVX) && life.rqpn.is_some());
        own.map(|life| QueuePair {
            device: life.device.clone(),
            port: life.port,
            lqpn: life.lqpn,
            rqpn: life.rqpn,
            kind: life.kind.or(Some("RC")),
            state: life.state,
            rq_psn: None,
            sq_psn: None,
            pid: life.pid,
            kernel_name: None,
            subtype: None,
        })
    }

    /// Whether a queue pair is found in the error state that was connected, and that no verb took there: records come in the order
    /// of the calls.
    fn has_died(&self, found: &QpLife) -> bool {
        let before = self.alive.get(&(found.device.clone(), found.lqpn)).and_then(|life| life.state);
        found.state == Some("ERR") && matches!(before, Some("RTR" | "RTS" | "SQD"))
    }

    /// Whether a query ends after the verb that destroyed its queue pair began: it is of the one that is gone.
    fn has_just_ended(&self, found: &QpLife, time_ns: u64) -> bool {
        let since = time_ns.saturating_sub(LONGEST_QUERY_NS);
        let mut lately = self
            .ended
            .iter()
            .rev()
            .take_while(|life| life.control.ended_ns.is_some_and(|ended| ended >= since));
        !self.alive.contains_key(&(found.device.clone(), found.lqpn))
            && lately.any(|life| (life.lqpn, &life.device) == (found.lqpn, &found.device))
    }

    /// Whether a query found what was so before the latest verb: the two overlapped, and the verb was the first to be recorded.
    /// Back to an earlier state a verb leads, too, and would be seen, as the creation was.
    fn is_older(&self, found: &QpLife) -> bool {
        const ORDER: [&str; 4] = ["RESET", "INIT", "RTR", "RTS"];
        let place = |state: Option<&str>| ORDER.iter().position(|known| Some(*known) == state);
        let known = self.alive.get(&(found.device.clone(), found.lqpn));
        let known = known.filter(|life| life.control.created_ns.is_some());
        known.is_some_and(|known| match (place(found.state), place(known.state)) {
            (Some(found), Some(known)) => found < known,
            _ => false,
        })
    }

    fn end(&mut self, life: QpLife) {
        if self.ended.len() >= MOST_ENDED {
            self.ended.pop_front();
            self.qps_left_out += 1;
        }
        self.ended.push_back(life);
    }

    /// All queue pairs, by device, number and age.
    fn sorted(&self) -> Vec<QpLife> {
        let mut qps: Vec<&QpLife> = self.ended.iter().chain(self.alive.values()).collect();
        qps.sort_by(|a, b| {
            (&a.device, a.lqpn, a.control.created_ns).cmp(&(&b.device, b.lqpn, b.control.created_ns))
        });
        qps.into_iter().cloned().collect()
    }

    /// Everything known by now; the same shared copy while nothing changes.
    pub fn sample(&mut self, calls: &Calls, unavailable: Option<&str>) -> Arc<Lives> {
        let same = self.sampled.calls == *calls && self.sampled.unavailable.as_deref() == unavailable;
        if self.changed || !same {
            self.sampled = Arc::new(Lives {
                // Every list is calls, and changes nothing mostly.
                qps: if self.changed { Arc::new(self.sorted()) } else { Arc::clone(&self.sampled.qps) },
                events: self.events.iter().cloned().collect(),
                events_left_out: self.events_left_out,
                qps_left_out: self.qps_left_out,
                unavailable: unavailable.map(str::to_owned),
                calls: calls.clone(),
            });
            self.changed = false;
        }
        Arc::clone(&self.sampled)
    }
}

impl QpLife {
    /// The queue pair and whose it is.
    pub(super) fn owner(&self) -> QpOwner {
        QpOwner {
            device: self.device.clone(),
            lqpn: self.lqpn,
            rqpn: self.rqpn,
            kind: self.kind,
            state: self.state,
            pid: self.pid,
            comm: self.comm.clone(),
            pod: self.pod.clone(),
        }
    }

    /// The pod, container or job it was made in, which may be none. `None`: its making was not seen, so that all that can be
    /// known is where its process is now.
    #[must_use]
    pub fn made_in(&self) -> Option<&Option<String>> {
        self.control.created_ns.map(|_| &self.pod)
    }

    /// Takes over what `new` knows. True when that is more than before: queries mostly find what is known.
    fn update(&mut self, new: Self) -> bool {
        fn set<T: PartialEq>(known: &mut Option<T>, new: Option<T>) -> bool {
            let is_news = new.is_some() && *known != new;
            if is_news {
                *known = new;
            }
            is_news
        }
        let is_first = self.device.is_empty();
        if is_first {
            (self.device, self.lqpn) = (new.device, new.lqpn);
        }
        // The process that made it stays the owner, whoever modifies or queries it.
        let owned = [
            self.pid.is_none() && set(&mut self.pid, new.pid),
            self.comm.is_none() && set(&mut self.comm, new.comm),
            self.pod.is_none() && set(&mut self.pod, new.pod),
        ];
        let (known, control) = (&mut self.control, new.control);
        let news = [
            is_first,
            owned.contains(&true),
            set(&mut self.origin, new.origin),
            set(&mut self.port, new.port),
            set(&mut self.kind, new.kind),
            set(&mut self.state, new.state),
            set(&mut self.rqpn, new.rqpn),
            set(&mut known.src, control.src),
            set(&mut known.dst, control.dst),
            set(&mut known.udp_port, control.udp_port),
            set(&mut known.dscp, control.dscp),
            set(&mut known.path_mtu, control.path_mtu),
            set(&mut known.timeout_ns, control.timeout_ns),
            set(&mut known.retry_cnt, control.retry_cnt),
            set(&mut known.rnr_retry, control.rnr_retry),
            set(&mut known.created_ns, control.created_ns),
        ];
        news.contains(&true)
    }
}

/// The UDP source port of a queue pair (`rdma_get_udp_sport` of rdma/ib_verbs.h), for drivers that use it.
#[must_use]
pub fn udp_source_port(driver: &str, flow_label: u32, lqpn: u32, rqpn: u32) -> Option<u16> {
    const USERS: [&str; 8] =
        ["mlx5_ib", "irdma", "hns_roce", "hns_roce_hw_v2", "erdma", "mana_ib", "mana", "rxe"];
    if !USERS.contains(&driver) {
        return None;
    }
    Some(if flow_label == 0 { rules::of_both(lqpn, rqpn) } else { rules::from_flow_label(flow_label) })
}

#[cfg(test)]
#[path = "lives_tests.rs"]
mod tests;
