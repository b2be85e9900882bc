//! Each key of the table of keys: what it does, on a screen where it is bound. An input without a case does not
//! compile.

use super::*;
use rocescope::model::TimeRange;
use rocescope::source::feed::Command;
use rocescope::tui::app::Overlay;
use rocescope::tui::column::sets::SETS;
use rocescope::tui::key::{Binding, Input};
use rocescope::tui::peers::PeerGrouping;
use rocescope::tui::prompt::Purpose;
use rocescope::tui::table::Group;

/// Enough that there is something ten seconds back.
const SECONDS: u64 = 14;

fn time_ns(app: &App) -> u64 {
    app.view.data.as_ref().unwrap().model.time_ns
}

fn selected(app: &App) -> Option<usize> {
    app.screens.flows.cursor.selected
}

/// The state in which the keys of a binding are tried: on a screen where they are bound, while values move.
fn ready(world: &World, binding: &Binding) -> App {
    let screen =
        [Screen::Qps, Screen::Matrix, Screen::Links, Screen::Findings, Screen::Events, Screen::Overview]
            .into_iter()
            .find(|screen| binding.on.has(*screen));
    let mut app = after(world, USUAL, SECONDS);
    press(&mut app, &[Key::Char(char::from(b'1' + screen.unwrap() as u8))]);
    app
}

#[test]
fn every_key_of_the_table_does_what_the_table_says() {
    let sick = World::sick();
    for binding in KEYMAP {
        assert!(!binding.keys.is_empty(), "{}", binding.name);
        for key in binding.keys {
            let mut app = ready(&sick, binding);
            check(binding.input, &mut app, *key);
        }
    }
}

fn check(input: Input, app: &mut App, key: Key) {
    assert!(app.screens.flows.order.len() > 4);
    match input {
        Input::Up | Input::Down | Input::PageUp | Input::PageDown | Input::First | Input::Last => {
            scrolls(input, app, key);
        }
        Input::Left
        | Input::Right
        | Input::Open
        | Input::Screen(_)
        | Input::NextScreen
        | Input::PreviousScreen
        | Input::NicQps => goes(input, app, key),
        Input::SortNext
        | Input::Reverse
        | Input::Columns
        | Input::ColumnSet
        | Input::Group
        | Input::Mark
        | Input::OnlyMarked
        | Input::Follow
        | Input::Filter => arranges(input, app, key),
        Input::ZoomIn
        | Input::ZoomOut
        | Input::Theme
        | Input::Metric
        | Input::MoreUplinks
        | Input::FewerUplinks
        | Input::Help
        | Input::Redraw
        | Input::Suspend
        | Input::Back
        | Input::Quit => shows_otherwise(input, app, key),
        Input::GoTo
        | Input::Pause
        | Input::Earlier
        | Input::Later
        | Input::JumpBack
        | Input::JumpForward
        | Input::Faster
        | Input::Slower
        | Input::TimeRange
        | Input::Reset => moves_in_time(input, app, key),
        Input::ExportCsv
        | Input::ExportJson
        | Input::Capture
        | Input::Dump
        | Input::Older
        | Input::Newer
        | Input::Copy => takes_away(input, app, key),
    }
}

/// Keys that move within a list.
fn scrolls(input: Input, app: &mut App, key: Key) {
    let rows = app.screens.flows.order.len();
    match input {
        Input::Up => {
            press(app, &[Key::Down, Key::Down, Key::Down, key]);
            assert_eq!(selected(app), Some(1));
        }
        Input::Down => {
            press(app, &[key, key]);
            assert_eq!(selected(app), Some(1));
        }
        Input::PageUp => {
            app.on_resize(60, 15);
            press(app, &[Key::End, key]);
            assert!(selected(app).is_some_and(|at| at + 2 < rows), "{key}");
        }
        Input::PageDown => {
            press(app, &[Key::Home, key]);
            assert!(selected(app).is_some_and(|at| at > 2), "{key}");
        }
        Input::First => {
            press(app, &[Key::End, key]);
            assert_eq!(selected(app), Some(0));
        }
        Input::Last => {
            press(app, &[key]);
            assert_eq!(selected(app), Some(rows - 1));
        }
        _ => panic!("{input:?}"),
    }
}

