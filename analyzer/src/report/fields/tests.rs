use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::{EVENTS, all, markdown};
use crate::analysis::fixtures::{compare, everything};
use crate::analysis::{
    CeOverTime, Cnp, Coverage, DelayChange, DelayPoint, Device, DeviceQp, DeviceQpCounters, EcnOverTime,
    Episodes, FlowId, Icrc, LastNaks, Latency, LatencyByClass, Loss, Options, Pause, TapFlow, Unfollowed,
    Untimed,
};
use crate::findings::{End, Episode, Evidence, Finding, Impact, Place, Severity, Step};
use crate::metrics::marking::Marked;
use crate::report::Report;
use crate::sample::Direction;
use crate::source::net::lldp::{self, Neighbour};

/// Maps whose keys are data; the table has one entry for all of them.
const MAPS: [(&str, &str); 4] = [
    ("totals.skipped", "<reason>"),
    ("devices[].counters", "<name>"),
    ("devices[].qp_counters[].counters", "<name>"),
    ("findings[].evidence", "<name>"),
];

/// What went wrong with a flow, nothing of it null.
fn trouble() -> (Loss, LastNaks) {
    let known = Some(1);
    let episodes =
        Episodes { episodes: 1, longest_ns: known, largest: known, first_ns: known, last_ns: known };
    let loss = Loss {
        retransmission: Some("go_back_n"),
        before_tap: episodes,
        after_tap: episodes,
        last_again_ns: known,
        ..Loss::default()
    };
    let last_naks = LastNaks {
        rnr: known,
        psn_sequence_error: known,
        invalid_request: known,
        remote_access_error: known,
        remote_operational_error: known,
    };
    (loss, last_naks)
}

/// A report in which nothing is null or empty.
fn full() -> Report {
    let mut sample = everything();
    sample.capture_drops = Some(1);
    sample.metrics.marking = Some(vec![[Marked { data_packets: 1, ..Marked::default() }; 64]]);
    let rails = ["eth0", "eth1"].map(|link| (link.to_owned(), format!("rail of {link}")));
    let options =
        Options { imbalance_all_links: true, ecmp: Some(4), rails: rails.into(), ..Options::default() };
    let mut report = Report::build(&sample, &options.into());
    crate::analysis::traffic::example(&mut report);
    report.facts.source.filter = Some("qp 17".into());
    let flow = &mut report.facts.flows[0];
    let latency = Some(Latency::default());
    flow.latency_ns = latency;
    flow.latency_by_class = Some(LatencyByClass { write_send: latency, read: latency, atomic: latency });
    (flow.latency_unpaired, flow.latency_untimed) = (Some(1), Some(Untimed::default()));
    (flow.pid, flow.comm, flow.pod) = (Some(1), Some("train".into()), Some("trainer-0".into()));
    flow.ce_over_time = Some(CeOverTime { capable: vec![1], ce: vec![1], ..CeOverTime::default() });
    let id = FlowId {
        link: flow.link.clone(),
        direction: flow.direction,
        src: flow.src,
        dst: flow.dst,
        dest_qp: flow.dest_qp,
    };
    flow.cnp = Some(Cnp {
        answers: Some(id.clone()),
        per_second: Some(1.0),
        min_interval_ns: Some(1),
        delay_ns: latency,
        without_ce: Some(1),
        rate_before_bps: Some(1),
        rate_after_bps: Some(1),
        rate_window_ns: Some(1),
        rate_samples: Some(1),
    });
    let column = || vec![1];
    report.facts.links[0].ecn_over_time =
        Some(EcnOverTime { start_ns: 1, bin_ns: 1, capable: column(), ce: column(), cnp: column() });
    report.facts.totals.lost.ecn_untracked = Some(1);
    report.facts.totals.lost.pause_untracked = Some(1);
    let (loss, last_naks) = trouble();
    let flow = &mut report.facts.flows[0];
    (flow.loss, flow.loss_responses, flow.icrc) = (Some(loss), Some(loss), Some(Icrc::default()));
    flow.loss_unfollowed = Some(Unfollowed::default());
    flow.last_naks_ns = Some(last_naks);
    report.facts.links[0].icrc = Some(Icrc::default());
    report.facts.taps = vec![TapFlow {
        src: id.src,
        dst: id.dst,
        dest_qp: id.dest_qp,
        links: ["eth0".into(), "eth1".into()],
        from: Some("eth0".into()),
        to: Some("eth1".into()),
        packets_matched: 1,
        vanished: Some(1),
        only_at: [1, 0],
        copies_at: [0, 1],
        not_compared: [Some(2), None],
        delay_change_ns: DelayChange {
            min: 0,
            max: 1,
            drift: 1,
            points: vec![DelayPoint { time_ns: 1, change_ns: 0 }],
        },
    }];
    report.facts.devices.push(Device {
        name: "mlx5_0".into(),
        port: Some(1),
        source: "RDMA netlink".into(),
        counters: [("ce_marked_packets".to_owned(), 4)].into(),
        pause: vec![Pause::default()],
        qps: vec![DeviceQp::default()],
        qp_counters: vec![DeviceQpCounters {
            lqpns: vec![17],
            counters: [("cnps_handled".to_owned(), 4)].into(),
        }],
        ..Device::default()
    });
    report.facts.coverage = vec![Coverage::default()];
    report.facts.links[0].pause = Some(vec![Pause::default()]);
    report.facts.links[0].neighbours = vec![Neighbour {
        pfc: Some(lldp::Pfc { enabled: 8, capable: 8, willing: true, error: false }),
        ets: Some(lldp::Ets { class_of: [0; 8], bandwidth: [0; 8], willing: false }),
        apps: vec![lldp::App { selector: 5, protocol: 26, priorities: 8 }],
        ..Neighbour::default()
    }];
    let mut finding = Finding::new("gaps", Severity::Warning, "Packets are lost".into());
    finding.evidence.insert(Evidence::named("gaps", 37.into()));
    finding.flows.push(id);
    finding.episodes.push(Episode { first_ns: 1, last_ns: 1, peak: Some(1.0) });
    let place = Some("eth0".to_owned());
    finding.place = Place {
        tap: place.clone(),
        link: place.clone(),
        direction: Some(Direction::Ingress),
        hop: place.clone(),
        switch_port: place.clone(),
    };
    let end = End {
        addr: [10, 0, 0, 1].into(),
        qpn: Some(1),
        pid: Some(1),
        comm: place.clone(),
        pod: place.clone(),
    };
    (finding.requester, finding.responder) = (Some(end.clone()), Some(end));
    (finding.causes, finding.effects) = (vec!["retry.storm"], vec!["retry.storm"]);
    finding.steps.push(Step { text: "Look at the switch.".into(), command: place });
    finding.caveats.push("Mind the gap.".into());
    finding.impact = Impact {
        packets_ratio: Some(0.1),
        retransmissions: Some(1),
        goodput_lost_bytes: Some(1),
        time_lost_ns: Some(1),
    };
    (finding.advice, finding.first_seen_ns) = ("Look at the switch.".into(), Some(1));
    report.findings.push(finding);
    report
}

