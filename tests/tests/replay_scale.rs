//! Replay of large captures: bounded memory, and reports that do not depend on the number of CPUs.

use std::fs;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use rocescope_tests::capture_file::{Order, Pcap, PcapNg};
use rocescope_tests::craft::{self, Mac, Net, Transport};
use rocescope_tests::oracle::{binary, captures};
use rocescope_tests::schema;
use serde_json::Value;

const WRITE_MIDDLE: u8 = 0x07;
const ETHERNET: u16 = 1;
const START_NS: u64 = 1_767_225_600_000_000_000;

/// A capture of `packets` WRITEs of `flows` alternating queue pairs, with a snap length of `snap`.
fn capture(packets: u32, flows: u32, payload: usize, snap: u32) -> Vec<u8> {
    let mut pcap = Pcap::with_snap_len(Order::Little, true, ETHERNET, snap);
    for number in 0..packets {
        let flow = number % flows;
        let transport =
            Transport::new(WRITE_MIDDLE, 0x100 + flow, number / flows).payload(vec![0x5A; payload]);
        let [_, _, a, b] = (flow / 16).to_be_bytes();
        let packet = Net::v4([10, 1, a, b], [10, 2, a, b]).tos(2).roce(50_000, &transport);
        let frame = craft::ethernet(Mac::SRC, Mac::DST, &packet);
        pcap.packet(START_NS + u64::from(number) * 100, &frame);
    }
    pcap.finish()
}

/// Writes `capture`, and then its records repeatedly until there are `bytes`. Returns the number of repetitions.
fn write_stream(capture: &[u8], bytes: u64, pipe: &mut ChildStdin) -> io::Result<u64> {
    const FILE_HEADER: usize = 24;
    let records = &capture[FILE_HEADER..];
    pipe.write_all(&capture[..FILE_HEADER])?;
    let rounds = bytes.div_ceil(records.len() as u64);
    for _ in 0..rounds {
        pipe.write_all(records)?;
    }
    Ok(rounds)
}

