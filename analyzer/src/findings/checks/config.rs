//! Misconfigured host settings, from the checks of `rocescope doctor`, during a live run.

use crate::entity::devices::Setting;
use crate::findings::ids;
use crate::findings::title::title;
use crate::findings::{ByHand, Entry, Family, Finding, Input, NoEpisodes, Place, Problem, Raise, Severity};

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[LOSSLESS, ECN, SWITCH, PORT, PCIE, GPU, NCCL, HOST],
    limits: &[],
    evidence: &[],
    check,
};

/// Declares an entry for checks of doctor, raised with the severity that doctor assigns.
macro_rules! entry {
    ($name:ident, $id:expr, $rank:literal, $title:literal, $meaning:literal, $checks:literal) => {
        pub(super) const $name: Entry = Entry {
            id: $id,
            rank: $rank,
            title: $title,
            meaning: $meaning,
            computed: concat!(
                "Live, on interfaces with RDMA devices: the checks ",
                $checks,
                " of `rocescope doctor` that result in a warning or worse for the monitored interfaces. Evaluated once, and again \
                 when LLDP information of the switch changes."
            ),
            advice: "Change the setting as the evidence states; `rocescope doctor` lists all settings.",
            caveat: "Settings that cannot be read on this host are not checked.",
            lasting: Some(NoEpisodes::Setting),
            ..Entry::of(Problem::Settings)
        };
    };
}
entry!(
    LOSSLESS,
    ids::CONFIG_LOSSLESS,
    20,
    "Lossless configuration error",
    "PFC, global pause, trust mode, priorities and buffers must be consistent; otherwise RoCE packets are dropped under load.",
    "qos.*, pfc.*, pause.*, cm.*, buffer.* and ring.*"
);
entry!(
    ECN,
    "config.ecn",
    40,
    "Congestion control misconfigured",
    "Without ECN on both sides, and CNPs in a traffic class of their own, senders do not reduce their rate, and only PFC limits the traffic.",
    "ecn.* and cnp.*"
);
entry!(
    SWITCH,
    "config.switch",
    30,
    "Host and switch configuration mismatch",
    "A priority that is lossless on one side only is the classic fault: one side sends pauses that the other does not obey.",
    "switch.*"
);
entry!(
    PORT,
    "config.port",
    50,
    "Port not configured for RoCE",
    "State, addresses and MTU of the port determine whether RoCE works, whether it can be routed, and its packet rate.",
    "device.*, port.*, entropy.* and counters.*"
);
entry!(
    PCIE,
    "config.pcie",
    60,
    "PCIe slower than the NIC port",
    "A NIC that cannot write to memory at line rate pauses its neighbour, or drops packets.",
    "pcie.*"
);
entry!(
    GPU,
    "config.gpu",
    70,
    "GPUDirect RDMA not available or slow",
    "Data that does not move directly between GPU and NIC crosses host memory twice.",
    "gpu.* and gpudirect.*"
);
entry!(
    NCCL,
    "config.nccl",
    80,
    "NCCL settings do not match this host",
    "NCCL takes its devices, addresses and traffic class from its environment and from nccl.conf; settings that do not match the host leave RoCE unused, or in the wrong traffic class.",
    "nccl.*"
);
entry!(
    HOST,
    "config.host",
    90,
    "Host settings limit rocescope",
    "Kernel features and capabilities determine what rocescope can measure, and its overhead.",
    "kernel.* and filters.*"
);

/// The kind of finding for a check of doctor.
fn kind(check: &str) -> &'static Entry {
    match check.split('.').next().unwrap_or_default() {
        "ecn" | "cnp" => &ECN,
        "switch" => &SWITCH,
        "device" | "port" | "entropy" | "counters" => &PORT,
        "pcie" => &PCIE,
        "gpu" | "gpudirect" => &GPU,
        "nccl" => &NCCL,
        "kernel" | "filters" => &HOST,
        _ => &LOSSLESS,
    }
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    for Setting { check, subject, critical, value, why, change } in &input.sample.devices.settings {
        let severity = if *critical { Severity::Critical } else { Severity::Warning };
        let shown = value.as_deref().unwrap_or("unknown");
        let reason = why.as_deref().map_or_else(String::new, |why| format!(": {why}"));
        let title = title(format!("{subject}: {check} is {shown}"), [reason]);
        let mut raise = Raise::new(kind(check), severity, title)
            .evidence("check", *check)
            .of(input, subject)
            .evidence("value", value.clone());
        if let Some(change) = change {
            raise = raise
                .evidence("change", change.as_str())
                .advice(change)
                .step(change.as_str(), ByHand::Varies);
        }
        if let Some(why) = why {
            raise = raise.evidence("reason", why.as_str());
        }
        if let Some(link) = input.facts.links.iter().find(|link| link.name == *subject) {
            raise = raise.place(Place::link(input, &link.name, None));
        }
        raise.into(found);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::{Options, fixtures};
    use crate::entity::devices::Devices;
    use crate::findings::tests::found;

    #[test]
    fn what_doctor_finds_is_among_the_findings() {
        let mut sample = fixtures::sample(vec![fixtures::link("eth0", None)], Vec::new());
        assert!(found(&sample, &Options::default()).iter().all(|finding| !finding.id.starts_with("config.")));
        let setting = |check, critical| Setting {
            check,
            subject: "eth0".into(),
            critical,
            value: Some("pcp".into()),
            why: Some("packets miss their class".into()),
            change: Some("mlnx_qos -i eth0 --trust dscp".into()),
        };
        let settings = vec![setting("qos.trust", false), setting("switch.pfc", true)];
        sample.devices = Arc::new(Devices { settings, ..Devices::default() });
        let found = found(&sample, &Options::default());
        let of = |id: &str| found.iter().find(|finding| finding.id == id).unwrap();
        assert_eq!(of("config.switch").severity, Severity::Critical);
        let trust = of("config.lossless");
        assert_eq!(trust.severity, Severity::Warning);
        assert_eq!(trust.title, "eth0: qos.trust is pcp: packets miss their class");
        assert_eq!(trust.advice, "mlnx_qos -i eth0 --trust dscp");
    }

    /// A new check of doctor must be assigned to a kind explicitly.
    #[cfg(target_os = "linux")]
    #[test]
    fn every_check_of_doctor_has_a_kind() {
        let known = ["qos", "pfc", "pause", "cm", "buffer", "ring"];
        for entry in crate::doctor::check::catalog() {
            let family = entry.id.split('.').next().unwrap();
            assert!(kind(entry.id).id != LOSSLESS.id || known.contains(&family), "{}", entry.id);
        }
    }
}
