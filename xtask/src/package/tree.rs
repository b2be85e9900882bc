//! The files of a package, with their locations on a host.

use super::{MAINTAINER, Release, dependencies};
use crate::run::{run, workspace_root};
use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// Contents of a tree.
pub(crate) struct Parts<'a> {
    /// The program of the package.
    pub(crate) program: &'a Path,
    /// The program for this machine, which writes manual pages and completions.
    pub(crate) native: &'a Path,
    /// Licences of everything in the program.
    pub(crate) licences: String,
    /// Its software bill of materials.
    pub(crate) sbom: String,
}

/// Kind of file layout.
#[derive(Clone, Copy)]
pub(crate) enum Layout {
    /// Debian's.
    Deb,
    /// Fedora's.
    Rpm,
    /// Without installation: everything in one folder.
    Tarball,
}

impl Parts<'_> {
    /// Writes all files below `root`.
    pub(crate) fn write(&self, root: &Path, layout: Layout, release: &Release) -> Result<()> {
        let (bin, doc) = match layout {
            Layout::Tarball => ("", "doc"),
            Layout::Deb | Layout::Rpm => ("usr/bin", "usr/share/doc/rocescope"),
        };
        let program = root.join(bin).join("rocescope");
        make(&program)?;
        fs::copy(self.program, &program).with_context(|| format!("cannot write {}", program.display()))?;
        set_mode(&program, 0o755)?;
        let source = workspace_root();
        for name in ["README.md", "SECURITY.md"] {
            copy(&source.join(name), &root.join(doc).join(name))?;
        }
        write(&root.join(doc).join("THIRD-PARTY-LICENSES.txt"), self.licences.as_bytes())?;
        write(&root.join(doc).join("rocescope.cdx.json"), self.sbom.as_bytes())?;
        let changes = fs::read(source.join("CHANGELOG.md")).context("cannot read CHANGELOG.md")?;
        match layout {
            Layout::Deb => {
                write(&root.join(doc).join("CHANGELOG.md.gz"), &packed(&changes)?)?;
                write(&root.join(doc).join("changelog.gz"), &packed(debian_changes(release).as_bytes())?)?;
                write(&root.join(doc).join("copyright"), copyright()?.as_bytes())?;
                copy(
                    &source.join("deploy/debian/lintian-overrides"),
                    &root.join("usr/share/lintian/overrides/rocescope"),
                )?;
            }
            Layout::Rpm | Layout::Tarball => {
                write(&root.join(doc).join("CHANGELOG.md"), &changes)?;
                for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
                    copy(&source.join(name), &root.join(doc).join(name))?;
                }
            }
        }
        self.manual(root, layout)?;
        self.completions(root, layout)?;
        self.configuration(root, layout)
    }

    fn manual(&self, root: &Path, layout: Layout) -> Result<()> {
        let folder = root.join(if matches!(layout, Layout::Tarball) { "man" } else { "usr/share/man/man1" });
        run(Command::new(self.native).arg("manual").arg(&folder))?;
        if matches!(layout, Layout::Tarball) {
            return Ok(());
        }
        for entry in fs::read_dir(&folder).context("cannot list the manual pages")?.flatten() {
            let page = fs::read(entry.path()).context("cannot read a manual page")?;
            let mut name = entry.path().into_os_string();
            name.push(".gz");
            write(Path::new(&name), &packed(&page)?)?;
            fs::remove_file(entry.path()).context("cannot remove a manual page")?;
        }
        Ok(())
    }

    fn completions(&self, root: &Path, layout: Layout) -> Result<()> {
        let zsh = match layout {
            Layout::Deb => "usr/share/zsh/vendor-completions/_rocescope",
            Layout::Rpm => "usr/share/zsh/site-functions/_rocescope",
            Layout::Tarball => "completions/_rocescope",
        };
        let (bash, fish) = match layout {
            Layout::Tarball => ("completions/rocescope.bash", "completions/rocescope.fish"),
            _ => (
                "usr/share/bash-completion/completions/rocescope",
                "usr/share/fish/vendor_completions.d/rocescope.fish",
            ),
        };
        for (shell, place) in [("bash", bash), ("zsh", zsh), ("fish", fish)] {
            write(&root.join(place), &self.printed(&["completions", shell])?)?;
        }
        Ok(())
    }

    fn configuration(&self, root: &Path, layout: Layout) -> Result<()> {
        let units = workspace_root().join("deploy/systemd");
        let (config, folder) = match layout {
            Layout::Tarball => ("agent.toml", "systemd"),
            _ => ("etc/rocescope/agent.toml", "usr/lib/systemd/system"),
        };
        write(&root.join(config), &self.printed(&["config", "--agent"])?)?;
        for name in ["rocescope-agent.service", "rocescope-agent.socket"] {
            copy(&units.join(name), &root.join(folder).join(name))?;
        }
        let more =
            if matches!(layout, Layout::Tarball) { "systemd" } else { "usr/share/doc/rocescope/examples" };
        copy(&units.join("more-rights.conf"), &root.join(more).join("more-rights.conf"))
    }

    /// Output of the program with these arguments.
    fn printed(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let output = Command::new(self.native).args(arguments).output();
        let output = output.with_context(|| format!("cannot run {}", self.native.display()))?;
        anyhow::ensure!(
            output.status.success(),
            "rocescope {} ended with {}",
            arguments.join(" "),
            output.status
        );
        Ok(output.stdout)
    }
}

/// Debian's file of licences.
fn copyright() -> Result<String> {
    let mit = fs::read_to_string(workspace_root().join("LICENSE-MIT")).context("cannot read LICENSE-MIT")?;
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: rocescope\n\
         Source: https://github.com/rocescope/rocescope\n\nFiles: *\nCopyright: the rocescope contributors\n\
         License: MIT or Apache-2.0\nComment: the licences of the libraries in the program are in\n \
         /usr/share/doc/rocescope/THIRD-PARTY-LICENSES.txt\n\nLicense: MIT\n{}\n\
         License: Apache-2.0\n On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n",
        mit.lines()
            .map(|line| if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") })
            .collect::<String>()
    ))
}

/// gzip without name and timestamp.
fn packed(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut out = GzBuilder::new().write(Vec::new(), Compression::best());
    out.write_all(bytes).and_then(|()| out.finish()).context("cannot compress")
}

/// Debian's changelog, which refers to rocescope's.
fn debian_changes(release: &Release) -> String {
    format!(
        "rocescope ({}) unstable; urgency=medium\n\n  * CHANGELOG.md.gz beside this file has the changes.\n\n -- {MAINTAINER}  {}\n",
        release.version,
        dependencies::mail_time(release.epoch)
    )
}

fn make(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    write(to, &fs::read(from).with_context(|| format!("cannot read {}", from.display()))?)
}

/// Writes a file that everyone can read, and creates its folders.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    make(path)?;
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    set_mode(path, 0o644)
}

/// Sets the permissions of a file.
pub(crate) fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the permissions of {}", path.display()))
}
