//! What a click opens: badges, and rows that show what is on another screen.

use super::*;
use rocescope::findings::Problem;
use rocescope::tui::app::Overlay;
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
