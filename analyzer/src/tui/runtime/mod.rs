//! Threads, terminal, files and the loop: everything of the terminal UI that is not pure.

mod background;
mod compact;
mod files;
mod inbox;
mod run;
mod terminal;
mod wait;

pub use run::{Closed, run};
