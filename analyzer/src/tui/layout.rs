//! Where everything is on the screen: a pure function of its size and of what is open.

use ratatui::layout::Rect;

use super::app::Screen;

/// The smallest terminal that shows anything useful.
pub const SMALLEST: (u16, u16) = (60, 15);
/// From this width on, details stand beside the table.
const WIDE: u16 = 120;
/// Width of the table that shows all that matters; details beside it get the rest, within bounds.
const TABLE_WIDTH: u16 = 77;
const DETAIL_WIDTH: (u16, u16) = (43, 70);

/// The areas. What is not shown has no height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Name, source, time.
    pub title: Rect,
    /// The figures of everything.
    pub figures: Rect,
    /// What is wrong.
    pub verdict: Rect,
    /// Own losses; only when there are any.
    pub warning: Rect,
    /// The screens' names.
    pub tabs: Rect,
    /// The screen's own area.
    pub body: Rect,
    /// The table of queue pairs with its titles.
    pub table: Rect,
    /// Details of the selected queue pair.
    pub detail: Rect,
    /// Notices, the filter, hints.
    pub status: Rect,
}

impl Layout {
    /// The layout of a terminal of `size` columns and lines.
    #[must_use]
    pub fn new((width, height): (u16, u16), screen: Screen, detail: bool, warning: bool) -> Self {
        let mut y = 0;
        let mut line = |lines: u16| {
            let lines = lines.min(height.saturating_sub(y));
            let area = Rect::new(0, y, width, lines);
            y += lines;
            area
        };
        let title = line(1);
        let figures = line(1);
        let verdict = line(1);
        let warning = line(u16::from(warning));
        let tabs = line(1);
        let body = line(height.saturating_sub(5 + warning.height));
        let status = line(1);
        let nothing = Rect::new(0, body.bottom(), width, 0);
        let (table, detail) = if !detail || screen != Screen::Flows {
            (body, nothing)
        } else if width >= WIDE {
            let beside = (width - TABLE_WIDTH).clamp(DETAIL_WIDTH.0, DETAIL_WIDTH.1);
            (Rect { width: width - beside, ..body }, Rect { x: width - beside, width: beside, ..body })
        } else {
            let below = (body.height * 3 / 5).min(16);
            (
                Rect { height: body.height - below, ..body },
                Rect { y: body.bottom() - below, height: below, ..body },
            )
        };
        Self { title, figures, verdict, warning, tabs, body, table, detail, status }
    }

    /// Rows of the table that are visible.
    #[must_use]
    pub fn page(&self) -> usize {
        usize::from(self.table.height.saturating_sub(1))
    }

    /// Lines of the notices on the events screen.
    #[must_use]
    pub fn notices(&self) -> u16 {
        (self.body.height / 4).min(8)
    }

    /// Events that are visible.
    #[must_use]
    pub fn events_page(&self) -> usize {
        usize::from(self.body.height.saturating_sub(1 + self.notices()))
    }

    /// Links that are visible.
    #[must_use]
    pub fn links_page(&self) -> usize {
        usize::from(self.body.height.saturating_sub(2) / 2).max(1)
    }
}
