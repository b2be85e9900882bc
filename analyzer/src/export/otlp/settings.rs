//! Targets of OTLP: `--otlp` and the standard environment variables of OpenTelemetry.

use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use ureq::http::{HeaderName, HeaderValue, Uri};

use super::proto::{KeyValue, Resource};
use crate::util::request::{Certificates, NO_TLS};

/// The default endpoint: a collector on this host.
pub const DEFAULT: &str = "http://localhost:4318";
/// Default of `OTEL_EXPORTER_OTLP_TIMEOUT`.
const TIMEOUT: Duration = Duration::from_secs(10);

/// An OTLP signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Metrics.
    Metrics,
    /// Log records.
    Logs,
}

impl Signal {
    /// Name in labels and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    /// Part of the names of the signal's environment variables.
    const fn variable(self) -> &'static str {
        match self {
            Self::Metrics => "METRICS",
            Self::Logs => "LOGS",
        }
    }
}

/// The destination of a signal.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The signal.
    pub signal: Signal,
    /// The complete URL.
    pub url: String,
    /// Additional headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// True if the body is compressed.
    pub gzip: bool,
    /// Timeout of a request.
    pub timeout: Duration,
    /// Certificates for TLS.
    pub certificates: Certificates,
}

/// True if the environment turns OTLP off.
pub fn is_disabled(env: &impl Fn(&str) -> Option<String>) -> bool {
    env("OTEL_SDK_DISABLED").is_some_and(|text| text.trim().eq_ignore_ascii_case("true"))
}

/// The interval of the metrics that the environment asks for; `None` without one.
///
/// # Errors
/// If the value is no number of milliseconds.
pub fn interval(env: &impl Fn(&str) -> Option<String>) -> Result<Option<Duration>, String> {
    const NAME: &str = "OTEL_METRIC_EXPORT_INTERVAL";
    let Some(text) = env(NAME).filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    match text.trim().parse() {
        Ok(ms) if ms > 0 => Ok(Some(Duration::from_millis(ms))),
        _ => Err(format!("invalid value '{text}' for {NAME}: write milliseconds, such as 60000")),
    }
}

/// Counters and histograms are cumulative, whatever the environment prefers.
fn check_temporality(env: &impl Fn(&str) -> Option<String>) -> Result<(), String> {
    const NAME: &str = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
    match env(NAME).filter(|text| !text.trim().is_empty()) {
        Some(text) if !text.trim().eq_ignore_ascii_case("cumulative") => Err(format!(
            "invalid value '{text}' for {NAME}: rocescope sends cumulative counts only, of which a lost request loses \
             none; the processor cumulativetodelta of a collector makes deltas of them"
        )),
        _ => Ok(()),
    }
}

/// Identity of the host.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Name of the host.
    pub name: Option<String>,
    /// Identifier of the host.
    pub id: Option<String>,
}

/// The targets; none for a signal that `OTEL_METRICS_EXPORTER` or `OTEL_LOGS_EXPORTER` sets to `none`. An empty
/// `option` is `--otlp` without a URL.
///
/// # Errors
/// If a value is invalid; the message names it.
pub fn targets(option: &str, env: &impl Fn(&str) -> Option<String>) -> Result<Vec<Target>, String> {
    let mut all = Vec::new();
    for signal in [Signal::Metrics, Signal::Logs] {
        let switch = format!("OTEL_{}_EXPORTER", signal.variable());
        match env(&switch).as_deref().map(str::trim) {
            Some("none") => continue,
            None | Some("" | "otlp") => {}
            Some(other) => return Err(format!("invalid value '{other}' for {switch}: write otlp or none")),
        }
        if signal == Signal::Metrics {
            check_temporality(env)?;
        }
        all.push(target(signal, option, env)?);
    }
    if all.is_empty() {
        return Err(
            "--otlp: OTEL_METRICS_EXPORTER and OTEL_LOGS_EXPORTER are both none: nothing is left to send"
                .to_owned(),
        );
    }
    Ok(all)
}

