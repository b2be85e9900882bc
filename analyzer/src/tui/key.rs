//! Keys and their actions: one table decodes them and is the help.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::screen::{Screen, Screens};
use crate::util::nearest::hint;

/// A key, without regard to the terminal library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// A character with the control key; lower case.
    Ctrl(char),
    /// A function key by its number.
    F(u8),
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
    /// Delete.
    Delete,
}

/// Command bound to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// The cursor to the left: of the timeline, of the matrix.
    Left,
    /// The cursor to the right.
    Right,
    /// Open what is selected.
    Open,
    /// Screen number, from 0.
    Screen(usize),
    /// Go to the next screen.
    NextScreen,
    /// Go to the previous screen.
    PreviousScreen,
    /// Sort by the next column.
    SortNext,
    /// Reverse the sort order.
    Reverse,
    /// Choose columns.
    Columns,
    /// The next set of columns.
    ColumnSet,
    /// Queue pairs of NICs, or those of packets.
    NicQps,
    /// Group queue pairs.
    Group,
    /// Mark a row, or not.
    Mark,
    /// Only marked rows, or all.
    OnlyMarked,
    /// Follow the selected row, or keep rows in their places.
    Follow,
    /// The next metric.
    Metric,
    /// More uplinks.
    MoreUplinks,
    /// Fewer uplinks.
    FewerUplinks,
    /// Edit the filter.
    Filter,
    /// Pause or resume.
    Pause,
    /// Back in time.
    Earlier,
    /// Forward in time.
    Later,
    /// Far back in time.
    JumpBack,
    /// Far forward in time.
    JumpForward,
    /// To a time.
    GoTo,
    /// A shorter part of the timeline.
    ZoomIn,
    /// A longer part of the timeline.
    ZoomOut,
    /// Replay faster.
    Faster,
    /// Replay slower.
    Slower,
    /// The next time range.
    TimeRange,
    /// Counters from zero.
    Reset,
    /// Export the screen as CSV.
    ExportCsv,
    /// Export the screen as JSON.
    ExportJson,
    /// Write packet headers as a capture file.
    Capture,
    /// Write a dump of the flight recorder.
    Dump,
    /// Copy what is selected.
    Copy,
    /// The event before the opened one.
    Older,
    /// The event after it.
    Newer,
    /// The next theme.
    Theme,
    /// Help, or none.
    Help,
    /// Draw everything again.
    Redraw,
    /// Go to the background, as job control does.
    Suspend,
    /// Close what is open, else drop what is set.
    Back,
    /// Quit.
    Quit,
}

/// Keys that do the same.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// Its name in the configuration file.
    pub name: &'static str,
    /// Keys that are bound to it.
    pub keys: &'static [Key],
    /// Command that the keys give.
    pub input: Input,
    /// Screens on which they are bound.
    pub on: Screens,
    /// Their effect, for the help.
    pub help: &'static str,
}

/// Declares bindings: name, keys, command, screens, help.
macro_rules! keymap {
    ($($name:literal, [$($key:expr),+], $input:ident $(($number:literal))?, $on:expr, $help:literal;)+) => {
        &[$(Binding {
            name: $name,
            keys: &[$($key),+],
            input: Input::$input $(($number))?,
            on: $on,
            help: $help,
        }),+]
    };
}

const ALL: Screens = Screens::ALL;
const OVERVIEW: Screens = Screen::Overview.only();
const QPS: Screens = Screen::Qps.only();
const SORTED: Screens = QPS.and(Screen::Nic.only());
const MATRIX: Screens = Screen::Matrix.only();
const CURSOR: Screens = OVERVIEW.and(MATRIX);
const LINKS: Screens = Screen::Links.only();
const EVENTS: Screens = Screen::Detail.only().and(Screen::Events.only());
const FLOW: Screens = QPS.and(Screen::Detail.only()).and(Screen::Events.only());

