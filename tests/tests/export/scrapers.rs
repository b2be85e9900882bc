//! Other consumers of the exposition: VictoriaMetrics, and node_exporter's textfile collector.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use rocescope::host::net::netns::NetNs;
use rocescope_tests::killed::Killed;
use rocescope_tests::live::program::Program;
use rocescope_tests::live::root_or_skip;
use rocescope_tests::packages::program_or_skip;
use serde_json::Value;

use super::{METRICS, exporting, get, sums, traffic, until, world};

const VICTORIA: &str = "127.0.0.1:8428";
const NODE: &str = "127.0.0.1:9100";

/// A third-party server, killed when dropped.
struct Server {
    _child: Killed,
    /// Its data folder.
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts it with the arguments that `arguments` derives from its folder.
    fn start(netns: &NetNs, program: &Path, arguments: impl Fn(&Path) -> Vec<String>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        command.args(arguments(folder.path())).current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { _child: Killed(netns.run(|| command.spawn()).unwrap().unwrap()), folder }
    }
}

#[test]
fn victoria_metrics_has_the_figures_of_the_report() {
    const TEST: &str = "victoria_metrics_has_the_figures_of_the_report";
    if !root_or_skip(TEST) {
        return;
    }
    let Some(program) = program_or_skip(TEST, "victoria-metrics", "victoria-metrics") else { return };
    let (world, mut link) = world();
    let export = exporting(&world, &[]);
    let live = Program::live(&world.near, &["-i", "near0", "--output", "json"]).unwrap();
    let _server = Server::start(&world.near, &program, |folder| {
        let config = format!(
            "global: {{scrape_interval: 1s}}\n\
             scrape_configs: [{{job_name: rocescope, static_configs: [{{targets: ['{METRICS}']}}]}}]\n"
        );
        let file = folder.join("scrape.yml");
        std::fs::write(&file, config).unwrap();
        vec![
            format!("-storageDataPath={}", folder.join("data").display()),
            format!("-httpListenAddr={VICTORIA}"),
            format!("-promscrape.config={}", file.display()),
            // Queries include what was just scraped.
            "-search.latencyOffset=0s".to_owned(),
            "-memory.allowedBytes=64MiB".to_owned(),
        ]
    });
    let frames = traffic();
    link.receive(&frames).unwrap();
    link.transmit(&frames).unwrap();
    let report = live.interrupt().unwrap().report().unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    for (metric, expected) in [
        ("rocescope_link_packets_total", sums(&report, |flow| number(&flow["packets"]))),
        ("rocescope_link_bytes_total", sums(&report, |flow| number(&flow["bytes"]))),
        ("rocescope_link_ce_marked_packets_total", sums(&report, |flow| number(&flow["ecn"]["ce"]))),
    ] {
        until(metric, || {
            let answer = get(&world.near, VICTORIA, &format!("/api/v1/query?query={metric}&nocache=1"), "");
            let json: Value = serde_json::from_str(&answer.ok()?.body).ok()?;
            let rows = json["data"]["result"].as_array()?.iter().map(|row| {
                let label = |name: &str| row["metric"][name].as_str().unwrap_or_default().to_owned();
                (
                    (label("link"), label("direction")),
                    row["value"][1].as_str().unwrap().parse::<f64>().unwrap(),
                )
            });
            (rows.collect::<BTreeMap<_, _>>() == expected).then_some(())
        });
    }
    assert_eq!(export.interrupt().unwrap().status.code(), Some(0));
}

#[test]
fn node_exporter_takes_the_text_file_as_it_is() {
    const TEST: &str = "node_exporter_takes_the_text_file_as_it_is";
    if !root_or_skip(TEST) {
        return;
    }
    let package = "prometheus-node-exporter";
    let Some(program) = program_or_skip(TEST, package, package) else { return };
    let (world, mut link) = world();
    let server = Server::start(&world.near, &program, |folder| {
        let mut all: Vec<String> =
            ["--collector.disable-defaults", "--collector.textfile"].map(str::to_owned).to_vec();
        all.push(format!("--collector.textfile.directory={}", folder.display()));
        all.push(format!("--web.listen-address={NODE}"));
        all
    });
    let file = server.folder.path().join("rocescope.prom");
    let export = exporting(&world, &["--textfile", file.to_str().unwrap()]);
    let frames = traffic();
    link.receive(&frames).unwrap();
    let counted =
        format!("rocescope_link_packets_total{{link=\"near0\",direction=\"ingress\"}} {}\n", frames.len());
    // The same values of all metrics, some of which change with each sample; the collector sorts labels by name.
    let series = |text: &str| -> BTreeMap<String, f64> {
        let lines = text.lines().filter(|line| line.starts_with("rocescope_"));
        let point = |line: &str| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            let mut labels: Vec<&str> = labels.trim_end_matches('}').split("\",").collect();
            labels.sort_unstable();
            // It writes bounds below 0.0001 with an exponent.
            let labels =
                labels.into_iter().map(|label| match label.trim_end_matches('"').split_once("le=\"") {
                    Some(("", bound)) => format!("le={:e}", bound.parse::<f64>().unwrap()),
                    _ => label.trim_end_matches('"').to_owned(),
                });
            (format!("{name} {}", labels.collect::<Vec<_>>().join(",")), value.parse().unwrap())
        };
        lines.map(point).collect()
    };
    until("the text file at node_exporter", || {
        let before = std::fs::read_to_string(&file).ok().filter(|text| text.contains(&counted))?;
        let answer = get(&world.near, NODE, "/metrics", "").ok().filter(|answer| answer.status == 200)?;
        let unchanged = std::fs::read_to_string(&file).ok()? == before;
        let failed = !answer.body.contains("\nnode_textfile_scrape_error 0\n");
        assert!(!failed, "{}", answer.body);
        // Only between two replacements of the file.
        unchanged.then(|| assert_eq!(series(&answer.body), series(&before)))
    });
    assert_eq!(export.interrupt().unwrap().status.code(), Some(0));
}
