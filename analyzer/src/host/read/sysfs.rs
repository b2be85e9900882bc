//! A sysfs of the calling thread's network namespace, and the few attributes that only sysfs provides.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::guarded;
use crate::host::error::{HostError, Result};
use crate::host::net::netns::NetNs;

/// The root of a sysfs: `/sys`, a recorded tree, or a private mount.
///
/// A private mount keeps its network namespace alive: drop it after reading.
#[derive(Debug)]
pub struct SysRoot {
    path: PathBuf,
    _mount: Option<OwnedFd>,
}

impl SysRoot {
    /// A tree at `path` with the content of `/sys`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), _mount: None }
    }

    /// The sysfs of the calling thread's network namespace.
    ///
    /// `/sys` shows the namespace of the thread that mounted it, which is another one after `--netns` or `nsenter
    /// --net`. Therefore a detached sysfs is mounted, which is unmounted when this value is dropped. A container that
    /// may not mount has its own `/sys`, which is used instead.
    ///
    /// # Errors
    /// If the kernel refuses the mount (it needs CAP_SYS_ADMIN) and this thread has left the
    /// namespace of its process, so that `/sys` would be the wrong one.
    pub fn of_this_thread() -> Result<Self> {
        match detached_sysfs() {
            Ok(mount) => {
                let path = format!("/proc/self/fd/{}", mount.as_raw_fd());
                Ok(Self { path: path.into(), _mount: Some(mount) })
            }
            Err(_) if NetNs::current()?.is_same(&NetNs::of_process()?) => Ok(Self::at("/sys")),
            Err(error) => Err(error),
        }
    }

    /// True if `/sys` does not belong to the calling thread's network namespace, so that one is mounted for each
    /// reading.
    pub fn needs_mount() -> bool {
        // Mounts of one namespace's sysfs share a device number.
        let number =
            |folder: &str| fs::metadata(folder).map(|found| std::os::unix::fs::MetadataExt::dev(&found)).ok();
        let Ok(mount) = detached_sysfs() else { return false };
        number(&format!("/proc/self/fd/{}", mount.as_raw_fd())) != number("/sys")
    }

    /// A path below this root.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.path.join(path)
    }

    /// The trimmed text of a file; `None` if absent, unreadable or empty.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = String::from_utf8(guarded::regular(&self.join(path)).ok()?).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The entries of a folder, sorted; empty if it is absent.
    pub fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.join(path)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The last component of what a symbolic link points to.
    pub fn link_name(&self, path: impl AsRef<Path>) -> Option<String> {
        let target = fs::read_link(self.join(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }
}

/// Mounts a detached sysfs of the thread's network namespace.
fn detached_sysfs() -> Result<OwnedFd> {
    let mount = || {
        let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
    };
    mount().map_err(|error| HostError::system("mount sysfs for this network namespace", error.into()))
}

/// Attributes of an interface that only sysfs provides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hardware {
    /// The kernel driver ("mlx5_core"); `None` for interfaces without a device.
    pub driver: Option<String>,
    /// Link speed in Mbit/s; `None` if unknown or down.
    pub speed_mbps: Option<u32>,
    /// Receive queues in use; `None` if the folder cannot be read.
    pub rx_queues: Option<u32>,
}

impl Hardware {
    /// Reads the attributes of one interface.
    pub fn read(root: &SysRoot, name: &str) -> Self {
        let at = Path::new("class/net").join(name);
        let queues = root.names(at.join("queues")).iter().filter(|q| q.starts_with("rx-")).count();
        Self {
            driver: root.link_name(at.join("device/driver")),
            speed_mbps: root
                .text(at.join("speed"))
                .filter(|text| !rejects_speed(text))
                .and_then(|text| text.parse::<u32>().ok()),
            rx_queues: u32::try_from(queues).ok().filter(|n| *n > 0),
        }
    }
}

/// True if the content of a file `speed` means unknown: a port without a link, or a virtual one, reports -1, with
/// some drivers as 2^32-1, and a few report 0.
pub fn rejects_speed(text: &str) -> bool {
    matches!(text, "-1" | "4294967295" | "0")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{root_or_skip, tree};
    use super::*;
    use crate::host::net::interface;

    #[test]
    fn a_recorded_nic_is_read() {
        let root = tree(&[
            ("class/net/eth0/device/driver", "-> ../../../../bus/pci/drivers/mlx5_core"),
            ("class/net/eth0/speed", "200000\n"),
            ("class/net/eth0/queues/rx-0/rps_cpus", "0\n"),
            ("class/net/eth0/queues/rx-1/rps_cpus", "0\n"),
            ("class/net/eth0/queues/tx-0/xps_cpus", "0\n"),
        ]);
        let hardware = Hardware::read(&SysRoot::at(root.path()), "eth0");
        assert_eq!(hardware.driver.as_deref(), Some("mlx5_core"));
        assert_eq!(hardware.speed_mbps, Some(200_000));
        assert_eq!(hardware.rx_queues, Some(2));
    }

    #[test]
    fn an_unknown_speed_is_not_a_number() {
        for speed in ["-1\n", "4294967295\n", "0\n", "", "fast"] {
            let root = tree(&[("class/net/eth0/speed", speed)]);
            assert_eq!(Hardware::read(&SysRoot::at(root.path()), "eth0"), Hardware::default());
        }
    }

    #[test]
    fn another_namespace_shows_its_own_interfaces() {
        if !root_or_skip("another_namespace_shows_its_own_interfaces") {
            return;
        }
        let here = SysRoot::of_this_thread().unwrap().names("class/net");
        let mut expected: Vec<_> = interface::list().unwrap().into_iter().map(|i| i.name).collect();
        expected.sort();
        assert_eq!(here, expected);
        let seen = NetNs::anonymous()
            .unwrap()
            .run(|| SysRoot::of_this_thread().map(|root| root.names("class/net")))
            .unwrap()
            .unwrap();
        assert_eq!(seen, ["lo"]);
    }
}
