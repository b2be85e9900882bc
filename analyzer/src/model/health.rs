//! What is wrong, in the order in which it should be looked at.

use hashbrown::HashSet;
use rocescope_common::wire::frame::Addr;

use super::{Counts, History, Model, Moment, Row, detail};
use crate::sample::Sample;

/// From this share of CE marks on, a flow counts as congested. Below it a queue only touches its
/// marking threshold now and then, which is how DCQCN is meant to work.
pub const CE_LIMIT: f64 = 0.01;

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing to remark.
    Fine,
    /// Costs throughput.
    Warning,
    /// Data was lost or refused.
    Critical,
}

/// A kind of problem, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Packets lost, or a receiver that says it missed some.
    Loss,
    /// Requests refused.
    Refused,
    /// The receiver has no buffer posted.
    NotReady,
    /// Packets sent again: after a loss that was not seen here, a NAK or a timeout.
    Resent,
    /// PSNs that came late: out of order, not lost.
    Late,
    /// CE marks on the data.
    Marked,
    /// Senders are told to slow down.
    Notified,
}

impl Kind {
    /// Every kind, the worst first.
    pub const ALL: [Self; 7] =
        [Self::Loss, Self::Refused, Self::NotReady, Self::Resent, Self::Late, Self::Marked, Self::Notified];

    /// The word for it in a column.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Loss => "LOSS",
            Self::Refused => "NAK",
            Self::NotReady => "RNR",
            Self::Resent => "RPT",
            Self::Late => "OOO",
            Self::Marked => "CE",
            Self::Notified => "CNP",
        }
    }

    /// What the word means, for the help.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Loss => {
                "packets lost before this point; of a flow of answers: it asks for lost data again (NAK: PSN sequence error), and 3 says whose"
            }
            Self::Refused => "NAK: a request was refused",
            Self::NotReady => "RNR NAK: the receiver has no buffer posted",
            Self::Resent => "packets sent again: loss elsewhere, NAK or timeout",
            Self::Late => {
                "out of order: PSNs skipped that only came late; of a flow of answers: it asks for such (NAK: PSN sequence error)"
            }
            Self::Marked => "1 % or more of the data is marked CE: a queue on the way is full",
            Self::Notified => "CNPs: the QP they go to is told to slow down",
        }
    }

    /// How bad it is.
    #[must_use]
    pub const fn level(self) -> Level {
        match self {
            Self::Loss | Self::Refused => Level::Critical,
            Self::NotReady | Self::Resent | Self::Late | Self::Marked | Self::Notified => Level::Warning,
        }
    }

    /// Whether `counts` show it.
    #[must_use]
    pub fn is_in(self, counts: &Counts) -> bool {
        match self {
            Self::Loss => counts.loss(),
            Self::Refused => counts.other_naks > 0,
            Self::NotReady => counts.rnr > 0,
            // What comes late comes behind the expected PSN as well.
            Self::Resent => counts.repeats > counts.late,
            Self::Late => counts.late > 0 || counts.behind_late > 0,
            Self::Marked => counts.ce_ratio().is_some_and(|ratio| ratio >= CE_LIMIT),
            Self::Notified => counts.cnp > 0,
        }
    }

    /// The figure by which flows with this problem compare.
    #[must_use]
    pub fn amount(self, counts: &Counts) -> u64 {
        match self {
            Self::Loss => counts.lost + counts.asked_again(),
            Self::Refused => counts.other_naks,
            Self::NotReady => counts.rnr,
            Self::Resent => counts.repeats.saturating_sub(counts.late),
            Self::Late => counts.late.max(counts.behind_late),
            Self::Marked => counts.ecn_data[3],
            Self::Notified => counts.cnp,
        }
    }
}

/// The state of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Its worst problem now, or else the worst since the start.
    pub worst: Option<Kind>,
    /// Whether there are others.
    pub more: bool,
    /// Whether it showed in the span.
    pub present: bool,
    /// Whether packets came in that span; `None` when that is not known.
    pub active: Option<bool>,
}

impl State {
    /// The state of `row`.
    #[must_use]
    pub fn of(row: &Row) -> Self {
        let kinds = Kind::ALL.into_iter().filter(|kind| kind.is_in(&row.total));
        // What goes on now matters more than what is over, however bad that was.
        let now = row.delta.as_ref().and_then(|d| Kind::ALL.into_iter().find(|kind| kind.is_in(&d.counts)));
        Self {
            worst: now.or_else(|| kinds.clone().next()),
            more: kinds.count() > 1,
            present: now.is_some(),
            active: row.delta.as_ref().map(|d| d.counts.packets > 0),
        }
    }

