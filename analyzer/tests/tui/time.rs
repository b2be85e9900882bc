//! Pause, steps in time, time ranges, reset, speed.

use super::*;
use rocescope::model::TimeRange;
use rocescope::source::feed::Command;
use rocescope::tui::view::AsOf;

#[test]
fn a_live_view_stands_still_while_paused_and_catches_up_afterwards() {
    let world = World::sick();
    let mut live = app(&world, USUAL);
    assert_eq!(press(&mut live, &[Key::Char(' ')]), Action::Draw);
    assert!(live.view.timeline.still());
    let before = text(&live);
    for second in 4..=6 {
        live.on_events(&world.events(second));
        live.on_sample(Arc::new(world.at(second)));
    }
    assert_eq!(text(&live), before);
    press(&mut live, &[Key::Char(' ')]);
    assert!(!live.view.timeline.still());
    assert_eq!(live.view.data.as_ref().unwrap().model.time_ns, world.at(6).time_ns);
    assert_ne!(text(&live), before);
    let latest = live.view.log.latest().next().unwrap().latest.time_ns;
    assert!(latest > world.at(5).time_ns, "events that came meanwhile are there");
}

#[test]
fn keys_go_back_and_forward_in_time() {
    for kind in [SourceKind::Live, SourceKind::Replay] {
        let mut world = World::sick();
        world.kind = kind;
        let mut app = after(&world, USUAL, 20);
        press(&mut app, &[Key::Char('2')]);
        let shown =
            |app: &App| (app.view.data.as_ref().unwrap().model.time_ns - fake::START_NS) / 1_000_000_000;
        let sorted = app.screens.flows.sort.by;
        press(&mut app, &[Key::Char('.')]);
        assert!(shown(&app) == 20 && !app.view.timeline.paused, "there is nothing newer");
        // The first step back pauses; a replay stops reading.
        let action = press(&mut app, &[Key::Char(',')]);
        assert!(app.view.timeline.paused && app.screens.flows.sort.by == sorted);
        assert_eq!(
            action,
            if kind == SourceKind::Live { Action::Draw } else { Action::Send(Command::Pause(true)) }
        );
        press(&mut app, &[Key::Char(','), Key::Char(',')]);
        assert_eq!(shown(&app), 17);
        let row = |app: &App| app.view.data.as_ref().unwrap().model.rows[4].total.missing;
        assert_eq!(row(&app), 17 * 41);
        assert!(text(&app).contains("PAUSED −3.00 s"), "{}", text(&app));
        press(&mut app, &[Key::Char('.')]);
        assert_eq!(shown(&app), 18);
        // Events that were still to come then are not shown.
        press(&mut app, &[Key::Char('7')]);
        assert!(app.view.shown_events().all(|listed| listed.state.time_ns <= world.at(18).time_ns));
        for _ in 0..30 {
            press(&mut app, &[Key::Char(',')]);
        }
        assert_eq!(shown(&app), 1, "before the first figures there is nothing to see");
        assert!(app.view.messages.answer.as_ref().unwrap().contains("no older"));
        for _ in 0..30 {
            press(&mut app, &[Key::Char('.')]);
        }
        assert_eq!(shown(&app), 20);
        for number in '1'..='8' {
            press(&mut app, &[Key::Char(number), Key::Char(',')]);
            draw(&app);
        }
        press(&mut app, &[Key::Char(' ')]);
        assert_eq!((shown(&app), app.view.timeline.shown_ns), (20, None));
    }
}

#[test]
fn after_the_end_one_can_still_go_back() {
    let mut world = World::sick();
    world.kind = SourceKind::Replay;
    let mut app = after(&world, USUAL, 20);
    app.on_end(End::Done);
    assert_eq!(app.view.range, TimeRange::All);
    press(&mut app, &[Key::Char(','), Key::Char(',')]);
    assert_eq!(app.view.data.as_ref().unwrap().model.time_ns, world.at(18).time_ns);
    assert!(text(&app).contains("EOF −2.00 s"));
    press(&mut app, &[Key::Char(' ')]);
    assert_eq!((app.view.timeline.shown_ns, app.view.timeline.paused), (None, false));
}

