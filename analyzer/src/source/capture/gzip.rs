//! gzip decompression of one or several members.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use flate2::{Decompress, FlushDecompress, Status};

/// Compressed bytes per read of the input.
const CHUNK: usize = 128 * 1024;
/// The largest window of deflate, which every stream can be decompressed with.
const WINDOW_BITS: u8 = 15;
/// Maximum number of consecutive empty members before a read is interrupted.
const MAX_EMPTY: u32 = 1024;

/// Decompresses gzip members one after another.
///
/// Unlike flate2's readers it returns everything before damage, however the input arrives, accepts zero padding after
/// the last member, which tapes and some copy tools leave, and distinguishes other trailing bytes from damaged data.
/// Between many empty members it returns [`ErrorKind::Interrupted`], so that the caller can stop.
pub(super) struct Gunzip {
    input: BufReader<Box<dyn Read + Send>>,
    /// State of the current member; `None` between members.
    member: Option<Decompress>,
    members: u64,
    empty: u32,
    end: Option<End>,
}

/// End of the content of a gzip stream.
enum End {
    Clean,
    Damage(String),
}

impl Gunzip {
    pub(super) fn new(input: Box<dyn Read + Send>) -> Self {
        let input = BufReader::with_capacity(CHUNK, input);
        Self { input, member: None, members: 0, empty: 0, end: None }
    }

    /// Begins the next member, or records the end.
    fn next_member(&mut self) -> io::Result<()> {
        match self.input.fill_buf()?.first() {
            Some(0x1f) => {
                self.member = Some(Decompress::new_gzip(WINDOW_BITS));
                self.members += 1;
            }
            None | Some(0) if self.members > 0 => self.end = Some(End::Clean),
            None => return Err(ErrorKind::UnexpectedEof.into()),
            Some(_) => {
                self.end = Some(End::Damage("bytes that are not gzip follow the compressed data".to_owned()));
            }
        }
        Ok(())
    }
}

impl Read for Gunzip {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            match &self.end {
                Some(End::Clean) => return Ok(0),
                Some(End::Damage(damage)) => {
                    return Err(io::Error::new(ErrorKind::InvalidData, damage.clone()));
                }
                None => {}
            }
            let Some(member) = &mut self.member else {
                self.next_member()?;
                continue;
            };
            let input = self.input.fill_buf()?;
            if input.is_empty() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let (before_in, before_out) = (member.total_in(), member.total_out());
            let result = member.decompress(input, out, FlushDecompress::None);
            let consumed = member.total_in() - before_in;
            let produced = member.total_out() - before_out;
            let was_empty = member.total_out() == 0;
            self.input.consume(usize::try_from(consumed).unwrap_or(usize::MAX));
            match result {
                Ok(Status::StreamEnd) => {
                    self.member = None;
                    self.empty = if was_empty { self.empty + 1 } else { 0 };
                }
                Ok(Status::Ok | Status::BufError) => {}
                // The bytes in front of the damage come first.
                Err(damage) => self.end = Some(End::Damage(damage.to_string())),
            }
            if produced > 0 {
                return Ok(usize::try_from(produced).unwrap_or(out.len()));
            }
            if self.empty >= MAX_EMPTY {
                self.empty = 0;
                return Err(ErrorKind::Interrupted.into());
            }
        }
    }
}
