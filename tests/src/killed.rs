//! Programs that do not outlive their tests.

use std::ops::{Deref, DerefMut};
use std::process::Child;

/// A program that is killed when dropped; in a successful test it has usually ended by then.
#[derive(Debug)]
pub struct Killed(pub Child);

impl Deref for Killed {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Killed {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.kill();
        let _ = self.wait();
    }
}
