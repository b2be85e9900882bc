//! Queries NCCL's RAS service periodically in a separate thread, since a query may take seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::entity::nccl::{Answer, Nccl, Rank};
use crate::host::kernel::Capability;
use crate::host::kernel::clock::now_ns;
use crate::host::process::local;
use crate::host::read::HostRoot;
use crate::sandbox::plan::Files;
use crate::sandbox::{self, Plan};
use crate::source::nccl::address::RasAddress;
use crate::source::nccl::dialogue::{self, DialogueError, Monitor};
use crate::source::nccl::track::Track;
use crate::util::lock::Locked;
use crate::util::time::nanos;

/// Interval of queries. Each is answered by all processes of the job, over its bootstrap network.
const INTERVAL: Duration = Duration::from_secs(10);
/// Minimum pause as a multiple of the response time.
const REST: u32 = 20;
const CONNECT: Duration = Duration::from_secs(1);
/// Timeout for the first line, which NCCL sends at once. All processes of a host listen on one port, and the kernel
/// assigns each connection to one of them; a stopped process never sends the line.
const GREETING: Duration = Duration::from_secs(2);
/// Number of successive connections until a process responds.
const ATTEMPTS: u32 = 5;
/// Timeout of one query: NCCL waits 5 s for its processes at each step, and then reports those that did not answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Delay of the query after a monitor event, which finds the ranks concerned; longer while the pause after the query
/// before lasts.
const SOON: Duration = Duration::from_secs(1);
/// Interval of checks for the end of the run and for monitor events.
const LOOK: Duration = Duration::from_millis(200);

/// Thread that queries the RAS service of NCCL, until this is dropped.
#[derive(Debug)]
pub(super) struct RasReader {
    known: Arc<Mutex<Arc<Nccl>>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl RasReader {
    /// Starts in the network namespace of the calling thread. `None` if no thread can be started.
    pub(super) fn start(address: RasAddress) -> Option<Self> {
        Self::every(INTERVAL, GREETING, address)
    }

    fn every(interval: Duration, greeting: Duration, address: RasAddress) -> Option<Self> {
        let track = Track::new(address.text().to_owned(), nanos(interval));
        let known = Arc::new(Mutex::new(Arc::new(track.known())));
        let (stop, stopped) = mpsc::channel();
        let work = Work {
            address,
            interval,
            greeting,
            track,
            known: Arc::clone(&known),
            processes: Processes::start()?,
            monitor: None,
        };
        let connect = work.address.sockets().iter().map(std::net::SocketAddr::port).collect();
        let plan = Plan { connect, netlink: true, ..Plan::parser() };
        let thread = std::thread::Builder::new().name("nccl".into()).spawn(move || {
            sandbox::confine(&plan);
            work.run(&stopped);
        });
        let thread = thread.ok()?;
        Some(Self { known, stop: Some(stop), thread: Some(thread) })
    }

    /// The thread that keeps capabilities, and these.
    pub(super) fn kept() -> (&'static str, Vec<String>) {
        ("NCCL's ranks", sandbox::kept(&Processes::needs()))
    }

    /// The state so far.
    pub(super) fn known(&self) -> Arc<Nccl> {
        Arc::clone(&self.known.locked())
    }
}

impl Drop for RasReader {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A thread in the middle of a query would take seconds to end; it holds only a socket.
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished) {
            let _ended = thread.join();
        }
    }
}

struct Work {
    address: RasAddress,
    interval: Duration,
    greeting: Duration,
    track: Track,
    known: Arc<Mutex<Arc<Nccl>>>,
    processes: Processes,
    monitor: Option<Monitor<Timed>>,
}

impl Work {
    fn run(mut self, stopped: &Receiver<()>) {
        loop {
            let rest = self.query() * REST;
            self.publish();
            let ended = Instant::now();
            let mut due = ended + self.interval.max(rest);
            while let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
                if self.listen(left.min(LOOK)) {
                    // Those that were received with it, too: each publishing copies all that is known of the job.
                    while self.listen(Duration::ZERO) {}
                    due = brought_forward(due, Instant::now(), ended + rest);
                    self.publish();
                }
                let pause = if self.monitor.is_some() { Duration::ZERO } else { left.min(LOOK) };
                if stopped.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
        }
    }

    fn publish(&self) {
        *self.known.locked() = Arc::new(self.track.known());
    }

    /// Sends one query. Returns the response time.
    fn query(&mut self) -> Duration {
        let start = Instant::now();
        match self.status() {
            Ok(answer) => {
                self.track.answered(answer, now_ns());
                let took = start.elapsed();
                if self.monitor.is_none() {
                    self.monitor = self.connect().and_then(dialogue::monitor).ok();
                }
                took
            }
            Err(error) => {
                self.monitor = None;
                self.track.failed(self.reason(&error));
                // A service that does not respond costs the job nothing.
                Duration::ZERO
            }
        }
    }

