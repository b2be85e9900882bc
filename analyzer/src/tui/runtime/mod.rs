//! Threads, terminal, files and the loop: everything of the terminal UI that is not pure.

mod files;
mod inbox;
mod preparer;
mod run;
mod terminal;
mod wait;
mod worker;

pub use run::run;
