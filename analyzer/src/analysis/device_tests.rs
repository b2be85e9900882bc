use std::sync::Arc;

use super::*;
use crate::analysis::QpSource;
use crate::analysis::fixtures;
use crate::entity::devices::QpSample;
use crate::entity::owners::QpOwner;

/// Numbers of the queue pairs of a port, each with its sources and whether it has ended.
fn listed(lives: Vec<QpLife>, pid: u32) -> Vec<(u32, Vec<QpSource>, bool)> {
    let owner = QpOwner { device: fixtures::port().device, lqpn: 17, rqpn: Some(29), ..QpOwner::default() };
    let qp = QpSample { owner: QpOwner { pid: Some(pid), ..owner }, ..QpSample::default() };
    let port = PortSample { qps: Arc::new(vec![qp]), ..fixtures::port() };
    let lives = Arc::new(Lives { qps: lives.into(), ..Lives::default() });
    let found = devices(&Devices { ports: vec![port], lives, ..Devices::default() });
    let qps = found.into_iter().flat_map(|device| device.qps);
    qps.map(|qp| (qp.lqpn, qp.sources, qp.control.ended_ns.is_some())).collect()
}

#[test]
fn a_queue_pair_that_ended_since_the_list_is_one() {
    use QpSource::{ControlPath, Netlink};
    let alive = fixtures::qp_life(17, 29);
    let pid = alive.pid.unwrap();
    let mut ended = alive.clone();
    (ended.control.created_ns, ended.control.ended_ns) = (Some(1), Some(5));
    assert_eq!(listed(vec![ended.clone()], pid), [(17, vec![Netlink, ControlPath], true)]);
    // Another process has the number by now, or the same one made another queue pair.
    let two = [(17, vec![ControlPath], true), (17, vec![Netlink], false)];
    assert_eq!(listed(vec![ended.clone()], pid + 1), two);
    let mut again = alive;
    again.control.created_ns = Some(9);
    let two = [(17, vec![ControlPath], true), (17, vec![Netlink, ControlPath], false)];
    assert_eq!(listed(vec![ended, again], pid), two);
}
