//! The terminal UI as text: every screen at several sizes, and what every key does.
//!
//! Pictures are in tests/snapshots; `ROCESCOPE_BLESS=1 cargo test --test tui` writes them anew.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use rocescope::feed::Command;
use rocescope::sample::SourceKind;
use rocescope::tui::app::Screen;
use rocescope::tui::column::Id;
use rocescope::tui::key::{KEYMAP, Key};
use rocescope::tui::{Action, App, End, Options, render};

#[path = "support/fake.rs"]
#[allow(missing_docs, unreachable_pub, reason = "shared with an example")]
mod fake;
use fake::World;

fn options() -> Options {
    let mut options = Options { color: true, unicode: true, ..Options::default() };
    options.report.imbalance_all_links = true;
    options
}

/// The state after three seconds of `world`.
fn app(world: &World, size: (u16, u16)) -> App {
    let mut app = App::new(options());
    app.on_resize(size.0, size.1);
    for seconds in 1..=3 {
        app.on_events(&world.events(seconds));
        app.on_sample(Box::new(world.at(seconds)));
    }
    app
}

fn press(app: &mut App, keys: &[Key]) -> Action {
    keys.iter().map(|key| app.on_key(*key)).last().unwrap_or(Action::None)
}

fn draw(app: &App) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(app.size.0, app.size.1)).unwrap();
    terminal.draw(|frame| render(frame, app)).unwrap();
    terminal
}

