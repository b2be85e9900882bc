//! The sending threads: one per signal, so that neither counting nor the other signal waits for a slow collector.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Write as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;
use ureq::Agent;

use super::Requests;
use super::proto::Response;
use super::queue::{Answer, MOST, Queue, Tally, pause};
use super::settings::{Signal, Target};
#[cfg(target_os = "linux")]
use crate::sandbox::{self, Plan};
use crate::util::lock::Locked;
use crate::util::notice::say;
use crate::util::request;

/// Time at the end of the run for sending the queued requests.
const LAST: Duration = Duration::from_secs(5);
/// Maximum length of a response that is read, in bytes.
const MOST_ANSWER: u64 = 64 * 1024;

/// Sends requests to the collectors.
#[derive(Debug)]
pub struct Pusher(Vec<Channel>);

#[derive(Debug)]
struct Channel {
    signal: Signal,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: Queue,
    tally: Tally,
    /// A request was taken from the queue and is not answered yet.
    sending: bool,
    /// The run is ending: no more retries.
    stopping: bool,
    /// The thread has ended.
    done: bool,
}

impl Pusher {
    /// Starts a thread per target.
    ///
    /// # Errors
    /// If the certificates of a target cannot be read, or a thread cannot be started.
    pub fn start(targets: Vec<Target>) -> io::Result<Self> {
        let start = |target: Target| {
            let shared = Arc::new(Shared::default());
            let channel = Channel { signal: target.signal, shared: Arc::clone(&shared) };
            let thread = std::thread::Builder::new().name(format!("otlp-{}", target.signal.name()));
            let sender = Sender::new(target).map_err(io::Error::other)?;
            thread.spawn(move || {
                #[cfg(target_os = "linux")]
                sandbox::confine(&Plan::client(request::port(&sender.target.url).unwrap_or(80)));
                sender.run(&shared);
            })?;
            Ok(channel)
        };
        targets.into_iter().map(start).collect::<io::Result<_>>().map(Self)
    }

    /// Queues the requests of a sample. Never blocks.
    pub fn push(&self, requests: Requests) {
        let Requests { metrics, mut logs, .. } = requests;
        let mut metrics = Some(metrics).filter(|body| !body.is_empty());
        for channel in &self.0 {
            let body = match channel.signal {
                Signal::Metrics => metrics.take(),
                Signal::Logs => logs.take(),
            };
            if let Some(body) = body {
                let mut state = channel.shared.state.locked();
                let dropped = state.queue.push(body);
                state.tally.dropped += dropped;
                channel.shared.changed.notify_all();
            }
        }
    }

    /// Outcome of the requests so far, by signal.
    pub fn tallies(&self) -> Vec<(&'static str, Tally)> {
        self.0.iter().map(|channel| (channel.signal.name(), channel.shared.state.locked().tally)).collect()
    }

    /// Sends queued requests for a few seconds at most, and reports what could not be sent.
    pub fn finish(self) {
        let until = Instant::now() + LAST;
        for channel in &self.0 {
            channel.shared.state.locked().stopping = true;
            channel.shared.changed.notify_all();
        }
        for channel in &self.0 {
            let mut state = channel.shared.state.locked();
            while !state.done && Instant::now() < until {
                state = channel.shared.wait(state, until.saturating_duration_since(Instant::now()));
            }
            let left = state.queue.len() + usize::from(state.sending);
            let (signal, dropped) = (channel.signal.name(), state.tally.dropped);
            if left > 0 {
                say(&format!("{left} OTLP requests with {signal} were not delivered before the end"));
            }
            if dropped > 0 {
                say(&format!(
                    "{dropped} OTLP requests with {signal} were dropped while the collector was away"
                ));
            }
        }
    }
}

impl Shared {
    fn wait<'a>(&self, state: MutexGuard<'a, State>, most: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, most).map_or_else(|error| error.into_inner().0, |(state, _)| state)
    }
}

/// Outcome of one request.
struct Outcome {
    answer: Answer,
    /// Points that the collector rejected in an accepted request.
    rejected: u64,
    /// Reason of the failure, or a warning of the collector.
    reason: Option<String>,
}

struct Sender {
    target: Target,
    agent: Agent,
    /// Failures in a row.
    failures: u32,
    /// The reason reported last, until a request is accepted.
    said: Option<String>,
}

