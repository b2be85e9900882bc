//! The graph of the top-level modules of `analyzer/src`: each may import those that its rule names, and nothing else;
//! and that of the files within each, which has no circle.
//!
//! Paths are read from the source text, so that features and platforms do not matter. Tests are not held to the rules.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;

#[path = "support/source.rs"]
#[allow(dead_code, missing_docs, unreachable_pub, reason = "shared with other tests")]
mod source;
use source::{files, is_test, without_tests};

#[path = "layers/circles.rs"]
mod circles;
#[path = "layers/pages.rs"]
mod pages;

/// A module, and the modules that it imports. `cli` and the entry points may import all, and nothing imports them.
const RULES: &[(&str, &[&str])] = &[
    ("util", &[]),
    ("ethernet", &["util"]),
    ("host", &["ethernet", "util"]),
    ("entity", &["ethernet", "host", "util"]),
    ("metrics", &["entity", "ethernet", "util"]),
    ("sample", &["entity", "metrics", "util"]),
    ("packet", &["sample", "util"]),
    ("filter", &["sample", "util"]),
    ("analysis", &["entity", "ethernet", "metrics", "sample", "util"]),
    ("findings", &["analysis", "entity", "metrics", "sample", "util"]),
    ("report", &["analysis", "ethernet", "findings", "metrics", "sample", "util"]),
    ("diff", &["findings", "metrics", "util"]),
    ("export", &["analysis", "entity", "findings", "host", "metrics", "report", "sample", "sandbox", "util"]),
    ("model", &["analysis", "findings", "metrics", "report", "sample", "util"]),
    ("record", &["analysis", "findings", "metrics", "model", "report", "sample", "sandbox", "util"]),
    ("share", &["analysis", "findings", "metrics", "model", "packet", "report", "sample", "util"]),
    ("fleet", &["findings", "record", "share", "util"]),
    (
        "flight",
        &[
            "analysis", "findings", "model", "packet", "record", "report", "sample", "sandbox", "share",
            "source", "util",
        ],
    ),
    ("sandbox", &["host", "util"]),
    ("doctor", &["ethernet", "host", "util"]),
    (
        "source",
        &["doctor", "entity", "ethernet", "filter", "host", "metrics", "record", "sample", "sandbox", "util"],
    ),
    ("bench", &["host", "source", "util"]),
    (
        "tui",
        &[
            "analysis", "entity", "filter", "findings", "metrics", "model", "packet", "report", "sample",
            "sandbox", "source", "util",
        ],
    ),
];

/// Crates that only these files and folders may use.
const CRATES: &[(&str, &[&str])] = &[
    ("aya", &["source/live/", "bench/"]),
    ("aya_log", &["source/live/", "bench/"]),
    ("crossterm", &["tui/runtime/", "cli/output.rs"]),
    // Everything else has its maps from `util::map`.
    ("foldhash", &["util/map.rs"]),
    ("clap_complete", &["cli/"]),
    ("clap_mangen", &["cli/"]),
    ("landlock", &["sandbox/"]),
    ("seccompiler", &["sandbox/"]),
    ("jiff", &["util/units.rs", "source/replay/time.rs", "export/otlp/queue.rs"]),
    // The module of this name hides it from all others.
    ("parquet", &["record/"]),
    ("prost", &["export/otlp/"]),
    (
        "ureq",
        &[
            "export/otlp/",
            "record/clickhouse.rs",
            "util/clickhouse.rs",
            "util/names.rs",
            "util/request.rs",
            "fleet/server.rs",
        ],
    ),
    ("textwrap", &["util/"]),
    ("bcrypt", &["export/web/"]),
    ("saphyr", &["export/web/"]),
    ("tokio", &["source/live/", "export/serve.rs", "export/views.rs", "export/web/"]),
    ("tokio_rustls", &["export/web/", "util/request.rs"]),
    ("rustls_native_certs", &["util/request.rs"]),
    ("anstream", &["util/style.rs"]),
    ("anstyle", &["util/style.rs"]),
];

/// The code of every file, without comments, strings and tests.
fn code() -> &'static BTreeMap<String, String> {
    static CODE: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    CODE.get_or_init(|| {
        let sources = files("src", "rs").into_iter().filter(|(path, _)| !is_test(path));
        sources.map(|(path, text)| (path, source::code(without_tests(&text)))).collect()
    })
}

