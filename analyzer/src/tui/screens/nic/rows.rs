//! A row: a queue pair of the latest facts, with rates from two readings and the findings about it.

use crate::analysis::{Device, DeviceQp, QpSource};
use crate::findings::Finding;
use crate::model::Level;
use crate::tui::view::View;
use crate::util::units;

/// A queue pair, whatever its place in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tui) struct Key {
    device: String,
    port: Option<u32>,
    lqpn: u32,
    created_ns: Option<u64>,
}

/// Queue pair as a row.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    pub(super) device: &'a Device,
    pub(super) qp: &'a DeviceQp,
    /// Packets sent a second.
    pub(super) sent: Option<f64>,
    pub(super) received: Option<f64>,
    /// Sources of these two.
    pub(super) rates_of: (Option<QpSource>, Option<QpSource>),
    /// From its creation to its end, or to now.
    pub(super) age_ns: Option<u64>,
    /// Of the worst active finding about it.
    pub(super) level: Level,
}

/// The letter of a source.
pub(super) const fn letter(source: QpSource) -> char {
    match source {
        QpSource::Netlink => 'L',
        QpSource::ControlPath => 'V',
        QpSource::Devx => 'D',
        QpSource::Context => 'N',
        QpSource::Posts => 'P',
        QpSource::Packets => 'W',
    }
}

/// A source in words.
pub(super) const fn words(source: QpSource) -> &'static str {
    match source {
        QpSource::Netlink => "list",
        QpSource::ControlPath => "verbs",
        QpSource::Devx => "DEVX",
        QpSource::Context => "context",
        QpSource::Posts => "posts",
        QpSource::Packets => "wire",
    }
}

impl Row<'_> {
    /// Label of device and port.
    pub(super) fn label(&self) -> String {
        self.device.label()
    }

    /// Its state; of one that has ended, that.
    pub(super) fn state(&self) -> &'static str {
        if self.has_ended() { "ended" } else { self.qp.state.unwrap_or(units::UNKNOWN) }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.qp.control.is_over()
    }

    /// Name and number of its process.
    pub(super) fn process(&self) -> Option<String> {
        match (&self.qp.comm, self.qp.pid) {
            (Some(comm), Some(pid)) => Some(format!("{comm} ({pid})")),
            (Some(comm), None) => Some(comm.clone()),
            (None, pid) => pid.map(|pid| pid.to_string()),
        }
    }

    pub(super) fn key(&self) -> Key {
        Key {
            device: self.device.name.clone(),
            port: self.device.port,
            lqpn: self.qp.lqpn,
            created_ns: self.qp.control.created_ns,
        }
    }
}

/// True if there is any row.
pub(in crate::tui) fn any(view: &View) -> bool {
    devices(view).any(|device| !device.qps.is_empty())
}

pub(super) fn devices(view: &View) -> impl Iterator<Item = &Device> {
    view.analysis.iter().flat_map(|analysis| &analysis.report.facts.devices)
}

pub(super) fn active(view: &View) -> impl Iterator<Item = &Finding> {
    let all = view.concluded().map_or(&[][..], |concluded| concluded.findings);
    all.iter().filter(|one| one.active)
}

/// The active findings about a queue pair.
pub(super) fn findings<'a>(view: &'a View, row: &'a Row<'_>) -> impl Iterator<Item = &'a Finding> {
    active(view).filter(|one| one.is_about_qp(row.device, row.qp))
}
