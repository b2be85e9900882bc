//! Any bytes as a Parquet file of a recording: its rows, and its playback.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use rocescope::record::parquet::{decode, encode};
use rocescope::record::registry::{
    DeviceSecond, Event, Finding, FlowRollup, FlowSecond, Host, LinkSecond, QpLife, QpSecond, Step,
};
use rocescope::record::table::Row;
use rocescope::report::Options;
use rocescope::source::feed::Update;
use rocescope::source::recording;
use rocescope::source::replay::Emit;
use rocescope_fuzz::{judge, own_panics_abort, row, seeds};

fn file<R: Row>(rows: i64) -> Vec<u8> {
    encode(&(0..rows).map(row::<R>).collect::<Vec<_>>()).expect("rows can be encoded")
}

fn made() -> Vec<Vec<u8>> {
    let mut all = vec![file::<FlowSecond>(0)];
    for rows in [1, 7] {
        all.extend([
            file::<FlowSecond>(rows),
            file::<FlowRollup>(rows),
            file::<LinkSecond>(rows),
            file::<DeviceSecond>(rows),
        ]);
        all.extend([
            file::<QpSecond>(rows),
            file::<QpLife>(rows),
            file::<Event>(rows),
            file::<Finding>(rows),
            file::<Step>(rows),
            file::<Host>(rows),
        ]);
    }
    all
}

/// Rows that are read are rows that can be written, and are the same then, those of one time in any order. True when
/// the file has some.
fn read<R: Row>(bytes: &[u8]) -> bool {
    let cells = |rows: &[R]| {
        // Text, since a float that is no number is not equal to itself.
        let of = |row: &R| {
            let mut cells = Vec::new();
            row.cells(&mut |cell| cells.push(format!("{cell:?}")));
            cells
        };
        let mut all: Vec<Vec<String>> = rows.iter().map(of).collect();
        all.sort_unstable();
        all
    };
    let Ok(rows) = decode::<R>(bytes.to_vec().into()) else { return false };
    let written = encode(&rows).expect("rows that were read can be written");
    let again = decode::<R>(written.into()).expect("what was written can be read");
    assert_eq!(cells(&rows), cells(&again));
    !rows.is_empty()
}

/// Plays the file as `replay` does.
fn play(bytes: &[u8]) {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let path = PATH
        .get_or_init(|| std::env::temp_dir().join(format!("rocescope-fuzz-{}.parquet", std::process::id())));
    std::fs::write(path, bytes).expect("the folder for temporary files can be written");
    let (path, host, from, to, speed, emit) = (path.clone(), None, None, None, f64::INFINITY, Emit::AtEnd);
    let Ok(feed) = recording::start(recording::Options { path, host, from, to, speed, emit }) else { return };
    let mut ended = false;
    for update in &feed.updates {
        match update {
            Update::Sample(sample) => drop(judge(&sample, &Options::default())),
            Update::Ended(_) => {
                ended = true;
                break;
            }
            _ => {}
        }
    }
    assert!(ended, "the playback ended without an update: its thread panicked");
}

fn init() {
    own_panics_abort();
    seeds(made);
}

fuzz_target!(init: init(), |bytes: &[u8]| {
    let flows = read::<FlowSecond>(bytes);
    let mut any = flows;
    any |= read::<LinkSecond>(bytes) | read::<DeviceSecond>(bytes) | read::<Event>(bytes) | read::<Finding>(bytes);
    any |= read::<QpSecond>(bytes) | read::<QpLife>(bytes);
    let _others = read::<FlowRollup>(bytes) | read::<Step>(bytes) | read::<Host>(bytes);
    if any {
        play(bytes);
    }
});