    /// How bad it is.
    #[must_use]
    pub fn level(&self) -> Level {
        self.worst.map_or(Level::Fine, Kind::level)
    }

    /// Sorts by badness: larger is worse.
    #[must_use]
    pub fn rank(&self) -> u8 {
        const PRESENT: u8 = 8;
        let kind = match self.worst {
            Some(Kind::Loss) => 7,
            Some(Kind::Refused) => 6,
            Some(Kind::NotReady) => 5,
            Some(Kind::Resent) => 4,
            Some(Kind::Late) => 3,
            Some(Kind::Marked) => 2,
            Some(Kind::Notified) => 1,
            None => 0,
        };
        kind + if self.present { PRESENT } else { 0 }
    }
}

/// One kind of problem over all flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which kind.
    pub kind: Kind,
    /// Whether it showed in the span.
    pub present: bool,
    /// Queue pairs that have it, however many taps see them and in whichever direction it shows: in the span if it
    /// is present, else since the start. 0 where no queue pair shows it any more: marks of long ago are less than a hundredth
    /// of all that came since.
    pub qps: usize,
    /// Index of the row that has most of it.
    pub worst: usize,
}

/// Family, the hosts in order, and the queue pair at the end of each as far as it is known.
type QueuePair = (u8, [(Addr, Option<u32>); 2]);

/// The connection of a row, the same for both directions where the pair is known.
fn queue_pair(row: &Row, sample: &Sample) -> QueuePair {
    let key = &row.id.key;
    let sender = row.at.and_then(|at| detail::peer_qp(sample, at));
    let mut ends = [(key.src, sender), (key.dst, Some(key.dest_qp))];
    if sender.is_some() {
        ends.sort_unstable();
    }
    (key.family, ends)
}

/// Rows that have a problem: their queue pairs, the row that has most of it, and how much that is.
type Found = (HashSet<QueuePair, foldhash::fast::RandomState>, usize, u64);

/// What is wrong, the worst first; what shows in the span before what is over.
#[must_use]
pub fn problems(model: &Model, sample: &Sample) -> Vec<Problem> {
    let count = |kinds: &[Kind], counts: fn(&Row) -> Option<&Counts>| {
        let mut found: [Option<Found>; Kind::ALL.len()] = Default::default();
        for (i, row) in model.rows.iter().enumerate() {
            let Some(counts) = counts(row) else { continue };
            let mut ends = None;
            for (slot, kind) in found.iter_mut().zip(Kind::ALL) {
                if !kinds.contains(&kind) || !kind.is_in(counts) {
                    continue;
                }
                let amount = kind.amount(counts);
                let (qps, worst, most) = slot.get_or_insert_with(|| (HashSet::default(), i, 0));
                qps.insert(*ends.get_or_insert_with(|| queue_pair(row, sample)));
                if amount > *most {
                    (*worst, *most) = (i, amount);
                }
            }
        }
        found
    };
    let now = count(&Kind::ALL, |row| row.delta.as_ref().map(|d| &d.counts));
    let over: Vec<Kind> =
        Kind::ALL.into_iter().zip(&now).filter(|(_, now)| now.is_none()).map(|(k, _)| k).collect();
    let ever = count(&over, |row| Some(&row.total));
    let mut problems: Vec<Problem> = Vec::new();
    for ((kind, now), ever) in Kind::ALL.into_iter().zip(now).zip(ever) {
        let present = now.is_some();
        let Some((qps, worst, _)) = now.or(ever) else { continue };
        problems.push(Problem { kind, present, qps: qps.len(), worst });
    }
    problems.sort_by_key(|p| (!p.present, p.kind));
    problems
}

