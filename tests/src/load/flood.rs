//! The source of a flood.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use aya::Pod;
use aya::maps::{Array, Map, MapData};
use rocescope::host::net::netns::NetNs;
use rocescope_common::abi::testing::{FLOOD, FloodPlan};

use crate::craft::{self, Mac, Net, Transport};
use crate::kernel::{machine, test_run};

/// The program that generates the frames.
const PROGRAM: &str = "rocescope_test_flood";
/// AETH: sequence-error NAK, and a message number.
const NAK: [u8; 4] = [0x60, 0, 0, 1];
const ACKNOWLEDGE: u8 = 0x11;
const WRITE_MIDDLE: u8 = 0x07;
/// First queue pair of the scanned range, far from those with traffic.
pub const SCANNED: u32 = 0x10_0000;
/// First queue pair with traffic.
const FIRST: u32 = 0x100;

/// The plan in the form that aya requires.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Plan(FloodPlan);

// SAFETY: integers without padding.
unsafe impl Pod for Plan {}

/// Kind of the packets of a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// WRITE MIDDLE, 1024 bytes of payload.
    Data,
    /// NAKs: every packet is an event.
    Nak,
}

impl PacketKind {
    /// The frame that is copied; only queue pair and PSN vary.
    pub fn template(self) -> Vec<u8> {
        let transport = match self {
            Self::Data => Transport::new(WRITE_MIDDLE, FIRST, 0).payload(vec![0x5A; 1024]),
            Self::Nak => Transport::new(ACKNOWLEDGE, FIRST, 0).ext(NAK),
        };
        let packet = Net::v4([10, 7, 0, 1], [10, 7, 0, 2]).tos(2).roce(50_000, &transport);
        craft::ethernet(Mac::SRC, Mac::DST, &packet)
    }
}

/// Parameters of a flood.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Kind of the packets.
    pub kind: PacketKind,
    /// Number of alternating queue pairs.
    pub flows: u32,
    /// Every n-th frame goes to a new queue pair; 0: none does.
    pub scan_every: u32,
    /// True if the packets of a queue pair all have the same PSN, see [`FloodPlan::hold_psn`].
    pub hold_psn: bool,
}

/// Sends frames out of an interface.
pub struct Flood {
    /// Keeps its maps alive; outlives the object from which it was loaded.
    program: OwnedFd,
    plan: Array<MapData, Plan>,
    frame: Vec<u8>,
    netns: NetNs,
}

impl std::fmt::Debug for Flood {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flood").field("netns", &self.netns).finish_non_exhaustive()
    }
}

impl Flood {
    /// A flood out of the interface with this index in this namespace.
    pub fn new(netns: &NetNs, interface: u32, wanted: Wanted) -> Result<Self> {
        let mut programs = machine::programs(1, true)?;
        let program = programs.xdp(PROGRAM)?;
        let fd = program.fd()?.as_fd().try_clone_to_owned()?;
        let maps = program.info()?.map_ids()?.unwrap_or_default();
        let mut plan = plan_of(&maps)?;
        let first = FloodPlan {
            interface,
            flows: wanted.flows,
            first_qp: FIRST,
            scan_every: wanted.scan_every,
            hold_psn: wanted.hold_psn.into(),
            scan_qp: SCANNED,
            ..FloodPlan::default()
        };
        plan.set(0, Plan(first), 0).context("the plan of a flood was refused")?;
        let netns = netns.try_clone()?;
        Ok(Self { program: fd, plan, frame: wanted.kind.template(), netns })
    }

    /// Moves the calling thread to the namespace of the interface, where [`Self::send`] works.
    pub fn enter(&self) -> Result<()> {
        Ok(self.netns.enter()?)
    }

    /// Sends at least this number of frames. The thread must be in the interface's namespace.
    pub fn send(&self, frames: u32) -> Result<()> {
        loop {
            match test_run::live(self.program.as_fd(), &self.frame, frames) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done.context("frames of a flood could not be sent (needs kernel 5.18)"),
            }
        }
    }

    /// Sends for about this time. The thread must be in the interface's namespace.
    pub fn send_for(&self, time: Duration) -> Result<()> {
        // A call needs some 20 ms for setup and cleanup, regardless of the number of frames.
        const LONG: Duration = Duration::from_millis(400);
        let start = Instant::now();
        let mut frames = 1 << 16;
        loop {
            let before = Instant::now();
            self.send(frames)?;
            if start.elapsed() >= time {
                return Ok(());
            }
            if before.elapsed() < LONG.min(time / 2) {
                frames *= 2;
            }
        }
    }

    /// Number of frames generated so far, and of those to new queue pairs.
    pub fn made(&self) -> Result<(u64, u64)> {
        let Plan(plan) = self.plan.get(&0, 0)?;
        Ok((plan.frames, plan.frames - plan.known))
    }
}

fn plan_of(maps: &[u32]) -> Result<Array<MapData, Plan>> {
    for id in maps {
        let map = MapData::from_id(*id)?;
        if map.info()?.name_as_str() == Some(FLOOD) {
            return Ok(Map::Array(map).try_into()?);
        }
    }
    bail!("program {PROGRAM} has no map {FLOOD}")
}
