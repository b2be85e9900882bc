//! Locations of the tables of recordings, and their declaration for an engine.

mod damaged;
mod roots;

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::question::{Chosen, Question};
use crate::record::TABLES;
use crate::record::cell::CellKind;
use crate::record::parquet::VERSION;
use crate::record::table::{Column, Table};
use crate::util::time::HOUR_NS;
use crate::util::units;

/// Maximum number of hours whose folders are listed one by one; for longer time ranges the engine gets all files.
const MOST_HOURS: u64 = 24 * 8;

/// Maximum depth of folders below that of a table, which are those of a date, an hour and a host: links may lead round.
const MOST_DEPTH: u32 = 8;

/// End of the pattern of all files below a folder.
const FILES: &str = "/**/*.parquet";

/// Addresses of buckets whose folders both engines list, with credentials of their own.
const BUCKETS: [&str; 2] = ["s3://", "gs://"];

/// Beginning of DuckDB's error that a pattern, which follows in quotes, matches no file.
pub(super) const NO_FILES: &str = "No files found that match the pattern \"";

/// The session that questions expect, as both engines accept it (ClickHouse from 26.4).
pub const SESSION: &str = "set time zone 'UTC';\n";

/// SQL dialect of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// DuckDB.
    DuckDb,
    /// ClickHouse.
    ClickHouse,
}

/// Folders of recordings, each with a folder of the schema version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recordings {
    roots: Vec<String>,
    /// Folders with tables of other versions, in these roots and in others that a pattern matches: no question reads
    /// them.
    others: Vec<String>,
    /// Patterns that match no file, as an engine says: the folders of a bucket are not listed here.
    empty: BTreeSet<String>,
    /// Files that are left out, as no engine can read them.
    damaged: BTreeSet<String>,
}

impl Recordings {
    /// Recordings named by folders, patterns of folders (`*` and `?`) and bucket URLs. One that is named twice is read
    /// once.
    ///
    /// # Errors
    /// If there is none, no engine can list it, or a name cannot be embedded in SQL.
    pub fn find<S: AsRef<str>>(sources: &[S]) -> Result<Self, String> {
        let mut all = Self::default();
        let mut known = BTreeSet::new();
        // A bucket has no path here.
        let place = |root: &String| fs::canonicalize(root).unwrap_or_else(|_| PathBuf::from(root));
        let mut is_new = |folder: &String| known.insert(place(folder));
        for source in sources {
            let new = Self::of(source.as_ref())?;
            all.roots.extend(new.roots.into_iter().filter(&mut is_new));
            all.others.extend(new.others.into_iter().filter(&mut is_new));
        }
        Ok(all)
    }

