//! Layout of the screen: a pure function of its size.

use ratatui::layout::Rect;

use super::screen::Screen;

/// The smallest terminal that shows anything useful.
pub const SMALLEST: (u16, u16) = (60, 15);
/// Lines of the busiest queue pairs on the overview, at least.
const BUSIEST: u16 = 4;
/// From this width on, links stand beside the trends of the overview.
pub const BESIDE: u16 = 110;
/// Lines of the overview above the busiest queue pairs that hold all there is.
const ABOVE_BESIDE: u16 = 15;
const ABOVE_STACKED: u16 = 22;

/// The areas. An area that is not shown has no height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Name, source, time.
    pub title: Rect,
    /// Rates and counters of everything.
    pub metrics: Rect,
    /// The verdict.
    pub verdict: Rect,
    /// Own losses; only when there are any.
    pub warning: Rect,
    /// The screens' names.
    pub tabs: Rect,
    /// The screen's own area.
    pub body: Rect,
    /// Notices, what is typed, hints.
    pub status: Rect,
}

impl Layout {
    /// The layout of a terminal of `size` columns and lines.
    #[must_use]
    pub fn new((width, height): (u16, u16), warning: bool) -> Self {
        let mut y = 0;
        let mut line = |lines: u16| {
            let lines = lines.min(height.saturating_sub(y));
            let area = Rect::new(0, y, width, lines);
            y += lines;
            area
        };
        let title = line(1);
        let metrics = line(1);
        let verdict = line(1);
        let warning = line(u16::from(warning));
        let tabs = line(1);
        let body = line(height.saturating_sub(5 + warning.height));
        let status = line(1);
        Self { title, metrics, verdict, warning, tabs, body, status }
    }

    /// The table of queue pairs with its titles: the whole body, or what the overview leaves it.
    #[must_use]
    pub fn table(&self, screen: Screen) -> Rect {
        let body = self.body;
        if screen != Screen::Overview {
            return body;
        }
        let above = if body.width >= BESIDE { ABOVE_BESIDE } else { ABOVE_STACKED };
        let height = (body.height / 3).max(BUSIEST).max(body.height.saturating_sub(above)).min(body.height);
        Rect { y: body.bottom() - height, height, ..body }
    }

    /// Rows of the table that are visible.
    #[must_use]
    pub fn table_page(&self, screen: Screen) -> usize {
        usize::from(self.table(screen).height.saturating_sub(1))
    }

    /// Lines of the notices on the events screen.
    #[must_use]
    pub fn notices(&self) -> u16 {
        (self.body.height / 4).min(2)
    }

    /// Events that are visible.
    #[must_use]
    pub fn events_page(&self) -> usize {
        usize::from(self.body.height.saturating_sub(1 + self.notices()))
    }

    /// Links that are visible.
    #[must_use]
    pub fn links_page(&self) -> usize {
        usize::from(self.body.height.saturating_sub(2) / 3).max(1)
    }

    /// Lines of the list of findings, which stands above the text of the selected one.
    #[must_use]
    pub fn findings(&self, count: usize) -> Rect {
        let wanted = u16::try_from(count + 1).unwrap_or(u16::MAX);
        let height = wanted.min((self.body.height * 2 / 5).max(3)).min(self.body.height);
        Rect { height, ..self.body }
    }

    /// Findings that are visible.
    #[must_use]
    pub fn findings_page(&self) -> usize {
        usize::from(self.findings(usize::from(u16::MAX) - 1).height.saturating_sub(1))
    }
}
