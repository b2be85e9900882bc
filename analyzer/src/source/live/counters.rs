//! Reads device counters, queue pairs and announcements of switches in the background of a run.

use std::collections::BTreeSet;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::posts::PostSampler;
use super::qp_probes::{Modules, QpProbes};
use crate::entity::devices::Devices;
use crate::entity::lives::Calls;
use crate::entity::owners::Owners;
use crate::host::kernel::Capability;
use crate::host::kernel::clock::{WallClock, monotonic_ns};
use crate::host::net::listen::LldpSocket;
use crate::host::read::UnreadReasons;
use crate::host::read::queries::Host;
use crate::sandbox;
use crate::sandbox::plan::Files;
use crate::source::devices::audit::Audit;
use crate::source::devices::context::ask::Clock;
use crate::source::devices::listed;
use crate::source::devices::posts::Plan;
use crate::source::devices::watch::Watch;
use crate::util::lock::Locked;

/// Minimum interval of counter readings: drivers cache values for up to 10 ms, and ethtool has thousands.
const SHORTEST: Duration = Duration::from_millis(500);
/// Pause between two listings of queue pairs, as a multiple of the time that a listing and its evaluation take: a
/// hundredth of a CPU. A listing queries the device for every queue pair, which takes time if there are thousands.
const QP_REST: u32 = 100;
/// The same from pauses of [`QP_LONG`] on: two hundredths.
const QP_LONG_REST: u32 = 50;
/// The same after a retry error of the port: it may have many of them.
const QP_LEAST_REST: u32 = 10;
/// Minimum pause: queue pairs of a short test live for a second or two.
const QP_SHORTEST: Duration = SHORTEST;
/// Pause that is long where a listing was held up, and usual where there are ten thousands of queue pairs.
const QP_LONG: Duration = Duration::from_secs(20);
/// Time for which device addresses are assumed unchanged: reading them takes far longer than listing queue pairs.
const ADDRESSES_STAY: Duration = Duration::from_secs(30);
/// Maximum number of frames taken per interface at a time: a switch sends one every 30 seconds.
const LLDP_FRAMES: usize = 16;
/// Interval of reading the records of queue pairs. The programs wake nobody up: that would be an interrupt in which the
/// kernel skips probes.
pub(super) const LIVES_PAUSE: Duration = Duration::from_millis(20);

/// Pause after a listing that took this long: one that was held up once is no reason to miss what follows for minutes.
pub(super) fn list_pause(took: Duration) -> Duration {
    (took * QP_REST).clamp(QP_SHORTEST, QP_LONG.max(took * QP_LONG_REST))
}

/// Time of the next listing, and the earliest one if something has happened.
#[derive(Clone, Copy, Debug)]
struct NextList {
    due: Instant,
    earliest: Instant,
}

impl NextList {
    fn new(now: Instant) -> Self {
        Self { due: now, earliest: now }
    }

    /// After a listing that took this long.
    fn after(now: Instant, took: Duration) -> Self {
        Self { due: now + list_pause(took), earliest: now + took * QP_LEAST_REST }
    }

    /// Queue pairs may have ended.
    fn hurry(&mut self, now: Instant) {
        self.due = self.due.min(self.earliest.max(now));
    }
}

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
pub(super) struct RemovedPorts(BTreeSet<String>);

impl RemovedPorts {
    /// A sentence about each port that has disappeared or returned since the last call.
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

/// Maximum wait for the settings of the host at the end of a run.
const AUDIT_LONGEST: Duration = Duration::from_secs(10);

/// Reads repeatedly in a separate thread until finished, so that a slow device delays nothing else.
#[derive(Debug)]
pub(super) struct Reader {
    known: Arc<Mutex<LatestReadings>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Capabilities that its thread keeps at most.
    kept: Vec<String>,
    has_posts: bool,
}

impl Reader {
    /// Starts in the network namespace of the calling thread. `interfaces` are the names and indices of the watched
    /// interfaces. `None` if no thread can be started: the run then has no device counters and processes, without
    /// further effect.
    pub(super) fn start(
        host: Box<dyn Host>,
        watch: Watch,
        interfaces: &[(String, u32)],
        interval: Duration,
        sample_posts: Option<Plan>,
    ) -> Option<Self> {
        // Without the privilege to listen, no frames are received.
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
            next_list: NextList::new(Instant::now()),
            addresses: None,
            probes: None,
            earlier: Calls::default(),
            tried: None,
            posts,
            audit: None,
            published_deaths: 0,
        };
        let kept = sandbox::kept(&work.needs_where(work.watch.may_probe()));
        let has_posts = work.posts.is_some();
        let interval = interval.max(SHORTEST);
        let read = move || work.run(interval, &stopped);
        let thread = std::thread::Builder::new().name("devices".into()).spawn(read).ok()?;
        Some(Self { known, stop: Some(stop), thread: Some(thread), kept, has_posts })
    }

    /// The threads that keep capabilities, and these: at most, since probes may be refused.
    pub(super) fn kept(&self) -> Vec<(&'static str, Vec<String>)> {
        let posts = self.has_posts.then(|| ("post sampling", sandbox::kept(&super::posts::needs())));
        [("devices", self.kept.clone())].into_iter().chain(posts).collect()
    }

