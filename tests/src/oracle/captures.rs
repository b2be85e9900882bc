//! Where the captures are.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The folder of captures that belong to the tests.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}

/// All captures of the tests, in the order of their paths.
///
/// # Errors
/// When the folder cannot be read.
pub fn own() -> Result<Vec<PathBuf>> {
    beneath(&folder())
}

/// All captures below the folder named by `ROCESCOPE_CAPTURES`; none when it is not set.
///
/// # Errors
/// When that folder cannot be read.
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
            // file_type does not follow links, so that a link to a folder above cannot make this endless.
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
