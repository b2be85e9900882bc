//! Areas of charts: what lies below their edge is darker.

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use super::{Palette, Theme};

/// Roles of charts, and those of what lies below the edge of an area: the eye follows the edge, and a load that stands
/// still is no wall of colour.
const BODIES: [(Color, Color); 3] =
    [(Color::Cyan, Color::LightCyan), (Color::Yellow, Color::LightYellow), (Color::Red, Color::LightRed)];

/// Blocks by their height in eighths.
const BLOCKS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// Height of the edge of an area, in eighths, where it lies across two cells.
const EDGE: usize = 4;

impl Theme {
    /// Gives full blocks below other blocks of a chart the role of the body of an area. Below a low block the edge goes
    /// on into the cell: a load that stands still just above a cell's border is one line, not bright and dark in turn.
    pub(super) fn shade_areas(&self, palette: &Palette, buffer: &mut Buffer) {
        let width = usize::from(buffer.area.width).max(1);
        // A bold block is no chart, but the cell of a map.
        let chart = |cell: &Cell| !cell.modifier.contains(Modifier::BOLD);
        let role = |cell: &Cell| BODIES.iter().position(|(role, _)| *role == cell.fg && chart(cell));
        let height = |cell: &Cell| BLOCKS.iter().position(|block| *block == cell.symbol()).map(|at| at + 1);
        let of = &self.overrides;
        let edges = [(palette.data, of.data), (palette.warning, of.warning), (palette.critical, of.critical)];
        // From below: the cell above has its own role still.
        for at in (width..buffer.content.len()).rev() {
            let above = buffer.content.get(at - width).filter(|above| role(above).is_some()).and_then(height);
            let Some((above, cell)) = above.zip(buffer.content.get_mut(at)) else { continue };
            let Some(role) = role(cell).filter(|_| cell.symbol() == "█") else { continue };
            let (edge, own) = edges[role];
            // A selected cell is reversed.
            if above < EDGE && own.is_none() && cell.modifier.is_empty() {
                cell.set_symbol(BLOCKS[8 - EDGE + above - 1]);
                (cell.fg, cell.bg) = (self.shown(palette.bodies[role]), self.shown(edge));
            } else {
                cell.fg = BODIES[role].1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::buffer::Buffer;
    use ratatui::style::Color;

    use super::super::{DARK, Depth, Name, Rgb, Theme};
    use crate::tui::theme;

    #[test]
    fn a_block_below_another_is_the_body_of_an_area() {
        let mut buffer = Buffer::empty(ratatui::layout::Rect::new(0, 0, 3, 3));
        for (y, blocks) in (0..).zip(["▂ █", "███", "█▅█"]) {
            buffer.set_string(0, y, blocks, theme::BAR);
        }
        Theme { name: Name::Dark, depth: Depth::True, ..Theme::default() }.paint(&mut buffer);
        let rgb = |(r, g, b): Rgb| Color::Rgb(r, g, b);
        let shade = |x, y| buffer[(x, y)].fg == rgb(DARK.bodies[0]);
        assert_eq!([shade(0, 0), shade(0, 1), shade(0, 2)], [false, true, true]);
        // The edge of half a cell goes on below two eighths.
        assert_eq!((buffer[(0, 1)].symbol(), buffer[(0, 1)].bg), ("▆", rgb(DARK.data)));
        assert_eq!((buffer[(2, 1)].symbol(), buffer[(2, 2)].symbol()), ("█", "█"));
        assert_eq!([shade(1, 1), shade(1, 2)], [false, false], "its own edges");
        assert_eq!([shade(2, 0), shade(2, 1), shade(2, 2)], [false, true, true]);
        assert_eq!(buffer[(0, 0)].fg, rgb(DARK.data));
        for y in 0..3 {
            buffer.set_string(0, y, "███", theme::text(crate::model::Level::Critical));
        }
        Theme { name: Name::Dark, depth: Depth::True, ..Theme::default() }.paint(&mut buffer);
        assert!(buffer.content.iter().all(|cell| cell.fg == rgb(DARK.critical)), "cells of a map");
    }
}
