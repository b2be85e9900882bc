//! What a click opens: badges, and rows that show what is on another screen.

use super::*;
use rocescope::findings::Problem;
use rocescope::tui::app::Overlay;
use rocescope::tui::export::Content;
use rocescope::tui::key::Keys;
use rocescope::tui::mouse::Mouse;

/// Column and line of the first place of a text, from this line on.
fn place(app: &App, wanted: &str, from: usize) -> (u16, u16) {
    let screen = text(app);
    let found =
        screen.lines().enumerate().skip(from).find_map(|(y, line)| Some((line.find(wanted)?, y, line)));
    let (at, y, line) = found.unwrap_or_else(|| panic!("no {wanted} in\n{screen}"));
    (u16::try_from(line[..at].chars().count()).unwrap(), u16::try_from(y).unwrap())
}

fn click(app: &mut App, wanted: &str, from: usize) {
    let (x, y) = place(app, wanted, from);
    let _ = app.on_mouse(Mouse::Click(x + 1, y));
}

#[test]
fn a_badge_opens_its_own_problem() {
    for size in [USUAL, WIDE] {
        let mut app = after(&World::sick(), size, 10);
        let all = app.view.concluded().unwrap().findings.to_vec();
        let kinds = [Problem::Refused, Problem::Congestion];
        for kind in kinds {
            let first =
                all.iter().find(|one| one.active && Problem::of(one) == Some(kind)).unwrap().title.clone();
            let title = text(&app).lines().next().unwrap().to_owned();
            let badge = [kind.badge(), kind.word()].into_iter().find(|name| title.contains(*name)).unwrap();
            click(&mut app, badge, 0);
            assert_eq!(app.view.screen, Screen::Problem);
            let shown = text(&app);
            let start: String = first.chars().take(30).collect();
            let body = shown.lines().skip(4).collect::<Vec<_>>().join("\n");
            let body = body.find("CRITICAL").or_else(|| body.find("warning")).map(|at| body[at..].to_owned());
            assert!(
                body.is_some_and(|body| body.lines().next().unwrap().contains(&start)),
                "{kind:?}: {shown}"
            );
            press(&mut app, &[Key::Esc]);
        }
    }
}

#[test]
fn rows_of_other_screens_open_there() {
    let mut app = after(&World::sick(), LARGE, 10);
    let (_, top) = place(&app, " EVENTS ", 0);
    let (x, _) = place(&app, " EVENTS ", 0);
    let row = |app: &App| text(app).lines().nth(usize::from(top) + 2).unwrap().to_owned();
    let listed = row(&app);
    let _ = app.on_mouse(Mouse::Click(x + 4, top + 2));
    assert_eq!(app.view.screen, Screen::Events, "{listed}");
    let selected = app.screens.events.cursor.selected.unwrap();
    let entry = app.view.shown_events().nth(selected).unwrap();
    assert!(listed.contains(entry.entry.class.word), "{listed}");
    press(&mut app, &[Key::Char('1')]);
    let (x, top) = place(&app, " LINKS ", 0);
    let _ = app.on_mouse(Mouse::Click(x + 4, top + 3));
    assert_eq!((app.view.screen, app.screens.links.cursor.selected), (Screen::Links, Some(1)));
    press(&mut app, &[Key::Char('1')]);
    let (x, top) = place(&app, " JOB STEPS ", 0);
    let _ = app.on_mouse(Mouse::Click(x + 4, top + 1));
    assert_eq!(app.view.screen, Screen::Bursts);
}

/// The frames name the keys in force.
#[test]
fn keys_that_frames_name_are_those_in_force() {
    let mut options = options();
    let changes = [("screen-7".to_owned(), vec!["F7".to_owned()])].into();
    options.keys = Keys::new(&changes).unwrap();
    let mut app = App::new(options);
    app.on_resize(LARGE.0, LARGE.1);
    for second in 1..=5 {
        app.on_events(&World::sick().events(second));
        app.on_sample(Arc::new(World::sick().at(second)));
    }
    let shown = text(&app);
    assert!(shown.contains(" F7 opens ") && !shown.contains(" 7 opens "), "{shown}");
}

/// The last line is about what lies over the screen, and help lists what works.
#[test]
fn keys_are_those_of_what_is_in_front() {
    let last = |app: &App| text(app).lines().last().unwrap().to_owned();
    let mut app = after(&World::sick(), USUAL, 10);
    press(&mut app, &[Key::Char('?')]);
    assert!(matches!(app.overlay, Overlay::Help(_)));
    assert!(last(&app).contains("Esc close") && !last(&app).contains("why + fix"), "{}", last(&app));
    press(&mut app, &[Key::Esc, Key::Char('2'), Key::Char('c')]);
    assert!(!last(&app).contains("sort"), "{}", last(&app));
    press(&mut app, &[Key::Esc, Key::Char('7'), Key::Enter]);
    assert!(last(&app).contains("n N") && last(&app).contains("pcapng"), "{}", last(&app));
    press(&mut app, &[Key::Esc, Key::Char('6'), Key::Char('?')]);
    let mut all = String::new();
    for _ in 0..12 {
        all += &text(&app);
        press(&mut app, &[Key::PageDown]);
    }
    for (text, shown) in
        [("replay faster", false), ("write a dump", false), ("copy the", false), ("export", true)]
    {
        assert_eq!(all.contains(text), shown, "{text}");
    }
    assert!(all.contains("duty cycle"), "{all}");
}

