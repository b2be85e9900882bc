//! The questions: their SQL, and the columns of their answers.
//!
//! The SQL is the same text for every engine: it uses only what DuckDB and ClickHouse both support, and a test runs
//! it on both. Names of results differ from names of columns, because ClickHouse substitutes result names in
//! expressions. Each common table expression is read once where possible, because ClickHouse evaluates it again for
//! each reference.

use clap::ValueEnum;

use self::Unit::{Bytes, Count, Duration, Flag, Rate, Ratio, Score, Text, Time, Times};
use crate::findings::{CONNECTING, CREATING, Limits, PAST_VERBS};
use crate::record::FOLLOWED_BY;
use crate::util::definition::definitions;
use crate::util::time::{NS_PER_MS, NS_PER_S};
use crate::util::units;

definitions! {
    pub(super) STANDS_OUT: f64 = 5.0,
        "Minimum robust z of a bad pair of ports, and of an interval or a job that stands out",
        "Normal noise exceeds it in one of three million pairs";
    pub(super) AGREE_HIGH: f64 = 0.9,
        "Minimum share of the pairs, hosts or intervals that agree, for high confidence",
        "One in ten may have a fault of its own";
    pub(super) COUNT_HIGH: f64 = 4.0,
        "Minimum number of them, for high confidence",
        "If half of all pairs are bad, four agree by chance in one of 16 cases";
    pub(super) Z_HIGH: f64 = 10.0,
        "Minimum robust z for high confidence",
        "Noise does not reach it";
    pub(super) AGREE_MEDIUM: f64 = 0.7,
        "Minimum share of the pairs, hosts or intervals that agree, for medium confidence, which takes the robust z of a bad pair",
        "A clear majority";
    pub(super) COUNT_MEDIUM: f64 = 2.0,
        "Minimum number of them, for medium confidence",
        "One alone agrees with itself";
    DEVIATION: f64 = 1.4826,
        "Standard deviations in a median absolute deviation, for robust z",
        "That of a normal distribution";
    USUAL_SHARE: f64 = 0.05,
        "Minimum deviation for robust z, as a share of the median",
        "Equal pairs would make any difference infinite";
    BAD_SHARE: f64 = 0.5,
        "Minimum share of the pairs through a hop that are bad, for it to be named",
        "A cause at a hop affects what passes it";
    pub(super) UNEVEN: f64 = 1.1,
        "Minimum load of the busiest link, rail or plane over the mean, for `balance`",
        "Less than links.max_over_mean, which is of one host: flows of many hosts average out, so that a smaller excess has a cause";
    QUIET: f64 = 0.5,
        "An interval is quiet for a job when its median host sends less than this part of its own mean",
        "Between steps, hosts send next to nothing";
    pub(super) LATE: f64 = 2.0,
        "Intervals that a host sends alone in, above which `stragglers` names it without `steps`",
        "One or two are the rest of a step";
    pub(super) COMPARED: f64 = 4.0,
        "Minimum pairs of ports, or devices, of a job with a figure, for a median to compare them with",
        "Half of fewer may be bad";
    LATENCY_NS: f64 = 1e3,
        "Smallest latency above the median that stands out, in nanoseconds",
        "Less than the queue of a few packets";
    PAUSED: f64 = 5e-3,
        "Smallest share of paused time above the median that stands out in a device",
        "A port that pauses for less delays a step by less than its usual variation";
    DEVICE_TIMEOUTS: f64 = 1e-6,
        "Smallest share of packets with a transport timeout above the median that stands out in a device",
        "A timeout costs as much time as many thousand packets take";
    RETRYING: f64 = 0.01,
        "Smallest share of the readings of contexts with retries in use that stands out in a pair of ports",
        "A reading finds a retry for as long as its timeout lasts, and none on a path that loses nothing";
    pub(super) JOB_LOSS: f64 = 1e-6,
        "Smallest share of packets lost, or retransmitted where losses are not known, that stands out in a job",
        "One bad port of a hundred is a hundredth of the share of its own pairs";
    JOB_RETRYING: f64 = 1e-4,
        "Smallest share of the readings of contexts with retries in use that stands out in a job",
        "One bad port of a hundred is a hundredth of the share of its own pairs";
    JOB_WAIT: f64 = 1e-3,
        "Smallest share of the time in transport timeouts, or in RNR waits, that stands out in a job",
        "One flow of a hundred that stands still for a tenth of the time";
    JOB_GROWTH: f64 = 0.1,
        "Smallest growth of the step time that stands out",
        "Steps of a healthy job vary by less";
    TROUBLED_QPS: f64 = 1e-6,
        "Smallest share of the queue pairs that died or stood still that stands out in a job, or in a slot of `timeline`",
        "A job waits for each of its queue pairs";
    SLOT_RETRYING: f64 = 1e-4,
        "Smallest share of the queue pairs with retries in use that stands out in a slot of `timeline`",
        "One bad port of a thousand hosts has about as many of theirs";
    ONE: f64 = 0.5,
        "Number of queue pairs that died, or of critical findings that began, above which a slot of `timeline` stands out",
        "One is enough";
    COUNTED: f64 = 5.0,
        "Smallest number of packets lost, retransmissions, timeouts or failed set-ups in a slot that stands out in `timeline`",
        "One or two are chance";
    TRAFFIC: f64 = 1e6,
        "Smallest drop of the traffic that stands out in `timeline`, in bytes per second",
        "Training moves more";
    QP_PACKETS: f64 = 250.0,
        "Smallest drop of the packets of queue pairs that stands out in `timeline`, in packets per second",
        "At a path MTU of 4,096 bytes they carry as much";
}

