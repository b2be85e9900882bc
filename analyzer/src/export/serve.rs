//! The thread that answers scrapes: the thread that counts never waits for clients.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::exposition::Exposition;
use super::http::{self, Answer, DumpRequested, MOST_HEAD, Refusal, Request};
use super::listen::{Listener, SocketFile};
use super::views::Views;
use super::web::{Guard, Web};
use crate::util::lock::Locked;
use crate::util::time::nanos;

/// Time without a sample, of which there is one a second, after which the process counts as hanging: that of the unit's
/// watchdog.
const HANGS: Duration = Duration::from_secs(30);
/// Maximum number of simultaneous connections; further ones are closed at once.
const MOST_CONNECTIONS: usize = 64;
/// Timeout for receiving a request head.
const HEAD_TIME: Duration = Duration::from_secs(3);
/// Timeout for sending a response.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// Time for the client to close its side.
const CLOSE_TIME: Duration = Duration::from_secs(1);
/// Maximum number of bytes after the head that are read and discarded. Closing with unread data would send a reset,
/// and the client could lose the response.
const MOST_REST: usize = 256 * 1024;
/// Pause after accept fails, since no file descriptors are free.
const PAUSE: Duration = Duration::from_millis(100);

/// Receives dump requests from clients on unix sockets.
#[derive(Clone, Debug)]
pub struct Dump {
    /// Requested time before the request, in nanoseconds; `u64::MAX` for everything held, 0 for no request.
    pub wanted_ns: Arc<AtomicU64>,
    /// Parses a duration such as 5m.
    pub time: fn(&str) -> Option<Duration>,
}

impl Dump {
    /// Requests a dump of `last=TIME`, or of everything held if the query is empty.
    fn ask(&self, query: &str) -> DumpRequested {
        let wanted_ns = match query.strip_prefix("last=") {
            Some(time) => (self.time)(time).map(nanos),
            None => query.is_empty().then_some(u64::MAX),
        };
        let Some(wanted_ns) = wanted_ns.filter(|ns| *ns > 0) else { return DumpRequested::NoTime };
        self.wanted_ns.fetch_max(wanted_ns, Ordering::Relaxed);
        DumpRequested::Yes
    }
}

/// State shared with the server: the latest exposition, the attached views, and dump requests.
#[derive(Debug, Default)]
pub struct Board {
    latest: Mutex<Option<Arc<Exposition>>>,
    /// Receiver of dump requests; `None` without a flight recorder.
    dump: Option<Dump>,
    views: Views,
    /// Time of the latest sample, or of the start.
    sampled: Mutex<Option<Instant>>,
}

impl Board {
    /// A board; with `dump`, clients on unix sockets can request a dump.
    pub fn new(dump: Option<Dump>) -> Self {
        Self { dump, ..Self::default() }
    }

    /// The views attached through unix sockets.
    pub const fn views(&self) -> &Views {
        &self.views
    }

    fn ask_for_dump(&self, query: &str) -> DumpRequested {
        self.dump.as_ref().map_or(DumpRequested::NoRecorder, |dump| dump.ask(query))
    }

    /// Call at the start, and with each sample.
    pub fn works(&self, now: Instant) {
        *self.sampled.locked() = Some(now);
    }

    /// True if the samples have stopped.
    fn hangs(&self, now: Instant) -> bool {
        self.sampled.locked().is_some_and(|last| now.saturating_duration_since(last) > HANGS)
    }

    /// Replaces the exposition.
    pub fn publish(&self, exposition: Exposition) {
        let exposition = Some(Arc::new(exposition));
        let before = std::mem::replace(&mut *self.latest.locked(), exposition);
        // Freed after the lock is released.
        drop(before);
    }

    /// The latest exposition; `None` before the first.
    pub fn latest(&self) -> Option<Arc<Exposition>> {
        self.latest.locked().clone()
    }
}

/// A running server. Dropping it stops it and removes its unix sockets.
#[derive(Debug)]
pub struct Server {
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
    _files: Vec<SocketFile>,
}

impl Server {
    /// Answers on `listeners` from now on. `web` guards TCP connections; access to unix sockets is controlled by file
    /// permissions.
    ///
    /// # Errors
    /// If a thread or a file descriptor cannot be created.
    pub fn start(listeners: Vec<Listener>, board: &Arc<Board>, web: Option<Web>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let open = Arc::new(AtomicUsize::new(0));
        board.works(Instant::now());
        let web = web.map(Arc::new);
        let mut files = Vec::new();
        {
            let _entered = runtime.enter();
            for listener in listeners {
                let (board, open) = (Arc::clone(board), Arc::clone(&open));
                match listener {
                    Listener::Tcp(listener) => {
                        listener.set_nonblocking(true)?;
                        let listener = tokio::net::TcpListener::from_std(listener)?;
                        let web = web.clone();
                        runtime.spawn(async move {
                            loop {
                                let accepted = listener.accept().await.map(|(stream, _)| stream);
                                let client = Client::Remote(web.as_ref().map(|web| web.guard()));
                                take(accepted, client, &board, &open).await;
                            }
                        });
                    }
                    Listener::Unix(listener, file) => {
                        files.extend(file);
                        listener.set_nonblocking(true)?;
                        let listener = tokio::net::UnixListener::from_std(listener)?;
                        runtime.spawn(async move {
                            loop {
                                let accepted = listener.accept().await.map(|(stream, _)| stream);
                                take(accepted, Client::Local, &board, &open).await;
                            }
                        });
                    }
                }
            }
        }
        let stop = Arc::new(Notify::new());
        let (stopped, board) = (Arc::clone(&stop), Arc::clone(board));
        let thread = std::thread::Builder::new().name("export".to_owned()).spawn(move || {
            runtime.block_on(async {
                stopped.notified().await;
                board.views.left().await;
            });
        })?;
        Ok(Self { stop, thread: Some(thread), _files: files })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was reported on standard error.
            let _ = thread.join();
        }
    }
}

