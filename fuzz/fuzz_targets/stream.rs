//! Any bytes as the stream from an agent to `live --attach`, and the report of a resulting sample.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use rocescope::report::Options;
use rocescope::sample::Sample;
use rocescope::sample::stream::{Frame, Hello};
use rocescope::util::pack::{packed, unpacked};
use rocescope_fuzz::{LONGEST, captures, judge_any_counts, sample, seeds};

/// Samples of the test captures, and frames of the other kinds.
fn made() -> Vec<Vec<u8>> {
    let small =
        [Frame::Notice("a".to_owned()), Frame::LeftOut { readings: 1, events: 300 }, Frame::Ended(None)];
    let samples = captures().into_iter().map(|path| Frame::Sample(sample(&path).into()));
    let all = small
        .into_iter()
        .chain([Frame::Sample(Arc::default()), Frame::Events(Arc::default())])
        .chain(samples);
    all.filter_map(|frame| frame.bytes()).filter(|bytes| bytes.len() <= LONGEST).collect()
}

fuzz_target!(init: seeds(made), |input: &[u8]| {
    let _hello = serde_json::from_slice::<Hello>(input);
    let mut rest = input;
    while let Ok(Some(bytes)) = Frame::read(&mut rest) {
        let Ok(frame) = unpacked::<Frame>(&bytes) else { break };
        // Maps are unordered, so the re-encoded sample is compared by its length and report.
        let bytes = packed(&frame);
        let again = unpacked::<Frame>(&bytes).expect("what was packed can be read");
        assert_eq!(packed(&again).len(), bytes.len());
        if let (Frame::Sample(sample), Frame::Sample(again)) = (frame, again) {
            let of = |sample: &Sample| judge_any_counts(sample, &Options::default());
            assert_eq!(of(&sample), of(&again));
        }
    }
});
