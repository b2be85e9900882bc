//! Everything that can be wrong with a capture, each with its cause and remedy.

use std::fmt;
use std::io::{self, ErrorKind};

/// Why a capture could not be read, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// No file of that name.
    #[error("{name}: no such file; check the path (`-` reads standard input)")]
    NotFound {
        /// The path given.
        name: String,
    },
    /// The file exists but may not be read.
    #[error("{name}: permission denied; make the file readable for this user or run as root")]
    Permission {
        /// The path given.
        name: String,
    },
    /// A directory was given.
    #[error("{name}: is a directory; name the capture files in it")]
    Directory {
        /// The path given.
        name: String,
    },
    /// The system failed to read.
    #[error("{name}: cannot be read ({source}); check the device or the command that feeds it")]
    Io {
        /// The input.
        name: String,
        /// The error of the system.
        source: io::Error,
    },
    /// Not a single byte.
    #[error(
        "{name}: empty; the capture wrote nothing, not even a header (a tool that feeds a pipe \
         may have failed: see its own messages)"
    )]
    Empty {
        /// The input.
        name: String,
    },
    /// The first bytes are of no capture format.
    #[error("{name}: not a pcap or pcapng capture (starts with {}); {hint}", hex(.first_bytes))]
    NotACapture {
        /// The input.
        name: String,
        /// Up to eight bytes it starts with.
        first_bytes: Vec<u8>,
        /// What it looks like and what to do.
        hint: &'static str,
    },
    /// The input ends inside the file header, so that nothing in it can be read.
    #[error(
        "{name}: ends after {have} bytes, inside the {format} file header; copy the file again or \
         capture again"
    )]
    HeaderCut {
        /// The input.
        name: String,
        /// Bytes there are.
        have: usize,
        /// `pcap`, `pcapng` or `gzip`.
        format: &'static str,
    },
    /// A version of the format that is not known.
    #[error("{name}: {what}; convert it with `editcap -F pcap IN OUT`")]
    Unsupported {
        /// The input.
        name: String,
        /// What about it is not known.
        what: String,
    },
    /// Nonsense in the middle of the data. Everything before it was delivered.
    #[error(
        "{name}: damaged at byte {offset}: {what}; all packets before it were read ({records}), \
         what follows cannot be: copy the file again or capture again"
    )]
    Corrupt {
        /// The input.
        name: String,
        /// Where the damaged record or block starts, in bytes of the decompressed data.
        offset: u64,
        /// What is wrong there.
        what: String,
        /// Records delivered before it.
        records: u64,
    },
}

impl CaptureError {
    /// Whether the input only has nothing to give at the moment.
    #[must_use]
    pub fn would_block(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == ErrorKind::WouldBlock)
    }

    /// Sorts an I/O error into the cases a user can act on.
    pub(super) fn from_io(name: &str, source: io::Error) -> Self {
        let name = name.to_owned();
        match source.kind() {
            ErrorKind::NotFound => Self::NotFound { name },
            ErrorKind::PermissionDenied => Self::Permission { name },
            ErrorKind::IsADirectory => Self::Directory { name },
            _ => Self::Io { name, source },
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    digits.join(" ")
}

/// Whether an error comes from the decompressor (bad data) and not from the system.
pub(super) fn is_gzip_damage(e: &io::Error) -> bool {
    e.raw_os_error().is_none() && matches!(e.kind(), ErrorKind::InvalidData | ErrorKind::InvalidInput)
}

/// An error met while the first decompressed bytes were read.
pub(super) fn open_error(name: &str, e: io::Error) -> CaptureError {
    if is_gzip_damage(&e) {
        return CaptureError::Corrupt {
            name: name.to_owned(),
            offset: 0,
            what: format!("the gzip data is damaged ({e})"),
            records: 0,
        };
    }
    CaptureError::from_io(name, e)
}

/// What the end of the input cut through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The header of a packet record (pcap).
    RecordHeader,
    /// The bytes of a packet (pcap).
    Record,
    /// A block (pcapng).
    Block,
    /// The gzip stream, behind the last complete record.
    Gzip,
}

/// Where and how an input ended too early. Its text is a sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// The input.
    pub name: String,
    /// What was cut.
    pub cut: Cut,
    /// Where the cut record or block starts, in bytes of the decompressed data.
    pub offset: u64,
    /// Bytes of it that are there.
    pub have: u64,
    /// Bytes it should have; `None` when its length was cut off too.
    pub need: Option<u64>,
    /// Complete records before it.
    pub records: u64,
    /// Whether it is the gzip stream that ended early.
    pub gzip_cut: bool,
}

impl fmt::Display for Truncation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, offset, .. } = self;
        let records = self.records;
        write!(f, "{name}: cut off ")?;
        match self.cut {
            Cut::RecordHeader => write!(f, "in a packet header at byte {offset}")?,
            Cut::Record => write!(f, "in a packet at byte {offset}")?,
            Cut::Block => write!(f, "in a block at byte {offset}")?,
            Cut::Gzip => write!(f, "in its gzip stream, after {offset} decompressed bytes")?,
        }
        if let Some(need) = self.need {
            write!(f, " ({} of {need} bytes are there)", self.have)?;
        }
        if self.gzip_cut && self.cut != Cut::Gzip {
            write!(f, ", because its gzip stream is cut off")?;
        }
        write!(
            f,
            "; all packets before it were read ({records}). The capture was interrupted or the copy \
             is incomplete"
        )
    }
}

/// Why the next record cannot be had.
pub(super) enum Stop {
    /// The clean end.
    End,
    /// The input ends inside something that needs `need` bytes.
    Cut { cut: Cut, need: Option<u64> },
    /// Nonsense.
    Corrupt(String),
    /// The input failed.
    Io(io::Error),
}
