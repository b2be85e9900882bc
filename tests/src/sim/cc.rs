//! Rate reduction on CNPs, modelled after DCQCN.

/// Interval of recovery steps.
const STEP_NS: u64 = 60_000;
/// Number of steps that halve the distance to the target, before the target grows.
const FAST: u64 = 5;

/// The rate of one requester.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// Rate without congestion; 0 for the speed of the port.
    line: u64,
    now: u64,
    target: u64,
    /// Estimate of congestion, in 1/1024.
    alpha: u64,
    at: u64,
    steps: u64,
}

impl Rate {
    pub(crate) fn new(line: u64) -> Self {
        Self { line, now: line, target: line, alpha: 1024, at: 0, steps: 0 }
    }

    /// Reduces the rate on a CNP. `port` is the speed of the port.
    pub(crate) fn reduce(&mut self, now: u64, port: u64) {
        let line = if self.line == 0 { port } else { self.line };
        self.recover(now, port);
        if self.now == 0 {
            self.now = line;
        }
        self.target = self.now;
        self.now = (self.now - self.now * self.alpha / 2048).max(line / 100);
        self.alpha = (self.alpha * 15 + 1024) / 16;
        (self.at, self.steps) = (now, 0);
    }

    /// Current rate in bits per second; 0 for the speed of the port.
    pub(crate) fn recover(&mut self, now: u64, port: u64) -> u64 {
        let line = if self.line == 0 { port } else { self.line };
        if self.now == self.line || self.now == line {
            return self.now;
        }
        while now >= self.at + STEP_NS && self.now < line {
            self.at += STEP_NS;
            self.steps += 1;
            self.alpha = self.alpha * 15 / 16;
            if self.steps > FAST {
                self.target = (self.target + line / 200).min(line);
            }
            self.now = (self.now + self.target).div_ceil(2).min(line);
        }
        self.now
    }
}
