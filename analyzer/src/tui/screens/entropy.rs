//! ECMP entropy in the time range shown.

use ratatui::text::Line;

use crate::analysis::Entropy;
use crate::findings::Problem;
use crate::tui::column::{bar, compact};
use crate::tui::theme;
use crate::tui::view::View;
use crate::tui::widgets::{Spans, counted};
use crate::util::units;

/// ECMP entropy of the data in the time range, or why it is unknown.
pub(super) fn shown(view: &View) -> Result<Entropy, &'static str> {
    match view.entropy() {
        Some(entropy) if entropy.tuples.five_tuples > 0 => Ok(entropy),
        Some(_) if view.data.as_ref().is_some_and(|data| data.model.total.packets > 0) => {
            Err("no data with a known 5-tuple in this time range")
        }
        Some(_) => Err("no RoCE packets in this time range"),
        None if view.past() => Err("not kept for this snapshot"),
        None => Err("analysing…"),
    }
}

/// The number of equal flows with the same entropy.
pub(super) fn effective(entropy: &Entropy) -> String {
    let flows = entropy.tuples.effective_flows.map_or_else(|| units::UNKNOWN.to_owned(), compact);
    format!("{flows} effective flow{}", if flows == "1" { "" } else { "s" })
}

/// Normalized entropy of the data over 5-tuples as a gauge.
pub(super) fn gauge(view: &View, width: usize) -> Line<'static> {
    let mut spans = Spans::default();
    spans.push(" ECMP ENTROPY ", theme::BOLD);
    let entropy = match shown(view) {
        Ok(entropy) => entropy,
        Err(why) => {
            spans.push(why, theme::DIM);
            return spans.into_line();
        }
    };
    let cells = if width >= 70 { 16 } else { 8 };
    let level = view.active_level(Problem::Hashing);
    // One 5-tuple has none.
    if let Some(normalized) = entropy.tuples.normalized {
        spans.push(bar(normalized, cells), theme::BAR);
        spans.push(format!(" {}", units::ratio(Some(normalized))), theme::text(level));
    }
    let parts = [
        format!(" data on {}", counted(entropy.tuples.five_tuples, "5-tuple")),
        format!(", {}", effective(&entropy)),
    ];
    for part in parts {
        // Whole parts, and none behind one that has no room.
        if spans.width + part.chars().count() > width {
            break;
        }
        spans.push(part, theme::PLAIN);
    }
    spans.into_line()
}
