//! Programs on the kernel's control path of queue pairs: loading, attaching, reading their records.

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use aya::maps::{HashMap as BpfHashMap, MapData, PerCpuArray, RingBuf};
use aya::{Ebpf, EbpfLoader};
use rocescope_common::abi::qp::{
    ABSENT, BY_PROCESS, Call, LONGEST_CALL_NS, QP_CALLS, QP_COUNTS, QP_RECORDS, QpRecord, count, kind,
};

use super::devx::Devx;
use super::probe::{MOST_RECORDS, attach, each, load, program, text};
use super::qp_pods::{Names, Pods};
use super::skips::Skips;
use crate::entity::lives::{
    Calls, DESTROY, KERNEL, QpControl, QpEvent, QpLife, REASON, VERBS, own_port, timeout_ns,
};
use crate::host::kernel::clock::{WallClock, monotonic_ns};
use crate::host::kernel::{Capability, KernelFacts, perf_for_administrators};
use crate::host::process;
use crate::host::rdma::nldev::{kind_name, state_name};
use crate::host::rdma::qp_layout::{Attributes, Layout, address, mask};
use crate::host::rdma::qp_reason;
use crate::host::rdma::qp_types::{self, BNXT, CommandOffsets, MLX5};
use crate::host::read::HostRoot;
use crate::source::devices::lives::{Change, Span};
use crate::util::source_port::udp_source_port;
use crate::util::system::kernel_version;
use crate::util::time::NS_PER_MS;

pub(super) static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/rocescope-qps"));

/// Programs and the kernel functions they attach to, as far as these exist, in the order of attaching. Where it can be,
/// returns are seen first: a call that is entered before the second of two is then none whose return was missed. Of
/// creations the entry shows whether a process or the kernel makes it.
const PROBES: [(&str, &[&str]); 10] = [
    ("rocescope_qp_create", &["ib_create_qp_user"]),
    ("rocescope_qp_created", &["ib_create_qp_user", "ib_create_qp_kernel"]),
    ("rocescope_qp_modified", &["ib_modify_qp_with_udata", "ib_modify_qp"]),
    ("rocescope_qp_modify", &["ib_modify_qp_with_udata", "ib_modify_qp"]),
    ("rocescope_qp_queried", &["ib_query_qp"]),
    ("rocescope_qp_query", &["ib_query_qp"]),
    ("rocescope_qp_destroyed", &["ib_destroy_qp_user"]),
    ("rocescope_qp_kept", &["ib_destroy_qp_user"]),
    ("rocescope_qp_event", &["ib_uverbs_qp_event_handler"]),
    ("rocescope_device_event", &["ib_dispatch_event"]),
];

/// Function of bnxt_re that receives the firmware's reason for a queue pair in the error state, and its program.
const REASONS: (&str, &str) = ("bnxt_re_aeq_handler", "rocescope_qp_reason");

/// Interval of searches for calls that have not returned, while their number stays the same.
const SEARCH_NS: u64 = 500 * NS_PER_MS;

/// Attached probes. Dropping them detaches and unloads everything.
pub(super) struct QpProbes {
    /// Keeps the programs and their links alive.
    _ebpf: Ebpf,
    records: RingBuf<MapData>,
    counts: PerCpuArray<MapData, u64>,
    /// Calls that have not been seen to return, by thread.
    entered: BpfHashMap<MapData, u64, [u64; Call::WORDS]>,
    /// The latest search among them.
    searched: Outstanding,
    layout: Layout,
    absent: Vec<(String, String)>,
    /// Followed commands (DEVX), or the reason why they are not followed.
    devx: Result<Devx, String>,
    modules: Modules,
    pods: Pods,
    names: Names,
    skips: Skips,
}

impl std::fmt::Debug for QpProbes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QpProbes").field("absent", &self.absent).finish_non_exhaustive()
    }
}

