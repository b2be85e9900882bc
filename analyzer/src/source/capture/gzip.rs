//! gzip decompression of one or several members.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use flate2::bufread::GzDecoder;

/// Compressed bytes per read of the input.
const CHUNK: usize = 128 * 1024;

type Source = BufReader<Box<dyn Read + Send>>;

/// Decompresses gzip members one after another.
///
/// Unlike flate2's own multi-member reader it accepts zero padding after the last member, which tapes and some copy
/// tools leave, and distinguishes other trailing bytes from damaged data.
pub(super) struct Gunzip {
    /// `None` after the last member.
    member: Option<GzDecoder<Source>>,
}

impl Gunzip {
    pub(super) fn new(input: Box<dyn Read + Send>) -> Self {
        Self { member: Some(GzDecoder::new(BufReader::with_capacity(CHUNK, input))) }
    }
}

impl Read for Gunzip {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        while let Some(member) = &mut self.member {
            let n = member.read(out)?;
            if n > 0 {
                return Ok(n);
            }
            // Peek before taking the source out: after an error here the call can be repeated.
            match member.get_mut().fill_buf()?.first() {
                None | Some(0) => self.member = None,
                Some(0x1f) => {
                    self.member = self.member.take().map(|ended| GzDecoder::new(ended.into_inner()));
                }
                Some(_) => {
                    let what = "bytes that are not gzip follow the compressed data";
                    return Err(io::Error::new(ErrorKind::InvalidData, what));
                }
            }
        }
        Ok(0)
    }
}
