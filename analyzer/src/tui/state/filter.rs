//! The filter of table and events.

use rocescope_common::account::FlowKey;

use super::data::Data;
use super::log::Log;
use super::texts::Texts;
use crate::tui::query::Query;
use crate::util::map::{Map, Set};

/// The filter, and the indexes that make it fast.
#[derive(Debug)]
pub struct Filter {
    /// Text of the filter.
    pub text: String,
    /// Query that the text parses to.
    pub query: Query,
    /// Places of the rows of flows that have events; empty where the filter has no condition on flows.
    pub(in crate::tui) rows: Map<FlowKey, usize>,
    /// The texts that words are searched in.
    pub(in crate::tui) texts: Texts,
}

impl Filter {
    /// The filter of this text.
    pub fn new(text: &str) -> Self {
        let (rows, texts) = (Map::default(), Texts::default());
        Self { text: text.to_owned(), query: Query::new(text), rows, texts }
    }

    /// Replaces the text of the filter.
    pub(in crate::tui) fn set(&mut self, text: &str) {
        text.clone_into(&mut self.text);
        self.query = Query::new(text);
    }

    /// Looks up the rows of flows that have events, where the filter has conditions on flows.
    pub(in crate::tui) fn find_rows(&mut self, data: Option<&Data>, log: &Log) {
        self.rows.clear();
        let Some(data) = data.filter(|_| self.query.is_of_flows()) else { return };
        let flows: Set<FlowKey> = log.latest().map(|entry| entry.key).collect();
        let rows = data.model.rows.iter().enumerate().filter(|(_, row)| flows.contains(&row.id.key));
        self.rows.extend(rows.map(|(at, row)| (row.id.key, at)));
    }
}
