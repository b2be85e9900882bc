//! Which queue pair to ask about next, within a budget; refusals; what the queries cost.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

use super::blame::{Blame, Errors};
use super::progress::{Most, Progress, Rules, Timestamps};
use crate::entity::contexts::{ContextSample, Contexts, Queries as Cost};
use crate::host::HostError;
use crate::host::fwctl::Firmware;
use crate::host::nldev::{self, Query, QueuePair};
use crate::host::qp_context::{self, QpContext, Undecodable};
use crate::host::queries::Queries;
use crate::util::map::Map;

/// Queue pairs that are asked about.
const MOST_QPS: usize = 16_384;
/// Between two queries about a queue pair that stands still or retries.
const SUSPECT_NS: u64 = 100_000_000;
/// Between two queries about any other.
const ORDINARY_NS: u64 = 1_000_000_000;
/// After a query, at least this many times its own duration without one: a device whose firmware is slow is not held up.
const REST: u64 = 9;
/// Queries that may be made up for after a pause, in time.
const MOST_LATE_NS: u64 = 500_000_000;
/// Between two scans for queue pairs that are due.
const QUEUE_NS: u64 = SUSPECT_NS;
const SECOND_NS: u64 = 1_000_000_000;

/// The clocks; virtual ones in tests.
pub trait Clock: Debug {
    /// For durations. Unit: ns.
    fn monotonic_ns(&self) -> u64;
    /// The same moment as Unix time. Unit: ns.
    fn unix_ns(&self, monotonic_ns: u64) -> u64;
}

/// Device, and the number of a port or queue pair.
type Key = (String, u32);
/// Time of the latest query for a queue pair, and its key.
type Due<'a> = (Option<u64>, &'a Key);

/// Port of a watched device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Name of the RDMA device.
    pub device: String,
    /// By which RDMA netlink names it.
    pub index: u32,
    /// Number of the port, from 1.
    pub number: u32,
    /// Name of the RDMA driver.
    pub driver: Option<String>,
}

/// Counters of a port since the run began; `None` where nothing counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Number of RoCE packets sent.
    pub sent: Option<u64>,
    /// Number of RoCE packets received.
    pub received: Option<u64>,
    /// Number of transport timeouts.
    pub timeouts: Option<u64>,
    /// NAKs received for a PSN sequence error.
    pub sequence_errors: Option<u64>,
}

/// Asks, and follows what is answered.
#[derive(Debug, Default)]
pub struct Asker {
    per_second: u32,
    ports: Map<Key, PortState>,
    devices: Map<String, DeviceState>,
    qps: Map<Key, Qp>,
    /// Monotonic time of the next query.
    due_ns: u64,
    /// Queue pairs that are due, those without a query for longest first: ordinary queue pairs, suspects. They take turns.
    queues: [VecDeque<Key>; 2],
    turn: bool,
    /// Monotonic time at which the queues were filled.
    queued_ns: u64,
    /// The second way to contexts, where the user allows it.
    firmware: Option<Box<dyn Firmware>>,
    /// Queue pairs that the kernel does not list, for the firmware alone.
    past_verbs: Vec<QueuePair>,
    cost: Cost,
    changed: bool,
    sampled: Arc<Contexts>,
}

#[derive(Debug, Default)]
struct PortState {
    port: Port,
    counted: Counted,
    blame: Blame,
}

#[derive(Debug, Default)]
struct DeviceState {
    rules: Rules,
    answered: bool,
    refused: Option<String>,
    /// RDMA netlink refuses contexts, and the firmware is asked.
    by_firmware: bool,
    /// Reason for which the firmware refuses contexts.
    firmware_refused: Option<String>,
}

#[derive(Debug)]
struct Qp {
    port: u32,
    rqpn: Option<u32>,
    asked_ns: Option<u64>,
    progress: Option<Progress>,
    /// Counters of its port at the latest context.
    counted: Counted,
    /// Still listed by the kernel.
    present: bool,
    /// The kernel does not list it: the firmware is asked.
    past_verbs: bool,
}

impl Asker {
    /// `per_second` queries at most; 0 for none.
    #[must_use]
    pub fn new(per_second: u32) -> Self {
        Self { per_second, cost: Cost { per_second, ..Cost::default() }, ..Self::default() }
    }

    /// Has the firmware asked, too: about queue pairs that the kernel does not list, and where RDMA netlink hands out none.
    pub fn use_firmware(&mut self, firmware: Box<dyn Firmware>) {
        self.firmware = Some(firmware);
    }

    /// True when the firmware of a device can be asked.
    #[must_use]
    pub fn reaches(&self, device: &str) -> bool {
        self.firmware.as_ref().is_some_and(|firmware| firmware.reaches(device))
    }

