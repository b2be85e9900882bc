//! The columns that fit on the screen, and their widths.

use super::{COLUMNS, Column, ColumnNeeds, Context, FittedColumn, Id, ValueKind, column, shown_link};
use crate::findings::Problem;
use crate::metrics::timeline::SignalKind;
use crate::model::over_time::Series;
use crate::model::signals::ROWS;
use crate::model::{Counts, Longest};

/// Room for the longest IPv4 address, and for most of the IPv6 ones.
const ADDRESS_V4: u16 = 15;
const ADDRESS_V6: u16 = 39;

/// Below this width columns are as narrow as they may be.
const NARROW: u16 = 72;
/// Minimum room for an address and for a QPN on narrow screens.
const ADDRESS_LEAST: u16 = 9;
const QP_LEAST: u16 = 4;

/// Properties of the data that decide which columns are shown, and their widths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is something of its own")]
pub struct ColumnContext {
    /// True if addresses are IPv6.
    pub ipv6: bool,
    /// True if there are latencies.
    pub latency: bool,
    /// Latencies of which there are enough for a 99th percentile.
    pub p99: bool,
    /// Processes of queue pairs.
    pub owners: bool,
    /// Pods of queue pairs.
    pub pods: bool,
    /// Letters of the longest name of a link, its direction included.
    pub link: u16,
    /// Letters of the longest IPv4 address; 0 when there is none.
    pub ipv4: u16,
    /// Digits of the longest queue pair number; 0 when there is none.
    pub qp: u16,
    /// Links that see the same packets: rows that differ in their link alone.
    pub twins: bool,
    /// Columns that are zero or unknown in each row in the time range, and about which no problem is active, one bit
    /// each.
    pub quiet: u8,
    /// The same since the start.
    pub never: u8,
    /// True if congestion is an active problem: rows have it as their state.
    pub congested: bool,
}

type Count = fn(&Counts) -> u64;

/// The columns of problems, those that cost most first, what they count, and their series on the timeline.
const PROBLEMS: [(Id, Count, Series); 6] = [
    (Id::Lost, |counts| counts.lost, Series::Signal(SignalKind::Lost)),
    (Id::Retransmissions, |counts| counts.retransmitted, Series::Signal(SignalKind::Retransmitted)),
    (Id::Naks, Counts::naks, Series::Signal(SignalKind::Nak)),
    (Id::Rnr, |counts| counts.rnr, Series::Signal(SignalKind::Rnr)),
    (Id::CeNow, |counts| counts.ecn_data[3], Series::CeRatio),
    (Id::CnpRate, |counts| counts.cnp, Series::Signal(SignalKind::Cnp)),
];

/// The bit of the column of gaps, which no row of the timeline shows.
const GAPS: usize = PROBLEMS.len();

/// The columns of problems of which nothing was counted: bit n is that of number n.
fn quiet(counts: &Counts) -> u8 {
    let counted = PROBLEMS.iter().map(|(_, count, _)| count(counts)).chain([counts.gaps]);
    counted.enumerate().map(|(at, count)| u8::from(count == 0) << at).sum()
}

/// Letters of a link's name, at most.
const LONGEST_LINK: u16 = 40;

impl ColumnContext {
    /// That of these data.
    pub fn of(cx: Context<'_>) -> Self {
        let owners = !cx.sample.owners.all().is_empty();
        let pods = cx.sample.owners.all().iter().any(|owner| owner.pod.is_some());
        let names = cx.model.links.iter().map(|link| shown_link(link).chars().count());
        let link = names.max().and_then(|longest| u16::try_from(longest).ok()).unwrap_or(0);
        let Longest { ipv4, qp } = cx.model.longest;
        let twins = cx.model.dedup.taps > 1;
        let counted = cx.model.dedup.delta.map_or(cx.model.total, |delta| delta.counts);
        Self {
            ipv6: cx.model.has_ipv6,
            latency: cx.model.has_latency,
            p99: cx.model.has_p99,
            owners,
            pods,
            link,
            ipv4,
            qp,
            twins,
            quiet: quiet(&counted),
            never: quiet(&cx.model.total),
            congested: false,
        }
    }

