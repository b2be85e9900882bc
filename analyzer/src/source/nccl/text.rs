//! Responses in text, of NCCL 2.24 to 2.28.3: totals, and the ranks and processes that differ from the others.
//!
//! With `VERBOSE`, NCCL lists the members of each group that is smaller than half of its communicator. The operation
//! counts of unlisted ranks are unknown.

use super::{error_named, name, operation};
use crate::entity::nccl::{Answer, CommId, Communicator, OPERATIONS, Process, Rank, RankState};

/// Lines longer than this are cut: the longest that NCCL writes have 1,024 characters.
const MAX_LINE: usize = 4_096;
/// Maximum number of ranks kept of a response.
const MAX_RANKS: usize = 65_536;

/// Parses a response to `VERBOSE STATUS`. Accepts any bytes; unknown lines are counted.
pub fn answer(bytes: &[u8]) -> Answer {
    let mut reading = Reading::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line.get(..MAX_LINE).unwrap_or(line));
        reading.line(line.trim_end());
    }
    reading.finish()
}

/// Subject of the lines of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Block {
    #[default]
    Head,
    /// The table of communicators.
    Groups,
    /// Processes that did not respond.
    Incomplete,
    /// Processes considered dead.
    Dead,
    Timeout,
    /// A communicator.
    Communicator,
}

/// Property shared by the ranks listed next.
#[derive(Clone, Copy, Debug, Default)]
enum Trait {
    #[default]
    Missing,
    State(RankState),
    Launched(u64),
    Error(&'static str),
}

#[derive(Default)]
struct Reading {
    answer: Answer,
    block: Block,
    /// Ranks of a communicator, by group.
    sizes: Vec<Option<u32>>,
    /// Index of the communicator that the block concerns.
    current: usize,
    /// Operation with differing counts.
    operation: usize,
    common: Trait,
    ranks: usize,
    /// Processes that did not respond.
    missing: Vec<Process>,
}

impl Reading {
    fn line(&mut self, line: &str) {
        let text = line.trim_start();
        if text.is_empty() || text.starts_with(['=', '-']) {
            return;
        }
        if line.starts_with(' ') && !matches!(self.block, Block::Head | Block::Groups) {
            let known = match self.block {
                Block::Communicator => self.detail(text),
                Block::Timeout => text.starts_with("Encountered "),
                _ => self.process(text),
            };
            self.answer.not_understood += u64::from(!known);
            return;
        }
        self.heading(text);
    }

    /// A line that begins a block.
    fn heading(&mut self, text: &str) {
        if let Some(rest) = text.strip_prefix("NCCL version ") {
            self.answer.version = rest.split_whitespace().next().map(name);
        } else if text.starts_with('#') {
            self.begin_communicator(text);
        } else if text.starts_with("Communicators...") {
            let seconds = in_brackets(text).and_then(|seconds| seconds.strip_suffix('s')?.parse().ok());
            let time = seconds.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
            self.answer.collection_ns = time.map(crate::util::time::nanos);
        } else if text.starts_with("Group ") {
            self.block = Block::Groups;
        } else if self.block == Block::Groups && text.starts_with(|c: char| c.is_ascii_digit()) {
            self.group(text);
        } else {
            self.block = match text {
                "INCOMPLETE" => Block::Incomplete,
                "DEAD" => Block::Dead,
                "TIMEOUT" => Block::Timeout,
                "Errors" | "Warnings" => Block::Head,
                _ => return,
            };
        }
    }

    /// A row of the table: group, communicators, nodes, ranks per node, ranks per communicator, ranks, status, errors.
    fn group(&mut self, text: &str) {
        let mut words = text.split_whitespace();
        let communicators: u64 = words.nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        self.answer.communicators = self.answer.communicators.saturating_add(communicators);
        if self.sizes.len() < MAX_RANKS {
            self.sizes.push(words.nth(2).and_then(|word| word.parse().ok()));
        }
    }

    /// `#0-0 (27a079b828ff1a75) MISMATCH`; the same communicator may occur again.
    fn begin_communicator(&mut self, text: &str) {
        let Some(rest) = text.strip_prefix('#') else { return };
        let Some(hash) = in_brackets(text).and_then(|hash| u64::from_str_radix(hash, 16).ok()) else {
            return;
        };
        let group: Option<usize> = rest.split('-').next().and_then(|group| group.parse().ok());
        let size = group.and_then(|group| self.sizes.get(group).copied()).flatten();
        let id = CommId { hash, secondary: None };
        self.block = Block::Communicator;
        self.common = Trait::Missing;
        let listed = &mut self.answer.listed;
        self.current = listed.iter().position(|known| known.id == id).unwrap_or(listed.len());
        if self.current == listed.len() && self.ranks < MAX_RANKS {
            self.ranks += 1;
            let furthest = [None; OPERATIONS.len()];
            listed.push(Communicator { id, size, furthest, ranks: Vec::new(), seen_ns: 0 });
        }
    }