    /// Latest reading of the devices.
    pub(super) fn known(&self) -> LatestReadings {
        self.known.locked().clone()
    }

    /// Reads one last time and ends.
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
    next_list: NextList,
    addresses: Option<(Instant, listed::Addresses)>,
    /// `None` before the start; then the probes, or the reason why there are none.
    probes: Option<Result<QpProbes, String>>,
    /// Calls counted by probes whose modules have been unloaded.
    earlier: Calls,
    /// Modules for which attaching the probes was tried without success.
    tried: Option<Modules>,
    /// `None` when posts are not sampled.
    posts: Option<PostSampler>,
    /// The settings of the host, until they have been read.
    audit: Option<Audit>,
    /// Number of deaths of queue pairs that were known when the readings were last published.
    published_deaths: u64,
}

impl Work {
    fn run(mut self, interval: Duration, stopped: &Receiver<()>) {
        // Reading settings needs privileges that this thread gives up next, so it starts before; LLDP frames, which
        // come from the network, are read after that.
        self.audit = if self.watch.is_empty() { None } else { Audit::start(Arc::clone(&self.host)) };
        self.counters();
        // Before queue pairs are listed, since the probes see the settings of existing ones in those queries.
        self.probe();
        self.publish(None);
        if self.host.is_running() {
            sandbox::confine(&self.needs());
        }
        let mut counters_due = Instant::now() + interval;
        loop {
            self.listen();
            self.audited(Duration::ZERO);
            self.probe();
            let (owners, began) = self.queue_pairs().unzip();
            self.publish(owners);
            if let Some(began) = began {
                self.next_list = NextList::after(Instant::now(), began.elapsed());
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
        // As late as the packet figures, which are final by now.
        self.counters();
        self.lives();
        if let Some(posts) = &mut self.posts {
            posts.finish();
        }
        self.publish_last();
    }

    /// Applies the settings of the host once they have been read.
    fn audited(&mut self, patience: Duration) {
        match self.audit.take().map(|audit| audit.read(patience)) {
            Some(Ok(Some(facts))) => self.watch.learn(facts),
            Some(Err(at_work)) => self.audit = Some(at_work),
            Some(Ok(None)) | None => {}
        }
    }

    /// Privileges that the thread needs from now on.
    fn needs(&self) -> sandbox::Plan {
        self.needs_where(matches!(self.probes, Some(Ok(_))))
    }

    /// The same, if it probes the kernel or not.
    fn needs_where(&self, is_probing: bool) -> sandbox::Plan {
        let mut plan = sandbox::Plan { netlink: true, ..sandbox::Plan::parser() }.reading_sysfs();
        if self.watch.is_empty() {
            plan.files = if plan.sysfs { Files::ReadOnly } else { Files::Listed };
            plan.read.push("/sys".into());
            return plan;
        }
        plan.files = Files::OfProcesses;
        plan = plan.keeping(Capability::SysPtrace, "pods of processes with queue pairs");
        if is_probing {
            plan = plan.probing("probes of the kernel, again when a module is loaded again");
        }
        if self.watch.may_read_contexts() {
            plan = plan.keeping(Capability::NetAdmin, "the NIC's own context of queue pairs");
        }
        plan
    }

    /// Waits for the next reading, and empties the ring buffer meanwhile. The first death is published at once, so that
    /// the next sample has it; others come with the next reading. True if the run is to end.
    fn rest(&mut self, stopped: &Receiver<()>) -> bool {
        let until = Instant::now() + SHORTEST;
        let mut is_published = false;
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
            if !is_published && self.watch.deaths() > self.published_deaths {
                self.publish(None);
                is_published = true;
            }
        }
    }

    /// Attaches the probes of the kernel's control path, again after a module was reloaded, which removes its probes.
    fn probe(&mut self) {
        if self.watch.is_empty() || !self.host.is_running() {
            return;
        }
        if !self.watch.may_probe() {
            self.probes.get_or_insert_with(|| Err("--no-qp-probes".to_owned()));
            return;
        }
        let Ok(root) = self.host.root() else { return };
        let is_due = match &self.probes {
            None => true,
            Some(Ok(probes)) => probes.is_stale(&root),
            // They failed at the start, and the privileges for another attempt have been dropped.
            Some(Err(_)) => self.tried.as_ref().is_some_and(|tried| *tried != Modules::of(&root)),
        };
        if is_due {
            self.lives();
            let host = &self.host;
            let before = self.probes.as_mut().and_then(|probes| probes.as_mut().ok());
            let is_again = before.is_some() || self.tried.is_some();
            if let Some(probes) = before {
                let calls = probes.calls(&|| host.root().ok()).and(&self.earlier);
                // Nobody sees their returns any more.
                let missed_returns = calls.missed_returns + calls.under_way;
                self.earlier = Calls { missed_returns, under_way: 0, may_end: 0, ..calls };
            }
            // Read before attaching, so that a later change triggers another attempt.
            self.tried = is_again.then(|| Modules::of(&root));
            self.probes = Some(QpProbes::start(&root).map_err(|error| format!("{error:#}")));
            if is_again && matches!(self.probes, Some(Err(_))) {
                // The counts of which all later samples say that they end here.
                self.watch.share_lives(Ok(self.earlier.clone()));
            }
        }
        if let Some(Ok(probes)) = &mut self.probes {
            probes.learn(&root);
        }
    }

    /// Reads the control path records of queue pairs.
    fn lives(&mut self) {
        let (probes, earlier) = (&mut self.probes, &self.earlier);
        take_lives((probes, earlier), &mut self.watch, self.posts.as_ref(), self.host.as_ref());
    }

    fn counters(&mut self) {
        if self.watch.is_empty() {
            return;
        }
        // Mounted again each time, since a lasting mount would keep the namespace alive.
        if let Ok(root) = self.host.root() {
            let before = self.watch.given_up();
            let now_ns = monotonic_ns();
            let now = (now_ns, WallClock::sample().unix_ns(now_ns));
            self.watch.read_counters(&root, self.host.ask(), now);
            self.watch.note_counters(monotonic_ns());
            if self.watch.given_up() > before {
                // The list shows the affected queue pair by its state, as long as its process keeps it.
                self.next_list.hurry(Instant::now());
            }
        }
    }

    /// Lists all queue pairs if due, and returns the start time.
    fn queue_pairs(&mut self) -> Option<(Owners, Instant)> {
        if Instant::now() < self.next_list.due {
            return None;
        }
        let root = self.host.root().ok()?;
        let mut unread = UnreadReasons::new();
        let known = self.addresses.take().filter(|(read, _)| read.elapsed() < ADDRESSES_STAY);
        let (_, addresses) = self.addresses.insert(known.unwrap_or_else(|| {
            let read = listed::addresses(&root, &mut unread);
            self.watch.find_pods(&root, &read);
            (Instant::now(), read)
        }));
        // The pause is proportional to the listing alone: addresses have their own interval.
        let start = Instant::now();
        // Listing queries each queue pair, which produces a record each: more than the ring buffer holds.
        let (probes, earlier, watch) = (&mut self.probes, &self.earlier, &mut self.watch);
        let (posts, host) = (self.posts.as_ref(), self.host.as_ref());
        let mut between = || take_lives((probes, earlier), watch, posts, host);
        let began_monotonic_ns = monotonic_ns();
        let found = listed::read(&root, host.ask(), addresses, &mut unread, &mut between);
        // Also what has happened since its latest part: what the list lacks may have ended meanwhile.
        between();
        let (clock, ended_monotonic_ns) = (WallClock::sample(), monotonic_ns());
        self.watch.note_clock(clock.offset_ns());
        let found = listed::QueuePairs { began_monotonic_ns, ended_monotonic_ns, ..found };
        self.watch.take_qps(&found, clock.unix_ns(ended_monotonic_ns));
        self.watch.note_list(&found, u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        if let Some(posts) = &self.posts {
            posts.list(&found);
        }
        Some((found.owners, start))
    }

    fn listen(&mut self) {
        #[cfg(feature = "test-clock")]
        crate::util::hijack::here("devices");
        for socket in &self.sockets {
            for _ in 0..LLDP_FRAMES {
                let Ok(Some(neighbour)) = socket.receive() else { break };
                self.watch.hear(socket.name(), neighbour);
            }
        }
    }

    fn publish(&mut self, owners: Option<Owners>) {
        self.published_deaths = self.watch.deaths();
        let (host, earlier) = (&self.host, &self.earlier);
        match &mut self.probes {
            Some(Ok(probes)) => self.watch.share_lives(Ok(probes.calls(&|| host.root().ok()).and(earlier))),
            Some(Err(why)) => self.watch.share_lives(Err(why)),
            None => {}
        }
        let mut devices = self.watch.sample();
        if let Some(posts) = &self.posts {
            devices.posts = posts.known();
        }
        let devices = Arc::new(devices);
        let mut known = self.known.locked();
        known.devices = devices;
        if let Some(owners) = owners {
            let mut owners = owners.with_gone(&known.owners);
            self.watch.add_lives(&mut owners);
            known.owners = Arc::new(owners);
        }
    }

    /// Publishes the events since the last listing, for the last report.
    fn publish_last(&mut self) {
        self.publish(None);
        let mut known = self.known.locked();
        self.watch.add_lives(Arc::make_mut(&mut known.owners));
    }
}

/// Applies the records of the probes; with the calls of earlier ones.
fn take_lives(
    (probes, earlier): (&mut Option<Result<QpProbes, String>>, &Calls),
    watch: &mut Watch,
    posts: Option<&PostSampler>,
    host: &dyn Host,
) {
    let Some(Ok(probes)) = probes else { return };
    let root = || host.root().ok();
    let clock = WallClock::sample();
    watch.note_clock(clock.offset_ns());
    let changes = probes.read(clock, &|device| watch.driver(device), &root);
    if !changes.is_empty() {
        watch.note_calls(&probes.calls(&root).and(earlier));
    }
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

#[cfg(test)]
#[path = "counters_tests.rs"]
mod tests;