/// Congestion that was there in what is kept, and that the ratio of no flow since the start shows any more. What was before
/// a reset of counters at `reset_ns` is left out.
#[must_use]
pub fn marked_earlier(
    model: &Model,
    problems: &[Problem],
    last_seen: &LastSeen,
    reset_ns: Option<u64>,
) -> Option<Problem> {
    let known = problems.iter().any(|problem| problem.kind == Kind::Marked);
    let since_reset = |seen: &u64| reset_ns.is_none_or(|reset| *seen > reset);
    last_seen.of(Kind::Marked).filter(|seen| !known && since_reset(seen))?;
    let amount = |row: &Row| Kind::Marked.amount(&row.total);
    let (worst, _) = model.rows.iter().enumerate().max_by_key(|(_, row)| amount(row))?;
    Some(Problem { kind: Kind::Marked, present: false, qps: 0, worst })
}

/// When each kind, in the order of [`Kind::ALL`], showed last up to moment number `at`, Unix time in nanoseconds; `None`
/// for what did not show in what is kept.
#[must_use]
pub fn last_seen(history: &History, at: usize) -> LastSeen {
    let mut seen = [None; Kind::ALL.len()];
    // Of the latest time without a break that data was marked.
    let mut marked = Marked::default();
    let moments: Vec<&Moment> = history.iter().take(at.saturating_add(1)).collect();
    for pair in moments.windows(2).rev() {
        let [before, then] = pair else { continue };
        let Some(counts) = then.total.grown.since(&before.total.grown) else { continue };
        marked.add(&counts, then.once.grown.since(&before.once.grown));
        for (seen, kind) in seen.iter_mut().zip(Kind::ALL) {
            if seen.is_none() && kind.is_in(&counts) {
                *seen = Some(then.time_ns);
            }
        }
    }
    LastSeen { at_ns: seen, marked: marked.counts }
}

/// What was counted while data was marked, going back in time.
#[derive(Default)]
struct Marked {
    counts: Option<Counts>,
    over: bool,
}

impl Marked {
    /// Takes what was counted between two moments, and the same with each packet once.
    fn add(&mut self, counts: &Counts, once: Option<Counts>) {
        if self.over {
            return;
        }
        match (&mut self.counts, once.filter(|_| Kind::Marked.is_in(counts))) {
            (Some(sum), Some(once)) => sum.add(&once),
            (none @ None, Some(once)) => *none = Some(once),
            // A span without data is no end of it.
            (Some(_), None) => self.over = counts.ce_ratio().is_some(),
            (None, None) => {}
        }
    }
}

/// See [`last_seen`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastSeen {
    at_ns: [Option<u64>; Kind::ALL.len()],
    marked: Option<Counts>,
}

impl LastSeen {
    /// When `kind` showed last.
    #[must_use]
    pub fn of(&self, kind: Kind) -> Option<u64> {
        Kind::ALL.into_iter().zip(self.at_ns).find_map(|(other, seen)| seen.filter(|_| other == kind))
    }

    /// CE ratio of the latest time that data was marked: from when as much of it as makes a problem was, until it was not.
    /// `None` where that did not show in what is kept.
    #[must_use]
    pub fn marked(&self) -> Option<f64> {
        self.marked?.ce_ratio()
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Level};
    use crate::model::Counts;

    #[test]
    fn each_kind_shows_in_its_own_counter_and_in_no_other() {
        let none = Counts { packets: 9, ecn_data: [0, 0, 9_901, 99], ..Counts::default() };
        let cases = [
            (Kind::Loss, Counts { gaps: 1, missing: 2, lost: 2, ..none }),
            (Kind::Late, Counts { gaps: 1, missing: 2, late: 2, repeats: 2, ..none }),
            (Kind::Loss, Counts { sequence_naks: 1, ..none }),
            (Kind::Late, Counts { sequence_naks: 1, behind_late: 1, ..none }),
            (Kind::Refused, Counts { other_naks: 1, ..none }),
            (Kind::NotReady, Counts { rnr: 1, ..none }),
            (Kind::Resent, Counts { repeats: 1, ..none }),
            (Kind::Marked, Counts { ecn_data: [0, 0, 99, 1], ..none }),
            (Kind::Notified, Counts { cnp: 1, ..none }),
        ];
        for kind in Kind::ALL {
            assert!(!kind.is_in(&none), "{kind:?}: less than one mark in a hundred is no problem");
        }
        for (kind, counts) in cases {
            let found: Vec<Kind> = Kind::ALL.into_iter().filter(|k| k.is_in(&counts)).collect();
            assert_eq!(found, [kind]);
            assert!(kind.amount(&counts) > 0 && kind.level() > Level::Fine);
        }
    }
}
