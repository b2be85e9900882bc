//! Queries to a NIC's firmware through fwctl (kernel 6.15 and newer): a second way to the context of a queue pair,
//! and the only one for queue pairs that no list of the kernel contains.
//!
//! Sources: include/uapi/fwctl/fwctl.h; drivers/fwctl/mlx5/main.c, which lets QUERY_QP pass in the scope of reading
//! debug information; `mlx5_ifc_query_qp_in_bits` and `mlx5_ifc_query_qp_out_bits` of include/linux/mlx5/mlx5_ifc.h.
//! drivers/fwctl/bnxt/main.c: of the commands to bnxt's firmware (HWRM) it lets pass those of a list, none of which
//! reads a queue pair (`bnxtctl_validate_rpc`); READ_CONTEXT is a command of bnxt_re's own queue and no HWRM command.
//! Not run on hardware.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

use rocescope_common::abi::qp::command;

use crate::host::error::{HostError, Result};
use crate::host::read::HostRoot;

/// `FWCTL_INFO` and `FWCTL_RPC`: `_IO(0x9A, 0)` and `_IO(0x9A, 1)`.
const INFO: libc::Ioctl = 0x9a << 8;
const RPC: libc::Ioctl = INFO | 1;
/// `FWCTL_RPC_DEBUG_READ_ONLY`.
const READ_ONLY: u32 = 1;
/// `FWCTL_DEVICE_TYPE_MLX5`.
const MLX5: u32 = 1;
/// `FWCTL_DEVICE_TYPE_BNXT`.
const BNXT: u32 = 3;
/// Length of the command, and of its output up to the end of the context, in bytes.
const COMMAND: usize = 16;
const ANSWER: usize = command::EXTENSION as usize;
const COMMAND_LEN: u32 = 16;
/// Sizes of the two structures.
const INFO_SIZE: u32 = 24;
const RPC_SIZE: u32 = 32;
const _: () = assert!(size_of::<Info>() == 24 && size_of::<Rpc>() == 32 && COMMAND == 16);

/// Firmware that can be queried; simulated in tests.
pub trait Firmware: Debug + Send {
    /// True if the firmware of this RDMA device can be queried.
    fn reaches(&self, device: &str) -> bool;
    /// The response to QUERY_QP.
    ///
    /// # Errors
    /// If kernel or firmware refuse.
    fn query_qp(&self, device: &str, lqpn: u32) -> Result<Vec<u8>>;
}

/// The firmware of this host's mlx5 devices.
#[derive(Debug, Default)]
pub struct Fwctl {
    devices: Vec<(String, File)>,
}

/// `struct fwctl_info`.
#[repr(C)]
struct Info {
    size: u32,
    flags: u32,
    device_type: u32,
    data_len: u32,
    data: u64,
}

/// `struct fwctl_rpc`.
#[repr(C)]
struct Rpc {
    size: u32,
    scope: u32,
    in_len: u32,
    out_len: u32,
    input: u64,
    output: u64,
}

impl Fwctl {
    /// Opens all usable devices; returns the reasons for those that cannot be used.
    pub fn open(root: &HostRoot) -> (Self, Vec<String>) {
        const DEVICES: &str = "/sys/class/infiniband";
        const CLASS: &str = "/sys/class/fwctl";
        let parent = |class: &str, name: &str| root.link_name(&format!("{class}/{name}/device")).ok();
        let rdma: Vec<(String, String)> = root
            .names(DEVICES)
            .into_iter()
            .filter_map(|name| Some((parent(DEVICES, &name)?, name)))
            .collect();
        let found = root.names(CLASS);
        let mut notes = Vec::new();
        if found.is_empty() {
            notes.push(
                "--fwctl: the kernel has no fwctl device; it needs kernel 6.15 or newer and the module mlx5_fwctl".to_owned(),
            );
        }
        let mut devices = Vec::new();
        for node in found {
            let Some(pci) = parent(CLASS, &node) else { continue };
            let of = rdma.iter().filter(|(parent, _)| *parent == pci).map(|(_, name)| name);
            for name in of {
                let path = root.path(&format!("/dev/fwctl/{node}"));
                match File::open(&path).and_then(|file| Ok((device_type(&file)?, file))) {
                    Ok((MLX5, file)) => devices.push((name.clone(), file)),
                    Ok((other, _)) => notes.push(unusable(&node, name, other)),
                    Err(error) => {
                        notes.push(format!("--fwctl: cannot open {} for {name}: {error}", path.display()));
                    }
                }
            }
        }
        (Self { devices }, notes)
    }
}

impl Firmware for Fwctl {
    fn reaches(&self, device: &str) -> bool {
        self.devices.iter().any(|(name, _)| name == device)
    }

    fn query_qp(&self, device: &str, lqpn: u32) -> Result<Vec<u8>> {
        let action = || format!("query the firmware of {device} for queue pair {lqpn}");
        let missing = || io::Error::from_raw_os_error(libc::ENODEV);
        let found = self.devices.iter().find(|(name, _)| name == device);
        let (_, file) = found.ok_or_else(|| HostError::system(action(), missing()))?;
        let mut input = query(lqpn);
        let mut output = vec![0; ANSWER];
        let mut rpc = Rpc {
            size: RPC_SIZE,
            scope: READ_ONLY,
            in_len: COMMAND_LEN,
            out_len: command::EXTENSION,
            input: input.as_mut_ptr() as u64,
            output: output.as_mut_ptr() as u64,
        };
        // SAFETY: the structure and the buffers that it points to are valid for the call, and have the lengths that
        // it states.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), RPC, &raw mut rpc) };
        if result < 0 {
            return Err(HostError::last_os(action()));
        }
        output.truncate(rpc.out_len as usize);
        answer(&output).map_err(|error| HostError::system(action(), error))?;
        Ok(output)
    }
}

