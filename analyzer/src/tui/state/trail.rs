//! The latest readings of devices, from which rates are taken.

use std::collections::VecDeque;
use std::sync::Arc;

use super::psn_rates::{PsnCounts, Rates};
use crate::entity::devices::{Devices, PortSample, QpSample};
use crate::metrics::loss::signal_intervals::EPISODE_GAP_NS;
use crate::util::map::Map;
use crate::util::time::{NS_PER_S, seconds};

/// Readings kept, at most.
const KEPT: usize = 64;

/// Lists of a port's queue pairs kept, at most.
const LISTS: usize = 64;

/// The latest readings, the oldest first, and the latest lists of queue pairs.
#[derive(Clone, Debug, Default)]
pub struct Trail {
    readings: VecDeque<Arc<Devices>>,
    /// Those of one port stand in the order of their times.
    lists: VecDeque<List>,
}

/// A list of a port's queue pairs. Lists rest for longer than readings are kept.
#[derive(Clone, Debug)]
struct List {
    device: String,
    port: u32,
    /// Time up to which packets are counted, Unix nanoseconds.
    time_ns: u64,
    qps: Arc<Vec<QpSample>>,
}

impl List {
    fn is_of(&self, port: &PortSample) -> bool {
        (self.device.as_str(), self.port) == (port.device.as_str(), port.port)
    }
}

/// A port at two snapshots.
#[derive(Clone, Copy, Debug)]
pub struct PortRates<'a> {
    now: &'a PortSample,
    then: &'a PortSample,
    seconds: f64,
    /// The earlier list of queue pairs, and the seconds since: they are listed less often than counters are read.
    list: Option<(&'a [QpSample], f64)>,
}

impl Trail {
    /// Takes in what a sample has of devices.
    pub fn push(&mut self, devices: &Arc<Devices>) {
        if devices.ports.is_empty() || self.readings.back().is_some_and(|last| Arc::ptr_eq(last, devices)) {
            return;
        }
        // One of ten seconds ago is enough: with thousands of queue pairs each has its megabytes.
        let newest = end(devices);
        let is_enough = |second: &Arc<Devices>| end(second).saturating_add(EPISODE_GAP_NS) <= newest;
        while self.readings.get(1).is_some_and(is_enough) || self.readings.len() == KEPT {
            self.readings.pop_front();
        }
        self.readings.push_back(Arc::clone(devices));
        for port in &devices.ports {
            self.list(port);
        }
        // Those of ports that are gone.
        self.lists.retain(|list| devices.ports.iter().any(|port| list.is_of(port)));
    }

    /// Takes in the list of a port if its packets are counted up to another time. Of those before, the latest that is
    /// at least ten seconds older is enough, and those since. The clock may step back.
    fn list(&mut self, port: &PortSample) {
        let Some(time_ns) = port.qps_counted_ns else { return };
        let own = || self.lists.iter().filter(|list| list.is_of(port));
        if own().next_back().is_some_and(|latest| latest.time_ns == time_ns) {
            return;
        }
        let is_earlier = |list: &&List| list.time_ns.saturating_add(EPISODE_GAP_NS) <= time_ns;
        let first_ns = own().filter(is_earlier).map(|list| list.time_ns).max().unwrap_or(0);
        let too_many = (own().count() + 1).saturating_sub(LISTS);
        let first_ns = first_ns.max(own().nth(too_many).map_or(0, |list| list.time_ns));
        self.lists.retain(|list| !list.is_of(port) || (first_ns..time_ns).contains(&list.time_ns));
        let (device, qps) = (port.device.clone(), Arc::clone(&port.qps));
        self.lists.push_back(List { device, port: port.port, time_ns, qps });
    }

    /// The growth of a port's counters in the ten seconds before its reading, or in as much of them as there is. `None`
    /// when there is no earlier reading.
    pub fn rates<'a>(&'a self, now: &'a PortSample) -> Option<PortRates<'a>> {
        let (_, end) = now.window?;
        let all = || self.readings.iter().flat_map(|devices| &devices.ports);
        let own = || all().filter(|p| p.device == now.device && p.port == now.port);
        let since = |now: u64, then: Option<u64>| now.checked_sub(then?).filter(|ns| *ns > 0);
        // The one that is nearest to ten seconds back, from the oldest on.
        let off = |ns: u64| ns.abs_diff(EPISODE_GAP_NS);
        let readings = own().filter_map(|then| Some((then, since(end, then.window.map(|(_, last)| last))?)));
        let (then, ns) = readings.min_by_key(|(_, ns)| off(*ns))?;
        let list = match now.qps_counted_ns {
            None => Some((then.qps.as_slice(), seconds(ns))),
            Some(counted_ns) => {
                let lists = self.lists.iter().filter(|list| list.is_of(now));
                let earlier = lists.filter_map(|list| Some((list, since(counted_ns, Some(list.time_ns))?)));
                let nearest = earlier.min_by_key(|(_, ns)| off(*ns));
                nearest.map(|(list, ns)| (list.qps.as_slice(), seconds(ns)))
            }
        };
        Some(PortRates { now, then, seconds: seconds(ns), list })
    }
}

/// The latest reading of any port.
fn end(devices: &Devices) -> u64 {
    devices.ports.iter().filter_map(|port| port.window).map(|(_, last)| last).max().unwrap_or(0)
}

