//! Names of the programs.

/// XDP for frames in one buffer.
pub const XDP: &str = "rocescope_xdp";
/// XDP for frames in several buffers.
pub const XDP_FRAGS: &str = "rocescope_xdp_frags";
/// Name of the TC program on ingress.
pub const TC_INGRESS: &str = "rocescope_tc_ingress";
/// Name of the TC program on egress.
pub const TC_EGRESS: &str = "rocescope_tc_egress";
/// TC on ingress of interfaces without a link layer.
pub const TC_RAW_INGRESS: &str = "rocescope_tc_raw_ingress";
/// TC on egress of interfaces without a link layer.
pub const TC_RAW_EGRESS: &str = "rocescope_tc_raw_egress";
/// Reports the kernel's tick.
pub const TICKS: &str = "rocescope_ticks";
/// For `bench`: XDP that does nothing.
pub const BENCH_XDP_EMPTY: &str = "rocescope_bench_xdp_empty";
/// For `bench`: XDP that advances a number in the packet.
pub const BENCH_XDP_STEP: &str = "rocescope_bench_xdp_step";
/// For `bench`: XDP that advances a number in the packet and counts.
pub const BENCH_XDP: &str = "rocescope_bench_xdp";
/// For `bench`: XDP that reads the exact clock.
pub const BENCH_XDP_CLOCK: &str = "rocescope_bench_xdp_clock";
/// For `bench`: XDP that advances a number in the packet and does all but bins and latency.
pub const BENCH_XDP_REACH: &str = "rocescope_bench_xdp_reach";
/// For `bench`: XDP that advances a number in the packet and counts WRITE LAST and ACK alone.
pub const BENCH_XDP_ANSWERED: &str = "rocescope_bench_xdp_answered";
/// For `bench`: XDP that advances a number in the packet and finds a flow whose memory lies in two cache lines.
pub const BENCH_XDP_TOGETHER: &str = "rocescope_bench_xdp_together";
/// For `bench`: XDP that does all but bins and latency, with a time from memory.
pub const BENCH_XDP_PUBLISHED: &str = "rocescope_bench_xdp_published";
/// For `bench`: XDP that advances a number in the packet, inserts a flow and sends its event.
pub const BENCH_XDP_INSERT: &str = "rocescope_bench_xdp_insert";
/// For `bench`: XDP that advances a number in the packet and inserts a key into the hash.
pub const BENCH_XDP_HASH: &str = "rocescope_bench_xdp_hash";
/// For `bench`: XDP that advances a number in the packet and sends an event.
pub const BENCH_XDP_EVENT: &str = "rocescope_bench_xdp_event";
/// XDP that does all but bins and latency, on an interface.
pub const FLOOR_XDP: &str = "rocescope_floor_xdp";
/// TC that does all but bins and latency, on an interface.
pub const FLOOR_TC: &str = "rocescope_floor_tc";
/// For `bench`: XDP for several buffers that does nothing.
pub const BENCH_XDP_FRAGS_EMPTY: &str = "rocescope_bench_xdp_frags_empty";
/// For `bench`: XDP for several buffers that advances a number in the packet.
pub const BENCH_XDP_FRAGS_STEP: &str = "rocescope_bench_xdp_frags_step";
/// For `bench`: XDP for several buffers that advances a number in the packet and counts.
pub const BENCH_XDP_FRAGS: &str = "rocescope_bench_xdp_frags";
/// For `bench`: TC that does nothing.
pub const BENCH_TC_EMPTY: &str = "rocescope_bench_tc_empty";
/// For `bench`: TC that advances a number in the packet.
pub const BENCH_TC_STEP: &str = "rocescope_bench_tc_step";
/// For `bench`: TC that advances a number in the packet and counts.
pub const BENCH_TC: &str = "rocescope_bench_tc";
/// For `bench`: TC that advances a number in the packet and does all but bins and latency.
pub const BENCH_TC_REACH: &str = "rocescope_bench_tc_reach";
/// For `bench`: TC that advances a number in the packet and counts WRITE LAST and ACK alone.
pub const BENCH_TC_ANSWERED: &str = "rocescope_bench_tc_answered";
/// For `bench`: TC that reads the exact clock.
pub const BENCH_TC_CLOCK: &str = "rocescope_bench_tc_clock";
