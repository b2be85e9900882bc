//! What findings say on Ethernet alone, and what InfiniBand calls otherwise.
//!
//! Steps carry their fabric. In the texts of an [`Entry`], sentences between `<eth>` and `</eth>` hold for Ethernet.

use std::borrow::Cow;

use super::catalog::entry;
use super::finding::{Evidence, Step};
use super::{Entry, Finding};
use crate::analysis::Facts;

/// The fabrics for which something holds. InfiniBand has credits instead of pauses, and service levels instead of
/// DSCPs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fabric {
    /// Every fabric.
    #[default]
    Any,
    /// Ethernet alone.
    Ethernet,
}

/// The words for congestion marks on the fabric of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    /// Of a packet.
    pub(super) ce: &'static str,
    /// Of the mechanism.
    pub(super) ecn: &'static str,
}

impl Marks {
    pub(super) fn of(facts: &Facts) -> Self {
        let ecn = if facts.is_infiniband() { "FECN" } else { "ECN" };
        Self { ce: facts.mark(), ecn }
    }
}

/// Terms of the texts of entries and labels that InfiniBand names differently.
const NAMES: [(&str, &str); 5] = [
    ("CE-marked", "FECN-marked"),
    ("ECN congestion", "FECN congestion"),
    ("CE marks", "FECN marks"),
    ("CE marking", "FECN marking"),
    ("CE ratio", "FECN ratio"),
];

const OPEN: &str = "<eth>";
const CLOSE: &str = "</eth>";

/// A text of an entry on Ethernet: all sentences.
pub(super) fn on_ethernet(text: &str) -> Cow<'_, str> {
    if text.contains(OPEN) { text.replace(OPEN, "").replace(CLOSE, "").into() } else { text.into() }
}

/// A text of an entry on InfiniBand, without the sentences that hold for Ethernet alone.
fn on_infiniband(text: &str) -> String {
    let mut parts = text.split(OPEN);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for (_, after) in parts.filter_map(|part| part.split_once(CLOSE)) {
        // The blank between two sentences goes with the one that is left out.
        let joined = kept.is_empty() || kept.ends_with([' ', '\n']);
        kept.push_str(if joined { after.trim_start_matches(' ') } else { after });
    }
    named(kept.trim_end())
}

fn named(text: &str) -> String {
    NAMES.iter().fold(text.to_owned(), |text, (there, here)| text.replace(there, here))
}

impl Entry {
    /// [`Entry::text`] for InfiniBand, without sentences that only hold for Ethernet.
    pub fn text_on_infiniband(&self) -> String {
        named(&self.text_with(|text| on_infiniband(text).into()))
    }
}

/// Says what holds for the fabric: on InfiniBand, one step about its counters replaces those of Ethernet.
pub(super) fn adapt(found: &mut [Finding], infiniband: bool) {
    for finding in found {
        if infiniband {
            on_infiniband_only(finding);
        } else {
            finding.advice = on_ethernet(&finding.advice).into_owned();
            finding.caveats.iter_mut().for_each(|caveat| *caveat = on_ethernet(caveat).into_owned());
        }
    }
}

fn on_infiniband_only(finding: &mut Finding) {
    finding.advice = on_infiniband(&finding.advice);
    if let Some(kind) = entry(finding.id) {
        for caveat in finding.caveats.iter_mut().filter(|caveat| *caveat == kind.caveat) {
            *caveat = on_infiniband(caveat);
        }
        finding.caveats.retain(|caveat| !caveat.is_empty());
    }
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
    finding.steps.retain(|step| step.fabric == Fabric::Any);
    if finding.steps.len() < before {
        finding.steps.push(Step {
            text: "Check the error and congestion counters of each port on the path (perfquery -x: SymbolErrorCounter, \
                   PortRcvErrors, PortXmitDiscards, PortXmitWait), and the mapping of service levels to virtual lanes."
                .to_owned(),
            ..Step::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Severity;

    #[test]
    fn steps_of_ethernet_make_room_for_one_of_infiniband() {
        let step = |text: &str, fabric| Step { text: text.to_owned(), fabric, ..Step::default() };
        let mut found = [Finding::new("loss.before_tap", Severity::Warning, String::new())];
        found[0].advice = "Look for drops. <eth>A lossless fabric needs PFC at every hop.</eth>".to_owned();
        found[0].steps = vec![
            // A name that a user chose says nothing about the fabric.
            step("Check the drop, discard and FEC counters of ARP.erf.", Fabric::Any),
            step("Check that PFC is enabled.", Fabric::Ethernet),
            step("Check trust mode.", Fabric::Ethernet),
        ];
        let mut on_ethernet = found.clone();
        adapt(&mut on_ethernet, false);
        assert_eq!(on_ethernet[0].advice, "Look for drops. A lossless fabric needs PFC at every hop.");
        assert_eq!(on_ethernet[0].steps, found[0].steps);
        adapt(&mut found, true);
        let texts: Vec<&str> = found[0].steps.iter().map(|step| step.text.as_str()).collect();
        assert_eq!((texts.len(), texts[0]), (2, "Check the drop, discard and FEC counters of ARP.erf."));
        assert!(texts[1].contains("PortXmitWait"));
        assert_eq!(found[0].advice, "Look for drops.");
        let once = found[0].steps.clone();
        adapt(&mut found, true);
        assert_eq!(found[0].steps, once);
    }

    #[test]
    fn sentences_of_ethernet_go_with_one_blank() {
        for (text, left) in [
            ("<eth>A.</eth> B. <eth>C.</eth> D.", "B. D."),
            ("A. <eth>B. C.</eth>", "A."),
            ("<eth>A.</eth>", ""),
            ("A.\n\n<eth>B.</eth> C.", "A.\n\nC."),
        ] {
            assert_eq!(on_infiniband(text), left);
        }
    }

    /// What findings on InfiniBand say is about it. Pauses, settings of NICs and subnets of IP are not found there.
    #[test]
    fn no_explanation_names_what_infiniband_does_not_have() {
        const OF_ETHERNET: [&str; 8] =
            ["PFC", "DSCP", "NCCL_IB_TC", "802.1p", "VLAN", "4791", "MAC table", "ARP"];
        const ELSEWHERE: [&str; 8] =
            ["pfc.", "qos.", "config.", "device.", "qp_context.", "qp.", "path.", "isolation."];
        for entry in crate::findings::entries() {
            let text = entry.text_on_infiniband();
            assert!(!text.contains(OPEN) && !entry.text().contains(OPEN), "{text}");
            assert!(!text.contains(" CE-marked"), "{text}");
            if !ELSEWHERE.iter().any(|family| entry.id.starts_with(family)) {
                let word = OF_ETHERNET.iter().find(|word| text.contains(**word));
                assert_eq!(word, None, "{}: {text}", entry.id);
            }
        }
        let text = crate::findings::entry("loss.before_tap").map(Entry::text_on_infiniband);
        assert!(text.is_some_and(|text| text.contains("What to do: Look between the sender and this tap")));
    }
}
