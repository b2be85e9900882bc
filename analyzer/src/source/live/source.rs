//! The thread of the source: attaches, then reads samples from the kernel's tables and events from its ring buffer
//! until the view ends it.

mod sampling;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use aya::maps::{MapData, RingBuf};
use bytes::Bytes;
use rocescope_common::abi::EventRecord;
use rocescope_common::account::Event;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use super::attach::{Attached, attach, load};
use super::bins::{self, Bins};
use super::config::Config;
use super::control::{CHECK_INTERVAL, Notices, stop_requested};
use super::counters::{Reader, RemovedPorts};
use super::ecn::Ecn;
use super::event;
use super::load::{LoadOptions, Programs, with_limit};
use super::loss::Losses;
use super::pairing::Pairs;
use super::ras::RasReader;
use super::tables::Tables;
use crate::host::kernel::clock::{WallClock, monotonic_ns};
use crate::host::kernel::{KernelVersion, raise_memlock};
use crate::host::net::drops::{self, RxDrops};
use crate::host::net::hook::{self, FRAGS_SINCE};
use crate::host::net::interface::{self, Interface};
use crate::host::net::watch::LinkWatch;
use crate::host::netlink::{Attrs, LinkHeader};
use crate::host::read::queries::Kernel;
use crate::metrics::latency::tails::LatencyTails;
use crate::sample::tunnels::Tunnels;
use crate::sample::{Direction, EventSample, GrownTimes, MissedTimes};
use crate::source::devices::watch::Watch;
use crate::source::feed::{SourceEnd, Update};
use crate::util::time::nanos;

/// Maximum number of events taken from the ring buffer at once: slightly more than its capacity.
const EVENT_BUDGET: usize = 4_096;
/// Time between two reads of the event ring buffer. The first event after a pause is read at once; in a storm this
/// bounds the CPU time spent on events, and the rest is counted as dropped. User space does not wait on the buffer in
/// between, which saves the kernel a wake-up for nearly every event.
const EVENT_PAUSE: Duration = Duration::from_millis(10);
/// Interval of reading the ring buffer of bins, which causes no wake-ups.
const BIN_PAUSE: Duration = Duration::from_millis(10);

/// All attachments, and the data read so far.
pub(super) struct Source {
    programs: Programs,
    attached: Vec<Attached>,
    /// Interfaces watched at the start, including removed ones.
    interfaces: Vec<Watched>,
    tables: Tables,
    pairs: Pairs,
    ecn: Ecn,
    losses: Losses,
    missed: MissedTimes,
    grown: GrownTimes,
    tails: LatencyTails,
    /// Reader of the bins of time; `None` if the run has none.
    bins: Option<Bins>,
    clock: WallClock,
    start_ns: u64,
    config: Config,
    watch: Option<LinkWatch>,
    devices: Option<Reader>,
    departed: RemovedPorts,
    tunnels: Tunnels,
    nccl: Option<RasReader>,
}

struct Watched {
    interface: Interface,
    drops_at_start: Option<RxDrops>,
    /// The last difference; kept after the interface was removed.
    drops: Option<RxDrops>,
    gone: bool,
}

/// Programs in the kernel, attached to interfaces.
pub(super) struct Loaded {
    programs: Programs,
    attached: Vec<Attached>,
    interfaces: Vec<Watched>,
    options: LoadOptions,
    clock: WallClock,
    /// Before the first program was attached: it has counted since then.
    start_ns: u64,
    /// Notices from attaching.
    pub(super) notes: Notices,
}

impl Loaded {
    /// Loads the programs and attaches them to `targets`.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(super) fn attach(
        config: &Config,
        targets: Vec<Interface>,
        kernel: Option<KernelVersion>,
    ) -> Result<Self> {
        // Needed only on kernels that charge BPF maps to RLIMIT_MEMLOCK; if it fails there, loading reports the
        // error.
        let _ = raise_memlock();
        let mut options = LoadOptions::new(&targets.iter().map(|target| target.index).collect::<Vec<_>>());
        options.max_flows = config.max_flows;
        options.events = config.events;
        options.log_level = config.log_level;
        options.xdp_buff_len = kernel.is_some_and(|version| version >= FRAGS_SINCE);
        options.precise_clock = config.precise_clock;
        let clock = WallClock::sample();
        options.bins = bins::cut(config.bin_ns, clock.offset_ns());
        let mut programs = Programs::load(&options)?;
        let mut notes = Notices::new();
        if !config.precise_clock {
            notes.push(
                "without exact times (--no-timing) there are no latencies, bursts, steps and loss episodes, nor \
                 findings that rest on them"
                    .to_owned(),
            );
        }
        let mut attached = Vec::new();
        let mut interfaces = Vec::new();
        let planned = targets.into_iter().map(|target| {
            let plan = hook::plan(config.hook, config.xdp_mode, &target, kernel);
            load(&mut programs, &target, &plan);
            (target, plan)
        });
        let planned: Vec<_> = planned.collect();
        let start_ns = monotonic_ns();
        for (interface, mut plan) in planned {
            let done = attach(&mut programs, &interface, &mut plan, config.promiscuous)?;
            notes.append(&mut plan.notes);
            attached.push(done);
            interfaces.push(Watched {
                drops_at_start: drops::RxDrops::read(interface.index).ok().flatten(),
                drops: Some(RxDrops::default()),
                gone: false,
                interface,
            });
        }
        Ok(Self { programs, attached, interfaces, options, clock, start_ns, notes })
    }
}

