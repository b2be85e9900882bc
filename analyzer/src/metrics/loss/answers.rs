//! ACKs and NAKs of two hosts, and where they were captured.

use rocescope_common::wire::frame::Addr;

use super::arrival::Nak;
use crate::util::map::Set;

/// NAKs remembered per pair of hosts.
const NAKS: usize = 32;
/// Links remembered per pair of hosts on which ACKs or responses were captured.
const ANSWER_LINKS: usize = 8;

/// ACKs and NAKs from one host to another.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) hosts: (u8, Addr, Addr),
    naks: Option<Box<LatestNaks>>,
    /// Links on which they were captured.
    pub(super) links: Vec<u16>,
    /// Time of the latest READ response among them; 0 for none.
    pub(super) responded_ns: u64,
}

/// The latest NAKs and their links.
#[derive(Debug, Default)]
struct LatestNaks {
    list: Vec<(u16, Nak)>,
    next: usize,
}

/// Pairs of a link and a host: ACKs or responses to the host were captured on the link.
#[derive(Debug, Default)]
pub(super) struct Answered(Set<(u16, u8, Addr)>);

impl Answered {
    /// These answers are captured on a link.
    pub(super) fn note(&mut self, link: u16, answers: &Answers) {
        let (family, _, to) = answers.hosts;
        self.0.insert((link, family, to));
    }

    /// True if ACKs or responses to the source of these packets, from any host, were captured on the link.
    pub(super) fn has_source_of(&self, link: u16, packets: Option<&Answers>) -> bool {
        packets.is_some_and(|packets| {
            let (family, from, _) = packets.hosts;
            self.0.contains(&(link, family, from))
        })
    }
}

impl Answers {
    /// From one host to another: IP version, source and destination.
    pub(super) fn of(hosts: (u8, Addr, Addr)) -> Self {
        Self { hosts, ..Self::default() }
    }

    /// True if they are captured on this link for the first time.
    pub(super) fn seen_on(&mut self, link: u16) -> bool {
        let new = !self.links.contains(&link) && self.links.len() < ANSWER_LINKS;
        if new {
            self.links.push(link);
        }
        new
    }

    /// Time of the latest READ response.
    pub(super) fn responded_ns(&self) -> Option<u64> {
        (self.responded_ns > 0).then_some(self.responded_ns)
    }

    pub(super) fn nak(&mut self, link: u16, nak: Nak) {
        let LatestNaks { list, next } = &mut **self.naks.get_or_insert_default();
        if list.len() < NAKS {
            list.push((link, nak));
        } else if let Some(place) = list.get_mut(*next % NAKS) {
            *place = (link, nak);
        }
        *next = next.wrapping_add(1);
    }

    /// The NAKs that concern a flow on `link`: those captured there, or all when ACKs take another link
    /// (the two directions of an interface) or packets take several. Of those captured there, the ones in the flow
    /// `from`, where that is known: queue pairs whose PSNs begin alike and advance together have NAKs for the same
    /// PSNs.
    pub(super) fn on(&self, link: u16, is_partial: bool, from: Option<u32>) -> Vec<Nak> {
        let own = !is_partial && self.links.contains(&link);
        let concerns = |on: u16, nak: &Nak| {
            if on == link { from.is_none_or(|from| nak.slot == from) } else { !own }
        };
        let all = self.naks.iter().flat_map(|naks| &naks.list);
        all.filter(|(on, nak)| concerns(*on, nak)).map(|(_, nak)| *nak).collect()
    }
}
