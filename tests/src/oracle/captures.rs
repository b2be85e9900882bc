//! The captures of the tests.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The folder of the tests' captures.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}

/// All captures of the tests, sorted by path.
pub fn own() -> Result<Vec<PathBuf>> {
    beneath(&folder())
}

/// All captures below the folder `ROCESCOPE_CAPTURES`; none if it is not set.
pub fn further() -> Result<Vec<PathBuf>> {
    std::env::var_os("ROCESCOPE_CAPTURES").map_or(Ok(Vec::new()), |folder| beneath(Path::new(&folder)))
}

fn beneath(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("the folder of captures {} cannot be read", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            // file_type does not follow links, so that a link to a parent folder causes no endless loop.
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if is_capture(&entry.path()) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn is_capture(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    Path::new(plain).extension().is_some_and(|extension| extension == "pcap" || extension == "pcapng")
}

/// The frames of a plain pcap file.
#[derive(Debug)]
pub struct PlainPcap {
    /// 1 Ethernet, 101 raw IP, 113 and 276 Linux cooked.
    pub link_type: u32,
    /// Captured bytes, and length on the wire.
    pub frames: Vec<(Vec<u8>, u32)>,
}

/// Reads a plain pcap file; `None` for other formats (pcapng, gzip).
pub fn plain(path: &Path) -> Result<Option<PlainPcap>> {
    let file = std::fs::read(path).with_context(|| path.display().to_string())?;
    let big = match file.get(..4) {
        Some([0xA1, 0xB2, 0xC3 | 0x3C, 0xD4 | 0x4D]) => true,
        Some([0xD4 | 0x4D, 0xC3 | 0x3C, 0xB2, 0xA1]) => false,
        _ => return Ok(None),
    };
    let word = |at: usize| -> Option<u32> {
        let bytes = file.get(at..at + 4)?.try_into().ok()?;
        Some(if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    };
    // The upper half of the link type field contains the FCS length, if known.
    let link_type = word(20).context("no file header")? & 0xFFFF;
    let (mut frames, mut at) = (Vec::new(), 24);
    while at < file.len() {
        let (Some(kept), Some(length)) = (word(at + 8), word(at + 12)) else {
            bail!("a record without header")
        };
        let end = at + 16 + usize::try_from(kept)?;
        frames.push((file.get(at + 16..end).context("a truncated record")?.to_vec(), length));
        at = end;
    }
    Ok(Some(PlainPcap { link_type, frames }))
}
