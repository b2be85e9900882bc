//! Describes the machine of the measurements.

use std::fs;
use std::process::Command;

use crate::run::output_of;

/// Prints CPUs, kernel and load.
pub(crate) fn print() {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("processors: {processors} x {}", model.unwrap_or("-"));
    println!("kernel:     {}", first_line(Command::new("uname").arg("-r")));
    println!("load:       {}", load.split_whitespace().next().unwrap_or("-"));
}

/// The first line of a command's output, or a dash.
pub(crate) fn first_line(command: &mut Command) -> String {
    let text = output_of(command);
    text.and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_else(|| "-".into())
}