/// A slot among [`MOST_CONNECTIONS`].
struct Place(Arc<AtomicUsize>);

impl Place {
    /// Takes a slot; `None` if all are taken.
    fn of(open: &Arc<AtomicUsize>) -> Option<Self> {
        let place = Self(Arc::clone(open));
        (open.fetch_add(1, Ordering::Relaxed) < MOST_CONNECTIONS).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Transport of a client.
#[derive(Clone, Debug)]
enum Client {
    /// Through a unix socket: requests with an effect are allowed.
    Local,
    /// Through TCP: the guard must admit it, if there is one.
    Remote(Option<Arc<Guard>>),
}

impl Client {
    const fn is_local(&self) -> bool {
        matches!(self, Self::Local)
    }

    /// True if the client may have the response. Health checks need no password, since Kubernetes probes send none.
    async fn may(&self, request: &Request) -> bool {
        let Self::Remote(Some(guard)) = self else { return true };
        let is_probe = matches!(request.path.as_str(), "/healthz" | "/readyz");
        let Some(users) = guard.users.as_ref().filter(|_| !is_probe) else { return true };
        users.admit(request.authorization.as_deref()).await
    }
}

/// Serves an accepted connection.
async fn take<S>(accepted: io::Result<S>, client: Client, board: &Arc<Board>, open: &Arc<AtomicUsize>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Ok(stream) = accepted else { return sleep(PAUSE).await };
    let Some(place) = Place::of(open) else { return };
    let board = Arc::clone(board);
    tokio::spawn(async move {
        let _place = place;
        // A client that disconnects is no failure.
        let _ = encrypted(stream, client, &board).await;
    });
}

/// Serves a connection, over TLS if configured.
#[cfg(feature = "tls")]
async fn encrypted<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    client: Client,
    board: &Board,
) -> io::Result<()> {
    let Client::Remote(Some(guard)) = &client else { return converse(stream, &client, board).await };
    let Some(encryption) = &guard.encryption else { return converse(stream, &client, board).await };
    let stream = timeout(HEAD_TIME, encryption.accept(stream)).await??;
    // As with an untrusted certificate, the client gets no reason.
    if !encryption.admits(stream.get_ref().1) {
        return Ok(());
    }
    converse(stream, &client, board).await
}

/// Serves a connection; this build has no TLS.
#[cfg(not(feature = "tls"))]
async fn encrypted<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    client: Client,
    board: &Board,
) -> io::Result<()> {
    converse(stream, &client, board).await
}

/// Reads one request and sends its response.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    client: &Client,
    board: &Board,
) -> io::Result<()> {
    let request = match timeout(HEAD_TIME, request(&mut stream)).await {
        Ok(request) => match request? {
            Some(request) => request,
            // The client closed without a request.
            None => return Ok(()),
        },
        Err(_) => Err(Refusal::Timeout),
    };
    if let Ok(request) = &request
        && !client.may(request).await
    {
        return answer_with(stream, &Answer::unauthorized()).await;
    }
    if client.is_local() && request.as_ref().is_ok_and(Request::is_for_samples) {
        if let Some((_place, hello)) = board.views.place() {
            let head = [http::SAMPLES_HEAD, &hello].concat();
            return board
                .views
                .attach(stream, head.as_bytes(), || board.ask_for_dump("") == DumpRequested::Yes)
                .await;
        }
        return answer_with(stream, &Answer::no_place()).await;
    }
    let answer = match &request {
        Ok(request) if client.is_local() && request.post && request.path == "/dump" => {
            Answer::dump(board.ask_for_dump(&request.query))
        }
        request => Answer::to(request, board.latest(), board.hangs(Instant::now())),
    };
    answer_with(stream, &answer).await
}

/// Sends a response and closes the connection.
async fn answer_with<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, answer: &Answer) -> io::Result<()> {
    let send = async {
        stream.write_all(answer.head().as_bytes()).await?;
        stream.write_all(answer.body()).await?;
        stream.shutdown().await
    };
    timeout(ANSWER_TIME, send).await??;
    let _ = timeout(CLOSE_TIME, rest(&mut stream)).await;
    Ok(())
}

/// Reads a request head; `None` if the client closes without having sent anything.
async fn request<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Option<Result<Request, Refusal>>> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let read = stream.read(&mut buffer).await?;
        head.extend_from_slice(buffer.get(..read).unwrap_or_default());
        #[cfg(all(feature = "test-clock", target_os = "linux"))]
        crate::util::hijack::here("http");
        if let Some(end) = http::end_of_head(&head).filter(|end| *end <= MOST_HEAD) {
            return Ok(Some(http::parse(head.get(..end).unwrap_or_default())));
        }
        if head.len() >= MOST_HEAD {
            return Ok(Some(Err(Refusal::TooLong)));
        }
        if read == 0 {
            return Ok((!head.is_empty()).then_some(Err(Refusal::BadRequest)));
        }
    }
}

/// Reads and discards what the client still sends.
async fn rest<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<()> {
    let mut buffer = [0; 4096];
    let mut left = MOST_REST;
    while left > 0 {
        match stream.read(&mut buffer).await? {
            0 => break,
            read => left = left.saturating_sub(read),
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
