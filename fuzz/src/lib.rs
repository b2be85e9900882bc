//! Helpers shared by the targets: seeds from the test data, and checks of samples.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Once, OnceLock};
use std::{env, fs, panic, process};

use rocescope::record::cell::{Cell, CellKind};
use rocescope::record::table::Row;
use rocescope::report::{self, Options, Report};
use rocescope::sample::Sample;
use rocescope::source::feed::Update;
use rocescope::source::replay;
use serde_json::Value;

/// Maximum length of seeds: longer ones slow a target down more than they help.
pub const LONGEST: usize = 32 << 10;

/// Writes the seeds of a target to the folder `ROCESCOPE_FUZZ_SEEDS`, and ends the program; without the variable it
/// does nothing.
pub fn seeds(make: impl FnOnce() -> Vec<Vec<u8>>) {
    let Some(folder) = env::var_os("ROCESCOPE_FUZZ_SEEDS").map(PathBuf::from) else { return };
    let write = |(number, seed): (usize, &Vec<u8>)| fs::write(folder.join(format!("seed-{number:03}")), seed);
    let seeds = make();
    let written = fs::create_dir_all(&folder).and_then(|()| seeds.iter().enumerate().try_for_each(write));
    if let Err(error) = written {
        eprintln!("cannot write seeds to {}: {error}", folder.display());
        process::exit(1);
    }
    process::exit(0);
}

/// For targets that read Parquet: panics inside a dependency are caught where a file is read; all others are
/// findings.
pub fn own_panics_abort() {
    panic::set_hook(Box::new(|found| {
        let place = found.location().map(|place| place.file().to_owned()).unwrap_or_default();
        if !place.contains("/registry/src/") && !place.starts_with("/rustc/") {
            eprintln!("{found}");
            process::abort();
        }
    }));
}

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of this crate has a parent")
}

/// The files of the test data with one of these suffixes, smallest first.
pub fn files(ends: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(&root().join("tests/data"), &mut found);
    found.retain(|(_, path)| ends.iter().any(|end| path.to_string_lossy().ends_with(end)));
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

fn walk(folder: &Path, found: &mut Vec<(u64, PathBuf)>) {
    for entry in fs::read_dir(folder).expect("the test data is there").flatten() {
        let path = entry.path();
        match entry.metadata() {
            Ok(about) if about.is_dir() => walk(&path, found),
            Ok(about) => found.push((about.len(), path)),
            Err(_) => {}
        }
    }
}

/// The captures of the test data.
pub fn captures() -> Vec<PathBuf> {
    files(&[".pcap", ".pcapng", ".pcap.gz"])
}

/// The last sample of a replay.
///
/// # Panics
/// If the capture cannot be replayed.
pub fn sample(capture: &Path) -> Box<Sample> {
    let options = replay::Options { files: vec![capture.to_owned()], ..replay::Options::default() };
    let feed = replay::start(options).expect("the capture can be opened");
    let mut last = None;
    for update in &feed.updates {
        match update {
            Update::Sample(sample) => last = Some(sample),
            Update::Ended(_) => break,
            _ => {}
        }
    }
    last.expect("a replay ends with a sample")
}

/// A sample with losses, latencies and marks on few flows.
pub fn usual() -> &'static Sample {
    static USUAL: OnceLock<Sample> = OnceLock::new();
    USUAL.get_or_init(|| *sample(&root().join("tests/data/h6_rping_loss.h0.pcap.gz")))
}

/// Evaluates a sample as every view does: report, text and JSON, which is returned. The text must contain no terminal
/// control.
///
/// # Panics
/// If a property does not hold.
pub fn judge(sample: &Sample, options: &Options) -> Value {
    let report = Report::build(sample, options);
    speakable(&report::text::text(&report, 80));
    let mut json = Vec::new();
    report::json::write(&report, &mut json).expect("a vector takes everything");
    let value: Value = serde_json::from_slice(&json).expect("a report is JSON");
    assert_eq!(value["schema"], report::SCHEMA);
    value
}

/// The same as a release evaluates it, where sums of counts that no network has wrap: `None` if one exceeds 64 bits.
///
/// # Panics
/// As [`judge`], other than for an overflow.
pub fn judge_any_counts(sample: &Sample, options: &Options) -> Option<Value> {
    static TOLERANT: Once = Once::new();
    TOLERANT.call_once(|| {
        let abort = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let is_overflow = info.payload_as_str().is_some_and(|text| text.ends_with("with overflow"));
            if !is_overflow {
                abort(info);
            }
        }));
    });
    panic::catch_unwind(AssertUnwindSafe(|| judge(sample, options))).ok()
}

/// Checks that a text is safe for a terminal.
///
/// # Panics
/// If it has a control character other than a newline, or one that changes the text direction.
pub fn speakable(text: &str) {
    let turns = |c| matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let bad = text.chars().find(|c| c.is_control() && *c != '\n' || turns(*c));
    assert_eq!(bad, None, "{text:?}");
}

/// A row of any table with valid values.
pub fn row<R: Row>(number: i64) -> R {
    let mut cells = R::TABLE.columns.iter().map(|column| match (column.kind, column.name) {
        _ if column.nullable && number % 3 == 2 => Cell::Null,
        (CellKind::Time, _) => Cell::Int(1_700_000_000_000_000_000 + number * 1_000_000_000),
        (CellKind::Int, _) => Cell::Int(number % 2),
        (CellKind::Float, _) => Cell::Float(0.5),
        (CellKind::Text, "src" | "dst" | "straggler") => Cell::Text("10.0.0.1".into()),
        (CellKind::Text, "direction") => Cell::Text("ingress".into()),
        (CellKind::Text, "json" | "straggler_json") => Cell::Text("{}".into()),
        (CellKind::Text, name) => Cell::Text(name.into()),
    });
    R::of(&mut cells).unwrap_or_else(|| panic!("a row of {}", R::TABLE.name))
}
