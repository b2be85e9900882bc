//! `rocescope agent`: one process that publishes, records and dumps; effects of a kill; notifications to systemd.

use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rocescope::record::registry::FlowSecond;
use rocescope::record::store::{Keep, Rotate, Store};
use rocescope::util::units;
use rocescope_tests::craft::{self, Mac, Net, Transport};
use rocescope_tests::hostile::is_hostile;
use rocescope_tests::killed::Killed;
use rocescope_tests::live::attached::Hooks;
use rocescope_tests::live::frames;
use rocescope_tests::live::program::{PATIENCE, Program, Start};
use rocescope_tests::live::wire::World;
use rocescope_tests::needs_root;
use rocescope_tests::oracle::binary;
use rocescope_tests::recording::flow_rows;
use rocescope_tests::schema;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{METRICS, ask, get, traffic, until, world};

/// Sum of the packets in flow rows below a folder.
fn packets(folder: &Path) -> u64 {
    flow_rows(folder).unwrap().iter().map(|row| row.packets).sum()
}

/// Complete dumps: a dump being written has another name.
pub(super) fn dumps(folder: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut dumps: Vec<PathBuf> = all
        .filter(|path| path.extension().is_none_or(|end| end != "partial") && path.join("why.json").is_file())
        .collect();
    dumps.sort();
    dumps
}

pub(super) fn json(path: PathBuf) -> Value {
    schema::read(&std::fs::read(path).unwrap()).unwrap()
}

/// Configuration of an agent with all features.
fn configuration(at: impl Fn(&str) -> String) -> String {
    format!(
        "[agent]\ninterface = \"near0\"\ninterval = \"200ms\"\nlisten = [\"{METRICS}\", \"unix:{}\"]\n\
         record = \"{}\"\nkeep = \"5m\"\non = \"*\"\npost = \"1s\"\nhost = \"gpu7\"\njob = \"train 3\"\ndump_dir = \"{}\"\n\
         max_dumps = 2\ncooldown = \"1h\"\non_cmd = \"{}\"\n",
        at("agent.sock"),
        at("recording"),
        at("dumps"),
        at("on dump")
    )
}

/// The program of `on_cmd`: it notes the folder, and keeps the reason of each dump, of which few remain.
fn write_program(folder: &Path) {
    let script = format!(
        "#!/bin/sh\n[ $# = 1 ] && cp \"$1/why.json\" '{0}'/\"why-${{1##*/}}\" && echo \"$1\" >>'{0}/told'\n",
        folder.display()
    );
    let file = folder.join("on dump");
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// The folders that `on_cmd` was given, in order.
fn given(folder: &Path) -> Vec<PathBuf> {
    let lines = std::fs::read_to_string(folder.join("told")).unwrap_or_default();
    lines.lines().map(PathBuf::from).collect()
}

/// The reasons that the program of `on_cmd` kept, in order.
fn reasons(folder: &Path) -> Vec<Value> {
    let whys = given(folder)
        .into_iter()
        .map(|dump| json(folder.join(format!("why-{}", dump.file_name().unwrap().to_str().unwrap()))));
    whys.collect()
}

/// Forty queue pairs of a host that share one source port, as the twenty of [`traffic`] do.
fn of_one_port() -> Vec<Vec<u8>> {
    let packets = (0..40).flat_map(|psn| (0..40).map(move |qp| Transport::new(0x04, 0x400 + qp, psn)));
    let net = Net::v4([10, 6, 0, 1], [10, 6, 0, 2]);
    let frame = |packet: Transport| net.roce(50_000, &packet.payload(vec![1; 64]));
    packets.map(|packet| craft::ethernet(Mac::SRC, Mac::DST, &frame(packet))).collect()
}

/// Kernel programs of a process, by type and content.
fn kernel_programs(process: u32) -> Vec<(String, String)> {
    let mut programs = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(format!("/proc/{process}/fdinfo")).unwrap().flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(|value| value.trim().to_owned())
        };
        // A program may have several descriptors. A link, which names its program, has no type of one.
        if let (Some(kind), Some(tag), Some(id)) = (field("prog_type"), field("prog_tag"), field("prog_id")) {
            programs.insert(id, (kind, tag));
        }
    }
    let mut programs: Vec<_> = programs.into_values().collect();
    programs.sort();
    programs
}

