//! What probes share: attaching, records of a ring buffer, texts of the kernel.

use std::ffi::CStr;

use anyhow::{Context as _, Result, anyhow};
use aya::maps::{MapData, RingBuf};
use aya::programs::KProbe;
use aya::{Ebpf, Pod};

use super::object::Data;

/// Maximum number of records read at a time: more than a ring buffer holds.
pub(super) const MOST_RECORDS: usize = 4_096;

/// The program of this name.
///
/// # Errors
/// If the object has none.
pub(super) fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut KProbe> {
    let program = ebpf.program_mut(name).ok_or_else(|| anyhow!("the kernel object has no program {name}"))?;
    Ok(program.try_into()?)
}

/// Loads a program.
///
/// # Errors
/// If the kernel refuses.
pub(super) fn load(ebpf: &mut Ebpf, name: &str) -> Result<()> {
    program(ebpf, name)?.load().with_context(|| format!("the kernel refused the program {name}"))
}

/// Loads a program and attaches it to a function.
///
/// # Errors
/// If the kernel refuses.
pub(super) fn attach(ebpf: &mut Ebpf, name: &str, function: &str) -> Result<()> {
    load(ebpf, name)?;
    program(ebpf, name)?.attach(function, 0).with_context(|| format!("{function} cannot be probed"))?;
    Ok(())
}

/// Takes up to [`MOST_RECORDS`] records from a ring buffer.
pub(super) fn each<T>(ring: &mut RingBuf<MapData>, mut take: impl FnMut(&T))
where
    Data<T>: Pod,
{
    for _ in 0..MOST_RECORDS {
        let Some(item) = ring.next() else { break };
        if item.len() == size_of::<T>() {
            // SAFETY: any bytes are valid for a `Pod`, and the length was checked.
            let Data(record) = unsafe { item.as_ptr().cast::<Data<T>>().read_unaligned() };
            take(&record);
        }
    }
}

pub(super) fn text(bytes: &[u8]) -> Option<String> {
    let text = CStr::from_bytes_until_nul(bytes).ok()?.to_string_lossy();
    (!text.is_empty()).then(|| text.into_owned())
}
