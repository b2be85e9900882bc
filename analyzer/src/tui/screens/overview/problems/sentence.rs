//! A diagnosis where it has no room.

use crate::findings::Finding;
use crate::tui::widgets::{cut, letters, whole};

/// Letters that make words of a cut part worth more than a whole number of parts.
const WORTH: usize = 8;

/// A sentence in `width` columns: with its share alone instead of the counts before it, else without its last parts,
/// or where these would leave much room empty without its last words.
pub(in crate::tui) fn shortened(title: &str, width: usize) -> String {
    let brief = share_alone(title);
    let mut forms = [title, &*brief].into_iter();
    if let Some(form) = forms.find(|form| letters(form) <= width) {
        return form.to_owned();
    }
    let words = cut(&brief, width, false);
    let parts = whole(&brief, width.saturating_sub(1)).filter(|parts| letters(parts) > width / 2);
    let Some(parts) = parts.map(|parts| format!("{parts}…")) else { return words };
    let kept = letters(words.trim_end_matches(['…', ' ', ',']));
    if kept >= letters(&parts) + WORTH { words } else { parts }
}

/// The share in parentheses in place of the counts that it is of: `294 of 17,182 packets (1.71 %)` becomes `1.71 %`.
pub(in crate::tui) fn share_alone(title: &str) -> String {
    let is_share = |text: &str| {
        let number = text.strip_suffix(" %").unwrap_or_default().trim_start_matches('<');
        !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    let parenthesis = title.match_indices(" (").find_map(|(open, _)| {
        let (inner, _) = title.get(open + 2..)?.split_once(')')?;
        is_share(inner).then_some((open, inner))
    });
    let counts = parenthesis.and_then(|(open, share)| {
        let from = title.get(..open)?.rfind(": ")? + 2;
        Some((from, open, share))
    });
    counts.map_or_else(
        || title.to_owned(),
        |(from, open, share)| {
            let behind = open + share.len() + " ()".len();
            let parts = [title.get(..from), Some(share), title.get(behind..)];
            parts.into_iter().flatten().collect()
        },
    )
}

/// What a problem is, without its figures: `loss upstream of rail0`.
pub(super) fn kind(finding: &Finding) -> String {
    let name = finding.title.split(": ").next().unwrap_or_default();
    let mut letters = name.chars();
    match (letters.next(), letters.next()) {
        // Not of an abbreviation.
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain([second]).chain(letters).collect()
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_without_room_loses_counts_then_parts_then_words() {
        let retransmitted = "Retransmissions: 960 of 33,255 packets (2.89 %), 10.40.1.11 → 4 hosts";
        let congested = "Congestion on rail0, one of 2 links: 26.3 % CE-marked, rail1 0 %";
        let slow = "Receiver 10.40.2.23 not ready: 412 RNR NAKs for 8,478 request packets";
        for (title, width, shown) in [
            (retransmitted, 66, "Retransmissions: 2.89 %, 10.40.1.11 → 4 hosts"),
            (retransmitted, 40, "Retransmissions: 2.89 %, 10.40.1.11 …"),
            (retransmitted, 30, "Retransmissions: 2.89 %…"),
            (congested, 62, "Congestion on rail0, one of 2 links: 26.3 % CE-marked…"),
            (slow, 61, "Receiver 10.40.2.23 not ready: 412 RNR NAKs for 8,478 …"),
            (slow, 50, "Receiver 10.40.2.23 not ready: 412 RNR NAKs …"),
            (slow, 80, slow),
        ] {
            assert_eq!(shortened(title, width), shown);
        }
    }

    #[test]
    fn only_a_share_stands_for_counts() {
        for same in ["Late: 3 of 9 (seen twice)", "Loss (5 %) on rail0", "Peers: 3 of 9", "Late: 3 of 9 (5 %"]
        {
            assert_eq!(share_alone(same), same);
        }
        assert_eq!(share_alone("Drops: 9 packets not counted (<0.01 %) now"), "Drops: <0.01 % now");
        assert_eq!(share_alone("A → B: 1 (x): 2 of 3 (4.5 %), é"), "A → B: 1 (x): 4.5 %, é");
    }
}
