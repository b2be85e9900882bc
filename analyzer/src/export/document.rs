//! Generates docs/exporter.md from the registry.

use std::fmt::Write as _;

use super::otlp::names;
use super::registry::{Metric, MetricKind, REGISTRY};
use crate::analysis::fixtures::document;

const HEAD: &str = "\
# Metrics for Prometheus and OpenTelemetry

<!-- Made from analyzer/src/export/registry.rs and document.rs: change these, then run
     ROCESCOPE_BLESS=1 cargo test -p rocescope exporter_page -->

`rocescope export` observes interfaces as `live` does, with the same options for the source, and serves their metrics:

```console
$ sudo rocescope export                                            # http://127.0.0.1:14791/metrics
$ sudo rocescope export -i eth2 --listen 10.0.0.5:14791            # for other hosts to scrape
$ sudo rocescope export --listen unix:/run/rocescope/metrics.sock
$ sudo rocescope export --textfile /var/lib/prometheus/node-exporter/rocescope.prom
$ sudo rocescope export --otlp http://localhost:4318               # to an OpenTelemetry collector
```

- `/metrics` returns the text format 0.0.4, or OpenMetrics 1.0 to a client whose `Accept` prefers it. `/healthz` returns 200
  while samples are taken, one per second, and 503 after 30 s without one; so does `/readyz`, and 503 before the programs are attached and the
  first sample is taken. `/` has links.
- It listens on 127.0.0.1:14791 unless `--listen` names other addresses. Without `--listen`, it opens no port if `--textfile` or
  `--otlp` is given, and uses only the sockets of systemd (`LISTEN_FDS`) if there are any. A unix socket has mode 0660, is removed at the end, and replaces the socket of a
  killed process. Limits: GET and HEAD only, requests of at most 8 KiB within 3 s, 64 connections at a time.
- Metrics are computed every `--interval` (15 s) from samples taken each second; a scrape returns the latest and does not delay the
  sampling. To scrape more often, lower the interval; `rocescope_reading_timestamp_seconds` is the time of the sample.
- `--textfile` is for node_exporter's textfile collector: format 0.0.4 without timestamps, written under a temporary name and renamed. It is
  removed at the end, since the collector would otherwise keep reporting the last values; a killed process leaves it (see the collector's
  `node_textfile_mtime_seconds`).
- Unknown values are absent, never 0. Counters do not decrease while the process runs: they continue when flows leave the
  flow table and when a device resets its counters. A loss count that later packets correct downwards is not reduced. If a
  flow leaves the table between two intervals, its losses in that interval are missing.
- The number of series is bounded. Queue pairs have series only with `--per-qp N` (at most 64). Those with packets (`rocescope_qp_*`) are chosen by
  losses and retransmissions, then bytes; those of NICs that process RoCE themselves, whose packets are not seen (`rocescope_device_qp_*`), by death,
  standstill, retries and timeouts, then packets. N is for both together: those with problems come first, and the two kinds take turns. A queue pair keeps its series for
  five minutes after it was last among the first. `--peers` (32) limits the pairs of a link and an address; a peer keeps its series for ten minutes after it was last among those
  with the most bytes. `rocescope_series_dropped_total` counts peers and queue pairs without series. A host of
  eight rails with 32 peers, PFC on two priorities and findings on every rail has at most 1,500 series; atomics on every link add 240.
- Entropy and balance of queue pairs whose packets are not seen are `rocescope_qp_paths_*`, never part of those of packets
  (`rocescope_entropy_*`, `rocescope_links_imbalance_ratio`). `rocescope_scrape_collector_success` reports per source whether it works: `packets`, `devices`,
  `qp_lives` (the kernel's control path), `qp_list` (its lists of queue pairs), `qp_context` (the NIC's own contexts), `nccl`.
- Labels `device`, `port` and `direction` are those of node_exporter and rdma_exporter, so that queries can join their metrics on them; no metric
  name begins with a prefix of theirs.
- [alerts.yml](alerts.yml) has alerting rules. Findings are the same as in every view: alert on
  `rocescope_finding_active` rather than on thresholds of your own.

## TLS and passwords

