//! The overview: at every size, its timeline over a capture, its colours.

use super::*;
use ratatui::style::Modifier;
use rocescope::source::feed::Update;
use rocescope::source::replay;
use rocescope::tui::mouse::Mouse;

const SIZES: [(u16, u16); 3] = [(100, 30), (160, 48), (300, 100)];

/// The state at the end of a replay of a capture.
pub(super) fn replayed(name: &str, size: (u16, u16)) -> App {
    replayed_together(&[name], size)
}

/// The same of several captures.
pub(super) fn replayed_together(names: &[&str], size: (u16, u16)) -> App {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
    let options = replay::Options {
        files: names.iter().map(|name| folder.join(name)).collect(),
        emit: replay::Emit::Every(std::time::Duration::from_secs(1)),
        events: true,
        ..replay::Options::default()
    };
    let feed = replay::start(options).unwrap();
    let mut app = App::new(super::options());
    app.on_resize(size.0, size.1);
    for update in &feed.updates {
        match update {
            Update::Sample(sample) => app.on_sample(Arc::from(sample)),
            Update::Events(events) => app.on_events(&events),
            Update::Ended(result) => {
                result.unwrap();
                break;
            }
            _ => {}
        }
    }
    app.on_end(End::Done);
    let mut analyst = Analyst::new(app.view.options.report.clone());
    app.analyse_with(&mut analyst);
    app
}

#[test]
fn every_part_has_its_place_at_every_size() {
    for size in SIZES {
        for (name, world) in [("sick", World::sick()), ("healthy", World::healthy())] {
            snapshot(&format!("{name}_overview_{}x{}", size.0, size.1), &after(&world, size, 30));
        }
        snapshot(&format!("loss_overview_{}x{}", size.0, size.1), &replayed("e1_loss1.h1.pcap.gz", size));
    }
    snapshot("loss_overview_80x24", &replayed("e1_loss1.h1.pcap.gz", USUAL));
}

/// The headline, the first row of the peers and the first row of the queue pairs are about one queue pair.
#[test]
fn the_worst_queue_pair_is_the_same_in_the_headline_and_in_the_tables() {
    let pair = ["e1_loss1.h0.pcap.gz", "e1_loss1.h1.pcap.gz"];
    for app in [after(&World::sick(), USUAL, 30), replayed(pair[1], USUAL), replayed_together(&pair, USUAL)] {
        let worst = app.view.verdict().unwrap().headline.unwrap();
        let listed = worst.flows.first().unwrap();
        let data = app.view.data.as_ref().unwrap();
        let row = data.peers.first().map(|peer| &data.model.rows[peer.row].id.key).unwrap();
        assert_eq!(row.dest_qp, listed.dest_qp, "{}", text(&app));
        let mut app = app;
        press(&mut app, &[Key::Char('o')]);
        let data = app.view.data.as_ref().unwrap();
        let row = data.peers.first().map(|peer| &data.model.rows[peer.row].id.key).unwrap();
        let worst = app.view.verdict().unwrap().headline.unwrap();
        assert_eq!(row.dest_qp, worst.flows[0].dest_qp, "{}", text(&app));
    }
}

/// What Enter opens is selected before the first key, so that Down goes on to the next one.
#[test]
fn the_worst_problem_is_selected_at_first() {
    let selected = |app: &App| {
        let terminal = draw(app);
        let buffer = terminal.backend().buffer();
        let (width, lines) = (usize::from(buffer.area.width), text(app));
        let rows = buffer.content.chunks(width).zip(lines.lines()).skip(12);
        // A bar stands before the one that opens while the user has selected none.
        let chosen = |row: &[ratatui::buffer::Cell]| {
            row[0].symbol() == "▌" || row[3].modifier.contains(Modifier::REVERSED)
        };
        let line = |line: &str| line.chars().skip(1).collect::<String>();
        rows.filter(|(row, _)| chosen(row)).map(|(_, text)| line(text)).collect::<Vec<_>>()
    };
    let mut app = after(&World::sick(), USUAL, 30);
    let worst = app.view.verdict().unwrap().headline.unwrap().title.clone();
    let first = selected(&app);
    assert!(first[0].contains(&worst[..20]), "{first:#?}");
    press(&mut app, &[Key::Down]);
    assert!(selected(&app) != first && !selected(&app).is_empty());
    press(&mut app, &[Key::Up]);
    assert_eq!(selected(&app), first);
    // Where nothing is wrong, Enter opens the first pair of hosts.
    let app = after(&World::healthy(), USUAL, 30);
    assert!(selected(&app)[0].contains(" → "), "{}", text(&app));
}

