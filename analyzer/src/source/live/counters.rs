//! Devices' own counters and queue pairs, and what switches say, read in the background while a
//! run goes on.

use std::collections::BTreeSet;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::posts::PostSampler;
use super::qp_probes::{Modules, QpProbes};
use crate::entity::devices::Devices;
use crate::entity::lives::Calls;
use crate::entity::owners::Owners;
use crate::host::clock::{WallClock, monotonic_ns};
use crate::host::kernel::Capability;
use crate::host::listen::LldpSocket;
use crate::host::queries::Host;
use crate::host::read::Unread;
use crate::host::sysfs::SysRoot;
use crate::sandbox;
use crate::sandbox::plan::Files;
use crate::source::devices::audit::Audit;
use crate::source::devices::context::ask::Clock;
use crate::source::devices::listed;
use crate::source::devices::posts::Plan;
use crate::source::devices::watch::Watch;

/// Between two readings of counters, at least: drivers keep values for as long as 10 ms, and
/// ethtool's are thousands.
const SHORTEST: Duration = Duration::from_millis(500);
/// Between two readings of queue pairs. Each asks the device about every one of them, which takes
/// it some time with thousands; so it rests this many times as long as that and what follows from it took, within bounds: a
/// hundredth of a processor.
pub(super) const QP_REST: u32 = 100;
/// Queue pairs of a short test live for a second or two.
pub(super) const QP_SHORTEST: Duration = SHORTEST;
/// And those of a job for hours; one that its port gives up on has them listed at once.
pub(super) const QP_LONGEST: Duration = Duration::from_secs(20);
/// Time for which the devices' addresses are assumed to stay the same: to read them takes far longer than to read queue pairs.
const ADDRESSES_STAY: Duration = Duration::from_secs(30);
/// Frames of one interface taken at a time: a switch sends one every 30 seconds.
const LLDP_FRAMES: usize = 16;
/// Between two readings of the records of queue pairs: their ring buffer holds some 600, and a thousand
/// queue pairs made and ended in a second are 300 records in that time.
const LIVES_PAUSE: Duration = Duration::from_millis(50);

/// Latest readings of the devices.
#[derive(Clone, Debug, Default)]
pub(super) struct LatestReadings {
    /// Owners of queue pairs.
    pub(super) owners: Arc<Owners>,
    /// Counters of the devices.
    pub(super) devices: Arc<Devices>,
}

/// Devices whose removal has been reported.
#[derive(Debug, Default)]
pub(super) struct Departed(BTreeSet<String>);

impl Departed {
    /// A sentence about each port that is gone, or there again, since the last time.
    pub(super) fn notices(&mut self, devices: &Devices) -> Vec<String> {
        let mut notices = Vec::new();
        for port in &devices.ports {
            let label = port.label();
            if port.gone && self.0.insert(label.clone()) {
                notices.push(format!("{label} was removed; its counts so far stay in the report"));
            } else if !port.gone && self.0.remove(&label) {
                notices.push(format!("{label} is back; packets counted meanwhile may be missing"));
            }
        }
        notices
    }
}

/// Longest time that the end of a run waits for the settings of the host.
const AUDIT_LONGEST: Duration = Duration::from_secs(10);

/// Reads again and again until it is finished, on a thread of its own, so that a slow device holds
/// nothing else up.
#[derive(Debug)]
pub(super) struct Reader {
    known: Arc<Mutex<LatestReadings>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    /// Starts in the network namespace of the calling thread. `interfaces` are names and indices
    /// of what is watched. `None` when no thread can be made: the run then is without device
    /// counters and processes, which harms nothing else.
    pub(super) fn start(
        host: Box<dyn Host>,
        watch: Watch,
        interfaces: &[(String, u32)],
        interval: Duration,
        sample_posts: Option<Plan>,
    ) -> Option<Self> {
        // Without the right to listen, nothing is heard.
        let sockets = interfaces.iter().filter_map(|(name, index)| LldpSocket::open(name, *index).ok());
        let known = Arc::new(Mutex::new(LatestReadings::default()));
        let (stop, stopped) = mpsc::channel();
        // A recorded host has no processes.
        let plan = sample_posts.filter(|_| !watch.is_empty() && host.is_running());
        let posts = plan.and_then(PostSampler::start);
        let work = Work {
            host: Arc::from(host),
            watch,
            sockets: sockets.collect(),
            known: Arc::clone(&known),
            qps_due: Instant::now(),
            addresses: None,
            probes: None,
            earlier: Calls::default(),
            tried: None,
            posts,
            audit: None,
        };
        let interval = interval.max(SHORTEST);
        let read = move || work.run(interval, &stopped);
        let thread = std::thread::Builder::new().name("devices".into()).spawn(read).ok()?;
        Some(Self { known, stop: Some(stop), thread: Some(thread) })
    }

