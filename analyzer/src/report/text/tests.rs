//! The text as a whole, against stored pages.

use crate::sample::Stats;
use rocescope_common::wire::SkipReason;

use crate::analysis::fixtures::{START, counter, everything, key, link, sample, stats};
use crate::analysis::{FlowId, Options, Psn};
use crate::findings::{Finding, Severity};
use crate::report::{Report, text};
use crate::sample::{Sample, SourceKind};

fn check(name: &str, report: &Report) {
    for width in [80, 120] {
        let page = text::text(report, width);
        insta::assert_snapshot!(format!("{name}-{width}"), page);
        for line in page.lines() {
            assert!(crate::util::layout::width(line) <= width, "{name}: wider than {width}: {line}");
            assert_eq!(line.trim_end(), line, "{name}");
        }
    }
}

fn plain_report(sample: &Sample) -> Report {
    Report::build(sample, &Options::default().into())
}

#[test]
fn everything_at_once() {
    let mut report =
        Report::build(&everything(), &Options { imbalance_all_links: true, ..Options::default() }.into());
    let flow = &report.facts.flows[1];
    let flows = vec![FlowId {
        link: flow.link.clone(),
        direction: flow.direction,
        src: flow.src,
        dst: flow.dst,
        dest_qp: flow.dest_qp,
    }];
    for (severity, title, advice) in [
        (Severity::Info, "One tunnelled flow", ""),
        (
            Severity::Critical,
            "QP 280 loses packets on the way: 37 gaps, 1204 PSNs",
            "Look for drops at the switch ports on the path, and whether PFC is on for DSCP 26.",
        ),
    ] {
        report.findings.push(Finding {
            flows: flows.clone(),
            advice: advice.into(),
            ..Finding::new("made-up", severity, title.into())
        });
    }
    check("everything", &report);
}

/// Forty flows of one capture: the table keeps the busiest, and the small ones with trouble.
#[test]
fn many_flows_of_one_capture() {
    let flows = (0..40u16).map(|i| {
        let mut stats = stats(49_152 + i, 100_000, 104_000_000 - 1_000_000 * u64::from(i));
        stats.ecn_data = [stats.packets, 0, 0, 0];
        if i >= 27 {
            stats.psn.gaps = u64::from(i);
            stats.psn.missing = 100 * u64::from(i);
        }
        (key(0, "10.0.0.1", "10.0.0.2", 0x100 + u32::from(i)), stats)
    });
    let mut sample = sample(vec![link("incast.pcap", None)], flows.collect());
    sample.capture_drops = Some(0);
    check("many", &plain_report(&sample));
}

#[test]
fn a_flow_of_one_packet_has_no_rate() {
    let mut only = stats(7, 1, 1_000);
    only.last_ns = only.first_ns;
    let mut sample = sample(
        vec![link("one.pcap", None)],
        vec![(key(0, "2001:db8:aaaa:bbbb:cccc:dddd:eeee:1", "2001:db8:aaaa:bbbb:cccc:dddd:eeee:2", 5), only)],
    );
    sample.window = Some((START, START));
    check("single", &plain_report(&sample));
}

#[test]
fn an_empty_report_says_why_and_what_would_help() {
    let mut live = sample(vec![link("eth0", None)], Vec::new());
    live.kind = SourceKind::Live;
    live.inputs = vec!["eth0".into()];
    check("empty-live", &plain_report(&live));

    let mut cut = sample(vec![link("cut.pcap", None)], Vec::new());
    cut.links[0].skipped[SkipReason::Truncated as usize] = counter(12_000, 12_000_000);
    cut.links[0].skipped[SkipReason::Filtered as usize] = counter(3, 300);
    check("empty-cut", &plain_report(&cut));

    let mut none = sample(Vec::new(), Vec::new());
    none.window = None;
    check("empty-none", &plain_report(&none));

    let mut other = sample(vec![link("other.pcap", None)], Vec::new());
    other.links[0].skipped[SkipReason::Tcp as usize] = counter(9, 900);
    check("empty-other", &plain_report(&other));
}

#[test]
fn a_live_report_says_which_tunnels_only_a_replay_decodes() {
    let mut sample = sample(vec![link("eth0", None)], Vec::new());
    sample.links[0].skipped[SkipReason::TunnelUnparsed as usize] = counter(2_500, 400_000);
    let page = |sample: &Sample| text::text(&plain_report(sample), 80);
    assert!(!page(&sample).contains("Tunnels"), "a replay decodes no more");
    (sample.kind, sample.inputs) = (SourceKind::Live, vec!["eth0".into()]);
    let page = page(&sample);
    assert!(
        page.contains("Tunnels   2,500 packets are inside tunnels") && page.contains("tcpdump -i IFACE"),
        "{page}"
    );
}

#[test]
fn responses_between_acknowledges_show_no_loss() {
    let mut read = stats(7, 10, 1_000);
    read.opcodes = [(0x10, 10)].into();
    (read.rare.psn_responses, read.psn) = (read.psn.form(), read.rare.psn_responses.form());
    (read.rare.psn_responses.gaps, read.rare.psn_responses.missing) = (3, 77);
    let page = |stats: &Stats| {
        let flows = vec![(key(0, "10.0.0.1", "10.0.0.2", 5), stats.clone())];
        let sample = sample(vec![link("r.pcap", None)], flows);
        text::text(&plain_report(&sample), 80)
    };
    assert!(!page(&read).contains("77"), "acknowledges may have answered what was between");
    read.rare.response_holes = 55;
    let page = page(&read);
    assert!(page.contains(" 55") && !page.contains("77"), "within messages: a loss");
}