/// Beginning of 2010, when RoCE was specified, in Unix nanoseconds: a row of before is of a clock that was not set,
/// which begins in 1970.
const FIRST_NS: u64 = 1_262_304_000 * NS_PER_S;

/// A day from the time of the question, as SQL: a row of later is of a clock that is ahead, perhaps by years. Clocks
/// that are set by hand may be some hours off.
const LATEST: &str = "cast(now() as timestamp) + interval 1 day";

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Question {
    /// Host, link with its switch port, switch, path, rail or plane that is slower than the median of its job:
    /// latency, CE, retransmission
    Slow,
    /// Smallest set of links, hosts, switches and paths that explains the losses, or a small one if that is not proven
    Loss,
    /// Uneven load of parallel links, rails, planes and the links of a pair of switches
    Balance,
    /// Jobs that lose packets, wait or stall; step time, its growth, and the share of the network
    Jobs,
    /// Hosts that others of their job wait for
    Stragglers,
    /// What happened when, over all hosts
    Timeline,
}

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
    /// True, or unknown.
    Flag,
    /// Nanoseconds if the row's metric is `latency`, else a fraction of 1.
    OfMetric,
}

/// A column of an answer.
#[derive(Debug)]
pub struct Column {
    /// Name in JSON, and in the SQL result if it comes from there.
    pub name: &'static str,
    /// Heading.
    pub title: &'static str,
    /// Unit of its values.
    pub unit: Unit,
    /// The flag that says that the value is a lower bound. Views show it with the value.
    pub bound: Option<&'static str>,
}

const fn column(name: &'static str, title: &'static str, unit: Unit) -> Column {
    Column { name, title, unit, bound: None }
}

/// Columns of `slow` and `loss`, whose rows come from [`cover`](super::cover).
const HOPS: &[Column] = &[
    column("scope", "SCOPE", Text),
    column("place", "WHERE", Text),
    column("metric", "METRIC", Text),
    column("figure", "FIGURE", Unit::OfMetric),
    column("usual", "JOB MEDIAN", Unit::OfMetric),
    column("times", "TIMES", Times),
    column("confidence", "CONFIDENCE", Text),
    column("bad_pairs", "BAD PAIRS", Count),
    column("pairs", "OF PAIRS", Count),
    column("lost", "LOST", Count),
    column("lower_bound", "LOWER BOUND", Flag),
    column("retransmitted", "RETRANSMITTED", Count),
    column("job", "JOB", Text),
    column("z", "ROBUST Z", Score),
    column("or", "SAME EVIDENCE", Text),
];

