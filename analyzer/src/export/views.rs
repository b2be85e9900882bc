//! Views attached to a running agent (`GET /samples` on a unix socket). Each gets samples and events at its own pace,
//! and the thread that counts never waits for a view.
//!
//! A view gets only the latest sample, which is cumulative. Events wait in a bounded ring. Events that a slow view
//! missed are counted and reported to it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{Notify, broadcast, watch};
use tokio::time::timeout;

use crate::sample::stream::{DUMP, Frame, Hello};
use crate::sample::{EventSample, Sample};
use crate::util::lock::Locked;

/// Maximum number of attached views.
pub const MOST: usize = 8;
/// Messages queued for a view.
const DEPTH: usize = 256;
/// Events per message: with [`DEPTH`], 65,536 events, some 15 MB, for a view that does not read.
const EVENTS: usize = 256;
/// Write timeout of a frame, after which a stalled view is detached.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// Time at the end for views to take the last sample.
const END_TIME: Duration = Duration::from_secs(2);

/// A sample, encoded once for all views by the first one that takes it.
#[derive(Debug)]
struct Reading {
    number: u64,
    sample: Arc<Sample>,
    bytes: OnceLock<Option<Bytes>>,
}

impl Reading {
    fn bytes(&self) -> Option<Bytes> {
        let packed = || Frame::Sample(Arc::clone(&self.sample)).bytes().map(Bytes::from);
        self.bytes.get_or_init(packed).clone()
    }
}

/// State that views follow.
#[derive(Clone, Debug, Default)]
struct State {
    reading: Option<Arc<Reading>>,
    ended: Option<End>,
}

/// The agent has ended, with this error if any.
#[derive(Clone, Debug)]
struct End(Option<String>);

/// Messages that each view gets once.
#[derive(Clone, Debug)]
enum Message {
    /// Events, and the number of events before them.
    Events(u64, Arc<Vec<EventSample>>),
    Notice(String),
}

/// The attached views of a process.
#[derive(Debug)]
pub struct Views {
    hello: OnceLock<Hello>,
    state: watch::Sender<State>,
    messages: broadcast::Sender<Message>,
    /// Number of samples and events so far.
    counts: Mutex<(u64, u64)>,
    open: AtomicUsize,
    gone: Notify,
    is_over: AtomicBool,
}

impl Default for Views {
    fn default() -> Self {
        Self {
            hello: OnceLock::new(),
            state: watch::Sender::default(),
            messages: broadcast::Sender::new(DEPTH),
            counts: Mutex::default(),
            open: AtomicUsize::new(0),
            gone: Notify::new(),
            is_over: AtomicBool::new(false),
        }
    }
}

/// A slot among [`MOST`].
#[derive(Debug)]
pub struct Place<'a>(&'a Views);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        self.0.gone.notify_waiters();
    }
}

impl Views {
    /// Lets views attach from now on.
    pub fn open(&self, hello: Hello) {
        // Set only once per process.
        let _ = self.hello.set(hello);
    }

    /// Publishes a sample to the attached views.
    pub fn sample(&self, sample: Box<Sample>) {
        if self.state.receiver_count() == 0 {
            // Without a view the sample is not kept.
            self.state.send_if_modified(|state| state.reading.take().is_some());
            return;
        }
        // Held until the sample is published, so that a view that attaches meanwhile counts from before it or after
        // it.
        let mut counts = self.counts.locked();
        counts.0 += 1;
        let reading = Reading { number: counts.0, sample: sample.into(), bytes: OnceLock::new() };
        self.state.send_modify(|state| state.reading = Some(Arc::new(reading)));
    }

    /// Publishes events.
    pub fn events(&self, events: &[EventSample]) {
        if self.messages.receiver_count() == 0 {
            return;
        }
        let mut counts = self.counts.locked();
        for part in events.chunks(EVENTS) {
            // A view that has just detached misses nothing.
            let _ = self.messages.send(Message::Events(counts.1, Arc::new(part.to_vec())));
            counts.1 += part.len() as u64;
        }
    }

    /// Publishes a notice.
    pub fn notice(&self, notice: &str) {
        if self.messages.receiver_count() > 0 {
            let _ = self.messages.send(Message::Notice(notice.to_owned()));
        }
    }

    /// Reports the end of the agent, with its error.
    pub fn end(&self, error: Option<String>) {
        self.is_over.store(true, Ordering::Relaxed);
        self.state.send_modify(|state| state.ended = Some(End(error)));
    }