impl Source {
    /// A source of the attached programs and the devices of `watch`.
    pub(super) fn new(loaded: Loaded, mut config: Config, watch: Watch) -> Self {
        let Loaded { programs, attached, interfaces, options, clock, start_ns, notes: _ } = loaded;
        let mut pairs = Pairs::default();
        for watched in &interfaces {
            for egress in [false, true] {
                let link = programs.hash.index(watched.interface.index, egress);
                pairs.link(u16::try_from(link).unwrap_or(u16::MAX), watched.interface.index);
            }
        }
        let nccl = config.nccl_ras.take().and_then(RasReader::start);
        let host = std::mem::replace(&mut config.host, Box::new(Kernel));
        let known = |watched: &Watched| (watched.interface.name.clone(), watched.interface.index);
        let indices: Vec<(String, u32)> = interfaces.iter().map(known).collect();
        let mut source = Self {
            bins: None,
            programs,
            attached,
            interfaces,
            tables: Tables::default(),
            pairs,
            losses: Losses::default(),
            missed: MissedTimes::default(),
            grown: GrownTimes::default(),
            tails: LatencyTails::default(),
            ecn: Ecn::new(clock.unix_ns(start_ns), nanos(config.interval)),
            clock,
            start_ns,
            config,
            watch: LinkWatch::open().ok(),
            devices: None,
            departed: RemovedPorts::default(),
            tunnels: Tunnels::default(),
            nccl,
        };
        let links =
            source.kernel_links().map(|(kernel, _, watched)| (kernel, watched.interface.name.clone()));
        let links = links.collect();
        let (bin_ns, filter) = (source.config.bin_ns, source.config.filter.clone());
        source.bins =
            Bins::take(&mut source.programs, options.bins, bin_ns, clock.offset_ns(), links, filter);
        source.devices =
            Reader::start(host, watch, &indices, source.config.interval, source.config.sample_posts);
        source
    }

    /// The threads that keep capabilities, and these.
    pub(super) fn kept(&self) -> Vec<(&'static str, Vec<String>)> {
        let devices = self.devices.iter().flat_map(Reader::kept);
        devices.chain(self.nccl.as_ref().map(|_| RasReader::kept())).collect()
    }

    /// The hooks of each interface, as text.
    pub(super) fn hooks(&self) -> Vec<String> {
        self.attached
            .iter()
            .map(|a| format!("{}: {} and TC egress", a.interface.name, a.ingress.as_str()))
            .collect()
    }

