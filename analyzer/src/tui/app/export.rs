//! Keys that write files.

use rocescope_common::account::FlowKey;

use super::{Action, App};
use crate::packet::pcapng;
use crate::tui::export::{Content, ExportTable, File, Form};
use crate::tui::log;
use crate::util::units;

impl App {
    /// The data of the screen at the time shown.
    pub fn export_table(&self) -> ExportTable {
        self.screens.page(self.view.screen).export_table(&self.view)
    }

    pub(in crate::tui) fn export(&mut self, form: Form) -> Action {
        let content = self.screens.page(self.view.screen).content(&self.view, form);
        let rows = match &content {
            Content::Bytes(_) => 0,
            Content::Table(table, _) => table.rows.len(),
            Content::Rows(_, order, _) => order.len(),
        };
        if rows == 0 {
            self.view.messages.say("nothing to export on this screen");
            return Action::Draw;
        }
        let time = self.view.data.as_ref().map_or(0, |data| data.model.time_ns);
        Action::Write(File {
            name: format!("rocescope-{}-{}", self.view.screen.name(), units::stamp_utc(time)),
            ending: match form {
                Form::Csv => "csv",
                Form::Json => "json",
            },
            what: units::plural(rows as u64, "row"),
            content,
        })
    }

    /// The latest packet headers of the selected queue pair, both directions; without a selection, of all.
    pub(in crate::tui) fn capture(&mut self) -> Action {
        let selected = self.screens.page(self.view.screen).flow(&self.view);
        let of = |key: &FlowKey| match &selected {
            None => true,
            Some((one, other)) => key == one || Some(*key) == *other,
        };
        let packets = self.view.log.packets().filter(|event| of(&event.key));
        let (bytes, count) = pcapng::file(packets, log::describe);
        if count == 0 {
            self.view
                .messages
                .say("no packet headers stored for this queue pair: it had no NAK, RNR, gap or CNP");
            return Action::Draw;
        }
        let time = self.view.data.as_ref().map_or(0, |data| data.model.time_ns);
        let qp = selected.map_or_else(|| "all".to_owned(), |(key, _)| format!("qp{}", key.dest_qp));
        Action::Write(File {
            name: format!("rocescope-{qp}-{}", units::stamp_utc(time)),
            ending: "pcapng",
            what: units::plural(count as u64, "packet header"),
            content: Content::Bytes(bytes),
        })
    }
}
