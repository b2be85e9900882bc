//! The protocol of NCCL's RAS service: commands as lines, responses as lines or a document. Timeouts are set on the
//! caller's stream.
//!
//! ```text
//! CLIENT PROTOCOL 2        → SERVER PROTOCOL n            one that tells another n is asked on
//! SET FORMAT json          → OK, or ERROR: …              text then, before 2.28.7
//! VERBOSE STATUS           → the answer; the server closes the connection
//! MONITOR                  → OK, and events for as long as the connection lasts; ERROR: … before 2.29
//! ```

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};

use super::{json, name, text};
use crate::entity::nccl::{Answer, Event};

/// Maximum size of a response: 27,000 ranks, summed over communicators, in JSON.
pub const MAX_ANSWER: u64 = 16 << 20;
/// Maximum length of a line; NCCL's have 1,024 bytes.
const MAX_LINE: u64 = 4_096;
/// Maximum length of an event; NCCL's buffer has 2,048 bytes.
const MAX_EVENT: usize = 8_192;
const HELLO: &str = "CLIENT PROTOCOL 2";
const GREETING: &str = "server protocol ";

/// Reason for a failed dialogue.
#[derive(Debug)]
pub enum DialogueError {
    /// The stream failed or timed out.
    Io(io::Error),
    /// No response in time: the kernel accepts connections for a process that is stopped or hangs.
    Silent,
    /// Another service listens there; with the line received instead of NCCL's.
    NotNccl(String),
    /// NCCL refused a command, with its reason.
    Refused(String),
    /// The response is longer than [`MAX_ANSWER`].
    TooLong,
    /// The response is not a valid document.
    Invalid(String),
}

impl fmt::Display for DialogueError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) if is_timeout(error) => out.write_str("no answer in time"),
            Self::Silent => out.write_str("what listens there accepts connections, but sends nothing"),
            Self::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                out.write_str("the connection ended before an answer")
            }
            Self::Io(error) => write!(out, "{error}"),
            Self::NotNccl(line) => write!(out, "no RAS service of NCCL listens there: it said \"{line}\""),
            Self::Refused(line) => write!(out, "NCCL refused: \"{line}\""),
            Self::TooLong => {
                write!(out, "the answer is longer than {} MiB: the job is too large", MAX_ANSWER >> 20)
            }
            Self::Invalid(why) => write!(out, "the answer is not valid: {why}"),
        }
    }
}

impl From<io::Error> for DialogueError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// True if the error is a timeout: the stream has no data at present.
pub fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Requests the status.
///
/// # Errors
/// If the stream fails, or its data is not a RAS response.
pub fn status(stream: impl Read + Write) -> Result<Answer, DialogueError> {
    let mut stream = BufReader::new(stream);
    let in_json = greet(&mut stream)?;
    send(&mut stream, "VERBOSE STATUS")?;
    let mut limited = stream.take(MAX_ANSWER);
    let answer = if in_json {
        json::answer(&mut limited).map_err(|error| match error.classify() {
            serde_json::error::Category::Io => DialogueError::Io(error.into()),
            _ => DialogueError::Invalid(name_of_error(&error)),
        })
    } else {
        let mut bytes = Vec::new();
        limited.read_to_end(&mut bytes)?;
        match text::answer(&bytes) {
            answer if answer.version.is_none() && answer.communicators == 0 => {
                Err(DialogueError::Invalid("neither a version of NCCL nor a communicator".to_owned()))
            }
            answer => Ok(answer),
        }
    };
    if limited.limit() == 0 { Err(DialogueError::TooLong) } else { answer }
}

/// The parser's own message, without text from the document.
fn name_of_error(error: &serde_json::Error) -> String {
    let what = if error.is_eof() { "it ends too early" } else { "unknown form" };
    format!("{what}, line {} column {}", error.line(), error.column())
}

/// Requests events.
///
/// # Errors
/// As [`status`]; NCCL before 2.29 refuses it.
pub fn monitor<S: Read + Write>(stream: S) -> Result<Monitor<S>, DialogueError> {
    let mut stream = BufReader::new(stream);
    if !greet(&mut stream)? {
        return Err(DialogueError::Refused("no JSON".to_owned()));
    }
    match ask(&mut stream, "MONITOR")?.as_str() {
        "OK" => Ok(Monitor { stream, document: Vec::new() }),
        other => Err(DialogueError::Refused(name(other))),
    }
}

/// A connection that delivers events.
#[derive(Debug)]
pub struct Monitor<S> {
    stream: BufReader<S>,
    document: Vec<u8>,
}

impl<S: Read + Write> Monitor<S> {
    /// The stream, to set its timeout.
    pub fn stream_mut(&mut self) -> &mut S {
        self.stream.get_mut()
    }