    /// The same where these kinds of problems are active. A problem stays active for a while after its last signal, and
    /// its columns stay with it, so that they do not come and go with each lost packet.
    #[must_use]
    pub fn with_active(mut self, active: impl Fn(Problem) -> bool) -> Self {
        for (at, (.., series)) in PROBLEMS.iter().enumerate() {
            let mut about = ROWS.iter().filter(|row| row.series == *series).flat_map(|row| row.about);
            if self.never & 1 << at == 0 && about.any(|kind| active(*kind)) {
                self.quiet &= !(1 << at);
            }
        }
        self.congested = active(Problem::Congestion);
        self
    }

    /// Columns of problems of which something was counted.
    pub fn troubles(self) -> u16 {
        let quiet = u16::try_from((self.quiet & !(1 << GAPS)).count_ones()).unwrap_or(0);
        u16::try_from(PROBLEMS.len()).unwrap_or(0).saturating_sub(quiet)
    }

    /// True for a column of problems of which nothing was counted, or the same since the start.
    fn is_quiet(self, id: Id) -> bool {
        let same = match id {
            Id::CeAll => Id::CeNow,
            Id::Cnps => Id::CnpRate,
            id => id,
        };
        let gaps = (id == Id::Gaps).then_some(GAPS);
        let at = PROBLEMS.iter().position(|(problem, ..)| *problem == same).or(gaps);
        at.is_some_and(|at| self.quiet & 1 << at != 0)
    }

    /// True if packets were lost.
    pub const fn lossy(self) -> bool {
        self.quiet & 1 == 0
    }

    /// The width of a column, or the `least` that it needs.
    fn width(self, column: &Column, least: bool) -> u16 {
        match column.id {
            Id::Source | Id::Destination if least && !self.ipv6 && self.ipv4 > 0 => {
                self.ipv4.clamp(ADDRESS_LEAST, column.width)
            }
            Id::Qp if least && self.qp > 0 => self.qp.clamp(QP_LEAST, column.width),
            // Addresses need what short names leave.
            Id::Link if self.ipv6 && self.link > 0 => self.link.clamp(QP_LEAST, column.width),
            _ => column.width,
        }
    }

    /// True if a column can have values.
    const fn shows(self, column: &Column) -> bool {
        match column.needs {
            ColumnNeeds::Packets => true,
            ColumnNeeds::Latency => self.latency,
            ColumnNeeds::Owners => self.owners,
        }
    }
}

/// The columns that fit into `width`, from left to right: the `chosen` ones in their order, or without
/// a choice those that matter most and are not empty. Addresses get what is left over.
pub fn fit(width: u16, has: ColumnContext, chosen: &[Id]) -> Vec<FittedColumn> {
    // One column of screen between two columns of the table.
    let mut left = width + 1;
    let used = if chosen.is_empty() { automatic(&mut left, has, width) } else { in_order(&mut left, chosen) };
    let address = |id| matches!(id, Id::Source | Id::Destination);
    let addresses = used.iter().filter(|fitted| address(fitted.column.id)).count();
    let grow = match u16::try_from(addresses) {
        Ok(n) if n > 0 && has.ipv6 => (left / n).min(ADDRESS_V6 - ADDRESS_V4),
        _ => 0,
    };
    left -= grow * u16::try_from(addresses).unwrap_or(0);
    let widths = used.into_iter().map(|FittedColumn { column, width }| {
        let more = match column.id {
            id if address(id) => grow,
            Id::Link => left.min(has.link.min(LONGEST_LINK).saturating_sub(width)),
            _ => 0,
        };
        FittedColumn { column, width: width + more }
    });
    widths.collect()
}

/// Those that matter most. Where a column with values finds no room, names are as narrow as they may be.
fn automatic(left: &mut u16, has: ColumnContext, width: u16) -> Vec<FittedColumn> {
    let narrow = width < NARROW;
    let whole = *left;
    let wide = ranked(left, has, (narrow, narrow), |_| true);
    let shown = |column: &Column| wide.iter().any(|fitted| fitted.column.id == column.id);
    let lacks = |column: &Column| has.shows(column) && rank(column, has, narrow) < UNKNOWN && !shown(column);
    if narrow || !COLUMNS.iter().any(lacks) {
        return wide;
    }
    *left = whole;
    ranked(left, has, (narrow, true), |_| true)
}

fn in_order(left: &mut u16, chosen: &[Id]) -> Vec<FittedColumn> {
    let fits = |id: &Id| {
        let column = column(*id);
        *left = left.checked_sub(column.width + 1)?;
        Some(FittedColumn { column, width: column.width })
    };
    chosen.iter().map_while(fits).collect()
}

