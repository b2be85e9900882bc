//! Runs SQL on an engine: a program on this host, or a server.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use super::Row;
use super::excerpt::first_lines;
use super::recording::Dialect;
use super::server::{Client, ask};

/// Programs in order of preference.
const PROGRAMS: [&str; 3] = ["duckdb", "clickhouse", "clickhouse-local"];

/// Longest time between two looks at a program that runs.
const LOOK: Duration = Duration::from_millis(10);

/// Remedy if no engine is found.
const REMEDY: &str = "install DuckDB (one program: `duckdb`, or the Python package duckdb-cli) or ClickHouse (`clickhouse`), name it with \
                      --engine, or give the URL of a ClickHouse server (http://HOST:8123/DATABASE) in place of the folder; `--print-sql` \
                      prints the SQL for any other engine";

/// An SQL engine.
#[derive(Debug)]
pub enum Engine {
    /// A program that reads SQL from standard input.
    Program(PathBuf, Dialect),
    /// A ClickHouse server with the tables.
    Server(Client),
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(path, _) => write!(f, "{}", path.display()),
            Self::Server(server) => write!(f, "{server}"),
        }
    }
}

impl Engine {
    /// Finds the program `wanted`, or else the first known program in the folders of `path`.
    ///
    /// # Errors
    /// If none is found; the message names the remedy.
    pub fn find(wanted: Option<&Path>, path: Option<&OsStr>) -> Result<Self, String> {
        let folders: Vec<PathBuf> =
            path.map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
        let look = |name: &Path| {
            let places = folders.iter().map(|folder| folder.join(name));
            // A name with a folder is not searched for.
            let places = name
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
                .map(|_| name.to_owned())
                .into_iter()
                .chain(places);
            places.into_iter().find(|path| path.is_file())
        };
        let found = match wanted {
            Some(name) => look(name).ok_or_else(|| format!("no engine {}: {REMEDY}", name.display()))?,
            None => (PROGRAMS.iter().find_map(|name| look(Path::new(name))))
                .ok_or_else(|| format!("no engine for questions on PATH: {REMEDY}"))?,
        };
        let dialect = dialect_of(&found);
        Ok(Self::Program(found, dialect))
    }

    /// Runs statements that only declare, then questions, and gives their answers, unread. A program is ended once
    /// `stop` is true: it would go on reading for minutes, with nobody to tell.
    ///
    /// # Errors
    /// The engine cannot be started or reached, refuses the SQL, or was ended.
    pub fn ask(
        &self,
        declarations: &str,
        questions: &[String],
        stop: &dyn Fn() -> bool,
    ) -> Result<Answers, String> {
        let texts = match self {
            Self::Program(path, dialect) => {
                let script = format!("{declarations}{};\n", questions.join(";\n"));
                vec![program(path, *dialect, &script, stop)?]
            }
            Self::Server(server) => {
                questions.iter().map(|question| ask(server, question)).collect::<Result<_, _>>()?
            }
        };
        Ok(Answers { engine: self.to_string(), texts })
    }
}

/// Answers of an engine, not parsed yet.
#[derive(Debug)]
pub struct Answers {
    engine: String,
    texts: Vec<Vec<u8>>,
}

impl Answers {
    /// The rows of all answers, in order.
    ///
    /// # Errors
    /// An answer is no JSON, or something other than rows.
    pub fn rows(&self) -> Result<Vec<Row>, String> {
        #[cfg(feature = "test-clock")]
        crate::util::hijack::here("fleet");
        let mut rows = Vec::new();
        for text in &self.texts {
            rows.extend(parse(text).map_err(|error| format!("{}: {error}", self.engine))?);
        }
        Ok(rows)
    }
}

/// The SQL dialect of a program, by its name.
pub fn dialect_of(program: &Path) -> Dialect {
    let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    if name.starts_with("clickhouse") { Dialect::ClickHouse } else { Dialect::DuckDb }
}

fn program(path: &Path, dialect: Dialect, script: &str, stop: &dyn Fn() -> bool) -> Result<Vec<u8>, String> {
    let mut command = Command::new(path);
    match dialect {
        // Ignore the user's settings, which could change results or their format.
        Dialect::DuckDb => command.args(["-init", "/dev/null", "-batch", "-bail", "-json"]),
        Dialect::ClickHouse => {
            if !path.ends_with("clickhouse-local") {
                command.arg("local");
            }
            command.args(["--output-format", "JSONEachRow"])
        }
    };
    let name = path.display();
    let mut child = (command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn())
        .map_err(|error| format!("cannot start {name}: {error}"))?;
    // The script fits into the pipe buffer, so that writing cannot deadlock with the output.
    let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(script.as_bytes()));
    let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if stop() => {
                // One that has just ended is past being killed.
                let _ = child.kill().and_then(|()| child.wait());
                return Err(format!("{name}: stopped by a signal before it had an answer"));
            }
            Ok(None) => std::thread::sleep(LOOK),
            Err(error) => return Err(format!("cannot wait for {name}: {error}")),
        }
    };
    let read = |output: JoinHandle<io::Result<Vec<u8>>>| {
        let output = output.join().unwrap_or_else(|_| Err(io::Error::other("its reader failed")));
        output.map_err(|error| format!("cannot read from {name}: {error}"))
    };
    let (stdout, stderr) = (read(out)?, read(err)?);
    if !status.success() {
        return Err(format!("{name}: {} ({status})", first_lines(&stderr)));
    }
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            return Err(format!("cannot write to {name}: {error}"));
        }
        _ => {}
    }
    Ok(stdout)
}