/// The lines of the problems where parts stand below one another.
fn problem_lines(app: &App) -> Vec<String> {
    let screen = text(app);
    let lines = screen.lines().skip_while(|line| !line.starts_with("─ PROBLEMS")).skip(1);
    lines.take_while(|line| !line.starts_with('─')).map(str::to_owned).collect()
}

#[test]
fn every_problem_at_80x24_is_whole_or_counted() {
    use rocescope::findings::Severity;
    for app in [after(&World::sick(), USUAL, 30), replayed("e1_loss1.h1.pcap.gz", USUAL)] {
        let lines = problem_lines(&app);
        let findings = app.view.concluded().unwrap().findings;
        let problems: Vec<_> = findings.iter().filter(|one| one.severity > Severity::Info).collect();
        let is_note = |line: &&String| line.starts_with(" · ");
        assert!(lines.iter().filter(|line| !is_note(line)).all(|line| !line.contains('…')), "{lines:#?}");
        // Without the clocks at the right, which stand in the first line of each.
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let all = words(&lines.join(" "));
        let shown = problems.iter().take_while(|one| words(&one.title).iter().all(|word| all.contains(word)));
        let more = lines
            .iter()
            .find_map(|line| line.trim().strip_prefix('+')?.split_once(" more (")?.0.parse().ok());
        assert_eq!(shown.count() + more.unwrap_or(0usize), problems.len(), "{lines:#?}");
    }
}

#[test]
fn bars_of_links_fill_their_column_and_the_links_say_since_when_they_are_uneven() {
    let app = replayed_together(&["k1_ecmp_ring.uA0.pcap.gz", "k1_ecmp_ring.uA1.pcap.gz"], (160, 48));
    let screen = text(&app);
    let head = screen
        .lines()
        .find(|line| line.contains("b/s ") && line.contains("LOST") && line.contains("  LINK "))
        .unwrap();
    let column = |text: &str, what: &str| text[..text.find(what).unwrap()].chars().count();
    let busiest =
        screen.lines().find(|line| line.contains("k1_ecmp_ring.uA0 ") && line.contains('━')).unwrap();
    let end = busiest.chars().count() - busiest.chars().rev().position(|c| c == '━').unwrap();
    assert!(end + 8 >= column(head, "LOST"), "{screen}");
    let begin = rocescope::util::units::second_utc(app.view.newest.as_ref().unwrap().window.unwrap().0);
    let third = screen.lines().nth(2).unwrap();
    assert!(third.contains(&begin) && third.contains(" to the end"), "{screen}");
}

#[test]
fn what_finds_no_room_of_the_information_is_counted() {
    let screen = text(&replayed("a1_write_mtu1024.h0.pcap", USUAL));
    assert!(screen.contains("PROBLEMS none · 3 for information"), "{screen}");
    let lines = problem_lines(&replayed("a1_write_mtu1024.h0.pcap", (80, 18)));
    let shown = lines.iter().filter(|line| line.starts_with(" · ")).count();
    let more = format!("+{} for information", 3 - shown);
    assert!(shown < 3 && lines.iter().any(|line| line.contains(&more)), "{lines:#?}");
}

#[test]
fn no_loss_upstream_is_stated_beside_a_loss_downstream() {
    for (name, downstream) in [("e1_loss1.h0.pcap.gz", true), ("e1_loss1.h1.pcap.gz", false)] {
        let mut app = replayed(name, (160, 48));
        press(&mut app, &[Key::Char('2')]);
        let counters = text(&app).lines().nth(2).unwrap().to_owned();
        assert_eq!(counters.contains("lost upstream 0"), downstream, "{counters}");
        assert!(downstream || counters.contains("│ lost "), "{counters}");
    }
}

