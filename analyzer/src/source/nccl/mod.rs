//! NCCL's report of its own job through RAS, its service for clients on the same host.
//!
//! NCCL 2.24 and newer listens on `localhost:28028` (`NCCL_RAS_ADDR`) in every process, each of which reports on the
//! whole job. Formats were taken from src/ras/client.cc, src/ras/client_support.cc and the user guide of NVIDIA/nccl,
//! 2.24.3 to 2.30.7.
//!
//! | module | does |
//! |---|---|
//! | this one | names and numbers in responses |
//! | [`address`] | address of the service |
//! | [`dialogue`] | commands and responses over any stream, bounded in size |
//! | [`json`] | responses and events from 2.28.7 on |
//! | [`text`] | responses of 2.24 to 2.28.3, which name only outliers |
//! | [`track`] | successive responses: how long a rank has been behind |

pub mod address;
pub mod dialogue;
pub mod json;
#[cfg(test)]
pub(crate) mod server;
pub mod text;
pub mod track;

use crate::entity::nccl::{OPERATIONS, REMOTE_ERROR};
use crate::util::layout::plain;

/// Maximum length of a name from a server that is kept.
const MAX_NAME: usize = 32;

/// Index of an operation in [`OPERATIONS`].
fn operation(name: &str) -> usize {
    OPERATIONS.iter().position(|known| *known == name).unwrap_or(OPERATIONS.len() - 1)
}

/// A name from a server, without control characters and limited in length.
fn name(text: &str) -> String {
    plain(text.trim()).chars().take(MAX_NAME).collect()
}

/// A number that is -1 or absent if NCCL does not know it.
fn number(value: i64) -> Option<u32> {
    u32::try_from(value).ok()
}

/// Errors of ranks, in the groups of `ncclGetErrorString`.
const ERRORS: [(i64, &str); 7] = [
    (1, "Unhandled CUDA error"),
    (2, "System error"),
    (3, "Internal error"),
    (4, "Invalid argument"),
    (5, "Invalid usage"),
    (REMOTE_ERROR.0, REMOTE_ERROR.1),
    (8, "Timeout"),
];
/// `ncclSuccess` and `ncclInProgress`.
const NO_ERROR: [i64; 2] = [0, 7];
const OTHER_ERROR: &str = "Unexpected error";

/// The error for a code of `ncclResult_t`.
fn error_of(code: i64) -> Option<&'static str> {
    let known = || ERRORS.iter().find(|(of, _)| *of == code).map_or(OTHER_ERROR, |(_, error)| *error);
    (!NO_ERROR.contains(&code)).then(known)
}

/// The error in a text response.
fn error_named(text: &str) -> &'static str {
    ERRORS.iter().find(|(_, error)| *error == text).map_or(OTHER_ERROR, |(_, error)| *error)
}