    /// The next event; `None` if the stream has no data at present.
    ///
    /// # Errors
    /// If the stream ends, fails, or contains data that is not an event.
    pub fn next(&mut self, now_ns: impl Fn() -> u64) -> Result<Option<Event>, DialogueError> {
        loop {
            let room = MAX_EVENT.saturating_sub(self.document.len()) as u64;
            // Data that arrived before a timeout stays in the document.
            match self.stream.by_ref().take(room).read_until(b'\n', &mut self.document) {
                Ok(0) if room == 0 => {
                    return Err(DialogueError::Invalid("an event without an end".to_owned()));
                }
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(_) => {}
                Err(error) if is_timeout(&error) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            // The closing bracket of the document is the only one at the start of a line.
            if self.document == b"}\n" || self.document.ends_with(b"\n}\n") {
                let document = std::mem::take(&mut self.document);
                let event = json::event(&document, now_ns());
                return event.map(Some).ok_or_else(|| DialogueError::Invalid("no event".to_owned()));
            }
        }
    }
}

/// Exchanges versions. True if responses will be in JSON.
fn greet(stream: &mut BufReader<impl Read + Write>) -> Result<bool, DialogueError> {
    let greeting = ask(stream, HELLO).map_err(|error| match error {
        DialogueError::Io(error) if is_timeout(&error) => DialogueError::Silent,
        other => other,
    })?;
    if !greeting.to_ascii_lowercase().starts_with(GREETING) {
        return Err(DialogueError::NotNccl(name(&greeting)));
    }
    Ok(ask(stream, "SET FORMAT json")? == "OK")
}

fn ask(stream: &mut BufReader<impl Read + Write>, command: &str) -> Result<String, DialogueError> {
    send(stream, command)?;
    let mut line = Vec::new();
    let read = stream.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// Sends the line in one write: a further small packet would be delayed.
fn send(stream: &mut BufReader<impl Read + Write>, command: &str) -> Result<(), DialogueError> {
    Ok(stream.get_mut().write_all(format!("{command}\n").as_bytes())?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;
    use crate::entity::nccl::{Rank, RankState};
    use crate::source::nccl::server::{self, Version, serve};

    fn connect(
        version: Version,
        answer: &'static str,
        events: &'static str,
    ) -> (TcpStream, impl FnOnce() -> String) {
        let (address, thread) = serve(version, 1, answer, events);
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        (stream, move || thread.join().unwrap().concat())
    }

    #[test]
    fn every_version_is_asked_in_its_own_way() {
        for (version, answer, known) in [
            (Version::Text, server::TEXT_2_24, "2.24.3"),
            (Version::Text, server::TEXT_2_27, "2.27.3+cuda12.9"),
            (Version::Json, server::JSON_MISSING, "2.29.1"),
            (Version::Monitor, server::JSON_MISSING, "2.29.1"),
        ] {
            let (stream, sent) = connect(version, answer, "");
            assert_eq!(status(stream).unwrap().version.as_deref(), Some(known), "{version:?}");
            assert_eq!(sent(), "CLIENT PROTOCOL 2\nSET FORMAT json\nVERBOSE STATUS\n");
        }
    }

    /// Ranks by number: operations behind, state, error, process.
    fn ranks(answer: &Answer) -> BTreeMap<u32, &Rank> {
        assert_eq!((answer.communicators, answer.not_understood), (1, 0), "{answer:?}");
        let [one] = &answer.listed[..] else { return BTreeMap::new() };
        assert_eq!((one.id.hash, one.size), (0x27a0_79b8_28ff_1a75, Some(8)), "{one:?}");
        one.ranks.iter().map(|rank| (rank.rank, rank)).collect()
    }

    /// Checks the response of a version of NCCL's own code in a situation.
    fn understood(name: &str, version: &str, situation: &str, answer: &Answer) {
        let ranks = ranks(answer);
        let furthest = answer.listed.first().map(|one| one.furthest).unwrap_or_default();
        let behind = ranks.iter().map(|(number, rank)| (*number, rank.behind(&furthest)));
        let behind: Vec<(u32, u64)> = behind.filter(|(_, operations)| *operations > 0).collect();
        let expected: &[(u32, u64)] = match situation {
            "lag" => &[(0, 1), (2, 1)],
            "none" => &[(3, 6_650)],
            _ => &[],
        };
        assert_eq!((behind.as_slice(), answer.version.as_deref()), (expected, Some(version)), "{name}");
        let state = |rank: u32| ranks.get(&rank).and_then(|rank| rank.state);
        let error = |rank: u32| ranks.get(&rank).and_then(|rank| rank.error);
        let remote = "Remote process error";
        let (errors, states) = match situation {
            "error" => (["Internal error", remote, remote, "System error"].map(Some), "init abort finalize"),
            "stopped" => ([None; 4], "unresponsive"),
            "dead" => ([None; 4], "dead"),
            _ => ([None; 4], ""),
        };
        assert_eq!([1, 3, 4, 7].map(error), errors, "{name}");
        // Text lists only ranks that differ from the others, JSON all of them.
        let unusual = [2, 5, 6].into_iter().filter_map(state).filter(|state| *state != RankState::Running);
        assert_eq!(unusual.map(RankState::name).collect::<Vec<_>>().join(" "), states, "{name}");
        if matches!(situation, "stopped" | "dead") {
            let process = ranks.get(&5).map(|rank| rank.process);
            assert_eq!(process.and_then(|process| process.host), "127.0.1.2".parse().ok(), "{name}");
            assert!(process.is_some_and(|process| process.pid.is_some()), "{name}");
        }
    }

    /// Six versions in the same situations: both formats give the same result.
    #[test]
    fn what_nccl_s_own_code_says_is_understood_in_all_its_versions() {
        let mut versions = BTreeMap::new();
        for (version, situation, dialogue) in server::recorded() {
            let name = format!("{version}-{situation}");
            let (address, thread) = server::play(dialogue);
            let stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            if situation == "monitor" {
                let mut events = monitor(stream).unwrap_or_else(|why| panic!("{name}: {why}"));
                let mut all = Vec::new();
                while let Ok(Some(event)) = events.next(|| 7) {
                    all.push((event.event, event.process.host, event.process.pid.is_some()));
                }
                assert_eq!(all, [("PEER_DEAD".to_owned(), "127.0.1.2".parse().ok(), true)], "{name}");
            } else {
                let answer = status(stream).unwrap_or_else(|why| panic!("{name}: {why}"));
                understood(&name, &version, &situation, &answer);
                versions.insert(version, answer.whole);
            }
            thread.join().unwrap();
        }
        let in_json = ["2.28.9", "2.29.7", "2.30.7"].map(|version| (version.to_owned(), true));
        let in_text = ["2.24.3", "2.26.2", "2.28.3"].map(|version| (version.to_owned(), false));
        assert_eq!(versions, in_text.into_iter().chain(in_json).collect());
    }

    #[test]
    fn events_come_one_by_one_and_only_where_nccl_has_them() {
        let (stream, sent) = connect(Version::Monitor, "", server::EVENT_DEAD);
        let mut events = monitor(stream).unwrap();
        assert_eq!(
            events.next(|| 7).unwrap().map(|event| (event.event, event.time_ns)),
            Some(("PEER_DEAD".into(), 7))
        );
        events.stream_mut().set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert_eq!(events.next(|| 8).unwrap(), None, "nothing more for now");
        drop(events);
        assert_eq!(sent(), "CLIENT PROTOCOL 2\nSET FORMAT json\nMONITOR\n");
        for version in [Version::Text, Version::Json] {
            let (stream, sent) = connect(version, "", "");
            assert!(matches!(monitor(stream), Err(DialogueError::Refused(_))), "{version:?}");
            sent();
        }
    }

    /// Returns the prepared responses to any request.
    struct Script(io::Cursor<Vec<u8>>);

    impl Read for Script {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.0.read(to)
        }
    }

    impl Write for Script {
        fn write(&mut self, from: &[u8]) -> io::Result<usize> {
            Ok(from.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn answer_of(bytes: impl Into<Vec<u8>>) -> Result<Answer, DialogueError> {
        status(Script(io::Cursor::new(bytes.into())))
    }

    #[test]
    fn what_is_not_nccl_is_named_and_never_shown_as_it_is() {
        let ssh = answer_of("SSH-2.0-OpenSSH_9.6\u{1b}[2J\r\n").unwrap_err().to_string();
        assert!(ssh.contains("SSH-2.0") && !ssh.contains('\u{1b}'), "{ssh}");
        assert!(answer_of("").unwrap_err().to_string().contains("ended before an answer"));
        let json = "server protocol 3\nOK\n";
        assert!(
            answer_of(format!("{json}{{\"communicators\":"))
                .unwrap_err()
                .to_string()
                .contains("ends too early")
        );
        assert!(answer_of(format!("{json}<html>")).unwrap_err().to_string().contains("not valid"));
        assert!(
            answer_of("SERVER PROTOCOL 2\nERROR: no\nnothing").unwrap_err().to_string().contains("not valid")
        );
        // Another protocol version is no reason to stop.
        assert!(answer_of(format!("{json}{}", server::JSON_MISSING)).is_ok());
    }

    #[test]
    fn answers_without_an_end_are_cut() {
        let mut endless = b"SERVER PROTOCOL 2\nOK\n{\"x\":\"".to_vec();
        endless.resize(endless.len() + usize::try_from(MAX_ANSWER).unwrap(), b'x');
        assert!(matches!(answer_of(endless), Err(DialogueError::TooLong)));
        let mut line = b"SERVER PROTOCOL ".to_vec();
        line.resize(1 << 20, b'9');
        assert!(answer_of(line).is_err());
        let mut events = b"SERVER PROTOCOL 2\nOK\nOK\n".to_vec();
        events.resize(1 << 20, b'x');
        let mut events = monitor(Script(io::Cursor::new(events))).unwrap();
        assert!(matches!(events.next(|| 0), Err(DialogueError::Invalid(_))));
    }
}
