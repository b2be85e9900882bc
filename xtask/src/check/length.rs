//! Limits the length of source files, and that of their comment lines.

use crate::run::workspace_root;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of lines of a source file; longer ones must be split.
const MOST_LINES: usize = 600;
/// Maximum number of characters of a comment line.
const WIDEST: usize = 120;

/// Checks every Rust file of the workspace.
///
/// # Errors
/// Names the files that are too long, or a folder that cannot be read.
pub(super) fn check() -> Result<()> {
    let mut long = Vec::new();
    for (file, text) in sources()? {
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

/// Checks the comment lines of every Rust file of the workspace.
///
/// # Errors
/// Names the lines that are too wide, or a folder that cannot be read.
pub(super) fn check_comments() -> Result<()> {
    let mut wide = Vec::new();
    for (file, text) in sources()? {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| is_too_wide(line));
        wide.extend(lines.map(|(number, _)| format!("{}:{number}", file.display())));
    }
    if wide.is_empty() {
        return Ok(());
    }
    bail!("comments of more than {WIDEST} characters, to be wrapped: {}", wide.join(", "))
}

/// The Rust files of the workspace, with their text.
fn sources() -> Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    collect(&workspace_root(), &mut files)?;
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Ok((file, text))
    };
    files.into_iter().map(read).collect()
}

/// True for a comment line beyond the limit that can be wrapped: neither a row of a table nor a single word.
fn is_too_wide(line: &str) -> bool {
    if line.chars().count() <= WIDEST {
        return false;
    }
    let Some(comment) = line.trim_start().strip_prefix("//") else { return false };
    let text = comment.trim_start_matches(['/', '!']).trim();
    let is_row = text.starts_with("| ");
    !is_row && text.contains(char::is_whitespace)
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

    #[test]
    fn comments_may_be_wider_only_where_they_cannot_be_wrapped() {
        let filled = |start: &str, character: char, width: usize| {
            let missing = width - start.chars().count();
            format!("{start}{}", character.to_string().repeat(missing))
        };
        for start in ["// two ", "    /// two ", "//! two "] {
            assert!(!is_too_wide(&filled(start, 'x', WIDEST)), "{start}");
            assert!(!is_too_wide(&filled(start, '\u{b5}', WIDEST)), "{start}: characters, not bytes");
            assert!(is_too_wide(&filled(start, 'x', WIDEST + 1)), "{start}");
        }
        for start in ["//! | row of a table ", "    /// https://one.word/", "let text = \"// a string "] {
            assert!(!is_too_wide(&filled(start, 'x', WIDEST + 1)), "{start}");
        }
    }
}
