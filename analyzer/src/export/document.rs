//! Generates docs/exporter.md from the registry.

use std::fmt::Write as _;

use super::otlp::names;
use super::registry::{Metric, MetricKind, REGISTRY};
use crate::analysis::fixtures::document;

const HEAD: &str = "\
# Metrics for Prometheus and OpenTelemetry

<!-- Made from analyzer/src/export/registry.rs and document.rs: change these, then run
     ROCESCOPE_BLESS=1 cargo test -p rocescope exporter_page -->

`rocescope export` watches interfaces as `live` does, with the same options of the source, and serves their metrics:

```console
$ sudo rocescope export                                            # http://127.0.0.1:14791/metrics
$ sudo rocescope export -i eth2 --listen 10.0.0.5:14791            # for other hosts to scrape
$ sudo rocescope export --listen unix:/run/rocescope/metrics.sock
$ sudo rocescope export --textfile /var/lib/prometheus/node-exporter/rocescope.prom
$ sudo rocescope export --otlp http://localhost:4318               # to an OpenTelemetry collector
```

- `/metrics` has the text format 0.0.4, or OpenMetrics 1.0 for a client whose `Accept` prefers it. `/healthz` answers 200
  while the process runs, `/readyz` once the programs are attached and the first reading is done (503 before), `/` has links.
- It listens on 127.0.0.1:14791 unless `--listen` names other addresses; with `--textfile` or `--otlp` alone, or with sockets
  of systemd (`LISTEN_FDS`), on nothing else. A unix socket has mode 0660, is removed at the end, and replaces one that a killed
  process left. GET and HEAD only, 8 KiB of request in 3 s, 64 connections at a time.
- Metrics are made every `--interval` (15 s), of readings each second; a scrape gets the latest and costs the counting
  nothing. Scrape no more often, or lower the interval: `rocescope_reading_timestamp_seconds` has the age.
- `--textfile` is for node_exporter's textfile collector: written aside and renamed, without timestamps, in 0.0.4. It is
  removed at the end, since the collector would report the last values for ever; a kill leaves it (the collector has
  `node_textfile_mtime_seconds`).
- What is not known is absent, never 0. Counters do not decrease while the process runs: they go on when flows leave the
  flow table and when a device resets its counters. A figure of loss that later packets correct downwards stays. Of a
  flow that leaves the table between two intervals, the losses of that interval are missing.
- Series are bounded. Queue pairs have none unless `--per-qp N` (at most 64) asks for those with the most losses and
  retransmissions; `--peers` (32) counts pairs of a link and an address, and a peer keeps its series for ten minutes after it was last among the
  first. `rocescope_series_dropped_total` counts those without. An estimate for eight rails is 1,200 series.
- Labels `device`, `port` and `direction` are those of node_exporter and rdma_exporter, whose metrics join on them; no name
  begins with theirs.
- [alerts.yml](alerts.yml) has alerting rules. Findings come from the same analysis as in every view: alert on
  `rocescope_finding_active` rather than on thresholds of your own.

## TLS and passwords

