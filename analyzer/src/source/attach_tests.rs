use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;

use super::*;

/// A server that answers every connection with these bytes and closes it.
fn answering(folder: &Path, answer: Vec<u8>) -> PathBuf {
    let path = folder.join("agent.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.write_all(&answer);
            let _ = stream.shutdown(Shutdown::Write);
            let _ = io::copy(&mut stream, &mut io::sink());
        }
    });
    path
}

fn options(socket: PathBuf) -> Options {
    let interval = Duration::from_secs(1);
    Options { socket, interval, samples: true, events: true, duration: None }
}

fn hello(change: impl Fn(&mut Hello)) -> Vec<u8> {
    let mut hello = Hello::of(1, &[]);
    change(&mut hello);
    format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}\n", serde_json::to_string(&hello).unwrap()).into()
}

#[test]
fn a_socket_without_an_agent_is_named_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let said = |path: &Path| connect(options(path.to_owned())).unwrap_err().to_string();
    let path = folder.path().join("agent.sock");
    let none = said(&path);
    assert!(none.contains("there is no such socket") && none.contains("--listen unix:"), "{none}");
    drop(UnixListener::bind(&path).unwrap());
    assert!(said(&path).contains("has ended"), "{}", said(&path));
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(said(&file).contains("is not a socket"), "{}", said(&file));
    let denied = refused(&path, &ErrorKind::PermissionDenied.into());
    let group = format!("group {}", fs::metadata(&path).unwrap().gid());
    assert!(denied.contains("may not connect") && denied.contains(&group), "{denied}");
}

#[test]
fn who_is_no_agent_or_another_version_is_named() {
    for (answer, expected) in [
        (b"HTTP/1.1 404 Not Found\r\n\r\nnot found: see /metrics\n".to_vec(), "older than --attach"),
        (b"SSH-2.0-x\r\n".to_vec(), "no answer from the agent"),
        (b"HTTP/1.1 200 OK\r\n\r\n{}\n".to_vec(), "is not a rocescope agent"),
        (Vec::new(), "no answer from the agent"),
        (hello(|hello| "0.0.1\u{1b}".clone_into(&mut hello.version)), "no error"),
        (hello(|hello| "0".clone_into(&mut hello.layout)), "start the agent again after an upgrade"),
        (hello(|hello| "rocescope.samples/2".clone_into(&mut hello.schema)), "whose samples this rocescope"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        match connect(options(answering(folder.path(), answer))).and_then(Connection::greet) {
            // Another version with a compatible layout is accepted.
            Ok(attached) => assert_eq!((expected, attached.hello().pid), ("no error", std::process::id())),
            Err(error) => assert!(format!("{error:#}").contains(expected), "{error:#}"),
        }
    }
}

#[test]
fn an_agent_that_is_gone_or_sends_nonsense_ends_the_view_with_the_reason() {
    for (frames, expected) in [
        (Vec::new(), "was killed"),
        (vec![9, 0], "was killed"),
        (vec![1, 0, 0, 0, 77], "cannot decode a message"),
        (vec![3, 0, 0, 0, 0, 1, 2], "cannot decode a message"),
        (vec![0xFF, 0xFF, 0xFF, 0xFF, 0], "cannot read from the agent"),
        (
            Frame::Ended(Some("the disk\u{1b}[2J".to_owned())).bytes().unwrap(),
            "the agent has ended: the disk\u{fffd}[2J",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let answer = [hello(|_| {}), frames].concat();
        let (feed, thread) =
            connect(options(answering(folder.path(), answer))).unwrap().greet().unwrap().start().unwrap();
        let Update::Ended(Err(error)) = feed.updates.recv_timeout(ANSWER_TIME).unwrap() else {
            panic!("{expected}")
        };
        assert!(error.to_string().contains(expected), "{error}");
        thread.join().unwrap();
    }
}

#[test]
fn what_was_left_out_is_summed_and_said_now_and_then() {
    let mut left = MissedUpdates::default();
    assert!(left.take(1, 20).unwrap().contains("1 readings and 20 events"));
    assert_eq!(left.take(1, 0), None);
    left.said = Instant::now().checked_sub(NOTICES);
    assert!(left.take(0, 5).unwrap().contains("2 readings and 25 events"));
}
