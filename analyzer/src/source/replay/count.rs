//! Parses, filters and counts frames, one at a time.

use bytes::Bytes;
use rocescope_common::abi::EVENT_HEADERS;
use rocescope_common::account::{Event, FlowKey, Outcome};

use rocescope_common::wire::frame::{Full, Meta, parse_into};
use rocescope_common::wire::{Frame, SkipReason};

use super::latest::Latest;
use super::links::TapLinks;
use super::worker::MetricsWorker;
use crate::filter::Filter;
use crate::metrics::pairing::peers::Peers;
use crate::sample::EventSample;
use crate::source::flows::table::FlowTable;

/// Events that carry the first bytes of the packet.
const WITH_HEADERS: u16 = Event::NAK | Event::RNR | Event::GSI | Event::CNP | Event::GAP;

/// The counts of all taps.
#[derive(Debug)]
pub struct Counts {
    /// Table of flows and links.
    pub table: FlowTable,
    /// Connections seen being established.
    pub peers: Peers,
    /// Collectors of metrics beyond counters.
    pub metrics: MetricsWorker,
    /// First and last frame of any kind, Unix nanoseconds.
    pub window: Option<(u64, u64)>,
    /// First and last frame that is not [in range](Self::in_range).
    pub out_of_range: Option<(u64, u64)>,
    /// Events since they were last sent; `None` when they are not wanted.
    pub events: Option<Vec<EventSample>>,
    /// Frames before this are not counted.
    pub from_ns: u64,
    /// Frames after this are not counted.
    pub to_ns: u64,
    /// RoCE packets that do not match are only counted as filtered.
    pub filter: Option<Filter>,
    /// InfiniBand packets among those.
    pub filtered_infiniband: u64,
}

impl Counts {
    /// True if frames of this time are counted.
    #[inline]
    #[must_use]
    pub fn in_range(&self, ts_ns: u64) -> bool {
        self.from_ns <= ts_ns && ts_ns <= self.to_ns
    }

