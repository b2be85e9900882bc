//! The graph of the top-level modules of `analyzer/src`: each may import those that its rule names, and nothing else.
//!
//! Paths are read from the source text, so that features and platforms do not matter. Tests are not held to the rules.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

#[path = "support/source.rs"]
#[allow(dead_code, missing_docs, unreachable_pub, reason = "shared with other tests")]
mod source;
use source::{files, is_test, without_tests};

/// A module, and the modules that it may import. `cli` and the entry points may import all.
const RULES: &[(&str, &[&str])] = &[
    ("util", &[]),
    ("sample", &["metrics", "util"]),
    ("metrics", &["sample", "util"]),
    ("packet", &["sample", "util"]),
    ("filter", &["sample", "util"]),
    ("analysis", &["metrics", "sample", "util"]),
    ("findings", &["analysis", "metrics", "sample", "util"]),
    ("report", &["analysis", "findings", "metrics", "sample", "util"]),
    ("diff", &["findings", "metrics", "report", "util"]),
    ("export", &["analysis", "findings", "metrics", "report", "sample", "sandbox", "util"]),
    ("model", &["analysis", "findings", "metrics", "report", "sample", "util"]),
    ("record", &["analysis", "findings", "metrics", "model", "report", "sample", "sandbox", "util"]),
    ("share", &["analysis", "findings", "metrics", "model", "packet", "report", "sample", "util"]),
    ("fleet", &["record", "share", "util"]),
    (
        "flight",
        &["analysis", "findings", "model", "packet", "record", "report", "sample", "share", "source", "util"],
    ),
    ("host", &["util"]),
    ("sandbox", &["host", "util"]),
    ("doctor", &["host", "util"]),
    ("source", &["filter", "host", "metrics", "record", "sample", "sandbox", "util"]),
    ("bench", &["host", "source", "util"]),
    (
        "tui",
        &[
            "analysis", "filter", "findings", "metrics", "model", "packet", "report", "sample", "source",
            "util",
        ],
    ),
];

/// Imports beyond the rules: file or folder, path, reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("export/ledger.rs", "crate::source::devices", "plain values that a sample holds"),
    ("export/mod.rs", "crate::host::fdinfo", "what the kernel programs of the process take"),
    ("analysis/", "crate::source::nccl", "plain values that a sample holds"),
    ("analysis/", "crate::source::devices", "plain values that a sample holds"),
    ("analysis/", "crate::source::net", "plain values that a sample holds"),
    ("findings/", "crate::source::nccl", "plain values that a sample holds"),
    ("findings/", "crate::source::devices", "plain values that a sample holds"),
    ("sample/", "crate::source::nccl", "plain values that a sample holds"),
    ("sample/", "crate::source::devices", "plain values that a sample holds"),
    ("sample/", "crate::source::flows::owners", "plain values that a sample holds"),
    ("report/schema/", "crate::source::net::lldp", "plain values that a sample holds"),
    ("report/text/devices.rs", "crate::source::net::lldp", "plain values that a sample holds"),
    ("doctor/facts.rs", "crate::source::net::lldp", "the parser of LLDP frames, a function of bytes"),
    ("doctor/layers.rs", "crate::source::devices::lives", "the drivers whose source ports are computed"),
    ("doctor/", "crate::source::nccl::address", "the port of NCCL's RAS service"),
    ("host/listen.rs", "crate::source::net::lldp", "the parser of LLDP frames, a function of bytes"),
    ("host/qp.rs", "crate::source::flows::owners", "the type that it fills"),
    ("metrics/", "crate::source::devices", "plain values that a sample holds"),
    ("metrics/", "crate::source::net", "the parsers of LLDP and MAC control frames, functions of bytes"),
    ("metrics/", "crate::source::flows", "flows that metrics are collected for"),
    ("source/devices/", "crate::doctor", "live runs the checks of doctor in the background"),
    ("bench/", "crate::cli::output", "the interrupt, and the page that it prints"),
];

/// Modules that import each other within the rules.
const CYCLES: &[(&[&str], &str)] = &[(
    &["metrics", "sample"],
    "a sample holds results of metrics, which take links and directions of a sample",
)];

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
        &["export/otlp/", "record/clickhouse.rs", "util/clickhouse.rs", "util/request.rs", "fleet/server.rs"],
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

fn exception(path: &str, import: &str) -> Option<usize> {
    EXCEPTIONS.iter().position(|(from, to, _)| path.starts_with(from) && import.starts_with(to))
}

#[test]
fn modules_import_only_what_their_rule_names() {
    let modules: BTreeSet<&str> = RULES.iter().map(|(name, _)| *name).chain(["cli"]).collect();
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for (path, code) in code() {
        let Some((_, allowed)) = RULES.iter().find(|(name, _)| *name == module(path)) else {
            assert!(["cli", "lib", "main"].contains(&module(path)), "{path}: a module without a rule");
            continue;
        };
        for import in imports(code) {
            let to = target(&import);
            // Anything but a module is an item or a macro of the crate.
            if to == module(path) || allowed.contains(&to) || !modules.contains(to) {
                continue;
            }
            match exception(path, &import) {
                Some(at) => {
                    used.insert(at);
                }
                None => wrong.push(format!("{path}: {import}")),
            }
        }
    }
    assert!(wrong.is_empty(), "against the rules of ARCHITECTURE.md:\n{}", wrong.join("\n"));
    let stale: Vec<_> =
        (0..EXCEPTIONS.len()).filter(|at| !used.contains(at)).map(|at| EXCEPTIONS[at]).collect();
    assert!(stale.is_empty(), "exceptions that nothing needs: {stale:?}");
}

#[test]
fn modules_that_import_each_other_are_listed() {
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, code) in code() {
        for import in imports(code).iter().filter(|import| exception(path, import).is_none()) {
            let known = RULES.iter().any(|(name, _)| *name == target(import));
            if known && target(import) != module(path) {
                edges.entry(module(path).to_owned()).or_default().insert(target(import).to_owned());
            }
        }
    }
    let reachable = |from: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(next) = open.pop() {
            for to in edges.get(&next).into_iter().flatten() {
                if seen.insert(to.clone()) {
                    open.push(to.clone());
                }
            }
        }
        seen
    };
    let circles: BTreeSet<Vec<String>> = edges
        .keys()
        .filter(|from| reachable(from).contains(*from))
        .map(|from| reachable(from).into_iter().filter(|to| reachable(to).contains(from)).collect())
        .collect();
    let listed: BTreeSet<Vec<String>> =
        CYCLES.iter().map(|(names, _)| names.iter().map(|name| (*name).to_owned()).collect()).collect();
    assert_eq!(circles, listed);
}

/// Layers of the terminal UI, the lowest first; imports go down. The other modules of `tui` are on the level of `state`.
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