    /// The folders in which an engine reads files of this host.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.roots.iter().filter(|root| !is_bucket(root)).map(PathBuf::from).collect()
    }

    /// True if the error of an engine is that a table has no file, which is then left out: findings and events have
    /// none where there were none.
    pub fn lacks(&mut self, error: &str) -> bool {
        let pattern = error.split_once(NO_FILES);
        let pattern = pattern.and_then(|(_, rest)| rest.split_once('"'));
        pattern.is_some_and(|(pattern, _)| self.empty.insert(pattern.to_owned()))
    }

    fn of(text: &str) -> Result<Self, String> {
        if is_bucket(text) {
            let root = named(text.trim_end_matches('/').to_owned())?;
            return Ok(Self { roots: vec![root], ..Self::default() });
        }
        if text.contains("://") {
            return Err(format!(
                "no engine lists the folders of {text}: of addresses, those of buckets ({}) and of a ClickHouse server (http://) can be asked; mount it (rclone mount) and name the folder",
                BUCKETS.join(", ")
            ));
        }
        let folders = expand(text);
        let others: Vec<PathBuf> = folders.iter().flat_map(|root| roots::other_versions(root)).collect();
        let found: Vec<PathBuf> =
            folders.into_iter().filter(|root| roots::has_rows(&root.join(VERSION))).collect();
        if found.is_empty() && roots::is_hidden(Path::new(text)) {
            return Err(format!(
                "cannot read {text}: not permitted for this user; a recording is for its owner and group, so join the group, or change the mode of the folder and of {VERSION}"
            ));
        }
        if found.is_empty() && !others.is_empty() {
            let versions: BTreeSet<_> =
                others.iter().filter_map(|folder| folder.file_name()?.to_str()).collect();
            return Err(format!(
                "no tables of version {VERSION} in {text}, but {}: ask about them with the rocescope that recorded them",
                versions.into_iter().collect::<Vec<_>>().join(", ")
            ));
        }
        if found.is_empty() {
            return Err(format!(
                "no recording in {text}: `rocescope record` writes tables below {VERSION}/ of its folder, each file once it is complete; name that folder, or several with *"
            ));
        }
        let roots = found.into_iter().map(|root| {
            root.into_os_string()
                .into_string()
                .map_err(|name| format!("{} is not UTF-8", name.display()))
                .and_then(named)
        });
        let others = others.iter().map(|folder| folder.display().to_string()).collect();
        Ok(Self { roots: roots.collect::<Result<_, _>>()?, others, ..Self::default() })
    }

    /// SQL that declares the tables of a question for an engine.
    pub fn declare(&self, question: Question, chosen: &Chosen, dialect: Dialect) -> String {
        let session = match dialect {
            Dialect::DuckDb => SESSION,
            // Also before 26.4.
            Dialect::ClickHouse => {
                "set session_timezone = 'UTC', output_format_json_quote_64bit_integers = 0;\n"
            }
        };
        let checks = if dialect == Dialect::ClickHouse { self.checks(question) } else { String::new() };
        session.to_owned() + &self.views(question, chosen, dialect) + &checks
    }

    /// Comments that say to a reader how either engine gets the tables of a question.
    pub fn describe(&self, question: Question, chosen: &Chosen) -> String {
        let mut text = format!(
            "-- `{}` for DuckDB and for ClickHouse from 26.4 (before: set session_timezone = 'UTC').\n-- It reads tables of a recording: inserted ones, or these views of the files.\n",
            question.name()
        );
        for (name, dialect) in [("DuckDB", Dialect::DuckDb), ("ClickHouse", Dialect::ClickHouse)] {
            text.extend(["-- ", name, ":\n"]);
            self.views(question, chosen, dialect).lines().for_each(|line| text.extend(["-- ", line, "\n"]));
        }
        text
    }

    /// The tables of a question as views, each in a line.
    fn views(&self, question: Question, chosen: &Chosen, dialect: Dialect) -> String {
        let tables = TABLES.iter().filter(|table| question.tables().contains(&table.name));
        let view = |table: &&Table| {
            let files = self.files(table.name, chosen);
            let folders: Vec<&str> = files.iter().filter_map(|file| file.strip_suffix(FILES)).collect();
            let is_below = |file: &&String| folders.iter().any(|folder| file.starts_with(folder));
            let left_out: Vec<&String> = self.damaged.iter().filter(is_below).collect();
            let names = list(table, &files, &left_out, dialect);
            format!("{names}create view {} as {};\n", table.name, source(table, &files, &left_out, dialect))
        };
        tables.map(view).collect()
    }

    /// Patterns of a table's files in the time range.
    fn files(&self, table: &str, chosen: &Chosen) -> Vec<String> {
        let hours = hours(chosen);
        let of_root = |root: &String| {
            let folder = folder(root, table);
            let remote = is_bucket(root);
            match &hours {
                Some(hours) if !remote => {
                    let of_hours = hours.iter().map(|hour| format!("{folder}/{hour}"));
                    of_hours.filter(|folder| Path::new(folder).is_dir()).collect()
                }
                _ if remote || Path::new(&folder).is_dir() => vec![folder],
                _ => Vec::new(),
            }
        };
        let patterns = self.roots.iter().flat_map(of_root).map(|folder| format!("{folder}{FILES}"));
        patterns.filter(|pattern| !self.empty.contains(pattern)).collect()
    }
}

/// The folder of a table.
fn folder(root: &str, table: &str) -> String {
    format!("{root}/{VERSION}/{table}")
}

