//! Compares builds of the kernel programs in one run.
//!
//! `cargo run --release --features live --example bench_objects -- ROUNDS CASE[,CASE..]|all OBJECT..`
//! prints a line per program and case: for each object the median and, in parentheses, the lower quartile in ns
//! per packet, then the ratio of its lower quartile to that of the first object. On a shared machine the lower
//! quartile is the cost on an undisturbed core.

use std::path::Path;

use anyhow::{Context as _, Result};
use rocescope::bench::case::Hook;
use rocescope::bench::measure::{Effort, Row, measure};
use rocescope::cli::output::Interrupt;
use rocescope::util::numbers::interpolated;

/// The quantile shown besides the median.
const LOWER: f64 = 0.25;

static WANTED: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();

fn wanted(hook: Hook, id: &str) -> bool {
    WANTED.get().is_some_and(|wanted| {
        wanted.iter().any(|name| name == "all" || name == id || *name == format!("{}:{id}", hook.name()))
    })
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: bench_objects ROUNDS CASE[,CASE..]|all OBJECT..";
    let rounds: u32 = args.next().context(usage)?.parse().context(usage)?;
    let cases = args.next().context(usage)?;
    WANTED.get_or_init(|| cases.split(',').map(str::to_owned).collect());
    let paths: Vec<String> = args.collect();
    let objects = paths.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>()?;
    let interrupt = Interrupt::catch()?;
    let mut rows: Vec<Vec<Row>> = vec![Vec::new(); objects.len()];
    for _ in 0..rounds {
        for (object, all) in objects.iter().zip(&mut rows) {
            let effort = Effort { rounds: 1, fills: 1, wanted };
            let measured = measure(effort, Some(object), &|_| interrupt.is_set())?;
            if all.is_empty() {
                *all = measured.rows;
            } else {
                for (sum, row) in all.iter_mut().zip(measured.rows) {
                    sum.ns.extend(row.ns);
                    sum.empty_ns.extend(row.empty_ns);
                }
            }
            if interrupt.is_set() {
                break;
            }
        }
    }
    print!("{:10} {:20}", "program", "case");
    for path in &paths {
        print!(" {:>20}", Path::new(path).file_stem().unwrap_or_default().to_string_lossy());
    }
    println!();
    let Some(first) = rows.first() else { return Ok(()) };
    for (at, row) in first.iter().enumerate() {
        print!("{:10} {:20}", row.hook.name(), row.id);
        let lower = interpolated(&row.ns, LOWER).unwrap_or(f64::NAN);
        for object in &rows {
            let ns = object.get(at).map_or(&[][..], |row| &row.ns);
            let figure = |part| interpolated(ns, part).unwrap_or(f64::NAN);
            let (median, own) = (figure(0.5), figure(LOWER));
            print!(" {:>20}", format!("{median:.1} ({own:.1}) {:.3}", own / lower));
        }
        println!();
    }
    Ok(())
}
