//! What holds for all findings.

use std::collections::HashSet;

use super::*;

#[test]
fn ids_are_unique_and_texts_complete() {
    let mut seen = HashSet::new();
    for entry in entries() {
        assert!(seen.insert(entry.id), "{} is there twice", entry.id);
        for text in [entry.title, entry.meaning, entry.computed, entry.advice] {
            assert!(text.len() > 10, "{}: says nothing", entry.id);
            assert!(!text.contains("  "), "{}: two blanks in a row", entry.id);
        }
    }
}

/// The documented defaults are those of the code, and every threshold is documented.
#[test]
fn documented_limits_are_the_defaults() {
    let mut tables: std::collections::BTreeMap<&str, String> = std::collections::BTreeMap::new();
    for limit in limits() {
        let (family, name) = limit.name.split_once('.').unwrap();
        tables.entry(family).or_default().push_str(&format!("{name} = {}\n", limit.default));
    }
    let text: String = tables.iter().map(|(family, fields)| format!("[{family}]\n{fields}")).collect();
    let documented: Limits = toml::from_str(&text).unwrap();
    assert_eq!(documented, Limits::default());
    let fields = format!("{:?}", Limits::default()).matches(": ").count();
    let families = format!("{:?}", Limits::default()).matches("Limits {").count() - 1;
    assert_eq!(fields - families, limits().count(), "a threshold without a word about it");
}

#[test]
fn the_document_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/findings.md");
    if std::env::var_os("ROCESCOPE_BLESS").is_some() {
        std::fs::write(path, markdown()).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(path).unwrap_or_default(),
        markdown(),
        "ROCESCOPE_BLESS=1 rewrites it"
    );
}

/// A report in which a job of 100 ms steps waits for 10.0.0.3, changed by `change`.
pub(super) fn with_steps(change: impl FnOnce(&mut crate::report::traffic::Steps)) -> Report {
    let mut steps = crate::report::traffic::example_steps(std::net::IpAddr::from([10, 0, 0, 3]), None);
    change(&mut steps);
    let mut report =
        Report::build(&crate::report::fixtures::everything(), &crate::report::Options::default());
    report.steps = Some(steps);
    report
}

/// The finding of this id on a report, if it is raised.
pub(super) fn found(report: &Report, id: &str) -> Option<Finding> {
    let (sample, limits) = (crate::report::fixtures::everything(), Limits::default());
    check(&Input { sample: &sample, report, limits: &limits }).into_iter().find(|finding| finding.id == id)
}
