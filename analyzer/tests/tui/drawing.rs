//! Properties of every picture: states, keys and sizes by chance, and a size that changes between the layout and the
//! picture.

use super::*;
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
    words.find(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || ".,:".contains(c)))
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
        busy::app(),
    ];
    let ends = |input: Input| matches!(input, Input::Quit | Input::Suspend);
    let keys: Vec<Key> =
        KEYMAP.iter().filter(|one| !ends(one.input)).flat_map(|one| one.keys).copied().collect();
    let mut random = Random::new(11);
    for round in 0..300 {
        let count = apps.len();
        let app = &mut apps[random.index(count)];
        for _ in 0..random.index(6) {
            let key = keys[random.index(keys.len())];
            let _ = app.on_key(key);
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
        if app.overlay != rocescope::tui::app::Overlay::None || app.prompt.is_some() {
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
