//! Helpers for tests of this module.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::host::net::interface::{self, Interface, InterfaceKind, OperState};
use crate::host::net::netns::NetNs;
use crate::host::net::packet;
use crate::host::net::veth::{self, VethEnd};

#[path = "../../../tests/support/needs.rs"]
#[expect(dead_code, unreachable_pub, reason = "the integration tests need the others")]
mod needs;

pub(crate) use needs::root_or_skip;

/// A recorded tree in a temporary folder: `(path, content)`, where content of the form `-> target` creates a symbolic
/// link.
pub(crate) fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        match content.strip_prefix("-> ") {
            Some(target) => symlink(target, path).unwrap(),
            None => fs::write(path, content).unwrap(),
        }
    }
    root
}

/// All files and links in and below these folders of `base`, by name.
pub(crate) fn files_below(base: &Path, folders: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| base.join(folder)).collect();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_folder = entry.file_type().unwrap().is_dir();
            if is_folder { open.push(entry.path()) } else { files.push(entry.path()) }
        }
    }
    files.sort();
    files
}

/// Creates a named pipe at `path`.
pub(crate) fn fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

/// Two namespaces connected by a link.
pub(crate) struct VethPair {
    pub(crate) left: NetNs,
    pub(crate) right: NetNs,
    pub(crate) left_index: u32,
    pub(crate) right_index: u32,
}

/// A pair of the given MTU with two queues.
pub(crate) fn veth_pair(mtu: u32) -> VethPair {
    let (left, right) = (NetNs::anonymous().unwrap(), NetNs::anonymous().unwrap());
    let a = VethEnd { netns: &left, name: "left0", mac: Some([2, 0, 0, 0, 0, 1]) };
    let b = VethEnd { netns: &right, name: "right0", mac: None };
    let (left_index, right_index) = veth::create_pair(a, b, mtu, 2).unwrap();
    VethPair { left, right, left_index, right_index }
}

impl VethPair {
    pub(crate) fn left_interface(&self) -> Interface {
        self.left.run(|| interface::get(self.left_index)).unwrap().unwrap()
    }

    pub(crate) fn right_interface(&self) -> Interface {
        self.right.run(|| interface::get(self.right_index)).unwrap().unwrap()
    }
}

/// A bare interface for tests of decisions.
pub(crate) fn interface(name: &str, index: u32, kind: InterfaceKind) -> Interface {
    Interface {
        name: name.to_owned(),
        index,
        kind,
        framing: interface::Framing::Ethernet,
        driver: None,
        mtu: 1500,
        admin_up: true,
        oper_state: OperState::Up,
        speed_mbps: None,
        rx_queues: None,
        mac: None,
        master: None,
        lower: Vec::new(),
        peer: None,
        device: None,
        xdp: None,
    }
}

/// Sends a whole frame out of an interface of the calling thread's namespace.
pub(crate) fn send(index: u32, frame: &[u8]) {
    let socket = packet::socket("send a frame").unwrap();
    let address = packet::address(i32::try_from(index).unwrap(), 0);
    let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).unwrap();
    // SAFETY: buffer and address are valid for the call and as long as said.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            0,
            (&raw const address).cast(),
            length,
        )
    };
    assert_eq!(usize::try_from(sent), Ok(frame.len()));
}
