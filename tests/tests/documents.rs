//! What the pages show of the program's output for the captures of the tests is what it prints.

use std::path::{Path, PathBuf};
use std::process::Command;

use rocescope_tests::oracle::binary;
use rocescope_tests::sim::bench::{self, Options};
use rocescope_tests::sim::scenarios;

/// A command of a page, and the lines of its output that the page shows.
struct DocumentedCommand {
    command: String,
    lines: Vec<String>,
}

/// One space in place of any: pages leave lines out and wrap at another width.
fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The commands in the console blocks of a page.
fn shown(page: &str) -> Vec<DocumentedCommand> {
    let mut all: Vec<DocumentedCommand> = Vec::new();
    let (mut inside, mut continued) = (false, false);
    for line in page.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            inside = kind == "console";
        } else if inside && (continued || line.starts_with("$ ")) {
            let part = line.trim_start_matches("$ ").trim();
            let whole = part.trim_end_matches('\\');
            match all.last_mut().filter(|_| continued) {
                Some(last) => last.command.push_str(whole),
                None => all.push(DocumentedCommand { command: whole.to_owned(), lines: Vec::new() }),
            }
            continued = whole != part;
        } else if let Some(last) = all.last_mut().filter(|_| inside && !line.trim().is_empty()) {
            last.lines.push(spaced(line));
        }
    }
    all
}

/// The words of a command without quotes around them.
fn words(command: &str) -> Vec<String> {
    let quoted = command.split('\'').enumerate();
    let words = quoted.flat_map(|(at, part)| {
        if at % 2 == 1 { vec![part.to_owned()] } else { part.split_whitespace().map(str::to_owned).collect() }
    });
    words.collect()
}

/// The folder in which pages keep captures of the simulator, and the command that makes them.
const SIMULATED: (&str, &str) = ("target/truth", "cargo xtask bench truth ");

/// Makes the captures of this scenario below a folder.
fn simulate(only: &str, keep: &Path) -> anyhow::Result<()> {
    let rocescope = binary::path()?;
    let (only, keep) = (Some(only.to_owned()), Some(keep.to_owned()));
    let options = Options { rocescope, seeds: 1..=1, vary: false, only, keep, jobs: 1 };
    bench::run(&scenarios::all(), &options).map(|_| ())
}

#[test]
fn pages_show_what_the_program_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let is_page = |path: &PathBuf| path.extension().is_some_and(|end| end == "md");
    let pages = folder.filter(is_page).chain([root.join("README.md")]);
    let (mut tried, mut wrong) = (0, Vec::new());
    let simulated = tempfile::tempdir().unwrap();
    for page in pages {
        for DocumentedCommand { command, lines } in shown(&std::fs::read_to_string(&page).unwrap()) {
            if let Some(options) = command.strip_prefix(SIMULATED.1) {
                let (_, after) = options.split_once("--only ").unwrap();
                simulate(after.split_whitespace().next().unwrap(), simulated.path()).unwrap();
            }
            // Others need rights, traffic, or a capture that the repository does not have.
            let is_there = ["tests/data/", SIMULATED.0].iter().any(|folder| command.contains(folder));
            let of_tests = command.starts_with("rocescope ") && is_there;
            if !of_tests || lines.is_empty() || command.contains(['|', '>']) {
                continue;
            }
            let output = Command::new(binary::path().unwrap())
                .args(&words(&command.replace(SIMULATED.0, &simulated.path().to_string_lossy()))[1..])
                .current_dir(root)
                .output()
                .unwrap();
            let printed = spaced(&String::from_utf8_lossy(&output.stdout));
            tried += 1;
            for line in lines.iter().filter(|line| !printed.contains(*line)) {
                wrong.push(format!("{}: {command}\n    shown and not printed: {line}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried >= 10, "{tried} commands tried");
}
