use super::*;

const US: u64 = 1_000;

const fn request(psn: u32, class: u32, duplicate_psn: bool) -> Request {
    Request { psn, class, message: 0, duplicate_psn }
}

const fn response(acked: u32, is_ack: bool) -> Response {
    Response { acked, is_ack, ends_read: false }
}

fn samples(latency: &Latency) -> [u32; CLASSES] {
    core::array::from_fn(|class| latency.counts[class].iter().sum())
}

#[test]
fn buckets_partition_all_times_and_are_narrow() {
    let mut next = 0;
    for b in 0..BUCKETS {
        let (low, high) = bounds(b);
        assert_eq!((low, bucket(low), bucket(high - 1)), (next, b, b), "{b}");
        if b > 0 && b < BUCKETS - 1 {
            assert!((high - low) * 8 <= low, "{b}: an eighth of its lower end at most");
        }
        next = high;
    }
    assert_eq!((next, bucket(u64::MAX)), (u64::MAX, BUCKETS - 1));
}

#[test]
fn a_request_and_its_response_are_one_sample() {
    let mut latency = Latency::EMPTY;
    on_request(&mut latency, request(7, CLASS_WRITE_SEND, false), 5_000_000);
    on_response(&mut latency, response(6, true), 5_010_000);
    assert_eq!(samples(&latency), [0; 3], "an earlier PSN");
    on_response(&mut latency, response(7, true), 5_000_000 + 80 * US);
    on_response(&mut latency, response(7, true), 5_000_000 + 90 * US);
    assert_eq!((samples(&latency), latency.max_ns), ([1, 0, 0], [80 * US, 0, 0]));
    assert_eq!(latency.counts[0][bucket(80 * US)], 1);
}

#[test]
fn a_coalesced_ack_completes_all_earlier_requests_across_the_wrap() {
    let mut latency = Latency::EMPTY;
    for (i, psn) in [0xFF_FFFEu32, 0xFF_FFFF, 0, 1, 2].into_iter().enumerate() {
        on_request(&mut latency, request(psn, CLASS_WRITE_SEND, false), i as u64 * 10 * US);
    }
    on_response(&mut latency, response(1, true), 100 * US);
    assert_eq!((samples(&latency), latency.max_ns[0], latency.outstanding()), ([4, 0, 0], 100 * US, 1));
}

#[test]
fn an_ack_of_one_request_is_counted_as_any_response() {
    for held in 0..5u32 {
        for hole in 0..6 {
            for acked in 0..7 {
                let mut all = Latency::EMPTY;
                for psn in 1..=held {
                    let class = if psn == 4 { CLASS_READ } else { CLASS_WRITE_SEND };
                    let message = 1 << KIND_SHIFT | psn;
                    on_request(
                        &mut all,
                        Request { message, ..request(psn, class, false) },
                        u64::from(psn) * US,
                    );
                    if psn == hole {
                        all.swap(psn as usize - 1, 0);
                    }
                }
                let mut one = all.clone();
                on_response(&mut all, response(acked, true), 90 * US);
                let done = on_single_ack(&mut one, acked, 90 * US);
                assert_eq!(done, one == all, "{held} requests, {acked} acknowledged, {hole} is a hole");
                on_response(&mut one, response(acked, true), 90 * US);
                assert_eq!(one, all, "{held} requests, {acked} acknowledged, {hole} is a hole");
            }
        }
    }
}

#[test]
fn a_retransmitted_request_is_not_timed() {
    let mut latency = Latency::EMPTY;
    on_request(&mut latency, request(1, CLASS_WRITE_SEND, false), 0);
    on_request(&mut latency, request(2, CLASS_WRITE_SEND, false), 0);
    on_request(&mut latency, request(1, CLASS_WRITE_SEND, true), 10 * US);
    on_request(&mut latency, request(0, CLASS_WRITE_SEND, true), 10 * US);
    on_response(&mut latency, response(2, true), 20 * US);
    assert_eq!((samples(&latency), latency.ambiguous), ([1, 0, 0], 1));
    assert_eq!((latency.head, latency.tail), (2, 2), "the hole is passed over");
}

