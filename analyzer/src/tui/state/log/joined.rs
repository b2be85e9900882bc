//! A PSN gap, the sequence-error NAK that answers it, and what the sender retransmits for it are one entry.
//!
//! A NAK belongs to a gap of the other direction whose first missing PSN it names. One that names no such PSN stays an
//! entry of its own, as does one that comes before the gap that it answers: what was lost downstream of the tap shows
//! as NAKs alone, to which belongs what their receiver retransmits.

use std::collections::VecDeque;

use rocescope_common::account::{Event, FlowKey};

use super::{Entry, EntryAt, EntryState, JOIN_AMONG, JOIN_WITHIN_NS, Log, gap, packet_of, refusal};
use crate::metrics::loss::Retransmission;
use crate::model::Counts;
use crate::model::detail::peer_qp;
use crate::sample::{EventSample, Sample};
use crate::tui::column::compact;
use crate::util::map::{Map, Set};

/// Gaps of an entry that wait for their NAK, and events of others that it keeps by number, at most.
const KEPT: usize = 256;
/// AETH syndrome of a PSN sequence error.
const SEQUENCE_ERROR: u32 = 0x60;
/// Link of a flow whose data may pass any: NAKs may come over another than what they answer.
const ANY_LINK: u16 = u16::MAX;

/// The same flow, whatever its link.
const fn anywhere(key: &FlowKey) -> FlowKey {
    FlowKey { link: ANY_LINK, ..*key }
}

/// True for a NAK of a PSN sequence error.
const fn is_of_sequence(event: &EventSample) -> bool {
    event.events & Event::NAK != 0 && event.aeth >> 24 == SEQUENCE_ERROR
}

/// Answers to the gaps of an entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Joined {
    /// First missing PSN and time of the gaps without a NAK, the latest last.
    open: VecDeque<(u32, u64)>,
    /// The flow of the NAKs.
    pub(super) answers: Option<FlowKey>,
    /// Numbers of the NAKs among all events.
    pub(super) numbers: VecDeque<u64>,
    /// Of NAKs that answer no gap: the flow whose sender they reach, on any link, where its queue pair is known.
    sender: Option<FlowKey>,
    retransmitted: Option<RetransmittedSinceGap>,
}

