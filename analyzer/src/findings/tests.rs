//! Tests that apply to all findings.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::*;
use crate::analysis::{Options, fixtures};
use crate::findings::Severity;
use crate::report::Report;

/// The findings about a sample.
pub(super) fn found(sample: &Sample, options: &Options) -> Vec<Finding> {
    let findings = Report::build(sample, &options.clone().into()).findings;
    for finding in &findings {
        assert!(finding.title.chars().count() <= super::title::MOST, "{}", finding.title);
    }
    findings
}

/// Severity of the finding with this id, if raised.
pub(super) fn severity(sample: &Sample, id: &str) -> Option<Severity> {
    found(sample, &Options::default()).into_iter().find(|f| f.id == id).map(|f| f.severity)
}

#[test]
fn loss_is_as_severe_as_its_share() {
    let mut sample = fixtures::sample(
        vec![fixtures::link("eth0", None)],
        vec![(fixtures::key(0, "10.0.0.1", "10.0.0.2", 17), fixtures::stats(50_000, 10_000, 10_000_000))],
    );
    assert_eq!(severity(&sample, "tool.lost"), None);
    sample.events_dropped = Some(3);
    assert_eq!(severity(&sample, "tool.lost"), Some(Severity::Info), "counts are exact");
    sample.capture_drops = Some(5);
    assert_eq!(severity(&sample, "tool.lost"), Some(Severity::Warning));
    sample.capture_drops = Some(11);
    assert_eq!(severity(&sample, "tool.lost"), Some(Severity::Critical), "more than one in a thousand");
    (sample.capture_drops, sample.interface_drops) = (Some(u64::MAX - 2), Some(5));
    let found = found(&sample, &Options::default()).into_iter().find(|f| f.id == "tool.lost").unwrap();
    let ratio = serde_json::to_value(&found).unwrap()["evidence"]["lost_ratio"].as_f64().unwrap();
    assert!(ratio <= 1.0, "{ratio}");
}

#[test]
fn a_number_in_a_text_is_that_of_one_definition() {
    let names: Vec<_> = super::page::all_definitions().map(|one| one.name).collect();
    for text in entries().flat_map(|entry| [entry.meaning, entry.computed, entry.advice, entry.caveat]) {
        for name in text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0)) {
            let is_it = |other: &&&str| **other == name;
            assert_eq!(names.iter().filter(is_it).count(), 1, "{{{name}}} in {text}");
        }
    }
}

#[test]
fn ids_are_unique_and_texts_complete() {
    let mut seen = HashSet::new();
    for entry in entries() {
        assert!(seen.insert(entry.id), "{} is there twice", entry.id);
        assert!(entry.title.chars().count() <= super::title::MOST, "{}: long", entry.title);
        for cause in entry.causes {
            assert!(entries().any(|other| other.id == *cause && other.id != entry.id), "{cause}");
        }
        for text in [entry.title, entry.meaning, entry.computed, entry.advice] {
            assert!(text.len() > 10, "{}: says nothing", entry.id);
            assert!(!text.contains("  "), "{}: two blanks in a row", entry.id);
        }
    }
}

/// What a finding takes over from its kind has the values of the definitions, not their names.
#[test]
fn a_raised_finding_names_no_definition() {
    let mut found = Vec::new();
    for entry in entries() {
        Raise::new(entry, Severity::Info, "title".to_owned()).into(&mut found);
    }
    assert!(found.iter().any(|finding| finding.caveats.iter().any(|text| text.contains('{'))));
    super::page::fill(&mut found);
    for finding in &found {
        for text in finding.caveats.iter().chain([&finding.advice]) {
            assert!(!text.contains('{'), "{}: {text}", finding.id);
        }
    }
}

/// People read them in a terminal, 100 columns wide: five lines, and then a pause.
#[test]
fn no_paragraph_of_an_explanation_is_long() {
    const MOST: usize = 500;
    for entry in entries() {
        let computed = super::page::filled(entry.computed);
        assert!(!computed.contains('{'), "{}: no definition has the name in {computed}", entry.id);
        for paragraph in [entry.meaning, &computed].into_iter().flat_map(str::lines) {
            let letters = paragraph.chars().count();
            assert!(letters <= MOST, "{}: {letters} letters without a break: {paragraph}", entry.id);
        }
    }
}

#[test]
fn every_kind_has_a_rank_of_its_own() {
    let mut ranks: Vec<u16> = entries().map(|entry| entry.rank).collect();
    ranks.sort_unstable();
    assert!(ranks.windows(2).all(|two| two[0] < two[1]), "{ranks:?}");
    assert!(ranks.iter().all(|rank| *rank < u16::MAX));
}

/// The documented defaults equal those of the code, under the names of the configuration file.
#[test]
fn documented_limits_are_the_defaults() {
    let mut tables: std::collections::BTreeMap<&str, String> = std::collections::BTreeMap::new();
    for limit in limits() {
        let table = tables.entry(limit.table).or_insert_with(|| format!("[{}]\n", limit.table));
        writeln!(table, "{} = {}", limit.field, limit.default).unwrap();
    }
    let text: String = tables.into_values().collect();
    let documented: Limits = toml::from_str(&text).unwrap();
    assert_eq!(documented, Limits::default());
}

