//! Size of recordings: a row of flows takes at most 25 bytes where a file has a thousand of them. Smaller files
//! consist mostly of the names and offsets of their columns.

use std::path::PathBuf;

use rocescope::record::parquet;
use rocescope::record::registry::FlowSecond;
use rocescope::sample::Direction;
use rocescope::source::demo::scenario::{Scenario, WATCHED};
use rocescope_tests::oracle::captures;
use rocescope_tests::oracle::craft::{Captured, pcapng};

use super::{parts, rocescope, text};

/// Bytes that are kept of each frame.
const SNAP: usize = 128;
/// Unix time of the first frame of the demonstration.
const START_NS: u64 = 1_700_000_000_000_000_000;

/// Records the captures, and holds the size of the rows of flows.
fn check(captures: impl Iterator<Item = PathBuf>, interval: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut command =
        rocescope(&["record", "--interval", interval, "--dir", folder.path().to_str().unwrap()]);
    for capture in captures {
        command.arg("--read").arg(capture);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let (mut bytes, mut rows) = (0, 0);
    for file in parts(folder.path()).iter().filter(|file| file.to_string_lossy().contains("flow_seconds")) {
        let whole = std::fs::read(file).unwrap();
        bytes += whole.len();
        rows += parquet::decode::<FlowSecond>(whole.into()).unwrap().len();
    }
    println!("{rows} rows of flows take {bytes} bytes");
    assert!(rows >= 1_000 && bytes <= 25 * rows, "{rows} rows take {bytes} bytes");
}

#[test]
fn a_row_of_flows_takes_at_most_25_bytes() {
    let captures = std::fs::read_dir(captures::folder()).unwrap().flatten().map(|entry| entry.path());
    let is_capture = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.split('.').any(|part| part == "pcap")
    };
    check(captures.filter(is_capture), "50ms");
}

#[test]
fn a_row_of_the_demonstration_takes_at_most_25_bytes() {
    let cycle_ns = u64::try_from(WATCHED.as_nanos()).unwrap();
    let frames: Vec<Captured> = Scenario::new(1, WATCHED)
        .take_while(|one| one.at_ns < cycle_ns)
        .map(|one| Captured {
            time_ns: START_NS + one.at_ns,
            kept: one.frame.len().min(SNAP),
            interface: u32::try_from(one.uplink.index() * 2).unwrap()
                + u32::from(one.direction == Direction::Egress),
            frame: one.frame,
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("demonstration.pcapng");
    let interfaces = ["rail0 in", "rail0 out", "rail1 in", "rail1 out"];
    std::fs::write(&file, pcapng(&interfaces, &frames).finish()).unwrap();
    check(std::iter::once(file), "1s");
}
