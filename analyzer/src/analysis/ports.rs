//! Links that are the two directions of one port.

use crate::sample::{Direction, LinkSample};
use crate::util::map::Map;

/// The name of a link's port: that of the link without its direction.
fn port_name(link: &LinkSample) -> &str {
    let name = link.name.as_str();
    match link.direction {
        Some(_) => name,
        // Links of cooked captures have their direction in the name.
        None => name.strip_suffix(":in").or_else(|| name.strip_suffix(":out")).unwrap_or(name),
    }
}

/// For each link the first one of the same port.
pub(crate) fn of(links: &[LinkSample]) -> Vec<u16> {
    // Few links have a second direction; those that come by the thousand are files of one direction each.
    let mut first = Map::<&str, u16>::default();
    (0u16..).zip(links).map(|(at, link)| *first.entry(port_name(link)).or_insert(at)).collect()
}

/// The name of a port, and its direction when it has only one.
pub(crate) fn name(links: &[LinkSample], ports: &[u16], port: u16) -> (String, Option<Direction>) {
    let Some(link) = links.get(usize::from(port)) else { return Default::default() };
    if ports.iter().filter(|other| **other == port).count() > 1 {
        (port_name(link).to_owned(), None)
    } else {
        (link.name.clone(), link.direction)
    }
}

/// True if a flow's link belongs to the port of this name.
pub(crate) fn is_of(link: &str, port: &str) -> bool {
    link.strip_prefix(port).is_some_and(|rest| ["", ":in", ":out"].contains(&rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::link;

    #[test]
    fn directions_of_a_port_are_one() {
        let live = [("a", Some(Direction::Ingress)), ("a", Some(Direction::Egress)), ("b", None)];
        let links = live.map(|(name, direction)| link(name, direction));
        assert_eq!(of(&links), [0, 0, 2]);
        assert_eq!(name(&links, &of(&links), 0), ("a".to_owned(), None));
        assert_eq!(name(&links, &of(&links), 2), ("b".to_owned(), None));
        assert_eq!(name(&links, &of(&links), 9), (String::new(), None));
        let cooked = ["x:if3:in", "x:if4:in", "x:if3:out", "x"].map(|name| link(name, None));
        assert_eq!(of(&cooked), [0, 1, 0, 3]);
        assert_eq!(name(&cooked, &of(&cooked), 0).0, "x:if3");
        assert_eq!(name(&cooked, &of(&cooked), 1).0, "x:if4:in");
        assert!(is_of("x:if3:out", "x:if3") && is_of("x", "x") && !is_of("x:if3", "x") && !is_of("y", "x"));
    }
}
