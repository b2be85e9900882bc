//! Loads the kernel programs, with maps of the required size.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use anyhow::{Context as _, Result, anyhow, bail};
use aya::maps::{HashMap, Map, MapData, PerCpuArray, RingBuf, Stack};
use aya::programs::{Program, ProgramError, SchedClassifier, Xdp};
use aya::{Ebpf, EbpfLoader};
use rocescope_common::abi::maps::MAX_LINKS;
use rocescope_common::abi::{
    BenchStep, ExtraKey, ExtraValue, FlowSlot, Link, LinkCounters, TIMED_FLOWS, maps,
};
use rocescope_common::account::FlowKey;
use rocescope_common::account::bin::{Bins, LONGEST_NS, LastExchange};
use rocescope_common::account::latency::Latency;

use super::latency::Times;
use super::object::{CpuStateWords, Data, refused};
use super::slots::Slots;
use super::ticks;
use crate::util::limit;

/// The compiled kernel programs.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/rocescope-ebpf"));
/// The same, with a clock that tests set.
#[cfg(feature = "test-clock")]
static TEST_OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/rocescope-ebpf-test"));

/// Default size of the flow table.
pub const DEFAULT_MAX_FLOWS: u32 = 65_536;

pub use super::names;
#[cfg(feature = "test-clock")]
mod restart;
#[cfg(test)]
mod stack_tests;

/// Options fixed before loading.
#[expect(clippy::struct_excessive_bools, reason = "independent facts and switches")]
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Size of the flow table.
    pub max_flows: u32,
    /// Indices of the watched interfaces.
    pub interfaces: Vec<u32>,
    /// True if programs send events.
    pub events: bool,
    /// True if the kernel has `bpf_xdp_get_buff_len`.
    pub xdp_buff_len: bool,
    /// True for exact times and latency measurement (see `bench` for the cost); false for the time of the latest
    /// timer tick.
    pub precise_clock: bool,
    /// The bins that the programs report, with the exact clock.
    pub bins: Bins,
    /// True if the CPU may make stores visible to other CPUs out of order; set otherwise only by tests.
    pub full_order: bool,
    /// Verbosity of the programs' own log, 0 (off) to 5.
    pub log_level: u8,
    /// Use the build whose clock tests set.
    #[cfg(feature = "test-clock")]
    pub test_clock: bool,
}

impl LoadOptions {
    /// The defaults for these interfaces.
    pub fn new(interfaces: &[u32]) -> Self {
        Self {
            max_flows: DEFAULT_MAX_FLOWS,
            interfaces: interfaces.to_vec(),
            events: true,
            xdp_buff_len: true,
            precise_clock: true,
            bins: Bins { length_ns: LONGEST_NS, phase_ns: 0 },
            full_order: !cfg!(target_arch = "x86_64"),
            log_level: 0,
            #[cfg(feature = "test-clock")]
            test_clock: false,
        }
    }
}

/// The mapping of interface indices to link indices, see [`Link::index`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkHash {
    multiplier: u32,
    shift: u32,
}

impl LinkHash {
    /// Finds a hash without collisions among `interfaces`, with as few links as possible.
    ///
    /// # Errors
    /// If there are more interfaces than links.
    pub fn find(interfaces: &[u32]) -> Result<Self> {
        let most = MAX_LINKS / 2;
        if interfaces.len() > most as usize {
            bail!("{} interfaces exceed the limit of {most} per run", interfaces.len());
        }
        // Odd multipliers by a fixed rule: the same interfaces get the same hash in every run.
        for bits in interfaces.len().next_power_of_two().ilog2()..=most.ilog2() {
            let shift = 32 - bits.max(1);
            for attempt in 0..4096u32 {
                let multiplier = attempt.wrapping_mul(0x9E37_79B9) | 1;
                let hash = Self { multiplier, shift };
                let mut seen = 0u64;
                if interfaces.iter().all(|interface| {
                    let bit = 1u64 << (hash.index(*interface, false) / 2);
                    let free = seen & bit == 0;
                    seen |= bit;
                    free
                }) {
                    return Ok(hash);
                }
            }
        }
        bail!("cannot index these interfaces (no perfect hash found): watch fewer per run");
    }

    /// The index of an interface's link.
    pub fn index(&self, interface: u32, egress: bool) -> u32 {
        Link::index(interface, self.multiplier, self.shift, egress)
    }

    /// Number of link indices that the hash can produce.
    pub fn links(&self) -> u32 {
        2 << (32 - self.shift)
    }
}

