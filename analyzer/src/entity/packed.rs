//! Devices and NCCL state as bytes: see [`crate::util::pack`].

use super::contexts::{Blamed, ContextSample, ContextTimes, Contexts, Queries, RawContext};
use super::devices::{
    AtGrowth, Devices, Growth, PauseSample, PortSample, QpCounters, QpSample, Setting, SourceSample,
};
use super::lives::{Calls, Lists, Lives, MonotonicTimes, PathChoices, QpControl, QpEvent, QpLife};
use super::nccl::{Answer, CommId, Communicator, Event, Nccl, Process, Rank, RankState};
use super::pauses::{PauseInterval, PauseIntervals, Stall};
use super::posts::{PostSample, PostSampling, Posts};
use super::qp_source::QpSource;
use crate::ethernet::lldp::{App, Dialect, Ets, Neighbour, Pfc};
use crate::host::process::pods::PodInterface;
use crate::host::rdma::device::Hardware;
use crate::host::rdma::qp_context::QpContext;
use crate::util::pack::pack;

pack! {
    struct Devices { ports, settings, neighbours, lives, lists, contexts, posts, kernel }
    struct PortSample {
        device, port, driver, hardware, interface, pod, members, above, gone, hidden, window, counters, growth, pause, pause_source, lossless,
        dscp_priorities, trusts_pcp, active_mtu, qps, qps_counted_ns, qps_counted_steady_ns,
        qp_counters, qps_left_out,
    }
    struct PodInterface { pod, pid, name }
    struct Growth { first_ns, last_ns, count, at_first, at_last }
    struct AtGrowth { packets, monotonic_ns }
    struct Hardware { firmware, link_layer, pci, numa_node, speed_mbps }
    struct SourceSample { source, values, resets }
    struct PauseSample {
        sent, priority, frames, quanta, paused_ns, transitions, worst_share, least_share, most_share, worst_frames_per_s,
        longest_ns, intervals,
    }
    struct PauseInterval {
        first_ns, last_ns, frames, quanta, paused_ns, share, most_share, worst_frames_per_s, longest_ns,
    }
    struct Stall { first_ns, last_ns, stalled_ns }
    struct QpSample { owner, sq_psn, rq_psn, sent, received, ambiguous, stalled_ns, stall }
    struct QpCounters { lqpns, values }
    struct Setting { check, subject, critical, value, why, change }
    struct Neighbour { system, chassis, port, port_description, dialect, pfc, ets, apps }
    struct Pfc { enabled, capable, willing, error }
    struct Ets { class_of, bandwidth, willing }
    struct App { selector, protocol, priorities }
    struct Lives { qps, events, events_left_out, qps_left_out, unnumbered, unavailable, calls }
    struct QpLife { device, lqpn, origin, port, kind, state, state_of, pid, comm, pod, rqpn, control, choices }
    struct PathChoices { priority, adaptive_routing, plane, bond_port, udp_port }
    struct QpControl {
        src, dst, udp_port, flow_label, dscp, path_mtu, timeout_ns, retry_cnt, rnr_retry, created_ns, connected_ns,
        connect_took_ns, ended_ns, reused_ns, monotonic, end,
    }
    struct MonotonicTimes { created_ns, connected_ns, over_ns }
    struct QpEvent {
        number, device, port, time_ns, monotonic_ns, lqpn, event, reason, errno, duration_ns, pid, comm, src, dst,
        unseen_verbs,
    }
    struct Calls {
        entered, missed_returns, under_way, may_end, dropped, skipped, absent, absent_fields, commands, missed_commands, devx_unavailable,
    }
    struct Lists { lists, queries, took_ns, unlisted }
    struct Contexts { qps, queries }
    struct ContextSample {
        device, port, lqpn, context, src, read_ns, read_steady_ns, readings, sent, received, ambiguous, in_flight, stuck_ns,
        retries_used, rnr_retries_used, retrying, rnr_retrying, receives_exhausted, times, blamed,
    }
    struct ContextTimes { retrying, rnr_retrying, exhausted }
    struct QpContext {
        state, rqpn, dst, src_index, udp_port, flow_label, dscp, priority, path_mtu, timeout, retry_cnt, rnr_retry, retry_now, rnr_retry_now,
        next_send_psn, acked_psn, next_recv_psn, used, unsent, received_wqes, posted_receives, adaptive_routing, plane,
        bond_port, idle_distance, counts_down,
    }
    struct Blamed { timeouts, sequence_errors, certain }
    struct Queries { per_second, queried, of, answered, by_firmware, failed, took_ns, longest_ns, refused, undecoded }
    struct RawContext { device, lqpn, bytes, reason }
    struct Posts { qps, sampling }
    struct PostSample { device, lqpn, pid, counts, sampled_ns, ended }
    struct PostSampling {
        unavailable, window_ns, every_ns, at_most, windows, stopped, sampled_ns, calls, unreadable, without_room,
        without_device, qps_left_out, files, absent,
    }
}

pack! {
    new PauseIntervals;
}

pack! {
    enum Dialect { 0 => Ieee, 1 => Cee }
}

pack! {
    enum QpSource {
        0 => Netlink, 1 => ControlPath, 2 => Devx, 3 => Context, 4 => Posts, 5 => Packets,
    }
}

pack! {
    struct Nccl {
        address, unavailable, answers, failures, answered_ns, interval_ns, latest, communicators, events, events_left_out,
    }
    struct Answer {
        version, whole, communicators, listed, dead, collection_ns, timeouts, not_understood,
    }
    struct Communicator { id, size, furthest, ranks, seen_ns }
    struct CommId { hash, secondary }
    struct Rank { rank, process, gpu, state, error, launched, local, behind_since_ns, state_since_ns }
    struct Process { host, pid }
    struct Event { time_ns, event, process }
}

pack! {
    enum RankState {
        0 => Init, 1 => Running, 2 => Finalize, 3 => Abort, 4 => NoComm, 5 => Unresponsive, 6 => Dead,
    }
}
