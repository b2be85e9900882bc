//! The push to an OpenTelemetry collector.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};

use super::output::say;
use crate::export::Series;
use crate::export::otlp::Encoder;
use crate::export::otlp::send::Pusher;
use crate::export::otlp::settings::{self, Host};
use crate::report::Report;
use crate::sample::Sample;
use crate::util::system;
use crate::util::time::nanos;
use crate::util::units::duration;

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// False if the environment turns OTLP off, and reports it.
pub(super) fn is_enabled() -> bool {
    let is_disabled = settings::is_disabled(&env);
    if is_disabled {
        say("--otlp: nothing is sent, since OTEL_SDK_DISABLED is true");
    }
    !is_disabled
}

/// The content of a one-line file; `None` if it cannot be read.
fn read(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Sends metrics and findings.
pub(super) struct Push {
    encoder: Encoder,
    pub(super) pusher: Pusher,
    due: SendTimes,
}

impl Push {
    /// Sends to the URL of `--otlp`, or to the one in the environment. There are new metrics at each `interval`.
    pub(super) fn start(url: &str, interval: Duration) -> Result<Self> {
        let host = Host { name: system::host_name(), id: read("/etc/machine-id") };
        let targets = settings::targets(url, &env).map_err(|error| anyhow!(error))?;
        let resource = settings::resource(&host, &env).map_err(|error| anyhow!(error))?;
        let wanted = settings::interval(&env).map_err(|error| anyhow!(error))?;
        if wanted.is_some_and(|wanted| wanted < interval) {
            let interval = duration(nanos(interval));
            say(&format!(
                "OTEL_METRIC_EXPORT_INTERVAL is shorter than --interval: metrics are sent every {interval}"
            ));
        }
        for target in &targets {
            say(&format!("{} are sent to {}", target.signal.name(), target.url));
        }
        let pusher = Pusher::start(targets).context("cannot start the thread that sends OTLP")?;
        let due = SendTimes { every: wanted.unwrap_or_default(), interval, next: None };
        Ok(Self { encoder: Encoder::new(resource), pusher, due })
    }

    pub(super) fn take(&mut self, families: &[Series], report: &Report, sample: &Sample) {
        let mut requests = self.encoder.take(families, report, sample.time_ns);
        if let Some(back_ns) = requests.back_ns {
            let back = duration(back_ns);
            say(&format!(
                "the clock stepped back by {back}: OTLP counters start anew, and a database may reject that time"
            ));
        }
        // Findings do not wait.
        if !self.due.is_at(Instant::now()) {
            requests.metrics.clear();
        }
        self.pusher.push(requests);
    }
}

/// Intervals after which metrics are sent.
struct SendTimes {
    every: Duration,
    interval: Duration,
    next: Option<Instant>,
}

impl SendTimes {
    fn is_at(&mut self, now: Instant) -> bool {
        // Samples are late or early by less than that.
        let early = self.interval / 2;
        let is_due = self.next.is_none_or(|next| now + early >= next);
        if is_due {
            let after = self.next.unwrap_or(now) + self.every;
            // Not several in a row after a pause.
            self.next = Some(if after + early < now { now + self.every } else { after });
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_due_at_the_interval_of_the_environment() {
        let begin = Instant::now();
        let due = |every: u64| {
            let (every, interval) = (Duration::from_millis(every), Duration::from_secs(1));
            let mut due = SendTimes { every, interval, next: None };
            // Samples arrive up to 30 ms late.
            let times = (0..12u64).map(|n| Duration::from_millis(1_000 * n + 30 * (n % 2)));
            times.map(|at| u8::from(due.is_at(begin + at))).collect::<Vec<_>>()
        };
        assert_eq!(due(0), [1; 12]);
        assert_eq!(due(1_000), [1; 12]);
        assert_eq!(due(4_000), [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(due(2_500).iter().sum::<u8>(), 5, "four in ten seconds, and the first");
    }
}
