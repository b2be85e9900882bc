//! The terminal view in a real terminal: every screen, every size, and the terminal restored after every end.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rocescope_tests::live::program::Tenant;
use rocescope_tests::live::root_or_skip;
use rocescope_tests::live::terminal::{PROMPT, Terminal};
use rocescope_tests::live::wire::World;
use rocescope_tests::needs::installed_or_skip;
use rocescope_tests::oracle::{binary, captures};
use rustix::process::{Pid, Signal, kill_process};

/// Text on the screen before the program runs, which must be there again afterwards.
const BEFORE: &str = "what-was-there-before";

/// A terminal with text on it, and its settings.
struct Session {
    terminal: Terminal,
    folder: tempfile::TempDir,
    settings: String,
}

impl Session {
    fn open(columns: u16, lines: u16) -> Self {
        let terminal = Terminal::open(columns, lines).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let settings = terminal.settings(&folder.path().join("before")).unwrap();
        terminal.command(&format!("echo {BEFORE}")).unwrap();
        let said = |screen: &str| screen.lines().any(|line| line.trim() == BEFORE);
        terminal.until("its answer", said).unwrap();
        Self { terminal, folder, settings }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts rocescope such that its PID is known.
    fn start(&self, arguments: &str) {
        let (pid, program) = (self.file("pid"), binary::path().unwrap());
        let command = format!("echo $$ > {}; exec {} {arguments}", pid.display(), program.display());
        self.terminal.command(&format!("sh -c '{command}'")).unwrap();
    }

    fn signal(&self, signal: Signal) {
        let pid = std::fs::read_to_string(self.file("pid")).unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// The shell is back, and the terminal is restored.
    fn is_restored(&self, status: &str) {
        let screen = self.terminal.until("text on the screen before", |screen| {
            screen.contains(BEFORE) && last_line(screen) == PROMPT
        });
        assert_eq!(self.terminal.modes().unwrap(), (false, true), "alternate screen, cursor: {screen:?}");
        assert_eq!(self.terminal.status().unwrap(), status, "{screen:?}");
        let settings = self.terminal.settings(&self.file("after")).unwrap();
        std::fs::remove_file(self.file("after")).unwrap();
        assert_eq!(settings, self.settings);
    }
}

fn last_line(screen: &str) -> &str {
    screen.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("")
}

/// Rows of the table of queue pairs.
fn rows(screen: &str) -> usize {
    screen.lines().filter(|line| line.contains(" 10.") && line.contains(" rail")).count()
}

/// `None` unless the table is sorted by source address; else true for ascending order.
fn sorted_up(screen: &str) -> Option<bool> {
    // "sort SOURCE ↑", or while a row is selected "sorted by SOURCE ↑, order held (f)".
    let (_, order) = screen.split_once("sort SOURCE ").or_else(|| screen.split_once("sorted by SOURCE "))?;
    Some(order.starts_with('↑'))
}

fn shows_queue_pairs(screen: &str) -> bool {
    screen.contains("STATE SOURCE") && rows(screen) >= 5
}

#[test]
#[expect(clippy::too_many_lines, reason = "one test of the whole terminal UI")]
fn every_screen_key_and_size() {
    if !root_or_skip("every_screen_key_and_size") || !installed_or_skip("every_screen_key_and_size", "tmux") {
        return;
    }
    let session = Session::open(120, 40);
    let terminal = &session.terminal;
    session.start("demo");
    let overview = |screen: &str| screen.contains("TIMELINE") && screen.contains("WORST PEERS");
    let screen = terminal.until("the overview", overview).unwrap();
    assert!(screen.contains("live rail0, rail1"), "{screen}");
    assert!(terminal.modes().unwrap().0, "the alternate screen is used");

    // Screens.
    for (key, what, word) in [
        ("3", "one queue pair", "peer QP"),
        ("4", "the matrix", "MATRIX: rate in"),
        ("5", "links", "LOAD BALANCE across parallel links"),
        ("6", "bursts", "of peak · duration"),
        ("7", "events", "TIME (UTC)"),
        ("8", "findings", "BLIND SPOTS AND DROPS"),
    ] {
        terminal.press_until(key, what, |screen| screen.contains(word)).unwrap();
    }
    terminal.press_until("Tab", "the overview", overview).unwrap();
    terminal.press_until("BTab", "findings", |screen| screen.contains("BLIND SPOTS AND DROPS")).unwrap();
    terminal.press_until("2", "queue pairs", shows_queue_pairs).unwrap();

    // Sorting.
    let screen = terminal.press_until("s", "another order", |screen| sorted_up(screen).is_some()).unwrap();
    let turned = sorted_up(&screen).map(|up| !up);
    terminal.press_until("S", "the order turned round", |screen| sorted_up(screen) == turned).unwrap();

    // A click on a title sorts too.
    let screen = terminal.screen().unwrap();
    let (line, titles) = screen.lines().enumerate().find(|(_, line)| line.contains("STATE SOURCE")).unwrap();
    // `DESTINATION`, or `DEST` above short addresses.
    terminal.click(titles.find("DEST").unwrap(), line).unwrap();
    let sorted = |screen: &str| screen.contains("sort DEST") || screen.contains("by DEST");
    terminal.until("rows sorted by a click", sorted).unwrap();

    // Help.
    terminal.press_until("?", "help", |screen| screen.contains("choose and order the columns")).unwrap();
    terminal
        .press_until("?", "no help", |screen| !screen.contains("choose and order") && rows(screen) > 0)
        .unwrap();

    // Filter: typed, kept, removed.
    terminal.press_until("/", "a filter being typed", |screen| screen.contains("filter:")).unwrap();
    terminal.type_text("rail1").unwrap();
    let only_rail1 = |screen: &str| {
        let rail0 = screen.lines().skip(5).any(|line| line.contains(" 10.") && line.contains(" rail0"));
        rows(screen) > 0 && !rail0
    };
    terminal.until("flows of rail1 alone", only_rail1).unwrap();
    terminal
        .press_until("Enter", "the filter kept", |screen| {
            only_rail1(screen) && !screen.contains("Enter apply")
        })
        .unwrap();
    terminal
        .press_until("Escape", "all flows", |screen| {
            screen.lines().skip(5).any(|line| line.contains(" rail0"))
        })
        .unwrap();

    // Pause: nothing changes, and then it continues. Rewinding needs a few seconds of data.
    let some_seconds = |screen: &str| {
        ["3.", "4.", "5.", "6.", "7.", "8.", "9.", "10 s"]
            .iter()
            .any(|n| screen.contains(&format!("last {n}")))
    };
    terminal.until("some seconds", some_seconds).unwrap();
    terminal.press_until("Space", "a pause", |screen| screen.contains("PAUSED")).unwrap();
    // The screen may have been read while it was drawn.
    let mut paused = terminal.screen().unwrap();
    terminal
        .until("a screen that does not change", |screen| {
            screen == std::mem::replace(&mut paused, screen.to_owned())
        })
        .unwrap();
    let end = Instant::now() + Duration::from_millis(1_300);
    while Instant::now() < end {
        assert_eq!(terminal.screen().unwrap(), paused, "the paused view changes");
        std::thread::sleep(Duration::from_millis(100));
    }
    // Back in time and forward again.
    let title = |screen: &str| screen.lines().next().unwrap_or("").to_owned();
    let back = |screen: &str| title(screen).contains("PAUSED −");
    let before = terminal.press_until(",", "an earlier snapshot", back).unwrap();
    terminal.press_until(",", "one more", |screen| back(screen) && title(screen) != title(&before)).unwrap();
    terminal.press(&["."]).unwrap();
    terminal
        .press_until(".", "the snapshot of the pause", |screen| {
            screen.contains("PAUSED") && !screen.contains("PAUSED −")
        })
        .unwrap();
    terminal.press_until("Space", "movement", |screen| !screen.contains("PAUSED")).unwrap();
    terminal.until("a later time", |screen| title(screen) != title(&paused)).unwrap();

    // Details.
    terminal.press(&["Down"]).unwrap();
    let detail = |screen: &str| screen.contains(" acks ") && screen.contains(" PSN ");
    terminal.press_until("Enter", "details", detail).unwrap();

    // Sizes, with the details open.
    for (columns, lines) in [(80, 24), (200, 60)] {
        terminal.resize(columns, lines).unwrap();
        let fits = |screen: &str| {
            let hints = last_line(screen);
            detail(screen) && hints.ends_with("q quit") && screen.lines().count() == usize::from(lines)
        };
        let screen = terminal.until(&format!("{columns}x{lines}"), fits).unwrap();
        assert!(screen.lines().all(|line| line.chars().count() <= usize::from(columns)), "{screen}");
    }
    terminal.resize(50, 10).unwrap();
    terminal
        .until("the message that the terminal is too small", |screen| screen.contains("60x15 shows more"))
        .unwrap();
    terminal.resize(120, 40).unwrap();
    terminal.until("details again", detail).unwrap();
    terminal.press_until("Escape", "no details", |screen| !detail(screen) && rows(screen) > 4).unwrap();

    // Suspend and resume.
    terminal
        .press_until("C-z", "the shell", |screen| screen.contains("Stopped") && screen.contains(BEFORE))
        .unwrap();
    assert_eq!(terminal.modes().unwrap(), (false, true));
    let stopped = terminal.settings(&session.file("stopped")).unwrap();
    assert_eq!(stopped, session.settings);
    terminal.command("fg").unwrap();
    terminal.until("queue pairs", shows_queue_pairs).unwrap();
    assert!(terminal.modes().unwrap().0);

    terminal.press(&["q"]).unwrap();
    session.is_restored("0");
}

#[test]
fn after_a_stop_by_a_signal_the_terminal_is_taken_over_again() {
    let name = "after_a_stop_by_a_signal_the_terminal_is_taken_over_again";
    if !root_or_skip(name) || !installed_or_skip(name, "tmux") {
        return;
    }
    let session = Session::open(100, 30);
    let terminal = &session.terminal;
    session.start("demo");
    terminal.until("the view", |screen| screen.contains("TIMELINE")).unwrap();
    // The shell writes to the alternate screen, which nobody could leave.
    session.signal(Signal::STOP);
    terminal.until("the shell", |screen| screen.contains("Stopped")).unwrap();
    // In the background nothing is drawn: the shell's screen is back, with what was there.
    session.signal(Signal::CONT);
    terminal.until("text on the screen before", |screen| screen.contains(BEFORE)).unwrap();
    terminal.command("fg").unwrap();
    let whole = |screen: &str| screen.contains("TIMELINE") && !screen.contains("Stopped");
    terminal.until("the view", whole).unwrap();
    assert!(terminal.modes().unwrap().0, "the alternate screen is used");
    // Keys are not waiting for Enter.
    terminal.press_until("2", "queue pairs", shows_queue_pairs).unwrap();
    terminal.press(&["q"]).unwrap();
    session.is_restored("0");
}

#[test]
fn signals_and_ctrl_c_give_the_terminal_back() {
    let name = "signals_and_ctrl_c_give_the_terminal_back";
    if !root_or_skip(name) || !installed_or_skip(name, "tmux") {
        return;
    }
    let session = Session::open(100, 30);
    for end in [Some(Signal::TERM), Some(Signal::INT), Some(Signal::QUIT), None] {
        session.start("demo");
        session.terminal.until("the view", |screen| screen.contains("TIMELINE")).unwrap();
        match end {
            Some(signal) => session.signal(signal),
            None => session.terminal.press(&["C-c"]).unwrap(),
        }
        session.is_restored("0");
    }
}

/// True if the process has ended; an unreaped one is a zombie.
fn has_ended(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}

#[test]
fn a_terminal_that_goes_away_ends_the_program() {
    let name = "a_terminal_that_goes_away_ends_the_program";
    if !root_or_skip(name) || !installed_or_skip(name, "tmux") {
        return;
    }
    let session = Session::open(100, 30);
    session.start("demo");
    session.terminal.until("the view", |screen| screen.contains("TIMELINE")).unwrap();
    let pid: i32 = std::fs::read_to_string(session.file("pid")).unwrap().trim().parse().unwrap();
    assert!(!has_ended(pid));
    drop(session);
    let start = Instant::now();
    while !has_ended(pid) {
        assert!(start.elapsed() < Duration::from_secs(10), "process {pid} is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_is_pasted_and_the_smallest_size_are_survived() {
    let name = "what_is_pasted_and_the_smallest_size_are_survived";
    if !installed_or_skip(name, "tmux") {
        return;
    }
    let session = Session::open(100, 30);
    let terminal = &session.terminal;
    session.start(&format!("replay {}", captures::folder().join("b5_ops_full.h0.pcap").display()));
    terminal.until("the end of the capture", |screen| screen.contains("EOF")).unwrap();
    terminal.press_until("/", "a filter being typed", |screen| screen.contains("filter:")).unwrap();
    for _ in 0..25 {
        terminal.type_text(&"zażółć:>%!\u{1F600} [200~ 0x ".repeat(150)).unwrap();
    }
    terminal.press_until("Escape", "no filter", |screen| !screen.contains("filter:")).unwrap();
    terminal.resize(1, 1).unwrap();
    std::thread::sleep(Duration::from_millis(400));
    terminal.resize(100, 30).unwrap();
    terminal.until("the view again", |screen| screen.contains("EOF") && screen.contains("q quit")).unwrap();
    terminal.press(&["q"]).unwrap();
    session.is_restored("0");
}

/// Random keys, clicks, wheel events and sizes, but none that ends or suspends the program.
fn monkey(name: &str, length: Duration) {
    const KEYS: [&str; 56] = [
        "Up", "Down", "Left", "Right", "PPage", "NPage", "Home", "End", "Enter", "Escape", "Tab", "BTab",
        "Space", "1", "2", "3", "4", "5", "6", "7", "8", "s", "S", "o", "m", "M", "f", "n", "N", "t", "T",
        "u", "U", "c", "v", "?", "<", ">", ",", ".", "+", "-", "[", "]", "/", "g", "BSpace", "z", "y", "d",
        "C", "e", "E", "w", "D", "r",
    ];
    if !installed_or_skip(name, "tmux") {
        return;
    }
    let session = Session::open(120, 40);
    let terminal = &session.terminal;
    let capture = captures::folder().join("g_rnr.h0.pcap");
    // A click on a label may write a file.
    terminal.command(&format!("cd {}", session.folder.path().display())).unwrap();
    session.start(&format!("replay --speed max {}", capture.display()));
    terminal.until("the end of the capture", |screen| screen.contains("EOF")).unwrap();
    let mut numbers = rocescope_common::random::Random::new(1);
    let mut random = |below: u16| numbers.below_u16(below);
    let end = Instant::now() + length;
    let mut done = 0;
    while Instant::now() < end {
        match random(20) {
            0 => terminal.resize(1 + random(240), 1 + random(70)).unwrap(),
            1..=3 => terminal.click(usize::from(random(200)), usize::from(random(60))).unwrap(),
            4 => terminal
                .type_text(&format!("\u{1b}[<{};{};{}M", 64 + random(2), 1 + random(80), 1 + random(24)))
                .unwrap(),
            _ => terminal.press(&[KEYS[usize::from(random(u16::try_from(KEYS.len()).unwrap()))]]).unwrap(),
        }
        done += 1;
        // A click on a label may have ended it.
        let (ours, _) = terminal.modes().unwrap();
        let screen = || terminal.screen().unwrap();
        if !ours {
            assert_eq!(terminal.status().unwrap(), "0", "after {done}: {}", screen());
            session.start(&format!("replay --speed max {}", capture.display()));
            terminal.until("the end of the capture", |screen| screen.contains("EOF")).unwrap();
        }
    }
    println!("{done} keys, clicks and sizes in {length:?}");
    terminal.resize(120, 40).unwrap();
    // Dialogs and input lines close first.
    terminal.press(&["Escape"]).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    terminal.press(&["Escape"]).unwrap();
    terminal.until("the view", |screen| last_line(screen).contains("q quit")).unwrap();
    terminal.press(&["q"]).unwrap();
    session.is_restored("0");
}

#[test]
fn keys_clicks_and_sizes_by_chance_are_survived() {
    monkey("keys_clicks_and_sizes_by_chance_are_survived", Duration::from_secs(5));
}

#[test]
#[ignore = "takes a minute"]
fn a_minute_of_keys_clicks_and_sizes_by_chance_is_survived() {
    monkey("a_minute_of_keys_clicks_and_sizes_by_chance_is_survived", Duration::from_secs(60));
}

#[test]
fn a_failure_gives_the_terminal_back_and_says_why() {
    let name = "a_failure_gives_the_terminal_back_and_says_why";
    if !root_or_skip(name) || !installed_or_skip(name, "tmux") {
        return;
    }
    let session = Session::open(100, 30);
    session.start("live -i no-such-interface");
    session.terminal.until("the reason", |screen| screen.contains("no network interface")).unwrap();
    session.is_restored("1");
}

#[test]
fn keys_come_from_the_terminal_when_the_capture_comes_from_a_pipe() {
    if !installed_or_skip("keys_come_from_the_terminal_when_the_capture_comes_from_a_pipe", "tmux") {
        return;
    }
    let session = Session::open(120, 40);
    let terminal = &session.terminal;
    let (program, capture) = (binary::path().unwrap(), captures::folder().join("b5_ops_full.h0.pcap"));
    terminal.command(&format!("cat {} | {} replay -", capture.display(), program.display())).unwrap();
    let ended = |screen: &str| screen.contains(" stdin") && screen.contains("EOF");
    let screen = terminal.until("the end of the capture", ended).unwrap();
    assert!(screen.contains("10.0.0.1") && screen.contains("WORST PEERS"), "{screen}");
    terminal
        .press_until("5", "links", |screen| screen.contains("LINK") && screen.contains("NON-ROCE"))
        .unwrap();
    terminal.press_until("?", "help", |screen| screen.contains("ECMP what-if: simulate")).unwrap();
    terminal.press_until("?", "no help", |screen| !screen.contains("half the uplinks")).unwrap();
    terminal.press_until(",", "an earlier time", |screen| screen.contains("EOF −")).unwrap();
    terminal.press(&["q"]).unwrap();
    session.is_restored("0");
}

/// Where no RDMA device is, an interface whose packets can be seen is offered.
#[test]
fn without_arguments_the_view_is_one_key_away() {
    let name = "without_arguments_the_view_is_one_key_away";
    if !root_or_skip(name) || !installed_or_skip(name, "tmux") {
        return;
    }
    let (world, _link) = World::with_link(1500).unwrap();
    let tenant = Tenant::of(&world.near).unwrap();
    let session = Session::open(120, 40);
    let terminal = &session.terminal;
    let start = || {
        let program = binary::path().unwrap();
        let inside = format!("nsenter --net=/proc/{}/ns/net {}", tenant.id(), program.display());
        terminal.command(&inside).unwrap();
        let offer = "Enter starts `rocescope live -i near0`, q and Enter leaves:";
        terminal.until("the offer", |screen| last_line(screen) == offer).unwrap();
    };
    start();
    terminal.press_until("Enter", "the view", |screen| screen.contains("live near0")).unwrap();
    assert!(terminal.modes().unwrap().0, "the alternate screen is used");
    // The help has the capabilities that threads keep.
    terminal.press_until("?", "the help", |screen| screen.contains("Esc: close")).unwrap();
    let kept = "CAP_SYS_ADMIN (sysfs of a network namespace)";
    terminal.press_until("End", "the capabilities", |screen| screen.contains(kept)).unwrap();
    terminal.press_until("Escape", "the view", |screen| !screen.contains("Esc: close")).unwrap();
    terminal.press(&["q"]).unwrap();
    session.is_restored("0");
    terminal.command("clear").unwrap();
    start();
    terminal.press(&["q", "Enter"]).unwrap();
    terminal.until("the shell", |screen| last_line(screen) == PROMPT).unwrap();
    assert_eq!(terminal.status().unwrap(), "0");
    assert!(!terminal.modes().unwrap().0, "no view");
}
