//! Tests of the lines of problems.

use super::*;
use crate::findings::DataEnd;
use crate::util::time::NS_PER_S;

const START: u64 = 1_772_370_000 * NS_PER_S;

fn lossy(title: &str, seen: u64) -> Finding {
    Finding {
        first_seen_ns: Some(START),
        last_seen_ns: Some(START + seen * NS_PER_S),
        ..Finding::new("loss.before_tap", Severity::Critical, title.to_owned())
    }
}

fn texts(lines: &[Line<'_>]) -> Vec<String> {
    lines.iter().map(|line| line.spans.iter().map(|span| &*span.content).collect()).collect()
}

/// Whatever the length of the sentence: the time comes behind its last word, and no word is lost.
#[test]
fn each_problem_has_its_sentence_whole_and_its_time_behind_it() {
    let end = Clock { end: DataEnd { ns: Some(START + 9 * NS_PER_S), ..DataEnd::default() }, history: None };
    let words = "Loss upstream of rail0,1: 294 of 17,182 packets (1.71 %), 4 hosts to 10.40.1.11 QP 9";
    let ends: Vec<usize> = words.match_indices(' ').map(|(at, _)| at).chain([words.len()]).collect();
    for (width, seen) in (40..110).flat_map(|width| [(width, 9), (width, 2)]) {
        for title in ends.iter().map(|end| &words[..*end]) {
            let lines = texts(&brief(&lossy(title, seen), end, width).lines);
            let all = lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
            let time = if seen == 9 { "since 13:00:00" } else { "quiet for 7 s" };
            let last = lines.last().unwrap();
            assert!(all.contains(title) && last.contains(time), "{width}: {lines:#?}");
            assert!(all.find(title) < all.rfind(time), "{width}: {lines:#?}");
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}: {lines:#?}");
        }
    }
}

#[test]
fn every_problem_has_a_line_before_one_has_two() {
    let end = Clock { end: DataEnd { ns: Some(START + 9 * NS_PER_S), ..DataEnd::default() }, history: None };
    let title = "Receiver 10.40.2.23 not ready: 412 RNR NAKs for 8,478 request packets (4.86 %)";
    let ended = |at: usize| Finding { active: at < 4, ..lossy(&format!("{title} {at}"), 9) };
    let all: Vec<Finding> = (0..6).map(ended).collect();
    let all: Vec<(usize, &Finding)> = all.iter().enumerate().collect();
    let lines =
        |room| texts(&whole(&all, end, 80, room).into_iter().map(|(_, line)| line).collect::<Vec<_>>());
    for room in 6..12 {
        let shown = lines(room);
        assert_eq!(shown.len(), room.min(12));
        let places: Vec<_> = whole(&all, end, 80, room).into_iter().filter_map(|(at, _)| at).collect();
        assert!((0..6).all(|at| places.contains(&at)), "{room}: {shown:#?}");
    }
    assert_eq!(lines(5).last().unwrap(), "   +2 more (2 ended): screen 8");
    assert_eq!(lines(2).last().unwrap(), "   +5 more (3 critical, 2 ended): screen 8");
    assert!(lines(1)[0].contains("Receiver 10.40.2.23"), "{:#?}", lines(1));
    assert_eq!(lines(0).len(), 0);
}

#[test]
fn a_problem_lasts_until_the_time_shown() {
    let end = Clock { end: DataEnd { ns: Some(START + 9 * NS_PER_S), ..DataEnd::default() }, history: None };
    let shown = Clock { end: DataEnd { shown_ns: Some(START + 11 * NS_PER_S), ..*end }, ..end };
    let finding = lossy("Loss", 5);
    let longest = |end| TimeText::of(&finding, end).forms().next().unwrap_or_default().to_owned();
    assert_eq!(longest(end), "since 13:00:00, quiet for 4 s");
    assert_eq!(longest(shown), "since 13:00:00, quiet for 6 s");
    let finding = lossy("Loss", 9);
    assert_eq!(finding.when(*shown).as_deref(), Some("since 13:00:00 UTC, for 11.0 s"));
}

/// How often it came back is a fact of the finding itself, and it goes first where there is little room.
#[test]
fn how_long_and_how_often_stand_where_there_is_room() {
    use crate::findings::Episode;
    let end = Clock { end: DataEnd { ns: Some(START + 9 * NS_PER_S), ..DataEnd::default() }, history: None };
    let episode = |from: u64, to: u64| Episode {
        first_ns: START + from * NS_PER_S,
        last_ns: START + to * NS_PER_S,
        peak: None,
    };
    let again = Finding { episodes: vec![episode(0, 2), episode(6, 9)], ..lossy("Loss", 9) };
    let forms: Vec<String> = TimeText::of(&again, end).forms().map(str::to_owned).collect();
    let nth = again.recurrence(*end).unwrap();
    let short = ["since 13:00:06 (3 s)", "since 13:00:06"];
    assert_eq!(forms, [&*format!("{}, {nth}", short[0]), short[0], short[1]]);
    let best = |all: usize, alone: usize| {
        let time = TimeText::of(&again, end);
        let best = time.best(|form| form.len() <= all, |form| form.len() <= alone);
        best.map(str::to_owned)
    };
    assert_eq!(best(80, 80).as_deref(), Some(&*forms[0]));
    assert_eq!(best(21, 80).as_deref(), Some(short[0]));
    assert_eq!(best(0, 80).as_deref(), Some(short[1]));
    assert_eq!(best(0, 9), None);
    let over = Finding { active: false, ..again };
    assert!(
        TimeText::of(&over, end).forms().next().unwrap().starts_with("ended 13:00:09, lasted 3 s, 2nd time")
    );
}

/// What has ended takes one line each where the steps of what lasts have no room otherwise.
#[test]
fn what_to_do_comes_before_the_details_of_what_has_ended() {
    let end = Clock { end: DataEnd { ns: Some(START + 9 * NS_PER_S), ..DataEnd::default() }, history: None };
    let title = "Receiver 10.40.2.23 not ready: 412 RNR NAKs for 8,478 request packets (4.86 %)";
    let of = |active: usize| -> Vec<Finding> {
        let one = |at: usize| Finding { active: at < active, ..lossy(&format!("{title} {at}"), 9) };
        (0..5).map(one).collect()
    };
    let lines = |all: &[Finding], room: usize, blocks: &[usize]| {
        let all: Vec<(usize, &Finding)> = all.iter().enumerate().collect();
        listed(&all, end, 54, (room, blocks)).map(|lines| lines.len())
    };
    let whole = lines(&of(1), 60, &[]).unwrap();
    assert!(whole >= 10, "{whole}");
    assert_eq!(lines(&of(1), whole + 7, &[2, 2]), Some(whole), "all have room");
    assert_eq!(lines(&of(1), whole + 1, &[2, 2]), Some(whole - 4), "a line for each of four");
    assert_eq!(lines(&of(1), whole, &[30]), Some(whole), "the step has no room in any case");
    assert_eq!(lines(&of(0), whole + 1, &[2, 2]), Some(whole), "nothing to do");
    assert_eq!(lines(&of(5), whole + 1, &[2, 2]), Some(whole), "nothing has ended");
    assert_eq!(lines(&of(1), 4, &[2]), None);
}

/// A list in which some have a time and others none does not say which came first.
#[test]
fn each_problem_in_a_line_has_its_time() {
    let title = "Loss or reordering downstream: 2.68 % retransmitted, 10.40.1.11 → 4 hosts";
    let end = Clock { end: DataEnd { ns: Some(START + 9 * NS_PER_S), ..DataEnd::default() }, history: None };
    let line = |finding: &Finding, width| texts(&[cut_off(finding, end, width)]).remove(0);
    let over = Finding { active: false, ..lossy(title, 2) };
    for width in [60, 80, 100] {
        assert!(line(&over, width).ends_with("  ended 13:00:02"), "{width}");
        assert!(line(&lossy(title, 2), width).ends_with("  quiet for 7 s"), "{width}");
        assert!(line(&lossy(title, 9), width).ends_with("  since 13:00:00"), "{width}");
    }
    assert!(line(&over, 80).starts_with(" ○ Loss or reordering downstream: 2.68 % retransmitted…  "));
}

#[test]
fn steps_name_their_problem_and_commands_are_whole() {
    let command = "ethtool -S rail0 | grep -iE 'discard|drop|buf|pause|err'";
    let mut one = lossy("Loss upstream of rail0,1: 294 of 17,182 packets", 9);
    let step =
        Step { text: "Check port rail0.".to_owned(), command: Some(command.to_owned()), ..Step::default() };
    one.steps = vec![step];
    let lines = texts(&steps(&[lossy("Drops", 9), one.clone()], 40, 9, true));
    assert_eq!(lines[1], " DO NEXT for loss upstream of rail0,1");
    let shown: Vec<&str> = lines[3..].iter().map(|line| line.trim_start_matches([' ', '$'])).collect();
    assert_eq!(shown.join(" "), command);
    assert!(lines[3].starts_with("   $ ") && lines.len() == 5, "{lines:#?}");
    assert_eq!(kind(&lossy("ECN congestion: 9 %, 10.0.0.2 → 10.0.0.1", 9)), "ECN congestion");
}

/// What a switch port and the costs beyond the title say has more room than what the title says already.
#[test]
fn the_line_below_a_diagnosis_repeats_none_of_it() {
    use crate::findings::{Hop, Impact, Place};
    let mut one = lossy("Loss upstream of rail0,1: 294 of 17,182 packets (1.71 %), 4 hosts → 10.40.1.11", 9);
    one.place = Place {
        links: vec!["rail0".into(), "rail1".into()],
        hop: Some(Hop::Upstream),
        switch_port: Some("leaf1 swp11, leaf1 swp12".into()),
        ..Place::default()
    };
    one.impact = Impact { packets_ratio: Some(0.0171), retransmissions: Some(147), ..Impact::default() };
    let end = Clock { end: DataEnd { ns: Some(START + 9 * NS_PER_S), ..DataEnd::default() }, history: None };
    let said = |one: &Finding| joined(&parts(one, end));
    assert_eq!(said(&one), "switch ports leaf1 swp11, swp12 · 147 retransmissions");
    one.place.switch_port = Some("leaf1 swp11, leaf2 swp12".into());
    assert_eq!(said(&one), "switch ports leaf1 swp11, leaf2 swp12 · 147 retransmissions");
    one.title = "Loss: 294 packets lost".to_owned();
    assert!(said(&one).contains("upstream of rail0, rail1") && said(&one).contains("1.71 % of packets"));
}
