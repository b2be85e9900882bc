//! The number of places with `unsafe` outside the kernel programs: it may only fall.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/source.rs"]
#[allow(dead_code, missing_docs, unreachable_pub, reason = "shared with other tests")]
mod source;
use source::{code, files, is_test, without_tests};

/// Blocks, functions, traits and implementations, by folder. Each has its `// SAFETY:` line, which clippy demands.
const MOST: [(&str, usize); 3] = [("src", 71), ("../analyzer-common/src", 0), ("../xtask/src", 2)];

/// Everything else that is compiled for this machine: tests, their programs, the build script, and the parser that
/// misbehaves.
const ELSEWHERE: [(&str, usize); 5] =
    [("src", 4), ("tests", 6), ("../tests/src", 44), ("../tests/tests", 3), ("build.rs", 1)];

/// Times that the keyword stands in code.
fn count(text: &str) -> usize {
    words(without_tests(text))
}

fn words(text: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code(text).split(|c| !is_word(c)).filter(|word| *word == "unsafe").count()
}

#[test]
fn unsafe_code_grows_nowhere() {
    for (folder, most) in MOST {
        let found: Vec<(String, usize)> = files(folder, "rs")
            .into_iter()
            // In builds for tests alone.
            .filter(|(path, _)| !is_test(path) && path != "util/hijack.rs")
            .map(|(path, text)| (path, count(&text)))
            .filter(|(_, number)| *number > 0)
            .collect();
        let sum: usize = found.iter().map(|(_, number)| number).sum();
        assert!(sum <= most, "{folder}: {sum} places with unsafe, {most} before; do without it: {found:?}");
        assert!(
            sum == most,
            "{folder}: {sum} places with unsafe, {most} before: lower MOST, so that it stays"
        );
    }
}

/// Of `src`, what [`unsafe_code_grows_nowhere`] leaves out.
#[test]
fn unsafe_code_of_tests_grows_nowhere() {
    for (place, most) in ELSEWHERE {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(place);
        let texts = if path.is_file() {
            vec![(place.to_owned(), std::fs::read_to_string(path).unwrap())]
        } else {
            files(place, "rs")
        };
        let number = |(path, text): &(String, String)| {
            let is_of_product = place == "src" && !is_test(path) && path != "util/hijack.rs";
            words(text) - if is_of_product { count(text) } else { 0 }
        };
        let found: Vec<(&str, usize)> =
            texts.iter().map(|text| (text.0.as_str(), number(text))).filter(|(_, n)| *n > 0).collect();
        let sum: usize = found.iter().map(|(_, number)| number).sum();
        assert!(sum <= most, "{place}: {sum} places with unsafe, {most} before; do without it: {found:?}");
        assert!(
            sum == most,
            "{place}: {sum} places with unsafe, {most} before: lower ELSEWHERE, so that it stays"
        );
    }
}

#[test]
fn names_and_comments_do_not_count() {
    let text = "// unsafe\nfn unshare_unsafe() { let s = \"unsafe\"; unsafe { call() } }\n#[cfg(test)]\nmod tests {\nunsafe {}\n}";
    assert_eq!(count(text), 1);
}
