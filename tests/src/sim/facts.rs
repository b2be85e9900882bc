//! What the simulator did: counts for the truth, and whether the fault of a scenario occurred.

use std::collections::BTreeSet;

use super::tap::Counted;
use super::truth::Truth;

/// Counts of actual events, for the truth.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// RoCE packets lost in the fabric.
    pub lost: u64,
    /// Requests and READ responses among these.
    pub lost_data: u64,
    /// Requests among these of which the receiver had another copy: nobody sends them again.
    pub lost_copies: u64,
    /// RoCE packets lost before the first between the same hosts arrived: captures of both ends do not show whether
    /// they were lost, or the second one began later.
    pub lost_first: u64,
    /// Hosts of which packets arrived at others, with these.
    pub arrived: BTreeSet<(usize, usize)>,
    /// Transport timeouts of all requesters.
    pub timeouts: u64,
    /// Of these, those whose oldest packet without an ACK had arrived.
    pub acks_lost: u64,
    /// Of these, those for which an ACK had been sent: packets that ask for none may have none yet.
    pub acks_sent: u64,
    /// Packets that a fault delayed.
    pub delayed: u64,
    /// Packets of which a fault changed headers or payload.
    pub changed: u64,
    /// Packets that a fault sent twice.
    pub copied: u64,
    /// Queue pairs in the error state.
    pub died: Vec<usize>,
    /// CE marks set.
    pub marked: u64,
    /// Time of the first mark and of the last.
    pub marked_ns: Option<(u64, u64)>,
    /// Packets that a switch trimmed.
    pub trimmed: u64,
    /// Packets that a port sent after its rate had changed.
    pub slowed: u64,
    /// Queue pairs whose process was stopped.
    pub frozen: u64,
    /// Steps of all members of collectives.
    pub steps: u64,
    /// When the first member sent, and when the last data arrived, by step.
    pub data_ns: Vec<(u64, u64)>,
    /// Steps of a late member.
    pub late: u64,
    /// Steps with more computing than the first.
    pub grown: u64,
    /// Start of the first of these.
    pub grown_ns: Option<u64>,
    /// Steps after a pause.
    pub rested: u64,
    /// Members that stopped permanently.
    pub hung: u64,
    /// Longest time from a request's last packet to the ACK that covers it, on the cable of the sender, by queue pair.
    pub longest_ack_ns: Vec<u64>,
}

impl Facts {
    /// Counts a step with more computing.
    pub(crate) fn grow(&mut self, now: u64) {
        self.grown += 1;
        self.grown_ns.get_or_insert(now);
    }

    /// A member sends its first data of a step.
    pub(crate) fn begin_data(&mut self, step: u64, now: u64) {
        if self.data_ns.len() as u64 <= step {
            self.data_ns.push((now, now));
        }
    }

    /// Data of a step arrives.
    pub(crate) fn end_data(&mut self, step: u64, now: u64) {
        if let Some((_, end_ns)) = self.data_ns.get_mut(step as usize) {
            *end_ns = now;
        }
    }

    /// By how much steps are longer from this time on: ratio of medians, without the step in which it lies.
    pub(crate) fn step_growth(&self, from_ns: u64) -> f64 {
        let [before, after] = self.steps_around(from_ns).map(|steps| median(&steps));
        after / before.max(1.0) - 1.0
    }

    /// Share of the growth of the steps that is not silence of all members until the next step, of the means over the
    /// middle half of the steps by length. More than 1 where this silence becomes shorter, since the members no longer
    /// begin their steps at the same time.
    pub(crate) fn network_growth(&self, from_ns: u64) -> f64 {
        let [before, after] = self.steps_around(from_ns).map(|mut steps| {
            steps.sort_unstable();
            let middle = &steps[steps.len() / 4..steps.len() - steps.len() / 4];
            let mean = |sum: u64| sum as f64 / middle.len().max(1) as f64;
            (mean(middle.iter().map(|step| step.0).sum()), mean(middle.iter().map(|step| step.1).sum()))
        });
        1.0 - (after.1 - before.1) / (after.0 - before.0)
    }

    /// The steps before a time and after it, without the one in which it lies: length from first data to first data,
    /// and the silence of all members until the next.
    fn steps_around(&self, from_ns: u64) -> [Vec<(u64, u64)>; 2] {
        let steps = || self.data_ns.windows(2).map(|step| (step[0].0, step[0].1, step[1].0));
        let of = |(start, end, next): (u64, u64, u64)| (next - start, next.saturating_sub(end));
        let before = steps().filter(|(.., next)| *next < from_ns).map(of).collect();
        [before, steps().filter(|(start, ..)| *start >= from_ns).map(of).collect()]
    }

    /// Counts a mark at this time.
    pub(crate) fn mark(&mut self, now: u64) {
        self.marked += 1;
        self.marked_ns = Some((self.marked_ns.map_or(now, |(first, _)| first), now));
    }
}

/// Median length of steps.
fn median(steps: &[(u64, u64)]) -> f64 {
    let mut lengths: Vec<u64> = steps.iter().map(|step| step.0).collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / 2).copied().unwrap_or(0) as f64
}

