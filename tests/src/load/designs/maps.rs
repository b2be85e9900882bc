//! The tables of the designs, as user space reads them.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use anyhow::{Context as _, Result, bail, ensure};
use aya::maps::{Array, HashMap, Map, MapData, PerCpuHashMap};
use aya::util::nr_cpus;
use aya::{Ebpf, Pod};
use rocescope_common::account::{FlowKey, FlowStats};

use super::{FIRST_QP, FLOWS, Place};

const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;
/// What the kernel puts in front of a hash's key.
const ENTRY: usize = 48;

#[derive(Clone, Copy)]
#[repr(C)]
struct Key(FlowKey);
#[derive(Clone, Copy)]
#[repr(C)]
struct Stats(FlowStats);
#[derive(Clone, Copy)]
#[repr(C)]
struct Locked {
    lock: [u32; 2],
    stats: FlowStats,
}
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Slot {
    turn: u64,
    key: FlowKey,
    stats: FlowStats,
}

// SAFETY: integers and arrays of them without padding, as where they are defined.
unsafe impl Pod for Key {}
// SAFETY: as above.
unsafe impl Pod for Stats {}
// SAFETY: as above.
unsafe impl Pod for Locked {}
// SAFETY: as above; any bytes may fill up its last cache line.
unsafe impl Pod for Slot {}

pub(super) struct Maps {
    per_cpu: PerCpuHashMap<MapData, Key, Stats>,
    shared: HashMap<MapData, Key, Stats>,
    locked: HashMap<MapData, Key, Locked>,
    numbers: HashMap<MapData, Key, u32>,
    slots: Array<MapData, Slot>,
    fds: [std::os::fd::OwnedFd; 3],
    mapped: Mapped,
    cpus: usize,
}

impl Maps {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self> {
        let mut take = |name: &str| ebpf.take_map(name).with_context(|| format!("there is no map {name}"));
        let fd = |map: &Map| match map {
            Map::PerCpuHashMap(data) | Map::HashMap(data) | Map::Array(data) => {
                data.fd().as_fd().try_clone_to_owned().context("a map's descriptor")
            }
            _ => bail!("a map of another kind"),
        };
        let (per_cpu, shared, locked) = (take("PERCPU")?, take("SHARED")?, take("LOCKED")?);
        let slots = take("SLOTS")?;
        Ok(Self {
            fds: [fd(&per_cpu)?, fd(&shared)?, fd(&locked)?],
            mapped: Mapped::new(fd(&slots)?.as_fd())?,
            per_cpu: per_cpu.try_into()?,
            shared: shared.try_into()?,
            locked: locked.try_into()?,
            numbers: take("SLOT_OF")?.try_into()?,
            slots: slots.try_into()?,
            cpus: nr_cpus().map_err(|(_, error)| error)?,
        })
    }

    /// What the first flow has, on each CPU where they differ.
    pub(super) fn first_flow(&self, place: Place) -> Result<Vec<FlowStats>> {
        // The flood's template.
        let address = |last| [0, 0, 0, u32::from_ne_bytes([10, 7, 0, last])];
        let key =
            Key(FlowKey { src: address(1), dst: address(2), dest_qp: FIRST_QP, link: 0, family: 4, pad: 0 });
        Ok(match place {
            Place::PerCpu => self.per_cpu.get(&key, 0)?.iter().map(|Stats(stats)| *stats).collect(),
            Place::Shared => vec![self.shared.get(&key, 0)?.0],
            Place::Locked => vec![self.locked.get(&key, 0)?.stats],
            Place::Slots => vec![self.slots.get(&self.numbers.get(&key, 0)?, 0)?.stats],
        })
    }

    /// Reads every flow. Gives their number.
    pub(super) fn read(&self, place: Place) -> Result<usize> {
        let [per_cpu, shared, locked] = &self.fds;
        Ok(match place {
            Place::PerCpu => batches(per_cpu.as_fd(), size_of::<FlowStats>() * self.cpus)?,
            Place::Shared => batches(shared.as_fd(), size_of::<FlowStats>())?,
            Place::Locked => batches(locked.as_fd(), size_of::<Locked>())?,
            Place::Slots => self.mapped.read().len(),
        })
    }

