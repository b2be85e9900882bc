//! Columns of the queue pairs of NICs: one entry decides title, cell, order and export.

use serde_json::{Value, json};

use super::rows::{Row, letter};
use crate::analysis::QpSource;
use crate::tui::column::compact;
use crate::util::units::{self, Scale, UNKNOWN};

/// Column of the table.
#[derive(Debug)]
pub(in crate::tui) struct Column {
    /// Name in exported files.
    pub(super) name: &'static str,
    pub(in crate::tui) title: &'static str,
    /// Meaning, for the help.
    pub(in crate::tui) help: &'static str,
    pub(super) width: u16,
    /// Columns of lower rank are shown first where not all have room.
    rank: u8,
    /// Figures stand at the right, and the largest are sorted first.
    pub(super) right: bool,
    pub(super) text: fn(&Row<'_>) -> Option<String>,
    pub(super) value: fn(&Row<'_>) -> Value,
}

const fn figure(
    (name, title, help): (&'static str, &'static str, &'static str),
    (width, rank): (u16, u8),
    text: fn(&Row<'_>) -> Option<String>,
    value: fn(&Row<'_>) -> Value,
) -> Column {
    Column { name, title, help, width, rank, right: true, text, value }
}

const fn word(
    (name, title, help): (&'static str, &'static str, &'static str),
    (width, rank): (u16, u8),
    text: fn(&Row<'_>) -> Option<String>,
    value: fn(&Row<'_>) -> Value,
) -> Column {
    Column { name, title, help, width, rank, right: false, text, value }
}

/// A column whose cell is the text of its value.
macro_rules! same {
    ($column:ident, $names:expr, $place:expr, |$row:ident| $value:expr) => {
        $column($names, $place, |$row| $value.map(|value| value.to_string()), |$row| json!($value))
    };
}

/// All columns, from left to right.
pub(in crate::tui) const COLUMNS: [Column; 23] = [
    same!(figure, ("lqpn", "QP", "queue pair number on this host"), (8, 0), |row| Some(row.qp.lqpn)),
    same!(figure, ("rqpn", "PEER QP", "queue pair number at the other end"), (8, 1), |row| row.qp.rqpn),
    word(
        ("kind", "TYPE", "transport: RC, UC, UD …"),
        (4, 16),
        |row| row.qp.kind.map(str::to_owned),
        |row| json!(row.qp.kind),
    ),
    word(
        ("state", "STATE", "state of the queue pair; ended: it no longer exists"),
        (5, 2),
        |row| Some(row.state().to_owned()),
        |row| json!(row.state()),
    ),
    word(
        ("sources", "SOURCE", "where it is known from, a letter each: the title has them"),
        (6, 3),
        |row| Some(sources(row)),
        |row| json!(row.qp.sources),
    ),
    word(
        ("device", "DEVICE", "RDMA device and port"),
        (10, 8),
        |row| Some(row.label()),
        |row| json!(row.label()),
    ),
    same!(word, ("src", "FROM", "address on this host"), (15, 17), |row| row.qp.control.src),
    same!(word, ("dst", "TO", "address of the other end"), (15, 4), |row| row.qp.control.dst),
    same!(figure, ("udp_port", "UDP", "UDP source port, which ECMP hashes"), (5, 11), |row| {
        row.qp.control.udp_port
    }),
    same!(figure, ("dscp", "DSCP", "DSCP of its packets"), (4, 12), |row| row.qp.control.dscp),
    same!(figure, ("path_mtu", "MTU", "path MTU in bytes"), (4, 18), |row| row.qp.control.path_mtu),
    figure(
        ("timeout_ns", "TIMEOUT", "transport timeout, as set"),
        (10, 14),
        |row| row.qp.control.timeout_ns.map(timeout),
        |row| json!(row.qp.control.timeout_ns),
    ),
    same!(figure, ("retry_cnt", "RETRY", "retry count, as set"), (5, 15), |row| row.qp.control.retry_cnt),
    figure(
        (
            "tx_packets_per_s",
            "TX pkt/s",
            "packets sent per second, from PSNs of two kernel lists about 10 s apart, else of the last two readings of the NIC's context",
        ),
        (9, 5),
        |row| row.sent.map(compact),
        |row| json!(row.sent),
    ),
    figure(
        ("rx_packets_per_s", "RX pkt/s", "packets received per second, likewise"),
        (9, 9),
        |row| row.received.map(compact),
        |row| json!(row.received),
    ),
    figure(
        ("in_flight", "FLIGHT", "packets sent and not yet acknowledged"),
        (6, 6),
        |row| row.qp.in_flight.map(|n| compact(f64::from(n))),
        |row| json!(row.qp.in_flight),
    ),
    figure(
        ("stuck_ns", "STUCK", "time without an acknowledgement while packets are in flight"),
        (8, 7),
        |row| row.qp.stuck_ns.map(stuck),
        |row| json!(row.qp.stuck_ns),
    ),
    same!(figure, ("retries_used", "USED", "retries used up for the packet that waits"), (4, 10), |row| {
        row.qp.retries_used
    }),
    figure(
        ("timeouts", "TMOUTS", "timeouts attributed to the queue pair, at most"),
        (6, 20),
        |row| row.qp.timeouts.map(|n| compact(n as f64)),
        |row| json!(row.qp.timeouts),
    ),
    figure(
        ("requests_per_s", "POSTS/s", "work requests posted per second, from samples (--sample-posts)"),
        (8, 19),
        |row| row.qp.posts.as_ref()?.requests_per_s.map(|n| compact(n as f64)),
        |row| json!(row.qp.posts.as_ref().and_then(|posts| posts.requests_per_s)),
    ),
    figure(
        ("age_ns", "AGE", "time since its creation"),
        (11, 21),
        |row| row.age_ns.map(units::duration),
        |row| json!(row.age_ns),
    ),
    word(("process", "PROCESS", "process that owns it"), (20, 13), process, |row| json!(row.process())),
    word(("pod", "POD", "pod of that process"), (16, 22), |row| row.qp.pod.clone(), |row| json!(row.qp.pod)),
];

fn process(row: &Row<'_>) -> Option<String> {
    row.process()
}

/// A letter for each source, in the order of the legend.
fn sources(row: &Row<'_>) -> String {
    QpSource::ALL.into_iter().filter(|source| row.qp.sources.contains(source)).map(letter).collect()
}

/// A timeout of 0 is none at all.
pub(super) fn timeout(ns: u64) -> String {
    if ns == 0 { "never".to_owned() } else { units::duration(ns).replace(' ', "") }
}

fn stuck(ns: u64) -> String {
    if ns == 0 { "0".to_owned() } else { units::duration(ns).replace(' ', "") }
}

impl Column {
    /// The cell; a dash for what none of the queue pair's sources has.
    pub(super) fn cell(&self, row: &Row<'_>) -> String {
        (self.text)(row).unwrap_or_else(|| UNKNOWN.to_owned())
    }

    /// One unit for the rates or times of these rows, and the title that names it; `None` for other columns.
    pub(super) fn unit<'a>(&self, rows: impl Iterator<Item = &'a Row<'a>>) -> Option<(Scale, String)> {
        let known = rows.filter_map(|row| (self.value)(row).as_f64());
        if self.name.ends_with("_per_s") {
            let scale = Scale::of(known);
            let prefix = scale.prefix();
            let title = match self.title.rsplit_once(' ') {
                Some((way, unit)) => format!("{way} {prefix}{unit}"),
                None => format!("{prefix}{}", self.title),
            };
            return Some((scale, title));
        }
        // An age takes two units.
        let is_time = self.name.ends_with("_ns") && self.name != "age_ns";
        is_time.then(|| {
            let scale = Scale::of_ns(known);
            (scale, format!("{} {}", self.title, scale.time_unit()))
        })
    }

    /// The cell in the unit of the column, if it has one; 0 may have a word of its own.
    pub(super) fn cell_in(&self, row: &Row<'_>, unit: Option<&Scale>) -> String {
        let value = (self.value)(row).as_f64().filter(|value| *value > 0.0);
        match unit.zip(value) {
            Some((scale, value)) => scale.show(Some(value)),
            None => self.cell(row),
        }
    }
}

/// Places in [`COLUMNS`] of those that fit into `width`, a space between each.
pub(super) fn fit(width: u16) -> Vec<usize> {
    let mut by_rank: Vec<usize> = (0..COLUMNS.len()).collect();
    by_rank.sort_by_key(|at| COLUMNS.get(*at).map(|column| column.rank));
    let mut left = width;
    let mut shown = Vec::new();
    for at in by_rank {
        let Some(taken) = COLUMNS.get(at).map(|column| column.width + 1).filter(|taken| *taken <= left)
        else {
            break;
        };
        left -= taken;
        shown.push(at);
    }
    shown.sort_unstable();
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_most_fits_into_a_small_terminal() {
        let titles = |width| fit(width).into_iter().map(|at| COLUMNS[at].title).collect::<Vec<_>>();
        assert_eq!(titles(78), ["QP", "PEER QP", "STATE", "SOURCE", "TO", "TX pkt/s", "FLIGHT", "STUCK"]);
        assert_eq!(titles(300).len(), COLUMNS.len());
        assert_eq!(titles(0), [] as [&str; 0]);
        let mut ranks: Vec<u8> = COLUMNS.iter().map(|column| column.rank).collect();
        ranks.sort_unstable();
        assert_eq!(ranks, (0..23).collect::<Vec<u8>>(), "no two of the same rank");
        assert!(COLUMNS.iter().all(|column| column.title.len() <= usize::from(column.width)));
    }
}
