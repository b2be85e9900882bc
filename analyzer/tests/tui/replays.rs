//! A replay that has ended: it plays again, and has the findings of each time.

use super::*;
use rocescope::tui::view::AsOf;

/// What Space says to a replay that has ended makes the source itself go on, until it ends again.
#[test]
fn a_capture_that_was_read_plays_to_its_end_again() {
    use rocescope::source::feed::Update;
    use rocescope::source::replay;
    let capture =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/f1_ecn_red.h1.pcap.gz");
    let watched = replay::Emit::Watch(std::time::Duration::from_millis(20));
    let options = replay::Options { files: vec![capture], emit: watched, ..replay::Options::default() };
    let feed = replay::start(options).unwrap();
    let mut app = App::new(Options { speed: Some(f64::INFINITY), ..super::options() });
    app.on_resize(160, 48);
    let until_the_end = |app: &mut App| {
        let mut times = Vec::new();
        loop {
            match feed.updates.recv_timeout(std::time::Duration::from_secs(20)).expect("the replay goes on") {
                Update::Sample(sample) => {
                    times.push(sample.time_ns);
                    app.on_sample(Arc::from(sample));
                }
                Update::Events(events) => app.on_events(&events),
                Update::Restarted => app.on_restart(),
                Update::Ended(result) => {
                    result.unwrap();
                    app.on_end(End::Done);
                    return times;
                }
                other @ Update::Notice(_) => panic!("{other:?}"),
            }
        }
    };
    let last_ns = until_the_end(&mut app).into_iter().max();
    // The cursor of the timeline is of the picture before.
    press(&mut app, &[Key::Char('+'), Key::Left]);
    assert!(app.screens.overview.chart.cursor_ns.is_some());
    for command in press(&mut app, &[Key::Char(' ')]).commands() {
        feed.commands.send(command).unwrap();
    }
    assert_eq!(app.screens.overview.chart.cursor_ns, None);
    assert!(text(&app).contains("▶ to "), "{}", text(&app));
    let times = until_the_end(&mut app);
    assert_eq!(times.iter().copied().max(), last_ns);
    assert!(times.len() > 3, "it is played, not read at once: {times:?}");
}

/// A replay that has ended keeps samples: a step back has the findings of that time.
#[test]
fn an_ended_replay_has_the_findings_of_earlier_times() {
    let taps = ["k1_ecmp_ring.uA0.pcap.gz", "k1_ecmp_ring.uA1.pcap.gz"];
    let mut app = overview::replayed_together(&taps, (160, 48));
    let at_end = app.view.analysis.as_ref().unwrap().time_ns;
    press(&mut app, &[Key::Char(',')]);
    let shown_ns = app.view.timeline.shown_ns.unwrap();
    assert!(shown_ns < at_end);
    let nothing = "no findings are kept of this time";
    assert!(text(&app).contains(nothing), "{}", text(&app));
    app.analyse_with(&mut Analyst::new(options().report));
    let concluded = app.view.concluded().unwrap();
    assert_eq!(concluded.as_of, AsOf::Earlier(shown_ns));
    assert!(!concluded.findings.is_empty() && !text(&app).contains(nothing), "{}", text(&app));
    assert!(app.unanalysed().is_none(), "it is asked once");
    // Those of the end are still there.
    press(&mut app, &[Key::Char(' ')]);
    assert_eq!(app.view.concluded().unwrap().as_of, AsOf::Now);
    assert_eq!(app.view.analysis.as_ref().unwrap().time_ns, at_end);
}

/// Paused, a seek forward ends at a time whose findings come later: until then the sentence says of what time it is.
#[test]
fn the_verdict_follows_a_seek_while_paused() {
    let world = World { kind: rocescope::sample::SourceKind::Replay, ..World::sick() };
    let mut app = App::new(Options { speed: Some(1.0), ..options() });
    let mut analyst = Analyst::new(app.view.options.report.clone());
    app.on_resize(160, 48);
    app.on_sample(Arc::new(world.at(2)));
    app.analyse_with(&mut analyst);
    let seek = press(&mut app, &[Key::Char(' '), Key::Char('g'), Key::Char('+'), Key::Char('9'), Key::Enter]);
    assert!(matches!(seek, Action::Send(rocescope::source::feed::Command::Seek(_))), "{seek:?}");
    app.on_sample(Arc::new(world.at(12)));
    assert!(app.view.timeline.paused && app.view.timeline.seek_ns.is_none());
    let late = "as of 12:00:02";
    assert!(text(&app).contains(late), "{}", text(&app));
    assert!(text(&app).contains(" active") && !text(&app).contains("to the end"), "{}", text(&app));
    app.analyse_with(&mut analyst);
    let shown_ns = app.view.data.as_ref().unwrap().model.time_ns;
    assert_eq!(app.view.analysis.as_ref().unwrap().time_ns, shown_ns);
    assert!(!text(&app).contains(late), "{}", text(&app));
    // What comes while it stands still is not shown.
    app.on_sample(Arc::new(world.at(20)));
    app.analyse_with(&mut analyst);
    assert_eq!(app.view.analysis.as_ref().unwrap().time_ns, shown_ns);
    // At the end of the data nothing is active.
    app.on_end(End::Done);
    app.analyse_with(&mut analyst);
    assert!(text(&app).contains(" at the end"), "{}", text(&app));
}

#[test]
fn a_sentence_in_little_room_says_that_loss_is_unknown() {
    let app = overview::replayed("b7_ud_ops.h1.pcap", USUAL);
    let sentence = "only 16 packets; nothing above the thresholds; loss unknown · 1 flow";
    assert_eq!(text(&app).lines().nth(1).map(str::trim), Some(sentence), "{}", text(&app));
}

#[test]
fn the_name_of_a_link_is_whole_before_its_bar_is_long() {
    let app = overview::replayed("public/linlin_nccl_nccl_node0.pcap", WIDE);
    let shown = text(&app);
    assert!(shown.lines().any(|line| line.starts_with("│   linlin_nccl_nccl_node0 ")), "{shown}");
}