/// `ROCESCOPE_STREAM_GB` sets the length of the stream.
#[test]
fn a_long_stream_needs_no_more_memory_than_a_short_one() -> Result<()> {
    const LIMIT: u64 = 100 << 20;
    let gigabytes: u64 = match std::env::var("ROCESCOPE_STREAM_GB") {
        Ok(number) => number.parse().context("ROCESCOPE_STREAM_GB is no number")?,
        Err(_) => 2,
    };
    for (title, payload, snap) in [("whole frames", 4096, 262_144), ("snapped frames", 4096, 96)] {
        let packets = 4000;
        let capture = capture(packets, 1000, payload, snap);
        let mut command = Command::new(binary::path()?);
        command.args(["replay", "-", "--output", "json"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("rocescope could not be started")?;
        let mut pipe = child.stdin.take().context("no pipe")?;
        let rounds = write_stream(&capture, gigabytes * 1_000_000_000, &mut pipe)?;
        // All data beyond the size of the pipe has been counted by now.
        let peak = binary::peak_memory(child.id())?;
        drop(pipe);
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "ended with {}", output.status);
        let report = schema::read(&output.stdout)?;
        let expected = rounds * u64::from(packets);
        assert_eq!(report["totals"]["roce_packets"], expected, "{title}");
        assert_eq!(report["flows"].as_array().map(Vec::len), Some(1000), "{title}");
        println!("{title}: {gigabytes} GB, {expected} packets, peak {} KiB", peak / 1024);
        assert!(peak < LIMIT, "{title}: peak memory of {peak} bytes");
    }
    Ok(())
}

/// Peak memory per flow of a replay, when the report is made, measured with 20,000 more flows: between these two
/// numbers lists double, which a build with checks shows most.
#[test]
fn a_flow_takes_little_memory() -> Result<()> {
    const LIMIT: u64 = 1_300;
    let folder = tempfile::tempdir()?;
    let mut peaks = [0; 2];
    for (peak, flows) in peaks.iter_mut().zip([20_000, 40_000]) {
        let path = folder.path().join("flows.pcap");
        fs::write(&path, capture(flows * 5, flows, 1024, 96))?;
        let mut command = Command::new(binary::path()?);
        command.arg("replay").arg(&path).args(JSON).stdout(Stdio::piped());
        let mut child = command.spawn().context("rocescope could not be started")?;
        let mut pipe = child.stdout.take().context("no pipe")?;
        // The report is complete before any of it is written, and exceeds the pipe: the program waits here.
        pipe.read_exact(&mut [0])?;
        *peak = binary::peak_memory(child.id())?;
        io::copy(&mut pipe, &mut io::sink())?;
        ensure!(child.wait()?.success(), "{flows} flows: it failed");
    }
    let per_flow = peaks[1].saturating_sub(peaks[0]) / 20_000;
    println!("{per_flow} bytes a flow at the peak, {} KiB in all", peaks[1] / 1024);
    assert!(per_flow < LIMIT, "{per_flow} bytes a flow");
    Ok(())
}

/// Runs the program on the first CPU only, or on all CPUs that this test may use.
fn report(files: &[PathBuf], args: &[&str], one_processor: bool) -> Result<Vec<u8>> {
    let mut command = if one_processor {
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", &first_processor()?]).arg(binary::path()?);
        command
    } else {
        Command::new(binary::path()?)
    };
    let output = command
        .arg("replay")
        .args(files)
        .args(args)
        .output()
        .context("taskset (of util-linux) or rocescope could not be started")?;
    ensure!(!output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok([output.stdout, output.stderr].concat())
}

/// The first CPU that this process may use.
fn first_processor() -> Result<String> {
    let status = fs::read_to_string("/proc/self/status")?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first =
        list.and_then(|list| list.trim().split([',', '-']).next()).context("no list of processors")?;
    Ok(first.to_owned())
}

const JSON: [&str; 2] = ["--output", "json"];

fn same_on_one_and_all(files: &[PathBuf]) -> Result<()> {
    same_with(files, &JSON)
}

fn same_with(files: &[PathBuf], args: &[&str]) -> Result<()> {
    let one = report(files, args, true).with_context(|| format!("{files:?}"))?;
    for _ in 0..3 {
        assert!(report(files, args, false)? == one, "{files:?} {args:?}: more processors, another report");
    }
    Ok(())
}

#[test]
fn processors_do_not_change_the_report_of_any_capture() -> Result<()> {
    for capture in captures::own()?.into_iter().chain(captures::further()?) {
        same_on_one_and_all(&[capture])?;
    }
    Ok(())
}

/// Long enough for reading ahead, unlike the captures of the tests.
#[test]
fn processors_do_not_change_the_report_of_long_captures() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let write = |name: &str, bytes: &[u8]| -> Result<PathBuf> {
        let path = folder.path().join(name);
        fs::write(&path, bytes)?;
        Ok(path)
    };
    let snapped = capture(60_000, 3000, 1024, 96);
    let plain = write("plain.pcap", &snapped)?;
    let packed = write("packed.pcap.gz", &gzip(&snapped)?)?;
    let whole = write("whole.pcap.gz", &gzip(&capture(20_000, 7, 4096, 262_144))?)?;
    same_on_one_and_all(std::slice::from_ref(&plain))?;
    same_on_one_and_all(std::slice::from_ref(&packed))?;
    same_on_one_and_all(std::slice::from_ref(&whole))?;
    same_on_one_and_all(&[plain.clone(), packed.clone(), whole])?;

    // Truncated in a record or in the compressed data: the same complete records count.
    let cut = write("cut.pcap", &snapped[..snapped.len() - 33])?;
    same_on_one_and_all(&[cut])?;
    let bytes = fs::read(&packed)?;
    let cut = write("cut.pcap.gz", &bytes[..bytes.len() * 9 / 10])?;
    same_on_one_and_all(&[cut])?;
    damaged(&folder.path().join("damaged.pcap"), snapped)?;

    let (plain, packed) = (totals(&plain)?, totals(&packed)?);
    assert_eq!(plain["roce_packets"], 60_000);
    assert_eq!(plain, packed, "compression changes nothing");
    Ok(())
}

/// Frames so long that two threads replay the file alternately, each with the part that it has read.
#[test]
fn processors_do_not_change_the_report_of_whole_frames() -> Result<()> {
    const RECORD: usize = 16 + 14 + 20 + 8 + 12 + 4096 + 4;
    let folder = tempfile::tempdir()?;
    let write = |name: &str, bytes: &[u8]| -> Result<PathBuf> {
        let path = folder.path().join(name);
        fs::write(&path, bytes)?;
        Ok(path)
    };
    let whole = capture(12_000, 7, 4096, 262_144);
    ensure!(whole.len() == 24 + 12_000 * RECORD, "records of {} bytes", (whole.len() - 24) / 12_000);
    let first = write("whole.pcap", &whole)?;
    same_on_one_and_all(std::slice::from_ref(&first))?;
    same_with(
        std::slice::from_ref(&first),
        &["--output", "jsonl", "--interval", "100us", "--idle", "200us"],
    )?;
    assert_eq!(totals(&first)?["roce_packets"], 12_000);

    // The next file of the same tap begins in the middle of a thread's part.
    let both = [&whole[..24], &whole[24 + 3000 * RECORD..]].concat();
    let second = write("whole.pcap1", &both)?;
    let tap = format!("leaf={},{}", first.display(), second.display());
    same_with(&[], &["--output", "json", "--tap", &tap])?;
    // Two taps are not replayed alternately.
    same_on_one_and_all(&[first, second])?;

    let cut = write("cut.pcap", &whole[..24 + 10_000 * RECORD + 700])?;
    same_on_one_and_all(std::slice::from_ref(&cut))?;
    assert_eq!(totals(&cut)?["roce_packets"], 10_000);

    let mut broken = whole.clone();
    broken[24 + 9000 * RECORD + 8..][..4].fill(0xFF);
    let broken = write("broken.pcap", &broken)?;
    same_on_one_and_all(std::slice::from_ref(&broken))?;
    let text = String::from_utf8(report(&[broken], &JSON, false)?)?;
    assert!(text.contains("(9000)"), "all records before the damage");

    // The start of such a record does not fit before the part that contains its end.
    let mut pcap = Pcap::with_snap_len(Order::Little, true, ETHERNET, 262_144);
    for number in 0..9200_u32 {
        let size = if number < 9000 { 1500 } else { 40_000 + number as usize };
        pcap.packet(START_NS + u64::from(number), &vec![0x5A; size]);
    }
    let large = write("large.pcap", &pcap.finish())?;
    same_on_one_and_all(std::slice::from_ref(&large))?;
    assert_eq!(totals(&large)?["packets"], 9200);

    let mut pcapng = PcapNg::new(Order::Big);
    pcapng.interface(Some("eth0"), ETHERNET, None);
    for number in 0..10_000_u32 {
        let transport = Transport::new(WRITE_MIDDLE, 0x11, number).payload(vec![0x5A; 2048]);
        let packet = Net::v4([10, 1, 0, 1], [10, 2, 0, 1]).tos(2).roce(50_000, &transport);
        let frame = craft::ethernet(Mac::SRC, Mac::DST, &packet);
        pcapng.packet(0, START_NS + u64::from(number) * 1000, &frame, None);
    }
    let pcapng = write("whole.pcapng", &pcapng.finish())?;
    same_on_one_and_all(std::slice::from_ref(&pcapng))?;
    assert_eq!(totals(&pcapng)?["roce_packets"], 10_000);
    Ok(())
}

/// All metrics, in captures long enough for a metrics thread: real ones repeated, with samples taken and flows
/// retired in between.
#[test]
fn processors_do_not_change_figures_that_are_made_beside_the_counting() -> Result<()> {
    const FILE_HEADER: usize = 24;
    let folder = tempfile::tempdir()?;
    let mut tried = 0;
    for capture in captures::own()? {
        let bytes = fs::read(&capture)?;
        let name = capture.file_name().context("no name")?;
        if !bytes.starts_with(&[0xD4, 0xC3, 0xB2, 0xA1]) || !name.to_string_lossy().contains(".h") {
            continue;
        }
        let path = folder.path().join(name);
        let mut file = io::BufWriter::new(fs::File::create(&path)?);
        file.write_all(&bytes[..FILE_HEADER])?;
        // Records shorter than 200 bytes on average: some 40,000 of them.
        for _ in 0..8_000_000usize.div_ceil(bytes.len()) {
            file.write_all(&bytes[FILE_HEADER..])?;
        }
        file.into_inner()?;
        same_on_one_and_all(std::slice::from_ref(&path))?;
        same_with(std::slice::from_ref(&path), &["--output", "jsonl", "--interval", "10s", "--idle", "1s"])?;
        tried += 1;
    }
    ensure!(tried > 3, "only {tried} captures are of this kind");
    Ok(())
}

/// Invalid data far after the point from which the file is read ahead.
fn damaged(path: &Path, mut capture: Vec<u8>) -> Result<()> {
    let record = 16 + 96;
    let at = 24 + 50_000 * record + 8;
    capture[at..at + 4].fill(0xFF);
    fs::write(path, capture)?;
    same_on_one_and_all(&[path.to_owned()])?;
    let text = String::from_utf8(report(&[path.to_owned()], &JSON, false)?)?;
    assert!(
        text.contains(&format!("damaged at byte {}", at - 8)),
        "{}",
        &text[text.len().saturating_sub(400)..]
    );
    assert!(text.contains("(50000)"), "all records before it");
    Ok(())
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn totals(file: &Path) -> Result<Value> {
    let report = binary::replay(&[file.to_owned()], [] as [&str; 0])?;
    Ok(report["totals"].clone())
}
