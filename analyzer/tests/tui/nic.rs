//! Queue pairs as NIC and kernel know them: their table, and one of them in full.

use std::net::Ipv4Addr;

use rocescope::entity::contexts::{ContextSample, Contexts, Queries};
use rocescope::entity::devices::{Devices, PortSample, QpSample};
use rocescope::entity::lives::{
    Calls, DESTROYED, DEVX, Lives, QpControl, QpEvent, QpLife, VERBS, timeout_ns,
};
use rocescope::entity::owners::QpOwner;
use rocescope::host::rdma::qp_context::QpContext;
use rocescope::util::source_port::udp_source_port;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// One that a process connected before the run or in it, `since` seconds after its beginning.
fn life(lqpn: u32, start_ns: u64, since: Option<u64>) -> QpLife {
    let rqpn = lqpn + 100;
    QpLife {
        pod: None,
        device: "mlx5_0".into(),
        lqpn,
        origin: Some(VERBS),
        port: Some(1),
        kind: Some("RC"),
        state: Some("RTS"),
        pid: Some(4_711),
        comm: Some("python3".into()),
        rqpn: Some(rqpn),
        control: QpControl {
            src: Some(Ipv4Addr::new(192, 0, 2, 1).into()),
            dst: Some(Ipv4Addr::new(192, 0, 2, 20 + u8::try_from(lqpn % 16).unwrap()).into()),
            udp_port: udp_source_port("mlx5_ib", None, 0, lqpn, rqpn),
            dscp: Some(26),
            path_mtu: Some(4_096),
            timeout_ns: Some(timeout_ns(18)),
            retry_cnt: Some(7),
            rnr_retry: Some(7),
            created_ns: since.map(|seconds| start_ns + seconds * SECOND),
            connected_ns: since.map(|seconds| start_ns + seconds * SECOND + 1_500_000),
            connect_took_ns: since.map(|_| 42_000),
            flow_label: Some(0),
            ..QpControl::default()
        },
        ..QpLife::default()
    }
}

fn context(lqpn: u32, start_ns: u64, seconds: u64) -> ContextSample {
    let stands_still = lqpn == 19;
    ContextSample {
        device: "mlx5_0".into(),
        port: 1,
        lqpn,
        context: QpContext {
            rqpn: Some(lqpn + 100),
            retry_cnt: Some(7),
            rnr_retry: Some(7),
            unsent: Some(if stands_still { 640 } else { 0 }),
            posted_receives: Some(512),
            priority: Some(3),
            adaptive_routing: Some(false),
            ..QpContext::default()
        },
        read_ns: start_ns + seconds * SECOND,
        readings: seconds,
        sent: Some(if stands_still { 8_000 } else { 250_000 * seconds }),
        received: Some(200_000 * seconds),
        in_flight: Some(if stands_still { 128 } else { 20 + u32::try_from(seconds).unwrap() }),
        stuck_ns: Some(if stands_still { seconds * SECOND } else { 0 }),
        retries_used: Some(if stands_still { 3 } else { 0 }),
        rnr_retries_used: Some(0),
        retrying: if stands_still { seconds } else { 0 },
        ..ContextSample::default()
    }
}

