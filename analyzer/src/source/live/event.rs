//! Records of the ring buffer, and the kernel programs' log.

use rocescope_common::abi::EventRecord;
use rocescope_common::account::Event;

/// The record in a ring buffer item; `None` if its length does not match its headers.
pub fn read(item: &[u8]) -> Option<EventRecord> {
    let mut bytes = [0; EventRecord::LONG];
    bytes.get_mut(..item.len())?.copy_from_slice(item);
    // SAFETY: a record is integers and arrays of them without padding, so that any bytes are valid, and the length
    // was checked.
    let record = unsafe { bytes.as_ptr().cast::<EventRecord>().read_unaligned() };
    (item.len() >= EventRecord::BARE + usize::from(record.headers_len)).then_some(record)
}

/// Number of PSNs that are certainly missing; 0 without a gap.
pub const fn missing(record: &EventRecord) -> u32 {
    Event::certain(record.events, record.missing)
}

/// Prints the kernel programs' messages to standard error.
#[derive(Clone, Copy, Debug)]
pub(super) struct StderrLog;

impl log::Log for StderrLog {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        crate::util::notice::say(&format!("kernel: {}", record.args()));
    }

    fn flush(&self) {}
}
