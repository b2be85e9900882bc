//! Kernel memory of programs and maps.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, AsRawFd as _};

use anyhow::{Context as _, Result};
use aya::maps::MapInfo;
use aya::programs::ProgramInfo;

/// One map.
#[derive(Clone, Debug)]
pub struct MapCost {
    /// Maximum number of entries.
    pub entries: u32,
    /// Bytes of kernel memory, according to the kernel.
    pub bytes: u64,
    /// True if every CPU has its own values.
    pub per_cpu: bool,
}

/// The maps used by programs, by name, including global variables of the programs.
pub fn maps(programs: &[ProgramInfo]) -> Result<BTreeMap<String, MapCost>> {
    const BPF_MAP_TYPE_PERCPU_ARRAY: u64 = 6;
    let mut found = BTreeMap::new();
    for program in programs {
        for id in program.map_ids()?.context("the kernel does not report the maps of a program")? {
            let info = MapInfo::from_id(id)?;
            let fd = info.fd()?;
            let path = format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd());
            let fdinfo = std::fs::read_to_string(&path).with_context(|| path.clone())?;
            let field = |name: &str| -> Result<u64> {
                let line = fdinfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                line.and_then(|value| value.trim().parse().ok())
                    .with_context(|| format!("{path} has no {name}:\n{fdinfo}"))
            };
            let cost = MapCost {
                entries: info.max_entries(),
                bytes: field("memlock")?,
                per_cpu: field("map_type")? == BPF_MAP_TYPE_PERCPU_ARRAY,
            };
            let name = info.name_as_str().unwrap_or_default();
            found.insert(format!("{name} {id}"), cost);
        }
    }
    Ok(found)
}
