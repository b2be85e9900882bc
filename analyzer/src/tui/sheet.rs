//! What each screen shows, as a table: a row for each thing or moment, and null for what is not known.

use serde_json::{Value, json};

use super::app::{App, Data};
use super::column::{self, Column, Kind};
use super::export::Sheet;
use super::log;
use super::screens::trends::{self, LATENCY, Point, TRENDS, Trend};
use super::screen::Screen;
use super::table::Group;
use crate::analysis::direction_name;
use crate::metrics::traffic::bins::Bursts;
use crate::model::Counts;
use crate::sample::{Direction, address};

/// A counter and its name.
type Total = (&'static str, fn(&Counts) -> u64);

/// What had been counted by a moment.
const TOTALS: &[Total] = &[
    ("packets", |c| c.packets),
    ("bytes", |c| c.bytes),
    ("ce_packets", |c| c.ecn_data[3]),
    ("cnp_packets", |c| c.cnp),
    ("missing", |c| c.missing),
    ("lost", |c| c.lost),
    ("repeats", |c| c.repeats),
    ("acks", |c| c.acks),
    ("rnr_naks", |c| c.rnr),
    ("naks", Counts::naks),
];

/// Every column of these rows. Rates are per second, ratios fractions of 1.
pub(super) fn of_rows(data: &Data, rows: &[usize]) -> Sheet {
    let cx = data.context();
    let columns: Vec<&Column> = columns(false).collect();
    let rows = rows.iter().filter_map(|index| data.model.rows.get(*index));
    Sheet {
        names: columns.iter().map(|column| column.name.to_owned()).collect(),
        rows: rows.map(|row| columns.iter().map(|column| column.value(row, cx).json()).collect()).collect(),
    }
}

fn columns(grouped: bool) -> impl Iterator<Item = &'static Column> {
    column::COLUMNS.iter().filter(move |c| c.kind != Kind::Share && (!grouped || c.kind.sums_up()))
}

fn direction(direction: Option<Direction>) -> Value {
    json!(direction.map(direction_name))
}

/// A table over time: `first` names what the first values of each row say.
fn over_time(first: &[&str], times: &[Trend]) -> Sheet {
    let mut sheet = Sheet::new(first);
    sheet.names.extend(["time_ns", "seconds"].map(str::to_owned));
    sheet.names.extend(TOTALS.iter().map(|(name, _)| (*name).to_owned()));
    sheet.names.extend(TRENDS.iter().chain(times).map(|trend| trend.field.to_owned()));
    sheet
}

/// Adds a row for each point.
fn add_points(sheet: &mut Sheet, first: &[Value], points: &[Point], times: &[Trend]) {
    sheet.rows.extend(points.iter().map(|point| {
        let mut row = first.to_vec();
        row.extend([json!(point.time_ns), json!(point.seconds)]);
        row.extend(TOTALS.iter().map(|(_, total)| json!(point.total.as_ref().map(total))));
        row.extend(TRENDS.iter().map(|trend| json!((trend.value)(point))));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time that was counted"
        )]
        row.extend(times.iter().map(|trend| json!((trend.value)(point).map(|ns| ns as u64))));
        row
    }));
}

impl App {
    /// What the screen shows; of the past, that of then.
    #[must_use]
    pub fn sheet(&self) -> Sheet {
        match self.screen {
            Screen::Overview => self.overview_sheet(),
            Screen::Qps => self.flows_sheet(),
            Screen::Detail => self.detail_sheet(),
            Screen::Matrix => self.matrix_sheet(),
            Screen::Links => self.links_sheet(),
            Screen::Bursts => self.bursts_sheet(),
            Screen::Events => self.events_sheet(),
            Screen::Findings => self.findings_sheet(),
        }
    }

    /// The trends of everything, where `link` is null and each packet counts once, and of each link.
    fn overview_sheet(&self) -> Sheet {
        let mut sheet = over_time(&["link", "direction"], &[]);
        let all = trends::points(self, usize::MAX);
        add_points(&mut sheet, &[Value::Null, Value::Null], &all, &[]);
        let links = self.data.iter().flat_map(|data| &data.model.links);
        for (at, link) in links.enumerate() {
            let first = [json!(link.name), direction(link.direction)];
            add_points(&mut sheet, &first, &trends::link_points(self, at, usize::MAX), &[]);
        }
        sheet
    }

