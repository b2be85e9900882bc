//! The language of `--filter`: which RoCE packets, or flows, are wanted.
//!
//! ```text
//! expr   = term { "or" term }
//! term   = factor { ["and"] factor }
//! factor = "not" factor | "(" expr ")" | test
//! test   = "host" NET | "src" NET | "dst" NET     address or prefix; host is either end
//!        | "qp" NUMBER                             destination queue pair, 17 or 0x11
//!        | "port" NUMBER                           UDP source port
//!        | "link" NAME                             as reports name it; may be quoted
//!        | "opcode" NUMBER | "opcode" NAME         RC_SEND_ONLY, or SEND_ONLY of any transport
//! ```

mod parse;

use std::fmt;

use rocescope_common::wire::Frame;
use rocescope_common::wire::frame::Addr;

use crate::sample::{Extra, FlowSample};

pub use parse::FilterError;

/// A filter, ready to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    expr: Expr,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Expr {
    All(Vec<Expr>),
    Any(Vec<Expr>),
    Not(Box<Expr>),
    Host(Net),
    Src(Net),
    Dst(Net),
    Qp(u32),
    Port(u16),
    Link(String),
    Opcode(Box<[bool; 256]>),
}

/// An address prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Net {
    family: u8,
    prefix: u128,
    mask: u128,
}

impl Net {
    fn contains(self, family: u8, words: Addr) -> bool {
        let address = words.iter().fold(0u128, |sum, word| sum << 32 | u128::from(u32::from_be(*word)));
        family == self.family && address & self.mask == self.prefix
    }
}

/// What is asked about.
trait Subject {
    /// Family, source, destination.
    fn addresses(&self) -> (u8, Addr, Addr);
    fn dest_qp(&self) -> u32;
    fn link(&self) -> &str;
    fn port(&self, port: u16) -> bool;
    fn opcode(&self, wanted: &[bool; 256]) -> bool;
}

impl Filter {
    /// Reads an expression.
    ///
    /// # Errors
    /// What was expected where, pointing at it.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        parse::parse(text).map(|expr| Self { expr, text: text.trim().to_owned() })
    }

    /// The expression as it was given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a packet on the link of this name is wanted.
    #[must_use]
    pub fn packet(&self, frame: &Frame, link: &str) -> bool {
        self.expr.holds(&Packet { frame, link })
    }

    /// Whether a flow is wanted: tests of port and opcode hold when any of its packets has them.
    #[must_use]
    pub fn flow(&self, flow: &FlowSample, extra: Option<&Extra>, link: &str) -> bool {
        self.expr.holds(&Flow { sample: flow, extra, link })
    }
}

impl Expr {
    fn holds(&self, subject: &impl Subject) -> bool {
        let (family, src, dst) = subject.addresses();
        match self {
            Self::All(all) => all.iter().all(|expr| expr.holds(subject)),
            Self::Any(any) => any.iter().any(|expr| expr.holds(subject)),
            Self::Not(inner) => !inner.holds(subject),
            Self::Host(net) => net.contains(family, src) || net.contains(family, dst),
            Self::Src(net) => net.contains(family, src),
            Self::Dst(net) => net.contains(family, dst),
            Self::Qp(qp) => subject.dest_qp() == *qp,
            Self::Port(port) => subject.port(*port),
            Self::Link(name) => subject.link() == name,
            Self::Opcode(wanted) => subject.opcode(wanted),
        }
    }
}

struct Packet<'a> {
    frame: &'a Frame,
    link: &'a str,
}

impl Subject for Packet<'_> {
    fn addresses(&self) -> (u8, Addr, Addr) {
        (self.frame.family, self.frame.src, self.frame.dst)
    }

    fn dest_qp(&self) -> u32 {
        self.frame.dest_qp
    }

    fn link(&self) -> &str {
        self.link
    }

    fn port(&self, port: u16) -> bool {
        self.frame.roce_version == 2 && self.frame.src_port == port
    }

    fn opcode(&self, wanted: &[bool; 256]) -> bool {
        wanted[usize::from(self.frame.opcode)]
    }
}

struct Flow<'a> {
    sample: &'a FlowSample,
    extra: Option<&'a Extra>,
    link: &'a str,
}

impl Subject for Flow<'_> {
    fn addresses(&self) -> (u8, Addr, Addr) {
        let key = &self.sample.key;
        (key.family, key.src, key.dst)
    }

    fn dest_qp(&self) -> u32 {
        self.sample.key.dest_qp
    }

    fn link(&self) -> &str {
        self.link
    }

    fn port(&self, port: u16) -> bool {
        let stats = &self.sample.stats;
        (stats.src_port == port && stats.first_port_packets() > 0)
            || self.extra.is_some_and(|extra| extra.ports.iter().any(|(p, _)| *p == port))
    }

    fn opcode(&self, wanted: &[bool; 256]) -> bool {
        let stats = &self.sample.stats;
        let has = |code: u8| wanted[usize::from(code)];
        let own = (0u8..32).zip(stats.opcodes).any(|(low, packets)| {
            // Without a transport there are only CNPs, and the counts are zero.
            packets > 0 && stats.transport < 8 && has(stats.transport << 5 | low)
        });
        let cnp = stats.cnp_packets > 0 && has(rocescope_common::wire::opcode::CNP);
        own || cnp || self.extra.is_some_and(|extra| extra.opcodes.iter().any(|(code, _)| has(*code)))
    }
}

impl std::str::FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Self::parse(text)
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before: usize = self.text.get(..self.at).map_or(0, |text| text.chars().count());
        let marks = self.text.get(self.at..self.end).map_or(1, |text| text.chars().count().max(1));
        write!(f, "{}\n  {}\n  {}{}", self.what, self.text, " ".repeat(before), "^".repeat(marks))
    }
}

impl std::error::Error for FilterError {}

#[cfg(test)]
mod tests;