/// Passes the files below a folder that an engine would read, in no particular order, until `found` breaks. Like an
/// engine it follows links.
fn each_file(
    folder: &Path,
    depth: u32,
    found: &mut dyn FnMut(PathBuf) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Ok(entries) = fs::read_dir(folder) else { return ControlFlow::Continue(()) };
    for path in entries.flatten().map(|entry| entry.path()) {
        match fs::metadata(&path) {
            Ok(about) if about.is_dir() && depth > 0 => each_file(&path, depth - 1, found)?,
            Ok(about) if about.is_file() && path.extension().is_some_and(|end| end == "parquet") => {
                found(path)?;
            }
            _ => {}
        }
    }
    ControlFlow::Continue(())
}

fn is_bucket(name: &str) -> bool {
    BUCKETS.iter().any(|scheme| name.starts_with(scheme))
}

/// Checks that a name can be embedded in an SQL string.
fn named(root: String) -> Result<String, String> {
    if root.contains(['\'', '\\', '{', '}', '[', ']', '*', '?']) || root.chars().any(char::is_control) {
        return Err(format!(
            "cannot ask an engine for {root}: its name has a quote, backslash, bracket, wildcard or control character"
        ));
    }
    Ok(root)
}

/// The hour folders of a time range, if it is closed and short enough. A file is in the hour in which it begins, so
/// the hour before the range is included.
fn hours(chosen: &Chosen) -> Option<Vec<String>> {
    let (from, to) = (chosen.from_ns? / HOUR_NS, chosen.to_ns? / HOUR_NS);
    let from = from.saturating_sub(1);
    (to.checked_sub(from)? <= MOST_HOURS).then(|| {
        let folder = |hour: u64| {
            let time = units::time_utc(hour.saturating_mul(HOUR_NS));
            let part = |range| time.get(range).unwrap_or_default();
            format!("date={}/hour={}", part(0..10), part(11..13))
        };
        (from..=to).map(folder).collect()
    })
}

/// Names of files in an SQL list.
fn quoted<S: AsRef<str>>(names: &[S]) -> String {
    format!("'{}'", names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join("', '"))
}

/// The statement that lists the files of a table for DuckDB, whose patterns leave nothing out. Empty if they need not.
fn list(table: &Table, files: &[String], left_out: &[&String], dialect: Dialect) -> String {
    if dialect != Dialect::DuckDb || files.is_empty() || left_out.is_empty() {
        return String::new();
    }
    let files: Vec<String> = files.iter().map(|file| format!("select file from glob('{file}')")).collect();
    format!(
        "set variable {}_files = (select list(file) from ({}) files where file not in ({}));\n",
        table.name,
        files.join(" union all "),
        quoted(left_out)
    )
}

/// A query for the rows of a table in files. Columns missing from older files are null, and a table without files is
/// empty.
pub(super) fn source(table: &Table, files: &[String], left_out: &[&String], dialect: Dialect) -> String {
    let columns = || table.columns.iter().map(click_house).collect::<Vec<_>>().join(", ");
    match (dialect, files) {
        (Dialect::DuckDb, []) => empty(table),
        // Where all files are older, none has the column.
        (Dialect::DuckDb, files) => format!(
            "select * from read_parquet({}, union_by_name = true, hive_partitioning = false) union all by name {}",
            match left_out {
                [] => format!("[{}]", quoted(files)),
                _ => format!("getvariable('{}_files')", table.name),
            },
            empty(table)
        ),
        (Dialect::ClickHouse, []) => format!("select * from null('{}')", columns()),
        (Dialect::ClickHouse, files) => {
            // Relative paths are no names of its files.
            let absolute =
                |file: &&String| std::path::absolute(file).ok()?.into_os_string().into_string().ok();
            let others = match left_out.iter().filter_map(absolute).collect::<Vec<_>>().as_slice() {
                [] => String::new(),
                left_out => format!(" where _path not in ({})", quoted(left_out)),
            };
            let of = |file: &String| {
                let columns = columns();
                // `file` would look for the bucket among its own files, and find none without an error.
                if is_bucket(file) {
                    format!("select * from s3('{file}', 'Parquet', '{columns}')")
                } else {
                    format!("select * from file('{file}', Parquet, '{columns}'){others}")
                }
            };
            files.iter().map(of).collect::<Vec<_>>().join(" union all ")
        }
    }
}