/// Loaded programs and their maps. Dropping it detaches and unloads everything.
pub struct Programs {
    pub(crate) ebpf: Ebpf,
    pub(crate) slots: Slots,
    /// The flows whose latency is measured.
    pub(crate) times: Times,
    pub(crate) extra: HashMap<MapData, Data<ExtraKey>, Data<ExtraValue>>,
    extra_fd: OwnedFd,
    pub(crate) flows: HashMap<MapData, Data<FlowKey>, u32>,
    pub(crate) free: Stack<MapData, u32>,
    pub(crate) links: PerCpuArray<MapData, Data<LinkCounters>>,
    pub(crate) cpu_state: PerCpuArray<MapData, Data<CpuStateWords>>,
    pub(crate) events: Option<RingBuf<MapData>>,
    bins: Option<RingBuf<MapData>>,
    drift: ticks::Drift,
    /// The numbering of interfaces.
    pub hash: LinkHash,
    /// Size of the flow table.
    pub max_flows: u32,
    /// Maximum number of flows whose latency is measured at once.
    timed: u32,
    /// True if flows report bins.
    pub(crate) timing: bool,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs").field("max_flows", &self.max_flows).finish_non_exhaustive()
    }
}

impl Programs {
    /// Creates the maps. Programs are loaded when first used.
    ///
    /// # Errors
    /// If the kernel refuses a map.
    pub fn load(options: &LoadOptions) -> Result<Self> {
        #[cfg(feature = "test-clock")]
        let object = if options.test_clock { TEST_OBJECT } else { OBJECT };
        #[cfg(not(feature = "test-clock"))]
        let object = OBJECT;
        Self::load_from(options, object, true)
    }

    /// The same with another build of the kernel programs, to compare the two.
    ///
    /// # Errors
    /// If this is no such object, or the kernel refuses a map.
    pub fn load_object(options: &LoadOptions, object: &[u8]) -> Result<Self> {
        Self::load_from(options, object, false)
    }

    /// `ours`: the object is of this version, so that it has all switches.
    #[expect(clippy::too_many_lines, reason = "a list of all switches and sizes of the programs")]
    fn load_from(options: &LoadOptions, object: &[u8], ours: bool) -> Result<Self> {
        let hash = LinkHash::find(&options.interfaces)?;
        let max_flows = options.max_flows.max(1);
        let hints = hints(max_flows);
        let hint_shift = 32 - hints.ilog2();
        let entries = timed(options);
        let mut loader = EbpfLoader::new();
        loader
            .override_global("LINK_MULTIPLIER", &hash.multiplier, true)
            .override_global("LINK_SHIFT", &hash.shift, true)
            .override_global("WANT_EVENTS", flag(options.events), true)
            .override_global("HINT_SHIFT", &hint_shift, ours)
            .override_global("FULL_ORDER", flag(options.full_order), ours)
            .override_global("PRECISE_CLOCK", flag(options.precise_clock), ours)
            .override_global("BIN_NS", &options.bins.length_ns, ours)
            .override_global("BIN_PHASE_NS", &options.bins.phase_ns, ours)
            .override_global("HAVE_XDP_BUFF_LEN", flag(options.xdp_buff_len), true)
            .override_global(aya_log::LEVEL, &options.log_level, false)
            .map_max_entries(maps::FLOWS, max_flows)
            .map_max_entries(maps::SLOTS, max_flows)
            .map_max_entries(maps::HINTS, hints / 2)
            .map_max_entries(maps::FREE, max_flows)
            .map_max_entries(maps::EXTRA, max_flows)
            .map_max_entries(maps::LATENCY, entries)
            .map_max_entries(maps::LINKS, hash.links());
        // Without bins, requests and responses are not recorded.
        if ours && !options.precise_clock {
            loader.map_max_entries(maps::EXCHANGES, 1);
        } else if ours {
            loader.map_max_entries(maps::EXCHANGES, max_flows);
        }
        let mut ebpf = loader.load(object).map_err(|error| map_refused(&error))?;
        ticks::set(&mut ebpf)?;
        // Other builds may not measure latency.
        let times = match ebpf.take_map(maps::LATENCY) {
            Some(Map::Array(map)) => Some(map),
            Some(_) => bail!("map {} is not an array", maps::LATENCY),
            None => None,
        };
        let mut take =
            |name: &str| ebpf.take_map(name).ok_or_else(|| anyhow!("the kernel object has no map {name}"));
        let Map::Array(slots) = take(maps::SLOTS)? else { bail!("map {} is not an array", maps::SLOTS) };
        let exchanges = match take(maps::EXCHANGES) {
            Ok(Map::Array(exchanges)) => Some(exchanges),
            _ => None,
        };
        let extra = take(maps::EXTRA)?;
        let Map::HashMap(extra_data) = &extra else { bail!("map {} is not a hash", maps::EXTRA) };
        let extra_fd =
            extra_data.fd().as_fd().try_clone_to_owned().context("cannot open the map EXTRA once more")?;
        let mut programs = Self {
            times: Times::new(times, entries).context("cannot map the table of pending requests")?,
            slots: Slots::map(slots, exchanges, options.precise_clock, max_flows)
                .context("cannot map the flow table")?,
            cpu_state: take(maps::CPU_STATE)?.try_into()?,
            bins: take(maps::BINS).ok().map(TryInto::try_into).transpose()?,
            timing: options.precise_clock,
            extra: extra.try_into()?,
            extra_fd,
            flows: take(maps::FLOWS)?.try_into()?,
            free: take(maps::FREE)?.try_into()?,
            links: take(maps::LINKS)?.try_into()?,
            events: Some(take(maps::EVENTS)?.try_into()?),
            ebpf,
            drift: ticks::Drift::default(),
            hash,
            max_flows,
            timed: entries,
        };
        programs.fill_free()?;
        Ok(programs)
    }