/// Keys that lead to another cell or screen.
fn goes(input: Input, app: &mut App, key: Key) {
    match input {
        Input::Left | Input::Right => {
            let columns = app.view.data.as_ref().unwrap().matrix.size().1;
            assert!(columns > 1);
            let (from, to) = if input == Input::Left { (1, 0) } else { (0, 1) };
            app.screens.matrix.cell.1 = from;
            press(app, &[key]);
            assert_eq!(app.screens.matrix.cell.1, to);
            // On the overview it is the cursor of the timeline, whether values move or not, and nothing stops for it.
            for still in [false, true] {
                let mut live = after(&World::sick(), USUAL, SECONDS);
                press(&mut live, if still { &[Key::Char(' ')] } else { &[] });
                let cursor = |live: &App| live.screens.overview.chart.cursor_ns.unwrap();
                press(&mut live, &[Key::Left, Key::Left, Key::Left]);
                let before = cursor(&live);
                press(&mut live, &[key]);
                assert_eq!(cursor(&live) < before, input == Input::Left);
                assert_eq!(live.view.timeline.paused, still);
                assert!(
                    text(&live).contains("at cursor, per s") && text(&live).contains("Left Right cursor")
                );
            }
        }
        Input::Open => {
            press(app, &[key]);
            assert_eq!(app.view.screen, Screen::Detail);
            assert_eq!(app.screens.detail.shown.as_ref().map(|(this, _)| this.id), app.view.selected);
        }
        Input::Screen(number) => {
            press(app, &[key]);
            assert_eq!(app.view.screen, Screen::TABS[number]);
        }
        Input::NextScreen => {
            press(app, &[key]);
            assert_eq!(app.view.screen, Screen::Detail);
        }
        Input::PreviousScreen => {
            press(app, &[key]);
            assert_eq!(app.view.screen, Screen::Overview);
        }
        Input::NicQps => {
            press(app, &[key]);
            assert_eq!(app.view.screen, Screen::Nic);
            press(app, &[key]);
            assert_eq!(app.view.screen, Screen::Qps);
        }
        _ => panic!("{input:?}"),
    }
}

/// Keys that order, group and select rows.
fn arranges(input: Input, app: &mut App, key: Key) {
    let rows = app.screens.flows.order.len();
    match input {
        Input::Group if app.view.screen == Screen::Overview => {
            press(app, &[key]);
            assert!(app.view.by == PeerGrouping::QueuePairs && text(app).contains("QUEUE PAIRS"));
        }
        Input::SortNext => {
            let columns = app.screens.flows.columns(&app.view);
            press(app, &[key]);
            assert_eq!(app.screens.flows.sort.by, columns[1].column.id);
        }
        Input::Reverse => {
            let (up, order) = (app.screens.flows.sort.descending, app.screens.flows.order.clone());
            press(app, &[key]);
            assert!(app.screens.flows.sort.descending != up && app.screens.flows.order != order);
        }
        Input::ColumnSet => {
            let before = text(app);
            press(app, &[key]);
            assert_eq!(app.screens.flows.columns, SETS[1].columns);
            assert_ne!(text(app), before);
        }
        Input::Columns => {
            press(app, &[key]);
            assert_eq!(app.overlay, Overlay::Columns(0));
        }
        Input::Group => {
            press(app, &[key]);
            assert_eq!(app.screens.flows.group, Group::Hosts);
            assert!(!app.screens.flows.groups.is_empty());
        }
        Input::Mark => {
            press(app, &[Key::Down, key]);
            assert_eq!(app.view.marked.len(), 1);
            press(app, &[key]);
            assert!(app.view.marked.is_empty());
        }
        Input::OnlyMarked => {
            press(app, &[Key::Down, Key::Char('m'), key]);
            assert_eq!(app.screens.flows.order.len(), 1);
            press(app, &[key]);
            assert_eq!(app.screens.flows.order.len(), rows);
        }
        Input::Follow => {
            press(app, &[key]);
            assert!(app.screens.flows.follow && app.view.messages.answer.is_some());
            press(app, &[key]);
            assert!(!app.screens.flows.follow);
        }
        Input::Filter => {
            press(app, &[key, Key::Char('x')]);
            assert_eq!(app.prompt.as_ref().map(|prompt| prompt.purpose), Some(Purpose::Filter));
            assert_eq!(app.view.filter.text, "x");
        }
        _ => panic!("{input:?}"),
    }
}

