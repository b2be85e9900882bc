//! Files that keep an engine from an answer: half copied, damaged, or removed after it had listed them.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::{FILES, MOST_DEPTH, Recordings, each_file, is_bucket};
use crate::fleet::question::{Chosen, Question};
use crate::record::TABLES;
use crate::record::check::{fault, page_fault};

/// Maximum number of files that are left out. More are no accident, and the statement would become long.
const MOST: usize = 100;
/// Parts of the errors of both engines that are about a file: its name, its format, its data.
const OF_FILES: [&str; 4] = ["arquet", "TProtocol", "IO Error", "FILE_DOESNT_EXIST"];
/// Parts of those that are about a file which is no longer there.
const GONE: [&str; 2] = ["No such file or directory", "FILE_DOESNT_EXIST"];

impl Recordings {
    /// Finds out why an engine could not read its files, leaves damaged ones out from now on, and returns each with the
    /// reason. `None`: for no such reason, and it will fail again. An empty list: a file was removed while it read.
    pub fn leave_out_damaged(
        &mut self,
        question: Question,
        chosen: &Chosen,
        error: &str,
    ) -> Option<Vec<(PathBuf, String)>> {
        if !OF_FILES.iter().any(|part| error.contains(part)) {
            return None;
        }
        #[cfg(feature = "test-clock")]
        crate::util::hijack::here("damaged");
        let mut damaged = Vec::new();
        for table in TABLES.iter().filter(|table| question.tables().contains(&table.name)) {
            for pattern in self.files(table.name, chosen) {
                let Some(folder) = pattern.strip_suffix(FILES).filter(|folder| !is_bucket(folder)) else {
                    continue;
                };
                let (before, mut others) = (damaged.len(), 0);
                let _all = each_file(Path::new(folder), MOST_DEPTH, &mut |path| {
                    let is_known = path.to_str().is_some_and(|path| self.damaged.contains(path));
                    // Reading all values of all files would take as long as the question.
                    let is_named = path.to_str().is_some_and(|path| error.contains(path));
                    let of_pages = || File::open(&path).ok().filter(|_| is_named).and_then(page_fault);
                    match (!is_known).then(|| File::open(&path).ok().and_then(fault).or_else(of_pages)) {
                        Some(Some(reason)) => damaged.push((path, reason)),
                        Some(None) => others += 1,
                        None => {}
                    }
                    ControlFlow::Continue(())
                });
                if damaged.len() > before && others == 0 {
                    self.empty.insert(pattern);
                }
            }
        }
        if damaged.is_empty() {
            return GONE.iter().any(|part| error.contains(part)).then(Vec::new);
        }
        let name =
            |(path, _): &(PathBuf, String)| path.to_str().filter(|name| is_plain(name)).map(str::to_owned);
        let names: Vec<String> = damaged.iter().map(name).collect::<Option<_>>()?;
        self.damaged.extend(names);
        (self.damaged.len() <= MOST).then_some(damaged)
    }
}