    fn fill_free(&mut self) -> Result<()> {
        // Last in, first out: slots are handed out from 0 upwards.
        for slot in (0..self.max_flows).rev() {
            self.free.push(slot, 0).context("cannot fill the table of free flow slots")?;
        }
        Ok(())
    }

    /// The file descriptor of the overflow table, for operations that aya lacks.
    pub(crate) fn extra_fd(&self) -> BorrowedFd<'_> {
        self.extra_fd.as_fd()
    }

    /// The XDP program with this name, loaded on demand.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn xdp(&mut self, name: &str) -> Result<&mut Xdp> {
        self.program(name, |xdp: &Xdp| xdp.fd().is_ok(), Xdp::load)
    }

    /// The TC program with this name, loaded on demand.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn tc(&mut self, name: &str) -> Result<&mut SchedClassifier> {
        self.program(name, |tc: &SchedClassifier| tc.fd().is_ok(), SchedClassifier::load)
    }

    fn program<'a, P>(
        &'a mut self,
        name: &str,
        is_loaded: impl Fn(&P) -> bool,
        load: impl Fn(&mut P) -> Result<(), ProgramError>,
    ) -> Result<&'a mut P>
    where
        &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
    {
        let program = self.ebpf.program_mut(name);
        let program: &mut P =
            program.ok_or_else(|| anyhow!("the kernel object has no program {name}"))?.try_into()?;
        if !is_loaded(program) {
            load(program).map_err(|error| refused(name, error))?;
        }
        Ok(program)
    }

    /// Takes the ring buffer of events; `None` when already taken. The caller must keep it drained.
    pub fn take_events(&mut self) -> Option<RingBuf<MapData>> {
        self.events.take()
    }

    /// Takes the ring buffer of bins; `None` without bins or when already taken. The caller must keep it drained.
    pub fn take_bins(&mut self) -> Option<RingBuf<MapData>> {
        // Programs that are loaded later need the map, with bins or without.
        if self.timing { self.bins.take() } else { None }
    }

    /// The kernel memory of the maps in bytes, as far as their sizes show it.
    pub fn map_bytes(&self) -> u64 {
        const HASH_ENTRY: u64 = 48 + 16;
        let flows = u64::from(self.max_flows);
        let slots = flows * size_of::<FlowSlot>() as u64;
        let hash = flows * (HASH_ENTRY + size_of::<FlowKey>() as u64 + 8);
        let extra = flows * (HASH_ENTRY + 24);
        // Values of arrays take multiples of eight bytes.
        let hints = u64::from(hints(self.max_flows)) * 4;
        let timed = u64::from(self.timed) * size_of::<Latency>() as u64;
        let exchanges = if self.timing { flows * size_of::<LastExchange>() as u64 } else { 0 };
        slots + hash + extra + hints + timed + exchanges + flows * 4 + (1 << 20) + (512 << 10)
    }

    /// The slot of a flow that is in the table; its link is the kernel's number.
    pub fn slot_of(&self, key: &FlowKey) -> Option<u32> {
        self.flows.get(&Data(*key), 0).ok()
    }

    /// Measures the requests of the flow in one slot by the responses of the flow in another from now on. The slots
    /// need not be in use yet. False if there is no room.
    ///
    /// # Errors
    /// If there is no such slot.
    pub fn pair(&mut self, requests: u32, answers: u32) -> Result<bool> {
        self.times
            .assign(&self.slots, requests, Some(answers))
            .context("cannot enable latency measurement for a flow")
    }

    /// Latency of the requests in a slot, and the number of requests that were not measured.
    pub fn latency(&self, slot: u32) -> (Option<Box<Latency>>, u32) {
        (self.times.read(slot), self.slots.untimed(slot))
    }

    /// Compares the programs' clock with the kernel's, and sets it again if ticks were lost. Call it periodically.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn keep_clock(&mut self) -> Result<()> {
        ticks::keep(&mut self.ebpf, &mut self.drift)
    }

    /// Sets the operation of the `bench` programs before counting a packet.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_bench_step(&mut self, step: BenchStep) -> Result<()> {
        let map = self.ebpf.map_mut(maps::BENCH_STEP).context("this object has no programs for bench")?;
        let mut steps: aya::maps::Array<&mut MapData, Data<BenchStep>> = map.try_into()?;
        steps.set(0, Data(step), 0).context("cannot set up the benchmark")
    }

    /// Sets the time of the next frame, in the build for tests.
    ///
    /// # Errors
    /// If this is not that build.
    #[cfg(feature = "test-clock")]
    pub fn set_test_clock(&mut self, now: u64) -> Result<()> {
        let map = self.ebpf.map_mut(maps::TEST_CLOCK).context("this object has no test clock")?;
        let mut clock: aya::maps::Array<&mut MapData, u64> = map.try_into()?;
        clock.set(0, now, 0).context("cannot set the test clock")
    }
}