#[test]
fn classes_have_histograms_of_their_own() {
    let mut latency = Latency::EMPTY;
    for (psn, class) in [(1, CLASS_READ), (5, CLASS_ATOMIC), (6, CLASS_WRITE_SEND)] {
        on_request(&mut latency, request(psn, class, false), US);
    }
    on_response(&mut latency, response(1, false), 3 * US);
    on_response(&mut latency, response(5, false), 4 * US);
    on_response(&mut latency, response(6, true), 5 * US);
    let [write, read, atomic] = latency.max_ns;
    assert_eq!(samples(&latency), [1, 1, 1]);
    assert!(write.abs_diff(4 * US) <= 16 && read.abs_diff(2 * US) <= 16 && atomic.abs_diff(3 * US) <= 16);
}

#[test]
fn an_acknowledge_does_not_complete_a_read() {
    let mut latency = Latency::EMPTY;
    on_request(&mut latency, request(1, CLASS_READ, false), US);
    on_request(&mut latency, request(9, CLASS_WRITE_SEND, false), US);
    on_response(&mut latency, response(9, true), 5 * US);
    assert_eq!((samples(&latency), latency.ambiguous_responses), ([1, 0, 0], 1));
}

#[test]
fn a_full_ring_skips_the_newest_request() {
    let mut latency = Latency::EMPTY;
    for psn in 0..100 {
        on_request(&mut latency, request(psn, CLASS_WRITE_SEND, false), u64::from(psn));
    }
    assert_eq!((latency.ring_full, latency.outstanding()), (36, 64));
    on_response(&mut latency, response(0, true), 50 * US);
    on_request(&mut latency, request(100, CLASS_WRITE_SEND, false), 60 * US);
    on_response(&mut latency, response(100, true), 70 * US);
    assert_eq!((samples(&latency), latency.outstanding()), ([65, 0, 0], 0));
}

#[test]
fn a_restart_clears_outstanding_requests() {
    let mut latency = Latency::EMPTY;
    on_request(&mut latency, request(9_000_000, CLASS_WRITE_SEND, false), 0);
    on_restart(&mut latency);
    on_request(&mut latency, request(5, CLASS_WRITE_SEND, false), 100);
    on_response(&mut latency, response(5, true), 200);
    assert_eq!((samples(&latency), latency.ambiguous, latency.outstanding()), ([1, 0, 0], 1, 0));
}

#[test]
fn a_clock_that_goes_back_gives_no_sample() {
    let mut latency = Latency::EMPTY;
    on_request(&mut latency, request(1, CLASS_WRITE_SEND, false), 1 << 40);
    on_response(&mut latency, response(1, true), 0);
    assert_eq!((samples(&latency), latency.ambiguous_responses), ([0; 3], 1));
}

#[test]
fn timed_requests_and_acknowledging_packets() {
    for (opcode, ack_req, class) in [
        (0x07, false, CLASS_NONE),
        (0x08, true, CLASS_WRITE_SEND),
        (0x0C, false, CLASS_READ),
        (0x13, false, CLASS_ATOMIC),
        (0x14, true, CLASS_ATOMIC),
        (0x1C, false, CLASS_WRITE_SEND),
        (0xAC, false, CLASS_READ),
        (0x28, true, CLASS_NONE),
        (0x64, true, CLASS_NONE),
        (0x11, true, CLASS_NONE),
        (0x81, true, CLASS_NONE),
    ] {
        assert_eq!(class_of(Op::of(opcode), ack_req), class, "{opcode:#04x}");
    }
    for (opcode, aeth, psn) in [
        (0x11, 0x1F00_0001, 0),
        (0x11, 0x0000_0001, 0),
        (0x11, 0x6000_0001, 0xFF_FFFF),
        (0x11, 0x2C00_0001, 0xFF_FFFF),
        (0x11, UNKNOWN, UNKNOWN),
        (0x0D, 0x1F00_0001, 0),
        (0x0E, UNKNOWN, 0),
        (0x12, 0x1F00_0001, 0),
        (0x06, UNKNOWN, UNKNOWN),
        (0x81, UNKNOWN, UNKNOWN),
    ] {
        assert_eq!(acked_psn(Op::of(opcode), 0, aeth), psn, "{opcode:#04x} {aeth:#x}");
    }
}

