//! The timeline of all signals on one clock axis, for every screen that has room for it.
//!
//! | module | holds |
//! |---|---|
//! | `grid` | columns and their times; zoom and cursor |
//! | `chart` | the lines of a picture, its axis, colours and episodes |

pub(in crate::tui::screens) mod chart;
pub(in crate::tui::screens) mod grid;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use self::chart::Picture;
pub use self::grid::Chart;
use crate::tui::data::Data;
use crate::tui::view::View;
use crate::tui::widgets::panel::{Title, inner, panel};
use crate::tui::widgets::put;

/// Lines from which on the timeline of all signals stands below what leaves them free.
pub(super) const BELOW: u16 = 10;

/// The timeline of all signals, for other screens that have room for it.
pub(super) fn render_in(buffer: &mut Buffer, area: Rect, boxed: bool, view: &View, data: &Data) {
    let width = usize::from(inner(area, boxed).width);
    render(buffer, area, boxed, Picture::new(view, data, Chart::default(), width));
}

/// The same for a screen that has the load of the links already.
pub(super) fn render_without_links(buffer: &mut Buffer, area: Rect, boxed: bool, view: &View, data: &Data) {
    let width = usize::from(inner(area, boxed).width);
    let picture = Picture::new(view, data, Chart::default(), width);
    render(buffer, area, boxed, picture.map(Picture::without_links));
}

fn render(buffer: &mut Buffer, area: Rect, boxed: bool, picture: Option<Picture<'_>>) {
    let Some(picture) = picture.filter(|_| !area.is_empty()) else { return };
    let (lines, scale) = picture.lines(usize::from(inner(area, boxed).height));
    let title = Title { name: "TIMELINE", about: &scale, hint: &picture.length() };
    let area = panel(buffer, area, boxed, title);
    put(buffer, area, lines);
}