    fn status(&mut self) -> Result<Answer, DialogueError> {
        let mut attempts = 1;
        let mut answer = loop {
            let stream = self.connect()?;
            #[cfg(feature = "test-clock")]
            crate::util::hijack::here("nccl");
            match dialogue::status(stream) {
                Err(DialogueError::Silent) if attempts < ATTEMPTS => attempts += 1,
                said => break said?,
            }
        };
        self.join(&mut answer);
        Ok(answer)
    }

    /// Finds the processes of this host.
    fn join(&mut self, answer: &mut Answer) {
        let own = local::addresses().unwrap_or_default();
        let here = |rank: &Rank| {
            let is_here = rank.process.host.is_some_and(|host| own.contains(&host));
            rank.process.pid.filter(|_| is_here)
        };
        let ranks = || answer.listed.iter().flat_map(|one| &one.ranks);
        let found = self.processes.find(ranks().filter_map(here).collect());
        for rank in answer.listed.iter_mut().flat_map(|one| &mut one.ranks) {
            if let Some(pid) = here(rank) {
                rank.local = found.get(&pid).copied().flatten();
            }
        }
    }

    fn connect(&self) -> Result<Timed, DialogueError> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for socket in self.address.sockets() {
            match TcpStream::connect_timeout(socket, CONNECT) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    let now = Instant::now();
                    return Ok(Timed { stream, until: now + self.greeting, then: Some(now + PATIENCE) });
                }
                Err(error) => last = error,
            }
        }
        Err(last.into())
    }

    /// Waits for an event. True if one arrived.
    fn listen(&mut self, patience: Duration) -> bool {
        let Some(monitor) = &mut self.monitor else { return false };
        monitor.stream_mut().until = Instant::now() + patience;
        match monitor.next(now_ns) {
            Ok(Some(event)) => self.track.happened(event),
            Ok(None) => return false,
            Err(_) => {
                // The stream ends with its process; the next query connects again.
                self.monitor = None;
                return false;
            }
        }
        true
    }

    fn reason(&self, error: &DialogueError) -> String {
        let at = self.address.text();
        match error {
            DialogueError::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => format!(
                "nothing listens at {at}: no job with NCCL 2.24 or newer runs in this network namespace, or its NCCL_RAS_ADDR \
                 or NCCL_RAS_ENABLE says otherwise"
            ),
            _ => format!("{at}: {error}"),
        }
    }
}

/// The time of the next query after an event now: `rested` is the end of the minimum pause. A large job whose processes
/// die one by one has an event for each, and all that still run take part in each query.
fn brought_forward(due: Instant, now: Instant, rested: Instant) -> Instant {
    due.min(rested.max(now + SOON))
}

/// Local PIDs of processes, by the PIDs that NCCL names.
type LocalPids = BTreeMap<u32, Option<u32>>;

/// Finds processes in a thread of its own: the rights for that, which Landlock would take away, are none for a thread
/// that reads from the network.
struct Processes {
    ask: Sender<BTreeSet<u32>>,
    found: Receiver<LocalPids>,
}

impl Processes {
    /// Starts in the network namespace of the calling thread. `None` if no thread can be started.
    fn start() -> Option<Self> {
        let ((ask, asked), (tell, found)) = (mpsc::channel::<BTreeSet<u32>>(), mpsc::channel());
        let find = move || {
            sandbox::confine(&Self::needs());
            // Processes of others are identified only by PID, for which sysfs is not needed.
            let root = HostRoot::at("/");
            let mut known = LocalPids::new();
            for named in asked {
                // PIDs are reused, and a process that was not found may exist next time.
                let lives =
                    |process: &Option<u32>| process.is_some_and(|pid| root.exists(&format!("/proc/{pid}")));
                known.retain(|pid, process| named.contains(pid) && lives(process));
                for pid in named {
                    known.entry(pid).or_insert_with(|| local::process(&root, pid));
                }
                if tell.send(known.clone()).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("ranks".into()).spawn(find).ok()?;
        Some(Self { ask, found })
    }

    /// Privileges of the thread.
    fn needs() -> Plan {
        Plan { files: Files::OfProcesses, ..Plan::parser() }
            .keeping(Capability::SysPtrace, "network namespaces of processes, to find those of the ranks")
    }

    /// Those of the named ones that were found.
    fn find(&self, named: BTreeSet<u32>) -> LocalPids {
        // Without the thread none is.
        self.ask.send(named).ok().and_then(|()| self.found.recv().ok()).unwrap_or_default()
    }
}

/// A stream with a deadline, however slowly bytes arrive.
#[derive(Debug)]
struct Timed {
    stream: TcpStream,
    until: Instant,
    /// The deadline that applies after the first byte.
    then: Option<Instant>,
}

impl Timed {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        let read = self.stream.read(to)?;
        self.until = self.then.take().unwrap_or(self.until);
        Ok(read)
    }
}

impl Write for Timed {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::nccl::server::{self, Version, serve};