/// Checks the content of a dump.
fn check_dump(dump: &Path, all: u64) {
    let why = json(dump.join("why.json"));
    let report = json(dump.join("report.json"));
    assert_eq!(report["totals"]["roce_packets"], all);
    assert_eq!(packets(dump), all, "the tables of a dump have all packets");
    assert_eq!(why["host"], "gpu7");
    let named = |row: &FlowSecond| (row.host.as_str() == "gpu7", row.job.as_deref() == Some("train 3"));
    assert!(
        flow_rows(dump).unwrap().iter().all(|row| named(row) == (true, true)),
        "rows have the agent's host and job"
    );
    assert!(std::fs::read_to_string(dump.join("report.html")).unwrap().contains("Content-Security-Policy"));
    assert!(json(dump.join("doctor.json"))["checks"].is_array());
    if let Ok(capture) = Command::new("tshark").arg("-r").arg(dump.join("packets.pcapng")).output() {
        let lines = String::from_utf8_lossy(&capture.stdout).lines().count() as u64;
        assert!(lines > 0 && Some(lines) == why["packets"].as_u64(), "{capture:?}");
    }
}

#[test]
fn one_process_publishes_records_and_dumps_the_same_figures() {
    needs_root!();
    let (world, mut link) = world();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let text = |name: &str| at(name).to_str().unwrap().to_owned();
    std::fs::write(at("agent.toml"), configuration(text)).unwrap();
    write_program(folder.path());
    let start = Start { netns: Some(&world.near), ..Start::default() };
    let agent = Program::watching(start, &["agent", "--config", &text("agent.toml")]).unwrap();
    super::until_ready(&world);
    let sent = traffic();
    link.receive(&sent).unwrap();
    link.transmit(&sent).unwrap();
    let all = 2 * sent.len() as u64;
    let counted =
        format!("rocescope_link_packets_total{{link=\"near0\",direction=\"ingress\"}} {}\n", sent.len());
    until("the metrics", || {
        get(&world.near, METRICS, "/metrics", "").ok().filter(|answer| answer.body.contains(&counted))
    });
    // The losses trigger a dump.
    let why = until("a dump of a finding", || reasons(folder.path()).into_iter().next());
    assert_eq!(why["reasons"][0]["cause"], "finding");
    assert!(why["reasons"][0]["title"].as_str().is_some_and(|title| !title.is_empty()), "{why}");
    assert!(why["reasons"][0]["evidence"].as_object().is_some_and(|evidence| !evidence.is_empty()), "{why}");
    // The same kind of finding, of another host, triggers none within the cooldown.
    let more = of_one_port();
    link.receive(&more).unwrap();
    let all = all + more.len() as u64;
    std::thread::sleep(Duration::from_secs(2));
    // A request on the unix socket triggers one, but not over TCP.
    let refused = world.near.run(|| std::net::TcpStream::connect(METRICS)).unwrap().unwrap();
    assert_eq!(ask(refused, "POST /dump HTTP/1.0\r\n\r\n").unwrap().status, 405);
    let socket = UnixStream::connect(at("agent.sock")).unwrap();
    assert_eq!(ask(socket, "POST /dump HTTP/1.0\r\n\r\n").unwrap().status, 202);
    let asked = |cause: &str| {
        let of =
            |why: &Value| why["reasons"].as_array().unwrap().iter().any(|reason| reason["cause"] == cause);
        reasons(folder.path()).iter().position(of).map(|at| given(folder.path())[at].clone())
    };
    let dump = until("a dump on request", || asked("request"));
    check_dump(&dump, all);
    agent.signal(Signal::USR1).unwrap();
    until("a dump on a signal", || asked("signal"));
    check_options_of_dumps(folder.path());
    let of_agent = kernel_programs(agent.id());
    agent.signal(Signal::TERM).unwrap();
    let ended = agent.end().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    assert_eq!(packets(&at("recording")), all, "{}", ended.err);
    assert!(
        ended.err.contains(": --max-dumps 2\n") && !ended.err.contains("rocescope: --on-cmd "),
        "{}",
        ended.err
    );
    assert!(!at("agent.sock").exists());
    Hooks::until_gone(&world, &mut link).unwrap();
    // No more kernel programs than metrics alone have.
    let programs = programs_of(&world, &["export", "-i", "near0", "--interval", "200ms"]);
    assert_eq!(programs, of_agent, "one set of kernel programs");
}