/// A state of the screen: the keys that lead to it, on a host whose NIC hides its packets or another one.
struct State {
    keys: &'static [Key],
    nic: bool,
}

const fn on(keys: &'static [Key]) -> State {
    State { keys, nic: false }
}

/// Every screen and every box, and lines that are typed.
const STATES: [State; 20] = [
    on(&[Key::Char('1'), Key::Home]),
    on(&[Key::Char('2')]),
    on(&[Key::Char('2'), Key::Down, Key::Enter]),
    on(&[Key::Char('4')]),
    on(&[Key::Char('5')]),
    on(&[Key::Char('6')]),
    on(&[Key::Char('7')]),
    on(&[Key::Char('8')]),
    on(&[Key::Char('1'), Key::Enter]),
    on(&[Key::Char('1'), Key::Enter, Key::Down]),
    on(&[Key::Char('1'), Key::Char('?')]),
    on(&[Key::Char('2'), Key::Char('c'), Key::Down, Key::Char(' ')]),
    on(&[Key::Char('7'), Key::Enter]),
    on(&[Key::Char('2'), Key::Down, Key::Enter, Key::Enter]),
    on(&[Key::Char('2'), Key::Char('/'), Key::Char('l')]),
    on(&[Key::Char('2'), Key::Char('/'), Key::Char('z'), Key::Char('z'), Key::Enter]),
    on(&[Key::Char('2'), Key::Char('M')]),
    on(&[Key::Char('2'), Key::Down, Key::Char(' ')]),
    State { keys: &[Key::Char('2')], nic: true },
    State { keys: &[Key::Char('2'), Key::Enter], nic: true },
];

impl State {
    fn shown(&self, size: (u16, u16)) -> App {
        let mut app = if self.nic { nic::offloaded(size) } else { app(&World::sick(), size) };
        press(&mut app, self.keys);
        app.settle();
        app
    }

    /// What follows from input: what the loop has to do, and the picture.
    fn after(&self, size: (u16, u16), input: impl Fn(&mut App) -> Action) -> (Action, String) {
        let mut app = self.shown(size);
        let mut action = input(&mut app);
        app.settle();
        // Two files are one where their bytes are: their rows are those of two states.
        if let Action::Write(file) = &mut action {
            file.content = Content::Bytes(file.content.clone().into_bytes());
        }
        (action, with_attributes(&app))
    }
}

/// Keys that a line names one after the other, and where their meaning begins.
#[derive(Debug)]
struct Label {
    y: u16,
    keys: Vec<(u16, Key)>,
    words: u16,
    line: String,
}

/// The words of a line with their columns.
fn words(line: &str) -> Vec<(u16, String)> {
    let mut all: Vec<(u16, String)> = Vec::new();
    let mut blank = true;
    for (x, letter) in (0..).zip(line.chars()) {
        match all.last_mut().filter(|_| !blank) {
            Some((_, word)) if letter != ' ' => word.push(letter),
            None if letter != ' ' => all.push((x, letter.into())),
            _ => {}
        }
        blank = letter == ' ';
    }
    all
}

/// The key that a word names, where it works. In a text only names that are words are keys.
fn key_of(app: &App, word: &str, is_text: bool) -> Option<Key> {
    let one = word.chars().count() == 1;
    let name = if one { word } else { word.trim_start_matches('(').trim_end_matches([':', ')']) };
    let key = name.parse::<Key>().ok().filter(|_| !is_text || name.chars().count() > 1)?;
    let works = match app.overlay {
        _ if app.prompt.is_some() => [Key::Enter, Key::Esc].contains(&key),
        Overlay::Columns(_) => {
            let own = [Key::Char(' '), Key::Left, Key::Right, Key::Backspace, Key::Enter];
            own.contains(&key) || [Key::Char('?'), Key::Char('q')].contains(&key)
        }
        _ => app.view.options.keys.decode(key, app.view.screen).is_some(),
    };
    works.then_some(key)
}

