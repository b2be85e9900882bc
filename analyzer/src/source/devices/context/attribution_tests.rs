//! Attribution with readings of the contexts at given times.

use super::super::progress::{Rules, Timestamps};
use super::*;
use crate::host::rdma::qp_context::QpContext;
use crate::util::time::{NS_PER_MS as MS, NS_PER_S as S};

/// A context with this PSN, all packets acknowledged.
fn idle_at(psn: u32) -> QpContext {
    QpContext {
        next_send_psn: Some(psn),
        acked_psn: Some(psn),
        idle_distance: Some(0),
        used: Some(true),
        ..QpContext::default()
    }
}

/// Reads a context of a queue pair at this time.
fn read(
    attribution: &mut TimeoutAttribution,
    qps: &mut Map<u32, Progress>,
    (ms, lqpn, psn): (u64, u32, u32),
) {
    let at = Timestamps { monotonic_ns: ms * MS, unix_ns: ms * MS };
    if let Some(progress) = qps.get_mut(&lqpn) {
        progress.take(idle_at(psn), at, &Rules::default());
    } else {
        qps.insert(lqpn, Progress::new(idle_at(psn), at, &Rules::default()));
    }
    attribution.read(lqpn, &qps[&lqpn]);
}

/// While the last context is still awaited, another queue pair begins to send: that is after the errors.
#[test]
fn what_moves_after_the_errors_is_not_blamed_for_them() {
    let (mut attribution, mut qps) = (TimeoutAttribution::default(), Map::default());
    for lqpn in [1, 2, 3] {
        read(&mut attribution, &mut qps, (500, lqpn, 10));
    }
    attribution.counted(Errors::default(), S);
    attribution.counted(Errors { timeouts: 0, sequence_errors: 40 }, 2 * S);
    // The first sent in that second, the second one later, and the third is not read in time.
    for reading in [(2_010, 1, 90), (2_030, 2, 10), (3_010, 1, 90), (3_030, 2, 70)] {
        read(&mut attribution, &mut qps, reading);
    }
    let decided = |attribution: &mut TimeoutAttribution, now_ns| {
        attribution.decide(&qps.iter().map(|(lqpn, progress)| (*lqpn, Some(progress))), now_ns);
        let mut of: Vec<(u32, Blamed)> = attribution.of.iter().map(|(lqpn, of)| (*lqpn, *of)).collect();
        of.sort_by_key(|(lqpn, _)| *lqpn);
        of
    };
    assert_eq!(decided(&mut attribution, 4 * S), [], "the third one may still be read");
    assert!(attribution.is_open());
    let likely = Blamed { timeouts: 0, sequence_errors: 40, certain: false };
    assert_eq!(decided(&mut attribution, 5 * S), [(1, likely)]);
    assert!(!attribution.is_open());
}
