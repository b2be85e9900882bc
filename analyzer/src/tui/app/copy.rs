//! The key that copies: what is selected becomes the text of the terminal's clipboard.

use super::{Action, App};
use crate::model::Row;
use crate::tui::export::clipboard;
use crate::tui::log;
use crate::tui::screen::Screen;
use crate::tui::widgets::cut;
use crate::util::layout::plain;

/// Letters of the answer that repeat what was copied, at most.
const SHOWN: usize = 200;

impl App {
    /// Copies what is selected.
    pub(in crate::tui) fn copy(&mut self) -> Action {
        let Some(text) = self.copied().filter(|text| !text.is_empty()) else {
            self.view.messages.say("nothing selected to copy: choose a row first");
            return Action::Draw;
        };
        // Names from packets and hosts must not command the shell that they are pasted into.
        let text = plain(&text);
        if text.len() > clipboard::MOST {
            let most = clipboard::MOST;
            self.view.messages.say(format!("not copied: {} bytes, and the limit is {most}", text.len()));
            return Action::Draw;
        }
        self.view.messages.say(format!("copied: {}", cut(&text, SHOWN, false)));
        Action::Copy(text)
    }

    /// The text of what is selected; `None` where nothing is.
    fn copied(&self) -> Option<String> {
        let (view, screens) = (&self.view, &self.screens);
        let data = view.data.as_ref()?;
        let findings = || view.concluded().map_or(&[][..], |concluded| concluded.findings);
        let row = |row: &Row| log::route(&row.id.key);
        match view.screen {
            Screen::Problem => screens.problem.copied(view),
            Screen::Nic => screens.nic.copied(view),
            Screen::Overview => screens.overview.copied(view),
            Screen::Findings => {
                let at = screens.findings.cursor.selected.unwrap_or(0);
                findings().get(at).map(|finding| finding.title.clone())
            }
            Screen::Qps | Screen::Detail => {
                let id = view.selected?;
                data.model.rows.iter().find(|row| row.id == id).map(row)
            }
            Screen::Matrix => {
                let (source, destination) = screens.matrix.cell;
                let matrix = &data.matrix;
                Some(format!("{} → {}", matrix.sources.get(source)?, matrix.destinations.get(destination)?))
            }
            Screen::Links => {
                let at = screens.links.cursor.selected.unwrap_or(0);
                data.model.links.get(at).map(|link| link.name.clone())
            }
            Screen::Events => {
                let listed = screens.events.entry(view).or_else(|| view.shown_events().next())?;
                let event = &listed.state.event;
                let time = crate::util::units::time_utc(listed.state.time_ns);
                let (class, route) = (listed.entry.class.word, log::route(&listed.entry.key));
                Some(format!("{time} {class} {route} {}", log::describe(event)))
            }
            Screen::Bursts => None,
        }
    }
}
