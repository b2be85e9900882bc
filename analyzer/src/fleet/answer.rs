//! Answers: rows, a headline about the first of them, and its confidence.

use serde_json::{Value, json};

use super::cell::time;
use super::coverage::Coverage;
use super::headline::{DEATHS, headline, is_of_device, nothing};
use super::question::{
    AGREE_HIGH, AGREE_MEDIUM, COUNT_HIGH, COUNT_MEDIUM, Column, LATE, Question, STANDS_OUT, Unit, Z_HIGH,
};
use super::{Row, cover, number, text, whole};
use crate::findings::Limits;
use crate::util::units;

/// Confidence in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// A hint.
    Low,
    /// Likely.
    Medium,
    /// Other explanations are improbable.
    High,
}

impl Confidence {
    /// Minimum share of agreeing pairs, hosts or intervals, their minimum number, and the minimum robust z-score.
    const FROM: [(Self, f64, f64, f64); 2] = [
        (Self::High, AGREE_HIGH, COUNT_HIGH, Z_HIGH),
        (Self::Medium, AGREE_MEDIUM, COUNT_MEDIUM, STANDS_OUT),
    ];

    /// Confidence from the agreement and the distance from the median. Unknown values are ignored.
    pub fn of(share: Option<f64>, count: Option<f64>, z: Option<f64>) -> Self {
        let at_least = |value: Option<f64>, least: f64| value.is_none_or(|value| value >= least);
        let reached = Self::FROM
            .iter()
            .find(|(_, s, c, least)| at_least(share, *s) && at_least(count, *c) && at_least(z, *least));
        reached.map_or(Self::Low, |(confidence, ..)| *confidence)
    }

