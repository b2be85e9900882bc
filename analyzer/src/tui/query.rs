//! The filter of a view: the language of [`crate::filter`] over rows and events.

use std::sync::LazyLock;

use rocescope_common::account::{Event, FlowKey};
use rocescope_common::wire::frame::Addr;

use super::column::{COLUMNS, Context, Value, ValueKind, state_bits};
use super::log::{self, CLASSES};
use super::nic_fields;
use super::state::texts::Texts;
use crate::entity::owners::QpOwner;
use crate::filter::fields::{CORE, Core, OF_EVENT, RULES};
use crate::filter::{
    Expr, Facts, Field, Filter, FilterError, FlowFacts, Pattern, Test, Unit, Vocabulary, Word,
};
use crate::model::Row;
use crate::sample::address;

/// The fields of rows: the columns, then the kind of an event, then those that queue pairs of NICs alone have.
pub fn vocabulary() -> Vocabulary {
    static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
        let columns = COLUMNS.iter().map(|column| {
            let (name, aliases, help) = (column.name, column.aliases, column.help);
            Field { name, aliases, unit: column.kind.unit(), help }
        });
        let event = Field { name: "event", aliases: &[], unit: Unit::Words(events), help: OF_EVENT };
        columns.chain([event]).chain(nic_fields::FIELDS.map(|own| own.field)).collect()
    });
    Vocabulary::new(&FIELDS)
}

/// Kinds of events, for filters.
fn events() -> &'static [String] {
    static EVENTS: LazyLock<Vec<String>> =
        LazyLock::new(|| CLASSES.iter().map(|class| class.word.to_lowercase()).collect());
    &EVENTS
}

/// The language, for the help screen: form and meaning.
pub fn help() -> impl Iterator<Item = (&'static str, &'static str)> {
    CORE.iter().map(|field| (field.usage, field.help)).chain(RULES.iter().copied())
}

/// A filter ready for use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    filter: Option<Filter>,
    /// The same for rows, to which tests for a kind of event do not apply, nor those of queue pairs of NICs.
    rows: Option<Expr>,
    /// The same for queue pairs of NICs, to which tests for what only packets show do not apply.
    nics: Option<Expr>,
    /// The first mistake; the tests before it are in force.
    pub error: Option<FilterError>,
}

impl Query {
    /// The filter of this text; one without tests matches everything.
    pub fn new(text: &str) -> Self {
        let (filter, error) = Filter::view(text, vocabulary());
        let field = |test: &Test| match test {
            Test::Words(field, ..) | Test::Text(field, _) => Some(*field),
            Test::Figure(figure) => Some(figure.field),
            _ => None,
        };
        let without = |dropped: &dyn Fn(&Test) -> bool| {
            filter.as_ref().and_then(|filter| filter.expr().without(&dropped))
        };
        let rows = without(&|test| field(test).is_some_and(|field| field.at >= COLUMNS.len()));
        let of_packets = |test: &Test| {
            matches!(test, Test::Opcode(..) | Test::Number(Core::Vlan, ..))
                || field(test).is_some_and(|field| nic_fields::column(field.name).is_none())
        };
        let nics = without(&of_packets);
        Self { filter, rows, nics, error }
    }

    /// True if everything matches.
    pub fn is_empty(&self) -> bool {
        self.filter.is_none()
    }

    /// True if a row is shown. `texts` are those of rows, `links` the names of links with their directions.
    pub(super) fn row(&self, row: &Row, texts: &Texts, links: &[String], cx: Context<'_>) -> bool {
        let holds = |expr: &Expr| expr.decide(&RowFacts { row, texts, links, cx }) == Some(true);
        self.rows.as_ref().is_none_or(holds)
    }

    /// True if a queue pair of a NIC is shown.
    pub(super) fn nic(&self, facts: &impl Facts) -> bool {
        self.nics.as_ref().is_none_or(|expr| expr.decide(facts) == Some(true))
    }

    /// True if it has conditions on flows: an event then matches by counters, state and owner of its flow.
    pub fn is_of_flows(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.expr().any_test(&|test| test.is_of_flow()))
    }

    /// True if an event is shown. `flow` is the row of its flow, where it is needed and known.
    pub(super) fn event(
        &self,
        entry: &log::Entry,
        state: &log::EntryState,
        link: &str,
        flow: Option<(&Row, Context<'_>)>,
    ) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.holds(&EventFacts { entry, state, link, flow }))
    }
}

/// The facts of a flow as the table shows it.
#[derive(Clone, Copy)]
struct RowFacts<'a> {
    row: &'a Row,
    texts: &'a Texts,
    links: &'a [String],
    cx: Context<'a>,
}

