//! Reads and decompresses in a separate thread, a few buffers ahead of the parser.
//!
//! ```text
//! reading thread: input ─ [gunzip] ─ fills a buffer ─┐ full, in order, at most DEPTH
//!        ▲                                           ▼
//!        └──────────── used buffers ──────────── window
//! ```
//!
//! Buffers are handed over, bytes are not copied. The order of the bytes is that of the input, so counts do not
//! depend on this thread. A buffer is handed over after a single read of the input, never held back until it is full.

use std::io::{self, ErrorKind, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use super::part::{Chunk, HEADROOM, of_one_size};
use crate::util::background;

/// Buffers that may wait; one more is being filled, and one is being parsed.
const DEPTH: usize = 2;

/// The receiving end of the reading thread.
pub(super) struct ReadAhead {
    full: Receiver<io::Result<Chunk>>,
    used: Sender<Vec<u8>>,
}

impl ReadAhead {
    /// Starts the thread. Returns the input if there is only one CPU, or if no thread can be started.
    pub(super) fn start(input: Box<dyn Read + Send>) -> Result<Self, Box<dyn Read + Send>> {
        let (full_in, full) = sync_channel(DEPTH);
        let (used, used_out) = channel();
        for _ in 0..DEPTH + 2 {
            // The receiver is alive, since it is in this function.
            let _ = used.send(Vec::new());
        }
        background::start("read-ahead", input, move |input| read(input, &full_in, &used_out))?;
        Ok(Self { full, used })
    }

    /// Appends the next bytes to `buf[start..end]`, which may move. Returns the new range, which is no longer than
    /// before at the end of the input.
    ///
    /// # Errors
    /// Errors of the input, at their position among the bytes.
    pub(super) fn next(&mut self, buf: &mut Vec<u8>, start: usize, end: usize) -> io::Result<(usize, usize)> {
        let Ok(received) = self.full.recv() else {
            // The thread has sent the end or an error, and has ended.
            return Ok((start, end));
        };
        let (at, used) = received?.behind(buf, start, end);
        // A thread that has ended needs no buffer.
        let _ = self.used.send(used);
        Ok(at)
    }
}

/// The reading thread: runs until the input ends or the receiver is dropped.
fn read(mut input: Box<dyn Read + Send>, full: &SyncSender<io::Result<Chunk>>, used: &Receiver<Vec<u8>>) {
    while let Ok(buf) = used.recv() {
        let mut buf = of_one_size(buf);
        let result = loop {
            let Some(room) = buf.get_mut(HEADROOM..) else { return };
            match input.read(room) {
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    // More input may follow, so this buffer is still to be filled.
                    if full.send(Err(e)).is_err() {
                        return;
                    }
                }
                other => break other,
            }
        };
        let last = !matches!(result, Ok(len) if len > 0);
        if full.send(result.map(|len| Chunk { buf, len })).is_err() || last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns its parts one per read; `None` is a read that would block.
    struct Parts(Vec<Option<Vec<u8>>>);

    impl Read for Parts {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let Some(part) = self.0.remove(0) else { return Err(ErrorKind::WouldBlock.into()) };
            out[..part.len()].copy_from_slice(&part);
            Ok(part.len())
        }
    }

    /// `None` if this machine has a single CPU and thus no reading thread.
    fn ahead(parts: Vec<Option<Vec<u8>>>) -> Option<ReadAhead> {
        ReadAhead::start(Box::new(Parts(parts))).ok()
    }

    fn part(from: usize, len: usize) -> Vec<u8> {
        (from..from + len).map(|i| u8::try_from(i % 251).unwrap()).collect()
    }

    #[test]
    fn bytes_keep_their_order_whatever_is_left_over() {
        for left in [0, 1, 100, HEADROOM, HEADROOM + 1, 3 * HEADROOM] {
            let parts = (0..40).map(|i| Some(part(i * 50_000, 50_000))).collect();
            let Some(mut ahead) = ahead(parts) else { return };
            let (mut buf, mut start, mut end) = (Vec::new(), 0, 0);
            let mut consumed = 0;
            loop {
                let before = end - start;
                (start, end) = ahead.next(&mut buf, start, end).unwrap();
                let have = &buf[start..end];
                assert!(have.iter().zip(consumed..).all(|(byte, i)| usize::from(*byte) == i % 251), "{left}");
                if end - start == before {
                    break;
                }
                let take = (end - start).saturating_sub(left);
                start += take;
                consumed += take;
            }
            assert_eq!(consumed + end - start, 40 * 50_000);
            assert_eq!(ahead.next(&mut buf, start, end).unwrap(), (start, end), "the end is final");
        }
    }

    #[test]
    fn a_silence_and_an_error_come_in_their_place() {
        let Some(mut ahead) = ahead(vec![Some(part(0, 10)), None, Some(part(10, 10)), None, None]) else {
            return;
        };
        let mut buf = Vec::new();
        let (start, end) = ahead.next(&mut buf, 0, 0).unwrap();
        assert_eq!(ahead.next(&mut buf, start, end).unwrap_err().kind(), ErrorKind::WouldBlock);
        let (start, end) = ahead.next(&mut buf, start, end).unwrap();
        assert_eq!(buf[start..end], part(0, 20));
        for _ in 0..2 {
            assert_eq!(ahead.next(&mut buf, start, end).unwrap_err().kind(), ErrorKind::WouldBlock);
        }
        let (start, end) = ahead.next(&mut buf, start, end).unwrap();
        assert_eq!(buf[start..end], part(0, 20), "the end adds nothing");
    }

    #[test]
    fn the_thread_ends_when_nobody_takes_what_it_reads() {
        /// An endless input that signals when it is dropped.
        struct Endless(Sender<()>);
        impl Read for Endless {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                let _ = self.0.send(());
                Ok(out.len())
            }
        }
        let (reads, seen) = channel();
        let Ok(ahead) = ReadAhead::start(Box::new(Endless(reads))) else { return };
        seen.recv().unwrap();
        drop(ahead);
        // The channel ends when the thread drops the input; before that it is bounded.
        assert!(seen.iter().count() <= DEPTH + 2);
    }
}
