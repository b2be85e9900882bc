//! The checks: a module is a [`Family`] of findings, with what belongs to it alone in files beside it.
//!
//! A new finding is an [`Entry`](super::Entry) in one of these files, a new family a file and its line in the list
//! below.

pub(super) mod balance;
pub(super) mod burst;
pub(super) mod capture;
pub(super) mod cm;
pub(super) mod cnp;
pub(super) mod config;
pub(super) mod device;
pub(super) mod died;
pub(super) mod ecn;
pub(super) mod ends;
pub(super) mod foreign;
mod held_up;
pub(super) mod icrc;
pub(super) mod job;
pub(super) mod latency;
pub(super) mod loss;
pub(super) mod nak;
pub(super) mod nccl;
pub(super) mod parallel;
pub(super) mod path;
pub(super) mod peer;
pub(super) mod pfc;
pub(super) mod psn;
pub(super) mod qp_context;
pub(super) mod qp_settings;
pub(super) mod qps;
pub(super) mod retry;
pub(super) mod rnr;
pub(super) mod settings;
pub(super) mod step;
pub(super) mod timeouts;
pub(super) mod tool;

use super::Family;

families! {
    balance [entropy: balance::EntropyLimits, links: balance::LinksLimits],
    burst [burst: burst::Limits],
    capture [capture: capture::Limits],
    cm [cm: cm::Limits],
    cnp [cnp: cnp::Limits],
    config [],
    device [device: device::Limits],
    died [qp: died::Limits],
    ecn [ecn: ecn::Limits],
    foreign [],
    icrc [icrc: icrc::Limits],
    job [job: job::Limits],
    latency [latency: latency::Limits],
    loss [loss: loss::Limits],
    nak [nak: nak::Limits],
    parallel [parallel: parallel::Limits],
    path [path: path::Limits],
    peer [peer: peer::Limits],
    pfc [pfc: pfc::Limits],
    psn [],
    qp_context [qp_context: qp_context::Limits],
    qp_settings [qp_settings: qp_settings::Limits],
    qps [],
    rnr [rnr: rnr::Limits],
    // Its advice names findings of the families before it.
    retry [retry: retry::Limits],
    settings [
        mtu: settings::MtuLimits,
        qos: settings::QosLimits,
        rocev1: settings::Rocev1Limits,
        isolation: settings::IsolationLimits
    ],
    step [step: step::Limits],
    timeouts [],
    // Its causes are findings of the families before it.
    nccl [nccl: nccl::Limits],
    tool [tool: tool::Limits],
}
