//! `cargo xtask docs`: the links of the documentation.
//!
//! The pages are written to be read where they are, in docs/ and beside it; docs/SUMMARY.md puts them in order, in the form of mdBook.

mod links;

use anyhow::Result;

use crate::run::step;
pub(crate) use links::check;

/// Checks that every link leads to something.
///
/// # Errors
/// Names the links that do not.
pub(crate) fn docs() -> Result<()> {
    step("links of the documentation", check)
}