impl Sender {
    fn new(target: Target) -> Result<Self, String> {
        let limit = || {
            #[cfg(target_os = "linux")]
            sandbox::confine(&Plan::names());
        };
        let agent = request::agent(&target.url, target.timeout, &target.certificates, limit)
            .map_err(|error| format!("{}: {error}", target.url))?;
        Ok(Self { target, agent, failures: 0, said: None })
    }

    /// Sends until the run ends.
    fn run(mut self, shared: &Shared) {
        loop {
            let mut state = shared.state.locked();
            let body = loop {
                match state.queue.pop() {
                    Some(body) => break body,
                    None if state.stopping => {
                        state.done = true;
                        return shared.changed.notify_all();
                    }
                    None => state = shared.wait(state, Duration::from_secs(60)),
                }
            };
            state.sending = true;
            drop(state);
            let outcome = self.send(&body);
            self.tell(&outcome);
            let mut state = shared.state.locked();
            state.sending = false;
            match outcome.answer {
                Answer::Accepted => {
                    self.failures = 0;
                    state.tally.sent += 1;
                    state.tally.rejected_points += outcome.rejected;
                }
                Answer::Refused => state.tally.refused += 1,
                Answer::Again(asked) => {
                    self.failures = self.failures.saturating_add(1);
                    let dropped = state.queue.put_back(body);
                    state.tally.dropped += dropped;
                    let until = Instant::now() + asked.unwrap_or_else(|| pause(self.failures, random()));
                    while !state.stopping && Instant::now() < until {
                        state = shared.wait(state, until.saturating_duration_since(Instant::now()));
                    }
                    if state.stopping && self.failures > 1 {
                        // The collector is unreachable: the rest stays in the queue and is reported.
                        state.done = true;
                        return shared.changed.notify_all();
                    }
                    state.tally.retried += 1;
                }
            }
        }
    }

    fn send(&self, body: &[u8]) -> Outcome {
        let Target { url, headers, gzip, .. } = &self.target;
        let mut request = self.agent.post(url).header("Content-Type", "application/x-protobuf");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let sent = if *gzip {
            match compressed(body) {
                Ok(body) => request.header("Content-Encoding", "gzip").send(&body[..]),
                Err(error) => Err(error.into()),
            }
        } else {
            request.send(body)
        };
        match sent {
            Err(error) => {
                Outcome { answer: Answer::Again(None), rejected: 0, reason: Some(request::reason(&error)) }
            }
            Ok(mut response) => {
                #[cfg(feature = "test-clock")]
                crate::util::hijack::here("otlp");
                let status = response.status();
                let after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
                let answer = Answer::of(status.as_u16(), after, unix_s());
                let bytes =
                    response.body_mut().with_config().limit(MOST_ANSWER).read_to_vec().unwrap_or_default();
                if answer != Answer::Accepted {
                    return Outcome { answer, rejected: 0, reason: Some(format!("it answers {status}")) };
                }
                let partial = Response::decode(&bytes[..]).ok().and_then(|response| response.partial_success);
                let rejected =
                    partial.as_ref().map_or(0, |partial| u64::try_from(partial.rejected).unwrap_or(0));
                let reason = partial.filter(|partial| partial.rejected > 0).map(|partial| {
                    format!("it rejects {} points or records: {}", partial.rejected, partial.error_message)
                });
                Outcome { answer, rejected, reason }
            }
        }
    }

    /// Reports each new reason for failures once, and the recovery.
    fn tell(&mut self, outcome: &Outcome) {
        let (signal, url) = (self.target.signal.name(), &self.target.url);
        match (&outcome.reason, &self.said) {
            (Some(reason), Some(said)) if reason == said => {}
            (Some(reason), _) => {
                let then = match outcome.answer {
                    Answer::Accepted => "the rest is accepted".to_owned(),
                    Answer::Refused => {
                        "such requests are dropped: check the URL and the collector's receiver".to_owned()
                    }
                    Answer::Again(_) => format!("trying again; up to {MOST} requests wait"),
                };
                say(&format!("cannot send {signal} to {url}: {reason}; {then}"));
                self.said = Some(reason.clone());
            }
            (None, Some(_)) => {
                say(&format!("{signal} are sent to {url} again"));
                self.said = None;
            }
            (None, None) => {}
        }
    }
}

fn compressed(body: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body)?;
    encoder.finish()
}

/// A random number, which differs between processes.
fn random() -> u32 {
    // Hashers of the standard library are seeded with random keys.
    u32::try_from(RandomState::new().build_hasher().finish() >> 32).unwrap_or(0)
}

fn unix_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.ok().and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or(0)
}
