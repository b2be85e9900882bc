//! The terminal UI on made-up figures, to look at it without traffic:
//! `cargo run --example tui_fake -- sick` (or healthy, empty, busy, many, ipv6, replay).

use std::time::Duration;

use rocescope::source::feed::{Command, SourceEnd, Update, channel};
use rocescope::tui::{Options, run};

#[path = "../tests/support/fake.rs"]
#[allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used, reason = "shared with the tests")]
mod fake;

/// The second of a time, from the start.
fn second_of(time_ns: u64) -> u64 {
    (time_ns.saturating_sub(fake::START_NS) / 1_000_000_000).max(1)
}

fn source(tap: &SourceEnd, world: &fake::World) {
    let mut seconds = 0;
    let mut paused = false;
    let _ = tap.tell(Update::Notice("made-up figures: nothing is measured".into()));
    loop {
        while let Ok(command) = tap.commands.try_recv() {
            match command {
                Command::Stop => {
                    let _ = tap.tell(Update::Ended(Ok(())));
                    return;
                }
                Command::Pause(on) => paused = on,
                Command::Seek(to_ns) => seconds = seconds.max(second_of(to_ns)),
                Command::Rewind(to_ns) => {
                    let _ = tap.tell(Update::Restarted);
                    seconds = second_of(to_ns);
                    let _ = tap.sample(world.at(seconds));
                }
                Command::Speed(_) | Command::Dump => {}
            }
        }
        if !paused {
            seconds += 1;
            if seconds > 1 {
                let _ = tap.tell(Update::Events(world.events(seconds - 1)));
            }
            if !tap.sample(world.at(seconds)) {
                return;
            }
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn main() -> anyhow::Result<()> {
    let which = std::env::args().nth(1).unwrap_or_default();
    let world = match which.as_str() {
        "healthy" => fake::World::healthy(),
        "empty" => fake::World::live(),
        "many" => fake::World::many(65_000),
        "busy" => fake::World::many(10_000),
        "ipv6" => fake::World::ipv6(),
        "replay" => fake::World { flows: fake::World::sick().flows, ..fake::World::replay() },
        _ => fake::World::sick(),
    };
    let (tap, feed) = channel();
    let source = std::thread::spawn(move || source(&tap, &world));
    let mut options = Options::from_env();
    options.report.analysis.imbalance_all_links = true;
    options.speed = (which == "replay").then_some(1.0);
    let result = run(feed, options).result;
    let _ = source.join();
    result
}
