//! Bounds of what a playback holds: a file of some kilobytes can have rows of any number of flows.

use crate::util::shared::Shared;

/// Numbers that a playback holds at most. Rows of others are left out, and counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Flows.
    pub(super) flows: usize,
    /// Links, each direction one.
    pub(super) links: usize,
    /// Ports of devices.
    pub(super) ports: usize,
    /// Counters of all ports.
    pub(super) counters: usize,
    /// Length of the names in a row, in bytes.
    pub(super) names: usize,
    /// Findings, and the length of their JSON in bytes, all together and of one.
    pub(super) findings: usize,
    pub(super) json: usize,
    /// Queue pairs.
    pub(super) qps: usize,
    /// Steps.
    pub(super) steps: usize,
    /// Events of packets in an interval.
    pub(super) events: usize,
    /// The sum of the largest count of each row of a table: with it, no sum of a few counts leaves 64 bits. In bytes,
    /// it is a month of 7 Tb/s; of the counters of devices, which are more, twice as much.
    pub(super) count: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            flows: 1 << 18,
            links: 1 << 12,
            ports: 1 << 12,
            counters: 1 << 16,
            names: 1 << 12,
            findings: 1 << 16,
            json: 64 << 20,
            qps: 1 << 16,
            steps: 1 << 22,
            events: 1 << 20,
            count: 1 << 61,
        }
    }
}

impl Limits {
    /// True if the names of a row are longer than any.
    pub(super) fn exclude<'a>(self, names: impl IntoIterator<Item = Option<&'a Shared>>) -> bool {
        names.into_iter().flatten().map(|name| name.len()).fold(0, usize::saturating_add) > self.names
    }

    /// The notice about rows that were left out; `None` if there are none.
    pub(super) fn notice(self, left_out: u64) -> Option<String> {
        let count = |number: usize| crate::util::units::count(number as u64);
        (left_out > 0).then(|| {
            format!(
                "{} left out: a playback holds at most {} flows, {} queue pairs, {} links, {} ports, {} findings, {} steps and {} events of an interval, and counts as far as 64 bits hold sums of them; shorten it with --from and --to",
                crate::util::units::plural(left_out, "row"),
                count(self.flows),
                count(self.qps),
                count(self.links),
                count(self.ports),
                count(self.findings),
                count(self.steps),
                count(self.events)
            )
        })
    }
}

/// The sum of the largest count of each row so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total(u64);