/// Rank of columns that are zero or unknown in each row, and of one that has few values yet.
const QUIET: u8 = 100;
const UNKNOWN: u8 = QUIET - 1;

/// Columns with a smaller number come first: what there is trouble with, and no column that is zero or unknown in each
/// row before one with values. On narrow screens problems come before load.
fn rank(column: &Column, has: ColumnContext, narrow: bool) -> u8 {
    const FIRST: u8 = 2;
    let problem = PROBLEMS.iter().zip(0u8..).find(|((id, ..), _)| *id == column.id).map(|(_, at)| at);
    match (column.id, problem) {
        _ if has.is_quiet(column.id) => QUIET + problem.unwrap_or(u8::try_from(PROBLEMS.len()).unwrap_or(0)),
        // It alone differs between two rows of one flow.
        (Id::Link, _) if has.twins && !narrow => 1,
        // What rows have as their state has its figure beside it.
        (Id::CeNow, _) if has.congested => FIRST + 1,
        (_, Some(at)) => FIRST + 2 * at,
        // Behind the median, which is known earlier.
        (Id::P99, None) if !has.p99 => UNKNOWN,
        (Id::Pod, None) if !has.pods => UNKNOWN,
        (Id::Rate, _) if narrow => FIRST + 3,
        (_, None) if column.rank == 0 => 0,
        (_, None) => 20 + column.rank,
    }
}

/// `narrow`: problems come before load; `least`: columns are as narrow as they may be.
fn ranked(
    left: &mut u16,
    has: ColumnContext,
    (narrow, least): (bool, bool),
    among: fn(ValueKind) -> bool,
) -> Vec<FittedColumn> {
    let shows = |column: &&Column| has.shows(column) && among(column.kind);
    let rank = |column: &Column| rank(column, has, narrow);
    let mut ranked: Vec<&'static Column> = COLUMNS.iter().filter(shows).collect();
    ranked.sort_by_key(|column| rank(column));
    let mut limit = u8::MAX;
    for column in ranked {
        let wanted = has.width(column, least) + 1;
        // On wide screens IPv6 addresses come before the columns of least rank.
        let addresses = if has.ipv6 && column.rank >= 15 { 2 * (ADDRESS_V6 - ADDRESS_V4) } else { 0 };
        if rank(column) > limit || wanted + addresses > *left {
            limit = limit.min(rank(column));
            continue;
        }
        *left -= wanted;
    }
    let used = COLUMNS.iter().filter(shows).filter(|column| rank(column) < limit);
    let mut used: Vec<FittedColumn> =
        used.map(|column| FittedColumn { column, width: has.width(column, least) }).collect();
    // Columns with trouble stand right of the load, the costliest first; columns that are zero or unknown everywhere
    // stand behind all.
    let load = COLUMNS.iter().position(|column| column.id == Id::Rate).unwrap_or(0);
    used.sort_by_cached_key(|fitted| {
        let id = fitted.column.id;
        let trouble = PROBLEMS.iter().position(|(problem, ..)| *problem == id);
        let own = COLUMNS.iter().position(|column| column.id == id).unwrap_or(0);
        match trouble {
            _ if rank(fitted.column) >= UNKNOWN => (COLUMNS.len(), own),
            Some(at) => (load, 1 + at),
            None => (own, 0),
        }
    });
    used
}

/// The columns for sums of queue pairs that fit into `width`: those that matter most. `last`: nothing with values
/// stands behind them, so that they can end in columns of zeros.
pub fn fit_sums(width: u16, has: ColumnContext, last: bool) -> Vec<FittedColumn> {
    let has = ColumnContext { quiet: has.quiet, congested: has.congested, ..ColumnContext::default() };
    let mut columns = ranked(&mut (width + 1), has, (false, false), ValueKind::sums_up);
    columns.retain(|fitted| last || !has.is_quiet(fitted.column.id));
    columns
}

#[cfg(test)]
mod tests {
    use super::{ColumnContext, fit, quiet};
    use crate::findings::Problem;
    use crate::model::Counts;
    use crate::tui::column::{COLUMNS, Id};