    /// Takes in the queue pairs that exist and that the kernel does not list, before those that it lists.
    pub fn take_past_verbs(&mut self, qps: Vec<QueuePair>) {
        self.past_verbs = qps;
    }

    /// True when there is something to ask.
    #[must_use]
    pub fn is_active(&self) -> bool {
        let is_open =
            |device: &String| self.devices.get(device).is_none_or(|device| device.refused.is_none());
        self.qps.keys().any(|(device, _)| is_open(device))
    }

    /// True when queue pairs may be asked about, as soon as there are any.
    #[must_use]
    pub const fn may_ask(&self) -> bool {
        self.per_second > 0
    }

    /// Takes in the queue pairs that the kernel lists, of these ports.
    pub fn take_qps<'a>(&mut self, ports: &[Port], found: impl Iterator<Item = &'a QueuePair>) {
        if !self.may_ask() {
            return;
        }
        for port in ports {
            let state = self.ports.entry((port.device.clone(), port.number)).or_default();
            state.port = port.clone();
        }
        self.qps.values_mut().for_each(|qp| qp.present = false);
        let past_verbs = std::mem::take(&mut self.past_verbs);
        let all = found.map(|qp| (qp, false)).chain(past_verbs.iter().map(|qp| (qp, true)));
        for (qp, past_verbs) in all.filter(|(qp, _)| has_context(qp)) {
            // A context is asked for by port.
            let Some(port) = qp.port.filter(|port| self.ports.contains_key(&(qp.device.clone(), *port)))
            else {
                continue;
            };
            let key = (qp.device.clone(), qp.lqpn);
            if self.qps.len() >= MOST_QPS && !self.qps.contains_key(&key) {
                continue;
            }
            let new = || Qp {
                port,
                rqpn: qp.rqpn,
                asked_ns: None,
                progress: None,
                counted: Counted::default(),
                present: true,
                past_verbs,
            };
            let known = self.qps.entry(key).or_insert_with(new);
            if known.rqpn != qp.rqpn || known.port != port {
                // The number is in use again.
                *known = new();
            }
            known.present = true;
        }
        for ((device, _), qp) in self.qps.iter().filter(|(_, qp)| !qp.present) {
            if let Some(state) = self.ports.get_mut(&(device.clone(), qp.port)) {
                state.blame.ended();
            }
        }
        self.qps.retain(|_, qp| qp.present);
        self.queued_ns = 0;
        for ((device, _), state) in &mut self.ports {
            state.blame.of.retain(|lqpn, _| self.qps.contains_key(&(device.clone(), *lqpn)));
        }
        self.changed = true;
    }

    /// A queue pair of a device has ended: errors that its port counts at that time may have been its own.
    pub fn ended(&mut self, device: &str) {
        for (_, state) in self.ports.iter_mut().filter(|((name, _), _)| name == device) {
            state.blame.ended();
        }
    }

    /// Takes in the counters of a port, at a monotonic time.
    pub fn take_counters(&mut self, device: &str, number: u32, counted: Counted, now_ns: u64) {
        let Some(state) = self.ports.get_mut(&(device.to_owned(), number)) else { return };
        state.counted = counted;
        let errors = Errors {
            timeouts: counted.timeouts.unwrap_or(0),
            sequence_errors: counted.sequence_errors.unwrap_or(0),
        };
        state.blame.counted(errors, now_ns);
    }

    /// Asks about as many queue pairs as are due.
    pub fn run(&mut self, kernel: &dyn Queries, clock: &dyn Clock) {
        if self.per_second == 0 || self.qps.is_empty() {
            return;
        }
        let interval_ns = (SECOND_NS / u64::from(self.per_second)).max(1);
        let start_ns = clock.monotonic_ns();
        self.due_ns = self.due_ns.max(start_ns.saturating_sub(MOST_LATE_NS));
        // Queries that fall due while it asks wait for the next time: other readings share the thread.
        while self.due_ns <= start_ns {
            let now_ns = clock.monotonic_ns();
            let Some(key) = self.next(now_ns) else {
                self.due_ns = now_ns;
                break;
            };
            self.ask(&key, kernel, clock, now_ns);
            let took_ns = clock.monotonic_ns().saturating_sub(now_ns);
            self.cost.took_ns = self.cost.took_ns.saturating_add(took_ns);
            self.cost.longest_ns = self.cost.longest_ns.max(took_ns);
            self.due_ns += interval_ns.max(took_ns.saturating_mul(REST + 1));
            self.changed = true;
        }
        let now_ns = clock.monotonic_ns();
        for ((device, number), state) in &mut self.ports {
            let of = self.qps.iter().filter(|((name, _), qp)| name == device && qp.port == *number);
            state.blame.decide(&of.map(|((_, lqpn), qp)| (*lqpn, qp.progress.as_ref())), now_ns);
        }
    }

    /// The queue pair to ask about: suspects and the others in turns.
    fn next(&mut self, now_ns: u64) -> Option<Key> {
        if now_ns.saturating_sub(self.queued_ns) >= QUEUE_NS {
            self.queue(now_ns);
        }
        self.turn = !self.turn;
        let [ordinary, suspects] = &mut self.queues;
        let (first, second) = if self.turn { (suspects, ordinary) } else { (ordinary, suspects) };
        first.pop_front().or_else(|| second.pop_front())
    }

    /// Finds the queue pairs that are due, those not asked about for longest first. A scan of all of them, so it is done
    /// now and then and not for each query.
    fn queue(&mut self, now_ns: u64) {
        self.queued_ns = now_ns;
        let open: Vec<(&Key, &Blame)> = self
            .ports
            .iter()
            .filter(|(_, state)| state.blame.is_open())
            .map(|(port, state)| (port, &state.blame))
            .collect();
        let is_suspect = |key: &Key, qp: &Qp| {
            let Some(progress) = &qp.progress else { return false };
            let read_ns = progress.read.monotonic_ns;
            let wanted =
                |(port, blame): &(&Key, &Blame)| port.0 == key.0 && port.1 == qp.port && blame.wants(read_ns);
            progress.suspected_ns == Some(read_ns) || open.iter().any(wanted)
        };
        let refusing: Vec<(&String, bool)> = (self.devices.iter())
            .flat_map(|(name, of)| [(name, false, &of.refused), (name, true, &of.firmware_refused)])
            .filter_map(|(name, past_verbs, why)| why.as_ref().map(|_| (name, past_verbs)))
            .collect();
        let mut due: [Vec<Due<'_>>; 2] = Default::default();
        for (key, qp) in &self.qps {
            let suspect = is_suspect(key, qp);
            let pause_ns = if suspect { SUSPECT_NS } else { ORDINARY_NS };
            let refused = || refusing.iter().any(|(name, past)| *past == qp.past_verbs && **name == key.0);
            if qp.asked_ns.is_none_or(|asked| now_ns.saturating_sub(asked) >= pause_ns) && !refused() {
                due[usize::from(suspect)].push((qp.asked_ns, key));
            }
        }
        let most = self.per_second as usize;
        self.queues = due.map(|mut due| {
            if due.len() > most {
                due.select_nth_unstable(most);
                due.truncate(most);
            }
            due.sort_unstable();
            due.into_iter().map(|(_, key)| key.clone()).collect()
        });
    }

    fn ask(&mut self, key: &Key, kernel: &dyn Queries, clock: &dyn Clock, now_ns: u64) {
        let Some(qp) = self.qps.get_mut(key) else { return };
        qp.asked_ns = Some(now_ns);
        let Some(state) = self.ports.get(&(key.0.clone(), qp.port)) else { return };
        let device = self.devices.entry(key.0.clone()).or_default();
        let driver = state.port.driver.as_deref().unwrap_or("");
        let firmware = self.firmware.as_deref().filter(|_| qp.past_verbs || device.by_firmware);
        let answer = match firmware {
            Some(firmware) => firmware.query_qp(&key.0, key.1),
            None => kernel.rdma(Query::QpContext(state.port.index, qp.port, key.1)).map(|answers| {
                answers.iter().find_map(|answer| nldev::qp_context(answer)).unwrap_or_default()
            }),
        };
        let read = Timestamps { monotonic_ns: now_ns, unix_ns: clock.unix_ns(now_ns) };
        let bytes = match answer {
            Ok(bytes) => bytes,
            // It ended, or moved to another port, between the listing and the query.
            Err(error) if matches!(error.errno(), Some(libc::ENOENT | libc::EAGAIN)) => return,
            Err(error) => {
                self.cost.failed += 1;
                if firmware.is_some() && is_final(&error) {
                    device.firmware_refused = Some(format!("fwctl: {}", error.cause()));
                    // A query that RDMA netlink refused before is refused again.
                    device.refused = device
                        .refused
                        .take()
                        .or_else(|| device.by_firmware.then(|| format!("fwctl: {}", error.cause())));
                } else if firmware.is_some() || device.answered || !is_final(&error) {
                    return;
                } else if self.firmware.as_ref().is_some_and(|firmware| firmware.reaches(&key.0)) {
                    device.by_firmware = true;
                } else {
                    device.refused = Some(refusal(driver, &error));
                }
                self.queued_ns = 0;
                self.queues = Default::default();
                return;
            }
        };
        self.cost.answered += 1;
        self.cost.by_firmware += u64::from(firmware.is_some());
        let decoded = match firmware {
            Some(_) => qp_context::decode_query(&bytes, qp.rqpn),
            None => qp_context::decode(driver, &bytes, key.1, qp.rqpn),
        };
        match decoded {
            Ok(context) => {
                device.answered = true;
                device.rules.learn(&context);
                qp.take(context, read, state.counted, &device.rules);
            }
            Err(error) => {
                self.cost.failed += 1;
                // A wrong layout is the device's; a short answer may be that of one queue pair.
                if !device.answered && error != Undecodable::Incomplete || error == Undecodable::NoDefinition
                {
                    device.refused = Some(format!("{} bytes read from {driver}, but {error}", bytes.len()));
                    self.queued_ns = 0;
                    self.queues = Default::default();
                }
            }
        }
    }

    /// Everything known by now; the same shared copy while nothing changes.
    pub fn sample(&mut self) -> Arc<Contexts> {
        if !self.changed {
            return Arc::clone(&self.sampled);
        }
        self.changed = false;
        let mut qps: Vec<ContextSample> =
            self.qps.iter().filter_map(|(key, qp)| self.sample_of(key, qp)).collect();
        qps.sort_by(|a, b| (&a.device, a.lqpn).cmp(&(&b.device, b.lqpn)));
        let why = |of: &DeviceState| of.refused.clone().or_else(|| of.firmware_refused.clone());
        let mut refused: Vec<(String, String)> =
            self.devices.iter().filter_map(|(name, of)| Some((name.clone(), why(of)?))).collect();
        refused.sort();
        let queries =
            Cost { queried: qps.len() as u64, of: self.qps.len() as u64, refused, ..self.cost.clone() };
        self.sampled = Arc::new(Contexts { qps, queries });
        Arc::clone(&self.sampled)
    }

    fn sample_of(&self, (device, lqpn): &Key, qp: &Qp) -> Option<ContextSample> {
        let (progress, rules) = (qp.progress.as_ref()?, &self.devices.get(device)?.rules);
        let port = self.ports.get(&(device.clone(), qp.port));
        Some(ContextSample {
            device: device.clone(),
            port: qp.port,
            lqpn: *lqpn,
            context: progress.context.clone(),
            read_ns: progress.read.unix_ns,
            readings: progress.readings,
            sent: progress.sent,
            received: progress.received,
            in_flight: progress.in_flight(rules),
            stuck_ns: progress.stuck_ns(rules),
            retries_used: progress.retries_used(rules),
            rnr_retries_used: progress.rnr_retries_used(rules),
            retrying: progress.retrying,
            rnr_retrying: progress.rnr_retrying,
            receives_exhausted: progress.receives_exhausted,
            blamed: port.and_then(|state| state.blame.of.get(lqpn)).copied(),
        })
    }
}