/// Keys of the picture as a whole, of the program, and of what a screen shows.
fn shows_otherwise(input: Input, app: &mut App, key: Key) {
    match input {
        Input::ZoomIn | Input::ZoomOut => {
            // Three seconds of samples: the shortest time is five.
            let mut app = after(&World::sick(), USUAL, 30);
            assert_eq!(app.screens.overview.chart.window_ns, None);
            press(&mut app, &[Key::Char('+'), Key::Char('+')]);
            assert_eq!(app.screens.overview.chart.window_ns, Some(5_000_000_000));
            press(&mut app, &[key]);
            let after = if input == Input::ZoomIn { 5_000_000_000 } else { 15_000_000_000 };
            assert_eq!(app.screens.overview.chart.window_ns, Some(after));
        }
        Input::Theme => {
            let before = app.view.options.theme;
            press(app, &[key]);
            assert_eq!(app.view.options.theme, before.next());
            let setting = format!("[tui.theme] name = \"{}\"", before.next().name.name());
            assert!(text(app).contains(&setting), "{}", text(app));
        }
        Input::Metric => {
            let before = app.screens.matrix.metric;
            press(app, &[key]);
            assert_eq!(app.screens.matrix.metric, before.next());
        }
        Input::MoreUplinks => {
            assert_eq!(press(app, &[key]), Action::Analyse);
            let first = app.screens.links.uplinks.unwrap();
            assert_eq!((press(app, &[key]), app.screens.links.uplinks), (Action::Analyse, Some(2 * first)));
        }
        Input::FewerUplinks => {
            app.screens.links.uplinks = Some(8);
            assert_eq!((press(app, &[key]), app.screens.links.uplinks), (Action::Analyse, Some(4)));
        }
        Input::Help => {
            press(app, &[key]);
            assert_eq!(app.overlay, Overlay::Help(0));
            press(app, &[key]);
            assert_eq!(app.overlay, Overlay::None);
        }
        Input::Redraw => assert_eq!(press(app, &[key]), Action::Redraw),
        Input::Suspend => assert_eq!(press(app, &[key]), Action::Suspend),
        Input::Back => {
            press(app, &[Key::Char('?'), key]);
            assert_eq!(app.overlay, Overlay::None);
            assert_eq!(press(app, &[key]), Action::Draw);
            assert_eq!(app.view.messages.answer.as_deref(), Some("nothing to close (q quits)"));
        }
        Input::Quit => assert_eq!(press(app, &[key]), Action::Quit),
        _ => panic!("{input:?}"),
    }
}