/// `max_dumps`, `on_cmd` and `cooldown` of the configuration.
fn check_options_of_dumps(folder: &Path) {
    let named = given(folder);
    assert!(named.len() > 2, "{named:?}");
    assert_eq!(dumps(&folder.join("dumps")), named[named.len() - 2..], "the newest two of {named:?}");
    let whys = reasons(folder);
    let held_back = |why: &Value| why["lost"]["findings_in_cooldown"].as_u64().unwrap();
    assert!(held_back(&whys[whys.len() - 1]) > 0, "the second entropy.low was held back: {whys:?}");
    let mut triggered = std::collections::BTreeMap::new();
    for reason in whys.iter().flat_map(|why| why["reasons"].as_array().unwrap()) {
        let Some(id) = reason["id"].as_str() else { continue };
        let first = triggered.entry(id.to_owned()).or_insert(reason["time_ns"].clone());
        assert_eq!(*first, reason["time_ns"], "{id} triggered again within its cooldown");
    }
    assert!(triggered.contains_key("entropy.low"), "{triggered:?}");
}

/// The kernel programs of a run of its own.
fn programs_of(world: &World, arguments: &[&str]) -> Vec<(String, String)> {
    let start = Start { netns: Some(&world.near), ..Start::default() };
    let program = Program::watching(start, arguments).unwrap();
    super::until_ready(world);
    let programs = kernel_programs(program.id());
    assert_eq!(program.interrupt().unwrap().status.code(), Some(0));
    assert!(programs.len() >= 2, "ingress and egress: {programs:?}");
    programs
}

/// Size of the journal of a recording.
fn journal(recording: &Path) -> u64 {
    let entries = std::fs::read_dir(recording.join("journal")).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

/// The kill falls into an interval, a quarter of one after rows were written: traffic goes on until then. The next
/// start says up to when there are rows.
#[test]
fn a_kill_costs_at_most_an_interval_of_the_recording() {
    const INTERVAL: Duration = Duration::from_millis(500);
    needs_root!();
    let (world, mut link) = world();
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("recording");
    let arguments = [
        &["agent", "-i", "near0", "--interval", "500ms", "--listen", METRICS][..],
        &["--record", recording.to_str().unwrap(), "--keep", "1m"],
        &["--dump-dir", folder.path().to_str().unwrap(), "--otlp", "http://127.0.0.1:9"],
    ]
    .concat();
    let start = Start { netns: Some(&world.near), ..Start::default() };
    let agent = Program::watching(start, &arguments).unwrap();
    super::until_ready(&world);
    // Packets sent so far, by time.
    let (begin, mut sent) = (Instant::now(), Vec::new());
    let (mut size, mut written) = (journal(&recording), begin);
    // While a sample is on its way to the journal, more than an interval would be lost by that time.
    while begin.elapsed() < 6 * INTERVAL || !(INTERVAL / 4..INTERVAL / 2).contains(&written.elapsed()) {
        assert!(begin.elapsed() < 60 * INTERVAL, "no rows are written");
        let now = journal(&recording);
        if std::mem::replace(&mut size, now) != now {
            written = Instant::now();
        }
        let psn = u32::try_from(sent.len()).unwrap();
        link.receive(&[frames::send(0x100, psn), frames::send(0x101, psn)]).unwrap();
        sent.push((Instant::now(), 2 * (sent.len() as u64 + 1)));
        std::thread::sleep(Duration::from_millis(4));
    }
    agent.signal(Signal::KILL).unwrap();
    let killed = Instant::now();
    agent.end().unwrap();
    assert_eq!(packets(&recording), 0, "nothing is sealed yet");
    Hooks::until_gone(&world, &mut link).unwrap();
    let next = Program::watching(start, &arguments).unwrap();
    let said = next.wait_for_message(|text| {
        let (_, said) = text.split_once(" of a recording that was killed: ")?;
        said.split_once('\n').map(|(line, _)| line.to_owned())
    });
    let said = said.unwrap();
    let (recorded, total) = (packets(&recording), sent[sent.len() - 1].1);
    let is_old = |(at, _): &&(Instant, u64)| killed.duration_since(*at) > INTERVAL;
    let before = sent.iter().rfind(is_old).unwrap().1;
    assert!(recorded >= before && before > total / 2, "{recorded} of {total}, {before} an interval before");
    assert!(recorded < total, "the interval of the kill is not there: {recorded} of {total}");
    let last = flow_rows(&recording).unwrap().iter().map(|row| row.t.0).max().unwrap();
    let reach =
        format!("the rows reach to {}; at most one interval after that is lost", units::time_utc(last));
    assert!(said.starts_with(&reach), "{said}, not {reach}");
    let in_memory = "the previous run was killed, or the host failed: lost are OTLP requests in its queue, and the last 1 min \
                0 s, which its flight recorder held";
    next.wait_for_message(|text| text.contains(in_memory).then_some(())).unwrap();
    assert_eq!(next.interrupt().unwrap().status.code(), Some(0));
}

/// A file that takes all that is left of a disk of some megabytes.
fn fill(folder: &Path) -> std::fs::File {
    let mut filler = std::fs::File::create(folder.join("filler")).unwrap();
    // A piece of which a part fits in takes that part.
    let full = (0..16_384).find_map(|_| std::io::Write::write_all(&mut filler, &[0; 1_024]).err()).unwrap();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull, "{full}");
    filler
}

