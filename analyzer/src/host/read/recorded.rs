//! Recorded hosts for tests: a text file that unpacks into file trees and responses of the kernel.
//!
//! ```text
//! [sys/class/net/eth0]          folder of what follows
//! speed = 200000                a file and its text
//! device -> ../../x             a symbolic link
//! config hex 86 80*3 ..         a file of bytes; *N repeats
//! [answers/dcb]                 what the kernel answers: see `RecordedKernel`
//! eth0 <<                       a file of several lines, up to >>
//! 13 {                          netlink attributes: number, kind, value; or { .. }
//!   2 hex 08 08 00*134
//! }
//! >>
//! ```

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::queries::{Host, Queries};
use super::{HostRoot, testing};
use crate::host::error::{HostError, Result};
use crate::host::net::ethtool::{Pause, Rings};
use crate::host::net::interface::{Interface, InterfaceKind};
use crate::host::netlink::Request;
use crate::host::rdma::nldev::Query;

/// A recorded host, unpacked into a temporary folder.
pub(crate) struct Recorded {
    folder: tempfile::TempDir,
}

impl Recorded {
    /// Unpacks `text`; later entries replace earlier ones with the same path, and an entry with the value `(none)`
    /// removes the path.
    pub(crate) fn unpack(text: &str) -> Self {
        // In memory: on a disk, to write and to remove the files takes longer than what is tested.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let host = Self { folder };
        host.apply(text);
        host
    }

    /// Changes entries, to simulate the passing of time.
    pub(crate) fn apply(&self, text: &str) {
        let host = self;
        let mut prefix = PathBuf::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(folder) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                prefix = folder.into();
            } else if let Some(name) = line.strip_suffix(" <<") {
                let mut content = String::new();
                for line in lines.by_ref().take_while(|line| line.trim() != ">>") {
                    let _ = writeln!(content, "{line}");
                }
                host.write(&prefix.join(name), content.as_bytes());
            } else if let Some((name, target)) = line.split_once(" -> ") {
                let path = host.make(&prefix.join(name));
                std::os::unix::fs::symlink(target, path).unwrap();
            } else if let Some((name, value)) = line.split_once(" = ") {
                if value == "(none)" {
                    let _ = host.make(&prefix.join(name));
                } else {
                    host.write(&prefix.join(name), format!("{value}\n").as_bytes());
                }
            } else if let Some((name, value)) = line.split_once(" hex ") {
                host.write(&prefix.join(name), &hex(value));
            } else {
                panic!("no entry: {line}");
            }
        }
    }

    pub(crate) fn root(&self) -> HostRoot {
        HostRoot::at(self.folder.path())
    }

    pub(crate) fn kernel(&self) -> RecordedKernel {
        RecordedKernel { answers: self.folder.path().join("answers") }
    }

    /// Prepares `path`: creates its folders and removes what is there.
    fn make(&self, path: &Path) -> PathBuf {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Nearly always nothing is there.
        if fs::remove_file(&path).is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
            let _ = fs::remove_dir_all(&path);
        }
        path
    }

    fn write(&self, path: &Path, content: &[u8]) {
        fs::write(self.make(path), content).unwrap();
    }
}

fn hex(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in text.split_whitespace() {
        let (byte, times) = word.split_once('*').unwrap_or((word, "1"));
        let byte = u8::from_str_radix(byte, 16).unwrap();
        bytes.extend(std::iter::repeat_n(byte, times.parse().unwrap()));
    }
    bytes
}

/// Returns responses from files below `answers`.
#[derive(Clone, Debug)]
pub(crate) struct RecordedKernel {
    answers: PathBuf,
}

impl RecordedKernel {
    fn text(&self, name: &str) -> Result<String> {
        fs::read_to_string(self.answers.join(name)).map_err(|_| {
            HostError::system(format!("ask for {name}"), io::Error::from_raw_os_error(libc::EOPNOTSUPP))
        })
    }

    /// The payloads in a file of netlink attributes, separated by `---`.
    fn payloads(&self, name: &str, header: &[u8]) -> Result<Vec<Vec<u8>>> {
        let text = self.text(name)?;
        let one = |text: &str| {
            let mut lines =
                text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            attributes(Request::new(0, 0, header), &mut lines).payload()
        };
        Ok(text.split("---").map(one).collect())
    }
}

fn attributes(mut request: Request, lines: &mut dyn Iterator<Item = &str>) -> Request {
    while let Some(line) = lines.next() {
        if line == "}" {
            break;
        }
        let (number, rest) = line.split_once(' ').unwrap_or_else(|| panic!("no attribute: {line}"));
        let number: u16 = number.parse().unwrap();
        let (kind, value) = rest.split_once(' ').unwrap_or((rest, ""));
        request = match kind {
            "{" => request.nest(number, |inner| attributes(inner, &mut *lines)),
            "u8" => request.attr(number, &[value.parse().unwrap()]),
            "u32" => request.attr_u32(number, value.parse().unwrap()),
            "u64" => request.attr(number, &value.parse::<u64>().unwrap().to_ne_bytes()),
            "text" => request.attr_text(number, value),
            "hex" => request.attr(number, &hex(value)),
            other => panic!("no kind of attribute: {other}"),
        };
    }
    request
}