/// The picture as lines of text.
fn text(app: &App) -> String {
    let terminal = draw(app);
    let buffer = terminal.backend().buffer();
    let width = usize::from(buffer.area.width).max(1);
    let mut text = String::new();
    for line in buffer.content.chunks(width) {
        let line: String = line.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Compares the picture with the one on file.
fn snapshot(name: &str, app: &App) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(format!("{name}.txt"));
    let text = text(app);
    if std::env::var_os("ROCESCOPE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{name} differs; ROCESCOPE_BLESS=1 writes it anew");
}

const SMALL: (u16, u16) = (60, 15);
const USUAL: (u16, u16) = (80, 24);
const WIDE: (u16, u16) = (120, 40);
const LARGE: (u16, u16) = (200, 60);

#[test]
fn nothing_to_see_says_why() {
    snapshot("waiting", &App::new(options()));
    snapshot("live_nothing", &app(&World::live(), USUAL));
    let mut world = World::live();
    world.skipped = World::healthy().skipped;
    snapshot("live_no_roce", &app(&world, USUAL));
    world = World::replay();
    world.skipped = vec![(rocescope_common::wire::Reason::Truncated, 2_000)];
    let mut ended = app(&world, USUAL);
    ended.on_end(End::Done);
    snapshot("replay_truncated", &ended);
    let mut empty = app(&World::replay(), USUAL);
    empty.on_end(End::Done);
    snapshot("replay_empty", &empty);
    let mut failed = App::new(options());
    failed.on_end(End::Failed("x.pcap: not a capture file".into()));
    snapshot("failed", &failed);
}

#[test]
fn one_queue_pair() {
    let mut world = World::healthy();
    world.flows.truncate(1);
    snapshot("one", &app(&world, USUAL));
}

#[test]
fn every_screen_of_a_healthy_host() {
    for (number, screen) in ('1'..).zip(["flows", "links", "events", "trends"]) {
        let mut app = app(&World::healthy(), USUAL);
        press(&mut app, &[Key::Char(number)]);
        snapshot(&format!("healthy_{screen}"), &app);
    }
}

#[test]
fn every_screen_of_a_sick_host_at_every_size() {
    for size in [SMALL, USUAL, WIDE, LARGE] {
        for (number, screen) in ('1'..).zip(["flows", "links", "events", "trends"]) {
            let mut app = app(&World::sick(), size);
            press(&mut app, &[Key::Char(number)]);
            snapshot(&format!("sick_{screen}_{}x{}", size.0, size.1), &app);
        }
        let mut detail = app(&World::sick(), size);
        press(&mut detail, &[Key::Down, Key::Enter]);
        snapshot(&format!("sick_detail_{}x{}", size.0, size.1), &detail);
        let mut help = app(&World::sick(), size);
        press(&mut help, &[Key::Char('?')]);
        snapshot(&format!("help_{}x{}", size.0, size.1), &help);
    }
}

#[test]
fn a_finished_replay_shows_averages() {
    let mut world = World::sick();
    world.kind = SourceKind::Replay;
    world.inputs = World::replay().inputs;
    world.capture_drops = Some(12);
    let mut app = app(&world, WIDE);
    app.on_notice("a notice of the source".into());
    app.on_end(End::Done);
    press(&mut app, &[Key::Char('x')]);
    snapshot("replay_ended", &app);
}

#[test]
fn ipv6_addresses() {
    for size in [USUAL, WIDE, LARGE] {
        snapshot(&format!("ipv6_{}x{}", size.0, size.1), &app(&World::ipv6(), size));
    }
}

#[test]
fn more_queue_pairs_than_lines() {
    let mut app = app(&World::many(1_500), USUAL);
    snapshot("many_top", &app);
    press(&mut app, &[Key::End]);
    snapshot("many_end", &app);
    press(&mut app, &[Key::Char('/'), Key::Char('l'), Key::Char('o'), Key::Char('s'), Key::Char('s')]);
    snapshot("many_filtered", &app);
    press(&mut app, &[Key::Char('x'), Key::Enter]);
    snapshot("many_no_match", &app);
}

#[test]
fn too_small_says_so() {
    for size in [(59, 15), (60, 14), (20, 3), (3, 1), (0, 0)] {
        let app = app(&World::sick(), size);
        let text = text(&app);
        assert!(size.0 < 30 || text.contains(&format!("too small: {}x{}", size.0, size.1)), "{text}");
    }
    snapshot("too_small", &app(&World::sick(), (59, 10)));
}

#[test]
fn every_size_is_drawn_without_panic() {
    for width in (0..260).step_by(13) {
        for height in (0..70).step_by(3) {
            let mut app = app(&World::sick(), (width, height));
            press(&mut app, &[Key::Down, Key::Enter]);
            for number in '1'..='4' {
                press(&mut app, &[Key::Char(number)]);
                draw(&app);
            }
            press(&mut app, &[Key::Char('?')]);
            draw(&app);
        }
    }
}

#[test]
fn without_utf8_every_symbol_is_ascii() {
    let mut app = app(&World::sick(), WIDE);
    app.options.unicode = false;
    app.speed = Some(1.0);
    snapshot("ascii", &app);
    for keys in [&[Key::Down, Key::Enter][..], &[Key::Tab], &[Key::Tab], &[Key::Tab], &[Key::Char('?')]] {
        press(&mut app, keys);
        let text = text(&app);
        assert!(text.is_ascii(), "{text}");
        let asked = text.lines().filter(|line| line.contains('?') && !line.contains("? h")).count();
        assert_eq!(asked, 0, "a symbol has no substitute: {text}");
    }
}

#[test]
fn without_colour_badges_are_reversed() {
    let mut app = app(&World::sick(), USUAL);
    let coloured = |app: &App| {
        let terminal = draw(app);
        let buffer = terminal.backend().buffer();
        buffer.content.iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    assert!(coloured(&app) > 0);
    let before = text(&app);
    app.options.color = false;
    assert_eq!(coloured(&app), 0);
    assert_eq!(text(&app), before, "words say what colours said");
    let terminal = draw(&app);
    let badge = terminal.backend().buffer().cell((1, 2)).unwrap().clone();
    assert!(badge.modifier.contains(ratatui::style::Modifier::REVERSED));
}

#[test]
fn every_key_of_the_table_does_something_anywhere() {
    for binding in KEYMAP {
        for key in binding.keys {
            for number in '1'..='4' {
                let mut app = app(&World::sick(), USUAL);
                press(&mut app, &[Key::Char(number)]);
                let action = app.on_key(*key);
                assert_ne!(action, Action::None, "{key}");
                draw(&app);
            }
        }
    }
}

#[test]
fn keys_that_leave() {
    for key in [Key::Char('q'), Key::Ctrl('c'), Key::Esc] {
        assert_eq!(app(&World::sick(), USUAL).on_key(key), Action::Quit, "{key}");
    }
    let mut app = app(&World::sick(), USUAL);
    assert_eq!(press(&mut app, &[Key::Ctrl('z')]), Action::Suspend);
    assert_eq!(press(&mut app, &[Key::Ctrl('l')]), Action::Redraw);
    // Esc closes one thing at a time: help, details, filter, selection.
    press(&mut app, &[Key::Char('/'), Key::Char('1'), Key::Enter, Key::Down, Key::Enter, Key::Char('?')]);
    assert!(app.help.is_some() && app.detail && app.selected.is_some() && app.filter.text == "1");
    assert_eq!(press(&mut app, &[Key::Esc]), Action::Draw);
    assert!(app.help.is_none() && app.detail);
    press(&mut app, &[Key::Esc]);
    assert!(!app.detail && !app.filter.text.is_empty());
    press(&mut app, &[Key::Esc]);
    assert!(app.filter.text.is_empty() && app.selected.is_some());
    press(&mut app, &[Key::Esc]);
    assert!(app.selected.is_none());
    assert_eq!(press(&mut app, &[Key::Esc]), Action::Quit);
}

#[test]
fn keys_that_change_screens() {
    let mut app = app(&World::sick(), USUAL);
    for (number, screen) in ('1'..).zip(Screen::ALL) {
        press(&mut app, &[Key::Char(number)]);
        assert_eq!(app.screen, screen);
    }
    press(&mut app, &[Key::Tab]);
    assert_eq!(app.screen, Screen::Flows);
    press(&mut app, &[Key::BackTab]);
    assert_eq!(app.screen, Screen::Trends);
}

#[test]
fn keys_that_move() {
    let mut app = app(&World::many(1_000), USUAL);
    let page = app.layout().page();
    for (keys, at) in [
        (&[Key::Down][..], 0),
        (&[Key::Char('j'), Key::Down], 2),
        (&[Key::Up], 1),
        (&[Key::Char('k'), Key::Up], 0),
        (&[Key::PageDown], page - 1),
        (&[Key::Ctrl('f')], 2 * page - 2),
        (&[Key::PageUp, Key::Ctrl('b')], 0),
        (&[Key::End], 999),
        (&[Key::Home], 0),
        (&[Key::Char('G')], 999),
        (&[Key::Char('g')], 0),
    ] {
        press(&mut app, keys);
        assert_eq!(app.flows.selected, Some(at), "{keys:?}");
        assert!(app.flows.offset <= at && at < app.flows.offset + page);
    }
}

#[test]
fn keys_that_sort() {
    let mut app = app(&World::many(1_000), USUAL);
    assert_eq!(app.sort.by, Id::State);
    press(&mut app, &[Key::Char('s')]);
    assert_eq!((app.sort.by, app.sort.descending), (Id::Source, false));
    press(&mut app, &[Key::Right, Key::Right]);
    assert_eq!(app.sort.by, Id::Qp);
    let qps = |app: &App| {
        let data = app.data.as_ref().unwrap();
        app.order.iter().map(|i| data.model.rows[*i].id.key.dest_qp).collect::<Vec<_>>()
    };
    assert!(qps(&app).is_sorted());
    press(&mut app, &[Key::Char('S')]);
    assert!(qps(&app).is_sorted_by(|a, b| a >= b));
    press(&mut app, &[Key::Char('r')]);
    assert!(qps(&app).is_sorted());
    press(&mut app, &[Key::Left, Key::Left, Key::Left]);
    assert_eq!(app.sort.by, Id::State);
    press(&mut app, &[Key::Left]);
    assert_eq!(app.sort.by, Id::Naks, "before the first comes the last visible column");
}

#[test]
fn the_selected_row_keeps_its_line_when_others_move() {
    let world = World::many(1_000);
    let mut app = app(&world, USUAL);
    // By rate, largest first.
    press(&mut app, &[Key::Char('s'); 4]);
    assert_eq!(app.sort.by, Id::Rate);
    press(&mut app, &[Key::PageDown, Key::PageDown, Key::Up, Key::Up]);
    let (selected, line) = (app.selected, app.flows.selected.unwrap() - app.flows.offset);
    assert!(selected.is_some() && line > 0);
    // The selected flow becomes the slowest but a hundred: it goes far down the table.
    let mut sample = world.at(4);
    for flow in sample.flows.iter_mut().filter(|flow| Some(flow.key) != selected.map(|id| id.key)) {
        flow.stats.bytes += 1 << 40;
    }
    app.on_sample(Box::new(sample));
    assert_eq!(app.selected, selected);
    assert_eq!(app.flows.selected, Some(999));
    // When the flow is gone, so is the selection.
    let mut sample = world.at(5);
    sample.flows.retain(|flow| Some(flow.key) != selected.map(|id| id.key));
    app.on_sample(Box::new(sample));
    assert_eq!((app.selected, app.flows.selected), (None, None));
}

#[test]
fn keys_that_filter() {
    let mut app = app(&World::sick(), USUAL);
    let all = app.order.len();
    press(&mut app, &[Key::Char('/')]);
    for c in "10.1.2.12 LOSS qp4642".chars() {
        // q is a letter here.
        assert_eq!(app.on_key(Key::Char(c)), Action::Draw);
    }
    assert_eq!(app.order.len(), 1);
    for _ in 0..7 {
        press(&mut app, &[Key::Backspace]);
    }
    assert_eq!(app.order.len(), 2, "the flow and its answers");
    press(&mut app, &[Key::Enter]);
    assert!(!app.filter.editing && !app.filter.text.is_empty());
    press(&mut app, &[Key::Char('/'), Key::Ctrl('u')]);
    assert_eq!(app.order.len(), all);
    press(&mut app, &[Key::Char('x'), Key::Esc]);
    assert_eq!((app.order.len(), app.filter.editing), (all, false));
    press(&mut app, &[Key::Char('/')]);
    assert_eq!(app.on_key(Key::Ctrl('c')), Action::Quit);
}

#[test]
fn keys_that_pause_and_speed_up() {
    let mut live = app(&World::sick(), USUAL);
    assert_eq!(press(&mut live, &[Key::Char(' ')]), Action::Draw);
    assert!(live.frozen());
    assert_eq!(press(&mut live, &[Key::Char(' ')]), Action::Thaw);
    assert!(!live.frozen());
    assert_eq!(press(&mut live, &[Key::Char('+')]), Action::Draw);

    let mut replay = app(&World::replay(), USUAL);
    replay.speed = Some(1.0);
    assert_eq!(press(&mut replay, &[Key::Char(' ')]), Action::Send(Command::Pause(true)));
    assert!(!replay.frozen());
    assert_eq!(press(&mut replay, &[Key::Char(' ')]), Action::Send(Command::Pause(false)));
    assert_eq!(press(&mut replay, &[Key::Char('+')]), Action::Send(Command::Speed(2.0)));
    assert_eq!(press(&mut replay, &[Key::Char('-')]), Action::Send(Command::Speed(1.0)));
    replay.on_end(End::Done);
    assert_eq!(press(&mut replay, &[Key::Char(' ')]), Action::Draw);
    assert_eq!(press(&mut replay, &[Key::Char('+')]), Action::Draw);
    assert!(!replay.paused);
}

#[test]
fn help_scrolls_and_names_every_key() {
    let mut app = app(&World::sick(), WIDE);
    press(&mut app, &[Key::Char('?')]);
    let mut seen = text(&app);
    press(&mut app, &[Key::End]);
    seen.push_str(&text(&app));
    for binding in KEYMAP {
        assert!(seen.contains(binding.shown) && seen.contains(binding.help), "{}", binding.shown);
    }
    press(&mut app, &[Key::PageUp, Key::Up, Key::Down, Key::Home]);
    assert_eq!(app.help, Some(0));
    press(&mut app, &[Key::Char('h')]);
    assert_eq!(app.help, None);
}

#[test]
fn older_events_stay_in_place_while_new_ones_come() {
    let world = World::sick();
    let mut app = app(&world, USUAL);
    press(&mut app, &[Key::Char('3'), Key::Down, Key::Down]);
    let before = text(&app);
    app.on_events(&world.events(4));
    let rows = |text: &str| text.lines().skip(6).take(12).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(rows(&before), rows(&text(&app)));
}
