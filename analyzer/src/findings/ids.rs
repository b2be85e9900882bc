//! Ids of findings that several families name, as causes or owned: a family that named the declarations of another
//! would import it, and be imported by it.

pub(super) const BURST_INCAST: &str = "burst.incast";
pub(super) const CNP_STORM: &str = "cnp.storm";
pub(super) const CNP_WITHOUT_CE: &str = "cnp.without_ce";
pub(super) const CONFIG_LOSSLESS: &str = "config.lossless";
pub(super) const DEVICE_DISCARDS: &str = "device.discards";
pub(super) const DEVICE_LINK_ERRORS: &str = "device.link_errors";
pub(super) const ECN_CONGESTION: &str = "ecn.congestion";
pub(super) const ECN_NO_CNP: &str = "ecn.no_cnp";
pub(super) const ENTROPY_LOW: &str = "entropy.low";
pub(super) const ICRC_ERRORS: &str = "icrc.errors";
pub(super) const LINKS_CONGESTED_ONE_OF: &str = "links.congested_one_of";
pub(super) const LINKS_IMBALANCE: &str = "links.imbalance";
pub(super) const LOSS_AFTER_TAP: &str = "loss.after_tap";
pub(super) const LOSS_BEFORE_TAP: &str = "loss.before_tap";
pub(super) const LOSS_BETWEEN_TAPS: &str = "loss.between_taps";
pub(super) const NAK_INVALID_REQUEST: &str = "nak.invalid_request";
pub(super) const NAK_REMOTE_ACCESS_ERROR: &str = "nak.remote_access_error";
pub(super) const NAK_REMOTE_OPERATIONAL_ERROR: &str = "nak.remote_operational_error";
pub(super) const PATH_MTU_BLACK_HOLE: &str = "path.mtu_black_hole";
pub(super) const PATH_REWRITTEN: &str = "path.rewritten";
pub(super) const PEER_SILENT: &str = "peer.silent";
pub(super) const PFC_ON_WRONG_PRIORITY: &str = "pfc.on_wrong_priority";
pub(super) const PFC_STORM: &str = "pfc.storm";
pub(super) const PFC_VICTIM: &str = "pfc.victim";
pub(super) const QOS_DSCP_MIXED: &str = "qos.dscp_mixed";
pub(super) const QOS_DSCP_UNSET: &str = "qos.dscp_unset";
pub(super) const QP_DIED: &str = "qp.died";
pub(super) const QP_RETRYING: &str = "qp.retrying";
pub(super) const QP_STUCK: &str = "qp.stuck";
pub(super) const RETRY_STORM: &str = "retry.storm";
pub(super) const RETRY_TIMEOUTS: &str = "retry.timeouts";
pub(super) const RNR_SLOW_RECEIVER: &str = "rnr.slow_receiver";