#[test]
fn any_width_is_survived() {
    let report = plain_report(&everything());
    for width in [0, 1, 47, 60, 1_000, usize::MAX] {
        assert!(text::text(&report, width).contains("10.1.0.42"), "{width}");
    }
    assert!(text::text(&report, 48).contains("Omitted columns:"));
}

#[test]
fn a_percentile_needs_enough_samples() {
    let latency = |count, p99| crate::analysis::Latency {
        count,
        p50: 10_000,
        p99,
        p999: 8_888_000.into(),
        max: 9_999_000,
    };
    let mut report = plain_report(&everything());
    let mut page = |counts: [u64; 2]| {
        report.facts.flows[0].latency_ns = Some(Box::new(latency(counts[0], 7_777_000)));
        report.facts.flows[1].latency_ns = Some(Box::new(latency(counts[1], 6_666_000)));
        text::text(&report, 120)
    };
    let few = page([7, 99]);
    assert!(!few.contains("7.78 ms") && !few.contains("6.67 ms") && few.contains("10.0 ms"), "{few}");
    assert!(few.contains("p99 needs 100 samples"), "{few}");
    let some = page([99, 100]);
    assert!(!some.contains("7.78 ms") && some.contains("6.67 ms") && !some.contains("8.89 ms"), "{some}");
    let many = page([1_000, 1_000]);
    assert!(many.contains("7.78 ms") && many.contains("8.89 ms") && !many.contains("p99 needs"), "{many}");
}

#[test]
fn requests_that_are_not_timed_are_counted_by_reason() {
    let mut report = plain_report(&everything());
    let one = &mut report.facts.flows[0];
    let times =
        crate::analysis::Latency { count: 7, p50: 10_000, p99: 10_000, p999: 10_000.into(), max: 10_000 };
    one.latency_ns = Some(Box::new(times));
    one.latency_unpaired = None.into();
    one.latency_untimed = None.into();
    let known = text::text(&report, 120);
    assert!(!known.contains("Not timed") && !known.contains("lower bound, as"), "{known}");
    let one = &mut report.facts.flows[0];
    one.latency_unpaired = Some(5).into();
    one.latency_untimed =
        Some(crate::analysis::Untimed { ambiguous: 2, outstanding: 9, ..Default::default() }).into();
    let page = text::text(&report, 120).split_whitespace().collect::<Vec<_>>().join(" ");
    let why = "Not timed: 7 requests (5 before the reverse flow was known, 2 retransmitted, or without a response of their own)";
    assert!(page.contains(why), "{page}");
    assert!(page.contains("Not answered by the end: 9 requests."), "{page}");
    assert!(page.contains(" >10.0 µs ") && page.contains(" >: lower bound, as"), "{page}");
}

/// The reaction to CNPs is unknown for a flow whose reverse flow is unknown.
#[test]
fn a_column_that_is_unknown_for_all_flows_becomes_a_line() {
    let cnp =
        |answers| crate::analysis::Cnp { answers, per_second: Some(5.0), ..crate::analysis::Cnp::default() };
    let mut report = plain_report(&everything());
    report.facts.flows[2].cnp = Some(Box::new(cnp(None)));
    let page = text::text(&report, 120);
    assert!(page.contains("Unknown for all flows: DATA QP, CE TO CNP, DATA BEFORE, DATA AFTER."), "{page}");
    assert!(page.contains("RATE") && !page.contains("CE TO CNP  "), "{page}");
    report.facts.flows[2].cnp = Some(Box::new(cnp(Some(FlowId::of(&report.facts.flows[0])))));
    assert!(text::text(&report, 120).contains("DATA QP"));
}

#[test]
fn links_with_other_packets_of_the_same_hosts_are_offered_as_a_group() {
    let page = |links: [&str; 2], far: &str, options: &Options| {
        let flows = [(0, "10.0.0.2", 17), (1, far, 18)]
            .map(|(at, dst, qp)| (key(at, "10.0.0.1", dst, qp), stats(50_000, 1_000, 1_000_000)));
        let links = links.map(|name| link(name, None));
        let mut report = Report::build(&sample(links.into(), flows.into()), &options.clone().into());
        // They may be too few to be sure of.
        report.facts.imbalance.retain(|group| !group.found);
        text::text(&report, 120)
    };
    let hint = "--group up0.pcap,up1.pcap compares their load";
    let names = ["up0.pcap", "up1.pcap"];
    assert!(page(names, "10.0.0.2", &Options::default()).contains(hint));
    assert!(!page(names, "10.0.0.3", &Options::default()).contains("--group"), "other hosts");
    let grouped = Options { groups: vec![names.map(str::to_owned).into()], ..Options::default() };
    assert!(!page(names, "10.0.0.2", &grouped).contains(hint));
}

#[test]
fn retransmissions_are_those_of_the_loss_figures() {
    let mut report = plain_report(&everything());
    let at = report.facts.flows.iter().position(|flow| flow.psn.is_some()).unwrap();
    let flow = &mut report.facts.flows[at];
    let psn = Psn { repeats: 7_777, ..flow.psn.get().unwrap() };
    (flow.psn, flow.psn_responses) = (Some(psn).into(), None);
    let loss = crate::analysis::Loss { retransmitted: 31_000, rereads: 313.into(), ..Default::default() };
    flow.loss = Some(loss).into();
    let page = text::text(&report, 160);
    assert!(page.contains("31,313") && !page.contains("  7,777  "), "{page}");
    report.facts.flows[at].loss = None.into();
    let page = text::text(&report, 160);
    assert!(!page.contains("31,313") && !page.contains("  7,777  "), "{page}");
}
