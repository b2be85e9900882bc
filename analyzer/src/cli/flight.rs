//! The flight recorder between a live source and its view.

use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use signal_hook::consts::SIGUSR1;

use super::record::origin;
use crate::doctor::{self, Page};
use crate::flight::recorder::{Recorder, Requests};
use crate::flight::{Settings, tee, writer};
use crate::host::queries::Kernel;
use crate::host::read::HostRoot;
use crate::report;
use crate::source::feed::{self, Feed};
use crate::util::notice::say;

/// A running recorder.
pub(super) struct Flight {
    threads: [JoinHandle<()>; 2],
}

impl Flight {
    /// Puts a recorder between a source and its view. SIGUSR1 makes it write a dump.
    pub(super) fn start(
        settings: &Settings,
        source: Feed,
        report: &report::Options,
        requests: Requests,
    ) -> Result<(Feed, Self)> {
        signal_hook::flag::register(SIGUSR1, Arc::clone(&requests.signal)).context("cannot catch SIGUSR1")?;
        let (end, view) = feed::channel();
        let (dumps, writing) = writer::start(settings.clone(), Box::new(facts), end.updates.clone())
            .context("cannot start the thread that writes dumps")?;
        let recorder = Recorder::new(settings, origin(None, None, true), report.clone(), requests, dumps);
        let passing = tee::start(source, end, recorder).context("cannot start the flight recorder")?;
        Ok((view, Self { threads: [passing, writing] }))
    }

    /// Waits until the last dump is written; the view's end of the feed is gone by now.
    pub(super) fn finish(self) {
        for thread in self.threads {
            // A panic there was reported on standard error.
            let _ = thread.join();
        }
    }
}

/// Says what the recorder does.
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
