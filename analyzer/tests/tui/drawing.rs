//! Properties of every picture: states, keys and sizes by chance, and a size that changes between the layout and the
//! picture.

use super::*;
use rocescope::tui::key::Input;

/// Numbers by chance, the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % below as u64).unwrap()
    }

    fn size(&mut self) -> (u16, u16) {
        // A fourth of them are small.
        let (columns, lines) = if self.below(4) == 0 { (90, 30) } else { (400, 120) };
        (1 + u16::try_from(self.below(columns)).unwrap(), 1 + u16::try_from(self.below(lines)).unwrap())
    }
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
    words.find(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || ".,:".contains(c)))
}

/// What a picture must be, whatever it shows.
fn check(drawn: &ratatui::buffer::Buffer, app: &App, what: &str) {
    let (width, height) = (drawn.area.width, drawn.area.height);
    let lines: Vec<String> = drawn
        .content
        .chunks(usize::from(width))
        .map(|line| line.iter().map(ratatui::buffer::Cell::symbol).collect())
        .collect();
    let picture = || format!("{what}\n{}", lines.join("\n"));
    for line in &lines {
        if let Some(number) = cut_number(line) {
            // An address is cut at its place in a column, where the next one follows.
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
    let framed = layout.boxed() && height >= 15 && app.overlay == rocescope::tui::app::Overlay::None;
    if framed && app.prompt.is_none() && app.view.data.is_some() {
        for y in layout.body.y..layout.body.bottom() {
            let line = &lines[usize::from(y)];
            let (first, last) = (line.chars().next().unwrap_or(' '), line.chars().last().unwrap_or(' '));
            let whole = "│╭╰".contains(first) == "│╮╯".contains(last) && " │╭╰".contains(first);
            assert!(whole, "line {y} leaves its frame: {}", picture());
        }
    }
}

#[test]
fn pictures_of_any_state_and_size_are_whole() {
    let updates = sizes::cycle(sizes::CYCLE);
    let mut apps = vec![
        after(&World::sick(), USUAL, 30),
        after(&World::ipv6(), USUAL, 5),
        after(&World::many(1_500), USUAL, 3),
        app(&World::healthy(), USUAL),
        app(&World::live(), USUAL),
        App::new(options()),
        overview::replayed("e1_loss1.h1.pcap.gz", USUAL),
        sizes::until(&updates, 28),
        sizes::until(&updates, 47),
    ];
    let ends = |input: Input| matches!(input, Input::Quit | Input::Suspend);
    let keys: Vec<Key> =
        KEYMAP.iter().filter(|one| !ends(one.input)).flat_map(|one| one.keys).copied().collect();
    let mut chance = Chance(11);
    for round in 0..300 {
        let count = apps.len();
        let app = &mut apps[chance.below(count)];
        for _ in 0..chance.below(6) {
            let key = keys[chance.below(keys.len())];
            let _ = app.on_key(key);
        }
        app.settle();
        // What is laid out for one size is drawn in another.
        let (before, size) = (chance.size(), chance.size());
        app.on_resize(before.0, before.1);
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        terminal.draw(|frame| rocescope::tui::draw(frame, app)).unwrap();
        assert_eq!(app.view.size, size);
        let what = format!("round {round}: {:?} at {size:?}", app.view.screen);
        check(terminal.backend().buffer(), app, &what);
    }
}

#[test]
fn a_number_that_is_cut_is_found() {
    assert_eq!(cut_number("PSN 74…│").as_deref(), Some("74"));
    assert_eq!(cut_number(" 12:00:0… "), Some("12:00:0".to_owned()));
    assert_eq!(cut_number("2001…:3:4 h0… 4, 8… uplinks 5 … swp1…"), None);
}