/// Retransmissions since the first gap or NAK of an entry.
#[derive(Clone, Copy, Debug)]
struct RetransmittedSinceGap {
    /// The counter before it; `None` where that is unknown.
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
    /// Those of these flows; of one on any link, those of the link with most, since taps see the same packets.
    pub fn of(sample: &Sample, flows: &[FlowKey]) -> Self {
        let loss = sample.metrics.loss.as_ref();
        let flows: Set<&FlowKey> = flows.iter().collect();
        let mut figures: Map<FlowKey, (u64, Option<Retransmission>)> = Map::default();
        for flow in &sample.flows {
            for key in [flow.key, anywhere(&flow.key)].into_iter().filter(|key| flows.contains(key)) {
                let how = loss
                    .and_then(|loss| loss.flow(flow.slot).requests)
                    .and_then(|found| found.retransmission);
                // The same as RETX elsewhere: a packet that fills a gap is no retransmission seen here.
                let packets = Counts::of(&flow.stats, flow.slot, loss).retransmitted;
                let most = figures.entry(key).or_insert((packets, how));
                if packets > most.0 {
                    *most = (packets, how);
                }
            }
        }
        Self(figures)
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

    /// True for NAKs that answer no gap, and of which is not known whose sender they reach.
    fn awaits_sender(&self) -> bool {
        !self.is_gap() && self.joined.sender.is_none() && is_of_sequence(&self.latest.event)
    }

    /// The flow whose sender retransmits for the entry.
    fn sender(&self) -> Option<FlowKey> {
        if self.is_gap() { Some(self.key) } else { self.joined.sender }
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
        if !is_of_sequence(event) {
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

    /// Finds whose senders recent NAKs reach that answer no gap, from the first sample after them.
    pub fn find_senders(&mut self, sample: &Sample) {
        let recent = self.entries.iter_mut().rev().take(JOIN_AMONG);
        let is_open = |entry: &&mut Box<Entry>| {
            entry.awaits_sender() && sample.time_ns < entry.latest.time_ns.saturating_add(2 * JOIN_WITHIN_NS)
        };
        let mut open: Vec<&mut Box<Entry>> = recent.filter(is_open).collect();
        let keys: Set<FlowKey> = open.iter().map(|entry| entry.key).collect();
        if keys.is_empty() {
            return;
        }
        let naks = sample.flows.iter().enumerate().filter(|(_, flow)| keys.contains(&flow.key));
        for (index, flow) in naks {
            let Some(dest_qp) = peer_qp(sample, index) else { continue };
            let (src, dst) = (flow.key.dst, flow.key.src);
            let data = anywhere(&FlowKey { src, dst, dest_qp, ..flow.key });
            for entry in open.iter_mut().filter(|entry| entry.key == flow.key) {
                entry.joined.sender = Some(data);
            }
        }
    }

    /// The flows with gaps or NAKs whose senders may still retransmit.
    pub fn unsettled(&self) -> Vec<FlowKey> {
        let recent = self.entries.iter().rev().take(JOIN_AMONG);
        recent
            .filter(|entry| !entry.joined.retransmitted.is_some_and(|one| one.settled))
            .filter_map(|entry| entry.sender())
            .collect()
    }

    /// Takes what the senders of [`Self::unsettled`] flows had retransmitted at a sample, and at the one before it.
    pub fn retransmitted(
        &mut self,
        (earlier_ns, earlier): (u64, &Retransmissions),
        (time_ns, now): (u64, &Retransmissions),
    ) {
        let mut later: Vec<(FlowKey, u64)> = Vec::new();
        for entry in self.entries.iter_mut().rev().take(JOIN_AMONG) {
            let Some(sender) = entry.sender() else { continue };
            let first_ns = entry.first_ns;
            let is_same =
                |key: &FlowKey| *key == sender || *key == anywhere(&sender) || anywhere(key) == sender;
            let followed = later.iter().any(|(key, from_ns)| is_same(key) && *from_ns < time_ns);
            later.push((sender, first_ns));
            let ended = time_ns >= entry.latest.time_ns.saturating_add(JOIN_WITHIN_NS);
            match &mut entry.joined.retransmitted {
                Some(known) if known.settled => {}
                // A sample of before: the next one may still be.
                None if time_ns < first_ns => {}
                // Later retransmissions may be for the next gap.
                Some(known) if followed => known.settled = true,
                known => {
                    let Some((packets, how)) = now.0.get(&sender).copied() else { continue };
                    let before = known.map_or_else(
                        || {
                            let then = earlier.0.get(&sender).map_or(0, |(packets, _)| *packets);
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

    /// Packets that the sender retransmitted since the first gap or NAK, as far as that was known at a time.
    pub fn retransmitted(&self, time_ns: Option<u64>) -> Option<u64> {
        let known = self
            .entry
            .joined
            .retransmitted
            .filter(|known| time_ns.is_none_or(|time_ns| known.as_of_ns <= time_ns))?;
        known.packets.checked_sub(known.before?).filter(|packets| *packets > 0)
    }

    /// A gap in few letters at a time: `3 PSN, NAK, GBN 23`; of NAKs without one what was retransmitted, where that is
    /// known. `None` for other entries.
    pub fn brief(&self, time_ns: Option<u64>) -> Option<String> {
        if !self.entry.is_gap() {
            return Some(format!("{}, {}", refusal(&self.state.event), self.go_back(time_ns)?));
        }
        let mut parts = vec![format!("{} PSN", self.state.event.missing)];
        match (self.naks(), self.state.count) {
            (0, _) => {}
            (naks, gaps) if naks < gaps => parts.push(format!("NAK {naks}/{gaps}")),
            _ => parts.push("NAK".to_owned()),
        }
        parts.extend(self.go_back(time_ns));
        Some(parts.join(", "))
    }

    /// What was retransmitted, in few letters: `GBN 23`.
    fn go_back(&self, time_ns: Option<u64>) -> Option<String> {
        let packets = self.retransmitted(time_ns)?;
        let how = match self.entry.joined.retransmitted.and_then(|known| known.how) {
            Some(Retransmission::GoBackN) => "GBN",
            Some(Retransmission::SelectiveRepeat) => "SR",
            None => "RETX",
        };
        Some(format!("{how} {}", compact(packets as f64)))
    }

    /// The entry in words at a time: the latest event, and what belongs to it.
    pub fn text(&self, time_ns: Option<u64>) -> String {
        let retransmitted = self.retransmitted(time_ns);
        if self.naks() == 0 && retransmitted.is_none() {
            return self.state.text.clone();
        }
        let event = &self.state.event;
        let mut parts = vec![if self.entry.is_gap() { gap(event) } else { refusal(event) }];
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
        parts.extend(packet_of(event));
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::event;
    use super::*;
    use crate::sample::{FlowSample, PeerKey, Stats};

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

    #[test]
    fn naks_of_loss_downstream_have_what_their_receiver_retransmits() {
        let ms = 1_000_000;
        // The NAKs pass another link than the data.
        let data = FlowKey { link: 3, ..gap_at(0, 0, 0).key };
        let flows = |packets| {
            let how = Some(Retransmission::GoBackN);
            Retransmissions(std::iter::once((anywhere(&data), (packets, how))).collect())
        };
        let nak = nak_at(11, 100, 0);
        let mut sample = Sample { time_ns: 20 * ms, ..Sample::default() };
        sample.flows.push(FlowSample { slot: 0, key: nak.key, stats: Stats::default() });
        let mut log = log(std::slice::from_ref(&nak));
        log.find_senders(&sample);
        assert_eq!(log.unsettled(), [], "the peer is not known");
        sample.peers.insert(PeerKey::of(&nak.key), 7);
        log.find_senders(&sample);
        assert_eq!(log.unsettled(), [anywhere(&data)]);
        log.retransmitted((5 * ms, &flows(40)), (20 * ms, &flows(69)));
        let row = log.listed(None).next().unwrap();
        let text = row.text(None);
        assert!(text.starts_with("PSN sequence error, go-back-N 29 packets, RC_"), "{text}");
        assert_eq!(row.brief(None).as_deref(), Some("PSN sequence error, GBN 29"));
        assert!(!row.text(Some(15 * ms)).contains("go-back-N"), "not known then");
        // For another error nothing is retransmitted.
        let mut access = nak;
        access.aeth = 0x6200_0000;
        let mut other = Log::default();
        other.push(&access, 0);
        other.find_senders(&sample);
        assert_eq!(other.unsettled(), []);
    }
}