impl QpProbes {
    /// Loads and attaches the programs that the kernel allows. The queries of the calling thread are those that are
    /// recorded: it is the one that lists queue pairs.
    ///
    /// # Errors
    /// The reason why queue pairs cannot be followed.
    #[expect(clippy::too_many_lines, reason = "one program after the other, each with what it needs")]
    pub(super) fn start(root: &HostRoot) -> Result<Self> {
        let modules = Modules::of(root);
        let layout = qp_types::layout(root).map_err(|why| anyhow!(why))?;
        let (offsets, bnxt) = (CommandOffsets::read(root), qp_types::bnxt_offset(root));
        let (of, thread) = (layout.programs, rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
        let mut loader = EbpfLoader::new();
        if let Ok(offsets) = &offsets {
            loader.override_global("CORE_DEVICE", &offsets.device, true).override_global(
                "DEVICE_KOBJ_NAME",
                &offsets.name,
                true,
            );
        }
        let of_bnxt = bnxt.as_ref().map_or(ABSENT, |offset| *offset);
        let mut ebpf = loader
            .override_global("BNXT_QP", &of_bnxt, true)
            .override_global("QP_SIZE", &of.qp_size, true)
            .override_global("ATTR_SIZE", &of.attr_size, true)
            .override_global("QP_DEVICE", &of.qp_device, true)
            .override_global("DEVICE_NAME_AT", &of.device_name, true)
            .override_global("QP_SGID", &of.qp_sgid, true)
            .override_global("QP_REAL", &of.qp_real, true)
            .override_global("QP_TASK", &of.qp_task, true)
            .override_global("TASK_TGID", &of.task_tgid, true)
            .override_global("GID_AT", &of.gid, true)
            .override_global("EVENT_DEVICE", &of.event_device, true)
            .override_global("EVENT_ELEMENT", &of.event_element, true)
            .override_global("EVENT_TYPE", &of.event_type, true)
            .override_global("OWN_THREAD", &thread, true)
            .load(OBJECT)
            .context("the kernel refused the maps of the queue pair probes")?;
        let mut absent = Vec::new();
        let mut attached = 0;
        for (name, _) in PROBES {
            load(&mut ebpf, name)?;
        }
        for (name, functions) in PROBES {
            let program = program(&mut ebpf, name)?;
            let mut refused = Vec::new();
            for function in functions {
                if let Err(error) = program.attach(function, 0) {
                    refused.push(((*function).to_owned(), format!("{:#}", anyhow!(error))));
                }
            }
            attached += functions.len() - refused.len();
            absent.append(&mut refused);
        }
        if attached == 0 {
            let why = absent.first().map_or("", |(_, why)| why);
            return Err(anyhow!("no kprobe can be attached: {why}{}", for_administrators(Path::new("/"))));
        }
        // Without the probes of the verbs, all commands would look like DEVX.
        let devx = match offsets {
            Ok(_) if !absent.is_empty() => Err("not all verbs can be probed".to_owned()),
            Ok(_) => Devx::attach(&mut ebpf).map_err(|error| format!("{error:#}")),
            Err(why) => Err(why),
        };
        absent.extend(attach_bnxt(&mut ebpf, root, bnxt).into_iter().chain(own_queries(root)));
        let records = ebpf.take_map(QP_RECORDS).context("the kernel object has no records")?.try_into()?;
        let counts = ebpf.take_map(QP_COUNTS).context("the kernel object has no counts")?.try_into()?;
        let entered = ebpf.take_map(QP_CALLS).context("the kernel object has no calls")?.try_into()?;
        let skips = Skips::of(&ebpf);
        let (pods, names, searched) = (Pods::default(), Names::default(), Outstanding::default());
        Ok(Self {
            _ebpf: ebpf,
            records,
            counts,
            entered,
            searched,
            layout,
            absent,
            devx,
            modules,
            pods,
            names,
            skips,
        })
    }

    /// True if a module was reloaded, which removes its probes silently.
    pub(super) fn is_stale(&self, root: &HostRoot) -> bool {
        Modules::of(root) != self.modules
    }

    /// Reads host data that may have changed since the last call.
    pub(super) fn learn(&mut self, root: &HostRoot) {
        if let Ok(devx) = &mut self.devx {
            devx.learn(root);
        }
        self.names = Names::default();
    }

    /// The changes since the last call, with Unix times by this clock. `driver` gives the driver of a device, `root`
    /// the host's files.
    pub(super) fn read(
        &mut self,
        clock: WallClock,
        driver: &dyn Fn(&str) -> Option<String>,
        root: &dyn Fn() -> Option<HostRoot>,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut makers = Vec::new();
        each(&mut self.records, |record: &QpRecord| {
            if let Some(change) = change(&self.layout, record, clock, driver) {
                if record.kind == kind::CREATED && record.mask & BY_PROCESS != 0 {
                    makers.push((changes.len(), record.pid, record.cgroup));
                }
                changes.push(change);
            }
        });
        self.names.add(&mut changes, root);
        if let Ok(devx) = &mut self.devx {
            devx.read(clock, root, &mut changes, &mut makers);
        }
        // Now, since the processes may have ended by the next reading.
        if let Some(root) = (!makers.is_empty()).then(root).flatten() {
            for (at, pid, group) in makers {
                if let Some(Change::Is(life, _)) = changes.get_mut(at) {
                    life.pod = self.pods.of(&root, pid, group);
                }
            }
        }
        changes
    }

    /// Calls seen and missed. `root` gives the host's files.
    pub(super) fn calls(&mut self, root: &dyn Fn() -> Option<HostRoot>) -> Calls {
        let counts = &self.counts;
        let sum = |index: u32| {
            let values = counts.get(&index, 0).ok();
            values.map_or(0, |values| values.iter().sum::<u64>())
        };
        // A call that is entered or returns meanwhile is none that was missed: they are read in this order.
        let entered = sum(count::ENTERED);
        let unseen = entered.saturating_sub(sum(count::RETURNED));
        let now_ns = monotonic_ns();
        // Calls that were under way may have ended unseen: these are looked for again.
        let is_known = self.searched.under_way == 0
            && unseen == self.searched.unseen
            && now_ns.saturating_sub(self.searched.at_ns) < SEARCH_NS;
        if unseen > 0 && !is_known {
            let calls = self.entered.iter().take(MOST_RECORDS).filter_map(Result::ok);
            let calls = calls.map(|(thread, words)| (thread, Call::from_words(words)));
            self.searched = Outstanding::among(calls, now_ns, root().as_ref());
            self.searched.unseen = unseen;
        }
        let Outstanding { under_way, may_end, .. } =
            if unseen > 0 { self.searched } else { Outstanding::default() };
        Calls {
            entered,
            missed_returns: entered.saturating_sub(sum(count::RETURNED)).saturating_sub(under_way),
            under_way,
            may_end,
            dropped: sum(count::DROPPED),
            skipped: self.skips.count(kernel_version()),
            absent: self.absent.clone(),
            absent_fields: self.layout.absent().into_iter().map(str::to_owned).collect(),
            commands: sum(count::COMMANDS),
            missed_commands: sum(count::COMMANDS).saturating_sub(sum(count::COMMANDS_ENDED)),
            devx_unavailable: self.devx.as_ref().err().cloned(),
        }
    }
}

/// Calls that have not returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Outstanding {
    /// Number of calls whose return was not seen, when this was found.
    unseen: u64,
    /// Monotonic time.
    at_ns: u64,
    /// Those that are under way.
    under_way: u64,
    /// Those of them that may take a queue pair to the error state.
    may_end: u64,
}

