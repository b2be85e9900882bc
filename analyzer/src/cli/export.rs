//! `export`: the live source behind an HTTP server, a file or a collector, with metrics for Prometheus and
//! OpenTelemetry.

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, anyhow};

use super::confine;
use super::flight::{Dumps, Flight};
use super::live::{netns, source, start};
use super::output::{Interrupt, LOOK, Updates, say};
use super::push::{self, Push};
use super::systemd::Systemd;
use super::{ExportArgs, Views, record, views};
use crate::export::exposition::Format;
use crate::export::listen::{DEFAULT, Listen, Listener};
use crate::export::serve::{Board, Dump, Server};
use crate::export::web::Web;
use crate::export::{Exporter, Exposition, Options, Process};
use crate::findings::Limits;
use crate::flight;
use crate::flight::recorder::Requests;
use crate::host::error;
use crate::record::recorder::{Recorded, Recorder};
use crate::report::{self, Report};
use crate::sample::Sample;
use crate::sample::stream::Hello;
use crate::source::feed::{Feed, Update};
use crate::source::live::Running;
use crate::source::replay::time::parse_duration;
use crate::util::system;
use crate::util::time::nanos;
use crate::util::units::duration;

pub(super) fn export(args: ExportArgs) -> Result<()> {
    serve(args, AgentParts::default())
}

/// Parts of `agent` that run beside the metrics.
#[derive(Default)]
pub(super) struct AgentParts {
    /// Records every sample.
    pub(super) recorder: Option<Recorder>,
    /// User-given name and job of the host.
    pub(super) host: Option<String>,
    pub(super) job: Option<String>,
    /// The folder of the recording.
    pub(super) folder: Option<PathBuf>,
    /// The folder of the configuration file, which may be replaced there.
    pub(super) config: Option<PathBuf>,
    /// Reads the configuration again.
    pub(super) reload: Option<Reload>,
    /// The folder for the views' socket if `--listen` names none.
    pub(super) runtime: Option<PathBuf>,
}

/// Reads the configuration again when its flag is set.
pub(super) struct Reload {
    /// True after SIGHUP, until the file has been read.
    pub(super) flag: Arc<AtomicBool>,
    /// Reads the file; `None` if it is invalid, and the old settings stay.
    pub(super) read: Box<dyn FnMut() -> Option<ReloadedSettings>>,
}

/// Settings that change while the agent runs.
pub(super) struct ReloadedSettings {
    /// Thresholds of the findings.
    pub(super) limits: Limits,
    /// Settings of the flight recorder.
    pub(super) flight: Option<flight::Settings>,
}

/// Starts to answer requests, without the right to write.
fn answer(listeners: Vec<Listener>, board: &Arc<Board>, web: Option<Web>) -> Result<Server> {
    confine::reading(|| Server::start(listeners, board, web).context("cannot start the HTTP server"))
}

/// Runs the source, publishes metrics and drives the parts of `agent`, until the source ends or a signal arrives.
pub(super) fn serve(mut args: ExportArgs, beside: AgentParts) -> Result<()> {
    let started_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanos);
    let interrupt = Interrupt::catch()?;
    let netns = netns(&args.source)?;
    let view = args.view();
    let views = views(&view, None)?;
    let settings = args.flight.settings();
    settings.iter().for_each(super::flight::announce);
    let requests = Requests::default();
    args.otlp = args.otlp.take().filter(|_| push::is_enabled());
    // First, so that an address in use is reported before anything has to be detached.
    let Sockets { listeners, mut folders, web } = Sockets::open(&args, beside.runtime.as_deref())?;
    // These threads need privileges that are about to be dropped, and have sandboxes of their own.
    let push = args.otlp.as_deref().map(|url| Push::start(url, args.interval)).transpose()?;
    if is_after_kill(&listeners, args.textfile.as_deref(), beside.recorder.as_ref()) {
        lost_in_kill(push.is_some(), settings.as_ref()).as_deref().into_iter().for_each(say);
    }
    let board = Arc::new(Board::new(settings.as_ref().map(|_| dump(&requests))));
    let options = Options { peers: whole(args.peers), qps: whole(args.per_qp) };
    let (interval, textfile) = (args.interval, args.textfile.clone());
    folders.extend(beside.folder.clone());
    let mut config = source(args.source, netns, &view, &views)?;
    config.events_to_view = settings.is_some() || beside.recorder.is_some() || takes_views(&listeners);
    let Running { mut feed, thread, hooks, interfaces, mut kept, .. } = start(config)?;
    let dumps = settings.as_ref().map(Dumps::start).transpose()?;
    kept.extend(dumps.iter().flat_map(Dumps::kept));
    // The sandbox allows no further sockets.
    let systemd = Systemd::of_env();
    let reads = beside.config.iter().cloned().chain(web.iter().flat_map(Web::reads));
    confine::export(reads, folders, beside.folder.is_some());
    // Scrapes have queued in the socket until now: the thread that answers them starts without privileges.
    let server = answer(listeners, &board, web)?;
    let Views { mut report, .. } = views;
    report.analysis.imbalance_all_links = interfaces > 1;
    hooks.iter().map(String::as_str).for_each(say);
    confine::tell(&kept);
    board.views().open(Hello::of(interfaces, &hooks));
    let mut flight = None;
    if let Some(dumps) = dumps {
        let origin = record::origin(beside.host.as_deref(), beside.job.as_deref(), true);
        let (passed, started) = Flight::start(dumps, feed, &report, requests.clone(), origin)?;
        (feed, flight) = (passed, Some(started));
    }
    let mut publisher = Publisher {
        exporter: Exporter::new(options),
        report,
        board,
        textfile: textfile.map(Textfile),
        push,
        beside,
        requests,
        systemd,
        process: Process { kernel: system::kernel_release(), started_ns, ..Process::default() },
        failing: false,
    };
    let ended = publisher.run(&feed, interval, &interrupt);
    publisher.board.views().end(ended.as_ref().err().map(|error| format!("{error:#}")));
    drop(feed);
    // The source's own end has been reported through the feed.
    let _ = thread.join();
    drop(server);
    publisher.finish();
    if let Some(flight) = flight {
        flight.finish();
    }
    ended
}

