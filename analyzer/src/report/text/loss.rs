//! What was lost and sent again, and what vanished between taps: a sentence each.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::analysis::loss::{AtLink, by_link, nothing_vanished};
use crate::analysis::{Between, Episodes, Flow, Loss};
use crate::report::Report;
use crate::report::text::flows::{link_name, missing};
use crate::report::text::layout::{labelled, plain};
use crate::util::units::{self, plural};

/// Flows that are told about: those that lost or repeated most.
const FLOWS: usize = 10;
/// Pairs of taps and hosts.
const TAPS: usize = 16;
const INDENT: usize = 2;

/// Links, and pairs of taps, of which the summary tells.
const HEADLINES: usize = 6;

/// Where every packet in sight that has a number came in its turn.
const NO_SIGN: &str = "no sign of any";
/// Where none has one that says what was before.
const NO_SEQUENCE: &str =
    "not known: no packet here is numbered in a sequence (datagrams, acknowledgements and CNPs are not)";

/// What was lost in the end, by tap: what only came late, what is sent again after a loss elsewhere, and what has
/// nothing to do with loss, is told apart.
pub(super) fn headline(report: &Report) -> Vec<String> {
    let all = by_link(report);
    let several = report.facts.links.len() > 1;
    let mut said: Vec<String> = Vec::new();
    let of = |at: &AtLink<'_>, parts: &[String]| {
        let on = if several { format!("{}: ", link_name(at.link, at.direction)) } else { String::new() };
        (!parts.is_empty()).then(|| format!("{on}{}", parts.join(", ")))
    };
    let troubled: Vec<String> = all
        .iter()
        .filter_map(|at| {
            let mut parts = signs(at, several);
            if !parts.is_empty() {
                parts.extend(no_loss(at));
            }
            of(at, &parts)
        })
        .collect();
    let between = report.facts.between_taps();
    let mut vanished: Vec<&Between<'_>> = between.iter().filter(|one| one.vanished > 0).collect();
    vanished.sort_by_key(|one| Reverse(one.vanished));
    for one in vanished.iter().take(HEADLINES) {
        said.push(format!(
            "{} of {} from {} to {} vanished between {} and {}",
            units::count(one.vanished),
            plural(one.packets(), "packet"),
            one.src,
            one.dst,
            plain(one.from),
            plain(one.to)
        ));
    }
    // That nothing did is worth a line where the taps by themselves raise the question.
    if vanished.is_empty() && !between.is_empty() && !troubled.is_empty() {
        said.push("nothing vanished between the taps".into());
    }
    let hidden = vanished.len().saturating_sub(HEADLINES) + troubled.len().saturating_sub(HEADLINES);
    said.extend(troubled.into_iter().take(HEADLINES));
    if hidden > 0 {
        said.push(format!("… and {hidden} more"));
    }
    if said.is_empty() {
        let has_sequence = |flow: &Flow| flow.psn.is_some() || flow.psn_responses.is_some();
        let numbered = report.facts.totals.retired.flows > 0 || report.facts.flows.iter().any(has_sequence);
        said.push(if numbered { NO_SIGN } else { NO_SEQUENCE }.into());
        let beside: Vec<String> = all.iter().filter_map(|at| of(at, &no_loss(at))).collect();
        let hidden = beside.len().saturating_sub(HEADLINES);
        said.extend(beside.into_iter().take(HEADLINES));
        if hidden > 0 {
            said.push(format!("… and {hidden} more"));
        }
    }
    said.extend(missing_and_lost(report, &all));
    said
}

/// What points to a loss, here or elsewhere.
fn signs(at: &AtLink<'_>, several: bool) -> Vec<String> {
    // A second tap knows better than PSNs alone, which stand below for each flow.
    let before = match (several, at.other_tap) {
        (false, _) => "before this point",
        (true, false) => "before it",
        (true, true) => "before it by its PSNs alone",
    };
    let mut parts = Vec::new();
    let mut say = |n: u64, text: &dyn Fn(u64) -> String| {
        if n > 0 {
            parts.push(text(n));
        }
    };
    say(at.lost, &|n| format!("{} lost {before}", plural(n, "packet")));
    say(at.late, &|n| format!("{} only late, out of order", units::count(n)));
    say(at.unfilled, &|n| format!("{} not seen here and not sent again", units::count(n)));
    say(at.undecided, &|n| format!("{} skipped, lost or only late", plural(n, "PSN")));
    say(at.asked_again, &|n| format!("asked again {} for what had passed", plural(n, "time")));
    say(at.went_back, &|n| {
        format!("senders went back {} to what had passed, no answers pass here", plural(n, "time"))
    });
    if !naks_of_rnr(at) {
        say(at.naks, &|n| plural(n, "sequence NAK"));
    }
    say(at.sent_again.saturating_sub(at.rnr_resent), &|n| format!("{} sent again", units::count(n)));
    say(at.rereads, &|n| format!("{} asked again", plural(n, "READ")));
    say(at.repeats, &|n| plural(n, "repeat"));
    parts
}

