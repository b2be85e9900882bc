//! Samples and events from an agent to the views that are attached to it.
//!
//! ```text
//! {"schema":"rocescope.samples/1",...}\n    a line that every version reads
//! length  frame                             4 bytes, the lowest first; a packed [`Frame`]
//! length  frame
//! ```

use std::io::{self, Read};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{EventSample, Sample};
use crate::util::pack::{self, Malformed, Pack as _, pack};

/// Schema of the line before the frames.
pub const SCHEMA: &str = "rocescope.samples/1";
/// Longest line before the frames.
pub const MOST_HELLO: usize = 64 << 10;
/// Longest frame: several times a sample of a full flow table.
pub const MOST_FRAME: usize = 256 << 20;
/// Byte that a view sends to request a dump of the flight recorder.
pub const DUMP: u8 = b'd';

/// The line before the frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the stream, [`SCHEMA`].
    pub schema: String,
    /// Version of the agent.
    pub version: String,
    /// [`layout`] of the agent, in hexadecimal digits.
    pub layout: String,
    /// Process of the agent.
    pub pid: u32,
    /// Interfaces that it watches.
    pub interfaces: usize,
    /// Hooks of the agent, a sentence for each interface.
    pub hooks: Vec<String>,
}

impl Hello {
    /// Describes this process.
    pub fn of(interfaces: usize, hooks: &[String]) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            layout: layout(),
            pid: std::process::id(),
            interfaces,
            hooks: hooks.to_vec(),
        }
    }
}

/// A number for what frames are made of: a view reads those of an agent with the same.
pub fn layout() -> String {
    format!("{:016x}", pack::layout::<(Frame, (Sample, EventSample))>())
}

/// Message of an agent.
#[derive(Clone, Debug)]
pub enum Frame {
    /// Counters of the source now.
    Sample(Arc<Sample>),
    /// Events at packets.
    Events(Arc<Vec<EventSample>>),
    /// A sentence for the user.
    Notice(String),
    /// Readings and events that this view was too slow for since the frame of this kind before.
    LeftOut {
        /// Readings; the next one has their counts.
        readings: u64,
        /// Number of events that were dropped.
        events: u64,
    },
    /// The agent ends; its last reading was sent. With the error that it ends with.
    Ended(Option<String>),
}

pack! {
    enum Frame {
        0 => Sample(sample), 1 => Events(events), 2 => Notice(notice), 3 => LeftOut { readings, events }, 4 => Ended(error),
    }
}

impl Frame {
    /// The frame behind its length. `None` for one that is too long.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; size_of::<u32>()];
        self.pack(&mut bytes);
        let length = bytes.len().checked_sub(size_of::<u32>()).filter(|length| *length <= MOST_FRAME)?;
        let length = u32::try_from(length).ok()?.to_le_bytes();
        bytes.get_mut(..length.len())?.copy_from_slice(&length);
        Some(bytes)
    }

    /// The bytes of the next frame; `None` at an end between two.
    ///
    /// # Errors
    /// It is cut off or too long, or cannot be read.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
        let mut length = [0; size_of::<u32>()];
        let (first, rest) = length.split_at_mut(1);
        loop {
            match from.read(first) {
                Ok(0) => return Ok(None),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        from.read_exact(rest)?;
        let length = u32::from_le_bytes(length);
        if usize::try_from(length).is_ok_and(|length| length > MOST_FRAME) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, Malformed));
        }
        let mut bytes = Vec::new();
        // Memory as the bytes come: a length alone costs none.
        if from.take(length.into()).read_to_end(&mut bytes)? as u64 == u64::from(length) {
            Ok(Some(bytes))
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::pack::unpacked;

    #[test]
    fn frames_are_read_one_after_the_other() {
        let frames = [
            Frame::Notice("a".to_owned()),
            Frame::LeftOut { readings: 1, events: 300 },
            Frame::Ended(Some("b".to_owned())),
        ];
        let all: Vec<u8> = frames.iter().flat_map(|frame| frame.bytes().unwrap()).collect();
        let mut rest = all.as_slice();
        let mut next = || Frame::read(&mut rest).unwrap().map(|bytes| unpacked::<Frame>(&bytes).unwrap());
        assert!(matches!(next(), Some(Frame::Notice(text)) if text == "a"));
        assert!(matches!(next(), Some(Frame::LeftOut { readings: 1, events: 300 })));
        assert!(matches!(next(), Some(Frame::Ended(Some(error))) if error == "b"));
        assert!(next().is_none());
        let cut = Frame::read(&mut &all[..3]).unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(Frame::read(&mut &all[..6]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let long = [0xFF, 0xFF, 0xFF, 0xFF, 0];
        assert_eq!(Frame::read(&mut &long[..]).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
