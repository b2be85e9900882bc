//! `cargo xtask docs`: the links of the documentation, and its site.
//!
//! The pages are written to be read where they are, in docs/ and beside it; docs/SUMMARY.md puts them in order, in
//! the form of mdBook.

mod links;
mod site;

use anyhow::Result;

use crate::run::step;
pub(crate) use links::check;

/// Checks that every link leads to something. `site`: makes the site, too.
///
/// # Errors
/// Names the links that do not.
pub(crate) fn docs(site: bool) -> Result<()> {
    step("links of the documentation", check)?;
    if site { site::build() } else { Ok(()) }
}