fn target(signal: Signal, option: &str, env: &impl Fn(&str) -> Option<String>) -> Result<Target, String> {
    // The variable of the signal takes precedence over the common one; an empty one counts as unset.
    let setting = |name: &str| {
        let names = [
            format!("OTEL_EXPORTER_OTLP_{}_{name}", signal.variable()),
            format!("OTEL_EXPORTER_OTLP_{name}"),
        ];
        names.into_iter().find_map(|name| Some((env(&name).filter(|text| !text.trim().is_empty())?, name)))
    };
    let path = format!("v1/{}", signal.name());
    let below = |base: &str| format!("{}/{path}", base.trim_end_matches('/'));
    let (url, name) = match setting("ENDPOINT") {
        _ if !option.is_empty() => (below(option), "--otlp".to_owned()),
        None => (below(DEFAULT), "--otlp".to_owned()),
        // The endpoint of a signal is used as it is; the path is appended only to the common one.
        Some((url, name)) if name.contains(signal.variable()) => (url, name),
        Some((url, name)) => (below(&url), name),
    };
    check(&url, &name)?;
    if let Some((protocol, name)) = setting("PROTOCOL")
        && protocol.trim() != "http/protobuf"
    {
        return Err(format!(
            "invalid value '{protocol}' for {name}: rocescope sends http/protobuf only, which collectors take on port 4318"
        ));
    }
    let gzip = match setting("COMPRESSION") {
        None => false,
        Some((text, _)) if text.trim() == "none" => false,
        Some((text, _)) if text.trim() == "gzip" => true,
        Some((text, name)) => return Err(format!("invalid value '{text}' for {name}: write gzip or none")),
    };
    let timeout = match setting("TIMEOUT") {
        None => TIMEOUT,
        Some((text, name)) => match text.trim().parse() {
            Ok(ms) if ms > 0 => Duration::from_millis(ms),
            _ => return Err(format!("invalid value '{text}' for {name}: write milliseconds, such as 10000")),
        },
    };
    let headers = match setting("HEADERS") {
        None => Vec::new(),
        Some((text, name)) => {
            let header = |(key, value): (String, String)| {
                let parts = (HeaderName::try_from(&key), HeaderValue::try_from(&value));
                let (Ok(key), Ok(mut value)) = parts else {
                    return Err(format!("invalid header '{key}' in {name}: write NAME=VALUE,NAME=VALUE"));
                };
                value.set_sensitive(true);
                Ok((key, value))
            };
            pairs(&text, &name)?.into_iter().map(header).collect::<Result<_, _>>()?
        }
    };
    let file = |name| setting(name).map(|(file, _)| PathBuf::from(file.trim()));
    let own = match (file("CLIENT_CERTIFICATE"), file("CLIENT_KEY")) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            return Err("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY belong together: set both".to_owned());
        }
    };
    let certificates = Certificates { authorities: file("CERTIFICATE"), own };
    Ok(Target { signal, url, headers, gzip, timeout, certificates })
}

fn check(url: &str, name: &str) -> Result<(), String> {
    let uri: Uri = url.parse().map_err(|error| format!("invalid URL '{url}' for {name}: {error}"))?;
    match uri.scheme_str() {
        Some("https") if !cfg!(feature = "tls") => Err(format!("{name}: {url}: {NO_TLS}")),
        Some("http" | "https") if uri.host().is_some_and(|host| !host.is_empty()) => Ok(()),
        _ => Err(format!("invalid URL '{url}' for {name}: write http://HOST:PORT, such as {DEFAULT}")),
    }
}

/// Parses `NAME=VALUE,NAME=VALUE` with percent-encoded values.
fn pairs(text: &str, name: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |pair: &str| {
        let (key, value) = pair
            .split_once('=')
            .filter(|(key, _)| !key.trim().is_empty())
            .ok_or_else(|| format!("invalid value for {name}: '{}' is not NAME=VALUE", pair.trim()))?;
        let decoded = |text: &str| {
            let decoded = percent_decode_str(text.trim()).decode_utf8();
            decoded
                .map(std::borrow::Cow::into_owned)
                .map_err(|_| format!("invalid value for {name}: no UTF-8"))
        };
        Ok((decoded(key)?, decoded(value)?))
    };
    text.split(',').filter(|one| !one.trim().is_empty()).map(pair).collect()
}

/// Resource attributes: those of this process, overridden by `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME`.
///
/// # Errors
/// If a variable is malformed.
pub fn resource(host: &Host, env: &impl Fn(&str) -> Option<String>) -> Result<Resource, String> {
    const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
    let set = |name: &str| env(name).filter(|text| !text.is_empty());
    let mut all: Vec<(String, String)> = Vec::new();
    let mut put = |key: &str, value: Option<String>| {
        let Some(value) = value else { return };
        match all.iter_mut().find(|(known, _)| known == key) {
            Some((_, before)) => *before = value,
            None => all.push((key.to_owned(), value)),
        }
    };
    put("service.name", Some("rocescope".to_owned()));
    put("service.version", Some(env!("CARGO_PKG_VERSION").to_owned()));
    put("service.instance.id", host.name.clone().or_else(|| host.id.clone()));
    put("host.name", host.name.clone());
    put("host.id", host.id.clone());
    put("k8s.node.name", set("K8S_NODE_NAME").or_else(|| set("NODE_NAME")));
    put("slurm.job.id", set("SLURM_JOB_ID"));
    for (key, value) in pairs(&env(ATTRIBUTES).unwrap_or_default(), ATTRIBUTES)? {
        put(&key, Some(value));
    }
    put("service.name", set("OTEL_SERVICE_NAME"));
    Ok(Resource { attributes: all.iter().map(|(key, value)| KeyValue::new(key, value.as_str())).collect() })
}
