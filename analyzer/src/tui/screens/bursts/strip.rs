//! Strip charts of the load of a link: its latest bins, and its whole run.

use ratatui::text::Line;

use crate::metrics::steps::Step;
use crate::metrics::traffic::bins::Bursts;
use crate::tui::theme;
use crate::tui::widgets::Spans;
use crate::util::units;

/// Columns of the scale of a chart.
pub(super) const AXIS: usize = 10;

/// Bins that have a column each.
const fn recent_bins(bursts: &Bursts, cells: usize) -> usize {
    let bins = bursts.recent.len();
    if bins < cells { bins } else { cells }
}

/// A chart of the load in columns of equal length.
pub(super) struct Strip {
    text: String,
    /// Bits per second of each column.
    values: Vec<f64>,
    start_ns: u64,
    column_ns: f64,
}

/// The latest bins, a column each.
pub(super) fn recent(bursts: &Bursts, cells: usize) -> Strip {
    let shown = recent_bins(bursts, cells);
    let first = bursts.recent.len() - shown;
    let column_ns = bursts.bin_ns as f64;
    let rate = |bytes: &u32| f64::from(*bytes) * 8e9 / column_ns;
    let from_bin = bursts.bins.saturating_sub(shown as u64);
    let [length, bin] = [shown as u64 * bursts.bin_ns, bursts.bin_ns].map(units::duration);
    let each = if shown < cells { format!("bins of {bin}") } else { format!("{bin} per column") };
    let values = bursts.recent.iter().skip(first).map(rate).collect();
    Strip {
        text: format!("last {length}, {each}"),
        values,
        start_ns: bursts.first_ns.saturating_add(from_bin.saturating_mul(bursts.bin_ns)),
        column_ns,
    }
    .stretched(cells)
}

/// The whole run, with as many points per column as it takes; `None` if the latest bins are the whole run.
pub(super) fn run(bursts: &Bursts, cells: usize) -> Option<Strip> {
    let per_column = bursts.long.len().div_ceil(cells.max(1)).max(1);
    if bursts.bins <= recent_bins(bursts, cells) as u64 || bursts.long.is_empty() {
        return None;
    }
    let column_ns = bursts.long_bins as f64 * per_column as f64 * bursts.bin_ns as f64;
    // Also of the last column, though it is not full: a burst in its beginning would dwarf all others.
    let rate = |points: &[u64]| points.iter().sum::<u64>() as f64 * 8e9 / column_ns;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length of time")]
    let length = units::duration(column_ns as u64);
    let values: Vec<f64> = bursts.long.chunks(per_column).map(rate).collect();
    let each =
        if values.len() < cells { format!("means of {length}") } else { format!("{length} per column") };
    let text = format!("whole run, {each}");
    let start_ns = bursts.long_first.saturating_mul(bursts.bin_ns);
    Some(Strip { text, values, start_ns, column_ns }.stretched(cells))
}

impl Strip {
    /// The same over all of the columns where there are more of them than values.
    fn stretched(self, cells: usize) -> Self {
        let count = self.values.len();
        if count == 0 || count >= cells {
            return self;
        }
        let values = (0..cells).filter_map(|cell| self.values.get(cell * count / cells).copied()).collect();
        Self { values, column_ns: self.column_ns * count as f64 / cells as f64, ..self }
    }

    pub(super) fn most(&self) -> f64 {
        self.values.iter().copied().fold(0.0, f64::max)
    }

    /// A chart of some lines on a scale that ends at `most`, with a line of marks below where steps begin.
    pub(super) fn lines(
        &self,
        most: f64,
        steps: &[Step],
        (cells, tall): (usize, usize),
    ) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        for row in (0..tall).rev() {
            let scale = match row {
                0 => "0".to_owned(),
                row if row + 1 == tall => units::bit_rate(most),
                _ => String::new(),
            };
            let mut spans = Spans::default();
            spans.push(format!("{scale:>AXIS$} "), theme::DIM).push("│", theme::FRAME);
            let blocks: String = self.values.iter().map(|value| block(*value, most, (row, tall))).collect();
            lines.push({
                spans.push(blocks, theme::BAR);
                spans.into_line()
            });
        }
        let mut marks = vec![' '; self.values.len().min(cells)];
        for step in steps.iter().filter(|step| step.start_ns >= self.start_ns) {
            let column = (step.start_ns - self.start_ns) as f64 / self.column_ns.max(1.0);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "not negative, and looked up"
            )]
            if let Some(mark) = marks.get_mut(column as usize) {
                *mark = '↑';
            }
        }
        let any = marks.contains(&'↑');
        if any {
            let marks: String = marks.into_iter().collect();
            lines.push(Line::styled(format!("{:AXIS$}  {}", "", marks.trim_end()), theme::BOLD));
        }
        let own = self.most();
        let peak = if own < most { format!(", peak {}", units::bit_rate(own)) } else { String::new() };
        let steps = if any { " · ↑ step start" } else { "" };
        lines.insert(0, Line::styled(format!(" {}{peak}{steps}", self.text), theme::DIM));
        lines
    }
}

/// The part of a bar that lies in line `row` from below, of `tall` lines.
fn block(value: f64, max: f64, (row, tall): (usize, usize)) -> char {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    if max <= 0.0 || value <= 0.0 {
        return ' ';
    }
    let eighths = (value / max * (tall * 8) as f64).ceil() - (row * 8) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 8 after the clamp"
    )]
    let at = eighths.clamp(0.0, 8.0) as usize;
    BLOCKS.get(at).copied().unwrap_or(' ')
}
