//! `cargo xtask docs`: the links of the documentation, and its site.
//!
//! The pages are written for reading in the repository, in docs/ and beside it; docs/SUMMARY.md defines their order,
//! in mdBook's format.

mod links;
mod site;

use anyhow::Result;

use crate::run::step;
pub(crate) use links::check;

/// Checks that every link has a target. `site`: also builds the site.
///
/// # Errors
/// Names the links without a target.
pub(crate) fn docs(site: bool) -> Result<()> {
    step("links of the documentation", check)?;
    if site { site::build() } else { Ok(()) }
}
