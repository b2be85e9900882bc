//! A PSN gap, the sequence-error NAK that answers it, and what the sender retransmits for it are one entry.
//!
//! A NAK belongs to a gap of the other direction whose first missing PSN it names. One that names no such PSN stays an
//! entry of its own, as does one that comes before the gap that it answers.

use std::collections::VecDeque;

use rocescope_common::account::{Event, FlowKey};

use super::{Entry, EntryAt, EntryState, JOIN_AMONG, JOIN_WITHIN_NS, Log, gap, packet_of};
use crate::metrics::loss::Retransmission;
use crate::model::Counts;
use crate::sample::{EventSample, Sample};
use crate::tui::column::compact;
use crate::util::map::{Map, Set};

/// Gaps of an entry that wait for their NAK, and events of others that it keeps by number, at most.
const KEPT: usize = 256;
/// AETH syndrome of a PSN sequence error.
const SEQUENCE_ERROR: u32 = 0x60;

/// Answers to the gaps of an entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Joined {
    /// First missing PSN and time of the gaps without a NAK, the latest last.
    open: VecDeque<(u32, u64)>,
    /// The flow of the NAKs.
    pub(super) answers: Option<FlowKey>,
    /// Numbers of the NAKs among all events.
    pub(super) numbers: VecDeque<u64>,
    retransmitted: Option<RetransmittedSinceGap>,
}

/// Retransmissions since the first gap of an entry.
#[derive(Clone, Copy, Debug)]
struct RetransmittedSinceGap {
    /// The counter before the gap; `None` where that is unknown.
    before: Option<u64>,
    packets: u64,
    how: Option<Retransmission>,
    /// Time of the sample with that counter.
    as_of_ns: u64,
    /// It does not change any more.
    settled: bool,
}

/// Retransmissions of some flows, and how their senders retransmit.
#[derive(Clone, Debug, Default)]
pub struct Retransmissions(Map<FlowKey, (u64, Option<Retransmission>)>);

impl Retransmissions {
    /// Those of these flows.
    pub fn of(sample: &Sample, flows: &[FlowKey]) -> Self {
        let loss = sample.metrics.loss.as_ref();
        let flows: Set<&FlowKey> = flows.iter().collect();
        let wanted = sample.flows.iter().filter(|flow| flows.contains(&flow.key));
        let figures = wanted.map(|flow| {
            let how =
                loss.and_then(|loss| loss.flow(flow.slot).requests).and_then(|found| found.retransmission);
            // The same as RETX elsewhere: a packet that fills a gap is no retransmission seen here.
            (flow.key, (Counts::of(&flow.stats, flow.slot, loss).retransmitted, how))
        });
        Self(figures.collect())
    }
}

impl Entry {
    /// Notes the gap of an event of this entry, which a NAK may answer.
    pub(super) fn expect_answer(&mut self, event: &EventSample) {
        if event.events & Event::GAP == 0 {
            return;
        }
        if self.joined.open.len() == KEPT {
            self.joined.open.pop_front();
        }
        self.joined.open.push_back((event.first_missing(), event.time_ns));
    }

    fn is_gap(&self) -> bool {
        self.class.bit == Event::GAP
    }

    /// The place of the gap that a NAK answers.
    fn answered(&self, nak: &EventSample, peer: impl Fn(&FlowKey) -> Option<u32>) -> Option<usize> {
        let (gap, nak_key) = (&self.key, &nak.key);
        let turned = self.is_gap()
            && gap.family == nak_key.family
            && gap.src == nak_key.dst
            && gap.dst == nak_key.src
            && peer(gap).is_none_or(|qp| qp == nak_key.dest_qp);
        let near = |time_ns: u64| nak.time_ns.abs_diff(time_ns) < JOIN_WITHIN_NS;
        let open = self.joined.open.iter();
        open.clone().rposition(|(psn, time_ns)| *psn == nak.psn && near(*time_ns)).filter(|_| turned)
    }
}

