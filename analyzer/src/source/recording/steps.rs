//! Steps of the job, from their rows.

use std::collections::BTreeMap;

use super::limits::{Limits, Total};
use crate::metrics::steps::straggler::{Straggler, StragglerCause};
use crate::metrics::steps::{self, LinkSteps};
use crate::record::collect::step::is_given_up;
use crate::record::registry::Step as Row;
use crate::sample::{Address, Direction, LinkSample};
use crate::util::numbers::median;
use crate::util::shared::Shared;

/// Steps of the job, on the link of the latest row.
#[derive(Debug, Default)]
pub(super) struct Steps {
    link: Option<(Shared, Option<Direction>)>,
    /// By beginning, with the time to the next step; 0 of the last one.
    all: BTreeMap<u64, (steps::Step, u64)>,
    step_bytes: u64,
    explained: f64,
    /// The straggler as the report had it at the latest row, in JSON.
    straggler: Option<Shared>,
    pub(super) limits: Limits,
    total: Total,
    /// Rows beyond them.
    pub(super) left_out: u64,
}

impl Steps {
    /// A row of an older version lacks data about the step.
    pub(super) fn row(&mut self, row: &Row) {
        let link = Some((row.link.clone(), row.direction));
        if self.link != link {
            let Self { limits, total, left_out, .. } = *self;
            *self = Self { link, limits, total, left_out, ..Self::default() };
        }
        let (Some(step_bytes), Some(explained)) = (row.step_bytes, row.explained_ratio) else { return };
        let active_ns = row.active_ns.unwrap_or(0);
        let counts = [row.length_ns, row.busy_ns, row.silence_ns, active_ns, step_bytes];
        if !self.total.take(self.limits.count, counts) {
            self.left_out += 1;
            return;
        }
        // Steps of a volume that was given up were segments found before the period was known.
        if is_given_up(self.step_bytes, step_bytes) {
            self.all.clear();
        }
        if let Some(active_ns) = row.active_ns {
            let step = steps::Step {
                start_ns: row.start.0,
                end_ns: row.start.0.saturating_add(active_ns),
                busy_ns: row.busy_ns,
                silence_ns: row.silence_ns,
                gap_follows: row.gap_follows == Some(1),
            };
            if self.all.len() >= self.limits.steps && !self.all.contains_key(&row.start.0) {
                self.left_out += 1;
                return;
            }
            self.all.insert(row.start.0, (step, row.length_ns));
        } else {
            self.all.remove(&row.start.0);
        }
        (self.step_bytes, self.explained) = (step_bytes, explained);
        self.straggler.clone_from(&row.straggler_json);
    }

    /// The steps up to a time.
    pub(super) fn job(&self, links: &[LinkSample], time_ns: u64) -> Option<steps::Steps> {
        let Steps { link, all, step_bytes, explained, straggler, .. } = self;
        let (name, _) = link.as_ref()?;
        let at = links.iter().position(|link| link.name == name.as_str())?;
        let last_ns = all.values().next_back()?.0.end_ns;
        let lengths = all.values().map(|(_, length_ns)| *length_ns).filter(|length_ns| *length_ns > 0);
        let straggler = straggler.as_deref().and_then(|json| straggler_of(links, json));
        let link = LinkSteps {
            link: u16::try_from(at).ok()?,
            steps: all.values().map(|(step, _)| *step).collect(),
            period_ns: median(lengths.collect())?,
            volume: *step_bytes,
            explained: *explained,
            rhythm: None,
            straggler: straggler.map(|(straggler, _)| straggler),
            last: None,
            ending: steps::Ending {
                last_data_ns: last_ns,
                silent_ns: time_ns.saturating_sub(last_ns),
                part: None,
                outstanding: None,
            },
        };
        let (straggler, named) = (link.straggler, straggler.map_or(0, |(_, named)| named));
        Some(steps::Steps { links: vec![link], straggler, named })
    }
}

