//! Programs attached to an interface, including foreign ones, read and loaded through bpf(2).

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rocescope::host::net::filters;
use rocescope::host::net::interface::{self, AttachedXdp};

use super::wire::{Link, World};

// linux/bpf.h
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_QUERY: libc::c_long = 16;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_TCX_INGRESS: u32 = 46;
const BPF_TCX_EGRESS: u32 = 47;

/// Programs attached to the near end of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// XDP program.
    pub xdp: Option<AttachedXdp>,
    /// Programs at TC ingress.
    pub tc_ingress: u32,
    /// Programs at TC egress.
    pub tc_egress: u32,
    /// Number of users of promiscuous mode.
    pub promiscuity: u32,
}

/// Timeout for the kernel to detach the programs of a killed process.
const LETTING_GO: Duration = Duration::from_secs(10);

impl Hooks {
    /// Waits until nothing is attached.
    ///
    /// # Errors
    /// Names remaining attachments, or the failure to read them.
    pub fn until_gone(world: &World, link: &mut Link) -> Result<()> {
        let late = Instant::now() + LETTING_GO;
        loop {
            let hooks = Self::of(world, link)?;
            if hooks == Self::default() {
                return Ok(());
            }
            anyhow::ensure!(Instant::now() < late, "still attached: {hooks:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Reads them.
    pub fn of(world: &World, link: &mut Link) -> Result<Self> {
        let promiscuity = link.near_counted()?.promiscuity;
        let index = link.index;
        world.near.run(|| -> Result<Self> {
            Ok(Self {
                xdp: interface::get(index)?.xdp,
                tc_ingress: tcx_programs(index, BPF_TCX_INGRESS)?,
                tc_egress: tcx_programs(index, BPF_TCX_EGRESS)?,
                promiscuity,
            })
        })?
    }
}

fn bpf<T>(command: libc::c_long, attr: &mut T) -> io::Result<i32> {
    // SAFETY: `attr` is a prefix of `union bpf_attr` for this command, and its pointers are valid during the call,
    // see the callers below.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(i32::try_from(done).unwrap_or_default()) }
}

/// Number of TC programs on an interface of the calling thread's namespace.
fn tcx_programs(index: u32, place: u32) -> Result<u32> {
    #[repr(C)]
    #[derive(Default)]
    struct Query {
        target_ifindex: u32,
        attach_type: u32,
        options: u32,
        attach_flags: u32,
        prog_ids: u64,
        count: u32,
        pad: u32,
        prog_attach_flags: u64,
        link_ids: u64,
        link_attach_flags: u64,
        revision: u64,
    }
    let mut query = Query { target_ifindex: index, attach_type: place, ..Query::default() };
    match bpf(BPF_PROG_QUERY, &mut query) {
        Ok(_) => Ok(query.count),
        // Nothing was ever attached there.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(0),
        // A kernel before 6.6 has filters in place of TCX.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            let all = filters::list(index)?.into_iter();
            Ok(u32::try_from(all.filter(|filter| filter.ingress == (place == BPF_TCX_INGRESS)).count())?)
        }
        Err(error) => Err(error).context("TCX programs cannot be counted"),
    }
}

/// A foreign XDP program that passes all frames, attached to the near end of a link until dropped.
#[derive(Debug)]
pub struct ForeignXdp {
    _program: OwnedFd,
    _link: OwnedFd,
}

impl ForeignXdp {
    /// Attaches it in the driver's default mode.
    pub fn attach(world: &World, link: &Link) -> Result<Self> {
        let program = pass_all().context("a program of two instructions is refused")?;
        let raw = program.as_raw_fd().cast_unsigned();
        let index = link.index;
        let link = world.near.run(|| link_xdp(raw, index))?.context("a foreign program is refused")?;
        Ok(Self { _program: program, _link: link })
    }
}

fn pass_all() -> io::Result<OwnedFd> {
    #[repr(C)]
    #[derive(Default)]
    struct Load {
        prog_type: u32,
        insn_cnt: u32,
        insns: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log_buf: u64,
        kern_version: u32,
        prog_flags: u32,
        prog_name: [u8; 16],
        prog_ifindex: u32,
        expected_attach_type: u32,
    }
    // r0 = XDP_PASS; exit
    let instructions: [u64; 2] = [0x0000_0002_0000_00B7, 0x95];
    let mut load = Load {
        prog_type: BPF_PROG_TYPE_XDP,
        insn_cnt: 2,
        insns: instructions.as_ptr().addr() as u64,
        license: c"GPL".as_ptr().addr() as u64,
        prog_name: *b"somebody_elses\0\0",
        expected_attach_type: BPF_XDP,
        ..Load::default()
    };
    let fd = bpf(BPF_PROG_LOAD, &mut load)?;
    // SAFETY: the call has just created this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn link_xdp(program: u32, index: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    #[derive(Default)]
    struct Create {
        prog_fd: u32,
        target_ifindex: u32,
        attach_type: u32,
        flags: u32,
    }
    let mut create = Create { prog_fd: program, target_ifindex: index, attach_type: BPF_XDP, flags: 0 };
    let fd = bpf(BPF_LINK_CREATE, &mut create)?;
    // SAFETY: the call has just created this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
