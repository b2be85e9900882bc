//! No files within a top-level module import each other, over any number of others.
//!
//! A file may import what its parents hold, and re-exports lead to what they name.

use std::collections::{BTreeMap, BTreeSet};

/// Files whose imports are not counted, with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("analysis/facts/", "facts hold those of every part, which are computed from facts"),
    ("analysis/device_qp.rs", "a queue pair holds what is computed from it"),
    ("cli/record.rs", "recording starts a live run, which names the origin of its rows"),
    ("findings/catalog.rs", "the table of all families, which finds the declaration of a finding"),
    ("findings/finding.rs", "a finding holds its subject and flows, which are taken from findings"),
];

type Path = Vec<String>;

/// Names, `::` and signs.
fn tokens(code: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut all, mut rest) = (Vec::new(), code.trim_start());
    while let Some(first) = rest.chars().next() {
        let length = match first {
            ':' if rest.starts_with("::") => 2,
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        all.push(token);
        rest = after.trim_start();
    }
    all
}

/// The paths of a `use` from `at` on, each with the name that it gets.
fn tree(tokens: &[&str], at: &mut usize, prefix: &[String], all: &mut Vec<(Path, String)>) {
    let (mut path, mut name) = (prefix.to_vec(), None);
    while let Some(token) = tokens.get(*at).filter(|token| !matches!(**token, "," | "}" | ";")) {
        *at += 1;
        match *token {
            "::" => {}
            "{" => {
                while tokens.get(*at).is_some_and(|token| *token != "}") {
                    tree(tokens, at, &path, all);
                    *at += usize::from(tokens.get(*at) == Some(&","));
                }
                *at += 1;
                return;
            }
            "as" => {
                name = tokens.get(*at).map(|name| (*name).to_owned());
                *at += 1;
            }
            token => path.push(token.to_owned()),
        }
    }
    let last = name.or_else(|| path.last().cloned()).unwrap_or_default();
    all.push((path, last));
}

/// Paths that a file imports or names, and those that it re-exports, with their names.
fn paths(code: &str) -> (Vec<Path>, Vec<(Path, String)>) {
    let tokens = tokens(code);
    let (mut named, mut again, mut at) = (Vec::new(), Vec::new(), 0);
    while at < tokens.len() {
        // Not the bounds of a type, `use<'a>`.
        if tokens[at] == "use" && tokens.get(at + 1) != Some(&"<") {
            // `pub use`, `pub(super) use`.
            let public = at > 0 && matches!(tokens[at - 1], "pub" | ")");
            let mut all = Vec::new();
            at += 1;
            tree(&tokens, &mut at, &[], &mut all);
            if public {
                again.extend(all);
            } else {
                named.extend(all.into_iter().map(|(path, _)| path));
            }
            continue;
        }
        let mut path = vec![tokens[at].to_owned()];
        at += 1;
        while tokens.get(at) == Some(&"::") {
            path.extend(tokens.get(at + 1).map(|name| (*name).to_owned()));
            at += 2;
        }
        if path.len() > 1 {
            named.push(path);
        }
    }
    (named, again)
}

/// The module of a file.
fn module(file: &str) -> Path {
    let path = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect::<Path>();
    let keep = path.len() - usize::from(["mod", "lib", "main"].contains(&path[path.len() - 1].as_str()));
    path[..keep].to_vec()
}

#[derive(Default)]
struct Modules {
    files: BTreeMap<Path, String>,
    again: BTreeMap<(Path, String), Path>,
}

impl Modules {
    /// The path from the root of the crate; `None` of one that does not begin with a module.
    fn absolute(&self, own: &[String], path: &[String]) -> Option<Path> {
        let ups = path.iter().take_while(|name| *name == "super").count();
        let (base, rest) = match path[0].as_str() {
            "crate" => (&[][..], 1),
            "self" => (own, 1),
            "super" => (&own[..own.len().checked_sub(ups)?], ups),
            first => (self.files.contains_key(&[own, &[first.to_owned()]].concat()).then_some(own)?, 0),
        };
        Some([base, &path[rest..]].concat())
    }

