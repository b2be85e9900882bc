//! Keys and what they do: one table decodes them and fills the help.

/// A key, without regard to the terminal library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// A character with the control key; lower case.
    Ctrl(char),
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow left.
    Left,
    /// Arrow right.
    Right,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
    /// Enter.
    Enter,
    /// Escape.
    Esc,
    /// Tab.
    Tab,
    /// Shift and Tab.
    BackTab,
    /// Backspace.
    Backspace,
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
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
    /// Details of the selected row, or none.
    Detail,
    /// Screen number, from 0.
    Screen(usize),
    /// The next screen.
    NextScreen,
    /// The screen before.
    PreviousScreen,
    /// Sort by the next column.
    SortNext,
    /// Sort by the column before.
    SortPrevious,
    /// Sort the other way round.
    Reverse,
    /// Edit the filter.
    Filter,
    /// Stop or go on.
    Pause,
    /// Replay faster.
    Faster,
    /// Replay slower.
    Slower,
    /// Help, or none.
    Help,
    /// Draw everything again.
    Redraw,
    /// Go to the background, as job control does.
    Suspend,
    /// Close what is open, else quit.
    Back,
    /// Quit.
    Quit,
}

/// Keys that do the same.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// The keys.
    pub keys: &'static [Key],
    /// What they ask for.
    pub input: Input,
    /// The keys as the help writes them.
    pub shown: &'static str,
    /// What they do, for the help.
    pub help: &'static str,
}

const fn bind(keys: &'static [Key], input: Input, shown: &'static str, help: &'static str) -> Binding {
    Binding { keys, input, shown, help }
}

/// Every key.
pub const KEYMAP: &[Binding] = &[
    bind(&[Key::Up, Key::Char('k')], Input::Up, "Up k", "row up"),
    bind(&[Key::Down, Key::Char('j')], Input::Down, "Down j", "row down"),
    bind(&[Key::PageUp, Key::Ctrl('b')], Input::PageUp, "PgUp Ctrl-B", "page up"),
    bind(&[Key::PageDown, Key::Ctrl('f')], Input::PageDown, "PgDn Ctrl-F", "page down"),
    bind(&[Key::Home, Key::Char('g')], Input::First, "Home g", "first row"),
    bind(&[Key::End, Key::Char('G')], Input::Last, "End G", "last row"),
    bind(&[Key::Enter], Input::Detail, "Enter", "details of the selected queue pair, on and off"),
    bind(&[Key::Char('1')], Input::Screen(0), "1", "queue pairs"),
    bind(&[Key::Char('2')], Input::Screen(1), "2", "links, imbalance and entropy"),
    bind(&[Key::Char('3')], Input::Screen(2), "3", "events and notices"),
    bind(&[Key::Char('4')], Input::Screen(3), "4", "trends and skipped frames"),
    bind(&[Key::Tab], Input::NextScreen, "Tab", "next screen"),
    bind(&[Key::BackTab], Input::PreviousScreen, "Shift-Tab", "screen before"),
    bind(&[Key::Char('s'), Key::Right], Input::SortNext, "s Right", "sort by the next column"),
    bind(&[Key::Left], Input::SortPrevious, "Left", "sort by the column before"),
    bind(&[Key::Char('S'), Key::Char('r')], Input::Reverse, "S r", "sort the other way round"),
    bind(&[Key::Char('/')], Input::Filter, "/", "filter by address, QP, link, state (words: all must match)"),
    bind(&[Key::Char(' ')], Input::Pause, "Space", "pause: stops a replay, freezes a live view"),
    bind(&[Key::Char('+'), Key::Char('=')], Input::Faster, "+", "replay faster"),
    bind(&[Key::Char('-')], Input::Slower, "-", "replay slower"),
    bind(&[Key::Char('?'), Key::Char('h')], Input::Help, "? h", "this help, on and off"),
    bind(&[Key::Ctrl('l')], Input::Redraw, "Ctrl-L", "draw the screen again"),
    bind(&[Key::Ctrl('z')], Input::Suspend, "Ctrl-Z", "to the background; fg comes back"),
    bind(&[Key::Esc], Input::Back, "Esc", "close what is open; quit when nothing is"),
    bind(&[Key::Char('q'), Key::Ctrl('c')], Input::Quit, "q Ctrl-C", "quit"),
];

/// What `key` asks for.
#[must_use]
pub fn decode(key: Key) -> Option<Input> {
    KEYMAP.iter().find(|binding| binding.keys.contains(&key)).map(|binding| binding.input)
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Self::Char(' ') => "Space",
            Self::Char(c) => return write!(f, "{c}"),
            Self::Ctrl(c) => return write!(f, "Ctrl-{}", c.to_ascii_uppercase()),
            Self::Up => "Up",
            Self::Down => "Down",
            Self::Left => "Left",
            Self::Right => "Right",
            Self::PageUp => "PgUp",
            Self::PageDown => "PgDn",
            Self::Home => "Home",
            Self::End => "End",
            Self::Enter => "Enter",
            Self::Esc => "Esc",
            Self::Tab => "Tab",
            Self::BackTab => "Shift-Tab",
            Self::Backspace => "Backspace",
        };
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::{Input, KEYMAP, Key, decode};

    #[test]
    fn every_key_in_the_table_does_what_its_line_says_and_no_other() {
        for (i, binding) in KEYMAP.iter().enumerate() {
            assert!(!binding.keys.is_empty() && !binding.help.is_empty());
            for key in binding.keys {
                assert_eq!(decode(*key), Some(binding.input), "{key:?} is bound twice");
                let elsewhere = KEYMAP.iter().enumerate().any(|(j, b)| j != i && b.keys.contains(key));
                assert!(!elsewhere, "{key:?} is bound twice");
            }
        }
        assert_eq!(decode(Key::Char('x')), None);
        assert_eq!(decode(Key::Ctrl('c')), Some(Input::Quit));
    }

    #[test]
    fn the_help_names_the_keys_that_are_bound() {
        for binding in KEYMAP {
            let named: Vec<&str> = binding.shown.split(' ').collect();
            let bound: Vec<String> = binding.keys.iter().map(Key::to_string).collect();
            for name in &named {
                assert!(bound.iter().any(|b| b == name), "{name} is in the help but not bound");
            }
            // "=" is "+" without the shift key, which is not worth a word.
            for key in bound.iter().filter(|key| *key != "=") {
                assert!(named.contains(&key.as_str()), "{key} is bound but not in the help");
            }
        }
    }
}