/// The cells of a line of the timeline.
fn chart(app: &App, name: &str) -> String {
    let screen = text(app);
    let line = screen.lines().find(|line| line.trim_start_matches([' ', '│']).starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{screen}")).replace('│', " ");
    line.chars().skip(24).take(45).collect()
}

/// Corruption is a problem of its own: it has its signal, which captures without it do not show.
#[test]
fn packets_with_a_wrong_icrc_have_a_line_of_the_timeline() {
    for size in [USUAL, (160, 48)] {
        let app = replayed("e5_corrupt_full.h1.pcap", size);
        let screen = text(&app);
        let line = screen.lines().find(|line| line.trim_start_matches([' ', '│']).starts_with("wrong ICRC"));
        let line = line.unwrap_or_default();
        assert!(line.contains(" 3 pkt"), "{screen}");
        assert!(chart(&app, "wrong ICRC").contains('▇'), "{screen}");
    }
    let screen = text(&replayed("e1_loss1.h1.pcap.gz", (160, 48)));
    assert!(!screen.contains("wrong ICRC"), "{screen}");
}

/// What the headline is about is not a line of eighths below a throughput of ten lines.
#[test]
fn signals_of_an_active_problem_are_higher_than_a_line_where_there_is_room() {
    for (name, signals) in [
        ("e1_loss1.h1.pcap.gz", &["lost", "retransmit", "NAK"][..]),
        ("g_rnr.h0.pcap", &["RNR NAK"]),
        ("f1_ecn_red.h1.pcap.gz", &["ECN CE, all"]),
    ] {
        let screen = text(&replayed(name, (160, 48)));
        let heads: Vec<&str> = screen.lines().map(|line| line.get(..20).unwrap_or(line)).collect();
        for signal in signals {
            let at = heads.iter().position(|head| head.contains(&format!(" {signal} ")));
            let below = at.and_then(|at| heads.get(at + 1)).copied().unwrap_or_default();
            assert!(below.trim_matches(['│', ' ']).is_empty(), "{signal} has one line:\n{screen}");
        }
    }
}

#[test]
fn a_capture_of_a_second_fills_the_timeline() {
    for name in ["e1_loss1.h1.pcap.gz", "g_rnr.h0.pcap"] {
        let mut app = replayed(name, USUAL);
        assert!(app.view.newest.as_ref().unwrap().metrics.timeline.is_some());
        let known = chart(&app, "retransmit").chars().filter(|c| *c != ' ').count();
        assert!(known >= 40, "{known} of 45 columns: {}", text(&app));
        // A shorter time has as many columns.
        press(&mut app, &[Key::Char('+')]);
        let known = chart(&app, "retransmit").chars().filter(|c| *c != ' ').count();
        assert!(known >= 30, "{known} of 45 columns: {}", text(&app));
    }
}

#[test]
fn the_cursor_shows_the_values_of_its_time() {
    let mut app = replayed("e1_loss1.h1.pcap.gz", USUAL);
    let before = text(&app);
    press(&mut app, &[Key::Left; 20]);
    let at = app.screens.overview.chart.cursor_ns.unwrap();
    let screen = text(&app);
    let clock = rocescope::util::units::clock_utc(at);
    assert!(screen.contains("at cursor, in ") && screen.contains(&clock), "{clock}: {screen}");
    assert_ne!(before.lines().nth(6), screen.lines().nth(6), "throughput at that time");
    // Back to now.
    press(&mut app, &[Key::Right; 25]);
    assert_eq!((app.screens.overview.chart.cursor_ns, text(&app)), (None, before));
}

#[test]
fn a_click_into_the_timeline_sets_its_cursor() {
    for size in [USUAL, WIDE, (160, 48)] {
        let mut app = replayed("e1_loss1.h1.pcap.gz", size);
        let shown = text(&app);
        let is_lost = |line: &str| line.trim_start_matches(['│', ' ']).starts_with("lost ");
        let y = shown.lines().position(is_lost).unwrap();
        let y = u16::try_from(y).unwrap();
        let line: Vec<char> = shown.lines().nth(usize::from(y)).unwrap().chars().collect();
        let bar = line.iter().rposition(|symbol| ('▁'..='▇').contains(symbol)).unwrap();
        let bar = u16::try_from(bar).unwrap();
        let _ = app.on_mouse(Mouse::Click(bar, y));
        assert!(app.screens.overview.chart.cursor_ns.is_some(), "{shown}");
        let screen = text(&app);
        assert!(screen.contains("at cursor, in "), "{screen}");
        // The cell that was clicked is marked.
        let terminal = draw(&app);
        let cell = &terminal.backend().buffer()[(bar, y)];
        assert!(cell.modifier.contains(Modifier::REVERSED), "{screen}");
        // Beside the chart there is no time.
        let _ = app.on_mouse(Mouse::Click(3, y));
        assert_eq!(app.screens.overview.chart.cursor_ns, None);
        assert_eq!(text(&app), shown);
    }
}

#[test]
fn what_is_zero_or_ended_has_no_colour_of_a_level() {
    let levels = [Color::Red, Color::Yellow];
    let coloured = |app: &App| {
        let terminal = draw(app);
        let buffer = terminal.backend().buffer().clone();
        buffer.content.iter().any(|cell| levels.contains(&cell.fg) || levels.contains(&cell.bg))
    };
    for size in [USUAL, WIDE, LARGE] {
        let mut healthy = after(&World::healthy(), size, 30);
        healthy.view.options.report.analysis.imbalance_all_links = false;
        assert!(healthy.view.verdict().unwrap().headline.is_none());
        assert!(!coloured(&healthy), "{}", text(&healthy));
        assert!(coloured(&after(&World::sick(), size, 30)));
    }
    // The symbol of what has ended.
    let (symbol, style) = rocescope::tui::theme::mark(rocescope::model::Level::Critical, false);
    assert_eq!((symbol, style.fg), ("○", None));
    assert!(style.add_modifier.contains(Modifier::DIM));
}

/// The words of a picture, each with its cells.
fn cells_of_words(app: &App) -> Vec<(String, Vec<ratatui::buffer::Cell>)> {
    let terminal = draw(app);
    let buffer = terminal.backend().buffer();
    let mut words = Vec::new();
    for line in buffer.content.chunks(usize::from(buffer.area.width)) {
        for word in
            line.split(|cell| [" ", "│", "·"].contains(&cell.symbol())).filter(|word| !word.is_empty())
        {
            words.push((word.iter().map(ratatui::buffer::Cell::symbol).collect(), word.to_vec()));
        }
    }
    words
}

/// True for a number that is zero, whatever its unit.
fn is_zero(word: &str) -> bool {
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (number, unit) = word.split_at(end);
    let is_unit = unit.is_empty() || ["%", "/s", "ms", "ms/s", ",", ")"].contains(&unit);
    is_unit && number.parse::<f64>().is_ok_and(|number| number == 0.0)
}

/// A zero beside what is wrong has no colour of a level.
#[test]
fn zeros_of_what_is_sick_have_no_colour_of_a_level() {
    assert!(["0", "0.00", "0/s", "0.0%", "0,"].iter().all(|word| is_zero(word)));
    assert!(!["10", "0.1", "0-3", "rail0", "", ".", "00:00:01"].iter().any(|word| is_zero(word)));
    let levels = [Color::Red, Color::Yellow];
    let (mut zeros, mut coloured) = (0, 0);
    for size in [USUAL, WIDE, LARGE] {
        let states = [
            after(&World::sick(), size, 30),
            replayed("e1_loss1.h1.pcap.gz", size),
            replayed("g_rnr.h0.pcap", size),
        ];
        for mut app in states {
            let ends = [&[Key::Char('2'), Key::Down, Key::Enter][..], &[Key::Char('1'), Key::Enter]];
            let tabs = ['1', '2', '4', '5', '6', '7', '8'].map(|number| vec![Key::Char(number)]);
            for keys in tabs.iter().map(Vec::as_slice).chain(ends) {
                press(&mut app, &[&[Key::Esc], keys].concat());
                for (word, cells) in cells_of_words(&app) {
                    let level =
                        cells.iter().any(|cell| levels.contains(&cell.fg) || levels.contains(&cell.bg));
                    assert!(!level || !is_zero(&word), "{word} on {:?}: {}", app.view.screen, text(&app));
                    zeros += usize::from(is_zero(&word));
                    coloured += usize::from(level);
                }
            }
        }
    }
    assert!(zeros > 100 && coloured > 100, "{zeros} zeros, {coloured} coloured words");
}

/// In the colour of its level it would read as a problem that goes on.
#[test]
fn the_badge_of_a_quiet_problem_is_grey() {
    let updates = sizes::cycle(sizes::CYCLE);
    let mut app = sizes::until(&updates, 47);
    app.on_resize(USUAL.0, USUAL.1);
    let terminal = draw(&app);
    let title: Vec<_> = terminal.backend().buffer().content.iter().take(USUAL.0.into()).collect();
    let cell = |word: &str| {
        let is = |cells: &[&ratatui::buffer::Cell]| {
            cells.iter().map(|cell| cell.symbol()).eq(word.split("").filter(|one| !one.is_empty()))
        };
        let at = title.windows(word.len()).position(is).unwrap_or_else(|| panic!("{}", text(&app)));
        title[at]
    };
    assert_ne!(cell("UNEVEN LOAD").bg, Color::Reset);
    let quiet = cell("RNR");
    assert_eq!((quiet.fg, quiet.bg, quiet.modifier), (Color::Reset, Color::Reset, Modifier::DIM));
}

#[test]
fn a_problem_that_has_ended_is_hollow_and_grey() {
    let updates = sizes::cycle(sizes::CYCLE);
    let mut app = sizes::until(&updates, 47);
    for size in [USUAL, WIDE, LARGE] {
        app.on_resize(size.0, size.1);
        for keys in [&[Key::Char('1')][..], &[Key::Char('8'), Key::Home]] {
            press(&mut app, keys);
            let terminal = draw(&app);
            let buffer = terminal.backend().buffer();
            let signs = buffer.content.iter().filter(|cell| cell.symbol() == "○");
            let signs: Vec<_> = signs.map(|cell| (cell.fg, cell.bg, cell.modifier)).collect();
            assert!(!signs.is_empty(), "{}", text(&app));
            let grey = (Color::Reset, Color::Reset, Modifier::DIM);
            assert!(signs.iter().all(|sign| *sign == grey), "{signs:?}: {}", text(&app));
        }
        // Its title has no colour of a level either.
        press(&mut app, &[Key::Char('1')]);
        let words = cells_of_words(&app);
        let behind = words.iter().skip_while(|(word, _)| word != "○").skip(1).take(3);
        let levels = [Color::Red, Color::Yellow];
        for (word, cells) in behind {
            assert!(cells.iter().all(|cell| !levels.contains(&cell.fg)), "{word}: {}", text(&app));
        }
    }
}

/// The titles of the list of peers as `o` goes through them.
fn groups(app: &mut App, keys: usize) -> Vec<String> {
    let title = |app: &App| {
        let screen = text(app);
        let line = screen.lines().find(|line| line.contains("WORST ") || line.contains("QUEUE PAIRS"));
        let words = line.unwrap_or_else(|| panic!("no list in\n{screen}")).split_whitespace();
        words
            .filter(|word| word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase()))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut titles = Vec::new();
    for _ in 0..keys {
        titles.push(title(app));
        press(app, &[Key::Char('o')]);
    }
    titles
}

#[test]
fn the_list_of_peers_goes_by_what_the_data_knows() {
    let mut live = after(&World::sick(), WIDE, 30);
    let all = [
        "WORST PEERS",
        "WORST QUEUE PAIRS",
        "WORST REMOTE HOSTS",
        "WORST PROCESSES",
        "WORST PODS",
        "WORST JOBS",
        "WORST LINKS",
        "WORST PEERS",
    ];
    assert_eq!(groups(&mut live, all.len()), all);
    // Rails as they are named.
    live.view.options.report.analysis.rails =
        vec![("eth0".into(), "r0".into()), ("eth1".into(), "r1".into())];
    assert_eq!(groups(&mut live, 8)[6..], ["WORST RAILS", "WORST PEERS"]);
    // One tap: no host is remote, and no process known.
    let mut capture = replayed("e1_loss1.h1.pcap.gz", WIDE);
    assert_eq!(groups(&mut capture, 3), ["WORST PEERS", "WORST QUEUE PAIRS", "WORST PEERS"]);
}

#[test]
fn each_group_counts_every_flow_once_and_opens_its_own() {
    let mut app = after(&World::sick(), WIDE, 30);
    app.view.options.report.analysis.rails = vec![("eth1".into(), "r1".into())];
    let flows = app.view.data.as_ref().unwrap().model.dedup.flows;
    for by in 0..8 {
        let data = app.view.data.as_ref().unwrap();
        let counted: usize = data.peers.iter().map(|peer| peer.flows).sum();
        assert_eq!(counted, flows, "{:?}", data.by);
        // Of those that the headline is about or that show trouble now, the one with the first finding of the report.
        let shows = |peer: &&rocescope::tui::peers::Peer| {
            peer.judged.is_headline() || peer.judged.active && peer.fault_rank().any()
        };
        let worst = data.peers.iter().filter(shows).map(|peer| peer.judged.rank()).max();
        assert!(worst.is_some());
        assert_eq!(data.peers.first().map(|peer| peer.judged.rank()), worst, "{:?}", data.by);
        let last = data.peers.last().unwrap().flows;
        let one = data.by == rocescope::tui::peers::PeerGrouping::QueuePairs;
        press(&mut app, &[Key::End, Key::Enter]);
        if one {
            assert_eq!((app.view.screen, last), (Screen::Detail, 1));
        } else {
            assert_eq!((app.view.screen, app.screens.flows.order.len()), (Screen::Qps, last), "group {by}");
        }
        press(&mut app, &[Key::Esc, Key::Char('1')]);
        press(&mut app, &[Key::Char('o')]);
    }
}

#[test]
fn peers_by_process() {
    let mut app = after(&World::sick(), (160, 48), 30);
    press(&mut app, &[Key::Char('o'); 3]);
    snapshot("sick_overview_processes_160x48", &app);
}

/// The lines of a part, from its title to the next.
fn part(app: &App, title: &str) -> Vec<String> {
    let screen = text(app);
    let lines = screen.lines().skip_while(|line| !line.contains(title)).skip(1);
    lines.take_while(|line| !line.contains("──")).map(str::to_owned).collect()
}

/// What several taps see of a queue pair is one row, and the one that lost most comes first, whatever the load.
#[test]
fn queue_pairs_are_ordered_by_impact_and_each_stands_once() {
    let mut app = replayed_together(&["e1_loss1.h0.pcap.gz", "e1_loss1.h1.pcap.gz"], (100, 40));
    press(&mut app, &[Key::Char('o')]);
    let data = app.view.data.as_ref().unwrap();
    assert_eq!((data.peers.len(), data.model.rows.len()), (8, 16));
    let lost: Vec<u64> = data.peers.iter().map(|peer| peer.counts.lost).collect();
    assert_eq!(lost, [37, 27, 16, 12, 0, 0, 0, 0]);
    let rows = part(&app, "WORST QUEUE PAIRS by impact");
    let [titles, first, ..] = &rows[..] else { panic!("{rows:#?}") };
    assert!(titles.contains("DESTINATION QP ") && titles.contains("LOST   RETX"), "{titles}");
    let words: Vec<&str> = first.split_whitespace().collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !"│✖".contains(word)).collect();
    assert_eq!(words[..6], ["10.0.0.1", "→", "10.0.0.2", "24", "→", "24"], "{first}");
    assert!(words.contains(&"37") && words.contains(&"1.52k"), "{first}");
    // Each opens its details.
    press(&mut app, &[Key::End, Key::Enter]);
    assert_eq!(app.view.screen, Screen::Detail);
}

