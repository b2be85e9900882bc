//! Recordings of which nothing is there, as by a typing error in one of several names: each is an error.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::super::question::Question;
use super::{FILES, MOST_DEPTH, Recordings, each_file, folder, is_bucket};
use crate::record::TABLES;
use crate::record::parquet::VERSION;
use crate::record::table::Table;

/// Maximum number of folders that a notice names.
const MOST_NAMED: usize = 8;

/// True if a table in the folder of a version has a file.
pub(super) fn has_rows(version: &Path) -> bool {
    // The first one is enough.
    let has_file = |table: &Table| {
        each_file(&version.join(table.name), MOST_DEPTH, &mut |_| ControlFlow::Break(())).is_break()
    };
    TABLES.iter().any(|table| has_file(table))
}

/// The host of the recording in this folder, by the first file found; `None` without one.
fn host_of(root: &Path) -> Option<String> {
    let mut host = None;
    for table in TABLES {
        let _ = each_file(&root.join(VERSION).join(table.name), MOST_DEPTH, &mut |file| {
            let folder = file.parent().and_then(Path::file_name).and_then(|name| name.to_str());
            host = folder.and_then(|name| name.strip_prefix("host=")).map(str::to_owned);
            ControlFlow::Break(())
        });
        if host.is_some() {
            break;
        }
    }
    host
}

/// True if this user may not see what is in the recording of this folder.
pub(super) fn is_hidden(root: &Path) -> bool {
    let is_denied = |folder: &Path| {
        std::fs::read_dir(folder).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    };
    is_denied(root) || is_denied(&root.join(VERSION))
}

