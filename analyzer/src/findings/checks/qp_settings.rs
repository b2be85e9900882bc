//! Settings of queue pairs, from the kernel's control path.

use std::collections::BTreeMap;

use super::ends;
use crate::analysis::{Device, DeviceQp};
use crate::entity::devices::PortSample;
use crate::findings::title::title;
use crate::findings::{
    ByHand, Commands, Entry, Family, Finding, Input, LocalQp, NoEpisodes, Place, Problem, Raise, Severity,
    Unit, label,
};
use crate::util::time::NS_PER_MS;
use crate::util::units::{self, plural};

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[DSCP, SETTINGS],
    limits: &[Limits::META],
    evidence: &[
        label("qps", "queue pairs", Unit::Count),
        label("dscp", "DSCP", Unit::Id),
        label("priority", "priority on this host", Unit::Id),
        label("lossless_priorities", "priorities with PFC", Unit::Text),
        label("processes", "processes", Unit::Text),
        label("timeout_ns", "transport timeout", Unit::Nanoseconds),
        label("retry_cnt", "retry count", Unit::Count),
        label("path_mtu", "path MTU", Unit::Bytes),
        label("active_mtu", "path MTU that the port offers", Unit::Bytes),
        label("patience_ns", "time until a queue pair gives up, at least", Unit::Nanoseconds),
    ],
    check,
};

const DSCP: Entry = Entry {
    id: "config.qp_dscp",
    rank: 25,
    lasting: Some(NoEpisodes::Setting),
    title: "Queue pairs outside the lossless priority",
    meaning: "Queue pairs send with a DSCP whose priority has no PFC on this port, although the port has lossless priorities. Under congestion their packets are dropped where those of the \
              lossless class wait, and each drop costs a go-back-N. Queue pairs that a GPU drives (DEVX) ignore the global traffic class of the device and often end up here.",
    computed: "Live, from the settings of connected RC queue pairs on the kernel's control path (devices[].qps[].dscp), the host's mapping of DSCPs to priorities and its PFC configuration (dcb): the priority \
               of the DSCP has no PFC while another one has. A DSCP without a mapping has priority 0. On a port that trusts the PCP instead (doctor: qos.trust), from the priority of the queue pair (devices[].qps[].priority). \
               A warning for each device and DSCP, or priority.",
    advice: "Send with the DSCP of the lossless class: NCCL_IB_TC (106 for DSCP 26), UCX_IB_TRAFFIC_CLASS, `cma_roce_tos` for RDMA CM; for queue pairs of GPU-initiated transports the library's own setting \
             (NVSHMEM_IB_TRAFFIC_CLASS). Or map the DSCP to a lossless priority on hosts and switches.",
    caveat: "Traffic that is meant to be lossy (storage, control) shows here too. The mapping is the host's: switches have their own.",
    ..Entry::of(Problem::Settings)
};

const SETTINGS: Entry = Entry {
    id: "config.qp_settings",
    rank: 375,
    lasting: Some(NoEpisodes::Setting),
    title: "Settings of queue pairs",
    meaning: "Transport timeout and retry count let queue pairs fail within the time that a port takes to come up again after a link flap: a short flap ends the job, while longer \
             timeouts would outlast it. Or their path MTU is below the one that the port offers: they send more packets, headers and interrupts for the same data.",
    computed: "Live, from the settings of connected RC queue pairs on the kernel's control path: (retry_cnt + 1) × 4.096 µs × 2^timeout, the least time that the InfiniBand specification allows (devices wait up to \
               four times as long), is below `qp_settings.flap_ms`, except for a retry_cnt of 7 on Soft-RoCE (no limit) and on irdma (its NIC does not get the timeout); or the path MTU is below the largest that fits into the interface's MTU, as the kernel computes it. Info, for each device and setting.",
    advice: "Raise the timeout: with NCCL to its present defaults, NCCL_IB_TIMEOUT=20 (4.3 s; 18 before 2.23, 14 before 2.14) and NCCL_IB_RETRY_CNT=7; else UCX_RC_TIMEOUT. The price is a slower recovery from the loss of a message's last packet, which only the timeout repairs. A path MTU is the smaller of what both ends offer: raise the MTU of the other host's interface, \
             or the application's setting (perftest -m, UCX_RC_PATH_MTU).",
    caveat: "Applications that reconnect by themselves want short timeouts. A path to another site may allow no larger MTU.",
    ..Entry::of(Problem::Settings)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "qp_settings";
    flap_ms: u64 = 1000,
        "minimum time until a queue pair gives up, in milliseconds",
        "Link training of 100 Gb/s and faster ports with FEC takes from some hundred milliseconds to seconds";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    for device in &input.facts.devices {
        let connected = |qp: &&DeviceQp| {
            qp.kind == Some("RC") && qp.rqpn.is_some() && !qp.control.is_over() && qp.control.dst.is_some()
        };
        let qps: Vec<&DeviceQp> = device.every_qp().filter(connected).collect();
        let of = |port: &&PortSample| port.device == device.name && Some(port.port) == device.port;
        if let Some(port) = input.sample.devices.ports.iter().find(of) {
            dscp(input, (device, port), &qps, found);
            path_mtu(input, (device, port), &qps, found);
        }
        patience(input, device, &qps, found);
    }
}