/// The flow of requests and that of responses of a connection, packet by packet.
struct Connection {
    latency: Latency,
    begun_ns: u64,
}

impl Connection {
    const NEW: Self = Self { latency: Latency::EMPTY, begun_ns: 0 };

    /// A request with AckReq set where it ends a message. `kind`: 0 for a new one, or flags.
    fn request(&mut self, opcode: u8, psn: u32, kind: u8, now: u64) {
        let (op, duplicate_psn) = (Op::of(opcode), kind == DUPLICATE);
        self.begun_ns = begun(op, duplicate_psn, kind == AFTER_GAP, self.begun_ns, now);
        let class = class_of(op, op.has(Op::ENDS));
        if class != CLASS_NONE {
            let message = ended_message(opcode, op, self.begun_ns, now);
            on_request(&mut self.latency, Request { psn, class, message, duplicate_psn }, now);
        }
    }

    fn response(&mut self, opcode: u8, psn: u32, now: u64) {
        let op = Op::of(opcode);
        let acked = acked_psn(op, psn, 0x1F00_0000);
        on_response(&mut self.latency, Response::of(opcode, op, acked), now);
    }

    /// Completions, and the longest time, of WRITE, SEND and READ.
    fn completions(&self) -> [(u32, u64); COMPLETIONS] {
        core::array::from_fn(|operation| {
            let count = self.latency.completions[operation].iter().sum();
            (count, self.latency.completion_max_ns[operation])
        })
    }
}

const NEW: u8 = 0;
const DUPLICATE: u8 = 1;
const AFTER_GAP: u8 = 2;
const NONE: (u32, u64) = (0, 0);

#[test]
fn a_message_completes_with_the_ack_of_its_last_packet() {
    let mut one = Connection::NEW;
    for (at, opcode) in [0x06, 0x07, 0x08].into_iter().enumerate() {
        one.request(opcode, 5 + at as u32, NEW, (1 + at as u64) * 10_000);
    }
    one.response(0x11, 6, 35_000);
    assert_eq!(one.completions(), [NONE; 3]);
    one.response(0x11, 7, 48_000);
    assert_eq!((one.completions(), one.latency.max_ns[0]), ([(1, 38_000), NONE, NONE], 18_000));
    assert_eq!(one.latency.completions[0][completion_bucket(38_000)], 1);
    one.request(0x04, 8, NEW, 60_000);
    one.response(0x11, 8, 64_000);
    assert_eq!(one.completions(), [(1, 38_000), (1, 4_000), NONE], "one packet: its latency");
}

#[test]
fn a_read_completes_with_its_last_response() {
    let mut one = Connection::NEW;
    one.request(0x0C, 5, NEW, 16_000);
    one.request(0x0C, 8, NEW, 17_600);
    one.response(0x0D, 5, 32_000);
    one.response(0x0E, 6, 48_000);
    one.response(0x0F, 7, 64_000);
    assert_eq!(one.completions(), [NONE, NONE, (1, 48_000)]);
    one.response(0x10, 8, 67_200);
    assert_eq!((one.completions()[2], one.latency.max_ns[1]), ((2, 49_600), 49_600));
    one.response(0x0F, 9, 80_000);
    assert_eq!(one.completions()[2].0, 2, "its first response was not seen");
}