/// Reason why the firmware behind a node of this type is not queried.
fn unusable(node: &str, device: &str, kind: u32) -> String {
    match kind {
        BNXT => format!("--fwctl: {node} of {device}: {BNXT_REFUSES}"),
        _ => {
            format!("--fwctl: {node} of {device} is of type {kind}, whose contexts have no public definition")
        }
    }
}

/// Reason why bnxt's firmware is no second way to contexts.
pub const BNXT_REFUSES: &str =
    "the kernel's bnxt_fwctl lets no command pass that reads the context of a queue pair";

/// The kind of firmware behind a node.
fn device_type(file: &File) -> io::Result<u32> {
    let mut info = Info { size: INFO_SIZE, flags: 0, device_type: 0, data_len: 0, data: 0 };
    // SAFETY: the structure is valid for the call; with a length of 0 nothing is written to `data`.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), INFO, &raw mut info) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(info.device_type) }
}

/// QUERY_QP, big-endian: opcode, and the number of the queue pair in 24 bits.
fn query(lqpn: u32) -> [u8; COMMAND] {
    let mut input = [0; COMMAND];
    let number = lqpn.to_be_bytes();
    for (to, from) in input.iter_mut().zip(command::QUERY.to_be_bytes()) {
        *to = from;
    }
    for (to, from) in input.iter_mut().skip(9).zip(number.into_iter().skip(1)) {
        *to = from;
    }
    input
}

/// Ok if the command succeeded: its status is in the first byte, its syndrome in the second word.
fn answer(output: &[u8]) -> io::Result<()> {
    /// `MLX5_CMD_STAT_BAD_RES_ERR`: there is no such queue pair.
    const NO_RESOURCE: u8 = 5;
    /// `MLX5_CMD_STAT_RES_BUSY` and `MLX5_CMD_STAT_NO_RES_ERR`: it may answer later.
    const BUSY: [u8; 2] = [6, 0xf];
    let word =
        |at: usize| output.get(at..).and_then(<[u8]>::first_chunk).map(|word| u32::from_be_bytes(*word));
    match output.first() {
        Some(0) => Ok(()),
        Some(&NO_RESOURCE) => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        Some(status) if BUSY.contains(status) => Err(io::Error::from_raw_os_error(libc::EBUSY)),
        Some(status) => Err(io::Error::other(format!(
            "the firmware refuses it (status {status:#x}, syndrome {:#x})",
            word(4).unwrap_or(0)
        ))),
        None => Err(io::Error::other("the answer is empty")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::read::testing::tree;

    #[test]
    fn the_command_is_that_of_the_definition() {
        assert_eq!(query(0x12_3456), [5, 0x0b, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0x56, 0, 0, 0, 0]);
        assert_eq!((INFO, RPC, ANSWER), (0x9a00, 0x9a01, 272));
    }

    #[test]
    fn refusals_of_the_firmware_are_errors() {
        assert!(answer(&[0; ANSWER]).is_ok());
        assert_eq!(answer(&[5]).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        let refused = answer(&[3, 0, 0, 0, 0, 0x5a, 0x82, 0xce]).unwrap_err().to_string();
        assert_eq!(refused, "the firmware refuses it (status 0x3, syndrome 0x5a82ce)");
        assert_eq!(answer(&[6]).unwrap_err().raw_os_error(), Some(libc::EBUSY));
        assert!(answer(&[]).is_err());
    }

    #[test]
    fn nodes_belong_to_rdma_devices_by_their_pci_device() {
        let files = [
            ("sys/class/infiniband/mlx5_0/device", "-> ../../../0000:17:00.0"),
            ("sys/class/fwctl/fwctl0/device", "-> ../../../0000:17:00.0"),
            // A node that does not respond as fwctl does.
            ("dev/fwctl/fwctl0", ""),
        ];
        let host = tree(&files);
        let (fwctl, notes) = Fwctl::open(&HostRoot::at(host.path()));
        assert!(!fwctl.reaches("mlx5_0"));
        assert!(
            notes[0].starts_with("--fwctl: cannot open ") && notes[0].contains("for mlx5_0"),
            "{notes:?}"
        );
        assert!(fwctl.query_qp("mlx5_0", 17).is_err());
        let host = tree(&files[..1]);
        let (_, notes) = Fwctl::open(&HostRoot::at(host.path()));
        assert!(notes[0].contains("6.15"), "{notes:?}");
    }

    #[test]
    fn other_firmware_is_not_queried_and_says_why() {
        let said = unusable("fwctl1", "bnxt_re0", BNXT);
        assert_eq!(said, format!("--fwctl: fwctl1 of bnxt_re0: {BNXT_REFUSES}"));
        assert!(unusable("fwctl2", "ionic_0", 4).contains("of type 4"));
    }
}