/// A NIC that does RoCE in hardware, `seconds` after the start: four queue pairs of a job, one of which stands still;
/// one that a GPU posts to; one that has ended and one that could not be made.
fn devices(start_ns: u64, seconds: u64) -> Devices {
    let listed = |lqpn: u32| QpSample {
        owner: QpOwner {
            device: "mlx5_0".into(),
            lqpn,
            rqpn: Some(lqpn + 100),
            kind: Some("RC"),
            state: Some("RTS"),
            pid: Some(4_711),
            comm: Some("python3".into()),
            pod: Some("trainer-0".into()),
        },
        ..QpSample::default()
    };
    let devx = QpLife {
        lqpn: 4_242,
        origin: Some(DEVX),
        control: QpControl { dscp: Some(0), ..life(4_242, start_ns, Some(1)).control },
        ..life(4_242, start_ns, Some(1))
    };
    let mut ended = life(33, start_ns, Some(0));
    (ended.control.ended_ns, ended.control.end) = (Some(start_ns + SECOND), Some(DESTROYED));
    let event = |at: u64, lqpn, name: &str, errno| QpEvent {
        time_ns: start_ns + at,
        device: "mlx5_0".into(),
        lqpn,
        event: name.into(),
        errno,
        duration_ns: errno.map(|_| 1_020_000_000),
        pid: Some(4_711),
        comm: Some("python3".into()),
        ..QpEvent::default()
    };
    let port_event = QpEvent { port: Some(1), ..event(SECOND / 2, None, "PORT_ACTIVE", None) };
    let lives = Lives {
        qps: Arc::new(
            (17..20)
                .map(|lqpn| life(lqpn, start_ns, None))
                .chain([life(20, start_ns, Some(1)), devx, ended])
                .collect(),
        ),
        events: vec![port_event, event(SECOND, Some(20), "modify to RTR", Some(110))],
        calls: Calls { entered: 40, ..Calls::default() },
        ..Lives::default()
    };
    let contexts = Contexts {
        qps: (17..20).map(|lqpn| context(lqpn, start_ns, seconds)).collect(),
        queries: Queries { per_second: 50, queried: 3, of: 4, ..Queries::default() },
    };
    let port = PortSample {
        device: "mlx5_0".into(),
        port: 1,
        driver: Some("mlx5_ib".into()),
        interface: Some("eth0".into()),
        hidden: true,
        window: Some((start_ns, start_ns + seconds * SECOND)),
        qps: Arc::new((17..21).map(listed).collect()),
        ..PortSample::default()
    };
    Devices { ports: vec![port], lives: Arc::new(lives), contexts: Arc::new(contexts), ..Devices::default() }
}

pub(super) fn offloaded(size: (u16, u16)) -> App {
    offloaded_with(size, |_, _| {})
}

/// The same with a change of the devices, which gets the beginning of the run.
fn offloaded_with(size: (u16, u16), change: impl Fn(&mut Devices, u64)) -> App {
    let mut world = World::live();
    world.flows.clear();
    let start_ns = world.at(0).time_ns;
    let mut app = App::new(options());
    let mut analyst = Analyst::new(app.view.options.report.clone());
    app.on_resize(size.0, size.1);
    for seconds in 1..=4 {
        let mut sample = world.at(seconds);
        sample.steady_ns = Some(seconds * SECOND);
        let mut devices = devices(start_ns, seconds);
        change(&mut devices, start_ns);
        sample.devices = Arc::new(devices);
        app.on_sample(Arc::new(sample));
        app.analyse_with(&mut analyst);
    }
    app
}

#[test]
fn without_packets_the_key_of_queue_pairs_shows_those_of_the_nic() {
    for (name, size) in [("nic_80x24", USUAL), ("nic_120x40", WIDE), ("nic_200x60", LARGE)] {
        let mut app = offloaded(size);
        press(&mut app, &[Key::Char('2')]);
        assert_eq!(app.view.screen, Screen::Nic);
        snapshot(name, &app);
        let shown = text(&app);
        let first = shown.lines().find(|line| line.contains("RTS")).unwrap();
        assert!(
            first.contains("19") && first.contains("LVN"),
            "the one that stands still comes first:\n{shown}"
        );
    }
    let mut small = offloaded(SMALL);
    press(&mut small, &[Key::Char('d')]);
    assert!(text(&small).contains("FLIGHT") || text(&small).contains("pkt/s"), "{}", text(&small));
}

#[test]
fn queue_pairs_of_nics_at_every_size() {
    let mut app = offloaded(USUAL);
    sizes::at_every_size("sizes_nic_overview", &mut app);
    press(&mut app, &[Key::Char('2')]);
    sizes::at_every_size("sizes_nic", &mut app);
    press(&mut app, &[Key::Enter]);
    sizes::at_every_size("sizes_nic_detail", &mut app);
}

