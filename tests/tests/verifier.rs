//! The kernel accepts every program, in every variant that users or tests load, at a bounded cost.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::path::Path;

use aya::programs::ProgramInfo;
use rocescope::host::kernel::{KernelFacts, KernelVersion};
use rocescope::host::net::hook::FRAGS_SINCE;
use rocescope::source::live::load::{LoadOptions, Programs, names};
use rocescope_tests::kernel::machine::Hook;
use rocescope_tests::kernel::{available, memory};

/// The verifier's own limit is one million instructions. A program above this value would approach it, and take
/// noticeably long to load. Linux 6.1 processes some 15 % more than 6.18.
const MOST_VERIFIED: u32 = 400_000;
/// Documented limits of the product.
const MOST_MEMORY: u64 = 64 << 20;

fn info(programs: &mut Programs, name: &str) -> ProgramInfo {
    if name.contains("xdp") {
        programs.xdp(name).unwrap().info().unwrap()
    } else {
        programs.tc(name).unwrap().info().unwrap()
    }
}

/// First kernel that reports the number of verified instructions.
const COUNTED_SINCE: KernelVersion = KernelVersion::new(5, 16, 0);

fn kernel() -> KernelVersion {
    KernelFacts::read(Path::new("/")).version.unwrap()
}

/// The options with which `live` loads on this kernel.
fn as_here(interfaces: &[u32]) -> LoadOptions {
    LoadOptions { xdp_buff_len: kernel() >= FRAGS_SINCE, ..LoadOptions::new(interfaces) }
}

/// Older kernels have no programs for multi-buffer frames, and `live` loads none there.
fn is_for(name: &str, kernel: KernelVersion) -> bool {
    name != names::XDP_FRAGS || kernel >= FRAGS_SINCE
}

/// The loaded variants: every program with the usual options, and those of the two most different hooks with each
/// option changed alone and with all options that add code. The programs of the other hooks differ only in a
/// constant.
fn variants() -> Vec<(LoadOptions, &'static [&'static str])> {
    const EVERY: [&str; 17] = [
        names::XDP,
        names::XDP_FRAGS,
        names::TC_INGRESS,
        names::TC_EGRESS,
        names::TC_RAW_INGRESS,
        names::TC_RAW_EGRESS,
        names::BENCH_XDP_REACH,
        names::BENCH_XDP_ANSWERED,
        names::BENCH_XDP_TOGETHER,
        names::BENCH_XDP_PUBLISHED,
        names::BENCH_XDP_INSERT,
        names::BENCH_XDP_HASH,
        names::BENCH_XDP_EVENT,
        names::BENCH_TC_REACH,
        names::BENCH_TC_ANSWERED,
        names::FLOOR_XDP,
        names::FLOOR_TC,
    ];
    const BOTH: [&str; 2] = [names::XDP_FRAGS, names::TC_EGRESS];
    let usual = || LoadOptions { max_flows: 1024, ..as_here(&[1]) };
    vec![
        (usual(), &EVERY),
        (LoadOptions { full_order: true, ..usual() }, &BOTH),
        (LoadOptions { precise_clock: false, ..usual() }, &BOTH),
        (LoadOptions { test_clock: true, ..usual() }, &BOTH),
        (LoadOptions { events: false, ..usual() }, &BOTH),
        // The helper for XDP buffers does not affect the others.
        (LoadOptions { xdp_buff_len: false, ..usual() }, &[names::XDP, names::XDP_FRAGS]),
        (LoadOptions { log_level: 5, full_order: true, test_clock: true, ..usual() }, &BOTH),
    ]
}