impl Outstanding {
    /// Of these calls by thread, those that may be under way: they are not old, and their threads still exist.
    fn among(calls: impl Iterator<Item = (u64, Call)>, now_ns: u64, root: Option<&HostRoot>) -> Self {
        let is_alive = |thread: u64| {
            let path = format!("/proc/{}/task/{}", thread >> 32, thread & u64::from(u32::MAX));
            root.is_some_and(|root| root.exists(&path))
        };
        // Queries are this thread's own: none is under way while it is here.
        let is_verb = |call: &Call| [kind::CREATED, kind::MODIFIED].map(u64::from).contains(&call.kind);
        let mut found = Self { at_ns: now_ns, ..Self::default() };
        for (thread, call) in calls {
            if is_verb(&call) && now_ns.saturating_sub(call.time_ns) < LONGEST_CALL_NS && is_alive(thread) {
                found.under_way += 1;
                // With an address, it connects a queue pair.
                let may_end = call.kind == u64::from(kind::MODIFIED) && call.mask & u64::from(mask::AV) == 0;
                found.may_end += u64::from(may_end);
            }
        }
        found
    }
}

/// An addition to the error of a kernel that lets nobody but administrators probe; else empty.
pub(super) fn for_administrators(root: &Path) -> String {
    let may = KernelFacts::read(root).capabilities.is_none_or(|held| held.has(Capability::SysAdmin));
    let level = perf_for_administrators(root).filter(|_| !may);
    level.map_or_else(String::new, |level| {
        format!(" (kernel.perf_event_paranoid is {level}: kernels of Debian and Ubuntu then want CAP_SYS_ADMIN for probes; with 2, CAP_PERFMON suffices)")
    })
}