    /// Two rows of a queue pair that two taps see differ in their link alone.
    #[test]
    fn the_link_is_shown_early_where_several_taps_see_the_same_packets() {
        let has = |width, twins, id| {
            let columns = fit(width, ColumnContext { twins, ..ColumnContext::default() }, &[]);
            columns.iter().any(|fitted| fitted.column.id == id)
        };
        for width in [79, 99] {
            assert!(!has(width, false, Id::Link) && has(width, true, Id::Link), "{width}");
            assert!(has(width, true, Id::Lost) && has(width, true, Id::Rate), "{width}");
        }
    }

    #[test]
    fn what_there_is_trouble_with_comes_first_and_nothing_quiet_before_values() {
        let at = |of: &dyn Fn(&mut Counts)| {
            let mut total = Counts::default();
            of(&mut total);
            let has =
                ColumnContext { quiet: quiet(&total), latency: true, p99: true, ..ColumnContext::default() };
            let fitted = fit(79, has, &[]);
            fitted.iter().map(|fitted| fitted.column.id).collect::<Vec<_>>()
        };
        let who = [Id::State, Id::Source, Id::Destination, Id::Qp, Id::Rate];
        let healthy = at(&|_| {});
        assert!(healthy.contains(&Id::P99) && !healthy.contains(&Id::Lost), "{healthy:?}");
        let lossy = at(&|total| (total.lost, total.retransmitted, total.sequence_naks) = (3, 29, 3));
        assert!(lossy.starts_with(&who), "{lossy:?}");
        for id in [Id::Lost, Id::Retransmissions, Id::Naks] {
            assert!(lossy.contains(&id), "{lossy:?}");
        }
        assert!(!lossy.contains(&Id::CeNow) && !lossy.contains(&Id::CnpRate), "{lossy:?}");
        let all = at(&|total| {
            (total.lost, total.retransmitted, total.sequence_naks, total.rnr) = (3, 29, 3, 1);
            (total.ecn_data[3], total.cnp) = (1, 1);
        });
        assert_eq!(&all[5..], [Id::Lost, Id::Retransmissions, Id::Naks, Id::Rnr]);
        // On a wide screen the columns of zeros come last, those of the totals among them.
        let mut total = Counts::default();
        (total.lost, total.missing, total.gaps) = (3, 3, 3);
        let wide = fit(300, ColumnContext { quiet: quiet(&total), ..ColumnContext::default() }, &[]);
        let places = |id: Id| wide.iter().position(|fitted| fitted.column.id == id);
        for zero in [Id::CeNow, Id::CeAll, Id::CnpRate, Id::Cnps, Id::Rnr] {
            assert!(places(zero) > places(Id::Gaps) && places(zero) > places(Id::Packets), "{zero:?}");
        }
        // Nor do gaps stand before latencies where there are none.
        let times = ColumnContext { quiet: quiet(&Counts::default()), ..ColumnContext::default() };
        let times = fit(300, ColumnContext { latency: true, p99: true, ..times }, &[]);
        let place = |id: Id| times.iter().position(|fitted| fitted.column.id == id);
        assert!(place(Id::Gaps) > place(Id::P99) && place(Id::Gaps) > place(Id::Bytes), "{times:?}");
        // Nor does what is unknown in each row.
        let unknown =
            fit(300, ColumnContext { latency: true, owners: true, ..ColumnContext::default() }, &[]);
        let place = |id: Id| unknown.iter().position(|fitted| fitted.column.id == id);
        for nothing in [Id::P99, Id::Pod] {
            assert!(place(nothing) > place(Id::P50) && place(nothing) > place(Id::Packets), "{nothing:?}");
        }
        // Sums with something behind them have no zeros.
        let sums = |last| {
            super::fit_sums(300, ColumnContext { quiet: quiet(&total), ..ColumnContext::default() }, last)
        };
        let zeros = |last| sums(last).iter().any(|fitted| fitted.column.id == Id::CnpRate);
        assert_eq!([zeros(true), zeros(false)], [true, false]);
        let congested = at(&|total| (total.ecn_data[3], total.cnp) = (1, 1));
        assert_eq!(&congested[5..7], [Id::CeNow, Id::CnpRate]);
    }

