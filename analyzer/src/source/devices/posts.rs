//! Work requests that processes post, by queue pair: sampled calls of their providers' `post_send`.
//!
//! Counted in short windows; figures of the whole run are extrapolated and marked as such. Never added to figures
//! from packets.

use std::collections::BTreeMap;
use std::sync::Arc;

use rocescope_common::abi::post::{PostCounts, PostKey};

use crate::entity::posts::{PostSample, PostSampling, Posts};
use crate::util::map::{Map, Set};
use crate::util::time::NS_PER_S;

/// Maximum number of ended queue pairs kept for the report.
const MOST_ENDED: usize = 4_096;

/// Schedule of the sampling windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Length of a window. Unit: ns.
    pub window_ns: u64,
    /// Time from the start of one window to the next, at least `window_ns`. Unit: ns.
    pub every_ns: u64,
    /// Calls per second above which a window ends early.
    pub most_calls_per_s: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self { window_ns: 100_000_000, every_ns: 10_000_000_000, most_calls_per_s: 200_000 }
    }
}

impl Plan {
    /// Calls after which a window ends early; at least one.
    pub fn most_calls(&self) -> u64 {
        let calls = u128::from(self.most_calls_per_s) * u128::from(self.window_ns) / u128::from(NS_PER_S);
        u64::try_from(calls).unwrap_or(u64::MAX).max(1)
    }
}

/// A queue pair with posted work requests.
#[derive(Debug)]
struct Posting {
    sample: PostSample,
    /// Number of the latest list of queue pairs when it was first seen.
    since: u64,
}

/// Counts of one step: since the start of the window, or since its previous step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Time for which the window was open. Unit: ns.
    pub open_ns: u64,
    /// Number of calls counted.
    pub calls: u64,
    /// Calls whose queue pair could not be read.
    pub unreadable: u64,
    /// Calls for whose queue pair there was no room in the map.
    pub without_room: u64,
}

/// Combines the windows of a run.
#[derive(Debug)]
pub struct Counter {
    sampling: PostSampling,
    alive: Map<PostKey, Posting>,
    ended: Vec<PostSample>,
    /// Calls of queue pairs whose device is unknown, and the number of the list at that time.
    unknown: Map<PostKey, (u64, u64)>,
    /// Number of the latest list of queue pairs.
    list: u64,
}

impl Counter {
    /// A counter before the first window.
    pub fn new(plan: Plan) -> Self {
        let sampling = PostSampling {
            window_ns: plan.window_ns,
            every_ns: plan.every_ns,
            at_most: plan.most_calls_per_s,
            ..PostSampling::default()
        };
        Self { sampling, alive: Map::default(), ended: Vec::new(), unknown: Map::default(), list: 0 }
    }

    /// Records why sampling is not possible.
    pub fn unavailable(&mut self, why: String) {
        self.sampling.unavailable = Some(why);
    }

    /// Records that a window was opened.
    pub fn opened(&mut self) {
        self.sampling.windows += 1;
    }

    /// Records that the window ended at the limit of calls.
    pub fn stopped(&mut self) {
        self.sampling.stopped += 1;
    }

    /// Sets the files that are sampled, and the reasons for those that are not.
    pub fn sources(&mut self, files: Vec<String>, absent: &BTreeMap<String, String>) {
        self.sampling.files = files;
        self.sampling.absent = absent.iter().map(|(who, why)| format!("{who}: {why}")).collect();
    }

    /// Adds the counts of a step: `readings` are the counts of each queue pair since its first window.
    pub fn take(
        &mut self,
        step: Step,
        readings: &[(PostKey, PostCounts)],
        device: &dyn Fn(&PostKey) -> Option<String>,
    ) {
        let sampling = &mut self.sampling;
        sampling.sampled_ns += step.open_ns;
        sampling.calls += step.calls;
        sampling.unreadable += step.unreadable;
        sampling.without_room += step.without_room;
        for (key, counts) in readings {
            if let Some(known) = self.alive.get_mut(key) {
                known.sample.counts = *counts;
            } else if let Some(device) = device(key) {
                self.unknown.remove(key);
                let new = PostSample {
                    device,
                    lqpn: key.qpn,
                    pid: key.pid,
                    counts: *counts,
                    sampled_ns: 0,
                    ended: false,
                };
                self.alive.insert(*key, Posting { sample: new, since: self.list });
            } else {
                self.unknown.entry(*key).or_insert((0, self.list)).0 = counts.calls;
            }
        }
        for known in self.alive.values_mut() {
            known.sample.sampled_ns += step.open_ns;
        }
    }

