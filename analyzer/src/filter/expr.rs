//! The expression: its parts, its evaluation over facts, its canonical text.

use std::fmt;

use rocescope_common::wire::frame::Addr;

use super::FlowFacts;
use super::fields::Core;
use super::value::{Net, Op, Pattern};

/// Filter expression as a tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// All of these hold.
    All(Vec<Expr>),
    /// One of these holds.
    Any(Vec<Expr>),
    /// This does not hold.
    Not(Box<Expr>),
    /// A test of one field against values.
    Test(Test),
}

/// Test of one property.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// An address is in a prefix: of [`Core::Source`], [`Core::Destination`] or either.
    Address(Core, Net),
    /// A number of a packet compares.
    Number(Core, Op, u32),
    /// The link has this name.
    Link(Pattern),
    /// The opcode is among these; the text is as typed.
    Opcode(String, Box<[bool; 256]>),
    /// A figure compares.
    Figure(Figure),
    /// A text contains this, in lower case.
    Text(RowField, String),
    /// One of the field's words, by bit, is that of the row.
    Words(RowField, String, u64),
    /// A word without a field: rows that mention it.
    Word(Word),
}

/// A field of rows: its place in the vocabulary, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowField {
    /// Place of the field in the list of fields.
    pub at: usize,
    /// Name of the field.
    pub name: &'static str,
}

/// A comparison of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Field that is compared.
    pub field: RowField,
    /// Comparison with the value.
    pub op: Op,
    /// The number, in units of one.
    pub value: f64,
    /// The number as typed.
    pub text: String,
}

/// A word alone: rows that mention it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word, in lower case.
    pub text: String,
    /// The words of fields in which it occurs, by bit.
    pub words: Vec<(usize, u64)>,
    /// The figure of this name, where there is one: rows in which it is above 0 match too.
    pub figure: Option<usize>,
}

/// The subject of a filter: a packet, a flow, a row on the screen or an event. `None` is unknown.
pub trait Facts {
    /// Family, source, destination.
    fn addresses(&self) -> (u8, Addr, Addr);
    /// Destination queue pair.
    fn dest_qp(&self) -> u32;
    /// True if the link has this name.
    fn link(&self, name: &Pattern) -> bool;

    /// Its packets, which decide about fields of packets that it does not know itself; `None` without packets.
    fn packets(&self) -> Option<FlowFacts<'_>> {
        None
    }
    /// True if `holds` for a UDP source port.
    fn port(&self, holds: impl Fn(u16) -> bool) -> Option<bool> {
        self.packets()?.port(holds)
    }
    /// True if `holds` for a DSCP.
    fn dscp(&self, holds: impl Fn(u16) -> bool) -> Option<bool> {
        self.packets()?.dscp(holds)
    }
    /// VLAN ID of the outermost tag; 0 for none.
    fn vlan(&self) -> Option<u16> {
        self.packets()?.vlan()
    }
    /// True if an opcode is among those `wanted`.
    fn opcode(&self, wanted: &[bool; 256]) -> Option<bool> {
        self.packets()?.opcode(wanted)
    }
    /// The figure in field `at` of the vocabulary, in units of one.
    fn figure(&self, _at: usize) -> Option<f64> {
        None
    }
    /// True if the text in field `at` contains `part`, which is in lower case. An unknown text contains nothing.
    fn text(&self, _at: usize, _part: &str) -> bool {
        false
    }
    /// The words in field `at` that apply, by bit.
    fn words(&self, _at: usize) -> Option<u64> {
        None
    }
    /// True if a word alone occurs.
    fn mentions(&self, _word: &Word) -> Option<bool> {
        None
    }
}

impl Expr {
    /// Levels of its canonical text: a test alone is one.
    pub(super) fn depth(&self) -> u32 {
        match self {
            Self::All(exprs) | Self::Any(exprs) => 1 + exprs.iter().map(Self::depth).max().unwrap_or(0),
            Self::Not(inner) => 1 + inner.depth(),
            Self::Test(_) => 1,
        }
    }