#[test]
fn a_value_that_was_not_kept_is_a_dash() {
    let world = World::many(3_000);
    let mut app = after(&world, USUAL, 40);
    press(&mut app, &[Key::Char('2'), Key::Char(' ')]);
    for _ in 0..22 {
        press(&mut app, &[Key::Char(',')]);
    }
    let data = app.view.data.as_ref().unwrap();
    assert_eq!((data.model.rows.len(), data.model.flows), (1_000, 3_000));
    draw(&app);
}

#[test]
fn the_time_range_changes_the_values() {
    let mut app = after(&World::sick(), USUAL, 30);
    press(&mut app, &[Key::Char('2')]);
    let lost = |app: &App| app.view.data.as_ref().unwrap().model.rows[4].delta.unwrap().counts.missing;
    assert_eq!(lost(&app), 410);
    for (range, missing, word) in [
        (TimeRange::Minute, 30 * 41, "last 30 s"),
        (TimeRange::All, 30 * 41, "all 30.0 s"),
        (TimeRange::Latest, 41, "last 1 s"),
        (TimeRange::Seconds10, 410, "last 10 s"),
    ] {
        assert_eq!(press(&mut app, &[Key::Char('t')]), Action::Analyse);
        assert_eq!((app.view.range, lost(&app)), (range, missing));
        assert!(text(&app).contains(word), "{}", text(&app));
    }
}

/// All values of a screen are of one time range: its title names it, and nothing else does.
#[test]
fn the_time_range_is_named_once_on_each_screen() {
    for size in [USUAL, WIDE, LARGE] {
        let mut app = after(&World::sick(), size, 30);
        let tabs = ['1', '2', '3', '4', '5', '6', '7', '8'].map(|number| vec![Key::Char(number)]);
        for keys in tabs.into_iter().chain([vec![Key::Char('1'), Key::Enter]]) {
            press(&mut app, &keys);
            let shown = text(&app);
            assert_eq!(shown.matches("last 10 s").count(), 1, "{shown}");
            assert!(shown.lines().next().unwrap().contains("last 10 s "), "{shown}");
        }
    }
}

#[test]
fn imbalance_entropy_and_verdict_are_of_the_time_range() {
    let mut world = World::healthy();
    let mut app = App::new(options());
    let mut analyst = Analyst::new(app.view.options.report.clone());
    app.on_resize(80, 24);
    let mut show = |app: &mut App, sample| {
        app.on_sample(Arc::new(sample));
        app.analyse_with(&mut analyst);
    };
    for second in 1..=5 {
        show(&mut app, world.at(second));
    }
    let imbalance = |app: &App| app.view.data.as_ref().unwrap().imbalance[1].max_over_mean.unwrap();
    let even = imbalance(&app);
    assert!(even < 1.05, "{even}");
    assert!(text(&app).contains("HEALTHY"));
    // From now on only one uplink carries anything.
    let before = world.at(5);
    world.flows.retain(|spec| spec.link == 1);
    let flows = app.view.entropy().unwrap().tuples.five_tuples;
    for second in 6..=40 {
        let mut sample = World::healthy().at(second);
        for (flow, then) in sample.flows.iter_mut().zip(&before.flows) {
            if flow.key.link != 1 {
                *flow = then.clone();
            }
        }
        sample.extra = before.extra.clone();
        show(&mut app, sample);
    }
    assert!(imbalance(&app) > 1.95, "now, not since the start: {}", imbalance(&app));
    assert!(text(&app).contains("UNEVEN LOAD"));
    assert!(
        app.view.entropy().unwrap().tuples.five_tuples < flows,
        "5-tuples without new bytes do not count"
    );
}