/// The name of the link of a flow, without its direction.
fn link_of<'a>(key: &FlowKey, cx: Context<'a>) -> &'a str {
    cx.model.links.get(usize::from(key.link)).map_or("", |link| &link.name)
}

/// The facts of a flow's packets; `None` where the flow has none any more.
fn packets<'a>(row: &Row, cx: Context<'a>) -> Option<FlowFacts<'a>> {
    let flow = cx.sample.flows.get(row.at?)?;
    Some(FlowFacts { flow, extra: cx.sample.extra.get(&flow.slot), link: link_of(&row.id.key, cx) })
}

fn value<'a>(at: usize, row: &'a Row, cx: Context<'a>) -> Value<'a> {
    COLUMNS.get(at).map_or(Value::Unknown, |column| column.value(row, cx))
}

fn words(at: usize, row: &Row) -> Option<u64> {
    (COLUMNS.get(at)?.kind == ValueKind::State).then(|| state_bits(row))
}

impl Facts for RowFacts<'_> {
    fn addresses(&self) -> (u8, Addr, Addr) {
        let key = &self.row.id.key;
        (key.family, key.src, key.dst)
    }

    fn dest_qp(&self) -> u32 {
        self.row.id.key.dest_qp
    }

    fn link(&self, name: &Pattern) -> bool {
        let key = &self.row.id.key;
        let directed = self.links.get(usize::from(key.link));
        name.is(link_of(key, self.cx)) || directed.is_some_and(|directed| name.is(directed))
    }

    fn packets(&self) -> Option<FlowFacts<'_>> {
        packets(self.row, self.cx)
    }

    fn figure(&self, at: usize) -> Option<f64> {
        value(at, self.row, self.cx).number()
    }

    fn text(&self, at: usize, part: &str) -> bool {
        value(at, self.row, self.cx).contains(part)
    }

    fn words(&self, at: usize) -> Option<u64> {
        words(at, self.row)
    }

    fn mentions(&self, word: &Word) -> Option<bool> {
        let text = self.texts.get(&self.row.id, self.links);
        let in_words =
            || word.words.iter().any(|(at, bits)| words(*at, self.row).is_some_and(|has| has & bits != 0));
        let owned = || self.cx.owner(self.row).is_some_and(|owner| is_owned(owner, &word.text));
        match word.figure {
            _ if text.contains(&word.text) || in_words() || owned() => Some(true),
            Some(at) => self.figure(at).map(|figure| figure > 0.0),
            None => Some(false),
        }
    }
}

/// The facts of an event: its own, and those of its flow.
struct EventFacts<'a> {
    entry: &'a log::Entry,
    state: &'a log::EntryState,
    link: &'a str,
    flow: Option<(&'a Row, Context<'a>)>,
}

impl Facts for EventFacts<'_> {
    fn addresses(&self) -> (u8, Addr, Addr) {
        let key = &self.entry.key;
        (key.family, key.src, key.dst)
    }

    fn dest_qp(&self) -> u32 {
        self.entry.key.dest_qp
    }

    fn link(&self, name: &Pattern) -> bool {
        name.is(self.link)
    }

    fn packets(&self) -> Option<FlowFacts<'_>> {
        self.flow.and_then(|(row, cx)| packets(row, cx))
    }

    fn figure(&self, at: usize) -> Option<f64> {
        self.flow.and_then(|(row, cx)| value(at, row, cx).number())
    }

    fn text(&self, at: usize, part: &str) -> bool {
        self.flow.is_some_and(|(row, cx)| value(at, row, cx).contains(part))
    }

    fn words(&self, at: usize) -> Option<u64> {
        if at < COLUMNS.len() {
            return self.flow.and_then(|(row, _)| words(at, row));
        }
        let of = |bit: u16| CLASSES.iter().position(|class| class.bit == bit).map(|class| 1 << class);
        // NAKs that answer gaps are part of their entry.
        let naks = if self.state.naks > 0 { of(Event::NAK) } else { None };
        of(self.entry.class.bit).map(|class| class | naks.unwrap_or(0))
    }

    fn mentions(&self, word: &Word) -> Option<bool> {
        let key = &self.entry.key;
        let (src, dst) = (address(key.family, key.src), address(key.family, key.dst));
        let (kind, qp) = (self.entry.class.word, key.dest_qp);
        let text = format!("{kind} {src} {dst} qp{qp} {} {}", self.link, self.state.text);
        Some(text.to_lowercase().contains(&word.text))
    }
}

/// True if process or pod contains `word`.
fn is_owned(owner: &QpOwner, word: &str) -> bool {
    [owner.comm.as_deref(), owner.pod.as_deref()]
        .into_iter()
        .flatten()
        .any(|text| text.to_lowercase().contains(word))
}
