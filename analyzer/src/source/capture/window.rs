//! A sliding window over the input: the bytes from the current record on.

use std::fs::File;
use std::io::{self, Cursor, ErrorKind, Read};
use std::sync::Arc;

use super::gzip::Gunzip;
use super::part::{Location, Part};
use super::read_ahead::ReadAhead;

/// Initial size of the buffer: large enough that a read costs little per record, small enough to stay in the L2
/// cache.
const INITIAL: usize = 256 * 1024;

/// Maximum length of a record or block in bytes. A larger length is damage.
pub(super) const MAX_RECORD: u32 = 64 * 1024 * 1024;

/// The source of bytes.
enum Input {
    Direct(Box<dyn Read + Send>),
    ReadAhead(ReadAhead),
    /// The location of the next part, and the part once it was supplied.
    Parts(Location, Option<Part>),
}

/// Buffered input that can be inspected before it is consumed.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one input")]
pub(super) struct Window {
    input: Input,
    /// True if a separate thread reads `input` from the next read on.
    read_ahead: bool,
    buf: Vec<u8>,
    /// The unconsumed bytes are `buf[start..end]`.
    start: usize,
    end: usize,
    /// Offset of `buf[0]` in the (decompressed) input, modulo 2^64: the first bytes of the input may
    /// lie further back in their buffer than they do in the input.
    base: u64,
    eof: bool,
    /// True if `input` is decompressed: then an unexpected end is one of the compressed file.
    gzip: bool,
    gzip_cut: bool,
    /// True if an interrupted read blocks instead of being repeated.
    pub(super) interruptible: bool,
}

impl Window {
    pub(super) fn new(input: Box<dyn Read + Send>) -> Self {
        Self {
            input: Input::Direct(input),
            read_ahead: false,
            buf: vec![0; INITIAL],
            start: 0,
            end: 0,
            base: 0,
            eof: false,
            gzip: false,
            gzip_cut: false,
            interruptible: false,
        }
    }

    /// A window over the decompressed bytes of `compressed`, including those that it has read already.
    pub(super) fn gunzip(compressed: Window) -> Self {
        let head = Cursor::new(compressed.available().to_vec());
        let Input::Direct(rest) = compressed.input else { return compressed };
        let input = Gunzip::new(Box::new(head.chain(rest)));
        Self { gzip: true, interruptible: compressed.interruptible, ..Self::new(Box::new(input)) }
    }

    /// Lets a separate thread read the input ahead from now on, if possible. The bytes stay the same.
    pub(super) fn read_ahead(&mut self) {
        self.read_ahead = true;
    }

    /// Reads `file` in [parts](Self::give_part) from now on.
    pub(super) fn in_parts(&mut self, file: Arc<File>) {
        let read = self.position().wrapping_add(self.available().len() as u64);
        self.input = Input::Parts(Location::new(file, read), None);
    }

    /// The location of the part to supply next; `None` when the window reads by itself.
    pub(super) fn wanted_part(&self) -> Option<Location> {
        match &self.input {
            Input::Parts(place, _) => Some(place.clone()),
            Input::Direct(_) | Input::ReadAhead(_) => None,
        }
    }

    /// Supplies the part that is [wanted](Self::wanted_part).
    pub(super) fn give_part(&mut self, part: Part) {
        if let Input::Parts(_, next) = &mut self.input {
            *next = Some(part);
        }
    }

    /// Takes back the buffer; the few bytes left in it are kept.
    pub(super) fn reclaim_buffer(&mut self) -> Vec<u8> {
        let left = self.available().to_vec();
        self.base = self.position();
        (self.start, self.end) = (0, left.len());
        std::mem::replace(&mut self.buf, left)
    }

    /// True if the input is decompressed on the way.
    pub(super) fn gzip(&self) -> bool {
        self.gzip
    }

    /// The bytes read and not yet consumed.
    #[inline]
    pub(super) fn available(&self) -> &[u8] {
        self.buf.get(self.start..self.end).unwrap_or_default()
    }

    /// Bytes `start..start + len` of the buffer; valid until the next [`Self::ensure`].
    #[inline]
    pub(super) fn slice(&self, start: usize, len: usize) -> &[u8] {
        self.buf.get(start..start + len).unwrap_or_default()
    }

    /// Consumes `n` bytes and returns where in the buffer they started.
    #[inline]
    pub(super) fn consume(&mut self, n: usize) -> usize {
        let at = self.start;
        self.start = (at + n).min(self.end);
        at
    }

    /// Offset of the next unconsumed byte in the (decompressed) input.
    pub(super) fn position(&self) -> u64 {
        self.base.wrapping_add(self.start as u64)
    }

    /// True if the compressed input ended before its gzip stream did.
    pub(super) fn gzip_cut(&self) -> bool {
        self.gzip_cut
    }

    /// Makes `n` bytes available, reading only when necessary; false when the input ends before.
    #[inline]
    pub(super) fn ensure(&mut self, n: usize) -> io::Result<bool> {
        if self.end - self.start >= n {
            return Ok(true);
        }
        self.fill(n)
    }

    #[cold]
    #[inline(never)]
    fn fill(&mut self, n: usize) -> io::Result<bool> {
        if self.read_ahead {
            self.start_ahead();
        }
        while self.end - self.start < n && !self.eof {
            let before = self.end - self.start;
            match self.more(n) {
                Ok(()) => self.eof = self.end - self.start == before,
                Err(e) if e.kind() == ErrorKind::Interrupted && self.interruptible => {
                    return Err(ErrorKind::WouldBlock.into());
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if self.gzip && e.kind() == ErrorKind::UnexpectedEof => {
                    self.eof = true;
                    self.gzip_cut = true;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(self.end - self.start >= n)
    }

    /// Reads once; adds no bytes at the end of the input.
    fn more(&mut self, n: usize) -> io::Result<()> {
        let position = self.position();
        match &mut self.input {
            Input::ReadAhead(ahead) => {
                (self.start, self.end) = ahead.next(&mut self.buf, self.start, self.end)?;
            }
            Input::Parts(place, part) => {
                let part = part.take().ok_or(ErrorKind::WouldBlock)?.into_chunk()?;
                place.advance(part.len);
                ((self.start, self.end), _) = part.behind(&mut self.buf, self.start, self.end);
            }
            Input::Direct(input) => {
                // Less than a record is left: moving it is cheap and frees the rest of the buffer.
                self.buf.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
                self.base = position;
                // Growing only when full prevents an invalid length from allocating memory for bytes that never
                // arrive.
                if self.end == self.buf.len() {
                    let larger = (self.buf.len() * 2).min(n.max(MAX_RECORD as usize));
                    self.buf.resize(larger, 0);
                }
                self.end += input.read(&mut self.buf[self.end..])?;
            }
        }
        self.base = position.wrapping_sub(self.start as u64);
        Ok(())
    }

    fn start_ahead(&mut self) {
        self.read_ahead = false;
        let nothing = Input::Direct(Box::new(io::empty()));
        self.input = match std::mem::replace(&mut self.input, nothing) {
            Input::Direct(input) => ReadAhead::start(input).map_or_else(Input::Direct, Input::ReadAhead),
            other => other,
        };
    }
}
