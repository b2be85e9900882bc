//! Effects of keys and of the mouse.

use super::*;
use rocescope::tui::app::Overlay;
use rocescope::tui::column::Id;
use rocescope::tui::matrix::Metric;
use rocescope::tui::mouse::Mouse;
use rocescope::tui::table::{FocusCondition, Group};

#[test]
fn every_key_of_the_table_does_something_where_it_is_bound_and_nothing_bad_elsewhere() {
    for binding in KEYMAP {
        for key in binding.keys {
            for number in '1'..='8' {
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
    for key in [Key::Char('q'), Key::Ctrl('c')] {
        assert_eq!(app(&World::sick(), USUAL).on_key(key), Action::Quit, "{key}");
    }
    let mut app = table(&World::sick(), USUAL);
    assert_eq!(press(&mut app, &[Key::Ctrl('z')]), Action::Suspend);
    assert_eq!(press(&mut app, &[Key::Ctrl('l')]), Action::Redraw);
    // Esc closes one thing at a time: help, details, filter, selection, marks. It never quits.
    press(&mut app, &[Key::Down, Key::Char('m')]);
    press(&mut app, &[Key::Char('/'), Key::Char('1'), Key::Enter, Key::Down, Key::Enter, Key::Char('?')]);
    assert_eq!(
        (app.overlay, app.view.screen, app.view.filter.text.as_str()),
        (Overlay::Help(0), Screen::Detail, "1")
    );
    assert_eq!(press(&mut app, &[Key::Esc]), Action::Draw);
    assert_eq!((app.overlay, app.view.screen), (Overlay::None, Screen::Detail));
    press(&mut app, &[Key::Esc]);
    assert_eq!((app.view.screen, app.view.filter.text.as_str()), (Screen::Qps, "1"));
    press(&mut app, &[Key::Esc]);
    assert!(app.view.filter.text.is_empty() && app.view.selected.is_some());
    press(&mut app, &[Key::Esc]);
    assert!(app.view.selected.is_none() && !app.view.marked.is_empty());
    press(&mut app, &[Key::Esc]);
    assert!(app.view.marked.is_empty());
    for number in '1'..='8' {
        press(&mut app, &[Key::Char(number)]);
        for _ in 0..5 {
            assert_eq!(press(&mut app, &[Key::Esc]), Action::Draw, "{number}");
        }
        // From the details it leads to where they were opened.
        assert!(number == '3' || text(&app).contains("nothing to close (q quits)"), "{}", text(&app));
    }
}

#[test]
fn keys_that_change_screens() {
    let mut app = app(&World::sick(), USUAL);
    for (number, screen) in ('1'..).zip(Screen::TABS) {
        press(&mut app, &[Key::Char(number)]);
        assert_eq!(app.view.screen, screen);
    }
    press(&mut app, &[Key::Tab]);
    assert_eq!(app.view.screen, Screen::Overview);
    press(&mut app, &[Key::BackTab]);
    assert_eq!(app.view.screen, Screen::Findings);
}

#[test]
fn keys_that_move() {
    let mut app = table(&World::many(1_000), USUAL);
    let page = app.view.layout().table_page();
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
    ] {
        press(&mut app, keys);
        assert_eq!(app.screens.flows.cursor.selected, Some(at), "{keys:?}");
        assert!(app.screens.flows.cursor.offset <= at && at < app.screens.flows.cursor.offset + page);
    }
}

fn qps(app: &App) -> Vec<u32> {
    let data = app.view.data.as_ref().unwrap();
    app.screens.flows.order.iter().map(|i| data.model.rows[*i].id.key.dest_qp).collect()
}

#[test]
fn keys_that_sort() {
    let mut app = table(&World::many(1_000), USUAL);
    assert_eq!(app.screens.flows.sort.by, Id::State);
    press(&mut app, &[Key::Char('s')]);
    assert_eq!((app.screens.flows.sort.by, app.screens.flows.sort.descending), (Id::Source, false));
    press(&mut app, &[Key::Char('s'), Key::Char('s')]);
    assert_eq!(app.screens.flows.sort.by, Id::Qp);
    assert!(qps(&app).is_sorted());
    press(&mut app, &[Key::Char('S')]);
    assert!(qps(&app).is_sorted_by(|a, b| a >= b));
    press(&mut app, &[Key::Char('S')]);
    assert!(qps(&app).is_sorted());
    let columns = app.screens.flows.columns(&app.view).len();
    press(&mut app, &vec![Key::Char('s'); columns - 3]);
    assert_eq!(app.screens.flows.sort.by, Id::State, "after the last visible column comes the first");
}

#[test]
fn a_key_without_a_meaning_says_so() {
    let mut app = table(&World::sick(), USUAL);
    press(&mut app, &[Key::Char('Z')]);
    assert!(text(&app).contains(" Z does nothing here; ? lists keys"), "{}", text(&app));
    press(&mut app, &[Key::Char('h')]);
    assert!(text(&app).contains(" h does nothing here"), "{}", text(&app));
    press(&mut app, &[Key::Char('4'), Key::Char('h')]);
    assert!(!text(&app).contains("does nothing here"));
}

#[test]
fn rows_keep_their_places_while_one_is_selected_and_are_followed_on_demand() {
    let world = World::many(1_000);
    let mut app = table(&world, USUAL);
    // By rate, largest first.
    press(&mut app, &[Key::Char('s'); 4]);
    assert_eq!(app.screens.flows.sort.by, Id::Rate);
    press(&mut app, &[Key::PageDown, Key::PageDown, Key::Up, Key::Up]);
    let (selected, before) = (app.view.selected, qps(&app));
    let at = app.screens.flows.cursor;
    assert!(selected.is_some() && at.selected.unwrap() > at.offset);
    // The selected flow becomes the slowest, and a new one comes.
    let mut many = World::many(1_001);
    let slow = app.view.selected.map(|id| id.key.dest_qp).unwrap();
    let faster = |sample: &mut rocescope::sample::Sample| {
        for flow in sample.flows.iter_mut().filter(|flow| flow.key.dest_qp != slow) {
            flow.stats.bytes += 1 << 40;
        }
    };
    let mut sample = many.at(4);
    faster(&mut sample);
    app.on_sample(Arc::new(sample));
    assert_eq!((app.view.selected, app.screens.flows.cursor), (selected, at));
    let now = qps(&app);
    assert_eq!((&now[..1_000], now[1_000]), (&before[..], 100 + 1_000));
    let held = text(&app);
    assert!(held.contains("order held (f)") && !held.contains("sort b/s"), "{held}");
    // Followed, it goes down the table and takes the view with it.
    press(&mut app, &[Key::Char('f')]);
    assert_eq!((app.view.selected, app.screens.flows.cursor.selected), (selected, Some(1_000)));
    let sorted = text(&app);
    assert!(sorted.contains("b/s ↓") && !sorted.contains("held"), "{sorted}");
    // When the flow is idle, so is the selection.
    many.flows.retain(|spec| spec.dest_qp != slow);
    app.on_sample(Arc::new(many.at(5)));
    assert_eq!((app.view.selected, app.screens.flows.cursor.selected), (None, None));
}

#[test]
fn keys_that_filter() {
    let mut app = table(&World::sick(), USUAL);
    let all = app.screens.flows.order.len();
    press(&mut app, &[Key::Char('/')]);
    // q is a letter here.
    type_text(&mut app, "10.1.0.12 CE qp4608");
    assert_eq!(app.screens.flows.order.len(), 1);
    press(&mut app, &[Key::Ctrl('w')]);
    assert_eq!(app.screens.flows.order.len(), 1, "the flow without its ACK flow");
    press(&mut app, &[Key::Backspace; 2]);
    press(&mut app, &[Key::Enter]);
    assert!(app.prompt.is_none() && !app.view.filter.text.is_empty());
    press(&mut app, &[Key::Char('/'), Key::Ctrl('u')]);
    assert_eq!(app.screens.flows.order.len(), all);
    // Esc brings back what was before.
    press(&mut app, &[Key::Char('x'), Key::Esc]);
    assert_eq!(app.view.filter.text, "10.1.0.12 C");
    press(&mut app, &[Key::Char('/')]);
    assert_eq!(app.on_key(Key::Ctrl('c')), Action::Quit);
}

#[test]
fn a_filter_compares_and_knows_fields() {
    let mut app = table(&World::sick(), USUAL);
    let all = app.screens.flows.order.len();
    // Of flows without ECN-capable data the CE ratio is unknown, and without ACKs the NAKs: what is not so holds for
    // none of them.
    let counts =
        || app.view.data.as_ref().unwrap().model.rows.iter().filter_map(|row| Some(row.delta?.counts));
    let naks = |counts: &rocescope::model::Counts| counts.of_answers(rocescope::model::Counts::naks);
    let refused_none = counts().filter(|counts| naks(counts) == Some(0)).count();
    let unmarked = counts().filter(|counts| counts.ce_ratio().is_none()).count();
    assert!(refused_none > 0 && refused_none < all - 2);
    for (filter, rows) in [
        ("ce > 1%", 1),
        ("ce > 9%", 0),
        ("nak > 0", 2),
        ("!nak > 0", refused_none),
        ("rnr >= 56", 1),
        ("host 10.1.0", 2),
        ("src 10.1.0", 1),
        ("host 10.1.0 dst 10.1", 1),
        ("state nak", 1),
        ("link eth1", 8),
        ("qp 0x1200", 1),
        ("mtu 4096 rate > 1G", 7),
        ("trans rc", all),
        ("p99 > 500us", 1),
        ("p50 < 20us !p50 < 15us", 4),
        ("p99 >= 1ns", 8),
        ("pid 4711", 8),
        ("pid > 4711", 8),
        ("comm PYTHON", all),
        ("pod worker-1", 8),
        ("!pod worker-1", 8),
        ("worker-0 ce", 1),
        ("ce > 1% or nak > 0", 3),
        ("not (ce > 1% or retx > 0 or bytes = 0)", all - 2 - unmarked),
        ("host 10.1.0.0/24 and ce>=1%", 1),
        ("dst net 10.1 src host 10.2.7.7", 1),
        ("cnp", 1),
        ("rnr", 1),
        ("retx > 0 and retx:>0", 1),
        ("qp = 4608 or qp 4642", 2),
        ("link eth* and not link eth1", all - 8),
        ("link 'eth1 in' or link \"eth1 out\"", 8),
        ("opcode cnp", 1),
        ("process python and pid 4711 and transport rc", 8),
        ("event nak", all),
        ("vlan", all),
        ("not vlan", 0),
    ] {
        press(&mut app, &[Key::Char('/'), Key::Ctrl('u')]);
        type_text(&mut app, filter);
        press(&mut app, &[Key::Enter]);
        assert_eq!(app.screens.flows.order.len(), rows, "{filter}");
    }
    press(&mut app, &[Key::Char('/'), Key::Ctrl('u')]);
    type_text(&mut app, "rate >");
    assert!(
        text(&app).contains("expected a rate in bits per second after `rate` at column 7"),
        "{}",
        text(&app)
    );
    assert_eq!(app.screens.flows.order.len(), all, "the rest of it is in force while it is typed");
}

#[test]
fn keys_that_choose_columns() {
    let mut app = table(&World::sick(), USUAL);
    press(&mut app, &[Key::Char('c')]);
    assert_eq!(app.overlay, Overlay::Columns(0));
    // The second column to the front, the first one away.
    press(&mut app, &[Key::Down, Key::Left, Key::Down, Key::Char(' ')]);
    let ids: Vec<Id> = app.screens.flows.columns(&app.view).iter().map(|fitted| fitted.column.id).collect();
    assert_eq!(ids[..2], [Id::Source, Id::Destination]);
    assert!(!ids.contains(&Id::State));
    // The last of all that are hidden is shown, behind the others.
    press(&mut app, &[Key::End, Key::Char(' ')]);
    assert_eq!(app.screens.flows.columns.last(), Some(&Id::Tunnel));
    draw(&app);
    press(&mut app, &[Key::Backspace]);
    assert!(app.screens.flows.columns.is_empty());
    press(&mut app, &[Key::Enter]);
    assert_eq!(app.overlay, Overlay::None);
    // One column always stays.
    press(&mut app, &[Key::Char('c')]);
    for _ in 0..40 {
        press(&mut app, &[Key::Home, Key::Char(' ')]);
    }
    assert_eq!(app.screens.flows.columns.len(), 1);
    assert_eq!(press(&mut app, &[Key::Char('q')]), Action::Quit);
}

#[test]
fn keys_that_mark_and_group() {
    let mut app = table(&World::sick(), USUAL);
    let all = app.screens.flows.order.len();
    press(&mut app, &[Key::Down, Key::Char('m'), Key::Down, Key::Char('m'), Key::Char('M')]);
    assert_eq!((app.screens.flows.order.len(), app.view.marked.len()), (2, 2));
    assert!(text(&app).lines().filter(|line| line.starts_with('*')).count() == 2);
    press(&mut app, &[Key::Char('m')]);
    assert_eq!(app.view.marked.len(), 1);
    press(&mut app, &[Key::Esc]);
    assert_eq!(app.screens.flows.order.len(), all);

    press(&mut app, &[Key::Esc, Key::Char('o')]);
    assert_eq!((app.screens.flows.group, app.screens.flows.groups.len()), (Group::Hosts, 16));
    let flows: usize = sums(&app).iter().map(|sum| sum.flows).sum();
    assert_eq!(flows, all);
    press(&mut app, &[Key::Char('o')]);
    assert_eq!((app.screens.flows.group, app.screens.flows.groups.len()), (Group::Link, 4));
    let data = app.view.data.as_ref().unwrap();
    let bytes: u64 = sums(&app).iter().map(|sum| sum.row.total.bytes).sum();
    assert_eq!(bytes, data.model.rows.iter().map(|row| row.total.bytes).sum::<u64>());
    // Enter opens the group.
    press(&mut app, &[Key::Down, Key::Enter]);
    assert_eq!((app.screens.flows.group, app.screens.flows.order.len()), (Group::None, 4));
    assert!(matches!(app.screens.flows.focus.as_ref().map(|f| &f.on), Some(FocusCondition::Links(_))));
    press(&mut app, &[Key::Char('o'), Key::Char('o'), Key::Char('o')]);
    assert_eq!(app.screens.flows.group, Group::Process);
    press(&mut app, &[Key::Char('o')]);
    assert_eq!(app.screens.flows.group, Group::None);
}

#[test]
fn queue_pairs_are_grouped_by_process() {
    let mut app = table(&World::sick(), USUAL);
    press(&mut app, &[Key::Char('o'); 3]);
    assert!(app.view.messages.answer.is_none());
    let mut groups: Vec<(String, usize)> =
        sums(&app).iter().map(|sum| (sum.name.to_string(), sum.flows)).collect();
    groups.sort_unstable();
    assert_eq!(groups, [("python3 (4711)".to_owned(), 8), ("python3 (4712)".to_owned(), 8)]);
    let at = app
        .screens
        .flows
        .order
        .iter()
        .position(|i| app.screens.flows.group_sum(&app.view, *i).unwrap().name.to_string().contains("4712"))
        .unwrap();
    for _ in 0..=at {
        press(&mut app, &[Key::Down]);
    }
    press(&mut app, &[Key::Enter]);
    assert_eq!((app.screens.flows.group, app.screens.flows.order.len()), (Group::None, 8));
    assert!(text(&app).contains("python3 (4712)"), "it says why only these are shown");
    // Where the kernel says nothing of processes, neither does the table.
    let mut world = World::sick();
    for spec in &mut world.flows {
        spec.owner = None;
    }
    let mut app = table(&world, USUAL);
    press(&mut app, &[Key::Char('o'); 3]);
    assert!(app.view.messages.answer.as_ref().unwrap().contains("process unknown"));
}

#[test]
fn enter_leads_to_what_is_selected() {
    let mut app = app(&World::sick(), USUAL);
    press(&mut app, &[Key::Enter]);
    assert_eq!(app.view.screen, Screen::Problem, "the worst problem");
    // Behind the problems come the peers.
    press(&mut app, &[Key::Char('1'), Key::End, Key::Enter]);
    assert_eq!(app.view.screen, Screen::Qps);
    assert!(app.screens.flows.focus.is_some());
    // Or queue pairs.
    press(&mut app, &[Key::Esc, Key::Char('1'), Key::Char('o'), Key::End, Key::Enter]);
    assert_eq!(app.view.screen, Screen::Detail);
    let (detail, other) = app.screens.detail.shown.as_ref().unwrap();
    assert!(detail.stats.bytes > 0);
    assert_eq!(other.as_ref().map(|other| other.id.key.src), Some(detail.id.key.dst));
    press(&mut app, &[Key::Esc]);
    assert_eq!(app.view.screen, Screen::Overview);
    // A finding's queue pairs.
    press(&mut app, &[Key::Char('8'), Key::Home]);
    let findings = &app.view.analysis.as_ref().unwrap().report.findings;
    let with_flows = findings.iter().position(|finding| !finding.flows.is_empty()).unwrap();
    let (id, flows) = (findings[with_flows].id, findings[with_flows].flows.len());
    for _ in 0..with_flows {
        press(&mut app, &[Key::Down]);
    }
    press(&mut app, &[Key::Enter]);
    super::problem::open(&mut app, "the table of queue pairs");
    assert_eq!((app.view.screen, app.screens.flows.order.len()), (Screen::Qps, flows));
    assert!(text(&app).contains(&id[..6]), "it says why only these are shown");
    press(&mut app, &[Key::Esc]);
    assert!(app.screens.flows.focus.is_none() && app.screens.flows.order.len() == 16);
    // The queue pairs of a cell of the matrix, and of a link.
    press(&mut app, &[Key::Char('4')]);
    let (row, column) = app.screens.matrix.cell;
    // The pair with the refused requests, which the headline is about.
    assert_eq!(app.screens.matrix.metric, Metric::Naks);
    let matrix = &app.view.data.as_ref().unwrap().matrix;
    let cell = matrix.cell(&matrix.sources[row], &matrix.destinations[column]).unwrap();
    assert!(cell.judged.is_headline() && row > 0 && column > 0);
    press(&mut app, &[Key::Char('h'), Key::Up]);
    assert_eq!(app.screens.matrix.cell, (row - 1, column - 1));
    press(&mut app, &[Key::Char('l'), Key::Down]);
    assert_eq!(app.screens.matrix.cell, (row, column));
    press(&mut app, &[Key::Char('5'), Key::Down, Key::Down, Key::Enter]);
    assert_eq!((app.view.screen, app.screens.flows.order.len()), (Screen::Qps, 8), "both directions");
    // An event's packet.
    press(&mut app, &[Key::Char('7'), Key::Enter]);
    assert!(matches!(app.overlay, Overlay::Packet(_)));
    assert_eq!(press(&mut app, &[Key::Down, Key::Tab]), Action::Draw);
    assert_eq!(app.overlay, Overlay::None);
}

#[test]
fn the_figure_of_the_matrix_and_the_uplinks_change() {
    let mut app = app(&World::sick(), USUAL);
    press(&mut app, &[Key::Char('4')]);
    let mut metric = Metric::Naks;
    for _ in 0..8 {
        metric = metric.next();
        press(&mut app, &[Key::Char('v')]);
        assert_eq!(app.screens.matrix.metric, metric);
    }
    press(&mut app, &[Key::Char('5')]);
    for (key, uplinks) in [('u', 2), ('u', 4), ('u', 8), ('U', 4), ('U', 2), ('U', 2)] {
        assert_eq!(press(&mut app, &[Key::Char(key)]), Action::Analyse);
        assert_eq!(app.scope().uplinks, Some(uplinks));
    }
}

/// The tap before a loss counts more packets than the one behind it, which is where the loss and the marks show.
#[test]
fn the_matrix_shows_what_only_the_second_of_two_taps_sees() {
    let mut world = World::healthy();
    let mut behind = world.flows[0].clone();
    (behind.link, behind.packets, behind.gaps, behind.missing) = (2, behind.packets - 7, 7, 7);
    behind.ce_permille = 100;
    let (src, dst, packets) = (behind.src, behind.dst, world.flows[0].packets);
    world.flows.push(behind);
    let mut app = after(&world, USUAL, 5);
    press(&mut app, &[Key::Char('4')]);
    let cell = *app.view.data.as_ref().unwrap().matrix.cell(&src.into(), &dst.into()).unwrap();
    assert_eq!(cell.counts.packets % packets, 0, "counted once, where most of it passed");
    assert_eq!((cell.flows, cell.counts.lost), (1, cell.counts.packets / packets * 7));
    let ce = cell.value(Metric::Ce).unwrap();
    assert!((ce - 0.1).abs() < 0.01, "{ce}");
}

#[test]
fn a_filter_leads_back_to_the_latest_event_that_fits() {
    let world = World::sick();
    let mut app = app(&world, USUAL);
    press(&mut app, &[Key::Char('7'), Key::Down, Key::Down, Key::Down]);
    assert!(app.screens.events.cursor.selected.is_some());
    press(&mut app, &[Key::Char('/')]);
    type_text(&mut app, "nak");
    press(&mut app, &[Key::Enter]);
    assert_eq!((app.screens.events.cursor.selected, app.screens.events.cursor.offset), (None, 0));
    press(&mut app, &[Key::Down, Key::Down]);
    let number = |app: &App| {
        app.view.shown_events().nth(app.screens.events.cursor.selected.unwrap()).unwrap().entry.number
    };
    let before = number(&app);
    // Others come too; only those that fit move the list.
    app.on_events(&world.events(4));
    assert_eq!(number(&app), before);
}

#[test]
fn older_events_stay_in_place_while_new_ones_come() {
    let world = World::sick();
    let mut app = app(&world, USUAL);
    press(&mut app, &[Key::Char('7'), Key::Down, Key::Down]);
    let before =
        app.view.shown_events().nth(app.screens.events.cursor.selected.unwrap()).unwrap().entry.number;
    app.on_events(&world.events(4));
    let after =
        app.view.shown_events().nth(app.screens.events.cursor.selected.unwrap()).unwrap().entry.number;
    assert_eq!(before, after);
}

#[test]
fn packet_headers_of_the_selected_queue_pair_become_a_capture() {
    let mut app = table(&World::sick(), USUAL);
    press(&mut app, &[Key::Char('/')]);
    type_text(&mut app, "rnr > 0");
    press(&mut app, &[Key::Enter, Key::Down]);
    let Action::Write(file) = press(&mut app, &[Key::Char('w')]) else { panic!("nothing written") };
    assert_eq!((file.ending, file.what.as_str()), ("pcapng", "3 packet headers"));
    let mut reader = rocescope::source::capture::Reader::from_read(
        "w",
        Box::new(std::io::Cursor::new(file.content.into_bytes())),
    )
    .unwrap();
    let mut records = 0;
    while let Some(record) = reader.next().unwrap() {
        assert_eq!((record.wire_len, record.data[42]), (4178, 0x11));
        records += 1;
    }
    assert_eq!(records, 3);
    press(&mut app, &[Key::Char('/'), Key::Ctrl('u')]);
    type_text(&mut app, "qp 4693");
    press(&mut app, &[Key::Enter, Key::Down]);
    assert_eq!(press(&mut app, &[Key::Char('w')]), Action::Draw);
    assert!(app.view.messages.answer.as_ref().unwrap().contains("no packet headers"));
}

#[test]
fn the_mouse_selects_sorts_and_scrolls() {
    let mut app = table(&World::many(1_000), USUAL);
    let table = app.view.layout().inner();
    let click = |app: &mut App, x: u16, y: u16| assert_eq!(app.on_mouse(Mouse::Click(x, y)), Action::Draw);
    click(&mut app, 10, table.y + 3);
    assert_eq!(app.screens.flows.cursor.selected, Some(2));
    // The title of the queue pairs' numbers, twice.
    let x = u16::try_from(text(&app).lines().nth(usize::from(table.y)).unwrap().find(" DQPN ").unwrap() + 1)
        .unwrap();
    click(&mut app, x, table.y);
    assert_eq!((app.screens.flows.sort.by, app.screens.flows.sort.descending), (Id::Qp, false));
    click(&mut app, x, table.y);
    assert!(app.screens.flows.sort.descending);
    let _ = app.on_mouse(Mouse::WheelDown);
    assert_eq!(app.screens.flows.cursor.selected, app.view.selected.and(app.screens.flows.cursor.selected));
    // A second click on the same row opens it.
    let row =
        u16::try_from(app.screens.flows.cursor.selected.unwrap() - app.screens.flows.cursor.offset).unwrap();
    click(&mut app, 10, table.y + 1 + row);
    assert_eq!(app.view.screen, Screen::Detail);
    // The names of the screens.
    let x = u16::try_from(text(&app).lines().nth(3).unwrap().find("Link").unwrap()).unwrap();
    let y = app.view.layout().tabs.y;
    click(&mut app, x, y);
    assert_eq!(app.view.screen, Screen::Links);
    press(&mut app, &[Key::Char('?')]);
    let _ = app.on_mouse(Mouse::WheelDown);
    assert!(matches!(app.overlay, Overlay::Help(top) if top > 0));
    click(&mut app, 1, 1);
    assert_eq!(app.overlay, Overlay::None);
    for (x, y) in [(0, 0), (79, 23), (500, 500), (40, 12)] {
        for number in '1'..='8' {
            press(&mut app, &[Key::Char(number)]);
            // The last line names keys: of one place the one that quits.
            let quits = app.on_mouse(Mouse::Click(x, y)) == Action::Quit;
            assert_eq!(quits, (x, y) == (79, 23));
        }
    }
}

#[test]
fn the_command_line_and_the_configuration_set_the_start() {
    let mut options = options();
    options.screen = Screen::Qps;
    options.filter = "ce > 1%".into();
    options.sort = rocescope::tui::settings::parse_sort("-ce").ok();
    options.columns = vec![Id::Qp, Id::CeNow];
    let mut app = App::new(options);
    for second in 1..=2 {
        app.on_sample(Arc::new(World::sick().at(second)));
    }
    assert_eq!((app.view.screen, app.screens.flows.order.len()), (Screen::Qps, 1));
    assert_eq!((app.screens.flows.sort.by, app.screens.flows.sort.descending), (Id::CeNow, false));
    assert_eq!(app.screens.flows.columns(&app.view).len(), 2);
}

#[test]
fn keys_that_are_named_can_be_clicked() {
    let mut app = table(&World::sick(), WIDE);
    let click = |app: &mut App, label: &str| {
        let screen = text(app);
        let (y, line) = screen.lines().enumerate().find(|(_, line)| line.contains(label)).unwrap();
        let x = line.split(label).next().unwrap().chars().count() + 1;
        app.on_mouse(Mouse::Click(u16::try_from(x).unwrap(), u16::try_from(y).unwrap()))
    };
    // In the frame of a part, and in the last line.
    assert_eq!(click(&mut app, "o groups"), Action::Draw);
    assert_eq!(app.screens.flows.group, Group::Hosts);
    assert_eq!(click(&mut app, "c choose ·"), Action::Draw);
    assert_eq!(app.overlay, Overlay::Columns(0));
    press(&mut app, &[Key::Esc]);
    assert_eq!(click(&mut app, "/ filter"), Action::Draw);
    assert!(app.prompt.is_some());
    press(&mut app, &[Key::Esc]);
    assert_eq!(click(&mut app, "? help"), Action::Draw);
    assert_eq!(app.overlay, Overlay::Help(0));
    press(&mut app, &[Key::Esc]);
    assert_eq!(click(&mut app, "q quit"), Action::Quit);
    press(&mut app, &[Key::Char('4')]);
    click(&mut app, "v metric");
    assert_eq!(app.screens.matrix.metric, Metric::Naks.next());
    press(&mut app, &[Key::Char('1')]);
    app.on_resize(LARGE.0, LARGE.1);
    click(&mut app, "7 opens");
    assert_eq!(app.view.screen, Screen::Events);
    // The sentence about the worst problem, on any screen, and the line below it.
    for (screen, line) in [('5', 1), ('1', 1), ('1', 2)] {
        press(&mut app, &[Key::Char(screen)]);
        let _ = app.on_mouse(Mouse::Click(40, line));
        assert_eq!(app.view.screen, Screen::Problem, "line {line} of screen {screen}");
    }
}

/// A mistake says where it is, what is wrong and what would be right, and none of it is cut.
#[test]
fn a_mistake_in_a_filter_is_shown_as_a_whole() {
    for size in [SMALL, USUAL, WIDE] {
        let mut app = table(&World::sick(), size);
        press(&mut app, &[Key::Char('/')]);
        type_text(&mut app, "foo > 1");
        let error = app.view.filter.query.error.as_ref().unwrap().one_line();
        let screen = text(&app);
        assert!(screen.lines().last().unwrap().contains("filter: foo > 1"), "{screen}");
        let shown = screen.replace('\n', " ");
        let words: Vec<&str> = error.split_whitespace().collect();
        let missing: Vec<_> = words.iter().filter(|word| !shown.contains(**word)).collect();
        assert!(missing.is_empty(), "{missing:?}: {screen}");
    }
}
