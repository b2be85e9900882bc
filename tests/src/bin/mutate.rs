//! Runs rocescope on mutated input, for `cargo xtask mutate`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rocescope_tests::mutation::{self, Options};
use rocescope_tests::oracle::binary;

fn main() -> ExitCode {
    rocescope_tests::exit_status(work())
}

fn work() -> Result<()> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut options = Options {
        rocescope: binary::path()?,
        duration: Duration::from_secs(600),
        seed: 1,
        only: None,
        keep: "mutants".into(),
        jobs,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--seconds" => {
                options.duration = Duration::from_secs(value()?.parse().context("--seconds needs a number")?);
            }
            "--seed" => options.seed = value()?.parse().context("--seed needs a number")?,
            "--only" => options.only = Some(value()?.parse().context("--only needs a number")?),
            "--keep" => options.keep = value()?.into(),
            other => bail!("unknown argument {other}"),
        }
    }
    let outcome = mutation::run(&options)?;
    for (kind, count) in &outcome.ran {
        println!("{kind:>8}  {count} mutants");
    }
    for failure in &outcome.failures {
        println!("{} {}: {}", failure.kind, failure.number, failure.why);
    }
    if !outcome.failures.is_empty() {
        bail!("{} mutants failed; --seed {} --only NUMBER repeats one", outcome.failures.len(), options.seed);
    }
    Ok(())
}