impl Truth {
    /// True if the fault of this kind of scenario occurred, from what the simulator did and the packets seen at the
    /// taps.
    pub fn happened(&self, kind: &str, name: &str) -> bool {
        let Some((_, first)) = self.counted.first() else { return false };
        let did = &self.facts;
        let seen = |opcode: u8| first.opcodes.get(&opcode).copied().unwrap_or(0);
        match kind {
            "loss" => did.lost >= 10 && did.died.is_empty(),
            // The path of one queue pair is dead for a while, or to the end.
            "timeouts" if name == "timeouts-one-queue-pair-stalls" => {
                did.timeouts >= 3 && did.died.is_empty()
            }
            "timeouts" if name == "timeouts-one-queue-pair-stalls-to-the-end" => did.died.len() == 1,
            "timeouts" => did.timeouts >= 5 && did.died.is_empty(),
            "held up" => {
                let others = if name.contains("beside") { 50..=100 } else { 0..=0 };
                did.delayed >= 100 && did.timeouts == 0 && others.contains(&first.others)
            }
            "died" if name == "died-stops-in-mid-message" => did.frozen > 0 && did.died.is_empty(),
            "died" if name == "died-in-mid-message-after-loss" => {
                did.frozen > 0 && did.lost >= 10 && did.died.is_empty()
            }
            "died" => !did.died.is_empty(),
            "nak" => did.died.len() == 2 && first.other_naks == 1,
            "incast" | "ecn" => did.marked + did.lost >= 100,
            "rnr" => first.rnr_naks >= 20,
            "cnp" => seen(0x81) >= 20,
            "pfc" => first.pauses >= 10,
            "cm" => seen(0x64) >= 1,
            "icrc" => did.changed >= 5,
            "diff" if name.ends_with("-steps") => did.grown >= 80 && did.slowed == 0,
            "diff" => did.lost + did.marked + did.slowed >= 20,
            "rewritten" => did.changed >= 10,
            "duplicates" if name == "duplicates-made-by-network" => did.copied >= 20,
            // Beside the copies, half of all packets.
            "duplicates" => first.packets >= 1_000,
            "reordering" => did.delayed >= 10 && did.died.is_empty(),
            "latency" => did.delayed >= 1 && did.lost == 0,
            "uplinks" if name.contains("uneven") => self.is_uneven(),
            "uplinks" => did.marked + did.lost + did.delayed >= 20,
            "entropy" => first.qps.len() >= 8 * first.ports.len(),
            "dscp" => first.dscps.values().filter(|packets| **packets >= 100).count() == 2,
            "psn" => first.overlaps >= 10,
            "foreign" if name == "foreign-traffic" => first.others >= 1_000,
            "foreign" => groups(first) == 2,
            "mtu" if name.contains("black-hole") => did.lost_data >= 10,
            "mtu" => first.pairs.values().any(|(_, largest)| *largest == 1_024),
            "end" if name == "died-number-reused" => first.retransmissions == 3 && first.jumps == 1,
            "end" => first.retransmissions == 3 && seen(0x64) == 1,
            "control" => did.timeouts == 0 && did.died.is_empty() && did.lost <= 3,
            _ => self.happened_in_steps(kind, name),
        }
    }

    /// The same for jobs in steps.
    fn happened_in_steps(&self, kind: &str, name: &str) -> bool {
        let did = &self.facts;
        match kind {
            "straggler" => did.late >= 8 && did.lost == 0,
            "slow link" if name.contains("marked") => did.slowed >= 1_000 && did.marked >= 100,
            "slow link" => did.slowed >= 1_000 && did.late == 0,
            "slower" if name == "slower-by-loss" => did.lost >= 10,
            "slower" if name.contains("network") => did.slowed >= 1_000 && did.grown == 0,
            "slower" => did.grown >= 80 && did.slowed == 0,
            "stalled" => did.hung == 1,
            "steps" if name == "steps-one-long" => did.rested == 4 && did.steps == 4 * 30,
            "steps" if name == "steps-shorter-from-the-middle" => did.grown == 4 * 20 && did.steps == 4 * 40,
            "steps" => did.steps >= 4 * 30,
            _ => false,
        }
    }

    /// True if twice as many packets passed one of the parallel taps as another.
    fn is_uneven(&self) -> bool {
        let packets = || self.counted.iter().map(|(_, counted)| counted.packets);
        packets().max().zip(packets().min()).is_some_and(|(most, least)| most >= 2 * least)
    }
}

/// Number of groups of hosts that exchanged RoCE packets with one another, directly or through others.
fn groups(counted: &Counted) -> usize {
    let mut groups: Vec<BTreeSet<usize>> = Vec::new();
    for (a, b) in counted.pairs.keys() {
        let mut joined = BTreeSet::from([*a, *b]);
        groups.retain(|group| {
            let joins = group.contains(a) || group.contains(b);
            if joins {
                joined.extend(group);
            }
            !joins
        });
        groups.push(joined);
    }
    groups.len()
}
