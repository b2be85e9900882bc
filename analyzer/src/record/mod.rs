//! Recordings: tables of what was counted, interval by interval, in Parquet files.
//!
//! | module | contents |
//! |---|---|
//! | [`registry`] | the tables: each column with type, unit, meaning and source, and from it the type of a row |
//! | [`cell`], [`table`] | values, columns and rows |
//! | [`parquet`] | rows as Parquet files and back |

#[macro_use]
pub mod table;
pub mod cell;
pub mod parquet;
#[cfg(test)]
mod parquet_tests;
pub mod registry;

pub use registry::{Rows, TABLES};
