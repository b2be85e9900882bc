//! Schedules queries for the contexts of queue pairs within a budget, and tracks refusals and the cost of queries.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

use super::attribution::{Errors, TimeoutAttribution};
use super::budget::Budget;
use super::progress::{Progress, Rules, Timestamps};
use crate::entity::contexts::{ContextSample, Contexts, Queries as Cost, RawContext};
use crate::entity::lives::QpLife;
use crate::entity::qp_source::QpSource;
use crate::host::HostError;
use crate::host::rdma::fwctl::Firmware;
use crate::host::rdma::nldev::{self, Query, QueuePair};
use crate::host::rdma::qp_context::{self, Place, QpContext, Undecodable};
use crate::host::read::queries::Queries;
use crate::source::devices::lives::Span;
use crate::source::devices::psn::{OpenReadings, PortPackets};
use crate::util::map::Map;
use crate::util::time::NS_PER_S;

/// Maximum number of queue pairs that are queried.
const MOST_QPS: usize = 16_384;
/// Interval between two queries for a queue pair that stalls or retries.
const SUSPECT_NS: u64 = 100_000_000;
/// Interval between two queries for any other.
const ORDINARY_NS: u64 = NS_PER_S;
/// Refusals of single queue pairs after which a device without any answer, or one queue pair, is not asked any more.
const REFUSALS: u8 = 3;
/// Interval between two scans for queue pairs that are due.
const QUEUE_NS: u64 = SUSPECT_NS;

/// The clocks; simulated in tests.
pub trait Clock: Debug {
    /// Monotonic time, for durations. Unit: ns.
    fn monotonic_ns(&self) -> u64;
    /// A monotonic time as Unix time. Unit: ns.
    fn unix_ns(&self, monotonic_ns: u64) -> u64;
}

/// Device and number of a port or queue pair.
type Key = (String, u32);
/// Time of the latest query for a queue pair, and its key.
type DueQuery<'a> = (Option<u64>, &'a Key);

/// Port of a watched device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Name of the RDMA device.
    pub device: String,
    /// Index by which RDMA netlink names it.
    pub index: u32,
    /// Number of the port, from 1.
    pub number: u32,
    /// Name of the RDMA driver.
    pub driver: Option<String>,
    /// Addresses by their index in the GID table, as far as contexts can name them.
    pub addresses: Arc<BTreeMap<u8, IpAddr>>,
}

/// Counters of a port since the start of the run; `None` if nothing counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// RoCE packets.
    pub packets: PortPackets,
    /// Number of transport timeouts.
    pub timeouts: Option<u64>,
    /// Sequence-error NAKs received.
    pub sequence_errors: Option<u64>,
}

/// Queries contexts and follows the answers.
#[derive(Debug, Default)]
pub struct Asker {
    budget: Budget,
    ports: Map<Key, PortState>,
    /// What each port has counted, also before its queue pairs are listed.
    counted: Map<Key, PortPackets>,
    devices: Map<String, DeviceState>,
    qps: Map<Key, Qp>,
    /// Queue pairs that are due, longest without a query first: ordinary queue pairs, and suspects. The two queues
    /// alternate.
    queues: [VecDeque<Key>; 2],
    turn: bool,
    /// Monotonic time at which the queues were filled.
    queued_ns: u64,
    /// The second path to contexts, if the user allows it.
    firmware: Option<Box<dyn Firmware>>,
    /// Queue pairs that the kernel does not list and the firmware can be queried for, and those that nothing can.
    past_verbs: Vec<QueuePair>,
    unreached: Vec<QueuePair>,
    /// Devices whose queue pairs could not be listed.
    unlisted: Vec<String>,
    /// States that contexts have shown since they were last taken.
    shown: Vec<(QpLife, Span)>,
    cost: Cost,
    changed: bool,
    sampled: Arc<Contexts>,
}

#[derive(Debug, Default)]
struct PortState {
    port: Port,
    attribution: TimeoutAttribution,
    /// Queue pairs that are too many to be asked for.
    left_out: u64,
}

