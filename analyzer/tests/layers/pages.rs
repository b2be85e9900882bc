//! What pages say of the source: paths of files, and lines of code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::source::{code, files, is_test, without_tests};

/// ARCHITECTURE.md and the pages of docs/, by name.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ARCHITECTURE.md");
    let all = files("../docs", "md").into_iter();
    all.chain([("ARCHITECTURE.md".to_owned(), std::fs::read_to_string(root).unwrap())]).collect()
}

/// Modules of the crates, and the text of each file under its module.
fn modules() -> BTreeMap<String, String> {
    let all = ["src", "../analyzer-common/src", "../analyzer-ebpf/src"]
        .into_iter()
        .flat_map(|src| files(src, "rs"));
    let name = |path: String| path.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
    all.map(|(path, text)| (name(path), text)).collect()
}

/// True if a path of names leads to a module, to an item of one, or to a part of that.
fn leads(modules: &BTreeMap<String, String>, path: &str) -> bool {
    let names: Vec<&str> = path.split("::").collect();
    let longest = (1..=names.len()).rev().find_map(|n| Some((n, modules.get(&names[..n].join("::"))?)));
    longest.is_some_and(|(n, text)| {
        names.get(n).is_none_or(|item| {
            text.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == *item)
        })
    })
}

#[test]
fn pages_name_files_and_modules_that_exist() {
    const ROOTS: [&str; 6] = ["analyzer/", "analyzer-common/", "analyzer-ebpf/", "tests/", "xtask/", "fuzz/"];
    let (modules, root) = (modules(), Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    let tops: BTreeSet<&str> = modules.keys().map(|name| name.split("::").next().unwrap()).collect();
    let mut wrong = Vec::new();
    for (page, text) in pages() {
        let in_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
        let words = text.split(|c: char| !in_path(c)).map(|word| word.trim_end_matches(['.', '/']));
        let paths = words.filter(|word| ROOTS.iter().any(|start| word.starts_with(start)));
        wrong.extend(paths.filter(|path| !root.join(path).exists()).map(|path| format!("{page}: {path}")));
        // In code, between backticks.
        for path in text.split('`').skip(1).step_by(2).filter(|path| path.contains("::")) {
            let path = path.trim_end_matches("()");
            let is_path = path.chars().all(|c| c.is_alphanumeric() || matches!(c, ':' | '_'));
            let starts = tops.contains(path.split("::").next().unwrap());
            if is_path && starts && !leads(&modules, path) {
                wrong.push(format!("{page}: {path}"));
            }
        }
    }
    assert!(wrong.is_empty(), "pages name what does not exist:\n{}", wrong.join("\n"));
}

/// `CAP_SYS_PTRACE` of `SysPtrace`.
fn capability(name: &str) -> String {
    let words = name.chars().flat_map(|c| c.is_uppercase().then_some('_').into_iter().chain([c]));
    format!("CAP{}", words.collect::<String>().to_uppercase())
}

/// Nothing keeps a capability of which the page of privileges does not say who does, and for what.
#[test]
fn the_page_of_privileges_has_every_capability_that_a_thread_keeps() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/security.md")).unwrap();
    let (_, section) = page.split_once("## What each command keeps\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let mut kept = BTreeSet::new();
    for (path, text) in files("src", "rs").into_iter().filter(|(path, _)| !is_test(path)) {
        // The sandbox itself adds those for files of others.
        let mark = if path.starts_with("sandbox/") { "(Capability::" } else { "keeping(Capability::" };
        let code: String = code(without_tests(&text)).split_whitespace().collect();
        let names =
            code.split(mark).skip(1).filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next());
        kept.extend(names.map(capability));
    }
    assert!(kept.len() > 7, "{kept:?}");
    let missing: Vec<&String> = kept.iter().filter(|name| !section.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "docs/security.md does not say who keeps {missing:?}, and for what");
}

/// The page with the lines of code of today, in hundreds, in the third column of its table. No test compares them: they
/// would differ after nearly every change.
pub(super) fn with_lines(page: &str) -> String {
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for (src, part) in [
        ("src", ""),
        ("../analyzer-common/src", "analyzer-common"),
        ("../analyzer-ebpf/src", "analyzer-ebpf"),
        ("../xtask/src", "xtask"),
    ] {
        for (path, text) in files(src, "rs").into_iter().filter(|(path, _)| !is_test(path)) {
            let part = if part.is_empty() { super::module(&path) } else { part };
            let count = code(without_tests(&text)).lines().filter(|line| !line.trim().is_empty()).count();
            *lines.entry(part.to_owned()).or_default() += count;
        }
    }
    let (before, table) = page.split_once("<!-- lines -->\n").unwrap();
    let rows = table.split_inclusive('\n').map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        let [_, part, then, _, folders, _] = cells[..] else { return row.to_owned() };
        let named =
            folders.split('`').skip(1).step_by(2).map(|folder| lines.get(folder).copied().unwrap_or(0));
        let count = if part.trim() == "all" { lines.values().sum() } else { named.sum::<usize>() };
        let hundreds = count.div_ceil(50) / 2 * 100;
        let now = if hundreds < 1_000 {
            hundreds.to_string()
        } else {
            format!("{},{:03}", hundreds / 1_000, hundreds % 1_000)
        };
        if count == 0 { row.to_owned() } else { format!("|{part}|{then}| {now} |{folders}|\n") }
    });
    format!("{before}<!-- lines -->\n{}", rows.collect::<String>())
}
