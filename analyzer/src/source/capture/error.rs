//! Errors of captures, each with its cause and remedy.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::util::nearest::nearest;

/// Most names of a folder that are compared with one that is not there.
const NAMES: usize = 10_000;

/// An error that keeps a capture from being read, or from being read to its end.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// No file of that name.
    #[error("{name}: no such file{hint}; check the path (`-` reads standard input)")]
    NotFound {
        /// Path as given by the user.
        name: String,
        /// The likely name: ` (did you mean 'a.pcap'?)`, or nothing.
        hint: String,
    },
    /// The file exists but may not be read.
    #[error("{name}: permission denied; make the file readable for this user or run as root")]
    Permission {
        /// Path as given by the user.
        name: String,
    },
    /// A directory was given.
    #[error("{name}: is a directory; name the capture files in it")]
    Directory {
        /// Path as given by the user.
        name: String,
    },
    /// Reading failed.
    #[error("{name}: cannot be read ({source}); check the device or the command that feeds it")]
    Io {
        /// Name of the input.
        name: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The input has no bytes.
    #[error(
        "{name}: empty; the capture wrote nothing, not even a header (a tool that feeds a pipe \
         may have failed: see its own messages)"
    )]
    Empty {
        /// Name of the input.
        name: String,
    },
    /// The first bytes name no supported format.
    #[error("{name}: not a pcap or pcapng capture (starts with {}); {hint}", hex(.first_bytes))]
    NotACapture {
        /// Name of the input.
        name: String,
        /// Up to eight bytes it starts with.
        first_bytes: Vec<u8>,
        /// The probable format, and how to convert it.
        hint: &'static str,
    },
    /// The input ends inside the file header.
    #[error(
        "{name}: ends after {have} bytes, inside the {format} file header; copy the file again or \
         capture again"
    )]
    HeaderCut {
        /// Name of the input.
        name: String,
        /// Bytes of the input.
        have: usize,
        /// `pcap`, `pcapng` or `gzip`.
        format: &'static str,
    },
    /// An unsupported version of the format.
    #[error("{name}: {what}; convert it with `editcap -F pcap IN OUT`")]
    Unsupported {
        /// Name of the input.
        name: String,
        /// Property that is not supported.
        what: String,
    },
    /// Invalid data after the file header. All records before it were delivered.
    #[error(
        "{name}: damaged at byte {offset}: {what}; all packets before it were read ({records}), \
         what follows cannot be: copy the file again or capture again"
    )]
    Corrupt {
        /// Name of the input.
        name: String,
        /// Offset of the damaged record or block, in bytes of the decompressed data.
        offset: u64,
        /// Violation of the format, in words.
        what: String,
        /// Records delivered before it.
        records: u64,
    },
}

impl CaptureError {
    /// The error of a path where nothing is; `None` where something is.
    pub fn absent(path: &Path) -> Option<Self> {
        let error = fs::metadata(path).err().filter(|error| error.kind() == ErrorKind::NotFound)?;
        Some(Self::from_io(&path.display().to_string(), error))
    }

    /// True if the input merely has no data at the moment.
    pub fn would_block(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == ErrorKind::WouldBlock)
    }

    /// Maps an I/O error to the cases that a user can act on.
    pub(super) fn from_io(name: &str, source: io::Error) -> Self {
        let name = name.to_owned();
        match source.kind() {
            ErrorKind::NotFound => Self::NotFound { hint: meant(Path::new(&name)), name },
            ErrorKind::PermissionDenied => Self::Permission { name },
            ErrorKind::IsADirectory => Self::Directory { name },
            _ => Self::Io { name, source },
        }
    }
}

/// The nearest name in the folder of a path where nothing is, as a part of the error's sentence.
fn meant(path: &Path) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(word) = path.file_name().and_then(OsStr::to_str) else { return String::new() };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(NAMES);
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    let found = nearest(word, names.iter().map(|name| (name.as_str(), name.as_str())));
    found.map_or_else(String::new, |name| {
        format!(" (did you mean '{}'?)", path.with_file_name(name).display())
    })
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    digits.join(" ")
}

/// True if an error comes from the decompressor (bad data) and not from the system.
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

/// The structure in which the input ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The header of a packet record (pcap).
    RecordHeader,
    /// The bytes of a packet (pcap).
    Record,
    /// A block (pcapng).
    Block,
    /// The gzip stream, after the last complete record.
    Gzip,
}

/// Place at which an input ended too early. Displayed as a sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// Name of the input.
    pub name: String,
    /// Part that was cut.
    pub cut: Cut,
    /// Offset of the cut record or block, in bytes of the decompressed data.
    pub offset: u64,
    /// Bytes of the cut part that are present.
    pub have: u64,
    /// Bytes that it needs; `None` when its length was cut off too.
    pub need: Option<u64>,
    /// Complete records before it.
    pub records: u64,
    /// True if the gzip stream ended early.
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

/// Reason why there is no next record.
pub(super) enum ReadEnd {
    /// The input ended after a whole record.
    End,
    /// The input ends inside something that needs `need` bytes.
    Cut { cut: Cut, need: Option<u64> },
    /// The data is invalid.
    Corrupt(String),
    /// The input failed.
    Io(io::Error),
    /// Much input without a packet: the caller may want to stop.
    Pause,
}