/// Every key: decodes them, and is the help.
pub const KEYMAP: &[Binding] = {
    use Key::{Char, Ctrl};
    keymap! {
        "screen-1", [Char('1')], Screen(0), ALL, "overview: verdict, timeline, problems, worst peers, links, events";
        "screen-2", [Char('2')], Screen(1), ALL, "queue pairs";
        "screen-3", [Char('3')], Screen(2), ALL, "the selected queue pair, both directions";
        "screen-4", [Char('4')], Screen(3), ALL, "host matrix";
        "screen-5", [Char('5')], Screen(4), ALL, "links and rails";
        "screen-6", [Char('6')], Screen(5), ALL, "bursts";
        "screen-7", [Char('7')], Screen(6), ALL, "events and notices";
        "screen-8", [Char('8')], Screen(7), ALL, "findings, blind spots and drops";
        "next-screen", [Key::Tab], NextScreen, ALL, "next screen";
        "previous-screen", [Key::BackTab], PreviousScreen, ALL, "previous screen";
        "up", [Key::Up, Char('k')], Up, ALL, "row up";
        "down", [Key::Down, Char('j')], Down, ALL, "row down";
        "page-up", [Key::PageUp, Ctrl('b')], PageUp, ALL, "page up";
        "page-down", [Key::PageDown, Ctrl('f')], PageDown, ALL, "page down";
        "first", [Key::Home], First, ALL, "first row";
        "last", [Key::End, Char('G')], Last, ALL, "last row";
        "open", [Key::Enter], Open, ALL, "open what is selected";
        "left", [Key::Left, Char('h')], Left, CURSOR, "cursor left: timeline, matrix";
        "right", [Key::Right, Char('l')], Right, CURSOR, "cursor right";
        "zoom-in", [Char('+'), Char('=')], ZoomIn, OVERVIEW, "timeline: a shorter time";
        "zoom-out", [Char('-')], ZoomOut, OVERVIEW, "timeline: a longer time, up to everything";
        "peers", [Char('o')], Group, OVERVIEW,
            "worst peers by host pair, QP, remote host, process, pod, job, link or rail";
        "metric", [Char('v')], Metric, MATRIX, "metric: rate, CE, loss, RETX, NAK, RNR or latency";
        "nic-qps", [Char('d')], NicQps, ALL,
            "queue pairs of NICs, with or without packets; press again: those of packets";
        "sort", [Char('s')], SortNext, SORTED, "sort by the next column, or click a title";
        "reverse", [Char('S')], Reverse, SORTED, "reverse the sort order";
        "columns", [Char('c')], Columns, QPS, "choose and order the columns";
        "column-set", [Char('C')], ColumnSet, QPS,
            "next set of columns: automatic, health, latency, traffic, identity";
        "group", [Char('o')], Group, QPS, "group by host pair, link or process, or not";
        "mark", [Char('m')], Mark, QPS, "mark or unmark the row";
        "only-marked", [Char('M')], OnlyMarked, QPS, "show marked rows only, or all";
        "follow", [Char('f')], Follow, QPS, "follow the selected row when sorting moves it, or keep rows in place";
        "more-uplinks", [Char('u')], MoreUplinks, LINKS, "ECMP what-if: simulate hashing over twice the uplinks";
        "fewer-uplinks", [Char('U')], FewerUplinks, LINKS, "ECMP what-if: half the uplinks";
        "older-event", [Char('n')], Older, EVENTS, "in an open event: earlier event of its row";
        "newer-event", [Char('N')], Newer, EVENTS, "in an open event: later event of its row";
        "filter", [Char('/')], Filter, ALL, "filter the list: host 10.0.1.0/24 and ce > 1%; fields: below";
        "time-range", [Char('t')], TimeRange, ALL, "time range: last sample, 10 s, 60 s, whole run";
        "pause", [Char(' ')], Pause, ALL, "pause or resume; a replay stops reading";
        "earlier", [Char(',')], Earlier, ALL, "step back in time, all screens; pauses";
        "later", [Char('.')], Later, ALL, "step forward in time";
        "jump-back", [Char('<')], JumpBack, ALL, "jump 10 s back";
        "jump-forward", [Char('>')], JumpForward, ALL, "jump 10 s forward; a replay skips ahead";
        "go-to", [Char('g')], GoTo, ALL, "go to a time: 12:00:05, +30 (from the start), -30 (from here)";
        "faster", [Char(']')], Faster, ALL, "replay faster";
        "slower", [Char('[')], Slower, ALL, "replay slower";
        "reset", [Char('r')], Reset, ALL, "reset counters (findings are kept)";
        "export-csv", [Char('e')], ExportCsv, ALL, "export the screen to a CSV file in the working directory";
        "export-json", [Char('E')], ExportJson, ALL, "export the screen to a JSON file in the working directory";
        "capture", [Char('w')], Capture, FLOW, "write the latest packet headers of the queue pair to a pcapng file";
        "dump", [Char('D')], Dump, ALL, "write a dump of the last minutes (live with --keep)";
        "copy", [Char('y')], Copy, ALL, "copy the command, address or line selected (OSC 52)";
        "theme", [Char('T')], Theme, ALL, "theme: dark, light, high contrast, no colours, 16 colours";
        "help", [Char('?'), Key::F(1)], Help, ALL, "toggle help";
        "redraw", [Ctrl('l')], Redraw, ALL, "redraw";
        "suspend", [Ctrl('z')], Suspend, ALL, "suspend (fg to resume)";
        "back", [Key::Esc], Back, ALL, "close overlay, filter, grouping, selection, cursor, zoom or marks shown";
        "quit", [Char('q'), Ctrl('c')], Quit, ALL, "quit";
    }
};

