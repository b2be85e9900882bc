//! Drivers' reasons for the error state of a queue pair, as text.
//!
//! Sources, Linux 6.12: mlx5: `mlx5_ifc_cqe_error_syndrome_bits` of include/linux/mlx5/mlx5_ifc.h,
//! `MLX5_CQE_SYNDROME_*` of include/linux/mlx5/device.h; bnxt_re: `creq_qp_error_notification` of
//! drivers/infiniband/hw/bnxt_re/roce_hsi.h (reasons of the requester and of the responder). None has been compared
//! with hardware.

/// The reason in an error syndrome of mlx5: 32 bits, in the order of the definition. `None` without a reason.
pub fn mlx5(word: u32) -> Option<String> {
    let [hardware, kind, vendor, syndrome] = word.to_be_bytes();
    let text = match syndrome {
        0 => return None,
        0x01 => "local length error",
        0x02 => "local QP operation error",
        0x04 => "local protection error",
        0x05 => "work request flushed",
        0x06 => "memory window bind error",
        0x10 => "bad response",
        0x11 => "local access error",
        0x12 => "remote invalid request error",
        0x13 => "remote access error",
        0x14 => "remote operation error",
        0x15 => "transport retry count exceeded",
        0x16 => "RNR retry count exceeded",
        0x22 => "remote aborted error",
        _ => "unknown syndrome",
    };
    Some(format!(
        "{text} (syndrome {syndrome:#04x}, vendor error {vendor:#04x}, hardware {:#x}/{hardware:#04x})",
        kind >> 4
    ))
}

/// The reasons of requester and responder of bnxt_re, if any.
pub fn bnxt(requester: u8, responder: u8) -> Option<String> {
    let of = |side: &str, names: &[&str], code: u8| {
        let text = names.get(usize::from(code)).filter(|name| !name.is_empty());
        (code != 0).then(|| format!("{} ({side} {code:#04x})", text.copied().unwrap_or("unknown reason")))
    };
    let parts = [of("requester", &BNXT_REQUESTER, requester), of("responder", &BNXT_RESPONDER, responder)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// `REQ_ERR_STATE_REASON_*`.
const BNXT_REQUESTER: [&str; 0x1d] = [
    "",
    "opcode error",
    "transport retry count exceeded",
    "RNR retry count exceeded",
    "NAK: invalid request",
    "NAK: remote access error",
    "NAK: remote operational error",
    "NAK: reserved code",
    "local memory error on receipt",
    "local memory error on transmission",
    "READ response of the wrong length",
    "invalid READ response",
    "illegal memory window bind",
    "illegal fast registration",
    "illegal invalidate",
    "completion queue error",
    "local error during retransmission",
    "malformed work request",
    "malformed entry of outstanding READs",
    "invalid address vector",
    "address vector of another protection domain",
    "completion queue not loadable",
    "wrong service type",
    "invalid operation",
    "PCIe error on transmission",
    "PCIe error on receipt",
    "work request and producer index disagree",
    "PSN out of range",
    "retransmission could not be set up",
];

/// `RES_ERR_STATE_REASON_*`; 0x1a is not used.
const BNXT_RESPONDER: [&str; 0x1e] = [
    "",
    "request exceeds the largest message",
    "payload differs from the length of the WRITE",
    "SEND exceeds the posted receive",
    "opcode error",
    "PSN sequence error retry limit exceeded",
    "invalid rkey",
    "rkey of another protection domain",
    "access not permitted",
    "access outside of the memory region",
    "invalid rkey (READ)",
    "rkey of another protection domain (READ)",
    "access not permitted (READ)",
    "access outside of the memory region (READ)",
    "more outstanding READs than agreed",
    "unsupported opcode",
    "unaligned atomic",
    "remote invalidate error",
    "local memory error",
    "shared receive queue in error",
    "completion queue error",
    "invalid rkey of a duplicate request",
    "malformed receive work request",
    "malformed entry of incoming READs",
    "completion queue not loadable",
    "shared receive queue not loadable",
    "",
    "PCIe error on transmission",
    "PCIe error on receipt",
    "PSN not found",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_well_known_vendor_error_129_is_a_retry_count() {
        assert_eq!(
            mlx5(0x1220_8115).as_deref(),
            Some("transport retry count exceeded (syndrome 0x15, vendor error 0x81, hardware 0x2/0x12)")
        );
        assert_eq!(mlx5(0xff00_8100), None);
        assert!(mlx5(0x0000_00ee).unwrap().starts_with("unknown syndrome (syndrome 0xee"));
    }

    #[test]
    fn both_sides_of_bnxt_have_their_reasons() {
        assert_eq!(bnxt(2, 0).as_deref(), Some("transport retry count exceeded (requester 0x02)"));
        assert_eq!(bnxt(3, 0).as_deref(), Some("RNR retry count exceeded (requester 0x03)"));
        assert_eq!(bnxt(0, 6).as_deref(), Some("invalid rkey (responder 0x06)"));
        assert_eq!(
            bnxt(0x1c, 0x1d).unwrap(),
            "retransmission could not be set up (requester 0x1c), PSN not found (responder 0x1d)"
        );
        assert_eq!(bnxt(0, 0), None);
        for code in 0..=u8::MAX {
            let unknown = |side: Option<String>| side.is_some_and(|text| text.starts_with("unknown reason"));
            assert_eq!(unknown(bnxt(code, 0)), code > 0x1c, "{code:#x}");
            assert_eq!(unknown(bnxt(0, code)), code == 0x1a || code > 0x1d, "{code:#x}");
        }
    }
}
