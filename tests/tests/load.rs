//! Floods: every packet that an interface received is counted, and every event is reported or counted as dropped, at
//! any rate. No test here depends on the rate.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::time::{Duration, Instant};

use rocescope::host::net::hook::{HookChoice, XdpModeChoice};
use rocescope::sample::Sample;
use rocescope::source::feed::{Command, Update};
use rocescope::source::live::{self, Config};
use rocescope_common::account::Event;
use rocescope_tests::live::program::PATIENCE;
use rocescope_tests::live::root_or_skip;
use rocescope_tests::live::wire::Counted;
use rocescope_tests::load::flood::{Flood, PacketKind, Wanted};
use rocescope_tests::load::link::{FloodLink, Receiver};
use rocescope_tests::load::traffic::{self, State};
use rocescope_tests::load::{scan, storm, usage};
use rocescope_tests::needs_root;

const SHORT: Duration = Duration::from_millis(200);

/// With frames dropped before the program, and without.
#[test]
fn rocescope_counts_what_the_interface_received() {
    needs_root!();
    let several = usage::cpus().unwrap().len() > 1;
    for receiver in [Receiver::SameCpu, Receiver::OwnCpu] {
        if receiver == Receiver::OwnCpu && !several {
            println!("SKIP a receiving end on a separate CPU: there is only one CPU");
            continue;
        }
        for state in [State::Xdp, State::Tc] {
            // The run includes the comparison.
            let run = traffic::run(receiver, state, SHORT).unwrap();
            assert!(run.received > 0.0, "{receiver:?} {state:?}: {run:?}");
        }
    }
}

#[test]
fn reports_of_a_storm_are_exact() {
    if root_or_skip("reports_of_a_storm_are_exact") {
        // The run includes the comparison.
        let run = storm::run(storm::View::Reports, SHORT).unwrap();
        assert!(run.packets > 0.0, "{run:?}");
    }
}

/// Updates that a view of the live source received.
#[derive(Default)]
struct ReceivedFrames {
    events: u64,
    naks: u64,
    sample: Option<Box<Sample>>,
}

impl ReceivedFrames {
    /// Takes updates until `enough`, or until the source has ended.
    fn listen(&mut self, updates: &std::sync::mpsc::Receiver<Update>, enough: impl Fn(&Self) -> bool) {
        let late = Instant::now() + PATIENCE;
        while !enough(self) {
            assert!(Instant::now() < late, "the live source does not end");
            match updates.recv_timeout(PATIENCE).unwrap() {
                Update::Sample(sample) => self.sample = Some(sample),
                Update::Events(events) => {
                    self.events += events.len() as u64;
                    self.naks += events.iter().filter(|event| event.events & Event::NAK != 0).count() as u64;
                }
                Update::Notice(_) | Update::Restarted => {}
                Update::Ended(result) => return result.unwrap(),
            }
        }
    }

    fn packets(&self) -> u64 {
        let flows = self.sample.iter().flat_map(|sample| &sample.flows);
        flows.map(|flow| flow.stats.packets).sum()
    }
}

#[test]
fn every_event_is_reported_or_counted_as_dropped() {
    const FRAMES: u32 = 200_000;
    needs_root!();
    // A view that always receives, and one that does not during the storm: the source then has to wait with its
    // events, and the ring buffer overflows.
    for deaf in [false, true] {
        let mut bench = FloodLink::new(Receiver::SameCpu).unwrap();
        let running = live::start(Config {
            interfaces: vec![bench.link.name.clone()],
            netns: Some(bench.world.near.try_clone().unwrap()),
            hook: HookChoice::Xdp,
            xdp_mode: XdpModeChoice::Native,
            max_flows: 1024,
            interval: Duration::from_millis(50),
            events_to_view: true,
            ..Config::default()
        })
        .unwrap();
        let wanted = Wanted { kind: PacketKind::Nak, flows: 8, scan_every: 0, hold_psn: false };
        let flood = Flood::new(&bench.world.far, bench.far, wanted).unwrap();
        let mut heard = ReceivedFrames::default();
        let updates = &running.feed.updates;
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                flood.enter().unwrap();
                flood.send(FRAMES).unwrap();
            });
            if !deaf {
                heard.listen(updates, |_| sender.is_finished());
            }
            sender.join().unwrap();
        });
        let received = bench.arrived(Counted::default(), &flood).unwrap().received;
        running.feed.commands.send(Command::Stop).unwrap();
        heard.listen(updates, |_| false);
        drop(running.feed);
        running.thread.join().unwrap();
        let dropped = heard.sample.as_ref().and_then(|sample| sample.events_dropped).unwrap();
        println!("{received} received, {} reported, {dropped} dropped", heard.events);
        assert_eq!(heard.packets(), received, "packets in flows");
        assert_eq!(heard.events + dropped, received, "reported plus dropped");
        assert_eq!(heard.events, heard.naks, "every one is a NAK");
        assert!(heard.events > 0);
        assert!(!deaf || dropped > 0, "the ring buffer holds some 3,000 events");
    }
}

/// Many more new flows than slots in the table, retired as soon as possible, or hardly at all.
#[test]
fn totals_of_a_scan_are_exact() {
    needs_root!();
    for options in
        [&["--max-flows", "4096", "--idle", "1ms", "--interval", "20ms"] as &[&str], &["--max-flows", "4096"]]
    {
        // The run includes the comparison.
        let seen = scan::watched(Duration::from_secs(1), options).unwrap();
        println!("{options:?}: {seen:?}");
        assert!(seen.new > 4096 && seen.without > 0, "{options:?}: {seen:?}");
        assert_eq!(seen.retired > 0, options.len() > 2, "{options:?}: {seen:?}");
    }
}