#[derive(Debug, Default)]
struct DeviceState {
    rules: Rules,
    place: Place,
    answered: bool,
    /// Number of queries that RDMA netlink refused before an answer, and fwctl.
    refusals: [u8; 2],
    refused: Option<String>,
    /// Reason why RDMA netlink refuses contexts, so that the firmware is queried.
    by_firmware: Option<String>,
    firmware_answered: bool,
    /// Reason why the firmware refuses contexts.
    firmware_refused: Option<String>,
    /// Number and length of the latest context that could not be decoded, and the reason.
    undecoded: Option<(u32, u64, String)>,
}

#[derive(Debug)]
struct Qp {
    port: u32,
    rqpn: Option<u32>,
    asked_ns: Option<u64>,
    progress: Option<Progress>,
    /// What its port had counted before the latest context.
    counted: PortPackets,
    /// Contexts that the next counters of the port decide about.
    open: OpenReadings,
    /// Number of refused queries in a row.
    refusals: u8,
    kind: Option<&'static str>,
    /// Still listed by the kernel.
    present: bool,
    /// Not listed by the kernel, so the firmware is queried.
    past_verbs: bool,
}

impl Asker {
    /// An asker with at most `per_second` queries per second; 0 disables queries.
    pub fn new(per_second: u32) -> Self {
        let (budget, cost) = (Budget::new(per_second), Cost { per_second, ..Cost::default() });
        Self { budget, cost, ..Self::default() }
    }

    /// Also queries the firmware: for queue pairs that the kernel does not list, and on devices for which RDMA
    /// netlink provides no contexts.
    pub fn use_firmware(&mut self, firmware: Box<dyn Firmware>) {
        self.firmware = Some(firmware);
    }

    /// True if the firmware of a device can be queried.
    pub fn reaches(&self, device: &str) -> bool {
        self.firmware.as_ref().is_some_and(|firmware| firmware.reaches(device))
    }

    /// Sets the existing queue pairs that the kernel does not list, reached or not. Call it before those of its list.
    pub fn take_past_verbs(&mut self, qps: Vec<QueuePair>) {
        (self.past_verbs, self.unreached) = qps.into_iter().partition(|qp| self.reaches(&qp.device));
    }

    /// Sets the devices that listed no queue pairs: those that are known stay. Call it before those of the list.
    pub fn keep(&mut self, unlisted: Vec<String>) {
        self.unlisted = unlisted;
    }

    /// True if there is something to query.
    pub fn is_active(&self) -> bool {
        let is_open =
            |device: &String| self.devices.get(device).is_none_or(|device| device.refused.is_none());
        self.qps.keys().any(|(device, _)| is_open(device))
    }

    /// True if queries are enabled, whether or not there are queue pairs.
    pub const fn may_ask(&self) -> bool {
        self.budget.per_second > 0
    }

