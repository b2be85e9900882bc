//! The filter language of `--filter`, `--view-filter` and `/`.
//!
//! ```text
//! expr   = term { "or" term }
//! term   = factor { ["and"] factor }
//! factor = "not" factor | "(" expr ")" | test
//! test   = ["src" | "dst"] ("host" | "net") NET | ("src" | "dst") NET
//!        | field [compare] VALUE
//!        | figure                                 above 0
//!        | WORD                                   on the screen: text
//! compare = "<" | "<=" | "=" | "!=" | ">=" | ">"
//! ```
//!
//! One parser makes one expression, which is evaluated over [`Facts`]: a packet or a flow at the source, a row or an
//! event on the screen. The fields of packets are in [`fields::CORE`]; those of rows come with a [`Vocabulary`], which
//! the columns of the table are.

mod error;
mod expr;
pub mod fields;
mod parse;
mod token;
pub mod value;

use std::cell::RefCell;

use rocescope_common::account::flow::DSCP_NONE;
use rocescope_common::wire::Frame;
use rocescope_common::wire::PORT_ROCE;
use rocescope_common::wire::frame::{Addr, VLAN_UNKNOWN};
use rocescope_common::wire::opcode::CNP;

use crate::sample::{Extra, FlowSample};

pub use error::FilterError;
pub use expr::{Expr, Facts, Figure, RowField, Test, Word};
pub use fields::{Field, Vocabulary};
pub use value::{Op, Pattern, Unit};

use parse::Scope;

/// Filter parsed from its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    expr: Expr,
    text: String,
}

impl Filter {
    /// Reads the expression of `--filter`, which is evaluated at the source: only fields of packets can be used.
    ///
    /// # Errors
    /// Position, cause and remedy of the first mistake.
    pub fn source(text: &str, vocabulary: Vocabulary) -> Result<Self, FilterError> {
        match parse::parse(text, Scope::Source, vocabulary) {
            (_, Some(error)) => Err(error),
            (None, None) => Err(FilterError {
                text: text.into(),
                at: 0,
                end: 0,
                cause: "no condition".into(),
                remedy: String::new(),
            }),
            (Some(expr), None) => Ok(Self { expr, text: text.trim().to_owned() }),
        }
    }

    /// Reads the expression of a view. After a mistake the tests before it are in force, so that a filter works while
    /// it is typed; no tests, which match everything, are `None`.
    pub fn view(text: &str, vocabulary: Vocabulary) -> (Option<Self>, Option<FilterError>) {
        if text.trim().is_empty() {
            return (None, None);
        }
        let (expr, error) = parse::parse(text, Scope::View, vocabulary);
        (expr.map(|expr| Self { expr, text: text.trim().to_owned() }), error)
    }

    /// The expression as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Expression of the filter.
    pub fn expr(&self) -> &Expr {
        &self.expr
    }

    /// The fields it tests that packets of InfiniBand do not have.
    pub fn absent_in_infiniband(&self) -> Vec<&'static str> {
        let tests = |core: fields::Core| {
            self.expr.any_test(&|test| matches!(test, Test::Number(own, ..) if *own == core))
        };
        let absent = [fields::Core::Port, fields::Core::Vlan, fields::Core::Dscp];
        absent.into_iter().filter(|core| tests(*core)).map(fields::Core::name).collect()
    }

    /// True if it tests the UDP source port for the destination port of RoCEv2.
    pub fn tests_roce_port(&self) -> bool {
        let port = u32::from(PORT_ROCE);
        self.expr.any_test(
            &|test| matches!(test, Test::Number(fields::Core::Port, Op::Equal, own) if *own == port),
        )
    }

    /// The names of links it tests that none of these links has.
    pub fn unknown_links(&self, links: &[&str]) -> Vec<String> {
        let unknown = RefCell::new(Vec::new());
        self.expr.any_test(&|test| {
            if let Test::Link(name) = test
                && !links.iter().any(|link| name.is(link))
            {
                unknown.borrow_mut().push(name.to_string());
            }
            false
        });
        unknown.into_inner()
    }

    /// True if it holds for these facts; not where an unknown figure decides.
    pub fn holds(&self, facts: &impl Facts) -> bool {
        self.expr.decide(facts) == Some(true)
    }

    /// True if a packet on the link of this name matches.
    pub fn packet(&self, frame: &Frame, link: &str) -> bool {
        self.holds(&PacketFacts { frame, link })
    }

    /// True if a flow matches: tests of port, DSCP and opcode hold when one of its packets matches.
    pub fn flow(&self, flow: &FlowSample, extra: Option<&Extra>, link: &str) -> bool {
        self.holds(&FlowFacts { flow, extra, link })
    }
}

