//! Requests that wait for the collector: a bounded queue, and the timing of retries.

use std::collections::VecDeque;
use std::time::Duration;

/// Maximum number of waiting requests: an hour of samples at the default interval.
pub const MOST: usize = 240;
/// Maximum size of all waiting requests, in bytes.
pub const MOST_BYTES: usize = 16 << 20;
/// First pause before a retry; it doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause, unless the collector asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Longest pause that a collector can ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// Outcome of requests so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Accepted by the collector.
    pub sent: u64,
    /// Batches that were sent more than once.
    pub retried: u64,
    /// Dropped, oldest first, because the queue was full.
    pub dropped: u64,
    /// Refused with an error that a retry does not cure.
    pub refused: u64,
    /// Points or records that the collector rejected in accepted requests.
    pub rejected_points: u64,
}

/// Encoded requests, oldest first.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Queue {
    /// Adds a request and drops the oldest ones until it fits. Returns the number dropped.
    pub fn push(&mut self, body: Vec<u8>) -> u64 {
        self.bytes += body.len();
        self.waiting.push_back(body);
        self.bound()
    }

    /// Puts a request that was taken back as the oldest; it is the first to be dropped if there is no room. Returns
    /// the number dropped.
    pub fn put_back(&mut self, body: Vec<u8>) -> u64 {
        self.bytes += body.len();
        self.waiting.push_front(body);
        self.bound()
    }

    /// Takes the oldest request.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        let body = self.waiting.pop_front()?;
        self.bytes -= body.len();
        Some(body)
    }

    /// Number of waiting requests.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True if no request waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn bound(&mut self) -> u64 {
        let mut left = 0;
        while self.waiting.len() > MOST || (self.bytes > MOST_BYTES && self.waiting.len() > 1) {
            left += u64::from(self.pop().is_some());
        }
        left
    }
}

/// Meaning of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The collector took the batch.
    Accepted,
    /// To be retried, after the time that the collector asked for.
    Again(Option<Duration>),
    /// Rejected permanently; a retry does not help.
    Refused,
}

impl Answer {
    /// From status and `Retry-After`; `now_s` is Unix time in seconds.
    pub fn of(status: u16, retry_after: Option<&str>, now_s: i64) -> Self {
        match status {
            200..=299 => Self::Accepted,
            429 | 502 | 503 | 504 => Self::Again(retry_after.and_then(|text| requested_pause(text, now_s))),
            _ => Self::Refused,
        }
    }
}

/// The pause in a `Retry-After` header: seconds, or a date.
fn requested_pause(text: &str, now_s: i64) -> Option<Duration> {
    let seconds = text.trim().parse::<u64>().ok().or_else(|| {
        let date = jiff::fmt::rfc2822::parse(text.trim()).ok()?;
        Some(u64::try_from(date.timestamp().as_second().saturating_sub(now_s)).unwrap_or(0))
    })?;
    Some(Duration::from_secs(seconds).min(LONGEST_ASKED))
}

/// The pause after `failures` in a row, unless the collector asked for one. It doubles, and `random` adds jitter of
/// up to a half, so that hosts that lost their collector together do not retry in step.
pub fn pause(failures: u32, random: u32) -> Duration {
    let doubled =
        FIRST_PAUSE.saturating_mul(1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
    let whole = doubled.min(LONGEST_PAUSE);
    whole / 2 + whole.mul_f64(f64::from(random) / f64::from(u32::MAX) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_the_oldest() {
        let mut queue = Queue::default();
        let numbered = |number: usize| vec![u8::try_from(number % 251).unwrap(); 1];
        for number in 0..MOST {
            assert_eq!(queue.push(numbered(number)), 0);
        }
        assert_eq!(queue.push(numbered(MOST)), 1);
        assert_eq!(queue.len(), MOST);
        let first = queue.pop().unwrap();
        assert_eq!(first, numbered(1));
        assert_eq!(queue.put_back(first.clone()), 0);
        assert_eq!(queue.pop().unwrap(), first);
        // A request put back finds no room if the queue has filled up meanwhile.
        queue.push(vec![7]);
        assert_eq!(queue.put_back(first), 1);
        assert_eq!(queue.pop().unwrap(), numbered(2));
    }

    #[test]
    fn bytes_are_bounded_too() {
        let mut queue = Queue::default();
        let third = MOST_BYTES / 3;
        assert_eq!((0..5).map(|_| queue.push(vec![0; third])).collect::<Vec<_>>(), [0, 0, 0, 1, 1]);
        assert_eq!(queue.len(), 3);
        // A request that exceeds the limit by itself is still queued.
        assert_eq!(queue.push(vec![1; MOST_BYTES + 1]), 3);
        assert_eq!((queue.pop().unwrap().len(), queue.is_empty(), queue.bytes), (MOST_BYTES + 1, true, 0));
    }

    #[test]
    fn answers_are_those_of_the_specification() {
        let of = |status| Answer::of(status, None, 0);
        assert_eq!([200, 202].map(of), [Answer::Accepted; 2]);
        assert_eq!([429, 502, 503, 504].map(of), [Answer::Again(None); 4]);
        assert_eq!([400, 401, 404, 408, 413, 500, 501, 301].map(of), [Answer::Refused; 8]);
        let after = |text| Answer::of(503, Some(text), 1_700_000_000);
        let seconds = |s| Answer::Again(Some(Duration::from_secs(s)));
        assert_eq!(after("7"), seconds(7));
        assert_eq!(after("86400"), seconds(300));
        assert_eq!(after("Tue, 14 Nov 2023 22:13:50 GMT"), seconds(30));
        assert_eq!(after("Tue, 14 Nov 2023 22:13:00 GMT"), seconds(0));
        assert_eq!(after("soon"), Answer::Again(None));
    }

    #[test]
    fn pauses_double_and_are_spread() {
        let ms = |failures, random| pause(failures, random).as_millis();
        assert_eq!(
            [1, 2, 3, 6, 99].map(|failures| ms(failures, u32::MAX)),
            [1_000, 2_000, 4_000, 30_000, 30_000]
        );
        assert_eq!([1, 99].map(|failures| ms(failures, 0)), [500, 15_000]);
    }
}