/// Keys of the time shown.
fn moves_in_time(input: Input, app: &mut App, key: Key) {
    match input {
        Input::GoTo => {
            press(app, &[key]);
            assert_eq!(app.prompt.as_ref().map(|prompt| prompt.purpose), Some(Purpose::GoTo));
        }
        Input::Pause => {
            press(app, &[key]);
            assert!(app.view.timeline.paused && app.view.timeline.shown_ns.is_some());
            press(app, &[key]);
            assert!(!app.view.timeline.paused && app.view.timeline.shown_ns.is_none());
        }
        Input::Earlier => {
            let now = time_ns(app);
            press(app, &[key]);
            assert_eq!(time_ns(app), now - 1_000_000_000);
            assert!(app.view.timeline.paused, "what was chosen stays");
            // On the overview too, whose cursor gives way to the time shown.
            let mut live = after(&World::sick(), USUAL, SECONDS);
            press(&mut live, &[Key::Left, key]);
            assert!(live.view.timeline.paused && live.screens.overview.chart.cursor_ns.is_none());
            assert_eq!(time_ns(&live), now - 1_000_000_000);
            assert!(text(&live).contains(", . step"), "{}", text(&live));
        }
        Input::Later => {
            let now = time_ns(app);
            press(app, &[Key::Char(','), Key::Char(','), key]);
            assert_eq!(time_ns(app), now - 1_000_000_000);
        }
        Input::JumpBack => {
            let now = time_ns(app);
            press(app, &[key]);
            assert!(app.view.timeline.paused);
            assert_eq!(time_ns(app), now - 10_000_000_000);
        }
        Input::JumpForward => {
            let now = time_ns(app);
            press(app, &[Key::Char('<'), key]);
            assert_eq!(time_ns(app), now);
        }
        Input::Faster | Input::Slower => {
            app.view.timeline.speed = Some(1.0);
            let speed = if input == Input::Faster { 2.0 } else { 0.5 };
            assert_eq!(press(app, &[key]), Action::Send(Command::Speed(speed)));
        }
        Input::TimeRange => {
            assert_eq!((press(app, &[key]), app.view.range), (Action::Analyse, TimeRange::Minute));
        }
        Input::Reset => {
            let packets = |app: &App| app.view.data.as_ref().unwrap().model.total.packets;
            assert!(packets(app) > 0);
            press(app, &[key]);
            let next = Arc::new(World::sick().at(SECONDS));
            app.on_sample(next);
            assert!(app.view.messages.answer.is_some() && app.view.timeline.history.reset_point().is_some());
        }
        _ => panic!("{input:?}"),
    }
}

/// Keys that copy, write, or walk through packets.
fn takes_away(input: Input, app: &mut App, key: Key) {
    match input {
        Input::ExportCsv | Input::ExportJson => {
            let Action::Write(file) = press(app, &[key]) else { panic!("{key}") };
            assert_eq!(file.ending, if input == Input::ExportCsv { "csv" } else { "json" });
            assert!(file.content.into_bytes().len() > 100);
        }
        Input::Capture => {
            let event = World::sick().events(SECONDS).into_iter().find(|event| !event.headers.is_empty());
            let key_of = event.unwrap().key;
            let data = app.view.data.as_ref().unwrap();
            app.view.selected = data.model.rows.iter().map(|row| row.id).find(|id| id.key == key_of);
            assert!(app.view.selected.is_some());
            let Action::Write(file) = press(app, &[key]) else { panic!("{:?}", app.view.messages.answer) };
            let bytes = file.content.into_bytes();
            assert_eq!((file.ending, &bytes[..4]), ("pcapng", &[0x0A, 0x0D, 0x0D, 0x0A][..]));
        }
        Input::Older | Input::Newer => {
            app.on_events(&events::notified(&World::sick(), SECONDS + 1));
            let psn = |app: &App| app.opened().unwrap().0.psn;
            press(app, &[Key::Enter]);
            let latest = psn(app);
            press(app, &[Key::Char('n')]);
            let older = psn(app);
            assert!(older < latest);
            press(app, &[key]);
            assert_eq!(psn(app), if input == Input::Older { older } else { latest });
        }
        Input::Dump => assert!(matches!(press(app, &[key]), Action::Send(Command::Dump)), "{key}"),
        Input::Copy => {
            let Action::Copy(text) = press(app, &[Key::Down, key]) else { panic!("nothing copied") };
            assert!(text.contains(" → ") && app.view.messages.answer.as_ref().unwrap().contains(&text));
        }
        _ => panic!("{input:?}"),
    }
}

