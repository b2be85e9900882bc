//! Events: marked and opened on the details too, and as they stood at the snapshot shown.

use super::*;
use rocescope::sample::EventSample;
use rocescope::tui::app::Overlay;
use rocescope::tui::mouse::Mouse;
use rocescope_common::account::Event;

/// The details of the first queue pair that had a NAK.
fn details(size: (u16, u16)) -> App {
    let mut app = app(&World::sick(), size);
    press(&mut app, &[Key::Char('2'), Key::Char('/')]);
    type_text(&mut app, "nak > 0");
    press(&mut app, &[Key::Enter, Key::Down, Key::Enter]);
    assert_eq!(app.view.screen, Screen::Detail);
    app
}

/// The line of the screen that is shown as selected.
fn reversed(app: &App) -> Option<String> {
    let terminal = draw(app);
    let buffer = terminal.backend().buffer();
    let width = usize::from(buffer.area.width);
    let body = app.view.layout().body;
    let at = (body.top()..body.bottom())
        .find(|y| buffer.cell((10, *y)).unwrap().modifier.contains(ratatui::style::Modifier::REVERSED))?;
    let line = &buffer.content[usize::from(at) * width..][..width];
    Some(line.iter().map(ratatui::buffer::Cell::symbol).collect())
}

#[test]
fn enter_on_the_details_opens_the_latest_event_with_its_headers() {
    let mut app = details(USUAL);
    assert!(app.screens.detail.events(&app.view).len() > 1, "one can choose");
    press(&mut app, &[Key::Enter]);
    snapshot("detail_packet", &app);
    let shown = text(&app);
    assert!(shown.contains("Ethernet, offset 0"), "{shown}");
    press(&mut app, &[Key::End]);
    assert!(text(&app).contains("Bytes"), "{}", text(&app));
    press(&mut app, &[Key::Esc]);
    assert_eq!((app.overlay, app.view.screen), (Overlay::None, Screen::Detail));
    assert!(reversed(&app).is_some(), "it is in view, and marked");
    press(&mut app, &[Key::Esc]);
    assert_eq!(app.view.screen, Screen::Qps);
}

#[test]
fn down_scrolls_to_the_events_and_then_goes_through_them() {
    for size in [SMALL, USUAL, LARGE] {
        let mut app = details(size);
        let numbers: Vec<u64> =
            app.screens.detail.events(&app.view).iter().map(|listed| listed.entry.number).collect();
        let mut marked = Vec::new();
        for _ in 0..120 {
            press(&mut app, &[Key::Down]);
            if let Some(number) = app.screens.detail.marked.filter(|number| marked.last() != Some(number)) {
                marked.push(number);
                let line = reversed(&app).expect("the marked line is in view");
                let word = app.view.log.entry(number).unwrap().class.word;
                assert!(line.contains(word), "{word}: {line}");
            }
        }
        assert_eq!(marked, numbers, "{size:?}");
        // The last one opens; so does a click on it, once it is marked.
        press(&mut app, &[Key::Enter]);
        let Overlay::Packet(opened) = app.overlay else { panic!("{:?}", app.overlay) };
        assert_eq!(Some(&opened.entry), numbers.last());
        press(&mut app, &[Key::Esc]);
        for _ in 0..120 {
            press(&mut app, &[Key::Up]);
        }
        assert_eq!((app.screens.detail.marked, app.screens.detail.scroll.offset), (None, 0), "{size:?}");
        press(&mut app, &[Key::PageDown, Key::End, Key::Home]);
        assert_eq!((app.screens.detail.marked, app.screens.detail.scroll.offset), (None, 0));
    }
}

#[test]
fn a_click_marks_an_event_of_the_details_and_another_opens_it() {
    let mut app = details(LARGE);
    let lines: Vec<String> = text(&app).lines().map(str::to_owned).collect();
    let title = lines.iter().position(|line| line.contains("EVENTS of this queue pair")).unwrap();
    let click = Mouse::Click(5, u16::try_from(title + 2).unwrap());
    let second = app.screens.detail.events(&app.view)[1].entry.number;
    assert_eq!(app.on_mouse(click), Action::Draw);
    assert_eq!((app.screens.detail.marked, app.overlay), (Some(second), Overlay::None));
    assert_eq!(app.on_mouse(click), Action::Draw);
    assert!(matches!(app.overlay, Overlay::Packet(opened) if opened.entry == second));
}

/// Notifications of a flow every 0.4 s, so that they are one row, each with a PSN of its own.
pub(super) fn notified(world: &World, second: u64) -> Vec<EventSample> {
    let of = world.events(1).into_iter().find(|event| event.events & Event::CNP != 0).unwrap();
    let time = |nth| fake::START_NS + (second - 1) * 1_000_000_000 + nth * 400_000_000 + 100_000_000;
    (0..2)
        .map(|nth| EventSample {
            time_ns: time(nth),
            psn: u32::try_from(second * 10 + nth).unwrap(),
            ..of.clone()
        })
        .collect()
}

