//! What is kept of a flow: its latest packets, the answers to it, and, once PSNs are missing or behind, the state
//! machine of its requests and that of its responses.

use rocescope_common::wire::bth::MASK24;
use rocescope_common::wire::frame::UNKNOWN;

use super::arrival::RepeatedReads;
use super::latest::{Latest, Responses};
use super::sequence::Sequence;
use super::signal_intervals::Counts;
use super::{AckState, FlowLoss, Sizes, reads};
use crate::util::boxed_unless_zero::BoxedUnlessZero;

/// A flow of the collector.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) counts: Counts,
    pub(super) requests: Latest,
    pub(super) responses: BoxedUnlessZero<Responses>,
    /// First request with the AckReq bit; 0 for none.
    pub(super) asked_ns: u64,
    /// PSN of the latest ACK, NAK or response, or [`UNKNOWN`].
    pub(super) answer_psn: u32,
    /// It was that of a NAK.
    pub(super) refused: bool,
    /// ACKs and responses, at most 255.
    pub(super) acks: u8,
    pub(super) sizes: Sizes,
    /// Index in `answers` of the flow's source and destination, and of the reverse; [`UNKNOWN`] for none.
    pub(super) pair: u32,
    pub(super) reverse: u32,
    pub(super) dest_qp: u32,
    /// The latest READ request.
    pub(super) read: reads::Read,
    /// Opcode of the request with the highest PSN.
    pub(super) request: u8,
    /// See [`InMessage::pace_ns`]; and there was a longer silence.
    pub(super) pace_ns: u64,
    pub(super) has_stalled: bool,
    pub(super) request_loss: Option<Box<Sequence>>,
    pub(super) response_loss: Option<Box<Sequence>>,
}

impl Slot {
    /// State of a slot that has no flow.
    pub(super) fn empty() -> Self {
        Self { answer_psn: UNKNOWN, pair: UNKNOWN, reverse: UNKNOWN, ..Self::default() }
    }

    pub(super) fn ack_state(&self) -> AckState {
        AckState {
            asked_ns: (self.asked_ns != 0).then_some(self.asked_ns).into(),
            answer_psn: (self.answer_psn != UNKNOWN).then_some(self.answer_psn),
            refused: self.refused,
            answered_something: false,
            sizes: self.sizes,
        }
    }

    /// What its requester has repeated, of its requests that passed here.
    pub(super) fn repeated_reads(&self) -> RepeatedReads {
        let nothing = RepeatedReads { nothing: self.requests.time_ns > 0, duplicate: None };
        self.request_loss.as_ref().map_or(nothing, |sequence| sequence.repeated_reads())
    }

    /// Loss in its flow.
    pub(super) fn loss(&self) -> FlowLoss {
        let metrics = |sequence: &Option<Box<Sequence>>| sequence.as_ref().map(|sequence| sequence.metrics());
        FlowLoss {
            requests: metrics(&self.request_loss),
            responses: metrics(&self.response_loss),
            unfollowed: None,
            given_up: self.request_loss.as_ref().and_then(|sequence| sequence.given_up),
        }
    }
}

impl AckState {
    /// The latest PSN that the flow acknowledges: a NAK acknowledges what lies before its own.
    #[must_use]
    pub fn acknowledged(&self) -> Option<u32> {
        Some(self.answer_psn?.wrapping_sub(self.refused.into()) & MASK24)
    }
}

// Of very many flows each has one.
const _: () = assert!(size_of::<Slot>() == 112);
