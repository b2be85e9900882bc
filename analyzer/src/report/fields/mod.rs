//! What every field of the report means: the one table behind docs/metrics.md.

mod flow;
mod run;
mod traffic;

use std::fmt::Write as _;

use rocescope_common::account::Event;
use rocescope_common::wire::SkipReason;

pub use flow::FLOW;
pub use run::RUN;
pub use traffic::TRAFFIC;

/// A field of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldMeta {
    /// Where it is: names joined with dots, `[]` for each element of a list, `<..>` for the keys of
    /// a map.
    pub name: &'static str,
    /// Unit, or the kind of value; empty for objects.
    pub unit: &'static str,
    /// What it says.
    pub meaning: &'static str,
    /// When it is null; empty when it never is.
    pub null: &'static str,
}

/// A list of [`FieldMeta`] in the form `"name", "unit": "meaning";` with `or null "when"` where it
/// may be null.
macro_rules! fields {
    ($($name:literal, $unit:literal: $meaning:literal $(or null $null:literal)?;)*) => {
        &[$($crate::report::fields::FieldMeta {
            name: $name,
            unit: $unit,
            meaning: $meaning,
            null: concat!($($null)?),
        }),*]
    };
}
use fields;

/// An event: its bit in [`Event`], its name and what it says.
pub const EVENTS: [(u16, &str, &str); 8] = [
    (Event::NEW_FLOW, "new_flow", "the first packet of a flow"),
    (Event::CNP, "cnp", "a congestion notification packet"),
    (Event::CE, "ce", "the first packet marked CE after at least 10 ms without one"),
    (Event::NAK, "nak", "a negative acknowledgement"),
    (Event::RNR, "rnr_nak", "a receiver-not-ready NAK: no receive buffer was posted"),
    (
        Event::GAP,
        "gap",
        "PSNs were skipped that are missing, or late; not those that responses jump over between two messages",
    ),
    (Event::RESTART, "restart", "the PSN is so far off that the QP number must be in use again"),
    (Event::GSI, "gsi", "a datagram to QP 1: connection management"),
];

/// All fields, in the order of the report.
pub fn all() -> impl Iterator<Item = &'static FieldMeta> {
    RUN.iter().chain(TRAFFIC).chain(FLOW)
}

/// The text of docs/metrics.md.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    table(&mut text, RUN);
    text.push_str(TRAFFIC_HEAD);
    table(&mut text, TRAFFIC);
    text.push_str(FLOW_HEAD);
    table(&mut text, FLOW);
    text.push_str(SKIPPED_HEAD);
    for reason in SkipReason::ALL {
        row(&mut text, &[&code(reason.name()), reason.meaning()]);
    }
    text.push_str(EVENTS_HEAD);
    for (_, name, meaning) in EVENTS {
        row(&mut text, &[&code(name), meaning]);
    }
    text
}

const HEAD: &str = "\
# The report and its figures

<!-- Made from the table in analyzer/src/report/fields: change that, then run
     ROCESCOPE_BLESS=1 cargo test -p rocescope metrics -->

`--output json` prints one `rocescope.report/1`, `--output jsonl` one per interval, each cumulative.
The text report and the terminal UI show the same figures by the same definitions.

- Counts are integers. Times are Unix time in integer nanoseconds. Ratios are fractions of 1.
- What is not known is null, never 0.
- Later versions of rocescope may add fields; those below keep their name and meaning.
- `[]` stands for each element of a list, `<..>` for the keys of a map.

These sums always hold:

- `totals.packets` = `totals.roce_packets` + all of `totals.skipped`
- `totals.roce_packets` = all `flows[].packets` + `totals.retired.packets` + `totals.lost.flow_table_full`
  + `totals.lost.contended`

## Run, links and findings

";

const TRAFFIC_HEAD: &str = "
## Traffic in time and by hosts

All of these are null where packets are not seen one by one.

";

const FLOW_HEAD: &str = "
## Flows

A flow is one direction of a queue pair on one link: (link, direction, source, destination,
destination QP). The UDP source port is no part of it. Flows are sorted by link, source, destination
and destination QP.

";

const SKIPPED_HEAD: &str = "
## Reasons in `totals.skipped`

A frame is RoCE when its whole base transport header is there. Every other frame is counted under one
of these reasons; reasons that did not occur are left out.

| reason | meaning |
|---|---|
";

const EVENTS_HEAD: &str = "
## Events

What is told at once, in live runs through a ring buffer. Counters never depend on events: those that
do not fit are counted in `totals.lost.events_dropped`.

| event | meaning |
|---|---|
";

fn table(text: &mut String, fields: &[FieldMeta]) {
    text.push_str("| field | unit | meaning | null when |\n|---|---|---|---|\n");
    for field in fields {
        row(text, &[&code(field.name), field.unit, field.meaning, field.null]);
    }
}

fn row(text: &mut String, cells: &[&str]) {
    for cell in cells {
        // Writing to a string does not fail. A bar would end the cell.
        let _ = write!(text, "| {} ", cell.replace('|', "\\|"));
    }
    text.push_str("|\n");
}

fn code(name: &str) -> String {
    format!("`{name}`")
}

#[cfg(test)]
mod tests;