impl Total {
    /// Adds the largest of the counts of a row. False if the sum would be more than `most`: then nothing is added.
    pub(super) fn take(&mut self, most: u64, counts: impl IntoIterator<Item = u64>) -> bool {
        let sum = self.0.saturating_add(counts.into_iter().max().unwrap_or(0));
        if sum <= most {
            self.0 = sum;
        }
        sum <= most
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::State;
    use super::*;
    use crate::record::cell::{Cell, CellKind};
    use crate::record::registry::{
        DeviceSecond, Event, Finding, FlowSecond, LinkSecond, QpLife, QpSecond, Step,
    };
    use crate::record::table::Row;

    fn row<R: Row>() -> R {
        let mut cells = R::TABLE.columns.iter().map(|column| match (column.kind, column.name) {
            _ if column.nullable => Cell::Null,
            (CellKind::Text, "src" | "dst") => Cell::Text("10.0.0.1".into()),
            (CellKind::Text, name) => Cell::Text(name.into()),
            (CellKind::Float, _) => Cell::Float(0.5),
            (CellKind::Time | CellKind::Int, _) => Cell::Int(7),
        });
        R::of(&mut cells).unwrap()
    }

    #[test]
    fn a_playback_holds_no_more_than_its_limits_and_counts_the_rest() {
        let few = Limits { flows: 2, links: 2, ports: 1, counters: 1, findings: 1, ..Limits::default() };
        let limits = Limits { json: 4_000, qps: 1, steps: 1, names: 100, ..few };
        let mut state = State::default();
        (state.limits, state.qps.limits, state.steps.limits) = (limits, limits, limits);
        for dest_qp in [1, 2, 3, 2] {
            state.flow(&FlowSecond { dest_qp, packets: 10, bytes: 1_000, link: "eth0".into(), ..row() });
        }
        assert_eq!(state.left_out(), 1);
        state.link_row(&LinkSecond { packets: 40, bytes: 4_000, link: "eth0".into(), ..row() });
        for link in ["eth1", "eth2"] {
            state.link_row(&LinkSecond { link: link.into(), ..row() });
        }
        assert_eq!(state.left_out(), 2);
        let source = "ethtool";
        for (device, counter) in [("a", "x"), ("b", "x"), ("a", "y"), ("a", "x")] {
            let of = DeviceSecond { device: device.into(), source: source.into(), ..row() };
            state.device(&DeviceSecond { counter: counter.into(), ..of });
        }
        assert_eq!(state.left_out(), 4);
        let json = |length: usize| format!(r#"{{"active":true,"x":"{}"}}"#, "x".repeat(length));
        for (id, json) in [("a", json(10)), ("b", json(10)), ("c", json(2_000)), ("a", json(20))] {
            state.finding(&Finding { id: id.into(), active: 1, json: json.as_str().into(), ..row() });
        }
        assert_eq!(state.left_out(), 6);
        for lqpn in [1, 2] {
            state.qps.life(&QpLife { lqpn, ..row() }, true);
            state.qp(&QpSecond { lqpn, ..row() });
        }
        assert_eq!(state.left_out(), 8);
        for start in [1, 2] {
            let start = crate::record::cell::Time(start);
            let known = Step { step_bytes: Some(9), explained_ratio: Some(1.0), active_ns: Some(1), ..row() };
            state.steps.row(&Step { start, link: "eth0".into(), ..known });
        }
        assert_eq!(state.left_out(), 9);
        // Names that would take any amount of memory.
        let long = Shared::from("x".repeat(101).as_str());
        state.flow(&FlowSecond { link: long.clone(), ..row() });
        state.device(&DeviceSecond { device: long.clone(), ..row() });
        state.link_row(&LinkSecond { link: "eth0".into(), neighbour_port: Some(long.clone()), ..row() });
        state.finding(&Finding { id: long.clone(), ..row() });
        state.qps.life(&QpLife { lqpn: 1, comm: Some(long.clone()), ..row() }, true);
        state.event(&Event { device: Some(long), ..row() });
        assert_eq!(state.left_out(), 15);
        let sample = state.sample(9, &[]);
        assert_eq!((sample.flows.len(), sample.links.len(), sample.devices.ports.len()), (2, 2, 2));
        // Packets without a flow are counted as where the kernel's table is full.
        assert_eq!(sample.links[0].flow_table_full.packets, 10);
        assert_eq!(sample.recording.unwrap().findings.len(), 1);
        let notice = limits.notice(9).unwrap();
        assert!(notice.starts_with("9 rows left out: a playback holds at most 2 flows, 1 "), "{notice}");
        assert_eq!(limits.notice(0), None);
    }

    /// Those up to the next row of another table are sent together.
    #[test]
    fn events_of_an_interval_are_bounded() {
        use crate::record::cell::Time;
        use crate::sample::Address;

        let mut state = State::default();
        state.limits.events = 2;
        let address = "10.0.0.1".parse::<Address>().ok();
        let mut events = Vec::new();
        for t in 1..=5 {
            let of = Event { src: address, dst: address, dest_qp: Some(17), ..row() };
            state.add_event(&Event { t: Time(t), link: Some("eth0".into()), ..of }, &mut events);
        }
        let times: Vec<u64> = events.iter().map(|event| event.time_ns).collect();
        assert_eq!((times, state.left_out()), (vec![1, 2], 3));
    }

    /// Files of anybody may have any number: sums of what is taken in leave room for those of a report.
    #[test]
    fn rows_whose_counts_have_no_sum_are_left_out() {
        use crate::record::registry::Host;

        let mut state = State::default();
        for count in [10, u64::MAX >> 1, u64::MAX >> 3, 5] {
            let (packets, bytes) = (count, count);
            state.flow(&FlowSecond { packets, bytes, lost: Some(-1), link: "eth0".into(), ..row() });
            state.link_row(&LinkSecond { packets, bytes, link: "eth0".into(), ..row() });
            let skipped = format!(r#"{{"tcp":[{count},{count}]}}"#);
            let skipped_json = Some(skipped.as_str().into());
            state.link_row(&LinkSecond { skipped_json, link: "eth0".into(), ..row() });
            state.host(&Host { contended: count, ..row() });
            state.device(&DeviceSecond { delta: count, source: "ethtool".into(), ..row() });
            state.qp(&QpSecond { sent_packets: Some(count), ..row() });
            let known = Step { step_bytes: Some(count), explained_ratio: Some(1.0), ..row() };
            state.steps.row(&Step { active_ns: Some(1), link: "eth0".into(), ..known });
        }
        // Of devices, the second of the large ones is within twice the limit.
        assert_eq!(state.left_out(), 13);
        assert_eq!(state.sample(9, &[]).flows[0].stats.packets, 15);
    }

    /// As values, numbers of JSON may become longer when a run begins that ends what the one before had found.
    #[test]
    fn the_json_of_ended_findings_is_bounded() {
        use crate::record::cell::Time;
        use crate::record::registry::Host;

        let numbers = "1e15,".repeat(100);
        let json = |n: u64| format!(r#"{{"active":true,"where":{{"hop":{n}}},"x":[{numbers}0]}}"#);
        let mut state = State::default();
        state.limits.json = 5_000;
        for run in 1..=9 {
            for n in [2 * run, 2 * run + 1] {
                let json = json(n).as_str().into();
                state.finding(&Finding { t: Time(run), id: "a".into(), active: 1, json, ..row() });
            }
            state.host(&Host { started: Some(Time(run + 1)), ..row() });
        }
        let held = state.sample(9, &[]).recording.unwrap();
        let length: usize = held.findings.iter().map(|json| json.len()).sum();
        assert!(length < 10_000, "{length} of {}", held.findings.len());
    }
}
