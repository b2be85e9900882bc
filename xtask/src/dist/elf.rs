//! Checks that an executable is static.

use anyhow::{Context as _, Result, bail};
use object::Endianness;
use object::elf::{DT_NEEDED, DT_NULL, EM_AARCH64, EM_X86_64, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use std::fs;
use std::path::Path;

/// An architecture in the program's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    X86_64,
    Aarch64,
}

/// Reads the program's headers.
///
/// # Errors
/// Names the dynamic dependencies, or a wrong machine type.
pub(super) fn ensure_static(program: &Path, machine: Machine) -> Result<()> {
    let bytes = fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    check(&bytes, machine).with_context(|| format!("{} is not what was to be built", program.display()))
}

fn check(bytes: &[u8], machine: Machine) -> Result<()> {
    let header = FileHeader64::<Endianness>::parse(bytes).context("it is no 64-bit ELF file")?;
    let endian = header.endian().context("its byte order is not known")?;
    let wanted = match machine {
        Machine::X86_64 => EM_X86_64,
        Machine::Aarch64 => EM_AARCH64,
    };
    if header.e_machine.get(endian) != wanted {
        bail!("it is for machine {}, not for {machine:?}", header.e_machine.get(endian));
    }
    for segment in header.program_headers(endian, bytes).context("cannot read its program headers")? {
        if segment.p_type(endian) == PT_INTERP {
            bail!("it is loaded by the host's dynamic linker, so it is not static");
        }
        // A static position-independent program also has such a section, but without dependencies.
        let Some(entries) = segment.dynamic(endian, bytes).context("cannot read its dynamic section")? else {
            continue;
        };
        let mut tags = entries.iter().map(|entry| entry.tag(endian)).take_while(|tag| *tag != DT_NULL);
        if tags.any(|tag| tag == DT_NEEDED) {
            bail!("it needs libraries of the host, so it is not static");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test is itself a program of the host's default target, which is usually dynamic.
    #[test]
    #[cfg(all(target_env = "gnu", target_arch = "x86_64"))]
    fn a_dynamic_program_is_found_out() {
        let this = fs::read(std::env::current_exe().unwrap()).unwrap();
        let said = check(&this, Machine::X86_64).unwrap_err().to_string();
        assert!(said.contains("dynamic linker"), "{said}");
        let said = check(&this, Machine::Aarch64).unwrap_err().to_string();
        assert!(said.contains("not for Aarch64"), "{said}");
        assert!(check(b"#!/bin/sh\n", Machine::X86_64).is_err());
    }
}
