//! The words of docs/terms.md in everything that a person reads.
//!
//! [`BANNED`] lists phrases that a network engineer has to decode, each with the standard term. They are looked for in
//! [`SCOPES`]; [`ALLOWED`] has the exceptions, each with its reason.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use rocescope::report::{Options, Report, text};
use rocescope::source::feed::Update;
use rocescope::source::replay;

#[path = "support/source.rs"]
#[allow(dead_code, missing_docs, unreachable_pub, reason = "shared with other tests")]
mod source;
use source::{Piece, files, is_test, pieces, without_tests};

/// Text before a name of [`POOR`].
const POOR_TYPE: &str = "poor type name";

/// A phrase in lower case, and what to say instead. A `*` stands for the rest of a word.
const BANNED: &[(&str, &str)] = &[
    (POOR_TYPE, "a name that is clear by itself"),
    ("sent again", "retransmitted"),
    ("send again", "retransmit"),
    ("asked again", "sequence-error NAK"),
    ("asked for again", "sequence-error NAK"),
    ("asks again", "sends a sequence-error NAK"),
    ("asks for lost", "sends a sequence-error NAK"),
    ("went back", "go-back-N"),
    ("only late", "out of order"),
    ("the begin", "the beginning"),
    ("a begin", "a beginning"),
    ("its begin", "its beginning"),
    ("came late", "out of order"),
    ("lost before it", "lost upstream"),
    ("lost behind", "lost downstream"),
    ("behind this link", "downstream of this link"),
    ("behind this tap", "downstream of this tap"),
    ("before this tap", "upstream of this tap"),
    ("what had passed", "packets seen at this tap"),
    ("what passed", "packets seen"),
    ("what came", "packets"),
    ("vanish*", "lost"),
    ("shown twice", "duplicated"),
    ("told", "reported, classified or known"),
    ("tells", "shows or reports"),
    ("is said", "is reported"),
    ("slow down", "rate reduction"),
    ("may be our own", "may be capture loss"),
    ("our own loss*", "capture loss"),
    ("timer that ran out", "timeout"),
    ("does not pass here", "not observed at this tap"),
    ("passes here", "observed at this tap"),
    ("spurt*", "flowlet"),
    ("figures are of", "time range"),
    ("of the span", "in the time range"),
    ("as good as", "equivalent to"),
    ("as often", "the number"),
    ("so many", "the number"),
    ("no word of it", "not available from this source"),
    ("unjudged", "not evaluated"),
    ("not judged", "not evaluated"),
    ("wait for the same", "straggler"),
    ("whom the others", "straggler"),
    ("and it costs", "the impact"),
    ("worth a night", "worth an on-call alert"),
    ("worked out", "computed"),
    ("set wrong", "misconfigured"),
    ("broke off", "ended unexpectedly"),
    ("is no speed", "invalid value"),
    ("more than nothing", "greater than 0"),
    ("mind:", "Caveats:"),
    ("from where on", "from which, or at least"),
    ("marked data", "CE-marked data"),
    ("needed beforehand", "requirements"),
    ("as it should be", "passed"),
    ("to look at first", "most important"),
    ("ask for again", "send a sequence-error NAK for"),
    ("ask again", "send a sequence-error NAK"),
    ("receivers ask", "receivers send sequence-error NAKs"),
    ("tell loss", "distinguish loss"),
    ("of them copies", "duplicates"),
    ("copies of packets", "duplicates"),
    ("what that costs", "the cost"),
    ("more so in", "busier in"),
    ("retries run out", "retries are exhausted"),
    ("when all goes well", "by design"),
    ("nobody sets", "not used in practice"),
    ("patient queue pair*", "longer timeouts"),
];

/// The same for what users see, in [`VISIBLE`]; comments have room for them.
const BANNED_FOR_USERS: &[(&str, &str)] = &[
    ("of it", "the noun"),
    ("resent", "retransmitted"),
    ("judged", "evaluated"),
    ("in hand", "in progress"),
    ("hands out", "returns"),
    ("says how it is", "is the verdict"),
    ("trouble*", "problem, or errors"),
];

