//! A clock that is set under a running agent: it loses no count, and says what its flight recorder drops.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;

use rocescope::record::registry::Host;
use rocescope_tests::live::frames;
use rocescope_tests::live::program::{Program, Start};
use rocescope_tests::needs_root;
use rocescope_tests::recording::{flow_rows, rows};
use serde_json::Value;

use super::agent::{dumps, json};
use super::otlp::{COLLECTOR, by_link, collector};
use super::{METRICS, ask, get, until, until_ready, world};

const SECOND: i64 = 1_000_000_000;
/// Distances to which the clock is set from its own. Messages round the steps between them to minutes.
const AHEAD: i64 = 3_630 * SECOND;
const BEHIND: i64 = -3_600 * SECOND;
/// Packets of each second of traffic.
const EACH: u64 = 30;

/// Sets the clock, in one write.
fn set(clock: &File, by_ns: i64) {
    clock.write_all_at(format!("{by_ns:+020}").as_bytes(), 0).unwrap();
}

/// Rows that the flight recorder drops, by its message about a step.
fn dropped(said: &str, step: &str) -> Option<u64> {
    let mut of_step = said.lines().filter_map(|line| line.split_once(step));
    let (_, cost) = of_step.find_map(|(_, rest)| rest.split_once("the flight recorder drops "))?;
    cost.split(' ').next()?.replace(',', "").parse().ok()
}

/// Forwards by an hour, then back by two, with traffic before, between and after.
#[test]
#[expect(clippy::too_many_lines, reason = "one run with all its consumers")]
fn an_agent_whose_clock_is_set_counts_on_and_says_what_it_drops() {
    needs_root!();
    let (world, mut link) = world();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let listener = world.near.run(|| TcpListener::bind(COLLECTOR)).unwrap().unwrap();
    let arrived = collector(listener);
    let clock = File::create(at("clock")).unwrap();
    set(&clock, 0);
    let (unix, recording, dump_dir) = (format!("unix:{}", at("agent.sock")), at("recording"), at("dumps"));
    let (path, url) = (at("clock"), format!("http://{COLLECTOR}"));
    let arguments = [
        &["agent", "-i", "near0", "--interval", "200ms", "--listen", METRICS, "--listen", &unix][..],
        &["--record", &recording, "--keep", "10m", "--post", "0s", "--dump-dir", &dump_dir, "--otlp", &url],
    ]
    .concat();
    let variables = [("ROCESCOPE_TEST_CLOCK", path.as_str())];
    let start = Start { netns: Some(&world.near), variables: &variables, ..Start::default() };
    let agent = Program::watching(start, &arguments).unwrap();
    until_ready(&world);
    let mut sent = 0;
    let mut traffic = || {
        let psn = u32::try_from(sent / 3).unwrap();
        let frames: Vec<_> =
            (psn..psn + 10).flat_map(|psn| (0..3).map(move |qp| frames::send(0x100 + qp, psn))).collect();
        link.receive(&frames).unwrap();
        sent += EACH;
        let counted =
            format!("rocescope_link_packets_total{{link=\"near0\",direction=\"ingress\"}} {sent}\n");
        until("the metrics", || {
            get(&world.near, METRICS, "/metrics", "").ok().filter(|answer| answer.body.contains(&counted))
        });
    };
    let mut drops = 0;
    traffic();
    let steps = [
        (AHEAD, "the clock stepped forwards by 1 h 0 min: "),
        (BEHIND, "the clock stepped back by 2 h 0 min: "),
    ];
    for (by_ns, step) in steps {
        set(&clock, by_ns);
        let recorded = format!("{step}rows have the new time from now on");
        agent.wait_for_message(|said| said.contains(&recorded).then_some(())).unwrap();
        drops += agent.wait_for_message(|said| dropped(said, step)).unwrap();
        traffic();
    }
    let restarted = "the clock stepped back by 2 h 0 min: OTLP counters start anew";
    agent.wait_for_message(|said| said.contains(restarted).then_some(())).unwrap();
    let socket = UnixStream::connect(at("agent.sock")).unwrap();
    assert_eq!(ask(socket, "POST /dump HTTP/1.0\r\n\r\n").unwrap().status, 202);
    let dump = until("a dump", || dumps(dump_dir.as_ref()).into_iter().next());
    let ended = agent.interrupt().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);

    // The dump has the traffic since the last step, and the number of the rows that it lacks.
    let (why, report) = (json(dump.join("why.json")), json(dump.join("report.json")));
    assert!(drops > 0);
    assert_eq!(why["lost"]["rows"], drops, "{}", ended.err);
    assert_eq!(flow_rows(&dump).unwrap().iter().map(|row| row.packets).sum::<u64>(), EACH);
    assert_eq!(report["totals"]["roce_packets"], sent);
    let found: Vec<&Value> = report["findings"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(found, Vec::<&Value>::new(), "a step is no silence and no loss");
    // The recording has all of it, by an interval that no step makes longer, and the size of the steps.
    let flows = flow_rows(recording.as_ref()).unwrap();
    assert_eq!(flows.iter().map(|row| row.packets).sum::<u64>(), sent, "{}", ended.err);
    assert!(flows.iter().all(|row| row.interval_ns < 30 * SECOND.unsigned_abs()), "{flows:?}");
    let mut jumps: Vec<(u64, i64)> = rows::<Host>(recording.as_ref())
        .unwrap()
        .iter()
        .filter(|row| row.clock_jump_ns != 0)
        .map(|row| (row.t.0, row.clock_jump_ns))
        .collect();
    jumps.sort_unstable();
    let near = |jump: i64, by_ns: i64| jump.abs_diff(by_ns) < SECOND.unsigned_abs();
    assert!(jumps.len() == 2 && near(jumps[0].1, BEHIND - AHEAD) && near(jumps[1].1, AHEAD), "{jumps:?}");
    // So has the collector, with no point that starts after its own time.
    let metrics = arrived.try_iter().filter(|(path, _)| path == "/v1/metrics");
    let link = ("near0".to_owned(), "ingress".to_owned());
    let counts: Vec<f64> = metrics
        .filter_map(|(_, body)| by_link(&body, "rocescope.link.packets", None).get(&link).copied())
        .collect();
    assert!(counts.is_sorted() && counts.last() == Some(&(sent as f64)), "{counts:?}");
}