/// Queue pairs grouped by a property.
fn by<'a, K: Ord>(
    qps: &[&'a DeviceQp],
    of: impl Fn(&DeviceQp) -> Option<K>,
) -> BTreeMap<K, Vec<&'a DeviceQp>> {
    let mut groups: BTreeMap<K, Vec<&DeviceQp>> = BTreeMap::new();
    for qp in qps {
        if let Some(key) = of(qp) {
            groups.entry(key).or_default().push(qp);
        }
    }
    groups
}

/// Setting that decides the priority of a queue pair's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Dscp(u8),
    Priority(u8),
}

impl Class {
    /// On a port that trusts DSCP, the priority of a context or command is what the application left it at, mostly 0.
    fn of(port: &PortSample, qp: &DeviceQp) -> Option<Self> {
        if port.trusts_pcp {
            qp.priority.map(Self::Priority)
        } else {
            qp.control.dscp.filter(|_| !port.dscp_priorities.is_empty()).map(Self::Dscp)
        }
    }

    /// Priority, and why it is outside the lossless ones.
    fn priority(self, port: &PortSample) -> (u8, &'static str) {
        match self {
            Self::Dscp(dscp) => match port.dscp_priorities.get(usize::from(dscp)).copied().flatten() {
                Some(mapped) => (mapped.min(7), "no PFC"),
                None => (0, "unmapped"),
            },
            Self::Priority(priority) => (priority.min(7), "no PFC"),
        }
    }

    /// A step to a lossless priority.
    fn remedy(self, with_pfc: &str) -> String {
        match self {
            Self::Dscp(dscp) => format!(
                "Send with a DSCP of priority {with_pfc} (NCCL_IB_TC=106 for DSCP 26), or map DSCP {dscp} to it."
            ),
            Self::Priority(_) => {
                format!("Send with priority {with_pfc} (NCCL_IB_SL), or let the port trust DSCP.")
            }
        }
    }
}

fn dscp(
    input: &Input<'_>,
    (device, port): (&Device, &PortSample),
    qps: &[&DeviceQp],
    found: &mut Vec<Finding>,
) {
    let Some(lossless) = port.lossless.filter(|mask| *mask != 0) else { return };
    let with_pfc: Vec<String> = (0..8)
        .filter(|priority| lossless >> priority & 1 == 1)
        .map(|priority| priority.to_string())
        .collect();
    let with_pfc = with_pfc.join(", ");
    for (class, qps) in by(qps, |qp| Class::of(port, qp)) {
        let (priority, why) = class.priority(port);
        if lossless >> priority & 1 == 1 {
            continue;
        }
        let of = format!("{} of {}", plural(qps.len() as u64, "QP"), device.name);
        let (diagnosis, dscp) = match class {
            Class::Dscp(dscp) => (format!("DSCP {dscp} of {of} has priority {priority}: {why}"), Some(dscp)),
            Class::Priority(_) => (format!("Priority {priority} of {of} has {why}"), None),
        };
        let here = Commands::on(input, device.interface.as_deref().unwrap_or(""));
        of_all(input, device, &qps, Raise::new(&DSCP, Severity::Warning, title(diagnosis, [])))
            .evidence("dscp", dscp)
            .evidence("priority", priority)
            .evidence("lossless_priorities", with_pfc.as_str())
            .step("Read the mapping of DSCPs to priorities, and the priorities with PFC.", here.qos())
            .step(class.remedy(&with_pfc), ByHand::Job)
            .into(found);
    }
}