#[test]
fn latency_is_of_the_time_range_and_over_time() {
    let world = World::sick();
    let mut app = after(&world, USUAL, 25);
    let p50 = |app: &App| {
        let model = &app.view.data.as_ref().unwrap().model;
        model.latency(&model.rows[2]).map(|times| times.p50.ns())
    };
    let near = |ns: Option<u64>, us: u64| ns.is_some_and(|ns| ns.abs_diff(us * 1_000) <= us * 63);
    assert!(near(p50(&app), 13), "{:?}", p50(&app));
    // The second in which everything took twice as long: as the latest second of the snapshot shown.
    press(&mut app, &[Key::Char('t'), Key::Char('t'), Key::Char('t'), Key::Char(' ')]);
    assert_eq!(app.view.range, TimeRange::Latest);
    let mut seen = Vec::new();
    for _ in 0..20 {
        press(&mut app, &[Key::Char(',')]);
        seen.push(p50(&app));
    }
    assert_eq!(seen.iter().filter(|ns| near(**ns, 26)).count(), 2, "at 20 s and at 10 s: {seen:?}");
    assert_eq!(seen.iter().filter(|ns| near(**ns, 13)).count(), 18);
    // The charts of the details; of the answers' flow, those of the requests that it answers.
    press(&mut app, &[Key::Char(' '), Key::Char('2'), Key::Char('/')]);
    for (filter, route) in [("src 10.1.1", "10.1.1.12 → 10.2.6.7"), ("dst 10.1.1", "10.2.6.7 → 10.1.1.12")]
    {
        app.on_resize(120, 50);
        press(&mut app, &[Key::Char('2'), Key::Char('/'), Key::Ctrl('u')]);
        type_text(&mut app, filter);
        press(&mut app, &[Key::Enter, Key::Home, Key::Enter]);
        let text = text(&app);
        assert!(text.contains(&format!("{route} QP")), "{text}");
        let chart =
            text.lines().find(|line| line.contains("latency p50")).unwrap_or_else(|| panic!("{text}"));
        let highest = chart.split(|c| c != '▇').filter(|part| !part.is_empty()).count();
        assert_eq!(highest, 2, "{chart}");
    }
}

#[test]
fn a_reset_counts_from_zero() {
    let world = World::sick();
    let mut app = after(&world, USUAL, 20);
    press(&mut app, &[Key::Char('2'), Key::Char('r')]);
    assert!(app.view.messages.answer.is_some());
    app.on_sample(Arc::new(world.at(21)));
    let row = &app.view.data.as_ref().unwrap().model.rows[4];
    assert_eq!((row.total.missing, row.delta.unwrap().counts.missing), (41, 41));
}

#[test]
fn keys_that_change_the_speed() {
    let world = World { flows: World::sick().flows, ..World::replay() };
    let mut replay = app(&world, USUAL);
    replay.view.timeline.speed = Some(1.0);
    assert_eq!(press(&mut replay, &[Key::Char(' ')]), Action::Send(Command::Pause(true)));
    assert_eq!(press(&mut replay, &[Key::Char(' ')]), Action::Send(Command::Pause(false)));
    assert_eq!(press(&mut replay, &[Key::Char(']')]), Action::Send(Command::Speed(2.0)));
    assert_eq!(press(&mut replay, &[Key::Char('[')]), Action::Send(Command::Speed(1.0)));
    replay.on_end(End::Done);
    assert_eq!(press(&mut replay, &[Key::Char(']')]), Action::Draw);
    // What was read to its end plays from its start.
    let played = press(&mut replay, &[Key::Char(' ')]);
    assert!(matches!(played, Action::Play { speed: 1.0, from_ns } if from_ns > fake::START_NS), "{played:?}");
    assert!(!replay.view.timeline.paused && replay.view.timeline.end.is_none());
    let mut live = app(&World::sick(), USUAL);
    assert_eq!(press(&mut live, &[Key::Char(']')]), Action::Draw);
    assert!(live.view.messages.answer.is_some());
}