    /// A line of processes: `Process 3487984 on node 172.16.64.213 managing GPU 5`.
    fn process(&mut self, text: &str) -> bool {
        let Some(rest) = text.strip_prefix("Process ") else {
            // The number of missing processes, and lines without a process.
            return text.starts_with("Missing ")
                || text.contains(" considered dead ")
                || text.starts_with('[');
        };
        let mut words = rest.split_whitespace();
        let pid = words.next().and_then(|word| word.parse().ok());
        let host = words.nth(2).and_then(|word| word.parse().ok());
        let process = Process { host, pid };
        if self.block == Block::Dead && self.answer.dead.len() < MAX_RANKS {
            self.answer.dead.push(process);
        }
        if !self.missing.contains(&process) && self.missing.len() < 2 {
            self.missing.push(process);
        }
        pid.is_some()
    }

    /// A line about a communicator.
    fn detail(&mut self, text: &str) -> bool {
        const COUNTS: (&str, &str) = ("Communicator ranks have different ", " operation counts");
        if let Some(name) = text.strip_prefix(COUNTS.0).and_then(|rest| rest.strip_suffix(COUNTS.1)) {
            self.operation = operation(name);
            return true;
        }
        // Up to 2.25 without processes.
        let ranks = ["The missing rank", "The unknown rank"].iter().find_map(|of| text.strip_prefix(of));
        if let Some(ranks) = ranks {
            let numbers = ranks.trim_start_matches(['s', ':', ' ']).split(',');
            numbers.filter_map(|number| number.trim().parse().ok()).for_each(|rank| self.rank(rank, ""));
            return true;
        }
        if let Some(rest) = text.strip_prefix("Rank ") {
            let (own, process) = rest.split_once(" -- ").unwrap_or((rest, ""));
            let (number, says) = own.split_once(' ').unwrap_or((own, ""));
            let Ok(number) = number.parse() else { return false };
            if !says.is_empty() {
                let Some(common) = common(says) else { return false };
                self.take(common);
            }
            self.rank(number, process);
            return true;
        }
        if text.starts_with("Missing communicator data") {
            self.common = Trait::Missing;
            return true;
        }
        if text.starts_with(|c: char| c.is_ascii_digit())
            && let Some(common) = text.split_once(" ranks ").and_then(|(_, says)| common(says))
        {
            self.take(common);
            return true;
        }
        ["Communicator ranks have different status", "Initialization error", "Asynchronous error"]
            .iter()
            .any(|known| text.starts_with(known))
    }

    fn take(&mut self, common: Trait) {
        self.common = common;
        if let Trait::Launched(count) = common
            && let Some(one) = self.answer.listed.get_mut(self.current)
        {
            let most = &mut one.furthest[self.operation];
            *most = (*most).max(Some(count));
        }
    }

    /// Gives a rank the property of its group.
    fn rank(&mut self, number: u32, process: &str) {
        let Some(one) = self.answer.listed.get_mut(self.current) else { return };
        let at = one.ranks.iter().rposition(|rank| rank.rank == number).unwrap_or(one.ranks.len());
        if at == one.ranks.len() {
            if self.ranks >= MAX_RANKS {
                return;
            }
            self.ranks += 1;
            one.ranks.push(Rank::new(number));
        }
        let Some(rank) = one.ranks.get_mut(at) else { return };
        match self.common {
            Trait::Missing => rank.state = Some(RankState::Unresponsive),
            // A missing rank has no state of its own.
            Trait::State(RankState::NoComm) if rank.state == Some(RankState::Unresponsive) => {}
            Trait::State(state) => rank.state = Some(state),
            Trait::Launched(count) => rank.launched[self.operation] = Some(count),
            Trait::Error(error) => rank.error = Some(error),
        }
        // `GPU 0 (NVML 4) managed by process 483072 on node 172.16.64.210`.
        let Some((gpu, of)) = process.split_once(" managed by process ") else { return };
        rank.gpu = gpu.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        let mut words = of.split_whitespace();
        rank.process.pid = words.next().and_then(|word| word.parse().ok());
        rank.process.host = words.nth(2).and_then(|word| word.parse().ok());
    }

