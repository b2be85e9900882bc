//! Classes of events, with the words that every view uses.

use rocescope_common::account::Event;

use super::signals::{self, About};

/// Bit of an event without a packet: a flow fell silent. Not among those of [`Event`].
pub const IDLE: u16 = 1 << 15;

/// Class of an event, as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Bit of [`Event`], or [`IDLE`].
    pub bit: u16,
    /// Word that the screens show.
    pub word: &'static str,
    /// Kinds of findings about its hosts that give it a level: an event by itself has none.
    pub about: About,
    /// Its meaning, for the help.
    pub help: &'static str,
}

const fn class(bit: u16, word: &'static str, about: About, help: &'static str) -> Class {
    Class { bit, word, about, help }
}

/// All classes of events, worst first: an event with several bits is listed under the first.
pub const CLASSES: &[Class] = &[
    class(Event::NAK, "NAK", signals::NAK, "request refused, or PSN sequence error at the receiver"),
    class(Event::GAP, "GAP", signals::LOST, "PSN gap before this packet"),
    class(Event::RNR, "RNR", signals::RNR, "receiver not ready: no receive buffer posted"),
    class(Event::CNP, "CNP", signals::CNP, "rate reduction requested of the sender"),
    class(Event::CE, "CE", signals::CE, "first CE-marked packet after 10 ms without"),
    class(Event::RESTART, "RESTART", signals::NOTHING, "PSN sequence restarted: QP number reused"),
    class(Event::GSI, "CM", signals::NOTHING, "connection management"),
    class(Event::NEW_FLOW, "NEW", signals::NOTHING, "first packet of a flow"),
    class(IDLE, "IDLE", signals::NOTHING, "no packets of the flow for 10 s"),
];
