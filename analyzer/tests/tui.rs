//! The terminal UI as text: every screen at several sizes, and what every key does.
//!
//! Pictures are in tests/snapshots; `INSTA_UPDATE=always cargo test --test tui` writes them anew.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use rocescope::sample::SourceKind;
use rocescope::tui::analysis::Analyst;
use rocescope::tui::key::{KEYMAP, Key};
use rocescope::tui::theme::{Name, Theme};
use rocescope::tui::{Action, App, End, Options, Screen, render};

#[path = "support/document.rs"]
#[allow(dead_code, missing_docs, unreachable_pub, reason = "shared with other tests")]
mod document;
#[path = "support/fake.rs"]
#[allow(dead_code, missing_docs, unreachable_pub, reason = "shared with an example")]
mod fake;
use fake::{Spec, World};

#[path = "tui/bound.rs"]
mod bound;
#[path = "tui/busy.rs"]
mod busy;
#[path = "tui/clicks.rs"]
mod clicks;
#[path = "tui/columns.rs"]
mod columns;
#[path = "tui/devices.rs"]
mod devices;
#[path = "tui/drawing.rs"]
mod drawing;
#[path = "tui/events.rs"]
mod events;
#[path = "tui/exports.rs"]
mod exports;
#[path = "tui/filters.rs"]
mod filters;
#[path = "tui/glance.rs"]
mod glance;
#[path = "tui/hostile.rs"]
mod hostile;
#[path = "tui/keys.rs"]
mod keys;
#[path = "tui/links.rs"]
mod links;
#[path = "tui/nic.rs"]
mod nic;
#[path = "tui/overview.rs"]
mod overview;
#[path = "tui/pictures.rs"]
mod pictures;
#[path = "tui/problem.rs"]
mod problem;
#[path = "tui/replays.rs"]
mod replays;
#[path = "tui/sizes.rs"]
mod sizes;
#[path = "tui/stopwatch.rs"]
mod stopwatch;
#[path = "tui/taps.rs"]
mod taps;
#[path = "tui/time.rs"]
mod time;

fn options() -> Options {
    let mut options = Options {
        theme: Theme { name: Name::Ansi, ..Theme::default() },
        unicode: true,
        ..Options::default()
    };
    options.report.analysis.imbalance_all_links = true;
    options
}

/// The state after `seconds` of `world`, with conclusions.
fn after(world: &World, size: (u16, u16), seconds: u64) -> App {
    let mut app = App::new(options());
    let mut analyst = Analyst::new(app.view.options.report.clone());
    app.on_resize(size.0, size.1);
    for second in 1..=seconds {
        app.on_events(&world.events(second));
        app.on_sample(Arc::new(world.at(second)));
        // Twice is enough for a spread in the time range, and a report of many flows takes its time.
        if second == 1 || second == seconds {
            app.analyse_with(&mut analyst);
        }
    }
    app
}

/// The same after three seconds.
fn app(world: &World, size: (u16, u16)) -> App {
    after(world, size, 3)
}

/// The same on the screen of queue pairs.
fn table(world: &World, size: (u16, u16)) -> App {
    let mut app = app(world, size);
    press(&mut app, &[Key::Char('2')]);
    app
}

fn press(app: &mut App, keys: &[Key]) -> Action {
    keys.iter().map(|key| app.on_key(*key)).last().unwrap_or(Action::None)
}

fn type_text(app: &mut App, text: &str) {
    for c in text.chars() {
        assert_eq!(app.on_key(Key::Char(c)), Action::Draw);
    }
}

/// All groups of the table.
fn sums(app: &App) -> Vec<rocescope::tui::table::GroupRow> {
    (0..app.screens.flows.groups.len()).filter_map(|at| app.screens.flows.group_sum(&app.view, at)).collect()
}

fn draw(app: &App) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(app.view.size.0, app.view.size.1)).unwrap();
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