#[test]
fn a_row_of_several_events_is_that_of_the_snapshot_shown() {
    let world = World::sick();
    let mut app = App::new(options());
    app.on_resize(120, 40);
    for second in 1..=5 {
        app.on_events(&notified(&world, second));
        app.on_sample(Arc::new(world.at(second)));
    }
    press(&mut app, &[Key::Char('7')]);
    let row = |app: &App| text(app).lines().find(|line| line.contains("· CNP ")).unwrap().to_owned();
    assert!(row(&app).contains("12:00:04.500") && row(&app).contains("×10 in 4.40 s"), "{}", row(&app));
    press(&mut app, &[Key::Char(' '), Key::Char(','), Key::Char(',')]);
    assert!(row(&app).contains("12:00:02.500") && row(&app).contains("×6 in 2.40 s"), "{}", row(&app));
    // Events come before the figures of the snapshot between them.
    let mut early = App::new(options());
    early.on_resize(120, 40);
    for second in 1..=4 {
        early.on_events(&notified(&world, second));
        if second > 1 {
            early.on_sample(Arc::new(world.at(second - 1)));
        }
    }
    press(&mut early, &[Key::Char('7'), Key::Char(' '), Key::Char(',')]);
    assert!(row(&early).contains("12:00:01.500") && row(&early).contains("×4 in "), "{}", row(&early));
    // Events during the pause are cut at the snapshots as well.
    for second in 6..=9 {
        app.on_events(&notified(&world, second));
        app.on_sample(Arc::new(world.at(second)));
    }
    press(&mut app, &[Key::Char(' '), Key::Char(' '), Key::Char(','), Key::Char(',')]);
    assert!(row(&app).contains("12:00:06.500") && row(&app).contains("×14 in "), "{}", row(&app));

    press(&mut app, &[Key::Down, Key::Enter]);
    let psn = |app: &App| app.opened().unwrap().0.psn;
    assert_eq!(psn(&app), 71, "the latest of then");
    assert!(text(&app).contains("14 events, 12:00:00.100–12:00:06.500"), "{}", text(&app));
    press(&mut app, &[Key::Char('N')]);
    assert_eq!(psn(&app), 71, "nothing later than the snapshot shown");
    assert!(app.view.messages.answer.as_ref().unwrap().contains("newer"), "{:?}", app.view.messages.answer);
    press(&mut app, &[Key::Char('n'), Key::Char('n')]);
    assert_eq!(psn(&app), 61);
    for _ in 0..20 {
        press(&mut app, &[Key::Char('n')]);
    }
    assert_eq!(psn(&app), 10, "every one of them opens");
    press(&mut app, &[Key::Char('N')]);
    assert_eq!(psn(&app), 11);
    press(&mut app, &[Key::Esc]);
    // Of the first snapshot there is its first row only.
    for _ in 0..9 {
        press(&mut app, &[Key::Char(',')]);
    }
    assert!(row(&app).contains("12:00:00.500") && row(&app).contains("×2 in "), "{}", row(&app));
}

/// In 80 columns the reason of an event comes before how long it lasted and which taps saw it.
#[test]
fn in_a_narrow_list_what_happened_comes_first() {
    let pair = ["e1_loss1.h0.pcap.gz", "e1_loss1.h1.pcap.gz"];
    let mut app = overview::replayed_together(&pair, USUAL);
    press(&mut app, &[Key::Char('7')]);
    let screen = text(&app);
    let of = |word: &str| screen.lines().find(|line| line.contains(word)).unwrap_or_default();
    assert!(of("NAK   10.0.0.2").contains("PSN sequence error"), "{screen}");
    let gap = of("GAP   10.0.0.1");
    assert!(gap.contains("1 PSN, NAK") && gap.contains("GBN ") && !gap.contains("at h1"), "{screen}");
    app.on_resize(160, 48);
    let screen = text(&app);
    let gap = screen.lines().find(|line| line.contains("GAP   10.0.0.1")).unwrap_or_default();
    assert!(gap.contains(" in 988 ms  at h1  1 PSN missing from ") && gap.contains("go-back-N"), "{screen}");
}

#[test]
fn a_click_on_the_title_and_the_help_show_the_privileges_of_the_run() {
    let notes =
        ["privileges: no new privileges", "privileges: no capabilities", "capabilities after set-up: none"];
    let mut app = App::new(Options { notes: notes.map(str::to_owned).to_vec(), ..options() });
    app.on_resize(80, 24);
    assert_eq!(app.on_mouse(Mouse::Click(5, 0)), Action::Draw);
    let shown = text(&app);
    for part in
        ["Privileges of this run", "privileges         no capabilities", "capabilities after set-up none"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // The same lines end the help of every screen.
    press(&mut app, &[Key::Esc, Key::Char('?'), Key::End]);
    assert!(text(&app).contains("no new privileges"), "{}", text(&app));
    let mut bare = App::new(options());
    bare.on_resize(80, 24);
    let _ = bare.on_mouse(Mouse::Click(5, 0));
    assert_eq!(bare.overlay, Overlay::None);
}