/// The keys in force: the table, with what the configuration file changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    changed: BTreeMap<String, Vec<Key>>,
}

impl Keys {
    /// The table with other keys for some names.
    ///
    /// # Errors
    /// A name or key that does not exist, or a key that means two things at once. The error quotes nothing of the file,
    /// which the user may have no right to read.
    pub fn new(changes: &BTreeMap<String, Vec<String>>) -> Result<Self, String> {
        let mut own = BTreeMap::new();
        for (name, keys) in changes {
            if !KEYMAP.iter().any(|binding| binding.name == name) {
                let known: Vec<&str> = KEYMAP.iter().map(|binding| binding.name).collect();
                let hint = hint(name, known.iter().copied());
                return Err(format!("unknown key binding{hint}: use {}", known.join(", ")));
            }
            let parsed: Result<Vec<Key>, String> = keys.iter().map(|key| key.parse()).collect();
            own.insert(name.clone(), parsed.map_err(|error| format!("{name}: {error}"))?);
        }
        let keys = Self { changed: own };
        for (i, a) in KEYMAP.iter().enumerate() {
            for b in KEYMAP.iter().skip(i + 1).filter(|b| a.on.meets(b.on)) {
                if keys.of(a).iter().any(|key| keys.of(b).contains(key)) {
                    return Err(format!("one key is bound to both {} and {}", a.name, b.name));
                }
            }
        }
        Ok(keys)
    }

    /// The keys of a binding.
    pub fn of(&self, binding: &Binding) -> &[Key] {
        self.changed.get(binding.name).map_or(binding.keys, Vec::as_slice)
    }

    /// The keys of a binding as the help writes them.
    pub fn shown(&self, binding: &Binding) -> String {
        // "=" is "+" without the shift key, which is not worth a word.
        let keys = self.of(binding).iter().filter(|key| **key != Key::Char('='));
        keys.map(Key::to_string).collect::<Vec<_>>().join(" ")
    }

    /// The first key that asks for this, as the help writes it; empty where there is none.
    pub fn first(&self, input: Input) -> String {
        let binding = KEYMAP.iter().find(|binding| binding.input == input);
        binding.and_then(|binding| self.of(binding).first()).map_or_else(String::new, Key::to_string)
    }

