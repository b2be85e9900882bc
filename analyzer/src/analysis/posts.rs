//! Work that processes post to queue pairs, sampled at their providers' `post_send`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{DeviceQp, QpSource};
use crate::entity::devices::{Devices, PortSample};
use crate::entity::lives::KERNEL;
use crate::entity::posts::PostSample;

/// `enum ibv_wr_opcode` of libibverbs. 12 and 13 are not assigned.
const OPCODES: [Option<&str>; 16] = [
    Some("RDMA_WRITE"),
    Some("RDMA_WRITE_WITH_IMM"),
    Some("SEND"),
    Some("SEND_WITH_IMM"),
    Some("RDMA_READ"),
    Some("ATOMIC_CMP_AND_SWP"),
    Some("ATOMIC_FETCH_AND_ADD"),
    Some("LOCAL_INV"),
    Some("BIND_MW"),
    Some("SEND_WITH_INV"),
    Some("TSO"),
    Some("DRIVER1"),
    None,
    None,
    Some("FLUSH"),
    Some("ATOMIC_WRITE"),
];

/// Work requests that the process posted to the queue pair in the sampled windows (`--sample-posts`). Counts are of the
/// windows alone; rates are extrapolated from them. Never added to figures of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QpPosts {
    /// Source of these figures: `post_send`.
    pub source: &'static str,
    /// Time that windows were open while the queue pair existed. Unit: ns.
    pub sampled_ns: u64,
    /// Calls of `post_send`; each posts one work request or a chain of them. Unit: calls.
    pub calls: u64,
    /// Work requests in them. Unit: work requests.
    pub requests: u64,
    /// Bytes of their messages; for a READ the bytes that it asks for. Unit: bytes.
    pub bytes: u64,
    /// Work requests per second of `sampled_ns`: an estimate for the whole run. Unit: work requests/s. Null: no time
    /// was sampled.
    pub requests_per_s: Option<u64>,
    /// Bytes per second of `sampled_ns`: an estimate for the whole run. Unit: bytes/s. Null: as `requests_per_s`.
    pub bytes_per_s: Option<u64>,
    /// Length of the shortest message. Unit: bytes. Null: no message.
    pub shortest: Option<u64>,
    /// Length of the longest message. Unit: bytes. Null: no message.
    pub longest: Option<u64>,
    /// Messages by length.
    pub sizes: Vec<PostSize>,
    /// Work requests by opcode.
    pub opcodes: Vec<PostOpcode>,
    /// Calls whose chain was longer than the 64 work requests that are read: the rest is not counted. Unit: calls.
    pub long_chains: u64,
    /// Work requests with more than the 16 buffers that are read: the rest of their bytes is not counted. Unit: work
    /// requests.
    pub long_lists: u64,
    /// Calls whose work requests could not be read to their end, as their memory was not resident. Unit: calls.
    pub unreadable: u64,
}

/// Messages of a class of length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PostSize {
    /// Longest length of the class, a power of two; the class begins above half of that. Unit: bytes.
    pub up_to: u64,
    /// Messages. Unit: messages.
    pub messages: u64,
}

/// Work requests with one opcode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PostOpcode {
    /// Name as in libibverbs (`enum ibv_wr_opcode`), without the prefix; `other` for numbers that have none.
    pub name: &'static str,
    /// Work requests. Unit: work requests.
    pub requests: u64,
}

impl QpPosts {
    fn of(sample: &PostSample) -> Self {
        let counts = &sample.counts;
        let sizes = (0..).zip(counts.sizes).filter(|(_, messages)| *messages > 0);
        let mut opcodes: BTreeMap<&'static str, u64> = BTreeMap::new();
        let others = [(None, counts.other_opcodes)];
        for (name, requests) in OPCODES.into_iter().zip(counts.opcodes).chain(others).filter(|(_, n)| *n > 0)
        {
            *opcodes.entry(name.unwrap_or("other")).or_default() += requests;
        }
        let mut opcodes: Vec<PostOpcode> =
            opcodes.into_iter().map(|(name, requests)| PostOpcode { name, requests }).collect();
        opcodes.sort_by_key(|opcode| std::cmp::Reverse(opcode.requests));
        let has_message = counts.sizes.iter().any(|messages| *messages > 0);
        Self {
            source: "post_send",
            sampled_ns: sample.sampled_ns,
            calls: counts.calls,
            requests: counts.requests,
            bytes: counts.bytes,
            requests_per_s: sample.per_s(counts.requests),
            bytes_per_s: sample.per_s(counts.bytes),
            shortest: has_message.then_some(counts.shortest),
            longest: has_message.then_some(counts.longest),
            sizes: sizes.map(|(class, messages)| PostSize { up_to: 1u64 << class, messages }).collect(),
            opcodes,
            long_chains: counts.long_chains,
            long_lists: counts.long_lists,
            unreadable: counts.faults,
        }
    }
}