const BALANCE: &[Column] = &[
    column("scope", "SCOPE", Text),
    column("place", "WHERE", Text),
    column("direction", "DIRECTION", Text),
    column("busiest", "BUSIEST", Text),
    column("busiest_ratio", "× MEAN", Times),
    column("idlest", "IDLEST", Text),
    column("idlest_ratio", "× MEAN", Times),
    column("confidence", "CONFIDENCE", Text),
    column("agree", "HOSTS AGREE", Count),
    column("of_hosts", "OF HOSTS", Count),
    column("misplaced", "EXCESS", Bytes),
];

const JOBS: &[Column] = &[
    column("job_name", "JOB", Text),
    column("problem", "PROBLEM", Text),
    column("figure", "FIGURE", Ratio),
    column("usual", "MEDIAN", Ratio),
    column("confidence", "CONFIDENCE", Text),
    column("all_lost", "LOST", Count),
    column("all_timeouts", "TIMEOUTS", Count),
    column("qps_died", "QPs DIED", Count),
    column("qps_stuck", "QPs STUCK", Count),
    column("stall_ns", "STALLED", Duration),
    column("wait_ns", "RNR WAIT", Duration),
    column("step_ns", "STEP", Duration),
    column("growth", "STEP GROWTH", Ratio),
    column("network_ratio", "NETWORK SHARE", Ratio),
    column("all_retransmitted", "RETX", Count),
    column("ce_ratio", "CE", Ratio),
    column("host_count", "HOSTS", Count),
    column("all_bytes", "BYTES", Bytes),
    column("z", "ROBUST Z", Score),
];

const STRAGGLERS: &[Column] = &[
    column("straggler", "STRAGGLER", Text),
    column("job_name", "JOB", Text),
    column("named_by", "WAITING HOSTS", Count),
    column("of_hosts", "OF OTHERS", Count),
    column("behind_ns", "BEHIND", Duration),
    column("step_ns", "STEP", Duration),
    column("step_ratio", "OF STEPS", Ratio),
    column("late_seconds", "SENDS ALONE", Count),
    column("quiet_seconds", "OF QUIET INTERVALS", Count),
    column("rnr_wait_ns", "RNR WAIT", Duration),
    column("confidence", "CONFIDENCE", Text),
];

const TIMELINE: &[Column] = &[
    column("unix_s", "START UTC", Time),
    column("slot_ns", "LENGTH", Duration),
    column("worst_metric", "MOST UNUSUAL", Text),
    column("worst_host", "HIGHEST AT", Text),
    column("worst_z", "ROBUST Z", Score),
    column("confidence", "CONFIDENCE", Text),
    column("worst_finding", "WORST FINDING", Text),
    column("qps_died", "QPs DIED", Count),
    column("bytes_per_s", "RATE", Rate),
    column("lost_packets", "LOST", Count),
    column("retransmitted_packets", "RETX", Count),
    column("timeout_count", "TIMEOUTS", Count),
    column("ce_ratio", "CE", Ratio),
    column("latency_ns", "LATENCY", Duration),
    column("nic_bytes_per_s", "NIC RATE", Rate),
    Column { bound: Some("qp_packets_lower_bound"), ..column("qp_packets_per_s", "QP PACKETS/S", Count) },
    column("qp_packets_lower_bound", "LOWER BOUND", Flag),
    column("qps_retrying_ratio", "QPs RETRYING", Ratio),
    column("qps_stuck", "QPs STUCK", Count),
    column("nic_timeouts", "NIC TIMEOUTS", Count),
    column("paused_ns", "PAUSED", Duration),
    column("setup_failures", "SET-UPS FAILED", Count),
    column("critical_findings", "CRITICAL", Count),
    column("warning_findings", "WARNINGS", Count),
    column("loss_ratio", "LOSS", Ratio),
];

