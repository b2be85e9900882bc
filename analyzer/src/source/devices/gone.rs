//! Queue pairs that are destroyed right after their error, before a query finds them in the error state: a counter of
//! their port says that it gave up on as many, and meanwhile no others were destroyed.

use super::lives::{DESTROYED, Follower, QpEvent, QpLife, TO_ERROR};

/// What a reading of a port's counters says of the time since the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Growth {
    device: String,
    port: u32,
    /// Queue pairs that the port gave up on.
    count: u64,
    /// The reading before, Unix nanoseconds; 0 for none.
    since_ns: u64,
}

/// A port, the queue pairs that it has given up on so far, and when that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reading {
    device: String,
    port: u32,
    given_up: u64,
    time_ns: u64,
}

/// Compares readings with the ends of queue pairs.
#[derive(Debug, Default)]
pub(super) struct Gone {
    latest: Vec<Reading>,
    /// Judged at the next reading: a queue pair may end after the counter grew.
    waiting: Vec<Growth>,
}

impl Gone {
    /// Takes in what a port counts at a Unix time.
    pub(super) fn reading(
        &mut self,
        (device, port): (&str, u32),
        given_up: u64,
        time_ns: u64,
        lives: &mut Follower,
    ) {
        let is_it = |one: &str, number: u32| (one, number) == (device, port);
        while let Some(at) = self.waiting.iter().position(|growth| is_it(&growth.device, growth.port)) {
            attribute(&self.waiting.swap_remove(at), time_ns, lives);
        }
        let known = self.latest.iter_mut().find(|reading| is_it(&reading.device, reading.port));
        let new = Reading { device: device.to_owned(), port, given_up, time_ns };
        let Some(before) = known else { return self.latest.push(new) };
        let count = given_up.saturating_sub(before.given_up);
        if count > 0 {
            let growth = Growth { device: new.device.clone(), port, count, since_ns: before.time_ns };
            self.waiting.push(growth);
        }
        *before = new;
    }

    /// Judges what still waits, at the end of a run.
    pub(super) fn finish(&mut self, time_ns: u64, lives: &mut Follower) {
        for growth in self.waiting.drain(..) {
            attribute(&growth, time_ns, lives);
        }
    }
}

/// Names the queue pairs that ended, where there are no more of them than the port has given up on.
fn attribute(growth: &Growth, until_ns: u64, lives: &mut Follower) {
    let within = |time_ns: u64| (growth.since_ns..=until_ns).contains(&time_ns);
    let of_it = |life: &QpLife| {
        life.device == growth.device
            && life.port.is_none_or(|port| port == growth.port)
            && life.control.ended_ns.is_some_and(within)
    };
    let found: Vec<u32> = lives
        .events()
        .filter(|event| event.event == TO_ERROR && event.device == growth.device && within(event.time_ns))
        .filter_map(|event| event.lqpn)
        .collect();
    // A connection manager takes a queue pair to the error state by itself when it disconnects.
    let was_connected = |life: &&QpLife| {
        matches!(life.state, Some("RTS" | "SQD" | "SQE" | "ERR")) && !found.contains(&life.lqpn)
    };
    let ended: Vec<QpEvent> =
        lives.ended().filter(|life| of_it(life)).filter(was_connected).map(event).collect();
    let unexplained = growth.count.saturating_sub(found.len() as u64);
    if ended.len() as u64 <= unexplained {
        for event in ended {
            lives.note(event);
        }
    }
}

fn event(life: &QpLife) -> QpEvent {
    QpEvent {
        device: life.device.clone(),
        port: None,
        time_ns: life.control.ended_ns.unwrap_or(0),
        lqpn: Some(life.lqpn),
        event: DESTROYED.to_owned(),
        reason: None,
        errno: None,
        duration_ns: None,
        pid: life.pid,
        comm: life.comm.clone(),
        src: life.control.src,
        dst: life.control.dst,
    }
}

#[cfg(test)]
mod tests {
    use super::super::lives::{Calls, Change, QpControl};
    use super::*;

    fn life(lqpn: u32, state: &'static str) -> QpLife {
        let control = QpControl { dst: "10.0.0.2".parse().ok(), ..QpControl::default() };
        let (device, port, pid) = ("mlx5_0".to_owned(), Some(1), Some(lqpn));
        QpLife { device, lqpn, port, pid, state: Some(state), control, ..QpLife::default() }
    }

    fn end(lqpn: u32, time_ns: u64) -> Change {
        Change::Ended { device: "mlx5_0".into(), lqpn, time_ns }
    }

    /// What is said of these changes between the second and the third reading, where the second has that count.
    fn said(given_up: u64, changes: Vec<Change>) -> Vec<(String, Option<u32>, Option<u32>)> {
        let (mut gone, mut lives) = (Gone::default(), Follower::default());
        let mut read = |count, time_ns, lives: &mut Follower| {
            gone.reading(("mlx5_0", 1), count, time_ns, lives);
            gone.reading(("mlx5_1", 1), 0, time_ns, lives);
        };
        // What it had given up on before the run is nobody's of it.
        read(5, 1_000, &mut lives);
        for change in changes {
            lives.take(change);
        }
        read(5 + given_up, 2_000, &mut lives);
        read(5 + given_up, 3_000, &mut lives);
        read(5 + given_up, 4_000, &mut lives);
        let events = lives.sample(&Calls::default(), None).events.clone();
        events.into_iter().map(|event| (event.event, event.lqpn, event.pid)).collect()
    }

    #[test]
    fn one_that_is_destroyed_while_its_port_gives_up_on_one_has_died() {
        let destroyed = |lqpn| (DESTROYED.to_owned(), Some(lqpn), Some(lqpn));
        let is = |lqpn, state| Change::Is(life(lqpn, state));
        assert_eq!(said(1, vec![is(17, "RTS"), is(18, "RTS"), end(17, 1_500)]), [destroyed(17)]);
        // Disconnected by a connection manager; after the counter was read.
        assert_eq!(said(1, vec![is(17, "RTS"), is(17, "ERR"), end(17, 2_500)]), [destroyed(17)]);
        assert_eq!(said(2, vec![is(17, "RTS"), is(18, "RTS"), end(17, 1_500), end(18, 1_600)]).len(), 2);
    }

    #[test]
    fn who_cannot_be_told_from_others_is_not_named() {
        let is = |lqpn, state| Change::Is(life(lqpn, state));
        assert_eq!(said(0, vec![is(17, "RTS"), end(17, 1_500)]), [], "nobody gave up");
        assert_eq!(said(1, vec![is(17, "INIT"), end(17, 1_500)]), [], "it never was connected");
        assert_eq!(said(1, vec![is(17, "RTS"), end(17, 900)]), [], "it ended before");
        assert_eq!(said(1, vec![is(17, "RTS"), end(17, 3_500)]), [], "it ended long after");
        let two = vec![is(17, "RTS"), is(18, "RTS"), end(17, 1_500), end(18, 1_600)];
        assert_eq!(said(1, two), [], "one of two");
        // The one that a query has found in the error state is the one.
        let found = Change::Found { life: life(18, "ERR"), time_ns: 1_400 };
        let other = vec![is(17, "RTS"), is(18, "RTS"), found, end(17, 1_500)];
        assert_eq!(said(1, other), [(TO_ERROR.to_owned(), Some(18), Some(18))]);
    }
}