    /// True if it holds. `None` where an unknown figure decides: neither the test nor its opposite holds then.
    pub fn decide(&self, facts: &impl Facts) -> Option<bool> {
        match self {
            Self::All(all) => {
                let mut known = Some(true);
                for expr in all {
                    match expr.decide(facts) {
                        Some(true) => {}
                        Some(false) => return Some(false),
                        None => known = None,
                    }
                }
                known
            }
            Self::Any(any) => {
                let mut known = Some(false);
                for expr in any {
                    match expr.decide(facts) {
                        Some(false) => {}
                        Some(true) => return Some(true),
                        None => known = None,
                    }
                }
                known
            }
            Self::Not(inner) => inner.decide(facts).map(|holds| !holds),
            Self::Test(test) => test.decide(facts),
        }
    }

    /// The expression without some of its tests; `None` when no test is left.
    pub fn without(&self, dropped: &impl Fn(&Test) -> bool) -> Option<Self> {
        let left = |exprs: &[Self]| {
            let left: Vec<Self> = exprs.iter().filter_map(|expr| expr.without(dropped)).collect();
            (!left.is_empty()).then_some(left)
        };
        match self {
            Self::All(exprs) => left(exprs).map(Self::All),
            Self::Any(exprs) => left(exprs).map(Self::Any),
            Self::Not(inner) => Some(Self::Not(Box::new(inner.without(dropped)?))),
            Self::Test(test) => (!dropped(test)).then(|| self.clone()),
        }
    }

    /// True if `wanted` holds for one of its tests.
    pub fn any_test(&self, wanted: &impl Fn(&Test) -> bool) -> bool {
        match self {
            Self::All(exprs) | Self::Any(exprs) => exprs.iter().any(|expr| expr.any_test(wanted)),
            Self::Not(inner) => inner.any_test(wanted),
            Self::Test(test) => wanted(test),
        }
    }
}

impl Test {
    fn decide(&self, facts: &impl Facts) -> Option<bool> {
        match self {
            Self::Address(end, net) => {
                let (family, src, dst) = facts.addresses();
                Some(
                    (*end != Core::Destination && net.contains(family, src))
                        || (*end != Core::Source && net.contains(family, dst)),
                )
            }
            Self::Number(core, op, value) => {
                let holds = |n: u16| op.holds(f64::from(n), f64::from(*value));
                match core {
                    Core::Port => facts.port(holds),
                    Core::Dscp => facts.dscp(holds),
                    Core::Vlan => facts.vlan().map(holds),
                    _ => Some(op.holds(f64::from(facts.dest_qp()), f64::from(*value))),
                }
            }
            Self::Link(name) => Some(facts.link(name)),
            Self::Opcode(_, wanted) => facts.opcode(wanted),
            Self::Figure(Figure { field, op, value, .. }) => {
                facts.figure(field.at).map(|figure| op.holds(figure, *value))
            }
            Self::Text(field, part) => Some(facts.text(field.at, part)),
            Self::Words(field, _, wanted) => facts.words(field.at).map(|words| words & wanted != 0),
            Self::Word(word) => facts.mentions(word),
        }
    }

    /// True for a test of a flow, false for one of a packet or event.
    pub const fn is_of_flow(&self) -> bool {
        !matches!(self, Self::Address(..) | Self::Number(Core::Qp, ..) | Self::Link(_) | Self::Word(_))
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (exprs, word) = match self {
            Self::All(exprs) => (exprs, " and "),
            Self::Any(exprs) => (exprs, " or "),
            Self::Not(inner) => return write!(f, "not {inner}"),
            Self::Test(test) => return test.fmt(f),
        };
        f.write_str("(")?;
        for (at, expr) in exprs.iter().enumerate() {
            write!(f, "{}{expr}", if at == 0 { "" } else { word })?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| {
            let quote = if text.contains('"') { '\'' } else { '"' };
            format!("{quote}{text}{quote}")
        };
        match self {
            Self::Address(end, net) => write!(f, "{} {net}", end.name()),
            Self::Number(core, op, value) => write!(f, "{} {} {value}", core.name(), op.sign()),
            Self::Link(name) => write!(f, "link {}", quoted(name.text())),
            Self::Opcode(name, _) => write!(f, "opcode {name}"),
            Self::Figure(Figure { field, op, text, .. }) => write!(f, "{} {} {text}", field.name, op.sign()),
            Self::Text(field, part) | Self::Words(field, part, _) => {
                write!(f, "{} {}", field.name, quoted(part))
            }
            Self::Word(Word { text, figure: Some(_), .. }) => f.write_str(text),
            Self::Word(Word { text, .. }) => f.write_str(&quoted(text)),
        }
    }
}