    /// Runs until stopped. Everything is detached when this returns.
    pub(super) fn run(mut self, tap: &SourceEnd, notes: Notices) {
        for note in notes {
            let _gone = tap.tell(Update::Notice(note));
        }
        let result = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| with_limit(error.into()))
            .context("cannot start the event loop")
            .and_then(|runtime| runtime.block_on(self.pump(tap)));
        drop(self);
        let _gone = tap.tell(Update::Ended(result));
    }

    #[expect(clippy::too_many_lines, reason = "one loop over all that can wake it")]
    async fn pump(&mut self, tap: &SourceEnd) -> Result<()> {
        let ring =
            self.programs.take_events().ok_or_else(|| anyhow!("the event ring buffer is already in use"))?;
        // SAFETY: the ring buffer owns its descriptor, gives it to nobody, and is dropped after it
        // was deregistered.
        let mut ring = unsafe { AsyncFd::register_with_interest(ring, Interest::READABLE) }
            .context("cannot poll the event ring buffer")?;
        let _log = log(&mut self.programs, self.config.log_level)?;
        let start = Instant::now();
        let mut next_sample = start + self.config.interval;
        let mut next_check = start + CHECK_INTERVAL;
        let mut next_events = start;
        let mut next_bins = start;
        loop {
            let listening = Instant::now() >= next_events;
            let mut wake = next_check.min(next_sample);
            if self.bins.is_some() {
                wake = wake.min(next_bins);
            }
            if !listening {
                wake = wake.min(next_events);
            }
            tokio::select! {
                ready = ring.readable_mut(), if listening => {
                    let mut guard = ready.context("cannot read the event ring buffer")?;
                    let (events, more) = self.drain(guard.get_inner_mut())?;
                    if !more {
                        guard.clear_ready();
                    }
                    if !events.is_empty() && !self.offer(tap, events) {
                        return Ok(());
                    }
                    next_events = Instant::now() + EVENT_PAUSE;
                }
                () = tokio::time::sleep_until(wake) => {}
            }
            let now = Instant::now();
            if now >= next_bins {
                next_bins = now + BIN_PAUSE;
                if self.bins.as_mut().is_some_and(Bins::drain) {
                    self.settle_bins()?;
                }
            }
            if now >= next_check {
                next_check = now + CHECK_INTERVAL;
                if stop_requested(tap) || self.config.duration.is_some_and(|most| now - start >= most) {
                    break;
                }
                self.look_for_removed(tap);
                if self.attached.is_empty() {
                    self.finish(tap, ring.get_mut())?;
                    return Err(anyhow!("all watched interfaces were removed"));
                }
            }
            if now >= next_sample {
                next_sample += self.config.interval;
                if next_sample < now {
                    next_sample = now + self.config.interval;
                }
                // Also without a consumer, since idle flows are retired at the same time.
                let sample = self.sample(true)?;
                for notice in
                    self.departed.notices(&sample.devices).into_iter().chain(self.tunnels.notice(&sample))
                {
                    let _gone = tap.tell(Update::Notice(notice));
                }
                if self.config.samples && !tap.sample(sample) {
                    return Ok(());
                }
            }
        }
        self.finish(tap, ring.get_mut())
    }

    /// Detaches, so that the figures are final, and sends the rest.
    fn finish(&mut self, tap: &SourceEnd, ring: &mut RingBuf<MapData>) -> Result<()> {
        self.read_interfaces();
        self.attached.clear();
        super::bpf::quiesce();
        if let Some(devices) = &mut self.devices {
            devices.finish();
        }
        loop {
            let (events, more) = self.drain(ring)?;
            if !events.is_empty() && !self.offer(tap, events) {
                return Ok(());
            }
            if !more {
                break;
            }
        }
        let sample = self.sample(false)?;
        let _gone = tap.tell(Update::Sample(Box::new(sample)));
        Ok(())
    }

    /// Sends events to a view that wants them; false if it has ended.
    fn offer(&self, tap: &SourceEnd, events: Vec<EventSample>) -> bool {
        !self.config.events_to_view || tap.tell(Update::Events(events))
    }

    fn drain(&mut self, ring: &mut RingBuf<MapData>) -> Result<(Vec<EventSample>, bool)> {
        let mut events = Vec::new();
        for _ in 0..EVENT_BUDGET {
            let Some(item) = ring.next() else { return Ok((events, false)) };
            let Some(record) = event::read(&item) else { continue };
            #[cfg(feature = "test-clock")]
            crate::util::hijack::here("live");
            drop(item);
            self.pairs.event(&mut self.programs, &record, &self.clock)?;
            self.losses.changes(&mut self.programs, &self.pairs);
            self.happened(&record);
            if self.config.events_to_view && record.events & !Event::RETX_RUN != 0 {
                events.push(self.event(&record));
            }
        }
        Ok((events, true))
    }

    /// Processes marks, CNPs and losses of known flows.
    fn happened(&mut self, record: &EventRecord) {
        const OF_INTEREST: u16 = !(Event::NEW_FLOW | Event::GSI);
        if record.events & OF_INTEREST == 0 {
            return;
        }
        let Some(slot) = self.pairs.slot_of(&record.key).or_else(|| self.programs.slot_of(&record.key))
        else {
            return;
        };
        self.losses.event(slot, record, &self.pairs, &self.clock);
        let time_ns = self.clock.unix_ns(record.time_ns);
        if record.events & Event::CE != 0 {
            self.ecn.ce(slot, time_ns);
        }
        if record.events & Event::CNP != 0 {
            self.ecn.cnp(slot, time_ns, record.missing);
        }
    }

    fn event(&self, record: &EventRecord) -> EventSample {
        let headers = record.headers.get(..usize::from(record.headers_len)).unwrap_or_default();
        let mut key = record.key;
        key.link = self.link_of(key.link);
        EventSample {
            time_ns: self.clock.unix_ns(record.time_ns),
            key,
            events: record.events,
            opcode: record.opcode,
            tos: record.tos,
            src_port: record.src_port,
            psn: record.psn,
            missing: event::missing(record),
            aeth: record.aeth,
            wire_len: record.wire_len,
            bth_offset: record.bth_offset,
            headers: Bytes::copy_from_slice(headers),
        }
    }

    /// Links in the order of the sample: interfaces as selected, ingress before egress.
    fn kernel_links(&self) -> impl Iterator<Item = (u16, Direction, &Watched)> {
        self.interfaces.iter().flat_map(|watched| {
            [(Direction::Ingress, false), (Direction::Egress, true)].map(|(direction, egress)| {
                let index = self.programs.hash.index(watched.interface.index, egress);
                (u16::try_from(index).unwrap_or(u16::MAX), direction, watched)
            })
        })
    }

    fn link_of(&self, kernel: u16) -> u16 {
        let position = self.kernel_links().position(|(index, ..)| index == kernel).unwrap_or(0);
        u16::try_from(position).unwrap_or(u16::MAX)
    }

    /// Reads drop counters and MTU of each existing interface.
    fn read_interfaces(&mut self) {
        for watched in self.interfaces.iter_mut().filter(|watched| !watched.gone) {
            let state = interface::raw(watched.interface.index).ok();
            watched.note_drops(state.as_deref().and_then(RxDrops::parse));
            let mtu = state.and_then(|state| Attrs::after(&state, LinkHeader::LEN).u32(libc::IFLA_MTU));
            watched.interface.mtu = mtu.unwrap_or(watched.interface.mtu);
        }
    }

    /// Packets dropped by interfaces before the programs saw them. `unhandled` are frames seen by programs whose
    /// protocol the host may not handle, by name of the interface.
    fn interface_drops(&self, unhandled: &BTreeMap<String, u64>) -> Option<u64> {
        let mut sum = None;
        for watched in &self.interfaces {
            let interface = &watched.interface;
            let seen = unhandled.get(&interface.name).copied().unwrap_or(0);
            // An interface without drop counters makes the sum unknown.
            sum = Some(sum.unwrap_or(0) + watched.drops?.unseen(&interface.kind, seen));
        }
        sum
    }

    /// Reports removed interfaces and releases them; the others continue.
    fn look_for_removed(&mut self, tap: &SourceEnd) {
        let Some(watch) = &mut self.watch else { return };
        let Ok(removals) = watch.removals() else { return };
        if removals.indices.is_empty() && !removals.incomplete {
            return;
        }
        for watched in self.interfaces.iter_mut().filter(|w| !w.gone) {
            let index = watched.interface.index;
            if removals.indices.contains(&index)
                || (removals.incomplete && interface::exists(index).is_ok_and(|exists| !exists))
            {
                watched.gone = true;
                self.attached.retain(|a| a.interface.index != index);
                let _gone = tap.tell(Update::Notice(format!(
                    "interface {} was removed; its counts so far stay in the report",
                    watched.interface.name
                )));
            }
        }
    }
}

impl Watched {
    fn note_drops(&mut self, now: Option<RxDrops>) {
        if let Some(drops) = drops::between(self.drops_at_start, now) {
            self.drops = Some(drops);
        } else if self.drops_at_start.is_none() {
            self.drops = None;
        }
    }
}

/// Forwards the programs' own log to standard error, if enabled.
fn log(programs: &mut Programs, level: u8) -> Result<Option<tokio::task::JoinHandle<()>>> {
    if level == 0 {
        return Ok(None);
    }
    let logger = aya_log::EbpfLogger::init_with_logger(&mut programs.ebpf, event::StderrLog)
        .context("cannot read the kernel programs' log")?;
    // SAFETY: the logger owns its descriptor and is dropped after it was deregistered.
    let mut logger = unsafe { AsyncFd::register_with_interest(logger, Interest::READABLE) }
        .context("cannot poll the kernel programs' log")?;
    Ok(Some(tokio::spawn(async move {
        while let Ok(mut guard) = logger.readable_mut().await {
            guard.get_inner_mut().flush();
            guard.clear_ready();
        }
    })))
}
