//! A program that every user of the machine may start.
//!
//! Some tests start the program as nobody, or in a user namespace whose root may not pass the folders of others. On
//! Ubuntu a home directory is closed to them, and with it a repository there.

use anyhow::{Context as _, Result};
use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The program itself, or a copy of it that is removed with this.
pub(super) struct Reachable {
    pub(super) path: PathBuf,
    folder: Option<PathBuf>,
}

impl Reachable {
    /// # Errors
    /// The program cannot be copied to the folder of temporary files.
    pub(super) fn of(program: &Path) -> Result<Self> {
        if is_open(program) {
            return Ok(Self { path: program.to_owned(), folder: None });
        }
        let folder = env::temp_dir().join(format!("rocescope-program-{}", std::process::id()));
        let cannot = || format!("cannot copy {} to {}", program.display(), folder.display());
        fs::create_dir(&folder).with_context(cannot)?;
        let path = folder.join(program.file_name().unwrap_or_default());
        let copied = Self { path, folder: Some(folder.clone()) };
        fs::copy(program, &copied.path).with_context(cannot)?;
        for path in [&folder, &copied.path] {
            fs::set_permissions(path, Permissions::from_mode(0o755)).with_context(cannot)?;
        }
        Ok(copied)
    }
}

impl Drop for Reachable {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            // A folder that stays is the system's to remove.
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// True if others may pass all folders above a file.
fn is_open(file: &Path) -> bool {
    let may_pass =
        |folder: &Path| fs::metadata(folder).is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0);
    file.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()).all(may_pass)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_behind_a_closed_folder_is_copied_and_the_copy_removed() {
        let home = env::temp_dir().join(format!("rocescope-home-{}", std::process::id()));
        fs::create_dir_all(home.join("target")).unwrap();
        let program = home.join("target/program");
        fs::write(&program, "text").unwrap();
        let at = |mode: u32| {
            fs::set_permissions(&home, Permissions::from_mode(mode)).unwrap();
            Reachable::of(&program).unwrap()
        };
        assert_eq!(at(0o755).path, program);
        let copy = at(0o750);
        assert!(copy.path != program && is_open(&copy.path), "{:?}", copy.path);
        assert_eq!(fs::read(&copy.path).unwrap(), b"text");
        let path = copy.path.clone();
        drop(copy);
        fs::remove_dir_all(&home).unwrap();
        assert!(!path.exists());
    }
}
