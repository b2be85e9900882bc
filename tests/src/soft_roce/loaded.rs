//! What the kernel holds of BPF, to compare before and after a run.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};

use super::tool::wait_for;

/// Programs, maps and links of BPF in the kernel, each with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded(BTreeSet<(&'static str, u32, String)>);

impl Loaded {
    /// Those of now.
    pub fn now() -> Self {
        let name = |name: Option<&str>| name.unwrap_or("without a name").to_owned();
        let programs = aya::programs::loaded_programs().filter_map(Result::ok);
        let programs = programs.map(|one| ("program", one.id(), name(one.name_as_str())));
        let maps = aya::maps::loaded_maps().filter_map(Result::ok);
        let maps = maps.map(|one| ("map", one.id(), name(one.name_as_str())));
        let links = aya::programs::loaded_links().filter_map(Result::ok);
        let links = links.map(|one| ("link", one.id(), format!("of program {}", one.program_id())));
        Self(programs.chain(maps).chain(links).collect())
    }

    /// Waits until there is nothing that was not there then.
    pub fn wait_until_unloaded(&self) -> Result<()> {
        let more = || Self::now().0.difference(&self.0).cloned().collect::<Vec<_>>();
        wait_for("the end of all programs, maps and links", || Ok(more().is_empty().then_some(())))
            .with_context(|| format!("{:?}", more()))
    }
}
