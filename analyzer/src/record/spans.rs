//! Time ranges of a host's captures that a folder has already: recording one again would count its packets twice.

use std::fs::File;
use std::path::Path;

use super::parquet::Groups;
use super::registry::LinkSecond;
use super::store::{Part, folder, folder_name, walk};
use crate::report::Report;
use crate::util::map::Map;
use crate::util::shared::Shared;
use crate::util::time::HOUR_NS;
use crate::util::units::time_utc;

/// Maximum number of links of a file: more are of no recorder.
const MOST_LINKS: usize = 1 << 12;

/// A link of a capture and the time of its rows in a file, Unix nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RecordedTime {
    link: Shared,
    from_ns: u64,
    to_ns: u64,
}

/// Rows of captures, and how far the new recording is.
#[derive(Debug, Default)]
pub struct Spans {
    /// Files that were not read yet, those that begin last first.
    unread: Vec<Part>,
    recorded: Vec<RecordedTime>,
    /// Time of the latest sample.
    last_ns: Option<u64>,
    /// Packets of links at that time.
    packets: Map<Shared, u64>,
}

impl Spans {
    /// Those of a host in a folder.
    pub fn read(dir: &Path, host: &str) -> Self {
        let own = folder_name(host);
        let mut unread = Vec::new();
        walk(&folder(dir).join("link_seconds"), &mut |path, _| {
            unread.extend(Part::at(&path).filter(|part| part.host == own));
        });
        unread.sort_unstable_by_key(|part| std::cmp::Reverse(part.first_ns));
        Self { unread, ..Self::default() }
    }

    /// Reads the files that may have rows of a time. A file that cannot be read has none.
    fn read_up_to(&mut self, from_ns: u64, to_ns: u64) {
        while let Some(part) = self.unread.pop_if(|part| part.first_ns <= to_ns) {
            // A file has rows of one hour.
            if part.first_ns.saturating_add(2 * HOUR_NS) >= from_ns {
                self.recorded.extend(of_file(&part.path));
            }
        }
    }

    /// In words what a sample would count again: packets of a link in a time whose rows the folder has. `None`:
    /// nothing. Captures that follow one another may overlap a little.
    pub fn already_recorded(&mut self, time_ns: u64, report: &Report) -> Option<String> {
        if self.recorded.is_empty() && self.unread.is_empty() {
            return None;
        }
        let from_ns = self.last_ns.or(report.facts.window.first_ns).unwrap_or(time_ns);
        self.last_ns = Some(time_ns);
        let from_ns = from_ns.min(time_ns.saturating_sub(1));
        self.read_up_to(from_ns, time_ns);
        for link in &report.facts.links {
            let before = self.packets.insert(link.name.as_str().into(), link.packets).unwrap_or(0);
            if link.packets <= before || link.direction.is_some() {
                continue;
            }
            let covers = |span: &&RecordedTime| {
                let shared = span.to_ns.min(time_ns).saturating_sub(span.from_ns.max(from_ns));
                span.link.as_str() == link.name.as_str() && shared * 2 >= time_ns - from_ns
            };
            if let Some(RecordedTime { link, from_ns, to_ns }) = self.recorded.iter().find(covers) {
                return Some(format!(
                    "{} from {} to {}",
                    link.as_str(),
                    time_utc(*from_ns),
                    time_utc(*to_ns)
                ));
            }
        }
        None
    }
}

