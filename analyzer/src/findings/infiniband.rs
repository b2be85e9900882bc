//! Adapts findings to InfiniBand: replaces steps that only apply to Ethernet, and renames marks.

use super::finding::{Evidence, Step};
use super::title::title;
use super::{Entry, Finding};

/// Words of steps that do not apply to InfiniBand, which has credits instead of pauses and service levels instead of
/// DSCPs.
const OF_ETHERNET: [&str; 8] = ["PFC", "DSCP", "NCCL_IB_TC", "802.1p", "VLAN", "4791", "MAC table", "ARP"];

/// Terms that InfiniBand names differently.
const NAMES: [(&str, &str); 5] = [
    ("CE-marked", "FECN-marked"),
    ("ECN congestion", "FECN congestion"),
    ("CE marks", "FECN marks"),
    ("CE marking", "FECN marking"),
    ("CE ratio", "FECN ratio"),
];

impl Entry {
    /// [`Entry::text`] for InfiniBand, without sentences that only apply to Ethernet.
    #[must_use]
    pub fn text_on_infiniband(&self) -> String {
        adapted(&self.text())
    }
}

fn named(text: &str) -> String {
    NAMES.iter().fold(text.to_owned(), |text, (there, here)| text.replace(there, here))
}

fn is_of_ethernet(text: &str) -> bool {
    OF_ETHERNET.iter().any(|word| text.contains(word))
}

/// Replaces the Ethernet steps by one about the counters of InfiniBand, and removes other texts that only apply to
/// Ethernet.
pub(super) fn adapt(found: &mut [Finding]) {
    for finding in found {
        finding.title = title(named(&finding.title), []);
        let sentences = finding.advice.split_inclusive(". ").filter(|one| !is_of_ethernet(one));
        finding.advice = named(sentences.collect::<String>().trim_end());
        finding.caveats.retain(|caveat| !is_of_ethernet(caveat));
        finding.caveats = finding.caveats.iter().map(|caveat| named(caveat)).collect();
        let renamed: Vec<Evidence> = finding
            .evidence
            .iter()
            .filter(|one| named(&one.label) != one.label)
            .map(|one| Evidence { label: named(&one.label), ..one.clone() })
            .collect();
        for one in renamed {
            finding.evidence.insert(one);
        }
        let before = finding.steps.len();
        finding.steps.retain(|step| !is_of_ethernet(&step.text));
        for step in &mut finding.steps {
            step.text = named(&step.text);
        }
        if finding.steps.len() < before {
            finding.steps.push(Step {
                text: "Check the error and congestion counters of each port on the path (perfquery -x: SymbolErrorCounter, \
                       PortRcvErrors, PortXmitDiscards, PortXmitWait), and the mapping of service levels to virtual lanes."
                    .to_owned(),
                command: None,
                host: None,
            });
        }
    }
}

/// The text of an entry with InfiniBand's terms, without sentences that only apply to Ethernet.
pub(super) fn adapted(text: &str) -> String {
    let line = |line: &str| {
        // A label stays with the remaining sentences.
        const LABELS: [&str; 3] = ["How it is computed", "What to do", "Caveats"];
        let labelled = line.split_once(": ").filter(|(label, _)| LABELS.contains(label));
        let (label, rest) = labelled.unwrap_or(("", line));
        let sentences: String = rest.split_inclusive(". ").filter(|one| !is_of_ethernet(one)).collect();
        match (label, sentences.trim_end()) {
            ("", rest) => named(rest),
            (_, "") => String::new(),
            (label, rest) => named(&format!("{label}: {rest}")),
        }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Severity;

    #[test]
    fn steps_of_ethernet_make_room_for_one_of_infiniband() {
        let step = |text: &str| Step { text: text.to_owned(), command: None, host: None };
        let mut found = [Finding::new("loss.before_tap", Severity::Warning, String::new())];
        found[0].title = "ECN congestion towards lid:0x0011: 7.0 % CE-marked".to_owned();
        found[0].advice = "Look for drops. A lossless fabric needs PFC at every hop.".to_owned();
        found[0].steps = vec![
            step("Check the drop, discard and FEC counters."),
            step("Check that PFC is enabled."),
            step("Check trust mode and DSCP-to-priority mapping (NCCL_IB_TC sets the DSCP)."),
        ];
        adapt(&mut found);
        let texts: Vec<&str> = found[0].steps.iter().map(|step| step.text.as_str()).collect();
        assert!(!found[0].advice.contains("PFC"));
        assert_eq!((texts.len(), texts[0]), (2, "Check the drop, discard and FEC counters."));
        assert!(texts[1].contains("PortXmitWait"));
        assert_eq!(found[0].title, "FECN congestion towards lid:0x0011: 7.0 % FECN-marked");
        assert_eq!(found[0].advice, "Look for drops.");
        let once = found[0].steps.clone();
        adapt(&mut found);
        assert_eq!(found[0].steps, once);
    }

    #[test]
    fn no_explanation_names_what_infiniband_does_not_have() {
        for entry in crate::findings::entries().filter(|entry| !entry.id.starts_with("pfc.")) {
            let text = entry.text_on_infiniband();
            assert!(!is_of_ethernet(&text), "{}: {text}", entry.id);
            assert!(text.starts_with(&named(entry.title)) || is_of_ethernet(entry.title), "{text}");
        }
        let text = crate::findings::entry("loss.before_tap").map(super::super::Entry::text_on_infiniband);
        assert!(text.is_some_and(|text| text.contains("What to do: Look between the sender and this tap")));
    }
}
