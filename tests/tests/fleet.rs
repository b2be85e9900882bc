//! `rocescope fleet` on real engines: recordings of a simulated fleet with known faults. Each question must name the
//! culprit first, and none if there is no fault.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use rocescope_tests::fleet::ask::{ask, engines, of_captures};
use rocescope_tests::fleet::{FAULTS, Fault, Fleet};
use rocescope_tests::needs::there_or_skip;
use rocescope_tests::oracle::binary;
use rocescope_tests::packages::{ClickHouse, click_house_or_skip, duck_db_or_skip, program_or_skip};
use serde_json::Value;

/// Arguments with which the engines read a script and write JSON.
const DUCK_DB: [&str; 5] = ["-init", "/dev/null", "-batch", "-bail", "-json"];
const CLICK_HOUSE: [&str; 3] = ["local", "--output-format", "JSONEachRow"];

const QUESTIONS: [&str; 6] = ["slow", "loss", "balance", "jobs", "stragglers", "timeline"];

/// The recording, written once for all tests.
fn recording() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let written = Fleet::SMALL.write(folder.path()).unwrap();
        // 60 hosts, 8 ports, 2 directions, 2 peers, 16 seconds of each fault.
        assert_eq!(written.flow_rows, 60 * 8 * 2 * 2 * 16 * FAULTS.len() as u64);
        folder
    });
    folder.path()
}

/// The faults about which a question is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    /// All that it names, and the healthy time.
    All,
    /// The first that it names.
    First,
}

/// Asks every question in the time ranges of these faults, and the timeline in all; returns the rows by question and
/// fault.
fn names_the_culprits(source: &str, engine: Option<&Path>, about: About) -> BTreeMap<String, Value> {
    let program = binary::path().unwrap();
    let fleet = Fleet::SMALL;
    let mut answers = BTreeMap::new();
    for question in QUESTIONS {
        let named = FAULTS.into_iter().find(|fault| fleet.culprit(question, *fault).is_some());
        for fault in FAULTS.into_iter().filter(|fault| about == About::All || named == Some(*fault)) {
            let culprit = fleet.culprit(question, fault);
            // A fault may also show in questions about other faults, but healthy traffic must show none.
            if culprit.is_none() && !Fleet::is_quiet(question, fault) {
                continue;
            }
            let answer = ask(&program, question, source, engine, Some(fleet.range(fault))).unwrap();
            let headline = answer["headline"].as_str().unwrap();
            match culprit {
                Some(culprit) => {
                    assert!(
                        headline.starts_with(&culprit),
                        "{question} {fault:?}: {headline}, not {culprit}"
                    );
                    let sure = fleet.confidence(question, fault);
                    assert!(headline.ends_with(&format!("Confidence: {sure}")), "{headline}, not {sure}");
                }
                None => assert!(headline.starts_with("No "), "{question} {fault:?}: {headline}"),
            }
            assert!(answer["scope"].as_str().unwrap().starts_with("60 hosts, 3 jobs, "), "{answer}");
            if (question, fault) == ("stragglers", Fault::Straggler) {
                // Neither the straggler's own record nor a host that is known to be downstream of it names another.
                assert_eq!(answer["rows"].as_array().unwrap().len(), 1, "{answer}");
            }
            for (column, figure) in fleet.figures(question, fault) {
                let found = answer["rows"][0][column].as_f64().unwrap();
                assert!((found - figure).abs() < 1e-6 * figure, "{question} {fault:?} {column}: {found}");
            }
            answers.insert(format!("{question} {fault:?}"), answer["rows"].clone());
        }
    }
    let timeline = ask(&program, "timeline", source, engine, None).unwrap();
    let headline = timeline["headline"].as_str().unwrap();
    assert!(fleet.is_of_worst_slot(headline), "{headline}");
    let at: Vec<_> =
        timeline["rows"].as_array().unwrap().iter().map(|row| row["unix_s"].as_f64().unwrap()).collect();
    assert!(at.len() > 50 && at.is_sorted(), "{at:?}");
    answers.insert("timeline".to_owned(), timeline["rows"].clone());
    answers
}