/// The picture with a line below each that says what is reversed (R), bold (B) and dim (D).
fn with_attributes(app: &App) -> String {
    use ratatui::style::Modifier;
    let terminal = draw(app);
    let buffer = terminal.backend().buffer();
    let attributes = buffer.content.chunks(usize::from(buffer.area.width).max(1)).map(|line| {
        let letter = |cell: &ratatui::buffer::Cell| match cell.modifier {
            m if m.contains(Modifier::REVERSED) => 'R',
            m if m.contains(Modifier::BOLD) => 'B',
            m if m.contains(Modifier::DIM) => 'D',
            _ => ' ',
        };
        line.iter().map(letter).collect::<String>().trim_end().to_owned()
    });
    let mut all = String::new();
    for (text, attributes) in text(app).lines().zip(attributes) {
        all.extend([text, "\n", &attributes, "\n"]);
    }
    all
}

/// Compares the picture with the one on file.
fn snapshot(name: &str, app: &App) {
    compare(name, &text(app));
}

fn compare(name: &str, text: &str) {
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, text);
    });
}

const SMALL: (u16, u16) = (60, 15);
const USUAL: (u16, u16) = (80, 24);
const WIDE: (u16, u16) = (120, 40);
const LARGE: (u16, u16) = (200, 60);

/// The key that selects the first row: on the overview it is selected before the first key.
fn first(screen: Screen) -> Key {
    if screen == Screen::Overview { Key::Home } else { Key::Down }
}

/// A picture of every screen, with something selected on those that have lists.
fn every_screen(name: &str, world: &World, size: (u16, u16)) {
    for screen in Screen::TABS {
        let mut app = app(world, size);
        if screen == Screen::Detail && !world.flows.is_empty() {
            press(&mut app, &[Key::Char('2'), Key::Down, Key::Enter]);
        } else {
            press(&mut app, &[Key::Char(char::from(b'1' + screen as u8)), first(screen)]);
        }
        assert_eq!(app.view.screen, screen);
        snapshot(&format!("{name}_{}_{}x{}", screen.name(), size.0, size.1), &app);
    }
}