/// A straggler from its JSON, and how many are named; `None` where it is none.
fn straggler_of(links: &[LinkSample], json: &str) -> Option<(Straggler, usize)> {
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    let text = |name: &str| value[name].as_str();
    let number = |name: &str| value[name].as_u64();
    let count = |name: &str| usize::try_from(number(name)?).ok();
    let host = |name: &str| Some(text(name)?.parse::<Address>().ok()?.words());
    let link = links.iter().position(|link| Some(link.name.as_str()) == text("link"))?;
    let straggler = Straggler {
        link: u16::try_from(link).ok()?,
        why: StragglerCause::of(text("kind")?)?,
        host: host("waits_for")?,
        peer: host("dst")?,
        dest_qp: number("dest_qp")?.try_into().ok()?,
        certain: value["certain"].as_bool()?,
        steps: count("steps")?,
        of_steps: count("of_steps")?,
        since_ns: number("since_ns")?,
        until_ns: number("until_ns")?,
        changed: value["changed"].as_bool()?,
        // An older version did not record it.
        passes_on: value["passes_on"].as_bool().unwrap_or(false),
        behind_ns: number("behind_ns")?,
    };
    Some((straggler, if value["alone"].as_bool()? { 1 } else { 2 }))
}

#[cfg(test)]
mod tests {
    use super::super::state::State;
    use super::*;
    use crate::record::cell::Time;
    use crate::report::{Options, Report};

    /// A step every 100 ms; `at` counts from 1.
    fn step(at: u64, length_ns: u64) -> Row {
        use crate::util::time::NS_PER_MS as MS;
        Row {
            t: Time(at * 100 * MS + 100 * MS),
            host: "node1".into(),
            job: None,
            link: "eth0".into(),
            direction: Some(Direction::Egress),
            start: Time(at * 100 * MS),
            length_ns,
            busy_ns: 20 * MS,
            silence_ns: MS,
            straggler: None,
            straggler_kind: None,
            straggler_certain: None,
            behind_ns: None,
            active_ns: Some(30 * MS),
            step_bytes: Some(5_000),
            explained_ratio: Some(0.98),
            straggler_json: None,
            gap_follows: Some(0),
        }
    }

    #[test]
    fn steps_of_a_recording_are_those_of_the_report() {
        let mut state = State::default();
        state.link("eth0", Some(Direction::Egress));
        assert!(state.sample(0, &[]).metrics.steps.is_none());
        // Found before the period was known, and given up.
        let early = |at| Row {
            start: Time(at * 100_000_000 + 30_000_000),
            step_bytes: Some(700),
            ..step(at, 20_000_000)
        };
        (1..=5).for_each(|at| state.steps.row(&early(at)));
        (1..=20).for_each(|at| state.steps.row(&step(at, 100_000_000)));
        // A step that is none, the same step again, and one recorded by an older version.
        let none = Row { active_ns: None, ..step(0, 0) };
        state.steps.row(&Row { start: Time(150_000_000), ..step(1, 50_000_000) });
        state.steps.row(&Row { start: Time(150_000_000), ..none });
        state.steps.row(&step(20, 100_000_000));
        state.steps.row(&Row { active_ns: None, step_bytes: None, ..step(21, 100_000_000) });
        let report = Report::build(&state.sample(2_200_000_000, &[]), &Options::default());
        let steps = report.facts.steps.unwrap();
        assert_eq!((steps.link.as_str(), steps.count, steps.period_ns), ("eth0", 20, 100_000_000));
        assert_eq!((steps.step_bytes, steps.latest.len()), (5_000, 20));
        assert_eq!((steps.latest[0].length_ns, steps.latest[0].busy_ns), (30_000_000, 20_000_000));
        assert!(steps.straggler.is_none());
        // What is no straggler is none, whatever a file has in its place.
        for json in ["", "{}", "{\"link\": \"eth0\", \"kind\": \"hides\"}"] {
            state.steps.row(&Row { straggler_json: Some(json.into()), ..step(20, 100_000_000) });
            let report = Report::build(&state.sample(2_200_000_000, &[]), &Options::default());
            assert!(report.facts.steps.unwrap().straggler.is_none(), "{json}");
        }
    }
}
