//! Runs frames through a kernel program.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use aya::maps::{MapData, RingBuf};
use rocescope::metrics::Metrics;
use rocescope::metrics::pairing::peers::Peers;
use rocescope::metrics::traffic::BIN_NS;
use rocescope::sample::marking;
use rocescope::sample::{EventSample, LinkSample, Sample, SourceKind};
use rocescope::source::live::bins::{self, Bins};
use rocescope::source::live::load::names;
use rocescope::source::live::tables::{fill_link, link_counters};
use rocescope::source::live::{LoadOptions, Programs, Tables, event};
use rocescope_common::abi::EventRecord;
use rocescope_common::account::Event;

use super::frames::Frame;
use super::replayed::LINK;
use super::test_run;

/// Test runs use the loopback interface of this network namespace.
const LOOPBACK: u32 = 1;
/// Number of frames after which the ring buffer is emptied: it holds about 3,000 events.
const DRAIN: u32 = 1_000;

/// The four programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// XDP, frames in one buffer.
    Xdp,
    /// XDP, frames in several buffers.
    XdpFrags,
    /// TC on ingress.
    TcIngress,
    /// TC on egress.
    TcEgress,
}

impl Hook {
    /// All hooks.
    pub const ALL: [Self; 4] = [Self::Xdp, Self::XdpFrags, Self::TcIngress, Self::TcEgress];

    /// True if it is one of the XDP programs.
    pub fn is_xdp(self) -> bool {
        matches!(self, Self::Xdp | Self::XdpFrags)
    }

    /// The program's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Xdp => names::XDP,
            Self::XdpFrags => names::XDP_FRAGS,
            Self::TcIngress => names::TC_INGRESS,
            Self::TcEgress => names::TC_EGRESS,
        }
    }

    /// Return value that passes the packet on, which the program must return.
    pub fn passes(self) -> u32 {
        const XDP_PASS: u32 = 2;
        const TCX_NEXT: u32 = u32::MAX;
        if self.is_xdp() { XDP_PASS } else { TCX_NEXT }
    }

    /// Loads the program and returns its descriptor.
    pub fn load(self, programs: &mut Programs) -> Result<OwnedFd> {
        let fd = if self.is_xdp() {
            programs.xdp(self.name())?.fd()?.as_fd().try_clone_to_owned()
        } else {
            programs.tc(self.name())?.fd()?.as_fd().try_clone_to_owned()
        };
        fd.context("the program's descriptor could not be copied")
    }
}

/// Programs with a test clock, for frames on the loopback interface.
pub fn programs(max_flows: u32, test_clock: bool) -> Result<Programs> {
    Programs::load(&LoadOptions { max_flows, test_clock, ..LoadOptions::new(&[LOOPBACK]) })
}

/// A program with its maps and the data read from them.
pub struct Machine {
    /// The maps.
    pub programs: Programs,
    /// Reader of the maps.
    pub tables: Tables,
    /// Events so far.
    pub events: Vec<EventSample>,
    hook: Hook,
    program: OwnedFd,
    ring: RingBuf<MapData>,
    bins: Option<Bins>,
    peers: Peers,
    window: Option<(u64, u64)>,
    undrained: u32,
    /// True to leave out bins that may continue, as while programs are attached.
    pub running: bool,
}

/// Programs that count many captures in turn, each loaded once.
#[derive(Debug)]
pub struct Machines {
    max_flows: u32,
    loaded: Vec<Machine>,
}

impl Machines {
    /// Nothing is loaded yet.
    pub fn new(max_flows: u32) -> Self {
        Self { max_flows, loaded: Vec::new() }
    }

    /// The program of a hook, with nothing counted yet.
    pub fn take(&mut self, hook: Hook) -> Result<Machine> {
        match self.loaded.iter().position(|machine| machine.hook == hook) {
            Some(at) => self.loaded.swap_remove(at).start_anew(),
            None => Machine::new(hook, self.max_flows),
        }
    }

    /// Keeps a program for the next capture.
    pub fn put(&mut self, machine: Machine) {
        self.loaded.push(machine);
    }
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("hook", &self.hook).finish_non_exhaustive()
    }
}

impl Machine {
    /// Loads the test build of a program.
    pub fn new(hook: Hook, max_flows: u32) -> Result<Self> {
        let mut programs = programs(max_flows, true)?;
        let program = hook.load(&mut programs)?;
        let ring = programs.take_events().context("the ring buffer is taken")?;
        let link = programs.hash.index(LOOPBACK, hook == Hook::TcEgress);
        let links = vec![(u16::try_from(link)?, LINK.to_owned())];
        let cut = bins::cut(BIN_NS, 0);
        let bins = Bins::take(&mut programs, cut, BIN_NS, 0, links, None);
        Ok(Self {
            programs,
            tables: Tables::default(),
            events: Vec::new(),
            hook,
            program,
            ring,
            bins,
            peers: Peers::default(),
            window: None,
            undrained: 0,
            running: false,
        })
    }

    /// The same programs with nothing counted yet.
    pub fn start_anew(mut self) -> Result<Self> {
        while self.ring.next().is_some() {}
        self.programs.start_anew()?;
        Ok(Self {
            tables: Tables::default(),
            events: Vec::new(),
            bins: self.bins.map(|bins| bins.start_anew(BIN_NS, 0)),
            peers: Peers::default(),
            window: None,
            undrained: 0,
            running: false,
            ..self
        })
    }

