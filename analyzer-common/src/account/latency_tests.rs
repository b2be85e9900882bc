use super::*;

const US: u64 = 1_000;

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
    on_request(&mut latency, 7, CLASS_WRITE_SEND, false, 5_000_000);
    on_response(&mut latency, 6, true, 5_010_000);
    assert_eq!(samples(&latency), [0; 3], "an earlier PSN");
    on_response(&mut latency, 7, true, 5_000_000 + 80 * US);
    on_response(&mut latency, 7, true, 5_000_000 + 90 * US);
    assert_eq!((samples(&latency), latency.max_ns), ([1, 0, 0], [80 * US, 0, 0]));
    assert_eq!(latency.counts[0][bucket(80 * US)], 1);
}

#[test]
fn a_coalesced_ack_completes_all_earlier_requests_across_the_wrap() {
    let mut latency = Latency::EMPTY;
    for (i, psn) in [0xFF_FFFEu32, 0xFF_FFFF, 0, 1, 2].into_iter().enumerate() {
        on_request(&mut latency, psn, CLASS_WRITE_SEND, false, i as u64 * 10 * US);
    }
    on_response(&mut latency, 1, true, 100 * US);
    assert_eq!((samples(&latency), latency.max_ns[0], latency.outstanding()), ([4, 0, 0], 100 * US, 1));
}

#[test]
fn a_retransmitted_request_is_not_timed() {
    let mut latency = Latency::EMPTY;
    on_request(&mut latency, 1, CLASS_WRITE_SEND, false, 0);
    on_request(&mut latency, 2, CLASS_WRITE_SEND, false, 0);
    on_request(&mut latency, 1, CLASS_WRITE_SEND, true, 10 * US);
    on_request(&mut latency, 0, CLASS_WRITE_SEND, true, 10 * US);
    on_response(&mut latency, 2, true, 20 * US);
    assert_eq!((samples(&latency), latency.ambiguous), ([1, 0, 0], 1));
    assert_eq!((latency.head, latency.tail), (2, 2), "the hole is passed over");
}

#[test]
fn classes_have_histograms_of_their_own() {
    let mut latency = Latency::EMPTY;
    for (psn, class) in [(1, CLASS_READ), (5, CLASS_ATOMIC), (6, CLASS_WRITE_SEND)] {
        on_request(&mut latency, psn, class, false, US);
    }
    on_response(&mut latency, 1, false, 3 * US);
    on_response(&mut latency, 5, false, 4 * US);
    on_response(&mut latency, 6, true, 5 * US);
    let [write, read, atomic] = latency.max_ns;
    assert_eq!(samples(&latency), [1, 1, 1]);
    assert!(write.abs_diff(4 * US) <= 16 && read.abs_diff(2 * US) <= 16 && atomic.abs_diff(3 * US) <= 16);
}

#[test]
fn an_acknowledge_does_not_complete_a_read() {
    let mut latency = Latency::EMPTY;
    on_request(&mut latency, 1, CLASS_READ, false, US);
    on_request(&mut latency, 9, CLASS_WRITE_SEND, false, US);
    on_response(&mut latency, 9, true, 5 * US);
    assert_eq!((samples(&latency), latency.ambiguous_responses), ([1, 0, 0], 1));
}

#[test]
fn a_full_ring_skips_the_newest_request() {
    let mut latency = Latency::EMPTY;
    for psn in 0..100 {
        on_request(&mut latency, psn, CLASS_WRITE_SEND, false, u64::from(psn));
    }
    assert_eq!((latency.ring_full, latency.outstanding()), (36, 64));
    on_response(&mut latency, 0, true, 50 * US);
    on_request(&mut latency, 100, CLASS_WRITE_SEND, false, 60 * US);
    on_response(&mut latency, 100, true, 70 * US);
    assert_eq!((samples(&latency), latency.outstanding()), ([65, 0, 0], 0));
}

#[test]
fn a_restart_clears_outstanding_requests() {
    let mut latency = Latency::EMPTY;
    on_request(&mut latency, 9_000_000, CLASS_WRITE_SEND, false, 0);
    on_restart(&mut latency);
    on_request(&mut latency, 5, CLASS_WRITE_SEND, false, 100);
    on_response(&mut latency, 5, true, 200);
    assert_eq!((samples(&latency), latency.ambiguous, latency.outstanding()), ([1, 0, 0], 1, 0));
}

#[test]
fn a_clock_that_goes_back_gives_no_sample() {
    let mut latency = Latency::EMPTY;
    on_request(&mut latency, 1, CLASS_WRITE_SEND, false, 1 << 40);
    on_response(&mut latency, 1, true, 0);
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
