//! Any bytes as the context of a queue pair from a driver or its firmware.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocescope::host::rdma::qp_context::{Place, decode, decode_query, is_decoded};
use rocescope_fuzz::seeds;

const DRIVERS: [&str; 5] = ["mlx5_ib", "hns_roce", "hns_roce_hw_v2", "bnxt_re", "rxe"];

/// A context for each driver and length: driver, both numbers, then bytes of one value.
fn made() -> Vec<Vec<u8>> {
    let lengths = [64, 128, 196, 256, 272, 320, 512];
    let of = |driver: u8| {
        lengths.map(|length| [&[driver, 17, 0, 0, 0, 1, 18, 0, 0, 0][..], &vec![driver; length]].concat())
    };
    (0..5).flat_map(of).collect()
}

fuzz_target!(init: seeds(made), |input: (u8, u32, Option<u32>, &[u8])| {
    let (driver, lqpn, rqpn, bytes) = input;
    let driver = DRIVERS[usize::from(driver) % DRIVERS.len()];
    let lqpn = lqpn & 0xff_ffff;
    let mut place = Place::default();
    let found = [decode(driver, bytes, lqpn, rqpn, &mut place), decode_query(bytes, rqpn)];
    assert!(is_decoded(driver) || found[0].is_err());
    for context in found.iter().flatten() {
        // A context format without the peer is compatible with any peer.
        assert!(rqpn.is_none() || context.rqpn.is_none() || context.rqpn == rqpn);
        assert!(context.priority.is_none_or(|priority| priority < 16));
        assert!(context.path_mtu.is_none_or(|mtu| (256..=4096).contains(&mtu)));
        for psn in [context.next_send_psn, context.acked_psn, context.next_recv_psn] {
            assert!(driver != "mlx5_ib" || psn.is_none_or(|psn| psn <= 0xff_ffff));
        }
    }
    assert_eq!(found[0], decode(driver, bytes, lqpn, rqpn, &mut Place::default()));
    // What names the peer confirms the place for those without one.
    if let (Ok(context), Some(_)) = (&found[0], rqpn) {
        let context = context.clone();
        assert!(context.rqpn.is_none() || decode(driver, bytes, lqpn, None, &mut place) == Ok(context));
    }
});
