use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use super::*;
use crate::analysis::fixtures::everything;
use crate::export::listen::{Listen, Listener};
use crate::export::serve::{Board, Dump, Server};
use crate::metrics::Metrics;
use crate::report::{self, Report, json};
use crate::sample::stream::{MOST_FRAME, layout};
use crate::source::attach::{self, Options};
use crate::source::feed::{Command, Feed, Update};
use crate::util::pack::unpacked;

const PATIENCE: Duration = Duration::from_secs(60);

fn connect(options: Options) -> anyhow::Result<attach::Attached> {
    attach::connect(options)?.greet()
}

/// A sample as a live run makes it.
fn live(time_ns: u64) -> Sample {
    let sample = everything();
    let metrics =
        Metrics { duplicates: None, icrc: None, taps: None, timeline: None, control: None, ..sample.metrics };
    Sample { time_ns, metrics, ..sample }
}

fn text(sample: &Sample) -> String {
    let mut out = Vec::new();
    json::write(&Report::build(sample, &report::Options::default()), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn event(time_ns: u64) -> EventSample {
    let key = everything().flows[0].key;
    EventSample {
        time_ns,
        key,
        events: 1,
        opcode: 4,
        tos: 2,
        src_port: 50_000,
        psn: 7,
        missing: 1,
        aeth: 0,
        wire_len: 1_082,
        bth_offset: 42,
        headers: vec![1, 2, 3].into(),
    }
}

/// A server with a unix socket, and its board.
fn server(folder: &Path, wanted_ns: Option<Arc<AtomicU64>>) -> (Server, Arc<Board>, std::path::PathBuf) {
    let path = folder.join("agent.sock");
    let dump = wanted_ns.map(|wanted_ns| Dump { wanted_ns, time: |_| None });
    let board = Arc::new(Board::new(dump));
    let listener = Listener::bind(&Listen::Unix(path.clone())).unwrap();
    let server = Server::start(vec![listener], &board, None).unwrap();
    (server, board, path)
}

fn options(socket: &Path) -> Options {
    let interval = Duration::from_secs(1);
    Options { socket: socket.to_owned(), interval, samples: true, events: true, duration: None }
}

fn until(what: &str, mut is_done: impl FnMut() -> bool) {
    let late = Instant::now() + PATIENCE;
    while !is_done() {
        assert!(Instant::now() < late, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A client that has sent its request and reads nothing yet.
fn asking(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /samples HTTP/1.1\r\n\r\n").unwrap();
    stream
}

fn next(feed: &Feed) -> Update {
    feed.updates.recv_timeout(PATIENCE).unwrap()
}

#[test]
fn a_view_has_the_report_of_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let wanted_ns = Arc::new(AtomicU64::new(0));
    let (server, board, socket) = server(folder.path(), Some(Arc::clone(&wanted_ns)));
    assert!(connect(options(&socket)).unwrap_err().to_string().contains("has just begun"));
    board.views().open(Hello::of(2, &["eth0: TC ingress and TC egress".to_owned()]));
    let attached = connect(options(&socket)).unwrap();
    assert_eq!((attached.hello().interfaces, attached.hello().pid), (2, std::process::id()));
    let (feed, thread) = attached.start().unwrap();
    until("the view", || board.views().state.receiver_count() == 1);
    let sample = live(1_000);
    let expected = text(&sample);
    board.views().sample(Box::new(sample));
    let Update::Sample(got) = next(&feed) else { panic!("no sample") };
    assert_eq!(text(&got), expected);
    assert_eq!(format!("{:?}", got.metrics.latency), format!("{:?}", live(1).metrics.latency));

    let events: Vec<EventSample> = (0..600).map(event).collect();
    board.views().events(&events);
    let mut received = Vec::new();
    while received.len() < events.len() {
        let Update::Events(some) = next(&feed) else { panic!("no events") };
        received.extend(some);
    }
    assert_eq!(received, events);
    board.views().notice("a note");
    assert!(matches!(next(&feed), Update::Notice(text) if text == "a note"));
    feed.commands.send(Command::Dump).unwrap();
    assert!(matches!(next(&feed), Update::Notice(text) if text.contains("a dump will be written")));
    assert_eq!(wanted_ns.load(Ordering::Relaxed), u64::MAX);

    // The last sample arrives, whatever the interval of the view.
    board.views().sample(Box::new(live(2_000)));
    board.views().end(None);
    drop(server);
    let mut last_ns = 0;
    loop {
        match next(&feed) {
            Update::Sample(sample) => last_ns = sample.time_ns,
            Update::Notice(text) => assert!(text.contains("the agent has ended"), "{text}"),
            Update::Ended(result) => break result.unwrap(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(last_ns, 2_000);
    thread.join().unwrap();
}

#[test]
fn a_view_that_does_not_read_holds_nobody_up_and_hears_what_it_missed() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, board, socket) = server(folder.path(), None);
    board.views().open(Hello::of(1, &[]));
    let mut stream = asking(&socket);
    until("the view", || board.views().state.receiver_count() == 1);
    // More than the socket buffer and the ring hold.
    let begin = Instant::now();
    let (readings, events) = (200, 400 * EVENTS as u64);
    let some: Vec<EventSample> = (0..EVENTS as u64).map(event).collect();
    for reading in 1..=readings {
        board.views().sample(Box::new(live(reading)));
        board.views().events(&some);
        board.views().events(&some);
    }
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    board.views().end(Some("no more".to_owned()));
    let mut head = Vec::new();
    while !head.ends_with(b"}\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    let (mut got, mut left) = ((0, 0), (0, 0));
    let mut last_ns = 0;
    loop {
        match unpacked(&Frame::read(&mut stream).unwrap().unwrap()).unwrap() {
            Frame::Sample(sample) => (got.0, last_ns) = (got.0 + 1, sample.time_ns),
            Frame::Events(some) => got.1 += some.len() as u64,
            Frame::LeftOut { readings, events } => left = (left.0 + readings, left.1 + events),
            Frame::Notice(text) => panic!("{text}"),
            Frame::Ended(error) => {
                assert_eq!(error.as_deref(), Some("no more"));
                break;
            }
        }
    }
    assert!(left.0 > 0 && left.1 > 0, "{left:?}");
    assert_eq!((got.0 + left.0, got.1 + left.1, last_ns), (readings, events, readings));
}

#[test]
fn a_view_that_wants_no_more_gets_its_last_reading_and_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, board, socket) = server(folder.path(), None);
    board.views().open(Hello::of(1, &[]));
    let (feed, thread) = connect(Options { samples: false, ..options(&socket) }).unwrap().start().unwrap();
    until("the view", || board.views().state.receiver_count() == 1);
    board.views().sample(Box::new(live(5)));
    assert_eq!(feed.updates.recv_timeout(Duration::from_millis(100)).unwrap_err(), RecvTimeoutError::Timeout);
    feed.commands.send(Command::Stop).unwrap();
    assert!(matches!(next(&feed), Update::Sample(sample) if sample.time_ns == 5));
    assert!(matches!(next(&feed), Update::Ended(Ok(()))));
    thread.join().unwrap();
    until("its end", || {
        board.views().sample(Box::new(live(6)));
        board.views().state.receiver_count() == 0
    });
    board.views().sample(Box::new(live(7)));
    assert!(board.views().state.borrow().reading.is_none(), "no reading is held for nobody");
}

#[test]
fn views_are_limited_and_on_unix_sockets_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, board, socket) = server(folder.path(), None);
    board.views().open(Hello::of(1, &[]));
    let all: Vec<UnixStream> = (0..MOST).map(|_| asking(&socket)).collect();
    until("all views", || board.views().open.load(Ordering::Relaxed) == MOST);
    let refused = connect(options(&socket)).unwrap_err().to_string();
    assert!(refused.contains(&format!("{MOST} views are attached")), "{refused}");
    drop(all);
    until("room", || connect(options(&socket)).is_ok());

    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let _server = Server::start(vec![Listener::Tcp(tcp)], &board, None).unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /samples HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("unix:PATH"), "{answer}");
}

#[test]
fn a_full_flow_table_fits_a_frame() {
    let mut sample = live(1);
    let flow = sample.flows[0].clone();
    sample.flows = (0..1_000).map(|slot| crate::sample::FlowSample { slot, ..flow.clone() }).collect();
    let bytes = Frame::Sample(Arc::new(sample)).bytes().unwrap().len();
    // 65,536 flows, a quarter of a million flowlets of at most 32 bytes, and a margin.
    assert!(66 * bytes + (8 << 20) < MOST_FRAME / 2, "{bytes} bytes for 1,000 flows");
    assert_eq!(layout().len(), 16);
}

#[test]
fn samples_that_are_changed_or_cut_off_are_read_without_a_panic() {
    let frame = Frame::Sample(Arc::new(live(1))).bytes().unwrap();
    let bytes = &frame[4..];
    assert!(unpacked::<Frame>(bytes).is_ok());
    let mut refused = 0;
    for at in (0..bytes.len()).step_by(7) {
        assert!(unpacked::<Frame>(&bytes[..at]).is_err(), "{at}");
        let mut changed = bytes.to_vec();
        changed[at] ^= 1 << (at % 8);
        refused += usize::from(unpacked::<Frame>(&changed).is_err());
    }
    assert!(refused > 0);
}
