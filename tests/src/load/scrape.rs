//! Duration of a scrape of `rocescope export` with 400 flows.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rocescope::host::net::veth;

use super::median;
use crate::live::frames;
use crate::live::program::{Program, Start};
use crate::live::wire::World;

/// Number of queue pairs, each with a flow in both directions.
const QPS: u32 = 200;
const ADDRESS: &str = "127.0.0.1:14791";
/// Maximum duration of a scrape.
const LIMIT_MS: f64 = 10.0;

/// Measures and prints.
pub fn bench(rounds: usize) -> Result<()> {
    let (world, mut link) = World::with_link(1_500)?;
    world.near.run(|| veth::set_up(veth::index_of("lo")?))??;
    let start = Start { netns: Some(&world.near), ..Start::default() };
    let arguments = ["export", "-i", "near0", "--interval", "1s", "--per-qp", "64", "--listen", ADDRESS];
    let export = Program::watching(start, &arguments)?;
    let (mut times, mut bytes) = (Vec::new(), 0);
    for round in 0..u32::try_from(rounds)? + 3 {
        let sent: Vec<Vec<u8>> = (0..QPS).map(|qp| frames::send(0x100 + qp, round)).collect();
        link.receive(&sent)?;
        link.transmit(&sent)?;
        // Traffic continues and metrics are updated during the scrapes.
        std::thread::sleep(Duration::from_millis(137));
        let begin = Instant::now();
        let answer = world.near.run(scrape)??;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
        bytes = answer.len();
    }
    let mut last = String::new();
    for _ in 0..50 {
        last = world.near.run(scrape)??;
        if last.contains("\nrocescope_flows 400\n") {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    ensure!(last.contains("\nrocescope_flows 400\n"), "the exposition has other than 400 flows");
    let worst = times.iter().copied().fold(0.0, f64::max);
    let series = last.lines().filter(|line| line.starts_with("rocescope_")).count();
    let middle = median(times);
    println!(
        "scrape at 400 flows, --per-qp 64: {series} series, {bytes} bytes: median {middle:.2} ms, worst {worst:.2} ms"
    );
    export.interrupt()?;
    ensure!(worst <= LIMIT_MS, "a scrape took {worst:.2} ms, more than {LIMIT_MS} ms");
    Ok(())
}

fn scrape() -> Result<String> {
    let mut stream = TcpStream::connect(ADDRESS).context("cannot connect to the exporter")?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