#[test]
fn every_variant_of_every_program_is_verified_at_a_bounded_cost() {
    if !available() {
        return;
    }
    for (options, loaded) in variants() {
        for name in loaded.iter().filter(|name| is_for(name, kernel())) {
            let mut programs = Programs::load(&options).unwrap();
            let info = info(&mut programs, name);
            // The name shown by `bpftool prog`.
            let shown = info.name_as_str().unwrap();
            assert!(!shown.is_empty() && name.starts_with(shown), "{shown} of {name}");
            // Older kernels do not report it, but have loaded the program.
            let verified = info.verified_instruction_count();
            assert!(verified.is_some() || kernel() < COUNTED_SINCE, "{name}: not counted");
            let count = verified.map_or_else(|| "-".to_owned(), |count| count.to_string());
            println!(
                "{name:24} test clock {:5}, events {:5}, log {}, xdp_buff_len {:5}, full order {:5}, precise {:5}: \
                 {count:>6} instructions verified, {:5} bytes",
                options.test_clock,
                options.events,
                options.log_level,
                options.xdp_buff_len,
                options.full_order,
                options.precise_clock,
                info.size_translated().unwrap(),
            );
            assert!(
                verified.is_none_or(|count| count > 0 && count < MOST_VERIFIED),
                "{name} with {options:?}: {count}"
            );
        }
    }
}

/// `rocescope bench` loads programs when it comes to them, behind whatever has taken the ring buffers.
#[test]
fn programs_load_after_the_ring_buffers_are_taken() {
    if !available() {
        return;
    }
    for precise_clock in [true, false] {
        let options = LoadOptions { precise_clock, max_flows: 1024, ..as_here(&[1]) };
        let mut programs = Programs::load(&options).unwrap();
        let (_events, bins) = (programs.take_events().unwrap(), programs.take_bins());
        assert_eq!(bins.is_some(), precise_clock, "without the exact clock there are no bins");
        for name in [names::BENCH_XDP, names::TC_EGRESS] {
            info(&mut programs, name);
        }
    }
}

/// One set of maps serves all programs, so that several interfaces and hooks count in one table.
#[test]
fn all_programs_share_maps_of_less_than_64_mib() {
    if !available() {
        return;
    }
    let mut programs = Programs::load(&as_here(&[1])).unwrap();
    let hooks = Hook::ALL.iter().filter(|hook| is_for(hook.name(), kernel()));
    let infos: Vec<_> = hooks.map(|hook| info(&mut programs, hook.name())).collect();
    let maps = memory::maps(&infos).unwrap();
    for (name, cost) in &maps {
        println!("{name:24} {:8} entries {:10} bytes{}", cost.entries, cost.bytes, per_cpu(cost.per_cpu));
    }
    let sum: u64 = maps.values().map(|cost| cost.bytes).sum();
    let (per_cpu, shared): (Vec<_>, Vec<_>) = maps.values().partition(|cost| cost.per_cpu);
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    let cpus = cpus.trim().rsplit(['-', ',']).next().unwrap().parse::<u64>().unwrap() + 1;
    let each: u64 = per_cpu.iter().map(|cost| cost.bytes).sum::<u64>() / cpus;
    let shared: u64 = shared.iter().map(|cost| cost.bytes).sum();
    println!("{sum} bytes in all: {shared} shared, {each} for each of {cpus} CPUs");
    assert!(sum < MOST_MEMORY, "{sum}");
    // The largest hosts have some 512 CPUs.
    assert!(shared + 512 * each < MOST_MEMORY, "{shared} + 512 * {each}");
    // Every additional interface adds only the counters of its links.
    let most = Programs::load(&as_here(&(1..=64).collect::<Vec<_>>()));
    let mut most = most.unwrap();
    let infos = [names::XDP, names::TC_INGRESS].map(|name| info(&mut most, name));
    let maps = memory::maps(&infos).unwrap();
    let each = maps.values().filter(|cost| cost.per_cpu).map(|cost| cost.bytes).sum::<u64>() / cpus;
    let shared = maps.values().filter(|cost| !cost.per_cpu).map(|cost| cost.bytes).sum::<u64>();
    println!("with 64 interfaces: {shared} shared, {each} for each CPU");
    assert!(each < 72 << 10, "{each} for each CPU");
    assert!(most.map_bytes() < MOST_MEMORY);
}

fn per_cpu(yes: bool) -> &'static str {
    if yes { " (per CPU)" } else { "" }
}
