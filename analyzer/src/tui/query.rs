//! The filter typed at `/`: words that must all match, `field:value`, comparisons, and `!` for not.

use std::fmt::Write as _;

use rocescope_common::account::FlowKey;

use super::column::{self, Column, Context, Id};
use super::log;
use crate::model::{Identity, Kind, Row, State};
use crate::sample::address;
use crate::source::flows::owners::QpOwner;

/// What the filter understands, for the help.
pub const HELP: &[(&str, &str)] = &[
    ("10.0.1 rail0", "words, all of which occur in addresses, QP, link, state, process or pod"),
    ("peer:10.0.1", "either address begins so; also host:, and src: and dst: for one end"),
    ("qp:17", "a figure is this; any column by its name"),
    ("ce:>1%", "a figure compares: < <= > >= =, with k M G or %"),
    ("p99:>100us", "a time compares, with ns us ms s"),
    ("state:loss", "the state, link, transport, comm or pod has this in it; pid:4711 is exact"),
    ("!link:eth0", "not"),
    ("event:nak", "on the events screen: the kind; figures there are of the event's flow"),
];

/// A filter ready for use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    terms: Vec<Term>,
    /// What is wrong with the text, in a few words.
    pub error: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Term {
    not: bool,
    test: Test,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    /// Occurs anywhere; in states too, where it is part of the name of one.
    Word(String, Option<StatePart>),
    /// An address begins so: of the source, of the destination, or of either.
    Address(Option<Id>, String),
    /// A state has this in it.
    State(StatePart),
    /// The text of a column has this in it.
    Text(Id, String),
    /// A figure compares.
    Figure(Id, Op, f64),
    /// The destination queue pair compares.
    Qp(Op, f64),
    /// The kind of event.
    Event(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Less,
    LessOrEqual,
    Equal,
    MoreOrEqual,
    More,
}

impl Op {
    fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Self::Less => a < b,
            Self::LessOrEqual => a <= b,
            // What is typed has fewer digits than what is counted.
            Self::Equal => (a - b).abs() <= f64::EPSILON * b.abs(),
            Self::MoreOrEqual => a >= b,
            Self::More => a > b,
        }
    }
}

impl Query {
    /// The filter of this text; no words match everything. A term that makes no sense is left out, and
    /// `error` says so.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut query = Self::default();
        for word in text.split_whitespace() {
            let (not, rest) = word.strip_prefix('!').map_or((false, word), |rest| (true, rest));
            match test(rest) {
                Ok(found) => query.terms.push(Term { not, test: found }),
                Err(error) => query.error = Some(error),
            }
        }
        query
    }

    /// Whether everything matches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether a row is shown. `text` is its [`text`].
    #[must_use]
    pub fn row(&self, row: &Row, text: &str, cx: Context<'_>) -> bool {
        self.terms.iter().all(|term| {
            let found = match &term.test {
                Test::Word(word, state) => {
                    text.contains(word.as_str())
                        || state.as_ref().is_some_and(|state| state.is_in(row))
                        || cx.owner(row).is_some_and(|owner| owned(owner, word))
                }
                of_flow if of_flow.is_of_flows() => return term.flow(row, cx),
                Test::Address(end, with) => {
                    // The text begins with both addresses.
                    let mut words = text.split(' ');
                    let (src, dst) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
                    (*end != Some(Id::Destination) && src.starts_with(with.as_str()))
                        || (*end != Some(Id::Source) && dst.starts_with(with.as_str()))
                }
                Test::Qp(op, n) => op.holds(f64::from(row.id.key.dest_qp), *n),
                Test::Event(_) | Test::State(_) | Test::Text(..) | Test::Figure(..) => return true,
            };
            found != term.not
        })
    }

    /// Whether it asks for something that an event has not, but its flow: figures, state, link, process.
    #[must_use]
    pub fn is_of_flows(&self) -> bool {
        self.terms.iter().any(|term| term.test.is_of_flows())
    }

    /// Whether what it asks of flows holds for this one.
    #[must_use]
    pub fn flow(&self, row: &Row, cx: Context<'_>) -> bool {
        self.terms.iter().filter(|term| term.test.is_of_flows()).all(|term| term.flow(row, cx))
    }

    /// Whether an event is shown: words in its kind, flow and text; addresses, queue pair and kind by
    /// field. All else is asked of its flow: `flow` says whether that holds.
    #[must_use]
    pub fn event(&self, entry: &log::Entry, stand: &log::Stand, flow: impl Fn(&FlowKey) -> bool) -> bool {
        if self.terms.is_empty() {
            return true;
        }
        if self.is_of_flows() && !flow(&entry.key) {
            return false;
        }
        let key = &entry.key;
        let (src, dst) = (address(key.family, key.src).to_string(), address(key.family, key.dst).to_string());
        let text =
            format!("{} {src} {dst} qp{} {}", entry.class.word, key.dest_qp, stand.text).to_lowercase();
        self.terms.iter().all(|term| {
            let found = match &term.test {
                Test::Word(word, _) => text.contains(word.as_str()),
                Test::Address(end, with) => {
                    (*end != Some(Id::Destination) && src.starts_with(with.as_str()))
                        || (*end != Some(Id::Source) && dst.starts_with(with.as_str()))
                }
                Test::Qp(op, n) => op.holds(f64::from(key.dest_qp), *n),
                Test::Event(kind) => entry.class.word.to_lowercase().contains(kind.as_str()),
                Test::Text(..) | Test::State(_) | Test::Figure(..) => return true,
            };
            found != term.not
        })
    }
}

