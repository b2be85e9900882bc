//! What every part needs of the kernel object: values of its maps as aya takes them, and refusals in words.

use anyhow::anyhow;
use aya::Pod;
use aya::programs::ProgramError;
use rocescope_common::abi::post::{PostCounts, PostKey, PostWindow};
use rocescope_common::abi::qp::{CommandRecord, QpRecord};
use rocescope_common::abi::{BenchStep, CpuState, ExtraKey, ExtraValue, LinkCounters, TickClock};
use rocescope_common::account::FlowKey;

use crate::util::limit;

/// Wrapper for map keys and values that aya requires.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Data<T>(pub(crate) T);

/// No padding in types whose fields differ in length; those of the others are all of one length.
const _: () = assert!(size_of::<PostKey>() == 16 && size_of::<BenchStep>() == 8);

// SAFETY: integers and arrays of them without padding, see the assertions here and beside the types.
unsafe impl Pod for Data<LinkCounters> {}
// SAFETY: as above.
unsafe impl Pod for Data<FlowKey> {}
// SAFETY: as above.
unsafe impl Pod for Data<ExtraKey> {}
// SAFETY: as above.
unsafe impl Pod for Data<ExtraValue> {}
// SAFETY: as above.
unsafe impl Pod for Data<CpuStateWords> {}
// SAFETY: as above.
unsafe impl Pod for Data<BenchStep> {}
// SAFETY: as above.
unsafe impl Pod for Data<TickClock> {}
// SAFETY: as above.
unsafe impl Pod for Data<PostKey> {}
// SAFETY: as above.
unsafe impl Pod for Data<PostCounts> {}
// SAFETY: as above.
unsafe impl Pod for Data<PostWindow> {}
// SAFETY: as above.
unsafe impl Pod for Data<QpRecord> {}
// SAFETY: as above.
unsafe impl Pod for Data<CommandRecord> {}

/// A [`CpuState`] as words, of which the first are its counts: the rest is only used by the kernel programs.
pub(crate) type CpuStateWords = [u64; size_of::<CpuState>() / 8];

pub(super) fn refused(name: &str, error: ProgramError) -> anyhow::Error {
    if let Some(remedy) = limit::reached(&error) {
        let cause = match &error {
            ProgramError::LoadError { io_error, .. } => limit::words(&io_error.to_string()),
            other => limit::chain(other),
        };
        return anyhow!("cannot load program {name}: {cause}; {remedy}");
    }
    match error {
        ProgramError::LoadError { io_error, verifier_log } => {
            let log = verifier_log.to_string();
            let log = log.trim();
            if log.is_empty() {
                anyhow!("the kernel rejected program {name}: {io_error}")
            } else {
                anyhow!(
                    "the kernel's verifier refused program {name}: {io_error}. This is a fault of \
                     rocescope with this kernel; please report it with `uname -r` and these last \
                     lines of its reasons:\n{}",
                    tail(log, 12)
                )
            }
        }
        other => anyhow!("cannot load program {name}: {}", limit::chain(&other)),
    }
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
