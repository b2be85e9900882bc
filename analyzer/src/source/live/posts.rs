//! Samples of `post_send`: uprobes on the providers used by processes with queue pairs, attached for short windows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use aya::maps::{Array, HashMap as BpfHashMap, MapData};
use aya::programs::UProbe;
use aya::programs::uprobe::{UProbeLinkId, UProbeScope};
use aya::{Ebpf, EbpfLoader};
use rocescope_common::abi::post::{POST_QPS, POST_WINDOW, PostCounts, PostKey, PostWindow};

use super::object::Data;
use crate::entity::posts::Posts;
use crate::host::kernel::Capability;
use crate::host::kernel::clock::monotonic_ns;
use crate::host::rdma::verbs_context::{self, PostSend};
use crate::host::read::HostRoot;
use crate::sandbox;
use crate::sandbox::plan::Files;
use crate::source::devices::listed::QueuePairs;
use crate::source::devices::lives::Change;
use crate::source::devices::posts::{Counter, Plan, Step};
use crate::source::devices::present::PresentQps;
use crate::util::lock::Locked;
use crate::util::map::Map;

pub(super) static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/rocescope-posts"));
const PROGRAM: &str = "rocescope_post_send";

/// Interval of checks whether an open window is over, or was closed by the program.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Interval of searches for processes with queue pairs.
const SEARCH: Duration = Duration::from_millis(200);
/// Interval of reading the counts in a long window.
const READ: Duration = Duration::from_secs(1);
/// Number of searches per process, which may not have opened its devices yet.
const TRIES: u32 = 3;
/// Interval between two searches of a process.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Timeout of one search, since reading a process's memory may be slow or hang.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time for which a file is kept open after its last process has ended; longer would keep a container's file system
/// in use.
const KEEP: Duration = Duration::from_secs(30);
/// Maximum number of sampled files.
const MOST_FILES: usize = 64;

/// The kernel program and its attachments.
pub struct Probe {
    ebpf: Ebpf,
    counts: BpfHashMap<MapData, Data<PostKey>, Data<PostCounts>>,
    window: Array<MapData, Data<PostWindow>>,
    links: Vec<UProbeLinkId>,
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").field("links", &self.links).finish_non_exhaustive()
    }
}

/// State of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowState {
    /// Counts of the window.
    pub window: PostWindow,
    /// True if the program has closed it.
    pub is_stopped: bool,
}

impl Probe {
    /// Loads the program, attached to nothing and with a closed window.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn load() -> Result<Self> {
        let mut ebpf =
            EbpfLoader::new().load(OBJECT).context("the kernel refused the maps of the post_send probe")?;
        let program: &mut UProbe =
            ebpf.program_mut(PROGRAM).context("the kernel object has no post_send probe")?.try_into()?;
        program.load().context("the kernel refused the post_send probe")?;
        let counts =
            ebpf.take_map(POST_QPS).context("the kernel object has no counts of posts")?.try_into()?;
        let window =
            ebpf.take_map(POST_WINDOW).context("the kernel object has no window of posts")?.try_into()?;
        Ok(Self { ebpf, counts, window, links: Vec::new() })
    }

    /// Attaches it at an offset of a file, for all processes.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn attach(&mut self, file: &File, offset: u64) -> Result<()> {
        let program: &mut UProbe =
            self.ebpf.program_mut(PROGRAM).context("the post_send probe is gone")?.try_into()?;
        // Through the open file, since its path may name another file by now, or lie in a container.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        self.links.push(program.attach(offset, path, UProbeScope::AllProcesses)?);
        Ok(())
    }

    /// Detaches the probe from all processes.
    pub fn detach(&mut self) {
        let links = std::mem::take(&mut self.links);
        let program: Option<&mut UProbe> =
            self.ebpf.program_mut(PROGRAM).and_then(|program| program.try_into().ok());
        if let Some(program) = program {
            for link in links {
                // The descriptor is closed in any case.
                let _ = program.detach(link);
            }
        }
    }

    /// Opens the window until `until_ns` of the monotonic clock, or for `most_calls` calls.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn open(&mut self, until_ns: u64, most_calls: u64) -> Result<()> {
        let window = PostWindow { until_ns, most_calls, ..PostWindow::default() };
        self.window.set(0, Data(window), 0).context("cannot open the window of the post_send probe")
    }

    /// Counts of the window so far.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn state(&self) -> Result<WindowState> {
        let Data(window) = self.window.get(&0, 0).context("cannot read the window of the post_send probe")?;
        Ok(WindowState { window, is_stopped: window.stopped_ns != 0 })
    }

    /// Counts of all queue pairs since they were first seen.
    pub fn counts(&self) -> Vec<(PostKey, PostCounts)> {
        self.counts.iter().filter_map(Result::ok).map(|(key, counts)| (key.0, counts.0)).collect()
    }

    /// Removes the counts of queue pairs.
    pub fn forget(&mut self, keys: &[PostKey]) {
        for key in keys {
            // There may be no count of it.
            let _ = self.counts.remove(&Data(*key));
        }
    }
}

