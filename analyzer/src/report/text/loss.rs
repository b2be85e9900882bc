//! Loss, reordering and retransmission: counters by link and by flow, and packets lost between taps.
//!
//! Counters only. Whether they are a problem, and which, findings say: a flow refers to those that name it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::analysis::loss::{AtLink, Downstream, TapContext, Upstream, by_link};
use crate::analysis::{BetweenTaps, Episodes, Flow, Loss, Retired};
use crate::findings::{Finding, Problem};
use crate::report::Report;
use crate::report::text::flows::{link_name, missing};
use crate::report::text::more;
use crate::sample::Address;
use crate::util::layout::wrap;
use crate::util::numbers::share;
use crate::util::units::{self, plural};
use crate::util::wrap::hanging;
use doubt::Doubts;

mod doubt;

/// Flows listed: those with most losses and retransmissions.
const FLOWS: usize = 10;
/// Pairs of taps and hosts listed.
const TAPS: usize = 16;
const INDENT: usize = 2;
/// Links, and pairs of taps, in the summary.
const SUMMARY: usize = 6;

/// All packets with a PSN arrived in order.
const NONE: &str = "none observed";
/// The findings say more than the counters.
const ELSEWHERE: &str = "none observed upstream; more in FINDINGS";
/// No packet was lost upstream of a tap of a recording, which has no episodes downstream.
const RECORDED: &str = "none observed upstream; downstream: not recorded";
/// No packet belongs to a sequence.
const NO_SEQUENCE: &str = "unknown: no packet has a PSN sequence (only datagrams, acknowledgements and CNPs)";

/// The summary's lines about losses, and about NAKs and retransmissions.
pub(super) fn headline(report: &Report) -> [(&'static str, Vec<String>); 2] {
    let links = by_link(&report.facts);
    let retired = report.facts.totals.retired.flows;
    let any = retired > 0 || report.facts.flows.iter().any(Flow::would_show_loss);
    let mut loss = between(report);
    let doubts = Doubts::of(report).by_link(&report.facts.flows, &TapContext::of(&report.facts));
    loss.extend(by_name(report, &links, |at| {
        let doubtful = doubts.get(&(at.link, at.direction)).copied().unwrap_or(0);
        losses(&AtLink { doubtful, ..*at })
    }));
    let judged = report.findings.iter().any(|one| Problem::of(one).is_some_and(Problem::is_loss));
    if loss.is_empty() {
        let of_table = none_in(report.facts.flows.len() as u64);
        loss.push(
            if !any {
                NO_SEQUENCE
            } else if judged {
                ELSEWHERE
            } else if report.facts.is_recording() {
                RECORDED
            } else if retired > 0 {
                &of_table
            } else {
                NONE
            }
            .to_owned(),
        );
    }
    loss.extend(of_retired(&report.facts.totals.retired));
    loss.extend(raw_gaps(report, &links));
    [("Loss", loss), ("RETX/NAK", by_name(report, &links, recovery))]
}

/// Of retired flows, other things are known.
fn none_in(flows: u64) -> String {
    format!("none observed in {} of the table", plural(flows, "flow"))
}

/// What is known of loss in retired flows.
fn of_retired(retired: &Retired) -> Option<String> {
    let flows = plural(retired.flows, "retired flow");
    (retired.flows > 0).then(|| match (retired.lost, retired.retransmitted, retired.timeouts) {
        (Some(lost), Some(again), Some(timeouts)) => format!(
            "{flows}: {} lost upstream, {}, {}; no finding judges them",
            plural(lost, "packet"),
            plural(again, "retransmission"),
            plural(timeouts, "timeout")
        ),
        _ => format!("{flows}: unknown"),
    })
}

/// A line for each link that counts anything, the link's name in front where there are several.
fn by_name(report: &Report, links: &[AtLink<'_>], parts: impl Fn(&AtLink<'_>) -> Vec<String>) -> Vec<String> {
    let several = report.facts.links.len() > 1;
    let all = links.iter().map(|at| (at, parts(at).join(", "))).filter(|(_, text)| !text.is_empty());
    let name = |at: &AtLink<'_>| {
        if several { format!("{}: ", link_name(at.link, at.direction)) } else { String::new() }
    };
    shortened(all.map(|(at, text)| format!("{}{text}", name(at))).collect())
}