    /// The charts of both directions, with what had been counted.
    fn detail_sheet(&self) -> Sheet {
        let mut sheet = over_time(&["link", "src", "dst", "dest_qp"], LATENCY);
        let detail = self.data.as_ref().and_then(|data| data.detail.as_ref());
        for one in detail.iter().flat_map(|(this, other)| std::iter::once(this).chain(other)) {
            let key = &one.id.key;
            let [src, dst] = [key.src, key.dst].map(|end| address(key.family, end));
            let first = [json!(one.link), json!(src), json!(dst), json!(key.dest_qp)];
            add_points(&mut sheet, &first, &trends::flow_points(self, &one.id, usize::MAX), LATENCY);
        }
        sheet
    }

    /// Rows in the order shown, or their groups.
    fn flows_sheet(&self) -> Sheet {
        let Some(data) = &self.data else { return Sheet::default() };
        if self.table.group == Group::None {
            return of_rows(data, &self.table.order);
        }
        let columns: Vec<&Column> = columns(true).collect();
        let mut sheet = Sheet::new(&["group", "flows"]);
        sheet.names.extend(columns.iter().map(|column| column.name.to_owned()));
        let sums = self.table.order.iter().filter_map(|at| self.group_sum(*at));
        sheet.rows = sums
            .map(|sum| {
                let cells = columns.iter().map(|column| column.value(&sum.row, data.context()).json());
                [json!(sum.name.to_string()), json!(sum.flows)].into_iter().chain(cells).collect()
            })
            .collect();
        sheet
    }

    /// The latest bins (`bin`) and the whole run (`run`) of each link, and the steps of the job (`step`).
    fn bursts_sheet(&self) -> Sheet {
        let mut sheet = Sheet::new(&[
            "what",
            "link",
            "direction",
            "start_ns",
            "length_ns",
            "bytes",
            "bits_per_s",
            "busy_ns",
            "silence_ns",
        ]);
        let Some(data) = &self.data else { return sheet };
        let traffic = data.sample.metrics.traffic.iter().flat_map(|traffic| &traffic.links);
        for (link, traffic) in data.sample.links.iter().zip(traffic) {
            let name = [json!(link.name), direction(link.direction)];
            sheet.rows.extend(traffic.bursts.iter().flat_map(|bursts| loads(&name, bursts)));
        }
        let report = self.analysis.as_ref().map(|analysis| &analysis.report);
        if let Some(steps) = report.and_then(|report| report.facts.steps.as_ref()) {
            sheet.rows.extend(steps.starts_ns.iter().map(|start| {
                // The latest are known in full.
                let step = steps.latest.iter().find(|step| step.start_ns == *start);
                vec![
                    json!("step"),
                    json!(steps.link),
                    direction(steps.direction),
                    json!(start),
                    json!(step.map(|step| step.length_ns)),
                    Value::Null,
                    Value::Null,
                    json!(step.map(|step| step.busy_ns)),
                    json!(step.map(|step| step.silence_ns)),
                ]
            }));
        }
        sheet
    }

    fn matrix_sheet(&self) -> Sheet {
        let mut sheet = Sheet::new(&[
            "src",
            "dst",
            "flows",
            "bytes",
            "bits_per_s",
            "ce_ratio",
            "missing",
            "lost",
            "sequence_naks",
            "latency_p99_ns",
        ]);
        let cells = self.data.iter().flat_map(|data| data.matrix.iter());
        sheet.rows = cells
            .map(|(src, dst, cell)| {
                vec![
                    json!(src),
                    json!(dst),
                    json!(cell.flows),
                    json!(cell.counts.bytes),
                    json!(cell.value(super::matrix::Metric::Rate)),
                    json!(cell.counts.ce_ratio()),
                    json!(cell.counts.missing),
                    json!(cell.counts.lost),
                    json!(cell.counts.sequence_naks),
                    json!(cell.latency_ns),
                ]
            })
            .collect();
        sheet
    }

