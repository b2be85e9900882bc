//! Rows of packet events.

use rocescope_common::wire::frame::UNKNOWN;

use super::Origin;
use crate::model::events::CLASSES;
use crate::record::cell::Time;
use crate::record::registry::Event;
use crate::sample::{EventSample, Sample, address};
use crate::util::shared::Shared;

/// Maximum number of events kept per interval; further ones are counted.
const MOST: usize = 1_000;

/// Events since the latest sample.
#[derive(Debug, Default)]
pub(super) struct Events {
    kept: Vec<EventSample>,
    left_out: u64,
}

impl Events {
    pub(super) fn take(&mut self, events: Vec<EventSample>) {
        let room = MOST.saturating_sub(self.kept.len());
        self.left_out += events.len().saturating_sub(room) as u64;
        self.kept.extend(events.into_iter().take(room));
    }

    /// The rows of the kept events, and the number left out. `sample` provides the links.
    pub(super) fn rows(&mut self, origin: &Origin, sample: &Sample, rows: &mut Vec<Event>) -> u64 {
        rows.extend(self.kept.drain(..).map(|event| {
            let link = sample.links.get(usize::from(event.key.link));
            let known = |word: u32| (word != UNKNOWN).then_some(u64::from(word));
            Event {
                t: Time(event.time_ns),
                host: origin.host.clone(),
                job: origin.job.clone(),
                event: words(event.events),
                link: link.map(|link| link.name.as_str().into()),
                direction: link.and_then(|link| link.direction),
                src: Some(address(event.key.family, event.key.src)),
                dst: Some(address(event.key.family, event.key.dst)),
                dest_qp: Some(event.key.dest_qp.into()),
                bits: Some(event.events.into()),
                opcode: Some(event.opcode.into()),
                psn: Some(event.psn.into()),
                missing: (event.missing > 0).then_some(event.missing.into()),
                aeth: known(event.aeth),
                tos: Some(event.tos.into()),
                src_port: Some(event.src_port.into()),
                wire_len: Some(event.wire_len.into()),
                ..Event::default()
            }
        }));
        std::mem::take(&mut self.left_out)
    }
}

/// The event in the words of the Events screen.
fn words(bits: u16) -> Shared {
    let words = CLASSES.iter().filter(|class| bits & class.bit != 0).map(|class| class.word);
    words.collect::<Vec<_>>().join(",").as_str().into()
}
