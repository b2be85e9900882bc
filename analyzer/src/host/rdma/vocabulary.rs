//! A common vocabulary for the counters of RDMA and Ethernet drivers, each of which uses its own names.
//!
//! Names come from the drivers' sources in Linux: hw/mlx5/counters.c, hw/bnxt_re/hw_counters.c (older names, and
//! those that newer releases adopted from mlx5), hw/irdma/verbs.c, hw/ionic, hw/mana/counters.c, hw/erdma,
//! hw/efa/efa_verbs.c, sw/rxe/rxe_hw_counters.c; mlx5e, bnxt_en, ice and ionic for Ethernet.

use serde::Serialize;

/// The counters of ports, each once: its name in reports, its unit, its short title on the screen, and its meaning.
/// Passes them to the macro `$with`.
macro_rules! port_counters {
    ($with:ident) => {
        $with! {
            CeMarkedPackets "ce_marked_packets", "packets", "CE", "RoCE packets received with a CE mark.";
            CnpsSent "cnps_sent", "CNPs", "CNP sent", "CNPs sent.";
            CnpsHandled "cnps_handled", "CNPs", "CNP handled", "CNPs received that reduced the rate of a queue pair; of some drivers all received.";
            CnpsIgnored "cnps_ignored", "CNPs", "CNP ignored", "CNPs received without effect.";
            OutOfSequence "out_of_sequence", "requests", "out of sequence", "Requests received out of sequence.";
            PsnErrorNaks "psn_error_naks", "NAKs", "PSN NAKs", "NAKs (PSN sequence error) received.";
            ImpliedPsnErrors "implied_psn_errors", "gaps", "implied NAKs", "PSN gaps that the requester inferred from responses.";
            DuplicateRequests "duplicate_requests", "requests", "duplicate requests", "Requests received that had arrived before.";
            LocalAckTimeouts "local_ack_timeouts", "timeouts", "ACK timeouts", "Transport timeouts: no ACK arrived in time.";
            RnrNaksReceived "rnr_naks_received", "NAKs", "RNR NAK rx", "RNR NAKs received.";
            RnrNaksSent "rnr_naks_sent", "NAKs", "RNR NAK tx", "RNR NAKs sent: no receive buffer was posted.";
            OutOfBuffer "out_of_buffer", "messages or packets", "out of buffer", "Messages or packets that found no receive buffer.";
            Retransmissions "retransmissions", "packets", "retransmissions", "Packets retransmitted, as the NIC counts them.";
            RetriesExceeded "retries_exceeded", "queue pairs", "retries exceeded", "Queue pairs that gave up after the last transport retry.";
            RnrRetriesExceeded "rnr_retries_exceeded", "queue pairs", "RNR retries exceeded", "Queue pairs that gave up after the last RNR retry.";
            AccessNaksReceived "access_naks_received", "NAKs", "access NAK rx", "NAKs (remote access error) received: the peer refused a key, an address or the kind of access.";
            AccessNaksSent "access_naks_sent", "NAKs", "access NAK tx", "NAKs (remote access error) sent.";
            SlowRestarts "slow_restarts", "times", "slow restarts", "Slow restarts after a loss.";
            TxPackets "tx_packets", "packets", "TX packets", "RoCE packets sent, as the NIC counts them.";
            RxPackets "rx_packets", "packets", "RX packets", "RoCE packets received, as the NIC counts them.";
            TxBytes "tx_bytes", "bytes", "TX bytes", "Bytes of RoCE packets sent, as the NIC counts them.";
            RxBytes "rx_bytes", "bytes", "RX bytes", "Bytes of RoCE packets received, as the NIC counts them.";
            RxDiscards "rx_discards", "packets", "RoCE discards", "RoCE packets received and discarded.";
            IcrcErrors "icrc_errors", "packets", "ICRC", "Packets received with a wrong invariant CRC.";
            PortDiscards "port_discards", "frames", "port discards", "Frames discarded on receipt: no buffer space.";
            TxDiscards "tx_discards", "frames", "TX discards", "Frames discarded on sending.";
            FecCorrected "fec_corrected", "bits", "FEC corrected", "Bit errors that forward error correction corrected.";
            FecUncorrectable "fec_uncorrectable", "blocks", "FEC", "Blocks that forward error correction could not correct.";
            LinkDowns "link_downs", "times", "link down", "Times that the link went down.";
            PcieReadStalls "pcie_read_stalls", "times", "PCIe read stalls", "Times that sending waited for PCIe reads.";
            PcieWriteStalls "pcie_write_stalls", "times", "PCIe write stalls", "Times that receiving waited for PCIe writes.";
            GlobalPauseReceived "global_pause_received", "frames", "global pause rx", "Pause frames for the whole link received.";
            GlobalPauseSent "global_pause_sent", "frames", "global pause tx", "Pause frames for the whole link sent.";
            PauseStorms "pause_storms", "times", "pause storms", "Pauses so long that the driver warned or acted.";
        }
    };
}
pub(crate) use port_counters;

