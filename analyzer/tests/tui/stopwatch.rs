//! How long it takes to read the answers: is it healthy, what, where, since when, how bad, who with which queue pairs
//! and process, what to do.
//!
//! A person reads from the top, 240 words a minute: the time of an answer is that of all words up to its end. What to
//! do stands on the page that Enter opens, where the eye goes down to the title DO NEXT, a line as fast as a word.

use std::fmt::Write as _;

use super::*;
use rocescope::analysis::FlowId;
use rocescope::findings::{End, Finding, Hop, Problem};
use rocescope::model::detail;
use rocescope::sample::address;
use rocescope::source::demo::scenario::{Episode, Scenario, WATCHED};
use rocescope::util::units;

/// Words read in a second.
const WORDS: usize = 4;
/// Wanted of each answer, in seconds.
const LIMIT: usize = 10;
const TOO_LONG: usize = LIMIT + 1;
/// Wanted of the answer to whether it is healthy.
const AT_ONCE: usize = 2;
const POD: &str = "llama3-70b-pretrain-job-replica0-rank-17";
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
    // Names as long as clusters make them.
    let long = sizes::in_pod(updates, POD);
    let app = sizes::until(&long, length * 2 + length * 3 / 4);
    all.push(Case { name: "demo: loss, pod of 40 letters", right: Some("Loss upstream"), app });
    let app = after(&World::ipv6(), USUAL, 12);
    all.push(Case { name: "congestion, IPv6", right: Some("ECN congestion"), app });
    let captures: [(&str, &str, &[&str]); 6] = [
        ("loss between two taps", "Loss between", &["e1_loss1.h0.pcap.gz", "e1_loss1.h1.pcap.gz"]),
        ("ECN marking by RED", "10.0.0.2 sends no CNPs", &["f1_ecn_red.h1.pcap.gz"]),
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

impl Answer {
    fn later(self, other: Self) -> Self {
        match (self, other) {
            (Self::After(a), Self::After(b)) => Self::After(a.max(b)),
            _ => Self::Missing,
        }
    }
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

/// The words of a picture. Of its title, which has the names of all links, only the badges answer anything.
struct Read<'a> {
    title: usize,
    words: Vec<&'a str>,
}

impl<'a> Read<'a> {
    fn new(picture: &'a str) -> Self {
        let title = picture.lines().next().map_or(0, |title| words(title).len());
        Self { title, words: words(picture) }
    }

    /// Seconds until the end of the first place in the title where these words stand one after the other.
    fn badge(&self, phrase: &str) -> Answer {
        Self::within(&self.words[..self.title], phrase).map(seconds).into()
    }

    /// The same below the title.
    fn until(&self, phrase: &str) -> Option<usize> {
        Some(seconds(self.title + Self::within(&self.words[self.title..], phrase)?))
    }

    /// Words until the end of a phrase.
    fn within(all: &[&str], phrase: &str) -> Option<usize> {
        let phrase = words(phrase);
        let at = all.windows(phrase.len().max(1)).position(|some| some == phrase)?;
        Some(at + phrase.len())
    }

    /// The same of the first word below the title that is one of these, without marks around it.
    fn until_any(&self, wanted: &[String]) -> Answer {
        let is = |word: &&str| wanted.iter().any(|one| names(bare(word), one));
        let below = &self.words[self.title..];
        below.iter().position(is).map(|at| seconds(self.title + at + 1)).into()
    }

    /// The same of the last of these, whatever their order; not asked where there are none.
    fn until_all(&self, wanted: &[String]) -> Answer {
        let each = wanted.iter().map(|one| self.until_any(std::slice::from_ref(one)));
        each.reduce(Answer::later).unwrap_or(Answer::NotAsked)
    }

    /// The same of the queue pairs at both ends, of which the source's may not be known.
    fn until_queue_pairs(&self, (from, to): (Option<u32>, u32)) -> Option<usize> {
        /// Words from the number of one end to that of the other: process, pod and host.
        const APART: usize = 6;
        let is = |at: usize, qp: u32| self.words.get(at).is_some_and(|word| bare(word) == qp.to_string());
        let named = |at: &usize| self.words[*at] == "QP" && is(at + 1, from.unwrap_or(to));
        let other = |at: usize| match from {
            Some(_) => (at + 2..=at + 2 + APART).find(|at| is(*at, to)),
            None => Some(at + 1),
        };
        let end = (self.title..self.words.len()).filter(named).find_map(other)?;
        Some(seconds(end + 1))
    }
}

/// True if a word is this name, or its beginning and end around a cut.
fn names(word: &str, name: &str) -> bool {
    /// Letters that tell a name from others.
    const ENOUGH: usize = 8;
    let cut = word.split_once('…');
    word == name
        || cut.is_some_and(|(head, tail)| {
            name.starts_with(head) && name.ends_with(tail) && head.len() + tail.len() >= ENOUGH
        })
}

/// A word without marks around it.
fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

/// The first figure of a sentence with the word behind it: no address, and no number of a queue pair.
fn figure(sentence: &str) -> Option<String> {
    let words = words(sentence);
    let is_number = |word: &str| bare(word).replace(',', "").parse::<f64>().is_ok();
    let is_figure = |at: &usize| is_number(words[*at]) && (*at == 0 || words[at - 1] != "QP");
    let at = (0..words.len()).find(is_figure)?;
    Some(words[at..words.len().min(at + 2)].join(" "))
}

/// The name of a tap as screens show it.
fn shown(name: &str) -> String {
    name.trim_end_matches(".gz").trim_end_matches(".pcap").to_owned()
}

/// The answers: a title of a column for each.
const ASKED: [&str; 9] =
    ["healthy?", "what", "where", "since", "how bad", "who", "which QPs", "process", "what to do"];

/// The queue pairs at both ends of what a finding names, the most affected first; and the processes and pods that the
/// data has of the first.
fn queue_pairs(app: &App, finding: &Finding) -> (Vec<(Option<u32>, u32)>, Vec<String>) {
    if let (Some(requester), Some(responder)) = (&finding.requester, &finding.responder)
        && let (Some(from), Some(to)) = (requester.qpn, responder.qpn)
    {
        let names = |end: &End| [end.comm.clone(), end.pod.clone()];
        return (
            vec![(Some(from), to)],
            [requester, responder].into_iter().flat_map(names).flatten().collect(),
        );
    }
    let data = app.view.data.as_ref().unwrap();
    let row = |flow: &FlowId| {
        data.model.rows.iter().find(|row| {
            let key = &row.id.key;
            let ends = (address(key.family, key.src), address(key.family, key.dst), key.dest_qp);
            ends == (flow.src, flow.dst, flow.dest_qp)
        })
    };
    let pair =
        |flow: &FlowId| (row(flow).and_then(|row| detail::peer_qp(&data.sample, row.at?)), flow.dest_qp);
    let first = finding.flows.first().and_then(row);
    let owner = first.and_then(|row| data.context().owner(row));
    let names = owner.map(|owner| [owner.comm.clone(), owner.pod.clone()]);
    (finding.flows.iter().map(pair).collect(), names.into_iter().flatten().flatten().collect())
}

/// Names of the place of a problem.
fn places(finding: &Finding) -> Vec<String> {
    let place = &finding.place;
    // A problem of a host is at that host, wherever it is seen.
    let end = match &place.hop {
        Some(Hop::Requester) => finding.requester.as_ref(),
        Some(Hop::Responder) => finding.responder.as_ref(),
        _ => None,
    };
    if let Some(end) = end {
        return vec![end.addr.to_string()];
    }
    let hop = match &place.hop {
        Some(Hop::Between { from, to, .. }) => vec![from.as_str(), to],
        hop => hop.iter().filter_map(Hop::side).collect(),
    };
    let places = [&place.link, &place.tap].into_iter().flatten().map(String::as_str).chain(hop);
    places.map(shown).collect()
}

/// Hosts of a problem: its ends, or those of its most affected flow.
fn hosts(finding: &Finding) -> Vec<String> {
    let ends = [&finding.requester, &finding.responder].into_iter().flatten();
    let hosts: Vec<String> = ends.map(|end| end.addr.to_string()).collect();
    if !hosts.is_empty() {
        return hosts;
    }
    finding.flows.iter().take(1).flat_map(|flow| [flow.src.to_string(), flow.dst.to_string()]).collect()
}

/// Each answer about a problem.
fn answers(app: &mut App, finding: &Finding) -> [Answer; ASKED.len()] {
    let picture = text(app);
    let read = Read::new(&picture);
    let kind = Problem::of(finding).unwrap();
    let badges = [kind.badge(), kind.word()].map(|badge| read.badge(badge));
    let healthy = badges.into_iter().find(|badge| matches!(badge, Answer::After(_)));
    let since = finding.since_ns().map(|ns| [units::second_utc(ns), units::clock_utc(ns)]);
    let since: Vec<String> = since.into_iter().flatten().collect();
    let since = if since.is_empty() { Answer::NotAsked } else { read.until_any(&since) };
    // Where the title is without a figure, the cost has one.
    let end = app.view.data_end(None);
    let impact = finding.fields(end).into_iter().find(|(label, _)| *label == "Impact");
    let cost = || impact.iter().flat_map(|(_, text)| text.split(" · ")).filter_map(figure);
    let bad = figure(&finding.title)
        .map_or_else(|| cost().filter_map(|one| read.until(&one)).min(), |figure| read.until(&figure));
    let (pairs, names) = queue_pairs(app, finding);
    let pairs = pairs.into_iter().filter_map(|pair| read.until_queue_pairs(pair)).min();
    let first = [
        healthy.unwrap_or(Answer::Missing),
        read.until(&finding.title).into(),
        read.until_any(&places(finding)),
        since,
        bad.into(),
        read.until_any(&hosts(finding)),
        pairs.into(),
        read.until_all(&names),
    ];
    press(app, &[Key::Enter]);
    let page = text(app);
    let above = page.lines().position(|line| line.contains("DO NEXT"));
    let step = finding.steps.first().map(|step| words(&step.text).len());
    let step = above.zip(step).map(|(lines, words)| seconds(lines + 2 + words));
    let [healthy, what, place, since, bad, who, pairs, process] = first;
    [healthy, what, place, since, bad, who, pairs, process, step.into()]
}

#[test]
fn every_answer_is_read_within_ten_seconds() {
    let columns = ASKED.len();
    let mut table = format!("| | size | {} |\n|---|---|{}\n", ASKED.join(" | "), "---|".repeat(columns));
    let mut slow = Vec::new();
    for Case { name, right, mut app } in cases() {
        for size in SIZES {
            press(&mut app, &[Key::Char('1')]);
            app.on_resize(size.0, size.1);
            let worst = app.view.verdict().and_then(|verdict| verdict.headline.cloned());
            let found = match (&worst, right) {
                (Some(finding), Some(right)) => {
                    assert!(finding.title.contains(right), "{name}: {}\n{}", finding.title, text(&app));
                    answers(&mut app, finding)
                }
                (None, None) => {
                    assert!(text(&app).contains("● HEALTHY"), "{name}: {}", text(&app));
                    let picture = text(&app);
                    let mut all = [Answer::NotAsked; ASKED.len()];
                    all[0] = Read::new(&picture).badge("HEALTHY");
                    all
                }
                _ => panic!("{name}: {}", text(&app)),
            };
            let _ = write!(table, "| {name} | {}x{} |", size.0, size.1);
            if !matches!(found[0], Answer::After(..=AT_ONCE)) {
                slow.push(format!("{name} at {size:?} is not seen at once: {found:?}"));
            }
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