#[test]
fn jumps_go_through_the_history_and_let_a_replay_skip_ahead() {
    let mut world = World::sick();
    world.kind = SourceKind::Replay;
    let mut app = after(&world, USUAL, 30);
    app.view.timeline.speed = Some(1.0);
    let shown = |app: &App| (app.view.data.as_ref().unwrap().model.time_ns - fake::START_NS) / 1_000_000_000;
    assert_eq!(press(&mut app, &[Key::Char('<')]), Action::Send(Command::Pause(true)));
    assert_eq!((shown(&app), app.view.timeline.paused), (20, true));
    press(&mut app, &[Key::Char('<')]);
    assert_eq!(shown(&app), 10);
    press(&mut app, &[Key::Char('>')]);
    assert_eq!(shown(&app), 20);
    press(&mut app, &[Key::Char('g')]);
    type_text(&mut app, "12:00:07");
    press(&mut app, &[Key::Enter]);
    assert_eq!(shown(&app), 7);
    press(&mut app, &[Key::Char('g')]);
    type_text(&mut app, "+25");
    press(&mut app, &[Key::Enter]);
    assert_eq!(shown(&app), 25);
    press(&mut app, &[Key::Char('g')]);
    type_text(&mut app, "soon");
    assert_eq!(press(&mut app, &[Key::Enter]), Action::Draw);
    assert!(app.view.messages.answer.as_ref().unwrap().contains("soon"));
    press(&mut app, &[Key::Char('g'), Key::Char('x'), Key::Esc]);
    assert!(app.prompt.is_none());
    // What is still to come: the replay goes there as fast as it can.
    let to = world.at(45).time_ns;
    press(&mut app, &[Key::Char('g')]);
    type_text(&mut app, "+45");
    assert_eq!(press(&mut app, &[Key::Enter]), Action::Send(Command::Seek(to)));
    assert!(app.view.timeline.paused && app.view.timeline.shown_ns.is_none());
    assert!(text(&app).contains("▶ to 12:00:45"), "{}", text(&app));
    // On the way the picture moves, and there it stands still as before.
    app.on_sample(Arc::new(world.at(40)));
    assert_eq!((shown(&app), app.view.timeline.seek_ns), (40, Some(to)));
    assert_eq!(press(&mut app, &[Key::Char('<')]), Action::Draw);
    assert!(app.view.messages.answer.as_ref().unwrap().contains("still seeking"));
    app.on_sample(Arc::new(world.at(45)));
    app.on_sample(Arc::new(world.at(46)));
    assert_eq!((shown(&app), app.view.timeline.seek_ns, app.view.timeline.paused), (45, None, true));
    // Live there is nothing ahead.
    let mut live = after(&World::sick(), USUAL, 30);
    press(&mut live, &[Key::Char(' ')]);
    assert_eq!(press(&mut live, &[Key::Char('>')]), Action::Draw);
    assert!(live.view.messages.answer.as_ref().unwrap().contains("no newer data"));
}

/// A replay of twenty minutes, of which the last ten are kept.
fn long_replay() -> (World, App) {
    let mut world = World::sick();
    world.kind = SourceKind::Replay;
    let mut app = App::new(options());
    app.view.timeline.speed = Some(1.0);
    for second in (1..=1_200).step_by(5) {
        app.on_events(&world.events(second));
        app.on_sample(Arc::new(world.at(second)));
    }
    (world, app)
}

#[test]
fn beyond_what_is_kept_a_replay_is_read_again_up_to_there() {
    let (world, mut app) = long_replay();
    let shown = |app: &App| (app.view.data.as_ref().unwrap().model.time_ns - fake::START_NS) / 1_000_000_000;
    let to = world.at(60).time_ns;
    press(&mut app, &[Key::Char(' '), Key::Char('g')]);
    type_text(&mut app, "+60");
    assert_eq!(press(&mut app, &[Key::Enter]), Action::Send(Command::Rewind(to)));
    assert!(text(&app).contains("▶ to 12:01:00") && text(&app).contains("capture again"), "{}", text(&app));
    // Everything seen is still to come.
    app.on_restart();
    assert!(app.view.log.latest().next().is_none() && app.view.timeline.history.is_empty());
    draw(&app);
    for second in 1..=60 {
        app.on_events(&world.events(second));
        app.on_sample(Arc::new(world.at(second)));
        assert_eq!(shown(&app), second);
    }
    assert_eq!((app.view.timeline.seek_ns, app.view.timeline.paused), (None, true));
    assert!(app.view.log.latest().next().unwrap().latest.time_ns > world.at(59).time_ns);
    press(&mut app, &[Key::Char(',')]);
    assert_eq!(shown(&app), 59);
    // Before the beginning there is nothing, and nothing to be read again for.
    assert_eq!(press(&mut app, &[Key::Char('<'); 7]), Action::Draw);
    assert_eq!(shown(&app), 1);
    assert!(
        app.view.messages.answer.as_ref().unwrap().contains("precedes the data"),
        "{:?}",
        app.view.messages.answer
    );
    // Conclusions about what is still to come are void.
    let mut analyst = Analyst::new(app.view.options.report.clone());
    app.on_analysis(analyst.analyse(&world.at(1_200), app.scope()));
    assert!(app.view.analysis.is_none());
}

