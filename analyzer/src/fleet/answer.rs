//! Answers: rows, a headline about the first of them, and its confidence.

use serde_json::{Value, json};

use super::question::{Column, Question, STANDS_OUT, UNEVEN};
use super::{Row, cover, number, text};
use crate::util::layout::plain;
use crate::util::time::NS_PER_S;
use crate::util::units;

/// Unit of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Text.
    Text,
    /// A count.
    Count,
    /// Bytes.
    Bytes,
    /// Bytes per second, displayed in bits per second.
    Rate,
    /// A fraction of 1.
    Ratio,
    /// A factor.
    Times,
    /// Nanoseconds.
    Duration,
    /// Robust z-score: distance from the median in robust standard deviations.
    Score,
    /// Unix seconds.
    Time,
    /// Nanoseconds if the row's metric is `latency`, else a fraction of 1.
    OfMetric,
}

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
    /// Minimum share of agreeing pairs, hosts or intervals, their minimum number, and the minimum robust z-score, for
    /// high and medium confidence. If half of all pairs are bad, four agree by chance in one of 16 cases; noise does
    /// not reach z = 10.
    const FROM: [(Self, f64, f64, f64); 2] =
        [(Self::High, 0.9, 4.0, 10.0), (Self::Medium, 0.7, 2.0, STANDS_OUT)];

    /// Confidence from the agreement and the distance from the median. Unknown values are ignored.
    #[must_use]
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
    #[must_use]
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
}

impl Answer {
    /// Builds the answer from the rows of an engine: a row with counts, then the rows of the question.
    ///
    /// # Errors
    /// If there is no data, or a row does not match the SQL.
    pub fn of(question: Question, mut rows: Vec<Row>, top: usize) -> Result<Self, String> {
        if rows.is_empty() {
            return Err("the engine gave no result; `--print-sql` prints what it was asked".to_owned());
        }
        let summary = rows.remove(0);
        let readings = number(&summary, "readings").unwrap_or(0.0);
        if readings < 1.0 {
            return Err(
                "nothing was recorded in this time range and job: check --from, --to (UTC) and --job"
                    .to_owned(),
            );
        }
        let by_devices = matches!(question, Question::Slow | Question::Loss);
        if !by_devices && number(&summary, "flow_readings").unwrap_or(0.0) < 1.0 {
            return Err(format!(
                "no flow was recorded in this time range and job, and `{}` needs flows: `slow` and `loss` also read counters of devices",
                question.name()
            ));
        }
        if by_devices {
            rows = cover::explain(rows)
                .map_err(|error| format!("a row of the engine is not as expected: {error}"))?;
        }
        for row in &mut rows {
            normalise(row, question.columns());
            let sure = confidence(question, row);
            row.insert("confidence".to_owned(), json!(sure.name()));
        }
        let headline = headline(question, &rows);
        let all = rows.len();
        if question != Question::Timeline {
            rows.truncate(top);
        }
        Ok(Self { question, headline, scope: scope(&summary), left_out: all - rows.len(), rows })
    }
}

/// Converts numbers that an engine writes as text.
fn normalise(row: &mut Row, columns: &[Column]) {
    for column in columns.iter().filter(|column| column.unit != Unit::Text) {
        if let Some(value @ Value::String(_)) = row.get_mut(column.name) {
            *value = value.as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
        }
    }
}

fn scope(summary: &Row) -> String {
    let count = |name: &str| number(summary, name).map_or(0, whole);
    let time = |name: &str| units::time_utc(count(name).saturating_mul(NS_PER_S));
    let time = |name: &str| time(name).get(..19).unwrap_or_default().to_owned();
    format!(
        "{}, {}, {}, {} to {} UTC",
        units::plural(count("hosts"), "host"),
        units::plural(count("jobs"), "job"),
        units::plural(count("readings"), "reading"),
        time("first_s"),
        time("last_s"),
    )
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn whole(number: f64) -> u64 {
    number.round().max(0.0) as u64
}

/// True if the figure is a device counter rather than a property of port pairs.
fn is_of_device(row: &Row) -> bool {
    text(row, "metric").ends_with("(device)")
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
        // Without a median, nothing says what is usual.
        Question::Jobs => {
            of("usual").map_or(Confidence::Low, |_| Confidence::of(None, None, Some(of("z").unwrap_or(0.0))))
        }
        Question::Stragglers => {
            let others = of("of_hosts").map(|hosts| (hosts - 1.0).max(1.0));
            let named = of("named_by").zip(others).map(|(named, others)| named / others);
            let by_name = Confidence::of(named.or(Some(0.0)), of("named_by"), None);
            let late = share("late_seconds", "quiet_seconds").unwrap_or(0.0);
            by_name.max(Confidence::of(Some(late), of("late_seconds"), None))
        }
        Question::Timeline => Confidence::of(None, None, Some(of("worst_z").unwrap_or(0.0))),
    }
}