    /// Sets the queue pairs of these ports that the kernel lists.
    pub fn take_qps<'a>(&mut self, ports: &[Port], found: impl Iterator<Item = &'a QueuePair>) {
        if !self.may_ask() {
            return;
        }
        self.take_ports(ports);
        let unlisted = std::mem::take(&mut self.unlisted);
        for (_, state) in self.ports.iter_mut().filter(|((device, _), _)| !unlisted.contains(device)) {
            state.left_out = 0;
        }
        self.qps.iter_mut().for_each(|((device, _), qp)| qp.present = unlisted.contains(device));
        let past_verbs = std::mem::take(&mut self.past_verbs);
        let all = found.map(|qp| (qp, false)).chain(past_verbs.iter().map(|qp| (qp, true)));
        for (qp, past_verbs) in all.filter(|(qp, _)| qp.has_context()) {
            // A context is queried by port.
            let Some(port) = qp.port.filter(|port| self.ports.contains_key(&(qp.device.clone(), *port)))
            else {
                continue;
            };
            let key = (qp.device.clone(), qp.lqpn);
            if self.qps.len() >= MOST_QPS && !self.qps.contains_key(&key) {
                if let Some(state) = self.ports.get_mut(&(key.0, port)) {
                    state.left_out += 1;
                }
                continue;
            }
            let new = || Qp {
                port,
                rqpn: qp.rqpn,
                asked_ns: None,
                progress: None,
                counted: PortPackets::default(),
                open: OpenReadings::default(),
                refusals: 0,
                kind: qp.kind,
                present: true,
                past_verbs,
            };
            let known = self.qps.entry(key).or_insert_with(new);
            if known.rqpn != qp.rqpn || known.port != port {
                // The number is reused by another queue pair.
                *known = new();
            }
            known.present = true;
        }
        for ((device, _), qp) in self.qps.iter().filter(|(_, qp)| !qp.present) {
            if let Some(state) = self.ports.get_mut(&(device.clone(), qp.port)) {
                state.attribution.ended();
            }
        }
        self.qps.retain(|_, qp| qp.present);
        self.queued_ns = 0;
        let unreached = std::mem::take(&mut self.unreached);
        for ((device, number), state) in &mut self.ports {
            state.attribution.of.retain(|lqpn, _| self.qps.contains_key(&(device.clone(), *lqpn)));
            let is_here = |qp: &QueuePair| qp.device == *device && qp.port.is_none_or(|port| port == *number);
            let is_listed = !unlisted.contains(device);
            state.attribution.others = state.left_out > 0 || !is_listed || unreached.iter().any(is_here);
        }
        self.changed = true;
    }

    /// Sets the ports, and forgets what is known of devices that drivers have registered again.
    fn take_ports(&mut self, ports: &[Port]) {
        for port in ports {
            let state = self.ports.entry((port.device.clone(), port.number)).or_default();
            let before = std::mem::replace(&mut state.port, port.clone());
            if before.device == port.device && before.index != port.index {
                state.attribution.ended();
                self.devices.remove(&port.device);
                self.qps.retain(|(device, _), _| *device != port.device);
                self.queues = Default::default();
            }
        }
    }

    /// True if a context of this queue pair was read.
    pub fn has_read(&self, device: &str, lqpn: u32) -> bool {
        self.qps.get(&(device.to_owned(), lqpn)).is_some_and(|qp| qp.progress.is_some())
    }

    /// A queue pair of a device has ended: errors that its port counts at that time may have been its own.
    pub fn ended(&mut self, device: &str) {
        for (_, state) in self.ports.iter_mut().filter(|((name, _), _)| name == device) {
            state.attribution.ended();
        }
    }

    /// Adds the counters of a port, read at a monotonic time.
    pub fn take_counters(&mut self, device: &str, number: u32, counted: PortCounts, now_ns: u64) {
        let key = (device.to_owned(), number);
        self.counted.insert(key.clone(), counted.packets);
        let Some(state) = self.ports.get_mut(&key) else { return };
        let errors = Errors {
            timeouts: counted.timeouts.unwrap_or(0),
            sequence_errors: counted.sequence_errors.unwrap_or(0),
        };
        state.attribution.counted(errors, now_ns);
        for (_, qp) in self.qps.iter_mut().filter(|((name, _), qp)| name == device && qp.port == number) {
            self.changed |= qp.counted(counted.packets);
        }
    }

    /// Sends the queries that are due.
    pub fn run(&mut self, kernel: &dyn Queries, clock: &dyn Clock) {
        if !self.may_ask() || self.qps.is_empty() {
            return;
        }
        let start_ns = clock.monotonic_ns();
        self.budget.begin(start_ns);
        let mut now_ns = start_ns;
        // Queries that become due meanwhile wait for the next call, since other readings share the thread.
        while self.budget.allows(start_ns, now_ns) {
            let Some(key) = self.next(now_ns) else {
                self.budget.skip(now_ns);
                break;
            };
            self.ask(&key, kernel, clock, now_ns);
            let after_ns = clock.monotonic_ns();
            let took_ns = after_ns.saturating_sub(now_ns);
            self.cost.took_ns = self.cost.took_ns.saturating_add(took_ns);
            self.cost.longest_ns = self.cost.longest_ns.max(took_ns);
            self.budget.spend(now_ns, took_ns);
            self.changed = true;
            now_ns = after_ns;
        }
        for ((device, number), state) in &mut self.ports {
            let of = self
                .qps
                .iter()
                .filter(|((name, _), qp)| name == device && qp.port == *number && qp.may_time_out());
            state.attribution.decide(&of.map(|((_, lqpn), qp)| (*lqpn, qp.progress.as_ref())), now_ns);
        }
    }

    /// The next queue pair to query: alternately a suspect and another one.
    fn next(&mut self, now_ns: u64) -> Option<Key> {
        if now_ns.saturating_sub(self.queued_ns) >= QUEUE_NS {
            self.queue(now_ns);
        }
        self.turn = !self.turn;
        let [ordinary, suspects] = &mut self.queues;
        let (first, second) = if self.turn { (suspects, ordinary) } else { (ordinary, suspects) };
        first.pop_front().or_else(|| second.pop_front())
    }

    /// Finds the queue pairs that are due, longest without a query first. Scans all of them, so it runs at intervals
    /// and not for each query.
    fn queue(&mut self, now_ns: u64) {
        self.queued_ns = now_ns;
        let open: Vec<(&Key, &TimeoutAttribution)> = self
            .ports
            .iter()
            .filter(|(_, state)| state.attribution.is_open())
            .map(|(port, state)| (port, &state.attribution))
            .collect();
        let is_suspect = |key: &Key, qp: &Qp| {
            let Some(progress) = &qp.progress else { return false };
            let read_ns = progress.read.monotonic_ns;
            let wanted = |(port, attribution): &(&Key, &TimeoutAttribution)| {
                port.0 == key.0 && port.1 == qp.port && attribution.wants(read_ns)
            };
            progress.suspected_ns == Some(read_ns) || open.iter().any(wanted)
        };
        let refusing: Vec<(&String, bool)> = (self.devices.iter())
            .flat_map(|(name, of)| [(name, false, &of.refused), (name, true, &of.firmware_refused)])
            .filter_map(|(name, past_verbs, why)| why.as_ref().map(|_| (name, past_verbs)))
            .collect();
        let mut due: [Vec<DueQuery<'_>>; 2] = Default::default();
        for (key, qp) in &self.qps {
            let suspect = is_suspect(key, qp);
            let pause_ns = if suspect { SUSPECT_NS } else { ORDINARY_NS };
            let refused = || refusing.iter().any(|(name, past)| *past == qp.past_verbs && **name == key.0);
            let is_due = qp.asked_ns.is_none_or(|asked| now_ns.saturating_sub(asked) >= pause_ns);
            if is_due && qp.refusals < REFUSALS && !refused() {
                due[usize::from(suspect)].push((qp.asked_ns, key));
            }
        }
        let most = self.budget.per_second as usize;
        self.queues = due.map(|mut due| {
            if due.len() > most {
                due.select_nth_unstable(most);
                due.truncate(most);
            }
            due.sort_unstable();
            due.into_iter().map(|(_, key)| key.clone()).collect()
        });
    }

    #[expect(clippy::too_many_lines, reason = "one query and each of its outcomes")]
    fn ask(&mut self, key: &Key, kernel: &dyn Queries, clock: &dyn Clock, now_ns: u64) {
        let Some(qp) = self.qps.get_mut(key) else { return };
        qp.asked_ns = Some(now_ns);
        let port = (key.0.clone(), qp.port);
        let Some(state) = self.ports.get_mut(&port) else { return };
        let counted = self.counted.get(&port).copied().unwrap_or_default();
        let device = self.devices.entry(key.0.clone()).or_default();
        let driver = state.port.driver.as_deref().unwrap_or("");
        let firmware = self.firmware.as_deref().filter(|_| qp.past_verbs || device.by_firmware.is_some());
        let answer = match firmware {
            Some(firmware) => firmware.query_qp(&key.0, key.1),
            None => kernel.rdma(Query::QpContext(state.port.index, qp.port, key.1)).map(|answers| {
                answers.iter().find_map(|answer| nldev::qp_context(answer)).unwrap_or_default()
            }),
        };
        let read = Timestamps { monotonic_ns: now_ns, unix_ns: clock.unix_ns(now_ns) };
        let bytes = match answer {
            Ok(bytes) => bytes,
            // The queue pair ended or moved to another port between the listing and the query.
            Err(error) if matches!(error.errno(), Some(libc::ENOENT | libc::EAGAIN)) => return,
            Err(error) => {
                self.cost.failed += 1;
                if device.is_over(qp, driver, &error, firmware.is_some()) {
                    let reached = self.firmware.as_ref().is_some_and(|firmware| firmware.reaches(&key.0));
                    device.give_up(driver, &error, firmware.is_some(), reached);
                    self.queued_ns = 0;
                    self.queues = Default::default();
                }
                return;
            }
        };
        qp.refusals = 0;
        self.cost.answered += 1;
        self.cost.by_firmware += u64::from(firmware.is_some());
        let decoded = match firmware {
            Some(_) => qp_context::decode_query(&bytes, qp.rqpn),
            None => qp_context::decode(driver, &bytes, key.1, qp.rqpn, &mut device.place),
        };
        match decoded {
            Ok(mut context) => {
                qp.reduce(&mut context);
                *(if firmware.is_some() { &mut device.firmware_answered } else { &mut device.answered }) =
                    true;
                device.rules.learn(&context, qp.progress.as_ref());
                if qp.past_verbs || context.state == Some("ERR") {
                    let (device, lqpn) = key.clone();
                    let life = QpLife {
                        device,
                        lqpn,
                        port: Some(qp.port),
                        state: context.state,
                        state_of: Some(QpSource::Context),
                        ..QpLife::default()
                    };
                    self.shown.push((life, Span { began_ns: now_ns, ended_ns: clock.monotonic_ns() }));
                }
                qp.take(context, read, counted, &device.rules);
                if let Some(progress) = &qp.progress {
                    state.attribution.read(key.1, progress);
                }
            }
            Err(error) => {
                self.cost.failed += 1;
                device.undecoded = Some((key.1, bytes.len() as u64, error.to_string()));
                // A wrong layout concerns the whole device.
                if !device.answered && !device.firmware_answered && !error.is_of_one()
                    || error == Undecodable::NoDefinition
                {
                    device.refused = Some(format!("{} bytes read from {driver}, but {error}", bytes.len()));
                    self.queued_ns = 0;
                    self.queues = Default::default();
                }
            }
        }
    }

    /// The states of queue pairs that contexts have shown since the last call: of those in the error state, and of
    /// those that the kernel does not list.
    pub fn take_shown(&mut self) -> Vec<(QpLife, Span)> {
        std::mem::take(&mut self.shown)
    }

    /// All results so far; the same shared object while nothing changes.
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
        let raw = |(device, of): (&String, &DeviceState)| {
            let (lqpn, bytes, reason) = of.undecoded.clone()?;
            Some(RawContext { device: device.clone(), lqpn, bytes, reason })
        };
        let mut undecoded: Vec<RawContext> = self.devices.iter().filter_map(raw).collect();
        undecoded.sort_by(|a, b| a.device.cmp(&b.device));
        let left_out = self.ports.values().map(|state| state.left_out).sum::<u64>();
        let (queried, of) = (qps.len() as u64, self.qps.len() as u64 + left_out);
        let cost = Cost { queried, of, refused, undecoded, ..self.cost.clone() };
        self.sampled = Arc::new(Contexts { qps, queries: cost });
        Arc::clone(&self.sampled)
    }

    fn sample_of(&self, (device, lqpn): &Key, qp: &Qp) -> Option<ContextSample> {
        let (progress, rules) = (qp.progress.as_ref()?, &self.devices.get(device)?.rules);
        let port = self.ports.get(&(device.clone(), qp.port));
        let address = |index: u8| port?.port.addresses.get(&index).copied();
        Some(ContextSample {
            device: device.clone(),
            port: qp.port,
            lqpn: *lqpn,
            src: progress.context.src_index.and_then(address),
            context: progress.context.clone(),
            read_ns: progress.read.unix_ns,
            read_steady_ns: Some(progress.read.monotonic_ns),
            readings: progress.readings,
            sent: progress.sent,
            received: progress.received,
            ambiguous: progress.ambiguous,
            in_flight: progress.in_flight(rules),
            stuck_ns: progress.stuck_ns(rules),
            retries_used: progress.retries_used(rules),
            rnr_retries_used: progress.rnr_retries_used(rules),
            retrying: progress.retrying,
            rnr_retrying: progress.rnr_retrying,
            receives_exhausted: progress.receives_exhausted,
            times: progress.times.clone(),
            blamed: port.and_then(|state| state.attribution.of.get(lqpn)).copied(),
        })
    }
}