    /// Waits until views have taken the last messages, after [`end`](Self::end).
    pub(super) async fn left(&self) {
        let all = async {
            loop {
                let gone = self.gone.notified();
                if self.open.load(Ordering::Relaxed) == 0 {
                    return;
                }
                gone.await;
            }
        };
        if self.is_over.load(Ordering::Relaxed) {
            let _ = timeout(END_TIME, all).await;
        }
    }

    /// A slot for one more view, and the line that it gets first; `None` if all are taken, or before the programs are
    /// attached.
    pub(super) fn place(&self) -> Option<(Place<'_>, String)> {
        let hello = self.hello.get()?;
        let place = Place(self);
        let is_free = self.open.fetch_add(1, Ordering::Relaxed) < MOST;
        let mut line = serde_json::to_string(hello).ok()?;
        line.push('\n');
        is_free.then_some((place, line))
    }

    /// The subscriptions of a new view, and its starting positions: from now on.
    fn join<W>(&self, to: W) -> (watch::Receiver<State>, broadcast::Receiver<Message>, View<W>) {
        let counts = self.counts.locked();
        let mut state = self.state.subscribe();
        // A sample already published for another view is the first one for this view.
        state.mark_changed();
        let reading = state.borrow().reading.as_ref().map_or(counts.0, |reading| reading.number - 1);
        (state, self.messages.subscribe(), View { to, reading, event: counts.1 })
    }

    /// Sends to a view until it disconnects or the agent ends. `dump` requests a dump of the flight recorder; it
    /// returns false without one.
    ///
    /// # Errors
    /// If the view has disconnected or does not read.
    pub(super) async fn attach<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        head: &[u8],
        dump: impl Fn() -> bool,
    ) -> io::Result<()> {
        let (mut from, to) = tokio::io::split(stream);
        let (mut state, mut messages, mut view) = self.join(to);
        view.send(head).await?;
        let mut byte = [0];
        loop {
            tokio::select! {
                changed = state.changed() => {
                    let State { reading, ended } = state.borrow_and_update().clone();
                    if ended.is_some() {
                        view.rest(&mut messages).await?;
                    }
                    if changed.is_ok() && let Some(reading) = reading {
                        view.reading(&reading).await?;
                    }
                    if let Some(End(error)) = ended {
                        view.frame(&Frame::Ended(error)).await?;
                        return view.to.shutdown().await;
                    }
                }
                message = messages.recv() => match message {
                    Ok(message) => view.message(message).await?,
                    // The next message carries the number of missed events.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Ok(()),
                },
                read = from.read(&mut byte) => {
                    if read? == 0 {
                        return Ok(());
                    }
                    if byte == [DUMP] {
                        view.frame(&Frame::Notice(answer(dump()).to_owned())).await?;
                    }
                }
            }
        }
    }
}

/// The response to a view's dump request.
const fn answer(asked: bool) -> &'static str {
    if asked {
        "a dump will be written after --post"
    } else {
        "the agent has no flight recorder: start it with --keep 10m"
    }
}

/// Positions of one view.
struct View<W> {
    to: W,
    /// Number of the latest sample sent.
    reading: u64,
    /// Number of events up to the latest message.
    event: u64,
}

impl<W: AsyncWrite + Unpin> View<W> {
    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        timeout(WRITE_TIME, self.to.write_all(bytes)).await?
    }

    async fn frame(&mut self, frame: &Frame) -> io::Result<()> {
        match frame.bytes() {
            Some(bytes) => self.send(&bytes).await,
            None => Ok(()),
        }
    }

    async fn left_out(&mut self, readings: u64, events: u64) -> io::Result<()> {
        if readings + events > 0 {
            self.frame(&Frame::LeftOut { readings, events }).await?;
        }
        Ok(())
    }

    async fn reading(&mut self, reading: &Reading) -> io::Result<()> {
        let new = reading.number.saturating_sub(std::mem::replace(&mut self.reading, reading.number));
        match reading.bytes() {
            _ if new == 0 => Ok(()),
            Some(bytes) => {
                self.left_out(new - 1, 0).await?;
                self.send(&bytes).await
            }
            None => self.left_out(new, 0).await,
        }
    }

    async fn message(&mut self, message: Message) -> io::Result<()> {
        match message {
            Message::Events(before, events) => {
                let seen = std::mem::replace(&mut self.event, before + events.len() as u64);
                self.left_out(0, before.saturating_sub(seen)).await?;
                self.frame(&Frame::Events(events)).await
            }
            Message::Notice(notice) => self.frame(&Frame::Notice(notice)).await,
        }
    }

    /// Sends all queued messages.
    async fn rest(&mut self, messages: &mut broadcast::Receiver<Message>) -> io::Result<()> {
        loop {
            match messages.try_recv() {
                Ok(message) => self.message(message).await?,
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
#[path = "views_tests.rs"]
mod tests;