macro_rules! meanings {
    ($($variant:ident $name:literal, $unit:literal, $title:literal, $meaning:literal;)+) => {
        /// The meaning of a RoCE device's counter, independent of its driver's name for it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Meaning {
            $(#[doc = $meaning] $variant,)+
            /// Packets or bytes of the port in one priority, including all traffic.
            Priority(Load),
        }

        impl Meaning {
            /// All but those of single priorities.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name in reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                    Self::Priority(load) => load.name(),
                }
            }

            /// The unit.
            pub const fn unit(self) -> &'static str {
                match self {
                    $(Self::$variant => $unit,)+
                    Self::Priority(load) => if load.bytes { "bytes" } else { "packets" },
                }
            }

            /// Title on the screen.
            pub const fn title(self) -> &'static str {
                match self {
                    $(Self::$variant => $title,)+
                    Self::Priority(load) => load.name(),
                }
            }

            /// The meaning of its count, in a sentence.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)+
                    Self::Priority(_) => "Traffic of the port in one priority.",
                }
            }
        }
    };
}
port_counters!(meanings);

/// Kind of counter for the traffic in one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Load {
    /// True for sent, false for received.
    pub sent: bool,
    /// True for bytes, false for packets.
    pub bytes: bool,
    /// Priority, 0 to 7.
    pub priority: u8,
}

/// Names of per-priority counters of a port: packets and bytes received, packets and bytes sent.
const LOADS: [[&str; 8]; 4] = [
    [
        "prio0_rx_packets",
        "prio1_rx_packets",
        "prio2_rx_packets",
        "prio3_rx_packets",
        "prio4_rx_packets",
        "prio5_rx_packets",
        "prio6_rx_packets",
        "prio7_rx_packets",
    ],
    [
        "prio0_rx_bytes",
        "prio1_rx_bytes",
        "prio2_rx_bytes",
        "prio3_rx_bytes",
        "prio4_rx_bytes",
        "prio5_rx_bytes",
        "prio6_rx_bytes",
        "prio7_rx_bytes",
    ],
    [
        "prio0_tx_packets",
        "prio1_tx_packets",
        "prio2_tx_packets",
        "prio3_tx_packets",
        "prio4_tx_packets",
        "prio5_tx_packets",
        "prio6_tx_packets",
        "prio7_tx_packets",
    ],
    [
        "prio0_tx_bytes",
        "prio1_tx_bytes",
        "prio2_tx_bytes",
        "prio3_tx_bytes",
        "prio4_tx_bytes",
        "prio5_tx_bytes",
        "prio6_tx_bytes",
        "prio7_tx_bytes",
    ],
];

impl Serialize for Meaning {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Load {
    /// The name in reports.
    const fn name(self) -> &'static str {
        let [rx_packets, rx_bytes, tx_packets, tx_bytes] = &LOADS;
        let names = match (self.sent, self.bytes) {
            (false, false) => rx_packets,
            (false, true) => rx_bytes,
            (true, false) => tx_packets,
            (true, true) => tx_bytes,
        };
        names[(self.priority & 7) as usize]
    }
}