    /// The next lower confidence, used if another place has the same evidence.
    #[must_use]
    pub const fn less(self) -> Self {
        match self {
            Self::High => Self::Medium,
            Self::Medium | Self::Low => Self::Low,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The question.
    pub question: Question,
    /// A sentence about the first row, or that nothing stands out.
    pub headline: String,
    /// The data that the answer covers.
    pub scope: String,
    /// The rows, most important first; for `timeline` in order of time.
    pub rows: Vec<Row>,
    /// Number of rows beyond the requested maximum.
    pub left_out: usize,
    /// True if no smaller set of hops explains the same pairs as well as the rows, false if there may be one; `None` if
    /// the rows are no set of hops.
    pub is_smallest: Option<bool>,
}

impl Answer {
    /// Builds the answer from the rows of an engine: a row with counts, then the rows of the question, which was asked
    /// with these thresholds.
    ///
    /// # Errors
    /// If there is no data, or a row does not match the SQL.
    pub fn of(question: Question, mut rows: Vec<Row>, top: usize, limits: &Limits) -> Result<Self, String> {
        if rows.is_empty() {
            return Err("the engine gave no result; `--print-sql` prints what it was asked".to_owned());
        }
        let summary = rows.remove(0);
        if number(&summary, "all_rows").unwrap_or(0.0) < 1.0 {
            let left_out = left_out(&summary);
            return Err(if left_out.is_empty() {
                "nothing was recorded of flows, devices and queue pairs in this time range and job: check --from, --to (UTC) and --job; without these, there was no traffic"
                    .to_owned()
            } else {
                format!(
                    "all that was recorded in this time range and job is left out: {}",
                    left_out.join("; ")
                )
            });
        }
        let of_hops = matches!(question, Question::Slow | Question::Loss);
        if question == Question::Stragglers && number(&summary, "flow_readings").unwrap_or(0.0) < 1.0 {
            return Err(
                "no packet was seen in this time range and job, and `stragglers` needs packets: who sends while others wait is decided within a step, while contexts of queue pairs are read in turns, each host at other times. `timeline` has the time at which queue pairs stand still or send less, `slow` the host whose senders get RNR NAKs"
                    .to_owned(),
            );
        }
        if question == Question::Balance && number(&summary, "byte_readings") == Some(0.0) {
            return Err("no bytes of links are known in this time range and job: no flow was recorded, and no NIC counts the bytes of its RoCE packets".to_owned());
        }
        let seen = Coverage::of(&summary, &rows, limits);
        if of_hops || question == Question::Balance {
            rows.retain(|row| number(row, "is_bad") == Some(1.0));
        }
        let mut is_smallest = None;
        if of_hops {
            let explained = cover::explain(rows)
                .map_err(|error| format!("a row of the engine is not as expected: {error}"))?;
            rows = explained.rows;
            is_smallest = (!rows.is_empty()).then_some(explained.is_smallest);
        }
        if question == Question::Stragglers {
            rows.retain(is_waited_for);
        }
        for row in &mut rows {
            normalise(row, question.columns());
            let sure = confidence(question, row);
            row.insert("confidence".to_owned(), json!(sure.name()));
        }
        let headline = headline(question, &rows).unwrap_or_else(|| nothing(question, &seen, limits));
        for row in &mut rows {
            blank(row, question.columns());
        }
        let all = rows.len();
        if question != Question::Timeline {
            rows.truncate(top);
        }
        let scope = scope(question, &summary, rows.first());
        Ok(Self { question, headline, scope, left_out: all - rows.len(), rows, is_smallest })
    }
}

/// False if all that is known is that somebody waits for it, or for a host upstream of it.
fn is_waited_for(row: &Row) -> bool {
    let above = |name: &str, least: f64| number(row, name).is_some_and(|value| value > least);
    above("named_by", 0.0) || above("late_seconds", LATE) || above("rnr_wait_ns", 0.0)
}

/// Converts numbers that an engine writes as text.
fn normalise(row: &mut Row, columns: &[Column]) {
    for column in columns.iter().filter(|column| !matches!(column.unit, Unit::Text | Unit::Flag)) {
        if let Some(value @ Value::String(_)) = row.get_mut(column.name) {
            *value = value.as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
        }
    }
}

/// Makes empty texts null, and a problem whose figure is 0 none. Of a straggler, what did not name it is null: no step
/// was recorded, no interval was quiet, or nobody waited for its buffers.
fn blank(row: &mut Row, columns: &[Column]) {
    for (of, all) in [
        ("named_by", "named_by"),
        ("late_seconds", "quiet_seconds"),
        ("quiet_seconds", "quiet_seconds"),
        ("rnr_wait_ns", "rnr_wait_ns"),
    ] {
        if number(row, all) == Some(0.0) {
            row.insert(of.to_owned(), Value::Null);
        }
    }
    let nothing = row.contains_key("problem") && number(row, "figure").is_none_or(|figure| figure == 0.0);
    for column in columns {
        let is_empty = column.unit == Unit::Text && text(row, column.name).is_empty();
        if is_empty || nothing && ["problem", "figure"].contains(&column.name) {
            row.insert(column.name.to_owned(), Value::Null);
        }
    }
}

/// Rows that are left out, by their count in the summary: what they are, and how they are selected.
const LEFT_OUT: [(&str, &str); 2] = [
    (
        "unset_rows",
        "of before 2010, as from a host whose clock was not set: --from 1970-01-01T00:00:00Z selects it",
    ),
    (
        "ahead_rows",
        "of more than a day from now, as from a host whose clock is ahead: --to 2100-01-01T00:00:00Z selects it",
    ),
];

/// The rows that are left out, a part of a sentence for each kind.
fn left_out(summary: &Row) -> Vec<String> {
    let rows = |name: &str| number(summary, name).map(whole).filter(|rows| *rows > 0);
    let kinds = LEFT_OUT.iter().filter_map(|(name, what)| Some((rows(name)?, what)));
    kinds.map(|(rows, what)| format!("{} {what}", units::plural(rows, "row"))).collect()
}

/// Scope of the answer, with the length of its slots, and the hosts that the question cannot evaluate.
fn scope(question: Question, summary: &Row, first: Option<&Row>) -> String {
    let count = |name: &str| number(summary, name).map_or(0, whole);
    let time = |name: &str| number(summary, name).map_or_else(String::new, time);
    let slot = first.and_then(|row| number(row, "whole_slot_ns"));
    let slots = slot.map_or_else(String::new, |ns| format!(", in slots of {}", units::duration(whole(ns))));
    let unseen = number(summary, "flow_hosts").map_or(0, |seen| count("hosts").saturating_sub(whole(seen)));
    let unseen = match question {
        Question::Stragglers if unseen > 0 => {
            format!("; {} not evaluated, as no packet of theirs was seen", units::plural(unseen, "host"))
        }
        _ => String::new(),
    };
    let left_out = match left_out(summary) {
        kinds if kinds.is_empty() => String::new(),
        kinds => format!("; left out: {}", kinds.join("; ")),
    };
    format!(
        "{}, {}, {}, {} to {} UTC{slots}{unseen}{left_out}",
        units::plural(count("hosts"), "host"),
        units::plural(count("jobs"), "job"),
        units::plural(count("readings"), "reading"),
        time("first_ms"),
        time("last_ms"),
    )
}

fn confidence(question: Question, row: &Row) -> Confidence {
    let of = |name: &str| number(row, name);
    let share = |part: &str, all: &str| Some(of(part)? / of(all).filter(|all| *all > 0.0)?);
    match question {
        Question::Slow | Question::Loss => {
            // A device is a single object, but its figure covers many packets, so the number does not count against
            // it.
            let count = of("bad_pairs").filter(|_| !is_of_device(row));
            let sure = Confidence::of(share("bad_pairs", "pairs"), count, of("z"));
            if text(row, "or").is_empty() { sure } else { sure.less() }
        }
        Question::Balance => Confidence::of(share("agree", "of_hosts"), of("of_hosts"), None),
        // Without a median, nothing says what is usual. A queue pair that works does not die.
        Question::Jobs if of("usual").is_none() && text(row, "problem") != DEATHS => Confidence::Low,
        Question::Jobs => Confidence::of(None, None, Some(of("z").unwrap_or(0.0))),
        Question::Stragglers => {
            let by_name = Confidence::of(share("named_by", "of_hosts").or(Some(0.0)), of("named_by"), None);
            let late = share("late_seconds", "quiet_seconds").unwrap_or(0.0);
            by_name.max(Confidence::of(Some(late), of("late_seconds"), None))
        }
        Question::Timeline => Confidence::of(None, None, Some(of("worst_z").unwrap_or(0.0))),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::fleet) fn row(value: Value) -> Row {
        match value {
            Value::Object(row) => row,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn confidence_needs_share_count_and_distance() {
        let of = |share, count, z| Confidence::of(Some(share), Some(count), Some(z));
        assert_eq!(of(0.9, 4.0, 10.0), Confidence::High);
        for (share, count, z) in [(0.89, 4.0, 10.0), (0.9, 3.0, 10.0), (0.9, 4.0, 9.9), (0.7, 2.0, 5.0)] {
            assert_eq!(of(share, count, z), Confidence::Medium, "{share} {count} {z}");
        }
        for (share, count, z) in [(0.69, 4.0, 10.0), (0.9, 1.0, 10.0), (0.9, 4.0, 4.9)] {
            assert_eq!(of(share, count, z), Confidence::Low, "{share} {count} {z}");
        }
        assert_eq!(Confidence::of(None, None, Some(10.0)), Confidence::High);
        assert_eq!(Confidence::High.less(), Confidence::Medium);
    }

    #[test]
    fn what_is_not_known_or_no_problem_is_null() {
        let calm = json!({"job_name": "", "problem": "CE", "figure": 0.0, "z": 0.0});
        let lossy = json!({"job_name": "j", "problem": "loss", "figure": 0.01, "z": 9.0});
        let summary = json!({"readings": 2, "all_rows": 2, "flow_readings": 2, "hosts": 1, "jobs": 1});
        let answer =
            Answer::of(Question::Jobs, [summary, lossy, calm].map(row).to_vec(), 10, &Limits::default())
                .unwrap();
        let shown = |at: usize| ["job_name", "problem", "figure"].map(|name| answer.rows[at][name].clone());
        assert_eq!(shown(0), [json!("j"), json!("loss"), json!(0.01)]);
        assert_eq!(shown(1), [Value::Null, Value::Null, Value::Null]);
    }
}
