//! Any bytes as the output of NCCL's RAS service: the dialogue, responses in both formats, events, and the resulting
//! report.
#![no_main]

use std::io::{self, Read, Write};
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use rocescope::entity::nccl::Answer;
use rocescope::report::Options;
use rocescope::sample::Sample;
use rocescope::source::nccl::track::Track;
use rocescope::source::nccl::{dialogue, json, text};
use rocescope_fuzz::{judge, root, seeds, speakable};

/// Returns the given bytes, whatever the request.
struct Service<'a>(&'a [u8]);

impl Read for Service<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0.read(to)
    }
}

impl Write for Service<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        Ok(from.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The dialogues of the tests: raw strings of `server.rs`, and the words around them.
fn made() -> Vec<Vec<u8>> {
    let source =
        std::fs::read_to_string(root().join("analyzer/src/source/nccl/server.rs")).expect("it is there");
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for (open, close) in [("r#\"", "\"#"), (" = \"\\\n", "\";"), (" = \"", "\";")] {
        for part in source.split(open).skip(1) {
            let Some((document, _)) = part.split_once(close) else { continue };
            let document = document.replace("\\n\\\n", "\n").replace("\\n", "\n");
            for before in [
                "",
                "SERVER PROTOCOL 2\nOK\n",
                "SERVER PROTOCOL 2\nERROR: no\n",
                "SERVER PROTOCOL 3\nOK\nOK\n",
            ] {
                seeds.push([before, &document, "\n"].concat().into_bytes());
            }
        }
    }
    // Also the recorded ones, without the client's lines.
    for file in std::fs::read_dir(root().join("tests/data/ras")).expect("it is there").flatten() {
        let text = std::fs::read_to_string(file.path()).unwrap_or_default();
        let said = text.split_inclusive('\n').filter(|line| !line.starts_with("> "));
        seeds.push(said.collect::<String>().into_bytes());
    }
    assert!(seeds.len() > 8, "the tests have dialogues");
    seeds
}

/// Two responses of one job, as a report shows them.
fn report(answer: Answer, event: Option<rocescope::entity::nccl::Event>) {
    let mut track = Track::new("localhost:28028".to_owned(), 1_000_000_000);
    track.answered(answer.clone(), 5_000_000_000);
    track.answered(answer, 65_000_000_000);
    event.into_iter().for_each(|event| track.happened(event));
    let nccl = Some(Arc::new(track.known()));
    let window = Some((1_000_000_000, 65_000_000_000));
    let _report =
        judge(&Sample { time_ns: 65_000_000_000, window, nccl, ..Sample::default() }, &Options::default());
}

fuzz_target!(init: seeds(made), |input: &[u8]| {
    match dialogue::status(Service(input)) {
        Ok(answer) => report(answer, None),
        Err(trouble) => speakable(&trouble.to_string()),
    }
    if let Ok(mut events) = dialogue::monitor(Service(input)) {
        while let Ok(Some(event)) = events.next(|| 9) {
            assert!(!event.event.chars().any(char::is_control));
        }
    }
    let event = json::event(input, 9);
    if let Ok(answer) = json::answer(input) {
        report(answer, event.clone());
    }
    let answer = text::answer(input);
    let lines = input.split(|byte| *byte == b'\n').count() as u64;
    assert!(answer.not_understood <= lines);
    report(answer, event);
});