    /// Latest reading of the devices.
    pub(super) fn known(&self) -> LatestReadings {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads a last time and ends.
    pub(super) fn finish(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.finish();
    }
}

struct Work {
    host: Arc<dyn Host>,
    watch: Watch,
    sockets: Vec<LldpSocket>,
    known: Arc<Mutex<LatestReadings>>,
    qps_due: Instant,
    addresses: Option<(Instant, listed::Addresses)>,
    /// `None` before the start; then probes, or the reason for having none.
    probes: Option<Result<QpProbes, String>>,
    /// Calls that probes saw whose modules are gone.
    earlier: Calls,
    /// Modules without which probes could not be attached again.
    tried: Option<Modules>,
    /// `None` when posts are not sampled.
    posts: Option<PostSampler>,
    /// The settings of the host, until they have come.
    audit: Option<Audit>,
}

impl Work {
    fn run(mut self, interval: Duration, stopped: &Receiver<()>) {
        // It reads settings that others may not read, so that it begins before this thread gives up what it does not need;
        // LLDP frames, from the network, are read after that.
        self.audit = if self.watch.is_empty() { None } else { Audit::start(Arc::clone(&self.host)) };
        self.counters();
        // Before queue pairs are listed: that query shows the settings of those that are there already.
        self.probe();
        self.publish(None);
        if self.host.is_running() {
            let _state = sandbox::enter(&self.needs());
        }
        let mut counters_due = Instant::now() + interval;
        loop {
            self.listen();
            self.audited(Duration::ZERO);
            self.probe();
            let (owners, began) = self.queue_pairs().unzip();
            self.publish(owners);
            if let Some(began) = began {
                self.qps_due = Instant::now() + (began.elapsed() * QP_REST).clamp(QP_SHORTEST, QP_LONGEST);
            }
            if self.rest(stopped) {
                break;
            }
            if Instant::now() >= counters_due {
                self.counters();
                counters_due = Instant::now() + interval;
            }
        }
        self.audited(AUDIT_LONGEST);
        // As late as the figures of packets, which stand still by now.
        self.counters();
        self.lives();
        if let Some(posts) = &mut self.posts {
            posts.finish();
        }
        self.publish_last();
    }

    /// Takes in the settings of the host, once, as soon as they have been read.
    fn audited(&mut self, patience: Duration) {
        match self.audit.take().map(|audit| audit.read(patience)) {
            Some(Ok(Some(facts))) => self.watch.learn(facts),
            Some(Err(at_work)) => self.audit = Some(at_work),
            Some(Ok(None)) | None => {}
        }
    }

    /// Privileges that the thread needs from now on.
    fn needs(&self) -> sandbox::Plan {
        let mut plan = sandbox::Plan { netlink: true, ..sandbox::Plan::parser() };
        // Of another network namespace than the one that /sys shows.
        if SysRoot::needs_mount() {
            plan = sandbox::Plan { sysfs: true, ..plan }
                .keeping(Capability::SysAdmin, "sysfs of a network namespace");
        }
        if self.watch.is_empty() {
            plan.files = if plan.sysfs { Files::ReadOnly } else { Files::Listed };
            plan.read.push("/sys".into());
            return plan;
        }
        plan.files = Files::OfProcesses;
        plan = plan.keeping(Capability::SysPtrace, "pods of processes with queue pairs");
        if matches!(self.probes, Some(Ok(_))) {
            plan = plan.probing("probes of the kernel, again when a module is loaded again");
        }
        if self.watch.may_read_contexts() {
            plan = plan.keeping(Capability::NetAdmin, "the NIC's own context of queue pairs");
        }
        plan
    }