    /// Sends one frame at its time.
    pub fn send(&mut self, frame: &Frame) -> Result<()> {
        self.send_unheard(frame)?;
        self.undrained += 1;
        if self.undrained >= DRAIN {
            self.drain()?;
        }
        Ok(())
    }

    /// Sends one frame without emptying the ring buffer.
    pub fn send_unheard(&mut self, frame: &Frame) -> Result<()> {
        self.programs.set_test_clock(frame.time_ns)?;
        let program = self.program.as_fd();
        let verdict = if self.hook.is_xdp() {
            test_run::xdp(program, &frame.data, 1)
        } else {
            test_run::tc(program, &frame.data, frame.wire_len, 1)
        };
        let verdict = verdict.with_context(|| {
            format!("{} with {} of {} bytes", self.hook.name(), frame.data.len(), frame.wire_len)
        })?;
        ensure!(verdict == self.hook.passes(), "{} returned {verdict}", self.hook.name());
        let time = frame.time_ns;
        self.window =
            Some(self.window.map_or((time, time), |(first, last)| (first.min(time), last.max(time))));
        Ok(())
    }

    /// The kernel's number of the link that frames are sent on.
    pub fn link(&self) -> u32 {
        self.programs.hash.index(LOOPBACK, self.hook == Hook::TcEgress)
    }

    /// Empties the ring buffer and returns the raw records.
    pub fn records(&mut self) -> Result<Vec<EventRecord>> {
        let mut records = Vec::new();
        while let Some(item) = self.ring.next() {
            records.push(event::read(&item).with_context(|| format!("an event of {} bytes", item.len()))?);
        }
        Ok(records)
    }

    /// Empties the ring buffer.
    pub fn drain(&mut self) -> Result<()> {
        self.undrained = 0;
        if let Some(bins) = &mut self.bins {
            bins.drain();
        }
        let link = self.link();
        while let Some(item) = self.ring.next() {
            let Some(record) = event::read(&item) else {
                bail!("an event of {} bytes", item.len());
            };
            drop(item);
            let headers = record.headers.get(..usize::from(record.headers_len)).context("headers_len")?;
            let EventRecord { key, bth_offset, .. } = record;
            ensure!(u32::from(key.link) == link, "an event of link {}", key.link);
            if record.events & Event::GSI != 0 {
                self.peers.observe(key.family, key.src, key.dst, headers, usize::from(bth_offset));
            }
            self.events.push(EventSample {
                time_ns: record.time_ns,
                key: rocescope_common::account::FlowKey { link: 0, ..key },
                events: record.events,
                opcode: record.opcode,
                tos: record.tos,
                src_port: record.src_port,
                psn: record.psn,
                missing: event::missing(&record),
                aeth: record.aeth,
                wire_len: record.wire_len,
                bth_offset,
                headers: headers.to_vec().into(),
            });
        }
        Ok(())
    }

    /// Retires all flows, whatever their state.
    pub fn retire(&mut self) -> Result<()> {
        self.drain()?;
        let flows = self.tables.read(&self.programs)?.flows;
        let Self { tables, programs, bins, .. } = self;
        tables.retire_idle_telling(
            programs,
            &flows,
            u64::MAX,
            |_, _| true,
            |programs, gone| match bins {
                Some(bins) => bins.retire(programs, gone),
                None => Ok(()),
            },
        )?;
        Ok(())
    }

    /// All counts so far, in the form of a replay.
    pub fn sample(&mut self) -> Result<Sample> {
        self.drain()?;
        let mut reading = self.tables.read(&self.programs)?;
        let last_ns = self.window.map(|(_, last)| last);
        if let Some(bins) = &mut self.bins {
            bins.settle(&self.programs, &reading, self.running.then_some(last_ns.unwrap_or(0)))?;
        }
        let number = self.link();
        let kernel_link = u16::try_from(number)?;
        for flow in &mut reading.flows {
            ensure!(flow.key.link == kernel_link, "a flow of link {}", flow.key.link);
            flow.key.link = 0;
        }
        let counters = link_counters(&self.programs, number)?;
        let mut link = LinkSample { name: LINK.to_owned(), ..LinkSample::default() };
        fill_link(&mut link, &counters, self.tables.retired(kernel_link));
        let tuples = self.tables.tuples();
        let retired = tuples.marking().map(|(_, marked)| (0, marked));
        let links = vec![link];
        let marking = marking::by_link(&links, &reading.flows, &reading.extra, retired);
        let traffic = match &self.bins {
            Some(bins) => {
                let now_ns = last_ns.unwrap_or(0);
                Some(Arc::new(bins.metrics(&self.programs, &reading, &[counters], now_ns, last_ns)?))
            }
            None => None,
        };
        Ok(Sample {
            time_ns: self.window.map_or(0, |(_, last)| last),
            kind: SourceKind::Replay,
            inputs: vec![LINK.to_owned()],
            window: self.window,
            links,
            flows: reading.flows,
            extra: reading.extra,
            retired_tuples: tuples
                .tuples()
                .iter()
                .map(|tuple| rocescope::sample::RetiredTuple { link: 0, ..*tuple })
                .collect(),
            retired_unattributed: tuples.unattributed(),
            peers: self.peers.peers().clone(),
            events_dropped: Some(counters.events_dropped),
            metrics: Metrics { marking, traffic, ..Metrics::default() },
            ..Sample::default()
        })
    }
}
