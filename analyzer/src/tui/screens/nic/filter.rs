//! The facts of a queue pair of a NIC for the filter.

use std::net::IpAddr;

use rocescope_common::wire::frame::Addr;
use serde_json::Value;

use super::columns::{COLUMNS, Column};
use super::rows::Row;
use crate::filter::{Facts, Pattern, Word};
use crate::sample::Address;
use crate::tui::nic_fields;
use crate::tui::query::vocabulary;
use crate::util::units::UNKNOWN;

pub(super) struct NicFacts<'a>(pub(super) &'a Row<'a>);

impl NicFacts<'_> {
    /// The column of a field; `None` for one that queue pairs of NICs do not have.
    fn column(at: usize) -> Option<&'static Column> {
        let name = nic_fields::column(vocabulary().get(at)?.name)?;
        COLUMNS.iter().find(|column| column.name == name)
    }
}

impl Facts for NicFacts<'_> {
    fn addresses(&self) -> (u8, Addr, Addr) {
        // Of no family, an address is in no network.
        let words = |ip: Option<IpAddr>| ip.map_or((0, Addr::default()), |ip| Address::from(ip).words());
        let control = &self.0.qp.control;
        let ((family, src), (other, dst)) = (words(control.src), words(control.dst));
        (family.max(other), src, dst)
    }

    fn dest_qp(&self) -> u32 {
        self.0.qp.lqpn
    }

    fn link(&self, name: &Pattern) -> bool {
        let device = self.0.device;
        name.is(&device.name) || device.interface.as_deref().is_some_and(|interface| name.is(interface))
    }

    fn port(&self, holds: impl Fn(u16) -> bool) -> Option<bool> {
        self.0.qp.control.udp_port.map(holds)
    }

    fn dscp(&self, holds: impl Fn(u16) -> bool) -> Option<bool> {
        self.0.qp.control.dscp.map(|dscp| holds(dscp.into()))
    }

    fn figure(&self, at: usize) -> Option<f64> {
        match vocabulary().get(at)?.name {
            "pid" => self.0.qp.pid.map(f64::from),
            _ => (Self::column(at)?.value)(self.0).as_f64(),
        }
    }

    fn text(&self, at: usize, part: &str) -> bool {
        Self::column(at).is_some_and(|column| match (column.value)(self.0) {
            Value::String(text) => text.to_lowercase().contains(part),
            _ => false,
        })
    }

    fn mentions(&self, word: &Word) -> Option<bool> {
        let is_in = |column: &Column| {
            let cell = column.cell(self.0);
            cell != UNKNOWN && cell.to_lowercase().contains(&word.text)
        };
        match word.figure {
            _ if COLUMNS.iter().any(is_in) => Some(true),
            Some(at) => self.figure(at).map(|figure| figure > 0.0),
            None => Some(false),
        }
    }
}
