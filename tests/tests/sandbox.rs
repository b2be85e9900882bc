//! Rights of the threads of a running program according to the kernel.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rocescope::host::kernel::{Capabilities, Capability};
use rocescope::sandbox::threads::{self, Thread};
use rocescope_tests::killed::Killed;
use rocescope_tests::live::frames;
use rocescope_tests::live::program::{PATIENCE, Program, Start};
use rocescope_tests::live::wire::World;
use rocescope_tests::needs::there_or_skip;
use rocescope_tests::needs_root;
use rocescope_tests::oracle::binary;
use rocescope_tests::schema;
use rustix::process::Signal;

/// The threads of a program, once all of them have their final rights.
fn settled(program: &Program, wanted: impl Fn(&Thread) -> bool) -> Vec<Thread> {
    settled_of(program.id(), wanted)
}

fn settled_of(pid: u32, wanted: impl Fn(&Thread) -> bool) -> Vec<Thread> {
    let late = Instant::now() + PATIENCE;
    loop {
        let all: Vec<Thread> = threads::of(pid).into_values().collect();
        if !all.is_empty() && all.iter().all(&wanted) || Instant::now() > late {
            return all;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_confined(thread: &Thread) -> bool {
    thread.no_new_privs && thread.filtered
}

/// Each thread has the capabilities that its sources need, can get no others, and none by a program.
fn keep_what_is_needed(all: &[Thread]) {
    for thread in all {
        // The program is in a namespace that /sys does not show.
        let kept = if thread.name == "devices" || thread.name == "file" {
            1 << (Capability::SysAdmin as u32)
        } else {
            0
        };
        for held in [thread.permitted, thread.effective, thread.bounding] {
            assert_eq!(held, Capabilities(kept), "{}: {all:?}", thread.name);
        }
    }
}

#[test]
fn the_threads_of_live_keep_what_their_sources_need_and_nothing_else() {
    needs_root!();
    let export = ["export", "--listen", "127.0.0.1:0", "-i", "near0"];
    for arguments in [&["live", "-i", "near0", "--output", "jsonl"][..], &export] {
        let (world, mut link) = World::with_link(1500).unwrap();
        let how = Start { netns: Some(&world.near), ..Start::default() };
        let program = Program::watching(how, arguments).unwrap();
        link.receive(&frames::sends(3, 5)).unwrap();
        let all = settled(&program, is_confined);
        assert!(all.len() >= 3, "{all:?}");
        for thread in &all {
            assert!(is_confined(thread), "{all:?}");
            assert_ne!(thread.user, 0, "rights beyond those of nobody although nothing is written: {all:?}");
        }
        keep_what_is_needed(&all);
        let ended = program.interrupt().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        // What has no view that lists them says at the start which are kept.
        let kept = "capabilities after set-up: devices: CAP_SYS_ADMIN (sysfs of a network namespace)";
        assert_eq!(ended.err.contains(kept), arguments == export, "{}", ended.err);
        assert!(
            !ended.err.contains("privileges:"),
            "a sandbox feature is missing on this kernel: {}",
            ended.err
        );
    }
}

/// The set of these.
fn set(all: &[Capability]) -> Capabilities {
    Capabilities(all.iter().fold(0, |bits, one| bits | 1 << (*one as u32)))
}

/// A program with settings of NCCL that belongs to neither root nor nobody.
fn of_another_user() -> Killed {
    let mut command = Command::new("sleep");
    command.arg("600").env("NCCL_DEBUG", "INFO");
    std::os::unix::process::CommandExt::uid(&mut command, 12_345);
    Killed(command.spawn().unwrap())
}

/// Waits until a program has a thread of this name.
fn has_thread(program: &Program, name: &str) {
    let late = Instant::now() + PATIENCE;
    while !threads::of(program.id()).values().any(|thread| thread.name == name) {
        assert!(Instant::now() < late, "no thread {name}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The only dump below a folder.
fn dump_in(folder: &Path) -> PathBuf {
    let all = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut dumps = all.filter(|path| path.join("why.json").is_file());
    let dump = dumps.next().unwrap();
    assert!(dumps.next().is_none());
    dump
}

/// What writes dumps has the right to write, what reads the host that to read, and what starts the user's program all
/// that it was given.
#[test]
fn each_thread_of_the_flight_recorder_keeps_what_it_needs() {
    needs_root!();
    let reading = set(&[Capability::SysPtrace, Capability::DacReadSearch, Capability::SysAdmin]);
    let other = of_another_user();
    let live = &["live", "-i", "near0", "--output", "jsonl"][..];
    let export = &["export", "--listen", "127.0.0.1:0", "-i", "near0"];
    for (command, more) in [(live, &[][..]), (export, &[]), (export, &["--on-cmd", "/bin/true"])] {
        let folder = tempfile::tempdir().unwrap();
        let dumps = folder.path().join("dumps");
        let keep = ["--keep", "1m", "--post", "0s", "--dump-dir", dumps.to_str().unwrap()];
        let (world, mut link) = World::with_link(1500).unwrap();
        let how = Start { netns: Some(&world.near), ..Start::default() };
        let program = Program::watching(how, &[command, &keep, more].concat()).unwrap();
        link.receive(&frames::sends(3, 5)).unwrap();
        // It starts once signals are caught.
        has_thread(&program, "recorder");
        let all = settled(&program, |thread| is_confined(thread) || thread.name == "on-cmd");
        let sets = |name: &str| {
            let thread = all.iter().find(|thread| thread.name == name)?;
            Some([thread.permitted, thread.effective, thread.bounding])
        };
        assert_eq!(sets("dumps"), Some([Capabilities(0); 3]), "{all:?}");
        assert_eq!(sets("doctor"), Some([reading; 3]), "{all:?}");
        assert_eq!(sets("on-cmd").is_some(), !more.is_empty(), "{all:?}");
        for thread in &all {
            let may = thread.name == "on-cmd";
            assert!(may || is_confined(thread), "{all:?}");
            // Dumps belong to root.
            assert!(may || (thread.user == 0) == (thread.name == "dumps"), "{all:?}");
        }
        program.signal(Signal::USR1).unwrap();
        program.wait_for_message(|text| text.contains("dump written to ").then_some(())).unwrap();
        let page = std::fs::read(dump_in(&dumps).join("doctor.json")).unwrap();
        let page: serde_json::Value = serde_json::from_slice(&page).unwrap();
        // Facts that need root, of the start and of the time of the dump.
        assert_eq!(page["host"]["kernel"]["root"], true, "{page:#}");
        let processes = page["host"]["processes"].as_array().unwrap();
        assert!(processes.iter().any(|process| process["pid"] == other.0.id()), "{page:#}");
        let ended = program.interrupt().unwrap();
        assert!(ended.status.success() && !ended.err.contains("privileges:"), "{ended:?}");
        if command != live {
            assert!(ended.err.contains("; doctor: CAP_SYS_PTRACE ("), "{}", ended.err);
            let all = "; on-cmd: all that it was given (--on-cmd starts /bin/true)";
            assert_eq!(ended.err.contains(all), !more.is_empty(), "{}", ended.err);
        }
    }
}

#[test]
fn what_records_writes_below_its_folder_and_what_sends_connects() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("recording").display().to_string();
    // Nothing listens there, like a collector that is unreachable.
    let agent =
        ["agent", "--record", &dir, "--listen", "127.0.0.1:0", "-i", "near0", "--otlp", "http://127.0.0.1:9"];
    for arguments in [&["record", "--dir", &dir, "-i", "near0"][..], &agent] {
        let (world, mut link) = World::with_link(1500).unwrap();
        let how = Start { netns: Some(&world.near), ..Start::default() };
        let program = Program::watching(how, arguments).unwrap();
        link.receive(&frames::sends(3, 5)).unwrap();
        let all = settled(&program, is_confined);
        assert!(all.len() >= 3 && all.iter().all(is_confined), "{all:?}");
        keep_what_is_needed(&all);
        // Time for a sample with these packets.
        std::thread::sleep(Duration::from_millis(1_500));
        let ended = program.interrupt().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        assert!(!ended.err.contains("privileges:") && !ended.err.contains("denied"), "{}", ended.err);
        assert!(ended.err.contains("capabilities after set-up: devices: CAP_SYS_ADMIN ("), "{}", ended.err);
        assert!(ended.err.contains(" rows recorded") && !ended.err.contains("lost"), "{}", ended.err);
    }
    let report =
        Command::new(binary::path().unwrap()).args(["replay", &dir, "--output", "json"]).output().unwrap();
    assert!(report.status.success(), "{report:?}");
}

fn started(arguments: &[&str]) -> Killed {
    let mut command = Command::new(binary::path().unwrap());
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Killed(command.spawn().unwrap())
}

/// All threads of a command that reads a file or a pipe, with nothing but the right to read it.
fn bare(pid: u32, writes: bool) {
    let is_bare =
        |thread: &Thread| is_confined(thread) && [thread.permitted, thread.effective] == [Capabilities(0); 2];
    let all = settled_of(pid, is_bare);
    assert!(!all.is_empty() && all.iter().all(is_bare), "{all:?}");
    // What it writes would belong to nobody.
    if !writes {
        assert!(all.iter().all(|thread| thread.user != 0), "{all:?}");
    }
}

#[test]
fn what_reads_captures_has_no_rights_before_the_first_byte() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("recording").display().to_string();
    let replay = ["replay", "-", "--output", "json"];
    for arguments in [&replay[..], &["record", "--read", "-", "--dir", &dir]] {
        let mut child = started(arguments);
        // The pipe is open and empty.
        bare(child.0.id(), arguments != replay);
        let mut pipe = child.0.stdin.take().unwrap();
        pipe.write_all(&frames::capture(&frames::sends(3, 5))).unwrap();
        pipe.flush().unwrap();
        // With the threads that count.
        std::thread::sleep(Duration::from_millis(300));
        bare(child.0.id(), arguments != replay);
        drop(pipe);
        let mut said = String::new();
        std::io::Read::read_to_string(&mut child.0.stderr.take().unwrap(), &mut said).unwrap();
        assert!(!said.contains("privileges:"), "a sandbox feature is missing on this kernel: {said}");
        let mut out = String::new();
        std::io::Read::read_to_string(&mut child.0.stdout.take().unwrap(), &mut out).unwrap();
        assert!(child.0.wait().unwrap().success(), "{said}");
        if arguments == replay {
            let report = schema::read(&out).unwrap();
            assert_eq!(report["totals"]["roce_packets"], 15);
        }
    }
}

#[test]
fn what_compares_captures_has_no_rights_before_it_opens_them() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("a.pcap");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let name = pipe.to_str().unwrap();
    for arguments in [&["diff", name, name][..], &["replay", name]] {
        // Nobody writes: it waits where it opens the pipe.
        bare(started(arguments).0.id(), false);
    }
}

/// rocescope on a kernel where a system call does not exist.
fn without(call: libc::c_long, arguments: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sandbox/without.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(call.to_string()).arg(binary::path().unwrap()).args(arguments);
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_kernel_without_landlock_or_seccomp_says_so_and_the_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("a.pcap");
    std::fs::write(&capture, frames::capture(&frames::sends(3, 5))).unwrap();
    let name = capture.to_str().unwrap();
    for (call, missing, other) in [
        (libc::SYS_landlock_create_ruleset, "no Landlock", "seccomp"),
        (libc::SYS_seccomp, "system calls are not limited: seccomp is refused", "Landlock"),
    ] {
        let output = without(call, &["replay", name, "--output", "json"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains(missing) && !said.contains(other), "{call}: {said}");
        let report = schema::read(&output.stdout).unwrap();
        assert_eq!(report["totals"]["roce_packets"], 15, "{said}");
    }
    let output = without(libc::SYS_landlock_create_ruleset, &["doctor"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("no Landlock"), "doctor shows it: {said}");
}

#[test]
fn privileges_are_kept_when_the_user_says_so() {
    needs_root!();
    let (world, _link) = World::with_link(1500).unwrap();
    let program = Program::live(&world.near, &["-i", "near0", "--output", "json", "--no-sandbox"]).unwrap();
    let all: Vec<Thread> = threads::of(program.id()).into_values().collect();
    assert!(all.iter().all(|thread| thread.user == 0 && !thread.filtered), "{all:?}");
    assert!(all.iter().all(|thread| thread.permitted.has(Capability::SysAdmin)), "{all:?}");
    assert!(program.interrupt().unwrap().status.success());
}

#[test]
fn a_capture_that_only_its_owner_may_read_is_read_by_root() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("private.pcap");
    std::fs::write(&capture, frames::capture(&frames::sends(3, 5))).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&capture, mode).unwrap();
    for owner in [0, 1000] {
        std::os::unix::fs::chown(&capture, Some(owner), Some(owner)).unwrap();
        let report = binary::replay(std::slice::from_ref(&capture), ["--to", "+1s"]).unwrap();
        assert_eq!(report["totals"]["roce_packets"], 15, "owner {owner}");
    }
}

/// Only one user and one group exist there, so that the user nobody is not available.
#[test]
fn a_capture_is_read_in_a_user_namespace_and_live_says_what_it_lacks_there() {
    let unshared = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--"]).arg(binary::path().unwrap()).args(arguments);
        command.output().unwrap()
    };
    let can = Command::new("unshare").args(["--user", "--map-root-user", "true"]).status();
    let test = "a_capture_is_read_in_a_user_namespace_and_live_says_what_it_lacks_there";
    if !there_or_skip(test, can.is_ok_and(|status| status.success()), "unshare with user namespaces") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("a.pcap");
    std::fs::write(&capture, frames::capture(&frames::sends(3, 5))).unwrap();
    let output = unshared(&["replay", capture.to_str().unwrap(), "--output", "json"]);
    let report = schema::read(&output.stdout).unwrap();
    assert_eq!(report["totals"]["roce_packets"], 15);
    let output = unshared(&["live", "-i", "lo", "--output", "json", "--duration", "1s"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("is in a user namespace"), "{said}");
}