/// The words of a recorded line.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

impl Queries for RecordedKernel {
    /// `answers/interfaces`: name, index, kind, MTU, and `up` or `down` on each line; `master=INDEX` or `lower=INDEX`
    /// for members and stacked interfaces.
    fn interfaces(&self) -> Result<Vec<Interface>> {
        let one = |line: &str| {
            let all = words(line);
            let [name, index, kind, mtu, state, ref more @ ..] = all[..] else {
                panic!("no interface: {line}")
            };
            let kind = match kind {
                "physical" => InterfaceKind::Physical,
                "veth" => InterfaceKind::Veth,
                "loopback" => InterfaceKind::Loopback,
                "bond" => InterfaceKind::Bond,
                "vlan" => InterfaceKind::Vlan,
                "macvlan" => InterfaceKind::Macvlan,
                other => InterfaceKind::Other(other.into()),
            };
            let mut interface = testing::interface(name, index.parse().unwrap(), kind);
            interface.mtu = mtu.parse().unwrap();
            interface.admin_up = state == "up";
            for word in more {
                match word.split_once('=') {
                    Some(("master", index)) => interface.master = Some(index.parse().unwrap()),
                    Some(("lower", index)) => interface.lower = vec![index.parse().unwrap()],
                    _ => panic!("nothing of an interface: {word}"),
                }
            }
            interface
        };
        Ok(self.text("interfaces")?.lines().map(one).collect())
    }

    /// `answers/statistics/IFACE`: name and value on each line.
    fn statistics(&self, interface: &str) -> Result<Vec<(String, u64)>> {
        let text = self.text(&format!("statistics/{interface}"))?;
        Ok(text
            .lines()
            .map(|line| {
                let [name, value] = words(line)[..] else { panic!("no statistic: {line}") };
                (name.to_owned(), value.parse().unwrap())
            })
            .collect())
    }

    /// `answers/pause/IFACE`: `on` or `off` for autonegotiation, receive, send.
    fn pause(&self, interface: &str) -> Result<Pause> {
        let text = self.text(&format!("pause/{interface}"))?;
        let [autoneg, rx, tx] = words(&text)[..] else { panic!("no pause: {text}") };
        Ok(Pause { autonegotiated: autoneg == "on", rx: rx == "on", tx: tx == "on" })
    }

    /// `answers/rings/IFACE`: receive, its maximum, transmit, its maximum.
    fn rings(&self, interface: &str) -> Result<Rings> {
        let text = self.text(&format!("rings/{interface}"))?;
        let numbers: Vec<u32> = words(&text).into_iter().map(|word| word.parse().unwrap()).collect();
        let [rx, rx_max, tx, tx_max] = numbers[..] else { panic!("no rings: {text}") };
        Ok(Rings { rx, rx_max, tx, tx_max })
    }

    /// `answers/dcb/IFACE`: attributes.
    fn dcb(&self, interface: &str) -> Result<Vec<u8>> {
        Ok(self.payloads(&format!("dcb/{interface}"), &[0, 21, 0, 0])?.remove(0))
    }

    /// `answers/rdma/` with a file per query, named after it and its numbers: attributes.
    fn rdma(&self, query: Query) -> Result<Vec<Vec<u8>>> {
        let name = match query {
            Query::Devices => "devices".to_owned(),
            Query::QueuePairs(device) => format!("qp.{device}"),
            Query::PortCounters(device, port) => format!("counters.{device}.{port}"),
            Query::OptionalCounters(device, port) => format!("optional.{device}.{port}"),
            Query::BindingMode(device, port) => format!("binding.{device}.{port}"),
            Query::QpCounters(device) => format!("qp_counters.{device}"),
            Query::QpContext(device, port, lqpn) => format!("qp_context.{device}.{port}.{lqpn}"),
        };
        self.payloads(&format!("rdma/{name}"), &[])
    }

    /// `answers/parameter/PCI.NAME`: attributes.
    fn parameter(&self, pci: &str, name: &str) -> Result<Vec<u8>> {
        Ok(self.payloads(&format!("parameter/{pci}.{name}"), &[38, 1, 0, 0])?.remove(0))
    }

    /// `answers/stale_filters/INDEX`: the number; 0 without a file.
    fn stale_filters(&self, index: u32) -> Result<usize> {
        Ok(self.text(&format!("stale_filters/{index}")).map_or(0, |text| text.trim().parse().unwrap()))
    }
}

impl Host for RecordedKernel {
    fn root(&self) -> Result<HostRoot> {
        Ok(HostRoot::at(self.answers.with_file_name("")))
    }

    fn ask(&self) -> &dyn Queries {
        self
    }
}
