//! Sources of what is known of a queue pair.

use serde::Serialize;

/// A source of what is known of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum QpSource {
    /// The kernel's list of queue pairs (RDMA netlink).
    Netlink,
    /// The verbs that made and modified the queue pair, and queries (kernel probes).
    ControlPath,
    /// Commands to the firmware past the verbs.
    Devx,
    /// The NIC's own context.
    Context,
    /// Samples of `post_send`.
    Posts,
    /// Its packets: a flow to or from it.
    Packets,
}

impl QpSource {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 6] =
        [Self::Netlink, Self::ControlPath, Self::Devx, Self::Context, Self::Posts, Self::Packets];

    /// Name in reports and recordings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Netlink => "netlink",
            Self::ControlPath => "control_path",
            Self::Devx => "devx",
            Self::Context => "context",
            Self::Posts => "posts",
            Self::Packets => "packets",
        }
    }
}