impl Test {
    /// Whether it is about what a flow has and an event has not.
    const fn is_of_flows(&self) -> bool {
        matches!(self, Self::State(_) | Self::Text(..) | Self::Figure(..))
    }
}

impl Term {
    /// Whether it holds for a flow, where it is about one.
    fn flow(&self, row: &Row, cx: Context<'_>) -> bool {
        let found = match &self.test {
            Test::State(part) => part.is_in(row),
            Test::Text(id, part) => column::cell(*id, row, cx).0.to_lowercase().contains(part.as_str()),
            // What is not known is neither more nor less, and not "not more" either.
            Test::Figure(id, op, n) => match column::value(*id, row, cx) {
                Some(value) => op.holds(value, *n),
                None => return false,
            },
            Test::Word(..) | Test::Address(..) | Test::Qp(..) | Test::Event(_) => return true,
        };
        found != self.not
    }
}

fn test(word: &str) -> Result<Test, String> {
    let lower = word.to_lowercase();
    let Some((field, value)) = lower.split_once(':') else { return Ok(word_of(lower)) };
    let end = match field {
        "host" | "peer" => Some(None),
        "src" => Some(Some(Id::Source)),
        "dst" => Some(Some(Id::Destination)),
        _ => None,
    };
    if let Some(end) = end {
        return Ok(Test::Address(end, value.to_owned()));
    }
    if field == "event" {
        return Ok(Test::Event(value.to_owned()));
    }
    // IPv6 addresses have colons too.
    let Some(Column { id, .. }) = column::by_name(field) else {
        if value.starts_with(['<', '>', '=']) {
            return Err(format!("{field}: is no column; c has their names"));
        }
        return Ok(word_of(lower));
    };
    if *id == Id::State {
        return Ok(Test::State(StatePart::new(value)));
    }
    if matches!(id, Id::Link | Id::Transport | Id::Tunnel | Id::Comm | Id::Pod) {
        return Ok(Test::Text(*id, value.to_owned()));
    }
    let ops = [
        ("<=", Op::LessOrEqual),
        (">=", Op::MoreOrEqual),
        ("<", Op::Less),
        (">", Op::More),
        ("=", Op::Equal),
    ];
    let found = ops.into_iter().find_map(|(sign, op)| Some((op, value.strip_prefix(sign)?)));
    let (op, number) = found.unwrap_or((Op::Equal, value));
    if matches!(id, Id::P50 | Id::P99) {
        let ns =
            nanoseconds(number).ok_or_else(|| format!("{field}: wants a time, such as {field}:>100us"))?;
        return Ok(Test::Figure(*id, op, ns));
    }
    let number = figure(number).ok_or_else(|| format!("{field}: wants a number, such as {field}:>10k"))?;
    Ok(if *id == Id::Qp { Test::Qp(op, number) } else { Test::Figure(*id, op, number) })
}

/// A number as people type it: `1%`, `10k`, `2.5G`, `0x11`.
fn figure(text: &str) -> Option<f64> {
    if let Some(hex) = text.strip_prefix("0x") {
        return u32::from_str_radix(hex, 16).ok().map(f64::from);
    }
    let (number, factor) = match text.chars().last()? {
        '%' => (text.strip_suffix('%')?, 0.01),
        'k' => (text.strip_suffix('k')?, 1e3),
        'm' => (text.strip_suffix('m')?, 1e6),
        'g' => (text.strip_suffix('g')?, 1e9),
        't' => (text.strip_suffix('t')?, 1e12),
        _ => (text, 1.0),
    };
    let number: f64 = number.parse().ok()?;
    number.is_finite().then_some(number * factor)
}

/// A time as people type it, in nanoseconds: `100us`, `1.5ms`.
fn nanoseconds(text: &str) -> Option<f64> {
    let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let (number, factor) = units.into_iter().find_map(|(unit, f)| Some((text.strip_suffix(unit)?, f)))?;
    let number: f64 = number.parse().ok()?;
    number.is_finite().then_some(number * factor)
}