    fn finish(mut self) -> Answer {
        // Up to 2.25 a missing rank is named without its process: if there is one of each, they belong together.
        if let [process] = self.missing[..] {
            let ranks = self.answer.listed.iter_mut().flat_map(|one| &mut one.ranks);
            let mut missing = ranks.filter(|rank| rank.state == Some(RankState::Unresponsive));
            if let (Some(only), None) = (missing.next(), missing.next()) {
                only.process = process;
            }
        }
        let dead = &self.answer.dead;
        let ranks = self.answer.listed.iter_mut().flat_map(|one| &mut one.ranks);
        for rank in ranks.filter(|rank| rank.process.pid.is_some() && dead.contains(&rank.process)) {
            rank.state = Some(RankState::Dead);
        }
        self.answer
    }
}

/// `have status RUNNING`, `has launched up to operation 6650`, `reported System error`.
fn common(says: &str) -> Option<Trait> {
    let says = says.strip_prefix("have ").or_else(|| says.strip_prefix("has ")).unwrap_or(says);
    if let Some(state) = says.strip_prefix("status ") {
        return RankState::named(state.trim()).map(Trait::State);
    }
    if let Some(count) = says.strip_prefix("launched up to operation ") {
        return count.trim().parse().ok().map(Trait::Launched);
    }
    if says.starts_with("not launched any operations") {
        return Some(Trait::Launched(0));
    }
    says.strip_prefix("reported ").map(|error| Trait::Error(error_named(error.trim())))
}

fn in_brackets(text: &str) -> Option<&str> {
    Some(text.split_once('(')?.1.split_once(')')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::nccl::server;

    #[test]
    fn ranks_that_launched_less_than_the_others() {
        for (text, op) in [(server::TEXT_2_24, "collective"), (server::TEXT_2_27, "AllReduce")] {
            let read = answer(text.as_bytes());
            assert_eq!((read.communicators, read.not_understood), (1, 0), "{read:?}");
            let [one] = &read.listed[..] else { panic!("{read:?}") };
            assert_eq!((one.size, one.id.hash), (Some(32), 0x27a0_79b8_28ff_1a75));
            assert_eq!(one.furthest[operation(op)], Some(6_650));
            let behind: Vec<_> =
                one.ranks.iter().map(|rank| (rank.rank, rank.behind(&one.furthest))).collect();
            assert_eq!(behind, [(0, 1), (2, 1)]);
            let process = Process { host: "172.16.64.210".parse().ok(), pid: Some(483_072) };
            assert_eq!((one.ranks[0].process, one.ranks[0].gpu), (process, Some(0)));
        }
        assert_eq!(answer(server::TEXT_2_27.as_bytes()).version.as_deref(), Some("2.27.3+cuda12.9"));
        assert_eq!(answer(server::TEXT_2_27.as_bytes()).collection_ns, Some(3_000_000));
    }

    #[test]
    fn processes_that_are_dead_or_do_not_answer() {
        let read = answer(server::TEXT_DEAD.as_bytes());
        assert_eq!((read.not_understood, read.communicators), (0, 2), "{read:?}");
        assert_eq!(read.dead, [Process { host: "172.16.64.213".parse().ok(), pid: Some(3_487_984) }]);
        let states: Vec<_> = read.listed[0].ranks.iter().map(|rank| (rank.rank, rank.state)).collect();
        assert_eq!(states, [(21, Some(RankState::Dead)), (22, Some(RankState::Unresponsive))]);
        assert_eq!(read.listed[0].ranks[0].gpu, Some(5));
        // Up to 2.25 without processes.
        let old = "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 2 ranks\n  The missing ranks: 3,21\n";
        let numbers =
            |text: &str| answer(text.as_bytes()).listed[0].ranks.iter().map(|r| r.rank).collect::<Vec<_>>();
        assert_eq!(numbers(old), [3, 21]);
    }

    #[test]
    fn errors_and_states_of_ranks() {
        let read = answer(server::TEXT_ERRORS.as_bytes());
        assert_eq!(read.not_understood, 0, "{read:?}");
        let ranks = &read.listed[0].ranks;
        let of = |number: u32| ranks.iter().find(|rank| rank.rank == number).unwrap();
        assert_eq!(of(7).error, Some("System error"));
        assert_eq!((of(3).error, of(4).error), (Some("Remote process error"), Some("Remote process error")));
        assert_eq!((of(0).state, of(20).state), (Some(RankState::Running), Some(RankState::Finalize)));
        assert_eq!(of(0).launched, crate::entity::nccl::Launched::default());
    }

    #[test]
    fn no_bytes_make_it_fail() {
        let mut bytes = server::TEXT_ERRORS.as_bytes().to_vec();
        for at in 0..bytes.len() {
            let _cut = answer(&bytes[..at]);
            let kept = bytes[at];
            for odd in [0, b'#', b'(', b'\n', 0xFF] {
                bytes[at] = odd;
                let _changed = answer(&bytes);
            }
            bytes[at] = kept;
        }
        let strange = "#0-0 (1) MISMATCH\n  Rank 99999999999 -- \n  Something new\n";
        assert_eq!(answer(strange.as_bytes()).not_understood, 2);
    }
}
