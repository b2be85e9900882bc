//! rocescope survives invalid input: forty seconds of mutants; `cargo xtask mutate` runs them for longer.

use std::time::Duration;

use rocescope_tests::mutation::{self, Options};
use rocescope_tests::oracle::binary;

#[test]
fn mutants_neither_break_it_nor_its_sums() {
    let seconds = std::env::var("ROCESCOPE_MUTATE_SECONDS").map_or(40, |text| text.parse().unwrap());
    let keep = tempfile::tempdir().unwrap();
    let options = Options {
        rocescope: binary::path().unwrap(),
        duration: Duration::from_secs(seconds),
        seed: 20_261_123,
        only: None,
        keep: keep.path().to_owned(),
        // The other CPU is for concurrent tests.
        jobs: 1,
    };
    let outcome = mutation::run(&options).unwrap();
    println!("{:?}", outcome.ran);
    assert_eq!(outcome.ran.len(), 4, "a kind was not run: {:?}", outcome.ran);
    if !outcome.failures.is_empty() {
        // Kept for analysis.
        let kept = keep.keep();
        panic!("mutants failed, kept in {}:\n{:#?}", kept.display(), outcome.failures);
    }
}
