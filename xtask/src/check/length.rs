//! Limits the length of source files.

use crate::run::workspace_root;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of lines of a source file; longer ones must be split.
const MOST_LINES: usize = 600;

/// Checks every Rust file of the workspace.
///
/// # Errors
/// Names the files that are too long, or a folder that cannot be read.
pub(super) fn check() -> Result<()> {
    let mut files = Vec::new();
    collect(&workspace_root(), &mut files)?;
    let mut long = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let lines = text.lines().count();
        if lines > MOST_LINES {
            long.push(format!("{} has {lines} lines", file.display()));
        }
    }
    if long.is_empty() {
        return Ok(());
    }
    bail!("more than {MOST_LINES} lines, split by topic: {}", long.join(", "))
}

/// Adds the Rust files below a folder, without those in hidden folders and build output.
fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", dir.display()))?;
        let path = entry.path();
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        // Cargo marks its output folder with this file, whatever its name.
        let is_output = path.join("CACHEDIR.TAG").exists();
        if entry.file_type()?.is_dir() {
            if !hidden && !is_output {
                collect(&path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_this_file_and_no_build_output() {
        let mut files = Vec::new();
        collect(&workspace_root(), &mut files).unwrap();
        assert!(files.contains(&workspace_root().join("xtask/src/check/length.rs")));
        assert!(!files.iter().any(|file| file.starts_with(workspace_root().join("target"))));
    }
}