/// The folders with tables of other versions, which no question reads, of the recording in this folder.
pub(super) fn other_versions(root: &Path) -> Vec<PathBuf> {
    let is_version = |name: &str| {
        let number = name.strip_prefix('v').filter(|number| !number.is_empty());
        name != VERSION && number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let folders = std::fs::read_dir(root).into_iter().flatten().flatten();
    let folders = folders.filter(|entry| entry.file_name().to_str().is_some_and(is_version));
    let mut folders: Vec<PathBuf> =
        folders.map(|entry| entry.path()).filter(|folder| has_rows(folder)).collect();
    folders.sort();
    folders
}

/// The message that a bucket has nothing of a question.
fn nothing_in(root: &str, question: Question) -> String {
    format!(
        "no recording in {root}: no table that `{}` reads ({}) has a file there; `rocescope record` writes tables below {VERSION}/ of its folder, so check the name",
        question.name(),
        question.tables().join(", ")
    )
}

impl Recordings {
    /// A notice for each host whose recordings are in several of the folders: an answer takes them as one host, also
    /// where they are captures of several taps that one machine has recorded.
    pub fn hosts_in_several(&self) -> Vec<String> {
        let mut all: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for root in self.roots.iter().filter(|root| !is_bucket(root)) {
            if let Some(host) = host_of(Path::new(root)) {
                all.entry(host).or_default().push(root);
            }
        }
        let several = all.into_iter().filter(|(_, roots)| roots.len() > 1);
        several
            .map(|(host, roots)| {
                format!(
                    "{} folders have recordings of the host {host} ({} and {}): the answer takes them as one host; if they are captures of several taps, record each with a name of its own: rocescope record --read FILE --host NAME",
                    roots.len(),
                    roots[0],
                    roots[1]
                )
            })
            .collect()
    }

    /// A notice of the folders with tables of another version than those that are read.
    pub fn of_other_versions(&self) -> Option<String> {
        let (named, more) = self.others.split_at(self.others.len().min(MOST_NAMED));
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        (!named.is_empty()).then(|| {
            format!(
                "left out of the answer: {}{more}: tables of another version than {VERSION}, which this rocescope reads; ask about them with the rocescope that recorded them",
                named.join(", ")
            )
        })
    }

    /// Checks that each bucket has a table of the question.
    ///
    /// # Errors
    /// If one has no file of any, as far as the engine has said.
    pub fn none_is_empty(&self, question: Question) -> Result<(), String> {
        let is_empty = |root: &&String| {
            is_bucket(root)
                && question.tables().iter().all(|table| self.empty.contains(&pattern(root, table)))
        };
        self.roots.iter().find(is_empty).map_or(Ok(()), |root| Err(nothing_in(root, question)))
    }

    /// Statements for ClickHouse that fail where a bucket has no file of any table of the question: it reads such a
    /// bucket without an error.
    pub(super) fn checks(&self, question: Question) -> String {
        let of_root = |root: &String| {
            let tables = question.tables().iter().map(|table| {
                let file = pattern(root, table);
                format!("select 1 from s3('{file}', 'Parquet', 't DateTime64(9, \\'UTC\\')') limit 1")
            });
            let tables: Vec<String> = tables.collect();
            let error = nothing_in(root, question);
            format!(
                "select throwIf(count() = 0, '{error}') from ({}) format Null;\n",
                tables.join(" union all ")
            )
        };
        self.roots.iter().filter(|root| is_bucket(root)).map(of_root).collect()
    }
}

/// All files of a table in a bucket.
fn pattern(root: &str, table: &str) -> String {
    format!("{}{FILES}", folder(root, table))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fleet::question::Chosen;
    use crate::fleet::recording::Dialect;

    #[test]
    fn a_folder_without_a_file_is_no_recording() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["a", "b"] {
            fs::create_dir_all(root.path().join(folder).join("v1/flow_seconds/date=2025-11-22")).unwrap();
        }
        fs::write(root.path().join("a/v1/flow_seconds/date=2025-11-22/part.parquet"), "").unwrap();
        fs::write(root.path().join("b/v1/flow_seconds/date=2025-11-22/.part.tmp"), "").unwrap();
        let [a, b, all] = ["a", "b", "*"].map(|name| root.path().join(name).to_str().unwrap().to_owned());
        let error = Recordings::find(&[&a, &b]).unwrap_err();
        assert!(error.contains(&format!("no recording in {b}:")), "{error}");
        // A pattern names those that are recordings.
        assert_eq!(Recordings::find(&[&all]).unwrap().roots, [a]);
    }

    #[test]
    fn tables_of_another_version_are_named() {
        let root = tempfile::tempdir().unwrap();
        let recorded = |folder: &str| {
            fs::create_dir_all(root.path().join(folder)).unwrap();
            fs::write(root.path().join(folder).join("part.parquet"), "").unwrap();
        };
        // The last one is of another program.
        for folder in ["a/v1/steps", "a/v2/steps", "a/v10/steps", "a/view/steps", "b/v2/steps", "c/v2/lib"] {
            recorded(folder);
        }
        let [a, b, all] = ["a", "b", "*"].map(|name| root.path().join(name).to_str().unwrap().to_owned());
        let said = |sources: &[&String]| Recordings::find(sources).unwrap().of_other_versions().unwrap();
        let of =
            |folders: &str| format!("left out of the answer: {folders}: tables of another version than v1,");
        let own = format!("{a}/v10, {a}/v2");
        assert!(said(&[&a]).starts_with(&of(&own)), "{}", said(&[&a]));
        // A host of which there is nothing else is in no answer, and named all the same; once, however often matched.
        for sources in [&[&all][..], &[&a, &all, &all]] {
            assert!(said(sources).starts_with(&of(&format!("{own}, {b}/v2"))), "{}", said(sources));
        }
        let error = |source: &str| Recordings::find(&[source]).unwrap_err();
        assert!(error(&b).starts_with(&format!("no tables of version v1 in {b}, but v2: ")), "{}", error(&b));
        for n in 0..9 {
            recorded(&format!("d{n}/v2/steps"));
            recorded(&format!("d{n}/v3/steps"));
        }
        let many = root.path().join("d*").to_str().unwrap().to_owned();
        let expected = format!("no tables of version v1 in {many}, but v2, v3: ");
        assert!(error(&many).starts_with(&expected), "{}", error(&many));
        let said = said(&[&all]);
        assert!(said.contains("/d2/v2 and 13 more: tables of another version "), "{said}");
    }

    #[test]
    fn folders_of_the_version_that_is_read_need_no_notice() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["a/v1/steps", "b/v1/steps", "c"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
            fs::write(root.path().join(folder).join("part.parquet"), "").unwrap();
        }
        let all = root.path().join("*").to_str().unwrap().to_owned();
        assert_eq!(Recordings::find(&[&all]).unwrap().of_other_versions(), None);
    }

    #[test]
    fn folders_of_one_host_name_are_noticed() {
        let root = tempfile::tempdir().unwrap();
        for (folder, host) in [("a", "node1"), ("b", "node1"), ("c", "node2")] {
            let folder = root.path().join(folder).join("v1/steps/date=2025-11-22/hour=08");
            let folder = folder.join(format!("host={host}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("part.parquet"), "").unwrap();
        }
        let [a, b, c] = ["a", "b", "c"].map(|name| root.path().join(name).to_str().unwrap().to_owned());
        let notices = |roots: &[&String]| Recordings::find(roots).unwrap().hosts_in_several();
        let all = notices(&[&a, &b, &c]);
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].starts_with(&format!("2 folders have recordings of the host node1 ({a} and {b}): ")));
        assert!(all[0].ends_with("rocescope record --read FILE --host NAME"), "{all:?}");
        assert!(notices(&[&a, &c]).is_empty());
    }

    #[test]
    fn a_bucket_without_any_table_is_named() {
        let mut found = Recordings::find(&["s3://good", "s3://typo"]).unwrap();
        let of = |bucket: &str, table: &str| {
            format!("IO Error: No files found that match the pattern \"{}\"", pattern(bucket, table))
        };
        let question = Question::Slow;
        // The other bucket, and the table of another question, count for nothing.
        assert!(found.lacks(&of("s3://good", "link_seconds")) && found.lacks(&of("s3://typo", "steps")));
        let (last, others) = question.tables().split_last().unwrap();
        for table in others {
            assert!(found.lacks(&of("s3://typo", table)));
            assert_eq!(found.none_is_empty(question), Ok(()));
        }
        assert!(found.lacks(&of("s3://typo", last)));
        let error = found.none_is_empty(question).unwrap_err();
        assert!(error.contains("no recording in s3://typo: no table that `slow` reads"), "{error}");
        let sql = found.declare(question, &Chosen::default(), Dialect::ClickHouse);
        let checks: Vec<&str> = sql.lines().filter(|line| line.starts_with("select throwIf(")).collect();
        assert_eq!(checks.len(), 2, "{sql}");
        assert!(
            checks[1].contains("'no recording in s3://typo: ")
                && checks[1].contains("from s3('s3://typo/v1/qp_seconds/")
        );
        let sql = found.declare(question, &Chosen::default(), Dialect::DuckDb);
        assert!(!sql.contains("throwIf"), "{sql}");
    }
}