    /// In 80 columns addresses leave the room that they do not need to columns with values.
    #[test]
    fn short_addresses_make_room_for_columns_with_values() {
        let all = |ipv4| {
            let has = ColumnContext { ipv4, qp: 4, latency: true, p99: true, ..ColumnContext::default() };
            fit(80, has, &[]).iter().map(|fitted| (fitted.column.id, fitted.width)).collect::<Vec<_>>()
        };
        let (short, long) = (all(10), all(15));
        assert!(short.len() > long.len(), "{short:?} {long:?}");
        assert!(short.contains(&(Id::Source, 10)) && long.contains(&(Id::Source, 15)), "{short:?} {long:?}");
        // With room for everything a column has its usual width.
        let wide = ColumnContext { ipv4: 10, ..ColumnContext::default() };
        assert!(fit(300, wide, &[]).iter().any(|one| one.column.id == Id::Source && one.width == 15));
    }

    #[test]
    fn columns_follow_active_problems_and_stay_with_them() {
        let none = ColumnContext { quiet: quiet(&Counts::default()), ..ColumnContext::default() };
        let ids = |has| fit(79, has, &[]).iter().map(|fitted| fitted.column.id).collect::<Vec<_>>();
        assert!(!ids(none).contains(&Id::Lost));
        let losing = ids(none.with_active(|kind| kind == Problem::Loss));
        assert!(losing.contains(&Id::Lost) && losing.contains(&Id::Naks), "{losing:?}");
        // In little room the figure of the state comes before retransmissions.
        let some = ColumnContext { ipv4: 15, qp: 8, ..ColumnContext::default() };
        let ids = |has| fit(59, has, &[]).iter().map(|fitted| fitted.column.id).collect::<Vec<_>>();
        assert!(!ids(some).contains(&Id::CeNow));
        let congested = ids(some.with_active(|kind| kind == Problem::Congestion));
        assert!(congested.contains(&Id::CeNow) && congested.contains(&Id::Lost), "{congested:?}");
    }

    #[test]
    fn at_80_columns_what_matters_fits_and_wider_screens_show_more() {
        let ids = |width, v6| {
            fit(width, ColumnContext { ipv6: v6, ..ColumnContext::default() }, &[])
                .iter()
                .map(|f| f.column.id)
                .collect::<Vec<_>>()
        };
        let used = |width, v6| {
            fit(width, ColumnContext { ipv6: v6, ..ColumnContext::default() }, &[])
                .iter()
                .map(|f| f.width + 1)
                .sum::<u16>()
                - 1
        };
        let narrow = ids(80, false);
        for id in [Id::State, Id::Source, Id::Destination, Id::Qp, Id::Rate, Id::Lost, Id::Naks, Id::Rnr] {
            assert!(narrow.contains(&id), "{id:?}");
        }
        assert!(ids(120, false).len() > narrow.len());
        let all = ColumnContext { latency: true, p99: true, owners: true, ..ColumnContext::default() };
        assert_eq!(fit(300, all, &[]).len(), COLUMNS.len());
        for empty in [Id::P50, Id::P99, Id::Comm, Id::Pid, Id::Pod] {
            assert!(!ids(300, false).contains(&empty), "{empty:?} has nothing to show");
            assert!(
                fit(300, ColumnContext::default(), &[empty]).len() == 1,
                "it is shown on demand all the same"
            );
        }
        assert!(fit(120, all, &[]).iter().any(|fitted| fitted.column.id == Id::P99));
        let named = |width| {
            fit(width, ColumnContext { link: 30, ..ColumnContext::default() }, &[])
                .iter()
                .map(|fitted| fitted.width + 1)
                .sum::<u16>()
                - 1
        };
        for width in 60..300 {
            assert!(named(width) <= width, "{width}");
            assert!(used(width, false) <= width, "{width}");
            assert!(used(width, true) <= width, "{width}");
            if width > 60 {
                assert!(ids(width, false).len() >= ids(width - 1, false).len(), "{width}");
            }
        }
    }

    #[test]
    fn health_comes_before_load_in_little_room() {
        let ids = |ipv4, qp| -> Vec<Id> {
            let fitted = fit(59, ColumnContext { ipv4, qp, ..ColumnContext::default() }, &[]);
            assert!(fitted.iter().map(|fitted| fitted.width + 1).sum::<u16>() <= 60);
            fitted.iter().map(|fitted| fitted.column.id).collect()
        };
        let who = [Id::State, Id::Source, Id::Destination, Id::Qp];
        // In the order of the table.
        assert_eq!(ids(9, 4), [&who[..], &[Id::Rate, Id::Lost, Id::Retransmissions, Id::Naks]].concat());
        assert_eq!(ids(15, 8), [&who[..], &[Id::Lost, Id::Retransmissions]].concat());
    }
}
