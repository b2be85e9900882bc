//! Tests of which loss raises a finding, and of its texts.

use rocescope_common::account::PsnTrack;

use crate::analysis::Options;
use crate::analysis::fixtures::{SECOND, START, key, link, sample, stats};
use crate::findings::tests::found;
use crate::findings::{Finding, Place, Severity};
use crate::metrics::loss::{Episodes, FlowLoss, Loss, Metrics};
use crate::report::{Report, text};
use crate::sample::{Direction, FlowSample, Sample};
use crate::util::units;

/// 1,000 requests, of which some were lost upstream of this link and some downstream, up to a second after the start;
/// the data continues to the end.
fn lossy(lost: u64, behind: u64, end_s: u64) -> Sample {
    let mut data = stats(50_000, 1_000, 1_000_000);
    data.last_ns = START + end_s * SECOND;
    let mut back = stats(50_000, 10, 620);
    (back.acks, back.rare.naks[0]) = (10, lost + behind);
    let answers = (key(0, "10.0.0.2", "10.0.0.1", 18), back);
    let flows = vec![(key(0, "10.0.0.1", "10.0.0.2", 17), data), answers];
    let mut sample = sample(vec![link("eth0", None)], flows);
    sample.window = Some((START, START + end_s * SECOND));
    let at = |count| Episodes {
        count,
        longest_ns: 9,
        total_ns: 9,
        largest: 1,
        first_ns: START,
        last_ns: START + SECOND,
    };
    let metrics = Metrics { lost, upstream: at(lost), downstream: at(behind), ..Metrics::default() };
    let mut known = Loss::default();
    known.flows.insert(0, FlowLoss { requests: Some(metrics), ..FlowLoss::default() });
    sample.metrics.loss = Some(known);
    sample
}

fn by_id(sample: &Sample, id: &str) -> Option<Finding> {
    found(sample, &Options::default()).into_iter().find(|finding| finding.id == id)
}

