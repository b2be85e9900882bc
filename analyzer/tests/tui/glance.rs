//! What the eye gets at a glance: what a filter leaves of the events, how bad it was when it was, which links are
//! uneven, and keys that do something.

use super::*;
use rocescope::sample::Sample;
use rocescope::source::demo::scenario::{Episode, Scenario};

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
        ("ce > 1%", &["CE", "NEW"][..]),
        ("rnr > 0", &["NEW", "RNR"]),
        ("nak > 0 event nak", &["NAK"]),
        ("state ce !lost > 0", &["CE", "NEW"]),
        // Of data of which no answer is seen, NAKs are unknown.
        ("state ce !nak > 0", &[]),
        ("cnp > 0", &["CNP", "NEW"]),
        ("ce > 90%", &[]),
    ] {
        filter(&mut app, text);
        assert_eq!(kinds(&app), found, "{text}");
        assert!(app.view.event_count() < all, "{text}");
    }
    // As many as the line above the list says.
    filter(&mut app, "link eth1");
    let shown = app.view.event_count();
    assert!(shown > 0 && shown < all);
    assert!(text(&app).contains(&format!("\"link eth1\" {shown} of {all}")), "{}", text(&app));
    let links: Vec<u16> = app.view.shown_events().map(|listed| listed.entry.key.link).collect();
    assert!(links.iter().all(|link| *link >= 2), "{links:?}");

    // What comes while the filter is on is filtered too.
    filter(&mut app, "ce > 1%");
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
    filter(&mut app, "rnr > 0");
    let before = app.screens.flows.order.clone();
    press(&mut app, &[Key::Char('/'), Key::Ctrl('u')]);
    type_text(&mut app, "ce > x");
    assert!(!text(&app).lines().take(6).any(|line| line.contains("ce > x")), "{}", text(&app));
    // The line stays, so that a `q` of it does not end the program.
    press(&mut app, &[Key::Enter, Key::Char('q')]);
    assert!(text(&app).contains("filter: ce > xq█"), "{}", text(&app));
    press(&mut app, &[Key::Esc]);
    assert_eq!((app.view.filter.text.as_str(), &app.view.filter.query.error), ("rnr > 0", &None));
    assert_eq!(app.screens.flows.order, before);
    let shown = text(&app);
    assert!(shown.contains("\"rnr > 0\""), "{shown}");
    // A long one has lines of its own.
    app.on_resize(USUAL.0, USUAL.1);
    press(&mut app, &[Key::Char('/'), Key::Ctrl('u')]);
    type_text(&mut app, "throughput > 1G");
    press(&mut app, &[Key::Enter]);
    let answer = text(&app).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        answer.contains("unknown field 'throughput' at column 1; fields: ")
            && answer.contains("see the help"),
        "{answer}"
    );
    press(&mut app, &[Key::Esc]);
    assert!(text(&app).lines().last().unwrap().contains("q quit"), "{}", text(&app));
    assert!(!shown.contains("\"ce > x\""), "{shown}");
}

