//! `rocescope live --attach`: a view of a running agent, without its own kernel programs.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::time::Duration;

use rocescope_tests::live::attached::Hooks;
use rocescope_tests::live::program::{Ended, Program, Start};
use rocescope_tests::live::terminal::{PROMPT, Terminal};
use rocescope_tests::needs::installed_or_skip;
use rocescope_tests::needs_root;
use rocescope_tests::oracle::binary;
use rustix::process::Signal;
use serde_json::Value;

use super::agent::{dumps, json};
use super::{ask, traffic, until, world};

const NOBODY: u32 = 65_534;

/// Output for a user without privileges, attached through a socket.
fn viewed(socket: &Path, output: &str) -> Ended {
    let how = Start { nobody: true, ..Start::default() };
    let socket = socket.to_str().unwrap();
    Program::run(how, &["live", "--attach", socket, "--output", output, "--duration", "300ms"]).unwrap()
}

/// A view shows the report of the agent's own dump, figure by figure, if both are of the same sample.
fn is_the_agents_report(socket: &Path, folder: &Path) {
    let how = Start { nobody: true, ..Start::default() };
    let arguments =
        ["live", "--attach", socket.to_str().unwrap(), "--output", "jsonl", "--interval", "200ms"];
    let view = Program::start(how, &arguments).unwrap();
    view.reported(|report| report["totals"].is_object()).unwrap();
    let stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    assert_eq!(ask(stream, "POST /dump HTTP/1.0\r\n\r\n").unwrap().status, 202);
    let dump = until("a dump", || dumps(folder).into_iter().next());
    let own = json(dump.join("report.json"));
    // The view may lag behind the dump.
    let last_ns = own["window"]["last_ns"].as_u64();
    view.reported(|report| report["window"]["last_ns"].as_u64() > last_ns).unwrap();
    let lines = view.interrupt().unwrap().lines().unwrap();
    let same = lines.iter().find(|report| report["window"] == own["window"]).unwrap();
    for (field, value) in own.as_object().unwrap() {
        assert_eq!(&same[field], value, "{field}");
    }
    assert_eq!(*same, own);
    let has_gaps = |flow: &Value| flow["psn"]["gaps"].as_u64() > Some(0);
    assert!(own["flows"].as_array().unwrap().iter().any(has_gaps), "there is something to compare");
}

/// The terminal view shows the flows, and its key makes the agent write a dump.
fn shown_in_a_terminal(socket: &Path, folder: &Path) {
    if !installed_or_skip("shown_in_a_terminal", "tmux") {
        return;
    }
    let before = dumps(folder).len();
    let terminal = Terminal::open(120, 40).unwrap();
    let program = binary::path().unwrap();
    terminal.command(&format!("{} live --attach {}", program.display(), socket.display())).unwrap();
    terminal.until("the overview", |screen| screen.contains("live near0")).unwrap();
    let has_flows = |screen: &str| screen.contains("QUEUE PAIRS") && screen.contains("10.8.0.1 → 10.8.0.2");
    terminal.press_until("2", "queue pairs", has_flows).unwrap();
    // The reply is replaced by the notice of the dump, and the notice of an earlier dump may still be there.
    let is_dumped = |screen: &str| screen.contains("dump") && dumps(folder).len() > before;
    terminal.press_until("D", "a dump of the key", is_dumped).unwrap();
    let is_back = |screen: &str| {
        screen.lines().rfind(|line| !line.trim().is_empty()).is_some_and(|line| line.trim() == PROMPT)
    };
    terminal.press_until("q", "the shell", is_back).unwrap();
}

