//! A running recording: takes samples, writes files.

use std::io;
use std::path::PathBuf;

use super::clickhouse::Sender;
use super::clock::Watch;
use super::collect::{Collector, Origin};
use super::registry::Rows;
use super::store::{Keep, Losses, Notices, Rotate, Store};
use crate::report::Report;
use crate::sample::{EventSample, Sample};
#[cfg(target_os = "linux")]
use crate::sandbox::{self, Plan};
use crate::util::clickhouse::Server;
use crate::util::units;

/// Settings of a recording.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Folder of the recording.
    pub dir: PathBuf,
    /// Origin of the rows.
    pub origin: Origin,
    /// Limits at which files are sealed.
    pub rotate: Rotate,
    /// Maximum age and size of the files that are kept.
    pub keep: Keep,
    /// Rails by link, as the user names them.
    pub rails: Vec<(String, String)>,
    /// Interval of the samples of a capture; `None` of live ones.
    pub interval_ns: Option<u64>,
    /// Interval of `flow_rollup`; `None` without that table.
    pub rollup_ns: Option<u64>,
    /// ClickHouse server that also gets the files.
    pub clickhouse: Option<Server>,
}

/// Outcome of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Rows over all tables.
    pub rows: u64,
    /// Losses of the recording.
    pub losses: Losses,
}

/// Writes the samples of a run to the files of a recording.
#[derive(Debug)]
pub struct Recorder {
    collector: Collector,
    store: Store,
    sender: Option<Sender>,
    dir: PathBuf,
    /// Time of the latest sample.
    time_ns: u64,
    clock: Watch,
    recorded: Recorded,
}

impl Recorder {
    /// Opens the folder, seals rows left by a killed process, and starts sending if configured.
    ///
    /// # Errors
    /// If the folder cannot be created or written, or a thread cannot be started.
    pub fn start(settings: Settings) -> io::Result<(Self, Notices)> {
        let Settings { dir, origin, rotate, keep, rails, interval_ns, rollup_ns, clickhouse } = settings;
        Store::create(&dir)?;
        let queue = clickhouse.is_some();
        // Before the folder's limits: it makes connections.
        let sender = clickhouse.map(|server| Sender::start(&dir, server)).transpose()?;
        let open = || Store::open(&dir, &origin.host, rotate, keep, queue);
        // What a killed process has left holds names of processes and bytes of packets.
        #[cfg(target_os = "linux")]
        let opened = {
            let plan = Plan { tree: true, ..Plan::of_files(Vec::new(), vec![dir.clone()]) };
            sandbox::alone("journal", &plan, open)?
        };
        #[cfg(not(target_os = "linux"))]
        let opened = open();
        let (store, notices) = opened?;
        let collector = Collector::new(origin, rollup_ns).with_rails(rails).with_interval(interval_ns);
        Ok((
            Self {
                collector,
                store,
                sender,
                dir,
                time_ns: 0,
                clock: Watch::default(),
                recorded: Recorded::default(),
            },
            notices,
        ))
    }

    /// Adds packet events.
    pub fn events(&mut self, events: Vec<EventSample>) {
        self.collector.events(events);
    }

    /// Records the interval since the latest sample.
    pub fn take(&mut self, sample: &Sample, report: &Report) -> Notices {
        let mut notices = Notices::new();
        let step = self.clock.take(sample);
        self.time_ns = sample.time_ns;
        if let Some(step) = step {
            notices.push(format!(
                "{}: rows have the new time from now on, and the right interval of {}",
                step.sentence(),
                units::duration(step.elapsed_ns)
            ));
            self.collector.losses(Losses { clock_jump_ns: step.jump_ns, ..Losses::default() });
            self.recorded.losses.clock_jump_ns += step.jump_ns;
        }
        let rows = self.collector.take(sample, report, step.map(|step| step.elapsed_ns));
        self.store.set_unfinished(self.collector.unfinished());
        notices.extend(self.append(sample.time_ns, rows));
        notices
    }

    fn append(&mut self, time_ns: u64, rows: Rows) -> Notices {
        self.recorded.rows += rows.len() as u64;
        let (losses, notices) = self.store.append(time_ns, rows);
        self.collector.losses(losses);
        self.recorded.losses.add(losses);
        if let Some(sender) = self.sender.as_ref().filter(|_| self.store.take_sealed()) {
            sender.wake();
        }
        notices
    }

    /// True if the folder had the journal of a process of this host that was killed.
    pub const fn is_after_kill(&self) -> bool {
        self.store.is_after_kill()
    }

    /// Rows and losses so far.
    pub const fn recorded(&self) -> Recorded {
        self.recorded
    }

