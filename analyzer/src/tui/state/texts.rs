//! Texts that the words of a filter are searched in, by flow; made once for each, and mostly before the filter is
//! typed.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::model::{Identity, Model};
use crate::sample::address;
use crate::tui::column;
use crate::util::deferred::Deferred;

/// Places at most: far more than the tables of flows have.
const MOST: usize = 1 << 20;

/// Texts of flows by the flow's slot. A copy shares them.
#[derive(Clone, Debug, Default)]
pub(in crate::tui) struct Texts(Arc<Deferred<Vec<Text>>>);

/// The flow and its text; `None` for a slot that no flow has had.
type Text = Option<(Identity, Box<str>)>;

impl Texts {
    /// Those of the flows of `model`, and of the flows that were known before where no other took their slot.
    #[must_use]
    pub(in crate::tui) fn updated(&self, model: &Model) -> Self {
        if model.rows.iter().all(|row| self.known(&row.id).is_some()) {
            return self.clone();
        }
        let links = links(model);
        let mut texts = Vec::clone(&self.0);
        for row in &model.rows {
            let Some(slot) = usize::try_from(row.id.slot).ok().filter(|slot| *slot < MOST) else { continue };
            if texts.len() <= slot {
                texts.resize(slot + 1, None);
            }
            let Some(text) = texts.get_mut(slot) else { continue };
            if text.as_ref().is_none_or(|(id, _)| *id != row.id) {
                *text = Some((row.id, of(&row.id, &links).into_boxed_str()));
            }
        }
        Self(Arc::new(Deferred::new(texts)))
    }

    fn known(&self, id: &Identity) -> Option<&str> {
        let (known, text) = self.0.get(usize::try_from(id.slot).ok()?)?.as_ref()?;
        (known == id).then_some(text)
    }

    /// The text of a flow.
    pub(in crate::tui) fn get(&self, id: &Identity, links: &[String]) -> Cow<'_, str> {
        self.known(id).map_or_else(|| Cow::Owned(of(id, links)), Cow::Borrowed)
    }
}

/// Names of the links as rows show them.
pub(in crate::tui) fn links(model: &Model) -> Vec<String> {
    model.links.iter().map(column::link_name).collect()
}

fn of(id: &Identity, links: &[String]) -> String {
    text(id, links.get(usize::from(id.key.link)).map_or("", String::as_str))
}

/// The text of a row in which words are looked for: the part that does not change.
fn text(id: &Identity, link: &str) -> String {
    let key = &id.key;
    let mut text = String::with_capacity(64);
    // Writing to a string cannot fail.
    let _ = write!(text, "{} {} ", address(key.family, key.src), address(key.family, key.dst));
    let _ = write!(text, "qp{} {link}", key.dest_qp);
    text.make_ascii_lowercase();
    text
}