#[test]
fn the_document_is_up_to_date() {
    fixtures::document::check("findings.md", &markdown());
}

/// A report with a job of 100 ms steps that waits for 10.0.0.3, modified by `change`.
pub(super) fn with_steps(change: impl FnOnce(&mut crate::analysis::traffic::Steps)) -> Facts {
    let mut steps =
        crate::analysis::traffic::example_steps(crate::sample::Address::from([10, 0, 0, 3]), None);
    change(&mut steps);
    let mut facts = Facts::of(&fixtures::everything(), &Options::default());
    facts.steps = Some(steps);
    facts
}

/// The finding with this id for these facts, if raised.
pub(super) fn found_on(facts: &Facts, id: &str) -> Option<Finding> {
    all_on(facts).into_iter().find(|finding| finding.id == id)
}

/// All findings for these facts.
pub(super) fn all_on(facts: &Facts) -> Vec<Finding> {
    let (sample, limits) = (crate::analysis::fixtures::everything(), Limits::default());
    check(&Input { sample: &sample, facts, limits: &limits })
}

/// Requests for 20 seconds, and NAKs in another flow, with or without known times.
fn refused(reported: Option<crate::metrics::loss::Naks>) -> Vec<Finding> {
    use crate::metrics::loss::{FlowLoss, Loss, Metrics};
    use fixtures::{SECOND, START};
    let mut data = fixtures::stats(50_000, 1_000, 1_000_000);
    let mut answers = fixtures::stats(50_001, 1_000, 62_000);
    answers.psn.seen = 0;
    (answers.rare.rnr_naks, answers.rare.naks) = (10, [0, 0, 1, 0, 0, 0]);
    (data.last_ns, answers.last_ns) = (START + 20 * SECOND, START + 19 * SECOND);
    let flows = vec![
        (fixtures::key(0, "10.0.0.1", "10.0.0.2", 17), data),
        (fixtures::key(0, "10.0.0.2", "10.0.0.1", 18), answers),
    ];
    let mut sample = fixtures::sample(vec![fixtures::link("eth0", None)], flows);
    sample.window = Some((START, START + 20 * SECOND));
    let mut loss = Loss::default();
    let requests =
        Metrics { retransmitted: 400, last_retransmission_ns: START + 3 * SECOND, ..Metrics::default() };
    loss.flows.insert(0, FlowLoss { requests: Some(requests), ..FlowLoss::default() });
    loss.naks.extend(reported.map(|naks| (1, naks)));
    sample.metrics.loss = Some(loss);
    found(&sample, &Options::default())
}

/// Advice names only findings that were raised.
#[test]
fn advice_names_only_what_was_found() {
    let advice = |all: &[Finding], id: &str| all.iter().find(|one| one.id == id).unwrap().advice.clone();
    let all = refused(None);
    assert!(advice(&all, "retry.storm").starts_with("Likely cause: rnr.slow_receiver. Selective"));
    let mut sample = fixtures::everything();
    let all = found(&sample, &Options { imbalance_all_links: true, ..Options::default() });
    assert!(!all.iter().any(|one| one.id == "entropy.low"));
    assert!(!advice(&all, "links.imbalance").contains("entropy.low"));
    // Queue pairs that share a source port, and one link that carries them all.
    let stats = fixtures::stats(50_000, 100_000, 100_000_000);
    let key = |qp| fixtures::key(0, "10.0.0.1", "10.0.0.2", qp);
    sample = fixtures::sample(
        vec![fixtures::link("up0", None), fixtures::link("up1", None)],
        (1..9).map(|qp| (key(qp + 1), stats.clone())).collect(),
    );
    let groups = vec![vec!["up0".to_owned(), "up1".to_owned()]];
    let all = found(&sample, &Options { groups, ..Options::default() });
    assert!(advice(&all, "links.imbalance").starts_with("See entropy.low first. With few"));
}

#[test]
fn what_single_packets_say_was_seen_when_the_latest_passed() {
    use crate::metrics::loss::{NakTally, Naks};
    use fixtures::{SECOND, START};
    let mut reported = Naks { rnr: NakTally { count: 10, last_ns: START + 5 * SECOND }, ..Naks::default() };
    reported.codes[2] = NakTally { count: 1, last_ns: START + 11 * SECOND };
    let seen = |all: &[Finding], id: &str| {
        all.iter()
            .find(|finding| finding.id == id)
            .map(|finding| (finding.last_seen_ns.unwrap() - START) / SECOND)
    };
    let all = refused(Some(reported));
    let order: Vec<&str> = all.iter().filter(|f| f.is_problem()).map(|finding| finding.id).collect();
    assert_eq!(order, ["nak.remote_access_error", "retry.storm", "rnr.slow_receiver"]);
    assert_eq!(order.iter().map(|id| seen(&all, id)).collect::<Vec<_>>(), [Some(11), Some(3), Some(5)]);
    // A NAK without a known time may have been the latest: no later than the last packet of the flow.
    reported.rnr.count = 9;
    assert_eq!(seen(&refused(Some(reported)), "rnr.slow_receiver"), Some(19));
    assert_eq!(seen(&refused(None), "nak.remote_access_error"), Some(19));
}
