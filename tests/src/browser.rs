//! A headless browser: Debian's Chromium, without network access.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use crate::needs::installed_or_skip;
use anyhow::{Context as _, Result, bail, ensure};
use flate2::read::ZlibDecoder;

/// Flags of every run: no user profile, no network, no background services.
const FLAGS: [&str; 13] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--enable-logging=stderr",
    // A page may inspect another file that it shows in a frame.
    "--allow-file-access-from-files",
    "--virtual-time-budget=10000",
];

/// True if Chromium is installed. Otherwise prints a SKIP line, or fails with `CI=true`.
pub fn chromium_or_skip(test: &str) -> bool {
    installed_or_skip(test, "chromium")
}

/// A page after its scripts have run.
#[derive(Clone, Debug)]
pub struct RenderedPage {
    /// The document.
    pub dom: String,
    /// Console output, including violations of the content security policy.
    pub console: Vec<String>,
}

/// Opens a page.
pub fn open(page: &Path) -> Result<RenderedPage> {
    let output = run(page, &["--dump-dom"])?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let console = errors.lines().filter(|line| line.contains(":CONSOLE")).map(str::to_owned).collect();
    Ok(RenderedPage { dom: String::from_utf8_lossy(&output.stdout).into_owned(), console })
}

fn run(page: &Path, arguments: &[&str]) -> Result<Output> {
    let profile = tempfile::tempdir()?;
    let mut command = Command::new("timeout");
    command.args(["120", "chromium"]).args(FLAGS).args(arguments);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.env("HOME", profile.path()).arg(format!("file://{}", page.display()));
    let output = command.output().context("chromium could not be started")?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("chromium {} ended with {}: {}", page.display(), output.status, errors.trim());
    }
    Ok(output)
}

/// The colours that a page is asked for (`prefers-color-scheme`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Dark text on light.
    Light,
    /// Light text on dark.
    Dark,
}

/// A picture: its pixels, line by line.
#[derive(Clone, Debug)]
pub struct Pixels {
    /// Pixels of a line.
    pub width: usize,
    /// Red, green, blue.
    pub pixels: Vec<[u8; 3]>,
}

impl Pixels {
    /// Number of different colours.
    pub fn colors(&self) -> usize {
        self.pixels.iter().collect::<BTreeSet<_>>().len()
    }

    /// Mean of all channels of all pixels, 0 to 255.
    pub fn brightness(&self) -> f64 {
        let sum: u64 = self.pixels.iter().flatten().map(|channel| u64::from(*channel)).sum();
        sum as f64 / (3 * self.pixels.len()).max(1) as f64
    }
}

/// Takes a picture of a page into a file.
pub fn picture(page: &Path, scheme: Scheme, (width, height): (u32, u32), to: &Path) -> Result<Pixels> {
    let (file, size) = (format!("--screenshot={}", to.display()), format!("--window-size={width},{height}"));
    // 0 is dark in Blink's enumeration.
    let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(scheme == Scheme::Light));
    // Otherwise parts of the page may not be drawn yet.
    let whole = "--run-all-compositor-stages-before-draw";
    run(page, &[&file, &size, &scheme, whole, "--hide-scrollbars"])?;
    let bytes = std::fs::read(to).with_context(|| format!("chromium wrote no {}", to.display()))?;
    png(&bytes).with_context(|| to.display().to_string())
}

/// Prints a page into a PDF file. Returns its number of pages.
pub fn print(page: &Path, to: &Path) -> Result<usize> {
    run(page, &[&format!("--print-to-pdf={}", to.display()), "--no-pdf-header-footer"])?;
    let bytes = std::fs::read(to).with_context(|| format!("chromium wrote no {}", to.display()))?;
    ensure!(bytes.starts_with(b"%PDF-"), "{} is no PDF", to.display());
    // Chromium does not compress the objects of pages. `/Type /Pages` is their list.
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.matches("/Type /Page").count() - text.matches("/Type /Pages").count())
}

/// Reads a PNG of 8 bits a channel, not interlaced, as Chromium writes them.
fn png(file: &[u8]) -> Result<Pixels> {
    let mut rest = file.strip_prefix(b"\x89PNG\r\n\x1a\n").context("no PNG")?;
    let (mut head, mut packed) = (None, Vec::new());
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let (kind, behind) = behind.split_first_chunk::<4>().context("truncated")?;
        let (data, behind) = behind.split_at_checked(length).context("truncated")?;
        match kind {
            b"IHDR" => head = data.first_chunk::<13>().copied(),
            b"IDAT" => packed.extend_from_slice(data),
            _ => {}
        }
        rest = behind.get(4..).context("no checksum")?;
    }
    let [w0, w1, w2, w3, _, _, _, _, depth, kind, _, _, interlaced] = head.context("no header")?;
    let width = u32::from_be_bytes([w0, w1, w2, w3]) as usize;
    let channels = match kind {
        2 => 3,
        6 => 4,
        other => bail!("colour type {other}"),
    };
    ensure!(depth == 8 && interlaced == 0 && width > 0, "{depth} bits, interlace {interlaced}, {width} wide");
    let mut lines = Vec::new();
    std::io::Read::read_to_end(&mut ZlibDecoder::new(&*packed), &mut lines)?;
    let mut before = vec![0; width * channels];
    let mut pixels = Vec::new();
    for line in lines.chunks_exact(1 + width * channels) {
        let (filter, line) = line.split_first().context("an empty line")?;
        before = unfiltered(*filter, line, &before, channels)?;
        pixels.extend(before.chunks_exact(channels).filter_map(|pixel| pixel.first_chunk::<3>().copied()));
    }
    Ok(Pixels { width, pixels })
}

/// A line of a PNG without its filter (PNG specification, 9.2).
fn unfiltered(filter: u8, line: &[u8], above: &[u8], channels: usize) -> Result<Vec<u8>> {
    let mut out: Vec<u8> = Vec::with_capacity(line.len());
    for (at, byte) in line.iter().enumerate() {
        let of = |bytes: &[u8]| at.checked_sub(channels).map_or(0, |at| bytes[at]);
        let (left, up, corner) = (of(&out), above[at], of(above));
        let predicted = match filter {
            0 => 0,
            1 => left,
            2 => up,
            3 => left.midpoint(up),
            4 => paeth(left, up, corner),
            other => bail!("filter {other}"),
        };
        out.push(byte.wrapping_add(predicted));
    }
    Ok(out)
}

/// The one of the three that is nearest to `left + up - corner`, the first among equals.
fn paeth(left: u8, up: u8, corner: u8) -> u8 {
    let sum = i16::from(left) + i16::from(up) - i16::from(corner);
    let distance = |of: &u8| (sum - i16::from(*of)).abs();
    [left, up, corner].into_iter().min_by_key(distance).unwrap_or(left)
}
