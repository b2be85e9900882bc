//! Runs programs in parallel, printing the output of each as a whole.

use crate::run::{into_file, print, say};
use anyhow::Result;
use std::collections::VecDeque;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Instant;

/// A program to run.
pub(super) struct LaneProgram {
    pub(super) name: String,
    pub(super) command: Command,
}

/// Runs the jobs in order, at most `lanes` at once. The output of each goes to a file below `dir`, is printed after
/// its end, and is then passed to `ended` with the job's name and result.
pub(super) fn run(
    jobs: Vec<LaneProgram>,
    lanes: usize,
    dir: &Path,
    mut ended: impl FnMut(&str, &str, Result<()>),
) {
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
            let output = print(&file);
            let end = if result.is_ok() { "ok" } else { "FAILED" };
            say(&format!("{name}: {end} ({:.1} s)", time.as_secs_f64()));
            ended(&name, &output, result);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn each_output_is_in_one_piece_and_failures_are_named() {
        let dir = std::env::temp_dir().join(format!("rocescope-lanes-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let job = |name: &str, script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            LaneProgram { name: name.to_owned(), command }
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
