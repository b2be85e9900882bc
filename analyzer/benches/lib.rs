//! Benchmarks: `cargo bench -p rocescope-benches`.
