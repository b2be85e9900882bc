//! Takes updates off the feed as they come, so that a source never waits for the screen: not for a
//! slow terminal, not for a frozen view.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::sample::{EventSample, Sample};
use crate::source::feed::Update;
use crate::util::lock::Locked;

/// Events that wait for the screen at most; older ones go first.
const EVENTS: usize = 8_192;
/// Notices that wait at most.
const NOTICES: usize = 256;
/// Samples that wait at most, of so few flows that all of them have a place in the history.
const SAMPLES: usize = 512;
const FEW_FLOWS: usize = 1_024;

/// Updates since the last call.
#[derive(Debug, Default)]
pub(in crate::tui) struct UpdatesSince {
    /// The source restarted; everything else here followed that.
    pub(in crate::tui) restarted: bool,
    /// The newest sample, and before it those that came meanwhile, as far as they are small.
    pub(in crate::tui) samples: Vec<Arc<Sample>>,
    /// Events since the last take, in order.
    pub(in crate::tui) events: Vec<EventSample>,
    /// Events that were too many.
    pub(in crate::tui) too_many: u64,
    /// Notices since the last take, in order.
    pub(in crate::tui) notices: Vec<String>,
    /// Result of the source that ended.
    pub(in crate::tui) end: Option<Result<(), anyhow::Error>>,
}

impl UpdatesSince {
    fn add(&mut self, update: Update) {
        match update {
            Update::Sample(sample) => {
                self.samples.pop_if(|last| last.flows.len() > FEW_FLOWS);
                if self.samples.len() >= SAMPLES {
                    // Those that stay are as evenly spread as before.
                    let mut place = 0;
                    self.samples.retain(|_| {
                        place += 1;
                        place % 2 == 0
                    });
                }
                self.samples.push(Arc::from(sample));
            }
            Update::Events(events) => {
                self.events.extend(events);
                let over = self.events.len().saturating_sub(EVENTS);
                self.events.drain(..over);
                self.too_many += over as u64;
            }
            Update::Notice(notice) => {
                if self.notices.len() < NOTICES {
                    self.notices.push(notice);
                }
            }
            Update::Restarted => {
                let notices = std::mem::take(&mut self.notices);
                *self = Self { restarted: true, notices, ..Self::default() };
            }
            Update::Ended(result) => self.end = Some(result),
        }
    }

    /// True if there are events and nothing else.
    pub(in crate::tui) fn is_of_events(&self) -> bool {
        let other =
            self.restarted || !self.samples.is_empty() || !self.notices.is_empty() || self.end.is_some();
        !self.events.is_empty() && !other
    }

    /// True if there is anything.
    pub(in crate::tui) fn any(&self) -> bool {
        self.restarted
            || !self.samples.is_empty()
            || !self.events.is_empty()
            || !self.notices.is_empty()
            || self.end.is_some()
    }
}

/// Updates collected from the source.
#[derive(Clone, Debug)]
pub(in crate::tui) struct Inbox(Arc<Mutex<UpdatesSince>>);

impl Inbox {
    /// Starts to collect. The thread ends when the source drops its end of the feed.
    pub(in crate::tui) fn collect(updates: Receiver<Update>) -> std::io::Result<Self> {
        let news = Arc::new(Mutex::new(UpdatesSince::default()));
        let shared = Arc::clone(&news);
        thread::Builder::new().name("inbox".into()).spawn(move || {
            #[cfg(target_os = "linux")]
            crate::sandbox::write_nothing();
            let mut ended = false;
            for update in updates {
                ended = match update {
                    Update::Ended(_) => true,
                    Update::Restarted => false,
                    _ => ended,
                };
                shared.locked().add(update);
            }
            if !ended {
                // The source's thread panicked.
                let gone = anyhow::anyhow!("bug: source thread ended unexpectedly");
                shared.locked().add(Update::Ended(Err(gone)));
            }
        })?;
        Ok(Self(news))
    }

    /// Updates since the last call.
    pub(in crate::tui) fn take(&self) -> UpdatesSince {
        std::mem::take(&mut *self.0.locked())
    }
}

#[cfg(test)]
mod tests {
    use super::{EVENTS, Inbox, UpdatesSince};
    use crate::sample::EventSample;
    use crate::source::feed::{Update, channel};

    fn event(psn: u32) -> EventSample {
        EventSample { events: 1, psn, ..EventSample::default() }
    }

    #[test]
    fn too_many_events_are_counted() {
        let mut news = UpdatesSince::default();
        for chunk in 0..10u32 {
            news.add(Update::Events((0..1_000).map(|i| event(chunk * 1_000 + i)).collect()));
        }
        assert_eq!((news.events.len(), news.too_many), (EVENTS, 10_000 - EVENTS as u64));
        assert_eq!(news.events.last().map(|e| e.psn), Some(9_999));
    }

    #[test]
    fn updates_before_a_restart_are_void() {
        let mut news = UpdatesSince::default();
        news.add(Update::Notice("kept".into()));
        news.add(Update::Events(vec![event(1)]));
        news.add(Update::Ended(Ok(())));
        news.add(Update::Restarted);
        news.add(Update::Events(vec![event(2)]));
        assert!(news.restarted && news.end.is_none() && news.any());
        assert_eq!((news.events.len(), news.events[0].psn, news.notices.len()), (1, 2, 1));
    }

    #[test]
    fn a_source_whose_thread_is_gone_has_failed() {
        let (tap, feed) = channel();
        let inbox = Inbox::collect(feed.updates).unwrap();
        for i in 0..500 {
            assert!(tap.tell(Update::Events(vec![event(i)])));
        }
        drop(tap);
        let mut events = 0;
        for _ in 0..1_000 {
            let news = inbox.take();
            events += news.events.len();
            if let Some(end) = news.end {
                assert!(end.is_err());
                assert_eq!(events, 500);
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("no end");
    }
}
