//! Values whose memory is freed where nobody waits: that of 65,536 flows takes as long to free as to fill.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, RwLock};

type Sink = Box<dyn Fn(Box<dyn Any + Send>) + Send + Sync>;

/// Takes discarded values while there is a thread for them.
static SINK: RwLock<Option<Sink>> = RwLock::new(None);

/// Ends the registration of a sink when dropped.
#[derive(Debug)]
pub(crate) struct Registration(());

/// From now on `sink` takes discarded values; it must not drop them in the calling thread.
pub(crate) fn send_discarded_to(sink: impl Fn(Box<dyn Any + Send>) + Send + Sync + 'static) -> Registration {
    *SINK.write().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(sink));
    Registration(())
}

impl Drop for Registration {
    fn drop(&mut self) {
        let sink = SINK.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(sink);
    }
}

/// Frees `value` in the background, or at once where nothing runs there.
pub(crate) fn discard<T: Send + 'static>(value: T) {
    let sink = SINK.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(sink) = &*sink {
        sink(Box::new(value));
        return;
    }
    // Values inside may be deferred too, and take the lock again.
    drop(sink);
    drop(value);
}

/// A value that is discarded when it is dropped.
#[derive(Debug)]
pub struct Deferred<T: Send + 'static>(ManuallyDrop<T>);

impl<T: Send + 'static> Deferred<T> {
    /// Wraps a value that is freed later.
    pub fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<T: Default + Send + 'static> Default for Deferred<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: Send + 'static> Deref for Deferred<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send + 'static> DerefMut for Deferred<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Send + 'static> Drop for Deferred<T> {
    fn drop(&mut self) {
        // SAFETY: the value is taken once, since this runs once and nothing uses it afterwards.
        discard(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

/// Tests that register a sink run one after the other: the process has one.
#[cfg(test)]
pub(crate) static SINK_TESTS: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::lock::Locked;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    #[test]
    fn values_go_to_the_sink_and_without_one_are_freed_at_once() {
        let _alone = SINK_TESTS.locked();
        let value = Arc::new(1);
        drop(Deferred::new(Arc::clone(&value)));
        assert_eq!(Arc::strong_count(&value), 1);
        let (send, received) = channel();
        let registration = send_discarded_to(move |discarded| drop(send.send(discarded)));
        drop(Deferred::new(Arc::clone(&value)));
        assert_eq!(Arc::strong_count(&value), 2);
        drop(registration);
        // Other tests may discard values of their own meanwhile.
        let found = received.into_iter().filter(|discarded| discarded.is::<Arc<i32>>()).count();
        assert_eq!((found, Arc::strong_count(&value)), (1, 1));
        drop(Deferred::new(Arc::clone(&value)));
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
