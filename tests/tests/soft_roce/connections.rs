//! Queue pairs that the connection manager sets up for rping: as `rdma resource` lists them, and in the report.

use rocescope_tests::oracle::binary;
use rocescope_tests::soft_roce::lab::{ENDS, FAR, NEAR};
use rocescope_tests::soft_roce::lives;
use rocescope_tests::soft_roce::qps::{self, Qp};
use rocescope_tests::soft_roce::report::flow;
use rocescope_tests::soft_roce::session::SessionResult;
use rocescope_tests::soft_roce::tool::{self, Tool};

use super::named;

/// Retries that rping asks for.
const RETRIES: u8 = 7;

/// Connects through the connection manager and communicates; returns the queue pairs that `rdma resource` showed.
/// rocescope must read the same list of queue pairs meanwhile.
pub(super) fn rping() -> Vec<Qp> {
    let count = "25";
    let mut server =
        Tool::start("rping", &["-s", "-a", FAR.address, "-C", count, "-S", "1500", "-V"]).unwrap();
    // It prints nothing when it is ready, but the kernel lists its identifier.
    tool::wait_for("rping listening", || {
        anyhow::ensure!(
            server.is_running()?,
            "the server of rping ended at once: {}",
            server.standard_error()?
        );
        let shown = tool::json("rdma", &["-j", "resource", "show", "cm_id"])?;
        let mut all = shown.as_array().into_iter().flatten();
        Ok(all.any(|id| id["state"] == "LISTEN" && id["comm"] == "rping").then_some(()))
    })
    .unwrap();
    let mut client =
        Tool::start("rping", &["-c", "-a", FAR.address, "-I", NEAR.address, "-C", count, "-S", "1500", "-V"])
            .unwrap();
    let pids = [client.id(), server.id()];
    let of_them = |qp: &Qp| qp.kind == "RC" && qp.pid.is_some_and(|pid| pids.contains(&pid));
    let both = |all: &[Qp]| all.iter().filter(|qp| of_them(qp) && qp.rqpn.is_some()).count() == ENDS.len();
    let mut compared = false;
    let steady = |all: Vec<Qp>| all.into_iter().map(Qp::steady).collect::<Vec<_>>();
    let shown = tool::wait_for("rping ending", || {
        let before = steady(qps::shown()?);
        if both(&before) && !compared {
            let read = steady(qps::read()?);
            // No queue pair was created, changed or destroyed while rocescope read.
            if steady(qps::shown()?) == before {
                assert_eq!(read, before, "what rocescope reads, and what `rdma resource` shows");
                compared = true;
            }
        }
        let found: Vec<Qp> = before.into_iter().filter(of_them).collect();
        Ok((both(&found) && compared || !client.is_running()?).then_some(found))
    })
    .unwrap();
    client.finish().unwrap();
    server.finish().unwrap();
    assert!(compared, "rping ended before its queue pairs could be compared: {shown:?}");
    shown
}

/// The connection's queue pairs are those of `rdma resource`: from the device in the live report, and from the
/// connection's own messages in a replay of the capture.
pub(super) fn check(seen: &SessionResult, connected: &[Qp]) {
    for (end, capture) in ENDS.into_iter().zip(&seen.captures) {
        let replayed = binary::replay(std::slice::from_ref(capture), [] as [&str; 0]).unwrap();
        let qp = connected.iter().find(|qp| qp.device == end.device).unwrap();
        let (own, peer) = (u64::from(qp.lqpn), u64::from(qp.rqpn.unwrap()));
        let other = lives::connected(&seen.report, end, qp, RETRIES);
        named(flow(&seen.report, end, "egress", other, peer).unwrap(), qp, own);
        named(flow(&seen.report, end, "ingress", end, own).unwrap(), qp, peer);
        for (dst, qpn, sender) in [(other, peer, own), (end, own, peer)] {
            let mut flows = replayed["flows"].as_array().unwrap().iter();
            let found = flows.find(|flow| flow["dst"] == dst.address && flow["dest_qp"] == qpn);
            let found =
                found.unwrap_or_else(|| panic!("no flow to QP {qpn} of {} in the capture", dst.device));
            assert_eq!(found["peer_qp"], sender, "from the messages that set it up: {found}");
            assert_eq!(found["pairing"]["how"], "cm", "{found}");
        }
    }
}