impl Qp {
    fn take(&mut self, context: QpContext, read: Timestamps, counted: Counted, rules: &Rules) {
        // The counters are up to a second older than the context: twice their increase covers the packets since.
        let since = |now: Option<u64>, then: Option<u64>| Some(now?.checked_sub(then?)?.saturating_mul(2));
        let most = Most {
            sent: since(counted.sent, self.counted.sent),
            received: since(counted.received, self.counted.received),
        };
        self.counted = counted;
        match &mut self.progress {
            Some(progress) => progress.take(context, read, most, rules),
            None => self.progress = Some(Progress::new(context, read, rules)),
        }
    }
}

/// True for a queue pair that can have packets in flight: connected, and past INIT.
fn has_context(qp: &QueuePair) -> bool {
    let connected = matches!(qp.kind, Some("RC" | "UC" | "XRC_INI" | "XRC_TGT" | "DRIVER"));
    connected && !matches!(qp.state, Some("RESET" | "INIT"))
}

/// True for a refusal that holds for every queue pair of the device.
fn is_final(error: &HostError) -> bool {
    matches!(
        error.errno(),
        Some(libc::EPERM | libc::EACCES | libc::EOPNOTSUPP | libc::EINVAL | libc::EBADMSG)
    )
}

fn refusal(driver: &str, error: &HostError) -> String {
    let driver = if driver.is_empty() { "the driver" } else { driver };
    match error.errno() {
        Some(libc::EPERM | libc::EACCES) => "CAP_NET_ADMIN is missing (EPERM)".to_owned(),
        Some(libc::EINVAL) => format!("{driver} of this kernel hands out no QP context (EINVAL)"),
        Some(libc::EOPNOTSUPP) => {
            format!("the device or its firmware does not support dumps of QP contexts ({driver}, EOPNOTSUPP)")
        }
        _ => error.cause(),
    }
}

#[cfg(test)]
#[path = "ask_tests.rs"]
pub(crate) mod tests;