    fn links_sheet(&self) -> Sheet {
        let mut sheet = Sheet::new(&[
            "link",
            "direction",
            "flows",
            "bits_per_s",
            "packets_per_s",
            "ce_ratio",
            "packets",
            "bytes",
            "skipped_packets",
        ]);
        let links = self.data.iter().flat_map(|data| &data.model.links);
        sheet.rows = links
            .map(|link| {
                vec![
                    json!(link.name),
                    direction(link.direction),
                    json!(link.flows),
                    json!(link.delta.map(|d| d.bits_per_s())),
                    json!(link.delta.map(|d| d.packets_per_s())),
                    json!(link.delta.and_then(|d| d.counts.ce_ratio())),
                    json!(link.total.packets),
                    json!(link.total.bytes),
                    json!(link.skipped.packets),
                ]
            })
            .collect();
        sheet
    }

    fn events_sheet(&self) -> Sheet {
        let mut sheet = Sheet::new(&[
            "link",
            "direction",
            "first_ns",
            "last_ns",
            "event",
            "src",
            "dst",
            "dest_qp",
            "count",
            "text",
        ]);
        let links = self.data.as_ref().map_or(&[][..], |data| &data.sample.links);
        sheet.rows = self
            .shown_events()
            .map(|log::Listed { entry, stand }| {
                let key = &entry.key;
                let link = links.get(usize::from(key.link));
                vec![
                    json!(link.map(|link| &link.name)),
                    direction(link.and_then(|link| link.direction)),
                    json!(entry.first_ns),
                    json!(stand.time_ns),
                    json!(entry.class.word),
                    json!(address(key.family, key.src)),
                    json!(address(key.family, key.dst)),
                    json!(key.dest_qp),
                    json!(stand.count),
                    json!(stand.text),
                ]
            })
            .collect();
        sheet
    }

    fn findings_sheet(&self) -> Sheet {
        let mut sheet =
            Sheet::new(&["id", "severity", "title", "evidence", "flows", "advice", "last_seen_ns"]);
        let findings = self.concluded().map_or(&[][..], |concluded| concluded.findings).iter();
        sheet.rows = findings
            .map(|finding| {
                vec![
                    json!(finding.id),
                    json!(finding.severity),
                    json!(finding.title),
                    json!(finding.evidence),
                    json!(finding.flows),
                    json!(finding.advice),
                    json!(finding.last_seen_ns),
                ]
            })
            .collect();
        sheet
    }
}

/// The load of a link: bin by bin, then over the whole run.
fn loads(link: &[Value; 2], bursts: &Bursts) -> Vec<Vec<Value>> {
    let end_ns = bursts.first_ns.saturating_add(bursts.bins.saturating_mul(bursts.bin_ns));
    let row = |what: &str, start_ns: u64, length_ns: u64, bytes: u64| {
        // What lies outside of the run has no load.
        let (from, to) = (start_ns.max(bursts.first_ns), start_ns.saturating_add(length_ns).min(end_ns));
        let length = to.saturating_sub(from);
        let rate = (length > 0).then(|| bytes as f64 * 8e9 / length as f64);
        let [name, direction] = link.clone();
        vec![
            json!(what),
            name,
            direction,
            json!(from),
            json!(length),
            json!(bytes),
            json!(rate),
            Value::Null,
            Value::Null,
        ]
    };
    let first = bursts.bins.saturating_sub(bursts.recent.len() as u64);
    let recent = (first..).zip(&bursts.recent).map(|(bin, bytes)| {
        let start = bursts.first_ns.saturating_add(bin.saturating_mul(bursts.bin_ns));
        row("bin", start, bursts.bin_ns, u64::from(*bytes))
    });
    let long_ns = bursts.long_bins.saturating_mul(bursts.bin_ns);
    let long = (0u64..).zip(&bursts.long).map(|(at, bytes)| {
        let start = bursts.long_first.saturating_mul(bursts.bin_ns);
        row("run", start.saturating_add(at.saturating_mul(long_ns)), long_ns, *bytes)
    });
    recent.chain(long).collect()
}
