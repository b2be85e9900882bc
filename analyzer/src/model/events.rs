//! Classes of events, with the words that every view uses.

use rocescope_common::account::Event;

use super::Level;

/// Bit of an event without a packet: a flow fell silent. Not among those of [`Event`].
pub const IDLE: u16 = 1 << 15;

/// Class of an event, as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Bit of [`Event`], or [`IDLE`].
    pub bit: u16,
    /// Word that the screens show.
    pub word: &'static str,
    /// The level at most, where an active finding is about its hosts: an event by itself is none.
    pub level: Level,
    /// Its meaning, for the help.
    pub help: &'static str,
}

const fn class(bit: u16, word: &'static str, level: Level, help: &'static str) -> Class {
    Class { bit, word, level, help }
}

/// All classes of events, worst first: an event with several bits is listed under the first.
pub const CLASSES: &[Class] = &[
    class(Event::NAK, "NAK", Level::Critical, "request refused, or PSN sequence error at the receiver"),
    class(Event::GAP, "GAP", Level::Critical, "PSN gap before this packet"),
    class(Event::RNR, "RNR", Level::Warning, "receiver not ready: no receive buffer posted"),
    class(Event::CNP, "CNP", Level::Warning, "rate reduction requested of the sender"),
    class(Event::CE, "CE", Level::Warning, "first CE-marked packet after 10 ms without"),
    class(Event::RESTART, "RESTART", Level::Fine, "PSN sequence restarted: QP number reused"),
    class(Event::GSI, "CM", Level::Fine, "connection management"),
    class(Event::NEW_FLOW, "NEW", Level::Fine, "first packet of a flow"),
    class(IDLE, "IDLE", Level::Fine, "no packets of the flow for 10 s"),
];