`--web-config FILE` takes the file that Prometheus exporters share (exporter-toolkit's `web-config.yml`). It is for TCP; a unix socket has
the rights of its file.

```yaml
tls_server_config:                 # in builds with the feature `tls`
  cert_file: host.pem              # relative to this file; also cert, key and client_ca with the PEM text itself
  key_file: host.key
  client_auth_type: RequireAndVerifyClientCert    # or VerifyClientCertIfGiven, NoClientCert
  client_ca_file: ca.pem
  client_allowed_sans: [prometheus.example]       # DNS names and addresses
  min_version: TLS13               # TLS12 unless told otherwise
basic_auth_users:
  prometheus: $2y$10$...           # htpasswd -nBC 10 prometheus
```

- Other keys are refused, not passed over. `/healthz` asks for no password.
- The file, certificates and keys are looked at once a second while there are connections, and read again when one was replaced. What cannot
  be used, or not be read any more by the user that rocescope has changed to, is reported, and what was read before stays in use.
- A password is verified once and then remembered by its digest. After a wrong one, none is tried for a second.
- Packages are built without `tls`, whose provider (ring) is C and assembler ([building.md](building.md)). A build without it refuses
  `tls_server_config`: put a proxy before an address that others reach.

## OpenTelemetry

`--otlp URL` pushes the same metrics every `--interval` to a collector, as OTLP over HTTP with protobuf (`URL/v1/metrics`), and
findings as log records (`URL/v1/logs`). `--otlp` without a URL takes that of the environment, else `http://localhost:4318`.

- Names and units are in the last column. Points of counters and histograms are cumulative; they start at the start of the run, or
  at the reading before a series appeared. Labels are attributes: `link` and `netdev` are `network.interface.name`, `direction` is
  `network.io.direction` (`receive`, `transmit`), `peer` is `network.peer.address`, `pid` is `process.pid`; a device's port also
  has `hw.id` and `hw.type`. A translation for Prometheus arrives at the names of this page.
- Resource attributes: `service.name`, `service.version`, `service.instance.id`, `host.name`, `host.id`, `k8s.node.name` (of
  `K8S_NODE_NAME` or `NODE_NAME`), `slurm.job.id`, and those of `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME`, which come
  before them.
- A log record says that a finding began, changed its severity or ended (`rocescope.finding.state`): event name
  `rocescope.finding`, body the sentence, severity INFO, WARN or ERROR, attributes `rocescope.finding.id`, link and direction,
  both ends, and `rocescope.evidence.*`.
- Variables: `OTEL_EXPORTER_OTLP_ENDPOINT`, `_HEADERS`, `_TIMEOUT` (milliseconds), `_COMPRESSION` (`gzip`), `_PROTOCOL`
  (`http/protobuf`), each also with `METRICS_` or `LOGS_` before its last word; `OTEL_METRICS_EXPORTER=none` and
  `OTEL_LOGS_EXPORTER=none` leave a signal out. No variable makes rocescope push: `--otlp` does. Proxies of the environment are not used.
- An `https` URL needs a build with the feature `tls` ([building.md](building.md)). The system's authorities are trusted, or those in
  `SSL_CERT_FILE`, or in `OTEL_EXPORTER_OTLP_CERTIFICATE`; `_CLIENT_CERTIFICATE` and `_CLIENT_KEY` are this host's own. They are
  read at the start. A build without it refuses the URL: send to a collector on the host that forwards over TLS.
- A request is retried after a connection error, a timeout, or the status 429, 502, 503 or 504: after `Retry-After` (at most five
  minutes), else after pauses that double up to 30 s. Other errors drop it. Up to 240 requests of a signal (an hour at 15 s) and 16 MiB wait in
  memory; the oldest is dropped for a new one. `rocescope_otlp_requests_total` counts all of it, and messages report its begin and end. At the end of the process what waits is sent for 5 s at most, and what remains is
  reported. A kill loses what waits, and a clock that goes back makes counters start anew.

## Metrics

The name is that of the samples. *Source* is the field of the [report](metrics.md) with the same figure.

| metric | type | labels | meaning | source | OTLP: name, unit |
|---|---|---|---|---|---|
";

fn row(metric: &Metric) -> String {
    let kind = match metric.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Info => "info",
        MetricKind::Histogram => "histogram",
    };
    let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
    let (name, labels, help, source) = (metric.sample_name(), labels.join(" "), metric.help, metric.source);
    let unit = Some(names::unit(metric)).filter(|unit| !unit.is_empty());
    let unit = unit.map_or_else(String::new, |unit| format!(" `{unit}`"));
    let otlp = format!("`{}`{unit}", names::name(metric));
    format!("| `{name}` | {kind} | {labels} | {help} | `{source}` | {otlp} |\n")
}

#[test]
fn the_exporter_page_is_made_from_the_registry() {
    let mut page = HEAD.to_owned();
    for metric in REGISTRY {
        // Writing to a String cannot fail.
        let _ = write!(page, "{}", row(metric));
    }
    document::check("exporter.md", &page);
}