/// True if a name can be embedded in an SQL string.
fn is_plain(name: &str) -> bool {
    !name.contains(['\'', '\\']) && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fleet::recording::Dialect;
    use crate::record::parquet::encode;
    use crate::record::parquet_tests::link;
    use crate::record::registry::{FlowSecond, LinkSecond};

    const DUCK_DB: &str = "Invalid Input Error: No magic bytes found at end of file '/x/y.parquet'";
    const CLICK_HOUSE: &str = "Code: 117. DB::Exception: Not a Parquet file (wrong magic bytes at the end of file): (in file/uri /x/y.parquet)";
    const REMOVED: [&str; 2] = [
        "IO Error: Cannot open file \"/x/y.parquet\": No such file or directory",
        "Code: 107. DB::Exception: File /x/y.parquet doesn't exist: While executing File. (FILE_DOESNT_EXIST)",
    ];

    #[test]
    fn damaged_files_are_left_out_and_removed_ones_are_no_obstacle() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("v1/flow_seconds/date=2025-11-22/hour=08/host=a");
        fs::create_dir_all(&folder).unwrap();
        let whole = encode::<FlowSecond>(&[]).unwrap();
        fs::write(folder.join("part-1-a.parquet"), &whole).unwrap();
        let mut found = Recordings::find(&[root.path().to_str().unwrap()]).unwrap();
        let chosen = Chosen::default();
        let mut ask = |error: &str| found.leave_out_damaged(Question::Timeline, &chosen, error);
        for error in REMOVED {
            assert_eq!(ask(error), Some(Vec::new()), "{error}");
        }
        for error in [DUCK_DB, "Out of Memory Error: failed to allocate", "Binder Error: no column x"] {
            assert_eq!(ask(error), None, "{error}");
        }
        // Names of programs that copy are not read by an engine.
        for (name, length) in
            [("part-2-a.parquet", whole.len() / 2), (".part-3-a.tmp", 9), ("part-4-a.parquet.partial", 9)]
        {
            fs::write(folder.join(name), &whole[..length]).unwrap();
        }
        fs::write(folder.join("part-5-a.parquet"), b"").unwrap();
        let mut out = ask(CLICK_HOUSE).unwrap();
        out.sort();
        let names: Vec<_> = out.iter().map(|(path, _)| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["part-2-a.parquet", "part-5-a.parquet"]);
        assert_eq!(ask(DUCK_DB), None, "they are left out already");
        let [duck, click] = [Dialect::DuckDb, Dialect::ClickHouse]
            .map(|dialect| found.declare(Question::Timeline, &chosen, dialect));
        let damaged = format!("'{}', '{}')", out[0].0.display(), out[1].0.display());
        assert!(
            duck.contains(&format!("/v1/flow_seconds/**/*.parquet')) files where file not in ({damaged}")),
            "{duck}"
        );
        assert!(duck.contains("read_parquet(getvariable('flow_seconds_files'), "), "{duck}");
        assert!(click.contains(&format!(" where _path not in ({damaged}")), "{click}");
        // Of nothing but damaged files, no row is known.
        fs::remove_file(folder.join("part-1-a.parquet")).unwrap();
        fs::write(folder.join("part-6-a.parquet"), b"PAR1PAR1").unwrap();
        assert_eq!(found.leave_out_damaged(Question::Timeline, &chosen, DUCK_DB).unwrap().len(), 1);
        let duck = found.declare(Question::Timeline, &chosen, Dialect::DuckDb);
        assert!(duck.contains("create view flow_seconds as select null::timestamptz as t, "), "{duck}");
    }

    /// The metadata are in order, and the engine names the file.
    #[test]
    fn a_file_with_damaged_values_is_left_out_if_an_engine_names_it() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("v1/link_seconds/date=2025-11-22/hour=08/host=a");
        fs::create_dir_all(&folder).unwrap();
        let rows: Vec<LinkSecond> = (0..5_000).map(link).collect();
        let whole = encode(&rows).unwrap();
        let (good, bad) = (folder.join("part-1-a.parquet"), folder.join("part-2-a.parquet"));
        fs::write(&good, &whole).unwrap();
        // In the first page, behind its header.
        let mut damaged = whole;
        damaged[100..140].fill(0xFF);
        fs::write(&bad, &damaged).unwrap();
        let mut found = Recordings::find(&[root.path().to_str().unwrap()]).unwrap();
        let mut ask = |path: &Path| {
            let error = format!("Failed to read file \"{}\": LZ4 decompression failure", path.display());
            found.leave_out_damaged(Question::Loss, &Chosen::default(), &error)
        };
        assert_eq!(ask(&good), None, "the engine has another reason");
        let out = ask(&bad).unwrap();
        assert_eq!(out.iter().map(|(path, _)| path).collect::<Vec<_>>(), [&bad]);
    }

    #[test]
    fn too_many_damaged_files_are_an_error() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("v1/flow_seconds");
        fs::create_dir_all(&folder).unwrap();
        for n in 0..=MOST {
            fs::write(folder.join(format!("part-{n}-a.parquet")), b"PAR1").unwrap();
        }
        let mut found = Recordings::find(&[root.path().to_str().unwrap()]).unwrap();
        assert_eq!(found.leave_out_damaged(Question::Timeline, &Chosen::default(), DUCK_DB), None);
    }
}