impl Qp {
    /// Its device refuses no other kind of queue pair, if it refuses this one: of all drivers only mlx5 has contexts
    /// and kinds without one (DCT).
    fn is_usual(&self, driver: &str) -> bool {
        driver != "mlx5_ib" || matches!(self.kind, Some("RC" | "UC"))
    }

    /// False for those that wait for no answers: UC has none, and the target of XRC sends no requests.
    fn may_time_out(&self) -> bool {
        !matches!(self.kind, Some("UC" | "XRC_TGT"))
    }

    /// Removes what its kind does not have: a PSN that its one peer has acknowledged (that field never moves for UC),
    /// retries, and all PSNs of DC, which are those of the latest of many peers.
    fn reduce(&self, context: &mut QpContext) {
        if !matches!(self.kind, Some("RC" | "XRC_INI")) {
            context.acked_psn = None;
        }
        if self.kind == Some("DRIVER") {
            (context.next_send_psn, context.next_recv_psn) = (None, None);
        }
        if !self.may_time_out() {
            context.forget_retries();
        }
    }

    /// Takes a context; `counted` was counted before it.
    fn take(&mut self, context: QpContext, read: Timestamps, counted: PortPackets, rules: &Rules) {
        let before = std::mem::replace(&mut self.counted, counted);
        match &mut self.progress {
            Some(progress) => self.open.add(progress.take(context, read, rules), before),
            None => self.progress = Some(Progress::new(context, read, rules)),
        }
    }

