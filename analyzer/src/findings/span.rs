//! The episodes of a finding: when its signals showed in its flows, and the figures of one episode alone.

use crate::analysis::{Facts, Flow, Loss};
use crate::findings::{Episode, Impact};
use crate::metrics::loss::spells::{Mark, SPELL_NS, Signal};

/// A time in which a signal showed in some of several flows without 10 s of silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Its begin, Unix nanoseconds.
    pub(super) first_ns: u64,
    /// Its end.
    pub(super) last_ns: u64,
    before: u32,
    after: Option<u32>,
    /// Its figures are those of the whole run.
    whole: bool,
}

impl Span {
    /// The whole run, with figures of all of it.
    pub(super) const fn whole(first_ns: u64, last_ns: u64) -> Self {
        Self { first_ns, last_ns, before: 0, after: None, whole: true }
    }

    /// A part of the run: figures of the spells that touch it.
    pub(super) const fn between(first_ns: u64, last_ns: u64) -> Self {
        Self { whole: false, ..Self::whole(first_ns, last_ns) }
    }

    /// Whether its figures are those of the whole run.
    pub(super) const fn is_whole(&self) -> bool {
        self.whole
    }

    /// How often a signal showed in a flow meanwhile; `total` is known of the whole run.
    pub(super) fn count(&self, flow: &Flow, signal: Signal, total: u64) -> u64 {
        if self.whole {
            return total;
        }
        let own = flow.spells.of(signal).iter();
        own.filter(|spell| spell.first_ns <= self.last_ns && spell.last_ns >= self.first_ns)
            .map(|spell| spell.count)
            .sum()
    }

    /// Packets of a flow meanwhile that figures of loss are about; of 10 s at least.
    pub(super) fn packets(&self, facts: &Facts, flow: &Flow) -> u64 {
        let all = flow.followed_packets();
        if self.whole {
            return all;
        }
        let unfollowed = flow.loss_unfollowed.as_ref().map_or(0, |before| before.packets);
        let begin = self.at_begin(facts, flow, |mark| &mark.packets).max(unfollowed);
        let end = self.at_end(facts, flow, |mark| &mark.packets, flow.packets);
        // What a mirror shows twice counts once.
        scaled(end.saturating_sub(begin), all, flow.packets.saturating_sub(unfollowed))
    }

    /// ECN-capable data packets of a flow meanwhile; of 10 s at least.
    pub(super) fn capable(&self, facts: &Facts, flow: &Flow) -> u64 {
        let all = flow.ecn_data.capable();
        if self.whole {
            return all;
        }
        let begin = self.at_begin(facts, flow, |mark| &mark.capable);
        self.at_end(facts, flow, |mark| &mark.capable, all).saturating_sub(begin)
    }

    fn at_begin(&self, facts: &Facts, flow: &Flow, of: fn(&Mark) -> &Vec<u64>) -> u64 {
        counted_at(facts, flow, self.before, of).unwrap_or(0)
    }

    fn at_end(&self, facts: &Facts, flow: &Flow, of: fn(&Mark) -> &Vec<u64>, all: u64) -> u64 {
        self.after.and_then(|after| counted_at(facts, flow, after, of)).unwrap_or(all).min(all)
    }

    /// The episode, with the largest value of the finding's measure.
    pub(super) const fn episode(&self, peak: Option<f64>) -> Episode {
        Episode { first_ns: self.first_ns, last_ns: self.last_ns, peak }
    }
}

/// `n` times `part` over `whole`, rounded; 0 where `whole` is 0.
fn scaled(n: u64, part: u64, whole: u64) -> u64 {
    let whole = u128::from(whole.max(1));
    let scaled = (u128::from(n) * u128::from(part) + whole / 2) / whole;
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Count of a flow at a mark.
fn counted_at(facts: &Facts, flow: &Flow, number: u32, of: fn(&Mark) -> &Vec<u64>) -> Option<u64> {
    let mark = facts.marks.iter().find(|mark| mark.number == number)?;
    // The slot may have belonged to another flow then.
    let there = flow.first_ns < mark.time_ns;
    Some(of(mark).get(flow.slot as usize).copied().filter(|_| there).unwrap_or(0))
}

/// The times in which any of these signals showed in any of these flows, the latest first.
pub(super) fn spans<'a>(flows: impl IntoIterator<Item = &'a Flow>, signals: &[Signal]) -> Vec<Span> {
    let spells = flows.into_iter().flat_map(|flow| signals.iter().flat_map(|signal| flow.spells.of(*signal)));
    let mut all: Vec<Span> = spells
        .map(|spell| Span {
            first_ns: spell.first_ns,
            last_ns: spell.last_ns,
            before: spell.before,
            after: spell.after,
            whole: false,
        })
        .collect();
    all.sort_by_key(|span| span.first_ns);
    let mut spans: Vec<Span> = Vec::new();
    for next in all {
        match spans.last_mut() {
            Some(span) if next.first_ns.saturating_sub(span.last_ns) < SPELL_NS => {
                span.last_ns = span.last_ns.max(next.last_ns);
                span.before = span.before.min(next.before);
                span.after = span.after.zip(next.after).map(|(a, b)| a.max(b));
            }
            _ => spans.push(next),
        }
    }
    if let [only] = &mut spans[..] {
        only.whole = only.before == 0 && only.after.is_none();
    }
    spans.reverse();
    spans
}