fn path_mtu(
    input: &Input<'_>,
    (device, port): (&Device, &PortSample),
    qps: &[&DeviceQp],
    found: &mut Vec<Finding>,
) {
    let Some(active) = port.active_mtu else { return };
    for (mtu, qps) in by(qps, |qp| qp.control.path_mtu.filter(|mtu| *mtu < active)) {
        let diagnosis = format!(
            "Path MTU {mtu} of {} of {}: the port offers {active}",
            plural(qps.len() as u64, "QP"),
            device.name
        );
        let here = Commands::on(input, device.interface.as_deref().unwrap_or(""));
        of_all(input, device, &qps, Raise::new(&SETTINGS, Severity::Info, title(diagnosis, [])))
            .evidence("path_mtu", mtu)
            .evidence("active_mtu", active)
            .step("Compare the MTU of the interfaces at both ends.", here.link())
            .into(found);
    }
}

fn patience(input: &Input<'_>, device: &Device, qps: &[&DeviceQp], found: &mut Vec<Finding>) {
    // `irdma_modify_qp_roce` of hw/irdma/verbs.c takes the retry count and leaves the timeout to the firmware.
    if device.driver.as_deref() == Some("irdma") {
        return;
    }
    let flap_ns = input.limits.qp_settings.flap_ms.saturating_mul(NS_PER_MS);
    // A timeout of 0 disables it.
    let set =
        |qp: &DeviceQp| Some((qp.control.timeout_ns.filter(|timeout| *timeout > 0)?, qp.control.retry_cnt?));
    for ((timeout_ns, retry_cnt), qps) in by(qps, set) {
        let patience_ns = timeout_ns.saturating_mul(u64::from(retry_cnt) + 1);
        // Soft-RoCE takes the highest count as no limit (`completer` of rxe_comp.c).
        let is_unlimited = retry_cnt == 7 && device.driver.as_deref() == Some("rxe");
        if patience_ns >= flap_ns || is_unlimited {
            continue;
        }
        let diagnosis = format!(
            "A link flap of {} ends {} of {}",
            units::duration(patience_ns),
            plural(qps.len() as u64, "QP"),
            device.name
        );
        of_all(input, device, &qps, Raise::new(&SETTINGS, Severity::Info, title(diagnosis, [])))
            .evidence("timeout_ns", timeout_ns)
            .evidence("retry_cnt", retry_cnt)
            .evidence("patience_ns", patience_ns)
            .step("Raise the transport timeout of the application (NCCL_IB_TIMEOUT=20).", ByHand::Job)
            .into(found);
    }
}

