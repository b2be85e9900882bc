//! A report with every field of this family.

use super::*;

/// A report with every field of this family, for the test of their documentation.
#[expect(clippy::too_many_lines, reason = "literals with all fields of the traffic analysis")]
pub(crate) fn example(report: &mut crate::report::Report) {
    let host: Address = std::net::Ipv4Addr::new(10, 0, 0, 3).into();
    let direction = Some(Direction::Ingress);
    for link in &mut report.facts.links {
        link.frame_sizes = Some(vec![
            FrameSize { up_to_bytes: Some(60), frames: 1 },
            FrameSize { up_to_bytes: None, frames: 1 },
        ]);
    }
    for group in &mut report.facts.imbalance {
        group.over_time = Some(crate::analysis::OverTime {
            window_ns: 128_000_000,
            windows: 1,
            max_over_mean_p50: 1.0,
            max_over_mean_max: 1.0,
            worst_ns: 1,
        });
        group.ways = Some(vec![crate::analysis::DirectionBalance {
            sources: vec![host],
            bytes: vec![1, 1],
            packets: 2,
            max_over_mean: Some(1.0),
            jain: Some(1.0),
        }]);
    }
    report.facts.bursts = Some(vec![Burst {
        link: "eth0".into(),
        direction,
        bin_ns: 1_000_000,
        bins: 2,
        active_bins: 1,
        duty_cycle: 0.5,
        mean_bytes: 1.0,
        peak_bytes: 2,
        peak_packets: 1,
        peak_ce_packets: 0,
        peak_cnp_packets: 0,
        peak_ns: 1,
        peak_to_mean: 2.0,
        threshold_bytes: 1,
        bursts: 1,
        burst_ratio: 0.5,
        length_p50_ns: 1,
        length_p99_ns: 1,
        length_max_ns: 1,
        late_packets: 0,
        lost_packets: 0,
        left_out_packets: 0,
    }]);
    report.facts.incast = Some(vec![Incast {
        link: "eth0".into(),
        direction,
        dst: host,
        bin_ns: 1_000_000,
        senders: 1,
        senders_max: 1,
        senders_p99: 1,
        bins: 1,
        several_ratio: 0.0,
        peak_bytes: 1,
        peak_senders: 1,
    }]);
    report.facts.steps = Some(example_steps(host, direction));
    report.facts.steps_absent = None;
    report.facts.pattern = Some(Pattern {
        shape: Some("ring"),
        hosts: 4,
        matrix: vec![Cell { src: host, dst: host, packets: 1, bytes: 1, data_bytes: 1 }],
        matrix_pairs: 1,
        matrix_left_out_packets: 0,
        left_out_packets: 0,
        operations: Some(vec![OperationShare {
            operation: "write",
            messages: 1,
            counted_again: Some(0),
            packets: 1,
            payload_bytes: 1,
            payload_ratio: Some(1.0),
            size_unknown: 0,
        }]),
        message_sizes: Some(vec![MessageSize {
            operation: "write",
            from_bytes: 1,
            to_bytes: Some(1),
            messages: 1,
        }]),
    });
}

/// The second half of steps of 100 ms, longer by `growth_ms`, of which `transfer_ms` are transfer.
pub(crate) fn example_slower(growth_ms: i64, transfer_ms: i64) -> StepSlower {
    let period_ns = 100_000_000u64.saturating_add_signed(growth_ms * 1_000_000);
    StepSlower {
        stretch: StepStretch { steps: 15, ..example_stretch(period_ns) },
        growth_ratio: period_ns as f64 / 1e8 - 1.0,
        grew_most: if 2 * transfer_ms > growth_ms { "transfer" } else { "compute" },
        transfer_grew_ns: transfer_ms * 1_000_000,
        wait_grew_ns: 0,
        compute_grew_ns: (growth_ms - transfer_ms) * 1_000_000,
        exposed_ratio: Some(1.0),
        lost_ns: 15 * growth_ms.unsigned_abs() * 1_000_000,
    }
}

fn example_stretch(period_ns: u64) -> StepStretch {
    let (transfer_ns, wait_ns) = (20_000_000, 20_000_000);
    let compute_ns = period_ns - transfer_ns - wait_ns;
    let parts = StepParts { period_ns, transfer_ns, wait_ns, compute_ns };
    StepStretch { first_ns: 600_000_001, last_ns: 1_200_000_001, steps: 8, period_ns, parts }
}

/// A step of which only the start is known.
pub(crate) fn step_at(start_ns: u64) -> crate::metrics::steps::Step {
    crate::metrics::steps::Step { start_ns, end_ns: start_ns, busy_ns: 0, silence_ns: 0, gap_follows: false }
}

pub(crate) fn example_steps(host: Address, direction: Option<Direction>) -> Steps {
    Steps {
        link: "eth0".into(),
        direction,
        count: 30,
        period_ns: 100_000_000,
        first_ns: 1,
        last_ns: 1_200_000_001,
        step_bytes: 1 << 20,
        explained_ratio: 1.0,
        autocorrelation_period_ns: Some(100_000_000),
        autocorrelation: Some(0.9),
        period_p10_ns: 98_000_000,
        period_p90_ns: 102_000_000,
        jitter_ratio: 0.01,
        parts: Some(example_stretch(100_000_000).parts),
        faster_network_ns: Some(10_000_000),
        trend: Some(StepTrend {
            fastest: example_stretch(100_000_000),
            lost_ns: 200_000_000,
            lost_ratio: 0.06,
            long_steps: 1,
            long_ns: 200_000_000,
            slower: Some(example_slower(10, 8)),
        }),
        first_third_ns: 100_000_000,
        first_third_p75_ns: 100_000_000,
        last_third_ns: 100_000_000,
        last_third_p25_ns: 100_000_000,
        trend_ns_per_step: 0.0,
        busy_ratio: 0.2,
        communication_ratio: 0.4,
        silence_ns: 0,
        all: vec![step_at(1)],
        latest: vec![Step { start_ns: 1, length_ns: 1, busy_ns: 1, busy_ratio: Some(0.2), silence_ns: 0 }],
        last_flow: Some(LastFlow { src: host, dst: host, dest_qp: 17, steps: 12, behind_ns: 1 }),
        straggler: Some(StepStraggler {
            kind: "starts_late",
            host: Some(host),
            waits_for: host,
            dst: host,
            dest_qp: 17,
            link: "eth0".into(),
            certain: true,
            changed: true,
            passes_on: false,
            alone: true,
            steps: 12,
            of_steps: 12,
            since_ns: 1,
            until_ns: 1_200_000_001,
            behind_ns: 40_000_000,
        }),
        ending: Ending {
            last_data_ns: 1,
            silent_ns: 0,
            unfinished_ratio: Some(0.0),
            outstanding_flows: Some(0),
        },
    }
}
