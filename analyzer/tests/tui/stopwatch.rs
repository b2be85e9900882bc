//! How long it takes to read the answers: is it healthy, what, where, since when, who, what to do.
//!
//! A person reads from the top, 240 words a minute: the time of an answer is that of all words up to its end. What to
//! do stands on the page that Enter opens, where the eye goes down to the title DO NEXT, a line as fast as a word.

use std::fmt::Write as _;

use super::*;
use rocescope::findings::Finding;
use rocescope::source::demo::scenario::{Episode, Scenario, WATCHED};
use rocescope::util::units;

/// Words read in a second.
const WORDS: usize = 4;
/// Wanted of each answer, in seconds.
const LIMIT: usize = 10;
const TOO_LONG: usize = LIMIT + 1;
const SIZES: [(u16, u16); 2] = [USUAL, (160, 48)];
const BEGIN: &str = "<!-- the test `stopwatch` makes this table -->\n";
const END: &str = "<!-- end of the table -->\n";

/// A state, and words of the diagnosis that is right; none where nothing is wrong.
struct Case {
    name: &'static str,
    right: Option<&'static str>,
    app: App,
}

fn cases() -> Vec<Case> {
    let updates = sizes::cycle(WATCHED);
    let length = Scenario::new(1, WATCHED).episode_length().as_secs();
    let right = [None, Some("ECN congestion"), Some("Loss upstream"), Some("not ready"), Some("Uneven load")];
    let names =
        ["demo: healthy", "demo: congestion", "demo: loss", "demo: slow receiver", "demo: bad hashing"];
    let mut all = Vec::new();
    // Three quarters into each episode.
    for (number, ((name, right), _)) in (0..).zip(names.into_iter().zip(right).zip(Episode::ALL)) {
        let app = sizes::until(&updates, length * number + length * 3 / 4);
        all.push(Case { name, right, app });
    }
    let captures: [(&str, &str, &[&str]); 6] = [
        ("loss between two taps", "Loss between", &["e1_loss1.h0.pcap.gz", "e1_loss1.h1.pcap.gz"]),
        ("ECN marking by RED", "ECN congestion", &["f1_ecn_red.h1.pcap.gz"]),
        ("receiver not ready", "not ready", &["g_rnr.h0.pcap"]),
        ("two uplinks", "Uneven load", &["k1_ecmp_ring.uA0.pcap.gz", "k1_ecmp_ring.uA1.pcap.gz"]),
        ("remote access error", "Remote access error", &["g_badrkey.h0.pcap"]),
        ("corrupted packets", "ICRC", &["e5_corrupt_full.h1.pcap"]),
    ];
    for (name, right, files) in captures {
        all.push(Case { name, right: Some(right), app: overview::replayed_together(files, USUAL) });
    }
    all
}

/// The words of a picture in the order of reading, without what is drawn.
fn words(text: &str) -> Vec<&str> {
    let bare = |word: &'_ str| word.chars().any(char::is_alphanumeric);
    text.split_whitespace().filter(|word| bare(word)).collect()
}

/// When an answer is read.
#[derive(Clone, Copy, Debug)]
enum Answer {
    NotAsked,
    Missing,
    /// Seconds.
    After(usize),
}

impl From<Option<usize>> for Answer {
    fn from(seconds: Option<usize>) -> Self {
        seconds.map_or(Self::Missing, Self::After)
    }
}

/// Seconds for words.
const fn seconds(words: usize) -> usize {
    words.div_ceil(WORDS)
}

/// A picture below its title, which is read too.
struct Read<'a> {
    title: usize,
    words: Vec<&'a str>,
}

impl<'a> Read<'a> {
    fn new(picture: &'a str) -> Self {
        let (title, rest) = picture.split_once('\n').unwrap();
        Self { title: words(title).len(), words: words(rest) }
    }

    /// Seconds until the end of the first place where these words stand one after the other.
    fn until(&self, phrase: &str) -> Option<usize> {
        let phrase = words(phrase);
        let at = self.words.windows(phrase.len().max(1)).position(|some| some == phrase)?;
        Some(seconds(self.title + at + phrase.len()))
    }

    /// The same of the first word that is one of these, without marks around it.
    fn until_any(&self, wanted: &[String]) -> Answer {
        let is = |word: &&str| {
            let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
            wanted.iter().any(|one| one == bare)
        };
        if wanted.is_empty() {
            return Answer::NotAsked;
        }
        self.words.iter().position(is).map(|at| seconds(self.title + at + 1)).into()
    }
}

