//! Kernel memory of the maps of queue pair probes and post samples, from their definitions, as the documents have it.

use aya_obj::{Map, Object};

use super::{posts, qp_probes};

/// Map types of `enum bpf_map_type`.
const HASH: u32 = 1;
const ARRAY: u32 = 2;
const PERCPU_ARRAY: u32 = 6;
const LRU_HASH: u32 = 9;
const RINGBUF: u32 = 27;

/// Bytes of `struct htab_elem` in front of its key, and of `struct bucket`, on 64-bit kernels (kernel/bpf/hashtab.c).
const ELEMENT: u64 = 48;
const BUCKET: u64 = 16;

/// Bytes that a map takes, without what the kernel adds once per map or CPU; a per-CPU array as for one CPU.
fn bytes(map: &Map) -> u64 {
    let entries = u64::from(map.max_entries());
    let [key, value] = [map.key_size(), map.value_size()].map(|size| u64::from(size).next_multiple_of(8));
    match map.map_type() {
        HASH | LRU_HASH => entries * (ELEMENT + key + value) + entries.next_power_of_two() * BUCKET,
        ARRAY | PERCPU_ARRAY => entries * value,
        RINGBUF => entries,
        other => panic!("a map of type {other}"),
    }
}

/// Unit: MiB.
fn sum(object: &[u8]) -> f64 {
    let maps = Object::parse(object).unwrap().maps;
    assert!(maps.len() > 1, "{maps:?}");
    maps.values().map(bytes).sum::<u64>() as f64 / f64::from(1 << 20)
}

#[test]
fn documents_have_the_memory_of_maps() {
    let [probes, posts] = [qp_probes::OBJECT, posts::OBJECT].map(sum);
    for (text, said) in [
        (
            include_str!("../../../../docs/kernel.md"),
            format!("The probes below add {probes:.1} MiB,\nsamples of posted work {posts:.1}."),
        ),
        (
            include_str!("../../../../docs/performance.md"),
            format!("those of the control path {probes:.1} MiB, of sampled posts {posts:.1}."),
        ),
        (
            include_str!("../../../../docs/live.md"),
            format!(
                "{probes:.0} MiB more for the probes of\n  queue pairs on hosts with RDMA devices, {posts:.0} MiB more with"
            ),
        ),
    ] {
        assert!(text.contains(&said), "{said}");
    }
}