#[test]
fn one_queue_pair_is_shown_in_full_and_esc_leads_back() {
    let mut app = offloaded(LARGE);
    press(&mut app, &[Key::Char('2'), Key::Enter]);
    snapshot("nic_detail_200x60", &app);
    let shown = text(&app);
    for said in
        ["stuck for 4.00 s", "in flight", "CONTEXT OVER TIME", "posted work: not sampled (--sample-posts)"]
    {
        assert!(shown.contains(said), "{said}:\n{shown}");
    }
    press(&mut app, &[Key::Esc]);
    assert!(text(&app).contains("SELECTED"), "{}", text(&app));
    // The failed verb of another one.
    press(&mut app, &[Key::Esc, Key::Char('/')]);
    type_text(&mut app, "mlx5_0/1 20");
    press(&mut app, &[Key::Enter, Key::Enter]);
    let shown = text(&app);
    for said in ["modify to RTR", "errno 110", "after 1.02 s", "PORT_ACTIVE of the port"] {
        assert!(!shown.contains("QP 20 →") || shown.contains(said), "{said}:\n{shown}");
    }
    // In a small terminal all of it can be reached.
    let mut app = offloaded(USUAL);
    press(&mut app, &[Key::Char('2'), Key::Enter]);
    let top = text(&app);
    press(&mut app, &[Key::End]);
    assert!(
        !top.contains("NOT KNOWN") && text(&app).contains("packets: none was captured"),
        "{}",
        text(&app)
    );
    press(&mut app, &[Key::Home]);
    assert_eq!(text(&app), top);
}

/// The title has the one that stands still longest; the finding is about each of them.
#[test]
fn every_queue_pair_that_stands_still_is_marked() {
    let mut app = offloaded_with(LARGE, |devices, _| {
        let contexts = Arc::make_mut(&mut devices.contexts);
        let still = contexts.qps.iter().find(|qp| qp.lqpn == 19).unwrap().clone();
        let other = contexts.qps.iter_mut().find(|qp| qp.lqpn == 18).unwrap();
        (other.in_flight, other.stuck_ns) = (still.in_flight, still.stuck_ns.map(|ns| ns - 1));
    });
    press(&mut app, &[Key::Char('2')]);
    let shown = text(&app);
    let rows = shown.lines().filter(|line| line.contains("mlx5_0/1   192.0.2."));
    let is_marked = |row: &&str| row.trim_start_matches('│').starts_with(['▲', '✖']);
    let marked: Vec<&str> = rows.filter(is_marked).collect();
    let of = |lqpn: &str| marked.iter().filter(|row| row.contains(&format!(" {lqpn} "))).count();
    assert_eq!((marked.len(), of("18"), of("19")), (2, 1, 1), "{shown}");
}

/// A finding about several queue pairs marks each of them, and none that had its number before.
#[test]
fn every_queue_pair_of_a_finding_is_marked() {
    let mut app = offloaded_with(LARGE, |devices, start_ns| {
        let lives = Arc::make_mut(&mut devices.lives);
        let mut before = life(18, start_ns, Some(0));
        (before.control.ended_ns, before.control.end) = (Some(start_ns + SECOND), Some(DESTROYED));
        let qps = Arc::make_mut(&mut lives.qps);
        qps[1] = life(18, start_ns, Some(2));
        qps.insert(0, before);
        lives.events.extend([17, 18].map(|lqpn| QpEvent {
            time_ns: start_ns + 3 * SECOND,
            device: "mlx5_0".into(),
            lqpn: Some(lqpn),
            event: "QP_FATAL".into(),
            ..QpEvent::default()
        }));
    });
    press(&mut app, &[Key::Char('2')]);
    let shown = text(&app);
    let rows: Vec<&str> = shown.lines().filter(|line| line.contains("mlx5_0/1   192.0.2.")).collect();
    let is_marked = |row: &&&str| row.trim_start_matches('│').starts_with('✖');
    let marked: Vec<&&str> = rows.iter().filter(is_marked).collect();
    let of = |lqpn: &str| marked.iter().filter(|row| row.contains(&format!(" {lqpn} "))).count();
    assert_eq!((marked.len(), of("17"), of("18")), (2, 1, 1), "{shown}");
    assert!(marked.iter().all(|row| row.contains("RTS")), "{shown}");
    assert_eq!(rows.iter().filter(|row| row.contains(" 18 ")).count(), 2, "{shown}");
}