/// CNPs stand beside the data whose rate they reduce, of queue pairs as of hosts.
#[test]
fn cnps_of_a_queue_pair_stand_beside_its_data() {
    let mut app = after(&World::sick(), WIDE, 30);
    let of = |app: &App| -> Vec<(u64, u64)> {
        let peers = &app.view.data.as_ref().unwrap().peers;
        peers
            .iter()
            .filter(|peer| peer.counts.cnp > 0)
            .map(|peer| (peer.counts.cnp, peer.counts.bytes))
            .collect()
    };
    let hosts = of(&app);
    press(&mut app, &[Key::Char('o')]);
    let queue_pairs = of(&app);
    let sum = |all: &[(u64, u64)]| all.iter().map(|(cnps, _)| cnps).sum::<u64>();
    assert!(!hosts.is_empty());
    assert_eq!(sum(&hosts), sum(&queue_pairs));
}

/// A column in which something was counted has one colour, where the problem began in the middle of what it counts.
#[test]
fn a_bar_of_the_timeline_has_one_colour() {
    let app = replayed("g_badrkey.h0.pcap", WIDE);
    let terminal = draw(&app);
    let buffer = terminal.backend().buffer();
    let width = usize::from(buffer.area.width);
    let lines = buffer.content.chunks(width);
    let row = |line: &&[ratatui::buffer::Cell]| {
        let text: String = line.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.starts_with("│ NAK ") && text.contains("1 pkt")
    };
    let line = lines.into_iter().find(row).expect("a row of NAKs");
    let colours: std::collections::BTreeSet<String> = line[..100]
        .iter()
        .filter(|cell| "▁▂▃▄▅▆▇█".contains(cell.symbol()))
        .map(|cell| format!("{:?}", cell.fg))
        .collect();
    assert_eq!(colours.len(), 1, "{colours:?}");
}

