//! What the eye gets at a glance: what a filter leaves of the events, how bad it was when it was, which links are uneven,
//! and keys that do something.

use super::*;
use rocescope::sample::Sample;

fn filter(app: &mut App, text: &str) {
    press(app, &[Key::Char('/'), Key::Ctrl('u')]);
    type_text(app, text);
    press(app, &[Key::Enter]);
}

/// The kinds of the events shown, without repetitions.
fn kinds(app: &App) -> Vec<&'static str> {
    let mut kinds: Vec<&'static str> =
        app.view.shown_events().map(|listed| listed.entry.class.word).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

#[test]
fn a_filter_on_counters_keeps_the_events_of_matching_flows() {
    let mut app = app(&World::sick(), USUAL);
    press(&mut app, &[Key::Char('7')]);
    let all = app.view.event_count();
    for (text, found) in [
        ("ce:>1%", &["CE", "NEW"][..]),
        ("rnr:>0", &["NEW", "RNR"]),
        ("nak:>0 event:nak", &["NAK"]),
        ("state:ce !nak:>0", &["CE", "NEW"]),
        ("cnp:>0", &["CNP", "NEW"]),
        ("ce:>90%", &[]),
    ] {
        filter(&mut app, text);
        assert_eq!(kinds(&app), found, "{text}");
        assert!(app.view.event_count() < all, "{text}");
    }
    // As many as the line above the list says.
    filter(&mut app, "link:eth1");
    let shown = app.view.event_count();
    assert!(shown > 0 && shown < all);
    assert!(text(&app).contains(&format!("\"link:eth1\" {shown} of {all}")), "{}", text(&app));
    let links: Vec<u16> = app.view.shown_events().map(|listed| listed.entry.key.link).collect();
    assert!(links.iter().all(|link| *link >= 2), "{links:?}");

    // What comes while the filter is on is filtered too.
    filter(&mut app, "ce:>1%");
    let before = app.view.event_count();
    let world = World::sick();
    app.on_events(&world.events(5));
    app.on_sample(Arc::new(world.at(5)));
    assert_eq!(app.view.event_count(), before + 1, "marked again");
}

/// The order of the table changes with every sample.
#[test]
fn details_stay_those_of_one_queue_pair() {
    let world = World::sick();
    let mut app = app(&world, USUAL);
    press(&mut app, &[Key::Char('3')]);
    let shown = app.view.selected.expect("what is shown is selected");
    assert!(text(&app).contains("QP "), "{}", text(&app));
    for second in 5..12 {
        app.on_sample(Arc::new(world.at(second)));
        assert_eq!(app.view.selected, Some(shown), "{second}");
    }
}

#[test]
fn a_filter_that_makes_no_sense_is_not_taken_and_leaves_no_trace() {
    let mut app = app(&World::sick(), WIDE);
    press(&mut app, &[Key::Char('2')]);
    filter(&mut app, "rnr:>0");
    let before = app.screens.flows.order.clone();
    press(&mut app, &[Key::Char('/'), Key::Ctrl('u')]);
    type_text(&mut app, "ce:>x");
    assert!(!text(&app).lines().take(6).any(|line| line.contains("ce:>x")), "{}", text(&app));
    press(&mut app, &[Key::Enter]);
    assert_eq!((app.view.filter.text.as_str(), &app.view.filter.query.error), ("rnr:>0", &None));
    assert_eq!(app.screens.flows.order, before);
    let shown = text(&app);
    assert!(shown.contains("\"rnr:>0\"") && shown.contains("filter unchanged:"), "{shown}");
    assert!(!shown.contains("\"ce:>x\""), "{shown}");
}

#[test]
fn notices_take_two_lines_of_the_events_and_the_latest_come_first() {
    let mut app = app(&World::sick(), LARGE);
    for notice in ["the first", "the second", "the third"] {
        app.on_notice(notice.into());
    }
    press(&mut app, &[Key::Char('7')]);
    let shown = text(&app);
    let body: Vec<&str> = shown.lines().collect();
    let at = body.iter().position(|line| line.contains("NOTICES 3")).unwrap();
    assert!(body[at + 1].contains(" the third ") && body[at + 2].contains(" the second "), "{shown}");
    assert_eq!(at + 5, body.len(), "two lines in a frame, and the last one of the screen: {shown}");
}

/// One flow whose data is marked by a tenth from the fifth second to the tenth.
fn marked(second: u64) -> Sample {
    let mut world = World::healthy();
    world.flows.truncate(1);
    world.flows[0].ce_permille = 100;
    let mut sample = world.at(second);
    let stats = &mut sample.flows[0].stats;
    let capable: u64 = stats.ecn_data[1..].iter().sum();
    let of = |seconds: u64| capable / second * seconds;
    stats.ecn_data[3] = of(second.clamp(5, 10) - 5) / 10;
    stats.ecn_data[2] = capable - stats.ecn_data[3];
    stats.ecn_data[1] = 0;
    sample
}