impl Question {
    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Loss => "loss",
            Self::Balance => "balance",
            Self::Jobs => "jobs",
            Self::Stragglers => "stragglers",
            Self::Timeline => "timeline",
        }
    }

    /// Columns of its answer.
    pub const fn columns(self) -> &'static [Column] {
        match self {
            Self::Slow | Self::Loss => HOPS,
            Self::Balance => BALANCE,
            Self::Jobs => JOBS,
            Self::Stragglers => STRAGGLERS,
            Self::Timeline => TIMELINE,
        }
    }

    /// Tables that it reads, including those of the summary.
    pub const fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Slow | Self::Loss | Self::Balance => {
                &["flow_seconds", "device_seconds", "qp_seconds", "link_seconds"]
            }
            Self::Jobs => &["flow_seconds", "device_seconds", "qp_seconds", "qp_lives", "steps"],
            Self::Stragglers => &["flow_seconds", "device_seconds", "qp_seconds", "steps"],
            Self::Timeline => {
                &["flow_seconds", "device_seconds", "qp_seconds", "qp_lives", "events", "findings"]
            }
        }
    }

    /// The SQL that counts the selected rows of its tables: its first statement.
    pub fn summary(self, chosen: &Chosen) -> String {
        const READINGS: [&str; 3] = ["flow_seconds", "device_seconds", "qp_seconds"];
        let others = self.tables().iter().filter(|table| !READINGS.contains(table));
        let others = others.map(|table| {
            // Steps are found in packets.
            let of_flow = u8::from(*table == "steps");
            format!(
                "\n  union all\n  select host, job, t, 0 as length_ns, 0 as of_reading, {of_flow} as of_flow, 0 as of_bytes from {table} where {{rows_of_any_clock}}"
            )
        });
        let hosts =
            if self == Self::Stragglers { include_str!("sql/hosts_of_jobs.sql").trim_end() } else { "" };
        let text = include_str!("sql/summary.sql").replace("{others}", &others.collect::<String>());
        chosen.put_into(&text.replace("{hosts_of_jobs}", hosts))
    }

    /// Its SQL, one statement.
    pub fn sql(self, chosen: &Chosen) -> String {
        const COMMON: &str = include_str!("sql/hops.sql");
        let of_devices = |text: &str| {
            let text = text.replace("{qps}", include_str!("sql/qps.sql"));
            text.replace("{device_counters}", include_str!("sql/device_counters.sql")) + COMMON
        };
        let text = match self {
            Self::Slow => of_devices(include_str!("sql/slow.sql")),
            Self::Loss => of_devices(include_str!("sql/loss.sql")),
            Self::Balance => include_str!("sql/balance.sql").to_owned(),
            Self::Jobs => include_str!("sql/jobs.sql").to_owned(),
            Self::Stragglers => include_str!("sql/stragglers.sql").to_owned(),
            Self::Timeline => include_str!("sql/timeline.sql").to_owned(),
        };
        chosen.put_into(&text)
    }
}

/// Selection of the rows that a question covers, and what counts as too much in them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chosen {
    /// Only rows of this job. `None`: of all jobs.
    pub job: Option<Name>,
    /// Only intervals that end after this time, in Unix nanoseconds; questions have it to the millisecond.
    pub from_ns: Option<u64>,
    /// Only intervals that end by this time, in Unix nanoseconds.
    pub to_ns: Option<u64>,
    /// Thresholds that questions share with the findings.
    pub limits: Limits,
}