/// Thread that samples `post_send`, until this is dropped.
#[derive(Debug)]
pub(super) struct PostSampler {
    shared: Arc<Shared>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    present: Mutex<PresentQps>,
    posts: Mutex<Arc<Posts>>,
}

impl PostSampler {
    /// Starts sampling. `None` if no thread can be started.
    pub(super) fn start(plan: Plan) -> Option<Self> {
        let counter = Counter::new(plan);
        let posts = Mutex::new(counter.sample());
        let shared = Arc::new(Shared { present: Mutex::default(), posts });
        let (stop, stopped) = mpsc::channel();
        let work = Work::new(plan, Arc::clone(&shared), counter, HostRoot::at("/"));
        let thread = std::thread::Builder::new().name("posts".into()).spawn(move || {
            sandbox::confine(&needs());
            work.run(&stopped);
        });
        let thread = thread.ok()?;
        Some(Self { shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Updates the list of queue pairs.
    pub(super) fn list(&self, found: &QueuePairs) {
        let mut present = self.shared.present();
        present.keep_unlisted(|device| !found.is_complete(device));
        present.list(found.list.iter().map(|(_, owner)| owner));
    }

    /// Applies control path changes. A process with a new queue pair is searched at once, since it may live for only
    /// a second.
    pub(super) fn take(&self, changes: &[Change]) {
        if self.shared.present().take(changes)
            && let Some(stop) = &self.stop
        {
            // If this fails, the thread has ended.
            let _ = stop.send(());
        }
    }

    /// All counts so far.
    pub(super) fn known(&self) -> Arc<Posts> {
        Arc::clone(&self.shared.posts.locked())
    }

    /// Closes the window and ends the thread.
    pub(super) fn finish(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

impl Drop for PostSampler {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Shared {
    fn present(&self) -> MutexGuard<'_, PresentQps> {
        self.present.locked()
    }
}

/// Privileges of the thread.
pub(super) fn needs() -> sandbox::Plan {
    sandbox::Plan { files: Files::OfProcesses, ..sandbox::Plan::parser() }
        .probing("probes of post_send")
        .keeping(Capability::SysPtrace, "memory of processes with queue pairs, to find their post_send")
        .keeping(Capability::DacReadSearch, "the same")
        .keeping(
            Capability::CheckpointRestore,
            "the libraries that they run, also those of containers (map_files)",
        )
}

/// A file with a `post_send`.
#[derive(Debug)]
struct SampledFile {
    file: File,
    path: String,
    /// Time at which a process last used it.
    seen: Instant,
    is_attached: bool,
}

/// A process that was searched.
#[derive(Debug)]
struct SearchedProcess {
    tries: u32,
    next: Instant,
    /// Files that it calls, by device, inode and offset.
    files: Vec<FileKey>,
    /// Names of the devices for which contexts were found.
    devices: BTreeSet<String>,
    why: Option<String>,
}

type FileKey = ((String, u64), u64);

struct Work {
    plan: Plan,
    shared: Arc<Shared>,
    counter: Counter,
    files: BTreeMap<FileKey, SampledFile>,
    processes: BTreeMap<u32, SearchedProcess>,
    /// RDMA devices of queue pairs.
    devices: Map<PostKey, String>,
    /// The same by process and file descriptor, as a search found them: for a process that has ended. A process that
    /// closes a device has the next one under the same descriptor.
    descriptors: BTreeMap<(u32, u32), String>,
    /// Number of lists of queue pairs applied.
    list: u64,
    root: HostRoot,
}

impl Work {
    fn new(plan: Plan, shared: Arc<Shared>, counter: Counter, root: HostRoot) -> Self {
        Self {
            plan,
            shared,
            counter,
            files: BTreeMap::new(),
            processes: BTreeMap::new(),
            devices: Map::default(),
            descriptors: BTreeMap::new(),
            list: 0,
            root,
        }
    }

    fn run(mut self, stopped: &Receiver<()>) {
        let mut probe = match Probe::load() {
            Ok(probe) => probe,
            Err(error) => {
                self.counter.unavailable(format!("{error:#}"));
                self.publish();
                return;
            }
        };
        let mut due = Instant::now();
        loop {
            self.search();
            if Instant::now() >= due && !self.files.is_empty() {
                due = Instant::now() + Duration::from_nanos(self.plan.every_ns);
                let ended = self.window(&mut probe, stopped);
                match ended {
                    Ok(false) => {}
                    Ok(true) => return,
                    Err(error) => {
                        self.counter.unavailable(format!("{error:#}"));
                        self.publish();
                        return;
                    }
                }
            }
            self.publish();
            if stopped.recv_timeout(SEARCH) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    /// Runs one window. True if the run is over.
    fn window(&mut self, probe: &mut Probe, stopped: &Receiver<()>) -> Result<bool> {
        self.attach(probe);
        let start = monotonic_ns();
        let until = start + self.plan.window_ns;
        probe.open(until, self.plan.most_calls())?;
        self.counter.opened();
        let mut taken = TakenWindow { at_ns: start, ..TakenWindow::default() };
        let (mut search, mut read) = (Instant::now() + SEARCH, Instant::now() + READ);
        let over = loop {
            let left = Duration::from_nanos(until.saturating_sub(monotonic_ns()));
            let said = stopped.recv_timeout(left.min(POLL_INTERVAL));
            let over = said == Err(RecvTimeoutError::Disconnected);
            if said == Ok(()) {
                search = Instant::now();
            }
            if over || probe.state()?.is_stopped || monotonic_ns() >= until {
                break over;
            }
            if Instant::now() >= search {
                self.search();
                self.attach(probe);
                search = Instant::now() + SEARCH;
            }
            if Instant::now() >= read {
                self.take(probe, &mut taken, monotonic_ns())?;
                self.publish();
                read = Instant::now() + READ;
            }
        };
        let state = probe.state()?;
        if state.is_stopped {
            self.counter.stopped();
        }
        let end = if state.is_stopped { state.window.stopped_ns } else { monotonic_ns().min(until) };
        probe.detach();
        for file in self.files.values_mut() {
            file.is_attached = false;
        }
        self.take(probe, &mut taken, end)?;
        self.publish();
        Ok(over)
    }

    /// Attaches to new files.
    fn attach(&mut self, probe: &mut Probe) {
        let mut refused = BTreeMap::new();
        for (key, file) in self.files.iter_mut().filter(|(_, file)| !file.is_attached) {
            match probe.attach(&file.file, key.1) {
                Ok(()) => file.is_attached = true,
                Err(error) => {
                    refused.insert(key.clone(), (file.path.clone(), format!("{:#}", anyhow!(error))));
                }
            }
        }
        for (key, (path, why)) in refused {
            self.files.remove(&key);
            for process in self.processes.values_mut().filter(|process| process.files.contains(&key)) {
                process.why = Some(format!("no uprobe of {path}: {why}"));
            }
        }
    }

    /// Adds the counts since the last step.
    fn take(&mut self, probe: &mut Probe, taken: &mut TakenWindow, now: u64) -> Result<()> {
        let window = probe.state()?.window;
        let step = Step {
            open_ns: now.saturating_sub(taken.at_ns),
            calls: window.calls - taken.window.calls,
            unreadable: window.faults - taken.window.faults,
            without_room: window.full - taken.window.full,
        };
        *taken = TakenWindow { at_ns: now, window };
        let readings = probe.counts();
        for key in readings.iter().map(|(key, _)| key) {
            self.find_device(key);
        }
        let devices = &self.devices;
        self.counter.take(step, &readings, &|key| devices.get(key).cloned());
        let present = self.shared.present();
        if present.lists() != self.list {
            self.list = present.lists();
            let alive = present.alive();
            drop(present);
            let ended = self.counter.listed(&alive);
            probe.forget(&ended);
            for key in &ended {
                self.devices.remove(key);
            }
            let root = &self.root;
            self.descriptors.retain(|(pid, _), _| root.exists(&format!("/proc/{pid}")));
        }
        Ok(())
    }

    /// The device of a queue pair that is new: by the file descriptor, or if the process has ended, by the queue pair.
    fn find_device(&mut self, key: &PostKey) {
        if self.devices.contains_key(key) {
            return;
        }
        let file = std::fs::read_link(self.root.path(&format!("/proc/{}/fd/{}", key.pid, key.device_fd)));
        let uverbs = file.ok().and_then(|file| Some(file.file_name()?.to_str()?.to_owned()));
        let device = uverbs.and_then(|uverbs| self.device(&uverbs));
        let device = device.or_else(|| self.shared.present().device(key.pid, key.qpn).map(str::to_owned));
        let device = device.or_else(|| self.descriptors.get(&(key.pid, key.device_fd)).cloned());
        if let Some(device) = device {
            self.devices.insert(*key, device);
        }
    }

    /// The RDMA device of, for instance, `uverbs0`.
    fn device(&self, uverbs: &str) -> Option<String> {
        self.root.text(&format!("/sys/class/infiniband_verbs/{uverbs}/ibdev")).ok()
    }

    /// Searches the processes with queue pairs that are new or have more devices than before.
    fn search(&mut self) {
        #[cfg(feature = "test-clock")]
        crate::util::hijack::here("posts");
        let present = self.shared.present().processes();
        let now = Instant::now();
        self.processes.retain(|pid, _| present.contains_key(pid));
        for (pid, devices) in present {
            let searched = self.processes.get(&pid);
            let is_due = searched.is_none_or(|known| {
                let is_whole = known.why.is_none() && devices.is_subset(&known.devices);
                !is_whole && known.tries < TRIES && now >= known.next
            });
            if is_due {
                let tries = searched.map_or(0, |known| known.tries) + 1;
                let found = self.process(pid, tries);
                self.processes.insert(pid, found);
            }
        }
        for process in self.processes.values() {
            for key in &process.files {
                if let Some(file) = self.files.get_mut(key) {
                    file.seen = now;
                }
            }
        }
        self.keep(now);
        self.sources();
    }

    /// Searches a process for calls of `post_send`.
    fn process(&mut self, pid: u32, tries: u32) -> SearchedProcess {
        let mut searched = SearchedProcess {
            tries,
            next: Instant::now() + RETRY_INTERVAL,
            files: Vec::new(),
            devices: BTreeSet::new(),
            why: None,
        };
        match verbs_context::of_process(&self.root, pid, PATIENCE) {
            Err(why) => searched.why = Some(why),
            Ok(found) => {
                for function in found {
                    if let Err(why) = self.add(pid, &function, &mut searched) {
                        searched.why = Some(why);
                    }
                }
            }
        }
        searched
    }

    fn add(&mut self, pid: u32, of: &PostSend, searched: &mut SearchedProcess) -> Result<(), String> {
        if let Some(device) = self.device(&of.uverbs) {
            self.descriptors.insert((pid, of.device_fd), device.clone());
            searched.devices.insert(device);
        }
        let key = (of.file.clone(), of.offset);
        if !self.files.contains_key(&key) {
            if self.files.len() >= MOST_FILES {
                return Err(format!("{} files are sampled already", self.files.len()));
            }
            let file = of.open()?;
            let new = SampledFile { file, path: of.path.clone(), seen: Instant::now(), is_attached: false };
            self.files.insert(key.clone(), new);
        }
        if !searched.files.contains(&key) {
            searched.files.push(key);
        }
        Ok(())
    }

    /// Forgets files without a process. One that is probed stays until the window ends: its next process would add a
    /// second probe, and each call would count twice. The probe keeps its file system in use anyway.
    fn keep(&mut self, now: Instant) {
        self.files.retain(|_, file| file.is_attached || now.saturating_duration_since(file.seen) < KEEP);
    }

    /// Publishes which files are sampled, and which processes cannot be.
    fn sources(&mut self) {
        let mut files: Vec<String> = self.files.values().map(|file| file.path.clone()).collect();
        files.sort_unstable();
        files.dedup();
        let absent = self.processes.iter().filter_map(|(pid, process)| {
            let comm = self.root.text(&format!("/proc/{pid}/comm")).ok()?;
            Some((format!("{comm} ({pid})"), process.why.clone()?))
        });
        let absent = absent.collect();
        self.counter.sources(files, &absent);
    }

    fn publish(&self) {
        *self.shared.posts.locked() = self.counter.sample();
    }
}

/// The state of the window at the last step.
#[derive(Clone, Copy, Debug, Default)]
struct TakenWindow {
    at_ns: u64,
    window: PostWindow,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::read::testing::tree;

    fn work(root: HostRoot) -> Work {
        let counter = Counter::new(Plan::default());
        let shared = Shared { present: Mutex::default(), posts: Mutex::new(counter.sample()) };
        Work::new(Plan::default(), Arc::new(shared), counter, root)
    }

    #[test]
    fn a_probed_file_is_kept_until_the_window_ends() {
        let host = tree(&[("lib/provider.so", "")]);
        let mut work = work(HostRoot::at(host.path()));
        let seen = Instant::now();
        for (inode, is_attached) in [(1, false), (2, true)] {
            let file = File::open(host.path().join("lib/provider.so")).unwrap();
            let file = SampledFile { file, path: "provider.so".to_owned(), seen, is_attached };
            work.files.insert((("8:1".to_owned(), inode), 64), file);
        }
        let kept = |work: &mut Work, at: Instant| {
            work.keep(at);
            work.files.keys().map(|((_, inode), _)| *inode).collect::<Vec<_>>()
        };
        assert_eq!(kept(&mut work, seen), [1, 2]);
        assert_eq!(kept(&mut work, seen + KEEP), [2], "a second probe of it would count each call twice");
        work.files.values_mut().for_each(|file| file.is_attached = false);
        assert_eq!(kept(&mut work, seen + KEEP), [0_u64; 0]);
    }

    /// Libraries open a device to look at it, close it, and open the next one.
    #[test]
    fn a_queue_pair_has_the_device_that_its_descriptor_is_now() {
        let host = tree(&[
            ("sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0"),
            ("sys/class/infiniband_verbs/uverbs1/ibdev", "mlx5_1"),
            ("proc/7/fd/9", "-> /dev/infiniband/uverbs0"),
        ]);
        let mut work = work(HostRoot::at(host.path()));
        work.descriptors.insert((7, 9), "mlx5_0".to_owned());
        let key = |qpn| PostKey { pid: 7, qpn, device_fd: 9, pad: 0 };
        let device = |work: &mut Work, qpn| {
            work.find_device(&key(qpn));
            work.devices.get(&key(qpn)).cloned()
        };
        assert_eq!(device(&mut work, 17).as_deref(), Some("mlx5_0"));
        let link = host.path().join("proc/7/fd/9");
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("/dev/infiniband/uverbs1", &link).unwrap();
        assert_eq!(device(&mut work, 18).as_deref(), Some("mlx5_1"));
        assert_eq!(device(&mut work, 17).as_deref(), Some("mlx5_0"), "it stays that of the older one");
        // The process has ended.
        std::fs::remove_file(&link).unwrap();
        assert_eq!(device(&mut work, 19).as_deref(), Some("mlx5_0"), "what the search had found");
    }
}