/// The first lines, and the number of the others.
fn shortened(mut lines: Vec<String>) -> Vec<String> {
    let hidden = lines.len().saturating_sub(SUMMARY);
    lines.truncate(SUMMARY);
    lines.extend(more(hidden));
    lines
}

/// Packets lost between taps over the whole run, the most first.
fn between(report: &Report) -> Vec<String> {
    let between = report.facts.between_taps();
    let mut lossy: Vec<&BetweenTaps<'_>> = between.iter().filter(|one| one.vanished > 0).collect();
    lossy.sort_by_key(|one| Reverse(one.vanished));
    let line = |one: &&BetweenTaps<'_>| {
        format!(
            "{} of the run's {} ({}) lost between {} and {}, {} → {}",
            units::count(one.vanished),
            plural(one.packets(), "packet"),
            units::ratio(Some(share(one.vanished, one.packets()))),
            link_name(one.from, None),
            link_name(one.to, None),
            one.src,
            one.dst,
        )
    };
    if lossy.is_empty() && !between.is_empty() {
        return vec!["none between the taps".into()];
    }
    shortened(lossy.iter().map(line).collect())
}

/// The counters that are not zero, in words.
pub(super) fn counted(counters: &[(u64, &dyn Fn(u64) -> String)]) -> Vec<String> {
    counters.iter().filter(|(n, _)| *n > 0).map(|(n, text)| text(*n)).collect()
}

/// The number of lost packets that may have been reordered.
fn doubt(doubtful: u64, lost: u64) -> String {
    match doubtful {
        0 => String::new(),
        all if all >= lost => " or reordered".to_owned(),
        some => format!(" ({} of them may have been reordered)", units::count(some)),
    }
}

fn losses(at: &AtLink<'_>) -> Vec<String> {
    let mut parts = counted(&[(at.lost, &|n| {
        let doubt = doubt(at.doubtful, n);
        let at_least = if at.at_least { "at least " } else { "" };
        let mut known = Vec::new();
        if at.alone {
            known.push("from PSN gaps at this tap alone".to_owned());
        }
        if at.longest_recovery_ns > 0 {
            known.push(format!("longest recovery {}", units::duration(at.longest_recovery_ns)));
        }
        let known = if known.is_empty() { String::new() } else { format!(" ({})", known.join("; ")) };
        format!("{at_least}{} lost{doubt} upstream{known}", plural(n, "packet"))
    })]);
    for (kind, n) in Downstream::ALL.into_iter().zip(at.downstream).filter(|(_, n)| *n > 0) {
        let all = kind == Downstream::ReorderingOrLoss && at.arrived >= n;
        let arrived = if all { " (all packets reached the next tap)" } else { "" };
        parts.push(kind.episodes(n) + arrived);
    }
    parts.extend(counted(&[
        (at.unfilled, &|n| format!("{} neither observed nor retransmitted", units::count(n))),
        (at.undecided, &|n| format!("{} missing, lost or reordered", plural(n, "PSN"))),
        (at.reordered, &|n| format!("{} out of order, not lost", units::count(n))),
    ]));
    parts
}