    /// The command of `key` on `screen`.
    pub fn decode(&self, key: Key, screen: Screen) -> Option<Input> {
        let meant = |binding: &&Binding| binding.on.has(screen) && self.of(binding).contains(&key);
        KEYMAP.iter().find(meant).map(|binding| binding.input)
    }
}

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut chars = text.chars();
        if let (Some(c), None) = (chars.next(), chars.next()) {
            return Ok(Self::Char(c));
        }
        if let Some(c) = text.strip_prefix("Ctrl-").and_then(|rest| rest.parse::<char>().ok()) {
            return Ok(Self::Ctrl(c.to_ascii_lowercase()));
        }
        if let Some(number) = text.strip_prefix('F').and_then(|rest| rest.parse().ok())
            && (1..=12).contains(&number)
        {
            return Ok(Self::F(number));
        }
        NAMED
            .into_iter()
            .find(|key| key.to_string() == text)
            .ok_or_else(|| "invalid key: use x, Space, Ctrl-X, F1, PgUp or Enter".to_owned())
    }
}

/// Keys that are written as a word.
const NAMED: [Key; 15] = [
    Key::Char(' '),
    Key::Up,
    Key::Down,
    Key::Left,
    Key::Right,
    Key::PageUp,
    Key::PageDown,
    Key::Home,
    Key::End,
    Key::Enter,
    Key::Esc,
    Key::Tab,
    Key::BackTab,
    Key::Backspace,
    Key::Delete,
];

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Self::Char(' ') => "Space",
            Self::Char(c) => return write!(f, "{c}"),
            Self::Ctrl(c) => return write!(f, "Ctrl-{}", c.to_ascii_uppercase()),
            Self::F(number) => return write!(f, "F{number}"),
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
            Self::Delete => "Delete",
        };
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_in_the_table_does_what_its_line_says_wherever_it_means_something() {
        let keys = Keys::new(&BTreeMap::new()).unwrap();
        for binding in KEYMAP {
            assert!(!binding.keys.is_empty() && !binding.help.is_empty());
            for screen in Screen::TABS.into_iter().filter(|screen| binding.on.has(*screen)) {
                for key in binding.keys {
                    assert_eq!(keys.decode(*key, screen), Some(binding.input), "{key} on {screen:?}");
                }
            }
        }
        assert_eq!(keys.decode(Key::Char('x'), Screen::Qps), None);
        assert_eq!(keys.decode(Key::Char('c'), Screen::Links), None);
    }

    #[test]
    fn a_key_has_one_meaning_on_all_screens() {
        let all =
            || KEYMAP.iter().flat_map(|binding| binding.keys.iter().map(move |key| (*key, binding.input)));
        for (key, input) in all() {
            assert!(all().all(|(other, meant)| other != key || meant == input), "{key}");
        }
    }

    #[test]
    fn names_are_unique_and_keys_are_read_as_they_are_written() {
        for (i, binding) in KEYMAP.iter().enumerate() {
            assert!(KEYMAP.iter().skip(i + 1).all(|b| b.name != binding.name), "{}", binding.name);
            for key in binding.keys {
                assert_eq!(key.to_string().parse(), Ok(*key));
            }
        }
        assert!("Enterr".parse::<Key>().is_err());
    }

    #[test]
    fn the_configuration_changes_keys_and_clashes_are_named() {
        let with = |name: &str, keys: &[&str]| {
            let keys = keys.iter().map(|key| (*key).to_owned()).collect();
            Keys::new(&BTreeMap::from([(name.to_owned(), keys)]))
        };
        let keys = with("pause", &["p", "Ctrl-P"]).unwrap();
        assert_eq!(keys.decode(Key::Char('p'), Screen::Links), Some(Input::Pause));
        assert_eq!(keys.decode(Key::Char(' '), Screen::Links), None);
        let pause = KEYMAP.iter().find(|b| b.input == Input::Pause).unwrap();
        assert_eq!(keys.shown(pause), "p Ctrl-P");
        let clash = with("pause", &["q"]).unwrap_err();
        assert!(clash.contains("pause") && clash.contains("quit"), "{clash}");
        let unknown = with("pasue", &["p"]).unwrap_err();
        assert!(unknown.starts_with("unknown key binding (did you mean 'pause'?): use "), "{unknown}");
        assert!(with("pause", &["Paws"]).unwrap_err().starts_with("pause: invalid key: use x, "));
    }
}
