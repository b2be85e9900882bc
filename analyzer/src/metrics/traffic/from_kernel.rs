//! The traffic in time and by hosts, from what the kernel programs tell of each flow bin by bin.
//!
//! The same figures as from single packets, because a record never spans two bins nor a silence
//! between two flowlets. Records wait here until no more can come of their bins, and then pass in the
//! order of time.

use rocescope_common::abi::Counter;
use rocescope_common::account::flowlet::Flowlet;
use rocescope_common::account::message::{ByOperation, FrameSizes};
use rocescope_common::account::{FlowBin, FlowKey};

use super::bins::{Bin, BinTotals};
use super::flowlets::{EndedFlowlets, FlowletState, Flowlets, Record};
use super::hosts::{BinPackets, NO_PAIR, Pairs};
use super::{LinkTraffic, Traffic};

/// State of one flow.
#[derive(Clone, Copy, Debug)]
struct Flow {
    key: FlowKey,
    pair: u32,
    /// True if its packets count; false if the user's filter excludes them.
    shown: bool,
    flowlet: Flowlet,
    /// The latest records that were read from its slot and have not come out of the ring buffer since; the newest
    /// first. Two, because a program may be preempted before it submits the one, and meanwhile the next is read.
    taken: [FlowBin; 2],
}

impl Flow {
    /// Part of a record that was read already.
    fn taken_of(&mut self, bin: &FlowBin) -> Option<&mut FlowBin> {
        self.taken.iter_mut().find(|taken| taken.packets != 0 && taken.is_part_of(bin))
    }
}

/// A record that waits for its bin to pass.
#[derive(Clone, Copy, Debug)]
struct WaitingBin {
    bin: FlowBin,
    link: u16,
    pair: u32,
}

/// State of a flow that only the kernel knows.
#[derive(Clone, Copy, Debug)]
pub struct KernelFlowState {
    /// Slot of the flow.
    pub slot: u32,
    /// A message has begun and not ended.
    pub message_open: bool,
    /// PSN and time of its latest request that wants an answer, in the kernel's clock.
    pub request: Option<(u32, u64)>,
    /// PSN and time of its latest answer.
    pub answer: Option<(u32, u64)>,
}

/// Further facts of a link.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkExtras {
    /// Frames by length; `None` where those of some flows are left out.
    pub frame_sizes: Option<FrameSizes>,
    /// Packets of records that got lost.
    pub lost: Counter,
    /// Its last frame of any kind, Unix time, where that is known.
    pub last_ns: Option<u64>,
}

/// Collects all of this.
#[derive(Debug)]
pub struct Collector {
    bin_ns: u64,
    /// Difference from the kernel's clock to Unix time, ns.
    shift_ns: i64,
    flows: Vec<Option<Flow>>,
    waiting: Vec<WaitingBin>,
    links: Vec<Link>,
    pairs: Pairs,
    ended: EndedFlowlets,
}

#[derive(Clone, Debug, Default)]
struct Link {
    folded: BinTotals,
    open: Bin,
}

impl Collector {
    /// Without records; bins of this length. `shift_ns` makes a time of the kernel's clock Unix time.
    pub fn new(bin_ns: u64, shift_ns: i64) -> Self {
        Self {
            bin_ns: bin_ns.max(1),
            shift_ns,
            flows: Vec::new(),
            waiting: Vec::new(),
            links: Vec::new(),
            pairs: Pairs::by_flow(),
            ended: EndedFlowlets::default(),
        }
    }

    /// True if the flow of a slot is known.
    pub fn knows(&self, slot: u32) -> bool {
        self.flow(slot).is_some()
    }

    fn flow(&self, slot: u32) -> Option<&Flow> {
        self.flows.get(slot as usize)?.as_ref()
    }

    /// Says which flow has a slot; its link is that of the sample. Flows are named in the order in which they appeared.
    pub fn name(&mut self, slot: u32, key: &FlowKey, shown: bool) {
        let at = slot as usize;
        if at >= self.flows.len() {
            self.flows.resize(at + 1, None);
        }
        let pair = if shown { self.pairs.number(key, 0) } else { NO_PAIR };
        if let Some(place) = self.flows.get_mut(at) {
            *place = Some(Flow {
                key: *key,
                pair,
                shown,
                flowlet: Flowlet::default(),
                taken: [FlowBin::default(); 2],
            });
        }
    }

    /// Takes in a record of the kernel. False when its flow is not known, and it counts nowhere.
    pub fn tell(&mut self, slot: u32, bin: &FlowBin) -> bool {
        let Some(Some(flow)) = self.flows.get_mut(slot as usize) else { return false };
        let mut more = *bin;
        if let Some(taken) = flow.taken_of(bin) {
            more = bin.since(taken);
            *taken = FlowBin::default();
        }
        self.count(slot, &more);
        true
    }

    /// Takes in a record that the kernel still keeps, and may tell later.
    pub fn at_hand(&mut self, slot: u32, bin: &FlowBin) {
        let Some(Some(flow)) = self.flows.get_mut(slot as usize) else { return };
        if bin.packets == 0 || flow.taken.contains(bin) {
            return;
        }
        let mut more = *bin;
        if let Some(taken) = flow.taken_of(bin) {
            more = bin.since(taken);
            *taken = *bin;
        } else {
            flow.taken = [*bin, flow.taken[0]];
        }
        self.count(slot, &more);
    }

