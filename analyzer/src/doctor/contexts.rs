//! Asks each RoCE device for the NIC's context of one of its queue pairs: the answer shows whether this host gives any,
//! and whether it can be decoded.

use super::facts::{ContextFacts, HostFacts, Protocol};
use crate::host::rdma::nldev::{self, Device, Query, QueuePair};
use crate::host::rdma::qp_context::{self, Place};
use crate::host::read::queries::Queries;

/// Reads one context of each RoCE device with a connected queue pair: on mlx5 and bnxt_re one command to the firmware.
pub fn ask_contexts(facts: &mut HostFacts, kernel: &dyn Queries) {
    let known: Vec<Device> =
        kernel.rdma(Query::Devices).iter().flatten().filter_map(|answer| Device::parse(answer)).collect();
    for device in facts.devices.iter_mut().filter(|device| device.protocol == Protocol::Roce) {
        let Some(known) = known.iter().find(|known| known.name == device.name) else { continue };
        let listed = kernel.rdma(Query::QueuePairs(known.index)).unwrap_or_default();
        let connected = |qp: &QueuePair| qp.has_context() && qp.rqpn.is_some() && qp.port.is_some();
        let qp = listed.iter().flat_map(|answer| nldev::queue_pairs(answer)).find(connected);
        device.context = qp.map(|qp| read(kernel, known.index, device.driver.as_deref().unwrap_or(""), &qp));
    }
}

fn read(kernel: &dyn Queries, index: u32, driver: &str, qp: &QueuePair) -> ContextFacts {
    let answer = kernel.rdma(Query::QpContext(index, qp.port.unwrap_or(1), qp.lqpn));
    let (bytes, problem) = match answer {
        Ok(answers) => {
            let bytes = answers.iter().find_map(|answer| nldev::qp_context(answer)).unwrap_or_default();
            let decoded = qp_context::decode(driver, &bytes, qp.lqpn, qp.rqpn, &mut Place::default());
            (Some(bytes.len() as u64), decoded.err().map(|why| why.to_string()))
        }
        Err(error) => (None, Some(qp_context::refusal(driver, &error))),
    };
    ContextFacts { lqpn: qp.lqpn, bytes, problem }
}
