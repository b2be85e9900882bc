//! Runs the program of a container image: its layers unpacked, without a container engine.

use super::empty;
use crate::run::{is_ci, output_of, root_command, root_prefix, run, say};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Unpacks an OCI archive below `work` as a container engine does, and runs its entry point with `argument` in that
/// root; returns its output. `None` without root, which chroot needs.
pub(crate) fn run_in(archive: &Path, work: &Path, argument: &str) -> Result<Option<String>> {
    let (root, entry) = unpacked(archive, work)?;
    if root_prefix().is_none() {
        ensure!(!is_ci(), "the image must be run where CI=true, which needs root: chroot");
        say("SKIP running the image: chroot needs root, and sudo is not installed");
        return Ok(None);
    }
    let mut command = root_command("chroot", "running the image in its own root")?;
    let output = output_of(command.arg(&root).arg(&entry).arg(argument));
    output.with_context(|| format!("{entry} of the image does not run in its own root")).map(Some)
}

/// The root of an OCI archive, unpacked below `work` as a container engine does, and its entry point.
pub(super) fn unpacked(archive: &Path, work: &Path) -> Result<(PathBuf, String)> {
    let layout = empty(work.join("layout"))?;
    run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&layout))?;
    let index = json(&layout.join("index.json"))?;
    let manifest = json(&blob(&layout, &index["manifests"][0])?)?;
    let config = json(&blob(&layout, &manifest["config"])?)?;
    let root = empty(work.join("root"))?;
    for layer in manifest["layers"].as_array().context("the manifest names no layers")? {
        run(Command::new("tar").arg("-xf").arg(blob(&layout, layer)?).arg("-C").arg(&root))?;
    }
    let entry = config["config"]["Entrypoint"][0].as_str().context("the image has no entry point")?;
    Ok((root, entry.to_owned()))
}

fn json(path: &Path) -> Result<Value> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", path.display()))
}

/// The file of a descriptor, which must have the size that it says.
fn blob(layout: &Path, descriptor: &Value) -> Result<PathBuf> {
    let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
    let path = layout.join("blobs/sha256").join(digest.context("a descriptor without a digest")?);
    let size = fs::metadata(&path).with_context(|| format!("cannot read {}", path.display()))?.len();
    ensure!(
        descriptor["size"].as_u64() == Some(size),
        "{} has not the size of its descriptor",
        path.display()
    );
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::Target;
    use crate::package::{Release, oci};
    use crate::run::is_root;

    /// Static programs of Ubuntu, where ldconfig is a script, and of Debian.
    const STATIC: [&str; 2] = ["/sbin/ldconfig.real", "/sbin/ldconfig"];

    fn image_of(program: &Path, folder: &Path) -> Result<Option<String>> {
        fs::create_dir_all(folder).unwrap();
        let release = Release { version: "1.2.3".to_owned(), epoch: 1_700_000_000 };
        let archive = oci::image(&release, Target::X86, program, "", &folder.join("pack"), folder).unwrap();
        run_in(&archive, &folder.join("run"), "--version")
    }

    #[test]
    fn an_image_runs_with_what_is_in_it_alone() {
        let program = STATIC.map(Path::new).into_iter().find(|path| path.exists());
        let Some(program) = program.filter(|_| is_root()) else {
            assert!(!is_ci() || !is_root(), "ldconfig is missing");
            eprintln!("SKIP: running an image needs root, for chroot, and ldconfig");
            return;
        };
        let folder = std::env::temp_dir().join(format!("rocescope-image-{}", std::process::id()));
        let static_one = image_of(program, &folder.join("a"));
        // Its interpreter is not in the image.
        let script = folder.join("script");
        fs::write(&script, "#!/bin/sh\necho 1\n").unwrap();
        let needs_more = image_of(&script, &folder.join("b"));
        fs::remove_dir_all(&folder).unwrap();
        assert!(static_one.unwrap().unwrap().contains("ldconfig"));
        assert!(needs_more.unwrap_err().to_string().contains("does not run"));
    }
}
