//! The flight recorder between a live source and its view.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use signal_hook::consts::SIGUSR1;

use crate::doctor::{self, Page};
use crate::flight::dump::Dump;
use crate::flight::recorder::{Recorder, Requests};
use crate::flight::{Settings, tee, writer};
use crate::host::read::HostRoot;
use crate::host::read::queries::Kernel;
use crate::record::collect::Origin;
use crate::report;
use crate::source::feed::{self, Feed, SourceEnd};
use crate::util::notice::say;

/// The thread that writes dumps. It reads the whole host for doctor's page and starts the user's program, so it starts
/// before privileges are dropped and keeps them. What a dump has of packets is read by a thread of its own, which has
/// none.
pub(super) struct Dumps {
    settings: Settings,
    sender: SyncSender<Dump>,
    writing: JoinHandle<()>,
    end: SourceEnd,
    view: Feed,
}

impl Dumps {
    pub(super) fn start(settings: &Settings) -> Result<Self> {
        let (end, view) = feed::channel();
        let (sender, writing) = writer::start(settings.clone(), Box::new(facts), end.updates.clone())
            .context("cannot start the thread that writes dumps")?;
        Ok(Self { settings: settings.clone(), sender, writing, end, view })
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
fn facts() -> Option<String> {
    let root = HostRoot::here().ok()?;
    Page::of(doctor::collect(&root, &Kernel)).json().ok()
}
