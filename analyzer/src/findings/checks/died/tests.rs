use crate::analysis::fixtures::{self, SECOND, START};
use crate::entity::lives::{Lives, timeout_ns};
use crate::findings::episode_tests::{by_id, run};
use crate::metrics::loss::signal_intervals::FlowSignalIntervals;
use crate::metrics::loss::{AckState, Metrics, NakTally, Naks};
use crate::sample::{Sample, SourceKind};

/// Five retries from one PSN, the last after nine seconds, then ten seconds of silence.
fn five_retries(kind: SourceKind, acked: Option<u32>, answered_ns: u64) -> Sample {
    let metrics = Metrics {
        stuck: 5,
        timeouts: 5,
        timeout_range_ns: (SECOND, SECOND),
        retransmitted: 5,
        ..Metrics::default()
    };
    let mut sample = run(9, metrics, FlowSignalIntervals::default(), FlowSignalIntervals::default());
    sample.kind = kind;
    sample.window = Some((START, START + 19 * SECOND));
    sample.flows[1].stats.last_ns = answered_ns;
    let answers = AckState { answer_psn: acked, answered_something: true, ..AckState::default() };
    sample.metrics.loss.as_mut().unwrap().ack_states = vec![AckState::default(), answers];
    sample
}

const LAST: u64 = START + 9 * SECOND;

#[test]
fn a_sender_whose_last_retry_was_answered_may_have_no_more_to_send() {
    let died = |sample: &Sample| by_id(sample, "qp.died").is_some();
    // In live runs it is unknown which request was acknowledged.
    let live = |answered_ns| five_retries(SourceKind::Live, Some(0), answered_ns);
    assert!(died(&live(LAST - SECOND)), "no answer to the last retry");
    assert!(!died(&live(LAST + SECOND)), "answered, then destroyed");
    let mut refused = live(LAST + SECOND);
    let mut naks = Naks::default();
    naks.codes[0] = NakTally { count: 5, last_ns: LAST + SECOND };
    refused.metrics.loss.as_mut().unwrap().naks.insert(1, naks);
    assert!(died(&refused), "the last answer is a NAK");
}

#[test]
fn a_replay_knows_what_was_acknowledged() {
    let replayed = |acked| by_id(&five_retries(SourceKind::Replay, Some(acked), LAST + SECOND), "qp.died");
    let of_fixture = 100;
    assert_eq!(replayed(of_fixture), None, "the last request");
    let died = replayed(of_fixture - 1).unwrap();
    assert_eq!(died.evidence["last_acked_psn"], 99);
    assert!(died.title.starts_with("QP 17 died: retries exhausted"), "{}", died.title);
}

/// The last READ of a queue pair, next to the responder: each of its repetitions is answered.
#[test]
fn a_read_whose_responses_do_not_arrive_exhausts_its_retries() {
    let died = |stuck: u64, opcode: u8| {
        let mut sample = five_retries(SourceKind::Replay, Some(100), LAST + SECOND);
        let loss = sample.metrics.loss.as_mut().unwrap();
        let requests = loss.flows.get_mut(&0).unwrap().requests.as_mut().unwrap();
        (requests.stuck, requests.stuck_psn, requests.stuck_opcode) = (stuck, Some(90), Some(opcode));
        by_id(&sample, "qp.died")
    };
    let found = died(7, 0x0C).unwrap();
    assert_eq!(
        (&found.evidence["last_acked_psn"], &found.evidence["message"]),
        (&89.into(), &"RDMA READ".into())
    );
    assert_eq!(died(6, 0x0C), None, "the responses to the last repetition may have arrived");
    assert_eq!(died(7, 0x06), None, "what an ACK covers arrived");
}

#[test]
fn the_message_in_progress_is_that_of_the_request_retried() {
    let message = |stuck_opcode, stuck_bytes| {
        let mut sample = five_retries(SourceKind::Replay, Some(99), LAST + SECOND);
        let loss = sample.metrics.loss.as_mut().unwrap();
        let requests = loss.flows.get_mut(&0).unwrap().requests.as_mut().unwrap();
        (requests.stuck_opcode, requests.stuck_bytes) = (stuck_opcode, stuck_bytes);
        by_id(&sample, "qp.died").unwrap().evidence["message"].clone()
    };
    assert_eq!(message(Some(0x06), Some(65_536)), "RDMA WRITE of 65.5 kB");
    assert_eq!(message(Some(0x04), None), "SEND");
    assert_eq!(message(Some(0x0C), Some(4_096)), "RDMA READ of 4.10 kB");
    assert_eq!(message(Some(0x13), None), "atomic");
    assert!(message(None, None).is_null(), "live");
}

/// What the kernel knows of the queue pair stands beside what packets show.
#[test]
fn a_death_in_packets_has_the_settings_of_the_queue_pair() {
    let mut sample = five_retries(SourceKind::Live, Some(0), LAST - SECOND);
    let mut qp = fixtures::qp_life(18, 17);
    let control = &mut qp.control;
    (control.udp_port, control.retry_cnt) = (Some(51_234), Some(6));
    control.timeout_ns = Some(timeout_ns(18));
    let other = fixtures::qp_life(19, 20);
    let lives = Lives { qps: vec![other, qp].into(), ..Lives::default() };
    sample.devices = fixtures::with_lives(fixtures::port(), lives).devices;
    let died = by_id(&sample, "qp.died").unwrap();
    let of = |name: &str| died.evidence[name].as_u64();
    assert_eq!((of("lqpn"), of("rqpn")), (Some(18), Some(17)));
    assert_eq!(
        (of("udp_port"), of("timeout_ns"), of("retry_cnt")),
        (Some(51_234), Some(timeout_ns(18)), Some(6))
    );
}
