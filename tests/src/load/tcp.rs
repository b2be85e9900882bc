//! TCP rate through a watched veth pair, with and without rocescope, by hook.

use anyhow::Result;

use super::median;
use crate::live::program::Program;
use crate::live::tcp::{prepare, stream};
use crate::live::wire::World;

/// Bytes per stream.
const BYTES: u64 = 2 << 30;

/// Measures every hook in every round and prints a table of medians.
pub fn bench(rounds: usize) -> Result<()> {
    let hooks: [(&str, Option<&[&str]>); 4] = [
        ("nothing", None),
        ("TC (auto)", Some(&["--hook", "auto"])),
        ("native XDP", Some(&["--hook", "xdp", "--xdp-mode", "native"])),
        ("generic XDP", Some(&["--hook", "xdp", "--xdp-mode", "generic"])),
    ];
    let mut rates = hooks.map(|_| Vec::new());
    let (world, mut link) = World::with_link(1500)?;
    prepare(&world, &link)?;
    for _ in 0..rounds.max(1) {
        for ((_, hook), rates) in hooks.iter().zip(&mut rates) {
            let options = |hook: &&[&'static str]| [&["-i", "near0", "--output", "json"], *hook].concat();
            let program = hook.as_ref().map(|hook| Program::live(&world.near, &options(hook))).transpose()?;
            let sent = stream(&world, &mut link, BYTES)?;
            rates.push(sent.bytes as f64 * 8e-9 / sent.time.as_secs_f64());
            if let Some(program) = program {
                program.interrupt()?;
            }
        }
    }
    println!("TCP through a veth pair, MTU 1500, {} GiB a stream, {rounds} rounds, medians\n", BYTES >> 30);
    println!("{:<14}{:>8}", "attached", "Gb/s");
    for ((name, _), rates) in hooks.into_iter().zip(rates) {
        println!("{name:<14}{:>8.1}", median(rates));
    }
    Ok(())
}