/// Names with a different meaning in one driver.
fn of_driver(driver: &str, name: &str) -> Option<Meaning> {
    use Meaning as M;
    Some(match (driver, name) {
        // irdma counts only UDP packets of RoCE (other protocols have separate names); bnxt_re the unicast packets of
        // the RoCE function; EFA its own transport (SRD), which is not RoCE and retransmits on other paths by itself.
        ("irdma", "RxUDP") | ("bnxt_re" | "efa", "rx_pkts") => M::RxPackets,
        ("irdma", "TxUDP") | ("bnxt_re" | "efa", "tx_pkts") => M::TxPackets,
        ("bnxt_re" | "efa", "rx_bytes") => M::RxBytes,
        ("bnxt_re" | "efa", "tx_bytes") => M::TxBytes,
        ("efa", "rx_drops") => M::RxDiscards,
        // Assumed to count RoCE as it does iWARP, since the source has one name for both.
        ("irdma", "RetransSegs" | "tcpRetransSegs") | ("efa", "retrans_pkts") => M::Retransmissions,
        ("irdma", "RTO") | ("efa", "retrans_timeout_events") => M::LocalAckTimeouts,
        ("irdma", "CRC errors") => M::IcrcErrors,
        _ => return None,
    })
}

/// Meaning of a counter below `hw_counters`, or of the same counter over netlink; `None` for driver-specific ones.
/// `driver` is that of the RDMA device ("mlx5_ib"); names with the same meaning in all drivers need none.
pub fn hardware(driver: Option<&str>, name: &str) -> Option<Meaning> {
    use Meaning as M;
    if let Some(own) = driver.and_then(|driver| of_driver(driver, name)) {
        return Some(own);
    }
    Some(match name {
        "np_ecn_marked_roce_packets"
        | "rx_ecn_marked_pkts"
        | "RxECNMrkd"
        | "rx_rdma_ecn_pkts"
        | "received_ecns"
        | "cc_rx_ce_pkts" => M::CeMarkedPackets,
        "np_cnp_sent" | "np_cnp_pkts" | "tx_cnp_pkts" | "cnpSent" | "tx_rdma_cnp_pkts" | "sent_cnps"
        | "tx_cnp_pkt" | "cc_tx_cnp_pkts" => M::CnpsSent,
        "rp_cnp_handled" | "rx_cnp_pkts" | "cnpHandled" | "rx_rdma_cnp_pkts" | "received_cnps"
        | "rx_cnp_pkt" | "cc_rx_cnp_pkts" => M::CnpsHandled,
        "rp_cnp_ignored" | "cnpIgnored" => M::CnpsIgnored,
        "out_of_sequence"
        | "oos_drop_count"
        | "out_of_seq_request"
        | "resp_rx_outouf_seq"
        | "oos_nak"
        | "Rcvd Out of order packets" => M::OutOfSequence,
        "packet_seq_err" | "seq_err_naks_rcvd" | "rcvd_seq_err" | "req_rx_pkt_seq_err"
        | "Nak Sequence Error" => M::PsnErrorNaks,
        "implied_nak_seq_err" | "req_rx_impl_nak_seq_err" | "Nak Sequence Error Implied" => {
            M::ImpliedPsnErrors
        }
        "duplicate_request" | "dup_req" | "resp_rx_dup_request" => M::DuplicateRequests,
        "local_ack_timeout_err" | "to_retransmits" | "tx_rdma_ack_timeout" | "requester_timeout" => {
            M::LocalAckTimeouts
        }
        "rnr_nak_retry_err" | "rnr_naks_rcvd" | "rcvd_rnr_err" | "req_rx_rnr_retry_err" | "RNR received" => {
            M::RnrNaksReceived
        }
        "send_rnr_err" | "RNR sent" | "resp_tx_rnr_retry_err" => M::RnrNaksSent,
        "out_of_buffer" | "rx_out_of_buffer" | "resp_rx_outof_buf" => M::OutOfBuffer,
        "roce_adp_retrans" | "completer_retry_err" | "tx_rdma_retx_pkts" => M::Retransmissions,
        "req_transport_retries_exceeded"
        | "max_retry_exceeded"
        | "retry_exceeded_err"
        | "req_tx_retry_excd_err" => M::RetriesExceeded,
        "req_rnr_retries_exceeded" | "retry_rnr_exceeded_err" => M::RnrRetriesExceeded,
        "req_remote_access_errors" | "remote_access_err" | "req_rx_rmt_acc_err" => M::AccessNaksReceived,
        "resp_remote_access_errors" | "resp_tx_rmt_acc_err" => M::AccessNaksSent,
        "roce_slow_restart" => M::SlowRestarts,
        "rdma_tx_packets" | "sent_pkts" | "tx_roce_only_pkts" | "tx_rdma_ucast_pkts" => M::TxPackets,
        "rdma_rx_packets" | "rcvd_pkts" | "rx_roce_only_pkts" | "rx_rdma_ucast_pkts" => M::RxPackets,
        "rdma_tx_bytes" | "tx_roce_only_bytes" | "tx_rdma_ucast_bytes" => M::TxBytes,
        "rdma_rx_bytes" | "rx_roce_only_bytes" | "rx_rdma_ucast_bytes" => M::RxBytes,
        "rx_roce_discards" | "rx_rdma_mtu_discard_pkts" => M::RxDiscards,
        "rx_icrc_encapsulated" => M::IcrcErrors,
        "link_downed" => M::LinkDowns,
        _ => return None,
    })
}

