//! Programs of a running rocescope, attached to functions of a test that stand in for those of a kernel driver: what no
//! device of this machine calls.

#![expect(unsafe_code, reason = "a program of the kernel's is attached to a function of a test")]

use std::fs;

use anyhow::{Context as _, Result};
use aya::programs::uprobe::{UProbeAttachLocation, UProbeScope};
use aya::programs::{ProbeKind, UProbe};

/// The kernel keeps this number of characters of a program's name.
const NAME: usize = 15;

/// Attaches the `number`-th loaded program (from 0, in the order of loading) of those with this name, or its first 15
/// characters, to a function of this executable.
pub(crate) fn attach(name: &str, number: usize, kind: ProbeKind, function: *const ()) -> Result<UProbe> {
    let short = name.get(..NAME).unwrap_or(name);
    let all = aya::programs::loaded_programs().filter_map(Result::ok);
    let info = all.filter(|program| program.name_as_str() == Some(short)).nth(number);
    let info = info.with_context(|| format!("the program {name} is not loaded"))?;
    // SAFETY: programs of kprobes and uprobes have one type, and the callers name one of a kprobe.
    let mut probe = unsafe { UProbe::from_program_info(info, name.to_owned().into(), kind) }?;
    let place = UProbeAttachLocation::AbsoluteOffset(place(function)?);
    probe.attach(place, fs::read_link("/proc/self/exe")?, UProbeScope::CallingProcess)?;
    Ok(probe)
}

/// The place of a function in this executable.
fn place(function: *const ()) -> Result<u64> {
    let address = function as u64;
    let text = fs::read_to_string("/proc/self/maps")?;
    let all = rocescope::host::rdma::verbs_context::mappings(&text);
    let code = all.iter().find(|m| (m.start..m.end).contains(&address)).context("no code at this address")?;
    Ok(address - code.start + code.offset)
}