#[test]
fn a_view_of_an_agent_has_its_figures_and_needs_no_right_but_its_socket() {
    needs_root!();
    let (world, mut link) = world();
    let folder = tempfile::tempdir().unwrap();
    // The test's folder is not accessible to others.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let (socket, at) = (folder.path().join("agent.sock"), folder.path().join("dumps"));
    let unix = format!("unix:{}", socket.display());
    let none = viewed(&socket, "json");
    assert_eq!(none.status.code(), Some(1));
    assert!(none.err.contains("there is no such socket"), "{}", none.err);

    let start = Start { netns: Some(&world.near), ..Start::default() };
    let options = ["--keep", "5m", "--post", "0s", "--dump-dir", at.to_str().unwrap()];
    let arguments = ["agent", "-i", "near0", "--interval", "200ms", "--listen", &unix];
    let agent = Program::watching(start, &[&arguments[..], &options].concat()).unwrap();
    until("the socket", || socket.exists().then_some(()));
    let denied = viewed(&socket, "json");
    assert_eq!(denied.status.code(), Some(1));
    assert!(
        denied.err.contains("may not connect") && denied.err.contains("group 0, mode 660"),
        "{}",
        denied.err
    );
    chown(&socket, None, Some(NOBODY)).unwrap();

    let sent = traffic();
    link.receive(&sent).unwrap();
    link.transmit(&sent).unwrap();
    let all = 2 * sent.len() as u64;
    until("all packets", || {
        let report = viewed(&socket, "json").report().ok()?;
        (report["totals"]["roce_packets"] == all).then_some(())
    });
    // Findings that need some time are evaluated by then.
    std::thread::sleep(Duration::from_secs(1));
    let view = viewed(&socket, "json");
    assert_eq!(view.status.code(), Some(0), "{}", view.err);
    assert!(view.err.contains(&format!("attached to the agent (process {}", agent.id())), "{}", view.err);
    assert!(view.err.contains(" and TC egress"), "the agent's hooks are named: {}", view.err);
    assert!(!view.err.contains("CAP_"), "{}", view.err);
    is_the_agents_report(&socket, &at);
    assert!(viewed(&socket, "text").out.contains("near0"));
    shown_in_a_terminal(&socket, &at);

    let how = Start { nobody: true, ..Start::default() };
    let follow = || {
        let socket = socket.to_str().unwrap();
        Program::start(how, &["live", "--attach", socket, "--output", "jsonl"]).unwrap()
    };
    let [first, second] = [follow(), follow()];
    for view in [&first, &second] {
        view.reported(|report| report["totals"]["roce_packets"] == all).unwrap();
    }
    assert_eq!(first.interrupt().unwrap().status.code(), Some(0));
    agent.signal(Signal::TERM).unwrap();
    let ended = second.end().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    assert!(ended.err.contains("the agent has ended"), "{}", ended.err);
    assert_eq!(agent.end().unwrap().status.code(), Some(0));
    Hooks::until_gone(&world, &mut link).unwrap();
}

#[test]
fn an_agent_that_is_killed_or_stopped_is_no_silent_end() {
    needs_root!();
    let (world, mut link) = world();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent.sock");
    let unix = format!("unix:{}", socket.display());
    let start = Start { netns: Some(&world.near), ..Start::default() };
    let arguments = ["agent", "-i", "near0", "--interval", "200ms", "--listen", &unix];
    let agent = Program::watching(start, &arguments).unwrap();
    let attach = ["live", "--attach", socket.to_str().unwrap(), "--output", "jsonl"];
    let view = until("a view", || {
        let view = Program::start(Start::default(), &attach).unwrap();
        view.reported(|report| report["totals"]["packets"].is_u64()).is_ok().then_some(view)
    });
    agent.signal(Signal::KILL).unwrap();
    agent.end().unwrap();
    let ended = view.end().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.err.contains("was killed"), "{}", ended.err);
    let stale = Program::run(Start::default(), &attach).unwrap();
    assert!(stale.err.contains("the one that made the socket has ended"), "{}", stale.err);
    // Options of the source conflict.
    for option in [
        &["-i", "near0"][..],
        &["--hook", "tc"],
        &["--filter", "qp 17"],
        &["--keep", "1m"],
        &["--max-flows", "9"],
    ] {
        let refused = Program::run(Start::default(), &[&attach[..], option].concat()).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{option:?}: {}", refused.err);
    }
    Hooks::until_gone(&world, &mut link).unwrap();
}
