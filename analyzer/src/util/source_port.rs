//! Conclusions from a UDP source port about the two queue pairs of a connection.
//!
//! A port says nothing certain, but senders do not choose it at random either. Each rule here is a
//! formula of a sender's; that it holds by chance has a probability of 1 in 16,384 or less.

use super::system::KernelVersion;

/// Lowest port that a hashed flow label gives.
pub const FIRST_HASHED_PORT: u16 = 0xC000;

/// The port of both directions as Linux (`rdma_calc_flow_label`, used by mlx5, irdma and Soft-RoCE)
/// computes it from the two queue pair numbers, when no flow label was set.
pub fn of_both(one: u32, other: u32) -> u16 {
    let mut v = u64::from(one) * u64::from(other);
    v ^= v >> 20;
    v ^= v >> 40;
    from_flow_label((v & 0xF_FFFF) as u32)
}

/// The port that stands for a flow label of 20 bits (`rdma_flow_label_to_udp_sport`).
pub fn from_flow_label(label: u32) -> u16 {
    let low = label & 0x3FFF;
    let high = (label & 0xF_C000) >> 14;
    // Both have 14 bits at most.
    FIRST_HASHED_PORT | u16::try_from(low ^ high).unwrap_or_default()
}

/// The port of a sender that hashes its own queue pair number: Soft-RoCE before the rule above.
pub fn of_sender(qp: u32) -> u16 {
    const GOLDEN_RATIO_32: u32 = 0x61C8_8647;
    FIRST_HASHED_PORT + (qp.wrapping_mul(GOLDEN_RATIO_32) >> (32 - 14)) as u16
}

/// The port of a sender that puts its own queue pair number there (HiSilicon hns).
pub fn is_sender(qp: u32) -> u16 {
    (qp & 0xFFFF) as u16
}

/// Drivers that use `rdma_get_udp_sport` of rdma/ib_verbs.h.
const USERS: [&str; 8] =
    ["mlx5_ib", "irdma", "hns_roce", "hns_roce_hw_v2", "erdma", "mana_ib", "mana", "rxe"];

/// Those among them that had another rule before [`SHARED_SINCE`].
const LATE_USERS: [&str; 2] = ["irdma", "rxe"];

/// First kernel in which [`LATE_USERS`] use the shared rule.
const SHARED_SINCE: KernelVersion = KernelVersion::new(5, 17, 0);

/// True if the source port of a queue pair is computed for this driver on a kernel; for the others [`why_unknown`] has
/// the reason.
pub fn is_computed(driver: &str, kernel: Option<KernelVersion>) -> bool {
    USERS.contains(&driver) && (!LATE_USERS.contains(&driver) || kernel >= Some(SHARED_SINCE))
}

/// The reason why the source port of a driver's queue pair is not known on a kernel: it is not computed there, or the
/// flow label that it follows from is not known.
pub fn why_unknown(driver: &str, kernel: Option<KernelVersion>) -> String {
    match driver {
        _ if is_computed(driver, kernel) => {
            "the flow label, from which the UDP source port follows, was not seen".to_owned()
        }
        _ if LATE_USERS.contains(&driver) => {
            let here = if kernel.is_some() { "" } else { ", and the kernel's version is not known" };
            format!("before kernel {SHARED_SINCE}, {driver} has another rule for the UDP source port{here}")
        }
        "ionic_rdma" => "versions of ionic_rdma differ in the UDP source port they send".to_owned(),
        _ => format!("{driver} leaves the UDP source port to the firmware"),
    }
}

/// The UDP source port of a queue pair (`rdma_get_udp_sport` of rdma/ib_verbs.h) on a kernel; `None` for
/// drivers that do not use that rule there.
pub fn udp_source_port(
    driver: &str,
    kernel: Option<KernelVersion>,
    flow_label: u32,
    lqpn: u32,
    rqpn: u32,
) -> Option<u16> {
    is_computed(driver, kernel)
        .then(|| if flow_label == 0 { of_both(lqpn, rqpn) } else { from_flow_label(flow_label) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ports that drivers chose for queue pairs they named.
    #[test]
    fn ports_seen_on_the_wire() {
        assert_eq!((of_both(28, 29), of_both(29, 28)), (49_964, 49_964));
        assert_eq!(of_both(0x29, 0x2A), 50_874);
        assert_eq!(from_flow_label(0x7_0BBD), 52_129);
        assert_eq!((of_sender(1), of_sender(17)), (55_410, 57_236));
        assert_eq!(is_sender(69), 69);
    }

    #[test]
    fn a_port_that_is_not_known_has_the_reason_of_driver_and_kernel() {
        let kernel = |major, minor| Some(KernelVersion::new(major, minor, 0));
        for driver in ["irdma", "rxe"] {
            let old = why_unknown(driver, kernel(5, 16));
            assert_eq!(old, format!("before kernel 5.17, {driver} has another rule for the UDP source port"));
            assert_eq!(udp_source_port(driver, kernel(5, 16), 1, 2, 3), None);
            assert!(why_unknown(driver, None).ends_with("the kernel's version is not known"), "{driver}");
        }
        for (driver, kernel) in [("rxe", kernel(5, 17)), ("irdma", kernel(6, 1)), ("mlx5_ib", None)] {
            assert!(why_unknown(driver, kernel).contains("was not seen"), "{driver}");
            assert!(udp_source_port(driver, kernel, 1, 2, 3).is_some(), "{driver}");
        }
        assert!(why_unknown("efa", kernel(6, 12)).contains("leaves the UDP source port to the firmware"));
        assert!(why_unknown("ionic_rdma", kernel(6, 12)).starts_with("versions of ionic_rdma differ"));
    }
}