/// Meaning of a driver statistic of an Ethernet interface (`ethtool -S`); pauses by priority are read by [`pause`].
pub fn ethernet(name: &str) -> Option<Meaning> {
    use Meaning as M;
    Some(match name {
        "rx_vport_rdma_unicast_packets" => M::RxPackets,
        "tx_vport_rdma_unicast_packets" => M::TxPackets,
        "rx_vport_rdma_unicast_bytes" => M::RxBytes,
        "tx_vport_rdma_unicast_bytes" => M::TxBytes,
        "rx_discards_phy" | "rx_discard_frames" | "rx_dropped.nic" | "frames_rx_dropped" => M::PortDiscards,
        "tx_discards_phy" | "tx_dropped_link_down.nic" => M::TxDiscards,
        "rx_corrected_bits_phy" | "rx_fec_corrected_blocks" | "fec_corrected_blocks" => M::FecCorrected,
        "rx_pcs_symbol_err_phy" | "rx_fec_uncorrectable_blocks" | "fec_uncorrectable_blocks" => {
            M::FecUncorrectable
        }
        "link_down_events_phy" | "link_down_events" => M::LinkDowns,
        "outbound_pci_stalled_rd_events" => M::PcieReadStalls,
        "outbound_pci_stalled_wr_events" => M::PcieWriteStalls,
        "rx_global_pause" | "rx_pause_ctrl_phy" | "rx_pause_frames" | "link_xoff_rx.nic"
        | "frames_rx_pause" => M::GlobalPauseReceived,
        "tx_global_pause" | "tx_pause_ctrl_phy" | "tx_pause_frames" | "link_xoff_tx.nic"
        | "frames_tx_pause" => M::GlobalPauseSent,
        "tx_pause_storm_warning_events" | "tx_pause_storm_error_events" => M::PauseStorms,
        _ => M::Priority(load(name)?),
    })
}

/// Counter of the traffic in one priority: mlx5e `rx_prio3_packets`, bnxt_en `rx_packets_pri3`. (bnxt_en shows them
/// if its queues are assigned to priorities; per-queue counters, `rx_packets_cos3`, are different.)
fn load(name: &str) -> Option<Load> {
    let (sent, rest) = match name.strip_prefix("rx_") {
        Some(rest) => (false, rest),
        None => (true, name.strip_prefix("tx_")?),
    };
    let of = |what: &str, priority: u8| {
        let bytes = match what {
            "packets" => false,
            "bytes" => true,
            _ => return None,
        };
        Some(Load { sent, bytes, priority })
    };
    if let Some(rest) = rest.strip_prefix("prio") {
        let (priority, rest) = priority(rest)?;
        return of(rest.strip_prefix('_')?, priority);
    }
    let (what, rest) = rest.split_once("_pri")?;
    let (priority, rest) = priority(rest)?;
    if rest.is_empty() { of(what, priority) } else { None }
}

/// Pause counters of one priority in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PauseCount {
    /// Pause frames; `None` if the driver does not count them.
    pub frames: Option<u64>,
    /// Paused time, in microseconds.
    pub microseconds: Option<u64>,
    /// Transitions from running to paused.
    pub transitions: Option<u64>,
}

