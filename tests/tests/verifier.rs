//! The kernel takes every program, in every variant that users or tests load, at a cost that is
//! known and bounded.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::os::fd::AsFd as _;

use aya::programs::ProgramInfo;
use rocescope::source::live::{LoadOptions, Programs};
use rocescope_tests::kernel::machine::Hook;
use rocescope_tests::kernel::{available, memory};

/// The verifier itself gives up at a million. A program that needs more than this would be on its
/// way there, and take noticeably long to load. Linux 6.1 walks some 15 % further than 6.18.
const MOST_VERIFIED: u32 = 400_000;
/// Limits that the product promises.
const MOST_MEMORY: u64 = 64 << 20;

fn info(programs: &mut Programs, hook: Hook) -> ProgramInfo {
    if hook.is_xdp() {
        programs.xdp(hook.name()).unwrap().info().unwrap()
    } else {
        programs.tc(hook.name()).unwrap().info().unwrap()
    }
}

fn variants() -> Vec<LoadOptions> {
    let mut all = Vec::new();
    // Variants for other processors and settings.
    for full_order in [false, true] {
        for precise_clock in [false, true] {
            let usual = LoadOptions::new(&[1]);
            all.push(LoadOptions { full_order, precise_clock, max_flows: 1024, ..usual });
        }
    }
    for test_clock in [false, true] {
        for events in [false, true] {
            for log_level in [0, 5] {
                for xdp_buff_len in [false, true] {
                    let max_flows = 1024;
                    let usual = LoadOptions::new(&[1]);
                    all.push(LoadOptions { test_clock, events, log_level, xdp_buff_len, max_flows, ..usual });
                }
            }
        }
    }
    all
}

#[test]
fn every_variant_of_every_program_is_verified_at_a_bounded_cost() {
    if !available() {
        return;
    }
    for options in variants() {
        // The helper for buffers of XDP does not concern the others.
        for hook in Hook::ALL.into_iter().filter(|hook| hook.is_xdp() || options.xdp_buff_len) {
            let mut programs = Programs::load(&options).unwrap();
            let info = info(&mut programs, hook);
            let verified = info.verified_instruction_count().unwrap();
            println!(
                "{:22} test clock {:5}, events {:5}, log {}, xdp_buff_len {:5}, full order {:5}, precise {:5}: \
                 {verified:6} instructions verified, {:5} bytes",
                hook.name(),
                options.test_clock,
                options.events,
                options.log_level,
                options.xdp_buff_len,
                options.full_order,
                options.precise_clock,
                info.size_translated().unwrap(),
            );
            assert!(verified < MOST_VERIFIED, "{} with {options:?}: {verified}", hook.name());
        }
    }
}

/// One set of maps serves all programs, so that what several interfaces and hooks count is one
/// table.
#[test]
fn all_programs_share_maps_of_less_than_64_mib() {
    if !available() {
        return;
    }
    let mut programs = Programs::load(&LoadOptions::new(&[1])).unwrap();
    let infos: Vec<_> = Hook::ALL.into_iter().map(|hook| info(&mut programs, hook)).collect();
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
    // Every interface that can be watched adds counters of its links only.
    let most = Programs::load(&LoadOptions::new(&(1..=64).collect::<Vec<_>>()));
    let mut most = most.unwrap();
    let infos: Vec<_> = Hook::ALL.into_iter().map(|hook| info(&mut most, hook)).collect();
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

/// Programs come with a name under which `bpftool prog` shows them.
#[test]
fn programs_have_names() {
    if !available() {
        return;
    }
    let mut programs = Programs::load(&LoadOptions { max_flows: 64, ..LoadOptions::new(&[1]) }).unwrap();
    for hook in Hook::ALL {
        let info = info(&mut programs, hook);
        let name = info.name_as_str().unwrap().to_owned();
        assert!(!name.is_empty() && hook.name().starts_with(&name), "{name} of {}", hook.name());
        let fd = hook.load(&mut programs).unwrap();
        assert!(std::fs::metadata(format!("/proc/self/fdinfo/{}", raw(&fd))).is_ok());
    }
}

fn raw(fd: &std::os::fd::OwnedFd) -> i32 {
    use std::os::fd::AsRawFd as _;
    fd.as_fd().as_raw_fd()
}