/// While the disk is full the agent reports it once, continues counting and keeps the rows; when there is space again
/// it writes all of them.
#[test]
fn an_agent_outlives_a_full_disk_and_loses_nothing_that_it_can_keep() {
    needs_root!();
    let (world, mut link) = world();
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("recording");
    let arguments = [
        &["agent", "-i", "near0", "--interval", "200ms", "--listen", METRICS, "--rotate", "1s"][..],
        &["--record", recording.to_str().unwrap()],
    ]
    .concat();
    let start = Start { netns: Some(&world.near), disk: Some((folder.path(), 512)), ..Start::default() };
    let agent = Program::watching(start, &arguments).unwrap();
    super::until_ready(&world);
    let inside = PathBuf::from(format!("/proc/{}/root{}", agent.id(), folder.path().display()));
    let mut sent = 0;
    let mut traffic = || {
        link.receive(&frames::sends(3, 10)).unwrap();
        sent += 30;
        let counted =
            format!("rocescope_link_packets_total{{link=\"near0\",direction=\"ingress\"}} {sent}\n");
        until("the metrics", || {
            get(&world.near, METRICS, "/metrics", "").ok().filter(|answer| answer.body.contains(&counted))
        });
        sent
    };
    traffic();
    // All that is left of the disk.
    let filler = fill(&inside);
    traffic();
    agent.wait_for_message(|text| text.contains("No space left").then_some(())).unwrap();
    traffic();
    // An open file keeps its disk space.
    drop(filler);
    std::fs::remove_file(inside.join("filler")).unwrap();
    let all = traffic();
    // The file system disappears with its last user.
    let held = std::fs::File::open(inside.join("recording")).unwrap();
    let ended = agent.interrupt().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    assert!(ended.err.contains("rows recorded") && !ended.err.contains("panicked"), "{}", ended.err);
    assert!(!ended.err.contains(" rows lost"), "rows kept in memory were not written: {}", ended.err);
    let held = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&held));
    assert_eq!(packets(Path::new(&held)), all, "{}", ended.err);
    Hooks::until_gone(&world, &mut link).unwrap();
}