/// Pause counters by priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PauseCounts {
    /// Pause frames received, by priority.
    pub received: [PauseCount; 8],
    /// Pause frames sent, by priority.
    pub sent: [PauseCount; 8],
}

/// The pause counters among the driver statistics of an interface; `None` if there are none.
pub fn pause(statistics: &[(String, u64)]) -> Option<PauseCounts> {
    let mut counts = PauseCounts::default();
    let mut any = false;
    for (name, value) in statistics {
        let Some((sent, priority, field)) = pause_name(name) else { continue };
        if !may_be_pause(name, statistics) {
            continue;
        }
        let side = if sent { &mut counts.sent } else { &mut counts.received };
        let Some(count) = side.get_mut(usize::from(priority)) else { continue };
        let slot = match field {
            PauseField::Frames => &mut count.frames,
            PauseField::Microseconds => &mut count.microseconds,
            PauseField::Transitions => &mut count.transitions,
        };
        // ice counts XOFF and XON separately; only XOFF pauses.
        *slot = Some(slot.unwrap_or(0).saturating_add(*value));
        any = true;
    }
    any.then_some(counts)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PauseField {
    Frames,
    Microseconds,
    Transitions,
}

/// ionic's `frames_rx_pri_3`: Pensando's firmware and its tests count PFC frames of the priority there, the
/// documentation of AMD's exporter says all frames. They are PFC frames as long as no priority has more than the port
/// has of all priorities together: if one counts all frames, the others do.
fn may_be_pause(name: &str, statistics: &[(String, u64)]) -> bool {
    let Some((side, _)) = name.split_once("_pri_") else { return true };
    let is_total = |other: &str| other.strip_prefix(side) == Some("_pripause");
    let is_part = |other: &str| other.strip_prefix(side).is_some_and(|rest| rest.starts_with("_pri_"));
    let parts = statistics.iter().filter(|(other, _)| is_part(other)).map(|(_, value)| *value);
    let most = parts.max().unwrap_or(0);
    statistics.iter().any(|(other, total)| is_total(other) && most <= *total)
}

/// Direction (true: sent), priority and kind of a driver's pause counter, from its name.
fn pause_name(name: &str) -> Option<(bool, u8, PauseField)> {
    use PauseField::{Frames, Microseconds, Transitions};
    // bnxt_en, newer: pfc_pri3_rx_duration_us, pfc_pri3_tx_transitions.
    if let Some(rest) = name.strip_prefix("pfc_pri") {
        let (priority, rest) = priority(rest)?;
        return Some(match rest {
            "_rx_duration_us" => (false, priority, Microseconds),
            "_tx_duration_us" => (true, priority, Microseconds),
            "_rx_transitions" => (false, priority, Transitions),
            "_tx_transitions" => (true, priority, Transitions),
            _ => return None,
        });
    }
    // i40e has the prefix `port.` where ice has the suffix `.nic`; ionic has the prefix `frames_`.
    let is_frames = name.starts_with("frames_");
    let name = name.strip_prefix("port.").or_else(|| name.strip_prefix("frames_")).unwrap_or(name);
    let (sent, rest) = match name.strip_prefix("rx_") {
        Some(rest) => (false, rest),
        None => (true, name.strip_prefix("tx_")?),
    };
    // ice: rx_priority_3_xoff.nic; i40e: rx_priority_3_xoff_rx.
    if let Some(rest) = rest.strip_prefix("priority_") {
        let (priority, rest) = priority(rest)?;
        return rest.starts_with("_xoff").then_some((sent, priority, Frames));
    }
    // mlx5: rx_prio3_pause, rx_prio3_pause_duration, rx_prio3_pause_transition.
    if let Some(rest) = rest.strip_prefix("prio") {
        let (priority, rest) = priority(rest)?;
        return Some(match rest {
            "_pause" => (sent, priority, Frames),
            "_pause_duration" => (sent, priority, Microseconds),
            "_pause_transition" => (sent, priority, Transitions),
            _ => return None,
        });
    }
    // bnxt_en: rx_pfc_ena_frames_pri3.
    if let Some(rest) = rest.strip_prefix("pfc_ena_frames_pri") {
        let (priority, rest) = priority(rest)?;
        return rest.is_empty().then_some((sent, priority, Frames));
    }
    // ionic: frames_rx_pri_3, rx_pripause_3_1us_count; in rccl-tests of AMD frames_rx_pripause3.
    let rest = rest.strip_prefix("pripause").or_else(|| rest.strip_prefix("pri").filter(|_| is_frames))?;
    let (priority, rest) = priority(rest.strip_prefix('_').unwrap_or(rest))?;
    match rest {
        "" => Some((sent, priority, Frames)),
        "_1us_count" => Some((sent, priority, Microseconds)),
        _ => None,
    }
}

/// The first digit of a text as a priority, and the rest.
fn priority(text: &str) -> Option<(u8, &str)> {
    let (first, rest) = text.split_at_checked(1)?;
    let priority = first.parse().ok().filter(|priority| *priority < 8)?;
    (!rest.starts_with(|c: char| c.is_ascii_digit())).then_some((priority, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_share_one_vocabulary() {
        use Meaning as M;
        for (driver, name, meaning) in [
            ("mlx5_ib", "np_cnp_sent", Some(M::CnpsSent)),
            ("mlx5_ib", "rp_cnp_handled", Some(M::CnpsHandled)),
            ("mlx5_ib", "np_ecn_marked_roce_packets", Some(M::CeMarkedPackets)),
            ("bnxt_re", "tx_cnp_pkts", Some(M::CnpsSent)),
            ("bnxt_re", "oos_drop_count", Some(M::OutOfSequence)),
            ("bnxt_re", "rx_pkts", Some(M::RxPackets)),
            ("mlx5_ib", "rx_pkts", None),
            ("irdma", "RxUDP", Some(M::RxPackets)),
            ("irdma", "cnpIgnored", Some(M::CnpsIgnored)),
            ("irdma", "Nak Sequence Error", Some(M::PsnErrorNaks)),
            ("irdma", "Nak Sequence Error Implied", Some(M::ImpliedPsnErrors)),
            ("irdma", "Rcvd Out of order packets", Some(M::OutOfSequence)),
            ("irdma", "RTO", Some(M::LocalAckTimeouts)),
            ("irdma", "CRC errors", Some(M::IcrcErrors)),
            ("irdma", "RNR sent", Some(M::RnrNaksSent)),
            ("irdma", "tcpRetransSegs", Some(M::Retransmissions)),
            ("hypothetical", "RTO", None),
            ("efa", "tx_pkts", Some(M::TxPackets)),
            ("efa", "retrans_timeout_events", Some(M::LocalAckTimeouts)),
            ("efa", "unresponsive_remote_events", None),
            ("mlx5_ib", "retrans_pkts", None),
            ("ionic_rdma", "tx_rdma_ack_timeout", Some(M::LocalAckTimeouts)),
            ("ionic_rdma", "resp_tx_rnr_retry_err", Some(M::RnrNaksSent)),
            ("ionic_rdma", "req_rx_rmt_acc_err", Some(M::AccessNaksReceived)),
            ("ionic_rdma", "rx_rdma_mtu_discard_pkts", Some(M::RxDiscards)),
            ("mlx5_ib", "req_remote_access_errors", Some(M::AccessNaksReceived)),
            ("mlx5_ib", "resp_remote_access_errors", Some(M::AccessNaksSent)),
            ("bnxt_re", "remote_access_err", Some(M::AccessNaksReceived)),
            ("rxe", "rcvd_seq_err", Some(M::PsnErrorNaks)),
            ("rxe", "send_rnr_err", Some(M::RnrNaksSent)),
            ("hypothetical", "out_of_sequence", Some(M::OutOfSequence)),
            ("hypothetical", "lifespan", None),
        ] {
            assert_eq!(hardware(Some(driver), name), meaning, "{driver} {name}");
        }
        assert_eq!(ethernet("rx_vport_rdma_unicast_packets"), Some(M::RxPackets));
        assert_eq!(ethernet("rx_packets"), None, "not RoCE's");
        assert_eq!(ethernet("frames_rx_pause"), Some(M::GlobalPauseReceived));
    }

    #[test]
    fn what_a_port_carries_by_priority_has_one_name() {
        for (name, shown) in [
            ("rx_prio3_packets", "prio3_rx_packets"),
            ("tx_prio0_bytes", "prio0_tx_bytes"),
            ("rx_bytes_pri7", "prio7_rx_bytes"),
            ("tx_packets_pri5", "prio5_tx_packets"),
        ] {
            assert_eq!(ethernet(name).map(Meaning::name), Some(shown), "{name}");
        }
        for name in [
            "rx_prio3_discards",
            "rx_prio8_bytes",
            "rx_bytes_pri8",
            "rx_bytes_pri33",
            "rx_bytes_cos3",
            "rx_pfc_ena_frames_pri3",
            "rx_prio3",
            "tx_",
            "rx_prio_é",
        ] {
            assert_eq!(ethernet(name), None, "{name}");
        }
        // Every combination, each once.
        let all: std::collections::BTreeSet<&str> = LOADS.iter().flatten().copied().collect();
        assert_eq!(all.len(), 32);
        let shown = serde_json::to_value(Meaning::Priority(Load { sent: true, bytes: true, priority: 4 }));
        assert_eq!(shown.unwrap(), "prio4_tx_bytes");
        assert_eq!(serde_json::to_value(Meaning::CeMarkedPackets).unwrap(), "ce_marked_packets");
    }

    #[test]
    fn pause_by_priority_in_every_spelling() {
        let statistics = |names: &[(&str, u64)]| {
            names.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect::<Vec<_>>()
        };
        let mlx5 = pause(&statistics(&[
            ("rx_prio3_pause", 5),
            ("rx_prio3_pause_duration", 70),
            ("rx_prio3_pause_transition", 2),
            ("tx_prio3_pause", 9),
            ("rx_prio3_packets", 1000),
        ]))
        .unwrap();
        let expected = PauseCount { frames: Some(5), microseconds: Some(70), transitions: Some(2) };
        assert_eq!(mlx5.received[3], expected);
        assert_eq!(mlx5.sent[3].frames, Some(9));
        assert_eq!(mlx5.received[4], PauseCount::default());
        for (name, sent, frames) in [
            ("rx_pfc_ena_frames_pri5", false, true),
            ("pfc_pri5_tx_duration_us", true, false),
            ("tx_priority_5_xoff.nic", true, true),
            ("port.rx_priority_5_xoff_rx", false, true),
            ("rx_pripause_5_1us_count", false, false),
            ("frames_tx_pripause5", true, true),
            ("frames_rx_pri_5", false, true),
            ("frames_tx_pri_5", true, true),
        ] {
            // ionic's frames of all priorities together.
            let totals = [(name, 7), ("frames_rx_pripause", 7), ("frames_tx_pripause", 7)];
            let counts = pause(&statistics(&totals)).unwrap_or_default();
            let count = if sent { counts.sent[5] } else { counts.received[5] };
            assert_eq!(if frames { count.frames } else { count.microseconds }, Some(7), "{name}");
        }
        for name in [
            "rx_priority_5_xon.nic",
            "rx_prio8_pause",
            "rx_prio33_pause",
            "rx_prio",
            "pfc_pri",
            "tx_é",
            "frames_rx_pripause",
            "frames_rx_pri_5",
            "rx_pri_5",
        ] {
            assert_eq!(pause(&statistics(&[(name, 7)])), None, "{name}");
        }
        // More than all PFC frames, or than those of this direction: other frames of the priority.
        for totals in
            [[("frames_rx_pripause", 6), ("frames_tx_pripause", 9)], [("frames_rx", 9), ("rx_pripause", 9)]]
        {
            let all = [&[("frames_rx_pri_5", 7)][..], &totals].concat();
            assert_eq!(pause(&statistics(&all)), None, "{all:?}");
        }
        // The frames of one priority are no PFC frames, so those of another are not, however few.
        let all = [("frames_rx_pri_0", 9), ("frames_rx_pripause", 8), ("frames_rx_pri_5", 7)];
        assert_eq!(pause(&statistics(&all)), None);
    }
}