/// A sentence that names the culprit.
fn headline(question: Question, rows: &[Row]) -> String {
    let most = |name: &'static str| {
        let known = rows.iter().filter(|row| number(row, name).is_some_and(|z| z >= STANDS_OUT));
        known.max_by(|a, b| number(a, name).unwrap_or(0.0).total_cmp(&number(b, name).unwrap_or(0.0)))
    };
    let first = match question {
        Question::Timeline => most("worst_z"),
        Question::Jobs => most("z"),
        _ => rows.first(),
    };
    let Some(row) = first else { return nothing(question) };
    let shown = |name: &str| {
        let column = question.columns().iter().find(|column| column.name == name);
        column.map_or_else(String::new, |column| cell(row, column))
    };
    let diagnosis = match question {
        Question::Slow | Question::Loss => hop(row, &shown),
        Question::Balance => balance(row, &shown),
        Question::Jobs => job(row, &shown),
        Question::Stragglers => straggler(row, &shown),
        Question::Timeline => format!(
            "{}: {} unusual (z {}), highest at {}",
            shown("unix_s"),
            shown("worst_metric"),
            shown("worst_z"),
            shown("worst_host"),
        ),
    };
    let also = text(row, "or");
    let also = if also.is_empty() { String::new() } else { format!("; same evidence: {}", plain(also)) };
    let mut letters = diagnosis.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}{also}. Confidence: {}", letters.as_str(), text(row, "confidence"))
}

/// The part that is furthest from the mean comes first.
fn balance(row: &Row, shown: &dyn Fn(&str) -> String) -> String {
    let (first, other) = if idlest_deviates(row) { ("idlest", "busiest") } else { ("busiest", "idlest") };
    let ratio = |part: &str| shown(&format!("{part}_ratio"));
    format!(
        "{} {} {}: {} carries {} the mean, {} {}; {} of {} hosts agree",
        shown("scope"),
        shown("place"),
        shown("direction"),
        shown(first),
        ratio(first),
        shown(other),
        ratio(other),
        shown("agree"),
        shown("of_hosts"),
    )
}

/// True if the idlest part is further from the mean than the busiest. Two parts are always equally far: of planes and
/// rails of all hosts it is then the idlest, as traffic leaves a bad one, while a hash that prefers one side does so at
/// single places.
fn idlest_deviates(row: &Row) -> bool {
    let (Some(busiest), Some(idlest)) = (number(row, "busiest_ratio"), number(row, "idlest_ratio")) else {
        return false;
    };
    let further = (1.0 - idlest) - (busiest - 1.0);
    let of_all = matches!(text(row, "scope"), "planes" | "rails");
    // Engines sum in another order, and round the last digits.
    let rounding = f64::from(f32::EPSILON);
    if of_all { further > -rounding } else { further > rounding }
}

fn job(row: &Row, shown: &dyn Fn(&str) -> String) -> String {
    let name = match text(row, "job_name") {
        "" => "hosts without a job name".to_owned(),
        _ => format!("job {}", shown("job_name")),
    };
    let found = format!("{name}: {} {}", shown("problem"), shown("figure"));
    let hosts = units::plural(number(row, "host_count").map_or(0, whole), "host");
    match number(row, "usual") {
        Some(_) => format!("{found} against a median of {}, on {hosts}", shown("usual")),
        None => format!(
            "{found} on {hosts}; no median to compare with, as fewer than three jobs have this figure"
        ),
    }
}

fn hop(row: &Row, shown: &dyn Fn(&str) -> String) -> String {
    let figure = match text(row, "metric") {
        "loss" => format!("{} packets lost ({})", shown("lost"), shown("figure")),
        cover::RETRANSMITTED => {
            format!(
                "{} packets retransmitted ({}), losses not known",
                shown("retransmitted"),
                shown("figure")
            )
        }
        metric => format!("{} {} against {} of the job", plain(metric), shown("figure"), shown("usual")),
    };
    let of = if is_of_device(row) { "devices" } else { "pairs of ports through it" };
    format!(
        "{} {}: {figure}, in {} of {} {of}",
        shown("scope"),
        shown("place"),
        shown("bad_pairs"),
        shown("pairs")
    )
}