    fn count(&mut self, slot: u32, bin: &FlowBin) {
        let Some(Some(flow)) = self.flows.get_mut(slot as usize) else { return };
        if !flow.shown || bin.packets == 0 {
            return;
        }
        if let Some(mut data) = bin.data() {
            data.start_ns = data.start_ns.saturating_add_signed(self.shift_ns);
            data.end_ns = data.end_ns.saturating_add_signed(self.shift_ns);
            if let Some(before) = flow.flowlet.merge(&data) {
                self.ended.push(Record::of(&before, flow.pair, flow.key.dest_qp));
            }
        }
        self.waiting.push(WaitingBin { bin: *bin, link: flow.key.link, pair: flow.pair });
    }

    /// Folds every bin that ends at `until_ns` (in the kernel's clock) or before. Records that come later are late.
    pub fn fold(&mut self, until_ns: u64) {
        let until = until_ns.saturating_add_signed(self.shift_ns) / self.bin_ns;
        let shift_ns = self.shift_ns;
        let index = |bin: &FlowBin| bin.start_ns.saturating_add_signed(shift_ns) / self.bin_ns;
        let mut passed: Vec<(u64, WaitingBin)> = Vec::new();
        self.waiting.retain(|waiting| {
            let index = index(&waiting.bin);
            let over = index < until || until_ns == u64::MAX;
            if over {
                passed.push((index, *waiting));
            }
            !over
        });
        // Of one bin in the order in which they came: who is the first to fill a place may matter.
        passed.sort_by_key(|(index, _)| *index);
        for (index, WaitingBin { bin, link, pair }) in passed {
            let at = usize::from(link);
            if at >= self.links.len() {
                self.links.resize_with(at + 1, Link::default);
            }
            if let Some(link) = self.links.get_mut(at) {
                if link.open.index != index {
                    link.folded.fold(&std::mem::take(&mut link.open));
                    link.open.index = index;
                }
                link.open.bytes += u64::from(bin.bytes);
                link.open.packets += u64::from(bin.packets);
                link.open.ce += u64::from(bin.ce);
                link.open.cnp += u64::from(bin.cnp);
            }
            let (first_ns, last_ns) = bin.data().map_or((0, 0), |data| (data.start_ns, data.end_ns));
            let seen = BinPackets {
                bin: index,
                first_ns: first_ns.saturating_add_signed(shift_ns),
                last_ns: last_ns.saturating_add_signed(shift_ns),
                packets: u64::from(bin.packets),
                bytes: u64::from(bin.bytes),
                data_packets: u64::from(bin.data_packets()),
                data_bytes: u64::from(bin.data_bytes()),
                ce: u64::from(bin.ce),
                gaps: u64::from(bin.gaps),
            };
            self.pairs.packets(pair, seen);
        }
        for link in &mut self.links {
            link.folded.fold(&std::mem::take(&mut link.open));
        }
    }

    /// The flow of a slot was retired, and all its records are taken in.
    pub fn retired(&mut self, slot: u32) {
        let Some(place) = self.flows.get_mut(slot as usize) else { return };
        if let Some(flow) = place.take()
            && flow.flowlet.is_some()
        {
            self.ended.push(Record::of(&flow.flowlet, flow.pair, flow.key.dest_qp));
        }
    }

    /// Traffic so far: of bins that have passed, and of flowlets up to `end_ns` (in the kernel's clock).
    pub fn metrics(
        &self,
        end_ns: u64,
        extras: &[LinkExtras],
        kinds: Option<ByOperation>,
        states: &[KernelFlowState],
    ) -> Traffic {
        let unix = |at: Option<(u32, u64)>| {
            at.map(|(psn, time_ns)| (psn, time_ns.saturating_add_signed(self.shift_ns)))
        };
        let standing = |state: &KernelFlowState| {
            let flow = self.flow(state.slot).filter(|flow| flow.pair != NO_PAIR)?;
            Some(FlowletState {
                flowlet: Record::of(&flow.flowlet, flow.pair, flow.key.dest_qp),
                message_open: state.message_open,
                messages: None,
                request: unix(state.request).into(),
                answer: unix(state.answer).into(),
            })
        };
        let links = extras.iter().enumerate().map(|(at, extras)| LinkTraffic {
            bursts: self.links.get(at).and_then(|link| link.folded.bursts(self.bin_ns)),
            frame_sizes: extras.frame_sizes,
            last_ns: extras.last_ns,
            lost: extras.lost,
        });
        Traffic {
            bin_ns: self.bin_ns,
            end_ns: Some(end_ns.saturating_add_signed(self.shift_ns)),
            links: links.collect(),
            pairs: self.pairs.pairs().to_vec(),
            targets: self.pairs.targets(),
            left_out: self.pairs.left_out(),
            kinds,
            flowlets: Flowlets {
                ended: self.ended.clone(),
                standing: states.iter().filter_map(standing).collect(),
            },
        }
    }
}

#[cfg(test)]
#[path = "from_kernel_tests.rs"]
mod tests;