impl PortRates<'_> {
    /// Seconds between the two snapshots.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Growth per second of a counter of the common vocabulary.
    pub fn per_s(&self, name: &str) -> Option<f64> {
        let ((now, source), (then, before)) = (self.now.value(name)?, self.then.value(name)?);
        (source == before).then(|| self.rate(now, then))
    }

    /// PSNs that a queue pair sent and took in, a second.
    pub fn qp_per_s(&self, qp: &QpSample) -> Rates {
        let Some((list, seconds)) = self.list else { return (None, None) };
        let is_it = |then: &&QpSample| id(then) == id(qp);
        list.iter().find(is_it).map_or((None, None), |then| counts(qp).per_second(counts(then), seconds))
    }

    /// The same of all queue pairs, by number.
    pub fn qps_per_s(&self) -> Map<u32, Rates> {
        let Some((list, seconds)) = self.list else { return Map::default() };
        let then: Map<_, &QpSample> = list.iter().map(|qp| (id(qp), qp)).collect();
        let rates = |qp: &QpSample| {
            then.get(&id(qp)).map_or((None, None), |then| counts(qp).per_second(counts(then), seconds))
        };
        self.now.qps.iter().map(|qp| (qp.owner.lqpn, rates(qp))).collect()
    }

    /// Share of the time that a priority was paused, one way.
    pub fn paused(&self, sent: bool, priority: Option<u8>) -> Option<f64> {
        let of = |port: &PortSample| {
            port.pause.iter().find(|p| p.sent == sent && p.priority == priority).and_then(|p| p.paused_ns)
        };
        Some(self.rate(of(self.now)?, of(self.then)?) / NS_PER_S as f64)
    }

    fn rate(&self, now: u64, then: u64) -> f64 {
        now.saturating_sub(then) as f64 / self.seconds
    }
}

fn id(qp: &QpSample) -> (u32, Option<u32>) {
    (qp.owner.lqpn, qp.owner.rqpn)
}

fn counts(qp: &QpSample) -> PsnCounts {
    PsnCounts { sent: qp.sent, received: qp.received, ambiguous: qp.ambiguous }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::devices::{PauseSample, SourceSample};
    use crate::entity::owners::QpOwner;

    use crate::util::time::NS_PER_S as SECOND;

    fn at(second: u64) -> Arc<Devices> {
        let values = vec![("rx_packets".to_owned(), second * 100)];
        let pause =
            PauseSample { priority: Some(3), paused_ns: Some(second * SECOND / 4), ..PauseSample::default() };
        let owner = QpOwner { lqpn: 7, ..QpOwner::default() };
        let qp = QpSample { owner, sent: Some(second * 5), ..QpSample::default() };
        let port = PortSample {
            device: "mlx5_0".into(),
            port: 1,
            window: Some((SECOND, (second + 1) * SECOND)),
            counters: vec![SourceSample { source: "ethtool", values, resets: 0 }],
            pause: vec![pause],
            qps: Arc::new(vec![qp]),
            ..PortSample::default()
        };
        Arc::new(Devices { ports: vec![port], ..Devices::default() })
    }

    #[test]
    fn rates_are_over_ten_seconds_or_what_there_is() {
        let mut trail = Trail::default();
        let now = at(0);
        trail.push(&now);
        assert!(trail.rates(&now.ports[0]).is_none(), "one reading has no rate");
        for second in 0..100 {
            let now = at(second);
            trail.push(&now);
            trail.push(&now);
            if second > 0 {
                let step = trail.rates(&now.ports[0]).unwrap();
                assert!((step.seconds() - (second.min(10) as f64)).abs() < 1e-9);
                assert_eq!(step.per_s("rx_packets"), Some(100.0));
                assert_eq!(step.per_s("tx_packets"), None);
                assert_eq!(step.paused(false, Some(3)), Some(0.25));
                assert_eq!(step.qp_per_s(&now.ports[0].qps[0]), (Some(5.0), None));
                assert_eq!(step.qps_per_s(), Map::from_iter([(7, (Some(5.0), None))]));
            }
        }
        assert_eq!(trail.readings.len(), 11, "ten seconds back, and now");
    }

    /// With many queue pairs a list takes long, and lists rest for up to 20 s.
    #[test]
    fn rates_of_queue_pairs_are_over_the_time_between_two_lists() {
        let listed = |second: u64, list: u64, ambiguous: u64| {
            let mut devices = Devices::clone(&at(second));
            let port = &mut devices.ports[0];
            port.qps_counted_ns = Some(list * SECOND);
            let qps = Arc::make_mut(&mut port.qps);
            (qps[0].sent, qps[0].ambiguous) = (Some(list * 5), ambiguous);
            Arc::new(devices)
        };
        let mut trail = Trail::default();
        let rate = |trail: &Trail, now: &Arc<Devices>| {
            trail.rates(&now.ports[0]).unwrap().qps_per_s().get(&7).copied().unwrap_or_default().0
        };
        for second in 1..61 {
            let now = listed(second, second / 20 * 20, 0);
            trail.push(&now);
            if second >= 20 {
                assert_eq!(rate(&trail, &now), Some(5.0), "{second}");
            } else if second > 1 {
                assert_eq!(rate(&trail, &now), None, "one list has no rate");
            }
            assert!(trail.readings.len() <= 12 && trail.lists.len() <= 2, "{second}");
        }
        let now = listed(61, 61, 1);
        trail.push(&now);
        assert_eq!(rate(&trail, &now), None, "its PSN may have wrapped");
        let mut trail = Trail::default();
        for (second, list) in [(1, 10), (2, 20)] {
            trail.push(&listed(second, list, 0));
        }
        let mut again = Devices::clone(&listed(3, 30, 0));
        Arc::make_mut(&mut again.ports[0].qps)[0].sent = Some(7);
        assert_eq!(rate(&trail, &Arc::new(again)), None, "its count began again");
    }
}