#[test]
fn a_retransmission_is_part_of_the_message() {
    let mut one = Connection::NEW;
    one.request(0x06, 5, NEW, 16_000);
    one.request(0x08, 6, NEW, 32_000);
    one.request(0x06, 5, DUPLICATE, 4_000_000);
    one.request(0x08, 6, DUPLICATE, 4_000_000);
    one.request(0x08, 6, DUPLICATE, 8_000_000);
    assert_eq!((one.latency.ambiguous, one.latency.outstanding()), (1, 0));
    one.response(0x11, 6, 8_016_000);
    assert_eq!((samples(&one.latency), one.completions()[0]), ([0; 3], (1, 8_000_000)));
    assert_eq!(one.latency.ambiguous_responses, 0, "it is counted already");
    one.request(0x0C, 7, NEW, 8_016_000);
    one.request(0x0C, 7, DUPLICATE, 9_016_000);
    one.response(0x10, 7, 9_032_000);
    assert_eq!((samples(&one.latency), one.completions()[2]), ([0; 3], (1, 1_016_000)));
}

#[test]
fn a_message_whose_packets_are_missing_is_not_timed() {
    for packets in [
        &[(0x07, NEW), (0x08, NEW)][..],
        &[(0x06, NEW), (0x08, AFTER_GAP)],
        &[(0x06, NEW), (0x07, AFTER_GAP), (0x08, NEW)],
        &[(0x06, NEW), (0x08, NEW), (0x07, AFTER_GAP), (0x08, NEW)],
    ] {
        let mut one = Connection::NEW;
        for (at, (opcode, kind)) in (0..).zip(packets) {
            one.request(*opcode, at, *kind, 1_000 * u64::from(at + 1));
        }
        let last = packets.len() as u32 - 1;
        let whole = u32::from(packets.len() == 4);
        one.response(0x11, last, 9_000);
        assert_eq!((one.completions()[0].0, samples(&one.latency)[0]), (whole, whole + 1), "{packets:?}");
        one.request(0x06, 90, AFTER_GAP, 16_000);
        one.request(0x08, 91, NEW, 32_000);
        one.response(0x11, 91, 48_000);
        assert_eq!(one.completions()[0].0, whole + 1, "{packets:?}: the next one is whole");
    }
}

#[test]
fn a_message_longer_than_the_histogram_has_its_own_maximum() {
    let op = Op::of(0x08);
    for (ns, coarse_ns) in [(8 << 30, 0), (16 << 30, 16_384), (3_600_000_000_000, 16_384)] {
        let message = ended_message(0x08, op, 16, 16 + ns);
        assert!(ns - sending_ns(message) <= coarse_ns, "{ns}");
        let mut latency = Latency::EMPTY;
        on_request(&mut latency, Request { message, ..request(7, CLASS_WRITE_SEND, false) }, ns);
        on_response(&mut latency, response(7, true), ns + 160);
        assert!(latency.completion_max_ns[0].abs_diff(ns + 160) <= coarse_ns, "{ns}");
        assert_eq!(latency.completions[0][completion_bucket(ns + 160)], 1, "{ns}");
    }
    assert_eq!(sending_ns(ended_message(0x08, op, 16, u64::MAX)) >> 30, u64::from(SENDING_MASK) >> 16);
    assert_eq!(ended_message(0x08, op, 1 << 40, 16), 0, "the clock went back");
    assert_eq!(ended_message(0x1C, Op::of(0x1C), 16, 32), 0, "FLUSH moves no data");
}

#[test]
fn completion_buckets_are_halves_of_octaves() {
    for fine in 0..BUCKETS {
        let (low, high) = bounds(fine);
        let coarse = completion_bucket(low);
        assert_eq!((completion_bucket(high - 1), coarse < COMPLETION_BUCKETS), (coarse, true), "{fine}");
        let (from, to) = bounds(typical_bucket(coarse));
        assert_eq!(completion_bucket(from), coarse, "{fine}");
        let middle = u64::midpoint(from, to);
        let error = |ns: u64| middle.abs_diff(ns) * 100;
        if coarse != 0 && to != u64::MAX {
            assert!(error(low) <= 21 * low && error(high) <= 21 * high, "{fine}");
        }
    }
}