#[test]
fn loss_is_over_ten_seconds_after_the_last_episode() {
    let before = |sample: &Sample| by_id(sample, "loss.before_tap").unwrap();
    let (late, old) = (lossy(9, 0, 10), lossy(9, 0, 11));
    assert_eq!(before(&old).last_seen_ns, Some(START + SECOND));
    let said = |sample: &Sample| {
        let page = text::text(&Report::build(sample, &Options::default().into()), 120);
        page.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(!said(&late).contains("ended"), "nine seconds ago");
    assert!(
        said(&old).contains("(ended) [loss.before_tap]") && said(&old).contains("UTC, lasted 1.00 s"),
        "{}",
        said(&old)
    );
    assert_eq!(by_id(&lossy(4, 0, 11), "loss.before_tap"), None, "four episodes are none");
}

/// The text report at its maximum width.
fn page(sample: &Sample) -> String {
    let page = text::text(&Report::build(sample, &Options::default().into()), 160);
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The same with losses downstream of READ responses, which the requester repeats after a timeout: no reordering.
fn with_repeated_reads(mut sample: Sample) -> Sample {
    let loss = sample.metrics.loss.as_mut().unwrap().flows.get_mut(&0).unwrap();
    let requests = loss.requests.as_mut().unwrap();
    let behind = std::mem::take(&mut requests.downstream);
    // Each episode costs the same on both sides.
    requests.upstream.total_ns = requests.upstream.count * SECOND;
    let downstream = Episodes { total_ns: behind.count * SECOND, ..behind };
    loss.responses = Some(Metrics { downstream, ..Metrics::default() });
    let stats = &mut sample.flows[0].stats;
    stats.rare.psn_responses = stats.psn.form();
    sample
}

#[test]
fn advice_is_whole_in_each_finding() {
    let (before, after) = ("loss.before_tap", "loss.after_tap");
    let advice = |sample: &Sample, id: &str| by_id(sample, id).unwrap().advice;
    let whole = "`dcb pfc show`";
    for (lost, behind) in [(9, 0), (0, 9)] {
        let sample = lossy(lost, behind, 1);
        let (id, place) = if lost > 0 {
            (before, "between the sender and this tap")
        } else {
            (after, "between this tap and the receiver")
        };
        let advice = advice(&sample, id);
        assert!(
            advice.contains(whole) && advice.contains(place) && !advice.contains("both sides"),
            "{advice}"
        );
        assert!(!page(&sample).contains(" above."));
    }
    // What may be reordering is no loss on both sides, and comes last.
    let doubtful = lossy(9, 90, 1);
    for id in [before, after] {
        assert!(!advice(&doubtful, id).contains("both sides"));
    }
    assert!(page(&doubtful).find(before) < page(&doubtful).find(after));
    // The worse one comes first, else the loss nearer the sender.
    for (lost, behind, first, second) in
        [(9, 9, before, after), (9, 90, after, before), (90, 9, before, after)]
    {
        let sample = with_repeated_reads(lossy(lost, behind, 1));
        for advice in [advice(&sample, first), advice(&sample, second)] {
            assert!(advice.contains(whole) && advice.contains("Loss on both sides"), "{advice}");
        }
        let page = page(&sample);
        let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what}: {page}"));
        let step = "Check that PFC is enabled for priority 3 (DSCP 26) at every hop.";
        let (one, reported, other) = (at(&format!("[{first}]")), at(step), at(&format!("[{second}]")));
        assert!(one < reported && reported < other, "{lost}, {behind}: {page}");
        let (list, next) = page.split_once("── VERDICT").unwrap();
        assert_eq!((list.matches(step).count(), next.matches(step).count()), (1, 1), "{page}");
        assert!(page[other..].contains(&format!("For the rest see [{first}] above.")), "{page}");
    }
}

/// Some thousand requests per host pair, of which this many were lost upstream of the link, in as many episodes.
fn pairs(lost: &[(u16, u8, u64)]) -> Sample {
    let flows = lost.iter().map(|(link, host, _)| {
        (key(*link, &format!("10.0.0.{host}"), "10.0.0.99", 17), stats(50_000, 1_000, 1_000_000))
    });
    let links = ["eth0", "eth1"].map(|name| link(name, Some(Direction::Ingress)));
    let mut sample = sample(links.into(), flows.collect());
    let mut known = Loss::default();
    for (slot, (_, _, lost)) in (0..).zip(lost) {
        let before = Episodes {
            count: *lost,
            longest_ns: 9,
            total_ns: 9,
            largest: 1,
            first_ns: START,
            last_ns: START + SECOND,
        };
        let metrics = Metrics { lost: *lost, upstream: before, ..Metrics::default() };
        known.flows.insert(slot, FlowLoss { requests: Some(metrics), ..FlowLoss::default() });
    }
    sample.metrics.loss = Some(known);
    sample
}

fn named(sample: &Sample) -> Vec<String> {
    let all = found(sample, &Options::default()).into_iter();
    all.filter(|finding| finding.id == "loss.before_tap").map(|finding| finding.title).collect()
}

#[test]
fn hosts_that_lose_alike_are_all_named() {
    let titles = named(&pairs(&[(0, 1, 5), (0, 2, 4), (0, 3, 1), (0, 4, 0)]));
    assert_eq!(titles.len(), 1, "{titles:?}");
    let title = &titles[0];
    assert!(title.ends_with("9 of 2,009 packets (0.45 %), 10.0.0.1,2 → 10.0.0.99"), "{title}");
    let listed = |lost| -> Vec<String> {
        let finding = by_id(&pairs(lost), "loss.before_tap").unwrap();
        let pairs = finding.evidence["pairs"].as_array().unwrap();
        pairs.iter().map(|pair| pair.as_str().unwrap().to_owned()).collect()
    };
    let both = listed(&[(0, 1, 5), (0, 2, 4), (0, 3, 1), (0, 4, 0)]);
    assert_eq!(
        both,
        ["10.0.0.1 → 10.0.0.99 (0.50 %)", "10.0.0.2 → 10.0.0.99 (0.40 %)"],
        "one episode, or none"
    );
    assert_eq!(listed(&[(0, 1, 3), (0, 2, 2)]).len(), 2, "none has five for itself");
    // Two rails.
    let titles = named(&pairs(&[(0, 1, 6), (1, 2, 4)]));
    assert_eq!(titles.len(), 2, "{titles:?}");
    let many: Vec<(u16, u8, u64)> = (1..=7).map(|host| (0, host, 5)).collect();
    let titles = named(&pairs(&many));
    assert_eq!(titles.len(), 1, "{titles:?}");
    assert_eq!(listed(&many).len(), 7);
}

/// Both rails of the same hosts, each with a queue pair of its own; the same of other hosts; and one queue pair at both
/// links.
#[test]
fn the_same_hosts_on_several_links_are_one_finding() {
    let rails = |lost: &[(u16, u8, u64)]| {
        let mut sample = pairs(lost);
        for flow in &mut sample.flows {
            flow.key.dest_qp += u32::from(flow.key.link);
        }
        let all = found(&sample, &Options::default()).into_iter();
        all.filter(|finding| finding.id == "loss.before_tap").collect::<Vec<_>>()
    };
    let all = rails(&[(0, 1, 6), (0, 2, 6), (1, 1, 9), (1, 2, 9)]);
    assert_eq!(all.len(), 1, "{all:?}");
    let one = &all[0];
    assert_eq!(one.title, "Loss upstream of eth0,1: 30 of 4,030 packets (0.74 %), 10.0.0.1,2 → 10.0.0.99");
    assert_eq!(
        (one.place.link.as_deref(), &one.place.links[..]),
        (None, &["eth0".into(), "eth1".into()][..])
    );
    assert_eq!(one.evidence["by_link"], serde_json::json!(["eth0 (0.60 %)", "eth1 (0.89 %)"]));
    assert_eq!((one.evidence["lost"].as_u64(), one.evidence["host_pairs"].as_u64()), (Some(30), Some(2)));
    assert_eq!(one.flows.len(), 4, "the queue pairs of both");
    let fields = one.fields(crate::findings::DataEnd::default());
    assert!(fields.contains(&("Where", "upstream of eth0, eth1 ingress".to_owned())), "{fields:?}");

    // A rail that loses little does not make the other one better.
    let [one] = &rails(&[(0, 1, 12), (1, 1, 2)])[..] else { panic!("one") };
    assert_eq!(one.severity, crate::findings::Severity::Critical, "{}", one.title);
    assert!(one.title.contains("14 of 2,014 packets (0.70 %)"), "{}", one.title);

    // Half of the host pairs in common, and fewer.
    assert_eq!(rails(&[(0, 1, 6), (0, 2, 6), (1, 1, 9)]).len(), 1);
    assert_eq!(rails(&[(0, 1, 6), (0, 2, 6), (0, 3, 6), (1, 1, 9)]).len(), 2);
    assert_eq!(rails(&[(0, 1, 6), (1, 2, 9)]).len(), 2, "other hosts are another place");
    // A queue pair that both links see whole counts once.
    let whole = named(&pairs(&[(0, 1, 6), (1, 1, 6)]));
    assert_eq!(whole, ["Loss upstream of eth0,1: 6 of 1,006 packets (0.60 %), 10.0.0.1 → 10.0.0.99"]);
}

#[test]
fn of_hundreds_of_links_that_are_one_place_a_report_lists_the_first() {
    const LINKS: u16 = 300;
    let lost: Vec<(u16, u8, u64)> = (0..LINKS).map(|rail| (rail, 1, 6)).collect();
    let mut sample = pairs(&lost);
    sample.links = (0..LINKS).map(|rail| link(&format!("eth{rail:03}"), Some(Direction::Ingress))).collect();
    for flow in &mut sample.flows {
        flow.key.dest_qp += u32::from(flow.key.link);
    }
    let one = by_id(&sample, "loss.before_tap").unwrap();
    let place = serde_json::to_value(&one.place).unwrap();
    let first: Vec<String> = (0..16).map(|rail| format!("eth{rail:03}")).collect();
    assert_eq!((&place["links"], &place["more_links"]), (&first.into(), &284.into()));
    assert!(one.place.has("eth299"), "known to this program");
    assert_eq!(one.place.in_words().unwrap(), "eth000, 299 more");
    // Read back from a report, of which the others are not known.
    let recorded = Place { links: one.place.links[..16].to_vec(), ..one.place };
    assert_eq!(recorded.in_words().unwrap(), "eth000, 299 more");
}

#[test]
fn the_hosts_take_precedence_over_the_number_of_packets_in_a_title() {
    let mut sample = pairs(&[(0, 1, 9)]);
    sample.links[0] = link("rail0-of-bond-eth4", Some(Direction::Ingress));
    let title = "Loss upstream of rail0-of-bond-eth4: 9 packets (0.89 %), 10.0.0.1 → 10.0.0.99";
    assert_eq!(named(&sample), [title]);
}

#[test]
fn a_few_episodes_among_much_are_no_loss() {
    // Four losses in total; five, but no pair with two; the same queue pair seen twice counts once.
    for nearly in [
        &[(0, 1, 2), (0, 2, 2)][..],
        &[(0, 1, 1), (0, 2, 1), (0, 3, 1), (0, 4, 1), (0, 5, 1)],
        &[(0, 1, 4), (1, 1, 4)],
    ] {
        assert_eq!(named(&pairs(nearly)), [] as [String; 0], "{nearly:?}");
    }
    // Seven episodes, but in a hundred thousand packets.
    let mut sample = pairs(&[(0, 1, 4), (0, 2, 3), (0, 3, 0)]);
    assert_eq!(named(&sample).len(), 1);
    sample.flows[2].stats.packets = 100_000;
    assert_eq!(named(&sample), [] as [String; 0]);
}

/// The packets that fill the gaps may be originals: nothing triggered a retransmission.
#[test]
fn without_a_nak_or_a_timeout_it_may_be_reordering() {
    let mut sample = lossy(9, 0, 1);
    sample.flows[1].stats.rare.naks[0] = 0;
    let finding = by_id(&sample, "loss.before_tap").unwrap();
    assert_eq!(finding.severity, Severity::Info);
    assert!(finding.title.starts_with("Reordering or loss upstream of eth0: 9 packets"), "{}", finding.title);
    sample.flows[1].stats.acks = 0;
    let finding = by_id(&sample, "loss.before_tap").unwrap();
    assert!(finding.title.starts_with("Loss upstream"), "no ACK is seen, so a NAK may have passed elsewhere");
}

#[test]
fn where_one_direction_is_seen_it_is_not_known_who_asked() {
    let mut sample = lossy(0, 90, 1);
    let both = by_id(&sample, "loss.after_tap").unwrap();
    assert!(both.title.starts_with("Loss or reordering downstream of eth0: 90 NAK"), "{}", both.title);
    assert_eq!(both.severity, Severity::Info, "loss and reordering look the same");
    let lost = with_repeated_reads(lossy(0, 90, 1));
    let lost = by_id(&lost, "loss.after_tap").unwrap();
    assert!(lost.title.starts_with("Loss downstream of eth0: 90 repeated READs"), "{}", lost.title);
    assert_eq!(lost.severity, Severity::Critical);
    sample.flows.truncate(1);
    let alone = by_id(&sample, "loss.after_tap").unwrap();
    assert!(alone.title.starts_with("Retransmissions of packets seen at eth0: 90 times"), "{}", alone.title);
    assert_eq!(alone.severity, Severity::Info);
}

/// 1,000 requests, of which receivers asked for some in nine episodes, with this many retransmissions.
fn with_naks(retransmitted: u64) -> Sample {
    let mut sample = lossy(0, 9, 1);
    sample.flows[0].stats.packets = 10_000;
    let requests = sample.metrics.loss.as_mut().unwrap().flows.get_mut(&0).unwrap().requests.as_mut();
    requests.unwrap().retransmitted = retransmitted;
    sample
}

#[test]
fn retransmissions_after_naks_cost_the_same_lost_or_reordered() {
    let warned = by_id(&with_naks(100), "retry.storm").unwrap();
    assert_eq!(warned.severity, Severity::Warning);
    let title = "Loss or reordering downstream: 1.00 % retransmitted, 10.0.0.1 → 10.0.0.2";
    assert_eq!((warned.title.as_str(), &warned.evidence["retransmitted"]), (title, &100.into()));
    let downstream = by_id(&with_naks(100), "loss.after_tap").unwrap();
    assert_eq!((downstream.owner, downstream.severity), (Some("retry.storm"), Severity::Info), "one trouble");
    assert_eq!(by_id(&with_naks(99), "loss.after_tap").unwrap().owner, None);
    assert_eq!((&warned.evidence["asked_again"], &warned.causes[..]), (&9.into(), &["loss.after_tap"][..]));
    assert_eq!(by_id(&with_naks(99), "retry.storm"), None, "few");
    let storm = by_id(&with_naks(2_000), "retry.storm").unwrap();
    assert_eq!(storm.title, "Loss or reordering downstream: 20.0 % retransmitted, 10.0.0.1 → 10.0.0.2");
    // Below the share of a storm, nothing but a receiver's NAKs makes them worth a warning.
    let mut unasked = with_naks(1_000);
    let loss = unasked.metrics.loss.as_mut().unwrap().flows.get_mut(&0).unwrap();
    loss.requests.as_mut().unwrap().downstream = Episodes::default();
    assert_eq!(by_id(&unasked, "retry.storm"), None);
}

/// A slow receiver has its share of the retransmissions.
#[test]
fn retransmissions_after_rnr_naks_are_not_among_those_after_sequence_errors() {
    let after_rnr = |retransmitted, rnr| {
        let mut sample = with_naks(retransmitted);
        let loss = sample.metrics.loss.as_mut().unwrap().flows.get_mut(&0).unwrap();
        loss.requests.as_mut().unwrap().rnr_retransmitted = rnr;
        by_id(&sample, "retry.storm")
    };
    let warned = after_rnr(784, 30).unwrap();
    assert_eq!(
        (&warned.evidence["retransmitted"], &warned.evidence["rnr_resent"]),
        (&754.into(), &30.into())
    );
    assert_eq!(warned.impact.retransmissions, Some(754));
    assert!(warned.title.ends_with(": 7.54 % retransmitted, 10.0.0.1 → 10.0.0.2"), "{}", warned.title);
    assert_eq!(after_rnr(784, 685), None, "too few are asked for");
}

#[test]
fn steps_distinguish_loss_corruption_and_reordering_downstream() {
    let storm = by_id(&with_naks(100), "retry.storm").unwrap();
    let step = |begin: &str| storm.steps.iter().find(|step| step.text.starts_with(begin)).unwrap();
    let command = |begin| step(begin).command.as_deref();
    assert_eq!(command("Read drop counters and FCS errors of the switches"), None);
    assert_eq!(command("Check the RDMA counters on 10.0.0.2"), Some("rdma statistic show"), "not of ethtool");
    let capture = step("Capture on 10.0.0.2 and at this tap");
    let line = capture.command.as_deref().unwrap();
    assert!(line.starts_with("tcpdump -i DEV ") && line.contains("-w receiver.pcap"), "{line}");
    assert_eq!(capture.host.map(|host| host.to_string()).as_deref(), Some("10.0.0.2"));
}

/// Of two host pairs at a tap, one may have reordered packets: neither changes the severity or the figures of the
/// other.
#[test]
fn each_host_pair_is_judged_by_its_own_figures() {
    let mut sample = pairs(&[(0, 1, 20), (0, 2, 9)]);
    let of = |sample: &Sample| -> Vec<(Severity, String)> {
        let all = found(sample, &Options::default()).into_iter();
        all.filter(|one| one.id == "loss.before_tap").map(|one| (one.severity, one.title)).collect()
    };
    assert_eq!(
        of(&sample),
        [(
            Severity::Critical,
            "Loss upstream of eth0: 29 of 2,029 packets (1.43 %), 10.0.0.1,2 → 10.0.0.99".into()
        )]
    );
    let worst = by_id(&sample, "loss.before_tap").unwrap();
    assert_eq!(
        worst.evidence["pairs"],
        serde_json::json!([
            "10.0.0.1 → 10.0.0.99 (1.96 %, critical)",
            "10.0.0.2 → 10.0.0.99 (0.89 %, warning)"
        ])
    );
    // The worst of them may have lost nothing.
    let flows = &mut sample.metrics.loss.as_mut().unwrap().flows;
    flows.get_mut(&0).unwrap().requests.as_mut().unwrap().doubtful = 20;
    assert_eq!(
        of(&sample),
        [
            (
                Severity::Warning,
                "Loss upstream of eth0: 9 of 1,009 packets (0.89 %), 10.0.0.2 → 10.0.0.99".to_owned()
            ),
            (
                Severity::Info,
                "Reordering or loss upstream of eth0: 20 packets, 10.0.0.1 → 10.0.0.99".to_owned()
            )
        ]
    );
}

/// A live run that starts to follow a queue pair after it has lost packets for long.
#[test]
fn a_sequence_that_broke_before_it_was_followed_is_left_out_and_said_so() {
    let mut sample = lossy(9, 0, 1);
    let mut late = stats(50_000, 5_000, 5_000_000);
    (late.psn.gaps, late.psn.missing, late.psn.repeats) = (40, 40, 4_000);
    let more =
        crate::analysis::fixtures::sample(Vec::new(), vec![(key(0, "10.0.0.1", "10.0.0.2", 19), late)]);
    sample.flows.extend(more.flows.into_iter().map(|flow| FlowSample { slot: 2, ..flow }));
    let known = sample.metrics.loss.as_mut().unwrap();
    known.known = Some([0, 1].into_iter().collect());
    let report = Report::build(&sample, &Options::default().into());
    assert_eq!(
        report.facts.flows.iter().filter(|flow| flow.loss.get().is_none() && flow.psn.is_some()).count(),
        1
    );
    let finding = by_id(&sample, "loss.before_tap").unwrap();
    assert_eq!(
        (&finding.evidence["packets"], &finding.evidence["flows_unjudged"]),
        (&1_009.into(), &1.into())
    );
    assert!(finding.title.contains(&format!("9 of {} packets", units::count(1_009))), "{}", finding.title);
    let open = |id| report.not_evaluated.iter().any(|one| one.id == id && one.needs == "whole_sequences");
    assert!(open("loss.before_tap") && open("loss.after_tap") && open("retry.storm"));

    // Without retransmissions, nothing about it is unknown.
    sample.flows[2].stats.psn = PsnTrack { seen: 1, ..PsnTrack::default() };
    let finding = by_id(&sample, "loss.before_tap").unwrap();
    assert_eq!(finding.evidence["flows_unjudged"], 0);
}
