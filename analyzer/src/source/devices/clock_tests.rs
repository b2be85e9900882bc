//! Queue pairs while the wall clock is set: their order and durations are those of the monotonic one.

use super::*;
use crate::entity::lives::{QpLife, TO_ERROR};
use crate::source::devices::lives::Span;

const START: u64 = fixtures::START;
const HOUR: u64 = 3_600 * SECOND;

/// A monotonic time, and what Unix time has beyond it.
impl Clock for (u64, u64) {
    fn monotonic_ns(&self) -> u64 {
        self.0
    }

    fn unix_ns(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns + self.1
    }
}

/// Contexts are read after the latest calls: the clock may have been set in between.
#[test]
fn a_state_that_a_context_shows_gives_way_to_later_ones_however_the_clock_is_set() {
    let alive = Recorded::unpack(&format!("{MLX5}\n[]\n{}", answer(3, 10, 10, 951)));
    let dead = Recorded::unpack(&format!("{MLX5}\n[]\n{}", answer(6, 10, 10, 951)));
    for (before, after) in [(0, HOUR), (HOUR, 0)] {
        let mut watch = Watch::new(&alive.root(), &alive.kernel(), &[IFACE.to_owned()], &[]);
        watch.query_contexts(50);
        let set = |watch: &mut Watch, to: u64| watch.note_clock(to.cast_signed());
        let state = |watch: &mut Watch| {
            watch.share_lives(Ok(Calls::default()));
            watch.sample().lives.qps[0].state
        };
        set(&mut watch, before);
        let life = QpLife { device: "mlx5_0".into(), lqpn: 298, state: Some("RTS"), ..QpLife::default() };
        watch.take_lives(vec![Change::Is(life, Span { began_ns: START, ended_ns: START })]);
        list(&mut watch, &alive, (START + SECOND, START + SECOND + before));
        watch.read_contexts(&dead.kernel(), &(START + 2 * SECOND, after));
        assert_eq!(state(&mut watch), Some("ERR"));
        let event = watch.sample().lives.events[0].clone();
        assert_eq!((event.event.as_str(), event.time_ns), (TO_ERROR, START + 2 * SECOND + after));
        // A process connects it again, by a verb that is missed.
        set(&mut watch, after);
        list(&mut watch, &alive, (START + 3 * SECOND, START + 3 * SECOND + after));
        assert_eq!(state(&mut watch), Some("RTS"), "{before} to {after}");
    }
}

#[test]
fn a_stall_lasts_as_long_as_it_does_however_the_clock_is_set() {
    let (start, later) = (format!("{MLX5}\n{BUSY}"), format!("{MLX5}\n{BUSY}\n{LATER}"));
    let still = later.replace("rx_prio3_pause_duration 6000120", "rx_prio3_pause_duration 15000120");
    let hosts = [&start, &later, &still].map(|text| Recorded::unpack(text));
    for (before, after) in [(0, HOUR), (HOUR, 0)] {
        let mut watch = Watch::new(&hosts[0].root(), &hosts[0].kernel(), &[IFACE.to_owned()], &[]);
        let mut now_ns = START;
        for (host, ahead) in hosts.iter().zip([before, before, after]) {
            watch.read_counters(&host.root(), &host.kernel(), (now_ns, now_ns + ahead));
            watch.learn(doctor::collect(&host.root(), &host.kernel()));
            list(&mut watch, host, (now_ns, now_ns + ahead));
            now_ns += 10 * SECOND;
        }
        watch.ports.iter_mut().for_each(PortWatch::count_qps);
        let qp = &watch.sample().ports[0].qps[0];
        assert_eq!(qp.stalled_ns, Some(10 * SECOND), "{before} to {after}");
        assert_eq!(qp.stall.first_ns, START + 10 * SECOND + after);
    }
}