/// The colour of a text behind the first `after`.
pub(super) fn colour(app: &App, after: &str, of: &str) -> ratatui::style::Color {
    let terminal = draw(app);
    let buffer = terminal.backend().buffer();
    let width = usize::from(buffer.area.width);
    let all: Vec<&str> = buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect();
    let from = |at: usize, text: &str| {
        let letters = text.chars().count();
        (at..all.len() - letters)
            .find(|at| all[*at..at + letters].concat() == text && at % width + letters <= width)
            .unwrap_or_else(|| panic!("no {text} behind {after}"))
    };
    let at = from(from(0, after) + after.chars().count(), of);
    buffer.content[at].fg
}

/// What a finding is about has the colour of the finding, beside one another, on all screens: the loss is critical, and
/// its retransmissions and NAKs are as red.
#[test]
fn a_level_has_one_colour_on_all_screens() {
    let mut app = replayed_together(&["e1_loss1.h0.pcap.gz", "e1_loss1.h1.pcap.gz"], (120, 40));
    let row = [("✖ 10.0.0.1", "92 "), ("✖ 10.0.0.1", "4.05k"), ("4.05k", "50 ")];
    let [lost, retransmitted, naks] = row.map(|(after, of)| colour(&app, after, of));
    assert_eq!((retransmitted, naks), (lost, lost));
    let plain = colour(&app, "✖ 10.0.0.1", "→");
    assert_ne!(lost, plain);
    press(&mut app, &[Key::Char('2'), Key::Enter]);
    let [gaps, again] = ["13 missing", "1.47k retransmitted"].map(|text| colour(&app, "QUEUE PAIR", text));
    assert_eq!([gaps, again], [lost, retransmitted]);
}

/// Green is what is known to be healthy: of a few packets too little is.
#[test]
fn a_healthy_verdict_with_reserve_is_not_green() {
    let green = |app: &App| {
        let terminal = draw(app);
        let title = terminal.backend().buffer().content[..usize::from(USUAL.0)].to_vec();
        title.iter().any(|cell| cell.fg == Color::Green || cell.bg == Color::Green)
    };
    let healthy = after(&World::healthy(), USUAL, 30);
    assert!(green(&healthy) && text(&healthy).contains(" ● HEALTHY  "), "{}", text(&healthy));
    let few = replayed("b7_ud_ops.h1.pcap", USUAL);
    let picture = text(&few);
    assert!(
        picture.contains(" ○ NO WARNING  ") && picture.contains(" ○ no warning since the start"),
        "{picture}"
    );
    assert!(!green(&few), "{picture}");
}
