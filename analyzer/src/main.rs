//! The `rocescope` command.
fn main() {}
