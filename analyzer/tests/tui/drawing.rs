//! Properties of every picture: states, keys and sizes by chance, and a size that changes between the layout and the
//! picture.

use super::*;
use rocescope::tui::app::Overlay;
use rocescope::tui::key::Input;
use rocescope_common::random::Random;

/// A size of a terminal, of which a fourth are small.
fn size(random: &mut Random) -> (u16, u16) {
    let (columns, lines) = if random.one_in(4) { (90, 30) } else { (400, 120) };
    (1 + random.below_u16(columns), 1 + random.below_u16(lines))
}

/// A number that a sign follows at which the text ends: it may have had more digits.
fn cut_number(line: &str) -> Option<String> {
    let letters: Vec<char> = line.chars().collect();
    let ends = |at: usize| {
        let behind = letters.iter().skip(at + 1).find(|letter| **letter != ' ');
        behind.is_none_or(|letter| ['│', '╮', '─'].contains(letter))
    };
    let signs = letters.iter().enumerate().filter(|(at, letter)| **letter == '…' && ends(*at));
    let mut words = signs.map(|(at, _)| {
        let word = letters[..at].iter().rev().take_while(|letter| !letter.is_whitespace() && **letter != '│');
        word.collect::<Vec<_>>().into_iter().rev().collect::<String>()
    });
    let is_number = |word: &String| {
        word.chars().all(|c| c.is_ascii_digit() || ".,:".contains(c))
            && word.contains(|c: char| c.is_ascii_digit())
    };
    words.find(is_number)
}

/// A number that ends at the frame, where the same line drawn in more columns goes on with it.
fn number_in_frame(line: &str, wider: &str) -> Option<String> {
    let letters = |line: &str| line.chars().collect::<Vec<char>>();
    let (line, wider) = (letters(line), letters(wider));
    let digit = |of: &[char], at: usize| of.get(at).is_some_and(char::is_ascii_digit);
    let ends = |at: &usize| line.get(at + 1) == Some(&'│') && digit(&line, *at);
    let at = (0..line.len()).find(|at| ends(at) && line[..=*at] == wider[..(*at + 1).min(wider.len())])?;
    let goes_on =
        digit(&wider, at + 1) || matches!(wider.get(at + 1), Some('.' | ',' | ':')) && digit(&wider, at + 2);
    goes_on.then(|| {
        let number = line[..=at].iter().rev().take_while(|c| !c.is_whitespace());
        number.collect::<Vec<_>>().into_iter().rev().collect()
    })
}

fn lines(drawn: &ratatui::buffer::Buffer) -> Vec<String> {
    let width = usize::from(drawn.area.width);
    let symbols = |line: &[ratatui::buffer::Cell]| line.iter().map(ratatui::buffer::Cell::symbol).collect();
    drawn.content.chunks(width).map(symbols).collect()
}

/// What a picture must be, whatever it shows.
fn check(drawn: &ratatui::buffer::Buffer, app: &App, what: &str) {
    let height = drawn.area.height;
    let lines = lines(drawn);
    let picture = || format!("{what}\n{}", lines.join("\n"));
    for line in &lines {
        // Of a field of headers the first eight bytes are shown, behind its value.
        let headers = app.view.screen == Screen::Events || matches!(app.overlay, Overlay::Packet(_));
        let is_field =
            |number: &String| headers && number.len() == 16 && line.contains(&format!("  {number}…"));
        if let Some(number) = cut_number(line).filter(|number| !is_field(number)) {
            panic!("{number} is cut in {line:?}: {}", picture());
        }
    }
    // What counts the rest of a list stands right below it.
    for pair in lines.windows(2) {
        let Some((before, _)) = pair[1].split_once(" more").filter(|_| pair[1].contains('+')) else {
            continue;
        };
        let Some((start, number)) = before.rsplit_once('+') else { continue };
        if number.parse::<u32>().is_ok() {
            let at = start.chars().count().saturating_sub(2);
            let mut above = pair[0].chars().skip(at).take_while(|letter| *letter != '│');
            assert!(above.any(|letter| letter != ' '), "a gap: {}", picture());
        }
    }
    // The frame of a part is whole: nothing in it leaves its area.
    let layout = app.view.layout();
    let framed = layout.boxed() && height >= 15 && app.overlay == Overlay::None;
    if framed && app.prompt.is_none() && app.view.data.is_some() {
        for y in layout.body.y..layout.body.bottom() {
            let line = &lines[usize::from(y)];
            let (first, last) = (line.chars().next().unwrap_or(' '), line.chars().last().unwrap_or(' '));
            let whole = "│╭╰".contains(first) == "│╮╯".contains(last) && " │╭╰".contains(first);
            assert!(whole, "line {y} leaves its frame: {}", picture());
        }
        let broken = broken_side(&lines, layout.body.y, layout.body.bottom());
        assert_eq!(broken, None, "a side of a box: {}", picture());
    }
    let ruled = !layout.boxed() && height >= 15 && drawn.area.width >= 60;
    if ruled && app.overlay == Overlay::None && app.prompt.is_none() {
        let body = lines.iter().take(usize::from(layout.body.bottom())).skip(usize::from(layout.body.y));
        let broken = body.filter(|line| line.starts_with("─ ")).find(|line| !is_rule(line));
        assert_eq!(broken, None, "a titled rule: {}", picture());
    }
}

