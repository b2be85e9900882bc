//! Links with both of their directions.

use std::cmp::Reverse;

use crate::model::{LinkRow, Model};
use crate::sample::{Direction, Sample};
use crate::tui::data::Data;
use crate::tui::view::View;

/// A link with both directions, or a tap, whose direction is unknown.
pub(in crate::tui::screens) struct Pair<'a> {
    /// Places of its directions among the links.
    pub(in crate::tui::screens) at: Vec<usize>,
    /// Name of the interface or tap.
    pub(in crate::tui::screens) name: &'a str,
    /// Received traffic.
    pub(in crate::tui::screens) rx: Option<&'a LinkRow>,
    /// Sent traffic.
    pub(in crate::tui::screens) tx: Option<&'a LinkRow>,
    /// All that passes a tap.
    pub(in crate::tui::screens) both: Option<&'a LinkRow>,
    /// Speed in bits per second.
    pub(in crate::tui::screens) speed: Option<f64>,
}

impl Pair<'_> {
    /// Rows of its directions, as far as known.
    pub(in crate::tui::screens) fn directions(&self) -> impl Iterator<Item = &LinkRow> {
        [self.rx, self.tx, self.both].into_iter().flatten()
    }

    /// The load of the busier direction.
    pub(in crate::tui::screens) fn load(&self) -> f64 {
        self.directions().map(load).fold(0.0, f64::max)
    }
}

/// Load of a link: bits per second, or all bytes while the rate is unknown.
pub(in crate::tui::screens) fn load(link: &LinkRow) -> f64 {
    link.delta.map_or(link.total.bytes as f64, |d| d.bits_per_s())
}

/// The links in the order of the model.
pub(in crate::tui::screens) fn pairs<'a>(model: &'a Model, sample: &Sample) -> Vec<Pair<'a>> {
    let mut pairs: Vec<Pair<'a>> = Vec::new();
    for (place, link) in model.links.iter().enumerate() {
        let same = |pair: &Pair<'_>| pair.name == link.name && pair.both.is_none();
        let known = pairs.iter().position(|pair| link.direction.is_some() && same(pair));
        let at = known.unwrap_or_else(|| {
            let speed =
                sample.links.get(place).and_then(|link| link.speed_mbps).map(|mbps| mbps as f64 * 1e6);
            pairs.push(Pair { at: Vec::new(), name: &link.name, rx: None, tx: None, both: None, speed });
            pairs.len() - 1
        });
        let Some(pair) = pairs.get_mut(at) else { continue };
        pair.at.push(place);
        match link.direction {
            Some(Direction::Ingress) => pair.rx = Some(link),
            Some(Direction::Egress) => pair.tx = Some(link),
            None => pair.both = Some(link),
        }
    }
    pairs
}

/// The links that active findings are about, the worst first, then all others in the order of the model.
pub(in crate::tui::screens) fn listed<'a>(view: &View, data: &'a Data) -> Vec<Pair<'a>> {
    let mut pairs = pairs(&data.model, &data.sample);
    pairs.sort_by_cached_key(|pair| Reverse(view.level_of_link(pair.name)));
    pairs
}

/// Cells of a bar; any share above 0 shows.
pub(in crate::tui::screens) fn length(share: f64, cells: usize) -> usize {
    let filled = (0..cells).filter(|cell| (*cell as f64 + 0.5) / cells as f64 <= share).count();
    filled.max(usize::from(share > 0.0)).min(cells)
}