fn recovery(at: &AtLink<'_>) -> Vec<String> {
    let after_rnr = |n: u64| match at.rnr_resent {
        0 => plural(n, "retransmission"),
        rnr if rnr >= n => format!("{} after RNR NAK", plural(n, "retransmission")),
        rnr => format!("{} ({} after RNR NAK)", plural(n, "retransmission"), units::count(rnr)),
    };
    counted(&[
        (at.naks, &|n| plural(n, "sequence-error NAK")),
        (at.rnr_naks, &|n| plural(n, "RNR NAK")),
        (at.retransmitted, &after_rnr),
        (at.went_back, &|n| {
            format!(
                "{} of packets seen here (reverse direction not captured)",
                plural(n, "go-back-N restart")
            )
        }),
        (at.rereads, &|n| plural(n, "repeated READ request")),
        (at.repeats, &|n| plural(n, "duplicate PSN")),
        (at.refused, &|n| format!("{} (NAK)", plural(n, "refused request"))),
    ])
}

/// Reason why MISSING in the flow table differs from the losses above it.
fn raw_gaps(report: &Report, links: &[AtLink<'_>]) -> Option<String> {
    let differ = links.iter().any(|at| at.missing != at.lost);
    // Of a recording not known.
    let missing = report.facts.flows.iter().filter_map(missing).reduce(|sum, one| sum + one);
    missing.filter(|_| differ).map(|missing| {
        format!(
            "MISSING in the flow table (sum {}{}) counts raw PSN gaps: also of reordered packets, and not of \
             retransmissions that are lost again",
            units::count(missing),
            if links.len() > 1 { " over all links" } else { "" }
        )
    })
}

/// Flows with losses, reordering or retransmissions, and the findings about them.
pub(super) fn lines(report: &Report, room: usize) -> Vec<String> {
    let weight = |loss: &Loss| loss.lost + loss.retransmissions() + loss.recovered + loss.mirrored.or_zero();
    let of = |flow: &Flow| flow.losses_sum(weight);
    let mut flows: Vec<&Flow> = report.facts.flows.iter().filter(|flow| of(flow) > 0).collect();
    flows.sort_by_key(|flow| Reverse(of(flow)));
    let hidden = flows.len().saturating_sub(FLOWS);
    flows.truncate(FLOWS);
    let mut lines = Vec::new();
    let (around, doubts) = (TapContext::of(&report.facts), Doubts::of(report));
    for flow in flows {
        let (upstream, downstream) = (doubts.upstream(&around, flow), around.downstream(flow));
        for (i, (loss, what)) in flow.losses().into_iter().zip(["", ", responses"]).enumerate() {
            let Some(counters) = loss.and_then(|loss| counters(&loss, upstream[i], downstream[i])) else {
                continue;
            };
            let findings = findings_of(report, flow, i == 1);
            let on = link_name(&flow.link, flow.direction);
            let text = format!(
                "{} → {} QP {} on {on}{what}: {counters}{findings}",
                flow.src, flow.dst, flow.dest_qp
            );
            lines.extend(hanging(&text, room, INDENT));
        }
    }
    lines.extend(more(hidden));
    if report.facts.is_recording() && !lines.is_empty() {
        lines.extend(wrap(NOT_RECORDED, room));
    }
    lines
}

/// Facts about losses that a recording lacks.
const NOT_RECORDED: &str = "Not recorded: which losses may be reordering, loss episodes downstream, packets neither observed nor retransmitted, \
     duplicates by a mirror, repeated READ requests, and which retransmissions follow RNR NAKs.";

/// The ids of the findings about loss that name a flow, in brackets. Its responses belong to the findings about their
/// requests too.
fn findings_of(report: &Report, flow: &Flow, responses: bool) -> String {
    // At each tap: a finding lists the flow at one of them.
    let mut either = vec![(flow.src, flow.dst, flow.dest_qp)];
    if responses {
        let requests = report.facts.requests_answered_by(flow);
        either.extend(requests.map(|other| (other.src, other.dst, other.dest_qp)));
    }
    let related = |one: &Finding| Problem::of(one).is_some_and(Problem::is_of_delivery);
    let own = report.findings.iter().filter(|one| one.is_problem() && related(one));
    let named = own.filter(|one| either.iter().any(|name| one.named.contains(name)));
    let mut ids: Vec<&str> = named.map(|finding| finding.id).collect();
    ids.dedup();
    if ids.is_empty() { String::new() } else { format!(" [{}]", ids.join(", ")) }
}

/// The counters of one sequence in words; `None` where there is nothing to say.
fn counters(loss: &Loss, upstream: Upstream, downstream: Downstream) -> Option<String> {
    let longest = |of: &Episodes, what: &str| {
        let longest = if of.episodes.get() == Some(1) { "" } else { "longest " };
        of.longest_ns.map_or_else(String::new, |ns| format!(" ({longest}{what} {})", units::duration(ns)))
    };
    let retransmitted = |n: u64| {
        let how = match loss.retransmission {
            Some("go_back_n") => " (go-back-N)",
            Some(_) => " (selective)",
            None => "",
        };
        let rnr = match loss.rnr_resent.or_zero() {
            0 => String::new(),
            rnr if rnr >= n => " after RNR NAK".to_owned(),
            rnr => format!(", {} of them after RNR NAK", units::count(rnr)),
        };
        format!("{} retransmitted{how}{rnr}", units::count(n))
    };
    let parts = counted(&[
        (upstream.lost, &|n| {
            let doubt = doubt(upstream.doubtful, n);
            let least = if upstream.at_least { "at least " } else { "" };
            let episodes = match loss.before_tap.episodes.or_zero() {
                // Known from another tap alone, or of a recording.
                0 => String::new(),
                episodes => format!(" in {}", plural(episodes, "episode")),
            };
            let longest = longest(&loss.before_tap, "recovery");
            format!("{least}{} lost{doubt} upstream{episodes}{longest}", units::count(n))
        }),
        (loss.after_tap.episodes.or_zero(), &|n| {
            downstream.episodes(n) + &longest(&loss.after_tap, "go-back")
        }),
        (loss.retransmitted, &retransmitted),
        (loss.recovered, &|n| format!("{} out of order", units::count(n))),
        (loss.timeouts, &|n| plural(n, "timeout")),
        (loss.rereads.or_zero(), &|n| plural(n, "repeated READ request")),
        (loss.unfilled.or_zero(), &|n| format!("{} neither observed nor retransmitted", units::count(n))),
        (loss.mirrored.or_zero(), &|n| {
            format!("{} duplicated (by a mirror or the network)", units::count(n))
        }),
    ]);
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Packets of a pair of hosts at two taps.
#[derive(Default)]
struct AtTwo {
    matched: u64,
    /// `None` where the order of the taps is not known.
    vanished: Option<u64>,
    only: [u64; 2],
    duplicates: [u64; 2],
    not_compared: [Option<u64>; 2],
    change: (i64, i64),
}

/// Two taps, whether their order is known, source and destination.
type OfPair<'a> = (&'a [String; 2], bool, Address, Address);

impl AtTwo {
    /// The sums over the flows of each pair of hosts.
    fn of(report: &Report) -> BTreeMap<OfPair<'_>, Self> {
        let mut pairs: BTreeMap<_, Self> = BTreeMap::new();
        for tap in &report.facts.taps {
            let known = tap.from.is_some();
            let new = Self { vanished: Some(0), not_compared: [Some(0); 2], ..Self::default() };
            let sum = pairs.entry((&tap.links, known, tap.src, tap.dst)).or_insert(new);
            sum.matched += tap.packets_matched;
            sum.vanished = sum.vanished.zip(tap.vanished).map(|(a, b)| a + b);
            let counts = [(&mut sum.only, tap.only_at), (&mut sum.duplicates, tap.copies_at)];
            for (sum, n) in counts.into_iter().flat_map(|(sum, of)| sum.iter_mut().zip(of)) {
                *sum += n;
            }
            for (sum, n) in sum.not_compared.iter_mut().zip(tap.not_compared) {
                *sum = sum.zip(n).map(|(a, b)| a + b);
            }
            let change = &tap.delay_change_ns;
            sum.change = (sum.change.0.min(change.min), sum.change.1.max(change.max));
        }
        // As the headline has it: with what was lost at the end of a queue pair, or of one that never arrived.
        let between = report.facts.between_taps();
        for ((links, known, src, dst), sum) in &mut pairs {
            let is_own = |one: &&BetweenTaps<'_>| {
                [one.from, one.to] == links[..] && (one.src, one.dst) == (*src, *dst)
            };
            if let Some(one) = between.iter().find(|one| *known && is_own(one)) {
                sum.vanished = sum.vanished.max(Some(one.vanished + one.missed));
            }
        }
        pairs
    }

    fn text(&self, ([first, second], known, src, dst): OfPair<'_>) -> String {
        let count = units::count;
        let (first, second) = (link_name(first, None), link_name(second, None));
        let arrow = if known { "→" } else { "and" };
        let lost = match (self.vanished, self.only) {
            (Some(vanished), [_, 0]) => format!("{} lost", count(vanished)),
            (Some(vanished), [_, more]) => {
                format!("{} lost, {} seen at the second tap only", count(vanished), count(more))
            }
            (None, [a, b]) => {
                format!("{} seen at the first tap only, {} at the second only", count(a), count(b))
            }
        };
        let duplicates = match self.duplicates {
            [0, 0] => String::new(),
            [a, b] => format!(", {} duplicates at the first tap, {} at the second", count(a), count(b)),
        };
        let rest = match self.not_compared {
            [Some(0), Some(0)] => String::new(),
            [a, b] => format!(
                ", {} at the first and {} at the second not compared (outside the common time range, or indistinguishable)",
                units::count_or_unknown(a),
                units::count_or_unknown(b)
            ),
        };
        format!(
            "{first} {arrow} {second}, {src} → {dst}: {} matched, {lost}{duplicates}{rest}; one-way delay changed by {} to {} against the first packets (clocks are not compared)",
            plural(self.matched, "packet"),
            units::growth(self.change.0),
            units::growth(self.change.1)
        )
    }
}