impl Log {
    /// Adds a NAK to the gap that it answers, on the same link where several taps report the gap; false where there is
    /// none. `peer`: the queue pair that answers of a flow go to, where it is known. `kept` decides whether the state
    /// before is kept.
    pub(super) fn answer(
        &mut self,
        event: &EventSample,
        peer: impl Fn(&FlowKey) -> Option<u32>,
        kept: impl Fn(&EntryState) -> bool,
    ) -> bool {
        if event.events & Event::NAK == 0 || event.aeth >> 24 != SEQUENCE_ERROR {
            return false;
        }
        let among = self.entries.iter().enumerate().rev().take(JOIN_AMONG);
        let found: Vec<(usize, usize, bool)> = among
            .filter_map(|(at, entry)| {
                Some((at, entry.answered(event, &peer)?, entry.key.link == event.key.link))
            })
            .collect();
        let best = found.iter().find(|(.., same_link)| *same_link).or(found.first()).copied();
        let Some((at, open, _)) = best else { return false };
        let Some(mut entry) = self.entries.remove(at) else { return false };
        let before = entry.before.len();
        entry.joined.open.remove(open);
        entry.joined.answers = Some(event.key);
        if entry.joined.numbers.len() == KEPT {
            entry.joined.numbers.pop_front();
        }
        entry.joined.numbers.push_back(self.seen);
        let time_ns = entry.latest.time_ns.max(event.time_ns);
        let state = EntryState { time_ns, naks: entry.latest.naks + 1, ..entry.latest.clone() };
        entry.change(state, kept);
        self.past += entry.before.len() - before;
        self.entries.push_back(entry);
        true
    }

    /// The flows with gaps whose senders may still retransmit.
    pub fn unsettled(&self) -> Vec<FlowKey> {
        let recent = self.entries.iter().rev().take(JOIN_AMONG).filter(|entry| entry.is_gap());
        recent
            .filter(|entry| !entry.joined.retransmitted.is_some_and(|one| one.settled))
            .map(|entry| entry.key)
            .collect()
    }

    /// Takes what the senders of [`Self::unsettled`] flows had retransmitted at a sample, and at the one before it.
    pub fn retransmitted(
        &mut self,
        (earlier_ns, earlier): (u64, &Retransmissions),
        (time_ns, now): (u64, &Retransmissions),
    ) {
        let mut later: Vec<(FlowKey, u64)> = Vec::new();
        for entry in
            self.entries.iter_mut().rev().take(JOIN_AMONG).filter(|entry| entry.class.bit == Event::GAP)
        {
            let first_ns = entry.first_ns;
            let followed = later.iter().any(|(key, from_ns)| *key == entry.key && *from_ns < time_ns);
            later.push((entry.key, first_ns));
            let ended = time_ns >= entry.latest.time_ns.saturating_add(JOIN_WITHIN_NS);
            match &mut entry.joined.retransmitted {
                Some(known) if known.settled => {}
                // A sample of before: the next one may still be.
                None if time_ns < first_ns => {}
                // Later retransmissions may be for the next gap.
                Some(known) if followed => known.settled = true,
                known => {
                    let Some((packets, how)) = now.0.get(&entry.key).copied() else { continue };
                    let before = known.map_or_else(
                        || {
                            let then = earlier.0.get(&entry.key).map_or(0, |(packets, _)| *packets);
                            (earlier_ns <= first_ns).then_some(then)
                        },
                        |known| known.before,
                    );
                    *known = Some(RetransmittedSinceGap {
                        before,
                        packets,
                        how,
                        as_of_ns: time_ns,
                        settled: ended || followed,
                    });
                }
            }
        }
    }
}