struct PacketFacts<'a> {
    frame: &'a Frame,
    link: &'a str,
}

impl Facts for PacketFacts<'_> {
    fn addresses(&self) -> (u8, Addr, Addr) {
        (self.frame.family, self.frame.src, self.frame.dst)
    }

    fn dest_qp(&self) -> u32 {
        self.frame.dest_qp
    }

    fn link(&self, name: &Pattern) -> bool {
        name.is(self.link)
    }

    fn port(&self, holds: impl Fn(u16) -> bool) -> Option<bool> {
        Some(self.frame.roce_version == 2 && holds(self.frame.src_port))
    }

    fn dscp(&self, holds: impl Fn(u16) -> bool) -> Option<bool> {
        Some(self.frame.roce_version == 2 && holds(u16::from(self.frame.tos >> 2)))
    }

    fn vlan(&self) -> Option<u16> {
        (self.frame.vlan != VLAN_UNKNOWN).then_some(self.frame.vlan)
    }

    fn opcode(&self, wanted: &[bool; 256]) -> Option<bool> {
        Some(wanted[usize::from(self.frame.opcode)])
    }
}

/// The facts of a flow: of its key, and of all of its packets.
#[derive(Clone, Copy, Debug)]
pub struct FlowFacts<'a> {
    /// Flow that is tested.
    pub flow: &'a FlowSample,
    /// Further ports, opcodes and DSCPs.
    pub extra: Option<&'a Extra>,
    /// Name of its link.
    pub link: &'a str,
}

impl Facts for FlowFacts<'_> {
    fn addresses(&self) -> (u8, Addr, Addr) {
        let key = &self.flow.key;
        (key.family, key.src, key.dst)
    }

    fn dest_qp(&self) -> u32 {
        self.flow.key.dest_qp
    }

    fn link(&self, name: &Pattern) -> bool {
        name.is(self.link)
    }

    fn port(&self, holds: impl Fn(u16) -> bool) -> Option<bool> {
        let stats = &self.flow.stats;
        let first = stats.roce_version == 2 && stats.first_port_packets() > 0 && holds(stats.src_port);
        Some(first || self.extra.is_some_and(|extra| extra.ports.iter().any(|(port, _)| holds(*port))))
    }

    fn dscp(&self, holds: impl Fn(u16) -> bool) -> Option<bool> {
        const DSCP: u16 = 0x3F;
        let stats = &self.flow.stats;
        let first = stats.dscp != DSCP_NONE && holds(u16::from(stats.dscp));
        // Above the DSCP is the kind of packet.
        Some(
            first || self.extra.is_some_and(|extra| extra.dscps.iter().any(|(value, _)| holds(value & DSCP))),
        )
    }

    fn vlan(&self) -> Option<u16> {
        self.flow.stats.vlan_id()
    }

    fn opcode(&self, wanted: &[bool; 256]) -> Option<bool> {
        let stats = &self.flow.stats;
        let has = |code: u8| wanted[usize::from(code)];
        // Without a transport there are only CNPs.
        let own = stats.transport < 8 && stats.opcodes.iter().any(|(low, _)| has(stats.transport << 5 | low));
        let cnp = stats.cnp_packets > 0 && has(CNP);
        Some(own || cnp || self.extra.is_some_and(|extra| extra.opcodes.iter().any(|(code, _)| has(*code))))
    }
}

#[cfg(test)]
mod tests;