/// Every label of the picture: in the last line, in frames, and in texts.
fn labels(app: &App) -> Vec<Label> {
    let (screen, mut labels) = (text(app), Vec::new());
    let last = screen.lines().count() - 1;
    for (y, line) in screen.lines().enumerate() {
        let is_text = y != last && line.matches('─').count() <= 4;
        // The help is a list of keys.
        if is_text && matches!(app.overlay, Overlay::Help(_)) {
            continue;
        }
        let words = words(line);
        let mut at = 0;
        while at < words.len() {
            // A key begins a label: `why + fix` names none.
            let goes_on =
                at.checked_sub(1).and_then(|before| words.get(before)).is_some_and(|(from, word)| {
                    let adjoins = from + u16::try_from(word.chars().count()).unwrap() + 1 == words[at].0;
                    adjoins
                        && word != "key"
                        && !word.ends_with([',', ';', '·', '─', '╭', '╰'])
                        && !words[at].1.starts_with('(')
                });
            if goes_on {
                at += 1;
                continue;
            }
            let named = words[at..].iter().map_while(|(x, word)| Some((*x, key_of(app, word, is_text)?)));
            let keys: Vec<(u16, Key)> = named.collect();
            let next = at + keys.len().max(1);
            let behind = keys.last().and_then(|(x, _)| {
                let end = x + u16::try_from(words[next - 1].1.chars().count()).unwrap();
                words.get(next).filter(|(from, word)| *from == end + 1 && !word.starts_with(['─', '│', '·']))
            });
            // A number counts, unless it says what it opens.
            let is_number = keys.iter().any(|(_, key)| matches!(key, Key::Char('0'..='9')));
            if let Some((from, word)) = behind.filter(|(_, word)| !is_number || word == "opens") {
                let line = format!("{word} in {line}");
                labels.push(Label { y: u16::try_from(y).unwrap(), keys, words: *from, line });
            }
            at = next;
        }
    }
    labels
}

/// What stands in the picture as a key with its meaning is one: a click on it, or on its meaning, presses it.
#[test]
fn every_label_of_every_screen_and_box_can_be_clicked() {
    let mut names = std::collections::BTreeSet::new();
    for size in [USUAL, WIDE] {
        for state in &STATES {
            let untouched = state.after(size, |_| Action::Draw);
            for Label { y, keys, words, line } in labels(&state.shown(size)) {
                let more =
                    line.starts_with("more") || line.split_once(" in ").unwrap().0.parse::<u32>().is_ok();
                let pressed = keys.iter().map(|(_, key)| {
                    let key = if *key == Key::Down && more { Key::PageDown } else { *key };
                    state.after(size, |app| app.on_key(key))
                });
                let pressed: Vec<_> = pressed.collect();
                assert!(
                    pressed.iter().any(|one| *one != untouched),
                    "{keys:?} do nothing: {line}\n{}",
                    untouched.1
                );
                for ((x, key), expected) in keys.iter().zip(&pressed) {
                    let clicked = state.after(size, |app| app.on_mouse(Mouse::Click(*x, y)));
                    assert!(clicked == *expected, "{key} at {x}, {y} is dead: {line}\n{}", clicked.1);
                    names.insert(key.to_string());
                }
                let clicked = state.after(size, |app| app.on_mouse(Mouse::Click(words, y)));
                assert!(pressed.contains(&clicked), "{keys:?} by its meaning is dead: {line}\n{}", clicked.1);
            }
        }
    }
    for name in
        ["Enter", "Esc", "Tab", "Down", "Left", "+", "-", "n", "N", "w", "q", "?", "u", "y", "/", "5", ","]
    {
        assert!(names.contains(name), "no label names {name}: {names:?}");
    }
}

/// The walk above finds labels by their letters, which a terminal without UTF-8 shows in other frames.
#[test]
fn labels_are_clicked_in_frames_of_ascii_and_on_the_card() {
    let mut app = app(&World::sick(), USUAL);
    app.view.options.unicode = false;
    press(&mut app, &[Key::Char('5')]);
    click(&mut app, "Enter queue pairs", 4);
    assert_eq!(app.view.screen, Screen::Qps);
    let mut card = super::app(&World::sick(), (50, 10));
    let (x, y) = place(&card, "q quits", 0);
    assert_eq!(card.on_mouse(Mouse::Click(x, y)), Action::Quit);
    let before = text(&card);
    for y in 0..9 {
        assert_eq!(card.on_mouse(Mouse::Click(4, y)), Action::Draw);
    }
    assert_eq!(text(&card), before);
}

/// A column is selected by a click on it, shown or hidden by one on its box; a click elsewhere closes the choice.
#[test]
fn columns_are_chosen_by_clicks() {
    let mut app = app(&World::sick(), USUAL);
    press(&mut app, &[Key::Char('2'), Key::Char('c')]);
    let (x, y) = place(&app, "[x] DQPN", 0);
    let shown = |app: &App| text(app).lines().nth(usize::from(y)).unwrap().contains("[x]");
    let _ = app.on_mouse(Mouse::Click(x + 6, y));
    assert!(matches!(app.overlay, Overlay::Columns(1..)) && shown(&app), "{}", text(&app));
    let _ = app.on_mouse(Mouse::Click(x + 1, y));
    assert!(!text(&app).contains("[x] DQPN "), "{}", text(&app));
    let mut wide = super::app(&World::sick(), WIDE);
    press(&mut wide, &[Key::Char('2'), Key::Char('c')]);
    let _ = wide.on_mouse(Mouse::Click(1, 20));
    assert_eq!(wide.overlay, Overlay::None);
}