/// The paths in `code` that begin with `crate::`, up to four names each; groups at the first level are resolved.
fn imports(code: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let end = group.find("};").unwrap_or(group.len());
            let names = group[..end].split(',').map(str::trim).filter(|name| !name.is_empty());
            all.extend(names.map(|name| format!("crate::{}", name.replace(['{', '}'], ""))));
            continue;
        }
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
        let path: Vec<&str> = rest[..end].split("::").filter(|name| !name.is_empty()).take(4).collect();
        all.push(format!("crate::{}", path.join("::")));
    }
    all
}

fn module(path: &str) -> &str {
    path.split('/').next().unwrap().trim_end_matches(".rs")
}

fn target(import: &str) -> &str {
    import.split("::").nth(1).unwrap()
}

/// Imports of each module from the others.
fn edges() -> BTreeMap<&'static str, BTreeMap<String, &'static str>> {
    let modules: BTreeSet<&str> = RULES.iter().map(|(name, _)| *name).chain(["cli"]).collect();
    let mut edges: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for (path, code) in code() {
        let own = module(path);
        assert!(modules.contains(own) || ["lib", "main"].contains(&own), "{path}: a module without a rule");
        let imports = imports(code);
        // Anything but a module is an item or a macro of the crate.
        let others =
            imports.iter().map(|import| target(import)).filter(|to| *to != own && modules.contains(to));
        edges.entry(own).or_default().extend(others.map(|to| (to.to_owned(), path.as_str())));
    }
    edges
}

#[test]
fn modules_import_what_their_rule_names() {
    let edges = edges();
    let mut wrong = Vec::new();
    for (name, rule) in RULES {
        let imports = &edges[name];
        let against = imports.iter().filter(|(to, _)| !rule.contains(&to.as_str()));
        wrong.extend(against.map(|(to, path)| format!("{path} imports {to}")));
        let unused = rule.iter().filter(|to| !imports.contains_key(**to));
        wrong.extend(unused.map(|to| format!("{name} has a rule for {to}, and does not import it")));
    }
    assert!(wrong.is_empty(), "against the rules of ARCHITECTURE.md:\n{}", wrong.join("\n"));
}

/// The modules by level: each imports those of lower levels only.
fn levels() -> Vec<Vec<&'static str>> {
    let edges = edges();
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    let mut levels = Vec::new();
    while placed.len() < RULES.len() {
        let left = RULES.iter().map(|(name, _)| *name).filter(|name| !placed.contains(name));
        let (mut level, above): (Vec<_>, Vec<_>) =
            left.partition(|name| edges[name].keys().all(|to| placed.contains(to.as_str())));
        assert!(!level.is_empty(), "these import each other: {above:?}");
        level.sort_unstable();
        placed.extend(&level);
        levels.push(level);
    }
    levels
}

#[test]
fn no_modules_import_each_other_and_the_page_has_their_levels() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/structure.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("<!-- levels -->\n```text\n").unwrap();
    let (_, after) = rest.split_once("```").unwrap();
    let numbered = (0..).zip(levels());
    let lines: Vec<String> =
        numbered.map(|(level, names): (u8, _)| format!("{level}  {}", names.join("  "))).collect();
    let list = lines.join("\n") + "\n";
    let wanted = format!("{before}<!-- levels -->\n```text\n{list}```{after}");
    if std::env::var_os("ROCESCOPE_BLESS").is_some() {
        std::fs::write(&path, pages::with_lines(&wanted)).unwrap();
        return;
    }
    assert!(page == wanted, "docs/structure.md is not current: ROCESCOPE_BLESS=1 writes it");
}

/// Families of findings that a file of `findings/checks` imports, by their modules.
fn families_of(path: &str, code: &str) -> BTreeSet<String> {
    const FROM: &str = "crate::findings::checks::";
    let own: Vec<&str> =
        path.trim_end_matches(".rs").split('/').skip(2).filter(|name| *name != "mod").collect();
    // As many `super` as lead to the folder of all families.
    let up = "super::".repeat(own.len());
    let mut names = BTreeSet::new();
    for prefix in [FROM, up.as_str()] {
        for (at, _) in code.match_indices(prefix) {
            let before = &code[..at];
            if before.ends_with("::") || before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let rest = &code[at + prefix.len()..];
            let Some(group) = rest.strip_prefix('{') else {
                names.extend(
                    rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().map(str::to_owned),
                );
                continue;
            };
            // The names at the first level of a group.
            let mut depth = 0;
            let mut name = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        names.insert(name.split("::").next().unwrap().trim().to_owned());
                        name.clear();
                    }
                    c if depth == 0 => name.push(c),
                    _ => {}
                }
            }
            names.insert(name.split("::").next().unwrap().trim().to_owned());
        }
    }
    names.retain(|name| !name.is_empty() && name != own[0] && name != "super");
    names
}