/// Thresholds that questions share with the findings, by the names that stand for them in SQL.
fn thresholds(limits: &Limits) -> [(&'static str, f64); 4] {
    [
        ("CE", limits.ecn.congestion_ratio),
        ("LOSS", limits.loss.ratio),
        ("RETRYING_READINGS", limits.qp_context.retrying_readings as f64),
        ("STUCK_NS", limits.qp_context.stuck_ms.saturating_mul(NS_PER_MS) as f64),
    ]
}

/// The condition that a row of `events` is a set-up of a queue pair that failed, as the finding has it.
fn failed_setup() -> String {
    let (create, errors) = CREATING;
    let (verbs, errors) = (CONNECTING.join("', '"), errors.map(|errno| errno.to_string()).join(", "));
    let past_verbs = CONNECTING.map(|verb| format!("event like '{PAST_VERBS}{verb}%'")).join(" or ");
    format!(
        "((event in ('{verbs}') or {past_verbs}) and errno is not null or event = '{create}' and errno in ({errors}))"
    )
}

/// The condition that the end of a queue pair in a row of `qp_lives` is known, or would be if it had ended: only who
/// follows the control path sees it.
fn known_end() -> String {
    let followed = FOLLOWED_BY.map(|source| format!("sources like '%{source}%'"));
    format!("(end_kind is not null or {})", followed.join(" or "))
}

impl Chosen {
    fn put_into(&self, text: &str) -> String {
        let from = self.from("first_t").unwrap_or_else(|| "first_t is not null".to_owned());
        let any_clock = [Some(compared("t", ">", self.from_ns.unwrap_or(0))), self.until(), self.of_job()];
        let set = compared("t", ">=", self.from_ns.map_or(FIRST_NS, |from| from.min(FIRST_NS)));
        let until = Self { from_ns: self.from_ns.filter(|from| *from < FIRST_NS), ..self.clone() };
        let texts = [
            ("{rows}", self.condition()),
            ("{rows_of_any_clock}", all(any_clock)),
            ("{rows_until}", until.condition()),
            ("{CLOCK_SET}", all([Some(set), self.not_ahead()])),
            ("{CLOCK_AHEAD}", self.to_ns.map_or_else(|| format!("t > {LATEST}"), |_| "1 = 0".to_owned())),
            ("{first_in_range}", from),
            ("{SETUP_FAILED}", failed_setup()),
            ("{END_KNOWN}", known_end()),
        ];
        let text = texts.into_iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, &value));
        let text = thresholds(&self.limits)
            .into_iter()
            .fold(text, |text, (name, value)| text.replace(&format!("{{{name}}}"), &value.to_string()));
        DEFINITIONS.iter().fold(text, |text, one| text.replace(&format!("{{{}}}", one.name), one.value))
    }

    /// The condition that a column is in the time range, as far as its beginning says.
    fn from(&self, column: &str) -> Option<String> {
        self.from_ns.map(|from| compared(column, ">", from))
    }

    /// The condition that a row ends in the time range, as far as its end says.
    fn until(&self) -> Option<String> {
        self.to_ns.map(|to| compared("t", "<=", to))
    }

    /// The condition that a row is of no clock that is ahead; with an end of the time range, that says it.
    fn not_ahead(&self) -> Option<String> {
        self.to_ns.is_none().then(|| format!("t <= {LATEST}"))
    }

    fn of_job(&self) -> Option<String> {
        self.job.as_ref().map(|job| format!("job = '{}'", job.0))
    }

    /// The condition that a row is selected. Without a beginning, not one of a clock that was not set, and without an
    /// end, not one of a clock that is ahead: they would stretch the time range by decades.
    fn condition(&self) -> String {
        let from = self.from("t").unwrap_or_else(|| compared("t", ">=", FIRST_NS));
        all([Some(from), self.until().or_else(|| self.not_ahead()), self.of_job()])
    }
}