/// Their queue pairs stay as they were known, and look like others.
#[test]
fn devices_that_do_not_list_their_queue_pairs_are_named() {
    let names = ["mlx5_0", "mlx5_1", "mlx5_2"];
    for size in [USUAL, LARGE] {
        let mut app = offloaded_with(size, |devices, _| {
            devices.lists.unlisted = names.map(|name| (name.into(), "Input/output error".into())).into();
            Arc::make_mut(&mut devices.lives).unavailable = Some("--no-qp-probes".into());
        });
        press(&mut app, &[Key::Char('2')]);
        let shown = text(&app);
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        for name in &names[..2] {
            let said = format!(
                "{name} did not list its queue pairs (Input/output error): shown as last known; see dmesg and \
                 `rdma resource show qp`"
            );
            assert!(words.contains(&said), "{said}:\n{shown}");
        }
        assert!(words.contains("… and 1 more device") && words.contains("RTS"), "{shown}");
        // The opened one repeats the sentence on its device.
        press(&mut app, &[Key::Enter]);
        let said = text(&app).matches("did not list").count();
        assert_eq!((said, text(&app).contains("mlx5_0 did not list")), (1, true), "{}", text(&app));
    }
    let mut app = offloaded(LARGE);
    press(&mut app, &[Key::Char('2')]);
    assert!(!text(&app).contains("did not list"), "{}", text(&app));
}

#[test]
fn queue_pairs_without_room_are_counted() {
    let mut app = offloaded_with(WIDE, |devices, _| devices.ports[0].qps_left_out = 5_904);
    press(&mut app, &[Key::Char('2')]);
    assert!(text(&app).contains("QUEUE PAIRS OF NICS 6, 5,904 more without room"), "{}", text(&app));
}

#[test]
fn an_age_is_right_after_the_clock_was_set_back() {
    let mut app = offloaded_with(LARGE, |devices, start_ns| {
        let lives = Arc::make_mut(&mut devices.lives);
        let made = Arc::make_mut(&mut lives.qps).iter_mut().find(|life| life.lqpn == 20).unwrap();
        made.control.created_ns = Some(start_ns + 3_600 * SECOND);
        made.control.monotonic.created_ns = Some(SECOND);
    });
    press(&mut app, &[Key::Char('2'), Key::Char('/')]);
    type_text(&mut app, "qp 20");
    press(&mut app, &[Key::Enter, Key::Enter]);
    let shown = text(&app);
    let age = shown.lines().find(|line| line.contains(" age ")).unwrap_or_else(|| panic!("{shown}"));
    assert!(age.contains("3.00 s"), "{shown}");
}

#[test]
fn what_a_source_does_not_have_is_a_dash_with_a_reason() {
    let mut app = offloaded(LARGE);
    press(&mut app, &[Key::Char('2'), Key::Char('/')]);
    type_text(&mut app, "4242");
    press(&mut app, &[Key::Enter, Key::Enter]);
    let shown = text(&app);
    assert!(shown.contains("QP 4242 → 4342"), "{shown}");
    assert!(
        shown.contains("NIC context: the kernel lists no queue pair that was made past the verbs"),
        "{shown}"
    );
    let flight = shown.lines().find(|line| line.contains(" in flight")).unwrap();
    assert!(flight.split("in flight").nth(1).unwrap().trim_start().starts_with('-'), "{flight:?}");
    press(&mut app, &[Key::Esc, Key::Char('/')]);
    type_text(&mut app, "x");
    assert!(text(&app).contains("No queue pair of a NIC matches \"4242x\"."), "{}", text(&app));
}

