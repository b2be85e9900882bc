//! The floor of a long report: its text, written by a formatter that does nothing else.
//!
//! The text is taken apart before: whole numbers by themselves, everything between them as it stands, fractions too.
//! Only then is it put together again, by two threads if there are two processors.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};

use super::child::Spent;

/// Text up to a number, and the number.
#[derive(Clone, Copy, Debug)]
struct Piece {
    text: u32,
    number: u64,
}

/// A text as pieces.
#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    plain: Vec<u8>,
    pieces: Vec<Piece>,
    /// Bytes of the whole.
    pub(super) len: usize,
}

/// Bytes per write.
const BUFFER: usize = 1 << 16;

impl Text {
    /// Reads a JSON document.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self::of(&bytes))
    }

    fn of(bytes: &[u8]) -> Self {
        let mut text = Self { len: bytes.len(), ..Self::default() };
        let (mut begin, mut at, mut in_string) = (0, 0, false);
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'\\' if in_string => at += 1,
                b'"' => in_string = !in_string,
                b'0'..=b'9' if !in_string => {
                    let rest = bytes.get(at..).unwrap_or_default();
                    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                    let len = rest.iter().take_while(|byte| is_part(byte)).count();
                    let number =
                        std::str::from_utf8(&rest[..len]).ok().and_then(|digits| digits.parse().ok());
                    if let Some(number) = number {
                        text.add(&bytes[begin..at], number);
                        begin = at + len;
                    }
                    at += len - 1;
                }
                _ => {}
            }
            at += 1;
        }
        text.plain.extend(&bytes[begin..]);
        text
    }

    fn add(&mut self, plain: &[u8], number: u64) {
        self.plain.extend(plain);
        self.pieces.push(Piece { text: u32::try_from(plain.len()).unwrap_or(u32::MAX), number });
    }

    /// Writes it with as many threads to nowhere.
    pub(super) fn write(&self, threads: usize) -> Result<Spent> {
        let out = || OpenOptions::new().write(true).open("/dev/null").context("cannot open /dev/null");
        let outs = (0..threads.max(1)).map(|_| out()).collect::<Result<Vec<File>>>()?;
        let parts = self.parts(outs.len());
        let start = Instant::now();
        let cpu = std::thread::scope(|scope| {
            let threads: Vec<_> = parts
                .into_iter()
                .zip(outs)
                .map(|((plain, pieces), mut out)| {
                    scope.spawn(move || -> io::Result<Duration> {
                        let begin = thread_time();
                        format(plain, pieces, &mut out)?;
                        Ok(thread_time().saturating_sub(begin))
                    })
                })
                .collect();
            let mut sum = Duration::ZERO;
            for thread in threads {
                sum += thread.join().map_err(|_| anyhow!("bug: a writing thread panicked"))??;
            }
            anyhow::Ok(sum)
        })?;
        Ok(Spent { wall: start.elapsed(), cpu })
    }

    /// As many parts with about as many numbers each.
    fn parts(&self, parts: usize) -> Vec<(&[u8], &[Piece])> {
        let each = self.pieces.len().div_ceil(parts).max(1);
        let (mut plain, mut all) = (&self.plain[..], Vec::new());
        let (mut rest, whole) = (&self.pieces[..], self.pieces.len().div_ceil(each).max(1));
        for part in 1..=whole {
            let (pieces, later) = rest.split_at(each.min(rest.len()));
            let len = pieces.iter().map(|piece| piece.text as usize).sum();
            let (own, behind) = plain.split_at(if part == whole { plain.len() } else { len });
            all.push((own, pieces));
            (plain, rest) = (behind, later);
        }
        all
    }
}

fn format(mut plain: &[u8], pieces: &[Piece], out: &mut impl Write) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(2 * BUFFER);
    for piece in pieces {
        let (text, rest) = plain.split_at(piece.text as usize);
        plain = rest;
        buffer.extend_from_slice(text);
        digits(piece.number, &mut buffer);
        if buffer.len() >= BUFFER {
            out.write_all(&buffer)?;
            buffer.clear();
        }
    }
    buffer.extend_from_slice(plain);
    out.write_all(&buffer)
}

/// Decimal digits, two at a time.
fn digits(mut number: u64, out: &mut Vec<u8>) {
    const PAIRS: [[u8; 2]; 100] = {
        let mut pairs = [[0; 2]; 100];
        let mut at = 0u8;
        while at < 100 {
            pairs[at as usize] = [b'0' + at / 10, b'0' + at % 10];
            at += 1;
        }
        pairs
    };
    let (mut digits, mut at) = ([0; 20], 20);
    while number >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    // A single digit is left, or none behind a pair.
    if number > 0 || at == 20 {
        at -= 1;
        digits[at] = b'0' + u8::try_from(number).unwrap_or_default();
    }
    out.extend_from_slice(&digits[at..]);
}

fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str =
        r#"{"a 7": [0, 9, 10, 99, 100, 18446744073709551615, -3, 1.25, 2e9], "b\"5": null, "c": 12}"#;

    #[test]
    fn the_text_is_the_same_in_any_number_of_parts() {
        let text = Text::of(DOCUMENT.as_bytes());
        assert_eq!(text.pieces.len(), 8, "whole numbers outside of strings");
        for parts in 1..5 {
            let mut out = Vec::new();
            for (plain, pieces) in text.parts(parts) {
                format(plain, pieces, &mut out).unwrap();
            }
            assert_eq!(String::from_utf8(out).unwrap(), DOCUMENT, "{parts}");
        }
        assert!(text.write(2).unwrap().wall > Duration::ZERO);
    }
}