/// All of these conditions.
fn all<const N: usize>(conditions: [Option<String>; N]) -> String {
    conditions.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// A comparison of a column with a time, to the millisecond.
fn compared(column: &str, sign: &str, ns: u64) -> String {
    let time = units::time_utc(ns);
    if ns.is_multiple_of(NS_PER_S) {
        format!("{column} {sign} TIMESTAMP '{}'", time.get(..19).unwrap_or_default())
    } else {
        // A TIMESTAMP of ClickHouse has whole seconds; both convert a string to the type of the column.
        format!("{column} {sign} '{}'", time.get(..23).unwrap_or_default())
    }
}

/// A name that can be embedded in an SQL string of any engine without escaping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Engines differ in the meaning of a backslash.
        if text.is_empty() || text.contains(['\'', '\\']) || text.chars().any(char::is_control) {
            return Err(format!(
                "invalid name '{text}': it is empty, or has a quote, backslash or control character"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_take_the_thresholds_of_findings() {
        let sql = |limits: Limits| Question::Loss.sql(&Chosen { limits, ..Chosen::default() });
        let mut limits = Limits::default();
        assert!(sql(limits.clone()).contains(&limits.loss.ratio.to_string()));
        limits.loss.ratio = 0.012_345;
        assert!(sql(limits).contains("0.012345"));
    }

    #[test]
    fn rows_are_chosen_by_job_and_time() {
        let chosen = Chosen {
            job: Some("job 7".parse().unwrap()),
            from_ns: Some(1_763_800_000 * NS_PER_S),
            to_ns: Some(1_763_800_060 * NS_PER_S),
            ..Chosen::default()
        };
        let parts = Chosen { from_ns: Some(1_763_800_000_250_000_000), ..Chosen::default() };
        let ahead = "t <= cast(now() as timestamp) + interval 1 day";
        assert_eq!(parts.condition(), format!("t > '2025-11-22 08:26:40.250' and {ahead}"));
        let condition =
            "t > TIMESTAMP '2025-11-22 08:26:40' and t <= TIMESTAMP '2025-11-22 08:27:40' and job = 'job 7'";
        assert_eq!(chosen.condition(), condition);
        for question in Question::value_variants() {
            let sql = question.sql(&chosen);
            assert!(
                sql.contains(condition) && !sql.contains('{') && !sql.contains(';'),
                "{question:?}: {sql}"
            );
            let sql = sql + &question.summary(&chosen);
            for table in crate::record::TABLES.iter().map(|table| table.name) {
                let read = sql.contains(&format!("from {table}")) || sql.contains(&format!("join {table}"));
                assert_eq!(read, question.tables().contains(&table), "{question:?}: {table}");
            }
            let of_set_clocks = format!("where t >= TIMESTAMP '2010-01-01 00:00:00' and {ahead}");
            assert!(question.sql(&Chosen::default()).contains(&of_set_clocks));
            assert!(!sql.contains(ahead), "the range says it");
        }
    }

    #[test]
    fn the_document_has_every_definition() {
        let document = include_str!("../../../docs/fleet.md");
        let open: Vec<String> = DEFINITIONS.iter().map(ToString::to_string).collect();
        let open: Vec<_> = open.iter().filter(|line| !document.contains(line.as_str())).collect();
        assert!(open.is_empty(), "docs/fleet.md lacks {open:#?}");
    }

    /// What the finding takes for a failed set-up, the timeline does too.
    #[test]
    fn a_failed_setup_is_that_of_the_finding() {
        let sql = Question::Timeline.sql(&Chosen::default());
        assert!(
            sql.contains(
                "((event in ('modify to INIT', 'modify to RTR', 'modify to RTS') or event like 'DEVX modify to INIT%' \
                 or event like 'DEVX modify to RTR%' or event like 'DEVX modify to RTS%') and errno is not null \
                 or event = 'create' and errno in (12, 28, 11))"
            ),
            "{sql}"
        );
        assert!(sql.contains("part_stuck_ns >= 1000000000 then"), "{sql}");
        let followed = "(end_kind is not null or sources like '%control_path%' or sources like '%devx%')";
        assert!(sql.contains(followed), "{sql}");
        let dashboard = include_str!("../../../docs/dashboards/clickhouse.json");
        assert!(dashboard.contains(&failed_setup()), "{}", failed_setup());
    }

    #[test]
    fn a_name_cannot_end_its_string() {
        for text in ["", "a'b", "a\\", "a\nb"] {
            assert!(text.parse::<Name>().is_err(), "{text:?}");
        }
        assert_eq!("a.b-7/ü \"x\"".parse::<Name>().unwrap().as_str(), "a.b-7/ü \"x\"");
    }

    #[test]
    fn every_column_of_the_answer_is_in_the_sql() {
        for question in [Question::Balance, Question::Jobs, Question::Stragglers, Question::Timeline] {
            let sql = question.sql(&Chosen::default());
            for column in question.columns().iter().filter(|column| column.name != "confidence") {
                assert!(sql.contains(column.name), "{question:?}: {}", column.name);
            }
        }
    }

    #[test]
    fn columns_that_the_sql_reads_are_columns_of_the_tables() {
        // Names of results must differ from names of columns: see the module's documentation.
        let known: Vec<&str> =
            crate::record::TABLES.iter().flat_map(|table| table.columns).map(|column| column.name).collect();
        for name in
            ["rtt_p99_ns", "ecn_capable", "retransmitted", "neighbour_system", "straggler", "behind_ns"]
        {
            assert!(known.contains(&name), "{name}");
        }
    }
}
