//! Ranks of an NCCL job that the other ranks wait for, as reported by NCCL (`--nccl-ras`).

use std::collections::BTreeSet;

use crate::analysis::{Communicator, FlowId, Nccl, NcclRank, RankQp};
use crate::entity::nccl::{REMOTE_ERROR, RankState};
use crate::findings::ids;
use crate::findings::title::{more, title};
use crate::findings::{
    ByHand, Command, Commands, Entry, Episode, Family, Finding, Impact, Input, Place, Problem, Raise,
    Severity, Unit, label,
};
use crate::util::units::{self, plural};

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[DEAD, FAILED, LAGGING],
    limits: &[Limits::META],
    evidence: &[
        label("rank", "rank", Unit::Id),
        label("communicator", "communicator", Unit::Text),
        label("gpu", "GPU", Unit::Id),
        label("pid", "PID in its own namespace", Unit::Id),
        label("local_pid", "PID on this host", Unit::Id),
        label("state", "state in NCCL", Unit::Text),
        label("error", "error", Unit::Text),
        label("behind", "operations behind", Unit::Count),
        label("operations", "operations launched", Unit::Text),
        label("waiting_ranks", "ranks that wait", Unit::Count),
        label("ranks", "ranks concerned", Unit::Count),
        label(
            "waiting_here",
            "ranks of this host that wait, and the QPs to the rank that they wait for",
            Unit::Text,
        ),
        label("qps", "QPs of its process, or to its host", Unit::Text),
    ],
    check,
};

const DEAD: Entry = Entry {
    id: "nccl.rank_dead",
    rank: 166,
    title: "NCCL rank does not answer",
    meaning: "A process of the job does not answer NCCL's own queries: it crashed, is stopped, or its host or bootstrap network is down. Every collective that it takes part in hangs until the job's \
              watchdog ends it.",
    computed: "From nccl.communicators[].ranks (`--nccl-ras`): critical where NCCL considers its process dead (unreachable for 60 s), a warning where it is unresponsive in answers over at least \
               nccl.unresponsive_ns. A queue pair of the same process that died (qp.died) owns it. It is assumed to continue until nccl.late_answers intervals pass without an answer.",
    advice: "Look for the process on its host: its log, `dmesg` (Xid, OOM killer), the state of the host. If it runs, dump its stack (`py-spy dump --pid PID`) and check the bootstrap network \
             (NCCL_SOCKET_IFNAME), which is not the RoCE network.",
    caveat: "RAS goes over the bootstrap network: a fault there, while RoCE works, looks the same.",
    ..Entry::of(Problem::Stall)
};

const FAILED: Entry = Entry {
    id: "nccl.rank_failed",
    rank: 167,
    title: "NCCL rank reports an error",
    meaning: "NCCL reports an error in a rank's initialization, or an asynchronous one, as of a work completion with error: its communicator is unusable, and the other ranks follow with \
              `Remote process error`.",
    computed: "From nccl.communicators[].ranks (`--nccl-ras`): `error`, at once; critical. Of several ranks, the one whose error does not follow from another's is named. A queue pair of the same process that died \
               (qp.died) owns it. It is assumed to continue until nccl.late_answers intervals pass without an answer.",
    advice: "Read the log of that rank (NCCL_DEBUG=WARN): System error is a failed call or a work completion with error, Unhandled CUDA error a GPU fault (`dmesg`: Xid). The other ranks' errors follow \
             from it.",
    ..Entry::of(Problem::Stall)
};