/// A span for each link of captures in a file.
fn of_file(path: &Path) -> Vec<RecordedTime> {
    let mut spans: Vec<RecordedTime> = Vec::new();
    let Some(mut groups) = File::open(path).ok().and_then(|file| Groups::new(file).ok()) else {
        return spans;
    };
    while let Ok(Some(rows)) = groups.next_rows::<LinkSecond>() {
        for row in rows.into_iter().filter(|row| row.direction.is_none()) {
            let to_ns = row.t.0;
            let from_ns = to_ns.saturating_sub(row.interval_ns.max(1));
            let has_room = spans.len() < MOST_LINKS;
            match spans.iter_mut().find(|span| span.link == row.link) {
                Some(span) => {
                    (span.from_ns, span.to_ns) = (span.from_ns.min(from_ns), span.to_ns.max(to_ns));
                }
                None if has_room => spans.push(RecordedTime { link: row.link, from_ns, to_ns }),
                None => {}
            }
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::{SECOND, START, key, link, sample, stats};
    use crate::record::cell::Time;
    use crate::report::Options;
    use crate::sample::Sample;

    /// A report at some seconds, of a link with packets since the start.
    fn report(name: &str, seconds: u64) -> (u64, Report) {
        let flow = (key(0, "10.0.0.1", "10.0.0.2", 7), stats(49_152, 10 * seconds, 1_000 * seconds));
        let time_ns = START + seconds * SECOND;
        let sample = Sample { time_ns, ..sample(vec![link(name, None)], vec![flow]) };
        let mut report = Report::build(&sample, &Options::default());
        report.facts.window.first_ns = Some(time_ns - SECOND);
        (time_ns, report)
    }

    fn recorded(from: u64, to: u64) -> Spans {
        let span =
            RecordedTime { link: "tap".into(), from_ns: START + from * SECOND, to_ns: START + to * SECOND };
        Spans { recorded: vec![span], ..Spans::default() }
    }

    #[test]
    fn the_same_link_at_the_same_time_is_there_already() {
        let again = |spans: &mut Spans, name: &str, seconds: u64| {
            let (time_ns, report) = report(name, seconds);
            spans.already_recorded(time_ns, &report)
        };
        let said = again(&mut recorded(10, 20), "tap", 15).unwrap();
        assert!(said.starts_with("tap from ") && said.ends_with(" UTC"), "{said}");
        for (name, seconds) in [("other", 15), ("tap", 10), ("tap", 21), ("tap", 5)] {
            assert_eq!(again(&mut recorded(10, 20), name, seconds), None, "{name} {seconds}");
        }
        // It goes on until it reaches the time that is there.
        let mut later = recorded(10, 20);
        assert_eq!(again(&mut later, "tap", 9), None);
        assert!(again(&mut later, "tap", 11).is_some());
        assert_eq!(again(&mut Spans::default(), "tap", 15), None);
    }

    /// Only files that may have rows of the capture's time are read: a folder can have those of weeks.
    #[test]
    fn files_of_other_hours_are_not_read() {
        const HOUR: u64 = HOUR_NS / SECOND;
        let part = |hour: u64| Part {
            first_ns: START + hour * HOUR_NS,
            table: "link_seconds".into(),
            host: "node1".into(),
            path: format!("{hour}").into(),
        };
        let mut spans = Spans { unread: [9, 5, 4, 1].map(part).into(), ..Spans::default() };
        let unread = |spans: &Spans| spans.unread.iter().map(|part| part.first_ns).collect::<Vec<_>>();
        for (seconds, left) in [(1, 4), (2 * HOUR, 3), (5 * HOUR, 1), (6 * HOUR, 1), (10 * HOUR, 0)] {
            let (time_ns, report) = report("tap", seconds);
            assert_eq!(spans.already_recorded(time_ns, &report), None);
            assert_eq!(unread(&spans).len(), left, "{seconds}");
        }
        // Of an hour long before the capture nothing is read, of its own all is.
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        let row =
            |t: u64| LinkSecond { t: Time(t), interval_ns: SECOND, ..crate::record::parquet_tests::link(0) };
        std::fs::write(&path, crate::record::parquet::encode(&[row(START + 15 * SECOND)]).unwrap()).unwrap();
        let of = |first_ns| Part { first_ns, path: path.clone(), ..part(0) };
        let again = |first_ns| {
            let mut spans = Spans { unread: vec![of(first_ns)], ..Spans::default() };
            let (time_ns, report) = report("eth0", 15);
            spans.already_recorded(time_ns, &report).is_some()
        };
        assert!(again(START) && !again(START - 3 * HOUR_NS));
    }
}