#[test]
fn after_its_end_a_replay_can_be_read_again_and_stands_still_there() {
    let (world, mut app) = long_replay();
    app.on_end(End::Done);
    press(&mut app, &[Key::Char('g')]);
    type_text(&mut app, "12:00:30");
    assert_eq!(press(&mut app, &[Key::Enter]), Action::Send(Command::Rewind(world.at(30).time_ns)));
    assert!(app.view.timeline.end.is_none() && app.view.timeline.paused);
    app.on_restart();
    app.on_sample(Arc::new(world.at(30)));
    assert!(text(&app).contains("PAUSED"), "{}", text(&app));
    assert_eq!(press(&mut app, &[Key::Char(' ')]), Action::Send(Command::Pause(false)));
}

#[test]
fn snapshots_that_a_fast_replay_skipped_are_read_again() {
    let mut world = World::sick();
    world.kind = SourceKind::Replay;
    let mut app = App::new(options());
    app.view.timeline.speed = Some(f64::INFINITY);
    // So fast that there are two samples of a minute and a half.
    for second in [40, 90] {
        app.on_sample(Arc::new(world.at(second)));
    }
    app.on_end(End::Done);
    for (to, then) in [("+30", 30), ("+80", 80)] {
        press(&mut app, &[Key::Char('g')]);
        type_text(&mut app, to);
        assert_eq!(press(&mut app, &[Key::Enter]), Action::Send(Command::Rewind(world.at(then).time_ns)));
        app.view.timeline.seek_ns = None;
        app.on_end(End::Done);
    }
    press(&mut app, &[Key::Char('g')]);
    type_text(&mut app, "12:00:40.5");
    assert_eq!(press(&mut app, &[Key::Enter]), Action::Draw);
    assert_eq!(
        (app.view.data.as_ref().unwrap().model.time_ns, app.view.messages.answer.take()),
        (world.at(40).time_ns, None)
    );
    // A stream does not reach the time requested, and a notice reports it.
    app.view.timeline.speed = None;
    press(&mut app, &[Key::Char('g')]);
    type_text(&mut app, "+43");
    assert_eq!(press(&mut app, &[Key::Enter]), Action::Draw);
    assert_eq!(app.view.data.as_ref().unwrap().model.time_ns, world.at(40).time_ns);
    let said = "showing 12:00:40: a stream cannot be read again";
    assert_eq!(app.view.messages.answer.as_deref(), Some(said));
    assert!(text(&app).contains(said));
}

/// At full speed two seconds are over before there is a second snapshot.
#[test]
fn every_time_of_a_short_capture_can_be_gone_to() {
    let mut world = World::sick();
    world.kind = SourceKind::Replay;
    let ended = || {
        let mut app = App::new(options());
        app.view.timeline.speed = Some(f64::INFINITY);
        app.on_sample(Arc::new(world.at(2)));
        app.on_end(End::Done);
        app
    };
    let ms = |ms: u64| Action::Send(Command::Rewind(fake::START_NS + ms * 1_000_000));
    for (to, then) in [("+0.5", 500), ("+1.9", 1_900), ("+0", 200)] {
        let mut app = ended();
        press(&mut app, &[Key::Char('g')]);
        type_text(&mut app, to);
        assert_eq!(press(&mut app, &[Key::Enter]), ms(then), "{to}");
    }
    let mut app = ended();
    assert_eq!(press(&mut app, &[Key::Char(',')]), Action::Draw);
    assert_eq!(
        app.view.messages.answer.as_deref(),
        Some("no older snapshot; g or < reads the capture again")
    );
    assert_eq!(press(&mut app, &[Key::Char('<')]), ms(200), "not before the beginning");
}

