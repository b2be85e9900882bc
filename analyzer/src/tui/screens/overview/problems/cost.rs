//! What a problem costs, in words.

use super::Clock;
use crate::findings::Finding;

/// The cost, without what the title says already.
pub(super) fn new_cost(finding: &Finding, end: Clock<'_>) -> Option<String> {
    let text = finding.field("Impact", *end)?;
    let new = |part: &&str| {
        if finding.title.contains(part) {
            return false;
        }
        let whose = ["packets", "the run's packets", "the packets of "];
        let share = part.split_once(" of ").filter(|(_, of)| whose.iter().any(|whose| of.starts_with(whose)));
        let figure = share.map(|(figure, _)| figure.trim_start_matches("at least "));
        figure.is_none_or(|figure| !finding.title.contains(figure))
    };
    let text = text.split(" · ").filter(new).collect::<Vec<_>>().join(" · ");
    (!text.is_empty()).then_some(text)
}
