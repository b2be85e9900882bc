//! A place in a list that is longer than the screen.

/// Selection and first visible row of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Row that is selected.
    pub selected: Option<usize>,
    /// The first visible row.
    pub offset: usize,
}

/// A move in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// One page up.
    PageUp,
    /// One page down.
    PageDown,
    /// To the first row.
    First,
    /// To the last row.
    Last,
}

impl Cursor {
    /// Moves the selection in a list of `len` rows of which `page` are visible. Without a
    /// selection, the first move selects a visible row.
    pub fn step(&mut self, step: Move, len: usize, page: usize) {
        let Some(last) = len.checked_sub(1) else {
            *self = Self::default();
            return;
        };
        let jump = page.saturating_sub(1).max(1);
        let at = match (self.selected, step) {
            (_, Move::First) => 0,
            (_, Move::Last) => last,
            (None, Move::PageDown) => self.offset + jump,
            (None, _) => self.offset,
            (Some(at), Move::Up) => at.saturating_sub(1),
            (Some(at), Move::Down) => at + 1,
            (Some(at), Move::PageUp) => at.saturating_sub(jump),
            (Some(at), Move::PageDown) => at + jump,
        };
        self.selected = Some(at.min(last));
        self.show(len, page);
    }

    /// Scrolls without a selection.
    pub fn scroll(&mut self, step: Move, len: usize, page: usize) {
        let end = len.saturating_sub(page);
        let jump = page.saturating_sub(1).max(1);
        self.offset = match step {
            Move::Up => self.offset.saturating_sub(1),
            Move::Down => self.offset + 1,
            Move::PageUp => self.offset.saturating_sub(jump),
            Move::PageDown => self.offset + jump,
            Move::First => 0,
            Move::Last => end,
        }
        .min(end);
    }

    /// The selected row is now at `at`: it stays on its line of the screen where that is possible.
    pub fn follow(&mut self, at: Option<usize>, len: usize, page: usize) {
        if let (Some(new), Some(old)) = (at, self.selected) {
            self.offset = new.saturating_sub(old.saturating_sub(self.offset));
        }
        self.selected = at;
        self.show(len, page);
    }

    /// Makes the selection visible and leaves no empty lines at the end.
    pub fn show(&mut self, len: usize, page: usize) {
        if let Some(at) = self.selected {
            if at < self.offset {
                self.offset = at;
            } else if at >= self.offset + page {
                self.offset = (at + 1).saturating_sub(page);
            }
        }
        self.offset = self.offset.min(len.saturating_sub(page));
    }
}

#[cfg(test)]
mod tests {
    use super::{Cursor, Move};

    #[test]
    fn steps_stay_in_the_list() {
        let mut c = Cursor::default();
        c.step(Move::Down, 5, 3);
        assert_eq!(c, Cursor { selected: Some(0), offset: 0 });
        for _ in 0..9 {
            c.step(Move::Down, 5, 3);
        }
        assert_eq!(c, Cursor { selected: Some(4), offset: 2 });
        c.step(Move::PageUp, 5, 3);
        assert_eq!(c, Cursor { selected: Some(2), offset: 2 });
        c.step(Move::First, 5, 3);
        assert_eq!(c, Cursor { selected: Some(0), offset: 0 });
        c.step(Move::Last, 5, 3);
        assert_eq!(c, Cursor { selected: Some(4), offset: 2 });
        c.step(Move::Up, 0, 3);
        assert_eq!(c, Cursor::default());
        c.step(Move::PageDown, 5, 0);
        assert_eq!(c.selected, Some(1));
    }

    #[test]
    fn a_row_that_moves_in_the_list_stays_on_its_line() {
        let mut c = Cursor { selected: Some(12), offset: 10 };
        c.follow(Some(40), 100, 5);
        assert_eq!(c, Cursor { selected: Some(40), offset: 38 });
        c.follow(Some(1), 100, 5);
        assert_eq!(c, Cursor { selected: Some(1), offset: 0 });
        c.follow(None, 3, 5);
        assert_eq!(c, Cursor { selected: None, offset: 0 });
    }
}
