//! Titles of at most 80 characters.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::Ipv4Addr;

use super::{Finding, Hop};
use crate::sample::Address;
use crate::util::layout::tap_name;
use crate::util::units;

/// Maximum length of a title in characters: it must fit into a pager message.
pub(super) const MOST: usize = 80;
/// Maximum length of a name in a title, in characters.
const MOST_NAME: usize = 24;

/// The diagnosis with its figure, followed by as many of the parts as fit, most important first.
pub(super) fn title<const N: usize>(diagnosis: String, parts: [String; N]) -> String {
    let mut title = diagnosis;
    for part in parts {
        if title.chars().count() + part.chars().count() <= MOST {
            title.push_str(&part);
        }
    }
    cut(&title, MOST)
}

/// True if all parts fit after the diagnosis.
pub(super) fn fits<const N: usize>(diagnosis: &str, parts: [&str; N]) -> bool {
    parts.iter().chain([&diagnosis]).map(|part| part.chars().count()).sum::<usize>() <= MOST
}

/// A name of a link or tap without the suffix of a capture file, shortened if long.
pub(super) fn short(name: &str) -> String {
    cut(&tap_name(name), MOST_NAME)
}

/// Names of links: those that differ in their last number together, `rail0,1`, `rail0,2,5` or `rail0-rail7`: a name and
/// a number with a dash between them would read as one port.
pub(super) fn links(names: &[&str]) -> String {
    let all = || names.iter().map(|name| short(name));
    let split = |name: &String| {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (stem, number) = name.split_at_checked(stem)?;
        // A leading zero is part of the name.
        let number = Some(number).filter(|number| *number == "0" || !number.starts_with('0'))?;
        Some((stem.to_owned(), number.parse::<u32>().ok()?))
    };
    let Some(mut parts) = all().map(|name| split(&name)).collect::<Option<Vec<_>>>() else {
        return all().collect::<Vec<_>>().join(", ");
    };
    parts.sort();
    let ([(stem, first), ..], [.., (_, last)]) = (&parts[..], &parts[..]) else { return String::new() };
    if parts.iter().any(|(other, _)| other != stem) {
        return all().collect::<Vec<_>>().join(", ");
    }
    let numbers = || parts.iter().map(|(_, number)| *number);
    if parts.len() > 2 && numbers().eq(*first..=*last) {
        let bare = stem.rsplit(':').next().unwrap_or(stem);
        return format!("{stem}{first}-{bare}{last}");
    }
    let numbers: Vec<String> = numbers().map(|number| number.to_string()).collect();
    format!("{stem}{}", numbers.join(","))
}

impl Finding {
    /// True if the title has the addresses of all ends that are known.
    pub fn names_both_ends_in_title(&self) -> bool {
        let mut ends = self.requester.iter().chain(&self.responder);
        ends.all(|end| self.is_titled(end.addr))
    }

    /// True if the title has this address; not as one of a range, `10.0.0.1-4`.
    pub fn is_titled(&self, host: Address) -> bool {
        let is_part = |c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '-' | ',');
        let host = host.to_string();
        self.title.split(|c| !is_part(c)).any(|word| word.trim_end_matches(['.', ':', ',']) == host)
    }

    /// True if the title says on which side of which links it is.
    pub fn is_placed_by_title(&self) -> bool {
        let on: Vec<&str> = self.place.names().collect();
        let place = self.place.hop.as_ref().and_then(Hop::side);
        let place = place.map(|side| format!("{side} of {}: ", links(&on)));
        !on.is_empty() && place.is_some_and(|place| self.title.contains(&place))
    }
}

/// `, 10.0.0.1 → 10.0.0.2`.
pub(super) fn pair(src: impl Display, dst: impl Display) -> String {
    format!(", {src} → {dst}")
}

/// Longest last number of hosts that are named together, in characters.
const MOST_NUMBERS: usize = 8;

/// Hosts that differ in the last number of their IPv4 addresses: `10.0.0.1-4` or `10.0.0.2,7-9`; `None` of others, and
/// where that is long.
fn together(hosts: &BTreeSet<String>) -> Option<String> {
    let octets = |host: &String| Some(host.parse::<Ipv4Addr>().ok()?.octets());
    let mut all: Vec<[u8; 4]> = hosts.iter().map(octets).collect::<Option<_>>()?;
    all.sort_unstable();
    let ([a, b, c, _], last) = (all.first()?, all.last()?);
    let next = |one: &[u8; 4], other: &[u8; 4]| one[3].checked_add(1) == Some(other[3]);
    let runs = all.chunk_by(next).filter_map(|run| Some((run.first()?[3], run.last()?[3])));
    let runs = runs.map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    let runs = runs.collect::<Vec<_>>().join(",");
    (last[..3] == [*a, *b, *c] && runs.len() <= MOST_NUMBERS).then(|| format!("{a}.{b}.{c}.{runs}"))
}