/// The same of one signal; none where some of what was counted is not known with its time.
pub(super) fn timed(flows: &[&Flow], signal: Signal, counted: impl Fn(&Flow) -> u64) -> Vec<Span> {
    let timed =
        |flow: &&Flow| flow.spells.of(signal).iter().map(|spell| spell.count).sum::<u64>() >= counted(flow);
    if flows.iter().all(timed) { spans(flows.iter().copied(), &[signal]) } else { Vec::new() }
}

/// The times of spans, the oldest first, as episodes of a finding whose figures are those of the run.
pub(super) fn episodes(spans: &[Span]) -> Vec<Episode> {
    spans.iter().rev().map(|span| span.episode(None)).collect()
}

/// What is judged of one span after the other.
pub(super) struct Judged<T> {
    /// The latest that is a finding.
    pub(super) span: Span,
    /// What was found of it.
    pub(super) what: T,
    /// All that are, in the order of time.
    pub(super) episodes: Vec<Episode>,
}

/// The latest span that `judge` makes a finding of, with the peak of its measure; where none is by itself, the `whole` run
/// may be: trouble that comes back after more than 10 s each time.
pub(super) fn latest<T>(
    spans: &[Span],
    whole: Span,
    judge: impl Fn(&Span) -> Option<(T, Option<f64>)>,
) -> Option<Judged<T>> {
    let mut found: Option<Judged<T>> = None;
    for span in spans {
        let Some((what, peak)) = judge(span) else { continue };
        let first = found.get_or_insert_with(|| Judged { span: *span, what, episodes: Vec::new() });
        first.episodes.insert(0, span.episode(peak));
    }
    if found.is_some() {
        return found;
    }
    let (first_ns, last_ns) = match (spans.last(), spans.first()) {
        (Some(first), Some(last)) => (first.first_ns, last.last_ns),
        _ => (whole.first_ns, whole.last_ns),
    };
    let span = Span::whole(first_ns, last_ns);
    let (what, peak) = judge(&span)?;
    Some(Judged { span, what, episodes: vec![span.episode(peak)] })
}

/// The run that these flows are of: from their first packet to their last.
pub(super) fn run<'a>(flows: impl IntoIterator<Item = &'a Flow>) -> Span {
    let ends = flows.into_iter().map(|flow| (flow.first_ns, flow.last_ns));
    let (first_ns, last_ns) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or_default();
    Span::whole(first_ns, last_ns)
}

/// A time that senders lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Until what was lost upstream is repaired.
    RecoveryUpstream,
    /// From the sender's silence before a go-back-N for packets seen at the tap to its last retransmission.
    RecoveryDownstream,
    /// Silence before transport timeouts.
    Timeout,
    /// Between an RNR NAK and the retransmission.
    Rnr,
}

impl Wait {
    /// Its sum in a flow in a span, nanoseconds.
    pub(super) fn of(self, span: &Span, flow: &Flow) -> u64 {
        let (signal, of): (Signal, fn(&Loss) -> u64) = match self {
            Self::RecoveryUpstream => {
                (Signal::RecoveryUpstream, |loss| loss.before_tap.total_ns.unwrap_or(0))
            }
            Self::RecoveryDownstream => {
                (Signal::RecoveryDownstream, |loss| loss.after_tap.total_ns.unwrap_or(0))
            }
            Self::Timeout => (Signal::TimeoutWait, |loss| loss.timeout_wait_ns),
            Self::Rnr => (Signal::RnrWait, |loss| loss.rnr_wait_ns),
        };
        span.count(flow, signal, flow.losses().iter().flatten().map(of).sum())
    }
}

/// What retransmissions cost in a span.
pub(super) struct Cost<'a> {
    /// Share of packets.
    pub(super) ratio: Option<f64>,
    /// What counts the retransmissions.
    pub(super) signal: Signal,
    /// Times that senders lose; they overlap, and the longest of a flow counts.
    pub(super) waits: &'a [Wait],
}

/// What retransmissions in these flows cost in a span.
pub(super) fn impact<'a>(span: &Span, flows: impl IntoIterator<Item = &'a Flow>, cost: &Cost<'_>) -> Impact {
    let &Cost { ratio, signal, waits } = cost;
    let (mut packets, mut bytes, mut waited) = (0, 0, 0);
    for flow in flows {
        let total = match signal {
            Signal::RetransmittedAfterTimeout => {
                flow.losses().iter().flatten().map(|loss| loss.timeout_resent).sum()
            }
            Signal::RetransmittedAfterRnr => flow.loss.get().map_or(0, |loss| loss.rnr_resent),
            _ => flow.losses().iter().flatten().map(|l| l.retransmitted + l.rereads).sum(),
        };
        let again = span.count(flow, signal, total);
        packets += again;
        bytes += scaled(again, flow.payload_bytes, flow.packets);
        waited += waits.iter().map(|wait| wait.of(span, flow)).max().unwrap_or(0);
    }
    Impact {
        packets_ratio: ratio,
        retransmissions: Some(packets),
        goodput_lost_bytes: (packets > 0).then_some(bytes),
        time_lost_ns: (waited > 0).then_some(waited),
    }
}