/// DuckDB's query for no row, with all columns.
fn empty(table: &Table) -> String {
    let columns = table.columns.iter();
    let columns = columns.map(|column| format!("null::{} as {}", duck_db(column.kind), column.name));
    format!("select {} where false", columns.collect::<Vec<_>>().join(", "))
}

const fn duck_db(kind: CellKind) -> &'static str {
    match kind {
        CellKind::Time => "timestamptz",
        CellKind::Int => "bigint",
        CellKind::Float => "double",
        CellKind::Text => "varchar",
    }
}

fn click_house(column: &Column) -> String {
    let kind = match column.kind {
        CellKind::Time => "DateTime64(9, \\'UTC\\')",
        CellKind::Int => "Int64",
        CellKind::Float => "Float64",
        CellKind::Text => "String",
    };
    if column.nullable {
        format!("{} Nullable({kind})", column.name)
    } else {
        format!("{} {kind}", column.name)
    }
}

/// The paths that match a pattern, sorted.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from(if pattern.starts_with('/') { "/" } else { "" })];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        found = if part.contains(['*', '?']) {
            let matching = |folder: &PathBuf| {
                let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
                let names =
                    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
                let names = names.filter(|name| {
                    name.to_str().is_some_and(|name| matches(part.as_bytes(), name.as_bytes()))
                });
                let mut paths: Vec<PathBuf> = names.map(|name| folder.join(name)).collect();
                paths.sort();
                paths
            };
            found.iter().flat_map(matching).collect()
        } else {
            found.into_iter().map(|folder| folder.join(part)).collect()
        };
    }
    found
}

