//! Ubuntu's archive, for use on a machine with another distribution.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Address of Ubuntu's packages.
pub(crate) const ARCHIVE: &str = "http://archive.ubuntu.com/ubuntu";
/// The key that signs all releases since 18.04, from the package `ubuntu-keyring`: "Ubuntu Archive Automatic Signing
/// Key (2018)", F6ECB3762474EDA9D21B7022871920D1991BC93C. Debian has no package that contains it.
const KEY: &[u8] = include_bytes!("ubuntu-archive.gpg");

/// Writes the key into a folder, for apt and debootstrap, and returns its path.
pub(crate) fn keyring(folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let place = folder.join("ubuntu-archive.gpg");
    fs::write(&place, KEY).with_context(|| format!("cannot write {}", place.display()))?;
    Ok(place)
}
