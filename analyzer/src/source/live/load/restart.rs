//! Loaded programs as if they had just been loaded, for tests that count many captures: the kernel takes longer to
//! verify a program than to count a capture.

use std::io;

use anyhow::{Context as _, Result};
use aya::Pod;
use aya::maps::{Array, MapData, PerCpuArray, PerCpuValues};
use aya::util::nr_cpus;
use rocescope_common::abi::{LinkCounters, maps};

use super::{Data, Programs, hints};

impl Programs {
    /// Clears all maps. No program may be running, and both ring buffers must be empty.
    ///
    /// # Errors
    /// If a map cannot be read or written.
    pub fn start_anew(&mut self) -> Result<()> {
        for key in self.flows.keys().collect::<Result<Vec<_>, _>>().context("cannot read the flow table")? {
            self.flows.remove(&key).context("cannot clear the flow table")?;
        }
        for key in
            self.extra.keys().collect::<Result<Vec<_>, _>>().context("cannot read the overflow table")?
        {
            self.extra.remove(&key).context("cannot clear the overflow table")?;
        }
        for slot in 0..self.max_flows {
            self.slots.clear(slot).context("cannot clear the flow table")?;
        }
        self.times.start_anew();
        while self.free.pop(0).is_ok() {}
        self.fill_free()?;
        let links = self.hash.links();
        zero_each_cpu(&mut self.links, links, Data(LinkCounters::default()))
            .context("cannot clear the links")?;
        zero_each_cpu(&mut self.cpu_state, 1, Data([0; _])).context("cannot clear the state")?;
        let map = self.ebpf.map_mut(maps::HINTS).context("this object has no hints")?;
        let mut found: Array<&mut MapData, [u32; 2]> = map.try_into()?;
        (0..hints(self.max_flows) / 2)
            .try_for_each(|at| found.set(at, [0; 2], 0))
            .context("cannot clear the hints")
    }
}

fn zero_each_cpu<V: Pod>(map: &mut PerCpuArray<MapData, V>, entries: u32, zero: V) -> Result<()> {
    let cpus = nr_cpus().map_err(|(file, error)| io::Error::other(format!("{file}: {error}")))?;
    for entry in 0..entries {
        map.set(entry, PerCpuValues::try_from(vec![zero; cpus])?, 0)?;
    }
    Ok(())
}