/// True if the run before this one has left what it removes at its end.
fn is_after_kill(listeners: &[Listener], textfile: Option<&Path>, recorder: Option<&Recorder>) -> bool {
    listeners.iter().any(Listener::is_after_kill)
        || textfile.is_some_and(Path::is_file)
        || recorder.is_some_and(Recorder::is_after_kill)
}

/// Data that the end of a killed run lost, beside rows of a recording; `None` if a run like this one keeps nothing in
/// memory alone.
fn lost_in_kill(has_push: bool, flight: Option<&flight::Settings>) -> Option<String> {
    let requests = has_push.then(|| "OTLP requests in its queue".to_owned());
    let held = flight.map(|flight| {
        let keep = duration(nanos(flight.keep));
        format!("the last {keep}, which its flight recorder held")
    });
    let lost: Vec<String> = [requests, held].into_iter().flatten().collect();
    (!lost.is_empty())
        .then(|| format!("the previous run was killed, or the host failed: lost are {}", lost.join(", and ")))
}

/// Handler of clients' dump requests.
fn dump(requests: &Requests) -> Dump {
    Dump { wanted_ns: Arc::clone(&requests.socket_ns), time: |text| parse_duration(text).ok() }
}

/// True if views can attach, which needs a unix socket.
fn takes_views(listeners: &[Listener]) -> bool {
    listeners.iter().any(|listener| matches!(listener, Listener::Unix(..)))
}

/// Folders of the files and sockets that are replaced, or removed at the end.
fn folders(textfile: Option<&Path>, addresses: &[Listen]) -> Vec<PathBuf> {
    let sockets = addresses.iter().filter_map(|listen| match listen {
        Listen::Unix(path) => Some(path.as_path()),
        Listen::Tcp(_) => None,
    });
    textfile.into_iter().chain(sockets).map(confine::parent).collect()
}