/// Families may use what another one works out, but not one another.
#[test]
fn no_families_of_findings_import_each_other() {
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, code) in code().iter().filter(|(path, _)| path.starts_with("findings/checks/")) {
        let family = path.split('/').nth(2).unwrap().trim_end_matches(".rs");
        if family != "mod" {
            edges.entry(family.to_owned()).or_default().extend(families_of(path, code));
        }
    }
    let known: BTreeSet<String> = edges.keys().cloned().collect();
    assert!(known.contains("loss") && edges["retry"].contains("loss"), "{edges:?}");
    for imports in edges.values_mut() {
        imports.retain(|name| known.contains(name));
    }
    let mut left = edges;
    loop {
        let free: Vec<String> = left
            .iter()
            .filter(|(_, imports)| imports.iter().all(|name| !left.contains_key(name)))
            .map(|(name, _)| name.clone())
            .collect();
        if free.is_empty() {
            break;
        }
        left.retain(|name, _| !free.contains(name));
    }
    assert!(left.is_empty(), "these import each other, or one that does: {left:?}");
}

#[test]
fn imports_of_families_are_found_in_all_forms() {
    let code = "use super::super::{ends, loss::{self, taps}};\nuse crate::findings::checks::died;\nuse super::parts;\nf(super::super::rnr::SLOW)";
    let names: Vec<String> = families_of("findings/checks/retry/asked.rs", code).into_iter().collect();
    assert_eq!(names, ["died", "ends", "loss", "rnr"]);
    let of_folder =
        families_of("findings/checks/retry/mod.rs", "use super::{ends, retry};\nuse super::super::Finding;");
    assert_eq!(of_folder.into_iter().collect::<Vec<_>>(), ["ends"]);
}

/// Layers of the terminal UI, the lowest first; imports go down. The other modules of `tui` are on the level of
/// `state`.
const TUI: [&str; 4] = ["state", "screens", "app", "runtime"];

/// Names that `tui` re-exports, and their layers.
const TUI_NAMES: &[(&str, &str)] = &[
    ("table", "screens"),
    ("mouse", "app"),
    ("App", "app"),
    ("Action", "app"),
    ("draw", "app"),
    ("render", "app"),
];

#[test]
fn layers_of_the_terminal_ui_import_downwards() {
    let layer = |name: &str| TUI.iter().position(|layer| *layer == name);
    let mut wrong = Vec::new();
    for (path, code) in code().iter().filter(|(path, _)| path.starts_with("tui/")) {
        let own = path.split('/').nth(1).and_then(layer).or(layer(TUI[0]));
        let groups = code.split("crate::tui::{").skip(1);
        let grouped = groups.flat_map(|rest| rest.split('}').next().unwrap().split(','));
        let single = code.split("crate::tui::").skip(1);
        // In a file beside the folders, `super` is `tui`.
        let beside = (path.matches('/').count() == 1).then(|| code.split("super::").skip(1));
        for import in grouped.chain(single).chain(beside.into_iter().flatten()) {
            let name = import.trim().split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap();
            let renamed = TUI_NAMES.iter().find(|(known, _)| *known == name).map(|(_, layer)| *layer);
            if path != "tui/mod.rs" && layer(renamed.unwrap_or(name)) > own {
                wrong.push(format!("{path}: {import}"));
            }
        }
    }
    assert!(wrong.is_empty(), "imports of a higher layer:\n{}", wrong.join("\n"));
}

#[test]
fn crates_with_an_outside_world_are_used_in_one_place() {
    for (name, places) in CRATES {
        let path_of = format!("{name}::");
        let uses = |code: &str| {
            code.match_indices(&path_of)
                .any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':'))
        };
        for (path, code) in code() {
            let fits = places.iter().any(|place| path.starts_with(place));
            assert!(fits || !uses(code), "{path} uses {name}");
        }
    }
}

#[test]
fn paths_are_found_in_all_forms() {
    let code = "use crate::a::b;\nuse crate::{c::D, e};\nfn f(x: crate::g::h::i::j::k) {}";
    assert_eq!(imports(code), ["crate::a::b", "crate::c::D", "crate::e", "crate::g::h::i::j"]);
}
