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

const fn bind(name: &'static str, keys: &'static [Key], input: Input, help: &'static str) -> Binding {
    Binding { name, keys, input, on: Screens::ALL, help }
}

const fn on(on: Screens, binding: Binding) -> Binding {
    Binding { on, ..binding }
}

const OVERVIEW: Screens = Screen::Overview.only();
const QPS: Screens = Screen::Qps.only();
const SORTED: Screens = QPS.and(Screen::Nic.only());
const MATRIX: Screens = Screen::Matrix.only();
const CURSOR: Screens = OVERVIEW.and(MATRIX);
const LINKS: Screens = Screen::Links.only();
const EVENTS: Screens = Screen::Detail.only().and(Screen::Events.only());
const FLOW: Screens = QPS.and(Screen::Detail.only()).and(Screen::Events.only());

/// Every key: decodes them, and is the help.
pub const KEYMAP: &[Binding] = &[
    bind(
        "screen-1",
        &[Key::Char('1')],
        Input::Screen(0),
        "overview: verdict, timeline, problems, worst peers, links, events",
    ),
    bind("screen-2", &[Key::Char('2')], Input::Screen(1), "queue pairs"),
    bind("screen-3", &[Key::Char('3')], Input::Screen(2), "the selected queue pair, both directions"),
    bind("screen-4", &[Key::Char('4')], Input::Screen(3), "host matrix"),
    bind("screen-5", &[Key::Char('5')], Input::Screen(4), "links and rails"),
    bind("screen-6", &[Key::Char('6')], Input::Screen(5), "bursts"),
    bind("screen-7", &[Key::Char('7')], Input::Screen(6), "events and notices"),
    bind("screen-8", &[Key::Char('8')], Input::Screen(7), "findings, blind spots and drops"),
    bind("next-screen", &[Key::Tab], Input::NextScreen, "next screen"),
    bind("previous-screen", &[Key::BackTab], Input::PreviousScreen, "previous screen"),
    bind("up", &[Key::Up, Key::Char('k')], Input::Up, "row up"),
    bind("down", &[Key::Down, Key::Char('j')], Input::Down, "row down"),
    bind("page-up", &[Key::PageUp, Key::Ctrl('b')], Input::PageUp, "page up"),
    bind("page-down", &[Key::PageDown, Key::Ctrl('f')], Input::PageDown, "page down"),
    bind("first", &[Key::Home], Input::First, "first row"),
    bind("last", &[Key::End, Key::Char('G')], Input::Last, "last row"),
    bind("open", &[Key::Enter], Input::Open, "open what is selected"),
    on(CURSOR, bind("left", &[Key::Left, Key::Char('h')], Input::Left, "cursor left: timeline, matrix")),
    on(CURSOR, bind("right", &[Key::Right, Key::Char('l')], Input::Right, "cursor right")),
    on(
        OVERVIEW,
        bind("zoom-in", &[Key::Char('+'), Key::Char('=')], Input::ZoomIn, "timeline: a shorter time"),
    ),
    on(
        OVERVIEW,
        bind("zoom-out", &[Key::Char('-')], Input::ZoomOut, "timeline: a longer time, up to everything"),
    ),
    on(
        OVERVIEW,
        bind(
            "peers",
            &[Key::Char('o')],
            Input::Group,
            "worst peers by host pair, QP, remote host, process, pod, job, link or rail",
        ),
    ),
    on(
        MATRIX,
        bind("metric", &[Key::Char('v')], Input::Metric, "metric: rate, CE, loss, RETX, NAK, RNR or latency"),
    ),
    bind(
        "nic-qps",
        &[Key::Char('d')],
        Input::NicQps,
        "queue pairs of NICs, with or without packets; press again: those of packets",
    ),
    on(SORTED, bind("sort", &[Key::Char('s')], Input::SortNext, "sort by the next column, or click a title")),
    on(SORTED, bind("reverse", &[Key::Char('S')], Input::Reverse, "reverse the sort order")),
    on(QPS, bind("columns", &[Key::Char('c')], Input::Columns, "choose and order the columns")),
    on(
        QPS,
        bind(
            "column-set",
            &[Key::Char('C')],
            Input::ColumnSet,
            "next set of columns: automatic, health, latency, traffic, identity",
        ),
    ),
    on(QPS, bind("group", &[Key::Char('o')], Input::Group, "group by host pair, link or process, or not")),
    on(QPS, bind("mark", &[Key::Char('m')], Input::Mark, "mark or unmark the row")),
    on(QPS, bind("only-marked", &[Key::Char('M')], Input::OnlyMarked, "show marked rows only, or all")),
    on(
        QPS,
        bind(
            "follow",
            &[Key::Char('f')],
            Input::Follow,
            "follow the selected row when sorting moves it, or keep rows in place",
        ),
    ),
    on(
        LINKS,
        bind(
            "more-uplinks",
            &[Key::Char('u')],
            Input::MoreUplinks,
            "ECMP what-if: simulate hashing over twice the uplinks",
        ),
    ),
    on(
        LINKS,
        bind("fewer-uplinks", &[Key::Char('U')], Input::FewerUplinks, "ECMP what-if: half the uplinks"),
    ),
    on(
        EVENTS,
        bind("older-event", &[Key::Char('n')], Input::Older, "in an open event: earlier event of its row"),
    ),
    on(
        EVENTS,
        bind("newer-event", &[Key::Char('N')], Input::Newer, "in an open event: later event of its row"),
    ),
    bind(
        "filter",
        &[Key::Char('/')],
        Input::Filter,
        "filter the list: host 10.0.1.0/24 and ce > 1%; fields: below",
    ),
    bind("time-range", &[Key::Char('t')], Input::TimeRange, "time range: last sample, 10 s, 60 s, whole run"),
    bind("pause", &[Key::Char(' ')], Input::Pause, "pause or resume; a replay stops reading"),
    bind("earlier", &[Key::Char(',')], Input::Earlier, "step back in time, all screens; pauses"),
    bind("later", &[Key::Char('.')], Input::Later, "step forward in time"),
    bind("jump-back", &[Key::Char('<')], Input::JumpBack, "jump 10 s back"),
    bind("jump-forward", &[Key::Char('>')], Input::JumpForward, "jump 10 s forward; a replay skips ahead"),
    bind(
        "go-to",
        &[Key::Char('g')],
        Input::GoTo,
        "go to a time: 12:00:05, +30 (from the start), -30 (from here)",
    ),
    bind("faster", &[Key::Char(']')], Input::Faster, "replay faster"),
    bind("slower", &[Key::Char('[')], Input::Slower, "replay slower"),
    bind("reset", &[Key::Char('r')], Input::Reset, "reset counters (findings are kept)"),
    bind(
        "export-csv",
        &[Key::Char('e')],
        Input::ExportCsv,
        "export the screen to a CSV file in the working directory",
    ),
    bind(
        "export-json",
        &[Key::Char('E')],
        Input::ExportJson,
        "export the screen to a JSON file in the working directory",
    ),
    on(
        FLOW,
        bind(
            "capture",
            &[Key::Char('w')],
            Input::Capture,
            "write the latest packet headers of the queue pair to a pcapng file",
        ),
    ),
    bind("dump", &[Key::Char('D')], Input::Dump, "write a dump of the last minutes (live with --keep)"),
    bind("copy", &[Key::Char('y')], Input::Copy, "copy the command, address or line selected (OSC 52)"),
    bind(
        "theme",
        &[Key::Char('T')],
        Input::Theme,
        "theme: dark, light, high contrast, no colours, 16 colours",
    ),
    bind("help", &[Key::Char('?'), Key::F(1)], Input::Help, "toggle help"),
    bind("redraw", &[Key::Ctrl('l')], Input::Redraw, "redraw"),
    bind("suspend", &[Key::Ctrl('z')], Input::Suspend, "suspend (fg to resume)"),
    bind(
        "back",
        &[Key::Esc],
        Input::Back,
        "close overlay, filter, grouping, selection, cursor, zoom or marks shown",
    ),
    bind("quit", &[Key::Char('q'), Key::Ctrl('c')], Input::Quit, "quit"),
];

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
