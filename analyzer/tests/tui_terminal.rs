//! The terminal view in a terminal that answers no query, changes its size at any time, and goes away.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const LEAVES: &str = "\u{1b}[?1049l";
const ENTERS: &str = "\u{1b}[?1049h";
/// Longest wait for anything.
const LONG: Duration = Duration::from_secs(60);

/// rocescope in a terminal of its own, whose other end answers nothing.
struct Session {
    child: Child,
    terminal: Option<Arc<File>>,
    reader: Option<JoinHandle<()>>,
    /// True if the terminal is about to be closed.
    closing: Arc<AtomicBool>,
    output: Arc<Mutex<Vec<u8>>>,
    errors: tempfile::NamedTempFile,
}

impl Session {
    /// Starts a replay; `controlling`: the terminal sends it signals.
    fn start(controlling: bool) -> Self {
        Self::start_with(controlling, &[])
    }

    /// The same with these arguments as well.
    fn start_with(controlling: bool, arguments: &[&str]) -> Self {
        let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/g_rnr.h0.pcap");
        let (ours, theirs) = terminal();
        let errors = tempfile::NamedTempFile::new().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocescope"));
        command.args(["replay", "--speed", "max"]).args(arguments).arg(capture);
        command.env("TERM", "xterm-256color");
        command.stdin(Stdio::from(theirs.try_clone().unwrap())).stdout(Stdio::from(theirs));
        command.stderr(Stdio::from(errors.reopen().unwrap()));
        // SAFETY: between fork and exec the closure makes system calls alone.
        unsafe {
            command.pre_exec(move || {
                if libc::setsid() < 0 || controlling && libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        drop(command);
        let terminal = Arc::new(File::from(ours));
        let (output, closing) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let reader = std::thread::spawn({
            let (terminal, output, closing) =
                (Arc::clone(&terminal), Arc::clone(&output), Arc::clone(&closing));
            move || read(&terminal, &output, &closing)
        });
        let session = Self { child, terminal: Some(terminal), reader: Some(reader), closing, output, errors };
        session.until("the end of the replay", 0, "EOF");
        session
    }

    fn len(&self) -> usize {
        self.output.lock().unwrap().len()
    }

    /// Waits for a text in the output from `from` on.
    fn until(&self, what: &str, from: usize, text: &str) {
        assert!(self.shows(from, text, LONG), "no {what}: {:?}\n{}", self.output_from(from), self.errors());
    }

    /// True if a text comes in the output from `from` on, within this time.
    fn shows(&self, from: usize, text: &str, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        while !self.output_from(from).contains(text) {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }

    fn output_from(&self, from: usize) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap()[from..]).into_owned()
    }

    fn press(&self, keys: &[u8]) {
        self.terminal.as_deref().unwrap().write_all(keys).unwrap();
    }

    fn signal(&self, signal: libc::c_int) {
        let id = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: takes two numbers; the process is a child that nobody has waited for.
        assert_eq!(unsafe { libc::kill(id, signal) }, 0);
    }

    fn resize(&self, columns: u16, lines: u16) {
        let size = libc::winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let terminal = self.terminal.as_ref().unwrap().as_raw_fd();
        // SAFETY: an open terminal, and a size that lives through the call.
        assert_eq!(unsafe { libc::ioctl(terminal, libc::TIOCSWINSZ, &raw const size) }, 0);
    }

    /// Closes the terminal's other end.
    fn hang_up(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        self.reader.take().unwrap().join().unwrap();
        drop(self.terminal.take());
    }

    fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + LONG;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(!self.errors().contains("panicked"), "{}", self.errors());
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(self.errors.path()).unwrap()
    }

    fn quits(mut self) {
        let from = self.len();
        self.press(b"q");
        self.until("the terminal as it was", from, LEAVES);
        assert!(self.ended().success(), "{}", self.errors());
    }
}

/// Keeps what the terminal shows, until it is closed.
fn read(mut terminal: &File, output: &Mutex<Vec<u8>>, closing: &AtomicBool) {
    let mut buffer = [0; 1 << 14];
    while !closing.load(Ordering::SeqCst) {
        let mut ready = libc::pollfd { fd: terminal.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor that lives through the call.
        if unsafe { libc::poll(&raw mut ready, 1, 20) } <= 0 {
            continue;
        }
        match terminal.read(&mut buffer) {
            Ok(read @ 1..) => output.lock().unwrap().extend_from_slice(&buffer[..read]),
            // The program has ended.
            _ => return,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Both ends of a new terminal of 120 columns and 40 lines.
fn terminal() -> (OwnedFd, OwnedFd) {
    let size = libc::winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut ours, mut theirs) = (-1, -1);
    let none = std::ptr::null_mut::<libc::c_char>();
    // SAFETY: two places for descriptors, no name, the usual settings, and a size that lives through the call.
    let made =
        unsafe { libc::openpty(&raw mut ours, &raw mut theirs, none, std::ptr::null(), &raw const size) };
    assert_eq!(made, 0);
    // SAFETY: both descriptors are new, and owned by nobody else. A child must not inherit ours, or the terminal stays.
    unsafe {
        libc::fcntl(ours, libc::F_SETFD, libc::FD_CLOEXEC);
        (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    }
}

#[test]
fn redrawing_needs_no_answer_of_the_terminal() {
    let session = Session::start(true);
    for _ in 0..2 {
        let from = session.len();
        session.press(&[0x0C]);
        session.until("a new picture", from, "rocescope");
    }
    session.quits();
}

/// The process group of a session without a shell is not stopped, so that it goes on at once as after `fg`.
#[test]
fn going_on_after_a_stop_needs_no_answer_of_the_terminal() {
    let session = Session::start(true);
    let from = session.len();
    session.press(&[0x1A]);
    session.until("the terminal given back", from, LEAVES);
    session.until("the terminal taken again", from, ENTERS);
    session.until("a new picture", from, "rocescope");
    session.quits();
}

/// What is copied reaches the clipboard as base64, which works over ssh.
#[test]
fn copying_writes_to_the_clipboard_of_the_terminal() {
    let session = Session::start(true);
    session.until("the verdict", 0, "Receiver 10.0.0.2 not ready");
    assert!(!session.output_from(0).contains("\u{1b}]52;"), "nothing is copied unasked");
    let from = session.len();
    session.press(b"8y");
    session.until("a sequence for the clipboard", from, "\u{1b}]52;c;");
    session.until("the end of the sequence", from, "\u{7}");
    let output = session.output_from(from);
    let (_, rest) = output.split_once("\u{1b}]52;c;").unwrap();
    let (encoded, _) = rest.split_once('\u{7}').unwrap();
    let copied = STANDARD.decode(encoded).unwrap();
    assert!(copied.starts_with(b"Receiver 10.0.0.2 not ready: 57 of 69 packets"), "{copied:?}");
    session.until("an answer", from, "copied: ");
    session.quits();
}

/// A terminal whose mouse is not asked for selects text itself.
#[test]
fn without_the_mouse_the_terminal_keeps_it() {
    const MODES: [&str; 4] = ["?1000h", "?1002h", "?1003h", "?1006h"];
    let asked = |arguments: &[&str]| {
        let session = Session::start_with(true, arguments);
        let output = session.output_from(0);
        session.quits();
        MODES.map(|mode| output.contains(&format!("\u{1b}[{mode}")))
    };
    let [clicks, .., columns] = asked(&[]);
    assert!(clicks && columns);
    assert_eq!(asked(&["--no-mouse"]), [false; 4]);
}

#[test]
fn every_ending_signal_gives_the_terminal_back() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        let mut session = Session::start(true);
        let from = session.len();
        session.signal(signal);
        assert!(session.ended().success(), "{signal}: {}", session.errors());
        session.until("the terminal given back", from, LEAVES);
    }
}

/// The rest of the sequence may never come: of a mouse over a slow line, or of a key that was cut by a resize.
#[test]
fn half_an_escape_sequence_delays_neither_the_picture_nor_the_end() {
    let mut session = Session::start(true);
    session.press(b"\x1b[");
    let from = session.len();
    session.resize(100, 30);
    session.until("a picture of the new size", from, "rocescope");
    let from = session.len();
    session.signal(libc::SIGTERM);
    session.until("the terminal given back", from, LEAVES);
    assert!(session.ended().success(), "{}", session.errors());
}

#[test]
fn the_verdict_stays_in_the_terminal_below_the_command() {
    for quit in [&b"q"[..], &[0x03]] {
        let mut session = Session::start(true);
        session.until("the verdict", 0, "Receiver 10.0.0.2 not ready");
        let from = session.len();
        session.press(quit);
        assert!(session.ended().success(), "{}", session.errors());
        session.until("the next command", from, "Next     Check CPU load");
        let output = session.output_from(from);
        let (_, left) = output.split_once(LEAVES).unwrap();
        let lines: Vec<&str> = left.lines().collect();
        let at = |label: &str| lines.iter().position(|line| line.contains(label));
        let labels = ["Verdict  ", "Worst    ", "Next     "].map(at);
        assert!(labels.is_sorted() && labels[0].is_some(), "{left:?}");
        assert!(left.contains("Receiver 10.0.0.2 not ready: 57 of 69 packets"), "{left:?}");
    }
}

#[test]
fn a_terminal_that_goes_away_ends_the_program_without_a_panic() {
    // With a signal that says so, there is nothing to report.
    let mut session = Session::start(true);
    session.resize(80, 24);
    session.hang_up();
    assert!(session.ended().success(), "{}", session.errors());
    // Without one, the error does.
    let mut session = Session::start(false);
    session.hang_up();
    assert_eq!(session.ended().code(), Some(1), "{}", session.errors());
    assert!(session.errors().contains("the terminal is gone"), "{}", session.errors());
}

#[test]
fn a_storm_of_resizes_is_survived() {
    let session = Session::start(true);
    let mut random = rocescope_common::random::Random::new(3);
    for round in 0..300u32 {
        session.resize(u16::from(random.byte()) + 1, u16::from(random.byte() & 63) + 1);
        session.press(&[b'1' + u8::try_from(round % 8).unwrap(), b'j', b'?', 0x1B]);
        std::thread::sleep(Duration::from_millis(2));
    }
    session.resize(100, 30);
    let from = session.len();
    // An Esc that the next key follows at once is Alt with that key, and leaves the help open.
    let drawn = std::iter::repeat_with(|| {
        session.press(&[0x1B]);
        std::thread::sleep(Duration::from_millis(200));
        session.press(&[0x0C]);
        session.shows(from, "rocescope", Duration::from_secs(2))
    });
    assert!(drawn.take(30).any(|drawn| drawn), "no picture: {:?}", session.output_from(from));
    session.quits();
}
