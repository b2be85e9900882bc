//! Every screen at every size, in each episode of the demonstration and with many flows.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use super::*;
use rocescope::entity::owners::{Owners, QpOwner};
use rocescope::model::detail;
use rocescope::sample::{Address, Direction, FlowSample, Sample, address};
use rocescope::source::demo::scenario::{Episode, Scenario, Scheduled};
use rocescope::source::feed::Update;
use rocescope::source::replay;
use rocescope_common::account::FlowKey;

const ALL: [(u16, u16); 6] = [USUAL, (100, 30), WIDE, (160, 48), LARGE, (300, 100)];
/// Ten steps of a second in each episode.
pub(super) const CYCLE: Duration = Duration::from_secs(50);
const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_772_366_400 * SECOND;
/// Bytes kept of a frame: all headers.
const SNAP: usize = 96;
/// Rails with their directions, in the order of the capture's interfaces.
const LINKS: [(&str, Direction); 4] = [
    ("rail0", Direction::Ingress),
    ("rail0", Direction::Egress),
    ("rail1", Direction::Ingress),
    ("rail1", Direction::Egress),
];

fn block(file: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let length = u32::try_from(body.len() + 12).unwrap();
    file.extend(kind.to_le_bytes());
    file.extend(length.to_le_bytes());
    file.extend(body);
    file.extend(length.to_le_bytes());
}

/// A frame of a capture: its interface, its time from the start, all of its headers, its length.
pub(super) struct Captured {
    pub(super) interface: usize,
    pub(super) at_ns: u64,
    pub(super) kept: Vec<u8>,
    pub(super) length: usize,
}