const LAGGING: Entry = Entry {
    id: "nccl.rank_lagging",
    rank: 372,
    title: "NCCL rank lags, the collective is blocked",
    meaning: "A rank has not launched the collective that the others of its communicator launched, and launches nothing else: they wait for it. It computes, reads data, writes a checkpoint, or its \
              earlier collective does not end.",
    computed: "From nccl.communicators[].ranks (`--nccl-ras`): a running rank is behind with the same operations launched in answers over at least nccl.lagging_ns, and no more than \
               nccl.lagging_part of the ranks are. The rank that lags most is named. A warning; critical from nccl.hang_ns on.\n\
               \n\
               A queue pair of the same process that died (qp.died) owns it; loss, timeouts and RNR NAKs of queue pairs of that process are named as causes. It is assumed to continue \
               until nccl.late_answers intervals pass without an answer.",
    advice: "Dump the stack of the rank's process: `py-spy dump --pid PID` shows whether it computes, waits for data or for the GPU. Check the queue pairs of its process for errors and retries: a \
             collective that cannot end keeps the rank from launching the next one.",
    caveat: "NCCL counts operations when they are launched, not when they end: where all ranks have launched the same, a hang in the network does not show here. A rank that writes a checkpoint lags, too.",
    ..Entry::of(Problem::Stall)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "nccl";
    lagging_ns: u64 = 20_000_000_000,
        "minimum time without an operation launched, behind the others, in nanoseconds",
        "Three answers in a row; collectives outrun the query by one or two operations all the time";
    lagging_part: f64 = 0.5,
        "largest share of a communicator's ranks that lag",
        "If more than half are behind, one rank is ahead, and the rank waited for is unknown; RAS itself names groups below half";
    hang_ns: u64 = 300_000_000_000,
        "time from which a lagging rank is critical, in nanoseconds",
        "Checkpoints take minutes; PyTorch's watchdog ends a job after 10 minutes";
    unresponsive_ns: u64 = 20_000_000_000,
        "minimum time without an answer, in nanoseconds",
        "One answer may be late under load; NCCL gives a process up after 60 s";
    late_answers: u64 = 3,
        "intervals between two answers without one, after which a finding is no longer assumed to continue",
        "As lagging_ns: three answers in a row";
}

/// Findings that explain a stalled rank if they concern queue pairs of its process.
const CAUSES: [&str; 8] = [
    ids::QP_STUCK,
    ids::QP_RETRYING,
    ids::RETRY_TIMEOUTS,
    ids::LOSS_BETWEEN_TAPS,
    ids::LOSS_BEFORE_TAP,
    ids::LOSS_AFTER_TAP,
    ids::RNR_SLOW_RECEIVER,
    ids::PEER_SILENT,
];
/// Its queue pair has died, which explains the stall completely.
const OWNER: &str = ids::QP_DIED;
/// Maximum number of queue pairs named.
const MAX_QPS: usize = 4;

/// A rank with its communicator.
type RankInCommunicator<'a> = (&'a Communicator, &'a NcclRank);

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let Some(nccl) = &input.facts.nccl else { return };
    let Some(now_ns) = nccl.answered_ns else { return };
    let limits = &input.limits.nccl;
    let all = || nccl.communicators.iter().flat_map(|one| one.ranks.iter().map(move |rank| (one, rank)));
    let case = Case { input, nccl, now_ns };
    let silent = |rank: &NcclRank| now_ns.saturating_sub(rank.state_since_ns) >= limits.unresponsive_ns;
    let mut dead: Vec<RankInCommunicator<'_>> = all()
        .filter(|(_, rank)| {
            rank.state == Some(RankState::Dead) || rank.state == Some(RankState::Unresponsive) && silent(rank)
        })
        .collect();
    dead.sort_by_key(|(_, rank)| (rank.state != Some(RankState::Dead), rank.state_since_ns, rank.rank));
    case.dead(&dead, found);
    let mut failed: Vec<RankInCommunicator<'_>> = all().filter(|(_, rank)| rank.error.is_some()).collect();
    failed.sort_by_key(|(_, rank)| (rank.error == Some(REMOTE_ERROR.1), rank.state_since_ns, rank.rank));
    case.failed(&failed, found);
    let mut lagging: Vec<RankInCommunicator<'_>> =
        all().filter(|(one, rank)| is_lagging(limits, now_ns, one, rank)).collect();
    lagging.sort_by_key(|(_, rank)| (std::cmp::Reverse(rank.behind), rank.behind_since_ns, rank.rank));
    case.lagging(&lagging, found);
}

fn is_lagging(limits: &Limits, now_ns: u64, one: &Communicator, rank: &NcclRank) -> bool {
    let for_ns = rank.behind_since_ns.map_or(0, |since| now_ns.saturating_sub(since));
    let few = one.size.is_some_and(|size| one.behind_ranks as f64 <= limits.lagging_part * f64::from(size));
    is_running(rank) && rank.behind > 0 && few && for_ns >= limits.lagging_ns.max(1)
}