/// Adds the work posted to the queue pairs of a port, by number and process. Queue pairs that nothing else shows are
/// added to the device's first port.
pub(super) fn join(devices: &Devices, port: &PortSample, qps: &mut Vec<DeviceQp>) {
    let of_device = devices.posts.qps.iter().filter(|sample| sample.device == port.device);
    let mut left: BTreeMap<(u32, u32), Vec<&PostSample>> = BTreeMap::new();
    for sample in of_device {
        left.entry((sample.lqpn, sample.pid)).or_default().push(sample);
    }
    if left.is_empty() {
        return;
    }
    // The latest last: what exists takes what goes on, what has ended the latest that has.
    for is_alive in [true, false] {
        for qp in qps.iter_mut().rev().filter(|qp| qp.control.is_over() != is_alive) {
            let samples = qp.pid.and_then(|pid| left.get_mut(&(qp.lqpn, pid)));
            let Some(samples) = samples else { continue };
            let place = if is_alive {
                samples.iter().position(|sample| !sample.ended)
            } else {
                samples.len().checked_sub(1)
            };
            if let Some(place) = place {
                qp.posts = Some(Box::new(QpPosts::of(samples.remove(place))));
                qp.sources.push(QpSource::Posts);
            }
        }
    }
    // The return of the call that made it was missed, and it was never listed: its process is known from what it posts.
    for qp in qps.iter_mut().filter(|qp| qp.pid.is_none() && qp.origin != Some(KERNEL)) {
        let mut same = left.iter_mut().filter(|((lqpn, _), samples)| *lqpn == qp.lqpn && !samples.is_empty());
        let (Some(((_, pid), samples)), None) = (same.next(), same.next()) else { continue };
        qp.pid = Some(*pid);
        qp.posts = samples.pop().map(|sample| Box::new(QpPosts::of(sample)));
        qp.sources.push(QpSource::Posts);
    }
    let is_first = devices.ports.iter().all(|other| other.device != port.device || other.port >= port.port);
    if is_first && devices.ports.iter().filter(|other| other.device == port.device).count() == 1 {
        qps.extend(left.into_values().flatten().map(|sample| DeviceQp {
            lqpn: sample.lqpn,
            sources: vec![QpSource::Posts],
            pid: Some(sample.pid),
            posts: Some(Box::new(QpPosts::of(sample))),
            ..DeviceQp::default()
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::lives::QpControl;
    use crate::entity::posts::Posts;
    use rocescope_common::abi::post::PostCounts;
    use std::sync::Arc;

    fn sample(lqpn: u32, pid: u32, calls: u64, ended: bool) -> PostSample {
        let mut counts = PostCounts { calls, requests: calls, ..PostCounts::NONE };
        counts.opcodes[2] = calls;
        PostSample { device: "mlx5_0".into(), lqpn, pid, counts, sampled_ns: 500_000_000, ended }
    }

    fn joined(samples: Vec<PostSample>, mut qps: Vec<DeviceQp>) -> Vec<(u32, Option<u64>, Option<u64>)> {
        let port = PortSample { device: "mlx5_0".into(), port: 1, ..PortSample::default() };
        let posts = Arc::new(Posts { qps: samples, sampling: None });
        let devices = Devices { ports: vec![port.clone()], posts, ..Devices::default() };
        join(&devices, &port, &mut qps);
        qps.iter()
            .map(|qp| (qp.lqpn, qp.control.ended_ns, qp.posts.as_ref().map(|posts| posts.calls)))
            .collect()
    }

    #[test]
    fn posts_go_to_the_queue_pair_of_their_process_and_time() {
        let qp = |lqpn, pid, ended_ns| {
            let control = QpControl { ended_ns, ..QpControl::default() };
            DeviceQp { lqpn, pid: Some(pid), control, ..DeviceQp::default() }
        };
        let found = joined(
            vec![
                sample(7, 1, 10, true),
                sample(7, 1, 20, false),
                sample(8, 1, 30, false),
                sample(9, 2, 40, true),
            ],
            // 8 has ended since the last look, another process has 9 now.
            vec![qp(7, 1, Some(5)), qp(7, 1, None), qp(8, 1, Some(6)), qp(9, 3, None)],
        );
        assert_eq!(
            found,
            [
                (7, Some(5), Some(10)),
                (7, None, Some(20)),
                (8, Some(6), Some(30)),
                (9, None, None),
                (9, None, Some(40))
            ]
        );
        // Of one whose process is not known, what its only poster posted; not of two.
        let unknown = |lqpn| DeviceQp { lqpn, ..DeviceQp::default() };
        let found = joined(
            vec![sample(7, 1, 10, true), sample(8, 1, 20, true), sample(8, 2, 30, true)],
            vec![unknown(7), unknown(8)],
        );
        assert_eq!(found[..2], [(7, None, Some(10)), (8, None, None)]);
    }

    #[test]
    fn lengths_and_opcodes_are_named() {
        let mut of = sample(7, 1, 4, false);
        of.counts.opcodes = [0; 16];
        (of.counts.opcodes[0], of.counts.opcodes[7], of.counts.opcodes[12], of.counts.other_opcodes) =
            (3, 1, 1, 1);
        (of.counts.sizes[0], of.counts.sizes[16]) = (1, 2);
        (of.counts.shortest, of.counts.longest, of.counts.bytes) = (0, 65_536, 131_072);
        let posts = QpPosts::of(&of);
        let named: Vec<_> = posts.opcodes.iter().map(|opcode| (opcode.name, opcode.requests)).collect();
        assert_eq!(named, [("RDMA_WRITE", 3), ("other", 2), ("LOCAL_INV", 1)]);
        let sizes: Vec<_> = posts.sizes.iter().map(|size| (size.up_to, size.messages)).collect();
        assert_eq!(sizes, [(1, 1), (65_536, 2)]);
        assert_eq!((posts.shortest, posts.longest), (Some(0), Some(65_536)));
        // 4 in half a second.
        assert_eq!((posts.requests_per_s, posts.bytes_per_s), (Some(8), Some(262_144)));
        // Without a message there is no length.
        assert_eq!(QpPosts::of(&sample(7, 1, 1, false)).shortest, None);
    }
}
