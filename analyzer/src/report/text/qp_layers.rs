//! Layers of what is known of queue pairs that were not available in this run, each with the reason.

use super::devices::{missed, sampling};
use crate::analysis::{QpContexts, QpLives};
use crate::report::Report;
use crate::util::layout::plain;
use crate::util::units::{self, plural};

/// A sentence for each layer that was not available, or not completely; empty without RDMA devices.
pub(crate) fn qp_layers(report: &Report) -> Vec<String> {
    let facts = &report.facts;
    let mut said = Vec::new();
    if let Some(lives) = &facts.qp_lives {
        said.extend(missed(lives));
        said.extend(lives.not_listed().map(|one| plain(&one)));
        let has_mlx5 = facts.devices.iter().any(|device| device.driver.as_deref() == Some("mlx5_ib"));
        said.extend(devx(lives).filter(|_| has_mlx5));
    }
    let has_qps = facts.devices.iter().any(|device| !device.qps.is_empty());
    match &facts.qp_context {
        Some(contexts) => said.extend(unread(contexts)),
        None if has_qps && !facts.is_recording() => {
            said.push("QP context of the NIC not read: --qp-queries is 0".to_owned());
        }
        None => {}
    }
    said.extend(facts.post_sampling.as_ref().filter(|posts| posts.unavailable.is_some()).map(sampling));
    for (why, qps) in facts.qp_paths.iter().flat_map(|paths| &paths.unknown) {
        said.push(format!(
            "5-tuple of {} without packets unknown: {}",
            plural(*qps, "queue pair"),
            plain(why)
        ));
    }
    let left_out: u64 = facts.devices.iter().map(|device| device.qps_left_out).sum();
    if left_out > 0 {
        said.push(format!("{} of NICs not listed: no room", plural(left_out, "queue pair")));
    }
    said
}

/// Queue pairs that are made past the verbs; `None` where the whole control path is missing.
fn devx(lives: &QpLives) -> Option<String> {
    let why = lives.devx_unavailable.as_ref().filter(|_| lives.unavailable.is_none())?;
    Some(format!("Queue pairs made past the verbs (DEVX) not followed: {}", plain(why)))
}

/// Contexts that were not read, or not decoded.
fn unread(contexts: &QpContexts) -> Vec<String> {
    let refused =
        contexts.refused.iter().map(|why| format!("QP context of the NIC not read: {}", plain(why)));
    let undecoded = contexts
        .undecoded
        .iter()
        .map(|of| format!("QP context of the NIC not decoded: {}: {}", plain(&of.device), plain(&of.reason)));
    let mut said: Vec<String> = refused.chain(undecoded).collect();
    if contexts.queried < contexts.of {
        said.push(format!(
            "QP context of the NIC read of {} of {} connected queue pairs (at most {} queries/s)",
            units::count(contexts.queried),
            units::count(contexts.of),
            contexts.at_most
        ));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::{port, qp_life, with_lives};
    use crate::entity::lives::Lives;
    use crate::report::{Options, schema};
    use crate::sample::Sample;

    #[test]
    fn every_layer_that_is_missing_has_its_reason() {
        let mut report = schema::full::full();
        let said = qp_layers(&report).join("\n");
        for part in [
            "Control path of queue pairs not available: no kprobes; until then incomplete (",
            "mlx5_0 did not list its queue pairs (Input/output error): shown as last known; see dmesg and `rdma",
            "QP context of the NIC not read: rxe0: no context",
            "QP context of the NIC not decoded: bnxt_re0: its layout has no public definition",
            "QP context of the NIC read of 1 of 2 connected queue pairs (at most 50 queries/s)",
            "Posted work not sampled: no uprobes",
            "5-tuple of 1 queue pair without packets unknown: its source address was not seen",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!said.contains("(DEVX)"), "the whole control path is missing: {said}");
        report.facts.qp_lives.as_mut().unwrap().unavailable = None;
        let said = qp_layers(&report).join("\n");
        for part in ["(DEVX) not followed: the module mlx5_core is not loaded", "1 call without its result"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn nothing_is_missing_without_devices_and_contexts_that_are_off_are_named() {
        assert_eq!(qp_layers(&Report::build(&Sample::default(), &Options::default())), [""; 0]);
        let lives = Lives { qps: vec![qp_life(7, 8)].into(), ..Lives::default() };
        let said = qp_layers(&Report::build(&with_lives(port(), lives), &Options::default()));
        assert!(said.contains(&"QP context of the NIC not read: --qp-queries is 0".to_owned()), "{said:?}");
    }
}