/// A receiver that is not ready also misses what was on the way behind that request: its sequence NAKs are no
/// sign of a loss where nothing else is, and all that was sent again was so for this reason.
const fn naks_of_rnr(at: &AtLink<'_>) -> bool {
    let other = at.lost + at.unfilled + at.undecided + at.asked_again + at.went_back + at.repeats;
    at.rnr_resent > 0 && at.sent_again == at.rnr_resent && other == 0
}

/// NAKs and what is sent again for reasons other than a loss.
fn no_loss(at: &AtLink<'_>) -> Vec<String> {
    let mut parts = Vec::new();
    if at.rnr_naks > 0 {
        parts.push(format!("receivers not ready {} (RNR NAK)", plural(at.rnr_naks, "time")));
    }
    let for_rnr = at.rnr_resent.min(at.sent_again);
    if for_rnr > 0 {
        parts.push(format!("{} sent again as the receiver was not ready", units::count(for_rnr)));
    }
    if at.naks > 0 && naks_of_rnr(at) {
        parts.push(format!("{} for what came behind", plural(at.naks, "sequence NAK")));
    }
    if at.refused > 0 {
        parts.push(format!("{} refused (NAK)", plural(at.refused, "request")));
    }
    parts
}

/// Why two numbers differ that are both on the page: what the table of flows has as MISSING, and what is said of losses above it.
fn missing_and_lost(report: &Report, all: &[AtLink<'_>]) -> Option<String> {
    let differ = all.iter().any(|at| at.missing != at.lost);
    let missing: u64 = report.facts.flows.iter().filter_map(missing).sum();
    differ.then(|| {
        format!(
            "(MISSING below, {} in all flows{}, counts PSNs skipped at first sight: also what only came late, but not what was lost \
             once more while it was sent again)",
            units::count(missing),
            if all.len() > 1 { " of all links" } else { "" }
        )
    })
}

/// Flows in which something was lost, late or sent again.
pub(super) fn lines(report: &Report, room: usize) -> Vec<String> {
    let weight = |loss: &Loss| loss.lost + loss.retransmitted + loss.recovered + loss.mirrored + loss.rereads;
    let of = |flow: &Flow| [flow.loss, flow.loss_responses].iter().flatten().map(weight).sum::<u64>();
    let mut flows: Vec<&Flow> = report.facts.flows.iter().filter(|flow| of(flow) > 0).collect();
    flows.sort_by_key(|flow| Reverse(of(flow)));
    let hidden = flows.len().saturating_sub(FLOWS);
    flows.truncate(FLOWS);
    let mut lines = Vec::new();
    let whole = nothing_vanished(report);
    for flow in flows {
        let exact = whole.contains(&(flow.link.as_str(), flow.src, flow.dst, flow.dest_qp));
        for (loss, what) in [(flow.loss, ""), (flow.loss_responses, ", responses")] {
            let loss = loss.map(|loss| Loss { lost: if exact { 0 } else { loss.lost }, ..loss });
            let Some(said) = loss.as_ref().and_then(sentence) else { continue };
            let on = link_name(&flow.link, flow.direction);
            let text = format!("{} → {} qp {} on {on}{what}: {said}", flow.src, flow.dst, flow.dest_qp);
            lines.extend(hanging(&text, room));
        }
    }
    if hidden > 0 {
        lines.push(format!("… and {} more", units::count(hidden as u64)));
    }
    lines
}

fn hanging(text: &str, room: usize) -> Vec<String> {
    let lines = labelled("", INDENT, text, room);
    lines
        .into_iter()
        .enumerate()
        .map(|(i, line)| if i == 0 { line.trim_start().to_owned() } else { line })
        .collect()
}

fn sentence(loss: &Loss) -> Option<String> {
    let mut parts = Vec::new();
    let longest = |of: &Episodes| {
        let most = if of.episodes == 1 { "" } else { "longest " };
        of.longest_ns.map_or_else(String::new, |ns| format!(" ({most}{})", units::duration(ns)))
    };
    if loss.lost > 0 {
        let (episodes, longest) = (loss.before_tap.episodes, longest(&loss.before_tap));
        parts.push(format!(
            "{} lost before in {}{longest}",
            units::count(loss.lost),
            plural(episodes, "episode")
        ));
    }
    if loss.after_tap.episodes > 0 {
        let longest = longest(&loss.after_tap);
        parts.push(format!("asked for again {}{longest}", plural(loss.after_tap.episodes, "time")));
    }
    if loss.retransmitted > 0 {
        let how = match loss.retransmission {
            Some("go_back_n") => ", go-back-N",
            Some(_) => ", selective repeat",
            None => "",
        };
        let rnr = match loss.rnr_resent {
            0 => String::new(),
            n => format!(", {} of them as the receiver was not ready", units::count(n)),
        };
        parts.push(format!("{} sent again{how}{rnr}", units::count(loss.retransmitted)));
    }
    for (n, text) in [
        (loss.recovered, format!("{} late, out of order", units::count(loss.recovered))),
        (loss.timeouts, plural(loss.timeouts, "timeout")),
        (loss.rereads, format!("{} asked again", plural(loss.rereads, "READ"))),
        (loss.unfilled, format!("{} not seen and not sent again", units::count(loss.unfilled))),
        (
            loss.mirrored,
            format!("{} shown twice, by a mirror or by the network", units::count(loss.mirrored)),
        ),
    ] {
        if n > 0 {
            parts.push(text);
        }
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// What vanished between two taps, by pair of hosts.
pub(super) fn taps(report: &Report, room: usize) -> Vec<String> {
    #[derive(Default)]
    struct Sum {
        matched: u64,
        vanished: Option<u64>,
        only: [u64; 2],
        copies: [u64; 2],
        not_compared: [Option<u64>; 2],
        change: (i64, i64),
    }
    let mut pairs: BTreeMap<_, Sum> = BTreeMap::new();
    for tap in &report.facts.taps {
        let known = tap.from.is_some();
        let new = Sum { vanished: Some(0), not_compared: [Some(0); 2], ..Sum::default() };
        let sum = pairs.entry((&tap.links, known, tap.src, tap.dst)).or_insert(new);
        sum.matched += tap.packets_matched;
        sum.vanished = sum.vanished.zip(tap.vanished).map(|(a, b)| a + b);
        let counts = [(&mut sum.only, tap.only_at), (&mut sum.copies, tap.copies_at)];
        for (sum, n) in counts.into_iter().flat_map(|(sum, of)| sum.iter_mut().zip(of)) {
            *sum += n;
        }
        for (sum, n) in sum.not_compared.iter_mut().zip(tap.not_compared) {
            *sum = sum.zip(n).map(|(a, b)| a + b);
        }
        let change = &tap.delay_change_ns;
        sum.change = (sum.change.0.min(change.min), sum.change.1.max(change.max));
    }
    let hidden = pairs.len().saturating_sub(TAPS);
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_by_key(|(_, sum)| Reverse(sum.vanished));
    let mut lines = Vec::new();
    for (([first, second], known, src, dst), sum) in pairs.into_iter().take(TAPS) {
        let (first, second) = (plain(first), plain(second));
        let arrow = if known { "→" } else { "and" };
        let lost = match (sum.vanished, sum.only) {
            (Some(vanished), [_, 0]) => format!("{} vanished", units::count(vanished)),
            (Some(vanished), [_, more]) => {
                format!("{} vanished, {} missed by the first", units::count(vanished), units::count(more))
            }
            (None, [a, b]) => {
                format!("{} seen only by the first, {} by the second", units::count(a), units::count(b))
            }
        };
        let copies = match sum.copies {
            [0, 0] => String::new(),
            [a, b] => {
                format!(", {} shown twice by the first, {} by the second", units::count(a), units::count(b))
            }
        };
        let rest = match sum.not_compared {
            [Some(0), Some(0)] => String::new(),
            [a, b] => format!(
                ", {} of the first and {} of the second not compared (not between packets that both saw, or all alike)",
                units::count_or_unknown(a),
                units::count_or_unknown(b)
            ),
        };
        let text = format!(
            "{first} {arrow} {second}, {src} → {dst}: {} seen by both, {lost}{copies}{rest}; one-way delay changes by {} to {}",
            plural(sum.matched, "packet"),
            signed(sum.change.0),
            signed(sum.change.1)
        );
        lines.extend(hanging(&text, room));
    }
    if hidden > 0 {
        lines.push(format!("… and {} more", units::count(hidden as u64)));
    }
    lines
}

fn signed(ns: i64) -> String {
    format!("{}{}", if ns < 0 { "−" } else { "+" }, units::duration(ns.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{DelayChange, Episodes, Options, TapFlow};

    fn report() -> Report {
        Report::build(&crate::analysis::fixtures::everything(), &Options::default().into())
    }

    #[test]
    fn nothing_lost_says_nothing() {
        let mut report = report();
        assert!(lines(&report, 80).is_empty() && taps(&report, 80).is_empty());
        report.facts.flows[0].loss = Some(Loss::default());
        assert!(lines(&report, 80).is_empty());
    }

    #[test]
    fn what_was_lost_in_words() {
        let mut report = report();
        let before_tap = Episodes { episodes: 2, longest_ns: Some(3_000_000), ..Episodes::default() };
        report.facts.flows[0].loss = Some(Loss {
            lost: 7,
            recovered: 1,
            retransmitted: 1_200,
            retransmission: Some("go_back_n"),
            before_tap,
            ..Loss::default()
        });
        let page = lines(&report, 200).join("\n");
        for part in
            ["7 lost before in 2 episodes (longest 3", "sent again, go-back-N", "1 late, out of order"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(lines(&report, 60).iter().skip(1).all(|line| line.starts_with("  ")));
        let once = Episodes { episodes: 1, ..before_tap };
        report.facts.flows[0].loss = Some(Loss { lost: 1, before_tap: once, ..Loss::default() });
        let page = lines(&report, 200).join("\n");
        assert!(page.ends_with(": 1 lost before in 1 episode (3.00 ms)"), "{page}");
    }

    /// What is said of the column is the sum of the column, links and flows of which no more is known included.
    #[test]
    fn the_sum_of_missing_is_that_of_its_column() {
        let mut report = report();
        let at = report.facts.flows.iter().position(|flow| missing(flow) == Some(1_204)).unwrap();
        report.facts.flows[at].loss = Some(Loss { lost: 1_000, recovered: 204, ..Loss::default() });
        let column: u64 = report.facts.flows.iter().filter_map(missing).sum();
        assert_eq!(column, 1_208);
        let said = headline(&report).pop().unwrap();
        assert!(
            said.starts_with(&format!(
                "(MISSING below, {} in all flows of all links, ",
                units::count(column)
            )),
            "{said}"
        );
        report.facts.flows[at].loss = Some(Loss { lost: 1_204, ..Loss::default() });
        assert!(!headline(&report).concat().contains("MISSING"), "nothing differs");
    }

    #[test]
    fn where_nothing_is_numbered_nothing_is_known_of_losses() {
        let mut report = report();
        report.facts.totals.retired.flows = 0;
        report.facts.flows.retain(|flow| flow.dest_qp == 1);
        assert_eq!(headline(&report), [NO_SEQUENCE]);
        report.facts.totals.retired.flows = 1;
        assert_eq!(headline(&report), [NO_SIGN]);
    }

    #[test]
    fn what_is_no_loss_is_not_called_one() {
        let plain = AtLink { link: "a", ..AtLink::default() };
        let slow = AtLink { rnr_naks: 19, naks: 19, sent_again: 57, rnr_resent: 57, ..plain };
        assert!(signs(&slow, false).is_empty(), "{:?}", signs(&slow, false));
        assert!(no_loss(&slow)[1].starts_with("57 sent again as the receiver was not ready"));
        assert_eq!(signs(&AtLink { sent_again: 60, ..slow }, false), ["19 sequence NAKs", "3 sent again"]);
        let refused = AtLink { refused: 1, ..plain };
        assert!(signs(&refused, false).is_empty() && no_loss(&refused) == ["1 request refused (NAK)"]);
        assert_eq!(signs(&AtLink { naks: 1, ..plain }, false), ["1 sequence NAK"]);
    }

    /// Nobody was seen to ask where nothing passes from the receiver.
    #[test]
    fn a_sender_that_goes_back_is_not_called_asked() {
        let mut report = report();
        let at = report.facts.flows.iter().position(|flow| missing(flow) == Some(1_204)).unwrap();
        let (src, dst) = (report.facts.flows[at].src, report.facts.flows[at].dst);
        let after_tap = Episodes { episodes: 3, ..Episodes::default() };
        report.facts.flows[at].loss = Some(Loss { retransmitted: 9, after_tap, ..Loss::default() });
        assert!(headline(&report).concat().contains("asked again 3 times for what had passed"));
        report.facts.flows.retain(|flow| (flow.src, flow.dst) != (dst, src));
        let said = headline(&report).concat();
        assert!(
            said.contains("senders went back 3 times to what had passed") && !said.contains("asked again")
        );
    }

    #[test]
    fn psns_alone_say_nothing_where_two_taps_saw_the_same_packets() {
        let mut report = report();
        report.facts.flows[0].loss = Some(Loss { lost: 1, recovered: 9, ..Loss::default() });
        let flow = &report.facts.flows[0];
        let tap = TapFlow {
            src: flow.src,
            dst: flow.dst,
            dest_qp: flow.dest_qp,
            links: ["a.pcap".into(), flow.link.clone()],
            from: Some("a.pcap".into()),
            to: Some(flow.link.clone()),
            packets_matched: 100,
            vanished: Some(0),
            only_at: [0, 0],
            copies_at: [0, 0],
            not_compared: [Some(0), Some(0)],
            delay_change_ns: DelayChange { min: 0, max: 0, drift: 0, points: Vec::new() },
        };
        let lost = |report: &Report| by_link(report).iter().map(|at| at.lost).sum::<u64>();
        assert_eq!(lost(&report), 1, "one tap has its PSNs only");
        report.facts.taps = vec![TapFlow { vanished: Some(1), only_at: [1, 0], ..tap.clone() }];
        assert_eq!(lost(&report), 1);
        report.facts.taps = vec![tap];
        assert_eq!(lost(&report), 0);
        assert!(!lines(&report, 200).join("\n").contains("lost before"));
    }

    #[test]
    fn of_taps_in_a_row_each_span_counts_by_itself() {
        let mut report = report();
        let id = report.facts.flows[0].clone();
        let span = |from: &str, to: &str, vanished| TapFlow {
            src: id.src,
            dst: id.dst,
            dest_qp: id.dest_qp,
            links: [from.into(), to.into()],
            from: Some(from.into()),
            to: Some(to.into()),
            packets_matched: 100,
            vanished: Some(vanished),
            only_at: [vanished, 0],
            copies_at: [0, 0],
            not_compared: [Some(0), Some(0)],
            delay_change_ns: DelayChange { min: 0, max: 0, drift: 0, points: Vec::new() },
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
            src,
            dst,
            dest_qp,
            links: ["a.pcap".into(), "b.pcap".into()],
            from: from.map(str::to_owned),
            to: from.map(|_| "b.pcap".to_owned()),
            packets_matched: 100,
            vanished,
            only_at: [3, 0],
            copies_at: [0, 7],
            not_compared: [Some(2), Some(0)],
            delay_change_ns: DelayChange { min: -1_000, max: 2_000_000, drift: 0, points: Vec::new() },
        };
        report.facts.taps = vec![tap(1, Some(3), Some("a.pcap")), tap(2, Some(3), Some("a.pcap"))];
        let page = taps(&report, 200).join("\n");
        assert!(
            page.starts_with("a.pcap → b.pcap, ") && page.contains("200 packets seen by both, 6 vanished"),
            "{page}"
        );
        assert!(page.contains(", 0 shown twice by the first, 14 by the second, 4 of the first and 0 of the second not compared"), "{page}");
        report.facts.taps = vec![tap(1, None, None)];
        let page = taps(&report, 200).join("\n");
        assert!(
            page.contains("a.pcap and b.pcap") && page.contains("3 seen only by the first, 0 by the second"),
            "{page}"
        );
    }
}