/// A column and a line at which a side of a box ends before its lower corner, within these lines. A list that goes on
/// below the screen ends with the number of its other lines.
fn broken_side(lines: &[String], from: u16, to: u16) -> Option<(usize, usize)> {
    let (from, to) = (usize::from(from), usize::from(to));
    let cells: Vec<Vec<char>> = lines.iter().map(|line| line.chars().collect()).collect();
    for y in from..to {
        for (x, corner) in cells[y].iter().enumerate().filter(|(_, cell)| ['╭', '╮'].contains(cell)) {
            let lower = if *corner == '╭' { '╰' } else { '╯' };
            let end = (y + 1..to).find(|below| cells[*below][x] != '│').unwrap_or(to);
            let goes_on = end + 1 >= to && lines.get(to - 1).is_some_and(|line| line.contains(" more"));
            if end == to || cells[end][x] != lower && !goes_on {
                return Some((x, end));
            }
        }
    }
    None
}

/// True if a line with the title of a part is one from side to side: its words stand between signs of the rule.
fn is_rule(line: &str) -> bool {
    let words = line.split('─').map(str::trim).filter(|words| !words.is_empty());
    let spaced = line
        .split('─')
        .filter(|part| !part.is_empty())
        .all(|part| part.starts_with(' ') && part.ends_with(' '));
    line.ends_with('─')
        && spaced
        && words.clone().count() <= 4
        && words.into_iter().all(|words| !words.contains("  "))
}

fn states() -> Vec<App> {
    let updates = sizes::cycle(sizes::CYCLE);
    vec![
        after(&World::sick(), USUAL, 30),
        after(&World::ipv6(), USUAL, 5),
        after(&World::many(1_500), USUAL, 3),
        app(&World::healthy(), USUAL),
        app(&World::live(), USUAL),
        App::new(options()),
        overview::replayed("e1_loss1.h1.pcap.gz", USUAL),
        sizes::until(&updates, 28),
        sizes::until(&updates, 47),
        busy::app(),
        nic::offloaded(USUAL),
        devices::offloaded(USUAL),
    ]
}

/// The keys that open each box.
const BOXES: [&[Key]; 3] =
    [&[Key::Char('?')], &[Key::Char('2'), Key::Char('c')], &[Key::Char('7'), Key::Home, Key::Enter]];

