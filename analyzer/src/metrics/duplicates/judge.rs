//! Decision whether the packets of two hosts are duplicated, or retransmitted.

use crate::util::definition::definitions;

definitions! {
    NEARLY_ALL: u32 = 9,
        "Minimum packets of ten that pass twice, in each direction, for hosts to be captured twice",
        "The first and last packets of a capture lack their duplicate, and both captures drop some";
    ADVANCED: u32 = 32,
        "Packets that pass twice, with new ones before each, after which hosts are known to be captured twice or not",
        "Go-back-N gives one of them per loss, however many packets are retransmitted";
    OF_DIRECTION: u32 = 16,
        "Minimum packets of a direction for it to count in that",
        "Two bursts of a small message";
}

/// Packets of which the share is taken; then the count is halved.
const RECENT: u32 = 4_096;

/// A packet that passed again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// Time of its first passing, Unix nanoseconds.
    pub(super) first_ns: u64,
    /// It had not passed before that.
    pub(super) first: bool,
    /// New packets of its flow passed since the last one that passed again.
    pub(super) advanced: bool,
    /// Its sender counts the identification up, and both have the same one.
    pub(super) differs: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    single: u32,
    twice: u32,
}

impl Tally {
    const fn all(self) -> u32 {
        self.single + self.twice
    }

    const fn nearly_all(self) -> bool {
        self.twice * 10 >= self.all() * NEARLY_ALL
    }
}

/// The packets of two hosts on one link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DuplicateDetector {
    directions: [Tally; 2],
    /// Of packets that passed twice, those that did so once more.
    thirds: Tally,
    advanced: u32,
    /// The latest NAK: what passes again after it may be what it asks for.
    nak_ns: u64,
    duplicated: bool,
    decided: bool,
    changed: bool,
}

impl DuplicateDetector {
    /// Of hosts of which nothing is known but that others on their link are `duplicated`.
    pub(super) fn new(duplicated: bool) -> Self {
        Self { duplicated, ..Self::default() }
    }

    /// True if duplicates are taken out.
    pub(super) const fn has_duplicates(&self) -> bool {
        self.duplicated
    }

    /// True if the pair's own packets decided it.
    pub(super) const fn is_decided(&self) -> bool {
        self.decided
    }

    /// True if the packets since the watch began may still turn out to be duplicated.
    pub(super) fn is_open(&self) -> bool {
        !self.duplicated && !self.is_single()
    }

    /// The new decision, once.
    pub(super) const fn changed(&mut self) -> Option<bool> {
        if !self.changed {
            return None;
        }
        self.changed = false;
        Some(self.duplicated)
    }

    /// Packets passed meanwhile that were not watched: what the others showed may hold no more.
    pub(super) const fn begin_again(&mut self) {
        if !self.duplicated {
            self.directions = [Tally { single: 0, twice: 0 }; 2];
            self.advanced = 0;
        }
    }

    /// A NAK passed for the first time.
    pub(super) const fn nak(&mut self, time_ns: u64) {
        self.nak_ns = time_ns;
    }

    /// A packet had no duplicate.
    pub(super) fn single(&mut self, direction: bool, first: bool) {
        if first {
            self.directions[usize::from(direction)].single += 1;
            self.decide();
        }
    }

    /// A packet passed again; whether that says something of duplicates.
    pub(super) fn twice(&mut self, direction: bool, evidence: &Evidence) -> bool {
        let asked = evidence.first_ns <= self.nak_ns && !evidence.differs;
        if !evidence.first || asked {
            return false;
        }
        self.directions[usize::from(direction)].twice += 1;
        self.advanced += u32::from(evidence.advanced || evidence.differs);
        self.decide();
        true
    }

    /// A packet that passed twice did so once more, or not.
    pub(super) const fn third(&mut self, more: bool) {
        let Tally { single, twice } = &mut self.thirds;
        if *single + *twice >= RECENT {
            (*single, *twice) = (*single / 2, *twice / 2);
        }
        *(if more { twice } else { single }) += 1;
    }

    /// True if nearly all packets pass three times: a third one is no retransmission then.
    pub(super) const fn is_thrice(&self) -> bool {
        self.thirds.all() >= ADVANCED && self.thirds.nearly_all()
    }

    /// Number of packets that say something.
    const fn all(&self) -> u32 {
        self.directions[0].all() + self.directions[1].all()
    }

    /// True if nearly all packets pass twice, in each direction that has enough of them.
    fn nearly_all(&self) -> bool {
        let telling = |tally: &&Tally| tally.all() >= OF_DIRECTION;
        self.directions.iter().filter(telling).all(|tally| tally.nearly_all())
    }

    /// True if enough packets passed once.
    fn is_single(&self) -> bool {
        self.all() >= 2 * ADVANCED && !self.nearly_all()
    }

    fn decide(&mut self) {
        if self.all() >= RECENT {
            for tally in &mut self.directions {
                *tally = Tally { single: tally.single / 2, twice: tally.twice / 2 };
            }
        }
        let all = self.all();
        let nearly_all = self.nearly_all();
        let duplicated = if self.duplicated {
            // Traffic counted as duplicated stays so until a good part is not duplicated.
            all < 2 * ADVANCED || self.directions.iter().map(|tally| tally.twice).sum::<u32>() * 2 >= all
        } else {
            self.advanced >= ADVANCED && nearly_all
        };
        let decided = if duplicated { self.advanced >= ADVANCED } else { self.is_single() };
        self.changed |= duplicated != self.duplicated || decided && !self.decided;
        if self.duplicated && !duplicated {
            self.advanced = 0;
        }
        self.duplicated = duplicated;
        self.decided |= decided;
    }
}
