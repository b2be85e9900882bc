//! Clean controls: jobs with healthy steps.

use super::{Entry, connections, ring, ring_connections, settings};
use crate::sim::job::{Collective, Compute, Datagrams, Stream};
use crate::sim::lab::{KB, Lab, MS};
use crate::sim::net::GBIT;
use crate::sim::packet::{Body, Packet};
use crate::sim::qp::{Settings, Verb};

pub(super) const ALL: &[Entry] = &[
    ("control", "clean-ring-at-switch", |lab| at_switch(lab, 4, 40)),
    ("control", "clean-ring-of-eight", |lab| at_switch(lab, 8, 30)),
    ("control", "clean-ring-at-host", at_host),
    ("control", "clean-ring-all-hosts", all_hosts),
    ("control", "clean-long-compute", long_compute),
    ("control", "clean-jittery-compute", jittery),
    ("control", "clean-steps-of-very-different-length", very_jittery),
    ("control", "clean-all-to-all", all_to_all),
    ("control", "clean-parameter-server", parameter_server),
    ("control", "clean-two-jobs", two_jobs),
    ("control", "clean-job-starts-and-stops", starts_and_stops),
    ("control", "clean-pipeline", pipeline),
    ("control", "clean-checkpoint", checkpoint),
    ("control", "clean-shared-with-little-traffic", shared),
    ("control", "clean-uneven-members", uneven_members),
];

fn compute(ns: u64) -> Compute {
    Compute { ns, jitter_ns: ns / 30, ..Compute::default() }
}

fn at_switch(lab: &mut Lab, hosts: usize, ms: u64) {
    ring(lab, hosts, 24, compute(ms * MS));
    lab.world.tap_switch(0, "switch.pcap");
}

fn at_host(lab: &mut Lab) {
    ring(lab, 4, 40, compute(30 * MS));
    lab.world.tap_host(2, "h2.pcap");
}

fn all_hosts(lab: &mut Lab) {
    ring(lab, 3, 24, compute(30 * MS));
    for (host, name) in ["h0.pcap", "h1.pcap", "h2.pcap"].into_iter().enumerate() {
        lab.world.tap_host(host, name);
    }
}

fn long_compute(lab: &mut Lab) {
    ring(lab, 4, 16, compute(900 * MS));
    lab.world.tap_switch(0, "switch.pcap");
}

fn jittery(lab: &mut Lab) {
    ring(lab, 4, 30, Compute { ns: 40 * MS, jitter_ns: 12 * MS, ..Compute::default() });
    lab.world.tap_switch(0, "switch.pcap");
}

/// Steps vary by a third, and none is missed.
fn very_jittery(lab: &mut Lab) {
    ring(lab, 4, 60, Compute { ns: 30 * MS, jitter_ns: 18 * MS, ..Compute::default() });
    lab.world.tap_switch(0, "switch.pcap");
    lab.figure("lost share", |report| report["steps"]["trend"]["lost_ratio"].as_f64(), 0.0, 0.03);
}

fn all_to_all(lab: &mut Lab) {
    lab.world.star(5, 10 * GBIT);
    let out: Vec<Vec<usize>> = (0..5)
        .map(|host| (1..5).map(|by| lab.world.connect(host, (host + by) % 5, &settings()).0).collect())
        .collect();
    lab.world.start(Collective::all_to_all(&out, (2, 64 * KB), 24, compute(25 * MS)), 0);
    lab.world.tap_switch(0, "switch.pcap");
}

/// Incast to a host whose port is fast enough.
fn parameter_server(lab: &mut Lab) {
    lab.world.star(4, 25 * GBIT);
    let set = Settings { bits_per_s: 5 * GBIT, ..settings() };
    let up: Vec<usize> = (1..4).map(|host| lab.world.connect(host, 0, &set).0).collect();
    let down: Vec<usize> = (1..4).map(|host| lab.world.connect(0, host, &set).0).collect();
    lab.world.start(Collective::server(&up, &down, (4, 64 * KB), 30, compute(20 * MS)), 0);
    lab.world.tap_host(0, "server.pcap");
}

/// A ring, and another job between two of its hosts.
fn two_jobs(lab: &mut Lab) {
    ring(lab, 4, 24, compute(40 * MS));
    let ends = connections(lab, 0, 2, 2, &settings());
    lab.world.start(Stream::new(&ends, Verb::Read, 32 * KB, 120).depth(1).gap(7 * MS, 5 * MS), 0);
    lab.world.tap_switch(0, "switch.pcap");
}

/// A job that starts in the middle of the capture and ends before it.
fn starts_and_stops(lab: &mut Lab) {
    lab.world.star(4, 2 * GBIT);
    let next = ring_connections(lab, 4, &settings());
    let job = Collective::ring(&next, (4, 64 * KB), 20, compute(30 * MS));
    lab.world.start(job, 1_000 * MS);
    let other = Packet::other(0, 1, Body::Other { bytes: 40 });
    lab.world.start(Datagrams { packet: other, count: 400, gap_ns: 10 * MS }, 0);
    lab.world.tap_switch(0, "switch.pcap");
}

/// Pipeline stages: each starts when the previous one is done.
fn pipeline(lab: &mut Lab) {
    lab.world.star(4, 5 * GBIT);
    for stage in 0..3 {
        let ends = connections(lab, stage, stage + 1, 1, &settings());
        let stream = Stream::new(&ends, Verb::WriteImm, 512 * KB, 30).depth(1).gap(40 * MS, MS);
        lab.world.start(stream, stage as u64 * 12 * MS);
    }
    lab.world.tap_switch(0, "switch.pcap");
}

/// One pause of two seconds between two steps.
fn checkpoint(lab: &mut Lab) {
    ring(lab, 4, 30, Compute { pause: Some((12, 2_000 * MS)), ..compute(30 * MS) });
    lab.world.tap_switch(0, "switch.pcap");
}

/// Monitoring traffic of less than one per cent beside the job.
fn shared(lab: &mut Lab) {
    ring(lab, 4, 24, compute(30 * MS));
    let other = Packet::other(1, 2, Body::Other { bytes: 300 });
    lab.world.start(Datagrams { packet: other, count: 1_000, gap_ns: MS }, 0);
    lab.world.tap_switch(0, "switch.pcap");
}

/// One host is slightly slower than the others, by less than a tenth of a step.
fn uneven_members(lab: &mut Lab) {
    ring(lab, 4, 30, Compute { late: Some((2, 3 * MS, 0..1_000)), ..compute(40 * MS) });
    lab.world.tap_switch(0, "switch.pcap");
}