    /// Seals all rows, and sends queued files for a few seconds.
    pub fn finish(mut self) -> (Recorded, Notices) {
        let rows = self.collector.finish();
        self.store.set_unfinished(Rows::default());
        let mut notices = self.append(self.time_ns, rows);
        let (losses, of_close) = self.store.close();
        self.recorded.losses.add(losses);
        notices.extend(of_close);
        if let Some(sender) = self.sender {
            sender.finish(&self.dir);
        }
        (self.recorded, notices)
    }
}

#[cfg(test)]
mod tests {
    use rocescope_common::random::Random;
    use std::time::Instant;

    use super::*;
    use crate::analysis::fixtures::{SECOND, START, key, link, sample, stats};
    use crate::analysis::traffic::{example_steps, step_at};
    use crate::findings::{Finding, Severity};
    use crate::record::parquet::decode;
    use crate::record::table::{Row, Visit};
    use crate::report::Options;
    use crate::sample::Direction;

    fn origin() -> Origin {
        Origin {
            host: "node1".into(),
            job: None,
            is_job_given: false,
            job_of: |_| None,
            kernel: None,
            clock: || None,
        }
    }

    /// A recorder with a single file per table.
    fn started(dir: &std::path::Path) -> Recorder {
        started_with(dir, Rotate { time_ns: u64::MAX, bytes: u64::MAX }, None)
    }

    fn started_with(dir: &std::path::Path, rotate: Rotate, rollup_ns: Option<u64>) -> Recorder {
        let settings = Settings {
            dir: dir.to_owned(),
            origin: origin(),
            rotate,
            keep: Keep::default(),
            rails: Vec::new(),
            interval_ns: None,
            rollup_ns,
            clickhouse: None,
        };
        Recorder::start(settings).unwrap().0
    }

    /// A second of flows with as many packets and marks as chance has it.
    fn busy(second: u64, counts: &mut [(u64, u64)], random: &mut Random) -> Sample {
        let flows = (0..).zip(counts).map(|(n, (packets, ce))| {
            *packets += 100_000 + random.below(1 << 20);
            *ce += random.below(1 << 10);
            let (src, dst) = (format!("10.0.{}.1", n % 8), format!("10.1.{}.{}", n % 8, n / 8));
            let mut stats = stats(49_152 + u16::try_from(n).unwrap(), *packets, *packets * 4_158);
            stats.ecn_data = [0, 0, *packets - *ce, *ce];
            (key(u16::try_from(n % 16).unwrap(), &src, &dst, 1_000 + n), stats)
        });
        let direction = |n| if n % 2 == 0 { Direction::Ingress } else { Direction::Egress };
        let links = (0..16).map(|n| link(&format!("eth{}", n / 2), Some(direction(n))));
        Sample { time_ns: START + second * SECOND, ..sample(links.collect(), flows.collect()) }
    }

    /// The journal is written for the case of a kill, and removed: of few flows it must not take many times what they
    /// do. With the sums of longer intervals, which are in it as they are so far.
    #[test]
    fn an_interval_takes_little_more_of_the_journal_than_its_rows() {
        const SECONDS: u64 = 20;
        for (flows, most) in [(1, 1_000), (16, 3_000), (400, 28_000)] {
            let dir = tempfile::tempdir().unwrap();
            let never = Rotate { time_ns: u64::MAX, bytes: u64::MAX };
            let mut recorder = started_with(dir.path(), never, Some(60 * SECOND));
            let mut random = Random::new(18);
            let mut counts = vec![(0, 0); flows];
            for second in 1..=SECONDS {
                let sample = busy(second, &mut counts, &mut random);
                assert!(recorder.take(&sample, &Report::build(&sample, &Options::default())).is_empty());
            }
            let journals = std::fs::read_dir(dir.path().join("journal")).unwrap().flatten();
            let bytes: u64 = journals.map(|entry| entry.metadata().unwrap().len()).sum();
            println!("{flows} flows: {} bytes of the journal an interval", bytes / SECONDS);
            assert!(bytes / SECONDS <= most, "{flows} flows: {} bytes", bytes / SECONDS);
        }
    }

