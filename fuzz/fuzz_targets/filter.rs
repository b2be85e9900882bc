//! Any text as a filter expression, for the source and for the view.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocescope::filter::Filter;
use rocescope::tui::query::vocabulary;
use rocescope_fuzz::{root, seeds};

/// The expressions in `seeds/filter`.
fn made() -> Vec<Vec<u8>> {
    let folder = std::fs::read_dir(root().join("fuzz/seeds/filter")).expect("the folder is there");
    folder.flatten().filter_map(|entry| std::fs::read(entry.path()).ok()).collect()
}

fuzz_target!(init: seeds(made), |text: &str| {
    let (view, mistake) = Filter::view(text, vocabulary());
    let source = Filter::source(text, vocabulary());
    for error in mistake.iter().chain(source.as_ref().err()) {
        // The position of a mistake at the end is after the last character.
        assert!((1..=text.chars().count() + 1).contains(&error.column()), "{error:?}");
        assert!(error.to_string().starts_with(&error.one_line()));
    }
    // A word that contains both kinds of quotes cannot be quoted.
    if let (Some(filter), None, false) = (view, mistake, text.contains(['"', '\''])) {
        let canonical = filter.expr().to_string();
        let (again, error) = Filter::view(&canonical, vocabulary());
        assert_eq!((again.map(|filter| filter.expr().to_string()), error), (Some(canonical), None));
    }
});