/// Loss between two taps, by pair of hosts.
pub(super) fn taps(report: &Report, room: usize) -> Vec<String> {
    let mut pairs: Vec<_> = AtTwo::of(report).into_iter().collect();
    let hidden = pairs.len().saturating_sub(TAPS);
    pairs.sort_by_key(|(_, sum)| Reverse(sum.vanished));
    let shown = pairs.into_iter().take(TAPS);
    let mut lines: Vec<String> =
        shown.flat_map(|(pair, sum)| hanging(&sum.text(pair), room, INDENT)).collect();
    lines.extend(more(hidden));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{DelayChange, Episodes, Options, TapFlow};
    use crate::findings::FlowSet;
    use crate::findings::Severity;

    fn report() -> Report {
        Report::build(&crate::analysis::fixtures::everything(), &Options::default().into())
    }

    #[test]
    fn nothing_lost_says_nothing() {
        let mut report = report();
        assert!(lines(&report, 80).is_empty() && taps(&report, 80).is_empty());
        report.facts.flows[0].loss = Some(Loss::default()).into();
        assert!(lines(&report, 80).is_empty());
    }

    #[test]
    fn losses_of_a_flow_in_words() {
        let mut report = report();
        let before_tap = Episodes { episodes: 2.into(), longest_ns: Some(3_000_000), ..Episodes::default() };
        report.facts.flows[0].loss = Some(Loss {
            lost: 7,
            recovered: 1,
            retransmitted: 1_200,
            retransmission: Some("go_back_n"),
            before_tap,
            ..Loss::default()
        })
        .into();
        let page = lines(&report, 200).join("\n");
        for part in [
            "7 lost upstream in 2 episodes (longest recovery 3",
            "1,200 retransmitted (go-back-N)",
            "1 out of order",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(lines(&report, 60).iter().skip(1).all(|line| line.starts_with("  ")));
        let once = Episodes { episodes: 1.into(), ..before_tap };
        report.facts.flows[0].loss = Some(Loss { lost: 1, before_tap: once, ..Loss::default() }).into();
        let page = lines(&report, 200).join("\n");
        assert!(page.ends_with(": 1 lost upstream in 1 episode (recovery 3.00 ms)"), "{page}");
    }

    /// The sum in the sentence is that of the column, links and flows of which no more is known included.
    #[test]
    fn the_sum_of_missing_is_that_of_its_column() {
        let mut report = report();
        let at = report.facts.flows.iter().position(|flow| missing(flow) == Some(1_204)).unwrap();
        report.facts.flows[at].loss = Some(Loss { lost: 1_000, recovered: 204, ..Loss::default() }).into();
        let column: u64 = report.facts.flows.iter().filter_map(missing).sum();
        assert_eq!(column, 1_208);
        let said = headline(&report)[0].1.last().unwrap().clone();
        assert!(
            said.starts_with(&format!(
                "MISSING in the flow table (sum {} over all links) ",
                units::count(column)
            )),
            "{said}"
        );
        report.facts.flows[at].loss = Some(Loss { lost: 1_204, ..Loss::default() }).into();
        assert!(!headline(&report)[0].1.concat().contains("MISSING"), "nothing differs");
    }

    #[test]
    fn where_nothing_is_numbered_nothing_is_known_of_losses() {
        let mut report = report();
        report.facts.totals.retired.flows = 0;
        report.facts.flows.retain(|flow| flow.dest_qp == 1);
        assert_eq!(headline(&report)[0].1, [NO_SEQUENCE]);
        report.facts.totals.retired.flows = 1;
        assert_eq!(
            headline(&report)[0].1,
            [none_in(report.facts.flows.len() as u64), "1 retired flow: unknown".to_owned()]
        );
    }

    #[test]
    fn naks_and_retransmissions_are_no_losses() {
        let plain = AtLink { link: "a", ..AtLink::default() };
        let slow = AtLink { rnr_naks: 19, naks: 19, retransmitted: 57, rnr_resent: 57, ..plain };
        assert!(losses(&slow).is_empty());
        assert_eq!(
            recovery(&slow),
            ["19 sequence-error NAKs", "19 RNR NAKs", "57 retransmissions after RNR NAK"]
        );
        let refused = AtLink { refused: 1, ..plain };
        assert!(losses(&refused).is_empty() && recovery(&refused) == ["1 refused request (NAK)"]);
    }

    #[test]
    fn a_flow_refers_to_the_findings_that_name_it() {
        let mut report = report();
        report.facts.flows[0].loss = Some(Loss { lost: 1, ..Loss::default() }).into();
        let flow = &report.facts.flows[0];
        let named: FlowSet = [(flow.src, flow.dst, flow.dest_qp)].into_iter().collect();
        let finding = crate::findings::Finding::new("loss.before_tap", Severity::Warning, String::new());
        let other = crate::findings::Finding::new("ecn.congestion", Severity::Warning, String::new());
        report.findings = vec![
            crate::findings::Finding { named: named.clone(), ..other },
            crate::findings::Finding { named, ..finding },
        ];
        let page = lines(&report, 200).join("\n");
        assert!(page.ends_with(" [loss.before_tap]") && !page.contains("ecn"), "{page}");
    }

    /// No NAK is observed where the reverse direction is not captured.
    #[test]
    fn a_go_back_without_the_reverse_direction_is_no_downstream_loss() {
        let mut report = report();
        let at = report.facts.flows.iter().position(|flow| missing(flow) == Some(1_204)).unwrap();
        let (src, dst) = (report.facts.flows[at].src, report.facts.flows[at].dst);
        let after_tap = Episodes { episodes: 3.into(), ..Episodes::default() };
        report.facts.flows[at].loss = Some(Loss { retransmitted: 9, after_tap, ..Loss::default() }).into();
        let page = |report: &Report| headline(report).map(|(_, lines)| lines.concat());
        assert!(page(&report)[0].contains("3 loss or reordering episodes downstream"));
        report.facts.flows.retain(|flow| (flow.src, flow.dst) != (dst, src));
        let [loss, recovery] = page(&report);
        assert!(
            recovery.contains("3 go-back-N restarts") && !loss.contains("downstream"),
            "{loss} {recovery}"
        );
    }

    #[test]
    fn psns_alone_say_nothing_where_two_taps_saw_the_same_packets() {
        let mut report = report();
        report.facts.flows[0].loss = Some(Loss { lost: 1, recovered: 9, ..Loss::default() }).into();
        let flow = &report.facts.flows[0];
        let name = (flow.src, flow.dst, flow.dest_qp);
        let tap = TapFlow { packets_matched: 100, ..TapFlow::empty(name, ["a.pcap", &flow.link]) };
        let lost = |report: &Report| by_link(&report.facts).iter().map(|at| at.lost).sum::<u64>();
        assert_eq!(lost(&report), 1, "one tap has its PSNs only");
        report.facts.taps = vec![TapFlow { vanished: Some(1), only_at: [1, 0], ..tap.clone() }];
        assert_eq!(lost(&report), 1);
        report.facts.taps = vec![tap];
        assert_eq!(lost(&report), 0);
        assert!(!lines(&report, 200).join("\n").contains("lost upstream"));
    }

    #[test]
    fn of_taps_in_a_row_each_span_counts_by_itself() {
        let mut report = report();
        let id = report.facts.flows[0].clone();
        let span = |from: &str, to: &str, vanished| TapFlow {
            packets_matched: 100,
            vanished: Some(vanished),
            only_at: [vanished, 0],
            ..TapFlow::empty((id.src, id.dst, id.dest_qp), [from, to])
        };
        report.facts.taps = vec![span("a", "b", 7), span("a", "c", 7), span("b", "c", 0)];
        let spans: Vec<_> = report
            .facts
            .between_taps()
            .iter()
            .map(|one| (one.from, one.to))
            .map(|(a, b)| format!("{a}{b}"))
            .collect();
        assert_eq!(spans, ["ab", "bc"]);
    }

    #[test]
    fn taps_are_summed_by_hosts() {
        let mut report = report();
        let (src, dst) = (report.facts.flows[0].src, report.facts.flows[0].dst);
        let tap = |dest_qp, vanished, from: Option<&str>| TapFlow {
            from: from.map(str::to_owned),
            to: from.map(|_| "b.pcap".to_owned()),
            packets_matched: 100,
            vanished,
            only_at: [3, 0],
            copies_at: [0, 7],
            not_compared: [Some(2), Some(0)],
            delay_change_ns: DelayChange { min: -1_000, max: 2_000_000, drift: 0, points: Vec::new() },
            ..TapFlow::empty((src, dst, dest_qp), ["a.pcap", "b.pcap"])
        };
        report.facts.taps = vec![tap(1, Some(3), Some("a.pcap")), tap(2, Some(3), Some("a.pcap"))];
        let page = taps(&report, 200).join("\n");
        assert!(page.starts_with("a → b, ") && page.contains("200 packets matched, 6 lost"), "{page}");
        assert!(page.contains(", 0 duplicates at the first tap, 14 at the second, 4 at the first and 0 at the second not compared"), "{page}");
        report.facts.taps = vec![tap(1, None, None)];
        let page = taps(&report, 200).join("\n");
        let seen = "3 seen at the first tap only, 0 at the second only";
        assert!(page.contains("a and b") && page.contains(seen), "{page}");
    }
}