    fn ask(address: &str) -> RasReader {
        let [interval, greeting] = [50, 200].map(Duration::from_millis);
        RasReader::every(interval, greeting, address.parse().unwrap()).unwrap()
    }

    fn until(reader: &RasReader, what: impl Fn(&Nccl) -> bool) -> Arc<Nccl> {
        let start = Instant::now();
        loop {
            let known = reader.known();
            if what(&known) {
                return known;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{known:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn answers_and_events_are_followed_and_their_end_is_reported() {
        let (address, thread) = serve(Version::Monitor, 3, server::JSON_MISSING, server::EVENT_DEAD);
        let reader = ask(&address.to_string());
        let known = until(&reader, |known| known.answers == 2 && !known.events.is_empty());
        assert_eq!((known.communicators.len(), known.failures, &known.unavailable), (1, 0, &None));
        // The server has ended, and its last data stays.
        let known = until(&reader, |known| known.failures > 0);
        assert!(known.unavailable.as_ref().unwrap().contains("nothing listens at 127.0.0.1"), "{known:?}");
        assert_eq!(known.communicators.len(), 1);
        drop(reader);
        let sent = thread.join().unwrap();
        assert_eq!(sent.iter().filter(|one| one.contains("MONITOR")).count(), 1, "{sent:?}");
    }

    #[test]
    fn an_event_brings_the_next_query_forward_and_leaves_the_job_its_rest() {
        let ended = Instant::now();
        let at = |ms: u64| ended + Duration::from_millis(ms);
        // A query that took 10 ms, and one that took 2 s.
        assert_eq!(brought_forward(at(10_000), at(500), at(200)), at(1_500));
        assert_eq!(brought_forward(at(40_000), at(500), at(40_000)), at(40_000));
        assert_eq!(brought_forward(at(10_000), at(9_500), at(200)), at(10_000));
    }

    #[test]
    fn the_process_of_a_rank_on_this_host_is_found() {
        let pid = std::process::id();
        let rank = |number: u32, host: &str| {
            format!(
                r#"{{"rank":{number},"host":"{host}","pid":{pid},"cuda_dev":{number},"collective_counts":{{}}}}"#
            )
        };
        let document = format!(
            r#"{{"communicators":[{{"hash":"0x1","secondary_hash":"0x2:0x3","ranks":[{},{}]}}]}}"#,
            rank(0, "127.0.0.1"),
            rank(1, "192.0.2.1"),
        );
        let (address, thread) = serve(Version::Json, 2, document.leak(), "");
        let reader = ask(&address.to_string());
        let known = until(&reader, |known| known.answers > 0);
        let local: Vec<_> = known.communicators[0].ranks.iter().map(|rank| rank.local).collect();
        assert_eq!(local, [Some(pid), None]);
        drop(reader);
        thread.join().unwrap();
    }

    #[test]
    fn a_listener_that_says_nothing_costs_one_query_its_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let timed = Timed { stream, until: Instant::now() + Duration::from_millis(30), then: None };
        let start = Instant::now();
        assert!(matches!(dialogue::status(timed), Err(DialogueError::Silent)));
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    /// The processes of a host share the port. A stopped process does not respond, and the others have to be asked
    /// about it.
    #[test]
    fn a_process_that_is_stopped_is_passed_over() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            // Held open without a response.
            let silent: Vec<TcpStream> = (0..2).map(|_| listener.accept().unwrap().0).collect();
            let (stream, _) = listener.accept().unwrap();
            let (_, _, dialogue) = server::recorded()
                .into_iter()
                .find(|(version, situation, _)| {
                    (version.as_str(), situation.as_str()) == ("2.28.9", "stopped")
                })
                .unwrap();
            server::speak(stream, &dialogue);
            silent.len()
        });
        // A second query is not due before the end.
        let address = address.to_string().parse().unwrap();
        let reader = RasReader::every(Duration::from_secs(60), Duration::from_millis(100), address).unwrap();
        let known = until(&reader, |known| known.answers > 0);
        assert_eq!((known.failures, known.communicators.len()), (0, 1), "{known:?}");
        assert_eq!(thread.join().unwrap(), 2);
    }
}