fn straggler(row: &Row, shown: &dyn Fn(&str) -> String) -> String {
    let named = number(row, "named_by").unwrap_or(0.0) > 0.0;
    let late = number(row, "late_seconds").unwrap_or(0.0) > 0.0;
    let mut evidence = Vec::new();
    if named {
        evidence.push(format!(
            "{} of {} hosts wait {} for it per step of {}",
            shown("named_by"),
            shown("of_hosts"),
            shown("behind_ns"),
            shown("step_ns")
        ));
    }
    if late {
        evidence.push(format!(
            "sends alone in {} of {} quiet intervals",
            shown("late_seconds"),
            shown("quiet_seconds")
        ));
    }
    if !named && !late {
        evidence.push(format!("senders wait {} for its receive buffers", shown("rnr_wait_ns")));
    }
    let job = match text(row, "job_name") {
        "" => "without a job name".to_owned(),
        _ => format!("of job {}", shown("job_name")),
    };
    format!("{} {job}: {}", shown("straggler"), evidence.join("; "))
}

/// The headline if no row stands out.
fn nothing(question: Question) -> String {
    let text = match question {
        Question::Slow => "No link, host, switch, path or rail exceeds the median of its job",
        Question::Loss => "No pair of ports loses more than 15 packets in a million",
        Question::Balance => {
            return format!("No busiest link, rail or plane carries more than {UNEVEN} × the mean");
        }
        Question::Jobs => "No job stands out in loss, retransmission, stalls, waits or step growth",
        Question::Stragglers => "No host makes others of its job wait",
        Question::Timeline => "No interval stands out",
    };
    text.to_owned()
}

/// A cell in readable form.
#[must_use]
pub fn cell(row: &Row, column: &Column) -> String {
    let unit = match column.unit {
        Unit::OfMetric if text(row, "metric") == "latency" => Unit::Duration,
        Unit::OfMetric => Unit::Ratio,
        unit => unit,
    };
    if unit == Unit::Text {
        let value = text(row, column.name);
        return if value.is_empty() { units::UNKNOWN.to_owned() } else { plain(value) };
    }
    let Some(value) = number(row, column.name) else { return units::UNKNOWN.to_owned() };
    match unit {
        Unit::Count => units::count(whole(value)),
        Unit::Bytes => units::bytes(whole(value)),
        Unit::Rate => units::bit_rate(value * 8.0),
        Unit::Ratio => ratio(value),
        Unit::Times => format!("{value:.2} ×"),
        Unit::Duration => units::duration(whole(value)),
        Unit::Score => format!("{value:.1}"),
        Unit::Time => {
            let time = units::time_utc(whole(value).saturating_mul(NS_PER_S));
            time.get(..19).unwrap_or_default().to_owned()
        }
        Unit::Text | Unit::OfMetric => units::UNKNOWN.to_owned(),
    }
}

