//! Work requests that processes post, by queue pair: samples of calls of their providers' `post_send`.

use rocescope_common::abi::post::PostCounts;
use serde::Serialize;

use super::owners::QpOwner;

use crate::util::time::NS_PER_S;

/// Everything known of work that is posted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Posts {
    /// Queue pairs that posted in a window.
    pub qps: Vec<PostSample>,
    /// Windows and cost of the sampling; `None` without `--sample-posts`.
    pub sampling: Option<PostSampling>,
}

/// Work posted to a queue pair in the windows of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostSample {
    /// Name of the RDMA device.
    pub device: String,
    /// Number of the queue pair.
    pub lqpn: u32,
    /// Process that posted.
    pub pid: u32,
    /// Counts of its posted work.
    pub counts: PostCounts,
    /// Time that windows were open while it existed. Unit: ns.
    pub sampled_ns: u64,
    /// True when it was gone at the last look.
    pub ended: bool,
}

impl Posts {
    /// Work posted to a queue pair that exists.
    pub fn of(&self, device: &str, owner: &QpOwner) -> Option<&PostSample> {
        let is = |qp: &&PostSample| {
            qp.lqpn == owner.lqpn && Some(qp.pid) == owner.pid && qp.device == device && !qp.ended
        };
        self.qps.iter().find(is)
    }
}

impl PostSample {
    /// A count as a rate per second of the sampled time; `None` without such a time.
    pub fn per_s(&self, count: u64) -> Option<u64> {
        let per_s = (u128::from(count) * u128::from(NS_PER_S)).checked_div(u128::from(self.sampled_ns))?;
        u64::try_from(per_s).ok()
    }
}

/// Coverage of the sampling of `post_send` (`devices[].qps[].posts`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PostSampling {
    /// Reason for which nothing is sampled. Null: it is, or will be once a process with queue pairs is found.
    pub unavailable: Option<String>,
    /// Length of a window (`--sample-posts`). Unit: ns.
    pub window_ns: u64,
    /// From the beginning of a window to that of the next. Unit: ns.
    pub every_ns: u64,
    /// Calls per second above which a window ends early (`--sample-posts-limit`). Unit: calls/s.
    pub at_most: u64,
    /// Windows that were opened. Unit: windows.
    pub windows: u64,
    /// Windows that ended early. Unit: windows.
    pub stopped: u64,
    /// Time that windows were open. Unit: ns.
    pub sampled_ns: u64,
    /// Calls of `post_send` in them. Unit: calls.
    pub calls: u64,
    /// Calls whose queue pair could not be read. Unit: calls.
    pub unreadable: u64,
    /// Calls that found no room for their queue pair. Unit: calls.
    pub without_room: u64,
    /// Calls of queue pairs whose device is not known. Unit: calls.
    pub without_device: u64,
    /// Queue pairs that ended and that there was no room to keep. Unit: queue pairs.
    pub qps_left_out: u64,
    /// Provider libraries that are sampled, as a process names them.
    pub files: Vec<String>,
    /// Processes that are not sampled, each with the reason.
    pub absent: Vec<String>,
}
