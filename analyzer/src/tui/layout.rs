//! Layout of the screen: a pure function of its size.

use ratatui::layout::Rect;

use super::widgets::panel::{BOXED, frame_height, inner};

/// The smallest terminal that shows screens; a smaller one shows a card.
pub const SMALLEST: (u16, u16) = (60, 15);

/// True if a terminal of `size` columns and lines shows the card.
pub const fn is_card((width, height): (u16, u16)) -> bool {
    width < SMALLEST.0 || height < SMALLEST.1
}

/// The areas. An area that is not shown has no height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Line with name, source and time.
    pub title: Rect,
    /// The episode of a demonstration; only in one.
    pub schedule: Rect,
    /// Line with the verdict.
    pub verdict: Rect,
    /// Rates and counters of everything; on the overview, which has those, time and ends of the worst problem.
    pub metrics: Rect,
    /// Cost and place of the worst problem, on the overview, where its time and ends have a line.
    pub cost: Rect,
    /// Own losses; only when there are any.
    pub warning: Rect,
    /// Line with the names of the screens.
    pub tabs: Rect,
    /// The screen's own area.
    pub body: Rect,
    /// Notices, what is typed, hints.
    pub status: Rect,
}

/// From this height on the worst problem has two lines below its sentence.
const TWO: u16 = 20;

/// Lines of the header that are not always there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderLines {
    /// The episode of a demonstration.
    pub schedule: bool,
    /// A second line about the worst problem.
    pub cost: bool,
    /// The line about capture loss.
    pub warning: bool,
}

impl Layout {
    /// The layout of a terminal of `size` columns and lines.
    pub fn new((width, height): (u16, u16), shown: HeaderLines) -> Self {
        let mut y = 0;
        let mut line = |lines: u16| {
            let lines = lines.min(height.saturating_sub(y));
            let area = Rect::new(0, y, width, lines);
            y += lines;
            area
        };
        let title = line(1);
        let schedule = line(u16::from(shown.schedule));
        let verdict = line(1);
        let metrics = line(1);
        let cost = line(u16::from(shown.cost && height >= TWO));
        let warning = line(u16::from(shown.warning));
        let tabs = line(1);
        let body = line(height.saturating_sub(5 + cost.height + warning.height + schedule.height));
        let status = line(1);
        Self { title, schedule, verdict, metrics, cost, warning, tabs, body, status }
    }

    /// True if the parts of a screen are boxes.
    pub const fn boxed(&self) -> bool {
        self.body.width >= BOXED
    }

    /// The area within the frame of a part that fills the body.
    pub fn inner(&self) -> Rect {
        inner(self.body, self.boxed())
    }

    /// Rows of the table that are visible.
    pub fn table_page(&self) -> usize {
        usize::from(self.inner().height.saturating_sub(1))
    }

    /// Links that are visible.
    pub fn links_page(&self) -> usize {
        usize::from(self.body.height.saturating_sub(2) / 3).max(1)
    }

    /// Lines of the list of findings, which stands above the text of the selected one.
    pub fn findings(&self, count: usize) -> Rect {
        let wanted = u16::try_from(count).unwrap_or(u16::MAX).saturating_add(frame_height(self.boxed()));
        let height = wanted.min((self.body.height * 2 / 5).max(3)).min(self.body.height);
        Rect { height, ..self.body }
    }

    /// Findings that are visible.
    pub fn findings_page(&self) -> usize {
        usize::from(inner(self.findings(usize::from(u16::MAX)), self.boxed()).height)
    }
}