    /// Applies a list of the existing queue pairs (process and number): ends those that are not in it. Returns their
    /// keys, whose counts can be removed before another queue pair gets the number.
    pub fn listed(&mut self, alive: &Set<(u32, u32)>) -> Vec<PostKey> {
        self.list += 1;
        // The next list after it was first seen may have been started before it was created.
        let gone = |key: &PostKey, since: u64| self.list >= since + 2 && !alive.contains(&(key.pid, key.qpn));
        let ended: Vec<PostKey> =
            self.alive.iter().filter(|(key, known)| gone(key, known.since)).map(|(key, _)| *key).collect();
        let unknown: Vec<PostKey> =
            self.unknown.iter().filter(|(key, (_, since))| gone(key, *since)).map(|(key, _)| *key).collect();
        for key in &ended {
            let Some(Posting { mut sample, .. }) = self.alive.remove(key) else { continue };
            if self.ended.len() >= MOST_ENDED {
                self.ended.remove(0);
                self.sampling.qps_left_out += 1;
            }
            sample.ended = true;
            self.ended.push(sample);
        }
        for key in &unknown {
            self.sampling.without_device += self.unknown.remove(key).map_or(0, |(calls, _)| calls);
        }
        ended.into_iter().chain(unknown).collect()
    }

    /// All counts so far.
    pub fn sample(&self) -> Arc<Posts> {
        let mut qps: Vec<PostSample> =
            self.ended.iter().chain(self.alive.values().map(|known| &known.sample)).cloned().collect();
        qps.sort_by(|a, b| (&a.device, a.lqpn, !a.ended).cmp(&(&b.device, b.lqpn, !b.ended)));
        let mut sampling = self.sampling.clone();
        sampling.without_device += self.unknown.values().map(|(calls, _)| calls).sum::<u64>();
        Arc::new(Posts { qps, sampling: Some(sampling) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(qpn: u32) -> PostKey {
        PostKey { pid: 4711, qpn, device_fd: 9, pad: 0 }
    }

    fn counts(calls: u64) -> PostCounts {
        PostCounts { calls, requests: 2 * calls, bytes: calls * 100, ..PostCounts::NONE }
    }

    fn step(ms: u64, calls: u64) -> Step {
        Step { open_ns: ms * 1_000_000, calls, ..Step::default() }
    }

    #[expect(clippy::unnecessary_wraps, reason = "it stands for a search that may find nothing")]
    fn known(_: &PostKey) -> Option<String> {
        Some("mlx5_0".to_owned())
    }

    #[test]
    fn a_rate_is_of_the_time_that_was_sampled() {
        let mut counter = Counter::new(Plan::default());
        counter.opened();
        counter.take(step(100, 50), &[(key(7), counts(50))], &known);
        counter.opened();
        // It posts nothing in the second window, which halves its rate.
        counter.take(step(100, 0), &[(key(7), counts(50))], &known);
        let posts = counter.sample();
        let qp = &posts.qps[0];
        assert_eq!((qp.sampled_ns, qp.per_s(qp.counts.requests)), (200_000_000, Some(500)));
        let sampling = posts.sampling.as_ref().unwrap();
        assert_eq!((sampling.windows, sampling.sampled_ns, sampling.calls), (2, 200_000_000, 50));
    }

    #[test]
    fn a_number_in_use_again_is_another_queue_pair() {
        let mut counter = Counter::new(Plan::default());
        counter.take(step(100, 5), &[(key(7), counts(5)), (key(8), counts(1))], &known);
        let only = Set::from_iter([(4711, 8)]);
        // A list that may have been started before the queue pair was created.
        assert_eq!(counter.listed(&only), []);
        assert_eq!(counter.listed(&only), [key(7)]);
        counter.take(step(100, 3), &[(key(7), counts(2)), (key(8), counts(2))], &known);
        let posts = counter.sample();
        let of: Vec<_> =
            posts.qps.iter().map(|qp| (qp.lqpn, qp.counts.calls, qp.ended, qp.sampled_ns)).collect();
        assert_eq!(of, [(7, 5, true, 100_000_000), (7, 2, false, 100_000_000), (8, 2, false, 200_000_000)]);
    }

    #[test]
    fn what_is_not_counted_is_counted_as_that() {
        let mut counter = Counter::new(Plan::default());
        let nowhere = |_: &PostKey| None;
        let lost = Step { unreadable: 2, without_room: 3, ..step(100, 9) };
        counter.take(lost, &[(key(7), counts(4))], &nowhere);
        let sampling = |counter: &Counter| counter.sample().sampling.clone().unwrap();
        let of = sampling(&counter);
        assert_eq!((of.unreadable, of.without_room, of.without_device), (2, 3, 4));
        // Its device is found later.
        counter.take(step(0, 0), &[(key(7), counts(6))], &known);
        assert_eq!(sampling(&counter).without_device, 0);
        counter.take(step(0, 0), &[(key(9), counts(6))], &nowhere);
        let gone = |counter: &mut Counter| {
            counter.listed(&Set::default()).len() + counter.listed(&Set::default()).len()
        };
        assert_eq!(gone(&mut counter), 2);
        assert_eq!((sampling(&counter).without_device, counter.sample().qps.len()), (6, 1));
        for qpn in 100..100 + u32::try_from(MOST_ENDED).unwrap() {
            counter.take(step(0, 0), &[(key(qpn), counts(1))], &known);
            assert_eq!(gone(&mut counter), 1);
        }
        assert_eq!((sampling(&counter).qps_left_out, counter.sample().qps.len()), (1, MOST_ENDED));
    }

    #[test]
    fn the_limit_is_for_the_length_of_a_window() {
        assert_eq!(Plan::default().most_calls(), 20_000);
        assert_eq!(Plan { window_ns: 1, ..Plan::default() }.most_calls(), 1);
    }
}