/// True if a name matches a pattern with `*` and `?`. As in a shell, a leading dot must be matched explicitly.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    fn from(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=name.len()).any(|at| from(rest, &name[at..])),
            ([b'?', rest @ ..], [_, name @ ..]) => from(rest, name),
            ([one, rest @ ..], [other, name @ ..]) => one == other && from(rest, name),
            _ => false,
        }
    }
    name.starts_with(b".") == pattern.starts_with(b".") && from(pattern, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::time::NS_PER_S;

    fn recording(folders: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in folders {
            fs::create_dir_all(root.path().join(folder)).unwrap();
            fs::write(root.path().join(folder).join("part.parquet"), "").unwrap();
        }
        root
    }

    #[test]
    fn folders_and_patterns_name_recordings() {
        let root = recording(&["a1/v1/steps", "a2/v1/steps", "b/v1/steps", "a3", ".a4/v1/steps"]);
        let path = root.path().to_str().unwrap();
        let find = |text: &str| Recordings::find(&[format!("{path}/{text}")]).map(|found| found.roots);
        assert_eq!(find("a*").unwrap(), [format!("{path}/a1"), format!("{path}/a2")]);
        assert_eq!(find("?/").unwrap(), [format!("{path}/b")]);
        let twice = ["a1", "a*", "a1/"].map(|name| format!("{path}/{name}"));
        assert_eq!(Recordings::find(&twice).unwrap().roots, [format!("{path}/a1"), format!("{path}/a2")]);
        assert!(find("a3").unwrap_err().contains("no recording in"));
        assert!(find("x*").is_err());
        assert_eq!(Recordings::find(&["s3://bucket/fleet/"]).unwrap().roots, ["s3://bucket/fleet"]);
        assert!(Recordings::find(&["s3://b'; drop table x"]).is_err());
        for address in ["https://host/fleet", "az://box/fleet", "file:///mnt/fleet"] {
            let error = Recordings::find(&[address]).unwrap_err();
            assert!(
                error.contains(address) && error.contains("s3://, gs://") && error.contains("mount"),
                "{error}"
            );
        }
    }

    #[test]
    fn files_of_a_time_range_are_those_of_its_hours_and_the_hour_before() {
        let day = "v1/flow_seconds/date=2025-11-22";
        let root =
            recording(&[&format!("{day}/hour=06"), &format!("{day}/hour=07"), &format!("{day}/hour=08")]);
        let path = root.path().to_str().unwrap();
        let found = Recordings::find(&[path]).unwrap();
        let at = 1_763_800_000; // 08:26:40
        let chosen =
            Chosen { from_ns: Some(at * NS_PER_S), to_ns: Some((at + 60) * NS_PER_S), ..Chosen::default() };
        let hour = |hour: &str| format!("{path}/{day}/hour={hour}/**/*.parquet");
        assert_eq!(found.files("flow_seconds", &chosen), [hour("07"), hour("08")]);
        let open = Chosen { to_ns: None, ..chosen };
        assert_eq!(found.files("flow_seconds", &open), [format!("{path}/v1/flow_seconds/**/*.parquet")]);
        assert!(found.files("steps", &open).is_empty());
    }

    #[test]
    fn every_table_has_a_source_for_every_engine() {
        let root = recording(&["v1/flow_seconds"]);
        let found = Recordings::find(&[root.path().to_str().unwrap()]).unwrap();
        let sql = found.declare(Question::Jobs, &Chosen::default(), Dialect::DuckDb);
        assert!(sql.contains("create view flow_seconds as select * from read_parquet(['/"), "{sql}");
        assert!(sql.contains("create view steps as select null::timestamptz as t, "), "{sql}");
        // All columns, whatever the files have.
        assert!(
            sql.contains(" union all by name select null::timestamptz as t, null::bigint as interval_ns, "),
            "{sql}"
        );
        let sql = found.declare(Question::Jobs, &Chosen::default(), Dialect::ClickHouse);
        assert!(
            sql.contains(
                "Parquet, 't DateTime64(9, \\'UTC\\'), interval_ns Int64, host String, job Nullable(String)"
            ),
            "{sql}"
        );
        assert!(sql.contains("create view steps as select * from null('t "), "{sql}");
        assert!(!sql.contains("view link_seconds"), "{sql}");
    }

    #[test]
    fn buckets_are_read_by_the_functions_that_list_them() {
        let mut found = Recordings::find(&["s3://bucket/fleet", "gs://other"]).unwrap();
        let at = Chosen {
            from_ns: Some(1_763_800_000 * NS_PER_S),
            to_ns: Some(1_763_800_060 * NS_PER_S),
            ..Chosen::default()
        };
        let of = |dialect| found.declare(Question::Timeline, &at, dialect);
        let file = "s3://bucket/fleet/v1/flow_seconds/**/*.parquet";
        let duck = of(Dialect::DuckDb);
        let files = format!("read_parquet(['{file}', 'gs://other/v1/flow_seconds/**/*.parquet'], ");
        assert!(duck.contains(&files), "{duck}");
        let click = of(Dialect::ClickHouse);
        assert!(click.contains(&format!("from s3('{file}', 'Parquet', 't DateTime64(9, ")), "{click}");
        assert!(click.contains(" union all select * from s3('gs://other/v1/flow_seconds/"), "{click}");
        assert!(!click.contains("file("), "{click}");
        let error = "duckdb: IO Error: No files found that match the pattern \"gs://other/v1/flow_seconds/**/*.parquet\" LINE 1";
        assert!(found.lacks(error) && !found.lacks(error) && !found.lacks("IO Error: gone"));
        let duck = found.declare(Question::Timeline, &at, Dialect::DuckDb);
        assert!(duck.contains(&format!("read_parquet(['{file}'], ")), "{duck}");
    }

    #[test]
    fn what_is_printed_for_every_engine_has_the_tables_in_comments() {
        let root = recording(&["v1/flow_seconds"]);
        let found = Recordings::find(&[root.path().to_str().unwrap()]).unwrap();
        let text = found.describe(Question::Timeline, &Chosen::default());
        assert!(text.lines().all(|line| line.starts_with("-- ")), "{text}");
        for dialect in [Dialect::DuckDb, Dialect::ClickHouse] {
            let views = found.declare(Question::Timeline, &Chosen::default(), dialect);
            for view in views.lines().filter(|line| line.starts_with("create")) {
                assert!(text.contains(&format!("\n-- {view}\n")), "{view}\n{text}");
            }
        }
    }

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name) in [("*", "abc"), ("a*c", "abbc"), ("a?c", "abc"), ("*b*", "abc"), (".*", ".x")] {
            assert!(matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        for (pattern, name) in [("*", ".x"), ("a?c", "ac"), ("a", "ab"), ("?", "")] {
            assert!(!matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
    }
}