#[test]
fn nothing_to_see_says_why() {
    snapshot("waiting", &App::new(options()));
    snapshot("live_nothing", &app(&World::live(), USUAL));
    let mut world = World::live();
    world.skipped = World::healthy().skipped;
    snapshot("live_no_roce", &app(&world, USUAL));
    world = World::replay();
    world.skipped = vec![(rocescope_common::wire::SkipReason::Truncated, 2_000)];
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

/// No screen is ever blank: it has what there is to see, or a sentence about why there is nothing.
#[test]
fn an_empty_screen_says_why_it_is_empty() {
    for world in [World::live(), World::replay()] {
        for screen in Screen::TABS {
            let mut app = app(&world, USUAL);
            press(&mut app, &[Key::Char(char::from(b'1' + screen as u8))]);
            let body: Vec<String> = text(&app).lines().skip(4).take(18).map(str::to_owned).collect();
            let words = body.iter().flat_map(|line| line.split_whitespace()).count();
            assert!(words >= 5, "{screen:?}: {body:#?}");
        }
    }
    every_screen("empty", &World::live(), USUAL);
}

#[test]
fn one_queue_pair() {
    let mut world = World::healthy();
    world.flows.truncate(1);
    every_screen("one", &world, USUAL);
}

#[test]
fn every_screen_of_a_healthy_host() {
    every_screen("healthy", &World::healthy(), USUAL);
}

#[test]
fn every_screen_of_a_sick_host_at_every_size() {
    for size in [SMALL, USUAL, WIDE, LARGE] {
        every_screen("sick", &World::sick(), size);
        let mut help = table(&World::sick(), size);
        press(&mut help, &[Key::Char('?')]);
        snapshot(&format!("help_{}x{}", size.0, size.1), &help);
    }
}

#[test]
fn boxes_over_the_screens() {
    let mut app = app(&World::sick(), USUAL);
    press(&mut app, &[Key::Char('7')]);
    press(&mut app, &[Key::Char('/')]);
    type_text(&mut app, "event nak");
    press(&mut app, &[Key::Enter, Key::Down, Key::Enter]);
    snapshot("packet_top", &app);
    press(&mut app, &[Key::End]);
    snapshot("packet_end", &app);
    press(&mut app, &[Key::Esc, Key::Char('2'), Key::Char('c'), Key::Down]);
    snapshot("columns", &app);
    press(&mut app, &[Key::Esc, Key::Char('o')]);
    snapshot("by_hosts", &app);
    press(&mut app, &[Key::Char('o')]);
    snapshot("by_link", &app);
    press(&mut app, &[Key::Char('5'), Key::Char('u')]);
    let mut analyst = Analyst::new(app.view.options.report.clone());
    app.analyse_with(&mut analyst);
    snapshot("links_what_if", &app);
    for _ in 0..7 {
        press(&mut app, &[Key::Char('4'), Key::Char('v')]);
        let name = format!("matrix_{:?}", app.screens.matrix.metric).to_lowercase();
        snapshot(&name, &app);
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
    snapshot("replay_notice", &app);
    press(&mut app, &[Key::Char('2')]);
    snapshot("replay_ended", &app);
}

#[test]
fn ipv6_addresses() {
    for size in [USUAL, WIDE, LARGE] {
        every_screen("ipv6", &World::ipv6(), size);
    }
    // Long addresses leave each problem its place and cost.
    let shown = text(&app(&World::ipv6(), WIDE));
    let problems = shown.split(" PROBLEMS ").nth(1).unwrap();
    let has = |part| problems.contains(part);
    assert!(has("  upstream of eth0 ingress") && has("  eth0 ingress, parallel to eth1"), "{shown}");
    assert!(shown.contains("│ 1 On the switch port") && shown.contains(" EVENTS "), "{shown}");
}

#[test]
fn more_queue_pairs_than_lines() {
    let mut app = table(&World::many(1_500), USUAL);
    snapshot("many_top", &app);
    press(&mut app, &[Key::End]);
    snapshot("many_end", &app);
    press(&mut app, &[Key::Char('/')]);
    type_text(&mut app, "loss");
    snapshot("many_filtered", &app);
    press(&mut app, &[Key::Char('x'), Key::Enter]);
    snapshot("many_no_match", &app);
}

/// As many as the kernel's table holds. Two samples are enough.
#[test]
fn a_full_table() {
    let world = World::many(65_536);
    let mut app = App::new(options());
    for second in 1..=2 {
        app.on_sample(Arc::new(world.at(second)));
    }
    snapshot("full_overview", &app);
    app.analyse_with(&mut Analyst::new(app.view.options.report.clone()));
    for screen in Screen::TABS {
        press(&mut app, &[Key::Char(char::from(b'1' + screen as u8))]);
        // Many flows are added up by host where no key waits for it, and when somebody looks.
        assert_eq!(app.awaited(), screen == Screen::Matrix);
        assert_eq!(text(&app).contains("flows by host…"), screen == Screen::Matrix);
        app.settle();
        press(&mut app, &[first(screen)]);
        snapshot(&format!("full_{}_80x24", screen.name()), &app);
    }
    press(&mut app, &[Key::Char('2'), Key::Down, Key::End]);
    snapshot("full_qps_end", &app);
    press(&mut app, &[Key::Char('/')]);
    type_text(&mut app, "rate > 3.3G !state loss");
    app.settle();
    snapshot("full_filtered", &app);
}

#[test]
fn a_small_terminal_shows_a_card_with_the_verdict_and_three_problems() {
    for size in [(59, 15), (60, 14), (20, 3), (3, 1), (0, 0)] {
        let app = app(&World::sick(), size);
        let text = text(&app);
        assert!(
            size.0 < 30 || text.starts_with(" ✖ FATAL NAK") && text.contains("60x15 shows more"),
            "{text}"
        );
    }
    snapshot("card", &app(&World::sick(), (59, 10)));
    snapshot("card_healthy", &app(&World::healthy(), (40, 8)));
}

/// The terminal may change between the layout of the state and the picture: the picture has the frame's size, and is
/// that of a state which knew it before.
#[test]
fn a_resize_before_the_picture_is_drawn_in_the_new_size() {
    let mut numbers = rocescope_common::random::Random::new(7);
    let mut random = |below: u16| numbers.below_u16(below);
    let states: [fn() -> App; 4] = [
        || after(&World::sick(), USUAL, 30),
        || app(&World::healthy(), USUAL),
        || App::new(options()),
        || overview::replayed("g_rnr.h0.pcap", USUAL),
    ];
    let mut apps: Vec<App> = states.iter().map(|state| state()).collect();
    let boxes = [&[][..], &[Key::Char('?')], &[Key::Char('c')], &[Key::Char('y')], &[Key::Enter]];
    for round in 0..160 {
        let app = &mut apps[usize::from(random(4))];
        let number = Key::Char(char::from(b'1' + u8::try_from(random(8)).unwrap()));
        press(app, &[number, Key::Down, Key::End]);
        press(app, boxes[usize::from(random(5))]);
        app.on_resize(random(401), random(121));
        let size = (random(401), random(121));
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        terminal.draw(|frame| rocescope::tui::draw(frame, app)).unwrap();
        assert_eq!(app.view.size, size);
        let drawn = terminal.backend().buffer().clone();
        assert_eq!(&drawn, draw(app).backend().buffer(), "round {round}: {size:?} on {:?}", app.view.screen);
        press(app, &[Key::Esc]);
    }
}

#[test]
fn without_utf8_every_symbol_is_ascii() {
    let mut app = app(&World::sick(), WIDE);
    app.view.options.unicode = false;
    app.view.timeline.speed = Some(1.0);
    for number in '1'..='8' {
        press(&mut app, &[Key::Char(number), Key::Down]);
        snapshot(&format!("ascii_{}", app.view.screen.name()), &app);
        for overlay in [false, true] {
            if overlay {
                press(&mut app, &[Key::Char('?')]);
            }
            let text = text(&app);
            assert!(text.is_ascii(), "{text}");
            // What has no substitute becomes a question mark.
            let asked = text.lines().filter(|line| line.contains('?') && !line.contains("? help"));
            let asked: Vec<&str> = asked.filter(|line| !line.contains("? F1  ")).collect();
            assert!(asked.is_empty(), "a symbol has no substitute: {asked:?}");
        }
        press(&mut app, &[Key::Esc]);
    }
}

#[test]
fn without_colour_badges_are_reversed_and_words_say_what_colours_said() {
    for number in '1'..='8' {
        let mut app = app(&World::sick(), USUAL);
        press(&mut app, &[Key::Char(number)]);
        let coloured = |app: &App| {
            let terminal = draw(app);
            let buffer = terminal.backend().buffer();
            buffer.content.iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
        };
        assert!(coloured(&app) > 0);
        let before = text(&app);
        app.view.options.theme.name = Name::Mono;
        assert_eq!(coloured(&app), 0);
        assert_eq!(text(&app), before);
        let terminal = draw(&app);
        let badge = terminal.backend().buffer().cell((1, 0)).unwrap().clone();
        assert!(badge.modifier.contains(ratatui::style::Modifier::REVERSED));
        compare(&format!("plain_{}_80x24", app.view.screen.name()), &with_attributes(&app));
    }
}

#[test]
fn the_users_colours_replace_the_usual_ones() {
    let mut app = table(&World::sick(), USUAL);
    let has = |app: &App, color: Color| {
        let terminal = draw(app);
        let buffer = terminal.backend().buffer();
        buffer.content.iter().any(|cell| cell.fg == color || cell.bg == color)
    };
    assert!(has(&app, Color::Red) && !has(&app, Color::Indexed(208)));
    app.view.options.theme.overrides.critical = Some(Color::Indexed(208));
    assert!(!has(&app, Color::Red) && has(&app, Color::Indexed(208)));
}

#[test]
fn help_scrolls_and_names_every_key_of_its_screen() {
    for screen in Screen::TABS {
        let mut app = app(&World::sick(), LARGE);
        press(&mut app, &[Key::Char(char::from(b'1' + screen as u8)), Key::Char('?')]);
        let mut seen = text(&app);
        press(&mut app, &[Key::End]);
        seen.push_str(&text(&app));
        for binding in KEYMAP {
            let there = seen.lines().any(|line| {
                line.contains(&app.view.options.keys.shown(binding)) && line.contains(binding.help)
            });
            // A live view has no speed, this one no dumps, and bursts are no rows.
            let works = match binding.name {
                "faster" | "slower" | "dump" => false,
                "copy" => screen != Screen::Bursts,
                _ => binding.on.has(screen),
            };
            assert_eq!(there, works, "{} on {screen:?}", binding.name);
        }
        press(&mut app, &[Key::PageUp, Key::Up, Key::Down, Key::Home, Key::Char('?')]);
        assert_eq!(app.overlay, rocescope::tui::app::Overlay::None);
    }
}
