//! Names from packets, processes, pods, switches and files, on every screen and in printed reports: none of their
//! control characters is shown.

use super::*;
use rocescope::entity::devices::{Devices, PortSample, QpSample, Setting, SourceSample};
use rocescope::entity::lives::{Lives, QpEvent};
use rocescope::entity::owners::QpOwner;
use rocescope::ethernet::lldp::Neighbour;
use rocescope::report::{Report, text};
use rocescope::sample::Sample;
use rocescope::share::csv;
use rocescope::util::style::Paint;

/// Sequences that clear the screen, set its title, ring, turn the direction of text, and move the cursor; C1; a line.
const HOSTILE: &str = "ev\u{1b}[2J\u{1b}]0;x\u{7}\u{202e}\u{2066}\u{9b}1A\r\n\u{8}\u{7f}il";

/// As `is_hostile` of the integration tests.
fn is_hostile(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

fn named(what: &str) -> String {
    format!("{what}{HOSTILE}")
}

/// A run in which everything that others name has such a name.
fn world() -> World {
    let mut world = World::sick();
    world.inputs = vec![named("in")];
    for (name, _) in &mut world.links {
        *name = named(name);
    }
    for flow in &mut world.flows {
        flow.owner = flow.owner.take().map(|(pid, ..)| (pid, named("comm"), named("pod")));
    }
    world
}

fn sample(world: &World, seconds: u64) -> Sample {
    let mut sample = world.at(seconds);
    let name = |what: &str| Some(named(what));
    let owner = QpOwner {
        device: named("dev"),
        lqpn: 17,
        rqpn: Some(117),
        kind: Some("RC"),
        state: Some("RTS"),
        pid: Some(4_711),
        comm: name("comm"),
        pod: name("pod"),
    };
    let port = PortSample {
        device: named("dev"),
        port: 1,
        driver: name("driver"),
        interface: Some(sample.links[0].name.clone()),
        members: vec![named("member")],
        above: vec![named("above")],
        window: sample.window,
        counters: vec![SourceSample {
            source: "sysfs hw_counters",
            values: vec![(named("counter"), 900 * seconds), ("out_of_sequence".into(), 12 * seconds)],
            resets: 1,
        }],
        qps: Arc::new(vec![QpSample { owner, sent: Some(500_000 * seconds), ..QpSample::default() }]),
        ..PortSample::default()
    };
    let neighbour = Neighbour {
        system: name("system"),
        chassis: name("chassis"),
        port: name("port"),
        port_description: name("description"),
        ..Neighbour::default()
    };
    sample.devices = Arc::new(Devices {
        ports: vec![port],
        neighbours: vec![(sample.links[0].name.clone(), neighbour)],
        ..Devices::default()
    });
    sample
}

/// Every cell of the buffer, character by character; returns the text.
fn clean(app: &App, place: &str) -> String {
    let terminal = draw(app);
    for cell in &terminal.backend().buffer().content {
        assert!(!cell.symbol().contains(is_hostile), "{place}: {:?}", cell.symbol());
    }
    text(app)
}

#[test]
fn no_screen_draws_control_characters_of_names() {
    let world = world();
    let mut shown = String::new();
    for size in [SMALL, USUAL, LARGE] {
        let mut app = App::new(Options { notes: vec![named("note")], ..options() });
        let mut analyst = Analyst::new(app.view.options.report.clone());
        app.on_resize(size.0, size.1);
        for second in 1..=3 {
            app.on_events(&world.events(second));
            app.on_sample(Arc::new(sample(&world, second)));
            app.analyse_with(&mut analyst);
        }
        app.on_notice(named("notice"));
        for screen in Screen::TABS {
            let key = Key::Char(char::from(b'1' + screen as u8));
            // The list, its last line, and what opens on it.
            for keys in
                [&[key, Key::Down][..], &[Key::Enter], &[Key::Esc, key, Key::Down, Key::Down, Key::Enter]]
            {
                press(&mut app, keys);
                shown += &clean(&app, &format!("{screen:?} at {size:?} after {keys:?}"));
            }
            press(&mut app, &[Key::Esc, Key::Esc]);
        }
        press(&mut app, &[Key::Char('/')]);
        type_text(&mut app, "link ~ ev");
        shown += &clean(&app, "a filter");
    }
    // Hostile ones stand there with a sign in place of each: else nothing was tested.
    for name in ["eth0ev\u{fffd}", "commev\u{fffd}", "podev\u{fffd}", "systemev\u{fffd}"] {
        assert!(shown.contains(name), "{name:?} is on no screen");
    }
}

/// The same sample with what the host says besides: a setting that is wrong, an event of a queue pair.
fn sample_of_host(world: &World, seconds: u64) -> Sample {
    let mut sample = sample(world, seconds);
    let name = |what: &str| Some(named(what));
    let event = QpEvent {
        device: named("dev"),
        port: Some(1),
        time_ns: sample.time_ns,
        lqpn: Some(17),
        event: named("event"),
        reason: name("reason"),
        comm: name("caller"),
        ..QpEvent::default()
    };
    let setting = Setting {
        check: "qos.trust",
        subject: named("subject"),
        critical: true,
        value: name("value"),
        why: name("why"),
        change: name("change"),
    };
    let devices = Arc::make_mut(&mut sample.devices);
    devices.settings = vec![setting];
    devices.lives = Arc::new(Lives { events: vec![event], ..Lives::default() });
    sample
}

/// As `--output text` and `csv` print them, and what stands below the last page of a live run.
#[test]
fn no_report_prints_control_characters_of_names() {
    let mut options = options().report;
    options.analysis.filter = Some(named("filter"));
    let report = Report::build(&sample_of_host(&world(), 3), &options);
    let mut table = Vec::new();
    csv::write(&report, &mut table).unwrap();
    let mut pages = vec![String::from_utf8(table).unwrap()];
    for width in [40, 80, 400] {
        pages.extend([text::text(&report, width), text::ending(&report, width, Paint::default())]);
    }
    for page in &pages {
        assert!(!page.contains(|c| is_hostile(c) && c != '\n'), "{page:?}");
    }
    let (table, page) = (&pages[0], &pages[5]);
    let of_both = ["eth0", "comm", "pod", "dev"];
    for name in of_both {
        assert!(table.contains(&format!("{name}ev\u{fffd}")), "{name} is not in the table:\n{table}");
    }
    let of_text = ["in", "filter", "driver", "counter", "event", "reason", "caller", "subject", "change"];
    for name in of_both.iter().chain(&of_text) {
        assert!(page.contains(&format!("{name}ev\u{fffd}")), "{name} is not on the page:\n{page}");
    }
}