    /// Measures the time to record a second of 400 flows, and the size of a row. Prints; `cargo test -p rocescope
    /// --lib cost_of_400 -- --ignored --nocapture`.
    #[test]
    #[ignore = "measures"]
    fn cost_of_400_flows() {
        const FLOWS: u32 = 400;
        const SECONDS: u64 = 300;
        let dir = tempfile::tempdir().unwrap();
        let mut recorder = started(dir.path());
        let (mut reports_ns, mut rows_ns) = (0, 0);
        // A random generator, so that no encoding benefits from regular values.
        let mut random = Random::new(4_791);
        let mut counts = vec![(0u64, 0u64); FLOWS as usize];
        for second in 1..=SECONDS {
            let sample = busy(second, &mut counts, &mut random);
            let begin = Instant::now();
            let report = Report::build(&sample, &Options::default());
            reports_ns += begin.elapsed().as_nanos();
            let begin = Instant::now();
            assert!(recorder.take(&sample, &report).is_empty());
            rows_ns += begin.elapsed().as_nanos();
        }
        let (total, _) = recorder.finish();
        assert_eq!(total.losses, Losses::default());
        let mut bytes = 0;
        crate::record::store::walk(&dir.path().join("v1/flow_seconds"), &mut |_, size| bytes += size);
        let ms = |ns: u128| ns as f64 / 1e6 / SECONDS as f64;
        println!(
            "a second of {FLOWS} flows: {:.2} ms for the report, {:.2} ms for rows and files; {:.1} bytes a row",
            ms(reports_ns),
            ms(rows_ns),
            bytes as f64 / (f64::from(FLOWS) * SECONDS as f64)
        );
        assert!(bytes / (u64::from(FLOWS) * SECONDS) <= 25);
    }

    /// An agent whose clock is set forward by an hour and back by two, through recording and metrics.
    #[test]
    fn a_clock_that_jumps_costs_no_count_and_is_reported() {
        use std::collections::BTreeMap;

        use crate::export::exposition::{Exposition, Format};
        use crate::export::{Exporter, Process};
        use crate::record::registry::{FlowSecond, Host};

        const HOUR: i64 = 3_600_000_000_000;
        let dir = tempfile::tempdir().unwrap();
        let mut recorder = started(dir.path());
        let mut exporter = Exporter::new(crate::export::Options::default());
        let mut said = Vec::new();
        let mut before: BTreeMap<String, f64> = BTreeMap::new();
        for (second, jumped) in (1..).zip([0, 0, HOUR, HOUR, -HOUR, -HOUR]) {
            let flow = (key(0, "10.0.0.1", "10.0.0.2", 7), stats(49_152, 10 * second, 1_000 * second));
            let links = vec![link("eth0", Some(Direction::Egress))];
            let sample = Sample {
                time_ns: (START + second * SECOND).saturating_add_signed(jumped),
                steady_ns: Some(second * SECOND),
                ..sample(links, vec![flow])
            };
            let report = Report::build(&sample, &Options::default());
            said.extend(recorder.take(&sample, &report));
            let families = exporter.take(&sample, &report, &Process::default());
            let text = Exposition::of(&families).text(Format::Text).to_owned();
            let counters = text.lines().filter(|line| line.contains("_total")).filter_map(|line| {
                let (name, value) = line.rsplit_once(' ')?;
                Some((name.to_owned(), value.parse::<f64>().ok()?))
            });
            let now: BTreeMap<String, f64> = counters.collect();
            assert!(before.iter().all(|(name, value)| now[name] >= *value), "{before:?} {now:?}");
            before = now;
        }
        let packets = before["rocescope_link_packets_total{link=\"eth0\",direction=\"egress\"}"];
        assert!((packets - 60.0).abs() < f64::EPSILON, "{packets}");
        let steps: Vec<&String> = said.iter().filter(|text| text.contains("the clock stepped")).collect();
        assert!(steps[0].contains("forwards by 1") && steps[1].contains("back by 2"), "{said:?}");
        assert_eq!((steps.len(), said.len()), (2, 2), "{said:?}");
        let (total, _) = recorder.finish();
        assert_eq!(total.losses.clock_jump_ns, -HOUR);
        let (mut flows, mut jumps) = (Vec::new(), Vec::new());
        crate::record::store::walk(&dir.path().join("v1"), &mut |path, _| {
            let file = || std::fs::read(&path).unwrap().into();
            if path.to_str().unwrap().contains("flow_seconds") {
                flows.extend(decode::<FlowSecond>(file()).unwrap());
            } else if path.to_str().unwrap().contains("/hosts/") {
                jumps.extend(decode::<Host>(file()).unwrap().iter().map(|row| row.clock_jump_ns));
            }
        });
        assert_eq!(flows.iter().map(|row| row.packets).sum::<u64>(), 60);
        assert!(flows[1..].iter().all(|row| row.interval_ns == SECOND), "{flows:?}");
        jumps.retain(|jump| *jump != 0);
        assert_eq!(jumps, [HOUR, -2 * HOUR]);
    }

    /// The rows of a table in files, as text.
    struct Load {
        files: Vec<PathBuf>,
        rows: Vec<String>,
    }

