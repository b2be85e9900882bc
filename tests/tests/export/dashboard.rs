//! Runs each query of the dashboard on a real Prometheus.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use rocescope_tests::live::program::{Program, Start};
use rocescope_tests::live::root_or_skip;
use rocescope_tests::packages::program_or_skip;
use serde_json::Value;

use super::{METRICS, PACKAGE, PROMETHEUS, Prometheus, data, get, traffic, until, world};

/// Address of the published example, which contains every metric, including those of devices, which virtual links
/// lack.
const EXAMPLE: &str = "127.0.0.1:14792";

/// Serves the example to any client, for the duration of the test.
fn serve(listener: TcpListener) {
    let body = std::fs::read(data("every.prom")).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4_096];
            let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
            let _ = stream.read(&mut request);
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(&[head.as_bytes(), &body].concat());
        }
    });
}

fn dashboard() -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/dashboards/prometheus.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The queries of the panels with their titles, over the last seconds and all instances.
fn queries(dashboard: &Value) -> Vec<(String, String)> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let all = panels.flat_map(|panel| {
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.filter_map(|target| {
            let query = target["expr"].as_str()?;
            let query = query.replace("$__rate_interval", "10s").replace("$__range", "10s");
            Some((panel["title"].as_str().unwrap().to_owned(), query.replace("$instance", ".*")))
        })
    });
    all.collect()
}

/// The variables that a query fills, by name, and where Grafana asks Prometheus for their values:
/// `label_values(METRIC, LABEL)` at the names of labels, `query_result(QUERY)` as a query.
fn variables(dashboard: &Value) -> Vec<(String, String)> {
    let all = dashboard["templating"]["list"].as_array().unwrap().iter();
    let asked = all.filter(|variable| variable["type"] == "query").map(|variable| {
        let query = variable["query"].as_str().unwrap();
        let inside = |function: &str| query.strip_prefix(function)?.strip_prefix('(')?.strip_suffix(')');
        let path = if let Some(inside) = inside("label_values") {
            let (metric, label) = inside.rsplit_once(',').unwrap();
            format!("/api/v1/label/{}/values?match[]={}", label.trim(), encoded(metric.trim()))
        } else {
            format!("/api/v1/query?query={}", encoded(inside("query_result").unwrap()))
        };
        (variable["name"].as_str().unwrap().to_owned(), path)
    });
    asked.collect()
}

fn encoded(query: &str) -> String {
    let mut text = String::new();
    for byte in query.bytes() {
        text.extend(["%", &format!("{byte:02X}")]);
    }
    text
}

#[test]
fn prometheus_answers_every_query_of_its_dashboard() {
    const TEST: &str = "prometheus_answers_every_query_of_its_dashboard";
    if !root_or_skip(TEST) {
        return;
    }
    let Some(program) = program_or_skip(TEST, PACKAGE, "prometheus") else { return };
    let (world, mut link) = world();
    let start = Start { netns: Some(&world.near), ..Start::default() };
    let arguments = ["export", "-i", "near0", "--interval", "200ms", "--listen", METRICS];
    let export = Program::watching(start, &arguments).unwrap();
    super::until_ready(&world);
    serve(world.near.run(|| TcpListener::bind(EXAMPLE)).unwrap().unwrap());
    let jobs = format!(
        "{{job_name: rocescope, static_configs: [{{targets: ['{METRICS}']}}]}}, \
         {{job_name: example, static_configs: [{{targets: ['{EXAMPLE}']}}]}}"
    );
    let _prometheus = Prometheus::scraping(&world.near, &program, "300ms", &jobs);
    let dashboard = dashboard();
    let variables = variables(&dashboard);
    assert_eq!(variables.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["instance"]);
    for (name, path) in &variables {
        let mut values = Value::Null;
        until(&format!("the values of {name}"), || {
            let answer = get(&world.near, PROMETHEUS, path, "").ok().filter(|answer| answer.status == 200)?;
            values = serde_json::from_str::<Value>(&answer.body).unwrap()["data"].take();
            (values == serde_json::json!([METRICS, EXAMPLE])).then_some(())
        });
    }
    let queries = queries(&dashboard);
    assert!(queries.len() > 20, "{queries:?}");
    let sent = traffic();
    for (title, query) in &queries {
        let path = format!("/api/v1/query?query={}", encoded(query));
        // Traffic continues, so that there are rates at all times.
        until(&format!("{title}: {query}"), || {
            link.receive(&sent).unwrap();
            let answer = get(&world.near, PROMETHEUS, &path, "").ok()?;
            if answer.status == 503 {
                return None;
            }
            assert_eq!(answer.status, 200, "{title}: {}", answer.body);
            let answer: Value = serde_json::from_str(&answer.body).unwrap();
            let result = answer["data"]["result"].as_array().unwrap();
            result.iter().any(|row| row["value"][1].is_string()).then_some(())
        });
    }
    assert_eq!(export.interrupt().unwrap().status.code(), Some(0));
}
