//! Running programs side by side, each with its output in one piece.

use crate::run::{say, show};
use anyhow::{Context as _, Result, bail};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Instant;

/// A program to run.
pub(super) struct Job {
    pub(super) name: String,
    pub(super) command: Command,
}

/// Runs the jobs in their order, at most `lanes` at once. The output of each goes to a file below `dir`, is printed
/// as a whole when the job has ended, and is then passed to `ended` with the job's name and result.
pub(super) fn run(jobs: Vec<Job>, lanes: usize, dir: &Path, mut ended: impl FnMut(&str, &str, Result<()>)) {
    let queue = Mutex::new(VecDeque::from(jobs));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let (sender, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(mut job) = next() {
                    say(&format!("{} ...", job.name));
                    let file = dir.join(job.name.replace(' ', "-")).with_extension("log");
                    let start = Instant::now();
                    let result = into_file(&mut job.command, &file);
                    let _ = sender.send((job.name, file, start.elapsed(), result));
                }
            });
        }
        drop(sender);
        for (name, file, time, result) in results {
            let output = fs::read(&file).unwrap_or_default();
            // Standard output that nobody reads any more is no reason to stop testing.
            let _ = io::stdout().write_all(&output).and_then(|()| io::stdout().flush());
            let end = if result.is_ok() { "ok" } else { "FAILED" };
            say(&format!("{name}: {end} ({:.1} s)", time.as_secs_f64()));
            ended(&name, &String::from_utf8_lossy(&output), result);
        }
    });
}

/// Runs a command to its end with standard output and standard error in one file.
fn into_file(command: &mut Command, path: &PathBuf) -> Result<()> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    let shown = show(command);
    let errors = file.try_clone().context("cannot share the file with standard error")?;
    let status =
        command.stdout(file).stderr(errors).status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}; its output is in {}", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_output_is_in_one_piece_and_failures_are_named() {
        let dir = std::env::temp_dir().join(format!("rocescope-lanes-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let job = |name: &str, script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Job { name: name.to_owned(), command }
        };
        let jobs = vec![
            job("slow one", "echo a; sleep 0.2; echo b >&2"),
            job("broken", "echo c; exit 3"),
            job("last", "echo d"),
        ];
        let mut ends = Vec::new();
        run(jobs, 2, &dir, |name, output, result| {
            let error = result.err().map(|error| error.to_string());
            ends.push((name.to_owned(), output.to_owned(), error));
        });
        fs::remove_dir_all(&dir).unwrap();
        ends.sort();
        let outputs: Vec<_> = ends.iter().map(|(name, output, _)| (&**name, &**output)).collect();
        assert_eq!(outputs, [("broken", "c\n"), ("last", "d\n"), ("slow one", "a\nb\n")]);
        assert!(ends[0].2.as_ref().unwrap().contains("exit status: 3"), "{ends:?}");
        assert!(ends[1].2.is_none() && ends[2].2.is_none(), "{ends:?}");
    }
}