/// Frames as pcapng.
fn capture(frames: impl Iterator<Item = Captured>) -> Vec<u8> {
    let mut file = Vec::new();
    let mut section = 0x1A2B_3C4Du32.to_le_bytes().to_vec();
    section.extend([1, 0, 0, 0]);
    section.extend([0xFF; 8]);
    block(&mut file, 0x0A0D_0D0A, &section);
    for _ in LINKS {
        // Ethernet; option 9: resolution of 10^-9 s.
        block(&mut file, 1, &[1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    }
    for Captured { interface, at_ns, kept, length } in frames {
        let time = START + at_ns;
        let fields = [interface as u64, time >> 32, time & 0xFFFF_FFFF, kept.len() as u64, length as u64];
        let mut body: Vec<u8> =
            fields.iter().flat_map(|field| u32::try_from(*field).unwrap().to_le_bytes()).collect();
        body.extend(kept);
        body.resize(body.len().next_multiple_of(4), 0);
        block(&mut file, 6, &body);
    }
    file
}

/// The samples and events of a cycle, as on the host that it is made for.
pub(super) fn cycle(cycle: Duration) -> Vec<Update> {
    let cycle_ns = u64::try_from(cycle.as_nanos()).unwrap();
    let all = Scenario::new(1, cycle).take_while(|one| one.at_ns < cycle_ns);
    updates(all.map(|one| captured(&one)))
}

/// A frame of the demonstration.
pub(super) fn captured(one: &Scheduled) -> Captured {
    Captured {
        interface: one.uplink.index() * 2 + usize::from(one.direction == Direction::Egress),
        at_ns: one.at_ns,
        kept: one.frame[..one.frame.len().min(SNAP)].to_vec(),
        length: one.frame.len(),
    }
}

/// The samples and events of frames on both rails of a host.
pub(super) fn updates(frames: impl Iterator<Item = Captured>) -> Vec<Update> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.pcapng");
    std::fs::write(&path, capture(frames)).unwrap();
    let options = replay::Options {
        files: vec![path],
        emit: replay::Emit::Every(Duration::from_secs(1)),
        events: true,
        ..replay::Options::default()
    };
    let feed = replay::start(options).unwrap();
    let mut updates = Vec::new();
    for mut update in &feed.updates {
        match &mut update {
            Update::Sample(sample) => on_host(sample),
            Update::Ended(result) => {
                result.as_ref().unwrap();
                break;
            }
            _ => {}
        }
        updates.push(update);
    }
    updates
}

/// Speed of the rails: slow ones, on which the traffic of the demonstration is a load.
const SPEED_MBPS: u64 = 100;

/// The sample of a capture as that of a host, which has no points of a millisecond, but speeds and owners.
fn on_host(sample: &mut Sample) {
    sample.kind = SourceKind::Live;
    sample.inputs = vec!["rail0".into(), "rail1".into()];
    sample.metrics.timeline = None;
    for (link, (name, direction)) in sample.links.iter_mut().zip(LINKS) {
        (link.name, link.direction) = (name.into(), Some(direction));
        link.speed_mbps = Some(SPEED_MBPS);
    }
    sample.owners = Arc::new(owners(sample, POD));
}

/// The pod of the process.
const POD: &str = "trainer-0";

/// The same in a pod of another name.
pub(super) fn in_pod(mut updates: Vec<Update>, pod: &str) -> Vec<Update> {
    for update in &mut updates {
        if let Update::Sample(sample) = update {
            sample.owners = Arc::new(owners(sample, pod));
        }
    }
    updates
}

/// The local queue pairs, all of one process, as the kernel lists them.
fn owners(sample: &Sample, pod: &str) -> Owners {
    let is_local =
        |link: u16| LINKS.get(usize::from(link)).is_some_and(|(_, way)| *way == Direction::Ingress);
    let device = |link: u16| format!("mlx5_{}", link / 2);
    let local = || sample.flows.iter().enumerate().filter(|(_, flow)| is_local(flow.key.link));
    let owner = |(at, flow): (usize, &FlowSample)| QpOwner {
        device: device(flow.key.link),
        lqpn: flow.key.dest_qp,
        rqpn: detail::peer_qp(sample, at).or_else(|| connected(flow.key.dest_qp)),
        kind: Some("RC"),
        state: Some("RTS"),
        pid: Some(4_711),
        comm: Some("python3".into()),
        pod: Some(pod.into()),
    };
    let gid = |key: &FlowKey| match address(key.family, key.dst) {
        Address::Ip(IpAddr::V4(ip)) => ip.to_ipv6_mapped(),
        Address::Ip(IpAddr::V6(ip)) => ip,
        Address::Lid(_) => panic!("a capture of Ethernet"),
    };
    let gids: BTreeMap<String, Ipv6Addr> =
        local().map(|(_, flow)| (device(flow.key.link), gid(&flow.key))).collect();
    let gids: Vec<_> = gids.into_iter().map(|(device, gid)| (device, vec![gid])).collect();
    Owners::new(local().map(owner).collect(), &gids)
}

/// The remote queue pair of a local one of the demonstration, as its connections are numbered: the kernel's list has it
/// also where packets of several queue pairs are in lockstep.
fn connected(lqpn: u32) -> Option<u32> {
    let number = lqpn.checked_sub(0x0116)?;
    (number.is_multiple_of(3) && number < 3 * 32).then(|| 0x0209 + number / 3 * 5)
}

/// The state at a time of the cycle.
pub(super) fn until(updates: &[Update], seconds: u64) -> App {
    let mut app = App::new(options());
    let mut analyst = Analyst::new(app.view.options.report.clone());
    let end_ns = START + seconds * SECOND;
    // As in a run, the entropy of a time range needs what there was at its beginning.
    let before = updates.iter().filter_map(|update| match update {
        Update::Sample(sample) => Some(sample.time_ns).filter(|time_ns| time_ns + 10 * SECOND <= end_ns),
        _ => None,
    });
    let begin_ns = before.max();
    for update in updates {
        match update {
            Update::Sample(sample) if sample.time_ns <= end_ns => {
                app.on_sample(Arc::new((**sample).clone()));
                if Some(sample.time_ns) == begin_ns {
                    app.analyse_with(&mut analyst);
                }
            }
            Update::Sample(_) => break,
            Update::Events(events) => app.on_events(events),
            _ => {}
        }
    }
    app.analyse_with(&mut analyst);
    app
}

/// Share of the picture that its largest blank rectangle takes.
fn blank(text: &str, (width, height): (u16, u16)) -> f64 {
    let mut run = vec![0u32; usize::from(width)];
    let mut most = 0;
    for line in text.lines().chain(std::iter::repeat("")).take(usize::from(height)) {
        let mut cells = line.chars().chain(std::iter::repeat(' '));
        let mut open: Vec<(u32, u32)> = Vec::new();
        for x in 0..=u32::from(width) {
            let high = run.get_mut(x as usize).map_or(0, |high| {
                *high = if cells.next() == Some(' ') { *high + 1 } else { 0 };
                *high
            });
            let mut from = x;
            while let Some((start, other)) = open.pop_if(|(_, other)| *other >= high) {
                most = most.max(other * (x - start));
                from = start;
            }
            open.push((from, high));
        }
    }
    f64::from(most) / (f64::from(width) * f64::from(height))
}

/// The largest share of a picture that may be blank in one piece, where there is much room.
const BLANK: f64 = 0.18;

/// The largest share of a picture that may be blank in all, where there is much room: between bursts nothing is sent.
fn blank_at_most(name: &str) -> f64 {
    if name.ends_with("Bursts") { 0.73 } else { 0.66 }
}

/// Share of the picture's cells that are blank.
fn blank_in_all(text: &str, (width, height): (u16, u16)) -> f64 {
    let written = text.chars().filter(|letter| !letter.is_whitespace()).count();
    1.0 - written as f64 / (f64::from(width) * f64::from(height))
}

/// Where there is much room, no picture has a large blank part, nor many small ones.
fn is_filled(name: &str, text: &str, size: (u16, u16)) {
    let (share, all) = (blank(text, size), blank_in_all(text, size));
    assert!(size.0 < LARGE.0 || share < BLANK, "{name} at {size:?}: {share:.2}\n{text}");
    assert!(size.0 < LARGE.0 || all < blank_at_most(name), "{name} at {size:?}: {all:.2} in all\n{text}");
}

/// Every screen at every size; where there is much room, none is half empty if there is something on each (`filled`).
pub(super) fn every_size(name: &str, filled: bool, app: &mut App) {
    let problem = app.view.verdict().is_some_and(|verdict| verdict.headline.is_some());
    for screen in Screen::TABS.into_iter().chain(problem.then_some(Screen::Problem)) {
        press(app, &[Key::Esc]);
        let number = [Key::Char(char::from(b'1' + screen as u8)), first(screen)];
        let keys: &[Key] = match screen {
            Screen::Detail => &[Key::Char('2'), Key::Down, Key::Enter],
            Screen::Problem => &[Key::Char('1'), Key::Enter],
            _ => &number,
        };
        press(app, keys);
        assert_eq!(app.view.screen, screen);
        let mut all = String::new();
        for size in ALL {
            app.on_resize(size.0, size.1);
            app.settle();
            let text = text(app);
            if filled {
                is_filled(&format!("{name}, {screen:?}"), &text, size);
            }
            let _ = writeln!(all, "{}x{}\n{text}", size.0, size.1);
            pictures::keep(name, app);
        }
        compare(&format!("sizes_{name}_{}", screen.name()), &all);
    }
    packet_at_every_size(name, app);
}

/// The headers of the latest event.
fn packet_at_every_size(name: &str, app: &mut App) {
    press(app, &[Key::Esc, Key::Char('7'), Key::Enter]);
    if matches!(app.overlay, rocescope::tui::app::Overlay::Packet(_)) {
        at_every_size(&format!("sizes_{name}_packet"), app);
        press(app, &[Key::Esc]);
    }
}

/// What is shown, at every size.
pub(super) fn at_every_size(name: &str, app: &mut App) {
    let mut all = String::new();
    for size in ALL {
        app.on_resize(size.0, size.1);
        app.settle();
        let text = text(app);
        is_filled(name, &text, size);
        let _ = writeln!(all, "{}x{}\n{text}", size.0, size.1);
    }
    compare(name, &all);
}

#[test]
fn every_screen_at_every_size_in_each_episode_of_the_demonstration() {
    let updates = cycle(CYCLE);
    let names = ["healthy", "congestion", "loss", "slow_receiver", "bad_hashing"];
    for ((number, name), episode) in (1..).zip(names).zip(Episode::ALL) {
        let seconds = 10 * number - 1;
        assert_eq!(Scenario::new(1, CYCLE).episode_at(seconds * SECOND), episode);
        every_size(name, true, &mut until(&updates, seconds));
    }
}

#[test]
fn every_screen_at_every_size_with_many_flows() {
    // They have no bins, and all send to one host.
    every_size("many", true, &mut after(&World::many(1_500), USUAL, 5));
}

/// With the problems that name it, and its other direction.
#[test]
fn a_wide_screen_shows_all_of_a_queue_pair() {
    let updates = cycle(CYCLE);
    for (seconds, named) in [(9, false), (29, true)] {
        let mut app = until(&updates, seconds);
        press(&mut app, &[Key::Char('2'), Key::Down, Key::Enter]);
        for size in [LARGE, (300, 100)] {
            app.on_resize(size.0, size.1);
            let shown = text(&app);
            assert_eq!(shown.matches("─ OVER TIME ").count(), 2, "{shown}");
            let head = shown.lines().position(|line| line.contains("─ PROBLEMS that name this queue pair"));
            assert_eq!(head.is_some(), named, "{shown}");
            let first = head.and_then(|at| shown.lines().nth(at + 1));
            assert!(first.is_none_or(|line| line.contains("✖ Loss upstream of rail0")), "{shown}");
        }
    }
}