fn whole(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Sockets that answer scrapes and views.
struct Sockets {
    listeners: Vec<Listener>,
    /// Folders of the files and sockets that are replaced, or removed at the end.
    folders: Vec<PathBuf>,
    web: Option<Web>,
}

impl Sockets {
    fn open(args: &ExportArgs, runtime: Option<&Path>) -> Result<Self> {
        let web = args.web_config.as_deref().map(|path| Web::open(path, say)).transpose();
        let web = web.map_err(|error| anyhow!(error))?;
        let passed = Listener::from_systemd();
        let addresses = addresses(args, &passed, runtime)?;
        let folders = folders(args.textfile.as_deref(), &addresses);
        Ok(Self { listeners: listeners(passed, &addresses, web.as_ref())?, folders, web })
    }
}

/// Addresses to bind, beside the sockets that systemd passed. `runtime` is the folder of the views' socket if none is
/// named.
fn addresses(args: &ExportArgs, passed: &[Listener], runtime: Option<&Path>) -> Result<Vec<Listen>> {
    let mut all = args.listen.clone();
    if all.is_empty() && passed.is_empty() && args.textfile.is_none() && args.otlp.is_none() {
        all.push(DEFAULT.parse().map_err(|error: String| anyhow!(error))?);
    }
    let views = takes_views(passed) || all.iter().any(|address| matches!(address, Listen::Unix(_)));
    if let Some(folder) = runtime.filter(|_| !views) {
        all.push(Listen::Unix(folder.join("agent.sock")));
    }
    Ok(all)
}

/// The passed sockets, and those bound to `addresses`.
fn listeners(passed: Vec<Listener>, addresses: &[Listen], web: Option<&Web>) -> Result<Vec<Listener>> {
    let mut all = passed;
    for address in addresses {
        let listener = Listener::bind(address).map_err(|error| {
            anyhow!("cannot listen on {address}: {}; choose another --listen", reason(&error))
        });
        all.push(listener?);
    }
    let guard = web.map(Web::guard);
    let encrypted = guard.as_ref().is_some_and(|guard| guard.is_encrypted());
    let password = guard.is_some_and(|guard| guard.users.is_some());
    for listener in &all {
        say(&format!("metrics at {}", listener.address(encrypted)));
        match (listener.is_remote(), encrypted, password) {
            (true, false, false) => {
                say(
                    "other hosts can read the metrics: they are neither encrypted nor protected by a password",
                );
            }
            (true, false, true) => {
                say("other hosts on the way can read the metrics and passwords: they are not encrypted");
            }
            _ => {}
        }
    }
    Ok(all)
}

/// An I/O error as text, with the usual remedy.
fn reason(cause: &io::Error) -> String {
    let words = match cause.kind() {
        ErrorKind::AddrInUse => "another process listens on it",
        ErrorKind::AddrNotAvailable => "no interface of this host has the address",
        ErrorKind::NotFound => "its folder does not exist",
        ErrorKind::StorageFull => "the file system is full",
        _ => return error::words(cause),
    };
    words.to_owned()
}

/// Turns samples into metrics and publishes them.
struct Publisher {
    exporter: Exporter,
    report: report::Options,
    board: Arc<Board>,
    textfile: Option<Textfile>,
    push: Option<Push>,
    beside: AgentParts,
    requests: Requests,
    systemd: Systemd,
    process: Process,
    /// The last attempt to write the file failed; avoids repeated messages.
    failing: bool,
}

impl Publisher {
    /// Runs until the source ends or a signal asks for the end.
    fn run(&mut self, feed: &Feed, interval: Duration, interrupt: &Interrupt) -> Result<()> {
        let mut next: Option<Instant> = None;
        let mut updates = Updates::of(feed, interrupt);
        loop {
            self.reload();
            match updates.next_or_end(|| self.systemd.stopping()) {
                Some(Update::Sample(sample)) => {
                    #[cfg(feature = "test-clock")]
                    crate::util::hijack::here("publisher");
                    let now = Instant::now();
                    let is_due = next.is_none_or(|next| now >= next);
                    self.take(&sample, is_due);
                    self.board.views().sample(sample);
                    if is_due {
                        // Samples arrive slightly late: without this margin, some intervals would last one sample
                        // longer.
                        next = Some(now + interval.saturating_sub(LOOK));
                    }
                }
                Some(Update::Events(events)) => {
                    self.board.views().events(&events);
                    if let Some(recorder) = &mut self.beside.recorder {
                        recorder.events(events);
                    }
                }
                Some(Update::Notice(notice)) => {
                    self.board.views().notice(&notice);
                    say(&notice);
                }
                Some(Update::Ended(result)) => return result,
                Some(Update::Restarted) | None => {}
            }
        }
    }

    /// Seals the recording and sends queued data.
    fn finish(self) {
        if let Some(recorder) = self.beside.recorder {
            record::finish(recorder);
        }
        if let Some(push) = self.push {
            push.pusher.finish();
        }
    }

    /// Reads the configuration again if requested.
    fn reload(&mut self) {
        let Some(reload) = &mut self.beside.reload else { return };
        if !reload.flag.swap(false, Ordering::Relaxed) {
            return;
        }
        self.systemd.reloading();
        let Some(new) = (reload.read)() else { return };
        self.report.limits = new.limits;
        if let Some(settings) = new.flight {
            self.requests.change(settings, self.report.clone());
        }
    }

    /// Records a sample, and publishes it if due.
    fn take(&mut self, sample: &Sample, is_due: bool) {
        self.systemd.works();
        self.board.works(Instant::now());
        if !is_due && self.beside.recorder.is_none() {
            return;
        }
        let report = Report::build(sample, &self.report);
        if let Some(recorder) = &mut self.beside.recorder {
            for notice in recorder.take(sample, &report) {
                self.board.views().notice(&notice);
                say(&notice);
            }
            let Recorded { rows, losses } = recorder.recorded();
            self.process.rows = Some([rows, losses.rows]);
            self.systemd.lost(losses.rows);
        }
        if is_due {
            self.publish(sample, &report);
        }
    }

    fn publish(&mut self, sample: &Sample, report: &Report) {
        self.process.cpu_seconds = Some(cpu_seconds());
        self.process.resident_bytes = resident_bytes();
        self.process.bpf.refresh(Instant::now());
        if let Some(push) = &self.push {
            self.process.otlp = push.pusher.tallies();
        }
        let families = self.exporter.take(sample, report, &self.process);
        if let Some(push) = &mut self.push {
            push.take(&families, report, sample);
        }
        let exposition = Exposition::of(&families);
        if let Some(file) = &self.textfile {
            let written = file.write(exposition.text(Format::Text));
            if let Err(error) = &written
                && !self.failing
            {
                say(&format!("{error:#}; trying again at each interval"));
            }
            self.failing = written.is_err();
        }
        self.board.publish(exposition);
    }
}

/// A file for node_exporter's textfile collector. Removed at the end, since the collector would report its last
/// values forever.
struct Textfile(PathBuf);

impl Textfile {
    /// Replaces the file atomically, so that no reader sees a partial one. The temporary name does not end in
    /// `.prom`, which the collector would read.
    fn write(&self, text: &str) -> Result<()> {
        let aside = self.aside();
        // A killed process with the same PID may have left it; a symbolic link there must not be followed.
        remove(&aside);
        let replaced = create(&aside, text).and_then(|()| std::fs::rename(&aside, &self.0));
        replaced.map_err(|error| {
            remove(&aside);
            anyhow!("cannot write {}: {}", self.0.display(), reason(&error))
        })
    }

    fn aside(&self) -> PathBuf {
        let mut name = self.0.clone().into_os_string();
        name.push(format!(".{}", std::process::id()));
        name.into()
    }
}

impl Drop for Textfile {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Creates a file that the collector, which runs as another user, can read.
fn create(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(text.as_bytes())
}

fn remove(path: &Path) {
    // A missing file needs no removal.
    let _ = std::fs::remove_file(path);
}

/// CPU time of this process, in seconds.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Resident memory of this process; `None` if /proc is not readable.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::cli::{Args, Verb};

    #[test]
    fn a_service_without_a_socket_for_views_makes_one() {
        let addresses = |options: &[&str], passed: &[Listener], runtime: Option<&str>| {
            let line = ["rocescope", "agent"].iter().chain(options).map(OsString::from);
            let Verb::Agent(args) = Args::read(line).unwrap().verb else { unreachable!() };
            let all = addresses(&args.export, passed, runtime.map(Path::new)).unwrap();
            all.iter().map(Listen::to_string).collect::<Vec<_>>()
        };
        let default = format!("http://{DEFAULT}/metrics");
        let run = Some("/run/rocescope");
        assert_eq!(addresses(&[], &[], None), [default.as_str()]);
        assert_eq!(addresses(&[], &[], run), [default.as_str(), "unix:/run/rocescope/agent.sock"]);
        assert_eq!(addresses(&["--listen", "unix:/a"], &[], run), ["unix:/a"]);
        assert_eq!(addresses(&["--textfile", "/a"], &[], run), ["unix:/run/rocescope/agent.sock"]);
        let tcp = [Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap()];
        assert_eq!(addresses(&[], &tcp, run), ["unix:/run/rocescope/agent.sock"]);
        assert_eq!(addresses(&[], &tcp, None), [""; 0]);
    }

    #[test]
    fn a_textfile_is_replaced_as_a_whole_and_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rocescope.prom");
        let file = Textfile(path.clone());
        for text in ["a 1\n", "a 2\n"] {
            file.write(text).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        }
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_ne!(file.aside().extension(), Some("prom".as_ref()));
        drop(file);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let error = Textfile(folder.path().join("no/rocescope.prom")).write("").unwrap_err();
        let said = format!("{error:#}");
        assert!(said.contains("no/rocescope.prom") && said.contains("its folder does not exist"), "{said}");
    }

    #[test]
    fn what_a_kill_cost_is_reported_of_what_was_in_memory_alone() {
        let line = ["rocescope", "agent", "--keep", "10m"].iter().map(OsString::from);
        let Verb::Agent(args) = Args::read(line).unwrap().verb else { unreachable!() };
        let flight = args.export.flight.settings();
        assert_eq!(lost_in_kill(false, None), None);
        let said = lost_in_kill(true, flight.as_ref()).unwrap();
        let both =
            "lost are OTLP requests in its queue, and the last 10 min 0 s, which its flight recorder held";
        assert!(said.ends_with(both), "{said}");
        let said = lost_in_kill(true, None).unwrap();
        assert!(said.ends_with("lost are OTLP requests in its queue"), "{said}");
    }

    #[test]
    fn the_process_knows_its_own_use() {
        assert!(resident_bytes().unwrap() > 1 << 20);
        assert!(cpu_seconds() > 0.0);
    }
}
