//! The terminal view of captures in a real terminal: files written by keys, the mouse, rewinding, and terminals with
//! few features. Also creates the pictures in the README.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::fs;
use std::path::{Path, PathBuf};

use rocescope_tests::capture_file::{ETHERNET, Order, Pcap};
use rocescope_tests::craft::{Net, Transport, ethernet};
use rocescope_tests::live::root_or_skip;
use rocescope_tests::live::terminal::{PROMPT, Terminal};
use rocescope_tests::needs::installed_or_skip;
use rocescope_tests::oracle::{binary, captures};
use rocescope_tests::picture;

const LOSS: &str = "e1_loss1.h0.pcap.gz";

/// A terminal in an empty folder, with rocescope running.
fn start(size: (u16, u16), environment: &str, arguments: &str) -> (Terminal, tempfile::TempDir) {
    let terminal = Terminal::open(size.0, size.1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    terminal.command(&format!("cd {}", folder.path().display())).unwrap();
    let program = binary::path().unwrap();
    terminal.command(&format!("env {environment} {} {arguments}", program.display())).unwrap();
    (terminal, folder)
}

fn quit(terminal: &Terminal) {
    terminal.press(&["q"]).unwrap();
    let last = |screen: &str| screen.lines().map(str::trim).rfind(|line| !line.is_empty()) == Some(PROMPT);
    terminal.until("the shell", last).unwrap();
}

/// The only file with this suffix.
fn written(folder: &Path, ending: &str) -> Vec<u8> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == ending)).collect();
    assert_eq!(found.len(), 1, "{ending}: {found:?}");
    fs::read(&found[0]).unwrap()
}