/// The hosts of several pairs, by their addresses where these are few, and by their number. If several lose packets to
/// one host, no single sender is at fault.
pub(super) fn hosts<T: Display + PartialEq>(mut pairs: impl Iterator<Item = (T, T)> + Clone) -> [String; 2] {
    let (all, Some((src, dst))) = (pairs.clone(), pairs.next()) else { return Default::default() };
    let others = pairs.clone().count() as u64;
    let forms = |hosts: BTreeSet<String>, of: &dyn Fn(String) -> String| {
        let counted = format!("{} hosts", units::count(hosts.len() as u64));
        [of(together(&hosts).unwrap_or_else(|| counted.clone())), of(counted)]
    };
    match others {
        0 => [pair(&src, &dst), pair(src, dst)],
        _ if all.clone().all(|(_, other)| other == dst) => {
            forms(all.map(|(src, _)| src.to_string()).collect(), &|hosts| pair(hosts, &dst))
        }
        _ if all.clone().all(|(other, _)| other == src) => {
            forms(all.map(|(_, dst)| dst.to_string()).collect(), &|hosts| pair(&src, hosts))
        }
        _ => {
            let first = format!("{}{}", pair(src, dst), more(others, "host pair"));
            [first.clone(), first]
        }
    }
}

/// The first of two forms of a part that fits after the diagnosis, else the second.
pub(super) fn beside(diagnosis: &str, [first, second]: [String; 2]) -> String {
    if fits(diagnosis, [&first]) { first } else { second }
}

/// ` (+2 more host pairs)`.
pub(super) fn more(others: u64, of: &str) -> String {
    match others {
        0 => String::new(),
        1 => format!(" (+1 more {of})"),
        n => format!(" (+{} more {of}s)", units::count(n)),
    }
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most - 1).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_differ_in_a_number_are_named_together() {
        for (names, together) in [
            (&["rail0", "rail1", "rail2"][..], "rail0-rail2"),
            (&["rail0", "rail10", "rail2"], "rail0,2,10"),
            (&["rail7"], "rail7"),
            (&["eth0", "rail1"], "eth0, rail1"),
            (&["ens1f0", "ens1f01"], "ens1f0, ens1f01"),
            (&["up", "down"], "up, down"),
            (&["rail1", "rail0"], "rail0,1"),
            (&["h0.pcap:rail0", "h0.pcap:rail1", "h0.pcap:rail2"], "h0:rail0-rail2"),
            (&[], ""),
        ] {
            assert_eq!(links(names), together);
        }
    }

    #[test]
    fn many_hosts_have_a_comma() {
        let pairs = (0..1_499).map(|host| (host, 2_000));
        assert_eq!(hosts(pairs.clone()), [", 1,499 hosts → 2000"; 2]);
        assert_eq!(hosts(pairs.map(|(one, other)| (other, one))), [", 2000 → 1,499 hosts"; 2]);
        assert_eq!(more(1_000, "host pair"), " (+1,000 more host pairs)");
    }

    #[test]
    fn hosts_of_one_subnet_are_named_together() {
        let from = |numbers: &[u8]| {
            let ends = numbers.iter().map(|n| (format!("10.40.2.{n}"), "10.40.1.11".to_owned()));
            hosts(ends.collect::<Vec<_>>().into_iter())
        };
        let [named, counted] = from(&[25, 26, 28, 27]);
        assert_eq!((&*named, &*counted), (", 10.40.2.25-28 → 10.40.1.11", ", 4 hosts → 10.40.1.11"));
        assert_eq!(from(&[9, 25, 26])[0], ", 10.40.2.9,25,26 → 10.40.1.11");
        assert_eq!(from(&[1, 3, 5, 7, 9])[0], ", 5 hosts → 10.40.1.11", "too long");
        let two = [("10.0.0.1", "10.0.0.3"), ("10.0.1.2", "10.0.0.3")];
        assert_eq!(hosts(two.into_iter())[0], ", 2 hosts → 10.0.0.3", "of two subnets");
        assert_eq!(beside("Loss", [named.clone(), counted.clone()]), named);
        assert_eq!(beside(&"x".repeat(MOST - 24), [named, counted.clone()]), counted);
    }

    #[test]
    fn what_has_no_room_is_left_out() {
        let diagnosis = format!("Loss upstream of {}: 47 of 6,671 packets (0.70 %)", short("rail0"));
        let far = pair("2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:7");
        let full = title(diagnosis.clone(), [pair("10.40.2.28", "10.40.1.11"), more(2, "host pair")]);
        assert_eq!(full, "Loss upstream of rail0: 47 of 6,671 packets (0.70 %), 10.40.2.28 → 10.40.1.11");
        assert_eq!(
            title(diagnosis, [far, " (x)".into()]),
            "Loss upstream of rail0: 47 of 6,671 packets (0.70 %) (x)"
        );
        assert_eq!(short("e1_loss1.h1.pcap.gz"), "e1_loss1.h1");
        assert_eq!(short("a-capture-file-with-a-long-name-indeed.pcap").chars().count(), MOST_NAME);
    }
}