/// Those of DuckDB, asked once for all tests.
fn of_duck_db(engine: &Path) -> &'static BTreeMap<String, Value> {
    static ANSWERS: OnceLock<BTreeMap<String, Value>> = OnceLock::new();
    ANSWERS.get_or_init(|| names_the_culprits(recording().to_str().unwrap(), Some(engine), About::All))
}

/// Compares the figures of both engines; floating-point sums in another order may differ slightly, and an engine writes
/// some numbers as text.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same(a, b))
        }
        (Value::Object(one), Value::Object(other)) => one.iter().all(|(key, value)| same(value, &other[key])),
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            (one - other).abs() <= 1e-6 * one.abs().max(other.abs())
        }
        (Value::Number(_), Value::String(text)) => {
            serde_json::from_str(text).is_ok_and(|other: Value| other.is_number() && same(one, &other))
        }
        (Value::String(_), Value::Number(_)) => same(other, one),
        _ => one == other,
    }
}

#[test]
fn duck_db_names_every_culprit_first() {
    let Some(engine) = duck_db_or_skip("duck_db_names_every_culprit_first") else { return };
    assert!(!of_duck_db(&engine).is_empty());
}

/// Of a host that is not recorded, only the senders have taps, before the losses.
#[test]
fn senders_name_a_port_by_retransmissions_where_no_tap_sees_the_losses() {
    let (host, culprit) = Fleet::SMALL.unrecorded_loser();
    let folder = tempfile::tempdir().unwrap();
    for table in ["flow_seconds", "link_seconds"] {
        let hours = Path::new("v1").join(table).join("date=2025-11-22/hour=08");
        for of_host in std::fs::read_dir(recording().join(&hours)).unwrap() {
            let of_host = of_host.unwrap();
            if of_host.file_name().to_str() == Some(&format!("host={host}")) {
                continue;
            }
            let own = folder.path().join(&hours).join(of_host.file_name());
            std::fs::create_dir_all(&own).unwrap();
            for file in std::fs::read_dir(of_host.path()).unwrap() {
                let file = file.unwrap();
                std::fs::hard_link(file.path(), own.join(file.file_name())).unwrap();
            }
        }
    }
    let range = Fleet::SMALL.range(Fault::LossyPort);
    for engine in engines("senders_name_a_port_by_retransmissions_where_no_tap_sees_the_losses") {
        let source = folder.path().to_str().unwrap();
        let answer = ask(&binary::path().unwrap(), "loss", source, Some(&engine), Some(range)).unwrap();
        let headline = answer["headline"].as_str().unwrap();
        assert!(headline.starts_with(&culprit), "{headline}, not {culprit}");
        assert!(
            headline.contains(" packets retransmitted (0.99 %), losses not known, in 2 of 2 pairs"),
            "{headline}"
        );
    }
}