    /// Kernel memory of a full table on a host with so many CPUs.
    pub(super) fn bytes(place: Place, cpus: usize) -> usize {
        let hash = |value: usize| (ENTRY + size_of::<FlowKey>() + value) * FLOWS as usize;
        match place {
            Place::PerCpu => hash(8) + size_of::<FlowStats>() * cpus * FLOWS as usize,
            Place::Shared => hash(size_of::<FlowStats>()),
            Place::Locked => hash(size_of::<Locked>()),
            Place::Slots => hash(8) + size_of::<Slot>() * (FLOWS as usize + 1),
        }
    }
}

/// Reads a hash in batches of entries with values of so many bytes. Gives the number of entries.
fn batches(map: BorrowedFd<'_>, value: usize) -> Result<usize> {
    #[repr(C)]
    #[derive(Default)]
    struct Lookup {
        in_batch: u64,
        out_batch: u64,
        keys: u64,
        values: u64,
        count: u32,
        map_fd: u32,
        elem_flags: u64,
        flags: u64,
    }
    const MOST: u32 = 8_192;
    let mut keys = vec![0u8; MOST as usize * size_of::<FlowKey>()];
    let mut values = vec![0u8; MOST as usize * value];
    let (mut token, mut next, mut entries, mut first) = (0u32, 0u32, 0, true);
    // Kept, as a reader would have to.
    let mut kept = Vec::with_capacity(FLOWS as usize * value);
    loop {
        let mut attr = Lookup {
            in_batch: if first { 0 } else { (&raw const token).addr() as u64 },
            out_batch: (&raw mut next).addr() as u64,
            keys: keys.as_mut_ptr().addr() as u64,
            values: values.as_mut_ptr().addr() as u64,
            count: MOST,
            map_fd: map.as_raw_fd().cast_unsigned(),
            ..Lookup::default()
        };
        // SAFETY: `attr` is a prefix of `union bpf_attr` for this command; what it points to lives through
        // the call and has room for MOST entries.
        let done =
            unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_LOOKUP_BATCH, &raw mut attr, size_of::<Lookup>()) };
        let error = (done < 0).then(io::Error::last_os_error);
        if let Some(error) = &error
            && error.raw_os_error() != Some(libc::ENOENT)
        {
            bail!("a table could not be read: {error}");
        }
        entries += attr.count as usize;
        kept.extend_from_slice(values.get(..attr.count as usize * value).context("more than asked for")?);
        if error.is_some() {
            ensure!(kept.len() == entries * value, "a table was read in part");
            return Ok(entries);
        }
        (token, first) = (next, false);
    }
}

/// The array of slots in this process's memory.
struct Mapped {
    slots: *const Slot,
    bytes: usize,
}

impl Mapped {
    fn new(map: BorrowedFd<'_>) -> Result<Self> {
        let bytes = size_of::<Slot>() * (FLOWS as usize + 1);
        // SAFETY: a new mapping somewhere, of a map that is as large.
        let slots = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, map.as_raw_fd(), 0)
        };
        if slots == libc::MAP_FAILED {
            return Err(io::Error::last_os_error()).context("the array of slots cannot be mapped");
        }
        Ok(Self { slots: slots.cast(), bytes })
    }

    /// A copy of every slot in use that no program changed meanwhile.
    fn read(&self) -> Vec<Slot> {
        let mut read = Vec::with_capacity(FLOWS as usize);
        for at in 1..=FLOWS as usize {
            // SAFETY: within the mapping; aligned, as it begins with a page.
            let (slot, turn) = unsafe { (self.slots.add(at), &raw const (*self.slots.add(at)).turn) };
            for _ in 0..1_000 {
                // SAFETY: as above. A copy that a program wrote into meanwhile is thrown away.
                let (before, copy, after) = unsafe {
                    let before = turn.read_volatile();
                    std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
                    let copy = slot.read_volatile();
                    std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
                    (before, copy, turn.read_volatile())
                };
                if before == after && before % 2 == 0 {
                    if copy.stats.packets > 0 {
                        read.push(copy);
                    }
                    break;
                }
            }
        }
        read
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping that was made, of which nothing is borrowed any more.
        unsafe { libc::munmap(self.slots.cast_mut().cast(), self.bytes) };
    }
}