    /// Counts the packets of contexts after which the port has counted this. True if there are some.
    fn counted(&mut self, counted: PortPackets) -> bool {
        let decided = self.open.settle(counted);
        if let (Some(progress), Some(decided)) = (&mut self.progress, decided) {
            progress.count(decided);
        }
        decided.is_some()
    }
}

impl DeviceState {
    /// True if a refusal applies to every queue pair of the device: by its kind, or because several queries of usual
    /// queue pairs were refused and none was answered.
    fn is_over(&mut self, qp: &mut Qp, driver: &str, error: &HostError, by_firmware: bool) -> bool {
        match error.errno() {
            Some(libc::EPERM | libc::EACCES | libc::EOPNOTSUPP) => return by_firmware || !self.answered,
            // The node is of a device that was registered again since.
            Some(libc::ENODEV) => return by_firmware,
            Some(libc::EINVAL | libc::EBADMSG) => {}
            // The firmware's own status.
            None if by_firmware => {}
            _ => return false,
        }
        qp.refusals = qp.refusals.saturating_add(1);
        let [netlink, fwctl] = &mut self.refusals;
        let (refusals, answered) =
            if by_firmware { (fwctl, self.firmware_answered) } else { (netlink, self.answered) };
        *refusals = refusals.saturating_add(u8::from(qp.is_usual(driver)));
        *refusals >= REFUSALS && !answered
    }

    /// Asks no more, in the way that was refused; without any other (`reached` is that of the firmware), not at all.
    fn give_up(&mut self, driver: &str, error: &HostError, by_firmware: bool, reached: bool) {
        if by_firmware {
            let why = format!("fwctl: {}", error.cause());
            // A query that RDMA netlink has refused before will be refused again.
            if let Some(netlink) = self.by_firmware.take() {
                self.refused.get_or_insert(format!("{netlink}; {why}"));
            }
            self.firmware_refused = Some(why);
        } else if reached && self.firmware_refused.is_none() {
            self.by_firmware = Some(qp_context::refusal(driver, error));
        } else {
            let fwctl = self.firmware_refused.as_ref().map_or_else(String::new, |why| format!("; {why}"));
            self.refused = Some(format!("{}{fwctl}", qp_context::refusal(driver, error)));
        }
    }
}

#[cfg(test)]
#[path = "ask_tests.rs"]
pub(crate) mod tests;