/// As a bucket is mounted by s3fs, mountpoint-s3 or a CSI driver: elsewhere, and read-only.
#[test]
fn a_recording_mounted_read_only_elsewhere_gives_the_same_answers() {
    const TEST: &str = "a_recording_mounted_read_only_elsewhere_gives_the_same_answers";
    const NAMESPACE: [&str; 3] = ["--user", "--map-root-user", "--mount"];
    // Ends with 9 where the mount can be written.
    const SCRIPT: &str = "mount --bind -o ro \"$1\" \"$2\" || exit 8; touch \"$2/v1/x\" 2>/dev/null && exit 9; shift 2; exec \"$@\"";
    let can = Command::new("unshare").args(NAMESPACE).arg("true").output();
    let can = can.is_ok_and(|output| output.status.success());
    if !there_or_skip(TEST, can, "unshare with user namespaces") {
        return;
    }
    let folder = of_captures(&[("node0", &["e1_loss1.h0.pcap.gz"]), ("node1", &["e1_loss1.h1.pcap.gz"])]);
    let elsewhere = tempfile::tempdir().unwrap();
    let mount = elsewhere.path().join("bucket");
    std::fs::create_dir(&mount).unwrap();
    let through = |arguments: &[&std::ffi::OsStr]| -> Value {
        let mut command = Command::new("unshare");
        command.args(NAMESPACE).args(["sh", "-c", SCRIPT, "sh"]).arg(folder.path()).arg(&mount);
        let output = command.arg(binary::path().unwrap()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let json = ["--output", "json"].map(std::ffi::OsStr::new);
    let directly = |host: &str| -> Value {
        let mut command = Command::new(binary::path().unwrap());
        let output =
            command.arg("replay").arg(folder.path()).args(["--host", host]).args(json).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let host = ["replay".as_ref(), mount.as_os_str(), "--host".as_ref(), "node1".as_ref()];
    let (mounted, direct) = (through(&[&host[..], &json].concat()), directly("node1"));
    assert!(mounted["totals"]["roce_packets"].as_u64() > Some(9_000), "{}", mounted["totals"]);
    for part in ["totals", "flows", "findings", "window"] {
        assert_eq!(mounted[part], direct[part], "{part}");
    }
    let Some(engine) = duck_db_or_skip(TEST) else { return };
    // Root of the namespace may not pass the home directory of another user, where the engine may be.
    let copy = elsewhere.path().join(engine.file_name().unwrap());
    std::fs::copy(&engine, &copy).unwrap();
    let engine = copy;
    for question in ["loss", "jobs"] {
        let asked =
            ["fleet".as_ref(), question.as_ref(), mount.as_os_str(), "--engine".as_ref(), engine.as_os_str()];
        let mounted = through(&[&asked[..], &json].concat());
        let direct =
            ask(&binary::path().unwrap(), question, folder.path().to_str().unwrap(), Some(&engine), None);
        let direct = direct.unwrap();
        assert!(mounted["rows"].as_array().is_some_and(|rows| !rows.is_empty()), "{question}: {mounted}");
        assert_eq!(mounted["headline"], direct["headline"], "{question}");
        assert!(same(&mounted["rows"], &direct["rows"]), "{question}: {mounted} {direct}");
    }
}

/// An engine reads for minutes: it ends with the one who asked.
#[test]
fn a_signal_ends_the_question_and_its_engine() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (engine, id) = (folder.path().join("duckdb"), folder.path().join("id"));
    let script = format!(
        "#!/bin/sh\ncat >/dev/null; echo $$ >{0}.new; mv {0}.new {0}; exec sleep 600\n",
        id.display()
    );
    std::fs::write(&engine, script).unwrap();
    std::fs::set_permissions(&engine, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir_all(folder.path().join("v1/steps")).unwrap();
    std::fs::write(folder.path().join("v1/steps/part.parquet"), "").unwrap();
    let mut command = Command::new(binary::path().unwrap());
    command.args(["fleet", "slow"]).arg(folder.path()).arg("--engine").arg(&engine);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let id = loop {
        match std::fs::read_to_string(&id) {
            Ok(id) => break id.trim().to_owned(),
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
        }
    };
    assert!(Path::new("/proc").join(&id).exists());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    // Long before the engine would have ended by itself, and not by the signal.
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("stopped by a signal"), "{said}");
    assert!(!Path::new("/proc").join(&id).exists(), "the engine ended too");
}

#[test]
fn click_house_gives_the_same_answers_from_files_and_as_a_server() {
    const NAME: &str = "click_house_gives_the_same_answers_from_files_and_as_a_server";
    let Some(engine) = click_house_or_skip(NAME) else { return };
    let server = ClickHouse::start(&engine, recording(), &[]).unwrap();
    let url = format!("http://127.0.0.1:{}", server.port);
    let all = names_the_culprits(&url, None, About::All);
    // The same SQL: files take the place of its tables, and an engine is started for each.
    let of_files = names_the_culprits(recording().to_str().unwrap(), Some(&engine), About::First);
    assert!(of_files.len() >= QUESTIONS.len(), "{:?}", of_files.keys());
    let of_duck_db = duck_db_or_skip(NAME).map(|duck| of_duck_db(&duck));
    for (name, rows) in of_files.iter().chain(of_duck_db.into_iter().flatten()) {
        assert!(same(rows, &all[name]), "{name}\n{rows}\n{}", all[name]);
    }
    assert!(of_duck_db.is_none_or(|of_duck_db| of_duck_db.len() == all.len()));
    let wrong = ask(&binary::path().unwrap(), "jobs", &format!("{url}/nowhere:1"), None, None).unwrap_err();
    assert!(wrong.to_string().contains("expected http[s]://"), "{wrong}");
}

#[test]
fn click_house_is_asked_over_tls() {
    let Some(engine) = click_house_or_skip("click_house_is_asked_over_tls") else { return };
    let tls = |name: &str| format!("{}/data/export/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    // Python's TLS server, with a certificate made by OpenSSL.
    let certificate = [tls("server.pem"), tls("server.key")];
    let server =
        ClickHouse::start(&engine, recording(), &certificate.each_ref().map(String::as_str)).unwrap();
    let url = format!("https://127.0.0.1:{}", server.port);
    let ask = |authority: &str| {
        let mut program = Command::new(binary::path().unwrap());
        program.args(["fleet", "jobs", &url, "--output", "json"]).env("SSL_CERT_FILE", authority);
        program.output().unwrap()
    };
    let answer = ask(&tls("authority.pem"));
    assert!(answer.status.success(), "{answer:?}");
    let rows: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert!(rows["rows"].as_array().is_some_and(|rows| !rows.is_empty()), "{rows}");
    let refused = ask(&tls("server.pem"));
    assert_eq!(refused.status.code(), Some(1));
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(
        error.contains("no authority that is trusted here") && error.contains("SSL_CERT_FILE"),
        "{error}"
    );
}

#[test]
fn counters_of_devices_name_the_culprit_where_no_packet_is_seen() {
    let Some(engine) = duck_db_or_skip("counters_of_devices_name_the_culprit_where_no_packet_is_seen") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("v1")).unwrap();
    std::os::unix::fs::symlink(
        recording().join("v1/device_seconds"),
        folder.path().join("v1/device_seconds"),
    )
    .unwrap();
    let (program, fleet) = (binary::path().unwrap(), Fleet::SMALL);
    for fault in FAULTS {
        let Some((question, culprit)) = fleet.culprit_by_devices(fault) else { continue };
        let source = folder.path().to_str().unwrap();
        let answer = ask(&program, question, source, Some(&engine), Some(fleet.range(fault))).unwrap();
        let headline = answer["headline"].as_str().unwrap();
        assert!(
            headline.starts_with(&culprit) && headline.ends_with("Confidence: high"),
            "{headline}, not {culprit}"
        );
    }
}

/// Without packets, contexts of queue pairs lead to the path, counters of devices to uneven load.
#[test]
fn queue_pairs_name_the_culprit_where_nics_process_roce() {
    let engines = engines("queue_pairs_name_the_culprit_where_nics_process_roce");
    let (program, fleet) = (binary::path().unwrap(), Fleet::SMALL);
    let folder = tempfile::tempdir().unwrap();
    fleet.write_offloaded(folder.path()).unwrap();
    let source = folder.path().to_str().unwrap();
    let (mut asked, mut wrong) = (0, Vec::new());
    for fault in FAULTS {
        for (question, culprit) in fleet.culprit_offloaded(fault) {
            let answers: Vec<Value> = engines
                .iter()
                .map(|engine| {
                    ask(&program, question, source, Some(engine), Some(fleet.range(fault))).unwrap()
                })
                .collect();
            for answer in &answers {
                let headline = answer["headline"].as_str().unwrap();
                if !headline.starts_with(&culprit) {
                    wrong.push(format!("{question} {fault:?}: {headline}, not {culprit}"));
                }
                assert!(answer["scope"].as_str().unwrap().starts_with("60 hosts, 3 jobs, "), "{answer}");
                assert!(same(&answers[0]["rows"], &answer["rows"]), "{question} {fault:?}: {answers:#?}");
            }
            asked += answers.len();
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(asked, engines.len() * 15);
    for engine in &engines {
        // Who waits for whom within a step is not known of them.
        let error = ask(&program, "stragglers", source, Some(engine), None).unwrap_err().to_string();
        assert!(
            error.contains("no packet was seen") && error.contains("`stragglers` needs packets"),
            "{error}"
        );
    }
}

/// The SQL printed for every engine, or for one by its name: printing does not need the program. It is about the first
/// fault that the question names, or about all, and has its times as a text without a zone.
fn printed(question: &str, source: &str, engine: Option<&str>) -> String {
    let fleet = Fleet::SMALL;
    let all = (fleet.range(FAULTS[0]).0, fleet.range(FAULTS[FAULTS.len() - 1]).1);
    let fault = FAULTS.into_iter().find(|fault| fleet.culprit(question, *fault).is_some());
    let (from, to) = fault.map_or(all, |fault| fleet.range(fault));
    let mut program = Command::new(binary::path().unwrap());
    program.args(["fleet", question, source, "--print-sql"]);
    program.args(["--from", &from.to_string(), "--to", &to.to_string()]);
    if let Some(engine) = engine {
        program.args(["--engine", engine]);
    }
    let printed = program.output().unwrap();
    assert!(printed.status.success() && printed.stderr.is_empty(), "{printed:?}");
    String::from_utf8(printed.stdout).unwrap()
}

/// The definitions of the tables that printed SQL has in comments for an engine.
fn definitions(printed: &str, engine: &str) -> String {
    let lines = printed.lines().skip_while(|line| *line != format!("-- {engine}:")).skip(1);
    let lines = lines.map_while(|line| line.strip_prefix("-- create view "));
    lines.flat_map(|line| ["create view ", line, "\n"]).collect()
}

#[test]
fn printed_sql_runs_as_it_is() {
    const TEST: &str = "printed_sql_runs_as_it_is";
    let duck_db = duck_db_or_skip(TEST).map(|engine| (engine, "DuckDB", "duckdb", &DUCK_DB[..]));
    let click_house =
        click_house_or_skip(TEST).map(|engine| (engine, "ClickHouse", "clickhouse", &CLICK_HOUSE[..]));
    let source = recording().to_str().unwrap();
    for question in QUESTIONS {
        let text = printed(question, source, None);
        let mut answers: Vec<Value> = Vec::new();
        for (engine, title, name, arguments) in duck_db.iter().chain(&click_house) {
            let ask = |script: &str| {
                let output = piped(engine, arguments, script.as_bytes());
                assert!(output.status.success() && output.stderr.is_empty(), "{question}: {output:?}");
                let values = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
                let rows = values.flat_map(|value| match value.unwrap() {
                    Value::Array(rows) => rows,
                    row => vec![row],
                });
                Value::Array(rows.collect())
            };
            let tables = definitions(&text, title);
            assert!(tables.lines().count() > 1, "{text}");
            // All of one text, on either engine, once it has the tables; and all of the text for that engine.
            let rows = ask(&(tables + &text));
            assert!(rows.as_array().is_some_and(|rows| !rows.is_empty()), "{question} on {title}");
            let own = ask(&printed(question, source, Some(name)));
            assert!(same(&rows, &own), "{question} on {title}:\n{rows}\n{own}");
            answers.push(rows);
        }
        for pair in answers.windows(2) {
            assert!(same(&pair[0], &pair[1]), "{question}:\n{}\n{}", pair[0], pair[1]);
        }
        // A server has the tables: the same without their definitions.
        let of_server = printed(question, "http://127.0.0.1:9", None);
        assert!(of_server.starts_with("set time zone 'UTC';\n") && text.ends_with(&of_server), "{of_server}");
    }
}

#[test]
fn what_is_missing_is_named_with_its_remedy() {
    let program = binary::path().unwrap();
    let run = |arguments: &[&str], path: &str| {
        let output = Command::new(&program).arg("fleet").args(arguments).env("PATH", path).output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let source = recording().to_str().unwrap();
    let error = run(&["slow", source], "/nowhere");
    assert!(error.contains("install DuckDB") && error.contains("--print-sql"), "{error}");
    let error = run(&["slow", "/nowhere/at/all"], "/nowhere");
    assert!(error.contains("no recording in /nowhere/at/all"), "{error}");
    // A host of another version of the tables is named, also where nothing is asked yet.
    let dir = tempfile::tempdir().unwrap();
    for folder in ["a/v1/steps", "b/v2/steps"] {
        std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        std::fs::write(dir.path().join(folder).join("part.parquet"), "").unwrap();
    }
    let all = format!("{}/*", dir.path().display());
    let printed = Command::new(&program).args(["fleet", "slow", &all, "--print-sql"]).output().unwrap();
    let said = String::from_utf8(printed.stderr).unwrap();
    let other = format!("left out of the answer: {}/b/v2: tables of another version", dir.path().display());
    assert!(printed.status.success() && said.contains(&other), "{said}");
    let error = run(&["slow", "http://127.0.0.1:9/db"], "/nowhere");
    assert!(error.contains("ClickHouse at http://127.0.0.1:9/db"), "{error}");
    if let Some(engine) = duck_db_or_skip("what_is_missing_is_named_with_its_remedy") {
        let engine = engine.to_str().unwrap();
        let error = run(&["slow", source, "--engine", engine, "--job", "other"], "/nowhere");
        assert!(error.contains("nothing was recorded"), "{error}");
    }
}

/// Runs an engine with a script on standard input.
fn piped(engine: &Path, arguments: &[&str], script: &[u8]) -> Output {
    let mut command = Command::new(engine);
    // Where the host is, its zone must not change what a question means.
    command.env("TZ", "America/New_York");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(script).unwrap();
    child.wait_with_output().unwrap()
}

fn dashboard(name: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/dashboards").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The queries of a dashboard in this field of its targets, each with the title of its panel, and those of its
/// variables.
fn queries(dashboard: &Value, field: &str) -> Vec<(String, String)> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let of_panel = |panel: &Value| {
        let title = panel["title"].as_str().unwrap().to_owned();
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(|target| (title.clone(), target[field].as_str().unwrap().to_owned())).collect::<Vec<_>>()
    };
    let panels = panels.flat_map(of_panel);
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    let variables = variables.filter_map(|variable| {
        Some((variable["name"].as_str()?.to_owned(), variable["query"].as_str()?.to_owned()))
    });
    panels.chain(variables.filter(|(name, _)| name != "datasource")).collect()
}

#[test]
fn prometheus_parses_every_query_of_its_dashboard_and_knows_its_metrics() {
    let dashboard = dashboard("prometheus.json");
    let queries = queries(&dashboard, "expr");
    assert!(queries.len() > 10);
    let known: Vec<String> = (rocescope::export::registry::REGISTRY.iter())
        .map(rocescope::export::registry::Metric::sample_name)
        .collect();
    let mut rules = "groups:\n  - name: dashboard\n    rules:\n".to_owned();
    for (title, query) in &queries {
        let query = query
            .strip_prefix("label_values(")
            .map_or(query.as_str(), |rest| rest.rsplit_once(',').unwrap().0);
        let query =
            query.replace("$__rate_interval", "5m").replace("$__range", "1h").replace("$instance", ".*");
        assert!(!query.contains('$'), "{title}: {query}");
        for name in query
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .filter(|word| word.starts_with("rocescope_"))
        {
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix))
                .unwrap_or(name);
            assert!(
                known.iter().any(|metric| metric == name || metric == base),
                "{title}: {name} is no metric"
            );
        }
        let query = serde_json::to_string(&query).unwrap();
        rules.extend(["      - record: dashboard:query\n        expr: ", &query, "\n"]);
    }
    let Some(promtool) = program_or_skip(
        "prometheus_parses_every_query_of_its_dashboard_and_knows_its_metrics",
        "prometheus",
        "promtool",
    ) else {
        return;
    };
    let file = tempfile::NamedTempFile::with_suffix(".yml").unwrap();
    std::fs::write(file.path(), rules).unwrap();
    let output = Command::new(promtool).args(["check", "rules"]).arg(file.path()).output().unwrap();
    // Several rules with one name are only a warning.
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn engines_run_every_query_of_the_dashboard_of_click_house() {
    const NAME: &str = "engines_run_every_query_of_the_dashboard_of_click_house";
    let dashboard = dashboard("clickhouse.json");
    let queries = queries(&dashboard, "rawSql");
    assert!(queries.len() > 8);
    let (from, _) = Fleet::SMALL.range(Fault::Healthy);
    let offloaded = tempfile::tempdir().unwrap();
    Fleet::SMALL.write_offloaded(offloaded.path()).unwrap();
    let duck = duck_db_or_skip(NAME).map(|engine| (engine, "timestamptz", &DUCK_DB[..]));
    let click = click_house_or_skip(NAME).map(|engine| (engine, "DateTime", &CLICK_HOUSE[..]));
    for (engine, time, arguments) in duck.into_iter().chain(click) {
        let is_duck = time == "timestamptz";
        let read = |table: &str| {
            let is_seen = ["flow_seconds", "link_seconds", "steps"].contains(&table);
            let root = if is_seen { recording() } else { offloaded.path() };
            let files = format!("{}/v1/{table}/**/*.parquet", root.display());
            if is_duck {
                format!("read_parquet('{files}', hive_partitioning = false)")
            } else {
                format!("file('{files}', Parquet)")
            }
        };
        let views = ["flow_seconds", "link_seconds", "qp_seconds", "qp_lives", "events", "findings", "steps"]
            .map(|table| format!("create view {table} as select * from {};\n", read(table)));
        // Values that the data source inserts for its macros. Queue pairs die in the time range of a later fault.
        let (start, end) = (from + 1, Fleet::SMALL.range(Fault::Stalls).1);
        let second = |seconds: u64| {
            if is_duck { format!("to_timestamp({seconds})") } else { format!("toDateTime({seconds}, 'UTC')") }
        };
        let filter = format!("t >= {} and t <= {}", second(start), second(end));
        let interval = if is_duck {
            "time_bucket(interval '10 seconds', t)"
        } else {
            "toStartOfInterval(t, INTERVAL 10 second)"
        };
        for (title, query) in &queries {
            // That of the host whose queue pairs die, where its table has no other.
            let is_of_death =
                ["from qp_lives", "from events", "from findings"].iter().any(|from| query.contains(from));
            let job = if is_of_death { "train-2" } else { "train-1" };
            let sql = query
                .replace("$__timeFilter(t)", &filter)
                .replace("$__timeInterval(t)", interval)
                .replace("$__interval_s", "10")
                .replace("${job:sqlstring}", &format!("'{job}'"));
            assert!(!sql.contains("$__") && !sql.contains(';'), "{title}: {sql}");
            let output = piped(&engine, arguments, format!("{}{sql};\n", views.concat()).as_bytes());
            assert!(output.status.success() && output.stderr.is_empty(), "{title}: {output:?}\n{sql}");
            assert!(output.stdout.len() > 10, "{title} has no row: {sql}");
            // Queue pairs that died before the range are destroyed in it.
            if query.contains("end_kind = 'error'") {
                let sql = sql.replace(&second(start), &second(Fleet::SMALL.second_after_deaths()));
                let output = piped(&engine, arguments, format!("{}{sql};\n", views.concat()).as_bytes());
                assert!(output.status.success() && output.stderr.is_empty(), "{title}: {output:?}\n{sql}");
                assert!(output.stdout.len() < 10, "{title}: {output:?}");
            }
        }
    }
}