    /// The module that holds what a path names.
    fn target(&self, path: &[String], depth: u8) -> Path {
        let mut at = Path::new();
        for (place, name) in path.iter().enumerate() {
            at.push(name.clone());
            if self.files.contains_key(&at) {
                continue;
            }
            at.pop();
            return match self.again.get(&(at.clone(), name.clone())) {
                Some(other) if depth > 0 => self.target(&[other, &path[place + 1..]].concat(), depth - 1),
                _ => at,
            };
        }
        at
    }
}

/// The files that import each other, with what they import of one another.
fn circles(
    code: &BTreeMap<String, String>,
    exceptions: &[(&str, &str)],
) -> BTreeMap<String, BTreeSet<String>> {
    let files = code.keys().map(|file| (module(file), file.clone())).collect();
    let mut all = Modules { files, ..Modules::default() };
    let found: Vec<_> = code.iter().map(|(file, code)| (file, module(file), paths(code))).collect();
    for (_, own, (_, again)) in &found {
        for (path, name) in again {
            if let Some(path) = all.absolute(own, path) {
                all.again.insert((own.clone(), name.clone()), path);
            }
        }
    }
    let mut left: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, own, (named, _)) in &found {
        let targets = named.iter().filter_map(|path| Some(all.target(&all.absolute(own, path)?, 6)));
        let others = targets.filter(|to| !own.starts_with(to) && to.first() == own.first());
        let counts = !exceptions.iter().any(|(start, _)| file.starts_with(start));
        let imports = others.filter(|_| counts).map(|to| all.files[&to].clone()).collect();
        left.insert((*file).clone(), imports);
    }
    // What leads nowhere, and to what nothing leads, is in no circle.
    loop {
        let led_to: BTreeSet<String> = left.values().flatten().cloned().collect();
        let known: BTreeSet<String> = left.keys().cloned().collect();
        for imports in left.values_mut() {
            imports.retain(|to| known.contains(to));
        }
        let before = left.len();
        left.retain(|file, imports| !imports.is_empty() && led_to.contains(file));
        if left.len() == before {
            return left;
        }
    }
}

#[test]
fn no_files_within_a_module_import_each_other() {
    let found = circles(super::code(), EXCEPTIONS);
    assert!(found.is_empty(), "these import each other, or lead from one circle to another: {found:#?}");
    for (place, _) in EXCEPTIONS {
        let fewer: Vec<_> = EXCEPTIONS.iter().copied().filter(|(other, _)| other != place).collect();
        assert!(!circles(super::code(), &fewer).is_empty(), "{place} needs no exception");
    }
}

#[test]
fn circles_are_found_in_all_forms() {
    let of = |files: &[(&str, &str)]| {
        let code = files.iter().map(|(file, code)| ((*file).to_owned(), (*code).to_owned())).collect();
        circles(&code, &[]).into_keys().collect::<Vec<_>>()
    };
    let parent = ("a/mod.rs", "mod b; mod c; pub use b::{B as Other, inner::I}; use c::C; struct P;");
    let b = ("a/b.rs", "use std::{io, fmt::{self, Write as _}}; use super::{P, c::{self, D}};");
    // A child may use its parent, and one file another.
    assert!(of(&[parent, b, ("a/c.rs", "use super::P; fn f(x: crate::a::P) {}")]).is_empty());
    for import in
        ["use super::b::X;", "fn f() { crate::a::b::g() }", "use crate::a::{P, Other};", "super::b::x!();"]
    {
        assert_eq!(of(&[parent, b, ("a/c.rs", import)]), ["a/b.rs", "a/c.rs"], "{import}");
    }
    // Over a third, in folders; what uses the circle without being of it is not named.
    let far = ("a/c/mod.rs", "mod d; fn f() { d::g() }");
    let found =
        of(&[parent, b, far, ("a/c/d.rs", "use super::super::b::X;"), ("a/e.rs", "use super::b::X;")]);
    assert_eq!(found, ["a/b.rs", "a/c/d.rs", "a/c/mod.rs"]);
}
