//! Load in short bins, steps, stragglers.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::empty;
use crate::sample::SourceKind;
use crate::tui::app::App;

/// Lines of this screen.
pub(in crate::tui) fn height(_app: &App) -> usize {
    0
}

pub(super) fn render(buffer: &mut Buffer, area: Rect, app: &App) {
    let help = match app.kind() {
        Some(SourceKind::Live) => {
            "The kernel programs keep counters, not single packets: record with tcpdump and replay the capture to see bursts."
        }
        _ => "The overview has the load second by second.",
    };
    empty::because(buffer, area, "Load in bins of a millisecond is not collected in this run.", help);
}