    /// Waits for the next reading and empties the ring buffer meanwhile. True when it is time to end.
    fn rest(&mut self, stopped: &Receiver<()>) -> bool {
        let until = Instant::now() + SHORTEST;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let often = matches!(self.probes, Some(Ok(_))) || self.watch.reads_contexts();
            let pause = if often { left.min(LIVES_PAUSE) } else { left };
            if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return true;
            }
            self.lives();
            self.watch.read_contexts(self.host.ask(), &Clocks);
            if Instant::now() >= until {
                return false;
            }
        }
    }

    /// Attaches the probes of the kernel's control path, again after a module was loaded again: its probes are dead.
    fn probe(&mut self) {
        if self.watch.is_empty() || !self.host.is_running() {
            return;
        }
        let Ok(root) = self.host.root() else { return };
        let is_due = match &self.probes {
            None => true,
            Some(Ok(probes)) => probes.is_stale(&root),
            // Not there from the start: nor are the rights that it takes, by now.
            Some(Err(_)) => self.tried.as_ref().is_some_and(|tried| *tried != Modules::of(&root)),
        };
        if is_due {
            self.lives();
            let before = self.probes.as_ref().and_then(|probes| probes.as_ref().ok());
            self.earlier = before.map_or(self.earlier.clone(), |probes| probes.calls().and(&self.earlier));
            let is_again = before.is_some() || self.tried.is_some();
            // Read before: what changes meanwhile is another reason to try.
            self.tried = is_again.then(|| Modules::of(&root));
            self.probes = Some(QpProbes::start(&root).map_err(|error| format!("{error:#}")));
        }
        if let Some(Ok(probes)) = &mut self.probes {
            probes.learn(&root);
        }
    }

    /// Reads what happened to queue pairs on the kernel's control path.
    fn lives(&mut self) {
        take_lives(&mut self.probes, &mut self.watch, self.posts.as_ref(), self.host.as_ref());
    }

    fn counters(&mut self) {
        if self.watch.is_empty() {
            return;
        }
        // Mounted anew each time: a mount that stays would keep the namespace alive.
        if let Ok(root) = self.host.root() {
            let before = self.watch.given_up();
            self.watch.read_counters(&root, self.host.ask(), now_ns());
            self.watch.note_counters(monotonic_ns());
            if self.watch.given_up() > before {
                // Which one it is shows in its state, for as long as its process keeps it.
                self.qps_due = Instant::now();
            }
        }
    }

    /// Lists all queue pairs when that is due; with the time at which it began.
    fn queue_pairs(&mut self) -> Option<(Owners, Instant)> {
        if Instant::now() < self.qps_due {
            return None;
        }
        let root = self.host.root().ok()?;
        let mut unread = Unread::new();
        let known = self.addresses.take().filter(|(read, _)| read.elapsed() < ADDRESSES_STAY);
        let (_, addresses) = self
            .addresses
            .insert(known.unwrap_or_else(|| (Instant::now(), listed::addresses(&root, &mut unread))));
        // It rests for the queue pairs: addresses have a rest of their own.
        let start = Instant::now();
        // Each of them is queried, which makes a record: more of them than there is room for.
        let (probes, watch) = (&mut self.probes, &mut self.watch);
        let (posts, host) = (self.posts.as_ref(), self.host.as_ref());
        let mut between = || take_lives(probes, watch, posts, host);
        let found = listed::read(&root, host.ask(), addresses, &mut unread, &mut between);
        self.watch.take_qps(&found, now_ns());
        self.watch.note_list(&found, u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        if let Some(posts) = &self.posts {
            posts.list(found.list.iter().map(|(_, owner)| owner));
        }
        Some((found.owners, start))
    }

    fn listen(&mut self) {
        #[cfg(feature = "test-clock")]
        crate::sandbox::hijack::here("devices");
        for socket in &self.sockets {
            for _ in 0..LLDP_FRAMES {
                let Ok(Some(neighbour)) = socket.receive() else { break };
                self.watch.hear(socket.name(), neighbour);
            }
        }
    }

    fn publish(&mut self, owners: Option<Owners>) {
        if let Some(probes) = &self.probes {
            let calls = probes.as_ref().map(|probes| probes.calls().and(&self.earlier));
            self.watch.share_lives(calls.map_err(String::as_str));
        }
        self.watch.share_contexts();
        let mut devices = self.watch.sample();
        if let Some(posts) = &self.posts {
            devices.posts = posts.known();
        }
        let devices = Arc::new(devices);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.devices = devices;
        if let Some(owners) = owners {
            let mut owners = owners.with_gone(&known.owners);
            self.watch.add_lives(&mut owners);
            known.owners = Arc::new(owners);
        }
    }

    /// Publishes the events since the last reading of queue pairs, for the last report.
    fn publish_last(&mut self) {
        self.publish(None);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        self.watch.add_lives(Arc::make_mut(&mut known.owners));
    }
}

/// Takes in the records of the probes.
fn take_lives(
    probes: &mut Option<Result<QpProbes, String>>,
    watch: &mut Watch,
    posts: Option<&PostSampler>,
    host: &dyn Host,
) {
    let Some(Ok(probes)) = probes else { return };
    let changes = probes.read(&|device| watch.driver(device), &|| host.root().ok());
    if let Some(posts) = posts {
        posts.take(&changes);
    }
    watch.take_lives(changes);
}

/// Clocks of the host: monotonic and Unix time.
#[derive(Clone, Copy, Debug)]
struct Clocks;

impl Clock for Clocks {
    fn monotonic_ns(&self) -> u64 {
        monotonic_ns()
    }

    fn unix_ns(&self, monotonic_ns: u64) -> u64 {
        WallClock::sample().unix_ns(monotonic_ns)
    }
}

/// Unix time in nanoseconds.
fn now_ns() -> u64 {
    WallClock::sample().unix_ns(monotonic_ns())
}

#[cfg(test)]
#[path = "counters_tests.rs"]
mod tests;
