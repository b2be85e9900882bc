//! Writes an initramfs: a cpio archive in the "newc" format, as the kernel unpacks it
//! (Documentation/driver-api/early-userspace/buffer-format.rst).
//!
//! Implemented here because it then needs no root: device nodes are ordinary entries, and everything belongs to root.

use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const PLAIN: u32 = 0o100_644;
const LINK: u32 = 0o120_777;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// An archive being written.
pub(super) struct Archive<W> {
    out: W,
    inode: u32,
    folders: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, inode: 0, folders: BTreeSet::new() }
    }

    /// Adds a folder and its parents, once.
    pub(super) fn folder(&mut self, path: &str) -> Result<()> {
        let path = path.trim_matches('/');
        for (at, _) in path.match_indices('/').chain([(path.len(), "")]) {
            let folder = &path[..at];
            if !folder.is_empty() && self.folders.insert(folder.to_owned()) {
                self.entry(folder, DIRECTORY, (0, 0), &[])?;
            }
        }
        Ok(())
    }

    /// Adds an executable file.
    pub(super) fn program(&mut self, path: &str, content: &[u8]) -> Result<()> {
        self.below(path, PROGRAM, (0, 0), content)
    }

    /// Adds a file that everyone can read.
    pub(super) fn plain(&mut self, path: &str, content: &[u8]) -> Result<()> {
        self.below(path, PLAIN, (0, 0), content)
    }

    /// Adds a symbolic link.
    pub(super) fn link(&mut self, path: &str, target: &str) -> Result<()> {
        self.below(path, LINK, (0, 0), target.as_bytes())
    }

    /// Adds a character device.
    pub(super) fn device(&mut self, path: &str, major: u32, minor: u32) -> Result<()> {
        self.below(path, CHARACTER_DEVICE, (major, minor), &[])
    }

    /// Adds a copy of a local file: executables and symbolic links stay such.
    pub(super) fn copy(&mut self, path: &str, from: &Path) -> Result<()> {
        let unreadable = || format!("cannot read {}", from.display());
        let found = fs::symlink_metadata(from).with_context(unreadable)?;
        if found.is_symlink() {
            let target = fs::read_link(from).with_context(unreadable)?;
            return self.link(path, &target.to_string_lossy());
        }
        let is_program = found.permissions().mode() & 0o111 != 0;
        let content = fs::read(from).with_context(unreadable)?;
        self.below(path, if is_program { PROGRAM } else { PLAIN }, (0, 0), &content)
    }

    /// Adds all files below a local folder.
    pub(super) fn copy_all(&mut self, path: &str, from: &Path) -> Result<()> {
        self.folder(path)?;
        let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
        for entry in entries {
            let entry = entry?;
            let inside = format!("{path}/{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                self.copy_all(&inside, &entry.path())?;
            } else {
                self.copy(&inside, &entry.path())?;
            }
        }
        Ok(())
    }

    /// Writes the end of the archive.
    pub(super) fn finish(mut self) -> Result<()> {
        self.entry("TRAILER!!!", 0, (0, 0), &[])?;
        self.out.flush().context("cannot write the archive")
    }

    fn below(&mut self, path: &str, mode: u32, device: (u32, u32), content: &[u8]) -> Result<()> {
        let path = path.trim_start_matches('/');
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.folder(folder)?;
        }
        self.entry(path, mode, device, content)
    }

    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), content: &[u8]) -> Result<()> {
        self.inode += 1;
        let size = u32::try_from(content.len()).with_context(|| format!("{path} is too large"))?;
        let name_size = u32::try_from(path.len() + 1).with_context(|| format!("{path} is too long"))?;
        // inode, mode, uid, gid, links, time, size, device that contains the file, device number, length of the name,
        // checksum
        let fields = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, device.0, device.1, name_size, 0]
            .map(|f| format!("{f:08X}"));
        let mut entry = format!("070701{}{path}\0", fields.concat()).into_bytes();
        entry.resize(entry.len().next_multiple_of(4), 0);
        entry.extend(content);
        entry.resize(entry.len().next_multiple_of(4), 0);
        self.out.write_all(&entry).context("cannot write the archive")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, mode, device's minor number and content of every entry.
    fn entries(mut rest: &[u8]) -> Vec<(String, u32, u32, Vec<u8>)> {
        let mut found = Vec::new();
        while !rest.is_empty() {
            let field = |n: usize| {
                let digits = std::str::from_utf8(&rest[6 + 8 * n..14 + 8 * n]).unwrap();
                u32::from_str_radix(digits, 16).unwrap()
            };
            assert_eq!(&rest[..6], b"070701");
            let name_end = 110 + field(11) as usize;
            let start = name_end.next_multiple_of(4);
            let end = start + field(6) as usize;
            let name = String::from_utf8(rest[110..name_end - 1].to_vec()).unwrap();
            found.push((name, field(1), field(10), rest[start..end].to_vec()));
            rest = &rest[end.next_multiple_of(4)..];
        }
        found
    }

    #[test]
    fn entries_read_back_and_folders_come_first() {
        let mut bytes = Vec::new();
        let mut archive = Archive::new(&mut bytes);
        archive.program("/bin/a/tool", b"hello").unwrap();
        archive.link("/bin/a/other", "tool").unwrap();
        archive.device("/dev/console", 5, 1).unwrap();
        archive.folder("/proc").unwrap();
        archive.finish().unwrap();
        let names = ["bin", "bin/a", "bin/a/tool", "bin/a/other", "dev", "dev/console", "proc", "TRAILER!!!"];
        let found = entries(&bytes);
        assert_eq!(found.iter().map(|entry| entry.0.as_str()).collect::<Vec<_>>(), names);
        assert_eq!(found[2], ("bin/a/tool".to_owned(), PROGRAM, 0, b"hello".to_vec()));
        assert_eq!((found[3].1, found[3].3.as_slice()), (LINK, b"tool".as_slice()));
        assert_eq!((found[5].1, found[5].2), (CHARACTER_DEVICE, 1));
    }

    #[test]
    fn files_of_this_machine_are_copied() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/vm");
        let mut bytes = Vec::new();
        let mut archive = Archive::new(&mut bytes);
        archive.copy_all("/copy", &here).unwrap();
        archive.finish().unwrap();
        let found = entries(&bytes);
        let this = found.iter().find(|entry| entry.0 == "copy/cpio.rs").unwrap();
        assert_eq!((this.1, this.3.as_slice()), (PLAIN, fs::read(here.join("cpio.rs")).unwrap().as_slice()));
    }

    #[test]
    fn links_and_programs_stay_what_they_are() {
        let folder = std::env::temp_dir().join(format!("rocescope-cpio-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("tool"), "x").unwrap();
        fs::set_permissions(folder.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("/nowhere/tool", folder.join("other")).unwrap();
        let mut bytes = Vec::new();
        let mut archive = Archive::new(&mut bytes);
        archive.copy_all("", &folder).unwrap();
        archive.finish().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let of = |name: &str| entries(&bytes).into_iter().find(|entry| entry.0 == name).unwrap();
        assert_eq!(
            (of("tool").1, of("other").1, of("other").3.as_slice()),
            (PROGRAM, LINK, &b"/nowhere/tool"[..])
        );
    }
}