#[test]
fn quitting_works_whatever_is_open_but_a_line_that_is_typed() {
    for open in ["?", "c", "/", "g", "8\n", "7\n"] {
        for quit in [Key::Char('q'), Key::Ctrl('c')] {
            let mut app = table(&World::sick(), USUAL);
            for c in open.chars() {
                press(&mut app, &[if c == '\n' { Key::Enter } else { Key::Char(c) }]);
            }
            let typed = app.prompt.is_some() && quit == Key::Char('q');
            let action = press(&mut app, &[quit]);
            assert_eq!(action == Action::Quit, !typed, "{open} {quit}");
            if typed {
                assert_eq!(app.prompt.as_ref().map(|prompt| prompt.text.as_str()), Some("q"));
            }
        }
    }
}

/// The line stays open with what is wrong, until it is mended or left.
#[test]
fn a_filter_that_makes_no_sense_says_so_after_enter_too() {
    let mut app = table(&World::sick(), USUAL);
    press(&mut app, &[Key::Char('/')]);
    type_text(&mut app, "ce > x");
    press(&mut app, &[Key::Enter]);
    assert!(text(&app).contains("expected a percentage after `ce`"), "{}", text(&app));
    press(&mut app, &[Key::Ctrl('u')]);
    type_text(&mut app, "foo > 1");
    press(&mut app, &[Key::Enter]);
    assert!(text(&app).contains("unknown field 'foo' at column 1; fields"), "{}", text(&app));
    press(&mut app, &[Key::Esc]);
    assert!(!text(&app).contains("unknown field"), "{}", text(&app));
    press(&mut app, &[Key::Char('/'), Key::Ctrl('u'), Key::Enter]);
    assert!(!text(&app).contains("filter:"));
}

/// What a terminal sends when somebody pastes the wrong thing.
#[test]
fn text_pasted_by_mistake_does_no_harm() {
    let mut app = table(&World::sick(), USUAL);
    let mut random = rocescope_common::random::Random::new(1);
    for _ in 0..10_000 {
        let c = char::from_u32(random.below_u32(0x2_0000)).unwrap_or('?');
        let _ = app.on_key(if random.one_in(50) { Key::Enter } else { Key::Char(c) });
    }
    draw(&app);
    press(&mut app, &[Key::Esc, Key::Esc, Key::Char('2'), Key::Char('/')]);
    for _ in 0..100_000 {
        let _ = app.on_key(Key::Char('x'));
    }
    assert!(app.view.filter.text.len() <= 1_000);
    draw(&app);
}

/// Esc on a screen closes what that screen shows, and nothing of another one.
#[test]
fn esc_changes_nothing_that_is_not_shown() {
    let mut app = after(&World::sick(), USUAL, SECONDS);
    press(&mut app, &[Key::Char('2'), Key::Char('o'), Key::Char('1'), Key::Char('+'), Key::Left]);
    assert_eq!(app.screens.flows.group, Group::Hosts);
    press(&mut app, &[Key::Esc]);
    assert_eq!(app.screens.overview.chart.cursor_ns, None);
    assert!(app.screens.overview.chart.window_ns.is_some());
    press(&mut app, &[Key::Esc]);
    assert_eq!(app.screens.overview.chart.window_ns, None);
    press(&mut app, &[Key::Esc]);
    assert_eq!(app.screens.flows.group, Group::Hosts);
    assert!(text(&app).contains("nothing to close"), "{}", text(&app));
    press(&mut app, &[Key::Char('2'), Key::Esc]);
    assert_eq!((app.screens.flows.group, app.screens.flows.grouped), (Group::None, false));
}

#[test]
fn a_key_that_needs_something_else_first_says_so() {
    let mut app = after(&World::sick(), USUAL, SECONDS);
    press(&mut app, &[Key::Char('2'), Key::Char('m')]);
    assert!(app.view.marked.is_empty() && text(&app).contains("no queue pair selected"), "{}", text(&app));
    for key in ['n', 'N'] {
        press(&mut app, &[Key::Char('7'), Key::Char(key)]);
        assert!(text(&app).contains("no event is open; Enter opens"), "{}", text(&app));
    }
}
