//! Recordings: tables of counts per interval, in Parquet files.
//!
//! | module | contents |
//! |---|---|
//! | [`registry`] | the tables: each column with type, unit, meaning and source, and from it the type of a row |
//! | [`cell`], [`table`] | values, columns and rows |
//! | [`parquet`] | rows as Parquet files and back |
//! | `packed` | rows as bytes of the journal and back |
//! | `check`, `thrift` | checks of Parquet files before they are decoded |
//! | `budget` | a bound of the memory that rows take when they are read |
//! | [`collect`] | rows from successive reports; pure |
//! | [`clock`] | steps of the wall clock; pure |
//! | [`clickhouse`] | sends files to ClickHouse, from a queue on disk |
//! | [`spans`] | captures that a folder has already |
//! | [`recorder`] | a running recording, which combines all of these |
//! | [`store`] | the journal, files, rotation and retention |

#[macro_use]
pub mod table;
pub(crate) mod budget;
pub mod cell;
pub(crate) mod check;
pub mod clickhouse;
pub mod clock;
pub mod collect;
#[cfg(test)]
mod document;
mod packed;
pub mod parquet;
#[cfg(test)]
pub(crate) mod parquet_tests;
pub mod recorder;
pub mod registry;
pub mod spans;
pub mod store;
mod thrift;

use crate::analysis::QpSource;
pub use registry::{Rows, TABLES};

/// Names in `sources` of `qp_lives` of the two that follow a queue pair to its end.
pub const FOLLOWED_BY: [&str; 2] = [QpSource::ControlPath.name(), QpSource::Devx.name()];