/// Rows that waited in memory for a full disk are in the journal once it can be written again: a kill then costs none.
#[test]
fn a_kill_after_a_full_disk_costs_no_row_that_waited_in_memory() {
    needs_root!();
    let (world, mut link) = world();
    let (folder, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let recording = folder.path().join("recording");
    let arguments = ["agent", "-i", "near0", "--interval", "200ms", "--record", recording.to_str().unwrap()];
    let start = Start { netns: Some(&world.near), disk: Some((folder.path(), 512)), ..Start::default() };
    let agent = Program::watching(start, &[&arguments[..], &["--listen", METRICS]].concat()).unwrap();
    super::until_ready(&world);
    let inside = PathBuf::from(format!("/proc/{}/root{}", agent.id(), folder.path().display()));
    let filler = fill(&inside);
    // The journal has room in its last page for the rows of some intervals.
    let mut psn = 0;
    until("a full disk", || {
        link.receive(&[frames::send(0x100, psn)]).unwrap();
        psn += 1;
        std::thread::sleep(Duration::from_millis(100));
        agent.wait_for_message(|text| Some(text.contains("No space left"))).unwrap().then_some(())
    });
    // Several intervals that are in memory alone.
    for _ in 0..10 {
        link.receive(&[frames::send(0x100, psn)]).unwrap();
        psn += 1;
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(filler);
    std::fs::remove_file(inside.join("filler")).unwrap();
    agent.wait_for_message(|text| text.contains("writing to").then_some(())).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let journals = beside.path().join("journal");
    std::fs::create_dir(&journals).unwrap();
    agent.signal(Signal::STOP).unwrap();
    for entry in std::fs::read_dir(inside.join("recording/journal")).unwrap().flatten() {
        std::fs::copy(entry.path(), journals.join(entry.file_name())).unwrap();
    }
    agent.signal(Signal::KILL).unwrap();
    agent.end().unwrap();
    let never = Rotate { time_ns: u64::MAX, bytes: u64::MAX };
    let (_, said) = Store::open(beside.path(), "other", never, Keep::default(), false).unwrap();
    assert_eq!(packets(beside.path()), u64::from(psn), "{said:?}");
    Hooks::until_gone(&world, &mut link).unwrap();
}

/// What does not fit into memory either is lost: the metrics, systemd and the end of the run have the same number.
#[test]
fn an_agent_says_how_many_rows_a_full_disk_cost() {
    const FLOWS: u32 = 6_000;
    needs_root!();
    let (world, mut link) = world();
    let (folder, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let recording = folder.path().join("recording");
    let notify = beside.path().join("notify.sock");
    let systemd = UnixDatagram::bind(&notify).unwrap();
    systemd.set_read_timeout(Some(PATIENCE)).unwrap();
    let arguments = [
        &["agent", "-i", "near0", "--interval", "1s", "--listen", METRICS][..],
        &["--record", recording.to_str().unwrap()],
    ]
    .concat();
    let start = Start {
        netns: Some(&world.near),
        disk: Some((folder.path(), 8 << 10)),
        variables: &[("NOTIFY_SOCKET", notify.to_str().unwrap())],
        ..Start::default()
    };
    let agent = Program::watching(start, &arguments).unwrap();
    super::until_ready(&world);
    let rows = |name: &str| -> u64 {
        let body = get(&world.near, METRICS, "/metrics", "").unwrap().body;
        let name = format!("rocescope_recording_{name}_total ");
        body.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap()
    };
    assert_eq!(rows("rows_lost"), 0, "known to be none");
    let inside = PathBuf::from(format!("/proc/{}/root{}", agent.id(), folder.path().display()));
    let filler = fill(&inside);
    let mut round = 0;
    let lost = until("lost rows", || {
        let sent: Vec<_> = (0..FLOWS).map(|qp| frames::send(0x100 + qp, round)).collect();
        link.receive(&sent).unwrap();
        round += 1;
        std::thread::sleep(Duration::from_millis(300));
        Some(rows("rows_lost")).filter(|lost| *lost > 0)
    });
    assert!(lost >= 8_192 && lost < rows("rows"), "{lost}");
    let status = std::iter::from_fn(|| {
        let mut buffer = [0; 256];
        let length = systemd.recv(&mut buffer).ok()?;
        Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
    });
    let status = status.into_iter().find(|state| state.starts_with("STATUS=")).unwrap();
    assert_eq!(status, "STATUS=8,192 recording rows lost");
    drop(filler);
    std::fs::remove_file(inside.join("filler")).unwrap();
    // No row is lost any more, so that the end has the number of the metrics.
    let mut ending = rows("rows_lost");
    until("an end of the loss", || {
        std::thread::sleep(Duration::from_millis(500));
        let before = std::mem::replace(&mut ending, rows("rows_lost"));
        (before == ending).then_some(())
    });
    let ended = agent.interrupt().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    let said = ended.err.rsplit_once("rows recorded; ").unwrap().1.replace(',', "");
    assert!(said.starts_with(&format!("{ending} rows lost")), "{ending}: {}", ended.err);
    Hooks::until_gone(&world, &mut link).unwrap();
}

#[test]
fn systemd_hears_when_it_is_ready_works_reads_its_file_again_and_stops() {
    needs_root!();
    let (world, _link) = world();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.toml");
    let configured = |more: &str| {
        let dumps = folder.path().join("dumps");
        let text = format!(
            "[agent]\ninterface = \"near0\"\nkeep = \"1m\"\ndump_dir = \"{}\"\n{more}",
            dumps.display()
        );
        std::fs::write(&file, text).unwrap();
    };
    configured("on = \"loss.*\"\n");
    let notify = folder.path().join("notify.sock");
    let systemd = UnixDatagram::bind(&notify).unwrap();
    systemd.set_read_timeout(Some(PATIENCE)).unwrap();
    let heard = |wanted: &str| loop {
        let mut buffer = [0; 256];
        let length = systemd.recv(&mut buffer).unwrap_or_else(|error| panic!("{wanted}: {error}"));
        let state = String::from_utf8(buffer[..length].to_vec()).unwrap();
        if state.starts_with(wanted) {
            return;
        }
        assert_eq!(state, "WATCHDOG=1", "while waiting for {wanted}");
    };
    let mut command = Command::new(binary::path().unwrap());
    command
        .arg("agent")
        .arg("--config")
        .arg(&file)
        .env("NOTIFY_SOCKET", &notify)
        .env("WATCHDOG_USEC", "1000000");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut service = Killed(world.near.run(|| command.spawn()).unwrap().unwrap());
    heard("READY=1");
    heard("WATCHDOG=1");
    heard("WATCHDOG=1");
    let pid = Pid::from_child(&service.0);
    configured("on = \"loss.*|qp.died\"\npost = \"1s\"\nper_qp = 4\n");
    kill_process(pid, Signal::HUP).unwrap();
    heard("RELOADING=1\nMONOTONIC_USEC=");
    heard("READY=1");
    configured("on = \"no.such_finding\"\n");
    kill_process(pid, Signal::HUP).unwrap();
    heard("RELOADING=1");
    heard("READY=1");
    kill_process(pid, Signal::TERM).unwrap();
    heard("STOPPING=1");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut service.0.stderr.take().unwrap(), &mut said).unwrap();
    assert_eq!(service.0.wait().unwrap().code(), Some(0), "{said}");
    assert!(said.contains("reloaded; restart the agent to apply per_qp\n"), "{said}");
    assert!(
        said.contains("invalid value of --on") && said.contains("the configuration stays as it was"),
        "{said}"
    );
    assert!(!said.contains("no.such_finding"), "text of the file: {said}");
}

/// The kernel takes such a name of an interface; the journal gets none of it.
#[test]
fn names_reach_the_journal_without_control_characters() {
    const NAME: &str = "n\u{1b}[2J\u{7}\u{9b}";
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let world = World::new().unwrap();
    let mut link = world.link(NAME, 1500).unwrap();
    let how = Start { netns: Some(&world.near), ..Start::default() };
    let (record, dumps, socket) = (at("recording"), at("dumps"), format!("unix:{}", at("agent.sock")));
    let options = ["--record", &record, "--keep", "1m", "--dump-dir", &dumps, "--listen", &socket];
    let program =
        Program::watching(how, &[&["agent", "-i", NAME, "--on", "*"][..], &options].concat()).unwrap();
    link.receive(&frames::sends(3, 5)).unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    program.signal(Signal::USR1).unwrap();
    program.wait_for_message(|text| text.contains("dump written to ").then_some(())).unwrap();
    let ended = program.interrupt().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert!(ended.err.contains("n\u{fffd}[2J"), "the name is shown: {:?}", ended.err);
    assert!(!ended.err.contains(is_hostile), "{:?}", ended.err);
}
