//! Memory and CPU time of this process's kernel programs, from `/proc/self/fdinfo`. No privilege is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Shortest time between two readings: they open every descriptor of the process, and the figures move slowly.
const EVERY: Duration = Duration::from_secs(5);

/// Memory and CPU time of kernel programs and maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Memory of programs and maps, in bytes; `None` if none is open or the kernel does not report it.
    pub memory_bytes: Option<u64>,
    /// Run time of programs by type, in nanoseconds; empty if the kernel does not measure it.
    pub run_ns: BTreeMap<&'static str, u64>,
    /// Programs and maps already counted, since one may be open several times.
    seen: BTreeSet<(bool, u64)>,
    /// The time at which it was read.
    read: Option<Instant>,
}

impl Usage {
    /// Becomes that of this process at `now`, unless it was read a moment ago.
    pub fn refresh(&mut self, now: Instant) {
        if self.read.is_none_or(|read| now.saturating_duration_since(read) >= EVERY) {
            *self = Self { read: Some(now), ..Self::of_self() };
        }
    }

    fn of_self() -> Self {
        let mut usage = Self::default();
        let Ok(entries) = std::fs::read_dir("/proc/self/fdinfo") else { return usage };
        for entry in entries.flatten() {
            // The descriptor may have been closed meanwhile.
            if let Ok(text) = std::fs::read_to_string(entry.path()) {
                usage.add(&text);
            }
        }
        usage
    }

    /// Adds the usage of one descriptor; those of other objects are ignored.
    pub fn add(&mut self, text: &str) {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.trim().parse::<u64>().ok()
        };
        let kind = field("prog_type");
        let id = match kind {
            Some(_) => field("prog_id").map(|id| (true, id)),
            None => field("map_type").and_then(|_| field("map_id")).map(|id| (false, id)),
        };
        let Some(id) = id else { return };
        if !self.seen.insert(id) {
            return;
        }
        if let Some(bytes) = field("memlock") {
            self.memory_bytes = Some(self.memory_bytes.unwrap_or(0).saturating_add(bytes));
        }
        // Both are 0 while the kernel does not measure.
        if let (Some(kind), Some(ns)) = (kind, field("run_time_ns").filter(|ns| *ns > 0)) {
            let sum = self.run_ns.entry(name(kind)).or_default();
            *sum = sum.saturating_add(ns);
        }
    }
}

/// The name of a program type (`enum bpf_prog_type`), of those that rocescope uses.
const fn name(kind: u64) -> &'static str {
    match kind {
        2 => "kprobe",
        3 => "tc",
        5 => "tracepoint",
        6 => "xdp",
        17 => "raw_tracepoint",
        26 => "tracing",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_maps_count_once() {
        let mut usage = Usage::default();
        let program = |id: u64, kind: u64, ns: u64| {
            format!(
                "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t7\nprog_type:\t{kind}\nprog_jited:\t1\n\
                 prog_tag:\ta04f5eef06a7f555\nmemlock:\t8192\nprog_id:\t{id}\nrun_time_ns:\t{ns}\nrun_cnt:\t9\n"
            )
        };
        let map =
            "pos:\t0\nmap_type:\t2\nkey_size:\t4\nvalue_size:\t64\nmemlock:\t4096\nmap_id:\t21\nfrozen:\t0\n";
        let link = "pos:\t0\nlink_type:\txdp\nlink_id:\t3\nprog_tag:\ta04f\nprog_id:\t21\nifindex:\t2\n";
        for text in [
            &program(21, 6, 500),
            &program(21, 6, 600),
            &program(22, 3, 0),
            map,
            map,
            link,
            "pos:\t0\n",
            "memlock: x",
        ] {
            usage.add(text);
        }
        assert_eq!(usage.memory_bytes, Some(2 * 8_192 + 4_096));
        assert_eq!(usage.run_ns, [("xdp", 500)].into());
        assert_eq!(Usage::default().memory_bytes, None);
    }

    #[test]
    fn descriptors_are_read_again_after_a_while() {
        let old = || Usage { memory_bytes: Some(7), ..Usage::default() };
        let (mut usage, now) = (old(), Instant::now());
        usage.refresh(now);
        assert_eq!((usage.memory_bytes, usage.read), (None, Some(now)), "this process has no programs");
        let known = Usage { read: Some(now), ..old() };
        for (later, memory) in [(EVERY / 2, Some(7)), (EVERY, None)] {
            usage = known.clone();
            usage.refresh(now + later);
            assert_eq!(usage.memory_bytes, memory, "{later:?}");
        }
    }
}