/// Attaches the probe of bnxt_re's reasons if its module is loaded; on failure returns the function and the reason.
fn attach_bnxt(ebpf: &mut Ebpf, root: &HostRoot, offset: Result<u32, String>) -> Option<(String, String)> {
    if !root.exists(&format!("/sys/module/{BNXT}")) {
        return None;
    }
    let (function, program) = REASONS;
    let attached = offset.map_err(|why| anyhow!(why)).and_then(|_| attach(ebpf, program, function));
    attached.err().map(|why| (function.to_owned(), format!("{why:#}")))
}

/// The probe of queries, and the reason for which it does not see those of this process.
fn own_queries(root: &HostRoot) -> Option<(String, String)> {
    let why = process::NO_OWN_QUERIES.to_owned();
    (process::has_numbers_of_host(root) == Some(false)).then(|| ("ib_query_qp".to_owned(), why))
}

/// Identity of the modules with probes: the directory of a module is a new one after reloading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Modules([Option<u64>; 4]);

impl Modules {
    /// The modules loaded now.
    pub(super) fn of(root: &HostRoot) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let inode = |name: &str| {
            let path = root.path(&format!("/sys/module/{name}"));
            std::fs::metadata(Path::new(&path)).ok().map(|found| found.ino())
        };
        Self(["ib_core", "ib_uverbs", MLX5, BNXT].map(inode))
    }
}

/// A record with the context needed to decode it.
struct Reader<'a> {
    layout: &'a Layout,
    record: &'a QpRecord,
    time_ns: u64,
    device: String,
    lqpn: Option<u32>,
}

/// The change in a record.
fn change(
    layout: &Layout,
    record: &QpRecord,
    clock: WallClock,
    driver: &dyn Fn(&str) -> Option<String>,
) -> Option<Change> {
    let of = Reader {
        layout,
        record,
        time_ns: clock.unix_ns(record.time_ns),
        device: text(&record.device)?,
        lqpn: layout.qp_num(record),
    };
    let ended_ns = record.time_ns;
    let call = Span { began_ns: ended_ns.saturating_sub(record.duration_ns), ended_ns };
    match record.kind {
        kind::CREATED if record.result == 0 => of.life(Attributes::default(), driver).map(|life| {
            let made = QpLife {
                origin: Some(if record.mask & BY_PROCESS == 0 { KERNEL } else { VERBS }),
                state: Some("RESET"),
                pid: Some(record.pid).filter(|pid| *pid != 0),
                comm: text(&record.comm),
                control: QpControl { created_ns: Some(of.time_ns), ..life.control },
                ..life
            };
            Change::Is(made, call)
        }),
        kind::CREATED => Some(Change::Event(of.verb_failed("create".to_owned(), None))),
        kind::MODIFIED if record.result == 0 => {
            let life = of.life(layout.attributes(record, record.mask), driver)?;
            let took_ns = Some(record.duration_ns).filter(|took| *took > 0);
            let control = QpControl {
                connected_ns: (life.state == Some("RTS")).then_some(of.time_ns),
                connect_took_ns: took_ns.filter(|_| matches!(life.state, Some("RTR" | "RTS"))),
                ..life.control
            };
            Some(Change::Is(QpLife { control, ..life }, call))
        }
        kind::MODIFIED => {
            let wanted = layout.attributes(record, record.mask);
            let to = wanted.state.and_then(state_name).map_or_else(String::new, |to| format!(" to {to}"));
            Some(Change::Event(of.verb_failed(format!("modify{to}"), wanted.peer)))
        }
        kind::QUERIED if record.result == 0 => {
            let life = of.life(layout.queried(record, driver(&of.device).as_deref()), driver)?;
            let pid = Some(record.pid).filter(|pid| *pid != 0);
            Some(Change::Found(QpLife { pid, origin: pid.map(|_| VERBS), ..life }, call))
        }
        kind::DESTROYED if record.result == 0 => {
            Some(Change::Ended { lqpn: of.lqpn?, port: of.port(), device: of.device, time_ns: ended_ns })
        }
        kind::DESTROYED => Some(Change::Kept(of.verb_failed(DESTROY.to_owned(), None))),
        kind::REASON => {
            let [requester, responder, ..] = record.mask.to_le_bytes();
            let reason = Some(qp_reason::bnxt(requester, responder)?);
            Some(Change::Event(QpEvent { reason, ..of.event(REASON.to_owned()) }))
        }
        kind::EVENT => Some(Change::Event(of.event(event_name(record.event)))),
        kind::DEVICE_EVENT => Some(Change::Event(QpEvent {
            // A port event has the port here; other events have addresses.
            port: Some(record.mask).filter(|port| (1..=255).contains(port)),
            ..of.event(event_name(record.event))
        })),
        _ => None,
    }
}