/// Adds the queue pairs, their processes and ends, and the device's link.
fn of_all(input: &Input<'_>, device: &Device, qps: &[&DeviceQp], raise: Raise) -> Raise {
    /// Maximum number of processes named.
    const MOST: usize = 4;
    let mut processes: Vec<String> =
        qps.iter().filter_map(|qp| ends::process(qp.comm.as_deref(), qp.pid)).collect();
    processes.sort_unstable();
    processes.dedup();
    let more = processes.len().saturating_sub(MOST);
    processes.truncate(MOST);
    if more > 0 {
        processes.push(format!("{more} more"));
    }
    let processes = (!processes.is_empty()).then(|| processes.join(", "));
    let (requester, responder) = qps.first().map_or((None, None), |qp| ends::of_qp(qp));
    raise
        .queue_pairs(LocalQp::all(device, qps.iter().copied()))
        .evidence("qps", qps.len())
        .evidence("processes", processes)
        .place(Place::link(input, device.interface.as_deref().unwrap_or(""), None))
        .ends(requester, responder)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::{Options, fixtures};
    use crate::entity::lives::{Lives, timeout_ns};
    use crate::findings::tests::found;
    use crate::sample::Sample;

    /// Queue pairs with these traffic classes, timeouts and retry counts, on a port with PFC on this priority and
    /// DSCP 26 mapped to priority 3.
    fn sample(qps: &[(u8, u8, u8)], lossless: Option<u8>) -> Sample {
        let life = |(at, (class, timeout, retries)): (u32, &(u8, u8, u8))| {
            let mut life = fixtures::qp_life(17 + at, 29 + at);
            life.control.dscp = Some(*class >> 2);
            life.control.timeout_ns = Some(timeout_ns(*timeout));
            life.control.retry_cnt = Some(*retries);
            life
        };
        let lives = Lives { qps: Arc::new((0..).zip(qps).map(life).collect()), ..Lives::default() };
        let priority = |dscp| (dscp == 26).then_some(3);
        let port =
            PortSample { lossless, dscp_priorities: (0..64).map(priority).collect(), ..fixtures::port() };
        fixtures::with_lives(port, lives)
    }

    fn titles(sample: &Sample, id: &str) -> Vec<String> {
        let all = found(sample, &Options::default());
        all.into_iter().filter(|one| one.id == id).map(|one| one.title).collect()
    }

    #[test]
    fn queue_pairs_outside_the_lossless_priority_are_named() {
        let in_class = (26 << 2, 20, 7);
        let outside = (0, 20, 7);
        for (qps, lossless, expected) in [
            (
                &[in_class, outside, outside][..],
                Some(1 << 3),
                &["DSCP 0 of 2 QPs of mlx5_0 has priority 0: unmapped"][..],
            ),
            (&[in_class], Some(1 << 3), &[]),
            (&[in_class], Some(1 << 4), &["DSCP 26 of 1 QP of mlx5_0 has priority 3: no PFC"]),
            // No lossless class, or an unknown one.
            (&[outside], Some(0), &[]),
            (&[outside], None, &[]),
        ] {
            assert_eq!(titles(&sample(qps, lossless), "config.qp_dscp"), expected, "{qps:?} {lossless:?}");
        }
    }

    /// Also beyond those that a report lists.
    #[test]
    fn all_queue_pairs_count() {
        let many = vec![(0, 20, 7); 5_000];
        let found = titles(&sample(&many, Some(1 << 3)), "config.qp_dscp");
        assert_eq!(found, ["DSCP 0 of 5,000 QPs of mlx5_0 has priority 0: unmapped"]);
    }

    #[test]
    fn a_path_mtu_below_the_port_s_is_named() {
        let mut sample = sample(&[(0, 20, 7), (0, 20, 7), (0, 20, 7)], None);
        let devices = Arc::make_mut(&mut sample.devices);
        devices.ports[0].active_mtu = Some(4_096);
        let lives = Arc::make_mut(&mut Arc::make_mut(&mut devices.lives).qps);
        for (life, mtu) in lives.iter_mut().zip([1_024, 1_024, 4_096]) {
            life.control.path_mtu = Some(mtu);
        }
        let titles_of = |sample: &Sample| titles(sample, "config.qp_settings");
        assert_eq!(titles_of(&sample), ["Path MTU 1024 of 2 QPs of mlx5_0: the port offers 4096"]);
        // Equal to that of the port, or unknown.
        for offered in [Some(1_024), None] {
            Arc::make_mut(&mut sample.devices).ports[0].active_mtu = offered;
            assert!(titles_of(&sample).is_empty(), "{offered:?}");
        }
    }

    #[test]
    fn queue_pairs_that_give_up_early_are_named() {
        // 4.096 µs × 2^14 × 8 = 537 ms.
        let short = titles(&sample(&[(0, 14, 7), (0, 20, 7), (0, 0, 7)], None), "config.qp_settings");
        assert_eq!(short, ["A link flap of 537 ms ends 1 QP of mlx5_0"]);
        // irdma's NIC does not get the timeout.
        let mut on_irdma = sample(&[(0, 14, 7)], None);
        Arc::make_mut(&mut on_irdma.devices).ports[0].driver = Some("irdma".into());
        assert!(titles(&on_irdma, "config.qp_settings").is_empty());
        // 7 retries are no limit on Soft-RoCE, 6 are.
        let mut on_rxe = sample(&[(0, 14, 7), (0, 14, 6)], None);
        Arc::make_mut(&mut on_rxe.devices).ports[0].driver = Some("rxe".into());
        assert_eq!(titles(&on_rxe, "config.qp_settings"), ["A link flap of 470 ms ends 1 QP of mlx5_0"]);
    }
}