#[test]
fn keys_write_files_and_reset_and_the_mouse_sorts() {
    if !installed_or_skip("keys_write_files_and_reset_and_the_mouse_sorts", "tmux") {
        return;
    }
    let capture = captures::folder().join(LOSS);
    let arguments = format!("replay --speed max --screen qps --sort src {}", capture.display());
    let (terminal, folder) = start((120, 40), "LC_ALL=C.UTF-8", &arguments);
    let screen = terminal.until("the end", |screen| screen.contains("EOF")).unwrap();
    assert!(screen.contains("sort SOURCE ↑"), "--screen and --sort: {screen}");
    let said = |what: &'static str| move |screen: &str| screen.contains(what);

    terminal.press_until("e", "what was written", said("8 rows written to")).unwrap();
    let csv = String::from_utf8(written(folder.path(), "csv")).unwrap();
    assert_eq!(csv.lines().count(), 9, "{csv}");
    assert!(csv.starts_with("state,src,dst,qp,"), "{csv}");
    terminal.press_until("E", "what was written", said(".json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&written(folder.path(), "json")).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 8);
    assert!(json[0]["p50_ns"].as_u64().is_some_and(|ns| ns > 1_000), "times in nanoseconds: {json:#}");
    assert!(json[0]["p99_ns"].is_null(), "fewer than 100 answers have no 99th percentile: {json:#}");

    // The packet of an event, and a capture of all packets of its queue pair.
    terminal.press_until("7", "events", said("TIME (UTC)")).unwrap();
    terminal.press_until("/", "a filter", said("filter:")).unwrap();
    terminal.type_text("event nak").unwrap();
    terminal.press(&["Enter"]).unwrap();
    terminal.press_until("Down", "a NAK", said("PSN sequence error")).unwrap();
    terminal.press_until("Enter", "its headers", said("base transport header")).unwrap();
    terminal.press_until("End", "the last of them", said("syndrome")).unwrap();
    terminal.press_until("Escape", "the list", |screen| !screen.contains("Esc: close")).unwrap();
    terminal.press_until("w", "what was written", said(".pcapng")).unwrap();
    assert_eq!(written(folder.path(), "pcapng")[..4], [0x0A, 0x0D, 0x0D, 0x0A]);
    terminal.press_until("Escape", "all events", |screen| !screen.contains("event nak")).unwrap();

    // Clicks on a screen's name, on a title, and again.
    let find = |screen: &str, text: &str| {
        let found = screen.lines().enumerate().find_map(|(y, line)| Some((line.find(text)?, y, line)));
        let (at, y, line) = found.unwrap_or_else(|| panic!("no {text} in\n{screen}"));
        (line[..at].chars().count() + 1, y)
    };
    let (x, y) = find(&terminal.screen().unwrap(), "2 QPs");
    terminal.click(x, y).unwrap();
    let screen = terminal.until("queue pairs", said("STATE SOURCE")).unwrap();
    let (x, y) = find(&screen, "DQPN");
    terminal.click(x, y).unwrap();
    terminal.until("another order", said("sort DQPN ↑")).unwrap();
    terminal.click(x, y).unwrap();
    terminal.until("the order turned round", said("sort DQPN ↓")).unwrap();

    // Output of other programs on the screen is redrawn.
    let before = terminal.screen().unwrap();
    fs::write(terminal.device().unwrap(), "\u{1b}[10;10Hsomebody writes here").unwrap();
    terminal.until("the disturbance", said("somebody writes")).unwrap();
    terminal.press_until("C-l", "the screen redrawn", |screen| screen == before).unwrap();

    terminal.press_until("r", "why there is nothing to count from zero", said("the data has ended")).unwrap();
    terminal.press_until("?", "help", said("choose and order the columns")).unwrap();
    terminal.press_until("?", "no help", |screen| !screen.contains("choose and order")).unwrap();
    quit(&terminal);
}

/// 12:00:00, in seconds.
const NOON: u64 = 1_772_366_400;

/// This time of one queue pair with a packet per second, from noon.
fn from_noon(seconds: u64) -> Vec<u8> {
    let mut capture = Pcap::new(Order::Little, true, ETHERNET);
    for second in 0..seconds {
        let transport = Transport::new(4, 17, u32::try_from(second).unwrap()).payload(vec![0; 64]);
        let frame = ethernet(
            [2, 0, 0, 0, 0, 1],
            [2, 0, 0, 0, 0, 2],
            &Net::v4([10, 0, 0, 1], [10, 0, 0, 2]).roce(49_152, &transport),
        );
        capture.packet((NOON + second) * 1_000_000_000, &frame);
    }
    capture.finish()
}

#[test]
fn a_replay_goes_back_to_what_is_no_longer_kept() {
    if !installed_or_skip("a_replay_goes_back_to_what_is_no_longer_kept", "tmux") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("half.pcap");
    fs::write(&capture, from_noon(1_800)).unwrap();
    let (terminal, _files) =
        start((100, 30), "LC_ALL=C.UTF-8", &format!("replay --speed max {}", capture.display()));
    terminal.until("the end", |screen| screen.contains("EOF") && screen.contains("12:29:5")).unwrap();
    let title = |screen: &str| screen.lines().next().unwrap_or("").to_owned();
    terminal.press_until("g", "the prompt for a time", |screen| screen.contains("go to:")).unwrap();
    terminal.type_text("12:01:00").unwrap();
    let there = |screen: &str| title(screen).contains("12:01:00 ") && title(screen).contains("PAUSED");
    terminal.press_until("Enter", "the second minute, read again", there).unwrap();
    // From there on as before, at maximum speed.
    terminal.press_until("Space", "the end again", |screen| title(screen).contains("EOF")).unwrap();
    // From the end it plays: one key, and the time goes on by itself.
    terminal.press(&["Space"]).unwrap();
    let goes = |screen: &str| clock(screen).is_some_and(|time| ("12:00:03".."12:20").contains(&time));
    let screen = terminal.until("a replay that goes on", goes).unwrap();
    assert!(title(&screen).contains("▶ 1x"), "{screen}");
    quit(&terminal);

    // Input from a pipe cannot be read again.
    let (terminal, _files) =
        start((100, 30), "LC_ALL=C.UTF-8", &format!("replay - < <(cat {})", capture.display()));
    terminal.until("the end", |screen| screen.contains("EOF") && screen.contains("12:29:5")).unwrap();
    terminal.press_until("g", "the prompt for a time", |screen| screen.contains("go to:")).unwrap();
    terminal.type_text("+60").unwrap();
    terminal
        .press_until("Enter", "why not", |screen| screen.contains("a stream cannot be read again"))
        .unwrap();
    quit(&terminal);
}

/// Records a capture into a folder.
fn recorded(capture: &Path, to: &Path, interval: &str) {
    let mut command = std::process::Command::new(binary::path().unwrap());
    command.arg("record").arg("--read").arg(capture).arg("--dir").arg(to).args(["--interval", interval]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The time in the title, as `12:10:00.000`.
fn clock(screen: &str) -> Option<&str> {
    let words: Vec<&str> = screen.lines().next()?.split_whitespace().collect();
    words.get(words.iter().position(|word| *word == "UTC")?.checked_sub(1)?).copied()
}

/// A dump has the reason beside its tables: the view opens at the trigger, and goes on in real time.
#[test]
fn a_dump_opens_at_its_trigger() {
    const TRIGGER_NS: u64 = (NOON + 20) * 1_000_000_000;
    if !installed_or_skip("a_dump_opens_at_its_trigger", "tmux") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("two.pcap"), from_noon(120)).unwrap();
    recorded(&at("two.pcap"), &at("dump"), "1s");
    let why = serde_json::json!({ "schema": "rocescope.dump/1", "trigger_ns": TRIGGER_NS });
    fs::write(at("dump/why.json"), why.to_string()).unwrap();
    let dump = at("dump").display().to_string();
    let (terminal, _files) = start((120, 40), "LC_ALL=C.UTF-8", &format!("replay {dump}"));
    let title = |screen: &str| screen.lines().next().unwrap_or("").to_owned();
    let at_once = |screen: &str| title(screen).contains("▶ 1x") && clock(screen) >= Some("12:00:19");
    let screen = terminal.until("the trigger, in real time", at_once).unwrap();
    let begin = std::time::Instant::now();
    let first = clock(&screen).unwrap().to_owned();
    assert!(("12:00:19".."12:01:00").contains(&&*first), "{screen}");
    // On a slow machine the first look is late, but time does not fly.
    let later = |screen: &str| clock(screen).is_some_and(|time| time > "12:00:23" && time > &*first);
    let screen = terminal.until("some seconds later", later).unwrap();
    assert!(
        title(&screen).contains("▶ 1x") && clock(&screen) < Some("12:01:30"),
        "{:?}: {screen}",
        begin.elapsed()
    );
    quit(&terminal);
    // A chosen speed plays the whole.
    let (terminal, _files) = start((120, 40), "LC_ALL=C.UTF-8", &format!("replay --speed max {dump}"));
    terminal.until("the end", |screen| screen.contains("EOF") && screen.contains("12:01:5")).unwrap();
    quit(&terminal);
}

#[test]
fn a_recording_has_time_travel_findings_and_events_in_the_terminal() {
    if !installed_or_skip("a_recording_has_time_travel_findings_and_events_in_the_terminal", "tmux") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    recorded(&captures::folder().join("f1_ecn_red.h1.pcap.gz"), folder.path(), "20ms");
    let (terminal, _files) =
        start((120, 40), "LC_ALL=C.UTF-8", &format!("replay {}", folder.path().display()));
    let said = |what: &'static str| move |screen: &str| screen.contains(what);
    // The figures of the capture: 5,200 packets, 97.2 % of them marked.
    let screen = terminal.until("the end", said("EOF")).unwrap();
    assert!(
        screen.contains("▲ CONGESTION") && screen.contains("CE-marked, 10.0.0.1 → 10.0.0.2, 4 flows"),
        "{screen}"
    );
    assert!(screen.contains("97.2 %") && screen.contains("in 5,200 packets"), "{screen}");
    let end = clock(&screen).unwrap().to_owned();

    let newest = |screen: &str| -> Vec<String> {
        let lines = screen.lines().filter(|line| line.contains(" CE  ") && line.contains("×"));
        lines.map(|line| line.trim_start_matches("│ ").chars().take(12).collect()).collect()
    };
    let screen = terminal.press_until("7", "events", said("TIME (UTC)")).unwrap();
    let events = newest(&screen);
    assert_eq!(events.len(), 4, "four queue pairs: {screen}");
    assert!(events.iter().all(|time| time.starts_with("05:42:09.") && **time <= *end), "{events:?} {end}");
    assert!(screen.contains("10.0.0.1 → 10.0.0.2 QP 28  ×28 in "), "{screen}");
    assert!(screen.contains("NEW   10.0.0.2 → 10.0.0.1 QP 28  first packet, RC_ACKNOWLEDGE"), "{screen}");

    let screen = terminal.press_until("8", "findings", said("FINDINGS ")).unwrap();
    for finding in [
        "▲ warning  ECN congestion: 99.3 % CE-marked, 10.0.0.1 → 10.0.0.2, 4 flows",
        "10.0.0.2 sends no CNPs",
    ] {
        assert!(screen.contains(finding), "{finding}: {screen}");
    }
    assert!(screen.contains("receivers 1 · CE-marked packets 4,977"), "the evidence: {screen}");

    let screen = terminal.press_until("6", "bursts", said("STEPS")).unwrap();
    assert!(screen.contains("not recorded, nor incast and the traffic pattern"), "{screen}");
    assert!(screen.contains("none: no rows of steps in the recording"), "{screen}");

    // Back in time, step by step, until the counts are of the first second.
    let past = |screen: &str| screen.contains("EOF −") && clock(screen).is_some_and(|time| time < &*end);
    terminal.press_until("8", "findings", said("FINDINGS ")).unwrap();
    let screen = terminal.press_until(",", "an earlier snapshot", past).unwrap();
    // Findings are kept of some times alone, of which depends on how fast the machine is: the screen says of which.
    let of_when = ["later than the snapshot shown", "from the start to 05:42:0"];
    assert!(of_when.iter().any(|said| screen.contains(said)) && !screen.contains("FINDINGS ,"), "{screen}");
    let screen = terminal.press_until("7", "events until then", said("TIME (UTC)")).unwrap();
    let (then, earlier) = (clock(&screen).unwrap().to_owned(), newest(&screen));
    assert!(earlier.len() == 4 && earlier.iter().all(|time| **time <= *then), "{then}: {screen}");
    assert!(earlier < events, "{earlier:?} {events:?}");
    let back = |screen: &str| !screen.contains("EOF −") && clock(screen) == Some(&*end);
    terminal.press_until(".", "the end again", back).unwrap();
    quit(&terminal);
}

#[test]
fn terminals_with_little_to_offer() {
    if !installed_or_skip("terminals_with_little_to_offer", "tmux") {
        return;
    }
    let capture = captures::folder().join(LOSS);
    let arguments = format!("replay --speed max {}", capture.display());
    for (environment, bits, ascii) in [
        ("LC_ALL=C.UTF-8 COLORTERM=truecolor", 24, false),
        ("LC_ALL=C.UTF-8 COLORTERM= TERM=xterm-256color", 8, false),
        ("LC_ALL=C.UTF-8 COLORTERM= TERM=xterm", 4, false),
        ("LC_ALL=C.UTF-8 NO_COLOR=1", 0, false),
        ("LC_ALL=C COLORTERM= TERM=xterm", 4, true),
        ("LC_ALL=C.UTF-8 COLORTERM= TERM=linux", 4, true),
        ("LC_ALL=C TERM=vt100 NO_COLOR=1", 0, true),
    ] {
        let (terminal, _files) = start((60, 15), environment, &arguments);
        terminal.until("the end", |screen| screen.contains("EOF")).unwrap();
        for key in ["2", "3", "4", "5", "6", "7", "8", "1"] {
            terminal.press_until(key, "a screen", |screen| screen.contains("EOF")).unwrap();
            let screen = terminal.screen().unwrap();
            assert!(!ascii || screen.is_ascii(), "{environment}, {key}: {screen}");
            assert!(screen.lines().all(|line| line.chars().count() <= 60), "{screen}");
        }
        let screen = terminal.colored_screen().unwrap();
        // Colours are numbers from 30 to 37 and 40 to 47, or one of the first 16 of the palette: 38;5;n and 48;5;n.
        let colored = screen.split("\u{1b}[").skip(1).any(|escape| {
            let (numbers, _) = escape.split_once('m').unwrap_or((escape, ""));
            numbers
                .split(';')
                .any(|n| n.len() == 2 && (n.starts_with('3') || n.starts_with('4')) && !n.ends_with('9'))
        });
        assert_eq!(colored, bits > 0, "{environment}: {screen:?}");
        for palette in screen.split("8;5;").skip(1) {
            let number: String = palette.chars().take_while(char::is_ascii_digit).collect();
            assert!(
                number.parse::<u8>().is_ok_and(|number| bits > 4 || number < 16),
                "{environment}: {screen:?}"
            );
        }
        let fixed = screen.contains("38;2;") || screen.contains("48;2;");
        assert_eq!(fixed, bits == 24, "{environment}: {screen:?}");
        quit(&terminal);
    }
}

/// The pictures in the README show the demonstration in a real terminal; `ROCESCOPE_BLESS=1` writes them again.
#[test]
fn pictures_of_the_demonstration() {
    if !root_or_skip("pictures_of_the_demonstration")
        || !installed_or_skip("pictures_of_the_demonstration", "tmux")
    {
        return;
    }
    let (terminal, _files) = start((104, 34), "LC_ALL=C.UTF-8", "demo");
    let bless = rocescope_tests::document::blessing();
    // The README's picture must show a finding; which one comes first depends on the machine.
    let sick = |screen: &str| {
        let verdict = screen.lines().next().unwrap_or("");
        let congested = verdict.contains("CONGESTION") || verdict.contains("▲ CE");
        verdict.contains("LOSS") && congested && (!bless || screen.contains("ECN congestion"))
    };
    terminal.until("losses and congestion", sick).unwrap();
    let mut pictures = vec![("overview", terminal.colored_screen().unwrap())];
    terminal
        .press_until("2", "queue pairs", |screen| screen.contains("LOSS") && screen.contains("c columns"))
        .unwrap();
    pictures.push(("qps", terminal.colored_screen().unwrap()));
    terminal.press_until("1", "the overview", |screen| screen.contains("WORST PEERS")).unwrap();
    // The overview has steps, too.
    let page = |screen: &str| screen.contains("DO NEXT") && !screen.contains("WORST PEERS");
    terminal.press_until("Enter", "the worst problem", page).unwrap();
    pictures.push(("problem", terminal.colored_screen().unwrap()));
    quit(&terminal);
    for (name, screen) in pictures {
        let svg = picture::svg(&screen, &format!("rocescope demo, {name}"));
        assert!(svg.contains("LOSS") && svg.contains("10.40.1.11") && svg.ends_with("</svg>\n"), "{svg}");
        if bless {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/{name}.svg"));
            fs::write(file, svg).unwrap();
        }
    }
}