/// Texts of [`BANNED_FOR_USERS`], and of sentences that begin as questions and are none.
const VISIBLE: &[Scope] = &[
    Scope::Literals("src"),
    Scope::Documents("../docs"),
    Scope::Document("../README.md"),
    Scope::Document("../CHANGELOG.md"),
    Scope::Document("../ARCHITECTURE.md"),
    Scope::Document("../CONTRIBUTING.md"),
    Scope::Document("../SECURITY.md"),
    Scope::Document("../fuzz/README.md"),
];

/// Words that begin a question.
const QUESTIONS: [&str; 8] = ["What", "Whether", "Who", "Whom", "How", "Where", "When", "Why"];
/// Labels of explanations, whose sentence follows.
const LABELS: [&str; 2] = ["How it is computed: ", "What to do: "];

/// Texts that are searched for the words. Add a scope when its texts are in order.
const SCOPES: &[Scope] = &[
    Scope::Literals("src"),
    Scope::Documents("../docs"),
    Scope::Document("../README.md"),
    Scope::Document("../CHANGELOG.md"),
    Scope::Document("../ARCHITECTURE.md"),
    Scope::Document("../CONTRIBUTING.md"),
    Scope::Comments("src"),
    Scope::Comments("tests"),
    Scope::Comments("../analyzer-common"),
    Scope::Comments("../analyzer-ebpf/src"),
    Scope::Literals("../xtask/src"),
    Scope::Comments("../xtask/src"),
    Scope::Comments("../tests"),
    Scope::Comments("../fuzz/fuzz_targets"),
    Scope::Document("../SECURITY.md"),
    Scope::Document("../fuzz/README.md"),
    Scope::Names("src"),
    Scope::Names("tests"),
    Scope::Names("../analyzer-common"),
    Scope::Names("../analyzer-ebpf/src"),
    Scope::Names("../tests"),
    Scope::Names("../xtask/src"),
    Scope::Names("../fuzz/fuzz_targets"),
];

/// Words that are too poor to be the name of a type, module or function by themselves.
const POOR: &[&str] = &[
    "Ahead", "Again", "Asked", "At", "Beside", "Between", "Both", "By", "Copied", "Copies", "Dead",
    "Departed", "Done", "Doubt", "Felt", "Found", "Gone", "Has", "Heard", "Held", "Job", "Judged", "Kept",
    "Kind", "Known", "Late", "Lateness", "Left", "Listed", "Look", "Low", "Many", "Moment", "Most", "News",
    "Of", "Once", "Only", "Passed", "Plain", "Resent", "Room", "Run", "Said", "Seen", "Sheet", "Shown",
    "Sight", "Slow", "Spot", "Spurt", "Stop", "Taken", "Trouble", "Turn", "Way", "What", "When", "Where",
    "Woken", "Worse", "Wrong", "Why", "again", "asked", "asks", "copies", "once", "resent", "said", "ways",
];

/// Exceptions: end of the path, phrase, reason.
const ALLOWED: &[(&str, &str, &str)] = &[];

