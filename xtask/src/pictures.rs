//! `cargo xtask pictures`: the pictures of the documentation, and images of every screen to look at.
//!
//! The tests draw: each screen of the snapshots at six sizes as escape sequences, and the demonstration in a terminal,
//! whose pictures are in docs/. Here they become images, in Chromium. The page of a report is one already: light, dark,
//! on paper.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use crate::programs::{CHECKED, Programs};
use crate::run::{captured, has_program, limited, root_command, say, step, target_dir, workspace_root};
use crate::setup;

#[path = "../../tests/src/picture.rs"]
#[expect(unreachable_pub, reason = "it is public in the crate of the tests, too")]
mod picture;

/// Options.
#[derive(Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// Folder for the images [default: target/pictures]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Leave the pictures in docs/ as they are
    #[arg(long)]
    no_docs: bool,
}

/// Draws, and makes images.
pub(crate) fn pictures(wanted: &Wanted) -> Result<()> {
    ensure!(has_program("chromium"), "images need chromium: cargo xtask setup installs it");
    let out = std::path::absolute(wanted.out.clone().unwrap_or_else(|| target_dir().join("pictures")))?;
    let drawn = out.join("drawn");
    if drawn.exists() {
        fs::remove_dir_all(&drawn).with_context(|| format!("cannot empty {}", drawn.display()))?;
    }
    let toolchain = setup::ebpf_toolchain()?;
    let programs = step("building rocescope and the tests that draw", || {
        let selection = ["--bin", "rocescope", "--test", "tui", "--test", "tui_replay", "--test", "share"];
        Programs::build(Some(&toolchain), CHECKED, selection)
    })?;
    step("drawing every screen at every size", || {
        let test = programs.tests.iter().find(|test| test.package == "rocescope" && test.name == "tui");
        let test = test.context("cargo built no test tui")?;
        let mut command = Command::new(&test.path);
        command.arg("every_size").current_dir(&test.folder);
        captured(command.env("ROCESCOPE_PICTURES", &drawn))
    })?;
    step("making images", || images(&drawn, &out))?;
    step("taking pictures of a report's page", || {
        let mut test = Command::new(programs.integration("share")?);
        test.arg("pictures_of_the_page").current_dir(workspace_root().join("tests"));
        captured(test.env("ROCESCOPE_BIN", &programs.rocescope).env("ROCESCOPE_PICTURES", &out))
    })?;
    if !wanted.no_docs {
        step("taking the pictures of the demonstration", || demonstration(&programs))?;
        let docs = workspace_root().join("docs");
        for name in ["overview", "qps", "problem"] {
            image(&docs.join(format!("{name}.svg")), &out.join(format!("{name}.png")))?;
        }
    }
    println!("{}", out.display());
    Ok(())
}

/// One image for each state and size, with all screens.
fn images(drawn: &Path, out: &Path) -> Result<()> {
    let mut sheets: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for entry in fs::read_dir(drawn).with_context(|| format!("nothing was drawn in {}", drawn.display()))? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let sheet = stem.rsplitn(3, '-').last().unwrap_or_default().to_owned();
        sheets.entry(sheet).or_default().push(path);
    }
    let all = sheets.len();
    let left = Mutex::new((sheets.into_iter(), 0_usize));
    let next = || {
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        let next = left.0.next()?;
        left.1 += 1;
        // A large one takes Chromium seconds, and there are many.
        if left.1.is_multiple_of(SHEETS_A_LINE) {
            say(&format!("image {} of {all}: {}", left.1, next.0));
        }
        Some(next)
    };
    let work = || {
        while let Some((name, screens)) = next() {
            sheet(&name, screens, out)?;
        }
        Ok(())
    };
    let at_once = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| bail!("bug: a thread that makes images ended unexpectedly"))
        })
    })
}

/// Images between two lines about them.
const SHEETS_A_LINE: usize = 10;

/// All screens of a state and size in one image.
fn sheet(name: &str, mut screens: Vec<PathBuf>, out: &Path) -> Result<()> {
    screens.sort();
    let mut pictures = Vec::new();
    for path in screens {
        let text = fs::read_to_string(&path)?;
        pictures.push(picture::svg(&text, &path.file_stem().unwrap_or_default().to_string_lossy()));
    }
    let sheet = out.join(format!("{name}.svg"));
    fs::write(&sheet, beside(&pictures))?;
    image(&sheet, &out.join(format!("{name}.png")))
}

/// Width and height that a picture names.
fn size(svg: &str) -> (u32, u32) {
    let number = |name: &str| {
        let (_, rest) = svg.split_once(&format!(" {name}=\""))?;
        rest.split('"').next()?.parse().ok()
    };
    (number("width").unwrap_or(0), number("height").unwrap_or(0))
}

/// Pictures of one size in two columns.
fn beside(pictures: &[String]) -> String {
    let (width, height) = pictures.first().map_or((0, 0), |svg| size(svg));
    let rows = u32::try_from(pictures.len().div_ceil(2)).unwrap_or(0);
    let mut all = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\">\n",
        2 * width,
        rows * height
    );
    for (at, svg) in (0..).zip(pictures) {
        let (x, y) = (at % 2 * width, at / 2 * height);
        let _ = writeln!(all, "<g transform=\"translate({x} {y})\">{svg}</g>");
    }
    all.push_str("</svg>\n");
    all
}

/// Time that an image takes at most: the largest take 25 s on a busy host.
const IMAGE: Duration = Duration::from_secs(180);

/// A picture as an image.
fn image(svg: &Path, png: &Path) -> Result<()> {
    let text = fs::read_to_string(svg).with_context(|| format!("cannot read {}", svg.display()))?;
    let (width, height) = size(&text);
    let mut chromium = Command::new("chromium");
    chromium.args(["--headless", "--disable-gpu", "--no-sandbox", "--hide-scrollbars"]);
    chromium.arg(format!("--screenshot={}", png.display())).arg(format!("--window-size={width},{height}"));
    limited(chromium.arg(svg), &png.with_extension("log"), IMAGE)?;
    ensure!(png.exists(), "chromium made no image of {}", svg.display());
    Ok(())
}

/// The pictures in docs/ anew.
fn demonstration(programs: &Programs) -> Result<()> {
    // sudo passes no environment.
    let mut test = root_command("env", "the demonstration makes network namespaces")?;
    test.arg(format!("ROCESCOPE_BIN={}", programs.rocescope.display())).arg("ROCESCOPE_BLESS=1");
    test.arg(programs.integration("tui_replay")?).arg("pictures_of_the_demonstration");
    captured(test.current_dir(workspace_root().join("tests")))
}