    /// Counts one frame. `latest` is the one before it, if there is any that it may continue, and then this one.
    #[expect(
        clippy::inline_always,
        reason = "most frames continue the one before, which takes little more than a call"
    )]
    #[inline(always)]
    pub fn frame(
        &mut self,
        links: &mut TapLinks,
        at: (u32, u64),
        (wire_len, data): (u32, &[u8]),
        latest: &mut Latest,
    ) {
        #[cfg(feature = "test-clock")]
        crate::util::hijack::here("replay");
        let (_, ts_ns) = at;
        if !self.in_range(ts_ns) {
            return widen(&mut self.out_of_range, ts_ns);
        }
        widen(&mut self.window, ts_ns);
        if latest.is_continued_by(at, (wire_len, data)) {
            self.next(links, ts_ns, latest, data);
        } else {
            self.another(links, at, (wire_len, data), latest);
        }
    }

    /// Counts a frame that continues the message of the latest.
    #[inline]
    fn next(&mut self, tap: &TapLinks, ts_ns: u64, latest: &Latest, data: &[u8]) {
        let Latest { frame, link, slot, .. } = latest;
        self.metrics.roce(tap, *link, ts_ns);
        if let Some(observed) = self.table.observe_next(*slot, frame, ts_ns) {
            self.metrics.next((frame, data), (ts_ns, *link), &observed, tap);
        }
    }

    /// Counts a frame of any kind, which is the latest then.
    #[inline(never)]
    fn another(
        &mut self,
        links: &mut TapLinks,
        at: (u32, u64),
        (wire_len, data): (u32, &[u8]),
        latest: &mut Latest,
    ) {
        let (interface, ts_ns) = at;
        // In place: returning the frame by value would copy it.
        let frame = latest.replace();
        let ethernet = links.ethernet(interface);
        let (link, parsed) = if let Some(link) = ethernet {
            // What is constant here takes branches out of the parser.
            (link, parse_into::<Full>(&data, Meta::ethernet(wire_len), &mut (), frame))
        } else {
            self.other_layer(links, at, (wire_len, data), frame)
        };
        match parsed {
            Ok(()) => {
                self.metrics.roce(links, link, ts_ns);
                if let Some((slot, outcome)) = self.packet(links, link, ts_ns, frame, data)
                    && outcome == Outcome::NONE
                    && ethernet.is_some()
                    && self.filter.is_none()
                    && self.metrics.is_usual(slot, frame)
                {
                    latest.keep(at, (link, slot), data);
                }
            }
            Err(reason) => {
                self.metrics.other(link, ts_ns);
                if matches!(reason, SkipReason::MacControl | SkipReason::Lldp) {
                    self.metrics.control(link, ts_ns, data);
                }
                self.table.skip(link, reason, wire_len);
            }
        }
    }

    /// The link of a frame that does not begin with an Ethernet header, and the result of parsing it.
    #[inline(never)]
    fn other_layer(
        &mut self,
        links: &mut TapLinks,
        (interface, ts_ns): (u32, u64),
        (wire_len, data): (u32, &[u8]),
        frame: &mut Frame,
    ) -> (u16, Result<(), SkipReason>) {
        links.frame(interface, ts_ns);
        let (link, start) = links.resolve(interface, data, wire_len, &mut self.table);
        (link, start.and_then(|meta| parse_into::<Full>(&data, meta, &mut (), frame)))
    }

    /// Counts a packet, and returns its slot and what remains to be done; `None` where it is in no flow.
    #[inline]
    fn packet(
        &mut self,
        tap: &TapLinks,
        link: u16,
        ts_ns: u64,
        frame: &Frame,
        data: &[u8],
    ) -> Option<(u32, Outcome)> {
        if let Some(filter) = &self.filter {
            let name = self.table.links().get(usize::from(link)).map_or("", |link| link.name.as_str());
            if !filter.packet(frame, name) {
                self.filtered_infiniband += u64::from(frame.roce_version == 0);
                self.table.skip(link, SkipReason::Filtered, frame.wire_len);
                return None;
            }
        }
        let observed = self.table.observe(link, frame, ts_ns)?;
        let (slot, outcome) = (observed.slot, observed.outcome);
        if outcome.events != 0 {
            happened(&mut self.peers, self.events.as_mut(), (link, frame, ts_ns, data), outcome);
        }
        self.metrics.packet((frame, data), (ts_ns, link), &observed, tap);
        Some((slot, outcome))
    }
}

#[inline]
fn widen(range: &mut Option<(u64, u64)>, ts_ns: u64) {
    match range {
        Some((first, last)) => {
            *first = ts_ns.min(*first);
            *last = ts_ns.max(*last);
        }
        None => *range = Some((ts_ns, ts_ns)),
    }
}

/// Link, headers, time and bytes of a packet.
type Located<'a> = (u16, &'a Frame, u64, &'a [u8]);

#[cold]
fn happened(
    peers: &mut Peers,
    events: Option<&mut Vec<EventSample>>,
    (link, frame, ts_ns, data): Located<'_>,
    outcome: Outcome,
) {
    if outcome.events & Event::GSI != 0 {
        peers.observe(frame.family, frame.src, frame.dst, data, frame.bth_offset as usize);
    }
    let Some(events) = events else { return };
    let headers = if outcome.events & WITH_HEADERS == 0 {
        Bytes::new()
    } else {
        Bytes::copy_from_slice(data.get(..EVENT_HEADERS).unwrap_or(data))
    };
    events.push(EventSample {
        time_ns: ts_ns,
        key: FlowKey::of(frame, link),
        events: outcome.events,
        opcode: frame.opcode,
        tos: frame.tos,
        src_port: frame.src_port,
        psn: frame.psn,
        missing: Event::certain(outcome.events, outcome.missing),
        aeth: frame.aeth,
        wire_len: frame.wire_len,
        bth_offset: u16::try_from(frame.bth_offset).unwrap_or(u16::MAX),
        headers,
    });
}
