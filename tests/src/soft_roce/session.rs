//! Runs rocescope beside tcpdump and the kernel's own counters, over some traffic.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::lab::{ENDS, statistic, up};
use super::tool::{Tool, wait_for};
use crate::live::program::{Program, Start};

/// Snap length that suffices for connection management, whose messages have the longest headers.
const SNAP_LENGTH: &str = "400";
/// Maximum time for which tcpdump buffers a packet.
const SETTLE: Duration = Duration::from_millis(1600);

/// Folder shared between guest and host, for results.
pub fn results() -> Result<PathBuf> {
    let place = std::env::var_os("ROCESCOPE_VM_RESULTS");
    place.map(PathBuf::from).context("ROCESCOPE_VM_RESULTS is not set: this is for `cargo xtask vm`")
}

/// All observers.
#[derive(Debug)]
pub struct Session {
    name: &'static str,
    program: Program,
    captures: Vec<(&'static str, PathBuf, Tool)>,
    before: Vec<Value>,
}

/// Results of a session.
#[derive(Debug)]
pub struct SessionResult {
    /// rocescope's report.
    pub report: Value,
    /// Its reports during the run, one per second, and the final one.
    pub reports: Vec<Value>,
    /// Standard error of rocescope.
    pub said: String,
    /// The capture of each interface, in their order.
    pub captures: Vec<PathBuf>,
    /// Increase of each end's device counters.
    pub counted: Vec<Value>,
}

impl Session {
    /// Starts all observers of both ends and waits until they are ready.
    pub fn start(name: &'static str, arguments: &[&str]) -> Result<Self> {
        Self::start_on(name, ENDS.map(|end| end.interface), arguments)
    }

    /// The same, with tcpdump on these interfaces, which are those in `arguments`.
    pub fn start_on(name: &'static str, interfaces: [&'static str; 2], arguments: &[&str]) -> Result<Self> {
        up()?;
        let program = Program::start(
            Start::default(),
            &[&["live", "--output", "jsonl", "--idle", "1h"], arguments].concat(),
        )?;
        program.wait_for_message(|text| {
            let attached = text.lines().filter(|line| line.ends_with(" and TC egress")).count();
            (attached == interfaces.len()).then_some(())
        })?;
        if interfaces == ENDS.map(|end| end.interface) {
            // Packets are counted before queue pairs are followed, since the host's settings are read first. Other
            // interfaces have no device, and no queue pairs.
            program.reported(|report| report["qp_lives"]["lists"].as_u64() > Some(0))?;
        }
        let captures: Result<Vec<_>> =
            interfaces.into_iter().map(|interface| capture(name, interface)).collect();
        let before: Result<Vec<_>> = ENDS.into_iter().map(statistic).collect();
        Ok(Self { name, program, captures: captures?, before: before? })
    }

    /// Ends all observers. `harmed` are the queue pairs whose packets were not all on the wire: counts upstream of a
    /// queueing discipline differ from tcpdump's downstream of it.
    pub fn finish(self, harmed: &[u64]) -> Result<SessionResult> {
        std::thread::sleep(SETTLE);
        let after: Result<Vec<_>> = ENDS.into_iter().map(statistic).collect();
        let mut captures = Vec::new();
        for (interface, file, tool) in self.captures {
            tool.interrupt()?;
            fs::copy(&file, results()?.join(format!("{}.{interface}.pcap", self.name)))?;
            captures.push(file);
        }
        let ended = self.program.interrupt()?;
        anyhow::ensure!(ended.status.success(), "rocescope ended with {}: {}", ended.status, ended.err);
        let reports = ended.lines()?;
        let report = reports.last().cloned().context("rocescope reported nothing")?;
        let left = json!({ "report": report, "harmed": harmed });
        fs::write(results()?.join(format!("{}.json", self.name)), left.to_string())?;
        let counted = self.before.iter().zip(&after?).map(|(before, after)| change(before, after)).collect();
        Ok(SessionResult { report, reports, said: ended.err, captures, counted })
    }
}

/// Starts tcpdump on an interface, and waits until it captures.
fn capture(name: &str, interface: &'static str) -> Result<(&'static str, PathBuf, Tool)> {
    let file = std::env::temp_dir().join(format!("{name}.{interface}.pcap"));
    let path = file.to_string_lossy().into_owned();
    let options = ["-n", "-U", "-Z", "root", "-B", "65536", "-s", SNAP_LENGTH, "-i", interface, "-w", &path];
    let mut tool = Tool::start("tcpdump", &[&options[..], &["udp", "port", "4791"]].concat())?;
    wait_for("tcpdump listening", || {
        let said = tool.standard_error()?;
        anyhow::ensure!(tool.is_running()?, "tcpdump ended at once: {said}");
        Ok(said.contains("listening on").then_some(()))
    })?;
    Ok((interface, file, tool))
}

/// Increase of each counter.
fn change(before: &Value, after: &Value) -> Value {
    let of =
        |(name, now): (&String, &Value)| Some((name.clone(), json!(now.as_u64()? - before[name].as_u64()?)));
    after.as_object().into_iter().flatten().filter_map(of).collect()
}