/// A fraction, with enough digits for loss ratios, which are far below a percent.
fn ratio(value: f64) -> String {
    match value {
        value if value < 0.0 => format!("−{}", ratio(-value)),
        value if value > 0.0 && value < 1e-8 => "<0.01 ppm".to_owned(),
        value if value > 0.0 && value < 1e-4 => format!("{:.2} ppm", 1e6 * value),
        value => units::ratio(Some(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: Value) -> Row {
        match value {
            Value::Object(row) => row,
            other => panic!("{other}"),
        }
    }

    fn summary() -> Row {
        row(
            json!({"readings": 3600, "flow_readings": "3600", "hosts": 60, "jobs": "3", "first_s": 1_763_800_000, "last_s": 1_763_800_060}),
        )
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
    fn the_culprit_comes_first_with_its_figure() {
        let found = row(json!({
            "scope": "switches", "direction": "ingress", "place": "l1 + l2", "busiest": "plane 1", "busiest_ratio": 1.9,
            "idlest": "plane 2", "idlest_ratio": "0.1", "agree": "20", "of_hosts": 20, "misplaced": "578653607169",
        }));
        let answer = Answer::of(Question::Balance, vec![summary(), found.clone(), found.clone()], 1).unwrap();
        assert_eq!(
            answer.headline,
            "Switches l1 + l2 ingress: plane 1 carries 1.90 × the mean, plane 2 0.10 ×; 20 of 20 hosts agree. Confidence: high"
        );
        for (scope, busiest, idlest, expected) in [
            ("planes", 1.25, 0.75, "plane 2 carries 0.75 × the mean, plane 1 1.25 ×"),
            ("planes", 1.25, 0.25, "plane 2 carries 0.25 × the mean, plane 1 1.25 ×"),
            ("planes", 1.6, 0.8, "plane 1 carries 1.60 × the mean, plane 2 0.80 ×"),
            ("links of a host", 1.2, 0.1, "plane 2 carries 0.10 × the mean, plane 1 1.20 ×"),
        ] {
            let mut other = found.clone();
            let changes =
                [("scope", json!(scope)), ("busiest_ratio", json!(busiest)), ("idlest_ratio", json!(idlest))];
            other.extend(changes.map(|(name, value)| (name.to_owned(), value)));
            let headline = Answer::of(Question::Balance, vec![summary(), other], 1).unwrap().headline;
            assert!(headline.contains(expected), "{scope}: {headline}");
        }
        assert_eq!((answer.rows.len(), answer.left_out), (1, 1));
        assert_eq!(answer.rows[0]["idlest_ratio"], json!(0.1));
        assert!(
            answer.scope.starts_with("60 hosts, 3 jobs, 3,600 readings, 2025-11-22 08:26:40 to"),
            "{}",
            answer.scope
        );
    }

    #[test]
    fn few_jobs_have_no_median_and_a_job_may_have_no_name() {
        let found = row(
            json!({"job_name": "", "problem": "loss", "figure": 0.0095, "usual": null, "z": 3e4, "host_count": 2}),
        );
        let of = |row: Row| Answer::of(Question::Jobs, vec![summary(), row], 10).unwrap().headline;
        assert_eq!(
            of(found.clone()),
            "Hosts without a job name: loss 0.95 % on 2 hosts; no median to compare with, as fewer than three jobs have this figure. Confidence: low"
        );
        let mut several = found;
        several.extend([("job_name".to_owned(), json!("a")), ("usual".to_owned(), json!(0.0))]);
        assert_eq!(of(several), "Job a: loss 0.95 % against a median of 0 %, on 2 hosts. Confidence: high");
        let straggler = row(json!({"straggler": "node31", "job_name": "", "named_by": 0, "late_seconds": 0}));
        let answer = Answer::of(Question::Stragglers, vec![summary(), straggler], 10).unwrap();
        assert!(answer.headline.starts_with("Node31 without a job name: "), "{}", answer.headline);
    }

    #[test]
    fn a_straggler_is_named_with_its_evidence() {
        let found = row(json!({
            "straggler": "node31", "job_name": "j", "named_by": 19, "of_hosts": 20, "behind_ns": 2e9, "step_ns": 6e9,
            "late_seconds": 0, "quiet_seconds": 10, "rnr_wait_ns": 0,
        }));
        let answer = Answer::of(Question::Stragglers, vec![summary(), found], 10).unwrap();
        assert_eq!(
            answer.headline,
            "Node31 of job j: 19 of 20 hosts wait 2.00 s for it per step of 6.00 s. Confidence: high"
        );
    }

    #[test]
    fn quiet_data_has_no_culprit_and_no_data_is_an_error() {
        for question in [Question::Slow, Question::Loss, Question::Balance, Question::Stragglers] {
            let answer = Answer::of(question, vec![summary()], 10).unwrap();
            assert_eq!(answer.headline, nothing(question));
        }
        let calm = row(json!({"job_name": "j", "problem": "loss", "z": 4.9}));
        assert_eq!(
            Answer::of(Question::Jobs, vec![summary(), calm], 10).unwrap().headline,
            nothing(Question::Jobs)
        );
        let empty = row(json!({"readings": 0}));
        assert!(Answer::of(Question::Slow, vec![empty], 10).unwrap_err().contains("--from"));
        assert!(Answer::of(Question::Slow, Vec::new(), 10).is_err());
        let devices =
            row(json!({"readings": 8, "flow_readings": 0, "hosts": 1, "jobs": 0, "first_s": 1, "last_s": 2}));
        assert!(
            Answer::of(Question::Jobs, vec![devices.clone()], 10).unwrap_err().contains("`slow` and `loss`")
        );
        assert!(Answer::of(Question::Loss, vec![devices], 10).is_ok());
    }

    #[test]
    fn cells_have_units_and_unknown_is_a_dash() {
        let found =
            row(json!({"metric": "latency", "figure": 57598.5, "place": "a\u{1b}[2Jb", "times": null}));
        let shown = |name: &str| {
            let column = Question::Slow.columns().iter().find(|column| column.name == name).unwrap();
            cell(&found, column)
        };
        assert_eq!(shown("figure"), "57.6 µs");
        assert_eq!(
            (shown("place").as_str(), shown("times").as_str(), shown("job").as_str()),
            ("a\u{fffd}[2Jb", "-", "-")
        );
        let ratios = [0.002, 6.2e-6, 3e-9, 0.0, -0.1].map(ratio);
        assert_eq!(ratios, ["0.20 %", "6.20 ppm", "<0.01 ppm", "0 %", "−10.0 %"]);
    }
}