#[test]
fn a_stream_cannot_be_read_again() {
    let (_, mut app) = long_replay();
    app.view.timeline.speed = None;
    press(&mut app, &[Key::Char('g')]);
    type_text(&mut app, "+60");
    assert_eq!(press(&mut app, &[Key::Enter]), Action::Send(Command::Pause(true)));
    assert!(app.view.messages.answer.as_ref().unwrap().contains("cannot be read again"));
}

#[test]
fn findings_of_an_older_snapshot_are_those_of_its_time() {
    let world = World::sick();
    let mut app = App::new(options());
    let mut analyst = Analyst::new(app.view.options.report.clone());
    app.on_resize(120, 40);
    let mut titles = Vec::new();
    for second in 1..=20 {
        app.on_sample(Arc::new(world.at(second)));
        app.analyse_with(&mut analyst);
        let concluded = app.view.concluded().unwrap();
        assert_eq!(concluded.as_of, AsOf::Now);
        titles.push(concluded.findings.iter().map(|f| f.title.clone()).collect::<Vec<_>>());
    }
    assert_ne!(titles[9], titles[19], "figures in titles grow");
    press(&mut app, &[Key::Char('8'), Key::Char(' ')]);
    assert_eq!(app.view.concluded().unwrap().as_of, AsOf::Now, "the pause itself is no step back");
    press(&mut app, &[Key::Char(','); 10]);
    let concluded = app.view.concluded().unwrap();
    assert_eq!(concluded.as_of, AsOf::Earlier(world.at(10).time_ns));
    assert_eq!(concluded.end_ns, world.at(10).window.map(|(_, last)| last));
    let then: Vec<String> = concluded.findings.iter().map(|f| f.title.clone()).collect();
    assert_eq!(then, titles[9]);
    let screen = text(&app);
    assert!(screen.contains("FINDINGS ") && screen.contains(", from the start to 12:00:10"), "{screen}");
    // What Enter and export take is the same.
    let first = concluded.findings.iter().position(|f| !f.flows.is_empty()).unwrap();
    let id = concluded.findings[first].id;
    for _ in 0..=first {
        press(&mut app, &[Key::Down]);
    }
    press(&mut app, &[Key::Enter]);
    super::problem::open(&mut app, "the table of queue pairs");
    assert_eq!(app.screens.flows.focus.as_ref().unwrap().about, id);
    press(&mut app, &[Key::Char('8'), Key::Char(' ')]);
    assert_eq!(app.view.concluded().unwrap().as_of, AsOf::Now);
    assert!(text(&app).contains(", since the start"));
}

#[test]
fn later_findings_are_not_shown_at_an_older_snapshot() {
    // Conclusions of the first second and of the last.
    let mut app = after(&World::sick(), (120, 40), 20);
    press(&mut app, &[Key::Char(' '), Key::Char(','), Key::Char(',')]);
    assert!(matches!(app.view.concluded().unwrap().as_of, AsOf::Earlier(_)), "those of the first second");
    // None but of the last.
    let world = World::sick();
    let mut app = App::new(options());
    app.on_resize(120, 40);
    for second in 1..=20 {
        app.on_sample(Arc::new(world.at(second)));
    }
    app.analyse_with(&mut Analyst::new(app.view.options.report.clone()));
    let title = app.view.concluded().unwrap().findings[0].title.clone();
    assert!(text(&app).contains(&title));
    press(&mut app, &[Key::Char(' '), Key::Char(','), Key::Char(',')]);
    let screen = text(&app);
    assert!(screen.contains("findings of 12:00:20.000, later than") && !screen.contains(&title), "{screen}");
    press(&mut app, &[Key::Char('5')]);
    assert!(text(&app).contains(" not kept for this snapshot"));
    press(&mut app, &[Key::Char('8')]);
    let screen = text(&app);
    assert!(screen.contains("FINDINGS of 12:00:20") && screen.contains(&title), "{screen}");
}

