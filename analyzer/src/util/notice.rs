//! Notices to the user, apart from the output.

use std::io::{self, Write as _};

/// A sentence to standard error.
pub fn say(sentence: &str) {
    // Without a reader there is nothing to report.
    let _ = writeln!(io::stderr(), "rocescope: {sentence}");
}
