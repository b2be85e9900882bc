//! Settings of the host that are wrong, as `rocescope doctor` finds them, during a live run.

use super::{Entry, Family, Input, Raise};
use crate::findings::{Finding, Severity};
use crate::source::devices::Setting;

/// This family.
pub(super) const FAMILY: Family = Family {
    entries: &[LOSSLESS, ECN, SWITCH, PORT, PCIE, GPU, NCCL, HOST],
    limits: &[],
    evidence: &[],
    check,
};

/// What all of them share: a check of doctor is raised as what it is there.
macro_rules! entry {
    ($name:ident, $id:literal, $rank:literal, $title:literal, $meaning:literal, $checks:literal) => {
        const $name: Entry = Entry {
            id: $id,
            rank: $rank,
            title: $title,
            meaning: $meaning,
            computed: concat!(
                "Live, on interfaces with RDMA devices: the checks ",
                $checks,
                " of `rocescope doctor` (docs/doctor.md) that give a warning or worse on what is watched. Judged once, and again when the switch \
                 says something new over LLDP."
            ),
            advice: "The evidence names the setting, its value and how to change it; `rocescope doctor` shows it among all others.",
            caveat: "What cannot be read on this host is not judged.",
            ..Entry::EMPTY
        };
    };
}
entry!(
    LOSSLESS,
    "config.lossless",
    20,
    "A setting for lossless traffic is wrong",
    "PFC, global pause, trust, priorities and buffers have to agree, or RoCE is dropped under load although everything seems to work.",
    "qos.*, pfc.*, pause.*, cm.*, buffer.* and ring.*"
);
entry!(
    ECN,
    "config.ecn",
    40,
    "A setting for congestion control is wrong",
    "Without ECN on both sides, and CNPs in a class of their own, senders are not told to slow down, and PFC alone has to hold the traffic.",
    "ecn.* and cnp.*"
);
entry!(
    SWITCH,
    "config.switch",
    30,
    "Host and switch do not have the same settings",
    "A priority that is lossless on one side only is the classic fault: what one side pauses, the other does not obey.",
    "switch.*"
);
entry!(
    PORT,
    "config.port",
    50,
    "A port is not set up for RoCE",
    "State, addresses and MTU of the port decide whether RoCE works at all, can be routed, and how many packets it needs.",
    "device.*, port.*, entropy.* and counters.*"
);
entry!(
    PCIE,
    "config.pcie",
    60,
    "PCIe of the NIC is slower than its port",
    "A NIC that cannot write to memory as fast as packets arrive pauses the network, or drops.",
    "pcie.*"
);
entry!(
    GPU,
    "config.gpu",
    70,
    "GPU and NIC cannot work together as they could",
    "Data that does not go directly between GPU and NIC passes memory twice.",
    "gpu.* and gpudirect.*"
);
entry!(
    NCCL,
    "config.nccl",
    80,
    "A job's NCCL settings do not fit this host",
    "NCCL takes its devices, addresses and traffic class from its environment and from nccl.conf; what does not fit the host leaves RoCE unused, or outside of its class.",
    "nccl.*"
);
entry!(
    HOST,
    "config.host",
    90,
    "A setting of the host stands in the way",
    "Kernel and rights decide what rocescope can do, and at which cost.",
    "kernel.* and filters.*"
);

/// Which kind a check of doctor belongs to.
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
        let why = why.as_deref().map_or_else(String::new, |why| format!(": {why}"));
        let mut raise = Raise::new(kind(check), severity, format!("{subject}: {check} is {shown}{why}"))
            .evidence("check", *check)
            .evidence("of", subject.as_str())
            .evidence("value", value.clone());
        if let Some(change) = change {
            raise = raise.evidence("change", change.as_str()).advice(change);
        }
        raise.into(found);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::{Options, fixtures};
    use crate::findings::tests::found;
    use crate::source::devices::Devices;

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

    /// A check that is added to doctor has to be put somewhere on purpose.
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