/// Texts of one kind.
#[derive(Clone, Copy, Debug)]
enum Scope {
    /// Strings in the code below a folder, other than names.
    Literals(&'static str),
    /// Comments below a folder, those of tests too.
    Comments(&'static str),
    /// Names of modules, types, functions and constants below a folder, those of tests too.
    Names(&'static str),
    /// The Markdown files of a folder.
    Documents(&'static str),
    /// One Markdown file.
    Document(&'static str),
}

impl Scope {
    /// Its texts, each with its place.
    fn texts(self) -> Vec<(String, String)> {
        match self {
            Self::Literals(folder) => {
                let rust = files(folder, "rs").into_iter().filter(|(path, _)| !is_test(path));
                rust.flat_map(|(path, text)| self.of_rust(&path, without_tests(&text))).collect()
            }
            Self::Comments(folder) => {
                files(folder, "rs").iter().flat_map(|(path, text)| self.of_rust(path, text)).collect()
            }
            Self::Names(folder) => {
                let named = |(path, text): (String, String)| {
                    let place = |(line, name)| (format!("{path}:{line}"), words_of(name));
                    declared(&text).into_iter().map(place).collect::<Vec<_>>()
                };
                files(folder, "rs").into_iter().flat_map(named).collect()
            }
            Self::Documents(folder) => {
                files(folder, "md").iter().flat_map(|(path, text)| paragraphs(path, text)).collect()
            }
            Self::Document(file) => {
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
                paragraphs(file, &std::fs::read_to_string(path).unwrap())
            }
        }
    }

    fn of_rust(self, path: &str, text: &str) -> Vec<(String, String)> {
        let place = |line: usize| format!("{path}:{line}");
        let mut all: Vec<(usize, String)> = Vec::new();
        let mut last = 0;
        for piece in pieces(text) {
            match (self, piece) {
                (Self::Literals(_), Piece::Literal(line, value)) if value.contains(' ') => {
                    all.push((line, value));
                }
                // Lines of one comment are one text.
                (Self::Comments(_), Piece::Comment(line, value)) => {
                    match all.last_mut().filter(|_| line == last + 1) {
                        Some((_, text)) => text.extend([" ", value.as_str()]),
                        None => all.push((line, value)),
                    }
                    last = line;
                }
                _ => {}
            }
        }
        all.into_iter().map(|(line, text)| (place(line), text)).collect()
    }
}

/// Names that a file declares, each with its line.
fn declared(text: &str) -> Vec<(usize, &str)> {
    const DECLARE: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "mod", "const", "static"];
    let name_of = |line: &'_ str| -> Option<(usize, usize)> {
        let mut words = line.split_inclusive(|c: char| c.is_whitespace()).scan(0, |at, word| {
            let begin = *at;
            *at += word.len();
            Some((begin, word.trim_end()))
        });
        let first = words.find(|(_, word)| !word.is_empty())?;
        let is_prefix =
            |word: &str| word.starts_with("pub") || ["async", "unsafe", "super)", "crate)"].contains(&word);
        let mut next = Some(first);
        while next.is_some_and(|(_, word)| is_prefix(word)) {
            next = words.next();
        }
        next.filter(|(_, word)| DECLARE.contains(word))?;
        let (mut at, mut name) = words.next()?;
        // A constant function.
        if name == "fn" {
            (at, name) = words.next()?;
        }
        let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(name.len());
        (end > 0).then_some((at, at + end))
    };
    (1..)
        .zip(text.lines())
        .filter_map(|(number, line)| name_of(line).map(|(a, b)| (number, &line[a..b])))
        .collect()
}

/// A name as words: `late_nak` and `LateNak` are "late nak". A type with a name that is too poor is named as such.
fn words_of(name: &str) -> String {
    if POOR.contains(&name) {
        return format!("{POOR_TYPE} {name}");
    }
    let mut words = String::new();
    for c in name.chars() {
        if c.is_uppercase() && words.ends_with(char::is_lowercase) {
            words.push(' ');
        }
        words.push(if c == '_' { ' ' } else { c });
    }
    words
}

/// The paragraphs of a Markdown file.
fn paragraphs(path: &str, text: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut open = false;
    for (line, text) in (1..).zip(text.lines()) {
        let item = text.trim_start().starts_with(['-', '|', '#']);
        match all.last_mut().filter(|_| open && !item) {
            Some((_, paragraph)) => paragraph.extend([" ", text]),
            None => all.push((format!("{path}:{line}"), text.to_owned())),
        }
        open = !text.trim().is_empty();
    }
    all
}

/// The words of a text: lower case, one space between, without what stands in backticks, which are names.
fn words(text: &str) -> String {
    let prose: String = text.split('`').step_by(2).collect::<Vec<_>>().join(" code ");
    prose.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The banned phrases in a text, with what to say instead.
fn banned(text: &str) -> Vec<(&'static str, &'static str)> {
    banned_by(BANNED, text)
}

fn banned_by(list: &[(&'static str, &'static str)], text: &str) -> Vec<(&'static str, &'static str)> {
    let text = words(text);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let has = |phrase: &str| {
        let (phrase, open) = phrase.strip_suffix('*').map_or((phrase, false), |phrase| (phrase, true));
        text.match_indices(phrase).any(|(at, _)| {
            let after = &text[at + phrase.len()..];
            !text[..at].ends_with(|c| is_word(c) || c == '-')
                && (open || phrase.ends_with(':') || !after.starts_with(is_word))
        })
    };
    list.iter().copied().filter(|(phrase, _)| has(phrase)).collect()
}

/// Sentences that begin with a word of [`QUESTIONS`] and are no question. What has no full stop is a heading or a
/// label.
fn no_questions(text: &str) -> Vec<String> {
    let lines = text.replace("\\n", "\n");
    lines.split("\n\n").flat_map(no_questions_of_paragraph).collect()
}

fn no_questions_of_paragraph(text: &str) -> Vec<String> {
    let prose = text.split('`').step_by(2).collect::<Vec<_>>().join("code");
    let prose = prose.split_whitespace().collect::<Vec<_>>().join(" ");
    let prose = prose.trim_start_matches(|c: char| "-|#*>".contains(c) || c.is_whitespace());
    let mut found = Vec::new();
    let mut rest = LABELS.iter().fold(prose.to_owned(), |prose, label| prose.replace(label, ""));
    while let Some(end) = rest.find(['.', '?', '!']) {
        let (sentence, after) = rest.split_at(end + 1);
        // A dot within a number or a name ends nothing.
        let ends = after.is_empty() || after.starts_with([' ', '*', ')', '"']);
        if !ends {
            let next = after.find(' ').unwrap_or(after.len());
            rest = sentence[..end].to_owned() + "_" + &after[..next] + &after[next..];
            continue;
        }
        let begin = sentence.trim_start_matches(|c: char| !c.is_alphabetic());
        let word = begin.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        if QUESTIONS.contains(&word) && !sentence.ends_with('?') {
            found.push(sentence.trim().to_owned());
        }
        rest = after.to_owned();
    }
    found
}

fn allowed(place: &str, phrase: &str) -> Option<usize> {
    let file = place.rsplit_once(':').map_or(place, |(file, _)| file);
    ALLOWED.iter().position(|(path, banned, _)| file.ends_with(path) && *banned == phrase)
}

#[test]
fn texts_use_the_terms_of_the_field() {
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for (place, text) in SCOPES.iter().flat_map(|scope| scope.texts()) {
        for (phrase, instead) in banned(&text) {
            match allowed(&place, phrase) {
                Some(at) => {
                    used.insert(at);
                }
                None => wrong.push(format!("{place}: \"{phrase}\", say: {instead}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} phrases to change (docs/terms.md):\n{}", wrong.len(), wrong.join("\n"));
    let stale: Vec<_> = (0..ALLOWED.len()).filter(|at| !used.contains(at)).map(|at| ALLOWED[at]).collect();
    assert!(stale.is_empty(), "allowed, and nowhere used: {stale:?}");
}

#[test]
fn users_read_nouns_and_statements() {
    let mut wrong = Vec::new();
    // The glossary names what not to say.
    let texts =
        VISIBLE.iter().flat_map(|scope| scope.texts()).filter(|(place, _)| !place.contains("terms.md"));
    for (place, text) in texts {
        let phrases = banned_by(BANNED_FOR_USERS, &text);
        wrong
            .extend(phrases.iter().map(|(phrase, instead)| format!("{place}: \"{phrase}\", say: {instead}")));
        wrong.extend(
            no_questions(&text).into_iter().map(|sentence| format!("{place}: no question: {sentence}")),
        );
    }
    assert!(wrong.is_empty(), "{} texts to change (docs/terms.md):\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn sentences_that_begin_as_questions_are_found() {
    assert_eq!(no_questions("Packets are lost. Where, is unknown."), ["Where, is unknown."]);
    assert!(no_questions("Where are they lost? In v1.2 of the switch.").is_empty());
    assert!(no_questions("How it is computed: the ratio of 1.5. Whatever it is.").is_empty());
    assert!(no_questions("## What is new").is_empty(), "a heading");
    assert_eq!(no_questions("- What `x` is.").len(), 1);
}

#[test]
fn help_uses_the_terms_of_the_field() {
    fn helps(command: &mut clap::Command, all: &mut Vec<(String, String)>) {
        all.push((command.get_name().to_owned(), command.render_long_help().to_string()));
        command.get_subcommands_mut().for_each(|command| helps(command, all));
    }
    let mut all = Vec::new();
    helps(&mut rocescope::cli::command(), &mut all);
    assert!(all.len() > 8);
    for (command, help) in all {
        assert!(banned(&help).is_empty(), "{command} --help: {:?}", banned(&help));
    }
}

#[test]
fn explanations_use_the_terms_of_the_field() {
    for entry in rocescope::findings::entries() {
        assert!(banned(&entry.text()).is_empty(), "explain {}: {:?}", entry.id, banned(&entry.text()));
    }
}

/// The longest title that stands in a pager message.
const TITLE: usize = 80;

#[test]
fn titles_of_findings_are_short() {
    for entry in rocescope::findings::entries() {
        assert!(entry.title.chars().count() <= TITLE, "{}: {}", entry.id, entry.title);
    }
}

/// The texts of every capture of the tests.
#[test]
fn reports_of_captures_use_the_terms_of_the_field() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.contains(".pcap") {
            continue;
        }
        let options = replay::Options { files: vec![path], ..replay::Options::default() };
        let feed = replay::start(options).unwrap();
        let mut last = None;
        for update in &feed.updates {
            match update {
                Update::Sample(sample) => last = Some(sample),
                Update::Ended(result) => {
                    result.unwrap();
                    break;
                }
                _ => {}
            }
        }
        let report = Report::build(&last.unwrap(), &Options::default());
        for finding in &report.findings {
            // The name of the capture, which titles may contain, is as long as the user makes it.
            let title = finding.title.replace(&name, "rail0");
            if title.chars().count() > TITLE {
                wrong.push(format!("{name}: {} characters: {title}", title.chars().count()));
            }
        }
        let page = text::text(&report, 120);
        assert!(!page.contains('\u{1b}'), "{name}: plain text has escape sequences");
        wrong.extend(banned(&page).into_iter().map(|(phrase, _)| format!("{name}: \"{phrase}\"")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Beginnings of the last sentence of an entry of the glossary, which is its source.
const SOURCES: &str = "Here.|IBTA |A16|A17|RFC |IEEE 802.|Vendor manual|NVIDIA |DCQCN paper|Zhu |Kandula |Jain |\
                       Shannon |Hill, |Pielou, |libpcap |include/|drivers/|Kernel: |pcap(3PCAP).|tc(8).|rdma(8).|\
                       bpf-helpers(7).";

#[test]
fn entries_of_the_glossary_end_with_their_source() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/terms.md");
    let all = paragraphs("terms.md", &std::fs::read_to_string(path).unwrap());
    let entries: Vec<_> = all.into_iter().filter(|(_, text)| text.starts_with("- **")).collect();
    assert!(entries.len() > 100, "{} entries", entries.len());
    for (place, text) in entries {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace(" et al. ", " et al ");
        let last = text.rsplit(". ").next().unwrap_or_default();
        let known = SOURCES.split('|').any(|source| last.starts_with(source));
        assert!(known && last.ends_with('.'), "{place}: no source: {last}");
    }
}

/// A terminal of 80 columns shows the names of all screens in full.
#[test]
fn tabs_have_their_names_at_80_columns() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/full_overview_80x24.snap");
    let shown = std::fs::read_to_string(path).unwrap();
    let tabs = shown.lines().find(|line| line.contains("8 ")).unwrap();
    for name in ["Overview", "QPs", "Detail", "Matrix", "Links", "Bursts", "Events", "Findings"] {
        assert!(tabs.contains(name), "{name}: {tabs}");
    }
}

#[test]
fn names_are_read_as_words() {
    let names = declared(
        "pub(super) const fn asked_again() {\n    pub struct AskedAgain;\nstatic UNJUDGED: u8 = 0;\nuse fn;",
    );
    assert_eq!(names, [(1, "asked_again"), (2, "AskedAgain"), (3, "UNJUDGED")]);
    assert!(names.iter().all(|(_, name)| banned(&words_of(name)).len() == 1));
    assert_eq!((banned(&words_of("Kind")).len(), banned(&words_of("FrameKind")).len()), (1, 0));
}

#[test]
fn phrases_are_found_as_words() {
    assert_eq!(banned("4 050 Sent\n  again").len(), 1);
    assert!(banned("`vanished` is a field; presented again").is_empty());
    assert_eq!(banned("92 packets vanished")[0].1, "lost");
    let found = pieces("let a = \"x \\\n   y\"; // told\nlet b = r#\"z \" w\"#; let c = '\"';");
    let literals: Vec<&str> = found
        .iter()
        .filter_map(|piece| if let Piece::Literal(_, text) = piece { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(literals, ["x y", "z \" w"]);
    assert!(found.contains(&Piece::Comment(2, "told".into())));
}