/// Reads a pipe to its end, so that who writes into it never waits.
fn reader(pipe: Option<impl io::Read + Send + 'static>) -> JoinHandle<io::Result<Vec<u8>>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes))?;
        Ok(bytes)
    })
}

/// Parses rows as both engines write them: objects, or arrays of objects.
fn parse(text: &[u8]) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for value in serde_json::Deserializer::from_slice(text).into_iter::<Value>() {
        let value =
            value.map_err(|error| format!("the result is no JSON ({error}): {}", first_lines(text)))?;
        let values = if let Value::Array(values) = value { values } else { vec![value] };
        for value in values {
            match value {
                Value::Object(row) => rows.push(row),
                other => return Err(format!("the result has {other} in place of a row")),
            }
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::recording::NO_FILES;
    use std::os::unix::fs::PermissionsExt as _;

    /// Creates a program of this name that runs a script.
    fn fake(folder: &Path, name: &str, script: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn rows_of_both_engines_are_read() {
        for text in ["[{\"a\":1},\n{\"a\":2}]\n[]\n[{\"a\":3}]", "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n"] {
            let rows = parse(text.as_bytes()).unwrap();
            assert_eq!(rows.iter().map(|row| row["a"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
        }
        assert!(parse(b"[1]").unwrap_err().contains("in place of a row"));
        assert!(parse(b"[{]").unwrap_err().contains("no JSON"));
        assert!(parse(b"").unwrap().is_empty());
    }

    #[test]
    fn the_first_engine_on_the_path_is_used_and_none_says_how_to_get_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().as_os_str();
        let error = Engine::find(None, Some(path)).unwrap_err();
        assert!(error.contains("install DuckDB") && error.contains("http://HOST:8123"), "{error}");
        assert!(
            Engine::find(Some(Path::new("nothere")), Some(path)).unwrap_err().contains("no engine nothere")
        );
        let click = fake(folder.path(), "clickhouse", "");
        assert!(
            matches!(Engine::find(None, Some(path)), Ok(Engine::Program(found, Dialect::ClickHouse)) if found == click)
        );
        let duck = fake(folder.path(), "duckdb", "");
        assert!(
            matches!(Engine::find(None, Some(path)), Ok(Engine::Program(found, Dialect::DuckDb)) if found == duck)
        );
        assert!(matches!(Engine::find(Some(&click), None), Ok(Engine::Program(_, Dialect::ClickHouse))));
    }

    #[test]
    fn a_program_gets_the_sql_on_standard_input_and_its_error_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let echo = fake(
            folder.path(),
            "duckdb",
            "sql=$(cat); echo \"[{\\\"sql\\\": \\\"$sql\\\", \\\"args\\\": \\\"$*\\\"}]\"",
        );
        let rows =
            Engine::Program(echo, Dialect::DuckDb)
                .ask("", &["select 1".into(), "select 2".into()], &|| false);
        let rows = rows.unwrap().rows().unwrap_err();
        assert!(rows.contains("no JSON") && rows.contains("select 1;"), "{rows}");
        let bad =
            fake(folder.path(), "clickhouse", "cat >/dev/null; echo 'Code: 60. Unknown table' >&2; exit 60");
        let error =
            Engine::Program(bad, Dialect::ClickHouse).ask("", &["select 1".into()], &|| false).unwrap_err();
        assert!(error.contains("Code: 60. Unknown table") && error.contains("exit status: 60"), "{error}");
        // Longer than most errors are shown.
        let pattern = format!("s3://bucket/{}/v1/steps/**/*.parquet", "folder".repeat(150));
        let error = format!("IO Error: {NO_FILES}{pattern}\"\n\nLINE 1: {}", "select ".repeat(200));
        let shown = first_lines(error.as_bytes());
        assert!(shown.ends_with(&format!("{pattern}\"")), "{shown}");
        assert!(first_lines(error.replace(NO_FILES, "").as_bytes()).len() == 400);
        let gone = Engine::Program(folder.path().join("none"), Dialect::DuckDb)
            .ask("", &[String::new()], &|| false)
            .unwrap_err();
        assert!(gone.contains("cannot start"), "{gone}");
    }
}
