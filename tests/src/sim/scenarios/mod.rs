//! All scenarios and controls.

use super::job::{Collective, Compute};
use super::lab::{Lab, Scenario};
use super::net::GBIT;
use super::qp::{Ports, Settings};

mod collectives;
mod compared;
mod congestion;
mod controls;
mod ends;
mod fabrics;
mod faults;
mod jobs;
mod loss;
mod odd;
mod path;
mod several;
mod timeouts;
mod uplinks;

/// Kind, name and constructor.
type Entry = (&'static str, &'static str, fn(&mut Lab));

/// Faults with their truth, then clean controls.
pub fn all() -> Vec<Scenario> {
    let tables: [&[Entry]; 14] = [
        loss::ALL,
        timeouts::ALL,
        path::ALL,
        congestion::ALL,
        uplinks::ALL,
        jobs::ALL,
        faults::ALL,
        ends::ALL,
        controls::ALL,
        odd::ALL,
        several::ALL,
        collectives::ALL,
        fabrics::ALL,
        compared::ALL,
    ];
    let entries = tables.into_iter().flatten();
    entries.map(|(kind, name, build)| Scenario { name, kind, build: *build }).collect()
}

/// Settings of a connection with its own source port.
fn settings() -> Settings {
    Settings { ports: Ports::One(0), ..Settings::default() }
}

fn mtu(mtu: u32) -> Settings {
    Settings { mtu, ..settings() }
}

/// Connections from one host to another; returns their requesters.
fn connections(lab: &mut Lab, from: usize, to: usize, count: usize, set: &Settings) -> Vec<usize> {
    (0..count).map(|_| lab.world.connect(from, to, set).0).collect()
}

/// Connections from each host of `0..hosts` to the next one.
fn ring_connections(lab: &mut Lab, hosts: usize, set: &Settings) -> Vec<usize> {
    (0..hosts).map(|host| lab.world.connect(host, (host + 1) % hosts, set).0).collect()
}

/// How often the report says that loss between taps was evaluated without flows, for this reason.
fn open(report: &serde_json::Value, needs: &str) -> Option<f64> {
    let all = report["unjudged"].as_array()?.iter();
    Some(all.filter(|one| one["id"] == "loss.between_taps" && one["needs"] == needs).count() as f64)
}

/// A ring of hosts on one switch whose steps take some 15 ms of network time.
fn ring(lab: &mut Lab, hosts: usize, steps: u64, compute: Compute) -> Vec<usize> {
    lab.world.star(hosts, 2 * GBIT);
    let next = ring_connections(lab, hosts, &settings());
    lab.world.start(Collective::ring(&next, (4, 64 << 10), steps, compute), 0);
    next
}
