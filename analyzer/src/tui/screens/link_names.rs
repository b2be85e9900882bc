//! Names of links and their directions.

use crate::model::{LinkRow, Model};
use crate::sample::Direction;
use crate::tui::names;
use crate::util::layout::tap_name;
use crate::util::units;

/// The name of a link in so much room.
pub(super) fn short(model: &Model, link: &LinkRow, width: usize) -> String {
    let all: Vec<String> = model.links.iter().map(|link| tap_name(&link.name)).collect();
    names::apart(&tap_name(&link.name), all.iter().map(String::as_str), width)
}

pub(super) fn direction(direction: Option<Direction>) -> &'static str {
    match direction {
        Some(Direction::Ingress) => "in",
        Some(Direction::Egress) => "out",
        None => units::UNKNOWN,
    }
}