impl Reader<'_> {
    /// The queue pair with these attributes. `None` if its number is unknown.
    fn life(&self, set: Attributes, driver: &dyn Fn(&str) -> Option<String>) -> Option<QpLife> {
        let lqpn = self.lqpn?;
        let (driver, rqpn) = (driver(&self.device), set.dest_qp.filter(|qpn| *qpn != 0));
        let port =
            |label: u32, rqpn: u32| udp_source_port(driver.as_deref()?, kernel_version(), label, lqpn, rqpn);
        Some(QpLife {
            device: self.device.clone(),
            lqpn,
            port: self.layout.port(self.record),
            kind: self.layout.qp_type(self.record).and_then(kind_name),
            state: set.state.and_then(state_name),
            rqpn,
            control: QpControl {
                src: self.src(),
                dst: set.peer,
                udp_port: set.flow_label.zip(rqpn).and_then(|(label, rqpn)| port(label, rqpn)),
                flow_label: set.flow_label,
                dscp: set.traffic_class.map(|class| class >> 2),
                path_mtu: set.path_mtu,
                timeout_ns: set.timeout.map(timeout_ns),
                retry_cnt: set.retry_cnt,
                rnr_retry: set.rnr_retry,
                ..QpControl::default()
            },
            ..QpLife::default()
        })
    }

    fn src(&self) -> Option<IpAddr> {
        address(&self.record.sgid).filter(|_| self.record.has_sgid == 1)
    }

    fn event(&self, event: String) -> QpEvent {
        QpEvent {
            time_ns: self.time_ns,
            monotonic_ns: Some(self.record.time_ns),
            device: self.device.clone(),
            lqpn: self.lqpn,
            event,
            ..QpEvent::default()
        }
    }

    /// Port of one of those that each port has: the others are known by their numbers.
    fn port(&self) -> Option<u32> {
        own_port(self.lqpn?, self.layout.port(self.record))
    }

    /// A verb that returned an error.
    fn verb_failed(&self, verb: String, dst: Option<IpAddr>) -> QpEvent {
        let record = self.record;
        QpEvent {
            port: self.port(),
            errno: Some(record.result.saturating_neg()),
            duration_ns: (record.duration_ns > 0).then_some(record.duration_ns),
            pid: Some(record.pid),
            comm: text(&record.comm),
            src: self.src(),
            dst,
            ..self.event(verb)
        }
    }
}

/// `enum ib_event_type` of rdma/ib_verbs.h.
fn event_name(event: u32) -> String {
    const NAMES: [&str; 20] = [
        "CQ_ERR",
        "QP_FATAL",
        "QP_REQ_ERR",
        "QP_ACCESS_ERR",
        "COMM_EST",
        "SQ_DRAINED",
        "PATH_MIG",
        "PATH_MIG_ERR",
        "DEVICE_FATAL",
        "PORT_ACTIVE",
        "PORT_ERR",
        "LID_CHANGE",
        "PKEY_CHANGE",
        "SM_CHANGE",
        "SRQ_ERR",
        "SRQ_LIMIT_REACHED",
        "QP_LAST_WQE_REACHED",
        "CLIENT_REREGISTER",
        "GID_CHANGE",
        "WQ_FATAL",
    ];
    usize::try_from(event)
        .ok()
        .and_then(|event| NAMES.get(event))
        .map_or_else(|| format!("event {event}"), |name| (*name).to_owned())
}

#[cfg(test)]
#[path = "qp_probes_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "queue_pair_load_tests.rs"]
mod load;