    impl Visit for Load {
        type Error = std::convert::Infallible;

        fn rows<R: Row>(&mut self, rows: &mut Vec<R>) -> Result<(), Self::Error> {
            let folder = format!("/{}/", R::TABLE.name);
            let files = self.files.iter().filter(|path| path.to_str().unwrap().contains(&folder));
            let read = files.flat_map(|path| decode::<R>(std::fs::read(path).unwrap().into()).unwrap());
            for row in read.chain(rows.drain(..)) {
                let mut cells = vec![R::TABLE.name.to_owned()];
                row.cells(&mut |cell| cells.push(format!("{cell:?}")));
                self.rows.push(cells.join(" "));
            }
            Ok(())
        }
    }

    /// Rows in memory and in the files of folders, in one order.
    fn all(mut rows: Rows, dirs: &[&std::path::Path]) -> Vec<String> {
        let mut load = Load { files: Vec::new(), rows: Vec::new() };
        for dir in dirs {
            crate::record::store::walk(&dir.join("v1"), &mut |path, _| load.files.push(path));
        }
        let Ok(()) = rows.visit(&mut load);
        load.rows.sort_unstable();
        load.rows
    }

    /// Traffic and steps for 165 s and then none, and a finding whose figures change each second.
    fn growing(second: u64) -> (Sample, Report) {
        let moved = second.min(165);
        let flow = (key(0, "10.0.0.1", "10.0.0.2", 7), stats(49_152, 10 * moved, 1_000 * moved));
        let links = vec![link("eth0", Some(Direction::Egress))];
        let sample = Sample { time_ns: START + second * SECOND, ..sample(links, vec![flow]) };
        let mut report = Report::build(&sample, &Options::default());
        let mut steps = example_steps([10, 0, 0, 3].into(), Some(Direction::Egress));
        steps.all = (1..=moved).step_by(2).map(|at| step_at(START + at * SECOND)).collect();
        report.facts.steps = Some(steps);
        let uneven = Finding::new("links.imbalance", Severity::Warning, format!("{second} s"));
        report.findings = vec![Finding { active: true, ..uneven }];
        (sample, report)
    }

    /// A kill in a silence, two seconds after a rotation: what waits for the end of a minute, of an interval of the
    /// rollup or of a step is in the files that the next start makes, once. So it is if the run goes on and ends.
    #[test]
    fn a_kill_loses_no_row_that_waits() {
        const KILLED: u64 = 178;
        let (dir, next, whole) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let rotate = Rotate { time_ns: 25 * SECOND, bytes: u64::MAX };
        let rollup_ns = Some(60 * SECOND);
        let mut killed = started_with(dir.path(), rotate, rollup_ns);
        let mut ended = started_with(whole.path(), rotate, rollup_ns);
        let mut collector = Collector::new(origin(), rollup_ns);
        let mut expected = Rows::default();
        for second in 1..=KILLED {
            let (sample, report) = growing(second);
            assert!(killed.take(&sample, &report).is_empty());
            assert!(ended.take(&sample, &report).is_empty());
            expected.append(collector.take(&sample, &report, None));
        }
        let waiting = collector.finish();
        let lengths =
            [waiting.hosts.len(), waiting.findings.len(), waiting.steps.len(), waiting.flow_rollup.len()];
        assert_eq!(lengths, [1; 4], "the test shows nothing");
        expected.append(waiting);
        let journals = |dir: &std::path::Path| dir.join("journal");
        std::fs::create_dir(journals(next.path())).unwrap();
        let mut longest = 0;
        for entry in std::fs::read_dir(journals(dir.path())).unwrap().flatten() {
            longest = longest.max(entry.metadata().unwrap().len());
            std::fs::copy(entry.path(), journals(next.path()).join(entry.file_name())).unwrap();
        }
        // Two seconds of it, without traffic.
        assert!((1..50_000).contains(&longest), "{longest} bytes of journal");
        std::mem::forget(killed);
        let (_, said) = Store::open(next.path(), "node1", rotate, Keep::default(), false).unwrap();
        let last = units::time_utc(START + KILLED * SECOND);
        assert!(said[0].contains(&format!("the rows reach to {last}; at most one interval")), "{said:?}");
        assert_eq!(ended.finish().1, Notices::new());
        let packets = expected.flow_rollup.iter().map(|row| row.packets).sum::<u64>();
        assert_eq!(packets, 1_650);
        let expected = all(expected, &[]);
        assert_eq!(all(Rows::default(), &[dir.path(), next.path()]), expected);
        assert_eq!(all(Rows::default(), &[whole.path()]), expected);
    }
}