#[test]
fn notices_take_the_lines_that_events_leave_and_the_latest_come_first() {
    let mut app = app(&World::sick(), LARGE);
    for notice in ["the first", "the second", "the third"] {
        app.on_notice(notice.into());
    }
    press(&mut app, &[Key::Char('7')]);
    let shown = text(&app);
    let body: Vec<&str> = shown.lines().collect();
    let at = body.iter().position(|line| line.contains("NOTICES 3")).unwrap();
    assert!(body[at + 1].contains(" the third ") && body[at + 3].contains(" the first "), "{shown}");
    assert_eq!(at + 6, body.len(), "three lines in a frame, and the last one of the screen: {shown}");
    // Two of them where there are more events than lines.
    let mut app = self::app(&World::sick(), SMALL);
    for notice in ["the first", "the second", "the third"] {
        app.on_notice(notice.into());
    }
    press(&mut app, &[Key::Char('7')]);
    let shown = text(&app);
    assert!(shown.contains(" the second") && !shown.contains(" the first"), "{shown}");
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
    // The badge, and the sentence below it.
    let verdict = |app: &App| text(app).lines().take(2).collect::<Vec<_>>().join(" ");
    assert!(verdict(&app).contains("CONGESTION"), "{}", verdict(&app));
    for second in 9..=60 {
        let mut sample = marked(second.min(10));
        // No packet of the flow follows, while the capture goes on.
        sample.time_ns = World::healthy().at(second).time_ns;
        sample.window = sample.window.map(|(first, _)| (first, sample.time_ns));
        app.on_sample(Arc::new(sample));
        app.analyse_with(&mut analyst);
        let below = text(&app).lines().nth(2).unwrap().to_owned();
        let ended = verdict(&app).starts_with(" ● HEALTHY SINCE 12:00:10 ")
            && verdict(&app).contains(" 1 problem ended: ECN congestion")
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
    assert!(screen.lines().next().unwrap().contains("HEALTHY"), "{screen}");
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
    assert!(last(&sick).contains("Space resume  , . step"), "{}", last(&sick));
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
    // The sentence is below it, and everything else too.
    assert_eq!(text(&app).lines().nth(2), before.lines().nth(1));
    // A step back in time is one in the schedule.
    press(&mut app, &[Key::Char(' '), Key::Char(',')]);
    assert!(line(&app).contains(", 5 s left"), "{}", line(&app));
}

/// On a busy host the analysis, which has a lower priority, comes late.
#[test]
fn a_verdict_of_some_time_ago_says_so() {
    for (world, word) in [(World::healthy(), "HEALTHY"), (World::sick(), "NAK")] {
        let mut app = after(&world, USUAL, 3);
        app.on_sample(Arc::new(world.at(4)));
        // The sentence of a problem goes on in the next line.
        let verdict = |app: &App| text(app).lines().skip(1).take(2).collect::<Vec<_>>().join(" ");
        assert!(text(&app).lines().next().unwrap().contains(word), "{}", text(&app));
        assert!(!verdict(&app).contains("as of"), "{}", verdict(&app));
        app.on_sample(Arc::new(world.at(5)));
        assert_eq!(verdict(&app).matches("  as of 12:00:03").count(), 1, "{}", verdict(&app));
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
    // Its own name has room on wider ones.
    assert!(title(USUAL).contains("▲ DROP  live eth0, eth1 "), "{}", title(USUAL));
    let wider = title((130, 40));
    assert!(wider.contains("  rocescope  live eth0, eth1 · gpu-node-17 "), "{wider}");
    assert!(!title(SMALL).contains("gpu-node"), "{}", title(SMALL));
}

/// The lines of a part of the screen, from its title on.
fn part(app: &App, title: &str) -> Vec<String> {
    let picture = text(app);
    let lines = picture.lines().skip_while(|line| !line.contains(title));
    let end = |line: &&str| !line.starts_with('─') || line.contains(title);
    lines.take_while(end).map(str::to_owned).collect()
}

#[test]
fn who_is_named_with_both_queue_pairs() {
    let app = overview::replayed("g_rnr.h0.pcap", USUAL);
    let picture = text(&app);
    // A capture of 156 ms has times with milliseconds. With two hosts in the title, which queue pair is whose needs
    // their addresses.
    let below = picture.lines().nth(2).unwrap();
    assert!(
        below.contains("05:45:03.986 to the end (156 ms) · 10.0.0.1 QP 34 → 10.0.0.2 QP 34"),
        "{picture}"
    );
    let peers = part(&app, "WORST PEERS");
    assert!(peers[1].contains("WORST QP") && peers[2].contains("34 → 34"), "{picture}");
    // Lost responses of READs go from the responder to the requester.
    let picture = text(&overview::replayed("h6_rping_loss.h0.pcap.gz", USUAL));
    let [title, below] = [1, 2].map(|at| picture.lines().nth(at).unwrap());
    assert!(title.contains("repeated READs, 10.0.0.1 → 10.0.0.2"), "{picture}");
    assert!(below.contains("10.0.0.1 QP 32 → 10.0.0.2 QP 36"), "{picture}");
    // The title of a refusal names both hosts: each queue pair is named with its host.
    let picture = text(&overview::replayed("g_badrkey.h0.pcap", USUAL));
    assert!(picture.contains("10.0.0.1 QP 35 → 10.0.0.2 QP 35"), "{picture}");
}

#[test]
fn the_worst_queue_pair_of_hosts_is_the_one_that_lost_most() {
    let app = overview::replayed("e1_loss1.h1.pcap.gz", USUAL);
    let data = app.view.data.as_ref().unwrap();
    let most = data.model.rows.iter().max_by_key(|row| row.total.lost).unwrap();
    let named = format!("→ {}", most.id.key.dest_qp);
    assert!(part(&app, "WORST PEERS")[2].contains(&named), "{named}\n{}", text(&app));
}

#[test]
fn every_step_of_a_problem_is_seen_without_a_key_on_a_small_screen() {
    let mut app = overview::replayed("g_rnr.h0.pcap", USUAL);
    press(&mut app, &[Key::Enter]);
    let steps = app.view.verdict().unwrap().headline.unwrap().steps.clone();
    let picture = text(&app);
    // Long ones are wrapped.
    let whole = picture.split_whitespace().collect::<Vec<_>>().join(" ");
    for command in steps.iter().filter_map(|step| step.command.as_deref()) {
        assert!(whole.contains(&format!("$ {command}")), "{command}\n{picture}");
    }
    assert!(picture.contains(" 4 Keep rnr_retry"), "{picture}");
}

#[test]
fn links_that_are_uneven_are_one_trouble_and_stand_beside_one_another() {
    let mut app =
        overview::replayed_together(&["k1_ecmp_ring.uA0.pcap.gz", "k1_ecmp_ring.uA1.pcap.gz"], (80, 34));
    press(&mut app, &[Key::Enter]);
    let lines = part(&app, "TIMELINE");
    for link in ["uA0", "uA1"] {
        assert!(lines.iter().any(|line| line.contains(link)), "{link}\n{}", text(&app));
    }
    let live = glance_at(Episode::BadHashing);
    let uneven = |one: &&rocescope::findings::Finding| one.id == "links.imbalance";
    let found = live.view.concluded().unwrap().findings;
    assert_eq!(found.iter().filter(uneven).count(), 1, "both directions of rail0");
    assert_eq!(found.iter().find(uneven).unwrap().place.direction, None);
    // What goes on comes before the slow receiver, which is quiet by now.
    assert!(found[0].id == "links.imbalance" && found[1].active, "{}", text(&live));
    // Both directions are marked as uneven, and no other.
    let balance = part(
        &{
            let mut live = live;
            press(&mut live, &[Key::Char('5')]);
            live
        },
        "LOAD BALANCE",
    );
    assert!(balance.iter().filter(|line| line.contains('▲')).count() >= 2, "{balance:?}");
}

/// The links that it compares, in the same direction: a line for each on every screen.
#[test]
fn uneven_load_shows_both_rails_in_one_direction() {
    let mut app = glance_at(Episode::BadHashing);
    for (width, height) in [USUAL, (100, 30), WIDE, (160, 48)] {
        app.on_resize(width, height);
        let lines = part(&app, "TIMELINE");
        let has = |name: &str| lines.iter().any(|line| line.contains(name));
        let both = |way: &str| has(&format!("rail0 {way}")) && has(&format!("rail1 {way}"));
        assert!(both("in") || both("out"), "{width}x{height}\n{}", text(&app));
    }
}

/// A job of 32 flows begins: one line, and the NAKs before it have theirs.
#[test]
fn flows_that_begin_together_are_one_line_of_the_overview() {
    let mut app = glance_at(Episode::BadHashing);
    app.on_resize(160, 48);
    let events = part(&app, "EVENTS");
    assert_eq!(events.iter().filter(|line| line.contains("· NEW ")).count(), 1, "{events:#?}");
    assert!(events.iter().any(|line| line.contains("and 31 more flows")), "{events:#?}");
    assert!(events.iter().any(|line| line.contains(" RNR ")), "{events:#?}");
    // Where all of them have room, each has its line.
    let app = overview::replayed("a1_write_mtu1024.h0.pcap", (300, 100));
    let events = part(&app, "EVENTS");
    assert_eq!(events.iter().filter(|line| line.contains("· NEW ")).count(), 4, "{events:#?}");
}

/// A name that changes with the figures beside it looks like another problem.
#[test]
fn badges_on_a_small_screen_keep_their_names() {
    let updates = sizes::cycle(sizes::CYCLE);
    for (seconds, first) in
        [(24, "✖ LOSS"), (27, "✖ LOSS"), (33, "✖ LOSS"), (38, "▲ RNR"), (48, "▲ UNEVEN LOAD")]
    {
        let app = sizes::until(&updates, seconds);
        let verdict = text(&app).lines().next().unwrap().to_owned();
        assert!(verdict.trim_start().starts_with(first), "{seconds}: {verdict}");
        assert!(
            !verdict.contains("RETRANSMISSIONS") && !verdict.contains("CONGESTION"),
            "{seconds}: {verdict}"
        );
        assert_eq!(verdict.contains("LOAD"), first.contains("LOAD"), "{seconds}: {verdict}");
    }
}

/// The episode begins after 40 s and ends after 50 s; the newest sample ends a second before the time that is asked
/// for.
#[test]
fn bad_hashing_is_known_three_seconds_after_it_begins_and_over_three_after_it_ends() {
    let frames = Scenario::new(1, sizes::CYCLE).take_while(|one| one.at_ns < 55_000_000_000);
    let updates = sizes::updates(frames.map(|one| sizes::captured(&one)));
    let at = |seconds| {
        let app = sizes::until(&updates, seconds);
        let found = app.view.concluded().unwrap().findings;
        let uneven = found.iter().find(|one| one.id == "links.imbalance");
        uneven.map(|one| one.active)
    };
    assert_eq!(at(40), None);
    assert_eq!((at(44), at(51)), (Some(true), Some(true)));
    assert_eq!(at(54), Some(false), "even load was seen");
}

#[test]
fn congestion_of_one_of_two_rails_is_one_trouble() {
    let app = glance_at(Episode::Congestion);
    let found = app.view.concluded().unwrap().findings;
    assert!(found.iter().all(|one| one.id != "links.congested_one_of"));
    let congested = found.iter().find(|one| one.id == "ecn.congestion").unwrap();
    assert!(congested.title.contains(" CE-marked on rail0, 10.40.2.25-28 → "), "{}", congested.title);
    assert!(text(&app).contains("PROBLEMS 1 active"), "{}", text(&app));
}

/// CNPs travel towards the sender, which is to reduce its rate: they count for the pair that it sends to.
#[test]
fn a_congested_pair_has_its_cnps() {
    let app = glance_at(Episode::Congestion);
    let picture = text(&app);
    let lines: Vec<&str> = picture.lines().skip_while(|line| !line.contains("WORST PEERS")).collect();
    let (title, rows) = (lines[1], &lines[2..]);
    let end = title.find(" CNP").unwrap() + " CNP".len();
    let cnps = |line: &&str| -> Option<u64> {
        let letters: Vec<char> = line.chars().collect();
        let cell: String =
            letters.get(title[..end].chars().count() - 6..title[..end].chars().count())?.iter().collect();
        cell.trim().parse().ok()
    };
    let to_host: Vec<_> =
        rows.iter().filter(|line| line.contains("→ 10.40.1.11") && line.contains('▲')).collect();
    assert!(!to_host.is_empty(), "{picture}");
    assert!(to_host.iter().all(|line| cnps(line).is_some_and(|n| n > 0)), "{picture}");
}

/// Three quarters into an episode of the demonstration.
fn glance_at(episode: Episode) -> App {
    let number = Episode::ALL.iter().position(|one| *one == episode).unwrap() as u64;
    let length = Scenario::new(1, sizes::CYCLE).episode_length().as_secs();
    sizes::until(&sizes::cycle(sizes::CYCLE), length * number + length * 3 / 4)
}

#[test]
fn packets_that_take_several_paths_are_said_in_the_detail() {
    let mut app = overview::replayed("e3_reorder.h1.pcap.gz", USUAL);
    press(&mut app, &[Key::Char('2'), Key::Enter]);
    let picture = text(&app);
    assert!(picture.contains("spread   out of order by up to 45 PSNs"), "{picture}");
    assert!(picture.contains("lost     none, 43 reordered"), "{picture}");
    // Live nothing is known of trimmed packets.
    let mut app = table(&World::sick(), USUAL);
    press(&mut app, &[Key::Enter]);
    let picture = text(&app);
    assert!(picture.contains("spread   4 source ports") && picture.contains("trimmed -"), "{picture}");
}

#[test]
fn the_set_of_columns_and_the_help_of_a_column_are_whole_at_80_columns() {
    let mut app = table(&World::sick(), USUAL);
    for set in rocescope::tui::column::sets::SETS.iter().skip(1) {
        press(&mut app, &[Key::Char('C')]);
        let picture = text(&app);
        assert!(picture.contains(&format!("columns: {}", set.name)), "{picture}");
        assert!(picture.contains(&format!("columns {}: {}", set.name, set.help)), "{picture}");
    }
    press(&mut app, &[Key::Char('C'), Key::Char('c')]);
    let picture = text(&app);
    let help = rocescope::tui::column::COLUMNS[0].help;
    let end = help.split_whitespace().last().unwrap();
    assert!(picture.contains(end), "{help}\n{picture}");
}

#[test]
fn a_card_says_what_to_do_where_it_has_room() {
    let app = overview::replayed("g_rnr.h0.pcap", (59, 14));
    let picture = text(&app);
    let whole: String = picture.split_whitespace().collect::<Vec<_>>().join(" ");
    let worst = app.view.verdict().unwrap().headline.unwrap();
    for words in [
        "Receiver 10.0.0.2 not ready: 57 of 69 packets",
        "(82.6 %) retransmitted",
        "DO NEXT",
        "1 Check CPU load",
    ] {
        assert!(whole.contains(words), "{words}: {}\n{picture}", worst.title);
    }
    // With less room, a line of each problem.
    let picture = text(&overview::replayed("g_rnr.h0.pcap", (30, 8)));
    assert!(picture.contains("retransmitted"), "{picture}");
    let picture = text(&overview::replayed("g_rnr.h0.pcap", (59, 4)));
    assert!(picture.lines().nth(1).unwrap().contains("Receiver 10.0.0.2 not ready"), "{picture}");
}

#[test]
fn what_a_problem_accounts_for_has_no_badge_beside_it() {
    let app = overview::replayed("e1_loss1.h1.pcap.gz", USUAL);
    let picture = text(&app);
    let found = app.view.concluded().unwrap().findings;
    assert!(found.iter().any(|one| one.id == "retry.timeouts" && one.owner == Some("loss.before_tap")));
    let verdict = picture.lines().next().unwrap();
    assert!(verdict.contains("LOSS") && !verdict.contains("RETX"), "{picture}");
}

#[test]
fn a_part_with_a_line_for_links_has_one() {
    let mut app = glance_at(Episode::Loss);
    let mut shown = 0;
    for (width, height) in (24..=60).flat_map(|height| [(80, height), (104, height), (130, height)]) {
        app.on_resize(width, height);
        let picture = text(&app);
        let below = picture.lines().skip_while(|line| !line.contains(" LINKS ")).skip(2);
        if let Some(first) = below.take(1).next() {
            shown += 1;
            assert!(first.contains("rail") && first.contains('━'), "{width}x{height}\n{picture}");
        }
    }
    assert!(shown > 10, "{shown}");
}

/// A receiver that is not ready now, below losses that have just stopped; information has no line before it.
#[test]
fn each_active_problem_has_a_line() {
    let updates = sizes::cycle(sizes::CYCLE);
    let length = Scenario::new(1, sizes::CYCLE).episode_length().as_secs();
    let begin = length * Episode::ALL.iter().position(|one| *one == Episode::SlowReceiver).unwrap() as u64;
    let mut together = 0;
    for seconds in [3, 5, 7] {
        let app = sizes::until(&updates, begin + seconds);
        let picture = text(&app);
        let active = |one: &&rocescope::findings::Finding| {
            one.stands() && one.severity > rocescope::findings::Severity::Info
        };
        let problems: Vec<_> = app.view.concluded().unwrap().findings.iter().filter(active).collect();
        together += usize::from(problems.len() > 2);
        for one in problems {
            let begin: String = one.title.chars().take(16).collect();
            let listed = picture.lines().skip_while(|line| !line.contains("PROBLEMS"));
            assert!(listed.into_iter().any(|line| line.contains(&begin)), "{begin}\n{picture}");
        }
    }
    assert!(together > 0, "several are active at once");
}

/// The row of the flow that a finding names has the NAKs that answer it, not the row of the flow that carries them.
#[test]
fn the_row_in_trouble_has_the_naks() {
    let app = overview::replayed("g_rnr.h0.pcap", USUAL);
    let rows = &app.view.data.as_ref().unwrap().model.rows;
    let told: Vec<_> = rows.iter().filter(|row| row.total.rnr > 0).collect();
    assert!(!told.is_empty());
    for row in told {
        let state = rocescope::model::State::of(row);
        assert_eq!(state.worst, Some(rocescope::findings::Problem::NotReady), "{row:?}");
        assert_eq!(row.delta.map(|delta| delta.counts.rnr), Some(row.total.rnr));
        assert!(row.total.acks == 0, "it is the data");
    }
    // Nothing acknowledges an ACK: of its flow no NAK is known, and of each flow of data the number is.
    let known = |row: &rocescope::model::Row| row.total.of_answers(rocescope::model::Counts::naks).is_some();
    assert!(rows.iter().all(|row| known(row) == row.total.sequenced), "{rows:?}");
}

#[test]
fn steps_that_other_traffic_followed_say_since_when_they_are_over() {
    let updates = sizes::cycle(sizes::CYCLE);
    let shown = |seconds| {
        let mut app = sizes::until(&updates, seconds);
        app.on_resize(160, 48);
        text(&app)
    };
    let (during, after) = (shown(38), shown(48));
    assert!(
        during.contains("JOB STEPS ─") && after.contains("JOB STEPS no rhythm since 12:00:39 ─"),
        "{after}"
    );
}

/// Each with its word where it begins, and what goes on to the end.
#[test]
fn a_wide_screen_shows_which_problem_was_there_when() {
    let updates = sizes::cycle(sizes::CYCLE);
    let mut app = sizes::until(&updates, 39);
    app.on_resize(160, 48);
    let row = |app: &App| {
        let picture = text(app);
        let line = picture.lines().find(|line| line.contains(" episodes "));
        line.unwrap_or_else(|| panic!("{picture}")).to_owned()
    };
    let shown = row(&app);
    let at: Vec<_> = ["·CONGESTION━", "LOSS━", "RNR━"].iter().map(|word| shown.find(word)).collect();
    assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{shown}");
    assert!(shown.contains("━▶"), "{shown}");
    // At the cursor it is what was there then.
    assert!(shown.contains("episodes            "), "{shown}");
    press(&mut app, &[Key::Left]);
    assert!(row(&app).contains(" RNR "), "{}", row(&app));
    let healthy = text(&sizes::until(&updates, 9));
    assert!(!healthy.contains(" episodes "), "{healthy}");
}