/// The text format of NCCL omits a state that all ranks share.
fn is_running(rank: &NcclRank) -> bool {
    matches!(rank.state, None | Some(RankState::Running))
}

/// Data common to all findings of this family.
struct Case<'a> {
    input: &'a Input<'a>,
    nccl: &'a Nccl,
    now_ns: u64,
}

impl Case<'_> {
    fn dead(&self, ranks: &[RankInCommunicator<'_>], found: &mut Vec<Finding>) {
        let Some(&(one, rank)) = ranks.first() else { return };
        let is_dead = rank.state == Some(RankState::Dead);
        let (severity, what) = if is_dead {
            (Severity::Critical, "is dead: NCCL cannot reach its process".to_owned())
        } else {
            let silent = units::duration(self.now_ns.saturating_sub(rank.state_since_ns));
            (Severity::Warning, format!("does not answer NCCL for {silent}"))
        };
        let text = title(format!("Rank {} {what}", rank.rank), [place(rank), more(others(ranks), "rank")]);
        let raise = Raise::new(&DEAD, severity, text).evidence("state", rank.state.map(RankState::name));
        let raise = self.common(raise, one, rank, ranks, rank.state_since_ns);
        let host = rank.host.map_or_else(|| "its host".to_owned(), |host| host.to_string());
        raise
            .step(format!("Look for the process on {host}: its log, Xid errors and the OOM killer."), self.commands(rank).kernel_log())
            .step(
                "If it runs, dump its stack, and check the bootstrap network between the hosts (NCCL_SOCKET_IFNAME).",
                stack(rank),
            )
            .into(found);
        self.claim(rank, found);
    }

    fn failed(&self, ranks: &[RankInCommunicator<'_>], found: &mut Vec<Finding>) {
        let Some(&(one, rank)) = ranks.first() else { return };
        let error = rank.error.unwrap_or_default();
        let text =
            title(format!("Rank {} failed: {error}", rank.rank), [place(rank), more(others(ranks), "rank")]);
        let raise = Raise::new(&FAILED, Severity::Critical, text).evidence("error", error);
        let raise = self.common(raise, one, rank, ranks, rank.state_since_ns);
        raise
            .step("Read the log of that rank (NCCL_DEBUG=WARN) at that time.", ByHand::Job)
            .step(
                "Look for queue pairs of its process in the error state.",
                self.commands(rank).queue_pairs(),
            )
            .into(found);
        self.claim(rank, found);
    }

    fn lagging(&self, ranks: &[RankInCommunicator<'_>], found: &mut Vec<Finding>) {
        let Some(&(one, rank)) = ranks.first() else { return };
        let since = rank.behind_since_ns.unwrap_or(self.now_ns);
        let for_ns = self.now_ns.saturating_sub(since);
        let severity =
            if for_ns >= self.input.limits.nccl.hang_ns { Severity::Critical } else { Severity::Warning };
        let absent = one.ranks.iter().filter(|other| !is_running(other)).count() as u64;
        let waiting = one.size.map(|size| u64::from(size).saturating_sub(one.behind_ranks + absent));
        let wait = waiting.map_or_else(String::new, |ranks| {
            format!("; {} {}", plural(ranks, "rank"), if ranks == 1 { "waits" } else { "wait" })
        });
        let text = title(
            format!(
                "Rank {} lags {} for {}",
                rank.rank,
                plural(rank.behind, "collective"),
                units::duration(for_ns)
            ),
            [place(rank), wait, more(others(ranks), "rank")],
        );
        let on = match (rank.local_pid, rank.host) {
            (None, Some(host)) => format!(" on {host}"),
            _ => String::new(),
        };
        let operations: Vec<String> = one
            .launched
            .iter()
            .filter_map(|(name, most)| Some((name, rank.launched.get(name)?, most)))
            .filter(|(_, own, most)| own < most)
            .map(|(name, own, most)| format!("{name} {} of {}", units::count(*own), units::count(*most)))
            .collect();
        let here = waits(one, rank);
        let raise = Raise::new(&LAGGING, severity, text)
            .evidence("behind", rank.behind)
            .evidence("behind_ns", for_ns)
            .evidence("operations", operations.join(", "))
            .evidence("waiting_ranks", waiting)
            .evidence("waiting_here", (!here.is_empty()).then(|| here.join("; ")));
        self.common(raise, one, rank, ranks, since)
            .step(
                format!(
                    "Dump the stack of its process{on}: does it compute, wait for data, or wait for the GPU?"
                ),
                stack(rank),
            )
            .step(
                "Check the queue pairs of its process for errors and retries.",
                self.commands(rank).queue_pairs(),
            )
            .into(found);
        self.claim(rank, found);
    }

    /// Adds the affected ranks and the beginning.
    fn common(
        &self,
        raise: Raise,
        one: &Communicator,
        rank: &NcclRank,
        ranks: &[RankInCommunicator<'_>],
        since_ns: u64,
    ) -> Raise {
        let all = qps(one, rank);
        let named: Vec<String> = all.iter().take(MAX_QPS).map(|one| qp(one)).collect();
        let hidden = all.len() as u64 + rank.qps_left_out - named.len() as u64;
        let rest = if hidden > 0 { format!(" and {hidden} more") } else { String::new() };
        let raise = raise
            .evidence("rank", rank.rank)
            .evidence("communicator", one.hash.as_str())
            .evidence("host", rank.host.map(|host| host.to_string()))
            .evidence("gpu", rank.gpu)
            .evidence("pid", rank.pid)
            .evidence("local_pid", rank.local_pid)
            .evidence("ranks", ranks.len())
            .evidence("qps", (!named.is_empty()).then(|| named.join("; ") + &rest))
            .episodes(vec![Episode { first_ns: since_ns, last_ns: self.now_ns, peak: None }]);
        let raise = match self.interface(rank) {
            Some(interface) => raise.place(Place::link(self.input, interface, None)),
            None => raise,
        };
        // Between two answers the state is assumed to continue.
        let late_ns = self.nccl.interval_ns.saturating_mul(self.input.limits.nccl.late_answers);
        let end_ns = self.input.facts.window.last_ns;
        let is_late = end_ns.is_some_and(|end| end.saturating_sub(self.now_ns) > late_ns);
        raise
            .impact(Impact { time_lost_ns: Some(self.now_ns.saturating_sub(since_ns)), ..Impact::default() })
            .last_seen(if is_late { Some(self.now_ns) } else { end_ns })
    }

    /// The interface of its process's queue pairs, if there is exactly one.
    fn interface(&self, rank: &NcclRank) -> Option<&str> {
        let names: BTreeSet<&str> = rank.qps.iter().map(|qp| qp.device.as_str()).collect();
        let name = names.first().filter(|_| names.len() == 1 && rank.qps_left_out == 0)?;
        self.input.facts.devices.iter().find(|device| device.name == *name)?.interface.as_deref()
    }

    fn commands(&self, rank: &NcclRank) -> Commands<'_> {
        let device = rank.qps.first().map(|qp| qp.device.as_str());
        let of = self.input.facts.devices.iter().find(|one| Some(one.name.as_str()) == device);
        Commands::on(self.input, of.and_then(|one| one.interface.as_deref()).unwrap_or_default())
    }

    /// Claims as causes the findings about queue pairs of the rank's process on this host, for the latest finding.
    fn claim(&self, rank: &NcclRank, found: &mut [Finding]) {
        let Some(pid) = rank.local_pid else { return };
        let Some((effect, others)) = found.split_last_mut() else { return };
        let flows: Vec<FlowId> =
            self.input.facts.flows.iter().filter(|flow| flow.pid == Some(pid)).map(FlowId::of).collect();
        let of_process = |other: &Finding| {
            let ends = [&other.requester, &other.responder];
            ends.iter().any(|end| end.as_ref().is_some_and(|end| end.pid == Some(pid)))
                || other.flows.iter().any(|flow| flows.contains(flow))
        };
        let others = others.iter().enumerate().filter(|(_, other)| other.is_problem());
        for (at, other) in others.filter(|(_, other)| of_process(other)) {
            if other.id == OWNER {
                (effect.owner, effect.owner_at) = (Some(OWNER), Some(at));
            } else if CAUSES.contains(&other.id) && !effect.causes.contains(&other.id) {
                effect.causes.push(other.id);
            }
        }
    }
}

/// Host and GPU, for titles.
fn place(rank: &NcclRank) -> String {
    let host = rank.host.map(|host| host.to_string());
    let gpu = rank.gpu.map(|gpu| format!("GPU {gpu}"));
    let known: Vec<String> = [host, gpu].into_iter().flatten().collect();
    if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) }
}

