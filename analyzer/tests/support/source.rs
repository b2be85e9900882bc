//! Source files as text, for tests that hold rules over them.

use std::fs;
use std::path::{Path, PathBuf};

/// Every file below `folder` (relative to the package) that ends in `.extension`: its path in the folder, and its text.
pub fn files(folder: &str, extension: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let (mut found, mut open): (Vec<PathBuf>, Vec<PathBuf>) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|one| one == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no .{extension} below {}", root.display());
    let name = |path: &Path| path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
    found.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

/// A piece of a source file, with the line at which it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Code other than the below.
    Code(usize, String),
    /// The text of a comment, without its slashes.
    Comment(usize, String),
    /// The value of a string, as far as a reader sees it.
    Literal(usize, String),
}

/// The pieces of a Rust file in their order.
pub fn pieces(text: &str) -> Vec<Piece> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let (mut all, mut code, mut i, mut line, mut code_line) = (Vec::new(), String::new(), 0, 1, 1);
    while i < chars.len() {
        let raw = raw_string(&chars, i);
        let is_char = at(i) == '\'' && (at(i + 1) == '\\' || at(i + 2) == '\'');
        if !(at(i) == '/' && matches!(at(i + 1), '/' | '*') || at(i) == '"' || raw.is_some() || is_char) {
            code.push(at(i));
            line += usize::from(at(i) == '\n');
            i += 1;
            continue;
        }
        let start = i;
        let value = if at(i) == '/' && at(i + 1) == '/' {
            while i < chars.len() && at(i) != '\n' {
                i += 1;
            }
            let text: String = chars[start..i].iter().collect();
            Some(Piece::Comment(line, text.trim_start_matches(['/', '!']).trim().to_owned()))
        } else if at(i) == '/' {
            while i < chars.len() && !(at(i) == '*' && at(i + 1) == '/') {
                i += 1;
            }
            i += 2;
            Some(Piece::Comment(line, chars[start + 2..i.min(chars.len())].iter().collect()))
        } else if let Some((from, to, end)) = raw {
            i = end;
            Some(Piece::Literal(line, chars[from..to].iter().collect()))
        } else if is_char {
            i += if at(i + 1) == '\\' { 3 } else { 2 };
            while i < chars.len() && at(i) != '\'' {
                i += 1;
            }
            i += 1;
            None
        } else {
            let (value, end) = string(&chars, i + 1);
            i = end;
            Some(Piece::Literal(line, value))
        };
        if !code.is_empty() {
            all.push(Piece::Code(code_line, std::mem::take(&mut code)));
        }
        line += chars[start..i.min(chars.len())].iter().filter(|c| **c == '\n').count();
        code_line = line;
        all.extend(value);
    }
    all.push(Piece::Code(code_line, code));
    all
}

/// The raw string that begins at `i`: where its value begins and ends, and what follows.
fn raw_string(chars: &[char], i: usize) -> Option<(usize, usize, usize)> {
    let word = |c: &char| c.is_alphanumeric() || *c == '_';
    if chars.get(i) != Some(&'r') || i > 0 && chars.get(i - 1).is_some_and(|c| word(c) && *c != 'b') {
        return None;
    }
    let hashes = chars[i + 1..].iter().take_while(|c| **c == '#').count();
    let from = i + 1 + hashes;
    if chars.get(from) != Some(&'"') {
        return None;
    }
    let ends =
        |at: &usize| chars[*at] == '"' && chars[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
    let to = (from + 1..chars.len()).find(ends)?;
    Some((from + 1, to, to + 1 + hashes))
}

/// The value of a string whose first character is at `i`, and what follows it.
fn string(chars: &[char], mut i: usize) -> (String, usize) {
    let mut value = String::new();
    while let Some(c) = chars.get(i).filter(|c| **c != '"') {
        if *c != '\\' {
            value.push(*c);
            i += 1;
            continue;
        }
        match chars.get(i + 1) {
            // The line continues behind the spaces of the next.
            Some('\n') => {
                i += 2;
                while chars.get(i).is_some_and(|c| c.is_whitespace()) {
                    i += 1;
                }
            }
            Some('u') => {
                value.push('\u{fffd}');
                while chars.get(i).is_some_and(|c| *c != '}') {
                    i += 1;
                }
                i += 1;
            }
            Some(escaped) => {
                value.push(if matches!(escaped, 'n' | 't') { ' ' } else { *escaped });
                i += 2;
            }
            None => i += 1,
        }
    }
    (value, i + 1)
}

/// The code of a file: without comments, and with empty strings.
pub fn code(text: &str) -> String {
    let kept = pieces(text).into_iter().map(|piece| match piece {
        Piece::Code(_, code) => code,
        Piece::Comment(..) => String::new(),
        Piece::Literal(..) => "\"\"".to_owned(),
    });
    kept.collect()
}

/// A file up to its test module.
pub fn without_tests(text: &str) -> &str {
    const MARK: &str = "#[cfg(test)]";
    let end = text.match_indices(MARK).map(|(at, _)| at).find(|at| {
        let rest = text[at + MARK.len()..].trim_start();
        let rest = rest.strip_prefix("pub(crate) ").unwrap_or(rest);
        rest.strip_prefix("mod ")
            .is_some_and(|name| name.lines().next().is_some_and(|line| line.ends_with('{')))
    });
    &text[..end.unwrap_or(text.len())]
}

/// True if a file holds tests only.
pub fn is_test(path: &str) -> bool {
    let ends = [
        "tests.rs",
        "fixtures.rs",
        "testing.rs",
        "host/recorded.rs",
        "steps/simulate.rs",
        "steps/variants.rs",
    ];
    ends.iter().any(|end| path.ends_with(end)) || path.contains("/tests/")
}
