//! Writes exported files.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};

use crate::tui::export::File;

/// Numbers tried when a name is taken.
const TRIES: u32 = 100;

/// Writes a file to the working directory, under a name that is free; nothing is ever overwritten, and only the user
/// may read it. Returns a sentence about the outcome.
pub(in crate::tui) fn write(file: File) -> String {
    let bytes = file.content.into_bytes();
    for number in 0..TRIES {
        let suffix = if number == 0 { String::new() } else { format!("-{number}") };
        let name = format!("{}{suffix}.{}", file.name, file.ending);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&name).and_then(|mut out| out.write_all(&bytes)) {
            Ok(()) => return format!("{} written to {name}", file.what),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return format!("{name} cannot be written: {error}"),
        }
    }
    format!("{}.{} cannot be written: there are {TRIES} such files already", file.name, file.ending)
}
