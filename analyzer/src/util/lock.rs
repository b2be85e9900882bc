//! Locks that outlive a panic of their holder: what they protect is replaced as a whole, and so is never half written.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock that is taken even where its holder panicked.
pub trait Locked<T> {
    /// Waits for the lock.
    fn locked(&self) -> MutexGuard<'_, T>;
}

impl<T> Locked<T> for Mutex<T> {
    fn locked(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
