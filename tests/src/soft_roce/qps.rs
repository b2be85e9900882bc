//! The queue pairs of this machine, as shown by `rdma resource show qp` and as read by rocescope.

use std::collections::BTreeSet;

use anyhow::Result;
use rocescope::entity::owners::QpOwner;
use rocescope::host::rdma::nldev::QueuePair;
use rocescope::host::read::queries::Kernel;
use rocescope::host::read::{HostRoot, UnreadReasons};
use rocescope::source::devices::listed;
use serde_json::Value;

use super::tool::{Tool, json, wait_for};

/// A queue pair.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Qp {
    /// RDMA device.
    pub device: String,
    /// Its number.
    pub lqpn: u32,
    /// Number of the peer's queue pair.
    pub rqpn: Option<u32>,
    /// `RC`, `GSI` …
    pub kind: String,
    /// PID.
    pub pid: Option<u32>,
    /// Command of the process; for queue pairs of the kernel, the module.
    pub comm: Option<String>,
    /// `RTS`, `RTR` …
    pub state: Option<String>,
    /// PSN sent next.
    pub sq_psn: Option<u32>,
    /// PSN expected next.
    pub rq_psn: Option<u32>,
}

impl Qp {
    /// Without the values that change while it sends.
    #[must_use]
    pub fn steady(self) -> Self {
        Self { sq_psn: None, rq_psn: None, ..self }
    }
}

/// The queue pairs in `rdma resource show qp`.
pub fn shown() -> Result<Vec<Qp>> {
    let all = json("rdma", &["-j", "resource", "show", "qp"])?;
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut found: Vec<Qp> = all
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|qp| {
            Some(Qp {
                device: text(&qp["ifname"])?,
                lqpn: number(&qp["lqpn"])?,
                rqpn: number(&qp["rqpn"]).filter(|qpn| *qpn != 0),
                kind: text(&qp["type"])?,
                pid: number(&qp["pid"]).filter(|pid| *pid != 0),
                // Some versions put kernel modules in brackets.
                comm: text(&qp["comm"]).map(|comm| comm.trim_matches(['[', ']']).to_owned()),
                state: text(&qp["state"]),
                sq_psn: number(&qp["sq-psn"]),
                rq_psn: number(&qp["rq-psn"]),
            })
        })
        .collect();
    found.sort();
    Ok(found)
}

/// The queue pairs that rocescope reads over RDMA netlink.
pub fn read() -> Result<Vec<Qp>> {
    let mut unread = UnreadReasons::new();
    let root = HostRoot::here()?;
    let addresses = listed::addresses(&root, &mut unread);
    let list = listed::read(&root, &Kernel, &addresses, &mut unread, &mut || {}).list;
    let reasons = unread.into_reasons();
    anyhow::ensure!(reasons.is_empty(), "not all was read: {reasons:?}");
    let of = |(qp, owner): &(QueuePair, QpOwner)| Qp {
        device: owner.device.clone(),
        lqpn: owner.lqpn,
        rqpn: owner.rqpn,
        kind: owner.kind.unwrap_or("unknown").to_owned(),
        pid: owner.pid,
        comm: owner.comm.clone(),
        state: qp.state.map(str::to_owned),
        sq_psn: qp.sq_psn,
        rq_psn: qp.rq_psn,
    };
    let mut found: Vec<Qp> = list.iter().map(of).collect();
    found.sort();
    Ok(found)
}

/// Queue pairs of `rdma resource` that satisfy `wanted` while a program runs, collected over all readings.
pub fn while_running(program: &mut Tool, wanted: impl Fn(&Qp) -> bool) -> Result<Vec<Qp>> {
    let mut found = BTreeSet::new();
    wait_for("the end of a program while its queue pairs are listed", || {
        let now = shown()?.into_iter().filter(|qp| wanted(qp) && qp.rqpn.is_some());
        found.extend(now.map(Qp::steady));
        Ok((!program.is_running()?).then_some(()))
    })?;
    anyhow::ensure!(
        !found.is_empty(),
        "`rdma resource show qp` never showed the connected queue pairs of a program that ran: {}",
        program.standard_error()?
    );
    Ok(found.into_iter().collect())
}