#[test]
fn the_filter_language_finds_queue_pairs_by_their_figures() {
    let matching = |filter: &str| -> Vec<u64> {
        let mut app = offloaded(LARGE);
        press(&mut app, &[Key::Char('2'), Key::Char('/')]);
        type_text(&mut app, filter);
        press(&mut app, &[Key::Enter]);
        let shown = text(&app);
        let rows = shown.lines().filter(|line| line.contains("192.0.2.") && line.contains("mlx5_0/1"));
        let number = |row: &str| row.split(|c: char| !c.is_ascii_digit()).find_map(|word| word.parse().ok());
        let mut numbers: Vec<u64> = rows.filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    };
    let all = [17, 18, 19, 20, 33, 4_242];
    let still = matching("stuck > 1s");
    assert_eq!(still.len(), 1, "{still:?}");
    assert_eq!(matching("in_flight > 100 and retries >= 3"), still);
    assert_eq!(matching("not stuck > 1s and in_flight > 0").len(), 2, "what is not known decides nothing");
    assert_eq!(matching("qp 17 or qp_state ended"), [17, 33]);
    assert_eq!(matching("dscp 0"), [4_242]);
    assert_eq!(matching("peer_qp = 120 and mtu 4096 and process python"), [20]);
    assert_eq!(matching("dst 192.0.2.0/24 device mlx5_0"), all);
    assert_eq!(matching("link eth9"), [] as [u64; 0]);
    // What only packets show does not apply here.
    assert_eq!(matching("retx > 0 and state loss"), all);
}

#[test]
fn rows_are_sorted_selected_and_exported() {
    let mut app = offloaded(WIDE);
    press(&mut app, &[Key::Char('2')]);
    let column = |app: &App, at: usize| -> Vec<String> {
        let shown = text(app);
        let rows = shown.lines().filter(|line| line.contains("192.0.2."));
        rows.filter_map(|row| {
            row.trim_matches(['│', ' ', '×', '!', '▲', '●']).split_whitespace().nth(at).map(str::to_owned)
        })
        .collect()
    };
    let unsorted = column(&app, 0);
    press(&mut app, &[Key::Char('s')]);
    let by_number = column(&app, 0);
    assert_eq!(by_number[0], "4242", "{unsorted:?} {by_number:?}");
    press(&mut app, &[Key::Char('S')]);
    assert_eq!(column(&app, 0)[0], "17");
    press(&mut app, &[Key::Down, Key::Down, Key::Char('y')]);
    assert!(text(&app).contains("copied: lqpn=18"), "{}", text(&app));
    // The selected one stays selected when the order changes.
    press(&mut app, &[Key::Char('S')]);
    assert!(text(&app).contains("QP 18 of mlx5_0/1"), "{}", text(&app));
    press(&mut app, &[Key::Char('d')]);
    assert_eq!(app.view.screen, Screen::Nic, "there is no other");
}

#[test]
fn with_packets_one_key_leads_to_and_fro() {
    let mut app = app(&World::sick(), USUAL);
    press(&mut app, &[Key::Char('2')]);
    assert_eq!(app.view.screen, Screen::Qps);
    press(&mut app, &[Key::Char('d')]);
    assert_eq!(app.view.screen, Screen::Nic);
    assert!(text(&app).contains("No queue pair of a NIC is known."), "{}", text(&app));
    let shown = text(&app);
    let hints = shown.lines().next_back().unwrap();
    assert!(hints.contains("d packets' table") && !hints.contains("details"), "{hints}");
    press(&mut app, &[Key::Char('d')]);
    assert_eq!(app.view.screen, Screen::Qps);
}