/// Number of other processes than the first; a rank with an unknown process counts as one.
fn others(ranks: &[RankInCommunicator<'_>]) -> u64 {
    let known: BTreeSet<_> =
        ranks.iter().filter(|(_, rank)| rank.pid.is_some()).map(|(_, rank)| (rank.host, rank.pid)).collect();
    let unknown: BTreeSet<_> = ranks
        .iter()
        .filter(|(_, rank)| rank.pid.is_none())
        .map(|(one, rank)| (&one.hash, rank.rank))
        .collect();
    ((known.len() + unknown.len()) as u64).saturating_sub(1)
}

/// The queue pairs of its process if that is on this host; else those of local ranks that lead to its host, if its
/// bootstrap address is that of a RoCE port.
fn qps<'a>(one: &'a Communicator, rank: &'a NcclRank) -> Vec<&'a RankQp> {
    if rank.local_pid.is_some() {
        return rank.qps.iter().collect();
    }
    let here = one.ranks.iter().flat_map(|other| &other.qps);
    here.filter(|qp| rank.host.is_some() && qp.dst == rank.host).collect()
}

/// The ranks of this host that wait for `rank`: `rank 0 (PID 4711) for rank 1 over mlx5_0 QP 6 → …`.
fn waits(one: &Communicator, rank: &NcclRank) -> Vec<String> {
    let waits = |other: &&NcclRank| other.behind == 0 && other.local_pid.is_some() && is_running(other);
    let name = |waiting: &NcclRank| {
        let between: Vec<String> = between(waiting, rank).map(qp).take(MAX_QPS).collect();
        let over = if between.is_empty() { String::new() } else { format!(" over {}", between.join(", ")) };
        let pid = waiting.local_pid.unwrap_or_default();
        format!("rank {} (PID {pid}) for rank {}{over}", waiting.rank, rank.rank)
    };
    one.ranks.iter().filter(waits).take(MAX_QPS).map(name).collect()
}

/// The queue pairs of a rank of this host that lead to another rank: to a queue pair of that rank's process where it is
/// on this host, else to its host where its bootstrap address is that of a RoCE port.
fn between<'a>(waiting: &'a NcclRank, rank: &'a NcclRank) -> impl Iterator<Item = &'a RankQp> {
    waiting.qps.iter().filter(move |own| {
        let is_other_end = |other: &RankQp| {
            (own.rqpn, other.rqpn) == (Some(other.lqpn), Some(own.lqpn))
                && own.dst.is_some()
                && (own.dst, own.src) == (other.src, other.dst)
        };
        match rank.local_pid {
            Some(_) => rank.qps.iter().any(is_other_end),
            None => rank.host.is_some() && own.dst == rank.host,
        }
    })
}

/// `mlx5_0 QP 6 → 10.0.0.2 QP 9 source port 51234 on eth0 (RTS, stuck for 3.00 s, 2 retries used)`.
fn qp(qp: &RankQp) -> String {
    let stuck = qp.stuck_ns.filter(|ns| *ns > 0).map(|ns| format!("stuck for {}", units::duration(ns)));
    let retries = qp
        .retries_used
        .filter(|used| *used > 0)
        .map(|used| format!("{used} {} used", if used == 1 { "retry" } else { "retries" }));
    let state: Vec<String> = [qp.state.map(str::to_owned), stuck, retries].into_iter().flatten().collect();
    let parts = [
        Some(format!("{} QP {}", qp.device, qp.lqpn)),
        qp.dst.map(|dst| format!("→ {dst}")),
        qp.rqpn.map(|rqpn| format!("QP {rqpn}")),
        qp.udp_port.map(|port| format!("source port {port}")),
        qp.link.as_ref().map(|link| format!("on {link}")),
        (!state.is_empty()).then(|| format!("({})", state.join(", "))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn stack(rank: &NcclRank) -> Option<Command> {
    rank.local_pid.map(|pid| Command::here(format!("py-spy dump --pid {pid}")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::{Options, fixtures};
    use crate::entity::lives::{Lives, TO_ERROR};
    use crate::findings::tests::found;
    use crate::sample::Sample;
    use crate::source::nccl::server;
    use fixtures::{SECOND, START};

    /// A job in which rank 1, local process 4711, has been behind for this long.
    fn behind(seconds: u64) -> Sample {
        let mut sample = fixtures::sample(vec![fixtures::link("eth0", None)], Vec::new());
        sample.window = Some((START, START + 400 * SECOND));
        let now = START + 400 * SECOND;
        sample.nccl = Some(Arc::new(server::example(now, now - seconds * SECOND)));
        sample
    }

    fn changed(seconds: u64, change: impl FnOnce(&mut crate::entity::nccl::Nccl)) -> Sample {
        let mut sample = behind(seconds);
        change(Arc::make_mut(sample.nccl.as_mut().unwrap()));
        sample
    }

    fn of(sample: &Sample, id: &str) -> Option<Finding> {
        found(sample, &Options::default()).into_iter().find(|one| one.id == id)
    }

    #[test]
    fn a_rank_that_stands_still_behind_the_others_lags() {
        assert_eq!(of(&behind(19), LAGGING.id), None);
        let one = of(&behind(20), LAGGING.id).unwrap();
        assert_eq!(one.title, "Rank 1 lags 2 collectives for 20.0 s (192.0.2.2, GPU 1); 1 rank waits");
        assert_eq!((one.severity, one.active), (Severity::Warning, true));
        assert_eq!(
            (one.last_seen_ns, one.impact.time_lost_ns),
            (behind(20).window.map(|(_, end)| end), Some(20 * SECOND))
        );
        assert_eq!(one.evidence["operations"], "AllReduce 7 of 9");
        assert_eq!(one.steps[0].command.as_deref(), Some("py-spy dump --pid 4711"));
        assert_eq!(of(&behind(300), LAGGING.id).unwrap().severity, Severity::Critical);
        let many = changed(60, |nccl| nccl.communicators[0].ranks[0].launched[4] = Some(8));
        assert_eq!(of(&many, LAGGING.id), None, "more than half are behind");
        let elsewhere = changed(60, |nccl| {
            let ranks = &mut nccl.communicators[0].ranks;
            (ranks[0].local, ranks[1].local) = (Some(4_712), None);
        });
        let elsewhere = of(&elsewhere, LAGGING.id).unwrap();
        assert_eq!(elsewhere.evidence["waiting_here"], "rank 0 (PID 4712) for rank 1");
        assert_eq!(
            (&elsewhere.evidence["qps"], &elsewhere.steps[0].command),
            (&serde_json::Value::Null, &None)
        );
        let finalized = changed(60, |nccl| {
            nccl.communicators[0].ranks[1].state = Some(RankState::Finalize);
        });
        assert_eq!(of(&finalized, LAGGING.id), None);
        // NCCL has not answered for a long time: the job may have ended.
        let mut ended = behind(60);
        ended.window = Some((START, START + 500 * SECOND));
        assert!(!of(&ended, LAGGING.id).unwrap().active);
        assert_eq!(of(&fixtures::sample(Vec::new(), Vec::new()), LAGGING.id), None);
    }

    /// Which rank waits for which, over which queue pair and path: of a rank elsewhere by the address of its host, of
    /// one on this host by both ends of the connection.
    #[test]
    fn a_rank_that_waits_has_the_queue_pairs_to_the_one_that_lags() {
        let with = |rank: (Option<u32>, [u8; 4]), lives: Vec<crate::entity::lives::QpLife>| {
            let mut sample = changed(60, |nccl| {
                let ranks = &mut nccl.communicators[0].ranks;
                (ranks[0].local, ranks[1].local) = (Some(4_712), rank.0);
                ranks[1].process.host = Some(rank.1.into());
            });
            let lives = Lives { qps: lives.into(), ..Lives::default() };
            sample.devices = fixtures::with_lives(fixtures::port(), lives).devices;
            of(&sample, LAGGING.id).unwrap().evidence["waiting_here"].clone()
        };
        let waiting = |lqpn: u32, rqpn: u32| {
            let mut qp = fixtures::qp_life(lqpn, rqpn);
            (qp.pid, qp.control.udp_port) = (Some(4_712), Some(51_234));
            qp
        };
        let path = "mlx5_0 QP 17 → 10.0.0.2 QP 29 source port 51234 on eth0 (RTS)";
        let said = format!("rank 0 (PID 4712) for rank 1 over {path}");
        assert_eq!(with((None, [10, 0, 0, 2]), vec![waiting(17, 29)]), said.as_str());
        let unknown = "rank 0 (PID 4712) for rank 1";
        assert_eq!(with((None, [192, 0, 2, 2]), vec![waiting(17, 29)]), unknown, "another network");
        // Both ends are here: the queue pair of the process that lags, and not another one to the same address.
        let mut end = fixtures::qp_life(29, 17);
        (end.control.src, end.control.dst) = (end.control.dst, end.control.src);
        let both = vec![waiting(17, 29), waiting(18, 30), end];
        assert_eq!(with((Some(4_711), [192, 0, 2, 2]), both), said.as_str());
    }

    #[test]
    fn processes_that_do_not_answer() {
        let silent = |state: RankState, seconds: u64| {
            let sample = changed(0, |nccl| {
                let rank = &mut nccl.communicators[0].ranks[1];
                rank.state = Some(state);
                rank.state_since_ns = START + (400 - seconds) * SECOND;
            });
            of(&sample, DEAD.id).map(|one| (one.severity, one.title))
        };
        let title = |what: &str| format!("Rank 1 {what} (192.0.2.2, GPU 1)");
        let dead = title("is dead: NCCL cannot reach its process");
        assert_eq!(silent(RankState::Dead, 0), Some((Severity::Critical, dead)));
        assert_eq!(silent(RankState::Unresponsive, 19), None);
        let late = title("does not answer NCCL for 20.0 s");
        assert_eq!(silent(RankState::Unresponsive, 20), Some((Severity::Warning, late)));
        assert_eq!(silent(RankState::NoComm, 60), None);
    }

    #[test]
    fn the_first_error_is_named_and_not_those_that_follow() {
        let sample = changed(0, |nccl| {
            nccl.communicators[0].ranks[0].error = Some(REMOTE_ERROR.1);
            nccl.communicators[0].ranks[1].error = Some("System error");
        });
        let one = of(&sample, FAILED.id).unwrap();
        assert_eq!(one.title, "Rank 1 failed: System error (192.0.2.2, GPU 1) (+1 more rank)");
        assert_eq!(of(&behind(60), FAILED.id), None);
    }

    #[test]
    fn a_dead_queue_pair_of_the_same_process_owns_it() {
        let with_death = |pid: u32| {
            let mut sample = behind(60);
            let mut event = fixtures::qp_event(17, TO_ERROR, START + 350 * SECOND);
            let mut qp = fixtures::qp_life(17, 29);
            (event.pid, qp.pid) = (Some(pid), Some(pid));
            let lives = Lives { events: vec![event], qps: vec![qp].into(), ..Lives::default() };
            sample.devices = fixtures::with_lives(fixtures::port(), lives).devices;
            let all = found(&sample, &Options::default());
            let effects = all.iter().find(|one| one.id == OWNER).unwrap().effects.clone();
            (all.into_iter().find(|one| one.id == LAGGING.id).unwrap(), effects)
        };
        let (own, effects) = with_death(4_711);
        assert_eq!(
            (own.owner, &own.causes[..], &effects[..]),
            (Some(OWNER), &[OWNER][..], &[LAGGING.id][..])
        );
        let qps = own.evidence["qps"].as_str().unwrap();
        assert!(qps.starts_with("mlx5_0 QP 17 → 10.0.0.2 QP 29"), "{qps}");
        let (other, effects) = with_death(4_712);
        assert_eq!((other.owner, other.causes.len(), effects.len()), (None, 0, 0));
    }
}
