//! Rates from PSNs of queue pairs, of whichever source.

/// Packets a second that a queue pair sent and received.
pub type Rates = (Option<f64>, Option<f64>);

/// Counts of PSNs at a reading of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PsnCounts {
    /// Packets sent since the first reading.
    pub sent: Option<u64>,
    /// Packets received since the first reading.
    pub received: Option<u64>,
    /// Readings up to this one before which PSNs may have wrapped.
    pub ambiguous: u64,
}

impl PsnCounts {
    /// Rates since an earlier reading, `seconds` ago. Unknown if PSNs may have wrapped in between, or a count began
    /// again.
    pub fn per_second(self, then: Self, seconds: f64) -> Rates {
        let is_exact = seconds > 0.0 && self.ambiguous == then.ambiguous;
        let of = |now: Option<u64>, then: Option<u64>| {
            let more = now?.checked_sub(then?)?;
            is_exact.then(|| more as f64 / seconds)
        };
        (of(self.sent, then.sent), of(self.received, then.received))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_time_a_count_that_grows_and_no_possible_wrap() {
        let at = |sent: u64, received: Option<u64>, ambiguous: u64| PsnCounts {
            sent: Some(sent),
            received,
            ambiguous,
        };
        let then = at(100, Some(10), 1);
        assert_eq!(at(300, Some(10), 1).per_second(then, 2.0), (Some(100.0), Some(0.0)));
        assert_eq!(at(300, None, 1).per_second(then, 2.0), (Some(100.0), None));
        assert_eq!(at(300, Some(10), 2).per_second(then, 2.0), (None, None), "PSNs may have wrapped");
        assert_eq!(at(99, Some(11), 1).per_second(then, 1.0), (None, Some(1.0)), "it began again");
        assert_eq!(at(300, Some(10), 1).per_second(then, 0.0), (None, None), "the same reading");
    }
}