/// Whether process, pod or device has `word` in it.
fn owned(owner: &QpOwner, word: &str) -> bool {
    [owner.comm.as_deref(), owner.pod.as_deref()]
        .into_iter()
        .flatten()
        .any(|text| text.to_lowercase().contains(word))
}

/// What words are looked for in, of a row: what of it does not change.
#[must_use]
pub fn text(id: &Identity, link: &str) -> String {
    let key = &id.key;
    let mut text = String::with_capacity(64);
    // Writing to a string cannot fail.
    let _ = write!(text, "{} {} ", address(key.family, key.src), address(key.family, key.dst));
    let _ = write!(text, "qp{} {link}", key.dest_qp);
    text.make_ascii_lowercase();
    text
}

fn word_of(word: String) -> Test {
    let state = Some(StatePart::new(&word)).filter(StatePart::is_any);
    Test::Word(word, state)
}

/// In which names of states a word occurs. It is found out once: 65,536 rows are asked at each letter typed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StatePart {
    ok: bool,
    idle: bool,
    /// By kind of problem, in the order of [`Kind::ALL`].
    kinds: [bool; Kind::ALL.len()],
    /// The same with the sign for further problems behind it.
    more: [bool; Kind::ALL.len()],
}

impl StatePart {
    fn new(word: &str) -> Self {
        let name = |kind: Kind| kind.word().to_lowercase();
        Self {
            ok: "ok".contains(word),
            idle: "idle".contains(word),
            kinds: Kind::ALL.map(|kind| name(kind).contains(word)),
            more: Kind::ALL.map(|kind| format!("{}+", name(kind)).contains(word)),
        }
    }

    fn is_any(&self) -> bool {
        self.ok || self.idle || self.kinds.contains(&true) || self.more.contains(&true)
    }

    /// Whether it occurs in the state of a row as the table shows it, or names a problem that it had.
    fn is_in(&self, row: &Row) -> bool {
        let state = State::of(row);
        let Some(worst) = state.worst else {
            return if state.active == Some(false) { self.idle } else { self.ok };
        };
        let mut kinds = Kind::ALL.iter().zip(self.kinds.iter().zip(self.more));
        kinds.any(|(kind, (plain, more))| {
            *plain && state.has(*kind) || more && state.more && *kind == worst
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_type_them() {
        for (text, number) in [("1%", 0.01), ("10k", 1e4), ("2.5g", 2.5e9), ("0x11", 17.0), ("7", 7.0)] {
            assert!((figure(text).unwrap() - number).abs() < 1e-9 * number, "{text}");
        }
        for text in ["", "k", "x", "1kk", "nan", "inf", "0x", "--1"] {
            assert_eq!(figure(text), None, "{text}");
        }
    }

    #[test]
    fn times_as_people_type_them() {
        for (text, ns) in [("100us", 1e5), ("1.5ms", 1.5e6), ("2s", 2e9), ("7ns", 7.0), ("3µs", 3e3)] {
            assert!((nanoseconds(text).unwrap() - ns).abs() < 1e-9 * ns, "{text}");
        }
        for text in ["", "us", "100", "1h", "nans"] {
            assert_eq!(nanoseconds(text), None, "{text}");
        }
        assert_eq!(Query::new("p99:>100").error.as_deref(), Some("p99: wants a time, such as p99:>100us"));
    }

    #[test]
    fn words_are_looked_for_in_states_where_they_could_be_one() {
        for (word, state) in [("lo", true), ("loss+", true), ("ok", true), ("rnr", true), ("10.0", false)] {
            let Ok(Test::Word(found, part)) = test(word) else { panic!("{word}") };
            assert_eq!((found.as_str(), part.is_some()), (word, state));
        }
    }

    #[test]
    fn terms_are_told_apart() {
        let tests =
            |text: &str| Query::new(text).terms.into_iter().map(|t| (t.not, t.test)).collect::<Vec<_>>();
        assert_eq!(
            tests("Rail0 !ce:>1% peer:10.0.1 2001:db8::1 qp:0x11 state:LOSS"),
            [
                (false, Test::Word("rail0".into(), None)),
                (true, Test::Figure(Id::CeNow, Op::More, 0.01)),
                (false, Test::Address(None, "10.0.1".into())),
                (false, Test::Word("2001:db8::1".into(), None)),
                (false, Test::Qp(Op::Equal, 17.0)),
                (false, Test::State(StatePart::new("loss"))),
            ]
        );
        assert_eq!(Query::new("ce:>").error.as_deref(), Some("ce: wants a number, such as ce:>10k"));
        assert!(Query::new("ce:>").is_empty() && Query::new("  ").is_empty());
        assert_eq!(tests("nak:<=5"), [(false, Test::Figure(Id::Naks, Op::LessOrEqual, 5.0))]);
    }
}