#[test]
fn a_finding_that_ended_says_when() {
    let mut app = App::new(options());
    app.on_resize(WIDE.0, WIDE.1);
    app.view.options.report.analysis.imbalance_all_links = false;
    let mut analyst = Analyst::new(app.view.options.report.clone());
    for second in 1..=8 {
        app.on_sample(Arc::new(marked(second)));
        app.analyse_with(&mut analyst);
    }
    let verdict = |app: &App| text(app).lines().nth(1).unwrap().to_owned();
    assert!(verdict(&app).contains("CONGESTION"), "{}", verdict(&app));
    for second in 9..=60 {
        let mut sample = marked(second.min(10));
        // No packet of the flow follows, while the capture goes on.
        sample.time_ns = World::healthy().at(second).time_ns;
        sample.window = sample.window.map(|(first, _)| (first, sample.time_ns));
        app.on_sample(Arc::new(sample));
        app.analyse_with(&mut analyst);
        let below = text(&app).lines().nth(2).unwrap().to_owned();
        let ended = verdict(&app).contains("HEALTHY NOW  1 problem ended: ECN congestion")
            && below.contains("ended 12:00:");
        assert_eq!(ended, second >= 20, "{second}: {}", verdict(&app));
    }
}

#[test]
fn imbalance_is_shown_without_declared_parallel_links() {
    let mut world = World::healthy();
    world.kind = SourceKind::Replay;
    for flow in &mut world.flows {
        flow.packets *= if flow.link >= 2 { 1 } else { 9 };
    }
    let mut app = after(&world, WIDE, 12);
    app.view.options.report.analysis.imbalance_all_links = false;
    app.on_sample(Arc::new(world.at(13)));
    app.analyse_with(&mut Analyst::new(app.view.options.report.clone()));
    assert!(app.view.data.as_ref().unwrap().imbalance.is_empty());
    press(&mut app, &[Key::Char('5')]);
    let screen = text(&app);
    assert!(screen.contains("none declared as parallel; --group LINK,LINK"), "{screen}");
    assert!(screen.contains("● max/mean 1.80"), "{screen}");
    // It is no verdict: perhaps they need not be even.
    assert!(screen.lines().nth(1).unwrap().contains("HEALTHY"), "{screen}");
}

#[test]
fn keys_are_offered_where_they_do_something() {
    let last = |app: &App| text(app).lines().last().unwrap().to_owned();
    let mut healthy = app(&World::live(), USUAL);
    press(&mut healthy, &[Key::Char('8')]);
    assert_eq!(healthy.view.finding_count(), 0);
    assert!(!last(&healthy).contains("why + fix"), "{}", last(&healthy));
    let mut sick = app(&World::sick(), USUAL);
    press(&mut sick, &[Key::Char('8')]);
    assert!(last(&sick).contains("Enter why + fix  y copy"), "{}", last(&sick));
    press(&mut sick, &[Key::Enter]);
    assert!(last(&sick).contains("y copy  Esc back  Up Down select"), "{}", last(&sick));
    press(&mut sick, &[Key::Char('2')]);
    assert!(last(&sick).contains("Space pause"), "{}", last(&sick));
    press(&mut sick, &[Key::Char(' ')]);
    assert!(last(&sick).contains("Space resume  Left Right step"), "{}", last(&sick));
}

#[test]
fn a_demonstration_says_which_episode_runs_and_how_long() {
    let mut app = after(&World::sick(), USUAL, 12);
    let before = text(&app);
    app.view.options.schedule = Some(rocescope::source::feed::Schedule {
        start_ns: fake::START_NS,
        length_ns: 8_000_000_000,
        titles: vec!["healthy training steps", "congestion on rail0: CE marks and CNPs", "loss: gaps"],
        delayed_ns: Arc::default(),
    });
    app.on_resize(USUAL.0, USUAL.1);
    let line = |app: &App| text(app).lines().nth(1).unwrap().to_owned();
    assert_eq!(line(&app), " demo 2/3 congestion on rail0: CE marks and CNPs, 4 s left · next: loss");
    // The verdict is below it, and everything else too.
    assert_eq!(text(&app).lines().nth(2), before.lines().nth(1));
    // A step back in time is one in the schedule.
    press(&mut app, &[Key::Char(' '), Key::Left]);
    assert!(line(&app).contains(", 5 s left"), "{}", line(&app));
}

/// On a busy host the analysis, which has a lower priority, comes late.
#[test]
fn a_verdict_of_some_time_ago_says_so() {
    for (world, word) in [(World::healthy(), "HEALTHY"), (World::sick(), "NAK")] {
        let mut app = after(&world, USUAL, 3);
        for second in 4..=7 {
            app.on_sample(Arc::new(world.at(second)));
        }
        let verdict = |app: &App| text(app).lines().nth(1).unwrap().to_owned();
        assert!(verdict(&app).contains(word) && !verdict(&app).contains("as of"), "{}", verdict(&app));
        app.on_sample(Arc::new(world.at(8)));
        assert!(verdict(&app).ends_with("as of 12:00:03"), "{}", verdict(&app));
        app.analyse_with(&mut Analyst::new(app.view.options.report.clone()));
        assert!(!verdict(&app).contains("as of"), "{}", verdict(&app));
    }
}

#[test]
fn the_title_names_the_host_where_there_is_room() {
    let title = |size| {
        let mut app = app(&World::sick(), size);
        app.view.options.host = Some("gpu-node-17".into());
        text(&app).lines().next().unwrap().to_owned()
    };
    assert!(title(USUAL).starts_with(" rocescope  live eth0, eth1 · gpu-node-17 "), "{}", title(USUAL));
    assert!(!title(SMALL).contains("gpu-node"), "{}", title(SMALL));
}