#[test]
fn details_of_an_older_snapshot_mark_later_values() {
    let world = World::sick();
    let mut app = after(&world, (120, 46), 20);
    press(&mut app, &[Key::Char('2')]);
    app.view.selected = app.view.data.as_ref().map(|data| data.model.rows[4].id);
    press(&mut app, &[Key::Enter]);
    let line = |app: &App, name: &str| {
        let screen = text(app);
        let mut lines = screen.lines().map(|line| line.trim_start_matches('│'));
        let found = lines.find(|line| line.starts_with(name)).map(str::to_owned);
        found.unwrap_or_else(|| panic!("no {name} in\n{screen}"))
    };
    // The time range has ten seconds of them.
    let missing = |seconds: u64| format!(" PSN      410 missing · {} total", seconds * 41);
    assert!(line(&app, " PSN ").starts_with(&missing(20)), "{}", text(&app));
    assert!(!text(&app).contains("below: state at"));
    press(&mut app, &[Key::Char(' '), Key::Char(','), Key::Char(','), Key::Char(',')]);
    assert!(line(&app, " PSN ").starts_with(&missing(17)), "{}", text(&app));
    assert!(text(&app).contains("below: state at 12:00:20"), "{}", text(&app));
    let total = app.view.data.as_ref().unwrap().model.rows[4].total;
    let packets = rocescope::util::units::count(total.packets);
    assert!(line(&app, " total ").contains(&format!("{packets} packets")), "{}", text(&app));
}

/// Figures of many flows take longer than a key may: they are made elsewhere, and the screen says that it shows others.
#[test]
fn values_of_many_flows_follow_the_key_that_asks_for_them() {
    let world = World::many(10_000);
    let samples: Vec<_> = (1..=14).map(|second| Arc::new(world.at(second))).collect();
    let mut app = App::new(options());
    app.on_resize(USUAL.0, USUAL.1);
    for sample in &samples {
        app.on_sample(Arc::clone(sample));
    }
    let basis = |app: &App| app.view.data.as_ref().unwrap().model.basis;
    let last = |seconds: f64| rocescope::model::Basis::Last(seconds);
    let waits = |app: &App| text(app).contains("updating… (showing previous values)");
    let before = basis(&app);
    assert!(app.wanted().is_none() && !waits(&app));
    assert_eq!(press(&mut app, &[Key::Char('t')]), Action::Analyse);
    assert_eq!(basis(&app), before, "a key waits for nothing");
    assert!(app.awaited() && waits(&app));
    // Another key before they are there: those of the first are not wanted any more.
    let first = app.wanted().unwrap().make();
    press(&mut app, &[Key::Char('t'), Key::Char('t')]);
    assert_eq!(app.view.range, TimeRange::Latest);
    assert!(!app.on_values(first) && app.awaited());
    assert_eq!(basis(&app), before);
    app.settle();
    assert_eq!(basis(&app), last(1.0));
    assert!(!app.awaited() && !waits(&app));

    // A sample that comes first brings them along.
    press(&mut app, &[Key::Char('t')]);
    assert!(app.awaited());
    app.on_sample(Arc::new(world.at(15)));
    assert!(!app.awaited());
    assert_eq!(basis(&app), before);

    // Back in time, step by step, though the figures of a step are not there yet; what is selected stays so.
    press(&mut app, &[Key::Char('2'), Key::Down, Key::Char(' '), Key::Char(','), Key::Char(',')]);
    let shown = |app: &App| (app.view.data.as_ref().unwrap().model.time_ns - fake::START_NS) / 1_000_000_000;
    let selected = app.view.selected;
    assert_eq!((shown(&app), app.awaited()), (15, true));
    app.settle();
    assert_eq!((shown(&app), app.view.selected), (13, selected));
    press(&mut app, &[Key::Char(' ')]);
    app.settle();
    assert_eq!((shown(&app), app.view.selected), (15, selected));
    // A key that changes neither snapshot nor time range asks for nothing.
    press(&mut app, &[Key::Char('s'), Key::Char('o'), Key::Tab]);
    assert!(!app.awaited());
}