/// The names of all values in `value`, and whether each was ever null.
fn names(value: &Value, at: &str, found: &mut BTreeSet<(String, bool)>) {
    match value {
        Value::Object(fields) => {
            // Objects that may be null are fields themselves.
            found.insert((at.to_owned(), false));
            let any = MAPS.iter().find(|(map, _)| *map == at).map(|(_, key)| *key);
            for (key, value) in fields {
                let key = any.unwrap_or(key);
                let path = if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
                names(value, &path, found);
            }
        }
        Value::Array(elements) => {
            // A list that may be null is a field itself.
            found.insert((at.to_owned(), false));
            // Evidence may be a list of numbers, which is a field like any other.
            if at == "findings[].evidence.<name>" {
                return;
            }
            for element in elements {
                names(element, &format!("{at}[]"), found);
            }
        }
        other => {
            found.insert((at.to_owned(), other.is_null()));
        }
    }
}

#[test]
fn every_field_is_documented_and_every_documented_field_exists() {
    let mut found = BTreeSet::new();
    names(&serde_json::to_value(full()).unwrap(), "", &mut found);
    let containers: BTreeSet<String> = found
        .iter()
        .filter(|(name, _)| {
            found.iter().any(|(other, _)| {
                other.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with(['.', '[']))
            })
        })
        .map(|(name, _)| name.clone())
        .chain([String::new()])
        .collect();
    for (name, null) in &found {
        match all().find(|field| field.name == name) {
            Some(field) => assert!(!null || !field.null.is_empty(), "{name} may be null: say when"),
            None => assert!(containers.contains(name) && !null, "{name} is not documented"),
        }
    }
    let mut seen = BTreeSet::new();
    for field in all() {
        assert!(found.iter().any(|(name, _)| name == field.name), "{} does not exist", field.name);
        assert!(seen.insert(field.name), "{} is there twice", field.name);
    }
}

#[test]
fn every_event_has_a_name() {
    let bits = EVENTS.iter().fold(0, |bits, (bit, _, _)| bits | bit);
    assert_eq!((bits, EVENTS.len()), (0xFF, 8));
}

#[test]
fn metrics_page_is_made_from_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    compare(&path, &markdown());
}
