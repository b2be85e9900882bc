//! `cargo xtask package --compare`: a second build of the same commit, of everything and in another folder, which must
//! give the same bytes.

use super::{empty, package};
use crate::dist::Dist;
use crate::run::{cargo, output_of, run, say, step, target_dir, workspace_root};
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Builds the packages here, and once more in a clone of the commit, whose path has another length.
///
/// # Errors
/// Names the files that differ; those of either build; or a tree that is not its commit.
pub(crate) fn compare(wanted: &Dist) -> Result<()> {
    let changes =
        output_of(Command::new("git").current_dir(workspace_root()).args(["status", "--porcelain"]));
    let changes =
        changes.context("the second build is of a clone: this is not a git repository, or git is missing")?;
    ensure!(
        changes.is_empty(),
        "the second build is of the commit, and this tree has changes: commit them first"
    );
    package(wanted)?;
    let clone = empty(target_dir().join("second-build"))?.join("rocescope");
    step("cloning the commit", || {
        run(Command::new("git").args(["clone", "--quiet"]).arg(workspace_root()).arg(&clone))
    })?;
    step("the second build (as long as the first from nothing)", || {
        let mut second = cargo();
        second.current_dir(&clone).env_remove("CARGO_TARGET_DIR").args(["xtask", "package"]);
        run(second.args(wanted.arguments()))
    })?;
    let sums = |target: &Path| {
        let path = target.join("package/SHA256SUMS");
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (first, second) = (sums(&target_dir())?, sums(&clone.join("target"))?);
    let differing = differing(&first, &second);
    if !differing.is_empty() {
        bail!(
            "two builds of one commit differ in {}; those of the second are in {}",
            differing.join(", "),
            clone.join("target/package").display()
        );
    }
    say(&format!("two builds gave the same bytes: {} files", first.lines().count()));
    Ok(())
}

/// Names that only one of two lists of checksums has, or that have another sum in each.
fn differing(first: &str, second: &str) -> Vec<String> {
    let read = |text: &str| -> BTreeMap<String, String> {
        let lines = text.lines().filter_map(|line| line.split_once("  "));
        lines.map(|(sum, name)| (name.to_owned(), sum.to_owned())).collect()
    };
    let (first, second) = (read(first), read(second));
    let names = first.keys().chain(second.keys().filter(|name| !first.contains_key(*name)));
    names.filter(|name| first.get(*name) != second.get(*name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_differ_or_are_missing_are_named() {
        let first = "aa  one.deb\nbb  two.rpm\ncc  three.tar\n";
        assert!(differing(first, first).is_empty());
        assert_eq!(
            differing(first, "aa  one.deb\nbc  two.rpm\ndd  four.tar\n"),
            ["three.tar", "two.rpm", "four.tar"]
        );
    }
}
