use std::sync::Arc;

use super::*;
use crate::analysis::{Options, fixtures};
use crate::entity::devices::SourceSample;
use crate::entity::lives::Lives;
use crate::findings::tests::{found, severity};
use crate::sample::Sample;

/// A sample with a device whose counters rose by this much in ten seconds.
fn counted(values: &[(&str, u64)]) -> Sample {
    let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let port = PortSample {
        window: Some((fixtures::START, fixtures::START + 10 * fixtures::SECOND)),
        counters: vec![SourceSample { source: "sysfs hw_counters", values, resets: 0 }],
        ..fixtures::port()
    };
    fixtures::with_lives(port, Lives::default())
}

#[test]
fn each_is_raised_when_it_must_and_not_before() {
    use Severity::{Critical, Info, Warning};
    const MANY: (&str, u64) = ("rx_packets", 1_000_000);
    for (id, values, expected) in [
        ("device.loss", &[MANY, ("out_of_sequence", 10)][..], Some(Warning)),
        ("device.loss", &[MANY, ("out_of_sequence", 9)], None),
        // One in a million.
        ("device.loss", &[("rx_packets", 1 << 34), ("out_of_sequence", 16_000)], None),
        ("device.loss", &[("local_ack_timeouts", 10)], Some(Warning)),
        ("device.loss", &[("retries_exceeded", 1)], Some(Critical)),
        ("device.congestion", &[MANY, ("ce_marked_packets", 10_000)], Some(Warning)),
        ("device.congestion", &[MANY, ("ce_marked_packets", 9_999)], Some(Info)),
        ("device.congestion", &[("cnps_handled", 9)], None),
        ("device.not_ready", &[("rnr_naks_sent", 5), ("out_of_buffer", 5)], Some(Warning)),
        ("device.not_ready", &[("rnr_naks_sent", 5)], None),
        ("device.not_ready", &[("rnr_retries_exceeded", 1)], Some(Critical)),
        ("device.discards", &[("port_discards", 10)], Some(Warning)),
        ("device.discards", &[("port_discards", 9)], None),
        ("device.link_errors", &[("fec_uncorrectable", 1)], Some(Warning)),
        ("device.link_errors", &[("fec_corrected", 1 << 40)], None),
        ("device.pcie_stalls", &[("pcie_read_stalls", 10_000)], Some(Info)),
        ("device.pcie_stalls", &[("pcie_read_stalls", 9_999)], None),
    ] {
        assert_eq!(severity(&counted(values), id), expected, "{id} {values:?}");
    }
}

#[test]
fn one_reading_says_nothing() {
    let mut sample = counted(&[("out_of_sequence", 1_000)]);
    let devices = Arc::make_mut(&mut sample.devices);
    devices.ports[0].window = Some((5, 5));
    assert_eq!(found(&sample, &Options::default()), []);
}

#[test]
fn discards_of_the_first_minute_have_ended_and_are_of_their_time() {
    use crate::entity::devices::{AtGrowth, Growth};
    let of_packets = |received| AtGrowth { packets: [received, 0], ..AtGrowth::default() };
    let at = |seconds: u64| fixtures::START + seconds * fixtures::SECOND;
    let mut sample = counted(&[("rx_packets", 1_000_000), ("out_of_sequence", 30), ("port_discards", 12)]);
    sample.window = Some((at(0), at(600)));
    let port = &mut Arc::make_mut(&mut sample.devices).ports[0];
    let grown = |from, to, count, before, after| Growth {
        first_ns: at(from),
        last_ns: at(to),
        count,
        at_first: of_packets(before),
        at_last: of_packets(after),
    };
    port.growth = vec![
        ("out_of_sequence".to_owned(), vec![grown(10, 12, 10, 0, 1_000), grown(598, 600, 20, 9_000, 10_000)]),
        ("port_discards".to_owned(), vec![grown(10, 12, 12, 0, 1_000)]),
    ];
    let all = found(&sample, &Options::default());
    let of = |id: &str| all.iter().find(|finding| finding.id == id).unwrap();
    let (loss, discards) = (of("device.loss"), of("device.discards"));
    assert_eq!(loss.evidence.get("ratio").unwrap().value, 0.02, "20 of the 1,000 packets meanwhile");
    assert_eq!((loss.active, loss.episodes.len()), (true, 2));
    assert_eq!((discards.active, discards.last_seen_ns), (false, Some(at(12))));
}
