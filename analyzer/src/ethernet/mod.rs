//! Link-layer control protocols: LLDP with DCBX, and MAC control (PAUSE, PFC).

pub mod lldp;
pub mod mac_control;