`--web-config FILE` takes the configuration file common to Prometheus exporters (exporter-toolkit's `web-config.yml`). It applies to TCP;
access to a unix socket depends on its file mode.

```yaml
tls_server_config:                 # in builds with the feature `tls`
  cert_file: host.pem              # relative to this file; also cert, key and client_ca with the PEM text itself
  key_file: host.key
  client_auth_type: RequireAndVerifyClientCert    # or VerifyClientCertIfGiven, NoClientCert
  client_ca_file: ca.pem
  client_allowed_sans: [prometheus.example]       # DNS names and addresses
  min_version: TLS13               # default: TLS12
basic_auth_users:
  prometheus: $2y$10$...           # htpasswd -nBC 10 prometheus
```

- Other keys are errors, not ignored. `/healthz` and `/readyz` need no password.
- The file, certificates and keys are checked for changes once a second while there are connections, and reloaded if one was replaced. If the new
  files are invalid, or not readable by the user that rocescope has changed to, this is reported, and the previous configuration remains in use.
- A password is verified with bcrypt once and then cached by its digest. After a wrong password, none is verified for a second.
- Packages are built without `tls`, whose provider (ring) contains C and assembler ([building.md](building.md)). A build without it rejects
  `tls_server_config`: put a proxy in front of an address that other hosts can reach.

## OpenTelemetry

`--otlp URL` pushes the same metrics every `--interval` to a collector, as OTLP over HTTP with protobuf (`URL/v1/metrics`), and
findings as log records (`URL/v1/logs`). `--otlp` without a URL uses that of the environment, else `http://localhost:4318`. The packaged service may
connect to this host alone: [agent.md](agent.md) has the setting for a collector on another.

- Names and units are in the last column. Points of counters and histograms are cumulative; their start time is that of the run, or
  of the sample before the series appeared. Labels are attributes: `link` and `netdev` are `network.interface.name`, `direction` is
  `network.io.direction` (`receive`, `transmit`), `peer` is `network.peer.address`, `pid` is `process.pid`; a device's port also
  has `hw.id` and `hw.type`. Translated for Prometheus, the names are those of this page.
- Resource attributes: `service.name`, `service.version`, `service.instance.id`, `host.name`, `host.id`, `k8s.node.name` (of
  `K8S_NODE_NAME` or `NODE_NAME`), `slurm.job.id`, and those of `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME`, which take
  precedence.
- A log record reports that a finding began, changed its severity or ended (`rocescope.finding.state`): event name
  `rocescope.finding`, body the sentence, severity INFO, WARN or ERROR, attributes `rocescope.finding.id`, link and direction,
  both ends, and `rocescope.evidence.*`.
- Variables: `OTEL_EXPORTER_OTLP_ENDPOINT`, `_HEADERS`, `_TIMEOUT` (milliseconds), `_COMPRESSION` (`gzip`), `_PROTOCOL`
  (`http/protobuf`), each also with `METRICS_` or `LOGS_` before its last word; `OTEL_METRICS_EXPORTER=none` and
  `OTEL_LOGS_EXPORTER=none` disable a signal. Only `--otlp` enables OTLP, no variable does. Proxy variables are not used.
- `OTEL_SDK_DISABLED=true` has the effect of no `--otlp`. `OTEL_METRIC_EXPORT_INTERVAL` (milliseconds) sets the interval of the metrics sent, in
  multiples of `--interval`; findings are sent at each `--interval`. `OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE` other than `cumulative` is an
  error: of cumulative counts a lost request loses none, and the collector's processor `cumulativetodelta` makes deltas of them.
- An `https` URL needs a build with the feature `tls` ([building.md](building.md)). The system's certificate authorities are trusted, or those in
  `SSL_CERT_FILE`, or in `OTEL_EXPORTER_OTLP_CERTIFICATE`; `_CLIENT_CERTIFICATE` and `_CLIENT_KEY` are the client certificate and key. They are
  read at the start. A build without `tls` rejects the URL: send to a collector on this host that forwards over TLS.
- A request is retried after a connection error, a timeout, or the status 429, 502, 503 or 504: after `Retry-After` (at most five
  minutes), else with exponential backoff up to 30 s. After other errors it is dropped. Up to 240 requests per signal (an hour at 15 s) and 16 MiB are
  queued in memory; if the queue is full, the oldest is dropped. `rocescope_otlp_requests_total` counts all outcomes, and messages report the start and end
  of a failure. At its end the process sends the queue for at most 5 s, and reports the number of unsent requests. A killed process loses the
  queue, which the next start says ([agent.md](agent.md)). If the clock steps back, counters restart.

## Metrics

The name is that of the exposition. *Source* is the field of the [report](metrics.md) with the same figure.

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
