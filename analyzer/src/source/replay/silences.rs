//! Times in which no RoCE packet passed a link, and in which no frame of any kind was captured on its interface.
//!
//! A silence of RoCE is one of both directions. Frames of other kinds show whether the clock may have been set
//! meanwhile: all frames of an interface have their times from one clock.

use crate::metrics::loss::in_message::{LinkSilence, STALL_NS};

/// Frames of any kind on an interface.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AnyFrame {
    /// Time of the latest, Unix nanoseconds; 0 for none.
    last_ns: u64,
    /// The latest time as long as a stall in which there was none.
    silence: Option<(u64, u64)>,
}

impl AnyFrame {
    /// A frame passes.
    pub(super) fn pass(&mut self, time_ns: u64) {
        self.silence = silence(self.last_ns, time_ns).or(self.silence);
        self.last_ns = self.last_ns.max(time_ns);
    }
}

/// From one packet to another, if that is as long as a stall.
fn silence(before_ns: u64, time_ns: u64) -> Option<(u64, u64)> {
    (before_ns > 0 && time_ns.saturating_sub(before_ns) >= STALL_NS).then_some((before_ns, time_ns))
}

/// Frames of a link.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// Time of the latest RoCE packet, and of the latest other frame, Unix nanoseconds; 0 for none.
    roce_ns: u64,
    other_ns: u64,
    /// The latest time as long as a stall in which there was neither.
    silence: Option<(u64, u64)>,
}

impl Link {
    fn last_ns(&self) -> u64 {
        self.roce_ns.max(self.other_ns)
    }
}

/// Frames by link.
#[derive(Debug, Default)]
pub(super) struct Silences(Vec<Link>);

impl Silences {
    /// A RoCE packet passes. Returns the time of the one before where that is as long ago as a stall.
    #[inline]
    pub(super) fn roce(&mut self, link: u16, time_ns: u64) -> Option<u64> {
        let Some(one) = self.0.get_mut(usize::from(link)) else {
            self.add(link).roce_ns = time_ns;
            return None;
        };
        let before_ns = one.roce_ns;
        one.roce_ns = time_ns.max(before_ns);
        (time_ns.saturating_sub(before_ns) >= STALL_NS).then_some(before_ns)
    }

    /// Another frame passes.
    #[inline]
    pub(super) fn other(&mut self, link: u16, time_ns: u64) {
        let Some(one) = self.0.get_mut(usize::from(link)) else {
            self.add(link).other_ns = time_ns;
            return;
        };
        one.silence = silence(one.last_ns(), time_ns).or(one.silence);
        one.other_ns = time_ns.max(one.other_ns);
    }

    /// The silence of both directions of a link that a RoCE packet ends, from the one before it in its direction. In
    /// cooked captures, whose directions are links, `cooked` are the frames of the interface, this one included.
    pub(super) fn ended(
        &mut self,
        (link, reverse): (u16, Option<u16>),
        (before_ns, time_ns): (u64, u64),
        cooked: Option<AnyFrame>,
    ) -> Option<LinkSilence> {
        let of_reverse = reverse.and_then(|reverse| self.0.get(usize::from(reverse)));
        let reverse_ns = of_reverse.map_or(0, |one| one.roce_ns);
        let one = self.0.get_mut(usize::from(link))?;
        one.silence = silence(before_ns.max(one.other_ns), time_ns).or(one.silence);
        let any_ns = cooked.map_or(one.silence, |all| all.silence);
        let roce_ns = silence(before_ns.max(reverse_ns), time_ns)?;
        Some(LinkSilence { roce_ns, any_ns })
    }

    /// Time of the latest frame of any kind, by link.
    pub(super) fn last_ns(&self) -> Vec<u64> {
        self.0.iter().map(Link::last_ns).collect()
    }

    /// Number of the highest link that had a frame, and one.
    #[inline]
    pub(super) const fn links(&self) -> usize {
        self.0.len()
    }

    #[cold]
    fn add(&mut self, link: u16) -> &mut Link {
        let at = usize::from(link);
        if self.0.len() <= at {
            self.0.resize(at + 1, Link::default());
        }
        &mut self.0[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Times in ms of a RoCE packet, of other frames (`false`) and of the RoCE packet (`true`) that ends the silence.
    fn ended(frames: &[(u64, bool)]) -> Option<LinkSilence> {
        let mut silences = Silences::default();
        let mut latest = None;
        for (ms, roce) in frames {
            if !roce {
                silences.other(0, ms * MS);
            } else if let Some(before_ns) = silences.roce(0, ms * MS) {
                latest = silences.ended((0, None), (before_ns, ms * MS), None);
            }
        }
        latest
    }

    #[test]
    fn other_frames_end_a_silence_of_the_interface() {
        let ms = |(from, to): (u64, u64)| (from * MS, to * MS);
        let all =
            |roce, any: Option<(u64, u64)>| Some(LinkSilence { roce_ns: ms(roce), any_ns: any.map(ms) });
        assert_eq!(ended(&[(5, true), (104, true)]), None);
        assert_eq!(ended(&[(5, false), (705, true)]), None, "no RoCE packet before");
        assert_eq!(ended(&[(5, true), (705, true)]), all((5, 705), Some((5, 705))));
        // Right before and right behind.
        let near = [(5, true), (6, false), (704, false), (705, true)];
        assert_eq!(ended(&near), all((5, 705), Some((6, 704))));
        let meanwhile = [(5, true), (104, false), (203, false), (302, false), (401, true)];
        assert_eq!(ended(&meanwhile), all((5, 401), None));
        // One of the silences before, and none since.
        let before = [(5, true), (205, true), (304, false), (403, true)];
        assert_eq!(ended(&before), all((205, 403), Some((5, 205))));
    }

    #[test]
    fn both_directions_of_a_cooked_link_end_a_silence() {
        let mut silences = Silences::default();
        let mut cooked = AnyFrame::default();
        let mut roce = |link: u16, ms: u64| {
            cooked.pass(ms * MS);
            let before_ns = silences.roce(link, ms * MS)?;
            silences.ended((link, Some(1 - link)), (before_ns, ms * MS), Some(cooked))
        };
        assert_eq!([roce(0, 5), roce(1, 6), roce(1, 105), roce(0, 106)], [None; 4]);
        let both = LinkSilence { roce_ns: (106 * MS, 706 * MS), any_ns: Some((106 * MS, 706 * MS)) };
        assert_eq!([roce(1, 706), roce(0, 707)], [Some(both), None]);
    }

    #[test]
    fn times_of_the_latest_frame_do_not_go_back() {
        let mut silences = Silences::default();
        silences.other(1, 9);
        silences.roce(1, 7);
        silences.roce(0, 8);
        silences.roce(0, 3);
        assert_eq!(silences.last_ns(), [8, 9]);
    }
}
