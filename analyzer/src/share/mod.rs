//! Reports to share: one HTML page, a trace for timeline viewers, and the flows as CSV.
//!
//! Each is a function of a [`Report`](crate::report::Report) and of data over time. They draw no conclusions:
//! problems are in the findings, and sentences are those of the text report.

pub(crate) mod columns;
pub mod csv;
pub mod html;
pub mod trace;
