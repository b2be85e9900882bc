//! A second, independent accounting of RoCE captures, for comparison with `rocescope replay`.
//!
//! tshark dissects ([`tshark`], [`packet`]), the definitions of the report are implemented again ([`opcode`],
//! [`psn`], [`account`]), and the two results are compared figure by figure ([`compare`]). [`craft`] makes the
//! packets of which no capture exists.

pub mod account;
pub mod binary;
pub mod captures;
pub mod cases;
pub mod compare;
pub mod craft;
pub mod icrc;
pub mod layers;
pub mod opcode;
pub mod packet;
pub mod psn;
pub mod tshark;
