//! Short names of links and files: the part that they have in common gives way to the part that differs.

use super::cut;

/// `name` in `width` columns. If it has to be shortened, the part that differs between `all` names stays.
pub(in crate::tui) fn apart<'a>(name: &str, all: impl Iterator<Item = &'a str>, width: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= width {
        return name.to_owned();
    }
    let (start, end) = common(all);
    let middle_end = letters.len().saturating_sub(end).max(start);
    let middle: String = letters.iter().take(middle_end).skip(start).collect();
    let length = middle.chars().count();
    let cut_end = usize::from(end > 0);
    if length == 0 || start + end == 0 || length + 1 + cut_end > width {
        return cut(name, width, true);
    }
    let room = width - length - cut_end;
    let head = if start <= room {
        letters.iter().take(start).collect()
    } else {
        let head: String = letters.iter().take(room - 1).collect();
        format!("{head}…")
    };
    let left = room.saturating_sub(head.chars().count());
    let tail: String = letters.iter().skip(letters.len() - left.min(end)).collect();
    let dots = if end > left { "…" } else { "" };
    format!("{head}{middle}{dots}{tail}")
}

/// The part of each name that differs from the others, if there is one; whole names else.
pub(in crate::tui) fn distinct(names: &[String]) -> Vec<String> {
    let (start, end) = common(names.iter().map(String::as_str));
    let middle = |name: &String| {
        let count = name.chars().count().saturating_sub(start + end);
        name.chars().skip(start).take(count).collect::<String>()
    };
    let middles: Vec<String> = names.iter().map(middle).collect();
    if middles.iter().any(|middle| middle.trim().is_empty()) { names.to_vec() } else { middles }
}

/// All names as one: what they have in common once, and what differs in braces.
pub(in crate::tui) fn together(names: &[String], width: usize) -> String {
    /// Letters in common that are worth the braces.
    const WORTH: usize = 4;
    let listed = names.join(", ");
    let (start, end) = common(names.iter().map(String::as_str));
    if names.len() < 2 || start + end < WORTH {
        return some(names, &listed, width);
    }
    let first: Vec<char> = names.first().map_or_else(Vec::new, |name| name.chars().collect());
    let head: String = first.iter().take(start).collect();
    let tail: String = first.iter().skip(first.len().saturating_sub(end)).collect();
    let middles: Vec<String> = names
        .iter()
        .map(|name| {
            let count = name.chars().count();
            name.chars().take(count.saturating_sub(end)).skip(start).collect()
        })
        .collect();
    let all = format!("{head}{{{}}}{tail}", middles.join(","));
    if all.chars().count() <= width {
        return all;
    }
    let count = format!(" ({})", names.len());
    format!("{}{count}", cut(&format!("{head}…"), width.saturating_sub(count.chars().count()), false))
}

/// As many whole names as fit, and how many more there are.
fn some(names: &[String], listed: &str, width: usize) -> String {
    if listed.chars().count() <= width {
        return listed.to_owned();
    }
    let fits = |count: &usize| {
        let some = names.iter().take(*count).map(String::as_str).collect::<Vec<_>>().join(", ");
        Some(format!("{some} +{}", names.len() - count)).filter(|text| text.chars().count() <= width)
    };
    (1..names.len()).rev().find_map(|count| fits(&count)).unwrap_or_else(|| cut(listed, width, true))
}

/// Numbers of letters that all names begin with and end with in common: whole words only, so that the rest can be read.
fn common<'a>(all: impl Iterator<Item = &'a str>) -> (usize, usize) {
    let names: Vec<Vec<char>> = all.map(|name| name.chars().collect()).collect();
    let Some((first, others)) = names.split_first() else { return (0, 0) };
    if others.iter().all(|other| other == first) {
        return (0, 0);
    }
    let shortest = names.iter().map(Vec::len).min().unwrap_or(0);
    let same = |at: &usize| others.iter().all(|other| other.get(*at) == first.get(*at));
    let start = (0..shortest).take_while(same).count();
    let same_back = |back: &usize| {
        let letter = |name: &[char]| name.iter().rev().nth(*back).copied();
        others.iter().all(|other| letter(other) == letter(first))
    };
    let end = (0..shortest - start).take_while(same_back).count();
    let is_word = |letter: &char| letter.is_alphanumeric();
    let start = first.iter().take(start).rposition(|letter| !is_word(letter)).map_or(0, |at| at + 1);
    let tail = first.len() - end;
    let end = first.iter().skip(tail).position(|letter| !is_word(letter)).map_or(0, |at| end - at);
    (start, end)
}

#[cfg(test)]
mod tests {
    use super::{apart, distinct, together};

    #[test]
    fn the_part_that_differs_stays() {
        let all = ["j2_ring_straggler.h0.pcap", "j2_ring_straggler.h1.pcap", "j2_ring_straggler.h2.pcap"];
        let short = |name, width| apart(name, all.into_iter(), width);
        assert_eq!(short(all[1], 10), "j2_rin…h1…");
        assert_eq!(short(all[1], 16), "j2_ring_stra…h1…");
        assert_eq!(short(all[1], 24), "j2_ring_straggler.h1…cap");
        assert_eq!(short(all[1], 25), all[1]);
        for width in 4..25 {
            let texts: std::collections::BTreeSet<String> =
                all.iter().map(|name| short(name, width)).collect();
            assert_eq!(texts.len(), 3, "{texts:?}");
            assert!(texts.iter().all(|text| text.chars().count() <= width), "{texts:?}");
        }
    }

    #[test]
    fn what_differs_of_names_is_their_short_form() {
        let of = |names: &[&str]| distinct(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["e1_loss1.h0.pcap", "e1_loss1.h1.pcap"]), ["h0", "h1"]);
        assert_eq!(of(&["rail0 in", "rail0 out"]), ["in", "out"]);
        assert_eq!(of(&["a", "b"]), ["a", "b"]);
        assert_eq!(of(&["a", "a"]), ["a", "a"]);
        assert_eq!(of(&["tap", "tap.1"]), ["tap", "tap.1"]);
        assert_eq!(of(&[]), [""; 0]);
    }

    #[test]
    fn names_without_anything_in_common_or_alone_are_cut() {
        let all = ["rail0", "backbone-uplink-17"];
        assert_eq!(apart(all[1], all.into_iter(), 9), "back…k-17");
        assert_eq!(apart("alone_in_the_world.pcap", ["alone_in_the_world.pcap"].into_iter(), 9), "alon…pcap");
        assert_eq!(apart("", [].into_iter(), 0), "");
    }

    #[test]
    fn several_names_are_joined() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(together(&names(&["e1.h0.pcap", "e1.h1.pcap"]), 40), "e1.{h0,h1}.pcap");
        assert_eq!(together(&names(&["e1_loss1.h0.pcap", "e1_loss1.h1.pcap"]), 15), "e1_loss1.… (2)");
        assert_eq!(together(&names(&["e1_loss1.h0.pcap", "e1_loss1.h1.pcap"]), 10), "e1_lo… (2)");
        let rails = names(&["rail0", "rail1", "rail2"]);
        assert_eq!(together(&rails, 40), "rail0, rail1, rail2");
        assert_eq!(together(&rails, 18), "rail0, rail1 +1");
        assert_eq!(together(&rails, 8), "rail0 +2");
        assert_eq!(together(&rails, 5), "ra…l2");
        assert_eq!(together(&names(&["one.pcap"]), 40), "one.pcap");
        assert_eq!(together(&[], 40), "");
    }
}