#[test]
fn pictures_of_any_state_and_size_are_whole() {
    let mut apps = states();
    let mut visited = Vec::new();
    let ends = |input: Input| matches!(input, Input::Quit | Input::Suspend);
    let keys: Vec<Key> =
        KEYMAP.iter().filter(|one| !ends(one.input)).flat_map(|one| one.keys).copied().collect();
    let mut random = Random::new(11);
    for round in 0..400 {
        let count = apps.len();
        let state = random.index(count);
        let app = &mut apps[state];
        // Keys by chance leave a screen sooner than they come to it.
        if random.one_in(2) {
            let number = u8::try_from(random.index(Screen::TABS.len())).unwrap();
            press(app, &[Key::Esc, Key::Char(char::from(b'1' + number))]);
            if number == 0 && random.one_in(2) {
                press(app, &[Key::Enter]);
            }
        }
        for _ in 0..random.index(6) {
            let key = keys[random.index(keys.len())];
            let _ = app.on_key(key);
        }
        // Few of those keys come to a box.
        if random.one_in(5) {
            press(app, &[Key::Esc, Key::Esc]);
            press(app, BOXES[random.index(BOXES.len())]);
        }
        app.settle();
        // What is laid out for one size is drawn in another.
        let (before, size) = (size(&mut random), size(&mut random));
        app.on_resize(before.0, before.1);
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        terminal.draw(|frame| rocescope::tui::draw(frame, app)).unwrap();
        assert_eq!(app.view.size, size);
        let what = format!("round {round}: {:?} at {size:?}", app.view.screen);
        check(terminal.backend().buffer(), app, &what);
        if size.0 >= 60 && size.1 >= 15 {
            visited.push((state, app.view.screen, std::mem::discriminant(&app.overlay)));
        }
        if app.overlay != Overlay::None || app.prompt.is_some() {
            continue;
        }
        // In some more columns the same lines show whether a number ended at its frame.
        let shown = lines(terminal.backend().buffer());
        let mut terminal = Terminal::new(TestBackend::new(size.0.saturating_add(9), size.1)).unwrap();
        terminal.draw(|frame| rocescope::tui::draw(frame, app)).unwrap();
        for (line, wider) in shown.iter().zip(lines(terminal.backend().buffer())) {
            let cut = number_in_frame(line, &wider);
            assert_eq!(cut, None, "{what}: cut at a frame\n{line}\n{wider}");
        }
    }
    all_were_drawn(apps.len(), &visited);
}

/// What chance leaves out is not tested.
fn all_were_drawn(states: usize, visited: &[(usize, Screen, std::mem::Discriminant<Overlay>)]) {
    for screen in Screen::TABS.into_iter().chain([Screen::Problem, Screen::Nic]) {
        assert!(visited.iter().any(|(_, seen, _)| *seen == screen), "{screen:?} was not drawn");
    }
    for state in 0..states {
        let seen = visited.iter().filter(|(of, ..)| *of == state).count();
        assert!(seen >= 8, "state {state} was drawn {seen} times");
    }
    let boxes = visited.iter().map(|(.., overlay)| *overlay).collect::<std::collections::HashSet<_>>();
    assert_eq!(boxes.len(), BOXES.len() + 1, "a box was not drawn");
}

#[test]
fn a_broken_frame_is_found() {
    let lines = |all: &[&str]| all.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let whole = lines(&["╭ A ─╮╭ B ─╮", "│    ││    │", "╰────╯╰────╯"]);
    assert_eq!(broken_side(&whole, 0, 3), None);
    let broken = lines(&["╭ A ─╮╭ B ─╮", "│  10.0.0.1│", "╰────╯╰────╯"]);
    assert_eq!(broken_side(&broken, 0, 3), Some((5, 1)));
    let open = lines(&["╭ A ─╮", "│    │", " Down: 7 more "]);
    assert_eq!((broken_side(&open, 0, 3), broken_side(&open[..2], 0, 2)), (None, Some((0, 2))));
    assert!(is_rule("─ PROBLEMS 2 active ─── Enter opens ─") && is_rule("─ EVENTS ─────"));
    assert!(!is_rule("─ PROBLEMS 2 active ─── Enter op") && !is_rule("─ EVENTS 10.0.0.1   RTS ───"));
}

#[test]
fn a_number_that_is_cut_is_found() {
    assert_eq!(cut_number("PSN 74…│").as_deref(), Some("74"));
    assert_eq!(cut_number(" 12:00:0… "), Some("12:00:0".to_owned()));
    assert_eq!(cut_number("2001…:3:4 h0… 4, 8… uplinks 5 … swp1…"), None);
    let cut = |line: &str| number_in_frame(line, "│ lost 1,234 pkt in 476 ms │");
    assert_eq!(cut("│ lost 1,234 pkt in 47│").as_deref(), Some("47"));
    assert_eq!(cut("│ lost 1│").as_deref(), Some("1"));
    assert_eq!([cut("│ lost 1,234│"), cut("│ lost 1,234 pkt in 476│"), cut("│ rate 1│")], [None, None, None]);
}
