//! `cargo xtask sanitize`: Miri on the common crate, and ThreadSanitizer on replay, as in the nightly run, beside
//! `fuzz`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::gen_capture::{Generate, Snap, generate};
use crate::recipe::PINNED_NIGHTLY;
use crate::run::{run, step, target_dir, workspace_root};
use crate::setup::{in_toolchain, with_component};

/// ThreadSanitizer needs an instrumented standard library, which requires an explicit target.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Frames of the generated captures: enough for reading files alternately in two threads.
const FRAMES: u64 = 200_000;

/// Runs both, one whatever the other finds.
///
/// # Errors
/// The nightly or a component is not available, something does not build, or one of them has a finding.
pub(crate) fn sanitize() -> Result<()> {
    let results = [
        ("Miri", step("Miri: tests of the common crate", miri)),
        ("ThreadSanitizer", with_component(PINNED_NIGHTLY, "rust-src").and_then(|()| threads())),
    ];
    let failed: Vec<String> = results
        .into_iter()
        .filter_map(|(name, result)| result.err().map(|error| format!("{name}: {error:#}")))
        .collect();
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(())
}

/// ThreadSanitizer on replay.
fn threads() -> Result<()> {
    let program = step("building rocescope with ThreadSanitizer", build)?;
    let folder = target_dir().join("sanitize/captures");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    step("ThreadSanitizer: replay of captures", || replays(&program, &folder))
}

fn miri() -> Result<()> {
    for component in ["rust-src", "miri"] {
        with_component(PINNED_NIGHTLY, component)?;
    }
    let mut command = nightly();
    // The tests read vectors from a file.
    command
        .args(["miri", "test", "-p", "rocescope-common", "--lib"])
        .env("MIRIFLAGS", "-Zmiri-disable-isolation");
    run(command.arg("--target-dir").arg(target_dir().join("sanitize")))
}

fn build() -> Result<PathBuf> {
    let folder = target_dir().join("sanitize");
    let mut command = nightly();
    command.args(["build", "-Z", "build-std", "--target", TARGET, "-p", "rocescope", "--bin", "rocescope"]);
    command.env("RUSTFLAGS", "-Z sanitizer=thread -C opt-level=1").arg("--target-dir").arg(&folder);
    run(&mut command)?;
    Ok(folder.join(TARGET).join("debug/rocescope"))
}

/// Replays the test data, one file and two taps at a time, and captures that use all threads.
fn replays(program: &Path, folder: &Path) -> Result<()> {
    let data = workspace_root().join("tests/data");
    let entries = fs::read_dir(&data).with_context(|| format!("cannot list {}", data.display()))?;
    let names: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let is_capture = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        [".pcap", ".pcapng", ".pcap.gz"].iter().any(|end| name.ends_with(end))
    };
    let captures: Vec<&PathBuf> = names.iter().filter(is_capture).collect();
    ensure!(captures.len() > 10, "only {} captures in {}", captures.len(), data.display());
    for capture in &captures {
        replay(program, &[capture])?;
        // The other tap of the same traffic.
        let other = PathBuf::from(capture.to_string_lossy().replace(".h0.", ".h1."));
        if other != **capture && other.exists() {
            replay(program, &[capture, &other])?;
        }
    }
    // Complete frames are read alternately; many flows are reported by two threads; gzip is decompressed ahead.
    for (name, snap, flows) in
        [("whole.pcap", Snap::FULL, 64), ("many.pcap", Snap(96), 2_000), ("many.pcap.gz", Snap(96), 64)]
    {
        let out = folder.join(name);
        generate(&Generate {
            packets: FRAMES,
            snap,
            flows,
            mtu: 1024,
            other: 0,
            slower: 1,
            seed: 1,
            out: out.clone(),
        })?;
        replay(program, &[&out])?;
        fs::remove_file(&out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    Ok(())
}

fn replay(program: &Path, files: &[&PathBuf]) -> Result<()> {
    let mut command = Command::new(program);
    // The sanitizer maps memory and reads files in ways that the sandbox forbids.
    command.args(["replay", "--no-sandbox", "--output", "json"]).args(files);
    run(command.env("TSAN_OPTIONS", "exitcode=66").stdin(Stdio::null()).stdout(Stdio::null()))
}

fn nightly() -> Command {
    let mut command = in_toolchain(PINNED_NIGHTLY, "cargo");
    command.current_dir(workspace_root()).stdin(Stdio::null());
    command
}
