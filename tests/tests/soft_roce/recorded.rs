//! Queue pairs in a recording: settings and lives as perftest made them, packets as they were counted.

use rocescope::record::registry::QpSecond;
use rocescope_tests::live::program::{Program, Start};
use rocescope_tests::recording::rows;
use rocescope_tests::soft_roce::lab::{self, FAR, Harm, NEAR};
use rocescope_tests::soft_roce::lives;
use rocescope_tests::soft_roce::perftest::Transfer;
use rocescope_tests::soft_roce::report::count;

use super::{DELAY, WRITE};

/// Lasts for several lists of the kernel's queue pairs, which rest for seconds on a machine as slow as an emulated one.
const LONG: Transfer = Transfer { iterations: 300, ..WRITE };

#[test]
#[ignore = "for the machine of `cargo xtask vm`"]
fn a_recording_has_the_queue_pairs_of_perftest_and_plays_them_back() {
    lab::up().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let watched = ["-i", NEAR.device, "-i", FAR.device];
    let arguments = [&["record", "--interval", "500ms", "--dir", dir], &watched[..]].concat();
    let record = Program::watching(Start::default(), &arguments).unwrap();
    let transfer = {
        let _slow = Harm::add(&[DELAY]).unwrap();
        LONG.run().unwrap()
    };
    let ended = record.interrupt().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    let played = Program::run(Start::default(), &["replay", "--output", "json", dir]).unwrap();
    let report = played.report().unwrap();
    let qps = lives::of_transfer(&report, &transfer);
    assert_eq!(qps.len() as u64, 2 * transfer.wanted.queue_pairs);
    let rows: Vec<QpSecond> = rows(folder.path()).unwrap();
    for (end, _, _, life) in qps {
        assert!(life["sources"].as_array().unwrap().contains(&"control_path".into()), "{life}");
        let own = rows.iter().filter(|row| {
            row.device.as_str() == end.device
                && row.lqpn == count(&life["lqpn"])
                && row.rqpn == life["rqpn"].as_u64()
        });
        let of = |row: &QpSecond| if end == NEAR { row.sent_packets } else { row.received_packets };
        // Packets before the kernel's first list, and after its last, are not in them.
        let moved: u64 = own.filter_map(of).sum();
        assert!(moved > 0 && moved <= transfer.packets(), "{moved} of {}: {life}", transfer.packets());
    }
}