impl EntryAt<'_> {
    /// NAKs that answer gaps of the entry.
    pub const fn naks(&self) -> u64 {
        self.state.naks
    }

    /// Packets that the sender retransmitted since the first gap, as far as that was known at a time.
    pub fn retransmitted(&self, time_ns: Option<u64>) -> Option<u64> {
        let known = self
            .entry
            .joined
            .retransmitted
            .filter(|known| time_ns.is_none_or(|time_ns| known.as_of_ns <= time_ns))?;
        known.packets.checked_sub(known.before?).filter(|packets| *packets > 0)
    }

    /// A gap in few letters at a time: `3 PSN, NAK, GBN 23`; `None` for other entries.
    pub fn brief(&self, time_ns: Option<u64>) -> Option<String> {
        if !self.entry.is_gap() {
            return None;
        }
        let mut parts = vec![format!("{} PSN", self.state.event.missing)];
        match (self.naks(), self.state.count) {
            (0, _) => {}
            (naks, gaps) if naks < gaps => parts.push(format!("NAK {naks}/{gaps}")),
            _ => parts.push("NAK".to_owned()),
        }
        if let Some(packets) = self.retransmitted(time_ns) {
            let how = match self.entry.joined.retransmitted.and_then(|known| known.how) {
                Some(Retransmission::GoBackN) => "GBN",
                Some(Retransmission::SelectiveRepeat) => "SR",
                None => "RETX",
            };
            parts.push(format!("{how} {}", compact(packets as f64)));
        }
        Some(parts.join(", "))
    }

    /// The entry in words at a time: the latest event, and what belongs to it.
    pub fn text(&self, time_ns: Option<u64>) -> String {
        let retransmitted = self.retransmitted(time_ns);
        if !self.entry.is_gap() || (self.naks() == 0 && retransmitted.is_none()) {
            return self.state.text.clone();
        }
        let mut parts = vec![gap(&self.state.event)];
        match (self.naks(), self.state.count) {
            (0, _) => {}
            (1, 1) => parts.push("NAK answered".to_owned()),
            (naks, gaps) if naks < gaps => parts.push(format!("{naks} of {gaps} answered by NAK")),
            _ => parts.push("each answered by NAK".to_owned()),
        }
        if let Some(packets) = retransmitted {
            let s = if packets == 1 { "" } else { "s" };
            let packets = format!("{} packet{s}", compact(packets as f64));
            parts.push(match self.entry.joined.retransmitted.and_then(|known| known.how) {
                Some(Retransmission::GoBackN) => format!("go-back-N {packets}"),
                Some(Retransmission::SelectiveRepeat) => format!("selective retransmission of {packets}"),
                None => format!("{packets} retransmitted"),
            });
        }
        parts.extend(packet_of(&self.state.event));
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::event;
    use super::*;

    /// A gap before `psn`, of four PSNs, at a tap, in milliseconds.
    fn gap_at(ms: u64, psn: u32, link: u16) -> EventSample {
        let mut gap = event(Event::GAP, ms * 1_000_000, 7);
        (gap.key.src, gap.key.dst, gap.key.link, gap.psn) = ([0, 0, 0, 1], [0, 0, 0, 2], link, psn);
        gap
    }

    /// A sequence-error NAK that asks for `psn`.
    fn nak_at(ms: u64, psn: u32, link: u16) -> EventSample {
        let mut nak = event(Event::NAK, ms * 1_000_000, 9);
        (nak.key.src, nak.key.dst, nak.key.link, nak.psn) = ([0, 0, 0, 2], [0, 0, 0, 1], link, psn);
        nak.headers = bytes::Bytes::from_static(b"nak");
        nak
    }

    fn log(events: &[EventSample]) -> Log {
        let mut log = Log::default();
        for event in events {
            log.push(event, 0);
        }
        log
    }

    /// Words, gaps, and NAKs of the rows, the latest first.
    fn rows(log: &Log) -> Vec<(&'static str, u64, u64)> {
        log.listed(None).map(|row| (row.entry.class.word, row.state.count, row.naks())).collect()
    }

    #[test]
    fn a_gap_and_its_nak_are_one_row() {
        let log = log(&[gap_at(1, 104, 0), nak_at(2, 100, 1)]);
        assert_eq!(rows(&log), [("GAP", 1, 1)]);
        let row = log.listed(None).next().unwrap();
        assert!(
            row.text(None).starts_with("4 PSNs missing from 100, NAK answered, RC_"),
            "{}",
            row.text(None)
        );
        // The NAK is still one of its events, with its headers.
        let kept: Vec<_> = log.kept(row.entry, u64::MAX).map(|(_, event)| event.events).collect();
        assert_eq!((log.seen(), kept), (2, vec![Event::NAK]));
        // As it was before the NAK.
        let before = log.listed(Some(1_500_000)).next().unwrap();
        assert_eq!((before.naks(), before.text(None).contains("NAK")), (0, false));
    }

    #[test]
    fn what_names_another_psn_or_another_queue_pair_stays_a_row() {
        let other = |key: fn(&mut FlowKey)| {
            let mut nak = nak_at(2, 100, 0);
            key(&mut nak.key);
            log(&[gap_at(1, 104, 0), nak])
        };
        let both = [("NAK", 1, 0), ("GAP", 1, 0)];
        assert_eq!(rows(&log(&[gap_at(1, 104, 0), nak_at(2, 99, 0)])), both);
        assert_eq!(rows(&log(&[gap_at(1, 104, 0), nak_at(1_002, 100, 0)])), both, "too late");
        assert_eq!(rows(&other(|key| key.dst = [0, 0, 0, 3])), both);
        let mut access = nak_at(2, 100, 0);
        access.aeth = 0x6200_0000;
        assert_eq!(rows(&log(&[gap_at(1, 104, 0), access])), both, "not of a gap");
        let mut known = log(&[gap_at(1, 104, 0)]);
        known.push_with(&nak_at(2, 100, 0), 0, |_| Some(10));
        assert_eq!(rows(&known), both, "the answers go to another queue pair");
        known.push_with(&gap_at(3, 204, 0), 0, |_| None);
        known.push_with(&nak_at(4, 200, 0), 0, |_| Some(9));
        assert_eq!(rows(&known), [("GAP", 2, 1), ("NAK", 1, 0)]);
    }

    #[test]
    fn every_nak_answers_one_gap_at_its_tap() {
        // One gap, two NAKs: the second is no answer to it.
        assert_eq!(
            rows(&log(&[gap_at(1, 104, 0), nak_at(2, 100, 0), nak_at(3, 100, 0)])),
            [("NAK", 1, 0), ("GAP", 1, 1)]
        );
        // What two taps see of a gap and its NAK is one gap and one NAK, whichever tap the NAK passes first.
        let taps = log(&[gap_at(1, 104, 0), gap_at(2, 104, 1), nak_at(3, 100, 1), nak_at(4, 100, 0)]);
        assert_eq!((rows(&taps), taps.seen()), (vec![("GAP", 1, 1)], 4));
        let entry = taps.listed(None).next().unwrap().entry;
        assert_eq!((entry.key.link, &entry.also[..]), (0, &[1][..]));
        // A NAK that another tap sees says nothing of where the gap is; a second one is another event.
        let one = log(&[gap_at(1, 104, 1), nak_at(2, 100, 1), nak_at(3, 100, 0), nak_at(4, 100, 1)]);
        assert_eq!(rows(&one), [("NAK", 1, 0), ("GAP", 1, 1)]);
        assert!(one.listed(None).all(|row| row.entry.also.is_empty()));
        let late = log(&[nak_at(1, 100, 0), nak_at(1_002, 100, 1)]);
        assert_eq!(rows(&late), [("NAK", 1, 0), ("NAK", 1, 0)], "not the same packet");
        // Several gaps, some answered.
        let some = log(&[gap_at(1, 104, 0), gap_at(2, 204, 0), nak_at(3, 200, 0), gap_at(4, 304, 0)]);
        assert_eq!(rows(&some), [("GAP", 3, 1)]);
        assert!(some.listed(None).next().unwrap().text(None).contains("from 300, 1 of 3 answered by NAK"));
        assert_eq!(some.listed(None).next().unwrap().brief(None).as_deref(), Some("4 PSN, NAK 1/3"));
    }

    fn retransmissions(packets: u64) -> Retransmissions {
        let how = Some(Retransmission::GoBackN);
        Retransmissions(std::iter::once((gap_at(0, 0, 0).key, (packets, how))).collect())
    }

    #[test]
    fn retransmissions_are_those_between_the_samples_around_the_gap() {
        let ms = 1_000_000;
        let mut log = log(&[gap_at(10, 104, 0), nak_at(11, 100, 0)]);
        assert_eq!(log.unsettled().len(), 1);
        log.retransmitted((5 * ms, &retransmissions(1_000)), (20 * ms, &retransmissions(1_012)));
        log.retransmitted((20 * ms, &retransmissions(1_012)), (30 * ms, &retransmissions(1_029)));
        let row = log.listed(None).next().unwrap();
        assert!(row.text(None).contains("NAK answered, go-back-N 29 packets, "), "{}", row.text(None));
        assert_eq!(row.brief(None).as_deref(), Some("4 PSN, NAK, GBN 29"));
        assert_eq!(
            row.brief(Some(15 * ms)).as_deref(),
            Some("4 PSN, NAK"),
            "what was retransmitted comes later"
        );
        assert_eq!(row.retransmitted(Some(15 * ms)), None, "not known then");
        // The next gap of the flow has its own.
        log.push(&gap_at(1_500, 904, 0), 0);
        log.retransmitted((1_400 * ms, &retransmissions(1_029)), (1_600 * ms, &retransmissions(1_040)));
        let all: Vec<_> = log.listed(None).map(|row| row.retransmitted(None)).collect();
        assert_eq!(all, [Some(11), Some(29)]);
        // Where the counter before is unknown, so is what was retransmitted.
        log.push(&gap_at(3_000, 1_904, 0), 0);
        log.retransmitted((3_001 * ms, &retransmissions(1_040)), (4_500 * ms, &retransmissions(1_050)));
        assert_eq!(log.listed(None).next().unwrap().retransmitted(None), None);
        assert_eq!(log.unsettled(), []);
    }
}