/// A switch in the representation of the programs.
const fn flag(on: bool) -> &'static u8 {
    if on { &1 } else { &0 }
}

/// Number of flows whose latency can be measured; at least 1, since the map cannot be empty.
fn timed(options: &LoadOptions) -> u32 {
    if options.precise_clock { options.max_flows.clamp(1, TIMED_FLOWS) } else { 1 }
}

/// Number of hints for a table of this size: a power of two.
fn hints(max_flows: u32) -> u32 {
    max_flows.saturating_mul(maps::HINTS_PER_FLOW).max(2).checked_next_power_of_two().unwrap_or(1 << 31)
}

fn map_refused(error: &aya::EbpfError) -> anyhow::Error {
    let text = limit::chain(error);
    match limit::reached(error) {
        Some(remedy) => anyhow!("cannot create the maps: {text}; {remedy}"),
        None if text.contains("not permitted") => anyhow!(
            "cannot create the maps: {text}; bpf(2) takes CAP_BPF, and a seccomp filter that allows it \
             (SystemCallFilter= of the unit, seccomp profile of the container)"
        ),
        None => anyhow!("the kernel rejected the maps or programs: {text}; use a smaller --max-flows"),
    }
}

/// Adds the limit of open files as the cause if no further file can be opened: calls that need a socket then fail
/// with misleading errors.
pub(super) fn with_limit(error: anyhow::Error) -> anyhow::Error {
    if limit::reached(error.as_ref()).is_some() {
        return anyhow!(limit::explained(&error));
    }
    let full = rustix::io::dup(std::io::stderr()).err();
    match full.and_then(|full| limit::reached(&std::io::Error::from(full))) {
        Some(remedy) => anyhow!("too many open files; {remedy}"),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::LinkHash;

    #[test]
    fn interfaces_get_links_of_their_own() {
        for interfaces in [vec![1], vec![2, 3], vec![7, 1_000_003, 5, 12], (1..=64).collect()] {
            let hash = LinkHash::find(&interfaces).unwrap();
            let mut seen = std::collections::BTreeSet::new();
            for interface in &interfaces {
                for egress in [false, true] {
                    let index = hash.index(*interface, egress);
                    assert!(index < hash.links(), "{interface}: {index} of {}", hash.links());
                    assert!(seen.insert(index), "{interface} {egress} collides");
                }
            }
        }
        assert!(LinkHash::find(&(1..=65).collect::<Vec<_>>()).is_err());
    }

    #[test]
    fn a_refusal_for_missing_rights_does_not_speak_of_sizes() {
        let io_error = std::io::Error::from_raw_os_error(libc::EPERM);
        let map = aya::maps::MapError::CreateError { name: "BINS".into(), io_error };
        let said = super::map_refused(&map.into()).to_string();
        assert!(said.contains("SystemCallFilter") && !said.contains("max-flows"), "{said}");
    }

    #[test]
    fn few_interfaces_take_few_links() {
        assert!(LinkHash::find(&[4]).unwrap().links() <= 4);
        assert!(LinkHash::find(&[4, 9, 11]).unwrap().links() <= 16);
    }
}
