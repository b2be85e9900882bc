//! The job as NCCL sees it.

use crate::analysis::{Nccl, NcclRank, RankState};
use crate::report::Report;
use crate::util::layout::{Align, Table, labelled, plain};
use crate::util::units::{self, plural};

/// Ranks listed of a communicator, and events.
const MAX_RANKS: usize = 20;
const MAX_EVENTS: usize = 10;

/// All of it; nothing where NCCL was not asked.
pub(super) fn lines(report: &Report, room: usize) -> Vec<String> {
    let Some(nccl) = &report.facts.nccl else { return Vec::new() };
    let mut lines = labelled("", 0, &summary(nccl), room);
    for one in nccl.communicators.iter().filter(|one| !one.ranks.is_empty()) {
        let size =
            one.size.map_or_else(String::new, |size| format!(" of {}", plural(u64::from(size), "rank")));
        let launched: Vec<String> = one
            .launched
            .iter()
            .filter(|(_, n)| **n > 0)
            .map(|(name, n)| format!("{name} {}", units::count(*n)))
            .collect();
        let launched = if launched.is_empty() {
            String::new()
        } else {
            format!(", highest operation count: {}", launched.join(", "))
        };
        let text = format!("Communicator {}{size}{launched}", plain(&one.hash));
        lines.extend(labelled("", 0, &text, room));
        lines.extend(ranks(&one.ranks, nccl, room));
    }
    if nccl.ranks_left_out > 0 {
        lines.push(format!("… and {} more", plural(nccl.ranks_left_out, "rank")));
    }
    for event in nccl.events.iter().rev().take(MAX_EVENTS).rev() {
        let host = event.process.host.map_or_else(String::new, |host| format!(" {host}"));
        let pid = event.process.pid.map_or_else(String::new, |pid| format!(" PID {pid}"));
        lines.push(format!("{} {}{host}{pid}", units::clock_utc(event.time_ns), plain(&event.event)));
    }
    lines
}

/// The answer of NCCL, in one sentence: version, communicators, ranks that differ; or the reason of its silence.
pub(crate) fn summary(nccl: &Nccl) -> String {
    let Some(answered_ns) = nccl.answered_ns else {
        let why = nccl.unavailable.as_deref().unwrap_or("no answer yet");
        return format!("NCCL RAS: {}", plain(why));
    };
    let version = nccl.version.as_deref().map_or_else(String::new, |version| format!(" {}", plain(version)));
    let ranks = || nccl.communicators.iter().flat_map(|one| &one.ranks);
    let of = |is: &dyn Fn(&NcclRank) -> bool| ranks().filter(|rank| is(rank)).count() as u64;
    let mut parts = vec![plural(nccl.communicators_count, "communicator")];
    let named =
        |state: &'static str| move |rank: &NcclRank| rank.state.is_some_and(|own| own.name() == state);
    for (count, what) in [
        (of(&|rank| rank.behind > 0), "behind"),
        (of(&|rank| rank.error.is_some()), "with an error"),
        (of(&named("unresponsive")), "unresponsive"),
        (of(&named("dead")), "dead"),
    ] {
        if count > 0 {
            parts.push(format!("{} {what}", plural(count, "rank")));
        }
    }
    if parts.len() == 1 {
        parts.push("no rank differs".to_owned());
    }
    let late = match &nccl.unavailable {
        Some(why) => format!("; since {} UTC no answer: {}", units::second_utc(answered_ns), plain(why)),
        None => String::new(),
    };
    format!("NCCL{version}: {}{late}", parts.join(", "))
}

fn ranks(ranks: &[NcclRank], nccl: &Nccl, room: usize) -> Vec<String> {
    let mut table = Table::new(vec![
        ("  RANK", Align::Right),
        ("HOST", Align::Left),
        ("GPU", Align::Right),
        ("PID", Align::Right),
        ("STATE", Align::Left),
        ("BEHIND", Align::Right),
        ("FOR", Align::Right),
        ("QPs", Align::Right),
    ]);
    let known = |text: Option<String>| text.unwrap_or_else(|| units::UNKNOWN.to_owned());
    let mut order: Vec<&NcclRank> = ranks.iter().collect();
    // Those that differ first.
    order.sort_by_key(|rank| (!rank.differs(), std::cmp::Reverse(rank.behind), rank.rank));
    for rank in order.iter().take(MAX_RANKS) {
        let since = rank.behind_since_ns.zip(nccl.answered_ns);
        let behind_for = since.map(|(since, now)| units::duration(now.saturating_sub(since)));
        let state = rank.error.or_else(|| rank.state.map(RankState::name));
        let qps = rank.local_pid.map(|_| units::count(rank.qps.len() as u64 + rank.qps_left_out));
        table.row(vec![
            rank.rank.to_string(),
            known(rank.host.map(|host| host.to_string())),
            known(rank.gpu.map(|gpu| gpu.to_string())),
            known(rank.local_pid.or(rank.pid).map(|pid| pid.to_string())),
            known(state.map(str::to_owned)),
            units::count(rank.behind),
            known(behind_for),
            known(qps),
        ]);
    }
    let mut lines = table.lines(room);
    let more = order.len().saturating_sub(MAX_RANKS);
    if more > 0 {
        lines.push(format!("  … and {}", plural(more as u64, "more rank")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::{Options, fixtures};
    use crate::source::nccl::server;

    fn text_of(change: impl FnOnce(&mut crate::entity::nccl::Nccl)) -> String {
        let mut sample = fixtures::sample(Vec::new(), Vec::new());
        let mut known = server::example(fixtures::START + 40 * fixtures::SECOND, fixtures::START);
        change(&mut known);
        sample.nccl = Some(Arc::new(known));
        let report = Report::build(&sample, &Options::default().into());
        lines(&report, 160).join("\n")
    }

    #[test]
    fn ranks_that_differ_are_listed() {
        let text = text_of(|_| {});
        assert!(text.starts_with("NCCL 2.29.1: 1 communicator, 1 rank behind\n"), "{text}");
        assert!(
            text.contains("Communicator 000000000000001a of 2 ranks, highest operation count: AllReduce 9"),
            "{text}"
        );
        let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(row, ["1", "192.0.2.2", "1", "4711", "running", "2", "40.0", "s", "0"], "{text}");
    }

    #[test]
    fn silence_has_its_reason_and_no_control_characters() {
        let late = text_of(|known| known.unavailable = Some("no answer\u{1b}[2J in time".into()));
        assert!(late.contains("UTC no answer: no answer") && !late.contains('\u{1b}'), "{late}");
        let never = text_of(|known| {
            *known = crate::entity::nccl::Nccl {
                unavailable: Some("nothing listens".into()),
                ..Default::default()
            };
        });
        assert_eq!(never, "NCCL RAS: nothing listens");
    }
}