/// The name of a tap as screens show it.
fn shown(name: &str) -> String {
    name.trim_end_matches(".gz").trim_end_matches(".pcap").to_owned()
}

/// Each answer about a problem.
fn answers(app: &mut App, finding: &Finding) -> [Answer; 6] {
    let picture = text(app);
    let read = Read::new(&picture);
    let ends = [&finding.requester, &finding.responder].into_iter().flatten();
    let mut hosts: Vec<String> = ends.map(|end| end.addr.to_string()).collect();
    let pairs: std::collections::BTreeSet<_> =
        finding.flows.iter().map(|flow| (flow.src, flow.dst)).collect();
    if let (true, 1, Some((src, dst))) = (hosts.is_empty(), pairs.len(), pairs.first()) {
        hosts.extend([src.to_string(), dst.to_string()]);
    }
    let place = &finding.place;
    let hop = place.hop.iter().flat_map(|hop| hop.split([' ', '→', '↔']));
    let places = [&place.link, &place.tap].into_iter().flatten().map(String::as_str).chain(hop);
    let mut places: Vec<String> = places.filter(|name| !name.is_empty()).map(shown).collect();
    // A problem of a host is at that host, wherever it is seen.
    let end = match place.hop.as_deref() {
        Some("requester") => finding.requester.as_ref(),
        Some("responder") => finding.responder.as_ref(),
        _ => None,
    };
    if let Some(end) = end {
        places = vec![end.addr.to_string()];
    }
    let since = finding.since_ns().map(|ns| [units::second_utc(ns), units::clock_utc(ns)]);
    let since: Vec<String> = since.into_iter().flatten().collect();
    // The badge is the first word below the title.
    let first = [
        Answer::After(seconds(read.title + 1)),
        read.until(&finding.title).into(),
        read.until_any(&places),
        read.until_any(&since),
        read.until_any(&hosts),
    ];
    press(app, &[Key::Enter]);
    let page = text(app);
    let above = page.lines().position(|line| line.contains("DO NEXT"));
    let step = finding.steps.first().map(|step| words(&step.text).len());
    let step = above.zip(step).map(|(lines, words)| seconds(lines + 2 + words));
    let [healthy, what, place, since, who] = first;
    [healthy, what, place, since, who, step.into()]
}

#[test]
fn every_answer_is_read_within_ten_seconds() {
    let mut table = String::from(
        "| | size | healthy? | what | where | since | who | what to do |\n|---|---|---|---|---|---|---|---|\n",
    );
    let mut slow = Vec::new();
    for Case { name, right, mut app } in cases() {
        for size in SIZES {
            press(&mut app, &[Key::Char('1')]);
            app.on_resize(size.0, size.1);
            let worst = app.view.verdict().and_then(|verdict| verdict.worst.cloned());
            let found = match (&worst, right) {
                (Some(finding), Some(right)) => {
                    assert!(finding.title.contains(right), "{name}: {}\n{}", finding.title, text(&app));
                    answers(&mut app, finding)
                }
                (None, None) => {
                    assert!(text(&app).contains("● HEALTHY"), "{name}: {}", text(&app));
                    let picture = text(&app);
                    let healthy = Read::new(&picture).until("HEALTHY").into();
                    let rest = Answer::NotAsked;
                    [healthy, rest, rest, rest, rest, rest]
                }
                _ => panic!("{name}: {}", text(&app)),
            };
            let _ = write!(table, "| {name} | {}x{} |", size.0, size.1);
            for answer in found {
                let shown = match answer {
                    Answer::NotAsked => String::new(),
                    Answer::Missing => " –".to_owned(),
                    Answer::After(seconds) => format!(" {seconds}"),
                };
                if matches!(answer, Answer::Missing | Answer::After(TOO_LONG..)) {
                    slow.push(format!("{name} at {size:?}: {found:?}"));
                }
                let _ = write!(table, "{shown} |");
            }
            table.push('\n');
        }
    }
    slow.dedup();
    println!("{table}");
    assert!(slow.is_empty(), "not read within {LIMIT} s: {slow:#?}");
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/testing.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (before, rest) = document.split_once(BEGIN).expect("the table begins");
    let (_, after) = rest.split_once(END).expect("the table ends");
    document::check("testing.md", &format!("{before}{BEGIN}{table}{END}{after}"));
}
