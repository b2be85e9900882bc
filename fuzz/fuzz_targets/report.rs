//! Any two documents as reports to be compared by `diff`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocescope::diff::{Verdict, diff, text};
use rocescope::util::style::Paint;
use rocescope_fuzz::{LONGEST, files, seeds, speakable};
use serde_json::Value;

/// Separator of the two documents, which does not occur in JSON.
const BETWEEN: u8 = 0;

/// Golden reports, each with itself and with the next one.
fn made() -> Vec<Vec<u8>> {
    let minified = |path| -> Option<Vec<u8>> {
        let value: Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        serde_json::to_vec(&value).ok().filter(|bytes| bytes.len() <= LONGEST / 2)
    };
    let all: Vec<Vec<u8>> =
        files(&[".pcap.json", ".pcapng.json", ".gz.json"]).into_iter().filter_map(minified).collect();
    let pair = |(a, b): (&Vec<u8>, &Vec<u8>)| [a.as_slice(), b.as_slice()].join(&BETWEEN);
    all.iter().zip(all.iter().cycle().skip(1)).map(pair).collect()
}

fuzz_target!(init: seeds(made), |input: &[u8]| {
    let mut documents = input.split(|byte| *byte == BETWEEN).map(serde_json::from_slice::<Value>);
    let Some(Ok(a)) = documents.next() else { return };
    let b = documents.next().and_then(Result::ok).unwrap_or_else(|| a.clone());
    for (a, b) in [(&a, &b), (&b, &a)] {
        let diff = diff(("a", a), ("b", b));
        speakable(&text(&diff, 80, Paint::PLAIN));
        serde_json::to_string(&diff).expect("a comparison is JSON");
    }
    let same = diff(("a", &a), ("a", &a));
    for change in &same.metrics {
        assert!(matches!(change.verdict, None | Some(Verdict::Same)), "{change:?}");
    }
    for finding in &same.findings {
        assert!(matches!(finding.verdict, None | Some(Verdict::Same)), "{finding:?}");
    }
    assert!(same.hosts.is_empty(), "{:?}", same.hosts);
});
