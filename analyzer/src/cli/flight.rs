//! The flight recorder between a live source and its view.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use signal_hook::consts::SIGUSR1;

use crate::doctor::{self, Page, Privileged};
use crate::flight::dump::Dump;
use crate::flight::recorder::{Recorder, Requests};
use crate::flight::{Settings, aside, tee, writer};
use crate::host::read::HostRoot;
use crate::host::read::queries::Kernel;
use crate::record::collect::Origin;
use crate::report;
use crate::sandbox::{self, Plan};
use crate::source::feed::{self, Feed, SourceEnd};
use crate::util::notice::say;

/// The threads of dumps, which start before privileges are dropped: that which writes them, that which reads the host
/// for doctor's page, and that which starts the user's program.
pub(super) struct Dumps {
    settings: Settings,
    sender: SyncSender<Dump>,
    writing: JoinHandle<()>,
    end: SourceEnd,
    view: Feed,
}

impl Dumps {
    pub(super) fn start(settings: &Settings) -> Result<Self> {
        const NO_THREAD: &str = "cannot start the threads that write dumps";
        let (end, view) = feed::channel();
        // Read here, while there are privileges: they are among these facts.
        let earlier = HostRoot::here().ok().map(|root| Privileged::read(&root));
        let prepare = move || {
            sandbox::confine(&Plan::reading_host());
            move |()| facts(earlier.as_ref())
        };
        let page = aside::start("doctor", prepare).context(NO_THREAD)?;
        let page = Box::new(move || page(()).flatten());
        let (sender, writing) =
            writer::start(settings.clone(), page, end.updates.clone()).context(NO_THREAD)?;
        Ok(Self { settings: settings.clone(), sender, writing, end, view })
    }

    /// What the threads keep, one sentence for each that keeps any. Call it before privileges are given up.
    pub(super) fn kept(&self) -> Vec<String> {
        let program = self.settings.command.as_deref().map(Path::display);
        let program = program.map(|program| format!("all that it was given (--on-cmd starts {program})"));
        sandbox::kept_by([
            ("dumps", sandbox::kept(&writer::needs(&self.settings.folder))),
            ("doctor", sandbox::kept(&Plan::reading_host())),
            ("on-cmd", program.into_iter().collect()),
        ])
    }
}

/// A running recorder.
pub(super) struct Flight {
    threads: [JoinHandle<()>; 2],
}

impl Flight {
    /// Inserts a recorder between source and view, with the privileges of the caller. `origin` is written to the rows
    /// of dumps. SIGUSR1 triggers a dump.
    pub(super) fn start(
        dumps: Dumps,
        source: Feed,
        report: &report::Options,
        requests: Requests,
        origin: Origin,
    ) -> Result<(Feed, Self)> {
        let Dumps { settings, sender, writing, end, view } = dumps;
        signal_hook::flag::register(SIGUSR1, Arc::clone(&requests.signal)).context("cannot catch SIGUSR1")?;
        let recorder = Recorder::new(&settings, origin, report.clone(), requests, sender);
        let passing = || tee::start(source, end, recorder).context("cannot start the flight recorder");
        let passing = super::confine::reading(passing)?;
        Ok((view, Self { threads: [passing, writing] }))
    }

    /// Waits until the last dump is written. Call it after the view has closed its end of the feed.
    pub(super) fn finish(self) {
        for thread in self.threads {
            // A panic in the thread was reported on standard error.
            let _ = thread.join();
        }
    }
}

/// Prints the recorder's settings.
pub(super) fn announce(settings: &Settings) {
    let on = settings.on.to_string();
    let on = if on.is_empty() { "on request".to_owned() } else { format!("on {on}, and on request") };
    say(&format!("flight recorder: dumps go to {} {on}", settings.folder.display()));
}

/// Doctor's page of this host.
fn facts(earlier: Option<&Privileged>) -> Option<String> {
    #[cfg(feature = "test-clock")]
    crate::util::hijack::here("facts");
    let root = HostRoot::here().ok()?;
    Page::of(doctor::collect_with(&root, &Kernel, earlier)).json().ok()
}
